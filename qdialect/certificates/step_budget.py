"""A bound on the work of a comparison, which a short text could otherwise make very long."""

from __future__ import annotations

from typing import Final

from qdialect.certificates.index_maps import NotCertifiableError

DEFAULT_STEPS: Final = 30_000_000
"""The default limit: some seconds of work."""

STEPS_PER_REQUEST: Final = 1_000
"""The cost in steps of one request for elements; each element costs one more step."""


class StepLimitError(NotCertifiableError):
    """A comparison takes more steps than its budget allows."""


class StepBudget:
    """Counts the steps of a comparison: elements compared, and ops read or run."""

    def __init__(self, limit: int, what: str) -> None:
        self.limit = limit
        self.spent = 0
        self._what = what

    @property
    def is_exhausted(self) -> bool:
        """Whether more steps than the limit have been spent."""
        return self.spent > self.limit

    def spend(self, steps: int) -> None:
        """Spend steps. Raises StepLimitError if the limit is exceeded."""
        self.spent += steps
        if self.is_exhausted:
            raise StepLimitError(f"{self._what} would take more than {self.limit} steps")
