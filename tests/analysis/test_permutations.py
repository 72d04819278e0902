"""No analysis depends on the order in which a dataset stores its axes."""

import json

import numpy as np
import pytest
import xarray as xr

import sweep_service  # noqa: F401  registers ds.sweep
from sweep_service.analysis.accessor import METHODS
from sweep_service.analysis.runs import sort_dataset
from sweep_service.errors import InvalidInput
from tests.analysis.synthetic import TIMES, add_fluctuations, make_dataset

REGIMES = ("classical", "high_dimensional")


def risk(t, d, p, gamma, regime):
    return 0.08 * np.exp(-t / (3 + np.log(d))) + 1e-3 * gamma / p + (0.0 if regime else 0.02 / d)


def order(t, d):
    return 0.5 + 0.4 * np.tanh((t - 2 * np.log(d)) / 5)


def entries(dataset):
    """Overlaps of four neurons with two teachers, of which the first half aligns with each."""
    cosine = xr.DataArray([[1.0, 0.1], [1.0, 0.0], [0.1, 1.0], [-0.2, 0.5]], dims=("student", "teacher"))
    size = xr.DataArray(np.eye(4), dims=("student", "student_other"))
    growth = dataset["time"] / (1.0 + dataset["time"])
    more = {}
    for kind in ("sgd", "ode"):
        base = 1.0 + 0.1 * dataset[f"{kind}_risk"]
        more[f"{kind}_overlap_student_teacher"] = base * growth * 0.95 * cosine
        more[f"{kind}_overlap_student"] = base * (0.1 + growth) * size
        more[f"{kind}_largest_norm"] = base * (1.0 + growth)
    labels = {"student": range(4), "student_other": range(4), "teacher": range(2)}
    return dataset.assign(more).assign_coords(labels)


def predicted(dataset):
    """The dataset with fluctuations of SGD."""
    return add_fluctuations(dataset, lambda t: 0.01 + 0.01 * np.exp(-t), 0.02)


@pytest.fixture(scope="module")
def product():
    axes = {"d": [10, 30, 100], "p": [2, 4], "gamma": [0.1, 0.4]}
    dataset = make_dataset(
        risk, axes, seeds=4, repeats=2, scatter=0.05, noise=0.01, regimes=REGIMES, times=TIMES[::2],
        observables={"specialisation": order},
    )  # fmt: skip
    return predicted(entries(dataset))


@pytest.fixture(scope="module")
def points():
    rows = [(d, kappa, delta) for kappa in (0.0, 0.5) for delta in (0.0, 0.5) for d in (10, 30, 100)]
    d, kappa, delta = (np.array(column) for column in zip(*rows, strict=True))
    axes = {"d": d, "p": np.full(len(d), 4), "gamma": 1.0 / d, "kappa": kappa, "delta": delta}
    return make_dataset(
        lambda t, d, kappa, delta: 0.01 * d ** -(kappa + delta), axes, points=True, seeds=4, scatter=0.05
    )


ONE = {"gamma": [0.1], "p": [4]}
# For each quantity: a selection of the product, and the arguments.
CALLS = {
    "phase_diagram": ({}, {"x": "gamma", "y": "d", "value": "discrepancy", "regime": "classical", "p": 4}),
    "discrepancy": ({}, {}),
    "bias": ({}, {"kind": "bias"}),
    "exponent": ({}, {"of": "discrepancy", "along": "delta_t", "b": "classical"}),
    "final_risk": ({}, {}),
    "plateaus": ({}, {}),
    "specialisation_time": ({}, {}),
    "cosines": ({}, {"source": "ode"}),
    "labels": ({}, {}),
    "noise_floor": ({}, {}),
    "overlay": (ONE, {"kind": "overlay"}),
    "power": (ONE, {"kind": "power", "replicates": 3}),
    "logshift": (ONE, {"kind": "logshift", "replicates": 3}),
    "phase": ({}, {"source": "ode"}),
    "bounded": ({}, {}),
    "time_to": ({}, {"risk": 0.02}),
    "z_score": ({}, {}),
    "z": ({}, {"kind": "z"}),
    "validity": ({}, {"regime": "ode"}),
    "seeds_needed": ({}, {}),
}
METHOD_OF = {"bias": "discrepancy", "z": "discrepancy"} | dict.fromkeys(
    ("overlay", "power", "logshift"), "collapse"
)
# Of the points of a design, see test_triangle; of specs with a target, see test_target_estimates.
NOT_OF_A_PRODUCT = {"triangle", "scaling_phase", "target_estimates"}


def test_every_quantity_is_compared():
    quantities = {name for name in METHODS if not name.startswith("plot_")} - {"export", "merge"}
    assert {METHOD_OF.get(name, name) for name in CALLS} | NOT_OF_A_PRODUCT == quantities


def test_target_estimates(product):
    """The pilot is what the spec says, wherever its seeds stand in the dataset."""
    spec = {
        "axes": {name: product[name].values.tolist() for name in ("d", "p", "gamma")}, "fixed": {"k": 2},
        "seeds": {"init": 5, "repeat": 2}, "time": {"max": 1},
        "target_error": {"value": "risk", "relative": 0.1, "max_seeds": 8},
    }  # fmt: skip
    more = [product, product.assign(sgd_risk=1.1 * product.sgd_risk).assign_coords(seed=range(4, 8))]
    dataset = xr.concat(more, "seed").assign_attrs(spec=json.dumps(spec))
    expected = dataset.sweep.target_estimates()
    assert bool((expected.low < expected.estimate).all())
    for dim in ("seed", "d", "gamma", "time"):
        for kind in ("shuffled", "reversed"):
            assert_same(permuted(dataset, dim, kind).sweep.target_estimates(), expected)


def permuted(dataset, dim, kind):
    order = np.arange(dataset.sizes[dim])
    order = order[::-1] if kind == "reversed" else np.random.default_rng(1).permutation(order)
    return dataset.isel({dim: order})


def assert_same(result, expected):
    """Equal at equal labels; the last bits may differ, as sums are in another order."""
    result, expected = (
        array if isinstance(array, xr.Dataset) else array.to_dataset(name="value")
        for array in (result, expected)
    )
    for dataset in (result, expected):
        assert "time" not in dataset.dims or np.all(np.diff(dataset["time"]) > 0)
    if "case" in expected.dims:  # one for each combination, in the order of the dataset
        names = [name for name in expected.coords if expected[name].dims == ("case",)]
        result, expected = (dataset.sortby(names) for dataset in (result, expected))
        inner = [name for name in expected.data_vars if "place" in expected[name].dims]
        result, expected = (
            dataset.assign({name: (expected[name].dims, np.sort(dataset[name])) for name in inner})
            for dataset in (result, expected)
        )
    else:
        labels = {dim: expected[dim].values for dim in expected.dims if dim in expected.indexes}
        result = result.sel(labels).transpose(*expected.dims)
        expected = expected.transpose(*expected.dims)
    xr.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)
    for name, array in expected.data_vars.items():
        if array.dtype.kind in "USO":
            assert result[name].values.tolist() == array.values.tolist()


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, "shuffled") for name in CALLS] + [("final_risk", "reversed"), ("time_to", "reversed")],
)
def test_order_of_axes_does_not_matter(product, name, kind):
    selection, options = CALLS[name]
    dataset = product.sel(selection)
    method = METHOD_OF.get(name, name)
    expected = getattr(dataset.sweep, method)(**options)
    shuffled = dataset
    for dim in ("time", "seed", "repeat", "d", "p", "gamma", "regime", "student", "teacher"):
        alone = permuted(dataset, dim, kind)
        if dim in ("time", "seed"):
            assert_same(getattr(alone.sweep, method)(**options), expected)
            assert_same(METHODS[method](alone, **options), expected)  # as the service calls it
        shuffled = permuted(shuffled, dim, kind)
    assert_same(getattr(shuffled.sweep, method)(**options), expected)


@pytest.mark.parametrize("kind", ["reversed", "shuffled"])
def test_order_of_points_does_not_matter(points, kind):
    for name, options in (("scaling_phase", {}), ("exponent", {"of": "final_risk", "along": "d"})):
        expected = getattr(points.sweep, name)(**options)
        moved = permuted(permuted(points, "point", kind), "time", kind)
        assert_same(getattr(moved.sweep, name)(**options), expected)
    for name in ("final_risk", "phase", "plateaus"):
        expected = getattr(points.sweep, name)()
        labelled = points.assign_coords(point=range(points.sizes["point"]))
        moved = permuted(permuted(labelled, "point", kind), "time", kind)
        assert_same(getattr(moved.sweep, name)().sortby("point").drop_vars("point"), expected)


def test_reversed_time_of_a_falling_risk():
    """The final risk is that of the end, and not of the start."""
    dataset = make_dataset(lambda t: 0.62 * np.exp(-t / 9.0) + 1.2e-5)
    backwards = dataset.isel(time=slice(None, None, -1))
    assert backwards.sweep.final_risk().final_risk.item() < 1e-3
    known = dataset.sweep.time_to(0.1).time_to.item()
    assert backwards.sweep.time_to(0.1).time_to.item() == pytest.approx(known, rel=1e-12)


def test_equal_times_are_refused():
    dataset = make_dataset(lambda t: 0.1)
    with pytest.raises(InvalidInput, match="differ from each other"):
        dataset.isel(time=[0, 1, 1, 2]).sweep.final_risk()
    assert sort_dataset(dataset) is dataset
