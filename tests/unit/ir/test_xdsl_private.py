"""The private names of xDSL that are used exist, and occur in one file only."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import xdsl
from xdsl.parser import Parser
from xdsl.printer import Printer

from qdialect.check.interpreters.interpreter import ModuleInterpreter
from qdialect.ir.xdsl_private import (
    PRIVATE_NAMES,
    XDSL_VERSION,
    Hooks,
    OpenParser,
    OpenPrinter,
    PrivateName,
)

PACKAGE = Path(__file__).parents[3] / "qdialect"
XDSL = Path(inspect.getfile(xdsl)).parent
FILE = "ir/xdsl_private.py"
LISTED = {private.name for private in PRIVATE_NAMES}
PRIVATE = re.compile("_[a-z]")

OF_OTHERS = {"_actions", "_exit"}
"""Names of the standard library."""

Tree = tuple[str, ast.Module]


def definition(name: str) -> re.Pattern[str]:
    """A line that defines a method or a field."""
    return re.compile(rf"\s+(?:def {name}\(|{name}(?::[^=]*)?(?: =|$)|{name}: )")


@pytest.mark.parametrize("private", PRIVATE_NAMES, ids=lambda private: private.name)
def test_xdsl_has_the_name(private: PrivateName) -> None:
    """Where it is said to be in one version, and in that file in all of them."""
    module, _, owner = private.owner.rpartition(".")
    cls: type[Any] = getattr(import_module(module), owner)
    has_field = any(private.name in inspect.get_annotations(base) for base in cls.__mro__)
    assert hasattr(cls, private.name) or has_field, f"xDSL has no {private.owner}.{private.name}"
    lines = (XDSL / private.file).read_text(encoding="utf-8").splitlines()
    pattern = definition(private.name)
    found = [number for number, line in enumerate(lines, 1) if pattern.match(line)]
    assert found, f"xDSL defines {private.name} in another file than {private.file}"
    if str(xdsl.__version__) == XDSL_VERSION:
        assert private.line in found, f"{private.file}: {private.name} is at {found}"


@cache
def trees() -> Sequence[Tree]:
    return [
        (path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


def names_of_xdsl() -> set[str]:
    """All private names of methods and fields in xDSL."""
    names: set[str] = set()
    for path in XDSL.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        names.update(re.findall(r"^\s+(?:def )?(_[a-z]\w*)(?:\(|:| =)", text, re.MULTILINE))
        names.update(re.findall(r"\bself\.(_[a-z]\w*)", text))
    return names


def own_names(tree: ast.AST) -> Iterator[str]:
    """The names that a module or a class defines itself."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def used_names(tree: ast.AST) -> Iterator[str]:
    """The private names in `x._name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and PRIVATE.match(node.attr):
            yield node.attr


def test_private_names_stand_in_one_file() -> None:
    """No other file uses a private name that it, or another one of the package, does not define."""
    own = {name for file, tree in trees() if file != FILE for name in own_names(tree)} | OF_OTHERS
    elsewhere = {
        (file, name)
        for file, tree in trees()
        if file != FILE
        for name in used_names(tree)
        if name not in own
    }
    assert elsewhere == set()


def subclasses_of_xdsl() -> Iterator[tuple[str, type[Any], ast.ClassDef]]:
    """The classes with a base class in xDSL: the file, and the text, of each."""
    for file, tree in trees():
        name = f"qdialect.{file.removesuffix('.py').replace('/', '.')}"
        module = import_module(name.removesuffix(".__init__"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                cls = getattr(module, node.name)
                if any(map(is_of_xdsl, cls.__mro__)):
                    yield file, cls, node


def is_of_xdsl(cls: type[Any]) -> bool:
    return cls.__module__.partition(".")[0] == "xdsl"


@cache
def private_names_of(base: type[Any]) -> set[str]:
    """The private names that a class of xDSL defines."""
    names = base.__dict__.keys() | inspect.get_annotations(base).keys()
    names |= set(re.findall(r"\bself\.(_[a-z]\w*)", inspect.getsource(base)))
    return {name for name in names if PRIVATE.match(name) and not name.startswith("_abc_")}


def test_subclasses_use_and_override_public_names_only() -> None:
    """Private names that a subclass defines must not override xDSL's."""
    subclasses = list(subclasses_of_xdsl())
    assert len(subclasses) > 50
    elsewhere = [
        (file, cls.__name__, name)
        for file, cls, text in subclasses
        if file != FILE
        for base in filter(is_of_xdsl, cls.__mro__)
        for name in {*own_names(text), *used_names(text)} & private_names_of(base)
    ]
    assert elsewhere == []


def test_what_is_listed_is_used_and_nothing_else() -> None:
    tree = dict(trees())[FILE]
    used = {*used_names(tree), *own_names(tree)}
    hooks = {name for cls in Hooks.__subclasses__() for name in cls.HOOKS.values()}
    assert (used | hooks) & names_of_xdsl() == LISTED


@pytest.mark.parametrize("cls", Hooks.__subclasses__(), ids=lambda cls: cls.__name__)
def test_hooks_are_names_of_xdsl(cls: type[Hooks]) -> None:
    assert set(cls.HOOKS.values()) <= LISTED


@pytest.mark.parametrize("cls", [OpenParser, OpenPrinter])
def test_public_names_are_not_those_of_xdsl(cls: type[Any]) -> None:
    """So that xDSL calls none of them but as what it is here."""
    base = Parser if cls is OpenParser else Printer
    overridden = cls.__dict__.keys() & dir(base)
    assert {name for name in overridden if not name.startswith("_")} <= {"print_string"}


def test_xdsl_calls_what_a_subclass_overrides() -> None:
    private = ModuleInterpreter.__dict__["_run_op"]
    assert private is ModuleInterpreter.__dict__["run_one_op"]


def test_a_subclass_inherits_the_override() -> None:
    class Outer(OpenParser):
        def parse_block(self) -> Any:
            return "block"

    class Inner(Outer):
        pass

    assert Inner.__dict__.keys().isdisjoint(OpenParser.HOOKS.values())
    assert Inner._parse_block is Outer.parse_block  # pyright: ignore[reportPrivateUsage]
