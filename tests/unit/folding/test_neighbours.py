"""Neighbouring constants of a concatenation that has other operands too become one."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from checked_modules import findings
from evaluator import Value, element_of, evaluate, shape_of
from example_counts import examples
from hypothesis import given, note
from hypothesis import strategies as st
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.check.compared_modules import Side
from qdialect.folding.apply import apply
from qdialect.folding.fold_plan import PlanError
from qdialect.folding.plan import plan
from qdialect.folding.plan_json import plan_of_json, plans_to_json
from qdialect.folding.policy import FoldPolicy
from qdialect.folding.report import Outcome, PassRecord
from qdialect.ops.interface import RefusalCode, elements_attribute_of, find_attribute, name_of
from qdialect.opt.registry import ToolContext
from qdialect.passes.fold_quant_shapes import FoldConstantShapesPass, FoldQuantShapesPass
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

pytestmark = pytest.mark.usefixtures("without_plugins")

CONCATS = {
    "tensor.concat": "dim = {axis} : i64",
    "tosa.concat": "axis = {axis} : i32",
    "stablehlo.concatenate": "dimension = {axis} : i64",
    "mhlo.concatenate": "dimension = {axis} : i64",
    "tfl.concatenation": 'axis = {axis} : i32, fused_activation_function = "NONE"',
    "onnx.Concat": "axis = {axis} : si64",
    "quant.concat": "dim = {axis} : i64",
}
OF_ONE_ELEMENT_TYPE = ("tensor.concat",)
"""Their operands cannot have scales of their own on the axis."""

SCALES = (0.5, 0.25, 0.125)

SHARED = "shared"


@dataclass
class Operand:
    """An operand of the concatenation."""

    kind: str
    name: str
    shape: tuple[int, int]
    type: str
    lines: Sequence[str]
    slot: str = ""


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def uniform(shape: tuple[int, int], axis: int, scales: Sequence[float]) -> str:
    return f"!quant.uniform<i8:f32:{axis}, {{{','.join(map(str, scales))}}}>"


@st.composite
def operands(draw: st.DrawFn, number: int, axis: int, element: str) -> Operand:
    kinds = {
        "f32": ("argument", "constant", "cast", "cast", "moved", "computed", "splat", SHARED),
        "i8": ("argument", "constant", "constant", "splat"),
        "quantized": ("argument", "constant", "constant"),
    }
    kind = draw(st.sampled_from(kinds[element]))
    length = draw(st.integers(1, 3))
    shape = (length, 2) if axis == 0 else (2, length)
    size, name = 2 * length, f"%v{number}"
    integers = draw(st.lists(st.integers(-9, 9), min_size=size, max_size=size))
    integers[0] = 11
    codes = f"dense<{np.array(integers).reshape(shape).tolist()}> : {tensor(shape, 'i8')}"
    if element == "quantized":
        scales = draw(st.lists(st.sampled_from(SCALES), min_size=length, max_size=length))
        type = tensor(shape, uniform(shape, axis, scales))
        text = ",".join(map(str, scales))
        if kind == "argument":
            return Operand(kind, name, shape, type, (), text)
        line = f'{name} = "quant.constant"() <{{value = {codes}}}> : () -> {type}'
        return Operand(kind, name, shape, type, [line], text)
    type = tensor(shape, element)
    if kind == "argument":
        return Operand(kind, name, shape, type, ())
    if kind == "splat":
        value = f"{draw(st.integers(0, 2))}{'' if element == 'i8' else '.0'}"
        return Operand(
            kind, name, shape, type, [f"{name} = arith.constant dense<{value}> : {type}"]
        )
    if element == "i8":
        return Operand(kind, name, shape, type, [f"{name} = arith.constant {codes}"])
    floats = f"dense<{np.array(integers, np.float64).reshape(shape).tolist()}> : {type}"
    if kind in ("constant", SHARED):
        return Operand(kind, name, shape, type, [f"{name} = arith.constant {floats}"])
    if kind == "moved":
        turned = tensor(shape[::-1], "f32")
        floats = f"dense<{np.array(integers, np.float64).reshape(shape[::-1]).tolist()}> : {turned}"
        lines = [
            f"{name}c = arith.constant {floats}",
            f"{name} = tosa.transpose {name}c {{perms = array<i32: 1, 0>}} : ({turned}) -> {type}",
        ]
        return Operand("constant", name, shape, type, lines)
    stored = tensor(shape, "i8")
    if kind == "computed":
        lines = [
            f"{name}c = arith.constant {codes}",
            f"{name}s = arith.constant dense<0.5> : {type}",
            f"{name}f = arith.sitofp {name}c : {stored} to {type}",
            f"{name} = arith.mulf {name}f, {name}s : {type}",
        ]
        return Operand(kind, name, shape, type, lines)
    scale = draw(st.sampled_from(SCALES[: draw(st.integers(1, 3))]))
    quantized = tensor(shape, f"!quant.uniform<i8:f32, {scale}:1>")
    lines = [
        f"{name}c = quant.constant {codes.partition(' :')[0]} : {quantized}",
        f"{name} = quant.dcast {name}c : {quantized} to {type}",
    ]
    return Operand(kind, name, shape, type, lines, str(scale))


@dataclass
class Concatenation:
    """A function that returns a concatenation."""

    op: str
    axis: int
    element: str
    operands: Sequence[Operand]

    @property
    def text(self) -> str:
        each = self.operands
        args = ", ".join(f"{o.name}: {o.type}" for o in each if o.kind == "argument")
        length = sum(o.shape[self.axis] for o in each)
        shape = (length, 2) if self.axis == 0 else (2, length)
        element = self.element
        if element == "quantized":
            scales = [float(one) for o in each for one in o.slot.split(",")]
            element = uniform(shape, self.axis, scales)
        lines = [line for o in each for line in o.lines]
        shared = [o for o in each if o.kind == SHARED]
        types = ", ".join([tensor(shape, element), *(o.type for o in shared)])
        names = ", ".join(["%r", *(o.name for o in shared)])
        attributes = CONCATS[self.op].format(axis=self.axis)
        lines.append(
            f'%r = "{self.op}"({", ".join(o.name for o in each)}) {{{attributes}}} : '
            f"({', '.join(o.type for o in each)}) -> {tensor(shape, element)}"
        )
        body = "\n  ".join(lines)
        return f"func.func @f({args}) -> ({types}) {{\n  {body}\n  return {names} : {types}\n}}\n"

    @property
    def left(self) -> int | None:
        """How many operands are left; None where it depends on what joined types cost."""
        count, before = 0, None
        for each in self.operands:
            kind = None if each.kind in ("argument", "splat", SHARED) else (each.kind, each.slot)
            if each.kind == "splat" or (
                kind
                and before
                and kind[0] == before[0]
                and kind != before
                and self.element != "quantized"
            ):
                return None
            if self.element == "quantized" and kind:
                kind = kind[0], ""
            count += kind is None or kind != before
            before = kind
        return count


@st.composite
def concatenations(draw: st.DrawFn) -> Concatenation:
    op = draw(st.sampled_from(sorted(CONCATS)))
    plain = [] if op == "quant.concat" else ["f32", "f32", "i8"]
    quantized = [] if op in OF_ONE_ELEMENT_TYPE else ["quantized"]
    element = draw(st.sampled_from([*plain, *quantized]))
    axis = draw(st.integers(0, 1))
    count = draw(st.integers(2, 6))
    drawn = [draw(operands(number, axis, element)) for number in range(count)]
    at = draw(st.integers(0, count))
    shape = (1, 2) if axis == 0 else (2, 1)
    type = uniform(shape, axis, [0.5]) if element == "quantized" else element
    drawn.insert(at, Operand("argument", "%x", shape, tensor(shape, type), (), "0.5"))
    return Concatenation(op, axis, element, drawn)


@dataclass
class Module:
    """A module that was read, and who listens to its folds."""

    module: ModuleOp
    context: ToolContext

    @property
    def side(self) -> Side:
        return Side(self.module, self.context)


def read(text: str) -> Module:
    context = ToolContext(allow_unregistered=True)
    module = LocatingParser(context, text).parse_module()
    module.verify()
    return Module(module, context)


def printed(module: ModuleOp) -> str:
    stream = io.StringIO()
    MLIRPrinter(stream=stream, print_generic_format=True).print_op(module)
    return stream.getvalue()


def function_of(module: ModuleOp) -> FuncOp:
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    return function


def concat_of(module: ModuleOp) -> Operation:
    (op,) = (op for op in module.walk() if name_of(op) in CONCATS)
    return op


def arguments_of(module: ModuleOp) -> list[Value]:
    """Another number for each element."""
    made: list[Value] = []
    for number, type in enumerate(function_of(module).function_type.inputs.data):
        shape = shape_of(type)
        first = 16 * number + 1
        bits = np.arange(first, first + math.prod(shape), dtype=np.uint64).reshape(shape)
        made.append(Value(element_of(type), bits, np.ones(shape, bool)))
    return made


def computed(module: ModuleOp) -> list[list[int]]:
    values = evaluate(module, "f", arguments_of(module), lambda key: None)
    assert all(value.known.all() for value in values)
    return [value.bits.tolist() for value in values]


def bytes_in(module: ModuleOp) -> int:
    """The bytes of all elements, one for a splat."""
    held = [
        find_attribute(op, elements_attribute_of(op) or "")
        for op in module.walk()
        if elements_attribute_of(op)
    ]
    total = 0
    for each in held:
        if isinstance(each, DenseIntOrFPElementsAttr):
            dense = cast("DenseIntOrFPElementsAttr[Any]", each)
            nbytes = len(dense.data.data)
            total += nbytes // math.prod(dense.get_shape()) if dense.is_splat() else nbytes
    return total


@examples(150)
@given(concatenations(), st.sampled_from(["none", "structure", "values"]))
def test_random_concatenations(drawn: Concatenation, verify: str):
    text = drawn.text
    note(text)
    side = read(text)
    context, module = side.context, side.module
    before, bytes_before, unchanged = computed(module), bytes_in(module), printed(module)
    made = plan(module, context, FoldPolicy())
    assert printed(module) == unchanged
    FoldQuantShapesPass(verify=verify).apply(context, module)
    module.verify()
    assert computed(module) == before
    assert bytes_in(module) <= bytes_before
    op = concat_of(module)
    if drawn.left is not None:
        assert len(op.operands) == drawn.left
    assert not findings(text, side.side)
    (report,) = context.fold_reports
    check_records(op, drawn, [r for r in report.records if r.op is op])
    folded = printed(module)
    FoldQuantShapesPass().apply(context, module)
    assert printed(module) == folded
    again = read(text)
    apply(plan_of_json(plans_to_json([made]), again.context), again.module, again.context)
    assert printed(again.module) == folded


def check_records(op: Operation, drawn: Concatenation, records: Sequence[PassRecord]) -> None:
    """The op is kept, and the fold of its operands is reported."""
    assert [r.outcome for r in records if r.operands is None] == [Outcome.REFUSED]
    joined = [r for r in records if r.operands is not None]
    gone = 0
    for record in joined:
        assert record.operands is not None
        first, last = record.operands
        assert record.stands in op.operands
        assert record.stands is op.operands[first - gone]
        assert len(record.sources) == last - first + 1
        assert not any(each.kind in ("argument", SHARED) for each in drawn.operands[first:last])
        gone += last - first
    assert len(op.operands) == len(drawn.operands) - gone


SHAPES = """
func.func @f(%x: tensor<1xf32>) -> (tensor<4xf32>, tensor<1xf32>) {
  %a = arith.constant dense<1.5> : tensor<1xf32>
  %b = arith.constant dense<[2.5, 3.5]> : tensor<2xf32>
  %r = "tosa.concat"(%a, %b, %x) {axis = 0 : i32MORE}
    : (tensor<1xf32>, tensor<2xf32>, tensor<1xf32>) -> tensor<4xf32>
  return %r, %a : tensor<4xf32>, tensor<1xf32>
}
"""


def test_what_another_op_uses_is_not_copied():
    side = read(SHAPES.replace("MORE", ""))
    unchanged = printed(side.module)
    FoldQuantShapesPass().apply(side.context, side.module)
    assert printed(side.module) == unchanged


def test_an_op_that_is_kept_keeps_its_operands():
    alone = SHAPES.replace("return %r, %a", "return %r, %x")
    side = read(alone.replace("MORE", ', mhlo.sharding = "{replicated}"'))
    unchanged = printed(side.module)
    FoldQuantShapesPass().apply(side.context, side.module)
    assert printed(side.module) == unchanged
    (record,) = side.context.fold_reports[0].records
    assert record.code is RefusalCode.KEPT


def test_constants_alone_are_joined_beside_quantized_ones():
    text = """
    !q = !quant.uniform<i8:f32, 0.5>
    func.func @f() -> tensor<4xf32> {
      %a = arith.constant dense<[1.5]> : tensor<1xf32>
      %b = arith.constant dense<[2.5, 3.5]> : tensor<2xf32>
      %c = quant.constant dense<[1]> : tensor<1x!q>
      %d = quant.dcast %c : tensor<1x!q> to tensor<1xf32>
      %r = tensor.concat dim(0) %d, %a, %b
        : (tensor<1xf32>, tensor<1xf32>, tensor<2xf32>) -> tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    for each in (FoldQuantShapesPass(), FoldConstantShapesPass()):
        side = read(text)
        each.apply(side.context, side.module)
        assert len(concat_of(side.module).operands) == 2
        assert not findings(text, side.side)


def test_quantized_neighbours_are_not_joined_by_the_fold_of_what_is_not():
    side = read(SHAPES.replace("MORE", "").replace("return %r, %a", "return %r, %x"))
    FoldConstantShapesPass().apply(side.context, side.module)
    assert len(concat_of(side.module).operands) == 2
    text = """
    !q = !quant.uniform<i8:f32, 0.5>
    func.func @f(%x: tensor<1x!q>) -> tensor<3x!q> {
      %a = quant.constant dense<[1]> : tensor<1x!q>
      %b = quant.constant dense<[2]> : tensor<1x!q>
      %r = quant.concat dim(0) %x, %a, %b
        : (tensor<1x!q>, tensor<1x!q>, tensor<1x!q>) -> tensor<3x!q>
      return %r : tensor<3x!q>
    }"""
    side = read(text)
    FoldConstantShapesPass().apply(side.context, side.module)
    assert len(concat_of(side.module).operands) == 3


def test_a_finer_type_is_no_operand_of_another_dialect():
    text = """
    !a = !quant.uniform<i8:f32, 0.5>
    !b = !quant.uniform<i8:f32, 0.25>
    !r = !quant.uniform<i8:f32:0, {0.5,0.5,0.25}>
    func.func @f(%x: tensor<1x!a>) -> tensor<3x!r> {
      %a = quant.constant dense<[1]> : tensor<1x!a>
      %b = quant.constant dense<[2]> : tensor<1x!b>
      %r = "OP"(%x, %a, %b) {ATTRIBUTES}
        : (tensor<1x!a>, tensor<1x!a>, tensor<1x!b>) -> tensor<3x!r>
      return %r : tensor<3x!r>
    }"""
    for op, left in (("mhlo.concatenate", 3), ("quant.concat", 2)):
        attributes = CONCATS[op].format(axis=0)
        side = read(text.replace("OP", op).replace("ATTRIBUTES", attributes))
        FoldQuantShapesPass().apply(side.context, side.module)
        assert len(concat_of(side.module).operands) == left


def test_limits_hold():
    text = """
    !a = !quant.uniform<i8:f32, 0.5>
    !b = !quant.uniform<i8:f32, 0.25>
    func.func @f(%x: tensor<1xf32>) -> tensor<3xf32> {
      %a = quant.constant dense<[1]> : tensor<1x!a>
      %b = quant.constant dense<[2]> : tensor<1x!b>
      %c = quant.dcast %a : tensor<1x!a> to tensor<1xf32>
      %d = quant.dcast %b : tensor<1x!b> to tensor<1xf32>
      %r = tensor.concat dim(0) %x, %c, %d
        : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<3xf32>
      return %r : tensor<3xf32>
    }"""
    for granularity, left in (("per-tensor", 3), ("per-axis", 2)):
        side = read(text)
        FoldQuantShapesPass(granularity=granularity).apply(side.context, side.module)
        assert len(concat_of(side.module).operands) == left
        assert not findings(text, side.side)


IN_A_LIST = """
func.func @f(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[6],f32> {
  %a = "torch.vtensor.literal"() {value = dense<[1.0]> : tensor<1xf32>}
    : () -> !torch.vtensor<[1],f32>
  %b = "torch.vtensor.literal"() {value = dense<[2.0]> : tensor<1xf32>}
    : () -> !torch.vtensor<[1],f32>
  %c = "torch.vtensor.literal"() {value = dense<[3.0]> : tensor<1xf32>}
    : () -> !torch.vtensor<[1],f32>
  %d = "torch.vtensor.literal"() {value = dense<[4.0]> : tensor<1xf32>}
    : () -> !torch.vtensor<[1],f32>
  %0 = "torch.constant.int"() {value = 0 : i64} : () -> !torch.int
  %l = "torch.prim.ListConstruct"(%a, %b, %x, %c, %d)
    : (!torch.vtensor<[1],f32>, !torch.vtensor<[1],f32>, !torch.vtensor<[2],f32>,
       !torch.vtensor<[1],f32>, !torch.vtensor<[1],f32>) -> !torch.list<vtensor>
  %r = "torch.aten.cat"(%l, %0) : (!torch.list<vtensor>, !torch.int) -> !torch.vtensor<[6],f32>
  MORE
  return %r : !torch.vtensor<[6],f32>
}"""


def test_neighbours_in_a_list_are_joined():
    side, planned = read(IN_A_LIST.replace("MORE", "")), read(IN_A_LIST.replace("MORE", ""))
    made = plan(planned.module, planned.context, FoldPolicy())
    assert [constant.name for constant in made.constants] == ["@f/%r[0:2]", "@f/%r[3:5]"]
    assert printed(planned.module) == printed(side.module)
    FoldQuantShapesPass(verify="values").apply(side.context, side.module)
    apply(made, planned.module, planned.context)
    assert printed(planned.module) == printed(side.module)
    (items,) = (op for op in side.module.walk() if name_of(op) == "torch.prim.ListConstruct")
    joined, _, others = items.operands
    for value, elements in ((joined, [1.0, 2.0]), (others, [3.0, 4.0])):
        held = find_attribute(cast(Operation, value.owner), "value")
        assert isinstance(held, DenseIntOrFPElementsAttr)
        assert list(held.get_values()) == elements
        assert str(value.type) == "!torch.vtensor<[2],f32>"


def test_a_list_that_another_op_takes_stays():
    other = '%s = "torch.aten.stack"(%l, %0) : (!torch.list<vtensor>, !torch.int) -> !torch.int'
    side = read(IN_A_LIST.replace("MORE", other))
    before = printed(side.module)
    FoldQuantShapesPass().apply(side.context, side.module)
    assert printed(side.module) == before


def test_a_plan_for_another_module_changes_nothing():
    alone = SHAPES.replace("MORE", "").replace("return %r, %a", "return %r, %x")
    side = read(alone)
    made = plan(side.module, side.context, FoldPolicy())
    (constant,) = made.constants
    assert constant.name == "@f/%r[0:2]"
    other = read(
        SHAPES.replace("MORE", "")
        .replace("%a, %b, %x)", "%a, %x, %b)")
        .replace(
            "(tensor<1xf32>, tensor<2xf32>, tensor<1xf32>)",
            "(tensor<1xf32>, tensor<1xf32>, tensor<2xf32>)",
        )
    )
    unchanged = printed(other.module)
    with pytest.raises(PlanError, match=r"no constant, cast or shape op @f/%r\[0:2\]"):
        apply(made, other.module, other.context)
    assert printed(other.module) == unchanged
