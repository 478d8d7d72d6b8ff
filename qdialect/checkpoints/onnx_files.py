"""
The weights of `MatMulNBits` in models of ONNX, whose elements are in files beside the model.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from qdialect.support.extras import library
from qdialect.weights.places import inside
from qdialect.weights.tensor_files import TensorEntry, TensorInFile, WeightsError

_DTYPES: Final[Mapping[int, str]] = {
    **{1: "F32", 2: "U8", 3: "I8", 4: "U16", 5: "I16", 6: "I32", 7: "I64", 9: "BOOL"},
    **{10: "F16", 11: "F64", 12: "U32", 13: "U64", 16: "BF16"},
}
"""By the numbers of `TensorProto.DataType`."""

_PARTS: Final = (".B", ".scales", ".zero_points", ".g_idx")
"""The names of the inputs of a node that are its weight, by their order."""


class OnnxMatrix(NamedTuple):
    """The weight of a node."""

    tensors: Mapping[str, TensorInFile]
    """By the name of the first one, and what each is of the weight."""
    bits: int
    columns: int
    """Those of a block."""


class OnnxFile(NamedTuple):
    """What a model has."""

    matrices: Mapping[str, OnnxMatrix]
    others: Mapping[str, TensorInFile]
    refused: Mapping[str, str]
    """For a matrix that is not understood: the reason."""


def read_onnx(path: str) -> OnnxFile:
    """
    The tensors of a model, without their elements.

    Raises OSError, MissingLibraryError, and WeightsError for a file that is not as the format says.
    """
    onnx: Any = library("onnx", "onnx")
    with open(path, "rb") as file:
        try:
            graph = onnx.load(file, load_external_data=False).graph
        except Exception as error:
            raise WeightsError(f"{path}: it is no model of ONNX: {error}") from None
    others = {
        tensor.name: _placed(path, tensor, onnx)
        for tensor in graph.initializer
        if tensor.external_data and tensor.data_type in _DTYPES
    }
    matrices, refused, taken = dict[str, OnnxMatrix](), dict[str, str](), set[str]()
    for node in graph.node:
        parts = {end: name for end, name in zip(_PARTS, node.input[1:], strict=False) if name}
        is_product = (node.domain, node.op_type) == ("com.microsoft", "MatMulNBits")
        if not is_product or not {*_PARTS[:2]} <= parts.keys():
            continue
        numbers = {"bits": 4, **{attribute.name: attribute.i for attribute in node.attribute}}
        first = parts[".B"]
        if (reason := _reason_against(parts, numbers, others)) is not None:
            refused[first] = reason
            continue
        tensors = dict[str, TensorInFile]()
        for end, name in parts.items():
            entry = others[name].entry._replace(name=first + end)
            tensors[first + end] = TensorInFile(others[name].path, entry)
        matrices[first] = OnnxMatrix(tensors, numbers["bits"], numbers["block_size"])
        taken.update(parts.values())
    others = {name: tensor for name, tensor in others.items() if name not in taken}
    return OnnxFile(matrices, others, refused)


def _reason_against(
    parts: Mapping[str, str], numbers: Mapping[str, int], beside: Mapping[str, TensorInFile]
) -> str | None:
    """Why a node of these inputs and attributes is not read; None if it is."""
    if inlined := [name for name in parts.values() if name not in beside]:
        return f"missing: '{inlined[0]}' has no elements in a file beside the model"
    if ".g_idx" in parts:
        return "act-order: columns are in the order of 'g_idx'"
    if numbers["bits"] not in range(2, 9):
        return f"storage: codes have {numbers['bits']} bits"
    columns, block = (numbers.get(key, 0) for key in ("K", "block_size"))
    if block < 1 or columns % block:
        return f"tail: {columns} columns are no whole blocks of {block}"
    return None


def _placed(path: str, tensor: Any, onnx: Any) -> TensorInFile:
    """A tensor whose elements are in a file beside. Raises OSError and WeightsError."""
    info = onnx.external_data_helper.ExternalDataInfo(tensor)
    location = os.path.normpath(info.location)
    if os.path.isabs(location) or location.startswith(os.pardir):
        raise WeightsError(
            f"{path}: tensor '{tensor.name}' is in '{location}', which is not beside the model"
        )
    place = inside(os.path.dirname(path) or os.curdir, location)
    entry = TensorEntry(tensor.name, _DTYPES[tensor.data_type], (*tensor.dims,), info.offset or 0)
    size, length = os.path.getsize(place), info.length
    if min(entry.start, *entry.shape, 0) < 0 or entry.start + entry.nbytes > size:
        raise WeightsError(
            f"{place}: it is cut off: tensor '{tensor.name}' ends at byte "
            f"{entry.start + entry.nbytes}, the file at {size}"
        )
    if length is not None and length != entry.nbytes:
        reason = f"has {length} bytes, and {list(entry.shape)} of {entry.dtype} {entry.nbytes}"
        raise WeightsError(f"{path}: tensor '{tensor.name}' {reason}")
    return TensorInFile(place, entry)
