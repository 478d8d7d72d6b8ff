"""
Random modules of shape ops of all dialects, as text, and what numpy says of their values.

Where each element of a result comes from is computed by numpy on an array of positions.
Everything else follows from that: an element has its bits, a scale and a zero point, and
the constant that it came from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_tensors import divisors, reshaped

Shape = tuple[int, ...]
Write = Callable[[str, str], str]
"""Makes the text of an op from the name of its result, and the type of that."""

Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]

MAX_ELEMENTS = 600

PLAIN = {
    "f32": 32,
    "f16": 16,
    "bf16": 16,
    "f64": 64,
    "i1": 1,
    "i4": 4,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
}


@dataclass(frozen=True)
class Storage:
    """The integers of a quantized type."""

    width: int
    signed: bool
    low: int
    high: int

    @classmethod
    def of(cls, width: int, *, signed: bool, narrow: bool = False) -> Storage:
        """All integers of a width, or all but the least."""
        low = -(1 << (width - 1)) if signed else 0
        return cls(width, signed, low + narrow, low + (1 << width) - 1)

    @property
    def is_narrow(self) -> bool:
        """Whether not all integers of the width are meant."""
        return self.high - self.low + 1 < 1 << self.width

    @property
    def text(self) -> str:
        """As a quantized type has it."""
        name = f"{'i' if self.signed else 'u'}{self.width}"
        return f"{name}<{self.low}:{self.high}>" if self.is_narrow else name

    @property
    def signless(self) -> str:
        """The type of the integers for a storage cast."""
        return f"i{self.width}"

    @property
    def stored(self) -> str:
        """The type of the elements of a constant."""
        return f"{'' if self.signed else 'u'}i{self.width}"

    def bits(self, codes: Ints) -> Bits:
        """What memory holds."""
        return (codes & ((1 << self.width) - 1)).astype(np.uint64)

    def codes(self, bits: Bits) -> Ints:
        """The integers of bits."""
        codes = bits.astype(np.int64)
        if self.width == 64:
            return codes
        is_negative = self.signed & (codes >= 1 << (self.width - 1))
        return np.where(is_negative, codes - (1 << self.width), codes)


STORAGES = [
    Storage.of(8, signed=True),
    Storage.of(8, signed=True, narrow=True),
    Storage.of(8, signed=False),
    Storage.of(8, signed=False, narrow=True),
    Storage.of(4, signed=True),
    Storage.of(16, signed=True),
    Storage.of(3, signed=False),
    Storage.of(1, signed=True),
]


@dataclass(frozen=True)
class Spelling:
    """A quantized type: blocks, and a scale and a zero point for each of them."""

    storage: Storage
    blocks: tuple[tuple[int, int], ...]
    """Axes, and how long their blocks are."""

    axis: int | None
    """The axis, where it is spelled per axis."""

    scales: NDArray[np.float64]
    zero_points: Ints

    @property
    def is_per_tensor(self) -> bool:
        """Whether there is one slot, spelled as such."""
        return self.axis is None and not self.blocks

    @property
    def text(self) -> str:
        """The type."""
        slots = [
            f"{scale:.17e}:{zero}"
            for scale, zero in zip(
                self.scales.ravel().tolist(), self.zero_points.ravel().tolist(), strict=True
            )
        ]
        start = f"!quant.uniform<{self.storage.text}:f32"
        if self.is_per_tensor:
            return f"{start}, {slots[0]}>"
        if self.axis is not None:
            return f"{start}:{self.axis}, {{{','.join(slots)}}}>"
        blocks = ", ".join(f"{axis}:{block}" for axis, block in self.blocks)
        return f"{start}:{{{blocks}}}, {nested(slots, self.scales.shape, '{}')}>"

    def on(self, shape: Shape) -> tuple[NDArray[np.float64], Ints] | None:
        """The scale and zero point of every element, None if the type does not fit."""
        scales, zero_points = self.scales, self.zero_points
        if self.is_per_tensor:
            return np.full(shape, scales.item()), np.full(shape, zero_points.item())
        if self.axis is not None:
            if self.axis >= len(shape) or shape[self.axis] != scales.size:
                return None
            ones = [1] * len(shape)
            ones[self.axis] = -1
            scales, zero_points = scales.reshape(ones), zero_points.reshape(ones)
        else:
            blocks = [dict(self.blocks).get(axis, n) for axis, n in enumerate(shape)]
            if len(shape) != scales.ndim or any(
                count * block != n
                for count, block, n in zip(scales.shape, blocks, shape, strict=True)
            ):
                return None
            for axis, block in enumerate(blocks):
                scales = scales.repeat(block, axis)
                zero_points = zero_points.repeat(block, axis)
        return np.broadcast_to(scales, shape), np.broadcast_to(zero_points, shape)


def coarsest_blocks(*arrays: NDArray[Any]) -> list[int]:
    """For each axis how long the blocks are in which all of `arrays` are constant."""
    blocks: list[int] = []
    for axis in range(arrays[0].ndim):
        length = int(arrays[0].shape[axis])
        for block in reversed(divisors(length)):
            starts = np.arange(length) // block * block
            if all((of == of.take(starts, axis)).all() for of in arrays):
                blocks.append(block)
                break
    return blocks


def spelled(
    storage: Storage,
    scales: NDArray[np.float64],
    zero_points: Ints,
    blocks: Sequence[int],
    *,
    per_axis: bool = False,
) -> Spelling:
    """The type of these blocks; of blocks along one axis, per axis if that is asked for."""
    cut = [axis for axis, n in enumerate(scales.shape) if blocks[axis] < n]
    if len(cut) == 1 and (per_axis or blocks[cut[0]] == 1):
        first = tuple(slice(None) if axis == cut[0] else slice(0, 1) for axis in range(scales.ndim))
        return Spelling(
            storage, (), cut[0], scales[first].reshape(-1), zero_points[first].reshape(-1)
        )
    steps = tuple(slice(None, None, block) for block in blocks)
    if not cut:
        one = scales.reshape(-1)[:1], zero_points.reshape(-1)[:1]
        return Spelling(storage, (), None, *one)
    pairs = tuple((axis, blocks[axis]) for axis in cut)
    return Spelling(storage, pairs, None, scales[steps], zero_points[steps])


def nested(items: Sequence[str], shape: Shape, brackets: str = "[]") -> str:
    """Items in row-major order, in a bracket for each axis."""
    for length in reversed(shape):
        items = [
            f"{brackets[0]}{', '.join(items[at : at + length])}{brackets[1]}"
            for at in range(0, len(items), length)
        ]
    (text,) = items
    return text


def tensor(shape: Shape, element: str) -> str:
    """A tensor type."""
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def array(kind: str, values: Sequence[int]) -> str:
    """A dense array attribute."""
    return f"array<{kind}: {', '.join(map(str, values))}>" if values else f"array<{kind}>"


@dataclass(frozen=True)
class Layer:
    """How elements are read, between casts."""

    element: str
    storage: Storage | None = None
    scales: NDArray[np.float64] | None = None
    zero_points: Ints | None = None
    spelling: Spelling | None = None

    def moved(self, index: Ints, scales: Any, zero_points: Any) -> Layer:
        """What elements read that come from `index` of flat arrays."""
        if self.storage is None:
            return self
        return replace(
            self,
            scales=np.asarray(scales[index]),
            zero_points=np.asarray(zero_points[index]),
            spelling=None,
        )


@dataclass(eq=False, repr=False)
class Node:
    """A value of a function."""

    name: str
    op: str
    shape: Shape
    bits: Bits
    """As stored, below all casts."""
    layers: tuple[Layer, ...]
    casts: tuple[str, ...]
    origins: Ints
    """The number of the constant of each element; padding has that of the nearest edge."""
    places: Ints
    """What was where: different for all elements of all constants, -1 for padding."""
    operands: tuple[Node, ...] = ()
    is_constant: bool | None = True
    """Whether it can be known, None if it may be left to the tool."""
    is_lie: bool = False
    is_padding_stored: bool | None = True
    is_source: bool = False

    @property
    def layer(self) -> Layer:
        """How the value itself is read."""
        return self.layers[-1]

    @property
    def type(self) -> str:
        """Its type."""
        return tensor(self.shape, self.layer.element)

    @property
    def is_quantized(self) -> bool:
        """Whether its own type is quantized."""
        return self.layer.storage is not None

    @property
    def is_plain(self) -> bool:
        """Whether nothing of it is quantized."""
        return all(layer.storage is None for layer in self.layers)

    @property
    def is_shape_op(self) -> bool:
        """Whether a shape op makes it."""
        return not self.is_source and self.op not in CASTS


DEQUANTIZING = ("quant.dcast", "stablehlo.uniform_dequantize", "tosa.cast")
CASTS = (*DEQUANTIZING, "quant.scast")
TOSA_WIDTHS = (4, 8, 16)


@dataclass(repr=False)
class Function:
    """A function, and what it returns."""

    number: int
    data: st.DataObject
    dialects: Sequence[str]
    """Those of shape ops, constants and casts."""
    domain: str
    quantizes_as_upstream: bool = False
    """Whether quantized types of ops are only those that upstream verifiers accept."""

    lines: list[str] = field(default_factory=list[str])
    resources: list[str] = field(default_factory=list[str])
    constants: list[Node] = field(default_factory=list[Node])
    results: list[Node] = field(default_factory=list[Node])
    nodes: list[Node] = field(default_factory=list[Node])
    count: int = 0
    is_in_branch: bool = False

    def __repr__(self) -> str:
        return module_text([self])

    @property
    def name(self) -> str:
        """Its symbol."""
        return f"f{self.number}"

    @property
    def text(self) -> str:
        """The function."""
        types = [result.type for result in self.results]
        head, tail = self.lines, list[str]()
        names = [f"%{result.name}" for result in self.results]
        arguments = ""
        if self.is_in_branch:
            (last,) = types[-1:]
            arguments = f"%condition: i1, %other: {last}"
            start = next(
                at for at, line in enumerate(self.lines) if line == "// The rest is in a branch."
            )
            head, tail = self.lines[:start], self.lines[start + 1 :]
            tail = [
                f"%chosen = scf.if %condition -> ({last}) {{",
                *tail,
                f"scf.yield {names[-1]} : {last}",
                "} else {",
                f"scf.yield %other : {last}",
                "}",
            ]
            names[-1] = "%chosen"
        body = "\n  ".join([*head, *tail])
        joined = ", ".join(types)
        return (
            f"func.func @{self.name}({arguments}) -> ({joined}) {{\n  {body}\n"
            f"  return {', '.join(names)} : {joined}\n}}\n"
        )

    def draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        """Draw."""
        return self.data.draw(strategy)

    def chance(self, of: int) -> bool:
        """True once in `of`."""
        return self.draw(st.integers(0, of - 1)) == of - 1

    def fresh(self, start: str) -> str:
        """A name."""
        self.count += 1
        return f"{start}{self.count}q"

    def random(self) -> np.random.Generator:
        """A generator that is drawn."""
        return np.random.default_rng(self.draw(st.integers(0, 2**16 - 1)))

    def emit(self, line: str) -> None:
        """Add an op."""
        self.lines.append(line)

    # Constants

    def elements(self, bits: Bits, element: str, width: int, *, may_be_resource: bool) -> str:
        """An elements attribute."""
        shape = bits.shape
        type = tensor(shape, element)
        raw = bits.astype(f"<u{max(1, 1 << max(0, (width + 7) // 8 - 1).bit_length())}")
        if may_be_resource and self.chance(5):
            key = f"blob_{self.number}_{len(self.resources)}"
            alignment = max(raw.itemsize, 4).to_bytes(4, "little")
            self.resources.append(f'{key}: "0x{(alignment + raw.tobytes()).hex()}"')
            return f"dense_resource<{key}> : {type}"
        is_float = element in ("f16", "bf16", "f32", "f64")
        if width >= 8 and element != "i1" and self.chance(3):
            return f'dense<"0x{raw.tobytes().hex().upper()}"> : {type}'
        if is_float:
            items = [f"0x{int(b):0{width // 4}X}" for b in bits.ravel()]
        elif element == "i1":
            items = ["true" if b else "false" for b in bits.ravel()]
        else:
            storage = Storage.of(width, signed=not element.startswith("u"))
            items = [str(int(code)) for code in storage.codes(bits).ravel()]
        if len(set(items)) == 1 and self.chance(2):
            return f"dense<{items[0]}> : {type}"
        return f"dense<{nested(items, shape)}> : {type}"

    def new_source(
        self, op: str, bits: Bits, layer: Layer, attribute_element: str, width: int
    ) -> Node:
        """A constant op."""
        name = self.fresh("w")
        number = len(self.constants)
        node = Node(
            name,
            op,
            bits.shape,
            bits,
            (layer,),
            (),
            np.full(bits.shape, number),
            np.arange(bits.size).reshape(bits.shape) + 10_000 * number,
            is_source=True,
        )
        self.constants.append(node)
        self.nodes.append(node)
        is_own = op == "quant.constant"
        attribute = self.elements(bits, attribute_element, width, may_be_resource=not is_own)
        profile = f'profile = "{name}"'
        key = "values" if op == "tosa.const" else "value"
        is_resource = attribute.startswith("dense_resource")
        if is_own and not is_resource and self.chance(2):
            text = attribute.rpartition(" : ")[0]
            self.emit(f"%{name} = quant.constant {text} {{{profile}}} : {node.type}")
        elif op == "arith.constant" and self.chance(2):
            self.emit(f"%{name} = arith.constant {{{profile}}} {attribute}")
        elif op == "stablehlo.constant" and self.chance(2):
            self.emit(f'%{name} = "{op}"() {{{key} = {attribute}, {profile}}} : () -> {node.type}')
        else:
            self.emit(
                f'%{name} = "{op}"() <{{{key} = {attribute}}}> {{{profile}}} : () -> {node.type}'
            )
        return node

    def plain_constant(self, shape: Shape, element: str) -> Node:
        """Floats, with NaNs and both zeros among them, or integers."""
        width = PLAIN[element]
        options = [
            op
            for op, dialect in (
                ("arith.constant", "arith"),
                ("tosa.const", "tosa"),
                ("stablehlo.constant", "stablehlo"),
            )
            if dialect in self.dialects or dialect == "arith"
        ]
        random = self.random()
        bits = (
            random.integers(0, 1 << width, shape, dtype=np.uint64, endpoint=False)
            if (width < 64)
            else random.integers(0, 2**64 - 1, shape, dtype=np.uint64)
        )
        specials = {
            "f32": [0x80000000, 0x7FA00001, 0xFFC12345, 0],
            "f64": [0x8000000000000000, 0x7FF4000000000001, 0],
            "f16": [0x8000, 0x7D01, 0],
            "bf16": [0x8000, 0x7FA1, 0],
        }.get(element, [0, (1 << width) - 1])
        is_special = random.integers(0, 4, shape) == 0
        bits = np.where(
            is_special,
            np.array(specials, dtype=np.uint64)[random.integers(0, len(specials), shape)],
            bits,
        )
        if self.chance(6):
            bits = np.full(shape, bits.flat[0])
        return self.new_source(
            self.draw(st.sampled_from(options)), bits, Layer(element), element, width
        )

    def random_spelling(self, storage: Storage, shape: Shape, finest: str) -> Spelling:
        """A type of distinct slots."""
        kinds = ["per-tensor", "per-axis", "sub-channel"]
        kind = self.draw(st.sampled_from(kinds[: kinds.index(finest) + 1]))
        counts = [1] * len(shape)
        if kind == "per-axis" and shape:
            axis = self.draw(st.integers(0, len(shape) - 1))
            counts[axis] = shape[axis]
        elif kind == "sub-channel":
            counts = [self.draw(st.sampled_from(divisors(n))) for n in shape]
        ids = np.arange(math.prod(counts)).reshape(counts) + self.draw(st.integers(0, 40))
        unit = self.draw(st.sampled_from([1 / 64, 0.1]))
        scales = (ids + 1) * unit
        zero_points = storage.low + ids % (storage.high - storage.low + 1)
        blocks = [n // count for n, count in zip(shape, counts, strict=True)]
        for axis, block in enumerate(blocks):
            scales, zero_points = scales.repeat(block, axis), zero_points.repeat(block, axis)
        return spelled(storage, scales, zero_points, blocks)

    def quantized_constant(self, shape: Shape, storage: Storage, spelling: Spelling) -> Node:
        """Random elements of a type, from one op or behind a storage cast."""
        options = ["quant.constant", "arith.constant"]
        if "tosa" in self.dialects and storage.width in TOSA_WIDTHS:
            options.append("tosa.const")
        if "stablehlo" in self.dialects and not spelling.blocks:
            options.append("stablehlo.constant")
        if self.constants:
            # What is joined has been cast alike.
            is_arith = self.constants[0].op == "arith.constant"
            options = [op for op in options if (op == "arith.constant") is is_arith]
        if self.quantizes_as_upstream:
            options = [op for op in options if op != "quant.constant"]
        op = self.draw(st.sampled_from(options))
        codes = np.asarray(self.random().integers(storage.low, storage.high, shape, endpoint=True))
        if self.chance(6):
            codes = np.full(shape, codes.flat[0])
        read = spelling.on(shape)
        assert read is not None
        layer = Layer(spelling.text, storage, *read, spelling)
        bits = storage.bits(codes)
        if op == "arith.constant":
            source = self.new_source(
                op, bits, Layer(storage.signless), storage.signless, storage.width
            )
            return self.cast("quant.scast", source, layer)
        element = storage.stored
        if op == "stablehlo.constant" and (self.quantizes_as_upstream or self.chance(2)):
            # Which is what its verifier wants.
            element = storage.signless
        return self.new_source(op, bits, layer, element, storage.width)

    def cast(self, op: str, node: Node, layer: Layer) -> Node:
        """A cast of all elements."""
        name = self.fresh("c")
        result = replace(
            node,
            name=name,
            op=op,
            layers=(*node.layers, layer),
            casts=(*node.casts, op),
            operands=(node,),
            is_source=False,
        )
        self.nodes.append(result)
        if op.startswith("quant.") and self.chance(2):
            self.emit(f"%{name} = {op} %{node.name} : {node.type} to {result.type}")
        else:
            self.emit(f'%{name} = "{op}"(%{node.name}) : ({node.type}) -> {result.type}')
        return result

    def start(self, shape: Shape) -> Node:
        """A constant, cast to the domain of the shape ops."""
        if self.domain == "plain":
            # LLVM has changed how the text of many i1 is packed: IREE reads it otherwise.
            elements = [e for e in sorted(PLAIN) if e != "i1" or not self.is_verified_by_stablehlo]
            return self.plain_constant(shape, self.draw(st.sampled_from(elements)))
        storages = STORAGES
        needs_tosa = "tosa" in self.dialects
        if needs_tosa or self.quantizes_as_upstream:
            storages = [s for s in STORAGES if s.width in TOSA_WIDTHS]
        if self.is_verified_by_stablehlo:
            storages = [s for s in storages if s.signed]
        storage = self.draw(st.sampled_from(storages))
        return self.like(shape, storage)

    @property
    def is_verified_by_stablehlo(self) -> bool:
        """Whether shape ops must be of per-tensor types."""
        return self.quantizes_as_upstream and "stablehlo" in self.dialects

    def like(self, shape: Shape, storage: Storage, spelling: Spelling | None = None) -> Node:
        """A constant of the domain."""
        if spelling is None:
            finest = "per-axis" if "stablehlo" in self.dialects else "sub-channel"
            if self.is_verified_by_stablehlo and self.domain == "quantized":
                finest = "per-tensor"
            spelling = self.random_spelling(storage, shape, finest)
        node = self.quantized_constant(shape, storage, spelling)
        if self.domain == "storage":
            return self.cast("quant.scast", node, Layer(storage.signless))
        if self.domain == "float":
            options = ["quant.dcast"]
            if "stablehlo" in self.dialects:
                options.append("stablehlo.uniform_dequantize")
            if "tosa" in self.dialects:
                options.append("tosa.cast")
            earlier = [n.op for n in self.nodes if n.op in DEQUANTIZING]
            op = earlier[0] if earlier else self.draw(st.sampled_from(options))
            return self.cast(op, node, Layer("f32"))
        return node

    def sibling(self, node: Node, shape: Shape, *, same_type: bool) -> Node | None:
        """Another constant of the domain, to be joined with `node`."""
        if node.is_plain:
            return self.plain_constant(shape, node.layer.element)
        storage = next(layer.storage for layer in node.layers if layer.storage is not None)
        spelling = node.layer.spelling if same_type and node.is_quantized else None
        if spelling is not None and spelling.on(shape) is None:
            return None
        return self.like(shape, storage, spelling)

    def integers(self, values: NDArray[Any], element: str, dialect: str) -> tuple[str, str]:
        """A constant of integers: its name, and its type."""
        name = self.fresh("k")
        type = tensor(values.shape, element)
        items = [str(int(value)) for value in values.ravel()]
        dense = f"dense<{nested(items, values.shape) if values.size else ''}> : {type}"
        op = {"tosa": "tosa.const", "stablehlo": "stablehlo.constant"}.get(dialect)
        if op is None:
            self.emit(f"%{name} = arith.constant {dense}")
        else:
            key = "values" if dialect == "tosa" else "value"
            self.emit(f'%{name} = "{op}"() <{{{key} = {dense}}}> : () -> {type}')
        return name, type

    def tosa_shape(self, values: Sequence[int]) -> tuple[str, str]:
        """A shape of tosa: its name, and its type."""
        name, rank = self.fresh("k"), len(values)
        items = f"[{', '.join(map(str, values))}]" if values else ""
        self.emit(
            f'%{name} = "tosa.const_shape"() <{{values = dense<{items}> : '
            f"tensor<{rank}xindex>}}> : () -> !tosa.shape<{rank}>"
        )
        return name, f"!tosa.shape<{rank}>"

    # Shape ops

    def declared(self, op: str, operands: Sequence[Node], read: Layer) -> Layer:
        """The type that an op says its result has, right or wrong."""
        assert read.scales is not None
        assert read.zero_points is not None
        assert read.storage is not None
        first = operands[0].layer.spelling
        assert first is not None
        dialect = op.partition(".")[0]
        blocks = coarsest_blocks(read.scales.astype(np.float32), read.zero_points)
        cut = [axis for axis, n in enumerate(read.scales.shape) if blocks[axis] < n]
        is_stablehlo = dialect != "quant" and "stablehlo" in self.dialects
        right: Spelling | None = None
        if len(cut) < 2 or not is_stablehlo:
            if not is_stablehlo and self.chance(3):
                blocks = [self.draw(st.sampled_from(divisors(block))) for block in blocks]
            right = spelled(
                read.storage, read.scales, read.zero_points, blocks, per_axis=is_stablehlo
            )
        wrong = None if right is None else replace(right, scales=right.scales * 2)
        if (
            dialect in ("tensor", "linalg")
            or op in ("tosa.transpose", "tosa.concat", "tosa.reshape")
            or (self.quantizes_as_upstream)
        ):
            chosen: Spelling | None = first
        elif dialect == "quant":
            chosen = right
        else:
            chosen = self.draw(st.sampled_from([right, right, right, right, first, wrong])) or first
            are_per_tensor = [s.layer.spelling for s in operands] + [chosen]
            if dialect == "tosa" and all(s is None or s.is_per_tensor for s in are_per_tensor):
                chosen = first
        assert chosen is not None
        meant = chosen.on(read.scales.shape)
        return Layer(chosen.text, read.storage, *(meant or (None, None)), spelling=chosen)

    def apply(
        self,
        op: str,
        operands: Sequence[Node],
        index: Ints,
        write: Write,
        *,
        is_inside: NDArray[np.bool_] | None = None,
        fill: Callable[[Node], tuple[Bits, bool | None]] | None = None,
    ) -> Node:
        """
        The result whose elements are at `index` of the operands, one after another, flat.

        `write` makes the text from the names of the result and its type.
        """

        index = np.asarray(index)

        def flat(arrays: Sequence[Any]) -> Any:
            return np.concatenate([np.reshape(a, -1) for a in arrays])

        def moved(at: int) -> Layer:
            layers = [node.layers[at] for node in operands]
            if layers[0].storage is None:
                return layers[0]
            scales = flat([layer.scales for layer in layers])
            return layers[0].moved(index, scales, flat([layer.zero_points for layer in layers]))

        layers = [moved(at) for at in range(len(operands[0].layers))]
        result = Node(
            self.fresh("s"),
            op,
            index.shape,
            np.asarray(flat([node.bits for node in operands])[index]),
            tuple(layers),
            operands[0].casts,
            np.asarray(flat([node.origins for node in operands])[index]),
            np.asarray(flat([node.places for node in operands])[index]),
            tuple(operands),
        )
        known = [node.is_constant for node in operands]
        result.is_constant = False if False in known else None if None in known else True
        read = layers[-1]
        if operands[0].is_quantized:
            declared = self.declared(op, operands, read)
            result.layers = (*layers[:-1], declared)
            result.is_lie = declared.scales is None or not (
                np.array_equal(np.float32(declared.scales), np.float32(read.scales))
                and np.array_equal(declared.zero_points, read.zero_points)  # pyright: ignore[reportArgumentType]
            )
        if fill is not None and is_inside is not None:
            shown = result.layers
            result.layers = tuple(layers)
            bits, is_stored = fill(result)
            result.layers = shown
            result.bits = np.where(is_inside, result.bits, bits)
            result.places = np.where(is_inside, result.places, -1)
            result.is_padding_stored = is_stored
            if is_stored is not True and result.is_constant is not False:
                result.is_constant = is_stored
        if result.is_lie:
            result.is_constant = False
        self.emit(write(f"%{result.name}", result.type))
        self.nodes.append(result)
        return result


# Ops, one function for each: what it makes of a value, or None if it does not take it


def positions(node: Node) -> Ints:
    """The flat position of each element."""
    return np.arange(math.prod(node.shape)).reshape(node.shape)


def generic(
    fn: Function,
    op: str,
    operands: Sequence[tuple[str, str]],
    properties: str,
    region: str = "",
) -> Write:
    """An op in generic form."""
    names = ", ".join(f"%{name}" for name, _ in operands)
    types = ", ".join(type for _, type in operands)
    held = ""
    if properties:
        as_attributes = op.startswith("stablehlo.") and fn.chance(2)
        held = f" {{{properties}}}" if as_attributes else f" <{{{properties}}}>"
    return lambda name, type: f'{name} = "{op}"({names}){held}{region} : ({types}) -> {type}'


def either(fn: Function, write: Write, otherwise: Write) -> Write:
    """One of two forms."""
    return write if fn.chance(2) else otherwise


def of(node: Node) -> tuple[str, str]:
    """The name and the type of a value."""
    return node.name, node.type


def permutation_of(fn: Function, rank: int) -> tuple[int, ...]:
    return tuple(fn.draw(st.permutations(range(rank))))


@dataclass(frozen=True)
class Cut:
    """Offsets, sizes and strides."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def drawn(cls, fn: Function, shape: Shape, *, strides: bool = True) -> Cut:
        """A part of a tensor."""
        parts: list[tuple[int, int, int]] = []
        for length in shape:
            offset = fn.draw(st.integers(0, length - 1)) if fn.chance(2) else 0
            stride = fn.draw(st.sampled_from([1, 1, 2, 3])) if strides else 1
            most = -(-(length - offset) // stride)
            size = fn.draw(st.integers(1, most)) if fn.chance(2) else most
            parts.append((offset, size, stride))
        offsets, sizes, steps = zip(*parts, strict=True) if parts else ((), (), ())
        return cls(offsets, sizes, steps)

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """The part, as a view."""
        return array[
            ...,
            *(
                slice(offset, offset + (size - 1) * stride + 1, stride)
                for offset, size, stride in zip(self.offsets, self.sizes, self.strides, strict=True)
            ),
        ]

    @property
    def properties(self) -> str:
        """As the tensor dialect has it."""
        return (
            f"static_offsets = {array('i64', self.offsets)}, "
            f"static_sizes = {array('i64', self.sizes)}, "
            f"static_strides = {array('i64', self.strides)}"
        )

    @property
    def text(self) -> str:
        """As the tensor dialect writes it."""
        return f"{list(self.offsets)} {list(self.sizes)} {list(self.strides)}"


def tensor_reshape(fn: Function, node: Node) -> Node:
    shape = fn.draw(reshaped(node.shape))
    element = fn.draw(st.sampled_from(["index", "i32", "i64"]))
    to = fn.integers(np.array(shape, dtype=np.int64), element, "arith")
    write = generic(fn, "tensor.reshape", [of(node), to], "")
    write = either(
        fn,
        write,
        lambda name, type: (
            f"{name} = tensor.reshape %{node.name}(%{to[0]}) : ({node.type}, {to[1]}) -> {type}"
        ),
    )
    return fn.apply("tensor.reshape", [node], positions(node).reshape(shape), write)


def groups_of(fn: Function, rank: int) -> list[list[int]]:
    """Neighbouring axes, in one or more groups."""
    groups: list[list[int]] = []
    for axis in range(rank):
        if groups and fn.chance(2):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def tensor_collapse_shape(fn: Function, node: Node) -> Node | None:
    if not node.shape:
        return None
    groups = groups_of(fn, len(node.shape))
    shape = tuple(math.prod(node.shape[axis] for axis in group) for group in groups)
    write = generic(fn, "tensor.collapse_shape", [of(node)], f"reassociation = {groups}")
    write = either(
        fn,
        write,
        lambda name, type: (
            f"{name} = tensor.collapse_shape %{node.name} {groups} : {node.type} into {type}"
        ),
    )
    return fn.apply("tensor.collapse_shape", [node], positions(node).reshape(shape), write)


def tensor_expand_shape(fn: Function, node: Node) -> Node | None:
    shape: list[int] = []
    groups: list[list[int]] = []
    for length in node.shape:
        first = fn.draw(st.sampled_from(divisors(length)))
        group = fn.draw(st.sampled_from([[length], [first, length // first], [1, length]]))
        groups.append(list(range(len(shape), len(shape) + len(group))))
        shape += group
    if not 0 < len(shape) <= 6:
        return None
    write = generic(
        fn,
        "tensor.expand_shape",
        [of(node)],
        f"reassociation = {groups}, static_output_shape = {array('i64', shape)}",
    )
    write = either(
        fn,
        write,
        lambda name, type: (
            f"{name} = tensor.expand_shape %{node.name} {groups} output_shape {shape} : "
            f"{node.type} into {type}"
        ),
    )
    return fn.apply("tensor.expand_shape", [node], positions(node).reshape(shape), write)


def without_units(fn: Function, shape: Shape) -> Shape:
    """The same, where some of the axes of one position are left out."""
    return tuple(n for n in shape if n != 1 or fn.chance(2))


def tensor_extract_slice(fn: Function, node: Node) -> Node:
    cut = Cut.drawn(fn, node.shape)
    shape = without_units(fn, cut.sizes) if fn.chance(2) else cut.sizes
    segments = "operandSegmentSizes = array<i32: 1, 0, 0, 0>"
    write = generic(fn, "tensor.extract_slice", [of(node)], f"{segments}, {cut.properties}")
    write = either(
        fn,
        write,
        lambda name, type: (
            f"{name} = tensor.extract_slice %{node.name}{cut.text} : {node.type} to {type}"
        ),
    )
    return fn.apply("tensor.extract_slice", [node], cut.of(positions(node)).reshape(shape), write)


def tensor_insert_slice(fn: Function, node: Node) -> Node | None:
    first = node.layer.spelling
    if node.is_quantized and (first is None or not first.is_per_tensor):
        return None
    cut = Cut.drawn(fn, node.shape)
    shape = without_units(fn, cut.sizes) if fn.chance(2) else cut.sizes
    source = fn.sibling(node, shape, same_type=True)
    if source is None:
        return None
    index = np.asarray(math.prod(shape) + positions(node))
    cut.of(index)[...] = positions(source).reshape(cut.sizes)
    segments = "operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>"
    operands = [of(source), of(node)]
    write = generic(fn, "tensor.insert_slice", operands, f"{segments}, {cut.properties}")
    write = either(
        fn,
        write,
        lambda name, type: (
            f"{name} = tensor.insert_slice %{source.name} into %{node.name}{cut.text} : "
            f"{source.type} into {type}"
        ),
    )
    return fn.apply("tensor.insert_slice", [source, node], index, write)


def joined(fn: Function, node: Node, *, same_type: bool) -> tuple[list[Node], int] | None:
    """Values to concatenate, and the axis."""
    if not node.shape:
        return None
    axis = fn.draw(st.integers(0, len(node.shape) - 1))
    shape = list(node.shape)
    if not same_type:
        shape[axis] = fn.draw(st.integers(1, 4))
    other = fn.sibling(node, tuple(shape), same_type=same_type)
    if other is None or (same_type and other.type != node.type and node.is_quantized):
        return None
    return fn.draw(st.sampled_from([[node, other], [other, node], [node, other, node]])), axis


def concatenated(nodes: Sequence[Node], axis: int) -> Ints:
    """Where elements come from."""
    parts: list[Ints] = []
    start = 0
    for node in nodes:
        parts.append(start + positions(node))
        start += math.prod(node.shape)
    return np.concatenate(parts, axis)


def concat(fn: Function, node: Node, op: str, attribute: str) -> Node | None:
    has_one_type = fn.quantizes_as_upstream or op != "stablehlo.concatenate"
    found = joined(fn, node, same_type=node.is_quantized and has_one_type)
    if found is None:
        return None
    nodes, axis = found
    kind = "i32" if op.startswith("tosa.") else "i64"
    write = generic(fn, op, [of(n) for n in nodes], f"{attribute} = {axis} : {kind}")
    names = ", ".join(f"%{n.name}" for n in nodes)
    types = ", ".join(n.type for n in nodes)
    if op == "tensor.concat":
        write = either(
            fn,
            write,
            lambda name, type: f"{name} = tensor.concat dim({axis}) {names} : ({types}) -> {type}",
        )
    return fn.apply(op, nodes, concatenated(nodes, axis), write)


def tensor_concat(fn: Function, node: Node) -> Node | None:
    return concat(fn, node, "tensor.concat", "dim")


def tosa_concat(fn: Function, node: Node) -> Node | None:
    return concat(fn, node, "tosa.concat", "axis")


def stablehlo_concatenate(fn: Function, node: Node) -> Node | None:
    return concat(fn, node, "stablehlo.concatenate", "dimension")


# Padding


@dataclass(frozen=True)
class Widths:
    """Of each axis; those at the edges may be negative."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]

    @classmethod
    def drawn(cls, fn: Function, shape: Shape, least: int = 0, most_between: int = 0) -> Widths:
        """Widths that leave something on every axis."""
        parts: list[tuple[int, int, int]] = []
        for length in shape:
            between = fn.draw(st.integers(0, most_between))
            whole = length + (length - 1) * between
            low = fn.draw(st.integers(max(least, 1 - whole), 2))
            high = fn.draw(st.integers(max(least, 1 - whole - min(low, 0)), 2))
            parts.append((low, high, between))
        low, high, interior = zip(*parts, strict=True) if parts else ((), (), ())
        return cls(low, high, interior)

    def on(self, shape: Shape) -> tuple[list[Ints], list[NDArray[np.bool_]]]:
        """For each axis the positions that are nearest, or just before, and which are there."""
        nearest: list[Ints] = []
        is_there: list[NDArray[np.bool_]] = []
        for length, low, high, between in zip(
            shape, self.low, self.high, self.interior, strict=True
        ):
            step = between + 1
            at = np.arange(-low, (length - 1) * step + 1 + high)
            nearest.append(np.clip(at, 0, (length - 1) * step) // step)
            is_there.append((at >= 0) & (at <= (length - 1) * step) & (at % step == 0))
        return nearest, is_there

    def padded(self, node: Node) -> tuple[Ints, NDArray[np.bool_]]:
        """Where the elements come from, and whether they are there at all."""
        nearest, is_there = self.on(node.shape)
        if not nearest:
            return positions(node), np.ones((), dtype=bool)
        inside = np.ones((), dtype=bool)
        for axis, there in enumerate(is_there):
            inside = inside[..., np.newaxis] & there if axis else there
        return positions(node)[np.ix_(*nearest)], inside

    @property
    def without_cuts(self) -> Widths:
        """The same, where nothing is taken away."""
        return Widths(
            tuple(max(n, 0) for n in self.low), tuple(max(n, 0) for n in self.high), self.interior
        )


def code_of(real: np.float32, scale: float, zero_point: int, storage: Storage) -> int | None:
    """The integer that is read as `real`, bit for bit."""
    codes = np.arange(storage.low, storage.high + 1)
    read = (codes - zero_point).astype(np.float32) * np.float32(scale)
    found = codes[read.view(np.uint32) == real.view(np.uint32)]
    assert len(found) < 2
    return int(found[0]) if len(found) else None


def codes_of(real: np.float32, layer: Layer, where: NDArray[np.bool_]) -> tuple[Bits, bool]:
    """What is stored for `real` where it is, and whether that can be."""
    storage, scales, zero_points = layer.storage, layer.scales, layer.zero_points
    assert storage is not None
    assert scales is not None
    assert zero_points is not None
    codes = np.zeros(where.shape, dtype=np.int64)
    pairs = {(float(s), int(z)) for s, z in zip(scales[where], zero_points[where], strict=True)}
    for scale, zero_point in pairs:
        code = code_of(real, scale, zero_point, storage)
        if code is None:
            return storage.bits(codes), False
        codes[(scales == scale) & (zero_points == zero_point)] = code
    return storage.bits(codes), True


@dataclass
class Padding:
    """What is padded with: a scalar or a tensor of one element."""

    name: str
    type: str
    fill: Callable[[Node], tuple[Bits, bool | None]]


def padding(fn: Function, node: Node, widths: Widths, kind: str, like: Spelling | None) -> Padding:
    """
    A constant to pad `node` with: a `scalar`, or of the dialect `tosa` or `stablehlo`.

    `like` is the type that it must have, if there is one.
    """
    _, inside = widths.padded(node)
    whole_index, whole_inside = widths.without_cuts.padded(node)
    element = node.layer.element
    shape = {"scalar": None, "tosa": (1,), "stablehlo": ()}[kind]

    def constant(value: str, element: str) -> tuple[str, str]:
        name = fn.fresh("k")
        if shape is None:
            type = "" if element == "i1" else f" : {element}"
            fn.emit(f"%{name} = arith.constant {value}{type}")
            return name, element
        key, op = ("values", "tosa.const") if kind == "tosa" else ("value", "stablehlo.constant")
        stored = element
        if element.startswith("!quant"):
            assert storage is not None
            stored = storage.stored
        dense = f"dense<{value}> : {tensor(shape, stored)}"
        type = tensor(shape, element)
        fn.emit(f'%{name} = "{op}"() <{{{key} = {dense}}}> : () -> {type}')
        return name, type

    storage = next((layer.storage for layer in node.layers if layer.storage is not None), None)
    if storage is None:
        width = PLAIN[element]
        bits = int(fn.random().integers(0, 1 << min(width, 62)))
        if element.startswith("i"):
            code = int(Storage.of(width, signed=True).codes(np.array(bits, dtype=np.uint64)))
            text = str(bits == 1).lower() if element == "i1" else str(code)
        else:
            if shape is None:
                # A scalar of xDSL does not hold the bits of a NaN.
                bits &= ~(1 << (width - 2))
            text = f"0x{bits:0{width // 4}X}"
        name, type = constant(text, element)
        return Padding(name, type, lambda result: (np.full(result.shape, np.uint64(bits)), True))
    low, high = storage.low, storage.high
    if fn.domain == "storage":
        code = fn.draw(st.integers(low, high))
        bits = int(storage.bits(np.array(code)))
        signless = int(
            Storage.of(storage.width, signed=True).codes(np.array(bits, dtype=np.uint64))
        )
        text = str(bits == 1).lower() if storage.width == 1 else str(signless)
        name, type = constant(text, element)
        return Padding(name, type, lambda result: (np.full(result.shape, np.uint64(bits)), True))
    read = next(layer for layer in node.layers if layer.storage is not None)
    assert read.scales is not None
    assert read.zero_points is not None
    scale, zero = read.scales.flat[0], read.zero_points.flat[0]
    if fn.domain == "float":
        some = np.float32(fn.draw(st.integers(low, high)) - zero) * np.float32(scale)
        real = np.float32(fn.draw(st.sampled_from([0.0, 0.0, -0.0, some, some, 0.3, 1e30])))
        name, type = constant(f"0x{int(real.view(np.uint32)):08X}", "f32")
    else:
        spelling = like or fn.random_spelling(storage, (), "per-tensor")
        code = fn.draw(st.integers(low, high))
        zero = int(spelling.zero_points.item())
        if fn.chance(3):
            code = zero
        real = np.float32(code - zero) * np.float32(spelling.scales.item())
        stored = str(bool(code)).lower() if storage.width == 1 else str(code)
        if shape is None:
            signless = code - (1 << storage.width) if code >= 1 << (storage.width - 1) else code
            stored = str(bool(code)).lower() if storage.width == 1 else str(signless)
            inner, inner_type = constant(stored, storage.signless)
            name, type = fn.fresh("k"), spelling.text
            fn.emit(f"%{name} = quant.scast %{inner} : {inner_type} to {type}")
        else:
            name, type = constant(stored, spelling.text)

    def fill(result: Node) -> tuple[Bits, bool | None]:
        layer = next(layer for layer in result.layers if layer.storage is not None)
        bits, is_stored = codes_of(real, layer, ~inside)
        assert read.scales is not None
        assert read.zero_points is not None
        whole = replace(
            read,
            scales=read.scales.reshape(-1)[whole_index],
            zero_points=read.zero_points.reshape(-1)[whole_index],
        )
        _, is_whole_stored = codes_of(real, whole, ~whole_inside)
        return bits, None if is_stored and not is_whole_stored else is_stored

    return Padding(name, type, fill)


def tensor_pad(fn: Function, node: Node) -> Node | None:
    rank = len(node.shape)
    like = node.layer.spelling
    is_per_tensor = like is not None and like.is_per_tensor
    if rank == 0 or (node.is_quantized and fn.quantizes_as_upstream and not is_per_tensor):
        return None
    widths = Widths.drawn(fn, node.shape)
    like = like if fn.quantizes_as_upstream else None
    element = padding(fn, node, widths, "scalar", like)
    index, inside = widths.padded(node)
    arguments = ", ".join(f"%{element.name}i{axis}: index" for axis in range(rank))
    low, high = array("i64", widths.low), array("i64", widths.high)
    region = (
        f" ({{\n  ^bb0({arguments}):\n"
        f'    "tensor.yield"(%{element.name}) : ({element.type}) -> ()\n  }})'
    )
    write = generic(
        fn,
        "tensor.pad",
        [of(node)],
        f"operandSegmentSizes = array<i32: 1, 0, 0>, static_low = {low}, static_high = {high}",
        region,
    )
    return fn.apply("tensor.pad", [node], index, write, is_inside=inside, fill=element.fill)


def tosa_pad(fn: Function, node: Node) -> Node | None:
    if not node.shape:
        return None
    like = node.layer.spelling
    if like is not None and not like.is_per_tensor:
        return None
    widths = Widths.drawn(fn, node.shape)
    by = fn.tosa_shape([n for pair in zip(widths.low, widths.high, strict=True) for n in pair])
    element = padding(fn, node, widths, "tosa", like)
    index, inside = widths.padded(node)
    operands = [of(node), by, (element.name, element.type)]
    write = tosa_text(fn, "tosa.pad", operands, "")
    return fn.apply("tosa.pad", [node], index, write, is_inside=inside, fill=element.fill)


def stablehlo_pad(fn: Function, node: Node) -> Node:
    widths = Widths.drawn(fn, node.shape, least=-2, most_between=2)
    like = node.layer.spelling
    like = like if like is not None and like.is_per_tensor and fn.quantizes_as_upstream else None
    element = padding(fn, node, widths, "stablehlo", like)
    index, inside = widths.padded(node)
    properties = (
        f"edge_padding_low = {array('i64', widths.low)}, "
        f"edge_padding_high = {array('i64', widths.high)}, "
        f"interior_padding = {array('i64', widths.interior)}"
    )
    write = generic(fn, "stablehlo.pad", [of(node), (element.name, element.type)], properties)
    return fn.apply("stablehlo.pad", [node], index, write, is_inside=inside, fill=element.fill)


# linalg


def empty(fn: Function, type: str) -> str:
    name = fn.fresh("k")
    fn.emit(f"%{name} = tensor.empty() : {type}")
    return name


def linalg(
    fn: Function, op: str, node: Node, index: Ints, properties: str, custom: str | None
) -> Node:
    def write(name: str, type: str) -> str:
        to = empty(fn, type)
        inputs, outputs = node.layer.element, type[: -len(">")]
        element = node.layer.element
        assert inputs in outputs
        ends = f"ins(%{node.name} : {node.type}) outs(%{to} : {type})"
        region = (
            f"({{\n  ^bb0(%{to}a: {element}, %{to}b: {element}):\n"
            f'    "linalg.yield"(%{to}a) : ({element}) -> ()\n  }})'
        )
        if custom is not None:
            if op == "linalg.generic":
                return (
                    f"{name} = linalg.generic {custom} {ends} {{\n"
                    f"  ^bb0(%{to}a: {element}, %{to}b: {element}):\n"
                    f"    linalg.yield %{to}a : {element}\n  }} -> {type}"
                )
            return f"{name} = {op} {ends} {custom}"
        return (
            f'{name} = "{op}"(%{node.name}, %{to}) <{{{properties}}}> {region} : '
            f"({node.type}, {type}) -> {type}"
        )

    return fn.apply(op, [node], index, write)


def has_custom_region(fn: Function, node: Node) -> bool:
    # xDSL makes the region of a named op of plain types only.
    return not node.is_quantized and fn.chance(2)


def linalg_transpose(fn: Function, node: Node) -> Node:
    axes = permutation_of(fn, len(node.shape))
    custom = f"permutation = {list(axes)}" if has_custom_region(fn, node) else None
    index = positions(node).transpose(axes)
    return linalg(
        fn, "linalg.transpose", node, index, f"permutation = {array('i64', axes)}", custom
    )


def linalg_broadcast(fn: Function, node: Node) -> Node | None:
    rank = len(node.shape) + fn.draw(st.integers(0, 2))
    new = sorted(fn.draw(st.permutations(range(rank)))[: rank - len(node.shape)])
    index = positions(node)
    for axis in new:
        index = np.repeat(np.expand_dims(index, axis), fn.draw(st.integers(1, 3)), axis)
    custom = f"dimensions = {new}" if has_custom_region(fn, node) else None
    return linalg(fn, "linalg.broadcast", node, index, f"dimensions = {array('i64', new)}", custom)


def linalg_generic(fn: Function, node: Node) -> Node:
    """Axes in another order, in loops in another order, with new axes and units read at zero."""
    kept = [axis for axis, n in enumerate(node.shape) if n != 1 or fn.chance(2)]
    index = positions(node).reshape([node.shape[axis] for axis in kept])
    for axis in range(len(kept), len(kept) + fn.draw(st.integers(0, 2))):
        index = np.repeat(np.expand_dims(index, axis), fn.draw(st.integers(1, 3)), axis)
    loops = permutation_of(fn, index.ndim)
    written = permutation_of(fn, index.ndim)
    index = index.transpose(written)
    names = ", ".join(f"d{loop}" for loop in range(index.ndim))
    reads = [
        f"d{loops[kept.index(axis)]}" if axis in kept else "0" for axis in range(len(node.shape))
    ]
    writes = [f"d{loops[axis]}" for axis in written]
    maps = ", ".join(
        f"affine_map<({names}) -> ({', '.join(results)})>" for results in (reads, writes)
    )
    kinds = ", ".join(["#linalg.iterator_type<parallel>"] * index.ndim)
    properties = (
        f"indexing_maps = [{maps}], iterator_types = [{kinds}], "
        "operandSegmentSizes = array<i32: 1, 1>"
    )
    quoted = ", ".join(['"parallel"'] * index.ndim)
    custom = f"{{indexing_maps = [{maps}], iterator_types = [{quoted}]}}" if fn.chance(2) else None
    return linalg(fn, "linalg.generic", node, index, properties, custom)


# tosa


def tosa_text(fn: Function, op: str, operands: Sequence[tuple[str, str]], properties: str) -> Write:
    if fn.chance(2) or op in ("tosa.concat",):
        return generic(fn, op, operands, properties)
    names = ", ".join(f"%{name}" for name, _ in operands)
    types = ", ".join(type for _, type in operands)
    held = f" {{{properties}}}" if properties else ""
    return lambda name, type: f"{name} = {op} {names}{held} : ({types}) -> {type}"


def tosa(
    fn: Function,
    op: str,
    node: Node,
    others: Sequence[tuple[str, str]],
    index: Ints,
    text: str = "",
) -> Node:
    return fn.apply(op, [node], index, tosa_text(fn, op, [of(node), *others], text))


def tosa_transpose(fn: Function, node: Node) -> Node | None:
    if not node.shape:
        return None
    axes = permutation_of(fn, len(node.shape))
    index = positions(node).transpose(axes)
    return tosa(fn, "tosa.transpose", node, [], index, f"perms = {array('i32', axes)}")


def tosa_reshape(fn: Function, node: Node) -> Node:
    shape = fn.draw(reshaped(node.shape))
    return tosa(fn, "tosa.reshape", node, [fn.tosa_shape(shape)], positions(node).reshape(shape))


def tosa_slice(fn: Function, node: Node) -> Node | None:
    if not node.shape:
        return None
    cut = Cut.drawn(fn, node.shape, strides=False)
    others = [fn.tosa_shape(cut.offsets), fn.tosa_shape(cut.sizes)]
    return tosa(fn, "tosa.slice", node, others, cut.of(positions(node)))


def tosa_reverse(fn: Function, node: Node) -> Node | None:
    if not node.shape:
        return None
    axis = fn.draw(st.integers(0, len(node.shape) - 1))
    return tosa(
        fn, "tosa.reverse", node, [], np.flip(positions(node), axis), f"axis = {axis} : i32"
    )


def tosa_tile(fn: Function, node: Node) -> Node | None:
    if not node.shape:
        return None
    counts = [fn.draw(st.sampled_from([1, 1, 2, 3])) for _ in node.shape]
    return tosa(fn, "tosa.tile", node, [fn.tosa_shape(counts)], np.tile(positions(node), counts))


def tosa_gather(fn: Function, node: Node) -> Node | None:
    if len(node.shape) != 3:
        return None
    batches, length, _ = node.shape
    wanted = fn.draw(st.integers(1, 4))
    indices = fn.random().integers(0, length, (batches, wanted))
    if fn.chance(3):
        indices[:] = indices[0]
    held = fn.integers(indices, "i32", "tosa")
    index = np.take_along_axis(positions(node), indices[:, :, np.newaxis], 1)
    return tosa(fn, "tosa.gather", node, [held], index)


def tosa_identity(fn: Function, node: Node) -> Node:
    return tosa(fn, "tosa.identity", node, [], positions(node))


# stablehlo


def stablehlo(fn: Function, op: str, node: Node, index: Ints, properties: str = "") -> Node:
    return fn.apply(op, [node], index, generic(fn, op, [of(node)], properties))


def stablehlo_transpose(fn: Function, node: Node) -> Node:
    axes = permutation_of(fn, len(node.shape))
    index = positions(node).transpose(axes)
    return stablehlo(fn, "stablehlo.transpose", node, index, f"permutation = {array('i64', axes)}")


def stablehlo_reshape(fn: Function, node: Node) -> Node:
    shape = fn.draw(reshaped(node.shape))
    return stablehlo(fn, "stablehlo.reshape", node, positions(node).reshape(shape))


def stablehlo_slice(fn: Function, node: Node) -> Node:
    cut = Cut.drawn(fn, node.shape)
    limits: list[int] = []
    for length, offset, size, stride in zip(
        node.shape, cut.offsets, cut.sizes, cut.strides, strict=True
    ):
        last = offset + (size - 1) * stride + 1
        limits.append(fn.draw(st.integers(last, min(length, last + stride - 1))))
    properties = (
        f"start_indices = {array('i64', cut.offsets)}, limit_indices = {array('i64', limits)}, "
        f"strides = {array('i64', cut.strides)}"
    )
    return stablehlo(fn, "stablehlo.slice", node, cut.of(positions(node)), properties)


def stablehlo_reverse(fn: Function, node: Node) -> Node:
    rank = len(node.shape)
    axes = permutation_of(fn, rank)[: fn.draw(st.integers(0, rank))]
    index = np.flip(positions(node), axes)
    return stablehlo(fn, "stablehlo.reverse", node, index, f"dimensions = {array('i64', axes)}")


def stablehlo_broadcast_in_dim(fn: Function, node: Node) -> Node:
    rank = len(node.shape) + fn.draw(st.integers(0, 2))
    dims = permutation_of(fn, rank)[: len(node.shape)]
    order = sorted(range(len(dims)), key=dims.__getitem__)
    index = positions(node).transpose(order)
    for axis in range(rank):
        if axis not in dims:
            index = np.expand_dims(index, axis)
        if index.shape[axis] == 1:
            index = np.repeat(index, fn.draw(st.integers(1, 3)), axis)
    return stablehlo(
        fn,
        "stablehlo.broadcast_in_dim",
        node,
        index,
        f"broadcast_dimensions = {array('i64', dims)}",
    )


def stablehlo_gather(fn: Function, node: Node) -> Node | None:
    """Positions of one axis, some of them outside of it."""
    rank = len(node.shape)
    if rank == 0:
        return None
    axis: int = fn.draw(st.integers(0, rank - 1))
    length = node.shape[axis]
    batch: Shape = tuple(fn.draw(st.lists(st.integers(1, 3), max_size=2)))
    random = fn.random()
    indices = random.integers(-1, length + 1, batch)
    is_implicit = fn.chance(2)
    vector_axis = len(batch) if is_implicit else fn.draw(st.integers(0, len(batch)))
    written = indices if is_implicit else np.expand_dims(indices, vector_axis)
    is_collapsed = fn.chance(2)
    taken = np.take(positions(node), np.clip(indices, 0, length - 1), axis)
    # The axes of the indices come first, those of what is taken are in the rest.
    taken = np.moveaxis(taken, range(axis, axis + len(batch)), range(len(batch)))
    kept = [a for a in range(rank) if a != axis]
    if not is_collapsed:
        taken = np.expand_dims(taken, len(batch) + axis)
        kept = list(range(rank))
    offsets = sorted(fn.draw(st.permutations(range(taken.ndim)))[: len(kept)])
    taken = np.moveaxis(taken, range(len(batch), taken.ndim), offsets)
    held = fn.integers(written, fn.draw(st.sampled_from(["i32", "i64"])), "stablehlo")
    sizes = [1 if a == axis else n for a, n in enumerate(node.shape)]
    fields = [
        f"offset_dims = {offsets}" if offsets else "",
        f"collapsed_slice_dims = [{axis}]" if is_collapsed else "",
        f"start_index_map = [{axis}]",
        f"index_vector_dim = {vector_axis}" if vector_axis or fn.chance(2) else "",
    ]
    numbers = ", ".join(filter(None, fields))
    properties = (
        f"dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes = {array('i64', sizes)}"
    )
    if fn.chance(2):
        properties += f", indices_are_sorted = {str(fn.chance(2)).lower()}"
    write = generic(fn, "stablehlo.gather", [of(node), held], properties)
    return fn.apply("stablehlo.gather", [node], taken, write)


# quant


def quant(fn: Function, op: str, node: Node, index: Ints, properties: str, custom: str) -> Node:
    def write(name: str, type: str) -> str:
        if fn.chance(2):
            return f"{name} = {op} %{node.name}{custom} : {node.type} to {type}"
        return generic(fn, op, [of(node)], properties)(name, type)

    return fn.apply(op, [node], index, write)


def quant_transpose(fn: Function, node: Node) -> Node:
    axes = permutation_of(fn, len(node.shape))
    index = positions(node).transpose(axes)
    properties = f"permutation = {array('i64', axes)}"
    return quant(fn, "quant.transpose", node, index, properties, f" permutation = {list(axes)}")


def quant_reshape(fn: Function, node: Node) -> Node:
    shape = fn.draw(reshaped(node.shape))
    return quant(fn, "quant.reshape", node, positions(node).reshape(shape), "", "")


def quant_slice(fn: Function, node: Node) -> Node:
    cut = Cut.drawn(fn, node.shape)
    properties = (
        f"offsets = {array('i64', cut.offsets)}, sizes = {array('i64', cut.sizes)}, "
        f"strides = {array('i64', cut.strides)}"
    )
    return quant(fn, "quant.slice", node, cut.of(positions(node)), properties, f" {cut.text}")


def quant_reverse(fn: Function, node: Node) -> Node:
    rank = len(node.shape)
    axes = permutation_of(fn, rank)[: fn.draw(st.integers(0, rank))]
    index = np.flip(positions(node), axes)
    properties = f"dims = {array('i64', axes)}"
    return quant(fn, "quant.reverse", node, index, properties, f" dims = {list(axes)}")


def quant_pad(fn: Function, node: Node) -> Node:
    widths = Widths.drawn(fn, node.shape)
    index, inside = widths.padded(node)

    def fill(result: Node) -> tuple[Bits, bool]:
        layer = result.layer
        assert layer.storage is not None
        assert layer.zero_points is not None
        return layer.storage.bits(layer.zero_points), True

    low, high = widths.low, widths.high
    properties = f"low = {array('i64', low)}, high = {array('i64', high)}"
    write = generic(fn, "quant.pad", [of(node)], properties)
    write = either(
        fn,
        write,
        lambda name, type: (
            f"{name} = quant.pad %{node.name} low = {list(low)} high = {list(high)} : "
            f"{node.type} to {type}"
        ),
    )
    return fn.apply("quant.pad", [node], index, write, is_inside=inside, fill=fill)


Op = Callable[[Function, Node], Node | None]

OPS: dict[str, list[Op]] = {
    "tensor": [
        tensor_reshape,
        tensor_expand_shape,
        tensor_collapse_shape,
        tensor_extract_slice,
        tensor_insert_slice,
        tensor_concat,
        tensor_pad,
    ],
    "linalg": [linalg_transpose, linalg_broadcast, linalg_generic],
    "tosa": [
        tosa_transpose,
        tosa_reshape,
        tosa_slice,
        tosa_concat,
        tosa_pad,
        tosa_reverse,
        tosa_tile,
        tosa_gather,
        tosa_identity,
    ],
    "stablehlo": [
        stablehlo_transpose,
        stablehlo_reshape,
        stablehlo_slice,
        stablehlo_concatenate,
        stablehlo_broadcast_in_dim,
        stablehlo_reverse,
        stablehlo_pad,
        stablehlo_gather,
    ],
    "quant": [quant_transpose, quant_reshape, quant_slice, quant_reverse, quant_pad],
}


def chain(fn: Function, node: Node, ops: Sequence[Op]) -> Node:
    """Up to four shape ops, one after another."""
    has_lied = False
    for _ in range(fn.draw(st.integers(1, 4))):
        if math.prod(node.shape) > MAX_ELEMENTS // 4 or (
            node.layer.scales is None and (node.is_quantized)
        ):
            break
        # An op that does not take the value may have made a constant before it saw that.
        lines, nodes, constants = list(fn.lines), list(fn.nodes), list(fn.constants)
        made = fn.draw(st.sampled_from(ops))(fn, node)
        # Two lies may come to the truth.
        is_second_lie = made is not None and made.is_lie and has_lied
        if made is None or is_second_lie or math.prod(made.shape) > MAX_ELEMENTS:
            fn.lines, fn.nodes, fn.constants = lines, nodes, constants
            continue
        node, has_lied = made, has_lied or made.is_lie
    return node


MIXES = [
    ("tensor",),
    ("linalg",),
    ("tosa",),
    ("stablehlo",),
    ("quant",),
    ("tensor", "linalg"),
    ("tosa", "tensor"),
    ("stablehlo", "tensor", "linalg"),
    ("tensor", "linalg", "tosa", "stablehlo"),
]


@st.composite
def functions(
    draw: st.DrawFn,
    number: int = 0,
    mixes: Sequence[tuple[str, ...]] = MIXES,
    *,
    quantizes_as_upstream: bool = False,
) -> Function:
    """A function that returns what one or two chains make of a constant, and maybe that too."""
    data = draw(st.data())
    dialects = draw(st.sampled_from(mixes))
    domains = (
        ["quantized"] if dialects == ("quant",) else ["plain", "float", "storage", "quantized"]
    )
    fn = Function(number, data, dialects, draw(st.sampled_from(domains)), quantizes_as_upstream)
    ops = [op for dialect in dialects for op in OPS[dialect]]
    if fn.domain == "quantized" and dialects != ("quant",):
        ops += OPS["quant"] if not quantizes_as_upstream and fn.chance(4) else []
    lengths = st.sampled_from([1, 2, 2, 3, 4, 6])
    if "tosa" in dialects and draw(st.booleans()):
        # A gather takes no other rank.
        shape = draw(st.tuples(lengths, lengths, lengths))
        ops += [tosa_gather] * 2
    else:
        shape = draw(st.lists(lengths, max_size=5).map(tuple))
    while math.prod(shape) > 150:
        shape = shape[1:]
    node = fn.start(shape)
    fn.is_in_branch = fn.chance(6)
    if fn.chance(3):
        fn.results.append(node)
    elif fn.chance(3):
        fn.results.append(chain(fn, node, ops))
    if fn.is_in_branch:
        fn.emit("// The rest is in a branch.")
    fn.results.append(chain(fn, node, ops))
    return fn


def module_text(parts: Sequence[Function]) -> str:
    """The module of some functions, and the blobs of their constants."""
    resources = [blob for fn in parts for blob in fn.resources]
    text = "\n".join(fn.text for fn in parts)
    if resources:
        blobs = ",\n      ".join(resources)
        text += (
            f"{{-#\n  dialect_resources: {{\n    builtin: {{\n      {blobs}\n    }}\n  }}\n#-}}\n"
        )
    return text
