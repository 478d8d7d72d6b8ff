"""
The cost of folds: the number of function calls for many ops, and the memory for large ones.

The modules are those of `benchmarks/many_ops.py`.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from folded_modules import parse, returned
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, ModuleOp

from qdialect.algebra import views as joined
from qdialect.dialects.quant.constants import ConstantOp
from qdialect.folding import apply
from qdialect.folding.writing import WrittenConstant, write_constant
from qdialect.opt.registry import ToolContext
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.support.memory import clear_caches

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "many_ops.py"


def _load_benchmark() -> Any:
    spec = spec_from_file_location("many_ops", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


many_ops = _load_benchmark()


def calls(run: Callable[[], object]) -> int:
    """How many functions are called."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def calls_of(name: str, count: int) -> tuple[int, int]:
    """The numbers of function calls to verify, and to fold, a module of `count` ops."""
    module, context = parse(many_ops.TEXTS[name](count))
    verified = calls(lambda: many_ops.verify(module))
    return verified, calls(lambda: many_ops.pass_for(name).apply(context, module))


@pytest.mark.parametrize("name", many_ops.TEXTS)
def test_cost_is_linear_in_ops(name: str):
    # The caches hold the same types for all runs, and none becomes full and is emptied in between.
    clear_caches()
    calls_of(name, 60)
    few, many = calls_of(name, 120), calls_of(name, 240)
    for cost, cost_of_twice in zip(few, many, strict=True):
        assert cost_of_twice <= 2.1 * cost


def test_ops_of_no_shape_are_walked_over():
    _, few = calls_of("arithmetic", 500)
    _, many = calls_of("arithmetic", 1000)
    assert many - few <= 500 * 20


TYPE = "!quant.uniform<i8:f32, 0.5>"

MANY_CONSTANTS = f"""
func.func @f() -> (tensor<4x2x{TYPE}>, tensor<4x2x{TYPE}>, tensor<2x4x{TYPE}>) {{
  %a = quant.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4x{TYPE}>
  %b = quant.constant dense<[[9, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4x{TYPE}>
  %c = quant.constant dense<[[7, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4x{TYPE}>
  %0 = quant.transpose %a permutation = [1, 0] : tensor<2x4x{TYPE}> to tensor<4x2x{TYPE}>
  %1 = quant.reverse %b dims = [0] : tensor<2x4x{TYPE}> to tensor<2x4x{TYPE}>
  %2 = quant.transpose %1 permutation = [1, 0] : tensor<2x4x{TYPE}> to tensor<4x2x{TYPE}>
  %3 = quant.reverse %c dims = [1] : tensor<2x4x{TYPE}> to tensor<2x4x{TYPE}>
  return %0, %2, %3 : tensor<4x2x{TYPE}>, tensor<4x2x{TYPE}>, tensor<2x4x{TYPE}>
}}
"""


def elements_held(module: ModuleOp) -> list[weakref.ref[BytesAttr]]:
    """The elements of the constants of a module, which are not kept alive by this."""
    return [
        weakref.ref(attribute.data)
        for op in module.walk()
        for attribute in op.properties.values()
        if isinstance(attribute, DenseIntOrFPElementsAttr)
    ]


def test_constants_are_let_go_of_one_after_another(monkeypatch: pytest.MonkeyPatch):
    module, context = parse(MANY_CONSTANTS)
    held = elements_held(module)
    alive: list[list[bool]] = []

    def watch(*arguments: Any) -> WrittenConstant:
        alive.append([reference() is not None for reference in held])
        return write_constant(*arguments)

    monkeypatch.setattr(apply, "write_constant", watch)
    monkeypatch.setattr(apply, "LARGE_BYTES", 0)
    gc.disable()
    try:
        FoldQuantShapesPass().apply(context, module)
        left = [reference() is not None for reference in held]
    finally:
        gc.enable()
    assert alive == [[True, True, True], [False, True, True], [False, False, True]]
    assert left == [False, False, False]
    # The report still tells of the constants.
    (report,) = context.fold_reports
    hints = [[source.name_hint for source in record.sources] for record in report.records]
    assert hints == [["a"], ["b"], ["b"], ["c"]]


CHAINS = f"""
func.func @f() -> (tensor<4x2x{TYPE}>, tensor<4x2x{TYPE}>, tensor<4x2x{TYPE}>) {{
  %a = quant.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4x{TYPE}>
  %0 = quant.transpose %a permutation = [1, 0] : tensor<2x4x{TYPE}> to tensor<4x2x{TYPE}>
  %1 = quant.reverse %0 dims = [0] : tensor<4x2x{TYPE}> to tensor<4x2x{TYPE}>
  %2 = quant.transpose %a permutation = [1, 0] : tensor<2x4x{TYPE}> to tensor<4x2x{TYPE}>
  %3 = quant.slice %2 [0, 0] [4, 2] [1, 1] : tensor<4x2x{TYPE}> to tensor<4x2x{TYPE}>
  %4 = quant.reverse %1 dims = [1] : tensor<4x2x{TYPE}> to tensor<4x2x{TYPE}>
  return RESULTS : tensor<4x2x{TYPE}>, tensor<4x2x{TYPE}>, tensor<4x2x{TYPE}>
}}
"""


@pytest.mark.parametrize("is_large", [True, False])
@pytest.mark.parametrize(
    ("results", "writes"),
    [("%0, %1, %4", 3), ("%1, %3, %3", 2), ("%4, %4, %2", 2), ("%4, %4, %4", 1)],
)
def test_constant_is_held_as_long_as_something_reads_it(
    results: str, writes: int, is_large: bool, monkeypatch: pytest.MonkeyPatch
):
    module, context = parse(CHAINS.replace("RESULTS", results))
    (elements,) = elements_held(module)
    alive: list[bool] = []

    def watch(*arguments: Any) -> WrittenConstant:
        alive.append(elements() is not None)
        return write_constant(*arguments)

    monkeypatch.setattr(apply, "write_constant", watch)
    monkeypatch.setattr(apply, "LARGE_BYTES", 0 if is_large else 1 << 20)
    FoldQuantShapesPass().apply(context, module)
    module.verify()
    assert alive == [True] * writes
    assert elements() is None
    assert all(isinstance(value.owner, ConstantOp) for value in returned(module))


@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_joined_step_by_step_is_copied_once(axis: int, monkeypatch: pytest.MonkeyPatch):
    count, copied = 12, list[int]()

    def watch(arrays: Sequence[NDArray[Any]], axis: int) -> NDArray[Any]:
        copied.append(sum(array.size for array in arrays))
        return np.concatenate(arrays, axis=axis)

    shapes = [f"{n}x3" if axis == 0 else f"3x{n}" for n in range(1, count + 1)]
    row = "dense<[[{0}, 1, 2]]>" if axis == 0 else "dense<[[{0}], [1], [2]]>"
    ops = [f"%c1 = quant.constant {row.format(0)} : tensor<{shapes[0]}x{TYPE}>"]
    for n in range(2, count + 1):
        ops += [
            f"%w{n} = quant.constant {row.format(n)} : tensor<{shapes[0]}x{TYPE}>",
            f"%c{n} = tensor.concat dim({axis}) %c{n - 1}, %w{n} : (tensor<{shapes[n - 2]}x{TYPE}>"
            f", tensor<{shapes[0]}x{TYPE}>) -> tensor<{shapes[n - 1]}x{TYPE}>",
        ]
    result = f"tensor<{shapes[-1]}x{TYPE}>"
    body = "\n".join([*ops, f"return %c{count} : {result}"])
    module, context = parse(f"func.func @f() -> {result} {{\n{body}\n}}")
    watched = SimpleNamespace(**{**vars(np), "concatenate": watch})
    monkeypatch.setattr(joined, "np", watched)
    FoldQuantShapesPass().apply(context, module)
    assert copied == [3 * count]
    (value,) = returned(module)
    assert isinstance(value.owner, ConstantOp)
    (report,) = context.fold_reports
    assert [len(record.sources) for record in report.records] == list(range(2, count + 1))


def test_what_is_joined_to_itself_again_and_again():
    count = 16
    ops = [f"%c0 = quant.constant dense<[[1, 2, 3]]> : tensor<1x3x{TYPE}>"]
    for n in range(count):
        before, after = (f"tensor<{2 ** (n + step)}x3x{TYPE}>" for step in (0, 1))
        ops.append(
            f"%c{n + 1} = quant.concat dim(0) %c{n}, %c{n} : ({before}, {before}) -> {after}"
        )
    result = f"tensor<{2**count}x3x{TYPE}>"
    body = "\n".join([*ops, f"return %c{count} : {result}"])
    module, context = parse(f"func.func @f() -> {result} {{\n{body}\n}}")
    assert calls(lambda: FoldQuantShapesPass().apply(context, module)) < 20_000
    (value,) = returned(module)
    assert isinstance(value.owner, ConstantOp)


def test_context_without_the_tool_costs_the_same():
    text = many_ops.TEXTS["per-axis"](120)
    module, context = parse(text)
    with_tool = calls(lambda: FoldQuantShapesPass().apply(context, module))
    assert isinstance(context, ToolContext)
    module, _ = parse(text)
    plain = Context()
    without = calls(lambda: FoldQuantShapesPass().apply(plain, module))
    assert without <= 1.02 * with_tool


@pytest.mark.parametrize("is_on", [False, True])
def test_garbage_is_collected_as_before(is_on: bool):
    module, context = parse(MANY_CONSTANTS)
    was_on = gc.isenabled()
    try:
        (gc.enable if is_on else gc.disable)()
        FoldQuantShapesPass().apply(context, module)
        assert gc.isenabled() == is_on
    finally:
        (gc.enable if was_on else gc.disable)()
