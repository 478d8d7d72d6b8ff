"""The text of an exception, wherever xDSL stores it."""

import pytest
from xdsl.dialects import test
from xdsl.utils.diagnostic import Diagnostic
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.errors import describe, first_line, message_of, op_messages


def raised(op: test.TestOp, message: str, error: Exception) -> Exception:
    """The exception that `Operation.emit_error` raises."""
    with pytest.raises(type(error)) as caught:
        op.emit_error(message, error)
    return caught.value


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("one\ntwo"), "one\ntwo"),
        (ValueError("\n one\n"), "one"),
        (ValueError(), "ValueError"),
        (ValueError(" \n"), "ValueError"),
        (VerifyException(), "VerifyException"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_the_text_is_never_empty(error: Exception, message: str):
    assert message_of(error) == message
    assert first_line(error) == message.partition("\n")[0]


def test_a_type_is_not_said_twice():
    assert describe(IndexError()) == "IndexError"
    assert describe(KeyError("a")) == "KeyError: 'a'"


def test_an_empty_exception_has_the_message_that_was_emitted():
    op = test.TestOp()
    error = raised(op, "this is wrong", VerifyException())
    assert message_of(error) == "this is wrong"
    assert op_messages(error) == [(op, "this is wrong")]


def test_the_text_of_an_exception_comes_before_what_was_emitted():
    op = test.TestOp()
    error = raised(op, "while doing that", VerifyException("this is wrong"))
    assert message_of(error) == "this is wrong"
    assert op_messages(error) == [(op, "while doing that")]


def test_what_was_emitted_first_counts():
    inner, outer = test.TestOp(), test.TestOp()
    error = raised(outer, "outside", raised(inner, "inside", VerifyException()))
    assert message_of(error) == "inside"
    assert op_messages(error) == [(inner, "inside")]


def test_messages_of_several_ops():
    first, second = test.TestOp(), test.TestOp()
    diagnostic = Diagnostic()
    for op, message in ((first, "a"), (second, "b"), (first, "c")):
        diagnostic.add_message(op, message)
    with pytest.raises(VerifyException) as caught:
        diagnostic.raise_exception(first, VerifyException())
    assert op_messages(caught.value) == [(first, "a"), (first, "c"), (second, "b")]


def test_a_note_is_better_than_nothing():
    error = VerifyException()
    error.add_note("\nnote\n")
    assert message_of(error) == "note"
