"""What was folded and what was not, and why: for remarks, statistics and files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from xdsl.ir import Operation, SSAValue

if TYPE_CHECKING:
    # A tool that folds nothing does not import numpy.
    from qdialect.algebra.movement import ValueSet
    from qdialect.shape_ops.interface import Code


class Outcome(StrEnum):
    """What became of a shape op."""

    FOLDED = "folded"
    DROPPED = "dropped"
    """It moved nothing, or what the op before it moved back, or nothing uses its result."""
    SUNK = "sunk"
    """It is now below casts."""
    JOINED = "joined"
    """It joins what was cast, and is cast itself."""
    ELIDED = "elided"
    """It is a cast, and what it was made of is used instead."""
    RAISED = "raised"
    """It dequantized by arithmetic, or by a cast of another dialect, and is a cast of quant."""
    LOWERED = "lowered"
    """It is a cast of quant, and what it meant is computed by ops of another dialect."""
    QUANTIZED = "quantized"
    """It is a layer, and its weights are a quantized constant behind a cast."""
    CONVERTED = "converted"
    """It carried a range, and another op or a type says that range now."""
    REFUSED = "refused"


class MadeOf(Protocol):
    """The constants that the elements of a value come from."""

    @property
    def sources(self) -> tuple[Operation, ...]:
        """Them, in the order of their elements."""
        ...


class FoldRecord(NamedTuple):
    """
    What became of one shape op.

    Ops and values may have been erased: then they have no operands and no elements.
    """

    outcome: Outcome
    op: Operation
    op_name: str

    code: Code | None = None
    """Why it was refused."""

    reason: str = ""
    """The same for humans, or why else it became of it what it did."""

    made_of: MadeOf | None = None
    """What the elements of the folded value come from."""

    constant: SSAValue | None = None
    """The constant that was written, for it and those after it in its chain."""

    stands: SSAValue | None = None
    """What is now used in place of the result: the constant, a cast behind it, or another op."""

    values: ValueSet | None = None
    """What a range that was recorded for the sources is for the result of the op."""

    @property
    def sources(self) -> tuple[SSAValue, ...]:
        """
        The constants that elements of the folded value come from.

        They are put together each time: there may be more with each op of a chain.
        """
        return tuple(op.results[0] for op in self.made_of.sources) if self.made_of else ()


@dataclass
class FoldReport:
    """Everything that a pass tells."""

    records: list[FoldRecord] = field(default_factory=list[FoldRecord])

    verb: str = "folded"
    """What ops that were refused are not."""

    vanished: dict[SSAValue, SSAValue | None] = field(
        default_factory=dict[SSAValue, SSAValue | None]
    )
    """
    The constants and casts that are gone, and the value that takes the place of each.

    None for a constant of which no element is left. Also the results of ops that became one
    with the ops before them.
    """

    bytes_before: int = 0
    """The elements of the constants that were folded, in memory; splats count nothing."""

    bytes_after: int = 0
    """The elements of the constants that they became, and of those that stay in use."""

    constants: int = 0
    """How many constants were written."""

    ops_removed: int = 0

    @property
    def refused_by_code(self) -> Counter[Code]:
        """How many shape ops were left, by the reason."""
        return Counter(record.code for record in self.records if record.code is not None)
