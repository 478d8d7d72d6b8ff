"""Functions as JAX and torch-mlir write them: one node each, with nothing quantized inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from installed import needs
from recorded_models import record
from xdsl.dialects.builtin import ModuleOp

from qdialect.dialects.quant import QuantizeCastOp
from qdialect.folding.report import Outcome
from qdialect.frontends import from_jax, from_onnx, from_torch
from qdialect.opt.registry import ToolContext
from qdialect.passes.inline import InlinePass
from qdialect.ptq.assignment.settings import Settings, precision_of
from qdialect.ptq.assignment.whole_model import quantize_model
from qdialect.text import parse_module

pytestmark = [
    pytest.mark.exporters,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("without_plugins"),
]

MASK = np.tril(np.ones((2, 8), bool), 3)
FACTORS = np.linspace(0.5, 1.5, 8, dtype=np.float32)


def check(module: ModuleOp, name: str) -> None:
    """One function of that name is found; what is quantized beside it only moves or converts."""
    context = ToolContext(allow_unregistered=True)
    InlinePass().apply(context, module)
    record(module)
    report = quantize_model(module, context, lambda keys: Settings(precision_of("one-u8")))
    reasons = [each.reason for each in report.records if each.outcome is Outcome.QUANTIZED]
    named = [found[1] for each in reasons if (found := re.match("(.*) of [0-9]+ ops:", each))]
    assert named == [name]
    others = [each for each in reasons if " ops: " not in each]
    assert all(each.endswith(("', moved", "', shared")) for each in others), others
    casts = [op for op in module.walk() if isinstance(op, QuantizeCastOp)]
    assert len(casts) == 2 + len(others)
    if name == "softmax":
        (whole,) = (each for each in reasons if " ops: " in each)
        assert "0.0039215688593685627" in whole


def jax_functions() -> Mapping[str, tuple[str, Callable[[Any], Any]]]:
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")
    nn = jax.nn

    def layer_norm(x: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)

    def flax_layer_norm(x: Any) -> Any:
        mean, squares = (jnp.mean(each, -1, keepdims=True) for each in (x, jnp.square(x)))
        variance = jnp.maximum(0.0, squares - jnp.square(mean))
        return (x - mean) * (jax.lax.rsqrt(variance + 1e-6) * FACTORS) + FACTORS

    def softmax(x: Any) -> Any:
        powers = jnp.exp(x - jnp.max(x, -1, keepdims=True))
        return powers * (1 / jnp.sum(powers, -1, keepdims=True))

    def rms(x: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * FACTORS

    def group_norm(x: Any, shape: tuple[int, ...], axes: Any) -> Any:
        x = x.reshape(shape)
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
        factors = FACTORS[: shape[-1]]
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * factors + factors

    def local_response_norm(x: Any) -> Any:
        squares = jax.lax.reduce_window(x * x, 0.0, jax.lax.add, (1, 5), (1, 1), "SAME")
        return x / (1 + 1e-4 * squares) ** 0.75

    return {
        "softmax": ("softmax", nn.softmax),
        "softmax-axis": ("softmax", lambda x: nn.softmax(x, axis=0)),
        "softmax-where": ("softmax", lambda x: nn.softmax(x, where=MASK)),
        "softmax-of-masked": ("softmax", lambda x: nn.softmax(jnp.where(MASK, x, -jnp.inf))),
        "softmax-of-added": ("softmax", lambda x: nn.softmax(x + np.where(MASK, 0.0, -1e9))),
        "softmax-by-hand": ("softmax", softmax),
        "log-softmax": ("log-softmax", nn.log_softmax),
        "log-sum-exp": ("log-sum-exp", lambda x: nn.logsumexp(x, -1)),
        "gelu": ("gate", lambda x: nn.gelu(x, approximate=False)),
        "gelu-tanh": ("gate", lambda x: nn.gelu(x, approximate=True)),
        "gelu-by-hand": ("gate", lambda x: x * 0.5 * (1 + jax.lax.erf(x / np.sqrt(2)))),
        "silu": ("gate", nn.silu),
        "hard-swish": ("gate", nn.hard_swish),
        "hard-sigmoid": ("hard sigmoid", nn.hard_sigmoid),
        "sigmoid": ("sigmoid", nn.sigmoid),
        "mish": ("gate", nn.mish),
        "elu": ("gate", nn.elu),
        "leaky-relu": ("gate", nn.leaky_relu),
        "relu6": ("clamp", nn.relu6),
        "layer-norm": ("normalization", layer_norm),
        "flax-layer-norm": ("normalization", flax_layer_norm),
        "rms-norm": ("normalization", rms),
        "batch-norm": (
            "batch normalization",
            lambda x: (x - FACTORS) / np.sqrt(FACTORS + 1e-5) * FACTORS + FACTORS,
        ),
        **{name: ("gate", getattr(nn, name)) for name in MORE_JAX_NAMES[:8]},
        "swiglu": ("gate", lambda x: nn.silu(x[:, :4]) * x[:, 4:]),
        "leaky-relu-as-maximum": ("gate", lambda x: jnp.maximum(x, 0.25 * x)),
        "prelu": ("gate", lambda x: jnp.where(x >= 0, x, FACTORS * x)),
        "prelu-of-two-relus": ("gate", lambda x: nn.relu(x) - FACTORS * nn.relu(-x)),
        "softplus-of-parts": (
            "gate",
            lambda x: jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x))),
        ),
        "softplus-by-hand": ("softplus", lambda x: jnp.log(1 + jnp.exp(x))),
        "group-norm": ("normalization", lambda x: group_norm(x, (2, 4, 2), -1)),
        "instance-norm": ("normalization", lambda x: group_norm(x, (1, 2, 2, 4), (1, 2))),
        "local-response-norm": ("normalization", local_response_norm),
        # What is as a softmax, but for its range, has its own.
        "twice-softmax": (
            "normalization",
            lambda x: 2 * jnp.exp(x) / jnp.sum(jnp.exp(x), -1, keepdims=True),
        ),
        "product-of-sum": (
            "normalization",
            lambda x: jnp.exp(x) * jnp.sum(jnp.exp(x), -1, keepdims=True),
        ),
    }


JAX_NAMES = [
    "softmax",
    "softmax-axis",
    "softmax-where",
    "softmax-of-masked",
    "softmax-of-added",
    "softmax-by-hand",
    "log-softmax",
    "log-sum-exp",
    "gelu",
    "gelu-tanh",
    "gelu-by-hand",
    "silu",
    "hard-swish",
    "hard-sigmoid",
    "sigmoid",
    "mish",
    "elu",
    "leaky-relu",
    "relu6",
    "layer-norm",
    "flax-layer-norm",
    "rms-norm",
    "batch-norm",
]
MORE_JAX_NAMES = [
    "celu",
    "glu",
    "hard_tanh",
    "log_sigmoid",
    "selu",
    "soft_sign",
    "softplus",
    "squareplus",
    "swiglu",
    "leaky-relu-as-maximum",
    "prelu",
    "prelu-of-two-relus",
    "softplus-of-parts",
    "softplus-by-hand",
    "group-norm",
    "instance-norm",
    "local-response-norm",
    "twice-softmax",
    "product-of-sum",
]


@needs("jax")
@pytest.mark.parametrize("name", MORE_JAX_NAMES)
def test_jax_in_float32(name: str):
    test_jax(name, "float32")


@needs("jax")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", JAX_NAMES)
def test_jax(name: str, dtype: str):
    jax: Any = import_module("jax")
    expected, function = jax_functions()[name]
    check(from_jax(function, jax.ShapeDtypeStruct((2, 8), dtype)), expected)


@needs("jax")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_means_by_a_rounded_length(dtype: str):
    """A twelfth of bfloat16 is 0.2 % too large."""
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")
    column = jnp.full((12, 1), 1 / 12, dtype)

    def layer_norm(x: Any) -> Any:
        x = x - x @ column
        return x * jax.lax.rsqrt((x * x) @ column + 1e-5)

    check(from_jax(layer_norm, jax.ShapeDtypeStruct((2, 12), dtype)), "normalization")


def torch_functions() -> Mapping[str, tuple[str, Callable[[Any], Any]]]:
    torch: Any = import_module("torch")
    functional: Any = import_module("torch.nn.functional")
    mask, eighths = torch.from_numpy(~MASK), torch.full((8, 1), 0.125)

    def by_products(x: Any) -> Any:
        x = x - x @ eighths
        return x / torch.sqrt((x * x) @ eighths + 1e-5)

    return {
        "softmax": ("softmax", lambda x: functional.softmax(x, -1)),
        "softmax-of-masked": (
            "softmax",
            lambda x: functional.softmax(x.masked_fill(mask, float("-inf")), -1),
        ),
        "log-softmax": ("log-softmax", lambda x: functional.log_softmax(x, -1)),
        "gelu": ("gate", functional.gelu),
        "gelu-tanh": ("gate", lambda x: functional.gelu(x, approximate="tanh")),
        "silu": ("gate", functional.silu),
        "hard-swish": ("gate", functional.hardswish),
        "hard-sigmoid": ("hard sigmoid", functional.hardsigmoid),
        "mish": ("gate", functional.mish),
        "layer-norm": ("normalization", torch.nn.LayerNorm(8)),
        "rms-norm": ("normalization", torch.nn.RMSNorm(8)),
        "batch-norm": ("batch normalization", torch.nn.BatchNorm1d(8)),
        "log-sigmoid": ("gate", functional.logsigmoid),
        "softsign": ("gate", functional.softsign),
        "squareplus": ("gate", lambda x: (x + torch.sqrt(x * x + 4)) / 2),
        "group-norm": ("normalization", torch.nn.GroupNorm(2, 8)),
        # A power of an integer, and an epsilon that is a double.
        "rms-norm-by-hand": (
            "normalization",
            lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
        ),
        "means-by-product": ("normalization", by_products),
        # A power of a number that is computed from a constant.
        "length": ("normalization", lambda x: functional.normalize(x, dim=-1)),
        "interpolation": (
            "interpolation",
            lambda x: functional.interpolate(x[None], 12, mode="linear"),
        ),
    }


TORCH_NAMES = [
    "softmax",
    "softmax-of-masked",
    "log-softmax",
    "gelu",
    "gelu-tanh",
    "silu",
    "hard-swish",
    "hard-sigmoid",
    "mish",
    "layer-norm",
    "rms-norm",
    "batch-norm",
]
MORE_TORCH_NAMES = [
    *("log-sigmoid", "softsign", "squareplus", "group-norm", "rms-norm-by-hand"),
    *("means-by-product", "length"),
]
ALL_TORCH_NAMES = [*TORCH_NAMES, *MORE_TORCH_NAMES]
FORMS = ["linalg-on-tensors", "tosa", "stablehlo"]
IN_ONE_OP = {("gelu", "linalg-on-tensors"), ("gelu-tanh", "linalg-on-tensors")}


def torch_network(name: str, dtype: str) -> tuple[str, Any]:
    """The name of a function, and a module that computes it with parameters that differ."""
    torch: Any = import_module("torch")
    expected, function = torch_functions()[name]

    class Network(torch.nn.Module):
        function: Any

        def forward(self, x: Any) -> Any:
            return self.function(x)

    type = getattr(torch, dtype)
    network: Any = Network()
    network.function = function
    network = network.eval().to(type)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in (*network.parameters(), *network.buffers()):
            if parameter.dtype == type:
                parameter.uniform_(0.5, 1.5)
    return expected, network


@needs("torch", "torch_mlir")
@pytest.mark.parametrize(
    ("name", "form", "dtype"),
    [
        *((*each, "float32") for each in product(TORCH_NAMES, FORMS) if each not in IN_ONE_OP),
        # What is converted on the way: to compute in float32, or for constants.
        *product(["softmax", "silu", "layer-norm", "batch-norm"], FORMS, ["bfloat16"]),
    ],
)
def test_torch(name: str, form: Any, dtype: str):
    torch: Any = import_module("torch")
    expected, network = torch_network(name, dtype)
    argument = torch.randn(2, 8).to(getattr(torch, dtype))
    check(from_torch(torch.export.export(network, (argument,)), form), expected)


@needs("torch", "torch_mlir")
@pytest.mark.parametrize(("name", "form"), [*product([*MORE_TORCH_NAMES, "interpolation"], FORMS)])
def test_torch_in_float32(name: str, form: Any):
    test_torch(name, form, "float32")


@needs("torch", "onnx", "iree.compiler")
@pytest.mark.parametrize(
    ("name", "opset"),
    [
        # The exporter has no op for the other one.
        *product([name for name in ALL_TORCH_NAMES if name != "rms-norm"], [11, 17]),
        # Of ops that older opsets have, and as one op.
        ("layer-norm", 13),
        ("group-norm", 20),
    ],
)
def test_onnx_of_torch(name: str, opset: int, tmp_path: Path):
    torch: Any = import_module("torch")
    expected, network = torch_network(name, "float32")
    path = str(tmp_path / "function.onnx")
    torch.onnx.export(network, (torch.randn(2, 8),), path, opset_version=opset, dynamo=False)
    check(from_onnx(path), expected)


def named_functions(module: ModuleOp) -> list[str]:
    context = ToolContext(allow_unregistered=True)
    InlinePass().apply(context, module)
    record(module)
    report = quantize_model(module, context, lambda keys: Settings(precision_of("one-u8")))
    found = (re.match("(.*) of [0-9]+ ops:", each.reason or "") for each in report.records)
    return [match[1] for match in found if match is not None]


def shares(exp: Callable[[Any], Any]) -> Mapping[str, Callable[[Any], Any]]:
    """Of a square matrix: exponentials over sums of them."""
    return {
        "rows": lambda x: exp(x) / exp(x).sum(1)[:, None],
        "columns": lambda x: exp(x) / exp(x).sum(0),
        "columns-of-one-row": lambda x: exp(x) / exp(x).sum(0)[None],
        "wrong: as columns": lambda x: exp(x) / exp(x).sum(1),
        "wrong: as rows": lambda x: exp(x) / exp(x).sum(0)[:, None],
        "wrong: by a quotient": lambda x: exp(x) * (1 / exp(x).sum(1)),
    }


@needs("jax")
@pytest.mark.parametrize("name", shares(np.exp))
def test_sums_of_jax_are_along_the_axis_of_a_softmax(name: str):
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")
    module = from_jax(shares(jnp.exp)[name], jax.ShapeDtypeStruct((8, 8), "float32"))
    assert ("softmax" in named_functions(module)) is not name.startswith("wrong")


@needs("torch", "torch_mlir")
@pytest.mark.parametrize(("name", "form"), [*product(shares(np.exp), FORMS)])
def test_sums_of_torch_are_along_the_axis_of_a_softmax(name: str, form: Any):
    torch: Any = import_module("torch")

    def forward(_: Any, x: Any) -> Any:
        return shares(torch.exp)[name](x)

    network = type("Network", (torch.nn.Module,), {"forward": forward})
    program = torch.export.export(network(), (torch.randn(8, 8),))
    names = named_functions(from_torch(program, form))
    assert ("softmax" in names) is not name.startswith("wrong")


@needs("jax")
@pytest.mark.parametrize("number", [0, 1])
def test_what_is_no_sigmoid_has_no_fixed_range(number: int):
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")
    functions: list[Callable[[Any], Any]] = [
        lambda x: 2 / (1 + jnp.exp(-x)),
        lambda x: (1 + jnp.exp(-x)) / 1,
    ]
    module = from_jax(functions[number], jax.ShapeDtypeStruct((2, 8), "float32"))
    record(module)
    context = ToolContext(allow_unregistered=True)
    report = quantize_model(module, context, lambda keys: Settings(precision_of("one-u8")))
    assert all(each.reason.endswith("', own") for each in report.records)


REDUCED = """
    %{name}0 = linalg.fill ins(%zero : f32) outs(%row : tensor<2xf32>) -> tensor<2xf32>
    %{name} = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
        affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}}
      ins(%{operand} : tensor<2x8xf32>) outs(%{name}0 : tensor<2xf32>) {{
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      linalg.yield %s : f32
    }} -> tensor<2xf32>"""
PER_ROW = """
    %{name} = linalg.generic {{indexing_maps = [{maps}affine_map<(d0) -> (d0)>],
        iterator_types = ["parallel"]}}
      ins({inputs} : {types}) outs(%row : tensor<2xf32>) {{
    ^bb0({args}%out: f32):
      {body}
      linalg.yield %r : f32
    }} -> tensor<2xf32>"""


def per_row(name: str, body: str, *operands: str) -> str:
    return PER_ROW.format(
        name=name,
        body=body,
        maps="affine_map<(d0) -> (d0)>, " * len(operands),
        inputs=", ".join(f"%{operand}" for operand in operands),
        types=", ".join(["tensor<2xf32>"] * len(operands)),
        args="".join(f"%a{number}: f32, " for number in range(len(operands))),
    )


BROADCAST = """
    %{name} = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
        affine_map<(d0, d1) -> ({axis})>, affine_map<(d0, d1) -> (d0, d1)>],
        iterator_types = ["parallel", "parallel"]}}
      ins(%{one}, %{other} : tensor<2x8xf32>, tensor<{length}xf32>)
      outs(%whole : tensor<2x8xf32>) {{
    ^bb0(%a: f32, %b: f32, %out: f32):
      %r = arith.{op} %a, %b : f32
      linalg.yield %r : f32
    }} -> tensor<2x8xf32>"""


def broadcast(name: str, op: str, one: str, other: str, axis: str = "d0") -> str:
    return BROADCAST.format(
        name=name, op=op, one=one, other=other, axis=axis, length=2 if axis == "d0" else 8
    )


OF_TF2ONNX = f"""
  func.func @f(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {{
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %part = arith.constant 0.125 : f32
    %epsilon = arith.constant 1.0e-6 : f32
    %gamma = arith.constant dense<[0.5, 1.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2]> : tensor<8xf32>
    %beta = arith.constant dense<[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]> : tensor<8xf32>
    %row = tensor.empty() : tensor<2xf32>
    %whole = tensor.empty() : tensor<2x8xf32>
    {REDUCED.format(name="sum", operand="x")}
    %square = arith.mulf %x, %x : tensor<2x8xf32>
    {REDUCED.format(name="squares", operand="square")}
    {per_row("mean", "%r = arith.mulf %a0, %part : f32", "sum")}
    {per_row("second", "%r = arith.mulf %a0, %part : f32", "squares")}
    {per_row("first", "%r = arith.mulf %a0, %a0 : f32", "mean")}
    {per_row("difference", "%r = arith.subf %a0, %a1 : f32", "second", "first")}
    {
    per_row(
        "variance",
        "%c = arith.cmpf ogt, %zero, %a0 : f32 %r = arith.select %c, %zero, %a0 : f32",
        "difference",
    )
}
    {per_row("shifted", "%r = arith.addf %a0, %epsilon : f32", "variance")}
    {per_row("root", "%r = math.sqrt %a0 : f32", "shifted")}
    {
    per_row(
        "inverse",
        '%c = arith.cmpf one, %a0, %zero : f32 cf.assert %c, "zero" '
        "%r = arith.divf %one, %a0 : f32",
        "root",
    )
}
    {broadcast("centered", "subf", "x", "mean")}
    {broadcast("scaled", "mulf", "centered", "inverse")}
    {broadcast("weighted", "mulf", "scaled", "gamma", "d1")}
    {broadcast("y", "addf", "weighted", "beta", "d1")}
    return %y : tensor<2x8xf32>
  }}
"""


def test_a_normalization_as_tf2onnx_writes_it():
    """It is ReduceSum, Mul, Sub, Max, Sqrt and Reciprocal, which asserts that it is defined."""
    context = ToolContext(allow_unregistered=True)
    check(parse_module(context, OF_TF2ONNX, "<test>"), "normalization")
