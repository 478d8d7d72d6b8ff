"""The pass that lowers casts between floats and quantized values to arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding import warn_of_roundings
from qdialect.lowering.cast_arithmetic import ArithmeticCast
from qdialect.lowering.dequantization import Form
from qdialect.lowering.dialect_conversion import converted_ops, functions_in
from qdialect.lowering.lowered_casts import lower_casts
from qdialect.passes.dequantization import lower_dequantization
from qdialect.support.arguments import named_member
from qdialect.support.float_format import Rounding
from qdialect.support.memory import memory_budget


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

    Codes of floats and tables are looked up in constants, and the nearest ones are searched there;
    bytes, or wider integers, store them afterwards.

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
            count = lower_casts(op, casts, rounding, keep_round_trips=keeps)
        warn_of_roundings(ctx, op, count)
