"""
The types of the fields of models of ops: movements, casts, terms, sums of products, and rules.

`qdialect.ops.model` says what each field means. Readers of ops raise Refusal.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.algebra.movement import Movement, Shape
from qdialect.algebra.parameters import Granularity
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.refusals import Refusal, RefusalCode
from qdialect.support.lazy_numpy import NDArray

if TYPE_CHECKING:
    import numpy as np


# Movements


class Operands(Protocol):
    """The known operands of an op that is being read."""

    def integers(self, value: SSAValue) -> NDArray[np.integer[Any]]:
        """The elements of an integer constant: see `integers_in`. Raises Refusal."""
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
"""Reads an op of one name. Raises Refusal."""

ResultT = TypeVar("ResultT")

Reads: TypeAlias = Callable[[Any], ResultT]
"""Reads something of an op, by its name. Raises Refusal."""


@dataclass(frozen=True)
class RunTimeOperands:
    """An op that is being run, and its operands."""

    op: Operation
    """The op, whose types may be dynamic."""

    lists: Mapping[str, tuple[int, ...]]
    """The static lists of the op, with operands in the place of dynamic entries."""

    shape: Callable[[int], Shape]
    """The shape of an operand; a negative number counts from the last."""

    integers: Callable[[int], NDArray[np.integer[Any]]]
    """The elements of an operand: see `integers_in`. Raises Refusal."""


RunTimeShape = Callable[[RunTimeOperands], Sequence[int]]
"""The shape of the result of an op that is being run; DYNAMIC for a length to compute from it."""


# Casts


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


class AlongAxis(NamedTuple):
    """The rows that a cast has for the positions of an axis."""

    axis: int

    rows: NDArray[np.float64]
    """A row for each position: shape (length,) or (length, n)."""

    attribute: str
    """The name of the attribute with the rows, which are a dense tensor."""

    are: str
    """The name of the rows, in plural."""


ReadAlongAxis = Callable[[Operation, Shape], AlongAxis | None]
"""Reads a cast to a tensor of a shape; None if it has no rows for an axis. Raises Refusal."""


MakeOp: TypeAlias = (
    "Callable[[str, Sequence[SSAValue], Attribute, Mapping[str, Attribute]], SSAValue]"
)
"""Inserts an op: its name, operands, result type and properties. Returns the result."""


class ArithmeticWriter:
    """Inserts arithmetic on tensors in the ops of a dialect, which a context may lack."""

    floats: ClassVar[Sequence[str]]
    """The names of the float types that the arithmetic supports."""

    widths: ClassVar[Sequence[int]]
    """The widths of integers that can be converted to floats."""

    ops: ClassVar[Mapping[str, str]]
    """
    The names of the ops, by the names of the methods that insert them.

    With `bitcast`, signless integers that are not constant can be read as unsigned.
    """

    elements: ClassVar[str] = "value"
    """The name of the attribute of a constant."""

    def __init__(self, make: MakeOp) -> None:
        self.make = make

    def constant(self, elements: Any) -> SSAValue:
        """A constant that holds `elements`."""
        return self.make(self.ops["constant"], [], elements.type, {self.elements: elements})

    def spread(
        self, lengths: Sequence[int], elements: ReshapedElements, like: SSAValue
    ) -> SSAValue:
        """
        A constant as an operand of arithmetic with results of the type of the value `like`.

        `lengths` are those of the constant: 1 for an axis along which it is the same.
        """
        return self.constant(elements(lengths))

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`value` in another static shape."""
        type = TensorType(element_type_or_self(value.type), shape)
        return self.make(self.ops["reshape"], [value], type, {})

    def convert(self, value: SSAValue, type: Attribute) -> SSAValue:
        """Integers as floats of the tensor type `type`."""
        return self.make(self.ops["convert"], [value], type, {})

    def subtract(self, value: SSAValue, other: SSAValue) -> SSAValue:
        """`value - other`, of the type of `value`."""
        return self.make(self.ops["subtract"], [value, other], value.type, {})

    def multiply(self, value: SSAValue, other: SSAValue) -> SSAValue:
        """`value * other`, of the type of `value`."""
        return self.make(self.ops["multiply"], [value, other], value.type, {})

    def add(self, value: SSAValue, other: SSAValue) -> SSAValue:
        """`value + other`, of the type of `value`."""
        return self.make(self.ops["add"], [value, other], value.type, {})

    def bitcast(self, value: SSAValue, type: Attribute) -> SSAValue:
        """The same bits, read as elements of the tensor type `type`; see `ops`."""
        return self.make(self.ops["bitcast"], [value], type, {})


ReshapedElements: TypeAlias = Callable[[Sequence[int]], Any]
"""Returns the elements of a constant, in another shape."""


@dataclass(frozen=True)
class DialectTraits:
    """What is known of the types of a dialect: which tensors they can spell, and their values."""

    finest: Granularity = Granularity.SUB_CHANNEL
    """The finest quantized type that its constants and casts can have."""

    has_empty_tensors: bool = True
    """Whether a tensor may have no elements."""

    values: frozenset[str] = frozenset()
    """The names of its types, besides tensors, whose values nothing can change."""

    lists: frozenset[str] = frozenset()
    """The names of its types of lists, which ops may change that have no model."""

    arithmetic: type[ArithmeticWriter] | None = None
    """Writes arithmetic in the ops of the dialect."""


# Element-wise arithmetic as terms: how an op computes each element of its result


class Arithmetic(StrEnum):
    """
    A scalar op, by the name that it has in the arith dialect, but for the kind of number.

    `QUANTIZE` rounds and clamps a float, given a scale and perhaps a zero point, in whatever way
    the op does: it is only ever written again by the same op.
    """

    SIGNED_TO_FLOAT = "sitofp"
    UNSIGNED_TO_FLOAT = "uitofp"
    SIGN_EXTEND = "extsi"
    ZERO_EXTEND = "extui"
    EXTEND_FLOAT = "extf"
    TRUNCATE_FLOAT = "truncf"
    SUBTRACT = "sub"
    MULTIPLY = "mul"
    ADD = "add"
    QUANTIZE = "quantize"


@dataclass(frozen=True)
class Input:
    """The element of an operand."""

    number: int
    """Which of `Elementwise.operands`."""

    type: Attribute
    """The scalar type."""


@dataclass(frozen=True)
class Scalar:
    """A constant of the body."""

    attribute: IntegerAttr[Any] | FloatAttr[Any]

    @property
    def type(self) -> Attribute:
        """The scalar type."""
        return self.attribute.type


@dataclass(frozen=True)
class Apply:
    """A scalar op of terms."""

    arithmetic: Arithmetic
    operands: tuple[Term, ...]
    type: Attribute
    """The scalar type of the result."""


Term: TypeAlias = Input | Scalar | Apply


class Elementwise(NamedTuple):
    """How an op computes each element of its result."""

    operands: tuple[SSAValue, ...]
    """The tensors that elements are read from."""

    axes: tuple[tuple[int | None, ...], ...]
    """
    For each operand, and each axis of it, the axis of the result that it follows; None for an
    axis of length 1 that is read at position 0.
    """

    term: Term

    in_blocks: bool = False
    """
    Whether an axis that is shorter than the one it follows has an element for each block of that.
    """


class SmallOperand(NamedTuple):
    """An operand of an op that is written again, before it is broadcast."""

    value: SSAValue

    axes: tuple[int, ...]
    """For each axis of `value` the axis of the result that it follows; increasing."""

    like: Operation | None = None
    """The op that broadcast it before, if there was one: it is broadcast again by one like it."""


ElementwiseReader: TypeAlias = Callable[[Any, Operands], Elementwise]
"""Reads an op of one name. Raises Refusal."""

ElementwiseWriter: TypeAlias = Callable[[Any, Sequence[SmallOperand], Attribute], list[Operation]]
"""
Writes an op like a given one, of other operands and of another result type.

Returns the ops in order; the last one has the result.
"""


class ElementwiseModel(NamedTuple):
    """The model of the element-wise ops of one name."""

    read: ElementwiseReader
    write: ElementwiseWriter

    keeps_rank: bool = False
    """Whether operands have the rank of the result, with axes of length 1 for a broadcast."""

    aligns: bool = False
    """Whether all operands but the one that is dequantized have one shape."""

    has_axis: bool = False
    """Whether these have an axis also where they hold one element for all positions."""

    broadcasts: bool = True
    """Whether an op reads operands along some of its axes only."""


BroadcastWriter: TypeAlias = Callable[[Any, SmallOperand, Attribute], list[Operation]]
"""Writes an op like a given broadcast, of an operand and to a result type; returns the ops."""

ReshapeWriter: TypeAlias = Callable[[Any, SSAValue, Attribute], list[Operation]]
"""Writes an op like a given reshape, of an operand and to a result type; returns the ops."""


# Integers that parametrize other ops


Integers: TypeAlias = "NDArray[np.int64]"

IntegerFunction: TypeAlias = Callable[[Any, Sequence[Integers]], "NDArray[Any]"]
"""
Computes the result of an op from its operands, both int64.

The result may have any integers: they are wrapped to the type of the result. Raises Refusal.
"""

Positions: TypeAlias = Iterator[tuple[SSAValue, int]]
"""Values of positions, and the number that each position must be below."""

RunFunction: TypeAlias = Callable[[Any, Any, Sequence[Any]], Sequence[Any]]
"""
Computes the results of an op in an interpreter, from arrays of typed elements.

Raises InterpretationError and Refusal.
"""


# Sums of products in the notation of einsum: convolutions, matrix products, and similar ops.
#
# `"n**i,ohwi->n**o"` is a convolution: `i` is summed over, `o` is an axis of the weights alone, `*`
# is an axis that a window slides over, and `h` and `w` are positions in the window. `(cm)` is an
# axis of the result that combines two axes of the operands. The roles of the axes of an operand
# follow from the letters that it shares with the other operand and with the result.
# https://numpy.org/doc/stable/reference/generated/numpy.einsum.html


Labels: TypeAlias = tuple[str, ...]
"""One label per axis: a letter, several letters for a combined axis, or `*` for a window."""

WINDOW: Final = "*"


@dataclass(frozen=True)
class Contraction:
    """A sum of products of two operands, by the labels of their axes and of the result's."""

    lhs: Labels
    rhs: Labels
    result: Labels

    bias: int | None = None
    """The number of the operand that is added along the channels of the result."""

    groups: int = 1
    """The number of groups of channels; each reads its own part of the activation."""

    operands: tuple[int, int] = (0, 1)
    """The numbers of the two operands."""

    is_in_any_order: bool = False
    """Whether the op names its axes, so that a compiler chooses their order: channels last."""

    @classmethod
    def of(cls, equation: str, bias: int | None = None, groups: int = 1) -> Contraction:
        """Read `lhs,rhs->result`. Raises ValueError for other text."""
        read = re.fullmatch(rf"({_LABEL}*),({_LABEL}*)->({_LABEL}*)", equation)
        if read is None:
            form = "of the form 'mk,kn->mn', with a letter for each axis"
            raise ValueError(f"'{equation}' is not {form}")
        lhs, rhs, result = (tuple(re.findall(_LABEL, part)) for part in read.groups())
        return cls(lhs, rhs, result, bias, groups)

    def roles(self, windows: Sequence[Window] = ()) -> Roles:
        """
        The labels of the operands by their roles, without the axes of windows.

        Raises Refusal if an axis of one operand is summed alone.
        """
        slid, kernel = ({window.axes[at] for window in windows} for at in (0, 1))
        left = [label for axis, label in enumerate(self.lhs) if axis not in slid]
        right = [label for axis, label in enumerate(self.rhs) if axis not in kernel]
        result = "".join(self.result)
        both = [label for label in left if label in right]
        roles = Roles(
            [label for label in left if label not in right],
            [label for label in both if label in result],
            [label for label in both if label not in result],
            [label for label in right if label not in left],
        )
        if any(label not in result for label in (*roles.left, *roles.right)):
            raise Refusal(RefusalCode.UNKNOWN_OP, "an axis of one operand is summed alone")
        return roles

    def side(self, number: int) -> Side:
        """The view from one operand: 0 for the left one, 1 for the right one."""
        own, other = (self.lhs, self.rhs)[:: 1 if number == 0 else -1]
        return Side(self.operands[number], self.operands[1 - number], own, other, self.result)


class Roles(NamedTuple):
    """The labels of the axes of two operands, in the order of the left one, then the right one."""

    left: list[str]
    """Those of the left operand and the result."""

    both: list[str]
    """Those of both operands and the result."""

    summed: list[str]
    """Those of both operands."""

    right: list[str]
    """Those of the right operand and the result."""


_LABEL = r"(?:[A-Za-z*]|\([A-Za-z]+\))"


@dataclass(frozen=True)
class Side:
    """One operand of a sum of products, seen as the weights."""

    operand: int
    """The number of the operand."""

    other: int
    """The number of the other operand."""

    labels: Labels
    other_labels: Labels
    result_labels: Labels

    @cached_property
    def channel_axes(self) -> tuple[int, ...]:
        """The axes whose positions contribute to different parts of the result."""
        result = "".join(self.result_labels)
        return tuple(axis for axis, label in enumerate(self.labels) if _is_in(label, result))

    @cached_property
    def contracted_axes(self) -> tuple[int, ...]:
        """The axes that are summed over jointly with one of the other operand."""
        result, other = "".join(self.result_labels), "".join(self.other_labels)
        return tuple(
            axis
            for axis, label in enumerate(self.labels)
            if _is_in(label, other) and not _is_in(label, result)
        )

    def summed_axes(self, shape: Shape) -> Sequence[int]:
        """
        The axes of the other operand that are summed over, if equal weights make sums of it.

        The weights have this shape. A result of as many axes as the other operand has each sum
        once, or repeated along the axis of the sum. Empty if the result is along other axes.
        """
        own, other, result = self.labels, self.other_labels, self.result_labels
        length = dict(zip(own, shape, strict=False)).get
        is_repeated = len(result) == len(other) and all(
            new == old
            or (old not in result and new not in other and length(new) in (1, length(old)))
            for new, old in zip(result, other, strict=True)
        )
        is_sum = is_repeated or [label for label in other if label in result] == [*result]
        if not is_sum or WINDOW in other or {*own} - {*other, *result}:
            return ()
        return [axis for axis, label in enumerate(other) if label not in result]


def _is_in(label: str, labels: str) -> bool:
    return label != WINDOW and label in labels


@dataclass(frozen=True)
class Lookup:
    """A look-up of rows of a table by index, such as an embedding."""

    operand: int
    """The number of the operand that is the table."""

    axis: int
    """The axis of the table that is indexed."""

    is_by_rows: bool = False
    """Whether the axes of the indices come first in the result, and then those of the table."""


Layer: TypeAlias = Contraction | Lookup


@dataclass(frozen=True)
class Window:
    """How one axis of the weights slides over one axis of the other operand."""

    axes: tuple[int, int, int]
    """The axes of the left operand, of the right one, and of the result."""

    stride: int = 1
    dilation: int = 1
    """The distance of adjacent positions in the window."""

    base_dilation: int = 1
    """The distance of adjacent elements of the operand, after zeros are inserted between them."""

    low: int = 0
    high: int = 0
    """The number of zeros before and after the operand; a negative number crops it."""

    is_reversed: bool = False
    """Whether the weights are reversed along the window."""

    def of_size(self, size: int) -> PoolWindow:
        """The window, of a number of positions, along the axis of the left operand."""
        spread = self.base_dilation, self.low, self.high
        return PoolWindow(size, self.stride, self.dilation, *spread)


class Normalization(NamedTuple):
    """`(x - mean) / sqrt(variance + epsilon) * scale + offset`, with rows for the channels of x."""

    operand: SSAValue
    """The tensor that is normalized."""

    axis: int
    """The axis of its channels."""

    scale: SSAValue
    offset: SSAValue
    mean: SSAValue
    variance: SSAValue
    """Tensors of rank 1, with a number for each channel."""

    epsilon: float


@dataclass(frozen=True)
class PoolWindow:
    """A window along one axis, whose elements are combined."""

    size: int = 1
    stride: int = 1
    dilation: int = 1
    base_dilation: int = 1
    """The distance of adjacent elements, after initial elements are inserted between them."""

    low: int = 0
    high: int = 0
    """The number of initial elements before and after the operand."""

    def is_all_of(self, length: int) -> bool:
        """Whether the only window is an axis of `length`."""
        return (self.size, self.low, self.high, self.base_dilation) == (length, 0, 0, 1)

    def count(self, length: int) -> int:
        """The number of windows that fit in an axis of `length`, padding included."""
        return (length - self.reach) // self.stride + 1 if length >= self.reach else 0

    @property
    def reach(self) -> int:
        """The number of elements from the first one that it combines to the last one."""
        return self.dilation * (self.size - 1) + 1 if self.size else 0


class Reduction(NamedTuple):
    """A combination of elements of the first operand, along axes or in windows."""

    function: str
    """The function of two elements: `numpy:add`."""

    windows: Mapping[int, PoolWindow]
    """The windows, by axis; along other axes, nothing is combined."""

    initial: int | None = None
    """The number of the operand with the initial element."""

    is_mean: bool = False
    """Whether it is divided by the number of elements in a window, without padding."""


class Comparison(NamedTuple):
    """A comparison of two elements."""

    function: str
    """The function of numpy: `less_equal`."""

    is_negated: bool = False
    """Whether the result is false where the function is true."""

    is_unsigned: bool = False
    """Whether signless integers are compared as unsigned."""


class Loops(NamedTuple):
    """The loops of an op whose body computes one element of the results."""

    operands: Sequence[Sequence[int | None]]
    """For each axis of each operand the loop along it; None for an axis of length 1."""

    reducing: Sequence[int]
    """The loops that reduce; the other ones are axes of the results."""

    positions: Mapping[SSAValue, int]
    """The values of the body that are the position in a loop."""


class Iteration(NamedTuple):
    """A loop whose body takes values, and yields those that the next run takes."""

    initial: Sequence[SSAValue]
    """What the first run takes."""

    body: Block

    bounds: Sequence[SSAValue] = ()
    """The first position, the end, and the step, if the body takes a position before the values."""

    condition: Block | None = None
    """Takes the values, and ends with whether there is a next run, and with what that takes."""


class WindowNumbers(NamedTuple):
    """The correspondence of the axes of an operand, of indices, and of many windows."""

    windows: Sequence[int]
    """The axes of the windows that are axes of the operand; the others are of the indices."""

    dropped: Sequence[int]
    """The axes of the operand that windows lack, since they have one position along them."""

    batching: Sequence[int]
    """The batching axes of the operand, which windows lack, too: they are axes of the indices."""

    indices_batching: Sequence[int]

    starts: Sequence[int]
    """For each element of an index vector, the axis of the operand that it indexes."""

    vector: int
    """The axis of the indices that holds index vectors; their rank if there is none."""


ReadWindows = Callable[[Any, Contraction], Sequence[Window]]
"""Reads the windows of an op that is a contraction. Raises Refusal."""


# Rules for the quantization parameters of operands and results
#
# Shape ops need none, since their movements determine the parameters, nor do sums of products.


class RuleKind(StrEnum):
    """The source of the parameters of a value."""

    MOVED = "moved"
    """From those of the operand, element by element."""

    SHARED = "shared"
    """Operands and results have the same parameters."""

    OWN = "own"
    """From the recorded range of the result."""

    FIXED = "fixed"
    """From the op: its results are in a known range."""

    WHOLE_NUMBER = "whole-number"
    """From the recorded range of the result, with a scale that is a whole number."""

    DERIVED = "derived"
    """From the parameters of other operands: the scale of a bias is the product of theirs."""

    GIVEN = "given"
    """From the value itself, which is constant, or from an existing cast."""


Limit: TypeAlias = float | SSAValue
"""A limit of a clamp: a number, NaN if it is unknown, or the operand that has the numbers."""


@dataclass(frozen=True)
class QuantizationRule:
    """The rule by which the parameters of one op follow from others."""

    kind: RuleKind

    operands: tuple[int, ...] | None = None
    """The numbers of the operands that are quantized; None for all float tensors."""

    functions: frozenset[str] = frozenset()
    """
    The functions that it computes, by op names of MLIR's `math` and `arith` without a type, such as
    `exp`. In a model, the default is the name of the op.
    """

    fixed: str = ""
    """The name of the known range of its results: `logistic`, `tanh` or `softmax`."""

    is_homogeneous: bool = False
    """Whether a positive factor of a channel of the operand becomes a factor of the result."""

    keeps_places: bool = False
    """Whether each result element equals an operand element at the same position."""

    per_channel: tuple[int, ...] = ()
    """The operands that have one number for each channel, such as the slope of a PReLU."""

    mixed_axes: tuple[int, ...] = ()
    """The axes of the operand along which it combines elements, such as those of a pool."""

    starts: tuple[int, ...] = ()
    """The operands with the initial values of a pool or a reduction."""

    limits: tuple[Limit, Limit] | None = None
    """The lowest and the highest number of the results of a clamp, if they are known."""


def _rule(kind: RuleKind, *operands: int, function: str = "", **fields: Any) -> QuantizationRule:
    """A rule of a kind. Without numbers of operands, all float tensors are quantized."""
    functions = frozenset({function}) if function else frozenset[str]()
    return QuantizationRule(kind, operands or None, functions, **fields)


own = partial(_rule, RuleKind.OWN)
"""The result has its own range."""

shared = partial(_rule, RuleKind.SHARED)
"""The result has the parameters of operands."""

whole_number = partial(_rule, RuleKind.WHOLE_NUMBER)
"""The results are whole numbers."""


def fixed(function: str, *operands: int) -> QuantizationRule:
    """The result is in the known range of a function."""
    return _rule(RuleKind.FIXED, *operands, function=function, fixed=function)
