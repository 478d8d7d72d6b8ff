"""
How long a type of 16,384 scales takes to parse, print, hash and compare.

`python benchmarks/types_of_many_scales.py` prints a table of milliseconds, the medians of
21 runs: at first sight, and when the same text or type is seen again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from io import StringIO
from statistics import median
from time import perf_counter

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer

from qdialect.dialects.quant import Quant

SCALES = 16_384
RUNS = 21


def milliseconds(run: Callable[[], object]) -> float:
    """How long one run takes."""
    start = perf_counter()
    run()
    return (perf_counter() - start) * 1e3


def parse(text: str) -> Attribute:
    """The type that is written so."""
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Quant)
    return Parser(context, text).parse_type()


def show(type: Attribute) -> None:
    """Print the type."""
    Printer(stream=StringIO()).print_attribute(type)


def texts(granularity: str) -> list[str]:
    """Types that have not been seen before, one for each run."""
    slots = [
        ",".join(f"{random.uniform(0.01, 1):.6e}:{i % 100}" for i in range(SCALES))
        for _ in range(RUNS)
    ]
    axes = "0" if granularity == "per-axis" else "{0:2}"
    return [f"!quant.uniform<i8:f32:{axes}, {{{each}}}>" for each in slots]


def main() -> None:
    """Print the table."""
    print(f"{'granularity':12} {'operation':10} {'first':>8} {'again':>8}  ms")
    for granularity in ("per-axis", "sub-channel"):
        new = texts(granularity)
        first = [milliseconds(lambda text=text: parse(text)) for text in new]
        again = [milliseconds(lambda text=text: parse(text)) for text in new]
        pairs = [(parse(text), parse(text)) for text in new]
        rows = {
            "parse": (first, again),
            "print": tuple([milliseconds(lambda t=t: show(t)) for t, _ in pairs] for _ in "12"),
            "hash": tuple([milliseconds(lambda t=t: hash(t)) for t, _ in pairs] for _ in "12"),
            "compare": tuple(
                [milliseconds(lambda a=a, b=b: a == b) for a, b in pairs] for _ in "12"
            ),
        }
        for operation, (before, after) in rows.items():
            print(f"{granularity:12} {operation:10} {median(before):8.3f} {median(after):8.3f}")


if __name__ == "__main__":
    main()
