"""Builds the index of a sweep from its spec and its dataset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from sweep_service.abandonment import check_abandoned
from sweep_service.errors import Damaged, NotFound
from sweep_service.identity import Key
from sweep_service.model.parameters import PARAMETERS
from sweep_service.model.structures import number_names, remove_number
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.axes import EXPONENTS
from sweep_service.planning.runs import Kind
from sweep_service.planning.versions import REGIME, SIMULATOR
from sweep_service.status import Status
from sweep_service.store.folder import KEYS_DIGEST, digest_keys
from sweep_service.store.run_index.columns import POINT_COLUMNS, SUMMARIES, binary_array, make_table
from sweep_service.store.run_index.summaries import LARGEST_NORM, ORDER_PARAMETER, RISK, summarise_runs

if TYPE_CHECKING:
    from sweep_service.planning.grids import Grid
    from sweep_service.store.dataset import SweepDataset
    from sweep_service.store.folder import DataFolder

NUMBERS_PER_BLOCK = 1 << 21  # read at once: 16 MB
WITH_VALUES = (Status.DONE, Status.DIVERGED)
STATUS_LABELS = pa.array([status.label for status in Status])


def build_index(folder: DataFolder, sweep_id: str, known: pa.Table | None = None) -> pa.Table:
    """Make the table of all runs of a sweep, whether or not they have ended.

    `known` is an earlier table of the same sweep: the values of runs that had ended are not read again.
    """
    dataset = folder.dataset(sweep_id)
    keys = read_keys(folder, sweep_id, dataset)
    labels = _PointLabels(dataset.plan.grid)
    tables, start = [], 0
    for kind in dataset.plan.runs.kinds:
        count = dataset.plan.runs.count(kind)
        earlier = None if known is None else known.slice(start, count)
        tables.append(_build_kind(dataset, sweep_id, kind, keys[kind], labels, earlier))
        start += count
    return pa.concat_tables(tables)


def read_keys(folder: DataFolder, sweep_id: str, dataset: SweepDataset) -> dict[Kind, AnyArray]:
    """Return the run keys if they are those that the dataset names, and otherwise those of the spec."""
    try:
        keys = folder.keys(sweep_id)
        if dataset.attributes.get(KEYS_DIGEST) == digest_keys(keys):
            return keys
    except (Damaged, NotFound):
        pass
    return dataset.plan.keys


class _PointLabels:
    """The labels of the points of a grid, by the names of columns."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.single: dict[str, Any] = {
            name: entry.default for name, entry in PARAMETERS.items() if entry.default is not None
        }
        single = grid.single_values()
        self.single |= {
            name: single[name] for name in (*PARAMETERS, *EXPONENTS, *number_names()) if name in single
        }
        self.single |= {name: str(single[name]) for name in POINT_COLUMNS if name in single}
        self.single["structures"] = digest_structures(grid)
        self.varying = [name for name in grid.axes if name not in single]
        for name, entry in PARAMETERS.items():  # teacher_activation follows an activation that varies
            if entry.default_from in self.varying and name not in single and name not in self.varying:
                self.varying.append(name)

    def at(self, points: AnyArray) -> dict[str, Any]:
        """Return the columns of runs at these points."""
        columns = dict(self.single)
        for name in self.varying:
            source = name if name in self.grid.axes else PARAMETERS[name].default_from
            columns[name] = self.grid.column(source).reshape(-1)[points]
        d, p, gamma = (self.grid.column(name).reshape(-1)[points] for name in ("d", "p", "gamma"))
        return {**columns, "delta_t": gamma / (p * d), "gamma_over_p": gamma / p}


def digest_structures(grid: Grid) -> str:
    """Digest init, teacher, second layers and schedule without the numbers that have columns of their own."""
    point = grid.point(0)
    init = point.init.content()
    teacher = init.pop("teacher", None)
    structures = {
        "init": init,
        "second_layer": point["second_layer"],
        "teacher": {**(teacher if isinstance(teacher, dict) else {"kind": teacher}),
                    "second_layer": point["teacher_second_layer"]},
        "schedule": point["schedule"],
    }  # fmt: skip
    for name in number_names():
        structures = remove_number(structures, name)
    return Key.of(**structures).digest[:16]


def _build_kind(
    dataset: SweepDataset,
    sweep_id: str,
    kind: Kind,
    keys: AnyArray,
    labels: _PointLabels,
    known: pa.Table | None,
) -> pa.Table:
    grid, runs = dataset.plan.grid, dataset.plan.runs.table(kind)
    attributes, rows, stored = dataset.attributes, len(runs), _stored_names(grid)
    versions = json.loads(attributes.get("versions", "{}"))
    columns: dict[str, Any] = labels.at(runs.point)
    columns |= {
        "sweep": sweep_id,
        "kind": kind,
        "number": np.arange(rows),
        "key": binary_array(keys),
        "seed": np.array(grid.seeds, np.int64)[runs.seed],
        "t_max": float(grid.times[-1]),
        "samples": len(grid.times),
        "times": Key.of(times=grid.times).digest[:16],
        "observables": ",".join(name for name in dataset.plan.schema.variables[kind] if name in stored),
        "package": attributes.get("sweep_service_version", ""),
    }  # fmt: skip
    if kind == "sgd":
        assert grid.simulators is not None
        columns["repeat"] = np.array(grid.repeats, np.int64)[runs.repeat]
        names, positions = list(grid.simulators.values), grid.simulators.group[runs.point]
        titles = [f"{SIMULATOR} {name}" for name in names]
    else:
        names, positions = list(grid.regimes), runs.regime
        titles = [f"{REGIME} {name}" for name in names]
        columns["regime"] = _texts(names, positions)
        columns["regime_options"] = json.dumps(grid.options.content(), sort_keys=True)
    columns["engine"] = _texts(names, positions)
    numbers = np.array([float(versions.get(title, np.nan)) for title in titles])
    columns["version"] = numbers[positions]
    columns |= _results(dataset, kind, keys, known)
    return make_table(columns, rows)


def _stored_names(grid: Grid) -> tuple[str, ...]:
    overlaps = ("overlap_student_teacher", "overlap_student", "orthogonal_norm") if grid.overlaps else ()
    return (*grid.observables, *overlaps)


def _texts(names: list[str], positions: AnyArray) -> pa.Array:
    """A column of texts by their positions in a list, in which a name may occur twice."""
    distinct = list(dict.fromkeys(names))
    codes = np.array([distinct.index(name) for name in names], np.int32)[positions]
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(distinct))


def _results(dataset: SweepDataset, kind: Kind, keys: AnyArray, known: pa.Table | None) -> dict[str, Any]:
    """How each run ended, and the summaries of those that have values."""
    statuses = dataset.status(kind)
    stored = ["seconds", *(["steps"] if kind == "sgd" else [])]
    columns: dict[str, Any] = {name: np.full(len(statuses), np.nan) for name in (*SUMMARIES, *stored)}
    ended = np.isin(statuses, WITH_VALUES)
    if known is not None:
        is_known = ended & _is_unchanged(known, statuses, keys)
        for name in columns:
            earlier = known[name].to_numpy().astype(float)
            columns[name][is_known] = earlier[is_known]
        ended &= ~is_known
    for numbers in _blocks(dataset, kind, np.flatnonzero(ended)):
        check_abandoned()
        variables = dataset.plan.schema.variables[kind]
        names = [name for name in (RISK, LARGEST_NORM, ORDER_PARAMETER, *stored) if name in variables]
        values = dataset.read(kind, numbers, {name: variables[name] for name in names})
        diverged = statuses[numbers] == Status.DIVERGED
        columns_here = summarise_runs(values, dataset.plan.grid.times, diverged)
        for name, array in (columns_here | {name: values[name] for name in stored}).items():
            columns[name][numbers] = array
    return {
        "status": pa.DictionaryArray.from_arrays(pa.array(statuses.astype(np.int32)), STATUS_LABELS),
        **columns,
    }


def _is_unchanged(known: pa.Table, statuses: AnyArray, keys: AnyArray) -> AnyArray:
    """Whether each run had its status and its key in an earlier table already."""
    status = known["status"].combine_chunks()
    labels = [entry.label for entry in Status]
    codes = np.array([labels.index(name) for name in status.dictionary.to_pylist()])
    earlier_keys = np.array(known["key"].to_pylist(), dtype=object)
    same_key = earlier_keys == np.array([key.tobytes() for key in keys], dtype=object)
    return np.asarray((codes[status.indices.to_numpy()] == statuses) & same_key)


def _blocks(dataset: SweepDataset, kind: Kind, numbers: AnyArray) -> Iterator[AnyArray]:
    """Divide runs into blocks whose curves fit in memory."""
    size = max(1, NUMBERS_PER_BLOCK // (3 * len(dataset.plan.grid.times)))
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]
