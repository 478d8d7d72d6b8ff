"""What `quantize-with-ranges` writes verifies, and what is changed in it does not."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from dequantizing_arithmetic import Module
from hypothesis import given, note
from hypothesis import strategies as st
from random_models import graphs, models
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeCastOp,
    QuantizeCastOp,
    UniformQuantizedType,
)
from qdialect.dialects.quant.types import Slots, uniform_tensor
from qdialect.folding.report import Outcome
from qdialect.ir.errors import OpErrors
from qdialect.ir.xdsl_private import set_type
from qdialect.ops.interface import name_of
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.passes.models import QuantizeWithRangesPass, VerifyQuantizationPass

pytestmark = pytest.mark.usefixtures("without_plugins")

PAIRS = [
    (scheme, granularity)
    for scheme in ("one-u8", "one-s16", "torch-i8", "glow-i8")
    for granularity in ("layer", "channel", "block")
    if (scheme, granularity) != ("one-s16", "layer")
]


def errors(module: Module, flag: VerifyQuantizationPass) -> list[str]:
    try:
        flag.apply(module.context, module.module)
    except OpErrors as found:
        return [message for _, message in found.errors]
    return []


@given(models(), st.sampled_from(PAIRS), st.sampled_from([(), ("u8",), ("i16",), ("i8",)]))
def test_what_is_written_verifies(text: str, pair: tuple[str, str], declared: tuple[str, ...]):
    note(text)
    module = Module(text)
    scheme, granularity = pair
    flag = QuantizeWithRangesPass(
        scheme=scheme,
        granularity=granularity,
        block_size=2,
        otherwise="coarser",
        input_types=declared,
        output_types=declared,
    )
    report = module.run(flag)
    note(module.printed())
    granularity = granularity if granularity == "layer" else None
    verified = VerifyQuantizationPass(scheme=scheme, granularity=granularity)
    assert errors(module, verified) == []
    refused = [each for each in report.records if each.outcome is Outcome.REFUSED]
    in_floats = [each for each in report.records if "stays in floats" in each.reason]
    if not refused and not in_floats:
        assert errors(module, VerifyQuantizationPass(scheme=scheme, strict=True)) == []


@given(graphs(), st.data())
def test_mixed_precision_verifies(
    graph: tuple[str, dict[str, tuple[float, float]]], data: st.DataObject
):
    text, _ = graph
    module = Module(text)
    keys = [
        key
        for key, values in keys_of(module.module).roots.items()
        if all(
            isinstance(value.owner, Operation) and name_of(value.owner) not in ("tosa.const",)
            for value in values
        )
    ]
    named = data.draw(st.lists(st.sampled_from(sorted(keys)), unique=True)) if keys else []
    note(text)
    layers = [{"name": name, "dtype": "int16"} for name in named]
    with TemporaryDirectory() as folder:
        path = Path(folder, "mixed.json")
        path.write_text(json.dumps({"layers": layers}))
        module.run(QuantizeWithRangesPass(config=str(path)))
    note(module.printed())
    assert errors(module, VerifyQuantizationPass(strict=True)) == []


@given(graphs(), st.data())
def test_a_scale_that_is_changed_is_found(
    graph: tuple[str, dict[str, tuple[float, float]]], data: st.DataObject
):
    """The type of a result whose parameters are not free is changed, and all casts with it."""
    text, _ = graph
    module = Module(text)
    module.run(QuantizeWithRangesPass())
    bound = [
        op
        for op in module.module.walk()
        if name_of(op)
        in ("tosa.reverse", "tosa.transpose", "tosa.sigmoid", "tosa.tanh", "tosa.floor")
    ]
    if not bound:
        return
    op = data.draw(st.sampled_from(bound))
    (use,) = op.results[0].uses
    assert isinstance(use.operation, QuantizeCastOp)
    codes = use.operation.result
    type = uniform_tensor(codes.type)
    element = type.element_type
    slot = element.single_slot
    slots = Slots.per_tensor(slot.scale * 1.25, slot.zero_point)
    changed = UniformQuantizedType.of_slots(element.storage, element.expressed_type, slots)
    if name_of(op) == "tosa.floor" and slot.scale * 1.25 == round(slot.scale * 1.25):
        return
    set_type(codes, TensorType(changed, type.get_shape()))
    note(module.printed())
    found = errors(module, VerifyQuantizationPass())
    assert any(message.startswith(f"'{name_of(op)}' op ") for message in found)


LAYER = """
func.func @f(%x: tensor<4x2xf32>, %init: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0e-22, 1.0e-22]> : tensor<2xf32>} : tensor<4x2xf32>
  %w = "tosa.const"() {values = dense<1.0e-25> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  %b = "tosa.const"() {values = dense<0.0> : tensor<3xf32>} : () -> tensor<3xf32>
  %r = tosa.reshape %b, %s : (tensor<3xf32>, !tosa.shape<2>) -> tensor<1x3xf32>
  %p = linalg.matmul ins(%0, %w : tensor<4x2xf32>, tensor<2x3xf32>)
    outs(%init : tensor<4x3xf32>) -> tensor<4x3xf32>
  %y = tosa.add %p, %r : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %1 = quant.stats %y {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
""".replace(
    "  %r = tosa",
    "  %s = tosa.const_shape {values = dense<[1, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>\n"
    "  %r = tosa",
)


def test_a_zero_has_code_0_of_scale_1():
    # The product of these scales is no number in float32, and the bias is zero.
    module = Module(LAYER)
    module.run(QuantizeWithRangesPass(scheme="glow-i8"))
    (add,) = (op for op in module.module.walk() if name_of(op) == "tosa.add")
    back = add.operands[1].owner
    assert isinstance(back, DequantizeCastOp)
    type = uniform_tensor(back.input.type).element_type
    assert (type.single_slot.scale, type.storage_format.width) == (1, 32)
    constant = back.input.owner
    assert isinstance(constant, ConstantOp)
    assert not np.asarray(getattr(constant.values, "value", constant.values)).any()
    assert errors(module, VerifyQuantizationPass(scheme="glow-i8", strict=True)) == []


SMALL = """
func.func @f(%x: tensor<4x2x!quant.uniform<i16<-32767:32767>:f32, 1.0e-7>>,
    %init: tensor<4x3xf32>) -> tensor<4x3x!quant.uniform<i16<-32767:32767>:f32, 0.5>> {
  %0 = quant.dcast %x : tensor<4x2x!quant.uniform<i16<-32767:32767>:f32, 1.0e-7>>
    to tensor<4x2xf32>
  %w = quant.constant dense<1> : tensor<2x3x!quant.uniform<i16<-32767:32767>:f32, 1.0e-5>>
  %1 = quant.dcast %w : tensor<2x3x!quant.uniform<i16<-32767:32767>:f32, 1.0e-5>>
    to tensor<2x3xf32>
  %b = arith.constant dense<7> : tensor<1x3xi64>
  %2 = quant.dequantize_bias %b {scales = dense<SCALE> : tensor<1xf32>}
    : tensor<1x3xi64> to tensor<1x3xf32>
  %p = linalg.matmul ins(%0, %1 : tensor<4x2xf32>, tensor<2x3xf32>)
    outs(%init : tensor<4x3xf32>) -> tensor<4x3xf32>
  %y = tosa.add %p, %2 : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %3 = quant.qcast %y : tensor<4x3xf32>
    to tensor<4x3x!quant.uniform<i16<-32767:32767>:f32, 0.5>>
  return %3 : tensor<4x3x!quant.uniform<i16<-32767:32767>:f32, 0.5>>
}
"""


def test_a_bias_is_compared_with_a_small_product():
    """Of 1e-12, a scale that is twice as large differs by less than 1e-10."""
    right = float(np.float32(1e-7) * np.float32(1e-5))
    assert errors(Module(SMALL.replace("SCALE", f"{right:.9e}")), VerifyQuantizationPass()) == []
    for wrong in (2 * right, right * (1 + 1e-6)):
        module = Module(SMALL.replace("SCALE", f"{wrong:.9e}"))
        (message,) = errors(module, VerifyQuantizationPass())
        assert "whose scales have the product 9.99999996e-13" in message
