"""Repetition in regular expressions without backtracking."""

from __future__ import annotations


def repeated(pattern: str) -> str:
    """
    A regular expression for `pattern` as often as it follows, which gives nothing back.

    It stands for a possessive quantifier of a group, which Python before 3.11.5 matches wrongly:
    where the group fails midway, the rest is matched from there. An atomic group remembers each
    repetition until it ends; in steps of a thousand, that takes no memory worth mentioning.
    """
    return rf"(?>(?>(?:{pattern}){{1,1000}})*)"
