"""
A decoder of JAX or of torch whose weights are in files: the module has only their names.

`python examples/weights/decoder.py jax DIR` writes `model.mlir`, files of safetensors, and the
manifest `model.json`. With the default options there are 290 million parameters of random numbers.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from qdialect.weights.tensor_files import writing


def weights_of(layers: int, width: int, words: int) -> dict[str, tuple[int, ...]]:
    """The shapes of all weights: matrices have a row for each result."""
    shapes: dict[str, tuple[int, ...]] = {"embedding": (words, width)}
    for layer in range(layers):
        for name in ("query", "key", "value", "output"):
            shapes[f"layers.{layer}.{name}"] = (width, width)
        for name in ("gate", "up"):
            shapes[f"layers.{layer}.{name}"] = (4 * width, width)
        shapes[f"layers.{layer}.down"] = (width, 4 * width)
    return shapes


def decoder(np: Any, weights: Mapping[str, Any], tokens: Any, heads: int) -> Any:
    """The next words' scores, with the functions that `np` has."""
    mean = {"dim" if np.__name__ == "torch" else "axis": -1}

    def normalized(x: Any) -> Any:
        return x / np.sqrt(np.mean(x * x, **mean)[..., None] + 1e-6)

    x = weights["embedding"][tokens]
    length, width = x.shape
    mask = np.where(np.arange(length)[None, :] <= np.arange(length)[:, None], 0.0, -1e9)
    for layer in range(sum(name.endswith(".query") for name in weights)):
        own = {name: weights[f"layers.{layer}.{name}"] for name in _NAMES}
        joined = np.concatenate([own[name] for name in ("query", "key", "value")])
        both = (normalized(x) @ joined.T).reshape(length, 3, heads, width // heads)
        q, k, v = (both[:, part].swapaxes(0, 1) for part in range(3))
        scores = q @ k.swapaxes(1, 2) / math.sqrt(width // heads) + mask
        shares = np.exp(scores - np.max(scores))
        shares = shares / np.sum(shares, **mean)[..., None]
        x = x + (shares @ v).swapaxes(0, 1).reshape(length, width) @ own["output"].T
        y = normalized(x)
        gate = y @ own["gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ own["up"].T)) @ own["down"].T
    return normalized(x) @ weights["embedding"].T


_NAMES = ("query", "key", "value", "output", "gate", "up", "down")


def of_jax(shapes: Mapping[str, tuple[int, ...]], length: int, heads: int) -> str:
    """The module of JAX, whose first arguments are the weights, in the order of their names."""
    jax: Any = import_module("jax")

    def main(weights: Mapping[str, Any], tokens: Any) -> Any:
        return decoder(jax.numpy, weights, tokens, heads)

    weights = {name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in shapes.items()}
    return jax.jit(main).lower(weights, jax.ShapeDtypeStruct((length,), "int32")).as_text()


def of_torch(shapes: Mapping[str, tuple[int, ...]], length: int, heads: int) -> str:
    """The module of torch-mlir, whose first arguments are the weights, in the same order."""
    torch: Any = import_module("torch")
    fx: Any = import_module("torch_mlir.fx")

    class Main(torch.nn.Module):
        def forward(self, *values: Any) -> Any:
            weights = dict(zip(sorted(shapes), values, strict=False))
            return decoder(torch, weights, values[-1], heads)

    # They take no memory, as nothing is written to them.
    weights = [torch.empty(shapes[name]) for name in sorted(shapes)]
    tokens = torch.empty(length, dtype=torch.int64)
    program = torch.export.export(Main(), (*weights, tokens))
    return str(fx.export_and_import(program, output_type="linalg-on-tensors", func_name="main"))


def main() -> None:
    """Write the module, the weights and the manifest."""
    parser = argparse.ArgumentParser(description="Write a decoder whose weights are in files.")
    parser.add_argument("library", choices=("jax", "torch"))
    parser.add_argument("folder", type=Path)
    for name, number in {"layers": 16, "width": 1024, "words": 32000, "length": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--files", type=int, default=8)
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    shapes = weights_of(options.layers, options.width, options.words)
    export = of_jax if options.library == "jax" else of_torch
    (folder / "model.mlir").write_text(export(shapes, options.length, options.heads))
    random, files, names = np.random.default_rng(0), list[str](), list(shapes)
    for number in range(options.files):
        files.append(f"model-{number + 1:05}-of-{options.files:05}.safetensors")
        own = names[number :: options.files]
        with writing(folder / files[-1], [(name, "F32", shapes[name]) for name in own]) as file:
            for name in own:
                numbers = random.standard_normal(shapes[name], np.float32) / shapes[name][1] ** 0.5
                file.write(name, numbers.reshape(-1).view(np.uint8).data, 0)
            file.finish()
    places = {f"@main/%arg{at}": name for at, name in enumerate(sorted(shapes))}
    content = {
        "format": "qdialect-weights",
        "version": 1,
        "scopes": {"model": files},
        "values": {place: {"scope": "model", "key": name} for place, name in places.items()},
    }
    (folder / "model.json").write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
