"""
Comparing written tensors with their sources, element by element, of a sample.

Where an element comes from is computed from the index of each one alone, and not by the boxes that
elements are copied in.
"""

from __future__ import annotations

import random
from contextlib import closing
from typing import Final

from qdialect.weights.copying import Descriptors
from qdialect.weights.folding_files import Scratch, dtype_of
from qdialect.weights.strided_views import FileView, JoinedView, StridedView, dot, row_major
from qdialect.weights.tensor_files import PACKED, TensorInFile

SAMPLES: Final = 64
"""The number of elements that are compared of each tensor, beside the first and the last one."""


def differing_tensor(view: FileView, written: TensorInFile) -> str | None:
    """How a written tensor differs from the view that it is to hold; None if it is not seen to."""
    if dtype_of(view) == PACKED:
        written = written.packed(view.shape) or written
    if written.entry.shape != view.shape:
        return f"it has shape {list(written.entry.shape)}, not {list(view.shape)}"
    if 0 in view.shape:
        return None
    rng = random.Random(written.entry.name)
    indices = [[0] * len(view.shape), [length - 1 for length in view.shape]]
    indices += [[rng.randrange(length) for length in view.shape] for _ in range(SAMPLES)]
    size, strides = written.entry.itemsize, row_major(view.shape)
    with closing(Descriptors()) as files:
        for index in indices:
            tensor, element = _source(view, index)
            place = dot(index, strides)
            if _bytes(files, tensor, element, size) != _bytes(files, written, place, size):
                return f"element {index} is not element {element} of '{tensor.entry.name}'"
    return None


def _bytes(files: Descriptors, tensor: TensorInFile, element: int, size: int) -> bytes:
    data = bytearray(size)
    files.read(tensor, element, memoryview(data))
    return bytes(data)


def _source(view: FileView, index: list[int]) -> tuple[TensorInFile, int]:
    """The tensor and the number of the element that is at an index of a view."""
    while True:
        if isinstance(view, JoinedView):
            index = [*index]
            for part in view.parts:
                if index[view.axis] < (length := part.shape[view.axis]):
                    view = part
                    break
                index[view.axis] -= length
        assert isinstance(view, StridedView)
        element = view.offset
        for axis, position in zip(view.axes, index, strict=True):
            for (length, stride), below in zip(axis, row_major([n for n, _ in axis]), strict=True):
                element += position // below % length * stride
        if not isinstance(view.tensor, Scratch):
            return view.tensor, element
        view = view.tensor.view
        index = [
            element // below % length
            for length, below in zip(view.shape, row_major(view.shape), strict=True)
        ]
