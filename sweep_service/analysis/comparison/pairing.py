"""Which runs of two points begin at the same start, or follow the same stream of samples."""

from __future__ import annotations

from typing import NamedTuple

import xarray as xr

from sweep_service.analysis.runs import number_coordinates, parameter, read_structures
from sweep_service.identity import canonical_json
from sweep_service.model.parameters import parameter_names
from sweep_service.model.point import Point
from sweep_service.model.structures import insert_numbers
from sweep_service.numerics.types import AnyArray


class Origin(NamedTuple):
    """What the runs of a point with equal seeds begin at, and what with equal repeats they see."""

    start: str
    stream: str


class Origins:
    """The origins of the points of a dataset, by their values of all parameters."""

    def __init__(self, dataset: xr.Dataset, dims: tuple[str, ...], sizes: tuple[int, ...]) -> None:
        self.structures, self.numbers = read_structures(dataset), number_coordinates(dataset)
        self.columns = {
            name: spread(parameter(dataset, name), dims, sizes)
            for name in (*parameter_names(), *self.numbers)
        }
        self._known: dict[tuple[object, ...], Origin] = {}

    def at(self, point: int) -> Origin:
        row = tuple(column[point] for column in self.columns.values())
        if row not in self._known:
            self._known[row] = self._make(dict(zip(self.columns, row, strict=True)))
        return self._known[row]

    def _make(self, values: dict[str, object]) -> Origin:
        numbers = {name: values.pop(name) for name in self.numbers}
        point = Point.parse({**values, **insert_numbers(self.structures, numbers)})
        layers = [point["second_layer"], point["teacher_second_layer"]]
        start = f"{point.init.key(point.shape, 0).digest} {canonical_json(layers)}"
        return Origin(start, f"{canonical_json(point.content)} {point.init.digest}")


def spread(array: xr.DataArray, dims: tuple[str, ...], sizes: tuple[int, ...]) -> AnyArray:
    """A parameter at all points, as a flat array in the order of `dims`."""
    shape = dict(zip(dims, sizes, strict=True))
    return (
        array.expand_dims({dim: shape[dim] for dim in dims if dim not in array.dims})
        .transpose(*dims)
        .values.reshape(-1)
    )
