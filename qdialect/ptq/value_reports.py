"""
The parameters that a quantization chose for each value, and why: records for people and tools.

Signal-to-noise ratios count the rounding of the value alone, without that of the values it is
computed from. They are measured for constants; for other values they are estimated from the range
or the histogram.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from qdialect.dialects.quant import UniformQuantizedType
from qdialect.folding.report import PassReport
from qdialect.ops.interface import RefusalCode, name_of
from qdialect.ops.rules import RuleKind

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
    """The source of a signal-to-noise ratio."""

    MEASURED = "measured"
    """The elements, which are known."""
    HISTOGRAM = "histogram"
    """The histogram in the profile."""
    UNIFORM = "uniform"
    """The assumption that numbers are spread evenly in their range."""


class Stored(NamedTuple):
    """The parameters of a value, or of an operand that reads it with other ones."""

    type: UniformQuantizedType
    bits: int
    """The width of the storage, which may exceed that of the type."""
    rule: RuleKind
    scheme: str = ""
    """The name of the scheme that chose them; empty if the module, or the user, gave them."""
    origin: str = ""
    """The key of the value that the parameters were taken from; empty if they are its own."""
    range: tuple[float, float] | None = None
    """The range that the parameters were chosen for."""
    decibels: float | None = None
    """The signal-to-noise ratio; None if it is not known."""
    basis: Basis | None = None
    saturated: float | None = None
    """The fraction of elements beyond the range of codes."""
    saturated_elements: int | None = None
    """The number of elements of a constant beyond the range of codes."""


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
    code: RefusalCode | None = None
    reason: str = ""
    """Why it stays float."""

    @property
    def place(self) -> Operation | Block:
        """The op that makes the value, or the block that it is an argument of."""
        return self.value.owner

    @property
    def op_name(self) -> str:
        """The name of the op that makes it."""
        return name_of(self.value.owner) if isinstance(self.value.owner, Operation) else "argument"


@dataclass
class QuantizationReport(PassReport):
    """The report of a pass that quantizes: of ops, and of values."""

    values: list[ValueReport] = field(default_factory=list[ValueReport])
    """In module order; constants after the ops that read them."""


def zero_points_of(type: UniformQuantizedType) -> NDArray[np.int64]:
    """The zero points of a type. A sub-channel type holds them as signed integers of its width."""
    return type.storage_format.wrap(type.zero_points) if type.block_sizes else type.zero_points
