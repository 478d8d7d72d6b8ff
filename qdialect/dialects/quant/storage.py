"""
The storage of a quantized type: integers, floats or a table, their range, and the text of both.

What codes mean is `StorageFormat`; here it is derived from the type. Nothing else asks which of
the three a storage is.
"""

from __future__ import annotations

import math
from abc import ABC
from functools import lru_cache
from typing import NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, IntAttr, IntegerType, Signedness
from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.codebooks import Codebook
from qdialect.algebra.parameters import MAX_STORAGE_WIDTH, StorageFormat
from qdialect.dialects.quant.quantile import QuantileType
from qdialect.dialects.quant.type_parser import FLOAT_STORAGE, SIX_BIT_FLOATS, StorageType
from qdialect.ir.elements import integer_range
from qdialect.support.arguments import check_instance, integer
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.memory import registered_cache
from qdialect.text.printer import MLIRPrinter
from qdialect.text.written_ops import PrintedForm


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
        """Like `of`, for signless integers of a width."""
        return Storage.of(
            IntegerType(format.width), signed=format.signed, minimum=minimum, maximum=maximum
        )


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
        return integer_range(type.bitwidth, is_signed)
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
    return StorageFormat(type.bitwidth, False, Codebook.of_floats(FLOAT_FORMATS[type.name]))


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

    @property
    def beyond_llvm24(self) -> str | None:
        """Why LLVM 24 does not read the type; None if it does."""
        if str(self.storage_type) in SIX_BIT_FLOATS:
            return f"LLVM 24 has no storage of type '{self.storage_type}'"
        return None

    def require_form(self, printer: Printer) -> None:
        """Raise VerifyException if `printer` writes for LLVM 24, which does not read the type."""
        is_for_llvm24 = isinstance(printer, MLIRPrinter) and printer.form is PrintedForm.LLVM24
        if is_for_llvm24 and (reason := self.beyond_llvm24) is not None:
            raise VerifyException(f"cannot be written for LLVM 24: {reason}")

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
        return _held_integers(stored.bitwidth, type.is_signed)
    return stored


@registered_cache
@lru_cache(maxsize=64)
def _held_integers(width: int, is_signed: bool) -> IntegerType:
    return IntegerType(width, Signedness.SIGNLESS if is_signed else Signedness.UNSIGNED)
