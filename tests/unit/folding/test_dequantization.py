"""
Accepted dequantization by arithmetic has the meaning of `quant.dcast`, bit for bit.

Terms are evaluated with numpy, op by op, each in its own type.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    FloatAttr,
    IntegerType,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute

from qdialect.folding.dequantization import Dequantization, Leaf, recognize
from qdialect.ops.fields import Apply, Arithmetic, Input, Scalar, Term
from qdialect.ops.interface import Refusal

_A = Arithmetic
FLOATS = {f16: np.float16, f32: np.float32, f64: np.float64}
INTEGERS = (i8, i16, i32, i64)


def apply(arithmetic: Arithmetic, type: Attribute, *operands: Term) -> Apply:
    """A scalar op of terms."""
    return Apply(arithmetic, operands, type)


def leaf(type: Attribute, numbers: object) -> Leaf:
    """A leaf of these numbers."""
    array = np.asarray(numbers)
    return Leaf(type, lambda: array)


def evaluate(term: Term, numbers: dict[int, Any]) -> NDArray[Any]:
    """The term with numpy, op by op."""
    if isinstance(term, Input):
        return np.asarray(numbers[term.number])
    if isinstance(term, Scalar):
        return np.asarray(term.attribute.value.data)
    values = [evaluate(operand, numbers) for operand in term.operands]
    if isinstance(term.type, IntegerType):
        dtype = np.dtype(f"i{cast(IntegerType, term.type).bitwidth // 8}")
    else:
        dtype = np.dtype(FLOATS[term.type])  # pyright: ignore[reportArgumentType]
    source = term.operands[0].type
    match term.arithmetic:
        case _A.ZERO_EXTEND | _A.UNSIGNED_TO_FLOAT:
            assert isinstance(source, IntegerType)
            return values[0].astype(f"u{cast(IntegerType, source).bitwidth // 8}").astype(dtype)
        case _A.SUBTRACT:
            return (values[0].astype(dtype) - values[1].astype(dtype)).astype(dtype)
        case _A.MULTIPLY:
            return (values[0].astype(dtype) * values[1].astype(dtype)).astype(dtype)
        case _A.ADD:
            return (values[0].astype(dtype) + values[1].astype(dtype)).astype(dtype)
        case _:
            return values[0].astype(dtype)


@st.composite
def dequantizations(draw: st.DrawFn) -> tuple[Term, dict[int, Any], list[Leaf], Attribute]:
    """A term that subtracts and multiplies, in some order of conversions."""
    stored, wide = draw(st.sampled_from(INTEGERS[:3])), draw(st.sampled_from(INTEGERS))
    expressed = draw(st.sampled_from(tuple(FLOATS)))
    half = 1 << (stored.bitwidth - 1)
    integers = st.integers(-half, half - 1)
    numbers = [*draw(st.lists(integers, min_size=1, max_size=4)), -half, half - 1]
    zero_point = draw(st.sampled_from([0, 1, -1, 3, half - 1, -half]) | integers)
    scale = draw(st.floats(2.0**-10, 8.0, width=16))
    is_signed = draw(st.booleans())
    to_float = _A.SIGNED_TO_FLOAT if is_signed else _A.UNSIGNED_TO_FLOAT
    extend = _A.SIGN_EXTEND if is_signed else _A.ZERO_EXTEND
    dtype = np.dtype(f"i{stored.bitwidth // 8}")
    inputs: dict[int, Any] = {0: np.asarray(numbers, dtype), 2: FLOATS[expressed](scale)}
    if draw(st.booleans()):
        value = apply(to_float, expressed, Input(0, stored))
        inputs[1] = FLOATS[expressed](zero_point)
        assume(np.isfinite(inputs[1]))
        value = apply(_A.SUBTRACT, expressed, value, Input(1, expressed))
        zero_leaf = leaf(expressed, inputs[1].astype(np.float64))
    else:
        assume(wide.bitwidth >= stored.bitwidth)
        inputs[1] = np.asarray(zero_point).astype(f"i{wide.bitwidth // 8}")
        zero_leaf = leaf(wide, inputs[1].astype(np.int64))
        value = Input(0, stored)
        if wide.bitwidth > stored.bitwidth:
            value = apply(extend, wide, value)
        value = apply(_A.SUBTRACT, wide, value, Input(1, wide))
        value = apply(_A.SIGNED_TO_FLOAT, expressed, value)
    factors = [value, Input(2, expressed)]
    if draw(st.booleans()):
        factors.reverse()
    leaves = [leaf(stored, inputs[0].astype(np.int64)), zero_leaf, leaf(expressed, float(scale))]
    return apply(_A.MULTIPLY, expressed, *factors), inputs, leaves, expressed


@given(dequantizations())
def test_what_is_accepted_is_a_dequantizing_cast(
    drawn: tuple[Term, dict[int, Any], list[Leaf], Attribute],
):
    term, inputs, leaves, expressed = drawn
    try:
        found = recognize(term, leaves)
    except Refusal:
        assume(False)
        return
    stored = inputs[0]
    if not found.is_signed:
        stored = stored.view(f"u{stored.itemsize}")
    integers = [int(number) for number in stored]
    differences = [number - int(inputs[1]) for number in integers]
    dtype = FLOATS[expressed]  # pyright: ignore[reportArgumentType]
    with np.errstate(all="ignore"):
        wanted = np.asarray([dtype(number) for number in differences], dtype) * inputs[2]
        got = evaluate(term, inputs)
    assert got.dtype == wanted.dtype
    assert got.tobytes() == wanted.tobytes()


STORED = Input(0, i8)
FLOAT = apply(_A.SIGNED_TO_FLOAT, f32, STORED)
SCALE = Input(1, f32)
SCALES = leaf(f32, [0.5, 0.25])
WEIGHT = leaf(i8, [-128, 5, 127])
NARROW = apply(_A.SUBTRACT, i8, STORED, Input(1, i8))


def without_terms(found: Dequantization) -> Dequantization:
    return found._replace(zero_point_term=None, scale_term=None)


@pytest.mark.parametrize(
    ("term", "leaves", "found"),
    [
        (FLOAT, [WEIGHT], Dequantization(0, True)),
        (apply(_A.MULTIPLY, f32, FLOAT, SCALE), [WEIGHT, SCALES], Dequantization(0, True, None, 1)),
        (apply(_A.MULTIPLY, f32, SCALE, FLOAT), [WEIGHT, SCALES], Dequantization(0, True, None, 1)),
        (
            apply(_A.TRUNCATE_FLOAT, f16, apply(_A.MULTIPLY, f32, FLOAT, SCALE)),
            [WEIGHT, SCALES],
            Dequantization(0, True, None, 1),
        ),
        (
            apply(
                _A.MULTIPLY,
                f32,
                apply(_A.UNSIGNED_TO_FLOAT, f32, STORED),
                apply(_A.EXTEND_FLOAT, f32, Input(1, f16)),
            ),
            [WEIGHT, leaf(f16, [0.5])],
            Dequantization(0, False, None, 1),
        ),
        (
            apply(_A.SUBTRACT, f32, FLOAT, apply(_A.SIGNED_TO_FLOAT, f32, Input(1, i8))),
            [WEIGHT, leaf(i8, [3])],
            Dequantization(0, True, 1),
        ),
        (
            apply(_A.MULTIPLY, f32, FLOAT, Scalar(FloatAttr(0.5, f32))),
            [WEIGHT],
            Dequantization(0, True, None, Scalar(FloatAttr(0.5, f32))),
        ),
        # As narrow as the integers, and no difference of those that occur wraps.
        (
            apply(_A.SIGNED_TO_FLOAT, f32, NARROW),
            [leaf(i8, [-100, 5]), leaf(i8, [28])],
            Dequantization(0, True, 1),
        ),
        (
            apply(_A.UNSIGNED_TO_FLOAT, f32, NARROW),
            [leaf(i8, [-1, 5]), leaf(i8, [5])],
            Dequantization(0, False, 1),
        ),
    ],
)
def test_forms(term: Term, leaves: list[Leaf], found: Dequantization):
    assert without_terms(recognize(term, leaves)) == found


@pytest.mark.parametrize(
    ("term", "leaves", "condition"),
    [
        (
            apply(_A.ADD, f32, apply(_A.MULTIPLY, f32, FLOAT, SCALE), Input(2, f32)),
            [WEIGHT, SCALES, SCALES],
            "it adds",
        ),
        (
            apply(_A.MULTIPLY, f32, apply(_A.MULTIPLY, f32, FLOAT, SCALE), SCALE),
            [WEIGHT, SCALES],
            "multiplies twice",
        ),
        (
            apply(_A.SUBTRACT, i8, STORED, Input(1, i8)),
            [WEIGHT, leaf(i8, [1])],
            "may wrap in 8 bits",
        ),
        (
            apply(_A.SIGNED_TO_FLOAT, f32, NARROW),
            [leaf(i8, [-101, 5]), leaf(i8, [28])],
            "may wrap in 8 bits",
        ),
        (
            apply(_A.UNSIGNED_TO_FLOAT, f32, NARROW),
            [leaf(i8, [-1, 4]), leaf(i8, [5])],
            "may wrap in 8 bits",
        ),
        (
            apply(
                _A.SUBTRACT,
                f16,
                apply(_A.SIGNED_TO_FLOAT, f16, Input(0, i16)),
                apply(_A.SIGNED_TO_FLOAT, f16, Input(1, i16)),
            ),
            [leaf(i16, [2000]), leaf(i16, [2049])],
            "not all integers from 2049 to 2049 are exact in 'f16'",
        ),
        (
            apply(_A.MULTIPLY, f32, apply(_A.SUBTRACT, f32, FLOAT, Input(2, f32)), SCALE),
            [WEIGHT, SCALES, leaf(f32, [0.5])],
            "a zero point is not an integer",
        ),
        (
            apply(_A.SIGNED_TO_FLOAT, f32, Input(0, i32)),
            [leaf(i32, [0, (1 << 24) + 1])],
            "not all integers from 0 to 16777217 are exact in 'f32'",
        ),
        (apply(_A.MULTIPLY, i16, STORED, STORED), [WEIGHT], "multiplies integers"),
        (apply(_A.MULTIPLY, f32, FLOAT, FLOAT), [WEIGHT], "both factors are integers"),
        (apply(_A.MULTIPLY, f32, SCALE, SCALE), [WEIGHT, SCALES], "not a constant of integers"),
    ],
)
def test_refusals_name_the_condition(term: Term, leaves: list[Leaf], condition: str):
    with pytest.raises(Refusal, match=condition) as caught:
        recognize(term, [*leaves, leaf(i8, [1])])
    assert caught.value.code == "arithmetic"


@pytest.mark.parametrize("is_first", [False, True])
def test_a_short_float_beside_integers_is_the_scale(*, is_first: bool):
    f8 = Float8E4M3FNType()
    factors = [apply(_A.SIGNED_TO_FLOAT, f8, Input(0, IntegerType(4))), Input(1, f8)]
    found = recognize(
        apply(_A.MULTIPLY, f8, *(factors[::-1] if is_first else factors)),
        [leaf(IntegerType(4), [-8, 7]), leaf(f8, [0.5])],
    )
    assert (found.stored, found.scales) == (0, 1)


def test_of_two_short_floats_none_is_the_scale():
    f8 = Float8E4M3FNType()
    with pytest.raises(Refusal, match="both factors are integers, or short floats"):
        recognize(
            apply(_A.MULTIPLY, f8, Input(0, f8), Input(1, f8)), [leaf(f8, [0.5]), leaf(f8, [0.5])]
        )


@pytest.mark.parametrize("zero_point", [-128, -1, 0, 127])
def test_bfloat16_holds_differences_of_eight_bits(zero_point: int):
    bf16 = BFloat16Type()
    term = apply(
        _A.SIGNED_TO_FLOAT,
        bf16,
        apply(_A.SUBTRACT, i16, apply(_A.SIGN_EXTEND, i16, STORED), Input(1, i16)),
    )
    found = recognize(term, [WEIGHT, leaf(i16, [zero_point])])
    assert found.zero_point_term is not None
    assert without_terms(found) == Dequantization(0, True, 1)
