"""
Tables as storage: `!quant.quantile<ui2:f32, {-1.0,0.0,0.5,1.0}>`.

A storage format of LLVM 24, and no quantized type: https://github.com/llvm/llvm-project/pull/204793.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from typing_extensions import override
from xdsl.dialects.builtin import AnyFloat, IntAttr, IntegerType, NoneAttr, Signedness
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.codebooks import Codebook
from qdialect.algebra.parameters import StorageFormat
from qdialect.dialects.quant.slots import slot_list_text
from qdialect.dialects.quant.type_parser import errors_at, keyword_position, parse_quantile
from qdialect.ir.elements import integer_range
from qdialect.support.arguments import check_instance, number_array
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import registered_cache


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
        zeros = np.zeros(len(self.numbers), dtype=np.int64)
        return slot_list_text(self.numbers, zeros, ",", FLOAT_FORMATS["f64"])


@irdl_attr_definition
class QuantileType(ParametrizedAttribute, TypeAttribute):
    """
    A table: code `q` stands for entry `q - min`, rounded to the table type.

    `min` is 0 for integers without a sign, and as `min` of `<min:max>` where a range is written.
    Codes of float storage are bit patterns. Tables are equal if their entries are after rounding.
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
        bounds = integer_range(max(type.bitwidth, 1), is_signed)
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
    least, greatest = integer_range(max(type.bitwidth, 1), type.is_signed)
    if is_float and type.has_range:
        refusal = f"codes of {type.storage_type} in a table have no range, such as {first}:{last}"
    elif is_float:
        first = 0
    elif not least <= first < last <= greatest:
        refusal = f"a table's range {first}:{last} is outside the integers of {type.storage_type}"
    name = f"!quant.quantile<{type.storage_type}:{type.table_type}>"
    book = Codebook(name, first, type.rounded, False, refusal, has_ranges=not is_float)
    return StorageFormat(type.bitwidth, type.is_signed, book)
