"""Types and attributes, aliases and dense constants, read with MLIR's meaning and messages."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, cast

from typing_extensions import TypeVar, override
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
    LocationAttr,
    MemRefType,
    RankedStructure,
    ShapedType,
    UnrankedMemRefType,
    UnregisteredAttr,
    VectorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.ir.affine import AffineMap, AffineSet
from xdsl.parser import Position
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError, VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRTokenKind, PunctuationSpelling

from qdialect.ir.elements import dense_of_bytes
from qdialect.ir.errors import message_of
from qdialect.ir.resources import Blob, BlobStorage
from qdialect.ir.xdsl_private import SemiAffineParser
from qdialect.text import messages
from qdialect.text.fast_parser import FastParser
from qdialect.text.messages import (
    TextError,
    balanced_end,
    end_of_brackets,
    end_of_token_before,
    place_of_missing,
    reading_message_of,
    width_error,
)
from qdialect.text.plain_lists import bytes_of_plain_list, find_plain_list
from qdialect.text.source import AbridgedInput
from qdialect.text.syntax import syntax_of
from qdialect.text.text_attributes import (
    BuiltinTextAttr,
    DenseStringsAttr,
    definitions_in,
    opaque_attribute,
    opaque_type,
    parts_of,
)

ParsedT = TypeVar("ParsedT")

OWN_DIALECT = "quant"

_BUILTIN_TYPE_CONTEXTS = (" after builtin name", " after builtin parameter list")
"""The contexts of xDSL's errors about missing brackets of a type."""

_TYPE_EXPECTED = ("type expected", "Expected shape type.")
"""xDSL's messages where a type is missing."""

MAX_EXPANSION = 1 << 18
"""
The parts of attributes that aliases may stand for in a text, or 64 for each of its characters if
that is more. xDSL hashes, compares and prints an attribute part by part, and n aliases of two
aliases each stand for 2**n parts.
"""

_DIALECT = re.compile("[A-Za-z_][A-Za-z0-9_$]*", re.ASCII)

_KEYWORD = re.compile("[A-Za-z_][A-Za-z0-9_$.]*", re.ASCII)

_LATE_LOCATION = re.compile(r"^(#[\w$.-]+)\s*=\s*(?=loc\()", re.MULTILINE)


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


def _is_kept_as_text(name: str) -> bool:
    """Whether xDSL has the dialect of a type or attribute without it."""
    dialect, _, rest = name.partition(".")
    return rest in syntax_of(dialect).opaque.split()


class _Symbol(NamedTuple):
    """A type or attribute `!dialect.name<body>`, `!dialect<body>`, or an alias `!name`."""

    name: str
    """The text before the brackets, without the `!` or `#`."""

    full_name: str
    """`dialect.name`; the name may be empty in `!dialect<body>`."""

    is_pretty: bool
    """Whether the name of the dialect is followed by a dot."""

    is_type: bool

    start: Position
    """Where errors are reported: after the dot, or else at the first character."""

    name_end: Position
    opening: Position | None
    """The position of the `<` directly after the name, None if there is none."""


class AttributeParser(FastParser):
    """
    A parser of types, attributes and aliases.

    Errors about the quant dialect, unknown types and attributes, and missing tokens have MLIR's
    message and location. Literals that do not fit their type, and types that MLIR does not verify,
    are errors at their position in the text. What xDSL lacks is kept as text.
    """

    _in_attribute: ParseError | None
    """The last error inside a type or an attribute."""
    _late_definitions: dict[str, Position] | None
    """Where aliases of locations are defined; None until one is used before that."""
    _late_locations: dict[str, Attribute]
    _parts: dict[int, int]
    """The number of parts of the attribute of each alias, by its `id`."""
    _is_counting: bool
    """Whether the parts that aliases stand for count: not in their definitions and locations."""
    _type_name: str
    """The name of the builtin type whose brackets are being parsed, or ""."""

    def __init__(self, ctx: Context, input: Input) -> None:
        super().__init__(ctx, input)
        self._late_definitions = None
        self._late_locations = {}
        self._parts = {}
        self._is_counting = True
        self._type_name = ""
        self._in_attribute = None

    def _is_own(self, name: str) -> bool:
        return (
            name.startswith(f"{OWN_DIALECT}.") and OWN_DIALECT in self.ctx.registered_dialect_names
        )

    # Tokens

    @override
    def parse_punctuation(
        self, punctuation: PunctuationSpelling, context_msg: str = ""
    ) -> PunctuationSpelling:
        if self.parse_optional_punctuation(punctuation) is None:
            if context_msg in _BUILTIN_TYPE_CONTEXTS:
                context_msg = f" in {self._type_name} type"
            self._refuse_token(f"expected '{punctuation}'{context_msg}")
        return punctuation

    @override
    def parse_characters(self, text: str, context_msg: str = "") -> str:
        if self.parse_optional_characters(text) is None:
            self._refuse_token(f"expected '{text}'{context_msg}")
        return text

    @override
    def expect(self, try_parse: Callable[[], ParsedT | None], error_message: str) -> ParsedT:
        parsed = try_parse()
        if parsed is None:
            if error_message in _TYPE_EXPECTED:
                self._refuse_token("expected non-function type")
            self.raise_error(error_message)
        return parsed

    def _refuse_token(self, message: str) -> NoReturn:
        """Raise ParseError after the previous token, as MLIR does for an unexpected token."""
        self.raise_error(message, place_of_missing(self))

    # Types and attributes of dialects: see MLIR's `parseExtendedSymbol`.

    @override
    def parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Any:
        symbol = self._symbol(attr_or_dialect_name, is_type)
        if symbol.opening is None and not symbol.is_pretty:
            return self._attribute_of_alias(symbol)
        if self._is_own(symbol.full_name):
            return self._parse_own_symbol(symbol)
        find = self.ctx.get_optional_type if is_type else self.ctx.get_optional_attr
        known = find(symbol.full_name)
        if known is None and _is_kept_as_text(symbol.full_name):
            return self._parse_opaque_symbol(symbol)
        if known is None:
            self._refuse_symbol(symbol)
        if issubclass(known, UnregisteredAttr):
            return self._parse_opaque_symbol(symbol)
        try:
            return super().parse_extended_type_or_attribute(attr_or_dialect_name, is_type)
        except VerifyException as error:
            self.raise_error(message_of(error), symbol.start)
        except ParseError:
            # Upstream checks the brackets first.
            self._end_of(symbol)
            raise

    def _symbol(self, name: str, is_type: bool) -> _Symbol:
        """The symbol that consists of `name`, which has been parsed, and the brackets after it."""
        content, position = self.lexer.input.content, self.pos
        # Upstream reads `!name <` as an alias, and only `!name<` as a dialect.
        is_next = content.startswith("<", position) and content.endswith(name, 0, position)
        name_end = position if is_next else content.rfind(name, 0, position) + len(name)
        full_name, start = name, name_end - len(name.partition(".")[2])
        if "." not in name:
            keyword = _KEYWORD.match(content, position + 1) if is_next else None
            full_name = f"{name}.{keyword[0] if keyword else ''}"
            start = name_end - len(name) - 1
        return _Symbol(
            name, full_name, "." in name, is_type, start, name_end, position if is_next else None
        )

    def _attribute_of_alias(self, symbol: _Symbol) -> Attribute:
        alias = ("!" if symbol.is_type else "#") + symbol.name
        known = self.attribute_aliases.get(alias)
        if known is None and not symbol.is_type:
            known = self._location_defined_later(alias)
        if known is None:
            self._refuse_token(f"undefined symbol alias id '{symbol.name}'")
        self._count_expansion(known, symbol.start)
        return known

    def _count_expansion(self, attribute: Attribute, start: Position) -> None:
        """Count the parts of an attribute at `start`. Raises ParseError if there are too many."""
        if not self._is_counting:
            return
        self.expansion += self._count_parts(attribute)
        limit = max(MAX_EXPANSION, 64 * len(self.lexer.input.content))
        if self.expansion > limit:
            self.raise_error(
                f"aliases of aliases stand for {self.expansion} parts of attributes, more than "
                f"the {limit} that are allowed",
                start,
            )

    @override
    def parse_alias_def(self) -> None:
        name = self.current_token.text
        with self._without_counting():
            super().parse_alias_def()
        attribute = self.attribute_aliases[name]
        self._parts[id(attribute)] = self._count_parts(attribute)

    @contextmanager
    def _without_counting(self) -> Generator[None]:
        outer, self._is_counting = self._is_counting, False
        yield
        self._is_counting = outer

    def _count_parts(self, attribute: Attribute) -> int:
        """The number of attributes in an attribute, itself included."""
        if (known := self._parts.get(id(attribute))) is not None:
            return known
        return 1 + sum(map(self._count_parts, parts_of(attribute)))

    def _end_of(self, symbol: _Symbol) -> Position:
        """The end of a symbol. Raises ParseError if its brackets are not balanced."""
        opening = symbol.opening
        return symbol.name_end if opening is None else end_of_brackets(self, opening)

    def _parse_own_symbol(self, symbol: _Symbol) -> Attribute:
        end = self._end_of(symbol)
        is_inside = symbol.opening is not None and not symbol.is_pretty
        first = symbol.name_end + len("<") if is_inside else symbol.start
        content = self.lexer.input.content
        self.resume_from(first)
        start = self.pos
        if not symbol.is_type:
            self.raise_error(f"dialect '{OWN_DIALECT}' provides no attribute parsing hook", start)
        keyword = self.parse_optional_identifier()
        if keyword is None:
            self.raise_error("expected valid keyword", start)
        known = self.ctx.get_optional_type(f"{OWN_DIALECT}.{keyword}")
        if (
            known is None
            or not issubclass(known, ParametrizedAttribute)
            or issubclass(known, UnregisteredAttr)
        ):
            self._refuse_own_type(keyword, start)
        try:
            type = known.new(known.parse_parameters(self))
        except VerifyException as error:
            self.raise_error(message_of(error), start)
        # Upstream ignores the rest of the text in the brackets, and missing brackets. It counts
        # a bracket in a comment, which may end the type before the parser does.
        if symbol.opening is None or end_of_token_before(content, self.pos) <= end:
            self.resume_from(end)
        return type

    def _refuse_own_type(self, keyword: str, start: Position) -> NoReturn:
        """Raise ParseError for a type that the quant dialect does not have."""
        # Deferred: only messages about wrong names need it (7 ms).
        from difflib import get_close_matches

        message = f"unknown quantized type {keyword}"
        names = ("any", "calibrated", "quantile", "uniform")
        span = Span(start, start + len(keyword), self.lexer.input)
        notes: list[tuple[Span[str] | Span[bytes], str | None]] = [
            (span, f"did you mean '{name}'?") for name in get_close_matches(keyword, names, 1)
        ]
        raise MultipleSpansParseError(span, message, None, notes)

    def _parse_opaque_symbol(self, symbol: _Symbol) -> Attribute:
        """A type or attribute of an unregistered dialect, kept as text."""
        end = self._end_of(symbol)
        if symbol.opening is not None:
            self.resume_from(end)
        content = self.lexer.input.content
        text = content[symbol.name_end - len(symbol.name) : end]
        mnemonic = symbol.full_name if symbol.is_pretty else symbol.full_name.replace(".", "<", 1)
        value = text[len(mnemonic) + symbol.is_pretty : -1]
        is_opaque = not symbol.is_pretty
        definitions = definitions_in(text, self.attribute_aliases)
        for definition in definitions.data.values():
            self._count_expansion(definition, symbol.start)
        name = symbol.full_name
        if symbol.is_type:
            return opaque_type(name, value, text, definitions, is_opaque=is_opaque)
        colon = self.parse_optional_punctuation(":")
        type = None if colon is None else self.parse_type()
        return opaque_attribute(name, value, text, definitions, type, is_opaque=is_opaque)

    def _refuse_symbol(self, symbol: _Symbol) -> NoReturn:
        """Raise ParseError for a type or attribute that is not registered."""
        end = self._end_of(symbol)
        dialect = symbol.full_name.partition(".")[0]
        if dialect in self.ctx.registered_dialect_names:
            message = f"'{symbol.full_name}' is not registered"
            if messages.has_other_tools(self.ctx, symbol.full_name):
                message += f" (xDSL lacks it; {messages.unregistered(self.ctx)})"
            else:
                message += messages.near_name(self.ctx, symbol.full_name, "attributes")
            self.raise_error(message, symbol.start)
        if _DIALECT.fullmatch(dialect) is None:
            self.raise_error(f"invalid dialect namespace '\"{dialect}\"'", symbol.start)
        body = self.lexer.input.content[symbol.name_end - len(symbol.name) : end]
        body = body[len(dialect) + 1 : end if symbol.is_pretty else -1]
        described = f'"{dialect}"<"{body}">'
        described = f"`!{described}` type" if symbol.is_type else f"#{described} : none attribute"
        self.raise_error(
            f"{described} created with unregistered dialect. If this is intended, please call "
            "allowUnregisteredDialects() on the MLIRContext, or use "
            "-allow-unregistered-dialect with the MLIR opt tool used",
            symbol.start,
        )

    @override
    def parse_location(self) -> LocationAttr:
        # Deferred: few texts have locations.
        from qdialect.text.text_attributes import parse_location

        # The location of an op is only printed.
        with self._without_counting():
            return parse_location(self)

    def _location_defined_later(self, alias: str) -> Attribute | None:
        """The location of an alias that is defined later: mlir-opt defines them at the end."""
        if self._late_definitions is None:
            matches = _LATE_LOCATION.finditer(self.lexer.input.content)
            self._late_definitions = {match[1]: match.end() for match in matches}
        position = self._late_definitions.get(alias)
        if position is None:
            return None
        if alias not in self._late_locations:
            here = self.pos
            self.resume_from(position)
            # While it is parsed, the alias is undefined: it may refer to itself.
            del self._late_definitions[alias]
            with self._without_counting():
                location = self.parse_attribute()
            self._late_locations[alias] = location
            self._parts[id(location)] = self._count_parts(location)
            self._late_definitions[alias] = position
            self.resume_from(here)
        return self._late_locations[alias]

    # Types and attributes of the builtin dialect

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
    def parse_affine_map(self) -> AffineMap:
        return SemiAffineParser(self.state).parse_affine_map()

    @override
    def parse_affine_set(self) -> AffineSet:
        return SemiAffineParser(self.state).parse_affine_set()

    @override
    def _parse_attribute_of_name(self) -> Attribute | None:
        """An attribute that starts with a word; an affine map that xDSL cannot parse, as text."""
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
        end = end_of_brackets(self, content.index("<", start))
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
    def parse_dialect_resource_handle(
        self, dialect_name: str, interface: OpAsmDialectInterface
    ) -> str:
        # xDSL reads identifiers only.
        key = self.parse_identifier_or_str_literal(" for resource handle")
        if (dialect_name, key) not in self.dialect_resources:
            key = interface.declare_resource(key)
            self.dialect_resources.add((dialect_name, key))
        return key

    @override
    def parse_external_resources(self) -> None:
        # What tools write for themselves, such as the pipeline of a reproducer, is skipped.
        start = self.pos
        self.parse_punctuation("{")
        self.resume_from(end_of_brackets(self, start))

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
        values = literal.to_values(type.element_type, type.get_shape(), is_storage=False)
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
