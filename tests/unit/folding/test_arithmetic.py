"""
Shape ops after dequantizing arithmetic, as exporters write it.

The folded module must compute the values that numpy computes when the module is drawn, and that
an evaluator without code of the package computes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

import numpy as np
import pytest
from dequantizing_arithmetic import (
    FORMS,
    Array,
    Module,
    Numbers,
    Shape,
    Text,
    bits_of,
    dense,
    in_stablehlo,
    numbers_to_dequantize,
    tensor,
)
from evaluator import evaluate
from hypothesis import given, note
from hypothesis import strategies as st
from moved_texts import KEEP_SEPARABLE, MOVES, Mover, padded

from qdialect.check.compared_modules import Side
from qdialect.check.comparison import compare_modules
from qdialect.folding.apply import apply
from qdialect.folding.plan import plan
from qdialect.folding.plan_json import plan_of_json, plans_to_json
from qdialect.folding.policy import FoldPolicy
from qdialect.folding.report import Outcome
from qdialect.ops.interface import RefusalCode
from qdialect.passes.dequantization import RaiseDequantizationPass
from qdialect.passes.fold_quant_shapes import FoldConstantShapesPass, FoldQuantShapesPass

pytestmark = pytest.mark.usefixtures("without_plugins")


def any_scales(random: np.random.Generator, shape: Shape) -> Array:
    """Also negative ones, which no quantized type has."""
    return random.uniform(-2, 2, shape)


numbers = numbers_to_dequantize(any_scales, zero_points=range(-100, 100))


def moved_text(
    of: Numbers, form: str, moves: Sequence[Mover], data: st.DataObject
) -> tuple[str, Array]:
    """A function with some shape ops behind arithmetic, and what it returns."""
    text = Text()
    name, expected = FORMS[form](text, of), of.floats
    for move in data.draw(st.lists(st.sampled_from(moves), min_size=1, max_size=3)):
        name, expected = move(text, name, expected, data)
    whole = text.function(name, expected)
    note(whole)
    return whole, expected


@given(numbers, st.sampled_from(sorted(FORMS)), st.data())
def test_values_are_kept(of: Numbers, form: str, data: st.DataObject):
    whole, expected = moved_text(of, form, (*MOVES, padded), data)
    before, after = Module(whole), Module(whole)
    assert before.bits() == bits_of(expected)
    growth = data.draw(st.sampled_from([None, 0, 1 << 16]))
    after.run(FoldQuantShapesPass(verify="values", max_parameter_growth=growth))
    note(after.printed())
    assert after.bits() == bits_of(expected)
    once = after.printed()
    sides = [Side(each.module, each.context) for each in (before, after)]
    assert not compare_modules(*sides, runs=2).findings
    after.run(FoldQuantShapesPass())
    assert after.printed() == once


@given(numbers, st.sampled_from(sorted(FORMS)), st.data())
def test_plans_are_applied_to_other_modules(of: Numbers, form: str, data: st.DataObject):
    whole, _ = moved_text(of, form, (*MOVES, padded), data)
    folded, other = Module(whole), Module(whole)
    stored = plans_to_json([plan(other.module, other.context, FoldPolicy())])
    apply(plan_of_json(stored, other.context), other.module, other.context)
    folded.run(FoldQuantShapesPass())
    assert other.printed() == folded.printed()


def collapsed_and_transposed(
    text: Text, dialect: str, name: str, array: Array
) -> tuple[str, Array]:
    """The first two of three axes as one, and then the last axis first, in ops of a dialect."""
    merged = array.reshape(-1, array.shape[2])
    moved = merged.T
    order = "array<i64: 1, 0>"
    if dialect == "stablehlo":
        name = text.emit(merged, "stablehlo.reshape", (name, array))
        extra = f"{{permutation = {order}}}"
        return text.emit(moved, "stablehlo.transpose", (name, merged), extra=extra), moved
    if dialect == "tosa":
        shape, type = text.shape(merged.shape)
        text.lines.append(
            f'%merged = "tosa.reshape"({name}, {shape}) '
            f": ({tensor(array)}, {type}) -> {tensor(merged)}"
        )
        extra = "<{perms = array<i32: 1, 0>}>"
        return text.emit(moved, "tosa.transpose", ("%merged", merged), extra=extra), moved
    text.lines.append(
        f"%merged = tensor.collapse_shape {name} [[0, 1], [2]] "
        f": {tensor(array)} into {tensor(merged)}"
    )
    text.lines.append(f"%empty = tensor.empty() : {tensor(moved)}")
    text.lines.append(
        f"%moved = linalg.transpose ins(%merged : {tensor(merged)}) "
        f"outs(%empty : {tensor(moved)}) permutation = [1, 0]"
    )
    return "%moved", moved


@pytest.mark.parametrize(
    ("form", "reshape"),
    [
        ("stablehlo", "stablehlo.reshape"),
        ("tosa", "tosa.reshape"),
        ("linalg, in one", "tensor.collapse_shape"),
        ("linalg, in several", "tensor.collapse_shape"),
    ],
)
def test_of_a_reshape_from_blocks_and_a_transpose_one_op_is_left(form: str, reshape: str):
    codes = np.arange(-40, 80, dtype=np.int8).reshape(4, 5, 6)
    zero_points = np.arange(24, dtype=np.int8).reshape(4, 1, 6)
    of = Numbers(codes, zero_points, np.arange(1, 25, dtype=np.float32).reshape(4, 1, 6) / 8)
    text = Text()
    name, dialect = FORMS[form](text, of), reshape.partition(".")[0]
    name, moved = collapsed_and_transposed(text, dialect, name, of.floats)
    whole = text.function(name, moved)
    module = Module(whole)
    report = module.run(FoldQuantShapesPass(verify="values"))
    assert module.bits() == bits_of(moved)
    assert module.ops.count(reshape) == 1
    assert not [op for op in module.ops if op.endswith("transpose")]
    assert size(module.printed()) < size(Module(whole).printed())
    (left,) = (each for each in report.records if each.outcome is Outcome.REFUSED)
    assert (left.op_name, left.code) == (reshape, RefusalCode.PARAMETER_GROWTH)
    assert "'--raise-dequantization' first removes it" in left.reason
    once = module.printed()
    module.run(FoldQuantShapesPass())
    assert module.printed() == once
    refused = [
        each.reason
        for each in Module(whole).run(FoldConstantShapesPass()).records
        if each.code is RefusalCode.PARAMETER_GROWTH
    ]
    hint = "'--raise-dequantization' before '--fold-quant-shapes' removes it"
    assert all(reason.endswith(hint) for reason in refused)
    assert refused
    raised = Module(whole)
    raised.run(RaiseDequantizationPass())
    raised.run(FoldQuantShapesPass(verify="values"))
    assert raised.bits() == bits_of(moved)
    assert {reshape, "stablehlo.transpose", "tosa.transpose"}.isdisjoint(raised.ops)
    assert "linalg.transpose" not in raised.ops


@given(numbers, st.sampled_from(sorted(FORMS)), st.data())
def test_what_raising_is_said_to_remove_is_removed(of: Numbers, form: str, data: st.DataObject):
    whole, expected = moved_text(of, form, MOVES, data)
    told, raised = Module(whole), Module(whole)
    same_ops = dict(zip(told.module.walk(), raised.module.walk(), strict=True))
    report = told.run(FoldQuantShapesPass())
    raised.run(RaiseDequantizationPass())
    raised.run(FoldQuantShapesPass(verify="values"))
    assert raised.bits() == bits_of(expected)
    for record in report.records:
        if "--raise-dequantization" in record.reason:
            note(f"{record.op_name}: {record.reason}\n{raised.printed()}")
            assert same_ops[record.op].parent is None


@given(numbers, st.sampled_from(sorted(FORMS)), st.data())
def test_nothing_is_left_that_moves_scales_of_axes(of: Numbers, form: str, data: st.DataObject):
    whole, _ = moved_text(of, form, KEEP_SEPARABLE, data)
    module = Module(whole)
    report = module.run(FoldQuantShapesPass())
    note(module.printed())
    refused = {record.op_name for record in report.records if record.outcome is Outcome.REFUSED}
    # A transpose that moves nothing is dropped, and what is broadcast before it stays.
    assert refused <= {"mhlo.broadcast_in_dim", "stablehlo.broadcast_in_dim"}
    assert {"stablehlo.transpose", "tosa.reverse", "stablehlo.slice"}.isdisjoint(module.ops)
    assert size(module.printed()) <= size(Module(whole).printed())


def size(text: str) -> int:
    """The number of characters but brackets, whose number depends on the shape."""
    return len(text) - text.count("[") - text.count("]")


NEAR_MISSES = {
    "%f = arith.mulf %r, %s : tensor<4x2xf32>\n%v = arith.mulf %f, %s : tensor<4x2xf32>": "twice",
    "%f = arith.mulf %r, %s : tensor<4x2xf32>\n%v = arith.addf %f, %s : tensor<4x2xf32>": "adds",
    "%v = arith.mulf %r, %s fastmath<fast> : tensor<4x2xf32>": "fast-math",
    "%v = arith.subf %r, %half : tensor<4x2xf32>": "a zero point is not an integer",
    "%n = arith.subi %w, %w : tensor<4x2xi8>\n"
    "%v = arith.sitofp %n : tensor<4x2xi8> to tensor<4x2xf32>": "may wrap",
    "%n = arith.subi %w, %w : tensor<4x2xi8>\n"
    "%m = arith.sitofp %n : tensor<4x2xi8> to tensor<4x2xf64>\n"
    "%v = arith.truncf %m : tensor<4x2xf64> to tensor<4x2xf32>": "may wrap in 8 bits",
    "%m = arith.maximumf %r, %half : tensor<4x2xf32>\n"
    "%v = arith.mulf %m, %s : tensor<4x2xf32>": "'arith.maximumf' is not part of a dequantization",
    '%m = "stablehlo.clamp"(%half, %r, %s) '
    ": (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>\n"
    '%n = "stablehlo.multiply"(%s, %m) '
    ": (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>\n"
    '%v = "stablehlo.convert"(%n) '
    ": (tensor<4x2xf32>) -> tensor<4x2xf32>": "'stablehlo.clamp' is not part of a dequantization",
}


@pytest.mark.parametrize(("arithmetic", "reason"), NEAR_MISSES.items(), ids=NEAR_MISSES.values())
def test_what_is_no_exact_dequantization_is_left(arithmetic: str, reason: str):
    text = f"""
    func.func @f(%init: tensor<2x4xf32>) -> tensor<2x4xf32> {{
      %w = arith.constant dense<[[1, -128], [3, 4], [5, 6], [7, 127]]> : tensor<4x2xi8>
      %s = arith.constant dense<[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]]> : tensor<4x2xf32>
      %half = arith.constant dense<0.5> : tensor<4x2xf32>
      %r = arith.sitofp %w : tensor<4x2xi8> to tensor<4x2xf32>
      {arithmetic}
      %t = linalg.transpose ins(%v : tensor<4x2xf32>)
        outs(%init : tensor<2x4xf32>) permutation = [1, 0]
      return %t : tensor<2x4xf32>
    }}
    """
    module = Module(text)
    before = module.printed()
    (record,) = module.run(FoldQuantShapesPass()).records
    assert record.code is RefusalCode.ARITHMETIC
    assert reason in record.reason
    assert module.printed() == before


RAISING = RaiseDequantizationPass()

SHORT_FLOATS = """
func.func @f() -> tensor<3x2xf32> {
  %init = tensor.empty() : tensor<3x2xf32>
  %w = arith.constant dense<[[1.0, -448.0, 0.5], [2.0, 0.0625, -0.0]]> : tensor<2x3xf8E4M3FN>
  %s = arith.constant dense<[[0.1, 0.1, 0.1], [0.3, 0.3, 0.3]]> : tensor<2x3xf32>
  %t = arith.constant dense<[[0.5, 0.5, 0.5], [2.0, 2.0, 2.0]]> : tensor<2x3xf8E4M3FN>
  %r = arith.extf %w : tensor<2x3xf8E4M3FN> to tensor<2x3xf32>
  %q = arith.extf %t : tensor<2x3xf8E4M3FN> to tensor<2x3xf32>
  %v = ARITHMETIC : tensor<2x3xf32>
  %o = linalg.transpose ins(%v : tensor<2x3xf32>)
    outs(%init : tensor<3x2xf32>) permutation = [1, 0]
  return %o : tensor<3x2xf32>
}
"""


@pytest.mark.parametrize("arithmetic", ["arith.mulf %r, %s", "arith.mulf %s, %r"])
def test_short_floats_are_moved_with_their_scales(arithmetic: str):
    module = Module(SHORT_FLOATS.replace("ARITHMETIC", arithmetic))
    module.run(FoldQuantShapesPass(verify="values"))
    assert "linalg.transpose" not in module.ops
    held = re.findall(r"dense<(\[\[.*?\]\])>", module.printed())
    weight, scales = [[1.0, 2.0], [-448.0, 0.0625], [0.5, -0.0]], [[0.1, 0.3]] * 3
    found = [str(json.loads(each)) for each in held]
    assert str(weight) in found
    assert str(scales) in found
    raised = Module(SHORT_FLOATS.replace("ARITHMETIC", arithmetic))
    raised.run(RAISING)
    # The scales are those of f32.
    assert "f8E4M3FN:f32:0, {0.10000000149011612,0.30000001192092896}" in raised.printed()


@pytest.mark.parametrize(
    ("arithmetic", "reason"),
    [("arith.mulf %r, %q", "short floats"), ("arith.subf %r, %s", "it subtracts from floats")],
)
def test_what_else_short_floats_are_computed_with_is_left(arithmetic: str, reason: str):
    module = Module(SHORT_FLOATS.replace("ARITHMETIC", arithmetic))
    (record,) = module.run(FoldQuantShapesPass()).records
    assert record.code is RefusalCode.ARITHMETIC
    assert reason in record.reason


def test_large_scales_stay_small():
    """What only feeds arithmetic is not repeated, and is left behind its broadcast."""
    of = Numbers(np.ones((64, 32), np.int8), None, np.arange(1, 33, dtype=np.float32)[None] / 64)
    text = Text()
    name = in_stablehlo(text, of)
    module = Module(text.function(name, of.floats))
    before = module.printed()
    (record,) = module.run(FoldQuantShapesPass()).records
    assert record.code is RefusalCode.GROWTH
    assert math.prod(of.codes.shape) * 4 - 32 * 4 == 8064
    assert "8064 bytes" in record.reason
    assert module.printed() == before


def test_a_bias_stays_small_before_its_broadcast():
    module = Module("""
      func.func @f(%x: tensor<2x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
        %bias = arith.constant dense<[[1, 2]]> : tensor<1x2xi32>
        %scale = arith.constant dense<0.5> : tensor<1x2xf32>
        %real = arith.sitofp %bias : tensor<1x2xi32> to tensor<1x2xf32>
        %float = arith.mulf %real, %scale : tensor<1x2xf32>
        %row = tensor.collapse_shape %float [[0, 1]] : tensor<1x2xf32> into tensor<2xf32>
        %rows = linalg.broadcast ins(%row : tensor<2xf32>) outs(%init : tensor<2x2xf32>)
          dimensions = [0]
        %sum = arith.addf %x, %rows : tensor<2x2xf32>
        return %sum : tensor<2x2xf32>
      }""")
    module.run(FoldQuantShapesPass())
    assert "dense<[1, 2]> : tensor<2xi32>" in module.printed()
    assert "linalg.broadcast" in module.printed()
    assert "collapse_shape" not in module.printed()
    module.run(FoldQuantShapesPass(max_repetition=16))
    assert "linalg.broadcast" not in module.printed()


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("codes", [[7, 9], [7, 7, 9]])
def test_equal_elements_are_repeated_in_the_first_run(form: str, codes: list[int]) -> None:
    """A part whose elements are all the same is a splat to the next run, and so to the first."""
    of = Numbers(np.array(codes, np.int8), None, np.array([0.5], np.float32))
    text, count = Text(), len(codes) - 1
    part = of.floats[:count]
    limits = f"start_indices = array<i64: 0>, limit_indices = array<i64: {count}>"
    whole = FORMS[form](text, of), of.floats
    name = text.emit(part, "stablehlo.slice", whole, extra=f"{{{limits}, strides = array<i64: 1>}}")
    twice = np.concatenate([part, part])
    name = text.emit(
        twice, "stablehlo.concatenate", (name, part), (name, part), extra="{dimension = 0 : i64}"
    )
    module = Module(text.function(name, twice))
    report = module.run(FoldQuantShapesPass(verify="values"))
    assert module.bits() == bits_of(twice)
    assert "stablehlo.concatenate" not in module.ops
    # A splat takes no bytes, as in the next run.
    assert report.bytes_after == 0
    once = module.printed()
    module.run(FoldQuantShapesPass())
    assert module.printed() == once


TURNED = "{permutation = array<i64: 1, 0>}"
BACK_AND_FORTH = [
    f'%t = "stablehlo.transpose"(%d) {TURNED} : (tensor<3x4xf32>) -> tensor<4x3xf32>',
    f'%u = "stablehlo.transpose"(%t) {TURNED} : (tensor<4x3xf32>) -> tensor<3x4xf32>',
]


@pytest.mark.parametrize(
    ("ops", "returned", "folded"),
    [
        # An unused op, and one that undoes another, keep nothing alive.
        (BACK_AND_FORTH, "%t : tensor<4x3xf32>", 1),
        # The value that a later op restores is the source: it stays, and the copy is one more.
        (
            [
                *BACK_AND_FORTH,
                '%r = "stablehlo.reverse"(%u) {dimensions = array<i64: 1>} '
                ": (tensor<3x4xf32>) -> tensor<3x4xf32>",
            ],
            "%t, %r : tensor<4x3xf32>, tensor<3x4xf32>",
            0,
        ),
        # Both operands of one op are one user.
        (
            [
                '%t = "stablehlo.slice"(%d) {start_indices = array<i64: 0, 0>, limit_indices = '
                "array<i64: 1, 4>, strides = array<i64: 1, 1>} "
                ": (tensor<3x4xf32>) -> tensor<1x4xf32>",
                '%r = "stablehlo.concatenate"(%t, %t) {dimension = 0 : i64} '
                ": (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>",
            ],
            "%r : tensor<2x4xf32>",
            1,
        ),
    ],
)
def test_without_growth_only_what_is_used_keeps_a_source(
    ops: list[str], returned: str, folded: int
) -> None:
    codes = np.arange(12, dtype=np.int8).reshape(3, 4)
    type = "tensor<3x4x!quant.uniform<i8:f32, 0.5>>"
    lines = [
        f"%w = arith.constant {dense(codes)}",
        f"%q = quant.scast %w : tensor<3x4xi8> to {type}",
        f"%d = quant.dcast %q : {type} to tensor<3x4xf32>",
        *ops,
    ]
    types = returned.partition(" : ")[2]
    body = "\n".join(lines)
    module = Module(f"func.func @f() -> ({types}) {{\n{body}\nreturn {returned}\n}}")
    values = [each.bits.tolist() for each in evaluate(module.module, "f", [], lambda key: None)]
    report = module.run(FoldQuantShapesPass(max_growth=0, max_repetition=1 << 10))
    after = [each.bits.tolist() for each in evaluate(module.module, "f", [], lambda key: None)]
    assert after == values
    assert report.bytes_after <= report.bytes_before
    assert sum(op.startswith("arith.constant") for op in module.ops) == 1
    assert [r.outcome for r in report.records].count(Outcome.FOLDED) >= folded
    once = module.printed()
    module.run(FoldQuantShapesPass(max_growth=0, max_repetition=1 << 10))
    assert module.printed() == once
