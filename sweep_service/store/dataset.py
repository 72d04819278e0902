"""The Zarr dataset of a sweep: created empty in its final shape, then filled by one writer."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from types import EllipsisType
from typing import Any

import numpy as np
import zarr
from zarr.core.sync import sync

from sweep_service.errors import Damaged, reading
from sweep_service.faults import fault_point
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.jobs import empty_values
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind, run_name
from sweep_service.planning.schema import LAYOUT_VERSION, Variable
from sweep_service.status import Status, count_statuses
from sweep_service.store.labels import make_labels
from sweep_service.store.metadata import COMPRESSORS, DatasetMetadata
from sweep_service.store.objects import ROOT, Objects

STATUS = "status"  # the variable that is written last
CONVENTIONS = "CF-1.11"  # for names, units and flags
# Chunks of fill values are stored too, so that a missing chunk under a status is damage.
WRITE_ALL: Any = {"write_empty_chunks": True}


class SweepDataset:
    """The only writer of the arrays of a sweep."""

    def __init__(self, objects: Objects, name: str, plan: SweepPlan) -> None:
        self.name, self.plan = name, plan
        self.store = objects.chunks(name)
        with reading(name):
            self.group = zarr.open_group(self.store, mode="r+")

    @classmethod
    def create(
        cls, objects: Objects, name: str, plan: SweepPlan, attributes: Mapping[str, Any]
    ) -> SweepDataset:
        """Create arrays of the final shape, with fill values only."""
        labels = make_labels(plan.schema).assign_attrs(
            attributes, layout_version=LAYOUT_VERSION, Conventions=CONVENTIONS
        )
        with objects.creating_dataset(name) as store, warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", zarr.errors.ZarrUserWarning
            )  # Zarr format 3 does not specify consolidated metadata yet
            encoding = {name: {"compressors": COMPRESSORS} for name in labels.variables}
            labels.to_zarr(
                store,
                mode="w",
                consolidated=False,
                zarr_format=3,
                encoding=encoding,
                write_empty_chunks=True,
            )
            group = zarr.open_group(store, mode="r+")
            for variables in plan.schema.variables.values():
                for variable in variables.values():
                    array = group.create_array(
                        variable.name,
                        shape=variable.shape,
                        chunks=variable.chunks,
                        dtype=variable.dtype,
                        fill_value=variable.fill,
                        dimension_names=variable.dims,
                        attributes=dict(variable.attributes),
                        compressors=COMPRESSORS,
                        config=WRITE_ALL,
                    )
                    if variable.name.endswith(f"_{STATUS}"):  # so that a chunk that disappears is noticed
                        array[...] = Status.PENDING
            zarr.consolidate_metadata(store)
        return cls(objects, name, plan)

    def write(
        self, kind: Kind, numbers: AnyArray, values: Mapping[str, AnyArray], rows: AnyArray | None = None
    ) -> None:
        """Write values of the runs with these numbers; the status last, when the rest is on disk.

        `rows` gives the row of `values` that belongs to each run; by default, one row per run in order.
        """
        positions = self.plan.positions(kind, numbers)
        rows = np.arange(len(numbers)) if rows is None else rows
        variables = self.plan.schema.variables[kind]
        with self.store.batch():
            for name in values:
                if name != STATUS and self._has(variables[name]):
                    self._write(variables[name], positions, values[name], rows)
        fault_point("merge:values")
        if STATUS in values:
            with self.store.batch():
                self._write(variables[STATUS], positions, values[STATUS], rows)
            fault_point("merge:status")

    def _has(self, variable: Variable) -> bool:
        return not variable.is_optional or variable.name in self.group

    def _write(
        self, variable: Variable, positions: tuple[AnyArray, ...], values: AnyArray, rows: AnyArray
    ) -> None:
        """Read, change and write each affected chunk once; a chunk that is replaced entirely is not read."""
        array = self._open_array(variable.name)
        for runs, chunk, inside in group_by_chunk(variable, positions):
            replaced = np.zeros([extent.stop - extent.start for extent in chunk], dtype=bool)
            replaced[inside] = True
            if replaced.all():
                block = np.empty((*replaced.shape, *variable.run_shape), variable.dtype)
            else:
                block = self._read_block(variable.name, chunk)
            block[inside] = values[rows[runs]]
            array[chunk] = block

    def read(self, kind: Kind, numbers: AnyArray, targets: Mapping[str, Variable]) -> dict[str, AnyArray]:
        """Return the values (run, ...) of runs, in the shapes of the variables of another sweep."""
        positions = self.plan.positions(kind, numbers)
        result: dict[str, AnyArray] = {}
        for name, target in targets.items():
            source = self.plan.schema.variables[kind].get(name)
            values = result[name] = np.full((len(numbers), *target.run_shape), target.fill, target.dtype)
            if source is None or not self._has(source):  # not stored in this sweep
                continue
            shapes = zip(source.run_shape, target.run_shape, strict=True)
            common = tuple(slice(0, min(sizes)) for sizes in shapes)
            for runs, chunk, inside in group_by_chunk(source, positions):
                block = self._read_block(source.name, chunk)[inside]
                index: Any = (runs, *common)
                values[index] = block[(slice(None), *common)]
        self._check_initial_risk(kind, numbers, result)
        return result

    def _check_initial_risk(self, kind: Kind, numbers: AnyArray, values: Mapping[str, AnyArray]) -> None:
        """Raise Damaged if a done run has no risk at t = 0; an older version may have merged over a loss."""
        if "risk" in values and STATUS in values:
            lost = numbers[(values[STATUS] == Status.DONE) & np.isnan(values["risk"][:, 0])]
            if len(lost):
                name = run_name(kind, int(lost[0]))
                raise Damaged(f"{self.name}: the run {name} is done, but has no risk at t = 0")

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes of the dataset as text, such as its provenance."""
        return {name: str(value) for name, value in self.group.attrs.items()}

    def update_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Replace some attributes of the dataset, in one atomic write."""
        with self.store.batch():
            self.group.update_attributes(dict(attributes))

    def reset(self, kind: Kind, numbers: AnyArray) -> None:
        """Make runs pending, then replace their values by fill values."""
        if len(numbers) == 0:
            return
        values = empty_values(self.plan.schema, kind, 1)
        first_row = np.zeros(len(numbers), dtype=np.int64)
        self.write(kind, numbers, {STATUS: values.pop(STATUS)}, first_row)
        self.write(kind, numbers, values, first_row)

    def counts(self) -> Counter[Status]:
        """Count runs by status."""
        counts: Counter[Status] = Counter()
        for kind in self.plan.runs.kinds:
            values = self._read_block(f"{kind}_{STATUS}")
            with reading(f"{self.name}/{kind}_{STATUS}"):
                counts += count_statuses(values)
        return counts

    def is_intact(self, key: str) -> bool:
        """Whether the chunk with this key can be read, or may be missing."""
        try:
            sync(self.store.get(key))
        except Damaged:
            return False
        return True

    def runs_in_chunk(self, kind: Kind, key: str) -> AnyArray:
        """Return the numbers of the runs that have values in the chunk with this key."""
        variable = self.plan.schema.variables[kind][key.partition("/")[0].removeprefix(f"{kind}_")]
        chunk = [int(index) for index in key.split("/")[2:]]
        inside = [
            axis // size == index
            for axis, size, index in zip(
                self.plan.positions(kind),
                variable.chunks[: len(variable.leading)],
                chunk[: len(variable.leading)],
                strict=True,
            )
        ]
        return np.flatnonzero(np.all(inside, axis=0))

    def initial_risk(self, kind: Kind) -> AnyArray:
        """Return the risk at t = 0 of each run, in the order of run numbers."""
        return self._read_block(f"{kind}_risk", (..., 0))[self.plan.positions(kind)]

    def restore_labels(self) -> None:
        """Write coordinates again of which a chunk is damaged."""
        for name, label in make_labels(self.plan.schema).variables.items():
            array = self.metadata.arrays.get(str(name))  # older versions stored fewer
            if array is not None and not all(self.is_intact(key) for key in array.chunk_keys()):
                self._open_array(str(name))[...] = label.values
        self.store.sync()

    @property
    def metadata(self) -> DatasetMetadata:
        content = sync(self.store.get(ROOT))
        return DatasetMetadata(b"" if content is None else content.to_bytes(), self.name)

    def _open_array(self, name: str) -> zarr.Array[Any]:
        with reading(f"{self.name}/{name}"):
            array: Any = self.group[name]
            return zarr.Array(zarr.AsyncArray(array.metadata, array.store_path, WRITE_ALL))

    def _read_block(self, name: str, block: tuple[Any, ...] | EllipsisType = ...) -> AnyArray:
        array = self._open_array(name)
        with reading(f"{self.name}/{name}"):
            return np.array(array[block])

    def status(self, kind: Kind) -> AnyArray:
        """Return the status of each run, in the order of run numbers."""
        array = self._read_block(f"{kind}_{STATUS}")
        return array[self.plan.positions(kind)]

    def diverged_quantity(self, kind: Kind) -> AnyArray:
        """Return the quantity by which each run diverged, in the order of run numbers."""
        variable = self.plan.schema.variables[kind]["diverged_quantity"]
        if not self._has(variable):
            return np.zeros(self.plan.runs.count(kind), variable.dtype)
        return self._read_block(variable.name)[self.plan.positions(kind)]


def group_by_chunk(
    variable: Variable, positions: tuple[AnyArray, ...]
) -> Iterator[tuple[AnyArray, tuple[slice, ...], tuple[AnyArray, ...]]]:
    """Yield (indices of runs, slices of their chunk, positions within the chunk) for each affected chunk."""
    n = len(variable.leading)
    if len(positions[0]) == 0:
        return
    sizes = np.array(variable.chunks[:n])
    chunks = np.stack(positions, axis=-1) // sizes
    order = np.lexsort(chunks.T[::-1])
    begins = np.flatnonzero(np.any(np.diff(chunks[order], axis=0, prepend=-1) != 0, axis=1))
    for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
        runs = order[begin:end]
        corner = chunks[runs[0]] * sizes
        chunk = tuple(
            slice(int(start), int(min(start + size, length)))
            for start, size, length in zip(corner, sizes, variable.shape[:n], strict=True)
        )
        yield runs, chunk, tuple(axis[runs] - start for axis, start in zip(positions, corner, strict=True))
