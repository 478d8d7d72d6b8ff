"""A fake-quantized module computes the results of its quantized ops, compared with numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp

from qdialect.check.interpreters import TypedArray, run_function
from qdialect.ops.interface import model_of, name_of
from qdialect.opt.registry import ToolContext
from qdialect.ptq.passes.storage import FakeQuantizePass
from qdialect.text.parser import LocatingParser

pytestmark = pytest.mark.usefixtures("without_plugins")

Floats = NDArray[np.floating[Any]]

A, B = "!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<u8:f32, 0.25:100>"
RESULT = "!quant.uniform<i16<-32767:32767>:f32, 0.125:-7>"

BODIES: dict[str, tuple[str, str, Callable[[Floats, Floats], Floats]]] = {
    "add": ("2x3", '"stablehlo.add"(%x, %y)', lambda x, y: x + y),
    "multiply": (
        "2x3",
        "tosa.mul %x, %y, %shift",
        lambda x, y: x * y,
    ),
    "maximum": ("2x3", "tosa.maximum %x, %y", np.maximum),
    "dot": (
        "2x2",
        '"stablehlo.dot_general"(%x, %y) <{dot_dimension_numbers = #stablehlo.dot<'
        "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>}>",
        lambda x, y: x @ y.T,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_values_are_read_computed_with_and_quantized(name: str):
    shape, body, compute = BODIES[name]
    operands = f"tensor<2x3x{A}>, tensor<2x3x{B}>"
    shift = ""
    if "%shift" in body:
        operands += ", tensor<1xi8>"
        shift = '%shift = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>'
    text = f"""
    func.func @f(%x: tensor<2x3x{A}>, %t: tensor<3x2x{B}>) -> tensor<{shape}x{RESULT}> {{
      {shift}
      %y = quant.transpose %t permutation = [1, 0] : tensor<3x2x{B}> to tensor<2x3x{B}>
      %r = {body} : ({operands}) -> tensor<{shape}x{RESULT}>
      return %r : tensor<{shape}x{RESULT}>
    }}
    """
    context = ToolContext(allow_unregistered=True)
    module = LocatingParser(context, text).parse_module()
    FakeQuantizePass().apply(context, module)
    module.verify()
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    ops = [name_of(op) for op in function.body.block.ops if model_of(op) is None]
    kept = {"quant.dcast", "quant.qcast", "func.return", "tosa.const"}
    assert [op for op in ops if op not in kept] == [body.split("(")[0].split()[0].strip('"')]
    assert ops.count("quant.dcast") == 2
    assert ops.count("quant.qcast") == 1

    random = np.random.default_rng(0)
    for _ in range(20):
        x = random.integers(-128, 128, (2, 3))
        y = random.integers(0, 256, (3, 2))
        types = function.function_type.inputs
        given = [TypedArray.of_numbers(of, type) for of, type in zip((x, y), types, strict=True)]
        (found,) = run_function(module, "f", given, context)
        # All of these numbers are exact in f32, whose halves go to the even integer.
        numbers = compute((x - 3) * 0.5, (y.T - 100) * 0.25)
        expected = np.clip(np.rint(numbers / 0.125 - 7), -32767, 32767)
        assert found.numbers.tolist() == expected.astype(np.int64).tolist()


def test_it_changes_nothing_twice():
    text = f"""
    func.func @f(%x: tensor<2x3x{A}>) -> tensor<2x3x{A}> {{
      %r = tosa.tanh %x : (tensor<2x3x{A}>) -> tensor<2x3x{A}>
      return %r : tensor<2x3x{A}>
    }}
    """
    context = ToolContext()
    module = LocatingParser(context, text).parse_module()
    FakeQuantizePass().apply(context, module)
    once = str(module)
    FakeQuantizePass().apply(context, module)
    assert str(module) == once
