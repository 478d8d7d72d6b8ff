"""`qdialect.testing`: right models pass, and wrong ones fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyTensorTypeConstr, f32, i32
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect import Reshape, Reverse, Slice, Transpose
from qdialect.algebra.movement import Movement
from qdialect.ops import Movements, OnNumbers, Operands, OpModel, OpModels, static_shape_of
from qdialect.opt.registry import ToolContext
from qdialect.testing import check_movement, check_run, shapes

Moves = Callable[[tuple[int, ...]], Sequence[Movement]]

SQUARES = st.sampled_from([(2, 2), (4, 4), (6, 6)])


@irdl_op_definition
class TurnOp(IRDLOperation):
    """The transpose of a square matrix."""

    name = "own.turn"
    input = operand_def(AnyTensorTypeConstr)
    result = result_def(AnyTensorTypeConstr)
    traits = traits_def(Pure())


def context_of(model: OpModel) -> ToolContext:
    context = ToolContext()
    context.load_dialect(Dialect("own", [TurnOp], [], [OpModels("own", {"turn": model})]))
    return context


def moved_by(movements: Moves) -> ToolContext:
    def movement(op: Operation, _: Operands) -> Movements:
        return Movements(op.operands, movements(static_shape_of(op.operands[0])))

    return context_of(OpModel(movement=movement))


def test_a_right_model_passes() -> None:
    context = moved_by(lambda _: [Transpose((1, 0))])
    check_movement("own.turn", np.transpose, SQUARES, context=context)()


WRONG: dict[str, Moves] = {
    "nothing moves": lambda _: [Reverse((0,)), Reverse((0,))],
    "another order": lambda shape: [Reshape(shape)],
    "another axis": lambda _: [Transpose((1, 0)), Reverse((1,))],
    "both axes": lambda shape: [Transpose((1, 0)), Slice((0, 0), shape, (1, 1)), Reverse((0, 1))],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_model_fails(name: str) -> None:
    test = check_movement("own.turn", np.transpose, SQUARES, context=moved_by(WRONG[name]))
    with pytest.raises(AssertionError, match=r"'own.turn' is folded to .* the reference has"):
        test()


def test_a_model_without_movement_fails() -> None:
    test = check_movement("own.turn", np.transpose, SQUARES, context=context_of(OpModel()))
    with pytest.raises(AssertionError, match=r"'own.turn' is not folded"):
        test()


def test_ops_with_attributes_are_tested() -> None:
    def reverse(numbers: NDArray[Any], *, dimensions: Sequence[int]) -> NDArray[Any]:
        return np.flip(numbers, tuple(dimensions))

    def axes(shape: tuple[int, ...]) -> dict[str, Any]:
        return {"dimensions": st.lists(st.integers(0, len(shape) - 1), unique=True)}

    few = settings(deadline=None, max_examples=20)
    check_movement("stablehlo.reverse", reverse, shapes(min_rank=1), axes, settings=few)()


def test_runs_are_compared() -> None:
    context = context_of(OpModel(run=OnNumbers("numpy:negative")))
    check_run("own.turn", np.negative, elements=(f32, i32), context=context)()
    with pytest.raises(AssertionError):
        check_run("own.turn", np.abs, elements=(f32, i32), context=context)()


def test_what_is_no_attribute_is_told() -> None:
    def turned(numbers: NDArray[Any], **_: float) -> NDArray[Any]:
        return numbers.T

    context = moved_by(lambda _: [Transpose((1, 0))])
    test = check_movement("own.turn", turned, SQUARES, {"a": st.just(1.5)}, context=context)
    with pytest.raises(TypeError, match=r"'a' is 1\.5, which is no integer"):
        test()
