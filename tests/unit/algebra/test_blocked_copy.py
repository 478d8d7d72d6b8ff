"""Strided arrays written in row-major order."""

import math
import pkgutil
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from qdialect.algebra.blocked_copy import contiguous, contiguous_bytes, write

INTEGERS = ("i1", "u1", "<i2", ">u2", "<i4", "<u8")
OTHERS = (
    "?",
    "f2",
    "f4",
    "f8",
    "c8",
    "c16",
    "V1",
    "V2",
    "V3",
    "V4",
    "V5",
    "V8",
    "V12",
    "V16",
    "V24",
)


@st.composite
def strided(draw: st.DrawFn, dtypes: Sequence[str] = INTEGERS + OTHERS) -> NDArray[Any]:
    """Arrays of random bytes that are sliced, reversed, repeated, moved and not aligned."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    shape: list[int] = []
    for _ in range(draw(st.integers(0, 5))):
        most = max(1, min(400, 20_000 // math.prod(shape)))
        shape.append(draw(st.integers(0, most) | st.integers(most // 2, most)))
        if not shape[-1]:
            break
    shape = draw(st.permutations(shape))
    steps = [draw(st.sampled_from((1, 1, 1, -1, 2, -3))) for _ in shape]
    edges = [draw(st.sampled_from((0, 0, 1, 5))) for _ in shape]
    lengths = [
        length * abs(step) + edge for length, step, edge in zip(shape, steps, edges, strict=True)
    ]
    offset = draw(st.sampled_from((0, 0, 1, 2, 4, 7)))
    random = np.random.default_rng(draw(st.integers(0, 100)))
    raw = random.integers(0, 256, math.prod(lengths) * dtype.itemsize + offset, dtype=np.uint8)
    if dtype.kind == "b":
        raw &= 1
    array = raw[offset:].view(dtype).reshape(lengths)
    array = array[tuple(slice(edge, None) for edge in edges)]
    array = array[tuple(slice(None, None, step) for step in steps)]
    repeated = draw(st.lists(st.integers(1, 9), max_size=2))
    array = np.broadcast_to(array, (*repeated, *array.shape))
    return array.transpose(draw(st.permutations(range(array.ndim))))


@pytest.fixture(scope="module")
def called() -> Iterator[Counter[str]]:
    """The functions called, with thresholds low enough for boxes and threads on small arrays."""
    calls: Counter[str] = Counter()

    def counted(name: str) -> Callable[..., None]:
        function = pkgutil.resolve_name(f"qdialect.algebra.blocked_copy:{name}")

        def call(*args: Any) -> None:
            calls[name] += 1
            calls["in a thread"] += threading.current_thread() is not threading.main_thread()
            function(*args)

        return call

    smaller = {
        "SMALL_SIZE": 100,
        "THREADED_BYTES": 30_000,
        "_BOX_BYTES": 1 << 11,
        "_COLUMN_BYTES": 1 << 6,
        "_CACHE_LINES": 8,
        "processors": lambda: 2,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in smaller.items():
            patch.setattr(f"qdialect.algebra.blocked_copy.{name}", value)
        for name in PATHS:
            patch.setattr(f"qdialect.algebra.blocked_copy.{name}", counted(name))
        yield calls


PATHS = {
    "_write_boxes": np.arange(4000).reshape(40, 100)[:, ::2],
    "_write_rows": np.arange(9000).reshape(3, 2, 1500).astype("i2").transpose(0, 2, 1),
    "_write_directly": np.arange(9000).reshape(750, 12).astype("i1").T,
    "_Buffer.write": np.arange(9000).reshape(90, 100).astype("i4").T,
    "_Buffer._write_words": np.arange(9090).reshape(101, 90).astype("i1").T,
}
"""The function that is called for each array."""


@pytest.mark.parametrize("path", PATHS)
def test_paths(path: str, called: Counter[str]):
    called.clear()
    array = PATHS[path]
    assert contiguous_bytes(array) == array.tobytes()
    assert called[path]


@given(array=strided())
def test_bytes_are_those_of_numpy(array: NDArray[Any], called: Counter[str]):
    assert contiguous_bytes(array) == array.tobytes()
    result = contiguous(array)
    assert (result.shape, result.dtype) == (array.shape, array.dtype)
    assert result.flags.c_contiguous
    assert result.tobytes() == array.tobytes()


@given(array=strided(INTEGERS), dtype=st.sampled_from(INTEGERS))
def test_integers_are_cast(array: NDArray[Any], dtype: str, called: Counter[str]):
    assert contiguous_bytes(array, dtype) == array.astype(dtype).tobytes()


@given(array=strided(), data=st.data())
def test_writes_a_region(array: NDArray[Any], data: st.DataObject, called: Counter[str]):
    steps = [data.draw(st.sampled_from((1, 1, 2, -1))) for _ in array.shape]
    lengths = [length * abs(step) + 1 for length, step in zip(array.shape, steps, strict=True)]
    order = data.draw(st.permutations(range(array.ndim)))
    inside = (*(slice(1, None) for _ in steps), ...)
    every = (*(slice(None, None, step) for step in steps), ...)

    def written(write: Callable[[NDArray[Any], NDArray[Any]], object]) -> bytes:
        result = np.zeros(lengths, array.dtype)
        write(array.transpose(order), result[inside][every].transpose(order))
        return result.tobytes()

    assert written(write) == written(lambda source, target: np.copyto(target, source))


@pytest.mark.parametrize("dtype", ["i1", "f4", "V3"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((257, 8191), (1, 0)),
        ((8191, 259), (1, 0)),
        ((1024, 4096), (1, 0)),
        ((3, 3, 257, 509), (3, 2, 0, 1)),
        ((3, 701, 700), (1, 2, 0)),
        ((40_000, 7, 5), (0, 2, 1)),
        ((17, 19, 23, 29, 7), (4, 2, 0, 3, 1)),
    ],
)
def test_large_arrays(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str):
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
    array = raw.view(dtype).reshape(shape).transpose(axes)
    for moved in (array, array[::-1], array[..., 1:-1]):
        assert contiguous_bytes(moved) == moved.tobytes()


def test_64_axes(called: Counter[str]):
    array = np.arange(2**14, dtype=np.int32).reshape((2, 1, 1, 1) * 14 + (1,) * 8).T
    assert array.ndim == 64
    # The oldest numpy has no bytes of more than 32 axes.
    assert contiguous_bytes(array) == np.ascontiguousarray(array).reshape(-1).tobytes()


def test_nan_payloads_are_kept(called: Counter[str]):
    bits = np.full((300, 200), 0x7FF0_0000_0000_0001, dtype=np.uint64)
    for dtype in (np.float64, np.complex128):
        assert contiguous_bytes(bits.view(dtype).T) == bits.tobytes()


def each_takes_a_part(monkeypatch: pytest.MonkeyPatch, first: Callable[[], None]) -> None:
    """Have each of two threads wait for the other with its first part, and then call `first`."""
    write_boxes: Callable[..., None] = pkgutil.resolve_name(
        "qdialect.algebra.blocked_copy:_write_boxes"
    )
    both, started = threading.Barrier(2), set[int]()

    def write_part(*arrays: NDArray[Any]) -> None:
        if threading.get_ident() not in started:
            started.add(threading.get_ident())
            both.wait(timeout=600)
            first()
        write_boxes(*arrays)

    monkeypatch.setattr("qdialect.algebra.blocked_copy._write_boxes", write_part)


def test_large_arrays_have_two_threads_which_end(
    called: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    each_takes_a_part(monkeypatch, lambda: None)
    called.clear()
    before = threading.active_count()
    array = np.arange(40_000, dtype=np.int32).reshape(200, 200).T
    assert np.array_equal(contiguous(array), array)
    assert called["in a thread"]
    assert threading.active_count() == before


@pytest.mark.parametrize("in_main_thread", [True, False])
def test_errors_of_threads_are_raised(
    in_main_thread: bool, called: Counter[str], monkeypatch: pytest.MonkeyPatch
):
    def fail() -> None:
        if (threading.current_thread() is threading.main_thread()) == in_main_thread:
            raise MemoryError("full")

    each_takes_a_part(monkeypatch, fail)
    before = threading.active_count()
    with pytest.raises(MemoryError, match="full"):
        contiguous(np.arange(40_000, dtype=np.int32).reshape(200, 200).T)
    assert threading.active_count() == before


def test_one_processor_has_no_threads(called: Counter[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("qdialect.algebra.blocked_copy.processors", lambda: 1)
    called.clear()
    array = np.arange(40_000, dtype=np.int32).reshape(200, 200).T
    assert np.array_equal(contiguous(array), array)
    assert not called["in a thread"]


def test_bytes_take_their_memory_once():
    array = np.zeros((1 << 11, 1 << 11), dtype=np.int32).T
    tracemalloc.start()
    try:
        data = contiguous_bytes(array)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(data) == array.nbytes
    assert peak < 1.2 * array.nbytes


def test_shapes_differ():
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(1,\) differ"):
        write(np.zeros(2), np.zeros(1))


def test_objects_are_refused():
    with pytest.raises(TypeError, match="Python objects"):
        contiguous(np.array([[], ()], dtype=object))
