"""Keys are found again after folds, casts, and a way through MLIR."""

from __future__ import annotations

import io

import pytest
from mlir_tools import needs_mlir_opt, run
from xdsl.dialects.builtin import ModuleOp

from qdialect.passes.attach_keys import AttachKeysPass
from qdialect.passes.fold_constant_shapes import FoldConstantShapesPass
from qdialect.post_training.keys import keys_of
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter
from qdialect.tools.registry import ToolContext

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
def test_keys_of_locations_are_found_again_after_mlir():
    command = ["mlir-opt-22", "--allow-unregistered-dialect", "--mlir-print-debuginfo"]
    named = TEXT.replace("6.0]]> : tensor<2x3xf32>", '6.0]]> : tensor<2x3xf32> loc("w")')
    assert keys_in(run(command, named)) == KEYS
