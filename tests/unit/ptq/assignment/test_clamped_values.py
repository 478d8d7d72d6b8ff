"""Values before clamps: their parameters, and that rounding them changes no result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dequantizing_arithmetic import Module
from numpy.typing import NDArray

from qdialect.check.interpreters import TypedArray, find_function, run_function
from qdialect.dialects.quant import DequantizeCastOp, QuantizeCastOp
from qdialect.ptq.passes.models import QuantizeWithRangesPass

pytestmark = pytest.mark.usefixtures("without_plugins")

TEXT = """
func.func @f(%x: tensor<4096xf32>) -> tensor<4096xf32> {{
  %l = arith.constant dense<{low}> : tensor<4096xf32>
  %h = arith.constant dense<{high}> : tensor<4096xf32>
  %s = quant.stats %x {{layerStats = dense<[-9.0, 9.0]> : tensor<2xf32>}} : tensor<4096xf32>
  %y = math.sin %s : tensor<4096xf32>
  %1 = quant.stats %y {{layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>}} : tensor<4096xf32>
  {clamp}
  %2 = quant.stats %r {{layerStats = dense<[{first}, {last}]> : tensor<2xf32>}} : tensor<4096xf32>
  return %2 : tensor<4096xf32>
}}
"""
T = "tensor<4096xf32>"
FORMS = {
    "maximum of minimum": f"%m = arith.minimumf %1, %h : {T}\n%r = arith.maximumf %m, %l : {T}",
    "minimum of maximum": f"%m = arith.maxnumf %l, %1 : {T}\n%r = arith.minnumf %m, %h : {T}",
    "selections": f"""%p = arith.cmpf olt, %1, %l : {T}
  %m = arith.select %p, %l, %1 : tensor<4096xi1>, {T}
  %q = arith.cmpf ule, %h, %m : {T}
  %r = arith.select %q, %h, %m : tensor<4096xi1>, {T}""",
    "nested selections": f"""%p = arith.cmpf ogt, %l, %1 : {T}
  %m = arith.select %p, %l, %1 : tensor<4096xi1>, {T}
  %q = arith.cmpf olt, %1, %h : {T}
  %r = arith.select %q, %m, %h : tensor<4096xi1>, {T}""",
}
BOUNDS = [(0.0, 6.0), (-0.3, 0.4), (0.25, 0.75), (-0.75, -0.25), (-0.5, 0.0)]


def run(module: Module, x: NDArray[np.float32]) -> NDArray[Any]:
    (type,) = find_function(module.module, "f").function_type.inputs
    (found,) = run_function(module.module, "f", [TypedArray.of(x.view("u4"), type)], module.context)
    return np.asarray(found.numbers)


@pytest.mark.parametrize("scheme", ["one-u8", "one-s16", "torch-i8", "glow-i8"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bounds", BOUNDS)
def test_rounding_before_a_clamp_changes_nothing(
    form: str, bounds: tuple[float, float], scheme: str
):
    low, high = bounds
    ends = max(low, -1.0), min(high, 1.0)
    text = TEXT.format(low=low, high=high, clamp=FORMS[form], first=ends[0], last=ends[1])
    module = Module(text)
    module.run(QuantizeWithRangesPass(scheme=scheme))
    casts = {
        op.result.name_hint: op for op in module.module.walk() if isinstance(op, QuantizeCastOp)
    }
    assert casts["y"].result.type == casts["r"].result.type
    x = np.linspace(-9, 9, 4096, dtype="f4")
    rounded = run(module, x)
    # The clamp reads floats.
    (use,) = casts["y"].result.uses
    assert isinstance(use.operation, DequantizeCastOp)
    use.operation.result.replace_all_uses_with(casts["y"].input)
    exact = run(module, x)
    assert np.unique(exact).size > 10
    # The bounds are constants that are rounded, too; they are the same in both.
    assert np.array_equal(rounded, exact)


JOINED = """
func.func @f(%x: [T]) -> (tensor<128xf32>, [T]) {
  %l = "tosa.const_shape"() {values = dense<64> : tensor<1xindex>} : () -> !tosa.shape<1>
  %s = quant.stats %x {layerStats = dense<[-9.0, 9.0]> : tensor<2xf32>} : [T]
  %y = math.sin %s : [T]
  %1 = quant.stats %y {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : [T]
  %m = tosa.reshape %1, %l : ([T], !tosa.shape<1>) -> [T]
  %j = tosa.concat %s, [READ] {axis = 0 : i32} : ([T], [T]) -> tensor<128xf32>
  %z = arith.constant dense<0.0> : tensor<128xf32>
  %r = arith.maximumf %j, %z : tensor<128xf32>
  %2 = quant.stats %r {layerStats = dense<[0.0, 6.0]> : tensor<2xf32>} : tensor<128xf32>
  %a = math.absf [READ] : [T]
  %3 = quant.stats %a {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : [T]
  return %2, %3 : tensor<128xf32>, [T]
}
"""


@pytest.mark.parametrize("read", ["%1", "%m"])
def test_what_a_clamp_cuts_stays_for_other_readers(read: str):
    """A value is joined with another one before a clamp, and read elsewhere, too."""
    module = Module(JOINED.replace("[T]", "tensor<64xf32>").replace("[READ]", read))
    module.run(QuantizeWithRangesPass(scheme="one-u8"))
    x = np.linspace(-9, 9, 64, dtype="f4")
    (type,) = find_function(module.module, "f").function_type.inputs
    given = [TypedArray.of(x.view("u4"), type)]
    _, other = run_function(module.module, "f", given, module.context)
    assert np.abs(other.numbers - np.abs(np.sin(x))).max() < 0.06
