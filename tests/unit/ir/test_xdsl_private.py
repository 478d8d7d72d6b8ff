"""The private names of xDSL that are used: they are there, and they stand in one list."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from qdialect.ir.xdsl_private import PRIVATE_NAMES, PrivateName

PACKAGE = Path(__file__).parents[3] / "qdialect"
LISTED = {private.name for private in PRIVATE_NAMES}

SUBCLASSES = {
    "ir/blobs.py",
    "interpreters/interpreter.py",
    "text/fast_parser.py",
    "text/lexer.py",
    "text/parser.py",
    "text/printer.py",
    "tools/registry.py",
    "tools/run.py",
}
"""Where classes of xDSL have subclasses that use private names of theirs."""

OF_OTHERS = {"_exit"}
"""Names of the standard library."""


@pytest.mark.parametrize("private", PRIVATE_NAMES, ids=lambda private: private.name)
def test_xdsl_has_the_name(private: PrivateName) -> None:
    module, _, owner = private.owner.rpartition(".")
    cls = getattr(import_module(module), owner)
    # A field is annotated, or set on `self`.
    is_field = any(
        private.name in inspect.get_annotations(base)
        or re.search(rf"self\.{private.name}\b", inspect.getsource(base))
        for base in cls.__mro__[:-1]
        if base.__module__.startswith("xdsl.")
    )
    assert hasattr(cls, private.name) or is_field, private
    file = private.mirrors.partition(":")[0]
    root = Path(inspect.getfile(import_module("xdsl"))).parent
    assert re.search(rf"\b{private.name}\b", (root / file).read_text()), private


def own_names() -> set[str]:
    """The private names that qdialect defines itself, without overriding one."""
    names: set[str] = set()
    for _, tree in trees():
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name, decorator_list=decorators):
                    if not any(isinstance(d, ast.Name) and d.id == "override" for d in decorators):
                        names.add(name)
                case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                    names.add(name)
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    names.add(name)
                case _:
                    pass
    # What is stored to, and not defined here.
    return names - LISTED


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())


def private_uses() -> Iterator[tuple[str, str, bool]]:
    """The file and the name of each use of a private name of xDSL, and if it is of `self`."""
    own = own_names()
    for file, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or not re.match("_[a-z]", node.attr):
                continue
            if node.attr in own | OF_OTHERS:
                continue
            match node.value:
                case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")):
                    yield file, node.attr, True
                case _:
                    yield file, node.attr, False


def test_private_names_stand_in_one_file() -> None:
    elsewhere = {
        (file, name)
        for file, name, is_own in private_uses()
        if file != "ir/xdsl_private.py" and not (is_own and file in SUBCLASSES)
    }
    assert elsewhere == set()


def test_private_names_are_listed() -> None:
    assert {name for _, name, _ in private_uses()} <= LISTED
    overridden = {
        node.name
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and re.match("_[a-z]", node.name)
    }
    assert overridden - own_names() <= LISTED


def test_what_is_listed_is_used() -> None:
    text = "\n".join(
        path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "xdsl_private.py"
    )
    text += inspect.getsource(import_module("qdialect.ir.xdsl_private")).partition("_GENERIC")[0]
    assert [name for name in LISTED if not re.search(rf"\b{name}\b", text)] == []
