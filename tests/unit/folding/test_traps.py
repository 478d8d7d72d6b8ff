"""
Known bugs of tools that move quantized constants, each with its own test.

Expected values and types are written by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from folded_modules import bits, dequantized, fold, owner, parse, returned
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from qdialect.dialects.quant import UniformQuantizedType
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.ops.interface import RefusalCode, name_of
from qdialect.opt.opt import main
from qdialect.opt.registry import ToolContext
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.passes.verify_quant_shapes import quant_shape_errors

pytestmark = pytest.mark.usefixtures("without_plugins")


def function(body: str, results: str) -> str:
    return f"func.func @f() -> ({results}) {{\n{body}\n}}\n"


def type_of(text: str) -> UniformQuantizedType:
    type = Parser(ToolContext(), text).parse_type()
    assert isinstance(type, UniformQuantizedType)
    return type


def op_names(module: ModuleOp) -> list[str]:
    return [name_of(op) for op in module.walk()][2:]


@dataclass(frozen=True)
class Trap:
    """IR that has been miscompiled, and what it must become."""

    name: str
    body: str
    type: str
    """The quantized type of the only result."""

    values: object
    """What its elements are read as."""

    @property
    def text(self) -> str:
        """The module."""
        shape = "".join(f"{length}x" for length in np.shape(np.array(self.values)))
        return function(self.body, f"tensor<{shape}f32>")


FOLDED = [
    Trap(
        "1: a permutation is not its inverse",
        """
        %w = quant.constant dense<[[[1, 2, 3]], [[4, 5, 6]]]>
          : tensor<2x1x3x!quant.uniform<i8:f32:0, {1.0,10.0:1}>>
        %f = quant.dcast %w : tensor<2x1x3x!quant.uniform<i8:f32:0, {1.0,10.0:1}>>
          to tensor<2x1x3xf32>
        %0 = tosa.transpose %f {perms = array<i32: 1, 2, 0>}
          : (tensor<2x1x3xf32>) -> tensor<1x3x2xf32>
        return %0 : tensor<1x3x2xf32>""",
        "!quant.uniform<i8:f32:2, {1.0,10.0:1}>",
        [[[1, 30], [2, 40], [3, 50]]],
    ),
    Trap(
        "2: concat takes the scale of operand 0, and saturates",
        """
        %a = quant.constant dense<[[96, -48]]> : tensor<1x2x!quant.uniform<i8:f32, 0.015625>>
        %b = quant.constant dense<[[65, -26]]> : tensor<1x2x!quant.uniform<i8:f32, 2.0>>
        %fa = quant.dcast %a : tensor<1x2x!quant.uniform<i8:f32, 0.015625>> to tensor<1x2xf32>
        %fb = quant.dcast %b : tensor<1x2x!quant.uniform<i8:f32, 2.0>> to tensor<1x2xf32>
        %0 = tosa.concat %fa, %fb {axis = 0 : i32}
          : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
        return %0 : tensor<2x2xf32>""",
        "!quant.uniform<i8:f32:0, {0.015625,2.0}>",
        [[1.5, -0.75], [130, -52]],
    ),
    Trap(
        "3: a per-axis type is copied through slice",
        """
        %w = "tosa.const"() <{values = dense<[[1, 2, 3, 4]]> : tensor<1x4xi8>}>
          : () -> tensor<1x4x!quant.uniform<i8:f32:1, {1.0,10.0,100.0,1000.0}>>
        %f = quant.dcast %w : tensor<1x4x!quant.uniform<i8:f32:1, {1.0,10.0,100.0,1000.0}>>
          to tensor<1x4xf32>
        %from = tosa.const_shape {values = dense<[0, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
        %size = tosa.const_shape {values = dense<[1, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
        %0 = tosa.slice %f, %from, %size
          : (tensor<1x4xf32>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x2xf32>
        return %0 : tensor<1x2xf32>""",
        "!quant.uniform<i8:f32:1, {10.0,100.0}>",
        [[20, 300]],
    ),
    Trap(
        "4: an axis is stale after a reshape, with as many scales as before",
        """
        %w = quant.constant dense<[[[1], [2]], [[3], [4]]]>
          : tensor<2x2x1x!quant.uniform<i8:f32:1, {1.0,10.0}>>
        %f = quant.dcast %w : tensor<2x2x1x!quant.uniform<i8:f32:1, {1.0,10.0}>>
          to tensor<2x2x1xf32>
        %0 = "stablehlo.reshape"(%f) : (tensor<2x2x1xf32>) -> tensor<1x2x2xf32>
        return %0 : tensor<1x2x2xf32>""",
        "!quant.uniform<i8:f32:2, {1.0,10.0}>",
        [[[1, 20], [3, 40]]],
    ),
    Trap(
        "5: a slice begins inside a block, at an odd nibble",
        """
        %w = quant.constant dense<[[1, 2, 3, 4, 5, 6]]>
          : tensor<1x6x!quant.uniform<i4:f32:{1:3}, {{1.0,10.0}}>>
        %f = quant.dcast %w : tensor<1x6x!quant.uniform<i4:f32:{1:3}, {{1.0,10.0}}>>
          to tensor<1x6xf32>
        %0 = tensor.extract_slice %f[0, 1] [1, 4] [1, 1] : tensor<1x6xf32> to tensor<1x4xf32>
        return %0 : tensor<1x4xf32>""",
        "!quant.uniform<i4:f32:{1:2}, {{1.0,10.0}}>",
        [[2, 3, 40, 50]],
    ),
    Trap(
        "6: concat along the blocked axis keeps one copy of the scales",
        """
        %w = quant.constant dense<[[1, 2, 3, 4]]>
          : tensor<1x4x!quant.uniform<i8:f32:{1:2}, {{1.0,10.0}}>>
        %f = quant.dcast %w : tensor<1x4x!quant.uniform<i8:f32:{1:2}, {{1.0,10.0}}>>
          to tensor<1x4xf32>
        %0 = tensor.concat dim(1) %f, %f : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x8xf32>
        return %0 : tensor<1x8xf32>""",
        "!quant.uniform<i8:f32:{1:2}, {{1.0,10.0,1.0,10.0}}>",
        [[1, 2, 30, 40, 1, 2, 30, 40]],
    ),
    Trap(
        "7: scales are reshaped as a tensor, and not with their elements",
        """
        %w = quant.constant dense<[[[1, 2, 3, 4]], [[5, 6, 7, 8]]]>
          : tensor<2x1x4x!quant.uniform<i8:f32:{0:1, 2:2}, {{{1.0,10.0}}, {{100.0,1000.0}}}>>
        %f = quant.dcast %w
          : tensor<2x1x4x!quant.uniform<i8:f32:{0:1, 2:2}, {{{1.0,10.0}}, {{100.0,1000.0}}}>>
          to tensor<2x1x4xf32>
        %0 = tensor.collapse_shape %f [[0, 1], [2]] : tensor<2x1x4xf32> into tensor<2x4xf32>
        return %0 : tensor<2x4xf32>""",
        "!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0,10.0}, {100.0,1000.0}}>",
        [[1, 2, 30, 40], [500, 600, 7000, 8000]],
    ),
    Trap(
        "8: the index of a select is not divided by the block",
        """
        %w = quant.constant dense<[[1, 2], [3, 4], [5, 6], [7, 8]]>
          : tensor<4x2x!quant.uniform<i8:f32:{0:2}, {{1.0},{10.0}}>>
        %f = quant.dcast %w : tensor<4x2x!quant.uniform<i8:f32:{0:2}, {{1.0},{10.0}}>>
          to tensor<4x2xf32>
        %0 = tensor.extract_slice %f[1, 0] [1, 2] [1, 1] : tensor<4x2xf32> to tensor<2xf32>
        return %0 : tensor<2xf32>""",
        "!quant.uniform<i8:f32, 1.0>",
        [3, 4],
    ),
    Trap(
        "10: a constant with a quantized element type is reshaped, and crashes",
        """
        %w = "stablehlo.constant"() <{value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}>
          : () -> tensor<2x2x!quant.uniform<i8:f32, 2.0>>
        %r = "stablehlo.reshape"(%w) : (tensor<2x2x!quant.uniform<i8:f32, 2.0>>)
          -> tensor<4x!quant.uniform<i8:f32, 2.0>>
        %c = "stablehlo.concatenate"(%r, %r) <{dimension = 0 : i64}>
          : (tensor<4x!quant.uniform<i8:f32, 2.0>>, tensor<4x!quant.uniform<i8:f32, 2.0>>)
          -> tensor<8x!quant.uniform<i8:f32, 2.0>>
        %0 = "stablehlo.uniform_dequantize"(%c) : (tensor<8x!quant.uniform<i8:f32, 2.0>>)
          -> tensor<8xf32>
        return %0 : tensor<8xf32>""",
        "!quant.uniform<i8:f32, 2.0>",
        [2, 4, 6, 8, 2, 4, 6, 8],
    ),
    Trap(
        "11: the padding is storage 0, and not the zero point of each slot",
        """
        %w = quant.constant dense<[[1, 2], [3, 4]]>
          : tensor<2x2x!quant.uniform<i8:f32:0, {1.0:-5,10.0:7}>>
        %f = quant.dcast %w : tensor<2x2x!quant.uniform<i8:f32:0, {1.0:-5,10.0:7}>>
          to tensor<2x2xf32>
        %zero = arith.constant 0.0 : f32
        %0 = tensor.pad %f low[0, 1] high[0, 0] {
        ^bb0(%i: index, %j: index):
          tensor.yield %zero : f32
        } : tensor<2x2xf32> to tensor<2x3xf32>
        return %0 : tensor<2x3xf32>""",
        "!quant.uniform<i8:f32:0, {1.0:-5,10.0:7}>",
        [[0, 6, 7], [0, -40, -30]],
    ),
    Trap(
        "11: on quantized types the padding is a code, and need not be the zero point",
        """
        %w = "stablehlo.constant"() <{value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}>
          : () -> tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
        %z = "stablehlo.constant"() <{value = dense<7> : tensor<i8>}>
          : () -> tensor<!quant.uniform<i8:f32, 0.5:3>>
        %p = "stablehlo.pad"(%w, %z) <{edge_padding_low = array<i64: 0, 1>,
          edge_padding_high = array<i64: 0, 0>, interior_padding = array<i64: 0, 1>}>
          : (tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<!quant.uniform<i8:f32, 0.5:3>>)
          -> tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
        %0 = "stablehlo.uniform_dequantize"(%p)
          : (tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x4xf32>
        return %0 : tensor<2x4xf32>""",
        "!quant.uniform<i8:f32, 0.5:3>",
        [[2, -1, 2, -0.5], [2, 0, 2, 0.5]],
    ),
    Trap(
        "16: the scales of blocks are left in the order before the transpose",
        """
        %w = quant.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8]]>
          : tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0,10.0}, {100.0,1000.0}}>>
        %f = quant.dcast %w
          : tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0,10.0}, {100.0,1000.0}}>>
          to tensor<2x4xf32>
        %0 = tosa.transpose %f {perms = array<i32: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
        return %0 : tensor<4x2xf32>""",
        "!quant.uniform<i8:f32:{0:2, 1:1}, {{1.0,100.0}, {10.0,1000.0}}>",
        [[1, 500], [2, 600], [30, 7000], [40, 8000]],
    ),
    Trap(
        "17: packed nibbles are transposed as bytes",
        """
        %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]>
          : tensor<2x3x!quant.uniform<i4:f32:0, {1.0,10.0}>>
        %f = quant.dcast %w : tensor<2x3x!quant.uniform<i4:f32:0, {1.0,10.0}>> to tensor<2x3xf32>
        %0 = tosa.transpose %f {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
        return %0 : tensor<3x2xf32>""",
        "!quant.uniform<i4:f32:1, {1.0,10.0}>",
        [[1, 40], [2, 50], [3, 60]],
    ),
    Trap(
        "19: i4 has no whole bytes, so none is copied",
        """
        %w = "tosa.const"() <{values = dense<[[1, -8, 3]]> : tensor<1x3xi4>}>
          : () -> tensor<1x3x!quant.uniform<i4:f32, 2.0>>
        %f = quant.dcast %w : tensor<1x3x!quant.uniform<i4:f32, 2.0>> to tensor<1x3xf32>
        %0 = tosa.transpose %f {perms = array<i32: 1, 0>} : (tensor<1x3xf32>) -> tensor<3x1xf32>
        return %0 : tensor<3x1xf32>""",
        "!quant.uniform<i4:f32, 2.0>",
        [[2], [-16], [6]],
    ),
    Trap(
        "19: i1 has no whole bytes either",
        """
        %w = quant.constant dense<[[0, -1, -1]]> : tensor<1x3x!quant.uniform<i1:f32, 2.0>>
        %f = quant.dcast %w : tensor<1x3x!quant.uniform<i1:f32, 2.0>> to tensor<1x3xf32>
        %0 = tosa.reverse %f {axis = 1 : i32} : (tensor<1x3xf32>) -> tensor<1x3xf32>
        return %0 : tensor<1x3xf32>""",
        "!quant.uniform<i1:f32, 2.0>",
        [[-2, -2, 0]],
    ),
    Trap(
        "20: blocks are called per-axis with as many scales as blocks",
        """
        %w = "stablehlo.constant"() <{value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}>
          : () -> tensor<2x3x!quant.uniform<i8:f32:0, {1.0,10.0}>>
        %f = "stablehlo.uniform_dequantize"(%w)
          : (tensor<2x3x!quant.uniform<i8:f32:0, {1.0,10.0}>>) -> tensor<2x3xf32>
        %0 = "stablehlo.reshape"(%f) : (tensor<2x3xf32>) -> tensor<6xf32>
        return %0 : tensor<6xf32>""",
        "!quant.uniform<i8:f32:0, {1.0,1.0,1.0,10.0,10.0,10.0}>",
        [1, 2, 3, 40, 50, 60],
    ),
    Trap(
        "21: an odd number of blocks, and part of the last one",
        """
        %w = quant.constant dense<[[1, 2, 3, 4, 5, 6]]>
          : tensor<1x6x!quant.uniform<i8:f32:{1:2}, {{1.0,10.0,100.0}}>>
        %f = quant.dcast %w : tensor<1x6x!quant.uniform<i8:f32:{1:2}, {{1.0,10.0,100.0}}>>
          to tensor<1x6xf32>
        %0 = tensor.extract_slice %f[0, 0] [1, 5] [1, 1] : tensor<1x6xf32> to tensor<1x5xf32>
        return %0 : tensor<1x5xf32>""",
        "!quant.uniform<i8:f32:1, {1.0,1.0,10.0,10.0,100.0}>",
        [[1, 2, 30, 40, 500]],
    ),
    Trap(
        "22: a quantized axis of length 1, wherever it goes",
        """
        %w = quant.constant dense<[[1], [2]]> : tensor<2x1x!quant.uniform<i8:f32:1, {2.0:1}>>
        %f = quant.dcast %w : tensor<2x1x!quant.uniform<i8:f32:1, {2.0:1}>> to tensor<2x1xf32>
        %r = "stablehlo.reshape"(%f) : (tensor<2x1xf32>) -> tensor<1x2xf32>
        %0 = "stablehlo.broadcast_in_dim"(%r) <{broadcast_dimensions = array<i64: 1, 2>}>
          : (tensor<1x2xf32>) -> tensor<1x3x2xf32>
        return %0 : tensor<1x3x2xf32>""",
        "!quant.uniform<i8:f32, 2.0:1>",
        [[[0, 2], [0, 2], [0, 2]]],
    ),
    Trap(
        "26: a tensor without axes",
        """
        %w = quant.constant dense<3> : tensor<!quant.uniform<i8:f32, 2.0>>
        %f = quant.dcast %w : tensor<!quant.uniform<i8:f32, 2.0>> to tensor<f32>
        %0 = "stablehlo.broadcast_in_dim"(%f) <{broadcast_dimensions = array<i64>}>
          : (tensor<f32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>""",
        "!quant.uniform<i8:f32, 2.0>",
        [6, 6],
    ),
    Trap(
        "26: a result without elements",
        """
        %w = quant.constant dense<[1, 2]> : tensor<2x!quant.uniform<i8:f32, 2.0>>
        %f = quant.dcast %w : tensor<2x!quant.uniform<i8:f32, 2.0>> to tensor<2xf32>
        %0 = tensor.extract_slice %f[1] [0] [1] : tensor<2xf32> to tensor<0xf32>
        return %0 : tensor<0xf32>""",
        "!quant.uniform<i8:f32, 2.0>",
        [],
    ),
]


@pytest.mark.parametrize("trap", FOLDED, ids=lambda trap: trap.name)
def test_folded(trap: Trap) -> None:
    module, _ = fold(trap.text)
    (result,) = returned(module)
    read, type = dequantized(result)
    assert type == type_of(trap.type)
    assert np.array_equal(bits(read), bits(np.array(trap.values, dtype=np.float32)))


@dataclass(frozen=True)
class RefusedFold:
    """IR that nothing can be made of, or not yet, and why."""

    name: str
    body: str
    result: str
    codes: tuple[RefusalCode, ...]
    reason: str


WEIGHT = """
        %w = quant.constant dense<[[1, 2], [3, 4]]>
          : tensor<2x2x!quant.uniform<i8:f32:0, {1.0,10.0:3}>>
        %f = quant.dcast %w : tensor<2x2x!quant.uniform<i8:f32:0, {1.0,10.0:3}>>
          to tensor<2x2xf32>
"""

REFUSED = [
    RefusedFold(
        "4: an axis is stale after a reshape, in the types",
        """
        %w = "stablehlo.constant"() <{value = dense<[[[1], [2]], [[3], [4]]]> : tensor<2x2x1xi8>}>
          : () -> tensor<2x2x1x!quant.uniform<i8:f32:1, {1.0,10.0}>>
        %0 = "stablehlo.reshape"(%w)
          : (tensor<2x2x1x!quant.uniform<i8:f32:1, {1.0,10.0}>>)
          -> tensor<1x2x2x!quant.uniform<i8:f32:1, {1.0,10.0}>>
        return %0 : tensor<1x2x2x!quant.uniform<i8:f32:1, {1.0,10.0}>>""",
        "tensor<1x2x2x!quant.uniform<i8:f32:1, {1.0,10.0}>>",
        (RefusalCode.STALE_TYPE,),
        "result element [0, 0, 1] reads slot [0, 0, 0] (scale 1.000000e+00, zero point 0) in its "
        "type, but slot [0, 0, 1] (scale 1.000000e+01, zero point 0) in the type that the "
        "operands give it",
    ),
    RefusedFold(
        "3: a per-axis type is copied through slice, in the types",
        """
        %w = "tosa.const"() <{values = dense<[[1, 2, 3]]> : tensor<1x3xi8>}>
          : () -> tensor<1x3x!quant.uniform<i8:f32:1, {1.0,10.0,100.0}>>
        %0 = tensor.extract_slice %w[0, 0] [1, 2] [1, 1]
          : tensor<1x3x!quant.uniform<i8:f32:1, {1.0,10.0,100.0}>>
          to tensor<1x2x!quant.uniform<i8:f32:1, {1.0,10.0,100.0}>>
        return %0 : tensor<1x2x!quant.uniform<i8:f32:1, {1.0,10.0,100.0}>>""",
        "tensor<1x2x!quant.uniform<i8:f32:1, {1.0,10.0,100.0}>>",
        (RefusalCode.STALE_TYPE,),
        "its type does not fit its shape: quantized dimension size does not match number of scales",
    ),
    RefusedFold(
        "4: tosa.transpose cannot declare another axis, so that it is always stale",
        """
        %w = "tosa.const"() <{values = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}>
          : () -> tensor<2x2x!quant.uniform<i8:f32:0, {1.0,10.0}>>
        %0 = tosa.transpose %w {perms = array<i32: 1, 0>}
          : (tensor<2x2x!quant.uniform<i8:f32:0, {1.0,10.0}>>)
          -> tensor<2x2x!quant.uniform<i8:f32:0, {1.0,10.0}>>
        return %0 : tensor<2x2x!quant.uniform<i8:f32:0, {1.0,10.0}>>""",
        "tensor<2x2x!quant.uniform<i8:f32:0, {1.0,10.0}>>",
        (RefusalCode.STALE_TYPE,),
        "result element [0, 1] reads slot [0, 0] (scale 1.000000e+00, zero point 0) in its "
        "type, but slot [0, 1] (scale 1.000000e+01, zero point 0) in the type that the "
        "operands give it",
    ),
    RefusedFold(
        "11: the padding is between two codes",
        f"""{WEIGHT}
        %value = arith.constant 6.66 : f32
        %0 = tensor.pad %f low[0, 1] high[0, 0] {{
        ^bb0(%i: index, %j: index):
          tensor.yield %value : f32
        }} : tensor<2x2xf32> to tensor<2x3xf32>
        return %0 : tensor<2x3xf32>""",
        "tensor<2x3xf32>",
        (RefusalCode.PADDING,),
        "no integer dequantizes to 6.659999847412109 with scale 1.000000e+00, zero point 0",
    ),
    RefusedFold(
        "11: the padding is a code of one slot, and not of the other",
        f"""{WEIGHT}
        %value = arith.constant 5.0 : f32
        %0 = tensor.pad %f low[0, 1] high[0, 0] {{
        ^bb0(%i: index, %j: index):
          tensor.yield %value : f32
        }} : tensor<2x2xf32> to tensor<2x3xf32>
        return %0 : tensor<2x3xf32>""",
        "tensor<2x3xf32>",
        (RefusalCode.PADDING,),
        "no integer dequantizes to 5.0 with scale 1.000000e+01, zero point 3",
    ),
    RefusedFold(
        "14: integers of another width are not widened to join them",
        f"""{WEIGHT}
        %v = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!quant.uniform<i4:f32, 1.0>>
        %g = quant.dcast %v : tensor<2x2x!quant.uniform<i4:f32, 1.0>> to tensor<2x2xf32>
        %0 = tensor.concat dim(0) %f, %g : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
        return %0 : tensor<4x2xf32>""",
        "tensor<4x2xf32>",
        (RefusalCode.MIXED_CONSTANTS,),
        "its operands are constants of different kinds, or behind different casts",
    ),
    RefusedFold(
        "15: nor are signed ones joined with unsigned ones",
        f"""{WEIGHT}
        %v = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!quant.uniform<u8:f32, 1.0>>
        %g = quant.dcast %v : tensor<2x2x!quant.uniform<u8:f32, 1.0>> to tensor<2x2xf32>
        %0 = tensor.concat dim(0) %f, %g : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
        return %0 : tensor<4x2xf32>""",
        "tensor<4x2xf32>",
        (RefusalCode.MIXED_CONSTANTS,),
        "its operands are constants of different kinds, or behind different casts",
    ),
    RefusedFold(
        "18: what computes is no shape op, and stands in the way of one",
        f"""{WEIGHT}
        %n = "tosa.unheard_of"(%f) : (tensor<2x2xf32>) -> tensor<2x2xf32>
        %0 = tosa.transpose %n {{perms = array<i32: 1, 0>}} : (tensor<2x2xf32>) -> tensor<2x2xf32>
        return %0 : tensor<2x2xf32>""",
        "tensor<2x2xf32>",
        (RefusalCode.UNKNOWN_OP,),
        "operand #0 is made by 'tosa.unheard_of', which is not known to move elements",
    ),
    RefusedFold(
        "18: a clamp of tosa computes too",
        f"""{WEIGHT}
        %n = tosa.clamp %f {{min_val = 0.0 : f32, max_val = 6.0 : f32}}
          : (tensor<2x2xf32>) -> tensor<2x2xf32>
        %0 = tosa.transpose %n {{perms = array<i32: 1, 0>}} : (tensor<2x2xf32>) -> tensor<2x2xf32>
        return %0 : tensor<2x2xf32>""",
        "tensor<2x2xf32>",
        (RefusalCode.NOT_CONSTANT,),
        "operand #0 is made by 'tosa.clamp', which is not a constant",
    ),
    RefusedFold(
        "26: an attribute that is left out is not guessed",
        f"""{WEIGHT}
        %0 = "stablehlo.transpose"(%f) : (tensor<2x2xf32>) -> tensor<2x2xf32>
        return %0 : tensor<2x2xf32>""",
        "tensor<2x2xf32>",
        (RefusalCode.UNKNOWN_OP,),
        "there is no attribute 'permutation'",
    ),
    RefusedFold(
        "26: an axis below zero",
        f"""{WEIGHT}
        %0 = "stablehlo.concatenate"(%f, %f) <{{dimension = -1 : i64}}>
          : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
        return %0 : tensor<2x4xf32>""",
        "tensor<2x4xf32>",
        (RefusalCode.UNKNOWN_OP,),
        "axis -1 is negative: axes are counted from 0",
    ),
    RefusedFold(
        "26: a limit far beyond the end",
        f"""{WEIGHT}
        %0 = "stablehlo.slice"(%f) <{{start_indices = array<i64: 0, 0>,
          limit_indices = array<i64: 2, 9223372036854775807>, strides = array<i64: 1, 1>}}>
          : (tensor<2x2xf32>) -> tensor<2x2xf32>
        return %0 : tensor<2x2xf32>""",
        "tensor<2x2xf32>",
        (RefusalCode.UNKNOWN_OP,),
        "offset 0, size 9223372036854775807 and stride 1 leave axis 1 of length 2",
    ),
]


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.name)
def test_refused(refusal: RefusedFold) -> None:
    """
    Nothing is changed, and the reason is told.

    It cannot be done: the declared type means something else; no integer is read as what is
    padded with; integers would have to be computed, where the fold only moves them; or it is
    not known what the op does.
    """
    text = function(refusal.body, refusal.result)
    module, report = fold(text)
    assert str(module) == str(parse(text)[0])
    records = report.records
    assert tuple(record.code for record in records) == refusal.codes
    assert records[0].reason == refusal.reason


def test_2_the_same_in_types_is_an_error() -> None:
    """A concat in types of two scales, whose result has that of operand 0."""
    text = """
    func.func @f(%a: tensor<1x2x!quant.uniform<i8:f32, 0.5>>,
                 %b: tensor<1x2x!quant.uniform<i8:f32, 64.0>>) {
      %0 = "stablehlo.concatenate"(%a, %b) <{dimension = 0 : i64}>
        : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<1x2x!quant.uniform<i8:f32, 64.0>>)
        -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
      return
    }
    """
    module, context = parse(text)
    ((op, message),) = quant_shape_errors(module, context)
    assert name_of(op) == "stablehlo.concatenate"
    assert message == (
        "'stablehlo.concatenate' op result element [1, 0] reads slot [0, 0] (scale 5.000000e-01, "
        "zero point 0) in its type, but slot [1, 0] (scale 6.400000e+01, zero point 0) in the "
        "type that the operands give it; the element type of the result should be "
        "'!quant.uniform<i8:f32:0, {5.000000e-01,6.400000e+01}>'"
    )


SHARED = """
!rows = !quant.uniform<i8:f32:{0:2}, {{1.0},{10.0}}>
func.func @f() -> (tensor<4x2xf32>, tensor<1x2xf32>, tensor<3x2xf32>) {
  %w = quant.constant dense<[[1, 2], [3, 4], [5, 6], [7, 8]]> : tensor<4x2x!rows>
  %f = quant.dcast %w : tensor<4x2x!rows> to tensor<4x2xf32>
  %0 = tensor.extract_slice %f[0, 0] [1, 2] [1, 1] : tensor<4x2xf32> to tensor<1x2xf32>
  %1 = tensor.extract_slice %f[1, 0] [3, 2] [1, 1] : tensor<4x2xf32> to tensor<3x2xf32>
  return %f, %0, %1 : tensor<4x2xf32>, tensor<1x2xf32>, tensor<3x2xf32>
}
"""


def test_9_shared_parameters_are_not_changed() -> None:
    """A split inside a block leaves the type that it came from as it was."""
    module, context = parse(SHARED)
    source = owner(returned(module)[0]).operands[0]
    type = uniform_tensor(source.type).element_type
    FoldQuantShapesPass().apply(context, module)
    results = [dequantized(value) for value in returned(module)]
    assert [read.tolist() for read, _ in results] == [
        [[1, 2], [3, 4], [50, 60], [70, 80]],
        [[1, 2]],
        [[3, 4], [50, 60], [70, 80]],
    ]
    assert results[0][1] is type
    assert type == type_of("!quant.uniform<i8:f32:{0:2}, {{1.0},{10.0}}>")
    assert [type for _, type in results[1:]] == [
        type_of("!quant.uniform<i8:f32, 1.0>"),
        type_of("!quant.uniform<i8:f32:0, {1.0,10.0,10.0}>"),
    ]


def test_9_a_shared_constant_is_not_erased() -> None:
    folded, _ = fold(SHARED)
    assert op_names(folded).count("quant.constant") == 3
    first = owner(owner(returned(folded)[0]).operands[0])
    assert first.results[0].name_hint == "w"


@pytest.mark.parametrize(
    "constant",
    ["tosa.const", "stablehlo.constant", "quant.constant", "arith.constant"],
)
def test_10_elements_of_a_quantized_type_do_not_crash(
    constant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown attribute is an error at its location."""
    attribute = "values" if constant == "tosa.const" else "value"
    type = "tensor<2x!quant.uniform<i8:f32, 0.5>>"
    file = tmp_path / "m.mlir"
    file.write_text(
        f'%w = "{constant}"() <{{{attribute} = dense<[1, 2]> : {type}}}> : () -> {type}\n'
    )
    assert main(["--allow-unregistered-dialect", "--fold-quant-shapes", str(file)]) == 1
    errors = capsys.readouterr().err
    assert f"{file}:1:" in errors
    assert "Traceback" not in errors


AROUND_A_REQUANTIZE = """
  %t = tosa.transpose %f {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %q = quant.qcast %t : tensor<3x2xf32> to tensor<3x2x!columns>
  %d = quant.dcast %q : tensor<3x2x!columns> to tensor<3x2xf32>
  %u = tosa.transpose %d {perms = array<i32: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %u : tensor<2x3xf32>
}
"""

ROWS_AND_COLUMNS = """
!rows = !quant.uniform<i8:f32:0, {1.0,10.0}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25}>
"""


def test_13_transposes_around_a_requantize_take_its_axis_along() -> None:
    """Of a constant both go, and the type that is requantized to has the other axis."""
    module, _ = fold(
        f"""{ROWS_AND_COLUMNS}
        func.func @f() -> tensor<2x3xf32> {{
          %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!rows>
          %f = quant.dcast %w : tensor<2x3x!rows> to tensor<2x3xf32>
          {AROUND_A_REQUANTIZE}"""
    )
    names = ["quant.constant", "quant.dcast", "quant.qcast", "quant.dcast", "func.return"]
    assert op_names(module) == names
    requantized = owner(returned(module)[0]).operands[0]
    assert uniform_tensor(requantized.type).element_type == type_of(
        "!quant.uniform<i8:f32:0, {0.5,0.25}>"
    )
    read, type = dequantized(owner(requantized).operands[0])
    assert type == type_of("!quant.uniform<i8:f32:0, {1.0,10.0}>")
    assert read.tolist() == [[1, 2, 3], [40, 50, 60]]


def test_13_transposes_around_a_requantize_of_an_argument_stay() -> None:
    text = (
        f"{ROWS_AND_COLUMNS}func.func @f(%f: tensor<2x3xf32>) -> tensor<2x3xf32> {{"
        f"{AROUND_A_REQUANTIZE}"
    )
    assert str(fold(text)[0]) == str(parse(text)[0])


def test_14_a_requantize_is_not_folded_across() -> None:
    """The width and the scale that a weight is stored with stay, and so does the rounding."""
    text = function(
        """
        %w = quant.constant dense<[[1, 2], [3, 4]]>
          : tensor<2x2x!quant.uniform<i8:f32:0, {1.0,10.0}>>
        %f = quant.dcast %w : tensor<2x2x!quant.uniform<i8:f32:0, {1.0,10.0}>> to tensor<2x2xf32>
        %t = tosa.transpose %f {perms = array<i32: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
        %q = quant.qcast %t : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i4:f32, 0.25>>
        return %q : tensor<2x2x!quant.uniform<i4:f32, 0.25>>""",
        "tensor<2x2x!quant.uniform<i4:f32, 0.25>>",
    )
    module, _ = fold(text)
    assert op_names(module) == ["quant.constant", "quant.dcast", "quant.qcast", "func.return"]
    (result,) = returned(module)
    requantize = owner(result)
    assert str(uniform_tensor(result.type).element_type) == "!quant.uniform<i4:f32, 2.500000e-01>"
    read, type = dequantized(requantize.operands[0])
    assert type == type_of("!quant.uniform<i8:f32:1, {1.0,10.0}>")
    assert read.tolist() == [[1, 30], [2, 40]]


def test_12_what_the_verifier_of_stablehlo_accepts_is_found() -> None:
    """Broadcasts with other scales, other numbers of scales on dynamic axes, stored 100 of 7."""
    text = """
    !a = !quant.uniform<i8:f32:0, {1.0,2.0}>
    !b = !quant.uniform<i8:f32:0, {4.0,8.0}>
    !c = !quant.uniform<i8:f32:0, {1.0,2.0,4.0}>
    func.func @f(%x: tensor<2x!a>, %d: tensor<?x!a>) {
      %0 = "stablehlo.broadcast_in_dim"(%x) <{broadcast_dimensions = array<i64: 0>}>
        : (tensor<2x!a>) -> tensor<2x!b>
      %1 = "stablehlo.transpose"(%d) <{permutation = array<i64: 0>}>
        : (tensor<?x!a>) -> tensor<?x!c>
      %2 = "stablehlo.constant"() <{value = dense<[7, 100]> : tensor<2xi8>}>
        : () -> tensor<2x!quant.uniform<i8<-7:7>:f32, 0.5>>
      return
    }
    """
    module, context = parse(text)
    messages = [message for _, message in quant_shape_errors(module, context)]
    assert [message.split("; ")[0] for message in messages] == [
        "'stablehlo.broadcast_in_dim' op result element [0] reads slot [0] (scale 4.000000e+00, "
        "zero point 0) in its type, but slot [0] (scale 1.000000e+00, zero point 0) in the type "
        "that the operands give it",
        "'stablehlo.transpose' op the slots of its types determine shapes that do not fit: [2] of "
        "the operands, and [3] of the result",
        "'stablehlo.constant' op element [1] is 100, outside the storage range [-7, 7]",
    ]
