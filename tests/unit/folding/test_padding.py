"""A padding element is read in its own type, and every layer below must be able to store it."""

from __future__ import annotations

import pytest
from folded_modules import fold, op_of, owner, parse, returned, stored
from xdsl.ir import BlockArgument

from qdialect.check.interpreters import OpInterpretationError, run_function
from qdialect.ir.resources import ResourceBlobs
from qdialect.ops.interface import Refusal, RefusalCode, model_of, read_movements
from qdialect.ops.reading import ConstantOperands, Constants

pytestmark = pytest.mark.usefixtures("without_plugins")

PADDED_QUANTIZED = """
func.func @f() -> tensor<3x{weight}> {{
  %w = "stablehlo.constant"() <{{value = dense<[1, 2]> : tensor<2x{held}>}}>
    : () -> tensor<2x{weight}>
  %c = "stablehlo.constant"() <{{value = dense<{value}> : tensor<{value_held}>}}>
    : () -> tensor<{value_type}>
  %p = "stablehlo.pad"(%w, %c) <{{edge_padding_low = array<i64: {low}>,
    edge_padding_high = array<i64: {high}>, interior_padding = array<i64: {interior}>}}>
    : (tensor<2x{weight}>, tensor<{value_type}>) -> tensor<3x{weight}>
  return %p : tensor<3x{weight}>
}}
"""
SIGNED, UNSIGNED = "!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<u8:f32, 0.5:3>"
WIDTHS = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]


def padded_quantized(value: int, value_type: str, widths: tuple[int, int, int]) -> str:
    low, high, interior = widths
    held = "ui8" if "<u8" in value_type else "i16" if "<i16" in value_type else "i8"
    return PADDED_QUANTIZED.format(
        weight=SIGNED,
        held="i8",
        value=value,
        value_held=held,
        value_type=value_type,
        low=low,
        high=high,
        interior=interior,
    )


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize(
    ("value", "value_type"),
    [
        (200, UNSIGNED),
        (130, "!quant.uniform<i16:f32, 0.5:3>"),
        (1, "!quant.uniform<i8:f32, 0.25:0>"),
    ],
)
def test_a_code_of_another_storage_is_not_stored_as_its_bits(
    value: int, value_type: str, widths: tuple[int, int, int]
) -> None:
    text = padded_quantized(value, value_type, widths)
    module, report = fold(text)
    assert op_of(module, "stablehlo.pad")
    assert [record.code for record in report.records] == [RefusalCode.PADDING]
    with pytest.raises(OpInterpretationError, match=r"padded with|no integer dequantizes"):
        run_function(parse(text)[0], "f")


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize(
    ("value", "value_type", "code"),
    [
        (100, UNSIGNED, 100),
        (4, "!quant.uniform<u8:f32, 0.25:0>", 5),
        (100, "!quant.uniform<i16:f32, 0.5:3>", 100),
        (5, "!quant.uniform<i8<-7:7>:f32, 0.5:3>", 5),
        (-100, SIGNED, -100),
    ],
)
def test_the_code_that_reads_the_same_is_stored(
    value: int, value_type: str, code: int, widths: tuple[int, int, int]
) -> None:
    text = padded_quantized(value, value_type, widths)
    low, high, interior = widths
    expected = [*[code] * low, 1, *[code] * interior, 2, *[code] * high]
    module, _ = fold(text, verify="values")
    assert stored(owner(returned(module)[0]), (3,)).tolist() == expected
    (ran,) = run_function(parse(text)[0], "f")
    assert ran.numbers.tolist() == expected


NARROW = """
!narrow = !quant.uniform<{storage}<{low}:{high}>:f32, 0.5>
!wide = !quant.uniform<i8:f32, 1.0:{zero}>
func.func @f() -> tensor<3x{result}> {{
  %w = quant.constant dense<[1, 2]> : tensor<2x!narrow>
  %i = quant.scast %w : tensor<2x!narrow> to tensor<2xi8>
  %q = quant.scast %i : tensor<2xi8> to tensor<2x!wide>
  {pad}
  return %p : tensor<3x{result}>
}}
"""

PADS = {
    "tensor.pad": (
        "f32",
        """%f = quant.dcast %q : tensor<2x!wide> to tensor<2xf32>
        %c = arith.constant {value}.0 : f32
        %p = tensor.pad %f low[0] high[1] {{
        ^bb0(%at: index):
          tensor.yield %c : f32
        }} : tensor<2xf32> to tensor<3xf32>""",
    ),
    "tosa.pad": (
        "f32",
        """%f = quant.dcast %q : tensor<2x!wide> to tensor<2xf32>
        %s = tosa.const_shape {{values = dense<[0, 1]> : tensor<2xindex>}} : () -> !tosa.shape<2>
        %c = "tosa.const"() <{{values = dense<{value}.0> : tensor<1xf32>}}> : () -> tensor<1xf32>
        %p = tosa.pad %f, %s, %c
          : (tensor<2xf32>, !tosa.shape<2>, tensor<1xf32>) -> tensor<3xf32>""",
    ),
    "stablehlo.pad": (
        "f32",
        """%f = quant.dcast %q : tensor<2x!wide> to tensor<2xf32>
        %c = "stablehlo.constant"() <{{value = dense<{value}.0> : tensor<f32>}}>
          : () -> tensor<f32>
        %p = "stablehlo.pad"(%f, %c) <{{edge_padding_low = array<i64: 0>,
          edge_padding_high = array<i64: 1>, interior_padding = array<i64: 0>}}>
          : (tensor<2xf32>, tensor<f32>) -> tensor<3xf32>""",
    ),
    "tensor.pad of integers": (
        "i8",
        """%j = quant.scast %q : tensor<2x!wide> to tensor<2xi8>
        %c = arith.constant {value} : i8
        %p = tensor.pad %j low[0] high[1] {{
        ^bb0(%at: index):
          tensor.yield %c : i8
        }} : tensor<2xi8> to tensor<3xi8>""",
    ),
    "quant.pad": (
        "!wide",
        """%p = quant.pad %q low = [0] high = [1] : tensor<2x!wide> to tensor<3x!wide>""",
    ),
}


def narrow(pad: str, value: int, *, storage: str = "i8", low: int = -7, high: int = 7) -> str:
    result, text = PADS[pad]
    zero = value if pad == "quant.pad" else 0
    return NARROW.format(
        storage=storage, low=low, high=high, zero=zero, result=result, pad=text.format(value=value)
    )


@pytest.mark.parametrize("pad", PADS)
def test_no_layer_below_a_pad_holds_what_it_cannot(pad: str) -> None:
    module, report = fold(narrow(pad, 100))
    assert op_of(module, pad.partition(" ")[0])
    (record,) = report.records
    assert record.code is RefusalCode.PADDING
    assert "outside the storage range [-7, 7]" in (record.reason or "")


@pytest.mark.parametrize("pad", PADS)
def test_every_layer_below_a_pad_holds_what_fits(pad: str) -> None:
    module, _ = fold(narrow(pad, 5), verify="values")
    constant = op_of(module, "quant.constant")
    assert stored(constant, (3,)).tolist() == [1, 2, 5]


@pytest.mark.parametrize("pad", [pad for pad in PADS if pad != "quant.pad"])
def test_a_layer_below_reads_the_bits_in_its_own_type(pad: str) -> None:
    """-1 of i8 is 255 of u8."""
    module, _ = fold(narrow(pad, -1, storage="u8", low=0, high=255), verify="values")
    assert stored(op_of(module, "quant.constant"), (3,)).tolist() == [1, 2, 255]
    module, report = fold(narrow(pad, -1, storage="u8", low=0, high=254))
    assert [record.code for record in report.records] == [RefusalCode.PADDING]


@pytest.mark.parametrize("type", ["f64", "i32", "f16"])
def test_an_element_of_another_type_than_what_is_padded_is_refused(type: str) -> None:
    value = "0" if type == "i32" else "0.0"
    text = f"""
    !q = !quant.uniform<i8:f32, 0.5:3>
    func.func @f() -> tensor<3xf32> {{
      %w = "stablehlo.constant"() <{{value = dense<[1, 2]> : tensor<2xi8>}}> : () -> tensor<2x!q>
      %d = "stablehlo.uniform_dequantize"(%w) : (tensor<2x!q>) -> tensor<2xf32>
      %c = "stablehlo.constant"() <{{value = dense<{value}> : tensor<{type}>}}>
        : () -> tensor<{type}>
      %p = "stablehlo.pad"(%d, %c) <{{edge_padding_low = array<i64: 0>,
        edge_padding_high = array<i64: 1>, interior_padding = array<i64: 0>}}>
        : (tensor<2xf32>, tensor<{type}>) -> tensor<3xf32>
      return %p : tensor<3xf32>
    }}
    """
    module, report = fold(text)
    assert op_of(module, "stablehlo.pad")
    assert [record.code for record in report.records] == [RefusalCode.PADDING]


KEPT = {
    "tensor.pad": """%r = tensor.pad %x nofold low[0] high[0] {
      ^bb0(%at: index):
        tensor.yield %c : f32
      } : tensor<2xf32> to tensor<2xf32>""",
    "stablehlo.reshape": '%r = "stablehlo.reshape"(%x) {mhlo.sharding = "{replicated}"} '
    ": (tensor<2xf32>) -> tensor<2xf32>",
    "tosa.identity": "%r = tosa.identity %x {sdy.sharding = 1 : i64} "
    ": (tensor<2xf32>) -> tensor<2xf32>",
}


@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("name", KEPT)
def test_an_attribute_can_have_an_op_stay(name: str, *, is_constant: bool) -> None:
    constant = "%x = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>"
    text = f"""
    func.func @f({"" if is_constant else "%x: tensor<2xf32>"}) -> tensor<2xf32> {{
      {constant if is_constant else ""}
      %c = arith.constant 0.0 : f32
      {KEPT[name]}
      return %r : tensor<2xf32>
    }}
    """
    module, report = fold(text)
    assert op_of(module, name)
    assert [record.code for record in report.records] == [RefusalCode.KEPT]
    # What it does is known all the same, to what runs it and to what compares modules.
    op = op_of(parse(text)[0], name)
    model, operands = model_of(op), ConstantOperands(Constants(ResourceBlobs(None)))
    assert model is not None
    assert read_movements(op, model, operands).operands
    with pytest.raises(Refusal):
        operands.read(op, model)


@pytest.mark.parametrize(
    ("type", "is_dropped"),
    [("?x4", True), ("?x0", False), ("0x?", False), ("?x?", False), ("2x0", True)],
)
def test_a_reshape_is_nothing_only_if_the_lengths_follow(type: str, *, is_dropped: bool) -> None:
    text = f"""
    func.func @f(%x: tensor<{type}xf32>, %s: tensor<2xi64>) -> tensor<{type}xf32> {{
      %r = "tensor.reshape"(%x, %s) : (tensor<{type}xf32>, tensor<2xi64>) -> tensor<{type}xf32>
      return %r : tensor<{type}xf32>
    }}
    """
    module, _ = fold(text)
    assert isinstance(returned(module)[0], BlockArgument) is is_dropped
