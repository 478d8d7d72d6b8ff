"""
`qdialect-check` finds wrong folds of other tools, and accepts right ones.

The mistakes were seen in other tools. Each is planted in a module whose function has no
arguments, and in one that computes with an argument.
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from checked_modules import findings, folded, grounds, read
from example_counts import examples
from hypothesis import assume, event, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_modules import functions, module_text
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import InterpretationError, ParseError, VerifyException

from qdialect.check import check_tool as check
from qdialect.check.attribute_keys import DifferenceError
from qdialect.check.compared_modules import ComparedModule, RunFailure, Side
from qdialect.check.sampled_runs import compare_runs
from qdialect.check.step_budget import StepBudget
from qdialect.opt import opt
from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
from qdialect.text import write_module

pytestmark = pytest.mark.usefixtures("without_plugins")

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Weight:
    """A constant."""

    codes: Ints
    type: str

    def text(self, name: str) -> str:
        shape = "".join(f"{length}x" for length in self.codes.shape)
        quantized = f"tensor<{shape}!quant.uniform<i8:f32{self.type}>>"
        return (
            f"%q{name} = quant.constant dense<{self.codes.tolist()}> : {quantized}\n"
            f"%{name} = quant.dcast %q{name} : {quantized} to tensor<{shape}xf32>\n".replace(
                "xxf32", "xf32"
            )
        )


@dataclass(frozen=True)
class Mistake:
    """The folded form of constants and an op, and a wrong form."""

    weights: tuple[Weight, ...]
    op: str
    """Makes %r of %a, and %b if there are two."""

    wrong: Weight

    def module(self, body: str, *, takes_argument: bool) -> str:
        tensor = f"tensor<{''.join(f'{n}x' for n in self.wrong.codes.shape)}f32>"
        argument = f"%x: {tensor}" if takes_argument else ""
        last = f"%s = arith.mulf %r, %x : {tensor}\n" if takes_argument else ""
        result = "%s" if takes_argument else "%r"
        return (
            f"func.func @f({argument}) -> {tensor} {{\n{body}\n{last}return {result} : {tensor}\n}}"
        )

    def before(self, *, takes_argument: bool) -> str:
        weights = "".join(
            weight.text(name) for weight, name in zip(self.weights, "ab", strict=False)
        )
        return self.module(weights + self.op, takes_argument=takes_argument)

    def after(self, *, takes_argument: bool) -> str:
        return self.module(self.wrong.text("r"), takes_argument=takes_argument)


CODES = np.arange(2, 26, dtype=np.int64)
CUBE = CODES[:8].reshape(2, 2, 2)
ROWS = CODES[:12].reshape(3, 4)
SQUARE = CODES[:16].reshape(4, 4)
PER_ROW = ":0, {0.5:1,0.25:3,2.0:-5}"
PER_COLUMN = ":1, {0.5:1,0.25:3,2.0:-5,4.0:7}"
GROUPS = ":{0:1,1:2}, {{0.5:1,0.25:2},{2.0:3,4.0:4},{8.0:5,16.0:6}}"


def transpose(shape: str, to: str, permutation: str) -> str:
    return (
        f"%e = tensor.empty() : tensor<{to}xf32>\n"
        f"%r = linalg.transpose ins(%a : tensor<{shape}xf32>) outs(%e : tensor<{to}xf32>)"
        f" permutation = {permutation}"
    )


REVERSED = "%r = tosa.reverse %a {axis = 0 : i32} : (tensor<3x4xf32>) -> tensor<3x4xf32>"
COLUMNS = "%r = tensor.extract_slice %a[0, 1] [3, 2] [1, 1] : tensor<3x4xf32> to tensor<3x2xf32>"
JOINED = "%r = tensor.concat dim(0) %a, %b : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>"
RESHAPED = (
    "%n = arith.constant dense<[3, 4, 2]> : tensor<3xi64>\n"
    "%r = tensor.reshape %a(%n) : (tensor<2x4x3xf32>, tensor<3xi64>) -> tensor<3x4x2xf32>"
)
SPLIT = (
    "%r = tensor.expand_shape %a [[0, 1], [2]] output_shape [2, 2, 4] : tensor<4x4xf32> into "
    "tensor<2x2x4xf32>"
)
MERGED = "%r = tensor.collapse_shape %a [[0, 1]] : tensor<3x4xf32> into tensor<12xf32>"
PADDED = (
    "%z = arith.constant 0.0 : f32\n%r = tensor.pad %a low[0, 1] high[0, 0] {\n"
    "^bb0(%i: index, %j: index):\ntensor.yield %z : f32\n} : tensor<3x4xf32> to tensor<3x5xf32>"
)
REPEATED = (
    "%n = tosa.const_shape {values = dense<[2, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>\n"
    "%r = tosa.tile %a, %n : (tensor<3x4xf32>, !tosa.shape<2>) -> tensor<6x4xf32>"
)
TAKEN = (
    "%i = arith.constant dense<[[2, 0, 1]]> : tensor<1x3xi32>\n"
    "%r = tosa.gather %a, %i : (tensor<1x3x4xf32>, tensor<1x3xi32>) -> tensor<1x3x4xf32>"
)

MISTAKES = {
    "1 the inverse permutation of the elements": Mistake(
        (Weight(CUBE, ", 0.5:1"),),
        transpose("2x2x2", "2x2x2", "[1, 2, 0]"),
        Weight(CUBE.transpose(2, 0, 1), ", 0.5:1"),
    ),
    "1 the inverse permutation of the axis": Mistake(
        (Weight(CUBE, ":0, {0.5:1,0.25:3}"),),
        transpose("2x2x2", "2x2x2", "[1, 2, 0]"),
        Weight(CUBE.transpose(1, 2, 0), ":1, {0.5:1,0.25:3}"),
    ),
    "1 an axis that did not move": Mistake(
        (Weight(SQUARE, PER_COLUMN),),
        transpose("4x4", "4x4", "[1, 0]"),
        Weight(SQUARE.T, PER_COLUMN),
    ),
    "elements that did not move": Mistake(
        (Weight(SQUARE, PER_COLUMN),),
        transpose("4x4", "4x4", "[1, 0]"),
        Weight(SQUARE, ":0, {0.5:1,0.25:3,2.0:-5,4.0:7}"),
    ),
    "2 the scale of the first operand": Mistake(
        (Weight(ROWS, ", 0.5:1"), Weight(ROWS + 20, ", 50.0:1")),
        JOINED,
        Weight(np.concatenate((ROWS, ROWS + 20)), ", 0.5:1"),
    ),
    "2 requantized to the scale of the first operand, and clipped": Mistake(
        (Weight(ROWS, ", 0.5:1"), Weight(ROWS + 20, ", 50.0:1")),
        JOINED,
        Weight(np.concatenate((ROWS, np.full((3, 4), 127))), ", 0.5:1"),
    ),
    "operands in the other order": Mistake(
        (Weight(ROWS, ", 0.5:1"), Weight(ROWS + 20, ", 0.5:1")),
        JOINED,
        Weight(np.concatenate((ROWS + 20, ROWS)), ", 0.5:1"),
    ),
    "3 scales that were not sliced, but cut off": Mistake(
        (Weight(ROWS, PER_COLUMN),),
        COLUMNS,
        Weight(ROWS[:, 1:3], ":1, {0.5:1,0.25:3}"),
    ),
    "4 a stale axis after a reshape": Mistake(
        (Weight(CODES.reshape(2, 4, 3), PER_COLUMN),),
        RESHAPED,
        Weight(CODES.reshape(3, 4, 2), PER_COLUMN),
    ),
    "5 a slice inside a block with the first block for all": Mistake(
        (Weight(ROWS, GROUPS),),
        COLUMNS,
        Weight(ROWS[:, 1:3], PER_ROW.replace("0.25:3,2.0:-5", "2.0:3,8.0:5")),
    ),
    "5 a slice that begins with the block": Mistake(
        (Weight(ROWS, GROUPS),),
        COLUMNS,
        Weight(ROWS[:, 0:2], ":{0:1,1:1}, {{0.5:1,0.25:2},{2.0:3,4.0:4},{8.0:5,16.0:6}}"),
    ),
    "6 scales of one part twice": Mistake(
        (Weight(ROWS, PER_ROW), Weight(ROWS, ":0, {1.0:2,3.0:4,5.0:6}")),
        JOINED,
        Weight(np.concatenate((ROWS, ROWS)), ":0, {0.5:1,0.25:3,2.0:-5,0.5:1,0.25:3,2.0:-5}"),
    ),
    "7 scales repeated in a circle, not each": Mistake(
        (Weight(ROWS, PER_ROW),),
        MERGED,
        Weight(
            ROWS.reshape(12),
            ":0, {" + ",".join(["0.5:1", "0.25:3", "2.0:-5"] * 4) + "}",
        ),
    ),
    "7 scales of a split axis in the other order": Mistake(
        (Weight(SQUARE, PER_COLUMN.replace(":1", ":0", 1)),),
        SPLIT,
        Weight(
            SQUARE.reshape(2, 2, 4),
            ":{0:1,1:1}, {{{0.5:1},{2.0:-5}},{{0.25:3},{4.0:7}}}",
        ),
    ),
    "8 a slot for each position where there was one for a block": Mistake(
        (Weight(SQUARE, ":{0:2,1:4}, {{0.5:1},{0.25:3}}"),),
        transpose("4x4", "4x4", "[1, 0]"),
        Weight(SQUARE.T, ":{0:4,1:1}, {{0.5:1,0.25:3,0.25:3,0.25:3}}"),
    ),
    "11 padded with a stored zero": Mistake(
        (Weight(ROWS, PER_ROW),),
        PADDED,
        Weight(np.pad(ROWS, ((0, 0), (1, 0))), PER_ROW),
    ),
    "11 padded with the zero point of the first slot": Mistake(
        (Weight(ROWS, PER_ROW),),
        PADDED,
        Weight(np.pad(ROWS, ((0, 0), (1, 0)), constant_values=1), PER_ROW),
    ),
    "zero points that were forgotten": Mistake(
        (Weight(SQUARE, PER_COLUMN),),
        transpose("4x4", "4x4", "[1, 0]"),
        Weight(SQUARE.T, ":0, {0.5,0.25,2.0,4.0}"),
    ),
    "zero points that were not moved": Mistake(
        (Weight(ROWS, PER_ROW),),
        REVERSED,
        Weight(ROWS[::-1], ":0, {2.0:1,0.25:3,0.5:-5}"),
    ),
    "elements reversed, and not scales": Mistake(
        (Weight(ROWS, PER_ROW),), REVERSED, Weight(ROWS[::-1], PER_ROW)
    ),
    "scales reversed, and not elements": Mistake(
        (Weight(ROWS, PER_ROW),), REVERSED, Weight(ROWS, ":0, {2.0:-5,0.25:3,0.5:1}")
    ),
    "each copy of a repetition next to the other": Mistake(
        (Weight(ROWS, PER_ROW),),
        REPEATED,
        Weight(np.tile(ROWS, (2, 1)), ":0, {0.5:1,0.5:1,0.25:3,0.25:3,2.0:-5,2.0:-5}"),
    ),
    "3 scales that were not taken along": Mistake(
        (Weight(ROWS.reshape(1, 3, 4), PER_ROW.replace(":0", ":1", 1)),),
        TAKEN,
        Weight(ROWS[[2, 0, 1]].reshape(1, 3, 4), PER_ROW.replace(":0", ":1", 1)),
    ),
    "15 another sign of the integers": Mistake(
        (Weight(ROWS - 10, ", 0.5:1"),), REVERSED, Weight((ROWS - 10)[::-1].clip(0), ", 0.5:1")
    ),
    "17 halves of bytes that were exchanged": Mistake(
        (Weight(ROWS, ", 0.5:1"),),
        REVERSED,
        Weight(ROWS[::-1].reshape(-1, 2)[:, ::-1].reshape(3, 4), ", 0.5:1"),
    ),
    "19 nothing was copied": Mistake(
        (Weight(ROWS, ", 0.5:1"),), REVERSED, Weight(np.zeros_like(ROWS), ", 0.5:1")
    ),
    "20 blocks taken for positions": Mistake(
        (Weight(SQUARE, ":{0:4,1:2}, {{0.5:1,0.25:3}}"),),
        transpose("4x4", "4x4", "[1, 0]"),
        Weight(SQUARE.T, ":{0:1,1:4}, {{0.5:1},{0.25:3},{0.5:1},{0.25:3}}"),
    ),
}


@pytest.mark.parametrize("takes_argument", [False, True], ids=["constants", "argument"])
@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_of_others_are_found(mistake: Mistake, takes_argument: bool):
    before = mistake.before(takes_argument=takes_argument)
    assert findings(before, folded(before)) == []
    (message,) = findings(before, read(mistake.after(takes_argument=takes_argument)))
    assert message.startswith("function 'f' result #0 element [")


QUANTIZED = """
func.func @f() -> tensor<2x2x{type}> {{
  %q = quant.constant dense<{codes}> : tensor<2x2x{type}>
  return %q : tensor<2x2x{type}>
}}
"""
ROW_TYPE = "!quant.uniform<i8:f32:0, {0.5:1,0.25:3}>"


@pytest.mark.parametrize(
    ("type", "codes", "message"),
    [
        (ROW_TYPE, "[[1, 2], [3, 4]]", None),
        ("!quant.uniform<i8:f32:{0:1,1:2}, {{0.5:1},{0.25:3}}>", "[[1, 2], [3, 4]]", None),
        (
            "!quant.uniform<i8:f32:{0:1,1:1}, {{0.5:1,0.5:1},{0.25:3,0.25:3}}>",
            "[[1,2],[3,4]]",
            None,
        ),
        (
            ROW_TYPE,
            "[[1, 2], [4, 4]]",
            " element [1, 0] is 0.25 (stored 4), but was 0.0 (stored 3) before",
        ),
        (
            "!quant.uniform<i8:f32:1, {0.5:1,0.25:3}>",
            "[[1, 2], [3, 4]]",
            " element [0, 1] is read with scale 2.500000e-01, zero point 3, but was with scale "
            "5.000000e-01, zero point 1 before",
        ),
        ("!quant.uniform<i8<-127:127>:f32:0, {0.5:1,0.25:3}>", "[[1, 2], [3, 4]]", " is of type"),
        ("!quant.uniform<u8:f32:0, {0.5:1,0.25:3}>", "[[1, 2], [3, 4]]", " is of type"),
        ("!quant.uniform<i8:f16:0, {0.5:1,0.25:3}>", "[[1, 2], [3, 4]]", " is of type"),
        ("!quant.uniform<i16:f32:0, {0.5:1,0.25:3}>", "[[1, 2], [3, 4]]", " is of type"),
    ],
)
def test_quantized_results(type: str, codes: str, message: str | None):
    before = QUANTIZED.format(type=ROW_TYPE, codes="[[1, 2], [3, 4]]")
    found = findings(before, read(QUANTIZED.format(type=type, codes=codes)))
    assert len(found) == (message is not None)
    assert message is None or found[0].startswith(f"function 'f' result #0{message}")


def test_a_type_that_lies_where_the_constant_is_gone():
    """Elements are read as what the op declares, whatever they were before."""
    rows = "tensor<2x2x!quant.uniform<i8:f32:0, {{0.5,0.25}}>>"
    declared = rows.replace(":0", ":{axis}")
    text = (
        "func.func @f() -> tensor<2x2xf32> {{\n"
        f"%q = quant.constant dense<[[1, 2], [3, 4]]> : {rows}\n"
        '%t = "stablehlo.transpose"(%q) <{{permutation = array<i64: 1, 0>}}>'
        f" : ({rows}) -> {declared}\n"
        f"%r = quant.dcast %t : {declared} to tensor<2x2xf32>\n"
        "return %r : tensor<2x2xf32>\n}}"
    )
    (message,) = findings(text.format(axis=1), read(text.format(axis=0)))
    assert message == "function 'f' result #0 element [0, 1] is 1.5, but was 0.75 before"


def random_text(data: st.DataObject) -> str:
    """A module of ops that know what they move."""
    parts = [data.draw(functions(number)) for number in range(2)]
    # Types that lie are another meaning for every tool.
    assume(not any(node.is_lie for fn in parts for node in fn.nodes))
    return module_text(parts)


@examples(60)
@given(st.data())
def test_right_folds_are_not_reported(data: st.DataObject):
    text = random_text(data)
    after = folded(text)
    assert findings(text, after) == []
    LowerQuantShapesPass().apply(after.context, after.module)
    assert findings(text, after) == []


def with_unknown_op(text: str) -> str:
    """Has each function return the results of an op that nothing can run, of what it returned."""
    side = read(text)
    for function in side.module.ops:
        assert isinstance(function, FuncOp)
        last = function.body.block.last_op
        assert isinstance(last, ReturnOp)
        convolution = side.context.get_op("stablehlo.convolution").create(
            operands=last.operands, result_types=last.operand_types
        )
        Rewriter.insert_op(convolution, InsertPoint.before(last))
        last.operands = convolution.results
    return text_of(side)


@examples(60)
@given(st.data())
def test_folds_below_unknown_ops_are_proven(data: st.DataObject):
    text = with_unknown_op(random_text(data))
    after = folded(text)
    assert grounds(text, after) <= {"proven", "declared"}
    LowerQuantShapesPass().apply(after.context, after.module)
    for message in findings(text, after):
        # What is lowered with numbers that are known when it is run is not proven.
        assert "is not shown to be the same" in message


def run_alike(before: str, after: Side) -> bool:
    """Whether no function that can be run is seen to return something else."""
    sides = [ComparedModule(*side) for side in (read(before), after)]
    for name, function in sides[0].functions.items():
        pair = function, sides[1].functions[name]
        try:
            compare_runs((sides[0], sides[1]), pair, 8, StepBudget(1 << 30, "runs"))
        except DifferenceError:
            return False
        except RunFailure:
            continue
    return True


def text_of(side: Side) -> str:
    stream = io.StringIO()
    write_module(side.context, side.module, stream)
    return stream.getvalue()


@examples(20)
@given(st.data())
def test_what_is_called_the_same_runs_alike(data: st.DataObject):
    """Numbers are changed anywhere in what a fold has made: in data, scales, axes or offsets."""
    before = random_text(data)
    after = text_of(folded(before))
    numbers = [*re.finditer(r"(?<![\w%#.@-])\d+(?![\w.])", after)]
    assume(numbers)
    # Most changes are not read, or cannot be run; a module takes longer to make than they do.
    for number in data.draw(st.lists(st.sampled_from(numbers), min_size=6, max_size=6)):
        other = data.draw(st.sampled_from([-1, 1, 2]))
        start, end = number.span()
        check_change(before, f"{after[:start]}{int(number.group()) + other}{after[end:]}")


def check_change(before: str, changed: str) -> None:
    """What runs otherwise is found."""
    try:
        after_change = read(changed)
        is_alike = run_alike(before, after_change)
    # IndexError is of xDSL's verifier of `linalg.transpose`.
    except (KeyError, IndexError, ParseError, VerifyException, ValueError, InterpretationError):
        event("is not run")
        return
    event("runs alike" if is_alike else "runs otherwise")
    if not is_alike:
        assert findings(before, after_change)
        assert findings(with_unknown_op(before), read(with_unknown_op(changed)))


ARGUMENT = """
!in = tensor<?x3xf32>
!out = tensor<3x?xf32>
func.func @f(%x: !in) -> !out {{
  %0 = "stablehlo.transpose"(%x) <{{permutation = array<i64: 1, 0>}}> : (!in) -> !out
  %1 = "stablehlo.reverse"(%0) <{{dimensions = array<i64: {dims}>}}> : (!out) -> !out
  return %1 : !out
}}
"""


def test_lengths_that_are_not_known():
    assert findings(ARGUMENT.format(dims="0"), read(ARGUMENT.format(dims="0"))) == []
    (message,) = findings(ARGUMENT.format(dims="0"), read(ARGUMENT.format(dims="1")))
    assert message.startswith("function 'f' result #0 element [")
    assert message.endswith(" before, with set #0 of arguments")


def run(tmp_path: Path, before: str, after: str, *flags: str) -> tuple[int, str, str]:
    for name, text in (("before", before), ("after", after)):
        (tmp_path / f"{name}.mlir").write_text(text)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = check.main([*flags, str(tmp_path / "before.mlir"), str(tmp_path / "after.mlir")])
    return status, out.getvalue(), err.getvalue().replace(f"{tmp_path}/", "")


FLOAT = "func.func {visibility}@{name}({argument}) -> f32 {{\n  {op}\n  return %0 : f32\n}}\n"


def function(op: str, name: str = "f", argument: str = "", visibility: str = "") -> str:
    return FLOAT.format(op=op, name=name, argument=argument, visibility=visibility)


ONE, TWO = (f"%0 = arith.constant {n}.0 : f32" for n in (1, 2))


def test_functions_that_are_missing(tmp_path: Path):
    status, _, error = run(tmp_path, function(ONE) + function(ONE, "g"), function(ONE))
    assert status == 1
    assert error.startswith("before.mlir:5:1: error: function 'g' was removed\n")
    status, _, error = run(tmp_path, function(ONE), function(ONE) + function(ONE, "g"))
    assert status == 1
    assert error.startswith("after.mlir:5:1: error: function 'g' was added\n")
    private = function(ONE) + function(ONE, "g", visibility="private ")
    same = "function 'f': proven\nthe same: 1 function, proven\n"
    assert run(tmp_path, private, function(ONE)) == (0, same, "")


def test_types_of_functions(tmp_path: Path):
    with_argument = function(ONE, argument="%x: f32")
    status, _, error = run(tmp_path, with_argument, function(ONE, argument="%x: f64"))
    assert status == 1
    expected = (
        "after.mlir:1:1: error: function 'f' argument #0 is of type 'f64', but was of 'f32' before"
    )
    assert error.startswith(expected)
    status, _, error = run(tmp_path, with_argument, function(ONE))
    assert error.startswith("after.mlir:1:1: error: function 'f' has 0 arguments, but had 1 before")


def test_what_cannot_be_run_must_be_the_same(tmp_path: Path):
    unknown = '%0 = "other.op"() : () -> f32'
    flags = ("--allow-unregistered-dialect",)
    assert run(tmp_path, function(unknown), function(unknown), *flags)[0] == 0
    status, _, error = run(tmp_path, function(unknown), function(ONE), *flags)
    assert status == 1
    assert error.startswith(
        "before.mlir:2:8: error: function 'f' is not the same: 'other.op' op was removed"
    )
    status, _, error = run(tmp_path, function(ONE), function(unknown), *flags)
    assert status == 1
    assert error.startswith(
        "after.mlir:2:8: error: function 'f' is not the same: 'other.op' op was added"
    )
    renamed = unknown.replace("%0", "%v") + "\n%0 = arith.addf %v, %v : f32"
    assert run(tmp_path, function(renamed), function(renamed.replace("%v", "%w")), *flags)[0] == 0


def test_ops_that_nothing_has_verified():
    text = """
    func.func @f() -> tensor<0xi8> {
      %0 = "stablehlo.concatenate"() <{dimension = 0 : i64}> : () -> tensor<0xi8>
      return %0 : tensor<0xi8>
    }
    """
    assert findings(text, read(text)) == []
    other = text.replace("dimension = 0", "dimension = 1")
    (message,) = findings(text, read(other))
    assert (
        "which has different attributes; and it cannot be run: 'stablehlo.concatenate' op "
        in message
    )


def test_errors_of_the_tool(tmp_path: Path):
    status, _, error = run(tmp_path, function(ONE), function("%0 = nothing"))
    assert status == 1
    assert error.startswith("after.mlir:2:8: error:")
    assert run(tmp_path, "", "", "--runs=0")[2] == (
        "qdialect-check: error: --runs must be at least 1, but is 0\n"
    )
    assert run(tmp_path, "", "", "--nothing")[0] == 1


def test_nan_and_zeros(tmp_path: Path):
    nan, other_nan = (f"%0 = arith.constant 0x7FC000{n}0 : f32" for n in (0, 1))
    assert run(tmp_path, function(nan), function(other_nan))[0] == 0
    zeros = [f"%0 = arith.constant {text} : f32" for text in ("0.0", "-0.0")]
    assert run(tmp_path, *map(function, zeros))[0] == 1


@pytest.mark.parametrize(
    "path",
    sorted((Path(__file__).parents[3] / "examples").glob("*.mlir")),
    ids=lambda path: path.stem,
)
def test_examples(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "after.mlir"
    flag = "--allow-unregistered-dialect"
    passes = ["--fold-quant-shapes", "--lower-quant-shapes"]
    assert opt.main([*passes, flag, str(path), "-o", str(target)]) == 0
    assert check.main([flag, str(path), str(target)]) == 0
    assert capsys.readouterr().out.endswith("the same: 1 function, proven\n")


def test_a_function_that_only_text_names_is_compared(tmp_path: Path):
    """An attribute of a dialect that is not loaded is text."""
    user = "func.func @f() attributes {my.key = #my.key<calls @g>} {\n  return\n}\n"
    before, after = (user + function(op, "g", visibility="private ") for op in (ONE, TWO))
    assert run(tmp_path, before, before, "--allow-unregistered-dialect")[0] == 0
    status, _, error = run(tmp_path, before, after, "--allow-unregistered-dialect")
    assert status == 1
    assert "function 'g' result #0 is 2.0, but was 1.0 before" in error
