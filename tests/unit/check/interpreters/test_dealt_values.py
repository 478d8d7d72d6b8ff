"""Sets of arguments that cover the values of their types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters import (
    DealtArguments,
    TypedArray,
    interesting_numbers,
    run_function,
)
from qdialect.opt.registry import ToolContext
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.text.parser import LocatingParser


def parse(text: str) -> ModuleOp:
    return LocatingParser(ToolContext(), text, "test").parse_module()


def types_of(arguments: str) -> FunctionType:
    (function,) = parse(f"func.func private @f({arguments})").ops
    assert isinstance(function, FuncOp)
    return function.function_type


def dealt(arguments: str, interesting: Sequence[float] = ()) -> DealtArguments:
    return DealtArguments(types_of(arguments), interesting=interesting)


def numbers_of(sets: DealtArguments, argument: int = 0) -> list[float]:
    if sets.is_exhaustive:
        return all_of(sets)[argument].numbers.reshape(-1).tolist()
    return [number for of in sets for number in of[argument].numbers.reshape(-1).tolist()]


def all_of(sets: DealtArguments) -> tuple[TypedArray, ...]:
    """All combinations, along a new first axis."""
    return sets.combinations(np.arange(len(sets)))


@pytest.mark.parametrize(
    ("arguments", "values", "size"),
    [
        ("i8", range(-128, 128), 1),
        ("ui8", range(256), 1),
        ("!quant.uniform<u4<2:9>:f32, 0.5>", range(2, 10), 1),
        ("tensor<2x2xi2>", range(-2, 2), 4),
        ("tensor<2x!quant.uniform<i3:f32, 0.5>>", range(-4, 4), 2),
        ("tensor<0xi8>", range(1), 0),
    ],
)
def test_all_combinations_of_few_values_are_there(arguments: str, values: range, size: int):
    sets = dealt(arguments)
    assert sets.is_exhaustive
    found = [tuple(value.numbers.reshape(-1).tolist()) for (value,) in sets]
    assert sorted(found) == sorted(product(values, repeat=size))


def test_all_combinations_of_several_arguments_are_there():
    sets = dealt("i1, tensor<2xi2>")
    found = {(bool(one), *other.numbers.tolist()) for one, other in sets}
    assert sets.is_exhaustive
    assert found == set(product((False, True), range(-2, 2), range(-2, 2)))


def test_all_bits_of_short_floats_are_there():
    for type, count in (("f8E4M3FN", 1 << 8), ("f16", 1 << 16)):
        sets = dealt(type)
        assert sets.is_exhaustive
        assert set(all_of(sets)[0].elements.tolist()) == set(range(count))


def test_a_function_without_arguments_has_one_set():
    sets = dealt("")
    assert sets.is_exhaustive
    assert list(sets) == [()]


@pytest.mark.parametrize("arguments", ["i32", "tensor<?xi1>", "tensor<17xi1>", "index"])
def test_more_values_are_not_exhaustive(arguments: str):
    assert not dealt(arguments).is_exhaustive


def test_the_combinations_and_the_sets_are_bounded():
    types = types_of("i8, f32")
    assert not DealtArguments(types_of("i8"), max_combinations=255).is_exhaustive
    for most in (1, 2, 7, 100):
        sets = DealtArguments(types, max_sets=most)
        assert len(list(sets)) == len(sets) == most


@pytest.mark.parametrize(
    "type",
    [
        "tensor<64x!quant.uniform<i8:f32, 0.5>>",
        "tensor<64x4x!quant.uniform<u8:f32:1, {0.5,0.25,1.0,2.0}>>",
        "tensor<3x4x!quant.uniform<i8<-7:100>:f32:{0:1,1:2}, {{0.5,1.0},{0.5,0.1},{2.0,4.0}}>>",
        "tensor<1000xi8>",
    ],
)
def test_every_slot_reads_every_code(type: str):
    sets = dealt(type)
    (shape,) = {value.shape for (value,) in sets}
    if "quant" in type:
        slots = sets[0][0].parameters
        ends = [slots.axis_slots(axis) for axis in range(len(shape))]
        slot = np.zeros(shape, dtype=np.int64)
        for axis, of in enumerate(ends):
            slot = slot * len(slots.ends[axis]) + of.reshape([-1] + [1] * (len(shape) - axis - 1))
    else:
        slot = np.zeros(shape, dtype=np.int64)
    codes = np.stack([value.numbers for (value,) in sets])
    expected = set(codes.reshape(-1).tolist())
    assert len(expected) == {"<-7:100>": 108}.get(type[type.find("<-7") : type.find(":f32")], 256)
    for number in range(int(slot.max()) + 1):
        assert set(codes[:, slot == number].reshape(-1).tolist()) == expected


def test_few_sets_are_enough_for_many_elements():
    # Four take all codes at each position, and sixteen are mild.
    assert len(dealt("tensor<64x!quant.uniform<i8:f32, 0.5>>")) == 20


@pytest.mark.parametrize(
    ("type", "zero", "size"),
    [
        ("f32", 0.0, 4.0),
        ("f8E4M3FN", 0.0, 4.0),
        ("i32", 0, 8),
        ("!quant.uniform<i8:f32, 0.5:-126>", -126, 8),
        ("!quant.uniform<u16:f32, 0.5:7>", 7, 8),
    ],
)
def test_some_sets_are_small_numbers_of_both_signs(type: str, zero: float, size: float):
    sets = [value.numbers.reshape(-1) - zero for (value,) in dealt(f"tensor<64x{type}>")]
    mild = [of for of in sets if np.all(np.abs(of) <= size) and (of < 0).any()]
    assert len(mild) == 16
    # Each second set is one, so that some are run however few are.
    assert all(np.all(np.abs(numbers) <= size) for numbers in sets[1:8:2])
    assert all((numbers > 0).any() for numbers in mild)
    assert sum(np.count_nonzero(numbers == 0) > 32 for numbers in mild) == 8


def test_no_two_elements_are_always_equal():
    sets = dealt("tensor<32x32xf32>")
    columns = np.stack([value.elements.reshape(-1) for (value,) in sets], axis=1)
    assert len(np.unique(columns, axis=0)) == len(columns)


@pytest.mark.parametrize("type", ["f32", "bf16", "f64", "tf32", "tensor<8xf32>", "tensor<?xf32>"])
def test_floats_have_the_edges(type: str):
    known = FLOAT_FORMATS[type.split("x")[-1].rstrip(">")]
    numbers = np.array(numbers_of(dealt(type)))
    least_normal = math.ldexp(known.smallest, known.precision - 1)
    edges = [0.0, known.smallest, least_normal, known.largest, math.inf, 0.5, 1.5, 2.5, 127.5]
    for edge in (*edges, least_normal - known.smallest):
        assert edge in numbers
        assert -edge in numbers
    zeros = numbers[numbers == 0.0]
    assert set(np.signbit(zeros).tolist()) == {True, False}
    assert np.isnan(numbers).any()


def test_integers_have_the_ends_and_powers():
    for type, least, greatest in (
        ("i32", -(2**31), 2**31 - 1),
        ("i64", -(2**63), 2**63 - 1),
        ("ui32", 0, 2**32 - 1),
        ("tensor<3x!quant.uniform<i16<-1000:2000>:f32, 0.5:7>>", -1000, 2000),
    ):
        numbers = set(numbers_of(dealt(type)))
        near = {power + step for power in (1, 128, 256, 1 << 15) for step in (-1, 0, 1)}
        expected = {least, greatest, least + 1, greatest - 1, 0, -1, 1, *near}
        assert {number for number in expected if least <= number <= greatest} <= numbers
        assert min(numbers) == least
        assert max(numbers) == greatest


@pytest.mark.parametrize(
    ("type", "given", "expected"),
    [
        ("i32", 12345, [12344, 12345, 12346]),
        ("i32", 12345.5, [12345, 12346]),
        ("index", 77, [76, 77, 78]),
        ("f32", 12345.0, [12345.0, 12345.0 + 2.0**-10, 12345.0 - 2.0**-10]),
        ("tensor<4xf16>", 9.0, [9.0, 9.0 + 2.0**-7, 9.0 - 2.0**-7]),
    ],
)
def test_numbers_of_the_caller_are_there_with_neighbours(
    type: str, given: float, expected: list[float]
):
    assert set(expected) <= set(numbers_of(dealt(type, [given])))


def test_lengths_are_equal_and_different_in_turn():
    sets = dealt("tensor<?x?xi8>, tensor<?xi8>")
    lengths = [{*one.shape, *other.shape} for one, other in sets]
    # Sets 1 and 3 are mild.
    assert {1, 3} <= {len(of) for of in lengths[:3:2]}
    assert any(one.shape != one.shape[::-1] for one, _ in sets)
    for kind in (1, 3):
        taken = {
            number
            for of, here in zip(sets, lengths, strict=True)
            for number in of[0].numbers.reshape(-1).tolist()
            if len(here) == kind
        }
        assert taken == set(range(-128, 128))


def test_different_lengths_stay_small():
    sets = dealt(f"tensor<{'?x' * 20}i8>")
    assert max(value.elements.size for (value,) in sets if len(set(value.shape)) > 1) <= 1 << 12


def test_arguments_of_one_type_are_equal_in_some_sets():
    for type in ("i32", "tensor<4xf32>"):
        sets = dealt(f"{type}, {type}")
        same = [np.array_equal(one.elements, other.elements) for one, other in sets]
        assert any(same)
        assert not all(same)


def test_some_sets_are_tame():
    sets = dealt("tensor<64xf32>, tensor<64xi32>")
    tame = [
        floats
        for floats, integers in sets
        if np.isfinite(floats.numbers).all() and floats.numbers.all() and integers.numbers.all()
    ]
    assert tame


def test_the_sets_are_always_the_same():
    one, other = dealt("tensor<?x5xf32>, i64"), dealt("tensor<?x5xf32>, i64")
    for olds, news in zip(one, other, strict=True):
        for old, new in zip(olds, news, strict=True):
            assert old.type == new.type
            assert old.elements.tobytes() == new.elements.tobytes()
    assert one[-1][0].elements.tobytes() == list(one)[-1][0].elements.tobytes()


def test_types_without_values_are_refused():
    for type in ("tensor<2xf128>", "memref<2xi8>", "complex<f32>"):
        with pytest.raises(InterpretationError):
            dealt(type)


def test_interesting_numbers_are_those_that_occur():
    module = parse("""
    !q = !quant.uniform<i8<-100:100>:f32, 0.5:10>
    func.func @f(%x: tensor<2xf32>) -> tensor<2x!q> {
      %0 = arith.constant 77 : i32
      %1 = arith.constant dense<[1.5, -3.0]> : tensor<2xf32>
      %2 = arith.addf %x, %1 : tensor<2xf32>
      %3 = quant.qcast %2 : tensor<2xf32> to tensor<2x!q>
      return %3 : tensor<2x!q>
    }""")
    assert {77, 1.5, -3.0, -55.0, -55.25, -54.75, 0.0, 45.0, 45.25} <= {
        *interesting_numbers([module])
    }


Result = Callable[[str], str]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # What one number in a million does, and one code, and only NaN.
        (
            "(%x: i32) -> i1 { %c = arith.constant 77777 : i32\n"
            "%0 = arith.cmpi eq, %x, %c : i32\n return %0 : i1 }",
            "(%x: i32) -> i1 { %c = arith.constant 77778 : i32\n"
            "%0 = arith.cmpi eq, %x, %c : i32\n return %0 : i1 }",
        ),
        (
            "(%x: f32, %y: f32) -> i1 { %0 = arith.cmpf ogt, %x, %y : f32\n return %0 : i1 }",
            "(%x: f32, %y: f32) -> i1 { %0 = arith.cmpf ugt, %x, %y : f32\n return %0 : i1 }",
        ),
        (
            "(%x: f32, %y: f32) -> i1 { %0 = arith.cmpf ogt, %x, %y : f32\n return %0 : i1 }",
            "(%x: f32, %y: f32) -> i1 { %0 = arith.cmpf oge, %x, %y : f32\n return %0 : i1 }",
        ),
        (
            "(%x: f32) -> !quant.uniform<i8:f32, 0.5> {\n"
            "%0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 0.5>\n"
            "return %0 : !quant.uniform<i8:f32, 0.5> }",
            "(%x: f32) -> !quant.uniform<i8:f32, 0.5> {\n"
            "%0 = quant.qcast %x : f32 to !quant.uniform<i8<-127:127>:f32, 0.5>\n"
            "%1 = quant.scast %0 : !quant.uniform<i8<-127:127>:f32, 0.5> to i8\n"
            "%2 = quant.scast %1 : i8 to !quant.uniform<i8:f32, 0.5>\n"
            "return %2 : !quant.uniform<i8:f32, 0.5> }",
        ),
        (
            "(%x: tensor<?x?xf32>) -> index { %c = arith.constant 0 : index\n"
            "%0 = tensor.dim %x, %c : tensor<?x?xf32>\n return %0 : index }",
            "(%x: tensor<?x?xf32>) -> index { %c = arith.constant 1 : index\n"
            "%0 = tensor.dim %x, %c : tensor<?x?xf32>\n return %0 : index }",
        ),
        (
            "(%x: tensor<?xf32>, %y: tensor<?xf32>) -> index { %c = arith.constant 0 : index\n"
            "%0 = tensor.dim %x, %c : tensor<?xf32>\n return %0 : index }",
            "(%x: tensor<?xf32>, %y: tensor<?xf32>) -> index { %c = arith.constant 0 : index\n"
            "%0 = tensor.dim %y, %c : tensor<?xf32>\n return %0 : index }",
        ),
    ],
)
def test_functions_that_differ_do_so_on_a_set(before: str, after: str):
    old, new = (parse(f"func.func @f{text}") for text in (before, after))
    (function,) = old.ops
    assert isinstance(function, FuncOp)
    numbers = interesting_numbers([old, new])

    def differs(arguments: Sequence[TypedArray]) -> bool:
        results = [run_function(module, "f", arguments)[0] for module in (old, new)]
        return results[0].elements.tobytes() != results[1].elements.tobytes()

    assert any(map(differs, DealtArguments(function.function_type, interesting=numbers)))
