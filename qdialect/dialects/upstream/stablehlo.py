"""
The ops of StableHLO that xdsl-jax lacks, or for which it rejects quantized types.

Custom form, generic form, accepted types and messages are StableHLO's:
https://openxla.org/stablehlo/spec. This module defines no dialect; `with_additions` adds its
ops to one.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, Self, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    AnyTensorType,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    Float32Type,
    Float64Type,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
    i1,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.dialects.quant import Quant
from qdialect.dialects.quant.slot_arrays import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.blobs import fresh_builtin
from qdialect.ir.errors import errors_of
from qdialect.ir.value_types import (
    ValueKind,
    is_static,
    shape_of,
    tensor_element_type,
    verify_value_types,
)
from qdialect.ir.xdsl_private import rebuilt

# Constraints on operands and results


@dataclass(frozen=True)
class _Elements:
    """A constraint on element types, some of which are only valid for some shapes."""

    description: str
    accepts: Callable[[Attribute, Shape], bool]


def _is_float(type: Attribute, shape: Shape) -> bool:
    return isinstance(type, AnyFloat) and type.bitwidth in (4, 6, 8, 16, 32, 64)


def _is_number(type: Attribute, shape: Shape) -> bool:
    if isinstance(type, ComplexType):
        return isinstance(cast(Attribute, type.element_type), Float32Type | Float64Type)
    if not isinstance(type, IntegerType):
        return _is_float(type, shape)
    integer = cast(IntegerType, type)
    if integer.bitwidth == 1:
        return integer.signedness.data is Signedness.SIGNLESS
    is_signed = integer.signedness.data is Signedness.SIGNED
    return integer.bitwidth in (2, 4, 8, 16, 32, 64) and not is_signed


def _is_quantized(type: Attribute) -> bool:
    if not isinstance(type, UniformQuantizedType):
        return False
    zero_points = type.zero_points
    is_in_range = (zero_points >= type.storage_type_min) & (zero_points <= type.storage_type_max)
    return type.storage_type.bitwidth in (2, 4, 8, 16, 32) and bool(is_in_range.all())


def _is_quantized_per_tensor(type: Attribute, shape: Shape) -> bool:
    return _granularity_of(type) is Granularity.PER_TENSOR and _is_quantized(type)


def _is_quantized_per_axis(type: Attribute, shape: Shape) -> bool:
    if _granularity_of(type) is not Granularity.PER_AXIS or not _is_quantized(type):
        return False
    try:
        cast(UniformQuantizedType, type).verify_fits(shape)
    except VerifyException:
        return False
    return True


def _granularity_of(type: Attribute) -> Granularity | None:
    return type.granularity if isinstance(type, UniformQuantizedType) else None


_FLOATS: Final = _Elements("4/6/8/16/32/64-bit float", _is_float)
_NUMBERS: Final = _Elements(
    "4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with "
    "32/64-bit float elements",
    _is_number,
)
_PER_TENSOR: Final = _Elements("per-tensor integer quantized", _is_quantized_per_tensor)
_PER_AXIS: Final = _Elements("per-axis integer quantized", _is_quantized_per_axis)


def _tensor_of(
    *elements: _Elements,
    shape: str = "ranked",
    accepts: Callable[[TensorType[Attribute]], bool] = lambda type: True,
) -> ValueKind:
    def accepts_type(type: Attribute) -> bool:
        if not isinstance(type, TensorType):
            return False
        tensor = cast(TensorType[Attribute], type)
        return accepts(tensor) and any(
            of.accepts(tensor.element_type, tensor.get_shape()) for of in elements
        )

    descriptions = " or ".join(of.description for of in elements)
    return ValueKind(f"{shape} tensor of {descriptions} values", accepts_type)


def _is_static_or_bounded(type: TensorType[Attribute]) -> bool:
    # Bounds are an encoding of the type, which xdsl-jax does not define.
    dynamic = sum(length == DYNAMIC for length in type.get_shape())
    return not dynamic or (dynamic == 1 and not isinstance(type.encoding, NoneAttr))


_TENSOR: Final = _tensor_of(_NUMBERS, _PER_TENSOR)
_SCALAR: Final = _tensor_of(
    _NUMBERS, _PER_TENSOR, shape="0D", accepts=lambda type: not type.get_shape()
)
_ANY_TENSOR: Final = _tensor_of(_NUMBERS, _PER_TENSOR, _PER_AXIS)
_STATIC_TENSOR: Final = _tensor_of(
    _NUMBERS,
    _PER_TENSOR,
    _PER_AXIS,
    shape="statically shaped",
    accepts=lambda type: is_static(type.get_shape()),
)
_STATIC_OR_BOUNDED_TENSOR: Final = _tensor_of(
    _NUMBERS,
    _PER_TENSOR,
    _PER_AXIS,
    shape="statically shaped or single bounded dimension",
    accepts=_is_static_or_bounded,
)
_FLOAT_TENSOR: Final = _tensor_of(_FLOATS)
_QUANTIZED_TENSOR: Final = _tensor_of(_PER_TENSOR, _PER_AXIS)
_QUANTIZABLE_TENSOR: Final = _tensor_of(_FLOATS, _PER_TENSOR, _PER_AXIS)


# The base class of the ops


@dataclass(frozen=True)
class _Sample:
    """A text of an op, as StableHLO prints it."""

    arguments: str
    op: str

    @property
    def text(self) -> str:
        """The op in a block whose arguments are its operands."""
        return f'"sample.block"() ({{\n^bb0({self.arguments}):\n  %r = {self.op}\n}}) : () -> ()'

    def is_handled(self, context: Context) -> bool:
        """Whether a context parses, verifies and prints the op as StableHLO does."""
        try:
            module = Parser(context, self.text).parse_module()
            module.verify()
            return f"%r = {self.op}\n" in str(module)
        except Exception:
            # An op of another package may raise anything.
            return False


_Q: Final = "!quant.uniform<i8:f32, 5.000000e-01:3>"
_ROWS: Final = "!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>"
_COLUMNS: Final = "!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>"


class StableHLOOp(IRDLOperation, ABC):
    """Base class of the ops, with the checks that they share."""

    KINDS: ClassVar[Sequence[ValueKind]]
    """The constraints on the operands, then the result."""

    SAMPLE: ClassVar[_Sample]
    """The text that another dialect's op must handle to take precedence over this one."""

    traits = traits_def(NoMemoryEffect())

    @override
    def verify_(self) -> None:
        with errors_of(self):
            verify_value_types(self, self.KINDS)
        self._verify_meaning()

    @abstractmethod
    def _verify_meaning(self) -> None:
        """Raise VerifyException for errors other than the type of a single operand or result."""

    # StableHLO's messages name the op only in some cases.

    def _refuse(self, reason: str) -> NoReturn:
        raise VerifyException(f"'{self.name}' op {reason}")

    def _verify_same_element_type(self) -> None:
        types = {tensor_element_type(value.type) for value in (*self.operands, *self.results)}
        if len(types) > 1:
            self._refuse("requires the same element type for all operands and results")

    def _verify_compatible_element_types(self) -> None:
        """Element types are compatible if they differ only in slots and quantized dimension."""
        first, second = self._element_types()
        if isinstance(first, UniformQuantizedType) and isinstance(second, UniformQuantizedType):
            is_compatible = (
                first.has_same_values_as(second) and first.granularity is second.granularity
            )
        else:
            is_compatible = first == second
        if not is_compatible:
            self._refuse("requires compatible element types for all operands and results")

    def _verify_same_slots(self) -> None:
        first, second = self._element_types()
        if not isinstance(first, UniformQuantizedType):
            return
        second = cast(UniformQuantizedType, second)
        # For dynamic lengths, the numbers of slots may differ.
        both = np.s_[: min(first.scales.size, second.scales.size)]
        slots = [(type.scales.ravel(), type.zero_points.ravel()) for type in (first, second)]
        if all(np.array_equal(one[both], other[both]) for one, other in zip(*slots, strict=True)):
            return
        is_one = first.granularity is Granularity.PER_TENSOR
        noun = "scale and zero_point" if is_one else "scales and zero_points"
        raise VerifyException(
            f"expect same quantization {noun} but got '{self.operands[0].type}' vs "
            f"'{self.results[0].type}'"
        )

    def _verify_inferred_shape(self, shape: Shape) -> None:
        """Verify that the shape of the result is compatible with `shape`; both may be dynamic."""
        if not _fits(shape, _shape(self.results[0])):
            self._refuse_inferred(TensorType(self._element_types()[0], shape))

    def _refuse_inferred(self, type: Attribute) -> NoReturn:
        self._refuse(
            f"inferred type(s) '{type}' are incompatible with return type(s) of operation "
            f"'{self.results[0].type}'"
        )

    def _element_types(self) -> tuple[Attribute, Attribute]:
        """The element types of the first operand and the result."""
        return (
            tensor_element_type(self.operands[0].type),
            tensor_element_type(self.results[0].type),
        )

    def _quantized_dimensions(self) -> tuple[int, int] | None:
        """The quantized axes of the first operand and the result; None unless both are per-axis."""
        types = self._element_types()
        if not all(_granularity_of(type) is Granularity.PER_AXIS for type in types):
            return None
        (first,), (second,) = (
            cast(UniformQuantizedType, type).quantized_dimensions for type in types
        )
        return first, second


def _shape(value: SSAValue) -> Shape:
    """The shape of a ranked tensor."""
    return shape_of(value.type) or ()


def _fits(shape: Shape, declared: Shape) -> bool:
    return len(shape) == len(declared) and all(
        DYNAMIC in pair or pair[0] == pair[1] for pair in zip(shape, declared, strict=True)
    )


def _integers(array: DenseArrayBase[I64]) -> tuple[int, ...]:
    return tuple(array.get_values())


def _listed(integers: Sequence[int]) -> str:
    return ", ".join(map(str, integers))


@irdl_custom_directive
class TypeOrTypes(CustomDirective):
    """The common type of operand and result, `tensor<2xf32>`, or a function type if they differ."""

    operand: TypeDirective
    result: TypeDirective

    @override
    def parse(self, parser: Parser, state: ParsingState) -> None:
        position = parser.pos
        function = parser.parse_optional_function_type()
        if function is None:
            inputs = outputs = (parser.parse_type(),)
        else:
            inputs, outputs = function.inputs.data, function.outputs.data
            if (len(inputs), len(outputs)) != (1, 1):
                parser.raise_error("expected the types of one operand and one result", position)
        self.operand.set(state, inputs)
        self.result.set(state, outputs)

    @override
    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        (operand,), (result,) = self.operand.get(op), self.result.get(op)
        state.print_whitespace(printer)
        if operand != result:
            printer.print_string("(")
            printer.print_attribute(operand)
            printer.print_string(") -> ")
        printer.print_attribute(result)


# Ops


@irdl_op_definition
class ConstantOp(StableHLOOp, HasFolderInterface):
    """
    A constant tensor; if it is quantized, `value` holds its storage integers.

    `stablehlo.constant dense<1> : tensor<2xi8>`, but `stablehlo.constant() <{value = dense<1> :
    tensor<2xi8>}> : () -> tensor<2x!q>` if it is quantized; the integers are `iN` even for
    unsigned storage. https://openxla.org/stablehlo/spec#constant.
    """

    name = "stablehlo.constant"
    KINDS: ClassVar = (_STATIC_TENSOR,)
    SAMPLE: ClassVar = _Sample(
        "",
        "stablehlo.constant() <{value = dense_resource<sample> : tensor<2xi8>}> : () -> "
        f"tensor<2x{_Q}>",
    )

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
class TransposeOp(StableHLOOp):
    """
    Permute axes: axis `k` of the result is axis `permutation[k]` of the operand.

    `stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3x!rows>) -> tensor<3x2x!columns>`.
    https://openxla.org/stablehlo/spec#transpose.
    """

    name = "stablehlo.transpose"
    KINDS: ClassVar = (_ANY_TENSOR, _ANY_TENSOR)
    SAMPLE: ClassVar = _Sample(
        f"%a : tensor<2x?x{_ROWS}>",
        f"stablehlo.transpose %a, dims = [1, 0] : (tensor<2x?x{_ROWS}>) -> tensor<3x2x{_COLUMNS}>",
    )

    operand = operand_def()
    permutation = prop_def(DenseArrayBase[I64])
    result = result_def()

    assembly_format = (
        "$operand `,` `dims` `=` $permutation attr-dict `:` functional-type(operands, results)"
    )

    @override
    def _verify_meaning(self) -> None:
        self._verify_compatible_element_types()
        self._verify_same_slots()
        self._verify_quantized_dimension()
        shape, permutation = _shape(self.operand), _integers(self.permutation)
        if len(permutation) != len(shape):
            raise VerifyException(
                f"TransposeOp operand rank {len(shape)} does not match permutation size "
                f"{len(permutation)}"
            )
        axes = range(len(shape))
        if sorted(permutation) != list(axes):
            raise VerifyException(
                f"attribute permutation must be a permutation of [{_listed(axes)}] but got "
                f"{_listed(permutation)}"
            )
        self._verify_inferred_shape(tuple(shape[axis] for axis in permutation))

    def _verify_quantized_dimension(self) -> None:
        if (dimensions := self._quantized_dimensions()) is None:
            return
        (first, second), permutation = dimensions, _integers(self.permutation)
        if second < len(permutation) and permutation[second] != first:
            raise VerifyException(
                f"operand quantization_dimension {first} is not same as "
                f"permutation[{second}] = {permutation[second]}"
            )


@irdl_op_definition
class ReshapeOp(StableHLOOp):
    """
    The same elements in row-major order, with another shape.

    `stablehlo.reshape %x : (tensor<2x3x!rows>) -> tensor<1x2x3x!columns>`.
    https://openxla.org/stablehlo/spec#reshape.
    """

    name = "stablehlo.reshape"
    KINDS: ClassVar = (_ANY_TENSOR, _STATIC_OR_BOUNDED_TENSOR)
    SAMPLE: ClassVar = _Sample(
        f"%a : tensor<2x3x{_ROWS}>",
        f"stablehlo.reshape %a : (tensor<2x3x{_ROWS}>) -> tensor<1x2x3x{_COLUMNS}>",
    )

    operand = operand_def()
    result = result_def()

    assembly_format = "$operand attr-dict `:` functional-type(operands, results)"

    @override
    def _verify_meaning(self) -> None:
        self._verify_compatible_element_types()
        shape, result_shape = _shape(self.operand), _shape(self.result)
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
class BroadcastInDimOp(StableHLOOp):
    """
    Repeat elements along axes: axis `k` of the operand is axis `broadcast_dimensions[k]` of the
    result.

    `stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<2x!rows>) -> tensor<3x2x!columns>`.
    https://openxla.org/stablehlo/spec#broadcast_in_dim.
    """

    name = "stablehlo.broadcast_in_dim"
    KINDS: ClassVar = (_ANY_TENSOR, _STATIC_OR_BOUNDED_TENSOR)
    SAMPLE: ClassVar = _Sample(
        f"%a : tensor<2x{_ROWS}>",
        "stablehlo.broadcast_in_dim %a, dims = [1] : "
        f"(tensor<2x{_ROWS}>) -> tensor<3x2x{_COLUMNS}>",
    )

    operand = operand_def()
    broadcast_dimensions = prop_def(DenseArrayBase[I64])
    result = result_def()

    assembly_format = (
        "$operand `,` `dims` `=` $broadcast_dimensions attr-dict `:` "
        "functional-type(operands, results)"
    )

    @override
    def _verify_meaning(self) -> None:
        self._verify_compatible_element_types()
        if (dimensions := self._quantized_dimensions()) is None:
            self._verify_same_slots()
        self._verify_lengths()
        if dimensions is not None:
            self._verify_repeated_slots(*dimensions)

    def _verify_lengths(self) -> None:
        shape, result_shape = _shape(self.operand), _shape(self.result)
        axes = _integers(self.broadcast_dimensions)
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
        to = _integers(self.broadcast_dimensions)[first]
        if to != second:
            raise VerifyException(
                f"result quantization_dimension {second} not same as "
                f"broadcast_dimensions[{first}] = {to}"
            )
        if _shape(self.operand)[first] != 1:
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
class ReverseOp(StableHLOOp):
    """
    The axes `dimensions` from back to front.

    `stablehlo.reverse %x, dims = [0] : tensor<2x3x!q>`.
    https://openxla.org/stablehlo/spec#reverse.
    """

    name = "stablehlo.reverse"
    KINDS: ClassVar = (_TENSOR, _TENSOR)
    SAMPLE: ClassVar = _Sample(
        f"%a : tensor<2x{_Q}>", f"stablehlo.reverse %a, dims = [0] : tensor<2x{_Q}>"
    )

    operand = operand_def()
    dimensions = prop_def(DenseArrayBase[I64])
    result = result_def()

    assembly_format = (
        "$operand `,` `dims` `=` $dimensions attr-dict `:` "
        "custom<TypeOrTypes>(type($operand), type($result))"
    )
    custom_directives = (TypeOrTypes,)

    @override
    def _verify_meaning(self) -> None:
        self._verify_same_element_type()
        shape, axes = _shape(self.operand), _integers(self.dimensions)
        if len(set(axes)) != len(axes):
            raise VerifyException(f"dimensions should be unique. Got: {_listed(axes)}")
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
class PadOp(StableHLOOp):
    """
    `padding_value` around the operand and between its elements.

    `stablehlo.pad %x, %value, low = [0, 1], high = [2, -1], interior = [0, 1] :
    (tensor<2x3x!q>, tensor<!q>) -> tensor<4x5x!q>`: negative widths cut elements off.
    https://openxla.org/stablehlo/spec#pad.
    """

    name = "stablehlo.pad"
    KINDS: ClassVar = (_TENSOR, _SCALAR, _TENSOR)
    SAMPLE: ClassVar = _Sample(
        f"%a : tensor<2x{_Q}>, %b : tensor<{_Q}>",
        "stablehlo.pad %a, %b, low = [1], high = [0], interior = [0] : "
        f"(tensor<2x{_Q}>, tensor<{_Q}>) -> tensor<3x{_Q}>",
    )

    operand = operand_def()
    padding_value = operand_def()
    edge_padding_low = prop_def(DenseArrayBase[I64])
    edge_padding_high = prop_def(DenseArrayBase[I64])
    interior_padding = prop_def(DenseArrayBase[I64])
    result = result_def()

    assembly_format = (
        "$operand `,` $padding_value `,` `low` `=` $edge_padding_low `,` "
        "`high` `=` $edge_padding_high `,` `interior` `=` $interior_padding attr-dict `:` "
        "functional-type(operands, results)"
    )

    @override
    def _verify_meaning(self) -> None:
        shape, low = _shape(self.operand), _integers(self.edge_padding_low)
        high, interior = _integers(self.edge_padding_high), _integers(self.interior_padding)
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


class UniformCastOp(StableHLOOp, ABC):
    """Base class of the casts between quantized and real values."""

    operand = operand_def()
    result = result_def()

    assembly_format = "$operand attr-dict `:` custom<TypeOrTypes>(type($operand), type($result))"
    custom_directives = (TypeOrTypes,)

    @override
    def _verify_meaning(self) -> None:
        if not _fits(_shape(self.operand), _shape(self.result)):
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
    KINDS: ClassVar = (_QUANTIZABLE_TENSOR, _QUANTIZED_TENSOR)
    SAMPLE: ClassVar = _Sample(
        "%a : tensor<2xf32>",
        f"stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x{_ROWS}>",
    )

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
    KINDS: ClassVar = (_QUANTIZED_TENSOR, _FLOAT_TENSOR)
    SAMPLE: ClassVar = _Sample(
        f"%a : tensor<2x{_ROWS}>",
        f"stablehlo.uniform_dequantize %a : (tensor<2x{_ROWS}>) -> tensor<2xf32>",
    )

    @override
    def _verify_expressed_type(self, operand: Attribute, result: Attribute) -> None:
        if (expressed := _expressed_type(operand)) != result:
            self._refuse_inferred(TensorType(expressed, _shape(self.operand)))


STABLEHLO_ADDITIONS: Final[Sequence[type[StableHLOOp]]] = (
    ConstantOp,
    TransposeOp,
    ReshapeOp,
    BroadcastInDimOp,
    ReverseOp,
    PadOp,
    UniformQuantizeOp,
    UniformDequantizeOp,
)


# Ops of another package whose parser misreads their custom form


class _Misread(NamedTuple):
    """A text that another package may parse without an error, but with a wrong meaning."""

    text: str
    generic: str
    """A regular expression that matches the generic form if the text is read correctly."""

    repaired: Callable[[type[IRDLOperation]], type[IRDLOperation]]
    """Makes an op class that reads the text correctly, from the other package's."""

    def is_misread(self, context: Context) -> bool:
        """Whether a context parses the text with a wrong meaning."""
        stream = StringIO()
        try:
            module = Parser(context, self.text).parse_module()
            Printer(stream, print_generic_format=True).print_op(module)
        except Exception:
            # An op of another package may raise anything; an error is not a misreading.
            return False
        return re.search(self.generic, stream.getvalue()) is None


def _with_pairs_of_arguments(reduce: type[IRDLOperation]) -> type[IRDLOperation]:
    """
    A `stablehlo.reduce` whose parser accepts pairs of reducer arguments, and an op in their place.

    The text lists pairs; the block has the first of all pairs, then the second of all pairs.
    """

    class ReduceOp(reduce):
        @classmethod
        @override
        def parse(cls, parser: Parser) -> Self:
            position = parser.pos
            pairs = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, lambda: _parse_reduced(parser)
            )
            applied = None
            if parser.parse_optional_keyword("applies") is not None:
                applied = parser.parse_identifier()
            parser.parse_keyword("across")
            parser.parse_keyword("dimensions")
            parser.parse_punctuation("=")
            dimensions = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            attributes = parser.parse_optional_attr_dict()
            parser.parse_punctuation(":")
            types = parser.parse_function_type()
            values = [*(pair[0] for pair in pairs), *(pair[1] for pair in pairs)]
            operands = parser.resolve_operands(values, types.inputs.data, position)
            if applied is None:
                region = _parse_reducer(parser, len(pairs))
            else:
                region = _reducer_of(parser, applied, operands[-1].type)
            return cls.create(
                operands=operands,
                result_types=types.outputs.data,
                properties={"dimensions": DenseArrayBase.from_list(i64, dimensions)},
                attributes=attributes,
                regions=[region],
            )

    return ReduceOp


def _parse_reduced(parser: Parser) -> tuple[UnresolvedOperand, UnresolvedOperand]:
    """Parse `(%x init: %c)`."""
    parser.parse_punctuation("(")
    value = parser.parse_unresolved_operand()
    parser.parse_keyword("init")
    parser.parse_punctuation(":")
    start = parser.parse_unresolved_operand()
    parser.parse_punctuation(")")
    return value, start


def _parse_reducer(parser: Parser, count: int) -> Region:
    """Parse `reducer(%a: T, %b: T) (%c: U, %d: U) {...}`, with `count` pairs of arguments."""
    parser.parse_keyword("reducer")
    pairs: list[Sequence[Parser.Argument]] = []
    for _ in range(count):
        position = parser.pos
        pair = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument()
        )
        if len(pair) != 2:
            parser.raise_error("a pair of arguments was expected", position)
        pairs.append(pair)
    return parser.parse_region([*(pair[0] for pair in pairs), *(pair[1] for pair in pairs)])


def _reducer_of(parser: Parser, name: str, type: Attribute) -> Region:
    """The reducer that applies the op of a name to two arguments of `type`."""
    block = Block(arg_types=[type, type])
    for each, operands, results in ((name, block.args, [type]), ("stablehlo.return", None, [])):
        op_type = parser.ctx.get_optional_op(each)
        if op_type is None:
            parser.raise_error(f"'{each}' is not known")
        last = block.last_op
        values = operands or ([] if last is None else last.results)
        block.add_op(op_type.create(operands=values, result_types=results))
    return Region(block)


def _with_compare_type(compare: type[IRDLOperation]) -> type[IRDLOperation]:
    """A `stablehlo.compare` whose `compare_type` has StableHLO's name in generic form."""
    properties = compare.get_irdl_definition().properties

    @irdl_op_definition
    class CompareOp(IRDLOperation):
        name = "stablehlo.compare"
        traits = compare.traits

        lhs = operand_def(AnyTensorType)
        rhs = operand_def(AnyTensorType)
        result = result_def(TensorType.constr(i1))
        comparison_direction = prop_def(properties["comparison_direction"].constr)
        comparison_type = opt_prop_def(
            properties["comparison_type"].constr, prop_name="compare_type"
        )

        assembly_format = (
            "$comparison_direction `,` $lhs `,` $rhs (`,` $compare_type^)? attr-dict `:` "
            "functional-type(operands, results)"
        )

    return CompareOp


_MISREAD: Final = {
    "stablehlo.reduce": _Misread(
        """
"sample.block"() ({
^bb0(%x: tensor<2xf32>, %c: tensor<f32>):
  %0:2 = stablehlo.reduce(%x init: %c), (%x init: %c) across dimensions = [0] :
    (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
   reducer(%p: tensor<f32>, %q: tensor<f32>) (%r: tensor<f32>, %s: tensor<f32>)  {
    stablehlo.return %q, %s : tensor<f32>, tensor<f32>
  }
}) : () -> ()
""",
        "%p[^%]*%r[^%]*%q[^%]*%s",
        _with_pairs_of_arguments,
    ),
    "stablehlo.compare": _Misread(
        """
"sample.block"() ({
^bb0(%x: tensor<2xf32>):
  %0 = stablehlo.compare LT, %x, %x, TOTALORDER :
    (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
}) : () -> ()
""",
        "compare_type = #stablehlo<comparison_type TOTALORDER>",
        _with_compare_type,
    ),
}


class ConvolutionOp(Operation):
    """
    `stablehlo.convolution(%x, %w) dim_numbers = [...]x[...]->[...], window = {...}`.

    It is printed in generic form, and not verified.

    https://openxla.org/stablehlo/spec#convolution
    """

    name = "stablehlo.convolution"

    traits = traits_def(NoMemoryEffect())

    @classmethod
    @override
    def parse(cls, parser: Parser) -> ConvolutionOp:
        position = parser.pos
        values = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        parser.parse_keyword("dim_numbers")
        parser.parse_punctuation("=")
        input = _parse_dimensions(parser)
        parser.parse_keyword("x")
        kernel = _parse_dimensions(parser)
        parser.parse_punctuation("->")
        numbers = f"#stablehlo.conv<{input}x{kernel}->{_parse_dimensions(parser)}>"
        if not parser.ctx.allow_unregistered:
            parser.raise_error(
                "'stablehlo.conv' is not registered (use --allow-unregistered-dialect)", position
            )
        parser.parse_punctuation(",")
        parser.parse_keyword("window")
        parser.parse_punctuation("=")
        properties: dict[str, Attribute] = {
            "dimension_numbers": Parser(parser.ctx, numbers).parse_attribute()
        }
        properties |= parser.parse_comma_separated_list(
            parser.Delimiter.BRACES, lambda: _parse_of_window(parser)
        )
        attributes = parser.parse_optional_attr_dict()
        for name in ("batch_group_count", "feature_group_count", "precision_config"):
            if name in attributes:
                properties[name] = attributes.pop(name)
        parser.parse_punctuation(":")
        types = parser.parse_function_type()
        return cls.create(
            operands=parser.resolve_operands(values, types.inputs.data, position),
            result_types=types.outputs.data,
            properties=properties,
            attributes=attributes,
        )


def _parse_dimensions(parser: Parser) -> str:
    """Parse `[b, 0, 1, f]`; returns it."""

    def parse_dimension() -> str:
        if (number := parser.parse_optional_integer()) is not None:
            return str(number)
        return "?" if parser.parse_optional_punctuation("?") else parser.parse_identifier()

    names = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_dimension)
    return f"[{', '.join(names)}]"


_OF_WINDOW: Final = {
    "stride": "window_strides",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
}


def _parse_of_window(parser: Parser) -> tuple[str, Attribute]:
    """Parse `stride = [1, 1]`, or another property of a window; returns its name and it."""
    position = parser.pos
    name = parser.parse_identifier()
    parser.parse_punctuation("=")
    square = parser.Delimiter.SQUARE
    if name == "pad":
        pairs = parser.parse_comma_separated_list(
            square, lambda: parser.parse_comma_separated_list(square, parser.parse_integer)
        )
        type = TensorType(i64, [len(pairs), 2])
        numbers = [number for pair in pairs for number in pair]
        if len(numbers) != 2 * len(pairs):
            parser.raise_error("pairs of integers were expected", position)
        return "padding", DenseIntOrFPElementsAttr.from_list(type, numbers)
    if name == "reverse":
        flags = parser.parse_comma_separated_list(square, parser.parse_boolean)
        return "window_reversal", DenseArrayBase.from_list(i1, flags)
    if name not in _OF_WINDOW:
        parser.raise_error(f"'{name}' is no property of a window", position)
    integers = parser.parse_comma_separated_list(square, parser.parse_integer)
    return _OF_WINDOW[name], DenseArrayBase.from_list(i64, integers)


# Ops of another package whose verifier refuses what StableHLO accepts

_ACCURATE: Final = (
    *("cbrt", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one"),
    *("logistic", "rsqrt", "sine", "sqrt", "tan", "tanh"),
)
"""Functions whose accuracy may be asked for."""

_ACCEPTED: Final = {
    "stablehlo.dynamic_broadcast_in_dim": (
        '"stablehlo.dynamic_broadcast_in_dim"(%x, %s) '
        "<{broadcast_dimensions = array<i64: 0>}> : (tensor<2xf32>, tensor<1xi64>) -> tensor<?xf32>"
    ),
    **{
        f"stablehlo.{name}": (
            f'"stablehlo.{name}"(%x) <{{result_accuracy = #stablehlo.result_accuracy<'
            "mode = #stablehlo.result_accuracy_mode<HIGHEST>>}> : (tensor<2xf32>) -> tensor<2xf32>"
        )
        for name in _ACCURATE
    },
}
"""A valid op of each name."""


def _is_refused(op: str, context: Context) -> bool:
    """Whether an op of tensors `%x` and `%s` does not verify in a context."""
    text = f"^bb0(%x: tensor<2xf32>, %s: tensor<1xi64>):\n%0 = {op}"
    try:
        Parser(context, f'"sample.block"() ({{\n{text}\n}}) : () -> ()').parse_module().verify()
    except Exception:
        # An op of another package may raise anything.
        return True
    return False


def _unverified(op: type[Operation]) -> type[Operation]:
    def verify_(self: Operation) -> None:
        pass

    # xDSL's parser looks operands up in the class itself, not in its bases.
    own = {name: held for name, held in vars(op).items() if not name.startswith("__")}
    return type(op.__name__, (op,), {**own, "verify_": verify_})


def with_additions(stablehlo: Dialect) -> Dialect:
    """
    The dialect `stablehlo` of another package, with the ops of this module added.

    The package's own op takes precedence if it parses and prints the sample as StableHLO does.
    An op that misreads its text is repaired, and one that refuses valid text is not verified.
    """
    context = Context(allow_unregistered=True)
    for dialect in (fresh_builtin(), Quant, stablehlo):
        context.load_dialect(dialect)
    operations: dict[str, type[Operation]] = {op.name: op for op in stablehlo.operations}
    for op in STABLEHLO_ADDITIONS:
        if not op.SAMPLE.is_handled(context):
            operations[op.name] = op
    operations.setdefault(ConvolutionOp.name, ConvolutionOp)
    for name, misread in _MISREAD.items():
        op = operations.get(name)
        if op is not None and issubclass(op, IRDLOperation) and misread.is_misread(context):
            operations[name] = misread.repaired(op)
    for name, text in _ACCEPTED.items():
        if name in operations and _is_refused(text, context):
            operations[name] = _unverified(operations[name])
    return rebuilt(stablehlo, operations.values())
