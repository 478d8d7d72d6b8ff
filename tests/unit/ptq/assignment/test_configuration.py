"""Files of ONE's configuration: errors have a reason and a location."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dequantizing_arithmetic import Module
from xdsl.utils.exceptions import PassFailedException

from qdialect.dialects.quant import QuantizeCastOp
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.folding.report import PassReport
from qdialect.ops.refusals import RefusalCode
from qdialect.ptq.assignment.settings import Configuration, Settings, precision_of
from qdialect.ptq.assignment.whole_model import quantize_model
from qdialect.ptq.passes.models import QuantizeWithRangesPass
from qdialect.ptq.value_reports import QuantizationReport

pytestmark = pytest.mark.usefixtures("without_plugins")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "c.json:1:1: it must be an object, but is [1]"),
        ("{", "c.json:1:2: "),
        ("{\n \xff", "c.json:2:2: byte 0xFF is not UTF-8; write it in UTF-8"),
        ('{"layer": []}', "c.json:1:2: 'layer' is unknown: the keys are "),
        ('{"layers": {}}', "c.json:1:2: it must be an array, but is {}"),
        ('{"layers": [1]}', "c.json:1:13: it must be an object, but is 1"),
        ('{"layers": [{"dtype": "int16"}]}', "1:13: a layer must have either 'name' or 'names'"),
        ('{"layers": [{"name": "x", "names": ["x"]}]}', "either 'name' or 'names'"),
        ('{"layers": [{"names": []}]}', "c.json:1:14: it must have a name"),
        (
            '{"layers": [{"names": [1]}]}',
            "c.json:1:24: it must be a text, but is 1",
        ),
        (
            '{"layers": [{"name": "x", "alternate": []}]}',
            "c.json:1:27: it must be an object, but is []",
        ),
        ('{"layers": [], "layers": []}', "c.json:1:16: 'layers' is given twice"),
        ('{"copies": {"x": "y", "x": "z"}}', "c.json:1:23: 'x' is given twice"),
        ('{"parameters": {"x": 1}}', "c.json:1:17: it must be an object, but is 1"),
        ('{"parameters": {"x": {"scale": true}}}', "c.json:1:23: it must be a number, but is True"),
        (
            '{"parameters": {"x": {"scale": 1,\n"zero_point": 0.5}}}',
            "c.json:2:1: it must be an integer, but is 0.5",
        ),
        ('{"parameters": {"x": {"scale": 1' + "0" * 400 + "}}}", "c.json:1:23: it is too large"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, text: str, message: str):
    path = tmp_path / "c.json"
    path.write_text(text, "latin-1")
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        Configuration.read(str(path))
    assert str(raised.value).startswith(str(path))


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"name": "z"}, "no value has the key 'z'"),
        ({"name": "x", "dtype": "int4"}, "layer 'x': there is no scheme 'int4'; the schemes are "),
        ({"name": "x", "granularity": "row"}, "layer 'x': granularity must be one of "),
        ({"name": "x", "alternate": {"a": ["y"]}}, "several lists of names match the module"),
        ({"name": "z*"}, "no value has a key like 'z*'"),
        ({"name": "/(/"}, "'/(/' is no regular expression: "),
    ],
)
def test_what_is_wrong_with_a_layer_is_told(tmp_path: Path, layer: dict[str, object], message: str):
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"layers": [layer]}))
    with pytest.raises(ValueError, match=re.escape(message)):
        Configuration.read(str(path)).of_layers({"x", "y"}, precision_of("one-u8"))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            '{\n "default_quantization_dtype": "uint8"}',
            {"scheme": "one-s16"},
            "c.json:2:2: 'default_quantization_dtype' is 'uint8', and the option scheme is",
        ),
        (
            '{"default_granularity": "layer"}',
            {"granularity": "channel"},
            "c.json:1:2: 'default_granularity' is 'layer', and the option gran",
        ),
        ('{"default_granularity": "row"}', {}, "c.json:1:2: granularity must be one of "),
        ('{"default_quantization_dtype": "i7"}', {}, "c.json:1:2: there is no scheme 'i7'"),
        ('{"copies": {"x": "x"}}', {}, "c.json:1:13: 'copies' are a circle: 'x' from 'x'"),
        (
            '{"copies": {"a": "x",\n  "x": "y",\n  "y": "x"}}',
            {},
            "c.json:2:3: 'copies' are a circle: 'x' from 'y' from 'x'",
        ),
        (
            '{"parameters": {"x": {"scale": 1}},\n"copies": {"x": "y"}}',
            {},
            "c.json:2:12: 'x' is in 'parameters' and in 'copies'",
        ),
        ('{"parameters":\n{"w": {"scale": 1}}}', {}, "c.json:2:2: no value has the key 'w'"),
        ('{"parameters":\n {"x": {"scale": 0}}}', {}, "c.json:2:3: the parameters of 'x': "),
        ('{"copies": {"x":\n"z"}}', {}, "c.json:1:13: the parameters of 'x': 'z' has no range"),
        (
            '{"layers": [{"name": "a"},\n {"name": "u", "alternate": {"v": ["q"]}}]}',
            {},
            "c.json:2:2: layer 'u' cannot have a precision of its own: it is an argument",
        ),
        ('{"layers": [{"name": "a"}, {"name": "q"}]}', {}, "c.json:1:28: no value has the key 'q'"),
    ],
)
def test_a_setting_that_is_wrong_is_located(
    tmp_path: Path, text: str, options: dict[str, Any], message: str
):
    path = tmp_path / "c.json"
    path.write_text(text)
    module = Module(TEXT)
    before = module.printed()
    with pytest.raises(PassFailedException, match=re.escape(f"{tmp_path}/{message}")):
        module.run(QuantizeWithRangesPass(config=str(path), **options))
    assert module.printed() == before


TEXT = """
func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32>, %z: tensor<2xf32>,
    %u: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %1 = quant.stats %y {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} : tensor<2xf32>
  %a = tosa.add %0, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = quant.stats %a {layerStats = dense<[-3.0, 3.0]> : tensor<2xf32>} : tensor<2xf32>
  %b = tosa.sub %2, %z : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %b : tensor<2xf32>
}
"""


def test_what_is_copied_is_what_a_value_has():
    module = Module(TEXT)
    settings = Settings(precision_of("one-u8"), parameters={"x": (0.5, 7)}, copies={"y": "x"})
    quantize_model(module.module, module.context, lambda keys: settings)
    slots = {
        op.result.name_hint: uniform_tensor(op.result.type).element_type.single_slot
        for op in module.module.walk()
        if isinstance(op, QuantizeCastOp)
    }
    assert slots["x"] == slots["y"] == (0.5, 7)


def test_an_argument_may_stay_in_floats(tmp_path: Path):
    module = Module(TEXT)
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"layers": [{"name": "x", "dtype": "float32"}]}))
    QuantizeWithRangesPass(config=str(path)).apply(module.context, module.module)
    assert not any(isinstance(op, QuantizeCastOp) for op in module.module.walk())


def test_the_report_has_the_precision_of_an_argument(tmp_path: Path):
    module = Module(TEXT)
    module.context.wants_values = True
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"layers": [{"name": "x", "dtype": "int16"}]}))
    report = module.run(QuantizeWithRangesPass(config=str(path)))
    assert isinstance(report, QuantizationReport)
    (value,) = (each for each in report.values if each.key == "x")
    assert value.precision == "one-s16"


def test_a_copy_of_a_copy_is_what_that_one_copies():
    module = Module(TEXT)
    settings = Settings(precision_of("one-u8"), copies={"a": "y", "y": "x"})
    quantize_model(module.module, module.context, lambda keys: settings)
    types = {
        uniform_tensor(op.result.type).element_type
        for op in module.module.walk()
        if isinstance(op, QuantizeCastOp)
    }
    assert len(types) == 1


@pytest.mark.parametrize(
    ("parameters", "copies", "message"),
    [
        ({"x": (0.0, 0)}, {}, "the parameters of 'x': "),
        ({"x": (float("inf"), 0)}, {}, "the parameters of 'x': "),
        ({"x": (1.0, 256)}, {}, "the parameters of 'x': zero points must be codes, 0 to 255"),
        ({}, {"x": "z"}, "the parameters of 'x': 'z' has no range to choose parameters from"),
    ],
)
def test_parameters_that_no_value_can_have_are_refused(
    parameters: dict[str, tuple[float, int]], copies: dict[str, str], message: str
):
    module = Module(TEXT)
    settings = Settings(precision_of("one-u8"), parameters=parameters, copies=copies)
    with pytest.raises(ValueError, match=re.escape(message)):
        quantize_model(module.module, module.context, lambda keys: settings)


@pytest.mark.parametrize(
    ("names", "floats"),
    [
        (["b"], {"b"}),
        (["?"], {"a", "b"}),
        (["[ac]"], {"a"}),
        (["/a|z.*/"], {"a"}),
        (["b", "a*"], {"a", "b"}),
    ],
)
def test_names_by_pattern(tmp_path: Path, names: list[str], floats: set[str]):
    """Arguments have keys that patterns match, and no precision of their own."""
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"layers": [{"names": names, "dtype": "float32"}]}))
    assert floats_of(Module(CHAIN).run(QuantizeWithRangesPass(config=str(path)))) == floats


def test_a_name_counts_before_patterns_and_the_first_pattern_before_others(tmp_path: Path):
    path = tmp_path / "c.json"
    layers = [
        {"name": "a*", "dtype": "float32"},
        {"name": "*", "dtype": "int16"},
        {"name": "b", "dtype": "uint8"},
    ]
    path.write_text(json.dumps({"layers": layers}))
    module = Module(CHAIN)
    assert floats_of(module.run(QuantizeWithRangesPass(config=str(path)))) == {"a"}
    assert "i16" not in module.printed()


CHAIN = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %a = tosa.tanh %0 : (tensor<2xf32>) -> tensor<2xf32>
  %1 = quant.stats %a {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %b = tosa.exp %1 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = quant.stats %b {layerStats = dense<[0.25, 3.0]> : tensor<2xf32>} : tensor<2xf32>
  return %2 : tensor<2xf32>
}
"""


def floats_of(report: PassReport) -> set[str | None]:
    """The names of the ops that stay float by the configuration."""
    return {
        record.op.results[0].name_hint
        for record in report.records
        if record.code is RefusalCode.KEPT
    }


def test_only_sums_of_products():
    module = Module(CHAIN)
    report = module.run(QuantizeWithRangesPass(ops="sums-of-products"))
    assert floats_of(report) == {"a", "b"}
    assert "quant.qcast" not in module.printed()
