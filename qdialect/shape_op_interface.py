"""
What the passes know of an op: which movement it is, which constant, or that it is a cast.

The ops of other dialects are known by external models, as MLIR calls them: functions that
read an op, registered by its name. Those that come with qdialect are in
`qdialect.external_models`, one module per dialect, which is imported when an op of that
dialect is met; a compiler registers its own with `shape_op`, `register_constant` and
`register_cast`. Ops are told by their names, so that it makes no difference whether their
dialect is registered.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.elements import MAX_REPEATED_ELEMENTS, elements_of
from qdialect.lazy_numpy import np
from qdialect.memo import Memo
from qdialect.movement import (
    DYNAMIC,
    Movement,
    PadWith,
    Shape,
    Slice,
    Values,
    ZeroPoint,
    as_view,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Code(StrEnum):
    """
    Why something is not folded, sunk or elided, in one word.

    They are stable: tools may match them.
    """

    NOT_CONSTANT = "not-constant"
    DYNAMIC_SHAPE = "dynamic-shape"
    UNKNOWN_OP = "unknown-op"
    STALE_TYPE = "stale-type"
    QUANTIZED = "quantized"
    GRANULARITY = "granularity"
    PARAMETER_GROWTH = "parameter-growth"
    GROWTH = "growth"
    PADDING = "padding"
    MIXED_CONSTANTS = "mixed-constants"
    ILLEGAL_TYPE = "illegal-type"
    NOT_INVERTIBLE = "not-invertible"
    USES = "uses"
    CASTS = "casts"
    NUMERICS = "numerics"


class NotFoldable(Exception):
    """An op cannot be folded, or read. The message is the reason."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Operands(Protocol):
    """What is known of the operands of an op that is read."""

    def integers(self, value: SSAValue) -> NDArray[np.int64]:
        """The elements of an integer constant. Raises NotFoldable."""
        ...


class Movements(NamedTuple):
    """What an op does: movements of some of its operands."""

    operands: Sequence[SSAValue]
    """What is moved."""

    movements: Sequence[Movement]
    """The first takes all operands, each of the others what the one before made of them."""

    padding: SSAValue | None = None
    """The one element that a `PadWith` among them pads with."""


class ShapeOpInterface(ABC):
    """For the classes of shape ops that know themselves what they do."""

    @property
    @abstractmethod
    def movements(self) -> Movements:
        """What the op does."""


ShapeOpModel = Callable[[Any, Operands], Movements]
"""Reads an op of one name. Raises NotFoldable."""

ShapeOpModelT = TypeVar("ShapeOpModelT", bound=ShapeOpModel)

_SHAPE_OPS: Final[dict[str, ShapeOpModel]] = {}
_CASTS: Final[set[str]] = {
    "quant.dcast",
    "quant.qcast",
    "quant.scast",
}
_CONSTANTS: Final[dict[str, str]] = {
    "arith.constant": "value",
    "quant.constant": "value",
}


def shape_op(name: str) -> Callable[[ShapeOpModelT], ShapeOpModelT]:
    """Register a function as the model of the ops of that name, in place of any before it."""

    def register(model: ShapeOpModelT) -> ShapeOpModelT:
        _load_models(name)
        _SHAPE_OPS[name] = model
        _role.cache_clear()
        return model

    return register


def register_constant(name: str, elements: str) -> None:
    """
    Register an op without operands whose result has the elements of an attribute.

    The attribute or property `elements` is `dense` or `dense_resource`, of the shape of
    the result. Its element type is that of the result, or the storage type of that.
    """
    _CONSTANTS[name] = elements
    _role.cache_clear()


def register_cast(name: str) -> None:
    """
    Register an op that changes how each element of its operand is read, and moves none.

    What becomes of an element depends on nothing but the element types of the operand and
    the result, and on their slots there.
    """
    _CASTS.add(name)
    _role.cache_clear()


class Role(NamedTuple):
    """What ops of one name are known as."""

    model: ShapeOpModel | None
    """How to read a shape op."""

    is_cast: bool
    elements: str | None
    """The name of the attribute with the elements of a constant."""


def role_of(op: Operation) -> Role:
    """What `op` is known as."""
    role = _role(type(op), name_of(op))
    if role.is_cast and not len(op.operands) == len(op.results) == 1:
        return _NO_ROLE
    return role


_NO_ROLE = Role(None, False, None)


def read_movements(op: Operation, model: ShapeOpModel, operands: Operands) -> Movements:
    """
    What a shape op does, which `model` reads.

    Raises NotFoldable, also for what is malformed: nothing has verified an op of a dialect
    that is not registered.
    """
    try:
        movements = model(op, operands)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise NotFoldable(Code.UNKNOWN_OP, f"it is malformed: {error}") from None
    if not movements.operands:
        raise NotFoldable(Code.UNKNOWN_OP, "it has no operand that it moves")
    return movements


def model_of(op: Operation) -> ShapeOpModel | None:
    """How to read `op`, if it is known to be a shape op."""
    return _role(type(op), name_of(op)).model


def is_cast(op: Operation) -> bool:
    """Whether `op` is known to be a cast."""
    return role_of(op).is_cast


def elements_attribute_of(op: Operation) -> str | None:
    """The name of the attribute that holds the elements of `op`, if it is a constant."""
    return _role(type(op), name_of(op)).elements


# Every op of a module is asked for, and few names are different.
@lru_cache(maxsize=1024)
def _role(cls: type[Operation], name: str) -> Role:
    _load_models(name)
    model = _own_movements if issubclass(cls, ShapeOpInterface) else _SHAPE_OPS.get(name)
    return Role(model, name in _CASTS, _CONSTANTS.get(name))


def _own_movements(op: ShapeOpInterface, operands: Operands) -> Movements:
    return op.movements


def _load_models(name: str) -> None:
    _load_dialect(name.partition(".")[0])


@cache
def _load_dialect(dialect: str) -> None:
    """Import what comes with qdialect for `dialect`, if there is something."""
    module = f"qdialect.external_models.{dialect}"
    if dialect.isidentifier() and find_spec(module) is not None:
        import_module(module)


# What models read ops with.


def name_of(op: Operation) -> str:
    """The name of an op, also of an unregistered one."""
    # Quicker than to ask for the class, which all ops are asked.
    return op.name if op.name != UnregisteredOp.name else cast(UnregisteredOp, op).op_name.data


def find_attribute(op: Operation, name: str) -> Attribute | None:
    """A property, or an attribute as generic text may have it, if there is one."""
    # A zero is false.
    return op.properties[name] if name in op.properties else op.attributes.get(name)


def attribute_of(op: Operation, name: str) -> Attribute:
    """
    A property, or an attribute as generic text may have it.

    Raises NotFoldable if there is none.
    """
    attribute = find_attribute(op, name)
    if attribute is None:
        raise NotFoldable(Code.UNKNOWN_OP, f"there is no attribute '{name}'")
    return attribute


def integer_of(op: Operation, name: str) -> int:
    """An integer attribute. Raises NotFoldable if it is something else."""
    attribute = attribute_of(op, name)
    if not isinstance(attribute, IntegerAttr):
        raise NotFoldable(Code.UNKNOWN_OP, f"attribute '{name}' is not an integer")
    return attribute.value.data


def integers_of(op: Operation, name: str) -> tuple[int, ...]:
    """
    The integers of an array, however it is written.

    Raises NotFoldable if it holds something else, or what is only known at run time.
    """
    attribute = attribute_of(op, name)
    match attribute:
        case DenseArrayBase():
            values = integers_of_array(cast("DenseArrayBase[IntegerType]", attribute))
        case DenseIntOrFPElementsAttr():
            elements = elements_of(attribute)
            values = tuple(integers_in(elements).reshape(-1).tolist())
        case ArrayAttr():
            items = cast(Sequence[Attribute], attribute.data)
            values = tuple(item.value.data for item in items if isinstance(item, IntegerAttr))
        case _:
            raise NotFoldable(Code.UNKNOWN_OP, f"attribute '{name}' is not an array of integers")
    if DYNAMIC in values:
        raise NotFoldable(Code.DYNAMIC_SHAPE, f"'{name}' is only known at run time")
    return values


_KNOWN_ARRAYS = Memo[DenseArrayBase[IntegerType], tuple[int, ...]]()


def integers_of_array(attribute: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """The integers of an array attribute."""
    if (known := _KNOWN_ARRAYS.get(attribute)) is not None:
        return known
    values = tuple(attribute.get_values())
    return _KNOWN_ARRAYS.add(attribute, values, len(values))


def integers_in(values: Values) -> NDArray[np.int64]:
    """
    The elements of a constant that says of a shape, or which positions.

    Raises NotFoldable if they are too many to be written out.
    """
    if math.prod(values.shape) > MAX_REPEATED_ELEMENTS:
        raise NotFoldable(Code.UNKNOWN_OP, "a constant that says what it does is too long")
    return as_view(values).array().astype(np.int64)


def shape_of(value: SSAValue) -> Shape:
    """The shape of a ranked tensor. Raises NotFoldable if it is something else."""
    if not isinstance(value.type, TensorType):
        raise NotFoldable(Code.UNKNOWN_OP, "it does not move a ranked tensor")
    return cast("TensorType[Attribute]", value.type).get_shape()


def static_shape_of(value: SSAValue) -> Shape:
    """The shape of a tensor. Raises NotFoldable if a length is only known at run time."""
    shape = shape_of(value)
    if DYNAMIC in shape:
        raise NotFoldable(Code.DYNAMIC_SHAPE, "the result has a length only known at run time")
    return shape


def padded(
    shape: Shape,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] | None = None,
) -> list[Movement]:
    """
    Padding of a tensor of `shape`; a negative width takes positions away at that end.

    What is padded with is in `Movements.padding`.
    """
    if not len(low) == len(high) == len(shape):
        raise NotFoldable(Code.UNKNOWN_OP, "there is not one width for each axis")
    interior = interior or (0,) * len(shape)
    pad = PadWith(
        tuple(max(width, 0) for width in low),
        tuple(max(width, 0) for width in high),
        tuple(interior),
        ZeroPoint(),
    )
    if all(width >= 0 for width in (*low, *high)):
        return [pad]
    grown = pad.result_shape(shape)
    if DYNAMIC in grown:
        raise NotFoldable(Code.DYNAMIC_SHAPE, "a length is only known at run time")
    offsets = tuple(max(-width, 0) for width in low)
    sizes = tuple(
        length - offset - max(-width, 0)
        for length, offset, width in zip(grown, offsets, high, strict=True)
    )
    return [pad, Slice(offsets, sizes, (1,) * len(shape))]
