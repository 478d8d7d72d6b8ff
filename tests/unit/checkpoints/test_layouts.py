"""The table of layouts, and the page that has it."""

from __future__ import annotations

from pathlib import Path

import qdialect
from qdialect.checkpoints.layouts import Layout, layouts

PAGE = Path(qdialect.__file__).parent.parent / "docs" / "checkpoints.md"


def described(row: Layout) -> tuple[str, str, str, str]:
    """A row in words: its name, its tensors or fields, its codes, and why it has no type."""
    names = [f"{name}[{nbytes}]" for name, nbytes in row.record] or list(row.dtypes)
    codes = row.storage or f"{'i' if row.is_signed else 'u'}{row.bits}"
    if row.table:
        codes = "table" if isinstance(row.table, str) else "i8 of a table"
    why = row.refused[0] if row.refused is not None else "offset" if row.offset else ""
    return row.name, " ".join(names), codes, why


def test_the_page_has_the_table():
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("| layout | tensors, or fields |")[2].partition("\n\n")[0]
    rows = [row.split(" | ") for row in table.splitlines()[2:]]
    found = [
        (name.strip("|` "), names.strip("`"), codes, why.strip("| "))
        for name, names, codes, why in rows
    ]
    assert found == [described(row) for row in layouts().values()]
