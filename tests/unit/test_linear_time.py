"""
Every regular expression takes linear time.

There is no time limit: with quadratic time, 400,000 characters take minutes.
"""

from __future__ import annotations

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input

from qdialect.dialects.quant.slots import read_slot_list
from qdialect.opt.expected_diagnostics import DiagnosticVerifier
from qdialect.opt.opt import main
from qdialect.opt.registry import ToolContext

LENGTH = 400_000


def test_a_storage_type_of_many_zeros() -> None:
    with pytest.raises(ParseError):
        Parser(ToolContext(), f"!quant.uniform<i{'0' * LENGTH}x:f32, 0.5>").parse_type()


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        (f"{{0.5,{' ' * LENGTH}0.25:3}}", True),
        (f"{{0.5}}:{'1' * LENGTH}", False),
        (f"{{0.5:{'1' * LENGTH}x", False),
        (f"{{0.5{'5' * LENGTH}x", False),
        (f"{{{'0.5, ' * (LENGTH // 5)}x", False),
    ],
)
def test_a_list_of_slots(text: str, *, is_read: bool) -> None:
    assert (read_slot_list(text) is not None) is is_read


def test_annotations_of_expected_diagnostics() -> None:

    for text in (f"expected-error{' ' * LENGTH}", f"expected-error @+{'1' * LENGTH}"):
        verifier = DiagnosticVerifier(Input(text, "text"), 1, printer=None)  # pyright: ignore[reportArgumentType]
        assert verifier.finish()


@pytest.mark.parametrize(
    "pipeline",
    [
        '-p=a{b="' + '\\"' * (LENGTH // 2),
        "-p=a{b=" + " " * LENGTH + "x}",
        "--pass-pipeline=builtin.module(" + " " * LENGTH + "x",
    ],
)
def test_pipelines(pipeline: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([pipeline, "/dev/null"]) == 1
    assert "Traceback" not in capsys.readouterr().err
