"""Runs that hand over values: kernels are few and small, and values are those of numpy."""

from __future__ import annotations

import itertools
import json
import math
import operator
import random
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from installed import needs
from numpy.typing import NDArray
from typing_extensions import override
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters import TypedArray, run_function
from qdialect.ir.value_types import shape_of
from qdialect.ops.interface import name_of
from qdialect.opt.registry import ToolContext
from qdialect.ptq.calibration.kernels import KernelOps
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.calibration.observed_runs import ObservedRun
from qdialect.ptq.calibration.recorded_functions import recorded_function, without_derived
from qdialect.ptq.schemes.profile import Profile
from qdialect.ptq.schemes.ranges import Statistics, merged
from qdialect.ptq.tools.calibrate import main
from qdialect.ptq.tools.evaluate import main as evaluate
from qdialect.ptq.tools.merge_profiles import main as merge
from qdialect.ptq.tools.recording import prepare
from qdialect.support.memory import memory_budget
from qdialect.support.terminal import working
from qdialect.text import parse_module

ENGINES = [
    "numpy",
    "reference",
    pytest.param("iree", marks=[pytest.mark.iree, pytest.mark.without_xdsl]),
]


def run_of(text: str, function: str = "main", *, in_single: bool = False) -> ObservedRun:
    """A run of a function that observes the results of all its ops."""
    context = ToolContext(allow_unregistered=True)
    module = parse_module(context, text)
    main = next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == function)
    observed = [result for op in main.body.blocks[0].ops for result in op.results]
    run = ObservedRun(module, main, context, 1 << 30, in_single=in_single)
    run.observe(observed)
    return run


def chain(layers: int, *, are_alike: bool) -> str:
    """Convolutions with padding and relu; the numbers of channels differ if layers do."""
    channels = [4 if are_alike else 4 + at for at in range(layers + 1)]
    lines = ["%zero = arith.constant 0.0 : f32"]
    value, random_bytes = "%x", random.Random(0).randbytes
    for at, (old, new) in enumerate(pairwise(channels)):
        shape, padded = f"tensor<1x{new}x8x8xf32>", f"tensor<1x{old}x10x10xf32>"
        weight = f"tensor<{new}x{old}x3x3xf32>"
        elements = bytes(byte & 0x3F for byte in random_bytes(new * old * 36)).hex()
        lines.append(f"""
  %w{at} = arith.constant dense<"0x{elements}"> : {weight}
  %b{at} = arith.constant dense<{[float(n) for n in range(new)]}> : tensor<{new}xf32>
  %e{at} = tensor.empty() : {shape}
  %s{at} = linalg.broadcast ins(%b{at} : tensor<{new}xf32>) outs(%e{at} : {shape})
    dimensions = [0, 2, 3]
  %p{at} = tensor.pad {value} low[0, 0, 1, 1] high[0, 0, 1, 1] {{
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  }} : tensor<1x{old}x8x8xf32> to {padded}
  %c{at} = linalg.conv_2d_nchw_fchw ins(%p{at}, %w{at} : {padded}, {weight})
    outs(%s{at} : {shape}) -> {shape}
  %z{at} = arith.constant dense<0.0> : {shape}
  %r{at} = arith.maximumf %c{at}, %z{at} : {shape}""")
        value = f"%r{at}"
    types = f"tensor<1x4x8x8xf32>) -> tensor<1x{channels[-1]}x8x8xf32>"
    body = "\n".join(lines)
    return (
        f"func.func @main(%x: {types} {{\n{body}\n"
        f"  return {value} : tensor<1x{channels[-1]}x8x8xf32>\n}}"
    )


@pytest.mark.parametrize(("layers", "are_alike"), [(2, True), (9, True), (2, False), (9, False)])
def test_what_is_compiled_is_linear_in_layers(layers: int, are_alike: bool) -> None:
    """Equal layers have one kernel. Weights are arguments, and biases, which are repeated there."""
    kernels = KernelOps(run_of(chain(layers, are_alike=are_alike))).kernels()
    functions = [op for op in kernels.module.ops if isinstance(op, FuncOp)]
    assert len(kernels.names) == layers
    assert len(functions) == (1 if are_alike else layers)
    # What a convolution has in its own region is its own.
    names = ["tensor.empty", "linalg.broadcast", "linalg.conv_2d_nchw_fchw", "func.return"]
    assert all([op.name for op in function.body.blocks[0].ops] == names for function in functions)
    assert all(len(function.body.blocks[0].args) == 3 for function in functions)


_ORDERED = {
    "oeq": operator.eq,
    "ogt": operator.gt,
    "oge": operator.ge,
    "olt": operator.lt,
    "ole": operator.le,
    "one": operator.ne,
}


@pytest.mark.parametrize("name", [*_ORDERED, *("u" + name[1:] for name in _ORDERED)])
def test_choices_by_comparisons_have_the_bits_of_what_is_chosen(name: str) -> None:
    """Ordered predicates fail for NaN, and unordered ones hold; payloads of NaN are kept."""
    numbers = [0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan]
    ones, others = np.array([*itertools.product(numbers, repeat=2)], "f4").T.copy()
    ones.view("u4")[np.isnan(ones)] = 0x7FC12345
    type = f"tensor<{ones.size}xf32>"
    run = run_of(f"""
func.func @main(%x: {type}, %y: {type}) -> {type} {{
  %c = arith.cmpf {name}, %x, %y : {type}
  %s = arith.select %c, %x, %y : tensor<{ones.size}xi1>, {type}
  return %s : {type}
}}""")
    types = run.function.function_type.inputs.data
    arrays = zip((ones, others), types, strict=True)
    given = [TypedArray(array.view("u4"), type) for array, type in arrays]
    values = dict[int, NDArray[Any]]()
    run.run(given, lambda at, value: values.update({at: value.elements}))
    compare = _ORDERED["o" + name[1:]]
    pairs = zip(ones.tolist(), others.tolist(), strict=True)
    expected = [
        name[0] == "u" if math.isnan(one) or math.isnan(other) else compare(one, other)
        for one, other in pairs
    ]
    sides = zip(expected, ones.view("u4").tolist(), others.view("u4").tolist(), strict=True)
    assert values[1].tolist() == [one if is_one else other for is_one, one, other in sides]


def test_what_constants_are_moved_to_is_computed_once() -> None:
    """A movement of constants is run before the first record, and not for each."""
    run = run_of(chain(2, are_alike=True))
    block = run.function.body.blocks[0]
    moved = [op.results[0] for op in block.ops if op.name == "linalg.broadcast"]
    assert len(moved) == 2
    for value in moved:
        expected = np.broadcast_to(np.arange(4, dtype="f4")[:, None, None], (1, 4, 8, 8))
        assert np.array_equal(run.constants[value].elements.view("f4"), expected)


CHANNELS_LAST = """
func.func @main(%x: tensor<1x6x5x3xf32>) -> tensor<1x5x4x2xf32> {
  %w = arith.constant dense<WEIGHTS> : tensor<2x2x2x3xf32>
  %b = arith.constant dense<[0.5, -2.0]> : tensor<2xf32>
  %z = arith.constant dense<0.0> : tensor<1xf32>
  %c = tosa.conv2d %x, %w, %b, %z, %z {acc_type = f32, dilation = array<i64: 1, 1>,
    pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}
    : (tensor<1x6x5x3xf32>, tensor<2x2x2x3xf32>, tensor<2xf32>, tensor<1xf32>, tensor<1xf32>)
    -> tensor<1x5x4x2xf32>
  return %c : tensor<1x5x4x2xf32>
}
"""

NAMED_AXES = """
func.func @main(%x: tensor<1x3x6x5xf32>) -> tensor<1x2x5x4xf32> {
  %w = arith.constant dense<WEIGHTS> : tensor<2x3x2x2xf32>
  %c = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x3x6x5xf32>, tensor<2x3x2x2xf32>) -> tensor<1x2x5x4xf32>
  return %c : tensor<1x2x5x4xf32>
}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", [CHANNELS_LAST, NAMED_AXES])
def test_weights_end_with_the_channels_of_the_result(
    tmp_path: Path, engine: str, text: str
) -> None:
    """A kernel takes them in another order, and computes the same: small integers are exact."""
    rng = np.random.default_rng(5)
    weights = rng.integers(-4, 5, (2, 2, 2, 3)).astype("f4")
    image = rng.integers(-8, 9, (1, 6, 5, 3)).astype("f4")
    windows = np.lib.stride_tricks.sliding_window_view(image[0], (2, 2), axis=(0, 1))
    sums = np.einsum("yxihw,ohwi->yxo", windows, weights)
    biases = list[tuple[int, ...]]()
    if text == CHANNELS_LAST:
        sums += np.array([0.5, -2.0], "f4")
        biases = [(2,)]
    else:
        image, weights = np.moveaxis(image, -1, 1), np.moveaxis(weights, -1, 1)
    text = text.replace("WEIGHTS", str(weights.tolist()))
    (kernel,) = KernelOps(run_of(text)).kernels().module.ops
    assert isinstance(kernel, FuncOp)
    shapes = [shape_of(argument.type) for argument in kernel.body.blocks[0].args]
    assert shapes == [image.shape, (2, 2, 3, 2), *biases]
    (tmp_path / "model.mlir").write_text(text)
    np.savez(tmp_path / "data.npz", arg0=image)
    given = [str(tmp_path / "model.mlir"), f"--data={tmp_path / 'data.npz'}"]
    profile = tmp_path / "profile.json"
    assert main([*given, f"--engine={engine}", "-o", str(profile)]) == 0
    seen = Profile.from_json(profile.read_text()).values["c"]
    assert (seen.minima.item(), seen.maxima.item()) == (sums.min(), sums.max())


SCALARS = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %two = arith.constant 2 : i64
  %ones = arith.constant dense<1.0> : tensor<3xf32>
  %e = tensor.empty() : tensor<3xf32>
  %power = linalg.generic {
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
    iterator_types = ["parallel"]}
    ins(%x, %ones : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>) {
  ^bb0(%a: f32, %one: f32, %out: f32):
    %squared = math.fpowi %a, %two : f32, i64
    %exp = math.exp %squared : f32
    %sum = arith.addf %exp, %one : f32
    linalg.yield %sum : f32
  } -> tensor<3xf32>
  return %power : tensor<3xf32>
}
"""


def test_splats_are_constants_of_kernels() -> None:
    """So are scalars that a body reads; a tensor without elements yet is made in the kernel."""
    kernels = KernelOps(run_of(SCALARS)).kernels()
    (function,) = kernels.module.ops
    assert isinstance(function, FuncOp)
    assert len(function.body.blocks[0].args) == 1


TORCH = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "torch_c.from_builtin_tensor"(%x) : (tensor<2x3xf32>) -> !torch.vtensor<[2,3],f32>
  %1 = "torch.aten.relu"(%0) : (!torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,3],f32>
  %2 = "torch_c.to_builtin_tensor"(%1) : (!torch.vtensor<[2,3],f32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}
"""


def test_what_cannot_be_passed_is_computed_in_the_kernel() -> None:
    kernels = KernelOps(run_of(TORCH)).kernels()
    (function,) = kernels.module.ops
    assert isinstance(function, FuncOp)
    assert [str(argument.type) for argument in function.body.blocks[0].args] == ["tensor<2x3xf32>"]
    assert len([*function.body.blocks[0].ops]) == 4


PADDED = """
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %number = arith.constant NUMBER : f32
  %weight = arith.constant dense<1.0> : tensor<1x2x3x3xf32>
  %none = arith.constant dense<0.0> : tensor<1x1x4x4xf32>
  %large = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %number : f32
  } : tensor<1x2x4x4xf32> to tensor<1x2x6x6xf32>
  %sums = linalg.conv_2d_nchw_fchw
    ins(%large, %weight : tensor<1x2x6x6xf32>, tensor<1x2x3x3xf32>)
    outs(%none : tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  return %sums : tensor<1x1x4x4xf32>
}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("number", ["0.0", "-7.5", "0x7FC00000", "0x7F800000"])
def test_ranges_of_padded_values_are_those_of_numpy(
    tmp_path: Path, number: str, engine: str
) -> None:
    given = np.random.default_rng(0).standard_normal((2, 1, 2, 4, 4)).astype("f4")
    given[0, 0, 0, 0, 0] = np.nan
    (tmp_path / "model.mlir").write_text(PADDED.replace("NUMBER", number))
    np.savez(tmp_path / "data.npz", arg0=given)
    path = tmp_path / "profile.json"
    arguments = [str(tmp_path / "model.mlir"), f"--data={tmp_path / 'data.npz'}"]
    options = [f"--engine={engine}", "-o", str(path)]
    assert main([*arguments, "--records=0:1", *options]) == 0
    assert main([*arguments, "--resume", *options]) == 0
    border = {"0x7FC00000": math.nan, "0x7F800000": math.inf}.get(number) or float(number)
    widths = [(0, 0), (0, 0), (0, 0), (1, 1), (1, 1)]
    large = np.pad(given, widths, constant_values=border).reshape(2, -1)
    seen = Profile.from_json(path.read_text()).values["large"]
    assert seen.minima.tolist() == np.nanmin(large, axis=1).tolist()
    assert seen.maxima.tolist() == np.nanmax(large, axis=1).tolist()
    assert (seen.count, seen.nans) == ((~np.isnan(large)).sum(), np.isnan(large).sum())


def unobserved(text: str) -> ObservedRun:
    """A run that observes nothing."""
    run = run_of(text)
    return ObservedRun(run.module, run.function, ToolContext(), 1 << 30)


def test_kernels_enlarge_what_nothing_else_reads() -> None:
    """A padded value is made where it is read, unless it is observed, or an exact op reads it."""
    text = PADDED.replace("NUMBER", "0.0")
    read = text.replace("  return", "  %again = arith.negf %large : tensor<1x2x6x6xf32>\n  return")
    counts = list[int]()
    for run in (run_of(text), unobserved(text), unobserved(read)):
        (kernel,) = KernelOps(run).kernels().module.ops
        assert isinstance(kernel, FuncOp)
        counts.append(sum(op.name == "tensor.pad" for op in kernel.walk()))
    assert counts == [0, 1, 0]


def test_an_error_of_a_kernel_that_enlarges_names_the_op() -> None:
    run = unobserved(PADDED.replace("NUMBER", "0.0"))
    kernels = KernelOps(run)
    (op,) = kernels.kernels().names

    def fail(values: Sequence[TypedArray]) -> Sequence[TypedArray]:
        raise InterpretationError(f"no room for {values[0].shape}")

    run.use_kernel(op, kernels.inputs_of(op), fail)
    for inner in kernels.inner_ops_of(op):
        run.leave_out(inner)
    (type,) = run.function.function_type.inputs.data
    given = TypedArray(np.zeros((1, 2, 4, 4), "u4"), type)
    with pytest.raises(InterpretationError, match=r"conv_2d_nchw_fchw' op no room"):
        run.run([given], lambda at, value: None)


@pytest.mark.iree
@pytest.mark.parametrize("reads_again", [False, True])
def test_what_cannot_be_passed_is_run_by_iree(tmp_path: Path, reads_again: bool) -> None:
    """Such a kernel reads a value that an op behind it may read too."""
    text, found = TORCH, {(-5.0, 6.0), (0.0, 6.0)}
    if reads_again:
        sum = "%3 = arith.addf %2, %x : tensor<2x3xf32>\n  return %3"
        text, found = TORCH.replace("return %2", sum), {*found, (-5.0, 12.0)}
    (tmp_path / "model.mlir").write_text(text)
    np.savez(tmp_path / "data.npz", arg0=np.array([[[-1, 2, 3], [4, -5, 6]]], "f4"))
    path = tmp_path / "profile.json"
    arguments = [str(tmp_path / "model.mlir"), "--data", str(tmp_path / "data.npz")]
    options = ["--allow-unregistered-dialect", "--engine=iree"]
    assert main([*arguments, *options, "-o", str(path)]) == 0
    values = Profile.read(path).values.values()
    assert {tuple(map(float, each.whole())) for each in values} == found


DYNAMIC = """
func.func @main(%x: tensor<?x3xf32>, %w: tensor<3x2xf32>) -> tensor<?x2xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x3xf32>
  %e = tensor.empty(%n) : tensor<?x2xf32>
  %0 = arith.constant 0.0 : f32
  %s = linalg.fill ins(%0 : f32) outs(%e : tensor<?x2xf32>) -> tensor<?x2xf32>
  %z = linalg.matmul ins(%x, %w : tensor<?x3xf32>, tensor<3x2xf32>)
    outs(%s : tensor<?x2xf32>) -> tensor<?x2xf32>
  return %z : tensor<?x2xf32>
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_lengths_that_only_the_run_knows(tmp_path: Path, engine: str) -> None:
    (tmp_path / "model.mlir").write_text(DYNAMIC)
    x = np.arange(12, dtype="f4").reshape(4, 3)
    w = np.array([[1, -1], [2, -2], [3, 4]], "f4")
    np.savez(tmp_path / "a.npz", arg0=x, arg1=w)
    np.savez(tmp_path / "b.npz", arg0=x[:2], arg1=w)
    arguments = [str(tmp_path / "model.mlir"), "--data", str(tmp_path), f"--engine={engine}"]
    path = tmp_path / "profile.json"
    assert main([*arguments, "-o", str(path)]) == 0
    found = Profile.read(path).values["z"]
    assert found.minima.tolist() == [(x @ w).min(), (x[:2] @ w).min()]
    assert found.maxima.tolist() == [(x @ w).max(), (x[:2] @ w).max()]


ARITHMETIC = """
func.func @main(%x: tensor<7x6xf32>, %y: tensor<7x6xf32>, %row: tensor<6xf32>) {
  %low = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<7x6xf32>
  OPS
  %max = arith.maximumf %x, %y : tensor<7x6xf32>
  %min = arith.minimumf %x, %y : tensor<7x6xf32>
  %neg = arith.negf %x : tensor<7x6xf32>
  %sum = arith.addf %x, %y : tensor<7x6xf32>
  %product = arith.mulf %sum, %y : tensor<7x6xf32>
  %quotient = arith.divf %product, %x : tensor<7x6xf32>
  %clamped = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
                     affine_map<(i, j) -> (0, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%x, %row, %y : tensor<7x6xf32>, tensor<6xf32>, tensor<7x6xf32>)
    outs(%e : tensor<7x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %out: f32):
    %less = arith.cmpf ult, %a, %b : f32
    %chosen = arith.select %less, %b, %a : f32
    %scaled = arith.mulf %chosen, %low : f32
    %difference = arith.subf %scaled, %c : f32
    linalg.yield %difference : f32
  } -> tensor<7x6xf32>
  %turned = tosa.transpose %clamped {perms = array<i32: 1, 0>}
    : (tensor<7x6xf32>) -> tensor<6x7xf32>
  %padded = tensor.pad %turned low[1, 0] high[0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %low : f32
  } : tensor<6x7xf32> to tensor<7x9xf32>
  RETURN
}
"""


def test_functions_of_arrays_give_what_the_interpreter_gives() -> None:
    predicates = [
        "oeq",
        "ogt",
        "oge",
        "olt",
        "ole",
        "one",
        "ord",
        "ueq",
        "ugt",
        "uge",
        "ult",
        "ule",
        "une",
        "uno",
        "false",
        "true",
    ]
    compared = "\n  ".join(
        f"%c{at} = arith.cmpf {name}, %x, %y : tensor<7x6xf32>\n"
        f"  %s{at} = arith.select %c{at}, %x, %y : tensor<7x6xi1>, tensor<7x6xf32>"
        for at, name in enumerate(predicates)
    )
    names = ["max", "min", "neg", "sum", "product", "quotient", "clamped"]
    values = [f"%{name}" for name in (*names, *(f"s{at}" for at in range(len(predicates))))]
    types = ["tensor<7x6xf32>"] * len(values) + ["tensor<7x9xf32>"]
    returned = f"return {', '.join([*values, '%padded'])} : {', '.join(types)}"
    text = ARITHMETIC.replace("OPS", compared).replace("RETURN", returned)
    text = text.replace("%row: tensor<6xf32>)", f"%row: tensor<6xf32>) -> ({', '.join(types)})")
    run = run_of(text)
    seed = random.randrange(1 << 32)
    rng = np.random.default_rng(seed)
    special = np.array([0.0, -0.0, 1, np.inf, -np.inf, np.nan, 1e-45, 3e38], "f4")
    records = [
        [
            np.where(rng.random(shape) < 0.7, rng.choice(special, shape), rng.normal(size=shape))
            for shape in ((7, 6), (7, 6), (6,))
        ]
        for _ in range(3)
    ]
    types_of = run.function.function_type.inputs.data
    for record in records:
        given = [
            TypedArray.of(array.astype("f4").view("u4"), type)
            for array, type in zip(record, types_of, strict=True)
        ]
        expected = run_function(run.module, "main", given)
        seen = dict[int, NDArray[Any]]()

        def take(at: int, value: TypedArray, seen: dict[int, NDArray[Any]] = seen) -> None:
            seen[at] = value.elements

        run.run(given, take)
        places = {value: at for at, value in enumerate(results_of(run))}
        ends: Any = run.function.body.blocks[0].last_op
        for operand, other in zip(ends.operands, expected, strict=True):
            one, two = seen[places[operand]].view("f4"), other.elements.view("f4")
            # The bits of NaN may differ, and those of zeros may not.
            same = (one.view("u4") == two.view("u4")) | (np.isnan(one) & np.isnan(two))
            assert same.all(), (seed, operand)


SUMS = """
func.func @main(%x: tensor<2x6x9x8xf32>, %w: tensor<4x6x3x2xf32>, %d: tensor<3x2x8xf32>,
                %a: tensor<3x5x7xf32>, %b: tensor<3x7x4xf32>) {
  %e = arith.constant dense<0.5> : tensor<2x4x3x6xf32>
  %conv = linalg.conv_2d_nchw_fchw
    {strides = dense<[3, 1]> : tensor<2xi64>, dilations = dense<[1, 2]> : tensor<2xi64>}
    ins(%x, %w : tensor<2x6x9x8xf32>, tensor<4x6x3x2xf32>)
    outs(%e : tensor<2x4x3x6xf32>) -> tensor<2x4x3x6xf32>
  %f = arith.constant dense<-1.0> : tensor<2x4x8x8xf32>
  %depthwise = linalg.depthwise_conv_2d_nhwc_hwc
    ins(%x, %d : tensor<2x6x9x8xf32>, tensor<3x2x8xf32>)
    outs(%f : tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %m = arith.constant dense<0.25> : tensor<3x2x8x2xf32>
  %n = arith.constant dense<2.0> : tensor<16xf32>
  %zero = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %multiplied = tosa.depthwise_conv2d %x, %m, %n, %zero, %zero {acc_type = f32,
    pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>}
    : (tensor<2x6x9x8xf32>, tensor<3x2x8x2xf32>, tensor<16xf32>, tensor<1xf32>, tensor<1xf32>)
    -> tensor<2x4x8x16xf32>
  %g = arith.constant dense<0.0> : tensor<3x5x4xf32>
  %product = linalg.batch_matmul ins(%a, %b : tensor<3x5x7xf32>, tensor<3x7x4xf32>)
    outs(%g : tensor<3x5x4xf32>) -> tensor<3x5x4xf32>
  %exp = math.exp %product : tensor<3x5x4xf32>
  %erf = math.erf %product : tensor<3x5x4xf32>
  %erfc = chlo.erfc %product : tensor<3x5x4xf32> -> tensor<3x5x4xf32>
  %tanh = math.tanh %product : tensor<3x5x4xf32>
  %root = math.rsqrt %exp : tensor<3x5x4xf32>
  %power = math.powf %exp, %root : tensor<3x5x4xf32>
  %h = arith.constant dense<0.0> : tensor<3x4xf32>
  %total = linalg.reduce { arith.addf } ins(%exp : tensor<3x5x4xf32>)
    outs(%h : tensor<3x4xf32>) dimensions = [1]
  return
}
"""


def test_single_precision_is_as_near_as_it_can_be() -> None:
    random = np.random.default_rng(0)
    for laid_out in (np.float32, partial(np.asfortranarray, dtype="f4")):
        runs = [run_of(SUMS, in_single=in_single) for in_single in (False, True)]
        types = runs[0].function.function_type.inputs.data
        record = [
            TypedArray.of(laid_out(random.normal(size=shape_of(type))).view("u4"), type)
            for type in types
        ]
        seen = [dict[int, NDArray[Any]]() for _ in runs]
        for run, values in zip(runs, seen, strict=True):

            def take(at: int, value: TypedArray, to: dict[int, NDArray[Any]] = values) -> None:
                to[at] = value.elements.view("f4")

            run.run(record, take)
        assert len(seen[0]) == len(results_of(runs[0]))
        for at, expected in seen[0].items():
            # At most 36 terms; errors of exp and rsqrt grow with those of the product.
            near = np.abs(seen[1][at] - expected).max() <= 1e-5 * np.abs(expected).max()
            assert near, (laid_out, at)


def results_of(run: ObservedRun) -> Sequence[Any]:
    return [result for op in run.function.body.blocks[0].ops for result in op.results]


LAYERS = """
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x5xf32> {
  %w = arith.constant dense<WEIGHT> : tensor<6x5xf32>
  %b = arith.constant dense<[1.0, -2.0, 3.0, -4.0, 5.0]> : tensor<5xf32>
  %e = tensor.empty() : tensor<4x5xf32>
  %s = linalg.broadcast ins(%b : tensor<5xf32>) outs(%e : tensor<4x5xf32>) dimensions = [0]
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>)
    outs(%s : tensor<4x5xf32>) -> tensor<4x5xf32>
  %z = arith.constant dense<0.0> : tensor<4x5xf32>
  %r = arith.maximumf %y, %z : tensor<4x5xf32>
  %again = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>)
    outs(%r : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %again : tensor<4x5xf32>
}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("flags", [[], ["--histogram"], ["--channels"]], ids=str)
def test_sums_are_those_of_numpy_in_each_record(
    tmp_path: Path, engine: str, flags: list[str]
) -> None:
    """Sums of small integers are exact. The initial values of a sum are the same in each record."""
    rng = np.random.default_rng(0)
    weight = rng.integers(-4, 5, (6, 5)).astype("f4")
    x = rng.integers(-8, 9, (7, 4, 6)).astype("f4")
    model, data = tmp_path / "model.mlir", tmp_path / "data.npz"
    model.write_text(LAYERS.replace("WEIGHT", str(weight.tolist())))
    np.savez(data, x=x)
    path = tmp_path / "profile.json"
    arguments = [str(model), "--data", str(data), f"--engine={engine}", *flags]
    assert main([*arguments, "-o", str(path)]) == 0
    found = Profile.read(path).values
    bias = np.array([1, -2, 3, -4, 5], "f4")
    y = x @ weight + bias
    expected = {"x": x, "w": np.broadcast_to(weight, (7, 6, 5)), "y": y, "r": np.maximum(y, 0)}
    expected["again"] = x @ weight + expected["r"]
    expected |= {"b": np.broadcast_to(bias, (7, 5)), "s": np.broadcast_to(bias, (7, 4, 5))}
    expected["z"] = np.zeros((7, 4, 5), "f4")
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        axes = found[key].axes
        records = [
            Statistics.observe(at, array[at], axes, histogram="--histogram" in flags)
            for at in range(7)
        ]
        profiles = [Profile(Profile.read(path).fingerprint, {key: merged(records)})]
        profiles.append(Profile(Profile.read(path).fingerprint, {key: found[key]}))
        assert profiles[0].to_json() == profiles[1].to_json(), key


@pytest.mark.parametrize("engine", ENGINES)
def test_values_are_freed_as_they_are_reduced(tmp_path: Path, engine: str) -> None:
    """64 values of 1 MiB each, in 4 MiB."""
    type = "tensor<512x512xf32>"
    values = "\n".join(f"  %{at} = math.absf %{at - 1} : {type}" for at in range(1, 65))
    text = f"func.func @main(%0: {type}) -> {type} {{\n{values}\n  return %64 : {type}\n}}"
    (tmp_path / "model.mlir").write_text(text)
    np.savez(tmp_path / "data.npz", arg0=np.full((2, 512, 512), -3, "f4"))
    arguments = [str(tmp_path / "model.mlir"), "--data", str(tmp_path / "data.npz")]
    path = tmp_path / "profile.json"
    limits = [f"--engine={engine}", f"--max-memory={4 << 20}", "-o", str(path)]
    assert main([*arguments, *limits]) == 0
    assert len(Profile.read(path).values) == 65
    # Two modules are run side by side.
    both = [arguments[0], *arguments, f"--engine={engine}", f"--max-memory={16 << 20}"]
    assert evaluate([*both, "--json", str(path)]) == 0
    assert len(json.loads(path.read_text())["values"]) == 65


@pytest.mark.parametrize("flags", [[], ["--histogram"], ["--moving-average"]], ids=str)
def test_any_partition_of_the_records_gives_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    x = np.random.default_rng(seed).normal(size=(20, 4, 6)).astype("f4")
    # One value has no range in some records.
    x[::3, 1, 2] = np.nan
    model, data = tmp_path / "model.mlir", tmp_path / "data.npz"
    model.write_text(LAYERS.replace("WEIGHT", str(np.ones((6, 5), "f4").tolist())))
    np.savez(data, x=x)
    arguments = [str(model), "--data", str(data), "--engine=reference", *flags]
    whole, joined = tmp_path / "whole.json", tmp_path / "joined.json"
    assert main([*arguments, "-o", str(whole)]) == 0
    edges = [0, *sorted(rng.sample(range(1, 20), rng.randrange(1, 6))), 20]
    parts = list[str]()
    for at, (first, last) in enumerate(pairwise(edges)):
        parts.append(str(tmp_path / f"{at}.json"))
        chosen = f"{first or ''}:{last if last < 20 else ''}"
        assert main([*arguments, f"--records={chosen}", "-o", parts[-1]]) == 0
    rng.shuffle(parts)
    assert merge(["merge", *parts, "-o", str(joined)]) == 0
    assert joined.read_bytes() == whole.read_bytes(), seed
    told = capsys.readouterr().err
    assert f"qdialect profile merge: 20 records of {len(parts)} profiles are merged" in told
    assert merge(["merge", parts[0], parts[0]]) == 1
    assert "both have record" in capsys.readouterr().err
    assert merge(["merge", str(tmp_path / "none.json")]) == 1
    assert "error: cannot open" in capsys.readouterr().err


@needs("distributed")
def test_workers_of_a_cluster_record_what_one_process_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).normal(size=(7, 4, 6)).astype("f4")
    model, data = tmp_path / "model.mlir", tmp_path / "data.npz"
    model.write_text(LAYERS.replace("WEIGHT", str(np.ones((6, 5), "f4").tolist())))
    np.savez(data, x=x)
    arguments = [str(model), "--data", str(data), "--engine=reference", "--histogram"]
    whole, joined = tmp_path / "whole.json", tmp_path / "joined.json"
    assert main([*arguments, "--records=1:", "-o", str(whole)]) == 0
    cluster = [*arguments, "--cluster=local:2", "-o", str(joined)]
    assert main([*cluster, "--records=1:"]) == 0
    assert joined.read_bytes() == whole.read_bytes()
    assert "6 records are recorded by local:2" in capsys.readouterr().err
    assert main([*cluster, "--max-steps=1"]) == 1
    assert "2 of 2 parts of the records failed: " in capsys.readouterr().err
    assert joined.read_bytes() == whole.read_bytes()
    assert main([*arguments, "--cluster=here"]) == 1
    assert "--cluster=here: " in capsys.readouterr().err
    assert main([*cluster, "--resume"]) == 1
    assert "--cluster needs the file of a module" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ("3", "--records must be A:B, such as 0:100, but is '3'"),
        ("5:5", "--records=5:5 has no record"),
        ("20:30", "--records: there are only 2 records"),
    ],
)
def test_records_that_are_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], records: str, reason: str
) -> None:
    (tmp_path / "model.mlir").write_text(SCALARS)
    np.savez(tmp_path / "data.npz", arg0=np.ones((2, 3), "f4"))
    arguments = [str(tmp_path / "model.mlir"), "--data", str(tmp_path / "data.npz")]
    assert main([*arguments, "--engine=reference", f"--records={records}"]) == 1
    assert reason in capsys.readouterr().err


class Terminal(StringIO):
    """A text stream that says that it is a terminal."""

    @override
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("with_rich", [True, False])
def test_a_line_says_what_is_being_done(monkeypatch: pytest.MonkeyPatch, with_rich: bool) -> None:
    """On a terminal, before it ends; elsewhere, nothing is said of what takes little time."""
    if with_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    for stream in (Terminal(), StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with working("tool: compiling"):
            meanwhile = stream.getvalue()
        assert ("tool: compiling" in meanwhile) is stream.isatty()


@pytest.mark.iree
def test_initial_values_of_sums_stay_as_they_are(tmp_path: Path) -> None:
    """IREE may add to the memory of an argument, which must not be that of a constant."""
    shape, padded = "tensor<1x16x24x160xf32>", "tensor<1x16x26x162xf32>"
    weight = np.ones((16, 3, 3), "f4")
    weight[:, 0, 0], weight[:, 0, 1] = 2, 0
    initial = np.arange(16, dtype="f4").repeat(24 * 160)
    text = f"""
func.func @main(%x: {padded}) -> {shape} {{
  %w = arith.constant dense<{weight.tolist()}> : tensor<16x3x3xf32>
  %s = arith.constant dense<"0x{initial.tobytes().hex().upper()}"> : {shape}
  %y = linalg.depthwise_conv_2d_nchw_chw ins(%x, %w : {padded}, tensor<16x3x3xf32>)
    outs(%s : {shape}) -> {shape}
  return %y : {shape}
}}
"""
    (tmp_path / "model.mlir").write_text(text)
    np.savez(tmp_path / "data.npz", x=np.ones((4, 1, 16, 26, 162), "f4"))
    path = tmp_path / "profile.json"
    arguments = [str(tmp_path / "model.mlir"), "--data", str(tmp_path / "data.npz")]
    assert main([*arguments, "-o", str(path)]) == 0
    found = Profile.read(path).values["y"]
    assert (found.minima.tolist(), found.maxima.tolist()) == ([9] * 4, [24] * 4)


POOL = """
func.func @main(%x: tensor<2x3x40x40xf32>, %start: tensor<2x3x1x1xf32>) -> tensor<2x3x1x1xf32> {
  %window = tensor.empty() : tensor<40x40xf32>
  %sum = linalg.pooling_nchw_sum {
    dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %window : tensor<2x3x40x40xf32>, tensor<40x40xf32>)
    outs(%start : tensor<2x3x1x1xf32>) -> tensor<2x3x1x1xf32>
  return %sum : tensor<2x3x1x1xf32>
}
"""


def test_a_pool_of_one_window_adds_in_order() -> None:
    """A sum of pairs, as numpy's own, has other last digits."""
    numbers = np.random.default_rng(0).standard_normal((2, 3, 40, 40), "f4")
    start = np.random.default_rng(1).standard_normal((2, 3, 1, 1), "f4")
    expected = start[..., 0, 0]
    for row, column in np.ndindex(40, 40):
        expected = expected + numbers[..., row, column]
    assert (expected != start[..., 0, 0] + numbers.sum((2, 3))).any()
    run, taken = run_of(POOL, in_single=True), dict[int, TypedArray]()
    arguments = [
        TypedArray.of_numbers(array, argument.type)
        for array, argument in zip((numbers, start), run.function.args, strict=True)
    ]
    run.run(arguments, taken.__setitem__)
    assert taken[1].numbers[..., 0, 0].tolist() == expected.tolist()


def test_noise_of_constants_counts_in_each_record(tmp_path: Path) -> None:
    """It is computed once: the signal is that of the weight, as often as there are records."""
    text = """
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %w = arith.constant dense<[1.0, NUMBER]> : tensor<2xf32>
      %sum = arith.addf %x, %w : tensor<2xf32>
      return %sum : tensor<2xf32>
    }"""
    for name, number in (("float", "3.0"), ("other", "2.5")):
        (tmp_path / f"{name}.mlir").write_text(text.replace("NUMBER", number))
    np.savez(tmp_path / "data.npz", arg0=np.array([[1, 2], [3, 4], [5, 6]], "f4"))
    names = [str(tmp_path / name) for name in ("float.mlir", "other.mlir", "data.npz", "out.json")]
    assert evaluate([*names[:2], "--data", names[2], "--json", names[3]]) == 0
    rows = {row["key"]: row for row in json.loads(Path(names[3]).read_text())["values"]}
    assert (rows["w"]["signal"], rows["w"]["noise"], rows["w"]["elements"]) == (30.0, 0.75, 6)
    assert (rows["sum"]["signal"], rows["sum"]["noise"]) == (4 + 16 + 36 + 25 + 49 + 81, 0.75)


def test_large_weights_are_dequantized_when_they_are_read() -> None:
    """Otherwise all of them would be held at once."""
    weight, code = "tensor<512x512xf32>", "tensor<512x512x!quant.uniform<i8:f32, 0.5>>"
    lines = [f"%q{at} = quant.constant dense<{at}> : {code}" for at in range(3)]
    lines += [f"%w{at} = quant.dcast %q{at} : {code} to {weight}" for at in range(3)]
    lines += [f"%s{at} = arith.addf %x, %w{at} : {weight}" for at in range(3)]
    body = "\n".join((*lines, f"return %s0 : {weight}"))
    run = run_of(f"func.func @main(%x: {weight}) -> {weight} {{ {body} }}")
    taken = list[tuple[int, float]]()
    (argument,) = run.function.args
    record = [TypedArray.of_numbers(np.ones((512, 512)), argument.type)]
    run.run(record, lambda at, value: taken.append((at, value.numbers[0, 0].item())))
    assert taken[3:] == [(3, 0.0), (6, 1.0), (4, 0.5), (7, 1.5), (5, 1.0), (8, 2.0)]


NORMALIZED = """
func.func @main(%x: tensor<2x6x8x3xf32>) -> tensor<2x6x8x4xf32> {
  %weight = stablehlo.constant dense<"0xWEIGHT"> : tensor<3x3x3x4xf32>
  %mean = stablehlo.constant dense<[0.1, -0.2, 0.3, -0.4]> : tensor<4xf32>
  %scale = stablehlo.constant dense<[1.5, -0.7, 0.0, 3.1]> : tensor<4xf32>
  %six = stablehlo.constant dense<6.0> : tensor<2x6x8x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<2x6x8x4xf32>
  %two = stablehlo.constant dense<2.5> : tensor<2x6x8x4xf32>
  %means = stablehlo.broadcast_in_dim %mean, dims = [3] : (tensor<4xf32>) -> tensor<2x6x8x4xf32>
  %scales = stablehlo.broadcast_in_dim %scale, dims = [3] : (tensor<4xf32>) -> tensor<2x6x8x4xf32>
  %y = stablehlo.convolution(%x, %weight) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x6x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<2x6x8x4xf32>
  %centered = stablehlo.subtract %y, %means : tensor<2x6x8x4xf32>
  %scaled = stablehlo.multiply %centered, %scales : tensor<2x6x8x4xf32>
  %sum = stablehlo.add %means, %scaled : tensor<2x6x8x4xf32>
  %left = stablehlo.subtract %two, %sum : tensor<2x6x8x4xf32>
  %part = stablehlo.divide %left, %two : tensor<2x6x8x4xf32>
  %rectified = stablehlo.maximum %part, %zero : tensor<2x6x8x4xf32>
  %clamped = stablehlo.minimum %rectified, %six : tensor<2x6x8x4xf32>
  %size = stablehlo.abs %clamped : tensor<2x6x8x4xf32>
  %again = stablehlo.multiply %clamped, %y : tensor<2x6x8x4xf32>
  %next = stablehlo.convolution(%clamped, %square)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x6x8x4xf32>, tensor<1x1x4x4xf32>) -> tensor<2x6x8x4xf32>
  return %next : tensor<2x6x8x4xf32>
}
""".replace(
    "  %mean =",
    '  %square = stablehlo.constant dense<"0xSQUARE"> : tensor<1x1x4x4xf32>\n  %mean =',
)


def normalized() -> str:
    """A convolution, a normalization, a clamp, and a convolution that reads it."""
    numbers = np.random.default_rng(0)
    weight, square = (numbers.standard_normal(n).astype("f4").tobytes().hex() for n in (108, 16))
    return NORMALIZED.replace("WEIGHT", weight).replace("SQUARE", square)


@pytest.mark.parametrize("engine", ENGINES)
def test_ranges_that_follow_from_others_are_those_of_all_elements(
    tmp_path: Path, engine: str
) -> None:
    """A profile with histograms reads all elements."""
    given = np.random.default_rng(1).standard_normal((7, 2, 6, 8, 3)).astype("f4")
    given[1, 0, 0, 0, 0], given[2, 1, 3, 3, 1] = np.nan, np.inf
    given[3] *= 1e30
    given[4] *= 1e-42
    given[5, 0] = np.nan
    (tmp_path / "model.mlir").write_text(normalized())
    np.savez(tmp_path / "data.npz", arg0=given)

    def profile(*options: str) -> str:
        path = tmp_path / "profile.json"
        files = [str(tmp_path / "model.mlir"), f"--data={tmp_path / 'data.npz'}", "-o", str(path)]
        assert main([*files, f"--engine={engine}", *options]) == 0
        return path.read_text()

    whole = profile()
    seen, expected = (Profile.from_json(text).values for text in (whole, profile("--histogram")))
    assert {*seen} == {*expected} >= {"centered", "scaled", "sum", "left", "part", "clamped"}
    for key, value in seen.items():
        other = expected[key]
        assert value.minima.tolist() == other.minima.tolist(), key
        assert value.maxima.tolist() == other.maxima.tolist(), key
        assert (value.count, value.nans) == (other.count, other.nans), key
    profile("--records=0:3")
    assert profile("--resume") == whole


def test_only_what_must_be_looked_at_is_handed_over() -> None:
    run = run_of(normalized())
    module, function = run.module, run.function
    whole = recorded_function(module, "main", keys_of(module))
    left = without_derived(whole, run.constants)
    followed = {"centered", "scaled", "sum", "left", "rectified", "clamped"}
    assert {*whole.recorded.keys} == {*left.recorded.keys}
    added = {value.name_hint for value in left.values}
    assert {value.name_hint for value in whole.values} - added == followed
    assert left.function is function
    with_histograms = recorded_function(module, "main", keys_of(module), histograms=True)
    assert without_derived(with_histograms, run.constants) is with_histograms


@pytest.mark.parametrize("is_read", [False, True])
def test_kernels_compute_functions_that_nothing_else_reads(is_read: bool) -> None:
    """A product is kept apart from the sum that reads it: a compiler rounds both at once."""
    lines = normalized().replace("%clamped, %y", "%y, %y").splitlines()
    text = "\n".join(line for line in lines if is_read or not line.startswith("  %size"))
    kernels = KernelOps(unobserved(text)).kernels().module
    counts = Counter(name_of(op) for op in kernels.walk())
    assert counts["stablehlo.convolution"] == 2
    assert counts["stablehlo.minimum"] == (0 if is_read else 1)
    # A quotient is not the same with every engine, if it is one of integers.
    assert (counts["stablehlo.divide"], counts["stablehlo.subtract"]) == (1, 2)
    assert counts["util.optimization_barrier"] == 1


@pytest.mark.iree
@pytest.mark.without_xdsl
def test_results_of_iree_are_kept_as_long_as_arrays_of_them() -> None:
    run = unobserved(normalized())
    *_, end = run.function.walk()
    engine = prepare(run, end.operands, engine="iree").start()
    (type,) = run.function.function_type.inputs.data
    kept, copies = list[NDArray[Any]](), list[NDArray[Any]]()

    def take(_: int, value: TypedArray) -> None:
        kept.append(value.elements[::-1])
        copies.append(value.elements[::-1].copy())

    for number in range(8):
        given = np.full((2, 6, 8, 3), number, "f4").view("u4")
        engine.run([TypedArray(given, type)], take)
    assert len({*map(bytes, copies)}) == 8
    assert all(map(np.array_equal, kept, copies))


SELECTION = """
func.func @main(%x: tensor<2x3x5xTYPE>, %at: tensor<7xindex>) -> tensor<2x7x3xTYPE> {
  %e = tensor.empty() : tensor<2x7x3xTYPE>
  %half = arith.constant 0.7 : f32
  %last = arith.constant 4 : index
  %two = arith.constant 2 : index
  %0 = linalg.generic {
    indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>],
    iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<2x7x3xTYPE>) {
  ^bb0(%out: TYPE):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %number = arith.index_cast %j : index to i32
    %float = arith.sitofp %number : i32 to f32
    %scaled = arith.mulf %float, %half : f32
    %floor = math.floor %scaled : f32
    %whole = arith.fptosi %floor : f32 to i32
    %place = arith.index_cast %whole : i32 to index
    %column = arith.minsi %place, %last : index
    %row = arith.subi %two, %k : index
    %taken = tensor.extract %x[%i, %row, COLUMN] : tensor<2x3x5xTYPE>
    linalg.yield %taken : TYPE
  } -> tensor<2x7x3xTYPE>
  return %0 : tensor<2x7x3xTYPE>
}
"""


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("is_fixed", [False, True])
def test_elements_at_positions_are_those_of_each_record(width: int, is_fixed: bool) -> None:
    """Positions may be the same in each record, or depend on it."""
    text = SELECTION.replace("TYPE", f"f{width}")
    read = "%at_j = tensor.extract %at[%j] : tensor<7xindex>\n    %taken"
    text = text.replace("COLUMN", "%column") if is_fixed else text.replace("%taken =", f"{read} =")
    run, random = run_of(text.replace("COLUMN", "%at_j"), in_single=True), np.random.default_rng(0)
    types = run.function.function_type.inputs.data
    for _ in range(3):
        x = random.standard_normal((2, 3, 5)).astype(f"f{width // 8}")
        at = random.integers(0, 5, 7)
        record = [TypedArray.of(x.view(f"u{width // 8}"), types[0]), TypedArray.of(at, types[1])]
        taken = dict[int, TypedArray]()
        run.run(record, taken.__setitem__)
        columns = [0, 0, 1, 2, 2, 3, 4] if is_fixed else at
        expected = x[:, ::-1, columns].swapaxes(1, 2)
        assert taken[max(taken)].elements.view(x.dtype).tolist() == expected.tolist()


NARROW = """
func.func @main(%x: tensor<2x8x7x9xf32>) -> (tensor<2x3xHxWxf32>, tensor<2x3x7x2xf32>) {
  %w = arith.constant dense<WEIGHT> : tensor<3x8x3x2xf32>
  %b = arith.constant dense<1.0> : tensor<2x3xHxWxf32>
  %0 = linalg.conv_2d_nchw_fchw {dilations = dense<[DILATIONS]> : tensor<2xi64>,
      strides = dense<[STRIDES]> : tensor<2xi64>}
    ins(%x, %w : tensor<2x8x7x9xf32>, tensor<3x8x3x2xf32>)
    outs(%b : tensor<2x3xHxWxf32>) -> tensor<2x3xHxWxf32>
  %v = arith.constant dense<WEIGHT_OF_LAST> : tensor<3x3x9x2xf32>
  %1 = stablehlo.convolution(%x, %v)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [1, 1], pad = [[0, -1], [1, 1]], rhs_dilate = [2, 1],
      reverse = [true, false]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x8x7x9xf32>, tensor<3x3x9x2xf32>) -> tensor<2x3x7x2xf32>
  return %0, %1 : tensor<2x3xHxWxf32>, tensor<2x3x7x2xf32>
}
"""


@pytest.mark.parametrize(
    ("strides", "dilations"), [((1, 1), (1, 1)), ((1, 1), (2, 3)), ((1, 2), (1, 1))]
)
def test_windows_of_more_channels_than_results(
    strides: tuple[int, int], dilations: tuple[int, int]
) -> None:
    """Sums of small integers are exact in any order."""
    random = np.random.default_rng(0)
    x = random.integers(-9, 9, (2, 8, 7, 9)).astype("f4")
    weight, last = (
        random.integers(-9, 9, shape).astype("f4") for shape in ((3, 8, 3, 2), (3, 3, 9, 2))
    )
    height, width = (
        (length - dilation * (size - 1) - 1) // stride + 1
        for length, size, stride, dilation in zip((7, 9), (3, 2), strides, dilations, strict=True)
    )
    text = NARROW.replace("HxW", f"{height}x{width}")
    for name, value in (("STRIDES", strides), ("DILATIONS", dilations)):
        text = text.replace(name, ", ".join(map(str, value)))
    text = text.replace("WEIGHT_OF_LAST", str(last.tolist())).replace(
        "WEIGHT", str(weight.tolist())
    )
    run, taken = run_of(text, in_single=True), dict[int, TypedArray]()
    run.run([TypedArray.of_numbers(x, run.function.args[0].type)], taken.__setitem__)
    expected = np.ones((2, 3, height, width), "f4")
    for at in np.ndindex(height, width, 3, 2):
        row, column = (
            p * s + q * d for p, q, s, d in zip(at[:2], at[2:], strides, dilations, strict=True)
        )
        expected[:, :, at[0], at[1]] += x[:, :, row, column] @ weight[:, :, at[2], at[3]].T
    results = [taken[at].numbers.tolist() for at in sorted(taken)]
    padded = np.pad(x[:, :7], [(0, 0), (0, 0), (1, 1), (0, 0)])
    others = np.zeros((2, 3, 7, 2), "f4")
    for row, column, p, q in np.ndindex(3, 7, 3, 3):
        others[:, row, column] += padded[:, row + 2 * (2 - p), column + q] @ last[p, q]
    assert expected.tolist() in results
    assert results[-1] == others.tolist()


LARGE = """
func.func @main(%x: tensor<1x64x256x256xf32>) -> tensor<1x32x254x254xf32> {
  %w = arith.constant dense<0.5> : tensor<32x64x3x3xf32>
  %b = arith.constant dense<1.0> : tensor<1x32x254x254xf32>
  %0 = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x64x256x256xf32>, tensor<32x64x3x3xf32>)
    outs(%b : tensor<1x32x254x254xf32>) -> tensor<1x32x254x254xf32>
  return %0 : tensor<1x32x254x254xf32>
}
"""


def test_products_of_large_images_are_not_held_at_once() -> None:
    """All products with the weights would take 75 MB, and count twice that."""
    run, taken = run_of(LARGE, in_single=True), dict[int, TypedArray]()
    x = TypedArray.of_numbers(np.ones((1, 64, 256, 256)), run.function.args[0].type)
    with memory_budget(100 << 20):
        run.run([x], taken.__setitem__)
    assert np.unique(taken[max(taken)].numbers).tolist() == [64 * 9 / 2 + 1]
