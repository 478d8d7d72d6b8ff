"""
The parser takes its fast paths.

Without them the results are the same, only slower, so no other test would notice.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.parser import Parser

from qdialect.dialects.quant import types
from qdialect.opt.registry import ToolContext
from qdialect.support.memory import clear_caches
from qdialect.text.parser import LocatingParser

COUNT = 100
TYPE = "tensor<2x2x!quant.uniform<i8:f32:0, {0.5,0.25:3}>>"


def constants(index: int) -> str:
    """A constant with elements of its own."""
    return f"%w{index} = quant.constant dense<[[{index}, 2], [3, 4]]> : {TYPE}"


def reverses(index: int) -> str:
    """A shape op on the value before it."""
    return f"%w{index + 1} = quant.reverse %w{index} dims = [0] : {TYPE} to {TYPE}"


def additions(index: int) -> str:
    """An op of another dialect, with operands of two types."""
    return f"%w{index + 1} = arith.addf %w{index}, %w{index} : tensor<4xf32>"


def generic(index: int) -> str:
    """An op in generic form."""
    return f'%w{index + 1} = "tosa.identity"(%w{index}) : (tensor<4xf32>) -> tensor<4xf32>'


def read(lines: list[str]) -> None:
    """Read a module of these ops."""
    LocatingParser(ToolContext(), "\n".join(lines), "test").parse_module()


def calls(patch: pytest.MonkeyPatch, owner: object, name: str) -> list[None]:
    """A list that gets an entry for each call of a function."""
    made: list[None] = []
    function = getattr(owner, name)

    def counted(*arguments: object, **keywords: object) -> object:
        made.append(None)
        return function(*arguments, **keywords)

    patch.setattr(owner, name, counted)
    return made


@pytest.mark.parametrize(
    ("first", "line"),
    [
        ("", constants),
        (constants(0), reverses),
        ('%w0 = "test.op"() : () -> tensor<4xf32>', additions),
        ('%w0 = "test.op"() : () -> tensor<4xf32>', generic),
    ],
    ids=["constants", "shape ops", "custom syntax", "generic form"],
)
def test_lines_of_one_form_are_parsed_a_few_times(
    monkeypatch: pytest.MonkeyPatch, first: str, line: Callable[[int], str]
):
    parsed = calls(monkeypatch, Parser, "parse_operation")
    read([first, *map(line, range(COUNT))])
    # A line is remembered when its form is met again.
    assert len(parsed) < COUNT // 20


def test_the_text_of_a_type_is_parsed_once(monkeypatch: pytest.MonkeyPatch):
    clear_caches()
    parsed = calls(monkeypatch, types, "parse_storage")
    # Of lines that differ in more than names and elements, no form is known.
    read([f"%w{i} = quant.constant {{a{i}}} dense<{i}> : {TYPE}" for i in range(COUNT)])
    assert len(parsed) == 1


def test_plain_lists_of_scales_and_elements_are_read_at_once(monkeypatch: pytest.MonkeyPatch):
    clear_caches()
    scales = ", ".join(f"{i + 1}.5:{i}" for i in range(COUNT))
    elements = ", ".join(map(str, range(COUNT)))
    numbers = calls(monkeypatch, Parser, "parse_optional_number")
    integers = calls(monkeypatch, Parser, "parse_optional_integer")
    type = f"tensor<{COUNT}x!quant.uniform<i8:f32:0, {{{scales}}}>>"
    read([f"%w = quant.constant dense<[{elements}]> : {type}"])
    # What is left are the axis and the shape.
    assert len(numbers) + len(integers) < COUNT // 20
