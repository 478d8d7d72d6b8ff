"""The source constants of the elements of a value, whose names are kept and reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from xdsl.ir import Operation

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import Movement, Shape, ValueSet
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.algebra.views import ElementSlots, Splat
from qdialect.support.lazy_numpy import np

_MAX_KEPT_RUNS: Final = 1 << 14
"""Larger maps are reduced to the list of sources, since each op of a chain holds a map."""

Sources = dict[int, Operation]
"""The constants by their numbers in a map: their `id`."""


class Provenance:
    """
    The source constants of elements, and the relation of the set of values to theirs.

    The sources of a concatenation are collected on demand: a chain of n concatenations
    would otherwise hold lists of 1, 2, ..., n sources.
    """

    __slots__ = (
        "_axis",
        "_is_part",
        "_parts",
        "_source_map",
        "_sources",
        "first_source",
        "value_set",
    )

    def __init__(
        self,
        value_set: ValueSet,
        sources: Iterable[Operation] = (),
        source_map: ElementSlots | None = None,
    ) -> None:
        self.value_set = value_set
        """The relation of the set of values to that of the sources."""
        self._sources = tuple(sources)
        """The sources in the order of their elements; empty if they are those of the parts."""
        self._source_map = source_map
        """The number of the source of each element, if there are several and the map is small."""
        self._parts: tuple[Part, ...] = ()
        self._axis = 0
        self._is_part = False
        self.first_source = self._sources[0] if self._sources else None
        """The source of the first element."""

    @classmethod
    def of(cls, source: Operation) -> Provenance:
        """The provenance of the elements of a constant."""
        return cls(ValueSet.SAME, (source,))

    @classmethod
    def _joined(cls, value_set: ValueSet, parts: tuple[Part, ...], axis: int) -> Provenance:
        joined = cls(value_set)
        joined._parts, joined._axis = parts, axis
        joined.first_source = parts[0].provenance.first_source
        return joined

    @property
    def sources(self) -> tuple[Operation, ...]:
        """The source constants, in the order of their elements."""
        return self._sources or tuple(self._found()[0].values())

    @property
    def has_one_source(self) -> bool:
        """Whether all elements come from one constant."""
        return len(self._sources) == 1

    def moved(self, movements: Sequence[Movement]) -> Provenance:
        """The provenance after movements with these elements as the only operand."""
        value_set = self.value_set.then(*[movement.values for movement in movements])
        if not self.has_one_source and movements:
            sources, source_map = self._found()
            if source_map is not None:
                sources, source_map = _moved(movements, sources, [source_map])
                return Provenance(value_set, sources.values(), source_map)
        return self.with_value_set(value_set)

    def with_value_set(self, value_set: ValueSet) -> Provenance:
        """The same sources, with another relation of the sets of values."""
        if value_set is self.value_set:
            return self
        if self._parts:
            return Provenance._joined(value_set, self._parts, self._axis)
        return Provenance(value_set, self._sources, self._source_map)

    def as_part(self, axis: int) -> Provenance:
        """
        This provenance as a part of a concatenation on `axis`.

        Only the first concatenation that uses a part keeps the part's own parts separate. Otherwise
        `x = concat(x, x)`, n times, would expand to 2**n parts.
        """
        if self._parts and (self._is_part or self._axis != axis):
            sources, source_map = self._found()
            return Provenance(self.value_set, sources.values(), source_map)
        self._is_part = True
        return self

    def _found(self) -> tuple[Sources, ElementSlots | None]:
        if not self._parts:
            return {id(source): source for source in self._sources}, self._source_map
        flat: list[Part] = []
        pending = list(reversed(self._parts))
        while pending:
            part = pending.pop()
            if part.provenance._parts:
                pending += reversed(part.provenance._parts)
            else:
                flat.append(part)
        return _joined([Concat(self._axis)], flat)

    @classmethod
    def join(cls, movements: Sequence[Movement], parts: Sequence[Part]) -> Provenance:
        """The provenance after movements of which the first takes all `parts`."""
        value_set = ValueSet.SAME.then(
            *(part.provenance.value_set for part in parts),
            *(movement.values for movement in movements),
        )
        first, *others = movements
        if not isinstance(first, Concat) or others:
            sources, source_map = _joined(movements, parts)
            return cls(value_set, sources.values(), source_map)
        present = [part for part in parts if 0 not in part.shape] or parts[:1]
        single = present[0].provenance
        if all(
            part.provenance.has_one_source and part.provenance.first_source is single.first_source
            for part in present
        ):
            return single.with_value_set(value_set)
        return cls._joined(
            value_set,
            tuple(Part(part.provenance.as_part(first.dim), part.shape) for part in present),
            first.dim,
        )


class Part(NamedTuple):
    """An operand of a concatenation, or of another movement of several operands."""

    provenance: Provenance
    shape: Shape


def _joined(
    movements: Sequence[Movement], parts: Sequence[Part]
) -> tuple[Sources, ElementSlots | None]:
    all_sources: Sources = {}
    operands: list[ElementSlots] = []
    for part in parts:
        sources, source_map = part.provenance._found()  # pyright: ignore[reportPrivateUsage]
        all_sources |= sources
        if source_map is not None:
            operands.append(source_map)
        elif len(sources) == 1:
            one = Splat(np.int64(next(iter(sources))), part.shape)
            operands.append(ElementSlots.of(one))
    if len(all_sources) == 1 or len(operands) < len(parts):
        return all_sources, None
    return _moved(movements, all_sources, operands)


def _moved(
    movements: Sequence[Movement], sources: Sources, operands: Sequence[ElementSlots]
) -> tuple[Sources, ElementSlots | None]:
    try:
        for movement in movements:
            operands = [movement(*operands).simplify()]
    except TooManySlotsError:
        return sources, None
    (source_map,) = operands
    left = dict.fromkeys(source_map.elements.ravel().tolist())
    is_kept = len(left) > 1 and source_map.size <= _MAX_KEPT_RUNS
    return {number: sources[number] for number in left}, source_map if is_kept else None
