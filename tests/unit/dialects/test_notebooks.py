"""What notebooks show of types, constants, plans, reports and profiles, without IPython."""

from __future__ import annotations

import re

import numpy as np
from xdsl.dialects.builtin import DenseResourceAttr, Float8E4M3FNType, TensorType, f32, i8

from qdialect import Splat
from qdialect.dialects import quant
from qdialect.dialects.quant import Storage, UniformQuantizedType
from qdialect.folding import FoldPolicy, fold_shapes
from qdialect.folding.fold_plan import FoldPlan
from qdialect.folding.plan import plan
from qdialect.folding.report import Outcome
from qdialect.opt.registry import ToolContext
from qdialect.ptq.schemes.profile import Fingerprint, Profile
from qdialect.ptq.schemes.ranges import Statistics
from qdialect.support.terminal import MAX_ROWS, Table
from qdialect.text import parse_module

I8 = Storage.of(i8)
ROWS = UniformQuantizedType.per_axis(I8, f32, 0, [0.5, 0.25], [0, 3])


def html_of(value: object) -> str:
    """What a notebook asks for."""
    return getattr(value, "_repr_html_")()  # noqa: B009


def rows_of(html: str) -> list[list[str]]:
    """The cells of each row of all tables, without the heads."""
    rows = re.findall(r"<tr>(<td.*?)</tr>", html)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]


def test_everything_is_escaped() -> None:
    table = Table("<b>", ("a<b", "&"), (("<script>", '"'),), 2)
    html = html_of(table)
    assert rows_of(html) == [["&lt;script&gt;", "&quot;"]]
    assert "<b>" not in html
    assert "<th>a&lt;b</th><th>&amp;</th>" in html
    assert html_of(table._replace(rows=())) == ""


def test_long_tables_are_cut() -> None:
    html = html_of(Table("numbers", ("n",), tuple((str(n),) for n in range(1000)), 0))
    assert rows_of(html) == [[str(n)] for n in range(MAX_ROWS)]
    assert f"numbers (the first {MAX_ROWS} of 1000 rows)" in html


def test_a_type_is_the_table_of_its_slots() -> None:
    assert repr(ROWS) == (
        "UniformQuantizedType(!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>)"
    )
    assert rows_of(html_of(ROWS)) == [["0", "0.5", "0"], ["1", "0.25", "3"]]
    assert "!quant.uniform&lt;i8:f32:0, " in html_of(ROWS)
    blocks = UniformQuantizedType.sub_channel(I8, f32, [(0, 1), (1, 32)], [[0.5, 0.25]], [[0, 1]])
    assert rows_of(html_of(blocks)) == [["0", "0", "0.5", "0"], ["0", "1", "0.25", "1"]]
    assert "<th>block on axis 1</th>" in html_of(blocks)
    single = UniformQuantizedType.per_tensor(I8, f32, 0.5, 3)
    assert rows_of(html_of(single)) == [["0.5", "3"]]


def test_large_types_and_constants_are_short() -> None:
    count = 1_000_000
    type = UniformQuantizedType.per_axis(I8, f32, 0, np.full(count, 0.5), np.zeros(count, int))
    assert f"the first {MAX_ROWS} of {count} rows" in html_of(type)
    constant = quant.ConstantOp(Splat(1, (count, 64)), TensorType(type, [count, 64]))
    html = html_of(constant)
    assert ", 16 of 64 columns" in html
    assert len(rows_of(html)) == 2 * MAX_ROWS
    assert len(html) < 100_000
    assert max(map(len, map(repr, (type, constant)))) < 200


def test_a_constant_is_the_table_of_its_codes() -> None:
    constant = quant.ConstantOp([[1, 2, 3], [4, 5, -6]], TensorType(ROWS, [2, 3]))
    constant.result.name_hint = "weight"
    codes, slots = constant.tables()
    assert codes.rows == (("[0]", "1", "2", "3"), ("[1]", "4", "5", "-6"))
    assert codes.title.startswith("%weight = quant.constant : tensor<2x3x!quant.uniform<i8:f32:0, ")
    assert slots == ROWS.tables()[0]
    assert html_of(constant).count("<table>") == 2
    single = UniformQuantizedType.per_tensor(I8, f32, 0.5)
    scalar = quant.ConstantOp(np.array(7), TensorType(single, []))
    assert scalar.tables()[0].rows == (("[]", "7"),)
    empty = quant.ConstantOp(np.zeros((2, 0), "i1"), TensorType(single, [2, 0]))
    assert empty.tables()[0].rows == ()
    elsewhere = DenseResourceAttr.from_params("key<1>", TensorType(i8, [4]))
    assert "key&lt;1&gt;" in html_of(quant.ConstantOp(elsewhere, TensorType(single, [4])))
    floats = UniformQuantizedType.per_tensor(Storage.of(Float8E4M3FNType()), f32, 1.0)
    assert quant.ConstantOp(np.array([0x38, 0xB8], "u1"), TensorType(floats, [2])).tables()[
        0
    ].rows == (("[]", "1.0", "-1.0"),)


MODULE = """
!q = !quant.uniform<i8:f32, 0.5>
func.func @f(%x: tensor<2x3x!q>) -> (tensor<3x2x!q>, tensor<3x2x!q>) {
  %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!q>
  %a = quant.transpose %w permutation = [1, 0] : tensor<2x3x!q> to tensor<3x2x!q>
  %b = quant.transpose %x permutation = [1, 0] : tensor<2x3x!q> to tensor<3x2x!q>
  return %a, %b : tensor<3x2x!q>, tensor<3x2x!q>
}
"""


def test_plans_and_reports() -> None:
    context = ToolContext()
    module = parse_module(context, MODULE)
    planned = plan(module, context, FoldPolicy())
    assert repr(planned) == (
        "FoldPlan(1 sources, 1 steps, 1 constants, 0 removed, 0 joined, 1 refused)"
    )
    constants, refused = planned.tables()
    (row,) = constants.rows
    assert row[:2] == ("@f/%a", "@f/%w")
    assert row[2].startswith("tensor<3x2x!quant.uniform<i8:f32, ")
    assert refused.rows[0][:3] == ("@f/%b", "quant.transpose", "not-constant")
    assert html_of(planned).count("<table>") == 2
    assert html_of(FoldPlan()) == ""
    report = fold_shapes(module, context, FoldPolicy())
    assert repr(report) == "PassReport(1 folded, 1 refused, 1 constants of 6 bytes)"
    assert {row[1] for row in report.tables()[0].rows} == {Outcome.FOLDED, Outcome.REFUSED}
    assert "not-constant" in html_of(report)


def test_profiles() -> None:
    values = {
        f"<{n}>": Statistics.observe(0, np.array([n, 2 * n], "f4")) for n in range(MAX_ROWS + 1)
    }
    profile = Profile(Fingerprint({}), values)
    assert repr(profile) == f"Profile({MAX_ROWS + 1} values, up to 1 records each)"
    rows = rows_of(html_of(profile))
    assert len(rows) == MAX_ROWS
    assert rows[2] == ["&lt;2&gt;", "1", "2.0", "4.0", "0"]
