"""The lines, or the bar, of a long run."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from qdialect.support.terminal import Progress

RUN = """
from qdialect.support.terminal import Progress
with Progress("tool", 40, 10) as progress:
    for _ in range(30):
        progress.advance()
"""


class Clock:
    """Two seconds pass from one look to the next."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 2
        return self.now


def test_lines_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdialect.support.terminal.time.monotonic", Clock())
    with Progress("tool", 10, 2) as progress:
        for _ in range(7):
            progress.advance()
    assert capsys.readouterr().err == (
        "tool: 5 of 10 records, 0.5 a second, 10 s left\n"
        "tool: 8 of 10 records, 0.5 a second, 4 s left\n"
    )


def test_a_quick_run_says_nothing() -> None:
    run = subprocess.run([sys.executable, "-c", RUN], capture_output=True, check=True)
    assert run.stderr == b""


@pytest.mark.skipif(find_spec("rich") is None, reason="rich is not installed")
def test_a_bar_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", RUN],
        stderr=theirs,
        stdout=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    ) as run:
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 1 << 16):
                text += part
        except OSError:
            # That the other end is closed.
            pass
        os.close(ours)
    assert run.returncode == 0
    assert re.search(rb"40/40.* a second", text)
