"""Selection from a stored sweep: by coordinate values, by variable names, or by blocks.

Only coordinates are read here. The selected values of arrays are read when they are used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from sweep_service.errors import InvalidInput, LimitExceeded, unknown_name
from sweep_service.numerics.types import AnyArray
from sweep_service.validation import read_number

RELATIVE_TOLERANCE = 1e-9  # numbers written with ten digits still match
NEAREST_MATCH = ("time",)  # coordinates whose exact values users do not know
MAX_SELECTED_VALUES = 1000  # each is compared with every stored value
MAX_LISTED_VALUES = 12  # in an error message
T = TypeVar("T", xr.Dataset, xr.DataArray)


def select(dataset: T, where: Mapping[str, Any]) -> T:
    """Select from a dataset or array by the values of coordinates; every dimension stays.

    A selection is a number, a text, a sequence of them, or a string as in a URL: `0.1`, `0.1,0.2`, or
    `0.01:1` for a range that includes both ends, either of which may be omitted. Numbers must be stored ones
    (floats up to a relative 1e-9); a single time selects the nearest sample.
    """
    masks: dict[str, AnyArray] = {}
    for name, wanted in where.items():
        dim, stored = _find_coordinate(dataset, name, wanted)
        mask = match_values(name, stored, wanted)  # raises an error if the only value of a scalar is another
        if dim is not None:
            masks[dim] = masks[dim] & mask if dim in masks else mask
    for dim, mask in masks.items():
        if not mask.any():  # each selection has points, but none in common
            names = [name for name in where if dim in dataset[name].dims]
            wanted = [where[name] for name in names]
            raise InvalidInput(", ".join(names), wanted, "no point has all of these values")
    return dataset.isel({dim: compact_index(np.flatnonzero(mask)) for dim, mask in masks.items()})


def select_variables(dataset: xr.Dataset, names: str | Sequence[str]) -> xr.Dataset:
    """Only these data variables, `sgd_risk,ode_risk` or a list, with their coordinates."""
    wanted = _split_items("variables", names)
    for name in wanted:
        if not isinstance(name, str) or name not in dataset.data_vars:
            raise unknown_name("variables", name, map(str, dataset.data_vars))
    return dataset[list(dict.fromkeys(wanted))]


def run_dims(array: xr.DataArray) -> tuple[str, ...]:
    """The dimensions of the runs: those before time."""
    dims = tuple(str(dim) for dim in array.dims)
    return dims[: dims.index("time")] if "time" in dims else dims


def require_axis(field: str, name: str, axes: Sequence[str]) -> None:
    """Raise unless `name` is one of the axes, which a single point does not have."""
    if not axes:
        allowed = "must be an axis with several values: this dataset is a single point, not a sweep"
        raise InvalidInput(field, name, allowed)
    if name not in axes:
        raise unknown_name(field, name, axes)


def iterate_blocks(sizes: Mapping[str, int], max_numbers: int) -> Iterator[dict[str, slice]]:
    """Indices of consecutive blocks of an array, each of at most `max_numbers` numbers."""
    steps: dict[str, int] = {}
    for dim, size in reversed(list(sizes.items())):
        steps[dim] = max(1, min(size, max_numbers))
        max_numbers //= size
    for corner in product(*(range(0, size, steps[dim]) for dim, size in sizes.items())):
        yield {dim: slice(start, start + steps[dim]) for dim, start in zip(sizes, corner, strict=True)}


def _find_coordinate(
    dataset: xr.Dataset | xr.DataArray, name: str, wanted: Any
) -> tuple[str | None, AnyArray]:
    """The dimension of a coordinate, None for a scalar, and its values."""
    names = {*dataset.dims, *dataset.coords}
    if name not in names:
        raise unknown_name("selection", name, (str(known) for known in names if dataset[known].ndim <= 1))
    coordinate = dataset[name]  # indices, for a dimension without labels
    if coordinate.ndim == 0:
        return None, coordinate.values.reshape(1)
    if coordinate.ndim != 1:
        dims = ", ".join(map(str, coordinate.dims))
        raise InvalidInput(
            name, wanted, f"cannot be selected, as it depends on ({dims}): select those instead"
        )
    return str(coordinate.dims[0]), coordinate.values


def match_values(name: str, stored: AnyArray, wanted: Any) -> AnyArray:
    """Whether each stored value is one of those that a selection wants."""
    mask = np.zeros(len(stored), dtype=bool)
    match = _match_number if stored.dtype.kind in "iuf" else _match_text
    for item in _split_items(name, wanted):
        mask |= match(name, stored, item)
    return mask


def _split_items(name: str, wanted: Any) -> list[Any]:
    """Single values and ranges."""
    if isinstance(wanted, np.ndarray):
        wanted = wanted.tolist()
    sequence = wanted if isinstance(wanted, Sequence) and not isinstance(wanted, (str, bytes)) else [wanted]
    items: list[Any] = []
    for item in sequence:
        items += dict.fromkeys(map(str.strip, item.split(","))) if isinstance(item, str) else [item]
    if len(items) > MAX_SELECTED_VALUES:
        allowed = f"must be at most {MAX_SELECTED_VALUES} values, or a range such as 0.01:1"
        raise LimitExceeded(name, wanted, allowed)
    if not items or "" in items:
        raise InvalidInput(name, wanted, "must have at least one value, and no empty ones")
    return items


def _match_text(name: str, stored: AnyArray, item: Any) -> AnyArray:
    texts = [str(text) for text in stored]
    if item not in texts:
        raise unknown_name(name, item, set(texts))
    return np.array([text == item for text in texts])


def _match_number(name: str, stored: AnyArray, item: Any) -> AnyArray:
    if isinstance(item, str) and ":" in item:
        first, _, last = item.partition(":")
        low = _parse_number(name, first) if first.strip() else -math.inf
        high = _parse_number(name, last) if last.strip() else math.inf
        mask = (stored >= low) | _equals(stored, low)
        mask &= (stored <= high) | _equals(stored, high)
    elif name in NEAREST_MATCH:
        mask = np.arange(len(stored)) == np.argmin(np.abs(stored - _parse_number(name, item)))
    else:
        mask = _equals(stored, _parse_number(name, item))
    if not mask.any():
        raise InvalidInput(name, item, f"is not stored; available: {format_values(stored)}")
    return mask


def _equals(stored: AnyArray, value: float) -> AnyArray:
    """Integers are compared exactly, so that large seeds stay distinct."""
    if stored.dtype.kind != "f" or math.isinf(value):
        return np.asarray(stored == value)
    return np.asarray(np.abs(stored - float(value)) <= RELATIVE_TOLERANCE * abs(value))


def _parse_number(name: str, item: Any) -> float:
    value = _parse_text(item) if isinstance(item, str) else item
    finite = read_number(value, name)
    return int(value) if isinstance(value, Integral) else finite


def _parse_text(text: str) -> float | str:
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            continue
    return text


def format_values(stored: AnyArray) -> str:
    """The distinct values, or their number and range if there are many."""
    values = sorted({value if isinstance(value, (int, float)) else str(value) for value in stored.tolist()})
    texts = [f"{value:.10g}" if isinstance(value, float) else str(value) for value in values]
    if len(texts) <= MAX_LISTED_VALUES:
        return ", ".join(texts)
    return f"{len(texts)} values from {texts[0]} to {texts[-1]}"


def compact_index(indices: AnyArray) -> slice | AnyArray:
    """A slice if possible, which Zarr reads faster."""
    first, last = int(indices[0]), int(indices[-1])
    return slice(first, last + 1) if last - first + 1 == len(indices) else indices
