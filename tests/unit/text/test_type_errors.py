"""Errors in quant types have MLIR's messages and locations."""

from __future__ import annotations

import re
import shutil

import pytest
from quant_type_texts import (
    TYPES_OF_LLVM24,
    PlacedError,
    first_errors,
    function_of,
    types_with_mistakes,
)
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError

from qdialect.dialects.quant import Quant
from qdialect.opt.diagnostics import place_in_file, text_of_place
from qdialect.opt.registry import ToolContext
from qdialect.text.parser import LocatingParser

NO_SIZE = re.compile(r"illegal storage type size: \d{4,}")
"""The message for a storage type that is not an integer: upstream reads its width from anywhere."""


def error_of(type: str) -> PlacedError | None:
    try:
        LocatingParser(ToolContext(), function_of(type)).parse_module()
    except ParseError as error:
        _, line, column = text_of_place(place_in_file(error.span, 1)).rsplit(":", 2)
        # Of a message of several lines, the harness reads the first.
        return PlacedError(int(line), int(column), error.msg.partition("\n")[0])
    return None


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not on PATH")
@pytest.mark.parametrize("seed", range(3))
def test_mistakes_in_types_are_told_as_in_mlir(seed: int) -> None:
    types = types_with_mistakes(seed, 1000)
    different = [
        (type, wanted, got)
        for type, wanted in zip(types, first_errors(types), strict=True)
        if (got := error_of(type)) != wanted and not says_no_size(wanted, got)
    ]
    assert different == []


@pytest.mark.skipif(shutil.which("iree-opt") is None, reason="iree-opt is not on PATH")
@pytest.mark.parametrize("seed", range(3))
def test_mistakes_in_types_are_told_as_in_llvm24(seed: int) -> None:
    # What is no name after a sign of types is told at another place.
    types = [
        type
        for type in types_with_mistakes(seed, 1000, TYPES_OF_LLVM24)
        if not re.search("!(?!quant)", type)
    ]
    different = [
        (type, wanted, got)
        for type, wanted in zip(types, first_errors(types, "iree-opt"), strict=True)
        if (got := error_of(type)) != wanted and not says_more(wanted, got)
    ]
    assert different == []


def says_more(wanted: PlacedError | None, got: PlacedError | None) -> bool:
    """Whether ours adds what MLIR 22 says of every table."""
    return (
        wanted is not None
        and got is not None
        and got[:2] == wanted[:2]
        and got.message == f"unknown quantized type quantile: {wanted.message}"
    )


def says_no_size(wanted: PlacedError | None, got: PlacedError | None) -> bool:
    return (
        wanted is not None
        and got is not None
        and NO_SIZE.fullmatch(wanted.message) is not None
        and got[:2] == wanted[:2]
        and got.message in ("illegal storage type prefix", "storage type must be integral")
    )


def test_a_misspelled_type_is_noted() -> None:
    with pytest.raises(MultipleSpansParseError) as raised:
        LocatingParser(ToolContext(), "!quant.unifrom<i8:f32, 0.5>").parse_type()
    assert raised.value.msg == "unknown quantized type unifrom"
    assert [note for _, note in raised.value.refs] == ["did you mean 'uniform'?"]


@pytest.mark.parametrize(
    ("type", "message"),
    [("!quant.uniform<i8:f32 0.5>", "expected ','"), ("!quant.any<i8", "expected '>'")],
)
def test_xdsl_parser_says_the_same(type: str, message: str) -> None:
    context = Context()
    context.load_dialect(Quant)
    with pytest.raises(ParseError) as raised:
        Parser(context, type).parse_type()
    assert raised.value.msg == message
