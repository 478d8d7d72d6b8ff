"""Exported layers: IREE contracts integers, and the results are those of numpy."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantized_layers import LAYERS, case_of

from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.interpreters import TypedArray, find_function, run_function
from qdialect.check.iree_runs import IN_INTEGERS, LoadedModule, compile_module
from qdialect.export.export_tool import main
from qdialect.integers.compiling import store_bytes_as
from qdialect.integers.passes import LowerToIntegersPass
from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module, write_module

pytestmark = [pytest.mark.iree, pytest.mark.without_xdsl]


@pytest.mark.parametrize("name", LAYERS)
def test_each_layer_runs_in_integers(name: str) -> None:
    text = case_of(LAYERS[name], 127).text

    # The IR in which IREE has made contractions of integers.
    context = ToolContext()
    module = parse_module(context, text)
    side = Side(module, context)
    flags = ["--compile-to=global-optimization"]
    _, printed = compile_module(side, lowering=IN_INTEGERS, flags=flags)
    bodies = re.findall(
        r"iterator_types = \[[^\]]*reduction.*?linalg\.yield", printed.decode(), re.S
    )
    products = [body for body in bodies if "mul" in body]
    assert len(products) == 1
    assert "arith.muli" in products[0]
    assert "quant." not in printed.decode()


@pytest.mark.parametrize("name", LAYERS)
def test_each_layer_computes_what_numpy_does(name: str, tmp_path: Path) -> None:
    case = case_of(LAYERS[name], 127)
    module = parse_module(ToolContext(), case.text)
    (tmp_path / "layer.mlir").write_text(case.text)
    binary = tmp_path / "layer.vmfb"
    assert main([str(tmp_path / "layer.mlir"), "-o", str(binary)]) == 0
    given = TypedArray.of(case.operand.view("u4"), module_type(module, 0))
    (result,) = LoadedModule(binary.read_bytes()).run(find_function(module, "main"), [given])
    case.check(result.elements.view("f4"))


@pytest.mark.parametrize("is_refused", [False, True])
def test_all_forms_of_products_are_in_one_file(
    is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With inner tiles of two large matrices alone, if IREE compiles them: it has no others."""
    compiled = list[bool]()

    def compile_once(side: Side, **options: Any) -> Any:
        compiled.append("--iree-llvmcpu-enable-inner-tiled" in options["flags"])
        if compiled[-1] and is_refused:
            raise RunFailure("it does not", side.module)
        return compile_module(side, **options)

    monkeypatch.setattr("qdialect.integers.compiling.compile_module", compile_once)
    monkeypatch.setattr("qdialect.integers.compiling.has_vnni", lambda: True)
    rng = np.random.default_rng(0)
    layers = {
        "linalg.matmul": ("256x256", "256x64", "256x64"),
        "linalg.vecmat": ("24", "24x5", "5"),
        "linalg.matvec": ("5x24", "24", "5"),
        "linalg.batch_matmul": ("3x4x24", "3x24x5", "3x4x5"),
        "linalg.conv_2d_nchw_fchw": ("2x6x7x8", "5x6x1x1", "2x5x7x8"),
        "linalg.conv_1d_nwc_wcf": ("2x9x6", "3x6x7", "2x7x7"),
        "linalg.depthwise_conv_2d_nchw_chw": ("2x6x7x8", "6x3x2", "2x6x5x7"),
    }
    body, given = "", list[Any]()
    for at, (name, shapes) in enumerate(layers.items()):
        x, w, y = (f"tensor<{shape}x" for shape in shapes)
        sizes = [[*map(int, shape.split("x"))] for shape in shapes]
        codes = rng.integers(-127, 128, sizes[1])
        # Codes: no engine rounds anything but sums.
        given.append((rng.integers(-120, 120, sizes[0]) / 64).astype("f4"))
        body += f"""
  %q{at} = quant.qcast %x{at} : {x}f32> to {x}!x>
  %a{at} = quant.dcast %q{at} : {x}!x> to {x}f32>
  %c{at} = quant.constant dense<{codes.tolist()}> : {w}!w>
  %b{at} = quant.dcast %c{at} : {w}!w> to {w}f32>
  %e{at} = tensor.empty() : {y}f32>
  %s{at} = linalg.fill ins(%zero : f32) outs(%e{at} : {y}f32>) -> {y}f32>
  %p{at} = {name} ins(%a{at}, %b{at} : {x}f32>, {w}f32>) outs(%s{at} : {y}f32>) -> {y}f32>
  %r{at} = quant.qcast %p{at} : {y}f32> to {y}!y>
  %d{at} = quant.dcast %r{at} : {y}!y> to {y}f32>"""
    inputs = ", ".join(f"%x{at}: tensor<{x}xf32>" for at, (x, _, _) in enumerate(layers.values()))
    results = ", ".join(f"tensor<{y}xf32>" for _, _, y in layers.values())
    names = ", ".join(f"%d{at}" for at in range(len(layers)))
    text = f"""func.func @main({inputs}) -> ({results}) {{
  %zero = arith.constant 0.0 : f32{body}
  return {names} : {results}
}}"""
    types = {"x": "u8:f32, 0.015625:130", "w": "i8:f32, 0.01", "y": "u8:f32, 0.03:120"}
    text = re.sub(r"!([xwy])\b", lambda name: f"!quant.uniform<{types[name[1]]}>", text)
    source, binary = tmp_path / "layers.mlir", tmp_path / "layers.vmfb"
    source.write_text(text)
    assert main([str(source), "-o", str(binary)]) == 0
    assert compiled == ([True, False] if is_refused else [True])
    context = ToolContext()
    module = parse_module(context, text)
    LowerToIntegersPass().apply(context, module)
    arrays = [
        TypedArray.of(array.view("u4"), module_type(module, at)) for at, array in enumerate(given)
    ]
    expected = run_function(module, "main", arrays, context)
    found = LoadedModule(binary.read_bytes()).run(find_function(module, "main"), arrays)
    for name, one, other in zip(layers, expected, found, strict=True):
        assert (one.elements == other.elements).all(), name
        assert len(np.unique(one.elements)) > 2


def module_type(module: Any, index: int) -> Any:
    return find_function(module, "main").function_type.inputs.data[index]


@pytest.mark.parametrize("type", ["i8:f32, 0.25:3", "u8<1:255>:f32:1, {0.25:3,1.0,0.1:200,3.0:1}"])
def test_casts_are_run_as_iree_runs_them(type: str) -> None:
    """The quotients are ties, special numbers, and random ones; zero points are added behind."""
    quantized = f"tensor<64x4x!quant.uniform<{type}>>"
    context = ToolContext(allow_unregistered=True)
    text = f"""func.func @main(%x: tensor<64x4xf32>) -> {quantized} {{
  %q = quant.qcast %x : tensor<64x4xf32> to {quantized}
  return %q : {quantized}
}}"""
    side = Side(parse_module(context, text), context)
    lowered, binary = compile_module(side, lowering=IN_INTEGERS)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 4)).astype("f4") * 40
    x[:16] = rng.integers(-99, 100, (16, 4)) / 2 * [0.25, 1, 0.1, 3]
    x[16] = [np.nan, np.inf, -np.inf, -0.0]
    main = find_function(lowered, "main")
    given = TypedArray.of(x.view("u4"), main.function_type.inputs.data[0])
    (expected,) = LoadedModule(binary).run(main, [given])
    (result,) = run_function(lowered, "main", [given], context)
    assert (result.elements == expected.elements).all()
    assert len(np.unique(result.elements)) > 40


def test_unsigned_integers_become_signed_within_functions() -> None:
    """Two weights of the same values, and a function whose type says how its argument is stored."""
    context = ToolContext()
    quantized = "tensor<2x!quant.uniform<u8:f32, 0.5:130>>"
    constant = f"%0 = quant.constant dense<[0, 255]> : {quantized}"
    floats = f"%1 = quant.dcast %0 : {quantized} to tensor<2xf32>\nreturn %1 : tensor<2xf32>"
    module = parse_module(context, f"func.func @f() -> tensor<2xf32> {{\n{constant}\n{floats}\n}}")
    store_bytes_as("i8", module, context)
    text = StringIO()
    write_module(context, module, text)
    assert "quant.constant dense<[-128, 127]>" in text.getvalue()
    assert "!quant.uniform<i8:f32, 5.000000e-01:2>" in text.getvalue()
    module = parse_module(
        context, f"func.func @f(%0: {quantized}) -> tensor<2xf32> {{\n{floats}\n}}"
    )
    before = str(module)
    store_bytes_as("i8", module, context)
    assert str(module) == before


def test_what_cannot_be_exported_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, result = tmp_path / "model.mlir", tmp_path / "model.vmfb"
    model.write_text("""
func.func @f(%x: f32) -> f32 {
  %0 = "test.op"(%x) : (f32) -> f32
  return %0 : f32
}
""")
    result.write_bytes(b"as it was")
    assert main([str(model), "--allow-unregistered-dialect", "-o", str(result)]) == 1
    assert "model.mlir: error: IREE does not compile the module" in capsys.readouterr().err
    assert result.read_bytes() == b"as it was"
    model.write_text(model.read_text().replace("f32", "tensor<2x?xf32>"))
    assert main([str(model), "--allow-unregistered-dialect", "-o", str(result)]) == 1
    assert "--shape of import or quantize sets them" in capsys.readouterr().err
    assert main([str(model), "-o", str(tmp_path / "model.bin")]) == 1
    assert "must end in .vmfb" in capsys.readouterr().err
    assert main([str(tmp_path / "none.mlir"), "-o", str(result)]) == 1
    assert "cannot open" in capsys.readouterr().err
