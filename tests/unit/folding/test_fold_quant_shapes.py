"""
`dequantize(fold(c)) == op(dequantize(c))`, bit for bit.

numpy computes the expected values, with one scale and zero point per element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import cast

import numpy as np
import pytest
from example_counts import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from own_ops import OWN_OPS, own_movements
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import (
    Builtin,
    DenseIntOrFPElementsAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.test import Test
from xdsl.ir import Operation, SSAValue
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.printer import Printer
from xdsl.transforms.canonicalize import CanonicalizePass

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import Movement
from qdialect.algebra.parameters import StorageFormat
from qdialect.algebra.views import Splat, Values, as_view
from qdialect.dialects.quant import (
    BroadcastInDimOp,
    ConcatOp,
    ConstantOp,
    Quant,
    ShapeOp,
    Storage,
    TransposeOp,
)
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.folding.policy import DEFAULT_MAX_GROWTH, FREE_SLOTS
from qdialect.ir.elements import DenseElementsAttr, dense_elements
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.testing.movements import numpy_moves
from qdialect.testing.tensors import I8, constants, dequantized, expanded, shapes

STORAGES = {
    "i4": StorageFormat(4, signed=True),
    "i8": I8,
    "u8": StorageFormat(8, signed=False),
    "i16": StorageFormat(16, signed=True),
    "u3": StorageFormat(3, signed=False),
    "i1": StorageFormat(1, signed=True),
    "i32": StorageFormat(32, signed=True),
}

NAMES = "abcdefghijkl"

# A concat may have more slots than are free: the test is of what is folded, not of its cost.
PASSES: list[ModulePass] = [FoldQuantShapesPass(max_parameter_growth=1 << 20), CanonicalizePass()]


@dataclass
class Weight:
    """A value of the module, and what numpy says its elements are read as."""

    value: SSAValue
    floats: NDArray[np.float32]
    scales: NDArray[np.float32]
    zero_points: NDArray[np.int64]
    origins: NDArray[np.int64]
    """The number of the constant that each element came from."""


def context() -> Context:
    made = Context()
    for dialect in (Builtin, Quant, Test):
        made.load_dialect(dialect)
    return made


def text_of(module: ModuleOp, *, generic: bool = False) -> str:
    stream = StringIO()
    Printer(stream=stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


def constant(
    data: st.DataObject, shape: tuple[int, ...], storage: StorageFormat, number: int
) -> tuple[ConstantOp, Weight]:
    """Constant `w{number}` of random elements, or sometimes a splat."""
    drawn = data.draw(constants(shape, [Storage.of_format(storage)]))
    op = drawn.op()
    op.result.name_hint = f"w{NAMES[number]}"
    op.attributes["profile"] = StringAttr(op.result.name_hint)
    origins = np.full(shape, number)
    return op, Weight(op.result, drawn.numbers, *expanded(drawn.parameters), origins)


def apply(movement: Movement, *weights: Weight) -> tuple[ShapeOp, Weight]:
    """The op of the coarsest result type, and what numpy makes of the floats."""
    first, *_ = weights
    values = [weight.value for weight in weights]
    if isinstance(movement, Concat):
        op: ShapeOp = ConcatOp(values, movement.dim)
    else:
        fields = {name: getattr(movement, name) for name in movement.__dataclass_fields__}
        make = cast(Callable[..., ShapeOp], OWN_OPS[type(movement)])
        op = make(first.value, **fields)
    scales = numpy_moves(movement, *(weight.scales for weight in weights))
    zero_points = numpy_moves(movement, *(weight.zero_points for weight in weights))
    origins = numpy_moves(movement, *(weight.origins for weight in weights))
    floats = numpy_moves(movement, *(weight.floats for weight in weights), padding=0 * scales)
    return op, Weight(op.result, floats, scales, zero_points, origins)


def bits(floats: NDArray[np.float32]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(floats).view(np.uint32)


@examples(250)
@given(shapes(max_rank=5), st.sampled_from(sorted(STORAGES)), st.data())
def test_random_chains_fold_to_one_constant(
    shape: tuple[int, ...], storage_name: str, data: st.DataObject
):
    storage = STORAGES[storage_name]
    op, weight = constant(data, shape, storage, 0)
    ops: list[Operation] = [op]
    for _ in range(data.draw(st.integers(1, 4))):
        if weight.floats.size > 3000:
            break
        if weight.floats.ndim and data.draw(st.integers(0, 4)) == 0:
            axis = data.draw(st.integers(0, weight.floats.ndim - 1))
            other_shape = list(weight.floats.shape)
            other_shape[axis] = data.draw(st.integers(1, 4))
            other_op, other = constant(data, tuple(other_shape), storage, len(ops))
            ops.append(other_op)
            op, weight = apply(Concat(axis), weight, other)
        else:
            movement = data.draw(own_movements(weight.floats.shape))
            op, weight = apply(movement, weight)
        ops.append(op)
        # The folds may be refused for their cost, by default.
        assume(uniform_tensor(op.result.type).element_type.scales.size <= FREE_SLOTS)
    user = test.TestOp([weight.value])
    module = ModuleOp([*ops, user])
    module.verify()
    text = text_of(module, generic=data.draw(st.booleans()))
    for fold in PASSES:
        folded = Parser(context(), text).parse_module()
        fold.apply(context(), folded)
        folded.verify()
        left = list(folded.ops)
        assert [type(op) for op in left] == [ConstantOp, test.TestOp], text_of(folded)
        result = left[0]
        assert isinstance(result, ConstantOp)
        assert result.result.type == weight.value.type
        names = [f"w{NAMES[number]}" for number in weight.origins.ravel()]
        name = names[0] if isinstance(fold, FoldQuantShapesPass) else result.result.name_hint
        # One op at a time, the canonicalization no longer knows the parts of a concat.
        assert name in names or isinstance(fold, CanonicalizePass)
        assert result.result.name_hint == name
        assert result.attributes == {"profile": StringAttr(name or "")}
        tensor = uniform_tensor(result.result.type)
        slots = tensor.element_type.parameters_on(tensor.get_shape())
        numbers = dequantized(as_view(result.values).array(), slots)
        assert np.array_equal(bits(numbers), bits(weight.floats))


def parse(text: str) -> ModuleOp:
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def fold(text: str, max_growth: int = DEFAULT_MAX_GROWTH) -> ModuleOp:
    module = parse(text)
    FoldQuantShapesPass(max_growth=max_growth).apply(context(), module)
    module.verify()
    return module


ALIASES = """
!p = !quant.uniform<i8:f32, 0.5>
!a = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
!b = !quant.uniform<i8:f32:1, {0.5:3,0.25}>
"""


def test_constant_with_many_users_is_kept_as_long_as_it_is_used():
    module = fold(
        ALIASES
        + """
        %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!a>
        %t = quant.transpose %w permutation = [1, 0] : tensor<2x3x!a> to tensor<3x2x!b>
        %u = quant.reverse %t dims = [0] : tensor<3x2x!b> to tensor<3x2x!b>
        "test.op"(%w, %t, %u) : (tensor<2x3x!a>, tensor<3x2x!b>, tensor<3x2x!b>) -> ()
        """
    )
    constants = [op for op in module.walk() if isinstance(op, ConstantOp)]
    assert [as_view(op.values).array().tolist() for op in constants] == [
        [[1, 2, 3], [4, 5, 6]],
        [[1, 4], [2, 5], [3, 6]],
        [[3, 6], [2, 5], [1, 4]],
    ]
    assert not any(isinstance(op, ShapeOp) for op in module.walk())


def test_chain_is_copied_once(monkeypatch: pytest.MonkeyPatch):
    """However long the chain is, one constant is made, and none on the way."""
    made: list[Values] = []

    def count(values: Values, type: IntegerType, *, repeat_splats: bool) -> DenseElementsAttr:
        made.append(values)
        return dense_elements(values, type, repeat_splats=repeat_splats)

    module = parse(
        ALIASES
        + """
        %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!p>
        %0 = quant.transpose %w permutation = [1, 0] : tensor<2x3x!p> to tensor<3x2x!p>
        %1 = quant.reshape %0 : tensor<3x2x!p> to tensor<3x1x2x!p>
        %2 = quant.transpose %1 permutation = [2, 1, 0] : tensor<3x1x2x!p> to tensor<2x1x3x!p>
        %3 = quant.reverse %2 dims = [2] : tensor<2x1x3x!p> to tensor<2x1x3x!p>
        "test.op"(%3) : (tensor<2x1x3x!p>) -> ()
        """
    )
    source = next(op for op in module.walk() if isinstance(op, ConstantOp))
    elements = as_view(source.values).factors
    monkeypatch.setattr("qdialect.folding.writing.dense_elements", count)
    FoldQuantShapesPass().apply(context(), module)
    (value,) = made
    view = as_view(value)
    assert np.shares_memory(view.factors, elements)
    assert view.array().tolist() == [[[3, 2, 1]], [[6, 5, 4]]]


def test_use_before_definition_in_a_graph_region():
    module = fold(
        ALIASES
        + """
        "test.op"(%u) : (tensor<2x3x!p>) -> ()
        %u = quant.transpose %t permutation = [1, 0] : tensor<3x2x!p> to tensor<2x3x!p>
        %t = quant.transpose %w permutation = [1, 0] : tensor<2x3x!p> to tensor<3x2x!p>
        %w = quant.constant dense<1> : tensor<2x3x!p>
        """
    )
    assert not any(isinstance(op, ShapeOp) for op in module.walk())


@pytest.mark.parametrize("dims", [0, 1])
def test_cycle_of_shape_ops_is_left(dims: int):
    module = fold(
        ALIASES
        + f"""
        "test.op"(%t) : (tensor<2x2x!p>) -> ()
        %u = quant.transpose %t permutation = [1, 0] : tensor<2x2x!p> to tensor<2x2x!p>
        %t = quant.reverse %u dims = [{dims}] : tensor<2x2x!p> to tensor<2x2x!p>
        """
    )
    assert sum(isinstance(op, ShapeOp) for op in module.walk()) == 2


def test_growth_is_bounded():
    text = (
        ALIASES
        + """
        %w = quant.constant dense<[1, 2]> : tensor<2x!p>
        %b = quant.broadcast_in_dim %w dims = [0] : tensor<2x!p> to tensor<2x100x!p>
        %t = quant.transpose %b permutation = [1, 0] : tensor<2x100x!p> to tensor<100x2x!p>
        "test.op"(%t) : (tensor<100x2x!p>) -> ()
        """
    )
    assert not any(isinstance(op, ShapeOp) for op in fold(text, max_growth=198).walk())
    left = [type(op) for op in fold(text, max_growth=197).ops]
    assert left == [ConstantOp, BroadcastInDimOp, TransposeOp, test.TestOp]


def test_splats_of_any_size_take_no_memory():
    module = fold(
        ALIASES
        + """
        %w = quant.constant dense<0> : tensor<65536x65536x!p>
        %0 = quant.concat dim(0) %w, %w : (tensor<65536x65536x!p>, tensor<65536x65536x!p>)
          -> tensor<131072x65536x!p>
        %1 = quant.reshape %0 : tensor<131072x65536x!p> to tensor<8589934592x!p>
        "test.op"(%1) : (tensor<8589934592x!p>) -> ()
        """
    )
    (folded,) = (op for op in module.walk() if isinstance(op, ConstantOp))
    assert isinstance(folded.value, DenseIntOrFPElementsAttr)
    assert len(folded.value.data.data) == 1
    assert folded.values == Splat(np.int8(0), (8589934592,))


def test_names_and_attributes_of_several_sources():
    module = fold(
        ALIASES
        + """
        %q = quant.constant dense<1> {name = "q", of_q} : tensor<2x!p>
        %k = quant.constant dense<2> {name = "k", of_k} : tensor<2x!p>
        %c = quant.concat dim(0) %q, %k : (tensor<2x!p>, tensor<2x!p>) -> tensor<4x!p>
        "test.op"(%c) : (tensor<4x!p>) -> ()
        """
    )
    (folded,) = (op for op in module.walk() if isinstance(op, ConstantOp))
    assert folded.result.name_hint == "q"
    assert {name: str(value) for name, value in folded.attributes.items()} == {
        "name": '"q"',
        "of_q": "unit",
        "of_k": "unit",
    }


def test_operands_of_one_op_are_replaced_at_once():
    """Replaced one by one, ten thousand operands take ten thousand times as long."""
    lines = [
        f"%w{i} = quant.constant dense<[1, {i % 100 + 2}]> : tensor<2x!p>\n"
        f"%r{i} = quant.reverse %w{i} dims = [0] : tensor<2x!p> to tensor<2x!p>"
        for i in range(2000)
    ]
    operands = ", ".join(f"%r{i}" for i in range(2000))
    types = ", ".join(["tensor<2x!p>"] * 2000)
    module = fold(ALIASES + "\n".join([*lines, f'"test.op"({operands}) : ({types}) -> ()']))
    *_, user = module.ops
    first = [as_view(operand.owner.values).array()[0] for operand in user.operands]  # pyright: ignore
    assert first == [i % 100 + 2 for i in range(2000)]


def test_pass_options():
    assert FoldQuantShapesPass().max_growth == 1 << 28
    with pytest.raises(ValueError, match="max-growth must not be negative, but is -1"):
        FoldQuantShapesPass(max_growth=-1)
