"""Floats and tables as storage: identity and construction of types."""

import shutil
import subprocess

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    Builtin,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntegerType,
    Signedness,
    bf16,
    f16,
    f32,
    i8,
)
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant import Quant, QuantileType, Storage, UniformQuantizedType

UI2 = IntegerType(2, Signedness.UNSIGNED)
NF4 = (
    "{-1.0,-0.6961928009986877,-0.5250730514526367,-0.39491748809814453,-0.28444138169288635,"
    "-0.18477343022823334,-0.09105003625154495,0.0,0.07958029955625534,0.16093020141124725,"
    "0.24611230194568634,0.33791524171829224,0.44070982933044434,0.5626170039176941,"
    "0.7229568362236023,1.0}"
)


def parse(text: str) -> object:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Quant)
    return Parser(context, text).parse_type()


def test_storage_of_floats():
    for type, largest in ((Float8E4M3FNType(), 448), (Float8E5M2Type(), 57344)):
        storage = Storage.of(type)
        assert (storage.minimum.data, storage.maximum.data) == (-largest, largest)
        assert storage.format.width == 8
    # Bounds are integers, and 7.5 is the largest number.
    assert Storage.of(Float6E2M3FNType()).maximum.data == 8
    with pytest.raises(TypeError, match="must be of class IntegerType"):
        Storage.of(f32)
    with pytest.raises(ValueError, match="cannot have signed=True"):
        Storage.of(Float4E2M1FNType(), signed=True)
    with pytest.raises(VerifyException, match=r"illegal storage min and storage max: \(-7:6\)"):
        UniformQuantizedType.per_tensor(Storage.of(Float4E2M1FNType(), minimum=-7), f32, 1.0)


def test_tables_are_equal_by_rounded_entries():
    # 0.1 as a double, and as the nearest f16.
    one, other = (QuantileType.of(UI2, f16, [-1.0, 0.0, x, 1.0]) for x in (0.1, 0.0999755859375))
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) != str(other)
    types = [UniformQuantizedType.per_tensor(Storage.of(table), f32, 0.5) for table in (one, other)]
    assert types[0] == types[1]
    assert types[0].has_same_values_as(types[1])
    assert QuantileType.of(UI2, f32, [-1.0, 0.0, 0.1, 1.0]) != one
    assert QuantileType.of(UI2, f16, [-1.0, -0.0, 0.1, 1.0]) != one
    assert QuantileType.of(UI2, f16, [-1.0, 0.0, 0.1, 1.0], (0, 3)) != one


def test_entries_of_integer_tables_are_rounded():
    table = QuantileType.of(UI2, IntegerType(8, Signedness.UNSIGNED), [-0.5, 0.25, 1000.0, 2.5])
    assert table.format.numbers(np.arange(4)).tolist() == [0.0, 0.0, 255.0, 2.0]
    table = QuantileType.of(UI2, i8, [-0.4, -1000.0, 126.5, 127.5])
    assert table.format.numbers(np.arange(4)).tolist() == [0.0, -128.0, 126.0, 127.0]


def test_codes_count_from_the_minimum():
    entries = [1.0, 2.0, 3.0, 4.0]
    signed = QuantileType.of(IntegerType(2, Signedness.SIGNED), f32, entries)
    assert signed.format.numbers(np.arange(-2, 2)).tolist() == entries
    # As upstream, integers without a declared sign have none.
    assert QuantileType.of(IntegerType(2), f32, entries).bounds == (0, 3)
    ranged = QuantileType.of(IntegerType(4), f32, entries, (5, 8))
    assert ranged.format.numbers(np.arange(5, 9)).tolist() == entries
    # The index is the bit pattern, whatever upstream's range.
    floats = QuantileType.of(Float4E2M1FNType(), bf16, np.arange(16.0))
    assert floats.bounds == (-8, 7)
    assert floats.format.numbers(np.arange(16)).tolist() == [*range(16)]


@pytest.mark.skipif(shutil.which("iree-opt") is None, reason="iree-opt is not installed")
def test_llvm_reads_all_digits_of_nested_tables():
    """What is printed says, read by LLVM, the same f32 table: with 7 digits, 7 entries differ."""
    types = [parse(f"!quant.uniform<!quant.quantile<ui4:f32, {NF4}>:f32, 0.5>")]
    types += [parse("!quant.uniform<f8E5M2<-4:100>:bf16:1, {0.1,0.333333333:-3}>")]
    text = "\n".join(f"func.func private @f{n}({t!s})" for n, t in enumerate(types))
    run = subprocess.run(["iree-opt", "-"], input=text, capture_output=True, text=True, check=True)
    assert parse(str(types[0])) == types[0]
    for type in types[1:]:
        assert str(type) in run.stdout
    # The digits that LLVM drops show that it has read them all.
    assert "-6.961928e-01,-5.250731e-01" in run.stdout
