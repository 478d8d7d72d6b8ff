"""The progress of a long run on standard error: a bar on a terminal, else periodic lines."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Self

from qdialect.opt.outputs import is_closed

_SECONDS: Final = 5.0
"""The least interval between two lines."""


class Progress:
    """Counts finished records, and prints their rate and the remaining time."""

    def __init__(self, tool: str, total: int, done: int = 0) -> None:
        """`done` of `total` records are finished already."""
        self._tool = tool
        self._total = total
        self._done = self._done_before = done
        self._started = self._told = time.monotonic()
        self._bar: Any = _bar(total, done)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """Count one more record."""
        self._done += 1
        now = time.monotonic()
        # Two readings of a coarse clock may be equal.
        rate = (self._done - self._done_before) / max(now - self._started, 1e-9)
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=self._done, rate=f"{rate:.3g} a second")
        elif now - self._told >= _SECONDS and not is_closed(sys.stderr):
            self._told = now
            left = (self._total - self._done) / rate
            sys.stderr.write(
                f"{self._tool}: {self._done} of {self._total} records, {rate:.3g} a second, "
                f"{left:.0f} s left\n"
            )


def _bar(total: int, done: int) -> Any:
    """
    A progress bar of `rich`; None if it is not installed, or standard error is not a terminal.
    """
    if is_closed(sys.stderr) or not sys.stderr.isatty():
        return None
    try:
        progress: Any = import_module("rich.progress")
        console: Any = import_module("rich.console")
    except ModuleNotFoundError:
        return None
    bar = progress.Progress(
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeRemainingColumn(),
        console=console.Console(stderr=True),
        transient=True,
    )
    bar.add_task("", total=total, completed=done, rate="")
    return bar
