"""The report of a quantization says of each value how it is stored, or why it is not."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from dequantizing_arithmetic import Module, dense
from hypothesis import given, note
from hypothesis import strategies as st
from random_models import models
from xdsl.ir import Operation, SSAValue

from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeBiasOp,
    DequantizeCastOp,
    QuantizeCastOp,
    RequantizeOp,
    StatisticsOp,
)
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.ops.along_axis import is_recordable
from qdialect.ops.interface import elements_attribute_of, name_of
from qdialect.opt import opt
from qdialect.ptq.passes.models import QuantizeWithRangesPass
from qdialect.ptq.tools import calibrate, evaluate
from qdialect.ptq.tools.evaluation import expected_from_report
from qdialect.ptq.value_reports import QuantizationReport, Role, ValueReport

pytestmark = pytest.mark.usefixtures("without_plugins")

SCHEMES = ["one-u8", "one-s16", "torch-i8", "glow-i8"]


def quantized(
    text: str, scheme: str = "one-u8", granularity: str = "channel"
) -> tuple[Module, list[ValueReport]]:
    """A quantized module, and the reports of its values."""
    module = Module(text)
    module.context.wants_values = True
    module.run(QuantizeWithRangesPass(scheme=scheme, granularity=granularity))
    (report,) = (
        each for each in module.context.fold_reports if isinstance(each, QuantizationReport)
    )
    return module, report.values


def values_of(module: Module) -> list[SSAValue]:
    """Tensors of floats that are computed: not constants, and not what casts make of others."""
    functions = [op for op in module.module.walk() if name_of(op) == "func.func"]
    found = list[SSAValue]()
    for function in functions:
        found += function.regions[0].blocks[0].args
    own = (DequantizeBiasOp, DequantizeCastOp, QuantizeCastOp, RequantizeOp, StatisticsOp)
    for op in module.module.walk():
        if not isinstance(op, own) and elements_attribute_of(op) is None:
            found += [result for result in op.results if is_recordable(result)]
    return found


def ancestors(value: SSAValue) -> set[SSAValue]:
    found, pending = set[SSAValue](), [value]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation):
            pending += [each for each in owner.operands if each not in found]
            found.update(owner.operands)
    return found


@given(models(), st.sampled_from(SCHEMES), st.sampled_from(["channel", "block"]))
def test_each_value_is_stored_or_has_a_reason(text: str, scheme: str, granularity: str):
    note(text)
    module, reports = quantized(text, scheme=scheme, granularity=granularity)
    note(module.printed())
    told = {each.value: each for each in reports if each.role in (Role.ARGUMENT, Role.ACTIVATION)}
    values = values_of(module)
    # What nothing reads is erased, with its range and its casts.
    values = [value for value in values if value.first_use is not None]
    told = {
        value: each
        for value, each in told.items()
        if each.place.parent is not None and value.first_use is not None
    }
    assert set(told) == set(values)
    codes = [op.result for op in module.module.walk() if isinstance(op, QuantizeCastOp)]
    for value in values:
        casts = [use.operation for use in value.uses if isinstance(use.operation, QuantizeCastOp)]
        report = told[value]
        if casts:
            (only,) = casts
            assert report.stored is not None
            assert uniform_tensor(only.result.type).element_type == report.stored.type
            assert not report.reason
            continue
        assert report.stored is None
        assert report.reason
        is_before = any(value in ancestors(each) for each in codes)
        is_behind = any(isinstance(each.owner, QuantizeCastOp) for each in ancestors(value))
        if is_before and is_behind:
            # Between two quantized values: what is at fault is named.
            assert report.code is not None or any(
                word in report.reason for word in ("softmax", "bias", "gate", "normalization")
            )
    types = {str(uniform_tensor(op.result.type).element_type) for op in constants(module)}
    of_constants = [each for each in reports if each.role not in (Role.ARGUMENT, Role.ACTIVATION)]
    assert types <= {str(each.stored.type) for each in of_constants if each.stored is not None}
    assert all(each.stored is not None or each.reason for each in of_constants)


def constants(module: Module) -> list[ConstantOp]:
    return [op for op in module.module.walk() if isinstance(op, ConstantOp)]


FLOATS = """
func.func @f(%x: tensor<1x2x2xf32>) -> tensor<1x2x2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<1x2x2xf32>
  %a = BODY : (tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  %y = "tosa.abs"(%a) : (tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  %1 = quant.stats %y {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<1x2x2xf32>
  %z = "tosa.exp"(%1) : (tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  %2 = quant.stats %z {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : tensor<1x2x2xf32>
  return %2 : tensor<1x2x2xf32>
}
"""


@pytest.mark.parametrize(
    ("body", "reasons"),
    [
        (
            '"other.op"(%0)',
            {
                "a": "no quantization rule for 'other.op' is known",
                "y": "no record of its operand 'a'",
            },
        ),
        ('"tosa.exp"(%0)', {"a": "no record of its result 'a'", "y": "of its operand 'a'"}),
    ],
)
def test_what_is_at_fault_is_named(body: str, reasons: dict[str, str]):
    _, reports = quantized(FLOATS.replace("BODY", body))
    found = {each.key: each for each in reports}
    # It is made in floats, and read as codes.
    assert (found["a"].stored, found["y"].stored is None) == (None, False)
    assert reasons["a"] in found["a"].reason
    assert found["z"].stored is not None


LAYER = """
func.func @f(%x: tensor<4x2xf32>, %init: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<4x2xf32>
  %w = "tosa.const"() {values = WEIGHT} : () -> tensor<2x3xf32>
  %b = "tosa.const"() {values = BIAS} : () -> tensor<1x3xf32>
  %p = linalg.matmul ins(%0, %w : tensor<4x2xf32>, tensor<2x3xf32>)
    outs(%init : tensor<4x3xf32>) -> tensor<4x3xf32>
  %y = tosa.add %p, %b : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %1 = quant.stats %y {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_constants_are_measured(scheme: str):
    random = np.random.default_rng(3)
    weight = random.normal(size=(2, 3)).astype("f4")
    bias = random.normal(size=(1, 3)).astype("f4")
    text = LAYER.replace("WEIGHT", dense(weight)).replace("BIAS", dense(bias))
    module, reports = quantized(text, scheme=scheme)
    found = {each.key: each for each in reports}
    assert found["p"].reason == "it is quantized only after the bias is added"
    product = next(op for op in module.module.walk() if op.name == "linalg.matmul")
    back = product.operands[1].owner
    assert isinstance(back, DequantizeCastOp)
    constant = back.input.owner
    assert isinstance(constant, ConstantOp)
    type = uniform_tensor(constant.result.type).element_type
    codes = np.asarray(constant.values).astype("i8")
    read = (codes - type.zero_points.reshape(1, -1)) * type.scales.reshape(1, -1)
    stored = found["w"].stored
    assert stored is not None
    expected = 10 * math.log10((weight.astype("f8") ** 2).sum() / ((weight - read) ** 2).sum())
    assert stored.decibels == pytest.approx(expected, abs=1e-2)
    assert found["w"].range == (weight.min(), weight.max())
    of_bias = found["b"].stored
    assert of_bias is not None
    assert of_bias.bits == (64 if scheme == "one-s16" else 32)
    assert (of_bias.rule, of_bias.origin) == ("derived", "y")
    assert of_bias.saturated_elements == 0
    assert of_bias.decibels is not None


def test_saturated_elements_are_counted_and_told():
    weight, bias = np.full((2, 3), 1e-5, "f4"), np.array([[1.0, 1e7, -1e7]], "f4")
    text = LAYER.replace("WEIGHT", dense(weight)).replace("BIAS", dense(bias))
    module, reports = quantized(text)
    stored = next(each for each in reports if each.key == "b").stored
    assert stored is not None
    # Steps of a bias are 1/127.5 * 1e-5: there are codes up to 168.
    assert (stored.saturated_elements, stored.saturated) == (2, 2 / 3)
    (record,) = (each for each in module.context.fold_reports[0].records)
    assert "; 2 elements of its bias did not fit" in record.reason


JOINED = """
func.func @f(%x: tensor<2xf32>) -> tensor<6xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %c = "tosa.const"() {values = dense<[0.5, 2.0, -3.0, 1.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  %j = tosa.concat %0, %c {axis = 0 : i32} : (tensor<2xf32>, tensor<4xf32>) -> tensor<6xf32>
  %1 = quant.stats %j {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<6xf32>
  return %1 : tensor<6xf32>
}
"""


def test_a_constant_may_be_beyond_the_codes_of_what_it_is_joined_with():
    module, reports = quantized(JOINED)
    stored = next(each for each in reports if each.key == "c").stored
    assert stored is not None
    assert (stored.saturated_elements, stored.origin) == (2, "j")
    (record,) = module.context.fold_reports[0].records
    assert record.reason.endswith("; 2 elements of operand 1 of 'tosa.concat' did not fit")


def run(folder: Path, *arguments: str) -> None:
    assert opt.main([str(folder / "model.mlir"), *arguments]) == 0


@pytest.mark.parametrize("histogram", [False, True])
def test_what_is_expected_is_measured(tmp_path: Path, histogram: bool):
    """From a model and its records to the report, and to the evaluation that reads it."""
    random = np.random.default_rng(0)
    (tmp_path / "model.mlir").write_text(
        """
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %c = "tosa.const"() {values = CONSTANT} : () -> tensor<64xf32>
  %a = tosa.add %x, %c : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %y = tosa.abs %a : (tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}
""".replace("CONSTANT", dense(random.normal(size=64).astype("f4")))
    )
    # Most numbers are near zero: they are not spread evenly.
    data = tmp_path / "data.npz"
    np.savez(data, x=random.laplace(size=(50, 64)).astype("f4"))
    model, profile = str(tmp_path / "model.mlir"), str(tmp_path / "p.json")
    counted = ["--histogram"] if histogram else []
    of_records = ["--data", str(data), "--engine=reference"]
    assert calibrate.main([model, *of_records, "-o", profile, *counted]) == 0
    report, found = tmp_path / "report.json", tmp_path / "found.json"
    out = str(tmp_path / "q.mlir")
    run(
        tmp_path,
        f"--attach-ranges=profile={profile}",
        f"--quantize-with-ranges=profile={profile}",
        f"--quantization-report={report}",
        "-o",
        out,
    )
    expected = expected_from_report(str(report))
    assert evaluate.main([model, out, *of_records, f"--json={found}"]) == 0
    measured = {
        each["key"]: each["signal_to_noise"] for each in json.loads(found.read_text())["values"]
    }
    assert set(expected) == set(measured) == {"x", "c", "a", "y"}
    held = json.loads(report.read_text())
    bases = {each["key"]: each["basis"] for each in held["values"]}
    assert bases["x"] == ("histogram" if histogram else "uniform")
    assert bases["c"] == "measured"
    if histogram:
        assert expected["x"] == pytest.approx(measured["x"], abs=0.3)
    else:
        # The signal is less than is assumed, and so is the ratio.
        assert expected["x"] > measured["x"] + 3
    assert expected["c"] == pytest.approx(measured["c"])
    # What is added by rounding the operands is in what is measured alone.
    assert measured["y"] < expected["y"] + 0.3


def test_two_outputs_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "model.mlir").write_text(JOINED)
    path = str(tmp_path / "model.mlir")
    assert opt.main([path, f"--quantization-report={path}"]) == 1
    assert "the quantization report would be written over the input file" in capsys.readouterr().err


BROADCAST = """
func.func @f(%x: tensor<?x4xf32>, %n: tensor<2xi32>) -> tensor<?x3xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<?x4xf32>
  %w = "stablehlo.constant"() {value = dense<0.5> : tensor<4x3xf32>} : () -> tensor<4x3xf32>
  %b = "stablehlo.constant"() {value = dense<[1.0, -2.0, 1.5]> : tensor<3xf32>}
    : () -> tensor<3xf32>
  %1 = "stablehlo.dot_general"(%0, %w) {dot_dimension_numbers = #stablehlo.dot<
    lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}
    : (tensor<?x4xf32>, tensor<4x3xf32>) -> tensor<?x3xf32>
  %v = "stablehlo.dynamic_broadcast_in_dim"(%b, %n) {broadcast_dimensions = array<i64: 1>}
    : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x3xf32>
  %2 = "stablehlo.add"(%1, %v) : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  %3 = quant.stats %2 {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<?x3xf32>
  %r = "stablehlo.while"(%3) ({
  ^bb0(%a: tensor<?x3xf32>):
    %c = "stablehlo.constant"() {value = dense<false> : tensor<i1>} : () -> tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%a: tensor<?x3xf32>):
    "stablehlo.return"(%a) : (tensor<?x3xf32>) -> ()
  }) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  return %r : tensor<?x3xf32>
}
"""


def test_what_broadcasts_a_bias_and_what_no_op_reads_is_told():
    _, reports = quantized(BROADCAST)
    told = {each.value.name_hint: each for each in reports}
    reason = "it broadcasts the bias of 'stablehlo.dot_general', which is quantized"
    assert told["v"].reason == reason
    # The first of the two has no op on floats in its block.
    assert [each.value.name_hint for each in reports].count("a") == 2


def test_tensors_without_defined_elements_are_no_values():
    """As before a convolution in groups, whose sums start in a reshaped tensor."""
    _, values = quantized("""
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %e = tensor.empty() : tensor<6xf32>
  %r = tensor.expand_shape %e [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  %n = linalg.negf ins(%x : tensor<2x3xf32>) outs(%r : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %n : tensor<2x3xf32>
}
""")
    assert [value.key for value in values] == ["x", "n"]
