"""A bound on the work of a comparison, so that a short text cannot keep it busy for long."""

from __future__ import annotations

from typing import Final

from qdialect.certificates.index_maps import NotCertifiableError

DEFAULT_STEPS: Final = 30_000_000
"""Some seconds of work."""

STEPS_PER_REQUEST: Final = 1_000
"""What it costs to ask a value for elements, in steps; each element is one step more."""


class StepLimitError(NotCertifiableError):
    """A comparison takes more steps than are allowed."""


class StepBudget:
    """Counts the steps of a comparison: elements looked at, and ops read or run."""

    def __init__(self, limit: int, what: str) -> None:
        self.limit = limit
        self.spent = 0
        self._what = what

    @property
    def is_exhausted(self) -> bool:
        """Whether more steps than the limit have been asked for."""
        return self.spent > self.limit

    def spend(self, steps: int) -> None:
        """Count steps. Raises StepLimitError if there are more than the limit."""
        self.spent += steps
        if self.is_exhausted:
            raise StepLimitError(f"{self._what} would take more than {self.limit} steps")
