"""The op that reads biases of more than 32 bits, which no quantized type of upstream stores."""

from __future__ import annotations

from typing import ClassVar, Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    Float80Type,
    Float128Type,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant import builder_arguments
from qdialect.ir.elements import DenseElementsAttr, floats_attribute
from qdialect.ir.op_verifiers import VerifiedByAttributes
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.biases import BiasScales, bias_scales_of
from qdialect.ops.interface import Refusal
from qdialect.support.arguments import number_array

_WIDTHS: Final = range(33, 65)


@irdl_op_definition
class DequantizeBiasOp(VerifiedByAttributes):
    """
    Dequantize a bias of 33 to 64 bits: `x = stored * scale`.

    With 16-bit activations, the product of scales is so small that a 32-bit bias may overflow, and
    quantized types store at most 32 bits. `scales` holds one scale, or one for each position of
    `axis`. The product is computed in f64, and rounded to the result's type.
    """

    name = "quant.dequantize_bias"

    input = operand_def()
    result = result_def()

    scales = prop_def(DenseElementsAttr)
    axis = opt_prop_def(IntegerAttr[I64])

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    INTEGERS: ClassVar = "ranked tensor of signless integers of 33 to 64 bits"

    def __init__(
        self,
        input: SSAValue | Operation,
        result_type: Attribute,
        scales: object,
        axis: int | None = None,
    ):
        """
        Dequantize integers: by one scale, or by one for each position of `axis`.

        Raises TypeError and ValueError for arguments of another kind.
        """
        super().__init__(
            operands=[builder_arguments.operand(input)],
            result_types=[builder_arguments.result_type(result_type)],
            properties={
                "scales": floats_attribute(number_array("scales", scales).reshape(-1)),
                "axis": None if axis is None else IntegerAttr(axis, i64),
            },
        )

    @property
    def scales_of_elements(self) -> BiasScales:
        """The scales as numbers. Raises Refusal if they are invalid."""
        return bias_scales_of(self, cast("TensorType[Attribute]", self.input.type).get_shape())

    @override
    def verify_(self) -> None:
        input, result = self.input.type, self.result.type
        elements = element_type_or_self(input), element_type_or_self(result)
        if not isinstance(input, TensorType) or not _is_wide(elements[0]):
            raise VerifyException(
                f"'{self.name}' op operand #0 must be {self.INTEGERS}, but got '{input}'"
            )
        if not isinstance(result, TensorType) or not _is_computed(elements[1]):
            raise VerifyException(
                f"'{self.name}' op result #0 must be ranked tensor of floats of at most 64 bits, "
                f"but got '{result}'"
            )
        if input.get_shape() != result.get_shape():
            raise VerifyException(
                f"'{self.name}' op failed to verify that operand and result have the same shape"
            )
        try:
            _ = self.scales_of_elements
        except Refusal as error:
            raise VerifyException(f"'{self.name}' op {error}") from None


def _is_wide(type: Attribute) -> bool:
    if not isinstance(type, IntegerType):
        return False
    integer = cast(IntegerType, type)
    return integer.signedness.data is Signedness.SIGNLESS and integer.bitwidth in _WIDTHS


def _is_computed(type: Attribute) -> bool:
    return isinstance(type, AnyFloat) and not isinstance(type, Float80Type | Float128Type)
