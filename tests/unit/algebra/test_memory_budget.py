"""The budget of bytes that a run may hold."""

import pytest

from qdialect.support.memory import (
    DEFAULT_MAX_MEMORY,
    MemoryBudget,
    MemoryLimitError,
    memory_budget,
)


def test_bytes_are_reserved_until_none_are_left():
    budget = MemoryBudget(100)
    budget.reserve(60)
    with pytest.raises(
        MemoryLimitError, match=r"take 41 more bytes, but only 40 of the allowed 100 are left"
    ):
        budget.reserve(41)
    budget.reserve(40)
    budget.release(60)
    budget.reserve(60)
    assert budget.reserved == 100


def test_stages_of_a_run_share_its_budget():
    with memory_budget(100) as run, memory_budget() as stage:
        assert stage is run
        with memory_budget(1000) as other:
            assert other is run
    with memory_budget() as next_run:
        assert next_run is not run
        assert next_run.limit == DEFAULT_MAX_MEMORY
