"""Sinking shape ops below casts preserves values, and never adds casts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from io import StringIO

import numpy as np
import pytest
from example_counts import examples
from hypothesis import HealthCheck, assume, given, note
from hypothesis import strategies as st
from own_ops import OWN_OPS, own_movements
from random_graphs import FOR_MLIR, STORAGES, Graph, graphs
from random_modules import Storage
from xdsl.dialects.builtin import FloatAttr, ModuleOp, TensorType, UnknownLoc, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint

from qdialect.algebra.movement import (
    Movement,
    Reshape,
    Reverse,
    Shape,
    Take,
    Transpose,
    pulled_back,
)
from qdialect.algebra.padding import Pad
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.check.interpreters import TypedArray, random_arguments, run_function
from qdialect.dialects.quant import CastOp, DequantizeCastOp, QuantizeCastOp
from qdialect.folding.report import Outcome, PassReport
from qdialect.lowering.storage_ops import StorageBuilder, move_elements
from qdialect.ops.interface import RefusalCode, name_of
from qdialect.opt.registry import ToolContext
from qdialect.passes.elide_round_trips import ElideRoundTripsPass
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
from qdialect.passes.sink_quant_shapes import SinkQuantShapesPass
from qdialect.testing.movements import unary_movements
from qdialect.testing.tensors import F32, I8, parameters, quantized_tensor, shapes
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

# The dialect of StableHLO, where it is installed, refuses slots that move with their elements.
pytestmark = pytest.mark.usefixtures("without_plugins")

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def parse(text: str) -> tuple[ModuleOp, ToolContext]:
    context = ToolContext(allow_unregistered=True)
    return LocatingParser(context, text, "text").parse_module(), context


def printed(module: ModuleOp) -> str:
    stream = StringIO()
    MLIRPrinter(stream=stream).print_op(module)
    return stream.getvalue()


def verify(module: ModuleOp) -> None:
    for op in module.walk():
        op.verify_()


def sink(module: ModuleOp, context: ToolContext) -> PassReport:
    """Sink, and verify what comes out."""
    SinkQuantShapesPass().apply(context, module)
    verify(module)
    return context.fold_reports.pop()


def casts(module: ModuleOp) -> int:
    return sum(isinstance(op, CastOp) for op in module.walk())


def names(module: ModuleOp) -> list[str]:
    """The names of the ops of the only function, but for the return."""
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    return [name_of(op) for op in function.body.block.ops][:-1]


def values(module: ModuleOp, context: ToolContext, seed: int) -> tuple[TypedArray, ...]:
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    arguments = random_arguments(function.function_type, seed)
    return run_function(module, "f", arguments, context)


def assert_same(before: Sequence[TypedArray], after: Sequence[TypedArray]) -> None:
    assert [value.type for value in before] == [value.type for value in after]
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one.elements, other.elements)


@examples(60, suppress_health_check=SLOW)
@given(graphs(), st.integers(0, 2**16))
def test_graphs_compute_the_same(graph: Graph, seed: int):
    """Bit for bit, of every storage integer and the edges of floats; and once is enough."""
    note(graph.text)
    module, context = parse(graph.text.replace("@f0", "@f"))
    verify(module)
    before, count = values(module, context, seed), casts(module)
    sink(module, context)
    assert_same(before, values(module, context, seed))
    assert casts(module) <= count
    once = printed(module)
    sink(module, context)
    assert printed(module) == once


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not on PATH")
@examples(8, suppress_health_check=SLOW)
@given(st.data())
def test_mlir_reads_what_is_lowered(data: st.DataObject):
    drawn = [data.draw(graphs(number, FOR_MLIR)) for number in range(6)]
    module, context = parse("\n".join(graph.text for graph in drawn))
    sink(module, context)
    LowerQuantShapesPass().apply(context, module)
    command = ["mlir-opt-22", "--allow-unregistered-dialect"]
    done = subprocess.run(command, input=printed(module), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# What can sink, sinks

INVERTIBLE = (Transpose, Reshape, Reverse, Pad)


def moved_and_cast(movement: Movement, before: QuantizationParameters, cast: str) -> ModuleOp:
    """A function of one shape op, and then a cast."""
    operand, result = quantized_tensor(before), quantized_tensor(movement(before))
    floats = [TensorType(f32, type.get_shape()) for type in (operand, result)]
    block = Block(arg_types=[operand if cast == "quant.dcast" else floats[0]])
    builder = StorageBuilder(InsertPoint.at_end(block), UnknownLoc())
    if cast == "quant.dcast":
        op = OWN_OPS[type(movement)].of_movement(movement, block.args, result)
        last = DequantizeCastOp(builder.insert(op).result, floats[1])
    elif isinstance(movement, Pad):
        padded = builder.pad(movement, block.args[0], FloatAttr(0.0, f32))
        last = QuantizeCastOp(padded, result)
    else:
        last = QuantizeCastOp(move_elements(builder, movement, block.args, floats[1]), result)
    builder.insert(last)
    builder.insert(ReturnOp(last.result))
    types = [arg.type for arg in block.args], [last.result.type]
    return ModuleOp([FuncOp("f", types, Region(block))])


@examples(60)
@given(st.data(), st.sampled_from(["quant.dcast", "quant.qcast"]), st.integers(0, 2**16))
def test_what_can_sink_does(data: st.DataObject, cast: str, seed: int):
    """Every movement below `dcast`; below `qcast` what tells the scales of its operand."""
    before = data.draw(parameters(data.draw(shapes(max_rank=4))))
    movement = data.draw(own_movements(before.shape))
    if cast == "quant.qcast":
        # On floats, `tensor` and `linalg` have no single op for these.
        assume(before.shape and not isinstance(movement, Reverse | Take))
    module, context = moved_and_cast(movement, before, cast), ToolContext()
    values_before = values(module, context, seed)
    report = sink(module, context)
    assert_same(values_before, values(module, context, seed))
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    first = function.body.block.first_op
    one_slot = movement(before).simplify().size == 1
    if cast == "quant.dcast" or one_slot or isinstance(movement, INVERTIBLE):
        assert isinstance(first, CastOp)
        assert first.name == cast
    outcomes = {record.outcome for record in report.records}
    assert outcomes <= {Outcome.SUNK, Outcome.REFUSED}


@given(st.data())
def test_pulled_back_parameters_move_to_what_they_came_from(data: st.DataObject):
    """They are those of before wherever nothing is dropped, and one slot is always one slot."""
    before = data.draw(parameters(data.draw(shapes(max_rank=4))))
    movement = data.draw(unary_movements(before.shape))
    moved = movement(before)
    found = pulled_back(movement, moved, before.shape)
    if isinstance(movement, INVERTIBLE):
        assert found is not None
        assert found.first_difference(before) is None
    if moved.simplify().size == 1:
        assert found is not None
    if found is not None:
        assert found.shape == before.shape
        assert movement(found).first_difference(moved) is None


@pytest.mark.parametrize(
    ("movement", "shape", "operand"),
    [
        (Transpose((1, 0)), (0, 2), (2, 0)),
        (Pad((1,), (0,)), (1,), (0,)),
        (Reshape((0,)), (0,), (3, 0)),
    ],
)
def test_nothing_is_pulled_back_without_elements(movement: Movement, shape: Shape, operand: Shape):
    one = QuantizationParameters.from_blocks(
        shape,
        np.ones((1,) * len(shape)),
        np.zeros((1,) * len(shape), dtype=np.int64),
        F32,
        I8,
    )
    assert pulled_back(movement, one, operand) is None


def test_long_chains_are_one_step():
    """A cast goes above all of them; nothing is made that is not left."""
    ops, name = list[str](), "x"
    for number in range(200):
        ops.append(
            f"%t{number} = tosa.transpose %{name} {{perms = array<i32: 1, 0>}} : "
            "(tensor<2x2xf32>) -> tensor<2x2xf32>"
        )
        name = f"t{number}"
    text = "\n".join(ops)
    q = "tensor<2x2x!quant.uniform<i8:f32:1, {0.5,0.25:3}>>"
    module, context = parse(
        f"func.func @f(%x: tensor<2x2xf32>) -> {q} {{\n{text}\n"
        f"%q = quant.qcast %{name} : tensor<2x2xf32> to {q}\nreturn %q : {q}\n}}"
    )
    before = values(module, context, 1)
    sink(module, context)
    assert_same(before, values(module, context, 1))
    assert names(module) == ["quant.qcast", *["quant.transpose"] * 200]


def test_a_fold_needs_no_cast_of_each_operand():
    """The fold looks through casts: before a concat and behind it, it is the same to it."""
    q = "!quant.uniform<i8:f32, 0.5>"
    constants = (
        "%a = arith.constant dense<[1, 2]> : tensor<2xi8>\n"
        "%b = arith.constant dense<[3, 4]> : tensor<2xi8>\n"
    )
    behind = (
        f"func.func @f() -> tensor<4x{q}> {{ {constants}"
        "%c = tensor.concat dim(0) %a, %b : (tensor<2xi8>, tensor<2xi8>) -> tensor<4xi8>\n"
        f"%d = quant.scast %c : tensor<4xi8> to tensor<4x{q}>\nreturn %d : tensor<4x{q}> }}"
    )
    before = (
        f"func.func @f() -> tensor<4x{q}> {{ {constants}"
        f"%c = quant.scast %a : tensor<2xi8> to tensor<2x{q}>\n"
        f"%d = quant.scast %b : tensor<2xi8> to tensor<2x{q}>\n"
        f"%e = quant.concat dim(0) %c, %d : (tensor<2x{q}>, tensor<2x{q}>) -> tensor<4x{q}>\n"
        f"return %e : tensor<4x{q}> }}"
    )
    for text in (behind, before):
        module, context = parse(text)
        FoldQuantShapesPass().apply(context, module)
        assert names(module) == ["arith.constant", "quant.scast"]


# Round trips


@examples(40)
@given(st.data(), st.sampled_from(["f32", "f16", "bf16"]), st.sampled_from(STORAGES))
def test_round_trips_go_if_they_are_the_identity(
    data: st.DataObject, expressed: str, storage: Storage
):
    """Which the interpreter says of all integers that the storage has."""
    scale = data.draw(st.sampled_from([0.1, 0.5, 1.0, 3.0, 6e-8, 600.0, 60000.0]))
    zero = data.draw(st.integers(storage.low, storage.high))
    q = f"!quant.uniform<{storage.text}:{expressed}, {scale:.17e}:{zero}>"
    count, floats = 1 << storage.width, f"tensor<{1 << storage.width}x{expressed}>"
    ints, quantized = f"tensor<{count}x{storage.signless}>", f"tensor<{count}x{q}>"
    module, context = parse(
        f"func.func @f(%x: {ints}) -> {ints} {{\n"
        f"%0 = quant.scast %x : {ints} to {quantized}\n"
        f"%1 = quant.dcast %0 : {quantized} to {floats}\n"
        f"%2 = quant.qcast %1 : {floats} to {quantized}\n"
        f"%3 = quant.scast %2 : {quantized} to {ints}\n"
        f"return %3 : {ints}\n}}"
    )
    function = next(iter(module.ops))
    assert isinstance(function, FuncOp)
    (every,) = random_arguments(function.function_type, 0)
    assert len(np.unique(every.elements)) == count
    (came_back,) = run_function(module, "f", [every], context)
    is_identity = np.array_equal(every.elements, came_back.elements)
    ElideRoundTripsPass().apply(context, module)
    verify(module)
    assert ("quant.dcast" not in names(module)) == is_identity
    ElideRoundTripsPass(changing=True).apply(context, module)
    assert names(module) == ["quant.scast", "quant.scast"]


@pytest.mark.parametrize(("type", "is_sunk"), [("f32", True), ("f16", False), ("f64", False)])
def test_a_pad_with_an_element_of_another_type_stays(type: str, *, is_sunk: bool) -> None:
    """Nothing verifies it where its dialect is not known; below the cast it would be another."""
    module, context = parse(f"""
    !q = !quant.uniform<i8:f32, 0.5:3>
    func.func @f(%x: tensor<2xf32>) -> tensor<3x!q> {{
      %c = "stablehlo.constant"() <{{value = dense<0.0> : tensor<{type}>}}> : () -> tensor<{type}>
      %p = "stablehlo.pad"(%x, %c) <{{edge_padding_low = array<i64: 0>,
        edge_padding_high = array<i64: 1>, interior_padding = array<i64: 0>}}>
        : (tensor<2xf32>, tensor<{type}>) -> tensor<3xf32>
      %q = quant.qcast %p : tensor<3xf32> to tensor<3x!q>
      return %q : tensor<3x!q>
    }}
    """)
    report = sink(module, context)
    assert [record.code for record in report.records] == [None if is_sunk else RefusalCode.PADDING]
