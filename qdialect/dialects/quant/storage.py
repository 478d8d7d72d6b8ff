"""The storage of a quantized type: integers, their range, and the text of both."""

from __future__ import annotations

from abc import ABC
from functools import lru_cache
from typing import NamedTuple

from xdsl.dialects.builtin import IntAttr, IntegerType, Signedness
from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.parameters import MAX_STORAGE_WIDTH, StorageFormat
from qdialect.ir.elements import integer_range
from qdialect.support.arguments import check_instance, integer
from qdialect.support.memory import registered_cache


class Storage(NamedTuple):
    """The storage of a quantized type: the first four parameters of the type."""

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
        Integers of `type`, from `minimum` to `maximum`; by default, all integers of its width.

        Signless integers are signed unless `signed` is false. Raises TypeError for arguments of
        another kind, VerifyException for a width of 0, and ValueError if `signed` contradicts
        `type`.
        """
        check_instance("the storage type", type, IntegerType, "i8 of xdsl.dialects.builtin")
        if not type.bitwidth:
            raise VerifyException("illegal storage type size: 0")
        declared = type.signedness.data
        if signed is None:
            signed = declared is not Signedness.UNSIGNED
        check_instance("signed", signed, bool, "True or False")
        if declared is not Signedness.SIGNLESS and signed == (declared is Signedness.UNSIGNED):
            raise ValueError(f"integers of type '{type}' cannot have signed={signed}")
        least, greatest = integer_range(type.bitwidth, signed)
        return cls(
            type,
            IntAttr(int(signed)),
            IntAttr(least if minimum is None else integer("minimum", minimum)),
            IntAttr(greatest if maximum is None else integer("maximum", maximum)),
        )

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


class QuantizedType(ParametrizedAttribute, TypeAttribute, ABC):
    """Base class of the types of the dialect."""


class StoredType(QuantizedType, ABC):
    """Base class of the types with a storage: integers that represent the values."""

    storage_type: IntegerType
    """The integer type as written. For a signless one, `signed` determines the sign."""

    signed: IntAttr
    minimum: IntAttr
    maximum: IntAttr

    @property
    def is_signed(self) -> bool:
        """Whether storage integers are signed."""
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
        """The width and sign to which zero points are truncated."""
        return StorageFormat(self.storage_type.bitwidth, self.is_signed)

    @property
    def storage_text(self) -> str:
        """
        `i8`, or `u8<0:10>` if the range is narrower than the type; `si8` and `ui8` keep their
        prefix.
        """
        width = self.storage_type.bitwidth
        if self.storage_type.signedness.data is Signedness.SIGNLESS:
            text = f"{'i' if self.is_signed else 'u'}{width}"
        else:
            text = str(self.storage_type)
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
    return _held_integers(type.storage_type.bitwidth, type.is_signed)


@registered_cache
@lru_cache(maxsize=64)
def _held_integers(width: int, is_signed: bool) -> IntegerType:
    return IntegerType(width, Signedness.SIGNLESS if is_signed else Signedness.UNSIGNED)
