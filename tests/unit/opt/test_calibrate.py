"""`qdialect-calibrate`: ranges are those of numpy, whatever runs the model, and however often."""

from __future__ import annotations

import faulthandler
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, f32

from qdialect.check.interpreters import TypedArray
from qdialect.check.iree_runs import LoadedModule
from qdialect.frontends import from_jax
from qdialect.opt import opt
from qdialect.opt.registry import ToolContext
from qdialect.ptq.calibration.record_files import Argument, RecordError, RecordFiles
from qdialect.ptq.schemes.profile import Profile
from qdialect.ptq.schemes.ranges import FloatHistogram, Reduction, ReductionKind, Statistics
from qdialect.ptq.tools.calibrate import main
from qdialect.support.memory import memory_budget
from qdialect.support.terminal import Progress
from qdialect.text import write_module

ENGINES = [
    "numpy",
    "reference",
    pytest.param("iree", marks=[pytest.mark.iree, pytest.mark.without_xdsl]),
]

MODEL = """
func.func @main(%x: tensor<2x3xf32>, %h: tensor<4xf16>, %s: tensor<f64>) -> tensor<2x3xf32> {
  %w = arith.constant dense<[[1.0, -2.0, 3.0], [0x7FC00000, 0.5, -0.0]]> : tensor<2x3xf32>
  %y = arith.mulf %x, %w : tensor<2x3xf32>
  %z = arith.addf %y, %x : tensor<2x3xf32>
  %unused = arith.addf %h, %h : tensor<4xf16>
  %t = arith.negf %s : tensor<f64>
  return %z : tensor<2x3xf32>
}
"""


def values_of(record: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What the values of `MODEL` hold."""
    x, h, s = record["x"], record["h"], record["s"]
    w = np.array([[1, -2, 3], [np.nan, 0.5, -0.0]], "f4")
    y = x * w
    return {"x": x, "h": h, "s": s, "w": w, "y": y, "z": y + x, "unused": h + h, "t": -s}


def records_of(seed: int, count: int) -> dict[str, NDArray[Any]]:
    """A batch for `MODEL`, with NaN, infinities, zeros, and numbers that overflow float32."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 2, 3)).astype("f4")
    for special in (np.nan, np.inf, -np.inf, 0.0, -0.0):
        x[rng.random(x.shape) < 0.05] = special
    # Not all of one are NaN.
    x[:, 0, 0] = rng.normal(size=count)
    s = rng.normal(size=count)
    s[0] = 1e300
    return {"x": x, "h": rng.normal(size=(count, 4)).astype("f2"), "s": s}


@pytest.fixture(autouse=True)
def _no_signal_is_ignored() -> Iterator[None]:
    """A process started here inherits what whoever runs the tests ignores, as shells have it."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def save(path: Path, arrays: Mapping[str, Any]) -> None:
    np.savez(path, **arrays)


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.mlir"
    path.write_text(MODEL)
    return str(path)


def calibrate(path: Path, *arguments: object) -> Profile:
    """The profile that the tool writes there; it must succeed."""
    assert main([*map(str, arguments), "-o", str(path)]) == 0
    return Profile.read(path)


def assert_same_statistics(found: Statistics, expected: Statistics) -> None:
    for name in ("records", "minima", "maxima"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.tobytes() == other.tobytes(), name
    assert (found.axes, found.count, found.nans) == (expected.axes, expected.count, expected.nans)
    assert (found.histogram is None) == (expected.histogram is None)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("histogram", [False, True])
def test_ranges_are_those_of_numpy(
    model: str, tmp_path: Path, engine: str, histogram: bool
) -> None:
    seed = random.randrange(1 << 32)
    data = records_of(seed, 20)
    save(tmp_path / "data.npz", data)
    options = ["--histogram"] if histogram else []
    arguments = [model, "--data", tmp_path / "data.npz", f"--engine={engine}", *options]
    profile = calibrate(tmp_path / "profile.json", *arguments)
    with np.errstate(all="ignore"):
        records = [values_of({name: array[at] for name, array in data.items()}) for at in range(20)]
    assert profile.values.keys() == records[0].keys()
    for key, found in profile.values.items():
        arrays = [record[key] for record in records]
        with np.errstate(over="ignore"):
            # Zero has no sign in a range.
            minima, maxima = (
                np.array([end(array) for array in arrays], "f4") + np.float32(0)
                for end in (np.nanmin, np.nanmax)
            )
        nans = int(sum(np.isnan(array).sum() for array in arrays))
        count = sum(array.size for array in arrays) - nans
        counts = FloatHistogram.of(np.concatenate([array.reshape(-1) for array in arrays]))
        expected = Statistics(
            (), np.arange(20), minima, maxima, count, nans, counts if histogram else None
        )
        assert_same_statistics(found, expected)
        if found.histogram is not None:
            assert found.histogram.bins.tolist() == counts.bins.tolist(), (seed, key)
            assert found.histogram.counts.tolist() == counts.counts.tolist(), (seed, key)


FLOATS = """
func.func @f(%x: tensor<5x{0}>) -> tensor<5x{0}> {{
  %y = arith.negf %x : tensor<5x{0}>
  return %y : tensor<5x{0}>
}}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("type", ["bf16", "f8E4M3FN", "f8E5M2"])
def test_floats_that_numpy_does_not_have(tmp_path: Path, engine: str, type: str) -> None:
    """Their bits are given."""
    (tmp_path / "model.mlir").write_text(FLOATS.format(type))
    ones = {"bf16": 0x3F80, "f8E4M3FN": 0x38, "f8E5M2": 0x3C}[type]
    nan = {"bf16": 0x7FC0, "f8E4M3FN": 0x7F, "f8E5M2": 0x7F}[type]
    dtype = "u2" if type == "bf16" else "u1"
    np.savez(tmp_path / "data.npz", arg0=np.array([0, ones, ones, nan, ones], dtype))
    arguments = [tmp_path / "model.mlir", "--data", tmp_path / "data.npz", f"--engine={engine}"]
    profile = calibrate(tmp_path / "profile.json", *arguments)
    for key, low, high in (("x", 0, 1), ("y", -1, 0)):
        found = profile.values[key]
        assert (found.minima, found.maxima, found.count, found.nans) == (low, high, 4, 1)


RESOURCE = """
func.func @f(%x: tensor<2xbf16>) -> tensor<2xbf16> {
  %w = arith.constant dense_resource<w> : tensor<2xbf16>
  %y = arith.addf %x, %w : tensor<2xbf16>
  return %y : tensor<2xbf16>
}
{-#
  dialect_resources: { builtin: { w: "0x01000000803F0040" } }
#-}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_resource_of_floats_that_iree_computes_as_others(tmp_path: Path, engine: str) -> None:
    """The two elements are 1 and 2."""
    (tmp_path / "model.mlir").write_text(RESOURCE)
    np.savez(tmp_path / "data.npz", arg0=np.array([0x3F80, 0x3F80], "u2"))
    arguments = [tmp_path / "model.mlir", "--data", tmp_path / "data.npz", f"--engine={engine}"]
    profile = calibrate(tmp_path / "profile.json", *arguments)
    for key, low, high in (("x", 1, 1), ("w", 1, 2), ("y", 2, 3)):
        assert (profile.values[key].minima, profile.values[key].maxima) == (low, high)


STABLEHLO = """
func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %w = "stablehlo.constant"() <{value = dense<2.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
  %y = "stablehlo.multiply"(%x, %w)
    : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
"""
TOSA = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %w = "tosa.const"() <{values = dense<2.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
  %y = tosa.add %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
"""


@pytest.mark.iree
@pytest.mark.parametrize("text", [STABLEHLO, TOSA], ids=["stablehlo", "tosa"])
@pytest.mark.usefixtures("without_plugins")
def test_the_dialects_that_iree_reads(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.mlir").write_text(text)
    x = np.arange(-3, 3, dtype="f4").reshape(2, 3)
    np.savez(tmp_path / "data.npz", arg0=x)
    arguments = [tmp_path / "model.mlir", "--data", tmp_path / "data.npz"]
    profile = calibrate(
        tmp_path / "profile.json", *arguments, "--engine=iree", "--allow-unregistered-dialect"
    )
    found = {key: (*map(float, each.whole()),) for key, each in profile.values.items()}
    assert found == {"x": (-3, 2), "w": (2, 2), "y": (-6, 4)}


@pytest.mark.iree
@pytest.mark.usefixtures("without_plugins")
@pytest.mark.without_xdsl
def test_a_crash_of_the_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as of a gather out of bounds; the other records are kept for `--resume`."""
    kernel = LoadedModule.kernel

    def crashing(self: LoadedModule, *how: Any) -> Any:
        compute = kernel(self, *how)

        def crash(values: Sequence[TypedArray]) -> Sequence[TypedArray]:
            if values[0].numbers.min() < 0:
                # Pytest would print a traceback.
                faulthandler.disable()
                os.kill(os.getpid(), signal.SIGSEGV)
            return compute(values)

        return crash

    monkeypatch.setattr(LoadedModule, "kernel", crashing)
    (tmp_path / "model.mlir").write_text(
        TOSA.replace("tosa.add %x, %x : (tensor<2x3xf32>, ", "tosa.tanh %x : (")
    )
    np.savez(tmp_path / "data.npz", arg0=np.full((3, 2, 3), [[[1]], [[2]], [[-1]]], "f4"))
    arguments = ["model.mlir", "--data", "data.npz", "--engine=iree", "-o", "profile.json"]
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--allow-unregistered-dialect"]) == 1
    assert capsys.readouterr().err == (
        "qdialect-calibrate: error: record 2: IREE's runtime ended with signal 11; "
        "2 of 3 records of 3 values are recorded\n"
    )


QUANTIZED = """
!q = !quant.uniform<i8:f32, 0.5>
func.func private @double(%v: tensor<?xf32>) -> tensor<?xf32> {
  %d = arith.addf %v, %v : tensor<?xf32>
  return %d : tensor<?xf32>
}
func.func @run(%x: tensor<?xf32>, %q: tensor<2x!q>, %more: i1)
    -> (tensor<?xf32> {test.name = "result"}, tensor<2xi8>) {
  %f = quant.dcast %q : tensor<2x!q> to tensor<2xf32>
  %c = func.call @double(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %s = "quant.stats"(%c) <{layerStats = dense<[0.0, 1.0]> : tensor<2xf32>}>
    : (tensor<?xf32>) -> tensor<?xf32>
  %i = "scf.if"(%more) ({
    %in = arith.addf %s, %x : tensor<?xf32>
    scf.yield %in : tensor<?xf32>
  }, {
    scf.yield %s : tensor<?xf32>
  }) : (i1) -> tensor<?xf32>
  %b = arith.constant dense<1> : tensor<2xi8>
  return %i, %b : tensor<?xf32>, tensor<2xi8>
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_calls_regions_and_quantized_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    (tmp_path / "model.mlir").write_text(QUANTIZED)
    arguments = [tmp_path / "model.mlir", "--data", tmp_path, f"--engine={engine}"]
    # Files of a folder are in the order of their names; lengths may differ.
    np.savez(tmp_path / "b.npz", x=np.array([3], "f4"), q=np.array([5, 6], "i1"), arg2=False)
    np.savez(
        tmp_path / "a.npz",
        x=np.array([[1, 2], [4, -4]], "f4"),
        q=np.array([[1, 2], [3, 4]], "i1"),
        more=np.array([True, False]),
    )
    profile = calibrate(tmp_path / "profile.json", *arguments)
    found = {
        key: [*zip(each.minima.tolist(), each.maxima.tolist(), strict=True)]
        for key, each in profile.values.items()
    }
    assert found == {
        "x": [(1, 2), (-4, 4), (3, 3)],
        "f": [(0.5, 1), (1.5, 2), (2.5, 3)],
        "c": [(2, 4), (-8, 8), (6, 6)],
        "i": [(3, 6), (-8, 8), (6, 6)],
    }
    told = capsys.readouterr().err
    assert "10:8: remark: 1 call is inlined: its function is '@double'" in told
    assert (
        "13:8: remark: not recorded: 'in', since the region may run several times, or never"
    ) in told
    assert told.count("remark") == 2


CALLED_TWICE = """
func.func private @scaled(%v: tensor<2xf32>) -> tensor<2xf32> {
  %k = arith.constant dense<3.0> : tensor<2xf32>
  %p = arith.mulf %v, %k : tensor<2xf32>
  %n = arith.negf %p : tensor<2xf32>
  return %n : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %once = func.call @scaled(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %twice = func.call @scaled(%once) : (tensor<2xf32>) -> tensor<2xf32>
  return %twice : tensor<2xf32>
}
"""


def test_each_call_has_ranges_of_its_own(tmp_path: Path) -> None:
    """Their keys are those of the passes, and of a module whose calls are inlined before."""
    (tmp_path / "model.mlir").write_text(CALLED_TWICE)
    np.savez(tmp_path / "data.npz", x=np.array([[1, 2], [-1, 4]], "f4"))
    data = ["--data", tmp_path / "data.npz", "--engine=reference"]
    profile = calibrate(tmp_path / "profile.json", tmp_path / "model.mlir", *data)
    assert {key: each.maxima.tolist() for key, each in profile.values.items()} == {
        "x": [2, 4],
        "k": [3, 3],
        "p": [6, 12],
        "once": [-3, 3],
        "k_1": [3, 3],
        "p_1": [-9, 9],
        "twice": [18, 36],
    }
    inlined = str(tmp_path / "inlined.mlir")
    assert opt.main(["--inline", str(tmp_path / "model.mlir"), "-o", inlined]) == 0
    again = calibrate(tmp_path / "again.json", inlined, *data)
    assert again.to_json() == profile.to_json()
    attach = f"--attach-ranges=profile={tmp_path}/profile.json strict=true"
    outputs = [tmp_path / name for name in ("one.mlir", "other.mlir")]
    for path, output in zip((tmp_path / "model.mlir", inlined), outputs, strict=True):
        assert opt.main([attach, str(path), "-o", str(output)]) == 0
    assert outputs[0].read_text() == outputs[1].read_text()


SELECTED_AWAY = """
func.func @main(%x: tensor<2xf32>, %c: tensor<2xi1>) -> tensor<2xf32> {
  %nan = arith.constant dense<0x7FC00000> : tensor<2xf32>
  %y = arith.select %c, %x, %nan : tensor<2xi1>, tensor<2xf32>
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %z = arith.select %c, %y, %zero : tensor<2xi1>, tensor<2xf32>
  return %z : tensor<2xf32>
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_values_of_nan_only_have_no_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    """Neither constants, nor other values in the records where they are selected away."""
    (tmp_path / "model.mlir").write_text(SELECTED_AWAY)
    data = {"arg0": np.array([[1, 2], [3, 4], [5, 6]], "f4")}
    chosen = np.array([[True, True], [False, False], [True, False]])
    save(tmp_path / "data.npz", {**data, "arg1": chosen})
    arguments = [tmp_path / "model.mlir", "--data", tmp_path / "data.npz", f"--engine={engine}"]
    profile = calibrate(tmp_path / "profile.json", *arguments)
    told = capsys.readouterr().err
    assert "'nan', 'y' have no range where all elements are NaN" in told
    assert {key: each.records.tolist() for key, each in profile.values.items()} == {
        "x": [0, 1, 2],
        "y": [0, 2],
        "z": [0, 1, 2],
        "zero": [0, 1, 2],
    }
    assert profile.values["y"].maxima.tolist() == [2, 5]
    # Nothing is missing, so nothing is run again.
    again = calibrate(tmp_path / "profile.json", *arguments, "--resume")
    assert again.to_json() == profile.to_json()


PARTS = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = arith.addf %x, %x {quant.key = "whole"} : tensor<2xf32>
  %b = arith.negf %x {quant.key = "whole"} : tensor<2xf32>
  return %a : tensor<2xf32>
}
"""


BLOCKS = """
func.func @main(%x: tensor<2xf32>, %again: i1, %none: tensor<0xf32>) -> tensor<2xf32> {
  %y = arith.negf %x : tensor<2xf32>
  cf.cond_br %again, ^first(%y : tensor<2xf32>), ^second
^first(%z: tensor<2xf32>):
  return %z : tensor<2xf32>
^second:
  return %x : tensor<2xf32>
}
func.func @unused(%u: tensor<2xf32>) {
  return
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_block_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    (tmp_path / "model.mlir").write_text(BLOCKS)
    none = np.zeros((2, 0), "f4")
    x = np.array([[1, 2], [3, 4]], "f4")
    np.savez(tmp_path / "data.npz", x=x, again=np.array([True, False]), none=none)
    arguments = [tmp_path / "model.mlir", "--data", tmp_path / "data.npz", f"--engine={engine}"]
    profile = calibrate(tmp_path / "profile.json", *arguments)
    found = {key: (*map(float, each.whole()),) for key, each in profile.values.items()}
    assert found == {"x": (1, 4), "y": (-4, -1)}
    told = capsys.readouterr().err
    assert "not recorded: 'none', since it has no elements" in told
    assert "not recorded: 'z', since this block may run several times, or never" in told
    assert told.count("remark") == 2


@pytest.mark.exporters
@pytest.mark.parametrize("engine", ENGINES)
def test_digits(tmp_path: Path, engine: str) -> None:
    """A model of JAX, run on real data: the range of each record is that of numpy."""
    datasets: Any = pytest.importorskip("sklearn.datasets")
    jnp: Any = pytest.importorskip("jax.numpy")
    images = datasets.load_digits().data[:200, None].astype("f4") / np.float32(16)
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=size).astype("f4") for size in ((64, 32), (32, 10)))

    def model(x: Any) -> Any:
        return jnp.tanh(x @ first) @ second

    context = ToolContext(allow_unregistered=True)
    module = from_jax(model, images[0], context=context)
    with (tmp_path / "model.mlir").open("w") as stream:
        write_module(context, module, stream)
    save(tmp_path / "images.npz", {"arg0": images})
    arguments = ["--data", tmp_path / "images.npz", f"--engine={engine}"]
    profile = calibrate(
        tmp_path / "profile.json",
        tmp_path / "model.mlir",
        *arguments,
        "--allow-unregistered-dialect",
    )
    hidden = images @ first
    expected = [images, hidden, np.tanh(hidden), np.tanh(hidden) @ second]
    for array in expected:
        ends = np.stack([end(array, axis=(1, 2)) for end in (np.min, np.max)])
        seen = [np.stack([found.minima, found.maxima]) for found in profile.values.values()]
        assert any(np.allclose(ends, each, rtol=1e-5, atol=1e-5) for each in seen)
    for array in (first, second):
        ends = np.stack([np.full(200, end(array)) for end in (np.min, np.max)])
        seen = [np.stack([found.minima, found.maxima]) for found in profile.values.values()]
        assert any((ends == each).all() for each in seen)


def test_the_reduction_is_noted_and_records_are_kept(model: str, tmp_path: Path) -> None:
    save(tmp_path / "data.npz", records_of(1, 5))
    arguments = [model, "--data", tmp_path / "data.npz", "--engine=reference"]
    file = tmp_path / "profile.json"
    profile = calibrate(file, *arguments, "--percentile", 5, 95.5)
    assert profile.reduction == Reduction(ReductionKind.PERCENTILE, 5, 95.5)
    assert all(each.records.tolist() == list(range(5)) for each in profile.values.values())
    # It may be another once all is recorded.
    assert calibrate(file, *arguments, "--resume", "--moving-average").reduction == Reduction(
        ReductionKind.MOVING_AVERAGE
    )
    assert calibrate(file, *arguments).reduction == Reduction()


def test_percentiles_that_are_none_are_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "data.npz", records_of(1, 2))
    arguments = [model, "--data", str(tmp_path / "data.npz"), "--engine=reference"]
    assert main([*arguments, "--percentile", "5", "101"]) == 1
    assert "--percentile: high must be from 0 to 100, not 101" in capsys.readouterr().err
    assert main([*arguments, "--percentile", "90", "5"]) == 1
    assert "--percentile: low must not exceed high, as 90.0 exceeds 5.0" in capsys.readouterr().err
    assert main([*arguments, "--percentile", "5", "95", "--moving-average"]) == 1
    assert "not allowed with argument --percentile" in capsys.readouterr().err


def test_names_of_reshapes_are_aliases(tmp_path: Path) -> None:
    (tmp_path / "model.mlir").write_text("""
    func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {
      %sum = arith.addf %x, %x : tensor<2x3xf32>
      %flat = tensor.collapse_shape %sum [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
      return %flat : tensor<6xf32>
    }
    """)
    save(tmp_path / "data.npz", {"x": np.ones((2, 3), "f4")})
    arguments = [tmp_path / "model.mlir", "--data", tmp_path / "data.npz", "--engine=reference"]
    assert calibrate(tmp_path / "profile.json", *arguments).aliases == {"flat": "sum"}


@pytest.mark.parametrize("engine", ENGINES)
def test_parts_of_one_tensor_are_one_value(tmp_path: Path, engine: str) -> None:
    (tmp_path / "model.mlir").write_text(PARTS)
    np.savez(tmp_path / "data.npz", x=np.array([[1, 2], [-3, np.nan]], "f4"))
    arguments = [tmp_path / "model.mlir", "--data", tmp_path / "data.npz", f"--engine={engine}"]
    found = calibrate(tmp_path / "profile.json", *arguments).values["whole"]
    assert found.minima.tolist() == [-2, -6]
    assert found.maxima.tolist() == [4, 3]
    assert (found.count, found.nans) == (6, 2)


# Data that does not fit


def _x(array: Any) -> dict[str, Any]:
    return {"x": array, "h": np.zeros(4, "f2"), "s": np.zeros(())}


MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "shape": (
        _x(np.zeros((2, 3, 3), "f4")),
        "'x' has shape [2, 3, 3], but the argument of type 'tensor<2x3xf32>' needs [2, 3] for one "
        "record, or [n, 2, 3] for n",
    ),
    "dtype": (
        _x(np.zeros((2, 3))),
        "'x' has elements of dtype float64, but the argument of type 'tensor<2x3xf32>' needs "
        "float32",
    ),
    "integers": (
        _x(np.zeros((2, 3), "i4")),
        "'x' has elements of dtype int32, but the argument of type 'tensor<2x3xf32>' needs float32",
    ),
    "missing": (
        {"x": np.zeros((2, 3), "f4"), "s": np.zeros(())},
        "there is no array 'arg1' or 'h'; there are 'x', 's'",
    ),
    "unknown": (
        {**_x(np.zeros((2, 3), "f4")), "label": np.zeros(1)},
        "'label' is not an argument of the function: the arguments are 'arg0', 'arg1', 'arg2'",
    ),
    "twice": (
        {**_x(np.zeros((2, 3), "f4")), "arg0": np.zeros((2, 3), "f4")},
        "give only one of the arrays 'arg0' and 'x'",
    ),
    "counts": (
        _x(np.zeros((5, 2, 3), "f4")),
        "arrays differ in their number of records: 'x' has 5, 'h' has one, unbatched, "
        "'s' has one, unbatched",
    ),
    "none": (
        {"x": np.zeros((0, 2, 3), "f4"), "h": np.zeros((0, 4), "f2"), "s": np.zeros(0)},
        "has no records",
    ),
}


def test_arrays_may_have_names_whose_identifiers_are_those_of_arguments(
    model: str, tmp_path: Path
) -> None:
    """As inputs of ONNX have names such as `gpu_0/data`."""
    data = tmp_path / "data.npz"
    arrays = _x(np.zeros((2, 3), "f4"))
    np.savez(data, allow_pickle=False, **{"x:": arrays.pop("x"), **arrays})
    assert main([model, "--data", str(data), "-o", str(tmp_path / "profile.json")]) == 0


@pytest.mark.parametrize(("arrays", "reason"), MISFITS.values(), ids=MISFITS.keys())
def test_data_that_does_not_fit_is_refused(
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arrays: dict[str, Any],
    reason: str,
) -> None:
    data = tmp_path / "data.npz"
    save(data, arrays)
    output = tmp_path / "profile.json"
    assert main([model, "--data", str(data), "--engine=reference", "-o", str(output)]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"qdialect-calibrate: error: '{data}'")
    assert reason in told
    assert not output.exists()


def zip_of(content: bytes) -> bytes:
    """An archive with this file as its only array."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("x.npy", content)
    return archive.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no zip", id="text"),
        pytest.param(None, id="missing"),
        pytest.param(zip_of(b"no array"), id="no array"),
        pytest.param(zip_of(b"\x93NUMPY\x01\x00\x10\x00{'descr': [}     "), id="no header"),
        pytest.param(zip_of(b"\x93NUMPY\x01\x00\x88\x13" + b"(" * 5000), id="a header of brackets"),
    ],
)
def test_what_is_no_file_of_numpy_is_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    data = tmp_path / "data.npz"
    if content is not None:
        data.write_bytes(content)
    assert main([model, "--data", str(data), "--engine=reference"]) == 1
    assert f"error: cannot read '{data}': " in capsys.readouterr().err


def archive_of(
    *members: tuple[str, tuple[int, ...], bytes], compression: int = zipfile.ZIP_STORED
) -> bytes:
    """An archive of arrays of float32, each with a header and bytes that need not fit it."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", compression) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, shape, held in members:
            array = io.BytesIO()
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(array, header)
            file.writestr(name, array.getvalue() + held)
    return archive.getvalue()


def encrypted(archive: bytes) -> bytes:
    """An archive that says that its file is encrypted."""
    at = archive.index(b"PK\x01\x02") + 8
    return archive[:6] + b"\1" + archive[7:at] + b"\1" + archive[at + 1 :]


def with_long_directory(archive: bytes) -> bytes:
    """An archive whose directory seems to have 32 MiB, as its end says."""
    at = archive.index(b"PK\x05\x06")
    start = archive.index(b"PK\x01\x02")
    size = (1 << 25).to_bytes(4, "little")
    end = archive[at : at + 12] + size + archive[at + 16 :]
    return archive[:start] + archive[start:at].ljust(1 << 25, b"\0") + end


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (archive_of(("x.npy", (1 << 40, 2), b"")), f"has 0 bytes, but its shape needs {1 << 43}"),
        (archive_of(("x.npy", (2,), b"abcd")), "'x' has 4 bytes, but its shape needs 8"),
        (archive_of(("x.npy", (2,), b"\0" * 12)), "'x' has 12 bytes, but its shape needs 8"),
        (archive_of(*[("x.npy", (2,), b"\0" * 8)] * 2), "'x' is there several times"),
        (archive_of(("x.npy", (), b"\0" * 4), ("x", (), b"\0" * 4)), "'x' is there several times"),
        (archive_of(("x.npy", (-2, -1), b"\0" * 8)), "'x' has shape [-2, -1]"),
        (
            archive_of(("x.npy", (), b"\0" * 4), compression=zipfile.ZIP_BZIP2),
            "'x' is compressed in a way that numpy does not write",
        ),
        (encrypted(archive_of(("x.npy", (), b"\0" * 4))), "is encrypted"),
        (with_long_directory(archive_of(("x.npy", (), b"\0" * 4))), "directory of the archive is"),
        (
            zip_of(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 100_000),
            "EOF: reading array header",
        ),
    ],
)
def test_arrays_that_are_not_what_their_headers_say(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, reason: str
) -> None:
    data = tmp_path / "data.npz"
    data.write_bytes(content)
    assert main([model, "--data", str(data), "--engine=reference"]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"qdialect-calibrate: error: cannot read '{data}': ")
    assert reason in told


def zeros_of(path: Path, *shape: int, order: Literal["C", "F"] = "C") -> None:
    """A small file that is large when it is decompressed."""
    np.savez_compressed(path, x=np.zeros(shape, "f4", order=order))
    assert path.stat().st_size < 1 << 20


def test_a_lone_array_is_that_of_the_only_argument(tmp_path: Path) -> None:
    arrays = np.arange(24, dtype="f4").reshape(4, 2, 3)
    np.save(tmp_path / "1.npy", arrays[:3])
    np.savez(tmp_path / "2.npz", x=arrays[3])
    argument = Argument(("arg0", "x"), TensorType(f32, [2, 3]))
    for path, count in ((tmp_path, 4), (tmp_path / "1.npy", 3)):
        records = RecordFiles(path, [argument])
        read = [records[at][0].elements.view("f4") for at in range(len(records))]
        assert np.array_equal(read, arrays[:count])
    with pytest.raises(RecordError, match="there is no array 'y'; there are 'arg0'"):
        RecordFiles(tmp_path / "1.npy", [argument, Argument(("y",), TensorType(f32, [2]))])
    (tmp_path / "1.npy").write_bytes(b"PK")
    with pytest.raises(RecordError, match=r"cannot read '.*1\.npy': "):
        RecordFiles(tmp_path, [argument])


@pytest.mark.parametrize(
    ("stored", "batch", "count"),
    [((7, 3), 1, 7), ((8, 3), 2, 4), ((2, 3), 2, 1), ((2, 2, 3), 2, 2)],
)
def test_records_follow_each_other_along_the_axis_of_the_batch(
    tmp_path: Path, stored: tuple[int, ...], batch: int, count: int
) -> None:
    arrays = np.random.default_rng(0).normal(size=stored).astype("f4")
    np.savez(tmp_path / "a.npz", x=arrays)
    records = RecordFiles(tmp_path, [Argument(("x",), TensorType(f32, [batch, 3]))])
    read = [records[at][0].elements.view("f4") for at in range(len(records))]
    assert np.array_equal(read, arrays.reshape(count, batch, 3))
    with pytest.raises(RecordError, match=r"needs \[3, 3\] for one record, or \[n, 3, 3\] for n"):
        RecordFiles(tmp_path, [Argument(("x",), TensorType(f32, [3, 3]))])


def test_records_are_read_piece_by_piece(tmp_path: Path) -> None:
    """Of 64 MiB, only one record is in memory, and counts in the budget."""
    zeros_of(tmp_path / "data.npz", 1 << 14, 1024)
    arguments = [Argument(("x",), TensorType(f32, [1024]))]
    tracemalloc.start()
    try:
        with memory_budget(1 << 12) as budget:
            records = RecordFiles(tmp_path, arguments)
            for index in (0, 1, 5000, 3, len(records) - 1):
                (value,) = records[index]
                assert value.elements.shape == (1024,)
                assert budget.left == 0
        assert tracemalloc.get_traced_memory()[1] < 1 << 23
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("order", ["C", "F"])
def test_records_in_any_order_of_indices(tmp_path: Path, order: Literal["C", "F"]) -> None:
    arrays = np.random.default_rng(0).normal(size=(9, 2, 3)).astype("f4")
    np.savez(tmp_path / "a.npz", x=np.asarray(arrays[:4], order=order))
    np.savez_compressed(tmp_path / "b.npz", x=np.asarray(arrays[4:], order=order))
    records = RecordFiles(tmp_path, [Argument(("x",), TensorType(f32, [2, 3]))])
    for index in (0, 1, 1, 3, 2, 8, 4, 6, 0):
        (value,) = records[index]
        np.testing.assert_array_equal(value.elements.view("f4"), arrays[index])
    with pytest.raises(IndexError):
        _ = records[9]


@pytest.mark.parametrize(
    ("type", "shape", "order"),
    [("tensor<16777216xf32>", (1 << 24,), "C"), ("tensor<4xf32>", (1 << 22, 4), "F")],
)
def test_what_is_read_as_a_whole_counts_in_the_budget(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    type: str,
    shape: tuple[int, ...],
    order: Literal["C", "F"],
) -> None:
    model, data = tmp_path / "model.mlir", tmp_path / "data.npz"
    model.write_text(f"func.func @main(%x: {type}) -> {type} {{ return %x : {type} }}")
    zeros_of(data, *shape, order=order)
    limit = "--max-memory=1000000"
    tracemalloc.start()
    try:
        assert main([str(model), "--data", str(data), "--engine=reference", limit]) == 1
        # There is no list of the records, either.
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()
    told = capsys.readouterr().err
    assert "error: record 0: it would take 67108864 more bytes, but only 1000000" in told


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_profile_lacks_is_no_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], jobs: int
) -> None:
    """A profile has gaps if its records were run by several processes."""
    model, data, output = (tmp_path / name for name in ("m.mlir", "data.npz", "profile.json"))
    type = "tensor<4xf32>"
    model.write_text(f"func.func @main(%x: {type}) -> {type} {{ return %x : {type} }}")
    arguments = [str(model), "--data", str(data), "--engine=reference", "-o", str(output)]
    save(data, {"x": np.ones((3, 4), "f4")})
    assert main(arguments) == 0
    output.write_text(output.read_text().replace("[0, 1, 2]", "[0, 2, 5]"))
    # As it is read as a whole, no record can be run.
    zeros_of(data, 1 << 22, 4, order="F")
    tracemalloc.start()
    try:
        limits = ["--resume", "--max-memory=1000000", f"--jobs={jobs}"]
        assert main([*arguments, *limits]) == 1
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()
    told = capsys.readouterr().err
    # Of several processes, any may be the first that fails, at a record that the profile lacks.
    failed = re.search(r"error: record (\d+): it would take", told)
    assert failed is not None, told
    assert failed[1] == "1" if jobs == 1 else int(failed[1]) not in (0, 2, 5)
    assert "3 of 4194304 records of 1 values are recorded" in told


def test_what_is_no_regular_file_is_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in a folder; a pipe is not waited for."""
    zero, pipe = tmp_path / "zero.npz", tmp_path / "folder" / "pipe.npz"
    zero.symlink_to("/dev/zero")
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    for path, told in ((zero, zero), (pipe, pipe), (pipe.parent, pipe)):
        assert main([model, "--data", str(path), "--engine=reference"]) == 1
        reason = f"error: cannot read '{told}': it is not a regular file\n"
        assert capsys.readouterr().err == f"qdialect-calibrate: {reason}"


ENDLESS = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = arith.addf %x, %x : tensor<2xf32>
  cf.br ^loop
^loop:
  cf.br ^loop
}
"""


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (20, "'cf.br' op is not run: 20 steps have been taken before it (--max-steps)"),
        (-1, "--max-steps must not be negative, but is -1"),
    ],
)
def test_steps_have_a_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: int, told: str
) -> None:
    model, data = tmp_path / "model.mlir", tmp_path / "data.npz"
    model.write_text(ENDLESS)
    save(data, {"x": np.zeros(2, np.float32)})
    arguments = [str(model), "--data", str(data), "--engine=reference", f"--max-steps={steps}"]
    assert main(arguments) == 1
    assert told in capsys.readouterr().err


def test_inputs_are_not_written_over(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.npz"
    save(data, records_of(0, 1))
    link = tmp_path / "link"
    link.symlink_to(model)
    for output, what, path in (
        (data, "records", data),
        (model, "model", model),
        (link, "model", model),
    ):
        before = Path(path).read_bytes()
        assert main([model, "--data", str(data), "--engine=reference", "-o", str(output)]) == 1
        told = capsys.readouterr().err
        assert f"error: the profile would be written over the {what} in '{path}'" in told
        assert Path(path).read_bytes() == before


def test_a_truncated_file_is_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.npz"
    arrays = records_of(0, 5)
    save(data, arrays)
    whole = data.read_bytes()
    for end in random.sample(range(len(whole)), 20):
        data.write_bytes(whole[:end])
        assert main([model, "--data", str(data), "--engine=reference"]) == 1
        assert f"cannot read '{data}'" in capsys.readouterr().err
    # An array whose bytes are others than were written.
    at = whole.index(arrays["x"].tobytes()) + 5
    data.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    assert main([model, "--data", str(data), "--engine=reference"]) == 1
    assert f"cannot read '{data}'" in capsys.readouterr().err


def test_quantized_elements_out_of_range_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = QUANTIZED.replace("!quant.uniform<i8:f32, 0.5>", "!quant.uniform<i8<-7:7>:f32, 0.5>")
    (tmp_path / "model.mlir").write_text(text)
    data = tmp_path / "data.npz"
    np.savez(data, x=np.zeros(1, "f4"), q=np.array([7, 8], "i1"), more=True)
    status = main([str(tmp_path / "model.mlir"), "--data", str(data), "--engine=reference"])
    assert status == 1
    assert f"'{data}': 'q' in record 0: " in capsys.readouterr().err


# What was recorded is kept


@pytest.mark.parametrize("engine", ENGINES)
def test_a_value_of_nan_only_is_an_error(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    """The records before it are kept."""
    data = records_of(3, 4)
    data["h"][2] = np.nan
    save(tmp_path / "data.npz", data)
    output = tmp_path / "profile.json"
    arguments = [model, "--data", str(tmp_path / "data.npz"), f"--engine={engine}"]
    assert main([*arguments, "-o", str(output)]) == 1
    told = capsys.readouterr().err
    assert "record 2: value 'h': all elements are NaN" in told
    assert "2 of 4 records of 8 values are recorded" in told
    assert Profile.read(output).values["x"].records.tolist() == [0, 1]


def test_a_profile_of_something_else_is_not_gone_on_with(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "data.npz", records_of(0, 3))
    save(tmp_path / "fewer.npz", records_of(0, 2))
    output = tmp_path / "profile.json"
    data = ["--engine=reference", "--data", str(tmp_path / "data.npz")]
    calibrate(output, model, *data)
    written = output.read_bytes()
    other = tmp_path / "other.mlir"
    other.write_text(MODEL.replace("-2.0", "-4.0"))
    renamed = tmp_path / "renamed.mlir"
    renamed.write_text(re.sub("%([yt])", lambda name: "%" + "ty"[name[1] == "t"], MODEL))
    fewer = ["--engine=reference", "--data", str(tmp_path / "fewer.npz")]
    for arguments, reason in (
        ([str(other), *data], "'@main' differs"),
        ([str(renamed), *data], "'t' is not the key of the same value; 'y' is not the key"),
        ([model, *data, "--histogram"], "its values have no histogram"),
        ([model, *fewer], "it has record 2, but there are only 2 records"),
    ):
        assert main([*arguments, "--resume", "-o", str(output)]) == 1
        told = capsys.readouterr().err
        assert f"cannot resume from '{output}': {reason}" in told
        assert output.read_bytes() == written
    profile = json.loads(written)
    of_axis = {key: each for key, each in profile["values"].items()}
    of_axis["x"] = {**of_axis["x"], "axes": [0]}
    for end in ("minima", "maxima"):
        of_axis["x"][end] = [[number] for number in of_axis["x"][end]]
    for values, reason in (
        ({}, "value 'h' is only in one of the two"),
        (of_axis, "its ranges are along other axes"),
    ):
        output.write_text(json.dumps({**profile, "aliases": {}, "values": values}))
        assert main([model, *data, "--resume", "-o", str(output)]) == 1
        assert f"cannot resume from '{output}': {reason}" in capsys.readouterr().err
    first = {key: profile[key] for key in profile if key not in ("identities", "numbered")}
    output.write_text(json.dumps({**first, "version": 1}))
    assert main([model, *data, "--resume", "-o", str(output)]) == 1
    assert "it does not say how its values are computed" in capsys.readouterr().err
    assert main([model, *data, "--resume"]) == 1
    assert "--resume needs the file of a profile" in capsys.readouterr().err


@pytest.mark.without_xdsl
@pytest.mark.parametrize(
    ("engine", "histogram"),
    [
        ("reference", ["--histogram"]),
        pytest.param("iree", [], marks=[pytest.mark.iree, pytest.mark.without_xdsl]),
    ],
)
def test_processes_record_the_same(
    model: str, tmp_path: Path, engine: str, histogram: list[str]
) -> None:
    save(tmp_path / "data.npz", records_of(5, 30))
    arguments = [model, "--data", tmp_path / "data.npz", f"--engine={engine}", *histogram]
    for jobs in (1, 2):
        calibrate(tmp_path / f"{jobs}.json", *arguments, f"--jobs={jobs}")
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()


@pytest.mark.without_xdsl
def test_an_error_in_another_process_is_told(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = records_of(3, 12)
    data["h"][7] = np.nan
    save(tmp_path / "data.npz", data)
    arguments = [model, "--data", str(tmp_path / "data.npz"), "--engine=reference", "--jobs=2"]
    assert main([*arguments, "-o", str(tmp_path / "profile.json")]) == 1
    assert "record 7: value 'h': all elements are NaN" in capsys.readouterr().err
    recorded = Profile.read(tmp_path / "profile.json").values["x"].records.tolist()
    assert 7 not in recorded
    assert {*recorded} <= {*range(12)}


COMMAND = [
    sys.executable,
    "-c",
    "import sys; from qdialect.opt.process import run_calibrate; sys.exit(run_calibrate())",
]


def run_until(
    arguments: list[str], number: signal.Signals, is_time: Callable[[], bool]
) -> tuple[int, str]:
    """The exit status and the messages of a run that gets a signal when it is time."""
    with subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as tool:
        while tool.poll() is None and not is_time():
            time.sleep(0.001)
        if tool.poll() is None and number == signal.SIGHUP:
            # As a terminal that is closed.
            os.killpg(tool.pid, number)
        elif tool.poll() is None:
            tool.send_signal(number)
        _, told = tool.communicate()
        return tool.returncode, told


@pytest.mark.without_xdsl
@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_interrupted_is_gone_on_with(model: str, tmp_path: Path, jobs: int) -> None:
    """At random moments, until it is done: the same profile as that of one run."""
    count = 400
    save(tmp_path / "data.npz", records_of(7, count))
    data = ["--data", str(tmp_path / "data.npz"), "--engine=reference"]
    calibrate(tmp_path / "whole.json", model, *data)
    whole = (tmp_path / "whole.json").read_bytes()
    output, recorded, runs = tmp_path / "profile.json", 0, 0
    while True:
        number = (signal.SIGINT, signal.SIGKILL, signal.SIGHUP)[runs % 3]
        before, files = recorded, {path.name for path in tmp_path.iterdir()}
        runs += 1
        # The last one is left alone: starting may take as long as all records.
        end = time.monotonic() + (random.uniform(0, 2.5) if runs < 4 else 1e9)
        status, told = run_until(
            [model, *data, "--resume", f"--jobs={jobs}", "-o", str(output)],
            number,
            lambda end=end: time.monotonic() > end,
        )
        if output.exists():
            recorded = len(Profile.read(output).values["x"].records)
        assert recorded >= before
        if status == 0:
            break
        # Python itself may be interrupted before it has started.
        assert status in (128 + number, -number) or "init_import_site" in told, told
        if "records of" in told:
            assert f"{recorded} of {count} records of 8 values are recorded" in told
        assert "Traceback" not in told
        left = {path.name for path in tmp_path.iterdir()} - files
        assert number is signal.SIGKILL or left <= {"profile.json"}
    assert recorded == count
    assert output.read_bytes() == whole


def test_what_is_recorded_is_written_meanwhile(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed loses what it recorded since."""
    save(tmp_path / "data.npz", records_of(2, 8))
    monkeypatch.setattr("qdialect.ptq.tools.calibrate._SECONDS_TO_KEEP", 0)
    monkeypatch.setattr("qdialect.ptq.tools.calibrate._SHARE_OF_KEEPING", 1e9)
    output, kept = tmp_path / "profile.json", list[int]()

    def advance(self: Progress) -> None:
        kept.append(len(Profile.read(output).values["x"].records))

    monkeypatch.setattr(Progress, "advance", advance)
    calibrate(output, model, "--data", tmp_path / "data.npz", "--engine=reference")
    assert kept == [*range(1, 9)]


@pytest.mark.without_xdsl
def test_an_interrupt_while_records_run_keeps_them(model: str, tmp_path: Path) -> None:
    """The signal comes when some records have been recorded, and not all of them."""
    pipe = tmp_path / "pipe"
    count = 200_000
    save(tmp_path / "data.npz", records_of(7, count))
    output = tmp_path / "profile.json"
    program = (
        "import sys, qdialect.ptq.tools.calibrate as tool\n"
        "add = tool._Keeper.add\n"
        "def add_and_tell(self, seen):\n"
        "    add(self, seen)\n"
        f"    open({str(pipe)!r}, 'a').close()\n"
        "tool._Keeper.add = add_and_tell\n"
        "from qdialect.opt.process import run_calibrate\n"
        "sys.exit(run_calibrate())\n"
    )
    arguments = [model, "--data", str(tmp_path / "data.npz"), "--engine=reference"]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments, "-o", str(output)],
        stderr=subprocess.PIPE,
        text=True,
    ) as tool:
        while not pipe.exists() and tool.poll() is None:
            time.sleep(0.001)
        tool.send_signal(signal.SIGINT)
        _, told = tool.communicate()
    assert tool.returncode == 130, told
    recorded = Profile.read(output).values["x"].records
    assert 0 < len(recorded) < count
    assert recorded.tolist() == [*range(len(recorded))]
    assert f"{len(recorded)} of {count} records of 8 values are recorded" in told
    assert told.endswith("--resume continues from there\n")


# Functions


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "func.func @f() { return }\nfunc.func @g() { return }",
            "the public functions are 'f', 'g'",
        ),
        ("func.func private @f() { return }", "the public functions are none"),
        ("func.func private @main()", "'main' has no body"),
        ("func.func @f() { return }", "'f' has no float tensor to record"),
        (
            'func.func @f() { %0 = "torch.vtensor.literal"() {value = dense<1.0> : tensor<f32>} '
            ": () -> !torch.vtensor<[],f32> return }",
            "'f' has no float tensor to record: only values of builtin tensor types",
        ),
    ],
)
def test_functions_that_cannot_be_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    (tmp_path / "model.mlir").write_text(text)
    save(tmp_path / "data.npz", {})
    data = ["--data", str(tmp_path / "data.npz"), "--allow-unregistered-dialect"]
    assert main([str(tmp_path / "model.mlir"), *data, "--engine=reference"]) == 1
    assert reason in capsys.readouterr().err


def test_a_missing_library_is_named(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("iree", "iree.compiler", "iree.runtime"):
        monkeypatch.setitem(sys.modules, name, None)
    save(tmp_path / "data.npz", records_of(0, 1))
    assert main([model, "--data", str(tmp_path / "data.npz"), "--engine=iree"]) == 1
    told = capsys.readouterr().err
    assert "error: --engine=iree: 'iree" in told
    assert 'pip install ".[iree]"' in told


@pytest.mark.parametrize("engine", ENGINES)
def test_channels(tmp_path: Path, engine: str) -> None:
    """Inputs and results of layers have a range for each channel, other values a single one."""
    text = """
func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x2xf32> {
  %w = arith.constant dense<[[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]],
    [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]]> : tensor<2x4x2xf32>
  %zeros = arith.constant dense<0.0> : tensor<2x3x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x3x2xf32>
  %relu = arith.maximumf %x, %zeros : tensor<2x3x4xf32>
  %y = linalg.batch_matmul ins(%relu, %w : tensor<2x3x4xf32>, tensor<2x4x2xf32>)
    outs(%init : tensor<2x3x2xf32>) -> tensor<2x3x2xf32>
  return %y : tensor<2x3x2xf32>
}
"""
    (tmp_path / "m.mlir").write_text(text)
    x = np.random.default_rng(0).normal(size=(5, 2, 3, 4)).astype("f4")
    np.savez(tmp_path / "x.npz", x=x)
    profile = tmp_path / "profile.json"
    flags = ["--channels", "--data", str(tmp_path / "x.npz"), "-o", str(profile)]
    assert main([str(tmp_path / "m.mlir"), f"--engine={engine}", *flags]) == 0
    found = Profile.read(profile).values
    assert {key: of.axes for key, of in found.items()} == {
        "x": (2,),
        "relu": (2,),
        "w": (),
        "zeros": (),
        "init": (),
        "y": (),
    }
    assert (found["x"].minima == x.min(axis=(1, 2))).all()
    assert (found["x"].maxima == x.max(axis=(1, 2))).all()
    assert (found["relu"].maxima == np.maximum(x, 0).max(axis=(1, 2))).all()
    assert found["x"].count == x.size
    # The records go on only with the same axes.
    assert main([str(tmp_path / "m.mlir"), f"--engine={engine}", *flags, "--resume"]) == 0
    assert main([str(tmp_path / "m.mlir"), f"--engine={engine}", *flags[1:], "--resume"]) == 1


def test_an_op_that_nothing_runs_names_the_engine_that_may(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.mlir").write_text("""
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = "test.op"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}
""")
    np.savez(tmp_path / "data.npz", x=np.ones((2, 3), "f4"))
    data = ["--data", str(tmp_path / "data.npz"), "--allow-unregistered-dialect"]
    assert main([str(tmp_path / "model.mlir"), *data]) == 1
    told = capsys.readouterr().err
    assert "'test.op' op cannot be run: it has no implementation; with --engine=iree" in told
