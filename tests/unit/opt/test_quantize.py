"""From a model and records to a quantized model: `qdialect quantize`, and the call."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import qdialect
from qdialect.check.interpreters import TypedArray, find_function
from qdialect.check.iree_runs import LoadedModule
from qdialect.dialects.quant import ConstantOp
from qdialect.frontends.import_tool import main as import_main
from qdialect.integers import compiling
from qdialect.opt.registry import ToolContext
from qdialect.ptq.quantizing import QuantizationError, Quantized
from qdialect.ptq.tools.quantize import main
from qdialect.text import parse_module

WEIGHTS = np.random.default_rng(3).normal(size=(3, 5)).round(2).tolist()

MODEL = f"""
!x = tensor<4x3xf32>
!w = tensor<3x5xf32>
!y = tensor<4x5xf32>
func.func @main(%x: !x) -> !y {{
  %w = arith.constant dense<{WEIGHTS}> : !w
  %sums = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (!x, !w) -> !y
  return %sums : !y
}}
"""

X: NDArray[Any] = np.random.default_rng(5).normal(size=(6, 4, 3)).astype("f4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.mlir").write_text(MODEL)
    np.savez(tmp_path / "data.npz", x=X)
    return tmp_path


def quantized_in(path: Path) -> int:
    """The number of constants that are quantized."""
    module = parse_module(ToolContext(allow_unregistered=True), path.read_bytes(), str(path))
    return sum(isinstance(op, ConstantOp) for op in module.walk())


def run(folder: Path, *more: str) -> int:
    arguments = [str(folder / "model.mlir"), "--data", str(folder / "data.npz")]
    return main([*arguments, "-o", str(folder / "q.mlir"), *more])


def test_the_command(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(folder) == 0
    printed = capfd.readouterr()
    assert "result 0 ('sums')" in printed.out
    assert quantized_in(folder / "q.mlir") == 1
    steps = folder / "q.mlir.steps"
    commands = (steps / "steps.sh").read_text().splitlines()[2:]
    assert [line.split()[:2] for line in commands] == [
        ["qdialect", name] for name in ("opt", "opt", "calibrate", "opt", "evaluate")
    ]
    # What is on standard error is what is in the file.
    assert [
        line.partition(": ")[2] for line in printed.err.splitlines() if ": qdialect " in line
    ] == commands


GROUPS = """
func.func @main(%x: tensor<1x6x6x2xf32>) -> tensor<1x8xf32> {
  %w = arith.constant dense<0.5> : tensor<3x3x2x2xf32>
  %d = arith.constant dense<0.25> : tensor<8x8xf32>
  %c = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x6x6x2xf32>, tensor<3x3x2x2xf32>) -> tensor<1x4x4x2xf32>
  %t = stablehlo.tanh %c : tensor<1x4x4x2xf32>
  %s = stablehlo.slice %t [0:1, 0:2, 0:2, 0:2] : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  %r = stablehlo.reshape %s : (tensor<1x2x2x2xf32>) -> tensor<1x8xf32>
  %y = stablehlo.dot_general %r, %d, contracting_dims = [1] x [0]
    : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}
"""


def test_the_storage_of_weights(folder: Path) -> None:
    assert run(folder, "--scheme=torch-i8", "--weight-storage=i4") == 0
    assert "x!quant.uniform<i4" in (folder / "q.mlir").read_text()


def test_times_of_groups_of_ops(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.mlir").write_text(GROUPS)
    np.savez(
        tmp_path / "data.npz", x=np.random.default_rng(1).normal(size=(5, 6, 6, 2)).astype("f4")
    )
    assert run(tmp_path) == 0
    assert "times of groups of ops" in capfd.readouterr().out
    times = json.loads((tmp_path / "q.mlir.steps" / "evaluation.json").read_text())["times"]
    floats, quantized = ({row[0] for row in times if row[at]} for at in (1, 2))
    assert floats == {"convolutions", "matrix products", "functions of elements", "movements"}
    assert quantized == floats | {"casts"}
    assert all(0 <= seconds < 1 for row in times for seconds in row[1:])


@pytest.mark.iree
def test_a_model_that_iree_runs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The result is the binary, which is as near to the float model as was evaluated."""
    assert run(folder, "--to=vmfb") == 0
    printed = capfd.readouterr().out
    context = ToolContext()
    type = find_function(parse_module(context, MODEL), "main")
    loaded = LoadedModule((folder / "q.mlir").read_bytes())
    signal = noise = 0.0
    for x in X:
        given = TypedArray.of(x.view("u4"), type.function_type.inputs.data[0])
        (result,) = loaded.run(type, [given])
        expected = x.astype("f8") @ WEIGHTS
        signal += (expected**2).sum()
        noise += ((expected - result.elements.view("f4")) ** 2).sum()
    (told,) = re.findall(r"result 0 \('sums'\) +([0-9.]+)", printed)
    assert abs(10 * np.log10(signal / noise) - float(told)) < 0.3
    assert "qdialect export quantized.mlir" in (folder / "q.mlir.steps" / "steps.sh").read_text()


@pytest.mark.exporters
@pytest.mark.parametrize("storage", ["i8", "i7"])
def test_a_model_of_onnx(
    storage: str,
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its layer runs in integers, with symmetric weights: of 7 bits where others saturate."""
    pytest.importorskip("onnx")
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(compiling, "has_vnni", lambda: storage == "i8")
    assert run(folder, "--to=onnx") == 0
    steps = (folder / "q.mlir.steps" / "steps.sh").read_text()
    assert f"weight-storage={storage}" in steps
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "run.onnx")
    session = onnxruntime.InferenceSession((folder / "q.mlir").read_bytes(), options)
    signal = noise = 0.0
    for x in X:
        (result,) = session.run(None, {"x": x})
        expected = x.astype("f8") @ WEIGHTS
        signal += (expected**2).sum()
        noise += ((expected - result) ** 2).sum()
    (told,) = re.findall(r"result 0 \('sums'\) +([0-9.]+)", capfd.readouterr().out)
    assert abs(10 * np.log10(signal / noise) - float(told)) < 0.3
    assert b"QLinearMatMul" in (folder / "run.onnx").read_bytes()


def test_ops_of_other_dialects_and_infinite_values(folder: Path) -> None:
    """As torch-mlir writes a scatter. Here it writes one number among -inf."""
    text = MODEL.replace(
        "  return %sums : !y",
        """
  %rows = stablehlo.constant dense<[[1]]> : tensor<1x1xi32>
  %low = stablehlo.constant dense<0xFF800000> : !y
  %row = stablehlo.slice %sums [0:1, 0:5] : (!y) -> tensor<1x5xf32>
  %some = "tm_tensor.scatter"(%row, %rows, %low) <{dimension_map = array<i64: 0>,
      operandSegmentSizes = array<i32: 2, 1>, unique_indices = true}> ({
  ^bb0(%a: f32, %b: f32):
    "tm_tensor.yield"(%a) : (f32) -> ()
  }) : (tensor<1x5xf32>, tensor<1x1xi32>, !y) -> !y
  %most = stablehlo.maximum %some, %sums : !y
  return %most : !y""",
    )
    (folder / "model.mlir").write_text(text)
    assert run(folder) == 0
    assert quantized_in(folder / "q.mlir")


@pytest.mark.parametrize(("to", "library"), [("onnx", "onnx"), ("vmfb", "iree.compiler")])
def test_a_missing_library_is_told_first(
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    to: str,
    library: str,
) -> None:
    # An import of None is one of nothing.
    monkeypatch.setitem(sys.modules, library, None)
    assert run(folder, f"--to={to}") == 1
    printed = capfd.readouterr()
    assert not (folder / "q.mlir.steps").exists()
    assert re.fullmatch(
        rf"qdialect-quantize: error: --to={to}: '{library}' is not installed: .*\n", printed.err
    )


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell")
def test_steps_can_be_repeated(folder: Path) -> None:
    assert run(folder) == 0
    steps = folder / "q.mlir.steps"
    before = (steps / "quantized.mlir").read_text()
    (steps / "quantized.mlir").unlink()
    script = (steps / "steps.sh").read_text().replace("qdialect ", f"{sys.executable} -m qdialect ")
    subprocess.run(["sh", "-s", "x"], input=script, text=True, check=True, cwd=steps)
    assert (steps / "quantized.mlir").read_text() == before


def test_layers_are_raised_until_it_is_good_enough(folder: Path) -> None:
    quantized = Quantized(folder / "model.mlir", folder / "data.npz", folder=folder / "steps")
    quantized.import_model().put_in_order().calibrate().quantize().evaluate()
    at_first = quantized.signal_to_noise
    assert at_first is not None
    assert 30 < at_first < 60
    assert quantized.reach(at_first - 1).raised == []
    steps = len(quantized.steps)
    quantized.reach(60)
    assert [(item.keys, storage) for item, storage in quantized.raised] == [(("sums",), "int16")]
    assert (quantized.signal_to_noise or 0) >= 60
    assert "i16" in (folder / "steps" / "quantized.mlir").read_text()
    # A search that is run again tries nothing again, and only writes what it chose.
    taken = len(quantized.steps) - steps
    quantized.quantize().evaluate().reach(60)
    assert len(quantized.steps) - steps - taken == 4
    # Scores of other ranges are no scores of these.
    quantized.calibrate("--records=:4").quantize().evaluate()
    steps = len(quantized.steps)
    quantized.reach(60)
    assert len(quantized.steps) - steps > taken
    quantized.quantize().evaluate().reach(400)
    assert [storage for _, storage in quantized.raised] == ["float32"]
    assert quantized.signal_to_noise == float("inf")
    assert "raised layers" in repr(quantized)
    assert "<td>sums</td>" in html_of(quantized)


def html_of(value: object) -> str:
    """What notebooks show."""
    return getattr(value, "_repr_html_")()  # noqa: B009


def test_the_accuracy_that_a_command_prints(folder: Path) -> None:
    """The number is that of the quantized text: of its lines with i16."""
    code = "import sys; print(sum('i16' in line for line in open(sys.argv[-1])))"
    accuracy = f'{sys.executable} -c "{code}"'
    assert run(folder, "--at-least=1", f"--accuracy={accuracy}") == 0
    assert "i16" in (folder / "q.mlir").read_text()
    with pytest.raises(QuantizationError, match="must print a number, but printed 'no"):
        Quantized(folder / "model.mlir", X, folder=folder / "q.mlir.steps").reach(
            1, accuracy="echo no"
        )


def records_by_name() -> Iterator[dict[str, Any]]:
    yield from ({"x": x} for x in X)


@pytest.mark.parametrize(
    "records",
    [
        {"x": X},
        [{"x": x} for x in X],
        [(x,) for x in X],
        list(X),
        records_by_name(),
    ],
    ids=["arrays", "mappings", "sequences", "one array each", "an iterator"],
)
def test_records_of_any_kind_are_the_same(folder: Path, records: object) -> None:
    Quantized(folder / "model.mlir", records, folder=folder / "steps")
    paths = sorted((folder / "steps").rglob("*.npz"))
    arrays = [array for path in paths for array in np.load(path).values()]
    assert np.array_equal(np.concatenate(arrays), X)


def test_a_module_is_the_same_as_its_file(folder: Path) -> None:
    module = parse_module(context := ToolContext(allow_unregistered=True), MODEL)
    quantized = Quantized(module, iter(X), context=context, folder=folder / "steps")
    quantized.import_model().put_in_order().calibrate()
    ranges = json.loads((folder / "steps" / "profile.json").read_text())["values"]["x"]
    assert [min(ranges["minima"]), max(ranges["maxima"])] == [np.min(X), np.max(X)]


@pytest.mark.iree
def test_the_call(folder: Path) -> None:
    quantized = qdialect.quantize(folder / "model.mlir", {"x": X}, scheme="torch-i8")
    assert (quantized.signal_to_noise or 0) > 30
    assert any(isinstance(op, ConstantOp) for op in quantized.module().walk())
    assert "result 0 ('sums')" in repr(quantized)
    shutil.rmtree(quantized.folder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.onnx", "--data", "data.npz"], "cannot open 'no.onnx': there is no such file"),
        (["model.mlir", "--data", "no.npz"], "cannot open 'no.npz': there is no such file"),
        (["model.mlir", "--data", "data.npz", "--scheme=u7"], "argument --scheme: invalid choice"),
        (["model.mlir", "--data", "data.npz", "--at-least=x"], "--at-least must be a number"),
        (["model.mlir", "--data", "data.npz", "--accuracy=x"], "--accuracy needs --at-least"),
        (["model.mlir", "--data", "data.npz", "--shape=x"], "--shape must be like x=1,3,224,224"),
        (["bad.mlir", "--data", "data.npz"], "bad.mlir:1:1: error"),
        (["model.mlir", "--data", "data.npz", "--shape=x=4,3"], "--shape is for ONNX files"),
    ],
)
def test_errors(
    folder: Path,
    arguments: list[str],
    message: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    (folder / "bad.mlir").write_text("what")
    (folder / "q.mlir").write_text("old")
    assert main([*arguments, "-o", "q.mlir"]) == 1
    assert message in capfd.readouterr().err
    assert (folder / "q.mlir").read_text() == "old"


def test_the_result_is_not_written_over_the_model(folder: Path) -> None:
    model = str(folder / "model.mlir")
    assert main([model, "--data", str(folder / "data.npz"), "-o", model]) == 1
    assert (folder / "model.mlir").read_text() == MODEL


@pytest.mark.parametrize(("model", "records"), [(1, X), ("m.mlir", 1)])
def test_other_objects(model: object, records: object, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not an object of type 'int'"):
        Quantized(model, records, folder=tmp_path)


@pytest.mark.exporters
@pytest.mark.iree
def test_a_program_of_torch(tmp_path: Path) -> None:
    """Its normalization is merged, and the padding of its maximum, -inf, has the lowest code."""
    torch: Any = pytest.importorskip("torch")
    layers = torch.nn
    net = layers.Sequential(
        layers.Conv2d(2, 4, 3, padding=1, bias=False),
        layers.BatchNorm2d(4),
        layers.ReLU(),
        layers.MaxPool2d(3, 2, 1),
        layers.Flatten(),
        layers.Linear(64, 3),
    ).eval()
    layers.init.normal_(net[1].running_mean)
    random = np.random.default_rng(1)
    records = random.normal(size=(8, 1, 2, 8, 8)).astype("f4")
    program = torch.export.export(net, (torch.from_numpy(records[0]),))
    quantized = Quantized(program, list(records), folder=tmp_path)
    quantized.import_model().put_in_order().calibrate().quantize().evaluate()
    assert (quantized.signal_to_noise or 0) > 30
    values = json.loads((tmp_path / "report.json").read_text())["values"]
    assert [value["storage"] for value in values if value["role"] == "bias"] == ["i32", "i32"]
    (pool,) = (value for value in values if "pooling" in value["op"])
    assert pool["storage"] == "u8"


@pytest.mark.exporters
def test_a_model_of_onnx_with_open_lengths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx: Any = pytest.importorskip("onnx")
    make, kind = onnx.helper, onnx.TensorProto.FLOAT
    types = [make.make_tensor_value_info(name, kind, ["n", 3]) for name in ("x", "y")]
    weight = make.make_tensor("w", kind, [3, 3], np.eye(3, dtype="f4").reshape(-1))
    node = make.make_node("MatMul", ["x", "w"], ["y"])
    graph = make.make_graph([node], "a graph", types[:1], types[1:], [weight])
    opset = make.make_opsetid("", 13)
    onnx.save(make.make_model(graph, opset_imports=[opset]), str(tmp_path / "m.onnx"))
    assert import_main([str(tmp_path / "m.onnx"), "--shape", "x=4,3"]) == 0
    printed = capsys.readouterr().out
    assert "func.func @a_graph(%x: tensor<4x3xf32>" in printed
    assert import_main([str(tmp_path / "m.onnx"), "--shape", "z=4,3"]) == 1
    assert "'z'" in capsys.readouterr().err
    Quantized(tmp_path / "m.onnx", X[:, :, :3], folder=tmp_path).import_model()
    assert f"%x: tensor<{X.shape[1]}x3xf32>" in (tmp_path / "float.mlir").read_text()
    for place, reason in (("none", "No such file"), ("m.onnx", "m.onnx")):
        data = ["--data", str(tmp_path / place)]
        assert import_main([str(tmp_path / "m.onnx"), *data]) == 1
        assert reason in capsys.readouterr().err
    assert import_main(["m.pt2", "--data", "data.npz"]) == 1
    assert "--data is for ONNX files: other formats have all lengths" in capsys.readouterr().err


def test_a_file_that_changes_between_steps_is_read_again(folder: Path) -> None:
    quantized = Quantized(folder / "model.mlir", X, folder=folder / "steps")
    quantized.import_model().put_in_order().calibrate()
    path = folder / "steps" / "ordered.mlir"
    text = path.read_text()
    path.write_text(f"{text}\nwrong")
    with pytest.raises(
        QuantizationError, match=r"(?s)'qdialect opt .* failed:\nordered.mlir:.*wrong"
    ):
        quantized.quantize()
    path.write_text(text.replace("@main", "@other"))
    quantized.quantize()
    assert "@other" in (folder / "steps" / "quantized.mlir").read_text()


def test_a_step_after_one_whose_processes_were_ended(folder: Path) -> None:
    quantized = Quantized(folder / "model.mlir", X, folder=folder / "steps")
    ending = "import os, signal; os.killpg(0, signal.SIGKILL)"
    (folder / "sitecustomize.py").write_text(ending)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        with pytest.raises(QuantizationError, match=r"'qdialect opt .*' failed"):
            quantized.import_model()
    quantized.import_model()
    assert (folder / "steps" / "float.mlir").exists()
