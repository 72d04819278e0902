"""The accuracy that the seeds of a spec give, against theories and runs of the same point."""

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.abandonment import abandoned_if
from sweep_service.analysis.error_bars.representatives import Candidate, choose_representatives
from sweep_service.analysis.error_bars.spec_seeds import choose_smaller_error, predict_seeds
from sweep_service.errors import InvalidInput, Stopped
from sweep_service.planning.costs import Calibration
from sweep_service.planning.grids import Grid
from sweep_service.planning.outline import Outline

POINT = {"d": 50, "p": 2, "gamma": 0.5, "k": 2, "noise": 0.01}
SPEC = {
    "axes": {"d": 50, "p": 2, "gamma": 0.5},
    "fixed": {"k": 2, "noise": 0.01},
    "init": {"kind": "informed"},
    "seeds": {"init": 1, "repeat": 16},
    "time": {"min": 0.1, "max": 2.0, "samples": 8},
}


def predict(changes=None, relative_error=None):
    return predict_seeds(Outline.read({**SPEC, **(changes or {})}), Calibration(), relative_error)


def integrate(times, seed, **options):
    point = {**POINT, "init": SPEC["init"]}
    return ss.integrate(point, times=times, regime="high_dimensional", seed=seed, **options)


def test_one_start_is_that_of_the_theory():
    answer = predict(relative_error=0.01)
    (point,) = answer["points"]
    theory = integrate(point["time"], 0, fluctuations=True).sweep.seeds_needed(relative_error=0.01)
    np.testing.assert_allclose(point["scatter"], theory["predicted_scatter"], rtol=1e-12)
    np.testing.assert_allclose(point["error"], theory["predicted_scatter"] / 4, rtol=1e-12)  # 16 repeats
    assert point["seeds"] == theory["predicted"].values.tolist()
    assert (answer["draws"], answer["draws_are"]) == (16, "repeats")
    assert answer["summary"][0].startswith("With 16 repeats the risk at t = 2 will be known to ")
    assert "one seed" in answer["notes"][0]


def test_starts_add_their_scatter():
    (point,) = predict({"seeds": {"init": 4, "repeat": 2}})["points"]
    curves = integrate(point["time"], [0, 1, 2, 3])["risk"]
    first = integrate(point["time"], 0, fluctuations=True)
    delta_t = 0.5 / (2 * 50)
    mean = curves.mean("seed") + delta_t * first["risk_shift"]
    variance = curves.var("seed", ddof=1) + delta_t * first["risk_std"] ** 2 / 2
    np.testing.assert_allclose(point["scatter"], variance**0.5 / mean, rtol=1e-10)
    np.testing.assert_allclose(point["error"], variance**0.5 / mean / 2, rtol=1e-10)


def test_prediction_agrees_with_runs():
    (point,) = predict()["points"]
    runs = ss.simulate({**POINT, "init": SPEC["init"]}, times=point["time"], repeat=range(800))["risk"]
    measured = runs.std("repeat", ddof=1) / runs.mean("repeat")
    # The sd of 800 runs has an error of 2.5 %, and the theory of 1 to 5 %.
    np.testing.assert_allclose(point["scatter"][1:], measured[1:], rtol=0.12)


def test_largest_error_comes_first_and_sets_the_one_that_is_wanted():
    same_start = {"kind": "informed", "shared": True}
    answer = predict({"axes": {"d": [20, 200, 2000], "p": 2, "gamma": 0.5}, "init": same_start})
    assert [point["at"]["d"] for point in answer["points"]] == [20, 200, 2000]
    assert [point["title"] for point in answer["points"]] == [
        "the largest δt", "a middle δt", "the smallest δt",
    ]  # fmt: skip
    errors = [point["error"][-1] for point in answer["points"]]
    np.testing.assert_allclose(errors, errors[0] * np.sqrt([1, 0.1, 0.01]), rtol=0.05)  # shifts by O(δt)
    # At most 0.55 of it, and the steps 1, 2, 5 and 10 differ by factors of up to 2.5.
    assert 0.22 * errors[0] < answer["relative_error"] <= 0.55 * errors[0]
    assert len(answer["summary"]) == 3


@pytest.mark.parametrize(
    ("error", "smaller"), [(0.04, 0.02), (0.041, 0.02), (0.019, 0.01), (0.3, 0.1), (0.0018, 0.0005)]
)
def test_error_about_half(error, smaller):
    assert choose_smaller_error(error) == smaller


@pytest.mark.parametrize(
    ("changes", "phrase"),
    [
        ({"simulate": False, "axes": {**SPEC["axes"], "regime": "classical"}}, "no runs of SGD"),
        ({"axes": {"d": 100, "p": 25, "gamma": 0.5}, "time": {"max": 1e4}}, "at most 2 s are allowed"),
        ({"axes": {"d": 100, "p": 100, "gamma": 0.5}}, "at most 2 s are allowed"),
        ({"axes": {"d": 100, "p": 100, "gamma": 0.5, "activation": ["relu"]}}, "p = 100 is too large"),
    ],
)
def test_reason_why_there_is_no_prediction(changes, phrase):
    answer = predict(changes)
    assert (answer["points"], answer["summary"]) == ([], [])
    assert phrase in answer["notes"][0]


def test_only_some_points_of_a_large_spec_are_looked_at(monkeypatch):
    parsed, point = [], Grid.point
    monkeypatch.setattr(Grid, "point", lambda grid, index: parsed.append(index) or point(grid, index))
    answer = predict({"axes": {"d": 50, "p": 2, "gamma": {"log": [0.01, 1.0, 100_000]}}})
    assert len(parsed) == 64
    assert {0, 99_999} <= set(parsed)
    assert [row["at"]["gamma"] for row in answer["points"] if "largest" in row["title"]] == [1.0]


def test_representatives_fit_into_the_time():
    prices = [0.5, 3.0, 0.5, 0.7, 9.0]  # in the order of δt
    candidates = [Candidate(at, None, seconds, 0.1) for at, seconds in enumerate(prices)]
    chosen = [(c.candidate.position, c.title) for c in choose_representatives(candidates, 3, 1.9)]
    assert chosen == [(3, "the largest δt"), (0, "the smallest δt")]  # 0.9 + 0.7, and 0.3 are left


def test_abandoned_prediction_ends():
    outline, asked = Outline.read({**SPEC, "axes": {"d": 50, "p": 8, "gamma": 0.5}}), []
    with abandoned_if(lambda: len(asked) > 3 or asked.append(1)), pytest.raises(Stopped):
        predict_seeds(outline, Calibration())


@pytest.mark.parametrize("error", [0, -1.0, "much"])
def test_bad_error_is_refused(error):
    with pytest.raises(InvalidInput, match="relative_error"):
        predict(relative_error=error)
