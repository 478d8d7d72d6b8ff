"""Types, parsed from their text, and values, stored as bits."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Operation

Bits = NDArray[np.uint64]
Mask = NDArray[np.bool_]
Shape = tuple[int, ...]

FLOATS: dict[str, type[np.floating[Any]]] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}


class EvaluationError(Exception):
    """An op or a type is invalid, or not supported by the evaluator."""


@dataclass(frozen=True, eq=False)
class Quantization:
    """A uniform quantized type: its storage, and a scale and a zero point for each block."""

    signed: bool
    width: int
    low: int
    high: int
    expressed: str
    axis: int | None
    """The axis of a per-axis type."""
    blocks: dict[int, int] | None
    """The length of the blocks of each axis that a sub-channel type names."""
    scales: NDArray[np.float64]
    zero_points: NDArray[np.int64]

    def slots(self, shape: Shape) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The scale and zero point of each element. Raises EvaluationError."""
        if self.axis is not None:
            if self.axis >= len(shape) or shape[self.axis] != self.scales.size:
                raise EvaluationError("there is not one scale for each position of the axis")
            at = np.indices(shape, sparse=True)[self.axis] if shape else np.zeros((), dtype=int)
            index: Any = (np.broadcast_to(at, shape),)
        elif self.blocks is not None:
            if self.scales.ndim != len(shape):
                raise EvaluationError("the scales have another rank")
            lengths = [self.blocks.get(axis, n) for axis, n in enumerate(shape)]
            counts = tuple(-(-n // max(block, 1)) for n, block in zip(shape, lengths, strict=True))
            if counts != self.scales.shape or any(
                n % max(block, 1) for n, block in zip(shape, lengths, strict=True)
            ):
                raise EvaluationError("the blocks do not fit the shape")
            grid = np.indices(shape)
            index = tuple(at // max(n, 1) for at, n in zip(grid, lengths, strict=True))
        else:
            return np.full(shape, self.scales.item()), np.full(shape, self.zero_points.item())
        return self.scales[index], self.zero_points[index]


_QUANTIZED = re.compile(r"!quant\.uniform<([iu])(\d+)(?:<(-?\d+):(-?\d+)>)?:(\w+)(.*)>", re.DOTALL)
_SLOT = re.compile(r"(0x[0-9A-F]{16}|-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?::(-?\d+))?")


def _scale(text: str) -> float:
    """A scale, whose digits may be the bits of a double."""
    return struct.unpack(">d", bytes.fromhex(text[2:]))[0] if text.startswith("0x") else float(text)


@lru_cache(maxsize=4096)
def quantization(element: str) -> Quantization | None:
    """The quantized type with this text; None for other types."""
    if not element.startswith("!quant"):
        return None
    found = _QUANTIZED.fullmatch(element)
    if found is None:
        raise EvaluationError(f"nothing says how '{element}' is read")
    sign, width_text, low, high, expressed, rest = found.groups()
    width, signed = int(width_text), sign == "i"
    least = -(1 << (width - 1)) if signed else 0
    axis: int | None = None
    blocks: dict[int, int] | None = None
    if rest.startswith(":{"):
        head, _, rest = rest[2:].partition("}")
        pairs = (pair.split(":") for pair in head.split(","))
        blocks = {int(axis): int(block) for axis, block in pairs}
    elif rest.startswith(":"):
        head, _, rest = rest[1:].partition(",")
        axis = int(head)
    slots = _SLOT.sub(lambda slot: f"[{_scale(slot[1])!r},{slot[2] or 0}]", rest.lstrip(", "))
    values = np.array(json.loads(slots.replace("{", "[").replace("}", "]")), dtype=object)
    zero_points = values[..., 1].astype(np.int64) & ((1 << width) - 1)
    if signed:
        zero_points = np.where(zero_points > -least - 1, zero_points + 2 * least, zero_points)
    return Quantization(
        signed,
        width,
        least if low is None else int(low),
        least + (1 << width) - 1 if high is None else int(high),
        expressed,
        axis,
        blocks,
        values[..., 0].astype(np.float64),
        np.asarray(zero_points),
    )


_SHAPED = re.compile(r"tensor<((?:\d+x)*)(.*)>", re.DOTALL)
_OF_TORCH = re.compile(r"!torch\.vtensor<\[((?:\d+,?)*)\],(.*)>", re.DOTALL)


@lru_cache(maxsize=4096)
def _parts(type: str) -> tuple[Shape, str]:
    if (of_torch := _OF_TORCH.fullmatch(type)) is not None:
        return tuple(int(n) for n in of_torch[1].split(",") if n), of_torch[2]
    found = _SHAPED.fullmatch(type)
    if found is None:
        return (), type
    return tuple(int(n) for n in found[1].split("x")[:-1]), found[2]


def shape_of(type: Attribute) -> Shape:
    """The shape of a static tensor type; () for a scalar."""
    return _parts(str(type))[0]


def element_of(type: Attribute) -> str:
    """The text of the element type of a tensor type, or of the type of a scalar."""
    return _parts(str(type))[1]


def width_of(element: str) -> int:
    """The width of an element in bits."""
    if (read := quantization(element)) is not None:
        return read.width
    if element in ("index", "i64", "f64"):
        return 64
    return 16 if element == "bf16" else int(element.lstrip("sufi"))


@dataclass(frozen=True, eq=False)
class Value:
    """A scalar or a tensor."""

    element: str
    """The text of the element type."""
    bits: Bits
    """The bits of each element: the value of an unsigned integer."""
    known: Mask
    """A mask of the known elements."""

    @classmethod
    def of(cls, element: str, bits: Any, known: Any = True) -> Value:
        """A value from bits, which are truncated to the width."""
        array = np.asarray(bits).astype(np.uint64) & np.uint64((1 << width_of(element)) - 1)
        return cls(element, np.asarray(array), np.broadcast_to(np.asarray(known), array.shape))

    @classmethod
    def of_numbers(cls, element: str, numbers: Any, known: Any = True) -> Value:
        """A value from integers, or from floats rounded to the type; NaN becomes the quiet NaN."""
        if (dtype := FLOATS.get(element)) is None:
            return cls.of(element, np.asarray(numbers).astype(np.int64), known)
        floats = np.asarray(numbers).astype(dtype)
        bits = floats.view(f"u{floats.itemsize}")
        quiet = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8 << 48}[floats.itemsize]
        return cls.of(element, np.where(np.isnan(floats), quiet, bits), known)

    @property
    def shape(self) -> Shape:
        """The shape; () for a scalar."""
        return self.bits.shape

    def moved(self, move: Callable[[NDArray[Any]], NDArray[Any]], element: str) -> Value:
        """The same elements, moved by `move`."""
        return Value(element, np.asarray(move(self.bits)), np.asarray(move(self.known)))

    @property
    def codes(self) -> NDArray[np.int64]:
        """Integers or storage integers; signless ones are signed."""
        width = width_of(self.element)
        read = quantization(self.element)
        codes = self.bits.astype(np.int64)
        is_unsigned = self.element.startswith("u") or (read is not None and not read.signed)
        if width == 64 or is_unsigned:
            return codes
        return np.where(codes >> (width - 1) & 1, codes - (1 << width), codes)

    @property
    def floats(self) -> NDArray[Any]:
        """Floats of the element type."""
        dtype = FLOATS.get(self.element)
        if dtype is None:
            raise EvaluationError(f"'{self.element}' is no float that is known here")
        of_width = np.dtype(dtype).itemsize
        return self.bits.astype(f"u{of_width}", order="C").view(dtype)

    @property
    def dequantized(self) -> NDArray[Any]:
        """The dequantized elements: E(E(E(q) - E(z)) * s). Raises EvaluationError."""
        read = quantization(self.element)
        if read is None:
            raise EvaluationError("it is not quantized")
        return read_codes(read, self.codes, *read.slots(self.shape))


def read_codes(read: Quantization, codes: Any, scales: Any, zero_points: Any) -> NDArray[Any]:
    """The real numbers that integers represent. Raises EvaluationError."""
    dtype = FLOATS.get(read.expressed)
    if dtype is None:
        raise EvaluationError(f"'{read.expressed}' is not known here")
    with np.errstate(all="ignore"):
        q, z = np.asarray(codes).astype(dtype), np.asarray(zero_points).astype(dtype)
        return (q - z).astype(dtype) * np.asarray(scales).astype(dtype)


def attributes_of(op: Operation) -> dict[str, Attribute]:
    """The attributes and properties of an op, without the prefix of those in a `torch.operator`."""
    held = {**op.attributes, **op.properties}
    return {name.removeprefix("torch.onnx."): attribute for name, attribute in held.items()}


def name_of(op: Operation) -> str:
    """The name of an op, registered or not, and of what a `torch.operator` names."""
    held = op.attributes.get("op_name__")
    name = op.name if held is None else str(getattr(held, "data", held))
    return str(op.properties["name"]).strip('"') if name == "torch.operator" else name


def integers(attribute: Attribute) -> Any:
    """The integer of an attribute, or nested lists of integers."""
    held: Any = attribute
    if hasattr(held, "get_values"):
        return [int(value) for value in held.get_values()]
    if hasattr(held, "value"):
        return int(held.value.data)
    return [integers(each) for each in held.data]
