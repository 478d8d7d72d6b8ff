"""The casts of floats and tables in runs: every code, judged by ml_dtypes and by the formula."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.parser import Parser
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters.interpreter import run_function
from qdialect.dialects.arrays.values import TypedArray
from qdialect.dialects.quant import Quant

FLOATS = {
    "f8E4M3FN": (ml_dtypes.float8_e4m3fn, 448),
    "f8E5M2": (ml_dtypes.float8_e5m2, 57344),
    "f4E2M1FN": (ml_dtypes.float4_e2m1fn, 6),
    "f6E2M3FN": (ml_dtypes.float6_e2m3fn, 7.5),
    "f6E3M2FN": (ml_dtypes.float6_e3m2fn, 28),
}
"""With the largest number."""

ENTRIES = [-1.0, -0.6961928009986877, 0.0, 0.25]
TABLE = f"!quant.quantile<ui2:f32, {{{','.join(map(str, ENTRIES))}}}>"


def run(body: str, type: str, argument: NDArray[Any], *, is_stored: bool) -> NDArray[Any]:
    context = Context()
    for dialect in (Builtin, Quant, Func):
        context.load_dialect(dialect)
    n = len(argument)
    stored, real = f"tensor<{n}x!quant.uniform<{type}>>", f"tensor<{n}xf32>"
    ends = (stored, real) if is_stored else (real, stored)
    op = f"%0 = quant.{body} %x : {ends[0]} to {ends[1]}"
    text = f"func.func @main(%x: {ends[0]}) -> {ends[1]} {{ {op} return %0 : {ends[1]} }}"
    module = Parser(context, text).parse_module()
    (function,) = module.ops
    (value,) = function.regions[0].block.args
    return run_function(module, "main", [TypedArray.of(argument, value.type)])[0].elements


@pytest.mark.parametrize("zero_point", [0, 3, -100000])
@pytest.mark.parametrize("name", FLOATS)
def test_every_code_of_a_float(name: str, zero_point: int):
    dtype, _ = FLOATS[name]
    codes = np.arange(1 << {"8": 8, "4": 4, "6": 6}[name[1]], dtype=np.uint8)
    with np.errstate(all="ignore"):
        wanted = (codes.view(dtype).astype("f4") - np.float32(zero_point)) * np.float32(0.1)
    read = run("dcast", f"{name}:f32, 0.1:{zero_point}", codes, is_stored=True).view("f4")
    is_nan = np.isnan(wanted)
    assert np.array_equal(is_nan, np.isnan(read))
    assert np.array_equal(wanted[~is_nan].view("u4"), read[~is_nan].view("u4"))


@given(st.sampled_from([*FLOATS]), st.lists(st.floats(width=32, allow_nan=False), min_size=1))
def test_floats_are_stored_as_ml_dtypes_rounds(name: str, numbers: list[float]):
    """Division first, then a clamp, since ml_dtypes makes NaN and infinities of large numbers."""
    dtype, largest = FLOATS[name]
    x = np.array([*numbers, -0.0, np.inf], "f4")
    with np.errstate(all="ignore"):
        wanted = np.clip(x / np.float32(0.3), -largest, largest).astype(dtype).view("u1")
    stored = run("qcast", f"{name}:f32, 0.3", x.view("u4"), is_stored=False)
    assert np.array_equal(stored, wanted)


def test_tables():
    codes = np.arange(4, dtype=np.uint8)
    entries = np.array(ENTRIES, "f4")
    read = run("dcast", f"{TABLE}:f32, 0.3:2", codes, is_stored=True)
    assert np.array_equal(read.view("f4"), (entries - np.float32(2)) * np.float32(0.3))
    # 0.125 is in the middle of two entries.
    x = np.array([-9.0, -0.8, 0.125, np.nextafter(np.float32(0.125), np.float32(1)), 9.0], "f4")
    assert run("qcast", f"{TABLE}:f32, 1.0", x.view("u4"), is_stored=False).tolist() == [
        0,
        1,
        2,
        3,
        3,
    ]
    narrow = run("qcast", f"{TABLE}<1:2>:f32, 1.0", x.view("u4"), is_stored=False)
    assert narrow.tolist() == [1, 1, 2, 2, 2]


def test_nan():
    nan = np.array([np.nan], "f4").view("u4")
    assert run("qcast", "f8E4M3FN<-4:4>:f32, 1.0", nan, is_stored=False).tolist() == [0x7F]
    for type in ("f4E2M1FN", "f6E2M3FN", TABLE):
        with pytest.raises(InterpretationError, match="has no code of NaN"):
            run("qcast", f"{type}:f32, 1.0", nan, is_stored=False)


def test_types_that_no_run_has():
    x = np.zeros(1, "u4")
    refused = {
        "!quant.quantile<ui2:f32, {1.0,2.0}, <3:4>>": "a table's range 3:4 is outside",
        "!quant.quantile<f8E5M2:f32, {1.0,2.0}, <0:1>>": "have no range, such as 0:1",
        f"!quant.quantile<f4E2M1FN:f32, {{{','.join(['0.0'] * 16)}}}><-8:6>": "have no range",
        "f8E4M3FN<33:35>": r"has no number in the storage range \[33, 35\]",
    }
    for type, message in refused.items():
        with pytest.raises(InterpretationError, match=message):
            run("qcast", f"{type}:f32, 1.0", x, is_stored=False)
    type = "!quant.quantile<ui2:f32, {1.0,2.0}, <1:2>>:f32, 1.0"
    with pytest.raises(InterpretationError, match="code 0 is not in !quant"):
        run("dcast", type, np.zeros(1, "u1"), is_stored=True)
