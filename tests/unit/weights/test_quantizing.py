"""Tensors of files quantized in pieces: what is in memory at once does not matter."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from qdialect.check.run_tool import main as run
from qdialect.opt.opt import main as opt
from qdialect.ptq.schemes.arrays import quantize_array
from qdialect.ptq.schemes.schemes import Blocks
from qdialect.weights.copying import Descriptors
from qdialect.weights.quantizing import Quantized, Rule, quantizable
from qdialect.weights.tensor_files import TensorInFile, read_header, writing
from qdialect.weights.weights_tool import main as weights

Array = NDArray[Any]

RULES = (
    Rule("torch-i8"),
    Rule("torch-per-tensor-affine", granularity="tensor"),
    Rule("torch-per-channel-affine", "u4", granularity="block", block_size=4),
    Rule("one-u8", axis=0),
    Rule("one-s16", granularity="block", block_size=2, axis=0),
    Rule("torch-i8", "i4", granularity="block", block_size=4, axis=1),
    Rule("f8e4m3fn"),
    Rule("mxfp4", block_size=4, axis=0),
    Rule("mxfp6", block_size=4),
    Rule("nvfp4", block_size=4),
    Rule("nf4", block_size=8),
)


def written(path: Path, dtype: str, array: Array) -> TensorInFile:
    with writing(path, [("w", dtype, array.shape)]) as file:
        file.write("w", memoryview(array.tobytes()), 0)
        file.finish()
    return TensorInFile(str(path), read_header(path)["w"])


def stored(path: Path, name: str) -> Array:
    """The numbers of a tensor, or its codes, one in each element, by numpy alone."""
    entry = read_header(path)[name]
    data = path.read_bytes()[entry.start : entry.start + entry.nbytes]
    if entry.dtype == "F32":
        return np.frombuffer(data, np.float32).reshape(entry.shape)
    kind = "i" if entry.dtype.startswith("I") else "u"
    size = {"16": 2, "32": 4}.get(entry.dtype[1:], 1)
    return np.frombuffer(data, f"{kind}{size}")


@examples(60)
@given(data=st.data())
def test_pieces_have_the_codes_of_the_whole(data: st.DataObject, tmp_path_factory: Any):
    folder: Path = tmp_path_factory.mktemp("quantized")
    rule = data.draw(st.sampled_from(RULES))
    shape = tuple(8 * n for n in data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=3)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    numbers = rng.normal(size=shape) * np.exp(rng.normal(size=(*shape[:-1], 1)))
    dtype = data.draw(st.sampled_from(["F16", "BF16", "F32", "F64"]))
    if dtype == "BF16":
        bits = numbers.astype(np.float32).view(np.uint32) >> 16
        array, floats = bits.astype(np.uint16), (bits << 16).astype(np.uint32).view(np.float32)
    else:
        array = floats = numbers.astype({"F16": "f2", "F32": "f4", "F64": "f8"}[dtype])
    tensor = written(folder / "w.safetensors", dtype, array)
    assert quantizable(tensor, rule) is None
    content, path = Quantized(tensor, rule), folder / "q.safetensors"
    memory = data.draw(st.sampled_from([1, 300, 3000, 1 << 20]))
    files = Descriptors()
    with writing(path, content.tensors("w")) as file:
        content.write("w", file, files, memory)
        file.finish()
    files.close()
    policy, axis = rule.policy, rule.axis % len(shape)
    sizes = {
        "tensor": {},
        "channel": {at: 1 for at in range(len(shape)) if at != axis},
    }
    sizes["block"] = {**sizes["channel"], axis: policy.block_size}
    whole = quantize_array(floats, policy.scheme, Blocks.of_sizes(sizes[policy.granularity]))
    assert stored(path, "w.scale").tobytes() == whole.choice.scales.tobytes()
    assert stored(path, "w.scale").shape == whole.choice.scales.shape
    codes = stored(path, "w.codes")
    if policy.scheme.storage.width == 4:
        codes = np.stack([codes & 15, codes >> 4], axis=1).reshape(-1)
        assert np.array_equal(codes, whole.codes.reshape(-1).view(np.uint8) & 15)
    else:
        assert np.array_equal(codes.view(whole.codes.dtype), whole.codes.reshape(-1))
    if content.has_zero_points:
        assert np.array_equal(stored(path, "w.zero_point"), whole.choice.zero_points.reshape(-1))
    else:
        assert not whole.choice.zero_points.any()


MODULE = """
func.func @main(%x: tensor<3x32xf32>) -> tensor<3x24xf32> {
  %w = arith.constant dense_resource<layer.w> : tensor<24x32xf32>
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<24x32xf32>) -> tensor<32x24xf32>
  %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<3x32xf32>, tensor<32x24xf32>) -> tensor<3x24xf32>
  return %y : tensor<3x24xf32>
}
"""  # noqa: E501


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A module, and a file with its weight."""
    weight = np.random.default_rng(5).normal(size=(24, 32)).astype(np.float32)
    with writing(tmp_path / "m.safetensors", [("layer.w", "F32", weight.shape)]) as file:
        file.write("layer.w", memoryview(weight.tobytes()), 0)
        file.finish()
    (tmp_path / "m.mlir").write_text(MODULE)
    return tmp_path


def result(folder: Path, module: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run([str(folder / module), "--random-inputs=1"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--storage=i4", "--granularity=block", "--block-size=16"],
        ["--scheme=one-u8", "--granularity=tensor"],
        ["--scheme=nf4", "--block-size=16"],
    ],
    ids=["i8", "i4", "u8", "nf4"],
)
def test_modules_with_quantized_files(
    folder: Path, options: list[str], capsys: pytest.CaptureFixture[str]
):
    """The bits of the module whose weights are in memory, and quantized there."""
    source, quantized = str(folder / "m.safetensors"), folder / "q"
    assert weights(["quantize", "--weights", source, "-o", str(quantized), *options]) == 0
    named, plan = f"--weights={quantized / 'weights.json'}", folder / "plan.json"
    folding = [named, "--fold-quant-shapes", f"--fold-plan={plan}", str(folder / "m.mlir")]
    assert opt([*folding, "-o", str(folder / "folded.mlir")]) == 0
    assert "stablehlo.transpose" not in (folder / "folded.mlir").read_text()
    moved = ["fold", str(plan), "--weights", str(quantized / "weights.json")]
    assert weights([*moved, "-o", str(folder / "moved")]) == 0
    assert weights(["verify", str(plan), str(folder / "moved"), *moved[2:]]) == 0
    read = [f"--weights={folder / 'moved' / 'weights.json'}", "--read-weights=*"]
    assert opt([*read, str(folder / "folded.mlir"), "-o", str(folder / "all.mlir")]) == 0
    whole = [f"--weights={source}", "--read-weights=*"]
    flag = " ".join(option.removeprefix("--") for option in options)
    passes = [f"--quantize-weights={flag}"]
    assert opt([*whole, *passes, str(folder / "m.mlir"), "-o", str(folder / "own.mlir")]) == 0
    numbers = result(folder, "all.mlir", capsys)
    assert "tensor<3x24xf32>" in numbers
    assert numbers == result(folder, "own.mlir", capsys)


def test_processes_write_the_same_bytes(folder: Path):
    source = str(folder / "m.safetensors")
    for name, flags in {"a": [], "b": ["--jobs=2", "--max-memory=100"]}.items():
        assert weights(["quantize", "--weights", source, "-o", str(folder / name), *flags]) == 0
    files = [path.read_bytes() for path in sorted(folder.glob("[ab]/*.safetensors"))]
    assert files[0] == files[1]


def test_what_stays_as_it_is_is_told(folder: Path, capsys: pytest.CaptureFixture[str]):
    source, output = str(folder / "m.safetensors"), str(folder / "q")
    flags = ["--granularity=block", "--block-size=5"]
    assert weights(["quantize", "--weights", source, "-o", output, *flags]) == 1
    message = capsys.readouterr().err
    assert "'layer.w' stays as it is: blocks of 5 do not divide axis 1" in message
    assert "none of 1 tensors that match '*' is quantized" in message
    assert weights(["quantize", "--weights", source, "-o", output, "--only=x*"]) == 1
    assert "none of 0 tensors that match 'x*'" in capsys.readouterr().err


def test_what_is_quantized_is_not_quantized_again(folder: Path, capsys: pytest.CaptureFixture[str]):
    quantize = ["quantize", "-o", str(folder / "q"), "--granularity=block", "--weights"]
    assert weights([*quantize, str(folder / "m.safetensors")]) == 0
    assert weights([*quantize, str(folder / "q" / "weights.json")]) == 1
    message = capsys.readouterr().err
    assert message.count("stays as it is: it is of a quantized weight") == 3


def test_nan_has_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    array = np.ones((4, 8), np.float32)
    array[2, 3] = math.nan
    written(tmp_path / "w.safetensors", "F32", array)
    source = ["quantize", "--weights", str(tmp_path / "w.safetensors"), "-o", str(tmp_path / "q")]
    assert weights(source) == 1
    assert "w.safetensors: tensor 'w': there is NaN" in capsys.readouterr().err
    assert not list((tmp_path / "q").glob("*safetensors*"))


def test_a_manifest_that_lies(folder: Path, capsys: pytest.CaptureFixture[str]):
    source, quantized = str(folder / "m.safetensors"), folder / "q"
    assert weights(["quantize", "--weights", source, "-o", str(quantized)]) == 0
    manifest = quantized / "weights.json"
    content = json.loads(manifest.read_text())
    weight = content["quantized"]["layer.w"]
    for changes, message in (
        ({"scale": "layer.w.codes"}, "tensor 'layer.w.codes' is i8, not f32"),
        ({"scale": "nothing"}, "no file has a tensor 'nothing'"),
        ({"type": "!quant.uniform<i8"}, "of the manifest is no type"),
        ({"type": "f32"}, "'f32' of the manifest is no quantized type"),
        ({"codes": "layer.w.scale"}, "'layer.w.scale' is of type 'tensor<24x32xi8>'"),
    ):
        content["quantized"]["layer.w"] = {**weight, **changes}
        manifest.write_text(json.dumps(content))
        assert opt([f"--weights={manifest}", str(folder / "m.mlir")]) == 1
        assert message in capsys.readouterr().err
