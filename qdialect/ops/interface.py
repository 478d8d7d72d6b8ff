"""
How passes read ops: what is known of them, their attributes, and their types.

Ops of other dialects have external models, as MLIR calls them: functions that read the ops of one
name. The dialect of an op need not be registered.

The models that come with qdialect are tables in `qdialect.dialects`. `qdialect.ops.model` registers
those of a compiler.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Final, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float32Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    UnregisteredOp,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import DYNAMIC, MovementError, Shape
from qdialect.algebra.views import Values, as_view, values_dtype
from qdialect.ir.elements import (
    MAX_REPEATED_ELEMENTS,
    dense_elements,
    element_dtype,
    elements_of,
    has_signedness,
)
from qdialect.ir.errors import describe, message_of, place_of
from qdialect.ir.value_types import element_type_or_self, is_static, tensor_parts
from qdialect.ir.value_types import register_tensor_type as register_tensor_type
from qdialect.ir.value_types import shape_of as tensor_shape
from qdialect.ops.fields import (
    WINDOW,
    AlongAxis,
    CastReads,
    Contraction,
    DialectTraits,
    Layer,
    Movements,
    Operands,
    QuantizationRule,
    ShapeOpInterface,
    ShapeOpModel,
    Window,
)
from qdialect.ops.model import (
    NOTHING,
    Bits,
    Carrier,
    OpModel,
    model_named,
    models_for_all,
    models_in_use,
    traits_of,
    when_registered,
)
from qdialect.ops.model import models_of as models_of
from qdialect.ops.refusals import NoSuchMovementError as NoSuchMovementError
from qdialect.ops.refusals import Refusal as Refusal
from qdialect.ops.refusals import RefusalCode as RefusalCode
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import BoundedCache, registered_cache

# Names and attributes


def name_of(op: Operation) -> str:
    """The name of an op, also of an unregistered one, and of one that another stands for."""
    # Quicker than isinstance; this is called for every op.
    if op.name != UnregisteredOp.name:
        return op.name
    name = cast(UnregisteredOp, op).op_name.data
    carrier = model_named(name).carrier
    return name if carrier is None else _carried(op, name, carrier)[0]


def _carried(op: Operation, name: str, carrier: Carrier) -> tuple[str, str]:
    """The name that an op of `name` is read by, and the prefix of those of its attributes."""
    attribute = op.properties.get(carrier.attribute, op.attributes.get(carrier.attribute))
    if isinstance(attribute, StringAttr):
        prefix = carrier.prefixes.get(attribute.data.partition(".")[0])
        if prefix is not None:
            return attribute.data, prefix
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


def find_attribute(op: Operation, name: str) -> Attribute | None:
    """A property, or an attribute as generic text may have it, if there is one."""
    key = name if op.name != UnregisteredOp.name else _attribute_key(op, name)
    # A zero is false.
    return op.properties[key] if key in op.properties else op.attributes.get(key)


def set_attribute(op: Operation, name: str, attribute: Attribute) -> None:
    """Have a property, or an attribute if it is none, be another."""
    key = _attribute_key(op, name)
    (op.properties if key in op.properties else op.attributes)[key] = attribute


def attribute_of(op: Operation, name: str) -> Attribute:
    """
    A property, or an attribute as generic text may have it.

    Raises Refusal if there is none.
    """
    attribute = find_attribute(op, name)
    if attribute is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"there is no attribute '{name}'")
    return attribute


def integer_of(op: Operation, name: str) -> int:
    """The value of an integer attribute. Raises Refusal if it is another attribute."""
    return _integer_in(attribute_of(op, name), name)


def axis_of(op: Operation, name: str, rank: int) -> int:
    """An axis of a tensor of `rank`: a negative one counts from the end. Raises Refusal."""
    axis = integer_of(op, name)
    return axis + rank if axis < 0 else axis


def _integer_in(attribute: Attribute, name: str) -> int:
    integer = cast("IntegerAttr[IntegerType | IndexType]", attribute)
    if not isinstance(attribute, IntegerAttr) or not is_integer(integer.type):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"attribute '{name}' does not hold integers")
    return integer.value.data


def integers_of(op: Operation, name: str) -> tuple[int, ...]:
    """
    The integers of an array attribute of any kind.

    Raises Refusal for other elements, and for DYNAMIC.
    """
    values = _static_list(op, name)
    if DYNAMIC in values:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, f"'{name}' is only known at run time")
    return values


def lists_of(op: Operation, names: Sequence[str], operands: Operands) -> list[tuple[int, ...]]:
    """
    The integers of array attributes, where each DYNAMIC is one of the last operands, in order.

    Raises Refusal for other elements, and for operands that are not constant.
    """
    lists = [_static_list(op, name) for name in names]
    count = sum(values.count(DYNAMIC) for values in lists)
    if count > len(op.operands):
        raise Refusal(RefusalCode.UNKNOWN_OP, "there are not enough operands for its lists")
    last = iter(op.operands[len(op.operands) - count :])
    return [
        tuple(int(operands.integers(next(last))) if value == DYNAMIC else value for value in values)
        for values in lists
    ]


def _static_list(op: Operation, name: str) -> tuple[int, ...]:
    """The integers of an array attribute of any kind. Raises Refusal for other elements."""
    attribute = attribute_of(op, name)
    match attribute:
        case DenseArrayBase() if is_integer(cast(Attribute, attribute.elt_type)):
            values = integers_of_array(cast("DenseArrayBase[IntegerType]", attribute))
        case DenseIntOrFPElementsAttr():
            elements, type = elements_of(attribute), attribute.type.element_type
            values = tuple(integers_in(elements, type).reshape(-1).tolist())
        case ArrayAttr():
            values = tuple(_integer_in(item, name) for item in cast(Sequence[Attribute], attribute))
        case _:
            raise Refusal(RefusalCode.UNKNOWN_OP, f"attribute '{name}' is not an array of integers")
    return values


_KNOWN_ARRAYS = BoundedCache[DenseArrayBase[IntegerType], tuple[int, ...]]()


def integers_of_array(attribute: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """The integers of an array attribute."""
    if (known := _KNOWN_ARRAYS.get(attribute)) is not None:
        return known
    values = tuple(attribute.get_values())
    return _KNOWN_ARRAYS.add(attribute, values, len(values))


# Models


def op_model(op: Operation) -> OpModel:
    """What is known of `op`."""
    model = _op_model(op)
    if model.cast is not None and not len(op.operands) == len(op.results) == 1:
        return NOTHING
    return model


def bits_of_op(op: Operation) -> Bits:
    """Whether the bits of the results of an op are always the same."""
    bits = model_named(name_of(op)).bits
    return bits(op) if callable(bits) else bits


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


def _own_movements(op: ShapeOpInterface, operands: Operands) -> Movements:
    return op.movements


def dialect_traits_of(op: Operation) -> DialectTraits:
    """Which tensors the dialect of `op` can have."""
    return traits_of(name_of(op).partition(".")[0]) or _ALL_TENSORS


_ALL_TENSORS: Final = DialectTraits()


def is_known_dialect(name: str) -> bool:
    """Whether elements of the results of an op of the dialect `name` are read."""
    own = models_in_use().get(name)
    if own is not None and any(model.reads_elements for model in own.by_name.values()):
        return True
    return _is_known_to_all(name)


@registered_cache
@cache
def _is_known_to_all(dialect: str) -> bool:
    return any(model.reads_elements for model in models_for_all(dialect).values())


when_registered(_is_known_to_all.cache_clear)


def model_of(op: Operation) -> ShapeOpModel | None:
    """The function that reads `op`, if it is known to be a shape op."""
    return _op_model(op).movement


MODEL_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What the model of an op raises that it does not expect."""


def refused_by(op: Operation, error: BaseException) -> Refusal:
    """The refusal of an op whose model raised an error: if the op is verified, a mistake of it."""
    if isinstance(op, UnregisteredOp):
        return Refusal(RefusalCode.UNKNOWN_OP, f"it is malformed: {message_of(error)}")
    reason = f"its model raises {describe(error)}{place_of(error)}"
    return Refusal(RefusalCode.UNKNOWN_OP, reason)


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
    except MODEL_ERRORS as error:
        raise refused_by(op, error) from None
    count = len(movements.operands)
    if not count:
        raise Refusal(RefusalCode.UNKNOWN_OP, "it has no operand that it moves")
    first = next(iter(movements.movements), None)
    if count > 1 and not isinstance(first, Concat | InsertSlice):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it has more operands than it moves")
    return movements


def known_movements(op: Operation, operands: Operands) -> Movements | None:
    """The effect of a shape op; None for other ops, and for one that is known at run time."""
    model = model_of(op)
    try:
        return None if model is None else read_movements(op, model, operands)
    except Refusal:
        return None


_KEEPING_ATTRIBUTES: Final = frozenset({"nofold", "sharding"})
"""
The names of attributes, without that of a dialect, of ops that must stay.

A pad with `nofold` does so even if it pads nothing, and `sharding` places results on devices.
"""


def keeping_attribute_of(op: Operation) -> str | None:
    """The name of an attribute that forbids to fold `op`, if it has one."""
    for name in (*op.properties, *op.attributes):
        if name.rpartition(".")[2] in _KEEPING_ATTRIBUTES:
            return name
    return None


def check_not_kept(op: Operation) -> None:
    """Raise Refusal if an attribute forbids to fold `op`."""
    if (attribute := keeping_attribute_of(op)) is not None:
        raise Refusal(RefusalCode.KEPT, f"its attribute '{attribute}' says that it stays")


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


def is_arithmetic(op: Operation) -> bool:
    """Whether `op` may be element-wise arithmetic on tensors."""
    if op_model(op).term is None or len(op.results) != 1 or not op.operands:
        return False
    return tensor_shape(op.results[0].type) is not None


def numbers_along_axis(op: Operation, shape: Shape) -> AlongAxis | None:
    """
    The numbers that an op has for each position of an axis; None if it has none.

    Raises Refusal, with the reason, if they do not match a tensor of `shape`.
    """
    reader = op_model(op).along_axis
    return None if reader is None else reader(op, shape)


def rule_of(op: Operation) -> QuantizationRule | None:
    """The rule of the model of `op`, if any. Raises Refusal."""
    name = name_of(op)
    rule = model_named(name).rule
    return rule(op) if callable(rule) else rule and _named(rule, name)


# Models have few different rules.
@registered_cache
@lru_cache(maxsize=1024)
def _named(rule: QuantizationRule, name: str) -> QuantizationRule:
    return rule if rule.functions else replace(rule, functions=frozenset({function_of(name)}))


def function_of(name: str) -> str:
    """The function of an op, from its name: `arith.addf` is `add`."""
    dialect, _, function = name.partition(".")
    if dialect != "arith":
        return function
    for suffix in ("imumf", "numf", "f"):
        if function.endswith(suffix):
            return function.removesuffix(suffix)
    return function


def layer_of(op: Operation) -> Layer | None:
    """The sum of products or look-up that `op` computes; None for other ops. Raises Refusal."""
    product = model_named(name_of(op)).product
    return product(op) if callable(product) else product


def windows_of(op: Operation, contraction: Contraction) -> Sequence[Window]:
    """The windows of `op`, which was read as `contraction`. Raises Refusal."""
    if WINDOW not in contraction.lhs:
        return ()
    if (read := model_named(name_of(op)).windows) is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "no reader of its windows is registered")
    return read(op, contraction)


def known_rule(op: Operation) -> QuantizationRule | None:
    """The rule of an op; None if it has none, or cannot be read."""
    try:
        return rule_of(op)
    except Refusal:
        return None


def functions_of(op: Operation) -> frozenset[str]:
    """The functions that an op computes, as far as they are known."""
    rule = known_rule(op)
    return frozenset() if rule is None else rule.functions


_MONOTONIC: Final = frozenset(
    [
        "add",
        "clamp",
        "div",
        "max",
        "maximum",
        "maxnum",
        "min",
        "minimum",
        "minnum",
        "mul",
        "neg",
        "sub",
    ]
)
"""The functions that rise or fall with one operand, the others being fixed; of `div`, the first."""


def is_function_of_elements(op: Operation) -> bool:
    """Whether each element of the result is a sum, product or extreme of elements of f32."""
    functions = functions_of(op)
    types = (element_type_or_self(value.type) for value in (*op.operands, *op.results))
    return (
        bool(functions)
        and functions <= _MONOTONIC
        and len(op.results) == 1
        and not op.regions
        and all(type == f32 for type in types)
        and is_static(tensor_shape(op.results[0].type))
    )


def known_layer(op: Operation) -> Layer | None:
    """The sum of products, or the look-up, that an op is; None for other ops."""
    try:
        return layer_of(op)
    except Refusal:
        return None


# Constants, lists and shapes


def elements_attribute_of(op: Operation) -> str | None:
    """The name of the attribute that holds the elements of `op`, if it is a constant."""
    elements = _op_model(op).constant
    return None if elements is None else _attribute_key(op, elements)


def number_of(value: SSAValue) -> float | None:
    """The number of a scalar constant; None for any other value."""
    owner = value.owner
    if not isinstance(owner, Operation) or (name := elements_attribute_of(owner)) is None:
        return None
    attribute = find_attribute(owner, name)
    return float(attribute.value.data) if isinstance(attribute, FloatAttr | IntegerAttr) else None


def is_list(op: Operation) -> bool:
    """Whether the result of `op` is the list of its operands."""
    return _op_model(op).is_list


def items_of(value: SSAValue) -> Sequence[SSAValue]:
    """The values in a list. Raises Refusal if `value` is none, or made by something else."""
    owner = value.owner
    if not isinstance(owner, Operation) or not is_list(owner):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "the elements of a list are not known")
    return owner.operands


def integers_in_list(op: Operation, operands: Operands) -> NDArray[np.int64]:
    """The integers in the list that `op` makes. Raises Refusal."""
    integers: list[int] = []
    for item in op.operands:
        if isinstance(item.owner, Operation) and is_list(item.owner):
            raise Refusal(RefusalCode.UNKNOWN_OP, "a list holds lists")
        numbers = operands.integers(item)
        if numbers.shape:
            raise Refusal(RefusalCode.UNKNOWN_OP, "a list does not hold integers")
        integers.append(int(numbers))
    return np.array(integers, dtype=np.int64)


_LISTED: Final = ("float", "floats", "int", "ints")


def names_of_elements(op: Operation) -> tuple[str, ...]:
    """
    The names of the attributes that may hold the elements of `op`, a constant.

    Ops of ONNX may hold a number or a list: beside `value` they have `value_int`, `value_ints`,
    `value_float` and `value_floats`.
    """
    name = elements_attribute_of(op) or ""
    return name, *(f"{name}_{kind}" for kind in _LISTED)


def held_elements(op: Operation) -> Attribute | None:
    """The attribute with the elements of a constant; for a number or a list, one made of it."""
    attribute = find_attribute(op, elements_attribute_of(op) or "")
    if attribute is not None or (parts := tensor_parts(op.results[0].type)) is None:
        return attribute
    candidates = (find_attribute(op, key) for key in names_of_elements(op)[1:])
    value = next((candidate for candidate in candidates if candidate is not None), None)
    one_by_one: tuple[Attribute | None, ...] = (value,)
    if isinstance(value, ArrayAttr):
        one_by_one = cast("ArrayAttr[Attribute]", value).data
    type = parts.element_type
    # ONNX has them of these types only.
    if isinstance(type, IntegerType) and type.bitwidth == 64:
        kind, dtype = IntegerAttr, np.int64
    elif isinstance(type, Float32Type):
        kind, dtype = FloatAttr, np.float32
    else:
        return None
    if not all(isinstance(number, kind) for number in one_by_one):
        return None
    numbers = [cast(Any, number).value.data for number in one_by_one]
    values = np.array(numbers if isinstance(value, ArrayAttr) else numbers[0], dtype=dtype)
    known = cast(Any, type)
    return dense_elements(values.view(element_dtype(known)), known)


def is_of_floats(value: SSAValue) -> bool:
    """Whether a value is a float, or a tensor of floats."""
    return isinstance(element_type_or_self(value.type), AnyFloat)


def is_integer(type: Attribute) -> bool:
    """Whether elements of `type` can be lengths or positions: integers, but no truth values."""
    return isinstance(type, IndexType) or (isinstance(type, IntegerType) and type.bitwidth > 1)


def integers_in(values: Values, type: Attribute) -> NDArray[np.integer[Any]]:
    """
    The elements of a constant of `type` that lists lengths or positions.

    The result is int64, or uint64 if an element is 2**63 or more. Raises Refusal if the
    elements are not integers of `type`, or too many to be expanded.
    """
    if math.prod(values.shape) > MAX_REPEATED_ELEMENTS:
        raise Refusal(RefusalCode.UNKNOWN_OP, "a constant that parametrizes it is too long")
    if is_integer(type) and (values_dtype(values) != element_dtype(type)):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"a constant does not hold elements of type '{type}'")
    return as_integers(as_view(values).array(), type)


def as_integers(numbers: NDArray[Any], type: Attribute) -> NDArray[np.integer[Any]]:
    """
    Integers, given modulo 2**64, as elements of `type`: int64, or uint64 if one is that large.

    Raises Refusal if elements of `type` are not integers, or are truth values.
    """
    if not is_integer(type):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"elements of type '{type}' do not say a position")
    signed = numbers.astype(np.int64)
    is_unsigned = isinstance(type, IntegerType) and has_signedness(
        cast(IntegerType, type), Signedness.UNSIGNED
    )
    return signed.view(np.uint64) if is_unsigned and (signed < 0).any() else signed


def shape_of(value: SSAValue) -> Shape:
    """The shape of a ranked tensor. Raises Refusal if it is something else."""
    if (parts := tensor_parts(value.type)) is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "it does not move a ranked tensor")
    return parts.shape


def static_shape_of(value: SSAValue) -> Shape:
    """The shape of a tensor. Raises Refusal if a length is only known at run time."""
    shape = shape_of(value)
    if DYNAMIC in shape:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "the result has a length only known at run time")
    return shape
