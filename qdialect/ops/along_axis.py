"""Attributes of casts with a row for each position of an axis: ranges, or scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from xdsl.ir import Operation

from qdialect.algebra.movement import Shape
from qdialect.ops.interface import op_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AXIS: Final = "axis"
"""The attribute with the axis."""


class AlongAxis(NamedTuple):
    """The rows that a cast has for the positions of an axis."""

    axis: int

    rows: NDArray[np.float64]
    """A row for each position: shape (length,) or (length, n)."""

    attribute: str
    """The name of the attribute with the rows, which are a dense tensor."""

    are: str
    """The name of the rows, in plural."""


Reader = Callable[[Operation, Shape], AlongAxis | None]
"""Reads a cast to a tensor of a shape; None if it has no rows for an axis. Raises Refusal."""


def said_along_axis(op: Operation, shape: Shape) -> AlongAxis | None:
    """
    The rows that an op has for the positions of an axis; None if it has none.

    Raises Refusal, with the reason, if they do not match a tensor of `shape`.
    """
    reader = op_model(op).along_axis
    return None if reader is None else reader(op, shape)
