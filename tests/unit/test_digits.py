"""examples/digits: from the weights in the repository to accuracies, with few records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qdialect.check.interpreters import TypedArray, find_function, run_function
from qdialect.opt.registry import ToolContext
from qdialect.ptq.tools import evaluate
from qdialect.text import parse_module

FOLDER = Path(__file__).parents[2] / "examples" / "digits"
NAMES = ("data", "models", "train", "run")

pytestmark = pytest.mark.exporters

needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
Script = Callable[[str], Any]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """Imports a script of the example."""
    pytest.importorskip("sklearn.datasets")
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    yield import_module
    for name in NAMES:
        sys.modules.pop(name, None)


def test_a_signal_leaves_nothing_behind(tmp_path: Path) -> None:
    pytest.importorskip("sklearn.datasets")
    command = [sys.executable, str(FOLDER / "run.py")]
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(FOLDER.parents[1]), *sys.path]),
    }
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as process:
        while process.poll() is None and not list(tmp_path.glob("*/*")):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (143, b"")
    assert not list(tmp_path.iterdir())


def weights_of(model: str) -> dict[str, Any]:
    with np.load(FOLDER / f"{model}.npz") as held:
        return dict(held)


def test_the_split_holds_each_image_once(script: Script) -> None:
    split = script("data").load_digits()
    images = np.concatenate([split.training.images, split.evaluation.images])
    assert images.shape == (1797, 1, 8, 8)
    assert (images.min(), images.max()) == (0, 1)
    assert len(split.evaluation.images) == len(split.evaluation.labels) == 600
    datasets: Any = import_module("sklearn.datasets")
    expected = datasets.load_digits().images.astype("f4") / np.float32(16)
    assert sorted(of.tobytes() for of in images) == sorted(of.tobytes() for of in expected)


@needs_jax
@pytest.mark.parametrize("number", [0, 1])
def test_accuracy_in_floats(script: Script, number: int) -> None:
    train = script("train")
    model = script("models").MODELS[number]
    evaluation = script("data").load_digits().evaluation
    assert train.accuracy(model, weights_of(model.name), evaluation) > 97


@needs_jax
@pytest.mark.parametrize("number", [0, 1])
def test_modules_compute_what_the_models_do(script: Script, number: int) -> None:
    model = script("models").MODELS[number]
    context = ToolContext(allow_unregistered=True)
    module = parse_module(context, (FOLDER / f"{model.name}.mlir").read_text())
    (type,) = find_function(module, "main").function_type.inputs
    for image in script("data").load_digits().evaluation.images[:3]:
        (found,) = run_function(module, "main", [TypedArray.of(image.view("u4"), type)], context)
        expected = np.asarray(model.function(weights_of(model.name), image))
        assert np.allclose(found.numbers, expected, rtol=1e-4, atol=1e-4)


@needs_jax
@pytest.mark.parametrize("number", [0, 1])
def test_a_module_is_written_of_weights(script: Script, tmp_path: Path, number: int) -> None:
    """Its values have keys, also those that its function returns."""
    model = script("models").MODELS[number]
    script("train").export(model, weights_of(model.name), tmp_path / "model.mlir")
    text = (tmp_path / "model.mlir").read_text()
    for name in weights_of(model.name):
        assert f'quant.key = "{name}"' in text
    assert "func.call" not in text


@needs_jax
def test_training_learns(script: Script) -> None:
    train = script("train")
    (model, _), digits = script("models").MODELS, script("data").load_digits()
    weights = train.train(model, digits.training, epochs=5)
    assert train.accuracy(model, weights, digits.evaluation) > 90
    again = train.train(model, digits.training, epochs=5)
    assert all((again[name] == of).all() for name, of in weights.items())


@pytest.mark.parametrize(
    ("model", "variants"), [("convolutions", None), ("transformer", ["float"])]
)
def test_variants(
    script: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    variants: list[str] | None,
) -> None:
    run = script("run")
    chosen = [*run.VARIANTS] if variants is None else variants
    monkeypatch.setattr(run, "VARIANTS", {name: run.VARIANTS[name] for name in chosen})
    results = run.run(tmp_path, [model], "reference", 10)
    assert [(of.model, of.variant) for of in results] == [(model, name) for name in chosen]
    least = {"float": np.inf, "s16": 40, "i4 block": 12, "i4 channel": 12, "i4 equalized": 12}
    for of in results:
        assert of.accuracy >= 80
        assert of.agreement >= 80
        assert of.decibels >= least.get(of.variant, 25)
        assert (tmp_path / f"{model}.{of.variant.replace(' ', '-')}.txt").read_text()
    assert (tmp_path / f"{model}.profile.json").exists()


@pytest.mark.iree
def test_engines_find_the_same(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a transformer; only the order of sums differs."""
    run = script("run")
    monkeypatch.setattr(run, "VARIANTS", {name: run.VARIANTS[name] for name in ["i8 channel"]})
    (found,) = run.run(tmp_path, ["transformer"], "reference", 10)
    assert found.accuracy >= 80
    assert found.decibels >= 25
    by_iree = tmp_path / "iree.json"
    modules = (FOLDER / "transformer.mlir", tmp_path / "transformer.i8-channel.mlir")
    flags = ("--data", tmp_path / "evaluation.npz", "--labels=label", "--json", by_iree)
    reading = "--allow-unregistered-dialect"
    assert evaluate.main([*map(str, (*modules, *flags, reading, "--engine=iree"))]) == 0
    held: Any = json.loads(by_iree.read_text())
    (result,) = held["results"]
    decibels = {value["key"]: value["signal_to_noise"] for value in held["values"]}
    assert 100 * result["right"][1] / result["answers"] == found.accuracy
    assert 100 * result["agreeing"] / result["answers"] == found.agreement
    assert decibels[result["key"]] == pytest.approx(found.decibels, abs=0.5)
