"""Checkpoints in other layouts: the same codes and scales, read by numpy or by the library."""

from __future__ import annotations

import json
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from installed import needs
from numpy.typing import NDArray
from quantized_checkpoints import imported, save, stream

from qdialect.weights.tensor_files import read_header
from qdialect.weights.weights_tool import main as weights

Array = NDArray[Any]

pytestmark = needs("torch", "safetensors")

LAYOUTS = ("gptq", "gptq_v2", "awq", "awq_gemv", "pack-quantized", "quark", "matmulnbits")


def gptq(folder: Path, *, low: int = 1, high: int = 16, form: str = "gptq") -> Path:
    """A checkpoint with two matrices of 160 x 64, and another tensor."""
    torch: Any = import_module("torch")
    rng = np.random.default_rng(5)
    tensors = dict[str, Any]()
    for name in ("a", "b"):
        codes = rng.integers(0, 16, (160, 64))
        zeros = rng.integers(low, high, (2, 160)) - (form == "gptq")
        arrays = {
            "qweight": np.stack([stream(row, 4) for row in codes], axis=1),
            "qzeros": np.stack([stream(row, 4) for row in zeros]),
            "scales": rng.uniform(0.01, 1, (2, 160)).astype(np.float16),
            "g_idx": (np.arange(64) // 32).astype(np.int32),
        }
        tensors |= {f"l.{name}.{key}": torch.from_numpy(array) for key, array in arrays.items()}
    tensors["norm.weight"] = torch.arange(7.0)
    config = {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": form}
    return save(folder, tensors, config)


def convert(checkpoint: Path, to: str, output: Path, *flags: str) -> int:
    return weights(["convert", str(checkpoint), f"--to={to}", "-o", str(output), *flags])


@pytest.mark.parametrize(("first", "second"), product(LAYOUTS, LAYOUTS))
def test_there_and_back(first: str, second: str, tmp_path: Path):
    """By way of two layouts to the first one again: the same bytes, also in bands."""
    source = gptq(tmp_path / "source")
    assert convert(source, first, tmp_path / "one") == 0
    layout = [f"--layout={first}"] if first == "matmulnbits" else []
    assert convert(tmp_path / "one", second, tmp_path / "two", *layout, "--max-memory=1") == 0
    layout = [f"--layout={second}"] if second == "matmulnbits" else []
    assert convert(tmp_path / "two", "gptq", tmp_path / "back", *layout) == 0
    tensors = list[dict[str, bytes]]()
    for folder in (source, tmp_path / "back"):
        (path,) = folder.glob("*.safetensors")
        data = path.read_bytes()
        entries = read_header(path).items()
        tensors.append({name: data[e.start : e.start + e.nbytes] for name, e in entries})
    assert tensors[0] == tensors[1]
    config = json.loads((tmp_path / "back" / "config.json").read_text())
    assert config["quantization_config"]["checkpoint_format"] == "gptq"
    index = json.loads((tmp_path / "back" / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == tensors[0].keys()


@needs("compressed_tensors")
def test_the_library_reads_what_is_written(tmp_path: Path):
    scheme_of: Any = import_module("compressed_tensors.quantization")
    base: Any = import_module("compressed_tensors.compressors.pack_quantized.base")
    source = gptq(tmp_path / "source")
    assert convert(source, "pack-quantized", tmp_path / "packed") == 0
    (path,) = (tmp_path / "packed").glob("*.safetensors")
    tensors: Any = import_module("safetensors.torch").load_file(str(path))
    arguments = scheme_of.QuantizationArgs(
        num_bits=4, type="int", symmetric=False, strategy="group", group_size=32
    )
    scheme = scheme_of.QuantizationScheme(targets=["Linear"], weights=arguments)
    own = {name.removeprefix("l.a."): tensors[name] for name in tensors if name.startswith("l.a.")}
    read: Any = base.PackedQuantizationCompressor.decompress(own, scheme)
    values = imported(source, tmp_path / "o")["l.a.weight"]
    # The library's numbers are those of f16.
    assert np.array_equal(read["weight"].numpy(), values.astype(np.float16))


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = gptq(tmp_path / "source", low=0, form="gptq_v2")
    for to, reason in (
        ("gptq", "l.a.weight: gptq_v2: zero: zero points 0 to 15 are not 1 to 16"),
        ("pack-quantized-symmetric", "l.a.weight: gptq_v2: zero: zero points 0 to 15 are not 8"),
        ("int-quantized", "l.a.weight: gptq_v2: storage: codes are u4, of 4 bits"),
        ("mxfp4-pack-quantized", "l.a.weight: gptq_v2: table: codes are numbers of u4"),
        ("mlx", "l.a.weight: gptq_v2: offset: 'mlx' has offsets, and values have none"),
        ("q4_0", "l.a.weight: gptq_v2: zero: zero points 0 to 15 are not 8"),
        ("q8_0", "l.a.weight: gptq_v2: storage: codes are u4, of 4 bits"),
        ("nvfp4-pack-quantized", "l.a.weight: gptq_v2: scale: '.weight_global_scale' are only of"),
        ("bitsandbytes", "l.a.weight: gptq_v2: missing: '.weight.quant_map' are only of"),
    ):
        assert convert(source, to, tmp_path / "o") == 1
        message = capsys.readouterr().err
        assert "2 weights are refused" in message
        assert reason in message
        assert not (tmp_path / "o").exists()
    # What is refused is copied on request, if anything is not.
    assert convert(source, "gptq", tmp_path / "o", "--refused=keep", "--only=l.a.weight") == 1
    torch, files = import_module("torch"), import_module("safetensors.torch")
    tensors: Any = files.load_file(str(source / "model.safetensors"))
    tensors["l.b.scales"][0, 0] = torch.inf
    mixed = save(tmp_path / "mixed", tensors)
    assert convert(mixed, "awq", tmp_path / "k", "--layout=gptq_v2", "--refused=keep") == 3
    assert "l.b.weight: gptq_v2: scale: there are scales" in capsys.readouterr().err
    (path,) = (tmp_path / "k").glob("*.safetensors")
    assert {"l.a.qweight", "l.b.g_idx", "norm.weight"} <= read_header(path).keys()
    assert "l.a.g_idx" not in read_header(path)
    assert convert(source, "awq", tmp_path / "o", "--only=l.b.*") == 0
    (path,) = (tmp_path / "o").glob("*.safetensors")
    assert {"l.a.g_idx", "l.b.qweight", "norm.weight"} <= read_header(path).keys()
    assert "l.b.g_idx" not in read_header(path)


@needs("torch", "safetensors")
@pytest.mark.parametrize("layout", ["gptq", "awq", "pack-quantized", "awq_gemv"])
def test_what_is_imported_is_written_again(layout: str, tmp_path: Path):
    """By way of plain rows and a manifest: the same bytes."""
    source = gptq(tmp_path / "source")
    assert convert(source, layout, tmp_path / "first") == 0
    flags = [f"--layout={layout}"]
    bring = ["import", str(tmp_path / "first"), "-o", str(tmp_path / "plain"), *flags]
    assert weights(bring) == 0
    config = f"--config={source / 'config.json'}"
    manifest = tmp_path / "plain" / "weights.json"
    assert convert(manifest, layout, tmp_path / "again", config, "--max-memory=1") == 0
    read: Any = import_module("safetensors.numpy").load_file
    pair = [read(next((tmp_path / name).glob("*.safetensors"))) for name in ("first", "again")]
    assert pair[0].keys() == pair[1].keys()
    for name, array in pair[0].items():
        assert array.dtype == pair[1][name].dtype
        assert np.array_equal(array, pair[1][name]), name
    section = json.loads((tmp_path / "again" / "config.json").read_text())
    first = json.loads((tmp_path / "first" / "config.json").read_text())
    pair = [config["quantization_config"].items() for config in (first, section)]
    assert all(item in pair[1] for item in pair[0])


@needs("compressed_tensors")
@pytest.mark.parametrize("storage", ["i4", "i8"])
def test_weights_that_are_quantized_here_are_read_by_a_library(storage: str, tmp_path: Path):
    """Signed codes are packed as those without a sign, 2^(bits - 1) higher."""
    scheme_of: Any = import_module("compressed_tensors.quantization")
    base: Any = import_module("compressed_tensors.compressors.pack_quantized.base")
    torch: Any = import_module("torch")
    torch.manual_seed(5)
    floats = {"l.weight": torch.randn(48, 64), "norm.weight": torch.ones(3)}
    folder = save(tmp_path / "floats", floats)
    source = str(folder / "model.safetensors")
    flags = [f"--storage={storage}", "--granularity=block", "--block-size=32"]
    quantize = ["quantize", "--weights", source, "-o", str(tmp_path / "q"), *flags]
    assert weights(quantize) == 0
    manifest = tmp_path / "q" / "weights.json"
    assert convert(manifest, "pack-quantized-symmetric", tmp_path / "packed") == 0
    (path,) = (tmp_path / "packed").glob("*.safetensors")
    tensors: Any = import_module("safetensors.torch").load_file(str(path))
    assert "l.weight" not in tensors
    assert torch.equal(tensors["norm.weight"], torch.ones(3))
    arguments = scheme_of.QuantizationArgs(
        num_bits=int(storage[1:]), type="int", symmetric=True, strategy="group", group_size=32
    )
    scheme = scheme_of.QuantizationScheme(targets=["Linear"], weights=arguments)
    own = {name.removeprefix("l."): tensors[name] for name in tensors if name.startswith("l.")}
    read: Any = base.PackedQuantizationCompressor.decompress(own, scheme)
    (path,) = (tmp_path / "q").glob("*.safetensors")
    values: Any = import_module("safetensors.torch").load_file(str(path))
    codes = values["l.weight.codes"].numpy()
    if storage == "i4":
        codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(48, 64).astype(np.int8)
        codes = (codes ^ 8) - 8
    scales = values["l.weight.scale"].numpy().repeat(32, 1)
    assert np.array_equal(read["weight"].float().numpy(), codes * scales)


@pytest.mark.parametrize("layout", ["nvfp4-pack-quantized", "gptq"])
def test_what_has_the_layout_is_copied(layout: str, tmp_path: Path):
    """Also with two levels of scales; the configuration stays."""
    torch: Any = import_module("torch")
    if layout == "gptq":
        source = gptq(tmp_path / "source")
    else:
        tensors = {
            "l.weight_packed": torch.randint(0, 256, (40, 32), dtype=torch.uint8),
            "l.weight_scale": torch.full((40, 4), 1.5).to(torch.float8_e4m3fn),
            "l.weight_global_scale": torch.tensor([37.5]),
            "norm.weight": torch.ones(3),
        }
        config = {"quant_method": "compressed-tensors", "format": layout}
        source = save(tmp_path / "source", tensors, config)
    assert convert(source, layout, tmp_path / "same") == 0
    data = list[dict[str, bytes]]()
    for folder in (source, tmp_path / "same"):
        (path,) = folder.glob("*.safetensors")
        text, entries = path.read_bytes(), read_header(path).items()
        data.append({name: text[e.start : e.start + e.nbytes] for name, e in entries})
    assert data[0] == data[1]
    names = ("source", "same")
    configs = [json.loads((tmp_path / name / "config.json").read_text()) for name in names]
    assert configs[0] == configs[1]


@needs("bitsandbytes")
def test_what_is_refused_is_copied_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Also what is not understood, and the state of a flat matrix."""
    torch: Any = import_module("torch")
    source = gptq(tmp_path / "source")
    tensors: Any = import_module("safetensors.torch").load_file(str(source / "model.safetensors"))
    tensors["l.b.g_idx"][:] = 0
    functional: Any = import_module("bitsandbytes.functional")
    packed, state = functional.quantize_4bit(torch.randn(96, 128), blocksize=64, quant_type="nf4")
    tensors |= {"n.weight": packed}
    tensors |= {f"n.weight.{name}": part for name, part in state.as_dict(packed=True).items()}
    mixed = save(tmp_path / "mixed", tensors)
    assert convert(mixed, "awq", tmp_path / "o", "--layout=gptq", "--refused=keep") == 3
    assert "l.b.weight: act-order: " in capsys.readouterr().err
    (path,) = (tmp_path / "o").glob("*.safetensors")
    gone = {"l.a.g_idx", "l.a.qzeros"}
    assert tensors.keys() - gone <= read_header(path).keys()
    assert convert(mixed, "awq", tmp_path / "p", "--layout=bitsandbytes", "--refused=keep") == 1
    assert "n.weight: bitsandbytes: " in capsys.readouterr().err
