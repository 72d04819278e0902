"""Selection by value, text and range: errors name the available values, and no array is read."""

import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings

from sweep_service.analysis.selection import (
    MAX_SELECTED_VALUES,
    iterate_blocks,
    run_dims,
    select,
    select_variables,
)
from sweep_service.errors import InvalidInput, LimitExceeded
from sweep_service.planning.grids import Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.local import LocalObjects

GAMMAS = [0.01, 0.1, 0.3, 1.0, 3.0]
BIG = 10**15  # two seeds that differ by less than the tolerance of floats
PRODUCT = {
    "axes": {
        "d": [5, 10, 20], "p": [2, 4], "gamma": GAMMAS, "activation": ["erf", "relu"],
        "regime": ["classical", "auto"],
    },
    "fixed": {"k": 2},
    "seeds": {"init": [0, BIG, BIG + 1], "repeat": 2},
    "time": {"max": 10.0, "samples": 6},
}  # fmt: skip
POINTS = {
    "points": [
        {"d": 5, "p": 2, "gamma": 0.1},
        {"d": 10, "p": 2, "gamma": 0.1},
        {"d": 10, "p": 4, "gamma": 0.2},
        {"d": 20, "p": 4, "gamma": 0.4},
    ],
    "axes": {"regime": ["classical", "high_dimensional"]},
    "fixed": {"k": 2},
    "time": {"max": 10.0, "samples": 6},
}


def opened(root, spec):
    """A stored sweep before its first run, with a different risk at each position."""
    plan = SweepPlan(Grid.of(SweepSpec.parse(spec)))
    make_dataset = SweepDataset.create(LocalObjects(root), "s.zarr", plan, {"title": "t"})
    array = make_dataset.group["sgd_risk"]
    array[...] = np.arange(np.prod(array.shape), dtype=float).reshape(array.shape)
    return xr.open_zarr(root / "s.zarr", chunks=None)


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    return opened(tmp_path_factory.mktemp("product"), PRODUCT)


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    return opened(tmp_path_factory.mktemp("points"), POINTS)


# ---- valid selections


@pytest.mark.parametrize(
    ("name", "wanted", "expected"),
    [
        ("gamma", 0.1, [0.1]),
        ("gamma", "0.1", [0.1]),
        ("gamma", "0.1000000000004", [0.1]),
        ("gamma", 0.1 * (1 + 1e-12), [0.1]),
        ("gamma", "1,0.1", [0.1, 1.0]),
        ("gamma", [0.1, 3], [0.1, 3.0]),
        ("gamma", ["0.1", "1:"], [0.1, 1.0, 3.0]),
        ("gamma", np.array([0.1, 0.3]), [0.1, 0.3]),
        ("gamma", np.float64(0.3), [0.3]),
        ("gamma", "0.1:1", [0.1, 0.3, 1.0]),
        ("gamma", "0.1000000000001 : 0.9999999999999", [0.1, 0.3, 1.0]),
        ("gamma", ":0.1", [0.01, 0.1]),
        ("gamma", "0.5:", [1.0, 3.0]),
        ("gamma", ":", GAMMAS),
        ("gamma", "0.01,1:3", [0.01, 1.0, 3.0]),
        ("d", 10, [10]),
        ("d", "1e1", [10]),
        ("d", "5.5:20", [10, 20]),
        ("d", range(5, 11, 5), [5, 10]),
        ("d", (5, 20), [5, 20]),
        ("seed", BIG, [BIG]),
        ("seed", str(BIG + 1), [BIG + 1]),
        ("seed", f"{BIG + 1}:", [BIG + 1]),
        ("repeat", 1, [1]),
        ("activation", "relu", ["relu"]),
        ("regime", "auto, classical", ["classical", "auto"]),
        ("student", "1:2", [1, 2]),
    ],
)
def test_selected_values(product, name, wanted, expected):
    part = select(product, {name: wanted})
    assert part[name].values.tolist() == expected
    assert set(part.dims) == set(product.dims)
    assert part.sgd_risk.dims == product.sgd_risk.dims
    xr.testing.assert_identical(part.load(), product.sel({name: expected}).load())


def test_single_time_selects_the_nearest_sample(product):
    times = product.time.values
    for wanted, index in ((0, 0), ("10", -1), (9e9, -1), (-3, 0), (times[3] * 1.01, 3)):
        assert select(product, {"time": wanted}).time.values.tolist() == [times[index]]
    assert select(product, {"time": [0.0, 1e-9, 10]}).time.values.tolist() == [0.0, 10.0]
    assert select(product, {"time": "5:"}).time.values.tolist() == [10.0]


def test_selections_are_combined(product):
    part = select(product, {"d": "5,20", "gamma": "0.01,0.3,3", "seed": 0, "regime": "auto"})
    expected = product.sel(d=[5, 20], gamma=[0.01, 0.3, 3.0], seed=[0], regime=["auto"])
    xr.testing.assert_identical(part.load(), expected.load())
    assert select(product, {}).sizes == product.sizes


def test_points_are_selected_by_their_coordinates(points):
    assert select(points, {"d": 10}).gamma.values.tolist() == [0.1, 0.2]
    assert select(points, {"d": "10:", "p": 4}).gamma.values.tolist() == [0.2, 0.4]
    assert select(points, {"delta_t": 0.1 / (2 * 5)}).d.values.tolist() == [5]
    part = select(points, {"d": "5,20", "regime": "classical", "time": 10})
    assert dict(part.sizes) | {"point": 2, "regime": 1, "time": 1} == dict(part.sizes)
    xr.testing.assert_identical(part.load(), points.isel(point=[0, 3], regime=[0], time=[-1]).load())
    assert select(points, {"point": "1:2"}).d.values.tolist() == [10, 10]


def test_only_coordinates_are_read(product):
    fresh = xr.open_zarr(product.encoding["source"], chunks=None)  # other tests have read some of it
    part = select(fresh, {"d": "5,20", "gamma": "0.1:1", "time": 1})
    assert [name for name in part.data_vars if part[name].variable._in_memory] == []


def test_consecutive_indices_become_a_slice(product, monkeypatch):
    seen = []
    plain = xr.Dataset.isel
    monkeypatch.setattr(xr.Dataset, "isel", lambda self, where: (seen.append(where), plain(self, where))[1])
    select(product, {"gamma": "0.1:1", "d": "5,20", "time": 10})
    (where,) = seen
    assert (where["gamma"], where["time"]) == (slice(1, 4), slice(6, 7))
    assert where["d"].tolist() == [0, 2]


# ---- invalid selections


@pytest.mark.parametrize(
    ("name", "wanted", "phrases"),
    [
        ("gama", 0.1, ("selection", "did you mean 'gamma'?")),
        ("sgd_risk", 0.1, ("selection",)),
        ("point", 0, ("selection",)),
        ("delta_t", 0.1, ("delta_t", "(d, p, gamma, activation)")),
        ("gamma", 0.2, ("gamma = 0.2", "0.01, 0.1, 0.3, 1, 3")),
        ("gamma", "0.1,0.2", ("gamma = '0.2'",)),
        ("gamma", 0.10000001, ("gamma",)),
        ("gamma", "4:9", ("gamma = '4:9'", "0.01, 0.1")),
        ("gamma", "1:0.1", ("gamma",)),
        ("gamma", "0.1:1:3", ("gamma",)),
        ("gamma", "nan", ("finite",)),
        ("gamma", "inf", ("finite",)),
        ("gamma", ":1e999", ("finite",)),
        ("gamma", "9" * 5000, ("finite",)),
        ("gamma", 10**400, ("finite",)),
        ("gamma", float("nan"), ("finite",)),
        ("gamma", True, ("finite",)),
        ("gamma", None, ("finite",)),
        ("gamma", b"0.1", ("finite",)),
        ("gamma", {"a": 1}, ("finite",)),
        ("gamma", [[0.1]], ("finite",)),
        ("gamma", np.array([[0.1]]), ("finite",)),
        ("gamma", "erf", ("finite",)),
        ("gamma", [], ("at least one value",)),
        ("gamma", "", ("at least one value",)),
        ("gamma", "0.1,", ("at least one value",)),
        ("time", "nan", ("finite",)),
        ("time", "20:", ("time", "0.0001")),
        ("d", 7, ("d = 7", "5, 10, 20")),
        ("d", 10**30, ("5, 10, 20",)),
        ("d", 10.5, ("5, 10, 20",)),
        ("regime", "clasical", ("regime", "did you mean 'classical'?")),
        ("regime", 1, ("regime", "classical")),
        ("activation", ["erf", None], ("activation",)),
    ],
)
def test_errors_name_what_is_available(product, name, wanted, phrases):
    with pytest.raises(InvalidInput) as error:
        select(product, {name: wanted})
    for phrase in phrases:
        assert phrase in str(error.value)


def test_many_values_are_counted_instead_of_listed(points):
    many = points.isel(point=[0] * 100).assign_coords(gamma=("point", np.linspace(1.0, 2.0, 100)))
    with pytest.raises(InvalidInput, match="100 values from 1 to 2"):
        select(many, {"gamma": 3})
    with pytest.raises(LimitExceeded, match="or a range"):
        select(many, {"gamma": [1.0] * (MAX_SELECTED_VALUES + 1)})


def test_selection_without_common_points_is_rejected(points):
    with pytest.raises(InvalidInput, match="d, gamma") as error:
        select(points, {"d": 5, "gamma": 0.4, "regime": "classical"})
    assert error.value.value == [5, 0.4]


NUMBERS = st.sampled_from(
    ["0.1", "1", "5", "1e999", "-1", "nan", "", ":", "0.1:", ":3", "\ud800", "0x5", "1_0"]
)
QUERY = st.one_of(st.text(max_size=20), st.lists(NUMBERS, max_size=4).map(",".join), NUMBERS)
NAMES = st.one_of(
    st.text(max_size=5),
    st.sampled_from(
        ["d", "gamma", "time", "seed", "regime", "activation", "delta_t", "point", "student", "sgd_risk"]
    ),
)
ODD = st.one_of(
    QUERY, st.floats(), st.integers(), st.none(), st.booleans(), st.binary(max_size=3), st.complex_numbers(),
    st.lists(st.one_of(QUERY, st.floats(), st.integers(), st.none()), max_size=3),
)  # fmt: skip


@given(where=st.dictionaries(NAMES, ODD, max_size=3), kind=st.sampled_from(["product", "points"]))
@settings(max_examples=300, deadline=None)
def test_query_selects_something_or_is_invalid(product, points, where, kind):
    dataset = {"product": product, "points": points}[kind]
    try:
        part = select(dataset, where)
    except InvalidInput:
        return
    assert set(part.sizes) == set(dataset.sizes)
    assert min(part.sizes.values()) > 0


# ---- variables and blocks


def test_variables_are_selected_by_name(product):
    part = select_variables(product, "sgd_risk, ode_status")
    assert list(part.data_vars) == ["sgd_risk", "ode_status"]
    assert {"d", "regime", "delta_t", "time"} <= set(part.coords)
    assert "teacher" not in part.coords
    assert list(select_variables(product, ["ode_risk", "ode_risk"]).data_vars) == ["ode_risk"]
    assert part.attrs == product.attrs


@pytest.mark.parametrize("names", ["sgd_risc", "d", "", "sgd_risk,", [], [None], [["sgd_risk"]], 3, None])
def test_unknown_variables_are_rejected(product, names):
    with pytest.raises(InvalidInput) as error:
        select_variables(product, names)
    assert error.value.field == "variables"
    if names == "sgd_risc":
        assert "did you mean 'sgd_risk'?" in str(error.value)


def test_dimensions_of_runs_come_before_time(product):
    assert run_dims(product.sgd_risk) == run_dims(product.sgd_status) == product.sgd_status.dims
    assert run_dims(product.ode_overlap_student) == product.ode_status.dims


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    room=st.integers(1, 200),
)
@settings(deadline=None)
def test_blocks_cover_everything_once(sizes, room):
    array = np.arange(np.prod(sizes)).reshape(sizes)
    result = [
        array[tuple(where.values())]
        for where in iterate_blocks({f"x{n}": size for n, size in enumerate(sizes)}, room)
    ]
    assert sorted(np.concatenate([block.reshape(-1) for block in result])) == list(range(array.size))
    assert max(block.size for block in result) <= room
