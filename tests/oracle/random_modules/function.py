"""A function being drawn: its values, constants, casts and text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from nested_text import nested
from numpy.typing import NDArray

from qdialect.testing.tensors import divisors
from random_modules.spelling import (
    PLAIN,
    STORAGES,
    Bits,
    Ints,
    Shape,
    Spelling,
    Storage,
    coarsest_blocks,
    spelled,
    tensor,
)

Write = Callable[[str, str], str]
"""Makes the text of an op from the name and the type of its result."""


@dataclass(frozen=True)
class Layer:
    """The element type and the slots of a value, or of its operand below casts."""

    element: str
    storage: Storage | None = None
    scales: NDArray[np.float64] | None = None
    zero_points: Ints | None = None
    spelling: Spelling | None = None

    def moved(self, index: Ints, scales: Any, zero_points: Any) -> Layer:
        """The layer of elements that come from the positions `index` of flat arrays."""
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
    """The stored bits, below all casts."""
    layers: tuple[Layer, ...]
    casts: tuple[str, ...]
    origins: Ints
    """The number of the constant of each element; padding has that of the nearest edge."""
    places: Ints
    """A unique number for each element of each constant, -1 for padding."""
    operands: tuple[Node, ...] = ()
    is_constant: bool | None = True
    """Whether a fold must find the value constant; None if it may or may not."""
    is_lie: bool = False
    is_padding_stored: bool | None = True
    is_source: bool = False

    @property
    def layer(self) -> Layer:
        """The top layer: that of the value itself."""
        return self.layers[-1]

    @property
    def type(self) -> str:
        """The text of its type."""
        return tensor(self.shape, self.layer.element)

    @property
    def is_quantized(self) -> bool:
        """Whether its own type is quantized."""
        return self.layer.storage is not None

    @property
    def is_plain(self) -> bool:
        """Whether no layer is quantized."""
        return all(layer.storage is None for layer in self.layers)

    @property
    def is_shape_op(self) -> bool:
        """Whether a shape op defines it."""
        return not self.is_source and self.op not in CASTS


DEQUANTIZING = ("quant.dcast", "stablehlo.uniform_dequantize", "tosa.cast")
CASTS = (*DEQUANTIZING, "quant.scast")
TOSA_WIDTHS = (4, 8, 16)


@dataclass(repr=False)
class Function:
    """A function, and the values that it returns."""

    number: int
    data: st.DataObject
    dialects: Sequence[str]
    """The dialects of shape ops, constants and casts."""
    domain: str
    quantizes_as_upstream: bool = False
    """Whether ops only have quantized types that upstream verifiers accept."""

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
        """The symbol of the function."""
        return f"f{self.number}"

    @property
    def text(self) -> str:
        """The text of the function."""
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
        """Draw from a strategy."""
        return self.data.draw(strategy)

    def chance(self, of: int) -> bool:
        """True with a probability of `1 / of`."""
        return self.draw(st.integers(0, of - 1)) == of - 1

    def fresh(self, start: str) -> str:
        """A new name that starts with `start`."""
        self.count += 1
        return f"{start}{self.count}q"

    def random(self) -> np.random.Generator:
        """A random generator with a drawn seed."""
        return np.random.default_rng(self.draw(st.integers(0, 2**16 - 1)))

    def emit(self, line: str) -> None:
        """Append a line of text."""
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
        """Append a constant op."""
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
        """A constant of floats, including NaNs and both zeros, or of integers."""
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
        """A quantized type with random distinct slots."""
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
        """A constant with random elements of a type: one op, or a storage cast of a constant."""
        options = ["quant.constant", "arith.constant"]
        if "tosa" in self.dialects and storage.width in TOSA_WIDTHS:
            options.append("tosa.const")
        if "stablehlo" in self.dialects and not spelling.blocks:
            options.append("stablehlo.constant")
        if self.constants:
            # Values that are joined need equal casts.
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
            # As its verifier requires.
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
            # LLVM changed how the text of many i1 is packed, and IREE reads the other packing.
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
        """Whether shape ops must have per-tensor types."""
        return self.quantizes_as_upstream and "stablehlo" in self.dialects

    def like(self, shape: Shape, storage: Storage, spelling: Spelling | None = None) -> Node:
        """A constant with the casts of the domain."""
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
        """Another constant of the domain that can be joined with `node`."""
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
        """Append a `tosa.const_shape`; returns its name and type."""
        name, rank = self.fresh("k"), len(values)
        items = f"[{', '.join(map(str, values))}]" if values else ""
        self.emit(
            f'%{name} = "tosa.const_shape"() <{{values = dense<{items}> : '
            f"tensor<{rank}xindex>}}> : () -> !tosa.shape<{rank}>"
        )
        return name, f"!tosa.shape<{rank}>"

    # Shape ops

    def declared(self, op: str, operands: Sequence[Node], read: Layer) -> Layer:
        """The declared result type of an op, right or wrong."""
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
