"""`sweep estimate`: counts, units and accuracy."""

import re

import pytest

from sweep_service import text
from sweep_service.cli.answers import DONE, REFUSED
from sweep_service.presets import read_preset_text
from tests.cli.commands import assert_refused, list_files, run_command
from tests.cli.test_bad_specs import changed_axes
from tests.specs import SMALL_SPEC

# Some seconds each; together SGD by S1 to S3, and theories with, without and beyond mean field.
CHEAP_PRESETS = ["fig2-left", "fig3-left", "fig3-right", "fig5a", "fig5c", "phase-diagram", "rates"]


def test_estimate_counts_runs_and_steps(tmp_path):
    estimate = run_command(tmp_path, "estimate", "-", "--json", text=SMALL_SPEC).json
    assert (estimate["points"], estimate["runs"]) == (4, 24)
    assert (estimate["reused"], estimate["copies"]) == (0, 4)  # one theory for both d
    steps = sum(4 * 2.0 * 4 * d / gamma for d in (5, 8) for gamma in (0.1, 0.5))
    assert estimate["sgd_steps"] == pytest.approx(steps)
    assert estimate["core_seconds"] > 0
    assert {"d", "gamma", "core_seconds"} <= set(estimate["dearest"])
    assert estimate["refused"] is None
    text = run_command(tmp_path, "estimate", "-", text=SMALL_SPEC).out
    assert re.search(r"^runs +24: 20 to compute, 4 copies of others$", text, re.MULTILINE)
    assert re.search(r"^core time +(less than )?[\d.]+ s$", text, re.MULTILINE)
    assert re.search(r"^of which +SGD .* s \(16 runs\), classical_noise .* s \(4 runs\)$", text, re.MULTILINE)
    assert re.search(r"^size +[\d.]+ kB at most$", text, re.MULTILINE)
    assert re.search(r"^costliest +d = \d, p = 4, gamma = 0.\d: (less than )?[\d.]+ s$", text, re.MULTILINE)
    assert list_files(tmp_path) == []


def test_estimate_counts_stored_runs(stored_sweep):
    cwd, _ = stored_sweep
    estimate = run_command(
        cwd, "estimate", "-", "--json", text={**SMALL_SPEC, "seeds": {"init": 3, "repeat": 2}}
    ).json
    assert (estimate["runs"], estimate["reused"], estimate["copies"]) == (36, 20, 6)
    again = run_command(cwd, "estimate", "-", text=SMALL_SPEC).out
    assert "0 to compute, 20 already stored" in again
    assert "costliest" not in again


def test_estimate_reports_that_a_sweep_would_be_refused(tmp_path):
    costly = {**SMALL_SPEC, "time": {"max": 1e12, "samples": 3}}
    answer = run_command(tmp_path, "estimate", "-", text=costly)
    assert answer.code == DONE
    assert re.search(r"^core time +[\d.]+ years$", answer.out, re.MULTILINE)
    assert "would be refused: core_hours" in answer.out
    assert "core_hours" in run_command(tmp_path, "estimate", "-", "--json", text=costly).json["refused"]


def test_many_points_are_announced(tmp_path):
    many = {
        **SMALL_SPEC,
        "axes": {"d": {"lin": [100, 5099, 5000]}, "p": 4, "gamma": [0.1, 0.2]},
        "time": {"max": 1e12, "samples": 3},
    }
    answer = run_command(tmp_path, "run", "-", text=many)
    assert answer.code == REFUSED
    assert answer.err.startswith("preparing 10000 points\nsweep: core_hours")
    answer = run_command(tmp_path, "run", "-", text={**many, "seeds": 10000})
    assert_refused(answer, "runs = ")  # by counting, so nothing is prepared
    assert list_files(tmp_path) == []


@pytest.mark.parametrize(
    ("formatted", "expected"),
    [
        (text.format_duration(0.0), "0 s"),
        (text.format_duration(0.25), "0.25 s"),
        (text.format_duration(12.3), "12 s"),
        (text.format_duration(59.0), "59 s"),
        (text.format_duration(89.0), "1.5 min"),
        (text.format_duration(300.0), "5 min"),
        (text.format_duration(4680.0), "1.3 h"),
        (text.format_duration(36e6), "1.1 years"),
        (text.format_duration(float("inf")), "infinite"),
        (text.format_size(12), "12 bytes"),
        (text.format_size(2_400_000), "2.4 MB"),
        (text.format_size(999_999), "1000 kB"),
        (text.format_number(88_800_000.0), "8.88e7"),
        (text.format_number(100000.0), "1e5"),
        (text.format_number(1234.5), "1234"),
        (text.format_number(0.5), "0.5"),
        (text.format_number(1e-4), "1e-4"),
        (text.format_number(100), "100"),
        (text.format_number("erf"), "erf"),
    ],
)
def test_formatting_of_quantities(formatted, expected):
    assert formatted == expected


def test_infinite_cost_is_valid_json(tmp_path):
    answer = run_command(tmp_path, "estimate", "-", "--json", text=changed_axes(gamma=1e-320))
    assert answer.code in (DONE, REFUSED)
    if answer.code == DONE:
        assert answer.json["points"] == 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_estimates_of_presets_are_within_a_factor_of_two_after_calibration(tmp_path):
    """Compared with the processor time of the runs, as other processes share the machine.

    `python -m benchmarks prices` compares random specs of every activation, simulator and regime.
    """
    assert run_command(tmp_path, "doctor", "--json").code == DONE
    ratios = {}
    for name in CHEAP_PRESETS:
        text = read_preset_text(name)
        predicted = run_command(tmp_path, "estimate", "-", "--json", text=text).json["core_seconds"]
        measured = run_command(tmp_path, "run", "-", "--json", text=text).json["core_seconds"]
        ratios[name] = measured / predicted
    print(ratios)
    assert all(0.5 < ratio < 2.0 for ratio in ratios.values())
