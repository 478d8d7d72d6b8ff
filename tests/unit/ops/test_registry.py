"""Models, casts, type limits and shapes that a compiler registers work like the built-in ones."""

from __future__ import annotations

import re

import numpy as np
import pytest
from folded_modules import fold, op_of, owner, parse, returned, stored
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import (
    Builtin,
    DenseIntOrFPElementsAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
    UnregisteredAttr,
    i8,
    i64,
)
from xdsl.dialects.func import Func
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.parser import Parser

from qdialect import Reshape, Transpose
from qdialect.algebra.parameters import Granularity
from qdialect.check.interpreters import TypedArray, run_function
from qdialect.dialects.quant import Quant
from qdialect.folding import FoldPolicy, fold_shapes
from qdialect.ir.value_types import TensorParts
from qdialect.ops.elementwise import converted, unbroadcast
from qdialect.ops.fields import CastReads, DialectTraits, Movements, Operands
from qdialect.ops.interface import RefusalCode, integers_of, name_of, register_tensor_type, shape_of
from qdialect.ops.model import OpModel, OpModels, register_models
from qdialect.ops.readers import shape_in

pytestmark = pytest.mark.usefixtures("without_plugins")


@pytest.fixture(scope="module", autouse=True)
def models() -> None:
    """What the tests of this file read."""

    def reshape(op: Operation, operands: Operands) -> Movements:
        return Movements(op.operands[:1], [Reshape(shape_of(op.results[0]))])

    models = {
        "weights": OpModel(constant="data"),
        "reshape": OpModel(movement=reshape, run_time_shape=shape_in(1)),
        "to_float": OpModel(cast=CastReads.NUMBERS),
        "view": OpModel(cast=CastReads.BITS),
        "unsaid": OpModel(cast=CastReads.UNKNOWN),
    }
    traits = DialectTraits(finest=Granularity.PER_AXIS, has_empty_tensors=False)
    register_models(OpModels("vpu", models, traits))
    register_models(OpModels("own", {"weights": OpModel(constant="data")}))


def padded_behind(casts: str, element: str, value: str) -> str:
    return f"""
    !q = !quant.uniform<i8:f32, 0.5:3>
    func.func @f() -> tensor<3x{element}> {{
      %w = arith.constant dense<[1, 2]> : tensor<2xi8>
      {casts}
      %c = arith.constant {value} : {element}
      %p = tensor.pad %x low[0] high[1] {{
      ^bb0(%at: index):
        tensor.yield %c : {element}
      }} : tensor<2x{element}> to tensor<3x{element}>
      return %p : tensor<3x{element}>
    }}
    """


QUANTIZED = '%q = "vpu.view"(%w) : (tensor<2xi8>) -> tensor<2x!q>\n'


@pytest.mark.parametrize(
    ("cast", "element", "value", "code"),
    [("vpu.to_float", "f32", "0.0", 3), ("vpu.view", "i8", "7", 7)],
)
def test_a_registered_cast_is_padded_behind(cast: str, element: str, value: str, code: int) -> None:
    casts = f'{QUANTIZED}%x = "{cast}"(%q) : (tensor<2x!q>) -> tensor<2x{element}>'
    module, _ = fold(padded_behind(casts, element, value), verify="values")
    assert stored(op_of(module, "arith.constant"), (3,)).tolist() == [1, 2, code]


@pytest.mark.parametrize(
    ("cast", "element", "value"),
    [("vpu.unsaid", "f32", "0.0"), ("vpu.view", "f32", "0.0"), ("vpu.to_float", "i8", "0")],
)
def test_what_a_cast_does_not_read_is_not_padded_behind(
    cast: str, element: str, value: str
) -> None:
    casts = f'{QUANTIZED}%x = "{cast}"(%q) : (tensor<2x!q>) -> tensor<2x{element}>'
    _, report = fold(padded_behind(casts, element, value))
    assert RefusalCode.PADDING in [record.code for record in report.records]


SPLIT = """
func.func @f() -> tensor<{result}xf32> {{
  %w = "vpu.weights"() {{data = dense<{data}> : tensor<{shape}xi8>}}
    : () -> tensor<{shape}x!quant.uniform<i8:f32{slots}>>
  %f = "vpu.to_float"(%w)
    : (tensor<{shape}x!quant.uniform<i8:f32{slots}>>) -> tensor<{shape}xf32>
  %s = "vpu.reshape"(%f) : (tensor<{shape}xf32>) -> tensor<{result}xf32>
  return %s : tensor<{result}xf32>
}}
"""


def test_a_dialect_says_which_types_it_has() -> None:
    text = SPLIT.format(result="2x2", shape=4, data=[1, 2, 3, 4], slots=":0, {1.0,2.0,3.0,4.0}")
    _, report = fold(text)
    assert [record.code for record in report.records if record.code] == [RefusalCode.GRANULARITY]
    text = SPLIT.format(result="0x1", shape=0, data=[], slots=", 1.0")
    _, report = fold(text)
    (record,) = report.records
    assert record.code is RefusalCode.ILLEGAL_TYPE
    assert record.reason == "vpu has no tensors without elements"


def test_a_model_says_which_shape_a_result_has_at_run_time() -> None:
    text = """
    func.func @f(%x: tensor<?xi8>, %s: tensor<2xi64>) -> tensor<?x?xi8> {
      %r = "vpu.reshape"(%x, %s) : (tensor<?xi8>, tensor<2xi64>) -> tensor<?x?xi8>
      return %r : tensor<?x?xi8>
    }
    """
    context = context_with()
    module = Parser(context, text).parse_module()
    x = TypedArray(np.arange(6, dtype=np.int8), TensorType(i8, [6]))
    shape = TypedArray(np.array([2, 3]), TensorType(i64, [2]))
    (result,) = run_function(module, "f", [x, shape])
    assert result.numbers.tolist() == [[0, 1, 2], [3, 4, 5]]


def context_with(*dialects: Dialect) -> Context:
    context = Context(allow_unregistered=True)
    for dialect in (Builtin, Func, Quant, *dialects):
        context.load_dialect(dialect)
    return context


TENSOR = re.compile(r"\[([0-9,]*)\],(\w+)")


def read_tensor(type: Attribute) -> TensorParts | None:
    assert isinstance(type, UnregisteredAttr)
    found = TENSOR.fullmatch(type.value.data)
    if found is None or found[2] != "si8":
        return None
    lengths = tuple(int(length) for length in found[1].split(",") if length)
    return TensorParts(lengths, IntegerType(8, Signedness.SIGNED))


def make_tensor(type: Attribute, shape: tuple[int, ...], element: Attribute) -> Attribute:
    assert isinstance(type, UnregisteredAttr)
    text = f"[{','.join(map(str, shape))}],{element}"
    return type.new((type.attr_name, type.is_type, type.is_opaque, StringAttr(text)))


def test_tensors_of_another_type_can_be_taught() -> None:
    register_tensor_type("mine.tensor", read_tensor, make_tensor)

    def permute(op: Operation, operands: Operands) -> Movements:
        return Movements(op.operands, [Transpose(integers_of(op, "dims"))])

    models = {"literal": OpModel(constant="value"), "permute": OpModel(movement=permute)}
    register_models(OpModels("mine", models))

    text = """
    func.func @f() -> (!mine.tensor<[3,2],si8>, !mine.tensor<[2,3],si8>) {
      %w = "mine.literal"() {value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xsi8>}
        : () -> !mine.tensor<[2,3],si8>
      %t = "mine.permute"(%w) {dims = [1, 0]}
        : (!mine.tensor<[2,3],si8>) -> !mine.tensor<[3,2],si8>
      %u = "mine.permute"(%t) {dims = [1, 0]}
        : (!mine.tensor<[3,2],si8>) -> !mine.tensor<[2,3],si8>
      return %t, %u : !mine.tensor<[3,2],si8>, !mine.tensor<[2,3],si8>
    }
    """
    module, report = fold(text, verify="values")
    assert report.constants == 1
    moved, same = returned(module)
    assert str(moved.type) == "!mine.tensor<[3,2],si8>"
    assert str(owner(moved).attributes["value"]) == (
        "dense<[[1, 4], [2, 5], [3, 6]]> : tensor<3x2xsi8>"
    )
    assert owner(same).attributes == op_of(parse(text)[0], "mine.literal").attributes
    ran = run_function(parse(text)[0], "f")[0]
    assert ran.numbers.tolist() == [[1, 4], [2, 5], [3, 6]]


OWN = """
func.func @f() -> tensor<3x2xi8> {
  %w = "own.weights"() {data = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>} : () -> tensor<2x3xi8>
  %t = "own.swap"(%w) {order = [1, 0]} : (tensor<2x3xi8>) -> tensor<3x2xi8>
  return %t : tensor<3x2xi8>
}
"""  # noqa: E501


def test_models_may_belong_to_a_context() -> None:
    def swap(op: Operation, operands: Operands) -> Movements:
        return Movements(op.operands, [Transpose(integers_of(op, "order"))])

    ops = OpModels("own", {"swap": OpModel(movement=swap)})

    def folded(context: Context) -> tuple[ModuleOp, int]:
        module = Parser(context, OWN).parse_module()
        return module, fold_shapes(module, context, FoldPolicy()).constants

    without = context_with()
    assert folded(without)[1] == 0
    module, count = folded(context_with(Dialect("own", [], [], [ops])))
    assert count == 1
    assert stored_of(module) == [[1, 4], [2, 5], [3, 6]]
    assert folded(without)[1] == 0


OWN_ARITHMETIC = """
func.func @f() -> tensor<3x2xf32> {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %c = "own.convert"(%w) : (tensor<2x3xi8>) -> tensor<2x3xf32>
  %t = "tosa.transpose"(%c) {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %t : tensor<3x2xf32>
}
"""


def test_models_of_arithmetic_may_belong_to_a_context() -> None:
    ops = OpModels("own", {"convert": OpModel(term=unbroadcast(converted))})

    def names(*dialects: Dialect) -> list[str]:
        context = context_with(*dialects)
        context.load_dialect(Arith)
        module = Parser(context, OWN_ARITHMETIC).parse_module()
        fold_shapes(module, context, FoldPolicy())
        return [name_of(op) for op in module.walk() if op.results]

    kept = ["arith.constant", "own.convert", "tosa.transpose"]
    assert names() == kept
    assert names(Dialect("own", [], [], [ops])) == kept[:2]
    assert names() == kept


def stored_of(module: ModuleOp) -> object:
    attribute = owner(returned(module)[0]).attributes["data"]
    assert isinstance(attribute, DenseIntOrFPElementsAttr)
    return np.array(attribute.get_values()).reshape(3, 2).tolist()
