"""Networks with batch normalization, as exporters write them, without it."""

from __future__ import annotations

from importlib import import_module
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
from qdialect.frontends import from_jax, from_torch
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
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d):
            layer.running_mean.normal_(0, 0.3)
            layer.running_var.uniform_(0.5, 2)
            layer.weight.data.uniform_(0.5, 1.5)
            layer.bias.data.normal_(0, 0.3)
    return network.eval(), torch.randn(1, 3, 16, 16)


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
