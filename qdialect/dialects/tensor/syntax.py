"""
Ops of `tensor` for which xDSL rejects valid shapes, or accepts slices out of bounds.

Its `reshape` requires a static number of elements, and its ops that change the rank reject rank
0: https://mlir.llvm.org/docs/Dialects/TensorOps/.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, cast

from typing_extensions import override
from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntegerType, Signedness, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.errors import errors_of
from qdialect.ir.value_types import (
    ValueKind,
    is_tensor,
    shape_of,
    tensor_element_type,
    verify_value_types,
)
from qdialect.text.syntax import DialectSyntax


@irdl_op_definition
class ReshapeOp(tensor.ReshapeOp):
    """
    Reshape a tensor to the shape held by another tensor.

    `tensor.reshape %x(%shape) : (tensor<?xf32>, tensor<?xindex>) -> tensor<*xf32>`.
    """

    name = "tensor.reshape"
    # Subclasses of xDSL's op inherit its syntax.
    assembly_format = None

    source = operand_def()
    shape = operand_def()
    result = result_def()

    @override
    def verify_(self) -> None:
        with errors_of(self):
            verify_value_types(self, (_TENSOR, _SHAPE, _TENSOR))
            self._verify_meaning()

    def _verify_meaning(self) -> None:
        source, result = self.source.type, self.result.type
        if tensor_element_type(source) != tensor_element_type(result):
            raise VerifyException(
                "element types of source and destination tensor types should be the same"
            )
        before, after, lengths = map(shape_of, (source, result, self.shape.type))
        if (
            before is not None
            and after is not None
            and DYNAMIC_INDEX not in (*before, *after)
            and math.prod(before) != math.prod(after)
        ):
            raise VerifyException(
                "source and destination tensor should have the same number of elements"
            )
        if after is None or lengths == (len(after),):
            return
        if lengths == (DYNAMIC_INDEX,):
            raise VerifyException(
                "cannot use shape operand with dynamic length to reshape to "
                "statically-ranked tensor type"
            )
        raise VerifyException("length of shape operand differs from the result's tensor rank")


# Subclasses of xDSL's ops with another verifier, under the same definition.


class PadOp(tensor.PadOp):
    """Pad a tensor; a length that is not static may be declared as any length."""

    @override
    def verify_(self) -> None:
        self.get_irdl_definition().verify(self)
        source, result = shape_of(self.source.type) or (), shape_of(self.result.type) or ()
        widths = self.static_low.get_values(), self.static_high.get_values()
        if {len(source)} != {len(result), *map(len, widths), len(self.region.block.args)}:
            raise VerifyException(
                f"'{self.name}' op expected low and high widths, and an argument of the region, "
                "and a length of the result for each axis of the source"
            )
        for axis, sizes in enumerate(zip(source, *widths, strict=True)):
            if DYNAMIC_INDEX not in sizes and sum(sizes) != result[axis]:
                raise VerifyException(
                    f"'{self.name}' op expected length {sum(sizes)} of axis {axis} of the result, "
                    f"but got type '{self.result.type}'"
                )


class ExpandShapeOp(tensor.ExpandShapeOp):
    """Split axes of a tensor; the operand may have rank 0."""

    @override
    def verify_(self) -> None:
        if not _verify_rank_0(self, self.src.type, self.result.type):
            super().verify_()


class CollapseShapeOp(tensor.CollapseShapeOp):
    """Merge axes of a tensor; the result may have rank 0."""

    @override
    def verify_(self) -> None:
        if not _verify_rank_0(self, self.result.type, self.src.type):
            super().verify_()


def _verify_rank_0(
    op: ExpandShapeOp | CollapseShapeOp, collapsed: Attribute, expanded: Attribute
) -> bool:
    """Verify `op` if one of its types has rank 0, and return whether that is so."""
    lengths = shape_of(expanded)
    if shape_of(collapsed) != () or not lengths:
        return False
    op.get_irdl_definition().verify(op)
    if op.reassociation.data or set(lengths) != {1}:
        raise VerifyException(
            f"'{op.name}' op has rank-reducing or -expanding shapes that are not of one element: "
            f"'{expanded}' and '{collapsed}'"
        )
    return True


def _verify(op: Operation, verify: Callable[[Operation], None]) -> None:
    """xDSL compares the shapes alone of a reshape. The message is MLIR's."""
    verify(op)
    match op:
        case tensor.CollapseShapeOp():
            collapsed, expanded = op.result.type, op.src.type
        case tensor.ExpandShapeOp():
            collapsed, expanded = op.src.type, op.result.type
        case _:
            return
    if (element := tensor_element_type(expanded)) != tensor_element_type(collapsed):
        tensor_type = cast("TensorType[Attribute]", collapsed)
        expected = TensorType(element, tensor_type.shape, tensor_type.encoding)
        raise VerifyException(
            f"'{op.name}' op expected collapsed type to be '{expected}', but got '{collapsed}'"
        )


class ExtractSliceOp(tensor.ExtractSliceOp):
    """Take a slice of a tensor, within its bounds."""

    @override
    def verify_(self) -> None:
        super().verify_()
        _verify_bounds(self, self.source.type)


class InsertSliceOp(tensor.InsertSliceOp):
    """Replace a slice of a tensor, within its bounds."""

    @override
    def verify_(self) -> None:
        super().verify_()
        _verify_bounds(self, self.dest.type)


def _verify_bounds(op: tensor.ExtractSliceOp | tensor.InsertSliceOp, type: Attribute) -> None:
    """As MLIR does, which also refuses an empty slice that begins at the end of the tensor."""
    offsets, sizes, strides = (
        static.get_values() for static in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    for kind, numbers in (("offsets", offsets), ("sizes", sizes)):
        for number in numbers:
            if number < 0 and number != DYNAMIC_INDEX:
                raise VerifyException(f"expected {kind} to be non-negative, but got {number}")
    axes = zip(shape_of(type) or (), offsets, sizes, strides, strict=False)
    for axis, (length, offset, size, stride) in enumerate(axes):
        if DYNAMIC_INDEX in (length, offset):
            continue
        if offset >= length:
            raise VerifyException(f"offset {axis} is out-of-bounds: {offset} >= {length}")
        last = offset + (size - 1) * stride
        if DYNAMIC_INDEX not in (size, stride) and last >= length:
            raise VerifyException(
                f"slice along dimension {axis} runs out-of-bounds: {last} >= {length}"
            )


def _is_shape(type: Attribute) -> bool:
    shape = shape_of(type)
    if shape is None or len(shape) != 1:
        return False
    element = tensor_element_type(type)
    return element == IndexType() or (
        isinstance(element, IntegerType)
        and cast(IntegerType, element).signedness.data is Signedness.SIGNLESS
    )


_TENSOR: Final = ValueKind("tensor of any type values", is_tensor)
_SHAPE: Final = ValueKind("1D tensor of signless integer or index values", _is_shape)

OPS: Final = (CollapseShapeOp, ExpandShapeOp, ExtractSliceOp, InsertSliceOp, PadOp, ReshapeOp)
"""The ops that replace xDSL's of the same names."""

SYNTAX = DialectSyntax(
    dialect="tensor",
    verify=_verify,
    forms={
        "bitcast": "$source attr-dict : type(source) to type(dest)",
        "empty": "( $dynamic_sizes*=index ) attr-dict : type(tensor)",
        "gather": "$source [ $indices ] gather_dims ( $gather_dims:integers(i64) ) <? unique "
        "$unique:unit ?> attr-dict : functional-type",
        "generate": "<? $dynamicExtents*=index ?> region(body) attr-dict : type(result)",
        "parallel_insert_slice": "$source into $dest indices(offsets,static_offsets) "
        "indices(sizes,static_sizes) indices(strides,static_strides) attr-dict : type(source) "
        "into type(dest)",
        "rank": "$tensor attr-dict : type(tensor) ->result=index",
        "reshape": "$source ( $shape ) attr-dict : functional-type",
        "scatter": "$source into $dest [ $indices ] scatter_dims ( $scatter_dims:integers(i64) ) "
        "<? unique $unique:unit ?> attr-dict : functional-type",
    },
    read_in_part="empty reshape",
    without_attributes="empty reshape yield",
    ops=OPS,
)
