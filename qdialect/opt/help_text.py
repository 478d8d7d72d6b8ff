"""The texts of `--help`: of the tool, and of single passes."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from itertools import pairwise
from typing import Final, cast

from xdsl.passes import ModulePass
from xdsl.utils.hints import type_repr

from qdialect.ir.errors import describe
from qdialect.opt.options import OPTIONS, SYNONYMS, PassSpec, single_passes
from qdialect.opt.registry import find_pass, get_all_passes, get_all_targets, option_name
from qdialect.opt.tool_error import TOOL
from qdialect.passes import GROUPS

_USAGE: Final = f"usage: {TOOL} [options] [passes] [input file, or - for standard input]"

_COLUMN: Final = 32
"""Where descriptions begin."""

PassFactory = Callable[[], type[ModulePass]]


def tool_help(*, all: bool) -> str:
    """
    The text of `--help`: the options, and the passes of this package.

    With `all`, also the passes of xDSL and of plug-ins, which are imported for it.
    """
    passes = get_all_passes()
    rows = {
        title: [line_of_pass(name, passes[name]) for name in names]
        for title, names in GROUPS.items()
    }
    if all:
        rest = sorted(passes.keys() - {name for names in GROUPS.values() for name in names})
        rows["Passes of xDSL and of plug-ins"] = [line_of_pass(n, passes[n]) for n in rest]
    for title, options in OPTIONS.items():
        rows[title] = [(dashed(name), text) for name, text in options.items()]
    also = ", ".join(f"{dashed(name)} for {dashed(same)}" for name, same in SYNONYMS.items())
    targets = f"Targets of -t: {', '.join(sorted(get_all_targets()))}."
    more = [f"{TOOL} --PASS --help prints the options of a pass, and an example."]
    if not all:
        more.append(f"{TOOL} --help=all prints the passes of xDSL and of plug-ins, too.")
    return "\n".join(
        [
            *_wrapped(_USAGE),
            "",
            *_wrapped("Reads a module, runs passes on it in the order given, and prints it."),
            *(line for title, pairs in rows.items() for line in ("", f"{title}:", *_table(pairs))),
            "",
            *_wrapped(f"Other names: {also}."),
            *_wrapped(targets),
            "",
            *(line for text in more for line in _wrapped(text)),
        ]
    )


def pass_help(specs: Iterable[PassSpec]) -> str:
    """The text of `--PASS --help`: what each of these passes does, its options, and an example."""
    names = dict.fromkeys(spec.name for spec in single_passes(specs))
    return "\n\n".join(map(_text_of_pass, names))


def _text_of_pass(name: str) -> str:
    factory = find_pass(name)
    assert factory is not None
    try:
        cls = factory()
    except Exception as error:
        return f"--{name} does not load: {describe(error)}"
    options = [option for option in fields(cls) if option.init]
    texts = option_texts(cls)
    rows = [row_of_option(option, texts.get(option.name, "")) for option in options]
    required = [shown for shown, text in rows if text.endswith(_REQUIRED)]
    values = '[="option=value ..."]'
    if required:
        values = f'="{" ".join([*required, "..."][: len(rows)])}"'
    usage = f"usage: {TOOL} --{name}{values if rows else ''} [input file]"
    lines = _wrapped(usage)
    example = example_of(cls)
    for paragraph in paragraphs_of(cls):
        if not paragraph.startswith("Example: "):
            lines += ["", *_wrapped(paragraph)]
    if rows:
        lines += ["", "Options:", *_table(rows)]
    if example is not None:
        lines += ["", "Example:", " \\\n".join(_wrapped(example, "  ", margin=2))]
    return "\n".join(lines)


def example_of(cls: type[ModulePass]) -> str | None:
    """The command in the docstring of a pass, in a paragraph like "Example: `command`."."""
    for paragraph in paragraphs_of(cls):
        if (example := re.fullmatch("Example: `(.*)`.", paragraph)) is not None:
            return example[1]
    return None


def option_texts(cls: type[ModulePass]) -> Mapping[str, str]:
    """The strings after the fields of a pass class, by the name of the field."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not (is_dataclass(base) and fields(base)):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):
            # Its source is not available.
            continue
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for statement, after in pairwise(body):
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                texts[statement.target.id] = " ".join(after.value.value.split())
    return texts


_REQUIRED: Final = " (required)"
_KINDS: Final = {"int": "INTEGER", "float": "NUMBER", "bool": "BOOL", "str": "TEXT"}


def row_of_option(option: Field[object], text: str) -> tuple[str, str]:
    """The name of an option with the kind of its value, and its text with values and default."""
    type = (option.type if isinstance(option.type, str) else type_repr(option.type)).strip("'")
    names = re.findall(r"\w+", type)
    kind = "NUMBER" if {"int", "float"} <= {*names} else _KINDS.get(names[0], "TEXT")
    if names[0] == "tuple":
        kind = f"{_KINDS.get(names[1], 'TEXT')},..."
    if values := values_of(option):
        text += f" One of: {', '.join(values)}."
    if option.default is MISSING and option.default_factory is MISSING:
        text += _REQUIRED
    elif option.default not in (None, (), MISSING):
        text += f" (default: {_value_text(option.default)})"
    return f"{option_name(option)}={kind}", text.strip()


def values_of(option: Field[object]) -> Sequence[str]:
    """The values of an option, if its class lists them."""
    return [*map(_value_text, option.metadata.get("values", ()))]


def _value_text(value: object) -> str:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, tuple):
        return ",".join(map(_value_text, cast("tuple[object, ...]", value)))
    return str(value).lower() if isinstance(value, bool) else str(value)


def line_of_pass(name: str, factory: PassFactory) -> tuple[str, str]:
    """The flag of a pass, and the first paragraph of its docstring."""
    try:
        text = next(iter(paragraphs_of(factory())), "")
    except Exception as error:
        text = f"(does not load: {describe(error)})"
    return f"--{name}", text


def paragraphs_of(cls: type[ModulePass]) -> Sequence[str]:
    """The paragraphs of the docstring of a pass, each in one line."""
    text = inspect.cleandoc(cls.__doc__ or "")
    # The docstring of a dataclass defaults to its signature.
    if not text or text.startswith(f"{cls.__name__}("):
        return ()
    return [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text)]


def dashed(name: str) -> str:
    """The name of an option as it is typed, with the kind of its value if that is behind it."""
    short, _, value = name.partition("=")
    return f"-{short} {value}".rstrip() if len(short) == 1 else f"--{name}"


def _width() -> int:
    """The columns of the terminal, within limits; 80 if the text goes elsewhere."""
    return max(60, min(shutil.get_terminal_size().columns, 100))


def _wrapped(text: str, indent: str = "", margin: int = 0) -> list[str]:
    return textwrap.wrap(
        text,
        _width() - margin,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Two columns; a description after a long name begins on the next line."""
    for name, text in rows:
        lines = _wrapped(text, " " * _COLUMN)
        if len(name) + 2 < _COLUMN - 1 and lines:
            lines[0] = f"  {name}".ljust(_COLUMN) + lines[0].lstrip()
        else:
            lines.insert(0, f"  {name}")
        yield from lines
