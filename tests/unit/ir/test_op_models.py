"""Models of ops: for all contexts, and first those of the dialects of the context in use."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, TensorType, UnregisteredOp, f32
from xdsl.dialects.func import Func
from xdsl.ir import Dialect, Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import InterpretationError

from qdialect.contractions.interface import (
    Contraction,
    Layers,
    Lookup,
    Window,
    Windows,
    layer_of,
    windows_of,
)
from qdialect.interpreters import run_function
from qdialect.interpreters.reference.registry import Runs, find_run, is_rounded_by_name
from qdialect.interpreters.reference.values import Numbers, numbers_of, on_elements, rounded
from qdialect.ir.op_models import Models, models_of
from qdialect.relations.interface import OpRelation, Relation, Relations, relation_of
from qdialect.shape_ops.interface import NotFoldable


def op(name: str) -> Operation:
    return UnregisteredOp.with_name(name).create()


def context_with(*interfaces: Models, dialect: str = "own") -> Context:
    context = Context(allow_unregistered=True)
    for each in (Builtin, Func, Dialect(dialect, [], [], [*interfaces])):
        context.load_dialect(each)
    return context


def test_layers_may_belong_to_a_context() -> None:
    layers, windows = Layers(), Windows()
    convolution = Contraction.of("n*c,*cf->n*f")
    layers.register("own.conv")(lambda op: convolution)
    windows.register("own")(lambda op, contraction: [Window((1, 0, 1), stride=2)])
    conv = op("own.conv")
    assert layer_of(conv) is None
    with models_of(context_with(layers, windows)):
        assert layer_of(conv) == convolution
        assert windows_of(conv, convolution) == [Window((1, 0, 1), stride=2)]
        with models_of(context_with()):
            assert layer_of(conv) is None
    # Of a layer whose windows nobody reads, nothing can be said.
    with models_of(context_with(layers)), pytest.raises(NotFoldable, match="windows of 'own'"):
        windows_of(conv, convolution)


def test_relations_may_belong_to_a_context() -> None:
    relations = Relations()
    relations.register("own.relu")(lambda op: OpRelation(Relation.OWN))
    assert relation_of(op("own.relu")) is None
    with models_of(context_with(relations)):
        assert relation_of(op("own.relu")) == OpRelation(Relation.OWN)
        assert relation_of(op("own.other")) is None
    assert relation_of(op("own.relu")) is None


def test_models_of_a_context_come_first_name_by_name() -> None:
    layers = Layers()
    layers.register("tosa.matmul")(lambda op: Lookup(0, 1))
    matmul, convolution = op("tosa.matmul"), op("tosa.conv2d")
    assert isinstance(layer_of(matmul), Contraction)
    with models_of(context_with(layers, dialect="tosa")):
        assert layer_of(matmul) == Lookup(0, 1)
        assert isinstance(layer_of(convolution), Contraction)


TEXT = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %r = "own.negative"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
"""


def test_runs_may_belong_to_a_context() -> None:
    runs = Runs()

    runs.named_run("own.negative", is_rounded=True)(on_elements(np.negative, count=1))

    def run(context: Context) -> Numbers:
        module = Parser(context, TEXT).parse_module()
        argument = rounded(np.array([1.0, -2.0]), TensorType(f32, [2]))
        return numbers_of(run_function(module, "main", [argument], context)[0])

    assert_array_equal(run(context_with(runs)), [-1, 2])
    with pytest.raises(InterpretationError, match="no implementation"):
        run(context_with())
    assert find_run("own.negative") is None
    with models_of(context_with(runs)):
        assert is_rounded_by_name("own.negative")
    assert not is_rounded_by_name("own.negative")
