"""
The reshape of `tensor` to and from shapes that are not known, or have no rank.

xDSL has it for shapes of which it knows the number of elements:
https://mlir.llvm.org/docs/Dialects/TensorOps/#tensorreshape-tensorreshapeop.
"""

from __future__ import annotations

import math
from typing import Final, cast

from typing_extensions import override
from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntegerType, Signedness
from xdsl.ir import Attribute
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


@irdl_op_definition
class ReshapeOp(tensor.ReshapeOp):
    """
    The elements of a tensor in the shape that another tensor holds.

    `tensor.reshape %x(%shape) : (tensor<?xf32>, tensor<?xindex>) -> tensor<*xf32>`.
    """

    name = "tensor.reshape"
    # The syntax is inherited.
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
