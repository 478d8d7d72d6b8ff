"""
What can be known of an op: one model, with a field for each aspect.

Models are registered for all contexts, or are an interface of a dialect: then the contexts that
load the dialect have them, and there they come first. Those that come with qdialect are imported
when an op of their dialect is first read. What is not said is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xdsl.context import Context
from xdsl.dialect_interfaces import DialectInterface
from xdsl.ir import Operation

if TYPE_CHECKING:
    # The types of most fields are not needed to make a model.
    from qdialect.ops import fields


class Bits(Enum):
    """Whether the bits of the results are the same with every compiler."""

    UNKNOWN = auto()

    EXACT = auto()
    """The op moves elements, or rounds each result once, as IEEE 754 defines it."""

    ROUNDED = auto()
    """The compiler chooses the order of a sum, or the approximation of a function."""

    UNDEFINED = auto()
    """The op is undefined for some operands, and exact for all others."""

    UNDEFINED_ON_INTEGERS = auto()
    """The op is undefined for some integers, and exact for all others."""


class Effects(IntEnum):
    """The side effects of an op; a greater value includes the lesser ones."""

    NONE = 0
    """No effects: equal operands give equal results, and an op without uses is dead."""

    UNDEFINED = 1
    """The op may be undefined or not terminate; otherwise as NONE."""

    ANY = 2
    """The op may do anything, such as write memory or call an external function."""


class OnElements(NamedTuple):
    """
    Functions of the elements of operands, by the kind of the elements; empty for no function.

    `numpy:add` is imported when an op is first run.
    """

    floats: str = ""
    integers: str = ""
    truths: str = ""

    arity: int = 1
    """How many operands are read; others, such as a zero shift, are not."""

    broadcasts: bool = False
    """Whether operands may have axes of length 1 in the place of longer ones."""


class OnNumbers(NamedTuple):
    """
    A function of the numbers of the elements of all operands, which are of any kind.

    It is imported when an op is first run. Truth values are integers of one bit.
    """

    function: str

    is_unsigned: bool = False
    """Whether integers are read as unsigned; otherwise as signed."""


class Carrier(NamedTuple):
    """How ops of one name, such as `torch.operator`, stand for ops that an attribute names."""

    attribute: str
    """The attribute with the name of the op that it stands for."""

    prefixes: Mapping[str, str]
    """For each dialect of such ops, the prefix of the names of their attributes."""


def imported(path: str) -> Any:
    """What `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpModel:
    """What is known of the ops of one name."""

    # Read by the fold, the proofs, and runs of movements

    movement: fields.ShapeOpModel | None = None
    """Reads the movements that the op is."""

    run_time_shape: fields.RunTimeShape | None = None
    """The shape of a result that neither its type nor the movement determines."""

    static_lists: tuple[str, ...] = ()
    """Attributes of integers. Each DYNAMIC in them is one of the last operands, in order."""

    cast: fields.CastReads | None = None
    """
    How the op reads each element anew, if it is a cast.

    The new element depends only on the element, on the element types of operand and result, and on
    their slots there.
    """

    along_axis: fields.ReadAlongAxis | None = None
    """Reads the attribute of a cast with a row for each position of an axis."""

    constant: str | None = None
    """
    The attribute or property that holds the elements, if the op is a constant.

    It is `dense` or `dense_resource`, of the shape of the result. Its element type is that of the
    result, or the storage type of that.
    """

    is_list: bool = False
    """Whether the result is the list of the operands, which are integers."""

    term: fields.ElementwiseModel | None = None
    """Element-wise arithmetic as a term, and how it is written again."""

    write_reshape: fields.ReshapeWriter | None = None
    write_broadcast: fields.BroadcastWriter | None = None
    """Writes a reshape, or a broadcast, like the op."""

    integers: fields.IntegerFunction | str | bool | None = None
    """
    Computes the result from int64 operands, such as positions, without side effects.

    A text is `module:function`, which takes the operands alone; True is that of `run`.
    """

    carrier: Carrier | None = None
    """How the op stands for another one, which is then read."""

    # Read by the quantizer and by equalization

    product: fields.Layer | fields.Reads[fields.Layer | None] | None = None
    """The sum of products, or the look-up in a table, that the op is; or reads it: None if none."""

    windows: fields.ReadWindows | None = None
    """Reads how the weights of `product` slide over the other operand."""

    normalization: fields.Reads[fields.Normalization] | None = None
    """Reads the normalization by given means and variances that the op is."""

    rule: fields.QuantizationRule | fields.Reads[fields.QuantizationRule | None] | None = None
    """The rule by which parameters of operands and results follow from others; or reads it."""

    stays_float: str | None = None
    """The reason why the op is never quantized."""

    zero_points: Mapping[int, int] | None = None
    """Operands that are zero points: the number of the operand each belongs to; -1 the result."""

    plain_operands: tuple[int, ...] = ()
    """Operands that are plain integers, whatever the others are, such as a shift."""

    reads_lengths: bool = False
    """Whether it reads only the lengths of a tensor."""

    repeats: bool = False
    """Whether it repeats its first operand, also to lengths known only at run time."""

    has_blocks: bool = False
    """Whether its regions hold tensors of the model, not the computation of one element."""

    maps_elements: bool = False
    """Whether its body computes each element of the result from elements of the operands."""

    loops: fields.Reads[fields.Loops] | None = None
    """Reads how the loops of its body read operands, and write results."""

    iteration: fields.Reads[fields.Iteration] | None = None
    """Reads the loop that it is, whose body takes tensors."""

    reduction: fields.Reads[fields.Reduction] | None = None
    """Reads how it combines elements along axes, or in windows."""

    resampling: str | None = None
    """
    `module:function`: the factors of sums of elements along axes of the first operand.

    The function takes the op, the shape of that operand, and the integers of the others. It returns
    an array for each axis, of float64, with a row for each element of the result.
    """

    comparison: fields.Reads[fields.Comparison] | None = None
    """Reads how it compares two elements."""

    rounding: str | None = None
    """The function that rounds floats that become integers: `numpy:trunc`, or `numpy:rint`."""

    extracts: bool = False
    """Whether it returns the element of its first operand at the position that others are."""

    with_read_results: Callable[[Operation], Operation | None] | None = None
    """Makes an op that computes only the results that something reads; None if all are needed."""

    yields: bool = False
    """Whether it ends a region, and yields its operands."""

    is_undefined: bool = False
    """Whether the elements of the result are not defined: they are written before they are read."""

    reads_bits: bool = False
    """Whether it returns the bits of its operand as another type, although it is no known cast."""

    # Read by runs, and by comparisons of them

    bits: Bits | Callable[[Operation], Bits] = Bits.UNKNOWN
    """Whether the bits of the results are the same with every compiler; or reads it."""

    effects: Effects = Effects.ANY
    """
    The side effects, besides those of its regions, on values that nothing can change.

    An op whose elements are read has none, even if that is not said.
    """

    is_control: bool = False
    """
    Whether it only transfers values and control, to its regions, to other blocks, or back.

    Then its effects are those that are said, also on values that something can change.
    """

    positions: Callable[[Operation], fields.Positions] | None = None
    """Reads the operands whose elements say where the op reads or writes."""

    run: fields.RunFunction | OnElements | OnNumbers | str | None = None
    """Computes the results from arrays: a function, or `module:function`, imported at the run."""

    on_arrays: str | None = None
    """
    `module:function`: the function of arrays of float32 and truth values that computes an op.

    For ops that `run` takes longer for. The function returns None for an op that it cannot read.
    """

    runs_on_codes: bool = False
    """Whether `run` takes quantized operands too, as their storage integers."""

    is_elementwise: bool = False
    """Whether `run` computes each element from the elements of operands at its position only."""

    identity: float | None = None
    """
    The identity of a function of two elements that reductions apply in any order.

    An infinity is the least or the greatest integer for integers.
    """

    @property
    def reads_elements(self) -> bool:
        """Whether the elements of the result are read: moved, cast, held, or as a term."""
        is_moved = self.movement is not None or self.cast is not None
        return is_moved or self.constant is not None or self.is_list or self.term is not None


NOTHING: Final = OpModel()
"""The model of ops of which nothing is known."""


class OpModels(DialectInterface):
    """
    The models of a dialect's ops, for the contexts that load it.

    There, each replaces the model of the op that is registered for all contexts.
    """

    def __init__(
        self,
        dialect: str,
        models: Mapping[str, OpModel],
        traits: fields.DialectTraits | None = None,
    ) -> None:
        """
        The models, and which tensors the types of the dialect can spell, if not all.

        A key is the name of an op without the dialect, or several that have one model. Raises
        ValueError if an op is in two keys.
        """
        names = [name for key in models for name in key.split()]
        if len(names) > len(set(names)):
            raise ValueError("an op has two models")
        self.dialect = dialect
        self.by_name = {
            f"{dialect}.{name}": model for key, model in models.items() for name in key.split()
        }
        self.traits = traits


_IN_USE: Final[ContextVar[Mapping[str, OpModels]]] = ContextVar("qdialect.models")
_FOR_ALL: Final[dict[str, OpModel]] = {}
_TRAITS: Final[dict[str, fields.DialectTraits]] = {}
_DEPENDENT: Final[list[Callable[[], None]]] = []

_IMPORTING: Final = RLock()
_BEGUN: Final[set[str]] = set()
_IMPORTED: Final[set[str]] = set()


@contextmanager
def models_of(context: Context | None) -> Generator[None]:
    """Within the block, use the models of the dialects that `context` has loaded."""
    dialects = () if context is None else context.loaded_dialects
    interfaces = ((dialect.name, dialect.get_interface(OpModels)) for dialect in dialects)
    token = _IN_USE.set({name: models for name, models in interfaces if models is not None})
    try:
        yield
    finally:
        _IN_USE.reset(token)


def models_in_use() -> Mapping[str, OpModels]:
    """The models of the active context, by the name of the dialect."""
    return _IN_USE.get({})


def register_models(models: OpModels) -> None:
    """Register models for all contexts, each in place of any of the same op before it."""
    import_models(models.dialect)
    _add(models)


def _add(models: OpModels) -> None:
    _FOR_ALL.update(models.by_name)
    if models.traits is not None:
        _TRAITS[models.dialect] = models.traits
    for forget in _DEPENDENT:
        forget()


def when_registered(forget: Callable[[], None]) -> None:
    """Have a function called whenever a model is registered for all contexts."""
    _DEPENDENT.append(forget)


def model_named(name: str) -> OpModel:
    """The model of ops of that name: of the context in use, or for all; or one of nothing."""
    dialect = name.partition(".")[0]
    own = models_in_use().get(dialect)
    if own is not None and (model := own.by_name.get(name)) is not None:
        return model
    import_models(dialect)
    return _FOR_ALL.get(name, NOTHING)


def models_for_all(dialect: str) -> Mapping[str, OpModel]:
    """The models of a dialect's ops that are registered for all contexts, by full names."""
    import_models(dialect)
    return {name: _FOR_ALL[name] for name in _FOR_ALL if name.partition(".")[0] == dialect}


def traits_of(dialect: str) -> fields.DialectTraits | None:
    """Which tensors the types of a dialect can spell, if it is said."""
    own = models_in_use().get(dialect)
    if own is not None and own.traits is not None:
        return own.traits
    import_models(dialect)
    return _TRAITS.get(dialect)


def import_models(dialect: str) -> None:
    """Import the models that come with qdialect for a dialect."""
    if dialect in _IMPORTED or not dialect.isidentifier():
        return
    with _IMPORTING:
        # What is imported registers models as well.
        if dialect in _BEGUN:
            return
        _BEGUN.add(dialect)
        place = f"qdialect.dialects.{dialect}"
        spec = find_spec(place)
        if spec is not None and spec.submodule_search_locations is not None:
            place += ".models"
            spec = find_spec(place)
        # Of some dialects, only the custom forms are known.
        if spec is not None and (models := vars(import_module(place)).get("MODELS")):
            _add(models)
        _IMPORTED.add(dialect)
