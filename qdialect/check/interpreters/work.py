"""
The work of an op beyond its own step, spent before it is done.

A loop repeats an op on arrays that take little memory, and one matrix product may take hours.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

ELEMENTS_PER_STEP: Final = 1 << 12
"""So many elements that are computed or copied take as long as an op on a scalar."""
PRODUCTS_PER_STEP: Final = 1 << 18
"""So many products of a sum take as long."""


class Work(Protocol):
    """Counts work. The methods raise what the limit of the run raises."""

    def spend_elements(self, count: int) -> None:
        """Spend elements that are going to be computed or copied."""
        ...

    def spend_products(self, count: int) -> None:
        """Spend products of a sum in floats."""
        ...


_CURRENT: Final = ContextVar[Work | None]("qdialect_work", default=None)


@contextmanager
def work_spent_by(work: Work) -> Generator[None]:
    """Count the work that is done meanwhile."""
    token = _CURRENT.set(work)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def spend_elements(count: int) -> None:
    """Spend elements of the current run, if there is one."""
    if (work := _CURRENT.get()) is not None:
        work.spend_elements(count)


def spend_products(count: int) -> None:
    """Spend products of the current run, if there is one."""
    if (work := _CURRENT.get()) is not None:
        work.spend_products(count)
