"""Errors that refer to ops, the text of any exception, and the verifiers of ops."""

from __future__ import annotations

from abc import ABC
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Self

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Attribute, Operation, OpTraits
from xdsl.irdl import IRDLOperation, OpDef
from xdsl.traits import SymbolUserOpInterface
from xdsl.utils.diagnostic import Diagnostic
from xdsl.utils.exceptions import DiagnosticException, PassFailedException, VerifyException

from qdialect.ir.names import symbol_table_of
from qdialect.support.memory import registered_cache


def op_name(op: Operation) -> str:
    """The name of an op in the text, also of an unregistered op."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


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


@contextmanager
def pass_failures() -> Generator[None]:
    """Raise an OSError of opening a file, or a ValueError, as a PassFailedException."""
    try:
        yield
    except OSError as error:
        raise PassFailedException(f"cannot open '{error.filename}': {error.strerror}") from None
    except ValueError as error:
        raise PassFailedException(str(error)) from None


def describe(error: BaseException) -> str:
    """The type of an exception, and the first line of its message if it has one."""
    name, line = type(error).__name__, first_line(error)
    return name if line == name else f"{name}: {line}"


def place_of(error: BaseException) -> str:
    """The file and the line that raised an exception, in parentheses; empty if there is none."""
    place, trace = "", error.__traceback__
    while trace is not None:
        # Imports stand in frozen modules.
        if not (path := trace.tb_frame.f_code.co_filename).startswith("<"):
            place = f" ({Path(path).name}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


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
    diagnostic: Diagnostic | None = None
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code is Diagnostic.raise_exception.__code__:
            emitted = step.tb_frame.f_locals.get("self")
            diagnostic = emitted if isinstance(emitted, Diagnostic) else diagnostic
        step = step.tb_next
    messages = {} if diagnostic is None else diagnostic.op_messages
    return [(op, message) for op, of_op in messages.items() for message in of_op]


VerifiedPart = Attribute | tuple[object, ...]
"""A part of an op that a verifier reads. Attributes compare by identity, tuples by their values."""


class VerifiedByAttributes(IRDLOperation, ABC):
    """
    A base class of ops whose verifier reads nothing but attributes.

    `qdialect.opt.verifier` uses them as a cache key, as most ops of a large module have equal
    keys.
    """

    def verified_attributes(self) -> Sequence[VerifiedPart] | None:
        """
        Everything that the verifier reads, besides the class and the number of operands.

        None if the verifier of this op reads more than attributes.
        """
        return (*self.operand_types, *self.result_types, *self.properties.values())


def verify_alone(op: Operation) -> None:
    """
    Call the verifiers of an op, but not those of the ops in its regions.

    Raises VerifyException, without the printed module that `Operation.verify` adds to it.
    """
    try:
        op.verify_()
    except VerifyException:
        if not _misses_a_symbol(op):
            raise
    # xDSL's `verify` walks the regions. An override of it has checks of its own.
    match _takes_verify_nested_ops(type(op)):
        case None:
            pass
        case True:
            op.verify(verify_nested_ops=False)
        case False:
            op.verify()


def verify_call(op: Operation, callee: Operation | None) -> None:
    """
    Like `verify_alone`, for a `func.call` whose symbol is defined by `callee`.

    xDSL looks through all functions for each call. Raises VerifyException.
    """
    # Deferred: a module without calls does not need it.
    from xdsl.dialects.func import CallOp, FuncOp

    if (
        type(op) is CallOp
        and isinstance(callee, FuncOp)
        and callee.function_type.inputs.data == tuple(op.operand_types)
        and callee.function_type.outputs.data == tuple(op.result_types)
    ):
        _without_symbols(CallOp).verify(op)
    else:
        verify_alone(op)


@registered_cache
@cache
def _without_symbols(cls: type[IRDLOperation]) -> OpDef:
    """The definition of a class of ops, without the verification of the symbols that they use."""
    definition = cls.get_irdl_definition()
    traits = tuple(trait for trait in cls.traits if not isinstance(trait, SymbolUserOpInterface))
    return replace(definition, traits=OpTraits(lambda: traits))


def _misses_a_symbol(op: Operation) -> bool:
    """
    Whether an op is invalid only because xDSL searches its symbol in an unregistered op.

    xDSL treats each unregistered op, such as a loop around a call, as a symbol table.
    """
    trait = op.get_trait(SymbolUserOpInterface)
    if trait is None or not isinstance(symbol_table_of(op), UnregisteredOp):
        return False
    try:
        trait.verify(op)
    except VerifyException:
        return True
    return False


@registered_cache
@cache
def _takes_verify_nested_ops(cls: type[Operation]) -> bool | None:
    """Whether the class' own `verify` has the parameter; None if the class does not override it."""
    if cls.verify is Operation.verify:
        return None
    parameters = signature(cls.verify).parameters.values()
    return any(
        parameter.name == "verify_nested_ops" or parameter.kind is parameter.VAR_KEYWORD
        for parameter in parameters
    )
