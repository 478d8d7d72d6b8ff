"""
Equalization and that of PyTorch FX: the same numbers where it is right.

Figures are those of torch 2.13. The tests that are called D1 and H1 to H8 are of what it does
wrong: the range that stays behind, and results that change.
"""

from __future__ import annotations

import json
import re
import warnings
from copy import deepcopy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from equalized_modules import Model, are_close
from example_counts import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_networks import powers
from torch_chains import Chain

from qdialect.ops.along_axis import is_statistics, statistics_of

pytestmark = pytest.mark.usefixtures("without_plugins")

Array = NDArray[Any]

FIGURES = json.loads(
    (Path(__file__).parents[1] / "schemes" / "figures" / "fx_equalization.json").read_text()
)
CASES: dict[str, Any] = {
    str(case["name"]): case for case in (*FIGURES["cases"], *FIGURES["hazard_cases"])
}

X: Array = np.array([[0, -10, 100], [1, 5, -50], [-1, 10, 25], [0.5, -2.5, 0]], "f4")
W1 = np.array(
    [[1, 0.25, -0.0625], [-0.5, 0.5, 0.03125], [0.25, -0.125, 0.015625], [2, -0.75, 0.125]]
)
B1 = np.array([0.5, -1, 2, 0])
W2 = np.array([[0.5, -1, 0.25, 4], [-0.25, 2, 1, -8]])
B2 = np.array([1, -0.5])

HAS_TORCH = find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
torch: Any = import_module("torch") if HAS_TORCH else None


def figures_of(case: Any, kind: str) -> tuple[Any, Any]:
    """The weight and the bias of a layer."""
    of = case["original"]
    return of[f"{kind}.weight"], of.get(f"{kind}.bias")


def constant_of(model: Model, name: str) -> Array:
    """The numbers of the constant of that name."""
    found = [op for op in model.ops if op.results and op.results[0].name_hint == name]
    attribute: Any = found[0].properties.get("value", found[0].attributes.get("value"))
    shape: tuple[int, ...] = attribute.type.get_shape()
    values = np.array(attribute.get_values(), "f4")
    return np.broadcast_to(values, int(np.prod(shape))).reshape(shape)


def range_of(model: Model, name: str) -> tuple[float, float]:
    """The recorded range of a value."""
    for op in model.ops:
        if is_statistics(op) and op.operands[0].name_hint == name:
            shape: Any = op.operands[0].type
            low, high = statistics_of(op, shape.get_shape()).layer
            return float(low), float(high)
    raise AssertionError(f"there is no range of '{name}'")


def checked(chain: Chain, x: Array, **options: Any) -> Model:
    """The module equalized, which computes the same."""
    model = Model(chain.text(), [np.asarray(x, "f4")]).calibrate()
    before = model.run()
    model.equalize(**options)
    assert are_close(before, model.run())
    assert model.check_ranges()
    return model


def check_figures(model: Model, case: Any, names: dict[str, str]) -> None:
    """Scales, weights and biases are those of torch, bit for bit; `names` are those it gives."""
    for key, scale in case["equalization_scales"].items():
        expected = np.array(scale["scale"], "f4")
        found = np.array(model.scales().get(key, np.ones_like(expected)), "f4")
        assert found.tobytes() == expected.tobytes()
    for name, numbers in case["equalized"].items():
        layer, _, kind = str(names.get(name, name)).rpartition(".")
        found = constant_of(model, f"{layer}_{kind}")
        assert found.tobytes() == np.array(numbers, "f4").tobytes(), name


def test_one_linear_layer() -> None:
    case = CASES["01_single_linear"]
    chain = Chain((4, 3)).linear("fc", *figures_of(case, "fc"))
    model = checked(chain, np.array(case["input"]))
    check_figures(model, case, {})
    after = case["activation_observers_after_equalization"]["activation_post_process_0"]
    assert range_of(model, "x_equalized") == (after["min"], after["max"])
    (layer,) = model.report.layers
    assert layer.gain > 0


def test_d1_the_range_between_layers_follows() -> None:
    """torch keeps [-8.25, 20], and the values are in [-5.237, 13.093]."""
    case = CASES["02_two_connected_linear"]
    chain = (
        Chain((4, 3))
        .linear("fc1", *figures_of(case, "fc1"))
        .linear("fc2", *figures_of(case, "fc2"))
    )
    model = checked(chain, np.array(case["input"]))
    check_figures(model, case, {})
    real = case["activation_ranges_of_equalized_graph"]["activation_post_process_1"]
    assert np.allclose(range_of(model, "fc1"), (real["min"], real["max"]), rtol=1e-6)
    assert case["activation_observers_after_equalization"]["activation_post_process_1"]["max"] == 20


def test_degenerate_ranges() -> None:
    """Zero, infinite and undefined scales are 1."""
    case = CASES["05_degenerate_ranges"]
    model = checked(
        Chain((len(case["input"]), 4)).linear("fc", *figures_of(case, "fc")),
        np.array(case["input"]),
    )
    check_figures(model, case, {})


def test_convolutions_with_a_relu_between() -> None:
    case = CASES["06_conv_relu_conv"]
    x = np.array(case["input"])
    chain = Chain(x.shape).conv("c1", *figures_of(case, "c1")).relu("r")
    model = checked(chain.conv("c2", *figures_of(case, "c2")), x)
    check_figures(model, case, {"c1.0.weight": "c1.weight", "c1.0.bias": "c1.bias"})
    real = case["activation_ranges_of_equalized_graph"]["activation_post_process_1"]
    assert np.allclose(range_of(model, "r"), (real["min"], real["max"]), rtol=1e-6)


def test_h1_a_relu_before_a_layer() -> None:
    """torch drops the product and divides the weights: the result is off by 276."""
    case = CASES["H1_relu_first_then_linear"]
    model = checked(
        Chain((4, 3)).relu("r").linear("fc", *figures_of(case, "fc")), np.array(case["input"])
    )
    check_figures(model, case, {})
    assert [op for op in model.ops if "quant.float" in op.attributes]
    assert case["max_abs_diff_float_vs_equalized_float"] > 276


def test_h2_relu6_between_layers() -> None:
    """torch loses the scale between them: the result is off by 20."""
    chain = Chain((4, 3)).linear("fc1", W1, B1).relu6("r").linear("fc2", W2, B2)
    model = checked(chain, X)
    assert model.scales()["fc1"]
    assert model.scales()["fc2"]
    assert not next(of for of in model.report.layers if of.key == "fc1").rows
    products = [op for op in model.ops if "quant.float" in op.attributes]
    assert [op.operands[0].name_hint for op in products] == ["x", "r"]


def test_h3_one_of_two_connected_layers() -> None:
    """torch has the other one provide the scale, which it does not: the result is off by 75."""
    chain = Chain((4, 3)).linear("fc1", W1, B1).linear("fc2", W2, B2)
    model = checked(chain, X, layers=("fc2",))
    assert set(model.scales()) == {"fc2"}
    assert constant_of(model, "fc1_weight").tobytes() == W1.astype("f4").tobytes()
    products = [op for op in model.ops if "quant.float" in op.attributes]
    assert [op.operands[0].name_hint for op in products] == ["fc1"]


@pytest.mark.parametrize("length", [3, 5])
def test_h4_and_h5_the_channels_are_what_is_summed_over(length: int) -> None:
    """torch takes axis 1: a wrong result if it is as long as the last axis, else an error."""
    random = np.random.default_rng(0)
    x = random.normal(size=(2, length, 3)) * [1, 10, 100] * np.arange(1, length + 1)[:, None]
    model = checked(Chain(x.shape).linear("fc", W1, B1), x)
    spans = x.astype("f4").max(axis=(0, 1)) - x.astype("f4").min(axis=(0, 1))
    columns = np.float32(W1.max(axis=0) - W1.min(axis=0))
    assert model.scales()["fc"] == np.sqrt(columns / spans).tolist()


@pytest.mark.parametrize("groups", [2, 4])
def test_h6_convolutions_in_groups(groups: int) -> None:
    """torch stops with an error."""
    random = np.random.default_rng(0)
    x = random.normal(size=(1, 4, 5, 5)) * np.array([1, 10, 0.1, 100])[:, None, None]
    weight = random.normal(size=(8, 4 // groups, 2, 2))
    model = checked(Chain(x.shape).conv("c", weight, np.ones(8), groups), x)
    x, weight = x.astype("f4"), weight.astype("f4")
    expected: list[float] = []
    for channel in range(4):
        group, column = divmod(channel, 4 // groups)
        of = weight[group * (8 // groups) : (group + 1) * (8 // groups), column]
        span = x[:, channel].max() - x[:, channel].min()
        expected.append(float(np.sqrt((of.max() - of.min()) / span)))
    assert model.scales()["c"] == expected


def test_h7_a_pool_between_convolutions() -> None:
    """torch scales the one range of the pool and of the convolution before it, and clips that."""
    random = np.random.default_rng(0)
    x = random.normal(size=(1, 2, 9, 9))
    first = random.normal(size=(3, 2, 2, 2)) * np.array([1, 10, 0.1])[:, None, None, None]
    chain = Chain(x.shape).conv("c1", first, np.ones(3)).max_pool("p", 2)
    model = checked(chain.conv("c2", random.normal(size=(2, 3, 2, 2)), np.ones(2)), x)
    assert next(of for of in model.report.layers if of.key == "c1").rows
    low, high = range_of(model, "c1")
    of_pool = range_of(model, "p")
    assert low <= of_pool[0] <= of_pool[1] <= high


def test_h8_weights_that_belong_to_no_module() -> None:
    """torch fails where they are parameters of a function; a constant is one as any other."""
    case = CASES["01_single_linear"]
    weight, bias = figures_of(case, "fc")
    text = Chain((4, 3)).linear("fc", weight, bias).text()
    model = Model(text.replace("fc_weight", "parameter"), [X]).calibrate().equalize()
    assert constant_of(model, "parameter").tolist() == case["equalized"]["fc.weight"]


def test_a_fork_whose_layers_differ_leaves_what_makes_it() -> None:
    """torch leaves both; here each gets a product, and the layer before its own scales."""
    text = (
        Chain((4, 3))
        .linear("fc1", W1, B1)
        .linear("fc2", W2, B2)
        .text()
        .replace("return %fc2 :", "@@")
    )
    other = Chain((4, 4)).linear("fc3", 3 * W2[:, ::-1], B2)
    lines = "\n  ".join(other.lines).replace("%x,", "%fc1,")
    text = (
        text.partition("@@")[0]
        + lines
        + "\n  return %fc2, %fc3 : tensor<4x2xf32>, tensor<4x2xf32>\n}"
    )
    text = text.replace("-> tensor<4x2xf32> {\n", "-> (tensor<4x2xf32>, tensor<4x2xf32>) {\n", 1)
    model = Model(text, [X]).calibrate()
    before = model.run()
    model.equalize()
    assert are_close(before, model.run())
    assert np.array(model.scales()["fc1"], "f4").tolist() == [
        1.1180340051651,
        0.25,
        0.0353553369641304,
    ]
    assert not model.report.layers[0].rows
    joined = Model(text, [X]).calibrate().equalize(forks="joined")
    assert are_close(before, joined.run())
    assert joined.scales()["fc2"] == joined.scales()["fc3"]
    assert joined.report.layers[0].rows


# Side by side.


@pytest.fixture(autouse=True)
def _without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def equalized_by_torch(module: Any, x: Array) -> tuple[dict[str, Array], dict[str, Array]]:
    """The scales and the parameters of a module that torch has equalized."""
    fx = import_module("torch.ao.quantization.quantize_fx")
    qconfig: Any = import_module("torch.ao.quantization.qconfig")
    mapping: Any = import_module("torch.ao.quantization.qconfig_mapping")
    equalize: Any = import_module("torch.ao.quantization.fx._equalize")
    configured = mapping.QConfigMapping().set_global(qconfig.get_default_qconfig("fbgemm"))
    layers = mapping.QConfigMapping().set_global(equalize.default_equalization_qconfig)
    given = torch.from_numpy(x)
    prepared = fx.prepare_fx(module.eval(), configured, (given,), _equalization_config=layers)
    prepared(given)
    modules = dict(prepared.named_modules(remove_duplicate=False))
    observers = equalize.update_obs_for_equalization(prepared, modules)
    scales = {
        name: observer.equalization_scale.reshape(-1).numpy()
        for name, observer in observers.items()
        if observer is not None
    }
    equalize.convert_eq_obs(prepared, modules, observers)
    return scales, {name: of.detach().numpy() for name, of in prepared.named_parameters()}


@needs_torch
@pytest.mark.exporters
def test_one_column_whose_scale_is_one() -> None:
    """torch leaves that layer alone, also its rows, and the scale of the next layer is lost."""
    layers = [torch.nn.Linear(3, 1), torch.nn.Linear(1, 1), torch.nn.Linear(1, 2)]
    with torch.no_grad():
        for layer in layers:
            layer.weight += 2.0
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("f4")
    chain = Chain(x.shape)
    for at, layer in enumerate(layers):
        chain.linear(f"m{at}", *arrays(layer))
    model = checked(chain, x)
    scales, parameters = equalized_by_torch(torch.nn.Sequential(*layers), x)
    (scale,) = scales["_2"]
    assert (scales["_1"].item(), model.scales()["m2"]) == (1.0, [pytest.approx(float(scale))])
    assert parameters["1.weight"].item() == layers[1].weight.item()
    found = constant_of(model, "m1_weight").item()
    assert found == pytest.approx(layers[1].weight.item() * scale)


def arrays(module: Any) -> tuple[Array, Array]:
    return module.weight.detach().numpy(), module.bias.detach().numpy()


@needs_torch
@pytest.mark.exporters
@examples(15)
@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from(["relu", ""]), min_size=1, max_size=4))
def test_chains_of_linear_layers_beside_torch(seed: int, between: list[str]) -> None:
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    counts = random.integers(2, 6, len(between) + 2)
    x = (random.normal(size=(7, counts[0])) * powers(random, int(counts[0]))).astype("f4")
    chain, modules = Chain(x.shape), list[Any]()
    for at, kind in enumerate([*between, "last"]):
        layer = torch.nn.Linear(int(counts[at]), int(counts[at + 1]))
        modules.append(layer)
        chain.linear(str(f"m{len(modules) - 1}"), *arrays(layer))
        if kind == "relu":
            modules.append(torch.nn.ReLU())
            chain.relu(f"m{len(modules) - 1}")
    compare(chain, torch.nn.Sequential(*modules), x)


@needs_torch
@pytest.mark.exporters
@examples(15)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.booleans())
def test_convolutions_beside_torch(seed: int, dimensions: int, has_relu: bool) -> None:
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    counts = random.integers(2, 5, 3)
    shape = (2, int(counts[0]), *[5] * dimensions)
    spread = powers(random, int(counts[0])).reshape(-1, *[1] * dimensions)
    x = (random.normal(size=shape) * spread).astype("f4")
    conv = getattr(torch.nn, f"Conv{dimensions}d")
    layers = [conv(int(counts[0]), int(counts[1]), 2), conv(int(counts[1]), int(counts[2]), 2)]
    chain = Chain(x.shape).conv("m0", *arrays(layers[0]))
    if has_relu:
        chain.relu("m1")
        layers.insert(1, torch.nn.ReLU())
    chain.conv(f"m{len(layers) - 1}", *arrays(layers[-1]))
    compare(chain, torch.nn.Sequential(*layers), x)


def compare(chain: Chain, module: Any, x: Array) -> None:
    """The same scales and the same weights, up to the rounding of what is between layers."""
    assume(not has_range_of_rounding(module, x))
    model = checked(chain, x)
    scales, parameters = equalized_by_torch(module, x)
    for name, expected in scales.items():
        key = f"m{number_in(name)}"
        found = model.scales().get(key) or [1.0] * len(expected)
        assert np.allclose(found, expected, rtol=2e-5), name
        if key == "m0":
            # What the first layer reads is the same. The square roots of some builds of torch are
            # off by one bit.
            differing = np.array(found, "f4").view("i4") - expected.astype("f4").view("i4")
            assert np.abs(differing).max() <= 1
    for name, expected in parameters.items():
        layer, _, kind = name.rpartition(".")
        found = constant_of(model, f"m{number_in(layer)}_{kind}")
        assert np.allclose(found, expected, rtol=5e-5, atol=1e-7), name


def has_range_of_rounding(module: Any, x: Array) -> bool:
    """
    Whether a layer reads a channel whose numbers differ by little more than rounding.

    Kernels differ in the last bits of sums, in units of their terms. If the terms nearly cancel, or
    the numbers are the bias alone, the range of the channel consists of these bits.
    """
    value, terms = torch.from_numpy(x), torch.from_numpy(np.abs(x))
    for layer in module:
        channels = value.transpose(0, 1).flatten(1)
        extent = channels.amax(1) - channels.amin(1)
        largest = terms.transpose(0, 1).flatten(1).amax(1)
        if ((largest > 0) & (extent <= 5e-3 * largest)).any():
            return True
        of_terms = deepcopy(layer)
        with torch.no_grad():
            for parameter in of_terms.parameters():
                parameter.abs_()
            value, terms = layer(value), of_terms(value.abs())
    return False


def number_in(name: str) -> int:
    """The number of a layer in what torch calls it: `_0`, or `0.0` where it is fused."""
    found = re.search(r"\d+", name)
    assert found is not None
    return int(found[0])


def test_layers_are_the_worst_of_an_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    rows = [{"key": "fc1", "signal_to_noise": 30.5}, {"key": "fc2", "signal_to_noise": 12.0}]
    path.write_text(json.dumps({"format": "qdialect-evaluation", "version": 1, "values": rows}))
    chain = Chain((4, 3)).linear("fc1", W1, B1).linear("fc2", W2, B2)
    model = checked(chain, X, worst=1, evaluation=str(path))
    assert set(model.scales()) == {"fc2"}
    model = checked(chain, X, worst=2, evaluation=str(path))
    assert set(model.scales()) == {"fc1", "fc2"}
    path.write_text(json.dumps({"format": "qdialect-evaluation", "version": 1, "values": rows[:1]}))
    model = checked(chain, X, worst=2, evaluation=str(path))
    assert set(model.scales()) == {"fc1"}
    assert ("no-value", "the evaluation has no signal-to-noise ratio for 'fc2'") in model.refusals()


def test_a_layer_that_there_is_not() -> None:
    model = checked(Chain((4, 3)).linear("fc", W1, B1), X, layers=("fc", "cf"))
    assert model.refusals() == [("no-value", "no layer has the key 'cf'")]


@pytest.mark.parametrize("strength", [0.0, 0.25, 0.5, 1.0])
def test_strength_is_the_exponent(strength: float) -> None:
    model = checked(Chain((4, 3)).linear("fc", W1, B1), X, strength=strength)
    ratios = np.ptp(W1, axis=0) / np.ptp(X, axis=0)
    found = model.scales().get("fc", [1.0] * 3)
    assert np.allclose(found, ratios**strength, rtol=1e-6)


def test_weights_of_connected_layers_without_data() -> None:
    """The rows of one get the magnitudes of the columns of the next, and the input gets none."""
    chain = Chain((4, 3)).linear("fc1", W1, B1).relu("r").linear("fc2", W2, B2)
    model = Model(chain.text(), [X])
    before, count = model.run(), len(model.ops)
    model.equalize(weights_only=True)
    assert are_close(before, model.run())
    assert len(model.ops) == count
    rows = np.abs(constant_of(model, "fc1_weight")).max(axis=1)
    columns = np.abs(constant_of(model, "fc2_weight")).max(axis=0)
    assert np.allclose(rows, columns, rtol=1e-6)
    assert (
        "not-constant",
        "its input is not the result of a layer that is rewritten",
    ) in model.refusals()


@pytest.mark.parametrize("strength", [0.0, 0.25, 0.75, 1.0])
@pytest.mark.parametrize("sweeps", [1, 4, 5])
def test_strength_without_data_is_the_exponent(strength: float, sweeps: int) -> None:
    """However often scales are computed."""
    chain = Chain((4, 3)).linear("fc1", W1, B1).relu("r").linear("fc2", W2, B2)
    model = Model(chain.text(), [X])
    before = model.run()
    model.equalize(weights_only=True, strength=strength, sweeps=sweeps)
    assert are_close(before, model.run())
    ratios = np.abs(W2).max(axis=0) / np.abs(W1).max(axis=1)
    assert np.allclose(model.scales().get("fc2") or [1.0] * 4, ratios**strength, rtol=1e-5)
