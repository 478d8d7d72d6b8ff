"""Repetition in regular expressions without backtracking."""

from __future__ import annotations


def repeated(pattern: str) -> str:
    """
    A regular expression for zero or more of `pattern`, without backtracking.

    It replaces a possessive quantifier of a group, which is wrong in Python before 3.11.5: if the
    group fails midway, the rest is matched from there. An atomic group stores each repetition until
    it ends, so it is matched in steps of a thousand, which bounds its memory.
    """
    return rf"(?>(?>(?:{pattern}){{1,1000}})*)"
