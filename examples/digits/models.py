"""
Two small classifiers of scikit-learn's digits, in JAX: what they compute, and their first weights.

Images have 8 by 8 pixels, from 0 to 1. A model takes one image, and returns a number for each
digit.
"""

# The libraries have no types, or few.
# pyright: basic

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

Weights = Mapping[str, Any]
"""Arrays by name, of numpy or of JAX."""

CHANNELS: Final = (16, 32)
"""Of the convolutions."""

PATCH, WIDTH, HEADS, HIDDEN = 2, 32, 4, 64
"""Of the transformer: pixels of a side of a patch, numbers of a token, heads, and hidden units."""

TOKENS: Final = (8 // PATCH) ** 2


class Model(NamedTuple):
    """A model, and how its training starts."""

    name: str
    function: Callable[[Weights, Any], Any]
    """From weights and an image of shape (1, 8, 8) to (1, 10) numbers."""
    first_weights: Callable[[np.random.Generator], dict[str, NDArray[np.float32]]]


def convolutions(weights: Weights, image: Any) -> Any:
    """Two convolutions with bias and relu, a max pool, and a matrix product."""
    x = image[..., None]
    for layer in ("conv1", "conv2"):
        with jax.named_scope(layer):
            x = jax.lax.conv_general_dilated(
                x, weights[layer], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jnp.maximum(x + weights[f"{layer}_bias"], 0)
    with jax.named_scope("pool"):
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    with jax.named_scope("classes"):
        return x.reshape(1, -1) @ weights["classes"] + weights["classes_bias"]


def first_convolutions(random: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Random weights, and biases of zero."""
    first, second = CHANNELS
    return {
        "conv1": _normal(random, 9, (3, 3, 1, first)),
        "conv1_bias": np.zeros(first, np.float32),
        "conv2": _normal(random, 9 * first, (3, 3, first, second)),
        "conv2_bias": np.zeros(second, np.float32),
        "classes": _normal(random, 16 * second, (16 * second, 10)),
        "classes_bias": np.zeros(10, np.float32),
    }


def transformer(weights: Weights, image: Any) -> Any:
    """A block of attention and a block of gelu, on patches as tokens, and a matrix product."""
    side = 8 // PATCH
    with jax.named_scope("tokens"):
        patches = image.reshape(side, PATCH, side, PATCH).transpose(0, 2, 1, 3)
        x = patches.reshape(TOKENS, PATCH * PATCH) @ weights["tokens"] + weights["positions"]
    with jax.named_scope("attention"):
        normal = _layer_norm(x, weights, "attention_norm")
        query, key, value = (_heads(normal @ weights[name]) for name in ("query", "key", "value"))
        scores = query @ key.transpose(0, 2, 1) * np.float32((WIDTH // HEADS) ** -0.5)
        mixed = (_softmax(scores) @ value).transpose(1, 0, 2).reshape(TOKENS, WIDTH)
        x = x + mixed @ weights["mixed"]
    with jax.named_scope("hidden"):
        normal = _layer_norm(x, weights, "hidden_norm")
        x = x + _gelu(normal @ weights["up"] + weights["up_bias"]) @ weights["down"]
    with jax.named_scope("classes"):
        normal = _layer_norm(x, weights, "classes_norm").reshape(1, -1)
        return normal @ weights["classes"] + weights["classes_bias"]


def first_transformer(random: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Random weights, and biases of zero."""
    pixels = PATCH * PATCH
    return {
        "tokens": _normal(random, pixels, (pixels, WIDTH)),
        "positions": _normal(random, WIDTH, (TOKENS, WIDTH)),
        **_first_norm("attention_norm"),
        **{name: _normal(random, WIDTH, (WIDTH, WIDTH)) for name in ("query", "key", "value")},
        "mixed": _normal(random, WIDTH, (WIDTH, WIDTH)),
        **_first_norm("hidden_norm"),
        "up": _normal(random, WIDTH, (WIDTH, HIDDEN)),
        "up_bias": np.zeros(HIDDEN, np.float32),
        "down": _normal(random, HIDDEN, (HIDDEN, WIDTH)),
        **_first_norm("classes_norm"),
        "classes": _normal(random, TOKENS * WIDTH, (TOKENS * WIDTH, 10)),
        "classes_bias": np.zeros(10, np.float32),
    }


MODELS: Final = (
    Model("convolutions", convolutions, first_convolutions),
    Model("transformer", transformer, first_transformer),
)


def _normal(
    random: np.random.Generator, summed: int, shape: tuple[int, ...]
) -> NDArray[np.float32]:
    """Weights whose products keep the size of numbers, where so many are summed."""
    return (random.normal(size=shape) * summed**-0.5).astype(np.float32)


def _first_norm(name: str) -> dict[str, NDArray[np.float32]]:
    return {f"{name}_scale": np.ones(WIDTH, "f4"), f"{name}_shift": np.zeros(WIDTH, "f4")}


def _layer_norm(x: Any, weights: Weights, name: str) -> Any:
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = (centered * centered).mean(axis=-1, keepdims=True)
    normal = centered * jax.lax.rsqrt(variance + 1e-5)
    return normal * weights[f"{name}_scale"] + weights[f"{name}_shift"]


def _heads(x: Any) -> Any:
    return x.reshape(TOKENS, HEADS, WIDTH // HEADS).transpose(1, 0, 2)


def _softmax(x: Any) -> Any:
    powers = jnp.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
