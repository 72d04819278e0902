"""Phase diagrams against plain NumPy on real sweeps: grids and points, diverged and pending runs."""

import json

import numpy as np
import pytest

from sweep_service.analysis import point_values as module
from sweep_service.analysis.phase_diagram import REDUCTIONS, diagram_to_json
from sweep_service.analysis.phase_diagram import phase_diagram as labelled_diagram
from sweep_service.analysis.point_values import VALUES
from sweep_service.analysis.selection import select_variables
from sweep_service.errors import InvalidInput, Stopped
from sweep_service.status import Status
from tests.analysis.synthetic import make_dataset, time_average
from tests.stored import ONE_RUN_PER_BUNDLE, StoppingExecutor, compute_dataset

WILD = {
    "axes": {
        "d": [5, 8], "p": [2, 4], "gamma": [0.1, 0.3, 20.0], "activation": ["erf", "square"],
        "regime": ["classical", "high_dimensional"],
    },
    "fixed": {"k": 2},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 4.0, "samples": 6, "tail": 5},
}  # fmt: skip
SMALL = {**WILD, "axes": {"d": [5, 8], "p": 4, "gamma": [0.1, 0.3]}}
POINTS = {
    **WILD,
    "axes": {"d": [5, 8, 10], "kappa": [0.0, 0.5], "delta": 0.5, "noise": [0.0, 0.1], "regime": "classical"},
    "scaling": {"p0": 2, "gamma0": 1},
}


@pytest.fixture(scope="module")
def wild(tmp_path_factory):
    result = compute_dataset(tmp_path_factory.mktemp("wild"), WILD)
    diverged = (result.sgd_status == Status.DIVERGED).sum(["seed", "repeat"]).values
    assert {0, 4} <= set(diverged.reshape(-1))  # of four; rounding decides some others
    return result


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    return compute_dataset(tmp_path_factory.mktemp("points"), POINTS)


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """A sweep that was stopped when some of its runs were done."""
    executor, outcome = StoppingExecutor(6), pytest.raises(Stopped)
    result = compute_dataset(tmp_path_factory.mktemp("half"), SMALL, executor, outcome, ONE_RUN_PER_BUNDLE)
    runs = (result.sgd_status > Status.PENDING).sum(["seed", "repeat"]).values
    assert runs.min() == 0
    assert set(runs.reshape(-1)) - {0, 4}
    return result


def phase_diagram(*args, **where):
    """The diagram as plain data."""
    return diagram_to_json(labelled_diagram(*args, **where))


def mean_of(numbers):
    """Mean of the values that are not NaN, and their number."""
    finite = numbers[~np.isnan(numbers)]
    return (float(np.mean(finite)), len(finite)) if len(finite) else (np.nan, 0)


def expected(dataset, name, at, times):
    """A time average for each run, then a mean over the runs; NumPy's integral is NaN if one value is."""
    array = dataset[name].sel(at)
    values = array.transpose(*array.dims).values[..., np.isin(dataset.time.values, times)]
    ended = np.isin(dataset[f"{name[:3]}_status"].sel(at).values, [Status.DONE, Status.DIVERGED])
    length = times[-1] - times[0]
    with np.errstate(all="ignore"):  # values overflow just before a divergence
        averages = np.trapezoid(values, times, axis=-1) / length if length else values[..., 0]
    return mean_of(np.where(ended, averages, np.nan).reshape(-1))


def assert_grid(result, dataset, name, at, times):
    x, y = result["x"]["name"], result["y"]["name"]
    assert result["form"] == "grid"
    assert result["x"]["values"] == dataset[x].values.tolist()
    assert result["y"]["values"] == dataset[y].values.tolist()
    for row, down in enumerate(result["y"]["values"]):
        for column, right in enumerate(result["x"]["values"]):
            mean, runs = expected(dataset, name, {**at, x: right, y: down}, times)
            np.testing.assert_allclose(result["value"]["values"][row][column], mean, rtol=1e-13)
            assert result["value"]["runs"][row][column] == runs


# ---- products


@pytest.mark.parametrize(("x", "y"), [("gamma", "d"), ("d", "gamma")])
@pytest.mark.parametrize("activation", ["erf", "square"])
def test_sgd_on_a_grid(wild, x, y, activation):
    result = phase_diagram(wild, x, y, p="4", activation=activation)
    last_half = [time for time in wild.time.values.tolist() if time >= 2.0]
    assert len(last_half) >= 5
    assert_grid(result, wild, "sgd_risk", {"p": 4, "activation": activation}, last_half)
    assert result["x"]["long_name"] == wild[x].attrs["long_name"]
    assert (result["value"]["name"], result["value"]["units"]) == ("sgd_risk", "1")
    assert "excess risk" in result["value"]["long_name"]
    assert result["at"] == {"p": 4, "activation": activation}
    time = {"from": last_half[0], "to": 4.0, "samples": len(last_half)}
    assert result["reduced"] == {"seed": 2, "repeat": 2, "time": time}
    json.dumps(result)
    if activation == "square":
        assert np.isnan(result["value"]["values"]).any()


@pytest.mark.parametrize("how", REDUCTIONS)
def test_axis_may_be_reduced(wild, how):
    """Over both p; NaN without a warning where every run of every p diverged."""
    rest = {"activation": "square", "p": how}
    result = labelled_diagram(wild, "gamma", "d", **rest)
    parts = [labelled_diagram(wild, "gamma", "d", activation="square", p=p) for p in (2, 4)]
    both = np.stack([part.values for part in parts])
    assert np.isnan(both).any()
    masked = np.ma.masked_invalid(both)
    expected = (np.ma.median if how == "median" else getattr(np.ma, how))(masked, axis=0).filled(np.nan)
    np.testing.assert_allclose(result.values, expected, rtol=1e-13)
    np.testing.assert_array_equal(result["runs"], sum(part["runs"] for part in parts))
    assert np.isnan(result["standard_error"]).all() == (how != "mean")
    assert result.attrs["at"]["p"] == [2, 4]
    assert result.attrs["long_name"].startswith(f"{how} over p of ")
    json.dumps(diagram_to_json(result))


def test_error_of_a_mean_over_an_axis_is_that_of_the_means_per_start(wild):
    """A seed has the same start for all gamma, so its contribution does not average out."""
    result = labelled_diagram(wild, "p", "d", activation="erf", gamma="mean")
    late = wild.sgd_risk.sel(activation="erf", time=slice(2.0, None)).integrate("time") / 2.0
    assert np.isfinite(late).all()
    starts = late.mean(["gamma", "repeat"])
    np.testing.assert_allclose(result, starts.mean("seed").transpose("d", "p"), rtol=1e-12)
    error = starts.std("seed", ddof=1) / np.sqrt(2)
    np.testing.assert_allclose(result["standard_error"], error.transpose("d", "p"), rtol=1e-9)
    both = labelled_diagram(wild, "regime", "d", "ode_risk", activation="erf", gamma="mean", p="mean")
    late = wild.ode_risk.sel(activation="erf", time=slice(2.0, None)).integrate("time") / 2.0
    late = late.mean(["gamma", "p"])
    error = (late.std("seed", ddof=1) / np.sqrt(2)).transpose("d", "regime")
    np.testing.assert_allclose(both["standard_error"], error, rtol=1e-9)


def test_mean_over_an_axis_with_missing_runs():
    """Seeds that positions do not share are independent; a position with one seed has no error."""
    dataset = make_dataset(
        lambda time: 1.0, {"d": [5, 6], "p": [2, 4], "gamma": [0.1, 0.2, 0.3]}, seeds=6, scatter=0.1
    )
    risk = dataset["sgd_risk"]
    each = risk[..., 0].copy(data=time_average(risk, risk["time"].values, 50.0)).isel(repeat=0)
    for at, seeds in enumerate(([0, 1], [2, 3], [4, 5])):
        dataset["sgd_status"][{"gamma": at}] = Status.PENDING
        dataset["sgd_status"][{"gamma": at, "seed": seeds}] = Status.DONE
    done = each.where(dataset["sgd_status"].isel(repeat=0) == Status.DONE)
    errors = done.std("seed", ddof=1) / np.sqrt(2)
    result = labelled_diagram(dataset, "p", "d", gamma="mean")
    np.testing.assert_allclose(result, done.mean("seed").mean("gamma").transpose("d", "p"), rtol=1e-12)
    wanted = ((errors**2).sum("gamma") ** 0.5 / 3).transpose("d", "p")
    np.testing.assert_allclose(result["standard_error"], wanted, rtol=1e-9)
    dataset["sgd_status"][{"gamma": 0, "seed": 0, "d": 0}] = Status.FAILED
    result = labelled_diagram(dataset, "p", "d", gamma="mean")
    assert np.isnan(result["standard_error"]).values.tolist() == [[True, True], [False, False]]
    assert result["runs"].values.tolist() == [[5, 5], [6, 6]]


@pytest.mark.parametrize(
    ("where", "field"),
    [({"gamma": "mean", "p": 2}, "gamma"), ({"seed": "max", "p": 2}, "seed"),
     ({"p": "mode"}, "p"), ({"p": "mean", "value": "sgd_phase"}, "p")],
)  # fmt: skip
def test_invalid_reductions_are_rejected(wild, where, field):
    with pytest.raises(InvalidInput) as problem:
        labelled_diagram(wild, "gamma", "d", activation="erf", **where)
    assert problem.value.field == field


def test_theory_on_a_grid(wild):
    result = phase_diagram(wild, "gamma", "p", "ode_cosine", d=8, activation="erf", regime="classical")
    last_half = [time for time in wild.time.values.tolist() if time >= 2.0]
    assert_grid(result, wild, "ode_cosine", {"d": 8, "activation": "erf", "regime": "classical"}, last_half)
    assert result["at"] == {"d": 8, "regime": "classical", "activation": "erf"}
    assert set(result["reduced"]) == {"seed", "time"}


def test_text_axes(wild):
    result = phase_diagram(wild, "regime", "activation", "ode_risk", d=8, gamma=0.1, p=4)
    assert result["x"]["values"] == ["classical", "high_dimensional"]
    last_half = [time for time in wild.time.values.tolist() if time >= 2.0]
    assert_grid(result, wild, "ode_risk", {"d": 8, "gamma": 0.1, "p": 4}, last_half)


def test_times_may_be_selected(wild):
    at = {"p": 4, "activation": "square"}
    times = wild.time.values.tolist()
    result = phase_diagram(wild, "gamma", "d", time=times[2] * 1.001, **at)
    assert result["reduced"]["time"] == {"from": times[2], "to": times[2], "samples": 1}
    assert_grid(result, wild, "sgd_risk", at, times[2:3])
    result = phase_diagram(wild, "gamma", "d", time=f":{times[3]}", **at)
    assert_grid(result, wild, "sgd_risk", at, times[:4])


def test_axes_may_be_restricted(wild):
    whole = phase_diagram(wild, "gamma", "d", p=4, activation="erf")
    part = phase_diagram(wild, "gamma", "d", p=4, activation="erf", gamma="0.3:", d=8)
    assert part["x"]["values"] == [0.3, 20.0]
    assert part["value"]["values"] == [whole["value"]["values"][1][1:]]


def test_value_without_prefix(wild):
    at = {"p": 4, "activation": "erf"}
    risk = phase_diagram(wild, "gamma", "d", "sgd_risk", **at)["value"]["values"]
    assert phase_diagram(wild, "gamma", "d", "risk", **at)["value"]["values"] == risk
    np.testing.assert_allclose(phase_diagram(wild, "gamma", "d", "final_risk", **at)["value"]["values"], risk)
    theory = phase_diagram(wild, "gamma", "d", "ode_risk", regime="classical", **at)["value"]["values"]
    assert phase_diagram(wild, "gamma", "d", "risk", regime="classical", **at)["value"]["values"] == theory


def test_values_without_time_are_not_averaged_over_time(wild):
    result = phase_diagram(wild, "gamma", "d", "sgd_steps", p=2, activation="erf")
    steps = wild.sgd_steps.sel(p=2, activation="erf").mean(["seed", "repeat"]).transpose("d", "gamma")
    assert result["value"]["values"] == steps.values.tolist()
    assert result["reduced"] == {"seed": 2, "repeat": 2}


def test_share_of_diverged_runs(wild):
    result = phase_diagram(wild, "gamma", "d", "sgd_diverged", p=4, activation="square")
    share = (wild.sgd_status.sel(p=4, activation="square") == Status.DIVERGED).mean(["seed", "repeat"])
    assert result["value"]["values"] == share.transpose("d", "gamma").values.tolist()
    assert result["value"]["values"][1] == [0.0, 0.0, 1.0]


def test_pending_runs_are_left_out(half):
    last_half = [time for time in half.time.values.tolist() if time >= 2.0]
    assert_grid(phase_diagram(half, "gamma", "d"), half, "sgd_risk", {"p": 4}, last_half)
    result = phase_diagram(half, "gamma", "d", "sgd_diverged")
    runs = (half.sgd_status > Status.PENDING).sum(["seed", "repeat"]).isel(p=0).values
    assert result["value"]["runs"] == runs.tolist()
    np.testing.assert_array_equal(result["value"]["values"], np.where(runs > 0, 0.0, np.nan))


def test_block_size_does_not_change_results(wild, monkeypatch):
    whole = phase_diagram(wild, "gamma", "d", p=4, activation="erf")
    monkeypatch.setattr(module, "NUMBERS_PER_BLOCK", 20)
    assert phase_diagram(wild, "gamma", "d", p=4, activation="erf") == whole


# ---- points


def test_points_are_listed(points):
    result = phase_diagram(points, "d", "kappa", noise=0.1)
    assert result["form"] == "points"
    assert result["x"] == {"name": "d", "long_name": "input dimension", "units": "1"}
    assert "values" not in result["value"]
    assert result["at"] == {"delta": 0.5, "noise": 0.1}
    selected = np.flatnonzero(points.noise.values == 0.1)
    assert len(result["points"]) == len(selected) == 6
    times = points.time.values
    for row, index in zip(result["points"], selected, strict=True):
        assert row["x"] == points.d.values[index]
        assert row["y"] == points.kappa.values[index]
        mean, runs = mean_of(time_average(points.sgd_risk.values[index], times, 2.0).reshape(-1))
        assert row["runs"] == runs == 4
        np.testing.assert_allclose(row["value"], mean, rtol=1e-13)
    json.dumps(result)


def test_points_of_a_theory(points):
    result = phase_diagram(points, "d", "p", "ode_risk", noise=0, time=4)
    assert result["at"]["regime"] == "classical"
    selected = np.flatnonzero(points.noise.values == 0.0)
    values = points.ode_risk.values[selected, 0, :, -1].mean(axis=-1)
    np.testing.assert_allclose([row["value"] for row in result["points"]], values, rtol=1e-13)


def test_points_with_equal_x_and_y_are_rejected(points):
    with pytest.raises(
        InvalidInput, match=r"differs between points of equal d and kappa: select one of 0, 0\.1"
    ) as error:
        phase_diagram(points, "d", "kappa")
    assert error.value.field == "noise"
    with pytest.raises(InvalidInput) as error:
        phase_diagram(points, "d", "regime", noise=0)
    assert error.value.field == "y"


# ---- invalid diagrams


@pytest.mark.parametrize(
    ("x", "y", "value", "where", "field", "message"),
    [
        ("gama", "d", "sgd_risk", {}, "x", "did you mean 'gamma'?"),
        ("gamma", "seed", "sgd_risk", {}, "y", "activation, d, gamma, p"),
        ("gamma", "regime", "sgd_risk", {}, "y", "one of"),
        ("gamma", "delta_t", "sgd_risk", {}, "y", "one of"),
        ("gamma", "gamma", "sgd_risk", {}, "y", "differ"),
        ("gamma", "d", "sgd_risc", {}, "value", "did you mean 'sgd_risk'?"),
        ("gamma", "d", "sgd_status", {}, "value", "sgd_diverged"),
        ("gamma", "d", "ode_overlap_student", {}, "value", "ode_risk"),
        ("gamma", "d", "sgd_risk", {}, "p", "select one of 2, 4"),
        ("gamma", "d", "sgd_risk", {"p": 4}, "activation", "select one of erf, square"),
        ("gamma", "d", "ode_risk", {"p": 4, "activation": "erf"}, "regime", "classical, high_dimensional"),
        ("gamma", "d", "sgd_risk", {"p": 3}, "p", "2, 4"),
        ("gamma", "d", "sgd_risk", {"q": 3}, "selection", "one of"),
        ("gamma", "d", "sgd_risk", {"dataset": 3}, "selection", "one of"),
        ("gamma", "d", "sgd_risk", {"time": "9:"}, "time", "stored"),
        (
            *("gamma", "d", "relative_discrepancy"),
            *({"p": 4, "activation": "erf", "regime": "classical", "time": "1:"}, "time", "begin at 0"),
        ),
    ],
)
def test_invalid_diagrams_are_rejected(wild, x, y, value, where, field, message):
    with pytest.raises(InvalidInput) as error:
        phase_diagram(wild, x, y, value, **where)
    assert error.value.field == field
    assert message in str(error.value)


def test_values_that_need_missing_variables_are_not_available(wild, half):
    alone = select_variables(wild, "sgd_risk")
    missing = [name for name, value in VALUES.items() if set(value.needs) - {"sgd_risk"}]
    assert {"discrepancy", "sgd_diverged", "sgd_phase", "sgd_bound"} < set(missing)
    for name in missing:
        with pytest.raises(InvalidInput, match="value"):
            phase_diagram(alone, "gamma", "d", name)
    with pytest.raises(InvalidInput, match="value"):
        phase_diagram(half, "gamma", "d", "ode_diverged")
