"""The ops of the NPU. `npu.models` has what qdialect knows of them."""

from __future__ import annotations

from typing import cast

from typing_extensions import override
from xdsl.dialects.builtin import I64, AnyTensorTypeConstr, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from npu.models import MODELS


@irdl_op_definition
class PixelShuffleOp(IRDLOperation):
    """Channels become blocks of pixels: `tensor<NxHxWx(C*f*f)>` to `tensor<Nx(H*f)x(W*f)xC>`."""

    name = "npu.pixel_shuffle"

    input = operand_def(AnyTensorTypeConstr)
    factor = prop_def(IntegerAttr[I64])
    result = result_def(AnyTensorTypeConstr)

    traits = traits_def(Pure())
    assembly_format = "$input `by` $factor attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue | Operation, factor: int, result_type: Attribute) -> None:
        super().__init__(
            operands=[input],
            properties={"factor": IntegerAttr(factor, i64)},
            result_types=[result_type],
        )

    @override
    def verify_(self) -> None:
        shape, factor = _shape_of(self.input), self.factor.value.data
        if len(shape) != 4 or factor < 1 or shape[3] % factor**2:
            raise VerifyException(f"blocks of {factor}x{factor} pixels do not divide its channels")
        batches, height, width, channels = shape
        pixels = height * factor, width * factor
        _verify_shape(self.result, (batches, *pixels, channels // factor**2))


@irdl_op_definition
class MatmulOp(IRDLOperation):
    """
    A matrix product, to which a bias may be added: one number for each column.

    Its operands and result are floats, or integers of any width.
    """

    name = "npu.matmul"

    lhs = operand_def(AnyTensorTypeConstr)
    rhs = operand_def(AnyTensorTypeConstr)
    bias = opt_operand_def(AnyTensorTypeConstr)
    result = result_def(AnyTensorTypeConstr)

    traits = traits_def(Pure())
    assembly_format = (
        "$lhs `,` $rhs (`bias` $bias^)? attr-dict "
        "`:` type($lhs) `,` type($rhs) (`,` type($bias)^)? `to` type($result)"
    )

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        bias: SSAValue | Operation | None,
        result_type: Attribute,
    ) -> None:
        super().__init__(operands=[lhs, rhs, bias], result_types=[result_type])

    @override
    def verify_(self) -> None:
        lhs, rhs = _shape_of(self.lhs), _shape_of(self.rhs)
        if len(lhs) != 2 or len(rhs) != 2 or lhs[1] != rhs[0]:
            raise VerifyException(f"{list(lhs)} and {list(rhs)} are not the shapes of a product")
        if self.bias is not None and _shape_of(self.bias) != rhs[1:]:
            raise VerifyException("its bias does not have a number for each column")
        _verify_shape(self.result, (lhs[0], rhs[1]))


@irdl_op_definition
class Relu6Op(IRDLOperation):
    """Numbers below 0 become 0, and those above 6 become 6."""

    name = "npu.relu6"

    input = operand_def(AnyTensorTypeConstr)
    result = result_def(AnyTensorTypeConstr)

    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue | Operation) -> None:
        value = SSAValue.get(input)
        super().__init__(operands=[value], result_types=[value.type])

    @override
    def verify_(self) -> None:
        if self.input.type != self.result.type:
            raise VerifyException("its operand and its result differ in type")


def _shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor. The NPU allocates memory when it compiles."""
    type = cast("TensorType[Attribute]", value.type)
    if not type.has_static_shape():
        raise VerifyException("it has a length that is only known at run time")
    return type.get_shape()


def _verify_shape(result: SSAValue, expected: tuple[int, ...]) -> None:
    shape = _shape_of(result)
    if shape != expected:
        raise VerifyException(f"its result has the shape {list(shape)}, not {list(expected)}")


Npu = Dialect("npu", [PixelShuffleOp, MatmulOp, Relu6Op], [], [MODELS])
