"""Every test that docs/field.md names exists."""

import re
from pathlib import Path

import test_traps
from test_field import DIALECTS, ROWS

PAGE = Path(__file__).parents[3] / "docs" / "field.md"

ROW_OF_TABLE = re.compile(r"^\|.*\|([^|\n]*)\|$", re.MULTILINE)

NO_TESTS = {*DIALECTS, "stablehlo.uniform_dequantize", "granularity", "stale-type"}
"""What else is written as code next to the names of tests."""


def trap_names() -> set[str]:
    """The names of the traps, also of those with a function of their own."""
    functions = (re.fullmatch(r"test_(\d+)_(\w+)", name) for name in dir(test_traps))
    own = {f"{match[1]}: {match[2].replace('_', ' ')}" for match in functions if match}
    return own | {trap.name for trap in (*test_traps.FOLDED, *test_traps.REFUSED)}


def named(text: str) -> set[str]:
    """The code spans of a text."""
    return set(re.findall(r"`([^`]+)`", text))


def test_tables_name_tests() -> None:
    _, *sections = PAGE.read_text(encoding="utf-8").split("\n## ")
    assert len(sections) == 4
    known = ROWS.keys() | trap_names()
    cells = [cell for section in sections for cell in ROW_OF_TABLE.findall(section)]
    names = {name for cell in cells for name in named(cell)} - NO_TESTS
    assert len(names) > 50
    assert names - known == {"blockwise"}


def test_text_names_tests() -> None:
    """Where it says that something is refused, or limited."""
    *_, last = PAGE.read_text(encoding="utf-8").split("\n## ")
    known = ROWS.keys() | trap_names()
    found = {name for name in named(last) if " " in name}
    assert found <= known
    assert len(found) == 7
