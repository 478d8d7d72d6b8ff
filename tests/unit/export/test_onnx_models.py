"""Models of ONNX: ONNX Runtime computes what numpy, torch, or the module's own run does."""

from __future__ import annotations

import math
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from moved_by_numpy import Chain
from numpy.typing import NDArray
from quantized_layers import LAYERS, case_of

from qdialect.check.interpreters import TypedArray, find_function, run_function
from qdialect.export import onnx_graph
from qdialect.export.export_tool import main
from qdialect.export.onnx_functions import COMPOSED, NODES
from qdialect.export.onnx_regions import function_of
from qdialect.frontends import from_onnx
from qdialect.ops import own
from qdialect.ops.model import (
    OnElements,
    OnNumbers,
    OpModel,
    OpModels,
    models_for_all,
    register_models,
)
from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module

pytestmark = [pytest.mark.exporters, pytest.mark.without_xdsl]

Numbers = NDArray[Any]


def exported(text: str, folder: Path, *flags: str) -> Path:
    """The file that the command writes for a module."""
    pytest.importorskip("onnx")
    (folder / "module.mlir").write_text(text)
    model = folder / "module.onnx"
    flags = ("--allow-unregistered-dialect", *flags)
    assert main([str(folder / "module.mlir"), "-o", str(model), *flags]) == 0
    return model


def results_of(model: Path, *arguments: Numbers, level: str = "ALL") -> list[Numbers]:
    """What ONNX Runtime computes; it writes the graph that it runs to a file."""
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel,
        "ORT_DISABLE_ALL" if level == "NONE" else f"ORT_ENABLE_{level}",
    )
    options.optimized_model_filepath = str(model.with_suffix(".run.onnx"))
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, arguments, strict=True)))


def nodes_of(model: Path) -> Counter[str]:
    """The numbers of nodes of each type in the graph that was run."""
    return written_in(model.with_suffix(".run.onnx"))


def written_in(model: Path) -> Counter[str]:
    """The numbers of nodes of each type in a file."""
    onnx: Any = pytest.importorskip("onnx")
    return Counter(node.op_type for node in onnx.load(str(model)).graph.node)


def run_here(text: str, *arguments: Numbers) -> list[Numbers]:
    """What qdialect-run computes, as numbers."""
    context = ToolContext(allow_unregistered=True)
    module = parse_module(context, text)
    types = find_function(module, "main").function_type.inputs.data
    given = [
        TypedArray.of_numbers(np.asarray(argument, "f8"), type)
        for argument, type in zip(arguments, types, strict=True)
    ]
    return [result.numbers for result in run_function(module, "main", given, context)]


# Layers


BATCHES = ("linalg.batch_matmul", "tosa.matmul")


@pytest.mark.parametrize("name", LAYERS)
def test_each_layer_is_one_node_of_integers(name: str, tmp_path: Path) -> None:
    """Weights have 7 bits: on CPUs without VNNI, ONNX Runtime saturates pairs of products."""
    case = case_of(LAYERS[name], 63)
    model = exported(case.text, tmp_path)
    (result,) = results_of(model, case.operand)
    case.check(result)
    nodes = nodes_of(model)
    integers = sum(nodes[type] for type in ("QLinearConv", "QLinearMatMul", "QGemm"))
    floats = sum(nodes[type] for type in ("Conv", "MatMul", "Gemm", "MatMulNBits"))
    # It has no products of integers for several matrices with a scale for each column.
    assert (integers, floats) == ((0, 1) if name in BATCHES else (1, 0)), nodes


WITH_BIAS = """
!x = !quant.uniform<u8:f32, 0.03125:117>
!w = !quant.uniform<i8:f32:1, {0.5, 0.25, 0.125}>
!b = !quant.uniform<i32:f32:0, {0.015625, 0.0078125, 0.00390625}>
!y = !quant.uniform<u8:f32, 0.25>
func.func @main(%a: tensor<4x2xf32>) -> tensor<4x3xf32> {
  %q = quant.qcast %a : tensor<4x2xf32> to tensor<4x2x!x>
  %x = quant.dcast %q : tensor<4x2x!x> to tensor<4x2xf32>
  %c = quant.constant dense<[[1, -2, 3], [4, 5, -6]]> : tensor<2x3x!w>
  %w = quant.dcast %c : tensor<2x3x!w> to tensor<2x3xf32>
  %d = quant.constant dense<[64, -64, 1024]> : tensor<3x!b>
  %b = quant.dcast %d : tensor<3x!b> to tensor<3xf32>
  %e = tensor.empty() : tensor<4x3xf32>
  %s = linalg.broadcast ins(%b : tensor<3xf32>) outs(%e : tensor<4x3xf32>) dimensions = [0]
  %m = linalg.matmul ins(%x, %w : tensor<4x2xf32>, tensor<2x3xf32>)
    outs(%s : tensor<4x3xf32>) -> tensor<4x3xf32>
  %p = quant.qcast %m : tensor<4x3xf32> to tensor<4x3x!y>
  %y = quant.dcast %p : tensor<4x3x!y> to tensor<4x3xf32>
  %zero = arith.constant dense<0.0> : tensor<4x3xf32>
  %r = arith.maximumf %y, %zero : tensor<4x3xf32>
  %n = quant.qcast %r : tensor<4x3xf32> to tensor<4x3x!y>
  %z = quant.dcast %n : tensor<4x3x!y> to tensor<4x3xf32>
  return %z : tensor<4x3xf32>
}
"""


def test_a_bias_and_a_clamp_are_part_of_the_layer(tmp_path: Path) -> None:
    x = np.array([[1, 2], [-1, 0.5], [3, -3], [0, 0]], "f4")
    model = exported(WITH_BIAS, tmp_path)
    (result,) = results_of(model, x)
    w = np.array([[1, -2, 3], [4, 5, -6]]) * [0.5, 0.25, 0.125]
    b = np.array([64, -64, 1024]) * [0.015625, 0.0078125, 0.00390625]
    expected = np.clip(np.rint((x @ w + b) / 0.25), 0, 255) * 0.25
    assert np.array_equal(result, expected)
    types = {"QuantizeLinear": 2, "DequantizeLinear": 4, "Gemm": 1, "Identity": 1}
    assert written_in(model) == types
    assert nodes_of(model)["QGemm"] == 1


def test_weights_on_the_left_have_a_scale_for_each_row(tmp_path: Path) -> None:
    """ONNX Runtime refuses them when it runs a model, unless they are the second operand."""
    text = """
!x = !quant.uniform<u8:f32, 0.03125:117>
!w = !quant.uniform<i8:f32:0, {0.5, 0.25, 0.125}>
func.func @main(%a: tensor<2x4xf32>) -> tensor<3x4xf32> {
  %q = quant.qcast %a : tensor<2x4xf32> to tensor<2x4x!x>
  %x = quant.dcast %q : tensor<2x4x!x> to tensor<2x4xf32>
  %c = quant.constant dense<[[1, 4], [-2, 5], [3, -6]]> : tensor<3x2x!w>
  %w = quant.dcast %c : tensor<3x2x!w> to tensor<3x2xf32>
  %y = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0]
    : (tensor<3x2xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}
"""
    x = np.array([[1, -1, 3, 0], [2, 0.5, -3, 0]], "f4")
    model = exported(text, tmp_path)
    (result,) = results_of(model, x)
    w = np.array([[1, 4], [-2, 5], [3, -6]]) * [[0.5], [0.25], [0.125]]
    assert np.array_equal(result, w @ x)
    nodes = nodes_of(model)
    assert (nodes["MatMulIntegerToFloat"], nodes["MatMul"]) == (1, 0), nodes


REPEATED = """
!x = !quant.uniform<u8:f32, 0.03125:117>
!w = !quant.uniform<i8:f32:1, {0.5, 0.25, 0.125}>
!b = !quant.uniform<i32:f32:0, {0.015625, 0.0078125, 0.00390625}>
!y = !quant.uniform<u8:f32, 0.25:100>
func.func @main(%a: tensor<4x1x2xf32>) -> tensor<4x1x3xf32> {
  %q = quant.qcast %a : tensor<4x1x2xf32> to tensor<4x1x2x!x>
  %x = quant.dcast %q : tensor<4x1x2x!x> to tensor<4x1x2xf32>
  %c = quant.constant dense<[[1, -2, 3], [4, 5, -6]]> : tensor<2x3x!w>
  %d = quant.dcast %c : tensor<2x3x!w> to tensor<2x3xf32>
  %e = tensor.empty() : tensor<4x2x3xf32>
  %w = linalg.broadcast ins(%d : tensor<2x3xf32>) outs(%e : tensor<4x2x3xf32>) dimensions = [0]
  %f = quant.constant dense<[64, -64, 1024]> : tensor<3x!b>
  %b = quant.dcast %f : tensor<3x!b> to tensor<3xf32>
  %g = tensor.empty() : tensor<4x1x3xf32>
  %s = linalg.broadcast ins(%b : tensor<3xf32>) outs(%g : tensor<4x1x3xf32>) dimensions = [0, 1]
  %m = linalg.batch_matmul ins(%x, %w : tensor<4x1x2xf32>, tensor<4x2x3xf32>)
    outs(%s : tensor<4x1x3xf32>) -> tensor<4x1x3xf32>
  %p = quant.qcast %m : tensor<4x1x3xf32> to tensor<4x1x3x!y>
  %y = quant.dcast %p : tensor<4x1x3x!y> to tensor<4x1x3xf32>
  return %y : tensor<4x1x3xf32>
}
"""


def test_weights_that_are_repeated_for_a_batch_are_one_matrix(tmp_path: Path) -> None:
    """PyTorch's exporter multiplies `[64, 1, k]` by `[k, n]`, which torch-mlir repeats 64 times."""
    x = np.array([[1, 2], [-1, 0.5], [3, -3], [0, 0]], "f4")[:, None]
    model = exported(REPEATED, tmp_path)
    (result,) = results_of(model, x)
    w = np.array([[1, -2, 3], [4, 5, -6]]) * [0.5, 0.25, 0.125]
    b = np.array([64, -64, 1024]) * [0.015625, 0.0078125, 0.00390625]
    codes = np.rint((x @ w + b) / 0.25) + 100
    assert np.array_equal(result, (np.clip(codes, 0, 255) - 100) * 0.25)
    assert written_in(model)["Expand"] == 0
    nodes = nodes_of(model)
    assert (nodes["QGemm"], nodes["MatMul"]) == (1, 0), nodes


@pytest.mark.parametrize("is_quantized", [True, False])
def test_a_layer_reads_floats_of_the_type_of_its_sums(is_quantized: bool, tmp_path: Path) -> None:
    """As torch-mlir writes a convolution of f16."""
    weights = "%c = arith.constant dense<[[0.1, -2.0], [0.3, 0.4]]> : tensor<2x2xf16>"
    after, operand, result = "", "%x", "%y"
    if is_quantized:
        weights = """
  %k = quant.constant dense<[[1, -20], [3, 4]]> : tensor<2x2x!w>
  %c = quant.dcast %k : tensor<2x2x!w> to tensor<2x2xf16>
  %q = quant.qcast %x : tensor<2x2xf16> to tensor<2x2x!x>
  %d = quant.dcast %q : tensor<2x2x!x> to tensor<2x2xf16>"""
        after = """
  %r = quant.qcast %y : tensor<2x2xf32> to tensor<2x2x!y>
  %z = quant.dcast %r : tensor<2x2x!y> to tensor<2x2xf32>"""
        operand, result = "%d", "%z"
    text = f"""
!w = !quant.uniform<i8:f16, 0.1>
!x = !quant.uniform<u8:f16, 0.3:7>
!y = !quant.uniform<u8:f32, 0.03:99>
func.func @main(%x: tensor<2x2xf16>) -> tensor<2x2xf32> {{
  {weights}
  %zeros = arith.constant dense<0.0> : tensor<2x2xf32>
  %y = linalg.matmul ins({operand}, %c : tensor<2x2xf16>, tensor<2x2xf16>)
    outs(%zeros : tensor<2x2xf32>) -> tensor<2x2xf32>{after}
  return {result} : tensor<2x2xf32>
}}
"""
    x = np.array([[1, -2], [0.7, 3]], "f2")
    model = exported(text, tmp_path)
    (computed,), (expected,) = results_of(model, x), run_here(text, x)
    # The casts of the model are not rounded to f16.
    np.testing.assert_allclose(computed, expected, rtol=1e-3 if is_quantized else 1e-6)
    assert nodes_of(model)["QLinearMatMul"] == int(is_quantized)


PADDED = """func.func @main(%x: tensor<1x1x3x3xf32>) -> tensor<1x1x4x4xf32> {
  %z = arith.constant 0.0 : f32
  %c = quant.constant dense<[[[[1, 2], [-3, 4]]]]> : tensor<1x1x2x2x!quant.uniform<i8:f32, 0.5>>
  %w = quant.dcast %c : tensor<1x1x2x2x!quant.uniform<i8:f32, 0.5>> to tensor<1x1x2x2xf32>
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %z : f32
  } : tensor<1x1x3x3xf32> to tensor<1x1x5x5xf32>
  %q = quant.qcast %p : tensor<1x1x5x5xf32> to tensor<1x1x5x5x!quant.uniform<u8:f32, 0.25:9>>
  %d = quant.dcast %q : tensor<1x1x5x5x!quant.uniform<u8:f32, 0.25:9>> to tensor<1x1x5x5xf32>
  %e = arith.constant dense<0.0> : tensor<1x1x4x4xf32>
  %y = linalg.conv_2d_nchw_fchw ins(%d, %w : tensor<1x1x5x5xf32>, tensor<1x1x2x2xf32>)
    outs(%e : tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  return %y : tensor<1x1x4x4xf32>
}
"""


def test_zeros_that_are_quantized_are_padding_of_the_layer(tmp_path: Path) -> None:
    x = np.arange(-4.0, 5).astype("f4").reshape(1, 1, 3, 3)
    model = exported(PADDED, tmp_path)
    (result,) = results_of(model, x)
    wide = np.pad(np.maximum(x[0, 0], -2.25), 1)
    w = np.array([[0.5, 1], [-1.5, 2]])
    expected = [[(wide[i : i + 2, j : j + 2] * w).sum() for j in range(4)] for i in range(4)]
    assert result[0, 0].tolist() == expected
    onnx: Any = pytest.importorskip("onnx")
    (conv,) = (node for node in onnx.load(str(model)).graph.node if node.op_type == "Conv")
    assert [[*a.ints] for a in conv.attribute if a.name == "pads"] == [[1, 1, 1, 1]]


def test_a_logistic_function_is_one_node(tmp_path: Path) -> None:
    """As torch-mlir writes it; another numerator makes it another function."""
    text = """func.func @main(%x: tensor<7xf32>) -> (tensor<7xf32>, tensor<7xf32>) {
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %e = tensor.empty() : tensor<7xf32>
  %y, %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>,
      affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<7xf32>) outs(%e, %e : tensor<7xf32>, tensor<7xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %n = arith.negf %a : f32
    %p = math.exp %n : f32
    %s = arith.addf %p, %one : f32
    %d = arith.divf %one, %s : f32
    %f = arith.divf %two, %s : f32
    linalg.yield %d, %f : f32, f32
  } -> (tensor<7xf32>, tensor<7xf32>)
  return %y, %z : tensor<7xf32>, tensor<7xf32>
}
"""
    x = np.linspace(-9, 9, 7).astype("f4")
    model = exported(text, tmp_path)
    one, two = results_of(model, x)
    exact = 1 / (1 + np.exp(-x.astype("f8")))
    # The kernel of ONNX Runtime is exact to that, whatever the result.
    np.testing.assert_allclose(one, exact, rtol=0, atol=1e-7)
    np.testing.assert_allclose(two, 2 * exact, rtol=1e-6)
    kinds = {"Sigmoid": 1, "Neg": 1, "Exp": 1, "Add": 1, "Div": 1, "Identity": 2}
    assert written_in(model) == kinds


HARD = {
    "HardSwish": "%p = arith.mulf %a, %h : f32\n %r = arith.divf %p, %six : f32",
    "HardSwish, of a factor": "%d = arith.divf %h, %six : f32\n %r = arith.mulf %d, %a : f32",
    "HardSigmoid": "%r = arith.divf %h, %six : f32",
}


@pytest.mark.parametrize("name", HARD)
def test_hard_functions_are_one_node(name: str, tmp_path: Path) -> None:
    text = f"""
func.func @main(%x: tensor<101xf32>) -> tensor<101xf32> {{
  %zero = arith.constant 0.0 : f32
  %three = arith.constant 3.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : tensor<101xf32>
  %y = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}} ins(%x : tensor<101xf32>) outs(%e : tensor<101xf32>) {{
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %three : f32
    %m = arith.maximumf %s, %zero : f32
    %h = arith.minimumf %m, %six : f32
    {HARD[name]}
    linalg.yield %r : f32
  }} -> tensor<101xf32>
  return %y : tensor<101xf32>
}}
"""
    x = np.linspace(-5, 5, 101).astype("f4")
    model = exported(text, tmp_path)
    exact = np.clip(x.astype("f8") + 3, 0, 6) / 6
    if name != "HardSigmoid":
        exact *= x
    np.testing.assert_allclose(results_of(model, x)[0], exact, rtol=0, atol=1e-6)
    assert written_in(model) == {name.split(",")[0]: 1, "Identity": 1}


RECTIFIERS = {
    "LeakyRelu": ("cmpf olt, %a, %zero : f32", "%m, %a", "3x1", "0.25"),
    "LeakyRelu, of more digits": ("cmpf olt, %w, %wide : f64", "%m, %a", "3x1", "0.25"),
    "LeakyRelu, turned": ("cmpf oge, %a, %zero : f32", "%a, %m", "3x1", "0.25"),
    "LeakyRelu, as in PyTorch": ("cmpf ogt, %a, %zero : f32", "%a, %m", "3x1", "0.25"),
    "PRelu": ("cmpf olt, %a, %zero : f32", "%m, %a", "3x1", "[[0.5], [-2.0], [0.0]]"),
    "PRelu, as in PyTorch": ("cmpf ogt, %a, %zero : f32", "%a, %m", "3x1", "[[0.5], [2.0], [0.0]]"),
    "PRelu, at most": ("cmpf ole, %a, %zero : f32", "%m, %a", "3x1", "[[0.5], [2.0], [0.0]]"),
    "PRelu, turned": ("cmpf oge, %a, %zero : f32", "%a, %m", "3x1", "[[0.5], [-2.0], [0.0]]"),
    "Max": ("cmpf olt, %a, %zero : f32", "%m, %a", "3x1", "[[0.5], [-2.0], [1.0]]"),
    "Max, as in PyTorch": ("cmpf ogt, %a, %zero : f32", "%a, %m", "3x1", "[[0.5], [-2.0], [0.1]]"),
    "Where": ("cmpf olt, %a, %zero : f32", "%a, %m", "3x1", "[[0.5], [-2.0], [0.0]]"),
    "Where, of another number": ("cmpf olt, %w, %third : f64", "%m, %a", "3x1", "0.25"),
    "Where, of more numbers": (
        "cmpf olt, %a, %zero : f32",
        "%m, %a",
        "3x2",
        "[[0.5, 1.0], [-2.0, 3.0], [0.0, 4.0]]",
    ),
}


@pytest.mark.parametrize("name", RECTIFIERS)
def test_functions_of_two_slopes_are_one_node(name: str, tmp_path: Path) -> None:
    """If no slope is for an element that is repeated, and the functions meet at zero."""
    condition, choice, shape, slope = RECTIFIERS[name]
    text = f"""
func.func @main(%x: tensor<3x1xf32>) -> tensor<{shape}xf32> {{
  %zero = arith.constant 0.0 : f32
  %wide = arith.constant 0.0 : f64
  %third = arith.constant 0.33333333333333331 : f64
  %slope = arith.constant dense<{slope}> : tensor<{shape}xf32>
  %e = tensor.empty() : tensor<{shape}xf32>
  %y = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      ins(%x, %slope : tensor<3x1xf32>, tensor<{shape}xf32>) outs(%e : tensor<{shape}xf32>) {{
  ^bb0(%a: f32, %s: f32, %b: f32):
    %w = arith.extf %a : f32 to f64
    %c = arith.{condition}
    %m = arith.mulf %a, %s : f32
    %r = arith.select %c, {choice} : f32
    linalg.yield %r : f32
  }} -> tensor<{shape}xf32>
  return %y : tensor<{shape}xf32>
}}
"""
    model = exported(text, tmp_path)
    for numbers in ([-3, -0.5, 0.25], [np.inf, 2, -np.inf], [-1e-45, np.nan, np.inf]):
        x = np.array(numbers, "f4").reshape(3, 1)
        (expected,), (result,) = run_here(text, x), results_of(model, x)
        np.testing.assert_array_equal(result, expected)
    (node,) = {*written_in(model)} & {"LeakyRelu", "PRelu", "Max", "Where"}
    assert node == name.split(",")[0]


def test_an_axis_of_a_result_that_no_loop_names_has_length_1(tmp_path: Path) -> None:
    text = """
func.func @main(%x: tensor<3xf32>) -> tensor<1x3x1xf32> {
  %e = tensor.empty() : tensor<1x3x1xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (0, i, 0)>],
      iterator_types = ["parallel"]} ins(%x : tensor<3xf32>) outs(%e : tensor<1x3x1xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<1x3x1xf32>
  return %y : tensor<1x3x1xf32>
}
"""
    x = np.array([1, 2, 3], "f4")
    (result,) = results_of(exported(text, tmp_path), x)
    assert result.tolist() == [[[2], [4], [6]]]


@pytest.mark.parametrize("mode", ["BILINEAR", "NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("is_behind_layer", [True, False])
def test_a_resized_image_has_sums_of_its_elements(
    mode: str, is_behind_layer: bool, tmp_path: Path
) -> None:
    """A layer has the channels first, so that both axes are the last ones in turn."""
    layer = """
  %w = "tosa.const"() <{values = dense<[[[[2.0, -1.0]]], [[[0.5, 3.0]]]]> : tensor<2x1x1x2xf32>}>
    : () -> tensor<2x1x1x2xf32>
  %b = "tosa.const"() <{values = dense<[1.0, 2.0]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %n = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %i = tosa.conv2d %x, %w, %b, %n, %n {acc_type = f32, dilation = array<i64: 1, 1>,
    pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x3x4x2xf32>,
    tensor<2x1x1x2xf32>, tensor<2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x3x4x2xf32>"""
    text = f"""
func.func @main(%x: tensor<1x3x4x2xf32>) -> tensor<1x6x8x2xf32> {{{layer * is_behind_layer}
  %s = tosa.const_shape {{values = dense<[4, 2, 4, 2]> : tensor<4xindex>}} : () -> !tosa.shape<4>
  %o = tosa.const_shape {{values = dense<[-1, -1]> : tensor<2xindex>}} : () -> !tosa.shape<2>
  %r = tosa.const_shape {{values = dense<[1, 1]> : tensor<2xindex>}} : () -> !tosa.shape<2>
  %y = tosa.resize {"%i" if is_behind_layer else "%x"}, %s, %o, %r {{mode = {mode}}} :
    (tensor<1x3x4x2xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x6x8x2xf32>
  return %y : tensor<1x6x8x2xf32>
}}
"""
    x = np.random.default_rng(0).normal(size=(1, 3, 4, 2)).astype("f4")
    (result,), (expected,) = results_of(exported(text, tmp_path), x), run_here(text, x)
    np.testing.assert_allclose(result, expected, atol=1e-5)
    assert ("MatMul" in written_in(tmp_path / "module.onnx")) is (mode == "BILINEAR")


@pytest.mark.parametrize("divisor", [3.0, 4.0])
def test_what_is_repeated_for_a_function_is_not_in_the_graph(
    divisor: float, tmp_path: Path
) -> None:
    """Nor is a sum whose mean is computed; one that is divided by another number is."""
    text = f"""
func.func @main(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3x4xf32>) {{
  %zeros = arith.constant dense<0.0> : tensor<4xf32>
  %count = arith.constant dense<{divisor}> : tensor<4xf32>
  %e = tensor.empty() : tensor<4x3xf32>
  %t = tensor.empty() : tensor<3x4xf32>
  %s = linalg.reduce {{ arith.addf }} ins(%x : tensor<4x3xf32>) outs(%zeros : tensor<4xf32>)
    dimensions = [1]
  %m = arith.divf %s, %count : tensor<4xf32>
  %b = linalg.broadcast ins(%m : tensor<4xf32>) outs(%e : tensor<4x3xf32>) dimensions = [1]
  %y = arith.subf %x, %b : tensor<4x3xf32>
  %c = linalg.transpose ins(%b : tensor<4x3xf32>) outs(%t : tensor<3x4xf32>) permutation = [1, 0]
  %d = linalg.transpose ins(%x : tensor<4x3xf32>) outs(%t : tensor<3x4xf32>) permutation = [1, 0]
  %z = arith.mulf %c, %d : tensor<3x4xf32>
  return %y, %z : tensor<4x3xf32>, tensor<3x4xf32>
}}
"""
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("f4")
    model = exported(text, tmp_path)
    one, other = results_of(model, x)
    mean = x.astype("f8").sum(1, keepdims=True) / divisor
    np.testing.assert_allclose(one, x - mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(other, (x * mean).T, rtol=0, atol=1e-6)
    nodes = written_in(model)
    kinds = {kind: nodes[kind] for kind in ("Expand", "ReduceSum", "ReduceMean", "Div")}
    is_mean = divisor == 3
    whole = {"Expand": 0, "ReduceSum": 1 - is_mean, "ReduceMean": is_mean, "Div": 1 - is_mean}
    assert kinds == whole


POSITIONS = {
    "each row twice": ("divui %j, %two", "addi %k, %zero", (2, 6, 4), "Resize"),
    "each element four times": ("divui %j, %two", "divui %k, %two", (2, 6, 8), "Resize"),
    "rows from the last": ("subi %two, %j", "addi %k, %zero", (2, 3, 4), "Gather"),
    "all rows twice": ("remui %j, %three", "addi %k, %zero", (2, 6, 4), "Gather"),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_elements_at_known_positions_are_one_node(name: str, tmp_path: Path) -> None:
    """Resizing by the nearest element is imported so."""
    row, column, lengths, node = POSITIONS[name]
    result = f"tensor<{'x'.join(map(str, lengths))}xf32>"
    text = f"""
func.func @main(%x: tensor<2x3x4xf32>) -> {result} {{
  %zero = arith.constant 0 : index
  %two = arith.constant 2 : index
  %three = arith.constant 3 : index
  %e = tensor.empty() : {result}
  %y = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}} outs(%e : {result}) {{
  ^bb0(%b: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %h = arith.{row} : index
    %w = arith.{column} : index
    %v = tensor.extract %x[%i, %h, %w] : tensor<2x3x4xf32>
    linalg.yield %v : f32
  }} -> {result}
  return %y : {result}
}}
"""
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("f4")
    expected = {
        "each row twice": x.repeat(2, axis=1),
        "each element four times": x.repeat(2, axis=1).repeat(2, axis=2),
        "rows from the last": x[:, ::-1],
        "all rows twice": np.tile(x, (1, 2, 1)),
    }
    model = exported(text, tmp_path)
    np.testing.assert_array_equal(results_of(model, x)[0], expected[name])
    assert written_in(model) == {node: 1, "Identity": 1}


def through(name: str, lengths: str, storage: str) -> tuple[str, str]:
    """Casts to codes and back, and the name of their result; or none, and the name itself."""
    if not storage:
        return "", name
    floats, codes = f"tensor<{lengths}xf32>", f"tensor<{lengths}x!quant.uniform<{storage}>>"
    casts = f"""
  {name}_q = quant.qcast {name} : {floats} to {codes}
  {name}_d = quant.dcast {name}_q : {codes} to {floats}"""
    return casts, f"{name}_d"


@pytest.mark.parametrize(
    ("storage", "least"),
    [("", 0.0), ("u8:f32, 0.03125:100", 0.0), ("u8<101:255>:f32, 0.03125:100", 0.03125)],
)
@pytest.mark.parametrize("number", [0.0, 0.5])
def test_a_convolution_of_what_zeros_are_between_is_transposed(
    number: float, storage: str, least: float, tmp_path: Path
) -> None:
    """`least` is the number nearest to zero that has a code."""
    rng = np.random.default_rng(0)
    x = (rng.integers(1, 60, (1, 2, 3, 4)) / 32).astype("f4")
    weight = (rng.integers(-9, 9, (3, 2, 2, 2)) / 8).astype("f4")
    (small, x_name), (large, target), (after, apart) = (
        through(name, lengths, storage)
        for name, lengths in (("%x", "1x2x3x4"), ("%target", "1x2x7x9"), ("%apart", "1x2x7x9"))
    )
    text = f"""
func.func @main(%x: tensor<1x2x3x4xf32>) -> tensor<1x3x6x8xf32> {{
  %number = arith.constant {number} : f32
  %weight = arith.constant dense<{weight.tolist()}> : tensor<3x2x2x2xf32>
  %none = arith.constant dense<0.0> : tensor<1x3x6x8xf32>
  %e = tensor.empty() : tensor<1x2x7x9xf32>
  %target = linalg.fill ins(%number : f32) outs(%e : tensor<1x2x7x9xf32>) -> tensor<1x2x7x9xf32>
  {small}{large}
  %apart = tensor.insert_slice {x_name} into {target}[0, 0, 1, 1] [1, 2, 3, 4] [1, 1, 2, 2]
    : tensor<1x2x3x4xf32> into tensor<1x2x7x9xf32>{after}
  %y = linalg.conv_2d_nchw_fchw
    ins({apart}, %weight : tensor<1x2x7x9xf32>, tensor<3x2x2x2xf32>)
    outs(%none : tensor<1x3x6x8xf32>) -> tensor<1x3x6x8xf32>
  return %y : tensor<1x3x6x8xf32>
}}
"""
    spread = np.full((1, 2, 7, 9), max(number, least), "f4")
    spread[:, :, 1:6:2, 1:8:2] = x
    windows = np.lib.stride_tricks.sliding_window_view(spread, (2, 2), axis=(2, 3))
    expected = np.einsum("nchwyx,ocyx->nohw", windows, weight)
    model = exported(text, tmp_path)
    np.testing.assert_allclose(results_of(model, x)[0], expected, rtol=0, atol=1e-5)
    nodes, is_transposed = written_in(model), not max(number, least)
    assert (nodes["ConvTranspose"], nodes["Where"]) == (is_transposed, not is_transposed)


def test_zeros_are_between_the_elements_of_a_result_with_channels_last(tmp_path: Path) -> None:
    """In the graph, its channels are the second axis. A kernel for each channel is transposed."""
    rng = np.random.default_rng(0)
    x, one, weight = (
        (rng.integers(-9, 9, shape) / 8).astype("f4")
        for shape in ((1, 3, 4, 2), (1, 1, 2, 2), (2, 2, 2))
    )
    text = f"""
func.func @main(%x: tensor<1x3x4x2xf32>) -> tensor<1x6x8x2xf32> {{
  %zero = arith.constant 0.0 : f32
  %one = arith.constant dense<{one.tolist()}> : tensor<1x1x2x2xf32>
  %weight = arith.constant dense<{weight.tolist()}> : tensor<2x2x2xf32>
  %small = arith.constant dense<0.0> : tensor<1x3x4x2xf32>
  %none = arith.constant dense<0.0> : tensor<1x6x8x2xf32>
  %e = tensor.empty() : tensor<1x7x9x2xf32>
  %target = linalg.fill ins(%zero : f32) outs(%e : tensor<1x7x9x2xf32>) -> tensor<1x7x9x2xf32>
  %first = linalg.conv_2d_nhwc_hwcf ins(%x, %one : tensor<1x3x4x2xf32>, tensor<1x1x2x2xf32>)
    outs(%small : tensor<1x3x4x2xf32>) -> tensor<1x3x4x2xf32>
  %apart = tensor.insert_slice %first into %target[0, 1, 1, 0] [1, 3, 4, 2] [1, 2, 2, 1]
    : tensor<1x3x4x2xf32> into tensor<1x7x9x2xf32>
  %y = linalg.depthwise_conv_2d_nhwc_hwc
    ins(%apart, %weight : tensor<1x7x9x2xf32>, tensor<2x2x2xf32>)
    outs(%none : tensor<1x6x8x2xf32>) -> tensor<1x6x8x2xf32>
  return %y : tensor<1x6x8x2xf32>
}}
"""
    spread = np.zeros((1, 7, 9, 2), "f4")
    spread[:, 1:6:2, 1:8:2] = x @ one[0, 0]
    windows = np.lib.stride_tricks.sliding_window_view(spread, (2, 2), axis=(1, 2))
    expected = np.einsum("nhwcyx,yxc->nhwc", windows, weight)
    model = exported(text, tmp_path)
    np.testing.assert_allclose(results_of(model, x)[0], expected, rtol=0, atol=1e-5)
    assert written_in(model)["ConvTranspose"] == 1


SLOTS = "{{1.0:9, 2.0, 3.0, 4.0}, {0.5:1, 5.0, 6.0, 7.0}}"
STORED = {
    "i4, rows": ("i4:f32:0, {1.0, 0.5:1, 0.25, 2.0:-1}", (-8, 8)),
    "u4, columns": ("u4:f32:1, {1.0:7, 0.5:1, 0.25:15, 2.0}", (0, 16)),
    "i8, blocks": ("i8:f32:{0:2}, {{1.0}, {0.5:3}}", (-128, 128)),
    "u8, blocks of both": (f"u8:f32:{{0:2, 1:1}}, {SLOTS}", (0, 256)),
    "u3": ("u3:f32, 0.5:1", (0, 8)),
    "i16": ("i16:f32, 0.5:-300", (-32768, 32768)),
    "i32": ("i32:f32:1, {0.5, 0.25, 1.0, 2.0}", (-(1 << 20), 1 << 20)),
}


@pytest.mark.parametrize("name", STORED)
def test_constants_of_all_storages(name: str, tmp_path: Path) -> None:
    """Dequantized, and then moved: `p' = p . f`."""
    parameters, ends = STORED[name]
    type = f"!quant.uniform<{parameters}>"
    codes = np.random.default_rng(0).integers(*ends, (4, 4))
    text = f"""
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {{
  %c = quant.constant dense<{codes.tolist()}> : tensor<4x4x{type}>
  %w = quant.dcast %c : tensor<4x4x{type}> to tensor<4x4xf32>
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = arith.addf %x, %t : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}}"""
    x = np.zeros((4, 4), "f4")
    (result,) = results_of(exported(text, tmp_path), x)
    (expected,) = run_here(text, x)
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("storage", ["u8", "i8", "i16", "u16", "i8<-100:90>", "i4"])
def test_values_are_quantized_as_they_are_here(storage: str, tmp_path: Path) -> None:
    type = f"!quant.uniform<{storage}:f32, 0.5:2>"
    text = f"""
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {{
  %q = quant.qcast %x : tensor<64xf32> to tensor<64x{type}>
  %y = quant.dcast %q : tensor<64x{type}> to tensor<64xf32>
  return %y : tensor<64xf32>
}}"""
    x = np.random.default_rng(0).normal(size=64).astype("f4") * 60
    (expected,) = run_here(text, x)
    for activations in ("u8", "keep"):
        model = exported(text, tmp_path, f"--activations={activations}")
        (result,) = results_of(model, x)
        assert np.array_equal(result, expected)


def test_functions_of_quantized_types_take_and_return_codes(tmp_path: Path) -> None:
    text = """
!x = !quant.uniform<i8:f32, 0.5:3>
!y = !quant.uniform<u8:f32, 0.25>
func.func @main(%x: tensor<3x!x>) -> tensor<3x!y> {
  %0 = quant.dcast %x : tensor<3x!x> to tensor<3xf32>
  %1 = arith.negf %0 : tensor<3xf32>
  %2 = quant.qcast %1 : tensor<3xf32> to tensor<3x!y>
  return %2 : tensor<3x!y>
}"""
    (result,) = results_of(exported(text, tmp_path), np.array([3, 0, -8], "i1"))
    assert result.dtype == np.uint8
    assert [*result] == [0, 6, 22]


# Movements


@examples(60)
@given(seed=st.integers(0, 1 << 32), is_quantized=st.booleans())
def test_movements_are_those_of_numpy(
    tmp_path_factory: pytest.TempPathFactory, seed: int, is_quantized: bool
) -> None:
    """Also of codes, which stay codes between a cast before and one of the same type after."""
    rng = random.Random(seed)
    chain = Chain(rng, (2, 3, 4))
    for _ in range(rng.randint(1, 5)):
        if chain.positions.size < 2000:
            chain.add()
    lines, result = ["%zero = stablehlo.constant dense<0.0> : tensor<f32>", *chain.lines], ""
    if is_quantized:
        lines = [line.replace("%x", "%d") for line in lines]
        first, last = (
            type.replace("f32>", "!quant.uniform<u8:f32, 0.5:100>>")
            for type in ("tensor<2x3x4xf32>", chain.type)
        )
        lines.insert(0, f"%q = quant.qcast %x : tensor<2x3x4xf32> to {first}")
        lines.insert(1, f"%d = quant.dcast %q : {first} to tensor<2x3x4xf32>")
        lines.append(f"%r = quant.qcast {chain.result} : {chain.type} to {last}")
        lines.append(f"%y = quant.dcast %r : {last} to {chain.type}")
    result = "%y" if is_quantized else chain.result
    body = "\n".join([*lines, f"return {result} : {chain.type}"])
    text = f"func.func @main(%x: tensor<2x3x4xf32>) -> {chain.type} {{\n{body}\n}}"
    model = exported(text, tmp_path_factory.mktemp("moved"))
    x = (np.arange(24, dtype="f4") - 9).reshape(2, 3, 4) / 2
    (found,) = results_of(model, x, level="NONE")
    assert np.array_equal(found, chain.moved(x))
    if is_quantized:
        nodes = nodes_of(model)
        assert (nodes["QuantizeLinear"], nodes["DequantizeLinear"]) == (1, 1)


# Functions of elements

_VALUES: Final = np.array([-2.5, -1, -0.3, 0, 0.2, 0.5, 0.9, 1.5, 3, 40], "f4")


def functions() -> list[tuple[str, int]]:
    """The ops of floats that nodes compute, with the numbers of operands."""
    found: list[tuple[str, int]] = []
    for dialect, kind in (("arith", "f"), ("math", ""), ("stablehlo", ""), ("tosa", "")):
        for name, model in models_for_all(dialect).items():
            match model.run:
                case OnNumbers(function) if name.endswith(kind) and not name.endswith("i"):
                    count = 1 if function not in _PAIRS else 2
                case OnElements(floats=function, arity=count):
                    pass
                case _:
                    continue
            is_known = function in NODES or function in COMPOSED
            if is_known and "where" not in function and name != "math.fma":
                found.append((name, count))
    return found


_PAIRS: Final = {f"numpy:{name}" for name in ("add", "subtract", "multiply", "divide")} | {
    f"qdialect.dialects.arrays.scalar_functions:{name}"
    for name in ("larger", "smaller", "larger_number", "smaller_number", "power")
}


@pytest.mark.parametrize(("name", "count"), functions())
def test_functions_are_those_of_the_module(name: str, count: int, tmp_path: Path) -> None:
    is_comparison = name.split(".")[1] in ("equal", "greater", "greater_equal")
    result = "tensor<100xi1>" if is_comparison else "tensor<100xf32>"
    names = ["%a", "%b"][:count]
    types = ", ".join(["tensor<100xf32>"] * count)
    text = f"""
func.func @main({", ".join(f"{each}: tensor<100xf32>" for each in names)}) -> {result} {{
  %y = "{name}"({", ".join(names)}) : ({types}) -> {result}
  return %y : {result}
}}"""
    a, b = (side.reshape(-1) for side in np.meshgrid(_VALUES, _VALUES))
    arguments = [a, b][:count]
    (expected,) = run_here(text, *arguments)
    (found,) = results_of(exported(text, tmp_path), *arguments)
    if is_comparison:
        expected = expected != 0
    with np.errstate(invalid="ignore"):
        is_close = np.isclose(found, expected.astype("f8"), 1e-5, 1e-6, equal_nan=True)
    assert is_close.all(), (a[~is_close], b[~is_close], found[~is_close], expected[~is_close])


PREDICATES = ["oeq", "ogt", "oge", "olt", "ole", "ugt", "uge", "ult", "ule", "une"]


@pytest.mark.parametrize("predicate", PREDICATES)
def test_comparisons_with_nan(predicate: str, tmp_path: Path) -> None:
    text = f"""
func.func @main(%a: tensor<9xf32>, %b: tensor<9xf32>) -> tensor<9xi1> {{
  %y = arith.cmpf {predicate}, %a, %b : tensor<9xf32>
  return %y : tensor<9xi1>
}}"""
    ends = np.array([1, 2, np.nan], "f4")
    a, b = (side.reshape(-1) for side in np.meshgrid(ends, ends))
    (expected,) = run_here(text, a, b)
    (found,) = results_of(exported(text, tmp_path), a, b)
    assert [*found] == [bool(truth) for truth in expected]


# Look-ups, reductions and bodies


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("number", [-math.inf, -1.0, -0.75, -0.5, 0.0, 0.125, 63.0, 63.25, 64.0])
def test_a_comparison_that_all_codes_decide_needs_no_node(
    predicate: str, number: float, tmp_path: Path
) -> None:
    """PyTorch asks of a softmax whether all numbers before it are negative infinity."""
    text = f"""
!u = !quant.uniform<u8:f32, 0.25:4>
func.func @main(%x: tensor<256xf32>) -> tensor<256xf32> {{
  %q = quant.qcast %x : tensor<256xf32> to tensor<256x!u>
  %d = quant.dcast %q : tensor<256x!u> to tensor<256xf32>
  %m = arith.constant dense<0.25> : tensor<256xf32>
  %s = arith.addf %d, %m : tensor<256xf32>
  %n = arith.constant dense<{"0xFF800000" if math.isinf(number) else number}> : tensor<256xf32>
  %c = arith.cmpf {predicate}, %s, %n : tensor<256xf32>
  %y = arith.select %c, %m, %s : tensor<256xi1>, tensor<256xf32>
  return %y : tensor<256xf32>
}}
"""
    x = (np.arange(256, dtype="f4") - 4) / 4
    model = exported(text, tmp_path)
    (result,) = results_of(model, x)
    orders = {"eq": np.equal, "gt": np.greater, "ge": np.greater_equal, "ne": np.not_equal}
    orders |= {"lt": np.less, "le": np.less_equal}
    truths = orders[predicate[1:]](x + 0.25, number)
    assert np.array_equal(result, np.where(truths, np.float32(0.25), x + 0.25))
    is_open = 0 < truths.sum() < 256 or number == 0.125
    assert written_in(model)["Where"] == int(is_open)


TWO_PLACES: Final = """
  %i = stablehlo.slice %x [0:1] : (tensor<2xi32>) -> tensor<1xi32>
  %j = stablehlo.slice %x [1:2] : (tensor<2xi32>) -> tensor<1xi32>
  %k = stablehlo.reshape %i : (tensor<1xi32>) -> tensor<i32>
  %l = stablehlo.reshape %j : (tensor<1xi32>) -> tensor<i32>"""
"""Two numbers of an argument."""

OF_TENSORS = {
    "a pool that leaves out the last elements": (
        "tensor<1x2x8x7xf32>",
        "tensor<1x2x3x2xf32>",
        """
  %w = tensor.empty() : tensor<2x3xf32>
  %c = arith.constant dense<-3.40282347E+38> : tensor<1x2x3x2xf32>
  %y = linalg.pooling_nchw_max
    {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
    ins(%x, %w : tensor<1x2x8x7xf32>, tensor<2x3xf32>)
    outs(%c : tensor<1x2x3x2xf32>) -> tensor<1x2x3x2xf32>""",
        np.sin(np.arange(112, dtype="f4")).reshape(1, 2, 8, 7),
    ),
    "a maximum with the least numbers around it": (
        "tensor<1x2x4x5xf32>",
        "tensor<1x2x2x3xf32>",
        """
  %l = arith.constant -3.40282347E+38 : f32
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 0, 1] {
  ^bb0(%i: index, %j: index, %k: index, %m: index):
    tensor.yield %l : f32
  } : tensor<1x2x4x5xf32> to tensor<1x2x5x7xf32>
  %w = tensor.empty() : tensor<3x3xf32>
  %c = arith.constant dense<-3.40282347E+38> : tensor<1x2x2x3xf32>
  %y = linalg.pooling_nchw_max
    {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
    ins(%p, %w : tensor<1x2x5x7xf32>, tensor<3x3xf32>)
    outs(%c : tensor<1x2x2x3xf32>) -> tensor<1x2x2x3xf32>""",
        np.cos(np.arange(40, dtype="f4")).reshape(1, 2, 4, 5) - 2,
    ),
    "constants of several scales that are joined": (
        "tensor<4xf32>",
        "tensor<4xf32>",
        """
  %a = quant.constant dense<[3, -4]> : tensor<2x!quant.uniform<i8:f32, 0.5>>
  %b = quant.constant dense<[5, 6]> : tensor<2x!quant.uniform<i8:f32, 0.25>>
  %c = quant.dcast %a : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xf32>
  %d = quant.dcast %b : tensor<2x!quant.uniform<i8:f32, 0.25>> to tensor<2xf32>
  %e = tensor.concat dim(0) %c, %d : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  %y = arith.mulf %x, %e : tensor<4xf32>""",
        np.arange(1, 5, dtype="f4"),
    ),
    "slices at places that are known at run time": (
        "tensor<2xi32>",
        "tensor<2x4xf32>",
        TWO_PLACES
        + """
  %t = stablehlo.iota dim = 0 : tensor<35xf32>
  %c = stablehlo.reshape %t : (tensor<35xf32>) -> tensor<5x7xf32>
  %y = stablehlo.dynamic_slice %c, %k, %l, sizes = [2, 4]
    : (tensor<5x7xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>""",
        np.array([2, 9], "i4"),
    ),
    "an insertion at places that are known at run time": (
        "tensor<2xi32>",
        "tensor<3x5x7xf32>",
        TWO_PLACES
        + """
  %t = stablehlo.iota dim = 0 : tensor<105xf32>
  %c = stablehlo.reshape %t : (tensor<105xf32>) -> tensor<3x5x7xf32>
  %s = stablehlo.constant dense<[[[-1.0, -2.0, -3.0]], [[-4.0, -5.0, -6.0]], [[-7.0, -8.0, -9.0]]]>
    : tensor<3x1x3xf32>
  %y = stablehlo.dynamic_update_slice %c, %s, %k, %k, %l
    : (tensor<3x5x7xf32>, tensor<3x1x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>)
    -> tensor<3x5x7xf32>""",
        np.array([3, -2], "i4"),
    ),
    "a loop over slices with gaps": (
        "tensor<7x3xf32>",
        "tensor<4x3xf32>",
        """
  %zero = arith.constant dense<0.0> : tensor<4x3xf32>
  %none = arith.constant dense<0.0> : tensor<2xf32>
  %half = arith.constant dense<0.5> : tensor<2xf32>
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %eight = arith.constant 8 : index
  %y, %last = scf.for %i = %one to %eight step %two iter_args(%sums = %zero, %so_far = %none)
    -> (tensor<4x3xf32>, tensor<2xf32>) {
    %k = arith.divsi %i, %two : index
    %row = tensor.extract_slice %x[%k, 0] [1, 2] [1, 2] : tensor<7x3xf32> to tensor<2xf32>
    %half_of = arith.mulf %so_far, %half : tensor<2xf32>
    %sum = arith.addf %half_of, %row : tensor<2xf32>
    %z = tensor.insert_slice %sum into %sums[%k, 1] [1, 2] [1, 1]
      : tensor<2xf32> into tensor<4x3xf32>
    scf.yield %z, %sum : tensor<4x3xf32>, tensor<2xf32>
  }""",
        np.arange(21, dtype="f4").reshape(7, 3) ** 1.5,
    ),
    "a loop that does not run": (
        "tensor<3xf32>",
        "tensor<3xf32>",
        """
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %y = scf.for %i = %one to %zero step %one iter_args(%a = %x) -> (tensor<3xf32>) {
    %b = arith.negf %a : tensor<3xf32>
    scf.yield %b : tensor<3xf32>
  }""",
        np.arange(3, dtype="f4"),
    ),
    "a loop that hands on what it takes": (
        "tensor<3xf32>",
        "tensor<3xf32>",
        """
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %z = scf.for %i = %zero to %two step %one iter_args(%a = %x) -> (tensor<3xf32>) {
    scf.yield %a : tensor<3xf32>
  }
  %y = arith.negf %z : tensor<3xf32>""",
        np.arange(3, dtype="f4"),
    ),
    "a loop while a sum is small": (
        "tensor<3xf32>",
        "tensor<3xf32>",
        """
  %limit = arith.constant 100.0 : f32
  %zero = arith.constant dense<0.0> : tensor<f32>
  %w = arith.constant dense<[1.5, 2.0, 3.0]> : tensor<3xf32>
  %r:2 = scf.while (%a = %x, %c = %w) : (tensor<3xf32>, tensor<3xf32>)
    -> (tensor<3xf32>, tensor<3xf32>) {
    %d = arith.mulf %a, %c : tensor<3xf32>
    %s = linalg.reduce {arith.addf} ins(%d : tensor<3xf32>) outs(%zero : tensor<f32>)
      dimensions = [0]
    %e = tensor.extract %s[] : tensor<f32>
    %goes_on = arith.cmpf olt, %e, %limit : f32
    scf.condition(%goes_on) %d, %c : tensor<3xf32>, tensor<3xf32>
  } do {
  ^bb0(%a: tensor<3xf32>, %c: tensor<3xf32>):
    %b = arith.addf %a, %c : tensor<3xf32>
    scf.yield %b, %c : tensor<3xf32>, tensor<3xf32>
  }
  %y = arith.negf %r#0 : tensor<3xf32>""",
        np.arange(3, dtype="f4"),
    ),
    "a loop that counts, with a layer whose weights it hands on": (
        "tensor<2x2xf32>",
        "tensor<2x2xf32>",
        """
  %w = stablehlo.constant dense<[[0.5, -1.0], [2.0, 0.25]]> : tensor<2x2xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %v = %w, %a = %x)
    : tensor<i32>, tensor<2x2xf32>, tensor<2x2xf32>
  cond {
    %n = stablehlo.constant dense<5> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %b = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0]
      : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    stablehlo.return %j, %v, %b : tensor<i32>, tensor<2x2xf32>, tensor<2x2xf32>
  }
  %y = stablehlo.negate %r#2 : tensor<2x2xf32>""",
        np.array([[1, 2], [-3, 4]], "f4"),
    ),
    "clamped rows of a table": (
        "tensor<2x3xi32>",
        "tensor<2x3x2xf32>",
        """
  %t = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %y = "stablehlo.gather"(%t, %x) <{dimension_numbers = #stablehlo.gather<offset_dims = [2],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 2>}> : (tensor<3x2xf32>, tensor<2x3xi32>) -> tensor<2x3x2xf32>""",
        np.array([[0, 1, 2], [7, -3, 1]], "i4"),
    ),
    "elements at positions": (
        "tensor<3xi64>",
        "tensor<3x2xf32>",
        """
  %t = arith.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %one = arith.constant 1 : index
  %e = tensor.empty() : tensor<3x2xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<3xi64>) outs(%e : tensor<3x2xf32>) {
  ^bb0(%p: i64, %o: f32):
    %i = arith.index_cast %p : i64 to index
    %j = linalg.index 1 : index
    %k = arith.subi %one, %j : index
    %a = tensor.extract %t[%i, %k] : tensor<3x2xf32>
    linalg.yield %a : f32
  } -> tensor<3x2xf32>""",
        np.array([2, 0, 1], "i8"),
    ),
    "rows at positions": (
        "tensor<3xi64>",
        "tensor<2x3xf32>",
        """
  %t = arith.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %e = tensor.empty() : tensor<2x3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(j, i) -> (i)>, affine_map<(j, i) -> (j, i)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<3xi64>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%p: i64, %o: f32):
    %i = arith.index_cast %p : i64 to index
    %j = linalg.index 0 : index
    %a = tensor.extract %t[%i, %j] : tensor<3x2xf32>
    linalg.yield %a : f32
  } -> tensor<2x3xf32>""",
        np.array([2, 0, 1], "i8"),
    ),
    "a reduction from a start, in another order of axes": (
        "tensor<2x3x4xf32>",
        "tensor<4x2xf32>",
        """
  %s = arith.constant dense<3.0> : tensor<4x2xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>,
    affine_map<(i, j, k) -> (k, i)>], iterator_types = ["parallel", "reduction", "parallel"]}
    ins(%x : tensor<2x3x4xf32>) outs(%s : tensor<4x2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.mulf %a, %a : f32
    %c = arith.addf %o, %b : f32
    linalg.yield %c : f32
  } -> tensor<4x2xf32>""",
        (np.arange(24, dtype="f4") - 9).reshape(2, 3, 4),
    ),
    "a reduction along no axis": (
        "tensor<2x3xf32>",
        "tensor<2x3xf32>",
        """
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %y = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = []
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>""",
        np.array([[-1, -2, 0], [0, 3, 1]], "f4"),
    ),
    "a maximum from a start": (
        "tensor<2x3xf32>",
        "tensor<2xf32>",
        """
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %y = stablehlo.reduce(%x init: %s) applies stablehlo.maximum across dimensions = [1]
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>""",
        np.array([[-1, -2, 0], [0, 3, 1]], "f4"),
    ),
    "whether all are true": (
        "tensor<2x3xi1>",
        "tensor<2xi1>",
        """
  %s = stablehlo.constant dense<true> : tensor<i1>
  %y = stablehlo.reduce(%x init: %s) applies stablehlo.and across dimensions = [1]
    : (tensor<2x3xi1>, tensor<i1>) -> tensor<2xi1>""",
        np.array([[True, False, True], [True, True, True]]),
    ),
    "whether any is true": (
        "tensor<2x3xi1>",
        "tensor<2x1xi1>",
        "%y = tosa.reduce_any %x {axis = 1 : i32} : (tensor<2x3xi1>) -> tensor<2x1xi1>",
        np.array([[True, False, True], [False, False, False]]),
    ),
    "a pool of strides and padding": (
        "tensor<1x5x5x2xf32>",
        "tensor<1x3x3x2xf32>",
        """
  %y = tosa.max_pool2d %x {kernel = array<i64: 3, 3>, pad = array<i64: 1, 1, 1, 1>,
    stride = array<i64: 2, 2>} : (tensor<1x5x5x2xf32>) -> tensor<1x3x3x2xf32>""",
        (np.arange(50, dtype="f4") % 13).reshape(1, 5, 5, 2),
    ),
    "a mean without padding": (
        "tensor<1x4x4x2xf32>",
        "tensor<1x2x2x2xf32>",
        """
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %y = tosa.avg_pool2d %x, %z, %z {acc_type = f32, kernel = array<i64: 2, 2>,
    pad = array<i64: 1, 0, 1, 0>, stride = array<i64: 2, 2>}
    : (tensor<1x4x4x2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x2x2x2xf32>""",
        (np.arange(32, dtype="f4") % 13).reshape(1, 4, 4, 2),
    ),
    "a transposed convolution": (
        "tensor<1x3x4x2xf32>",
        "tensor<1x7x9x3xf32>",
        """
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %w = "tosa.const"() <{values = dense<[WEIGHT]> : tensor<3x3x3x2xf32>}>
    : () -> tensor<3x3x3x2xf32>
  %b = "tosa.const"() <{values = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>}> : () -> tensor<3xf32>
  %y = tosa.transpose_conv2d %x, %w, %b, %z, %z {acc_type = f32,
    out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>}
    : (tensor<1x3x4x2xf32>, tensor<3x3x3x2xf32>, tensor<3xf32>, tensor<1xf32>, tensor<1xf32>)
    -> tensor<1x7x9x3xf32>""",
        (np.arange(24, dtype="f4") - 9).reshape(1, 3, 4, 2),
    ),
    "a convolution of dilation and stride": (
        "tensor<1x2x7x7xf32>",
        "tensor<1x3x2x2xf32>",
        """
  %w = stablehlo.constant dense<[WEIGHT]> : tensor<3x3x3x2xf32>
  %t = stablehlo.transpose %w, dims = [0, 3, 1, 2]
    : (tensor<3x3x3x2xf32>) -> tensor<3x2x3x3xf32>
  %y = stablehlo.convolution(%x, %t) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {stride = [2, 2], rhs_dilate = [2, 2], pad = [[0, 0], [1, 0]], reverse = [true, false]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x2x7x7xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x2x2xf32>""",
        (np.arange(98, dtype="f4") % 11 - 4).reshape(1, 2, 7, 7),
    ),
    "integers that are rounded and saturate": (
        "tensor<9xf32>",
        "tensor<9xi8>",
        "%y = tosa.cast %x : (tensor<9xf32>) -> tensor<9xi8>",
        np.array([-1e9, -128.4, -1.5, -0.5, 0.5, 1.5, 2.5, 127.4, 3e9], "f4"),
    ),
    "integers of 32 bits that are rounded and saturate": (
        "tensor<4xf32>",
        "tensor<4xi32>",
        "%y = tosa.cast %x : (tensor<4xf32>) -> tensor<4xi32>",
        np.array([-3e9, -2.5, 3.5, 2147483520.0], "f4"),
    ),
    "integers that are cut off": (
        "tensor<6xf32>",
        "tensor<6xi32>",
        "%y = stablehlo.convert %x : (tensor<6xf32>) -> tensor<6xi32>",
        np.array([-1.5, -0.9, 0.9, 1.5, 2.5, 127.7], "f4"),
    ),
    "integers that arith cuts off": (
        "tensor<6xf32>",
        "tensor<6xi8>",
        "%y = arith.fptosi %x : tensor<6xf32> to tensor<6xi8>",
        np.array([-1.5, -0.9, 0.9, 1.5, 2.5, 127.7], "f4"),
    ),
    "a convolution in groups, of what zeros are between": (
        "tensor<1x4x3xf32>",
        "tensor<1x2x4xf32>",
        """
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.constant dense<[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]>
    : tensor<2x2x2xf32>
  %p = stablehlo.pad %x, %z, low = [0, 0, 0], high = [0, 0, 0], interior = [0, 0, 1]
    : (tensor<1x4x3xf32>, tensor<f32>) -> tensor<1x4x5xf32>
  %y = stablehlo.convolution(%p, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
    : (tensor<1x4x5xf32>, tensor<2x2x2xf32>) -> tensor<1x2x4xf32>""",
        np.arange(12, dtype="f4").reshape(1, 4, 3),
    ),
    "a convolution of what many zeros are around": (
        "tensor<1x1x3xf32>",
        "tensor<1x1x8xf32>",
        """
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.constant dense<[[[1.0, 2.0]]]> : tensor<1x1x2xf32>
  %p = stablehlo.pad %x, %z, low = [0, 0, 3], high = [0, 0, 1], interior = [0, 0, 1]
    : (tensor<1x1x3xf32>, tensor<f32>) -> tensor<1x1x9xf32>
  %y = stablehlo.convolution(%p, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x1x9xf32>, tensor<1x1x2xf32>) -> tensor<1x1x8xf32>""",
        np.arange(1, 4, dtype="f4").reshape(1, 1, 3),
    ),
    "a slice that is inserted": (
        "tensor<2x2xf32>",
        "tensor<4x3xf32>",
        """
  %d = arith.constant dense<7.0> : tensor<4x3xf32>
  %y = tensor.insert_slice %x into %d[1, 0] [2, 2] [2, 1] : tensor<2x2xf32> into tensor<4x3xf32>""",
        np.array([[1, 2], [3, 4]], "f4"),
    ),
}
WEIGHT: Final = str((np.arange(54) % 7 - 3.0).reshape(3, 3, 3, 2).tolist())


def of_tensors(name: str) -> tuple[str, Numbers]:
    """The text of a function, and its argument."""
    argument, type, body, x = OF_TENSORS[name]
    body = body.replace("[WEIGHT]", WEIGHT)
    return f"func.func @main(%x: {argument}) -> {type} {{{body}\n  return %y : {type}\n}}", x


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("constants of several scales that are joined", "Mul"),
        ("a maximum with the least numbers around it", "MaxPool"),
    ],
)
def test_what_a_node_reads_is_part_of_it(name: str, node: str, tmp_path: Path) -> None:
    nodes = written_in(exported(of_tensors(name)[0], tmp_path))
    assert nodes.keys() - {"Identity"} == {node}


@pytest.mark.parametrize("name", OF_TENSORS)
def test_ops_on_tensors_are_those_of_the_module(name: str, tmp_path: Path) -> None:
    text, x = of_tensors(name)
    (found,) = results_of(exported(text, tmp_path), x)
    (expected,) = run_here(text, x)
    if found.dtype == np.bool_:
        expected = expected != 0
    np.testing.assert_allclose(found, expected, 1e-5)
    assert len(np.unique(expected)) > 1


# Whole networks


def networks() -> dict[str, tuple[Any, Any]]:
    torch: Any = import_module("torch")
    from torch import nn
    from torch.nn import functional as F

    class Images(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
            self.norm = nn.BatchNorm2d(8)
            self.depth = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
            self.groups = nn.Conv2d(8, 16, 3, padding=1, groups=2)
            self.last = nn.Linear(16, 10)

        def forward(self, x: Any) -> Any:
            x = F.relu6(self.norm(self.first(x)))
            x = x + F.hardswish(self.depth(x))
            x = F.max_pool2d(self.groups(F.pad(x, (0, 1, 1, 0))), 3, 2, 1)
            return self.last(F.avg_pool2d(x, 2).mean((2, 3)))

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 32)
            self.norm = nn.LayerNorm(32)
            self.three = nn.Linear(32, 96)
            self.wide, self.narrow = nn.Linear(32, 64), nn.Linear(64, 32)

        def forward(self, words: Any) -> Any:
            x = self.table(words)
            parts = self.three(self.norm(x)).chunk(3, -1)
            q, k, v = (part.view(2, -1, 4, 8).transpose(1, 2) for part in parts)
            seen = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v
            x = x + seen.transpose(1, 2).reshape(x.shape)
            return torch.cat([x + self.narrow(F.gelu(self.wide(x))), F.silu(x).flip(1)], -1)

    torch.manual_seed(0)
    return {
        "images": (Images().eval(), torch.randn(2, 3, 32, 32)),
        "words": (Words().eval(), torch.randint(0, 50, (2, 6))),
    }


@pytest.mark.exporters
@pytest.mark.parametrize("form", ["linalg-on-tensors", "tosa", "stablehlo"])
@pytest.mark.parametrize("name", ["images", "words"])
def test_networks_of_torch(name: str, form: Any, tmp_path: Path) -> None:
    """Import and export again: the result is that of torch."""
    torch: Any = pytest.importorskip("torch")
    from qdialect.frontends import from_torch
    from qdialect.text import write_module

    network, x = networks()[name]
    context = ToolContext(allow_unregistered=True)
    module = from_torch(torch.export.export(network, (x,)), form, context=context)
    with open(tmp_path / "torch.mlir", "w") as file:
        write_module(context, module, file)
    model = exported((tmp_path / "torch.mlir").read_text(), tmp_path)
    (result,) = results_of(model, x.numpy())
    np.testing.assert_allclose(result, network(x).detach().numpy(), 1e-4, 1e-5)
    onnx: Any = pytest.importorskip("onnx")
    layers = [node for node in onnx.load(model).graph.node if node.op_type == "Conv"]
    assert name == "words" or [len(layer.input) for layer in layers].count(2) == 1


def functions_of_torch() -> dict[str, tuple[Callable[[Any], Any], str]]:
    """Functions of a value of shape 2x5x6, and the node that each is."""
    torch: Any = import_module("torch")
    functional = torch.nn.functional
    torch.manual_seed(0)
    scale, offset, wide = (torch.randn(shape) for shape in (6, 6, (5, 6)))

    def gelu(x: Any) -> Any:
        return functional.gelu(x)

    def other_gelu(x: Any) -> Any:
        return x * (1 + torch.erf(x / 1.5)) / 2

    def centered_rows(x: Any) -> Any:
        return (x - x.mean(1, True)) / (x.var(1, unbiased=False, keepdim=True) + 1).sqrt()

    def root_mean_square(x: Any) -> Any:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * scale

    normalized = functional.layer_norm
    return {
        "gelu": (gelu, "Gelu"),
        "gelu by tanh": (partial(functional.gelu, approximate="tanh"), "Gelu"),
        "another gelu": (other_gelu, ""),
        "softmax": (partial(torch.softmax, dim=-1), "Softmax"),
        "softmax of rows": (partial(torch.softmax, dim=1), "Softmax"),
        "log-softmax": (partial(torch.log_softmax, dim=-1), "LogSoftmax"),
        "normalization": (
            partial(normalized, normalized_shape=(6,), weight=scale, bias=offset),
            "LayerNormalization",
        ),
        "normalization of two axes": (
            partial(normalized, normalized_shape=(5, 6), weight=wide, bias=wide + 1, eps=0.25),
            "LayerNormalization",
        ),
        "plain normalization": (partial(normalized, normalized_shape=(6,)), "LayerNormalization"),
        "normalization of rows": (centered_rows, ""),
        "root mean square": (root_mean_square, "SimplifiedLayerNormalization"),
        "interpolation": (partial(functional.interpolate, size=9, mode="linear"), "Resize"),
        "interpolation to the same length": (
            lambda x: functional.interpolate(x.exp(), size=6, mode="linear"),
            "Exp",
        ),
        "a middle row": (lambda x: x[:, torch.tensor([2])], "Gather"),
        "running sum": (partial(torch.cumsum, dim=1), "CumSum"),
        "place of the largest": (partial(torch.argmax, dim=-1), "ArgMax"),
        "place of the least": (partial(torch.argmin, dim=1, keepdim=True), "ArgMin"),
        "the largest": (lambda x: x.max(1).values, "ReduceMax"),
    }


FORMS = ("linalg-on-tensors", "tosa", "stablehlo")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *product(("gelu", "gelu by tanh", "softmax", "normalization"), FORMS),
        *product(("interpolation", "running sum"), (FORMS[0], FORMS[2])),
        *product(["place of the largest"], FORMS),
        *(
            (name, "stablehlo")
            for name in (
                "another gelu",
                "softmax of rows",
                "log-softmax",
                "normalization of two axes",
                "plain normalization",
                "normalization of rows",
                "root mean square",
                "the largest",
            )
        ),
        *(
            (name, "linalg-on-tensors")
            for name in (
                "interpolation to the same length",
                "a middle row",
                "place of the least",
            )
        ),
    ],
)
def test_functions_of_several_ops_are_one_node(name: str, form: Any, tmp_path: Path) -> None:
    """The epsilon counts: all numbers of one row are small."""
    torch: Any = pytest.importorskip("torch")
    from qdialect.frontends import from_torch
    from qdialect.text import write_module

    function, node = functions_of_torch()[name]

    class Network(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    network = Network()
    x = torch.randn(2, 5, 6) * 2 + 0.5
    x[0, 1] /= 1000
    context = ToolContext(allow_unregistered=True)
    module = from_torch(torch.export.export(network, (x,)), form, context=context)
    with open(tmp_path / "torch.mlir", "w") as file:
        write_module(context, module, file)
    text = re.sub(r"func.func @\w+", "func.func @main", (tmp_path / "torch.mlir").read_text())
    model = exported(text, tmp_path)
    (result,) = results_of(model, x.numpy())
    np.testing.assert_allclose(result, run_here(text, x.numpy())[0], rtol=1e-5, atol=2e-6)
    nodes = nodes_of(model)
    # Without the axis of a reduction.
    nodes.pop("Reshape", None)
    if node:
        assert nodes == {node: 1}
    assert nodes.keys() & {"Gelu", "LayerNormalization", "Softmax"} <= {node}


def test_a_function_with_limits_is_another_one(tmp_path: Path) -> None:
    """A gelu of numbers up to 50 is no gelu of all numbers."""
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %most = arith.constant 50.0 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %root = arith.constant 0.707106769 : f32
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %l = arith.minimumf %a, %most : f32
    %m = arith.mulf %l, %root : f32
    %f = math.erf %m : f32
    %s = arith.addf %f, %one : f32
    %p = arith.mulf %l, %s : f32
    %r = arith.mulf %p, %half : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
    model = exported(text, tmp_path)
    (result,) = results_of(model, np.array([-1, 0, 1, 99], "f4"))
    np.testing.assert_allclose(result, [-0.15865526, 0, 0.84134474, 50], rtol=1e-6)


@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("size", [(10, 12), (7, 3), (5, 9)])
def test_a_linear_interpolation_is_one_node(
    size: tuple[int, int], mode: str, tmp_path: Path
) -> None:
    """As IREE's importer writes a Resize: a body that reads four elements."""
    onnx: Any = pytest.importorskip("onnx")
    from qdialect.text import write_module

    make = onnx.helper
    lengths = onnx.numpy_helper.from_array(np.array((2, 3, *size)), "lengths")
    how = {"mode": "linear", "coordinate_transformation_mode": mode}
    node = make.make_node("Resize", ["x", "", "", "lengths"], ["y"], **how)
    values = [
        make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (2, 3, 5, 6)), ("y", (2, 3, *size)))
    ]
    graph = make.make_graph([node], "main", values[:1], values[1:], [lengths])
    source = tmp_path / "source.onnx"
    onnx.save(
        make.make_model(graph, opset_imports=[make.make_opsetid("", 19)], ir_version=9), source
    )
    context = ToolContext(allow_unregistered=True)
    with open(tmp_path / "resize.mlir", "w") as file:
        write_module(context, from_onnx(source, context=context), file)
    model = exported((tmp_path / "resize.mlir").read_text(), tmp_path)
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 6)).astype("f4")
    (result,), (expected,) = results_of(model, x), results_of(source, x)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2e-6)
    assert written_in(model) == {"Resize": 1, "Identity": 1}


@pytest.mark.parametrize(
    ("factor", "type"), [(1, "Identity"), (1 + 2**-20, None)], ids=("exact", "near")
)
def test_only_a_function_that_changes_no_number_is_the_identity(
    factor: float, type: str | None
) -> None:
    """A factor so near to 1 is still one: leaving it out would be a result that differs."""
    function = function_of(lambda x: x * factor, (8, 16), (8, 16), ())
    assert (function and function.type) == type


# Kernels of integers


def quantized(network: Any, x: Any, folder: Path) -> tuple[str, Path]:
    """A network of torch that is quantized as for ONNX Runtime: its text, and its model."""
    torch: Any = pytest.importorskip("torch")
    from qdialect import Quantized
    from qdialect.frontends import from_torch

    context = ToolContext(allow_unregistered=True)
    module = from_torch(torch.export.export(network, (x,)), "stablehlo", context=context)
    steps = Quantized(module, iter([x.numpy()]), context=context, folder=folder / "steps")
    steps.import_model().put_in_order().calibrate()
    steps.quantize(
        scheme="one-u8",
        granularity="channel",
        weight_scheme="onnxruntime-symmetric",
        weight_storage="i7",
        ops="sums-of-products",
    )
    text = (folder / "steps" / "quantized.mlir").read_text()
    return re.sub(r"func.func @\w+", "func.func @main", text), Path(steps.export("onnx"))


def with_gates(wide: int, is_open: bool) -> tuple[Any, Any]:
    """A network whose layers have so many channels, of which one value may be a result."""
    torch: Any = pytest.importorskip("torch")
    from torch import nn
    from torch.nn import functional as F

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, wide, 3, padding=1)
            self.depth = nn.Conv2d(wide, wide, 3, padding=1, groups=wide)
            self.narrow, self.gate = nn.Conv2d(wide, 4, 1), nn.Conv2d(4, wide, 1)
            self.last, self.end = nn.Conv2d(wide, wide, 1), nn.Conv2d(wide, 5, 3)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.first(x))
            y = F.hardswish(self.depth(x))
            mean = y.mean((2, 3), keepdim=True)
            y = y * torch.sigmoid(self.gate(F.relu(self.narrow(mean))))
            y = F.silu(self.last(y) + x)
            return (self.end(y), mean) if is_open else self.end(y)

    torch.manual_seed(0)
    return Gated().eval(), torch.randn(2, 3, 9, 10)


@pytest.mark.parametrize(
    ("wide", "is_open", "channels"),
    [
        (10, False, [(16, 4), (16, 1), (16, 16), (16, 16), (16, 16), (5, 16)]),
        (17, False, [(32, 4), (32, 1), (16, 32), (32, 16), (32, 32), (5, 32)]),
        (16, False, [(16, 4), (16, 1), (16, 16), (16, 16), (16, 16), (5, 16)]),
        (10, True, [(10, 4), (10, 1), (16, 10), (10, 16), (10, 10), (5, 12)]),
    ],
)
def test_layers_have_as_many_channels_as_kernels_take(
    wide: int, is_open: bool, channels: list[tuple[int, int]], tmp_path: Path
) -> None:
    """What another node than a layer needs keeps its channels."""
    onnx: Any = pytest.importorskip("onnx")
    network, x = with_gates(wide, is_open)
    text, model = quantized(network, x, tmp_path)
    scale = float(re.findall(r"uniform<u8:f32, ([\d.E-]+)", text)[-1])
    for result, expected in zip(
        results_of(model, x.numpy()), run_here(text, x.numpy()), strict=True
    ):
        assert np.abs(result - expected).max() < 1.5 * scale
    assert (nodes_of(model)["QLinearConv"], nodes_of(model)["Conv"]) == (6, 0)
    graph = onnx.load(str(model)).graph
    lengths = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    stored = {node.output[0]: lengths.get(node.input[0], ()) for node in graph.node}
    layers = [node for node in graph.node if node.op_type == "Conv"]
    assert [stored[node.input[1]][:2] for node in layers] == channels
    # With channels last, both axes at once take longer than one after the other.
    means = [node.input[1] for node in graph.node if node.op_type == "ReduceMean"]
    assert [lengths[axes] for axes in means] == [(1,), (1,)]


@pytest.mark.parametrize(
    ("channels", "window", "is_last", "count"),
    [
        (1, 3, False, 4),
        (2, 3, False, 4),
        (1, 5, False, 1),
        (3, 5, False, 4),
        (3, 1, False, 3),
        (1, 3, True, 4),
        (3, 3, True, 4),
        (3, 5, True, 3),
    ],
)
def test_images_have_as_many_channels_as_kernels_take(
    channels: int, window: int, is_last: bool, count: int, tmp_path: Path
) -> None:
    onnx: Any = pytest.importorskip("onnx")
    random, size = np.random.default_rng(channels), 9 - window
    weights = random.integers(-127, 128, (16, channels, window, window))
    image, first = f"1x{channels}x8x8", "%d"
    turn = ""
    if is_last:
        image, first = f"1x8x8x{channels}", "%t"
        turn = f"""%t = stablehlo.transpose %d, dims = [0, 3, 1, 2]
    : (tensor<{image}xf32>) -> tensor<1x{channels}x8x8xf32>"""
    kernel, sums = f"tensor<{'x'.join(map(str, weights.shape))}", f"tensor<1x16x{size}x{size}"
    text = f"""
!x = !quant.uniform<u8:f32, 0.0625:100>
!w = !quant.uniform<i8:f32, 0.015625>
!y = !quant.uniform<u8:f32, 0.5:128>
func.func @main(%x: tensor<{image}xf32>) -> {sums}xf32> {{
  %q = quant.qcast %x : tensor<{image}xf32> to tensor<{image}x!x>
  %d = quant.dcast %q : tensor<{image}x!x> to tensor<{image}xf32>
  {turn}
  %c = quant.constant dense<{weights.tolist()}> : {kernel}x!w>
  %w = quant.dcast %c : {kernel}x!w> to {kernel}xf32>
  %e = arith.constant dense<0.0> : {sums}xf32>
  %s = linalg.conv_2d_nchw_fchw ins({first}, %w : tensor<1x{channels}x8x8xf32>, {kernel}xf32>)
    outs(%e : {sums}xf32>) -> {sums}xf32>
  %p = quant.qcast %s : {sums}xf32> to {sums}x!y>
  %y = quant.dcast %p : {sums}x!y> to {sums}xf32>
  return %y : {sums}xf32>
}}"""
    x = random.normal(size=[int(length) for length in image.split("x")]).astype("f4")
    model = exported(text, tmp_path)
    (result,), (expected,) = results_of(model, x), run_here(text, x)
    assert np.abs(result - expected).max() <= 0.5
    assert (nodes_of(model)["QLinearConv"], nodes_of(model)["Conv"]) == (1, 0)
    initializers = onnx.load(str(model)).graph.initializer
    (shape,) = (tuple(tensor.dims) for tensor in initializers if len(tensor.dims) == 4)
    assert shape == (16, count, window, window)


@pytest.mark.parametrize(("wide", "times", "groups"), [(8, 2, 16), (5, 3, 16), (16, 1, 16)])
def test_several_channels_that_read_one_of_an_image_have_it_for_each(
    wide: int, times: int, groups: int, tmp_path: Path
) -> None:
    """Of 15 channels there are 16, as kernels take."""
    onnx: Any = pytest.importorskip("onnx")
    torch: Any = pytest.importorskip("torch")
    from torch import nn

    torch.manual_seed(1)
    layers = (
        nn.Conv2d(3, wide, 3, padding=1),
        nn.Conv2d(wide, wide * times, 5, stride=2, padding=2, groups=wide),
        nn.ReLU(),
        nn.Conv2d(wide * times, 5, 1),
    )
    network, x = nn.Sequential(*layers).eval(), torch.randn(2, 3, 9, 10)
    text, model = quantized(network, x, tmp_path)
    scale = float(re.findall(r"uniform<u8:f32, ([\d.E-]+)", text)[-1])
    for result, expected in zip(
        results_of(model, x.numpy()), run_here(text, x.numpy()), strict=True
    ):
        assert np.abs(result - expected).max() < 1.5 * scale
    assert (nodes_of(model)["QLinearConv"], nodes_of(model)["Conv"]) == (3, 0)
    layer = [node for node in onnx.load(str(model)).graph.node if node.op_type == "Conv"][1]
    values = {
        attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in layer.attribute
    }
    assert values["group"] == groups


def test_a_mean_of_windows_of_codes_is_one_node_of_integers(tmp_path: Path) -> None:
    """The kernel has no dilations."""
    text = """
!q = !quant.uniform<u8:f32, 0.03125:117>
func.func @main(%a: tensor<1x8x6x6xf32>) -> tensor<1x8x3x3xf32> {
  %p = quant.qcast %a : tensor<1x8x6x6xf32> to tensor<1x8x6x6x!q>
  %x = quant.dcast %p : tensor<1x8x6x6x!q> to tensor<1x8x6x6xf32>
  %w = tensor.empty() : tensor<2x2xf32>
  %zero = arith.constant dense<0.0> : tensor<1x8x3x3xf32>
  %s = linalg.pooling_nchw_sum
    {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
    ins(%x, %w : tensor<1x8x6x6xf32>, tensor<2x2xf32>)
    outs(%zero : tensor<1x8x3x3xf32>) -> tensor<1x8x3x3xf32>
  %n = arith.constant dense<4.0> : tensor<1x8x3x3xf32>
  %m = arith.divf %s, %n : tensor<1x8x3x3xf32>
  %q = quant.qcast %m : tensor<1x8x3x3xf32> to tensor<1x8x3x3x!q>
  %y = quant.dcast %q : tensor<1x8x3x3x!q> to tensor<1x8x3x3xf32>
  return %y : tensor<1x8x3x3xf32>
}
"""
    x = np.sin(np.arange(288, dtype="f4")).reshape(1, 8, 6, 6)
    model = exported(text, tmp_path)
    (result,), (expected,) = results_of(model, x), run_here(text, x)
    # Sums that are halves of a code are rounded in either direction.
    assert np.abs(result - expected).max() <= 0.03125
    assert nodes_of(model)["QLinearAveragePool"] == 1


@pytest.mark.parametrize(("factor", "is_same"), [(0.25, True), (0.2503, True), (0.26, False)])
@pytest.mark.parametrize("is_divided", [True, False])
def test_a_multiple_of_codes_has_the_same_codes(
    factor: float, is_same: bool, is_divided: bool, tmp_path: Path
) -> None:
    """For example, in an attention, whose queries are multiplied by a number."""
    op, number = ("divf", 1 / factor) if is_divided else ("mulf", factor)
    text = f"""
!x = !quant.uniform<u8:f32, 0.5:117>
!y = !quant.uniform<u8:f32, 0.125:117>
func.func @main(%a: tensor<256xf32>) -> tensor<256xf32> {{
  %p = quant.qcast %a : tensor<256xf32> to tensor<256x!x>
  %c = quant.dcast %p : tensor<256x!x> to tensor<256xf32>
  %f = arith.constant dense<{number}> : tensor<256xf32>
  %m = arith.{op} %c, %f : tensor<256xf32>
  %q = quant.qcast %m : tensor<256xf32> to tensor<256x!y>
  %y = quant.dcast %q : tensor<256x!y> to tensor<256xf32>
  return %y : tensor<256xf32>
}}
"""
    x = ((np.arange(256) - 117) * 0.5).astype("f4")
    model = exported(text, tmp_path)
    (result,), (expected,) = results_of(model, x), run_here(text, x)
    assert np.array_equal(result, expected)
    nodes = written_in(model)
    assert (nodes["QuantizeLinear"], nodes["Mul"] + nodes["Div"]) == ((1, 0) if is_same else (2, 1))


def pool(stride: int) -> str:
    """A maximum of pairs, with a smallest number before the first one."""
    return f"""
  %j = "stablehlo.reduce_window"(%n, %low) <{{padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>,
      window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, {stride}>}}> ({{
  ^bb0(%s: tensor<f32>, %t: tensor<f32>):
    %m = stablehlo.maximum %s, %t : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }}) : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x{8 // stride}xf32>"""


BEFORE_CASTS = {
    "concat": (
        "%j = stablehlo.concatenate %n, %d, %n, dim = 1"
        " : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x24xf32>",
        24,
        {"Concat": ["QuantizeLinear"] * 3},
    ),
    "pool": (pool(1), 8, {"MaxPool": ["QuantizeLinear"]}),
    "pool that makes elements fewer": (pool(2), 4, {"MaxPool": ["Reshape"]}),
}


@pytest.mark.parametrize("storage", ["u8", "u16"])
@pytest.mark.parametrize("name", BEFORE_CASTS)
def test_codes_are_moved_before_casts_to_bytes(name: str, storage: str, tmp_path: Path) -> None:
    """Also codes of the same slot, which are not cast again."""
    op, length, wanted = BEFORE_CASTS[name]
    text = f"""
!x = !quant.uniform<{storage}:f32, 0.125:100>
!y = !quant.uniform<{storage}:f32, 0.25:20>
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x{length}xf32> {{
  %q = quant.qcast %x : tensor<2x8xf32> to tensor<2x8x!x>
  %f = quant.dcast %q : tensor<2x8x!x> to tensor<2x8xf32>
  %p = quant.qcast %x : tensor<2x8xf32> to tensor<2x8x!y>
  %d = quant.dcast %p : tensor<2x8x!y> to tensor<2x8xf32>
  %n = stablehlo.negate %f : tensor<2x8xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  {op}
  %c = quant.qcast %j : tensor<2x{length}xf32> to tensor<2x{length}x!y>
  %r = quant.dcast %c : tensor<2x{length}x!y> to tensor<2x{length}xf32>
  return %r : tensor<2x{length}xf32>
}}"""
    x = np.random.default_rng(1).normal(scale=4, size=(2, 8)).astype("f4")
    model = exported(text, tmp_path)
    (result,), (expected,) = results_of(model, x), run_here(text, x)
    np.testing.assert_array_equal(result, expected)
    onnx: Any = pytest.importorskip("onnx")
    nodes = onnx.load(str(model)).graph.node
    makers = {value: node.op_type for node in nodes for value in node.output}
    read = {node.op_type: [makers.get(value) for value in node.input] for node in nodes}
    if storage == "u16":
        # Kernels of pools have no codes of 16 bits.
        floats = {"Concat": ["Neg", "DequantizeLinear", "Neg"], "MaxPool": ["Reshape"]}
        wanted = {kind: floats[kind] for kind in wanted}
    assert {kind: read[kind] for kind in wanted} == wanted


def test_equal_scales_along_other_axes_are_other_casts(tmp_path: Path) -> None:
    codes = [f"tensor<2x2x!quant.uniform<u8:f32:{axis}, {{0.5, 0.125}}>>" for axis in (0, 1)]
    text = f"""
func.func @main(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {{
  %p = quant.qcast %x : tensor<2x2xf32> to {codes[0]}
  %a = quant.dcast %p : {codes[0]} to tensor<2x2xf32>
  %q = quant.qcast %x : tensor<2x2xf32> to {codes[1]}
  %b = quant.dcast %q : {codes[1]} to tensor<2x2xf32>
  return %a, %b : tensor<2x2xf32>, tensor<2x2xf32>
}}"""
    x = np.array([[1.125, 1.125], [1.125, 1.125]], "f4")
    results = [result.tolist() for result in results_of(exported(text, tmp_path), x)]
    assert results == [[[1, 1], [1.125, 1.125]], [[1, 1.125], [1, 1.125]]]


def test_casts_of_a_chain_of_concats_are_as_many_as_there_are_concats(tmp_path: Path) -> None:
    """Each result is stored in a slot of its own."""
    count, lines = 12, list[str]()
    for index in range(1, count + 1):
        before, after, floats = index, index + 1, f"tensor<{index + 1}x8xf32>"
        codes = f"tensor<{after}x8x!quant.uniform<u8:f32, {index * 0.125}:100>>"
        lines += [
            f"%j{after} = stablehlo.concatenate %j{before}, %j1, dim = 0"
            f" : (tensor<{before}x8xf32>, tensor<1x8xf32>) -> {floats}",
            f"%c{index} = quant.qcast %j{after} : {floats} to {codes}",
            f"%d{index} = quant.dcast %c{index} : {codes} to {floats}",
        ]
    types = ", ".join(f"tensor<{index + 1}x8xf32>" for index in range(1, count + 1))
    results = ", ".join(f"%d{index}" for index in range(1, count + 1))
    body = "\n".join(lines)
    text = f"""
func.func @main(%x: tensor<1x8xf32>) -> ({types}) {{
  %j1 = stablehlo.negate %x : tensor<1x8xf32>
  {body}
  return {results} : {types}
}}"""
    x = np.random.default_rng(1).normal(scale=4, size=(1, 8)).astype("f4")
    model = exported(text, tmp_path)
    for result, expected in zip(results_of(model, x), run_here(text, x), strict=True):
        np.testing.assert_array_equal(result, expected)
    assert written_in(model)["QuantizeLinear"] <= 5 * count


FACTORS = {
    "x * sigmoid(x)": ("%x", "%s", {"QLinearMul": 1, "QLinearSigmoid": 1}),
    "x * hardsigmoid(x)": ("%x", "%h", {"QLinearMul": 1, "QLinearAdd": 1}),
    "hardsigmoid(x) * y": ("%h", "%z", {"QLinearMul": 1, "QLinearAdd": 1}),
    "sigmoid(y) * hardsigmoid(x)": (
        "%t",
        "%h",
        {"QLinearMul": 1, "QLinearAdd": 1, "QLinearSigmoid": 1},
    ),
}


@pytest.mark.parametrize(
    ("storage", "scale"), [("u8", 0.03), ("u8", 0.0003), ("i8", 0.03), ("u8<0:254>", 0.03)]
)
@pytest.mark.parametrize("name", FACTORS)
def test_factors_are_quantized_if_products_stay_within_one_code(
    name: str, scale: float, storage: str, tmp_path: Path
) -> None:
    """All codes, and all pairs of them. Of `i8`, kernels are not used on all CPUs."""
    one, other, kernels = FACTORS[name]
    zero = -128 if storage == "i8" else 0
    text = f"""
!x = !quant.uniform<{storage}:f32, 0.05:{zero + 117}>
!y = !quant.uniform<{storage}:f32, {scale}:{zero + 11}>
#all = affine_map<(i, j) -> (i, j)>
!floats = tensor<256x256xf32>
!codes = tensor<256x256x!x>
!results = tensor<256x256x!y>
func.func @main(%a: !floats, %b: !floats) -> !floats {{
  %p = quant.qcast %a : !floats to !codes
  %q = quant.qcast %b : !floats to !codes
  %c = quant.dcast %p : !codes to !floats
  %d = quant.dcast %q : !codes to !floats
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %fifth = arith.constant 0.2 : f32
  %e = tensor.empty() : !floats
  %r = linalg.generic {{indexing_maps = [#all, #all, #all],
      iterator_types = ["parallel", "parallel"]}}
      ins(%c, %d : !floats, !floats) outs(%e : !floats) {{
  ^bb0(%x: f32, %z: f32, %o: f32):
    {"".join(sigmoid(result, source) for result, source in (("%s", "%x"), ("%t", "%z")))}
    %m = arith.mulf %x, %fifth : f32
    %n = arith.addf %m, %half : f32
    %k = arith.maximumf %n, %zero : f32
    %h = arith.minimumf %k, %one : f32
    %v = arith.mulf {one}, {other} : f32
    linalg.yield %v : f32
  }} -> !floats
  %u = quant.qcast %r : !floats to !results
  %w = quant.dcast %u : !results to !floats
  return %w : !floats
}}
"""
    x = np.broadcast_to((np.arange(256) - 117) * 0.05, (256, 256)).astype("f4")
    model = exported(text, tmp_path, "--activations=keep")
    arguments = x, x.T.copy()
    (result,), (expected,) = results_of(model, *arguments), run_here(text, *arguments)
    assert np.abs(result - expected).max() < 1.5 * scale
    kinds = ("QLinearMul", "QLinearAdd", "QLinearSigmoid", "Mul", "Sigmoid", "HardSigmoid")
    nodes = {kind: nodes_of(model)[kind] for kind in kinds if nodes_of(model)[kind]}
    # Near zero, a product of x and of a function of x is exact.
    is_near = storage != "i8" and (scale == 0.03 or "y" not in name)
    assert is_near == (nodes == kernels), nodes


def sigmoid(result: str, source: str) -> str:
    return f"""
    {result}_n = arith.negf {source} : f32
    {result}_e = math.exp {result}_n : f32
    {result}_d = arith.addf %one, {result}_e : f32
    {result} = arith.divf %one, {result}_d : f32"""


# Files and errors


def test_large_constants_are_in_a_file_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_graph, "_MAX_FILE", 1 << 12)
    codes = np.random.default_rng(0).integers(-128, 128, (64, 96))
    text = f"""
!w = !quant.uniform<i8:f32, 0.5>
func.func @main(%x: tensor<2x64xf32>) -> tensor<2x96xf32> {{
  %c = quant.constant dense<{codes.tolist()}> : tensor<64x96x!w>
  %w = quant.dcast %c : tensor<64x96x!w> to tensor<64x96xf32>
  %y = stablehlo.dot %x, %w : (tensor<2x64xf32>, tensor<64x96xf32>) -> tensor<2x96xf32>
  return %y : tensor<2x96xf32>
}}"""
    model = exported(text, tmp_path)
    assert (tmp_path / "module.onnx.data").stat().st_size == 64 * 96
    assert model.stat().st_size < 2000
    (result,) = results_of(model, np.ones((2, 64), "f4"))
    assert np.array_equal(result, np.broadcast_to(codes.sum(0) * 0.5, (2, 96)))


def test_a_function_of_another_package_is_what_its_rule_says(tmp_path: Path) -> None:
    relu6 = OpModel(
        run=OnElements(f"{__name__}:relu6"), rule=own(0, function="clamp", limits=(0.0, 6.0))
    )
    largest = OpModel(
        run=OnElements(f"{__name__}:largest", arity=2), rule=own(0, 1, function="max")
    )
    register_models(OpModels("own", {"relu6": relu6, "largest": largest}))
    text = """
func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %r = "own.relu6"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %m = "own.largest"(%r, %y) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %m : tensor<3xf32>
}"""
    nodes = written_in(exported(text, tmp_path))
    assert nodes["Clip"] == nodes["Max"] == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('%y = "test.op"(%x) : (tensor<2xf32>) -> tensor<2xf32>', "'test.op' op is not written"),
        ("%y = math.cbrt %x : tensor<2xf32>", "no node computes 'cbrt'"),
        (
            "%q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 0.5>>\n"
            "%i = quant.scast %q : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xi8>\n"
            "%y = arith.sitofp %i : tensor<2xi8> to tensor<2xf32>",
            "stored integers are read",
        ),
        (
            "%q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<f8E5M2:f32, 0.5>>\n"
            "%y = quant.dcast %q : tensor<2x!quant.uniform<f8E5M2:f32, 0.5>> to tensor<2xf32>",
            "it stores codes of f8E5M2, and integers are needed",
        ),
        (
            """%c = arith.constant dense<0.0> : tensor<f32>
%r:2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>,
  affine_map<(i) -> ()>], iterator_types = ["reduction"]}
  ins(%x : tensor<2xf32>) outs(%c, %c : tensor<f32>, tensor<f32>) {
^bb0(%a: f32, %one: f32, %other: f32):
  %p = arith.addf %one, %a : f32
  %q = arith.maximumf %other, %a : f32
  linalg.yield %q, %p : f32, f32
} -> (tensor<f32>, tensor<f32>)
%y = stablehlo.broadcast_in_dim %r#0, dims = [] : (tensor<f32>) -> tensor<2xf32>""",
            "its reduction is not one function of two elements",
        ),
        (
            """%c = arith.constant dense<true> : tensor<i1>
%i = tensor.extract %c[] : tensor<i1>
%y = scf.if %i -> (tensor<2xf32>) {
  %n = arith.negf %x : tensor<2xf32>
  scf.yield %n : tensor<2xf32>
} else {
  scf.yield %x : tensor<2xf32>
}""",
            "branches have no nodes",
        ),
        (
            """%e = arith.constant 0 : index
%one = arith.constant 1 : index
%f = tensor.extract %x[%e] : tensor<2xf32>
%n = arith.fptosi %f : f32 to i64
%m = arith.index_cast %n : i64 to index
%y = scf.for %i = %e to %m step %one iter_args(%a = %x) -> (tensor<2xf32>) {
  %b = arith.negf %a : tensor<2xf32>
  scf.yield %b : tensor<2xf32>
}""",
            "the number of its runs is only known at run time",
        ),
        (
            '"test.effect"(%x) : (tensor<2xf32>) -> ()\n%y = arith.negf %x : tensor<2xf32>',
            "it may have effects",
        ),
    ],
)
def test_what_no_node_computes_is_an_error(
    body: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx")
    path, result = tmp_path / "model.mlir", tmp_path / "model.onnx"
    end = "return %y : tensor<2xf32>\n}"
    path.write_text(f"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{body}\n{end}")
    result.write_bytes(b"as it was")
    assert main([str(path), "--allow-unregistered-dialect", "-o", str(result)]) == 1
    told = capsys.readouterr().err
    assert re.search(rf"{re.escape(str(path))}:[2-7]:[0-9]+: error: ", told)
    assert reason in told
    assert result.read_bytes() == b"as it was"


NO_MODELS = {
    "known at run time; give shapes of inputs with --shape": (
        "func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {\nreturn %x : tensor<?xf32>\n}"
    ),
    "has 2 functions": "func.func @f() {\nreturn\n}\nfunc.func @g() {\nreturn\n}",
    "type 'i5'": "func.func @f(%x: tensor<2xi5>) -> tensor<2xi5> {\nreturn %x : tensor<2xi5>\n}",
}


@pytest.mark.parametrize(("ending", "library"), [("onnx", "onnx"), ("vmfb", "iree")])
def test_a_missing_library_is_named(
    ending: str,
    library: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (library, f"{library}.compiler"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "model.mlir").write_text("func.func @f() {\nreturn\n}")
    result = str(tmp_path / f"model.{ending}")
    assert main([str(tmp_path / "model.mlir"), "-o", result]) == 1
    told = capsys.readouterr().err
    assert f"qdialect-export: error: '{library}" in told
    assert f'pip install ".[{library}]"' in told


@pytest.mark.parametrize("reason", NO_MODELS)
def test_modules_that_are_no_models(
    reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx")
    (tmp_path / "model.mlir").write_text(NO_MODELS[reason])
    assert main([str(tmp_path / "model.mlir"), "-o", str(tmp_path / "model.onnx")]) == 1
    assert reason in capsys.readouterr().err
