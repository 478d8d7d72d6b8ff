"""Constraints on the types of operands and results, with MLIR's messages, and tensor types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    NoneAttr,
    TensorType,
    UnrankedTensorType,
    UnregisteredAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    from qdialect.algebra.movement import Shape


@dataclass(frozen=True)
class ValueKind:
    """A constraint on the type of an operand or a result."""

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


class TensorParts(NamedTuple):
    """The parts of a ranked tensor type."""

    shape: Shape
    element_type: Attribute


class TensorModel(NamedTuple):
    """The functions that read and make a ranked tensor type other than the builtin one."""

    read: Callable[[Attribute], TensorParts | None]
    make: Callable[[Attribute, Shape, Attribute], Attribute]
    from_builtin: str | None = None
    """The name of the op that converts a builtin tensor of the same elements to it."""


_TENSOR_MODELS: Final[dict[str, TensorModel]] = {}


def register_tensor_type(
    name: str,
    read: Callable[[Attribute], TensorParts | None],
    make: Callable[[Attribute, Shape, Attribute], Attribute],
    from_builtin: str | None = None,
) -> None:
    """
    Register the types called `name`, such as `torch.vtensor`, as ranked tensors.

    `read` returns the shape and the element type, in terms of builtin types; None for an
    unranked type. `make` returns a type like its first argument, with the given shape and
    element type. `from_builtin` names the op that converts a builtin tensor of the same elements.
    """
    _TENSOR_MODELS[name] = TensorModel(read, make, from_builtin)


def _model_of(type: Attribute) -> TensorModel | None:
    if not _TENSOR_MODELS:
        return None
    return _TENSOR_MODELS.get(type_name(type))


def type_name(type: Attribute) -> str:
    """The name of a type, also of one whose dialect is not registered: `torch.vtensor`."""
    return type.attr_name.data if isinstance(type, UnregisteredAttr) else type.name


def maker_from_builtin(type: Attribute) -> str | None:
    """The name of the op that converts a builtin tensor to `type`; None if there is none."""
    model = _model_of(type)
    return None if model is None else model.from_builtin


def tensor_parts(type: Attribute) -> TensorParts | None:
    """The shape and the element type of a ranked tensor, builtin or registered."""
    if isinstance(type, TensorType):
        tensor = cast("TensorType[Attribute]", type)
        # `get_shape` returns a generator, which is slower than the rest of this function.
        return TensorParts(tuple([axis.data for axis in tensor.shape.data]), tensor.element_type)
    model = _model_of(type)
    return None if model is None else model.read(type)


def tensor_like(type: Attribute, shape: Shape, element: Attribute) -> Attribute:
    """A tensor type with the encoding of `type`, and another shape and element type."""
    if (model := _model_of(type)) is not None:
        return model.make(type, shape, element)
    encoding = cast("TensorType[Attribute]", type).encoding
    return TensorType(element, shape, encoding)


def has_encoding(type: Attribute) -> bool:
    """Whether this is a builtin tensor with an encoding."""
    return isinstance(type, TensorType) and not isinstance(
        cast("TensorType[Attribute]", type).encoding, NoneAttr
    )


def shape_of(type: Attribute) -> Shape | None:
    """The shape of a tensor, None if it has no rank."""
    parts = tensor_parts(type)
    return None if parts is None else parts.shape


def tensor_element_type(type: Attribute) -> Attribute:
    """The element type of a tensor."""
    if isinstance(type, TensorType):
        return cast("TensorType[Attribute]", type).element_type
    if (parts := tensor_parts(type)) is not None:
        return parts.element_type
    return cast("UnrankedTensorType[Attribute]", type).element_type


def is_tensor(type: Attribute) -> bool:
    """Whether this is a tensor, with or without a rank."""
    return isinstance(type, TensorType | UnrankedTensorType) or tensor_parts(type) is not None


def element_type_or_self(type: Attribute) -> Attribute:
    """The element type of a tensor; a scalar type itself."""
    if isinstance(type, TensorType):
        return cast("TensorType[Attribute]", type).element_type
    if isinstance(type, UnrankedTensorType):
        return cast("UnrankedTensorType[Attribute]", type).element_type
    parts = tensor_parts(type)
    return type if parts is None else parts.element_type


def with_element_type(type: Attribute, element: Attribute) -> Attribute:
    """
    A tensor type with the shape and encoding of `type`, and elements of type `element`;
    `element` itself if `type` is a scalar.
    """
    if isinstance(type, TensorType):
        tensor = cast("TensorType[Attribute]", type)
        # The attribute of the shape is shared, rather than made and verified again.
        return TensorType.new((tensor.shape, element, tensor.encoding))
    if (shape := shape_of(type)) is not None:
        return tensor_like(type, shape, element)
    return UnrankedTensorType(element) if isinstance(type, UnrankedTensorType) else element


def is_static(shape: Shape | None) -> bool:
    """Whether all lengths are known."""
    return shape is not None and DYNAMIC_INDEX not in shape
