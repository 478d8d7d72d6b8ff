"""`qdialect-evaluate`: noise is that of numpy, whatever runs the modules."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from importlib.util import find_spec
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typing_extensions import override

from qdialect.opt.opt import main as opt
from qdialect.opt.tool_error import ToolError
from qdialect.ptq.tools.calibrate import main as calibrate
from qdialect.ptq.tools.evaluate import main
from qdialect.ptq.tools.evaluation import Evaluation, draw, expected_from_report, plot_module

needs_matplotlib = pytest.mark.skipif(
    find_spec("matplotlib") is None, reason="matplotlib is not installed"
)
needs_rich = pytest.mark.skipif(find_spec("rich") is None, reason="rich is not installed")
ENGINES = [
    "numpy",
    "reference",
    pytest.param("iree", marks=[pytest.mark.iree, pytest.mark.without_xdsl]),
]

FLOAT = """
func.func @main(%x: tensor<2x3xf32>, %init: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = arith.constant dense<[[1.0, -0.5, 0.25], [0.5, 3.0, -3.0],
    [0.3, 0.2, 0.1], [0.0, 9.0, -1.0]]> : tensor<4x3xf32>
  %t = tosa.transpose %w {perms = array<i32: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %y = linalg.matmul ins(%x, %t : tensor<2x3xf32>, tensor<3x4xf32>)
    outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
  %z = arith.addf %y, %y : tensor<2x4xf32>
  return %z : tensor<2x4xf32>
}
"""

QUANTIZED = """
!x = !quant.uniform<u8:f32, 0.03:100>
!w = !quant.uniform<i8<-7:7>:f32, 1.5>
!y = !quant.uniform<i16:f32, 0.001>
func.func @main(%x: tensor<2x3xf32>, %init: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %x_q = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x!x>
  %x_d = quant.dcast %x_q : tensor<2x3x!x> to tensor<2x3xf32>
  %w = quant.constant dense<[[1, 0, 0, 0], [0, 2, 0, 6], [0, -2, 0, -1]]> : tensor<3x4x!w>
  %w_1 = quant.dcast %w : tensor<3x4x!w> to tensor<3x4xf32>
  %y = linalg.matmul ins(%x_d, %w_1 : tensor<2x3xf32>, tensor<3x4xf32>)
    outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
  %y_q = quant.qcast %y : tensor<2x4xf32> to tensor<2x4x!y>
  %y_d = quant.dcast %y_q : tensor<2x4x!y> to tensor<2x4xf32>
  %z = arith.addf %y_d, %y_d : tensor<2x4xf32>
  return %z : tensor<2x4xf32>
}
"""

WEIGHTS = np.array([[1, -0.5, 0.25], [0.5, 3, -3], [0.3, 0.2, 0.1], [0, 9, -1]], "f4")
CODES = np.array([[1, 0, 0], [0, 2, -2], [0, 0, 0], [0, 6, -1]], "f4")


def rounded(x: NDArray[Any], scale: float, zero: int, low: int, high: int) -> NDArray[Any]:
    """What `quant.dcast` makes of what `quant.qcast` makes of `x`."""
    step = np.float32(scale)
    codes = np.clip(np.rint(x / step + np.float32(zero)), low, high)
    return ((codes - np.float32(zero)) * step).astype("f4")


def values_of(x: NDArray[Any], init: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """What the values of `FLOAT` hold."""
    y = x @ WEIGHTS.T + init
    return {"x": x, "init": init, "w": WEIGHTS, "y": y, "z": y + y}


def quantized_values_of(x: NDArray[Any], init: NDArray[Any]) -> dict[str, NDArray[Any]]:
    x, w = rounded(x, 0.03, 100, 0, 255), CODES * np.float32(1.5)
    y = rounded(x @ w.T + init, 0.001, 0, -(1 << 15), (1 << 15) - 1)
    return {"x": x, "init": init, "w": w, "y": y, "z": y + y}


def records(count: int, seed: int | None = None) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(random.randrange(1 << 32) if seed is None else seed)
    return {
        "x": rng.normal(size=(count, 2, 3)).astype("f4"),
        "init": rng.normal(size=(count, 2, 4)).astype("f4"),
    }


def save(path: Path, arrays: Mapping[str, Any]) -> Path:
    np.savez(path, **arrays)
    return path


class Evaluated:
    """What the tool writes; it must succeed."""

    def __init__(self, folder: Path, before: str, after: str, data: Path, *options: object) -> None:
        for name, text in (("before.mlir", before), ("after.mlir", after)):
            (folder / name).write_text(text)
        names = [folder / "before.mlir", folder / "after.mlir"]
        found = folder / "found.json"
        arguments = [*names, "--data", data, "--json", found, *options]
        assert main([*map(str, arguments)]) == 0
        self.text = found.read_text()
        self.json: Any = json.loads(self.text)
        self.values: dict[str, Any] = {of["key"]: of for of in self.json["values"]}

    @property
    def decibels(self) -> dict[str, float]:
        return {key: float(of["signal_to_noise"]) for key, of in self.values.items()}

    @property
    def storages(self) -> list[tuple[str, str]]:
        return [(of["key"], of["storage"]) for of in self.json["values"]]


@pytest.mark.parametrize("engine", ENGINES)
def test_noise_is_that_of_numpy(tmp_path: Path, engine: str) -> None:
    data = records(9)
    labels = np.arange(18).reshape(9, 2) % 4
    path = save(tmp_path / "data.npz", {**data, "label": labels})
    found = Evaluated(tmp_path, FLOAT, QUANTIZED, path, f"--engine={engine}", "--labels=label")
    signals, noises = dict[str, float](), dict[str, float]()
    agreeing, rights = 0, [0, 0]
    for at in range(9):
        x, init = data["x"][at], data["init"][at]
        olds, news = values_of(x, init), quantized_values_of(x, init)
        for key, old in olds.items():
            one, other = old.astype("f8"), news[key].astype("f8")
            signals[key] = signals.get(key, 0) + (one * one).sum()
            noises[key] = noises.get(key, 0) + ((one - other) ** 2).sum()
        tops = [of["z"].argmax(axis=1) for of in (olds, news)]
        agreeing += int((tops[0] == tops[1]).sum())
        rights = [
            right + int((top == labels[at]).sum()) for right, top in zip(rights, tops, strict=True)
        ]
    assert [*found.values] == ["x", "init", "w", "y", "z"]
    for key, signal in signals.items():
        if key == "init":
            assert found.values[key]["signal_to_noise"] == "inf"
            continue
        decibels = 10 * np.log10(signal / noises[key])
        # Sums may be in another order, after which a number may be rounded to the next code.
        assert found.decibels[key] == pytest.approx(decibels, abs=0.01)
    assert [storage for _, storage in found.storages] == ["u8", "f32", "i8", "i16", "f32"]
    (result,) = found.json["results"]
    assert (result["result"], result["key"], result["answers"]) == (0, "z", 18)
    assert (result["agreeing"], result["right"]) == (agreeing, rights)
    drop = min(found.decibels["x"], found.decibels["w"]) - found.decibels["y"]
    assert found.values["y"]["drop"] == pytest.approx(drop)
    assert found.values["x"]["drop"] is None


@pytest.mark.iree
def test_engines_agree(tmp_path: Path) -> None:
    """Sums are exact: both give the same, to the last digit."""
    whole = {"x": np.array([[3, -5, 2], [8, 1, -1]], "f4"), "init": np.zeros((2, 4), "f4")}
    path = save(tmp_path / "data.npz", whole)
    texts = [
        Evaluated(
            tmp_path, FLOAT.replace("0.3, 0.2, 0.1", "1.0, 2.0, 4.0"), QUANTIZED, path, of
        ).text.replace("iree", "reference")
        for of in ("--engine=iree", "--engine=reference")
    ]
    assert texts[0] == texts[1]


@pytest.mark.without_xdsl
def test_processes_find_the_same(tmp_path: Path) -> None:
    path = save(tmp_path / "data.npz", records(7))
    texts = [
        Evaluated(tmp_path, FLOAT, QUANTIZED, path, "--engine=reference", f"--jobs={jobs}").text
        for jobs in (1, 3)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("storage", "engine"),
    [
        *((storage, "reference") for storage in ("u8", "i8", "i4", "u3", "i16")),
        pytest.param("i4", "iree", marks=[pytest.mark.iree, pytest.mark.without_xdsl]),
    ],
)
def test_quantized_weights(tmp_path: Path, engine: str, storage: str) -> None:
    """The weight is transposed in the one module, and folded in the other."""
    path = save(tmp_path / "data.npz", records(3))
    (tmp_path / "float.mlir").write_text(FLOAT)
    scheme = f"scheme=glow-asymmetric storage={storage}"
    flags = ["--attach-keys", f"--quantize-weights={scheme}"]
    assert opt([*flags, str(tmp_path / "float.mlir"), "-o", str(tmp_path / "q.mlir")]) == 0
    quantized = (tmp_path / "q.mlir").read_text()
    found = Evaluated(tmp_path, FLOAT, quantized, path, f"--engine={engine}")
    assert ("w", storage) in found.storages
    # Each bit is worth 6 decibels.
    bits = int(storage[1:])
    assert 6 * bits - 12 < found.decibels["w"] < 6 * bits + 12
    assert found.decibels["x"] == math.inf
    assert math.isfinite(found.decibels["z"])
    assert not found.json["not_compared"]


BIASED = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.5]> : tensor<2xf32>} : tensor<2x3xf32>
  %1 = arith.constant dense<0.3> : tensor<3x4xf32>
  %2 = "stablehlo.constant"() <{value = dense<[1.0, -2.0, 3.0, 0.1]> : tensor<4xf32>}> KEY
    : () -> tensor<4xf32>
  %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64: 1>}>
    : (tensor<4xf32>) -> tensor<1x4xf32>
  %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64: 0, 1>}>
    : (tensor<1x4xf32>) -> tensor<2x4xf32>
  %5 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #stablehlo.dot<
    lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}>
    : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %6 = "stablehlo.add"(%5, %4) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %7 = quant.stats %6 {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : tensor<2x4xf32>
  return %7 : tensor<2x4xf32>
}
"""
"""A bias without a name, behind two broadcasts, as JAX writes it."""


@pytest.mark.parametrize(
    ("key", "flag", "compared"),
    [
        ("", "--attach-keys", ["i32", "f32"]),
        ('{quant.key = "bias"}', "--quantize-with-ranges", ["i32", "f32"]),
        # One constant is left, where the add reads it.
        ("", "--fold-quant-shapes", ["i32"]),
    ],
)
def test_biases_are_compared_before_their_broadcast(
    tmp_path: Path, key: str, flag: str, compared: list[str]
) -> None:
    before, path = BIASED.replace("KEY", key), tmp_path / "q.mlir"
    (tmp_path / "float.mlir").write_text(before)
    flags = ["--allow-unregistered-dialect", "--quantize-with-ranges", flag]
    assert opt([*flags, str(tmp_path / "float.mlir"), "-o", str(path)]) == 0
    data = save(tmp_path / "data.npz", {"x": np.ones((2, 3), "f4")})
    options = "--engine=reference", "--allow-unregistered-dialect"
    found = Evaluated(tmp_path, before, path.read_text(), data, *options)
    biases = [of for name, of in found.values.items() if name == "bias" or "#1.1" in name]
    assert [of["storage"] for of in biases] == compared
    scale = float(np.float32(2.5) / np.float32(255)) * float(np.float32(0.3) / np.float32(255))
    bias = np.array([1, -2, 3, np.float32(0.1)], "f8")
    off = ((np.rint(bias / scale) * scale - bias) ** 2).sum()
    for of in biases:
        assert of["noise"] / of["signal"] == pytest.approx(off / (bias**2).sum(), rel=0.05)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_module_is_equal_to_itself(
    tmp_path: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(tmp_path / "data.npz", records(2))
    found = Evaluated(tmp_path, FLOAT, FLOAT, path, f"--engine={engine}")
    assert {*found.decibels.values()} == {math.inf}
    told = capsys.readouterr().out
    assert "lowest" not in told
    assert "the top answer agrees in 100.00 % (4 of 4)" in told


TYPED = """
!x = !quant.uniform<u8:f32, 0.5:3>
!y = !quant.uniform<i16:f32, 0.25>
func.func @main(%x: tensor<3x!x>) -> tensor<3x!y> {
  %x_d = quant.dcast %x : tensor<3x!x> to tensor<3xf32>
  %y = arith.negf %x_d : tensor<3xf32>
  %y_q = quant.qcast %y : tensor<3xf32> to tensor<3x!y>
  return %y_q : tensor<3x!y>
}
"""
UNTYPED = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = arith.negf %x : tensor<3xf32>
  return %y : tensor<3xf32>
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_quantized_arguments_and_results(tmp_path: Path, engine: str) -> None:
    """Floats are quantized before, and integers read after."""
    path = save(tmp_path / "data.npz", {"x": np.array([1, 2.2, 4], "f4")})
    found = Evaluated(tmp_path, UNTYPED, TYPED, path, f"--engine={engine}")
    assert found.storages == [("x", "u8"), ("y", "i16")]
    expected = 10 * math.log10((1 + float(np.float32(2.2)) ** 2 + 16) / 0.2**2)
    assert found.decibels["x"] == pytest.approx(expected, abs=1e-4)
    assert found.decibels["y"] == found.decibels["x"]
    assert found.json["results"][0]["agreeing"] == 1


IDENTITY = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
"""
ROUNDED = """
!x = !quant.uniform<i8:f32, 1.0>
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = quant.qcast %x : tensor<3xf32> to tensor<3x!x>
  %1 = quant.dcast %0 : tensor<3x!x> to tensor<3xf32>
  return %1 : tensor<3xf32>
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_module_without_ops(tmp_path: Path, engine: str) -> None:
    path = save(tmp_path / "data.npz", {"x": np.array([1, 2.5, -4], "f4")})
    found = Evaluated(tmp_path, IDENTITY, ROUNDED, path, f"--engine={engine}")
    expected = 10 * math.log10((1 + 2.5**2 + 16) / 0.5**2)
    assert found.decibels == {"x": pytest.approx(expected, abs=1e-4)}


TWICE = """
!a = !quant.uniform<i8:f32, 1.0>
!b = !quant.uniform<i16:f32, 0.25>
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = quant.qcast %x : tensor<3xf32> to tensor<3x!a>
  %1 = quant.dcast %0 : tensor<3x!a> to tensor<3xf32>
  %2 = quant.qcast %x : tensor<3xf32> to tensor<3x!b>
  %3 = quant.dcast %2 : tensor<3x!b> to tensor<3xf32>
  %y = arith.addf %1, %3 : tensor<3xf32>
  return %y : tensor<3xf32>
}
"""


def test_a_value_that_is_read_in_two_ways_is_told_twice(tmp_path: Path) -> None:
    path = save(tmp_path / "data.npz", {"x": np.array([1, 2.25, 4.25], "f4")})
    before = UNTYPED.replace("arith.negf %x", "arith.addf %x, %x")
    found = Evaluated(tmp_path, before, TWICE, path, "--engine=reference")
    assert found.storages == [("x", "i8"), ("x", "i16"), ("y", "f32")]
    numbers = [of["signal_to_noise"] for of in found.json["values"]]
    # Both errors are 0.25, in 1, 2.25 and 4.25; the sum has the half of them.
    square = 1 + 2.25**2 + 4.25**2
    assert numbers[0] == pytest.approx(10 * math.log10(square / 0.125))
    assert numbers[1] == "inf"
    assert numbers[2] == pytest.approx(10 * math.log10(4 * square / 0.125))


MOVED = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %t = tosa.transpose %x {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %y = arith.negf %t : tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}
"""
MOVED_QUANTIZED = """
!a = !quant.uniform<i8:f32, 1.0>
func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %t = tosa.transpose %x {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %q = quant.qcast %t : tensor<3x2xf32> to tensor<3x2x!a>
  %d = quant.dcast %q : tensor<3x2x!a> to tensor<3x2xf32>
  %y = arith.negf %d : tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}
"""


def test_what_is_quantized_behind_a_transpose(tmp_path: Path) -> None:
    x = np.array([[1, 2, 3], [4, 5, 6.25]], "f4")
    path = save(tmp_path / "data.npz", {"x": x})
    found = Evaluated(tmp_path, MOVED, MOVED_QUANTIZED, path, "--engine=reference")
    assert found.storages == [("x", "i8"), ("y", "f32")]
    expected = 10 * math.log10(float((x.astype("f8") ** 2).sum()) / 0.25**2)
    assert found.decibels == {"x": pytest.approx(expected), "y": pytest.approx(expected)}


def test_what_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = """
    func.func @main(%x: tensor<2xf32>) -> tensor<1xf32> {
      %0 = arith.negf %x : tensor<2xf32>
      %only = arith.addf %0, %x : tensor<2xf32>
      %shape = tensor.extract_slice %only [0] [1] [1] : tensor<2xf32> to tensor<1xf32>
      return %shape : tensor<1xf32>
    }
    """
    after = """
    func.func @main(%x: tensor<2xf32>) -> tensor<1xf32> {
      %0 = arith.addf %x, %x : tensor<2xf32>
      %shape = arith.negf %0 : tensor<2xf32>
      %1 = tensor.extract_slice %shape [0] [1] [1] : tensor<2xf32> to tensor<1xf32>
      return %1 : tensor<1xf32>
    }
    """
    path = save(tmp_path / "data.npz", {"x": np.ones((4, 2), "f4")})
    found = Evaluated(tmp_path, before, after, path, "--engine=reference")
    assert [*found.values] == ["x"]
    reasons = {of["key"]: of["reason"] for of in found.json["not_compared"]}
    assert reasons["only"] == "only FLOAT has it"
    assert reasons["@main#1"] == "only QUANTIZED has it"
    assert "'arith.negf' in FLOAT, and by 'arith.addf' in QUANTIZED" in reasons["@main#0"]
    assert "'tensor<1xf32>' in FLOAT, and 'tensor<2xf32>' in QUANTIZED" in reasons["shape"]
    told = capsys.readouterr().out
    assert "not compared: 'only': only FLOAT has it\n" in told
    assert "no result has several classes" in told
    assert "4 records, run by reference\n" in told


@pytest.mark.parametrize("engine", ENGINES)
def test_nan_is_left_out_and_told(
    tmp_path: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    after = UNTYPED.replace("arith.negf %x", "arith.subf %x, %x")
    path = save(tmp_path / "data.npz", {"x": np.array([[1, 2, np.nan], [1, np.inf, 3]], "f4")})
    found = Evaluated(tmp_path, UNTYPED, after, path, f"--engine={engine}")
    # Of y, the one has -1, -2, NaN, -1, -inf, -3, and the other 0, 0, NaN, 0, NaN, 0.
    assert found.decibels == {"x": math.inf, "y": 0.0}
    y = found.values["y"]
    assert (y["elements"], y["nans"], y["infinite"], y["differing"]) == (4, [1, 2], 0, 1)
    assert found.json["results"][0]["nans"] == [1, 2]
    told = capsys.readouterr().out
    assert (
        "'x': elements are omitted: NaN in 1 of FLOAT and 1 of QUANTIZED, infinite in 1; 0" in told
    )
    assert "'y': elements are omitted: NaN in 1 of FLOAT and 2 of QUANTIZED; 1 of them" in told
    assert "answers with NaN: 1 of FLOAT, 2 of QUANTIZED" in told


@pytest.mark.parametrize("engine", ENGINES)
def test_an_argument_that_is_written_to_is_kept(tmp_path: Path, engine: str) -> None:
    """A compiler may compute in the memory of the last operand."""
    data = records(2)
    path = save(tmp_path / "data.npz", data)
    (tmp_path / "model.mlir").write_text(FLOAT)
    profile = tmp_path / "profile.json"
    options = ["--histogram", f"--engine={engine}", "-o", str(profile)]
    assert calibrate([str(tmp_path / "model.mlir"), "--data", str(path), *options]) == 0
    found = json.loads(profile.read_text())["values"]["init"]
    assert found["maxima"] == data["init"].max(axis=(1, 2)).tolist()


# What does not fit


MISFITS: Mapping[str, tuple[Mapping[str, Any], list[str], str]] = {
    "shape": ({"x": np.zeros((2, 2), "f4")}, [], "'x' has shape [2, 2], but the argument of type"),
    "dtype": ({"x": np.zeros(3)}, [], "'x' has elements of dtype float64"),
    "unknown": (
        {"x": np.zeros(3, "f4"), "label": np.zeros(1, "i4")},
        [],
        "'label' is not an argument of the function",
    ),
    "no labels": (
        {"x": np.zeros(3, "f4")},
        ["--labels=label"],
        "there is no array 'label' of labels; there are 'x'",
    ),
    "labels of floats": (
        {"x": np.zeros(3, "f4"), "label": np.zeros(1)},
        ["--labels=label"],
        "'label' has elements of dtype float64, and labels are integers",
    ),
    "too few labels": (
        {"x": np.zeros((5, 3), "f4"), "label": np.zeros(4, "i4")},
        ["--labels=label"],
        "'label' has shape [4], and there are 5 records",
    ),
    "too many labels": (
        {"x": np.zeros((5, 3), "f4"), "label": np.zeros((5, 2), "i4")},
        ["--labels=label"],
        "record 0: there are 2 labels, but 1 answers",
    ),
    "label of no class": (
        {"x": np.zeros((5, 3), "f4"), "label": np.array([0, 1, 3, 2, 1])},
        ["--labels=label"],
        "record 2: label 3 is not the index of one of the 3 classes",
    ),
}


@pytest.mark.parametrize("case", MISFITS)
def test_data_that_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    arrays, options, message = MISFITS[case]
    path = save(tmp_path / "data.npz", arrays)
    (tmp_path / "m.mlir").write_text(UNTYPED)
    model = str(tmp_path / "m.mlir")
    assert main([model, model, "--data", str(path), "--engine=reference", *options]) == 1
    told = capsys.readouterr()
    assert told.err.startswith("qdialect-evaluate: error: ")
    assert message in told.err
    assert not told.out


OTHERS: Mapping[str, tuple[str, str]] = {
    "argument": (
        UNTYPED.replace("%x: tensor<3xf32>", "%x: tensor<3xf32>, %more: tensor<f32>"),
        "FLOAT takes 1 arguments, and QUANTIZED 2",
    ),
    "other argument": (
        UNTYPED.replace("3xf32", "4xf32"),
        "FLOAT and QUANTIZED have no value with the same key",
    ),
    "results": (
        UNTYPED.replace("-> tensor<3xf32> {", "-> (tensor<3xf32>, tensor<3xf32>) {").replace(
            "return %y : tensor<3xf32>", "return %y, %y : tensor<3xf32>, tensor<3xf32>"
        ),
        "FLOAT returns 1 values, and QUANTIZED 2",
    ),
    "no function": ("func.func private @main(%x: tensor<3xf32>)\n", "'main' has no body"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_functions_that_do_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    text, message = OTHERS[case]
    path = save(tmp_path / "data.npz", {"x": np.zeros(3, "f4")})
    for name, of in (("before.mlir", UNTYPED), ("after.mlir", text)):
        (tmp_path / name).write_text(of)
    names = [str(tmp_path / "before.mlir"), str(tmp_path / "after.mlir")]
    assert main([*names, "--data", str(path), "--engine=reference"]) == 1
    assert message in capsys.readouterr().err


# Tables and plots


def evaluation(tmp_path: Path, *options: str) -> Evaluated:
    path = save(tmp_path / "data.npz", records(9, seed=0))
    return Evaluated(tmp_path, FLOAT, QUANTIZED, path, "--engine=reference", *options)


def test_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = evaluation(tmp_path, "--worst=2")
    values, lowest, drops = capsys.readouterr().out.split("\n\n")[:3]
    assert values.startswith("values:\n  value  op              stored as")
    assert len(values.splitlines()) == 2 + 5
    by_noise = sorted(found.decibels.items(), key=lambda each: each[1])
    keys = [line.split()[0] for line in lowest.splitlines()[2:]]
    assert keys == [key for key, _ in by_noise[:2]]
    assert drops.splitlines()[0] == "largest drops from the operands of an op:"
    assert drops.splitlines()[2].split()[:3] == ["y", "linalg.matmul", "i16"]


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@needs_rich
def test_tables_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from qdialect.ptq.calibration.recorded_functions import ComparedValue
    from qdialect.ptq.schemes.noise import Noise

    noise = Noise(100.0, 1.0, 5)
    value = ComparedValue("[bold]x", "arith.negf", "u8", (), 1)
    stream = Terminal()
    Evaluation("reference", 1, ((value, noise),), (), False, ()).write(stream, 5)
    told = stream.getvalue()
    assert "[bold]x" in told
    assert "20.00" in told
    assert "│" in told


@pytest.mark.without_xdsl
@needs_matplotlib
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_plots(tmp_path: Path, ending: str) -> None:
    (tmp_path / "report.json").write_text('{"values": [{"key": "x", "signal_to_noise": 30}]}')
    options = f"--plot={tmp_path}/plot.{ending}", f"--report={tmp_path}/report.json"
    evaluation(tmp_path, *options)
    signature = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert (tmp_path / f"plot.{ending}").read_bytes().startswith(signature)


@pytest.mark.without_xdsl
@needs_matplotlib
@pytest.mark.parametrize("count", [5, 61, 1000])
def test_what_is_drawn(tmp_path: Path, count: int) -> None:
    """A bar for each number and each expected number, and a word where there is no number."""
    from qdialect.ptq.calibration.recorded_functions import ComparedValue
    from qdialect.ptq.schemes.noise import Noise

    noises = [Noise(10.0**at, 1.0, 1) for at in (1, 2, 3)]
    rows = [(ComparedValue(f"${at}", "op", "u8", (), 1), noises[at % 3]) for at in range(count)]
    rows[4] = rows[4][0], Noise(1.0, 0.0, 1)
    rows[2] = rows[2][0]._replace(storage="i4"), Noise(0.0, 1.0, 1)
    found = Evaluation("reference", 1, tuple(rows), (), False, ())
    figure = draw(plot_module(f"{tmp_path}/x.png"), found.rows, {"$0": 12.5, "other": 1.0})
    figure.draw_without_rendering()
    widths = [round(bar.get_width(), 6) for axis in figure.axes for bar in axis.patches]
    assert sorted(widths) == sorted(
        [12.5, *(10 * (at % 3 + 1) for at in range(count) if at not in (2, 4))]
    )
    words = [text.get_text() for axis in figure.axes for text in axis.texts]
    assert "equal" in words
    assert "noise only" in words
    for axis in figure.axes:
        labels = axis.get_yticklabels()
        boxes = [label.get_window_extent() for label in labels]
        # From top to bottom, none over another.
        assert all(one.y0 >= other.y1 for one, other in pairwise(boxes))
        assert labels[0].get_text().startswith("$")
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["u8", "i4", "measured", "expected"]


LAYER_IN_FLOATS = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x2xf32> {
  %w = arith.constant dense<[[0.5, -1.0], [1.5, 2.0], [-2.5, 3.0], [0.5, 0.0],
    [0.5, 1.0], [-0.5, 2.0], [1.5, 0.5], [2.0, 1.0]]> : tensor<8x2xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}
"""

LAYER = """
!x = !quant.uniform<i8:f32, 1.0:2>
!w = !quant.uniform<i8:f32, 0.5>
!y = !quant.uniform<i8:f32, 1.0:-3>
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x2xf32> {
  %x_q = quant.qcast %x : tensor<4x8xf32> to tensor<4x8x!x>
  %x_d = quant.dcast %x_q : tensor<4x8x!x> to tensor<4x8xf32>
  %c = quant.constant dense<[[1, -2], [3, 4], [-5, 6], [1, 0], [1, 2], [-1, 4], [3, 1], [4, 2]]>
    : tensor<8x2x!w>
  %w = quant.dcast %c : tensor<8x2x!w> to tensor<8x2xf32>
  %y = stablehlo.dot_general %x_d, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %y_q = quant.qcast %y : tensor<4x2xf32> to tensor<4x2x!y>
  %y_d = quant.dcast %y_q : tensor<4x2x!y> to tensor<4x2xf32>
  return %y_d : tensor<4x2xf32>
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_only_results(tmp_path: Path, engine: str) -> None:
    """Half of the sums are ties, which integers round up, and floats to even."""
    x = np.random.default_rng(3).integers(-9, 9, (20, 4, 8)).astype("f4")
    path = save(tmp_path / "data.npz", {"x": x})
    options = f"--engine={engine}", "--only-results", "--times"
    found = Evaluated(tmp_path, LAYER_IN_FLOATS, LAYER, path, *options)
    assert found.values == {}
    weights = np.array(
        [[1, -2], [3, 4], [-5, 6], [1, 0], [1, 2], [-1, 4], [3, 1], [4, 2]], dtype="i8"
    )
    sums = x.astype("i8") @ weights
    codes = (sums + 1) // 2 if engine == "iree" else np.rint(sums / 2).astype("i8")
    noise = ((codes.clip(-125, 130) - sums / 2) ** 2).sum()
    assert 0 < noise < sums.size
    (result,) = found.json["results"]
    expected = 10 * math.log10(((sums / 2) ** 2).sum() / noise)
    assert result["signal_to_noise"] == pytest.approx(expected, rel=1e-9)
    groups = {group for group, *_ in found.json["times"]}
    assert groups == {"calls"} if engine == "iree" else groups >= {"casts", "matrix products"}


def test_results_that_a_calibration_has_kept(tmp_path: Path) -> None:
    """They are taken in place of a run for the same module and records, and for no others."""
    data, others = (save(tmp_path / f"{seed}.npz", records(3, seed)) for seed in (1, 2))
    folder = tmp_path / "results"
    (tmp_path / "before.mlir").write_text(FLOAT)
    profile = ["-o", str(tmp_path / "profile.json"), "--data", str(data)]
    arguments = [str(tmp_path / "before.mlir"), *profile, "--results", str(folder)]
    assert calibrate([*arguments, "--max-memory=1000000", "--jobs=2"]) == 0
    files = sorted(folder.iterdir())
    assert len(files) == 3
    options = "--results", folder, "--times"
    compared = Evaluated(tmp_path, FLOAT, QUANTIZED, data, "--only-results")
    found = Evaluated(tmp_path, FLOAT, QUANTIZED, data, *options)
    assert found.json["results"] == compared.json["results"]
    assert {group for group, before, _ in found.json["times"] if before} >= {"matrix products"}
    # One of the results that are kept is another.
    with np.load(files[0]) as file:
        arrays = dict(file)
    np.savez(files[0], **{**arrays, "0": arrays["0"] + 10})
    decibels = compared.json["results"][0]["signal_to_noise"]
    changed = Evaluated(tmp_path, FLOAT, QUANTIZED, data, *options).json["results"]
    assert changed[0]["signal_to_noise"] < decibels - 3
    elsewhere = Evaluated(tmp_path, FLOAT, QUANTIZED, others, *options).json["results"]
    assert (
        elsewhere == Evaluated(tmp_path, FLOAT, QUANTIZED, others, "--only-results").json["results"]
    )
    text = FLOAT.replace("9.0", "9.5")
    of_another = Evaluated(tmp_path, text, QUANTIZED, data, *options).json["results"]
    assert (
        of_another == Evaluated(tmp_path, text, QUANTIZED, data, "--only-results").json["results"]
    )


def test_results_of_constants_are_kept_for_each_record(tmp_path: Path) -> None:
    text = """
    func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi32>, tensor<2xf32>) {
      %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %i = arith.constant dense<[3, 4]> : tensor<2xi32>
      %y = arith.addf %x, %c : tensor<2xf32>
      return %c, %i, %y : tensor<2xf32>, tensor<2xi32>, tensor<2xf32>
    }
    """
    path, x = tmp_path / "before.mlir", np.array([[1, 2], [3, 5]], "f4")
    path.write_text(text)
    data = save(tmp_path / "data.npz", {"x": x})
    profile, folder = tmp_path / "profile.json", tmp_path / "results"
    names = [str(path), "-o", str(profile), "--data", str(data), "--results", str(folder)]
    assert calibrate(names) == 0
    assert len([*folder.iterdir()]) == 2
    after = text.replace("[1.0, 2.0]", "[1.0, 2.5]")
    found = Evaluated(tmp_path, text, after, data, "--results", folder)
    ratios = [result["signal_to_noise"] for result in found.json["results"]]
    assert ratios == pytest.approx([10 * math.log10(5 / 0.25), 10 * math.log10(85 / 0.5)])


def test_large_and_damaged_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, data = tmp_path / "before.mlir", save(tmp_path / "data.npz", records(2, 1))
    path.write_text(FLOAT)
    folder = tmp_path / "results"
    names = [
        str(path),
        "-o",
        str(tmp_path / "p.json"),
        "--data",
        str(data),
        "--results",
        str(folder),
    ]
    # Results of 64 bytes: two are too large for a limit of less than 128.
    assert calibrate([*names, "--max-memory=1000", "--engine=reference"]) == 0
    assert len([*folder.iterdir()]) == 2
    for file in folder.iterdir():
        file.write_bytes(b"PK")
    arguments = [str(path), str(path), "--data", str(data), "--results", str(folder)]
    assert main(arguments) == 1
    assert "is not read: " in capsys.readouterr().err
    assert main([*arguments[:2], "--data", str(data), "--results", str(path)]) == 0
    assert main(["-", *arguments[1:]]) == 1
    assert "--results needs the file of a module" in capsys.readouterr().err


class Page(HTMLParser):
    """What a page has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows, self.bars, self.loaded = list[list[str]](), list[float](), list[str]()
        """The texts of cells, the shares of bars, and the names of files."""
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.loaded += [value or "" for name in ("src", "href") if (value := values.get(name))]
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "meter":
            self.bars.append(float(values["value"] or "") / float(values["max"] or ""))

    @override
    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip()


def test_a_page(tmp_path: Path) -> None:
    """It tells of each layer how it is computed, and needs no other file."""
    angle = """
  %s = stablehlo.slice %x [0:4, 0:2] : (tensor<4x8xf32>) -> tensor<4x2xf32>
  %z = math.atan2 %y, %s : tensor<4x2xf32>
  return %z :"""
    before = LAYER_IN_FLOATS.replace("return %y :", angle)
    rounded = """
  %z_q = quant.qcast %z : tensor<4x2xf32> to tensor<4x2x!y>
  %z_d = quant.dcast %z_q : tensor<4x2x!y> to tensor<4x2xf32>
  return %z_d :"""
    angle = angle.replace("%x ", "%x_d ").replace("%y,", "%y_d,").replace("return %z :", rounded)
    after = LAYER.replace("return %y_d :", angle)
    (tmp_path / "report.json").write_text('{"values": [{"key": "y", "signal_to_noise": 30}]}')
    x = np.random.default_rng(3).integers(-9, 9, (20, 4, 8)).astype("f4")
    path = save(tmp_path / "data.npz", {"x": x})
    options = f"--plot={tmp_path}/page.html", f"--report={tmp_path}/report.json"
    found = Evaluated(tmp_path, before, after, path, "--engine=reference", *options)
    page = Page((tmp_path / "page.html").read_text())
    assert not page.loaded
    rows = {row[0]: row for row in page.rows if row}
    # |x - 2| is at most 130, and the weights of a column have a sum of up to 21.
    assert (130 * 21).bit_length() + 1 == 13
    assert rows["y"][1:4] == ["stablehlo.dot_general", "i8", "integer, 13 bits"]
    assert rows["y"][4].startswith("sums of 8 products have 13 bits")
    reason = "it stays float: it is a function of several values"
    assert rows["z"][1:5] == ["math.atan2", "i8", "float (kept)", reason]
    assert rows["y"][5:] == [f"{found.decibels['y']:.2f}", "30.00"]
    assert 0 < min(page.bars) <= max(page.bars) == pytest.approx(1, abs=1e-3)
    assert found.values["y"]["computed"] == "integer, 13 bits"


@needs_matplotlib
def test_plots_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.mlir").write_text(UNTYPED)
    path = save(tmp_path / "data.npz", {"x": np.zeros(3, "f4")})
    arguments = [*[str(tmp_path / "m.mlir")] * 2, "--data", str(path), "--engine=reference"]
    for options, message in (
        (["--plot=plot.gif"], "--plot: 'plot.gif' must end in .html, .png, .svg, .pdf"),
        ([f"--plot={tmp_path}/none/plot.png"], "cannot open output file"),
        (["--report=report.json"], "--report needs --plot=FILE"),
        (["--plot=x.html", "--only-results"], "--plot draws values, which --only-results"),
        (
            ["--plot=x.html", "--results=x"],
            "--plot draws values, which --only-results and --results",
        ),
        (["--worst=-1"], "--worst must not be negative, but is -1"),
        ([f"--json={tmp_path}/none/x.json"], "cannot open output file"),
    ):
        assert main([*arguments, *options]) == 1
        assert message in capsys.readouterr().err


def test_a_plot_needs_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ToolError, match=r"--plot: .* pip install \"\.\[plot\]\""):
        plot_module(f"{tmp_path}/plot.png")


def test_reports(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    good = [
        {"key": "x", "signal_to_noise": 3},
        {"key": "y"},
        {"key": "z", "signal_to_noise": "inf"},
    ]
    for text in (json.dumps(good), json.dumps({"values": good, "version": 1})):
        path.write_text(text)
        assert expected_from_report(str(path)) == {"x": 3.0, "z": math.inf}
    for text, message in (
        ("{", "is not JSON"),
        ("{}", "it has no list of values"),
        ("3", "it has no list of values"),
        ("[3]", "a value has no key"),
        ('[{"key": 3}]', "a value has no key"),
        (
            '[{"key": "x", "signal_to_noise": "much"}]',
            "signal_to_noise of 'x': 'much' is not a number",
        ),
        ('[{"key": "x", "signal_to_noise": true}]', "signal_to_noise of 'x': True is not a number"),
    ):
        path.write_text(text)
        with pytest.raises(ToolError, match=message):
            expected_from_report(str(path))
    with pytest.raises(ToolError, match="cannot open"):
        expected_from_report(str(tmp_path / "none.json"))
