"""Weights and records that are huge, infinite, or empty: no warning of numpy reaches a user."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qdialect.opt import opt
from qdialect.ptq.tools import calibrate

pytestmark = [
    pytest.mark.usefixtures("without_plugins"),
    pytest.mark.filterwarnings("error::RuntimeWarning"),
]

MODEL = """
!x = tensor<2x3xf32>
func.func @main(%x: !x) -> !x {
  %z = arith.constant dense<0.0> : !x
  %w = arith.constant dense<WEIGHTS> : tensor<3x3xf32>
  %0 = linalg.matmul ins(%x, %w : !x, tensor<3x3xf32>) outs(%z : !x) -> !x
  %b = arith.constant dense<0.5> : !x
  %1 = arith.addf %0, %b : !x
  %2 = arith.maximumf %1, %z : !x
  %3 = linalg.matmul ins(%2, %w : !x, tensor<3x3xf32>) outs(%z : !x) -> !x
  return %3 : !x
}
"""


@pytest.mark.parametrize(
    ("weights", "number", "flag"),
    [
        ("<[[1.0, 0x7F800000, 3.0], [0.5, 3.4e38, 0.2], [1.0, 1.0, 2.0]]>", 2.0, "equalize-inputs"),
        ("<3.4e38>", 3.4e38, "quantize-with-ranges=scheme=glow-i8"),
        ("<>", 1.0, "equalize-inputs"),
    ],
    ids=["infinite", "huge", "empty"],
)
def test_models_are_calibrated_and_quantized(
    tmp_path: Path, weights: str, number: float, flag: str
):
    model, data, profile = (str(tmp_path / name) for name in ("model.mlir", "x.npz", "p.json"))
    text = MODEL.replace("<WEIGHTS>", weights)
    if weights == "<>":
        text = text.replace("2x3x", "2x0x").replace("3x3x", "0x0x")
    Path(model).write_text(text)
    x = np.ones((3, 2, 0 if weights == "<>" else 3), "f4")
    x[1, 0], x[2, 0, :1] = number, -number
    np.savez(data, arg0=x)
    status = calibrate.main(
        [model, "--data", data, "--engine=reference", "--channels", "-o", profile]
    )
    attach = [f"--attach-ranges=profile={profile}"] if x.size else []
    assert status == (0 if x.size else 1)
    assert opt.main([*attach, f"--{flag}", model]) == 0
