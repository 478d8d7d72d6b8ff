"""Each movement, op of quant, pass, flag and code of a refusal has every part that it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from folded_modules import op_of, parse
from hypothesis import find
from hypothesis import strategies as st
from xdsl.ir import Operation

import qdialect
import qdialect.testing.movements
from qdialect import (
    BroadcastInDim,
    Chain,
    Concat,
    InsertSlice,
    Movement,
    Pad,
    PadWith,
    Reshape,
    Reverse,
    Slice,
    Take,
    Transpose,
)
from qdialect.algebra.movement import Shape
from qdialect.algebra.padding import ZeroPoint
from qdialect.check.index_maps import moved_shape, origins
from qdialect.check.interpreters import run_function
from qdialect.dialects.quant import DequantizeBiasOp, Quant, ShapeOp, StatisticsOp
from qdialect.lowering.cast_arithmetic import ArithmeticCast
from qdialect.lowering.storage_ops import STORAGE_OPS
from qdialect.ops.fields import CastReads, Movements, Operands
from qdialect.ops.interface import cast_reads, elements_attribute_of, is_known_dialect, model_of
from qdialect.ops.model import OpModel, OpModels, register_models
from qdialect.ops.refusals import RefusalCode
from qdialect.opt.opt import help_text
from qdialect.opt.options import Options
from qdialect.passes import PASSES
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.testing.movements import joins, numpy_moves, unary_movements

pytestmark = pytest.mark.usefixtures("without_plugins")

ROOT = Path(__file__).parents[2]

EXAMPLES: dict[type[Movement], tuple[Movement, list[Shape]]] = {
    Transpose: (Transpose((1, 0)), [(2, 3)]),
    Reshape: (Reshape((6,)), [(2, 3)]),
    Slice: (Slice((0, 1), (2, 1), (1, 1)), [(2, 3)]),
    Concat: (Concat(0), [(2, 3), (1, 3)]),
    BroadcastInDim: (BroadcastInDim((1,), (2, 3)), [(3,)]),
    Reverse: (Reverse((1,)), [(2, 3)]),
    Pad: (Pad((1, 0), (0, 1)), [(2, 3)]),
    PadWith: (PadWith((1, 0), (0, 1), (0, 1), ZeroPoint()), [(2, 3)]),
    Take: (Take(1, (2, 0, 2)), [(2, 3)]),
    InsertSlice: (InsertSlice((0, 1), (1, 1), (1, 1)), [(1, 1), (2, 3)]),
    Chain: (Chain(Transpose((1, 0)), (Reverse((0,)),)), [(2, 3)]),
}

WITHOUT_OP = {
    PadWith: "quant.pad pads with zero; others are what other dialects have",
    InsertSlice: "tensor.insert_slice is read, and never made",
    Chain: "it is several ops",
}
"""Movements that no op of the dialect is, and that are not lowered to storage, and why."""


def movements() -> list[type[Movement]]:
    """All that come along: not those that a test or a page has made."""
    found, pending = list[type[Movement]](), list(Movement.__subclasses__())
    while pending:
        cls = pending.pop()
        pending += cls.__subclasses__()
        if cls.__module__.startswith("qdialect."):
            found.append(cls)
    return sorted(found, key=lambda cls: cls.__name__)


def own_ops() -> Sequence[type[Operation]]:
    return list(Quant.operations)


@pytest.mark.parametrize("cls", movements())
class TestMovement:
    def test_it_is_exported_and_has_an_example(self, cls: type[Movement]) -> None:
        assert cls.__name__ in qdialect.__all__
        assert cls in EXAMPLES

    def test_it_answers_what_can_be_simplified(self, cls: type[Movement]) -> None:
        """A class must override the method itself, even to return None."""
        for name in ("is_identity", "after", "undo", "result_shape", "__call__"):
            owner = next(base for base in cls.__mro__ if name in vars(base))
            assert owner is not Movement, f"{cls.__name__} does not define '{name}'"

    def test_the_certificate_knows_it(self, cls: type[Movement]) -> None:
        if cls is Chain:
            # Its steps are followed one by one.
            return
        assert origins.dispatch(cls) is not origins.dispatch(Movement)
        assert moved_shape.dispatch(cls) is not moved_shape.dispatch(Movement)

    def test_it_has_an_op_and_is_lowered_or_a_reason_is_given(self, cls: type[Movement]) -> None:
        own = {op.MOVEMENT for op in own_ops() if issubclass(op, ShapeOp)}
        assert (cls in own) is (cls not in WITHOUT_OP)
        assert (cls in STORAGE_OPS) is (cls not in WITHOUT_OP)

    def test_random_tests_draw_it(self, cls: type[Movement]) -> None:
        if cls is Chain:
            # Chains of ops are drawn.
            return
        several = joins().map(lambda join: join[0])
        drawn = st.one_of(unary_movements((2, 3)), several)
        assert find(drawn, lambda movement: type(movement) is cls)
        assert hasattr(qdialect.testing.movements, cls.__name__)

    def test_it_is_folded_certified_and_run(self, cls: type[Movement]) -> None:
        """As an op that nothing else knows: all that a movement needs is the movement."""
        movement, operands = EXAMPLES[cls]
        name = cls.__name__.lower()

        def moved(op: Operation, operands: Operands) -> Movements:
            return Movements(op.operands, [movement])

        register_models(OpModels("complete", {name: OpModel(movement=moved)}))

        def tensor(shape: Shape, element: str) -> str:
            return f"tensor<{''.join(f'{length}x' for length in shape)}{element}>"

        quantized = "!quant.uniform<i8:f32, 0.5:3>"
        result = tensor(movement.result_shape(*operands), quantized)
        arrays = [
            np.arange(np.prod(shape)).reshape(shape) + 9 * at for at, shape in enumerate(operands)
        ]
        constants = "\n".join(
            f'%{at} = "stablehlo.constant"() <{{value = dense<{array.tolist()}> '
            f": {tensor(array.shape, 'i8')}}}> : () -> {tensor(array.shape, quantized)}"
            for at, array in enumerate(arrays)
        )
        types = ", ".join(tensor(shape, quantized) for shape in operands)
        names = ", ".join(f"%{at}" for at in range(len(operands)))
        text = f"""
        func.func @f() -> {result} {{
          {constants}
          %r = "complete.{name}"({names}) : ({types}) -> {result}
          return %r : {result}
        }}
        """
        expected = moved_by_numpy(movement, arrays)
        for is_folded in (False, True):
            module, context = parse(text)
            if is_folded:
                FoldQuantShapesPass(verify="values", max_repetition=1 << 20).apply(context, module)
                assert op_of(module, "stablehlo.constant")
            (value,) = run_function(module, "f", (), context)
            assert value.numbers.tolist() == expected.tolist()


def moved_by_numpy(movement: Movement, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """What numpy makes of arrays; padded with 3, the zero point."""
    if isinstance(movement, Chain):
        for step in (movement.first, *movement.others):
            arrays = [moved_by_numpy(step, arrays)]
        return arrays[0]
    return numpy_moves(movement, *arrays, padding=3)


@pytest.mark.parametrize("cls", own_ops())
class TestOp:
    def test_it_is_known_as_something(self, cls: type[Operation]) -> None:
        op = cls.create()
        known = [
            model_of(op) is not None,
            elements_attribute_of(op) is not None,
            cast_reads(op) is not CastReads.UNKNOWN,
        ]
        assert sum(known) == 1
        assert is_known_dialect("quant")

    def test_it_is_on_its_pages_and_in_a_test_of_its_text(self, cls: type[Operation]) -> None:
        pages = ("dialect", "casts_and_statistics")
        assert any(cls.name in (ROOT / "docs" / f"{page}.md").read_text() for page in pages)
        texts = (path.read_text() for path in (ROOT / "tests" / "filecheck").rglob("*.mlir"))
        assert any("CHECK" in text and f"{cls.name} " in text for text in texts)

    def test_a_cast_that_computes_is_lowered(self, cls: type[Operation]) -> None:
        computes = cast_reads(cls.create()) & ~CastReads.BITS
        # A recorded range is dropped instead.
        lowered = {*get_args(ArithmeticCast), DequantizeBiasOp, StatisticsOp}
        assert bool(computes) is (cls in lowered)

    def test_it_can_be_imported_with_the_others(self, cls: type[Operation]) -> None:
        from qdialect.dialects import quant

        assert getattr(quant, cls.__name__) is cls


def written(*folders: str) -> str:
    """The texts below some folders of the repository, without this file."""
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    texts = {".md", ".mlir", ".py"}
    return "".join(
        path.read_text(encoding="utf-8")
        for path in paths
        if path.suffix in texts and path != Path(__file__)
    )


def missing(words: Iterable[str], text: str) -> list[str]:
    """The words that are not in a text by themselves."""
    return [word for word in words if not re.search(rf"(?<![\w-]){word}(?![\w-])", text)]


def test_each_code_of_a_refusal_is_given_and_on_a_page() -> None:
    assert missing((f"`{code}`" for code in RefusalCode), written("docs")) == []
    assert (
        missing((rf"RefusalCode\.{code.name}" for code in RefusalCode), written("qdialect")) == []
    )


def test_each_pass_is_on_a_page() -> None:
    assert missing((f"--{flag}" for flag in PASSES), written("docs")) == []


def test_each_flag_has_a_test() -> None:
    _, _, options = help_text(Options()).partition("\nInput:\n")
    flags = re.findall(r"^  (--?[a-z-]+)", options, re.MULTILINE)
    assert {"-o", "--max-memory"} <= {*flags}
    assert missing(flags, written("tests")) == []
