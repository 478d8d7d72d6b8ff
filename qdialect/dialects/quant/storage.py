"""
The storage of a quantized type: integers, floats or a table, their range, and the text of both.

What codes mean is `StorageFormat`; here it is derived from the type. Nothing else asks which of
the three a storage is.
"""

from __future__ import annotations

import math
import struct
from abc import ABC
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    AnyFloat,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    f32,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.codebooks import Codebook
from qdialect.algebra.parameters import MAX_STORAGE_WIDTH, StorageFormat
from qdialect.support.arguments import check_instance, integer, number_array
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import registered_cache
from qdialect.text.written_ops import PrintedForm

SIX_BIT_FLOATS: Final = ("f6E2M3FN", "f6E3M2FN")
_CLASSES_OF_FLOATS: Final[Mapping[str, type[AnyFloat]]] = {
    "f8E4M3FN": Float8E4M3FNType,
    "f8E5M2": Float8E5M2Type,
    "f4E2M1FN": Float4E2M1FNType,
    "f6E2M3FN": Float6E2M3FNType,
    "f6E3M2FN": Float6E3M2FNType,
}
FLOAT_STORAGE: Final = (*_CLASSES_OF_FLOATS,)
"""The floats that quantized types store: those of LLVM 24, and the two of six bits."""


@irdl_attr_definition
class EntriesAttr(Data[bytes]):
    """The entries of a table: float64, little-endian. Printed as part of the table."""

    name = "quant.entries"

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> bytes:
        parser.raise_error("entries are only written in !quant.quantile")

    @override
    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.text)

    @property
    def numbers(self) -> NDArray[np.float64]:
        """The entries as written: float64, read-only."""
        return np.frombuffer(self.data, dtype="<f8")

    @property
    def text(self) -> str:
        """The entries in the syntax of the type, with all their digits."""
        to_text = FLOAT_FORMATS["f64"].to_text
        return f"{{{','.join(map(to_text, self.numbers.tolist()))}}}"


@irdl_attr_definition
class QuantileType(ParametrizedAttribute, TypeAttribute):
    """
    A table, as `!quant.quantile<ui2:f32, {-1.0,0.0,0.5,1.0}>`: storage, and no quantized type.

    Code `q` stands for entry `q - min`, rounded to the table type.

    `min` is 0 for integers without a sign, and as `min` of `<min:max>` where a range is written.
    Codes of float storage are bit patterns. Tables are equal if their entries are after rounding.
    Of LLVM 24: https://github.com/llvm/llvm-project/pull/204793.
    """

    name = "quant.quantile"

    storage_type: IntegerType | AnyFloat
    table_type: IntegerType | AnyFloat
    entries: EntriesAttr
    minimum: IntAttr | NoneAttr
    maximum: IntAttr | NoneAttr

    @classmethod
    def of(
        cls,
        storage_type: IntegerType | AnyFloat,
        table_type: IntegerType | AnyFloat,
        entries: Sequence[float] | NDArray[np.float64],
        range: tuple[int, int] | None = None,
    ) -> QuantileType:
        """
        A table of `entries`, for all codes of `storage_type` or for those in `range`.

        Raises TypeError for entries of another kind, and VerifyException for a table that the
        dialect does not have.
        """
        for name, type in (("storage_type", storage_type), ("table_type", table_type)):
            check_instance(name, type, Attribute, "ui4")
        data = number_array("entries", entries).astype("<f8").tobytes()
        bounds = [NoneAttr()] * 2 if range is None else map(IntAttr, range)
        return cls.new([storage_type, table_type, EntriesAttr(data), *bounds])

    @property
    def bitwidth(self) -> int:
        """The width of the storage in bits."""
        return self.storage_type.bitwidth

    @property
    def has_range(self) -> bool:
        """Whether a range is written."""
        return isinstance(self.minimum, IntAttr)

    @property
    def is_signed(self) -> bool:
        """Whether codes are signed: as upstream, those of `siN` only."""
        type = self.storage_type
        return isinstance(type, IntegerType) and type.signedness.data is Signedness.SIGNED

    @property
    def bounds(self) -> tuple[int, int]:
        """The written range, or that of the storage; as upstream, floats have that of `siN`."""
        if isinstance(self.minimum, IntAttr) and isinstance(self.maximum, IntAttr):
            return self.minimum.data, self.maximum.data
        if self.is_signed or not isinstance(self.storage_type, IntegerType):
            # Upstream shifts 64-bit integers by the width.
            half = _as_int64(1 << (self.bitwidth - 1) % 64)
            return -half, _as_int64(half - 1)
        return 0, _as_int64((1 << self.bitwidth % 64) - 1)

    @property
    def rounded(self) -> bytes:
        """The entries rounded to the table type: float64. To integers, ties to even, saturated."""
        return _rounded(self.entries.data, self.table_type)

    @property
    def format(self) -> StorageFormat:
        """What the codes of quantized types with this storage are."""
        return _format_of(self)

    @property
    def _meaning(self) -> tuple[Attribute | bytes, ...]:
        return self.storage_type, self.table_type, self.minimum, self.maximum, self.rounded

    @override
    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, QuantileType)
            and (self.parameters == other.parameters or self._meaning == other._meaning)
        )

    @override
    def __hash__(self) -> int:
        return hash((self.storage_type, self.table_type, len(self.entries.data)))

    @classmethod
    @override
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        # The parser of types needs to know all storage.
        from qdialect.dialects.quant.type_parser import (
            errors_at,
            keyword_position,
            parse_quantile,
        )

        keyword = keyword_position("quantile", parser)
        storage_type, table_type, entries, range = parse_quantile(parser)
        data = struct.pack(f"<{len(entries)}d", *entries)
        bounds = [NoneAttr()] * 2 if range is None else map(IntAttr, range)
        with errors_at(parser, keyword):
            return cls.new([storage_type, table_type, EntriesAttr(data), *bounds]).parameters

    @override
    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.storage_type}:{self.table_type}, {self.entries.text}")
            if self.has_range:
                printer.print_string(", <{}:{}>".format(*self.bounds))

    @classmethod
    @override
    def new(cls, params: Sequence[Attribute]) -> QuantileType:
        """Raises VerifyException; types of another kind have upstream's messages."""
        if not isinstance(params[0], IntegerType | AnyFloat):
            raise VerifyException("storage type must be an integer or float type")
        if not isinstance(params[1], IntegerType | AnyFloat):
            raise VerifyException("quantile type must be a float or integer type")
        return cast(QuantileType, super().new(params))

    @override
    def verify(self) -> None:
        count = len(self.entries.data) // 8
        if not count:
            raise VerifyException("quantile values must not be empty")
        low, high = self.bounds
        if self.has_range and low >= high:
            raise VerifyException("storage min must be less than storage max")
        if count != (codes := _as_int64(high - low + 1)):
            raise VerifyException(
                f"quantile LUT size ({count}) must equal the number of representable storage "
                f"values ({codes})"
            )
        if not np.isfinite(self.entries.numbers).all():
            raise VerifyException("quantile values must be finite (no NaN or infinity)")


def _as_int64(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


@registered_cache
@lru_cache(maxsize=64)
def _rounded(entries: bytes, type: IntegerType | AnyFloat) -> bytes:
    numbers = np.frombuffer(entries, dtype="<f8")
    if isinstance(type, IntegerType):
        is_signed = type.signedness.data is not Signedness.UNSIGNED
        bounds = StorageFormat(max(type.bitwidth, 1), is_signed).bounds
        # An integer has no -0.
        numbers = np.clip(np.rint(numbers), *bounds) + 0.0
    else:
        numbers = FLOAT_FORMATS[type.name].round(numbers)
    return numbers.tobytes()


@registered_cache
@lru_cache(maxsize=64)
def _format_of(type: QuantileType) -> StorageFormat:
    is_float = not isinstance(type.storage_type, IntegerType)
    refusal = ""
    first, last = type.bounds
    least, greatest = StorageFormat(max(type.bitwidth, 1), type.is_signed).bounds
    if is_float and type.has_range:
        refusal = f"codes of {type.storage_type} in a table have no range, such as {first}:{last}"
    elif is_float:
        first = 0
    elif not least <= first < last <= greatest:
        refusal = f"a table's range {first}:{last} is outside the integers of {type.storage_type}"
    name = f"!quant.quantile<{type.storage_type}:{type.table_type}>"
    book = Codebook(name, first, type.rounded, False, refusal, has_ranges=not is_float)
    return StorageFormat(type.bitwidth, type.is_signed, book)


StorageType: TypeAlias = IntegerType | AnyFloat | QuantileType


class Storage(NamedTuple):
    """The storage of a quantized type: the first four parameters of the type."""

    type: StorageType
    signed: IntAttr
    minimum: IntAttr
    maximum: IntAttr

    @classmethod
    def of(
        cls,
        type: StorageType,
        *,
        signed: bool | None = None,
        minimum: int | None = None,
        maximum: int | None = None,
    ) -> Storage:
        """
        Codes of `type`, from `minimum` to `maximum`; by default, all of its width.

        Signless integers are signed unless `signed` is false; nothing else takes `signed`. Floats
        are those of `FLOAT_STORAGE`. Raises TypeError for arguments of another kind,
        VerifyException for a width of 0, and ValueError if `signed` contradicts `type`.
        """
        declared = _signedness(type)
        if not type.bitwidth:
            raise VerifyException("illegal storage type size: 0")
        if signed is None:
            signed = declared is not Signedness.UNSIGNED
        check_instance("signed", signed, bool, "True or False")
        if declared is not Signedness.SIGNLESS and signed == (declared is Signedness.UNSIGNED):
            raise ValueError(f"storage of type '{type}' cannot have signed={signed}")
        least, greatest = default_range(type, signed)
        return cls(
            type,
            IntAttr(int(signed)),
            IntAttr(least if minimum is None else integer("minimum", minimum)),
            IntAttr(greatest if maximum is None else integer("maximum", maximum)),
        )

    @property
    def format(self) -> StorageFormat:
        """What the codes are."""
        return format_of(self.type, bool(self.signed.data))

    @staticmethod
    @registered_cache
    @lru_cache(maxsize=64)
    def of_format(
        format: StorageFormat, minimum: int | None = None, maximum: int | None = None
    ) -> Storage:
        """Like `of`, for signless integers of a width, for floats, and for tables of f32."""
        book, width = format.codebook, format.width
        if book is None:
            type, signed = IntegerType(width), format.signed
            return Storage.of(type, signed=signed, minimum=minimum, maximum=maximum)
        if book.is_float:
            floats: AnyFloat = _CLASSES_OF_FLOATS[book.name]()
            return Storage.of(floats, minimum=minimum, maximum=maximum)
        table = QuantileType.of(IntegerType(width, Signedness.UNSIGNED), f32, book.numbers)
        return Storage.of(table, minimum=minimum, maximum=maximum)


def _signedness(type: object) -> Signedness:
    """Of codes; float patterns have no sign. Raises TypeError if it is no storage type."""
    if isinstance(type, QuantileType):
        return Signedness.SIGNED if type.is_signed else Signedness.UNSIGNED
    if isinstance(type, AnyFloat) and type.name in FLOAT_STORAGE:
        return Signedness.UNSIGNED
    check_instance("the storage type", type, IntegerType, "i8 of xdsl.dialects.builtin")
    return cast(IntegerType, type).signedness.data


def default_range(type: StorageType, is_signed: bool) -> tuple[int, int]:
    """The range that is not written: all integers, up to the largest float, or all of a table."""
    if isinstance(type, QuantileType):
        return type.bounds
    if isinstance(type, IntegerType):
        return StorageFormat(type.bitwidth, is_signed).bounds
    largest = math.ceil(FLOAT_FORMATS[type.name].largest)
    return -largest, largest


@registered_cache
@lru_cache(maxsize=256)
def format_of(type: StorageType, is_signed: bool) -> StorageFormat:
    """What the codes of a storage type are."""
    if isinstance(type, QuantileType):
        return type.format
    if isinstance(type, IntegerType):
        return StorageFormat(type.bitwidth, is_signed)
    return StorageFormat.of_floats(type.name)


class QuantizedType(ParametrizedAttribute, TypeAttribute, ABC):
    """Base class of the types of the dialect."""


class StoredType(QuantizedType, ABC):
    """Base class of the types with a storage: codes that represent the values."""

    storage_type: StorageType
    """The type as written. For signless integers, `signed` determines the sign."""

    signed: IntAttr
    minimum: IntAttr
    maximum: IntAttr

    @property
    def is_signed(self) -> bool:
        """Whether codes are signed."""
        return bool(self.signed.data)

    @property
    def storage_type_min(self) -> int:
        """The minimum of the storage range."""
        return self.minimum.data

    @property
    def storage_type_max(self) -> int:
        """The maximum of the storage range."""
        return self.maximum.data

    @property
    def storage(self) -> Storage:
        """The storage of this type, to make another type with it."""
        return Storage(self.storage_type, self.signed, self.minimum, self.maximum)

    @property
    def storage_format(self) -> StorageFormat:
        """What the codes are."""
        return format_of(self.storage_type, self.is_signed)

    @property
    def has_default_range(self) -> bool:
        """Whether the storage range is that of the storage type."""
        bounds = self.storage_type_min, self.storage_type_max
        return bounds == default_range(self.storage_type, self.is_signed)

    @property
    def allows_all(self) -> bool:
        """Whether every bit pattern is a value."""
        return self.has_default_range and self.storage_format.is_total

    @property
    def non_integers(self) -> str | None:
        """Why what reads stored integers cannot read the codes; None if it can."""
        format = self.storage_format
        if format.codebook is None:
            return None
        return f"it stores codes of {format.name}, and integers are needed"

    def unreadable_by(self, form: PrintedForm) -> str | None:
        """Why what reads a form of the text does not read the type; None if it does."""
        is_known = form is not PrintedForm.LLVM22 or isinstance(self.storage_type, IntegerType)
        if is_known and str(self.storage_type) not in SIX_BIT_FLOATS:
            return None
        return f"it has no storage of type '{self.storage_type}'"

    def require_form(self, printer: Printer) -> None:
        """Raise VerifyException if `printer` writes for what does not read the type."""
        form = getattr(printer, "form", PrintedForm.CUSTOM)
        if form.reader is not None and (reason := self.unreadable_by(form)) is not None:
            raise VerifyException(f"cannot be written for {form.reader}: {reason}")

    def require_readable(self) -> None:
        """Raise VerifyException if no constant and no run may have this storage."""
        book = self.storage_format.codebook
        if book is None:
            return
        refusal = book.refusal
        if not book.has_ranges and not self.has_default_range:
            refusal = f"codes of {element_type_of(self)} in a table have no range"
        if refusal:
            raise VerifyException(refusal)

    @property
    def storage_text(self) -> str:
        """
        `i8`, or `u8<0:10>` if the range is narrower than the type; `si8` and `ui8` keep their
        prefix.
        """
        type = self.storage_type
        is_signless = _signedness(type) is Signedness.SIGNLESS
        text = f"u{type.bitwidth}" if is_signless and not self.is_signed else str(type)
        if self.has_default_range:
            return text
        return f"{text}<{self.storage_type_min}:{self.storage_type_max}>"

    def _verify_storage(self) -> None:
        width = self.storage_type.bitwidth
        if not 1 <= width <= MAX_STORAGE_WIDTH:
            raise VerifyException(f"illegal storage type size: {width}")
        if isinstance(self.storage_type, AnyFloat) and self.storage_type.name not in FLOAT_STORAGE:
            raise VerifyException(f"illegal storage type: {self.storage_type}")
        least, greatest = default_range(self.storage_type, self.is_signed)
        low, high = self.storage_type_min, self.storage_type_max
        if not least <= low < high <= greatest:
            raise VerifyException(f"illegal storage min and storage max: ({low}:{high})")


def element_type_of(type: StoredType) -> IntegerType | AnyFloat:
    """The type of the codes that a constant of `type` holds: `iN`, `uiN`, or a float type."""
    stored = type.storage_type
    if isinstance(stored, QuantileType):
        stored = stored.storage_type
    if isinstance(stored, IntegerType):
        signed, unsigned = Signedness.SIGNLESS, Signedness.UNSIGNED
        return integer_type(stored.bitwidth, signed if type.is_signed else unsigned)
    return stored


@registered_cache
@lru_cache(maxsize=128)
def integer_type(width: int, signedness: Signedness) -> IntegerType:
    """The type of integers of a width: the same object each time."""
    return IntegerType(width, signedness)
