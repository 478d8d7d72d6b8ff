"""Moved tensors of files, copied in pieces: numpy's result, whatever the memory."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import Movement, Reshape, Slice
from qdialect.algebra.padding import Pad
from qdialect.testing.movements import joins, movements_by_class, numpy_moves
from qdialect.testing.tensors import shapes
from qdialect.weights import copying
from qdialect.weights.copying import Descriptors, copy_view
from qdialect.weights.strided_views import FileView, NeedsCopyError, StridedView
from qdialect.weights.tensor_files import FileWriter, TensorInFile, read_header

DTYPES = {"U4": np.uint8, "U8": np.uint8, "F16": np.uint16, "F32": np.uint32, "I64": np.uint64}
"""Elements are bits; `U4` has two in a byte of a file, the low one first."""


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "_LEAST_BUDGET", 1)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as path:
        yield Path(path)


def write(path: Path, name: str, dtype: str, array: NDArray[Any]) -> TensorInFile:
    writer = FileWriter(path, [("before", "U8", (5,)), (name, dtype, array.shape)])
    writer.write("before", memoryview(b"12345"), 0)
    writer.write(name, memoryview(array.tobytes()), 0)
    digest = writer.finish()
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    tensor = TensorInFile(str(path), read_header(path)[name])
    if dtype != "U4":
        return tensor
    packed = tensor.packed(array.shape)
    assert packed is not None
    return packed


def copied(path: Path, view: FileView, dtype: str, max_memory: int) -> NDArray[Any]:
    """The elements of a view, read from the file that it is copied to by numpy."""
    writer, files = FileWriter(path, [("moved", dtype, view.shape)]), Descriptors()
    copy_view(view, "moved", writer, files, max_memory)
    files.close()
    digest = writer.finish()
    data = path.read_bytes()
    assert digest == hashlib.sha256(data).hexdigest()
    entry = read_header(path)["moved"]
    assert not entry.start % 64
    if dtype == "U4":
        pairs = np.frombuffer(data[entry.start :], np.uint8)
        codes = np.stack([pairs % 16, pairs // 16], axis=1).reshape(-1)
        size = math.prod(view.shape)
        assert len(codes) == size + size % 2
        assert not codes[size:].any()
        return codes[:size].reshape(view.shape)
    return np.frombuffer(data[entry.start :], DTYPES[dtype]).reshape(view.shape)


@examples(300)
@given(data=st.data())
def test_chains_of_movements(data: st.DataObject, folder: Path):
    dtype = data.draw(st.sampled_from(sorted(DTYPES)))
    count = data.draw(st.integers(0, 2))
    first, arrays = None, list[NDArray[Any]]()
    if count:
        first, operands = data.draw(joins())
    else:
        operands = [data.draw(shapes())]
    number = 0
    views = list[FileView]()
    for at, shape in enumerate(operands):
        size = int(np.prod(shape))
        numbers = np.arange(number, number + size) % (16 if dtype == "U4" else 1 << 32)
        array = numbers.astype(DTYPES[dtype]).reshape(shape)
        number += size
        arrays.append(array)
        tensor = write(folder / f"{at}.safetensors", "w", dtype, array)
        views.append(StridedView.of(tensor, shape))
    try:
        view, array = views[0], arrays[0]
        if first is not None:
            view, array = first(*views), numpy_moves(first, *arrays)
        for _ in range(data.draw(st.integers(0, 4))):
            by_class = movements_by_class(array.shape)
            movement: Movement = data.draw(
                st.one_of([by_class[kind] for kind in by_class if not issubclass(kind, Pad)])
            )
            array, view = numpy_moves(movement, array), movement(view)
    except NeedsCopyError:
        assume(False)
        raise
    assert view.shape == array.shape
    max_memory = data.draw(st.sampled_from([1, 16, 64, 1000, 1 << 20]))
    result = copied(folder / "moved.safetensors", view, dtype, max_memory)
    assert np.array_equal(result, array)


def test_a_part_of_a_join_may_lose_the_axis_of_the_join():
    parts = [StridedView.of(name, (1, 2)) for name in "ab"]
    joined: FileView = Concat(1)(*parts)
    part = Slice((0, 2), (1, 2), (1, 1))(joined)
    assert Reshape((2,))(part).shape == (2,)
    assert Reshape((2,))(part).transpose([0]).shape == (2,)
    with pytest.raises(NeedsCopyError):
        joined.reshape((4,))
