"""The memory of a run is counted and released, and repeated elements are computed once."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp

from qdialect.check.interpreters import (
    OpInterpretationError,
    TypedArray,
    run_function,
)
from qdialect.check.run_tool import parse_values
from qdialect.dialects.arrays.values import Slices, allocated, elementwise, repeated_axes
from qdialect.opt.registry import ToolContext
from qdialect.support.memory import MemoryLimitError, memory_budget
from qdialect.text.parser import LocatingParser

Array = NDArray[Any]

COUNT = 1 << 20


def parse(text: str) -> tuple[ModuleOp, ToolContext]:
    context = ToolContext()
    return LocatingParser(context, text, "test").parse_module(), context


def run(text: str, arguments: str = "") -> tuple[TypedArray, ...]:
    module, context = parse(text)
    return run_function(module, "f", parse_values(arguments, "arguments", context))


def test_an_array_is_counted_until_nothing_refers_to_it():
    with memory_budget(10 * COUNT) as opened:
        array = allocated(lambda: np.zeros(COUNT, np.int8), COUNT)
        part = array[::2].reshape(2, -1)
        del array
        assert opened.reserved == COUNT
        del part
        assert opened.reserved == 0


def test_a_view_of_an_operand_is_not_counted():
    with memory_budget(10 * COUNT) as opened:
        array = np.zeros(COUNT, np.int8)
        view = allocated(lambda: array.reshape(2, -1), COUNT, [array])
        assert opened.reserved == 0
        assert view.base is array


def test_what_fails_is_not_counted():
    def fail() -> Array:
        raise ZeroDivisionError

    with memory_budget(10 * COUNT) as opened:
        with pytest.raises(ZeroDivisionError):
            allocated(fail, COUNT)
        assert opened.reserved == 0
        with pytest.raises(MemoryLimitError):
            allocated(fail, 11 * COUNT)


@pytest.mark.parametrize(
    "shape", [(1 << 19,), (3, 1 << 18), (1 << 18, 3), (700, 1, 700), (2, 2, 1 << 17), (1 << 18, 1)]
)
def test_pieces_are_the_whole(shape: tuple[int, ...]):
    random = np.random.default_rng(0)
    one = random.integers(0, 100, shape)
    other = np.broadcast_to(random.integers(0, 100, shape[-1:]), shape)
    rows = np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1))

    def multiply(_: Slices, one: Array, other: Array) -> Array:
        return one * other

    def add_row(slices: Slices, of: Array) -> Array:
        return of + rows[slices[0]]

    integers = np.dtype(np.int64)
    assert (elementwise(multiply, [one, other], integers) == one * other).all()
    varying = [True, *[False] * (len(shape) - 1)]
    assert (elementwise(add_row, [other], integers, varying=varying) == other + rows).all()


def test_what_is_repeated_is_computed_once():
    calls: list[int] = []

    def count(_: Slices, of: Array) -> Array:
        calls.append(of.size)
        return of + 1

    column = np.broadcast_to(np.arange(5).reshape(5, 1), (5, 1 << 40))
    found = elementwise(count, [column], np.dtype(np.int64))
    assert calls == [5]
    assert found.shape == column.shape
    assert repeated_axes(found) == (False, True)
    assert found[:, 0].tolist() == [1, 2, 3, 4, 5]


def test_an_array_without_elements_has_no_pieces():
    empty = np.broadcast_to(np.zeros((), np.int8), (0, 1 << 40))

    def same(_: Slices, of: Array) -> Array:
        return of

    assert elementwise(same, [empty], np.dtype(np.int8)).shape == empty.shape


SPLATS = """
!q = !quant.uniform<i8:f32, 0.5>
!axis = !quant.uniform<i8:f32:1, {0.5,0.25}>
func.func @f(%x: tensor<2xf32>) -> (tensor<1099511627776x2xf32>, tensor<1099511627776x2x!axis>) {
  %0 = arith.constant dense<3.0> : tensor<2x1099511627776xf32>
  %1 = arith.mulf %0, %0 : tensor<2x1099511627776xf32>
  %2 = "tosa.transpose"(%1) <{perms = array<i32: 1, 0>}>
      : (tensor<2x1099511627776xf32>) -> tensor<1099511627776x2xf32>
  %3 = quant.qcast %2 : tensor<1099511627776x2xf32> to tensor<1099511627776x2x!axis>
  %4 = quant.dcast %3 : tensor<1099511627776x2x!axis> to tensor<1099511627776x2xf32>
  %init = tensor.empty() : tensor<1099511627776x2xf32>
  %5 = linalg.broadcast ins(%x : tensor<2xf32>) outs(%init : tensor<1099511627776x2xf32>)
      dimensions = [0]
  %6 = arith.addf %4, %5 : tensor<1099511627776x2xf32>
  return %6, %3 : tensor<1099511627776x2xf32>, tensor<1099511627776x2x!axis>
}
"""


def test_splats_and_repeated_rows_take_no_memory():
    module, context = parse(SPLATS)
    values = parse_values("dense<[1.0, 2.0]> : tensor<2xf32>", "arguments", context)
    with memory_budget(1 << 12):
        sums, codes = run_function(module, "f", values)
    rows = TypedArray(sums.elements[7:9], sums.element_type)
    assert rows.numbers.tolist() == [[10.0, 11.0]] * 2
    assert codes.elements[-1].tolist() == [18, 36]


LOOP = f"""
func.func @f(%x: tensor<{COUNT}xf32>) -> tensor<{COUNT}xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 30 : index
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%a = %x) -> (tensor<{COUNT}xf32>) {{
    %0 = "tosa.reverse"(%a) <{{axis = 0 : i32}}> : (tensor<{COUNT}xf32>) -> tensor<{COUNT}xf32>
    %1 = arith.addf %a, %0 : tensor<{COUNT}xf32>
    %2 = arith.addf %1, %0 : tensor<{COUNT}xf32>
    %3 = arith.addf %2, %1 : tensor<{COUNT}xf32>
    scf.yield %3 : tensor<{COUNT}xf32>
  }}
  return %r : tensor<{COUNT}xf32>
}}
"""

BRANCHES = f"""
func.func @f(%x: tensor<{COUNT}xf32>) -> tensor<{COUNT}xf32> {{
  %c1 = arith.constant 1 : index
  %n = arith.constant 30 : index
  cf.br ^loop(%x, %n : tensor<{COUNT}xf32>, index)
^loop(%a: tensor<{COUNT}xf32>, %left: index):
  %0 = arith.addf %a, %x : tensor<{COUNT}xf32>
  %less = arith.subi %left, %c1 : index
  %c0 = arith.constant 0 : index
  %go = arith.cmpi ne, %less, %c0 : index
  cf.cond_br %go, ^loop(%0, %less : tensor<{COUNT}xf32>, index), ^end
^end:
  return %0 : tensor<{COUNT}xf32>
}}
"""


@pytest.mark.parametrize("text", [LOOP, BRANCHES])
def test_a_loop_holds_no_more_than_its_last_rounds(text: str):
    module, _ = parse(text)
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    type = function.function_type.inputs.data[0]
    bits = np.arange(COUNT, dtype=np.uint32) & np.uint32(0x3FFFFFFF)
    argument = TypedArray.of(bits, type)
    with memory_budget(5 * argument.elements.nbytes) as opened:
        (result,) = run_function(module, "f", [argument])
        assert result.shape == (COUNT,)
        del result
        gc.collect()
        assert opened.reserved == 0


def test_what_is_too_large_is_refused_where_it_is_made():
    text = """
    func.func @f(%x: tensor<64xi8>) -> tensor<64xi8> {
      %0 = tensor.empty() : tensor<64x100000xi8>
      %1 = linalg.broadcast ins(%x : tensor<64xi8>) outs(%0 : tensor<64x100000xi8>) dimensions = [1]
      %2 = arith.addi %1, %1 : tensor<64x100000xi8>
      %3 = tensor.collapse_shape %2 [[0, 1]] : tensor<64x100000xi8> into tensor<6400000xi8>
      return %x : tensor<64xi8>
    }
    """
    with memory_budget(1 << 20), pytest.raises(OpInterpretationError) as raised:
        run(text, "dense<[" + ", ".join(map(str, range(64))) + "]> : tensor<64xi8>")
    assert "'tensor.collapse_shape' op is not run: it would take 6400000 more bytes" in str(
        raised.value
    )


def test_a_constant_that_no_array_can_hold_is_an_error():
    type = f"tensor<{1 << 62}x!quant.uniform<i8:f32, 0.5>>"
    text = f"""
    func.func @f() {{
      %0 = quant.constant dense<3> : {type}
      return
    }}
    """
    with pytest.raises(OpInterpretationError, match=r"'quant.constant' .* a tensor of shape"):
        run(text)


def test_steps_are_counted_over_calls_and_regions():
    text = """
    func.func @g() { return }
    func.func @f() {
      func.call @g() : () -> ()
      return
    }
    """
    module, _ = parse(text)
    assert run_function(module, "f", max_steps=3) == ()
    with pytest.raises(OpInterpretationError, match=r"'func.return' op .* 2 steps .*--max-steps"):
        run_function(module, "f", max_steps=2)


ITERATED = """
func.func @f(%x: {type}) -> {type} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 1000000 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> ({type}) {{
    %t = {op}
    scf.yield %t : {type}
  }}
  return %r : {type}
}}
"""


@pytest.mark.parametrize(
    ("op", "shape", "what"),
    [
        ("arith.addf %a, %x : {type}", "65536", r"65536 elements take 16 steps"),
        (
            "linalg.matmul ins(%a, %x : {type}, {type}) outs(%x : {type}) -> {type}",
            "128x128",
            r"2097152 products take 8 steps",
        ),
        (
            '"tosa.max_pool2d"(%a) <{{kernel = array<i64: 9, 9>, pad = array<i64: 4, 4, 4, 4>, '
            "stride = array<i64: 1, 1>}}> : ({type}) -> {type}",
            "1x16x16x16",
            r"5308416 products take 20 steps",
        ),
    ],
)
def test_large_ops_take_many_steps(op: str, shape: str, what: str):
    type = f"tensor<{shape}xf32>"
    module, _ = parse(ITERATED.format(type=type, op=op.format(type=type)))
    lengths = [int(length) for length in shape.split("x")]
    given = TypedArray.of_numbers(np.ones(lengths), TensorType(f32, lengths))
    name = op.split()[0].strip('"').split('"')[0]
    with pytest.raises(OpInterpretationError, match=f"'{name}' op .* {what}.*--max-steps"):
        run_function(module, "f", [given], max_steps=10)


@pytest.mark.parametrize("rank", [33, 64])
def test_values_of_many_axes(rank: int):
    """numpy broadcasts fewer axes than it has."""
    type = f"tensor<{'1x' * rank}f32>"
    value = f"dense<1.0> : {type}"
    text = f"func.func @f(%x: {type}) -> {type} {{\n"
    text += f"  %0 = arith.addf %x, %x : {type}\n  return %0 : {type}\n}}"
    (result,) = run(text, value)
    assert str(result) == f"dense<2.000000e+00> : {type}"
