"""Comparing the types and elements of results, with messages about differences."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from qdialect.algebra.movement import Shape
from qdialect.check.attribute_keys import AttributeKeys, assumed_shape
from qdialect.check.followed_elements import groups_at, pieces_of
from qdialect.check.index_maps import NotCertifiableError, Positions, index_at
from qdialect.check.interpreters import TypedArray
from qdialect.check.interpreters.values import held_type
from qdialect.check.step_budget import StepBudget
from qdialect.check.value_classes import elements_anywhere
from qdialect.check.value_nodes import (
    Node,
    SlotTable,
    bits_of,
    dequantize,
    differ,
    numbers_in,
    stores_the_same,
)
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.value_types import element_type_or_self
from qdialect.support.lazy_numpy import np
from qdialect.text.printer import MLIRPrinter

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONGEST_TYPE: Final = 120


class DifferenceError(Exception):
    """Two modules differ in meaning. The message says where."""


@contextmanager
def place(before: str = "", after: str = "") -> Generator[None]:
    """Extend the message of a DifferenceError raised in the block."""
    try:
        yield
    except DifferenceError as error:
        raise DifferenceError(f"{before}{error}{after}") from None


@dataclass(frozen=True)
class Numbers:
    """The elements of a value, as numbers."""

    numbers: NDArray[Any]
    """The numbers: integers, doubles, or bits."""

    positions: Positions
    type: Attribute
    shape: Shape

    @classmethod
    def of_array(cls, array: TypedArray) -> Numbers:
        """All elements of an array."""
        held = held_type(array.element_type)
        bits = bits_of(array.elements.reshape(-1), held)
        positions = np.arange(array.elements.size, dtype=np.int64)
        return cls(numbers_in(bits, array.element_type), positions, array.type, array.shape)

    def differs_from(self, other: Numbers) -> NDArray[np.bool_]:
        """A mask of the elements that differ; all NaNs are equal."""
        wrong = differ(self.numbers, other.numbers)
        if self.numbers.dtype.kind == other.numbers.dtype.kind == "f":
            wrong &= ~(np.isnan(self.numbers) & np.isnan(other.numbers))
        return wrong

    def require_same(self, other: Numbers) -> None:
        """Raise DifferenceError for the first element that differs; all NaNs are equal."""
        wrong = self.differs_from(other)
        if wrong.any():
            at = int(np.argmax(wrong))
            index = index_at(int(self.positions[at]), self.shape)
            element = f" element {index}" if self.shape else ""
            raise DifferenceError(
                f"{element} is {other.text_at(at)}, but was {self.text_at(at)} before"
            )

    def text_at(self, at: int) -> str:
        """The text of one element."""
        number, type = self.numbers[at], element_type_or_self(self.type)
        if not isinstance(type, UniformQuantizedType):
            return str(number.item())
        scales, zero_points = SlotTable.of(type, self.shape).at(self.positions[at : at + 1])
        read = dequantize(self.numbers[at : at + 1], scales, zero_points, type)
        return f"{read.item()} (stored {number.item()})"


def require_same_elements(
    before: Node, after: Node, types: Sequence[Attribute], steps: StepBudget
) -> None:
    """
    Raise DifferenceError unless both values have the same elements; all NaNs are equal.

    `types` are the types of both. Raises NotCertifiableError if not all elements are known.
    """
    if before.shape != after.shape:
        raise DifferenceError(
            f" has shape {list(after.shape)}, but had {list(before.shape)} before"
        )
    alike = [elements_anywhere(node) for node in (before, after)]
    if all(len(kinds) == 1 for kinds in alike) and before.size:
        first = np.zeros(1, dtype=np.int64)
        old, new = (
            Numbers(kinds[0].numbers_at(0), first, type, node.shape)
            for kinds, type, node in zip(alike, types, (before, after), strict=True)
        )
        old.require_same(new)
        return
    for positions in pieces_of(before.size):
        old, new = (
            Numbers(_numbers_at(node, positions, steps), positions, type, node.shape)
            for node, type in zip((before, after), types, strict=True)
        )
        old.require_same(new)


def _numbers_at(node: Node, positions: Positions, steps: StepBudget) -> NDArray[Any]:
    numbers: NDArray[Any] | None = None
    covered = 0
    for group in groups_at(node, positions, steps):
        part = group.elements.numbers_at(0)
        covered += group.elements.size
        if group.where is None:
            return part
        if numbers is None:
            numbers = np.zeros(len(positions), dtype=part.dtype)
        if numbers.dtype != part.dtype:
            raise NotCertifiableError("its elements are stored as different types")
        numbers[group.where] = part
    if numbers is None or covered != len(positions):
        raise NotCertifiableError("some of its elements are not known")
    return numbers


def require_same_results(befores: Sequence[TypedArray], afters: Sequence[TypedArray]) -> None:
    """Raise DifferenceError for the first element that differs."""
    for number, (before, after) in enumerate(zip(befores, afters, strict=True)):
        with place(f" result #{number}"):
            if before.type != after.type:
                require_same_type(before.type, after.type)
            Numbers.of_array(before).require_same(Numbers.of_array(after))


def require_same_type(
    before: Attribute, after: Attribute, keys: Sequence[AttributeKeys] | None = None
) -> None:
    """
    Raise DifferenceError unless both types mean the same, however they are spelled.

    `keys` are those of the two modules that the types belong to; None if they share a module.
    """
    # Compare keys, which are numbers: comparing nested types may take exponential time.
    if before == after if keys is None else keys[0].of(before) == keys[1].of(after):
        return
    types = [element_type_or_self(type) for type in (before, after)]
    shapes = [assumed_shape(type) for type in (before, after)]
    if (
        shapes[0] != shapes[1]
        or _without_slots(before) != _without_slots(after)
        or not all(isinstance(type, UniformQuantizedType) for type in types)
        or not stores_the_same(*types)
    ):
        raise DifferenceError(f" is of type {_short(after)}, but was of {_short(before)} before")
    old, new = (SlotTable.of(cast(UniformQuantizedType, type), shapes[0]) for type in types)
    if old.is_spelled_as(new):
        return
    for positions in pieces_of(math.prod(shapes[0])):
        wrong = old.differs_at(new, positions)
        if wrong.any():
            at = int(positions[np.argmax(wrong)])
            was, now = (_slot_text(table, at, ".6e") for table in (old, new))
            if was == now:
                was, now = (_slot_text(table, at, "") for table in (old, new))
            index = index_at(at, shapes[0])
            element = f" element {index}" if index else ""
            raise DifferenceError(f"{element} is read with {now}, but was with {was} before")


def _slot_text(table: SlotTable, position: int, digits: str) -> str:
    scales, zero_points = table.at(np.array([position], dtype=np.int64))
    return f"scale {scales.item():{digits}}, zero point {zero_points.item()}"


class _FullError(Exception):
    """The text has reached its maximum length."""


class _ShortStream(StringIO):
    """A stream of bounded length: printing a type with nested aliases may take exponential time."""

    @override
    def write(self, text: str, /) -> int:
        if self.tell() > _LONGEST_TYPE:
            raise _FullError
        return super().write(text)


def _short(type: Attribute) -> str:
    stream = _ShortStream()
    with suppress(_FullError):
        MLIRPrinter(stream).print_attribute(type)
    text = stream.getvalue()
    return f"'{text}'" if len(text) <= _LONGEST_TYPE else f"'{text[:_LONGEST_TYPE]}...'"


def _without_slots(type: Attribute) -> tuple[object, ...]:
    """The shape and encoding of a tensor type, empty for other types."""
    if not isinstance(type, TensorType):
        return ()
    tensor = cast("TensorType[Attribute]", type)
    return tensor.get_shape(), tensor.encoding
