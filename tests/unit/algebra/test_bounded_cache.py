"""Caches are emptied when they exceed their bound, and by `clear_caches`."""

from functools import cache

from qdialect.support.memory import (
    BoundedCache,
    clear_caches,
    registered_cache,
    registered_caches,
)

KIBIBYTE = 1 << 10


def test_what_was_added_is_known():
    known = BoundedCache[str, int]()
    assert known.get("a") is None
    assert known.add("a", 1, 1) == 1
    assert known.get("a") == 1


def test_a_cache_is_emptied_when_it_becomes_too_large():
    known = BoundedCache[int, str](max_bytes=100 * KIBIBYTE)
    for number in range(1000):
        known.add(number, "", 0)
        kept = [each for each in range(number + 1) if known.get(each) is not None]
        # An entry without numbers takes some 1.5 KiB.
        assert number in kept
        assert len(kept) < 100
    assert known.get(0) is None


def test_numbers_weigh_as_much_as_they_take():
    known = BoundedCache[int, str](max_bytes=100 * KIBIBYTE)
    known.add(0, "", 0)
    known.add(1, "", 90 * KIBIBYTE // 8)
    assert known.get(0) is not None
    known.add(2, "", 90 * KIBIBYTE // 8)
    assert known.get(0) is None
    assert known.get(1) is None
    assert known.get(2) is not None


def test_an_entry_larger_than_the_cache_is_alone_in_it():
    known = BoundedCache[int, str](max_bytes=KIBIBYTE)
    for number in range(3):
        known.add(number, "", KIBIBYTE)
        assert [each for each in range(3) if known.get(each) is not None] == [number]


def test_all_caches_are_emptied():
    calls: list[int] = []

    @registered_cache
    @cache
    def double(number: int) -> int:
        calls.append(number)
        return 2 * number

    known = BoundedCache[str, int](max_bytes=100 * KIBIBYTE)
    known.add("a", 1, 12000)
    assert {known, double} <= {*registered_caches()}
    assert double(2) == double(2) == 4
    clear_caches()
    assert known.get("a") is None
    assert double(2) == 4
    assert calls == [2, 2]
    # Nothing of it counts any more.
    known.add("b", 1, 10000)
    known.add("c", 1, 0)
    assert known.get("b") is not None
