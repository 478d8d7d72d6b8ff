"""What is quantized after an equalization has less noise, and its products stay in floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from equalized_modules import Model
from random_networks import powers
from torch_chains import Chain
from xdsl.dialects.func import ReturnOp

from qdialect.dialects.quant import DequantizeCastOp, QuantizeCastOp
from qdialect.ptq.passes.models import QuantizeWithRangesPass

pytestmark = pytest.mark.usefixtures("without_plugins")


def chain_of(seed: int, ended: bool) -> tuple[Chain, Any]:
    """Two layers, whose inputs and rows differ much from channel to channel."""
    random = np.random.default_rng(seed)
    x = (random.normal(size=(64, 8)) * powers(random, 8)).astype("f4")
    first = random.normal(size=(6, 8)) * powers(random, 6)[:, None]
    chain = Chain(x.shape).linear("fc1", first, random.normal(size=6))
    chain = chain.relu6("r") if ended else chain.relu("r")
    return chain.linear("fc2", random.normal(size=(5, 6)), random.normal(size=5)), x


def quantized(model: Model, **options: Any) -> Model:
    QuantizeWithRangesPass(scheme="torch-i8", **options).apply(model.context, model.module)
    model.module.verify()
    return model


def without_last_rounding(model: Model) -> Model:
    """The model that returns what its last layer computes, whose rounding gains nothing."""
    (end,) = (op for op in model.ops if isinstance(op, ReturnOp))
    back = end.operands[0].owner
    assert isinstance(back, DequantizeCastOp)
    quantize = back.input.owner
    assert isinstance(quantize, QuantizeCastOp)
    end.operands[0] = quantize.input
    return model


def decibels(expected: Any, found: Any) -> float:
    return float(10 * np.log10((expected**2).sum() / ((expected - found) ** 2).sum()))


def gains(seed: int, strength: float, *, is_rounded: bool) -> tuple[float, float]:
    """The measured and the expected gain in decibels; `is_rounded` is of the last result."""

    def end(model: Model) -> Model:
        return quantized(model) if is_rounded else without_last_rounding(quantized(model))

    chain, x = chain_of(seed, ended=False)
    plain = Model(chain.text(), [x]).calibrate()
    (expected,) = plain.run()
    (before,) = end(plain).run()
    model = Model(chain.text(), [x]).calibrate().equalize(strength=strength)
    (after,) = end(model).run()
    return decibels(expected, after) - decibels(expected, before), model.report.gain


def test_equalization_wins_what_is_expected() -> None:
    """Never less than noise; and the expectation goes along with what comes."""
    found = np.array([gains(seed, 0.5, is_rounded=True) for seed in range(30)])
    assert (found > -0.5).all()
    assert found.mean(axis=0).min() > 3
    assert np.corrcoef(found.T)[0, 1] > 0.5


def test_what_is_expected_to_lose_does() -> None:
    """With all of the difference on one side, some networks win, and others lose."""
    found = np.array([gains(seed, 1.0, is_rounded=False) for seed in range(50)])
    clear = found[np.abs(found[:, 1]) > 1]
    assert set(np.sign(clear[:, 1])) == {-1, 1}
    assert (np.sign(clear[:, 0]) == np.sign(clear[:, 1])).mean() > 0.8
    assert np.corrcoef(found.T)[0, 1] > 0.6


@pytest.mark.parametrize("input_types", [(), ("u8",)])
def test_products_read_floats(input_types: tuple[str, ...]) -> None:
    """An argument that is declared quantized is dequantized before; nothing else is."""
    chain, x = chain_of(1, ended=True)
    model = Model(chain.text(), [x]).calibrate()
    (expected,) = model.run()
    model.equalize()
    quantized(model, input_types=input_types)
    products = [op for op in model.ops if "quant.float" in op.attributes]
    assert len(products) == 2
    read = [op.operands[0].owner for op in products]
    assert isinstance(read[0], DequantizeCastOp) == bool(input_types)
    assert not isinstance(read[1], DequantizeCastOp)
    for op in products:
        assert any(isinstance(use.operation, QuantizeCastOp) for use in op.results[0].uses)
    if not input_types:
        (after,) = model.run()
        assert decibels(expected, after) > 10


def test_what_a_relu_cuts_off_has_no_noise() -> None:
    """A channel that is mostly negative has large numbers before it, for small ones behind it."""
    random = np.random.default_rng(0)
    x = random.normal(size=(64, 8)).astype("f4")
    chain = Chain(x.shape).linear("fc1", random.normal(size=(6, 8)), [-7.0, 0, 0, 0, 0, 0])
    weights = random.normal(size=(5, 6)) * [8, 1, 1, 1, 1, 1]
    chain = chain.relu("r").linear("fc2", weights)
    plain = Model(chain.text(), [x]).calibrate()
    (expected,) = plain.run()
    model = Model(chain.text(), [x]).calibrate().equalize()
    before, after = (decibels(expected, quantized(of).run()[0]) for of in (plain, model))
    assert after - before > 8
    assert model.report.gain > 8
