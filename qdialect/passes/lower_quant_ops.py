"""The pass that turns casts between floats and quantized values into arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from qdialect.algebra.memory_budget import memory_budget
from qdialect.dialects.quant.casts import DequantizeCastOp, QuantizeCastOp
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


def lower_casts(casts: Sequence[ArithmeticCast], rounding: Rounding) -> None:
    """Compute what casts mean. Raises OpErrors, and then changes nothing."""
    replacements = Replacements()
    folded = fold_casts(casts, replacements)
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
    Turn `quant.qcast` and `quant.dcast` into arithmetic on storage integers.

    These become values of the quantized types by `quant.scast`, which is left alone. The
    result is that of MLIR's pass of this name, op for op: it is for functions of the module
    itself, drops a cast that undoes another one, and leaves alone what nothing leads to.
    """

    name = "lower-quant-ops"

    rounding: str = Rounding.UPSTREAM.value
    """How a quotient becomes a storage integer: the value of a `Rounding`."""

    def __post_init__(self) -> None:
        """Raise ValueError if an option has a value that means nothing."""
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
            lower_casts(casts, Rounding(self.rounding))
