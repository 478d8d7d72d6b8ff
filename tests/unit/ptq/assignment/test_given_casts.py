"""Models that are quantized already, as their systems export them, and run before and behind."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_iree import iree_result
from installed import needs
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeCastOp,
    QuantizeCastOp,
    StatisticsOp,
)
from qdialect.dialects.quant.types import UniformQuantizedType, uniform_tensor
from qdialect.folding.report import Outcome, PassReport
from qdialect.frontends import from_onnx, from_torch
from qdialect.ir.elements import floats_attribute
from qdialect.ir.rewriting import insert_after
from qdialect.ops.along_axis import is_recordable
from qdialect.opt.registry import ToolContext
from qdialect.passes.canonicalize import CanonicalizePass
from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
from qdialect.ptq.assignment.settings import Settings, precision_of
from qdialect.ptq.assignment.whole_model import quantize_model
from qdialect.ptq.calibration.keys import constant_values
from qdialect.text import parse_module

pytestmark = [
    pytest.mark.exporters,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("without_plugins"),
]


def quantized(module: ModuleOp) -> PassReport:
    context = ToolContext(allow_unregistered=True)
    report = quantize_model(module, context, lambda keys: Settings(precision_of("torch-i8")))
    module.verify()
    return report


def returned(module: ModuleOp, *arguments: Any) -> NDArray[Any]:
    """What the only function of a module returns in IREE, with its casts lowered."""
    lowered = module.clone()
    context = ToolContext(allow_unregistered=True)
    LowerQuantShapesPass().apply(context, lowered)
    LowerQuantOpsPass(rounding="nearest-even", keep_round_trips=True).apply(context, lowered)
    CanonicalizePass().apply(context, lowered)
    return iree_result(lowered, *arguments)


def types_made(module: ModuleOp) -> list[UniformQuantizedType]:
    """What values of a module are quantized to, in its order."""
    return [
        uniform_tensor(op.result.type).element_type
        for op in module.walk()
        if isinstance(op, QuantizeCastOp)
    ]


STABLEHLO = """
!q = !quant.uniform<i8:f32, 0.05:3>
!o = !quant.uniform<i8:f32, 0.125:-7>
!w = !quant.uniform<i8:f32:1, {0.01,0.02}>
func.func @f(%x: tensor<2x3xf32>) -> tensor<4x1xf32> {
  %0 = "stablehlo.uniform_quantize"(%x) : (tensor<2x3xf32>) -> tensor<2x3x!q>
  %1 = "stablehlo.uniform_dequantize"(%0) : (tensor<2x3x!q>) -> tensor<2x3xf32>
  %w = "stablehlo.constant"() <{value = dense<[[1.0, 2.0], [0.5, -1.0], [0.25, 9.0]]>
    : tensor<3x2xf32>}> : () -> tensor<3x2xf32>
  %wq = "stablehlo.uniform_quantize"(%w) : (tensor<3x2xf32>) -> tensor<3x2x!w>
  %wd = "stablehlo.uniform_dequantize"(%wq) : (tensor<3x2x!w>) -> tensor<3x2xf32>
  %b = "stablehlo.constant"() <{value = dense<[0.5, -0.25]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %bb = "stablehlo.broadcast_in_dim"(%b) <{broadcast_dimensions = array<i64: 1>}>
    : (tensor<2xf32>) -> tensor<2x2xf32>
  %d = "stablehlo.dot_general"(%1, %wd) <{dot_dimension_numbers = #stablehlo.dot<
    lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}>
    : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %a = "stablehlo.add"(%d, %bb) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = "stablehlo.uniform_quantize"(%a) : (tensor<2x2xf32>) -> tensor<2x2x!o>
  %3 = "stablehlo.uniform_dequantize"(%2) : (tensor<2x2x!o>) -> tensor<2x2xf32>
  %r = "stablehlo.reshape"(%3) : (tensor<2x2xf32>) -> tensor<4x1xf32>
  return %r : tensor<4x1xf32>
}
"""


@needs("iree.compiler", "iree.runtime")
def test_stablehlo():
    module = parse_module(ToolContext(allow_unregistered=True), STABLEHLO)
    report = quantized(module)
    assert [record.outcome for record in report.records] == [Outcome.QUANTIZED] * 2
    slots = [(type.scales.item(), type.zero_points.item()) for type in types_made(module)]
    # The result of the reshape has what the module says of its operand.
    assert slots == [(0.05, 3), (0.125, -7), (0.125, -7)]
    weights, bias = (np.asarray(op.values) for op in module.walk() if isinstance(op, ConstantOp))
    # The last one does not fit, and is the highest code.
    assert weights.tolist() == [[100, 100], [50, -50], [25, 127]]
    steps = np.float32(0.05) * np.array([0.01, 0.02], "f4")
    assert np.array_equal(bias, np.rint(np.array([0.5, -0.25], "f4") / steps))
    x = np.random.default_rng(0).uniform(-4, 4, (2, 3)).astype("f4")
    codes = np.clip(np.rint(x / np.float32(0.05) + 3), -128, 127)
    read = (codes - 3) * np.float32(0.05)
    sums = read @ (weights * np.array([0.01, 0.02], "f4")) + bias * steps
    expected = (np.clip(np.rint(sums / 0.125 - 7), -128, 127) + 7) * 0.125
    assert np.allclose(returned(module, x), expected.reshape(4, 1), atol=1e-6)


def qdq_model(path: Path) -> None:
    """A convolution, a relu and a transpose, between pairs of ONNX."""
    onnx: Any = import_module("onnx")
    held, node = onnx.numpy_helper.from_array, onnx.helper.make_node
    random = np.random.default_rng(0)
    scales = random.uniform(0.01, 0.02, 4).astype("f4")
    arrays = {
        "w": random.integers(-127, 128, (4, 3, 1, 1)).astype("i1"),
        "w_scale": scales,
        "w_zero": np.zeros(4, "i1"),
        "x_scale": np.float32(0.05),
        "x_zero": np.uint8(120),
        "y_scale": np.float32(0.1),
        "y_zero": np.uint8(0),
        "b": (np.arange(4) - 2).astype("i4") * 500,
        "b_scale": np.float32(0.05) * scales,
        "b_zero": np.zeros(4, "i4"),
    }
    nodes = [
        node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["x_codes"]),
        node("DequantizeLinear", ["x_codes", "x_scale", "x_zero"], ["x_read"]),
        node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_read"], axis=0),
        node("DequantizeLinear", ["b", "b_scale", "b_zero"], ["b_read"], axis=0),
        node("Conv", ["x_read", "w_read", "b_read"], ["sums"]),
        node("Relu", ["sums"], ["r"]),
        node("QuantizeLinear", ["r", "y_scale", "y_zero"], ["y_codes"]),
        node("DequantizeLinear", ["y_codes", "y_scale", "y_zero"], ["y_read"]),
        node("Transpose", ["y_read"], ["y"], perm=[0, 2, 3, 1]),
    ]
    value, float32 = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [value("x", float32, [1, 3, 4, 4])],
        [value("y", float32, [1, 4, 4, 4])],
        [held(np.asarray(array), name) for name, array in arrays.items()],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)


@needs("onnx", "iree.compiler", "iree.runtime")
def test_onnx(tmp_path: Path):
    qdq_model(tmp_path / "model.onnx")
    module = from_onnx(tmp_path / "model.onnx")
    x = np.random.default_rng(1).uniform(-6, 6, (1, 3, 4, 4)).astype("f4")
    before = returned(module, x)
    report = quantized(module)
    # What is between the convolution and the relu has the parameters of the latter.
    assert {record.outcome for record in report.records} == {Outcome.QUANTIZED}
    slots = [(type.scales.item(), type.zero_points.item()) for type in types_made(module)]
    of_x, of_y = (float(np.float32(0.05)), 120), (float(np.float32(0.1)), 0)
    assert slots == [of_x, of_y, of_y, of_y]
    assert np.array_equal(returned(module, x), before)
    assert len(set(before.reshape(-1).tolist())) > 10


@needs("onnx")
def test_ranges_of_constants_keep_no_weight_from_being_read(tmp_path: Path):
    """A calibration records the scales of weights, too: they are constants of floats."""
    qdq_model(tmp_path / "model.onnx")
    texts = list[str]()
    for has_ranges in (False, True):
        module = from_onnx(tmp_path / "model.onnx")
        for value in constant_values(module) if has_ranges else ():
            if is_recordable(value):
                ends = floats_attribute(np.array([-1.0, 1.0]))
                value.replace_all_uses_with((op := StatisticsOp(value, ends, None, None)).result)
                op.operands = (value,)
                insert_after(op, value)
        quantized(module)
        backs = [op for op in module.walk() if isinstance(op, DequantizeCastOp)]
        texts.append("\n".join(str(op.input.type) for op in backs))
    assert "<i8:f32:0, {" in texts[0]
    assert "<i32:f32:0, {" in texts[0]
    assert texts[0] == texts[1]


MAPS = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (j)>"
PAIR = """
func.func @f(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %s = arith.constant dense<[0.5, 0.25, 0.125]> : tensor<3xf32>
  %z = arith.constant dense<[1, -6, 3]> : tensor<3xi8>
  %low = arith.constant 0.0 : f32
  %high = arith.constant 255.0 : f32
  %e = tensor.empty() : tensor<2x3xi8>
  %q = linalg.generic {indexing_maps = [EACH, CHANNEL, CHANNEL, EACH],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %s, %z : tensor<2x3xf32>, tensor<3xf32>, tensor<3xi8>) outs(%e : tensor<2x3xi8>) {
  ^bb0(%a: f32, %scale: f32, %zero: i8, %o: i8):
    %0 = arith.divf %a, %scale : f32
    %1 = math.roundeven %0 : f32
    %2 = arith.uitofp %zero : i8 to f32
    %3 = arith.addf %1, %2 : f32
    %4 = arith.maximumf %3, %low : f32
    %5 = arith.minimumf %4, %high : f32
    %6 = arith.fptoui %5 : f32 to i8
    linalg.yield %6 : i8
  } -> tensor<2x3xi8>
  %e2 = tensor.empty() : tensor<2x3xf32>
  %d = linalg.generic {indexing_maps = [EACH, OTHER, CHANNEL, EACH],
      iterator_types = ["parallel", "parallel"]}
      ins(%q, %s, %z : tensor<2x3xi8>, tensor<3xf32>, tensor<3xi8>) outs(%e2 : tensor<2x3xf32>) {
  ^bb0(%a: i8, %scale: f32, %zero: i8, %o: f32):
    %0 = arith.extui %a : i8 to i32
    %1 = arith.extui %zero : i8 to i32
    %2 = arith.subi %0, %1 : i32
    %3 = arith.sitofp %2 : i32 to f32
    %4 = arith.mulf %3, %scale : f32
    linalg.yield %4 : f32
  } -> tensor<2x3xf32>
  %e3 = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%d : tensor<2x3xf32>) outs(%e3 : tensor<3x2xf32>) permutation = [1, 0]
  return %t : tensor<3x2xf32>
}
"""


def test_pairs_along_an_axis():
    text = PAIR.replace("EACH", MAPS[0]).replace("CHANNEL", MAPS[1])
    module = parse_module(ToolContext(allow_unregistered=True), text.replace("OTHER", MAPS[1]))
    quantized(module)
    found = [
        (type.quantized_dimensions, type.scales.tolist(), type.zero_points.tolist())
        for type in types_made(module)
    ]
    slots = [0.5, 0.25, 0.125], [1, 250, 3]
    assert found == [((1,), *slots), ((0,), *slots)]
    # Another scale on the way back is no pair.
    other = text.replace("OTHER", MAPS[1]).replace("ins(%q, %s,", "ins(%q, %r,")
    other = other.replace("%e2 =", "%r = arith.constant dense<0.5> : tensor<3xf32>\n  %e2 =")
    module = parse_module(ToolContext(allow_unregistered=True), other)
    quantized(module)
    assert types_made(module) == []


@needs("torch", "torch_mlir", "torchao", "iree.compiler", "iree.runtime")
def test_pt2e():
    torch: Any = import_module("torch")
    flow: Any = import_module("torchao.quantization.pt2e.quantize_pt2e")
    quantizers: Any = import_module("torchao.testing.pt2e._xnnpack_quantizer")
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 5),
    ).eval()
    records = [torch.randn(1, 3, 6, 6) for _ in range(4)]
    exported = torch.export.export(network, (records[0],)).module()
    configuration = quantizers.get_symmetric_quantization_config(is_per_channel=True)
    quantizer = quantizers.XNNPACKQuantizer().set_global(configuration)
    prepared = flow.prepare_pt2e(exported, quantizer)
    for record in records:
        prepared(record)
    converted = flow.convert_pt2e(prepared)
    with torch.no_grad():
        expected = [converted(record).numpy() for record in records]
    module = from_torch(torch.export.export(converted, (records[0],)))
    report = quantized(module)
    assert {record.outcome for record in report.records} == {Outcome.QUANTIZED}
    assert len(report.records) == 5
    backs = [op for op in module.walk() if isinstance(op, DequantizeCastOp)]
    of_biases = [
        type
        for op in backs
        if (type := uniform_tensor(op.input.type).element_type).storage_format.width == 32
    ]
    # torch leaves biases in floats. Here, they count in steps of the product of two scales.
    assert len(of_biases) == 2
    step = types_made(module)[-1].scales.item()
    for record, wanted in zip(records, expected, strict=True):
        found = returned(module, record.numpy())
        assert np.abs(found - wanted).max() <= step * 1.0001
        assert np.abs(wanted).max() > 4 * step


@pytest.mark.parametrize(
    ("operand", "result"),
    [
        ("tensor<2xf16>", "tensor<2x!quant.uniform<i8:f32, 0.5:3>>"),
        ("tensor<2xf32>", "tensor<3x!quant.uniform<i8:f32, 0.5:3>>"),
        (
            "tensor<2x!quant.uniform<i8:f32, 0.5:3>>",
            "tensor<2x!quant.uniform<i8:f16, 0.5:3>>",
        ),
    ],
)
def test_casts_that_stablehlo_would_refuse_are_left(operand: str, result: str):
    context = ToolContext(allow_unregistered=True)
    module = parse_module(
        context,
        f"""
func.func @f(%a: {operand}) -> {result} {{
  %0 = "stablehlo.uniform_quantize"(%a) : ({operand}) -> {result}
  return %0 : {result}
}}
""",
    )
    before = str(module)
    quantized(module)
    assert str(module) == before
