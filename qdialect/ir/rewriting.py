"""Rewriting: topological orders of ops, insertion after values, and replacement of many values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar, cast

from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

ThingT = TypeVar("ThingT", bound=Hashable)
OpT = TypeVar("OpT", bound=Operation)


def dependencies_first(
    roots: Iterable[ThingT], dependencies: Callable[[ThingT], Iterable[ThingT]]
) -> Iterator[ThingT]:
    """
    `roots` and their transitive dependencies, each once and after its own dependencies.

    In a cycle, the one reached first comes last.
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
    `ops`, each after those of them that define its operands. Lookup in `ops` must be fast.

    In a graph region, or where blocks are not in order, these may come later in the module.
    """

    def makers_of_operands(op: OpT) -> list[OpT]:
        makers = [operand.op for operand in op.operands if isinstance(operand, OpResult)]
        return cast(list[OpT], [maker for maker in makers if maker in ops])

    return dependencies_first(ops, makers_of_operands)


def circular(
    things: Iterable[ThingT], dependencies: Callable[[ThingT], Iterable[ThingT]]
) -> set[ThingT]:
    """
    Those of `things` and their dependencies that depend on themselves, directly or through others.

    Kosaraju's algorithm, in linear time.
    """
    order = list(dependencies_first(things, dependencies))
    users = defaultdict[ThingT, list[ThingT]](list)
    for thing in order:
        for other in dependencies(thing):
            users[other].append(thing)
    on_circle, seen = set[ThingT](), set[ThingT]()
    for last in reversed(order):
        # The unseen transitive users are the strongly connected component.
        component, pending = list[ThingT](), [last]
        while pending:
            thing = pending.pop()
            if thing not in seen:
                seen.add(thing)
                component.append(thing)
                pending += users[thing]
        if len(component) > 1 or last in users[last]:
            on_circle.update(component)
    return on_circle


def on_circles(root: Operation) -> set[Operation]:
    """
    The ops in `root` that use their own results, directly or through others.

    This is legal in a graph region and in unreachable blocks.
    """
    if not _uses_what_comes_later(root):
        return set()
    edges = {op: [*_makers(op), *_ops_in(op)] for op in root.walk()}
    return circular(edges, lambda op: edges.get(op, ()))


def _makers(op: Operation) -> Iterator[Operation]:
    for operand in op.operands:
        # A block argument is defined by a block, which is never on a cycle.
        if isinstance(operand, OpResult):
            yield operand.op


def _ops_in(op: Operation) -> Iterator[Operation]:
    for region in op.regions:
        for block in region.blocks:
            yield from block.ops


def _uses_what_comes_later(root: Operation) -> bool:
    """Whether an op uses the result of a later one: a fast test, necessary for a cycle."""
    seen: set[Operation] = set()
    for op in root.walk(region_first=True):
        if any(maker not in seen for maker in _makers(op)):
            return True
        seen.add(op)
    return False


def insert_after(op: Operation, value: SSAValue) -> None:
    """Insert an op directly after the definition of a value, with the location of that."""
    owner = value.owner
    if isinstance(owner, Block):
        Rewriter.insert_op(op, InsertPoint.at_start(owner))
    else:
        op.location = owner.location
        Rewriter.insert_op(op, InsertPoint.after(owner))


class Replacements:
    """
    A map from values to the values that replace their uses.

    A replacement may be replaced in turn. Replacing values one by one would copy all operands
    of an op once for each replaced operand.
    """

    def __init__(self) -> None:
        self._by: dict[SSAValue, SSAValue] = {}
        self._gone = list[Operation]()

    def add(self, value: SSAValue, by: SSAValue) -> None:
        """Replace `value` by `by`, whose own replacements must not lead back to `value`."""
        self._by[value] = by

    def put(self, op: Operation, ops: Sequence[Operation]) -> None:
        """Replace an op with one result by `ops`, the last of which has the new value."""
        for new in ops:
            new.location = op.location
            Rewriter.insert_op(new, InsertPoint.before(op))
        self.add(op.results[0], ops[-1].results[0])
        self._gone.append(op)

    def final(self, value: SSAValue) -> SSAValue:
        """The value that replaces `value` after all replacements."""
        passed: list[SSAValue] = []
        while (by := self._by.get(value)) is not None:
            passed.append(value)
            value = by
        for other in passed:
            self._by[other] = value
        return value

    def apply(self) -> None:
        """Replace all uses, and erase the ops that others were put in the place of."""
        users = dict.fromkeys(use.operation for value in self._by for use in value.uses)
        for user in users:
            user.operands = [self.final(operand) for operand in user.operands]
        for op in self._gone:
            Rewriter.erase_op(op)


def values_in(op: Operation) -> Iterator[SSAValue]:
    """The results and the arguments of blocks in an op, in the order of the text."""
    for inner in op.walk():
        yield from inner.results
        for region in inner.regions:
            for block in region.blocks:
                yield from block.args


def read_by(op: Operation) -> Iterator[SSAValue]:
    """The operands of an op, and the values from outside that its regions read."""
    yield from op.operands
    if op.regions:
        yield from captured_by(op)


def captured_by(op: Operation) -> Iterator[SSAValue]:
    """The values from outside of an op that the ops of its regions read."""
    inside = {*values_in(op)}.difference(op.results)
    for region in op.regions:
        for inner in region.walk():
            yield from (operand for operand in inner.operands if operand not in inside)
