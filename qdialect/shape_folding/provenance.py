"""Which constants the elements of a value came from: their names are kept, and told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xdsl.ir import Operation

from qdialect.movement import Concat, Movement, Shape, ValueSet
from qdialect.shape_folding.origins import Origins
from qdialect.slot_map import TooManySlotsError

Sources = dict[int, Operation]
"""Constants by the number that stands for each, which is its `id`."""


class Provenance:
    """
    The constants that elements came from, and what has become of their values.

    The sources of what was joined are put together when they are asked for, so that what
    is joined step by step does not carry a list that grows with each.
    """

    def __init__(
        self,
        value_set: ValueSet,
        sources: Iterable[Operation] = (),
        origins: Origins | None = None,
    ) -> None:
        self.value_set = value_set
        """What has become of the set of values of the sources."""
        self._sources = tuple(sources)
        """In the order of their elements; none if they are those of the parts."""
        self._origins = origins
        """Which from which, if there are several and it can be said in few words."""
        self._parts: tuple[Part, ...] = ()
        self._axis = 0
        self._is_part = False
        self.first_source = self._sources[0] if self._sources else None
        """The constant that the first element came from."""

    @classmethod
    def of(cls, source: Operation) -> Provenance:
        """The elements of a constant."""
        return cls(ValueSet.SAME, (source,))

    @classmethod
    def _joined(cls, value_set: ValueSet, parts: tuple[Part, ...], axis: int) -> Provenance:
        joined = cls(value_set)
        joined._parts, joined._axis = parts, axis
        joined.first_source = parts[0].provenance.first_source
        return joined

    @property
    def sources(self) -> tuple[Operation, ...]:
        """The constants that elements came from, in the order of their elements."""
        return self._sources or tuple(self._found()[0].values())

    @property
    def has_one_source(self) -> bool:
        """Whether all elements came from one constant."""
        return len(self._sources) == 1

    def moved(self, movements: Sequence[Movement]) -> Provenance:
        """That of the elements after movements of them alone."""
        value_set = self.value_set.then(*(movement.values for movement in movements))
        if not self.has_one_source and movements:
            sources, origins = self._found()
            if origins is not None:
                sources, origins = _moved(movements, sources, [origins])
                return Provenance(value_set, sources.values(), origins)
        return self.with_value_set(value_set)

    def with_value_set(self, value_set: ValueSet) -> Provenance:
        """The same sources, of whose values something else has become."""
        if value_set is self.value_set:
            return self
        if self._parts:
            return Provenance._joined(value_set, self._parts, self._axis)
        return Provenance(value_set, self._sources, self._origins)

    def as_part(self, axis: int) -> Provenance:
        """
        This as a part of what is joined on `axis`: the next join does not look into it.

        Were it not for that, what is joined to itself again and again would have no end.
        """
        if self._parts and (self._is_part or self._axis != axis):
            sources, origins = self._found()
            return Provenance(self.value_set, sources.values(), origins)
        self._is_part = True
        return self

    def _found(self) -> tuple[Sources, Origins | None]:
        if not self._parts:
            return {id(source): source for source in self._sources}, self._origins
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
        """That of what movements, of which the first takes several operands, make of `parts`."""
        value_set = ValueSet.SAME.then(
            *(part.provenance.value_set for part in parts),
            *(movement.values for movement in movements),
        )
        first, *others = movements
        if not isinstance(first, Concat) or others:
            sources, origins = _joined(movements, parts)
            return cls(value_set, sources.values(), origins)
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
    """What is joined to others: elements of a tensor of `shape`."""

    provenance: Provenance
    shape: Shape


def _joined(movements: Sequence[Movement], parts: Sequence[Part]) -> tuple[Sources, Origins | None]:
    all_sources: Sources = {}
    operands: list[Origins] = []
    for part in parts:
        sources, origins = part.provenance._found()  # pyright: ignore[reportPrivateUsage]
        all_sources |= sources
        if origins is not None:
            operands.append(origins)
        elif len(sources) == 1:
            operands.append(Origins.of_one(part.shape, next(iter(sources))))
    if len(all_sources) == 1 or len(operands) < len(parts):
        return all_sources, None
    return _moved(movements, all_sources, operands)


def _moved(
    movements: Sequence[Movement], sources: Sources, operands: Sequence[Origins]
) -> tuple[Sources, Origins | None]:
    try:
        for movement in movements:
            operands = [movement(*operands).simplify()]
    except TooManySlotsError:
        return sources, None
    (origins,) = operands
    left = dict.fromkeys(origins.numbers.ravel().tolist())
    return {number: sources[number] for number in left}, origins if len(left) > 1 else None
