"""
The types of the quant dialect.

Their text is upstream's, byte for byte, and so are the messages of what is rejected:
https://mlir.llvm.org/docs/Dialects/QuantDialect/.
"""

from __future__ import annotations

import re
import struct
from abc import ABC
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FloatAttr,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
    f64,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant.slots import Granularity, Slots, read_slot_list
from qdialect.elements import integer_range
from qdialect.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.lazy_numpy import np
from qdialect.memo import Memo
from qdialect.parameters import (
    FloatArray,
    IntArray,
    QuantizationParameters,
    Slot,
    StorageFormat,
)

MAX_STORAGE_WIDTH = 32
_MAX_INT32 = 2**31 - 1
_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1


class Storage(NamedTuple):
    """The storage integers of a quantized type: its first parameters."""

    type: IntegerType
    signed: IntAttr
    minimum: IntAttr
    maximum: IntAttr

    @classmethod
    def of(
        cls,
        type: IntegerType,
        *,
        signed: bool | None = None,
        minimum: int | None = None,
        maximum: int | None = None,
    ) -> Storage:
        """
        Integers of `type`, unsigned if it says so, and of its whole range.

        Raises VerifyException if they have no bits.
        """
        if not type.bitwidth:
            raise VerifyException("illegal storage type size: 0")
        if signed is None:
            signed = type.signedness.data is not Signedness.UNSIGNED
        least, greatest = integer_range(type.bitwidth, signed)
        return cls(
            type,
            IntAttr(int(signed)),
            IntAttr(least if minimum is None else minimum),
            IntAttr(greatest if maximum is None else maximum),
        )


class QuantizedType(ParametrizedAttribute, TypeAttribute, ABC):
    """Base of the types of the dialect."""


class StoredType(QuantizedType, ABC):
    """Base of the types that say which integers hold the values."""

    storage_type: IntegerType
    """The integer type as written, which says nothing of the sign if signless."""

    signed: IntAttr
    minimum: IntAttr
    maximum: IntAttr

    @property
    def is_signed(self) -> bool:
        """Whether storage integers are signed."""
        return bool(self.signed.data)

    @property
    def storage_type_min(self) -> int:
        """The least storage integer."""
        return self.minimum.data

    @property
    def storage_type_max(self) -> int:
        """The greatest storage integer."""
        return self.maximum.data

    @property
    def storage(self) -> Storage:
        """The storage integers of this type, to make another with."""
        return Storage(self.storage_type, self.signed, self.minimum, self.maximum)

    @property
    def storage_format(self) -> StorageFormat:
        """How zero points are cut."""
        return StorageFormat(self.storage_type.bitwidth, self.is_signed)

    @property
    def storage_text(self) -> str:
        """`i8`, or `u8<0:10>` where the range is not the whole one."""
        width = self.storage_type.bitwidth
        text = f"{'i' if self.is_signed else 'u'}{width}"
        bounds = self.storage_type_min, self.storage_type_max
        if bounds == integer_range(width, self.is_signed):
            return text
        return f"{text}<{bounds[0]}:{bounds[1]}>"

    def _verify_storage(self) -> None:
        width = self.storage_type.bitwidth
        if not 1 <= width <= MAX_STORAGE_WIDTH:
            raise VerifyException(f"illegal storage type size: {width}")
        least, greatest = integer_range(width, self.is_signed)
        low, high = self.storage_type_min, self.storage_type_max
        if not least <= low < high <= greatest:
            raise VerifyException(f"illegal storage min and storage max: ({low}:{high})")


def element_type_of(type: StoredType) -> IntegerType:
    """The type of the integers that a constant of `type` holds: `iN`, or `uiN`."""
    signedness = Signedness.SIGNLESS if type.is_signed else Signedness.UNSIGNED
    return IntegerType(type.storage_type.bitwidth, signedness)


@irdl_attr_definition
class AnyQuantizedType(StoredType):
    """
    Values of which only the storage is known: `!quant.any<i8<-16:15>:f32>`.

    The expressed type may be left out.
    """

    name = "quant.any"

    storage_type: IntegerType
    signed: IntAttr
    minimum: IntAttr
    maximum: IntAttr
    expressed_type: AnyFloat | NoneAttr

    @classmethod
    @override
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        keyword = _keyword_position(cls, parser)
        with parser.in_angle_brackets():
            storage = _parse_storage(parser)
            expressed: Attribute = NoneAttr()
            if parser.parse_optional_punctuation(":") is not None:
                expressed = _parse_expressed(parser)
        with _errors_at(parser, keyword):
            return cls.new((*storage, expressed)).parameters

    @override
    def print_parameters(self, printer: Printer) -> None:
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
    """The slots of a uniform quantized type, which writes them as part of its text."""

    name = "quant.slots"

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> Slots:
        parser.raise_error("slots are only written in !quant.uniform")

    @override
    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.axes_text}, {self.data.text}>")


@irdl_attr_definition
class UniformQuantizedType(StoredType):
    """
    Values that are read as `(stored - zero_point) * scale`.

    Per-tensor `!quant.uniform<i8:f32, 0.5:3>`, per-axis
    `!quant.uniform<i8:f32:1, {0.5,0.25:3}>`, or sub-channel
    `!quant.uniform<i8:f32:{0:1, 1:32}, {{0.5, 0.25:3}, {0.5, 2.0}}>`.
    """

    name = "quant.uniform"

    storage_type: IntegerType
    signed: IntAttr
    minimum: IntAttr
    maximum: IntAttr
    expressed_type: AnyFloat
    slots: SlotsAttr

    @override
    def __hash__(self) -> int:
        # Types are looked up all the time, and most of what differs is here.
        return hash(self.slots.data)

    @classmethod
    def per_tensor(
        cls,
        storage: Storage,
        expressed_type: AnyFloat,
        scale: float,
        zero_point: int = 0,
    ) -> UniformQuantizedType:
        """All elements share one slot. Raises VerifyException."""
        return cls.new((*storage, expressed_type, SlotsAttr(Slots.per_tensor(scale, zero_point))))

    @classmethod
    def per_axis(
        cls,
        storage: Storage,
        expressed_type: AnyFloat,
        axis: int,
        scales: FloatArray,
        zero_points: IntArray,
    ) -> UniformQuantizedType:
        """
        One slot per position of `axis`: float64 `scales` and int64 `zero_points`, both
        of one dimension. Raises VerifyException.
        """
        slots = Slots.per_axis(axis, scales, zero_points)
        return cls.new((*storage, expressed_type, SlotsAttr(slots)))

    @classmethod
    def sub_channel(
        cls,
        storage: Storage,
        expressed_type: AnyFloat,
        blocks: Sequence[tuple[int, int]],
        scales: FloatArray,
        zero_points: IntArray,
    ) -> UniformQuantizedType:
        """
        One slot per block: `blocks` are pairs of an axis and its block size, `scales`
        (float64) and `zero_points` (int64) have one dimension per axis of the tensor.

        Scales are rounded to the expressed type. Raises VerifyException.
        """
        expressed = FLOAT_FORMATS[expressed_type.name]
        # Rounding may bring a scale back into the range.
        for scale in _illegal_scales(scales, expressed):
            raise VerifyException(_scale_message(float(scale), expressed))
        slots = Slots.sub_channel(
            blocks,
            scales,
            zero_points,
            expressed,
            StorageFormat(storage.type.bitwidth, bool(storage.signed.data)),
        )
        return cls.new((*storage, expressed_type, SlotsAttr(slots)))

    def with_parameters(self, parameters: QuantizationParameters) -> UniformQuantizedType:
        """
        The coarsest type of this storage and expressed type that spells `parameters`.

        Raises TooManySlotsError if it has too many slots to be written.
        """
        coarse = parameters.coarsen()
        scales, zero_points = coarse.scales, coarse.zero_points
        blocks = [
            (axis, block) for axis, block in enumerate(coarse.block_sizes) if scales.shape[axis] > 1
        ]
        of = self.storage, self.expressed_type
        if not blocks:
            return self.per_tensor(*of, scales.item(), zero_points.item())
        if len(blocks) == 1 and blocks[0][1] == 1:
            return self.per_axis(*of, blocks[0][0], scales, zero_points)
        return self.sub_channel(*of, blocks, scales, zero_points)

    def with_repeated_parameters(
        self, parameters: QuantizationParameters, axis: int
    ) -> UniformQuantizedType:
        """
        The per-axis type of this storage that spells `parameters`, which only `axis` cuts.

        It has one slot per position, the same ones as often as their run is long.
        """
        parameters = parameters.simplify()
        runs = parameters.axis_slots(axis)
        scales, zero_points = parameters.scales, parameters.zero_points
        return self.per_axis(
            self.storage,
            self.expressed_type,
            axis,
            scales.take(runs, axis=axis).reshape(-1),
            zero_points.take(runs, axis=axis).reshape(-1),
        )

    def parameters_on(self, shape: Sequence[int]) -> QuantizationParameters:
        """
        What the elements of a tensor of static `shape` read.

        Raises VerifyException if no such tensor can have this type.
        """
        return _parameters_on(self, tuple(shape))

    @property
    def single_slot(self) -> Slot:
        """What all elements read, of a type that has one slot."""
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
        """How scales are rounded."""
        return FLOAT_FORMATS[self.expressed_type.name]

    def has_same_values_as(self, other: UniformQuantizedType) -> bool:
        """Whether storage integers, their range and the expressed type are the same."""
        return (
            self.storage_format == other.storage_format
            and self.storage[2:] == other.storage[2:]
            and self.expressed_type == other.expressed_type
        )

    def verify_fits(self, shape: Sequence[int]) -> None:
        """
        Raise VerifyException if no tensor of `shape` can have this type.

        Lengths may be DYNAMIC_INDEX, which fits any number of slots.
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
        # An axis may be repeated, and then its last block counts.
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
        # The same text recurs all over a module, and many slots take long to read.
        start, keyword = parser.pos, _keyword_position(cls, parser)
        text = _body_text(parser.lexer.input.content, start)
        if (known := _KNOWN_TEXTS.get(text)) is not None:
            parser._resume_from(start + len(text))  # pyright: ignore[reportPrivateUsage]
            return known
        with parser.in_angle_brackets():
            storage = _parse_storage(parser)
            parser.parse_punctuation(":")
            expressed = _parse_expressed(parser)
            slots = _parse_slots(parser, storage, expressed)
        with _errors_at(parser, keyword):
            parameters = cls.new((*storage, expressed, SlotsAttr(slots))).parameters
        is_all = text == parser.lexer.input.content[start : parser.pos].rstrip()
        if is_all and not slots.has_nan and _NOT_PLAIN.search(text) is None:
            _KNOWN_TEXTS.add(text, parameters, len(text))
        return parameters

    @override
    def print_parameters(self, printer: Printer) -> None:
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
            scale = float(_illegal_scales(self.scales, expressed)[0])
            raise VerifyException(_scale_message(scale, expressed))
        self._verify_storage()
        for axis in self.quantized_dimensions:
            if axis < 0:
                raise VerifyException(f"illegal quantized dimension: {axis}")
        for block in self.block_sizes:
            if block <= 0:
                raise VerifyException(f"illegal block size: {block}")


@irdl_attr_definition
class CalibratedQuantizedType(QuantizedType):
    """Values seen within bounds: `!quant.calibrated<f32<-1.0:1.0>>`."""

    name = "quant.calibrated"

    expressed_type: AnyFloat
    minimum: FloatAttr
    maximum: FloatAttr

    @classmethod
    def of(
        cls, expressed_type: AnyFloat, minimum: float, maximum: float
    ) -> CalibratedQuantizedType:
        """Values from `minimum` to `maximum`. Raises VerifyException."""
        return cls(expressed_type, FloatAttr(minimum, f64), FloatAttr(maximum, f64))

    @property
    def min(self) -> float:
        """The least value."""
        return self.minimum.value.data

    @property
    def max(self) -> float:
        """The greatest value."""
        return self.maximum.value.data

    @classmethod
    @override
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        keyword = _keyword_position(cls, parser)
        with parser.in_angle_brackets():
            expressed = _parse_expressed(parser)
            with parser.in_angle_brackets():
                minimum = _parse_float(parser)
                parser.parse_punctuation(":")
                maximum = _parse_float(parser)
        with _errors_at(parser, keyword):
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


_KNOWN_PARAMETERS = Memo[tuple[UniformQuantizedType, tuple[int, ...]], QuantizationParameters]()


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


def _illegal_scales(scales: FloatArray, expressed: FloatFormat) -> FloatArray:
    """As upstream, a scale that is not a number is not out of range."""
    return scales[(scales < expressed.smallest) | (scales > expressed.largest)]


def _scale_message(scale: float, expressed: FloatFormat) -> str:
    return (
        f"scale {scale:.6e} out of expressed type range "
        f"[{expressed.smallest:.6e}, {expressed.largest:.6e}]"
    ).replace("inf", "INF")


# Parsing. Positions are upstream's: errors point at the token, what the whole type has
# wrong at its keyword.


_KNOWN_TEXTS = Memo[str, Sequence[Attribute]](max_weight=1 << 25)
"""What texts of types were read as, by their length."""

_MAX_WIDTH_DIGITS = 8
_SIGNEDNESS = {
    "i": Signedness.SIGNLESS,
    "u": Signedness.SIGNLESS,
    "si": Signedness.SIGNED,
    "ui": Signedness.UNSIGNED,
}

# An alias means what its module says, and in a comment brackets mean nothing.
_NOT_PLAIN = re.compile("[!/]")

_MAX_BRACKET_DEPTH = 2
"""Of a uniform type, whose storage range is in brackets of its own."""

_PLAIN_LIST = re.compile(r"\{[\s0-9.eE+:,{}-]*\}(?=\s*>)")
_STORAGE_KEYWORD = re.compile(r"(i|si|ui|u)0*([0-9]+)")


def _body_text(content: str, start: int) -> str:
    """The text in the angle brackets that open at `start`; none if they nest deeper."""
    end = start
    for _ in range(_MAX_BRACKET_DEPTH):
        end = content.find(">", end) + 1
        if end and content.count("<", start, end) == content.count(">", start, end):
            return content[start:end]
    return ""


def _keyword_position(cls: type[QuantizedType], parser: AttrParser) -> int:
    """Where `uniform` of `!quant.uniform<` or `!quant<uniform<` is, before what is next."""
    content, keyword = parser.lexer.input.content, cls.name.removeprefix("quant.")
    position = content.rfind(keyword, 0, parser.pos)
    end = position + len(keyword)
    is_apart = end < parser.pos and content[position - 1] == "."
    if is_apart or not content.startswith("<", parser.pos):
        parser.raise_error("expected '<'", end)
    return position


@contextmanager
def _errors_at(parser: AttrParser, position: int) -> Generator[None]:
    try:
        yield
    except VerifyException as error:
        parser.raise_error(str(error), position, position + 1)


def _parse_storage(parser: AttrParser) -> Storage:
    position = parser.pos
    type, is_signed = _parse_storage_type(parser)
    if not 1 <= type.bitwidth <= MAX_STORAGE_WIDTH:
        parser.raise_error(f"illegal storage type size: {type.bitwidth}", position)
    if parser.parse_optional_punctuation("<") is None:
        return Storage.of(type, signed=is_signed)
    least, greatest = integer_range(type.bitwidth, is_signed)
    position = parser.pos
    minimum = _parse_integer(parser, _MIN_INT64, _MAX_INT64)
    if minimum < least:
        parser.raise_error(f"illegal storage type minimum: {minimum}", position)
    parser.parse_punctuation(":")
    position = parser.pos
    maximum = _parse_integer(parser, _MIN_INT64, _MAX_INT64)
    if maximum > greatest:
        parser.raise_error(f"illegal storage type maximum: {maximum}", position)
    parser.parse_punctuation(">")
    return Storage.of(type, signed=is_signed, minimum=minimum, maximum=maximum)


def _parse_storage_type(parser: AttrParser) -> tuple[IntegerType, bool]:
    """The integer type, and whether it is read as signed: `u8` is an unsigned `i8`."""
    position = parser.pos
    keyword = parser.parse_optional_identifier()
    if keyword is None:
        alias = parser.parse_optional_type()
        if alias is None:
            parser.raise_error("expected valid keyword", position)
        if not isinstance(alias, IntegerType):
            parser.raise_error("storage type must be integral", position)
        alias = cast(IntegerType, alias)
        return alias, alias.signedness.data is not Signedness.UNSIGNED
    spelled = _STORAGE_KEYWORD.fullmatch(keyword)
    if spelled is None or len(spelled[2]) > _MAX_WIDTH_DIGITS:
        is_unsigned = keyword.startswith("u") and not keyword.startswith("ui")
        parser.raise_error(
            "expected storage type width" if is_unsigned else "illegal storage type prefix",
            position,
        )
    prefix, width = spelled.groups()
    return IntegerType(int(width), _SIGNEDNESS[prefix]), not prefix.startswith("u")


def _parse_expressed(parser: AttrParser) -> AnyFloat:
    position = parser.pos
    type = parser.parse_optional_type()
    if type is None:
        parser.raise_error("expected non-function type", position)
    if not isinstance(type, AnyFloat):
        parser.raise_error("invalid kind of type specified", position)
    return type


def _parse_slots(parser: AttrParser, storage: Storage, expressed_type: AnyFloat) -> Slots:
    expressed = FLOAT_FORMATS[expressed_type.name]
    if parser.parse_optional_punctuation(":") is None:
        parser.parse_punctuation(",")
        return Slots.per_tensor(*_parse_slot(parser, expressed))
    if parser.parse_optional_punctuation("{") is None:
        axis = _parse_integer(parser, -_MAX_INT32 - 1, _MAX_INT32)
        parser.parse_punctuation(",")
        return Slots.per_axis(axis, *_parse_slot_list(parser, expressed))
    blocks: list[tuple[int, int]] = []
    if parser.parse_optional_punctuation("}") is None:
        blocks = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: _parse_block(parser)
        )
        parser.parse_punctuation("}")
    parser.parse_punctuation(",")
    scales, zero_points = _parse_slot_list(parser, expressed)
    width = StorageFormat(storage.type.bitwidth, bool(storage.signed.data))
    return Slots.sub_channel(blocks, scales, zero_points, expressed, width)


def _parse_block(parser: AttrParser) -> tuple[int, int]:
    axis = _parse_integer(parser, -_MAX_INT32 - 1, _MAX_INT32)
    parser.parse_punctuation(":")
    return axis, _parse_integer(parser, _MIN_INT64, _MAX_INT64)


def _parse_slot_list(parser: AttrParser, expressed: FloatFormat) -> tuple[FloatArray, IntArray]:
    """A nested list in braces: float64 scales and int64 zero points of its shape."""
    content = parser.lexer.input.content
    if (plain := _PLAIN_LIST.match(content, parser.pos)) is not None:
        slots = read_slot_list(plain[0])
        if slots is not None and not _illegal_scales(slots[0], expressed).size:
            parser._resume_from(plain.end())  # pyright: ignore[reportPrivateUsage]
            return slots
    flat: list[tuple[float, int]] = []
    shape = _parse_nested_slots(parser, expressed, flat)
    if shape is None:
        # What is missing is missed behind the token before.
        parser.raise_error("expected '{'", len(content[: parser.pos].rstrip()))
    scales = np.array([scale for scale, _ in flat], dtype=np.float64)
    zero_points = np.array([zero_point for _, zero_point in flat], dtype=np.int64)
    return scales.reshape(shape), zero_points.reshape(shape)


def _parse_nested_slots(
    parser: AttrParser, expressed: FloatFormat, flat: list[tuple[float, int]]
) -> tuple[int, ...] | None:
    """Add the slots of a list in braces, if there is one, to `flat`: its shape."""

    def parse_item() -> tuple[int, ...]:
        shape = _parse_nested_slots(parser, expressed, flat)
        if shape is None:
            flat.append(_parse_slot(parser, expressed))
            return ()
        return shape

    position = parser.pos
    items = parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, parse_item)
    if items is None:
        return None
    if not items:
        parser.raise_error("expected floating point literal", position + 1)
    if items.count(items[0]) != len(items):
        parser.raise_error(
            "tensor literal is invalid; ranks are not consistent between elements",
            parser.lexer.input.content.rfind("}", 0, parser.pos),
        )
    return (len(items), *items[0])


def _parse_slot(parser: AttrParser, expressed: FloatFormat) -> tuple[float, int]:
    scale = _parse_float(parser)
    if scale < expressed.smallest or scale > expressed.largest:
        parser.raise_error(_scale_message(scale, expressed))
    if parser.parse_optional_punctuation(":") is None:
        return scale, 0
    return scale, _parse_integer(parser, _MIN_INT64, _MAX_INT64)


def _parse_integer(parser: AttrParser, least: int, greatest: int) -> int:
    position = parser.pos
    # Booleans are one signed bit.
    if (boolean := parser.parse_optional_boolean()) is not None:
        return -int(boolean)
    value = parser.parse_optional_integer(allow_boolean=False)
    if value is None:
        parser.raise_error("expected integer value", position)
    if not least <= value <= greatest:
        parser.raise_error("integer value too large", position)
    return value


def _parse_float(parser: AttrParser) -> float:
    """A decimal, or the bits of a double in hexadecimal."""
    position = parser.pos
    is_negative = parser.parse_optional_punctuation("-") is not None
    digits_at = parser.pos
    is_hexadecimal = parser.lexer.input.content.startswith("0x", digits_at)
    value = parser.parse_optional_float(allow_negative=False)
    if value is not None:
        return -value if is_negative else value
    value = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if value is None:
        parser.raise_error("expected floating point literal", position)
    if not is_hexadecimal:
        parser.raise_error(
            "unexpected decimal integer literal for a floating point value", digits_at
        )
    if is_negative:
        parser.raise_error("hexadecimal float literal should not have a leading minus", digits_at)
    if value >= 1 << 64:
        parser.raise_error("hexadecimal float constant out of range for type", position)
    return struct.unpack("<d", value.to_bytes(8, "little"))[0]
