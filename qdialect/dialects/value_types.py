"""What the types of operands and results may be, with MLIR's messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    from qdialect.movement import Shape


@dataclass(frozen=True)
class ValueKind:
    """What the type of an operand or a result must be."""

    description: str
    accepts: Callable[[Attribute], bool]


def verify_value_types(op: Operation, kinds: Sequence[ValueKind]) -> None:
    """
    Verify the types of the operands and of the results, in this order.

    Raises VerifyException, without the name of the op.
    """
    ends = [f"operand #{number}" for number in range(len(op.operands))]
    ends += [f"result #{number}" for number in range(len(op.results))]
    values = (*op.operands, *op.results)
    for end, value, kind in zip(ends, values, kinds, strict=True):
        if not kind.accepts(value.type):
            raise VerifyException(f"{end} must be {kind.description}, but got '{value.type}'")


def shape_of(type: Attribute) -> Shape | None:
    """The shape of a tensor, None if it has no rank."""
    return cast("TensorType[Attribute]", type).get_shape() if isinstance(type, TensorType) else None


def tensor_element_type(type: Attribute) -> Attribute:
    """The element type of a tensor."""
    return cast("TensorType[Attribute] | UnrankedTensorType[Attribute]", type).element_type


def is_tensor(type: Attribute) -> bool:
    """Whether this is a tensor, with or without a rank."""
    return isinstance(type, TensorType | UnrankedTensorType)


def element_type_or_self(type: Attribute) -> Attribute:
    """What a tensor is made of; a scalar is made of itself."""
    return tensor_element_type(type) if is_tensor(type) else type


def with_element_type(type: Attribute, element: Attribute) -> Attribute:
    """A tensor as `type`, with its encoding, but of `element`; of a scalar, that is all."""
    if isinstance(type, TensorType):
        tensor = cast(TensorType[Attribute], type)
        return TensorType(element, tensor.shape, tensor.encoding)
    return UnrankedTensorType(element) if isinstance(type, UnrankedTensorType) else element


def is_static(shape: Shape | None) -> bool:
    """Whether all lengths are known."""
    return shape is not None and DYNAMIC_INDEX not in shape
