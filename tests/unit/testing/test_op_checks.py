"""Right models pass the checks of `qdialect.testing`, and wrong ones do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import Phase, find, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from registrations import taken_back
from typing_extensions import override
from xdsl.dialects.arith import ConstantOp as NumberOp
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    ModuleOp,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.tensor import ReshapeOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect import Reverse, Transpose
from qdialect.algebra.movement import MovableT, Shape
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.check.interpreters import OpInterpretationError, run_function
from qdialect.dialects.quant import DequantizeCastOp, Granularity, Storage
from qdialect.ir.elements import dense_elements
from qdialect.ops import (
    Movements,
    OnElements,
    Operands,
    OpModel,
    OpModels,
    Refusal,
    RefusalCode,
    integer_of,
    integers_of,
    register_models,
)
from qdialect.opt.registry import ToolContext
from qdialect.passes import FoldQuantShapesPass
from qdialect.testing import (
    STORAGES,
    Constant,
    RandomModule,
    check_movement,
    check_run,
    constants,
    modules,
    shapes,
)

Array = NDArray[Any]

pytestmark = pytest.mark.usefixtures("without_plugins")

FIRST = examples(1000, phases=[Phase.generate], database=None, deadline=None)
"""Of a test that fails: the first failure is enough."""


def mirrored(x: Array, dim: int) -> Array:
    return np.flip(x, dim)


def turned(x: Array, order: Sequence[int]) -> Array:
    return x.transpose(order)


def turned_back(x: Array, order: Sequence[int]) -> Array:
    return x.transpose(np.argsort(order))


def joined(*parts: Array, dimension: int) -> Array:
    return np.concatenate(parts, dimension)


def padded(x: Array, low: int) -> Array:
    return np.pad(x, (low, 0))


def added(x: Array, y: Array) -> Array:
    return x ^ y if x.dtype == bool else x + y


def nearly_added(x: Array, y: Array) -> Array:
    return (x + y) * np.float32(1 + 1e-6)


def as_column(x: Array) -> Array:
    return x.reshape(-1, 1)


def as_it_is(x: Array, **attributes: object) -> Array:
    return x


def as_complex(x: Array) -> Array:
    return x.astype(np.complex64)


def mirrored_by_attribute(x: Array, axis: IntegerAttr) -> Array:
    return np.flip(x, axis.value.data)


def twice(shape: Shape) -> list[Shape]:
    return [shape, shape]


def dims(shape: Shape) -> Mapping[str, st.SearchStrategy[int]]:
    return {"dim": st.integers(0, len(shape) - 1)}


def dims_of_two(first: Shape, second: Shape) -> Mapping[str, st.SearchStrategy[int]]:
    return {"dimension": st.integers(0, len(first) - 1)}


def orders(shape: Shape) -> Mapping[str, st.SearchStrategy[list[int]]]:
    return {"order": st.permutations(range(len(shape)))}


def rotations(shape: Shape) -> Mapping[str, st.SearchStrategy[list[int]]]:
    """Of three axes, none is its own inverse; few random orders are not."""
    return {"order": st.just([*range(1, len(shape)), 0])}


SOME = shapes(min_rank=1, max_rank=4)


@dataclass(frozen=True)
class ReverseOfElements(Reverse):
    """A movement with a mistake: parameters stay."""

    @override
    def __call__(self, *operands: MovableT) -> MovableT:
        (operand,) = operands
        return operand if isinstance(operand, QuantizationParameters) else super().__call__(operand)


def mirror(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Reverse((integer_of(op, "dim"),))])


def mirror_first(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Reverse((0,))])


def mirror_elements(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [ReverseOfElements((integer_of(op, "dim"),))])


def turn(op: Operation, operands: Operands) -> Movements:
    return Movements(op.operands, [Transpose(tuple(integers_of(op, "order")))])


def turn_back(op: Operation, operands: Operands) -> Movements:
    order = integers_of(op, "order")
    return Movements(op.operands, [Transpose(tuple(map(order.index, range(len(order)))))])


def refuse(op: Operation, operands: Operands) -> Movements:
    raise Refusal(RefusalCode.DYNAMIC_SHAPE, "it is Monday")


@pytest.fixture(autouse=True)
def some_models() -> None:
    models = {
        "mirror": OpModel(movement=mirror),
        "mirror_first": OpModel(movement=mirror_first),
        "mirror_elements": OpModel(movement=mirror_elements),
        "turn": OpModel(movement=turn),
        "turn_back": OpModel(movement=turn_back),
        "refuse": OpModel(movement=refuse),
        "negate": OpModel(run=OnElements("numpy:negative", "numpy:negative")),
        "add": OpModel(run=OnElements("numpy:add", "numpy:add", "numpy:logical_xor", arity=2)),
    }
    register_models(OpModels("checked", models))


# Right models

test_mirror = check_movement("checked.mirror", mirrored, SOME, dims)
test_turn = check_movement("checked.turn", turned, attributes=orders)


def reshape(operands: Sequence[SSAValue], result: TensorType[Any]) -> list[Operation]:
    lengths = NumberOp(dense_elements(np.array(result.get_shape()), i32))
    return [lengths, ReshapeOp(operands[0], lengths.result, result)]


test_built_ops = check_movement(reshape, as_column)

test_several_operands = check_movement(
    "stablehlo.concatenate",
    joined,
    SOME.map(twice),
    dims_of_two,
)


def pad(operands: Sequence[SSAValue], result: TensorType[Any], low: int) -> list[Operation]:
    zero = NumberOp(dense_elements(np.zeros((), np.uint32), f32))
    op = ToolContext().get_op("stablehlo.pad").create
    rank = len(result.get_shape())
    widths = {"edge_padding_low": low, "edge_padding_high": 0, "interior_padding": 0}
    properties = {
        name: DenseArrayBase.from_list(i64, [width] * rank) for name, width in widths.items()
    }
    operands = [*operands, zero.result]
    return [zero, op(operands=operands, result_types=[result], properties=properties)]


test_padding = check_movement(pad, padded, SOME, {"low": st.integers(0, 2)})

test_run_of_a_movement = check_run("checked.turn", turned, SOME, orders, elements=[i8, f16])
test_run = check_run("checked.negate", np.negative, elements=[f16, f32, f64, i8, i32])
test_run_of_several = check_run(
    "checked.add",
    added,
    shapes().map(twice),
    elements=[f16, f32, i1, i8, (i32, i32)],
)
test_run_with_tolerance = check_run(
    "checked.add", nearly_added, st.just([(3,), (3,)]), tolerance=1e-5
)


# Wrong models


@pytest.mark.parametrize(
    ("name", "reference", "attributes"),
    [
        ("mirror_first", mirrored, dims),
        ("mirror_elements", mirrored, dims),
        ("turn_back", turned, rotations),
        ("turn", turned_back, rotations),
    ],
    ids=["wrong axis", "scales that stay", "wrong order", "reference of another op"],
)
@pytest.mark.parametrize("storage", STORAGES, ids=lambda storage: str(storage.format.name))
def test_a_wrong_movement_fails(
    name: str, reference: Any, attributes: Any, storage: Storage
) -> None:
    # With other lengths, the result has another shape.
    squares = st.sampled_from([(2, 2), (3, 3, 3)])
    check = check_movement(
        f"checked.{name}", reference, squares, attributes, storages=[storage], settings=FIRST
    )
    with pytest.raises(AssertionError, match=rf"'checked\.{name}' is folded to .* at \[\d, \d"):
        check()


def test_a_movement_of_another_shape_fails() -> None:
    check = check_movement("checked.turn_back", turned, SOME, orders, settings=FIRST)
    with pytest.raises((AssertionError, VerifyException)):
        check()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("refuse", r"'checked\.refuse' is not folded: it is Monday"),
        ("negate", r"'checked\.negate' is not folded: "),
    ],
)
def test_an_op_that_is_not_folded_fails_with_the_reason(name: str, message: str) -> None:
    check = check_movement(f"checked.{name}", as_it_is, settings=FIRST)
    with pytest.raises(AssertionError, match=message):
        check()


def test_an_error_of_a_model_has_its_place() -> None:
    """The class of the op is verified, so the mistake is the model's."""

    def mistaken(op: Operation, operands: Operands) -> Movements:
        return Movements(op.operands, [Transpose((op.attributes["nothing"],))])  # pyright: ignore[reportArgumentType]

    with taken_back():
        register_models(OpModels("tosa", {"reverse": OpModel(movement=mistaken)}))
        axis = {"axis": st.just(IntegerAttr(0, i32))}
        reason = (
            r"'tosa.reverse' is not folded: .*its model raises KeyError: .*test_op_checks.py:\d"
        )
        with pytest.raises(AssertionError, match=reason):
            check_movement("tosa.reverse", as_it_is, SOME, axis, settings=FIRST)()


@pytest.mark.parametrize("element", [f16, f32, i8], ids=str)
def test_a_wrong_run_fails(element: Attribute) -> None:
    check = check_run("checked.negate", np.positive, elements=[element], settings=FIRST)
    with pytest.raises(AssertionError, match=r"Not equal to tolerance"):
        check()


def test_an_op_that_cannot_be_run_fails() -> None:
    with pytest.raises(OpInterpretationError, match=r"checked\.unknown"):
        check_run("checked.unknown", np.negative, settings=FIRST)()


# What is not understood


HALVES = {"dim": st.just(0.5)}


def test_values_that_are_no_attributes() -> None:
    with pytest.raises(TypeError, match=r"'dim' is 0\.5, which is no integer"):
        check_movement("checked.mirror", as_it_is, SOME, HALVES, settings=FIRST)()


def test_other_element_types() -> None:
    with pytest.raises(ValueError, match=r"elements are f16, f32, .*, not 'bf16'"):
        check_run("checked.negate", np.negative, elements=[bf16], settings=FIRST)()
    with pytest.raises(ValueError, match="the reference returns complex64"):
        check_run("checked.negate", as_complex, settings=FIRST)()


def test_attributes_of_xdsl_are_given_as_they_are() -> None:
    """As properties, where the class of the op declares them."""
    dims = st.sampled_from([IntegerAttr(0, i32), IntegerAttr(1, i32)])
    check_movement(
        "tosa.reverse",
        mirrored_by_attribute,
        st.just((2, 3)),
        {"axis": dims},
    )()


# Strategies

NARROW = [storage for storage in STORAGES if storage.format.width <= 16]
"""With more bits, a run rounds once, and the numbers of a constant are rounded twice."""


@pytest.mark.parametrize("granularity", Granularity)
@pytest.mark.parametrize("storage", STORAGES, ids=lambda storage: str(storage.format.name))
def test_every_granularity_of_every_storage_is_drawn(
    storage: Storage, granularity: Granularity
) -> None:
    drawn = find(
        constants((2, 4), [storage]),
        lambda constant: constant.type.element_type.granularity is granularity,
    )
    assert drawn.type.element_type.storage == storage


@examples(100)
@given(modules())
def test_modules_return_what_numpy_finds(drawn: RandomModule) -> None:
    """Before a fold, and after it."""
    context = ToolContext()
    drawn.module.verify()
    for change in (None, FoldQuantShapesPass(verify="values")):
        if change is not None:
            change.apply(context, drawn.module)
            drawn.module.verify()
        results = run_function(drawn.module, "main", (), context)
        assert len(results) == len(drawn.results)
        for result, expected in zip(results, drawn.results, strict=True):
            assert np.array_equal(result.numbers, expected, equal_nan=True)


def test_modules_have_joins_and_several_users() -> None:
    def names(drawn: RandomModule) -> list[str]:
        return [op.name for op in drawn.module.walk()]

    find(modules(), lambda drawn: names(drawn).count("tensor.concat") > 1, settings=FIRST)
    find(
        modules(),
        lambda drawn: any(
            len([*op.results[0].uses]) > 1 for op in drawn.module.walk() if op.results
        ),
        settings=FIRST,
    )


@examples(200)
@given(shapes().flatmap(lambda shape: constants(shape, NARROW)))
def test_numbers_are_those_of_a_run(constant: Constant) -> None:
    assert repr(constant) == f"{constant.codes.tolist()} : {constant.type}"
    source = constant.op()
    source.verify()
    cast = DequantizeCastOp(source.result, TensorType(f32, constant.codes.shape))
    block = Block([source, cast, ReturnOp(cast.result)])
    module = ModuleOp([FuncOp("main", ([], [cast.result.type]), Region(block))])
    (result,) = run_function(module, "main")
    assert np.array_equal(result.numbers, constant.numbers, equal_nan=True)
