"""Checkpoints that lie: a clear error each, and nothing is written."""

from __future__ import annotations

import json
import struct
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from gguf_checkpoints import gguf_file, random_records
from hypothesis import given
from hypothesis import strategies as st
from installed import needs
from quantized_checkpoints import save, stream

from qdialect.checkpoints.layouts import layouts
from qdialect.weights.tensor_files import DTYPES, PACKED, writing
from qdialect.weights.weights_tool import main as weights

CONFIG: dict[str, Any] = {
    "quant_method": "gptq",
    "bits": 4,
    "group_size": 32,
    "checkpoint_format": "gptq_v2",
}


def arrays() -> dict[str, Any]:
    """The tensors of a matrix of 32 x 64."""
    rng = np.random.default_rng(2)
    codes, zeros = rng.integers(0, 16, (32, 64)), rng.integers(0, 16, (2, 32))
    return {
        "qweight": np.stack([stream(row, 4) for row in codes], axis=1),
        "qzeros": np.stack([stream(row, 4) for row in zeros]),
        "scales": rng.uniform(0.01, 1, (2, 32)).astype(np.float16),
        "g_idx": (np.arange(64) // 32).astype(np.int32),
    }


def written(folder: Path, changed: dict[str, Any], config: dict[str, Any] | None) -> Path:
    torch: Any = import_module("torch")
    tensors = {f"l.q.{name}": torch.from_numpy(array) for name, array in changed.items()}
    return save(folder, tensors, config)


def changes() -> dict[str, tuple[dict[str, Any], dict[str, Any], str]]:
    own = arrays()
    uneven, outside = own["g_idx"].copy(), own["g_idx"].copy()
    uneven[40], outside[3] = 0, 77
    nan, huge = own["scales"].copy(), own["scales"].copy()
    nan[1, 4], huge[0, 0] = np.nan, np.inf
    full = np.full((2, 4), -1, np.int32)
    return {
        "uneven": ({"g_idx": uneven}, {}, "act-order: '.g_idx' is not of blocks of 32 columns"),
        "outside": ({"g_idx": outside}, {}, "act-order: "),
        "nan": ({"scales": nan}, {}, "scale: there are scales that are not finite"),
        "infinite": ({"scales": huge}, {}, "scale: there are scales that are not finite"),
        "group": ({}, {"group_size": 16}, "block: '.scales' is [2, 32], and 16 bits need [4, 32]"),
        "bits": ({}, {"bits": 2}, "tail: '.qweight' is [8, 32], and 2 bits need [4, 32]"),
        "zeros": (
            {"qzeros": np.zeros((2, 5), np.int32)},
            {},
            "tail: '.qzeros' is [2, 5], and 4 bits need [2, 4]",
        ),
        "version": ({}, {"checkpoint_format": "?"}, "ambiguous: it is gptq or gptq_v2: choose one"),
        "symmetric": (
            {},
            {"sym": True},
            "ambiguous: the configuration says symmetric, but zero points are ",
        ),
        "zero": (
            {"qzeros": full},
            {"checkpoint_format": "gptq"},
            "zero: a stored 15 is 16 to some readers",
        ),
    }


@needs("torch", "safetensors")
def test_padded_scales_need_a_group_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    own = arrays()
    own |= {"qweight": np.zeros((32, 8), np.int32), "qzeros": np.zeros((32, 4), np.int32)}
    own["scales"] = np.ones((32, 32), np.float16)
    del own["g_idx"]
    folder = written(tmp_path / "c", own, {"quant_method": "awq", "version": "gemv"})
    assert weights(["import", str(folder), "-o", str(tmp_path / "o")]) == 1
    assert "l.q.weight: block: scales are padded, and no" in capsys.readouterr().err


@needs("torch", "safetensors")
@pytest.mark.parametrize("name", sorted(changes()))
def test_what_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    changed, config, reason = changes()[name]
    folder = written(tmp_path / "c", {**arrays(), **changed}, {**CONFIG, **config})
    for command in (["import"], ["convert", "--to=pack-quantized"]):
        output = tmp_path / command[0]
        assert weights([*command, str(folder), "-o", str(output)]) == 1
        message = capsys.readouterr().err
        assert reason in message
        assert "l.q.weight" in message
        assert not list(output.glob("*.safetensors*"))


@needs("torch", "safetensors")
def test_other_methods_and_configurations(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """What the configuration does not allow is no quantized weight."""
    folder = written(tmp_path / "c", arrays(), {**CONFIG, "quant_method": "awq"})
    assert weights(["import", str(folder), "-o", str(tmp_path / "o")]) == 1
    assert "no quantized weight that matches is imported" in capsys.readouterr().err
    for text, reason in (
        ("{", "Expecting"),
        ("[1]", "must be"),
        ('{"quantization_config": 1}', ""),
    ):
        (folder / "config.json").write_text(text)
        assert weights(["import", str(folder), "-o", str(tmp_path / "o")]) == 1
        message = capsys.readouterr().err
        assert f"{folder / 'config.json'}:1:" in message
        assert reason in message
    assert weights(["info", str(folder), "--layout=unknown"]) == 1
    assert "there is no layout 'unknown'; the layouts are gptq, " in capsys.readouterr().err
    (folder / "config.json").unlink()
    assert weights(["info", str(folder), "--layout=gptq_v2"]) == 0
    assert "l.q.weight  gptq_v2  32x64  1x32   u4" in capsys.readouterr().out
    joined = ["import", str(folder), "--layout=gptq_v2", "-o", str(tmp_path / "o")]
    for join, reason in (
        ("q", "--join must be as"),
        ("q,k=qk", "there is 'l.q.weight', but not all of the others"),
        ("x,k=qk", "there is no 'x'"),
        ("q,q=x", "--join=q,q=x: a name is there twice"),
    ):
        assert weights([*joined, f"--join={join}"]) == 1
        assert reason in capsys.readouterr().err
    assert weights(["info", str(tmp_path / "nothing.gguf")]) == 1
    assert "nothing.gguf: No such file" in capsys.readouterr().err
    for name in ("m.gguf", "m.json", "m.onnx", "m.xml"):
        for action in (["info"], ["import", "-o", str(tmp_path / "o")]):
            assert weights([*action, str(tmp_path / name), "--layout=gptq"]) == 1
            message = (
                f"{name}: it says itself which layouts its weights have: --layout is for folders"
            )
            assert message in capsys.readouterr().err


@needs("bitsandbytes", "torch", "safetensors")
def test_what_no_type_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """LLM.int8 rounds a product before it is divided, and HQQ has zero points of floats."""
    torch: Any = import_module("torch")
    functional: Any = import_module("bitsandbytes.functional")
    codes, scales, _ = functional.int8_vectorwise_quant(torch.randn(32, 64).half())
    # The values are not those of one product.
    wanted = functional.int8_vectorwise_dequant(codes, scales)
    assert not torch.equal(wanted, codes * (scales / 127)[:, None])
    bits = {"W_q": torch.zeros((16, 64), dtype=torch.uint8), "scale": torch.ones(64, 1)}
    checkpoints = {
        "bitsandbytes": {"weight": codes, "SCB": scales},
        "hqq": {**bits, "zero": torch.full((64, 1), 7.5)},
    }
    reasons = {
        "bitsandbytes": "l.weight: scale: the product of code and 'SCB' is rounded before",
        "hqq": "l.weight: zero: zero points are floats, and the difference is rounded",
    }
    for method, tensors in checkpoints.items():
        named = {f"l.{name}": tensor for name, tensor in tensors.items()}
        folder = save(tmp_path / method, named, {"quant_method": method})
        for command in (["import"], ["convert", "--to=gptq"]):
            assert weights([*command, str(folder), "-o", str(tmp_path / "o")]) == 1
            assert reasons[method] in capsys.readouterr().err
    folder = written(tmp_path / "c", arrays(), CONFIG)
    assert weights(["convert", str(folder), "--to=hqq", "-o", str(tmp_path / "o")]) == 1
    assert "l.q.weight: gptq_v2: zero: zero points are floats" in capsys.readouterr().err


def gguf() -> bytes:
    """A file with one value and one tensor of two rows of Q8_0."""

    def text(word: str) -> bytes:
        return struct.pack("<Q", len(word)) + word.encode()

    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("general.name") + struct.pack("<I", 8)
    head += text("model") + text("blk.0.weight")
    head += struct.pack("<I2QIQ", 2, 64, 2, 8, 0)
    head += bytes(-len(head) % 32)
    records = np.zeros((2, 2, 34), np.uint8)
    records[:, :, :2] = np.array([0.5], np.float16).view(np.uint8)
    return head + records.tobytes()


@examples(100)
@given(data=st.data())
def test_changed_files_of_gguf_are_read_or_told(data: st.DataObject, tmp_path_factory: Any):
    content = bytearray(gguf())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    folder: Path = tmp_path_factory.mktemp("gguf")
    path = folder / "m.gguf"
    path.write_bytes(bytes(content[: cut if data.draw(st.booleans()) else None]))
    assert weights(["info", str(path)]) in (0, 1)
    assert weights(["import", str(path), "-o", str(folder / "o")]) in (0, 1)


def test_a_file_of_gguf_that_is_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, content = tmp_path / "m.gguf", gguf()
    path.write_bytes(content)
    assert weights(["import", str(path), "-o", str(tmp_path / "o")]) == 0
    manifest = json.loads((tmp_path / "o" / "weights.json").read_text())
    assert manifest["quantized"]["blk.0.weight"]["type"].startswith("!quant.uniform<i8:f32")
    capsys.readouterr()
    for size in (0, 3, 20, 60, len(content) - 1):
        path.write_bytes(content[:size])
        assert weights(["info", str(path)]) == 1
        message = capsys.readouterr().err
        assert f"{path}: it is " in message


@examples(40)
@given(data=st.data())
def test_tensors_of_any_shape_are_read_or_told(data: st.DataObject, tmp_path_factory: Any):
    """Under the names of a layout, mostly with its dtypes, and with any configuration."""
    folder: Path = tmp_path_factory.mktemp("any")
    rows = [row for row in layouts().values() if not row.record]
    row = data.draw(st.sampled_from(rows))
    dtypes = {plane.name: plane.dtype for plane in row.codes}
    dtypes |= {part.name: part.dtypes[0] for part in (*row.scale, *row.offset)}
    names = [*row.dtypes, *filter(None, (row.groups.rstrip("?"), row.shape))]
    lengths = st.lists(st.sampled_from([0, 1, 2, 4, 8, 32, 64]), max_size=4).map(tuple)
    tensors = list[tuple[str, str, tuple[int, ...]]]()
    for name in dict.fromkeys(names):
        others = [dtype for dtype in DTYPES if dtype != PACKED]
        dtype = data.draw(st.sampled_from([dtypes.get(name, "I32")] * 8 + others))
        shape = data.draw(lengths)
        shape = (*shape, 2) if DTYPES[dtype].bits < 8 else shape
        tensors.append((f"l.q{name}", dtype, shape))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    with writing(folder / "m.safetensors", tensors) as file:
        for name, dtype, shape in tensors:
            count = int(np.prod(shape)) * DTYPES[dtype].itemsize
            file.write(name, memoryview(rng.bytes(count)), 0)
        file.finish()
    config = {
        "bits": data.draw(st.sampled_from([-1, 0, 2, 3, 4, 8, 9, "4"])),
        "group_size": data.draw(st.sampled_from([-1, 0, 8, 32, "a"])),
        "quant_method": data.draw(st.sampled_from(["gptq", "awq", "compressed-tensors", "fp8"])),
        "weight_block_size": data.draw(st.sampled_from([None, [8, 8], [0, 1], [1]])),
    }
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}))
    flags = [f"--layout={row.name}"] if data.draw(st.booleans()) else []
    output = ["-o", str(folder / "o"), *flags]
    assert weights(["info", str(folder), *flags]) in (0, 1)
    assert weights(["import", str(folder), *output]) in (0, 1)
    to = data.draw(st.sampled_from(list(layouts())))
    assert weights(["convert", str(folder), f"--to={to}", *output]) in (0, 1)


@needs("gguf", "bitsandbytes", "torch", "safetensors")
@pytest.mark.parametrize("layout", ["q4_k", "bitsandbytes-double", "nvfp4-pack-quantized"])
def test_other_tensors_in_the_place_of_outer_factors(layout: str, tmp_path: Path):
    """A manifest may name any tensors: the same bytes as before, or an error."""
    torch: Any = import_module("torch")
    if layout == "q4_k":
        kind = import_module("gguf").GGMLQuantizationType.Q4_K
        data = random_records("Q4_K", 40, 512)
        source = gguf_file(tmp_path / "m.gguf", {"l.weight": (data, kind)})
    elif layout == "bitsandbytes-double":
        functional: Any = import_module("bitsandbytes.functional")
        packed, state = functional.quantize_4bit(
            torch.randn(40, 128), blocksize=64, compress_statistics=True, quant_type="nf4"
        )
        parts = state.as_dict(packed=True).items()
        named = {"l.weight": packed, **{f"l.weight.{name}": part for name, part in parts}}
        source = save(tmp_path / "c", named)
    else:
        named = {
            "l.weight_packed": torch.zeros((40, 64), dtype=torch.uint8),
            "l.weight_scale": torch.ones((40, 8)).to(torch.float8_e4m3fn),
            "l.weight_global_scale": torch.tensor([37.5]),
        }
        source = save(tmp_path / "c", named)
    bring = ["import", str(source), "-o", str(tmp_path / "o"), "--offsets=constants"]
    assert weights(bring) == 0
    manifest = tmp_path / "o" / "weights.json"
    content = json.loads(manifest.read_text())
    (own,) = content["quantized"].values()
    keys = [own["codes"], own["scale"], *own["outer"].values(), "missing"]
    convert = ["convert", str(manifest), f"--to={layout}", "-o", str(tmp_path / "p")]
    assert weights(convert) == 0
    (first,) = (tmp_path / "p").glob("model-*")
    wanted = first.read_bytes()
    for name, before in [*own["outer"].items()]:
        for key in keys:
            own["outer"][name] = key
            manifest.write_text(json.dumps(content))
            status = weights(convert)
            assert status == 1 or first.read_bytes() == wanted, (name, key)
        del own["outer"][name]
        manifest.write_text(json.dumps(content))
        assert weights(convert) == 1
        own["outer"][name] = before
