"""
The plan of a fold, as immutable data that can be printed, stored and sent to other machines.

A plan refers to ops by function and SSA name (see `OpNames`), and holds no elements. It can
therefore be applied to another module with the same names, such as one with other weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import override
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from qdialect.dialects.quant.tables import brief
from qdialect.support.terminal import Displayed, Table, first_rows

if TYPE_CHECKING:
    from qdialect.algebra.movement import Movement
    from qdialect.ops.interface import RefusalCode


class PlannedSource(NamedTuple):
    """A constant of the module whose elements are moved."""

    name: str
    op: str
    """The name of the op, such as `arith.constant`."""

    type: Attribute
    """The type of the result."""

    resource: str | None
    """The key of the resource if the elements are a `dense_resource`."""

    nbytes: int
    """The size of the elements in bytes; 0 for a splat."""

    is_kept: bool
    """Whether the constant stays in the module."""


class PlannedStep(NamedTuple):
    """A shape op between sources and a written constant."""

    name: str
    op: str
    type: Attribute
    operands: tuple[str, ...]
    """The sources and steps that it moves, skipping casts and identities."""

    movements: tuple[Movement, ...]
    """The movements; the first takes all operands. A plan has no padding elements."""

    into: str | None
    """The step whose constant contains the result, if the op is erased: itself or a later one."""


class PlannedConstant(NamedTuple):
    """A constant that replaces a shape op."""

    name: str
    """The name of the replaced shape op, the step that moves the elements."""

    sources: tuple[str, ...]
    """The source constants of the elements, whose names and attributes it takes over."""

    casts: tuple[str, ...]
    """The casts that are repeated after it."""

    types: tuple[Attribute, ...]
    """The types of the constant and of each cast after it."""

    nbytes: int
    """The size of the elements in bytes; 0 for a splat."""

    resource: str | None = None
    """The name of the elements if those of the sources are in files."""


class PlannedRemoval(NamedTuple):
    """A cast or shape op that is erased, and is not a step of a constant."""

    name: str
    op: str
    into: str | None
    """The step whose constant contains the result, if there is one."""


class PlannedRefusal(NamedTuple):
    """A shape op that is not folded, with the reason."""

    name: str
    op: str
    code: RefusalCode
    reason: str


@dataclass(frozen=True, repr=False)
class FoldPlan(Displayed):
    """
    The plan of a fold of one module.

    `qdialect.folding.plan.plan` makes one, and `qdialect.folding.apply.apply` carries it out.
    `qdialect.folding.plan_json` writes it as text, and reads that.
    """

    sources: tuple[PlannedSource, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    """The steps, each after the steps that it needs."""

    constants: tuple[PlannedConstant, ...] = ()
    """The constants, in the order in which they are written."""

    removed: tuple[PlannedRemoval, ...] = ()
    joined: tuple[str, ...] = ()
    """The shape ops of quant that are composed with the ops before them."""

    refused: tuple[PlannedRefusal, ...] = ()

    @override
    def __repr__(self) -> str:
        parts: Mapping[str, Sequence[object]] = vars(self)
        counts = ", ".join(f"{len(part)} {name}" for name, part in parts.items())
        return f"{type(self).__name__}({counts})"

    @override
    def tables(self) -> Sequence[Table]:
        constants = (
            (item.name, ", ".join(item.sources), brief(item.types[-1]), str(item.nbytes))
            for item in self.constants
        )
        refused = ((item.name, item.op, item.code.value, item.reason) for item in self.refused)
        names = "name", "made of", "type", "bytes"
        return (
            first_rows("constants", names, constants, 3, len(self.constants)),
            first_rows("refused", ("name", "op", "code", "reason"), refused, 4, len(self.refused)),
        )


class PlanError(ValueError):
    """
    A text is not a plan, or a plan does not match a module.

    The message has the path to the value of the plan, and the reason.
    """


class OpNames:
    """
    The names of some ops of a module, made of the function and the name of the result.

    The name is `@f/%w`; or `@f/#3`, the op at position 3 of the function, if the result has no
    name or the name is not unique among these ops in the function. Positions are those at the
    time of construction. Ops outside of functions have no function part, and positions in the
    module. `parts` are ops that are not in it: each has the name of another op, and a suffix.
    """

    def __init__(
        self,
        module: ModuleOp,
        is_named: Callable[[Operation], bool],
        parts: Mapping[Operation, tuple[Operation, str]],
    ) -> None:
        self._parts = parts
        self._places: dict[Operation, tuple[str, int, str | None]] = {}
        for op, scope, position in _scoped(module):
            if is_named(op):
                results = op.results
                self._places[op] = scope, position, results[0].name_hint if results else None
        self._hints = Counter([(scope, hint) for scope, _, hint in self._places.values()])

    def __getitem__(self, op: Operation) -> str:
        if op in self._parts:
            whole, suffix = self._parts[op]
            return self[whole] + suffix
        scope, position, hint = self._places[op]
        is_own = hint is not None and self._hints[scope, hint] == 1
        return f"{scope}%{hint}" if is_own else f"{scope}#{position}"

    @property
    def by_name(self) -> dict[str, Operation]:
        """The ops, keyed by name and also by position."""
        positions = {f"{scope}#{at}": op for op, (scope, at, _) in self._places.items()}
        return positions | {self[op]: op for op in (*self._places, *self._parts)}


def _scoped(module: ModuleOp) -> Iterator[tuple[Operation, str, int]]:
    """All ops in a module, each with the prefix of its name and its position."""
    rest, seen = 0, set[str]()
    for top in module.ops:
        symbol = top.properties.get("sym_name") or top.attributes.get("sym_name")
        if isinstance(symbol, StringAttr) and symbol.data not in seen:
            seen.add(symbol.data)
            for position, op in enumerate(top.walk()):
                yield op, f"@{symbol.data}/", position
        else:
            for op in top.walk():
                yield op, "", rest
                rest += 1
