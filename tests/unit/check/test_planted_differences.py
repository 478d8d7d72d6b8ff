"""
`qdialect-check` finds differences of all kinds, planted one by one.

A model is text with arguments, constants, shape ops, ops that cannot be run, effects and
regions. Each difference replaces one part of it.
"""

from __future__ import annotations

import pytest
from checked_modules import findings, folded, grounds, read

from qdialect.check.comparison import compare_modules

# Real text has long lines.
# ruff: noqa: E501

pytestmark = pytest.mark.usefixtures("without_plugins")

MODEL = """
module attributes {my.target = "a", my.level = 1 : i32} {
"my.global"() <{name = "first", value = dense<[1, 2]> : tensor<2xi8>}> : () -> ()
"my.global"() <{name = "second", value = dense<[1, 2]> : tensor<2xi8>}> : () -> ()
func.func private @log(tensor<2x3xf32>)
func.func private @helper(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = arith.addf %x, %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
func.func private @effect(%x: tensor<2x3xf32>) {
  "my.store"(%x) {at = 3 : i32} : (tensor<2x3xf32>) -> ()
  return
}
func.func @constants() -> (tensor<3x2xf32>, tensor<2xi8>) attributes {my.tag = 0.0 : f32} {
  %q = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!quant.uniform<i8:f32:0, {0.5:1,0.25:3}>>
  %w = quant.dcast %q : tensor<2x3x!quant.uniform<i8:f32:0, {0.5:1,0.25:3}>> to tensor<2x3xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%w : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  %c = arith.constant dense<[7, 8]> : tensor<2xi8>
  %l = arith.constant dense<1.5> : tensor<2x3xf32>
  func.call @log(%l) : (tensor<2x3xf32>) -> ()
  "my.print"(%c) {text = "here"} : (tensor<2xi8>) -> ()
  return %t, %c : tensor<3x2xf32>, tensor<2xi8>
}
func.func @model(%x: tensor<4x2xf32> {my.arg = "in"}, %y: tensor<4x2xf32>, %b: i1, %n: index) -> (tensor<4x3xf32> {my.res = "out"}, tensor<4x4xf32>) {
  %q = quant.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2x!quant.uniform<i8:f32:0, {0.5:1,0.25:3,2.0:-5}>>
  %w = quant.dcast %q : tensor<3x2x!quant.uniform<i8:f32:0, {0.5:1,0.25:3,2.0:-5}>> to tensor<3x2xf32>
  %t = "stablehlo.transpose"(%w) <{permutation = array<i64: 1, 0>}> : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %d = "stablehlo.dot_general"(%x, %t) <{dims = #stablehlo.dot<lhs = [1], rhs = [0]>, precision = "high"}> : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %r = "stablehlo.reverse"(%y) <{dimensions = array<i64: 0>}> : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %o = arith.constant dense<2.0> : tensor<4x2xf32>
  %p = tensor.concat dim(1) %r, %o : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %z = arith.constant 0.0 : f32
  %h = tensor.extract_slice %y[0, 0] [2, 2] [1, 1] : tensor<4x2xf32> to tensor<2x2xf32>
  %g = tensor.pad %h low[1, 1] high[1, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<2x2xf32> to tensor<4x4xf32>
  %k = "stablehlo.tanh"(%p) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = arith.mulf %k, %g : tensor<4x4xf32>
  %m = "stablehlo.reduce"(%u, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a0: f32, %a1: f32):
    %s = "stablehlo.add"(%a0, %a1) : (f32, f32) -> f32
    "stablehlo.return"(%s) : (f32) -> ()
  }) : (tensor<4x4xf32>, f32) -> tensor<4xf32>
  %l = arith.constant dense<1.5> : tensor<2x3xf32>
  %v = func.call @helper(%l) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.call @effect(%v) : (tensor<2x3xf32>) -> ()
  %f = scf.if %b -> (tensor<4x4xf32>) {
    "my.print"(%m) {text = "then"} : (tensor<4xf32>) -> ()
    scf.yield %u : tensor<4x4xf32>
  } else {
    scf.yield %p : tensor<4x4xf32>
  }
  cf.assert %b, "it is true"
  "my.token"(%n, %d) : (index, tensor<4x3xf32>) -> ()
  return %d, %f : tensor<4x3xf32>, tensor<4x4xf32>
}
}
"""

DIFFERENCES = {
    "module attribute": ("my.level = 1", "my.level = 2"),
    "module attribute that is gone": (", my.level = 1 : i32", ""),
    "top: an attribute": ('"second", value = dense<[1, 2]>', '"second", value = dense<[1, 3]>'),
    "top: one that is gone": (
        '"my.global"() <{name = "second", value = dense<[1, 2]> : tensor<2xi8>}> : () -> ()\n',
        "",
    ),
    "top: the order": (
        '"my.global"() <{name = "first"',
        '"my.global"() <{name = "second", value = dense<[1, 2]> : tensor<2xi8>}> : () -> ()\n'
        '"my.global"() <{name = "first"',
    ),
    "a callee": ("arith.addf %x, %x", "arith.mulf %x, %x"),
    "an effect of a callee": ('"my.store"(%x) {at = 3', '"my.store"(%x) {at = 4'),
    "an effect of a callee that is gone": (
        '"my.store"(%x) {at = 3 : i32} : (tensor<2x3xf32>) -> ()\n',
        "",
    ),
    "visibility": ("func.func @constants", "func.func private @constants"),
    "visibility of what is called": ("func.func private @helper", "func.func @helper"),
    "attribute of a function": ("my.tag = 0.0", "my.tag = -0.0"),
    "attribute of an argument": ('{my.arg = "in"}', '{my.arg = "inout"}'),
    "attribute of an argument that is gone": (' {my.arg = "in"}', ""),
    "attribute of a result": ('{my.res = "out"}', '{my.res = "other"}'),
    "an element": ("[4, 5, 6]", "[4, 7, 6]"),
    "a scale": ("tensor<2x3x!quant.uniform<i8:f32:0, {0.5:1,0.25:3}>>", None),
    "a permutation": ("permutation = [1, 0]\n", None),
    "a plain result": ("dense<[7, 8]>", "dense<[7, 9]>"),
    "a call that is gone": ("func.call @log(%l) : (tensor<2x3xf32>) -> ()\n", ""),
    "a call that is made twice": (
        "func.call @log(%l) : (tensor<2x3xf32>) -> ()\n",
        "func.call @log(%l) : (tensor<2x3xf32>) -> ()\n"
        "func.call @log(%l) : (tensor<2x3xf32>) -> ()\n",
    ),
    "the constant that a call is given": (
        "dense<1.5> : tensor<2x3xf32>\n  func.call @log",
        "dense<2.5> : tensor<2x3xf32>\n  func.call @log",
    ),
    "an attribute of an effect": ('text = "here"', 'text = "there"'),
    "the operand of an effect": (
        '"my.print"(%c)',
        '%c2 = arith.constant dense<[8, 7]> : tensor<2xi8>\n"my.print"(%c2)',
    ),
    "an element of a weight": ("[5, 6]]", "[5, 7]]"),
    "a zero point of a weight": ("{0.5:1,0.25:3,2.0:-5}", None),
    "an attribute of an unknown op": ("lhs = [1], rhs = [0]", "lhs = [0], rhs = [0]"),
    "another attribute of an unknown op": ('precision = "high"', 'precision = "low"'),
    "the operand of a shape op": ('"stablehlo.reverse"(%y)', '"stablehlo.reverse"(%x)'),
    "a dimension that is reversed": ("dimensions = array<i64: 0>", "dimensions = array<i64: 1>"),
    "the order of operands": ("%r, %o :", "%o, %r :"),
    "an element beside an argument": (
        "dense<2.0> : tensor<4x2xf32>",
        "dense<2.5> : tensor<4x2xf32>",
    ),
    "an offset": ("%y[0, 0] [2, 2]", "%y[0, 0] [2, 2]".replace("[0, 0]", "[1, 0]")),
    "a stride": ("[2, 2] [1, 1]", "[2, 2] [2, 1]"),
    "the padding": ("%z = arith.constant 0.0", "%z = arith.constant -0.0"),
    "the width of a padding": ("low[1, 1] high[1, 1]", "low[2, 1] high[0, 1]"),
    "an unknown op": ('"stablehlo.tanh"', '"stablehlo.sine"'),
    "an operand of arithmetic": ("arith.mulf %k, %g", "arith.mulf %k, %k"),
    "arithmetic": ("arith.mulf %k, %g", "arith.addf %k, %g"),
    "the body of a region": ('"stablehlo.add"(%a0, %a1)', '"stablehlo.add"(%a0, %a0)'),
    "the op in a region": ('"stablehlo.add"(%a0, %a1)', '"stablehlo.subtract"(%a0, %a1)'),
    "an attribute of an op with a region": ("dimensions = array<i64: 1>}> ({", None),
    "a value that a region takes from outside": ("scf.yield %p", "scf.yield %g"),
    "an effect in a region": ('text = "then"', 'text = "else"'),
    "an effect in a region that is gone": (
        '"my.print"(%m) {text = "then"} : (tensor<4xf32>) -> ()\n',
        "",
    ),
    "regions that are exchanged": ("scf.yield %u", "scf.yield %p"),
    "a condition": (
        "cf.assert %b",
        "%b2 = arith.constant true\n  cf.assert %b2",
    ),
    "an assertion that is gone": ('cf.assert %b, "it is true"\n', ""),
    "the order of effects": (
        'cf.assert %b, "it is true"\n  "my.token"(%n, %d) : (index, tensor<4x3xf32>) -> ()\n',
        '"my.token"(%n, %d) : (index, tensor<4x3xf32>) -> ()\n  cf.assert %b, "it is true"\n',
    ),
    "results that are exchanged": ("return %d, %f", "return %d, %p"),
}

OTHERS = {
    "a scale": ("0.5:1,0.25:3}", "0.5:1,0.125:3}"),
    "a permutation": (
        "linalg.transpose ins(%w : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]",
        "tensor.reshape %w(%sh) : (tensor<2x3xf32>, tensor<2xindex>) -> tensor<3x2xf32>",
    ),
    "a zero point of a weight": ("0.5:1,0.25:3,2.0:-5", "0.5:1,0.25:3,2.0:-4"),
    "an attribute of an op with a region": (
        "dimensions = array<i64: 1>}> ({",
        "dimensions = array<i64: 1>, x}> ({",
    ),
}
"""Differences that are in several places."""


def other(name: str) -> str:
    old, new = DIFFERENCES[name]
    if new is None:
        old, new = OTHERS[name]
    assert old in MODEL
    text = MODEL.replace(old, new)
    if "%sh" in text:
        text = text.replace(
            "%e = tensor.empty()",
            "%sh = arith.constant dense<[3, 2]> : tensor<2xindex>\n%e = tensor.empty()",
        )
    return text


def test_the_model_is_proven():
    assert grounds(MODEL, read(MODEL)) == {"proven", "declared"}
    assert grounds(MODEL, folded(MODEL)) == {"proven", "declared"}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_is_found(name: str):
    text = other(name)
    assert findings(MODEL, read(text))
    assert findings(text, folded(MODEL))


# Functions that can be run


SCALARS = """
func.func @f(%x: i8, %y: i8) -> i1 {{
  %c = arith.constant {constant} : i8
  %0 = arith.cmpi {predicate}, %x, %c : i8
  return %0 : i1
}}
"""
FLOATS = """
func.func @f(%x: f32, %y: f32) -> i1 {{
  %0 = arith.cmpf {predicate}, %x, %y : f32
  return %0 : i1
}}
"""
CODES = """
!q = !quant.uniform<i8:f32, {scale}>
func.func @f(%x: tensor<64x!q>) -> tensor<64xf32> {{
  %0 = quant.dcast %x : tensor<64x!q> to tensor<64xf32>
  return %0 : tensor<64xf32>
}}
"""
ONE_CODE = """
func.func @f(%x: tensor<64xi8>) -> tensor<64xi8> {{
  %c = arith.constant dense<{code}> : tensor<64xi8>
  %0 = arith.{op} %x, %c : tensor<64xi8>
  return %0 : tensor<64xi8>
}}
"""
LENGTHS = """
func.func @f(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> index {{
  %c = arith.constant {axis} : index
  %0 = tensor.dim %{of}, %c : tensor<?x?xf32>
  return %0 : index
}}
"""
SATURATION = """
!q = !quant.uniform<i8<{low}:127>:f32, 1.0>
func.func @f(%x: f32) -> f32 {{
  %0 = quant.qcast %x : f32 to !q
  %1 = quant.dcast %0 : !q to f32
  return %1 : f32
}}
"""


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (SCALARS, {"constant": 77, "predicate": "eq"}, {"constant": 78, "predicate": "eq"}),
        (SCALARS, {"constant": 5, "predicate": "slt"}, {"constant": 5, "predicate": "sle"}),
        (SCALARS, {"constant": -100, "predicate": "slt"}, {"constant": -100, "predicate": "ult"}),
        (FLOATS, {"predicate": "ogt"}, {"predicate": "ugt"}),
        (FLOATS, {"predicate": "oeq"}, {"predicate": "oge"}),
        (FLOATS, {"predicate": "one"}, {"predicate": "une"}),
        (FLOATS, {"predicate": "ord"}, {"predicate": "true"}),
        (CODES, {"scale": "0.5"}, {"scale": "0.5:1"}),
        (CODES, {"scale": "0.5"}, {"scale": "0.50001"}),
        (ONE_CODE, {"code": 3, "op": "maxsi"}, {"code": 4, "op": "maxsi"}),
        (ONE_CODE, {"code": 126, "op": "minsi"}, {"code": 127, "op": "minsi"}),
        (ONE_CODE, {"code": -128, "op": "maxsi"}, {"code": -127, "op": "maxsi"}),
        (LENGTHS, {"axis": 0, "of": "x"}, {"axis": 1, "of": "x"}),
        (LENGTHS, {"axis": 0, "of": "x"}, {"axis": 0, "of": "y"}),
        (SATURATION, {"low": -128}, {"low": -127}),
    ],
)
def test_differences_that_few_arguments_show(
    text: str, before: dict[str, object], after: dict[str, object]
):
    texts = text.format(**before), text.format(**after)
    assert findings(texts[0], read(texts[0])) == []
    assert findings(texts[0], read(texts[1]))
    assert findings(texts[1], read(texts[0]))


LAYER = """
func.func @f(%x: tensor<4x16xf32>) -> tensor<4x2xf32> {{
  %w = quant.constant dense<[[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, {code}, 30, 32]]> : tensor<2x16x!quant.uniform<i8:f32, 0.5>>
  %d = quant.dcast %w : tensor<2x16x!quant.uniform<i8:f32, 0.5>> to tensor<2x16xf32>
  %b = arith.constant dense<{bias}> : tensor<4x2xf32>
  %s = linalg.matmul indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>] ins(%x, %d : tensor<4x16xf32>, tensor<2x16xf32>) outs(%b : tensor<4x2xf32>) -> tensor<4x2xf32>
  %0 = "tosa.clamp"(%s) <{{min_val = 0.0 : f32, max_val = 6.0 : f32, nan_mode = "PROPAGATE"}}> : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}}
"""


@pytest.mark.parametrize("after", [{"code": 29, "bias": "0.0"}, {"code": 28, "bias": "0.125"}])
def test_a_clamp_hides_no_difference(after: dict[str, object]):
    texts = LAYER.format(code=28, bias="0.0"), LAYER.format(**after)
    assert findings(texts[0], read(texts[1]))


UNREAD = """
func.func @f(%x: tensor<2xi32>, %y: tensor<2x2xf32>) -> (tensor<2xi32>, tensor<2x2xf32>) {{
  %0 = arith.addi %x, %x {overflow} : tensor<2xi32>
  %1 = "stablehlo.dot_general"(%y, %y) <{{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision {precision}>, #stablehlo<precision DEFAULT>]}}> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = arith.mulf %1, %y {fastmath} {{my.place = {place}}} : tensor<2x2xf32>
  return %0, %2 : tensor<2xi32>, tensor<2x2xf32>
}}
"""
GIVEN = {"overflow": "", "precision": "HIGH", "fastmath": "fastmath<contract>", "place": "1"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("overflow", "overflow<nsw>"),
        ("precision", "HIGHEST"),
        ("fastmath", "fastmath<fast>"),
        ("fastmath", ""),
        ("place", "2"),
    ],
)
def test_attributes_that_no_run_reads_are_compared(name: str, value: str):
    texts = UNREAD.format(**GIVEN), UNREAD.format(**{**GIVEN, name: value})
    for before, after in (texts, texts[::-1]):
        (found,) = findings(before, read(after))
        assert "runs do not depend on attribute" in found


def test_attributes_that_no_run_reads_may_stay_or_be_notes():
    text = UNREAD.format(**GIVEN)
    # Not proven: multiplication is not known to be commutative.
    swapped = text.replace("mulf %1, %y", "mulf %y, %1")
    (ground,) = grounds(text, read(swapped))
    assert "of its inputs" in ground
    (ground,) = grounds(text, read(swapped.replace("{my.place = 1}", "{my.other = 1}")))
    assert "of its inputs" in ground


# What may differ beside the ops of a function: types of unknown lengths, what opaque texts name,
# values that can be changed, and what an op says beside its name.

UNKNOWN_LENGTHS = """
!q = !quant.uniform<i8:f32:1, {0.5,0.25}>
func.func @f(%x: tensor<?x?xi8>) -> tensor<?x?xf32> {
  %q = quant.scast %x : tensor<?x?xi8> to tensor<?x?x!q>
  %0 = quant.dcast %q : tensor<?x?x!q> to tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
"""
BLOCKS = UNKNOWN_LENGTHS.replace("f32:1, {0.5,0.25}", "f32:{0:1, 1:2}, {{0.5,0.25}}")
ARGUMENT = """
!q = !quant.uniform<i8:f32:1, {0.5,0.25}>
func.func @f(%x: tensor<?x?x!q>, %n: index) -> tensor<?x?x!q> {
  %z = arith.constant 0 : index
  %s = arith.constant 1 : index
  %0 = scf.for %i = %z to %n step %s iter_args(%a = %x) -> (tensor<?x?x!q>) {
    scf.yield %a : tensor<?x?x!q>
  }
  return %0 : tensor<?x?x!q>
}
"""
OPAQUE = """
#w = dense<[1, 2]> : tensor<2xi8>
#n = #my.named<#w>
!s = !quant.uniform<i8:f32, 0.5>
func.func @f(%x: tensor<2xf32, #my.encoding<#n>>) -> tensor<2xf32> {
  %0 = "my.op"(%x) {a = #my.nested<#n>, b = !my.type<!s>, c = #my.blob<dense_resource<r>>}
    : (tensor<2xf32, #my.encoding<#n>>) -> tensor<2xf32>
  %1 = tosa.abs %0 {d = [#my.list<#n>]} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
{-# dialect_resources: { builtin: { r: "0x010000000102" } } #-}
"""
VARIABLE = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  "tosa.variable.write"(%x) {name = "v"} : (tensor<2xf32>) -> ()
  %0 = "tosa.variable.read"() {name = "v"} : () -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
WRITE, READ = VARIABLE.splitlines(keepends=True)[2:4]
MUTABLE = """
func.func @f(%x: !torch.tensor<[2],f32>, %y: !torch.tensor<[2],f32>, %f: !torch.bool) -> (!torch.tensor<[2],f32>, !torch.tensor<[2],f32>) {
  %n = "torch.constant.none"() : () -> !torch.none
  %0 = "torch.aten.clone"(%x, %n) : (!torch.tensor<[2],f32>, !torch.none) -> !torch.tensor<[2],f32>
  %1 = "torch.aten.copy_"(%x, %y, %f) : (!torch.tensor<[2],f32>, !torch.tensor<[2],f32>, !torch.bool) -> !torch.tensor<[2],f32>
  %2 = "torch.aten.clone"(%x, %n) : (!torch.tensor<[2],f32>, !torch.none) -> !torch.tensor<[2],f32>
  return %0, %2 : !torch.tensor<[2],f32>, !torch.tensor<[2],f32>
}
"""
LIST = """
func.func @f(%x: !torch.vtensor<[2],f32>, %y: !torch.vtensor<[2],f32>) -> !torch.vtensor<[4],f32> {
  %i = "torch.constant.int"() {value = 0 : i64} : () -> !torch.int
  %l = "torch.prim.ListConstruct"(%x) : (!torch.vtensor<[2],f32>) -> !torch.list<vtensor<[2],f32>>
  %m = "torch.prim.ListConstruct"(%x) : (!torch.vtensor<[2],f32>) -> !torch.list<vtensor<[2],f32>>
  %a = "torch.aten.append.t"(%l, %y) : (!torch.list<vtensor<[2],f32>>, !torch.vtensor<[2],f32>) -> !torch.list<vtensor<[2],f32>>
  %0 = "torch.aten.cat"(%l, %i) : (!torch.list<vtensor<[2],f32>>, !torch.int) -> !torch.vtensor<[4],f32>
  return %0 : !torch.vtensor<[4],f32>
}
"""
BUFFER = """
func.func @f(%m: memref<2xf32>, %x: f32) -> (tensor<2xf32>, tensor<2xf32>) {
  %z = arith.constant 0 : index
  %0 = builtin.unrealized_conversion_cast %m : memref<2xf32> to tensor<2xf32>
  memref.store %x, %m[%z] : memref<2xf32>
  %1 = builtin.unrealized_conversion_cast %m : memref<2xf32> to tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
"""
BODY = """
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>, sym_name = "f"}> ({
  ^bb0(%x: tensor<2x3xf32>, %e: tensor<3x2xf32>):
    %0 = "linalg.transpose"(%x, %e) <{permutation = array<i64: 1, 0>}> ({
    ^bb0(%a: f32, %b: f32):
      "linalg.yield"(%a) : (f32) -> ()
    }) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
    "func.return"(%0) : (tensor<3x2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


def stated_shape(op: str, types: str = "tensor<6xf32>, tensor<2xi64>") -> str:
    return f"""
    func.func @f(%x: tensor<6xf32>) -> tensor<2x3xf32> {{
      %s = arith.constant dense<[2, 3]> : tensor<2xi64>
      %0 = "{op}"(%x, %s) : ({types}) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }}
    """


EXPANDED = """
func.func @f(%x: tensor<6xf32>) -> tensor<2x3xf32> {
  %0 = tensor.expand_shape %x [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""


@pytest.mark.parametrize(
    ("before", "old", "new"),
    [
        (UNKNOWN_LENGTHS, "f32:1", "f32:0"),
        (BLOCKS, "{0:1, 1:2}, {{0.5,0.25}}", "{0:2, 1:1}, {{0.5},{0.25}}"),
        (ARGUMENT, "f32:1", "f32:0"),
        (OPAQUE, "[1, 2]", "[1, 3]"),
        (OPAQUE, "f32, 0.5", "f32, 0.25"),
        (OPAQUE, "000102", "000103"),
        (OPAQUE, 'r: "', 's: "'),
        (VARIABLE, WRITE, ""),
        (VARIABLE, WRITE + READ, READ + WRITE),
        (MUTABLE, "return %0, %2", "return %2, %2"),
        (MUTABLE, "return %0, %2", "return %0, %0"),
        (LIST, 'cat"(%l', 'cat"(%m'),
        (BUFFER, "return %0, %1", "return %0, %0"),
        (BODY, "(%a) : (f32)", "(%b) : (f32)"),
        (stated_shape("tensor.reshape"), "[2, 3]", "[3, 2]"),
        (stated_shape("onnx.Reshape"), "[2, 3]", "[3, 2]"),
        (stated_shape("stablehlo.dynamic_reshape"), "[2, 3]", "[3, 2]"),
        (EXPANDED, "shape [2, 3]", "shape [3, 2]"),
    ],
)
def test_what_is_beside_the_ops(before: str, old: str, new: str):
    assert grounds(before, read(before)) == {"proven"}
    after = before.replace(old, new)
    assert after != before
    assert findings(before, read(after))
    assert findings(after, read(before))


def test_other_names_of_the_same_definitions():
    renamed = OPAQUE.replace("#n", "#other").replace("!s", "!t").replace("#w", "#v")
    assert grounds(OPAQUE, read(renamed)) == {"proven"}


# Numbers that runs do not show

REQUANTIZED = """
func.func @f(%x: tensor<2x2xi8>) -> tensor<2x2xi8> {
  %b = arith.constant dense<[[6000, 9000], [6000, 6000]]> : tensor<2x2xi32>
  %s = arith.constant dense<12> : tensor<2x2xi32>
  %0 = arith.extsi %x : tensor<2x2xi8> to tensor<2x2xi32>
  %1 = arith.addi %0, %b : tensor<2x2xi32>
  %2 = arith.shrsi %1, %s : tensor<2x2xi32>
  %3 = arith.trunci %2 : tensor<2x2xi32> to tensor<2x2xi8>
  return %3 : tensor<2x2xi8>
}
"""


def test_samples_are_no_ground_where_only_numbers_differ():
    assert grounds(REQUANTIZED, read(REQUANTIZED)) == {"proven"}
    (message,) = findings(REQUANTIZED, read(REQUANTIZED.replace("9000", "9001")))
    assert "element [0, 1] is 9001, but was 9000 before" in message
    assert "no proof" in message


@pytest.mark.parametrize("requires_proof", [False, True])
def test_samples_are_grounds_where_more_than_numbers_differs(requires_proof: bool):
    after = read(REQUANTIZED.replace("addi %0, %b", "addi %b, %0"))
    comparison = compare_modules(read(REQUANTIZED), after, requires_proof=requires_proof)
    assert len(comparison.verdicts) == (not requires_proof)
    messages = [finding.message for finding in comparison.findings]
    assert len(messages) == requires_proof
    assert all("is not proven" in message for message in messages)
