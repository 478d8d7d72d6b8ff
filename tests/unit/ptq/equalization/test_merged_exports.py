"""Networks with batch normalization, as exporters write them, without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from installed import needs
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from qdialect.check.interpreters import run_function
from qdialect.dialects.arrays.values import TypedArray
from qdialect.folding.report import Outcome, PassReport
from qdialect.frontends import from_jax, from_onnx, from_torch
from qdialect.opt.registry import ToolContext
from qdialect.ptq.passes.weights import FoldBatchNormalizationPass

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]

Array = NDArray[Any]


def fold(module: ModuleOp) -> PassReport:
    context = ToolContext(allow_unregistered=True)
    FoldBatchNormalizationPass().apply(context, module)
    module.verify()
    (report,) = context.fold_reports
    return report


def result_of(module: ModuleOp, argument: Array) -> Array:
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    value = TypedArray.of_numbers(argument, function.function_type.inputs.data[0])
    (result,) = run_function(module, function.sym_name.data, [value], max_steps=10**7)
    return result.numbers


def outcomes(report: PassReport) -> list[Outcome]:
    """Of the layers and normalizations, without weights that were computed, and calls."""
    ends = Outcome.MERGED, Outcome.REFUSED
    records = [record for record in report.records if record.outcome in ends]
    return [record.outcome for record in records if "were computed" not in record.reason]


def set_up(network: Any) -> Any:
    """Give each batch normalization numbers that differ; the network no longer learns."""
    nn: Any = import_module("torch.nn")
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.3)
            layer.running_var.uniform_(0.5, 2)
            layer.weight.data.uniform_(0.5, 1.5)
            layer.bias.data.normal_(0, 0.3)
    return network.eval()


def torch_network() -> tuple[Any, Any]:
    """An inverted residual as in MobileNetV2, a transposed convolution, and a linear layer."""
    torch: Any = import_module("torch")
    nn = torch.nn
    torch.manual_seed(0)

    class Network(nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.first = nn.Sequential(
                nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6()
            )
            self.block = nn.Sequential(
                nn.Conv2d(8, 16, 1, bias=False),
                nn.BatchNorm2d(16),
                nn.ReLU6(),
                nn.Conv2d(16, 16, 3, 1, 1, groups=16, bias=False),
                nn.BatchNorm2d(16),
                nn.ReLU6(),
                nn.Conv2d(16, 8, 1, bias=False),
                nn.BatchNorm2d(8),
            )
            self.up = nn.Sequential(nn.ConvTranspose2d(8, 5, 2, 2), nn.BatchNorm2d(5), nn.ReLU())
            self.last = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU())

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            x = x + self.block(x)
            return self.last(self.up(x).mean((2, 3)))

    network = Network()
    return set_up(network), torch.randn(1, 3, 16, 16)


@needs("torch", "torch_mlir")
@pytest.mark.parametrize("form", ["linalg-on-tensors", "stablehlo", "tosa", "torch"])
def test_forms_of_torch(form: Any) -> None:
    torch: Any = import_module("torch")
    network, argument = torch_network()
    expected = network(argument).detach().numpy()
    module = from_torch(torch.export.export(network, (argument,)), form)
    report = fold(module)
    merged = [record for record in report.records if record.outcome is Outcome.MERGED]
    assert len(merged) == 6
    assert not [record for record in report.records if record.outcome is Outcome.REFUSED]
    if form != "torch":
        result = result_of(module, argument.numpy())
        assert np.abs(result - expected).max() <= 1e-5 * np.ptp(expected)


@needs("torch", "torch_mlir")
@pytest.mark.parametrize("form", ["linalg-on-tensors", "stablehlo", "tosa", "torch"])
@pytest.mark.parametrize("bias", [False, True])
def test_convolutions_in_groups(form: Any, bias: bool) -> None:
    """In TOSA, each group is a convolution of a slice, and a concat joins the results."""
    torch: Any = import_module("torch")
    nn = torch.nn
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(4, 8, 3, groups=2, padding=1, bias=bias),
        *(nn.BatchNorm2d(8), nn.ReLU()),
        nn.Conv2d(8, 12, 1, groups=4, stride=2, bias=bias),
        *(nn.BatchNorm2d(12), nn.ReLU6()),
    )
    argument = torch.randn(2, 4, 8, 8)
    expected = set_up(network)(argument).detach().numpy()
    module = from_torch(torch.export.export(network, (argument,)), form)
    report = assert_merged(module, 2, argument.numpy(), expected, is_run=form != "torch")
    layers = [each for each in report.records if "bias have" in each.reason]
    assert len(layers) == (6 if form == "tosa" else 2)


@needs("jax")
def test_batch_normalization_of_flax() -> None:
    """Flax multiplies by `rsqrt(variance + epsilon) * scale`."""
    jax: Any = import_module("jax")
    random = np.random.default_rng(0)
    shapes = {"w": (3, 3, 3, 8), "v": (8, 5)}
    weights = {name: random.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    rows = {
        length: [random.uniform(0.5, 1.5, length).astype("f4") for _ in range(4)]
        for length in (8, 5)
    }

    def normalized(x: Any) -> Any:
        mean, variance, scale, offset = rows[x.shape[-1]]
        shape = (1,) * (x.ndim - 1) + (-1,)
        factor = jax.lax.rsqrt(variance.reshape(shape) + 1e-5) * scale.reshape(shape)
        return (x - mean.reshape(shape)) * factor + offset.reshape(shape)

    def network(x: Any) -> Any:
        dims = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, weights["w"], (2, 2), "SAME", dimension_numbers=dims)
        x = jax.nn.relu(normalized(x))
        return normalized(x.mean((1, 2)) @ weights["v"])

    argument = random.normal(size=(2, 8, 8, 3)).astype("f4")
    expected = np.asarray(network(argument))
    module = from_jax(network, argument)
    report = fold(module)
    assert sum(record.outcome is Outcome.MERGED for record in report.records) == 2
    result = result_of(module, argument)
    assert np.abs(result - expected).max() <= 1e-5 * np.ptp(expected)


# Before a layer

ROWS = {n: np.random.default_rng(n).uniform(0.5, 1.5, (4, n)).astype("f4") for n in (3, 4, 6, 8)}


def torch_layers() -> Mapping[str, tuple[Any, int]]:
    """Networks with an input of 1x4x8x8, and the number of layers that change."""
    nn: Any = import_module("torch.nn")

    def normal(channels: int = 4) -> Any:
        return nn.BatchNorm2d(channels)

    return {
        "convolution": (nn.Sequential(normal(), nn.Conv2d(4, 6, 3)), 1),
        "no-bias": (nn.Sequential(normal(), nn.Conv2d(4, 6, 3, 2, bias=False)), 1),
        "depthwise": (nn.Sequential(nn.ReLU(), normal(), nn.Conv2d(4, 8, 3, groups=4)), 1),
        "both-sides": (nn.Sequential(normal(), nn.Conv2d(4, 6, 3, dilation=2), normal(6)), 1),
        "linear": (nn.Sequential(normal(), nn.Flatten(), nn.Linear(256, 6)), 1),
        "linear-of-linear": (
            nn.Sequential(nn.Flatten(), nn.Linear(256, 6), nn.ReLU(), nn.BatchNorm1d(6))
            .append(nn.Linear(6, 3, bias=False))
            .append(nn.BatchNorm1d(3)),
            1,
        ),
        # Offsets are not added to padding.
        "padded": (nn.Sequential(normal(), nn.Conv2d(4, 6, 3, padding=1)), 0),
        "transposed": (nn.Sequential(normal(), nn.ConvTranspose2d(4, 6, 3, 2)), 0),
    }


LAYERS = [
    *("convolution", "no-bias", "depthwise", "both-sides"),
    *("linear", "linear-of-linear", "padded", "transposed"),
]


@needs("torch", "torch_mlir")
@pytest.mark.parametrize("form", ["linalg-on-tensors", "stablehlo", "tosa", "torch"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_behind_a_normalization(name: str, form: Any) -> None:
    torch: Any = import_module("torch")
    torch.manual_seed(0)
    network, count = torch_layers()[name]
    argument = torch.randn(2, 4, 8, 8)
    expected = set_up(network)(argument).detach().numpy()
    module = from_torch(torch.export.export(network, (argument,)), form)
    assert_merged(module, count, argument.numpy(), expected, is_run=form != "torch")


def assert_merged(
    module: ModuleOp, count: int, argument: Array, expected: Array, *, is_run: bool = True
) -> PassReport:
    """Nothing stays between layers if one is changed, and the results are as before."""
    report = fold(module)
    found = outcomes(report)
    assert found.count(Outcome.MERGED) >= count
    assert bool(count) != (Outcome.REFUSED in found)
    if is_run:
        result = result_of(module, argument)
        assert np.abs(result - expected).max() <= 1e-5 * np.ptp(expected)
    return report


@needs("torch", "onnx", "iree.compiler")
@pytest.mark.parametrize("opset", [11, 15])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_onnx_behind_a_normalization(name: str, opset: int, tmp_path: Path) -> None:
    torch: Any = import_module("torch")
    torch.manual_seed(0)
    network, count = torch_layers()[name]
    argument = torch.randn(2, 4, 8, 8)
    expected = set_up(network)(argument).detach().numpy()
    path = str(tmp_path / "network.onnx")
    # The exporter itself would merge what is after a convolution.
    kept = torch.onnx.TrainingMode.PRESERVE
    torch.onnx.export(network, (argument,), path, opset_version=opset, dynamo=False, training=kept)
    assert_merged(from_onnx(path), count, argument.numpy(), expected)


@needs("onnx", "iree.compiler")
@pytest.mark.parametrize(("opset", "transposed"), [(9, 0), (13, 1), (15, 0)])
def test_products_of_onnx(opset: int, transposed: int, tmp_path: Path) -> None:
    """A Gemm multiplies its product by alpha, and its bias by beta."""
    onnx: Any = import_module("onnx")
    helper = onnx.helper
    random = np.random.default_rng(opset)
    scale, offset, mean, variance = ROWS[6]
    weights, bias = (random.normal(size=shape).astype("f4") for shape in ((8, 6), (6,)))
    stored = weights.T.copy() if transposed else weights
    names = dict(w=stored, b=bias, s=scale, o=offset, m=mean, v=variance)
    product = helper.make_node(
        "Gemm", ["x", "w", "b"], ["p"], alpha=0.5, beta=2.0, transB=transposed
    )
    normal = helper.make_node("BatchNormalization", ["p", "s", "o", "m", "v"], ["y"], epsilon=1e-3)
    ends = [helper.make_tensor_value_info(name, 1, [2, n]) for name, n in (("x", 8), ("y", 6))]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in names.items()]
    graph = helper.make_graph([product, normal], "main", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
    onnx.save(model, path := str(tmp_path / "product.onnx"))
    argument = random.normal(size=(2, 8)).astype("f4")
    sums = 0.5 * (argument.astype("f8") @ weights) + 2 * bias
    expected = (sums - mean) / np.sqrt(variance + 1e-3) * scale + offset
    assert_merged(from_onnx(path), 1, argument, expected)


def jax_layers() -> Mapping[str, tuple[Callable[[Any], Any], int]]:
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")
    random = np.random.default_rng(0)
    kernel, wide = (random.normal(size=shape).astype("f4") for shape in ((3, 3, 4, 6), (256, 3)))
    bias = random.normal(size=6).astype("f4")

    def flax(x: Any) -> Any:
        mean, variance, scale, offset = ROWS[x.shape[-1]]
        return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * scale) + offset

    def divided(x: Any) -> Any:
        mean, variance, scale, offset = ROWS[x.shape[-1]]
        return scale * (x - mean) / jnp.sqrt(variance + 1e-5) + offset

    def layer(x: Any, padding: str = "VALID") -> Any:
        dims = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), padding, dimension_numbers=dims)

    def layer_norm(x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * ROWS[4][0] + ROWS[4][1]

    return {
        "flax": (lambda x: layer(flax(x)) + bias, 1),
        "divided": (lambda x: flax(layer(divided(jax.nn.relu(x)))), 1),
        "dense": (lambda x: divided(jnp.abs(x)).reshape(2, 256) @ wide, 1),
        "channels-first": (
            lambda x: jnp.einsum("bchw,co->bohw", divided(x).transpose(0, 3, 1, 2), ROWS[6][:, :3]),
            1,
        ),
        "padded": (lambda x: layer(flax(x), "SAME"), 0),
        # It is one function, whatever comes next.
        "layer-norm": (lambda x: layer(layer_norm(x)), 0),
    }


@needs("jax")
@pytest.mark.parametrize(
    "name", ["flax", "divided", "dense", "channels-first", "padded", "layer-norm"]
)
def test_layers_of_jax_behind_a_normalization(name: str) -> None:
    function, count = jax_layers()[name]
    argument = np.random.default_rng(1).normal(size=(2, 8, 8, 4)).astype("f4")
    assert_merged(from_jax(function, argument), count, argument, np.asarray(function(argument)))


@needs("jax")
@pytest.mark.parametrize("seed", range(12))
def test_random_convolutions_behind_a_normalization(seed: int) -> None:
    """Only windows that read padding, or zeros between elements, refuse offsets."""
    jax: Any = import_module("jax")
    random = np.random.default_rng(seed)
    groups, channels, step = (
        int(random.choice(numbers)) for numbers in ((1, 2, 4), (4, 8), (1, 2))
    )
    low, high, between = (int(number) for number in (*random.integers(-1, 2, 2), 1 + seed % 4 // 3))
    scale, offset = random.uniform(0.5, 2, (2, 4)).astype("f4") * [[1], [seed % 3]]
    kernel = random.normal(size=(3, 3, 4 // groups, channels)).astype("f4")

    def layer(x: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x * scale.astype("f4") + offset.astype("f4"),
            kernel,
            window_strides=(step, 1),
            padding=[(low, 0), (0, high)],
            lhs_dilation=(between, 1),
            rhs_dilation=(1, step),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )

    argument = random.normal(size=(2, 8, 8, 4)).astype("f4")
    is_exact = not offset.any() or (max(low, high) <= 0 and between == 1)
    assert_merged(from_jax(layer, argument), int(is_exact), argument, np.asarray(layer(argument)))
