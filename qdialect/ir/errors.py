"""Errors that refer to ops, for tools that report locations, and the text of any exception."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Self

from xdsl.ir import Operation
from xdsl.utils.diagnostic import Diagnostic
from xdsl.utils.exceptions import DiagnosticException, VerifyException


class OpErrors(DiagnosticException):
    """The errors that a pass reports about several ops, each with its message."""

    def __init__(self, errors: Sequence[tuple[Operation, str]]) -> None:
        super().__init__("\n".join(message for _, message in errors))
        self.errors = tuple(errors)

    @classmethod
    def of(cls, op: Operation, reason: str) -> Self:
        """One error about `op`, whose message is the name of `op`, followed by `reason`."""
        return cls([(op, f"'{op.name}' op {reason}")])


@contextmanager
def errors_of(op: Operation) -> Generator[None]:
    """Prefix the message of a VerifyException with the name of `op`, as MLIR does."""
    try:
        yield
    except VerifyException as error:
        raise VerifyException(f"'{op.name}' op {error}") from None


def describe(error: BaseException) -> str:
    """The type of an exception, and the first line of its message if it has one."""
    name, line = type(error).__name__, first_line(error)
    return name if line == name else f"{name}: {line}"


def first_line(error: BaseException) -> str:
    """The first line of `message_of`: a message may contain a printed module."""
    return message_of(error).partition("\n")[0]


def message_of(error: BaseException) -> str:
    """
    The text of an exception; if empty, the message that `Operation.emit_error` was given.

    Never empty: without any message, the result is the name of the exception's type.
    """
    if text := str(error).strip():
        return text
    lines = [message.strip() for _, message in op_messages(error) if message.strip()]
    # A note that is not xDSL's: those are a whole module each.
    lines += [note.strip() for note in getattr(error, "__notes__", ()) if note.strip()]
    return lines[0] if lines else type(error).__name__


def op_messages(error: BaseException) -> Sequence[tuple[Operation, str]]:
    """
    The ops that `Operation.emit_error` has been called for, each with its message.

    xDSL stores neither in the exception that it raises, only in a note, as printed text of the
    module. If an error was caught and emitted again, the first op and message count.
    """
    found: Diagnostic | None = None
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code is Diagnostic.raise_exception.__code__:
            emitted = step.tb_frame.f_locals.get("self")
            found = emitted if isinstance(emitted, Diagnostic) else found
        step = step.tb_next
    messages = {} if found is None else found.op_messages
    return [(op, message) for op, of_op in messages.items() for message in of_op]
