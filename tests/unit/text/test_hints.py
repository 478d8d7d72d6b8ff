"""Hints fit the reader: of one's own dialect, of MLIR's; with a tool, from Python."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition
from xdsl.utils.exceptions import ParseError

from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module

pytestmark = pytest.mark.usefixtures("without_plugins")


@irdl_op_definition
class MatmulOp(IRDLOperation):
    name = "npu.matmul"


@irdl_attr_definition
class TileType(ParametrizedAttribute, TypeAttribute):
    name = "npu.tile"


NPU = Dialect("npu", [MatmulOp], [TileType])

GENERIC = "use the generic form that mlir-opt --mlir-print-op-generic prints"
FLAG = f"{GENERIC} (see --read-with=COMMAND)"

ANYWHERE = {
    "npu.nothing": "custom op 'npu.nothing' is unknown",
    "npu.matmull": "custom op 'npu.matmull' is unknown; did you mean 'npu.matmul'?",
    '"npu.matmull"() : () -> ()': "unregistered operation 'npu.matmull' found in dialect ('npu') "
    "that does not allow unknown operations; did you mean 'npu.matmul'?",
    '"npu.matmul"() {t = !npu.tyle} : () -> ()': "'npu.tyle' is not registered; "
    "did you mean 'npu.tile'?",
}

OF_TOOLS = {
    "tosa.nothing": f"custom op 'tosa.nothing' is unknown; {FLAG}",
    '"tosa.nothing"() : () -> ()': "unregistered operation 'tosa.nothing' found in dialect "
    "('tosa') that does not allow unknown operations (xDSL lacks it; "
    "use --allow-unregistered-dialect)",
    "vhlo.add_v1": f"Dialect `vhlo' not found for custom op 'vhlo.add_v1'; {FLAG}",
    "other.op": f"Dialect `other' not found for custom op 'other.op'; {FLAG}",
}

OF_PYTHON = {
    "func.func @f() { return }": "Dialect `func' not found for custom op 'func.func'; "
    "context.load_dialect(Func) loads it, from xdsl.dialects.func",
    '"func.func"() : () -> ()': "operation 'func.func' is of a dialect that is not registered; "
    "context.load_dialect(Func) loads it, from xdsl.dialects.func, "
    "or set allow_unregistered of the context",
    "quant.qcast": "Dialect `quant' not found for custom op 'quant.qcast'; "
    "context.load_dialect(Quant) loads it, from qdialect.dialects.quant",
    "other.op": "Dialect `other' not found for custom op 'other.op'; "
    "load it with the method load_dialect of the context",
    '"builtin.nothing"() : () -> ()': "unregistered operation 'builtin.nothing' found in dialect "
    "('builtin') that does not allow unknown operations (xDSL lacks it; "
    "set allow_unregistered of the context)",
    "builtin.nothing": f"custom op 'builtin.nothing' is unknown; {GENERIC}",
}


def message_of(context: Context, text: str) -> str:
    context.load_dialect(NPU)
    with pytest.raises(ParseError) as error:
        parse_module(context, text, "hint.mlir")
    return error.value.msg


@pytest.mark.parametrize(("text", "message"), [*ANYWHERE.items(), *OF_TOOLS.items()])
def test_hints_of_tools_name_flags(text: str, message: str):
    assert message_of(ToolContext(), text) == message


@pytest.mark.parametrize(("text", "message"), [*ANYWHERE.items(), *OF_PYTHON.items()])
def test_hints_of_python_name_methods(text: str, message: str):
    context = Context()
    context.load_dialect(Builtin)
    assert message_of(context, text) == message
