"""Who is told of each fold while what was folded is still there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.ir import Operation


class FoldObserver(ABC):
    """Looks at folds, and changes nothing."""

    @abstractmethod
    def constant_written(self, op: Operation, written: Sequence[Operation]) -> None:
        """
        Take notice that a constant, and the casts behind it, take the place of `op`.

        `op` still has its operands. Of what they are made of, that may be gone for which a
        constant was written before.
        """
