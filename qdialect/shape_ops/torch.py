"""
The literals, the dequantizations and the shape ops of torch-mlir's torch dialect.

https://github.com/llvm/torch-mlir. An op is parametrized by operands that are constants, or
lists of constants. Ops of ONNX, and ops that torch-mlir does not define, are inside of a
`torch.operator`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, cast

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
    BroadcastInDim,
    Movement,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Transpose,
)
from qdialect.ir.elements import has_signedness
from qdialect.ir.value_types import TensorParts, register_tensor_type, tensor_element_type
from qdialect.ops.attributes import (
    items_of,
    padded,
    shape_in,
    shape_of,
    static_shape_of,
    taken,
)
from qdialect.ops.computed_integers import integer_function, integers_from
from qdialect.ops.elementwise import (
    axes_from_last,
    conversion,
    elementwise_op,
    recreated,
    reshape_writer,
    shape_of_type,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    find_attribute,
    name_of,
    register_carrier,
    register_constant,
    register_list,
    shape_op,
)
from qdialect.ops.models import Movements, Operands
from qdialect.ops.terms import (
    Apply,
    Arithmetic,
    Elementwise,
    Input,
    Scalar,
    SmallOperand,
    Term,
)
from qdialect.support.lazy_numpy import np
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
register_carrier("torch.operator", "name", {"onnx": "torch.onnx.", "torch": ""})
register_constant("torch.vtensor.literal", "value")
register_constant("torch.constant.int", "value")
register_constant("torch.constant.bool", "value")
register_constant("torch.constant.float", "value")
register_list("torch.prim.ListConstruct")
# `none` stands for an omitted list or number.
register_list("torch.constant.none")


# Operands that parametrize an op


def _integers(value: SSAValue, operands: Operands) -> list[int]:
    return [int(each) for each in operands.integers(value).reshape(-1).tolist()]


def _integer(value: SSAValue, operands: Operands) -> int:
    (found,) = _integers(value, operands)
    return found


def _optional(value: SSAValue, operands: Operands) -> int | None:
    found = _integers(value, operands)
    return found[0] if found else None


def _axes(value: SSAValue, operands: Operands, rank: int) -> tuple[int, ...]:
    """Axes of a tensor of `rank`; negative ones count from the end."""
    axes = tuple(each + rank if each < 0 else each for each in _integers(value, operands))
    if not all(0 <= axis < rank for axis in axes):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"a tensor of rank {rank} has no such axis")
    return axes


def _axis(op: Operation, number: int, operands: Operands) -> int:
    (axis,) = _axes(op.operands[number], operands, len(shape_of(op.operands[0])))
    return axis


def _one(op: Operation, *movements: Movement) -> Movements:
    return Movements(op.operands[:1], movements)


# Shape ops


@shape_op("torch.aten.permute")
def _permute(op: Operation, operands: Operands) -> Movements:
    return _one(op, Transpose(_axes(op.operands[1], operands, len(shape_of(op.operands[0])))))


@shape_op("torch.aten.transpose.int")
def _transpose(op: Operation, operands: Operands) -> Movements:
    order = list(range(len(shape_of(op.operands[0]))))
    one, other = _axis(op, 1, operands), _axis(op, 2, operands)
    order[one], order[other] = other, one
    return _one(op, Transpose(tuple(order)))


@shape_op("torch.aten.t")
@shape_op("torch.aten.numpy_T")
def _reversed_axes(op: Operation, operands: Operands) -> Movements:
    rank = len(shape_of(op.operands[0]))
    if rank > 2 and name_of(op) == "torch.aten.t":
        raise Refusal(RefusalCode.UNKNOWN_OP, f"it does not transpose a tensor of rank {rank}")
    return _one(op, Transpose(tuple(reversed(range(rank)))))


@shape_op("torch.aten.view", run_time_shape=shape_in(1))
@shape_op("torch.aten._unsafe_view", run_time_shape=shape_in(1))
@shape_op("torch.aten.reshape", run_time_shape=shape_in(1))
@shape_op("torch.aten.flatten.using_ints")
@shape_op("torch.aten.unflatten.int")
@shape_op("torch.aten.unsqueeze")
@shape_op("torch.aten.squeeze")
@shape_op("torch.aten.squeeze.dim")
@shape_op("torch.prims.collapse")
@shape_op("torch.prims.split_dim")
@shape_op("torch.prims.squeeze")
def _reshape(op: Operation, operands: Operands) -> Movements:
    # If the result is static, the operand with its shape is redundant.
    return _one(op, Reshape(shape_of(op.results[0])))


@shape_op("torch.aten.slice.Tensor")
def _slice(op: Operation, operands: Operands) -> Movements:
    shape, axis = static_shape_of(op.operands[0]), _axis(op, 1, operands)
    start, end, step = (_optional(op.operands[number], operands) for number in (2, 3, 4))
    positions = range(*slice(start, end, step).indices(shape[axis]))
    if positions.step > 0:
        end = max(positions.stop, positions.start)
        return _one(op, _along(axis, shape, positions.start, end, positions.step))
    # Imported from ONNX: the same positions, from the last.
    positions = positions[::-1]
    forward = _along(axis, shape, positions.start, positions.stop, positions.step)
    return _one(op, forward, Reverse((axis,)))


@shape_op("torch.aten.narrow")
def _narrow(op: Operation, operands: Operands) -> Movements:
    shape, axis = static_shape_of(op.operands[0]), _axis(op, 1, operands)
    start, length = (_integer(op.operands[number], operands) for number in (2, 3))
    start += shape[axis] if start < 0 else 0
    return _one(op, _along(axis, shape, start, start + length, 1))


def _along(axis: int, shape: Shape, start: int, end: int, step: int) -> Movement:
    starts, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], ends[axis], steps[axis] = start, end, step
    return Slice.between(tuple(starts), tuple(ends), tuple(steps))


@shape_op("torch.aten.cat")
def _cat(op: Operation, operands: Operands) -> Movements:
    (axis,) = _axes(op.operands[1], operands, len(shape_of(op.results[0])))
    return Movements(items_of(op.operands[0]), [Concat(axis)])


@shape_op("torch.aten.expand")
@shape_op("torch.aten.broadcast_to")
def _expand(op: Operation, operands: Operands) -> Movements:
    source, result = shape_of(op.operands[0]), shape_of(op.results[0])
    return _one(op, BroadcastInDim.trailing(source, result))


@shape_op("torch.aten.index_select")
def _index_select(op: Operation, operands: Operands) -> Movements:
    axis, indices = _axis(op, 1, operands), operands.integers(op.operands[2])
    return _one(op, *taken(op, axis, indices, from_end=False))


@shape_op("torch.aten.constant_pad_nd")
def _pad(op: Operation, operands: Operands) -> Movements:
    """Its widths are of the last axis first; axes without widths stay."""
    shape, widths = shape_of(op.operands[0]), _integers(op.operands[1], operands)
    if not _is_zero(op.operands[2]):
        raise Refusal(RefusalCode.PADDING, "it pads with another number than 0.0")
    rest = [0] * (len(shape) - len(widths) // 2)
    low, high = ([*rest, *reversed(widths[end::2])] for end in (0, 1))
    return _one(op, *padded(shape, low, high, with_zero=True))


def _is_zero(value: SSAValue) -> bool:
    """Whether a value is a constant number, which is zero and not -0.0."""
    found = find_attribute(value.owner, "value") if isinstance(value.owner, Operation) else None
    return isinstance(found, IntegerAttr | FloatAttr) and str(found.value.data) in ("0", "0.0")


@shape_op("torch.aten.flip")
def _flip(op: Operation, operands: Operands) -> Movements:
    return _one(op, Reverse(_axes(op.operands[1], operands, len(shape_of(op.operands[0])))))


@shape_op("torch.aten.alias")
@shape_op("torch.aten.clone")
@shape_op("torch.aten.contiguous")
@shape_op("torch.aten.detach")
def _same(op: Operation, operands: Operands) -> Movements:
    return _one(op)


# Arithmetic, https://docs.pytorch.org: types are promoted to that of the result


def _write_arithmetic(
    op: Operation, small: Sequence[SmallOperand], type: Attribute
) -> list[Operation]:
    """Write arithmetic again; the op broadcasts operands of the rank of the result."""
    values = [operand.value for operand in small]
    return [recreated(op, [*values, *op.operands[len(values) :]], type)]


def _promoted(term: Term, result: Attribute) -> Term:
    if term.type == result:
        return term
    found = _converted(term, result)
    if found.arithmetic is Arithmetic.TRUNCATE_FLOAT:
        # torch multiplies by the unrounded scalar.
        raise Refusal(RefusalCode.ARITHMETIC, f"it computes '{result}' with '{term.type}'")
    return found


def _check_operands(op: Operation, count: int) -> None:
    """Raise Refusal if an op has fewer operands: the dialect does not verify it."""
    if len(op.operands) < count:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"it has {len(op.operands)} operands, not {count}")


def _of_two(op: Operation, arithmetic: Arithmetic) -> Elementwise:
    """The axes of two tensors, counted from the last one."""
    _check_operands(op, 2)
    shape, result = static_shape_of(op.results[0]), tensor_element_type(op.results[0].type)
    values = tuple(op.operands[:2])
    inputs = (Input(n, tensor_element_type(value.type)) for n, value in enumerate(values))
    terms = tuple(_promoted(each, result) for each in inputs)
    return Elementwise(values, axes_from_last(values, shape), Apply(arithmetic, terms, result))


def _with_scalar(op: Operation, arithmetic: Arithmetic) -> Elementwise:
    _check_operands(op, 2)
    (value, result), other = _types_of(op), _scalar(op.operands[1])
    if value != result or not isinstance(result, Float32Type | Float64Type):
        raise Refusal(RefusalCode.ARITHMETIC, f"it computes '{result}' from '{value}' and a number")
    scalar: Term = other if other.type == result else _converted(other, result)
    whole = tuple(range(len(shape_of(op.operands[0]))))
    term = Apply(arithmetic, (Input(0, value), scalar), result)
    return Elementwise((op.operands[0],), (whole,), term)


def _check_once(value: SSAValue, operands: Operands) -> None:
    """Raise Refusal if the subtrahend is multiplied before."""
    if _integer(value, operands) != 1:
        raise Refusal(RefusalCode.ARITHMETIC, "its subtrahend is multiplied by 'alpha'")


@elementwise_op("torch.aten.mul.Tensor", write=_write_arithmetic, keeps_rank=True)
def _multiply(op: Operation, operands: Operands) -> Elementwise:
    return _of_two(op, Arithmetic.MULTIPLY)


@elementwise_op("torch.aten.sub.Tensor", write=_write_arithmetic, keeps_rank=True)
def _subtract(op: Operation, operands: Operands) -> Elementwise:
    _check_operands(op, 3)
    _check_once(op.operands[2], operands)
    return _of_two(op, Arithmetic.SUBTRACT)


@elementwise_op("torch.aten.mul.Scalar", write=_write_arithmetic, keeps_rank=True)
def _multiply_by_number(op: Operation, operands: Operands) -> Elementwise:
    return _with_scalar(op, Arithmetic.MULTIPLY)


@elementwise_op("torch.aten.sub.Scalar", write=_write_arithmetic, keeps_rank=True)
def _subtract_number(op: Operation, operands: Operands) -> Elementwise:
    _check_operands(op, 3)
    _check_once(op.operands[2], operands)
    return _with_scalar(op, Arithmetic.SUBTRACT)


@elementwise_op(
    "torch.aten.to.dtype",
    "torch.aten._to_copy",
    "torch.prims.convert_element_type",
    write=_write_arithmetic,
    keeps_rank=True,
)
def _convert(op: Operation, operands: Operands) -> Elementwise:
    _check_operands(op, 1)
    value, result = _types_of(op)
    if shape_of(op.operands[0]) != shape_of(op.results[0]):
        raise Refusal(RefusalCode.ARITHMETIC, "its result has another shape")
    term: Term = Input(0, value)
    whole = tuple(range(len(shape_of(op.operands[0]))))
    return Elementwise((op.operands[0],), (whole,), _converted(term, result))


@reshape_writer("torch.aten.view", "torch.aten.reshape", "torch.aten._unsafe_view")
def _reshape_again(op: Operation, operand: SSAValue, type: Attribute) -> list[Operation]:
    lengths = op.operands[1]
    like = next(iter(items_of(lengths)), None)
    if like is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its result has rank 0")
    constants = [
        UnregisteredOp.with_name("torch.constant.int").create(
            result_types=[like.type], properties={"value": IntegerAttr(length, i64)}
        )
        for length in shape_of_type(type)
    ]
    shape = recreated(
        cast(Operation, lengths.owner), [each.results[0] for each in constants], lengths.type
    )
    return [*constants, shape, recreated(op, [operand, shape.results[0]], type)]


# Dequantization: https://docs.pytorch.org, `torch.ao.quantization.fx._decomposed`


def _types_of(op: Operation) -> tuple[Attribute, Attribute]:
    """The element types of the first operand and of the result."""
    return tensor_element_type(op.operands[0].type), tensor_element_type(op.results[0].type)


def _term(stored: Attribute, zero_point: Term | None, scale: Term, result: Attribute) -> Term:
    """`(stored - zero_point) * scale`, converted to the type of the result."""
    value: Term = Input(0, stored)
    if zero_point is not None:
        value = _difference(value, zero_point, scale.type)
    if value.type != scale.type:
        value = _converted(value, scale.type)
    value = Apply(Arithmetic.MULTIPLY, (value, scale), scale.type)
    return value if scale.type == result else _converted(value, result)


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
        value = _converted(value, type)
    elif type != expressed:
        raise Refusal(RefusalCode.ARITHMETIC, f"zero points are of '{type}'")
    else:
        value = _converted(value, type)
    return Apply(Arithmetic.SUBTRACT, (value, zero_point), type)


def _converted(term: Term, type: Attribute) -> Apply:
    arithmetic = conversion(term.type, type)
    if arithmetic is None:
        raise Refusal(RefusalCode.ARITHMETIC, f"'{term.type}' is not converted to '{type}'")
    return Apply(arithmetic, (term,), type)


def _is_given(value: SSAValue) -> bool:
    """Whether an optional operand is given."""
    owner = value.owner
    return not (isinstance(owner, Operation) and name_of(owner) == "torch.constant.none")


def _of_tensors(op: Operation, axes: tuple[int, ...], *, in_blocks: bool = False) -> Elementwise:
    """The element-wise form with tensors of scales and, optionally, zero points."""
    tensors = tuple(value for value in op.operands[:3] if _is_given(value))
    stored, result = _types_of(op)
    types: list[Attribute] = [tensor_element_type(value.type) for value in tensors]
    if not isinstance(types[1], AnyFloat):
        raise Refusal(RefusalCode.ARITHMETIC, f"scales are of '{types[1]}'")
    zero_point = Input(2, types[2]) if len(tensors) > 2 else None
    term = _term(stored, zero_point, Input(1, types[1]), _numbers(result))
    whole = tuple(range(len(shape_of(op.operands[0]))))
    return Elementwise(tensors, (whole, *((axes,) * (len(tensors) - 1))), term, in_blocks)


def _numbers(type: Attribute) -> Attribute:
    """The type of dequantized elements of a type: f32 for quantized types."""
    return Float32Type() if isinstance(type, UnregisteredAttr) else type


def _write_per_channel(at: int) -> Any:
    """Writes an op whose operand number `at` is the axis."""

    def write(op: Operation, small: Sequence[SmallOperand], type: Attribute) -> list[Operation]:
        if len(small[1].axes) != 1:
            raise Refusal(RefusalCode.ARITHMETIC, "its scales would not vary along one axis")
        axis = UnregisteredOp.with_name("torch.constant.int").create(
            result_types=[op.operands[at].type],
            properties={"value": IntegerAttr(small[1].axes[0], i64)},
        )
        new = _with_tensors(op, small, type)
        new.operands[at] = axis.results[0]
        return [axis, new]

    return write


def _with_tensors(op: Operation, small: Sequence[SmallOperand], type: Attribute) -> Operation:
    """An op like a given one, with other tensors and the same other operands."""
    tensors = iter(small)
    given = [number for number, value in enumerate(op.operands[:3]) if _is_given(value)]
    values = [
        next(tensors).value if number in given[: len(small)] else value
        for number, value in enumerate(op.operands)
    ]
    return recreated(op, values, type)


@elementwise_op(
    "torch.quantized_decomposed.dequantize_per_channel",
    write=_write_per_channel(3),
    aligns=True,
    has_axis=True,
)
@elementwise_op(
    "torch.aten._make_per_channel_quantized_tensor",
    write=_write_per_channel(3),
    aligns=True,
    has_axis=True,
)
def _per_channel(op: Operation, operands: Operands) -> Elementwise:
    return _of_tensors(op, (_axis(op, 3, operands),))


def _write_in_groups(
    op: Operation, small: Sequence[SmallOperand], type: Attribute
) -> list[Operation]:
    shape, grid = shape_of_type(type), shape_of_type(small[1].value.type)
    if len(shape) != 2 or shape[0] != grid[0] or not shape[1] > grid[1] > 0:
        raise Refusal(RefusalCode.ARITHMETIC, "its scales would not be per group of the last axis")
    size = UnregisteredOp.with_name("torch.constant.int").create(
        result_types=[op.operands[6].type],
        properties={"value": IntegerAttr(shape[1] // grid[1], i64)},
    )
    new = _with_tensors(op, small, type)
    new.operands[6] = size.results[0]
    return [size, new]


@elementwise_op(
    "torch.quantized_decomposed.dequantize_per_channel_group", write=_write_in_groups, aligns=True
)
def _in_groups(op: Operation, operands: Operands) -> Elementwise:
    shape, grid = static_shape_of(op.operands[0]), static_shape_of(op.operands[1])
    size = _integer(op.operands[6], operands)
    if len(shape) != 2 or size < 2 or grid != (shape[0], shape[1] // size) or shape[1] % size:
        raise Refusal(RefusalCode.ARITHMETIC, "its groups do not match its shape")
    return _of_tensors(op, (0, 1), in_blocks=True)


def _write_whole(op: Operation, small: Sequence[SmallOperand], type: Attribute) -> list[Operation]:
    if any(operand.axes for operand in small[1:]):
        raise Refusal(RefusalCode.ARITHMETIC, "it has only one scale")
    return [_with_tensors(op, small, type)]


@elementwise_op("torch.quantized_decomposed.dequantize_per_tensor.tensor", write=_write_whole)
def _per_tensor(op: Operation, operands: Operands) -> Elementwise:
    if any(shape_of(value) for value in op.operands[1:3]):
        raise Refusal(RefusalCode.ARITHMETIC, "its scale is not a scalar")
    return _of_tensors(op, ())


@elementwise_op(
    "torch.quantized_decomposed.dequantize_per_tensor",
    "torch.aten._make_per_tensor_quantized_tensor",
    write=_write_whole,
)
def _with_numbers(op: Operation, operands: Operands) -> Elementwise:
    """
    The element-wise form with numbers, which are rounded to the result type before multiplying.
    """
    stored, result = _types_of(op)
    expressed = _numbers(result)
    if not isinstance(expressed, Float32Type | Float64Type):
        raise Refusal(RefusalCode.ARITHMETIC, f"a number is multiplied in '{expressed}'")
    scale, zero_point = (_scalar(value) for value in op.operands[1:3])
    if not isinstance(scale.type, AnyFloat) or not isinstance(zero_point.type, IntegerType):
        raise Refusal(
            RefusalCode.ARITHMETIC, "its scale is not a float, or its zero point is not an integer"
        )
    factor = scale if scale.type == expressed else _converted(scale, expressed)
    whole = tuple(range(len(shape_of(op.operands[0]))))
    return Elementwise((op.operands[0],), (whole,), _term(stored, zero_point, factor, expressed))


def _scalar(value: SSAValue) -> Scalar:
    owner = value.owner
    held = find_attribute(owner, "value") if isinstance(owner, Operation) else None
    if not isinstance(held, IntegerAttr | FloatAttr) or name_of(cast(Operation, owner)) not in (
        "torch.constant.int",
        "torch.constant.float",
    ):
        raise Refusal(RefusalCode.ARITHMETIC, "its scale or zero point is not a constant")
    return Scalar(cast("FloatAttr[Any]", held))


# Quantization, with the operands of the dequantization


def _rounded(op: Operation, scale: Term, zero_point: Term | None) -> Term:
    """The operand of rounding and clamping, with the limits of the op."""
    value, result = _types_of(op)
    if not isinstance(value, AnyFloat) or not isinstance(result, IntegerType):
        raise Refusal(RefusalCode.ARITHMETIC, f"'{value}' is not quantized to '{result}'")
    operands: tuple[Term, ...] = (Input(0, value), scale)
    operands += () if zero_point is None else (zero_point,)
    return Apply(Arithmetic.QUANTIZE, operands, cast(Attribute, result))


def _quantized(op: Operation, axes: tuple[int, ...]) -> Elementwise:
    tensors = tuple(value for value in op.operands[:3] if _is_given(value))
    _, *smalls = (
        Input(number, tensor_element_type(value.type)) for number, value in enumerate(tensors)
    )
    term = _rounded(op, smalls[0], smalls[1] if len(smalls) > 1 else None)
    whole = tuple(range(len(shape_of(op.operands[0]))))
    return Elementwise(tensors, (whole, *((axes,) * len(smalls))), term)


@elementwise_op(
    "torch.quantized_decomposed.quantize_per_channel",
    write=_write_per_channel(3),
    aligns=True,
    has_axis=True,
)
def _quantize_per_channel(op: Operation, operands: Operands) -> Elementwise:
    return _quantized(op, (_axis(op, 3, operands),))


@elementwise_op("torch.quantized_decomposed.quantize_per_tensor.tensor", write=_write_whole)
def _quantize_per_tensor(op: Operation, operands: Operands) -> Elementwise:
    if any(shape_of(value) for value in op.operands[1:3]):
        raise Refusal(RefusalCode.ARITHMETIC, "its scale is not a scalar")
    return _quantized(op, ())


@elementwise_op("torch.quantized_decomposed.quantize_per_tensor", write=_write_whole)
def _quantize_with_numbers(op: Operation, operands: Operands) -> Elementwise:
    term = _rounded(op, *(_scalar(value) for value in op.operands[1:3]))
    whole = tuple(range(len(shape_of(op.operands[0]))))
    return Elementwise((op.operands[0],), (whole,), term)


def _write_same(op: Operation, small: Sequence[SmallOperand], type: Attribute) -> list[Operation]:
    return [recreated(op, [small[0].value, *op.operands[1:]], type)]


@elementwise_op("torch.aten.dequantize.self", "torch.aten.dequantize.tensor", write=_write_same)
def _dequantize(op: Operation, operands: Operands) -> Elementwise:
    """Read an op with a quantized result as its dequantized numbers."""
    stored, result = _types_of(op)
    if not isinstance(stored, UnregisteredAttr) or not isinstance(result, Float32Type):
        raise Refusal(RefusalCode.ARITHMETIC, f"'{stored}' is not dequantized to '{result}'")
    whole = tuple(range(len(shape_of(op.operands[0]))))
    return Elementwise((op.operands[0],), (whole,), Input(0, stored))


# Integers: https://docs.pytorch.org/docs/stable/torch.html

integer_function("torch.aten.add.Tensor", "torch.aten.add.Scalar")(
    lambda op, of: of[0] + of[1] * of[2]
)
integer_function("torch.aten.sub.Tensor", "torch.aten.sub.Scalar")(
    lambda op, of: of[0] - of[1] * of[2]
)
integer_function("torch.aten.mul.Tensor", "torch.aten.mul.Scalar")(lambda op, of: of[0] * of[1])
integer_function("torch.aten.where.self")(lambda op, of: np.where(of[0] != 0, of[1], of[2]))
integer_function("torch.aten.lt.Scalar", "torch.aten.lt.Tensor")(lambda op, of: of[0] < of[1])
integer_function("torch.aten.remainder.Scalar")(lambda op, of: np.mod(of[0], of[1]))
integer_function("torch.aten.arange")(lambda op, of: integers_from(op, 0, int(of[0]), 1))
integer_function("torch.aten.arange.start")(
    lambda op, of: integers_from(op, int(of[0]), int(of[1]), 1)
)
integer_function("torch.aten.arange.start_step")(
    lambda op, of: integers_from(op, *map(int, of[:3]))
)
