"""
Certificates of folds: each written constant is compared with the chain that it replaces.

The value graph reads both again, element by element, independently of the fold's own code.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.ir import Operation, SSAValue

from qdialect.check.index_maps import NotCertifiableError
from qdialect.check.value_classes import Difference, first_difference
from qdialect.check.value_graph import GraphReader
from qdialect.ir.resources import ResourceBlobs
from qdialect.ops.interface import name_of


class FoldCertifier:
    """Compares the constants that folds have written with the values that they replace."""

    def __init__(self, context: Context, *, with_data: bool) -> None:
        self.errors: list[tuple[Operation, str]] = []
        """For each wrong fold, the folded op and the error."""
        self._resources = ResourceBlobs.of(context)
        self._with_data = with_data
        self._replaced: dict[SSAValue, SSAValue] = {}

    def check(self, op: Operation, ops: Sequence[Operation]) -> None:
        """Compare a constant and the casts after it, `ops`, with the op that they replace."""
        old, new = op.results[0], ops[-1].results[0]
        try:
            reason = self._wrong(old, new)
        except NotCertifiableError as error:
            reason = f"is folded, but the fold cannot be certified: {error}"
        if reason is not None:
            self.errors.append((op, f"'{name_of(op)}' op {reason}"))
        self._replaced[old] = new

    def _wrong(self, old: SSAValue, new: SSAValue) -> str | None:
        if old.type != new.type:
            types = new.type, old.type
            return f"is folded wrongly: the result is of type '{types[0]}', not '{types[1]}'"
        before = GraphReader(self._resources, self._replaced).read(old)
        after = GraphReader(self._resources).read(new)
        difference = first_difference(before, after, with_data=self._with_data)
        return None if difference is None else f"is folded wrongly: {_told(difference)}"


def _told(difference: Difference) -> str:
    index, before, after = difference
    if index is None:
        return f"{after}, not {before}"
    return f"element {list(index)} of the result {after}, but {before}"
