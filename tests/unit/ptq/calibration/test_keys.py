"""Keys are found again after folds, casts, and a way through MLIR."""

from __future__ import annotations

import io

import pytest
from mlir_tools import needs_mlir_opt, run
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.ops.interface import name_of
from qdialect.opt.registry import ToolContext
from qdialect.passes.fold_quant_shapes import FoldConstantShapesPass
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.passes.ranges import AttachKeysPass
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

pytestmark = pytest.mark.usefixtures("without_plugins")

TEXT = """
func.func @main(%x: tensor<2x3xf32> {quant.key = "image"}, %y: tensor<3xf32> loc("label"),
                %i: tensor<2xi32>) -> tensor<3x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %t = tosa.transpose %w {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %a = "test.op"(%t, %x) : (tensor<3x2xf32>, tensor<2x3xf32>) -> tensor<3x2xf32> loc("label")
  %b:2 = "test.op"(%a) : (tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
    loc(fused["f", "g"])
  %0 = "test.op"(%b#0) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %1 = "test.op"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}
"""


def parsed(text: str) -> tuple[ModuleOp, ToolContext]:
    context = ToolContext(allow_unregistered=True)
    return LocatingParser(context, text).parse_module(), context


def printed(module: ModuleOp, *, debug_info: bool = False) -> str:
    stream = io.StringIO()
    MLIRPrinter(stream=stream, print_debuginfo=debug_info).print_op(module)
    return stream.getvalue()


def keys_in(text: str) -> list[str]:
    return list(keys_of(parsed(text)[0]).roots)


KEYS = ["image", "label", "w", "label#1", "f", "f#1", "@main#0", "@main#1"]


def test_attribute_then_location_then_name():
    assert keys_in(TEXT) == KEYS


def test_what_only_moves_has_the_key_of_what_it_moves():
    keys = keys_of(parsed(TEXT)[0])
    assert sorted(keys.of_values.values()) == sorted([*KEYS, "w"])
    assert len(keys.roots["w"]) == 1


def test_keys_are_the_same_after_a_fold():
    module, context = parsed(TEXT)
    FoldConstantShapesPass().apply(context, module)
    assert "tosa.transpose" not in printed(module)
    assert list(keys_of(module).roots) == KEYS


NAMELESS = """
func.func @main(%arg0: tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x3xf32>) {
  %0 = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %1 = math.exp %arg0 : tensor<2x3xf32>
  %2 = tosa.transpose %0 {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %3 = tensor.empty() : tensor<2x2xf32>
  %4 = linalg.matmul ins(%1, %2 : tensor<2x3xf32>, tensor<3x2xf32>)
    outs(%3 : tensor<2x2xf32>) -> tensor<2x2xf32>
  %5 = "stablehlo.slice"(%0) <{start_indices = array<i64: 0, 1>,
      limit_indices = array<i64: 2, 2>, strides = array<i64: 1, 1>}>
    : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %6 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64: 0, 1>}>
    : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %7 = "test.op"(%6, %5) : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %8 = math.exp %0 : tensor<2x3xf32>
  return %7, %8 : tensor<2x2xf32>, tensor<2x3xf32>
}
"""


def test_values_without_a_name_have_the_same_keys_after_a_fold():
    """Constants come, go and move, and so do ops that move nothing."""
    module, context = parsed(NAMELESS)
    before = keys_of(module)
    assert {*before.roots} == {
        *("arg0", "@main#0", "@main#1", "@main#2"),
        # Operand 1 of the product, of which the slice is no part; operand 1 of what is returned.
        *("@main#1.1", "@main#2.1", "@main.1"),
    }
    assert before.aliases == {
        "@main.1.math.exp.0": "@main#1.1",
        "@main#2.1.stablehlo.slice.0": "@main#1.1",
    }
    computed = {
        name_of(value.owner): key
        for key, (value,) in before.roots.items()
        if isinstance(value.owner, Operation)
    }
    FoldConstantShapesPass().apply(context, module)
    after = keys_of(module)
    assert "tosa.transpose" not in printed(module)
    assert {*after.roots} == {*before.roots, "@main.1.math.exp.0"}
    for op in module.walk():
        if name_of(op) in ("linalg.matmul", "test.op"):
            assert after.of_values[op.results[0]] == computed[name_of(op)]
    assert str(after.roots["@main#1.1"][0].type) == "tensor<3x2xf32>"
    assert str(after.roots["@main#2.1"][0].type) == "tensor<2x1xf32>"


def test_a_constant_that_nothing_reads_is_numbered_last():
    text = """
    func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = arith.constant dense<1.0> : tensor<2xf32>
      %1 = math.exp %x : tensor<2xf32>
      return %1 : tensor<2xf32>
    }"""
    assert {*keys_in(text)} == {"x", "@f#0", "@f#1"}
    assert keys_in(text)[1] == "@f#1"


def test_what_a_region_captures_is_no_constant():
    text = """
    func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %0 = arith.constant 0.0 : f32
      %1 = tensor.empty() : tensor<2xf32>
      %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<2xf32>) -> tensor<2xf32>
      %3 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        outs(%2 : tensor<2xf32>) {
      ^bb0(%a: f32):
        %i = linalg.index 0 : index
        %4 = tensor.extract %x[%i] : tensor<2xf32>
        linalg.yield %4 : f32
      } -> tensor<2xf32>
      return %3, %2 : tensor<2xf32>, tensor<2xf32>
    }"""
    assert keys_in(text) == ["x", "@f#0.0", "@f#0"]


def test_keys_are_the_same_with_casts_around_a_value():
    q = "!quant.uniform<i8:f32, 0.5>"
    text = TEXT.replace(
        '%1 = "test.op"(%0)',
        f"%q = quant.qcast %0 : tensor<3x2xf32> to tensor<3x2x{q}>\n"
        f"  %d = quant.dcast %q : tensor<3x2x{q}> to tensor<3x2xf32>\n"
        f'  %1 = "test.op"(%d)',
    )
    assert keys_in(text) == KEYS


QUANTIZED = """
!i = !quant.uniform<i8:f32, 0.5>
!j = !quant.uniform<i8:f32, 0.25>
func.func @main(%x: tensor<2x!i> {quant.key = "image"}) {
  %0 = "quant.dcast"(%x) : (tensor<2x!i>) -> tensor<2xf32>
  %again = quant.dcast %x : tensor<2x!i> to tensor<2xf32>
  %q = quant.constant dense<[1, 2]> {quant.key = "layer/w"} : tensor<2x!i>
  %w = quant.dcast %q : tensor<2x!i> to tensor<2xf32>
  %c = arith.constant dense<[1, 2]> : tensor<2xi8>
  %2 = quant.scast %c : tensor<2xi8> to tensor<2x!i>
  %3 = quant.dcast %2 : tensor<2x!i> to tensor<2xf32>
  %4 = quant.scast %c : tensor<2xi8> to tensor<2x!j>
  %5 = quant.dcast %4 : tensor<2x!j> to tensor<2xf32>
  return
}
"""


def test_what_is_quantized_from_the_beginning_gives_its_name():
    """One constant that is read with two scales holds two values."""
    keys = keys_of(parsed(QUANTIZED)[0])
    assert [*keys.of_values.values()] == ["image", "image", "layer/w", "c", "c#1"]
    assert [*keys.roots] == ["image", "layer/w", "c", "c#1"]
    assert [value.name_hint for value in keys.of_values][:3] == [None, "again", "w"]
    assert keys.aliases == {"again": "image", "x": "image", "w": "layer/w", "q": "layer/w"}


def test_ranges_behind_a_value_name_it():
    text = """
    func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
      %s = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>, key = "given"} : tensor<2xf32>
      return %s : tensor<2xf32>
    }
    """
    assert keys_in(text) == ["given"]


def test_values_that_one_attribute_names_share_the_key():
    """A folded constant and what is left of its source have the same attributes."""
    text = """
    %a = arith.constant {quant.key = "w"} dense<1.0> : tensor<2xf32>
    %b = arith.constant {quant.key = "w"} dense<1.0> : tensor<1x2xf32>
    %w = "test.op"() : () -> tensor<2xf32>
    """
    keys = keys_of(parsed(text)[0])
    assert [(key, len(values)) for key, values in keys.roots.items()] == [("w", 2), ("w#1", 1)]


def test_numbers_do_not_meet_names_that_look_like_them():
    text = """
    %a = arith.constant {quant.key = "x#1"} dense<1.0> : tensor<2xf32>
    %b = "test.op"() : () -> tensor<2xf32> loc("x")
    %c = "test.op"() : () -> tensor<2xf32> loc("x")
    """
    keys = keys_in(text)
    assert len(set(keys)) == 3
    assert {"x#1", "x"} < set(keys)


def test_what_is_not_defined_has_no_key():
    text = """
    func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
      %empty = tensor.empty() : tensor<2x3xf32>
      %row = tensor.collapse_shape %empty [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
      %column = tensor.expand_shape %row [[0, 1]] output_shape [3, 2]
        : tensor<6xf32> into tensor<3x2xf32>
      %y = linalg.transpose ins(%x : tensor<2x3xf32>) outs(%column : tensor<3x2xf32>)
        permutation = [1, 0]
      %z = "test.op"(%y) : (tensor<3x2xf32>) -> tensor<3x2xf32>
      return %z : tensor<3x2xf32>
    }"""
    assert keys_in(text) == ["x", "z"]


def test_attached_keys_are_kept():
    module, context = parsed(TEXT)
    AttachKeysPass().apply(context, module)
    once = printed(module)
    assert keys_in(once.replace("%w", "%other")) == KEYS
    AttachKeysPass().apply(context, module)
    assert printed(module) == once


@needs_mlir_opt
def test_keys_are_found_again_after_mlir():
    module, context = parsed(TEXT)
    AttachKeysPass().apply(context, module)
    command = ["mlir-opt-22", "--allow-unregistered-dialect", "--canonicalize"]
    through = run(command, printed(module))
    assert "%cst" in through
    assert keys_in(through) == KEYS


@needs_mlir_opt
def test_keys_of_any_text_are_found_again_after_mlir():
    """It escapes what is not ASCII."""
    keys = ["größe", 'a "b"', "back\\slash"]
    text = """
    func.func @f(%x: tensor<2xf32> {quant.key = "größe"}) -> tensor<2xf32> {
      %y = math.exp %x {quant.key = "a \\"b\\""} : tensor<2xf32>
      %z = math.exp %y : tensor<2xf32> loc("back\\\\slash")
      return %z : tensor<2xf32>
    }"""
    assert keys_in(text) == keys
    through = run(["mlir-opt-22", "--mlir-print-debuginfo"], text)
    assert "gr\\C3\\B6\\C3\\9Fe" in through
    assert keys_in(through) == keys
    assert keys_in(printed(parsed(through)[0], debug_info=True)) == keys


@needs_mlir_opt
def test_keys_of_locations_are_found_again_after_mlir():
    command = ["mlir-opt-22", "--allow-unregistered-dialect", "--mlir-print-debuginfo"]
    named = TEXT.replace("6.0]]> : tensor<2x3xf32>", '6.0]]> : tensor<2x3xf32> loc("w")')
    assert keys_in(run(command, named)) == KEYS
