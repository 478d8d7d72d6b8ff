"""An order in which things come after what they depend on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar, cast

from xdsl.ir import Operation, OpResult

ThingT = TypeVar("ThingT", bound=Hashable)
OpT = TypeVar("OpT", bound=Operation)


def dependencies_first(
    roots: Iterable[ThingT], dependencies: Callable[[ThingT], Iterable[ThingT]]
) -> Iterator[ThingT]:
    """
    `roots` and all that they depend on, each once and after its own dependencies.

    In a circle, the one that is met first comes last.
    """
    seen: set[ThingT] = set()
    for root in roots:
        if root in seen:
            continue
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


def on_circles(root: Operation) -> set[Operation]:
    """
    The ops in `root` that use, through others or directly, what they make themselves.

    So may ops of a graph region, and those in blocks that nothing leads to. Also those that
    are between two circles.
    """
    if not _uses_what_comes_later(root):
        return set()
    edges = {op: {*_makers(op), *_ops_in(op)} for op in root.walk()}
    users: dict[Operation, set[Operation]] = {op: set() for op in edges}
    for op, makers in edges.items():
        for maker in makers:
            if maker in users:
                users[maker].add(op)
    return _without_ends(users, _without_ends(edges, set(edges)))


def _makers(op: Operation) -> Iterator[Operation]:
    for operand in op.operands:
        # A block argument has a block for an owner, which is on no circle.
        if isinstance(operand, OpResult):
            yield operand.op


def _ops_in(op: Operation) -> Iterator[Operation]:
    for region in op.regions:
        for block in region.blocks:
            yield from block.ops


def _uses_what_comes_later(root: Operation) -> bool:
    """Without that there is no circle. It takes much less time to find out."""
    seen: set[Operation] = set()
    for op in root.walk(region_first=True):
        if any(maker not in seen for maker in _makers(op)):
            return True
        seen.add(op)
    return False


def _without_ends(edges: Mapping[Operation, set[Operation]], ops: set[Operation]) -> set[Operation]:
    """`ops` without those from which no edge leads to others, one after another."""
    sources: dict[Operation, list[Operation]] = {op: [] for op in ops}
    counts = dict.fromkeys(ops, 0)
    for op in ops:
        for target in edges[op]:
            if target in counts:
                sources[target].append(op)
                counts[op] += 1
    ends = [op for op, count in counts.items() if not count]
    for end in ends:
        for op in sources[end]:
            counts[op] -= 1
            if not counts[op]:
                ends.append(op)
    return ops.difference(ends)
