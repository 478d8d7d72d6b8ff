"""
The types of the quant dialect.

Their text and the messages of their verifiers are upstream's, byte for byte:
https://mlir.llvm.org/docs/Dialects/QuantDialect/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FloatAttr,
    IntAttr,
    IntegerType,
    NoneAttr,
    TensorType,
    f64,
)
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.parameters import (
    FloatArray,
    IntArray,
    QuantizationParameters,
    Slot,
)
from qdialect.dialects.quant.slots import (
    Granularity,
    Slots,
    illegal_scales,
    scale_message,
)
from qdialect.dialects.quant.storage import QuantileType, QuantizedType, Storage, StoredType
from qdialect.dialects.quant.tables import table_of_slots
from qdialect.dialects.quant.type_parser import (
    body_text,
    errors_at,
    expect,
    keyword_position,
    parse_expressed,
    parse_float,
    parse_slots,
    parse_storage,
)
from qdialect.ir.xdsl_private import resume_from
from qdialect.support.arguments import (
    check_instance,
    integer,
    integer_array,
    integers,
    number,
    number_array,
    shown,
)
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import BoundedCache
from qdialect.support.terminal import Displayed, Table
from qdialect.text.written_ops import PrintedForm


@irdl_attr_definition
class AnyQuantizedType(StoredType):
    """
    A quantized type with a storage and without slots: `!quant.any<i8<-16:15>:f32>`.

    The expressed type is optional.
    """

    name = "quant.any"

    storage_type: IntegerType | AnyFloat | QuantileType
    signed: IntAttr
    minimum: IntAttr
    maximum: IntAttr
    expressed_type: AnyFloat | NoneAttr

    @classmethod
    @override
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        keyword = keyword_position("any", parser)
        expect(parser, "<")
        storage = parse_storage(parser)
        expressed: Attribute = NoneAttr()
        if parser.parse_optional_punctuation(":") is not None:
            expressed = parse_expressed(parser)
        expect(parser, ">")
        with errors_at(parser, keyword):
            return cls.new((*storage, expressed)).parameters

    @override
    def print_parameters(self, printer: Printer) -> None:
        self.require_form(printer)
        with printer.in_angle_brackets():
            printer.print_string(self.storage_text)
            if not isinstance(self.expressed_type, NoneAttr):
                printer.print_string(":")
                printer.print_attribute(self.expressed_type)

    @override
    def verify(self) -> None:
        self._verify_storage()


@irdl_attr_definition
class SlotsAttr(Data[Slots]):
    """The slots of a uniform quantized type, printed as part of the type."""

    name = "quant.slots"

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> Slots:
        parser.raise_error("slots are only written in !quant.uniform")

    @override
    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.axes_text}, {self.data.text}>")


@irdl_attr_definition
class UniformQuantizedType(StoredType, Displayed):
    """
    A quantized type whose values are `(stored - zero_point) * scale`.

    Stored are integers, floats, or codes of a table.

    Per-tensor `!quant.uniform<i8:f32, 0.5:3>`, per-axis
    `!quant.uniform<i8:f32:1, {0.5,0.25:3}>`, or sub-channel
    `!quant.uniform<i8:f32:{0:1, 1:32}, {{0.5, 0.25:3}, {0.5, 2.0}}>`.
    """

    name = "quant.uniform"

    storage_type: IntegerType | AnyFloat | QuantileType
    signed: IntAttr
    minimum: IntAttr
    maximum: IntAttr
    expressed_type: AnyFloat
    slots: SlotsAttr

    @override
    def __hash__(self) -> int:
        # Types are the keys of many caches, and differ mostly in their slots.
        return hash(self.slots.data)

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.brief})"

    @property
    def brief(self) -> str:
        """The text, which has the number of slots in place of many slots."""
        slots = self.slots.data
        values = f"{self.storage_text}:{self.expressed_type}{slots.axes_text}"
        return f"!{self.name}<{values}, {slots.brief}>"

    @override
    def tables(self) -> Sequence[Table]:
        return (table_of_slots(self),)

    @classmethod
    def per_tensor(
        cls,
        storage: Storage,
        expressed_type: AnyFloat,
        scale: float,
        zero_point: int = 0,
    ) -> UniformQuantizedType:
        """
        A per-tensor type: all elements share one slot.

        `scale` is a number, `zero_point` any integer of 64 bits, as in MLIR. Raises TypeError
        for arguments of another kind, ValueError for a zero point that is a fraction or does
        not fit 64 bits, and VerifyException for a scale out of the range of the expressed type
        and for an invalid storage range.
        """
        _check_storage(storage, expressed_type)
        zero_point = integer_array("zero_point", zero_point).item()
        slots = Slots.per_tensor(number("scale", scale), zero_point)
        return cls._of_numbers(storage, expressed_type, slots)

    @classmethod
    def per_axis(
        cls,
        storage: Storage,
        expressed_type: AnyFloat,
        axis: int,
        scales: FloatArray | Sequence[float],
        zero_points: IntArray | Sequence[int],
    ) -> UniformQuantizedType:
        """
        A per-axis type: one slot per position of `axis`.

        `scales` (numbers) and `zero_points` (integers of 64 bits) are arrays or sequences of
        one dimension and equal length. Raises as `per_tensor`, and ValueError for other
        shapes.
        """
        _check_storage(storage, expressed_type)
        scales, zero_points = _slot_arrays(scales, zero_points)
        if scales.ndim != 1:
            raise ValueError(
                f"scales of a per-axis type have one dimension, but these have {scales.ndim}; "
                "use sub_channel for several axes"
            )
        slots = Slots.per_axis(_axis_number(axis), scales, zero_points)
        return cls._of_numbers(storage, expressed_type, slots)

    @classmethod
    def sub_channel(
        cls,
        storage: Storage,
        expressed_type: AnyFloat,
        blocks: Sequence[tuple[int, int]],
        scales: FloatArray | Sequence[Any],
        zero_points: IntArray | Sequence[Any],
    ) -> UniformQuantizedType:
        """
        A sub-channel type: one slot per block. `blocks` are pairs of an axis and its block size.

        `scales` (numbers) and `zero_points` (integers of 64 bits) are arrays or nested
        sequences of one shape, with one dimension per axis of the tensor. Scales are rounded to
        the expressed type, zero points truncated to the storage width. Raises as `per_axis`,
        and VerifyException for an invalid axis or block size.
        """
        _check_storage(storage, expressed_type)
        scales, zero_points = _slot_arrays(scales, zero_points)
        pairs = _block_pairs(blocks)
        # Checked before rounding, after which NaN may be a number.
        _check_are_numbers(scales)
        slots = cls._sub_channel_slots(storage, expressed_type, pairs, scales, zero_points)
        return cls._of_numbers(storage, expressed_type, slots)

    @classmethod
    def of_blocks(
        cls,
        storage: Storage,
        expressed_type: AnyFloat,
        scales: NDArray[np.floating],
        zero_points: IntArray,
        shape: Sequence[int],
    ) -> UniformQuantizedType:
        """
        The type for a tensor of `shape`, whose axes the slots divide into equal blocks.

        `scales` have one dimension per axis. `shape` is ignored if there is one slot. Raises
        VerifyException and TooManySlotsError.
        """
        if scales.size == 1:
            slots = Slots.per_tensor(float(scales.item()), int(zero_points.item()))
            return cls.of_slots(storage, expressed_type, slots)
        axes = [axis for axis, count in enumerate(scales.shape) if count > 1]
        if len(axes) == 1 and scales.size == shape[axes[0]]:
            flat = scales.reshape(-1).astype("f8"), zero_points.reshape(-1)
            if not ((flat[0][1:] == flat[0][:-1]) & (flat[1][1:] == flat[1][:-1])).any():
                # No two neighbours are equal, so no type with longer blocks exists.
                slots = Slots.per_axis(axes[0], *flat)
                return cls.of_slots(storage, expressed_type, slots)
        like = cls.per_tensor(storage, expressed_type, 1.0)
        formats = FLOAT_FORMATS[expressed_type.name], like.storage_format
        parameters = QuantizationParameters.from_blocks(
            shape, scales.astype("f8"), zero_points, *formats
        )
        return like.with_parameters(parameters)

    @classmethod
    def of_slots(
        cls, storage: Storage, expressed_type: AnyFloat, slots: Slots
    ) -> UniformQuantizedType:
        """The type with these slots; as in MLIR, scales may be NaN. Raises VerifyException."""
        return cls.new((*storage, expressed_type, SlotsAttr(slots)))

    @classmethod
    def _of_numbers(
        cls, storage: Storage, expressed_type: AnyFloat, slots: Slots
    ) -> UniformQuantizedType:
        if slots.has_nan:
            _check_are_numbers(slots.scales)
        return cls.of_slots(storage, expressed_type, slots)

    @staticmethod
    def _sub_channel_slots(
        storage: Storage,
        expressed_type: AnyFloat,
        blocks: Sequence[tuple[int, int]],
        scales: FloatArray,
        zero_points: IntArray,
    ) -> Slots:
        """The slots of a sub-channel type. Raises VerifyException for a scale out of range."""
        expressed = FLOAT_FORMATS[expressed_type.name]
        # Checked before rounding, which may bring a scale back into the range.
        for scale in illegal_scales(scales, expressed):
            raise VerifyException(scale_message(float(scale), expressed))
        return Slots.sub_channel(
            blocks,
            scales,
            zero_points,
            expressed,
            storage.format,
        )

    def with_parameters(self, parameters: QuantizationParameters) -> UniformQuantizedType:
        """
        The coarsest type of this storage and expressed type that spells `parameters`.

        Raises TooManySlotsError if it has too many slots to be spelled, TypeError if
        `parameters` are not QuantizationParameters, and ValueError if their storage or
        expressed format is not that of this type.
        """
        example = "type.parameters_on(shape)"
        check_instance("parameters", parameters, QuantizationParameters, example)
        formats = parameters.expressed, parameters.storage
        if formats != (self.expressed_format, self.storage_format):
            raise ValueError(
                f"the parameters have expressed type {formats[0].name} and storage {formats[1]}, "
                f"but the type has {self.expressed_type.name} and {self.storage_format}"
            )
        coarse = parameters.coarsen()
        scales, zero_points = coarse.scales, coarse.zero_points
        blocks = [
            (axis, block) for axis, block in enumerate(coarse.block_sizes) if scales.shape[axis] > 1
        ]
        storage_and_expressed = self.storage, self.expressed_type
        if not blocks:
            slots = Slots.per_tensor(scales.item(), zero_points.item())
        elif len(blocks) == 1 and blocks[0][1] == 1:
            slots = Slots.per_axis(blocks[0][0], scales, zero_points)
        else:
            slots = self._sub_channel_slots(*storage_and_expressed, blocks, scales, zero_points)
        return self.of_slots(*storage_and_expressed, slots)

    def with_repeated_parameters(
        self, parameters: QuantizationParameters, axis: int
    ) -> UniformQuantizedType:
        """
        The per-axis type of this storage that spells `parameters`, which vary along `axis` only.

        It has one slot per position of the axis, so that the slot of a run is repeated.
        """
        parameters = parameters.simplify()
        runs = parameters.axis_slots(axis)
        scales, zero_points = parameters.scales, parameters.zero_points
        slots = Slots.per_axis(
            axis, scales.take(runs, axis=axis), zero_points.take(runs, axis=axis)
        )
        return self.of_slots(self.storage, self.expressed_type, slots)

    def parameters_on(self, shape: Sequence[int]) -> QuantizationParameters:
        """
        The scale and zero point of each element of a tensor of static `shape`.

        Raises TypeError for lengths that are not integers, ValueError for negative and dynamic
        lengths, and VerifyException if the type does not fit the shape.
        """
        return _parameters_on(self, integers("shape", shape))

    @property
    def single_slot(self) -> Slot:
        """The only slot of a type with one slot: the rounded scale and the truncated zero point."""
        slots = self.slots.data.shape
        return QuantizationParameters.from_blocks(
            slots,
            self.scales,
            self.zero_points,
            self.expressed_format,
            self.storage_format,
        ).slot((0,) * len(slots))

    @property
    def granularity(self) -> Granularity:
        """Which elements share a slot."""
        return self.slots.data.granularity

    @property
    def scales(self) -> FloatArray:
        """The scales: float64, with one dimension per axis if sub-channel."""
        return self.slots.data.scales

    @property
    def zero_points(self) -> IntArray:
        """The zero points: int64, of the shape of `scales`."""
        return self.slots.data.zero_points

    @property
    def quantized_dimensions(self) -> tuple[int, ...]:
        """The axes that are cut into blocks: one if per-axis, none if per-tensor."""
        return self.slots.data.dimensions

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """The block on each of `quantized_dimensions`, if sub-channel."""
        return self.slots.data.block_sizes

    @property
    def expressed_format(self) -> FloatFormat:
        """The float format to which scales are rounded."""
        return FLOAT_FORMATS[self.expressed_type.name]

    @override
    def unreadable_by(self, form: PrintedForm) -> str | None:
        is_cut = self.non_integers is not None and self.granularity is Granularity.SUB_CHANNEL
        if is_cut and form is PrintedForm.LLVM24:
            return f"it crashes on blocks of {self.storage_format.name}"
        return super().unreadable_by(form)

    def has_same_values_as(self, other: UniformQuantizedType) -> bool:
        """Whether storage type, storage range and expressed type are the same."""
        return (
            self.storage_format == other.storage_format
            and self.storage[2:] == other.storage[2:]
            and self.expressed_type == other.expressed_type
        )

    def verify_fits(self, shape: Sequence[int]) -> None:
        """
        Raise VerifyException if no tensor of `shape` can have this type.

        A length may be DYNAMIC_INDEX, which fits any number of slots.
        """
        match self.granularity:
            case Granularity.PER_TENSOR:
                pass
            case Granularity.PER_AXIS:
                self._verify_axis_fits(shape)
            case Granularity.SUB_CHANNEL:
                self._verify_blocks_fit(shape)

    def _verify_axis_fits(self, shape: Sequence[int]) -> None:
        (axis,), (slots,) = self.quantized_dimensions, self.scales.shape
        if axis >= len(shape):
            raise VerifyException("quantized dimension must be less than tensor rank")
        if shape[axis] not in (DYNAMIC_INDEX, slots):
            raise VerifyException("quantized dimension size does not match number of scales")

    def _verify_blocks_fit(self, shape: Sequence[int]) -> None:
        rank, slots = len(shape), self.slots.data.shape
        blocks = tuple(zip(self.quantized_dimensions, self.block_sizes, strict=True))
        for axis, block in blocks:
            if axis >= rank:
                raise VerifyException(
                    f"quantized dimension {axis} must be less than tensor rank {rank}"
                )
            if shape[axis] != DYNAMIC_INDEX and shape[axis] % block:
                raise VerifyException(
                    f"tensor dimension size {shape[axis]} at axis {axis} must be "
                    f"divisible by the corresponding block size {block}"
                )
        if 0 in shape:
            raise VerifyException(
                "tensor dimension size of zero is not allowed with sub-channel quantization"
            )
        if len(slots) != rank:
            raise VerifyException(
                f"Rank of scales {len(slots)} must match the rank of the tensor {rank}"
            )
        # If an axis is repeated, its last block size counts.
        block_of = dict(blocks)
        for axis, length in enumerate(shape):
            if length == DYNAMIC_INDEX and axis in block_of:
                continue
            expected = length // block_of[axis] if axis in block_of else 1
            if slots[axis] != expected:
                raise VerifyException(
                    f"dimension size {expected} of scales tensor at axis {axis} should "
                    "match (tensor dimension at axis / block sizes at axis) = "
                    f"{expected}"
                )

    @classmethod
    @override
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        # The same text recurs throughout a module, and long lists of slots are slow to parse.
        start, keyword = parser.pos, keyword_position("uniform", parser)
        text = body_text(parser.lexer.input.content, start)
        if (known := _KNOWN_TEXTS.get(text)) is not None:
            resume_from(parser, start + len(text))
            return known
        expect(parser, "<")
        storage = parse_storage(parser)
        expect(parser, ":")
        expressed = parse_expressed(parser)
        slots = parse_slots(parser, storage.format, FLOAT_FORMATS[expressed.name])
        expect(parser, ">")
        with errors_at(parser, keyword):
            parameters = cls.new((*storage, expressed, SlotsAttr(slots))).parameters
        is_all = text == parser.lexer.input.content[start : parser.pos].rstrip()
        # Aliases depend on the module, and brackets in comments do not count.
        if is_all and not slots.has_nan and "!" not in text and "/" not in text:
            # A scale and a zero point take about 24 characters of text.
            _KNOWN_TEXTS.add(text, parameters, len(text) // 4)
        return parameters

    @override
    def print_parameters(self, printer: Printer) -> None:
        self.require_form(printer)
        slots = self.slots.data
        with printer.in_angle_brackets():
            printer.print_string(f"{self.storage_text}:{self.expressed_type.name}")
            printer.print_string(f"{slots.axes_text}, {slots.text}")

    @override
    def verify(self) -> None:
        if not self.scales.size:
            raise VerifyException("there must be at least one scale")
        expressed = self.expressed_format
        least, greatest = self.slots.data.scale_bounds
        if least < expressed.smallest or greatest > expressed.largest:
            scale = float(illegal_scales(self.scales, expressed)[0])
            raise VerifyException(scale_message(scale, expressed))
        self._verify_storage()
        for axis in self.quantized_dimensions:
            if axis < 0:
                raise VerifyException(f"illegal quantized dimension: {axis}")
        for block in self.block_sizes:
            if block <= 0:
                raise VerifyException(f"illegal block size: {block}")


@irdl_attr_definition
class CalibratedQuantizedType(QuantizedType):
    """A type whose values were observed to be within bounds: `!quant.calibrated<f32<-1.0:1.0>>`."""

    name = "quant.calibrated"

    expressed_type: AnyFloat
    minimum: FloatAttr
    maximum: FloatAttr

    @classmethod
    def of(
        cls, expressed_type: AnyFloat, minimum: float, maximum: float
    ) -> CalibratedQuantizedType:
        """
        The type of values from `minimum` to `maximum`.

        Raises TypeError for arguments of another kind, and VerifyException unless the minimum
        is less than the maximum; as in MLIR, bounds that are NaN are accepted.
        """
        _check_expressed(expressed_type)
        minimum, maximum = number("minimum", minimum), number("maximum", maximum)
        return cls(expressed_type, FloatAttr(minimum, f64), FloatAttr(maximum, f64))

    @property
    def min(self) -> float:
        """The lower bound."""
        return self.minimum.value.data

    @property
    def max(self) -> float:
        """The upper bound."""
        return self.maximum.value.data

    @classmethod
    @override
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        keyword = keyword_position("calibrated", parser)
        expect(parser, "<")
        expressed = parse_expressed(parser)
        expect(parser, "<")
        minimum = parse_float(parser)
        expect(parser, ":")
        maximum = parse_float(parser)
        expect(parser, ">")
        expect(parser, ">")
        with errors_at(parser, keyword):
            return cls.of(expressed, minimum, maximum).parameters

    @override
    def print_parameters(self, printer: Printer) -> None:
        to_text = FLOAT_FORMATS["f64"].to_text
        bounds = f"{to_text(self.min)}:{to_text(self.max)}"
        printer.print_string(f"<{self.expressed_type.name}<{bounds}>>")

    @override
    def verify(self) -> None:
        if self.max <= self.min:
            raise VerifyException(
                f"illegal min and max: ({self.min:.6e}:{self.max:.6e})".replace("inf", "INF")
            )


QuantizedTensor = TensorType[UniformQuantizedType]


def uniform_tensor(type: Attribute) -> QuantizedTensor:
    """
    `type`, if it is a ranked tensor of a uniform quantized type.

    Raises VerifyException otherwise.
    """
    if isinstance(type, TensorType):
        tensor = cast("TensorType[Attribute]", type)
        if isinstance(tensor.element_type, UniformQuantizedType):
            return cast(QuantizedTensor, tensor)
    raise VerifyException(f"must be ranked tensor of uniform quantized type, but got '{type}'")


_KNOWN_PARAMETERS = BoundedCache[
    tuple[UniformQuantizedType, tuple[int, ...]], QuantizationParameters
]()


def _parameters_on(type: UniformQuantizedType, shape: tuple[int, ...]) -> QuantizationParameters:
    if (known := _KNOWN_PARAMETERS.get((type, shape))) is not None:
        return known
    type.verify_fits(shape)
    scales, zero_points = type.scales, type.zero_points
    if type.granularity is not Granularity.SUB_CHANNEL:
        slots = [1] * len(shape)
        for axis in type.quantized_dimensions:
            slots[axis] = len(scales)
        scales, zero_points = scales.reshape(slots), zero_points.reshape(slots)
    parameters = QuantizationParameters.from_blocks(
        shape, scales, zero_points, type.expressed_format, type.storage_format
    )
    return _KNOWN_PARAMETERS.add((type, shape), parameters, parameters.size)


def _check_storage(storage: object, expressed_type: object) -> None:
    if isinstance(storage, IntegerType):
        raise TypeError(f"storage must be a Storage: write Storage.of({storage}), not {storage}")
    check_instance("storage", storage, Storage, "Storage.of(i8)")
    _check_expressed(expressed_type)


def _check_expressed(type: object) -> None:
    if not isinstance(type, AnyFloat):
        raise TypeError(f"expressed_type must be a float type, such as f32, not {shown(type)}")


def _slot_arrays(scales: object, zero_points: object) -> tuple[FloatArray, IntArray]:
    """
    Scales and zero points as arrays of one shape: float64 and int64. Raises TypeError and
    ValueError.
    """
    arrays = number_array("scales", scales), integer_array("zero_points", zero_points)
    shapes = arrays[0].shape, arrays[1].shape
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"scales of shape {shapes[0]} and zero points of shape {shapes[1]} do not pair up: "
            "write a zero point for each scale"
        )
    return arrays


def _axis_number(axis: object) -> int:
    number = integer("axis", axis)
    if not 0 <= number <= _MAX_INT32:
        raise VerifyException(f"illegal quantized dimension: {number}")
    return number


def _block_pairs(blocks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs of an axis and a block size, as integers. Raises TypeError and VerifyException."""
    pairs: list[tuple[int, int]] = []
    for at, block in enumerate(_sequence("blocks", blocks, "[(0, 1), (1, 32)]")):
        pair = integers(f"blocks[{at}]", block)
        if len(pair) != 2:
            raise TypeError(f"blocks[{at}] must be an axis and its block size, but is {pair}")
        axis, size = _axis_number(pair[0]), pair[1]
        if not 0 < size <= _MAX_INT64:
            raise VerifyException(f"illegal block size: {size}")
        pairs.append((axis, size))
    return pairs


def _sequence(name: str, values: object, example: str) -> Sequence[object]:
    if isinstance(values, Sequence | np.ndarray):
        return cast("Sequence[object]", values)
    raise TypeError(f"{name} must be a sequence, such as {example}, not {shown(values)}")


def _check_are_numbers(scales: FloatArray) -> None:
    """
    Raise VerifyException for NaN: MLIR accepts it in text, but a builder's argument is a
    mistake.
    """
    if np.isnan(scales).any():
        raise VerifyException("scale nan is not a number: it must be positive and finite")


_MAX_INT32, _MAX_INT64 = 2**31 - 1, 2**63 - 1

_KNOWN_TEXTS = BoundedCache[str, Sequence[Attribute]](max_bytes=16 << 20)
"""The parameters of parsed types, keyed by the text between angle brackets."""
