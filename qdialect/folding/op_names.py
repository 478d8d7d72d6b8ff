"""Names that identify ops across modules with the same SSA names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation


class OpNames:
    """
    The names of some ops of a module, made of the function and the name of the result.

    The name is `@f/%w`; or `@f/#3`, the op at position 3 of the function, if the result has no
    name or the name is not unique among these ops in the function. Positions are those at the
    time of construction. Ops outside of functions have no function part, and positions in the
    module. `parts` are ops without a position: each has the name of another op, and a suffix.
    """

    def __init__(
        self,
        module: ModuleOp,
        is_named: Callable[[Operation], bool],
        parts: Mapping[Operation, tuple[Operation, str]],
    ) -> None:
        self._parts = parts
        self._places: dict[Operation, tuple[str, int, str | None]] = {}
        for op, scope, position in _scoped(module, parts):
            if is_named(op):
                results = op.results
                self._places[op] = scope, position, results[0].name_hint if results else None
        self._hints = Counter([(scope, hint) for scope, _, hint in self._places.values()])

    def __getitem__(self, op: Operation) -> str:
        if op in self._parts:
            of, suffix = self._parts[op]
            return self[of] + suffix
        scope, position, hint = self._places[op]
        is_own = hint is not None and self._hints[scope, hint] == 1
        return f"{scope}%{hint}" if is_own else f"{scope}#{position}"

    @property
    def by_name(self) -> dict[str, Operation]:
        """The ops, keyed by name and also by position."""
        positions = {f"{scope}#{at}": op for op, (scope, at, _) in self._places.items()}
        return positions | {self[op]: op for op in (*self._places, *self._parts)}


def _scoped(
    module: ModuleOp, left_out: Collection[Operation]
) -> Iterator[tuple[Operation, str, int]]:
    """All ops in a module except `parts`, each with the prefix of its name and its position."""
    rest, seen = 0, set[str]()

    def walk(top: Operation) -> Iterator[Operation]:
        return (op for op in top.walk() if op not in left_out) if left_out else top.walk()

    for top in module.ops:
        symbol = top.properties.get("sym_name") or top.attributes.get("sym_name")
        if isinstance(symbol, StringAttr) and symbol.data not in seen:
            seen.add(symbol.data)
            for position, op in enumerate(walk(top)):
                yield op, f"@{symbol.data}/", position
        else:
            for op in walk(top):
                yield op, "", rest
                rest += 1
