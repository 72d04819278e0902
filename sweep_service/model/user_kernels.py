"""σ and σ' of activations without a branch in `activate`, compiled from their NumPy functions.

Kernels are compiled once per machine, and call such functions by their address, which takes the place of a
code. A function that numba cannot compile, or that then returns other numbers, is evaluated in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core.errors import NumbaError
from numba.extending import is_jitted, overload
from scipy import special

from sweep_service.model.activations import Activation, Function
from sweep_service.numerics.types import AnyArray

TRIAL_POINTS = np.concatenate([-np.geomspace(1e-3, 30.0, 40)[::-1], [0.0], np.geomspace(1e-3, 30.0, 40)])
MOST_DIFFERENCE = 1e-12  # between compiled and NumPy functions, relative to the larger of 1 and the value


# Functions of SciPy for numba, which knows those of NumPy and of math.
SCIPY_FUNCTIONS: dict[Any, Callable[[Any], Any]] = {
    special.erf: lambda x: math.erf(x),
    special.erfc: lambda x: math.erfc(x),
    special.expit: lambda x: 1.0 / (1.0 + math.exp(-x)),
    special.ndtr: lambda x: 0.5 * math.erfc(-math.sqrt(0.5) * x),
}


def _register(ufunc: Any, implementation: Callable[[Any], Any]) -> None:
    overload(ufunc)(lambda x: implementation)


for _ufunc, _implementation in SCIPY_FUNCTIONS.items():
    _register(_ufunc, _implementation)


class UserKernel(NamedTuple):
    """The compiled functions of an activation, or the reason why there are none."""

    addresses: AnyArray | None  # of σ and σ'; its own address is the code of the activation
    functions: tuple[Any, ...]  # kept, because their machine code is freed with them
    reason: str

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
    functions = []
    for name, function in (("σ", act.value), ("σ'", act.slope)):
        compiled, reason = _compile(function)
        if compiled is None:
            return UserKernel(None, (), f"numba cannot compile {name} ({reason})")
        if not _agrees(compiled.ctypes, function):
            return UserKernel(None, (), f"{name} compiled by numba differs from the function")
        functions.append(compiled)
    addresses = np.array([function.address for function in functions], dtype=np.uint64)
    return UserKernel(addresses, tuple(functions), "")


def _compile(function: Any) -> tuple[Any, str]:
    """The function of a number, or else of an array of one, and why there is none."""
    reason = ""
    for form in (_call_with_number, _call_with_array):
        try:
            wrapped = form(
                function if is_jitted(function) else numba.njit(error_model="numpy")(_as_python(function))
            )
            return numba.cfunc("float64(float64)", nopython=True, error_model="numpy")(wrapped), ""
        except (NumbaError, TypeError, ValueError, NotImplementedError) as error:
            reason = reason or _describe(error)
    return None, reason


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


def _describe(error: Exception) -> str:
    """The line that says what numba does not know."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith(("Failed in", "During", "File", "["))]
    return telling[0] if telling else type(error).__name__


def _as_python(function: Any) -> Callable[[Any], Any]:
    return (lambda x: function(x)) if isinstance(function, np.ufunc) else function


def _agrees(compiled: Callable[[float], float], function: Function) -> bool:
    with np.errstate(all="ignore"):
        expected = np.asarray(function(TRIAL_POINTS), dtype=float)
    actual = np.array([compiled(float(x)) for x in TRIAL_POINTS])
    size = np.maximum(1.0, np.abs(expected))
    return bool(np.all((actual == expected) | (np.abs(actual - expected) <= MOST_DIFFERENCE * size)))
