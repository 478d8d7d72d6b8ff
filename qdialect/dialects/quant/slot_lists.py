"""The text of the slots of a type: nested lists of scales and zero points in braces."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from qdialect.algebra.parameters import FloatArray, IntArray
from qdialect.support.decimal_text import decimal_texts
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.support.lazy_numpy import np
from qdialect.support.repetition import repeated

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    A number of the format: as MLIR writes it, unless that reads as out of the range of the format.

    Six digits of 2**-24 are less than it, and f16 has no smaller number.
    """
    text = format.to_text(scale)
    if not format.smallest <= scale <= format.largest or text.startswith("0x"):
        return text
    return text if format.smallest <= float(text) <= format.largest else _ALL.to_text(scale)


def _scale_texts(scales: FloatArray, format: FloatFormat) -> NDArray[np.uint8]:
    """The text of each scale as a row of ASCII characters. A zero byte is no character."""
    table = decimal_texts(scales, format)
    # Six digits are off by less than one part in 10**5.
    near = (scales < format.smallest * 1.00001) | (scales > format.largest / 1.00001)
    extreme = np.flatnonzero(near)
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
    return _bytes_table([f":{each}" if each else "" for each in distinct.tolist()])[places]


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
