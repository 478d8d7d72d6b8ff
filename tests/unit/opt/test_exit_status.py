"""The exit status of a tool that is called by another program."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from qdialect.opt.tool_error import run_tool


def ends_with(status: int | None, arguments: Sequence[str]) -> bool:
    raise SystemExit(status)


def test_a_signal_handler_of_the_caller_may_end_the_process() -> None:
    with pytest.raises(SystemExit) as end:
        run_tool("tool", lambda arguments: ends_with(143, arguments), [])
    assert end.value.code == 143


@pytest.mark.parametrize("status", [0, None])
def test_help_is_a_success(status: int | None) -> None:
    assert run_tool("tool", lambda arguments: ends_with(status, arguments), []) == 0
