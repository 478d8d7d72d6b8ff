"""The passes that raise dequantization to casts of quant, and lower such casts."""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.dialects.quant.casts import DequantizeCastOp, QuantizeCastOp
from qdialect.folding import send_report
from qdialect.folding.policy import FoldPolicy
from qdialect.folding.raising import raise_dequantization
from qdialect.folding.report import Outcome, PassReport
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import Replacements
from qdialect.lowering.dequantization import DequantizationLowering, Form
from qdialect.ops.interface import Refusal, models_of
from qdialect.ops.reading import Constants
from qdialect.ops.unused_ops import erase_with_unused
from qdialect.support.arguments import named_member
from qdialect.support.memory import memory_budget, paused_collection


def lower_dequantization(module: ModuleOp, context: Context, form: Form) -> PassReport:
    """
    Lower each `dcast` to `form`, and report those that cannot be lowered.

    If the form has an op for them, each `qcast` is lowered, too.
    """
    report = PassReport(verb="lowered")
    with paused_collection(), models_of(context), memory_budget() as budget:
        constants = Constants(ResourceBlobs.of(context))
        lowering = DequantizationLowering(form, context, constants, budget)
        # First those that store integers, so that dequantizations read them.
        for kind in (QuantizeCastOp, DequantizeCastOp)[not form.quantizes :]:
            casts, replaced = [op for op in module.walk() if isinstance(op, kind)], Replacements()
            gone = list[DequantizeCastOp | QuantizeCastOp]()
            for op in casts:
                try:
                    result = lowering.lower(op)
                except Refusal as error:
                    report.refuse(op, error)
                    continue
                result.name_hint = op.result.name_hint
                replaced.add(op.result, result)
                gone.append(op)
                report.tell(Outcome.LOWERED, op, f"it is lowered to {form.value}", result)
            replaced.apply()
            erase_with_unused(gone)
    return report


@dataclass(frozen=True)
class RaiseDequantizationPass(ModulePass):
    """
    Raise dequantization by arithmetic, or by casts of other dialects, to casts of quant.

    `(C - z) * s` on constants becomes `quant.dcast(quant.scast(C))` of a type with the same
    meaning, bit for bit; codes and scales that ops compute from constants are computed.
    Arithmetic that is not an exact dequantization is kept, and reported with the reason.

    Example: `qdialect-opt --raise-dequantization examples/tosa_convolution.mlir`.
    """

    name = "raise-dequantization"

    max_parameter_growth: int | None = None
    """The maximum number of scales in excess of the sources, as for `fold-quant-shapes`."""

    def __post_init__(self) -> None:
        """Raise ValueError for a negative number."""
        FoldPolicy(max_parameter_growth=self.max_parameter_growth)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        policy = FoldPolicy(max_parameter_growth=self.max_parameter_growth)
        send_report(ctx, raise_dequantization(op, ctx, policy))


@dataclass(frozen=True)
class LowerDequantizationPass(ModulePass):
    """
    Lower `quant.dcast` to the dialect of a consumer, and for linalg-ext `quant.qcast`.

    Integers are converted, zero points subtracted and scales multiplied, in the expressed type,
    as `quant.dcast` defines it. IREE's op for `quant.qcast` adds the zero point after it has
    rounded, which differs by 1 at exact ties if the zero point is odd. A cast that the form cannot
    express is kept, and reported with the reason.

    Example: `qdialect-opt --lower-dequantization=to=linalg examples/qdq_attention.mlir`.
    """

    name = "lower-dequantization"

    to: str = field(metadata={"values": Form})
    """The target form."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        named_member("to", Form, self.to)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        send_report(ctx, lower_dequantization(op, ctx, Form(self.to)))
