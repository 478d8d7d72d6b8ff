"""The tosa dialect of the tools: xDSL's, with ops added."""

import subprocess
import sys
from typing import Any

import pytest
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr, TensorType, f32, i8
from xdsl.dialects.tosa import TOSA
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant import Storage, UniformQuantizedType
from qdialect.dialects.tosa import syntax as tosa
from qdialect.dialects.tosa.syntax import TABLED_OPS
from qdialect.opt.registry import ToolContext

OTHER_OPS = [op for op in tosa.SYNTAX.ops if op not in TABLED_OPS]


@irdl_op_definition
class FutureOp(IRDLOperation):
    name = "tosa.no_such_op"


@irdl_attr_definition
class FutureType(ParametrizedAttribute, TypeAttribute):
    name = "tosa.no_such_type"


def operations_of(dialect: Dialect) -> dict[str, Any]:
    operations = list(dialect.operations)
    by_name = {op.name: op for op in operations}
    assert len(by_name) == len(operations)
    return by_name


def test_no_op_of_xdsl_is_lost():
    operations = operations_of(tosa.SYNTAX.added_to(TOSA))
    assert operations.keys() == {op.name for op in tosa.SYNTAX.ops}
    assert operations.keys() > {op.name for op in TOSA.operations}


def test_what_xdsl_may_have_one_day_is_its_own():
    future = Dialect("tosa", [FutureOp], [FutureType])
    extended = tosa.SYNTAX.added_to(future)
    operations = operations_of(extended)
    assert operations["tosa.no_such_op"] is FutureOp
    assert operations["tosa.pad"] in tosa.SYNTAX.ops
    assert FutureType in list(extended.attributes)


def test_tools_know_the_ops_of_both():
    context = ToolContext()
    assert context.get_op("tosa.pad") in OTHER_OPS
    assert context.get_op("tosa.add") in TABLED_OPS
    assert context.get_type("tosa.shape") is tosa.ShapeType


def test_nothing_is_imported_before_a_name_is_met():
    code = (
        "import sys\n"
        "from qdialect.opt.registry import ToolContext\n"
        "context = ToolContext()\n"
        "context.get_op('builtin.module')\n"
        "tosa = {'xdsl.dialects.tosa', 'qdialect.dialects.tosa.syntax'}\n"
        "assert not tosa & sys.modules.keys()\n"
        "context.get_op('tosa.pad')\n"
        "assert tosa <= sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("op", OTHER_OPS, ids=lambda op: op.name)
def test_traits(op: type[IRDLOperation]):
    assert op.has_trait(Pure())
    is_constant = op in (tosa.ConstOp, tosa.ConstShapeOp)
    assert op.has_trait(ConstantLike()) == is_constant


def constant(values: Attribute, output: Attribute) -> tosa.ConstOp:
    return tosa.ConstOp.create(properties={"values": values}, result_types=[output])


def test_constants_have_their_attribute_as_value():
    values = DenseResourceAttr.from_params("weight", TensorType(i8, [2]))
    op = constant(
        values, TensorType(UniformQuantizedType.per_tensor(Storage.of(i8), f32, 0.5), [2])
    )
    op.verify()
    assert ConstantLike.get_constant_value(op.output) is values
    shape = DenseIntOrFPElementsAttr.from_list(TensorType(tosa.IndexType(), [2]), [3, 4])
    shape_op = tosa.ConstShapeOp.create(
        properties={"values": shape}, result_types=[tosa.ShapeType(2)]
    )
    shape_op.verify()
    assert ConstantLike.get_constant_value(shape_op.output) is shape
    assert shape_op.integers.tolist() == [3, 4]


@pytest.mark.parametrize("output", [TensorType(i8, [3]), TensorType(f32, [1000]), i8])
def test_messages_do_not_print_constants(output: Attribute):
    values = DenseIntOrFPElementsAttr.from_list(TensorType(i8, [1000]), [77] * 999 + [78])
    with pytest.raises(VerifyException) as caught:
        constant(values, output).verify_()
    assert "77" not in str(caught.value)
    assert len(str(caught.value)) < 200
