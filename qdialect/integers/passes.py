"""The pass that computes quantized modules in integers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding import send_report
from qdialect.integers.rescaling import Requantize
from qdialect.ir.errors import OpErrors
from qdialect.ops.refusals import RefusalCode
from qdialect.support.arguments import named_member


class OnRefusal(StrEnum):
    """What is done about layers that integers do not compute."""

    LEAVE = "leave"
    ERROR = "error"


class Activations(StrEnum):
    """How products read codes of 8 bits."""

    I8 = "i8"
    U8 = "u8"


class IntegerForm(StrEnum):
    """The ops that compute with integers."""

    LINALG = "linalg"
    TOSA = "tosa"


@dataclass(frozen=True)
class LowerToIntegersPass(ModulePass):
    """
    Compute with codes: sums of products of integers, rescaling, pools, and tables.

    A layer between `quant.dcast` and `quant.qcast` becomes a sum of products of its codes, of 32
    bits, or of 64 if some have more than 8, which is then rescaled to the codes of its result. A
    sum that may overflow is refused. Sums of two values, pools, clamps and movements act on codes,
    too, and other functions of one number become tables. What is none of these, such as a softmax,
    stays float. The types of functions are kept.

    Example: `qdialect-opt --lower-to-integers examples/integers/quantized_layer.mlir`.
    """

    name = "lower-to-integers"

    to: str = field(default=IntegerForm.LINALG.value, metadata={"values": IntegerForm})
    """The dialect of the ops."""

    requantize: str = field(default=Requantize.FIXED.value, metadata={"values": Requantize})
    """The arithmetic that rescales: multipliers of 31 bits and shifts, or products of f32."""

    activations: str = field(default=Activations.I8.value, metadata={"values": Activations})
    """
    How products read codes of 8 bits that are computed: both operands as signed, or one of them as
    unsigned, for which CPUs with VNNI have an instruction.
    """

    as_matrices: bool = False
    """
    Whether layers become products of two matrices, which some compilers have fast kernels for. One
    of a convolution has what its windows read, and takes more memory; a vector is there twice.
    """

    on_refusal: str = field(default=OnRefusal.LEAVE.value, metadata={"values": OnRefusal})
    """Whether a layer that is refused is left as it is, or an error."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        named_member("to", IntegerForm, self.to)
        named_member("on-refusal", OnRefusal, self.on_refusal)
        named_member("requantize", Requantize, self.requantize)
        named_member("activations", Activations, self.activations)
        if self.to == IntegerForm.TOSA and self.requantize != Requantize.FIXED:
            raise ValueError("with to=tosa, requantize must be fixed: TOSA has no other arithmetic")
        if self.to == IntegerForm.TOSA and self.activations != Activations.I8:
            raise ValueError("with to=tosa, activations must be i8: TOSA has no other products")
        if self.to == IntegerForm.TOSA and self.as_matrices:
            raise ValueError("with to=tosa, as-matrices must be false: TOSA has convolutions")

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises OpErrors."""
        # It imports what runs ops on arrays, which other passes do not need.
        from qdialect.integers.forms import LinalgForm
        from qdialect.integers.lowering import lower_to_integers
        from qdialect.integers.tosa_form import TosaForm

        linalg = partial(
            LinalgForm,
            requantize=Requantize(self.requantize),
            reads_unsigned=self.activations == Activations.U8,
            as_matrices=self.as_matrices,
        )
        form = TosaForm if self.to == IntegerForm.TOSA else linalg
        report = lower_to_integers(op, ctx, form)
        if self.on_refusal == OnRefusal.ERROR:
            refused = [
                record for record in report.records if record.code not in (None, RefusalCode.KEPT)
            ]
            if refused:
                raise OpErrors(
                    [
                        (record.op, f"is not lowered to integers: {record.reason} [{record.code}]")
                        for record in refused
                    ]
                )
        send_report(ctx, report)
