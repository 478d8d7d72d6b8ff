"""
The constant, the quantization, the dequantization and the shape ops of the onnx dialect.

https://onnx.ai/onnx/operators. The second and the third are read as arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, Final, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    NoneType,
    Signedness,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import (
    DYNAMIC,
    Movement,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Transpose,
)
from qdialect.ir.value_types import element_type_or_self, tensor_element_type, tensor_parts
from qdialect.ops.elementwise import (
    broadcasting,
    conversion,
    converted,
    recreated,
    shape_of_type,
    with_shape,
    write_broadcasting,
)
from qdialect.ops.fields import (
    Apply,
    Arithmetic,
    Elementwise,
    ElementwiseModel,
    Input,
    MakeOp,
    Movements,
    Operands,
    QuantizationRule,
    RuleKind,
    RunTimeOperands,
    SmallOperand,
    Term,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    axis_of,
    find_attribute,
    integer_of,
    integers_of,
    name_of,
    set_attribute,
    shape_of,
    static_shape_of,
)
from qdialect.ops.model import OpModel, OpModels
from qdialect.ops.readers import (
    broadcast_trailing,
    listed,
    moved,
    moves,
    padded,
    reshaped,
    taken,
    tiled,
)
from qdialect.ops.reading import integers_from, nonzero_as_true
from qdialect.support.lazy_numpy import np

# Operands that may be omitted


def _is_given(value: SSAValue) -> bool:
    """Whether an optional operand is given."""
    return tensor_parts(value.type) is not None


def _optional(op: Operation, number: int, operands: Operands) -> Sequence[int] | None:
    """The integers of an operand; None if it is omitted."""
    is_given = number < len(op.operands) and _is_given(op.operands[number])
    return listed(operands, op.operands[number]) if is_given else None


# Shape ops


def _transpose(op: Operation) -> Movement:
    if find_attribute(op, "perm") is None:
        return Transpose(tuple(reversed(range(len(shape_of(op.operands[0]))))))
    return Transpose(integers_of(op, "perm"))


def _reshaped_shape(operands: RunTimeOperands) -> Shape:
    """The lengths in the shape operand; those that are 0 or -1 follow from the operand's."""
    lengths = operands.integers(1).reshape(-1).tolist()
    return tuple(DYNAMIC if length < 1 else length for length in lengths)


def _slice(op: Operation, operands: Operands) -> Movements:
    shape = static_shape_of(op.operands[0])
    starts, sizes, steps = [0] * len(shape), [*static_shape_of(op.results[0])], [1] * len(shape)
    given = [_optional(op, number, operands) for number in range(1, 5)]
    if given[0] is None or given[1] is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "it lacks starts or ends")
    axes = range(len(given[0])) if given[2] is None else given[2]
    backward: list[int] = []
    for at, axis in enumerate(axes):
        step, length = 1 if given[3] is None else given[3][at], shape[axis]
        start = given[0][at]
        start = max(start + length if start < 0 else start, 0)
        if step > 0:
            starts[axis] = min(start, length)
        else:
            # The same positions, from the last.
            starts[axis] = max(min(start, length - 1) + step * (sizes[axis] - 1), 0)
            backward.append(axis % len(shape))
        steps[axis] = abs(step)
    forward = Slice(tuple(starts), tuple(sizes), tuple(steps))
    return moved(op, forward, *([Reverse(tuple(backward))] if backward else ()))


def _gather(op: Operation, operands: Operands) -> Movements:
    rank = len(shape_of(op.operands[0]))
    axis = 0 if find_attribute(op, "axis") is None else axis_of(op, "axis", rank)
    indices = operands.integers(op.operands[1])
    return moved(op, *taken(op, axis, indices, from_end=True))


def _tile(op: Operation, operands: Operands) -> Movements:
    multiples = _optional(op, 1, operands) or ()
    return moved(op, *tiled(static_shape_of(op.operands[0]), multiples))


def _pad(op: Operation, operands: Operands) -> Movements:
    mode, shape = find_attribute(op, "mode"), static_shape_of(op.operands[0])
    if mode is not None and str(mode) != '"constant"':
        raise Refusal(RefusalCode.PADDING, f"it pads in the mode {mode}")
    widths, axes = _optional(op, 1, operands), _optional(op, 3, operands)
    if widths is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "it does not say how many elements it adds")
    low, high = [0] * len(shape), [0] * len(shape)
    for at, axis in enumerate(range(len(shape)) if axes is None else axes):
        low[axis], high[axis] = widths[at], widths[at + len(widths) // 2]
    with_value = len(op.operands) > 2 and _is_given(op.operands[2])
    movements = padded(shape, low, high, with_zero=not with_value)
    return moved(op, *movements, padding=op.operands[2] if with_value else None)


def _depth_to_space(op: Operation, operands: Operands) -> Movements:
    batches, channels, height, width = static_shape_of(op.operands[0])
    size, mode = integer_of(op, "blocksize"), str(find_attribute(op, "mode") or _DEPTH_FIRST)
    if mode not in _DEPTH_ORDERS:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"its mode {mode} is not known")
    depth = channels // (size * size)
    blocks = (size, size, depth) if mode == _DEPTH_FIRST else (depth, size, size)
    movements = [
        Reshape((batches, *blocks, height, width)),
        Transpose(_DEPTH_ORDERS[mode]),
        Reshape((batches, depth, height * size, width * size)),
    ]
    return Movements(op.operands, movements)


_DEPTH_FIRST: Final = '"DCR"'
_DEPTH_ORDERS: Final = MappingProxyType(
    {_DEPTH_FIRST: (0, 3, 4, 1, 5, 2), '"CRD"': (0, 1, 4, 2, 5, 3)}
)
"""By the mode, the axes after which rows and columns of blocks are beside those inside of them."""


def _space_to_depth(op: Operation, operands: Operands) -> Movements:
    batches, channels, height, width = static_shape_of(op.operands[0])
    size = integer_of(op, "blocksize")
    rows, columns = height // size, width // size
    movements = [
        Reshape((batches, channels, rows, size, columns, size)),
        Transpose((0, 3, 5, 1, 2, 4)),
        Reshape((batches, channels * size * size, rows, columns)),
    ]
    return Movements(op.operands, movements)


# Quantization and dequantization


def _write_per_block(
    op: Operation, operands: Sequence[SmallOperand], type: Attribute
) -> list[Operation]:
    """
    Write an op whose scales and zero points are per tensor, per axis, or per block along one axis.
    """
    axes = operands[1].axes
    rest = op.operands[len(operands) :]
    new = recreated(op, [*(operand.value for operand in operands), *rest], type)
    if _block_size(op):
        shape, grid = shape_of_type(type), shape_of_type(operands[1].value.type)
        sizes = [length // count for length, count in zip(shape, grid, strict=True)]
        axis = max(range(len(shape)), key=sizes.__getitem__)
        axes = (axis,)
        set_attribute(new, "block_size", IntegerAttr(sizes[axis], _SIGNED))
    elif len(axes) > 1:
        raise Refusal(RefusalCode.ARITHMETIC, "its scales would vary along several axes")
    if axes:
        set_attribute(new, "axis", IntegerAttr(axes[0], _SIGNED))
    return [new]


def dequantize_linear(
    make: MakeOp,
    stored: SSAValue,
    scales: Any,
    zero_points: Any | None,
    axis: int,
    block_size: int | None,
) -> SSAValue:
    """
    Insert a dequantization of integers, with elements of scales and zero points; None means 0.

    Without a block size, there is one scale, or one for each position of `axis`.
    """
    smalls = [constant(make, scales)]
    if zero_points is None:
        smalls.append(make("onnx.NoValue", [], NoneType(), {"value": UnitAttr()}))
    else:
        smalls.append(constant(make, zero_points))
    attributes: dict[str, Attribute] = {"axis": IntegerAttr(axis, _SIGNED)}
    if block_size is not None:
        attributes["block_size"] = IntegerAttr(block_size, _SIGNED)
    shape = cast("TensorType[Attribute]", stored.type).get_shape()
    type = TensorType(scales.type.element_type, shape)
    return make("onnx.DequantizeLinear", [stored, *smalls], type, attributes)


def constant(make: MakeOp, elements: Any) -> SSAValue:
    """Insert a constant that holds `elements`."""
    return make("onnx.Constant", [], elements.type, {"value": elements})


_SIGNED: Final = IntegerType(64, Signedness.SIGNED)


def _block_size(op: Operation) -> int:
    return 0 if find_attribute(op, "block_size") is None else integer_of(op, "block_size")


def _with_scales(
    op: Operation, operands: Operands, term: Callable[[Sequence[Attribute], Attribute], Term]
) -> Elementwise:
    """
    The element-wise form of an op with scales per tensor, per axis, or per block along one axis.

    `term` returns the term, given the types of operands and result.
    """
    values = [value for value in op.operands if _is_given(value)]
    shape, scales = shape_of(values[0]), shape_of(values[1])
    axis = 1 if find_attribute(op, "axis") is None else axis_of(op, "axis", len(shape))
    along: tuple[int | None, ...] = ()
    if block := _block_size(op):
        grid = tuple(n // block if at == axis else n for at, n in enumerate(shape))
        if block < 0 or scales != grid or not 0 <= axis < len(shape) or shape[axis] % block:
            raise Refusal(RefusalCode.ARITHMETIC, "its blocks do not match its shape")
        along = tuple(range(len(shape)))
    elif scales:
        is_one = scales == (1,) and (axis >= len(shape) or shape[axis] != 1)
        along = (None if is_one else axis,)
    *types, result = [element_type_or_self(value.type) for value in (*values, *op.results)]
    axes = tuple(range(len(shape))), *((along,) * (len(values) - 1))
    return Elementwise(tuple(values), axes, term(types, result), in_blocks=bool(block))


def _quantized(types: Sequence[Attribute], stored: Attribute) -> Term:
    if not isinstance(types[0], AnyFloat) or not isinstance(stored, IntegerType):
        raise Refusal(RefusalCode.ARITHMETIC, f"'{types[0]}' is not quantized to '{stored}'")
    inputs = tuple(Input(number, type) for number, type in enumerate(types))
    return Apply(Arithmetic.QUANTIZE, inputs, cast(Attribute, stored))


def _dequantized(types: Sequence[Attribute], expressed: Attribute) -> Term:
    def real(number: int) -> Term:
        arithmetic = conversion(types[number], expressed)
        if arithmetic is None:
            raise Refusal(RefusalCode.ARITHMETIC, f"'{types[number]}' is not dequantized")
        return Apply(arithmetic, (Input(number, types[number]),), expressed)

    if types[1] != expressed:
        raise Refusal(
            RefusalCode.ARITHMETIC, f"its result is '{expressed}', but its scales are '{types[1]}'"
        )
    difference = real(0)
    if len(types) > 2:
        difference = Apply(Arithmetic.SUBTRACT, (difference, real(2)), expressed)
    return Apply(Arithmetic.MULTIPLY, (difference, Input(1, expressed)), expressed)


# Other ops


def _of_two(arithmetic: Arithmetic) -> ElementwiseModel:
    def read(op: Operation, operands: Operands) -> Elementwise:
        return broadcasting(op, arithmetic)

    return ElementwiseModel(read, write_broadcasting, keeps_rank=True)


def _reshape_again(op: Operation, operand: SSAValue, type: Attribute) -> list[Operation]:
    shape, lengths = op.operands[1], shape_of_type(type)
    if not isinstance(shape.owner, Operation) or name_of(shape.owner) != "onnx.Constant":
        raise Refusal(RefusalCode.UNKNOWN_OP, "its shape is not a constant")
    constant = recreated(shape.owner, [], with_shape(shape.type, (len(lengths),)))
    numbers = TensorType(tensor_element_type(shape.type), [len(lengths)])
    values = DenseIntOrFPElementsAttr.from_list(cast(Any, numbers), list(lengths))
    set_attribute(constant, "value", values)
    return [constant, recreated(op, [operand, constant.results[0]], type)]


_per_block = partial(ElementwiseModel, write=_write_per_block, aligns=True)
_rule = partial(QuantizationRule, RuleKind.OWN, (0,))

MODELS = OpModels(
    "onnx",
    {
        "Constant": OpModel(constant="value"),
        "Dim Shape": OpModel(reads_lengths=True),
        # Shape ops
        "Transpose": OpModel(movement=moves(_transpose)),
        "Identity": OpModel(movement=lambda op, operands: Movements(op.operands, [])),
        "Reshape": OpModel(
            movement=reshaped, run_time_shape=_reshaped_shape, write_reshape=_reshape_again
        ),
        "Squeeze Unsqueeze Flatten": OpModel(movement=reshaped),
        "Concat": OpModel(
            movement=moves(lambda op: Concat(axis_of(op, "axis", len(shape_of(op.results[0])))))
        ),
        "Expand": OpModel(movement=broadcast_trailing),
        "Slice": OpModel(movement=_slice),
        "Gather": OpModel(movement=_gather),
        "Tile": OpModel(movement=_tile),
        "Pad": OpModel(movement=_pad),
        "DepthToSpace": OpModel(movement=_depth_to_space),
        "SpaceToDepth": OpModel(movement=_space_to_depth),
        # Arithmetic
        "DequantizeLinear": OpModel(term=_per_block(partial(_with_scales, term=_dequantized))),
        "QuantizeLinear": OpModel(term=_per_block(partial(_with_scales, term=_quantized))),
        "Cast": OpModel(
            term=ElementwiseModel(converted, write_broadcasting, keeps_rank=True),
            integers=lambda op, values: nonzero_as_true(op, values[0]),
        ),
        "Add": OpModel(integers="numpy:add"),
        "Sub": OpModel(term=_of_two(Arithmetic.SUBTRACT), integers="numpy:subtract"),
        "Mul": OpModel(term=_of_two(Arithmetic.MULTIPLY), integers="numpy:multiply"),
        "Neg": OpModel(integers="numpy:negative"),
        "Min": OpModel(integers=lambda op, values: reduce(np.minimum, values)),
        "Max": OpModel(integers=lambda op, values: reduce(np.maximum, values)),
        "Where": OpModel(integers="numpy:where"),
        "Equal": OpModel(integers="numpy:equal"),
        "Less": OpModel(integers="numpy:less"),
        "LessOrEqual": OpModel(integers="numpy:less_equal"),
        "Greater": OpModel(integers="numpy:greater"),
        "GreaterOrEqual": OpModel(integers="numpy:greater_equal"),
        "Range": OpModel(integers=lambda op, values: integers_from(op, *map(int, values))),
        "PRelu": OpModel(rule=_rule(frozenset({"prelu"}), per_channel=(1,))),
        "InstanceNormalization": OpModel(
            rule=_rule(frozenset({"instance_norm"}), per_channel=(1, 2))
        ),
    },
)
