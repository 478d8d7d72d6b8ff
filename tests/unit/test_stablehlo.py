"""The text of StableHLO's own tool, read without the package that knows the dialect."""

import shutil
import subprocess
from pathlib import Path

import pytest

from qdialect.tools.opt import main

pytestmark = pytest.mark.skipif(shutil.which("iree-opt") is None, reason="iree-opt is not on PATH")

TENSOR = "!quant.uniform<i8:f32, 0.5:3>"
ROWS = "!quant.uniform<i8:f32:0, {0.5,0.25:3}>"
COLUMNS = "!quant.uniform<i8:f32:1, {0.5,0.25:3}>"


def iree_opt(text: str, *flags: str) -> str:
    return subprocess.run(
        ["iree-opt", *flags], input=text, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    "op",
    [
        f"stablehlo.pad %a, %b, low = [1], high = [-1], interior = [2] "
        f": (tensor<2x{TENSOR}>, tensor<{TENSOR}>) -> tensor<4x{TENSOR}>",
        f"stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<2x{ROWS}>) -> tensor<3x2x{COLUMNS}>",
    ],
    ids=["pad", "broadcast_in_dim"],
)
def test_what_xdsl_jax_refuses(
    op: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (
        f"func.func @f(%a: tensor<2x{TENSOR}>, %b: tensor<{TENSOR}>, %c: tensor<2x{ROWS}>) {{\n"
        f"  %0 = {op}\n  return\n}}\n"
    )
    generic = tmp_path / "generic.mlir"
    generic.write_text(iree_opt(text, "--mlir-print-op-generic"))
    monkeypatch.setattr("qdialect.tools.registry._plugins", tuple[()])
    assert main(["--allow-unregistered-dialect", str(generic)]) == 0
    assert iree_opt(capsys.readouterr().out) == iree_opt(text)
