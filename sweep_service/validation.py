"""Readers of single inputs: each returns a clean value or says what, where and what is allowed."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_service.errors import InvalidInput, unknown_name

_ADDRESS = re.compile(r"((tcp|tls|ws|wss|ucx)://)?[^\s/]+:\d+/?")


def only_known(mapping: Mapping[str, Any], known: Iterable[str], field: str) -> None:
    """Refuse a key that nobody reads; a typo must not silently become a default."""
    known = tuple(known)
    for key in mapping:
        if key not in known:
            raise unknown_name(f"{field} (key)", key, known)


def whole(value: Any, field: str, least: int = 1, most: int = 10**18) -> int:
    """An integer from `least` to `most`; a float that is whole counts."""
    if not _is_finite_number(value) or value != int(value) or not least <= value <= most:
        raise InvalidInput(field, value, f"must be a whole number >= {least} and <= {most:g}")
    return int(value)


def _is_finite_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond any float
        return False


def number(
    value: Any,
    field: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> float:
    """A finite number within the bounds."""
    limits = ((">", above), (">=", least), ("<=", most))
    bounds = [f"{sign} {limit:g}" for sign, limit in limits if limit is not None]
    allowed = "must be a finite number" + (f" {' and '.join(bounds)}" if bounds else "")
    if not _is_finite_number(value):
        raise InvalidInput(field, value, allowed)
    if (
        (above is not None and value <= above)
        or (least is not None and value < least)
        or (most is not None and value > most)
    ):
        raise InvalidInput(field, value, allowed)
    return float(value) + 0.0  # -0.0 is 0.0: equal numbers must have equal keys


def switch(value: Any, field: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(field, value, "must be true or false")
    return bool(value)


# Beyond it squares and products of overlaps would overflow; no model needs such numbers.
LARGEST = 1e16


def _array(value: Any, field: str, ndim: int, what: str) -> NDArray[np.float64]:
    if not _holds_numbers(value, ndim):
        raise InvalidInput(field, value, f"must be {what}")
    try:
        array = np.array(value, dtype=float)
    except (ValueError, OverflowError):  # rows of different lengths, or an integer beyond any float
        raise InvalidInput(field, value, f"must be {what}") from None
    if array.ndim != ndim or array.size == 0:
        raise InvalidInput(field, value, f"must be {what}; its shape is {array.shape}")
    if not np.all(np.abs(array) <= LARGEST):  # false of NaN as well
        raise InvalidInput(field, value, f"must hold finite numbers of magnitude <= {LARGEST:g}")
    return array


def _holds_numbers(value: Any, depth: int) -> bool:
    """Numbers nested `depth` deep, and no booleans or texts that NumPy would turn into numbers."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iuf"
    if depth == 0:
        return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return False
    return all(_holds_numbers(item, depth - 1) for item in value)


def vector(value: Any, field: str) -> NDArray[np.float64]:
    return _array(value, field, 1, "a list of numbers")


def matrix(value: Any, field: str) -> NDArray[np.float64]:
    return _array(value, field, 2, "a matrix (a list of equal rows)")


def increasing_times(value: Any, field: str = "times") -> NDArray[np.float64]:
    """Finite times ≥ 0, strictly increasing."""
    times = vector([value] if _is_finite_number(value) else value, field)
    if times[0] < 0 or np.any(times[1:] <= times[:-1]):
        raise InvalidInput(field, times.tolist(), "must be >= 0 and strictly increasing")
    return times


def seeds(value: Any, field: str = "seed") -> tuple[int, ...]:
    """One seed or a sequence of distinct ones, each a whole number ≥ 0."""
    if isinstance(value, numbers.Real):
        return (whole(value, field, least=0),)
    if (
        isinstance(value, (str, bytes))
        or not isinstance(value, (Sequence, np.ndarray))
        or (isinstance(value, np.ndarray) and value.ndim != 1)
        or len(value) == 0
    ):
        raise InvalidInput(field, value, "must be a whole number >= 0 or a non-empty sequence of them")
    found = tuple(whole(item, field, least=0) for item in value)
    if len(set(found)) != len(found):
        raise InvalidInput(field, list(found), "must not repeat a seed")
    return found


def scheduler_address(value: Any, field: str = "scheduler") -> str:
    """Where a Dask scheduler listens."""
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        raise InvalidInput(field, value, "must be an address such as tcp://host:8786 or tls://host:8786")
    return value
