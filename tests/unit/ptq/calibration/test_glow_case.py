"""
A 1x1 convolution that was lowered to a matrix product: https://github.com/pytorch/glow/issues/4660.

The profile of one form is used on the other, and the weights are quantized row by row, to the same
codes, whether or not the shape ops before the weights were folded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from dequantizing_arithmetic import Array, Module
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

from qdialect.algebra.views import as_view
from qdialect.dialects.quant import ConstantOp, StatisticsOp
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.ir.resources import ResourceBlobs
from qdialect.passes.fold_quant_shapes import FoldConstantShapesPass
from qdialect.ptq.calibration.attaching import fingerprint_of
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.passes.ranges import AttachRangesPass
from qdialect.ptq.passes.weights import QuantizeWeightsPass
from qdialect.ptq.schemes.profile import Profile
from qdialect.ptq.schemes.ranges import Statistics
from qdialect.testing.tensors import expanded

pytestmark = pytest.mark.usefixtures("without_plugins")

WEIGHTS = np.random.default_rng(0).normal(size=(4, 1, 1, 3)).astype(np.float32)
HEXADECIMAL = f'dense<"0x{WEIGHTS.tobytes().hex().upper()}"> : tensor<4x1x1x3xf32>'

WHOLE = f"""
func.func @main(%image: tensor<1x2x2x3xf32>, %bias: tensor<4xf32>) -> tensor<1x2x2x4xf32> {{
  %filter = arith.constant {HEXADECIMAL}
  %zero = "tosa.const"() <{{values = dense<0.0> : tensor<1xf32>}}> : () -> tensor<1xf32>
  %conv = tosa.conv2d %image, %filter, %bias, %zero, %zero {{acc_type = f32,
    dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}}
    : (tensor<1x2x2x3xf32>, tensor<4x1x1x3xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>)
    -> tensor<1x2x2x4xf32>
  return %conv : tensor<1x2x2x4xf32>
}}
"""

LOWERED = f"""
func.func @main(%image: tensor<1x2x2x3xf32>, %bias: tensor<4xf32>) -> tensor<1x2x2x4xf32> {{
  %filter = arith.constant {HEXADECIMAL}
  %rows = tensor.collapse_shape %image [[0, 1, 2], [3]]
    : tensor<1x2x2x3xf32> into tensor<4x3xf32>
  %matrix = tensor.collapse_shape %filter [[0, 1, 2], [3]]
    : tensor<4x1x1x3xf32> into tensor<4x3xf32>
  %columns = tosa.transpose %matrix {{perms = array<i32: 1, 0>}}
    : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %empty = tensor.empty() : tensor<4x4xf32>
  %init = linalg.broadcast ins(%bias : tensor<4xf32>) outs(%empty : tensor<4x4xf32>)
    dimensions = [0]
  %product = linalg.matmul ins(%rows, %columns : tensor<4x3xf32>, tensor<3x4xf32>)
    outs(%init : tensor<4x4xf32>) -> tensor<4x4xf32>
  %conv = tensor.expand_shape %product [[0, 1, 2], [3]] output_shape [1, 2, 2, 4]
    : tensor<4x4xf32> into tensor<1x2x2x4xf32>
  return %conv : tensor<1x2x2x4xf32>
}}
"""

RANGES = {"image": (-1, 1), "bias": (-2, 2), "filter": (-3, 3), "conv": (-4, 4)}


def profile_of(text: str) -> Profile:
    """A profile with the ranges above, recorded on a module under the keys that it has."""
    module = Module(text)
    keys = keys_of(module.module)
    values = {
        keys.aliases.get(name, name): Statistics.observe(0, np.array(ends, np.float32))
        for name, ends in RANGES.items()
    }
    fingerprint = fingerprint_of(module.module, ResourceBlobs.of(module.context))
    return Profile(fingerprint, values, keys.aliases)


def ranges_of(module: Module) -> dict[str, float]:
    """The largest number of each range in a module, by the name that RANGES has for it."""
    found: dict[str, float] = {}
    keys = keys_of(module.module)
    names = {key: name for name, key in keys.aliases.items()}
    for op in module.module.walk():
        if isinstance(op, StatisticsOp):
            assert op.key is not None
            key = op.key.data
            layer = cast("DenseIntOrFPElementsAttr[Any]", op.layer_stats)
            ends = cast("list[float]", list(layer.iter_values()))
            found[key if key in RANGES else names[key]] = ends[1]
    return found


@pytest.mark.parametrize(("recorded", "used"), [(WHOLE, LOWERED), (LOWERED, WHOLE)])
@pytest.mark.parametrize("folds", [False, True], ids=["as it is", "folded"])
def test_a_profile_of_one_form_is_used_on_the_other(
    recorded: str, used: str, folds: bool, tmp_path: Path
):
    path = tmp_path / "profile.json"
    path.write_text(profile_of(recorded).to_json())
    module = Module(used)
    if folds:
        module.run(FoldConstantShapesPass())
    module.run(AttachRangesPass(profile=str(path)))
    assert ranges_of(module) == {name: high for name, (_, high) in RANGES.items()}


def rows_of(text: str, *, folds: bool) -> tuple[Array, Array]:
    """The codes of the weights with a row for each channel, and their scales."""
    module = Module(text)
    if folds:
        module.run(FoldConstantShapesPass())
    module.run(QuantizeWeightsPass(scheme="glow-symmetric"))
    assert module.ops.count("quant.constant") == 1
    (constant,) = (op for op in module.module.walk() if isinstance(op, ConstantOp))
    type = uniform_tensor(constant.result.type)
    scales, _ = expanded(type.element_type.parameters_on(type.get_shape()))
    codes = as_view(constant.values).array()
    if codes.shape == (3, 4):
        codes, scales = codes.T, scales.T
    return codes.reshape(4, 3), scales.reshape(4, 3)


@pytest.mark.parametrize("folds", [False, True], ids=["as it is", "folded"])
def test_weights_are_quantized_row_by_row_in_both_forms(folds: bool):
    codes, scales = rows_of(WHOLE, folds=False)
    lowered, lowered_scales = rows_of(LOWERED, folds=folds)
    assert (codes == lowered).all()
    assert (scales == lowered_scales).all()
    rows = WEIGHTS.reshape(4, 3)
    assert len(np.unique(scales)) == 4
    assert (np.abs(codes * scales - rows) <= scales * 0.51).all()
