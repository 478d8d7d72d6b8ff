"""
What the models of layers say of the axes of weights, against IREE, which computes the layers.

Each position of a channel axis is used for its own elements of the result; each position of another
axis for elements that the others are used for too. If the other operand is zero but at one position
of an axis that is summed over, only that position of the weights is used at all.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.ops.fields import Contraction, Lookup
from qdialect.ops.interface import layer_of
from qdialect.opt.registry import ToolContext
from qdialect.text.parser import LocatingParser

pytestmark = pytest.mark.without_xdsl

Array = NDArray[Any]
Shape = tuple[int, ...]


def type_of(shape: Shape, element: str = "f32") -> str:
    return f"tensor<{''.join(f'{length}x' for length in shape)}{element}>"


@dataclass(frozen=True)
class Layer:
    """An op of two operands: `%x` and `%w`; `TYPE` is the type of the result."""

    name: str
    text: str
    shapes: tuple[Shape, Shape]
    result: Shape

    @property
    def function(self) -> str:
        x, w = map(type_of, self.shapes)
        text = (
            self.text.replace("XTYPE", x).replace("WTYPE", w).replace("TYPE", type_of(self.result))
        )
        return (
            f"func.func @{self.name}(%x: {x}, %w: {w}) -> {type_of(self.result)} {{\n"
            f"  {text}\n  return %r : {type_of(self.result)}\n}}"
        )


def linalg(
    op: str, x: Shape, w: Shape, result: Shape, attributes: str = "", body: str = ""
) -> Layer:
    name = op.replace(".", "_")
    text = f"""
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : TYPE
  %o = linalg.fill ins(%z : f32) outs(%e : TYPE) -> TYPE
  %r = linalg.{op} {attributes} ins(%x, %w : XTYPE, WTYPE) outs(%o : TYPE) {body} -> TYPE"""
    return Layer(f"linalg_{name}", text, (x, w), result)


def tosa(op: str, x: Shape, w: Shape, result: Shape, channels: int, attributes: str) -> Layer:
    bias = type_of((channels,))
    text = f"""
  %b = "tosa.const"() <{{values = dense<0.0> : {bias}}}> : () -> {bias}
  %z = "tosa.const"() <{{values = dense<0.0> : tensor<1xf32>}}> : () -> tensor<1xf32>
  %r = "tosa.{op}"(%x, %w, %b, %z, %z) <{{acc_type = f32, {attributes}}}>
    : (XTYPE, WTYPE, {bias}, tensor<1xf32>, tensor<1xf32>) -> TYPE"""
    return Layer(f"tosa_{op}", text, (x, w), result)


def stablehlo(name: str, op: str, x: Shape, w: Shape, result: Shape, attributes: str) -> Layer:
    text = f'%r = "stablehlo.{op}"(%x, %w) <{{{attributes}}}> : (XTYPE, WTYPE) -> TYPE'
    return Layer(f"stablehlo_{name}", text, (x, w), result)


IDENTITY_2D = "pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>"


def dot(batch: str, contracted: str) -> str:
    lists: list[str] = []
    for kind, given in (("batching", batch), ("contracting", contracted)):
        for side, numbers in zip(("lhs", "rhs"), given.split(";"), strict=True):
            if numbers:
                lists.append(f"{side}_{kind}_dimensions = [{numbers}]")
    return f"dot_dimension_numbers = #stablehlo.dot<{', '.join(lists)}>"


def convolution(numbers: str, groups: int = 1) -> str:
    return (
        f"batch_group_count = 1 : i64, feature_group_count = {groups} : i64, "
        f"dimension_numbers = #stablehlo.conv<{numbers}>"
    )


LAYERS = [
    linalg("matmul", (3, 4), (4, 5), (3, 5)),
    linalg("batch_matmul", (2, 3, 4), (2, 4, 5), (2, 3, 5)),
    linalg("matvec", (3, 4), (4,), (3,)),
    linalg("vecmat", (4,), (4, 5), (5,)),
    linalg("conv_1d_nwc_wcf", (1, 5, 3), (2, 3, 4), (1, 4, 4)),
    linalg("conv_1d_ncw_fcw", (1, 3, 5), (4, 3, 2), (1, 4, 4)),
    linalg("conv_2d_nhwc_hwcf", (1, 4, 5, 3), (2, 2, 3, 4), (1, 3, 4, 4)),
    linalg("conv_2d_nhwc_fhwc", (1, 4, 5, 3), (4, 2, 2, 3), (1, 3, 4, 4)),
    linalg("conv_2d_nchw_fchw", (1, 3, 4, 5), (4, 3, 2, 2), (1, 4, 3, 4)),
    linalg("conv_2d_ngchw_fgchw", (1, 2, 3, 4, 5), (4, 2, 3, 2, 2), (1, 2, 4, 3, 4)),
    linalg("conv_2d_ngchw_gfchw", (1, 2, 3, 4, 5), (2, 4, 3, 2, 2), (1, 2, 4, 3, 4)),
    linalg("conv_2d_nhwgc_gfhwc", (1, 4, 5, 2, 3), (2, 4, 2, 2, 3), (1, 3, 4, 2, 4)),
    linalg("depthwise_conv_2d_nhwc_hwc", (1, 4, 5, 3), (2, 2, 3), (1, 3, 4, 3)),
    linalg("depthwise_conv_2d_nhwc_hwcm", (1, 4, 5, 3), (2, 2, 3, 2), (1, 3, 4, 3, 2)),
    linalg("depthwise_conv_2d_nchw_chw", (1, 3, 4, 5), (3, 2, 2), (1, 3, 3, 4)),
    linalg(
        "generic",
        (3, 4),
        (5, 4),
        (3, 5),
        "{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, "
        'affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}',
        """{
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }""",
    ),
    tosa(
        "conv2d",
        (1, 4, 5, 3),
        (4, 2, 2, 3),
        (1, 3, 4, 4),
        4,
        f"{IDENTITY_2D}, dilation = array<i64: 1, 1>",
    ),
    tosa(
        "depthwise_conv2d",
        (1, 4, 5, 3),
        (2, 2, 3, 2),
        (1, 3, 4, 6),
        6,
        f"{IDENTITY_2D}, dilation = array<i64: 1, 1>",
    ),
    tosa(
        "transpose_conv2d",
        (1, 3, 4, 3),
        (4, 2, 2, 3),
        (1, 4, 5, 4),
        4,
        "out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>",
    ),
    tosa(
        "conv3d",
        (1, 3, 3, 3, 2),
        (4, 2, 2, 2, 2),
        (1, 2, 2, 2, 4),
        4,
        "pad = array<i64: 0, 0, 0, 0, 0, 0>, stride = array<i64: 1, 1, 1>, "
        "dilation = array<i64: 1, 1, 1>",
    ),
    Layer(
        "tosa_matmul",
        """%z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %r = "tosa.matmul"(%x, %w, %z, %z) : (XTYPE, WTYPE, tensor<1xf32>, tensor<1xf32>) -> TYPE""",
        ((2, 3, 4), (2, 4, 5)),
        (2, 3, 5),
    ),
    stablehlo("dot", "dot", (3, 4), (4, 5), (3, 5), ""),
    stablehlo("dot_general", "dot_general", (3, 4), (4, 5), (3, 5), dot(";", "1;0")),
    stablehlo("dot_transposed", "dot_general", (3, 4), (5, 4), (3, 5), dot(";", "1;1")),
    stablehlo("dot_batch", "dot_general", (3, 2, 4), (4, 5, 2), (2, 3, 5), dot("1;2", "2;0")),
    stablehlo("dot_two", "dot_general", (3, 2, 4), (4, 5, 2), (3, 5), dot(";", "1, 2;2, 0")),
    stablehlo(
        "conv_nhwc",
        "convolution",
        (1, 4, 5, 3),
        (2, 2, 3, 4),
        (1, 3, 4, 4),
        convolution("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"),
    ),
    stablehlo(
        "conv_nchw",
        "convolution",
        (1, 3, 4, 5),
        (4, 3, 2, 2),
        (1, 4, 3, 4),
        convolution("[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]"),
    ),
    stablehlo(
        "conv_grouped",
        "convolution",
        (1, 4, 5, 4),
        (2, 2, 2, 6),
        (1, 3, 4, 6),
        convolution("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", groups=2),
    ),
]


@pytest.fixture(scope="module")
def compiled() -> Any:
    """The functions of all layers, compiled by IREE."""
    compiler: Any = import_module("iree.compiler")
    runtime: Any = import_module("iree.runtime")
    modules: dict[str, Any] = {}
    for dialect in ("linalg", "tosa", "stablehlo"):
        functions = [each.function for each in LAYERS if each.name.startswith(dialect)]
        binary = compiler.compile_str(
            "\n".join(functions),
            target_backends=["vmvx"],
            input_type="tosa" if dialect == "tosa" else "auto",
        )
        modules[dialect] = runtime.load_vm_flatbuffer(binary, driver="local-sync")
    return modules


@cache
def functions() -> dict[str, FuncOp]:
    """The functions of all layers, by name."""
    text = "\n".join(layer.function for layer in LAYERS)
    # xDSL does not know the custom forms of all named ops.
    command = ["iree-opt", "--mlir-print-op-generic"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    module = LocatingParser(ToolContext(allow_unregistered=True), done.stdout).parse_module()
    return {op.sym_name.data: op for op in module.walk() if isinstance(op, FuncOp)}


def read(layer: Layer) -> Contraction | Lookup | None:
    """The model of the op that makes the result of a function."""
    end = functions()[layer.name].body.block.last_op
    assert end is not None
    made = end.operands[0].owner
    assert isinstance(made, Operation)
    return layer_of(made)


@pytest.mark.iree
@pytest.mark.parametrize("side", [0, 1], ids=["x", "w"])
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_axes_are_what_they_are_for_in_iree(compiled: Any, layer: Layer, side: int):
    model = read(layer)
    assert isinstance(model, Contraction)
    dialect = layer.name.partition("_")[0]

    def run(operands: list[Array]) -> Array:
        return np.asarray(compiled[dialect][layer.name](*operands).to_host())

    random = np.random.default_rng(0)
    operands: list[Array] = [
        random.integers(1, 9, each).astype(np.float32) for each in layer.shapes
    ]
    before, shape = run(operands), layer.shapes[side]
    of = model.side(side)
    for axis, length in enumerate(shape):
        used: list[Array] = []
        for at in range(length):
            changed = list(operands)
            changed[side] = operands[side].copy()
            changed[side][(slice(None),) * axis + (at,)] += 1
            used.append(run(changed) != before)
        assert all(each.any() for each in used)
        if length > 1 and "*" not in of.labels[axis]:
            is_channel = not any((used[0] & each).any() for each in used[1:])
            assert is_channel == (axis in of.channel_axes), axis
    for axis in of.contracted_axes:
        other_axis = of.other_labels.index(of.labels[axis])
        if model.groups > 1:
            continue
        for at in range(shape[axis]):
            changed = [np.zeros_like(each) for each in operands]
            changed[side] = operands[side].copy()
            index = (slice(None),) * other_axis + (at,)
            changed[1 - side][index] = operands[1 - side][index]
            alone = run(changed)
            changed[side] = np.zeros_like(operands[side])
            index = (slice(None),) * axis + (at,)
            changed[side][index] = operands[side][index]
            assert (run(changed) == alone).all()
            assert alone.any()
