"""A lexer of MLIR text that matches each token with one regular expression."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from typing_extensions import override
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import (
    KIND_BY_PUNCTUATION_SPELLING,
    MLIRToken,
    MLIRTokenKind,
    StringLiteral,
)

from qdialect.ir.xdsl_private import LinearLexer
from qdialect.text.messages import token_error

# The ASCII tokens, which make up nearly all of any text. The first character of a name tells its
# kind. Strings are short and have no escapes. All repetitions are possessive.
_TOKEN: Final = re.compile(
    r"""
    \s*+
    (?:
      (?P<comment>//[^\n]*+)
     |(?P<punctuation>->|\{-\#|\#-\}|\.\.\.|[:,(){}\[\]<>=+/*?|-])
     |(?P<bare>[A-Za-z_][A-Za-z0-9_$.]*+)
     |(?P<name>[%!\#^](?:[0-9]++|[A-Za-z$._-][A-Za-z0-9$._-]*+)|@[A-Za-z_][A-Za-z0-9_$.]*+)
     |(?P<integer>0x[0-9A-Fa-f]++|[0-9]++(?!\.))
     |(?P<float>[0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)?)
     |(?P<string>"[^"\\\n\v\f]{0,256}+")
    )
    """,
    re.VERBOSE | re.ASCII,
)

_KINDS: Final = {
    "bare": MLIRTokenKind.BARE_IDENT,
    "integer": MLIRTokenKind.INTEGER_LIT,
    "float": MLIRTokenKind.FLOAT_LIT,
    "string": MLIRTokenKind.STRING_LIT,
}

_KINDS_BY_SPELLING: Final[dict[str, MLIRTokenKind]] = {**KIND_BY_PUNCTUATION_SPELLING}

_KINDS_BY_PREFIX: Final = {
    "%": MLIRTokenKind.PERCENT_IDENT,
    "!": MLIRTokenKind.EXCLAMATION_IDENT,
    "#": MLIRTokenKind.HASH_IDENT,
    "^": MLIRTokenKind.CARET_IDENT,
    "@": MLIRTokenKind.AT_IDENT,
}


class TextToken(MLIRToken):
    """A token that holds its text, and creates its span on demand."""

    __slots__ = ("_text", "end", "input", "start")

    def __init__(
        self, kind: MLIRTokenKind, text: str, start: int, end: int, input: Input[str]
    ) -> None:
        self.kind = kind
        self._text = text
        self.start = start
        self.end = end
        self.input = input

    @property
    @override
    def text(self) -> str:
        return self._text

    def __getattr__(self, name: str) -> Span[str]:
        if name != "span":
            raise AttributeError(name)
        self.span = Span(self.start, self.end, self.input)
        return self.span


def _is_utf8(literal: Span[str]) -> bool:
    """Whether a string literal, with its escapes, is UTF-8."""
    try:
        StringLiteral(literal.start, literal.end, literal.input).bytes_contents.decode()
    except UnicodeDecodeError:
        return False
    return True


class TokenError(ParseError):
    """No token starts here. No form of an op has such text."""


class PlainLexer(LinearLexer):
    """xDSL's lexer in linear time, with MLIR's errors and tokens that hold their text."""

    @override
    def lex(self) -> TextToken:
        """The next token. Raises ParseError."""
        try:
            token = super().lex()
        except ParseError as error:
            self._refuse(error.span.start)
        span = token.span
        if not self.input.content[span.start : span.start + 1].isascii():
            self._refuse(span.start)
        kind = token.kind
        if kind is MLIRTokenKind.BYTES_LIT and _is_utf8(span):
            # MLIR escapes all non-ASCII characters.
            kind = MLIRTokenKind.STRING_LIT
        return TextToken(kind, span.text, span.start, span.end, self.input)

    def _refuse(self, start: int) -> NoReturn:
        message, position = token_error(self.input.content, start)
        raise TokenError(Span(position, position, self.input), message) from None


class FastLexer(PlainLexer):
    """
    A faster lexer with the same tokens and errors as PlainLexer.

    It matches common tokens itself, and delegates the others to PlainLexer.
    """

    @override
    def lex(self) -> TextToken:
        """The next token. Raises ParseError."""
        input = self.input
        while (match := _TOKEN.match(input.content, self.pos)) is not None:
            group = match.lastgroup
            assert group is not None
            text = match[group]
            end = self.pos = match.end()
            match group:
                case "punctuation":
                    kind = _KINDS_BY_SPELLING[text]
                case "name":
                    kind = _KINDS_BY_PREFIX[text[0]]
                case "comment":
                    continue
                case _:
                    kind = _KINDS[group]
            return TextToken(kind, text, end - len(text), end, input)
        return super().lex()
