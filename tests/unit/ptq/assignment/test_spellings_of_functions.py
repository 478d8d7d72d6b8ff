"""
Functions in many spellings: what the data flow computes decides, not the ops or their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from installed import needs
from recorded_models import record

from qdialect.folding.report import Outcome
from qdialect.frontends import from_jax
from qdialect.opt.registry import ToolContext
from qdialect.passes.inline import InlinePass
from qdialect.ptq.assignment.settings import Settings, precision_of
from qdialect.ptq.assignment.whole_model import quantize_model

pytestmark = [
    pytest.mark.exporters,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("without_plugins"),
    needs("jax"),
]

MASK = np.tril(np.ones((2, 8), bool), 3)
FACTORS = np.linspace(0.5, 1.5, 8, dtype=np.float32)
EIGHTHS = np.full((8, 8), 0.125, np.float32)
ONES = np.ones((8, 1), np.float32)

Function = Callable[[Any], Any]


def names_of(function: Function) -> tuple[list[str], int]:
    """The names of functions of several ops, and the number of other ops with their own range."""
    jax: Any = import_module("jax")
    module = from_jax(function, jax.ShapeDtypeStruct((2, 8), "float32"))
    context = ToolContext(allow_unregistered=True)
    InlinePass().apply(context, module)
    record(module)
    report = quantize_model(module, context, lambda keys: Settings(precision_of("one-u8")))
    reasons = [each.reason for each in report.records if each.outcome is Outcome.QUANTIZED]
    named = [found[1] for each in reasons if (found := re.match("(.*) of [0-9]+ ops:", each))]
    others = [each for each in reasons if " ops: " not in each and each.endswith("', own")]
    return sorted(named), len(others)


def spellings() -> Mapping[str, Mapping[str, Function]]:
    """Functions, by their names and their spellings."""
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")
    nn, lax = jax.nn, jax.lax
    sparse = np.maximum(FACTORS - 1, 0)

    def log_sum(x: Any, b: Any) -> Any:
        return jax.scipy.special.logsumexp(x, -1, b=b, keepdims=True)

    def total(x: Any, axis: int | None = -1) -> Any:
        return jnp.sum(x, axis, keepdims=True)

    def mean(x: Any, axis: int = -1) -> Any:
        return jnp.mean(x, axis, keepdims=True)

    def most(x: Any, axis: int | None = -1) -> Any:
        return jnp.max(x, axis, keepdims=True)

    def binary(x: Any) -> Any:
        return x * 1.4426950408889634

    def through(function: Function, inner: Function) -> Function:
        return lambda x: function(inner(x))

    def share(e: Any) -> Any:
        return e / total(e)

    def variance(x: Any) -> Any:
        return mean((x - mean(x)) ** 2)

    def centered(x: Any, average: Function) -> Any:
        d = x - average(x)
        return d * lax.rsqrt(average(d * d) + 1e-5) * FACTORS + FACTORS

    def by_sums(d: Any) -> Any:
        return d * (1 / jnp.sqrt(total(d * d) * 0.125 + 1e-5))

    return {
        "softmax": {
            "no-maximum": through(share, jnp.exp),
            "minus-mean": lambda x: share(jnp.exp(x - mean(x))),
            "two-exponentials": lambda x: jnp.exp(x - most(x)) / total(jnp.exp(x - most(x))),
            "first-axis": lambda x: jnp.exp(x - most(x, 0)) / total(jnp.exp(x - most(x, 0)), 0),
            "all-axes": lambda x: jnp.exp(x - jnp.max(x)) / jnp.sum(jnp.exp(x - jnp.max(x))),
            "axis-by-axis": lambda x: jnp.exp(x) / total(total(jnp.exp(x), 0), 1),
            "power-of-sum": lambda x: jnp.exp(x) * total(jnp.exp(x)) ** -1.0,
            "powers-of-two": lambda x: share(jnp.exp2(binary(x) - most(binary(x)))),
            "mean-of-exponentials": lambda x: jnp.exp(x) / (mean(jnp.exp(x)) * 8),
            "minus-logarithm": lambda x: jnp.exp(x - nn.logsumexp(x, -1, keepdims=True)),
            "of-log-softmax": through(jnp.exp, nn.log_softmax),
            "product-of-exponentials": lambda x: jnp.exp(x) * jnp.exp(-jnp.log(total(jnp.exp(x)))),
            "weighted-on-both-sides": lambda x: share(jnp.exp(x - most(x)) * sparse),
            "lowest-mask": lambda x: nn.softmax(jnp.where(MASK, x, -1e30)),
            "sum-by-product": lambda x: jnp.exp(x) / (jnp.exp(x) @ ONES),
            "mean-by-product": lambda x: (
                jnp.exp(x - x @ EIGHTHS) / (jnp.exp(x - x @ EIGHTHS) @ ONES)
            ),
            "mask-of-exponentials": lambda x: share(jnp.where(MASK, jnp.exp(x - most(x)), 0.0)),
        },
        # Divided by a sum of other exponentials, it may exceed 1.
        "weighted softmax": {
            "of-jax": lambda x: jnp.exp(x - log_sum(x, FACTORS)),
            "zeros": lambda x: jnp.exp(x - log_sum(x, sparse)),
            "one-weight": lambda x: jnp.exp(x - log_sum(x, 0.125)),
            "by-hand": lambda x: jnp.exp(x - jnp.log(total(jnp.exp(x) * FACTORS))),
        },
        "log-softmax": {
            "weighted": lambda x: x - log_sum(x, FACTORS),
            "parts": lambda x: x - most(x) - jnp.log(total(jnp.exp(x - most(x)))),
            "minus-log-sum": lambda x: x - nn.logsumexp(x, -1, keepdims=True),
            "of-softmax": through(jnp.log, nn.softmax),
        },
        "log-sum-exp": {
            "by-hand": lambda x: jnp.log(total(jnp.exp(x - most(x)))) + most(x),
            "no-maximum": lambda x: jnp.log(total(jnp.exp(x))),
            "weighted": lambda x: log_sum(x, FACTORS),
            "weighted-by-hand": lambda x: jnp.log(total(FACTORS * jnp.exp(x - most(x)))) + most(x),
            "zeros": lambda x: log_sum(x, sparse),
            "of-mean": lambda x: jnp.log(mean(jnp.exp(x - most(x)))) + most(x),
        },
        "normalization": {
            "offset-of-factor": lambda x: (
                x * (lax.rsqrt(variance(x) + 1e-5) * FACTORS)
                + (FACTORS - mean(x) * lax.rsqrt(variance(x) + 1e-5) * FACTORS)
            ),
            "standard-deviation": lambda x: (x - mean(x)) / (jnp.std(x, -1, keepdims=True) + 1e-5),
            "sums": lambda x: by_sums(x - total(x) * 0.125),
            "times-length": lambda x: (
                (8 * x - total(x)) / jnp.sqrt(8 * total(x * x) - total(x) ** 2 + 1e-5)
            ),
            "affine-first": lambda x: (
                FACTORS + FACTORS * (x - mean(x)) / jnp.sqrt(variance(x) + 1e-5)
            ),
            "power": lambda x: (x - mean(x)) * (variance(x) + 1e-5) ** -0.5 * FACTORS,
            "exponential-of-logarithm": lambda x: (
                (x - mean(x)) * jnp.exp(-0.5 * jnp.log(variance(x) + 1e-5))
            ),
            "squares-by-einsum": lambda x: (
                x * lax.rsqrt(jnp.einsum("bi,bi->b", x, x)[:, None] / 8 + 1e-6)
            ),
            "means-by-column": lambda x: centered(x, lambda y: y @ EIGHTHS[:, :1]),
            "means-by-vector": lambda x: centered(x, lambda y: (y @ EIGHTHS[0])[:, None]),
            "means-by-square": lambda x: centered(x, lambda y: y @ EIGHTHS),
            "means-on-the-left": lambda x: centered(x, lambda y: EIGHTHS[:2, :2] * 4 @ y),
            "scaled-sums": lambda x: by_sums(x - x @ ONES * 0.125),
            "squares-by-product": lambda x: x * lax.rsqrt((x * x) @ ONES / 8 + 1e-6) * FACTORS,
            "one-plus-factors": lambda x: x * lax.rsqrt(mean(jnp.square(x)) + 1e-6) * (1 + FACTORS),
            "length": lambda x: x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12),
            "length-one": lambda x: x / total(jnp.abs(x)),
            "greatest": lambda x: x / most(jnp.abs(x)),
            "of-a-batch": lambda x: (
                (x - mean(x, 0)) * lax.rsqrt(mean(x * x, 0) - mean(x, 0) ** 2 + 1e-5) * FACTORS
            ),
            # As a softmax, but for its range.
            "one-more": lambda x: jnp.exp(x) / (1 + total(jnp.exp(x))),
            "other-exponential": lambda x: jnp.exp(x) / total(jnp.exp(2 * x)),
            "maximum-left-over": lambda x: jnp.exp(x - most(x)) / total(jnp.exp(x)),
            "sum-of-other-part": lambda x: jnp.exp(x[:, :4]) / total(jnp.exp(x[:, 4:])),
            "sum-of-unmasked": lambda x: jnp.exp(x) / total(jnp.where(MASK, jnp.exp(x), 0.0)),
            "other-axes": lambda x: (
                jnp.exp(x.reshape(4, 4)) / total(jnp.exp(x.reshape(4, 4).transpose()))
            ),
            "not-exponential": lambda x: nn.relu(x) / total(nn.relu(x)),
        },
        "batch normalization": {
            "factor-and-offset": lambda x: x * FACTORS + np.flip(FACTORS),
            "added-mean": lambda x: (x + FACTORS) * np.flip(FACTORS) + FACTORS,
            "divided": lambda x: (x - FACTORS) / np.flip(FACTORS),
        },
        "sigmoid": {
            "quotient": lambda x: jnp.exp(x) / (1 + jnp.exp(x)),
            "tangent": lambda x: 0.5 * jnp.tanh(0.5 * x) + 0.5,
            "power": lambda x: (1 + jnp.exp(-x)) ** -1.0,
            "from-one": lambda x: 1 - 1 / (1 + jnp.exp(x)),
        },
        "tanh": {
            "exponentials": lambda x: (jnp.exp(x) - jnp.exp(-x)) / (jnp.exp(x) + jnp.exp(-x)),
            "one-exponential": lambda x: (jnp.exp(2 * x) - 1) / (jnp.exp(2 * x) + 1),
            "sigmoid": lambda x: 2 * nn.sigmoid(2 * x) - 1,
        },
        "hard sigmoid": {
            "fifths": lambda x: jnp.clip(0.2 * x + 0.5, 0, 1),
            "clamped-first": lambda x: jnp.minimum(jnp.maximum(x + 3, 0), 6) * (1 / 6),
            "upper-end-first": lambda x: jnp.maximum(jnp.minimum(x / 6 + 0.5, 1), 0),
        },
        "softplus": {"exponential-first": lambda x: jnp.log(jnp.exp(x) + 1)},
        "length": {
            "root-of-sum": lambda x: jnp.sqrt(total(x * x)),
            "root-of-mean": lambda x: jnp.sqrt(mean(jnp.square(x)) + 1e-6),
            "of-two-numbers": lambda x: jnp.sqrt(x[:, :4] ** 2 + x[:, 4:] ** 2),
            "power": lambda x: total(x * x) ** 0.5,
            "sum-by-product": lambda x: jnp.sqrt((x * x) @ ONES),
        },
        "clamp": {
            "choices": lambda x: jnp.where(x < 0, 0.0, jnp.where(x > 6, 6.0, x)),
        },
        "gate": {
            "silu-quotient": lambda x: x / (1 + jnp.exp(-x)),
            "silu-tangent": lambda x: 0.5 * x * (1 + jnp.tanh(0.5 * x)),
            "quick-gelu": lambda x: x * nn.sigmoid(1.702 * x),
            "gelu-complement": lambda x: 0.5 * x * lax.erfc(-x * np.float32(np.sqrt(0.5))),
            "hard-swish-sixths": lambda x: x * jnp.clip(x / 6 + 0.5, 0, 1),
            "elu-of-parts": lambda x: jnp.maximum(x, 0) + jnp.expm1(jnp.minimum(x, 0)),
            "leaky-absolute": lambda x: 0.55 * x + 0.45 * jnp.abs(x),
            "mish-of-exponentials": lambda x: (
                x * (jnp.exp(x) * (jnp.exp(x) + 2)) / (jnp.exp(x) * (jnp.exp(x) + 2) + 2)
            ),
            "soft-shrink": lambda x: jnp.where(x > 0.5, x - 0.5, jnp.where(x < -0.5, x + 0.5, 0.0)),
        },
    }


SPELLINGS = {
    "softmax": (
        "no-maximum minus-mean two-exponentials first-axis all-axes axis-by-axis power-of-sum "
        "powers-of-two mean-of-exponentials minus-logarithm of-log-softmax "
        "product-of-exponentials weighted-on-both-sides lowest-mask sum-by-product "
        "mean-by-product mask-of-exponentials"
    ),
    "weighted softmax": "of-jax zeros one-weight by-hand",
    "log-softmax": "weighted parts minus-log-sum of-softmax",
    "log-sum-exp": "by-hand no-maximum weighted weighted-by-hand zeros of-mean",
    "normalization": (
        "offset-of-factor standard-deviation sums times-length affine-first power "
        "exponential-of-logarithm squares-by-einsum means-by-column means-by-vector "
        "means-by-square means-on-the-left scaled-sums squares-by-product one-plus-factors "
        "length length-one greatest of-a-batch one-more other-exponential maximum-left-over "
        "sum-of-other-part sum-of-unmasked other-axes not-exponential"
    ),
    "batch normalization": "factor-and-offset added-mean divided",
    "sigmoid": "quotient tangent power from-one",
    "tanh": "exponentials one-exponential sigmoid",
    "hard sigmoid": "fifths clamped-first upper-end-first",
    "softplus": "exponential-first",
    "length": "root-of-sum root-of-mean of-two-numbers power sum-by-product",
    "clamp": "choices",
    "gate": (
        "silu-quotient silu-tangent quick-gelu gelu-complement hard-swish-sixths elu-of-parts "
        "leaky-absolute mish-of-exponentials soft-shrink"
    ),
}


@pytest.mark.parametrize(
    ("name", "spelling"),
    [(name, each) for name, them in SPELLINGS.items() for each in them.split()],
)
def test_spellings(name: str, spelling: str):
    found, others = names_of(spellings()[name][spelling])
    assert (found, others) == ([name], 0)


def test_all_spellings_are_tested():
    assert {name: " ".join(them) for name, them in spellings().items()} == SPELLINGS


@pytest.mark.parametrize("name", ["negative", "computed", "scaled"])
def test_sums_that_are_of_other_than_exponentials(name: str):
    """Weights may be negative, or no constants; a scaled softmax is one in its own range."""
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")

    def log_sum(x: Any, b: Any) -> Any:
        return jnp.log(jnp.abs(jnp.sum(jnp.exp(x) * b, -1, keepdims=True)))

    functions: Mapping[str, tuple[Function, list[str]]] = {
        "negative": (lambda x: log_sum(x, FACTORS - 1), []),
        "computed": (lambda x: log_sum(x[:, :4], x[:, 4:]), ["gate"]),
        "scaled": (lambda x: jax.nn.softmax(x) * FACTORS, ["softmax"]),
    }
    function, names = functions[name]
    assert names_of(function)[0] == names


SEPARATE = ["residual", "absolute", "polynomial", "times-mean", "plus-mean", "variance", "excited"]


@pytest.mark.parametrize("name", SEPARATE)
def test_layers_stay_separate(name: str):
    jnp: Any = import_module("jax.numpy")
    functions: Mapping[str, Function] = {
        "residual": lambda x: x + jnp.tanh(x),
        "absolute": lambda x: x + jnp.abs(x),
        "polynomial": lambda x: x * x + x,
        "times-mean": lambda x: x * jnp.mean(x, -1, keepdims=True),
        "plus-mean": lambda x: x + jnp.mean(x, -1, keepdims=True),
        "variance": lambda x: jnp.var(x, -1),
        "excited": lambda x: x * jnp.tanh(jnp.mean(x, -1, keepdims=True)),
    }
    assert names_of(functions[name])[0] == []


@pytest.mark.parametrize("name", ["unequal", "wide", "exchanged", "added", "centering"])
def test_products_that_are_no_sums(name: str):
    """They are layers."""
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")
    columns = {1: EIGHTHS[:, :1] * FACTORS[:, None], 2: EIGHTHS[:, :2]}

    def normalized(x: Any, average: Function) -> Any:
        return x * jax.lax.rsqrt(average(x * x) + 1e-6)

    def exchanged(x: Any) -> Any:
        """The sums are along the other axis, which has the same length."""
        powers = jnp.exp(jnp.pad(x, ((0, 6), (0, 0))))
        return powers / jax.lax.dot_general(np.ones((8, 8), "f4"), powers, (([1], [1]), ([], [])))

    functions: Mapping[str, Function] = {
        "unequal": lambda x: normalized(x, lambda y: y @ columns[1]),
        "wide": lambda x: normalized(x, lambda y: (y @ columns[2])[:, :1]),
        "exchanged": exchanged,
        "added": lambda x: x + x @ EIGHTHS,
        "centering": lambda x: x @ (np.eye(8, dtype="f4") - EIGHTHS),
    }
    assert names_of(functions[name])[0] == []


@pytest.mark.parametrize("number", range(5))
def test_functions_side_by_side(number: int):
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")

    def normalized(x: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)

    functions: list[tuple[Function, list[str], int]] = [
        (lambda x: jax.nn.softmax(normalized(x)), ["normalization", "softmax"], 0),
        (lambda x: x + jax.nn.softmax(x), ["softmax"], 1),
        (lambda x: normalized(jax.nn.gelu(x)) + x, ["gate", "normalization"], 1),
        # A relu6 is no part of a hard sigmoid, whatever it clamps.
        (lambda x: jax.nn.relu6(x * FACTORS + FACTORS) / 6, ["batch normalization", "clamp"], 1),
        (lambda x: jax.nn.relu6(x + 1), ["clamp"], 0),
    ]
    function, names, others = functions[number]
    assert names_of(function) == (names, others)
