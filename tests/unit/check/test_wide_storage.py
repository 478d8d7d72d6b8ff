"""Integers of less than a byte in bytes: the values are the same."""

from __future__ import annotations

import io

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32

from qdialect.check.interpreters import TypedArray, run_function
from qdialect.check.iree_runs import widen_storage
from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module, write_module

TEXT = """
!a = !quant.uniform<u4:f32:0, {0.5:3,0.25:15}>
!t = !quant.uniform<u4:f32:1, {0.5:3,0.25:15}>
!b = !quant.uniform<i3<-3:3>:f32, 0.5:1>
func.func @main(%x: tensor<3xf32>) -> (tensor<3x2xf32>, tensor<3xf32>) {
  %0 = quant.constant dense<[[0, 7, 15], [1, 2, 3]]> {quant.key = "w"} : tensor<2x3x!a>
  %1 = quant.transpose %0 permutation = [1, 0] : tensor<2x3x!a> to tensor<3x2x!t>
  %2 = quant.dcast %1 : tensor<3x2x!t> to tensor<3x2xf32>
  %3 = quant.qcast %x : tensor<3xf32> to tensor<3x!b>
  %4 = quant.dcast %3 : tensor<3x!b> to tensor<3xf32>
  return %2, %4 : tensor<3x2xf32>, tensor<3xf32>
}
"""

KEPT = """
!cast = !quant.uniform<i4:f32, 0.5>
!cut = !quant.uniform<i4:f32, 0.25:100>
!seen = !quant.uniform<i4:f32, 0.125>
func.func @main(%x: tensor<3xi4>, %y: tensor<3x!seen>) -> tensor<3xf32> {
  %0 = quant.scast %x : tensor<3xi4> to tensor<3x!cast>
  %1 = quant.dcast %0 : tensor<3x!cast> to tensor<3xf32>
  %2 = quant.qcast %1 : tensor<3xf32> to tensor<3x!cut>
  %3 = quant.dcast %2 : tensor<3x!cut> to tensor<3xf32>
  %4 = quant.dcast %y : tensor<3x!seen> to tensor<3xf32>
  return %3 : tensor<3xf32>
}
"""


def printed(module: ModuleOp, context: ToolContext) -> str:
    stream = io.StringIO()
    write_module(context, module, stream)
    return stream.getvalue()


def results(module: ModuleOp, context: ToolContext) -> list[list[float]]:
    x = np.array([0.3, -9.0, 9.0], "f4").view("u4")
    argument = TypedArray.of(x, TensorType(f32, [3]))
    found = run_function(module, "main", [argument], context)
    return [of.numbers.reshape(-1).tolist() for of in found]


def test_values_are_the_same():
    context = ToolContext()
    module = parse_module(context, TEXT)
    before = results(module, context)
    assert before == [[-1.5, -3.5, 2, -3.25, 6, -3], [0.5, -2, 1]]
    widen_storage(module, context)
    module.verify()
    text = printed(module, context)
    assert "u4" not in text
    assert "i3" not in text
    assert "u8<0:15>" in text
    assert "i8<-3:3>" in text
    assert 'quant.key = "w"' in text
    assert results(module, context) == before


def test_what_others_see_is_left():
    context = ToolContext()
    module = parse_module(context, KEPT)
    text = printed(module, context)
    widen_storage(module, context)
    assert printed(module, context) == text
