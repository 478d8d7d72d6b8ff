"""Files of GGUF, written and read by the package gguf."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TYPES = (
    *("Q4_0", "Q5_0", "Q8_0", "Q3_K", "Q6_K", "MXFP4", "IQ4_NL", "IQ4_XS"),
    *("Q4_1", "Q5_1", "Q2_K", "Q4_K", "Q5_K"),
)
"""Those that are read."""

_ODD = {"Q2_K": (0, 16), "Q3_K": (96, 104), "Q4_K": (4, 16), "Q5_K": (4, 16), "Q6_K": (192, 208)}
"""The bytes of scales: where they are odd, in both halves, no scale is 0."""

_FLOATS = {"Q2_K": (80, 84), "Q4_K": (0, 4), "Q5_K": (0, 4), "IQ4_XS": (0, 2), "IQ4_NL": (0, 2)}
"""The bytes of f16: of all others, the last two."""


def random_records(name: str, rows: int, columns: int) -> Array:
    """Rows of blocks of a type: quantized normal numbers, or any bytes without scales of 0."""
    gguf: Any = import_module("gguf")
    kind = gguf.GGMLQuantizationType[name]
    block, nbytes = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(3)
    if name in ("Q4_0", "Q5_0", "Q8_0", "Q4_1", "Q5_1"):
        return gguf.quants.quantize(rng.normal(size=(rows, columns)).astype("f4"), kind)
    records = rng.integers(0, 256, (rows, columns // block, nbytes)).astype(np.uint8)
    if name == "MXFP4":
        records[:, :, 0] = rng.integers(90, 150, records.shape[:2])
        return records.reshape(rows, -1)
    start, end = _FLOATS.get(name, (nbytes - 2, nbytes))
    floats = rng.normal(size=(*records.shape[:2], (end - start) // 2)).astype(np.float16)
    records[:, :, start:end] = floats.view(np.uint8)
    odd = slice(*_ODD.get(name, (4, 8) if name == "IQ4_XS" else (0, 0)))
    records[:, :, odd] |= 0x11
    return records.reshape(rows, -1)


def gguf_file(path: Path, tensors: Mapping[str, tuple[Array, Any]]) -> Path:
    """A file with tensors of a type each, with metadata, and with a vector of floats."""
    gguf: Any = import_module("gguf")
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_string("general.name", "a name")
    writer.add_array("tokenizer.ggml.tokens", ["a", "bc"])
    writer.add_array("numbers", [1, 2, 3])
    for name, (data, kind) in tensors.items():
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.add_tensor("norm.weight", np.ones(7, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_tensors(path: Path) -> dict[str, Any]:
    """The tensors of a file by name."""
    return {tensor.name: tensor for tensor in import_module("gguf").GGUFReader(path).tensors}
