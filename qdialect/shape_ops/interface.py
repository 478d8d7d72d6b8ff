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

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    IntegerAttr,
    StringAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation

from qdialect.algebra.bounded_cache import registered_cache
from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import MovementError
from qdialect.ir.dialect_files import import_dialect_file
from qdialect.ir.errors import message_of
from qdialect.ir.op_models import Models, models_in_use
from qdialect.ir.op_models import models_of as models_of
from qdialect.ir.value_types import register_tensor_type as register_tensor_type
from qdialect.shape_ops.models import (
    CastReads,
    DialectTraits,
    Movements,
    Operands,
    RunTimeShape,
    ShapeOpEntry,
    ShapeOpInterface,
    ShapeOpModel,
    ShapeOpModelT,
)
from qdialect.shape_ops.refusals import Code as Code
from qdialect.shape_ops.refusals import NoSuchMovementError as NoSuchMovementError
from qdialect.shape_ops.refusals import NotFoldable as NotFoldable

if TYPE_CHECKING:
    from qdialect.shape_ops.terms import BroadcastWriter, ElementwiseModel, ReshapeWriter


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
_KEEPING_ATTRIBUTES: Final = frozenset(
    {
        # tensor.pad with `nofold` must stay, even if it pads nothing.
        "nofold",
        # The op places its result on devices.
        "mhlo.sharding",
        "sdy.sharding",
    }
)


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


def is_list(op: Operation) -> bool:
    """Whether the result of `op` is the list of its operands."""
    return _role_of(op).is_list
