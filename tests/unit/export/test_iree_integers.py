"""Exported layers: IREE contracts integers, and the results are those of numpy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.check.compared_modules import Side
from qdialect.check.interpreters import TypedArray, find_function, run_function
from qdialect.check.iree_runs import IN_INTEGERS, LoadedModule, compile_module
from qdialect.export.export_tool import main, store_bytes_as
from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module, write_module

pytestmark = [pytest.mark.iree, pytest.mark.without_xdsl]

Numbers = NDArray[np.floating[Any]]


class Layer(NamedTuple):
    """A sum of products of an operand and a weight, whose last axis has the channels."""

    shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    """Those of the operand, the weight, and the result."""
    text: str
    """Ops that make `%y` of `%x` and `%w`; X, W and Y stand for types."""
    sums: Callable[[Numbers, Numbers], Numbers]
    axis: int = -1
    """The axis of the channels of the weight."""


def convolved(x: Numbers, w: Numbers) -> Numbers:
    """A convolution; channels are the last axis of images, and of a weight of (h, w, in, out)."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
    return np.einsum("nyxchw,hwco->nyxo", windows, w)


def convolved_with_channels_first(x: Numbers, w: Numbers) -> Numbers:
    return convolved(x, np.moveaxis(w, 0, 3))


def convolved_by_channel(x: Numbers, w: Numbers) -> Numbers:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
    return np.einsum("nyxchw,hwc->nyxc", windows, w)


FILLED = """
  %e = tensor.empty() : Y
  %s = linalg.fill ins(%0 : f32) outs(%e : Y) -> Y
"""
IMAGES = ((1, 8, 8, 16), (3, 3, 16, 32), (1, 6, 6, 32))
DEPTH = ((1, 8, 8, 16), (3, 3, 16), (1, 6, 6, 16))

LAYERS: Final[Mapping[str, Layer]] = {
    "linalg.matmul": Layer(
        ((8, 64), (64, 32), (8, 32)),
        FILLED + "%y = linalg.matmul ins(%x, %w : X, W) outs(%s : Y) -> Y",
        np.matmul,
    ),
    "linalg.batch_matmul": Layer(
        ((2, 8, 64), (2, 64, 32), (2, 8, 32)),
        FILLED + "%y = linalg.batch_matmul ins(%x, %w : X, W) outs(%s : Y) -> Y",
        np.matmul,
    ),
    "linalg.conv_2d_nhwc_hwcf": Layer(
        IMAGES,
        FILLED + "%y = linalg.conv_2d_nhwc_hwcf ins(%x, %w : X, W) outs(%s : Y) -> Y",
        convolved,
    ),
    "linalg.depthwise_conv_2d_nhwc_hwc": Layer(
        DEPTH,
        FILLED + "%y = linalg.depthwise_conv_2d_nhwc_hwc ins(%x, %w : X, W) outs(%s : Y) -> Y",
        convolved_by_channel,
    ),
    "tosa.matmul": Layer(
        ((2, 8, 64), (2, 64, 32), (2, 8, 32)),
        """
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %y = tosa.matmul %x, %w, %z, %z : (X, W, tensor<1xf32>, tensor<1xf32>) -> Y
""",
        np.matmul,
    ),
    "tosa.conv2d": Layer(
        ((1, 8, 8, 16), (32, 3, 3, 16), (1, 6, 6, 32)),
        """
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %b = "tosa.const"() <{values = dense<0.0> : tensor<32xf32>}> : () -> tensor<32xf32>
  %y = tosa.conv2d %x, %w, %b, %z, %z {acc_type = f32, dilation = array<i64: 1, 1>,
    pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}
    : (X, W, tensor<32xf32>, tensor<1xf32>, tensor<1xf32>) -> Y
""",
        convolved_with_channels_first,
        0,
    ),
    "stablehlo.dot_general": Layer(
        ((8, 64), (64, 32), (8, 32)),
        "%y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (X, W) -> Y",
        np.matmul,
    ),
    "stablehlo.convolution": Layer(
        IMAGES,
        """
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [1, 1]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (X, W) -> Y
""",
        convolved,
    ),
}

TEXT = """
!x = !quant.uniform<u8:f32, 0.03125:117>
!w = !quant.uniform<i8<-127:127>:f32:CHANNELS>
!y = !quant.uniform<i8:f32, 0.0625:-5>
func.func @main(%a: XF) -> YF {
  %0 = arith.constant 0.0 : f32
  %q = quant.qcast %a : XF to XQ
  %x = quant.dcast %q : XQ to XF
  %c = "quant.constant"() <{value = dense<WEIGHT> : WI}> : () -> WQ
  %w = quant.dcast %c : WQ to WF
  OPS
  %r = quant.qcast %y : YF to YQ
  %d = quant.dcast %r : YQ to YF
  return %d : YF
}
"""


def module_of(layer: Layer, codes: NDArray[np.int8], scales: Numbers) -> str:
    axis = layer.axis % codes.ndim
    channels = f"{axis}, {{{', '.join(f'{scale:e}' for scale in scales)}}}"
    text = TEXT.replace("CHANNELS", channels).replace("WEIGHT", str(codes.tolist()))
    text = text.replace("OPS", re.sub(r"\b([XWY])\b", r"\1F", layer.text))
    for name, shape in zip("XWY", layer.shapes, strict=True):
        lengths = "".join(f"{length}x" for length in shape)
        elements = {"F": "f32", "I": "i8", "Q": f"!{name.lower()}"}
        for kind, element in elements.items():
            text = re.sub(rf"\b{name}{kind}\b", f"tensor<{lengths}{element}>", text)
    return text


@pytest.mark.parametrize("name", LAYERS)
def test_each_layer_runs_in_integers(name: str, tmp_path: Path) -> None:
    layer, rng = LAYERS[name], np.random.default_rng(0)
    codes = rng.integers(-127, 128, layer.shapes[1], np.int8)
    scales = 2.0 ** rng.integers(-12, -8, layer.shapes[1][layer.axis])
    text = module_of(layer, codes, scales)

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

    # What the command writes computes what numpy does.
    (tmp_path / "layer.mlir").write_text(text)
    binary = tmp_path / "layer.vmfb"
    assert main([str(tmp_path / "layer.mlir"), "-o", str(binary)]) == 0
    x = rng.integers(0, 256, layer.shapes[0]) - 117
    given = TypedArray.of((x / 32).astype("f4").view("u4"), module_type(module, 0))
    (result,) = LoadedModule(binary.read_bytes()).run(find_function(module, "main"), [given])
    shape = [1] * codes.ndim
    shape[layer.axis] = -1
    # Exact: integers times powers of two.
    real = layer.sums(x / 32.0, codes * scales.reshape(shape))
    expected = np.clip(np.rint(real / 0.0625) - 5, -128, 127)
    ties = np.abs(real / 0.0625 % 1 - 0.5) < 2.0**-10
    got = result.elements.view("f4").astype(np.float64) / 0.0625 - 5
    assert np.abs(got - expected).max() <= 1
    assert not ((got != expected) & ~ties).any()
    assert len(np.unique(expected)) > 40


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
    assert main([str(model), "-o", str(tmp_path / "model.bin")]) == 1
    assert "must end in .vmfb" in capsys.readouterr().err
    assert main([str(tmp_path / "none.mlir"), "-o", str(result)]) == 1
    assert "cannot open" in capsys.readouterr().err
