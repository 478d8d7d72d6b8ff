# ruff: noqa: E501
"""Named weights as IREE writes and reads them; its results are those of the module with data."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest
from installed import needs
from numpy.typing import NDArray

from qdialect.opt.opt import main as opt
from qdialect.weights.tensor_files import FileWriter, writing
from qdialect.weights.weights_tool import main as weights

QUERY = "layer/0:q é"
QUERY_IN_TEXT = f'"{QUERY}"'
"""The name in MLIR: it is no identifier."""

BLOCKS = "!quant.uniform<i8:f32:{0:16, 1:32}, {{0.5}, {0.25}, {2.0}}>"

MODULE = f"""
func.func @main(%x: tensor<1x32xf32>) -> (tensor<1x96xf32>, tensor<32x48xf32>) {{
  %q = arith.constant dense_resource<{QUERY_IN_TEXT}> : tensor<64x32xf32>
  %k = arith.constant dense_resource<k.weight> : tensor<32x32xf32>
  %c = "quant.constant"() <{{value = dense_resource<codes> : tensor<48x32xi8>}}> : () -> tensor<48x32x{BLOCKS}>
  %0 = stablehlo.concatenate %q, %k, dim = 0 : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<96x32xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<96x32xf32>) -> tensor<32x96xf32>
  %2 = stablehlo.dot_general %x, %1, contracting_dims = [1] x [0] : (tensor<1x32xf32>, tensor<32x96xf32>) -> tensor<1x96xf32>
  %d = quant.dcast %c : tensor<48x32x{BLOCKS}> to tensor<48x32xf32>
  %t = stablehlo.transpose %d, dims = [1, 0] : (tensor<48x32xf32>) -> tensor<32x48xf32>
  return %2, %t : tensor<1x96xf32>, tensor<32x48xf32>
}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The module, and its weights in a file."""
    rng = np.random.default_rng(0)
    arrays: dict[str, NDArray[Any]] = {
        QUERY: rng.normal(size=(64, 32)).astype(np.float32),
        "k.weight": rng.normal(size=(32, 32)).astype(np.float32),
        "codes": rng.integers(-128, 128, (48, 32)).astype(np.int8),
    }
    dtypes = {"float32": "F32", "int8": "I8"}
    path = tmp_path / "w.safetensors"
    writer = FileWriter(
        path, [(name, dtypes[array.dtype.name], array.shape) for name, array in arrays.items()]
    )
    for name, array in arrays.items():
        writer.write(name, memoryview(array.tobytes()), 0)
    writer.finish()
    (tmp_path / "m.mlir").write_text(MODULE)
    blobs = [
        f'{QUERY_IN_TEXT if name == QUERY else name}: "0x{array.itemsize:02X}000000{array.tobytes().hex().upper()}"'
        for name, array in arrays.items()
    ]
    whole = f"{MODULE}\n{{-#\ndialect_resources: {{ builtin: {{ {', '.join(blobs)} }} }}\n#-}}\n"
    (tmp_path / "whole.mlir").write_text(whole)
    np.save(tmp_path / "x.npy", rng.normal(size=(1, 32)).astype(np.float32))
    return tmp_path


FOLDS = ("--fold-constant-shapes", "--fold-quant-shapes")
LOWERED = (
    *("--lower-quant-shapes", "--lower-dequantization=to=linalg", "--canonicalize"),
    "--op-form=generic",
)


def run_opt(folder: Path, name: str, flags: Sequence[str], output: str) -> str:
    assert opt([*flags, str(folder / name), "-o", str(folder / output)]) == 0
    return (folder / output).read_text()


def results(folder: Path, name: str, *flags: str) -> list[NDArray[Any]]:
    compiler, runner = which("iree-compile"), which("iree-run-module")
    assert compiler is not None
    assert runner is not None
    code = folder / f"{name}.vmfb"
    target = "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"
    command = [compiler, str(folder / name), *target, "-o", str(code)]
    subprocess.run(command, check=True, capture_output=True)
    outputs = [folder / f"{name}.{number}.npy" for number in range(2)]
    written = [f"--output=@{output}" for output in outputs]
    run = [runner, f"--module={code}", "--device=local-sync", "--function=main", *flags]
    read = [f"--input=@{folder / 'x.npy'}", *written]
    subprocess.run([*run, *read], check=True, capture_output=True)
    return [np.load(output) for output in outputs]


@needs("iree.compiler", "iree.runtime")
@pytest.mark.iree
def test_iree_reads_folded_files(folder: Path):
    """The same bits as with all weights in the text."""
    run_opt(folder, "whole.mlir", [*FOLDS, *LOWERED], "all.mlir")
    manifest, plan = folder / "w.safetensors", folder / "plan.json"
    flags = [f"--weights={manifest}", *FOLDS, f"--fold-plan={plan}", "--weights-to-parameters"]
    text = run_opt(folder, "m.mlir", [*flags, *LOWERED], "named.mlir")
    assert "dense_resource" not in text
    assert text.count("#flow.parameter.named") == 2
    out = folder / "out"
    assert weights(["fold", str(plan), "--weights", str(manifest), "-o", str(out)]) == 0
    (file,) = out.glob("*.safetensors")
    wanted = results(folder, "all.mlir")
    named = results(folder, "named.mlir", f"--parameters=model={file}")
    for one, other in zip(wanted, named, strict=True):
        assert one.tobytes() == other.tobytes()


GENERIC = """
"util.global"() <{sym_name = "w", sym_visibility = "private", type = tensor<64x32xf32>, initial_value = #flow.parameter.named<"model"::QUERY> : tensor<64x32xf32>}> : () -> ()
"util.global"() <{sym_name = "v", sym_visibility = "private", type = tensor<64x32xf32>, is_mutable, initial_value = #flow.parameter.named<"model"::QUERY> : tensor<64x32xf32>}> : () -> ()
"""
CUSTOM = """
util.global private @w = #flow.parameter.named<"model"::QUERY> : tensor<64x32xf32>
util.global private mutable @v = #flow.parameter.named<"model"::QUERY> : tensor<64x32xf32>
"""
FUNCTION = """
ml_program.global private @k.weight(#ml_program.extern<tensor<32x32xf32>>) : tensor<32x32xf32>
func.func @main() -> (tensor<32x64xf32>, tensor<1024xf32>, tensor<64x32xf32>) {
  %0 = "util.global.load"() <{global = @w}> : () -> tensor<64x32xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %2 = ml_program.global_load_const @k.weight : tensor<32x32xf32>
  %3 = stablehlo.reshape %2 : (tensor<32x32xf32>) -> tensor<1024xf32>
  %4 = "util.global.load"() <{global = @v}> : () -> tensor<64x32xf32>
  return %1, %3, %4 : tensor<32x64xf32>, tensor<1024xf32>, tensor<64x32xf32>
}
"""


@pytest.mark.parametrize("is_custom", [False, True])
def test_globals_become_constants_and_globals(folder: Path, is_custom: bool):
    text = (CUSTOM if is_custom else GENERIC).replace("QUERY", QUERY_IN_TEXT) + FUNCTION
    if is_custom:
        load = re.compile(r'"util.global.load"\(\) <{global = @(\w)}> : \(\) ->')
        text = load.sub(r"util.global.load @\1 :", text)
    (folder / "g.mlir").write_text(text)
    flags = ["--allow-unregistered-dialect", f"--weights={folder / 'w.safetensors'}"]
    folded = run_opt(folder, "g.mlir", [*flags, "--fold-constant-shapes"], "f.mlir")
    assert "stablehlo" not in folded
    assert folded.count("arith.constant dense_resource<") == 2
    # What may be written at run time is no constant.
    assert folded.count("util.global.load") == folded.count('"util.global"') == 1
    flags += ["--fold-constant-shapes", "--weights-to-parameters=scope=other"]
    written = run_opt(folder, "g.mlir", flags, "p.mlir")
    assert "dense_resource" not in written
    assert written.count('#flow.parameter.named<"other"::') == 2


@needs("iree.compiler")
def test_globals_of_iree_in_their_custom_form(folder: Path):
    """What is written of them is, to IREE, the same module."""
    text = """
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<4xf32>
util.global private @v {noinline} = dense<1.0> : tensor<4xf32>
util.global private mutable @x : tensor<4xf32>
util.global private @y : tensor<4xf32>
func.func public @main() -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = util.global.load immutable @w : tensor<4xf32>
  %1 = util.global.load @x : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
"""
    (folder / "u.mlir").write_text(text)
    assert '"util.global.load"()' in run_opt(
        folder, "u.mlir", ["--allow-unregistered-dialect"], "generic.mlir"
    )
    reader = which("iree-opt")
    assert reader is not None
    one, other = (
        subprocess.run([reader, folder / name], check=True, capture_output=True).stdout
        for name in ("u.mlir", "generic.mlir")
    )
    assert one == other
    (folder / "u.mlir").write_text('util.global private @w = "text"')
    assert opt(["--allow-unregistered-dialect", str(folder / "u.mlir")]) == 1


def test_codes_of_floats_are_no_parameters(folder: Path, capsys: pytest.CaptureFixture[str]):
    type = "tensor<48x32x!quant.uniform<f8E4M3FN:f32, 0.5>>"
    text = f'%0 = "quant.constant"() <{{value = dense_resource<codes> : tensor<48x32xf8E4M3FN>}}> : () -> {type}'
    (folder / "f8.mlir").write_text(text)
    path = folder / "f8.safetensors"
    writer = FileWriter(path, [("codes", "F8_E4M3", (48, 32))])
    writer.write("codes", memoryview(bytes(48 * 32)), 0)
    writer.finish()
    flags = [f"--weights={path}", "--weights-to-parameters", str(folder / "f8.mlir")]
    assert opt(flags) == 1
    error = capsys.readouterr().err
    assert f"{folder / 'f8.mlir'}:1:6: error: 'quant.constant' op it stores codes of" in error


@needs("jax")
def test_arguments_of_jax_are_weights(folder: Path, capsys: pytest.CaptureFixture[str]):
    """Parameters of a function are its first arguments; the manifest lists them."""
    jax: Any = import_module("jax")

    def layer(parameters: Any, x: Any) -> Any:
        return x @ parameters["k"].T @ parameters["q"].T

    shapes = {"q": (64, 32), "k": (32, 32)}
    parameters = {name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in shapes.items()}
    lowered: Any = jax.jit(layer).lower(parameters, jax.ShapeDtypeStruct((1, 32), "float32"))
    (folder / "jax.mlir").write_text(lowered.as_text())
    listed = {"@main/%arg0": "k.weight", "@main/%arg1": QUERY}
    values = {place: {"scope": "model", "key": key} for place, key in listed.items()}
    content = {
        "format": "qdialect-weights",
        "version": 1,
        "scopes": {"model": ["w.safetensors"]},
        "values": values,
    }
    manifest = folder / "weights.json"
    manifest.write_text(json.dumps(content))
    flags = [f"--weights={manifest}", "--fold-constant-shapes"]
    folded = run_opt(folder, "jax.mlir", flags, "folded.mlir")
    assert "stablehlo.transpose" not in folded
    assert "@main(%arg2: tensor<1x32xf32>" in folded
    assert (
        folded.count('dense_resource<"layer/0:q ') == folded.count("dense_resource<k.weight_") == 1
    )
    content["values"] = {"@main/%arg9": values["@main/%arg0"]}
    manifest.write_text(json.dumps(content))
    assert opt([*flags, str(folder / "jax.mlir")]) == 1
    assert "there is no argument '@main/%arg9' of a tensor type" in capsys.readouterr().err


def test_scales_are_read_and_codes_are_not(folder: Path, capsys: pytest.CaptureFixture[str]):
    """A product of named codes and scales becomes a quantized type, and is folded."""
    path = folder / "quantized.safetensors"
    scales = np.array([0.5, 0.25, 2.0, 1.0], np.float32)
    with writing(path, [("w.codes", "I8", (4, 6)), ("w.scale", "F32", (4,))]) as file:
        file.write("w.scale", scales.data.cast("B"), 0)
        file.finish()
    text = """
func.func @main() -> tensor<6x4xf32> {
  %c = stablehlo.constant dense_resource<w.codes> : tensor<4x6xi8>
  %s = stablehlo.constant dense_resource<w.scale> : tensor<4xf32>
  %f = stablehlo.convert %c : (tensor<4x6xi8>) -> tensor<4x6xf32>
  %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
  %p = stablehlo.multiply %f, %b : tensor<4x6xf32>
  %t = stablehlo.transpose %p, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  return %t : tensor<6x4xf32>
}
"""
    (folder / "q.mlir").write_text(text)
    passes = ["--raise-dequantization", "--fold-quant-shapes", "--remarks"]
    kept = run_opt(folder, "q.mlir", [f"--weights={path}", *passes], "kept.mlir")
    assert "stablehlo.multiply" in kept
    assert "its elements are in a file, and are not read [unread]" in capsys.readouterr().err
    read = [f"--weights={path}", "--read-weights=none,*.scale", *passes]
    folded = run_opt(folder, "q.mlir", read, "folded.mlir")
    assert "stablehlo.multiply" not in folded
    assert "stablehlo.transpose" not in folded
    assert (
        "!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,2.000000e+00,1.000000e+00}>" in folded
    )
    assert "dense_resource<w.codes_" in folded
    path.write_bytes(path.read_bytes()[:-1])
    assert opt([*read, str(folder / "q.mlir")]) == 1
    assert "it is cut off" in capsys.readouterr().err
