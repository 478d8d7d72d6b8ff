"""The pass that converts recorded ranges between ops and types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.dialects.quant import (
    CalibratedQuantizedType,
    DequantizeCastOp,
    QuantizeCastOp,
    StatisticsOp,
)
from qdialect.folding import FoldReportListener
from qdialect.folding.report import Outcome, PassRecord, PassReport
from qdialect.ir.elements import floats_attribute
from qdialect.ir.rewriting import Replacements
from qdialect.ir.value_types import element_type_or_self, is_tensor, shape_of, with_element_type
from qdialect.ir.xdsl_private import NAME_OF_UNREGISTERED
from qdialect.ops.interface import Refusal, RefusalCode, name_of
from qdialect.ops.statistics import LAYER_STATS, is_statistics, statistics_of
from qdialect.ops.unused_ops import erase_with_unused
from qdialect.support.lazy_numpy import np


class RangeForm(StrEnum):
    """The forms of a recorded range."""

    CALIBRATED = "calibrated"
    """Upstream's type, in `dcast(qcast(x))`: a minimum that is less than the maximum."""

    STATS = "stats"
    """`quant.stats`."""


@dataclass(frozen=True)
class ConvertRangesPass(ModulePass):
    """
    Convert `quant.stats` to casts to `!quant.calibrated` and back, or such casts to `quant.stats`.

    Ranges along an axis, and ranges of length 0, are kept and reported, since upstream's type
    cannot express them. `canonicalize` drops such casts.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --convert-ranges=to=calibrated
    model.mlir`.
    """

    name = "convert-ranges"

    to: str
    """`calibrated` or `stats`."""

    def __post_init__(self) -> None:
        """Raise ValueError for another form."""
        if self.to not in tuple(RangeForm):
            raise ValueError(f"to must be one of {', '.join(RangeForm)}, not '{self.to}'")

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        convert = _to_stats if self.to == RangeForm.STATS else _to_calibrated
        report = PassReport(verb="converted")
        replaced, gone = Replacements(), list[Operation]()
        for old in list(op.walk()):
            try:
                new = convert(old)
            except Refusal as error:
                record = PassRecord(
                    Outcome.REFUSED, old, name_of(old), code=error.code, reason=str(error)
                )
                report.records.append(record)
                continue
            if not new:
                continue
            Rewriter.insert_op(new, InsertPoint.before(old))
            result = new[-1].results[0]
            result.name_hint = old.results[0].name_hint
            replaced.add(old.results[0], result)
            gone.append(old)
            report.records.append(
                PassRecord(
                    Outcome.CONVERTED,
                    old,
                    name_of(old),
                    reason=f"its range is in '{new[-1].name}'",
                    stands=result,
                )
            )
        replaced.apply()
        erase_with_unused(gone)
        if isinstance(ctx, FoldReportListener):
            ctx.take_fold_report(report)


def _to_calibrated(op: Operation) -> Sequence[Operation]:
    """The casts that replace an op that carries ranges. Raises Refusal."""
    if not is_statistics(op):
        return ()
    (value,) = op.operands
    statistics = statistics_of(op, shape_of(value.type))
    if statistics.axis is not None:
        raise Refusal(
            RefusalCode.GRANULARITY, "'!quant.calibrated' has a single range for all elements"
        )
    least, greatest = statistics.layer.tolist()
    if least >= greatest:
        raise Refusal(
            RefusalCode.ILLEGAL_TYPE,
            f"'!quant.calibrated' needs a minimum that is less than the maximum, not {least}",
        )
    expressed = cast(AnyFloat, element_type_or_self(value.type))
    calibrated = CalibratedQuantizedType.of(expressed, least, greatest)
    quantized = QuantizeCastOp(value, with_element_type(value.type, calibrated))
    quantized.attributes |= {
        name: attribute
        for name, attribute in ({**op.properties, **op.attributes}).items()
        if name not in (LAYER_STATS, NAME_OF_UNREGISTERED)
    }
    return quantized, DequantizeCastOp(quantized, value.type)


def _to_stats(op: Operation) -> Sequence[Operation]:
    """The op that replaces a cast back from `!quant.calibrated`."""
    first = op.operands[0].owner if isinstance(op, DequantizeCastOp) else None
    if not isinstance(first, QuantizeCastOp) or first.input.type != op.results[0].type:
        return ()
    calibrated = element_type_or_self(first.result.type)
    if not isinstance(calibrated, CalibratedQuantizedType) or not is_tensor(first.input.type):
        return ()
    new = StatisticsOp(first.input, floats_attribute(np.array([calibrated.min, calibrated.max])))
    for name, attribute in first.attributes.items():
        held = new.properties if name in ("key", "count") else new.attributes
        held[name] = attribute
    return (new,)
