"""Values computed from constants alone are not quantized; gathers of elements are movements."""

from __future__ import annotations

import pytest
from dequantizing_arithmetic import Module
from xdsl.ir import Operation

from qdialect.dialects.quant import DequantizeCastOp, QuantizeCastOp
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.ops.interface import name_of
from qdialect.ptq.passes.models import QuantizeWithRangesPass

pytestmark = pytest.mark.usefixtures("without_plugins")

PLACES = """
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<8xf32>
  %i = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<8xi32>
  %f = "stablehlo.convert"(%i) : (tensor<8xi32>) -> tensor<8xf32>
  %1 = quant.stats %f {layerStats = dense<[0.0, 7.0]> : tensor<2xf32>} : tensor<8xf32>
  %s = "stablehlo.subtract"(%1, %1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = quant.stats %s {layerStats = dense<[0.0, 0.0]> : tensor<2xf32>} : tensor<8xf32>
  %p = "stablehlo.compare"(%2, %1) <{comparison_direction = #stablehlo<comparison_direction LT>}>
    : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
  %c = "stablehlo.convert"(%p) : (tensor<8xi1>) -> tensor<8xf32>
  %3 = quant.stats %c {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<8xf32>
  %r = "stablehlo.negate"(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %4 = quant.stats %r {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<8xf32>
  return %4 : tensor<8xf32>
}
"""


def test_what_is_computed_of_constants_and_places_stays_in_floats():
    module = Module(PLACES)
    module.run(QuantizeWithRangesPass())
    casts = [op for op in module.module.walk() if isinstance(op, QuantizeCastOp)]
    assert sorted(op.result.name_hint or "" for op in casts) == ["r", "x"]


REVERSED = """
func.func @f(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 3.0]> : tensor<2xf32>} : tensor<2x8xf32>
  %last = arith.constant 7 : index
  %e = tensor.empty() : tensor<2x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]} outs(%e : tensor<2x8xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %last, %j : index
    %v = tensor.extract %0[%i, %k] : tensor<2x8xf32>
    linalg.yield %v : f32
  } -> tensor<2x8xf32>
  return %r : tensor<2x8xf32>
}
"""


def test_a_generic_that_gathers_elements_moves_their_parameters():
    module = Module(REVERSED)
    report = module.run(QuantizeWithRangesPass())
    assert [record.op_name for record in report.records] == ["linalg.generic"]
    casts = [op for op in module.module.walk() if isinstance(op, QuantizeCastOp)]
    first, last = (uniform_tensor(op.result.type).element_type for op in casts)
    assert first == last
    (extract,) = (op for op in module.module.walk() if name_of(op) == "tensor.extract")
    back = extract.operands[0].owner
    assert isinstance(back, Operation)
    assert isinstance(back, DequantizeCastOp)
