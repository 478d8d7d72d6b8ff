"""Shape ops of any dialect, read as movements, and rebuilt for elements of another type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import DYNAMIC, Chain, Movement, Shape, Transpose
from qdialect.algebra.padding import Pad, PadWith
from qdialect.algebra.views import MAX_RANK, as_view
from qdialect.dialects.quant.dialect import Quant
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.storage import QuantizedType
from qdialect.dialects.quant.types import QuantizedTensor, UniformQuantizedType
from qdialect.dialects.quant.verification import verify_movement
from qdialect.folding.layers import refusing
from qdialect.ir.errors import verify_alone
from qdialect.ir.value_types import element_type_or_self
from qdialect.lowering.storage_ops import STORAGE_OPS, StorageBuilder, move_elements, unknown_length
from qdialect.ops.fields import Movements, ShapeOpModel
from qdialect.ops.interface import Refusal, RefusalCode, model_of
from qdialect.ops.reading import ConstantOperands

Scalar: TypeAlias = IntegerAttr | FloatAttr

_QUANT_OPS: Final[dict[type[Movement], type[ShapeOp]]] = {
    op.MOVEMENT: op for op in Quant.operations if issubclass(op, ShapeOp)
}


@dataclass(frozen=True)
class Form:
    """The element types that a shape op is rebuilt for, and the way to rebuild it."""

    elements: tuple[Attribute, ...]
    """The element type after each movement."""

    padding: Scalar | None
    """The padding element of a `Pad` if elements are not quantized; None means real zero."""

    is_copy: bool = False
    """Whether the op is copied with other types, instead of lowered to other ops."""


@dataclass(frozen=True, eq=False)
class MovingOp:
    """A shape op as movements, which are independent of the element type."""

    op: Operation
    operands: tuple[SSAValue, ...]
    """The moved operands."""
    movements: tuple[Movement, ...]
    """The movements, of which the first takes all operands. Padding is a `Pad`."""
    shapes: tuple[Shape, ...]
    """The shape after each movement."""
    padding: Scalar | None
    """The padding element if elements are not quantized."""
    _accepted: dict[Attribute, bool] = field(default_factory=dict[Attribute, bool])
    """A cache: whether the op itself accepts an element type."""

    @classmethod
    def read(cls, op: Operation, known: ConstantOperands) -> MovingOp:
        """Read a shape op. Raises Refusal if its movements are unknown, or contradict its types."""
        read = known.read(op, cast(ShapeOpModel, model_of(op)))
        operands, result = [_tensor(value) for value in read.operands], _tensor(op.results[0])
        elements = [type.element_type for type in (*operands, result)]
        quantized = [isinstance(element, UniformQuantizedType) for element in elements]
        is_plain = len(set(elements)) == 1 and not isinstance(elements[0], QuantizedType)
        if not operands or not (all(quantized) or is_plain):
            raise Refusal(RefusalCode.STALE_TYPE, "its types differ in more than their shapes")
        movements, padding = _without_padding(read, result, known, is_quantized=all(quantized))
        shapes = _shapes(movements, [type.get_shape() for type in operands], result.get_shape())
        moving = cls(op, tuple(read.operands), movements, shapes, padding)
        if not moving.is_static:
            if len(movements) > 1 or not _is_one_slot(elements):
                raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length is only known at run time")
        elif all(quantized) and not isinstance(op, ShapeOp):
            # Verifiers of other dialects do not check scales.
            _verify_types(movements, operands, result)
        return moving

    @cached_property
    def operand_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the moved operands."""
        return tuple(_tensor(operand).get_shape() for operand in self.operands)

    @property
    def element(self) -> Attribute:
        """The element type of the first moved operand."""
        return _tensor(self.operands[0]).element_type

    @cached_property
    def is_static(self) -> bool:
        """Whether all shapes are static."""
        return all(DYNAMIC not in shape for shape in (*self.operand_shapes, *self.shapes))

    def form(
        self,
        operands: Sequence[Attribute],
        elements: Sequence[Attribute],
        padding: Scalar | None = None,
    ) -> Form:
        """
        The form to rebuild the op in, for operands of these element types.

        `elements` are the element types after each movement. Raises Refusal if there are no
        ops for that form.
        """
        if self._can_be_copied((*operands, elements[-1]), padding):
            return Form(tuple(elements), padding, is_copy=True)
        shapes = self.operand_shapes
        for movement, element, shape in zip(self.movements, elements, self.shapes, strict=True):
            is_quantized = isinstance(element, UniformQuantizedType)
            if type(movement) not in (_QUANT_OPS if is_quantized else STORAGE_OPS):
                kind = (
                    "of quantized elements"
                    if is_quantized
                    else "of elements that are not quantized"
                )
                raise Refusal(RefusalCode.UNKNOWN_OP, f"there is no equivalent op for {kind}")
            if not is_quantized and (reason := unknown_length(movement, shapes)):
                raise Refusal(RefusalCode.DYNAMIC_SHAPE, reason)
            shapes = (shape,)
        return Form(tuple(elements), padding)

    def make(self, form: Form, builder: StorageBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        """Insert the op in `form`. The operands have the element types that `form` was made for."""
        if form.is_copy:
            return builder.insert(self._copy(operands, form.elements[-1])).results[0]
        values = operands
        for movement, element, shape in zip(
            self.movements, form.elements, self.shapes, strict=True
        ):
            type_ = TensorType(element, shape)
            if isinstance(element, UniformQuantizedType):
                op = _QUANT_OPS[type(movement)].of_movement(movement, values, type_)
                value = builder.insert(op).result
            elif isinstance(movement, Pad) and form.padding is not None:
                value = builder.cast(builder.pad(movement, values[0], form.padding), shape)
            else:
                value = move_elements(builder, movement, values, type_)
            values = [value]
        return values[0]

    def _can_be_copied(self, elements: Sequence[Attribute], padding: Scalar | None) -> bool:
        """Whether the op itself accepts these element types of operands and result."""
        if isinstance(self.op, ShapeOp):
            return False
        if list(elements) == self._own_elements:
            return _is_same(padding, self.padding)
        if self.op.regions or self.padding is not None or len(set(elements)) > 1:
            return False
        if (accepted := self._accepted.get(elements[0])) is None:
            accepted = self._accepted[elements[0]] = self._accepts(elements[0])
        return accepted

    @cached_property
    def _own_elements(self) -> list[Attribute]:
        return [_tensor(value).element_type for value in (*self.operands, self.op.results[0])]

    def _accepts(self, element: Attribute) -> bool:
        """Whether a copy of the op with this element type verifies."""
        own = self._own_elements[0]
        others = (operand for operand in self.op.operands if operand not in self.operands)
        if any(element_type_or_self(other.type) == own for other in others):
            # An operand that is not moved, such as a destination tensor, would need the type too.
            return False
        types = [TensorType(element, shape) for shape in self.operand_shapes]
        copy = self._copy(Block(arg_types=types).args, element)
        try:
            verify_alone(copy)
        except VerifyException:
            return False
        finally:
            copy.operands = ()
        return True

    def _copy(self, operands: Sequence[SSAValue], element: Attribute) -> Operation:
        copy = self.op.clone(dict(zip(self.operands, operands, strict=True)))
        (result,) = copy.results
        Rewriter.replace_value_with_new_type(result, TensorType(element, self.shapes[-1]))
        return copy


def _is_same(one: Scalar | None, other: Scalar | None) -> bool:
    """Whether both are None, or equal bit for bit: zeros may differ in sign."""
    return one == other and str(one) == str(other)


def _tensor(value: SSAValue) -> TensorType[Attribute]:
    """The type of a ranked tensor. Raises Refusal."""
    if not isinstance(value.type, TensorType):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it does not move a ranked tensor")
    type = cast("TensorType[Attribute]", value.type)
    if not isinstance(type.encoding, NoneAttr):
        raise Refusal(RefusalCode.ILLEGAL_TYPE, "the encoding of the result is not known")
    return type


def _is_one_slot(elements: Sequence[Attribute]) -> bool:
    """Whether all types are equal and have at most one slot."""
    first = elements[0]
    return len(set(elements)) == 1 and (
        not isinstance(first, UniformQuantizedType) or first.granularity is Granularity.PER_TENSOR
    )


def _without_padding(
    read: Movements, result: TensorType[Attribute], known: ConstantOperands, *, is_quantized: bool
) -> tuple[tuple[Movement, ...], Scalar | None]:
    """The movements, with any padding as `Pad`, and the padding element. Raises Refusal."""
    movements, padding = list[Movement](), None
    for movement in read.movements:
        if isinstance(movement, PadWith):
            if any(movement.interior):
                raise Refusal(RefusalCode.UNKNOWN_OP, "it pads between positions")
            if is_quantized or read.padding is None:
                raise Refusal(RefusalCode.PADDING, "the padding has a quantized type")
            padding = _scalar(read.padding, known)
            if padding.type != result.element_type:
                raise Refusal(
                    RefusalCode.PADDING,
                    f"elements of type '{result.element_type}' are padded with one of type "
                    f"'{padding.type}'",
                )
            movement = Pad(movement.low, movement.high)
        movements.append(movement)
    if not movements:
        movements.append(Transpose(tuple(range(result.get_num_dims()))))
    return tuple(movements), padding


def _scalar(value: SSAValue, known: ConstantOperands) -> Scalar:
    """The only element of a constant. Raises Refusal."""
    constants, owner = known.constants, value.owner
    if isinstance(value.type, TensorType):
        elements = constants.read(owner) if isinstance(owner, Operation) else None
        if elements is None:
            raise Refusal(RefusalCode.PADDING, "the padding is not constant")
        if math.prod(elements.shape) != 1:
            raise Refusal(RefusalCode.PADDING, "the padding is not one element")
        stored = as_view(elements).array().reshape(-1)[0]
        type = cast("TensorType[Attribute]", value.type).element_type
    else:
        stored, type, casts = constants.element(value)
        if casts:
            raise Refusal(RefusalCode.PADDING, "the padding is the result of a cast")
    if isinstance(type, IntegerType):
        return IntegerAttr(int(stored), cast(IntegerType, type), truncate_bits=True)
    if isinstance(type, AnyFloat):
        return FloatAttr(type.unpack(stored.tobytes(), 1)[0], type)
    raise Refusal(RefusalCode.PADDING, "the padding is not a known number")


def _shapes(
    movements: Sequence[Movement], operands: Sequence[Shape], declared: Shape
) -> tuple[Shape, ...]:
    """The shape after each movement, of which the last is `declared`. Raises Refusal."""
    shapes, moved = list[Shape](), operands
    with refusing:
        for movement in movements:
            moved = [movement.result_shape(*moved)]
            shapes += moved
    pairs = zip(shapes[-1], declared, strict=False)
    if len(shapes[-1]) != len(declared) or any(
        one != other and DYNAMIC not in (one, other) for one, other in pairs
    ):
        raise Refusal(
            RefusalCode.UNKNOWN_OP, f"its result has shape {list(declared)}, not {list(shapes[-1])}"
        )
    if any(len(shape) > MAX_RANK for shape in (*operands, *shapes)):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"a rank is more than {MAX_RANK}")
    return (*shapes[:-1], declared)


def _verify_types(
    movements: Sequence[Movement],
    operands: Sequence[TensorType[Attribute]],
    result: TensorType[Attribute],
) -> None:
    """Raise Refusal if the declared result type is not the one that follows from the operands."""
    *operand_types, declared = (cast(QuantizedTensor, type) for type in (*operands, result))
    try:
        verify_movement(Chain.of(movements), operand_types, declared)
    except VerifyException as error:
        raise Refusal(RefusalCode.STALE_TYPE, str(error)) from None
