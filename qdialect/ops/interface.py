"""
How passes read ops: shape ops as movements, constants, and casts.

Ops of other dialects have external models, as MLIR calls them: functions that read the ops of one
name. The dialect of an op need not be registered.

The models that come with qdialect are tables in `qdialect.dialects`. `qdialect.ops.model` registers
those of a compiler.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from typing import Final, cast

from xdsl.dialects.builtin import (
    IntegerAttr,
    StringAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import MovementError
from qdialect.ir.errors import message_of
from qdialect.ir.value_types import register_tensor_type as register_tensor_type
from qdialect.ops.model import (
    NOTHING,
    Carrier,
    OpModel,
    model_named,
    models_for_all,
    models_in_use,
    traits_of,
    when_registered,
)
from qdialect.ops.model import models_of as models_of
from qdialect.ops.models import (
    CastReads,
    DialectTraits,
    Movements,
    Operands,
    ShapeOpInterface,
    ShapeOpModel,
)
from qdialect.ops.refusals import NoSuchMovementError as NoSuchMovementError
from qdialect.ops.refusals import Refusal as Refusal
from qdialect.ops.refusals import RefusalCode as RefusalCode
from qdialect.support.memory import registered_cache

_KEEPING_ATTRIBUTES: Final = frozenset(
    {
        # tensor.pad with `nofold` must stay, even if it pads nothing.
        "nofold",
        # The op places its result on devices.
        "mhlo.sharding",
        "sdy.sharding",
    }
)


def keeping_attribute_of(op: Operation) -> str | None:
    """The name of an attribute that forbids to fold `op`, if it has one."""
    properties, attributes, keeping = op.properties, op.attributes, _KEEPING_ATTRIBUTES
    if keeping.isdisjoint(properties) and keeping.isdisjoint(attributes):
        return None
    return min(keeping.intersection(properties) or keeping.intersection(attributes))


def check_not_kept(op: Operation) -> None:
    """Raise Refusal if an attribute forbids to fold `op`."""
    if (attribute := keeping_attribute_of(op)) is not None:
        raise Refusal(RefusalCode.KEPT, f"its attribute '{attribute}' says that it stays")


def dialect_traits_of(op: Operation) -> DialectTraits:
    """Which tensors the dialect of `op` can have."""
    return traits_of(name_of(op).partition(".")[0]) or _ALL_TENSORS


_ALL_TENSORS: Final = DialectTraits()


@registered_cache
@cache
def _is_known_to_all(dialect: str) -> bool:
    return any(model.reads_elements for model in models_for_all(dialect).values())


when_registered(_is_known_to_all.cache_clear)


def is_known_dialect(name: str) -> bool:
    """Whether elements of the results of an op of the dialect `name` are read."""
    own = models_in_use().get(name)
    if own is not None and any(model.reads_elements for model in own.by_name.values()):
        return True
    return _is_known_to_all(name)


def op_model(op: Operation) -> OpModel:
    """What is known of `op`."""
    model = _op_model(op)
    if model.cast is not None and not len(op.operands) == len(op.results) == 1:
        return NOTHING
    return model


def read_movements(op: Operation, model: ShapeOpModel, operands: Operands) -> Movements:
    """
    The effect of a shape op, as `model` reads it.

    Raises Refusal, also if the op is malformed, since nothing verifies the ops of unregistered
    dialects. Raises NoSuchMovementError if only the numbers are wrong.
    """
    try:
        movements = model(op, operands)
    except MovementError as error:
        raise NoSuchMovementError(str(error)) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"it is malformed: {message_of(error)}") from None
    count = len(movements.operands)
    if not count:
        raise Refusal(RefusalCode.UNKNOWN_OP, "it has no operand that it moves")
    first = next(iter(movements.movements), None)
    if count > 1 and not isinstance(first, Concat | InsertSlice):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it has more operands than it moves")
    return movements


def model_of(op: Operation) -> ShapeOpModel | None:
    """The function that reads `op`, if it is known to be a shape op."""
    return _op_model(op).movement


def is_cast(op: Operation) -> bool:
    """Whether `op` is known to be a cast."""
    return _op_model(op).cast is not None and len(op.operands) == len(op.results) == 1


def cast_reads(op: Operation) -> CastReads:
    """The effect on elements, if the op is a cast."""
    if reads_unsigned(op):
        return CastReads.UNKNOWN
    return _op_model(op).cast or CastReads.UNKNOWN


def reads_unsigned(op: Operation) -> bool:
    """Whether a cast reads signless integers as unsigned ones, as that of tosa may."""
    unsigned = find_attribute(op, "input_unsigned")
    return isinstance(unsigned, IntegerAttr) and bool(unsigned.value.data)


def elements_attribute_of(op: Operation) -> str | None:
    """The name of the attribute that holds the elements of `op`, if it is a constant."""
    elements = _op_model(op).constant
    return None if elements is None else _attribute_key(op, elements)


def _op_model(op: Operation) -> OpModel:
    name = name_of(op)
    if in_context := models_in_use():
        own = in_context.get(name.partition(".")[0])
        if own is not None and name in own.by_name:
            return _of_class(type(op), own.by_name[name])
    return _known_to_all(type(op), name)


# Modules have many ops, and few different names.
@registered_cache
@lru_cache(maxsize=1024)
def _known_to_all(cls: type[Operation], name: str) -> OpModel:
    return _of_class(cls, model_named(name))


when_registered(_known_to_all.cache_clear)


def _of_class(cls: type[Operation], model: OpModel) -> OpModel:
    """A model of ops of a class, which may say itself what ops move."""
    return replace(model, movement=_own_movements) if issubclass(cls, ShapeOpInterface) else model


def _carried(op: Operation, name: str, carrier: Carrier) -> tuple[str, str]:
    """The name that an op of `name` is read by, and the prefix of those of its attributes."""
    held = op.properties.get(carrier.attribute, op.attributes.get(carrier.attribute))
    if isinstance(held, StringAttr):
        prefix = carrier.prefixes.get(held.data.partition(".")[0])
        if prefix is not None:
            return held.data, prefix
    return name, ""


def _attribute_key(op: Operation, name: str) -> str:
    """The name in `op` of the attribute that models call `name`."""
    if op.name != UnregisteredOp.name:
        return name
    own = cast(UnregisteredOp, op).op_name.data
    if (carrier := model_named(own).carrier) is None:
        return name
    prefix = _carried(op, own, carrier)[1]
    return name if name.startswith(prefix) else prefix + name


def _own_movements(op: ShapeOpInterface, operands: Operands) -> Movements:
    return op.movements


def name_of(op: Operation) -> str:
    """The name of an op, also of an unregistered one, and of one that another stands for."""
    # Quicker than isinstance; this is called for every op.
    if op.name != UnregisteredOp.name:
        return op.name
    name = cast(UnregisteredOp, op).op_name.data
    return (
        name if (carrier := model_named(name).carrier) is None else _carried(op, name, carrier)[0]
    )


def find_attribute(op: Operation, name: str) -> Attribute | None:
    """A property, or an attribute as generic text may have it, if there is one."""
    key = name if op.name != UnregisteredOp.name else _attribute_key(op, name)
    # A zero is false.
    return op.properties[key] if key in op.properties else op.attributes.get(key)


def set_attribute(op: Operation, name: str, attribute: Attribute) -> None:
    """Have a property, or an attribute if it is none, be another."""
    key = _attribute_key(op, name)
    (op.properties if key in op.properties else op.attributes)[key] = attribute


def is_list(op: Operation) -> bool:
    """Whether the result of `op` is the list of its operands."""
    return _op_model(op).is_list
