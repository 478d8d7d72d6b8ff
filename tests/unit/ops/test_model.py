"""Models of ops: for all contexts, and first those of the dialects of the context in use."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from registrations import taken_back
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, TensorType, UnregisteredOp, f32
from xdsl.dialects.func import Func
from xdsl.ir import Dialect, Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import InterpretationError
from xdsl.utils.test_value import create_ssa_value

from qdialect.check.interpreters import run_function
from qdialect.dialects.arrays.elements import Numbers, find_run, numbers_of, on_elements, rounded
from qdialect.dialects.quant import Quant
from qdialect.ops.fields import (
    CastReads,
    Contraction,
    Lookup,
    QuantizationRule,
    RuleKind,
    Window,
    own,
)
from qdialect.ops.interface import Refusal, bits_of_op, is_cast, layer_of, rule_of, windows_of
from qdialect.ops.model import Bits, OnElements, OpModel, OpModels, models_of, register_models
from qdialect.passes import FoldQuantShapesPass
from qdialect.ptq.passes.models import QuantizeWithRangesPass


def op(name: str) -> Operation:
    return UnregisteredOp.with_name(name).create()


def context_with(*interfaces: OpModels, dialect: str = "own") -> Context:
    context = Context(allow_unregistered=True)
    for each in (Builtin, Func, Dialect(dialect, [], [], [*interfaces])):
        context.load_dialect(each)
    return context


def test_products_may_belong_to_a_context() -> None:
    convolution = Contraction.of("n*c,*cf->n*f")
    windows = [Window((1, 0, 1), stride=2)]
    whole = OpModel(product=convolution, windows=lambda op, contraction: windows)
    conv = op("own.conv")
    assert layer_of(conv) is None
    with models_of(context_with(OpModels("own", {"conv": whole}))):
        assert layer_of(conv) == convolution
        assert windows_of(conv, convolution) == windows
        with models_of(context_with()):
            assert layer_of(conv) is None
    # Of a layer whose windows nobody reads, nothing can be said.
    unread = OpModels("own", {"conv": OpModel(product=convolution)})
    with models_of(context_with(unread)), pytest.raises(Refusal, match="no reader of its wind"):
        windows_of(conv, convolution)


def test_rules_may_belong_to_a_context() -> None:
    models = OpModels("own", {"relu": OpModel(rule=QuantizationRule(RuleKind.OWN))})
    assert rule_of(op("own.relu")) is None
    with models_of(context_with(models)):
        named = QuantizationRule(RuleKind.OWN, functions=frozenset({"relu"}))
        assert rule_of(op("own.relu")) == named
        assert rule_of(op("own.other")) is None
    assert rule_of(op("own.relu")) is None


def test_models_of_a_context_come_first_name_by_name() -> None:
    models = OpModels("tosa", {"matmul": OpModel(product=Lookup(0, 1))})
    matmul, convolution = op("tosa.matmul"), op("tosa.conv2d")
    assert isinstance(layer_of(matmul), Contraction)
    with models_of(context_with(models, dialect="tosa")):
        assert layer_of(matmul) == Lookup(0, 1)
        assert isinstance(layer_of(convolution), Contraction)


def test_what_was_read_before_a_model_is_registered_is_read_anew() -> None:
    cast = UnregisteredOp.with_name("own.late").create(
        operands=[create_ssa_value(f32)], result_types=[f32]
    )
    assert not is_cast(cast)
    with taken_back():
        register_models(OpModels("own", {"late later": OpModel(cast=CastReads.NUMBERS)}))
        assert is_cast(cast)
    assert not is_cast(cast)


def test_an_op_has_one_model() -> None:
    with pytest.raises(ValueError, match="an op has two models"):
        OpModels("own", {"abs relu": OpModel(), "relu": OpModel(is_list=True)})


TEXT = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %r = "own.negative"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
"""


def test_runs_may_belong_to_a_context() -> None:
    negative = OpModel(run=on_elements(np.negative, count=1), bits=Bits.ROUNDED)
    runs = OpModels("own", {"negative": negative})

    def run(context: Context) -> Numbers:
        module = Parser(context, TEXT).parse_module()
        argument = rounded(np.array([1.0, -2.0]), TensorType(f32, [2]))
        return numbers_of(run_function(module, "main", [argument], context)[0])

    assert_array_equal(run(context_with(runs)), [-1, 2])
    with pytest.raises(InterpretationError, match="no implementation"):
        run(context_with())
    assert find_run("own.negative") is None
    with models_of(context_with(runs)):
        assert bits_of_op(op("own.negative")) is Bits.ROUNDED
    assert bits_of_op(op("own.negative")) is not Bits.ROUNDED


RELU = OpModel(
    integers=True,
    rule=own(0, function="clamp", is_homogeneous=True),
    bits=Bits.EXACT,
    run=OnElements(f"{__name__}:relu", f"{__name__}:relu"),
)

FOLDED = """
!rows = !quant.uniform<i8:f32:1, {0.5, 0.25, 0.125}>
!two = !quant.uniform<i8:f32:1, {0.5, 0.125}>
func.func @main(%x: tensor<1x2x3xf32>) -> tensor<1x2x3xf32> {
  %w = "tosa.const"() <{values = dense<[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]> : tensor<1x3x3xi8>}>
    : () -> tensor<1x3x3x!rows>
  %i = "tosa.const"() <{values = dense<[[-1, 2]]> : tensor<1x2xi32>}> : () -> tensor<1x2xi32>
  %p = "own.relu"(%i) : (tensor<1x2xi32>) -> tensor<1x2xi32>
  %g = "tosa.gather"(%w, %p)
    : (tensor<1x3x3x!rows>, tensor<1x2xi32>) -> tensor<1x2x3x!two>
  %d = quant.dcast %g : tensor<1x2x3x!two> to tensor<1x2x3xf32>
  %s = "tosa.add"(%x, %d)
    : (tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %r = "own.relu"(%s) : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  return %r : tensor<1x2x3xf32>
}
"""
RANGES = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %1 = "own.relu"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = quant.stats %1 {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  return %2 : tensor<2xf32>
}
"""


def relu(numbers: Numbers) -> Numbers:
    """What the op computes."""
    return np.maximum(numbers, 0)


@pytest.mark.parametrize("is_known", [True, False])
def test_one_model_has_all_aspects_of_an_op(is_known: bool) -> None:
    """Its positions are folded, it runs, and it is quantized; without it, it is left."""
    context = context_with(OpModels("own", {"relu": RELU} if is_known else {}))
    context.load_dialect(Quant)
    module = Parser(context, FOLDED).parse_module()
    FoldQuantShapesPass().apply(context, module)
    assert ("tosa.gather" not in str(module)) == is_known
    quantized = Parser(context, RANGES).parse_module()
    QuantizeWithRangesPass().apply(context, quantized)
    assert str(quantized).count("quant.qcast") == (2 if is_known else 0)
    if is_known:
        x = np.array([[[-0.75, 0, 1], [-9, -1, 0.5]]])
        argument = rounded(x, TensorType(f32, [1, 2, 3]))
        # Rows 0 and 2 of the weight, in steps of their own.
        read = np.array([[0.5, 1, 1.5], [0.875, 1, 1.125]])
        (found,) = run_function(module, "main", [argument], context)
        assert_array_equal(numbers_of(found), relu(x + read))
