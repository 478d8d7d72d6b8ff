"""
The weights of models of ONNX and OpenVINO, whose elements are in files beside the model.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
and https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets.html.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.etree.ElementTree import ParseError, XMLParser

from qdialect.checkpoints.matrices import RefusedError
from qdialect.support.extras import library
from qdialect.weights.places import inside
from qdialect.weights.tensor_files import (
    DTYPES,
    MAX_HEADER,
    PACKED,
    TensorEntry,
    TensorInFile,
    WeightsError,
)

_DTYPES: Final[Mapping[int, str]] = {
    **{1: "F32", 2: "U8", 3: "I8", 4: "U16", 5: "I16", 6: "I32", 7: "I64", 9: "BOOL"},
    **{10: "F16", 11: "F64", 12: "U32", 13: "U64", 16: "BF16"},
}
"""By the numbers of `TensorProto.DataType`."""

_PARTS: Final = (".B", ".scales", ".zero_points", ".g_idx")
"""What the inputs of a node of `MatMulNBits` are of its weight, by their order."""

_SHORT: Final = re.compile(r"(nf|[uif])[1-8](e\d+m\d+)?")
"""The types of OpenVINO with at most eight bits."""


class ModelMatrix(NamedTuple):
    """A weight of a model."""

    tensors: Mapping[str, TensorInFile]
    """By what each is of the weight: the end of a name that its layout has."""
    layouts: tuple[str, ...]
    """Those that it may have."""
    bits: int
    columns: int | None = None
    """Those of a block, if the model says it."""


class ModelFile(NamedTuple):
    """What a model has, by the names of constants: weights have those of their codes."""

    matrices: Mapping[str, ModelMatrix]
    others: Mapping[str, TensorInFile]
    refused: Mapping[str, str]
    """For a matrix that is not understood: the reason."""


def read_onnx(path: str) -> ModelFile:
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
        tensor.name: _of_initializer(path, tensor, onnx)
        for tensor in graph.initializer
        if tensor.external_data and tensor.data_type in _DTYPES
    }
    matrices, refused, taken = dict[str, ModelMatrix](), dict[str, str](), set[str]()
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
            tensors[end] = replace(
                others[name], entry=others[name].entry._replace(name=first + end)
            )
        names = "matmulnbits", "matmulnbits-symmetric"
        matrices[first] = ModelMatrix(tensors, names, numbers["bits"], numbers["block_size"])
        taken.update(parts.values())
    others = {name: tensor for name, tensor in others.items() if name not in taken}
    return ModelFile(matrices, others, refused)


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


def _of_initializer(path: str, tensor: Any, onnx: Any) -> TensorInFile:
    """A tensor whose elements are in a file beside. Raises OSError and WeightsError."""
    info = onnx.external_data_helper.ExternalDataInfo(tensor)
    location = os.path.normpath(info.location)
    if os.path.isabs(location) or location.startswith(os.pardir):
        raise WeightsError(
            f"{path}: tensor '{tensor.name}' is in '{location}', which is not beside the model"
        )
    place = inside(os.path.dirname(path) or os.curdir, location)
    entry = TensorEntry(tensor.name, _DTYPES[tensor.data_type], (*tensor.dims,), info.offset or 0)
    return _checked(path, TensorInFile(place, entry), info.length)


def _checked(path: str, tensor: TensorInFile, length: int | None) -> TensorInFile:
    """A tensor that a model says to have `length` bytes. Raises OSError and WeightsError."""
    entry, size = tensor.entry, os.path.getsize(tensor.path)
    if min(entry.start, *entry.shape, 0) < 0 or entry.start + entry.nbytes > size:
        raise WeightsError(
            f"{tensor.path}: it is cut off: tensor '{entry.name}' ends at byte "
            f"{entry.start + entry.nbytes}, the file at {size}"
        )
    if length is not None and length != entry.nbytes:
        reason = f"has {length} bytes, and {list(entry.shape)} of {entry.dtype} {entry.nbytes}"
        raise WeightsError(f"{path}: tensor '{entry.name}' {reason}")
    return tensor


class _Layer(NamedTuple):
    kind: str
    name: str
    data: dict[str, str]
    """Its attributes, and where the elements of a constant are."""
    shape: list[int]
    """That of its results."""

    @property
    def type(self) -> str:
        """The type of the elements of a constant."""
        return self.data["element_type"]


class _Network:
    """
    The layers of a model, by their numbers, and where their inputs come from.

    What loops and branches have inside is no part of it. `XMLParser` calls the methods.
    """

    def __init__(self) -> None:
        self.layers = dict[str, _Layer]()
        self.inputs = dict[tuple[str, str], str]()
        self._tags, self._text = list[str](), ""

    def doctype(self, *_: object) -> None:
        """Entities of a document may be of any size."""
        raise ValueError("it has a document type")

    @property
    def _place(self) -> str:
        # Elements may lie in each other without end.
        return "/".join(self._tags) if len(self._tags) < 7 else ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._tags.append(tag)
        self._text = ""
        match self._place:
            case "net/layers/layer":
                kind, name = attributes["type"], attributes["name"]
                self._layer = self.layers[attributes["id"]] = _Layer(kind, name, {}, [])
            case "net/layers/layer/data":
                self._layer.data.update(attributes)
            case "net/edges/edge":
                target = attributes["to-layer"], attributes["to-port"]
                self.inputs[target] = attributes["from-layer"]
            case _:
                pass

    def data(self, text: str) -> None:
        # Texts come in parts, and may have any length.
        self._text = (self._text + text)[:32]

    def end(self, _: str) -> None:
        if self._place == "net/layers/layer/output/port/dim":
            self._layer.shape.append(int(self._text))
        self._tags.pop()

    def kind(self, number: str) -> str:
        return self.layers[number].kind if number in self.layers else ""

    def parts(self, number: str) -> dict[str, str]:
        """The layers that a weight is made of, by what they are of it; none if it is no weight."""
        if self.kind(number) != "Multiply":
            return {}
        codes, scales = (self.source(number, port) for port in (0, 1))
        parts = {".weight": codes, ".weight/scale": scales}
        if self.kind(codes) == "Subtract":
            zeros = self.source(codes, 1)
            parts |= {".weight": self.source(codes, 0), ".weight/zero_point": zeros}
        return parts

    def source(self, number: str, port: int) -> str:
        """The layer that an input comes from, behind a conversion if there is one."""
        own = self.inputs.get((number, f"{port}"), "")
        return self.inputs.get((own, "0"), "") if self.kind(own) == "Convert" else own


def read_openvino(path: str) -> ModelFile:
    """
    The constants of a model, without their elements, which are in a file `.bin` beside it.

    A weight is (codes - zero points) * scales, of which all are constants that may be converted;
    an axis of blocks may be joined afterwards. Raises OSError, and WeightsError for a file that is
    not as the format says.
    """
    if (size := os.path.getsize(path)) > MAX_HEADER:
        raise WeightsError(f"{path}: it has {size} bytes, and {MAX_HEADER} are the most")
    network, place = _Network(), str(Path(path).with_suffix(".bin"))
    parser, entries = XMLParser(target=network), dict[str, tuple[TensorEntry, int]]()
    try:
        parser.feed(Path(path).read_bytes())
        parser.close()
        for number, (kind, name, data, _) in network.layers.items():
            if kind == "Const":
                shape = tuple(int(length) for length in data["shape"].split(",") if length)
                start, length = int(data["offset"]), int(data["size"])
                dtype = data["element_type"].upper().replace("I4", PACKED)
                if dtype not in DTYPES:
                    dtype, shape = "U8", (length,)
                entries[number] = TensorEntry(name, dtype, shape, start), length
    except (ParseError, LookupError, ValueError) as error:
        raise WeightsError(f"{path}: it is no model of OpenVINO: {error}") from None
    constants = {
        number: _checked(path, TensorInFile(place, entry), length)
        for number, (entry, length) in entries.items()
    }
    others = {tensor.entry.name: tensor for tensor in constants.values()}
    if len(others) < len(constants):
        raise WeightsError(f"{path}: several constants have the same name")
    reshaped = {
        network.source(number, 0): layer.shape
        for number, layer in network.layers.items()
        if layer.kind == "Reshape"
    }
    matrices, refused = dict[str, ModelMatrix](), dict[str, str]()
    for number in network.layers:
        parts = network.parts(number)
        codes = network.layers.get(parts.get(".weight", ""))
        if codes is None or codes.kind != "Const" or not _SHORT.fullmatch(codes.type):
            continue
        types = {end: network.layers[own].type for end, own in parts.items() if own in constants}
        own = {end: constants[parts[end]] for end in types}
        try:
            if missing := [end for end in parts if end not in own]:
                raise RefusedError("missing", f"'{missing[0]}' is no constant")
            if codes.type not in ("u4", "i4", "u8", "i8"):
                raise RefusedError("storage", f"codes are {codes.type}")
            if types.get(".weight/zero_point") != (codes.type if codes.type[0] == "u" else None):
                zeros = types.get(".weight/zero_point", "missing")
                raise RefusedError("zero", f"codes are {codes.type}, and zero points {zeros}")
            matrices[codes.name] = _of_product(own, int(codes.type[1]), reshaped.get(number))
        except RefusedError as error:
            refused[codes.name] = str(error)
        else:
            for tensor in own.values():
                others.pop(tensor.entry.name, None)
    return ModelFile(matrices, others, refused)


def _of_product(
    parts: Mapping[str, TensorInFile], bits: int, reshaped: Sequence[int] | None
) -> ModelMatrix:
    """A weight of constants, perhaps of another shape afterwards. Raises RefusedError."""
    shape = parts[".weight"].entry.shape
    for end, tensor in parts.items():
        if end != ".weight" and (not shape or tensor.entry.shape != (*shape[:-1], 1)):
            reason = f"'{end}' is {list(tensor.entry.shape)}, and codes {list(shape)}"
            raise RefusedError("block", reason)
    (*rows, columns), groups = shape, 1
    if len(shape) > 2 and reshaped == [*shape[:-2], shape[-2] * columns]:
        (*rows, groups), columns = rows, shape[-2] * columns
    if columns * bits % 8:
        raise RefusedError("tail", f"{columns} columns of {bits} bits are no whole bytes")
    key = parts[".weight"].entry.name.removesuffix(".weight")
    forms = {".weight": (*rows, columns * bits // 8), ".weight/scale": (*rows, groups)}
    tensors = dict[str, TensorInFile]()
    for end, tensor in parts.items():
        entry = tensor.entry
        dtype = entry.dtype if end == ".weight/scale" else "U8"
        form = forms.get(end, (entry.nbytes,))
        own = TensorEntry(key + end, dtype, form, entry.start)
        tensors[end] = replace(tensor, entry=own)
    layout = "openvino" if ".weight/zero_point" in parts else "openvino-symmetric"
    return ModelMatrix(tensors, (layout,), bits)
