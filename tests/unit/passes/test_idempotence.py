"""Each pass, run twice, does what it does when it is run once."""

from __future__ import annotations

from typing import Any

import pytest
from dequantizing_arithmetic import Module
from example_counts import examples
from hypothesis import HealthCheck, given, note
from hypothesis import strategies as st
from random_graphs import graphs as casts_and_shapes
from random_models import graphs, models
from random_modules import functions, module_text
from random_networks import random_network
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, PassFailedException

import qdialect.passes as passes
from qdialect.passes import PASSES

pytestmark = pytest.mark.usefixtures("without_plugins", "all_is_large")

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "convert-ranges": [{"to": "calibrated"}, {"to": "stats"}],
    "equalize-inputs": [{}, {"weights_only": True}],
    "lower-dequantization": [{"to": "arith"}],
    "lower-quant-ops": [{}, {"keep_round_trips": True}],
    # Other schemes have other scales for what they rounded.
    "quantize-dequantize-weights": [{"scheme": "luci"}],
    "quantize-weights": [{}, {"granularity": "block", "block_size": 2}],
    "quantize-with-ranges": [
        {},
        {"scheme": "torch-i8", "output_types": ("u8",)},
        {"scheme": "one-s16", "input_types": ("u8",)},
        {"scheme": "glow-i8", "granularity": "block", "block_size": 2},
    ],
    "shift-storage": [{"from_": "i8", "to": "u8"}],
}
"""The options that a pass is run with, if not only by default."""

NEXT_RUN_FOLDS_AS_IN_MLIR = ("strip-func-quant-types",)
"""MLIR's pass, whose ops this one equals, also makes casts that only its next run folds."""

CASES = [
    (flag, options)
    for flag in PASSES
    if flag != "attach-ranges"
    for options in OPTIONS.get(flag, [{}])
]


def run(module: Module, flag: str, options: dict[str, Any]) -> str:
    """The module after a pass."""
    flagged: ModulePass = getattr(passes, PASSES[flag])(**options)
    flagged.apply(module.context, module.module)
    module.module.verify()
    return module.printed()


def texts() -> st.SearchStrategy[str]:
    """Functions of floats with recorded ranges, and of quantized values with shape ops."""
    networks = st.integers(0, 999).map(random_network).map(lambda net: net[0].text(net[1]))
    return st.one_of(
        graphs().map(lambda graph: graph[0]),
        models(),
        networks,
        casts_and_shapes().map(lambda graph: graph.text),
        functions().map(lambda function: module_text([function])),
    )


@examples(150, suppress_health_check=list(HealthCheck))
@given(texts(), st.sampled_from(CASES))
def test_running_twice_is_once(text: str, case: tuple[str, dict[str, Any]]):
    flag, options = case
    note(f"{flag} {options}\n{text}")
    module = Module(text)
    try:
        once = run(module, flag, options)
    except (PassFailedException, DiagnosticException):
        # The pass refuses the module.
        return
    for _ in range(once.count("cast ") if flag in NEXT_RUN_FOLDS_AS_IN_MLIR else 0):
        once = run(module, flag, options)
    note(once)
    assert run(module, flag, options) == once
