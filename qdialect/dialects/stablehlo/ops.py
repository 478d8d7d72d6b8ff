"""
The dialects of StableHLO: its ops that hold, move or cast quantized values, which are verified.

Custom form, generic form, accepted types and messages are StableHLO's:
https://openxla.org/stablehlo/spec. `syntax` has the forms of all ops.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    TensorType,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import DYNAMIC
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.dialects.stablehlo.checks import (
    StableHLOOp,
    fits,
    integers_of,
    listed,
    ranked_shape,
)
from qdialect.dialects.stablehlo.constraints import (
    ANY_TENSOR,
    FLOAT_TENSOR,
    QUANTIZABLE_TENSOR,
    QUANTIZED_TENSOR,
    SCALAR,
    STATIC_OR_BOUNDED_TENSOR,
    STATIC_TENSOR,
    TENSOR,
)
from qdialect.dialects.stablehlo.region_ops import ReduceOp, WhileOp
from qdialect.dialects.stablehlo.syntax import FORMS, ops_of
from qdialect.ir.value_types import is_static
from qdialect.text.op_formats import PrintedOp


@irdl_op_definition
class ConstantOp(StableHLOOp, HasFolderInterface):
    """
    A constant tensor; if it is quantized, `value` holds its storage integers.

    `stablehlo.constant dense<1> : tensor<2xi8>`, but `stablehlo.constant() <{value = dense<1> :
    tensor<2xi8>}> : () -> tensor<2x!q>` if it is quantized; the integers are `iN` even for
    unsigned storage. https://openxla.org/stablehlo/spec#constant.
    """

    name = "stablehlo.constant"
    KINDS: ClassVar = (STATIC_TENSOR,)

    value = prop_def()
    output = result_def()

    traits = traits_def(Pure(), ConstantLike())

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return (self.value,)

    @override
    def _verify_meaning(self) -> None:
        # Checked by hand: the message of a property constraint would print the value.
        held = _type_of_elements(self.value)
        if held is None:
            self._refuse(
                "attribute 'value' failed to satisfy constraint: constant vector/tensor attribute"
            )
        result = cast(TensorType[Attribute], self.output.type)
        element_type = result.element_type
        if isinstance(element_type, UniformQuantizedType):
            element_type = IntegerType(element_type.storage_type.bitwidth)
        if held != TensorType(element_type, result.get_shape()):
            self._refuse_inferred(held)

    @classmethod
    @override
    def parse(cls, parser: Parser) -> ConstantOp:
        if parser.parse_optional_punctuation("(") is not None:
            return cls._parse_apart(parser)
        position = parser.pos
        attributes = parser.parse_optional_attr_dict()
        if "value" in attributes:
            parser.raise_error(
                "attribute 'value' occurs more than once in the attribute list", position
            )
        position = parser.pos
        value = parser.parse_attribute()
        if (type := _type_of_elements(value)) is None:
            parser.raise_error("invalid kind of attribute specified", position)
        return cls.create(properties={"value": value}, attributes=attributes, result_types=[type])

    @classmethod
    def _parse_apart(cls, parser: Parser) -> ConstantOp:
        """Parse the form with two types, after its first parenthesis."""
        parser.parse_punctuation(")")
        properties = parser.parse_optional_properties_dict()
        attributes = parser.parse_optional_attr_dict()
        if "value" in attributes:
            properties.setdefault("value", attributes.pop("value"))
        parser.parse_punctuation(":")
        position = parser.pos
        type = parser.parse_function_type()
        if type.inputs.data or len(type.outputs.data) != 1:
            parser.raise_error("expected the type of one result", position)
        return cls.create(
            properties=properties, attributes=attributes, result_types=type.outputs.data
        )

    @override
    def print(self, printer: Printer) -> None:
        is_apart = _type_of_elements(self.value) != self.output.type
        if is_apart:
            printer.print_string("() <")
            printer.print_attr_dict(self.properties)
            printer.print_string(">")
        printer.print_op_attributes(self.attributes)
        if is_apart:
            printer.print_string(" : () -> ")
            printer.print_attribute(self.output.type)
        else:
            printer.print_string(" ")
            printer.print_attribute(self.value)


def _type_of_elements(value: Attribute) -> Attribute | None:
    """The tensor type of an elements attribute; None for any other attribute."""
    if isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
        return cast("DenseIntOrFPElementsAttr[Any] | DenseResourceAttr", value).type
    return None


@irdl_op_definition
class TransposeOp(PrintedOp, StableHLOOp):
    """
    Permute axes: axis `k` of the result is axis `permutation[k]` of the operand.

    `stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3x!rows>) -> tensor<3x2x!columns>`.
    https://openxla.org/stablehlo/spec#transpose.
    """

    name = "stablehlo.transpose"
    FORM: ClassVar = FORMS["stablehlo.transpose"]
    KINDS: ClassVar = (ANY_TENSOR, ANY_TENSOR)

    operand = operand_def()
    permutation = prop_def(DenseArrayBase[I64])
    result = result_def()

    @override
    def _verify_meaning(self) -> None:
        self._verify_compatible_element_types()
        self._verify_same_slots()
        self._verify_quantized_dimension()
        shape, permutation = ranked_shape(self.operand), integers_of(self.permutation)
        if len(permutation) != len(shape):
            raise VerifyException(
                f"TransposeOp operand rank {len(shape)} does not match permutation size "
                f"{len(permutation)}"
            )
        axes = range(len(shape))
        if sorted(permutation) != list(axes):
            raise VerifyException(
                f"attribute permutation must be a permutation of [{listed(axes)}] but got "
                f"{listed(permutation)}"
            )
        self._verify_inferred_shape(tuple(shape[axis] for axis in permutation))

    def _verify_quantized_dimension(self) -> None:
        if (dimensions := self._quantized_dimensions()) is None:
            return
        (first, second), permutation = dimensions, integers_of(self.permutation)
        if second < len(permutation) and permutation[second] != first:
            raise VerifyException(
                f"operand quantization_dimension {first} is not same as "
                f"permutation[{second}] = {permutation[second]}"
            )


@irdl_op_definition
class ReshapeOp(PrintedOp, StableHLOOp):
    """
    The same elements in row-major order, with another shape.

    `stablehlo.reshape %x : (tensor<2x3x!rows>) -> tensor<1x2x3x!columns>`.
    https://openxla.org/stablehlo/spec#reshape.
    """

    name = "stablehlo.reshape"
    FORM: ClassVar = FORMS["stablehlo.reshape"]
    KINDS: ClassVar = (ANY_TENSOR, STATIC_OR_BOUNDED_TENSOR)

    operand = operand_def()
    result = result_def()

    @override
    def _verify_meaning(self) -> None:
        self._verify_compatible_element_types()
        shape, result_shape = ranked_shape(self.operand), ranked_shape(self.result)
        are_static = is_static(shape) and is_static(result_shape)
        counts = math.prod(shape), math.prod(result_shape)
        if are_static and counts[0] != counts[1]:
            raise VerifyException(
                f"number of output elements ({counts[1]}) doesn't match expected number of "
                f"elements ({counts[0]})"
            )
        self._verify_same_slots()
        if not are_static or (dimensions := self._quantized_dimensions()) is None:
            return
        first, second = dimensions
        if shape[first] != result_shape[second]:
            raise VerifyException(
                "expect same quantization dimension size for operand and result "
                f"'{self.operand.type}' and '{self.result.type}'"
            )
        before = math.prod(shape[:first]), math.prod(result_shape[:second])
        if before[0] != before[1]:
            raise VerifyException(
                "product of dimensions before quantization dimension must match between "
                f"operand and result for {before[0]} and {before[1]}"
            )


@irdl_op_definition
class BroadcastInDimOp(PrintedOp, StableHLOOp):
    """
    Repeat elements along axes: axis `k` of the operand is axis `broadcast_dimensions[k]` of the
    result.

    `stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<2x!rows>) -> tensor<3x2x!columns>`.
    https://openxla.org/stablehlo/spec#broadcast_in_dim.
    """

    name = "stablehlo.broadcast_in_dim"
    FORM: ClassVar = FORMS["stablehlo.broadcast_in_dim"]
    KINDS: ClassVar = (ANY_TENSOR, STATIC_OR_BOUNDED_TENSOR)

    operand = operand_def()
    broadcast_dimensions = prop_def(DenseArrayBase[I64])
    result = result_def()

    @override
    def _verify_meaning(self) -> None:
        self._verify_compatible_element_types()
        if (dimensions := self._quantized_dimensions()) is None:
            self._verify_same_slots()
        self._verify_lengths()
        if dimensions is not None:
            self._verify_repeated_slots(*dimensions)

    def _verify_lengths(self) -> None:
        shape, result_shape = ranked_shape(self.operand), ranked_shape(self.result)
        axes = integers_of(self.broadcast_dimensions)
        if len(axes) != len(shape):
            raise VerifyException(
                f"broadcast_dimensions size ({len(axes)}) does not match operand rank "
                f"({len(shape)})"
            )
        if len(set(axes)) != len(axes):
            raise VerifyException("broadcast_dimensions should not have duplicates")
        for axis, to in enumerate(axes):
            if not 0 <= to < len(result_shape):
                raise VerifyException(
                    f"broadcast_dimensions contains invalid value {to} for result with rank "
                    f"{len(result_shape)}"
                )
            if shape[axis] not in (1, DYNAMIC, result_shape[to]):
                raise VerifyException(
                    f"size of operand dimension {axis} ({shape[axis]}) is not equal to 1 or "
                    f"size of result dimension {to} ({result_shape[to]})"
                )

    def _verify_repeated_slots(self, first: int, second: int) -> None:
        to = integers_of(self.broadcast_dimensions)[first]
        if to != second:
            raise VerifyException(
                f"result quantization_dimension {second} not same as "
                f"broadcast_dimensions[{first}] = {to}"
            )
        if ranked_shape(self.operand)[first] != 1:
            return
        one, many = (cast(UniformQuantizedType, type) for type in self._element_types())
        scales, zero_points = many.scales, many.zero_points
        has_other_scale = scales != one.scales[0]
        differs = has_other_scale | (zero_points != one.zero_points[0])
        if not differs.any():
            return
        at = int(differs.argmax())
        raise VerifyException(
            f"mismatch result scale {at} ({scales[at]:.6e}) and operand scale 0 "
            f"({one.scales[0]:.6e})"
            if has_other_scale[at]
            else f"mismatch result zero_point {at} ({zero_points[at]}) and operand "
            f"zero_point 0 ({one.zero_points[0]})"
        )


@irdl_op_definition
class ReverseOp(PrintedOp, StableHLOOp):
    """
    The axes `dimensions` from back to front.

    `stablehlo.reverse %x, dims = [0] : tensor<2x3x!q>`.
    https://openxla.org/stablehlo/spec#reverse.
    """

    name = "stablehlo.reverse"
    FORM: ClassVar = FORMS["stablehlo.reverse"]
    KINDS: ClassVar = (TENSOR, TENSOR)

    operand = operand_def()
    dimensions = prop_def(DenseArrayBase[I64])
    result = result_def()

    @override
    def _verify_meaning(self) -> None:
        self._verify_same_element_type()
        shape, axes = ranked_shape(self.operand), integers_of(self.dimensions)
        if len(set(axes)) != len(axes):
            raise VerifyException(f"dimensions should be unique. Got: {listed(axes)}")
        for axis in axes:
            if axis < 0:
                raise VerifyException(
                    f"all dimensions should be non-negative. Got dimension: {axis}."
                )
            if axis >= len(shape):
                raise VerifyException(
                    f"all dimensions should be between [0, {len(shape)}). Got dimension: {axis}."
                )
        self._verify_inferred_shape(shape)


@irdl_op_definition
class PadOp(PrintedOp, StableHLOOp):
    """
    `padding_value` around the operand and between its elements.

    `stablehlo.pad %x, %value, low = [0, 1], high = [2, -1], interior = [0, 1] :
    (tensor<2x3x!q>, tensor<!q>) -> tensor<4x5x!q>`: negative widths cut elements off.
    https://openxla.org/stablehlo/spec#pad.
    """

    name = "stablehlo.pad"
    FORM: ClassVar = FORMS["stablehlo.pad"]
    KINDS: ClassVar = (TENSOR, SCALAR, TENSOR)

    operand = operand_def()
    padding_value = operand_def()
    edge_padding_low = prop_def(DenseArrayBase[I64])
    edge_padding_high = prop_def(DenseArrayBase[I64])
    interior_padding = prop_def(DenseArrayBase[I64])
    result = result_def()

    @override
    def _verify_meaning(self) -> None:
        shape, low = ranked_shape(self.operand), integers_of(self.edge_padding_low)
        high, interior = integers_of(self.edge_padding_high), integers_of(self.interior_padding)
        if not len(low) == len(high) == len(interior):
            self._refuse(
                "failed to verify that all of {edge_padding_low, edge_padding_high, "
                "interior_padding} have same size"
            )
        self._verify_same_element_type()
        if len(low) != len(shape):
            raise VerifyException(
                f"edge_padding_low length ({len(low)}) must match operand rank ({len(shape)})"
            )
        inferred: list[int] = []
        for axis, length in enumerate(shape):
            if interior[axis] < 0:
                raise VerifyException(f"Interior padding cannot be negative: {interior[axis]}")
            if length != DYNAMIC:
                length += max(length - 1, 0) * interior[axis] + low[axis] + high[axis]
                if length < 0:
                    raise VerifyException(f"Padding result in negative size for dimension {axis}")
            inferred.append(length)
        self._verify_inferred_shape(tuple(inferred))


class UniformCastOp(PrintedOp, StableHLOOp, ABC):
    """Base class of the casts between quantized and real values."""

    operand = operand_def()
    result = result_def()

    @override
    def _verify_meaning(self) -> None:
        if not fits(ranked_shape(self.operand), ranked_shape(self.result)):
            self._refuse("all non-scalar operands/results must have the same shape and base type")
        self._verify_expressed_type(*self._element_types())

    @abstractmethod
    def _verify_expressed_type(self, operand: Attribute, result: Attribute) -> None:
        """Raise VerifyException unless the expressed types of operand and result agree."""


def _expressed_type(type: Attribute) -> Attribute:
    return type.expressed_type if isinstance(type, UniformQuantizedType) else type


@irdl_op_definition
class UniformQuantizeOp(UniformCastOp):
    """
    Quantize real values, or requantize quantized values.

    `stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!q>`.
    https://openxla.org/stablehlo/spec#uniform_quantize.
    """

    name = "stablehlo.uniform_quantize"
    FORM: ClassVar = FORMS["stablehlo.uniform_quantize"]
    KINDS: ClassVar = (QUANTIZABLE_TENSOR, QUANTIZED_TENSOR)

    @override
    def _verify_expressed_type(self, operand: Attribute, result: Attribute) -> None:
        wanted, declared = _expressed_type(operand), _expressed_type(result)
        if wanted != declared:
            raise VerifyException(
                f"Expressed type of result expected to be '{wanted}', but got '{declared}'"
            )


@irdl_op_definition
class UniformDequantizeOp(UniformCastOp):
    """
    Dequantize: the real values that stored integers represent.

    `stablehlo.uniform_dequantize %x : (tensor<2x!q>) -> tensor<2xf32>`.
    https://openxla.org/stablehlo/spec#uniform_dequantize.
    """

    name = "stablehlo.uniform_dequantize"
    FORM: ClassVar = FORMS["stablehlo.uniform_dequantize"]
    KINDS: ClassVar = (QUANTIZED_TENSOR, FLOAT_TENSOR)

    @override
    def _verify_expressed_type(self, operand: Attribute, result: Attribute) -> None:
        if (expressed := _expressed_type(operand)) != result:
            self._refuse_inferred(TensorType(expressed, ranked_shape(self.operand)))


_VERIFIED: Final = (
    BroadcastInDimOp,
    ConstantOp,
    PadOp,
    ReshapeOp,
    ReverseOp,
    TransposeOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)

OPS: Final = {op.name: op for op in (*ops_of("stablehlo"), ReduceOp, WhileOp, *_VERIFIED)}
"""All ops by name."""

StableHLO: Final = Dialect("stablehlo", [*OPS.values()])

CHLO: Final = Dialect("chlo", [*ops_of("chlo")])
