"""The slots of a type: scales and zero points as arrays, as attributes, and as text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from typing_extensions import override

from qdialect.algebra.parameters import FloatArray, IntArray, StorageFormat
from qdialect.algebra.parameters import Granularity as Granularity
from qdialect.support.decimal_text import decimal_texts
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.text import repeated

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
            np.array(scale, dtype=np.float64),
            np.array(zero_point, dtype=np.int64),
        )

    @classmethod
    def per_axis(cls, axis: int, scales: FloatArray, zero_points: IntArray) -> Slots:
        """
        One slot per position of `axis`. `scales` (float64) and `zero_points` (int64) are
        one-dimensional.
        """
        flat = scales.reshape(-1), zero_points.reshape(-1)
        return cls._hold(Granularity.PER_AXIS, *flat, dimensions=(axis,))

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
        As upstream, scales are rounded to `expressed`, and zero points of integers are stored as
        signed integers of the storage width, even if the storage is unsigned.
        """
        return cls._hold(
            Granularity.SUB_CHANNEL,
            expressed.round(scales),
            storage.zero_points(zero_points, signed=True),
            tuple(axis for axis, _ in blocks),
            tuple(block for _, block in blocks),
            expressed,
        )

    @classmethod
    def _hold(
        cls,
        granularity: Granularity,
        scales: FloatArray,
        zero_points: IntArray,
        dimensions: tuple[int, ...] = (),
        block_sizes: tuple[int, ...] = (),
        scale_format: FloatFormat = FLOAT_FORMATS["f64"],
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
        return f"Slots({self.granularity.value}{self.axes_text}, {self.brief})"

    @property
    def brief(self) -> str:
        """The text of the slots, or only their number if there are many."""
        count = math.prod(self.shape)
        return self.text if count <= _MAX_SHOWN_SLOTS else f"{count} slots of shape {self.shape}"

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


_MAX_SINGLE_SLOTS: Final = 100
"""The number of slots up to which arrays take longer than one slot after the other."""

_CHUNK: Final = 1 << 15
"""The number of slots that are written at once, to stay in cache."""

# Linear time: possessive quantifiers, and no match can start inside a run of digits.
_SLOT: Final = r"(?<![0-9])-?[0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)?(?:\s*+:\s*+-?[0-9]++)?"
_SLOTS: Final = re.compile(rf"\s*+{_SLOT}\s*+" + repeated(rf",\s*+{_SLOT}\s*+"), re.ASCII)
_SPACES: Final = b" \t\n\r\f\v"
_MAX_EXACT_INTEGER: Final = 2**53

_ALL: Final = FLOAT_FORMATS["f64"]
"""The format whose text has all digits of a scale."""


def slot_list_text(
    scales: FloatArray, zero_points: IntArray, separator: str, format: FloatFormat
) -> str:
    """
    `{0.5:3, 0.25}`: a list in braces for each axis. Without axes, the text is a single slot.

    `scales` (float64, numbers of `format`) and `zero_points` (int64) have the same shape.
    """
    shape = scales.shape
    if scales.size > _MAX_SINGLE_SLOTS:
        return _long_text(scales, zero_points, separator, format)
    items = [
        f"{_scale_text(scale, format)}:{zero_point}" if zero_point else _scale_text(scale, format)
        for scale, zero_point in zip(
            scales.reshape(-1).tolist(), zero_points.reshape(-1).tolist(), strict=True
        )
    ]
    for length in reversed(shape):
        items = [
            f"{{{separator.join(items[start : start + length])}}}"
            for start in range(0, len(items), length)
        ]
    return items[0]


def _long_text(
    scales: FloatArray, zero_points: IntArray, separator: str, format: FloatFormat
) -> str:
    flat, integers, shape = scales.reshape(-1), zero_points.reshape(-1), scales.shape
    between = _bytes_table(
        [f"{'}' * ended}{separator}{'{' * ended}" for ended in range(len(shape))]
    )
    pieces = [b"{" * len(shape)]
    for start in range(0, len(flat), _CHUNK):
        end = min(start + _CHUNK, len(flat))
        next_slots = np.arange(start + 1, end + 1)
        ended = np.zeros(end - start, dtype=np.intp)
        for axis in range(1, len(shape)):
            ended += next_slots % math.prod(shape[axis:]) == 0
        columns = [_scale_texts(flat[start:end], format)]
        if integers[start:end].any():
            columns.append(_zero_point_texts(integers[start:end]))
        columns.append(between[ended])
        # A zero byte is no character.
        pieces.append(np.hstack(columns).tobytes().translate(None, b"\0"))
    # No slot follows the last one.
    pieces[-1] = pieces[-1][: pieces[-1].rindex(b"}" * (len(shape) - 1) + separator.encode())]
    return b"".join([*pieces, b"}" * len(shape)]).decode()


def _scale_text(scale: float, format: FloatFormat) -> str:
    """
    A number of the format: as MLIR writes it, unless it cannot read that back.

    It reads hexadecimal digits of a scale as those of f64. Six digits of 2**-24 are less than it,
    and f16 has no smaller number.
    """
    text = format.to_text(scale)
    if text.startswith("0x"):
        return _ALL.to_text(scale)
    if not format.smallest <= scale <= format.largest:
        return text
    return text if format.smallest <= float(text) <= format.largest else _ALL.to_text(scale)


def _scale_texts(scales: FloatArray, format: FloatFormat) -> NDArray[np.uint8]:
    """The text of each scale as a row of ASCII characters. A zero byte is no character."""
    table = decimal_texts(scales, format)
    # Six digits are off by less than one part in 10**5.
    near = (scales < format.smallest * 1.00001) | (scales > format.largest / 1.00001)
    extreme = np.flatnonzero(near | (table[:, 1] == ord("x")))
    if not extreme.size:
        return table
    distinct, places = np.unique(scales[extreme].view(np.int64), return_inverse=True)
    numbers = distinct.view(np.float64).tolist()
    texts = _bytes_table([_scale_text(number, format) for number in numbers])
    width = max(table.shape[1], texts.shape[1])
    table = np.pad(table, ((0, 0), (0, width - table.shape[1])))
    table[extreme] = np.pad(texts, ((0, 0), (0, width - texts.shape[1])))[places]
    return table


def _zero_point_texts(zero_points: IntArray) -> NDArray[np.uint8]:
    """As `:3`, and nothing for zero; each is a row of characters, where a zero byte is none."""
    distinct, places = np.unique(zero_points, return_inverse=True)
    return _bytes_table(
        [f":{zero_point}" if zero_point else "" for zero_point in distinct.tolist()]
    )[places]


def _bytes_table(texts: list[str]) -> NDArray[np.uint8]:
    """The texts, a row of characters each, with zero bytes behind them."""
    table = np.array([text.encode() for text in texts], dtype=np.bytes_)
    return table.view(np.uint8).reshape(len(texts), -1)


def read_slot_list(text: str) -> tuple[FloatArray, IntArray] | None:
    """
    The scales (float64) and zero points (int64) of a nested list in braces.

    A fast path for long lists in the plain form that tools write: decimal scales, and lists of
    equal length on each level. Returns None for any other text.
    """
    if _SLOTS.fullmatch(text.replace("{", " ").replace("}", " ")) is None:
        return None
    data = text.encode()
    # Each slot has one point.
    shape = _list_shape(data.translate(None, _SPACES + b"0123456789eE+-:"))
    if shape is None:
        return None
    data = data.translate(None, _SPACES + b"{}")
    numbers = np.fromstring(data.replace(b":", b","), sep=",")
    if b":" not in data:
        return numbers.reshape(shape), np.zeros(shape, dtype=np.int64)
    # A colon is before the number that is a zero point.
    characters = np.frombuffer(data, dtype=np.uint8)
    punctuation = characters[(characters == ord(":")) | (characters == ord(","))]
    is_zero_point = np.concatenate(([False], punctuation == ord(":")))
    zero_points = np.zeros(math.prod(shape), dtype=np.int64)
    written = numbers[is_zero_point]
    if np.abs(written).max() >= _MAX_EXACT_INTEGER:
        return None
    slot = np.cumsum(~is_zero_point) - 1
    zero_points[slot[is_zero_point]] = written
    return numbers[~is_zero_point].reshape(shape), zero_points.reshape(shape)


def _list_shape(structure: bytes) -> tuple[int, ...] | None:
    """The shape of a nested list, of points, braces and commas; None if lengths differ."""
    rank = len(structure) - len(structure.lstrip(b"{"))
    shape: tuple[int, ...] = ()
    inner = b"."
    for depth in range(1, rank + 1):
        # Where the first list of this depth ends.
        end = structure.find(b"}" * depth)
        length, rest = divmod(end + 2 * depth - rank - 1, len(inner) + 1)
        if end < 0 or rest:
            return None
        shape = (length, *shape)
        inner = b"{" + b",".join([inner] * length) + b"}"
    return shape if shape and inner == structure else None
