"""Imported and written in the same layout again: the same bytes, also of factors of many scales."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_checkpoints import TYPES, gguf_file, gguf_tensors, random_records
from installed import needs
from quantized_checkpoints import save, stored_bytes

from qdialect.weights.weights_tool import main as weights


def again(source: Path, layout: str, folder: Path, *flags: str) -> Path:
    """What is imported from a checkpoint, in the layout that it had. In bands of 128 rows."""
    plain, output = folder / "plain", folder / "again"
    bring = ["import", str(source), "-o", str(plain), "--offsets=constants", "--max-memory=1"]
    assert weights(bring) == 0
    manifest = str(plain / "weights.json")
    convert = ["convert", manifest, f"--to={layout}", "-o", str(output), "--max-memory=1"]
    assert weights([*convert, *flags]) == 0
    return output


@needs("gguf")
@pytest.mark.parametrize("name", TYPES)
def test_gguf(name: str, tmp_path: Path):
    gguf: Any = import_module("gguf")
    kind = gguf.GGMLQuantizationType[name]
    data = random_records(name, 301, 512)
    source = gguf_file(tmp_path / "m.gguf", {"blk.0.attn_q.weight": (data, kind)})
    output = again(source, name.lower(), tmp_path, f"--config={source}")
    (path,) = output.glob("*.gguf")
    tensors = gguf_tensors(path)
    assert tensors["blk.0.attn_q.weight"].tensor_type == kind
    assert np.array_equal(tensors["blk.0.attn_q.weight"].data, data)
    assert np.array_equal(tensors["norm.weight"].data, np.ones(7, np.float32))
    fields = gguf.GGUFReader(path).fields
    assert fields["general.name"].contents() == "a name"


@needs("gguf")
@pytest.mark.parametrize("name", ["Q4_K", "Q6_K"])
def test_scales_of_zero(name: str, tmp_path: Path):
    """Codes under them become that of zero: the values stay."""
    gguf: Any = import_module("gguf")
    kind = gguf.GGMLQuantizationType[name]
    records = random_records(name, 130, 512).reshape(130, 2, -1)
    size = records.shape[2]
    places = {"Q4_K": slice(4, 6), "Q6_K": slice(192, 196)}[name]
    records[:, 0, places] = 0
    d = {"Q4_K": slice(0, 2), "Q6_K": slice(size - 2, size)}[name]
    records[::2, 1, d] = 0
    data = records.reshape(130, -1)
    source = gguf_file(tmp_path / "m.gguf", {"a.weight": (data, kind)})
    output = again(source, name.lower(), tmp_path)
    (path,) = output.glob("*.gguf")
    stored = gguf_tensors(path)["a.weight"].data
    values = [gguf.quants.dequantize(own, kind) for own in (data, stored)]
    assert np.array_equal(*values)
    is_kept = (records == stored.reshape(records.shape))[:, :, d].all()
    assert is_kept


@needs("compressed_tensors", "torch", "safetensors")
def test_nvfp4(tmp_path: Path):
    torch: Any = import_module("torch")
    schemes: Any = import_module("compressed_tensors.quantization")
    compressors: Any = import_module("compressed_tensors.compressors")
    arguments = schemes.QuantizationArgs(
        num_bits=4,
        type="float",
        strategy="tensor_group",
        group_size=16,
        scale_dtype=torch.float8_e4m3fn,
    )
    layout = "nvfp4-pack-quantized"
    scheme = schemes.QuantizationScheme(targets=["Linear"], format=layout, weights=arguments)
    torch.manual_seed(3)
    weight = torch.randn(160, 128)
    shared = 448 * 6 / weight.abs().max().reshape(1)
    scales = weight.reshape(160, 8, 16).abs().amax(2) / 6 * shared
    state = {
        "weight": weight,
        "weight_scale": scales.to(torch.float8_e4m3fn).float(),
        "weight_global_scale": shared,
    }
    compressor = compressors.BaseCompressor.get_value_from_registry(layout)
    parts = compressor.compress(state, scheme)
    tensors = {f"l.{name}": part for name, part in parts.items()}
    tensors["norm.weight"] = torch.ones(3)
    config = {"quant_method": "compressed-tensors", "format": layout}
    source = save(tmp_path / "source", tensors, config)
    output = again(source, layout, tmp_path, f"--config={source / 'config.json'}")
    assert stored_bytes(output) == stored_bytes(source)
    configs = [json.loads((own / "config.json").read_text()) for own in (source, output)]
    assert configs[0] == configs[1]


@needs("bitsandbytes", "torch", "safetensors")
@pytest.mark.parametrize("double", [False, True])
def test_bitsandbytes(double: bool, tmp_path: Path):
    """With a table, and with one more of scales; nested blocks end within a row of the matrix."""
    torch: Any = import_module("torch")
    functional: Any = import_module("bitsandbytes.functional")
    torch.manual_seed(4)
    packed, state = functional.quantize_4bit(
        torch.randn(150, 128), blocksize=64, compress_statistics=double, quant_type="nf4"
    )
    named = {
        "l.weight": packed,
        **{f"l.weight.{k}": v for k, v in state.as_dict(packed=True).items()},
    }
    source = save(tmp_path / "source", named, {"quant_method": "bitsandbytes"})
    layout = "bitsandbytes-double" if double else "bitsandbytes"
    output = again(source, layout, tmp_path, f"--config={source / 'config.json'}")
    assert stored_bytes(output) == stored_bytes(source)


@needs("torch", "safetensors")
def test_what_is_cut_has_no_outer_factors(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    torch: Any = import_module("torch")
    tensors = {
        "l.weight_packed": torch.zeros((160, 64), dtype=torch.uint8),
        "l.weight_scale": torch.ones((160, 8)).to(torch.float8_e4m3fn),
        "l.weight_global_scale": torch.tensor([37.3]),
    }
    source = save(tmp_path / "source", tensors)
    bring = ["import", str(source), "-o", str(tmp_path / "o"), "--shard=rows:2"]
    assert weights(bring) == 0
    manifest = str(tmp_path / "o" / "weights.json")
    convert = ["convert", manifest, "--to=nvfp4-pack-quantized", "-o", str(tmp_path / "p")]
    assert weights(convert) == 1
    assert "l.weight.0: qdialect: scale: '.weight_global_scale' are only of" in (
        capsys.readouterr().err
    )
