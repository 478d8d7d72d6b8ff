"""The search for layers that need more than 8 bits."""

from __future__ import annotations

import math
from typing import Any

from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st

from qdialect.ptq.precision_search import (
    STORAGES,
    Candidate,
    Choice,
    candidates_of,
    decibels_of,
    least_raised,
)


def value(key: str, role: str = "activation", storage: str = "u8", **more: Any) -> dict[str, Any]:
    return {"key": key, "role": role, "storage": storage, "rule": "own", "origin": None, **more}


def row(key: str, inputs: list[str], noise: float, elements: int, **more: Any) -> dict[str, Any]:
    return {
        "key": key,
        "inputs": inputs,
        "signal": 100.0,
        "noise": noise,
        "elements": elements,
        "storage": "u8",
        **more,
    }


def test_noise_is_what_an_op_adds_for_each_byte() -> None:
    """
    A layer, its bias and its clamp are one; what no rule is known for is none. An argument is
    raised with what reads it.
    """
    report = {
        "values": [
            value("x", "argument"),
            value("sums", storage="f32", reason="it is quantized only after the bias is added"),
            value("biased", rule="shared", origin="relu"),
            value("relu"),
            value("tanh"),
            value("other", storage="f32", code="unknown-op", reason="no rule"),
            value("w", "weight"),
        ]
    }
    evaluation = {
        "records": 2,
        "values": [
            row("x", [], 1.0, 20),
            row("w", [], 5.0, 60),
            row("sums", ["x", "w"], 3.0, 8, storage="f32"),
            row("biased", ["sums", "b"], 90.0, 8),
            row("relu", ["biased"], 4.0, 8),
            row("tanh", ["relu"], 3.5, 8),
            row("other", ["tanh"], 50.0, 8, storage="f32"),
        ],
    }
    assert candidates_of(report, evaluation) == [
        Candidate(("sums", "biased", "relu"), 4 / 100, (60 + 3 * 8 + 20) // 2, ("x",)),
        Candidate(("tanh",), 0.0, 4),
    ]


CANDIDATES = [Candidate((f"a{number}", f"b{number}"), 1 / 2**number, 1) for number in range(40)]


@examples(100)
@given(st.integers(1, 39), st.sampled_from(STORAGES))
def test_the_fewest_that_are_enough(needed: int, storage: str) -> None:
    """By bisection: the number of tries grows with the number of digits."""
    tried = list[Choice]()
    threshold = (STORAGES.index(storage), needed)

    def score(choice: Choice) -> float:
        tried.append(choice)
        return float((STORAGES.index(choice.storage), choice.raised) >= threshold)

    choice = least_raised(CANDIDATES, score, 1.0)
    assert choice == Choice(storage, needed)
    assert len(tried) <= len(STORAGES) + math.log2(len(CANDIDATES)) + 1
    assert len(set(tried)) == len(tried)


def test_nothing_is_enough() -> None:
    assert least_raised(CANDIDATES, lambda choice: 0.0, 1.0) is None
    assert least_raised([], lambda choice: 1.0, 1.0) is None


def test_settings_are_those_of_a_configuration() -> None:
    assert Choice("int16", 1).settings(CANDIDATES) == {
        "layers": [{"names": ["a0", "b0"], "dtype": "int16", "granularity": "channel"}]
    }
    everything = Choice("int16", len(CANDIDATES)).settings(CANDIDATES)
    assert everything == {"default_quantization_dtype": "int16"}
    settings = Choice("float32", 2).settings(CANDIDATES)
    assert settings["default_quantization_dtype"] == "int16"
    (layer,) = settings["layers"]
    assert (layer["names"], layer["dtype"]) == (["a0", "b0", "a1", "b1"], "float32")


def test_decibels() -> None:
    assert (decibels_of(0.001), decibels_of(0.0)) == (30.0, math.inf)


def test_arguments_get_16_bits_with_what_reads_them() -> None:
    """Once each; they keep the default next to floats."""
    candidates = [Candidate((name,), 1.0, 1, ("x",)) for name in ("a", "b", "c")]
    (layer,) = Choice("int16", 2).settings(candidates)["layers"]
    assert layer["names"] == ["a", "b", "x"]
    (layer,) = Choice("float32", 2).settings(candidates)["layers"]
    assert layer["names"] == ["a", "b"]
