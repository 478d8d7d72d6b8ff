"""Widths and constants for padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from random_modules.building import positions
from random_modules.function import Function, Layer, Node
from random_modules.spelling import PLAIN, Bits, Ints, Shape, Spelling, Storage, tensor


@dataclass(frozen=True)
class Widths:
    """The padding widths of each axis; those at the edges may be negative."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]

    @classmethod
    def drawn(cls, fn: Function, shape: Shape, least: int = 0, most_between: int = 0) -> Widths:
        """Random widths that leave at least one position on every axis."""
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
        """
        For each axis of the result, the nearest source positions, and a mask of the exact ones.
        """
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
        """The source position of each element, and a mask of the elements that are not padding."""
        nearest, is_there = self.on(node.shape)
        if not nearest:
            return positions(node), np.ones((), dtype=bool)
        inside = np.ones((), dtype=bool)
        for axis, there in enumerate(is_there):
            inside = inside[..., np.newaxis] & there if axis else there
        return positions(node)[np.ix_(*nearest)], inside

    @property
    def without_cuts(self) -> Widths:
        """The same widths without negative ones."""
        return Widths(
            tuple(max(n, 0) for n in self.low), tuple(max(n, 0) for n in self.high), self.interior
        )


def code_of(real: np.float32, scale: float, zero_point: int, storage: Storage) -> int | None:
    """The integer that dequantizes to `real`, bit for bit; None if there is none."""
    codes = np.arange(storage.low, storage.high + 1)
    read = (codes - zero_point).astype(np.float32) * np.float32(scale)
    found = codes[read.view(np.uint32) == real.view(np.uint32)]
    assert len(found) < 2
    return int(found[0]) if len(found) else None


def codes_of(real: np.float32, layer: Layer, where: NDArray[np.bool_]) -> tuple[Bits, bool]:
    """
    The stored bits for `real` at the positions `where`, and whether all positions can store it.
    """
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
    """A padding element: a scalar or a tensor of one element."""

    name: str
    type: str
    fill: Callable[[Node], tuple[Bits, bool | None]]


def padding(fn: Function, node: Node, widths: Widths, kind: str, like: Spelling | None) -> Padding:
    """
    A constant to pad `node` with. `kind` is `scalar`, or the dialect `tosa` or `stablehlo`.

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
                # A scalar attribute of xDSL does not preserve the bits of a NaN.
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
