"""
Element-wise ops: the operands that each element of the result is computed from.

Exporters dequantize by arithmetic: an integer weight is converted, a zero point subtracted, and a
scale multiplied, each by an op of its own or in the body of one. A movement commutes with every
element-wise op, so the arithmetic is known here as a term, whatever dialect it is written in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.movement import Shape
from qdialect.ir.elements import has_signedness
from qdialect.ir.errors import message_of
from qdialect.ir.value_types import element_type_or_self, tensor_element_type, tensor_like
from qdialect.ir.value_types import shape_of as tensor_shape
from qdialect.ops.attributes import shape_of, static_shape_of
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    check_not_kept,
    name_of,
    op_model,
)
from qdialect.ops.model import model_named
from qdialect.ops.models import Operands
from qdialect.ops.terms import (
    Apply,
    Arithmetic,
    Elementwise,
    ElementwiseModel,
    ElementwiseReader,
    Input,
    Scalar,
    SmallOperand,
    Term,
)


def unbroadcast(read: ElementwiseReader) -> ElementwiseModel:
    """The model of ops of operands that have the shape of the result."""
    return ElementwiseModel(read, write_like, broadcasts=False)


def elementwise_model_of(op: Operation) -> ElementwiseModel | None:
    """The model of ops with the name of `op`, if they may be element-wise."""
    return model_named(name_of(op)).term


def arithmetic_model_of(op: Operation) -> ElementwiseModel:
    """The model of `op`, which is arithmetic."""
    model = elementwise_model_of(op)
    assert model is not None
    return model


def is_arithmetic(op: Operation) -> bool:
    """Whether `op` may be element-wise arithmetic on tensors."""
    if op_model(op).term is None or len(op.results) != 1 or not op.operands:
        return False
    return tensor_shape(op.results[0].type) is not None


def read_elementwise(op: Operation, operands: Operands) -> Elementwise:
    """
    The elements of the result of `op`, which is arithmetic, as a term.

    Raises Refusal, also if the op is malformed, since nothing verifies the ops of unregistered
    dialects.
    """
    model = arithmetic_model_of(op)
    check_not_kept(op)
    try:
        read = model.read(op, operands)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"it is malformed: {message_of(error)}") from None
    if not read.operands:
        raise Refusal(RefusalCode.ARITHMETIC, "it reads no tensor")
    return read


def is_reshape(op: Operation) -> bool:
    """Whether `op` is a reshape that can be written again, of another operand."""
    return model_named(name_of(op)).write_reshape is not None


def reshape_like(op: Operation, operand: SSAValue, result: Attribute) -> list[Operation]:
    """Write a reshape like `op`; returns the ops in order."""
    write = model_named(name_of(op)).write_reshape
    assert write is not None
    return write(op, operand, result)


def is_broadcast(op: Operation) -> bool:
    """Whether `op` is a broadcast that can be written again, of another operand."""
    return model_named(name_of(op)).write_broadcast is not None


def write_like(
    op: Operation, operands: Sequence[SmallOperand], result: Attribute
) -> list[Operation]:
    """
    Write an element-wise op that broadcasts nothing itself: every operand has the result's shape.

    Operands of fewer axes are broadcast before, each by an op like the one that did so before.
    Raises Refusal if there was none.
    """
    shape = shape_of_type(result)
    ops: list[Operation] = []
    values: list[SSAValue] = []
    for operand in operands:
        value = operand.value
        if len(operand.axes) < len(shape):
            if operand.like is None:
                raise Refusal(RefusalCode.ARITHMETIC, f"'{name_of(op)}' does not broadcast")
            type = with_shape(value.type, shape)
            write = model_named(name_of(operand.like)).write_broadcast
            assert write is not None
            ops += write(operand.like, operand, type)
            value = ops[-1].results[0]
        values.append(value)
    return [*ops, recreated(op, values, result)]


def recreated(op: Operation, operands: Sequence[SSAValue], result: Attribute) -> Operation:
    """
    An op with the name, the attributes and the location of `op`, and other operands.

    An attribute that is the type of the result stays that.
    """
    (old,) = op.results
    return type(op).create(
        operands=operands,
        result_types=[result],
        properties=with_type(op.properties, old.type, result),
        attributes=with_type(op.attributes, old.type, result),
        location=op.location,
    )


def with_type(
    attributes: Mapping[str, Attribute], old: Attribute, new: Attribute
) -> dict[str, Attribute]:
    """Attributes of an op whose result was of type `old`: one that is this type becomes `new`."""
    return {
        name: new if type(held) is type(old) and held == old else held
        for name, held in attributes.items()
    }


def substituted(term: Term, inputs: Sequence[Term]) -> Term:
    """A term with another term in the place of each input."""
    if isinstance(term, Input):
        return inputs[term.number]
    if isinstance(term, Scalar):
        return term
    operands = tuple(substituted(operand, inputs) for operand in term.operands)
    return Apply(term.arithmetic, operands, term.type)


def is_conversion(term: Term) -> bool:
    """Whether a term is an element of an operand, converted to other types."""
    while isinstance(term, Apply) and len(term.operands) == 1:
        (term,) = term.operands
    return isinstance(term, Input)


def conversion(source: Attribute, target: Attribute) -> Arithmetic | None:
    """The scalar op that converts one type to another as `stablehlo.convert` does, if known."""
    if isinstance(source, IntegerType):
        is_unsigned = (
            has_signedness(cast(IntegerType, source), Signedness.UNSIGNED) or source.bitwidth == 1
        )
        if isinstance(target, IntegerType):
            if source.bitwidth >= target.bitwidth:
                return None
            return Arithmetic.ZERO_EXTEND if is_unsigned else Arithmetic.SIGN_EXTEND
        return Arithmetic.UNSIGNED_TO_FLOAT if is_unsigned else Arithmetic.SIGNED_TO_FLOAT
    if not isinstance(target, AnyFloat):
        return None
    if cast(AnyFloat, source).bitwidth < target.bitwidth:
        return Arithmetic.EXTEND_FLOAT
    return Arithmetic.TRUNCATE_FLOAT


def same_shape(op: Operation, arithmetic: Arithmetic, operands: Sequence[SSAValue]) -> Elementwise:
    """An op of operands that have the shape of its result. Raises Refusal if one is missing."""
    count = 2 if arithmetic in (Arithmetic.ADD, Arithmetic.SUBTRACT, Arithmetic.MULTIPLY) else 1
    if len(operands) != count:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"it has {len(operands)} operands, not {count}")
    axes = tuple(range(len(shape_of(op.results[0]))))
    inputs = tuple(
        Input(number, element_type_or_self(operand.type)) for number, operand in enumerate(operands)
    )
    term = Apply(arithmetic, inputs, element_type_or_self(op.results[0].type))
    return Elementwise(tuple(operands), (axes,) * len(operands), term)


def axes_from_last(values: Sequence[SSAValue], shape: Shape) -> tuple[tuple[int | None, ...], ...]:
    """
    The axes of operands that are broadcast to `shape` as in numpy, for `Elementwise.axes`.

    Axes are counted from the last. Raises Refusal if an operand has more than the result.
    """
    axes: list[tuple[int | None, ...]] = []
    for value in values:
        lengths = static_shape_of(value)
        if (rest := len(shape) - len(lengths)) < 0:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its result has fewer axes than an operand")
        follows = enumerate(lengths, rest)
        axes.append(tuple(axis if n == shape[axis] else None for axis, n in follows))
    return tuple(axes)


def converted(op: Operation, operands: Operands) -> Elementwise:
    """An op that converts each element of its operand. Raises Refusal if that is not known."""
    types = [element_type_or_self(value.type) for value in (*op.operands, *op.results)]
    arithmetic = conversion(*types)
    if arithmetic is None:
        raise Refusal(RefusalCode.ARITHMETIC, f"'{types[0]}' is not converted to '{types[1]}'")
    return same_shape(op, arithmetic, op.operands)


def shape_of_type(type: Attribute) -> tuple[int, ...]:
    """The shape of a ranked tensor type."""
    shape = tensor_shape(type)
    assert shape is not None
    return shape


def with_shape(type: Attribute, shape: Sequence[int]) -> Attribute:
    """A tensor type of another shape."""
    return tensor_like(type, tuple(shape), tensor_element_type(type))
