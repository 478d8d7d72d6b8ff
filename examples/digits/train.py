"""
Train both models, and write their weights and modules.

    python examples/digits/train.py

Needs `pip install ".[examples]"`. The weights are in the repository: nobody has to run this.
Seeds are fixed, but other versions of JAX and other processors round otherwise, so that accuracy is
reproduced, and bits are not.
"""

# The libraries have no types, or few.
# pyright: basic

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from data import Digits, load_digits
from models import MODELS, Model, Weights
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp

from qdialect.frontends import from_jax
from qdialect.ops.interface import name_of
from qdialect.opt.registry import ToolContext
from qdialect.passes.inline import InlinePass
from qdialect.ptq.passes.ranges import AttachKeysPass
from qdialect.text import write_module

HERE: Final = Path(__file__).parent

EPOCHS, BATCH, RATE, DECAY = 100, 50, 3e-3, 1e-2


def train(model: Model, digits: Digits, epochs: int = EPOCHS) -> dict[str, NDArray[np.float32]]:
    """Weights of the least cross-entropy, by Adam with weight decay, on images moved at random."""
    random = np.random.default_rng(0)
    weights: Any = {name: jnp.asarray(of) for name, of in model.first_weights(random).items()}
    moments: Any = jax.tree.map(lambda of: (jnp.zeros_like(of), jnp.zeros_like(of)), weights)
    steps = epochs * (len(digits.images) // BATCH)

    def loss(weights: Weights, images: Any, labels: Any) -> Any:
        logits = jax.vmap(model.function, (None, 0))(weights, images)[:, 0]
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(BATCH), labels])

    @jax.jit
    def step(weights: Any, moments: Any, at: Any, images: Any, labels: Any) -> Any:
        gradients = jax.grad(loss)(weights, images, labels)
        rate = RATE * 0.5 * (1 + jnp.cos(jnp.pi * at / steps))
        new_weights, new_moments = dict[str, Any](), dict[str, Any]()
        for name, weight in weights.items():
            mean, square = moments[name]
            mean = 0.9 * mean + 0.1 * gradients[name]
            square = 0.999 * square + 0.001 * gradients[name] ** 2
            corrected = mean / (1 - 0.9 ** (at + 1))
            size = jnp.sqrt(square / (1 - 0.999 ** (at + 1))) + 1e-8
            new_weights[name] = weight - rate * (corrected / size + DECAY * weight)
            new_moments[name] = mean, square
        return new_weights, new_moments

    at = 0
    for _ in range(epochs):
        order = random.permutation(len(digits.images))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            images = _moved(digits.images[chosen], random)
            weights, moments = step(weights, moments, at, images, digits.labels[chosen])
            at += 1
    return {name: np.asarray(of) for name, of in weights.items()}


def _moved(images: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.float32]:
    """Each image moved by one pixel at most in each direction."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    places = random.integers(0, 3, (len(images), 2))
    moved = [
        image[:, row : row + 8, column : column + 8]
        for image, (row, column) in zip(padded, places, strict=True)
    ]
    return np.stack(moved)


def accuracy(model: Model, weights: Weights, digits: Digits) -> float:
    """The share of images whose largest number is that of their digit, in percent."""
    logits: Any = jax.jit(jax.vmap(model.function, (None, 0)))(weights, digits.images)
    return float(100 * np.mean(np.asarray(logits)[:, 0].argmax(axis=-1) == digits.labels))


def export(model: Model, weights: Weights, path: Path) -> None:
    """Write a model as a module whose function takes an image; its values have keys."""
    context = ToolContext(allow_unregistered=True)
    image = jax.ShapeDtypeStruct((1, 8, 8), jnp.float32)

    def classify(image: Any) -> Any:
        return model.function(weights, image)

    module = from_jax(classify, image, context=context)
    InlinePass().apply(context, module)
    _name_values(module, weights)
    AttachKeysPass().apply(context, module)
    with path.open("w", encoding="utf-8") as file:
        write_module(context, module, file)


def _name_values(module: ModuleOp, weights: Weights) -> None:
    """Name constants as the weights that they hold, and other values as their ops."""
    names = {of.tobytes(): name for name, of in weights.items()}
    for op in module.walk():
        for result in op.results:
            held = op.properties.get("value")
            data = held.data.data if isinstance(held, DenseIntOrFPElementsAttr) else b""
            result.name_hint = names.get(data, name_of(op).partition(".")[2])


def main() -> None:
    """Train, or read the weights, and write the modules."""
    parser = argparse.ArgumentParser(description="Train both models, and write what run.py reads.")
    parser.add_argument("--output", type=Path, default=HERE, help="the folder (that of the script)")
    parser.add_argument("--keep-weights", action="store_true", help="write the modules only")
    options = parser.parse_args()
    digits = load_digits()
    for model in MODELS:
        path = options.output / f"{model.name}.npz"
        if not options.keep_weights:
            trained: dict[str, Any] = train(model, digits.training)
            np.savez_compressed(path, **trained)
        with np.load(path) as weights:
            held = dict(weights)
        export(model, held, options.output / f"{model.name}.mlir")
        print(f"{model.name}: {accuracy(model, held, digits.evaluation):.2f} % of held-out images")


if __name__ == "__main__":
    main()
