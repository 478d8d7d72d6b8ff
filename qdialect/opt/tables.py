"""Tables, as lines of text or drawn by `rich`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, NamedTuple, TextIO


class Table(NamedTuple):
    """A table, whose numbers are right-aligned."""

    title: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int
    """The number of leading columns that are left-aligned."""


def write_tables(stream: TextIO, tables: Iterable[Table]) -> None:
    """
    Write the tables that have rows, by `rich` if it is installed and the stream is a terminal.
    """
    console = _console(stream)
    for table in tables:
        if not table.rows:
            continue
        if console is None:
            stream.write(_plain(table))
        else:
            console.print(_rich(table))


def _plain(table: Table) -> str:
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


def _console(stream: TextIO) -> Any:
    """A console of `rich` if it is installed and the stream is a terminal; else None."""
    if not stream.isatty():
        return None
    try:
        console: Any = import_module("rich.console")
    except ModuleNotFoundError:
        return None
    return console.Console(file=stream)


def _rich(table: Table) -> Any:
    tables: Any = import_module("rich.table")
    texts: Any = import_module("rich.text")
    made = tables.Table(title=table.title, title_justify="left")
    for number, name in enumerate(table.names):
        made.add_column(name, justify="left" if number < table.texts else "right", overflow="fold")
    for cells in table.rows:
        # Names must not be read as markup.
        made.add_row(*(texts.Text(cell) for cell in cells))
    return made
