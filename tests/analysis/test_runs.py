"""Runs by source, parameters by name, and constants of a teacher."""

import json

import numpy as np
import pytest
import xarray as xr

from sweep_service.analysis.floor_law.coefficient import noise_coefficient
from sweep_service.analysis.runs import (
    average_over_runs,
    late_means,
    null_risk,
    parameter,
    read_runs,
    teacher_overlap,
)
from sweep_service.errors import InvalidInput
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from tests.analysis.synthetic import make_dataset


def flat(time):
    return 0.1 + 0.0 * time


def coordinates(**spec):
    """A dataset with the parameters of a sweep, but without values."""
    grid = Grid.of(SweepSpec.parse({"time": {"max": 1.0}, "axes": {"d": 20, "p": 4, "gamma": 1.0}, **spec}))
    coords = {name: (name, np.array(values)) for name, values in grid.axes.items()}
    return xr.Dataset(
        coords={**coords, "seed": list(grid.seeds)},
        attrs={"spec": SweepSpec.parse({"time": {"max": 1.0}, **spec}).model_dump_json()},
    ), grid


def test_sources():
    status = np.array([Status.DONE, Status.PENDING])[:, None]
    dataset = make_dataset(flat, {"d": [5, 10]}, seeds=2, regimes=["classical", "mean_field"], status=status)
    assert read_runs(dataset, "ode").dims == ("d", "p", "gamma", "regime", "seed", "time")
    assert "regime" not in read_runs(dataset, "mean_field").dims
    result = read_runs(dataset)
    assert np.isnan(result.isel(seed=1)).all()
    assert np.isfinite(result.isel(seed=0)).all()
    with pytest.raises(InvalidInput, match="one of classical, mean_field, ode, sgd") as error:
        read_runs(dataset, "odd")
    assert error.value.field == "source"
    with pytest.raises(InvalidInput) as error:
        read_runs(dataset, "sgd", "odd")
    assert error.value.field == "observable"


def test_mean_error_and_count():
    array = xr.DataArray([[[1.0, 2.0], [3.0, np.nan]], [[np.nan] * 2] * 2], dims=("d", "seed", "repeat"))
    mean, error, count = average_over_runs(array)
    np.testing.assert_allclose(mean, [2.0, np.nan])
    # Two starts, one of them with two runs: √(2 [(1 - 2 + 2 - 2)² + (3 - 2)²])/3
    np.testing.assert_allclose(error, [2.0 / 3.0, np.nan])
    assert count.values.tolist() == [3, 0]
    assert np.isnan(average_over_runs(array.isel(seed=[0], repeat=[0]))[1][0])
    assert np.isnan(average_over_runs(array.where(array != 3.0))[1][0])  # the scatter of starts is unknown
    assert (
        average_over_runs(array.isel(seed=[0]))[1][0] == 0.5
    )  # with a single seed: the scatter after that start
    values = xr.DataArray(np.random.default_rng(0).standard_normal((5, 3)), dims=("seed", "repeat"))
    every = values.mean("repeat").std("seed", ddof=1) / np.sqrt(5)
    for array in (values, values.T):
        np.testing.assert_allclose(average_over_runs(array)[1], every, rtol=1e-13)
    np.testing.assert_allclose(
        average_over_runs(values[:, 0])[1], values[:, 0].std(ddof=1) / np.sqrt(5), rtol=1e-13
    )


def test_late_means_need_all_samples():
    status = np.array([Status.DONE, Status.DIVERGED])[:, None]
    dataset = make_dataset(lambda time: 1.0 + time, seeds=2, status=status)
    result = late_means(dataset).squeeze()
    assert float(result[0]) == pytest.approx(1.0 + 75.0)  # the middle of [50, 100], as the curve is a line
    assert np.isnan(float(result[1]))


def test_parameters_are_axes_or_constants():
    dataset, _ = coordinates(axes={"d": [5, 10], "p": 4, "gamma": [0.1]}, fixed={"k": 2, "noise": 0.5})
    assert parameter(dataset, "d").values.tolist() == [5, 10]
    assert float(parameter(dataset, "noise")) == 0.5
    assert str(parameter(dataset, "teacher_activation").item()) == "erf"
    np.testing.assert_allclose(parameter(dataset, "delta_t").squeeze(), [0.1 / 20, 0.1 / 40])
    with pytest.raises(InvalidInput, match="assign_coords"):
        parameter(dataset.drop_attrs().drop_vars("d"), "d")


@pytest.mark.parametrize(
    "init",
    [
        {"kind": "informed"},
        {"kind": "gaussian"},
        {"kind": "gaussian", "orthonormal_teacher": True},
        {"kind": "spherical", "teacher": {"rho": 0.3}},
        {"kind": "planted", "teacher": "random"},
    ],
    ids=str,
)
def test_teacher_overlaps_are_those_of_the_runs(init):
    dataset, grid = coordinates(
        axes={"d": [20, 30], "p": 4, "gamma": 1.0, "k": [2, 3]}, init=init, seeds=[0, 7]
    )
    result = teacher_overlap(dataset)
    for index, point in enumerate(grid.points):
        row = grid.row(index)
        for seed in (0, 7):
            at = {name: value for name, value in {**row, "seed": seed}.items() if name in result.dims}
            P = result.sel(at).values[: point.k, : point.k]
            np.testing.assert_array_equal(P, point.start(seed).overlaps.P)
    drawn = init.get("teacher") == "random" or init == {"kind": "gaussian"}
    assert {"d", "seed"} & set(result.dims) == ({"d", "seed"} if drawn else set())


def test_scale_as_an_axis_applies_to_the_teacher():
    axes = {"d": 20, "p": 4, "gamma": 1.0, "init.scale": [0.5, 2.0]}
    dataset, grid = coordinates(axes=axes, fixed={"k": 2}, init={"kind": "gaussian"})
    for scale, point in zip((0.5, 2.0), grid.points, strict=True):
        result = teacher_overlap(dataset).sel({"d": 20, "seed": 0, "init.scale": scale})
        np.testing.assert_array_equal(result, point.start(0).overlaps.P)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_constants_agree_with_monte_carlo(name):
    """R_null = ½ E[f*²] and c = ¼ E[σ'(λ)² ‖x‖²] over a million inputs of three dimensions."""
    act, d = ACTIVATIONS[name], 3
    dataset, _ = coordinates(axes={"d": d, "p": 4, "gamma": 1.0}, fixed={"k": 2, "activation": name},
                             init={"kind": "informed"})  # fmt: skip
    x = np.random.default_rng(0).standard_normal((10**6, d)) / np.sqrt(d)
    fields = np.sqrt(d) * x[:, :2]  # two orthonormal teachers
    null = 0.5 * np.mean(act.value(fields), axis=1) ** 2
    c = 0.25 * act.slope(fields[:, 0]) ** 2 * np.sum(x**2, axis=1)
    for result, sample in ((null_risk(dataset), null), (noise_coefficient(dataset), c)):
        error = np.std(sample) / np.sqrt(len(sample))
        assert abs(float(result.squeeze()) - np.mean(sample)) < 5 * error  # five standard errors


def test_noise_coefficient_of_erf():
    dataset, _ = coordinates(axes={"d": [5, 10, 40], "p": 4, "gamma": 1.0}, fixed={"k": 2},
                             init={"kind": "informed"})  # fmt: skip
    wanted = (1.0 - 2.0 / (3.0 * np.array([5, 10, 40]))) / (2.0 * np.pi * np.sqrt(3.0))
    np.testing.assert_allclose(
        noise_coefficient(dataset).squeeze(), wanted, rtol=1e-6
    )  # a difference quotient


def test_no_noise_coefficient_for_different_activations():
    dataset, _ = coordinates(fixed={"k": 2, "activation": "relu", "teacher_activation": "erf"},
                             init={"kind": "informed"})  # fmt: skip
    assert np.isnan(noise_coefficient(dataset)).all()
    assert json.loads(dataset.attrs["spec"])["fixed"]["teacher_activation"] == "erf"
