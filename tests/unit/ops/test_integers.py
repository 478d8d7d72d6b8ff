"""Integers that parametrize an op are read in their own type, or the op is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from folded_modules import fold, op_of, owner, parse, returned, stored
from xdsl.dialects.builtin import IntegerType, Signedness, i1, i8

from qdialect.algebra.views import Splat
from qdialect.check.interpreters import run_function
from qdialect.ops.interface import Refusal, RefusalCode, integers_in

pytestmark = pytest.mark.usefixtures("without_plugins")


def gather_text(
    shape: tuple[int, ...],
    indices: np.ndarray,
    index_type: str,
    numbers: str,
    sizes: tuple[int, ...],
    result: tuple[int, ...],
) -> str:
    def tensor(lengths: tuple[int, ...], element: str) -> str:
        return f"tensor<{''.join(f'{length}x' for length in lengths)}{element}>"

    elements = np.arange(np.prod(shape)).reshape(shape).tolist()
    types = tensor(shape, "i32"), tensor(indices.shape, index_type), tensor(result, "i32")
    return f"""
    func.func @f() -> {types[2]} {{
      %t = "stablehlo.constant"() <{{value = dense<{elements}> : {types[0]}}}> : () -> {types[0]}
      %i = "stablehlo.constant"() <{{value = dense<{indices.tolist()}> : {types[1]}}}>
        : () -> {types[1]}
      %g = "stablehlo.gather"(%t, %i) <{{dimension_numbers = #stablehlo.gather<{numbers}>,
        slice_sizes = array<i64: {", ".join(map(str, sizes))}>, indices_are_sorted = false}}>
        : ({types[0]}, {types[1]}) -> {types[2]}
      return %g : {types[2]}
    }}
    """


def gathered(
    shape: tuple[int, ...],
    indices: np.ndarray,
    sizes: tuple[int, ...],
    result: tuple[int, ...],
    *,
    offset: tuple[int, ...],
    collapsed: tuple[int, ...] = (),
    batching: tuple[int, ...] = (),
    indices_batching: tuple[int, ...] = (),
    starts: tuple[int, ...],
    axis: int,
) -> list[object]:
    """The elements as https://openxla.org/stablehlo/spec#gather defines them, one by one."""
    operand = np.arange(np.prod(shape)).reshape(shape)
    vectors = indices[..., np.newaxis] if axis == indices.ndim else np.moveaxis(indices, axis, -1)
    batch_axes = [at for at in range(len(result)) if at not in offset]
    found = np.zeros(result, dtype=np.int64)
    for index in product(*map(range, result)):
        batch = tuple(index[at] for at in batch_axes)
        vector = vectors[batch].tolist()
        full = [0] * len(shape)
        for number, at in enumerate(starts):
            full[at] = min(max(vector[number], 0), shape[at] - sizes[at])
        in_indices = list(batch)
        in_indices.insert(axis, 0)
        for at, of in zip(batching, indices_batching, strict=True):
            full[at] += in_indices[of]
        window = [at for at in range(len(shape)) if at not in (*collapsed, *batching)]
        for at, place in zip(window, offset, strict=True):
            full[at] += index[place]
        found[index] = operand[tuple(full)]
    return found.tolist()


LARGE = 2**64 - 1

GATHERS: dict[str, tuple[Any, ...]] = {
    "unsigned indices beyond the range of int64": (
        (3, 2), np.array([LARGE, 0, 2**63], dtype=np.uint64), "ui64", (1, 2), (3, 2),
        {"offset": (1,), "collapsed": (0,), "starts": (0,), "axis": 1},
    ),
    "indices that are bytes above 127": (
        (200, 1), np.array([199, 130, 255], dtype=np.uint8), "ui8", (1, 1), (3, 1),
        {"offset": (1,), "collapsed": (0,), "starts": (0,), "axis": 1},
    ),
    "negative indices": (
        (3, 2), np.array([-1, 5, 1]), "i8", (1, 2), (3, 2),
        {"offset": (1,), "collapsed": (0,), "starts": (0,), "axis": 1},
    ),
    "another axis of one position is collapsed": (
        (3, 1, 2), np.array([2, 0]), "i32", (1, 1, 2), (2, 2),
        {"offset": (1,), "collapsed": (0, 1), "starts": (0,), "axis": 1},
    ),
    "an axis before the taken one is collapsed": (
        (1, 3, 2), np.array([2, 0]), "i32", (1, 1, 2), (2, 2),
        {"offset": (0,), "collapsed": (0, 1), "starts": (1,), "axis": 1},
    ),
    "nothing is collapsed": (
        (2, 3, 2), np.array([[2], [0], [1]]), "i64", (2, 1, 2), (2, 3, 1, 2),
        {"offset": (0, 2, 3), "starts": (1,), "axis": 1},
    ),
    "indices of two axes": (
        (2, 3), np.array([[2, 0], [1, 1], [0, 2]]), "i64", (2, 1), (3, 2, 2),
        {"offset": (1,), "collapsed": (1,), "starts": (1,), "axis": 2},
    ),
    "vectors of indices, of which one says nothing": (
        (3, 1, 2), np.array([[7, 2], [-3, 0]]), "i32", (1, 1, 2), (2, 2),
        {"offset": (1,), "collapsed": (0, 1), "starts": (1, 0), "axis": 1},
    ),
    "vectors of indices on the first axis": (
        (3, 2), np.array([[2, 0, 1], [9, 9, 9]]), "i32", (1, 2), (3, 2),
        {"offset": (1,), "collapsed": (0,), "starts": (0, 1), "axis": 0},
    ),
    "all slices are whole": (
        (3, 2), np.array([4, 7]), "i32", (3, 2), (3, 2, 2),
        {"offset": (0, 2), "starts": (1,), "axis": 1},
    ),
    "a batching axis of one position": (
        (1, 3, 2), np.array([[2, 0]]), "i32", (1, 1, 2), (1, 2, 2),
        {
            "offset": (2,), "collapsed": (1,), "batching": (0,), "indices_batching": (0,),
            "starts": (1,), "axis": 2,
        },
    ),
    "one index without axes": (
        (3, 2), np.array(1), "i32", (1, 2), (2,),
        {"offset": (0,), "collapsed": (0,), "starts": (0,), "axis": 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GATHERS)
def test_a_gather_along_one_axis_is_read(name: str) -> None:
    shape, indices, index_type, sizes, result, fields = GATHERS[name]
    names = {
        "offset": "offset_dims",
        "collapsed": "collapsed_slice_dims",
        "batching": "operand_batching_dims",
        "indices_batching": "start_indices_batching_dims",
        "starts": "start_index_map",
    }
    numbers = ", ".join(
        f"{names[field]} = {list(of)}" for field, of in fields.items() if field != "axis"
    )
    text = gather_text(
        shape, indices, index_type, f"{numbers}, index_vector_dim = {fields['axis']}", sizes, result
    )
    expected = gathered(shape, indices, sizes, result, **fields)
    module, _ = fold(text, verify="values", max_repetition=1 << 20)
    assert stored(owner(returned(module)[0]), result).tolist() == expected
    (ran,) = run_function(parse(text)[0], "f")
    assert ran.numbers.tolist() == expected


VALID = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"


@pytest.mark.parametrize(
    "numbers",
    [
        f"{VALID}, aaaa",
        f"{VALID}, aaaa = [1]",
        f"{VALID}, aaaa = 1",
        f"{VALID}, offset_dims = [1]",
        f"{VALID},",
        f'{VALID}, "offset_dims"',
        "offset_dims = 1, collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1",
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0, 0]",
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0]",
        "offset_dims = [0, 1], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 1",
        "offset_dims = [1], collapsed_slice_dims = [9], start_index_map = [0], "
        "index_vector_dim = 1",
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 9",
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [9], "
        "index_vector_dim = 1",
    ],
)
def test_other_dimension_numbers_are_refused(numbers: str) -> None:
    text = gather_text((3, 2), np.array([2, 0]), "i64", numbers, (1, 2), (2, 2))
    module, report = fold(text)
    assert op_of(module, "stablehlo.gather")
    assert [record.code for record in report.records] == [RefusalCode.UNKNOWN_OP]


@pytest.mark.parametrize(
    "numbers", ["a" * 200_000, "offset_dims = [1], " * 20_000, f"a = [{'1, ' * 50_000}]"]
)
def test_a_long_text_is_read_in_linear_time(numbers: str) -> None:
    """Without a limit of time: what is not linear does not end."""
    text = gather_text((3, 2), np.array([2, 0]), "i64", numbers, (1, 2), (2, 2))
    _, report = fold(text)
    assert [record.code for record in report.records] == [RefusalCode.UNKNOWN_OP]


TOSA_GATHER = """
func.func @f() -> tensor<2x2x1xi8> {{
  %t = "tosa.const"() <{{values = dense<[[[1], [2]], [[3], [4]]]> : tensor<2x2x1xi8>}}>
    : () -> tensor<2x2x1xi8>
  %i = "tosa.const"() <{{values = dense<{indices}> : tensor<2x2xi32>}}> : () -> tensor<2x2xi32>
  %g = "tosa.gather"(%t, %i) : (tensor<2x2x1xi8>, tensor<2x2xi32>) -> tensor<2x2x1xi8>
  return %g : tensor<2x2x1xi8>
}}
"""


@pytest.mark.parametrize("indices", [[[0, 2], [0, 0]], [[0, 0], [-1, 0]], [[0, 2], [0, 2]]])
def test_an_index_of_one_batch_is_no_row_of_another(indices: list[list[int]]) -> None:
    module, report = fold(TOSA_GATHER.format(indices=indices))
    assert op_of(module, "tosa.gather")
    assert [record.code for record in report.records] == [RefusalCode.UNKNOWN_OP]


def test_a_gather_of_tosa_takes_of_each_batch() -> None:
    module, _ = fold(TOSA_GATHER.format(indices=[[1, 0], [0, 0]]), verify="values")
    constant = owner(returned(module)[0])
    assert stored(constant, (2, 2, 1)).tolist() == [[[2], [1]], [[3], [3]]]


INDICES_OF = """
func.func @f() -> tensor<1x2xi8> {{
  %t = "stablehlo.constant"() <{{value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}}>
    : () -> tensor<2x2xi8>
  %i = "stablehlo.constant"() <{{value = dense<{element}> : tensor<1x{held}>}}>
    : () -> tensor<1x{type}>
  %g = "stablehlo.gather"(%t, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 2>}}> : (tensor<2x2xi8>, tensor<1x{type}>) -> tensor<1x2xi8>
  return %g : tensor<1x2xi8>
}}
"""


@pytest.mark.parametrize(
    ("element", "held", "type"),
    [
        ("1.0", "f32", "f32"),
        ("true", "i1", "i1"),
        ("1", "i8", "!quant.uniform<i8:f32, 0.5>"),
        ("1", "i32", "i8"),
        ("200", "ui8", "i8"),
    ],
)
def test_what_is_no_integer_says_no_position(element: str, held: str, type: str) -> None:
    module, report = fold(INDICES_OF.format(element=element, held=held, type=type))
    assert op_of(module, "stablehlo.gather")
    assert [record.code for record in report.records] == [RefusalCode.UNKNOWN_OP]


def test_integers_are_read_in_their_own_type() -> None:
    unsigned = IntegerType(64, Signedness.UNSIGNED)
    read = integers_in(np.array([1, LARGE], dtype=np.uint64), unsigned)
    assert read.tolist() == [1, LARGE]
    assert integers_in(np.array([1], dtype=np.uint64), unsigned).dtype == np.int64
    assert integers_in(Splat(np.uint64(LARGE), (2,)), unsigned).tolist() == [LARGE, LARGE]
    assert integers_in(np.array([-1], dtype=np.int8), i8).tolist() == [-1]
    for values, type in ((np.array([1], dtype=np.int8), i1), (np.array([1], dtype=np.uint8), i8)):
        with pytest.raises(Refusal):
            integers_in(values, type)


@pytest.mark.parametrize(
    "attribute",
    ["array<f32: 1.0, 0.0>", "[1 : i64, \"0\"]", "[true, false]", "array<i1: true, false>",
     "dense<[1.0, 0.0]> : tensor<2xf32>"],
)  # fmt: skip
def test_an_array_of_other_things_is_refused(attribute: str) -> None:
    text = f"""
    func.func @f() -> tensor<2x2xi8> {{
      %t = "stablehlo.constant"() <{{value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}}>
        : () -> tensor<2x2xi8>
      %0 = "stablehlo.transpose"(%t) <{{permutation = {attribute}}}>
        : (tensor<2x2xi8>) -> tensor<2x2xi8>
      return %0 : tensor<2x2xi8>
    }}
    """
    module, report = fold(text)
    assert op_of(module, "stablehlo.transpose")
    assert [record.code for record in report.records] == [RefusalCode.UNKNOWN_OP]
