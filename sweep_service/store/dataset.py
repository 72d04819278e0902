"""The Zarr dataset of a sweep: created whole and empty, then filled run by run by one writer."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from types import EllipsisType
from typing import Any

import numpy as np
import xarray as xr
import zarr

from sweep_service.errors import TooNew, reading
from sweep_service.faults import fault
from sweep_service.model.labels import about
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.grids import POINT
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind
from sweep_service.planning.schema import LAYOUT_VERSION, Schema, Variable
from sweep_service.status import Status, count_statuses
from sweep_service.store.objects import Objects

STATUS = "status"


class SweepDataset:
    """The one writer of a sweep's arrays."""

    def __init__(self, objects: Objects, name: str, plan: SweepPlan) -> None:
        self.name, self.plan = name, plan
        self.store = objects.chunks(name)
        with reading(name):
            self.group = zarr.open_group(self.store, mode="r+")
            version = int(str(self.group.attrs.get("layout_version", LAYOUT_VERSION)))
        if version > LAYOUT_VERSION:
            raise TooNew(f"{name} has layout {version}; this version reads {LAYOUT_VERSION} and older")

    @classmethod
    def create(
        cls, objects: Objects, name: str, plan: SweepPlan, attributes: Mapping[str, Any]
    ) -> SweepDataset:
        """Arrays of their final shape, filled with nothing."""
        labels = coordinates(plan.schema).assign_attrs(attributes, layout_version=LAYOUT_VERSION)
        with objects.making(name) as store, warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", zarr.errors.ZarrUserWarning
            )  # consolidation is not in version 3 yet
            labels.to_zarr(store, mode="w", consolidated=False, zarr_format=3)
            group = zarr.open_group(store, mode="r+")
            for some in plan.schema.variables.values():
                for variable in some.values():
                    group.create_array(
                        variable.name,
                        shape=variable.shape,
                        chunks=variable.chunks,
                        dtype=variable.dtype,
                        fill_value=variable.fill,
                        dimension_names=variable.dims,
                        attributes=dict(variable.attributes),
                    )
            zarr.consolidate_metadata(store)
        return cls(objects, name, plan)

    def write(
        self, kind: Kind, numbers: AnyArray, values: Mapping[str, AnyArray], rows: AnyArray | None = None
    ) -> None:
        """Values of the runs with these numbers; the status last, when the rest is on the disk.

        `rows` says which row of the values is each run's, where several runs have the same.
        """
        places = self.plan.positions(kind, numbers)
        rows = np.arange(len(numbers)) if rows is None else rows
        variables = self.plan.schema.variables[kind]
        for name in sorted(values, key=lambda name: name == STATUS):
            if name == STATUS:
                self.store.sync()
                fault("merge:values")
            self._write(variables[name], places, values[name], rows)
        self.store.sync()
        fault("merge:status")

    def _write(
        self, variable: Variable, places: tuple[AnyArray, ...], values: AnyArray, rows: AnyArray
    ) -> None:
        """Read, change and write each chunk that is touched once; what is replaced whole is not read."""
        array = self._array(variable.name)
        for runs, where, inside in by_chunk(variable, places):
            replaced = np.zeros([part.stop - part.start for part in where], dtype=bool)
            replaced[inside] = True
            if replaced.all():
                block = np.empty((*replaced.shape, *variable.run_shape), variable.dtype)
            else:
                block = self._block(variable.name, where)
            block[inside] = values[rows[runs]]
            array[where] = block

    def read(self, kind: Kind, numbers: AnyArray, room: Mapping[str, Variable]) -> dict[str, AnyArray]:
        """Values (run, ...) of runs with these numbers, in the shapes of another sweep's variables."""
        places = self.plan.positions(kind, numbers)
        found: dict[str, AnyArray] = {}
        for name, variable in room.items():
            mine = self.plan.schema.variables[kind].get(name)
            theirs = variable.run_shape
            values = found[name] = np.full((len(numbers), *theirs), variable.fill, variable.dtype)
            if mine is None:  # none of these runs has it
                continue
            corner = tuple(slice(0, min(pair)) for pair in zip(mine.run_shape, theirs, strict=True))
            for runs, where, inside in by_chunk(mine, places):
                block = self._block(mine.name, where)[inside]
                place: Any = (runs, *corner)
                values[place] = block[(slice(None), *corner)]
        return found

    @property
    def attributes(self) -> dict[str, str]:
        """Where it comes from."""
        return {name: str(value) for name, value in self.group.attrs.items()}

    def counts(self) -> Counter[Status]:
        """Runs by status."""
        counts: Counter[Status] = Counter()
        for kind in self.plan.runs.kinds:
            values = self._block(f"{kind}_{STATUS}")
            with reading(f"{self.name}/{kind}_{STATUS}"):
                counts += count_statuses(values)
        return counts

    def _array(self, name: str) -> zarr.Array[Any]:
        with reading(f"{self.name}/{name}"):
            array = self.group[name]
            assert isinstance(array, zarr.Array)
            return array

    def _block(self, name: str, where: tuple[slice, ...] | EllipsisType = ...) -> AnyArray:
        array = self._array(name)
        with reading(f"{self.name}/{name}"):
            return np.array(array[where])

    def status(self, kind: Kind) -> AnyArray:
        """The status of each run, in the order of their numbers."""
        array = self._block(f"{kind}_{STATUS}")
        return array[self.plan.positions(kind)]


def by_chunk(
    variable: Variable, places: tuple[AnyArray, ...]
) -> Iterator[tuple[AnyArray, tuple[slice, ...], tuple[AnyArray, ...]]]:
    """Runs that share a chunk: which they are, where the chunk is, and where in it they are."""
    n = len(variable.leading)
    if len(places[0]) == 0:
        return
    sizes = np.array(variable.chunks[:n])
    chunks = np.stack(places, axis=-1) // sizes
    order = np.lexsort(chunks.T[::-1])
    begins = np.flatnonzero(np.any(np.diff(chunks[order], axis=0, prepend=-1) != 0, axis=1))
    for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
        runs = order[begin:end]
        corner = chunks[runs[0]] * sizes
        where = tuple(
            slice(int(c), int(min(c + size, whole)))
            for c, size, whole in zip(corner, sizes, variable.shape[:n], strict=True)
        )
        yield runs, where, tuple(place[runs] - c for place, c in zip(places, corner, strict=True))


def coordinates(schema: Schema) -> xr.Dataset:
    """Every dimension labelled, and delta_t and gamma/p at every point."""
    grid = schema.grid
    dims = {dim for some in schema.variables.values() for v in some.values() for dim in v.dims}
    found: dict[str, Any] = {"seed": list(grid.seeds), "repeat": list(grid.repeats), "time": grid.times}
    found["regime"] = np.array(grid.regimes, dtype=object)
    for dim in ("student", "student_other", "teacher"):
        found[dim] = np.arange(schema.sizes[dim])
    found["cosine_bin"] = (2.0 * np.arange(schema.sizes["cosine_bin"]) + 1.0) / schema.sizes[
        "cosine_bin"
    ] - 1.0
    dataset = xr.Dataset(
        coords={
            name: xr.Variable(name, values, about(name)) for name, values in found.items() if name in dims
        }
    )
    for name, values in grid.axes.items():
        text = isinstance(values[0], str)
        column = np.array(values, dtype=object) if text else np.array(values)
        dataset = dataset.assign_coords(
            {name: xr.Variable(name if grid.is_product else POINT, column, about(name))}
        )
    for name, where in (("delta_t", schema.delta_t), ("gamma_over_p", schema.gamma_over_p)):
        dataset = dataset.assign_coords({name: xr.Variable(grid.dims, where, about(name))})
    return dataset
