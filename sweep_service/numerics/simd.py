"""Short vectors for numba: eight or four doubles as one value in registers.

LLVM vectorises long loops over arrays by itself, but not short ones, and the loops of the simulators
are short: eight chains, ten neurons. A kernel can write `load8(a, i)` and compute with the result as
with a number. Sums of products are written `fma(a, b, c)`, so that the rounding is defined by the
source and not by the compiler: a chain then has the same bits whether the other lanes of its vector
hold other chains, other neurons or nothing.

The arithmetic functions below accept numbers as well as vectors.
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

CHAIN_LANES = 8  # chains, or consecutive counters of a stream: two registers of AVX2, one of AVX-512
NEURON_LANES = 4  # neurons; few, so that rounding p up to a multiple wastes little


class Vector(types.Type):
    """`width` elements of `dtype` in registers."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype, self.width = dtype, width
        super().__init__(name=f"Vector({dtype}, {width})")

    def can_convert_from(self, typing_context: Any, other: Any) -> Any:
        """Allow a number wherever a vector is expected; it becomes a vector of copies."""
        return Conversion.safe if isinstance(other, (types.Float, types.Integer)) else None


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, ty: Vector) -> None:
        element = ir.DoubleType() if ty.dtype == types.float64 else ir.IntType(64)
        super().__init__(manager, ty, ir.VectorType(element, ty.width))


F8, U8 = Vector(types.float64, CHAIN_LANES), Vector(types.uint64, CHAIN_LANES)
F4, U4 = Vector(types.float64, NEURON_LANES), Vector(types.uint64, NEURON_LANES)
_BITS = {F8: U8, F4: U4}
_FLOATS = {U8: F8, U4: F4}


@lower_cast(types.Float, Vector)
@lower_cast(types.Integer, Vector)
def _broadcast(context: Any, builder: Any, source: Any, target: Vector, value: Any) -> Any:
    value = context.cast(builder, value, source, target.dtype)
    ty = context.get_value_type(target)
    empty, first = ir.Constant(ty, ir.Undefined), ir.Constant(ir.IntType(32), 0)
    first_lane = builder.insert_element(empty, value, first)
    copies = ir.Constant(ir.VectorType(ir.IntType(32), target.width), [0] * target.width)
    return builder.shuffle_vector(first_lane, empty, copies)


def _define_operator(symbol: Any, on_floats: str | None, on_integers: str | None) -> None:
    """Define a binary operator for two vectors, and for a vector and a number."""

    @infer_global(symbol)
    class Typing(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            ty = _common_type(args)
            return signature(ty, ty, ty) if isinstance(ty, Vector) else None

    for operand_types, instruction in (((F8, F4), on_floats), ((U8, U4), on_integers)):
        if instruction is not None:
            for ty in operand_types:
                lower_builtin(symbol, ty, ty)(_make_lowering(instruction))


def _make_lowering(instruction: str) -> Any:
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)

    return lower


def _common_type(args: Any) -> Any:
    return next((ty for ty in args if isinstance(ty, Vector)), types.float64)


for _symbol, _float, _integer in (
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
    _define_operator(_symbol, _float, _integer)


def _address(context: Any, builder: Any, array_type: Any, args: Any, vector: Any) -> Any:
    array, index = args
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), context.get_value_type(vector).as_pointer())


def _make_load(width: int) -> Any:
    @intrinsic
    def load(typing_context: Any, array: Any, index: Any) -> Any:
        ty = Vector(array.dtype, width)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.load(_address(context, builder, sig.args[0], args, ty))
            value.align = 8
            return value

        return ty(array, types.intp), generate

    return load


# Load consecutive elements of a flat contiguous array, from an index on.
load8, load4 = _make_load(CHAIN_LANES), _make_load(NEURON_LANES)


@intrinsic
def store(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write a vector into a flat contiguous array, from an index on."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = _address(context, builder, sig.args[0], args[:2], sig.args[2])
        builder.store(args[2], address).align = 8
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def lane(typing_context: Any, vector: Any, index: Any) -> Any:
    """One element of a vector."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], args[1])

    return vector.dtype(vector, types.intp), generate


def _make_swap(distance: int) -> Any:
    @intrinsic
    def swap(typing_context: Any, vector: Any) -> Any:
        return vector(vector), _make_shuffle([l ^ distance for l in range(vector.width)])

    return swap


def _make_shuffle(numbers: list[int]) -> Any:
    """Make the vector of the elements with these numbers, counted on from one vector to the next."""
    order = ir.Constant(ir.VectorType(ir.IntType(32), len(numbers)), numbers)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.shuffle_vector(args[0], args[-1], order)

    return generate


@intrinsic
def join(typing_context: Any, low: Any, high: Any) -> Any:
    """Eight doubles of two vectors of four."""
    return F8(F4, F4), _make_shuffle(list(range(8)))


@intrinsic
def low_half(typing_context: Any, vector: Any) -> Any:
    """The first four of eight doubles."""
    return F4(F8), _make_shuffle([0, 1, 2, 3])


@intrinsic
def high_half(typing_context: Any, vector: Any) -> Any:
    """The last four of eight doubles."""
    return F4(F8), _make_shuffle([4, 5, 6, 7])


# Exchange the halves of a vector of eight, or the halves of each of its halves.
swap_halves, swap_pairs = _make_swap(4), _make_swap(2)


def _call_intrinsic(builder: Any, name: str, args: Any) -> Any:
    ty = args[0].type
    suffix = f"v{ty.count}f64" if isinstance(ty, ir.VectorType) else "f64"
    function = ir.FunctionType(ty, [ty] * len(args))
    return builder.call(cgutils.get_or_insert_function(builder.module, function, f"{name}.{suffix}"), args)


@intrinsic
def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a·b + c with one rounding."""
    ty = _common_type((a, b, c))
    return ty(ty, ty, ty), lambda context, builder, sig, args: _call_intrinsic(builder, "llvm.fma", args)


@intrinsic
def square_root(typing_context: Any, x: Any) -> Any:
    """√x."""
    ty = _common_type((x,))
    return ty(ty), lambda context, builder, sig, args: _call_intrinsic(builder, "llvm.sqrt", args)


@intrinsic
def absolute(typing_context: Any, x: Any) -> Any:
    """|x|."""
    ty = _common_type((x,))
    return ty(ty), lambda context, builder, sig, args: _call_intrinsic(builder, "llvm.fabs", args)


@intrinsic
def copysign(typing_context: Any, x: Any, sign: Any) -> Any:
    """x with the sign of `sign`."""
    ty = _common_type((x, sign))
    return ty(ty, ty), lambda context, builder, sig, args: _call_intrinsic(builder, "llvm.copysign", args)


@intrinsic
def where_less(typing_context: Any, x: Any, y: Any, yes: Any, no: Any) -> Any:
    """`yes` where x < y, else `no`, also where x or y is NaN."""
    ty = _common_type((x, y, yes, no))

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[2], args[3])

    return ty(ty, ty, ty, ty), generate


PURE = ("nounwind", "readnone")  # attributes of a call that changes nothing and fails nowhere


@intrinsic
def call_functions(typing_context: Any, table: Any, x: Any) -> Any:
    """f(x) and g(x) by C functions, whose addresses are in a table at an address.

    The first two entries are f and g of a number. The third reads eight numbers at an address and writes
    f and g of them to two others.
    """
    ty = _common_type((x,))
    double = ir.DoubleType()

    def load_entry(builder: Any, address: Any, number: int, function_type: Any) -> Any:
        entries = builder.inttoptr(address, function_type.as_pointer().as_pointer())
        return builder.load(builder.gep(entries, [ir.Constant(ir.IntType(64), number)]))

    def call_with_number(builder: Any, address: Any, value: Any) -> list[Any]:
        scalar = ir.FunctionType(double, [double])
        return [
            builder.call(load_entry(builder, address, number, scalar), [value], attrs=PURE)
            for number in (0, 1)
        ]

    def call_with_vector(builder: Any, address: Any, value: Any) -> list[Any]:
        pointer = double.as_pointer()
        function = load_entry(builder, address, 2, ir.FunctionType(ir.VoidType(), [pointer] * 3))
        eight = ir.ArrayType(ir.VectorType(double, ty.width), CHAIN_LANES // ty.width)
        buffers = [cgutils.alloca_once(builder, eight) for _ in range(3)]
        parts = [builder.bitcast(buffer, value.type.as_pointer()) for buffer in buffers]
        for part in range(CHAIN_LANES // ty.width):  # four numbers are passed twice
            builder.store(value, builder.gep(parts[0], [ir.Constant(ir.IntType(64), part)]))
        builder.call(function, [builder.bitcast(buffer, pointer) for buffer in buffers], attrs=("nounwind",))
        return [builder.load(part) for part in parts[1:]]

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        call = call_with_vector if isinstance(ty, Vector) else call_with_number
        return context.make_tuple(builder, sig.return_type, call(builder, *args))

    return types.UniTuple(ty, 2)(types.intp, ty), generate


@intrinsic
def as_float(typing_context: Any, bits: Any) -> Any:
    """The double with these 64 bits."""
    ty = bits if isinstance(bits, Vector) else types.uint64
    return _FLOATS.get(ty, types.float64)(ty), _bitcast


@intrinsic
def as_bits(typing_context: Any, value: Any) -> Any:
    """The 64 bits of a double."""
    ty = _common_type((value,))
    return _BITS.get(ty, types.uint64)(ty), _bitcast


def _bitcast(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.bitcast(args[0], context.get_value_type(sig.return_type))


def round_up_to_lanes(count: int, width: int = NEURON_LANES) -> int:
    """The smallest multiple of `width` that is >= `count`."""
    return -(-count // width) * width
