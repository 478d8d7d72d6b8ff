"""Repetition without backtracking, on every version of Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import qdialect
from qdialect.support.text import repeated

pytestmark = pytest.mark.without_xdsl

ITEM = r",\s*+[0-9]++;"


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("", ""),
        (",1;", ",1;"),
        (",1;,  23;rest", ",1;,  23;"),
        # The second item fails after some of it was matched.
        (",1;,23", ",1;"),
        (",1;, x", ",1;"),
        (",1", ""),
        (",1;" * 2500 + ",2", ",1;" * 2500),
    ],
)
def test_items_are_matched_as_a_whole(text: str, matched: str) -> None:
    match = re.match(repeated(ITEM), text)
    assert match is not None
    assert match[0] == matched


def test_nothing_is_given_back() -> None:
    assert re.match(repeated("a|b") + "b", "aab") is None
    assert re.match(repeated("a|b") + "c", "aabc") is not None


def has_possessive_group(pattern: str) -> bool:
    """Whether a regular expression has a possessive quantifier after a group."""
    plain = re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", "x", pattern, flags=re.DOTALL)
    return re.search(r"\)(?:[*+?]|\{[0-9]*,?[0-9]*\})\+", plain) is not None


@pytest.mark.parametrize(
    ("pattern", "has_one"),
    [
        ("(?:a++,?+)*+", True),
        ("(a)?+", True),
        ("(?:a|b){2,3}+", True),
        (r"a++\)*+[()]?+", False),
        ("(?:a++)*", False),
        ("(?>a*)", False),
    ],
)
def test_possessive_groups_are_found(pattern: str, *, has_one: bool) -> None:
    assert has_possessive_group(pattern) is has_one


def test_no_pattern_has_a_possessive_group() -> None:
    """Before Python 3.11.5, what a group matched before it failed is not given back."""
    root = Path(qdialect.__file__).parent
    found: list[str] = []
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if has_possessive_group(_text_of(node)):
                found.append(f"{path.relative_to(root)}:{getattr(node, 'lineno', 0)}")
    assert not found


def _text_of(node: ast.AST) -> str:
    """The text of a literal, with groups in the place of what is put into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text_of, node.values))
    if isinstance(node, ast.FormattedValue):
        return "()"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
