"""Imports point downward: from a layer to the layers below it, or within it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import qdialect

pytestmark = pytest.mark.without_xdsl

ROOT = Path(qdialect.__file__).parent

FLOORS = (
    "support",
    "algebra",
    "ir",
    "text",
    "ops",
    "dialects.quant",
    "dialects.arrays",
    "dialects",
    "lowering",
    "folding",
    "sinking",
    "passes",
    "opt",
    "check.interpreters",
    "check",
    "ptq.schemes",
    "ptq.calibration",
    "ptq",
    "ptq.float_graph",
    "ptq.assignment",
    "ptq.equalization",
    "ptq.passes",
    "weights",
    "checkpoints",
    "weights.weights_tool",
    "integers",
    "ptq.tools",
    "frontends",
    "export",
    "testing",
    "__main__",
)
"""From the lowest to the highest."""

UPWARD: dict[tuple[str, str], str] = {}
"""Imports that point upward, and why."""

BY_NAME = {
    ("dialects", "folding"): "xDSL asks ops of quant for canonicalization patterns",
    ("folding", "check"): "the option `verify` of folds, and constants that are computed by a run",
    ("passes", "ptq"): "the table of all flags",
    ("passes", "integers"): "the table of all flags",
    ("passes", "weights"): "the table of all flags",
    ("opt", "check"): "the commands",
    ("opt", "ptq"): "the commands",
    ("opt", "weights"): "the command about weights, and the option that names their files",
    ("opt", "frontends"): "the command that imports",
    ("opt", "export"): "the command that exports",
    ("text", "dialects"): "the custom forms of a dialect, found by its name",
}
"""The parts that name modules of parts above them, which are imported when they are used."""

NUMPY_ONLY = {"numpy", "typing_extensions"}
"""What the floors of numbers may import besides Python's own modules."""

NUMBERS = ("support.", "algebra.", "ptq.schemes.")
"""The floors that know no IR."""


BUDGETS = {
    "support": (1784, 3),
    "algebra": (3232, 4),
    "ir": (1929, 2),
    "text": (5808, 5),
    "ops": (3374, 4),
    "dialects": (16732, 10),
    "lowering": (2252, 4),
    "folding": (6689, 5),
    "sinking": (1051, 2),
    "passes": (1452, 2),
    "opt": (3803, 6),
    "check": (7294, 7),
    "weights": (2943, 7),
    "checkpoints": (2955, 6),
    "ptq": (21361, 8),
    "integers": (2734, 5),
    "frontends": (1614, 4),
    "export": (3951, 5),
    "testing": (785, 4),
}
"""
Of each folder: the number of its lines, and of the files in its longest chain of imports. They only
fall, but for a commit that says why.
"""

LONGEST_CHAIN = 16
"""The number of files in the longest chain of imports."""


class Import(NamedTuple):
    """One import of a module."""

    importer: str
    imported: str
    line: int
    is_in_function: bool
    has_reason: bool


@cache
def modules() -> list[str]:
    """All modules, without the name of the package; a package is its `__init__`."""
    paths = sorted(ROOT.rglob("*.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in names if name != "__init__"]


def text_of(module: str) -> str:
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path.read_text(encoding="utf-8")


class Contents(NamedTuple):
    """What is asked of the tree of a module, which itself is large, and not kept."""

    imports: tuple[Import, ...]
    variables: tuple[tuple[int, str], ...]
    """The lines and names of variables and parameters."""

    texts: tuple[tuple[int, str], ...]
    """The lines and values of literals."""


@cache
def contents_of(module: str) -> Contents:
    text = text_of(module)
    lines = text.split("\n")
    tree = ast.parse(text)

    def walk(node: ast.AST, *, is_in_function: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Import | ast.ImportFrom):
                for name in imported(child):
                    yield Import(
                        module, name, child.lineno, is_in_function, has_reason(lines, child.lineno)
                    )
            # Expressions have no statements.
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from walk(child, is_in_function=is_in_function or is_function)

    variables, texts = list[tuple[int, str]](), list[tuple[int, str]]()
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                variables.append((node.lineno, name))
            case ast.Constant(value=str(value)):
                texts.append((node.lineno, value))
            case _:
                pass
    return Contents(tuple(walk(tree, is_in_function=False)), tuple(variables), tuple(texts))


def imports_of(module: str) -> tuple[Import, ...]:
    return contents_of(module).imports


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    assert node.level == 0, "imports are absolute"
    assert node.module is not None
    for alias in node.names:
        path = ROOT.parent.joinpath(*node.module.split("."), alias.name)
        is_module = path.is_dir() or path.with_suffix(".py").is_file()
        yield f"{node.module}.{alias.name}" if is_module else node.module


def has_reason(lines: list[str], line: int) -> bool:
    """Whether there is a comment directly above an import, or above those that it follows."""
    above = line - 2
    while not lines[above].strip() or lines[above].strip().startswith(("import ", "from ")):
        above -= 1
    return lines[above].strip().startswith("#")


def floor_of(module: str) -> int:
    names = [floor for floor in FLOORS if f"{module}.".startswith(f"{floor}.")]
    assert names, f"'{module}' is on no floor"
    return FLOORS.index(max(names, key=len))


DIALECTS = (
    "arith cf chlo func iree_linalg_ext linalg math mhlo onnx scf shape stablehlo tensor tfl "
    "tm_tensor torch torch_c tosa ttir"
)

OP_NAMES_ELSEWHERE = 4
"""The op names outside of their dialect's place: three of a frontend, and one of MLIR's pass."""


def test_op_names_stand_in_the_place_of_their_dialect() -> None:
    """There, what is known of an op is a field of its model."""
    names = "|".join(DIALECTS.split())
    op_name = re.compile(rf"(?:{names})\.[A-Za-z_][\w.]*")
    elsewhere = [
        f"{module}, line {line}: '{text}'"
        for module in ("__init__", *modules())
        if not f"{module}.".startswith("dialects.")
        for line, text in contents_of(module).texts
        if op_name.fullmatch(text)
    ]
    assert len(elsewhere) <= OP_NAMES_ELSEWHERE, elsewhere


NO_NOUNS = {"each", "found", "held", "made", "of", "said"}
"""Names of variables and parameters that do not tell what these are."""


def test_names_of_variables_are_nouns() -> None:
    names = [
        f"{module}, line {line}: '{name}'"
        for module in modules()
        for line, name in contents_of(module).variables
        if name in NO_NOUNS
    ]
    assert not names


def test_imports_point_downward() -> None:
    assert not imports_of("dialects")
    upward = [
        f"{module}, line {entry.line}: '{name}'"
        for module in modules()
        if module != "dialects"
        for entry in imports_of(module)
        if (name := entry.imported.removeprefix("qdialect.")) != entry.imported
        if (module, name) not in UPWARD and floor_of(name) > floor_of(module)
    ]
    assert not upward


def names_in(module: str) -> Iterator[tuple[int, str]]:
    """The modules that a module names in texts, such as `"check.run_tool"`, or `"...:function"`."""
    for line, text in contents_of(module).texts:
        name = text.partition(":")[0].removeprefix("qdialect.")
        if "." in name and name in modules():
            yield line, name


def test_modules_named_in_texts_are_below() -> None:
    upward = [
        f"{module}, line {line}: '{name}'"
        for module in modules()
        for line, name in names_in(module)
        if floor_of(name) > floor_of(module)
        if (module.partition(".")[0], name.partition(".")[0]) not in BY_NAME
    ]
    assert not upward


def test_floors_of_numbers_know_numpy_only() -> None:
    allowed = {"qdialect", *NUMPY_ONLY, *sys.stdlib_module_names}
    others = [
        f"{module}: '{entry.imported}'"
        for module in modules()
        if f"{module}.".startswith(NUMBERS)
        for entry in imports_of(module)
        if entry.imported.partition(".")[0] not in allowed
    ]
    assert not others


def test_an_import_in_a_function_says_why() -> None:
    """In a comment directly above it, or above the imports that it follows."""
    silent = [
        f"{module}, line {entry.line}: {entry.imported}"
        for module in modules()
        for entry in imports_of(module)
        if entry.is_in_function and not entry.has_reason
    ]
    assert not silent


def test_what_points_upward_is_still_there() -> None:
    """The list has no unneeded entries."""
    imports = {
        (entry.importer, entry.imported.removeprefix("qdialect."))
        for module in modules()
        for entry in imports_of(module)
    }
    assert set(UPWARD) <= imports


def depth(module: str, part: str, known: dict[str, int]) -> int:
    """The number of files in the longest chain of imports from a module, within a part."""
    if module not in known:
        imported = {
            entry.imported.removeprefix("qdialect.")
            for entry in imports_of(module)
            if not entry.is_in_function
        }
        inside = [name for name in imported if f"{name}.".startswith(part) and name in modules()]
        known[module] = 1 + max((depth(name, part, known) for name in inside), default=0)
    return known[module]


def test_every_folder_has_a_budget() -> None:
    assert BUDGETS.keys() == {path.parent.name for path in ROOT.glob("*/__init__.py")}


@pytest.mark.parametrize("folder", BUDGETS)
def test_folders_are_within_their_budgets(folder: str) -> None:
    most, deepest = BUDGETS[folder]
    paths = ROOT.joinpath(folder).rglob("*.py")
    assert sum(path.read_text(encoding="utf-8").count("\n") for path in paths) <= most
    inside = [module for module in modules() if f"{module}.".startswith(f"{folder}.")]
    known: dict[str, int] = {}
    assert max(depth(module, f"{folder}.", known) for module in inside) <= deepest


def test_chains_of_imports_are_short() -> None:
    known: dict[str, int] = {}
    assert max(depth(module, "", known) for module in modules()) <= LONGEST_CHAIN
