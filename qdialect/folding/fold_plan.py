"""
The plan of a fold, as immutable data that can be printed, stored and sent to other machines.

A plan refers to ops by function and SSA name (see `OpNames`), and holds no elements. It can
therefore be applied to another module with the same names, such as one with other weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import Attribute

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
    """
    The movements, of which the first takes all operands. Padding elements are not part of a
    plan.
    """

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


@dataclass(frozen=True)
class FoldPlan:
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


class PlanError(ValueError):
    """
    A text is not a plan, or a plan does not match a module.

    The message has the path to the value of the plan, and the reason.
    """
