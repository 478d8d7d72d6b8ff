"""The constant of the quant dialect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from typing_extensions import override
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, SSAValue
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

from qdialect.dense_attributes import dense_of_bytes
from qdialect.dialects.quant.types import (
    QuantizedTensor,
    StoredType,
    element_type_of,
    uniform_tensor,
)
from qdialect.dialects.value_types import element_type_or_self
from qdialect.elements import (
    DenseElementsAttr,
    dense_elements,
    elements_of,
    integer_range,
)
from qdialect.lazy_numpy import np
from qdialect.memo import Memo
from qdialect.movement import Elements, Splat, Values
from qdialect.text.dense import DenseLiteral, print_dense
from qdialect.text.op_forms import ListsElements
from qdialect.text.plain_lists import (
    bytes_of_plain_list,
    parse_optional_plain_list,
    text_of_plain_list,
)
from qdialect.verifier_interface import VerifiedByAttributes

_KNOWN_HELD_TYPES = Memo[QuantizedTensor, TensorType[IntegerType]]()


def _held_type(type: QuantizedTensor) -> TensorType[IntegerType]:
    """The type of the elements that a constant of `type` holds."""
    if (known := _KNOWN_HELD_TYPES.get(type)) is not None:
        return known
    held = TensorType(element_type_of(type.element_type), type.get_shape())
    return _KNOWN_HELD_TYPES.add(type, held, type.element_type.scales.size)


def verify_in_range(elements: Elements, type: StoredType) -> None:
    """Raise VerifyException if there is one that `type` does not allow to store."""
    if _allows_all(type):
        return
    low, high = type.storage_type_min, type.storage_type_max
    values = np.asarray(elements.value) if isinstance(elements, Splat) else elements
    if type.is_signed != np.issubdtype(values.dtype, np.signedinteger):
        # Signless integers of another dialect, which say nothing of the sign.
        values = type.storage_format.wrap(values.astype(np.int64))
    if not values.size or (values.min() >= low and values.max() <= high):
        return
    index = np.unravel_index(int(np.argmax((values < low) | (values > high))), values.shape)
    which = "every element" if isinstance(elements, Splat) else f"element {list(map(int, index))}"
    raise VerifyException(f"{which} is {values[index]}, outside the storage range [{low}, {high}]")


def _allows_all(type: StoredType) -> bool:
    """Whether there is no integer of the storage type that may not be stored."""
    allowed = type.storage_type_min, type.storage_type_max
    return allowed == integer_range(type.storage_type.bitwidth, type.is_signed)


@irdl_op_definition
class ConstantOp(VerifiedByAttributes, HasFolderInterface, ListsElements):
    """
    A tensor of quantized values, given by its storage integers.

    `quant.constant dense<[1, 2]> : tensor<2x!quant.uniform<i8:f32, 0.5>>`. The attribute
    has element type `i8`, and `ui8` for unsigned storage. One element may stand for all.
    `dense_resource<key>` has its elements outside of the IR.
    """

    name = "quant.constant"

    value = prop_def(DenseIntOrFPElementsAttr | DenseResourceAttr)
    result = result_def()

    traits = traits_def(Pure(), ConstantLike())

    def __init__(
        self,
        value: DenseElementsAttr | DenseResourceAttr | Values,
        result_type: QuantizedTensor,
    ):
        """A constant whose `value`, if an array or a splat, is of integers."""
        if not isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
            value = dense_elements(value, element_type_of(result_type.element_type))
        super().__init__(result_types=[result_type], properties={"value": value})

    @property
    @override
    def listed_type(self) -> IntegerType:
        return _listed_type(cast(QuantizedTensor, self.result.type))

    @property
    def values(self) -> Elements:
        """
        The storage integers: a read-only view, or a splat.

        Raises ValueError if they are in a resource: `ResourceBlobs` reads these.
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
        quantized.verify_fits(shape)
        if isinstance(self.value, DenseResourceAttr) or _allows_all(quantized):
            return
        try:
            verify_in_range(self.values, quantized)
        except VerifyException as error:
            raise VerifyException(f"'{self.name}' op {error}") from None

    @override
    def verified_attributes(self) -> Sequence[Attribute] | None:
        value, types = self.properties.get("value"), self.result_types
        if len(types) != 1 or not isinstance(value, DenseIntOrFPElementsAttr):
            return None
        element_type = element_type_or_self(types[0])
        if not isinstance(element_type, StoredType) or not _allows_all(element_type):
            return None
        # The type of the elements alone: any can be stored.
        others = (held for name, held in self.properties.items() if name != "value")
        return types[0], cast(DenseElementsAttr, value).type, *others

    @classmethod
    @override
    def parse(cls, parser: Parser) -> ConstantOp:
        attributes = parser.parse_optional_attr_dict()
        start = parser.pos
        held = (
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
        value = _value_of(held, type, parser, start)
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


def _listed_type(type: QuantizedTensor) -> IntegerType:
    """The type of the integers that text lists: a negative one is not also a large one."""
    storage = type.element_type.storage_type
    return _integers_of_sign(storage.bitwidth, type.element_type.is_signed)


@lru_cache(maxsize=64)
def _integers_of_sign(width: int, is_signed: bool) -> IntegerType:
    return IntegerType(width, Signedness.SIGNED if is_signed else Signedness.UNSIGNED)


def _value_of(
    held: re.Match[str] | str | DenseLiteral, type: QuantizedTensor, parser: Parser, start: Position
) -> DenseElementsAttr | DenseResourceAttr:
    """
    The attribute of a constant of `type`, of what was read at `start`.

    Raises ParseError if it does not fit.
    """
    held_type = _held_type(type)
    storage = held_type.element_type
    if isinstance(held, str):
        return DenseResourceAttr.from_params(held, held_type)
    if isinstance(held, re.Match):
        data = bytes_of_plain_list(held[1], _listed_type(type), type.get_shape())
        if data is not None:
            return dense_of_bytes(held_type, data)
        end = parser.pos
        parser._resume_from(start)  # pyright: ignore[reportPrivateUsage]
        held = DenseLiteral.parse(parser)
        parser._resume_from(end)  # pyright: ignore[reportPrivateUsage]
    return dense_elements(held.to_values(parser, storage, type.get_shape()), storage)


def _parse_optional_resource(parser: Parser) -> str | None:
    """The key of `dense_resource<key>`, if that is what is next."""
    position = parser.pos
    if parser.parse_optional_keyword("dense_resource") is None:
        return None
    builtin = parser.ctx.get_optional_dialect("builtin")
    interface = builtin.get_interface(OpAsmDialectInterface) if builtin else None
    if interface is None:
        parser.raise_error("there is no builtin dialect that keeps resources", position)
    with parser.in_angle_brackets():
        return parser._parse_dialect_resource_handle("builtin", interface)  # pyright: ignore[reportPrivateUsage]
