"""Short vectors for numba: eight doubles, or four, as one value that lives in registers.

LLVM turns long loops over arrays into SIMD by itself, but not short ones, and the simulators are
made of short ones: eight chains, ten neurons. So a kernel here may say `load8(a, i)` and compute with
the result as with a number. Products that are added are written `fma(a, b, c)`: the rounding is
then in the source and not left to the compiler, so that a chain has the same bits whether its
neighbours in a vector are other chains, other neurons or nobody.

The arithmetic functions below take numbers as well: one source serves both.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_builtin, lower_cast
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model

CHAINS = 8  # chains side by side, or consecutive counters of a stream: two registers of AVX2, one of AVX-512
NEURONS = 4  # neurons side by side: few enough that rounding p up wastes little


class Vector(types.Type):
    """`width` elements of `dtype` in registers."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype, self.width = dtype, width
        super().__init__(name=f"Vector({dtype}, {width})")

    def can_convert_from(self, typing_context: Any, other: Any) -> Any:
        """A number becomes a vector of copies wherever a vector is expected."""
        return Conversion.safe if isinstance(other, (types.Float, types.Integer)) else None


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        element = ir.DoubleType() if kind.dtype == types.float64 else ir.IntType(64)
        super().__init__(manager, kind, ir.VectorType(element, kind.width))


F8, U8 = Vector(types.float64, CHAINS), Vector(types.uint64, CHAINS)
F4, U4 = Vector(types.float64, NEURONS), Vector(types.uint64, NEURONS)
_BITS = {F8: U8, F4: U4}
_FLOATS = {U8: F8, U4: F4}


@lower_cast(types.Float, Vector)
@lower_cast(types.Integer, Vector)
def _broadcast(context: Any, builder: Any, source: Any, target: Vector, value: Any) -> Any:
    value = context.cast(builder, value, source, target.dtype)
    kind = context.get_value_type(target)
    empty, first = ir.Constant(kind, ir.Undefined), ir.Constant(ir.IntType(32), 0)
    one = builder.insert_element(empty, value, first)
    copies = ir.Constant(ir.VectorType(ir.IntType(32), target.width), [0] * target.width)
    return builder.shuffle_vector(one, empty, copies)


def _define(symbol: Any, on_floats: str | None, on_words: str | None) -> None:
    """Teach numba a binary operator on vectors, and on a vector and a number."""

    @infer_global(symbol)
    class Typing(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            kind = _widest(args)
            return signature(kind, kind, kind) if isinstance(kind, Vector) else None

    for kinds, instruction in (((F8, F4), on_floats), ((U8, U4), on_words)):
        if instruction is not None:
            for kind in kinds:
                lower_builtin(symbol, kind, kind)(_emit(instruction))


def _emit(instruction: str) -> Any:
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)

    return lower


def _widest(args: Any) -> Any:
    return next((kind for kind in args if isinstance(kind, Vector)), types.float64)


for _symbol, _float, _word in (
    (operator.add, "fadd", "add"),
    (operator.sub, "fsub", "sub"),
    (operator.mul, "fmul", "mul"),
    (operator.truediv, "fdiv", None),
    (operator.and_, None, "and_"),
    (operator.or_, None, "or_"),
    (operator.xor, None, "xor"),
    (operator.lshift, None, "shl"),
    (operator.rshift, None, "lshr"),
):
    _define(_symbol, _float, _word)


def _address(context: Any, builder: Any, kind: Any, args: Any, vector: Any) -> Any:
    array, index = args
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), context.get_value_type(vector).as_pointer())


def _loader(width: int) -> Any:
    @intrinsic
    def load(typing_context: Any, array: Any, index: Any) -> Any:
        kind = Vector(array.dtype, width)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.load(_address(context, builder, sig.args[0], args, kind))
            value.align = 8
            return value

        return kind(array, types.intp), generate

    return load


# The elements of a flat contiguous array from an index on.
load8, load4 = _loader(CHAINS), _loader(NEURONS)


@intrinsic
def store(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write a vector into a flat contiguous array from this index on."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        where = _address(context, builder, sig.args[0], args[:2], sig.args[2])
        builder.store(args[2], where).align = 8
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def lane(typing_context: Any, vector: Any, index: Any) -> Any:
    """One element of a vector."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], args[1])

    return vector.dtype(vector, types.intp), generate


def _llvm(builder: Any, name: str, args: Any) -> Any:
    kind = args[0].type
    suffix = f"v{kind.count}f64" if isinstance(kind, ir.VectorType) else "f64"
    function = ir.FunctionType(kind, [kind] * len(args))
    return builder.call(cgutils.get_or_insert_function(builder.module, function, f"{name}.{suffix}"), args)


@intrinsic
def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a·b + c with one rounding."""
    kind = _widest((a, b, c))
    return kind(kind, kind, kind), lambda context, builder, sig, args: _llvm(builder, "llvm.fma", args)


@intrinsic
def root(typing_context: Any, x: Any) -> Any:
    """√x."""
    kind = _widest((x,))
    return kind(kind), lambda context, builder, sig, args: _llvm(builder, "llvm.sqrt", args)


@intrinsic
def size(typing_context: Any, x: Any) -> Any:
    """|x|."""
    kind = _widest((x,))
    return kind(kind), lambda context, builder, sig, args: _llvm(builder, "llvm.fabs", args)


@intrinsic
def signed(typing_context: Any, x: Any, sign: Any) -> Any:
    """x with the sign of the other."""
    kind = _widest((x, sign))
    return kind(kind, kind), lambda context, builder, sig, args: _llvm(builder, "llvm.copysign", args)


@intrinsic
def where_less(typing_context: Any, x: Any, y: Any, yes: Any, no: Any) -> Any:
    """`yes` where x < y, else `no`: also where one of them is NaN."""
    kind = _widest((x, y, yes, no))

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[2], args[3])

    return kind(kind, kind, kind, kind), generate


@intrinsic
def as_float(typing_context: Any, bits: Any) -> Any:
    """The double with these 64 bits."""
    kind = bits if isinstance(bits, Vector) else types.uint64
    return _FLOATS.get(kind, types.float64)(kind), _bitcast


@intrinsic
def as_bits(typing_context: Any, value: Any) -> Any:
    """The 64 bits of a double."""
    kind = _widest((value,))
    return _BITS.get(kind, types.uint64)(kind), _bitcast


def _bitcast(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.bitcast(args[0], context.get_value_type(sig.return_type))


def padded(count: int, width: int = NEURONS) -> int:
    """The next multiple of the width."""
    return -(-count // width) * width
