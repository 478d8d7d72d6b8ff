"""
The ops of `shape`: https://mlir.llvm.org/docs/Dialects/ShapeDialect/.

xDSL lacks the dialect. The classes here are of the ops that lowering unranked tensors needs. Shapes
are tensors of index; the dialect's own types are not supported.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Final

from typing_extensions import override
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, MemRefType, TensorType, UnregisteredAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from qdialect.ir.errors import errors_of
from qdialect.ir.value_types import (
    ValueKind,
    is_tensor,
    shape_of,
    tensor_element_type,
    verify_value_types,
)
from qdialect.ops.model import OpModel, OpModels
from qdialect.text.syntax import DialectSyntax

MODELS = OpModels(
    "shape",
    {
        "shape_of": OpModel(reads_lengths=True),
        "yield": OpModel(yields=True),
    },
)


EXTENTS: Final = TensorType(IndexType(), [DYNAMIC_INDEX])
"""The type of a shape of any rank."""


def _is_shape(type: Attribute) -> bool:
    shape = shape_of(type)
    is_extents = shape is not None and len(shape) == 1 and tensor_element_type(type) == IndexType()
    return is_extents or isinstance(type, UnregisteredAttr)


_SHAPED: Final = ValueKind(
    "shaped of any type values or ",
    lambda type: is_tensor(type) or isinstance(type, MemRefType | UnregisteredAttr),
)
_SHAPE: Final = ValueKind("shape or extent tensor", _is_shape)
_SIZE: Final = ValueKind(
    "size or index", lambda type: isinstance(type, IndexType | UnregisteredAttr)
)


class ShapeDialectOp(IRDLOperation, ABC):
    """Base class of the ops of the `shape` dialect."""

    KINDS: ClassVar[tuple[ValueKind, ...]]
    """The constraints on the operands, then the results."""

    traits = traits_def(Pure())

    @override
    def verify_(self) -> None:
        with errors_of(self):
            verify_value_types(self, self.KINDS)


@irdl_op_definition
class ShapeOfOp(ShapeDialectOp):
    """The shape of a tensor: `shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>`."""

    name = "shape.shape_of"
    KINDS: ClassVar = (_SHAPED, _SHAPE)

    arg = operand_def()
    result = result_def()

    assembly_format = "$arg attr-dict `:` type($arg) `->` type($result)"

    def __init__(self, arg: SSAValue | Operation):
        super().__init__(operands=[arg], result_types=[EXTENTS])


@irdl_op_definition
class NumElementsOp(ShapeDialectOp):
    """The number of elements of a shape: `shape.num_elements %s : tensor<?xindex> -> index`."""

    name = "shape.num_elements"
    KINDS: ClassVar = (_SHAPE, _SIZE)

    shape = operand_def()
    result = result_def()

    assembly_format = "$shape attr-dict `:` type($shape) `->` type($result)"

    def __init__(self, shape: SSAValue | Operation):
        super().__init__(operands=[shape], result_types=[IndexType()])


@irdl_op_definition
class SplitAtOp(ShapeDialectOp):
    """
    Split a shape in two before an axis.

    `"shape.split_at"(%s, %axis) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)`.
    """

    name = "shape.split_at"
    KINDS: ClassVar = (_SHAPE, _SIZE, _SHAPE, _SHAPE)

    operand = operand_def()
    index = operand_def()
    head = result_def()
    tail = result_def()

    def __init__(self, operand: SSAValue | Operation, index: SSAValue | Operation):
        super().__init__(operands=[operand, index], result_types=[EXTENTS, EXTENTS])


OPS: Final = (ShapeOfOp, NumElementsOp, SplitAtOp)

SYNTAX = DialectSyntax(
    dialect="shape",
    forms={
        "add concat div max min mul": "$lhs , $rhs attr-dict : type(operands) -> type(result)",
        "any broadcast": "$shapes* attr-dict(error) : type(shapes) -> type(result)",
        "assuming_all": "$inputs*=!shape.witness attr-dict ->result=!shape.witness",
        "assuming": "$witness=!shape.witness arrow(results) region(doRegion,shape.assuming_yield) "
        "attr-dict",
        "assuming_yield return yield": "attr-dict <? $operands* : type(operands) ?>",
        "const_shape": "attr-dict $shape:extents : type(result)",
        "const_size": "$value:integer(index) attr-dict ->result=!shape.size",
        "const_witness": "$passing:bool attr-dict ->result=!shape.witness",
        "cstr_broadcastable cstr_eq": "$shapes* attr-dict : type(shapes) ->result=!shape.witness",
        "cstr_require": "$pred=i1 , $msg:text attr-dict ->result=!shape.witness",
        "dim get_extent": "$value , $index attr-dict : type(operands) -> type(extent)",
        "from_extent_tensor": "$input attr-dict : type(input) ->result=!shape.shape",
        "from_extents": "$extents* attr-dict : type(extents) ->shape=!shape.shape",
        "func": "function",
        "function_library": "$sym_name:symbol attr-dict-with-keyword region(body,none) mapping "
        "$mapping:any",
        "index_to_size": "$arg=index attr-dict ->result=!shape.size",
        "is_broadcastable shape_eq": "$shapes* attr-dict : type(shapes) ->result=i1",
        "meet": "$arg0 , $arg1 <? , error = $error:any ?> attr-dict : type(operands) -> "
        "type(result)",
        "rank to_extent_tensor value_as_shape": "$arg attr-dict : type(arg) -> type(result)",
        "reduce": "( $shape <? , $initVals*=result ?> ) : type(shape) arrow(result) "
        "region(region) attr-dict",
        "size_to_index": "$arg attr-dict : type(arg) ->result=index",
        "value_of": "$arg=!shape.value_shape attr-dict : type(result)",
        "with_shape": "$operand , $shape attr-dict : type(operands) ->result=!shape.value_shape",
    },
    terminators="assuming_yield return yield",
    ops=OPS,
    opaque="shape size value_shape witness",
)
