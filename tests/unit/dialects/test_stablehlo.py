"""StableHLO: which ops are verified, and which text they are printed as."""

import subprocess
import sys
from io import StringIO
from typing import Any

import pytest
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, f32, i8
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation
from xdsl.traits import ConstantLike, NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant import Storage, UniformQuantizedType
from qdialect.dialects.stablehlo.checks import StableHLOOp
from qdialect.dialects.stablehlo.ops import OPS, ConstantOp
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter
from qdialect.tools.registry import ToolContext

VERIFIED = [op for op in OPS.values() if issubclass(op, StableHLOOp)]


def test_nothing_is_imported_before_a_name_is_met() -> None:
    code = (
        "import sys\n"
        "from qdialect.tools.registry import ToolContext\n"
        "context = ToolContext()\n"
        "context.get_op('builtin.module')\n"
        "assert not {'qdialect.dialects.stablehlo.ops', 'numpy'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def printed(text: str) -> tuple[Operation, str]:
    """The only op of a block with the arguments `%a`, `%b` and `%t`, and its text."""
    text = f"^bb0(%a: tensor<2x3xf32>, %b: tensor<f32>):\n  {text}"
    context = ToolContext(allow_unregistered=True)
    module = LocatingParser(context, f'"test.block"() ({{\n{text}\n}}) : () -> ()').parse_module()
    op = module.body.block.ops.first
    assert op is not None
    inner = op.regions[0].block.ops.first
    assert inner is not None
    stream = StringIO()
    MLIRPrinter(stream).print_op(inner)
    return inner, stream.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        '%0 = "stablehlo.slice"(%a) <{limit_indices = array<i64: 2>, '
        "start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : "
        "(tensor<2x3xf32>) -> tensor<2x3xf32>",
        '%0 = "stablehlo.transpose"(%a) <{permutation = dense<[1, 0]> : tensor<2xi64>}> : '
        "(tensor<2x3xf32>) -> tensor<3x2xf32>",
        '%0 = "stablehlo.iota"() <{iota_dimension = 0 : i32}> : () -> tensor<3xf32>',
        '%0 = "stablehlo.compare"(%a, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>',
        '%0 = "stablehlo.dynamic_slice"(%b) <{slice_sizes = array<i64>}> : '
        "(tensor<f32>) -> tensor<f32>",
        '"stablehlo.custom_call"(%a) <{call_target_name = 1 : i32}> : (tensor<2x3xf32>) -> ()',
        '%0 = "stablehlo.optimization_barrier"(%a) : (tensor<2x3xf32>) -> tensor<3x2xf32>',
        '%0 = "stablehlo.add"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>',
        '%0 = "stablehlo.while"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>',
        '%0 = "stablehlo.reduce"(%a) <{dimensions = array<i64: 0>}> : '
        "(tensor<2x3xf32>) -> tensor<3xf32>",
    ],
)
def test_what_a_form_cannot_express_is_generic(text: str) -> None:
    """Ops that nothing verifies may be anything."""
    op, output = printed(text)
    assert f'"{op.name}"(' in output


@pytest.mark.parametrize(
    ("applied", "is_named"),
    [
        ("add %x, %y", True),
        ("add %y, %x", False),
        ("add %x, %x", False),
        ("subtract %x, %y", False),
        ("add %x, %y {note}", False),
    ],
)
def test_a_reducer_that_does_more_is_a_region(applied: str, is_named: bool) -> None:
    _, output = printed(
        '%0 = "stablehlo.reduce"(%a, %b) <{dimensions = array<i64: 0, 1>}> ({\n'
        f"^bb0(%x: tensor<f32>, %y: tensor<f32>):\n  %1 = stablehlo.{applied} : tensor<f32>\n"
        "  stablehlo.return %1 : tensor<f32>\n"
        "}) : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>"
    )
    assert ("applies" in output) is is_named


@pytest.mark.parametrize("op", VERIFIED, ids=lambda op: op.name)
def test_traits(op: type[IRDLOperation]) -> None:
    assert op.has_trait(NoMemoryEffect)
    assert op.has_trait(ConstantLike()) == (op is ConstantOp)


def test_constants_have_their_attribute_as_value() -> None:
    values = DenseIntOrFPElementsAttr.from_list(TensorType(i8, [2]), [1, 2])
    quantized = UniformQuantizedType.per_tensor(Storage.of(i8), f32, 0.5)
    op = ConstantOp.create(properties={"value": values}, result_types=[TensorType(quantized, [2])])
    op.verify()
    assert ConstantLike.get_constant_value(op.output) is values


@pytest.mark.parametrize("output", [TensorType(i8, [3]), TensorType(f32, [1000]), i8])
def test_messages_do_not_print_constants(output: Any) -> None:
    values = DenseIntOrFPElementsAttr.from_list(TensorType(i8, [1000]), [77] * 999 + [78])
    op = ConstantOp.create(properties={"value": values}, result_types=[output])
    with pytest.raises(VerifyException) as caught:
        op.verify_()
    assert "77" not in str(caught.value)
    assert len(str(caught.value)) < 400
