"""Quantized checkpoints that libraries wrote: imported, they have the library's own values."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_checkpoints import TYPES, gguf_file, random_records
from installed import needs
from numpy.typing import NDArray
from quantized_checkpoints import E2M1, imported, save, stored_bytes, stream

from qdialect.check.interpreters import run_function
from qdialect.opt.opt import main as opt
from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module
from qdialect.weights.weights_tool import main as weights

Array = NDArray[Any]

TRANSPOSED = """
func.func @main() -> tensor<128x160xf16> {
  %w = arith.constant dense_resource<l.weight> : tensor<160x128xf16>
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<160x128xf16>) -> tensor<128x160xf16>
  return %t : tensor<128x160xf16>
}
"""


@needs("gguf")
@pytest.mark.parametrize("name", TYPES)
def test_types_of_gguf(name: str, tmp_path: Path):
    gguf: Any = import_module("gguf")
    kind = gguf.GGMLQuantizationType[name]
    data = random_records(name, 301, 512)
    gguf_file(tmp_path / "m.gguf", {"blk.0.attn_q.weight": (data, kind)})
    # Bands of 128 rows.
    flags = ["--max-memory=1", "--offsets=constants"]
    values = imported(tmp_path / "m.gguf", tmp_path / "o", *flags)
    wanted = gguf.quants.dequantize(data, kind)
    assert np.array_equal(values["blk.0.attn_q.weight"], wanted)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("form", ["gptq", "gptq_v2"])
@needs("torch", "safetensors")
def test_gptq(bits: int, form: str, tmp_path: Path):
    """Codes go down columns, zero points along rows, and the first version stores one less."""
    torch: Any = import_module("torch")
    rng = np.random.default_rng(bits)
    rows, columns, group = 160, 64, 32
    codes = rng.integers(0, 1 << bits, (rows, columns))
    zeros = rng.integers(1, 1 << bits, (columns // group, rows))
    scales = rng.uniform(0.01, 1, (columns // group, rows)).astype(np.float16)
    stored = zeros - (form == "gptq")
    tensors = {
        "qweight": np.stack([stream(row, bits) for row in codes], axis=1),
        "qzeros": np.stack([stream(row, bits) for row in stored]),
        "scales": scales,
        "g_idx": (np.arange(columns) // group).astype(np.int32),
    }
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "checkpoint_format": form}
    named = {f"l.q_proj.{name}": torch.from_numpy(array) for name, array in tensors.items()}
    folder = save(tmp_path / "c", named, config)
    values = imported(folder, tmp_path / "o", "--max-memory=1")["l.q_proj.weight"]
    spread = [array.T.repeat(group, 1).astype(np.float32) for array in (zeros, scales)]
    assert np.array_equal(values, (codes - spread[0]) * spread[1])


@needs("torch", "safetensors")
def test_awq(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Codes go along rows of a transposed matrix, eight in an order of their own."""
    torch: Any = import_module("torch")
    rng = np.random.default_rng(4)
    rows, columns, group = 160, 64, 32
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def packed(array: Array) -> Array:
        eights = array.reshape(len(array), -1, 8)[:, :, order].reshape(len(array), -1)
        return np.stack([stream(row, 4) for row in eights])

    codes, zeros = rng.integers(0, 16, (columns, rows)), rng.integers(0, 16, (2, rows))
    scales = rng.uniform(0.01, 1, (2, rows)).astype(np.float16)
    arrays = {"qweight": packed(codes), "qzeros": packed(zeros), "scales": scales}
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "GEMM"}
    named = {
        f"l.{part}.{name}": torch.from_numpy(array.copy())
        for part in "qk"
        for name, array in arrays.items()
    }
    folder = save(tmp_path / "c", named, config)
    spread = [array.T.repeat(group, 1).astype(np.float32) for array in (zeros, scales)]
    wanted = (codes.T - spread[0]) * spread[1]
    values = imported(folder, tmp_path / "o", "--max-memory=1")
    assert np.array_equal(values["l.q.weight"], wanted)
    joined = imported(folder, tmp_path / "j", "--join=q,k=qk")
    assert list(joined) == ["l.qk.weight"]
    assert np.array_equal(joined["l.qk.weight"], np.concatenate([wanted, wanted]))
    # Each shard has rows of both; columns are cut between blocks.
    shards = imported(folder, tmp_path / "s", "--join=q,k=qk", "--shard=rows:5", "--max-memory=1")
    assert sorted(shards) == [f"l.qk.weight.{number}" for number in range(5)]
    for number in range(5):
        rows = wanted[32 * number : 32 * number + 32]
        assert np.array_equal(shards[f"l.qk.weight.{number}"], np.concatenate([rows, rows]))
    cut = imported(folder, tmp_path / "t", "--shard=columns:2", "--only=l.q.*")
    assert np.array_equal(cut["l.q.weight.1"], wanted[:, 32:])
    split = imported(folder, tmp_path / "u", "--split=q=a:100,b:60")
    assert np.array_equal(split["l.a.weight"], wanted[:100])
    assert np.array_equal(split["l.b.weight"], wanted[100:])
    # Pairs of rows become halves of heads, and pairs again.
    halves = imported(folder, tmp_path / "w", "--rotary=q=32:halves", "--max-memory=1")[
        "l.q.weight"
    ]
    assert np.array_equal(halves, wanted.reshape(5, 16, 2, 64).swapaxes(1, 2).reshape(160, 64))
    joined = imported(folder, tmp_path / "x", "--rotary=k=32:pairs", "--join=q,k=qk")["l.qk.weight"]
    assert np.array_equal(joined[:160], wanted)
    pairs = wanted.reshape(5, 2, 16, 64).swapaxes(1, 2).reshape(160, 64)
    assert np.array_equal(joined[160:], pairs)
    refused = ["import", str(folder), "-o", str(tmp_path / "v")]
    for flags, reason in (
        (["--shard=columns:4"], "l.k.weight.0: awq: block: "),
        (["--shard=rows:7"], "--shard=rows:7: 'l.k.weight' has 160 rows"),
        (["--shard=7"], "--shard must be as rows:4 or columns:4"),
        (["--split=q=a:1,b:2"], "--split=q=a:1,b:2: 'l.q.weight' has 160 rows, not 3"),
        (["--split=q"], "--split must be as"),
        (["--rotary=q=31:pairs"], "--rotary must be as q_proj,k_proj=128:halves, but is"),
        (["--rotary=q=48:pairs"], "l.q.weight: awq: block: rows range(0, 160) cut heads of 48"),
    ):
        assert weights([*refused, *flags]) == 1
        assert reason in capsys.readouterr().err


@needs("compressed_tensors", "torch", "safetensors")
@pytest.mark.parametrize("bits", [3, 4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("columns", "group"), [(64, 32), (37, None)])
def test_compressed_tensors(
    bits: int, symmetric: bool, columns: int, group: int | None, tmp_path: Path
):
    torch: Any = import_module("torch")
    scheme_of: Any = import_module("compressed_tensors.quantization")
    base: Any = import_module("compressed_tensors.compressors.pack_quantized.base")
    compressor: Any = base.PackedQuantizationCompressor
    torch.manual_seed(bits)
    strategy = "channel" if group is None else "group"
    arguments = scheme_of.QuantizationArgs(
        num_bits=bits, type="int", symmetric=symmetric, strategy=strategy, group_size=group
    )
    scheme = scheme_of.QuantizationScheme(targets=["Linear"], weights=arguments)
    count = 1 if group is None else columns // group
    state = {
        "weight": torch.randn(45, columns),
        "weight_scale": torch.rand(45, count) * 0.2 + 0.05,
    }
    if not symmetric:
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        state["weight_zero_point"] = torch.randint(low, high, (45, count), dtype=torch.int8)
    packed: Any = compressor.compress(state, scheme)
    wanted: Any = compressor.decompress(packed, scheme)["weight"].numpy()
    weights_of = {
        "num_bits": bits,
        "group_size": group,
        "strategy": strategy,
        "symmetric": symmetric,
    }
    config = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": {"weights": weights_of}},
    }
    folder = save(tmp_path / "c", {f"l.{name}": tensor for name, tensor in packed.items()}, config)
    assert np.array_equal(imported(folder, tmp_path / "o")["l.weight"], wanted)


@needs("torch", "safetensors", "ml_dtypes")
def test_floats_in_blocks(tmp_path: Path):
    """NVFP4 with two levels, MXFP4 of experts, and f8 in blocks that do not divide rows."""
    torch: Any = import_module("torch")
    rng, floats = np.random.default_rng(7), import_module("ml_dtypes").float8_e4m3fn
    codes = rng.integers(0, 16, (40, 64)).astype(np.uint8)
    pairs = codes[:, ::2] | codes[:, 1::2] << 4
    scales = rng.uniform(1, 400, (40, 4)).astype(floats)
    shared = np.array([37.5], np.float32)
    experts = rng.integers(0, 16, (3, 5, 2, 32)).astype(np.uint8)
    exponents = rng.integers(110, 140, (3, 5, 2)).astype(np.uint8)
    blocks = rng.normal(size=(576, 200)).astype(floats)
    inverse = rng.uniform(0.01, 1, (5, 2)).astype(np.float32)
    eights = {"l.f4.weight_scale": scales, "l.f8.weight": blocks}
    named = {
        "l.f4.weight_packed": torch.from_numpy(pairs),
        "l.f4.weight_global_scale": torch.from_numpy(shared),
        "l.up_blocks": torch.from_numpy(experts[..., ::2] | experts[..., 1::2] << 4),
        "l.up_scales": torch.from_numpy(exponents),
        "l.f8.weight_scale_inv": torch.from_numpy(inverse),
        **{
            name: torch.from_numpy(array.view(np.uint8)).view(torch.float8_e4m3fn)
            for name, array in eights.items()
        },
    }
    values = imported(save(tmp_path / "c", named), tmp_path / "o", "--max-memory=1")
    levels = (scales.astype(np.float32) / shared).repeat(16, 1)
    assert np.array_equal(values["l.f4.weight"], E2M1[codes] * levels)
    powers = np.ldexp(np.float32(1), exponents.astype(np.int32) - 127)
    wanted = (E2M1[experts] * powers[..., None]).reshape(15, 64)
    assert np.array_equal(values["l.up"], wanted)
    spread = inverse.repeat(128, 0)[:576].repeat(128, 1)[:, :200]
    assert np.array_equal(values["l.f8.weight"], blocks.astype(np.float32) * spread)
    # Its scales are no bf16: it is dequantized as f32, and then rounded.
    (tmp_path / "m.mlir").write_text(
        "%w = arith.constant dense_resource<l.f4.weight> : tensor<40x64xbf16>\n"
        "%u = arith.constant dense_resource<l.up> : tensor<3x5x64xbf16>\n"
    )
    manifest = tmp_path / "o" / "weights.json"
    arguments = [f"--weights={manifest}", str(tmp_path / "m.mlir"), "-o", str(tmp_path / "n.mlir")]
    assert opt(arguments) == 0
    text = (tmp_path / "n.mlir").read_text()
    assert " : tensor<40x64xf32> to tensor<40x64xbf16>" in text
    assert text.count("arith.truncf") == 1
    assert "!quant.uniform<f4E2M1FN:f32:{0:1, 1:16}, " in text
    assert "!quant.uniform<f4E2M1FN:bf16:{0:1, 1:1, 2:32}, " in text


@needs("bitsandbytes", "torch", "safetensors")
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("table", ["nf4", "fp4"])
def test_bitsandbytes(double: bool, table: str, tmp_path: Path):
    torch: Any = import_module("torch")
    functional: Any = import_module("bitsandbytes.functional")
    torch.manual_seed(1)
    packed, state = functional.quantize_4bit(
        torch.randn(96, 128), blocksize=64, compress_statistics=double, quant_type=table
    )
    wanted = functional.dequantize_4bit(packed, state).numpy()
    named = {
        "l.weight": packed,
        **{f"l.weight.{k}": v for k, v in state.as_dict(packed=True).items()},
    }
    folder = save(tmp_path / "c", named, {"quant_method": "bitsandbytes", "load_in_4bit": True})
    values = imported(folder, tmp_path / "o", "--max-memory=1")["l.weight"]
    assert np.array_equal(values, wanted)


@needs("torch", "safetensors")
def test_columns_in_another_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Codes are written in the order of their blocks, and a gather takes the columns back."""
    torch: Any = import_module("torch")
    rng = np.random.default_rng(11)
    rows, columns, group = 160, 64, 16
    codes = rng.integers(0, 16, (rows, columns))
    zeros, scales = rng.integers(1, 16, (4, rows)), rng.uniform(0.01, 1, (4, rows)).astype("f2")
    groups = rng.permutation(np.arange(columns) // group).astype(np.int32)
    arrays = {
        "qweight": np.stack([stream(row, 4) for row in codes], axis=1),
        "qzeros": np.stack([stream(row, 4) for row in zeros]),
        "scales": scales,
        "g_idx": groups,
    }
    named = {
        f"l.{part}.{name}": torch.from_numpy(array.copy())
        for part in "qk"
        for name, array in arrays.items()
    }
    config = {"quant_method": "gptq", "bits": 4, "group_size": group, "desc_act": True}
    folder = save(tmp_path / "c", named, config | {"checkpoint_format": "gptq_v2"})
    wanted = (codes - zeros.T[:, groups]) * scales.T[:, groups].astype(np.float32)
    assert np.array_equal(imported(folder, tmp_path / "o")["l.q.weight"], wanted)
    joined = imported(folder, tmp_path / "j", "--join=q,k=qk", "--max-memory=1")
    assert np.array_equal(joined["l.qk.weight"], np.concatenate([wanted, wanted]))
    # The codes of a layout that has an order too are not moved.
    for to in ("gptq", "pack-quantized"):
        output = tmp_path / to
        assert weights(["convert", str(folder), f"--to={to}", "-o", str(output)]) == 0
        again = imported(output, tmp_path / f"{to}-again")
        assert np.array_equal(again["l.q.weight"], wanted)
    assert weights(["convert", str(folder), "--to=awq", "-o", str(tmp_path / "awq")]) == 1
    assert "act-order: 'awq' has the columns in order" in capsys.readouterr().err
    cut = ["import", str(folder), "-o", str(tmp_path / "s"), "--shard=columns:2"]
    assert weights(cut) == 1
    assert "act-order: columns are cut" in capsys.readouterr().err
    module = "%w = arith.constant dense_resource<l.q.weight> : tensor<160x64xf32>\n"
    (tmp_path / "m.mlir").write_text(module)
    manifest, output = tmp_path / "o" / "weights.json", str(tmp_path / "n.mlir")
    assert opt([f"--weights={manifest}", str(tmp_path / "m.mlir"), "-o", output]) == 0
    text = Path(output).read_text()
    assert "arith.constant dense_resource<l.q.weight.gather> : tensor<64xi32>" in text
    assert "offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1]" in text


@needs("torch", "safetensors")
def test_offsets(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """MLX's biases, and four rows of AutoAWQ's fast layout: each step is rounded to f16."""
    torch: Any = import_module("torch")
    rng = np.random.default_rng(12)
    codes = rng.integers(0, 16, (160, 128))
    scales, offsets = (rng.normal(size=(160, 2)).astype(np.float16) for _ in range(2))
    wanted = (codes * scales.repeat(64, 1).astype("f4")).astype("f2") + offsets.repeat(64, 1)
    words = np.stack([stream(row, 4) for row in codes]).view(np.uint32)
    # Columns b * 8 + a * 2 + t of 32 are stored as (a, t, b).
    fast = codes.reshape(40, 4, 2, 2, 4, 4, 2).transpose(0, 2, 1, 3, 5, 6, 4).reshape(40, -1)
    fast_words = np.stack([stream(row, 4) for row in fast]).view(np.int16).reshape(40, 128)
    padded = [np.pad(array.T, [(0, 14), (0, 0)]) for array in (scales, offsets)]
    for name, arrays in {
        "mlx": {"weight": words, "scales": scales, "biases": offsets},
        "awq_gemv_fast": {"qweight": fast_words, "scales": padded[0], "qzeros": padded[1]},
    }.items():
        named = {f"l.{part}": torch.from_numpy(array.copy()) for part, array in arrays.items()}
        folder = save(tmp_path / name, named, {"quant_method": "?", "bits": 4, "group_size": 64})
        flags = [f"--layout={name}"]
        again = ["import", str(folder), "-o", str(tmp_path / "r"), *flags]
        assert weights(again) == 1
        assert f"l.weight: {name}: offset: values have an offset" in capsys.readouterr().err
        values = imported(folder, tmp_path / f"{name}-o", *flags, "--offsets=constants")
        assert values["l.weight"].dtype == np.float16
        assert np.array_equal(values["l.weight"], wanted)
        # Codes, scales and offsets move together.
        read = [f"--weights={tmp_path / f'{name}-o' / 'weights.json'}", "--read-weights=*"]
        source, output = tmp_path / "m.mlir", tmp_path / f"{name}.mlir"
        source.write_text(TRANSPOSED)
        fold = ["--hoist-quant-shapes", "--fold-quant-shapes", str(source), "-o", str(output)]
        assert opt([*read, *fold]) == 0
        context, text = ToolContext(), output.read_text()
        assert "transpose" not in text
        (result,) = run_function(parse_module(context, text), "main", (), context)
        assert np.array_equal(result.numbers, wanted.T)


@needs("torchao", "torch", "safetensors")
@pytest.mark.parametrize("form", ["i4 in groups", "i8", "f8"])
def test_torchao(form: str, tmp_path: Path):
    torch: Any = import_module("torch")
    api: Any = import_module("torchao.quantization")
    granularity: Any = import_module("torchao.quantization.granularity")
    files: Any = import_module("torchao.prototype.safetensors.safetensors_support")
    config = {
        "i4 in groups": lambda: api.IntxWeightOnlyConfig(torch.int4, granularity.PerGroup(32)),
        "i8": api.Int8WeightOnlyConfig,
        "f8": api.Float8WeightOnlyConfig,
    }[form]()
    torch.manual_seed(8)
    model = torch.nn.Sequential(torch.nn.Linear(64, 48, bias=False))
    api.quantize_(model, config)
    tensors, _ = files.flatten_tensor_state_dict(model.state_dict())
    folder = save(tmp_path / "c", tensors, {"quant_method": "torchao"})
    values = imported(folder, tmp_path / "o")["0.weight"]
    assert np.array_equal(values, model[0].weight.dequantize().detach().numpy())


@needs("torch", "safetensors")
@pytest.mark.parametrize("bits", [4, 8])
def test_negative_scales_of_codes_with_a_sign(bits: int, tmp_path: Path):
    """The complement of a code has the zero point -1, although the layout has none."""
    torch: Any = import_module("torch")
    rng = np.random.default_rng(bits)
    half = 1 << (bits - 1)
    codes = rng.integers(-half, half, (48, 64)).astype(np.int8)
    scales = rng.normal(size=(48, 2)).astype(np.float32)
    stored = codes if bits == 8 else codes[:, ::2] & 15 | codes[:, 1::2] << 4
    names = {4: ("weight", "weight/scale"), 8: ("weight", "weight_scale")}[bits]
    arrays = zip(names, (stored.view(np.uint8) if bits == 4 else stored, scales), strict=True)
    named = {f"l.{name}": torch.from_numpy(array) for name, array in arrays}
    values = imported(save(tmp_path / "c", named), tmp_path / "o")["l.weight"]
    assert np.array_equal(values, codes * scales.repeat(32, 1))


@needs("torchao", "torch", "safetensors")
def test_torchao_in_four_bits(tmp_path: Path):
    """Codes have a sign, the low one is first, and zero points are floats that are added."""
    torch: Any = import_module("torch")
    api: Any = import_module("torchao.quantization")
    files: Any = import_module("torchao.prototype.safetensors.safetensors_support")
    rng = np.random.default_rng(14)
    codes = rng.integers(-8, 8, (48, 64)).astype(np.int8)
    scales, zeros = (rng.normal(size=(2, 48)).astype(np.float16) for _ in range(2))
    packed = torch.from_numpy(codes[:, ::2] & 15 | codes[:, 1::2] << 4)
    blocks = [torch.from_numpy(array) for array in (scales, zeros)]
    own = api.Int4Tensor(packed, *blocks, [1, 32], torch.Size((48, 64)))
    tensors, _ = files.flatten_tensor_state_dict({"l.weight": own})
    folder = save(tmp_path / "c", tensors, {"quant_method": "torchao"})
    products = (codes * scales.T.repeat(32, 1).astype(np.float32)).astype(np.float16)
    wanted = products + zeros.T.repeat(32, 1)
    assert np.array_equal(
        imported(folder, tmp_path / "o", "--offsets=constants")["l.weight"], wanted
    )
    imported(folder, tmp_path / "p", "--offsets=constants", "--max-memory=1")
    manifest, back = str(tmp_path / "p" / "weights.json"), str(tmp_path / "q")
    # Scales that are negative have complements of codes, for which the layout has no zero point.
    assert weights(["convert", manifest, "--to=torchao-int4", "-o", back]) == 0
    assert stored_bytes(tmp_path / "q") == stored_bytes(folder)


@needs("torchao", "torch", "safetensors")
def test_torchao_in_the_order_of_other_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    torch: Any = import_module("torch")
    api: Any = import_module("torchao.quantization")
    files: Any = import_module("torchao.prototype.safetensors.safetensors_support")
    shape = [1, 32], torch.Size((64, 128))
    words, floats = torch.zeros((64, 16), dtype=torch.int32), torch.ones((4, 64)).bfloat16()
    pairs = torch.ones((4, 64, 2)).bfloat16()
    plain, tiles = api.Int4PlainInt32Tensor, api.Int4TilePackedTo4dTensor
    for name, own in (
        ("torchao-int32", plain(words, floats, torch.zeros((4, 64), dtype=torch.int8), *shape)),
        ("torchao-int32", plain(words, floats, floats.clone(), *shape)),
        ("torchao-tiles", tiles(words.reshape(8, 1, 32, 4), pairs, *shape)),
    ):
        tensors, _ = files.flatten_tensor_state_dict({"l.weight": own})
        folder = save(tmp_path / "c", tensors, {"quant_method": "torchao"})
        for layout in ([], [f"--layout={name}"]):
            assert weights(["import", str(folder), "-o", str(tmp_path / "o"), *layout]) == 1
            message = "l.weight: storage: codes are in the order of a kernel of another device"
            assert message in capsys.readouterr().err


@needs("torch", "safetensors")
@pytest.mark.parametrize("dtype", ["uint4", "int4"])
def test_quark(dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Its words are those of AutoAWQ, under other names; only the configuration tells a sign."""
    torch: Any = import_module("torch")
    rng = np.random.default_rng(9)
    low = -8 if dtype == "int4" else 0
    codes, zeros = rng.integers(low, low + 16, (64, 160)), rng.integers(low, low + 16, (2, 160))
    scales = rng.uniform(0.01, 1, (2, 160)).astype(np.float32)

    def packed(array: Array) -> Array:
        eights = (array & 15).reshape(len(array), -1, 8)[:, :, [0, 2, 4, 6, 1, 3, 5, 7]]
        return np.stack([stream(row, 4) for row in eights.reshape(len(array), -1)])

    arrays = {"weight": packed(codes), "weight_zero_point": packed(zeros), "weight_scale": scales}
    named = {f"l.{name}": torch.from_numpy(array.copy()) for name, array in arrays.items()}
    own = {"weight": {"dtype": dtype, "group_size": 32, "symmetric": False}, "bias": None}
    config = {"quant_method": "quark", "global_quant_config": own}
    folder = save(tmp_path / "c", named, config)
    wanted = ((codes - zeros.repeat(32, 0)).astype(np.float32) * scales.repeat(32, 0)).T
    assert np.array_equal(imported(folder, tmp_path / "o")["l.weight"], wanted)
    name = {"uint4": "quark", "int4": "quark-int4"}[dtype]
    # By way of another layout to the same bytes, and a configuration that tells it again.
    for source, to in (("c", "gptq_v2"), ("gptq_v2", name)):
        flags = [f"--to={to}", "-o", str(tmp_path / to), f"--config={folder / 'config.json'}"]
        assert weights(["convert", str(tmp_path / source), *flags]) == 0
    assert stored_bytes(tmp_path / name) == stored_bytes(folder)
    assert np.array_equal(imported(tmp_path / name, tmp_path / "p")["l.weight"], wanted)
    # Other layers may have another dtype.
    folder = save(tmp_path / "c", named, {**config, "layer_quant_config": {"*k_proj": own}})
    refused = ["import", str(folder), "-o", str(tmp_path / "q")]
    assert weights(refused) == 1
    assert "ambiguous: it is quark or quark-int4: choose one with --layout" in (
        capsys.readouterr().err
    )
    assert weights([*refused, f"--layout={name}"]) == 0


@needs("torch", "safetensors", "ml_dtypes")
@pytest.mark.parametrize("dtype", ["fp4", "fp6_e2m3", "fp6_e3m2"])
def test_quark_in_mx(dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Codes follow each other from the lowest bit up; a scale is an exponent."""
    torch: Any = import_module("torch")
    floats: Any = import_module("ml_dtypes")
    bits, type = int(dtype[2]), {"fp4": "float4_e2m1fn"}.get(dtype, f"float{dtype[2:]}fn")
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 1 << bits, (48, 64)).astype(np.uint8)
    exponents = rng.integers(100, 140, (48, 2)).astype(np.uint8)
    words = np.stack([stream(row, bits) for row in codes]).view(np.uint8)
    arrays = {"weight": words, "weight_scale": exponents}
    named = {f"l.{name}": torch.from_numpy(array.copy()) for name, array in arrays.items()}
    own = {"weight": {"dtype": dtype, "group_size": 32, "symmetric": None}}
    config = {"quant_method": "quark", "global_quant_config": own}
    folder = save(tmp_path / "c", named, config)
    powers = np.ldexp(np.float32(1), exponents.astype(np.int32) - 127)
    wanted = codes.view(getattr(floats, type)).astype(np.float32) * powers.repeat(32, 1)
    assert np.array_equal(imported(folder, tmp_path / "o", "--max-memory=1")["l.weight"], wanted)
    name = {"fp4": "quark-mxfp4"}.get(dtype, f"quark-mx{dtype.replace('_', '-')}")
    manifest = str(tmp_path / "o" / "weights.json")
    flags = ["-o", str(tmp_path / "p"), f"--config={folder / 'config.json'}"]
    assert weights(["convert", manifest, f"--to={name}", *flags]) == 0
    assert stored_bytes(tmp_path / "p") == stored_bytes(folder)
    # Without a configuration, the blocks tell how many bits a code has, but not which ones.
    folder = save(tmp_path / "d", named)
    assert weights(["info", str(folder)]) == 0
    known = name if bits == 4 else "it is quark-mxfp6-e2m3 or quark-mxfp6-e3m2: choose one"
    assert known in capsys.readouterr().out


@needs("torch", "safetensors")
def test_floats_of_quark(tmp_path: Path):
    """One scale, which is a scalar, or one of a row."""
    torch: Any = import_module("torch")
    numbers = torch.randn(48, 64).to(torch.float8_e4m3fn)
    for number, scale in enumerate((torch.tensor(0.3), torch.rand(48) + 0.1)):
        named = {"l.weight": numbers, "l.weight_scale": scale.bfloat16()}
        own = {"weight": {"dtype": "fp8_e4m3", "symmetric": True}}
        config = {"quant_method": "quark", "global_quant_config": own}
        folder = save(tmp_path / f"c{number}", named, config)
        values = imported(folder, tmp_path / f"o{number}")["l.weight"]
        wanted = numbers.float() * scale.bfloat16().float().reshape(-1, 1)
        assert np.array_equal(values, wanted.numpy())
