"""StableHLO: the text that ops are printed as."""

import subprocess
import sys
from io import StringIO

import pytest
from xdsl.ir import Operation

from qdialect.opt.registry import ToolContext
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter


def test_nothing_is_imported_before_a_name_is_met() -> None:
    code = (
        "import sys\n"
        "from qdialect.opt.registry import ToolContext\n"
        "context = ToolContext()\n"
        "context.get_op('builtin.module')\n"
        "assert not {'qdialect.dialects.stablehlo.syntax', 'numpy'} & sys.modules.keys()\n"
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
        '%0 = "stablehlo.constant"() : () -> tensor<2xf32>',
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
