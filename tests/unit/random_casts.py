"""
Random quantized types and functions of casts as text, as `mlir-opt` takes them.

Only what upstream defines is made: a zero point of a sub-channel type is in the range of the
storage, and a scale in that of the expressed type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

DYNAMIC = "?"
FLOATS = ("f16", "bf16", "f32", "f64", "f8E5M2", "f8E4M3FN", "tf32")
SCALES = ("1.0", "0.5", "0.1", "3.0", "2.5e-2", "7.0", "1.1754943508222875")


@dataclass(frozen=True)
class RandomType:
    """A quantized type, and tensors of it and of its expressed type."""

    text: str
    expressed: str
    dims: tuple[int, ...] | None
    """The shape of a tensor; empty for a scalar too."""
    shape: str | None
    """The text before the element type, None for a scalar."""
    is_sub_channel: bool

    def of(self, element: str) -> str:
        """A value of this shape."""
        return element if self.shape is None else f"tensor<{self.shape}{element}>"

    @property
    def quantized(self) -> str:
        return self.of(self.text)

    @property
    def floats(self) -> str:
        return self.of(self.expressed)


@st.composite
def storages(draw: st.DrawFn) -> tuple[str, int, int]:
    """The text of a storage type, and its range."""
    signed, width = draw(st.booleans()), draw(st.sampled_from([1, 2, 3, 4, 7, 8, 8, 16, 24, 32]))
    least, greatest = (
        (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    )
    text = f"{'i' if signed else 'u'}{width}"
    if width > 1 and draw(st.booleans()):
        low = draw(st.integers(least, greatest - 1))
        high = draw(st.integers(low + 1, greatest))
        low, high = draw(st.sampled_from([(low, high), (least, high), (low, greatest)]))
        if low < high:
            least, greatest = low, high
            text += f"<{least}:{greatest}>"
    return text, least, greatest


@st.composite
def slot_texts(draw: st.DrawFn, zero_points: st.SearchStrategy[int]) -> str:
    scale, zero_point = draw(st.sampled_from(SCALES)), draw(zero_points)
    return f"{scale}:{zero_point}" if zero_point or draw(st.booleans()) else scale


def nested(items: list[str], shape: Sequence[int]) -> str:
    for length in reversed(shape):
        items = [
            "{" + ", ".join(items[start : start + length]) + "}"
            for start in range(0, len(items), length)
        ]
    return items[0]


@st.composite
def random_types(
    draw: st.DrawFn, granularities: Sequence[str] = ("tensor", "axis", "blocks")
) -> RandomType:
    storage, least, greatest = draw(storages())
    expressed = draw(st.sampled_from(FLOATS))
    granularity = draw(st.sampled_from(granularities))
    anything = st.sampled_from([0, 0, least, greatest, 1, -1, 3, 300, -129, 65535, 1 << 40])
    head = f"!quant.uniform<{storage}:{expressed}"
    if granularity == "tensor":
        text = f"{head}, {draw(slot_texts(anything))}>"
        dims = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
        kind = draw(st.sampled_from(["scalar", "tensor", "unranked"]))
        shape = {"scalar": None, "unranked": "*x"}.get(kind, draw(shape_texts(dims)))
        return RandomType(text, expressed, dims, shape, False)
    if granularity == "axis":
        dims = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
        axis = draw(st.integers(0, len(dims) - 1))
        slots = draw(st.lists(slot_texts(anything), min_size=dims[axis], max_size=dims[axis]))
        text = f"{head}:{axis}, {{{','.join(slots)}}}>"
        shape = draw(st.sampled_from(["*x", draw(shape_texts(dims))]))
        return RandomType(text, expressed, dims, shape, False)
    counts = draw(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=3))
    blocks = [draw(st.sampled_from([1, 1, 2, 3])) for _ in counts]
    axes = [axis for axis, count in enumerate(counts) if count > 1 or draw(st.booleans())]
    dims = tuple(
        count * block if axis in axes else draw(st.integers(1, 4))
        for axis, (count, block) in enumerate(zip(counts, blocks, strict=True))
    )
    order = draw(st.permutations(axes))
    # Of other widths, MLIR does not read every zero point of a sub-channel type as it prints it.
    width = int(storage[1:].partition("<")[0])
    most = max(0, min(greatest, (1 << (width - 1)) - 1))
    in_storage = st.sampled_from([0, *range(min(most, 3)), most]) | (
        st.integers(least, greatest) if width % 8 == 0 else st.just(0)
    )
    total = 1
    for count in counts:
        total *= count
    slots = draw(st.lists(slot_texts(in_storage), min_size=total, max_size=total))
    listed = ", ".join(f"{axis}:{blocks[axis]}" for axis in order)
    text = f"{head}:{{{listed}}}, {nested(slots, counts)}>"
    return RandomType(text, expressed, dims, draw(shape_texts(dims)), True)


@st.composite
def shape_texts(draw: st.DrawFn, dims: Sequence[int]) -> str:
    """A shape of which some lengths are not told."""
    return "".join(f"{DYNAMIC if draw(st.integers(0, 3)) == 0 else dim}x" for dim in dims)
