"""`--help`: what it shows of passes is what the passes take, and its examples run."""

from __future__ import annotations

import io
import json
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from xdsl.passes import ModulePass

import qdialect.passes
from qdialect.opt.help_text import example_of, option_texts
from qdialect.opt.opt import main
from qdialect.opt.registry import get_all_passes
from qdialect.passes import PASSES
from qdialect.ptq.tools.calibrate import main as calibrate

pytestmark = pytest.mark.usefixtures("without_plugins")

ROOT = Path(__file__).parents[3]


def opt(*arguments: str) -> str:
    """What qdialect-opt prints; it must succeed."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(arguments)
    assert status == 0, err.getvalue()
    return out.getvalue()


def class_of(flag: str) -> type[ModulePass]:
    return getattr(qdialect.passes, PASSES[flag])


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_no_line_is_wider_than_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = opt("--help=all").splitlines()
    for flag in PASSES:
        lines += opt(f"--{flag}", "--help").splitlines()
    # A name of an option and of its value are not cut.
    assert [line for line in lines if len(line) > columns and " " in line.strip()] == []


def test_the_passes_of_xdsl_are_shown_on_demand():
    own, all_passes = opt("--help"), opt("--help=all")

    def shown(text: str) -> set[str]:
        return set(re.findall(r"^  --([\w-]+)", text, re.MULTILINE)) & get_all_passes().keys()

    assert shown(own) == PASSES.keys()
    assert shown(all_passes) == get_all_passes().keys()


@pytest.mark.parametrize("flag", PASSES)
def test_options_are_shown_as_they_are_typed(flag: str, capsys: pytest.CaptureFixture[str]):
    """The names are those that the error about an unknown option lists."""
    text = opt(f"--{flag}", "--help")
    _, _, options = text.partition("\nOptions:\n")
    shown = re.findall(r"^  ([\w-]+)=[A-Z,.]+", options, re.MULTILINE)
    assert main([f"--{flag}=no-such-option", "/dev/null"]) == 1
    message = capsys.readouterr().err
    assert f"(it has: {', '.join(shown) or 'none'})" in message
    texts = option_texts(class_of(flag))
    assert [option.name for option in fields(class_of(flag)) if not texts.get(option.name)] == []


MODEL = """
!floats = tensor<4x2xf32>
func.func private @half(%x: !floats) -> !floats {
  %half = arith.constant dense<0.5> : !floats
  %0 = arith.mulf %x, %half : !floats
  return %0 : !floats
}

func.func @main(%image: tensor<4x3xf32>) -> tensor<2x8xf32> {
  %weight = arith.constant dense<[[1.0, 0.5, -0.5], [3.0, 0.25, -3.0]]> : tensor<2x3xf32>
  %turned = tosa.transpose %weight {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %init = arith.constant dense<0.0> : !floats
  %first = linalg.matmul ins(%image, %turned : tensor<4x3xf32>, tensor<3x2xf32>)
    outs(%init : !floats) -> !floats
  %relu = arith.maximumf %first, %init : !floats
  %square = arith.constant dense<[[1.0, 20.0], [-2.0, 0.125]]> : tensor<2x2xf32>
  %second = linalg.matmul ins(%relu, %square : !floats, tensor<2x2xf32>)
    outs(%init : !floats) -> !floats
  %bias = arith.constant dense<[[0.5, 0.25], [0.5, 0.25], [0.5, 0.25], [0.5, 0.25]]> : !floats
  %biased = arith.addf %second, %bias : !floats
  %halves = call @half(%biased) : (!floats) -> !floats
  %shown = math.tanh %halves : !floats
  %both = tosa.concat %halves, %shown {axis = 0 : i32} : (!floats, !floats) -> tensor<8x2xf32>
  %result = tosa.transpose %both {perms = array<i32: 1, 0>} : (tensor<8x2xf32>) -> tensor<2x8xf32>
  return %result : tensor<2x8xf32>
}
"""

QUANTIZED = """
!q = !quant.uniform<u8:f32, 0.5:3>
!s = !quant.uniform<u8:f32:{0:2}, {{0.5:3}}>
func.func @main(%x: tensor<2x!q>, %y: tensor<2x!s>) -> (tensor<2x!q>, tensor<2x!q>, tensor<2x!s>) {
  %0 = quant.dcast %x : tensor<2x!q> to tensor<2xf32>
  %1 = quant.qcast %0 : tensor<2xf32> to tensor<2x!q>
  %2 = "stablehlo.add"(%x, %1) : (tensor<2x!q>, tensor<2x!q>) -> tensor<2x!q>
  return %1, %2, %y : tensor<2x!q>, tensor<2x!q>, tensor<2x!s>
}
"""

OFFSETS = """
!q = !quant.uniform<u8:f32, 0.5:3>
func.func @main() -> tensor<3x2xf32> {
  %codes = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!q>
  %ones = quant.constant dense<4> : tensor<2x3x!q>
  %a = quant.dcast %codes : tensor<2x3x!q> to tensor<2x3xf32>
  %b = quant.dcast %ones : tensor<2x3x!q> to tensor<2x3xf32>
  %sum = arith.addf %a, %b : tensor<2x3xf32>
  %t = stablehlo.transpose %sum, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %t : tensor<3x2xf32>
}
"""

CONFIG = {
    "default_quantization_dtype": "uint8",
    "default_granularity": "channel",
    "layers": [{"names": ["second"], "dtype": "int16", "granularity": "channel"}],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "model.mlir").write_text(MODEL)
    (folder / "quantized.mlir").write_text(QUANTIZED)
    (folder / "offsets.mlir").write_text(OFFSETS)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    images = np.random.default_rng(0).random((10, 4, 3), "f4")
    np.savez(folder / "images.npz", image=images)
    files = [str(folder / name) for name in ("model.mlir", "images.npz", "profile.json")]
    model, data, profile = files
    assert calibrate([model, "--data", data, "--engine=reference", "-o", profile]) == 0
    ranges = opt(f"--attach-ranges=profile={profile}", model)
    (folder / "ranges.mlir").write_text(ranges)
    return folder


IDLE = {
    "remove-redundant-quantize": "no value of the model is requantized twice",
    "verify-quant-shapes": "it reports",
    "verify-quantization": "it reports",
}
"""The passes that do not change a module, and why."""


@pytest.mark.parametrize("flag", PASSES)
def test_examples_run(flag: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    example = example_of(class_of(flag))
    assert example is not None
    # The text may continue on the next line.
    shown = opt(f"--{flag}", "--help").partition("\nExample:\n")[2].replace("\\\n", " ")
    tool, *arguments = shlex.split(shown)
    assert shlex.split(example) == [tool, *arguments]
    assert tool == "qdialect-opt"
    (own,) = (each for each in arguments if each.partition("=")[0] == f"--{flag}")
    allow = "--allow-unregistered-dialect"
    after = opt(allow, *arguments)
    others = [each for each in arguments if each is not own]
    assert (opt(allow, *others) == after) is (flag in IDLE)
