"""
Random quantized types and functions of casts, as text that `mlir-opt` accepts.

Only types that upstream defines are drawn: a zero point of a sub-channel type is in the range
of the storage, and a scale in that of the expressed type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from nested_text import nested

DYNAMIC = "?"
FLOATS = ("f16", "bf16", "f32", "f64", "f8E5M2", "f8E4M3FN", "tf32")
SCALES = ("1.0", "0.5", "0.1", "3.0", "2.5e-2", "7.0", "1.1754943508222875")


@dataclass(frozen=True)
class RandomType:
    """A quantized type with a shape, and the texts of related types."""

    text: str
    expressed: str
    dims: tuple[int, ...]
    """The shape of a tensor; empty for a scalar too."""

    shape: str | None
    """The text of the shape before the element type; None for a scalar."""

    def of(self, element: str) -> str:
        """The type of this shape with the element type `element`."""
        return element if self.shape is None else f"tensor<{self.shape}{element}>"

    @property
    def stored(self) -> str:
        """The type of the storage integers."""
        storage = self.text.removeprefix("!quant.uniform<")[1:]
        return f"i{storage[: len(storage) - len(storage.lstrip('0123456789'))]}"

    @property
    def quantized(self) -> str:
        return self.of(self.text)

    @property
    def floats(self) -> str:
        return self.of(self.expressed)


@st.composite
def storages(draw: st.DrawFn) -> tuple[str, int, int]:
    """The text of a storage type, its minimum and maximum."""
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


@st.composite
def random_types(
    draw: st.DrawFn,
    granularities: Sequence[str] = ("tensor", "axis", "blocks"),
    floats: Sequence[str] = FLOATS,
    least_length: int = 0,
) -> RandomType:
    """Types that fit their tensors, whose axes have at least `least_length` positions."""
    storage, least, greatest = draw(storages())
    expressed = draw(st.sampled_from(floats))
    granularity = draw(st.sampled_from(granularities))
    anything = st.sampled_from([0, 0, least, greatest, 1, -1, 3, 300, -129, 65535, 1 << 40])
    head = f"!quant.uniform<{storage}:{expressed}"
    if granularity == "tensor":
        text = f"{head}, {draw(slot_texts(anything))}>"
        dims = tuple(draw(st.lists(st.integers(least_length, 4), max_size=3)))
        kind = draw(st.sampled_from(["scalar", "tensor", "unranked"]))
        if kind == "scalar":
            dims = ()
        shape = {"scalar": None, "unranked": "*x"}.get(kind, draw(shape_texts(dims)))
        return RandomType(text, expressed, dims, shape)
    if granularity == "axis":
        dims = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
        axis = draw(st.integers(0, len(dims) - 1))
        slots = draw(st.lists(slot_texts(anything), min_size=dims[axis], max_size=dims[axis]))
        text = f"{head}:{axis}, {{{','.join(slots)}}}>"
        shape = draw(st.sampled_from(["*x", draw(shape_texts(dims))]))
        return RandomType(text, expressed, dims, shape)
    counts = draw(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=3))
    blocks = [draw(st.sampled_from([1, 1, 2, 3])) for _ in counts]
    axes = [axis for axis, count in enumerate(counts) if count > 1 or draw(st.booleans())]
    dims = tuple(
        count * block if axis in axes else draw(st.integers(1, 4))
        for axis, (count, block) in enumerate(zip(counts, blocks, strict=True))
    )
    order = draw(st.permutations(axes))
    # For other widths, MLIR does not parse every zero point of a sub-channel type that it prints.
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
    text = f"{head}:{{{listed}}}, {nested(slots, counts, '{}')}>"
    return RandomType(text, expressed, dims, draw(shape_texts(dims)))


@st.composite
def cast_functions(draw: st.DrawFn, name: str) -> str:
    """A function that casts a float or a quantized value, and maybe back."""
    type = draw(random_types())
    ends = [(type.floats, "quant.qcast"), (type.quantized, "quant.dcast")]
    if draw(st.booleans()):
        ends.reverse()
    count = draw(st.integers(1, 3))
    lines: list[str] = []
    for step in range(count):
        (taken, cast), (made, _) = ends[step % 2], ends[(step + 1) % 2]
        lines.append(f"  %{step + 1} = {cast} %{step} : {taken} to {made}")
    returned = sorted({count, draw(st.integers(0, count))})
    types = [ends[step % 2][0] for step in returned]
    values = ", ".join(f"%{step}" for step in returned)
    return "\n".join(
        [
            f"func.func @{name}(%0: {ends[0][0]}) -> ({', '.join(types)}) {{",
            *lines,
            f"  return {values} : {', '.join(types)}",
            "}",
        ]
    )


@st.composite
def flow_functions(draw: st.DrawFn, name: str, types: Sequence[RandomType]) -> str:
    """A function with values of `types` as arguments, results, operands and in branches."""
    arguments = [(f"%a{n}", type) for n, type in enumerate(draw(some(types)))]
    values = list(arguments)
    lines: list[str] = []

    def pick(type: RandomType) -> str:
        known = [value for value, of in values if of == type]
        if known:
            return draw(st.sampled_from(known))
        made = f"%m{len(lines)}"
        lines.append(f'{made} = "test.make"() : () -> {type.quantized}')
        values.append((made, type))
        return made

    def use(kind: str, head: str) -> None:
        operands, results = draw(some(types)), draw(some(types))
        taken = ", ".join(pick(type) for type in operands)
        made = [(f"%v{len(lines)}_{n}", type) for n, type in enumerate(results)]
        names = ", ".join(value for value, _ in made)
        types_of = [", ".join(type.quantized for type in end) for end in (operands, results)]
        signature = f"({types_of[0]}) -> ({types_of[1]})"
        if kind == "call":
            callee = f"{name}_{len(lines)}"
            declared.append(f"func.func private @{callee}{signature}")
            head = f"call @{callee}"
        lines.append(f"{names}{' = ' if names else ''}{head}({taken}) : {signature}")
        values.extend(made)

    declared: list[str] = []
    for _ in range(draw(st.integers(1, 5))):
        match draw(st.sampled_from(["call", "op", "cast", "round trip", "storage"])):
            case "call":
                use("call", "")
            case "op":
                use("op", '"test.use"')
            case "cast":
                type = draw(st.sampled_from(types))
                value = pick(type)
                lines.append(
                    f"%f{len(lines)} = quant.dcast {value} : {type.quantized} to {type.floats}"
                )
            case "round trip":
                type = draw(st.sampled_from(types))
                value = pick(type)
                at = len(lines)
                lines.append(f"%f{at} = quant.dcast {value} : {type.quantized} to {type.floats}")
                lines.append(f"%q{at} = quant.qcast %f{at} : {type.floats} to {type.quantized}")
                values.append((f"%q{at}", type))
            case _:
                type = draw(st.sampled_from(types))
                value, stored = pick(type), type.of(type.stored)
                at = len(lines)
                lines.append(f"%s{at} = quant.scast {value} : {type.quantized} to {stored}")
                lines.append(f"%q{at} = quant.scast %s{at} : {stored} to {type.quantized}")
                values.append((f"%q{at}", type))
    results = draw(some(types))
    returned = [pick(type) for type in results]
    spelled = ", ".join(type.quantized for type in results)
    taken = ", ".join(f"{value}: {type.quantized}" for value, type in arguments)
    if returned and draw(st.booleans()):
        # The last value is a result of a region.
        value, type = returned[-1], results[-1].quantized
        lines += [
            '%c = "test.condition"() : () -> i1',
            f"%r = scf.if %c -> ({type}) {{",
            f"  scf.yield {value} : {type}",
            "} else {",
            f'  %e = "test.make"() : () -> {type}',
            f"  scf.yield %e : {type}",
            "}",
        ]
        returned[-1] = "%r"
    lines.append(f"return {', '.join(returned)}{' : ' if returned else ''}{spelled}")
    return "\n".join([*declared, f"func.func @{name}({taken}) -> ({spelled}) {{", *lines, "}"])


def some(types: Sequence[RandomType]) -> st.SearchStrategy[list[RandomType]]:
    return st.lists(st.sampled_from(types), max_size=3)


@st.composite
def shape_texts(draw: st.DrawFn, dims: Sequence[int]) -> str:
    """The text of a shape in which some lengths are dynamic."""
    return "".join(f"{DYNAMIC if draw(st.integers(0, 3)) == 0 else dim}x" for dim in dims)
