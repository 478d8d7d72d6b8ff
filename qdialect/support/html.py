"""Tables in HTML, and pages that open without other files."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from qdialect.support.terminal import Table

_STYLE = """
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif; }
body { margin: 2em auto; max-width: 96em; padding: 0 1em; }
div { overflow-x: auto; }
table { border-collapse: collapse; margin: 1.5em 0; }
caption { font-weight: bold; padding: 0.3em 0; text-align: left; }
th, td { border-bottom: 1px solid #8884; padding: 0.15em 0.8em 0.15em 0; text-align: left; }
.number { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
td { max-width: 32em; overflow-wrap: anywhere; vertical-align: top; }
meter { width: 8em; }
"""


def html_of(table: Table, *, meters: Iterable[int] = (), most: float = 1.0) -> str:
    """A table. The cells of the columns `meters` have a bar, up to `most`, if they are numbers."""
    drawn = {*meters}

    def cell(column: int, text: str) -> str:
        attribute = ' class="number"' if column >= table.texts else ""
        is_drawn = column in drawn and _is_number(text)
        bar = f'<meter max="{most:g}" value="{text}"></meter> ' if is_drawn else ""
        return f"<td{attribute}>{bar}{escape(text)}</td>"

    head = "".join(f"<th>{escape(name)}</th>" for name in table.names)
    rows = "".join(
        f"<tr>{''.join(cell(*item) for item in enumerate(row))}</tr>\n" for row in table.rows
    )
    caption = f"<caption>{escape(table.title)}</caption>"
    return f"<div><table>{caption}<tr>{head}</tr>\n{rows}</table></div>\n"


def page(title: str, parts: Iterable[str]) -> str:
    """A page with its style, of parts in HTML."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    view = '<meta name="viewport" content="width=device-width">'
    body = "".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{view}{head}</head>\n'
        f"<body><h1>{escape(title)}</h1>\n{body}</body></html>\n"
    )


def _is_number(text: str) -> bool:
    try:
        return 0 <= float(text) < math.inf
    except ValueError:
        return False
