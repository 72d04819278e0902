"""Parts of a stored sweep: by the values of its coordinates, by the names of its variables, by blocks.

Only coordinates are read here; what is selected of the arrays is read by whoever uses it.
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
from sweep_service.validation import number

RTOL = 1e-9  # a number that went through a text with ten digits is still the same
NEAREST = ("time",)  # samples: nobody knows them by heart
MOST_VALUES = 1000  # one by one: each is compared with every stored one
FEW = 12  # values that an error lists
T = TypeVar("T", xr.Dataset, xr.DataArray)


def select(dataset: T, where: Mapping[str, Any]) -> T:
    """The part of a sweep, or of an array, where coordinates have some values; every dimension stays.

    A value is a number, a text, a sequence of them, or what a URL would say: `0.1`, `0.1,0.2`, or
    `0.01:1` for a range with both ends, of which either may be left out. Numbers are stored ones
    (floats up to a relative 1e-9); a single time means the nearest sample.
    """
    masks: dict[str, AnyArray] = {}
    for name, wanted in where.items():
        dim, stored = _coordinate(dataset, name, wanted)
        mask = _mask(name, stored, wanted)
        masks[dim] = masks[dim] & mask if dim in masks else mask
    for dim, mask in masks.items():
        if not mask.any():  # each has its points, but they have none in common
            names = [name for name in where if dim in dataset[name].dims]
            raise InvalidInput(", ".join(names), [where[name] for name in names], "no point has all of them")
    return dataset.isel({dim: _index(np.flatnonzero(mask)) for dim, mask in masks.items()})


def variables(dataset: xr.Dataset, names: str | Sequence[str]) -> xr.Dataset:
    """Only these data variables, `sgd_risk,ode_risk` or a list, with the coordinates that they have."""
    wanted = _parts("variables", names)
    for name in wanted:
        if not isinstance(name, str) or name not in dataset.data_vars:
            raise unknown_name("variables", name, map(str, dataset.data_vars))
    return dataset[list(dict.fromkeys(wanted))]


def run_dims(array: xr.DataArray) -> tuple[str, ...]:
    """The dimensions that number runs: those before time."""
    dims = tuple(str(dim) for dim in array.dims)
    return dims[: dims.index("time")] if "time" in dims else dims


def blocks(sizes: Mapping[str, int], room: int) -> Iterator[dict[str, slice]]:
    """All of an array in its order, in pieces of at most `room` numbers."""
    steps: dict[str, int] = {}
    for dim, size in reversed(list(sizes.items())):
        steps[dim] = max(1, min(size, room))
        room //= size
    for corner in product(*(range(0, size, steps[dim]) for dim, size in sizes.items())):
        yield {dim: slice(at, at + steps[dim]) for dim, at in zip(sizes, corner, strict=True)}


def _coordinate(dataset: xr.Dataset | xr.DataArray, name: str, wanted: Any) -> tuple[str, AnyArray]:
    """The dimension that a name belongs to, and the values along it."""
    known = {*dataset.dims, *dataset.coords}
    if name not in known:
        raise unknown_name("selection", name, (str(one) for one in known if dataset[one].ndim == 1))
    found = dataset[name]  # of a dimension without labels, its numbers
    if found.ndim != 1:
        dims = ", ".join(map(str, found.dims))
        raise InvalidInput(name, wanted, f"cannot be selected by: it belongs to ({dims}), select those")
    return str(found.dims[0]), found.values


def _mask(name: str, stored: AnyArray, wanted: Any) -> AnyArray:
    mask = np.zeros(len(stored), dtype=bool)
    find = _numbers if stored.dtype.kind in "iuf" else _texts
    for part in _parts(name, wanted):
        mask |= find(name, stored, part)
    return mask


def _parts(name: str, wanted: Any) -> list[Any]:
    """Single values and ranges."""
    if isinstance(wanted, np.ndarray):
        wanted = wanted.tolist()
    items = wanted if isinstance(wanted, Sequence) and not isinstance(wanted, (str, bytes)) else [wanted]
    parts: list[Any] = []
    for item in items:
        parts += dict.fromkeys(map(str.strip, item.split(","))) if isinstance(item, str) else [item]
    if len(parts) > MOST_VALUES:
        raise LimitExceeded(name, wanted, f"must be at most {MOST_VALUES} values, or a range such as 0.01:1")
    if not parts or "" in parts:
        raise InvalidInput(name, wanted, "must name a value, and no empty one")
    return parts


def _texts(name: str, stored: AnyArray, part: Any) -> AnyArray:
    texts = [str(text) for text in stored]
    if part not in texts:
        raise unknown_name(name, part, set(texts))
    return np.array([text == part for text in texts])


def _numbers(name: str, stored: AnyArray, part: Any) -> AnyArray:
    if isinstance(part, str) and ":" in part:
        low, _, high = part.partition(":")
        least = _number(name, low) if low.strip() else -math.inf
        most = _number(name, high) if high.strip() else math.inf
        found = (stored >= least) | _equal(stored, least)
        found &= (stored <= most) | _equal(stored, most)
    elif name in NEAREST:
        found = np.arange(len(stored)) == np.argmin(np.abs(stored - _number(name, part)))
    else:
        found = _equal(stored, _number(name, part))
    if not found.any():
        raise InvalidInput(name, part, f"nothing is stored there; there is {listed(stored)}")
    return found


def _equal(stored: AnyArray, value: float) -> AnyArray:
    """Whole numbers are exact, so that large seeds are told apart."""
    if stored.dtype.kind != "f" or math.isinf(value):
        return np.asarray(stored == value)
    return np.asarray(np.abs(stored - float(value)) <= RTOL * abs(value))


def _number(name: str, given: Any) -> float:
    value = _read(given) if isinstance(given, str) else given
    finite = number(value, name)
    return int(value) if isinstance(value, Integral) else finite


def _read(text: str) -> float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def listed(stored: AnyArray) -> str:
    """What there is, in few words."""
    values = sorted({one if isinstance(one, (int, float)) else str(one) for one in stored.tolist()})
    texts = [f"{value:.10g}" if isinstance(value, float) else str(value) for value in values]
    return ", ".join(texts) if len(texts) <= FEW else f"{len(texts)} values from {texts[0]} to {texts[-1]}"


def _index(places: AnyArray) -> slice | AnyArray:
    """A slice where it can be one, which Zarr reads in its quick way."""
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places
