"""Errors about ops, for tools that know where these are, and what to say of errors of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException


class OpErrors(DiagnosticException):
    """What a pass finds wrong with several ops: each with its message."""

    def __init__(self, errors: Sequence[tuple[Operation, str]]) -> None:
        super().__init__("\n".join(message for _, message in errors))
        self.errors = tuple(errors)

    @classmethod
    def of(cls, op: Operation, reason: str) -> Self:
        """One error; `reason` continues a sentence that begins with the name of `op`."""
        return cls([(op, f"'{op.name}' op {reason}")])


def describe(error: Exception) -> str:
    """The type of an exception and the first line of its message."""
    return f"{type(error).__name__}: {first_line(error)}".rstrip(": ")


def first_line(error: Exception) -> str:
    """The first line of the message of an exception, which may go on for a whole module."""
    return str(error).strip().partition("\n")[0]
