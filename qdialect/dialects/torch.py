"""
The literals, the dequantizations and the shape ops of torch-mlir's torch dialect.

https://github.com/llvm/torch-mlir. An op is parametrized by operands that are constants, or
lists of constants. Ops of ONNX, and ops that torch-mlir does not define, are inside of a
`torch.operator`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, ClassVar, Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    UnregisteredAttr,
    UnregisteredOp,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import (
    DYNAMIC,
    Movement,
    Reverse,
    Shape,
    Slice,
    Transpose,
)
from qdialect.dialects import BITCAST, scalar
from qdialect.ir.elements import has_signedness
from qdialect.ir.value_types import TensorParts, register_tensor_type, tensor_element_type
from qdialect.ops.elementwise import (
    axes_from_last,
    converted_term,
    recreated,
    shape_of_type,
    write_broadcasting,
)
from qdialect.ops.fields import (
    Apply,
    Arithmetic,
    ArithmeticWriter,
    Contraction,
    DialectTraits,
    Elementwise,
    ElementwiseModel,
    Input,
    Movements,
    Normalization,
    Operands,
    QuantizationRule,
    Scalar,
    SmallOperand,
    Term,
    Window,
    own,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    find_attribute,
    items_of,
    name_of,
    shape_of,
    static_shape_of,
)
from qdialect.ops.model import Carrier, Effects, OnNumbers, OpModel, OpModels
from qdialect.ops.readers import (
    broadcast_trailing,
    listed,
    moved,
    padded,
    positions_along,
    positions_on_any_axis,
    reshaped,
    shape_in,
    sliding_axes,
    taken,
)
from qdialect.ops.reading import integers_from
from qdialect.support.lazy_numpy import NDArray
from qdialect.support.memory import registered_cache

# Types

_BODY: Final = re.compile(r"\[((?:(?:[0-9]+|\?),?)*)\],(!torch\.q\w+|\w+)", re.ASCII)
_INTEGER: Final = re.compile(r"([su]?)i([1-9][0-9]{0,2})", re.ASCII)
_SIGNS: Final = {
    "": Signedness.SIGNLESS,
    "s": Signedness.SIGNED,
    "u": Signedness.UNSIGNED,
}
_FLOATS: Final = {
    type.name: type()
    for type in (
        Float16Type,
        BFloat16Type,
        Float32Type,
        Float64Type,
        Float8E4M3FNType,
        Float8E4M3FNUZType,
        Float8E5M2Type,
        Float8E5M2FNUZType,
    )
}


@registered_cache
@lru_cache(maxsize=256)
def _element_type(text: str) -> Attribute | None:
    # Each quantized type needs one class; others of its name are of another class.
    if (integer := _INTEGER.fullmatch(text)) is not None:
        return IntegerType(int(integer[2]), _SIGNS[integer[1]])
    if text.startswith("!"):
        name = text.removeprefix("!")
        return UnregisteredAttr.with_name_and_type(name, True)(name, True, False, "")
    return _FLOATS.get(text)


def _read(type: Attribute) -> TensorParts | None:
    body = _BODY.fullmatch(cast(UnregisteredAttr, type).value.data)
    element = None if body is None else _element_type(body[2])
    if body is None or element is None:
        return None
    lengths = body[1].split(",") if body[1] else ()
    if "" in lengths:
        return None
    return TensorParts(tuple(DYNAMIC if n == "?" else int(n) for n in lengths), element)


def _make(type: Attribute, shape: Shape, element: Attribute) -> Attribute:
    old = cast(UnregisteredAttr, type)
    lengths = ",".join("?" if length == DYNAMIC else str(length) for length in shape)
    body = f"[{lengths}],{element}"
    # After those that xDSL keeps, the whole text may be a parameter, and what it names.
    *kept, _ = old.parameters[:4]
    text, named = old.parameters[4:5], old.parameters[5:]
    whole = [StringAttr(f"{old.attr_name.data}<{body}>")] * len(text)
    return old.new((*kept, StringAttr(body), *whole, *named))


register_tensor_type("torch.vtensor", _read, _make, "torch_c.from_builtin_tensor")


class TorchArithmetic(ArithmeticWriter):
    """Floats are added and multiplied; operands of arithmetic are broadcast as in numpy."""

    floats = ("f16", "bf16", "f32", "f64")
    widths = ()
    ops: ClassVar = {"multiply": "torch.aten.mul.Tensor"}

    @override
    def constant(self, elements: Any) -> SSAValue:
        lengths = ",".join(map(str, elements.type.get_shape()))
        type = _type("torch.vtensor", f"[{lengths}],{elements.type.element_type}")
        return self.make("torch.vtensor.literal", [], type, {"value": elements})

    @override
    def add(self, value: SSAValue, other: SSAValue) -> SSAValue:
        number = {"value": IntegerAttr(1, i64)}
        one = self.make("torch.constant.int", [], _type("torch.int"), number)
        return self.make("torch.aten.add.Tensor", [value, other, one], value.type, {})


def _type(name: str, body: str = "") -> Attribute:
    return UnregisteredAttr.with_name_and_type(name, True)(name, True, False, body)


# Operands that parametrize an op


def _integer(value: SSAValue, operands: Operands) -> int:
    (number,) = listed(operands, value)
    return number


def _optional(value: SSAValue, operands: Operands) -> int | None:
    return next(iter(listed(operands, value)), None)


def _axes(value: SSAValue, operands: Operands, rank: int) -> tuple[int, ...]:
    """Axes of a tensor of `rank`; negative ones count from the end."""
    axes = tuple(axis + rank if axis < 0 else axis for axis in listed(operands, value))
    if not all(0 <= axis < rank for axis in axes):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"a tensor of rank {rank} has no such axis")
    return axes


def _all_axes(op: Operation, operands: Operands) -> tuple[int, ...]:
    """The axes of the first operand that the second one names."""
    return _axes(op.operands[1], operands, len(shape_of(op.operands[0])))


def _axis(op: Operation, number: int, operands: Operands) -> int:
    (axis,) = _axes(op.operands[number], operands, len(shape_of(op.operands[0])))
    return axis


def _is_given(value: SSAValue) -> bool:
    """Whether an optional operand is given."""
    owner = value.owner
    return not (isinstance(owner, Operation) and name_of(owner) == "torch.constant.none")


def _number_in(value: SSAValue) -> FloatAttr[Any] | IntegerAttr[Any] | None:
    """The number that a constant holds."""
    owner = value.owner
    attribute = find_attribute(owner, "value") if isinstance(owner, Operation) else None
    is_number = isinstance(attribute, IntegerAttr | FloatAttr)
    return cast("FloatAttr[Any]", attribute) if is_number else None


def _constant(number: int, type: Attribute) -> Operation:
    """A constant integer of a type of torch."""
    return UnregisteredOp.with_name("torch.constant.int").create(
        result_types=[type], properties={"value": IntegerAttr(number, i64)}
    )


# Shape ops


def _transpose(op: Operation, operands: Operands) -> Movements:
    order = list(range(len(shape_of(op.operands[0]))))
    one, other = _axis(op, 1, operands), _axis(op, 2, operands)
    order[one], order[other] = other, one
    return moved(op, Transpose(tuple(order)))


def _reversed_axes(op: Operation, operands: Operands) -> Movements:
    rank = len(shape_of(op.operands[0]))
    if rank > 2 and name_of(op) == "torch.aten.t":
        raise Refusal(RefusalCode.UNKNOWN_OP, f"it does not transpose a tensor of rank {rank}")
    return moved(op, Transpose(tuple(reversed(range(rank)))))


def _slice(op: Operation, operands: Operands) -> Movements:
    shape, axis = static_shape_of(op.operands[0]), _axis(op, 1, operands)
    start, end, step = (_optional(op.operands[number], operands) for number in (2, 3, 4))
    positions = range(*slice(start, end, step).indices(shape[axis]))
    if positions.step > 0:
        end = max(positions.stop, positions.start)
        return moved(op, _along(axis, shape, positions.start, end, positions.step))
    # Imported from ONNX: the same positions, from the last.
    positions = positions[::-1]
    forward = _along(axis, shape, positions.start, positions.stop, positions.step)
    return moved(op, forward, Reverse((axis,)))


def _narrow(op: Operation, operands: Operands) -> Movements:
    shape, axis = static_shape_of(op.operands[0]), _axis(op, 1, operands)
    start, length = (_integer(op.operands[number], operands) for number in (2, 3))
    start += shape[axis] if start < 0 else 0
    return moved(op, _along(axis, shape, start, start + length, 1))


def _along(axis: int, shape: Shape, start: int, end: int, step: int) -> Movement:
    starts, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], ends[axis], steps[axis] = start, end, step
    return Slice.between(tuple(starts), tuple(ends), tuple(steps))


def _cat(op: Operation, operands: Operands) -> Movements:
    (axis,) = _axes(op.operands[1], operands, len(shape_of(op.results[0])))
    return Movements(items_of(op.operands[0]), [Concat(axis)])


def _index_select(op: Operation, operands: Operands) -> Movements:
    axis, indices = _axis(op, 1, operands), operands.integers(op.operands[2])
    return moved(op, *taken(op, axis, indices, from_end=False))


def _pad(op: Operation, operands: Operands) -> Movements:
    """Its widths are of the last axis first; axes without widths stay."""
    shape, widths = shape_of(op.operands[0]), listed(operands, op.operands[1])
    padding = _number_in(op.operands[2])
    # -0.0 is another number.
    if padding is None or str(padding.value.data) not in ("0", "0.0"):
        raise Refusal(RefusalCode.PADDING, "it pads with another number than 0.0")
    rest = [0] * (len(shape) - len(widths) // 2)
    low, high = ([*rest, *reversed(widths[end::2])] for end in (0, 1))
    return moved(op, *padded(shape, low, high, with_zero=True))


def _reshape_again(op: Operation, operand: SSAValue, type: Attribute) -> list[Operation]:
    lengths = op.operands[1]
    like = next(iter(items_of(lengths)), None)
    if like is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its result has rank 0")
    constants = [_constant(length, like.type) for length in shape_of_type(type)]
    items = [constant.results[0] for constant in constants]
    shape = recreated(cast(Operation, lengths.owner), items, lengths.type)
    return [*constants, shape, recreated(op, [operand, shape.results[0]], type)]


# Arithmetic, https://docs.pytorch.org: types are promoted to that of the result


def _types_of(op: Operation) -> tuple[Attribute, Attribute]:
    """The element types of the first operand and of the result."""
    return tensor_element_type(op.operands[0].type), tensor_element_type(op.results[0].type)


def _whole(op: Operation) -> tuple[int, ...]:
    """All axes of the first operand, which are those of the result."""
    return tuple(range(len(shape_of(op.operands[0]))))


def _of_one(op: Operation, term: Term) -> Elementwise:
    """The element-wise form of an op of one tensor."""
    return Elementwise((op.operands[0],), (_whole(op),), term)


def _converted(term: Term, type: Attribute) -> Term:
    """A term of the numbers of `term` in a type, which may be its own."""
    return term if term.type == type else converted_term(term, type)


def _promoted(term: Term, result: Attribute) -> Term:
    converted = _converted(term, result)
    if isinstance(converted, Apply) and converted.arithmetic is Arithmetic.TRUNCATE_FLOAT:
        # torch multiplies by the unrounded scalar.
        raise Refusal(RefusalCode.ARITHMETIC, f"it computes '{result}' with '{term.type}'")
    return converted


def _check_operands(op: Operation, count: int) -> None:
    """Raise Refusal if an op has fewer operands: the dialect does not verify it."""
    if len(op.operands) < count:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"it has {len(op.operands)} operands, not {count}")


def _with_tensor(op: Operation, arithmetic: Arithmetic) -> Elementwise:
    """The axes of two tensors, counted from the last one."""
    shape, result = static_shape_of(op.results[0]), tensor_element_type(op.results[0].type)
    values = tuple(op.operands[:2])
    inputs = (Input(n, tensor_element_type(value.type)) for n, value in enumerate(values))
    terms = tuple(_promoted(term, result) for term in inputs)
    return Elementwise(values, axes_from_last(values, shape), Apply(arithmetic, terms, result))


def _with_scalar(op: Operation, arithmetic: Arithmetic) -> Elementwise:
    (value, result), other = _types_of(op), _scalar(op.operands[1])
    if value != result or not isinstance(result, Float32Type | Float64Type):
        raise Refusal(RefusalCode.ARITHMETIC, f"it computes '{result}' from '{value}' and a number")
    return _of_one(op, Apply(arithmetic, (Input(0, value), _converted(other, result)), result))


def _scalar(value: SSAValue) -> Scalar:
    number, owner = _number_in(value), value.owner
    if number is None or name_of(cast(Operation, owner)) not in (
        "torch.constant.int",
        "torch.constant.float",
    ):
        raise Refusal(RefusalCode.ARITHMETIC, "its scale or zero point is not a constant")
    return Scalar(number)


def _arithmetic(
    arithmetic: Arithmetic, read: Callable[[Operation, Arithmetic], Elementwise]
) -> ElementwiseModel:
    def checked(op: Operation, operands: Operands) -> Elementwise:
        is_difference = arithmetic is Arithmetic.SUBTRACT
        _check_operands(op, 3 if is_difference else 2)
        if is_difference and _integer(op.operands[2], operands) != 1:
            raise Refusal(RefusalCode.ARITHMETIC, "its subtrahend is multiplied by 'alpha'")
        return read(op, arithmetic)

    return ElementwiseModel(checked, write_broadcasting, keeps_rank=True)


def _convert(op: Operation, operands: Operands) -> Elementwise:
    _check_operands(op, 1)
    value, result = _types_of(op)
    if shape_of(op.operands[0]) != shape_of(op.results[0]):
        raise Refusal(RefusalCode.ARITHMETIC, "its result has another shape")
    return _of_one(op, converted_term(Input(0, value), result))


# Dequantization: https://docs.pytorch.org, `torch.ao.quantization.fx._decomposed`


def _dequantized(op: Operation, scale: Term, zero_point: Term | None = None) -> Term:
    """`(stored - zero_point) * scale`, converted to the type of the result."""
    stored, result = _types_of(op)
    if not isinstance(scale.type, AnyFloat):
        raise Refusal(RefusalCode.ARITHMETIC, f"scales are of '{scale.type}'")
    value: Term = Input(0, stored)
    if zero_point is not None:
        value = _difference(value, zero_point, scale.type)
    value = _converted(value, scale.type)
    return _converted(Apply(Arithmetic.MULTIPLY, (value, scale), scale.type), _numbers(result))


def _difference(value: Term, zero_point: Term, expressed: Attribute) -> Term:
    """
    The difference of integers, in the type of the zero points if that is wider and signed.

    Else in a type in which nothing wraps, as torch-mlir and IREE lower it.
    """
    type = zero_point.type
    if isinstance(type, IntegerType):
        stored, type = cast(IntegerType, value.type), cast(IntegerType, type)
        is_signed = not has_signedness(type, Signedness.UNSIGNED)
        if not is_signed or type.bitwidth <= stored.bitwidth:
            type = IntegerType(2 * max(type.bitwidth, stored.bitwidth))
            zero_point = _converted(zero_point, type)
    elif type != expressed:
        raise Refusal(RefusalCode.ARITHMETIC, f"zero points are of '{type}'")
    return Apply(Arithmetic.SUBTRACT, (_converted(value, type), zero_point), type)


def _numbers(type: Attribute) -> Attribute:
    """The type of dequantized elements of a type: f32 for quantized types."""
    return Float32Type() if isinstance(type, UnregisteredAttr) else type


def _quantized(op: Operation, scale: Term, zero_point: Term | None = None) -> Term:
    """The operand of rounding and clamping, with the limits of the op."""
    value, result = _types_of(op)
    if not isinstance(value, AnyFloat) or not isinstance(result, IntegerType):
        raise Refusal(RefusalCode.ARITHMETIC, f"'{value}' is not quantized to '{result}'")
    parameters = (scale,) if zero_point is None else (scale, zero_point)
    return Apply(Arithmetic.QUANTIZE, (Input(0, value), *parameters), cast(Attribute, result))


_Term = Callable[..., Term]
"""`_dequantized` or `_quantized`."""


def _of_tensors(
    op: Operation, term: _Term, axes: tuple[int, ...], *, in_blocks: bool = False
) -> Elementwise:
    """The element-wise form with tensors of scales and, optionally, zero points."""
    tensors = tuple(value for value in op.operands[:3] if _is_given(value))
    _, *parameters = (Input(n, tensor_element_type(value.type)) for n, value in enumerate(tensors))
    all_axes = _whole(op), *((axes,) * len(parameters))
    return Elementwise(tensors, all_axes, term(op, *parameters), in_blocks)


def _with_tensors(op: Operation, small: Sequence[SmallOperand], type: Attribute) -> Operation:
    """An op like a given one, with other tensors and the same other operands."""
    tensors = iter(small)
    given = [number for number, value in enumerate(op.operands[:3]) if _is_given(value)]
    values = [
        next(tensors).value if number in given[: len(small)] else value
        for number, value in enumerate(op.operands)
    ]
    return recreated(op, values, type)


def _with_integer(
    op: Operation, small: Sequence[SmallOperand], type: Attribute, operand: int, number: int
) -> list[Operation]:
    """An op like a given one, with other tensors, and another integer as one operand."""
    integer, new = _constant(number, op.operands[operand].type), _with_tensors(op, small, type)
    new.operands[operand] = integer.results[0]
    return [integer, new]


def _write_per_channel(
    op: Operation, small: Sequence[SmallOperand], type: Attribute
) -> list[Operation]:
    if len(small[1].axes) != 1:
        raise Refusal(RefusalCode.ARITHMETIC, "its scales would not vary along one axis")
    return _with_integer(op, small, type, 3, small[1].axes[0])


def _per_channel(term: _Term) -> ElementwiseModel:
    def read(op: Operation, operands: Operands) -> Elementwise:
        return _of_tensors(op, term, (_axis(op, 3, operands),))

    return ElementwiseModel(read, _write_per_channel, aligns=True, has_axis=True)


def _write_in_groups(
    op: Operation, small: Sequence[SmallOperand], type: Attribute
) -> list[Operation]:
    shape, grid = shape_of_type(type), shape_of_type(small[1].value.type)
    if len(shape) != 2 or shape[0] != grid[0] or not shape[1] > grid[1] > 0:
        raise Refusal(RefusalCode.ARITHMETIC, "its scales would not be per group of the last axis")
    return _with_integer(op, small, type, 6, shape[1] // grid[1])


def _in_groups(op: Operation, operands: Operands) -> Elementwise:
    shape, grid = static_shape_of(op.operands[0]), static_shape_of(op.operands[1])
    size = _integer(op.operands[6], operands)
    if len(shape) != 2 or size < 2 or grid != (shape[0], shape[1] // size) or shape[1] % size:
        raise Refusal(RefusalCode.ARITHMETIC, "its groups do not match its shape")
    return _of_tensors(op, _dequantized, (0, 1), in_blocks=True)


def _write_whole(op: Operation, small: Sequence[SmallOperand], type: Attribute) -> list[Operation]:
    if any(operand.axes for operand in small[1:]):
        raise Refusal(RefusalCode.ARITHMETIC, "it has only one scale")
    return [_with_tensors(op, small, type)]


def _per_tensor(term: _Term) -> ElementwiseModel:
    def read(op: Operation, operands: Operands) -> Elementwise:
        if any(shape_of(value) for value in op.operands[1:3]):
            raise Refusal(RefusalCode.ARITHMETIC, "its scale is not a scalar")
        return _of_tensors(op, term, ())

    return ElementwiseModel(read, _write_whole)


def _quantize_with_numbers(op: Operation, operands: Operands) -> Elementwise:
    return _of_one(op, _quantized(op, *(_scalar(value) for value in op.operands[1:3])))


def _dequantize_with_numbers(op: Operation, operands: Operands) -> Elementwise:
    """
    The element-wise form with numbers, which are rounded to the result type before multiplying.
    """
    expressed = _numbers(_types_of(op)[1])
    if not isinstance(expressed, Float32Type | Float64Type):
        raise Refusal(RefusalCode.ARITHMETIC, f"a number is multiplied in '{expressed}'")
    scale, zero_point = (_scalar(value) for value in op.operands[1:3])
    if not isinstance(scale.type, AnyFloat) or not isinstance(zero_point.type, IntegerType):
        raise Refusal(
            RefusalCode.ARITHMETIC, "its scale is not a float, or its zero point is not an integer"
        )
    return _of_one(op, _dequantized(op, _converted(scale, expressed), zero_point))


def _write_same(op: Operation, small: Sequence[SmallOperand], type: Attribute) -> list[Operation]:
    return [recreated(op, [small[0].value, *op.operands[1:]], type)]


def _dequantize(op: Operation, operands: Operands) -> Elementwise:
    """Read an op with a quantized result as its dequantized numbers."""
    stored, result = _types_of(op)
    if not isinstance(stored, UnregisteredAttr) or not isinstance(result, Float32Type):
        raise Refusal(RefusalCode.ARITHMETIC, f"'{stored}' is not dequantized to '{result}'")
    return _of_one(op, Input(0, stored))


# Sums of products, and normalizations: https://docs.pytorch.org/docs/stable/nn.functional.html


def _convolution(op: Operation) -> Contraction:
    """Its last operand counts groups; of nine, operand #6 says whether it is transposed."""
    *_, last = op.operands
    transposed = _number_in(op.operands[6]) if len(op.operands) == 9 else None
    groups, is_transposed = _number_in(last), bool(transposed and transposed.value.data)
    if groups is None or (is_transposed and groups.value.data != 1):
        raise Refusal(RefusalCode.UNKNOWN_OP, "its groups are not known")
    windows = len(shape_of(op.operands[1])) - 2
    stars, weights = "*" * windows, f"{'io' if is_transposed else 'oi'}{'hwd'[:windows]}"
    return Contraction.of(f"ni{stars},{weights}->no{stars}", 2, int(groups.value.data))


def _windows(op: Operation, contraction: Contraction) -> Sequence[Window]:
    """Those of a convolution that is not transposed: its strides, padding and dilations."""
    axes = sliding_axes(contraction)
    transposed = _number_in(op.operands[6]) if len(op.operands) == 9 else None
    lists = [[_number_in(item) for item in items_of(op.operands[at])] for at in (3, 4, 5)]
    numbers = [[int(item.value.data) for item in items if item is not None] for items in lists]
    if (transposed and transposed.value.data) or any(len(items) != len(axes) for items in numbers):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it is transposed, or its padding is not known")
    return [
        Window(ends, stride, dilation, low=pad, high=pad)
        for ends, stride, pad, dilation in zip(axes, *numbers, strict=True)
    ]


def _linear(op: Operation) -> Contraction:
    rows = "xyzm"[5 - len(shape_of(op.operands[0])) :]
    return Contraction.of(f"{rows}k,nk->{rows}n", bias=2)


def _sum_and_product(op: Operation) -> Contraction:
    """Its operands: what is added, both factors, and numbers that scale the addend and the sums."""
    factors = [_number_in(value) for value in op.operands[3:5]]
    if any(factor is None or factor.value.data != 1 for factor in factors):
        raise Refusal(RefusalCode.UNKNOWN_OP, "its sums are scaled")
    return replace(Contraction.of("mk,kn->mn", bias=0), operands=(1, 2))


def _batch_norm(op: Operation) -> Normalization:
    """Its operands: tensor, scale, offset, mean, variance, is_training, momentum, epsilon."""
    training, epsilon = (_number_in(op.operands[number]) for number in (5, 7))
    if training is None or training.value.data or epsilon is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "it may be a step of training")
    value, scale, offset, mean, variance = op.operands[:5]
    return Normalization(value, 1, scale, offset, mean, variance, float(epsilon.value.data))


def _of_two(function: str) -> Callable[[Operation], QuantizationRule | None]:
    """The rule of a sum or a difference whose second operand is multiplied by 1."""

    def read(op: Operation) -> QuantizationRule | None:
        alpha = None if len(op.operands) < 3 else _number_in(op.operands[2])
        return own(0, 1, function=function) if alpha is None or alpha.value.data == 1 else None

    return read


_pure = partial(OpModel, effects=Effects.NONE)


def _element_wise(function: str, rule: QuantizationRule | None = None) -> OpModel:
    return _pure(rule=rule, run=OnNumbers(function))


def plus(one: NDArray[Any], other: NDArray[Any], alpha: int = 1) -> NDArray[Any]:
    """`one + alpha * other`."""
    return one + alpha * other


_PLUS: Final = OnNumbers("qdialect.dialects.torch:plus")

_LAYERS: Final = {
    "aten.convolution aten.conv1d aten.conv2d aten.conv3d": _convolution,
    "aten.mm": Contraction.of("mk,kn->mn"),
    "aten.bmm": Contraction.of("bmk,bkn->bmn"),
    "aten.linear": _linear,
    "aten.addmm": _sum_and_product,
}

MODELS = OpModels(
    "torch",
    {
        "operator": OpModel(carrier=Carrier("name", {"onnx": "torch.onnx.", "torch": ""})),
        "vtensor.literal constant.int constant.bool constant.float": OpModel(constant="value"),
        # `none` stands for an omitted list or number.
        "prim.ListConstruct constant.none": OpModel(is_list=True),
        # Shape ops
        "aten.permute": OpModel(
            movement=lambda op, operands: moved(op, Transpose(_all_axes(op, operands)))
        ),
        "aten.transpose.int": OpModel(movement=_transpose),
        "aten.t aten.numpy_T": OpModel(movement=_reversed_axes),
        "aten.view aten._unsafe_view aten.reshape": OpModel(
            movement=reshaped, run_time_shape=shape_in(1), write_reshape=_reshape_again
        ),
        "aten.flatten.using_ints aten.unflatten.int aten.unsqueeze aten.squeeze aten.squeeze.dim "
        "prims.collapse prims.split_dim prims.squeeze": OpModel(movement=reshaped),
        "aten.slice.Tensor": OpModel(movement=_slice),
        "aten.narrow": OpModel(movement=_narrow),
        "aten.cat": OpModel(movement=_cat),
        "aten.expand aten.broadcast_to": OpModel(movement=broadcast_trailing),
        "aten.index_select": OpModel(movement=_index_select, positions=positions_on_any_axis),
        "aten.constant_pad_nd": OpModel(movement=_pad),
        "aten.flip": OpModel(
            movement=lambda op, operands: moved(op, Reverse(_all_axes(op, operands)))
        ),
        "aten.alias aten.clone aten.contiguous aten.detach": OpModel(
            movement=lambda op, operands: moved(op)
        ),
        "aten.embedding": _pure(positions=positions_along(0)),
        "aten.gather": _pure(positions=positions_on_any_axis),
        "aten.index.Tensor aten.index.Tensor_hacked_twin": _pure(
            positions=positions_on_any_axis, run="qdialect.dialects.arrays.places:rows_at"
        ),
        "aten.size aten.size.int": _pure(reads_lengths=True),
        # Arithmetic on floats, and on integers: https://docs.pytorch.org/docs/stable/torch.html
        "aten.mul.Tensor": OpModel(
            term=_arithmetic(Arithmetic.MULTIPLY, _with_tensor),
            integers="numpy:multiply",
            rule=own(0, 1, function="mul"),
        ),
        "aten.mul.Scalar": OpModel(
            term=_arithmetic(Arithmetic.MULTIPLY, _with_scalar),
            integers="numpy:multiply",
            rule=own(0, 1, function="mul"),
        ),
        "aten.sub.Tensor": OpModel(
            term=_arithmetic(Arithmetic.SUBTRACT, _with_tensor),
            integers=lambda op, values: values[0] - values[1] * values[2],
            rule=_of_two("sub"),
        ),
        "aten.sub.Scalar": OpModel(
            term=_arithmetic(Arithmetic.SUBTRACT, _with_scalar),
            integers=lambda op, values: values[0] - values[1] * values[2],
            rule=_of_two("sub"),
        ),
        "aten.add.Tensor aten.add.Scalar": OpModel(
            integers=lambda op, values: values[0] + values[1] * values[2],
            rule=_of_two("add"),
            run=_PLUS,
        ),
        "aten.where.self": OpModel(integers="numpy:where"),
        "aten.lt.Scalar aten.lt.Tensor": OpModel(integers="numpy:less"),
        "aten.remainder.Scalar": OpModel(integers="numpy:mod"),
        "aten.arange": OpModel(integers=lambda op, values: integers_from(op, 0, int(values[0]), 1)),
        "aten.arange.start": OpModel(
            integers=lambda op, values: integers_from(op, int(values[0]), int(values[1]), 1)
        ),
        "aten.arange.start_step": OpModel(
            integers=lambda op, values: integers_from(op, *map(int, values[:3]))
        ),
        "aten.to.dtype aten._to_copy prims.convert_element_type": OpModel(
            term=ElementwiseModel(_convert, write_broadcasting, keeps_rank=True)
        ),
        "aten.div.Scalar aten.div.Tensor": _element_wise("numpy:divide", own(0, 1, function="div")),
        "aten.neg": _element_wise("numpy:negative", own(0, function="neg")),
        "aten.sqrt": _element_wise("numpy:sqrt"),
        "aten.view.dtype": _pure(stays_float="it reads bits, not numbers", run=BITCAST),
        "aten.__rshift__.Scalar": _element_wise("numpy:right_shift"),
        "aten.__lshift__.Scalar": _element_wise("numpy:left_shift"),
        "aten.bitwise_and.Scalar": _element_wise("numpy:bitwise_and"),
        "aten.reciprocal": _element_wise(scalar("reciprocal")),
        "aten.rsqrt": _element_wise(scalar("reciprocal_root")),
        "aten.batch_norm": _pure(normalization=_batch_norm),
        **{name: _pure(product=product, windows=_windows) for name, product in _LAYERS.items()},
        # Of these is known only that they are pure
        "constant.device constant.str": _pure(),
        "aten._softmax aten.softmax.int aten.sigmoid aten.tanh aten.exp aten.relu aten.gelu "
        "aten.silu aten.hardsigmoid aten.hardswish aten.hardtanh aten.clamp "
        "aten.pow.Tensor_Scalar": _pure(),
        "aten.maximum aten.minimum aten.stack aten.matmul": _pure(),
        "aten.abs aten.amax aten.argmax aten.mean.dim aten.sum.dim_IntList aten.avg_pool2d "
        "aten.max_pool2d aten.layer_norm aten.native_layer_norm": _pure(),
        # Quantization and dequantization
        "quantized_decomposed.dequantize_per_channel aten._make_per_channel_quantized_tensor": (
            OpModel(term=_per_channel(_dequantized))
        ),
        "quantized_decomposed.dequantize_per_channel_group": OpModel(
            term=ElementwiseModel(_in_groups, _write_in_groups, aligns=True)
        ),
        "quantized_decomposed.dequantize_per_tensor.tensor": OpModel(
            term=_per_tensor(_dequantized)
        ),
        "quantized_decomposed.dequantize_per_tensor aten._make_per_tensor_quantized_tensor": (
            OpModel(term=ElementwiseModel(_dequantize_with_numbers, _write_whole))
        ),
        "quantized_decomposed.quantize_per_channel": OpModel(term=_per_channel(_quantized)),
        "quantized_decomposed.quantize_per_tensor.tensor": OpModel(term=_per_tensor(_quantized)),
        "quantized_decomposed.quantize_per_tensor": OpModel(
            term=ElementwiseModel(_quantize_with_numbers, _write_whole)
        ),
        "aten.dequantize.self aten.dequantize.tensor": OpModel(
            term=ElementwiseModel(_dequantize, _write_same)
        ),
    },
    DialectTraits(
        arithmetic=TorchArithmetic,
        values=frozenset(
            f"torch.{name}" for name in ("Device", "bool", "float", "int", "none", "number", "str")
        ),
        lists=frozenset({"torch.list"}),
    ),
)
