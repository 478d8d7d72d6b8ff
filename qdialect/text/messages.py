"""
The positions and messages of MLIR's parser for malformed text.

The functions mirror `Parser::emitWrongTokenError`, `Parser::parseDialectSymbolBody` and the
lexer of https://github.com/llvm/llvm-project/tree/main/mlir/lib/AsmParser.
"""

from __future__ import annotations

import re
from contextlib import suppress
from importlib import import_module
from typing import Final, NamedTuple

from xdsl.context import Context
from xdsl.ir import Dialect
from xdsl.parser import AttrParser, Position
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.errors import message_of
from qdialect.ir.xdsl_private import STRING_BODY

_BRACKET: Final = re.compile(r'[<>()\[\]{}"]')
_OPENING: Final = {">": "<", ")": "(", "]": "[", "}": "{"}
_STRING_BODY: Final = re.compile(STRING_BODY)

_NAME_ERRORS: Final = {
    "%": "invalid SSA name",
    "#": "invalid attribute name",
    "^": "invalid block name",
    "!": "invalid type identifier",
    "@": "@ identifier expected to start with letter or '_'",
    ".": "expected three consecutive dots for an ellipsis",
}


_MAX_WIDTH: Final = 2**24 - 1
_MAX_DIGITS: Final = 10
"""A width with more digits exceeds every limit."""


class TextError(NamedTuple):
    """An error about a text: its message and position."""

    message: str
    position: Position


def number_up_to(greatest: int, digits: str) -> int | None:
    """The number; None if it is above `greatest`. Python does not read numbers of any length."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= _MAX_DIGITS and int(digits) <= greatest else None


def width_error(digits: str) -> str | None:
    """The message about an integer type of this width; None if MLIR has the type."""
    width = number_up_to(2**32 - 1, digits)
    if width is None:
        return "invalid integer width"
    return None if width <= _MAX_WIDTH else f"integer bitwidth is limited to {_MAX_WIDTH} bits"


def end_of_token_before(content: str, position: Position) -> Position:
    """
    The end of the token before `position`, where MLIR reports a missing token.

    `position` itself if there is no token before it.
    """
    end = position
    while True:
        while end and content[end - 1] in " \t":
            end -= 1
        if not end:
            return position
        if content[end - 1] not in "\r\n":
            return end
        end -= 1
        start = max(content.rfind("\n", 0, end), content.rfind("\r", 0, end)) + 1
        comment = content.find("//", start, end)
        end = end if comment < 0 else comment


def place_of_missing(parser: AttrParser) -> Position:
    """The position at which MLIR reports that the next token is not the expected one."""
    content = parser.lexer.input.content
    # At the end of the text, MLIR starts from the last character.
    position = min(parser.pos, len(content) - 1)
    return end_of_token_before(content, max(position, 0))


def balanced_end(content: str, start: Position) -> Position | TextError:
    """
    The position after the bracket that closes the one at `start`.

    Brackets in strings are skipped; as in MLIR, brackets in comments are not.
    """
    opened: list[str] = []
    position = reported = start
    while (bracket := _BRACKET.search(content, position)) is not None:
        position = bracket.end()
        match bracket[0]:
            case '"':
                end = string_end(content, bracket.start())
                if isinstance(end, TextError):
                    return end
                # Upstream reports errors at the last string, its current token.
                position, reported = end, bracket.start()
            case ">" if content.startswith("->", position - 2):
                pass
            case "<" | "(" | "[" | "{" as opening:
                opened.append(opening)
            case closing:
                if opened[-1] != _OPENING[closing]:
                    break
                opened.pop()
                if not opened:
                    return position
    return TextError(f"unbalanced '{opened[-1]}' character in pretty dialect name", reported)


def end_of_brackets(parser: AttrParser, start: Position) -> Position:
    """The position after the bracket that closes the one at `start`. Raises ParseError."""
    end = balanced_end(parser.lexer.input.content, start)
    if isinstance(end, TextError):
        parser.raise_error(*end)
    return end


def string_end(content: str, start: Position) -> Position | TextError:
    """The position after the string literal whose quote is at `start`."""
    body = _STRING_BODY.match(content, start + 1)
    assert body is not None
    end = body.end()
    if content.startswith('"', end):
        return end + 1
    if content.startswith("\\", end):
        return TextError("unknown escape in string literal", end)
    return TextError("expected '\"' in string literal", end)


def token_error(content: str, start: Position) -> TextError:
    """The error for the text at `start`, which is not a token."""
    first = content[start]
    quote = start + content.startswith('@"', start)
    if content.startswith('"', quote):
        end = string_end(content, quote)
        if isinstance(end, TextError):
            return end
    # Upstream reports these one character later.
    is_behind = first in ".@"
    return TextError(_NAME_ERRORS.get(first, "unexpected character"), start + is_behind)


class PluginError(ImportError):
    """A dialect of a plug-in does not load."""


def reading_message_of(error: Exception) -> str:
    """The message for an exception other than a ParseError; xDSL's own mean nothing to users."""
    is_told = isinstance(error, VerifyException | PluginError)
    return message_of(error) if is_told else "this cannot be read"


class CommandLineContext(Context):
    """A context of a tool: hints name its flags. Hints of others speak of Python."""


_OF_LLVM: Final = (
    " acc affine amdgpu amx arith arm_neon arm_sme arm_sve async bufferization builtin cf complex "
    "dlti emitc func gpu index irdl linalg llvm math memref ml_program mpi nvgpu nvvm omp pdl "
    "pdl_interp ptr quant rocdl scf shape shard smt sparse_tensor spirv tensor tosa transform ub "
    "vector wasmssa x86vector xegpu xevm "
)
"""The dialects of MLIR 22."""

_OF_OTHERS: Final = " chlo mhlo stablehlo vhlo "
"""The dialects of StableHLO, whose tools, as MLIR's, read what is not read here."""


def is_of_llvm(dialect: str) -> bool:
    """Whether MLIR has the dialect."""
    return f" {dialect} " in _OF_LLVM


def has_other_tools(context: Context, name: str) -> bool:
    """Whether another tool may know the op or type `name`, as its dialect is MLIR's, or unknown."""
    dialect = name.partition(".")[0]
    is_foreign = is_of_llvm(dialect) or f" {dialect} " in _OF_OTHERS
    return is_foreign or dialect not in context.registered_dialect_names


def generic_form(context: Context) -> str:
    """The advice for an op that may have a custom form that is not read."""
    advice = "use the generic form that mlir-opt --mlir-print-op-generic prints"
    is_tool = isinstance(context, CommandLineContext)
    return f"{advice} (see --read-with=COMMAND)" if is_tool else advice


def unregistered(context: Context) -> str:
    """The advice for what xDSL lacks."""
    if isinstance(context, CommandLineContext):
        return "use --allow-unregistered-dialect"
    return "set allow_unregistered of the context"


def of_dialect(context: Context, dialect: str) -> str:
    """How a dialect that the context lacks is loaded: the end of a message, or nothing."""
    if isinstance(context, CommandLineContext):
        return ""
    if dialect == "quant":
        return "; context.load_dialect(Quant) loads it, from qdialect.dialects.quant"
    module = f"xdsl.dialects.{dialect}"
    members = dict[str, object]()
    # The dialect may be of another package.
    with suppress(ImportError):
        members = vars(import_module(module))
    for name, member in members.items():
        if isinstance(member, Dialect) and member.name == dialect:
            return f"; context.load_dialect({name}) loads it, from {module}"
    return "; load it with the method load_dialect of the context"


def near_name(context: Context, name: str, kind: str) -> str:
    """
    The name of the same dialect that was perhaps meant: the end of a message, or nothing.

    `kind` is `operations`, or `attributes`, which types are too.
    """
    dialect = context.get_optional_dialect(name.partition(".")[0])
    if dialect is None:
        return ""
    # Only messages about unknown names need it (7 ms).
    from difflib import get_close_matches

    close = get_close_matches(name, (known.name for known in getattr(dialect, kind)), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
