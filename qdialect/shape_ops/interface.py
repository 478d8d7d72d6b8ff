"""
How passes read ops: shape ops as movements, constants, and casts.

Ops of other dialects have external models, as MLIR calls them: functions that read the ops of one
name. The dialect of an op need not be registered.

The models that come with qdialect are in `qdialect.shape_ops`, one module per dialect. A module is
imported when an op of its dialect is met. A compiler registers its own models for all contexts,
with `shape_op`, `register_constant` and `register_cast`, or for the contexts of one dialect, in
its `ShapeOps`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, cast

from xdsl.dialects.builtin import (
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
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.bounded_cache import BoundedCache, registered_cache
from qdialect.algebra.granularity import Granularity
from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.movement import DYNAMIC, Movement, MovementError, Shape, Slice
from qdialect.algebra.padding import PadWith, ZeroPoint
from qdialect.algebra.splat import Values, as_view, values_dtype
from qdialect.ir.dialect_files import import_dialect_file
from qdialect.ir.elements import (
    MAX_REPEATED_ELEMENTS,
    dense_elements,
    element_dtype,
    elements_of,
    has_signedness,
)
from qdialect.ir.errors import message_of
from qdialect.ir.op_models import Models, models_in_use
from qdialect.ir.op_models import models_of as models_of
from qdialect.ir.value_types import register_tensor_type as register_tensor_type
from qdialect.ir.value_types import tensor_parts
from qdialect.shape_ops.refusals import Code as Code
from qdialect.shape_ops.refusals import NoSuchMovementError as NoSuchMovementError
from qdialect.shape_ops.refusals import NotFoldable as NotFoldable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.shape_ops.elementwise import BroadcastWriter, ElementwiseModel, ReshapeWriter


class Operands(Protocol):
    """The known operands of an op that is being read."""

    def integers(self, value: SSAValue) -> NDArray[np.integer[Any]]:
        """The elements of an integer constant: see `integers_in`. Raises NotFoldable."""
        ...


class Movements(NamedTuple):
    """The effect of an op: movements of some of its operands."""

    operands: Sequence[SSAValue]
    """The operands that are moved."""

    movements: Sequence[Movement]
    """The first movement takes all operands, each other one the result of the one before."""

    padding: SSAValue | None = None
    """The element that a `PadWith` among the movements pads with."""


class ShapeOpInterface(ABC):
    """A base for op classes that return their movements themselves."""

    @property
    @abstractmethod
    def movements(self) -> Movements:
        """The effect of the op."""


ShapeOpModel = Callable[[Any, Operands], Movements]
"""Reads an op of one name. Raises NotFoldable."""

ShapeOpModelT = TypeVar("ShapeOpModelT", bound=ShapeOpModel)


class RunTimeOperands(Protocol):
    """The operands of an op that is being run."""

    @property
    def lists(self) -> Mapping[str, tuple[int, ...]]:
        """The static lists of the op, with operands in the place of dynamic entries."""
        ...

    def shape(self, number: int) -> Shape:
        """The shape of an operand; a negative number counts from the last."""
        ...

    def integers(self, number: int) -> NDArray[np.integer[Any]]:
        """The elements of an operand: see `integers_in`. Raises NotFoldable."""
        ...


RunTimeShape = Callable[[RunTimeOperands], Sequence[int]]
"""The shape of the result of an op that is being run; DYNAMIC for a length to compute from it."""


class ShapeOpEntry(NamedTuple):
    """The model of the shape ops of one name."""

    model: ShapeOpModel

    run_time_shape: RunTimeShape | None = None
    """The shape of a result that neither its type nor the movement determines."""

    static_lists: tuple[str, ...] = ()
    """Attributes of integers. Each DYNAMIC in them is one of the last operands, in order."""


class CastReads(Flag):
    """The effect of a cast on an element. If several are registered, the types choose one."""

    UNKNOWN = 0
    """Unknown: shape ops are folded through the cast, but pads behind it are not."""

    BITS = auto()
    """The same bits: integers are read as quantized elements, or the other way round."""

    NUMBERS = auto()
    """A quantized element becomes the number that it stands for, of the expressed type."""

    CODES = auto()
    """A number, or a quantized element, is quantized anew: rounded and clamped."""

    CONVERTED = auto()
    """A number becomes a number of another type."""


@dataclass(frozen=True)
class DialectTraits:
    """Which tensors the types of a dialect can spell."""

    finest: Granularity = Granularity.SUB_CHANNEL
    """The finest quantized type that its constants and casts can have."""

    has_empty_tensors: bool = True
    """Whether a tensor may have no elements."""


class ShapeOps(Models):
    """
    The models of the ops of a dialect.

    A dialect with one among its interfaces brings it to each context that loads it. There,
    it comes before the models for all contexts, name by name.
    """

    def __init__(self, traits: DialectTraits | None = None) -> None:
        self.traits = traits
        self.entries: dict[str, ShapeOpEntry] = {}
        self.casts: dict[str, CastReads] = {}
        self.constants: dict[str, str] = {}
        self.lists: set[str] = set()
        self.arithmetic: dict[str, ElementwiseModel] = {}
        self.broadcast_writers: dict[str, BroadcastWriter] = {}
        self.reshape_writers: dict[str, ReshapeWriter] = {}

    def shape_op(
        self,
        name: str,
        *,
        run_time_shape: RunTimeShape | None = None,
        static_lists: Sequence[str] = (),
    ) -> Callable[[ShapeOpModelT], ShapeOpModelT]:
        """As the function `shape_op`, for the contexts that load the dialect."""

        def register(model: ShapeOpModelT) -> ShapeOpModelT:
            self.entries[name] = ShapeOpEntry(model, run_time_shape, tuple(static_lists))
            _role.cache_clear()
            return model

        return register

    def register_constant(self, name: str, elements: str) -> None:
        """As the function `register_constant`, for the contexts that load the dialect."""
        self.constants[name] = elements
        _role.cache_clear()

    def register_cast(self, name: str, reads: CastReads = CastReads.UNKNOWN) -> None:
        """As the function `register_cast`, for the contexts that load the dialect."""
        self.casts[name] = reads
        _role.cache_clear()

    def register_list(self, name: str) -> None:
        """As the function `register_list`, for the contexts that load the dialect."""
        self.lists.add(name)
        _role.cache_clear()

    def register_arithmetic(self, name: str, model: ElementwiseModel) -> None:
        """As the function `elementwise_op`, for the contexts that load the dialect."""
        self.arithmetic[name] = model
        _role.cache_clear()

    def knows(self, name: str) -> bool:
        """Whether there is a model for the ops of that name."""
        return any(name in models for models in self._models)

    def knows_dialect(self, name: str) -> bool:
        """Whether there is a model for an op of that dialect."""
        return any(op.startswith(f"{name}.") for op in chain(*self._models))

    @property
    def _models(self) -> tuple[Collection[str], ...]:
        """The names of ops that have models, by the kind of model."""
        return self.entries, self.casts, self.constants, self.lists, self.arithmetic


class Carrier(NamedTuple):
    """How ops of one name, such as `torch.operator`, stand for ops that an attribute names."""

    attribute: str
    """The attribute with the name of the op that it stands for."""

    prefixes: Mapping[str, str]
    """For each dialect of such ops, the prefix of the names of their attributes."""


_FOR_ALL: Final = ShapeOps()
"""The models that are registered for all contexts."""

_CARRIERS: Final[dict[str, Carrier]] = {}

_TRAITS: Final[dict[str, DialectTraits]] = {}
_KEEPING_ATTRIBUTES: Final[set[str]] = {
    # tensor.pad with `nofold` must stay, even if it pads nothing.
    "nofold",
    # The op places its result on devices.
    "mhlo.sharding",
    "sdy.sharding",
}


def shape_op(
    name: str,
    *,
    run_time_shape: RunTimeShape | None = None,
    static_lists: Sequence[str] = (),
) -> Callable[[ShapeOpModelT], ShapeOpModelT]:
    """
    Register a function as the model of the ops of that name, in place of any before it.

    For ops with lengths that are only known at run time, `run_time_shape` returns the shape of the
    result, and `static_lists` are the attributes whose dynamic entries are operands.
    """
    load_models(name)
    return _FOR_ALL.shape_op(name, run_time_shape=run_time_shape, static_lists=static_lists)


def register_constant(name: str, elements: str) -> None:
    """
    Register an op without operands whose result has the elements of an attribute.

    The attribute or property `elements` is `dense` or `dense_resource`, and has the shape of the
    result. Its element type is the element type of the result, or the storage type of that.
    """
    load_models(name)
    _FOR_ALL.register_constant(name, elements)


def register_cast(name: str, reads: CastReads = CastReads.UNKNOWN) -> None:
    """
    Register an op that changes how each element of its operand is read, and moves none.

    The new element depends only on the element, on the element types of operand and result, and on
    their slots there. `reads` says how.
    """
    load_models(name)
    _FOR_ALL.register_cast(name, reads)


def register_list(name: str) -> None:
    """Register an op whose result is the list of its operands, which are integers."""
    _FOR_ALL.register_list(name)


def register_carrier(name: str, attribute: str, prefixes: Mapping[str, str]) -> None:
    """
    Have ops of one name be read as those that an attribute names.

    `prefixes` are the dialects of these, and the prefixes of the names of their attributes.
    """
    _CARRIERS[name] = Carrier(attribute, prefixes)
    _carrier.cache_clear()


def register_dialect_traits(dialect: str, traits: DialectTraits) -> None:
    """Say which tensors the types of a dialect can spell, if not all that MLIR has."""
    import_dialect_file(__package__, dialect)
    _TRAITS[dialect] = traits


def register_alias(name: str, of: str) -> None:
    """Have the shape ops of one name be read as those of another."""
    load_models(of)
    _FOR_ALL.entries[name] = _FOR_ALL.entries[of]
    _role.cache_clear()


def models_for(name: str) -> ShapeOps:
    """The models of ops of that name: those of the context in use, else those for all contexts."""
    load_models(name)
    own = models_in_use(ShapeOps).get(name.partition(".")[0])
    return own if own is not None and own.knows(name) else _FOR_ALL


def models_for_all() -> ShapeOps:
    """The models that are registered for all contexts."""
    return _FOR_ALL


def register_keeping_attribute(name: str) -> None:
    """Never fold ops with an attribute or a property of that name, whatever its value."""
    _KEEPING_ATTRIBUTES.add(name)


def keeping_attribute_of(op: Operation) -> str | None:
    """The name of an attribute that forbids to fold `op`, if it has one."""
    properties, attributes, keeping = op.properties, op.attributes, _KEEPING_ATTRIBUTES
    if keeping.isdisjoint(properties) and keeping.isdisjoint(attributes):
        return None
    return min(keeping.intersection(properties) or keeping.intersection(attributes))


def check_not_kept(op: Operation) -> None:
    """Raise NotFoldable if an attribute forbids to fold `op`."""
    if (attribute := keeping_attribute_of(op)) is not None:
        raise NotFoldable(Code.KEPT, f"its attribute '{attribute}' says that it stays")


def dialect_traits_of(op: Operation) -> DialectTraits:
    """Which tensors the dialect of `op` can have."""
    dialect = name_of(op).partition(".")[0]
    import_dialect_file(__package__, dialect)
    own = models_in_use(ShapeOps).get(dialect)
    if own is not None and own.traits is not None:
        return own.traits
    return _TRAITS.get(dialect, _ALL_TENSORS)


_ALL_TENSORS: Final = DialectTraits()


def is_known_dialect(name: str) -> bool:
    """Whether there is a model for an op of the dialect `name`."""
    import_dialect_file(__package__, name)
    known = (_FOR_ALL, *models_in_use(ShapeOps).values())
    return any(ops.knows_dialect(name) for ops in known)


class Role(NamedTuple):
    """The role of the ops of one name."""

    entry: ShapeOpEntry | None
    """The model, if the op is a shape op."""

    reads: CastReads | None
    """The effect on elements, if the op is a cast."""

    elements: str | None
    """The name of the attribute with the elements of a constant."""

    is_arithmetic: bool = False
    """Whether it may compute each element: `qdialect.shape_ops.elementwise` reads it."""

    is_list: bool = False
    """Whether the result is the list of its operands."""

    @property
    def model(self) -> ShapeOpModel | None:
        """The model, if the op is a shape op."""
        return None if self.entry is None else self.entry.model

    @property
    def is_cast(self) -> bool:
        """Whether it is a cast."""
        return self.reads is not None


def role_of(op: Operation) -> Role:
    """The role of `op`."""
    role = _role_of(op)
    if role.reads is not None and not len(op.operands) == len(op.results) == 1:
        return _NO_ROLE
    return role


_NO_ROLE = Role(None, None, None)


def read_movements(op: Operation, model: ShapeOpModel, operands: Operands) -> Movements:
    """
    The effect of a shape op, as `model` reads it.

    Raises NotFoldable, also if the op is malformed, since nothing verifies the ops of unregistered
    dialects. Raises NoSuchMovementError if only the numbers are wrong.
    """
    try:
        movements = model(op, operands)
    except MovementError as error:
        raise NoSuchMovementError(str(error)) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise NotFoldable(Code.UNKNOWN_OP, f"it is malformed: {message_of(error)}") from None
    count = len(movements.operands)
    if not count:
        raise NotFoldable(Code.UNKNOWN_OP, "it has no operand that it moves")
    first = next(iter(movements.movements), None)
    if count > 1 and not isinstance(first, Concat | InsertSlice):
        raise NotFoldable(Code.UNKNOWN_OP, "it has more operands than it moves")
    return movements


def model_of(op: Operation) -> ShapeOpModel | None:
    """The function that reads `op`, if it is known to be a shape op."""
    return _role_of(op).model


def entry_of(op: Operation) -> ShapeOpEntry | None:
    """The model of `op`, if it is known to be a shape op."""
    return _role_of(op).entry


def is_cast(op: Operation) -> bool:
    """Whether `op` is known to be a cast."""
    # As `role_of` says it: every op is asked, several times.
    reads = _role_of(op).reads
    return reads is not None and len(op.operands) == len(op.results) == 1


def cast_reads(op: Operation) -> CastReads:
    """The effect on elements, if the op is a cast."""
    if reads_unsigned(op):
        return CastReads.UNKNOWN
    return _role_of(op).reads or CastReads.UNKNOWN


def reads_unsigned(op: Operation) -> bool:
    """Whether a cast reads signless integers as unsigned ones, as that of tosa may."""
    unsigned = find_attribute(op, "input_unsigned")
    return isinstance(unsigned, IntegerAttr) and bool(unsigned.value.data)


def elements_attribute_of(op: Operation) -> str | None:
    """The name of the attribute that holds the elements of `op`, if it is a constant."""
    return _role_of(op).elements


def _role_of(op: Operation) -> Role:
    # As `name_of` says it: every op is asked, several times.
    name, prefix = op.name, ""
    if name == UnregisteredOp.name:
        name = cast(UnregisteredOp, op).op_name.data
        if (carrier := _carrier(name)) is not None:
            name, prefix = _carried(op, name, carrier)
    if in_context := models_in_use(ShapeOps):
        own = in_context.get(name.partition(".")[0])
        if own is not None and own.knows(name):
            return _role_in(own, type(op), name, prefix)
    return _role(type(op), name, prefix)


# Modules have many ops, and few different names.
@registered_cache
@lru_cache(maxsize=1024)
def _role(cls: type[Operation], name: str, prefix: str) -> Role:
    load_models(name)
    return _role_in(_FOR_ALL, cls, name, prefix)


def _role_in(ops: ShapeOps, cls: type[Operation], name: str, prefix: str) -> Role:
    entry = _OWN_ENTRY if issubclass(cls, ShapeOpInterface) else ops.entries.get(name)
    elements = ops.constants.get(name)
    if elements is not None:
        elements = prefix + elements
    return Role(entry, ops.casts.get(name), elements, name in ops.arithmetic, name in ops.lists)


@registered_cache
@cache
def _carrier(name: str) -> Carrier | None:
    """How unregistered ops of that name stand for others, if they do."""
    load_models(name)
    return _CARRIERS.get(name)


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
    if (carrier := _carrier(own)) is None:
        return name
    prefix = _carried(op, own, carrier)[1]
    return name if name.startswith(prefix) else prefix + name


def _own_movements(op: ShapeOpInterface, operands: Operands) -> Movements:
    return op.movements


_OWN_ENTRY: Final = ShapeOpEntry(_own_movements)


def load_models(name: str) -> None:
    """Import the models that come with qdialect for the dialect of an op's name."""
    import_dialect_file(__package__, name.partition(".")[0])


# Functions that models read ops with.


def name_of(op: Operation) -> str:
    """The name of an op, also of an unregistered one, and of one that another stands for."""
    # Quicker than isinstance; this is called for every op.
    if op.name != UnregisteredOp.name:
        return op.name
    name = cast(UnregisteredOp, op).op_name.data
    return name if (carrier := _carrier(name)) is None else _carried(op, name, carrier)[0]


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

    Raises NotFoldable if there is none.
    """
    attribute = find_attribute(op, name)
    if attribute is None:
        raise NotFoldable(Code.UNKNOWN_OP, f"there is no attribute '{name}'")
    return attribute


def integer_of(op: Operation, name: str) -> int:
    """The value of an integer attribute. Raises NotFoldable if it is another attribute."""
    return _integer_in(attribute_of(op, name), name)


def axis_of(op: Operation, name: str, rank: int) -> int:
    """An axis of a tensor of `rank`: a negative one counts from the end. Raises NotFoldable."""
    axis = integer_of(op, name)
    return axis + rank if axis < 0 else axis


def _integer_in(attribute: Attribute, name: str) -> int:
    integer = cast("IntegerAttr[IntegerType | IndexType]", attribute)
    if not isinstance(attribute, IntegerAttr) or not is_integer(integer.type):
        raise NotFoldable(Code.UNKNOWN_OP, f"attribute '{name}' does not hold integers")
    return integer.value.data


def integers_of(op: Operation, name: str) -> tuple[int, ...]:
    """
    The integers of an array attribute of any kind.

    Raises NotFoldable for other elements, and for DYNAMIC.
    """
    values = _static_list(op, name)
    if DYNAMIC in values:
        raise NotFoldable(Code.DYNAMIC_SHAPE, f"'{name}' is only known at run time")
    return values


def lists_of(op: Operation, names: Sequence[str], operands: Operands) -> list[tuple[int, ...]]:
    """
    The integers of array attributes, where each DYNAMIC is one of the last operands, in order.

    Raises NotFoldable for other elements, and for operands that are not constant.
    """
    lists = [_static_list(op, name) for name in names]
    count = sum(values.count(DYNAMIC) for values in lists)
    if count > len(op.operands):
        raise NotFoldable(Code.UNKNOWN_OP, "there are not enough operands for its lists")
    last = iter(op.operands[len(op.operands) - count :])
    return [
        tuple(int(operands.integers(next(last))) if each == DYNAMIC else each for each in values)
        for values in lists
    ]


def _static_list(op: Operation, name: str) -> tuple[int, ...]:
    """The integers of an array attribute of any kind. Raises NotFoldable for other elements."""
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
            raise NotFoldable(Code.UNKNOWN_OP, f"attribute '{name}' is not an array of integers")
    return values


_KNOWN_ARRAYS = BoundedCache[DenseArrayBase[IntegerType], tuple[int, ...]]()


def is_list(op: Operation) -> bool:
    """Whether the result of `op` is the list of its operands."""
    return _role_of(op).is_list


def items_of(value: SSAValue) -> Sequence[SSAValue]:
    """The values in a list. Raises NotFoldable if `value` is none, or made by something else."""
    owner = value.owner
    if not isinstance(owner, Operation) or not is_list(owner):
        raise NotFoldable(Code.DYNAMIC_SHAPE, "the elements of a list are not known")
    return owner.operands


def integers_in_list(op: Operation, operands: Operands) -> NDArray[np.int64]:
    """The integers in the list that `op` makes. Raises NotFoldable."""
    found: list[int] = []
    for item in op.operands:
        if isinstance(item.owner, Operation) and is_list(item.owner):
            raise NotFoldable(Code.UNKNOWN_OP, "a list holds lists")
        numbers = operands.integers(item)
        if numbers.shape:
            raise NotFoldable(Code.UNKNOWN_OP, "a list does not hold integers")
        found.append(int(numbers))
    return np.array(found, dtype=np.int64)


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
    name, *listed = names_of_elements(op)
    attribute = find_attribute(op, name)
    parts = tensor_parts(op.results[0].type)
    if attribute is not None or parts is None:
        return attribute
    found = next((held for key in listed if (held := find_attribute(op, key)) is not None), None)
    one_by_one: tuple[Attribute | None, ...] = (found,)
    if isinstance(found, ArrayAttr):
        one_by_one = cast("ArrayAttr[Attribute]", found).data
    type = parts.element_type
    # ONNX has them of these types only.
    if isinstance(type, IntegerType) and type.bitwidth == 64:
        kind, dtype = IntegerAttr, np.int64
    elif isinstance(type, Float32Type):
        kind, dtype = FloatAttr, np.float32
    else:
        return None
    if not all(isinstance(each, kind) for each in one_by_one):
        return None
    numbers = [cast(Any, each).value.data for each in one_by_one]
    values = np.array(numbers if isinstance(found, ArrayAttr) else numbers[0], dtype=dtype)
    known = cast(Any, type)
    return dense_elements(values.view(element_dtype(known)), known)


def integers_of_array(attribute: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """The integers of an array attribute."""
    if (known := _KNOWN_ARRAYS.get(attribute)) is not None:
        return known
    values = tuple(attribute.get_values())
    return _KNOWN_ARRAYS.add(attribute, values, len(values))


def is_integer(type: Attribute) -> bool:
    """Whether elements of `type` can be lengths or positions: integers, but no truth values."""
    return isinstance(type, IndexType) or (isinstance(type, IntegerType) and type.bitwidth > 1)


def integers_in(values: Values, type: Attribute) -> NDArray[np.integer[Any]]:
    """
    The elements of a constant of `type` that lists lengths or positions.

    The result is int64, or uint64 if an element is 2**63 or more. Raises NotFoldable if the
    elements are not integers of `type`, or too many to be expanded.
    """
    if math.prod(values.shape) > MAX_REPEATED_ELEMENTS:
        raise NotFoldable(Code.UNKNOWN_OP, "a constant that parametrizes it is too long")
    if is_integer(type) and (values_dtype(values) != element_dtype(type)):
        raise NotFoldable(Code.UNKNOWN_OP, f"a constant does not hold elements of type '{type}'")
    return as_integers(as_view(values).array(), type)


def as_integers(numbers: NDArray[Any], type: Attribute) -> NDArray[np.integer[Any]]:
    """
    Integers, given modulo 2**64, as elements of `type`: int64, or uint64 if one is that large.

    Raises NotFoldable if elements of `type` are not integers, or are truth values.
    """
    if not is_integer(type):
        raise NotFoldable(Code.UNKNOWN_OP, f"elements of type '{type}' do not say a position")
    signed = numbers.astype(np.int64)
    is_unsigned = isinstance(type, IntegerType) and has_signedness(
        cast(IntegerType, type), Signedness.UNSIGNED
    )
    return signed.view(np.uint64) if is_unsigned and (signed < 0).any() else signed


def shape_of(value: SSAValue) -> Shape:
    """The shape of a ranked tensor. Raises NotFoldable if it is something else."""
    if (parts := tensor_parts(value.type)) is None:
        raise NotFoldable(Code.UNKNOWN_OP, "it does not move a ranked tensor")
    return parts.shape


def static_shape_of(value: SSAValue) -> Shape:
    """The shape of a tensor. Raises NotFoldable if a length is only known at run time."""
    shape = shape_of(value)
    if DYNAMIC in shape:
        raise NotFoldable(Code.DYNAMIC_SHAPE, "the result has a length only known at run time")
    return shape


def shape_in(number: int) -> RunTimeShape:
    """The shape that an operand contains, for an op that is being run."""
    return lambda operands: [
        DYNAMIC if length < 0 else length
        for length in operands.integers(number).reshape(-1).tolist()
    ]


def padded(
    shape: Shape,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] | None = None,
) -> list[Movement]:
    """
    Padding of a tensor of `shape`; a negative width removes positions at that end.

    The padding value is `Movements.padding`.
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
