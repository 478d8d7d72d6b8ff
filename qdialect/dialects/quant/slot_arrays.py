"""The slots of a uniform quantized type: scales and zero points, stored as bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from typing_extensions import override

from qdialect.algebra.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.algebra.granularity import Granularity as Granularity
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.parameters import FloatArray, IntArray, StorageFormat
from qdialect.ir.repetition import repeated

_MAX_SHOWN_SLOTS: Final = 20


@dataclass(frozen=True, eq=False, repr=False)
class Slots:
    """
    The scales and zero points of a type, and the axes and block sizes that they belong to.

    Types share instances. An instance caches derived values such as its text and its hash.
    """

    granularity: Granularity

    dimensions: tuple[int, ...]
    """The axes with several slots: one if per-axis, none if per-tensor."""

    block_sizes: tuple[int, ...]
    """The block size on each of `dimensions` if sub-channel, otherwise empty."""

    shape: tuple[int, ...]
    """The shape of the scales and of the zero points."""

    scale_data: bytes
    """The scales: float64, little-endian, row-major."""

    zero_point_data: bytes
    """The zero points: int64, little-endian, row-major."""

    scale_format: FloatFormat
    """The float format in which scales are printed."""

    @classmethod
    def per_tensor(cls, scale: float, zero_point: int) -> Slots:
        """One slot for all elements."""
        return cls._hold(
            Granularity.PER_TENSOR,
            (),
            (),
            np.array(scale, dtype=np.float64),
            np.array(zero_point, dtype=np.int64),
            FLOAT_FORMATS["f64"],
        )

    @classmethod
    def per_axis(cls, axis: int, scales: FloatArray, zero_points: IntArray) -> Slots:
        """
        One slot per position of `axis`. `scales` (float64) and `zero_points` (int64) are
        one-dimensional.
        """
        return cls._hold(
            Granularity.PER_AXIS,
            (axis,),
            (),
            scales.reshape(-1),
            zero_points.reshape(-1),
            FLOAT_FORMATS["f64"],
        )

    @classmethod
    def sub_channel(
        cls,
        blocks: Sequence[tuple[int, int]],
        scales: FloatArray,
        zero_points: IntArray,
        expressed: FloatFormat,
        storage: StorageFormat,
    ) -> Slots:
        """
        One slot per block: `blocks` are pairs of an axis and a block size.

        `scales` (float64) and `zero_points` (int64) have one dimension per axis of the tensor.
        As upstream, scales are rounded to `expressed`, and zero points are stored as signed
        integers of the storage width, even if the storage is unsigned.
        """
        return cls._hold(
            Granularity.SUB_CHANNEL,
            tuple(axis for axis, _ in blocks),
            tuple(block for _, block in blocks),
            expressed.round(scales),
            StorageFormat(storage.width, signed=True).wrap(zero_points),
            expressed,
        )

    @classmethod
    def _hold(
        cls,
        granularity: Granularity,
        dimensions: tuple[int, ...],
        block_sizes: tuple[int, ...],
        scales: FloatArray,
        zero_points: IntArray,
        scale_format: FloatFormat,
    ) -> Slots:
        if scales.shape != zero_points.shape:
            raise ValueError(
                f"scales of shape {scales.shape} and zero points of shape "
                f"{zero_points.shape} do not pair up"
            )
        return cls(
            granularity,
            dimensions,
            block_sizes,
            scales.shape,
            scales.astype("<f8").tobytes(),
            zero_points.astype("<i8").tobytes(),
            scale_format,
        )

    @override
    def __repr__(self) -> str:
        """The text of the slots, or only their number if there are many."""
        count = math.prod(self.shape)
        held = self.text if count <= _MAX_SHOWN_SLOTS else f"{count} slots of shape {self.shape}"
        return f"Slots({self.granularity.value}{self.axes_text}, {held})"

    @cached_property
    def scales(self) -> FloatArray:
        """The scales: float64, read-only, of `shape`."""
        return np.frombuffer(self.scale_data, dtype="<f8").reshape(self.shape)

    @cached_property
    def zero_points(self) -> IntArray:
        """The zero points: int64, read-only, of `shape`."""
        return np.frombuffer(self.zero_point_data, dtype="<i8").reshape(self.shape)

    @property
    def axes_text(self) -> str:
        """The axes and block sizes in the syntax of types: ``, `:0` or `:{0:1, 1:32}`."""
        match self.granularity:
            case Granularity.PER_TENSOR:
                return ""
            case Granularity.PER_AXIS:
                return f":{self.dimensions[0]}"
            case Granularity.SUB_CHANNEL:
                pairs = zip(self.dimensions, self.block_sizes, strict=True)
                return f":{{{', '.join(f'{axis}:{block}' for axis, block in pairs)}}}"

    @cached_property
    def text(self) -> str:
        """The scales and zero points in the syntax of types: `0.5:3` or `{...}`."""
        written: dict[bytes, str] = {}
        items: list[str] = []
        for at, zero_point in enumerate(self.zero_points.reshape(-1).tolist()):
            bits = self.scale_data[8 * at : 8 * at + 8]
            scale = written.get(bits)
            if scale is None:
                value = float(self.scales.reshape(-1)[at])
                scale = written[bits] = self.scale_format.to_text(value)
            items.append(f"{scale}:{zero_point}" if zero_point else scale)
        separator = "," if self.granularity is Granularity.PER_AXIS else ", "
        for length in reversed(self.shape):
            items = [
                f"{{{separator.join(items[start : start + length])}}}"
                for start in range(0, len(items), length)
            ]
        return items[0]

    @cached_property
    def scale_bounds(self) -> tuple[float, float]:
        """The minimum and maximum of the scales that are not NaN."""
        return float(np.fmin.reduce(self.scales, axis=None)), float(
            np.fmax.reduce(self.scales, axis=None)
        )

    @cached_property
    def has_nan(self) -> bool:
        """Whether a scale is NaN."""
        return bool(np.isnan(self.scales).any())

    def __eq__(self, other: object) -> bool:
        """
        Whether all fields but `scale_format` are equal; scales are compared by their bits.

        As upstream, a NaN scale of a per-tensor or per-axis type differs from every scale.
        """
        if self is other:
            return True
        if not isinstance(other, Slots):
            return NotImplemented
        return self._key == other._key and (
            self.granularity is Granularity.SUB_CHANNEL or not self.has_nan
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return (
            self.granularity,
            self.dimensions,
            self.block_sizes,
            self.shape,
            self.scale_data,
            self.zero_point_data,
        )


def illegal_scales(scales: FloatArray, expressed: FloatFormat) -> FloatArray:
    """The scales that are out of range. As upstream, NaN is not out of range."""
    return scales[(scales < expressed.smallest) | (scales > expressed.largest)]


def scale_message(scale: float, expressed: FloatFormat) -> str:
    """Upstream's message for a scale that is out of range."""
    return (
        f"scale {scale:.6e} out of expressed type range "
        f"[{expressed.smallest:.6e}, {expressed.largest:.6e}]"
    ).replace("inf", "INF")


# Linear time: possessive quantifiers, and no match can start inside a run of digits.
_SLOT = r"(?<![0-9])(-?[0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)?)(?:\s*+:\s*+(-?[0-9]++))?"
_SLOT_LIST = re.compile(rf"\s*+{_SLOT}\s*+" + repeated(rf",\s*+{_SLOT}\s*+"))
_ZERO_POINT = re.compile(r"(?<!\s)\s*+:\s*+-?[0-9]++")
_NESTING = str.maketrans("{}", "[]")
_NO_NESTING = str.maketrans("{}", "  ")


def read_slot_list(text: str) -> tuple[FloatArray, IntArray] | None:
    """
    The scales (float64) and zero points (int64) of a nested list in braces.

    A fast path for long lists in the plain form that tools write: decimal scales, and lists of
    equal length on each level. Returns None for any other text.
    """
    if _SLOT_LIST.fullmatch(text.translate(_NO_NESTING)) is None:
        return None
    # Deferred (30 ms): only long lists need it.
    import json

    zero_text, has_zero_points = "0", ":" in text
    scale_text = _ZERO_POINT.sub("", text) if has_zero_points else text
    try:
        scales = np.array(json.loads(scale_text.translate(_NESTING)), dtype=np.float64)
        zero_points = np.zeros(scales.shape, dtype=np.int64)
        if has_zero_points:
            zero_text = re.sub(_SLOT, lambda slot: slot[2] or "0", text)
            zero_points = np.array(json.loads(zero_text.translate(_NESTING)), dtype=np.int64)
    except (ValueError, OverflowError, RecursionError):
        return None
    return scales, zero_points
