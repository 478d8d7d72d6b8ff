"""Errors about ops, for tools that know the places of ops, and the text of any exception."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Self

from xdsl.ir import Operation
from xdsl.utils.diagnostic import Diagnostic
from xdsl.utils.exceptions import DiagnosticException, VerifyException


class OpErrors(DiagnosticException):
    """What a pass finds wrong with several ops: each with its message."""

    def __init__(self, errors: Sequence[tuple[Operation, str]]) -> None:
        super().__init__("\n".join(message for _, message in errors))
        self.errors = tuple(errors)

    @classmethod
    def of(cls, op: Operation, reason: str) -> Self:
        """One error; `reason` continues a sentence that begins with the name of `op`."""
        return cls([(op, f"'{op.name}' op {reason}")])


@contextmanager
def errors_of(op: Operation) -> Generator[None]:
    """Have the message of a VerifyException begin with the name of `op`, as those of MLIR do."""
    try:
        yield
    except VerifyException as error:
        raise VerifyException(f"'{op.name}' op {error}") from None


def describe(error: BaseException) -> str:
    """The type of an exception, and the first line of its message if it has one."""
    name, line = type(error).__name__, first_line(error)
    return name if line == name else f"{name}: {line}"


def first_line(error: BaseException) -> str:
    """The first line of `message_of`: the message may go on for a whole module."""
    return message_of(error).partition("\n")[0]


def message_of(error: BaseException) -> str:
    """
    The text of an exception, or what `Operation.emit_error` was given if it has none.

    Never empty: an exception that says nothing at all is called by the name of its type.
    """
    if text := str(error).strip():
        return text
    lines = [message.strip() for _, message in op_messages(error) if message.strip()]
    # A note of any other origin. xDSL's are a whole module each.
    lines += [note.strip() for note in getattr(error, "__notes__", ()) if note.strip()]
    return lines[0] if lines else type(error).__name__


def op_messages(error: BaseException) -> Sequence[tuple[Operation, str]]:
    """
    The ops that `Operation.emit_error` has been called for, each with its message.

    xDSL keeps neither in the exception that it raises, only in a note, as printed text of
    the module. Where an error was caught and emitted anew, those of the first time count.
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
