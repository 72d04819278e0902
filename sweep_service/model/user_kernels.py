"""σ and σ' of activations without a branch in `activate`, compiled from their NumPy functions.

Kernels are compiled once per machine, and call such functions by their address, which takes the place of a
code. What consists of functions in `numerics.vector_numpy` is compiled for vectors, others are called for one
lane after another. One that numba cannot compile, or that then returns other numbers, is evaluated in Python.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core.errors import NumbaError
from numba.extending import is_jitted, overload
from scipy import special

from sweep_service.model.activations import Activation, Function
from sweep_service.numerics.simd import CHAIN_LANES, Vector
from sweep_service.numerics.types import AnyArray
from sweep_service.numerics.vector_numpy import read_eight, write_eight

TRIAL_POINTS = np.concatenate([-np.geomspace(1e-3, 30.0, 40)[::-1], [0.0], np.geomspace(1e-3, 30.0, 40)])
MOST_DIFFERENCE = 1e-12  # between compiled and NumPy functions, relative to the larger of 1 and the value


# Functions of SciPy for numba, which knows those of NumPy and of math; vectors have their own.
SCIPY_FUNCTIONS: dict[Any, Callable[[Any], Any]] = {
    special.erf: lambda x: math.erf(x),
    special.erfc: lambda x: math.erfc(x),
    special.expit: lambda x: 1.0 / (1.0 + math.exp(-x)),
    special.ndtr: lambda x: 0.5 * math.erfc(-math.sqrt(0.5) * x),
}


def _register(ufunc: Any, implementation: Callable[[Any], Any]) -> None:
    overload(ufunc)(lambda x: None if isinstance(x, Vector) else implementation)


for _ufunc, _implementation in SCIPY_FUNCTIONS.items():
    _register(_ufunc, _implementation)


class UserKernel(NamedTuple):
    """The compiled functions of an activation, or the reason why there are none."""

    addresses: AnyArray | None  # of σ, σ' and both in lanes; its own address is the code of the activation
    functions: tuple[Any, ...]  # kept, because their machine code is freed with them
    reason: str
    is_vectorised: bool = False

    @property
    def code(self) -> int | None:
        return None if self.addresses is None else int(self.addresses.ctypes.data)


def kernel_code(act: Activation) -> int | None:
    """The code by which kernels know an activation in this process; None if they do not."""
    return act.code if act.code is not None else compile_activation(act).code


def has_offset(act: Activation) -> bool:
    """Whether σ(0) is not 0."""
    return bool(np.any(act.value(np.zeros(1)) != 0.0))


def explain_uncompiled(student: Activation, teacher: Activation, is_learned: bool) -> str:
    """Why kernels cannot simulate a pair of activations; "" if they can."""
    for act in (student, teacher):
        if kernel_code(act) is None:
            return f"{act.name} has no compiled kernel: {compile_activation(act).reason}"
    if is_learned and student.code is None and has_offset(student):
        return f"{student.name} has no compiled kernel for a learned second layer, because σ(0) is not 0"
    return ""


@lru_cache(maxsize=256)
def compile_activation(act: Activation) -> UserKernel:
    functions, inner = [], [_make_jitted(function) for function in (act.value, act.slope)]
    for name, function, jitted in zip(("σ", "σ'"), (act.value, act.slope), inner, strict=True):
        compiled, reason = (None, jitted) if isinstance(jitted, str) else _compile(jitted)
        if compiled is None:
            return UserKernel(None, (), f"numba cannot compile {name} ({reason})")
        if not _agrees(compiled.ctypes, function):
            return UserKernel(None, (), f"{name} compiled by numba differs from the function")
        functions.append(compiled)
    in_lanes = _compile_for_vectors(act, *inner)
    is_vectorised = in_lanes is not None
    functions.append(in_lanes or _compile_lane_by_lane(*functions))
    addresses = np.array([function.address for function in functions], dtype=np.uint64)
    return UserKernel(addresses, tuple(functions), "", is_vectorised)


REFUSALS = (NumbaError, TypeError, ValueError, NotImplementedError, AttributeError)


def _make_jitted(function: Any) -> Any:
    """The function as numba takes it, or the text why it does not."""
    try:
        return function if is_jitted(function) else numba.njit(error_model="numpy")(_as_python(function))
    except REFUSALS as error:
        return _describe(error)


def _compile(function: Any) -> tuple[Any, str]:
    """The function of a number, or else of an array of one, and why there is none."""
    reason = ""
    for form in (_call_with_number, _call_with_array):
        try:
            return numba.cfunc("float64(float64)", nopython=True, error_model="numpy")(form(function)), ""
        except REFUSALS as error:
            reason = reason or _describe(error)
    return None, reason


ADDRESSES = "void(CPointer(float64), CPointer(float64), CPointer(float64))"


def _compile_for_vectors(act: Activation, value: Any, slope: Any) -> Any:
    """σ and σ' of eight numbers as vectors; None if they use what vectors do not know, or differ."""

    def evaluate(x: Any, values: Any, slopes: Any) -> None:
        fields = read_eight(x)
        write_eight(values, value(fields))
        write_eight(slopes, slope(fields))

    try:
        compiled = numba.cfunc(ADDRESSES, nopython=True, error_model="numpy")(evaluate)
    except REFUSALS:
        return None
    x = np.append(TRIAL_POINTS, np.full(-len(TRIAL_POINTS) % CHAIN_LANES, np.nan))
    outputs = np.empty((2, len(x)))
    for at in range(0, len(x), CHAIN_LANES):
        compiled.ctypes(*(_address(array, at) for array in (x, *outputs)))
    both = zip(outputs, (act.value, act.slope), strict=True)
    return compiled if all(_is_close(output, function, x) for output, function in both) else None


def _address(array: AnyArray, at: int) -> Any:
    return array[at:].ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def _compile_lane_by_lane(value: Any, slope: Any) -> Any:
    """σ and σ' of eight numbers, one after another, by the compiled functions of a number."""
    call_value, call_slope = value.ctypes, slope.ctypes

    def evaluate(x: Any, values: Any, slopes: Any) -> None:
        for at in range(CHAIN_LANES):
            values[at], slopes[at] = call_value(x[at]), call_slope(x[at])

    return numba.cfunc(ADDRESSES, nopython=True, error_model="numpy")(evaluate)


def _call_with_number(inner: Any) -> Callable[[Any], Any]:
    return lambda x: _as_number(inner(x))


def _call_with_array(inner: Any) -> Callable[[Any], Any]:
    return lambda x: _as_number(inner(np.full(1, x)))


def _as_number(y: Any) -> Any:
    """The only entry of an array, or a number itself; np.where makes an array of a number."""
    return np.asarray(y).item()


# In compiled code, by the dimensions of an array. Annotations of types are not allowed there.
_ENTRY: dict[Any, Callable[[Any], Any]] = {0: lambda y: y[()], 1: lambda y: y[0], None: lambda y: y}
overload(_as_number)(lambda y: _ENTRY[getattr(y, "ndim", None)])


COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # of a terminal, which numba writes where colorama is installed


def _describe(error: Exception) -> str:
    """The line that says what numba does not know."""
    lines = [line.strip() for line in COLOURS.sub("", str(error)).splitlines()]
    telling = [line for line in lines if line and not line.startswith(("Failed in", "During", "File", "["))]
    return telling[0] if telling else type(error).__name__


def _as_python(function: Any) -> Callable[[Any], Any]:
    return (lambda x: function(x)) if isinstance(function, np.ufunc) else function


def _agrees(compiled: Callable[[float], float], function: Function) -> bool:
    return _is_close(np.array([compiled(float(x)) for x in TRIAL_POINTS]), function, TRIAL_POINTS)


def _is_close(actual: AnyArray, function: Function, x: AnyArray) -> bool:
    """Whether these are the values of a function, in which NaN stays what NumPy makes of it."""
    with np.errstate(all="ignore"):
        expected = np.broadcast_to(np.asarray(function(x), dtype=float), x.shape)
        size = np.maximum(1.0, np.abs(expected))
        near = np.abs(actual - expected) <= MOST_DIFFERENCE * size
    return bool(np.all((actual == expected) | near | (np.isnan(actual) & np.isnan(expected))))
