"""Errors about ops, for tools that know where in a text these are."""

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
