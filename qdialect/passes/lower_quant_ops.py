"""The pass that lowers casts between floats and quantized values to arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from qdialect.algebra.memory_budget import memory_budget
from qdialect.dialects.quant.casts import CastOp, DequantizeCastOp, QuantizeCastOp
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.errors import OpErrors
from qdialect.ir.replacements import Replacements
from qdialect.lowering.cast_arithmetic import (
    ArithmeticCast,
    Rounding,
    SlotConstants,
    lower_cast,
    quantized_type,
    slot_bytes,
    unknown_arithmetic,
)
from qdialect.lowering.dialect_conversion import (
    converted_ops,
    fold_casts,
    functions_in,
    reserve_for,
)


def lower_casts(
    casts: Sequence[ArithmeticCast], rounding: Rounding, *, keep_round_trips: bool = False
) -> None:
    """Replace casts by arithmetic. Raises OpErrors; the module is unchanged then."""
    replacements = Replacements()
    folded = set[CastOp]() if keep_round_trips else fold_casts(casts, replacements)
    lowered = [op for op in casts if op not in folded]
    reserved = set[UniformQuantizedType]()
    for op in lowered:
        if reason := unknown_arithmetic(op):
            raise OpErrors.of(op, f"cannot be lowered: {reason}")
        type = quantized_type(op)
        if type not in reserved:
            reserve_for(op, slot_bytes(type))
            reserved.add(type)
    slots = SlotConstants()
    for op in lowered:
        result = lower_cast(op, rounding, slots)
        if result.name_hint is None:
            result.name_hint = op.result.name_hint
        replacements.add(op.result, result)
    replacements.apply()
    for op in casts:
        Rewriter.erase_op(op)


@dataclass(frozen=True)
class LowerQuantOpsPass(ModulePass):
    """
    Lower `quant.qcast` and `quant.dcast` to arithmetic on storage integers.

    `quant.scast` converts between storage integers and quantized values, and is not lowered.
    The result is that of MLIR's pass of this name, op for op: only functions at the top level
    are lowered, a cast that undoes another one is dropped, and unreachable blocks are left
    alone. With `keep-round-trips`, floats that are quantized and dequantized are rounded: MLIR
    drops both casts.
    """

    name = "lower-quant-ops"

    rounding: str = Rounding.UPSTREAM.value
    """How quantization rounds a quotient: the value of a `Rounding`."""

    keep_round_trips: bool = False
    """Whether a cast that undoes another one is lowered, too."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        values = [rounding.value for rounding in Rounding]
        if self.rounding not in values:
            raise ValueError(
                f"rounding must be one of {', '.join(values)}, but is '{self.rounding}'"
            )

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises OpErrors."""
        casts = [
            inner
            for function in functions_in(op)
            for inner in converted_ops(function)
            if isinstance(inner, QuantizeCastOp | DequantizeCastOp)
        ]
        with memory_budget():
            lower_casts(casts, Rounding(self.rounding), keep_round_trips=self.keep_round_trips)
