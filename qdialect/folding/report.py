"""Reports of passes: the outcome of each op, for remarks, statistics and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from typing_extensions import override
from xdsl.ir import Block, Operation, SSAValue

from qdialect.support.terminal import Displayed, Table, first_rows

if TYPE_CHECKING:
    # Deferred: a tool that does not fold does not need numpy.
    from qdialect.algebra.movement import ValueSet
    from qdialect.folding.provenance import Provenance
    from qdialect.ops.refusals import Refusal, RefusalCode


class Outcome(StrEnum):
    """The outcome for a shape op or a cast."""

    FOLDED = "folded"
    DROPPED = "dropped"
    """It was an identity, undid the op before it, or has an unused result."""
    SUNK = "sunk"
    """The shape op was moved below casts."""
    HOISTED = "hoisted"
    """The shape op was moved above arithmetic."""
    JOINED = "joined"
    """Casts of its operands became one cast of its result."""
    ELIDED = "elided"
    """The cast undid another one, whose operand is used instead."""
    RAISED = "raised"
    """Dequantization by arithmetic, or by a cast of another dialect, became a cast of quant."""
    LOWERED = "lowered"
    """The cast of quant became ops of another dialect."""
    QUANTIZED = "quantized"
    """The weights of the layer became a quantized constant behind a cast."""
    ATTACHED = "attached"
    """A recorded range was attached to a value of the op."""
    CONVERTED = "converted"
    """The range that it carried is now in another op or a type."""
    SHIFTED = "shifted"
    """The op computes, and the storage of its values is shifted."""
    FAKED = "made float"
    """The op computes on floats, between casts."""
    INLINED = "inlined"
    """The call was replaced by the body of its function."""
    EQUALIZED = "equalized"
    """The weights of the layer are scaled, and so is its input or its result."""
    MERGED = "merged"
    """The arithmetic after the layer is in its weights and its bias."""
    REFUSED = "refused"


class PassRecord(NamedTuple):
    """
    The outcome for one op.

    Ops and values may have been erased; they have neither operands nor elements then.
    """

    outcome: Outcome
    op: Operation
    op_name: str

    code: RefusalCode | None = None
    """The code of the refusal."""

    reason: str = ""
    """The reason in words: of the refusal, or of any other outcome."""

    made_of: Provenance | None = None
    """The source constants of the folded value."""

    constant: SSAValue | None = None
    """The constant that was written for the op and the ops after it in its chain."""

    stands: SSAValue | None = None
    """The value that replaces the result: the constant, a cast after it, or another op's result."""

    values: ValueSet | None = None
    """How a value range recorded for the sources relates to the result of the op."""

    operands: tuple[int, int] | None = None
    """
    The first and the last of the operands that this is about, where the op itself stays.

    They were constants, and are one now.
    """

    @property
    def sources(self) -> tuple[SSAValue, ...]:
        """
        The results of the source constants.

        Computed on each access: storing them for each op of a chain would take quadratic space.
        """
        return tuple(op.results[0] for op in self.made_of.sources) if self.made_of else ()


class Names(Protocol):
    """The names of values and the places of ops, in the text of a module."""

    def before(self, value: SSAValue) -> str | None:
        """The name of a value in the text that was read, with the percent sign."""
        ...

    def after(self, value: SSAValue) -> str | None:
        """The name of a value in the text that was printed, with the percent sign."""
        ...

    def place(self, op: Operation | Block) -> str:
        """`file:line:column` of an op in the text that was read."""
        ...


@dataclass(repr=False)
class PassReport(Displayed):
    """The report of a pass."""

    records: list[PassRecord] = field(default_factory=list[PassRecord])

    verb: str = "folded"
    """The verb for remarks on refusals: "not folded"."""

    vanished: dict[SSAValue, SSAValue | None] = field(
        default_factory=dict[SSAValue, SSAValue | None]
    )
    """
    The erased constants and casts, each with the value that replaces it.

    None for a constant without a remaining element. Also contains the results of ops that were
    composed with the ops before them.
    """

    bytes_before: int = 0
    """The bytes of the elements of the folded constants; 0 for splats."""

    bytes_after: int = 0
    """The bytes of the elements of the written constants, and of sources that stay in use."""

    constants: int = 0
    """The number of constants written."""

    ops_removed: int = 0

    def tell(
        self, outcome: Outcome, op: Operation, reason: str, stands: SSAValue | None = None
    ) -> None:
        """Add the outcome for an op, and why; `stands` replaces its result."""
        record = PassRecord(outcome, op, _name_of(op), reason=reason, stands=stands)
        self.records.append(record)

    def refuse(self, op: Operation, refusal: Refusal) -> None:
        """Add the refusal of an op."""
        record = PassRecord(Outcome.REFUSED, op, _name_of(op), refusal.code, str(refusal))
        self.records.append(record)

    def refused(self, *codes: RefusalCode) -> list[PassRecord]:
        """The refusals with one of these codes."""
        return [record for record in self.records if record.code in codes]

    def forget_erased(self) -> None:
        """Remove the replacements that are erased: something else stands there since."""
        for at, record in enumerate(self.records):
            if record.stands is not None and _is_erased(record.stands):
                self.records[at] = record._replace(stands=None)
        for value, by in list(self.vanished.items()):
            if by is not None and _is_erased(by):
                del self.vanished[value]

    @property
    def refused_by_code(self) -> Counter[RefusalCode]:
        """The number of refused ops by code."""
        return Counter(record.code for record in self.records if record.code is not None)

    @override
    def __repr__(self) -> str:
        counts = Counter(record.outcome.value for record in self.records)
        parts = [f"{count} {outcome}" for outcome, count in counts.items()]
        if self.constants:
            parts.append(f"{self.constants} constants of {self.bytes_after} bytes")
        return f"{type(self).__name__}({', '.join(parts)})"

    @override
    def tables(self) -> Sequence[Table]:
        rows = (
            (
                record.op_name,
                record.outcome.value,
                record.code.value if record.code else "",
                record.reason,
            )
            for record in self.records
        )
        names = "op", "outcome", "code", "reason"
        records = first_rows("outcomes", names, rows, 4, len(self.records))
        values = self.values_table()
        return (records,) if values is None else (records, values)

    def values_table(self) -> Table | None:
        """For a quantizer, a table of the parameters of each value."""
        return None

    def values_to_json(self, names: Names) -> Sequence[dict[str, Any]]:
        """For a quantizer, the parameters of each value, and why."""
        return ()


def _is_erased(value: SSAValue) -> bool:
    """Whether an op that defined a value is in no block any more."""
    return isinstance(value.owner, Operation) and value.owner.parent is None


def _name_of(op: Operation) -> str:
    # A pass that reports on ops has read them by it; a tool that does not needs no numpy.
    from qdialect.ops.interface import name_of

    return name_of(op)
