"""Files of ONE's configuration: errors have a reason and a location."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from dequantizing_arithmetic import Module

from qdialect.dialects.quant import QuantizeCastOp
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.post_training.assignment.configuration import Configuration
from qdialect.post_training.assignment.precision import Settings, precision_of
from qdialect.post_training.assignment.whole_model import quantize_model

pytestmark = pytest.mark.usefixtures("without_plugins")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "c.json: the file must be an object"),
        ("{", "c.json:1:2: "),
        ("{\n \xff", "c.json:2:2: byte 0xFF is not UTF-8; write it in UTF-8"),
        ('{"layer": []}', "the file has no 'layer'; the fields are "),
        ('{"layers": {}}', "'layers' must be an array"),
        ('{"layers": [1]}', "layer 0 must be an object"),
        ('{"layers": [{"dtype": "int16"}]}', "layer 0 must have either 'name' or 'names'"),
        ('{"layers": [{"name": "x", "names": ["x"]}]}', "either 'name' or 'names'"),
        ('{"layers": [{"names": []}]}', "'names' of layer 0 must be an array of strings"),
        ('{"layers": [{"names": [1]}]}', "an element of 'names' of layer 0 must be a string"),
        ('{"layers": [{"name": "x", "alternate": []}]}', "'alternate' of layer 0 must be an obj"),
        ('{"layers": [], "layers": []}', "c.json: 'layers' is given twice"),
        ('{"copies": {"x": "y", "x": "z"}}', "'x' is given twice"),
        ('{"parameters": {"x": 1}}', "'parameters' of 'x' must be an object"),
        ('{"parameters": {"x": {"scale": true}}}', "'scale' of 'x' must be a number"),
        ('{"parameters": {"x": {"scale": 1, "zero_point": 0.5}}}', "must be an integer"),
        ('{"parameters": {"x": {"scale": 1' + "0" * 400 + "}}}", "'scale' of 'x' is too large"),
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
    ],
)
def test_what_is_wrong_with_a_layer_is_told(tmp_path: Path, layer: dict[str, object], message: str):
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"layers": [layer]}))
    with pytest.raises(ValueError, match=re.escape(message)):
        Configuration.read(str(path)).of_layers({"x", "y"}, precision_of("one-u8"))


TEXT = """
func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32>, %z: tensor<2xf32>) -> tensor<2xf32> {
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
