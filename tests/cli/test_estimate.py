"""`sweep estimate`: what it counts, in which units, and how good it is."""

import re

import numpy as np
import pytest

from sweep_service import text
from sweep_service.cli.answers import DONE, REFUSED
from sweep_service.presets import PRESETS, preset_text
from tests.cli.commands import SMALL, sweep, trace_of
from tests.cli.test_bad_specs import bad_axis

QUICK = [name for name in PRESETS if "-full" not in name]


def test_an_estimate_counts_what_would_be_computed(tmp_path):
    found = sweep(tmp_path, "estimate", "-", "--json", text=SMALL).json
    assert (found["points"], found["runs"]) == (4, 24)
    assert (found["reused"], found["copies"]) == (0, 4)  # one theory for both d
    steps = sum(4 * 2.0 * 4 * d / gamma for d in (5, 8) for gamma in (0.1, 0.5))
    assert found["sgd_steps"] == pytest.approx(steps)
    assert found["core_seconds"] > 0
    assert {"d", "gamma", "core_seconds"} <= set(found["dearest"])
    assert found["refused"] is None
    text = sweep(tmp_path, "estimate", "-", text=SMALL).out
    assert re.search(r"^runs +24: 20 to compute, 4 equal to others$", text, re.MULTILINE)
    assert re.search(r"^core time +[\d.]+ s$", text, re.MULTILINE)
    assert re.search(r"^size +[\d.]+ kB at most$", text, re.MULTILINE)
    assert re.search(r"^dearest +d = \d, p = 4, gamma = 0.\d: (less than )?[\d.]+ s$", text, re.MULTILINE)
    assert trace_of(tmp_path) == []


def test_an_estimate_knows_what_is_stored(filled):
    cwd, _ = filled
    found = sweep(cwd, "estimate", "-", "--json", text={**SMALL, "seeds": {"init": 3, "repeat": 2}}).json
    assert (found["runs"], found["reused"], found["copies"]) == (36, 20, 6)
    again = sweep(cwd, "estimate", "-", text=SMALL).out
    assert "0 to compute, 20 stored already" in again
    assert "dearest" not in again


def test_an_estimate_says_that_a_sweep_would_be_refused(tmp_path):
    dear = {**SMALL, "time": {"max": 1e12, "samples": 3}}
    answer = sweep(tmp_path, "estimate", "-", text=dear)
    assert answer.code == DONE
    assert re.search(r"^core time +[\d.]+ years$", answer.out, re.MULTILINE)
    assert "would be refused: core_hours" in answer.out
    assert "core_hours" in sweep(tmp_path, "estimate", "-", "--json", text=dear).json["refused"]


def test_many_points_are_announced(tmp_path):
    many = {**SMALL, "axes": {"d": {"lin": [100, 5099, 5000]}, "p": 4, "gamma": [0.1, 0.2]}, "seeds": 10000}
    answer = sweep(tmp_path, "run", "-", text=many)  # refused by its number of runs, which is quick
    assert answer.code == REFUSED
    assert answer.err.startswith("preparing 10000 points\nsweep: runs")
    assert trace_of(tmp_path) == []


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (text.duration(0.0), "0 s"),
        (text.duration(0.25), "0.25 s"),
        (text.duration(12.3), "12 s"),
        (text.duration(59.0), "59 s"),
        (text.duration(89.0), "1.5 min"),
        (text.duration(300.0), "5 min"),
        (text.duration(4680.0), "1.3 h"),
        (text.duration(36e6), "1.1 years"),
        (text.duration(float("inf")), "without end"),
        (text.size(12), "12 bytes"),
        (text.size(2_400_000), "2.4 MB"),
        (text.size(999_999), "1000 kB"),
        (text.few_digits(88_800_000.0), "8.88e7"),
        (text.few_digits(100000.0), "1e5"),
        (text.few_digits(1234.5), "1234"),
        (text.few_digits(0.5), "0.5"),
        (text.few_digits(1e-4), "1e-4"),
        (text.few_digits(100), "100"),
        (text.few_digits("erf"), "erf"),
    ],
)
def test_people_get_their_units(found, text):
    assert found == text


def test_an_endless_cost_is_still_json(tmp_path):
    answer = sweep(tmp_path, "estimate", "-", "--json", text=bad_axis(gamma=1e-320))
    assert answer.code in (DONE, REFUSED)
    if answer.code == DONE:
        assert answer.json["points"] == 2


RANDOM = 5


def random_spec(seed):
    """Around ten seconds of work somewhere in the plane that sweeps are made for."""
    rng = np.random.default_rng(seed)
    d, p = int(rng.integers(5, 300)), int(rng.integers(2, 40))
    gamma = float(np.round(10.0 ** rng.uniform(-1.5, 0.0), 3))
    regimes = rng.choice(["classical_noise", "high_dimensional", "mean_field", "classical"], 2, replace=False)
    steps = 2e6 / (1 + p * d / 300)
    return {
        "axes": {"d": [d, 2 * d], "p": p, "gamma": [gamma, 2 * gamma], "regime": regimes.tolist()},
        "fixed": {"k": 2, "noise": 1e-3},
        "init": {"kind": "gaussian", "orthonormal_teacher": True},
        "seeds": {"init": int(rng.integers(1, 5)), "repeat": int(rng.integers(1, 5))},
        "time": {"max": float(f"{steps * gamma / (p * d):.3g}"), "samples": 40},
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("wanted", [*QUICK, *range(RANDOM)])
def test_an_estimate_is_within_a_factor_of_two_after_the_doctor(tmp_path, wanted):
    """Of what the runs report themselves, as the machine is shared."""
    text = preset_text(wanted) if isinstance(wanted, str) else random_spec(wanted)
    assert sweep(tmp_path, "doctor", "--json").code == DONE
    predicted = sweep(tmp_path, "estimate", "-", "--json", text=text).json["core_seconds"]
    about = sweep(tmp_path, "run", "-", "--json", text=text).json
    measured = about["core_seconds"]
    print(
        f"{wanted}: measured {measured:.2f} s, predicted {predicted:.2f} s, ratio {measured / predicted:.2f}"
    )
    assert 0.5 < measured / predicted < 2.0
