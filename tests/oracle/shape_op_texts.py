"""
Typical modules: quantized constants, and shape ops of one dialect on them.

Scales and zero points are stored per element, in plain arrays that numpy moves. No code of
qdialect is used, so that its results can be compared with these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]
Array = NDArray[Any]

RANGES = {"i8": (-128, 127), "u8": (0, 255), "i4": (-8, 7), "u4": (0, 15), "i16": (-32768, 32767)}


@dataclass(frozen=True)
class Slots:
    """The scale and zero point of each element."""

    scales: Array
    zero_points: Array

    @property
    def shape(self) -> Shape:
        """The shape of the tensor."""
        return self.scales.shape

    def dequantize(self, codes: Array) -> Array:
        """The dequantized codes: f32."""
        difference = (codes.astype(np.int64) - self.zero_points).astype(np.float32)
        return difference * self.scales.astype(np.float32)

    @cached_property
    def blocks(self) -> Shape:
        """For each axis, the largest block size such that slots are constant in blocks."""
        return tuple(
            max(
                block
                for block in range(1, length + 1)
                if length % block == 0
                and all(_is_repeated(of, axis, block) for of in (self.scales, self.zero_points))
            )
            for axis, length in enumerate(self.shape)
        )

    @property
    def cut(self) -> list[int]:
        """The axes that have several slots."""
        return [axis for axis, block in enumerate(self.blocks) if block < self.shape[axis]]

    def type_text(self, storage: str, *, per_axis: bool = False) -> str:
        """
        The coarsest quantized type that means this.

        With `per_axis` blocks along one axis are spelled slot by slot, as in StableHLO.
        """
        blocks, cut = list(self.blocks), self.cut
        if per_axis and len(cut) == 1:
            blocks[cut[0]] = 1
        first = np.ix_(*(range(0, n, block) for n, block in zip(self.shape, blocks, strict=True)))
        scales, zero_points = self.scales, self.zero_points
        if first:
            scales, zero_points = scales[first], zero_points[first]
        pairs = zip(scales.flat, zero_points.flat, strict=True)
        slots = np.array([f"{float(scale)!r}:{zero_point}" for scale, zero_point in pairs])
        if not cut:
            return f"!quant.uniform<{storage}:f32, {slots[0]}>"
        if len(cut) == 1 and blocks[cut[0]] == 1:
            return f"!quant.uniform<{storage}:f32:{cut[0]}, {{{','.join(slots)}}}>"
        sizes = ", ".join(f"{axis}:{blocks[axis]}" for axis in cut)
        nested = _in_braces(slots.reshape(scales.shape))
        return f"!quant.uniform<{storage}:f32:{{{sizes}}}, {nested}>"


def _is_repeated(of: Array, axis: int, block: int) -> bool:
    first = of.take(range(0, of.shape[axis], block), axis)
    return np.array_equal(np.repeat(first, block, axis), of)


def _in_braces(slots: Array) -> str:
    inner = slots.tolist() if slots.ndim == 1 else map(_in_braces, slots)
    return f"{{{', '.join(inner)}}}"


@dataclass(frozen=True)
class Weight:
    """A quantized constant."""

    storage: str
    codes: Array
    slots: Slots

    @property
    def floats(self) -> Array:
        """The dequantized elements."""
        return self.slots.dequantize(self.codes)


def weight(
    shape: Shape, blocks: Mapping[int, int] | None = None, storage: str = "i8", number: int = 0
) -> Weight:
    """
    A weight with distinct slots, one per block; `blocks` maps axes to block sizes.

    Weights with different `number`s have different slots and codes.
    """
    least, most = RANGES[storage]
    count = most - least + 1
    codes = least + (7 * np.arange(math.prod(shape)) + 3 * number) % count
    sizes = [(blocks or {}).get(axis, length) for axis, length in enumerate(shape)]
    counts = [length // size for length, size in zip(shape, sizes, strict=True)]
    ids = np.arange(math.prod(counts)).reshape(counts)
    for axis, size in enumerate(sizes):
        ids = np.repeat(ids, size, axis)
    scales = (ids + 1 + 100 * number) / 64
    zero_points = least + (5 * ids + 3 + number) % count
    return Weight(storage, codes.reshape(shape), Slots(scales, zero_points))


def per_axis(shape: Shape, axis: int, storage: str = "i8", number: int = 0) -> Weight:
    """A weight with one slot for each position of an axis."""
    return weight(shape, {axis: 1}, storage, number)


@dataclass(frozen=True)
class Place:
    """The operands and the result of an op to be written."""

    number: int
    names: Sequence[str]
    shapes: Sequence[Shape]
    types: Sequence[str]
    shape: Shape
    type: str

    @property
    def operands(self) -> str:
        """The operands, separated by commas."""
        return ", ".join(self.names)

    @property
    def signature(self) -> str:
        """The function type of the op."""
        return f"({', '.join(self.types)}) -> {self.type}"

    @property
    def element(self) -> str:
        """The element type of the result."""
        return self.type.removeprefix("tensor<" + "".join(f"{n}x" for n in self.shape))[:-1]

    def name(self, prefix: str) -> str:
        """A name for an auxiliary op."""
        return f"%{prefix}{self.number}"


Text = Callable[[Place], str]

Move = Callable[[Sequence[Array]], Array]


@dataclass(frozen=True)
class Op:
    """A shape op: its numpy function, and its text in each dialect with such an op."""

    numpy: Move
    texts: Mapping[str, Text]
    """
    The text by dialect. Its last line is the op, to which the caller prepends the result name.
    """

    numpy_of_slots: Move | None = None
    """The function on slots, if it differs from the function on values."""

    only_on_floats: frozenset[str] = frozenset()
    """The dialects in which the op does not support quantized types."""

    keeps_type_in: frozenset[str] = frozenset()
    """
    The dialects whose verifiers require equal element types, so that no other can be declared.
    """

    def of_slots(self, *slots: Slots) -> Slots:
        """The slots of the result."""
        move = self.numpy_of_slots or self.numpy
        return Slots(move([s.scales for s in slots]), move([s.zero_points for s in slots]))


Chain = Sequence[Op]
"""A sequence of ops: the first takes all weights. An empty chain is the first weight itself."""


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _array(numbers: Sequence[int], width: int = 64) -> str:
    return f"array<i{width}: {_list(numbers)}>" if numbers else f"array<i{width}>"


def _tosa_shape(name: str, numbers: Sequence[int]) -> str:
    count = len(numbers)
    dense = f"dense<[{_list(numbers)}]>" if count else "dense<>"
    return (
        f"{name} = tosa.const_shape {{values = {dense} : tensor<{count}xindex>}} : () -> "
        f"!tosa.shape<{count}>\n"
    )


def _empty(at: Place) -> str:
    return f"{at.name('e')} = tensor.empty() : {at.type}\n"


def _linalg(at: Place, op: str, attributes: str) -> str:
    """A named linalg op in generic form: xDSL's custom form only supports numbers."""
    a, b, element = at.name("a"), at.name("b"), at.element
    return (
        f"{_empty(at)}"
        f'"linalg.{op}"({at.operands}, {at.name("e")}) <{{{attributes}}}> ({{ '
        f'^bb0({a}: {element}, {b}: {element}): "linalg.yield"({a}) : ({element}) -> () }}) : '
        f"({at.types[0]}, {at.type}) -> {at.type}"
    )


def transpose(*axes: int) -> Op:
    """Axis `i` of the result is axis `axes[i]`."""
    return Op(
        lambda operands: np.transpose(operands[0], axes),
        {
            "tensor": lambda at: _linalg(at, "transpose", f"permutation = {_array(axes)}"),
            "tosa": lambda at: (
                f"tosa.transpose {at.operands} {{perms = {_array(axes, 32)}}} : {at.signature}"
            ),
            "stablehlo": lambda at: (
                f'"stablehlo.transpose"({at.operands}) <{{permutation = {_array(axes)}}}> : '
                f"{at.signature}"
            ),
            "quant": lambda at: (
                f"quant.transpose {at.operands} permutation = [{_list(axes)}] : "
                f"{at.types[0]} to {at.type}"
            ),
        },
        keeps_type_in=frozenset({"tensor", "tosa"}),
    )


def reshape(*shape: int) -> Op:
    """The same elements, in row-major order."""

    def tensor_text(at: Place) -> str:
        name, count = at.name("s"), len(shape)
        dense = f"dense<[{_list(shape)}]>" if shape else "dense<>"
        return (
            f"{name} = arith.constant {dense} : tensor<{count}xindex>\n"
            f"tensor.reshape {at.operands}({name}) : ({at.types[0]}, tensor<{count}xindex>) "
            f"-> {at.type}"
        )

    def tosa_text(at: Place) -> str:
        name = at.name("s")
        return _tosa_shape(name, shape) + (
            f"tosa.reshape {at.operands}, {name} : ({at.types[0]}, !tosa.shape<{len(shape)}>) "
            f"-> {at.type}"
        )

    return Op(
        lambda operands: np.reshape(operands[0], shape),
        {
            "tensor": tensor_text,
            "tosa": tosa_text,
            "stablehlo": lambda at: f'"stablehlo.reshape"({at.operands}) : {at.signature}',
            "quant": lambda at: f"quant.reshape {at.operands} : {at.types[0]} to {at.type}",
        },
        keeps_type_in=frozenset({"tensor", "tosa"}),
    )


def regroup(op: str, groups: Sequence[Sequence[int]], shape: Shape) -> Op:
    """A reshape written as groups of axes that are split or merged."""
    written = ", ".join(f"[{_list(group)}]" for group in groups)
    sizes = f" output_shape [{_list(shape)}]" if op == "expand_shape" else ""
    return Op(
        lambda operands: np.reshape(operands[0], shape),
        {
            "tensor": lambda at: (
                f"tensor.{op} {at.operands} [{written}]{sizes} : {at.types[0]} into {at.type}"
            )
        },
    )


def slice_(offsets: Shape, sizes: Shape, strides: Shape | None = None) -> Op:
    """Positions `offset + i * stride` of each axis, for each `i` below its size."""
    steps = strides or (1,) * len(sizes)
    limits = [
        offset + max(size - 1, 0) * step + min(size, 1)
        for offset, size, step in zip(offsets, sizes, steps, strict=True)
    ]
    index = tuple(map(slice, offsets, limits, steps))

    def tosa_text(at: Place) -> str:
        start, size, rank = at.name("s"), at.name("z"), len(sizes)
        return (
            f"{_tosa_shape(start, offsets)}{_tosa_shape(size, sizes)}"
            f"tosa.slice {at.operands}, {start}, {size} : "
            f"({at.types[0]}, !tosa.shape<{rank}>, !tosa.shape<{rank}>) -> {at.type}"
        )

    in_steps = f"[{_list(offsets)}] [{_list(sizes)}] [{_list(steps)}]"
    texts: dict[str, Text] = {
        "tensor": lambda at: (
            f"tensor.extract_slice {at.operands}{in_steps} : {at.types[0]} to {at.type}"
        ),
        "stablehlo": lambda at: (
            f'"stablehlo.slice"({at.operands}) <{{start_indices = {_array(offsets)}, '
            f"limit_indices = {_array(limits)}, strides = {_array(steps)}}}> : {at.signature}"
        ),
        "quant": lambda at: f"quant.slice {at.operands} {in_steps} : {at.types[0]} to {at.type}",
    }
    if all(step == 1 for step in steps):
        texts["tosa"] = tosa_text
    return Op(lambda operands: operands[0][index], texts)


def select(axis: int, at_index: int, shape: Shape) -> Op:
    """One position of an axis of a tensor of `shape`; the axis is dropped."""
    offsets = tuple(at_index if a == axis else 0 for a in range(len(shape)))
    sizes = tuple(1 if a == axis else length for a, length in enumerate(shape))
    in_steps = f"[{_list(offsets)}] [{_list(sizes)}] [{_list((1,) * len(shape))}]"
    rest = [a for a in range(len(shape)) if a != axis]
    numbers = (
        f"#stablehlo.gather<offset_dims = [{_list(range(len(rest)))}], collapsed_slice_dims = "
        f"[{axis}], start_index_map = [{axis}], index_vector_dim = 0>"
    )
    return Op(
        lambda operands: operands[0].take(at_index, axis),
        {
            "tensor": lambda at: (
                f"tensor.extract_slice {at.operands}{in_steps} : {at.types[0]} to {at.type}"
            ),
            "stablehlo": lambda at: (
                f'{at.name("i")} = "stablehlo.constant"() <{{value = dense<{at_index}> : '
                f"tensor<1xi64>}}> : () -> tensor<1xi64>\n"
                f'"stablehlo.gather"({at.operands}, {at.name("i")}) <{{dimension_numbers = '
                f"{numbers}, slice_sizes = {_array(sizes)}}}> : "
                f"({at.types[0]}, tensor<1xi64>) -> {at.type}"
            ),
        },
    )


def concat(axis: int) -> Op:
    """All operands, concatenated along an axis."""
    return Op(
        lambda operands: np.concatenate(operands, axis),
        {
            "tensor": lambda at: f"tensor.concat dim({axis}) {at.operands} : {at.signature}",
            "tosa": lambda at: (
                f"tosa.concat {at.operands} {{axis = {axis} : i32}} : {at.signature}"
            ),
            "stablehlo": lambda at: (
                f'"stablehlo.concatenate"({at.operands}) <{{dimension = {axis} : i64}}> : '
                f"{at.signature}"
            ),
            "quant": lambda at: f"quant.concat dim({axis}) {at.operands} : {at.signature}",
        },
        keeps_type_in=frozenset({"tensor"}),
    )


def broadcast(dims: Shape, shape: Shape) -> Op:
    """Axis `i` becomes axis `dims[i]` of the result, repeated if its length is 1."""
    new = [axis for axis in range(len(shape)) if axis not in dims]

    def move(operands: Sequence[Array]) -> Array:
        order = np.argsort(dims)
        placed = np.expand_dims(np.transpose(operands[0], order), tuple(new))
        return np.broadcast_to(placed, shape).copy()

    def generic_text(at: Place) -> str:
        loops = [f"d{axis}" for axis in range(len(shape))]
        read = [
            loops[dim] if length != 1 or shape[dim] == 1 else "0"
            for dim, length in zip(dims, at.shapes[0], strict=True)
        ]
        maps = [f"affine_map<({', '.join(loops)}) -> ({', '.join(m)})>" for m in (read, loops)]
        kinds = ", ".join(["#linalg.iterator_type<parallel>"] * len(shape))
        segments = "operandSegmentSizes = array<i32: 1, 1>"
        return _linalg(
            at,
            "generic",
            f"indexing_maps = [{', '.join(maps)}], iterator_types = [{kinds}], {segments}",
        )

    def linalg_text(at: Place) -> str:
        kept = tuple(n for axis, n in enumerate(shape) if axis not in new)
        if list(dims) != sorted(dims) or kept != at.shapes[0]:
            return generic_text(at)
        return _linalg(at, "broadcast", f"dimensions = {_array(new)}")

    return Op(
        move,
        {
            "tensor": linalg_text,
            "stablehlo": lambda at: (
                f'"stablehlo.broadcast_in_dim"({at.operands}) <{{broadcast_dimensions = '
                f"{_array(dims)}}}> : {at.signature}"
            ),
            "quant": lambda at: (
                f"quant.broadcast_in_dim {at.operands} dims = [{_list(dims)}] : "
                f"{at.types[0]} to {at.type}"
            ),
        },
        keeps_type_in=frozenset({"tensor"}),
    )


def tile(*counts: int) -> Op:
    """Each axis repeated as a whole."""

    def tosa_text(at: Place) -> str:
        name = at.name("s")
        return _tosa_shape(name, counts) + (
            f"tosa.tile {at.operands}, {name} : ({at.types[0]}, !tosa.shape<{len(counts)}>) "
            f"-> {at.type}"
        )

    return Op(lambda operands: np.tile(operands[0], counts), {"tosa": tosa_text})


def reverse(*axes: int) -> Op:
    """The positions of these axes from the last to the first."""
    texts: dict[str, Text] = {
        "stablehlo": lambda at: (
            f'"stablehlo.reverse"({at.operands}) <{{dimensions = {_array(axes)}}}> : {at.signature}'
        ),
        "quant": lambda at: (
            f"quant.reverse {at.operands} dims = [{_list(axes)}] : {at.types[0]} to {at.type}"
        ),
    }
    if len(axes) == 1:
        texts["tosa"] = lambda at: (
            f"tosa.reverse {at.operands} {{axis = {axes[0]} : i32}} : {at.signature}"
        )
    return Op(lambda operands: np.flip(operands[0], axes), texts)


def pad(low: Shape, high: Shape, value: float = 0.0) -> Op:
    """`low` positions before and `high` after each axis, whose value is `value`."""
    widths = tuple(zip(low, high, strict=True))

    def tensor_text(at: Place) -> str:
        indices = ", ".join(f"{at.name(f'i{axis}_')}: index" for axis in range(len(low)))
        return (
            f"{at.name('z')} = arith.constant {value!r} : f32\n"
            f"tensor.pad {at.operands} low[{_list(low)}] high[{_list(high)}] {{ "
            f"^bb0({indices}): tensor.yield {at.name('z')} : f32 }} : {at.types[0]} to {at.type}"
        )

    def tosa_text(at: Place) -> str:
        name, flat = at.name("s"), [width for pair in widths for width in pair]
        return _tosa_shape(name, flat) + (
            f'{at.name("z")} = "tosa.const"() <{{values = dense<{value!r}> : tensor<1xf32>}}> : '
            f"() -> tensor<1xf32>\n"
            f"tosa.pad {at.operands}, {name}, {at.name('z')} : "
            f"({at.types[0]}, !tosa.shape<{len(flat)}>, tensor<1xf32>) -> {at.type}"
        )

    def stablehlo_text(at: Place) -> str:
        interior = _array((0,) * len(low))
        return (
            f'{at.name("z")} = "stablehlo.constant"() <{{value = dense<{value!r}> : tensor<f32>}}>'
            f" : () -> tensor<f32>\n"
            f'"stablehlo.pad"({at.operands}, {at.name("z")}) <{{edge_padding_low = {_array(low)}, '
            f"edge_padding_high = {_array(high)}, interior_padding = {interior}}}> : "
            f"({at.types[0]}, tensor<f32>) -> {at.type}"
        )

    texts: dict[str, Text] = {
        "tensor": tensor_text,
        "tosa": tosa_text,
        "stablehlo": stablehlo_text,
    }
    if value == 0:
        texts["quant"] = lambda at: (
            f"quant.pad {at.operands} low = [{_list(low)}] high = [{_list(high)}] : "
            f"{at.types[0]} to {at.type}"
        )
    return Op(
        lambda operands: np.pad(operands[0], widths, constant_values=value),
        texts,
        lambda operands: np.pad(operands[0], widths, mode="edge"),
        # The padding element's type would need a single slot.
        frozenset({"tensor", "tosa", "stablehlo"}),
    )


def gather(axis: int, indices: Sequence[int], shape: Shape) -> Op:
    """
    Positions of an axis of a tensor of `shape`; tosa supports only the middle one of three
    axes.
    """
    count = len(indices)
    sizes = tuple(1 if a == axis else length for a, length in enumerate(shape))
    offset_dims = [a for a in range(len(shape)) if a != axis]
    numbers = (
        f"#stablehlo.gather<offset_dims = [{_list(offset_dims)}], collapsed_slice_dims = [{axis}], "
        f"start_index_map = [{axis}], index_vector_dim = 1>"
    )

    def tosa_text(at: Place) -> str:
        rows = ", ".join([f"[{_list(indices)}]"] * shape[0])
        type = f"tensor<{shape[0]}x{count}xi32>"
        return (
            f'{at.name("i")} = "tosa.const"() <{{values = dense<[{rows}]> : {type}}}> : '
            f"() -> {type}\n"
            f"tosa.gather {at.operands}, {at.name('i')} : ({at.types[0]}, {type}) -> {at.type}"
        )

    texts: dict[str, Text] = {
        "stablehlo": lambda at: (
            f'{at.name("i")} = "stablehlo.constant"() <{{value = dense<[{_list(indices)}]> : '
            f"tensor<{count}xi64>}}> : () -> tensor<{count}xi64>\n"
            f'"stablehlo.gather"({at.operands}, {at.name("i")}) <{{dimension_numbers = {numbers}, '
            f"slice_sizes = {_array(sizes)}}}> : "
            f"({at.types[0]}, tensor<{count}xi64>) -> {at.type}"
        )
    }
    if axis == 1 and len(shape) == 3:
        texts["tosa"] = tosa_text
    texts["quant"] = lambda at: (
        f"quant.gather {at.operands} [{_list(indices)}] dim({axis}) : {at.types[0]} to {at.type}"
    )
    return Op(lambda operands: operands[0].take(list(indices), axis), texts)


@dataclass
class ModuleText:
    """A function that returns the results of chains of shape ops on weights, as floats."""

    dialect: str
    on_floats: bool
    """Whether the shape ops come after the dequantizing cast, instead of before."""

    lines: list[str] = field(default_factory=list[str])

    def write(self, weights: Sequence[Weight], results: Sequence[Chain]) -> str:
        """The text of the whole module."""
        sources = [self._constant(weight, at) for at, weight in enumerate(weights)]
        returned = [self._chain(weights, sources, chain) for chain in results]
        names = ", ".join(name for name, _ in returned)
        types = ", ".join(type for _, type in returned)
        body = "".join(f"  {line}\n" for line in self.lines)
        return f"func.func @f() -> ({types}) {{\n{body}  return {names} : {types}\n}}\n"

    def _type(self, slots: Slots, storage: str, *, quantized: bool) -> str:
        per_axis = self.dialect == "stablehlo"
        element = slots.type_text(storage, per_axis=per_axis) if quantized else "f32"
        return tensor_of(slots.shape, element)

    def _constant(self, weight: Weight, number: int) -> str:
        storage, shape = weight.storage, weight.codes.shape
        quantized = self._type(weight.slots, storage, quantized=True)
        signless = f"i{storage[1:]}"
        codes = weight.codes.tolist()
        dropped = 64 - int(storage[1:])
        wrapped = (weight.codes << dropped >> dropped).tolist()
        name = f"%w{number}"
        if self.dialect == "tensor":
            integers = tensor_of(shape, signless)
            self.lines += [
                f"%i{number} = arith.constant dense<{wrapped}> : {integers}",
                f"%q{number} = quant.scast %i{number} : {integers} to {quantized}",
            ]
            name = f"%q{number}"
        elif self.dialect == "quant":
            self.lines.append(f"{name} = quant.constant dense<{codes}> : {quantized}")
        elif self.dialect == "tosa":
            integers = tensor_of(shape, f"u{signless}" if storage[0] == "u" else signless)
            self.lines.append(
                f'{name} = "tosa.const"() <{{values = dense<{codes}> : {integers}}}> : '
                f"() -> {quantized}"
            )
        else:
            integers = tensor_of(shape, signless)
            self.lines.append(
                f'{name} = "stablehlo.constant"() <{{value = dense<{wrapped}> : {integers}}}> : '
                f"() -> {quantized}"
            )
        return self._dequantized(name, weight.slots, storage) if self.on_floats else name

    def _dequantized(self, name: str, slots: Slots, storage: str) -> str:
        quantized = self._type(slots, storage, quantized=True)
        floats = self._type(slots, storage, quantized=False)
        result = f"%f{len(self.lines)}"
        self.lines.append(
            f'{result} = "stablehlo.uniform_dequantize"({name}) : ({quantized}) -> {floats}'
            if self.dialect == "stablehlo"
            else f"{result} = quant.dcast {name} : {quantized} to {floats}"
        )
        return result

    def _chain(
        self, weights: Sequence[Weight], sources: Sequence[str], chain: Chain
    ) -> tuple[str, str]:
        storage = weights[0].storage
        names, slots = list(sources), [weight.slots for weight in weights]
        if not chain:
            names, slots = names[:1], slots[:1]
        for op in chain:
            moved = op.of_slots(*slots)
            at = Place(
                len(self.lines),
                names,
                [s.shape for s in slots],
                [self._type(s, storage, quantized=not self.on_floats) for s in slots],
                moved.shape,
                self._type(moved, storage, quantized=not self.on_floats),
            )
            *before, line = op.texts[self.dialect](at).split("\n")
            names, slots = [at.name("r")], [moved]
            self.lines += [*before, f"{names[0]} = {line}"]
        (name,), (slot,) = names, slots
        if not self.on_floats:
            name = self._dequantized(name, slot, storage)
        return name, tensor_of(slot.shape, "f32")


def tensor_of(shape: Shape, element: str) -> str:
    """A tensor type."""
    return f"tensor<{''.join(f'{length}x' for length in shape)}{element}>"


def numpy_results(weights: Sequence[Weight], results: Sequence[Chain]) -> list[tuple[Array, Slots]]:
    """For each chain, the resulting floats and slots."""
    made: list[tuple[Array, Slots]] = []
    for chain in results:
        floats, slots = [w.floats for w in weights], [w.slots for w in weights]
        for op in chain:
            floats, slots = [op.numpy(floats)], [op.of_slots(*slots)]
        made.append((floats[0], slots[0]))
    return made
