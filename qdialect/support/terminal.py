"""What long runs show: tables and progress, drawn by `rich` if it is installed, on a terminal."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TextIO

_SECONDS: Final = 5.0
"""The least interval between two lines of progress."""


MAX_ROWS: Final = 50
"""The most rows of a table in a notebook."""


class Table(NamedTuple):
    """A table, whose numbers are right-aligned."""

    title: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int
    """The number of leading columns that are left-aligned."""

    def _repr_html_(self) -> str:
        return _in_notebook(self)


def _in_notebook(table: Table) -> str:
    # Only notebooks need it.
    from qdialect.support.html import html_of

    title, names, rows, texts = table
    return html_of(first_rows(title, names, rows, texts, len(rows))) if rows else ""


def first_rows(
    title: str, names: tuple[str, ...], rows: Iterable[tuple[str, ...]], texts: int, total: int
) -> Table:
    """A table of the first of `total` rows; where these are too many, the title says so."""
    shown = tuple(islice(rows, MAX_ROWS))
    if len(shown) < total:
        title += f" (the first {len(shown)} of {total} rows)"
    return Table(title, names, shown, texts)


class Displayed(ABC):
    """What notebooks show as tables."""

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """What is shown; a table without rows is not."""

    def _repr_html_(self) -> str:
        return "".join(map(_in_notebook, self.tables()))


def write_tables(stream: TextIO, tables: Iterable[Table]) -> None:
    """Write the tables that have rows."""
    console = _console(stream)
    for table in tables:
        if not table.rows:
            continue
        if console is None:
            stream.write(table_text(table))
        else:
            console.print(_rich(table))


def table_text(table: Table) -> str:
    """A table in lines."""
    columns = [*zip(table.names, *table.rows, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    lines = [f"{table.title}:"]
    for cells in (table.names, *table.rows):
        aligned = (
            cell.ljust(width) if number < table.texts else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(f"  {line}" if at else line for at, line in enumerate(lines)) + "\n\n"


def _rich(table: Table) -> Any:
    tables: Any = import_module("rich.table")
    texts: Any = import_module("rich.text")
    drawn = tables.Table(title=table.title, title_justify="left")
    for number, name in enumerate(table.names):
        drawn.add_column(name, justify="left" if number < table.texts else "right", overflow="fold")
    for cells in table.rows:
        # Names must not be read as markup.
        drawn.add_row(*(texts.Text(cell) for cell in cells))
    return drawn


@contextmanager
def working(what: str) -> Generator[None]:
    """
    A line on standard error that says what is being done, and for how long.

    It is there on a terminal, until it is done; elsewhere, only at the end of what takes longer.
    """
    stream: TextIO | None = sys.stderr
    start = time.monotonic()
    console = _console(stream)
    if console is not None:
        progress: Any = import_module("rich.progress")
        columns = progress.TextColumn("{task.description}"), progress.TimeElapsedColumn()
        with progress.Progress(*columns, console=console, transient=True) as line:
            line.add_task(what, total=None)
            yield
        return
    if stream is not None and stream.isatty():
        stream.write(f"{what}\n")
    yield
    if stream is not None and (seconds := time.monotonic() - start) >= _SECONDS:
        stream.write(f"{what} took {seconds:.0f} s\n")


class Progress:
    """Counts finished records, and shows their rate and the remaining time on standard error."""

    def __init__(self, tool: str, total: int, done: int = 0) -> None:
        """`done` of `total` records are finished already."""
        # None for a process that was started without it.
        self._stream: TextIO | None = sys.stderr
        self._tool = tool
        self._total = total
        self._done = self._done_before = done
        self._started = self._last_line = time.monotonic()
        console = _console(self._stream)
        self._bar: Any = None if console is None else _bar(console, total, done)

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
        elif now - self._last_line >= _SECONDS and self._stream is not None:
            self._last_line = now
            left = (self._total - self._done) / rate
            self._stream.write(
                f"{self._tool}: {self._done} of {self._total} records, {rate:.3g} a second, "
                f"{left:.0f} s left\n"
            )


def _bar(console: Any, total: int, done: int) -> Any:
    progress: Any = import_module("rich.progress")
    bar = progress.Progress(
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    bar.add_task("", total=total, completed=done, rate="")
    return bar


def _console(stream: TextIO | None) -> Any:
    """A console of `rich` if it is installed and the stream is a terminal; else None."""
    if stream is None or not stream.isatty():
        return None
    try:
        console: Any = import_module("rich.console")
    except ModuleNotFoundError:
        return None
    return console.Console(file=stream)
