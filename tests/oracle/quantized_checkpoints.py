"""Checkpoints and what is made of them, read and written by numpy alone."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdialect.weights.tensor_files import read_header
from qdialect.weights.weights_tool import main as weights

Array = NDArray[Any]

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def imported(checkpoint: Path, output: Path, *flags: str) -> dict[str, Array]:
    """The values of what is imported, by numpy from the bytes of the new file."""
    assert weights(["import", str(checkpoint), "-o", str(output), *flags]) == 0
    manifest = json.loads((output / "weights.json").read_text())
    (path,) = (output / name for name in manifest["scopes"]["imported"])
    header, data = read_header(path), path.read_bytes()

    def stored(key: str) -> tuple[Any, Array]:
        entry = header[key]
        kind = {"F32": "f4", "I32": "i4", "I8": "i1"}.get(entry.dtype, "u1")
        return entry, np.frombuffer(data[entry.start : entry.start + entry.nbytes], kind)

    values = dict[str, Array]()
    for key, weight in manifest["quantized"].items():
        entry, codes = stored(weight["codes"])
        scale_entry, scales = stored(weight["scale"])
        assert (scales > 0).all()
        scales = scales.reshape(scale_entry.shape)
        if entry.dtype == "F4" or ("4:" in weight["type"] and entry.dtype == "U8"):
            codes = np.stack([codes & 15, codes >> 4], axis=1).reshape(-1)
        if "<i4:" in weight["type"]:
            codes = (codes ^ 8).astype(np.int8) - 8
        numbers = codes.astype(np.float32)
        if entry.dtype == "F4":
            numbers = E2M1[codes]
        elif entry.dtype.startswith("F8") or "<f6E" in weight["type"]:
            name = weight["type"].partition("<f")[2].partition(":")[0].lower()
            floats = getattr(import_module("ml_dtypes"), f"float{name[0]}_{name[1:]}")
            numbers = codes.view(floats).astype(np.float32)
        elif "quantile" in weight["type"]:
            table = weight["type"].partition("{")[2].partition("}")[0]
            numbers = np.array([float(text) for text in table.split(",")], np.float32)[codes]
        if len(entry.shape) == 1:
            # An odd number of codes of 4 bits: a row has one scale.
            columns = len(numbers) // len(scales)
            numbers = numbers[: columns * len(scales)]
        else:
            is_halved = entry.dtype == "U8" and len(codes) > math.prod(entry.shape)
            columns = entry.shape[-1] * (2 if is_halved else 1)
        numbers = numbers.reshape(-1, columns)
        rows = len(numbers) // math.prod(scales.shape[:-1])
        scales = scales.reshape(-1, scales.shape[-1])

        def spread(array: Array, rows: int = rows, columns: int = columns) -> Array:
            return array.repeat(rows, 0).repeat(columns // array.shape[1], 1)

        if "zero_point" in weight:
            _, zeros = stored(weight["zero_point"])
            numbers = numbers - spread(zeros.reshape(scales.shape).astype(np.float32))
        # Products and sums are rounded to the type that the manifest names.
        floats = np.float16 if ":f16" in weight["type"] else np.float32
        numbers = (numbers * spread(scales)).astype(floats)
        if "offset" in weight:
            _, offsets = stored(weight["offset"])
            numbers = numbers + spread(offsets.reshape(scales.shape)).astype(floats)
        if "gather" in weight:
            numbers = numbers[:, stored(weight["gather"])[1]]
        values[key] = numbers
    return values


def stored_bytes(folder: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The dtype, the shape and the bytes of each tensor of the only file of safetensors."""
    (path,) = folder.glob("*.safetensors")
    data = path.read_bytes()
    return {
        name: (entry.dtype, entry.shape, data[entry.start : entry.start + entry.nbytes])
        for name, entry in read_header(path).items()
    }


def save(folder: Path, tensors: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> Path:
    """A folder with tensors of torch, and a configuration."""
    folder.mkdir(exist_ok=True)
    own = {name: tensor.contiguous() for name, tensor in tensors.items()}
    import_module("safetensors.torch").save_file(own, str(folder / "model.safetensors"))
    if config is not None:
        text = json.dumps({"model_type": "llama", "quantization_config": config})
        (folder / "config.json").write_text(text)
    return folder


def stream(codes: Array, bits: int) -> Array:
    """Codes of a row one after another from the lowest bit of words of 32 bits up: int32."""
    number = 0
    for at, code in enumerate(codes.tolist()):
        number |= code << (bits * at)
    count = -(-len(codes) * bits // 32)
    return np.frombuffer(number.to_bytes(4 * count, "little"), "<i4")
