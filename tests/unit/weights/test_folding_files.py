"""Plans of folds carried out on files: the tensors that the fold in memory has, in any run."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from installed import needs
from numpy.typing import NDArray

from qdialect.folding.plan_json import plans_of_json
from qdialect.opt.opt import main as opt
from qdialect.weights.clusters import executor
from qdialect.weights.folding_files import Moved, planned_views
from qdialect.weights.manifest import read_manifest
from qdialect.weights.tasks import FileTask, file_tasks, read_record, write_files
from qdialect.weights.tensor_files import FileWriter, WeightsError, read_header
from qdialect.weights.weights_tool import main as weights

Array = NDArray[Any]
Arrays = dict[str, Array]

DTYPES = {"f32": "F32", "i8": "I8", "bf16": "BF16", "f8E4M3FN": "F8_E4M3", "i64": "I64", "i4": "U4"}
HELD: dict[str, Any] = {
    "f32": np.uint32,
    "i8": np.int8,
    "bf16": np.uint16,
    "f8E4M3FN": np.uint8,
    "i64": np.int64,
    "i4": np.uint8,
}


def write_weights(path: Path, type: str, arrays: Arrays) -> None:
    writer = FileWriter(path, [(name, DTYPES[type], each.shape) for name, each in arrays.items()])
    for name, array in arrays.items():
        writer.write(name, memoryview(array.tobytes()), 0)
    writer.finish()


def tensors_in(folder: Path) -> dict[str, bytes]:
    tensors = dict[str, bytes]()
    for path in sorted(folder.glob("*.safetensors")):
        content = path.read_bytes()
        for name, entry in read_header(path).items():
            tensors[name] = content[entry.start : entry.start + entry.nbytes]
    return tensors


STEPS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "transpose": (
        "stablehlo.transpose {0}, dims = [1, 0] : ({1}) -> {2}",
        lambda array: array.T,
    ),
    "reshape": (
        "stablehlo.reshape {0} : ({1}) -> {2}",
        lambda array: array.reshape(array.shape[1] // 2, 2 * array.shape[0]),
    ),
    "mixed": (
        "stablehlo.reshape {0} : ({1}) -> {2}",
        lambda array: array.reshape(array.size // 6, 6),
    ),
    "slice": (
        "stablehlo.slice {0} [1:{3}, 0:{4}] : ({1}) -> {2}",
        lambda array: array[1:, :],
    ),
    "strided": (
        "stablehlo.slice {0} [0:{3}, 0:{4}:2] : ({1}) -> {2}",
        lambda array: array[:, ::2],
    ),
    "reverse": (
        "stablehlo.reverse {0}, dims = [0] : {1}",
        lambda array: array[::-1],
    ),
    "joined": (
        "stablehlo.concatenate {0}, {0}, dim = 1 : ({1}, {1}) -> {2}",
        lambda array: np.concatenate([array, array], 1),
    ),
}


def typed(shape: tuple[int, ...], type: str) -> str:
    return f"tensor<{''.join(f'{length}x' for length in shape)}{type}>"


@examples(60)
@given(data=st.data())
def test_chains_of_ops(data: st.DataObject, tmp_path_factory: Any):
    """Modules whose weights are in files, and numpy."""
    folder: Path = tmp_path_factory.mktemp("chain")
    type = data.draw(st.sampled_from(sorted(DTYPES)))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    array: Array = rng.integers(0, 16 if type == "i4" else 100, (6, 8)).astype(HELD[type])
    write_weights(folder / "w.safetensors", type, {"w": array})
    lines = [f"%0 = stablehlo.constant dense_resource<w> : {typed(array.shape, type)}"]
    for _ in range(data.draw(st.integers(1, 4))):
        allowed = [name for name in STEPS if name != "mixed" or array.size % 6 == 0]
        allowed = [name for name in allowed if name != "reshape" or array.shape[1] % 2 == 0]
        allowed = [name for name in allowed if name != "slice" or array.shape[0] > 1]
        text, compute = STEPS[data.draw(st.sampled_from(allowed))]
        result = compute(array)
        types = typed(array.shape, type), typed(result.shape, type)
        op = text.format(f"%{len(lines) - 1}", *types, *array.shape)
        lines.append(f"%{len(lines)} = {op}")
        array = result
    end = typed(array.shape, type)
    body = "\n".join(lines)
    module = f"func.func @main() -> {end} {{\n{body}\nreturn %{len(lines) - 1} : {end}\n}}"
    (folder / "m.mlir").write_text(module)
    manifest = str(folder / "w.safetensors")
    plan, out = str(folder / "plan.json"), folder / "out"
    flags = ["--fold-constant-shapes=max-repetition=9999", f"--fold-plan={plan}"]
    given = [*flags, f"--weights={manifest}", str(folder / "m.mlir")]
    assert opt([*given, "-o", str(folder / "folded.mlir")]) == 0
    folded = (folder / "folded.mlir").read_text()
    if "resource<w>" in folded:
        # The ops undo each other.
        return
    assert "stablehlo.constant dense_resource<w_" in folded
    assert folded.count("stablehlo") == 1
    small = ["--max-memory", str(data.draw(st.sampled_from([1, 1 << 20])))]
    assert weights(["fold", plan, "--weights", manifest, "-o", str(out), *small]) == 0
    (written,) = tensors_in(out).values()
    if type == "i4":
        codes = np.append(array.reshape(-1), np.zeros(array.size % 2, np.uint8))
        assert written == (codes[::2] | codes[1::2] << 4).tobytes()
    else:
        assert written == np.ascontiguousarray(array).tobytes()
    assert weights(["verify", plan, str(out), "--weights", manifest]) == 0


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    """A folder with a plan of several joined and transposed weights in two files."""
    rng = np.random.default_rng(0)
    shape = (64, 48)
    names = [f"layer{number}.{name}" for number in range(4) for name in ("q", "k", "o")]
    arrays = {name: rng.normal(size=shape).astype(np.float32).view(np.uint32) for name in names}
    write_weights(tmp_path / "a.safetensors", "f32", {name: arrays[name] for name in names[:7]})
    write_weights(tmp_path / "b.safetensors", "f32", {name: arrays[name] for name in names[7:]})
    files = ["a.safetensors"] * 7 + ["b.safetensors"] * 5
    index = {"metadata": {}, "weight_map": dict(zip(names, files, strict=True))}
    (tmp_path / "index.json").write_text(json.dumps(index))
    lines = list[str]()
    for number in range(4):
        q, k, o = (f"%{name}{number}" for name in "qko")
        for value, name in ((q, "q"), (k, "k"), (o, "o")):
            key = f"layer{number}.{name}"
            lines.append(f"{value} = arith.constant dense_resource<{key}> : tensor<64x48xf32>")
        lines += [
            f"%c{number} = tosa.concat {q}, {k} {{axis = 0 : i32}} : "
            "(tensor<64x48xf32>, tensor<64x48xf32>) -> tensor<128x48xf32>",
            f"%t{number} = tosa.transpose %c{number} {{perms = array<i32: 1, 0>}} : "
            "(tensor<128x48xf32>) -> tensor<48x128xf32>",
            f"%s{number} = tosa.transpose {o} {{perms = array<i32: 1, 0>}} : "
            "(tensor<64x48xf32>) -> tensor<48x64xf32>",
            f'"test.use"(%t{number}, %s{number}) : (tensor<48x128xf32>, tensor<48x64xf32>) -> ()',
        ]
    body = "\n".join(lines)
    (tmp_path / "m.mlir").write_text(f"func.func @main() {{\n{body}\nreturn\n}}")
    flags = ["--allow-unregistered-dialect", "--fold-constant-shapes", "-o", os.devnull]
    files = [f"--weights={tmp_path / 'index.json'}", f"--fold-plan={tmp_path / 'plan.json'}"]
    assert opt([*flags, *files, str(tmp_path / "m.mlir")]) == 0
    return tmp_path


def fold(layers: Path, out: str, *flags: str) -> list[str]:
    plan, index = str(layers / "plan.json"), str(layers / "index.json")
    return ["fold", plan, "--weights", index, "-o", str(layers / out), *flags]


def test_any_number_of_processes_and_memory_writes_the_same_bytes(layers: Path):
    size = ["--shard-size", "30000"]
    assert weights(fold(layers, "one", *size)) == 0
    assert weights(fold(layers, "three", *size, "--jobs", "3", "--max-memory", "1")) == 0
    one, three = layers / "one", layers / "three"
    names = sorted(path.name for path in one.glob("*.safetensors"))
    assert len(names) == 8
    assert all((one / name).read_bytes() == (three / name).read_bytes() for name in names)
    assert {line["file"] for line in read_record(one)} == set(names)
    assert not list(one.glob("*.part"))
    # The folder's manifest has the new tensors and those that were not moved.
    manifest = read_manifest(one / "weights.json")
    assert len(manifest.tensors) == 12 + 8


def test_a_run_that_is_killed_is_resumed(layers: Path):
    size = ["--shard-size", "30000"]
    assert weights(fold(layers, "whole", *size)) == 0
    wanted = tensors_in(layers / "whole")
    command = [sys.executable, "-m", "qdialect", "weights", *fold(layers, "out", *size)]
    start = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    taken = time.monotonic() - start
    rng = np.random.default_rng(1)
    for _ in range(4):
        process = subprocess.Popen([*command, "--resume"], stderr=subprocess.DEVNULL)
        time.sleep(float(rng.uniform(0.3, 1.0)) * taken)
        process.send_signal(signal.SIGKILL)
        process.wait()
        # What has its name is whole.
        for name, data in tensors_in(layers / "out").items():
            assert wanted[name] == data
        (victim, *_) = sorted((layers / "out").glob("*.safetensors"))
        victim.unlink()
    subprocess.run([*command, "--resume"], check=True, capture_output=True)
    assert tensors_in(layers / "out") == wanted


def test_only_what_is_missing_is_written_again(layers: Path):
    tasks = tasks_of(layers)
    out = layers / "out"
    run: dict[str, Any] = {"max_memory": 1 << 20}
    first = list(write_files(tasks, out, resume=False, **run))
    times = {path.name: path.stat().st_mtime_ns for path in out.glob("*.safetensors")}
    changed = out / tasks[2].name
    changed.write_bytes(changed.read_bytes()[:-1] + b"x")
    (out / tasks[5].name).unlink()
    again = list(write_files(tasks, out, resume=True, **run))
    assert sorted(line["sha256"] for line in again) == sorted(line["sha256"] for line in first)
    written = {name for name, at in times.items() if (out / name).stat().st_mtime_ns != at}
    assert written == {tasks[2].name, tasks[5].name}


def test_a_changed_tensor_is_found(layers: Path, capsys: pytest.CaptureFixture[str]):
    assert weights(fold(layers, "out")) == 0
    plan, index = str(layers / "plan.json"), str(layers / "index.json")
    path = layers / "out" / "folded-00001-of-00001.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    verify = ["verify", plan, str(layers / "out"), "--weights", index]
    assert weights(verify) == 1
    assert "its SHA-256 is not that of weights.jsonl" in capsys.readouterr().err
    record = layers / "out" / "weights.jsonl"
    line = json.loads(record.read_text())
    record.write_text(json.dumps({**line, "sha256": hashlib.sha256(content).hexdigest()}) + "\n")
    assert weights(verify) == 1
    assert "is not element" in capsys.readouterr().err


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_source_that_is_cut_off_ends_the_run(
    layers: Path, jobs: int, capsys: pytest.CaptureFixture[str]
):
    """Its header was read when it was whole. What is not cut off is written."""
    tasks = tasks_of(layers)
    path = layers / "b.safetensors"
    os.truncate(path, path.stat().st_size - 5000)
    with executor(jobs, None, 1 << 20) as runner:
        lines = write_files(tasks, layers / "out", max_memory=1 << 20, executor=runner)
        with pytest.raises(WeightsError, match=r"b\.safetensors: tensor 'layer3\..': there are no"):
            list(lines)
    assert not list((layers / "out").glob("*.part"))
    whole = {line["file"] for line in read_record(layers / "out")}
    assert whole == {file.name for file in (layers / "out").glob("*.safetensors")}
    assert 0 < len(whole) < len(tasks)
    assert weights(fold(layers, "out")) == 1
    assert "it is cut off" in capsys.readouterr().err


@needs("distributed")
def test_a_result_whose_worker_is_lost_is_no_error(
    layers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has been sent, and is computed again for others meanwhile."""
    distributed: Any = import_module("distributed")
    with executor(1, "local:1", 1 << 20) as runner:
        monkeypatch.setattr(distributed.Future, "status", property(lambda self: "pending"))
        lines = list(
            write_files(tasks_of(layers), layers / "o", max_memory=1 << 20, executor=runner)
        )
    assert len(lines) == len(tasks_of(layers))


@needs("distributed", "psutil")
def test_a_worker_that_is_killed_is_replaced(layers: Path):
    """Workers of a cluster write the bytes that one process writes."""
    psutil: Any = import_module("psutil")
    tasks = tasks_of(layers)
    list(write_files(tasks, layers / "one", max_memory=1 << 20))
    with executor(1, "local:3", 1 << 20) as runner:
        children = psutil.Process().children(recursive=True)
        workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        workers[0].kill()
        lines = write_files(tasks, layers / "three", max_memory=1 << 20, executor=runner)
        first = next(lines)
        workers[-1].kill()
        names = {first["file"], *(line["file"] for line in lines)}
    assert names == {task.name for task in tasks}
    assert tensors_in(layers / "three") == tensors_in(layers / "one")


def tasks_of(layers: Path) -> list[FileTask]:
    plans = plans_of_json((layers / "plan.json").read_text())
    views = planned_views(plans, read_manifest(layers / "index.json"))
    return file_tasks({key: Moved(view) for key, view in views.items()}, "folded", 30000)


def test_errors_name_the_place(layers: Path, capsys: pytest.CaptureFixture[str]):
    index = layers / "index.json"
    module = layers / "wrong.mlir"
    module.write_text(
        "%0 = arith.constant dense_resource<layer0.q> : tensor<48x64xf32>\n"
        "%1 = arith.constant dense_resource<layer0.k> : tensor<64x48xi32>\n"
    )
    assert opt([f"--weights={index}", str(module)]) == 1
    error = capsys.readouterr().err
    assert f"{module}:1:6: error: 'layer0.q' is of type 'tensor<48x64xf32>', but tensor" in error
    assert f"{module}:2:6: error: 'layer0.k' is of type 'tensor<64x48xi32>'" in error
    assert opt([f"--weights={layers / 'none.json'}", str(module)]) == 1
    assert "--weights: cannot read" in capsys.readouterr().err
    index.write_text('{"weight_map": {"layer9.q": "a.safetensors"}}')
    assert weights(fold(layers, "out")) == 1
    assert "index.json:1:29: 'a.safetensors' has no tensor 'layer9.q'" in capsys.readouterr().err
    assert not (layers / "out").exists()
