"""StableHLO: without a dialect, and with ops added to the dialect of another package."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    TensorType,
    f32,
    i8,
)
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.traits import ConstantLike, NoMemoryEffect
from xdsl.universe import Universe
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant import Storage, UniformQuantizedType
from qdialect.dialects.upstream import stablehlo
from qdialect.tools.opt import main
from qdialect.tools.registry import ToolContext

needs_iree_opt = pytest.mark.skipif(
    shutil.which("iree-opt") is None, reason="iree-opt is not on PATH"
)

TENSOR = "!quant.uniform<i8:f32, 0.5:3>"
ROWS = "!quant.uniform<i8:f32:0, {0.5,0.25:3}>"
COLUMNS = "!quant.uniform<i8:f32:1, {0.5,0.25:3}>"

REVERSE_FORMAT = (
    "$operand `,` `dims` `=` $dimensions attr-dict `:` "
    "custom<TypeOrTypes>(type($operand), type($result))"
)


ADDED = (*stablehlo.STABLEHLO_ADDITIONS, stablehlo.ConvolutionOp)


@irdl_op_definition
class AddOp(IRDLOperation):
    name = "stablehlo.add"


@irdl_op_definition
class FutureReverseOp(IRDLOperation):
    name = "stablehlo.reverse"

    operand = operand_def()
    dimensions = prop_def(DenseArrayBase[I64])
    result = result_def()

    assembly_format = REVERSE_FORMAT
    custom_directives = (stablehlo.TypeOrTypes,)


@irdl_op_definition
class FloatReverseOp(IRDLOperation):
    name = "stablehlo.reverse"

    operand = operand_def(TensorType[AnyFloat])
    dimensions = prop_def(DenseArrayBase[I64])
    result = result_def()

    assembly_format = REVERSE_FORMAT
    custom_directives = (stablehlo.TypeOrTypes,)


@irdl_op_definition
class GenericReverseOp(IRDLOperation):
    name = "stablehlo.reverse"

    operand = operand_def()
    dimensions = prop_def(DenseArrayBase[I64])
    result = result_def()


def iree_opt(text: str, *flags: str) -> str:
    return subprocess.run(
        ["iree-opt", *flags], input=text, capture_output=True, text=True, check=True
    ).stdout


def operations_of(dialect: Dialect) -> dict[str, Any]:
    operations = list(dialect.operations)
    by_name = {op.name: op for op in operations}
    assert len(by_name) == len(operations)
    return by_name


@needs_iree_opt
@pytest.mark.parametrize(
    "op",
    [
        f"stablehlo.pad %a, %b, low = [1], high = [-1], interior = [2] "
        f": (tensor<2x{TENSOR}>, tensor<{TENSOR}>) -> tensor<4x{TENSOR}>",
        f"stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<2x{ROWS}>) -> tensor<3x2x{COLUMNS}>",
    ],
    ids=["pad", "broadcast_in_dim"],
)
def test_generic_form_without_the_dialect(
    op: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (
        f"func.func @f(%a: tensor<2x{TENSOR}>, %b: tensor<{TENSOR}>, %c: tensor<2x{ROWS}>) {{\n"
        f"  %0 = {op}\n  return\n}}\n"
    )
    generic = tmp_path / "generic.mlir"
    generic.write_text(iree_opt(text, "--mlir-print-op-generic"))
    monkeypatch.setattr("qdialect.tools.registry._plugins", tuple[()])
    assert main(["--allow-unregistered-dialect", str(generic)]) == 0
    assert iree_opt(capsys.readouterr().out) == iree_opt(text)


@needs_iree_opt
@pytest.mark.parametrize("op", stablehlo.STABLEHLO_ADDITIONS, ids=lambda op: op.name)
def test_samples_are_as_stablehlo_prints_them(op: type[stablehlo.StableHLOOp]) -> None:
    """Otherwise the op of another package would never be good enough."""
    function = f"func.func @f({op.SAMPLE.arguments}) {{\n  %r = {op.SAMPLE.op}\n  return\n}}\n"
    # The names of values are not kept.
    arguments = dict(zip(("%a", "%b"), ("%arg0", "%arg1"), strict=True))
    expected = op.SAMPLE.op
    for name, printed in arguments.items():
        expected = expected.replace(name, printed)
    assert f" = {expected}\n" in iree_opt(function)


def test_what_is_missing_is_added() -> None:
    operations = operations_of(stablehlo.with_additions(Dialect("stablehlo", [AddOp])))
    assert operations == {op.name: op for op in (AddOp, *ADDED)}


def test_an_op_that_reads_and_prints_quantized_types_is_kept() -> None:
    future = stablehlo.with_additions(Dialect("stablehlo", [FutureReverseOp]))
    assert operations_of(future)["stablehlo.reverse"] is FutureReverseOp
    # What is added handles what is asked for, too.
    complete = Dialect("stablehlo", list(ADDED))
    assert operations_of(stablehlo.with_additions(complete)) == operations_of(complete)


@pytest.mark.parametrize("op", [FloatReverseOp, GenericReverseOp])
def test_an_op_that_does_not_is_replaced(op: type[Operation]) -> None:
    present = stablehlo.with_additions(Dialect("stablehlo", [op]))
    assert operations_of(present)["stablehlo.reverse"] is stablehlo.ReverseOp


def test_an_op_that_refuses_what_is_valid_is_not_verified() -> None:
    @irdl_op_definition
    class TanhOp(IRDLOperation):
        name = "stablehlo.tanh"

        operand = operand_def()
        result = result_def()

    @irdl_op_definition
    class LogOp(IRDLOperation):
        name = "stablehlo.log"

        operand = operand_def()
        result_accuracy = prop_def()
        result = result_def()

    operations = operations_of(stablehlo.with_additions(Dialect("stablehlo", [TanhOp, LogOp])))
    assert operations["stablehlo.log"] is LogOp
    (accurate,) = [operations["stablehlo.tanh"]]
    assert accurate is not TanhOp
    assert issubclass(accurate, TanhOp)
    accurate.create(properties={"result_accuracy": i8}).verify_()


def test_the_tools_add_to_the_dialect_of_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Universe(all_dialects={"stablehlo": lambda: Dialect("stablehlo", [AddOp])})
    monkeypatch.setattr("qdialect.tools.registry._plugins", lambda: (plugin,))
    context = ToolContext()
    assert context.get_op("stablehlo.add") is AddOp
    assert context.get_op("stablehlo.pad") is stablehlo.PadOp


def test_there_is_no_dialect_without_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qdialect.tools.registry._plugins", tuple[()])
    context = ToolContext()
    assert context.get_optional_op("stablehlo.pad") is None
    assert "stablehlo" not in context.registered_dialect_names


def test_nothing_is_imported_before_a_name_is_met() -> None:
    code = (
        "import sys\n"
        "from qdialect.tools.registry import ToolContext\n"
        "context = ToolContext()\n"
        "context.get_op('builtin.module')\n"
        "loaded = {'qdialect.dialects.upstream.stablehlo', 'xdsl_jax', 'numpy'}\n"
        "assert not loaded & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("op", stablehlo.STABLEHLO_ADDITIONS, ids=lambda op: op.name)
def test_traits(op: type[IRDLOperation]) -> None:
    assert op.has_trait(NoMemoryEffect)
    assert op.has_trait(ConstantLike()) == (op is stablehlo.ConstantOp)


def test_constants_have_their_attribute_as_value() -> None:
    values = DenseIntOrFPElementsAttr.from_list(TensorType(i8, [2]), [1, 2])
    quantized = UniformQuantizedType.per_tensor(Storage.of(i8), f32, 0.5)
    op = stablehlo.ConstantOp.create(
        properties={"value": values}, result_types=[TensorType(quantized, [2])]
    )
    op.verify()
    assert ConstantLike.get_constant_value(op.output) is values


@pytest.mark.parametrize("output", [TensorType(i8, [3]), TensorType(f32, [1000]), i8])
def test_messages_do_not_print_constants(output: Any) -> None:
    values = DenseIntOrFPElementsAttr.from_list(TensorType(i8, [1000]), [77] * 999 + [78])
    op = stablehlo.ConstantOp.create(properties={"value": values}, result_types=[output])
    with pytest.raises(VerifyException) as caught:
        op.verify_()
    assert "77" not in str(caught.value)
    assert len(str(caught.value)) < 400
