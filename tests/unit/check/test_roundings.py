"""`qdialect-check --roundings`: what integers compute, beside casts in f64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from integer_layers import KINDS

from qdialect.check.check_tool import main
from qdialect.integers.passes import LowerToIntegersPass
from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module

pytestmark = pytest.mark.without_xdsl


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """A layer of 40 inputs and 200 channels, and the same in integers."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (40, 200)).tolist()
    text = f"""!x = !quant.uniform<i8:f32, 0.03:3>
!w = !quant.uniform<i8:f32, 0.01>
!y = !quant.uniform<i8:f32, 0.37:-5>
func.func @main(%q: tensor<8x40x!x>) -> tensor<8x200x!y> {{
  %x = quant.dcast %q : tensor<8x40x!x> to tensor<8x40xf32>
  %c = quant.constant dense<{weights}> : tensor<40x200x!w>
  %w = quant.dcast %c : tensor<40x200x!w> to tensor<40x200xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x40xf32>, tensor<40x200xf32>) -> tensor<8x200xf32>
  %r = quant.qcast %y : tensor<8x200xf32> to tensor<8x200x!y>
  return %r : tensor<8x200x!y>
}}"""
    before, after = tmp_path / "before.mlir", tmp_path / "after.mlir"
    before.write_text(text)
    context = ToolContext()
    module = parse_module(context, text)
    LowerToIntegersPass(on_refusal="error").apply(context, module)
    after.write_text(str(module))
    return before, after


def check(sides: tuple[Path, Path]) -> int:
    return main([*map(str, sides), "--roundings", "--runs=32"])


def test_integers_are_the_nearest_codes(
    sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert not check(sides)
    told = capsys.readouterr().out
    assert told.startswith("function 'main': 1 rounding of 51200 elements, ")


@pytest.mark.parametrize("error", ["shift", "zero point", "bias", "weight"])
def test_a_planted_error_is_found(
    error: str, sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    text = sides[1].read_text()
    lines = text.split("\n")

    def changed(start: str, old: str, new: str) -> None:
        (at,) = (at for at, line in enumerate(lines) if start in line and old in line)
        assert lines[at].count(old) == 1
        lines[at] = lines[at].replace(old, new)

    if error == "zero point":
        changed("arith.constant", "-5 : i64", "-4 : i64")
    elif error == "shift":
        (at,) = (at for at, line in enumerate(lines) if "arith.shrsi" in line)
        name = lines[at].rpartition(", ")[2].partition(" ")[0]
        (at,) = (at for at, line in enumerate(lines) if f"{name} = arith.constant" in line)
        number = lines[at].rpartition("constant ")[2].partition(" ")[0]
        lines[at] = lines[at].replace(f" {number} :", f" {int(number) + 1} :")
    else:
        kind = ": tensor<200xi32>" if error == "bias" else ": tensor<40x200xi8>"
        (at,) = (at for at, line in enumerate(lines) if "constant dense" in line and kind in line)
        head, _, digits = lines[at].partition('"0x')
        # The first byte is the lowest of the first number.
        first = (int(digits[:2], 16) + 1) % 256
        lines[at] = f'{head}"0x{first:02X}{digits[2:]}'
    sides[1].write_text("\n".join(lines))
    assert check(sides)
    told = capsys.readouterr().err
    assert "codes were rounded before" in told
    assert "after.mlir:" in told


@pytest.mark.parametrize("kind", KINDS)
def test_random_layers_are_right(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = tmp_path / "before.mlir", tmp_path / "after.mlir"
    for seed, form in enumerate(("linalg", "tosa", "linalg", "tosa")):
        text = KINDS[kind](np.random.default_rng(seed)).text("main")
        context = ToolContext()
        module = parse_module(context, text)
        LowerToIntegersPass(to=form).apply(context, module)
        sides[0].write_text(text)
        sides[1].write_text(str(module))
        if "quant.qcast" not in str(module):
            assert not check(sides), capsys.readouterr().err


def test_other_values_are_not_compared(
    sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    text = sides[1].read_text()
    sides[1].write_text(text.replace("@main", "@other"))
    assert check(sides)
    assert "the other module has no such function" in capsys.readouterr().err
    sides[1].write_text(text.replace("0.37:-5", "0.37:-6").replace("3.700000e-01:-5", "0.37:-6"))
    assert check(sides)
    assert "do not have the same quantized values" in capsys.readouterr().err
