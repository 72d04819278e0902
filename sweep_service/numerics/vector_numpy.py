"""Functions of NumPy, SciPy and math on short vectors, by which functions of users are compiled for them.

A function such as `lambda x: np.where(x > 0.0, x, np.expm1(x))` is then compiled for a vector as it stands.
Errors are absolute ones of a few 1e-16, for large values relative ones.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.imputils import lower_builtin, lower_cast
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, models, overload, overload_method, register_model
from scipy import special

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import F4, F8, Vector, absolute, square_root, where_less
from sweep_service.numerics.vector_math import (
    erf_and_gauss,
    exp,
    exp_negative,
    log,
    sine_and_cosine,
    tanh,
    unit_angle,
)

FLOATS = {ty.width: ty for ty in (F8, F4)}


class Mask(types.Type):
    """Truth values of comparisons of vectors; 1.0 and 0.0 where a vector is expected."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Mask({width})")

    def can_convert_to(self, typing_context: Any, other: Any) -> Any:
        return Conversion.safe if other == FLOATS[self.width] else None


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, ty: Mask) -> None:
        super().__init__(manager, ty, ir.VectorType(ir.IntType(1), ty.width))


@lower_cast(Mask, Vector)
def _as_floats(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    return builder.uitofp(value, context.get_value_type(target))


def _width(args: Any) -> int | None:
    """The number of lanes of the arguments, None if they are numbers."""
    return next((ty.width for ty in args if isinstance(ty, Mask) or ty in (F8, F4)), None)


def _declare(symbol: Any, result: Any, operand: Any) -> None:
    """Declare an operator by the types of result and operands at a number of lanes."""

    @infer_global(symbol)
    class Typing(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            width = _width(args)
            if width is None or not all(_is_allowed(ty, operand(width)) for ty in args):
                return None
            return signature(result(width), *[operand(width)] * len(args))


def _define(symbol: Any, result: Any, operand: Any, lowering: Callable[[Any, Any], Any]) -> None:
    """Declare an operator, and say how it is computed."""
    _declare(symbol, result, operand)
    for width in FLOATS:
        for count in (1, 2):
            lower_builtin(symbol, *[operand(width)] * count)(
                lambda context, builder, sig, args: lowering(builder, args)
            )


def _is_allowed(ty: Any, operand: Any) -> bool:
    if isinstance(operand, Mask):
        return isinstance(ty, Mask)
    return isinstance(ty, (Mask, Vector, types.Float, types.Integer))


for _symbol in (operator.add, operator.sub, operator.mul, operator.truediv):
    _declare(_symbol, FLOATS.get, FLOATS.get)  # of masks and numbers; simd.py computes them


def _compare(sign: str) -> Callable[[Any, Any], Any]:
    return lambda builder, args: builder.fcmp_ordered(sign, *args)


def _combine(instruction: str) -> Callable[[Any, Any], Any]:
    return lambda builder, args: getattr(builder, instruction)(*args)


for _symbol, _sign in (
    (operator.lt, "<"), (operator.le, "<="), (operator.gt, ">"), (operator.ge, ">="), (operator.eq, "=="),
):  # fmt: skip
    _define(_symbol, Mask, FLOATS.get, _compare(_sign))
_define(operator.ne, Mask, FLOATS.get, lambda builder, args: builder.fcmp_unordered("!=", *args))
_define(operator.neg, FLOATS.get, FLOATS.get, lambda builder, args: builder.fneg(*args))
_define(operator.pos, FLOATS.get, FLOATS.get, lambda builder, args: args[0])
_define(operator.invert, Mask, Mask, lambda builder, args: builder.not_(*args))
for _symbol, _instruction in ((operator.and_, "and_"), (operator.or_, "or_"), (operator.xor, "xor")):
    _define(_symbol, Mask, Mask, _combine(_instruction))


@intrinsic
def select(typing_context: Any, condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where a mask is true, else `no`."""
    ty = FLOATS[condition.width]
    return ty(condition, ty, ty), lambda context, builder, sig, args: builder.select(*args)


@intrinsic
def like(typing_context: Any, value: Any, vector: Any) -> Any:
    """A number, mask or vector as a vector with as many lanes as another."""
    return vector(vector, vector), lambda context, builder, sig, args: args[0]


@kernel(inline=True)
def power(x, n):
    """x to an integer power, by squares."""
    result, square, rest = like(1.0, x), x, abs(n)
    while rest > 0:
        if rest % 2:
            result = result * square
        square, rest = square * square, rest // 2
    return result if n >= 0 else 1.0 / result


@kernel(inline=True)
def maximum(x, y):
    larger = where_less(x, y, y, x)  # x if it is NaN
    return select(y == y, larger, y)


@kernel(inline=True)
def minimum(x, y):
    smaller = where_less(y, x, y, x)
    return select(y == y, smaller, y)


@kernel(inline=True)
def exp_of_negative(x):
    """exp(-|x|), which `_logaddexp` and `_expit` have in common."""
    a = absolute(x)
    return exp_negative(-1.0 * where_less(700.0, a, 700.0, a))


@kernel(inline=True)
def logaddexp(x, y):
    return maximum(x, y) + log(1.0 + exp_of_negative(x - y))


@kernel(inline=True)
def expit(x):
    e = exp_of_negative(x)
    return select(x < 0.0, e, 1.0) / (1.0 + e)


@kernel(inline=True)
def arctan(x):
    root = square_root(1.0 + x * x)
    return unit_angle(select(absolute(x) > 1e150, x / absolute(x), x / root), 1.0 / root)


@kernel(inline=True)
def heaviside(x, y):
    return select(x > 0.0, 1.0, select(x < 0.0, 0.0, select(x == 0.0, y, x)))


_ROOT_TWO = math.sqrt(2.0)

# Implementations by function, as numba asks for them: functions of vectors, or of vectors and numbers.
OF_ONE: dict[Any, Callable[[Any], Any]] = {
    np.exp: lambda x: exp(x),
    np.expm1: lambda x: exp(x) - 1.0,
    np.log: lambda x: log(x),
    np.log1p: lambda x: log(1.0 + x),
    np.sin: lambda x: sine_and_cosine(x)[0],
    np.cos: lambda x: sine_and_cosine(x)[1],
    np.tan: lambda x: sine_and_cosine(x)[0] / sine_and_cosine(x)[1],
    np.arctan: lambda x: arctan(x),
    np.tanh: lambda x: tanh(x),
    np.sinh: lambda x: 0.5 * (exp(x) - exp(-1.0 * x)),
    np.cosh: lambda x: 0.5 * (exp(x) + exp(-1.0 * x)),
    np.sqrt: lambda x: square_root(x),
    np.abs: lambda x: absolute(x),
    np.sign: lambda x: select(x > 0.0, 1.0, select(x < 0.0, -1.0, x)),
    np.square: lambda x: x * x,
    np.negative: lambda x: -1.0 * x,
    np.reciprocal: lambda x: 1.0 / x,
    special.erf: lambda x: erf_and_gauss(_ROOT_TWO * x)[0],
    special.erfc: lambda x: 1.0 - erf_and_gauss(_ROOT_TWO * x)[0],
    special.ndtr: lambda x: 0.5 + 0.5 * erf_and_gauss(x)[0],
    special.expit: lambda x: expit(x),
}
OF_TWO: dict[Any, Callable[[Any, Any], Any]] = {
    np.maximum: maximum, np.minimum: minimum, np.logaddexp: logaddexp, np.heaviside: heaviside,
}  # fmt: skip
IN_MATH = (
    "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "sinh", "cosh", "sqrt",
)  # fmt: skip
ALSO: dict[Any, Any] = {
    abs: np.abs, math.fabs: np.abs, np.fabs: np.abs, math.atan: np.arctan, math.erf: special.erf,
    math.erfc: special.erfc, **{getattr(math, name): getattr(np, name) for name in IN_MATH},
}  # fmt: skip


# What is given to `overload` are lambdas, because numba refuses annotations there.


def _implement_of_one(name: Any, implementation: Callable[[Any], Any]) -> None:
    overload(name)(lambda x: implementation if isinstance(x, Vector) else None)


def _implement_of_two(name: Any, function: Any) -> None:
    """Define a function of a vector and a vector, mask or number, in either order."""
    first, second = (lambda x, y: function(x, like(y, x))), (lambda x, y: function(like(x, y), y))
    overload(name)(lambda x, y: first if isinstance(x, Vector) else second if isinstance(y, Vector) else None)


for _function, _implementation in OF_ONE.items():
    _implement_of_one(_function, _implementation)
for _function, _known in ALSO.items():
    _implement_of_one(_function, OF_ONE[_known])
for _function, _of_two in OF_TWO.items():
    _implement_of_two(_function, _of_two)

_raise: Any = lambda x, n: power(x, n)  # noqa: E731
_choose: Any = lambda condition, x, y: select(condition, x, y)  # noqa: E731
_as_float: Any = lambda mask, dtype: select(mask, 1.0, 0.0)  # noqa: E731
_zeros: Any = lambda a: like(0.0, a)  # noqa: E731
_ones: Any = lambda a: like(1.0, a)  # noqa: E731
overload(operator.pow)(
    lambda x, n: _raise if isinstance(x, Vector) and isinstance(n, types.Integer) else None
)
overload(np.where)(lambda condition, x, y: _choose if isinstance(condition, Mask) else None)
overload(np.zeros_like)(lambda a: _zeros if isinstance(a, Vector) else None)
overload(np.ones_like)(lambda a: _ones if isinstance(a, Vector) else None)
overload_method(Mask, "astype")(lambda mask, dtype: _as_float)


@intrinsic
def read_eight(typing_context: Any, address: Any) -> Any:
    """Eight numbers at an address."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = builder.load(builder.bitcast(args[0], context.get_value_type(F8).as_pointer()))
        value.align = 8
        return value

    return F8(address), generate


@intrinsic
def write_eight(typing_context: Any, address: Any, value: Any) -> Any:
    """Write a vector, or copies of a number, to an address."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[1], builder.bitcast(args[0], args[1].type.as_pointer())).align = 8
        return context.get_dummy_value()

    return types.void(address, F8), generate
