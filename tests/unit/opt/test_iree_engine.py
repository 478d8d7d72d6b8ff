"""`qdialect-check --engine=iree`: what IREE finds, how closely, and what is not checked."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from checked_modules import folded, read
from xdsl.dialects.func import FuncOp

from qdialect.check.check_tool import main
from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.comparison import compare_modules
from qdialect.check.interpreters import TypedArray, find_function
from qdialect.check.iree_engine import DefinedBits, IreeEngine, defined_bits
from qdialect.check.iree_runs import LoadedModule, compile_module
from qdialect.text import write_module

pytestmark = [pytest.mark.usefixtures("without_plugins"), pytest.mark.without_xdsl]

ROWS = "!quant.uniform<i8:f32:0, {0.5,0.25:3}>"
COLUMNS = "!quant.uniform<i8:f32:1, {0.5,0.25:3}>"

WEIGHT = f"""
  %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x{ROWS}>
  %f = quant.dcast %w : tensor<2x2x{ROWS}> to tensor<2x2xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %t = linalg.transpose ins(%f : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) permutation = [1, 0]
"""
ADD = "%0 = arith.addf %t, %x : tensor<2x2xf32>"
MATMUL = (
    "%c = arith.constant dense<0.0> : tensor<2x2xf32>\n"
    "%0 = linalg.matmul ins(%x, %t : tensor<2x2xf32>, tensor<2x2xf32>)"
    " outs(%c : tensor<2x2xf32>) -> tensor<2x2xf32>"
)


def model(body: str, type: str = "tensor<2x2xf32>") -> str:
    return f"func.func @model(%x: {type}) -> {type} {{\n{body}\n  return %0 : {type}\n}}\n"


def said(before: str, after: str, runs: int = 512) -> list[str]:
    """The verdicts, or else what is different."""
    sides = read(before), read(after)
    comparison = compare_modules(*sides, runs, engine=IreeEngine(*sides))
    return [of.message for of in comparison.findings] or list(map(str, comparison.verdicts))


@pytest.mark.iree
def test_folds_are_found_to_be_the_same():
    text = model(WEIGHT + ADD) + model(WEIGHT + MATMUL).replace("@model", "@sum")
    before, after = read(text), folded(text)
    comparison = compare_modules(before, after, engine=IreeEngine(before, after))
    assert not comparison.findings
    verdicts = {verdict.name: str(verdict) for verdict in comparison.verdicts}
    assert verdicts["model"] == "run with 189 of its inputs by IREE (bit for bit)"
    assert " of its inputs by IREE (" in verdicts["sum"]


RIGHT = f"""
  %w = quant.constant dense<[[1, 3], [2, 4]]> : tensor<2x2x{COLUMNS}>
  %t = quant.dcast %w : tensor<2x2x{COLUMNS}> to tensor<2x2xf32>
"""
MISTAKES = {
    "axis": (f"tensor<2x2x{COLUMNS}>", f"tensor<2x2x{ROWS}>"),
    "elements": ("[1, 3], [2, 4]", "[1, 2], [3, 4]"),
    "one_element": ("[1, 3], [2, 4]", "[1, 3], [2, 5]"),
    "scale": ("{0.5,0.25:3}", "{0.5,0.2501:3}"),
    "zero_point": ("{0.5,0.25:3}", "{0.5,0.25:4}"),
}


@pytest.mark.iree
def test_mistakes_are_found():
    before = after = ""
    for number, op in enumerate((ADD, MATMUL)):
        for mistake, (old, new) in {"none": ("", ""), **MISTAKES}.items():
            name = f"@{mistake}_{number}("
            assert old in RIGHT
            before += model(WEIGHT + op).replace("@model(", name)
            after += model(RIGHT.replace(old, new) + op).replace("@model(", name)
    found = said(before, after, 16)
    assert len(found) == 2 * len(MISTAKES)
    for message, mistake in zip(found, [*MISTAKES, *MISTAKES], strict=True):
        is_sum = "matmul" in message
        assert message.startswith(f"function '{mistake}_{is_sum:d}' result #0 element [")
        tolerance = "('linalg.matmul' allows 2.4e-05 of the largest element)"
        assert (tolerance in message) == is_sum


def sum_of(order: str) -> str:
    """A sum of four numbers, which rounds otherwise in another order."""
    return (
        f"%c = arith.constant dense<{order}> : tensor<4xf32>\n"
        "%e = arith.mulf %c, %x : tensor<4xf32>\n"
        "%z = arith.constant dense<0.0> : tensor<f32>\n"
        '%s = "stablehlo.reduce"(%e, %z) <{dimensions = array<i64: 0>}> ({\n'
        "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        '  %r = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n'
        '  "stablehlo.return"(%r) : (tensor<f32>) -> ()\n'
        "}) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>\n"
        '%0 = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64>}>'
        " : (tensor<f32>) -> tensor<4xf32>\n"
    )


@pytest.mark.iree
def test_a_difference_within_the_tolerance_is_told():
    near = sum_of("[0.1, 0.2, 0.3, 0.4]"), sum_of("[0.1000001, 0.2, 0.3, 0.4]")
    before, after = (model(body, "tensor<4xf32>") for body in near)
    (verdict,) = said(before, after)
    assert verdict.endswith(
        " of its inputs by IREE (within 2.4e-05 of the largest element, "
        "since 'stablehlo.reduce' may add floats in a different order)"
    )
    far = near[0], sum_of("[0.1001, 0.2, 0.3, 0.4]")
    before, after = (model(body, "tensor<4xf32>") for body in far)
    (found,) = said(before, after)
    assert "('stablehlo.reduce' allows 2.4e-05 of the largest element)" in found


@pytest.mark.iree
def test_rounding_behind_a_sum_is_not_called_a_mistake():
    def rounded(order: str) -> str:
        ints = "%i = arith.fptosi %1 : tensor<4xf32> to tensor<4xi32>\n"
        floats = "%0 = arith.sitofp %i : tensor<4xi32> to tensor<4xf32>\n"
        return model(sum_of(order).replace("%0 =", "%1 =") + ints + floats, "tensor<4xf32>")

    (found,) = said(rounded("[1.0, 2.0, 3.0, 4.0]"), rounded("[1.0, 2.0, 3.0, 5.0]"))
    assert found.startswith("function 'model' is not checked: result #0 element [0] is ")
    assert "rounds or compares floats" in found


@pytest.mark.iree
def test_other_functions_and_types():
    text = """
func.func private @twice(%x: tensor<?xbf16>) -> tensor<?xbf16> {
  %0 = arith.addf %x, %x : tensor<?xbf16>
  return %0 : tensor<?xbf16>
}
func.func @model(%x: tensor<?xbf16>, %y: f64, %i: i32, %b: tensor<2xi1>)
    -> (tensor<?xbf16>, f64, i32, tensor<2xi1>) {
  %0 = func.call @twice(%x) : (tensor<?xbf16>) -> tensor<?xbf16>
  %1 = arith.negf %y : f64
  return %0, %1, %i, %b : tensor<?xbf16>, f64, i32, tensor<2xi1>
}
"""
    (verdict,) = said(text, text, 8)
    assert verdict == "run with 8 of its inputs by IREE (bit for bit)"
    (found,) = said(text, text.replace("arith.negf %y : f64", "arith.addf %y, %y : f64"), 8)
    assert "result #1" in found
    (found,) = said(text, text.replace("addf %x, %x", "mulf %x, %x"), 8)
    assert "result #0" in found


def embedding(table: str) -> str:
    """A gather of rows of a table, at positions that are an argument."""
    slices = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0]"
    return (
        "func.func @model(%i: tensor<3x1xi32>) -> tensor<3x2xf32> {\n"
        f"  %w = arith.constant dense<{table}> : tensor<5x2xf32>\n"
        '  %0 = "stablehlo.gather"(%w, %i) <{'
        f"dimension_numbers = #stablehlo.gather<{slices}, index_vector_dim = 1>, "
        "slice_sizes = array<i64: 1, 2>, indices_are_sorted = false}> : "
        "(tensor<5x2xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>\n"
        "  return %0 : tensor<3x2xf32>\n}\n"
    )


@pytest.mark.iree
def test_positions_are_within_bounds():
    """IREE reads memory of anything for others, or ends with a signal."""
    table = [[2.0 * row, 2.0 * row + 1] for row in range(5)]
    text = embedding(str(table))
    (verdict,) = said(text, text)
    assert verdict.endswith(
        " of its inputs by IREE (bit for bit; positions within bounds in argument #0)"
    )
    table[4][1] = 7.5
    (found,) = said(text, embedding(str(table)))
    assert ", 1] is 7.5, but was 9.0 before" in found


@pytest.mark.iree
def test_a_crash_of_the_runtime_is_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run = LoadedModule.run

    def crash(self: LoadedModule, function: FuncOp, arguments: tuple[TypedArray, ...]) -> object:
        if function.sym_name.data == "sum":
            # Pytest would print a traceback.
            faulthandler.disable()
            os.kill(os.getpid(), signal.SIGSEGV)
        return run(self, function, arguments)

    monkeypatch.setattr(LoadedModule, "run", crash)
    text = tmp_path / "model.mlir"
    text.write_text(model(WEIGHT + ADD) + model(WEIGHT + MATMUL).replace("@model", "@sum"))
    assert main(["--engine=iree", "--runs=7", str(text), str(text)]) == 1
    output, errors = capsys.readouterr()
    reason = "function 'sum' is not checked: IREE's runtime ended with signal 11"
    assert not output
    assert errors.splitlines()[0] == f"{text}:10:1: error: {reason}"


@pytest.mark.iree
def test_what_cannot_be_given_to_iree_is_not_checked():
    narrow = model("  %0 = arith.addi %x, %x : tensor<4xi4>", "tensor<4xi4>")
    assert said(narrow, narrow) == [
        "function 'model' is not checked: IREE does not accept values of type 'i4'"
    ]
    private = "func.func private @f() {\n  return\n}\n"
    with pytest.raises(RunFailure, match="there is no public function to run"):
        said(private, private)


@pytest.mark.iree
def test_a_module_that_iree_does_not_compile_is_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    good, bad = tmp_path / "good.mlir", tmp_path / "bad.mlir"
    good.write_text(model(WEIGHT + ADD))
    call = '%0 = "stablehlo.custom_call"(%x) <{call_target_name = "none"}>'
    bad.write_text(model(f"{call} : (tensor<2x2xf32>) -> tensor<2x2xf32>"))
    flags = ["--engine=iree", "--allow-unregistered-dialect"]
    assert main([*flags, str(good), str(bad)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"{bad}: error: not checked: IREE does not compile the module: ")
    assert "error: failed to legalize operation 'stablehlo.custom_call'" in err


@pytest.mark.iree
def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = tmp_path / "model.mlir"
    text.write_text(model(WEIGHT + ADD))
    assert main(["--engine=iree", "--runs=7", str(text), str(text)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "function 'model': run with 7 of its inputs by IREE (bit for bit)",
        "the same: 1 function, run with 7 of its inputs by IREE (bit for bit)",
    ]
    after = folded(model(WEIGHT + ADD))
    wrong = tmp_path / "wrong.mlir"
    with wrong.open("w") as stream:
        write_module(after.context, after.module, stream)
    wrong.write_text(wrong.read_text().replace("[1, 3]", "[1, 4]"))
    assert main(["--engine=iree", str(text), str(wrong)]) == 1
    assert "wrong.mlir:2:3: error: function 'model' result #0" in capsys.readouterr().err


def test_without_iree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    text = tmp_path / "model.mlir"
    text.write_text(model(WEIGHT + ADD))
    monkeypatch.setitem(sys.modules, "iree.compiler", None)
    assert main(["--engine=iree", str(text), str(text)]) == 1
    assert 'is not installed: pip install ".[iree]"' in capsys.readouterr().err


def bits(body: str, type: str = "tensor<2x2xf32>") -> DefinedBits:
    return defined_bits(read(model(body, type)).module.walk())


def generic(iterators: str, op: str, type: str = "f32") -> str:
    maps = "affine_map<(d0, d1) -> (d0, d1)>"
    return (
        f"%0 = linalg.generic {{indexing_maps = [{maps}, {maps}], iterator_types = [{iterators}]}} "
        f"ins(%x : tensor<2x2x{type}>) outs(%x : tensor<2x2x{type}>) {{\n"
        f"^bb0(%a: {type}, %b: {type}):\n  %r = {op} : {type}\n  linalg.yield %r : {type}\n"
        f"}} -> tensor<2x2x{type}>"
    )


PARALLEL, REDUCTION = '"parallel", "parallel"', '"parallel", "reduction"'


@pytest.mark.parametrize(
    ("body", "unordered"),
    [
        (WEIGHT + ADD, None),
        (WEIGHT + MATMUL, "linalg.matmul"),
        (generic(PARALLEL, "arith.addf %a, %b"), None),
        (generic(REDUCTION, "arith.addf %a, %b"), "linalg.generic"),
        (generic(PARALLEL, "math.exp %a"), "math.exp"),
        (generic(PARALLEL, "math.sqrt %a"), None),
        ("%0 = arith.addf %x, %x fastmath<fast> : tensor<2x2xf32>", "arith.addf"),
        (
            '%0 = "stablehlo.exponential"(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>',
            "stablehlo.exponential",
        ),
        ('%0 = "other.op"(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>', "other.op"),
    ],
)
def test_which_ops_may_add_floats_in_another_order(body: str, unordered: str | None):
    assert bits(body).unordered == unordered


@pytest.mark.parametrize(
    ("op", "is_discrete"),
    [
        ("%0 = math.floor %x : tensor<2xf32>", True),
        ("%0 = arith.addf %x, %x : tensor<2xf32>", False),
        (
            "%b = arith.cmpf olt, %x, %x : tensor<2xf32>\n"
            "%0 = arith.select %b, %x, %x : tensor<2xi1>, tensor<2xf32>",
            True,
        ),
        (
            "%h = arith.truncf %x : tensor<2xf32> to tensor<2xf16>\n"
            "%0 = arith.extf %h : tensor<2xf16> to tensor<2xf32>",
            False,
        ),
    ],
)
def test_which_ops_round_or_compare(op: str, is_discrete: bool):
    assert bits(op, "tensor<2xf32>").is_discrete == is_discrete


def test_integers_have_their_bits_whatever_computes_them():
    integers = bits(generic(REDUCTION, "arith.addi %a, %b", "i8"), "tensor<2x2xi8>")
    assert integers == DefinedBits(None, None, is_discrete=False, precision=53)
    halves = bits(generic(REDUCTION, "arith.addf %a, %b", "f16"), "tensor<2x2xf16>")
    assert halves.precision == 11
    assert halves.tolerance == 2 ** (-20 / 3)


@pytest.mark.parametrize(
    ("op", "type", "undefined", "is_discrete"),
    [
        ("arith.divsi %x, %x : TYPE", "tensor<2xi8>", "arith.divsi", False),
        ("arith.divf %x, %x : TYPE", "tensor<2xf32>", None, False),
        (
            '"stablehlo.divide"(%x, %x) : (TYPE, TYPE) -> TYPE',
            "tensor<2xi8>",
            "stablehlo.divide",
            False,
        ),
        ('"stablehlo.divide"(%x, %x) : (TYPE, TYPE) -> TYPE', "tensor<2xf32>", None, False),
        ('"stablehlo.convert"(%x) : (TYPE) -> TYPE', "tensor<2xf32>", None, False),
    ],
)
def test_which_ops_are_not_defined_for_all_operands(
    op: str, type: str, undefined: str | None, is_discrete: bool
):
    found = bits("%0 = " + op.replace("TYPE", type), type)
    assert (found.undefined, found.is_discrete) == (undefined, is_discrete)
    cast = bits(
        "%i = arith.fptosi %x : tensor<2xf32> to tensor<2xi8>\n"
        "%0 = arith.sitofp %i : tensor<2xi8> to tensor<2xf32>",
        "tensor<2xf32>",
    )
    assert (cast.undefined, cast.is_discrete, cast.unordered) == ("arith.fptosi", True, None)


@pytest.mark.iree
def test_results_outlive_what_computed_them():
    """IREE's own arrays do not keep the runtime, with which their memory is freed."""
    type = "tensor<128x128xf32>"
    module, context = read(model(f"%0 = arith.addf %x, %x : {type}", type))
    written, binary = compile_module(Side(module, context))
    function = find_function(written, "model")
    (tensor,) = function.function_type.inputs.data
    numbers = [np.full((128, 128), number, np.float32) for number in range(32)]
    loaded, results = LoadedModule(binary), list[TypedArray]()
    for array in numbers:
        results += loaded.run(function, [TypedArray(array.view(np.uint32), tensor)])
    del loaded
    gc.collect()
    for array, result in zip(numbers, results, strict=True):
        assert (result.elements.view(np.float32) == 2 * array).all()
