"""What integer arithmetic is written as, and its form in `linalg.generic`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from typing_extensions import override
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, TensorType, i32
from xdsl.ir import SSAValue

from qdialect.algebra.movement import Shape
from qdialect.algebra.parameters import StorageFormat
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.integers.products import Layer, Product, pooled, product
from qdialect.integers.rescaling import Addend, Requantize, along, line_of, rescaled
from qdialect.ir.elements import element_dtype
from qdialect.lowering.code_tables import entry_of, extracted
from qdialect.lowering.storage_ops import (
    ContextBuilder,
    Length,
    StorageBuilder,
)
from qdialect.ops.fields import PoolWindow
from qdialect.support.lazy_numpy import NDArray, np

Limits = tuple[int, int]


@dataclass(frozen=True)
class Coded:
    """What is stored as codes of a type, which has one scale."""

    type: UniformQuantizedType

    @property
    def zero_point(self) -> int:
        """The code of zero."""
        return self.type.single_slot.zero_point

    @property
    def scale(self) -> float:
        """The scale, as the expressed type rounds it."""
        return self.type.single_slot.scale

    @property
    def is_unsigned(self) -> bool:
        """Whether codes are read as unsigned."""
        return not self.type.is_signed

    @property
    def signless(self) -> IntegerType:
        """The type of the integers that hold codes."""
        return IntegerType(self.type.storage_type.bitwidth)

    @property
    def width(self) -> int:
        """The bits of a code."""
        return self.signless.bitwidth


@dataclass(frozen=True)
class Codes(Coded):
    """Codes as signless integers."""

    value: SSAValue

    @property
    def limits(self) -> Limits:
        """The least and the greatest code."""
        return self.type.storage_type_min, self.type.storage_type_max

    @property
    def magnitude(self) -> int:
        """The largest `|code - zero_point|`."""
        return max(abs(end - self.zero_point) for end in self.limits)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(shape_of_integers(self.value))

    def addend(self, axes: Sequence[int | None], factors: NDArray[np.float64]) -> Addend:
        """As a part of a sum."""
        return Addend(self.value, axes, factors, self.zero_point, self.magnitude, self.is_unsigned)


@dataclass(frozen=True)
class Goal(Coded):
    """The codes that are wanted: the least and the greatest of them."""

    limits: Limits

    def codes_of(self, numbers: NDArray[np.floating]) -> NDArray[np.int64]:
        """The codes of numbers."""
        parameters = self.type.parameters_on(numbers.shape)
        return parameters.store(numbers, *self.limits).astype(np.int64)

    def stored(self, codes: NDArray[np.int64]) -> NDArray[Any]:
        """Codes in the signless integers that hold them."""
        wrapped = StorageFormat(self.width, signed=True).wrap(codes)
        return wrapped.astype(element_dtype(self.signless))


def shape_of_integers(value: SSAValue) -> Shape:
    """The shape of a builtin tensor."""
    return cast("TensorType[Any]", value.type).get_shape()


class Form(ABC):
    """Writes integer arithmetic. Methods raise Refusal for what the form does not express."""

    reads_unsigned: bool = False
    """Whether products read codes of 8 bits as unsigned, of one of two operands."""

    def __init__(self, builder: ContextBuilder) -> None:
        self.builder = builder

    @abstractmethod
    def plain(self, codes: Codes, *, is_unsigned: bool = False) -> tuple[SSAValue, int]:
        """Codes as integers of 8 or 16 bits, and the one of zero: unsigned if `is_unsigned`."""

    @abstractmethod
    def product(self, layer: Layer) -> Product:
        """A sum of products."""

    @abstractmethod
    def rescaled(
        self, addends: Sequence[Addend], lengths: Sequence[Length], goal: Goal
    ) -> SSAValue:
        """The codes of a sum."""

    @abstractmethod
    def multiplied(
        self,
        codes: Sequence[Codes],
        axes: Sequence[Sequence[int | None]],
        lengths: Sequence[Length],
    ) -> SSAValue:
        """The products of two values less their zeros."""

    @abstractmethod
    def within(self, value: SSAValue, goal: Goal) -> SSAValue:
        """Codes of the type, between the limits."""

    @abstractmethod
    def looked_up(self, codes: Codes, table: NDArray[np.int64], goal: Goal) -> SSAValue:
        """The entries of a table, of which the least code reads the first one."""

    @abstractmethod
    def largest(
        self,
        value: SSAValue,
        windows: Mapping[int, PoolWindow],
        code: int,
        goal: Goal,
        *,
        is_least: bool,
    ) -> SSAValue:
        """
        The largest code in windows, or the least; `code` pads them.

        Axes of which a window is the whole are dropped.
        """

    @abstractmethod
    def total(
        self, codes: Codes, windows: Mapping[int, PoolWindow], count: int
    ) -> tuple[SSAValue, int]:
        """The sums of codes in windows, as `largest`, of 32 bits, and the one of zeros."""


class LinalgForm(Form):
    """One `linalg.generic` for each step."""

    def __init__(
        self,
        builder: ContextBuilder,
        requantize: Requantize,
        *,
        reads_unsigned: bool = False,
        as_matrices: bool = False,
    ) -> None:
        super().__init__(builder)
        self.requantize = requantize
        self.reads_unsigned = reads_unsigned
        self._as_matrices = as_matrices

    @override
    def plain(self, codes: Codes, *, is_unsigned: bool = False) -> tuple[SSAValue, int]:
        type = IntegerType(8 if codes.width <= 8 else 16)
        is_narrow = codes.width < type.bitwidth
        is_shifted = not is_narrow and codes.is_unsigned != is_unsigned
        if not is_shifted and not is_narrow:
            return codes.value, codes.zero_point
        half = 1 << (type.bitwidth - 1) if is_shifted else 0

        def element(inner: StorageBuilder, code: SSAValue) -> SSAValue:
            wide = inner.extended(code, type, is_unsigned=codes.is_unsigned)
            if not half:
                return wide
            # Half of the codes more, or less: the first bit is flipped.
            flip = inner.integer(-half, type)
            return inner.insert(arith.XOrIOp(wide, flip)).result

        zero = codes.zero_point + (half if is_unsigned else -half)
        return self.builder.each(codes.value, type, element), zero

    @override
    def product(self, layer: Layer) -> Product:
        return product(self.builder, layer, as_matrices=self._as_matrices)

    @override
    def rescaled(
        self, addends: Sequence[Addend], lengths: Sequence[Length], goal: Goal
    ) -> SSAValue:
        init = self.builder.empty(lengths, goal.signless)
        return rescaled(self.builder, addends, init, goal.zero_point, goal.limits, self.requantize)

    @override
    def multiplied(
        self,
        codes: Sequence[Codes],
        axes: Sequence[Sequence[int | None]],
        lengths: Sequence[Length],
    ) -> SSAValue:
        one, other = codes
        type = IntegerType(32 if one.magnitude * other.magnitude < 1 << 31 else 64)

        def element(inner: StorageBuilder, elements: Sequence[SSAValue]) -> SSAValue:
            total = None
            for part, read in zip(codes, elements, strict=False):
                wide = inner.extended(read, type, is_unsigned=part.is_unsigned)
                zero = inner.integer(part.zero_point, type)
                less = inner.insert(arith.SubiOp(wide, zero)).result
                total = less if total is None else inner.insert(arith.MuliOp(total, less)).result
            return cast(SSAValue, total)

        maps = [along(places, len(lengths)) for places in axes]
        init = self.builder.empty(lengths, type)
        return self.builder.generic(init, [part.value for part in codes], maps, element)

    @override
    def within(self, value: SSAValue, goal: Goal) -> SSAValue:
        def element(inner: StorageBuilder, code: SSAValue) -> SSAValue:
            return inner.clamped(code, goal.limits, is_unsigned=goal.is_unsigned)

        return self.builder.each(value, goal.signless, element)

    @override
    def looked_up(self, codes: Codes, table: NDArray[np.int64], goal: Goal) -> SSAValue:
        type = goal.signless
        constant = line_of(self.builder, goal.stored(table), [0], type)

        def element(inner: StorageBuilder, code: SSAValue) -> SSAValue:
            place = entry_of(inner, code, codes.limits[0], is_unsigned=codes.is_unsigned)
            return extracted(inner, constant, place)

        return self.builder.each(codes.value, type, element)

    @override
    def largest(
        self,
        value: SSAValue,
        windows: Mapping[int, PoolWindow],
        code: int,
        goal: Goal,
        *,
        is_least: bool,
    ) -> SSAValue:
        step = _EXTREMES[is_least, goal.is_unsigned]
        return pooled(self.builder, value, windows, (code, code), goal.signless, step)

    @override
    def total(
        self, codes: Codes, windows: Mapping[int, PoolWindow], count: int
    ) -> tuple[SSAValue, int]:
        pads = codes.zero_point, 0
        flag = codes.is_unsigned
        total = pooled(
            self.builder, codes.value, windows, pads, i32, arith.AddiOp, is_unsigned=flag
        )
        return total, codes.zero_point * count


_EXTREMES: Final[Mapping[tuple[bool, bool], Callable[[SSAValue, SSAValue], Any]]] = {
    (False, False): arith.MaxSIOp,
    (False, True): arith.MaxUIOp,
    (True, False): arith.MinSIOp,
    (True, True): arith.MinUIOp,
}
"""The ops of a larger and of a smaller integer, by whether it is that, and unsigned."""
