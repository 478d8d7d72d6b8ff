"""
Networks of JAX with random weights, quantized by one command: time and memory of each step.

    pip install ".[jax]"
    python benchmarks/models_at_size.py [NAME...]

Each is exported with its weights, and `qdialect quantize` calibrates and evaluates it on records of
random numbers. Prints the processor time and the peak memory (MiB) of each step, the sizes of the
texts (MiB), and the signal to noise.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from qdialect import Quantized
from qdialect.frontends import from_jax
from qdialect.opt.outputs import Output
from qdialect.opt.registry import ToolContext
from qdialect.text import write_module

# The memory of a process is at least that of the one that starts it: only the export has JAX.
jax: Any = import_module("jax") if "--export" in sys.argv else None
jnp: Any = jax and import_module("jax.numpy")

Array = NDArray[Any]


class Weights:
    """Random weights, whose layers keep the variance of what they read."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self.count = 0

    def __call__(self, *shape: int, fan: int | None = None) -> Array:
        self.count += prod(shape)
        numbers = self._random.standard_normal(shape, "f4")
        return numbers * np.float32((2 / (fan or prod(shape[:-1]))) ** 0.5)

    def vector(self, size: int, around: float = 0.0) -> Array:
        self.count += size
        return around + self._random.standard_normal(size, "f4") / 10


def convolution(w: Weights, x: Any, size: int, to: int, stride: int = 1, groups: int = 1) -> Any:
    """A convolution, and a batch normalization as a network for inference has it."""
    channels = x.shape[-1] // groups
    sums = jax.lax.conv_general_dilated(
        x,
        w(size, size, channels, to),
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )
    scale, variance = w.vector(to, 1), abs(w.vector(to, 1))
    normal = (sums - w.vector(to)) * jax.lax.rsqrt(variance + 1e-5)
    return normal * scale + w.vector(to)


def resnet_50(w: Weights, x: Any) -> Any:
    x = jax.nn.relu(convolution(w, x, 7, 64, 2))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for width, blocks, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            stride = first if block == 0 else 1
            y = jax.nn.relu(convolution(w, x, 1, width))
            y = jax.nn.relu(convolution(w, y, 3, width, stride))
            y = convolution(w, y, 1, 4 * width)
            x = jax.nn.relu(y + (x if block else convolution(w, x, 1, 4 * width, stride)))
    return dense(w, x.mean((1, 2)), 1000)


def mobilenet_v2(w: Weights, x: Any) -> Any:
    x = jax.nn.relu6(convolution(w, x, 3, 32, 2))
    blocks = (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1)
    for factor, to, count, first in (*blocks, (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(count):
            y, inner = x, factor * x.shape[-1]
            if factor > 1:
                y = jax.nn.relu6(convolution(w, y, 1, inner))
            y = jax.nn.relu6(convolution(w, y, 3, inner, 1 if block else first, inner))
            y = convolution(w, y, 1, to)
            x = x + y if block else y
    return dense(w, jax.nn.relu6(convolution(w, x, 1, 1280)).mean((1, 2)), 1000)


def dense(w: Weights, x: Any, to: int) -> Any:
    return x @ w(x.shape[-1], to) + w.vector(to)


def layer_norm(w: Weights, x: Any) -> Any:
    width = x.shape[-1]
    return jax.nn.standardize(x, epsilon=1e-6) * w.vector(width, 1) + w.vector(width)


def attention(w: Weights, x: Any, heads: int, *, is_causal: bool = False) -> Any:
    tokens, width = x.shape
    parts = [dense(w, x, width).reshape(tokens, heads, -1).transpose(1, 0, 2) for _ in range(3)]
    scores = parts[0] @ parts[1].transpose(0, 2, 1) * np.float32((width // heads) ** -0.5)
    if is_causal:
        scores = jnp.where(np.tri(tokens, dtype=bool), scores, -1e9)
    mixed = jax.nn.softmax(scores) @ parts[2]
    return dense(w, mixed.transpose(1, 0, 2).reshape(tokens, width), width)


def transformer(w: Weights, x: Any, layers: int, heads: int, *, is_causal: bool = False) -> Any:
    width = x.shape[-1]
    for _ in range(layers):
        x = x + attention(w, layer_norm(w, x), heads, is_causal=is_causal)
        x = x + dense(w, jax.nn.gelu(dense(w, layer_norm(w, x), 4 * width)), width)
    return layer_norm(w, x)


def vit_b_16(w: Weights, image: Any) -> Any:
    patches = image.reshape(14, 16, 14, 16, 3).transpose(0, 2, 1, 3, 4).reshape(196, 768)
    tokens = jnp.concatenate([w(1, 768), dense(w, patches, 768)]) + w(197, 768, fan=768)
    return dense(w, transformer(w, tokens, 12, 12)[:1], 1000)


def bert_base(w: Weights, tokens: Any) -> Any:
    x = jnp.take(w(30522, 768, fan=768), tokens, 0) + w(128, 768, fan=768)
    return transformer(w, x, 12, 12)


def decoder(w: Weights, tokens: Any) -> Any:
    table = w(32000, 1024, fan=1024)
    x = jnp.take(table, tokens, 0) + w(64, 1024, fan=1024)
    return transformer(w, x, 18, 16, is_causal=True) @ w(1024, 32000)


IMAGE: Final = (1, 224, 224, 3)

NETWORKS: Final[Mapping[str, tuple[Callable[[Weights, Any], Any], tuple[int, ...], int]]] = {
    "MobileNetV2": (mobilenet_v2, IMAGE, 0),
    "ResNet-50": (resnet_50, IMAGE, 0),
    "ViT-B/16": (vit_b_16, IMAGE[1:], 0),
    "BERT-base": (bert_base, (128,), 30522),
    "decoder": (decoder, (64,), 32000),
}
"""The function of each, the shape of its argument, and the number of tokens; 0 for an image."""


def export(name: str, path: str) -> None:
    """Write a network as a module, and print the number of its weights."""
    function, shape, count = NETWORKS[name]
    weights, context = Weights(), ToolContext()

    def network(x: Any) -> Any:
        return function(weights, x)

    argument = jax.ShapeDtypeStruct(shape, "int32" if count else "float32")
    module = from_jax(network, argument, context=context)
    with Output(path) as output:
        write_module(context, module, output.stream)
        output.is_good = True
    print(weights.count)


def quantized(name: str, records: int, folder: Path) -> str:
    """What the steps take, and how good the result is."""
    _, shape, count = NETWORKS[name]
    random, many = np.random.default_rng(1), (records, *shape)
    arrays = random.integers(0, count, many) if count else random.standard_normal(many)
    np.save(folder / "records.npy", arrays.astype("i4" if count else "f4"), allow_pickle=False)
    path = str(folder / "float.mlir")
    command = [sys.executable, __file__, "--export", name, path]
    size = int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    exporting = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = exporting.ru_utime + exporting.ru_stime
    steps = Quantized(path, folder / "records.npy", folder=folder / "steps")
    steps.import_model().put_in_order().calibrate().quantize().evaluate()
    told = [f"{step.name} {step.seconds:.1f} s, {step.peak / 2**20:,.0f}" for step in steps.steps]
    before, after = (size / 2**20 for size in steps.sizes)
    return (
        f"{name}, {size / 1e6:.1f} M: export {seconds:.1f} s, {'; '.join(told)}; "
        f"text {before:,.0f}, {after:,.0f}; {steps.signal_to_noise or 0:.1f} dB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*NETWORKS], metavar="NAME")
    parser.add_argument("--records", type=int, default=8)
    parser.add_argument("--export", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.export:
        export(*options.export)
        return
    for name in options.names:
        with TemporaryDirectory() as folder:
            # Each in a process of its own, so that the times of children are its own.
            if len(options.names) > 1:
                command = [sys.executable, __file__, name, f"--records={options.records}"]
                subprocess.run(command, check=True)
            else:
                print(quantized(name, options.records, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
