"""
Arguments that cover the values of their types: one random set, or values dealt to many sets.

A *pool* is the list of values that an argument should take: all codes of a narrow type, the
edge cases of a wide one. Each position of an argument takes the values of the pool in turn, set
by set, so that coverage does not depend on a random seed.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import InterpretationError, VerifyException

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.dialects.arrays.values import (
    TypedArray,
    allocated,
    at_all_positions,
    dtype_of,
    elements_of_bits,
    elements_of_numbers,
    format_of,
    held_type,
    require_possible,
    width_of,
)
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.dialects.quant.verification import with_lengths_of_slots
from qdialect.ir.elements import in_width, integer_range
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of, tensor_parts
from qdialect.ops.interface import RefusalCode
from qdialect.support.float_format import FloatFormat
from qdialect.support.memory import MemoryLimitError

_MAX_ELEMENTS: Final = 8
"""The maximum number of elements taken from a constant."""

_MAX_SLOTS: Final = 4
"""The maximum number of slots taken from a type."""


def interesting_numbers(ops: Iterable[Operation]) -> list[float]:
    """
    The distinct numbers that occur in `ops` and the ops nested in them, for `DealtArguments`.

    These are numbers in attributes and the first elements of constants. For quantized types,
    they are the real values of the zero point and of the ends of the storage range, and the
    values half a step away, at which rounding ties.
    """
    return list(dict.fromkeys(number for op in ops for inner in op.walk() for number in _of(inner)))


def _of(op: Operation) -> Iterator[float]:
    for attribute in (*op.properties.values(), *op.attributes.values()):
        yield from _in_attribute(attribute)
    for type in dict.fromkeys((*op.operand_types, *op.result_types)):
        element_type = element_type_or_self(type)
        if isinstance(element_type, UniformQuantizedType):
            yield from _around_codes(element_type)


def _in_attribute(attribute: Attribute) -> Iterator[float]:
    if isinstance(attribute, IntegerAttr | FloatAttr):
        yield cast("float", cast(Any, attribute).value.data)
    elif isinstance(attribute, DenseIntOrFPElementsAttr):
        tensor = cast("DenseIntOrFPElementsAttr[Any]", attribute)
        with suppress(InterpretationError):
            dtype, data = dtype_of(tensor.type.element_type), tensor.data.data
            count = min(len(data) // dtype.itemsize, _MAX_ELEMENTS)
            elements = np.frombuffer(data, dtype=dtype, count=count)
            type = TensorType(tensor.type.element_type, [count])
            yield from TypedArray(in_width(elements, type.element_type), type).numbers.tolist()


def _around_codes(type: UniformQuantizedType) -> Iterator[float]:
    scales, zero_points = (
        type.scales.reshape(-1),
        type.storage_format.zero_points(type.zero_points).reshape(-1),
    )
    for at in islice(np.argsort(scales, kind="stable")[::-1].tolist(), _MAX_SLOTS):
        for code in (type.storage_type_min, int(zero_points[at]), type.storage_type_max):
            for step in (-0.5, 0.0, 0.5):
                yield float((code + step - zero_points[at]) * scales[at])


_MAX_LENGTH: Final = 4
"""The maximum length chosen for a dynamic axis of random arguments."""


def random_arguments(types: FunctionType, seed: int) -> tuple[TypedArray, ...]:
    """
    Arguments for a function of these types, determined by the seed.

    The values are those that `DealtArguments` deals, as many as fit; indices are from zero to
    below 4. Dynamic axes all have the same length, unless the slots of their type determine it.
    Raises InterpretationError for other types.
    """
    length = int(np.random.default_rng(seed).integers(1, _MAX_LENGTH + 1))
    arguments: list[TypedArray] = []
    for number, type in enumerate(types.inputs):
        element_type = element_type_or_self(type)
        shape = tuple(length if axis == DYNAMIC else axis for axis in declared_shape(type))
        bound = _MAX_INDEX if isinstance(element_type, IndexType) else None
        pool = _bounded(_pool(element_type, shape, ()), type, bound)
        dealer = _Dealer(shape, (1,) * len(shape), 0, (seed % (1 << 64), number))
        with naming_argument(number, type):
            arguments.append(TypedArray.of(dealer.deal(pool.values), type))
    return tuple(arguments)


@contextmanager
def naming_argument(number: int, type: Attribute) -> Generator[None]:
    """Convert a MemoryLimitError to an InterpretationError that names the argument."""
    try:
        yield
    except MemoryLimitError as error:
        reason = f"argument #{number} of type '{type}' is not made: {error} [{RefusalCode.MEMORY}]"
        raise InterpretationError(reason) from error


def declared_shape(type: Attribute) -> Shape:
    """
    The shape of `type`, with dynamic lengths that its slots determine; () for a scalar.

    Other dynamic lengths stay DYNAMIC. Raises InterpretationError if a quantized type does not
    fit the shape.
    """
    if not isinstance(type, TensorType):
        # A tensor of another dialect has no slots.
        parts = tensor_parts(type)
        return () if parts is None else parts.shape
    tensor = cast("TensorType[Any]", type)
    shape = tensor.get_shape()
    if isinstance(tensor.element_type, UniformQuantizedType):
        try:
            tensor.element_type.verify_fits(shape)
        except VerifyException as error:
            raise InterpretationError(str(error)) from None
        return with_lengths_of_slots(tensor)
    return shape


DEFAULT_MAX_SETS: Final = 512
"""The default maximum number of sets of arguments, unless the sets are all combinations."""

DEFAULT_MAX_COMBINATIONS: Final = 1 << 16
"""The default maximum number of combinations up to which all are dealt."""

_MAX_LISTED_WIDTH: Final = 8
"""The maximum width of a type whose pool always has all codes, however small the argument is."""

_MAX_LISTED: Final = 1 << 16
"""The maximum size of a pool of all codes, for an argument that takes them in a few sets."""

_MAX_POSITIONS: Final = 16
"""The maximum number of positions of an argument for each to take all values of the pool."""

_FEW_SETS: Final = 8

_MAX_OTHERS: Final = 1 << 12
"""The maximum number of values other than edge cases in the pool of a large argument."""

_MAX_INTERESTING: Final = 64
"""The maximum number of the caller's interesting numbers in a pool."""

_MAX_INDEX: Final = 4

_EQUAL_LENGTHS: Final = (3, 1, 4, 2)
"""The lengths of dynamic axes in successive sets in which all dynamic axes have the same length."""

_LEAST_DIFFERENT: Final = 2
"""The minimum length of a dynamic axis in sets in which dynamic axes differ in length."""

_MAX_UNKNOWN: Final = 1 << 12
"""The maximum product of the dynamic lengths of an argument."""

_LEAST_SETS: Final = 4
"""The minimum number of sets of a series: exchanged elements show only where values differ."""

_MAX_SHARED, _MAX_TAME, _MAX_MILD = 8, 4, 16
"""The maximum number of sets of equal arguments, of tame and of mild arguments."""

_MILD_STEPS: Final = 8
"""The number of different magnitudes in a set of mild arguments."""

_PIECE: Final = 1 << 20
"""The number of elements dealt at once, which bounds the temporary arrays."""

_Bits = NDArray[np.uint64]


class _Pool(NamedTuple):
    """The values that an argument should take, and the tame ones among them."""

    values: NDArray[Any]
    """All values: elements of the dtype of the type, one-dimensional."""

    tame: NDArray[Any]
    """The values on which all arithmetic is defined: no zeros, infinities or NaN."""

    mild: Sequence[NDArray[Any]]
    """
    Lists of small numbers of both signs and one magnitude, and zeros.

    Sums of their products stay within bounds such as those of a clamp, which maps larger sums to
    one number.
    """


class _Set(NamedTuple):
    """The description from which one set of arguments is made."""

    shapes: tuple[Shape, ...]

    dealt: tuple[int, ...]
    """For each argument, the number of values that each of its slots has taken in earlier sets."""

    series: int
    """The series of the set: each set of a series continues where the previous one ended."""

    is_shared: bool = False
    """Whether arguments of the same type are equal."""

    is_tame: bool = False

    mild: int | None = None
    """The index of the list of mild values that the set uses; None if it uses other values."""


class DealtArguments:
    """
    A lazy sequence of deterministic sets of arguments for a function.

    If all elements together have at most `max_combinations` combinations of values, the sets
    are all combinations, and `is_exhaustive` is true. Otherwise there are at most `max_sets`,
    or fewer if they suffice:

    - Each position of a small argument takes every value of its pool. In a larger argument, the
    positions that read one slot of its type do so together, or all positions. The pool of a type of
    up to 8 bits is all its codes. The pool of another type has the ends of the range, powers of
    two, the numbers in `interesting`, and the neighbours of these; for floats also NaN, infinities,
    zeros of both signs, the least and the greatest normal and denormal numbers, and ties of
    rounding. - Axes of unknown length all have the same length, but different ones in every second
    set. - In some sets arguments of the same type are equal, in some there are small numbers of
    both signs and zeros, so that sums of products are not all clamped, and in some there are no
    zeros, infinities and NaN, so that arithmetic is defined. With `is_tame`, no set has these. -
    The elements of an integer argument whose number is in `bounds` are from zero to below the bound
    in all sets, which then are not all combinations.

    """

    is_exhaustive: bool
    """Whether the sets are all possible arguments: functions that differ do so on one of them."""

    def __init__(
        self,
        types: FunctionType,
        *,
        interesting: Iterable[float] = (),
        max_sets: int = DEFAULT_MAX_SETS,
        max_combinations: int = DEFAULT_MAX_COMBINATIONS,
        is_tame: bool = False,
        bounds: Mapping[int, int] | None = None,
    ) -> None:
        """Raises InterpretationError for a type without known values."""
        numbers = list(interesting)
        self._types = types.inputs.data
        self._declared = [declared_shape(type) for type in self._types]
        self._is_tame = is_tame
        values = None
        if not (is_tame or bounds) or not self._types:
            values = _all_combinations(self._types, self._declared, max_combinations)
        self.is_exhaustive = values is not None
        if values is not None:
            sizes = [math.prod(shape) for shape in self._declared]
            counts = [len(pool) ** size for pool, size in zip(values, sizes, strict=True)]
            self._pools = [_Pool(pool, pool, ()) for pool in values]
            self._sets: Sequence[_Set] = ()
            self._count = math.prod(counts)
        else:
            self._pools = [
                _bounded(_pool(element_type_or_self(type), shape, numbers), type, bound)
                for type, shape, bound in zip(
                    self._types,
                    self._declared,
                    map((bounds or {}).get, range(len(self._types))),
                    strict=True,
                )
            ]
            self._sets = self._planned(max(max_sets, 1))
            self._count = len(self._sets)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[TypedArray, ...]]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int, /) -> tuple[TypedArray, ...]:
        """A set; raises IndexError, and InterpretationError if it exceeds the memory budget."""
        number = range(len(self))[index]
        if not self.is_exhaustive:
            return self._dealt(number)
        one = self.combinations(np.array([number]))
        pairs = zip(one, self._types, strict=True)
        return tuple(TypedArray.of(argument.elements[0], type) for argument, type in pairs)

    def combinations(self, numbers: NDArray[np.int64]) -> tuple[TypedArray, ...]:
        """
        The sets with these indices, batched; only if `is_exhaustive`.

        The first axis of each argument is the batch axis.
        """
        arguments: list[TypedArray] = []
        for type, shape, pool in zip(self._types, self._declared, self._pools, strict=True):
            # Read as a number in mixed radix, an index has one digit per element of the arguments.
            digits: list[NDArray[np.int64]] = []
            for _ in range(math.prod(shape)):
                numbers, digit = np.divmod(numbers, len(pool.values))
                digits.append(digit)
            places = np.array(digits, dtype=np.int64).reshape(-1, len(numbers)).transpose()
            elements = np.asarray(pool.values[places].reshape(len(numbers), *shape))
            arguments.append(TypedArray.of(elements, at_all_positions(type, elements.shape)))
        return tuple(arguments)

    def _dealt(self, number: int) -> tuple[TypedArray, ...]:
        plan = self._sets[number]
        arguments: list[TypedArray] = []
        for at, (type, pool) in enumerate(zip(self._types, self._pools, strict=True)):
            player = self._types.index(type) if plan.is_shared else at
            shape = plan.shapes[at]
            dealer = _Dealer(shape, _decks_of(type, shape), plan.dealt[at], (plan.series, player))
            with naming_argument(at, type):
                elements = dealer.deal(_values_for(plan, pool))
            arguments.append(TypedArray.of(elements, type))
        return tuple(arguments)

    def _planned(self, max_sets: int) -> list[_Set]:
        if self._is_tame:
            return [plan._replace(is_tame=True) for plan in self._series(4, max_sets)]
        unknown = sum(shape.count(DYNAMIC) for shape in self._declared)
        has_equals = len(set(self._types)) < len(self._types)
        has_numbers = any(_is_computed_with(element_type_or_self(type)) for type in self._types)
        shared = min(_MAX_SHARED, max_sets // 4) * has_equals
        tame = min(_MAX_TAME, max_sets // 4) * has_numbers
        mild = min(_MAX_MILD, max_sets // 4)
        most = max_sets - shared - tame - mild
        if unknown > 1:
            equal = self._series(0, (most + 1) // 2)
            different = self._series(1, most // 2)
            sets = [plan for pair in zip(equal, different, strict=False) for plan in pair]
            both = min(len(equal), len(different))
            sets += equal[both:] + different[both:]
        else:
            sets = self._series(0, most)
        planned = tuple(sets)
        sets += [plan._replace(is_shared=True) for plan in self._series(2, shared)]
        for at, plan in enumerate(self._series(4, tame)):
            sets.append((self._series(5, at + 1)[-1] if at % 2 else plan)._replace(is_tame=True))
        # Interleaved with other sets, so that some of each kind run even if not all sets do.
        for at in range(mild):
            like = planned[at % len(planned)]
            sets.insert(2 * at + 1, like._replace(series=like.series + 2 * (at + 3), mild=at))
        return sets

    def _series(self, series: int, most: int) -> list[_Set]:
        """Plan sets until all values have been dealt. In odd series, dynamic lengths differ."""
        sets: list[_Set] = []
        dealt = (0,) * len(self._types)
        while len(sets) < most:
            number = len(sets)
            lengths = self._different(number) if series % 2 else self._equal(number)
            shapes = tuple(map(_with_lengths, self._declared, lengths))
            sets.append(_Set(shapes, dealt, series))
            dealt = tuple(
                taken + math.prod(shape) // math.prod(_decks_of(type, shape))
                for type, shape, taken in zip(self._types, shapes, dealt, strict=True)
            )
            if len(sets) >= _LEAST_SETS and all(
                taken >= len(pool.values) or not taken
                for taken, pool in zip(dealt, self._pools, strict=True)
            ):
                break
        return sets

    def _equal(self, number: int) -> list[list[int]]:
        counts = [shape.count(DYNAMIC) for shape in self._declared]
        length = _EQUAL_LENGTHS[number % len(_EQUAL_LENGTHS)]
        while length ** max(counts, default=0) > _MAX_UNKNOWN:
            length -= 1
        return [[length] * count for count in counts]

    def _different(self, number: int) -> list[list[int]]:
        """Dynamic lengths that all differ; one that would make an argument too large is 1."""
        counts = [shape.count(DYNAMIC) for shape in self._declared]
        axes = iter(range(sum(counts)))
        lengths: list[list[int]] = []
        for count in counts:
            lengths.append([])
            for _ in range(count):
                length = _LEAST_DIFFERENT + (next(axes) + number) % sum(counts)
                fits = math.prod(lengths[-1]) * length <= _MAX_UNKNOWN
                lengths[-1].append(length if fits else 1)
        return lengths


def _values_for(plan: _Set, pool: _Pool) -> NDArray[Any]:
    if plan.mild is not None:
        return pool.mild[plan.mild % len(pool.mild)]
    return pool.tame if plan.is_tame else pool.values


def _with_lengths(shape: Shape, lengths: Sequence[int]) -> Shape:
    unknown = iter(lengths)
    return tuple(next(unknown) if length == DYNAMIC else length for length in shape)


def _decks_of(type: Attribute, shape: Shape) -> Shape:
    """The decks of values along each axis: one for each slot, or for each of few positions."""
    element_type = element_type_or_self(type)
    if math.prod(shape) <= _MAX_POSITIONS and is_static(shape_of(type)) and 0 not in shape:
        return shape
    if isinstance(element_type, UniformQuantizedType) and 0 not in shape:
        return element_type.parameters_on(shape).scales.shape
    return (1,) * len(shape)


class _Dealer:
    """
    Deals values to the positions of one argument.

    The positions that share a deck take its values in turn, and it is reshuffled when all have
    been dealt.
    """

    def __init__(self, shape: Shape, decks: Shape, dealt: int, seed: tuple[int, ...]) -> None:
        self._shape, self._decks, self._already, self._seed = shape, decks, dealt, seed

    def deal(self, values: NDArray[Any]) -> NDArray[Any]:
        """The elements of the argument: of its shape, and of the dtype of `values`."""
        require_possible(self._shape)
        count = math.prod(self._shape)
        nbytes = count * values.dtype.itemsize
        elements = allocated(lambda: np.empty(count, dtype=values.dtype), nbytes)
        for start in range(0, count, _PIECE):
            positions = np.arange(start, min(start + _PIECE, count))
            elements[start : start + _PIECE] = values[self._cards(positions, len(values))]
        return elements.reshape(self._shape)

    def _cards(self, positions: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        slot, rank = self._places(positions)
        deck, at = np.divmod(self._already + rank, count)
        random = _mixed(self._seed, slot, deck)
        # Multiplying by a unit modulo `count` and adding an offset permutes the deck.
        units = _units(count)
        factor = units[(random % np.uint64(len(units))).astype(np.int64)]
        offset = ((random >> np.uint64(32)) % np.uint64(count)).astype(np.int64)
        return (factor * at + offset) % count

    def _places(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """
        For each position, the index of its slot, and its rank among the positions of that slot.
        """
        if math.prod(self._decks) == 1:
            return np.zeros_like(positions), positions
        slot, rank, slots_below, ranks_below = 0, 0, 1, 1
        for length, slots in zip(reversed(self._shape), reversed(self._decks), strict=True):
            positions, index = np.divmod(positions, length)
            block = length // slots
            slot = slot + index // block * slots_below
            rank = rank + index % block * ranks_below
            slots_below, ranks_below = slots_below * slots, ranks_below * block
        return cast("NDArray[np.int64]", slot), cast("NDArray[np.int64]", rank)


def _mixed(seed: Sequence[int], slot: NDArray[np.int64], deck: NDArray[np.int64]) -> _Bits:
    """Pseudorandom bits from all of these: one round of SplitMix64 for each."""
    bits = np.zeros(len(slot), dtype=np.uint64)
    for part in (*seed, slot, deck):
        bits = bits + np.asarray(part).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits = bits ^ (bits >> np.uint64(31))
    return bits


def _units(count: int) -> NDArray[np.int64]:
    """The numbers below `count` that are coprime to it; 1 if there are none."""
    numbers = np.arange(1, max(count, 2))
    return numbers[np.gcd(numbers, count) == 1]


# Pools


def _is_computed_with(type: Attribute) -> bool:
    return isinstance(type, IntegerType | IndexType | AnyFloat)


def _all_combinations(
    types: Sequence[Attribute], shapes: Sequence[Shape], most: int
) -> list[NDArray[Any]] | None:
    """All values of each of `types`; None if there are more than `most` combinations."""
    pools: list[NDArray[Any]] = []
    total = 1
    for type, shape in zip(types, shapes, strict=True):
        codes = _codes(element_type_or_self(type))
        if DYNAMIC in shape or codes is None:
            return None
        count, size = codes.stop - codes.start, math.prod(shape)
        # Bound the exponent before computing the power, which could be huge.
        total *= count**size if count < 2 or size <= most.bit_length() else most + 1
        if total > most or count > most:
            return None
        pools.append(_listed(element_type_or_self(type), codes))
    return pools


def _codes(type: Attribute) -> range | None:
    """All storage integers, or all bit patterns of a float; None where some are not stored."""
    plain = held_type(type)
    if isinstance(type, StoredType) and isinstance(plain, IntegerType):
        return range(type.storage_type_min, type.storage_type_max + 1)
    if isinstance(type, StoredType) and not type.allows_all:
        return None
    if isinstance(plain, IntegerType):
        is_signed = plain.signedness.data is not Signedness.UNSIGNED
        least, greatest = integer_range(plain.bitwidth, is_signed)
        return range(least, greatest + 1)
    if isinstance(plain, AnyFloat):
        return range(1 << width_of(plain))
    return None


def _listed(type: Attribute, codes: range) -> NDArray[Any]:
    if isinstance(held_type(type), AnyFloat):
        return elements_of_bits(np.arange(codes.start, codes.stop, dtype=np.uint64), type)
    return elements_of_numbers(np.arange(codes.start, codes.stop, dtype=np.int64), type)


def _pool(type: Attribute, declared: Shape, interesting: Sequence[float]) -> _Pool:
    """The pool of an argument; `declared` is its shape, possibly dynamic."""
    plain = held_type(type)
    if not isinstance(plain, IntegerType | IndexType | AnyFloat):
        raise InterpretationError(
            f"values of type '{plain}' cannot be generated to run a function with"
        )
    room = math.prod(length for length in declared if length != DYNAMIC)
    if isinstance(type, StoredType) and type.storage_format.codebook is not None:
        stored = type.storage_format.codes(type.storage_type_min, type.storage_type_max)
        values = elements_of_numbers(stored, type)
        return _Pool(values, values, (values,))
    codes = _codes(type)
    if codes is not None and _are_listed(codes, plain, room):
        values = _listed(type, codes)
    elif isinstance(plain, AnyFloat):
        values = _float_pool(plain, room, interesting)
    elif codes is None:
        near = _whole_neighbours(interesting)
        values = _integers(IndexType(), [*range(-1, _MAX_INDEX + 1), *near])
    else:
        edges = _integer_edges(type, codes, interesting)
        others = _others(room, len(edges))
        drawn = codes.start + (others * (codes.stop - codes.start)).astype(object)
        values = _integers(type, [*edges, *(min(int(n), codes.stop - 1) for n in drawn)])
    return _Pool(values, _tame(type, values), _mild(type))


def _bounded(pool: _Pool, type: Attribute, bound: int | None) -> _Pool:
    """The pool of an argument of integers from zero to below a bound; None for no bound."""
    if bound is None:
        return pool
    element_type = element_type_or_self(type)
    codes = _codes(element_type)
    last = bound - 1 if codes is None else min(bound, codes.stop) - 1
    # Spread over the range, with both ends.
    count = min(last + 1, max(len(pool.values), 1 << _MAX_LISTED_WIDTH))
    values = _integers(element_type, (last * at // max(count - 1, 1) for at in range(count)))
    return _Pool(values, values, (values,))


def _are_listed(codes: range, plain: Attribute, room: int) -> bool:
    if width_of(cast(Any, plain)) <= _MAX_LISTED_WIDTH:
        return True
    count = codes.stop - codes.start
    return count <= min(_MAX_LISTED, max(room * _FEW_SETS, 1 << _MAX_LISTED_WIDTH))


def _tame(type: Attribute, values: NDArray[Any]) -> NDArray[Any]:
    plain = held_type(type)
    if isinstance(plain, AnyFloat):
        return elements_of_numbers(np.arange(1, 65) * 0.5, type)
    if not _is_computed_with(type) or width_of(plain) == 1:
        return values
    width = width_of(plain)
    return _integers(type, range(1, min(_MAX_INDEX, (1 << (width - 1)) - 1) + 1))


def _mild(type: Attribute) -> list[NDArray[Any]]:
    """The lists of mild values, of increasing magnitude: first with few zeros, then with many."""
    most_zeros, least_power = 4 * _MILD_STEPS, -_MAX_MILD // 2
    steps = np.concatenate((np.arange(-_MILD_STEPS, 0), np.arange(1, _MILD_STEPS + 1)))
    lists: list[NDArray[Any]] = []
    for at in range(_MAX_MILD):
        zeros, size = divmod(at, _MAX_MILD // 2)
        with_zeros = np.concatenate((steps, np.zeros(zeros * most_zeros + 1, dtype=np.int64)))
        if isinstance(held_type(type), AnyFloat):
            lists.append(elements_of_numbers(with_zeros * 2.0 ** (least_power + size), type))
            continue
        zero = int(type.zero_points.flat[0]) if isinstance(type, UniformQuantizedType) else 0
        most = min(size + 1, _MILD_STEPS)
        numbers = np.clip(with_zeros, -most, most) + zero
        codes = _codes(type)
        if codes is not None:
            # Clamp the ends of 64-bit ranges, which would overflow, and are far from all of these
            # numbers.
            least, greatest = max(codes.start, -(1 << 62)), min(codes.stop - 1, 1 << 62)
            numbers = np.clip(numbers, least, greatest)
        lists.append(elements_of_numbers(numbers, type))
    return lists


def _integers(type: Attribute, numbers: Iterable[int]) -> NDArray[Any]:
    """Distinct integers as elements of `type`, of any width."""
    distinct = sorted(set(numbers))
    bits = np.array([number % (1 << 64) for number in distinct], dtype=np.uint64)
    return elements_of_numbers(bits.astype(np.int64), type)


def _whole_neighbours(interesting: Sequence[float]) -> list[int]:
    finite = [number for number in interesting[:_MAX_INTERESTING] if math.isfinite(number)]
    return [
        whole + step
        for number in finite
        for whole in (math.floor(number), math.ceil(number))
        for step in (-1, 0, 1)
    ]


def _integer_edges(type: Attribute, codes: range, interesting: Sequence[float]) -> list[int]:
    powers = [1 << bit for bit in range((codes.stop - codes.start).bit_length())]
    edges = [0, codes.start, codes.stop - 1, *powers, *(-power for power in powers)]
    if isinstance(type, UniformQuantizedType):
        edges += np.unique(type.zero_points)[:_MAX_INTERESTING].tolist()
    edges = [number + step for number in edges for step in (-1, 0, 1)]
    edges += _whole_neighbours(interesting)
    return sorted({number for number in edges if number in codes})


def _others(room: int, edges: int) -> NDArray[np.float64]:
    """Numbers from 0 to 1 for the part of a pool that edge cases do not fill."""
    count = min(max(room - edges, 0), _MAX_OTHERS)
    return np.random.default_rng(0).random(count)


def _float_pool(type: AnyFloat, room: int, interesting: Sequence[float]) -> NDArray[Any]:
    known = format_of(type)
    numbers = _float_edges(known)
    others = _others(room, len(numbers))
    others = np.where(np.arange(len(others)) % 2, -1.0, 1.0) * 2.0 ** (others * 16 - 8)
    given = [float(number) for number in interesting[:_MAX_INTERESTING]]
    near = known.nearest_bits(np.array(given, dtype=np.float64))
    bits = np.concatenate(
        (
            known.nearest_bits(np.concatenate((numbers, -numbers, others))),
            *((near + np.uint64(step)) & _all_ones(known) for step in (0, 1, (1 << 64) - 1)),
            # A NaN with a sign and a payload. The plain NaN is among the edge cases.
            [_all_ones(known)],
        )
    )
    return elements_of_bits(np.unique(bits), type)


def _all_ones(known: FloatFormat) -> np.uint64:
    return np.uint64((1 << (known.exponent_bits + known.precision)) - 1)


def _float_edges(known: FloatFormat) -> NDArray[np.float64]:
    """Non-negative numbers at which rounding, ranges and comparisons change."""
    last, digits = known.smallest, known.precision
    least_normal = math.ldexp(last, digits - 1)
    ulp = math.ldexp(1.0, 1 - digits)
    halves = [number + 0.5 for number in range(9)]
    whole = [1.0, 2.0, 3.0, 100.0, math.ldexp(1.0, digits) - 1, math.ldexp(1.0, digits)]
    ranges = [
        number + step for number in (7.0, 8.0, 127.0, 255.0) for step in (-0.5, 0.0, 0.5, 1.0)
    ]
    wide = [
        number
        for bits in (15, 16, 31, 32, 63, 64)
        for number in (math.ldexp(1.0, bits), math.ldexp(1.0 - ulp / 2, bits))
    ]
    near_tie = [0.5 - ulp / 4, 0.5 + ulp / 2, 1.5 - ulp, 1.5 + ulp, 2.5 - 2 * ulp, 2.5 + 2 * ulp]
    least = [0.0, last, least_normal - last, least_normal, math.sqrt(least_normal)]
    greatest = [known.largest, known.largest * (1 - ulp / 2), math.inf, math.nan]
    fractions = [0.25, 1 / 3, 0.75, 1 - ulp / 2, 1 + ulp]
    return np.array([*halves, *whole, *ranges, *wide, *near_tie, *least, *greatest, *fractions])
