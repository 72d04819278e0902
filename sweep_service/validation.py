"""Validation of single inputs: each function returns a clean value or raises `InvalidInput`."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_service.errors import ErrorCollector, InvalidInput, unknown_name

MIN_RELATIVE_ERROR, MAX_RELATIVE_ERROR = 1e-9, 1e6
_ADDRESS = re.compile(r"((tcp|tls|ws|wss|ucx)://)?[^\s/]+:\d+/?")


def reject_unknown_keys(mapping: Mapping[str, Any], known: Iterable[str], field: str) -> None:
    """Reject unknown keys, so that a typo does not silently become a default."""
    known, errors = tuple(known), ErrorCollector()
    errors.add_all(unknown_name(f"{field} (key)", key, known) for key in mapping if key not in known)
    errors.raise_errors()


def reject_nonfinite(value: Any, field: str) -> None:
    """Reject NaN and infinities in nested mappings and lists, as JSON has neither."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(field, value, "must be a finite number")
    if isinstance(value, Mapping):
        for name, entry in value.items():
            reject_nonfinite(entry, f"{field}.{name}")
    elif isinstance(value, list):
        for row, entry in enumerate(value):
            reject_nonfinite(entry, f"{field}[{row}]")


def read_integer(value: Any, field: str, least: int = 1, most: int = 10**18) -> int:
    """Read an integer from `least` to `most`; a float with an integral value is accepted."""
    if type(value) is int and least <= value <= most:
        return value
    if not _is_finite_number(value) or value != int(value) or not least <= value <= most:
        raise InvalidInput(field, value, f"must be a whole number >= {least} and <= {most:g}")
    return int(value)


def _is_finite_number(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


def read_number(
    value: Any,
    field: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> float:
    """Read a finite number within the bounds."""
    if (
        not _is_finite_number(value)
        or (above is not None and value <= above)
        or (least is not None and value < least)
        or (most is not None and value > most)
    ):
        limits = {">": above, ">=": least, "<=": most}
        raise InvalidInput(field, value, f"must be {describe_numbers('finite number', limits)}")
    return float(value) + 0.0  # -0.0 is 0.0: equal numbers must have equal keys


def read_relative_error(value: Any) -> float:
    """Read a standard error over the mean, which sets a number of seeds."""
    return read_number(value, "relative_error", least=MIN_RELATIVE_ERROR, most=MAX_RELATIVE_ERROR)


def describe_numbers(kind: str, limits: Mapping[str, float | None]) -> str:
    """Describe what is allowed, such as "a whole number >= 1 and <= 9", from limits by their signs."""
    bounds = [f"{sign} {limit:g}" for sign, limit in limits.items() if limit is not None]
    return f"a {kind}" + (f" {' and '.join(bounds)}" if bounds else "")


def read_bool(value: Any, field: str) -> bool:
    """Read a boolean, of Python or NumPy."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(field, value, "must be true or false")
    return bool(value)


# Products of larger overlaps could overflow; no model needs such numbers.
MAX_MAGNITUDE = 1e16


def _read_array(value: Any, field: str, ndim: int, description: str) -> NDArray[np.float64]:
    if not _holds_numbers(value, ndim):
        raise InvalidInput(field, value, f"must be {description}")
    try:
        array = np.array(value, dtype=float)
    except (ValueError, OverflowError):  # rows of different lengths, or an integer too large for a float
        raise InvalidInput(field, value, f"must be {description}") from None
    if array.ndim != ndim or array.size == 0:
        raise InvalidInput(field, value, f"must be {description}; its shape is {array.shape}")
    if not np.all(np.abs(array) <= MAX_MAGNITUDE):  # also false for NaN
        raise InvalidInput(field, value, f"must hold finite numbers of magnitude <= {MAX_MAGNITUDE:g}")
    return array


def _holds_numbers(value: Any, depth: int) -> bool:
    """Whether `value` holds numbers nested `depth` deep, and nothing else that NumPy converts."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iuf"
    if depth == 0:
        return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return False
    return all(_holds_numbers(item, depth - 1) for item in value)


def read_vector(value: Any, field: str) -> NDArray[np.float64]:
    """Read a one-dimensional array of finite numbers."""
    return _read_array(value, field, 1, "a list of numbers")


def read_matrix(value: Any, field: str) -> NDArray[np.float64]:
    """Read a two-dimensional array of finite numbers."""
    return _read_array(value, field, 2, "a matrix (a list of equal rows)")


def read_times(value: Any, field: str = "times") -> NDArray[np.float64]:
    """Read finite times ≥ 0 that increase strictly."""
    times = read_vector([value] if _is_finite_number(value) else value, field)
    if times[0] < 0 or np.any(times[1:] <= times[:-1]):
        raise InvalidInput(field, times.tolist(), "must be >= 0 and strictly increasing")
    return times


def read_seeds(value: Any, field: str = "seed") -> tuple[int, ...]:
    """Read one seed or a sequence of distinct seeds, each an integer ≥ 0."""
    if isinstance(value, numbers.Real):
        return (read_integer(value, field, least=0),)
    if (
        isinstance(value, (str, bytes))
        or not isinstance(value, (Sequence, np.ndarray))
        or (isinstance(value, np.ndarray) and value.ndim != 1)
        or len(value) == 0
    ):
        raise InvalidInput(field, value, "must be a whole number >= 0 or a non-empty sequence of them")
    seeds = tuple(read_integer(item, field, least=0) for item in value)
    if len(set(seeds)) != len(seeds):
        raise InvalidInput(field, list(seeds), "must not repeat a seed")
    return seeds


def read_scheduler_address(value: Any, field: str = "scheduler") -> str:
    """Read the address of a Dask scheduler."""
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        raise InvalidInput(field, value, "must be an address such as tcp://host:8786 or tls://host:8786")
    return value
