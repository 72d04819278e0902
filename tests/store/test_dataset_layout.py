"""The layout of a dataset: dimensions, labels, chunks and variables."""

import json
import math

import numpy as np
import pytest
import zarr

from sweep_service.planning import schema as schema_module
from sweep_service.planning.grids import Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.dataset import SweepDataset
from tests.store.datasets import BASE, CORE, TWO, at, empty, labels, make_plan, open_strictly, random_values

# A spec, the dimensions of its sgd_risk and of its ode_risk (None if it has none).
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


@pytest.fixture(params=DESIGNS, scope="module")
def design(request, tmp_path_factory):
    spec, sgd, ode = DESIGNS[request.param]
    plan = make_plan(spec)
    path = tmp_path_factory.mktemp("design") / "s.zarr"
    SweepDataset.create(*at(path), plan, {"title": "a title", "spec": json.dumps(spec)})
    return plan, path, {"sgd": sgd, "ode": ode}


def test_dimensions_are_in_the_documented_order(design):
    plan, path, dims = design
    ds = open_strictly(path)
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


def test_every_variable_and_coordinate_has_labels(design):
    _, path, _ = design
    ds = open_strictly(path)
    for name, variable in ds.variables.items():
        assert variable.attrs["long_name"], name
        assert variable.attrs.get("units") == ("s" if str(name).endswith("_seconds") else None), name
    for name in ds.data_vars:
        assert set(ds[name].dims) - {"point"} <= set(ds.coords)
    assert ds.attrs["title"] == "a title"
    assert ds.attrs["layout_version"] == 1


def test_status_has_flags_and_no_fill_value_for_xarray(design):
    _, path, _ = design
    ds, group = open_strictly(path), zarr.open_group(path, mode="r")
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


def test_new_dataset_has_only_fill_values(design):
    _, path, _ = design
    for name, variable in open_strictly(path).drop_vars("regime_code", errors="ignore").data_vars.items():
        empty = (
            np.isnan(variable.values)
            if variable.dtype.kind == "f"
            else variable.values == (-1 if name == "ode_regime" else 0)
        )
        assert np.all(empty), name


def test_points_have_delta_t_and_gamma_over_p(design):
    plan, path, _ = design
    ds = open_strictly(path)
    for index, point in enumerate(plan.grid.points):
        where = plan.grid.row(index) if plan.grid.is_product else {"point": index}
        selected = ds[["delta_t", "gamma_over_p"]].sel(where)
        assert float(selected.delta_t) == pytest.approx(point.gamma / (point.p * point.d), rel=1e-15)
        assert float(selected.gamma_over_p) == pytest.approx(point.gamma / point.p, rel=1e-15)


def test_swept_axes_are_coordinates(design):
    plan, path, _ = design
    ds = open_strictly(path)
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
    metadata = json.loads((path / "zarr.json").read_text("utf-8"))
    stored = {
        variable.name for variables in plan.schema.variables.values() for variable in variables.values()
    }
    assert stored | {"delta_t", "gamma_over_p", "time"} <= set(metadata["consolidated_metadata"]["metadata"])
    assert not list(path.parent.glob("*.partial*"))


def test_every_run_is_stored_at_its_labels(design):
    plan, path, _ = design
    dataset, rng = SweepDataset(*at(path), plan), np.random.default_rng(0)
    for kind in plan.schema.variables:
        count = plan.runs.count(kind)
        numbers = rng.permutation(count)
        values = random_values(plan, kind, count, rng)
        dataset.write(kind, numbers, values)
        ds = open_strictly(path)
        for row in rng.permutation(count)[:10]:
            run = ds.sel(labels(plan, kind, numbers[row]))
            for name, array in values.items():
                np.testing.assert_array_equal(run[f"{kind}_{name}"].values, array[row])
        np.testing.assert_array_equal(dataset.status(kind)[numbers], values["status"])
        dataset.write(
            kind, np.arange(count), empty(plan, kind, count)
        )  # restores the dataset for other tests


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
def test_chunks_of_large_arrays_have_1_to_4_megabytes(spec):
    plan = SweepPlan(Grid.of(SweepSpec.parse({**BASE, **spec}), validate=False))
    large = 0
    for variables in plan.schema.variables.values():
        for variable in variables.values():
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
def test_chunks_of_a_large_run_split_times_but_not_samples(p, samples):
    plan = make_plan(
        {
            "axes": {"d": [700, 701], "p": p, "gamma": 0.1, "regime": TWO}, "seeds": 3,
            "time": {"max": 1.0, "samples": samples}, "observables": ["risk", "overlaps", "cosine_histogram"],
        }
    )  # fmt: skip
    for variables in plan.schema.variables.values():
        for variable in variables.values():
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
def test_overlap_variables_depend_on_the_regimes(regimes, stored):
    plan = make_plan({"axes": {**CORE, "regime": regimes}, "observables": ["overlaps", "risk"]})
    assert set(plan.schema.variables["ode"]) == stored | {
        "risk", "seconds", "diverged_quantity", "status",
    }  # fmt: skip
    assert set(plan.schema.variables["sgd"]) == {
        "risk", "overlap_student_teacher", "overlap_student", "seconds", "steps", "diverged_quantity",
        "status",
    }  # fmt: skip
    for kind in ("sgd", "ode"):
        if "overlap_student" in plan.schema.variables[kind]:
            assert plan.schema.variables[kind]["overlap_student"].trailing == (
                "time",
                "student",
                "student_other",
            )
