"""The pass that lowers casts between floats and quantized values to arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from qdialect.dialects.quant.casts import CastOp, is_rounding
from qdialect.folding import warn_of_roundings
from qdialect.ir.errors import OpErrors
from qdialect.ir.rewriting import Replacements
from qdialect.lowering.cast_arithmetic import (
    ArithmeticCast,
    SlotConstants,
    bytes_of_constants,
    lower_cast,
    unknown_arithmetic,
)
from qdialect.lowering.dequantization import Form
from qdialect.lowering.dialect_conversion import (
    converted_ops,
    fold_casts,
    functions_in,
    reserve_for,
)
from qdialect.passes.dequantization import lower_dequantization
from qdialect.support.arguments import named_member
from qdialect.support.float_format import Rounding
from qdialect.support.memory import memory_budget


def lower_casts(
    casts: Sequence[ArithmeticCast], rounding: Rounding, *, keep_round_trips: bool = False
) -> int:
    """
    Replace casts by arithmetic. Raises OpErrors; the module is unchanged then.

    Returns the number of values that are no longer rounded.
    """
    replacements, reserved, folded = Replacements(), set[object](), set[CastOp]()
    if not keep_round_trips:
        folded = fold_casts([op for op in casts if isinstance(op, CastOp)], replacements)
    count = sum(map(is_rounding, folded))
    lowered = [op for op in casts if op not in folded]
    for op in lowered:
        if reason := unknown_arithmetic(op):
            raise OpErrors.of(op, f"cannot be lowered: {reason}")
        for constant, nbytes in bytes_of_constants(op).items():
            if constant not in reserved:
                reserve_for(op, nbytes)
                reserved.add(constant)
    slots = SlotConstants()
    for op in lowered:
        result = lower_cast(op, rounding, slots)
        if result.name_hint is None:
            result.name_hint = op.result.name_hint
        replacements.add(op.result, result)
    replacements.apply()
    for op in casts:
        Rewriter.erase_op(op)
    return count


@dataclass(frozen=True)
class LowerQuantOpsPass(ModulePass):
    """
    Lower the casts that compute to arithmetic on storage integers.

    These are `quant.qcast`, `quant.dcast`, `quant.requantize` and `quant.dequantize_bias`.
    `quant.scast` converts between storage integers and quantized values, and is not lowered.
    The result is that of MLIR's pass of this name, op for op: only functions at the top level
    are lowered, a cast that undoes another one is dropped, and unreachable blocks are left
    alone. With `keep-round-trips`, floats that are quantized and dequantized are rounded: MLIR
    drops both casts.

    Example: `qdialect-opt --lower-quant-ops examples/tiny.mlir`.
    """

    name = "lower-quant-ops"

    rounding: str = field(default=Rounding.UPSTREAM.value, metadata={"values": Rounding})
    """How `quant.qcast` rounds a quotient."""

    keep_round_trips: bool = False
    """Whether a cast that undoes another one is lowered, too."""

    to: str | None = field(default=None, metadata={"values": (Form.LINALG_EXT,)})
    """
    A form for casts that it can express. The others are rounded to nearest-even, and round trips
    are kept.
    """

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        named_member("rounding", Rounding, self.rounding)
        if self.to is not None and not named_member("to", Form, self.to).quantizes:
            raise ValueError(f"to must be {Form.LINALG_EXT.value}, but is '{self.to}'")

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises OpErrors."""
        rounding, keeps = Rounding(self.rounding), self.keep_round_trips
        if self.to is not None:
            lower_dequantization(op, ctx, Form(self.to))
            rounding, keeps = Rounding.NEAREST_EVEN, True
        ops = [inner for function in functions_in(op) for inner in converted_ops(function)]
        casts = [inner for inner in ops if isinstance(inner, ArithmeticCast)]
        with memory_budget():
            count = lower_casts(casts, rounding, keep_round_trips=keeps)
        warn_of_roundings(ctx, op, count)
