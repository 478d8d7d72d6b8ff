"""Builtin types and attributes, and dense constants, read with MLIR's meaning and messages."""

from __future__ import annotations

import math
import re
from typing import Any, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    ComplexType,
    ContainerType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    RankedStructure,
    ShapedType,
    UnrankedMemRefType,
    UnregisteredAttr,
    VectorType,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.parser import Position
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.ir.elements import dense_of_bytes
from qdialect.ir.resources import Blob, BlobStorage
from qdialect.text.mlir_errors import (
    TextError,
    balanced_end,
    end_of_token_before,
    reading_message_of,
    width_error,
)
from qdialect.text.opaque_attributes import BuiltinTextAttr, DenseStringsAttr
from qdialect.text.plain_lists import bytes_of_plain_list, find_plain_list
from qdialect.text.source import AbridgedInput
from qdialect.text.symbol_parser import SymbolParser

MAX_DIMENSION = 2**63 - 1

_DENSE = "dense"

_KEPT_ATTRIBUTE = re.compile(r"sparse\s*+<|distinct\s*+\[\s*+[0-9]++\s*+\]\s*+<")
"""The start of an attribute that xDSL lacks."""

_AFFINE = ("affine_map", "affine_set")

_NUMBER = re.compile(r"(?<![\w.$])[0-9]++(?![\w.])")

_DIMENSIONS = (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.QUESTION)

_STRINGS = re.compile(r'<\s*+(?:"(?!0x)|\[[\s\[]*+["\]]|>)')
"""The start of dense elements that may be strings, or of none."""

_HEXADECIMAL = re.compile(r'<\s*+"0x')

_OF_FOREIGN = re.compile(r'"\s*+>\s*+:\s*+\w++<[^!>]*+!')
"""The end of dense elements in one string, if a type of another dialect follows."""

_INTEGER_TYPE = re.compile("[su]?i([0-9]++)")

_BLOB = re.compile(r':\s*+"0x')


class AttributeParser(SymbolParser):
    """
    A parser of types and attributes.

    Literals that do not fit their type, and types that MLIR does not verify, are errors at their
    position in the text. What xDSL lacks is kept as text.
    """

    _in_attribute: ParseError | None
    """The last error inside a type or an attribute."""

    def __init__(self, ctx: Context, input: Input) -> None:
        super().__init__(ctx, input)
        self._in_attribute = None

    @override
    def _parse_new_type(self) -> TypeAttribute | None:
        start = self.pos
        spelled = _INTEGER_TYPE.fullmatch(self.current_token.text)
        if spelled is not None and (message := width_error(spelled[1])) is not None:
            self.raise_error(message, start)
        try:
            return super()._parse_new_type()
        except VerifyException as error:
            self.raise_error(str(error), start)
        except ParseError as error:
            self._in_attribute = error
            raise

    @override
    def parse_shape_dimension(self, allow_dynamic: bool = True) -> int:
        """Parse one dimension of a shape. Raises ParseError if it does not fit 64 bits."""
        position = self.pos
        dimension = super().parse_shape_dimension(allow_dynamic)
        if dimension > MAX_DIMENSION:
            self.raise_error("invalid dimension", position)
        return dimension

    @override
    def parse_optional_builtin_parametrized_type(self) -> TypeAttribute | None:
        outer, self._type_name = self._type_name, self.current_token.text
        type = super().parse_optional_builtin_parametrized_type()
        self._type_name = outer
        return type

    @override
    def parse_shape_delimiter(self) -> None:
        """Parse the `x` between dimensions. Raises ParseError if there is none."""
        if self.parse_optional_shape_delimiter() is None:
            self._refuse_token("expected 'x' in dimension list")

    @override
    def parse_dimension_list(self) -> list[int]:
        """Parse the dimensions of a shape; blanks around the `x` are allowed. Raises ParseError."""
        dimensions: list[int] = []
        delimiter = self.pos
        while self.current_token.kind in _DIMENSIONS:
            dimensions.append(self.parse_shape_dimension())
            delimiter = self.pos
            if self.parse_optional_shape_delimiter() is None:
                return dimensions
        if dimensions:
            # The caller parses the `x` before the element type.
            self.resume_from(delimiter)
        return dimensions

    @override
    def parse_memref_attrs(self) -> MemRefType | UnrankedMemRefType:
        start = self.pos
        type = super().parse_memref_attrs()
        if self._is_own(type.element_type.name):
            self.resume_from(start)
            if self.parse_optional_punctuation("*") or self.parse_dimension_list():
                self.parse_shape_delimiter()
            self.raise_error("invalid memref element type")
        return type

    @override
    def parse_vector_attrs(self) -> VectorType[Attribute]:
        start = self.pos
        type = super().parse_vector_attrs()
        if self._is_own(type.element_type.name):
            self.raise_error(
                "failed to verify 'elementType': VectorElementTypeInterface instance",
                self.lexer.input.content.rfind("vector", 0, start),
            )
        return type

    @override
    def parse_complex_attrs(self) -> ComplexType:
        position = self.pos
        element_type = self.parse_type()
        if not isa(element_type, IntegerType | AnyFloat):
            self.raise_error("invalid element type for complex", position)
        return ComplexType(element_type)

    @override
    def parse_optional_attribute(self) -> Attribute | None:
        start = self.pos
        try:
            return super().parse_optional_attribute()
        except ParseError as error:
            self._in_attribute = error
            raise
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            self.raise_error(reading_message_of(error), start)

    @override
    def _parse_attribute_of_name(self) -> Attribute | None:
        """
        An attribute that starts with a word. An affine map that xDSL cannot parse is kept as
        text.
        """
        start, first = self.pos, self.current_token.text
        if _KEPT_ATTRIBUTE.match(self.lexer.input.content, start) is not None:
            return self._keep_attribute(start)
        try:
            attribute = super()._parse_attribute_of_name()
            if first == "loc" and attribute is not None:
                self._count_expansion(attribute, start)
            if first in _AFFINE and attribute is not None:
                return self._with_index_constants(attribute, start)
            return attribute
        except (ParseError, RecursionError, MemoryError):
            raise
        except Exception:
            content = self.lexer.input.content
            end = balanced_end(content, content.index("<", start))
            if first not in _AFFINE or isinstance(end, TextError):
                raise
        self.resume_from(end)
        return self._with_index_constants(BuiltinTextAttr(content[start:end], {}), start)

    def _with_index_constants(self, attribute: Attribute, start: Position) -> Attribute:
        """
        An affine map or set, as text if xDSL has computed a constant that MLIR does not read.

        Raises ParseError for such a constant in the text.
        """
        content = self.lexer.input.content
        end = end_of_token_before(content, self.pos)
        text = content[start:end]
        # A product has no more digits than its factors.
        if sum(len(number[0]) for number in _NUMBER.finditer(text)) < len(str(MAX_DIMENSION)):
            return attribute
        if (constant := _first_above_index(text)) is not None:
            self.raise_error("constant too large for index", start + constant)
        return (
            attribute if _first_above_index(str(attribute)) is None else BuiltinTextAttr(text, {})
        )

    def _keep_attribute(self, start: Position) -> Attribute:
        """An attribute that xDSL lacks, `sparse<...> : type` or `distinct[0]<...>`, as text."""
        content = self.lexer.input.content
        end = balanced_end(content, content.index("<", start))
        if isinstance(end, TextError):
            self.raise_error(*end)
        self.resume_from(end)
        if content.startswith("sparse", start):
            self.parse_punctuation(":")
            type = self.parse_type()
            end = end_of_token_before(content, self.pos)
            if isinstance(type, ShapedType):
                # Deferred: importing movements takes 50 ms.
                from qdialect.text.dense import check_sparse

                after = self.pos
                self.resume_from(content.index("<", start))
                check_sparse(self, start, type)
                self.resume_from(after)
        return BuiltinTextAttr(content[start:end], self.attribute_aliases)

    @override
    def parse_optional_builtin_int_or_float_attr(self) -> IntegerAttr | FloatAttr | None:
        start = self.pos
        try:
            return super().parse_optional_builtin_int_or_float_attr()
        except OverflowError:
            self.resume_from(start)
        number = self.parse_number()
        self.parse_punctuation(":")
        type = self.parse_type()
        if not isinstance(number, float) or not isinstance(type, AnyFloat):
            self.raise_error("hexadecimal float constant out of range for type", start)
        return FloatAttr(_rounded(number, type), type)

    @override
    def parse_builtin_densearray_attr(self) -> Any:
        start = self.pos
        try:
            return super().parse_builtin_densearray_attr()
        except OverflowError:
            self.resume_from(start)
        self.parse_punctuation("<")
        type = cast(AnyFloat, self.parse_type())
        self.parse_punctuation(":")
        numbers = self.parse_comma_separated_list(self.Delimiter.NONE, self.parse_float)
        self.parse_punctuation(">")
        return DenseArrayBase.from_list(type, [_rounded(number, type) for number in numbers])

    # Dense constants

    @override
    def parse_builtin_dense_attr(self) -> Any:
        """
        Read `dense<...> : type`, whose elements may be strings.

        Strings are kept as text, in MLIR's spelling.
        """
        start = self.pos
        if not self._may_be_strings(start):
            return super().parse_builtin_dense_attr()
        end = balanced_end(self.lexer.input.content, start)
        if not isinstance(end, TextError):
            self.resume_from(end)
            self.parse_punctuation(":", " in dense attribute")
            type = self.parse_type()
            after = end_of_token_before(self.lexer.input.content, self.pos)
            self.resume_from(start)
            if isinstance(type, ContainerType) and isinstance(
                type.get_element_type(), UnregisteredAttr
            ):
                # Deferred: importing movements takes 50 ms.
                from qdialect.text.dense import canonical_strings

                keyword = end_of_token_before(self.lexer.input.content, start) - len(_DENSE)
                if not isinstance(type, ShapedType):
                    self.raise_error("elements literal type must have static shape", keyword)
                text = canonical_strings(self, keyword, type)
                self.resume_from(after)
                return DenseStringsAttr(text, type)
        return super().parse_builtin_dense_attr()

    def _may_be_strings(self, start: Position) -> bool:
        """Whether the elements of a dense attribute, from `<` on, are strings or none."""
        content = self.lexer.input.content
        if (digits := _HEXADECIMAL.match(content, start)) is None:
            return _STRINGS.match(content, start) is not None
        # Found without a look at each digit: there may be millions.
        end = content.find('"', digits.end())
        return end >= 0 and _OF_FOREIGN.match(content, end) is not None

    @override
    def parse_resource(self, dialect_name: str, interface: OpAsmDialectInterface) -> None:
        text, start = self.lexer.input, self.pos
        if isinstance(text, AbridgedInput) and isinstance(interface, BlobStorage):
            key = self.parse_dialect_resource_handle(dialect_name, interface)
            opening = _BLOB.match(text.content, self.pos)
            data = text.decode(opening.end()) if opening else None
            if opening is not None and data is not None:
                interface.keep(key, Blob.of(data))
                self.resume_from(opening.end() + len('"'))
                return
            self.resume_from(start)
        super().parse_resource(dialect_name, interface)

    @override
    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[AnyDenseElement] | None
    ) -> DenseIntOrFPElementsAttr[Any]:
        """
        Read the literal of a dense attribute, and its type unless `type` is given.

        Meaning and errors are MLIR's. A splat is expanded up to MAX_REPEATED_BYTES of
        `qdialect.ir.elements`. Above that, `data` holds a single element, which prints as the
        same splat, and `len(attr)` is 1. The same holds if the tensor has no elements. Raises
        ParseError.
        """
        start = self.pos
        if (plain := find_plain_list(self)) is not None:
            self.resume_from(plain.end())
            listed_type = type or self._parse_type_of_dense()
            shape = listed_type.get_shape()
            data = bytes_of_plain_list(plain[1], listed_type.element_type, shape)
            if data is not None:
                return dense_of_bytes(listed_type, data)
            self.resume_from(start)
        # Deferred: plain lists of numbers do not need it, and importing movements takes 50 ms.
        from qdialect.algebra.views import Splat
        from qdialect.ir.elements import element_bytes
        from qdialect.text.dense import DenseLiteral

        start = self.pos - len(_DENSE)
        is_named = self.lexer.input.content.startswith(_DENSE, start)
        literal = DenseLiteral.parse_after_keyword(self, start if is_named else self.pos)
        type = type or self._parse_type_of_dense()
        values = literal.to_values(self, type.element_type, type.get_shape(), is_storage=False)
        data = element_bytes(values, type.element_type, repeat_splats=True)
        if not data and isinstance(values, Splat):
            data = values.value.tobytes()
        return dense_of_bytes(type, data)

    def _parse_type_of_dense(self) -> RankedStructure[AnyDenseElement]:
        self.parse_punctuation(":", " in dense attribute")
        return self.parse_dense_literal_type()


def _first_above_index(text: str) -> int | None:
    """The position of the first number that a signed integer of 64 bits does not hold."""
    for number in _NUMBER.finditer(text):
        digits = number[0].lstrip("0")
        # Python refuses to convert thousands of digits.
        if len(digits) > len(str(MAX_DIMENSION)) or int(digits or "0") > MAX_DIMENSION:
            return number.start()
    return None


def _rounded(number: float, type: AnyFloat) -> float:
    """`number`, or an infinity if it is too large for `type`, as in MLIR."""
    try:
        type.pack([number])
    except OverflowError:
        return math.copysign(math.inf, number)
    return number
