"""
Quantization of tensors in files: ranges in a first pass, and codes in a second one.

A tensor is cut into pieces that follow each other in its file. Those that share slots make a strip,
which is read twice if it has several pieces. So memory does not depend on the size of a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, Final, NamedTuple

from xdsl.dialects.builtin import AnyFloat, f32

from qdialect.algebra.parameters import StorageFormat
from qdialect.dialects.quant import Storage, UniformQuantizedType
from qdialect.ops.interface import Refusal
from qdialect.ptq.assignment.settings import policy_of_weights
from qdialect.ptq.codes import WeightAxes, blocks_of_weight
from qdialect.ptq.schemes.arrays import AllNaNError, array_range, quantize_values, whole_range
from qdialect.ptq.schemes.schemes import Blocks, Choice, Scheme, Symmetry, WeightPolicy
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.weights.copying import BUFFERS, Descriptors
from qdialect.weights.manifest import CODES, SCALE, ZERO_POINT
from qdialect.weights.strided_views import dot, row_major
from qdialect.weights.tensor_files import (
    DTYPE_OF_TYPE,
    DTYPES,
    NATIVE_FLOATS,
    PACKED,
    FileWriter,
    NewTensor,
    TensorInFile,
    WeightsError,
    numbers_of_bits,
)

_FLOATS: Final = ("F16", "BF16", "F32", "F64", "F8_E4M3", "F8_E5M2")
"""The dtypes that are quantized."""

_SLOT_BYTES: Final = 40
"""The bytes of the range and of the parameters of a slot."""


class Rule(NamedTuple):
    """How tensors are quantized: the options of the pass `quantize-weights`, and an axis."""

    scheme: str
    storage: str | None = None
    exponent: str | None = None
    granularity: str | None = None
    block_size: int | None = None
    otherwise: str = "leave"
    axis: int = -1
    """The axis that layers sum over; all others are axes of channels."""

    @property
    def policy(self) -> WeightPolicy:
        """The scheme, and which elements share a slot. Raises ValueError."""
        own = self.granularity, self.block_size, self.otherwise
        return policy_of_weights(self.scheme, self.storage, self.exponent, *own)

    def blocks(self, shape: tuple[int, ...]) -> Blocks:
        """The elements of a tensor that share a slot. Raises Refusal."""
        axis = self.axis % len(shape)
        channels = tuple(at for at in range(len(shape)) if at != axis)
        return blocks_of_weight([WeightAxes(channels, (axis,))], shape, self.policy)[0]


def new_tensors(
    key: str,
    storage: StorageFormat,
    shape: tuple[int, ...],
    slots: tuple[int, ...],
    *,
    has_zero_points: bool,
) -> Sequence[NewTensor]:
    """The tensors of a quantized weight: codes, scales, and perhaps zero points."""
    codes = NewTensor(f"{key}.{CODES}", dtype_of_codes(storage), shape)
    scales = NewTensor(f"{key}.{SCALE}", "F32", slots)
    if not has_zero_points:
        return codes, scales
    return codes, scales, NewTensor(f"{key}.{ZERO_POINT}", whole_bytes(storage), slots)


def member_of(
    key: str, storage: Storage, tensors: Iterable[NewTensor], floats: AnyFloat = f32
) -> Mapping[str, str]:
    """What a manifest says of a weight: the type but for scales, and where its parts are."""
    like = str(UniformQuantizedType.per_tensor(storage, floats, 1.0))
    return {"type": like, **{new.name.removeprefix(f"{key}."): new.name for new in tensors}}


def quantizable(tensor: TensorInFile, rule: Rule) -> str | None:
    """Why a tensor stays as it is; None if it is quantized."""
    entry = tensor.entry
    if entry.dtype not in _FLOATS:
        return f"its elements are {DTYPES[entry.dtype].type}"
    if len(entry.shape) < 2 or 0 in entry.shape:
        return "it has fewer than two axes, or no elements"
    if not -len(entry.shape) <= rule.axis < len(entry.shape):
        return f"it has no axis {rule.axis}"
    try:
        rule.blocks(entry.shape)
    except Refusal as error:
        return str(error)
    return None


@dataclass(frozen=True)
class Quantized:
    """The content of new tensors: the codes of one tensor, its scales, and its zero points."""

    tensor: TensorInFile
    rule: Rule

    @cached_property
    def scheme(self) -> Scheme:
        """How scales are chosen."""
        return self.rule.policy.scheme

    @property
    def has_zero_points(self) -> bool:
        """Whether zero points are written: those of all other schemes are 0."""
        scheme = self.scheme
        return scheme.symmetry is not Symmetry.SYMMETRIC or scheme.symmetric_zero_point != 0

    def sources(self) -> Iterator[TensorInFile]:
        """The tensor with the floats."""
        yield self.tensor

    def tensors(self, key: str) -> Sequence[NewTensor]:
        """Codes, scales, and zero points if they are not 0."""
        storage, shape = self.scheme.storage, self.tensor.entry.shape
        slots = self.rule.blocks(shape).slots(shape)
        return new_tensors(key, storage, shape, slots, has_zero_points=self.has_zero_points)

    def member(self, key: str) -> Mapping[str, str]:
        """What a manifest says of the tensor."""
        scheme = self.scheme
        storage = Storage.of_format(scheme.storage, scheme.minimum, scheme.maximum)
        return member_of(key, storage, self.tensors(key))

    def write(self, key: str, writer: FileWriter, files: Descriptors, max_memory: int) -> None:
        """Write the tensors. Raises OSError, and WeightsError for values without codes."""
        try:
            self._write(key, writer, files, max_memory)
        except (AllNaNError, ValueError) as error:
            if isinstance(error, WeightsError):
                raise
            path, name = self.tensor.path, self.tensor.entry.name
            raise WeightsError(f"{path}: tensor '{name}': {error}") from None

    def _write(self, key: str, writer: FileWriter, files: Descriptors, max_memory: int) -> None:
        entry, scheme = self.tensor.entry, self.scheme
        blocks = self.rule.blocks(entry.shape)
        pairs = zip(blocks.slots(entry.shape), blocks.lengths(entry.shape), strict=True)
        dimensions = [n for pair in pairs for n in pair]
        box = _box(dimensions, _bytes_of_element(entry.dtype, scheme), max_memory)
        read, strides = partial(self._piece, files, dimensions, box), row_major(dimensions[::2])
        largest: np.float32 | None = None
        if scheme.magnitudes is not None and scheme.magnitudes.reads_all and box != dimensions:
            starts = product(*_cuts(dimensions, box))
            pieces = (whole_range(read(start)[1]) for start in starts)
            largest = np.float32(max(max(-low, high) for low, high, _ in pieces))
        lengths = [*product(*_cuts(dimensions[1::2], box[1::2]))]
        for slots in product(*_cuts(dimensions[::2], box[::2])):
            strip = [[n for p in zip(slots, own, strict=True) for n in p] for own in lengths]
            # One piece is read once.
            kept = [read(strip[0])] if len(strip) == 1 else []
            choice = self._choice(kept or map(read, strip), largest)
            for first, piece in kept or map(read, strip):
                codes = quantize_values(piece, choice).reshape(-1)
                writer.write(f"{key}.{CODES}", codes.view(np.uint8).data, first)
                # Before the next one is read.
                del piece, codes
            numbers: dict[str, NDArray[Any]] = {SCALE: choice.scales}
            if self.has_zero_points:
                numbers[ZERO_POINT] = choice.zero_points.astype(scheme.code_dtype)
            for name, own in numbers.items():
                data = own.reshape(-1).view(np.uint8).data
                writer.write(f"{key}.{name}", data, dot(slots, strides))
            # Before the next one is read.
            del kept

    def _piece(
        self,
        files: Descriptors,
        dimensions: Sequence[int],
        box: Sequence[int],
        starts: Sequence[int],
    ) -> tuple[int, NDArray[Any]]:
        """The number of the first element of a piece, and its elements, as floats."""
        ends = zip(starts, box, dimensions, strict=True)
        shape = [min(step, length - start) for start, step, length in ends]
        first, dtype = dot(starts, row_major(dimensions)), self.tensor.entry.dtype
        size = DTYPES[dtype].itemsize
        data = BUFFERS.view(0, math.prod(shape) * size)
        files.read(self.tensor, first, data)
        return first, numbers_of_bits(np.frombuffer(data, f"u{size}").reshape(shape), dtype)

    def _choice(
        self, pieces: Iterable[tuple[int, NDArray[Any]]], largest: np.float32 | None
    ) -> Choice:
        """
        The parameters of the slots of some pieces, where `largest` is the magnitude of the tensor.

        Raises ValueError for NaN, and for ranges without a scale.
        """
        low: NDArray[np.float32] | None = None
        high: NDArray[np.float32] | None = None
        for first, piece in pieces:
            ranges = array_range(piece, Blocks.of_sizes({at: 1 for at in range(0, piece.ndim, 2)}))
            if ranges.nans:
                raise ValueError(f"there is NaN at element {first} or after, which has no code")
            low = ranges.minimum if low is None else np.minimum(low, ranges.minimum)
            high = ranges.maximum if high is None else np.maximum(high, ranges.maximum)
            # Before the next one is read.
            del piece
        assert low is not None
        assert high is not None
        if largest is None:
            return self.scheme.choose(low, high)
        # The scale of a slot depends on the largest magnitude of all: it is one more slot.
        lows, highs = (np.append(ends, end) for ends, end in ((low, 0), (high, largest)))
        return self.scheme.choose(lows, highs).select(slice(low.size), low.shape)


def _cuts(lengths: Sequence[int], steps: Sequence[int]) -> list[range]:
    return [range(0, length, step) for length, step in zip(lengths, steps, strict=True)]


def _box(dimensions: Sequence[int], nbytes: int, most: int) -> list[int]:
    """
    The lengths of a piece. Each dimension is whole, or all before it have length 1.

    So the elements of a piece follow each other. At even places are dimensions of slots.
    """
    box = list(dimensions)

    def size() -> int:
        return math.prod(box) * nbytes + math.prod(box[::2]) * _SLOT_BYTES

    while size() > most and max(box) > 1:
        at = next(number for number, length in enumerate(box) if length > 1)
        # Even lengths keep codes of 4 bits together.
        box[at] = max(1, box[at] // 2 + box[at] % 2)
    return box


def _bytes_of_element(dtype: str, scheme: Scheme) -> int:
    """The bytes that an element takes as it is read, as a float of numpy, and as a code."""
    own = DTYPES[dtype].itemsize
    return own + (0 if dtype in NATIVE_FLOATS else 4) + scheme.code_dtype.itemsize


def dtype_of_codes(storage: StorageFormat) -> str:
    """The dtype of codes in a file."""
    if storage.codebook is not None and storage.name in DTYPE_OF_TYPE:
        return DTYPE_OF_TYPE[storage.name]
    return PACKED if storage.width == DTYPES[PACKED].bits else whole_bytes(storage)


def whole_bytes(storage: StorageFormat) -> str:
    """The dtype of integers of a storage that take whole bytes."""
    width = next(width for width in (8, 16, 32) if width >= storage.width)
    return f"{'I' if storage.signed else 'U'}{width}"
