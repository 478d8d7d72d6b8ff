"""
What a quantization chose for each value, and why: records for people and for other tools.

Signal to noise is that of the value alone: what is added by rounding what the op reads is not in
it. It is measured where the numbers are known, in constants; elsewhere it follows from how numbers
are spread in their range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from qdialect.dialects.quant import UniformQuantizedType
from qdialect.folding.report import FoldReport
from qdialect.relations.interface import Relation
from qdialect.shape_ops.interface import Code, name_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Role(StrEnum):
    """The role of a value in its function or its op."""

    ARGUMENT = "argument"
    ACTIVATION = "activation"
    CONSTANT = "constant"
    WEIGHT = "weight"
    BIAS = "bias"


class Basis(StrEnum):
    """The source of a signal to noise ratio."""

    MEASURED = "measured"
    """The numbers, which are known."""
    HISTOGRAM = "histogram"
    """How numbers were counted in the profile."""
    UNIFORM = "uniform"
    """The assumption that numbers are spread evenly in their range."""


class Stored(NamedTuple):
    """The parameters of a value, or of one operand that reads it with its own."""

    type: UniformQuantizedType
    bits: int
    """The width of the storage, which may exceed that of the type."""
    relation: Relation
    scheme: str = ""
    """The name of the scheme that chose them; empty if the module, or the user, gave them."""
    origin: str = ""
    """The key of the value whose parameters these were first; empty for its own."""
    range: tuple[float, float] | None = None
    """The range that the parameters were chosen for."""
    decibels: float | None = None
    """The signal to noise ratio; None if it is not known."""
    basis: Basis | None = None
    saturated: float | None = None
    """The share of numbers beyond the codes."""
    saturated_elements: int | None = None
    """How many elements of a constant are."""


class Reader(NamedTuple):
    """An operand that is read with other parameters than those of its value."""

    op: Operation
    number: int
    stored: Stored


class ValueReport(NamedTuple):
    """A float value: how it is quantized, or why it is not."""

    key: str
    value: SSAValue
    role: Role
    precision: str
    """The name of the precision of the layer."""
    range: tuple[float, float] | None
    """The range that was recorded, or that a constant has."""
    stored: Stored | None = None
    reads: Sequence[Reader] = ()
    code: Code | None = None
    reason: str = ""
    """Why it stays in floats."""

    @property
    def place(self) -> Operation | Block:
        """The op that makes the value, or the block that it is an argument of."""
        return self.value.owner

    @property
    def op_name(self) -> str:
        """The name of the op that makes it."""
        return name_of(self.value.owner) if isinstance(self.value.owner, Operation) else "argument"


@dataclass
class QuantizationReport(FoldReport):
    """The report of a pass that quantizes: of ops, and of values."""

    values: list[ValueReport] = field(default_factory=list[ValueReport])
    """In the order of the module; constants behind the ops that read them."""


def zero_points_of(type: UniformQuantizedType) -> NDArray[np.int64]:
    """The zero points of a type: one of blocks holds them as signed integers of its width."""
    return type.storage_format.wrap(type.zero_points) if type.block_sizes else type.zero_points
