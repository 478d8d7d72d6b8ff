"""The types of the dialect: identity, construction, text."""

import random
import shutil
import subprocess
from io import StringIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, IntegerType, Signedness, bf16, f16, f32, f64
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from qdialect.algebra.parameters import QuantizationParameters
from qdialect.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    Granularity,
    Quant,
    Storage,
    UniformQuantizedType,
)
from qdialect.testing.tensors import expanded, parameters, shapes

I8 = Storage.of(IntegerType(8))
U8 = Storage.of(IntegerType(8), signed=False)
NO_ZERO_POINTS = np.zeros(2, dtype=np.int64)


def parse(text: str) -> object:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Quant)
    return Parser(context, text).parse_type()


def text_of(type: object) -> str:
    stream = StringIO()
    Printer(stream=stream).print_attribute(type)  # pyright: ignore[reportArgumentType]
    return stream.getvalue()


@given(shapes(min_rank=1), st.data())
def test_types_spell_the_parameters(shape: tuple[int, ...], data: st.DataObject):
    """The coarsest type means the same, and its text is read as the same type."""
    some = data.draw(parameters(shape))
    like = UniformQuantizedType.per_tensor(I8, f32, 1.0)
    type = like.with_parameters(some)
    for values, wanted in zip(expanded(type.parameters_on(shape)), expanded(some), strict=True):
        assert np.array_equal(values, wanted)
    assert parse(text_of(type)) == type
    coarse = some.coarsen()
    cut = [
        (axis, block)
        for axis, (block, length) in enumerate(zip(coarse.block_sizes, shape, strict=True))
        if block < length
    ]
    if not cut:
        assert type.granularity is Granularity.PER_TENSOR
    elif len(cut) == 1 and cut[0][1] == 1:
        assert type.granularity is Granularity.PER_AXIS
        assert type.quantized_dimensions == (cut[0][0],)
    else:
        assert type.granularity is Granularity.SUB_CHANNEL
        assert list(zip(type.quantized_dimensions, type.block_sizes, strict=True)) == cut


def test_properties():
    type = UniformQuantizedType.sub_channel(
        Storage.of(IntegerType(4), minimum=-7),
        f16,
        [(1, 2)],
        np.array([[0.1, 2.0]]),
        np.array([[3, -9]]),
    )
    assert text_of(type) == (
        "!quant.uniform<i4<-7:7>:f16:{1:2}, {{9.997550e-02:3, 2.000000e+00:7}}>"
    )
    assert type.is_signed
    assert (type.storage_type_min, type.storage_type_max) == (-7, 7)
    assert type.storage_type == IntegerType(4)
    assert type.expressed_type == f16
    assert type.quantized_dimensions == (1,)
    assert type.block_sizes == (2,)
    assert type.scales.tolist() == [[float(np.float16(0.1)), 2.0]]
    assert type.zero_points.tolist() == [[3, 7]]


def test_identity():
    one = UniformQuantizedType.per_axis(I8, f32, 0, np.array([0.1, 0.2]), NO_ZERO_POINTS)
    same = UniformQuantizedType.per_axis(I8, f32, 0, np.array([0.1, 0.2]), NO_ZERO_POINTS)
    assert one == same
    assert hash(one) == hash(same)
    for other in (
        UniformQuantizedType.per_axis(I8, f32, 1, np.array([0.1, 0.2]), NO_ZERO_POINTS),
        UniformQuantizedType.per_axis(U8, f32, 0, np.array([0.1, 0.2]), NO_ZERO_POINTS),
        UniformQuantizedType.per_axis(I8, f64, 0, np.array([0.1, 0.2]), NO_ZERO_POINTS),
        UniformQuantizedType.per_axis(I8, f32, 0, np.array([0.1, 0.25]), NO_ZERO_POINTS),
        UniformQuantizedType.per_axis(I8, f32, 0, np.array([0.1, 0.2]), NO_ZERO_POINTS + 1),
        UniformQuantizedType.per_axis(
            I8, f32, 0, np.array([0.1, float(np.float32(0.2))]), NO_ZERO_POINTS
        ),
    ):
        assert one != other


def test_signedness_is_part_of_the_storage_type():
    assert parse("!quant.uniform<u8:f32, 1.0>") != parse("!quant.uniform<ui8:f32, 1.0>")
    assert parse("!quant.uniform<i8:f32, 1.0>") != parse("!quant.uniform<si8:f32, 1.0>")
    assert parse("!quant.uniform<i8<-128:127>:f32, 1.0>") == parse("!quant.uniform<i8:f32, 1.0>")


def test_nan_is_equal_to_itself_only():
    text = "!quant.uniform<i8:f32, 0x7FF8000000000000>"
    one, other = parse(text), parse(text)
    assert one == one
    assert one != other
    text = "!quant.uniform<i8:f32:{0:1}, {0x7FF8000000000000}>"
    assert parse(text) == parse(text)


def test_text_that_is_seen_again_is_the_same_type():
    text = "!quant.uniform<i8:f32:0, {0.5:3,0.25}>"
    assert parse(text) == parse(text) == parse(text.replace(",0", ", 0"))
    assert parse(f"tensor<2x{text}>") == parse(f"tensor<2x{text}>")


def test_text_that_is_seen_again_may_have_an_alias_that_means_something_else():
    types = list[Attribute]()
    for storage in ("i8", "i16"):
        context = Context()
        context.load_dialect(Builtin)
        context.load_dialect(Quant)
        text = f"!s = {storage} builtin.module attributes {{t = !quant.uniform<!s:f32, 0.5>}} {{}}"
        types.append(Parser(context, text).parse_module().attributes["t"])
    assert [text_of(type) for type in types] == [
        "!quant.uniform<i8:f32, 5.000000e-01>",
        "!quant.uniform<i16:f32, 5.000000e-01>",
    ]


def test_text_without_an_end():
    rest = "\n".join("tensor<4xf32>" for _ in range(20_000))
    with pytest.raises(ParseError, match="expected"):
        parse(f"!quant.uniform<i8:f32, 0.5 {rest}")


def test_storage_of_each_spelling():
    for text, type, signed in (
        ("i8", IntegerType(8), True),
        ("u8", IntegerType(8), False),
        ("si8", IntegerType(8, Signedness.SIGNED), True),
        ("ui8", IntegerType(8, Signedness.UNSIGNED), False),
    ):
        parsed = parse(f"!quant.any<{text}>")
        assert isinstance(parsed, AnyQuantizedType)
        assert (parsed.storage_type, parsed.is_signed) == (type, signed)


def test_construction_is_verified():
    with pytest.raises(VerifyException, match=r"scale 0\.000000e\+00 out of expressed type range"):
        UniformQuantizedType.per_tensor(I8, f32, 0.0)
    with pytest.raises(VerifyException, match=r"scale 7\.000000e\+04 out of"):
        UniformQuantizedType.sub_channel(I8, f16, [(0, 1)], np.array([7e4, 1.0]), NO_ZERO_POINTS)
    with pytest.raises(VerifyException, match="illegal quantized dimension: -1"):
        UniformQuantizedType.per_axis(I8, f32, -1, np.ones(2), NO_ZERO_POINTS)
    with pytest.raises(VerifyException, match="illegal block size: 0"):
        UniformQuantizedType.sub_channel(I8, f32, [(0, 0)], np.ones(2), NO_ZERO_POINTS)
    with pytest.raises(VerifyException, match="illegal storage type size: 33"):
        UniformQuantizedType.per_tensor(Storage.of(IntegerType(33)), f32, 1.0)
    with pytest.raises(VerifyException, match=r"illegal storage min and storage max: \(3:3\)"):
        UniformQuantizedType.per_tensor(Storage.of(IntegerType(8), minimum=3, maximum=3), f32, 1.0)
    with pytest.raises(VerifyException, match="illegal storage type size: 0"):
        Storage.of(IntegerType(0))
    with pytest.raises(VerifyException, match="there must be at least one scale"):
        UniformQuantizedType.per_axis(I8, f32, 0, np.ones(0), NO_ZERO_POINTS[:0])
    with pytest.raises(ValueError, match="do not pair up"):
        UniformQuantizedType.per_axis(I8, f32, 0, np.ones(3), NO_ZERO_POINTS)
    with pytest.raises(VerifyException, match=r"illegal min and max: \(INF:1\.000000e\+00\)"):
        CalibratedQuantizedType.of(bf16, float("inf"), 1.0)


def test_parameters_on_a_shape_that_does_not_fit():
    type = UniformQuantizedType.per_axis(I8, f32, 1, np.ones(2), NO_ZERO_POINTS)
    with pytest.raises(VerifyException, match="does not match number of scales"):
        type.parameters_on((2, 3))
    assert isinstance(type.parameters_on((3, 2)), QuantizationParameters)


@pytest.mark.parametrize(
    ("tool", "signs"), [("mlir-opt-22", ["i", "u"]), ("iree-opt", ["i", "u", "si", "ui"])]
)
def test_text_is_that_of_mlir_opt(tool: str, signs: list[str]) -> None:
    """Random types, written by hand as it were, are printed alike. MLIR 22 forgets `si`, `ui`."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not on PATH")
    rng = random.Random(0)
    texts = [_random_type(rng, signs) for _ in range(400)]
    lines = [f"func.func private @f{i}({text})" for i, text in enumerate(texts)]
    said = subprocess.run(
        [tool], input="\n".join(lines), capture_output=True, text=True, check=True
    ).stdout
    theirs = [line.split("(", 1)[1][:-1] for line in said.splitlines() if "func.func" in line]
    assert [text_of(parse(text)) for text in texts] == theirs


def _random_type(rng: random.Random, signs: list[str]) -> str:
    width, sign = rng.choice([8, 16, 24, 32]), rng.choice(signs)
    storage = f"{sign}{width}" + rng.choice(["", "<0:100>", "<1:0x70>"])
    expressed = rng.choice(["f32", "f16", "bf16", "f64", "f8E4M3FN", "tf32", "f80"])

    def slot() -> str:
        scale = rng.choice(["0.5", f"{rng.uniform(0.01, 100)!r}", "3.", "1.0e-2", "  2.5E+0"])
        return scale + rng.choice(["", ":3", f" : {rng.randint(-300, 300)}", ":0", ":0x1F"])

    def slots(shape: list[int]) -> str:
        if not shape:
            return slot()
        return "{" + rng.choice([",", " , "]).join(slots(shape[1:]) for _ in range(shape[0])) + "}"

    match rng.randrange(3):
        case 0:
            return f"!quant.uniform<{storage}:{expressed}, {slot()}>"
        case 1:
            return f"!quant.uniform<{storage}:{expressed}:{rng.randrange(4)}, {slots([3])}>"
        case _:
            shape = [rng.randrange(1, 4) for _ in range(rng.randrange(1, 4))]
            blocks = ",".join(f"{rng.randrange(3)} : {rng.randrange(1, 5)}" for _ in shape)
            return f"!quant.uniform<{storage}:{expressed}:{{{blocks}}}, {slots(shape)}>"
