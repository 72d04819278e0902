"""The stored dataset: its shape and labels, what is written where, and in which order."""

import json
import math
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import TooNew
from sweep_service.execution.compute import compute
from sweep_service.planning import schema as schema_module
from sweep_service.planning.grids import Grid
from sweep_service.planning.jobs import Job
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store import local as module
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.local import LocalObjects
from sweep_service.store.parts import Part

BASE = {"fixed": {"k": 2}, "time": {"max": 1.0, "samples": 4}, "observables": ["risk"]}
CORE = {"d": [10, 20, 30], "p": 2, "gamma": {"log": [0.1, 0.4, 3]}}
TWO = ["classical", "high_dimensional"]

# A spec, the dimensions of its sgd_risk and those of its ode_risk; without one of them, None.
DESIGNS = {
    "product": (
        {"axes": {**CORE, "regime": TWO}, "seeds": {"init": 2, "repeat": 3}},
        ("d", "p", "gamma", "seed", "repeat", "time"),
        ("d", "p", "gamma", "regime", "seed", "time"),
    ),
    "other axes, written in another order": (
        {
            "axes": {"noise": [0.0, 0.1], "regime": TWO, "k": [1, 2, 3], "gamma": 0.5, "p": [2, 3], "d": [7]},
            "fixed": {},
        },
        ("d", "p", "gamma", "k", "noise", "seed", "repeat", "time"),
        ("d", "p", "gamma", "regime", "k", "noise", "seed", "time"),
    ),
    "activations": (
        {"axes": {**CORE, "activation": ["erf", "square"], "regime": "auto"}},
        ("d", "p", "gamma", "activation", "seed", "repeat", "time"),
        ("d", "p", "gamma", "regime", "activation", "seed", "time"),
    ),
    "a number of the start": (
        {"axes": {**CORE, "init.scale": [0.5, 1.0]}},
        ("d", "p", "gamma", "init.scale", "seed", "repeat", "time"),
        None,
    ),
    "theory alone": ({"axes": {**CORE, "regime": TWO}, "simulate": False}, None,
                     ("d", "p", "gamma", "regime", "seed", "time")),
    "points": (
        {
            "points": [{"d": 10, "p": 2, "gamma": 0.1, "activation": "erf"},
                       {"d": 20, "p": 4, "gamma": 0.3, "activation": "relu"}],
            "axes": {"regime": TWO},
        },
        ("point", "seed", "repeat", "time"),
        ("point", "regime", "seed", "time"),
    ),
    "zip": (
        {"axes": {"d": [10, 20], "gamma": [0.1, 0.2], "p": [2, 3], "regime": TWO}, "zip": [["d", "gamma"]]},
        ("point", "seed", "repeat", "time"),
        ("point", "regime", "seed", "time"),
    ),
    "scaling": (
        {"axes": {"d": [10, 20], "kappa": [0.0, 0.5], "delta": 0.0}, "scaling": {"p0": 2, "gamma0": 1}},
        ("point", "seed", "repeat", "time"),
        None,
    ),
    "triangle": (
        {"axes": {"regime": TWO}, "triangle": {"delta_t": 1e-3, "resolution": 4}},
        ("point", "seed", "repeat", "time"),
        ("point", "regime", "seed", "time"),
    ),
}  # fmt: skip


def plan_of(spec):
    return SweepPlan(Grid.of(SweepSpec.parse({**BASE, **spec})))


def random_values(plan, kind, count, rng):
    """By name, (run, ...)."""
    found = {}
    for name, variable in plan.schema.variables[kind].items():
        shape = (count, *variable.shape[len(variable.leading) :])
        most = len(Status) if name == "status" else 7
        found[name] = (
            rng.normal(size=shape)
            if variable.dtype == "float64"
            else rng.integers(1, most, shape).astype(variable.dtype)
        )
    return found


def labels(plan, kind, number):
    """Where a run is, by the values of its coordinates and not by how they are stored."""
    grid = plan.grid
    run = plan.runs.find(f"{kind}-{number}")
    where = grid.row(run.point) if grid.is_product else {"point": run.point}
    where |= {"seed": grid.seeds[run.seed]}
    if kind == "sgd":
        return where | {"repeat": grid.repeats[run.repeat]}
    return where | {"regime": grid.regimes[run.regime]}


def at(path):
    """How a dataset is named to its writer."""
    return LocalObjects(path.parent), path.name


def opened(path):
    """As anybody would, with every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xr.open_zarr(path)


@pytest.fixture(params=DESIGNS, scope="module")
def design(request, tmp_path_factory):
    spec, sgd, ode = DESIGNS[request.param]
    plan = plan_of(spec)
    path = tmp_path_factory.mktemp("design") / "s.zarr"
    SweepDataset.create(*at(path), plan, {"title": "a title", "spec": json.dumps(spec)})
    return plan, path, {"sgd": sgd, "ode": ode}


def test_dimensions_are_in_the_order_of_the_contract(design):
    plan, path, dims = design
    ds = opened(path)
    for kind, expected in dims.items():
        if expected is None:
            assert not [name for name in ds.variables if str(name).startswith(f"{kind}_")]
        else:
            assert ds[f"{kind}_risk"].dims == expected
            assert ds[f"{kind}_status"].dims == ds[f"{kind}_seconds"].dims == expected[:-1]
            assert ds[f"{kind}_risk"].shape == tuple(ds.sizes[dim] for dim in expected)
    assert ("sgd_steps" in ds) is (dims["sgd"] is not None)
    assert ("ode_regime" in ds) is ("auto" in plan.grid.regimes)
    assert ds.sizes.get("point", math.prod(plan.grid.shape)) == len(plan.grid)


def test_every_variable_and_coordinate_is_labelled(design):
    _, path, _ = design
    ds = opened(path)
    for name, variable in ds.variables.items():
        assert variable.attrs["long_name"], name
        assert variable.attrs["units"], name
    for name in ds.data_vars:
        assert set(ds[name].dims) - {"point"} <= set(ds.coords)
    assert ds.attrs["title"] == "a title"
    assert ds.attrs["layout_version"] == 1


def test_status_has_flags_and_no_fill_value_for_xarray(design):
    _, path, _ = design
    ds, group = opened(path), zarr.open_group(path, mode="r")
    names = [str(name) for name in ds.data_vars if str(name).endswith("_status")]
    assert names
    for name in names:
        status = ds[name]
        assert status.dtype == np.int8
        assert list(status.attrs["flag_values"]) == [0, 1, 2, 3, 4, 5]
        assert status.attrs["flag_meanings"].split() == [
            "pending", "done", "diverged", "failed", "cancelled", "skipped",
        ]  # fmt: skip
        assert "_FillValue" not in status.attrs
        assert "_FillValue" not in status.encoding
        assert group[name].fill_value == 0
        assert np.all(status == Status.PENDING)


def test_a_new_dataset_holds_nothing(design):
    _, path, _ = design
    for name, variable in opened(path).data_vars.items():
        empty = (
            np.isnan(variable.values)
            if variable.dtype.kind == "f"
            else variable.values == (-1 if name == "ode_regime" else 0)
        )
        assert np.all(empty), name


def test_points_have_their_step_and_their_rate_over_width(design):
    plan, path, _ = design
    ds = opened(path)
    for index, point in enumerate(plan.grid.points):
        where = plan.grid.row(index) if plan.grid.is_product else {"point": index}
        here = ds[["delta_t", "gamma_over_p"]].sel(where)
        assert float(here.delta_t) == pytest.approx(point.gamma / (point.p * point.d), rel=1e-15)
        assert float(here.gamma_over_p) == pytest.approx(point.gamma / point.p, rel=1e-15)


def test_swept_axes_are_coordinates(design):
    plan, path, _ = design
    ds = opened(path)
    for name, values in plan.grid.axes.items():
        assert ds[name].dims == ((name,) if plan.grid.is_product else ("point",))
        assert ds[name].values.tolist() == list(values)
        if isinstance(values[0], str):
            assert all(isinstance(value, str) for value in ds[name].values.tolist())
    if plan.grid.regimes:
        assert ds.regime.values.tolist() == list(plan.grid.regimes)
    np.testing.assert_array_equal(ds.time, plan.grid.times)


def test_metadata_is_consolidated(design):
    plan, path, _ = design
    there = json.loads((path / "zarr.json").read_text("utf-8"))
    stored = {variable.name for some in plan.schema.variables.values() for variable in some.values()}
    assert stored | {"delta_t", "gamma_over_p", "time"} <= set(there["consolidated_metadata"]["metadata"])
    assert not list(path.parent.glob("*.partial*"))


def test_every_run_lands_where_its_labels_say(design):
    plan, path, _ = design
    dataset, rng = SweepDataset(*at(path), plan), np.random.default_rng(0)
    for kind in plan.schema.variables:
        count = plan.runs.count(kind)
        numbers = rng.permutation(count)
        values = random_values(plan, kind, count, rng)
        dataset.write(kind, numbers, values)
        ds = opened(path)
        for row in rng.permutation(count)[:10]:
            here = ds.sel(labels(plan, kind, numbers[row]))
            for name, array in values.items():
                np.testing.assert_array_equal(here[f"{kind}_{name}"].values, array[row])
        np.testing.assert_array_equal(dataset.status(kind)[numbers], values["status"])
        dataset.write(kind, np.arange(count), empty(plan, kind, count))  # for the tests beside this one


def empty(plan, kind, count):
    return {
        name: np.full((count, *variable.shape[len(variable.leading) :]), variable.fill, variable.dtype)
        for name, variable in plan.schema.variables[kind].items()
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"axes": {"d": {"lin": [10, 509, 500]}, "p": 4, "gamma": {"lin": [0.1, 1.0, 40]}, "regime": TWO},
         "time": {"max": 1.0}},
        {"axes": {"d": {"lin": [10, 209, 200]}, "p": [4, 10], "gamma": [0.1, 0.2, 0.3]}, "seeds": 7,
         "time": {"max": 1.0, "samples": 30}, "observables": ["risk", "overlaps", "cosine_histogram"]},
        {"points": [{"d": 10 + at, "p": 4, "gamma": 0.1} for at in range(9000)], "time": {"max": 1.0}},
        {"axes": {"d": 10, "p": 4, "gamma": 0.1}, "seeds": {"init": 3, "repeat": 3000}, "time": {"max": 1.0}},
    ],
    ids=["wide grid", "many numbers per run", "points", "repeats"],
)  # fmt: skip
def test_chunks_of_large_arrays_are_of_1_to_4_megabytes(spec):
    plan = SweepPlan(Grid.of(SweepSpec.parse({**BASE, **spec}), checked=True))
    large = 0
    for some in plan.schema.variables.values():
        for variable in some.values():
            size = np.dtype(variable.dtype).itemsize
            if size * math.prod(variable.shape) >= 1 << 22:
                assert 1e6 <= size * math.prod(variable.chunks) <= 4 << 20, variable.name
                assert variable.chunks[len(variable.leading) :] == variable.shape[len(variable.leading) :]
                large += 1
            else:
                assert size * math.prod(variable.chunks) <= 4 << 20
            assert all(1 <= c <= s for c, s in zip(variable.chunks, variable.shape, strict=True))
    assert large


@pytest.mark.parametrize("p", [8, 64, 512, 600])
@pytest.mark.parametrize("samples", [1, 120, 3000])
def test_of_a_large_run_the_times_are_split_and_never_a_sample(p, samples):
    plan = plan_of(
        {
            "axes": {"d": [700, 701], "p": p, "gamma": 0.1, "regime": TWO}, "seeds": 3,
            "time": {"max": 1.0, "samples": samples}, "observables": ["risk", "overlaps", "cosine_histogram"],
        }
    )  # fmt: skip
    for some in plan.schema.variables.values():
        for variable in some.values():
            chunks = dict(zip(variable.dims, variable.chunks, strict=True))
            full = dict(zip(variable.dims, variable.shape, strict=True))
            size = np.dtype(variable.dtype).itemsize
            assert all(chunks[dim] == full[dim] for dim in variable.trailing if dim != "time")
            sample = variable.run_bytes // full.get("time", 1)
            assert size * math.prod(variable.chunks) <= max(schema_module.CHUNK_BYTES, sample)
            if variable.run_bytes > schema_module.CHUNK_BYTES:
                assert all(chunks[dim] == 1 for dim in variable.leading)
                assert chunks["time"] == max(1, schema_module.CHUNK_BYTES // sample) <= full["time"]
            else:
                assert variable.chunks[len(variable.leading) :] == variable.run_shape


def test_a_run_of_many_chunks_comes_back_as_it_was_written(tmp_path):
    """Also where several runs are one row of the values: two runs of 4 MB each are written at four places."""
    plan = plan_of(
        {
            "axes": {"d": [70, 71], "p": 64, "gamma": 0.1}, "seeds": 3, "observables": ["overlaps", "risk"],
            "time": {"max": 1.0, "samples": 120},
        }
    )  # fmt: skip
    assert len(plan.grid.times) == 121
    variable = plan.schema.variables["sgd"]["overlap_student"]
    assert variable.run_bytes > 3 << 20
    assert variable.chunks[-3] < 121
    dataset, rng = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {}), np.random.default_rng(0)
    numbers, rows = np.array([5, 0, 3, 2]), np.array([1, 0, 1, 1])
    values = random_values(plan, "sgd", 2, rng)
    dataset.write("sgd", numbers, values, rows)
    alone = random_values(plan, "sgd", 1, rng)
    dataset.write("sgd", np.array([4]), alone)
    found = dataset.read("sgd", np.array([0, 4, 2, 5, 3, 1]), plan.schema.variables["sgd"])
    for name, variable in plan.schema.variables["sgd"].items():
        one, other = values[name]
        nothing = np.full(variable.run_shape, variable.fill, variable.dtype)
        expected = [one, alone[name][0], other, other, other, nothing]
        np.testing.assert_array_equal(found[name], expected, err_msg=name)
    here = opened(tmp_path / "s.zarr").sel(labels(plan, "sgd", 3))
    np.testing.assert_array_equal(here.sgd_overlap_student, values["overlap_student"][1])


def test_a_run_that_is_written_twice_at_once_spoils_no_neighbour(tmp_path):
    """Two parts may hold the same run: as many numbers as the chunk has runs are not all of its runs."""
    plan = plan_of({"axes": {"d": 70, "p": 4, "gamma": 0.1}, "seeds": 2})
    dataset, rng = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {}), np.random.default_rng(0)
    both, again = (random_values(plan, "sgd", 2, rng) for _ in range(2))
    dataset.write("sgd", np.array([0, 1]), both)
    dataset.write("sgd", np.array([0, 0]), again, np.array([1, 1]))
    found = dataset.read("sgd", np.array([0, 1]), plan.schema.variables["sgd"])
    for name in found:
        np.testing.assert_array_equal(found[name], [again[name][1], both[name][1]], err_msg=name)


@pytest.mark.parametrize(
    ("regimes", "stored"),
    [
        (["classical"], {"overlap_student_teacher", "overlap_student"}),
        (["mean_field"], {"overlap_student_teacher", "orthogonal_norm"}),
        (["classical", "mean_field"], {"overlap_student_teacher", "overlap_student", "orthogonal_norm"}),
        (["auto"], {"overlap_student_teacher", "overlap_student", "orthogonal_norm", "regime"}),
    ],
    ids=["classical", "mean_field", "both", "auto"],
)
def test_overlaps_are_those_that_the_regimes_have(regimes, stored):
    plan = plan_of({"axes": {**CORE, "regime": regimes}, "observables": ["overlaps", "risk"]})
    assert set(plan.schema.variables["ode"]) == stored | {"risk", "seconds", "status"}
    assert set(plan.schema.variables["sgd"]) == {
        "risk", "overlap_student_teacher", "overlap_student", "seconds", "steps", "status",
    }  # fmt: skip
    for kind in ("sgd", "ode"):
        if "overlap_student" in plan.schema.variables[kind]:
            assert plan.schema.variables[kind]["overlap_student"].trailing == (
                "time",
                "student",
                "student_other",
            )


def test_narrow_students_are_padded_with_nan(tmp_path):
    plan = plan_of(
        {
            "axes": {"d": 6, "p": [1, 3], "k": [1, 2], "gamma": 0.5, "regime": ["classical"]}, "fixed": {},
            "observables": ["risk", "overlaps"], "time": {"max": 0.1, "samples": 2},
        }
    )  # fmt: skip
    dataset = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {})
    jobs = [Job(kind, point, 0, (0,), (0,)) for point in range(4) for kind in ("sgd", "ode")]
    part = Part.of(plan, jobs, [compute(plan, job) for job in jobs])
    for kind in ("sgd", "ode"):
        dataset.write(kind, part.numbers[kind], part.values[kind])
    ds = opened(tmp_path / "s.zarr")
    assert ds.sizes["student"] == ds.sizes["student_other"] == 3
    assert ds.sizes["teacher"] == 2
    for kind in ("sgd", "ode"):
        assert np.all(ds[f"{kind}_status"] == Status.DONE)
        for p in (1, 3):
            for k in (1, 2):
                here = ds.isel(seed=0, d=0, gamma=0).sel(p=p, k=k)
                for name, shape in (("overlap_student_teacher", (p, k)), ("overlap_student", (p, p))):
                    there = np.isfinite(here[f"{kind}_{name}"].squeeze().values)
                    assert np.all(there[:, : shape[0], : shape[1]])
                    assert there.sum() == there.shape[0] * shape[0] * shape[1]


@pytest.fixture(scope="module")
def chunked(tmp_path_factory):
    """A dataset of many small chunks, and what should be in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema_module, "CHUNK_BYTES", 800)
        plan = plan_of(
            {
                "axes": {"d": [5, 6, 7], "p": [2, 3], "gamma": [0.1, 0.2], "k": [1, 2], "regime": TWO},
                "fixed": {}, "seeds": {"init": 3, "repeat": 2}, "observables": ["risk", "cosine"],
            }
        )  # fmt: skip
        chunks = {v.name: v.chunks for some in plan.schema.variables.values() for v in some.values()}
    assert chunks["sgd_risk"] != plan.schema.variables["sgd"]["risk"].shape
    path = tmp_path_factory.mktemp("chunked") / "s.zarr"
    dataset = SweepDataset.create(*at(path), plan, {})
    return dataset, {kind: empty(plan, kind, plan.runs.count(kind)) for kind in plan.schema.variables}


@settings(max_examples=12, deadline=None)
@given(kind=st.sampled_from(["sgd", "ode"]), share=st.floats(0.0, 1.0), seed=st.integers(0, 2**32 - 1))
def test_any_subset_of_runs_can_be_written_and_read(chunked, kind, share, seed):
    dataset, model = chunked
    plan, rng = dataset.plan, np.random.default_rng(seed)
    count = plan.runs.count(kind)
    numbers = rng.permutation(count)[: max(1, int(share * count))]
    values = random_values(plan, kind, len(numbers), rng)
    dataset.write(kind, numbers, values)
    for name, array in values.items():
        model[kind][name][numbers] = array
    some = rng.permutation(count)[:20]
    found = dataset.read(kind, some, plan.schema.variables[kind])
    assert set(found) == set(model[kind])
    for name, array in found.items():
        np.testing.assert_array_equal(array, model[kind][name][some], err_msg=name)
    np.testing.assert_array_equal(dataset.status(kind), model[kind]["status"])


def test_neighbours_in_a_chunk_stay_as_they_were(chunked):
    dataset, model = chunked
    for kind in ("sgd", "ode"):
        count = dataset.plan.runs.count(kind)
        everything = dataset.read(kind, np.arange(count), dataset.plan.schema.variables[kind])
        for name, array in everything.items():
            np.testing.assert_array_equal(array, model[kind][name], err_msg=name)


def test_no_runs_are_written_and_read_without_complaint(tmp_path):
    plan = plan_of({"axes": CORE})
    dataset, none = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {}), np.array([], dtype=np.int64)
    dataset.write("sgd", none, empty(plan, "sgd", 0))
    found = dataset.read("sgd", none, plan.schema.variables["sgd"])
    assert found["risk"].shape == (0, len(plan.grid.times))


def test_runs_are_read_into_the_shapes_of_another_sweep(tmp_path):
    spec = {"axes": {"d": 5, "p": [2, 4], "gamma": 0.1}, "observables": ["risk", "overlaps"]}
    small = {**spec, "axes": {**spec["axes"], "p": [2]}}
    wide, narrow = plan_of(spec), plan_of(small)
    dataset = SweepDataset.create(*at(tmp_path / "s.zarr"), wide, {})
    values = random_values(wide, "sgd", 2, np.random.default_rng(0))
    values["overlap_student"][0, :, 2:, :] = values["overlap_student"][0, :, :, 2:] = np.nan
    dataset.write("sgd", np.arange(2), values)
    found = dataset.read("sgd", np.array([0]), narrow.schema.variables["sgd"])
    np.testing.assert_array_equal(found["overlap_student"][0], values["overlap_student"][0, :, :2, :2])
    back = SweepDataset.create(*at(tmp_path / "t.zarr"), narrow, {})
    back.write("sgd", np.array([0]), found)
    again = back.read("sgd", np.array([0]), wide.schema.variables["sgd"])
    np.testing.assert_array_equal(again["overlap_student"][0], values["overlap_student"][0])
    np.testing.assert_array_equal(again["risk"][0], values["risk"][0])


def test_a_half_filled_dataset_opens_and_fills_up_under_its_reader(tmp_path):
    plan = plan_of({"axes": {**CORE, "regime": TWO}})
    dataset, rng = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {}), np.random.default_rng(0)
    count = plan.runs.count("ode")
    values = random_values(plan, "ode", count, rng)
    halves = np.split(rng.permutation(count), [count // 2])
    early = xr.open_dataset(tmp_path / "s.zarr", engine="zarr", cache=False)
    for turn, half in enumerate(halves, 1):
        dataset.write("ode", half, {name: array[half] for name, array in values.items()})
        assert int((early.ode_status != Status.PENDING).sum()) == sum(map(len, halves[:turn]))
        assert int((~early.ode_risk.isnull()).all("time").sum()) == sum(map(len, halves[:turn]))
    np.testing.assert_array_equal(early.sgd_status, Status.PENDING)


def test_values_are_on_the_disk_before_the_status_is_written(tmp_path, monkeypatch):
    plan = plan_of({"axes": CORE})
    dataset, log = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {}), []
    put, sync = module.LocalChunks.set, module.sync

    async def logged(self, key, value):
        log.append(("written", str(key)))
        await put(self, key, value)

    def synced(path):
        log.append(("synced", str(path)))
        sync(path)

    monkeypatch.setattr(module.LocalChunks, "set", logged)
    monkeypatch.setattr(module, "sync", synced)
    numbers = np.arange(plan.runs.count("sgd"))
    # the status first, for its place in the mapping must not matter
    values = random_values(plan, "sgd", len(numbers), np.random.default_rng(0))
    dataset.write("sgd", numbers, {"status": values.pop("status"), **values})
    written = [key for what, key in log if what == "written"]
    status = [key for key in written if key.startswith("sgd_status/")]
    assert status
    assert {key.split("/")[0] for key in written} == {f"sgd_{name}" for name in (*values, "status")}
    first = log.index(("written", status[0]))
    assert all(log.index(("written", key)) < first for key in written if key not in status)
    for key in written:
        path = tmp_path / "s.zarr" / key
        when = log.index(("written", key))
        until = len(log) if key in status else first
        for what in (path, *list(path.parents)[: len(key.split("/"))]):
            assert ("synced", str(what)) in log[when:until], f"{what} after {key}"


def test_a_dataset_appears_whole(tmp_path, monkeypatch):
    plan, path = plan_of({"axes": CORE}), tmp_path / "s.zarr"

    def dies(*_):
        raise RuntimeError("here")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(zarr, "consolidate_metadata", dies)
        SweepDataset.create(*at(path), plan, {})
    assert not path.exists()
    dataset = SweepDataset.create(*at(path), plan, {})  # over what the first one left
    assert dataset.status("sgd").tolist() == [0] * 9
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.zarr"]


def test_statuses_may_be_reset(tmp_path):
    plan = plan_of({"axes": CORE})
    dataset, numbers = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {}), np.arange(9)
    for status in (Status.FAILED, Status.PENDING, Status.DONE):
        dataset.write("sgd", numbers, {"status": np.full(9, status, np.int8)})
        assert dataset.status("sgd").tolist() == [status] * 9


def test_a_dataset_of_a_later_version_is_refused(tmp_path):
    plan = plan_of({"axes": CORE})
    SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {})
    zarr.open_group(tmp_path / "s.zarr", mode="r+").attrs["layout_version"] = 99
    with pytest.raises(TooNew, match="99"):
        SweepDataset(*at(tmp_path / "s.zarr"), plan)


def test_the_regime_that_auto_chose_is_stored_by_name(tmp_path):
    plan = plan_of({"axes": {"d": 50, "p": 2, "gamma": 0.1, "regime": "auto"}, "simulate": False})
    dataset = SweepDataset.create(*at(tmp_path / "s.zarr"), plan, {})
    job = Job("ode", 0, 0, (0,), (0,))
    result = compute(plan, job)
    dataset.write("ode", job.numbers(plan.runs), result.values)
    chosen = opened(tmp_path / "s.zarr").ode_regime
    assert chosen.attrs["flag_meanings"].split() == list(REGIMES)
    assert chosen.attrs["flag_meanings"].split()[int(chosen.squeeze())] in REGIMES
    assert list(chosen.attrs["flag_values"]) == list(range(len(REGIMES)))
