"""
Models that are quantized from their ranges, judged by rules that are written anew.

What is read are the casts in the result: which types there are before and after each op.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
from dequantizing_arithmetic import Module, dense
from hypothesis import given, note
from hypothesis import strategies as st
from random_models import UNARY, Range, graphs, models
from xdsl.ir import Block, Operation, SSAValue

from qdialect import passes
from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeCastOp,
    QuantizeCastOp,
    RequantizeOp,
    StatisticsOp,
    UniformQuantizedType,
)
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.ops.along_axis import is_recordable
from qdialect.ops.interface import name_of
from qdialect.ptq.assignment.assignment_steps import (
    SEQUENCE,
    Step,
    assign_activations,
    assign_biases,
    assign_constant_inputs,
    assign_fixed_values,
    assign_input_types,
    assign_mixed_precision,
    assign_output_types,
    assign_weights,
    propagate_parameters_backward,
    propagate_parameters_forward,
    remove_redundant_quantize,
)
from qdialect.ptq.assignment.parameter_assignment import read_attributes
from qdialect.ptq.assignment.settings import Configuration, LayerSetting, Settings, precision_of
from qdialect.ptq.assignment.whole_model import quantize_model
from qdialect.ptq.passes.models import QuantizeWithRangesPass, VerifyQuantizationPass
from qdialect.ptq.passes.ranges import DropRangesPass

pytestmark = pytest.mark.usefixtures("without_plugins")


def element_of(value: SSAValue) -> UniformQuantizedType:
    return uniform_tensor(value.type).element_type


def type_read(value: SSAValue) -> UniformQuantizedType:
    """The type of what is read behind a cast."""
    owner = value.owner
    assert isinstance(owner, DequantizeCastOp), f"'{value}' is read as floats"
    return element_of(owner.input)


def type_made(value: SSAValue) -> UniformQuantizedType:
    """The type that a value is quantized to."""
    casts = [use.operation for use in value.uses]
    assert len(casts) == 1, f"'{value}' is read by {len(casts)} ops"
    (only,) = casts
    assert isinstance(only, QuantizeCastOp), f"'{value}' is not quantized"
    return element_of(only.result)


def of_range(low: float, high: float) -> tuple[float, int]:
    """ONE's scale and zero point of u8, as its source has them."""
    low32, high32 = float(np.float32(low)), float(np.float32(high))
    low, high = min(0.0, low32), max(0.0, high32)
    scale = (high - low) / 255
    zero = 0 if low32 >= 0 else 255 if high32 < 0 else int(np.floor(-low / scale + 0.5))
    if scale < 1e-5:
        scale = 1e-5
        zero = int(np.floor(-low / scale + 0.5))
    return float(np.float32(scale)), zero


MOVES = ("tosa.reverse", "tosa.transpose")


@given(graphs())
def test_each_value_has_parameters_by_its_rule(graph: tuple[str, dict[str, Range]]):
    text, recorded = graph
    note(text)
    module = Module(text)
    names = {
        value: f"%{value.name_hint}"
        for op in module.module.walk()
        for value in (*op.results, *(each for region in op.regions for each in region.block.args))
    }
    module.run(QuantizeWithRangesPass())
    note(module.printed())
    joined = set[SSAValue]()
    for op in module.module.walk():
        if name_of(op) == "tosa.concat":
            joined.update(_behind_moves(op.operands))
    for op in module.module.walk():
        if not name_of(op).startswith("tosa.") or name_of(op) == "tosa.const":
            continue
        read = [type_read(operand) for operand in op.operands if is_recordable(operand)]
        made = type_made(op.results[0])
        slot = made.single_slot.scale, made.single_slot.zero_point
        if name_of(op) in MOVES:
            assert [made] == read
            continue
        if name_of(op) == "tosa.concat":
            assert read == [made, made]
        fixed = UNARY.get(name_of(op))
        if fixed == "logistic":
            assert slot == (1 / 256, 0)
        elif fixed == "tanh":
            assert slot == (2 / 256, 128)
        elif op.results[0] in joined:
            # What it is joined with may have chosen them, or its own range.
            pass
        else:
            scale, zero = of_range(*recorded[names[op.results[0]]])
            if fixed == "whole":
                scale = 1.0 if scale < 1 else float(np.floor(scale + 0.5))
            assert slot == (scale, zero)


def _behind_moves(values: Any) -> set[SSAValue]:
    """What values are moved from, before casts and requantizations."""
    found, pending = set[SSAValue](), list(values)
    while pending:
        value = pending.pop()
        found.add(value)
        owner = value.owner
        if isinstance(owner, DequantizeCastOp | QuantizeCastOp | RequantizeOp) or (
            isinstance(owner, Operation) and name_of(owner) in (*MOVES, "tosa.concat")
        ):
            pending += owner.operands
    return found


@given(graphs())
def test_nothing_is_quantized_twice(graph: tuple[str, dict[str, Range]]):
    text, _ = graph
    module = Module(text)
    module.run(QuantizeWithRangesPass())
    once = module.printed()
    note(once)
    for op in module.module.walk():
        if isinstance(op, QuantizeCastOp):
            owner = op.input.owner
            assert isinstance(owner, Block) or not isinstance(owner, DequantizeCastOp)
        if isinstance(op, RequantizeOp):
            assert element_of(op.input) != element_of(op.result)
            assert not isinstance(op.input.owner, RequantizeOp)
    module.run(QuantizeWithRangesPass())
    assert module.printed() == once


STEPS = (
    "assign-activations",
    "assign-mixed-precision",
    "remove-redundant-quantize",
    "propagate-parameters-backward",
    "assign-constant-inputs",
    "assign-fixed-values",
    "propagate-parameters-forward",
    "assign-weights",
    "assign-biases",
    "assign-input-types",
    "assign-output-types",
    "write-quantized",
)
"""The passes of the table in docs/whole_models.md, in its order."""

OPTIONS = st.sampled_from(
    [
        {},
        {"scheme": "torch-i8", "output_types": ("u8",)},
        {"scheme": "one-s16", "input_types": ("u8",)},
        {"granularity": "block", "block_size": 2},
    ]
)


@given(st.one_of(graphs().map(lambda graph: graph[0]), models()), OPTIONS)
def test_the_steps_do_what_the_pass_does(text: str, options: dict[str, Any]):
    note(text)
    whole, stepwise = Module(text), Module(text)
    whole.run(QuantizeWithRangesPass(**options))
    for flag in STEPS:
        stepwise.run(getattr(passes, passes.PASSES[flag])(**options))
    assert stepwise.printed() == whole.printed()


LAYER = """
func.func @f(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x3xf32> {{
  %0 = quant.stats %x {{layerStats = dense<[-1.0, 1.5]> : tensor<2xf32>}} : tensor<1x4x4x2xf32>
  %w = "tosa.const"() {{values = {weights}}} : () -> tensor<3x1x1x2xf32>
  %b = "tosa.const"() {{values = {bias}}} : () -> tensor<3xf32>
  %z = "tosa.const"() {{values = dense<0.0> : tensor<1xf32>}} : () -> tensor<1xf32>
  %1 = tosa.conv2d %0, %w, %b, %z, %z {{acc_type = f32, dilation = array<i64: 1, 1>,
    pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}} : (tensor<1x4x4x2xf32>,
    tensor<3x1x1x2xf32>, tensor<3xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x4x3xf32>
  %2 = quant.stats %1 {{layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>}} : tensor<1x4x4x3xf32>
  return %2 : tensor<1x4x4x3xf32>
}}
"""


@pytest.mark.parametrize(
    ("scheme", "granularity", "bits"),
    [("one-u8", "channel", 32), ("one-u8", "layer", 32), ("torch-i8", "channel", 32)],
)
def test_a_bias_counts_in_steps_of_the_product(scheme: str, granularity: str, bits: int):
    random = np.random.default_rng(7)
    weights = random.normal(size=(3, 1, 1, 2)).astype("f4")
    bias = random.normal(size=3).astype("f4")
    module = Module(LAYER.format(weights=dense(weights), bias=dense(bias)))
    module.run(QuantizeWithRangesPass(scheme=scheme, granularity=granularity))
    (conv,) = (op for op in module.module.walk() if name_of(op) == "tosa.conv2d")
    of_input, of_weight, of_bias = map(type_read, conv.operands[:3])
    assert of_bias.storage_format.width == bits
    assert not of_bias.zero_points.any()
    product = np.float32(of_input.scales.item()) * of_weight.scales.astype("f4").reshape(-1)
    assert (of_bias.scales.astype("f4").reshape(-1) == product).all()
    back = conv.operands[2].owner
    assert isinstance(back, DequantizeCastOp)
    constant = back.input.owner
    assert isinstance(constant, ConstantOp)
    codes = np.asarray(constant.values).astype("f8")
    # No number is further from its code than half a step.
    assert (np.abs(codes * product - bias) <= product * 0.500001).all()


BY_DEFAULT = Settings(precision_of("one-u8"))

ORDER = """
func.func @f(%x: tensor<1x2xf32>) -> tensor<2x2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<1x2xf32>
  %s = tosa.sigmoid %0 : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %1 = quant.stats %s {layerStats = dense<[0.25, 0.75]> : tensor<2xf32>} : tensor<1x2xf32>
  %r = tosa.reverse %1 {axis = 1 : i32} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %c = "tosa.const"() {values = dense<[[1.0, -2.0]]> : tensor<1x2xf32>} : () -> tensor<1x2xf32>
  %j = tosa.concat %r, %c {axis = 0 : i32} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %3 = quant.stats %j {layerStats = dense<[-3.0, 2.0]> : tensor<2xf32>} : tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}
"""


def made(text: str, steps: list[Step], settings: Settings = BY_DEFAULT) -> dict[str, str]:
    """
    The types that values, by their names, are quantized to, or are read as.

    The names of requantized ones have a star.
    """
    module = Module(text)
    quantize_model(module.module, module.context, lambda keys: settings, steps=steps)
    found = dict[str, str]()
    for op in module.module.walk():
        if isinstance(op, QuantizeCastOp):
            (value,) = (
                op.input.owner.operands if isinstance(op.input.owner, StatisticsOp) else [op.input]
            )
            found[value.name_hint or "?"] = str(element_of(op.result))
        if isinstance(op, RequantizeOp):
            assert f"{op.result.name_hint}*" not in found
            found[f"{op.result.name_hint}*"] = str(element_of(op.result))
        if isinstance(op, ConstantOp):
            found[op.result.name_hint or "?"] = str(element_of(op.result))
    return found


def moved_before(moved: Step, other: Step) -> list[Step]:
    """The sequence, with one step right before another."""
    steps = [step for step in SEQUENCE if step is not moved]
    steps.insert(steps.index(other), moved)
    return steps


OF_CONCAT = "!quant.uniform<u8:f32, 0.019607843831181526:153>"


def test_values_with_fixed_parameters_are_between_backward_and_forward():
    # Before: a sigmoid has the parameters of what reads it. After: what moves it has the old ones.
    right = made(ORDER, list(SEQUENCE))
    assert right["s"] == right["r"] == "!quant.uniform<u8:f32, 3.906250e-03>"
    before = made(ORDER, moved_before(assign_fixed_values, propagate_parameters_backward))
    assert before["s"] == OF_CONCAT
    after = made(ORDER, moved_before(assign_fixed_values, assign_weights))
    assert after["s"] != after["r"]


def test_backward_is_before_constant_inputs():
    # What is joined is a constant, too: it has the parameters of the result, not its own.
    assert made(ORDER, list(SEQUENCE))["c"] == OF_CONCAT
    assert (
        made(ORDER, moved_before(assign_constant_inputs, propagate_parameters_backward))["c"]
        == OF_CONCAT
    )


def test_biases_are_after_weights():
    weights, bias = np.ones((3, 1, 1, 2), "f4"), np.ones(3, "f4")
    text = LAYER.format(weights=dense(weights), bias=dense(bias))
    assert "i32" in made(text, list(SEQUENCE))["b"]
    assert "b" not in made(text, moved_before(assign_biases, assign_weights))


def test_activations_are_first():
    # Nothing moves from a value without parameters.
    assert (
        made(ORDER, moved_before(propagate_parameters_backward, assign_activations))["s"]
        != OF_CONCAT
    )
    assert "j" not in made(ORDER, [step for step in SEQUENCE if step != assign_activations])


MOVED = """
func.func @f(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<1x2xf32>
  %s = tosa.FIRST %0 : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %1 = quant.stats %s {layerStats = dense<[0.0, 0.75]> : tensor<2xf32>} : tensor<1x2xf32>
  %r = tosa.reverse %1 {axis = 1 : i32} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %2 = quant.stats %r {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<1x2xf32>
  return %2 : tensor<1x2xf32>
}
"""
OF_16_BITS = Settings(precision_of("one-u8"), layers={"s": precision_of("one-s16")})


def test_mixed_precision_is_between_activations_and_what_moves():
    # After: %r, of 16 bits as %s is, has parameters of 8 bits.
    text = MOVED.replace("FIRST", "abs")
    right = made(text, list(SEQUENCE), OF_16_BITS)
    assert (
        right["s"] == right["r"] == "!quant.uniform<i16<-32767:32767>:f32, 3.0518509447574615E-5>"
    )
    after = made(text, moved_before(assign_mixed_precision, assign_constant_inputs), OF_16_BITS)
    assert after["r"] != after["s"]
    # Before: a value that has 16 bits already is requantized to 16 bits.
    given = """
!q = !quant.uniform<i16:f32, 0.5>
func.func @f(%q: tensor<2x!q>) -> tensor<2xf32> {
  %x = quant.dcast %q : tensor<2x!q> to tensor<2xf32>
  %s = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32>
  %0 = quant.stats %s {layerStats = dense<[0.0, 9.0]> : tensor<2xf32>} : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
    assert "x*" not in made(given, list(SEQUENCE), OF_16_BITS)
    assert "x*" in made(given, moved_before(assign_mixed_precision, assign_activations), OF_16_BITS)


def test_redundant_requantizations_go_before_what_moves_and_in_the_end():
    # %s and %r, neighbours of 16 bits: what is between them keeps %s from the parameters of %r.
    text = MOVED.replace("FIRST", "abs")
    first = SEQUENCE.index(remove_redundant_quantize)
    steps = [*SEQUENCE[:first], *SEQUENCE[first + 1 :]]
    late = made(text, steps, OF_16_BITS)
    assert late["s"] == late["r"] != made(text, list(SEQUENCE), OF_16_BITS)["s"]
    # What an argument or a result is declared as may be what it is.
    declared = Settings(precision_of("one-u8"), input_types=("u8",), output_types=("u8",))
    assert not any(name.endswith("*") for name in made(text, list(SEQUENCE), declared))
    assert "r*" in made(text, list(SEQUENCE[:-1]), declared)


def test_arguments_get_types_after_what_moves_backward():
    # %x is moved: it has the parameters of %r. What is declared before that keeps its own.
    text = MOVED.replace("tosa.FIRST %0", "tosa.reverse %0 {axis = 0 : i32}")
    settings = Settings(precision_of("one-u8"), input_types=("i16",))
    of_result = "!quant.uniform<u8:f32, 0.0039215688593685627>"
    right = made(text, list(SEQUENCE), settings)
    assert right["x*"] == right["r"] == of_result
    assert "x*" not in made(text, moved_before(assign_input_types, assign_activations), settings)
    late = made(text, moved_before(assign_input_types, propagate_parameters_backward), settings)
    assert late["x*"] == late["r"] != of_result


@pytest.mark.parametrize(
    "step", [propagate_parameters_backward, assign_fixed_values, propagate_parameters_forward]
)
def test_results_get_types_after_what_moves_forward(step: Step):
    # %r has the fixed parameters of %s, and the result likewise.
    settings = Settings(precision_of("one-u8"), output_types=("u8",))
    text = MOVED.replace("FIRST", "sigmoid")
    right = made(text, list(SEQUENCE), settings)
    assert right["r"] == "!quant.uniform<u8:f32, 3.906250e-03>"
    assert made(text, moved_before(assign_output_types, step), settings) != right


def test_what_moves_a_fixed_value_is_requantized_as_that_is():
    # ONE's classes are inherited.
    settings = Settings(precision_of("one-u8"), output_types=("i16",))
    for function, scale in (("sigmoid", 1 / 32768), ("floor", 1.0), ("abs", 1 / 32767)):
        type = made(MOVED.replace("FIRST", function), list(SEQUENCE), settings)["r*"]
        assert float(type.split(", ")[1].rstrip(">")) == float(np.float32(scale))


def test_whole_numbers_without_a_range_have_that_of_what_moves_them():
    floor = MOVED.replace("FIRST", "floor").replace("tosa.reverse %1", "tosa.reverse %s")
    text = "\n".join(line for line in floor.split("\n") if "stats %s" not in line)
    whole = made(text, list(SEQUENCE))
    assert whole["s"] == whole["r"] == "!quant.uniform<u8:f32, 1.000000e+00>"


def test_what_is_joined_has_one_type():
    # Another op reads %x, and %r is moved forward from a value with fixed parameters.
    text = """
func.func @f(%x: tensor<1x2xf32>) -> (tensor<2x2xf32>, tensor<1x2xf32>) {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<1x2xf32>
  %s = tosa.sigmoid %0 : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %r = tosa.reverse %s {axis = 1 : i32} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %j = tosa.concat %r, %0 {axis = 0 : i32} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %1 = quant.stats %j {layerStats = dense<[-3.0, 2.0]> : tensor<2xf32>} : tensor<2x2xf32>
  return %1, %s : tensor<2x2xf32>, tensor<1x2xf32>
}
"""
    module = Module(text)
    module.run(QuantizeWithRangesPass())
    (concat,) = (op for op in module.module.walk() if name_of(op) == "tosa.concat")
    assert [str(type_read(operand)) for operand in concat.operands] == [OF_CONCAT, OF_CONCAT]


def test_ranges_follow_parameters():
    module = Module(ORDER)
    settings = Settings(precision_of("one-u8"))
    quantize_model(
        module.module,
        module.context,
        lambda keys: settings,
        steps=[assign_activations, propagate_parameters_backward],
        is_written=False,
    )
    (reverse,) = (op for op in module.module.walk() if name_of(op) == "tosa.reverse")
    assigned = read_attributes(module.module).values[reverse.results[0]]
    assert (assigned.range, assigned.origin) == ((-3.0, 2.0), "j")


LOOP = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %n = arith.constant 3 : index
  %i = arith.constant 1 : index
  %l = scf.for %k = %i to %n step %i iter_args(%a = %0) -> (tensor<2xf32>) {
    %1 = quant.stats %a {layerStats = dense<[-2.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
    %e = math.exp %1 : tensor<2xf32>
    %2 = quant.stats %e {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : tensor<2xf32>
    scf.yield %2 : tensor<2xf32>
  }
  %3 = quant.stats %l {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : tensor<2xf32>
  cf.br ^end(%0 : tensor<2xf32>)
^end(%b: tensor<2xf32>):
  %4 = quant.stats %b {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %t = math.tanh %4 : tensor<2xf32>
  return %t : tensor<2xf32>
}
"""


def test_arguments_of_blocks_have_parameters_between_steps():
    # Also what is unused, as %l is, and of which there are ranges, stays.
    whole, taken = Module(LOOP), Module(LOOP)
    whole.run(QuantizeWithRangesPass())
    for steps in ([name] for name in SEQUENCE):
        quantize_model(
            taken.module, taken.context, lambda keys: BY_DEFAULT, steps=steps, is_written=False
        )
        taken = Module(taken.printed())
    quantize_model(taken.module, taken.context, lambda keys: BY_DEFAULT, steps=[])
    DropRangesPass().apply(taken.context, taken.module)
    assert taken.printed() == whole.printed()
    for name in ("math.exp", "math.tanh"):
        (op,) = (op for op in whole.module.walk() if name_of(op) == name)
        type_read(op.operands[0])


GIVEN = """
func.func @f(%x: tensor<1x2xf32>, %y: tensor<1x2xf32>) -> tensor<2x2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<1x2xf32>
  %1 = quant.stats %y {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} : tensor<1x2xf32>
  %r = tosa.reverse %0 {axis = 1 : i32} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %j = tosa.concat %r, %1 {axis = 0 : i32} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %2 = quant.stats %j {layerStats = dense<[-3.0, 2.0]> : tensor<2xf32>} : tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}
"""


@pytest.mark.parametrize("pinned", ["x", "y", "j"])
def test_what_is_given_is_read_as_what_moves_it_or_joins_it_is_made(pinned: str):
    module = Module(GIVEN)
    settings = Settings(precision_of("one-u8"), parameters={pinned: (0.5, 7)})
    quantize_model(module.module, module.context, lambda keys: settings)
    DropRangesPass().apply(module.context, module.module)
    for name in ("tosa.concat", "tosa.reverse"):
        (op,) = (op for op in module.module.walk() if name_of(op) == name)
        made = type_made(op.results[0])
        assert {type_read(operand) for operand in op.operands} == {made}
    (given,) = (
        op.result
        for op in module.module.walk()
        if isinstance(op, QuantizeCastOp) and op.result.name_hint == pinned
    )
    assert element_of(given).single_slot == (0.5, 7)


AXES = "!quant.uniform<i8:f32:1, {0.5,0.25}>"
PINNED = """
func.func @f(%x: tensor<2x2xf32>) -> tensor<SHAPExf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2x2xf32>
  %e = tosa.exp %0 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = quant.stats %e {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : tensor<2x2xf32>
  %s = "tosa.const_shape"() {values = dense<NUMBERS> : tensor<RANKxindex>} : () -> !tosa.shape<RANK>
  %r = tosa.OP : (tensor<2x2xf32>, !tosa.shape<RANK>) -> tensor<SHAPExf32>
  %q = quant.qcast %r : tensor<SHAPExf32> to tensor<SHAPExTYPE>
  %2 = quant.dcast %q : tensor<SHAPExTYPE> to tensor<SHAPExf32>
  return %2 : tensor<SHAPExf32>
}
"""


@pytest.mark.parametrize(
    ("numbers", "op", "shape", "type", "read"),
    [
        # What is read is requantized so that the result has what it is given, if that can be.
        ("[2, 2]", "reshape %1, %s", "2x2", AXES, ([0.5, 0.25], [0, 0])),
        ("[2, 1]", "tile %1, %s", "4x2", "!quant.uniform<u8:f32, 0.5:7>", (0.5, 7)),
        # Where it cannot be, it is not.
        ("[1, 2]", "tile %1, %s", "2x4", AXES.replace("}", ",1.0,2.0}"), None),
    ],
)
def test_what_moves_has_what_its_result_is_given(
    numbers: str, op: str, shape: str, type: str, read: object
):
    text = PINNED.replace("SHAPE", shape).replace("NUMBERS", numbers).replace("RANK", "2")
    module = Module(text.replace("OP", op).replace("TYPE", type))
    report = module.run(QuantizeWithRangesPass())
    (moved,) = (each for each in module.module.walk() if name_of(each) == f"tosa.{op.split()[0]}")
    if read is None:
        reasons = [each.reason for each in report.records if each.op is moved]
        assert reasons == ["its operands do not have the parameters of its result"]
    else:
        found = type_read(moved.operands[0])
        assert (found.scales.tolist(), found.zero_points.tolist()) == read
    once = module.printed()
    module.run(QuantizeWithRangesPass())
    assert module.printed() == once


def test_layers_of_16_bits_have_channels():
    with pytest.raises(ValueError, match="scheme one-s16 has no granularity=layer"):
        QuantizeWithRangesPass(scheme="one-s16", granularity="layer")
    layer = LayerSetting(("x",), (), "int16", "layer")
    with pytest.raises(ValueError, match="layer 'x': scheme one-s16 has no granularity=layer"):
        Configuration(layers=(layer,)).of_layers({"x"}, precision_of("one-u8"))
    # A scheme of weights that is chosen for itself may have one scale.
    QuantizeWithRangesPass(
        scheme="one-s16",
        granularity="layer",
        weight_scheme="torch-per-tensor-symmetric",
        weight_storage="i16",
    )


def test_a_storage_of_weights_needs_no_other_scheme():
    """The rule of the system, in another storage."""
    text = VARIABLE.replace("TYPE", "f32").replace("%p = ", "%v = WEIGHT\n  %p = ")
    text = text.replace("WEIGHT", "arith.constant dense<[[1.0, -2.0, 3.75], [-1.0, 3.0, 0.0]]>")
    module = Module(
        text.replace(">\n  %p", "> : tensor<2x3xf32>\n  %p").replace("%0, %1 :", "%0, %v :")
    )
    module.run(QuantizeWithRangesPass(scheme="torch-i8", weight_storage="i4"))
    (product,) = (op for op in module.module.walk() if name_of(op) == "linalg.matmul")
    found = type_read(product.operands[1])
    assert (found.storage_format.width, found.scales[-1]) == (4, 3.75 / 7.5)
    with pytest.raises(ValueError, match="ONE supports only the storage types u8, i8 and i16"):
        QuantizeWithRangesPass(weight_storage="i4")


VARIABLE = """
func.func @f(%x: tensor<4x2xTYPE>, %w: tensor<2x3xTYPE>, %b: tensor<4x3xTYPE>)
    -> tensor<4x3xTYPE> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<4x2xTYPE>
  %1 = quant.stats %w {layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>} : tensor<2x3xTYPE>
  %p = linalg.matmul ins(%0, %1 : tensor<4x2xTYPE>, tensor<2x3xTYPE>)
    outs(%b : tensor<4x3xTYPE>) -> tensor<4x3xTYPE>
  %2 = quant.stats %p {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : tensor<4x3xTYPE>
  return %2 : tensor<4x3xTYPE>
}
"""


@pytest.mark.parametrize("type", ["f16", "bf16", "f32", "f64"])
def test_weights_that_are_no_constants_are_activations(type: str):
    module = Module(VARIABLE.replace("TYPE", type))
    report = module.run(QuantizeWithRangesPass())
    (product,) = (op for op in module.module.walk() if name_of(op) == "linalg.matmul")
    assert str(type_read(product.operands[1])).startswith(f"!quant.uniform<u8:{type}, 0.0117")
    # What is added is not a constant either: it stays in floats, and that is told.
    assert isinstance(product.operands[2].owner, Block)
    (record,) = report.records
    assert record.reason.endswith(
        "its bias stays in floats: operand 2 of 'linalg.matmul' is not a constant"
    )


@pytest.mark.parametrize(("key", "what"), [("x", "an argument"), ("o", "a result of 'other.op'")])
def test_what_is_not_known_has_no_precision_of_its_own(key: str, what: str):
    module = Module(
        """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %o = "other.op"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %o : tensor<2xf32>
}
"""
    )
    settings = Settings(precision_of("one-u8"), layers={key: precision_of("one-s16")})
    with pytest.raises(ValueError, match=f"layer '{key}' cannot have .* it is {what}"):
        quantize_model(module.module, module.context, lambda keys: settings)


PRELU = """
func.func @f(%x: tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2x4x3x3xf32>
  %a = arith.constant dense<[[[0.25]], [[-0.5]], [[0.0]], [[0.3]]]> : tensor<4x1x1xf32>
  %y = "onnx.PRelu"(%0, %a) : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
  %1 = quant.stats %y {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2x4x3x3xf32>
  return %1 : tensor<2x4x3x3xf32>
}
"""


@pytest.mark.parametrize(
    ("scheme", "codes", "zero_points"),
    [("one-u8", [1, 0, 0, 1], [0, 1, 0, 0]), ("one-s16", [1, -1, 0, 1], [0, 0, 0, 0])],
)
def test_one_number_for_each_channel_is_its_scale(
    scheme: str, codes: list[int], zero_points: list[int]
):
    module = Module(PRELU)
    module.run(QuantizeWithRangesPass(scheme=scheme))
    (op,) = (op for op in module.module.walk() if name_of(op) == "onnx.PRelu")
    type = type_read(op.operands[1])
    # Zero has no scale: it is code 0 of scale 1.
    assert type.scales.tolist() == [0.25, 0.5, 1.0, float(np.float32(0.3))]
    assert type.zero_points.tolist() == zero_points
    back = op.operands[1].owner
    assert isinstance(back, DequantizeCastOp)
    constant = back.input.owner
    assert isinstance(constant, ConstantOp)
    assert np.asarray(constant.values).reshape(-1).tolist() == codes
    VerifyQuantizationPass(scheme=scheme, strict=True).apply(module.context, module.module)
    once = module.printed()
    module.run(QuantizeWithRangesPass(scheme=scheme))
    assert module.printed() == once


@pytest.mark.parametrize(("scheme", "granularity"), [("one-u8", "layer"), ("torch-i8", "channel")])
def test_one_number_for_each_channel_is_a_constant_elsewhere(scheme: str, granularity: str):
    module = Module(PRELU)
    module.run(QuantizeWithRangesPass(scheme=scheme, granularity=granularity))
    (op,) = (op for op in module.module.walk() if name_of(op) == "onnx.PRelu")
    assert type_read(op.operands[1]).scales.size == 1


@pytest.mark.parametrize("length", ["2", "?"])
def test_axes_move_with_their_elements(length: str):
    """Also of a tensor of dynamic shape: there, the axis that moves is not copied unchanged."""
    before, after = f"tensor<{length}x3xf32>", f"tensor<3x{length}xf32>"
    codes = before.replace("f32", "!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>")
    module = Module(f"""
func.func @f(%x: {before}) -> {after} {{
  %0 = quant.qcast %x : {before} to {codes}
  %1 = quant.dcast %0 : {codes} to {before}
  %2 = tosa.transpose %1 {{perms = array<i32: 1, 0>}} : ({before}) -> {after}
  return %2 : {after}
}}
""")
    module.run(QuantizeWithRangesPass())
    (transpose,) = (op for op in module.module.walk() if name_of(op) == "tosa.transpose")
    casts = [use.operation for use in transpose.results[0].uses]
    made = [element_of(op.result) for op in casts if isinstance(op, QuantizeCastOp)]
    if length == "?":
        assert made == []
    else:
        assert [(type.quantized_dimensions, type.scales.tolist()) for type in made] == [
            ((0,), [0.5, 0.25, 0.125])
        ]


def test_a_number_below_all_has_no_codes_of_several_scales():
    module = Module("""
!q = !quant.uniform<i8:f32:0, {0.5,0.25}>
func.func @f(%q: tensor<2x2x!q>) -> tensor<2x4xf32> {
  %x = quant.dcast %q : tensor<2x2x!q> to tensor<2x2xf32>
  %s = "tosa.const_shape"() {values = dense<[0, 0, 1, 1]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %z = "tosa.const"() {values = dense<-3.40282347E+38> : tensor<1xf32>} : () -> tensor<1xf32>
  %p = tosa.pad %x, %s, %z : (tensor<2x2xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<2x4xf32>
  %0 = quant.stats %p {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
""")
    (record,) = module.run(QuantizeWithRangesPass()).records
    assert record.reason == "the padding value has one scale, and the padded operand has several"


FILLED = """
func.func private @g(tensor<4x3xf32>) -> tensor<4x3xf32>
func.func @f(%a: tensor<4x3xf32>, %c: i1) -> tensor<4x2xf32> {
  %b = call @g(%a) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %x = scf.if %c -> (tensor<4x3xf32>) {
    scf.yield %a : tensor<4x3xf32>
  } else {
    scf.yield %b : tensor<4x3xf32>
  }
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<4x3xf32>
  %w = arith.constant dense<0.5> : tensor<3x2xf32>
  %n = arith.constant NUMBER : f32
  %e = tensor.empty() : tensor<4x2xf32>
  %i = linalg.fill ins(%n : f32) outs(%e : tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = quant.stats %i {layerStats = dense<[0.0, 0.0]> : tensor<2xf32>} : tensor<4x2xf32>
  %p = linalg.matmul ins(%0, %w : tensor<4x3xf32>, tensor<3x2xf32>)
    outs(%1 : tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = quant.stats %p {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}
"""


@pytest.mark.parametrize(("number", "is_bias"), [("0.0", False), ("0.5", True)])
def test_sums_that_start_from_zero_have_no_bias(number: str, is_bias: bool):
    # Also where the zeros have a recorded range.
    report = Module(FILLED.replace("NUMBER", number)).run(QuantizeWithRangesPass())
    call, product, branch = (each.reason for each in report.records)
    assert ("bias" in product) is is_bias
    assert ("is filled with 0.5 at run time: write it as a constant" in product) is is_bias
    assert call == "the call stays: its function has no body in this module"
    assert branch == "it runs regions, in which ops are quantized"


def test_a_part_may_have_fewer_scales_than_the_whole():
    module = Module("""
!q = !quant.uniform<i8:f32:0, {0.5,0.25}>
func.func @f(%q: tensor<2x2x!q>) -> tensor<1x2xf32> {
  %x = quant.dcast %q : tensor<2x2x!q> to tensor<2x2xf32>
  %t = tensor.extract_slice %x[1, 0] [1, 2] [1, 1] : tensor<2x2xf32> to tensor<1x2xf32>
  return %t : tensor<1x2xf32>
}
""")
    for _ in range(2):
        module.run(QuantizeWithRangesPass())
        (part,) = (op for op in module.module.walk() if name_of(op) == "tensor.extract_slice")
        assert type_read(part.operands[0]).scales.tolist() == [0.5, 0.25]
        assert type_made(part.results[0]).single_slot == (0.25, 0)


ADDED = """
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.5]> : tensor<2xf32>} : tensor<2x3xf32>
  %w = arith.constant dense<0.5> : tensor<3x4xf32>
  %b = arith.constant dense<[1.0, -2.0, 3.0, 4.0]> : tensor<4xf32>
  %c = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %z = linalg.fill ins(%c : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = linalg.matmul ins(%0, %w : tensor<2x3xf32>, tensor<3x4xf32>)
    outs(%z : tensor<2x4xf32>) -> tensor<2x4xf32>
  %d = linalg.broadcast ins(%b : tensor<4xf32>) outs(%e : tensor<2x4xf32>) dimensions = [0]
  %a = ADD
  %1 = quant.stats %a {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
"""


@pytest.mark.parametrize(
    "add",
    [
        "arith.addf %m, %d : tensor<2x4xf32>",
        "arith.addf %d, %m : tensor<2x4xf32>",
        "linalg.add ins(%m, %d : tensor<2x4xf32>, tensor<2x4xf32>)"
        " outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>",
    ],
)
def test_what_is_added_to_a_layer_is_its_bias(add: str):
    # The sums have no range of their own, and need none.
    module = Module(ADDED.replace("ADD", add))
    module.run(QuantizeWithRangesPass())
    _, quantized = (op for op in module.module.walk() if isinstance(op, QuantizeCastOp))
    added = quantized.input.owner
    assert isinstance(added, Operation)
    sums, bias = added.operands[:2] if "%m, %d" in add else added.operands[1::-1]
    assert isinstance(sums.owner, Operation)
    assert isinstance(bias.owner, Operation)
    assert name_of(sums.owner) == "linalg.matmul"
    assert name_of(bias.owner) == "linalg.broadcast"
    assert type_read(bias.owner.operands[0]).storage_format.width == 32


@pytest.mark.parametrize(("shape", "map"), [("1x4", "0, j"), ("2x1", "i, 0"), ("1", "0")])
def test_axes_of_length_one_of_a_bias_are_broadcast(shape: str, map: str):
    """As torch-mlir writes what ONNX broadcasts; only one number for each channel is a bias."""
    add = """linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
    affine_map<(i, j) -> (MAP)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%m, %k : tensor<2x4xf32>, tensor<SHAPExf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%one: f32, %other: f32, %out: f32):
    %sum = arith.addf %one, %other : f32
    linalg.yield %sum : f32
  } -> tensor<2x4xf32>
"""
    text = ADDED.replace("ADD", add.replace("MAP", map).replace("SHAPE", shape))
    lengths = [int(length) for length in shape.split("x")]
    numbers = np.arange(1.0, 1.0 + math.prod(lengths)).reshape(lengths).tolist()
    constant = f"%k = arith.constant dense<{numbers}> : tensor<{shape}xf32>\n  %c ="
    module = Module(text.replace("%c =", constant, 1))
    module.run(QuantizeWithRangesPass())
    (op,) = (op for op in module.module.walk() if name_of(op) == "linalg.generic")
    if shape == "1x4":
        assert type_read(op.operands[1]).storage_format.width == 32
    else:
        assert name_of(cast(Operation, op.operands[1].owner)) == "arith.constant"


CLAMPED = """
func.func @f(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = quant.qcast %x : tensor<2x2xf32> to tensor<2x2xTYPE>
  %1 = quant.dcast %0 : tensor<2x2xTYPE> to tensor<2x2xf32>
  %c = arith.constant BOUND : f32
  %b = arith.constant dense<BOUND> : tensor<2x2xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %y = CLAMP
  return %y : tensor<2x2xf32>
}
"""
GENERIC = """linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>,
    affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%1 : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = arith.maximumf %in, %c : f32
    linalg.yield %m : f32
  } -> tensor<2x2xf32>"""
MAXIMUM = "arith.maximumf %1, %b : tensor<2x2xf32>"
TOSA = """tosa.clamp %1 {min_val = BOUND : f32, max_val = 6.0 : f32}
    : (tensor<2x2xf32>) -> tensor<2x2xf32>"""


@pytest.mark.parametrize("clamp", [GENERIC, MAXIMUM, TOSA])
@pytest.mark.parametrize(
    ("bound", "of_operand", "is_alike"),
    [
        ("0.0", "u8:f32, 0.05:100", True),
        ("-2.0", "u8:f32, 0.05:100", True),
        # The result is 50, which has no code.
        ("50.0", "u8:f32, 0.05:100", False),
        # Neither has zero.
        ("0.0", "u8:f32, 0.05:300", False),
        # A body may move scales.
        ("0.0", "i8:f32:0, {0.5,0.25}", False),
    ],
)
def test_the_result_of_a_clamp_toward_zero_is_as_its_operand(
    clamp: str, bound: str, of_operand: str, is_alike: bool
):
    text = CLAMPED.replace("TYPE", f"!quant.uniform<{of_operand}>").replace("CLAMP", clamp)
    module = Module(text.replace("BOUND", bound))
    (record,) = module.run(QuantizeWithRangesPass()).records
    assert ("its result is" in record.reason) is is_alike, record.reason
    made = [op for op in module.module.walk() if isinstance(op, QuantizeCastOp)]
    assert len({str(element_of(op.result)) for op in made}) == 1
    assert len(made) == 1 + is_alike


LINEAR_OF_TOSA = """
func.func @f(%x: tensor<1x4x3xf32>) -> tensor<SHAPExf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.5]> : tensor<2xf32>} : tensor<1x4x3xf32>
  %w = "tosa.const"() {values = dense<[[[0.5, 1.0], [0.25, -1.0], [0.125, 0.75]]]>
    : tensor<1x3x2xf32>} : () -> tensor<1x3x2xf32>
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %s = "tosa.const_shape"() {values = dense<[LENGTHS]> : tensor<RANKxindex>}
    : () -> !tosa.shape<RANK>
  %b = "tosa.const"() {values = dense<[[NUMBERS]]> : tensor<1xCHANNELSxf32>}
    : () -> tensor<1xCHANNELSxf32>
  %m = tosa.matmul %0, %w, %z, %z
    : (tensor<1x4x3xf32>, tensor<1x3x2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x2xf32>
  %1 = quant.stats %m {layerStats = dense<[-3.0, 3.0]> : tensor<2xf32>} : tensor<1x4x2xf32>
  %r = tosa.reshape %1, %s : (tensor<1x4x2xf32>, !tosa.shape<RANK>) -> tensor<SHAPExf32>
  %a = tosa.add %r, %b : (tensor<SHAPExf32>, tensor<1xCHANNELSxf32>) -> tensor<SHAPExf32>
  %2 = quant.stats %a {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : tensor<SHAPExf32>
  return %2 : tensor<SHAPExf32>
}
"""
LINEAR_OF_STABLEHLO = """
func.func @f(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.5]> : tensor<2xf32>} : tensor<4x3xf32>
  %w = arith.constant dense<[[0.5, 1.0], [0.25, -1.0], [0.125, 0.75]]> : tensor<3x2xf32>
  %b = arith.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %i = arith.constant dense<FACTOR> : tensor<i64>
  %n = "stablehlo.convert"(%i) : (tensor<i64>) -> tensor<f32>
  %n2 = "stablehlo.broadcast_in_dim"(%n) {broadcast_dimensions = array<i64>}
    : (tensor<f32>) -> tensor<2xf32>
  %n42 = "stablehlo.broadcast_in_dim"(%n) {broadcast_dimensions = array<i64>}
    : (tensor<f32>) -> tensor<4x2xf32>
  %m = "stablehlo.dot_general"(%0, %w) {dot_dimension_numbers = #stablehlo.dot<
    lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}
    : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %p = "stablehlo.multiply"(%m, %n42)
    : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = quant.stats %p {layerStats = dense<[-3.0, 3.0]> : tensor<2xf32>} : tensor<4x2xf32>
  %c = "stablehlo.multiply"(%n2, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %d = "stablehlo.broadcast_in_dim"(%c) {broadcast_dimensions = array<i64: 1>}
    : (tensor<2xf32>) -> tensor<4x2xf32>
  %a = "stablehlo.add"(%1, %d) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = quant.stats %a {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}
"""


def linear_of_tosa(shape: str, numbers: str) -> str:
    lengths = shape.split("x")
    text = LINEAR_OF_TOSA.replace("SHAPE", shape).replace("LENGTHS", ", ".join(lengths))
    text = text.replace("RANK", str(len(lengths))).replace("NUMBERS", numbers)
    return text.replace("CHANNELS", str(numbers.count(",") + 1))


@pytest.mark.parametrize(
    ("text", "is_bias"),
    [
        (linear_of_tosa("4x2", "1.0, -2.0"), True),
        # The last axis has rows and channels.
        (linear_of_tosa("2x4", "1.0, -2.0, 1.0, -2.0"), False),
        (LINEAR_OF_STABLEHLO.replace("FACTOR", "1"), True),
        (LINEAR_OF_STABLEHLO.replace("FACTOR", "2"), False),
    ],
)
def test_linear_layers_of_torch_have_biases(text: str, is_bias: bool):
    """Between the sums and the bias are a reshape, or products with alpha and beta, which are 1."""
    module = Module(text)
    module.run(QuantizeWithRangesPass(scheme="one-u8", granularity="channel"))
    adder = next(op for op in module.module.walk() if name_of(op).endswith(".add"))
    found = adder.operands[1]
    while isinstance(found.owner, Operation) and found.owner.operands:
        if isinstance(found.owner, DequantizeCastOp):
            break
        found = found.owner.operands[0]
    is_quantized = isinstance(found.owner, DequantizeCastOp)
    assert (is_quantized and type_read(found).storage_format.width == 32) is is_bias
    if not is_bias:
        return
    layer = next(op for op in module.module.walk() if "mat" in name_of(op) or "dot" in name_of(op))
    read, weights = map(type_read, layer.operands[:2])
    # The sums are not rounded before the bias is added.
    assert not any(isinstance(use.operation, QuantizeCastOp) for use in layer.results[0].uses)
    wanted = read.scales.reshape(-1) * weights.scales.reshape(-1)
    assert np.allclose(type_read(found).scales.reshape(-1), wanted, rtol=1e-6)


def linear_of_batches(batch: int, weights: str) -> str:
    """A layer that torch-mlir writes for a matrix that is multiplied by several others."""
    broadcast = f"""
  %e = tensor.empty() : tensor<{batch}x3x2xf32>
  %w = linalg.broadcast ins(%c : tensor<3x2xf32>) outs(%e : tensor<{batch}x3x2xf32>)
    dimensions = [0]"""
    expanded = f"""
  %w = tensor.expand_shape %c [[0, 1], [2]] output_shape [{batch}, 3, 2]
    : tensor<{3 * batch}x2xf32> into tensor<{batch}x3x2xf32>"""
    rows = 3 if weights == "repeated" else 3 * batch
    return f"""
func.func @f(%x: tensor<{batch}x4x3xf32>) -> tensor<{batch}x4x2xf32> {{
  %0 = quant.stats %x {{layerStats = dense<[-1.0, 1.5]> : tensor<2xf32>}}
    : tensor<{batch}x4x3xf32>
  %c = arith.constant dense<{[[row + 0.5, 1.0 - row] for row in range(rows)]}>
    : tensor<{rows}x2xf32>
  %b = arith.constant dense<[1.0, -2.0]> : tensor<2xf32>{
        broadcast if weights == "repeated" else expanded
    }
  %z = arith.constant dense<0.0> : tensor<{batch}x4x2xf32>
  %m = linalg.batch_matmul ins(%0, %w : tensor<{batch}x4x3xf32>, tensor<{batch}x3x2xf32>)
    outs(%z : tensor<{batch}x4x2xf32>) -> tensor<{batch}x4x2xf32>
  %1 = quant.stats %m {{layerStats = dense<[-3.0, 3.0]> : tensor<2xf32>}}
    : tensor<{batch}x4x2xf32>
  %a = linalg.generic {{indexing_maps = [affine_map<(d0, d1, d2) -> (d2)>,
    affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]}}
    ins(%b, %1 : tensor<2xf32>, tensor<{batch}x4x2xf32>)
    outs(%z : tensor<{batch}x4x2xf32>) {{
  ^bb0(%i: f32, %j: f32, %k: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  }} -> tensor<{batch}x4x2xf32>
  %2 = quant.stats %a {{layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>}}
    : tensor<{batch}x4x2xf32>
  return %2 : tensor<{batch}x4x2xf32>
}}
"""


@pytest.mark.parametrize(
    ("batch", "weights", "is_bias"),
    [(1, "expanded", True), (5, "repeated", True), (2, "expanded", False)],
)
def test_layers_on_a_batch_have_biases(batch: int, weights: str, is_bias: bool):
    """A bias has a number for each channel of one matrix; of several matrices, it has none."""
    module = Module(linear_of_batches(batch, weights))
    module.run(QuantizeWithRangesPass(scheme="one-u8", granularity="channel"))
    (layer,) = (op for op in module.module.walk() if name_of(op) == "linalg.batch_matmul")
    (adder,) = (op for op in module.module.walk() if name_of(op) == "linalg.generic")
    is_rounded = any(isinstance(use.operation, QuantizeCastOp) for use in layer.results[0].uses)
    assert is_rounded is not is_bias
    added = type_read(adder.operands[0])
    assert (added.storage_format.width == 32) is is_bias
    if is_bias:
        moved = cast(Operation, layer.operands[1].owner)
        weight = moved.operands[0] if weights == "repeated" else layer.operands[1]
        wanted = type_read(layer.operands[0]).scales.item() * type_read(weight).scales.reshape(-1)
        assert np.allclose(added.scales.reshape(-1), wanted, rtol=1e-6)


def test_weights_may_be_computed_from_constants_and_reshaped():
    """They have the range that was recorded before the reshape."""
    module = Module("""
func.func @f(%x: tensor<2x2xf32>) -> tensor<2x3xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2x2xf32>
  %w = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32>
  %d = math.sqrt %w : tensor<6xf32>
  %1 = quant.stats %d {layerStats = dense<[1.0, 2.5]> : tensor<2xf32>} : tensor<6xf32>
  %r = tensor.expand_shape %1 [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  %z = arith.constant dense<0.0> : tensor<2x3xf32>
  %p = linalg.matmul ins(%0, %r : tensor<2x2xf32>, tensor<2x3xf32>)
    outs(%z : tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = quant.stats %p {layerStats = dense<[-5.0, 5.0]> : tensor<2xf32>} : tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}
""")
    module.run(QuantizeWithRangesPass())
    (product,) = (op for op in module.module.walk() if name_of(op) == "linalg.matmul")
    scale, zero = of_range(1.0, 2.5)
    assert type_read(product.operands[1]).single_slot == (scale, zero)


def test_a_wide_bias_has_scales_along_one_axis():
    """The layer is quantized, and the bias stays float where the layer has groups."""
    module = Module("""
func.func @f(%x: tensor<1x2x1x3x3xf32>) -> tensor<1x2x2x3x3xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<1x2x1x3x3xf32>
  %w = arith.constant dense<[[[[[1.]]], [[[2.]]]], [[[[3.]]], [[[4.]]]]]> : tensor<2x2x1x1x1xf32>
  %b = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %e = tensor.empty() : tensor<1x2x2x3x3xf32>
  %i = linalg.broadcast ins(%b : tensor<2x2xf32>) outs(%e : tensor<1x2x2x3x3xf32>)
    dimensions = [0, 3, 4]
  %c = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>,
    strides = dense<1> : vector<2xi64>}
    ins(%0, %w : tensor<1x2x1x3x3xf32>, tensor<2x2x1x1x1xf32>)
    outs(%i : tensor<1x2x2x3x3xf32>) -> tensor<1x2x2x3x3xf32>
  %1 = quant.stats %c {layerStats = dense<[-8.0, 8.0]> : tensor<2xf32>} : tensor<1x2x2x3x3xf32>
  return %1 : tensor<1x2x2x3x3xf32>
}
""")
    report = module.run(QuantizeWithRangesPass(scheme="one-s16"))
    (reason,) = (each.reason for each in report.records if "conv" in each.op_name)
    assert "its bias stays in floats: it has 64 bits, and scales along several axes" in reason


def test_tensors_of_other_dialects_are_told():
    module = Module("""
func.func @f(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  %0 = "torch.aten.tanh"(%x) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
  return %0 : !torch.vtensor<[2],f32>
}
""")
    (record,) = module.run(QuantizeWithRangesPass()).records
    assert "only values of builtin tensor types have ranges and codes" in record.reason
