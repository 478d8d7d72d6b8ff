"""
What a fold is going to do, as data: it can be printed, stored and sent elsewhere.

A plan names ops by function and SSA name, as `OpNames` does, and holds no elements. So it
can be applied to another module of the same names, such as one with other weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import Attribute

if TYPE_CHECKING:
    from xdsl.context import Context

    from qdialect.algebra.movement import Movement
    from qdialect.shape_ops.interface import Code


class PlannedSource(NamedTuple):
    """A constant of the module whose elements are moved."""

    name: str
    op: str
    """The name of the op, such as `arith.constant`."""

    type: Attribute
    """The type of its result."""

    resource: str | None
    """The key of its elements, if they are a `dense_resource`."""

    nbytes: int
    """The bytes of its elements in memory; a splat has none."""

    is_kept: bool
    """Whether it stays in the module."""


class PlannedStep(NamedTuple):
    """A shape op on the way from sources to a constant that is written."""

    name: str
    op: str
    type: Attribute
    operands: tuple[str, ...]
    """The sources and steps that it moves, casts and ops that move nothing left out."""

    movements: tuple[Movement, ...]
    """The first takes all operands. The elements to pad with are not part of a plan."""

    into: str | None
    """The step whose constant takes its result in, if it goes: itself, or a later one."""


class PlannedConstant(NamedTuple):
    """A constant that takes the place of a shape op."""

    name: str
    """The shape op: the step that makes the elements."""

    sources: tuple[str, ...]
    """The constants that its elements come from, whose names and attributes it has."""

    casts: tuple[str, ...]
    """The casts that are made again behind it."""

    types: tuple[Attribute, ...]
    """The type of the constant, and of each cast behind it."""

    nbytes: int
    """The bytes of its elements in memory; a splat has none."""


class PlannedRemoval(NamedTuple):
    """A cast, or a shape op that is no step of a constant, that goes."""

    name: str
    op: str
    into: str | None
    """The step whose constant takes its result in, if there is one."""


class PlannedRefusal(NamedTuple):
    """A shape op that stays, and why."""

    name: str
    op: str
    code: Code
    reason: str


@dataclass(frozen=True)
class FoldPlan:
    """
    What a fold is going to do with a module.

    `qdialect.folding.plan.plan` makes one, and `qdialect.folding.apply.apply` carries it out.
    """

    sources: tuple[PlannedSource, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    """Each after the steps that it needs."""

    constants: tuple[PlannedConstant, ...] = ()
    """In the order in which they are written."""

    removed: tuple[PlannedRemoval, ...] = ()
    joined: tuple[str, ...] = ()
    """Shape ops of quant that become one with the ops before them."""

    refused: tuple[PlannedRefusal, ...] = ()

    def to_json(self) -> str:
        """The plan as JSON text, which `from_json` reads."""
        # It makes plans, and so imports this module.
        from qdialect.folding.plan_json import plans_to_json

        return plans_to_json([self])

    @classmethod
    def from_json(cls, text: str, context: Context | None = None) -> FoldPlan:
        """
        The plan in JSON text that holds one.

        Types are read with the dialects of `context`, or else with builtin and quant. Raises
        ValueError if the text is something else, or holds several plans.
        """
        plans = cls.all_from_json(text, context)
        if len(plans) != 1:
            raise ValueError(f"the text holds {len(plans)} plans, not one")
        return plans[0]

    @classmethod
    def all_from_json(cls, text: str, context: Context | None = None) -> Sequence[FoldPlan]:
        """The plans in JSON text: one for each fold of a module. See `from_json`."""
        # It makes plans, and so imports this module.
        from qdialect.folding.plan_json import plans_of_json

        return plans_of_json(text, context)


class PlanError(ValueError):
    """A plan that is not for this module. The message names the op, and what differs."""
