"""An op without a model that blocks a fold gets a remark; ops that compute get none."""

from __future__ import annotations

import pytest
from folded_modules import fold

from qdialect.ops.interface import RefusalCode

pytestmark = pytest.mark.usefixtures("without_plugins")


def records_of(body: str, result: str) -> list[tuple[str, RefusalCode | None, str]]:
    _, report = fold(f"""
    !q = !quant.uniform<i8:f32:0, {{0.5,0.25}}>
    func.func @f(%x: tensor<2x2xf32>) -> {result} {{
      %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!q>
      %d = quant.dcast %w : tensor<2x2x!q> to tensor<2x2xf32>
      %f = arith.constant dense<1.0> : tensor<2x2xf32>
      {body}
      return %r : {result}
    }}
    """)
    return [(record.op_name, record.code, record.reason) for record in report.records]


UNKNOWN = (
    "no models are registered for dialect 'dsp', so it is not known whether the op moves elements"
)


@pytest.mark.parametrize(
    "operands", ["%w", "%d", "%f, %d"], ids=["a constant", "behind a cast", "with others"]
)
def test_an_op_of_an_unknown_dialect_is_told(operands: str) -> None:
    types = {"%w": "tensor<2x2x!q>", "%d": "tensor<2x2xf32>", "%f": "tensor<2x2xf32>"}
    listed = ", ".join(types[name] for name in operands.split(", "))
    body = f'%r = "dsp.transpose"({operands}) : ({listed}) -> tensor<2x2xf32>'
    assert records_of(body, "tensor<2x2xf32>") == [
        ("dsp.transpose", RefusalCode.UNKNOWN_OP, UNKNOWN)
    ]


def test_so_is_the_shape_op_behind_it_which_names_it() -> None:
    body = """
      %t = "dsp.transpose"(%d) : (tensor<2x2xf32>) -> tensor<2x2xf32>
      %r = tosa.reverse %t {axis = 0 : i32} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    """
    reason = "operand #0 is made by 'dsp.transpose', which is not known to move elements"
    assert records_of(body, "tensor<2x2xf32>") == [
        ("dsp.transpose", RefusalCode.UNKNOWN_OP, UNKNOWN),
        ("tosa.reverse", RefusalCode.UNKNOWN_OP, reason),
    ]


@pytest.mark.parametrize(
    "body",
    [
        '%r = "dsp.add"(%d, %x) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>',
        '%r = "dsp.negate"(%f) : (tensor<2x2xf32>) -> tensor<2x2xf32>',
        '%r = "stablehlo.negate"(%d) : (tensor<2x2xf32>) -> tensor<2x2xf32>',
        '%r, %s = "dsp.pair"(%d) : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)',
        '%r = "dsp.rng"() : () -> tensor<2x2xf32>',
    ],
    ids=["an argument", "nothing quantized", "a known dialect", "two results", "no operand"],
)
def test_what_computes_is_not_told(body: str) -> None:
    assert records_of(body, "tensor<2x2xf32>") == []
