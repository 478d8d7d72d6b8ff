"""
The parameters that a quantization chose for each value, and why: records for people and tools.

Signal-to-noise ratios count the rounding of the value alone, without that of the values it is
computed from. They are measured for constants; for other values they are estimated from the range
or the histogram.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import override
from xdsl.ir import Block, Operation, SSAValue

from qdialect.dialects.quant import UniformQuantizedType
from qdialect.folding.report import Names, PassReport
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.fields import RuleKind
from qdialect.ops.interface import RefusalCode, name_of
from qdialect.support.files import number_to_json
from qdialect.support.lazy_numpy import NDArray
from qdialect.support.terminal import Table

if TYPE_CHECKING:
    import numpy as np


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


@dataclass(repr=False)
class QuantizationReport(PassReport):
    """The report of a pass that quantizes: of ops, and of values."""

    values: list[ValueReport] = field(default_factory=list[ValueReport])
    """In module order; constants after the ops that read them."""

    @override
    def values_table(self) -> Table:
        """
        A table with a row for each value, and for each operand that reads it with other parameters.
        """
        rows = tuple(row for value in self.values for row in _rows(value))
        return Table("quantization", _COLUMNS, rows, 4)

    @override
    def values_to_json(self, names: Names) -> list[dict[str, Any]]:
        """The parameters of each value, and why, for other tools."""
        return [_json_of_value(value, names) for value in self.values]


_COLUMNS = (
    "value",
    "is",
    "stored as",
    "follows from",
    "range",
    "scale:zero point",
    "saturated",
    "signal to noise (dB)",
)


def _rows(value: ValueReport) -> Iterator[tuple[str, ...]]:
    if value.stored is None:
        storage = str(element_type_or_self(value.value.type))
        yield value.key, value.role, storage, value.reason, _range_text(value.range), "", "", ""
        return
    yield _row(value.key, value.role, value, value.stored)
    for reader in value.reads:
        yield _row("", f"read by {reader.op.name}", value, reader.stored)


def _row(key: str, role: str, value: ValueReport, stored: Stored) -> tuple[str, ...]:
    follows = f"{stored.rule} ({stored.origin})" if stored.origin else str(stored.rule)
    saturated = ""
    if stored.saturated_elements is not None:
        saturated = str(stored.saturated_elements)
    elif stored.saturated is not None:
        saturated = f"{100 * stored.saturated:.2f} %"
    decibels = "" if stored.decibels is None else f"{stored.decibels:.2f}"
    return (
        key,
        role,
        _storage_text(stored),
        follows,
        _range_text(value.range),
        _parameters_text(stored.type),
        saturated,
        decibels,
    )


def _storage_text(stored: Stored) -> str:
    return f"{'i' if stored.type.storage_format.signed else 'u'}{stored.bits}"


def _range_text(range: Sequence[float] | None) -> str:
    return "" if range is None else f"{range[0]:.5g} to {range[1]:.5g}"


def _parameters_text(type: UniformQuantizedType) -> str:
    """The scale and zero point, or their number and range."""
    scales, zero_points = type.scales.reshape(-1), zero_points_of(type).reshape(-1)
    if scales.size == 1:
        return f"{scales[0]:.5g}:{zero_points[0]}"
    least, most = zero_points.min(), zero_points.max()
    zeros = str(least) if least == most else f"{least} to {most}"
    return f"{scales.size} of {scales.min():.5g} to {scales.max():.5g}:{zeros}"


def _json_of_value(value: ValueReport, names: Names) -> dict[str, Any]:
    content: dict[str, Any] = {
        "key": value.key,
        "name": names.before(value.value),
        "op": value.op_name,
        "location": names.place(value.place),
        "role": value.role.value,
        "precision": value.precision,
        "range": _json_of_range(value.range),
    }
    if value.stored is None:
        content["storage"] = str(element_type_or_self(value.value.type))
        if value.code is not None:
            content["code"] = value.code.value
        return content | {"reason": value.reason}
    content |= _json_of_stored(value.stored)
    if value.reads:
        content["reads"] = [
            {
                "op": reader.op.name,
                "location": names.place(reader.op),
                "operand": reader.number,
                **_json_of_stored(reader.stored),
            }
            for reader in value.reads
        ]
    return content


def _json_of_stored(stored: Stored) -> dict[str, Any]:
    type = stored.type
    content: dict[str, Any] = {
        "storage": _storage_text(stored),
        "codes": _codes(stored),
        "scheme": stored.scheme or None,
        "scales": type.scales.reshape(-1).tolist(),
        "zero_points": zero_points_of(type).reshape(-1).tolist(),
    }
    if type.scales.size > 1:
        content["shape"] = list(type.scales.shape)
        content["axes"] = list(type.quantized_dimensions)
        if type.block_sizes:
            content["block_sizes"] = list(type.block_sizes)
    return content | {
        "rule": stored.rule.value,
        "origin": stored.origin or None,
        "chosen_for": _json_of_range(stored.range),
        "saturated": stored.saturated,
        "saturated_elements": stored.saturated_elements,
        "signal_to_noise": number_to_json(stored.decibels),
        "basis": None if stored.basis is None else stored.basis.value,
    }


def _codes(stored: Stored) -> list[int]:
    """The lowest and the highest code."""
    if stored.bits > stored.type.storage_format.width:
        return [-(1 << (stored.bits - 1)), (1 << (stored.bits - 1)) - 1]
    return [stored.type.storage_type_min, stored.type.storage_type_max]


def _json_of_range(range: Sequence[float] | None) -> list[float | str | None] | None:
    return None if range is None else [number_to_json(float(end)) for end in range]


def zero_points_of(type: UniformQuantizedType) -> NDArray[np.int64]:
    """The zero points of a type. A sub-channel type holds them as signed integers of its width."""
    return type.storage_format.wrap(type.zero_points) if type.block_sizes else type.zero_points
