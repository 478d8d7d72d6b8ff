"""What each value of a quantized module is computed with: integers, or floats, and why."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.dialects.quant.casts import QuantizeCastOp, RequantizeOp
from qdialect.integers.forms import LinalgForm
from qdialect.integers.lowering import lower_to_integers
from qdialect.integers.rescaling import Requantize
from qdialect.ops.refusals import RefusalCode
from qdialect.ptq.calibration.keys import keys_of


class LayerForm(NamedTuple):
    """How the op that makes a value is computed."""

    refusal: RefusalCode | None
    """Why floats compute it; None if integers do."""
    reason: str
    """What codes are computed with, or why the op stays float."""
    bits: int
    """The bits that its largest sum may have, with the sign; 0 without sums of codes."""

    @override
    def __str__(self) -> str:
        """The form in a few words."""
        if self.refusal is not None:
            return f"float ({self.refusal})"
        return f"integer, {self.bits} bits" if self.bits else "integer"


def layer_forms(module: ModuleOp, context: Context) -> Mapping[str, LayerForm]:
    """The forms of the values that are quantized, by key. The module is not changed."""
    copy = module.clone()
    keys = keys_of(copy).of_values
    key_of: dict[Operation, str | None] = {
        op: keys.get(op.result) or keys.get(op.operands[0])
        for op in copy.walk()
        if isinstance(op, QuantizeCastOp | RequantizeOp)
    }
    report = lower_to_integers(copy, context, partial(LinalgForm, requantize=Requantize.FIXED))
    forms = dict[str, LayerForm]()
    for record in report.records:
        if (key := key_of.get(record.op)) is not None:
            form = LayerForm(record.code, record.reason, report.bits.get(record.op, 0))
            # Later casts of the same value copy or rescale its codes.
            forms.setdefault(key, form)
    return forms
