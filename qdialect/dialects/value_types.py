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
    Verify the types of the operands and of the one result, in this order.

    Raises VerifyException, without the name of the op.
    """
    ends = [f"operand #{number}" for number in range(len(op.operands))]
    values = (*op.operands, *op.results)
    for end, value, kind in zip((*ends, "result #0"), values, kinds, strict=True):
        if not kind.accepts(value.type):
            raise VerifyException(f"{end} must be {kind.description}, but got '{value.type}'")


def shape_of(type: Attribute) -> Shape | None:
    """The shape of a tensor, None if it has no rank."""
    return cast("TensorType[Attribute]", type).get_shape() if isinstance(type, TensorType) else None


def tensor_element_type(type: Attribute) -> Attribute:
    """The element type of a tensor."""
    return cast("TensorType[Attribute] | UnrankedTensorType[Attribute]", type).element_type


def element_type_or_self(type: Attribute) -> Attribute:
    """What a tensor is made of; a scalar is made of itself."""
    is_tensor = isinstance(type, TensorType | UnrankedTensorType)
    return tensor_element_type(cast(Attribute, type)) if is_tensor else type


def is_static(shape: Shape | None) -> bool:
    """Whether all lengths are known."""
    return shape is not None and DYNAMIC_INDEX not in shape
