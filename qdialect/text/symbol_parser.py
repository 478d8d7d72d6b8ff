"""Types and attributes of dialects, aliases, and tokens, read with MLIR's messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

from typing_extensions import TypeVar, override
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, LocationAttr, UnregisteredAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.parser import Position
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError, VerifyException
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import PunctuationSpelling

from qdialect.ir.errors import message_of
from qdialect.text import hints
from qdialect.text.fast_parser import FastParser
from qdialect.text.mlir_errors import TextError, balanced_end, end_of_token_before, place_of_missing
from qdialect.text.opaque_attributes import definitions_in, opaque_attribute, opaque_type

ParsedT = TypeVar("ParsedT")

OWN_DIALECT = "quant"

_BUILTIN_TYPE_CONTEXTS = (" after builtin name", " after builtin parameter list")
"""The contexts of xDSL's errors about missing brackets of a type."""

_TYPE_EXPECTED = ("type expected", "Expected shape type.")
"""xDSL's messages where a type is missing."""

_FLOAT_STORAGE = re.compile(r"uniform<\s*+(?:f8E5M2|f8E4M3FN|f4E2M1FN)\s*+[<:]")
"""The start of a type of LLVM 24 with float storage, which is kept as text."""

_LACKING = frozenset(
    f"{dialect}.{name}"
    for dialect, names in {
        "chlo": "comparison_direction comparison_type precision ragged_dot",
        "gpu": "block thread warp",
        "index": "cmp_predicate",
        "linalg": "binary_fn elementwise_kind ternary_fn type_fn unary_fn",
        "ml_program": "extern token",
        "shape": "shape size value_shape witness",
        "stablehlo": "bounds channel_handle channel_type comparison_direction comparison_type conv "
        "custom_call_api_version dot dot_algorithm fft_type future gather output_operand_alias "
        "precision replica_group_mesh_axes result_accuracy result_accuracy_mode rng_algorithm "
        "rng_distribution scatter token transpose type_extensions",
        "vector": "iterator_type kind punctuation",
    }.items()
    for name in names.split()
)
"""
Attributes and types of MLIR whose dialects xDSL has without them. They are kept as they are
written.
"""

MAX_EXPANSION = 1 << 18
"""
The parts of attributes that aliases may stand for in a text, or 64 for each of its characters if
that is more. xDSL hashes, compares and prints an attribute part by part, and n aliases of two
aliases each stand for 2**n parts.
"""

_DIALECT = re.compile("[A-Za-z_][A-Za-z0-9_$]*", re.ASCII)

_KEYWORD = re.compile("[A-Za-z_][A-Za-z0-9_$.]*", re.ASCII)

_LATE_LOCATION = re.compile(r"^(#[\w$.-]+)\s*=\s*(?=loc\()", re.MULTILINE)


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
    """
    The position at which errors are reported: after the dot, or at the first character if there
    is none.
    """

    name_end: Position
    opening: Position | None
    """The position of the `<` directly after the name, None if there is none."""


class SymbolParser(FastParser):
    """
    A parser of the types and attributes of dialects, and of aliases.

    Errors about the quant dialect, unknown types and attributes, and missing tokens have MLIR's
    message and location.
    """

    _late_definitions: dict[str, Position] | None
    """
    The positions of all definitions of location aliases; None until one is used before its
    definition.
    """
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
        if known is None and symbol.full_name in _LACKING:
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
        match attribute:
            case ArrayAttr():
                parts = attribute.data
            case DictionaryAttr():
                parts = attribute.data.values()
            case ParametrizedAttribute():
                parts = attribute.parameters
            case _:
                parts = ()
        return 1 + sum(map(self._count_parts, parts))

    def _end_of(self, symbol: _Symbol) -> Position:
        """The end of a symbol. Raises ParseError if its brackets are not balanced."""
        if symbol.opening is None:
            return symbol.name_end
        end = balanced_end(self.lexer.input.content, symbol.opening)
        if isinstance(end, TextError):
            self.raise_error(*end)
        return end

    def _parse_own_symbol(self, symbol: _Symbol) -> Attribute:
        end = self._end_of(symbol)
        is_inside = symbol.opening is not None and not symbol.is_pretty
        first = symbol.name_end + len("<") if is_inside else symbol.start
        content = self.lexer.input.content
        if _FLOAT_STORAGE.match(content, first, end - is_inside) is not None:
            text = content[first : end - is_inside]
            self.resume_from(end)
            return opaque_type(
                "quant.uniform",
                text.partition("<")[2].removesuffix(">"),
                f"quant.{text}",
                is_opaque=False,
            )
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
        names = ("any", "calibrated", "uniform")
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
            if hints.has_other_tools(self.ctx, symbol.full_name):
                message += f" (xDSL lacks it; {hints.unregistered(self.ctx)})"
            else:
                message += hints.near_symbol(self.ctx, symbol.full_name)
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
        from qdialect.text.locations import parse_location

        # The location of an op is only printed.
        with self._without_counting():
            return parse_location(self)

    def _location_defined_later(self, alias: str) -> Attribute | None:
        """
        The location of an alias that is defined later: mlir-opt writes the definitions at the
        end.
        """
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
