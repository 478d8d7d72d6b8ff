"""Reports agree with the folded module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from example_counts import examples
from folded_modules import fold
from hypothesis import given
from hypothesis import strategies as st
from random_modules import functions, module_text
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.folding.report import Outcome, PassReport
from qdialect.ops.interface import is_cast, model_of, name_of
from qdialect.opt.registry import ToolContext
from qdialect.passes.fold_quant_shapes import FoldConstantShapesPass, FoldQuantShapesPass
from qdialect.text.parser import LocatingParser

pytestmark = pytest.mark.usefixtures("without_plugins")


def values_in(module: ModuleOp) -> set[SSAValue]:
    found: set[SSAValue] = set()
    for op in module.walk():
        found.update(op.results)
        for region in op.regions:
            for block in region.blocks:
                found.update(block.args)
    return found


def makers(op: Operation) -> Iterator[Operation]:
    """The shape ops and casts before an op."""
    for operand in op.operands:
        owner = operand.owner
        if isinstance(owner, Operation) and (is_cast(owner) or model_of(owner)):
            yield owner


def check_report(text: str, module_pass: Any) -> PassReport:
    """Fold a module, and check each entry of the report against the module that is left."""
    # xDSL reads the hexadecimal text of a float as a number.
    context = ToolContext(allow_unregistered=True)
    module = LocatingParser(context, text).parse_module()
    module.verify()
    ops = list(module.walk())
    shape_ops = [op for op in ops if model_of(op) is not None]
    before = {op: list(makers(op)) for op in ops}
    module_pass.apply(context, module)
    module.verify()
    (report,) = context.fold_reports
    left, held = set(module.walk()), values_in(module)
    # An op that stays may have operands that are joined.
    of_ops = [record for record in report.records if record.operands is None]
    recorded = {record.op: record for record in of_ops}
    assert len(recorded) == len(of_ops)
    for record in report.records:
        if record.operands is not None:
            assert recorded[record.op].outcome is Outcome.REFUSED
            assert record.stands in record.op.operands
    for vanished, stands in report.vanished.items():
        assert vanished not in held, vanished
        assert stands is None or stands in held, vanished
    for op in shape_ops:
        if op in left:
            assert op not in recorded or recorded[op].outcome is Outcome.REFUSED
        elif op not in recorded or recorded[op].outcome is Outcome.REFUSED:
            # Another op of quant does what it does.
            assert report.vanished[op.results[0]] is not None
        else:
            assert recorded[op].outcome in (Outcome.FOLDED, Outcome.DROPPED)
    for op, record in recorded.items():
        for value in (record.constant, record.stands):
            assert value is None or value in held, (name_of(op), value)
        if record.outcome is not Outcome.FOLDED:
            continue
        assert record.constant is not None
        assert record.stands is not None
        assert record.sources
        for source in record.sources:
            assert source in held or source in report.vanished
        pending = before[op]
        while pending:
            maker = pending.pop()
            pending += before[maker]
            if is_cast(maker) and maker not in left:
                assert maker.results[0] in report.vanished, name_of(maker)
    return report


@examples(120)
@given(st.data())
def test_reports_are_true(data: st.DataObject):
    text = module_text([data.draw(functions(number)) for number in range(2)])
    check_report(text, FoldQuantShapesPass())


@examples(60)
@given(st.data())
def test_reports_of_what_may_not_grow_are_true(data: st.DataObject):
    text = module_text([data.draw(functions(number)) for number in range(2)])
    report = check_report(text, FoldQuantShapesPass(max_growth=0))
    assert report.bytes_after <= report.bytes_before
    check_report(text, FoldConstantShapesPass())


IN_BETWEEN = """
!q = !quant.uniform<i8:f32, 0.5:3>
func.func @f() -> tensor<2x3xf32> {
  %w = quant.constant dense<[1, 2, 3]> : tensor<3x!q>
  %d = quant.dcast %w : tensor<3x!q> to tensor<3xf32>
  %a = "stablehlo.broadcast_in_dim"(%d) <{broadcast_dimensions = array<i64: 1>}>
    : (tensor<3xf32>) -> tensor<1x3xf32>
  %b = tosa.identity %a : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %c = "stablehlo.broadcast_in_dim"(%b) <{broadcast_dimensions = array<i64: 0, 1>}>
    : (tensor<1x3xf32>) -> tensor<2x3xf32>
  return %c : tensor<2x3xf32>
}
"""


def test_op_that_moves_nothing_in_a_chain():
    report = check_report(IN_BETWEEN, FoldQuantShapesPass())
    folded, dropped, last = report.records
    assert [record.outcome.value for record in report.records] == ["folded", "dropped", "folded"]
    assert [source.name_hint for source in folded.sources] == ["w"]
    assert dropped.stands is last.stands is folded.stands
    hints = {
        vanished.name_hint: None if value is None else value.name_hint
        for vanished, value in report.vanished.items()
    }
    assert hints == {"d": "d", "w": "w"}


def test_unused_chain_that_ends_in_an_op_that_moves_nothing():
    report = check_report(
        """
        func.func @f() {
          %w = arith.constant dense<[[1, 2]]> : tensor<1x2xi8>
          %t = tosa.reverse %w {axis = 1 : i32} : (tensor<1x2xi8>) -> tensor<1x2xi8>
          %i = tosa.identity %t : (tensor<1x2xi8>) -> tensor<1x2xi8>
          return
        }
        """,
        FoldQuantShapesPass(),
    )
    assert [(record.outcome.value, record.stands) for record in report.records] == [
        ("dropped", None),
        ("dropped", None),
    ]


def test_growth_is_seen_through_an_op_that_moves_nothing():
    text = """
    func.func @f() -> (tensor<4xi8>, tensor<2x2xi8>) {
      %w = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
      %i = tosa.identity %w : (tensor<2x2xi8>) -> tensor<2x2xi8>
      %r = tensor.collapse_shape %i [[0, 1]] : tensor<2x2xi8> into tensor<4xi8>
      return %r, %w : tensor<4xi8>, tensor<2x2xi8>
    }
    """
    _, report = fold(text, max_growth=0)
    assert [record.code for record in report.records] == [None, "growth"]
    assert fold(text, max_growth=4)[1].constants == 1


@pytest.mark.parametrize(
    "op",
    [
        "tensor.concat dim(0) %d, %d : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>",
        "tosa.tile %d, %s : (tensor<2xf32>, !tosa.shape<1>) -> tensor<4xf32>",
    ],
)
def test_scales_of_a_constant_count_once(op: str):
    text = f"""
    !q = !quant.uniform<i8:f32:0, {{0.5,0.25}}>
    func.func @f() -> tensor<4xf32> {{
      %w = quant.constant dense<[1, 2]> : tensor<2x!q>
      %d = quant.dcast %w : tensor<2x!q> to tensor<2xf32>
      %s = tosa.const_shape {{values = dense<2> : tensor<1xindex>}} : () -> !tosa.shape<1>
      %c = {op}
      return %c : tensor<4xf32>
    }}
    """
    for most, code in ((1, "parameter-growth"), (2, None)):
        _, report = fold(text, max_parameter_growth=most)
        assert [record.code for record in report.records] == [code]


def test_new_scales_count_as_growth():
    text = """
    !q = !quant.uniform<i8:f32:1, {0.5,0.25}>
    func.func @f() -> tensor<6xf32> {
      %w = quant.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2x!q>
      %d = quant.dcast %w : tensor<3x2x!q> to tensor<3x2xf32>
      %c = tensor.collapse_shape %d [[0, 1]] : tensor<3x2xf32> into tensor<6xf32>
      return %c : tensor<6xf32>
    }
    """
    for most, code in ((4 * 16 - 1, "growth"), (4 * 16, None)):
        _, report = fold(text, max_growth=most)
        assert [record.code for record in report.records] == [code]


def test_ops_of_quant_that_become_one():
    report = check_report(
        """
        !q = !quant.uniform<i8:f32, 0.5>
        func.func @f(%x: tensor<8x!q>) -> tensor<2x!q> {
          %a = quant.slice %x [1] [6] [1] : tensor<8x!q> to tensor<6x!q>
          %b = quant.slice %a [1] [4] [1] : tensor<6x!q> to tensor<4x!q>
          %c = quant.slice %b [0] [2] [2] : tensor<4x!q> to tensor<2x!q>
          %unused = quant.slice %x [0] [1] [1] : tensor<8x!q> to tensor<1x!q>
          return %c : tensor<2x!q>
        }
        """,
        FoldQuantShapesPass(),
    )
    outcomes = {record.op.results[0].name_hint: record.outcome.value for record in report.records}
    assert outcomes == {"a": "dropped", "b": "dropped", "c": "refused", "unused": "dropped"}
    assert [vanished.name_hint for vanished in report.vanished] == ["c"]


def test_concats_of_one_operand_are_dropped_at_once():
    text = """
    !a = !quant.uniform<i8:f32:0, {0.5,0.5}>
    !b = !quant.uniform<i8:f32, 0.5>
    func.func @f(%x: tensor<2x!a>) -> tensor<2x!a> {
      %0 = quant.concat dim(0) %x : (tensor<2x!a>) -> tensor<2x!b>
      %1 = quant.concat dim(0) %0 : (tensor<2x!b>) -> tensor<2x!a>
      return %1 : tensor<2x!a>
    }
    """
    module, _ = fold(text)
    assert not any(model_of(op) for op in module.walk())
