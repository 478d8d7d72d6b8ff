"""The reference of dialects, passes, commands and the Python interface, as Markdown."""

from __future__ import annotations

import ast
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import fields
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any
from unittest.mock import patch

from xdsl.ir import ParametrizedAttribute
from xdsl.irdl import (
    AttrConstraint,
    EqAttrConstraint,
    IRDLOperation,
    OpDef,
    OptionalDef,
    ParamAttrConstraint,
    VariadicDef,
)

from qdialect.opt.help_text import example_of, option_texts, paragraphs_of, row_of_option
from qdialect.opt.process import MODULES
from qdialect.opt.universe import get_all_dialects, get_all_passes
from qdialect.passes import GROUPS

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> Mapping[str, str]:
    """The text of each page, by its path in the site."""
    dialects = {f"reference/{name}.md": _dialect(name) for name in get_all_dialects()}
    return dialects | {"reference/passes.md": _passes(), "reference/commands.md": _commands()}


def _table(head: str, rows: Iterable[Sequence[str]]) -> str:
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    if not lines:
        return ""
    rule = " | ".join("---" for _ in head.split("|"))
    return "\n".join(f"| {line} |" for line in (head, rule, *lines))


def _text_of(thing: object) -> str:
    return cleandoc(thing.__doc__ or "")


def _dialect(name: str) -> str:
    dialect = get_all_dialects()[name]()
    parts = [
        f"# Dialect {name}",
        "This page is made from the definitions of the ops and types.",
        "[The dialect](../dialect.md) explains them, and has the constraints of each op.",
        "## Ops",
    ]
    for op in dialect.operations:
        assert issubclass(op, IRDLOperation)
        definition = op.get_irdl_definition()
        traits = sorted(type(trait).__name__ for trait in definition.traits.traits)
        names = ", ".join(trait.strip("_").removesuffix("Trait") for trait in traits)
        parts += [
            f"### {op.name}",
            _text_of(op),
            _table("part | name | how many | what", _rows_of(definition)),
            f"Traits and interfaces: {names or 'none'}.",
            f"Python: `{op.__module__}.{op.__name__}`.",
            f"```text\n{op.name} {form}\n```"
            if (form := definition.assembly_format)
            else "The form in text is the one of the example, or the generic form.",
        ]
    parts.append("## Types")
    for attribute in dialect.attributes:
        assert issubclass(attribute, ParametrizedAttribute)
        annotations = {
            name: str(kind)
            for base in reversed(attribute.__mro__)
            for name, kind in vars(base).get("__annotations__", {}).items()
            if name in dict(attribute.get_irdl_definition().parameters)
        }
        parts += [
            f"### !{attribute.name}",
            _text_of(attribute),
            _table(
                "parameter | what", [(f"`{n}`", f"`{kind}`") for n, kind in annotations.items()]
            ),
            f"Python: `{attribute.__module__}.{attribute.__name__}`.",
        ]
    return "\n\n".join(parts)


def _rows_of(definition: OpDef) -> Iterator[tuple[str, str, str, str]]:
    def count(part: object) -> str:
        if isinstance(part, OptionalDef):
            return "0 or 1"
        return "any number" if isinstance(part, VariadicDef) else "1"

    for kind, values in (("operand", definition.operands), ("result", definition.results)):
        for name, value in values:
            yield kind, f"`{name}`", count(value), "value"
    for kind, parts in (
        ("property", definition.properties),
        ("attribute", definition.attributes),
    ):
        for name, part in parts.items():
            yield kind, f"`{name}`", count(part), _kind_of(part.constr)


def _kind_of(constraint: AttrConstraint[Any]) -> str:
    """The classes of attributes that a constraint allows, and their element types."""
    bases = sorted(base.__name__ for base in constraint.get_bases() or ())
    names = " or ".join(f"`{name}`" for name in bases) or "any"
    if isinstance(constraint, ParamAttrConstraint):
        for part in constraint.param_constrs:
            if isinstance(part, EqAttrConstraint):
                return f"{names} of `{part.attr}`"
    return names


def _passes() -> str:
    parts = [
        "# Passes",
        "This page is made from the passes. Each one is a flag of `qdialect-opt`.",
        'Options follow it: `--PASS=option=value`, or `--PASS="option=value option=value"`.',
    ]
    for title, flags in GROUPS.items():
        parts.append(f"## {title}")
        for flag in flags:
            cls = get_all_passes()[flag]()
            texts = option_texts(cls)
            rows = [
                (f"`{name}`", text)
                for option in fields(cls)
                if option.init
                for name, text in [row_of_option(option, texts.get(option.name, ""))]
            ]
            parts += [
                f"### --{flag}",
                *(text for text in paragraphs_of(cls) if not text.startswith("Example: ")),
                _table("option | meaning", rows),
                f"Python: `{cls.__module__}.{cls.__name__}`.",
            ]
            if (example := example_of(cls)) is not None:
                parts.append(f"```sh\n{example}\n```")
    return "\n\n".join(parts)


def _commands() -> str:
    parts = ["# Commands", "These are the texts of `--help`."]
    for name, module in sorted(MODULES.items()):
        title = f"qdialect {name}".strip()
        text = _help_of(module)
        parts += [f"## {title}", f"```text\n{text}\n```"]
        actions = re.search(r"^  \{([\w,]+)\}$", text, re.MULTILINE)
        for action in actions[1].split(",") if actions else ():
            if (more := _help_of(module, action)) != text:
                parts += [f"### {title} {action}", f"```text\n{more}\n```"]
    return "\n\n".join(parts)


def _help_of(module: str, *arguments: str) -> str:
    width = patch.dict(os.environ, COLUMNS="80")
    with width, redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
        import_module(module).main([*arguments, "--help"])
    return printed.getvalue().rstrip()


def interface() -> Mapping[str, str]:
    """
    Pages of the Python interface, by path: what the other pages import.

    Of a module that says what it exports, all of that.
    """
    names: dict[str, set[str]] = {}
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for info, code in FENCED.findall(page.read_text(encoding="utf-8")):
            if info.startswith("python"):
                # A part of a file uses what the file imports.
                file = info.partition(" in ")[2]
                text = (ROOT / file).read_text(encoding="utf-8") if file else code
                for module, name in _imports(text):
                    names.setdefault(module, set()).add(name)
    parts: dict[str, list[str]] = {}
    shown = set[str]()
    for module, used in sorted(names.items()):
        loaded = import_module(module)
        part = ".".join(module.split(".")[:2])
        lines = [f"# {module}" if module == part else f"## {module}"]
        for name in sorted(getattr(loaded, "__all__", used - {""})):
            value = getattr(loaded, name)
            is_named = hasattr(value, "__qualname__")
            # A strategy of hypothesis is named by what made it.
            is_named = is_named and "<locals>" not in value.__qualname__
            path = f"{value.__module__}.{value.__qualname__}" if is_named else f"{module}.{name}"
            if path.startswith("qdialect.") and path not in shown:
                shown.add(path)
                lines.append(f"::: {path}")
        if len(lines) > 1:
            title = [] if module == part else [f"# {part}"]
            parts.setdefault(part, title).extend(lines)
    return {f"reference/python/{part}.md": "\n\n".join(lines) for part, lines in parts.items()}


def _imports(code: str) -> Iterator[tuple[str, str]]:
    """The modules of qdialect that a block imports from, with the names; modules are no names."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("qdialect"):
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                is_module = ROOT.joinpath(*module.split(".")).is_dir()
                yield (module, "") if is_module else (node.module or "", alias.name)
