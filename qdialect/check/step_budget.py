"""A bound on the work of a comparison, which a short text could otherwise make very long."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Final, TypeVar

from qdialect.check.index_maps import NotCertifiableError

TaskT = TypeVar("TaskT")

DEFAULT_STEPS: Final = 30_000_000
"""The default limit: a few seconds of work."""

STEPS_PER_REQUEST: Final = 1_000
"""The cost in steps of one request for elements; each element costs one more step."""


class StepLimitError(NotCertifiableError):
    """A comparison takes more steps than its budget allows."""


class StepBudget:
    """Counts the steps of a comparison: elements compared, and ops read or run."""

    def __init__(self, limit: int, what: str) -> None:
        self.refusals = 0
        """The number of requests that exceeded the limit."""
        self._limit = limit
        self._spent = 0
        self._what = what
        self._text = f"{limit} steps"

    @property
    def left(self) -> int:
        """The number of steps that may still be spent."""
        return self._limit - self._spent

    @contextmanager
    def limited_to_part(self, parts: int) -> Generator[None]:
        """
        Limit the steps spent in the block to one of `parts` equal parts of the remaining ones.
        """
        outer = self._limit, self._text
        if parts > 1:
            part = self.left // parts
            self._limit = self._spent + part
            self._text = f"{part} steps, its part of {self._text}"
        try:
            yield
        finally:
            self._limit, self._text = outer

    def spend(self, steps: int) -> None:
        """Spend steps. If the limit would be exceeded, raises StepLimitError and spends none."""
        if steps > self.left:
            self.refusals += 1
            raise StepLimitError(f"{self._what} would take more than {self._text}")
        self._spent += steps

    def in_parts(self, tasks: Iterable[TaskT], attempt: Callable[[TaskT], bool]) -> None:
        """
        Attempt each task with an equal part of the remaining steps.

        `attempt` returns whether a task is settled. Tasks that ran out of steps are attempted
        again, with the steps that the others did not use.
        """
        pending = list(tasks)
        while pending:
            ran_out: list[TaskT] = []
            for number, task in enumerate(pending):
                refusals = self.refusals
                with self.limited_to_part(len(pending) - number):
                    is_settled = attempt(task)
                if not is_settled and self.refusals > refusals:
                    ran_out.append(task)
            if len(ran_out) == len(pending):
                return
            pending = ran_out
