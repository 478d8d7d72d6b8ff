"""An order in which things come after what they depend on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from xdsl.ir import Operation

ThingT = TypeVar("ThingT", bound=Hashable)
OpT = TypeVar("OpT", bound="Operation")


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


def operands_first(ops: Collection[OpT]) -> Iterator[OpT]:
    """
    `ops`, which are quickly looked up, each after those of them that make its operands.

    In a graph region, or where blocks are not in order, these may come later in a module.
    """

    def makers_of_operands(op: OpT) -> list[OpT]:
        # A block is none of them.
        owners = [cast(OpT, operand.owner) for operand in op.operands]
        return [owner for owner in owners if owner in ops]

    return dependencies_first(ops, makers_of_operands)
