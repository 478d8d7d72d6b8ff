"""An order in which things come after what they depend on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

ThingT = TypeVar("ThingT", bound=Hashable)


def dependencies_first(
    roots: Iterable[ThingT], dependencies: Callable[[ThingT], Iterable[ThingT]]
) -> Iterator[ThingT]:
    """
    `roots` and all that they depend on, each once and after its own dependencies.

    In a circle, the one that is met first comes last.
    """
    seen: set[ThingT] = set()
    for root in roots:
        pending = [(root, False)]
        while pending:
            thing, is_next = pending.pop()
            if is_next:
                yield thing
            elif thing not in seen:
                seen.add(thing)
                others = [(other, False) for other in dependencies(thing) if other not in seen]
                if others:
                    pending.append((thing, True))
                    pending += others
                else:
                    yield thing
