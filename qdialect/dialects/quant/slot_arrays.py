"""The slots of a uniform quantized type: scales and zero points, stored as bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from typing_extensions import override

from qdialect.algebra.granularity import Granularity as Granularity
from qdialect.algebra.parameters import FloatArray, IntArray, StorageFormat
from qdialect.dialects.quant.slot_lists import slot_list_text
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.support.lazy_numpy import np

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
        separator = "," if self.granularity is Granularity.PER_AXIS else ", "
        return slot_list_text(self.scales, self.zero_points, separator, self.scale_format)

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
