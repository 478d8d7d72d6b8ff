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
from qdialect.text.syntax import DialectSyntax, Form

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

_YIELD: Final = ("operands*", "attr-dict <? $operands : type(operands) ?>")

_SIZES: Final = ("lhs rhs -> result", "$lhs , $rhs attr-dict : type(operands) -> type(result)")

SYNTAX = DialectSyntax(
    dialect="shape",
    forms=(
        Form("add concat div max min mul", *_SIZES),
        Form(
            "any broadcast",
            "shapes* error:any -> result",
            "$shapes attr-dict : type(shapes) -> type(result)",
        ),
        Form(
            "assuming_all", "inputs*=!shape.witness -> result=!shape.witness", "$inputs attr-dict"
        ),
        Form(
            "assuming",
            "witness=!shape.witness {doRegion:shape.assuming_yield} -> results*",
            "$witness arrow(results) $doRegion attr-dict",
        ),
        Form("assuming_yield return yield", *_YIELD, traits="terminator"),
        Form("const_shape", "shape:extents -> result", "attr-dict $shape : type(result)"),
        Form("const_size", "value:integer(index) -> result=!shape.size", "$value attr-dict"),
        Form("const_witness", "passing:bool -> result=!shape.witness", "$passing attr-dict"),
        Form(
            "cstr_broadcastable cstr_eq",
            "shapes* -> result=!shape.witness",
            "$shapes attr-dict : type(shapes)",
        ),
        Form(
            "cstr_require",
            "pred=i1 msg:text -> result=!shape.witness",
            "$pred , $msg attr-dict",
        ),
        Form(
            "dim get_extent",
            "value index -> extent",
            "$value , $index attr-dict : type(operands) -> type(extent)",
        ),
        Form(
            "from_extent_tensor", "input -> result=!shape.shape", "$input attr-dict : type(input)"
        ),
        Form(
            "from_extents", "extents* -> shape=!shape.shape", "$extents attr-dict : type(extents)"
        ),
        Form("func", "{body}", "function", traits="isolated symbol"),
        Form(
            "function_library",
            "sym_name:symbol {body} mapping:any",
            "$sym_name attr-dict-with-keyword $body mapping $mapping",
            traits="symbol no_terminator",
        ),
        Form("index_to_size", "arg=index -> result=!shape.size", "$arg attr-dict"),
        Form(
            "is_broadcastable shape_eq", "shapes* -> result=i1", "$shapes attr-dict : type(shapes)"
        ),
        Form(
            "meet",
            "arg0 arg1 error:any -> result",
            "$arg0 , $arg1 <? , error = $error ?> attr-dict : type(operands) -> type(result)",
        ),
        Form(
            "rank to_extent_tensor value_as_shape",
            "arg -> result",
            "$arg attr-dict : type(arg) -> type(result)",
        ),
        Form(
            "reduce",
            "shape initVals*=result {region} -> result*",
            "( $shape <? , $initVals ?> ) : type(shape) arrow(result) $region attr-dict",
        ),
        Form("size_to_index", "arg -> result=index", "$arg attr-dict : type(arg)"),
        Form("value_of", "arg=!shape.value_shape -> result", "$arg attr-dict : type(result)"),
        Form(
            "with_shape",
            "operand shape -> result=!shape.value_shape",
            "$operand , $shape attr-dict : type(operands)",
        ),
    ),
    ops=OPS,
    opaque="shape size value_shape witness",
)
