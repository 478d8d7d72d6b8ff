"""The pass that drops pairs of casts that undo each other, and casts that change nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.dialects.quant.casts import (
    CastOp,
    DequantizeCastOp,
    QuantizeCastOp,
    RequantizeOp,
    rounding_of,
)
from qdialect.dialects.quant.constants import ConstantOp
from qdialect.dialects.quant.round_trips import UnprovableError, first_change
from qdialect.dialects.quant.shape_ops import PadOp, ShapeOp
from qdialect.dialects.quant.types import UniformQuantizedType, uniform_tensor
from qdialect.folding import send_report
from qdialect.folding.report import Outcome, PassReport
from qdialect.ir.rewriting import Replacements, operands_first
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.interface import Refusal, RefusalCode, keeping_attribute_of
from qdialect.ops.unused_ops import erase_with_unused

QuantOp: TypeAlias = CastOp | ConstantOp | ShapeOp
RoundTrip: TypeAlias = QuantizeCastOp | DequantizeCastOp | RequantizeOp


class RoundTripElider:
    """Drops the second cast of each pair in one walk, and the first one if it has no other use."""

    def __init__(self, *, changing: bool) -> None:
        self._changing = changing
        self._report = PassReport(verb="elided")
        self._replaced = Replacements()
        self._gone: dict[Operation, None] = {}
        self._in_range: set[SSAValue] = set()
        """The quantized values whose integers are known to be in the storage range."""

    def elide(self, module: ModuleOp) -> PassReport:
        """Drop all pairs of casts that can be dropped."""
        ops = dict.fromkeys(op for op in module.walk() if isinstance(op, QuantOp))
        for op in operands_first(ops):
            if self._makes_range(op):
                self._in_range.add(op.result)
            if isinstance(op, RoundTrip):
                self._visit(op)
        self._replaced.apply()
        erase_with_unused(self._gone)
        records = self._report.records
        # A refused cast may have been erased since, if only dropped casts used it.
        records[:] = [r for r in records if r.outcome is not Outcome.REFUSED or r.op.parent]
        return self._report

    def _makes_range(self, op: QuantOp) -> bool:
        """Whether the integers of the result are known to be in the storage range."""
        if isinstance(op, PadOp) and not uniform_tensor(op.result.type).has_static_shape():
            # Its verifier checks zero points only for static shapes.
            return False
        if isinstance(op, ConstantOp | ShapeOp):
            return all(operand in self._in_range for operand in op.operands)
        return isinstance(op, QuantizeCastOp | RequantizeOp)

    def _visit(self, op: RoundTrip) -> None:
        origin, what, kept = self._replaced.final(op.input), f"'{op.name}'", None
        if not isinstance(op, RequantizeOp):
            first = origin.owner
            if not isinstance(first, CastOp) or first.name != op.INVERSE:
                return
            origin, what = self._replaced.final(first.input), f"'{op.name}' of '{first.name}'"
            kept = keeping_attribute_of(first)
        if origin.type != op.result.type or origin is op.result:
            return
        kept = keeping_attribute_of(op) or kept
        if kept is not None:
            reason = f"it has the attribute '{kept}', so it is kept"
            self._report.refuse(op, Refusal(RefusalCode.KEPT, reason))
            return
        change = self._change(op, origin)
        if change is not None and not self._changing:
            reason = f"{what} would change numerics: {change}"
            self._report.refuse(op, Refusal(RefusalCode.NUMERICS, reason))
            return
        is_same = f"{what} is the identity for every integer"
        changes = f"{what} was dropped, which changes numerics: {change}"
        reason = is_same if change is None else changes
        self._report.tell(Outcome.ELIDED, op, reason, origin)
        self._replaced.add(op.result, origin)
        self._gone[op] = None

    def _change(self, op: RoundTrip, origin: SSAValue) -> str | None:
        """The change of values if `origin` replaced the result of `op`, None if there is none."""
        if isinstance(op, DequantizeCastOp):
            return "floats are no longer rounded and clamped"
        type = element_type_or_self(origin.type)
        if not isinstance(type, UniformQuantizedType):
            return "the parameters of the type are not known"
        try:
            is_in_range = origin in self._in_range
            change = first_change(type, rounding_of(op), is_in_range=is_in_range)
        except UnprovableError as error:
            return f"perhaps, since {error}"
        return None if change is None else str(change)


@dataclass(frozen=True)
class ElideRoundTripsPass(ModulePass):
    """
    Drop a `qcast` of a `dcast`, or a `requantize`, where that is provably the identity.

    This is proven by trying every storage integer with every slot of the type. With `changing`,
    pairs that change numerics are dropped too, such as `dcast` of `qcast`. The report lists
    each pair.

    Example: `qdialect-opt --elide-round-trips quantized.mlir`.
    """

    name = "elide-round-trips"

    changing: bool = False
    """Whether to drop pairs that change numerics."""

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        send_report(ctx, RoundTripElider(changing=self.changing).elide(op))
