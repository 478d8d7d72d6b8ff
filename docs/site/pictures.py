"""
Pictures of slots that shape ops move, of noise, and of the folders that import each other, as SVG.

The slot numbers are moved by `qdialect.algebra`, the bars are what a command draws, and the arrows
are the imports in the source text.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from qdialect import (
    BroadcastInDim,
    Concat,
    Movement,
    Pad,
    QuantizationParameters,
    Reshape,
    Reverse,
    Slice,
    StorageFormat,
    Take,
    Transpose,
)
from qdialect.support.float_format import FLOAT_FORMATS

PACKAGE = Path(__file__).parents[2] / "qdialect"

STYLE = """
text { font: 12px sans-serif; fill: #1a1a1a }
.cell { fill: hsl(var(--hue) 65% 84%); stroke: #fff; stroke-width: 1 }
.run, .arrow { fill: none; stroke: #333; stroke-width: 2 }
.box { fill: #e8eaf6; stroke: #333 }
.paper, .tip { fill: #fff } .tip { fill: #333 }
@media (prefers-color-scheme: dark) {
  text { fill: #eee }
  .cell { fill: hsl(var(--hue) 45% 30%); stroke: #1e2129 }
  .run, .arrow, .box { stroke: #bbb }
  .box { fill: #2f3550 }
  .paper { fill: #1e2129 } .tip { fill: #bbb }
}
"""

INVERTED = """
@media (prefers-color-scheme: dark) { svg { filter: invert(0.9) hue-rotate(180deg) } }
"""

Rows = Sequence[tuple[Movement, Sequence[QuantizationParameters]]]

CELL, LINE, GAP = 24, 16, 44


def _blocks(shape: Sequence[int], counts: Sequence[int], first: int = 1) -> QuantizationParameters:
    """Equal blocks, as many on each axis as `counts` says; their scales number the slots."""
    scales = np.arange(first, first + prod(counts), dtype=np.float64).reshape(counts)
    zero_points = np.zeros(counts, np.int64)
    return QuantizationParameters.from_blocks(
        shape, scales, zero_points, FLOAT_FORMATS["f32"], StorageFormat(8, signed=True)
    )


def examples() -> Mapping[str, Rows]:
    """For each op, movements of a per-axis and of a blockwise tensor."""
    rows, blocks = _blocks((4, 6), (4, 1)), _blocks((4, 6), (2, 2))
    flat = _blocks((1, 6), (1, 6)), _blocks((1, 6), (1, 2))
    more = _blocks((2, 6), (2, 1), 5), _blocks((2, 6), (1, 3), 5)
    unary = {
        "reshape": Reshape((2, 2, 6)),
        "transpose": Transpose((1, 0)),
        "slice": Slice((1, 1), (3, 4), (1, 1)),
        "reverse": Reverse((0, 1)),
        "pad": Pad((1, 0), (0, 2)),
        "gather": Take(0, (3, 0, 0)),
    }
    return {
        **{name: [(move, [rows]), (move, [blocks])] for name, move in unary.items()},
        "concat": [(Concat(0), [rows, more[0]]), (Concat(0), [blocks, more[1]])],
        "broadcast": [(BroadcastInDim((0, 1), (4, 6)), [part]) for part in flat],
    }


def slots(name: str, rows: Rows) -> str:
    """The picture of an op: operands on the left, results on the right."""
    parts, top, right = list[str](), 8, 0
    for movement, operands in rows:
        below, left = top, 0
        for operand in operands:
            lines, width, below = _tensor(operand, 8, below)
            parts += lines
            left = max(left, width)
        lines, width, end = _tensor(movement(*operands), left + GAP, top)
        middle = top + 2 * LINE + CELL // 2
        parts += [*lines, _arrow(left + 8, middle, left + GAP - 10, middle)]
        top, right = max(below, end) + LINE, max(right, width)
    return _svg(f"How {name} moves slots", right + 8, top, parts)


def _tensor(parameters: QuantizationParameters, x: int, y: int) -> tuple[list[str], int, int]:
    """A tensor at a place, its right end, and its lower end; matrices are below each other."""
    shape, coarse = parameters.shape, parameters.coarsen()
    sizes = coarse.block_sizes
    cut = [axis for axis, size in enumerate(sizes) if size < shape[axis]]
    kind = f"blocks {_product(sizes)}"
    if not cut:
        kind = "per-tensor"
    elif len(cut) == 1 and sizes[cut[0]] == 1:
        kind = f"per-axis, axis {cut[0]}"
    count = coarse.scales.size
    texts = [_product(shape), f"{kind}: {count} slots"]
    parts = [_text(x, y + LINE * (at + 1) - 4, text) for at, text in enumerate(texts)]
    right = x + max(CELL * shape[-1], 6 * len(texts[1]))
    y += 2 * LINE
    numbers = np.broadcast_to(parameters.expand()[0], shape).astype(np.int64)
    *row_ends, column_ends = (ends.tolist() for ends in coarse.ends)
    for matrix in numbers.reshape(-1, *shape[-2:]):
        height, width = CELL * shape[-2], CELL * shape[-1]
        for (row, column), number in np.ndenumerate(matrix):
            place = f'x="{x + CELL * column}" y="{y + CELL * row}"'
            square = f'width="{CELL}" height="{CELL}" style="--hue:{83 * int(number) % 360}"'
            parts.append(f'<rect class="cell" {place} {square}/>')
            parts.append(
                _text(x + CELL * column + CELL // 2, y + CELL * row + 16, str(number), "middle")
            )
        lines = [f"M{x} {y + CELL * end}h{width}" for end in (0, *row_ends[-1])]
        lines += [f"M{x + CELL * end} {y}v{height}" for end in (0, *column_ends)]
        parts.append(f'<path class="run" d="{"".join(lines)}"/>')
        y += height + 8
    return parts, right, y


def _product(lengths: Sequence[int]) -> str:
    return " x ".join(map(str, lengths))


def noise() -> str:
    """What `--plot` draws of the convolutions in examples/digits, quantized on 8 images."""
    digits = PACKAGE.parent / "examples" / "digits"
    model = str(digits / "convolutions.mlir")
    with TemporaryDirectory() as folder:
        svg = Path(folder, "noise.svg")
        write = "import data, pathlib, sys; data.write_records(pathlib.Path(sys.argv[1]), 8, 8)"
        data = [sys.executable, "-c", write, folder]
        quantize = [sys.executable, "-m", "qdialect", "quantize", model, "--scheme=torch-i8"]
        quantize += ["--data=calibration.npz", "-o=quantized.mlir", f"--plot={svg}"]
        for command, where in ((data, digits), (quantize, folder)):
            subprocess.run(command, cwd=where, check=True, capture_output=True)
        # matplotlib draws on white.
        return re.sub(r"(<svg [^>]*>)", rf"\1<style>{INVERTED}</style>", svg.read_text(), count=1)


@cache
def imports() -> Counter[tuple[str, str]]:
    """How often a file of one folder of the package imports from another folder."""
    count = Counter[tuple[str, str]]()
    for path in PACKAGE.glob("*/**/*.py"):
        folder = path.relative_to(PACKAGE).parts[0]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        count.update((folder, name) for name in _imported(tree) if name != folder)
    return count


def _imported(tree: ast.AST) -> Iterator[str]:
    """The folders that a file imports from, but for the names of types."""
    for node in ast.iter_child_nodes(tree):
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if is_for_types or isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.ImportFrom):
            package, *names = (node.module or "").split(".")
            if package == "qdialect":
                yield from names[:1] or [alias.name for alias in node.names]
        yield from _imported(node)


def upward() -> Sequence[tuple[str, str]]:
    """The edges that `architecture` leaves out, since more imports point the other way."""
    count = imports()
    return [(a, b) for (a, b), times in sorted(count.items()) if times < count[b, a]]


def architecture() -> str:
    """The folders of the package: each above those that it imports from."""
    down = set(imports()) - set(upward())
    folders = sorted({name for edge in down for name in edge})
    below = {name: {low for high, low in down if high == name} for name in folders}
    floors = dict[str, int]()
    while len(floors) < len(folders):
        ready = [name for name in folders if name not in floors and below[name] <= floors.keys()]
        if not ready:
            raise ValueError(f"folders import each other: {sorted({*folders} - floors.keys())}")
        floors |= {name: max([floors[low] + 1 for low in below[name]], default=0) for name in ready}
    reached = {name: set(below[name]) for name in folders}
    for name in sorted(folders, key=floors.__getitem__):
        reached[name].update(*(reached[low] for low in below[name]))
    drawn = [(a, b) for a, b in down if not any(b in reached[low] for low in below[a])]
    places = _places(floors, drawn)
    parts = list[str]()
    for high, low in sorted(drawn):
        (x, y), (to_x, to_y) = places[high], places[low]
        parts.append(_arrow(x + 50, y + 28, to_x + 50, to_y - 6))
    for name, (x, y) in places.items():
        parts.append(f'<rect class="box" x="{x}" y="{y}" width="100" height="28" rx="4"/>')
        parts.append(_text(x + 50, y + 18, name, "middle"))
    height = max(y for _, y in places.values()) + 36
    return _svg("Folders of qdialect, above those that they import from", 420, height, parts)


def _places(
    floors: Mapping[str, int], drawn: Sequence[tuple[str, str]]
) -> Mapping[str, tuple[int, int]]:
    places = dict[str, tuple[int, int]]()
    top = max(floors.values())
    for floor in range(top, -1, -1):
        names = [name for name in floors if floors[name] == floor]

        def middle(name: str) -> float:
            above = [places[high][0] for high, low in drawn if low == name and high in places]
            return sum(above) / len(above) if above else 160

        for at, name in enumerate(sorted(names, key=middle)):
            places[name] = (210 - 65 * len(names) + 130 * at + 15, 8 + 56 * (top - floor))
    return places


def _arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    is_flat = y == to_y
    tip = "l-8 -4v8z" if is_flat else "l-4 -8h8z"
    shift = (to_x - 6, to_y) if is_flat else (to_x, to_y - 2)
    line = f'<path class="arrow" d="M{x} {y}L{shift[0]} {shift[1]}"/>'
    return f'{line}<path class="tip" d="M{to_x} {to_y + (0 if is_flat else 6)}{tip}"/>'


def _text(x: int, y: int, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}><title>{title}</title>'
    paper = '<rect class="paper" width="100%" height="100%"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", paper, *parts, "</svg>\n"])
