"""Files of safetensors: the library's are read, and what is not as the format says is told."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from installed import needs

from qdialect.weights.tensor_files import FileWriter, WeightsError, read_header, sha256_of, writing

TENSOR = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def file_of(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1234", "it has 4 bytes, and its header's length takes 8"),
        (file_of({}, length=1 << 40), "its header would have 1099511627776 bytes"),
        (file_of(b"\xff{}"), "its header is not UTF-8 at byte 8"),
        (file_of(b"{"), "header: this is not JSON"),
        (file_of([]), "header: it must be an object"),
        (file_of(b'{"a": 1, "a": 1}'), "header[\"a\"]: 'a' is given twice"),
        (file_of({"__metadata__": {"a": 1}}), 'header["__metadata__"]["a"]: it must be a text'),
        (file_of({"a": {**TENSOR, "dtype": "F3"}}), "elements of 'F3' are not supported"),
        (file_of({"a": {**TENSOR, "shape": [-2, 3]}}), "a length is negative"),
        (file_of({"a": {**TENSOR, "data_offsets": [0]}}), "there are not two offsets"),
        (file_of({"a": {**TENSOR, "data_offsets": [0, 20]}}), "hold 20 bytes, but [2, 3] elements"),
        (file_of({"a": {**TENSOR, "shape": [1 << 62, 3]}}), "take 55340232221128654848"),
        (file_of({"a": {**TENSOR, "more": 1}}), '"more" is unknown'),
        (file_of({"a": TENSOR}, b"x" * 23), "it is cut off: its tensors end at byte"),
        (file_of({"a": TENSOR}, b"x" * 25), "it has more bytes than tensors"),
        (
            file_of({"a": TENSOR, "b": {**TENSOR, "data_offsets": [20, 44]}}, b"x" * 44),
            "tensor 'b' overlaps the one before",
        ),
        (
            file_of({"a": TENSOR, "b": {**TENSOR, "data_offsets": [28, 52]}}, b"x" * 52),
            "tensor 'b' follows a hole",
        ),
    ],
)
def test_what_is_not_as_the_format_says(content: bytes, message: str, tmp_path: Path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(WeightsError) as error:
        read_header(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message.replace('"more"', "'more'") in str(error.value)


@examples(300)
@given(data=st.data())
def test_changed_headers_are_read_or_told(data: st.DataObject, tmp_path_factory: Any):
    path: Path = tmp_path_factory.getbasetemp() / "changed.safetensors"
    content = bytearray(
        file_of({"a": TENSOR, "b": {**TENSOR, "data_offsets": [24, 48]}}, b"x" * 48)
    )
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.sampled_from(b'0123456789{}[]",:aF-. \x00\xff'))
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    try:
        entries = read_header(path)
    except WeightsError:
        return
    # They fill the file.
    size = path.stat().st_size
    assert sum(entry.nbytes for entry in entries.values()) <= size
    assert all(entry.start + entry.nbytes <= size for entry in entries.values())


@needs("safetensors")
def test_the_library_reads_what_is_written_and_the_other_way_round(tmp_path: Path):
    library: Any = import_module("safetensors.numpy")
    rng = np.random.default_rng(0)
    arrays = {
        "a": rng.normal(size=(3, 5)).astype(np.float32),
        "b.weight": rng.integers(-9, 9, (7,)).astype(np.int8),
        "empty": np.zeros((0, 4), np.float64),
        "scalar": np.array(1.5, np.float16),
    }
    library.save_file(arrays, tmp_path / "library.safetensors", {"format": "np"})
    entries = read_header(tmp_path / "library.safetensors")
    content = (tmp_path / "library.safetensors").read_bytes()
    for name, array in arrays.items():
        entry = entries[name]
        assert entry.shape == array.shape
        assert content[entry.start : entry.start + entry.nbytes] == array.tobytes()
    path = tmp_path / "written.safetensors"
    dtypes = {"a": "F32", "b.weight": "I8", "empty": "F64", "scalar": "F16"}
    with writing(path, [(name, dtypes[name], arrays[name].shape) for name in arrays]) as writer:
        # In any order.
        for name in reversed(arrays):
            writer.write(name, memoryview(arrays[name].tobytes()), 0)
        digest = writer.finish()
    assert digest == sha256_of(path)
    read = library.load_file(path)
    assert read.keys() == arrays.keys()
    assert all(np.array_equal(read[name], arrays[name]) for name in arrays)


def test_there_is_no_file_before_it_is_whole(tmp_path: Path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"before")
    tensors = [("a", "U8", (4,))]

    def fail() -> None:
        with writing(path, tensors) as writer:
            writer.write("a", memoryview(b"12"), 0)
            assert path.read_bytes() == b"before"
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        fail()
    assert [each.name for each in tmp_path.iterdir()] == ["a.safetensors"]
    assert path.read_bytes() == b"before"
    # A process that is killed leaves a part.
    writer = FileWriter(path, tensors)
    writer.close()
    assert path.read_bytes() == b"before"
