"""
How long moved elements take to be written, beside numpy's own copy and one of what is unmoved.

`python benchmarks/transposes.py` prints a table of ratios: the time of `contiguous` by that
of `numpy.array`, and by that of `copy` of an array of the same shape that has not moved; and
the time of `contiguous_bytes` by that of `tobytes` of both. New bytes are slower than new
arrays for all: numpy asks the system for larger pages of memory. Each time is the median of
seven, taken in random order. With `random COUNT`, arrays are random, and the slowest are printed.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdialect.algebra.blocked_copy import contiguous, contiguous_bytes

RUNS = 7
RANDOM_ELEMENTS = 1 << 23

PERMUTATIONS = (
    ((8, 224, 224, 64), (0, 3, 1, 2)),
    ((8, 64, 224, 224), (0, 2, 3, 1)),
    ((8, 512, 512, 3), (0, 3, 1, 2)),
    ((8, 3, 512, 512), (0, 2, 3, 1)),
    ((3, 3, 512, 1024), (3, 2, 0, 1)),
    ((3, 3, 512, 1024), (3, 0, 1, 2)),
    ((1024, 3, 3, 512), (0, 3, 1, 2)),
    ((64, 512, 512), (0, 2, 1)),
    ((64, 512, 512), (2, 1, 0)),
    ((64, 128, 128, 16), (0, 2, 1, 3)),
    ((16, 32, 16, 32, 32), (4, 2, 0, 3, 1)),
    ((16, 32, 16, 32, 32), (3, 0, 4, 1, 2)),
    ((4, 8, 4, 8, 4, 8, 4, 8, 4, 8), (1, 3, 5, 7, 9, 0, 2, 4, 6, 8)),
    ((1 << 18, 4, 4), (0, 2, 1)),
    ((1 << 16, 8, 8), (0, 2, 1)),
)


def milliseconds(run: Callable[[], object]) -> float:
    """How long one run takes."""
    start = perf_counter()
    run()
    return (perf_counter() - start) * 1e3


def elements(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """An array as a constant has it: of bytes, in pages of memory that are all its own."""
    size = np.dtype(dtype).itemsize * math.prod(shape)
    return np.frombuffer(b"\1" * size, dtype=dtype).reshape(shape)


def cases() -> Iterator[tuple[str, NDArray[Any]]]:
    """Moved arrays, and what they are."""
    for dtype in ("i1", "i2", "f4", "f8", "c16"):
        for shape in ((4096, 4096), (1000, 12001), (12001, 1000), (4093, 4099)):
            yield f"{dtype} {shape} transposed", elements(shape, dtype).T
    for dtype, length in (("i1", 16384), ("i2", 8192), ("f4", 8192)):
        yield f"{dtype} ({length}, {length}) transposed", elements((length, length), dtype).T
    for dtype in ("i1", "f4"):
        for shape, axes in PERMUTATIONS:
            yield f"{dtype} {shape} by {axes}", elements(shape, dtype).transpose(axes)
        square = elements((4096, 4096), dtype)
        for moved, label in (
            (square[::-1, ::-1], "reversed"),
            (square[::-1], "rows reversed"),
            (square[:, ::-1].T, "columns reversed, transposed"),
            (square[:, ::2], "every second column"),
            (square[::2, ::2].T, "every second of both, transposed"),
            (square[1:, 2:-1].T, "without its edges, transposed"),
            (np.broadcast_to(square[:, :1], (4096, 4096)), "a column repeated"),
        ):
            yield f"{dtype} (4096, 4096) {label}", moved


def random_cases(count: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Arrays of random shapes, sliced, reversed and transposed at random."""
    for _ in range(count):
        dtype = random.choice(("i1", "i1", "i2", "f4", "f8", "V3"))
        largest = int(RANDOM_ELEMENTS ** random.uniform(0.7, 1))
        shape: list[int] = []
        while math.prod(shape) * 2 < largest and len(shape) < 7:
            shape.append(int(2 ** random.uniform(1, math.log2(largest / math.prod(shape)))))
        random.shuffle(shape)
        steps = [random.choice((1, 1, 1, 1, -1, 2)) for _ in shape]
        axes = random.sample(range(len(shape)), len(shape))
        array = elements(tuple(n * abs(step) for n, step in zip(shape, steps, strict=True)), dtype)
        array = array[tuple(slice(None, None, step) for step in steps)]
        yield f"{dtype} {tuple(shape)} every {steps} by {axes}", array.transpose(axes)


def ratios(moved: NDArray[Any]) -> tuple[float, ...]:
    """Milliseconds of `contiguous`; its time, and that of `contiguous_bytes`, by others."""
    unmoved = np.ones(moved.shape, moved.dtype)
    runs: tuple[Callable[[], object], ...] = (
        lambda: contiguous(moved),
        lambda: np.array(moved, order="C"),
        unmoved.copy,
        lambda: contiguous_bytes(moved),
        moved.tobytes,
        unmoved.tobytes,
    )
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(RUNS):
        for index in random.sample(range(len(runs)), len(runs)):
            times[index].append(milliseconds(runs[index]))
    array, numpy, copy, data, numpy_data, copied_data = map(median, times)
    return array, array / numpy, array / copy, data / numpy_data, data / copied_data


def main() -> None:
    """Print the table."""
    print(f"{'ms':>8} {'/ numpy':>8} {'/ copy':>8} {'bytes / numpy':>14} {'/ copy':>8}  array")
    if sys.argv[1:2] == ["random"]:
        chosen = random_cases(int(sys.argv[2]))
        rows = [(ratios(moved), label) for label, moved in chosen]
        rows = sorted(rows, key=lambda row: -max(row[0][1], row[0][3]))[:20]
    else:
        rows = ((ratios(moved), label) for label, moved in cases())
    for (time, numpy, copy, numpy_data, copied_data), label in rows:
        print(
            f"{time:8.2f} {numpy:8.2f} {copy:8.2f} {numpy_data:14.2f} {copied_data:8.2f}  {label}",
            flush=True,
        )


if __name__ == "__main__":
    main()
