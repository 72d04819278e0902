"""One labelled dataset from the runs of several sweeps, in the layout of a sweep over listed points."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from sweep_service.abandonment import check_abandoned
from sweep_service.analysis.atlas.columns import MISSING
from sweep_service.analysis.atlas.layout import Layout, common_times, make_coordinates, make_layout
from sweep_service.analysis.atlas.reading import read_by_number, resample, run_order
from sweep_service.analysis.atlas.runs import Runs
from sweep_service.analysis.runs import read_spec
from sweep_service.analysis.selection import format_values
from sweep_service.errors import InvalidInput, LimitExceeded, unknown_name
from sweep_service.model.structures import STRUCTURES
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.designs import smallest_d_and_p
from sweep_service.planning.runs import KINDS, Kind
from sweep_service.planning.spec import Triangle

MAX_NUMBERS = 1 << 25  # of all variables together: 256 MB
# Labels that a dataset has once: those of structures that are no numbers, and the switches of theories.
STRUCTURE_LABELS = (
    "init.kind", "init.teacher", "second_layer.init", "teacher.second_layer.init", "schedule.kind",
    "structures",
)  # fmt: skip
FILLS = {"regime": -1}  # of integer variables; that of the others is 0
RESULTS = ("status", "steps", "seconds", "diverged_quantity", "regime")
OpenSweep = Callable[[str], AbstractContextManager[xr.Dataset]]


class Source(NamedTuple):
    """An open sweep and its runs: their positions among the selected ones, and their numbers by kind."""

    sweep_id: str
    dataset: xr.Dataset
    chosen: dict[Kind, AnyArray]
    numbers: dict[Kind, AnyArray]


def assemble_dataset(
    runs: Runs,
    rows: AnyArray,
    open_sweep: OpenSweep,
    times: Sequence[float] | None = None,
    observables: Sequence[str] | None = None,
    by_sweep: bool = False,
) -> xr.Dataset:
    """Put runs of many sweeps into one dataset over `point`, at common times; see `Atlas.dataset`."""
    rows = rows if by_sweep else runs.primary(rows)
    if not len(rows):
        raise InvalidInput("selection", None, "no run is selected")
    _check_single(runs, rows)
    with ExitStack() as stack:
        sources = [
            source._replace(dataset=stack.enter_context(open_sweep(source.sweep_id)))
            for source in _list_sources(runs, rows)
        ]
        longest = runs.column("t_max", rows).drop_unused().values
        sampled = [source.dataset["time"].values for source in sources]
        layout = make_layout(runs, rows, common_times(sampled, longest, times), by_sweep)
        arrays = _allocate(_common_variables(sources, observables), layout)
        for source in sources:
            check_abandoned()
            _copy_runs(source, layout, arrays)
        specs = [read_spec(source.dataset) for source in sources]
    dataset = xr.Dataset(arrays, make_coordinates(runs, rows, layout, by_sweep))
    ids = [source.sweep_id for source in sources]
    for kind in KINDS:
        if f"{kind}_status" in dataset:
            dataset[f"{kind}_sweep"] = _record_provenance(sources, layout, kind)
    dataset.attrs = {
        "title": "atlas",
        "spec": json.dumps(_make_spec(dataset, specs)),
        "sweeps": json.dumps(ids),
    }
    return dataset


def _check_single(runs: Runs, rows: AnyArray) -> None:
    for name in (*STRUCTURE_LABELS, "regime_options"):
        codes = np.unique(runs.column(name, rows).codes)
        if name == "regime_options":
            codes = codes[codes != MISSING]  # runs of SGD have none
        if len(codes) > 1:
            values = np.array([str(value) for value in runs.labels[name].values[codes[codes != MISSING]]])
            choices = format_values(values) + (", and none" if MISSING in codes else "")
            raise InvalidInput(
                name, None, f"varies, and a dataset has it once: select one of {choices}, or some sweeps"
            )


def _list_sources(runs: Runs, rows: AnyArray) -> list[Source]:
    """The sweeps of the runs, not opened yet."""
    sweeps, kinds = runs.column("sweep", rows).drop_unused(), runs.column("kind", rows).decode()
    order = np.argsort(sweeps.codes, kind="stable")
    ends = np.searchsorted(sweeps.codes[order], np.arange(len(sweeps.values)), side="right")
    sources = []
    for sweep_id, mine in zip(sweeps.values, np.split(order, ends[:-1]), strict=True):
        chosen = {kind: mine[kinds[mine] == kind] for kind in KINDS if (kinds[mine] == kind).any()}
        numbers = {kind: runs.number[rows[positions]] for kind, positions in chosen.items()}
        sources.append(Source(str(sweep_id), xr.Dataset(), chosen, numbers))
    return sources


def _common_variables(
    sources: Sequence[Source], observables: Sequence[str] | None
) -> dict[str, list[xr.Variable]]:
    """The variables of each kind that all sweeps with such runs have: those of each sweep, by name."""
    variables: dict[str, list[xr.Variable]] = {}
    for kind in KINDS:
        datasets = [source.dataset for source in sources if kind in source.chosen]
        if not datasets:
            continue
        names = [str(name) for name in datasets[0].data_vars if str(name).startswith(f"{kind}_")]
        names = [name for name in names if all(name in dataset for dataset in datasets)]
        if observables is not None:
            stored = [name.removeprefix(f"{kind}_") for name in names]
            for wanted in observables:
                if wanted not in stored:
                    raise unknown_name(
                        "observables", wanted, [name for name in stored if name not in RESULTS]
                    )
            kept = {f"{kind}_{name}" for name in (*observables, *RESULTS)}
            names = [name for name in names if name in kept]
        variables |= {name: [dataset[name].variable for dataset in datasets] for name in names}
    return variables


def _allocate(variables: dict[str, list[xr.Variable]], layout: Layout) -> dict[str, xr.Variable]:
    """Empty variables; raises LimitExceeded before memory is used."""
    sizes, shapes = layout.sizes, {}
    for name, stored in variables.items():
        kind = name.partition("_")[0]
        trailing = _trailing_dims(stored[0], kind)
        largest = {dim: max(variable.sizes[dim] for variable in stored) for dim in trailing}
        shapes[name] = {dim: sizes.get(dim, largest.get(dim, 0)) for dim in (*layout.dims(kind), *trailing)}
    total = sum(math.prod(shape.values()) for shape in shapes.values())
    if total > MAX_NUMBERS:
        allowed = (
            f"must be at most {MAX_NUMBERS} numbers: select fewer runs, or name fewer observables or times"
        )
        raise LimitExceeded("dataset", total, allowed)
    arrays = {}
    for name, shape in shapes.items():
        stored = variables[name]
        fill = math.nan if stored[0].dtype.kind == "f" else FILLS.get(name.partition("_")[2], 0)
        arrays[name] = xr.Variable(
            tuple(shape), np.full(tuple(shape.values()), fill, stored[0].dtype), stored[0].attrs
        )
    return arrays


def _trailing_dims(variable: xr.Variable, kind: str) -> list[str]:
    """The dimensions of the values of one run."""
    order = run_order(variable.dims, kind)
    return [str(dim) for dim in variable.dims if dim not in order]


def _copy_runs(source: Source, layout: Layout, arrays: dict[str, xr.Variable]) -> None:
    """Copy the runs of one sweep to their positions, resampled to the common times."""
    times = source.dataset["time"].values
    for kind, chosen in source.chosen.items():
        positions = layout.positions(kind, chosen)
        for name, target in arrays.items():
            if not name.startswith(f"{kind}_"):
                continue
            values = read_by_number(source.dataset, name, kind, source.numbers[kind])
            if "time" in target.dims:
                values = resample(values, times, layout.times)
            inside: Any = (*positions, *(slice(0, size) for size in values.shape[1:]))
            target.values[inside] = values


def _record_provenance(sources: Sequence[Source], layout: Layout, kind: Kind) -> xr.Variable:
    """The sweep of each run, as a flag; -1 where there is none."""
    dims = layout.dims(kind)
    array = np.full([layout.sizes[dim] for dim in dims], -1, np.int32)
    for at, source in enumerate(sources):
        if kind in source.chosen:
            array[layout.positions(kind, source.chosen[kind])] = at
    attributes = {
        "long_name": "the sweep of a run",
        "flag_values": list(range(len(sources))),
        "flag_meanings": " ".join(source.sweep_id for source in sources),
    }
    return xr.Variable(dims, array, attributes)


def _make_spec(dataset: xr.Dataset, specs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What analyses read of a spec: the structures, and the triangle if all points have one step."""
    spec: dict[str, Any] = {name: specs[0][name] for name in STRUCTURES if name in specs[0]}
    designs = [design["triangle"] for design in specs if design.get("triangle")]
    steps = dataset["delta_t"].values
    if designs and np.allclose(steps, steps[0], rtol=1e-6, atol=0.0):
        spec["triangle"] = _merge_triangles(
            [Triangle(**design) for design in designs], int(dataset["k"].max())
        )
    return spec


def _merge_triangles(designs: Sequence[Triangle], k: int) -> dict[str, Any]:
    """The smallest triangle that contains those of several sweeps."""
    least = [smallest_d_and_p(design, k) for design in designs]
    return {
        **designs[0].model_dump(mode="json"),
        "d_min": min(d for d, _ in least),
        "p_min": min(p for _, p in least),
        "gamma_max": max(design.gamma_max for design in designs),
    }
