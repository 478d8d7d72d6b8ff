"""Layers in integers: no bit differs from integers of any width, in qdialect's runs and in IREE."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from io import StringIO
from typing import Any, cast

import numpy as np
import pytest
from integer_layers import KINDS, Case, distance_to_tie, fixed_codes, multiplier, stored
from integer_layers import Type as LayerType
from mlir_tools import MLIR_OPT, needs_mlir_opt, needs_mlir_runner, run_main
from mlir_tools import run as run_tool
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.arith import MuliOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation

from qdialect.check.compared_modules import Side
from qdialect.check.interpreters import TypedArray, find_function, run_function
from qdialect.check.iree_runs import LoadedModule, compile_module
from qdialect.folding.report import PassRecord
from qdialect.integers.passes import LowerToIntegersPass
from qdialect.integers.rescaling import multipliers
from qdialect.ir.errors import OpErrors
from qdialect.opt.registry import ToolContext
from qdialect.passes import (
    CanonicalizePass,
    LowerQuantOpsPass,
    LowerQuantShapesPass,
    StripFuncQuantTypesPass,
)
from qdialect.text import parse_module, write_module

pytestmark = pytest.mark.without_xdsl


def in_integers(text: str, **options: str | bool) -> tuple[ToolContext, ModuleOp]:
    """A module whose casts are lowered by the pass."""
    context = ToolContext()
    module = parse_module(context, text)
    LowerToIntegersPass(**cast("dict[str, Any]", options)).apply(context, module)
    module.verify()
    return context, module


def without_types(context: Context, module: ModuleOp) -> None:
    """Lower what is left of quant, in the order that the documentation says."""
    for step in (
        LowerQuantShapesPass(),
        LowerQuantOpsPass(rounding="nearest-even", keep_round_trips=True),
        StripFuncQuantTypesPass(),
        CanonicalizePass(),
    ):
        step.apply(context, module)
    module.verify()


def records_of(context: ToolContext) -> Sequence[PassRecord]:
    return context.fold_reports[-1].records


def given(case: Case, module: ModuleOp, name: str) -> list[TypedArray]:
    types = find_function(module, name).function_type.inputs.data
    pairs = zip(case.operands, case.types, types, strict=True)
    return [TypedArray.of(stored(codes, own), type) for codes, own, type in pairs]


def run(context: Context, module: ModuleOp, name: str, arguments: Sequence[TypedArray]) -> Any:
    (result,) = run_function(module, name, arguments, context, max_steps=10**9)
    return result.elements


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activations", ["i8", "u8"])
@pytest.mark.parametrize("seed", range(25))
def test_random_layers_are_exact(kind: str, activations: str, seed: int) -> None:
    case = KINDS[kind](np.random.default_rng(seed))
    options = {"activations": activations, "as_matrices": bool(seed % 2)}
    context, module = in_integers(case.text("main"), on_refusal="error", **options)
    without_types(context, module)
    assert not re.search(r"f32|quant\.", str(module))
    result = run(context, module, "main", given(case, module, "main"))
    assert (result == stored(case.expected, case.result)).all()


@pytest.mark.iree
@pytest.mark.parametrize(("activations", "as_matrices"), [("i8", False), ("u8", True)])
def test_iree_computes_the_same_bits(activations: str, as_matrices: bool) -> None:
    cases = {
        f"{kind}_{seed}": make(np.random.default_rng(1000 + seed))
        for kind, make in KINDS.items()
        for seed in range(5)
    }
    # The runtime takes no integers of 4 bits.
    cases = {
        name: case
        for name, case in cases.items()
        if all(type.width >= 8 for type in (*case.types, case.result))
    }
    assert len(cases) > 12
    text = "".join(case.text(name) for name, case in cases.items())
    options = {"activations": activations, "as_matrices": as_matrices}
    context, module = in_integers(text, on_refusal="error", **options)
    lowered, binary = compile_module(Side(module, context))
    loaded = LoadedModule(binary)
    for name, case in cases.items():
        function = find_function(lowered, name)
        (result,) = loaded.run(function, given(case, lowered, name))
        assert (result.elements == stored(case.expected, case.result)).all(), name


@pytest.mark.parametrize("lhs", ["i8", "u8"])
@pytest.mark.parametrize("is_known", [False, True])
def test_one_operand_of_a_product_is_unsigned(lhs: str, is_known: bool) -> None:
    """A computed one: of two, the first one."""
    codes = f"tensor<2x2x!quant.uniform<{lhs}:f32, 0.5:3>>"
    weights = "tensor<2x2x!quant.uniform<u8:f32, 0.5:130>>"
    constant = f"%w = quant.constant dense<[[1, 255], [130, 7]]> : {weights}"
    argument = "" if is_known else f", %w: {weights}"
    _, module = in_integers(
        f"""
func.func @main(%x: {codes}{argument}) -> {codes} {{
  {constant if is_known else ""}
  %0 = quant.dcast %x : {codes} to tensor<2x2xf32>
  %1 = quant.dcast %w : {weights} to tensor<2x2xf32>
  %2 = arith.constant dense<0.0> : tensor<2x2xf32>
  %3 = linalg.matmul ins(%1, %0 : tensor<2x2xf32>, tensor<2x2xf32>)
    outs(%2 : tensor<2x2xf32>) -> tensor<2x2xf32>
  %4 = quant.qcast %3 : tensor<2x2xf32> to {codes}
  return %4 : {codes}
}}""",
        on_refusal="error",
        activations="u8",
    )
    products = [
        [operand.owner.name for operand in op.operands if isinstance(operand.owner, Operation)]
        for op in module.walk()
        if isinstance(op, MuliOp)
    ]
    read = [names for names in products if {*names} <= {"arith.extui", "arith.extsi"} and names]
    expected = ["arith.extui", "arith.extsi"]
    assert [names for names in read if len(names) == 2] == [expected[:: -1 if is_known else 1]]


@pytest.mark.parametrize(
    ("image", "kernel", "sums", "is_matrix"),
    [
        ("1x9x8x3", "3x2", "1x5x7x5", True),
        ("1x2x64x3", "1x64", "1x2x1x5", True),
        ("1x2x66x3", "1x65", "1x2x2x5", False),
        ("?x9x8x3", "3x2", "?x5x7x5", False),
    ],
)
def test_windows_become_matrices(image: str, kernel: str, sums: str, is_matrix: bool) -> None:
    """Unless they are long, or lengths are not known."""
    q, w = "!quant.uniform<u8:f32, 0.5:3>", "!quant.uniform<i8:f32, 0.25>"
    _, module = in_integers(
        f"""
func.func @main(%x: tensor<{image}x{q}>, %s: tensor<{sums}xf32>) -> tensor<{sums}x{q}> {{
  %w = quant.constant dense<2> : tensor<{kernel}x3x5x{w}>
  %0 = quant.dcast %x : tensor<{image}x{q}> to tensor<{image}xf32>
  %1 = quant.dcast %w : tensor<{kernel}x3x5x{w}> to tensor<{kernel}x3x5xf32>
  %zero = arith.constant 0.0 : f32
  %2 = linalg.fill ins(%zero : f32) outs(%s : tensor<{sums}xf32>) -> tensor<{sums}xf32>
  %3 = linalg.conv_2d_nhwc_hwcf {{dilations = dense<[2, 1]> : tensor<2xi64>}}
    ins(%0, %1 : tensor<{image}xf32>, tensor<{kernel}x3x5xf32>)
    outs(%2 : tensor<{sums}xf32>) -> tensor<{sums}xf32>
  %4 = quant.qcast %3 : tensor<{sums}xf32> to tensor<{sums}x{q}>
  return %4 : tensor<{sums}x{q}>
}}""",
        on_refusal="error",
        as_matrices=True,
    )
    product = next(op for op in module.walk() if isinstance(op, GenericOp) and len(op.inputs) == 2)
    maps = [map.data for map in product.indexing_maps]
    assert all(map.is_projected_permutation() for map in maps) == is_matrix
    assert (maps[0].num_dims == 3) == is_matrix


def test_a_result_of_another_shape_is_refused() -> None:
    """Nothing but MLIR's verifier says so of `linalg`; this one took for ever."""
    with pytest.raises(OpErrors, match=r"do not have a result of this shape \[unknown-op\]"):
        in_integers(
            """
func.func @main(%x: tensor<1x9x3x!quant.uniform<u8:f32, 0.5:3>>)
    -> tensor<1x6x5x!quant.uniform<u8:f32, 0.5:3>> {
  %w = quant.constant dense<2> : tensor<2x3x5x!quant.uniform<i8:f32, 0.25>>
  %0 = quant.dcast %x : tensor<1x9x3x!quant.uniform<u8:f32, 0.5:3>> to tensor<1x9x3xf32>
  %1 = quant.dcast %w : tensor<2x3x5x!quant.uniform<i8:f32, 0.25>> to tensor<2x3x5xf32>
  %2 = arith.constant dense<0.0> : tensor<1x6x5xf32>
  %3 = linalg.conv_1d_nwc_wcf ins(%0, %1 : tensor<1x9x3xf32>, tensor<2x3x5xf32>)
    outs(%2 : tensor<1x6x5xf32>) -> tensor<1x6x5xf32>
  %4 = quant.qcast %3 : tensor<1x6x5xf32> to tensor<1x6x5x!quant.uniform<u8:f32, 0.5:3>>
  return %4 : tensor<1x6x5x!quant.uniform<u8:f32, 0.5:3>>
}""",
            on_refusal="error",
        )


@needs_mlir_runner
def test_mlir_computes_the_same_bits() -> None:
    cases = {f"{kind}_f": make(np.random.default_rng(7)) for kind, make in KINDS.items()}
    text = "".join(case.text(name) for name, case in cases.items())
    context, module = in_integers(text, on_refusal="error")
    without_types(context, module)
    calls: list[str] = []
    for name, case in cases.items():
        function = find_function(module, name).function_type
        (result,) = function.outputs.data
        arguments: list[str] = []
        for at, (codes, own, type) in enumerate(
            zip(case.operands, case.types, function.inputs.data, strict=True)
        ):
            arguments.append(f"%{name}{at}")
            value = stored(codes, own).tolist()
            calls.append(f"%{name}{at} = arith.constant dense<{value}> : {type}")
        types = ", ".join(map(str, function.inputs.data))
        wide = re.sub(r"xi\d+>", "xi64>", str(result))
        calls += [
            f"%{name} = func.call @{name}({', '.join(arguments)}) : ({types}) -> {result}",
            f"%{name}w = arith.extsi %{name} : {result} to {wide}",
            f"%{name}u = tensor.cast %{name}w : {wide} to tensor<*xi64>",
            f"func.call @printMemrefI64(%{name}u) : (tensor<*xi64>) -> ()",
        ]
    printed = StringIO()
    write_module(context, module, printed)
    results = run_main(printed.getvalue(), calls)
    for (name, case), (_, numbers) in zip(cases.items(), results, strict=True):
        wanted = stored(case.expected, case.result).ravel().tolist()
        assert [*map(int, numbers)] == wanted, name


def tosa_cases(count: int) -> dict[str, tuple[Case, ToolContext, ModuleOp]]:
    """Layers that TOSA's ops compute: of 8 bits, with one zero point for all weights."""
    cases: dict[str, tuple[Case, ToolContext, ModuleOp]] = {}
    for kind, make in KINDS.items():
        for seed in range(count):
            case = make(np.random.default_rng(seed))
            context, module = in_integers(case.text(f"{kind}_{seed}"), to="tosa")
            codes = {str(record.code) for record in records_of(context) if record.code}
            assert codes <= {"zero-point", "storage", "unknown-op", "overflow", "shift"}
            if not codes:
                cases[f"{kind}_{seed}"] = case, context, module
    return cases


def test_tosa_computes_the_same_bits() -> None:
    lowered = tosa_cases(60)
    assert {name.partition("_")[0] for name in lowered} == {*KINDS}
    assert len(lowered) > 60
    for name, (case, context, module) in lowered.items():
        assert "tosa.rescale" in str(module)
        without_types(context, module)
        assert not re.search(r"f32|quant\.", str(module))
        result = run(context, module, name, given(case, module, name))
        difference = (result.astype(np.int64) - case.expected) % (1 << case.result.width)
        # Two values are added with fewer digits: next to ties, the code may be another one.
        allowed = {0} if "sum" not in name else {0, 1, (1 << case.result.width) - 1}
        assert {*difference.ravel().tolist()} <= allowed, name
        assert (difference == 0).mean() > 0.99


@pytest.mark.iree
def test_iree_computes_the_same_bits_from_tosa() -> None:
    for name, (case, context, module) in tosa_cases(8).items():
        lowered, binary = compile_module(Side(module, context))
        expected = run(context, lowered, name, given(case, lowered, name))
        function = find_function(lowered, name)
        (result,) = LoadedModule(binary).run(function, given(case, lowered, name))
        assert (result.elements == expected).all(), name


@needs_mlir_opt
def test_mlir_validates_what_is_written_for_tosa() -> None:
    flags = ["--tosa-attach-target=profiles=pro_int", "--tosa-validate=strict-op-spec-alignment"]
    for context, module in (parts[1:] for parts in tosa_cases(12).values()):
        without_types(context, module)
        text = StringIO()
        write_module(context, module, text)
        run_tool([MLIR_OPT, *flags], text.getvalue())


# The arithmetic


def test_multipliers_are_those_of_rational_numbers() -> None:
    rng = np.random.default_rng(0)
    factors = 2.0 ** rng.uniform(-70, 28.99, 2000)
    edges = [2.0**n * (1 + d) for n in (-33, -32, -31, -1, 0, 1, 28) for d in (0, 1e-12, -1e-12)]
    factors = np.concatenate([factors, edges, [1.0, 0.5, 2.0**-31 - 2.0**-63]])
    read = multipliers([factors])
    pairs = [multiplier(float(factor)) for factor in factors]
    assert read.m[0].tolist() == [m for m, _ in pairs]
    assert read.shift.tolist() == [shift for _, shift in pairs]
    assert read.m[0].max() < 2**31


@pytest.mark.parametrize("width", [8, 16])
def test_fixed_differs_from_the_exact_result_only_next_to_ties(width: int) -> None:
    """Results are in range; the distance is that of docs/integers.md."""
    rng = np.random.default_rng(width)
    type = LayerType(width, True, np.ones(1), np.zeros(1, int))
    factors = 2.0 ** rng.uniform(-20, 0, 3000)
    most = (1 << (width - 1)) / factors
    totals = (rng.uniform(-1, 1, 3000) * np.minimum(most, 2.0**30)).astype(np.int64)
    # Half of them are as near to a tie as integers can be.
    totals[::2] = np.rint((np.floor(totals[::2] * factors[::2]) + 0.5) / factors[::2])
    codes = fixed_codes(totals, factors, type)
    exact = [
        round(Fraction(factor) * total)
        for total, factor in zip(totals.tolist(), factors.tolist(), strict=True)
    ]
    difference = codes - np.clip(exact, *type.bounds)
    assert np.abs(difference).max() <= 1
    far = distance_to_tie(totals, factors) > (1 << width) * 2.0**-31
    assert not difference[far].any()


@pytest.mark.parametrize("kind", KINDS)
def test_products_of_floats_differ_by_one_code_at_most(kind: str) -> None:
    for seed in range(8):
        case = KINDS[kind](np.random.default_rng(seed))
        context, module = in_integers(case.text("main"), on_refusal="error", requantize="float")
        without_types(context, module)
        result = run(context, module, "main", given(case, module, "main"))
        modulus = 1 << case.result.width
        difference = (result.astype(np.int64) - case.expected) % modulus
        assert {*difference.ravel().tolist()} <= {0, 1, modulus - 1}


# Functions of elements


X8 = "!quant.uniform<i8:f32, 0.0625:-3>"
Y8 = "!quant.uniform<u8:f32, 0.00390625:7>"


def function_of(body: str, x: str = X8, y: str = Y8, shape: str = "4x64x") -> str:
    return f"""func.func @main(%q: tensor<{shape}{x}>) -> tensor<{shape}{y}> {{
  %x = quant.dcast %q : tensor<{shape}{x}> to tensor<{shape}f32>
  {body.replace("TENSOR", f"tensor<{shape}f32>")}
  %r = quant.qcast %y : tensor<{shape}f32> to tensor<{shape}{y}>
  return %r : tensor<{shape}{y}>
}}"""


def logistic(x: NDArray[Any]) -> NDArray[Any]:
    return 1 / (1 + np.exp(-x))


FUNCTIONS: dict[str, tuple[str, Callable[[NDArray[Any]], NDArray[Any]]]] = {
    "sigmoid": ("%y = stablehlo.logistic %x : TENSOR", logistic),
    "tanh": ("%y = stablehlo.tanh %x : TENSOR", np.tanh),
    "silu of two ops": (
        "%s = stablehlo.logistic %x : TENSOR %y = stablehlo.multiply %x, %s : TENSOR",
        lambda x: x * logistic(x),
    ),
    "a body": (
        """%e = tensor.empty() : TENSOR
  %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
    iterator_types = ["parallel", "parallel"]} ins(%x : TENSOR) outs(%e : TENSOR) {
  ^bb0(%in: f32, %out: f32):
    %half = arith.constant 0.5 : f32
    %h = arith.mulf %in, %half : f32
    %t = math.tanh %h : f32
    linalg.yield %t : f32
  } -> TENSOR""",
        lambda x: np.tanh(x / 2),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_tables(name: str) -> None:
    """For each code: what numpy computes, but next to ties, and what ops computed before."""
    body, function = FUNCTIONS[name]
    context = ToolContext()
    codes = np.arange(-128, 128, dtype=np.int8).reshape(4, 64)
    before = parse_module(context, function_of(body))
    type = find_function(before, "main").function_type.inputs.data[0]
    floats = run(context, before, "main", [TypedArray.of(codes, type)])
    context, module = in_integers(function_of(body), on_refusal="error")
    result = run(context, module, "main", [TypedArray.of(codes, type)])
    assert (result == floats).all()
    exact = function((codes + 3.0) * 0.0625) / 0.00390625 + 7
    wanted = np.clip(np.rint(exact), 0, 255)
    near = np.abs(exact % 1 - 0.5) < 1e-4
    assert ((result.view("u1") == wanted) | near).all()
    without_types(context, module)
    assert "f32" not in str(module)
    assert "tensor.extract" in str(module)


@pytest.mark.parametrize(
    ("body", "low", "high"),
    [
        (
            "%0 = stablehlo.constant dense<0.0> : TENSOR %y = stablehlo.maximum %x, %0 : TENSOR",
            0,
            99,
        ),
        (
            "%y = tosa.clamp %x {min_val = -1.0 : f32, max_val = 2.0 : f32} : (TENSOR) -> TENSOR",
            -1,
            2,
        ),
        (
            """%c = quant.constant dense<3> : tensor<4x64x!quant.uniform<i8:f32, 0.25>>
  %0 = quant.dcast %c : tensor<4x64x!quant.uniform<i8:f32, 0.25>> to TENSOR
  %y = stablehlo.minimum %x, %0 : TENSOR""",
            -99,
            0.75,
        ),
    ],
)
@pytest.mark.parametrize(
    "type",
    [
        LayerType(8, False, np.array([0.03125]), np.array([90])),
        LayerType(8, True, np.array([0.0625]), np.array([-3])),
    ],
)
def test_clamps_act_on_codes(body: str, low: float, high: float, type: LayerType) -> None:
    context, module = in_integers(function_of(body, y=type.text), on_refusal="error")
    codes = np.arange(-128, 128).reshape(4, 64)
    argument = find_function(module, "main").function_type.inputs.data[0]
    result = run(context, module, "main", [TypedArray.of(codes.astype("i1"), argument)])
    # The numbers of all codes are whole steps of the result, so that nothing is rounded.
    real = np.clip((codes + 3) * 0.0625, low, high) / type.scales[0] + type.zeros[0]
    assert (result.view("i1" if type.is_signed else "u1") == np.clip(real, *type.bounds)).all()
    without_types(context, module)
    assert "f32" not in str(module)


@pytest.mark.parametrize("y", [LayerType(8, False, np.array([0.125]), np.array([40]))])
def test_the_largest_in_windows_is_that_of_codes(y: LayerType) -> None:
    shape = (1, 5, 5, 2)
    body = """%low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %y = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 1, 2, 3, 1>,
    window_strides = array<i64: 1, 2, 1, 1>,
    padding = dense<[[0, 0], [1, 0], [1, 1], [0, 0]]> : tensor<4x2xi64>}> ({
  ^bb0(%one: tensor<f32>, %other: tensor<f32>):
    %m = stablehlo.maximum %one, %other : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<1x5x5x2xf32>, tensor<f32>) -> tensor<1x3x5x2xf32>"""
    text = f"""func.func @main(%q: tensor<1x5x5x2x{X8}>) -> tensor<1x3x5x2x{y.text}> {{
  %x = quant.dcast %q : tensor<1x5x5x2x{X8}> to tensor<1x5x5x2xf32>
  {body}
  %r = quant.qcast %y : tensor<1x3x5x2xf32> to tensor<1x3x5x2x{y.text}>
  return %r : tensor<1x3x5x2x{y.text}>
}}"""
    context, module = in_integers(text, on_refusal="error")
    codes = np.random.default_rng(0).integers(-128, 128, shape)
    argument = find_function(module, "main").function_type.inputs.data[0]
    result = run(context, module, "main", [TypedArray.of(codes.astype("i1"), argument)])
    real = np.pad((codes + 3) * 0.0625, [(0, 0), (1, 0), (1, 1), (0, 0)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(real, (2, 3), (1, 2))[:, ::2]
    totals = np.floor(windows.max((-1, -2)) / 0.125 + 0.5) + 40
    assert (result.view("u1") == np.clip(totals, 0, 255)).all()


# Refusals


def layer(x: str, w: str, y: str, weights: str, bias: str = "", added: str = "") -> str:
    total = "%y"
    if bias:
        total = "%s"
        added = f"""%b0 = quant.constant {bias}
  %b = quant.dcast %b0 : {bias.partition(" : ")[2]} to tensor<1x2xf32>
  %y = stablehlo.add %s, %b : tensor<1x2xf32>"""
    return f"""func.func @main(%q: tensor<1x2x{x}>) -> tensor<1x2x{y}> {{
  %x = quant.dcast %q : tensor<1x2x{x}> to tensor<1x2xf32>
  %c = quant.constant dense<{weights}> : tensor<2x2x{w}>
  %w = quant.dcast %c : tensor<2x2x{w}> to tensor<2x2xf32>
  {total} = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  {added}
  %r = quant.qcast %y : tensor<1x2xf32> to tensor<1x2x{y}>
  return %r : tensor<1x2x{y}>
}}"""


def test_sums_that_may_overflow_are_refused() -> None:
    """The bound is 128 * (1 + 1) + |b|: 2**31 - 1 is accepted, and 2**31 is not."""
    x, w, y = (f"!quant.uniform<i8:f32, {scale}>" for scale in (0.5, 0.5, 1.0e7))
    bias = "dense<[[{}, 0]]> : tensor<1x2x!quant.uniform<i32:f32, 0.25>>"
    most = 2**31 - 1 - 256
    context, _ = in_integers(layer(x, w, y, "[[1, 1], [-1, 1]]", bias.format(-most)))
    assert not [record for record in records_of(context) if record.code]
    text = layer(x, w, y, "[[1, 1], [-1, 1]]", bias.format(most + 1))
    context, module = in_integers(text)
    (record,) = records_of(context)
    assert str(record.code) == "overflow"
    assert "2147483648" in record.reason
    assert "stablehlo.dot_general" in str(module)
    with pytest.raises(OpErrors, match=r"not lowered to integers: .*\[overflow\]"):
        in_integers(text, on_refusal="error")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            "shift",
            layer(X8, "!quant.uniform<i8:f32, 1.0e30>", "!quant.uniform<i8:f32, 1.0e-3>", "1"),
        ),
        (
            "bias-scale",
            layer(X8, X8, X8, "1", "dense<1> : tensor<1x2x!quant.uniform<i32:f32, 0.5>>"),
        ),
        (
            "bias-scale",
            layer(X8, X8, X8, "1", "dense<1> : tensor<1x2x!quant.uniform<i32:f32, 0.00390625:1>>"),
        ),
        (
            "granularity",
            layer(X8, "!quant.uniform<i8:f32:0, {0.5, 0.25}>", X8, "1"),
        ),
        (
            "granularity",
            layer(X8, X8, "!quant.uniform<i8:f32:1, {0.5, 0.25}>", "1"),
        ),
        ("storage", layer(X8, X8, "!quant.uniform<i32:f32, 0.5>", "1")),
        ("storage", layer(X8, "!quant.uniform<f8E4M3FN:f32, 0.5>", X8, "1.0")),
    ],
)
def test_what_is_not_exact_is_refused_with_a_code(code: str, text: str) -> None:
    context, module = in_integers(text)
    before = str(parse_module(ToolContext(), text))
    (record,) = records_of(context)
    assert str(record.code) == code
    assert str(module) == before


def test_functions_of_several_elements_stay_float() -> None:
    body = """%low = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.exponential %x : TENSOR
  %t = stablehlo.reduce(%s init: %low) applies stablehlo.add across dimensions = [1]
    : (TENSOR, tensor<f32>) -> tensor<4xf32>
  %b = stablehlo.broadcast_in_dim %t, dims = [0] : (tensor<4xf32>) -> TENSOR
  %y = stablehlo.divide %s, %b : TENSOR"""
    context, _ = in_integers(function_of(body), on_refusal="error")
    (record,) = records_of(context)
    assert str(record.code) == "kept"


def test_invalid_options_are_errors() -> None:
    with pytest.raises(ValueError, match="to must be"):
        LowerToIntegersPass(to="llvm")
    with pytest.raises(ValueError, match="requantize must be"):
        LowerToIntegersPass(requantize="double")
    with pytest.raises(ValueError, match="on-refusal must be"):
        LowerToIntegersPass(on_refusal="stop")


# What once went wrong


def codes_of(module: ModuleOp, context: Context, *operands: NDArray[Any]) -> NDArray[Any]:
    types = find_function(module, "main").function_type.inputs.data
    pairs = zip(operands, types, strict=True)
    return run(context, module, "main", [TypedArray.of(codes, type) for codes, type in pairs])


def test_constants_beside_codes_are_of_their_type() -> None:
    floats, whole = "tensor<2x2xf32>", "tensor<2x4xf32>"
    text = f"""func.func @main(%q: tensor<2x2x{X8}>) -> tensor<2x4x{Y8}> {{
  %x = quant.dcast %q : tensor<2x2x{X8}> to {floats}
  %c = stablehlo.constant dense<[[0.0, 0.25], [0.5, 9.0]]> : {floats}
  %p = stablehlo.concatenate %x, %c, dim = 1 : ({floats}, {floats}) -> {whole}
  %y = quant.qcast %p : {whole} to tensor<2x4x{Y8}>
  return %y : tensor<2x4x{Y8}>
}}"""
    context, module = in_integers(text, on_refusal="error")
    result = codes_of(module, context, np.array([[-3, -2], [0, 127]], np.int8)).view("u1")
    # 0.0625 are 16 codes.
    assert result.tolist() == [[7, 23, 7, 71], [55, 255, 135, 255]]


@pytest.mark.parametrize("form", ["linalg", "tosa"])
def test_a_window_may_be_longer_than_its_axis(form: str) -> None:
    x, y = "tensor<1x2x3x1x", "tensor<1x1x1x1x"
    text = f"""func.func @main(%q: {x}{X8}>) -> {y}!quant.uniform<i8:f32, 0.0625>> {{
  %x = quant.dcast %q : {x}{X8}> to {x}f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p = "stablehlo.reduce_window"(%x, %zero) <{{window_dimensions = array<i64: 1, 4, 3, 1>,
    padding = dense<[[0, 0], [1, 1], [0, 0], [0, 0]]> : tensor<4x2xi64>}}> ({{
  ^bb0(%one: tensor<f32>, %other: tensor<f32>):
    %sum = stablehlo.add %one, %other : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }}) : ({x}f32>, tensor<f32>) -> {y}f32>
  %y = quant.qcast %p : {y}f32> to {y}!quant.uniform<i8:f32, 0.0625>>
  return %y : {y}!quant.uniform<i8:f32, 0.0625>>
}}"""
    context, module = in_integers(text, on_refusal="error", to=form)
    result = codes_of(module, context, np.arange(6, dtype=np.int8).reshape(1, 2, 3, 1))
    assert result.item() == 15 + 6 * 3


def test_equal_codes_of_another_width_are_rescaled() -> None:
    """A function that is no clamp, and changes no number."""
    x, y = "!quant.uniform<i4:f32, 0.5>", "!quant.uniform<i8:f32, 0.5>"
    body = "%z = stablehlo.constant dense<1.0> : TENSOR %y = stablehlo.multiply %x, %z : TENSOR"
    context, module = in_integers(function_of(body, x, y, "16x"), on_refusal="error")
    codes = np.arange(-8, 8, dtype=np.int8)
    assert codes_of(module, context, codes).tolist() == codes.tolist()


def test_a_rounding_before_a_bias_is_kept() -> None:
    """The sums are rounded to whole numbers, and then to halves; nothing is added in floats."""
    x = "!quant.uniform<i8:f32, 0.25>"
    between = "!quant.uniform<i8:f32, 1.0>"
    added = f"""%q1 = quant.qcast %s : tensor<1x2xf32> to tensor<1x2x{between}>
  %s1 = quant.dcast %q1 : tensor<1x2x{between}> to tensor<1x2xf32>
  %z = stablehlo.constant dense<0.0> : tensor<1x2xf32>
  %y = stablehlo.add %s1, %z : tensor<1x2xf32>"""
    text = layer(
        x, "!quant.uniform<i8:f32, 1.0>", "!quant.uniform<i8:f32, 0.5>", "[[1, 0], [0, 1]]"
    )
    text = text.replace("%y = stablehlo.dot", "%s = stablehlo.dot").replace("  \n", f"  {added}\n")
    assert "%q1" in text
    context, module = in_integers(text)
    without_types(context, module)
    result = codes_of(module, context, np.array([[3, 13]], np.int8))
    assert result.tolist() == [[2, 6]]


def test_shape_ops_that_read_values_again_do_not_multiply() -> None:
    count = 14
    lines = [f"func.func @main(%q: tensor<1x{X8}>) -> tensor<{1 << count}x{Y8}> {{"]
    lines.append(f"%v0 = quant.dcast %q : tensor<1x{X8}> to tensor<1xf32>")
    for at in range(count):
        one, two = (f"tensor<{1 << n}xf32>" for n in (at, at + 1))
        op = f"stablehlo.concatenate %v{at}, %v{at}, dim = 0"
        lines.append(f"%v{at + 1} = {op} : ({one}, {one}) -> {two}")
    last = f"tensor<{1 << count}x{Y8}>"
    lines.append(f"%r = quant.qcast %v{count} : tensor<{1 << count}xf32> to {last}")
    lines.append(f"return %r : {last}\n}}")
    _, module = in_integers("\n".join(lines), on_refusal="error")
    assert len([*module.walk()]) < 100


def test_many_ops_between_casts_are_no_error() -> None:
    floats = "tensor<2x2xf32>"
    lines = [f"func.func @main(%q: tensor<2x2x{X8}>) -> tensor<2x2x{Y8}> {{"]
    lines.append(f"%v0 = quant.dcast %q : tensor<2x2x{X8}> to {floats}")
    lines += [
        f"%v{at + 1} = stablehlo.transpose %v{at}, dims = [1, 0] : ({floats}) -> {floats}"
        for at in range(3000)
    ]
    lines.append(f"%r = quant.qcast %v3000 : {floats} to tensor<2x2x{Y8}>")
    lines.append(f"return %r : tensor<2x2x{Y8}>\n}}")
    context, module = in_integers("\n".join(lines))
    assert [str(record.code) for record in records_of(context)] == ["kept"]
    assert str(module).count("stablehlo.transpose") == 3000
    assert "linalg.transpose" not in str(module)


def test_results_without_elements_stay_float() -> None:
    body = "%y = stablehlo.tanh %x : TENSOR"
    context, _ = in_integers(function_of(body, shape="0x4x"), on_refusal="error")
    assert [str(record.code) for record in records_of(context)] == ["kept"]


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_may_be_of_any_length(seed: int) -> None:
    """A matrix product, whose rows are only counted at run time."""
    rng = np.random.default_rng(seed)
    x_type = LayerType.random(rng, 8, 0.1)
    weights = rng.integers(-128, 128, (5, 3))
    y_type = LayerType(8, True, np.array([0.5]), np.array([-7]))
    w_type = "!quant.uniform<i8:f32, 0.03125>"
    x, y = f"tensor<?x5x{x_type.text}>", f"tensor<?x3x{y_type.text}>"
    text = f"""func.func @main(%q: {x}) -> {y} {{
  %x = quant.dcast %q : {x} to tensor<?x5xf32>
  %k = quant.constant dense<{weights.tolist()}> : tensor<5x3x{w_type}>
  %w = quant.dcast %k : tensor<5x3x{w_type}> to tensor<5x3xf32>
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<?x5xf32>, tensor<5x3xf32>) -> tensor<?x3xf32>
  %y = quant.qcast %p : tensor<?x3xf32> to {y}
  return %y : {y}
}}"""
    context, module = in_integers(text, on_refusal="error")
    without_types(context, module)
    codes = x_type.codes(rng, (4, 5))
    totals = x_type.less_zeros(codes) @ weights
    factors = np.array(x_type.scales[0] * 0.03125 / 0.5)
    expected = fixed_codes(totals, factors, y_type)
    assert (codes_of(module, context, stored(codes, x_type)) == stored(expected, y_type)).all()
