"""What follows a layer is merged into its weights and its bias, and the results stay the same."""

from __future__ import annotations

import re

import numpy as np
import pytest
from dequantizing_arithmetic import Module
from hypothesis import given, note
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_normalizations import random_chain
from xdsl.dialects.func import FuncOp

from qdialect.check.interpreters import run_function
from qdialect.dialects.arrays.values import TypedArray
from qdialect.folding.report import Outcome, PassReport
from qdialect.ptq.passes.weights import FoldBatchNormalizationPass

pytestmark = pytest.mark.usefixtures("without_plugins")

DIALECTS = ("linalg", "stablehlo", "tosa")
ARITHMETIC = r"linalg\.generic|(?:stablehlo|tosa)\.(?:add|sub\w*|mul\w*|div\w*)"


def result_of(module: Module, argument: NDArray[np.float32]) -> NDArray[np.floating]:
    function = next(op for op in module.module.ops if isinstance(op, FuncOp))
    value = TypedArray.of_numbers(argument, function.function_type.inputs.data[0])
    (result,) = run_function(module.module, "f", [value], module.context)
    return result.numbers


def fold(module: Module) -> PassReport:
    return module.run(FoldBatchNormalizationPass())


@given(st.integers(0, 2**32 - 1), st.sampled_from(DIALECTS))
def test_random_chains(seed: int, dialect: str) -> None:
    text, argument, count = random_chain(seed, dialect)
    note(text)
    module = Module(text)
    before = result_of(module, argument)
    report = fold(module)
    once = module.printed()
    note(once)
    after = result_of(module, argument)
    assert np.abs(after - before).max() <= 1e-5 * max(np.ptp(before), np.abs(before).max())
    # A sum with the bias, or the broadcast of it that the sums start from.
    assert len(re.findall(ARITHMETIC, once)) <= 1
    merged = [record for record in report.records if record.outcome is Outcome.MERGED]
    assert len(merged) <= 1
    # One sum is the bias already, but for an op that has an operand for it.
    is_bias = re.findall(r"arith\.\w+f|(?:stablehlo|tosa)\.(?:add|sub\w*) %", text)
    assert count == 0 or merged or (count == 1 and dialect != "tosa" and is_bias)
    fold(module)
    assert module.printed() == once


def test_weights_without_axes() -> None:
    """A vector and a number, multiplied, with a bias and one factor for each element."""
    module = Module("""
    func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
      %w = stablehlo.constant dense<2.0> : tensor<f32>
      %b = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
      %fc = stablehlo.dot_general %x, %w, contracting_dims = [] x []
        : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
      %two = stablehlo.constant dense<2.0> : tensor<3xf32>
      %product = stablehlo.multiply %fc, %two : tensor<3xf32>
      %sum = stablehlo.add %product, %b : tensor<3xf32>
      return %sum : tensor<3xf32>
    }
    """)
    argument = np.array([1, -2, 3], "f4")
    (record,) = fold(module).records
    assert record.outcome is Outcome.MERGED
    assert result_of(module, argument).tolist() == [5, -6, 15]


def test_rows_of_equal_numbers() -> None:
    """A network that was never trained has a splat for each row."""
    module = Module("""
    func.func @f(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
      %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
      %half = stablehlo.constant dense<0.5> : tensor<2xf32>
      %rows = stablehlo.broadcast_in_dim %half, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
      %fc = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
      %product = stablehlo.multiply %fc, %rows : tensor<1x2xf32>
      return %product : tensor<1x2xf32>
    }
    """)
    (record,) = fold(module).records
    assert record.outcome is Outcome.MERGED
    assert result_of(module, np.array([[2, 4]], "f4")).tolist() == [[7, 10]]
