"""
The models of ops, by which passes read ops of any dialect.

A model says what an op does: it moves elements, or changes how each is read. `interface` finds the
model of an op, and registers those of other compilers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from xdsl.ir import SSAValue

from qdialect.algebra.movement import Movement, Shape
from qdialect.algebra.parameters import Granularity
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        """The elements of an operand: see `integers_in`. Raises Refusal."""
        ...


RunTimeShape = Callable[[RunTimeOperands], Sequence[int]]
"""The shape of the result of an op that is being run; DYNAMIC for a length to compute from it."""


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
