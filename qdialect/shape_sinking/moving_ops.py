"""Shape ops of any dialect, which are made again for elements of another type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, NoneAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from qdialect.array_view import MAX_RANK
from qdialect.dialects.quant.dialect import Quant
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.storage_ops import (
    STORAGE_OPS,
    StorageBuilder,
    move_elements,
    unknown_length,
)
from qdialect.dialects.quant.types import QuantizedTensor, QuantizedType, UniformQuantizedType
from qdialect.dialects.quant.verification import verify_movement
from qdialect.dialects.value_types import element_type_or_self
from qdialect.movement import (
    DYNAMIC,
    Chain,
    Movement,
    MovementError,
    Pad,
    PadWith,
    Shape,
    Transpose,
)
from qdialect.shape_folding.constants import ConstantOperands
from qdialect.shape_op_interface import Code, Movements, NotFoldable, ShapeOpModel

Scalar: TypeAlias = IntegerAttr | FloatAttr

_QUANT_OPS: Final[dict[type[Movement], type[ShapeOp]]] = {
    op.MOVEMENT: op for op in Quant.operations if issubclass(op, ShapeOp)
}


@dataclass(frozen=True)
class Form:
    """What elements a shape op is made again for, and how."""

    elements: tuple[Attribute, ...]
    """The element type after each movement."""

    padding: Scalar | None
    """What a `Pad` pads with where elements are not quantized. If they are, it is zero."""

    is_copy: bool = False
    """Whether it is the same op with other types."""


@dataclass(frozen=True, eq=False)
class MovingOp:
    """What a shape op does to elements, whatever their type."""

    op: Operation
    operands: tuple[SSAValue, ...]
    """What it moves."""
    movements: tuple[Movement, ...]
    """The first takes all operands. What pads is a `Pad`."""
    shapes: tuple[Shape, ...]
    """Those after each movement."""
    padding: Scalar | None
    """What it pads with, if its elements are not quantized."""
    _accepted: dict[Attribute, bool] = field(default_factory=dict[Attribute, bool])
    """Which element types have been found to be accepted by the op itself, and which not."""

    @classmethod
    def read(cls, op: Operation, model: ShapeOpModel, known: ConstantOperands) -> MovingOp:
        """
        What `op` does.

        Raises NotFoldable if that is not known, or its types do not mean it.
        """
        read = known.read(op, model)
        operands, result = [_tensor(value) for value in read.operands], _tensor(op.results[0])
        elements = [type.element_type for type in (*operands, result)]
        quantized = [isinstance(element, UniformQuantizedType) for element in elements]
        is_plain = len(set(elements)) == 1 and not isinstance(elements[0], QuantizedType)
        if not operands or not (all(quantized) or is_plain):
            raise NotFoldable(Code.STALE_TYPE, "its types are not what a shape op makes of another")
        movements, padding = _without_padding(read, result, known, is_quantized=all(quantized))
        shapes = _shapes(movements, [type.get_shape() for type in operands], result.get_shape())
        moving = cls(op, tuple(read.operands), movements, shapes, padding)
        if not moving.is_static:
            if len(movements) > 1 or not _is_one_slot(elements):
                raise NotFoldable(Code.DYNAMIC_SHAPE, "a length is only known at run time")
        elif all(quantized) and not isinstance(op, ShapeOp):
            # The verifiers of the others do not look at scales.
            _verify_types(movements, operands, result)
        return moving

    @cached_property
    def operand_shapes(self) -> tuple[Shape, ...]:
        """The shapes of what it moves."""
        return tuple(_tensor(operand).get_shape() for operand in self.operands)

    @property
    def element(self) -> Attribute:
        """The element type of what it moves first."""
        return _tensor(self.operands[0]).element_type

    @cached_property
    def is_static(self) -> bool:
        """Whether all lengths are known."""
        return all(DYNAMIC not in shape for shape in (*self.operand_shapes, *self.shapes))

    def form(
        self,
        operands: Sequence[Attribute],
        elements: Sequence[Attribute],
        padding: Scalar | None = None,
    ) -> Form:
        """
        How it is made again for operands of these element types.

        `elements` are those after each movement. Raises NotFoldable if no ops are known for it.
        """
        if self._can_be_copied((*operands, elements[-1]), padding):
            return Form(tuple(elements), padding, is_copy=True)
        shapes = self.operand_shapes
        for movement, element, shape in zip(self.movements, elements, self.shapes, strict=True):
            is_quantized = isinstance(element, UniformQuantizedType)
            if type(movement) not in (_QUANT_OPS if is_quantized else STORAGE_OPS):
                kind = "of quantized elements" if is_quantized else "of what is not quantized"
                raise NotFoldable(Code.UNKNOWN_OP, f"there is no op for {kind} that does the same")
            if not is_quantized and (reason := unknown_length(movement, shapes)):
                raise NotFoldable(Code.DYNAMIC_SHAPE, reason)
            shapes = (shape,)
        return Form(tuple(elements), padding)

    def make(self, form: Form, builder: StorageBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        """Make it again. The operands are of the element types that `form` was made for."""
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
        """Whether the op itself accepts these element types, of its operands and its result."""
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
        """Whether the op can be of elements of one other type."""
        own = self._own_elements[0]
        others = (operand for operand in self.op.operands if operand not in self.operands)
        if any(element_type_or_self(other.type) == own for other in others):
            # It would have to be of the other type, such as what a result is written to.
            return False
        types = [TensorType(element, shape) for shape in self.operand_shapes]
        copy = self._copy(Block(arg_types=types).args, element)
        try:
            copy.verify_()
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
    """Whether both are none, or the same bit for bit: zeros may differ in their sign."""
    return one == other and str(one) == str(other)


def _tensor(value: SSAValue) -> TensorType[Attribute]:
    """The type of a ranked tensor. Raises NotFoldable."""
    if not isinstance(value.type, TensorType):
        raise NotFoldable(Code.UNKNOWN_OP, "it does not move a ranked tensor")
    type = cast("TensorType[Attribute]", value.type)
    if not isinstance(type.encoding, NoneAttr):
        raise NotFoldable(Code.ILLEGAL_TYPE, "what becomes of an encoding is unknown")
    return type


def _is_one_slot(elements: Sequence[Attribute]) -> bool:
    """Whether all elements are of one type, and read the same slot if it is quantized."""
    first = elements[0]
    return len(set(elements)) == 1 and (
        not isinstance(first, UniformQuantizedType) or first.granularity is Granularity.PER_TENSOR
    )


def _without_padding(
    read: Movements, result: TensorType[Attribute], known: ConstantOperands, *, is_quantized: bool
) -> tuple[tuple[Movement, ...], Scalar | None]:
    """The movements, each that pads as a `Pad`, and what it pads with. Raises NotFoldable."""
    movements, padding = list[Movement](), None
    for movement in read.movements:
        if isinstance(movement, PadWith):
            if any(movement.interior):
                raise NotFoldable(Code.UNKNOWN_OP, "it pads between positions")
            if is_quantized or read.padding is None:
                raise NotFoldable(Code.PADDING, "what it pads with is of a quantized type")
            padding = _scalar(read.padding, known)
            movement = Pad(movement.low, movement.high)
        movements.append(movement)
    if not movements:
        movements.append(Transpose(tuple(range(result.get_num_dims()))))
    return tuple(movements), padding


def _scalar(value: SSAValue, known: ConstantOperands) -> Scalar:
    """The one element of a constant. Raises NotFoldable."""
    constants, owner = known.constants, value.owner
    if isinstance(value.type, TensorType):
        constant = constants.read(owner) if isinstance(owner, Operation) else None
        if constant is None:
            raise NotFoldable(Code.PADDING, "what is padded with is not constant")
        element = constant.single_element
    else:
        element = constants.element(value)
    if element.casts:
        raise NotFoldable(Code.PADDING, "what is padded with is made by a cast")
    type = element.layer.element_type
    if isinstance(type, IntegerType):
        return IntegerAttr(int(element.stored), cast(IntegerType, type), truncate_bits=True)
    return FloatAttr(element.real(), cast(Any, type))


def _shapes(
    movements: Sequence[Movement], operands: Sequence[Shape], declared: Shape
) -> tuple[Shape, ...]:
    """The shapes after each movement, the last as it is declared. Raises NotFoldable."""
    shapes, moved = list[Shape](), operands
    try:
        for movement in movements:
            moved = [movement.result_shape(*moved)]
            shapes += moved
    except MovementError as error:
        raise NotFoldable(Code.UNKNOWN_OP, str(error)) from None
    pairs = zip(shapes[-1], declared, strict=False)
    if len(shapes[-1]) != len(declared) or any(
        one != other and DYNAMIC not in (one, other) for one, other in pairs
    ):
        raise NotFoldable(
            Code.UNKNOWN_OP, f"its result has shape {list(declared)}, not {list(shapes[-1])}"
        )
    if any(len(shape) > MAX_RANK for shape in (*operands, *shapes)):
        raise NotFoldable(Code.UNKNOWN_OP, f"a rank is more than {MAX_RANK}")
    return (*shapes[:-1], declared)


def _verify_types(
    movements: Sequence[Movement],
    operands: Sequence[TensorType[Attribute]],
    result: TensorType[Attribute],
) -> None:
    """Raise NotFoldable if the quantized type of a result does not mean what it is made of."""
    *of, declared = (cast(QuantizedTensor, type) for type in (*operands, result))
    try:
        verify_movement(Chain.of(movements), of, declared)
    except VerifyException as error:
        raise NotFoldable(Code.STALE_TYPE, str(error)) from None
