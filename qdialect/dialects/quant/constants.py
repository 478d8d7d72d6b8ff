"""The constant of the quant dialect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from typing_extensions import override
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyDenseElement,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser, Position
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.views import ArrayView, Elements, Joined, Splat, Values, as_view
from qdialect.dialects.quant import builder_arguments
from qdialect.dialects.quant.storage import StoredType, element_type_of, integer_type
from qdialect.dialects.quant.tables import brief, table_of_elements, table_of_slots
from qdialect.dialects.quant.types import QuantizedTensor, UniformQuantizedType, uniform_tensor
from qdialect.dialects.quant.verification import verified_parts, verify_fits
from qdialect.ir.elements import (
    DenseElementsAttr,
    dense_elements,
    dense_of_bytes,
    element_dtype,
    elements_of,
)
from qdialect.ir.errors import VerifiedByAttributes, VerifiedPart
from qdialect.ir.value_types import element_type_or_self
from qdialect.ir.xdsl_private import parse_resource_key, resume_from
from qdialect.support.arguments import array_of
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import BoundedCache
from qdialect.support.terminal import Displayed, Table
from qdialect.text.dense import DenseLiteral, print_dense
from qdialect.text.plain_lists import (
    bytes_of_plain_list,
    parse_optional_plain_list,
    text_of_plain_list,
)
from qdialect.text.written_ops import ListsElements

_KNOWN_HELD_TYPES = BoundedCache[QuantizedTensor, TensorType[AnyDenseElement]]()


def _held_type(type: QuantizedTensor) -> TensorType[AnyDenseElement]:
    """The type of the attribute that a constant of `type` holds."""
    if (known := _KNOWN_HELD_TYPES.get(type)) is not None:
        return known
    element: AnyDenseElement = element_type_of(type.element_type)
    attribute_type = TensorType(element, type.get_shape())
    return _KNOWN_HELD_TYPES.add(type, attribute_type, type.element_type.scales.size)


def verify_in_range(elements: Elements, type: StoredType) -> None:
    """Raise VerifyException for an element outside the storage range of `type`."""
    if type.allows_all:
        return
    values = np.asarray(elements.value) if isinstance(elements, Splat) else elements
    if type.is_signed != np.issubdtype(values.dtype, np.signedinteger):
        # Other dialects store signless integers for either sign.
        values = type.storage_format.wrap(values.astype(np.int64))
    _check_in_range(values, type, is_splat=isinstance(elements, Splat))


def _check_in_range(values: NDArray[Any], type: StoredType, *, is_splat: bool) -> None:
    low, high = type.storage_type_min, type.storage_type_max
    type.require_readable()
    if (index := type.storage_format.first_outside(values, low, high)) is None:
        return
    which = "every element" if is_splat else f"element {list(index)}"
    shown = type.storage_format.shown(int(values[index]))
    raise VerifyException(f"{which} is {shown}, outside the storage range [{low}, {high}]")


def _storage_integers(given: object, type: QuantizedTensor) -> Values:
    """
    The elements of a constant of `type`, from a builder's argument.

    Raises TypeError if they are not integers, or not the bit patterns of floats, ValueError if
    their shape differs from that of `type`, and VerifyException for a code outside the storage
    range.
    """
    quantized, shape = type.element_type, type.get_shape()
    values: Splat | NDArray[Any]
    if isinstance(given, Splat):
        values, array = given, np.asarray(given.value)
    else:
        is_moved = isinstance(given, ArrayView | Joined)
        values = array = as_view(given).array() if is_moved else array_of("values", given)
    if array.dtype.kind not in "iu":
        hint = "; quantize reals first: round(real / scale + zero_point)"
        raise TypeError(
            f"values must be storage integers, but are of dtype {array.dtype}"
            + hint * (array.dtype.kind == "f")
        )
    stored = element_type_of(quantized)
    if isinstance(stored, AnyFloat) and array.dtype != element_dtype(stored):
        # Integers of another dtype may be meant as numbers.
        raise TypeError(
            f"values must be bit patterns of {stored}, of dtype {element_dtype(stored)}, but are "
            f"of dtype {array.dtype}; FLOAT_FORMATS['{stored}'].nearest_bits makes them of numbers"
        )
    if values.shape != shape:
        raise ValueError(
            f"values of shape {list(values.shape)} cannot be a constant of shape {list(shape)}"
        )
    # Skip reading 256 MiB of elements if every integer of the dtype is in range.
    if array.dtype != element_dtype(stored) or not _fills_dtype(quantized):
        _check_in_range(array, quantized, is_splat=isinstance(given, Splat))
    return values


def _fills_dtype(type: StoredType) -> bool:
    """Whether the storage range is that of the whole numpy dtype."""
    return type.allows_all and type.storage_type.bitwidth in (8, 16, 32)


@irdl_op_definition
class ConstantOp(VerifiedByAttributes, HasFolderInterface, ListsElements, Displayed):
    """
    A tensor of quantized values, given by its codes.

    `quant.constant dense<[1, 2]> : tensor<2x!quant.uniform<i8:f32, 0.5>>`. The attribute has
    element type `i8`, or `ui8` for unsigned storage; the storage type itself if that is a float,
    and the integers of a table's storage. A splat holds one element.
    `dense_resource<key>` refers to elements outside the IR.
    """

    name = "quant.constant"

    value = prop_def(DenseIntOrFPElementsAttr | DenseResourceAttr)
    result = result_def()

    traits = traits_def(Pure(), ConstantLike())

    def __init__(
        self,
        value: DenseElementsAttr | DenseResourceAttr | Values | Sequence[Any],
        result_type: QuantizedTensor,
    ):
        """
        A constant of `value`: codes, or an attribute that holds them.

        The codes are storage integers, or bit patterns of floats (uint8): an array of any integer
        dtype, nested sequences, or a `Splat`, of the shape of `result_type`. Raises TypeError for
        values of another kind, ValueError for another shape, and VerifyException for a code
        outside the storage range and for a `result_type` that is not a valid quantized tensor of
        static shape. Only `verify` checks an attribute.
        """
        if not isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
            if isinstance(value, Attribute):
                raise TypeError(f"value must be integers, or a dense attribute, not '{value}'")
            type = _static_type(result_type)
            value = dense_elements(
                _storage_integers(value, type), element_type_of(type.element_type)
            )
        # Equivalent to IRDL's builder, for arguments that need no conversion.
        Operation.__init__(self, result_types=[result_type], properties={"value": value})

    @override
    def __repr__(self) -> str:
        """
        The text for notebooks and debuggers, with the size of the elements in place of the
        elements.
        """
        value = self.properties.get("value")
        text = str(value)
        if isinstance(value, DenseIntOrFPElementsAttr):
            text = f"<{len(value.data.data)} bytes of {value.get_element_type()}>"
        types = ", ".join(map(brief, self.result_types))
        attributes = "".join(f", {name}={value}" for name, value in self.attributes.items())
        return f"<{type(self).__name__} {id(self)}(value={text}, type={types}{attributes})>"

    @override
    def tables(self) -> Sequence[Table]:
        result = cast(QuantizedTensor, self.result.type)
        name = f"%{self.result.name_hint} = " if self.result.name_hint else ""
        title = f"{name}{self.name} : {brief(result)}"
        slots = table_of_slots(result.element_type)
        if isinstance(self.value, DenseResourceAttr):
            elements = Table(title, ("elements",), ((str(self.value.resource_handle.data),),), 1)
        else:
            elements = table_of_elements(title, self.values, result.element_type)
        return elements, slots

    @property
    @override
    def listed_type(self) -> AnyDenseElement:
        return _listed_type(cast(QuantizedTensor, self.result.type))

    @property
    def values(self) -> Elements:
        """
        The storage integers: a read-only view, or a splat.

        Raises ValueError if they are in a resource, which `ResourceBlobs` reads.
        """
        if isinstance(self.value, DenseResourceAttr):
            raise ValueError("the elements are in a resource")
        return elements_of(self.value)

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return (self.value,)

    @override
    def verify_(self) -> None:
        try:
            type = uniform_tensor(self.result.type)
        except VerifyException as error:
            raise VerifyException(f"'{self.name}' op result #0 {error}") from None
        quantized, shape = type.element_type, type.get_shape()
        if DYNAMIC_INDEX in shape:
            raise VerifyException(f"'{self.name}' op result must have a static shape")
        wanted = _held_type(type)
        if self.value.type != wanted:
            raise VerifyException(
                f"'{self.name}' op value must be of type '{wanted}', but is of type "
                f"'{self.value.type}'"
            )
        is_elsewhere = isinstance(self.value, DenseResourceAttr)
        try:
            verify_fits(type, "result")
            quantized.require_readable()
            if not is_elsewhere and not quantized.allows_all:
                verify_in_range(self.values, quantized)
        except VerifyException as error:
            raise VerifyException(f"'{self.name}' op {error}") from None

    @override
    def verified_attributes(self) -> Sequence[VerifiedPart] | None:
        value, types = self.properties.get("value"), self.result_types
        if len(types) != 1 or not isinstance(value, DenseIntOrFPElementsAttr):
            return None
        element_type = element_type_or_self(types[0])
        if not isinstance(element_type, StoredType) or not element_type.allows_all:
            return None
        # The storage range is that of the type, so no element needs a check.
        others = (attribute for name, attribute in self.properties.items() if name != "value")
        return *verified_parts(types[0]), cast(DenseElementsAttr, value).type, *others

    @classmethod
    @override
    def parse(cls, parser: Parser) -> ConstantOp:
        attributes = parser.parse_optional_attr_dict()
        start = parser.pos
        literal = (
            parse_optional_plain_list(parser)
            or _parse_optional_resource(parser)
            or DenseLiteral.parse(parser)
        )
        attributes |= parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        try:
            type = uniform_tensor(parser.parse_type())
        except VerifyException as error:
            parser.raise_error(f"result {error}", position)
        if DYNAMIC_INDEX in type.get_shape():
            parser.raise_error("a constant must have a static shape", position)
        value = _value_of(literal, type, parser, start)
        return cls.create(result_types=[type], properties={"value": value}, attributes=attributes)

    @override
    def print(self, printer: Printer) -> None:
        type = cast(QuantizedTensor, self.result.type)
        printer.print_string(" ")
        if isinstance(self.value, DenseResourceAttr):
            self.value.print_without_type(printer)
        elif (plain := text_of_plain_list(self.value)) is not None:
            printer.print_string(f"dense<{plain}>")
        else:
            print_dense(printer, self.values, element_type_of(type.element_type))
        if self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(type)


def _static_type(type: Attribute) -> QuantizedTensor:
    """`type` if it is valid for a constant. Raises TypeError and VerifyException."""
    builder_arguments.result_type(type)
    if isinstance(type, UniformQuantizedType):
        raise VerifyException(
            "the result type must be a tensor: TensorType(element_type, shape), not its "
            "element type"
        )
    tensor = uniform_tensor(type)
    if DYNAMIC_INDEX in tensor.get_shape():
        raise VerifyException("a constant must have a static shape")
    verify_fits(tensor, "result")
    return tensor


def _listed_type(type: QuantizedTensor) -> AnyDenseElement:
    """
    The type that listed codes are read as. Integers are not signless, or -1 would also mean the
    largest one.
    """
    stored = element_type_of(type.element_type)
    if isinstance(stored, IntegerType):
        is_signed = type.element_type.is_signed
        return integer_type(
            stored.bitwidth, Signedness.SIGNED if is_signed else Signedness.UNSIGNED
        )
    return stored


def _value_of(
    literal: re.Match[str] | str | DenseLiteral,
    type: QuantizedTensor,
    parser: Parser,
    start: Position,
) -> DenseElementsAttr | DenseResourceAttr:
    """
    The attribute of a constant of `type`, from the literal `held` that was parsed at `start`.

    Raises ParseError if they do not match.
    """
    held_type = _held_type(type)
    storage = held_type.element_type
    if isinstance(literal, str):
        return DenseResourceAttr.from_params(literal, held_type)
    if isinstance(literal, re.Match):
        data = bytes_of_plain_list(literal[1], _listed_type(type), type.get_shape())
        if data is not None:
            return dense_of_bytes(held_type, data)
        end = parser.pos
        resume_from(parser, start)
        literal = DenseLiteral.parse(parser)
        resume_from(parser, end)
    return dense_elements(literal.to_values(storage, type.get_shape()), storage)


def _parse_optional_resource(parser: Parser) -> str | None:
    """The key of `dense_resource<key>`, if that comes next. Raises ParseError."""
    position = parser.pos
    if parser.parse_optional_keyword("dense_resource") is None:
        return None
    builtin = parser.ctx.get_optional_dialect("builtin")
    interface = builtin.get_interface(OpAsmDialectInterface) if builtin else None
    if interface is None:
        parser.raise_error("the context has no builtin dialect that stores resources", position)
    with parser.in_angle_brackets():
        return parse_resource_key(parser, interface)
