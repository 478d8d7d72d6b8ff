"""Checkpoints in other layouts, whose libraries read the values of the source."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_checkpoints import gguf_file, gguf_tensors, random_records
from installed import needs
from numpy.typing import NDArray
from quantized_checkpoints import E2M1, imported, save, stored_bytes, stream

from qdialect.weights.tensor_files import FileWriter
from qdialect.weights.weights_tool import main as weights

Array = NDArray[Any]


def convert(checkpoint: Path, to: str, output: Path, *flags: str) -> int:
    return weights(["convert", str(checkpoint), f"--to={to}", "-o", str(output), *flags])


def dequantized(path: Path, name: str) -> Array:
    """The values of a tensor of a file of GGUF, by its library."""
    gguf: Any = import_module("gguf")
    tensor = gguf_tensors(path)[name]
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type)


def gptq(folder: Path, zeros: int, *, order: Array | None = None, sign: int = 1) -> Path:
    """A checkpoint with a matrix of 160 x 128 in blocks of 64, and some other tensors."""
    torch: Any = import_module("torch")
    rng = np.random.default_rng(6)
    codes, groups = rng.integers(0, 16, (160, 128)), np.arange(128) // 64
    arrays = {
        "qweight": np.stack([stream(row, 4) for row in codes], axis=1),
        "qzeros": np.stack([stream(np.full(160, zeros), 4)] * 2),
        "scales": (rng.uniform(0.01, 1, (2, 160)) * sign).astype(np.float16),
        "g_idx": (groups if order is None else groups[order]).astype(np.int32),
    }
    tensors = {f"l.{key}": torch.from_numpy(array.copy()) for key, array in arrays.items()}
    tensors["norm.weight"] = torch.arange(7.0).bfloat16()
    config = {"quant_method": "gptq", "bits": 4, "group_size": 64, "checkpoint_format": "gptq_v2"}
    return save(folder, tensors, config)


@needs("gguf", "torch", "safetensors")
@pytest.mark.parametrize("zero", [8, 7])
def test_gptq_in_gguf(zero: int, tmp_path: Path):
    """A block of 64 is two of 32; a zero point of 7 is 8 after a complement."""
    gguf: Any = import_module("gguf")
    source = gptq(tmp_path / "source", zero, sign=-1)
    assert convert(source, "q4_0", tmp_path / "o", "--max-memory=1") == 0
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == [
        "model-00001-of-00001.gguf",
        "weights.jsonl",
    ]
    (path,) = (tmp_path / "o").glob("*.gguf")
    values = imported(source, tmp_path / "i")["l.weight"]
    assert np.array_equal(dequantized(path, "l.weight"), values)
    norm = gguf_tensors(path)["norm.weight"]
    assert norm.tensor_type == gguf.GGMLQuantizationType.BF16
    assert np.array_equal(gguf.quants.dequantize(norm.data, norm.tensor_type), np.arange(7.0))
    # And back: the codes and scales are those of before.
    assert convert(path, "gptq_v2", tmp_path / "p", f"--config={source / 'config.json'}") == 0
    again = imported(tmp_path / "p", tmp_path / "j")
    assert np.array_equal(again["l.weight"], values)


@needs("gguf", "torch", "safetensors")
def test_what_gguf_does_not_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    torch: Any = import_module("torch")
    source = gptq(tmp_path / "source", 5)
    assert convert(source, "q4_0", tmp_path / "o") == 1
    assert "l.weight: gptq_v2: zero: zero points 5 to 5 are not 8" in capsys.readouterr().err
    files: Any = import_module("safetensors.torch")
    tensors = files.load_file(str(gptq(tmp_path / "other", 8) / "model.safetensors"))
    tensors |= {"mask": torch.ones(3, dtype=torch.bool), "deep": torch.ones((1, 1, 1, 1, 2))}
    mixed = save(tmp_path / "mixed", tensors)
    assert convert(mixed, "q4_0", tmp_path / "o", "--layout=gptq_v2") == 1
    message = capsys.readouterr().err
    assert "mask: storage: GGUF has no tensor of BOOL with 1 axes" in message
    assert "deep: storage: GGUF has no tensor of F32 with 5 axes" in message
    flags = ["--layout=gptq_v2", "--refused=keep"]
    assert convert(mixed, "q4_0", tmp_path / "o", *flags) == 3
    (path,) = (tmp_path / "o").glob("*.gguf")
    assert gguf_tensors(path).keys() == {"l.weight", "norm.weight"}


def experts_of_mx(
    folder: Path, seed: int, *rows: int
) -> tuple[Path, NDArray[np.uint8], NDArray[np.uint8]]:
    """A checkpoint as gpt-oss has its experts, and its codes and exponents, in blocks of 32."""
    torch: Any = import_module("torch")
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 16, (*rows, 2, 32)).astype(np.uint8)
    exponents = rng.integers(110, 140, (*rows, 2)).astype(np.uint8)
    tensors = {
        "l.up_blocks": torch.from_numpy(codes[..., ::2] | codes[..., 1::2] << 4),
        "l.up_scales": torch.from_numpy(exponents),
    }
    return save(folder / "source", tensors, {"quant_method": "mxfp4"}), codes, exponents


@needs("gguf", "torch", "safetensors")
def test_experts_of_mx_in_gguf(tmp_path: Path):
    """gpt-oss: three axes of rows and blocks. A negative zero is one without a sign there."""
    source, codes, exponents = experts_of_mx(tmp_path, 7, 3, 40)
    assert convert(source, "mxfp4", tmp_path / "o") == 0
    (path,) = (tmp_path / "o").glob("*.gguf")
    powers = np.ldexp(np.float32(1), exponents.astype(np.int32) - 127)
    wanted = (E2M1[codes] * powers[..., None]).reshape(3, 40, 64)
    assert np.array_equal(dequantized(path, "l.up"), wanted)
    # The same bytes, by way of GGUF and of compressed-tensors, and of plain rows.
    config = f"--config={source / 'config.json'}"
    assert convert(path, "gpt-oss", tmp_path / "p", config) == 0
    assert stored_bytes(tmp_path / "p") == stored_bytes(source)
    assert convert(source, "mxfp4-pack-quantized", tmp_path / "q") == 0
    assert convert(tmp_path / "q", "gpt-oss", tmp_path / "r") == 0
    assert stored_bytes(tmp_path / "r") == stored_bytes(source)
    imported(source, tmp_path / "i")
    assert convert(tmp_path / "i" / "weights.json", "gpt-oss", tmp_path / "s", config) == 0
    assert stored_bytes(tmp_path / "s") == stored_bytes(source)


@needs("compressed_tensors", "torch", "safetensors")
def test_mx_in_compressed_tensors(tmp_path: Path):
    source, codes, exponents = experts_of_mx(tmp_path, 8, 40)
    assert convert(source, "mxfp4-pack-quantized", tmp_path / "o") == 0
    (path,) = (tmp_path / "o").glob("*.safetensors")
    config = json.loads((tmp_path / "o" / "config.json").read_text())["quantization_config"]
    scheme_of: Any = import_module("compressed_tensors.quantization")
    compressors: Any = import_module("compressed_tensors.compressors")
    own = config["config_groups"]["group_0"]
    scheme = scheme_of.QuantizationScheme(**own, format=config["format"])
    read = compressors.BaseCompressor.get_value_from_registry(config["format"])
    tensors = import_module("safetensors.torch").load_file(str(path))
    own = {name.removeprefix("l.up."): tensor for name, tensor in tensors.items()}
    values = read.decompress(own, scheme)["weight"].float().numpy()
    powers = np.ldexp(np.float32(1), exponents.astype(np.int32) - 127)
    wanted = (E2M1[codes] * powers[..., None]).reshape(40, 64)
    assert np.array_equal(values, wanted)


@needs("gguf", "torch", "safetensors")
def test_offsets_in_mlx(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Q4_1 is computed in f32: in MLX, scales must be f32, too."""
    gguf: Any = import_module("gguf")
    data = random_records("Q4_1", 160, 128)
    kind = gguf.GGMLQuantizationType.Q4_1
    source = gguf_file(tmp_path / "m.gguf", {"l.weight": (data, kind)})
    assert convert(source, "mlx", tmp_path / "o") == 0
    wanted = gguf.quants.dequantize(data, kind)
    tensors: Any = import_module("safetensors.numpy").load_file(
        str(next((tmp_path / "o").glob("*.safetensors")))
    )
    fields = tensors["l.weight"].view(np.uint8)
    codes = np.stack([fields & 15, fields >> 4], axis=2).reshape(160, 128).astype(np.float32)
    scales, biases = (tensors[f"l.{name}"].repeat(32, 1) for name in ("scales", "biases"))
    assert scales.dtype == np.float32
    assert np.array_equal(codes * scales + biases, wanted)
    assert convert(tmp_path / "o", "q4_1", tmp_path / "p", "--layout=mlx") == 0
    (path,) = (tmp_path / "p").glob("*.gguf")
    assert np.array_equal(gguf_tensors(path)["l.weight"].data, data)
    halves = {name: array for name, array in tensors.items() if name.startswith("l.")}
    torch: Any = import_module("torch")
    halves = {name: torch.from_numpy(array) for name, array in halves.items()}
    halves |= {name: halves[name].half() for name in ("l.scales", "l.biases")}
    folder = save(tmp_path / "halves", halves)
    assert convert(folder, "q4_1", tmp_path / "q", "--layout=mlx") == 1
    assert "l.weight: mlx: offset: values are sums of f16" in capsys.readouterr().err


@needs("gguf")
def test_metadata_and_other_types_of_gguf_stay(tmp_path: Path):
    """Q4_1 stays with `--refused=keep`; what has the type before is copied."""
    gguf: Any = import_module("gguf")
    kinds = gguf.GGMLQuantizationType
    data = {name: random_records(name, 40, 256) for name in ("Q4_0", "Q4_1", "IQ4_NL")}
    tensors = {name: (array, kinds[name]) for name, array in data.items()}
    source = gguf_file(tmp_path / "m.gguf", tensors)
    assert convert(source, "q4_0", tmp_path / "o", "--refused=keep") == 3
    (path,) = (tmp_path / "o").glob("*.gguf")
    read = gguf_tensors(path)
    for name, array in data.items():
        assert read[name].tensor_type == kinds[name]
        assert np.array_equal(read[name].data, array)
    fields = [gguf.GGUFReader(place).fields for place in (source, path)]
    own = [[n for n in names if not n.startswith("GGUF.")] for names in fields]
    assert own[0] == own[1]
    for name in own[0]:
        assert fields[0][name].contents() == fields[1][name].contents()


@needs("torch", "safetensors")
@pytest.mark.parametrize("layout", ["gptq_v2", "pack-quantized"])
def test_columns_in_another_order(layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """By way of plain rows, where they are in the order of blocks, and of a gather."""
    order = np.random.default_rng(9).permutation(128)
    first = gptq(tmp_path / "first", 5, order=order)
    source = first
    if layout != "gptq_v2":
        source = tmp_path / "source"
        assert convert(first, layout, source) == 0
    values = imported(source, tmp_path / "i")["l.weight"]
    manifest = tmp_path / "i" / "weights.json"
    config = f"--config={source / 'config.json'}"
    assert convert(manifest, layout, tmp_path / "o", config, "--max-memory=1") == 0
    assert stored_bytes(tmp_path / "o") == stored_bytes(source)
    section = json.loads((tmp_path / "o" / "config.json").read_text())["quantization_config"]
    if layout == "gptq_v2":
        assert section["desc_act"]
    else:
        assert section["config_groups"]["group_0"]["weights"]["actorder"] == "group"
    assert np.array_equal(imported(tmp_path / "o", tmp_path / "j")["l.weight"], values)
    assert convert(manifest, "awq", tmp_path / "p") == 1
    assert "l.weight: qdialect: act-order: 'awq' has the columns in order" in (
        capsys.readouterr().err
    )


@needs("torch", "safetensors")
def test_blocks_are_cut_and_joined(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Blocks of f8 that do not divide an axis are cut by an import, and joined again."""
    torch: Any = import_module("torch")
    rng = np.random.default_rng(10)
    named = {
        "l.weight": torch.from_numpy(rng.normal(size=(576, 200)).astype("f4")).to(
            torch.float8_e4m3fn
        ),
        "l.weight_scale_inv": torch.from_numpy(rng.uniform(0.01, 1, (5, 2)).astype("f4")),
    }
    source = save(tmp_path / "source", named, {"quant_method": "fp8"})
    imported(source, tmp_path / "i")
    manifest = tmp_path / "i" / "weights.json"
    assert convert(manifest, "fp8-blocks", tmp_path / "o", "--max-memory=1") == 0
    assert stored_bytes(tmp_path / "o") == stored_bytes(source)
    del named["l.weight_scale_inv"]
    named["l.weight_scale"] = torch.from_numpy(rng.uniform(0.01, 1, (9, 4)).astype("f4"))
    config = {"quant_method": "fp8", "weight_block_size": [64, 64]}
    source = save(tmp_path / "smaller", named, config)
    assert convert(source, "fp8-blocks", tmp_path / "p") == 1
    assert "block: blocks of 64 that differ would be in blocks of 128" in capsys.readouterr().err


@needs("torch", "safetensors")
def test_a_configuration_has_one_size_of_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Without words for two, they are refused; blocks that are whole rows are one size."""
    torch: Any = import_module("torch")

    def matrix(name: str, groups: int, columns: int = 64) -> dict[str, Any]:
        return {
            f"{name}.weight_packed": torch.zeros((32, columns // 8), dtype=torch.int32),
            f"{name}.weight_scale": torch.ones((32, groups)),
            f"{name}.weight_shape": torch.tensor([32, columns]),
        }

    source = save(tmp_path / "two", {**matrix("a", 2), **matrix("b", 4)})
    assert convert(source, "gptq_v2", tmp_path / "o") == 1
    assert "block: matrices have blocks of [16, 32] columns" in capsys.readouterr().err
    assert convert(source, "matmulnbits", tmp_path / "o") == 0
    source = save(tmp_path / "rows", {**matrix("a", 1), **matrix("b", 1, 128)}, {"bits": 4})
    assert convert(source, "gptq_v2", tmp_path / "p") == 0
    section = json.loads((tmp_path / "p" / "config.json").read_text())["quantization_config"]
    assert section["group_size"] == -1
    assert convert(tmp_path / "p", "pack-quantized", tmp_path / "q") == 0
    section = json.loads((tmp_path / "q" / "config.json").read_text())["quantization_config"]
    own = section["config_groups"]["group_0"]["weights"]
    assert (own["strategy"], own["group_size"]) == ("channel", None)


@needs("torch", "safetensors")
def test_what_was_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A byte of the new file that is another one is told."""
    source = gptq(tmp_path / "source", 5)
    write = FileWriter.write

    def changed(self: FileWriter, name: str, data: memoryview, first: int) -> None:
        if name == "l.qweight":
            data = memoryview(bytes(data[:-1]) + bytes([data[-1] ^ 1]))
        write(self, name, data, first)

    monkeypatch.setattr(FileWriter, "write", changed)
    assert convert(source, "awq", tmp_path / "o") == 1
    assert not list((tmp_path / "o").glob("*.safetensors*"))
