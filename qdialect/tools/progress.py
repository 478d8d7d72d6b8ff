"""How far a long run is, on standard error: a bar on a terminal, or a line now and then."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Self

from qdialect.tools.outputs import is_closed

_SECONDS: Final = 5.0
"""How long it takes to the next line, at least."""


class Progress:
    """Counts what is done, and tells its rate and the time that is left."""

    def __init__(self, tool: str, total: int, done: int = 0) -> None:
        """`done` of `total` are done already."""
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
        """One more is done."""
        self._done += 1
        now = time.monotonic()
        # A clock may stand still for a short while.
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
    """A bar of `rich`, where it is installed and standard error is a terminal; None elsewhere."""
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
