"""Ops that an attribute keeps are left by every pass that would drop them."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding.report import Outcome
from qdialect.ops.interface import RefusalCode, name_of
from qdialect.opt.registry import ToolContext
from qdialect.passes import (
    CanonicalizePass,
    ElideRoundTripsPass,
    FoldConstantShapesPass,
    FoldQuantShapesPass,
    HoistQuantShapesPass,
    RaiseDequantizationPass,
    SinkQuantShapesPass,
)
from qdialect.text.parser import LocatingParser

pytestmark = pytest.mark.usefixtures("without_plugins")

SHARDINGS = ("mhlo.sharding", "sdy.sharding")

BODIES = {
    "a shape op of a constant": """
      %w = quant.constant dense<[[1, 2]]> : tensor<1x2x!q>
      %t = quant.transpose %w permutation = [1, 0] {KEPT} : tensor<1x2x!q> to tensor<2x1x!q>
      "test.use"(%t) : (tensor<2x1x!q>) -> ()
    """,
    "a shape op that the next one undoes": """
      %t = quant.transpose %x permutation = [1, 0] {KEPT} : tensor<3x2x!q> to tensor<2x3x!q>
      %u = quant.transpose %t permutation = [1, 0] : tensor<2x3x!q> to tensor<3x2x!q>
      "test.use"(%u) : (tensor<3x2x!q>) -> ()
    """,
    "a shape op that undoes the one before": """
      %t = quant.transpose %x permutation = [1, 0] : tensor<3x2x!q> to tensor<2x3x!q>
      %u = quant.transpose %t permutation = [1, 0] {KEPT} : tensor<2x3x!q> to tensor<3x2x!q>
      "test.use"(%u) : (tensor<3x2x!q>) -> ()
    """,
    "a shape op of another dialect that the next one undoes": """
      %t = tosa.transpose %x {perms = array<i32: 1, 0>, KEPT} : (tensor<3x2x!q>) -> tensor<2x3x!q>
      %u = tosa.transpose %t {perms = array<i32: 1, 0>} : (tensor<2x3x!q>) -> tensor<3x2x!q>
      "test.use"(%u) : (tensor<3x2x!q>) -> ()
    """,
    "a reshape of which the next one is another": """
      %t = quant.reshape %x {KEPT} : tensor<3x2x!q> to tensor<6x!q>
      %u = quant.reshape %t : tensor<6x!q> to tensor<2x3x!q>
      "test.use"(%u) : (tensor<2x3x!q>) -> ()
    """,
    "a concat in a concat": """
      %t = quant.concat dim(0) %x, %x {KEPT} : (tensor<3x2x!q>, tensor<3x2x!q>) -> tensor<6x2x!q>
      %u = quant.concat dim(0) %t, %x : (tensor<6x2x!q>, tensor<3x2x!q>) -> tensor<9x2x!q>
      "test.use"(%u) : (tensor<9x2x!q>) -> ()
    """,
    "an op that moves nothing": """
      %t = quant.reshape %x {KEPT} : tensor<3x2x!q> to tensor<3x2x!q>
      "test.use"(%t) : (tensor<3x2x!q>) -> ()
    """,
    "a constant": """
      %w = quant.constant dense<[[1, 2]]> {KEPT} : tensor<1x2x!q>
      %t = quant.transpose %w permutation = [1, 0] : tensor<1x2x!q> to tensor<2x1x!q>
      "test.use"(%t) : (tensor<2x1x!q>) -> ()
    """,
    "a cast of a constant": """
      %w = quant.constant dense<[[1, 2]]> : tensor<1x2x!q>
      %d = quant.dcast %w {KEPT} : tensor<1x2x!q> to tensor<1x2xf32>
      %t = tosa.transpose %d {perms = array<i32: 1, 0>} : (tensor<1x2xf32>) -> tensor<2x1xf32>
      "test.use"(%t) : (tensor<2x1xf32>) -> ()
    """,
    "arithmetic on a constant": """
      %w = arith.constant dense<[[1, 2]]> : tensor<1x2xi8>
      %d = arith.sitofp %w : tensor<1x2xi8> to tensor<1x2xf32>
      %s = arith.constant dense<0.5> : tensor<1x2xf32>
      %e = arith.mulf %d, %s {KEPT} : tensor<1x2xf32>
      %t = tosa.transpose %e {perms = array<i32: 1, 0>} : (tensor<1x2xf32>) -> tensor<2x1xf32>
      "test.use"(%t) : (tensor<2x1xf32>) -> ()
    """,
    "the first of casts that undo each other": """
      %d = quant.dcast %x {KEPT} : tensor<3x2x!q> to tensor<3x2xf32>
      %t = quant.qcast %d : tensor<3x2xf32> to tensor<3x2x!q>
      "test.use"(%t) : (tensor<3x2x!q>) -> ()
    """,
    "the second of casts that undo each other": """
      %d = quant.scast %x : tensor<3x2x!q> to tensor<3x2xi8>
      %t = quant.scast %d {KEPT} : tensor<3x2xi8> to tensor<3x2x!q>
      "test.use"(%t) : (tensor<3x2x!q>) -> ()
    """,
    "a shape op above a cast": """
      %s = tensor.extract_slice %f[0, 0] [2, 1] [1, 1] {KEPT} : tensor<3x2xf32> to tensor<2x1xf32>
      %t = quant.qcast %s : tensor<2x1xf32> to tensor<2x1x!q>
      "test.use"(%t) : (tensor<2x1x!q>) -> ()
    """,
}

PASSES: list[ModulePass] = [
    FoldQuantShapesPass(),
    FoldConstantShapesPass(),
    CanonicalizePass(),
    HoistQuantShapesPass(),
    SinkQuantShapesPass(),
    ElideRoundTripsPass(),
    RaiseDequantizationPass(),
]


def read(text: str) -> tuple[ModuleOp, ToolContext]:
    context = ToolContext(allow_unregistered=True)
    module = LocatingParser(context, text).parse_module()
    module.verify()
    return module, context


def text_of(body: str, kept: str) -> str:
    return (
        (
            "!q = !quant.uniform<i8:f32, 0.5>\n"
            f"func.func @f(%x: tensor<3x2x!q>, %f: tensor<3x2xf32>) {{{body}return\n}}"
        )
        .replace("{KEPT}", f"{{{kept}}}" if kept else "")
        .replace(", KEPT", f", {kept}" if kept else "")
    )


@pytest.mark.parametrize("body", BODIES)
def test_every_pass_leaves_it(body: str):
    for each in PASSES:
        for sharding in SHARDINGS:
            module, context = read(text_of(BODIES[body], f'{sharding} = "{{replicated}}"'))
            before = str(module)
            each.apply(context, module)
            left = [op for op in module.walk() if sharding in {*op.attributes, *op.properties}]
            assert len(left) == 1, f"{each.name} drops it"
            # What it is about is as large as it was.
            (value,) = left[0].results
            assert any(line.strip().endswith(str(value.type)) for line in before.splitlines())


@pytest.mark.parametrize("body", BODIES)
def test_some_pass_drops_it_otherwise(body: str):
    text, ops = text_of(BODIES[body], "other = 1 : i64"), list[bool]()
    for each in PASSES:
        module, context = read(text)
        before = list(map(name_of, module.walk()))
        each.apply(context, module)
        ops.append(list(map(name_of, module.walk())) != before)
    assert any(ops)


@pytest.mark.parametrize(
    ("body", "module_pass"),
    [
        ("a shape op of a constant", FoldQuantShapesPass()),
        ("a constant", FoldQuantShapesPass()),
        ("the first of casts that undo each other", ElideRoundTripsPass()),
        ("a shape op above a cast", SinkQuantShapesPass()),
    ],
)
def test_refusals_have_the_code(body: str, module_pass: ModulePass):
    module, context = read(text_of(BODIES[body], 'mhlo.sharding = "{replicated}"'))
    module_pass.apply(context, module)
    (record,) = (record for report in context.fold_reports for record in report.records)
    assert (record.outcome, record.code) == (Outcome.REFUSED, RefusalCode.KEPT)
