"""Positions of a gather that the module computes from constants."""

from __future__ import annotations

import numpy as np
import pytest
from folded_modules import fold, op_of

from qdialect.ops.interface import RefusalCode
from qdialect.opt.registry import ToolContext
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.text import parse_module

pytestmark = pytest.mark.usefixtures("without_plugins")

I3, B3, I8 = "tensor<3xi32>", "tensor<3xi1>", "tensor<3xi8>"
PAIRS = "tensor<3x2xi32>"
TWO = (I3, I3)
BACK = "{dimensions = array<i64: 0>}"


def constant(values: str, type: str) -> str:
    return f'"stablehlo.constant"() <{{value = dense<{values}> : {type}}}> : () -> {type}'


def op(name: str, operands: str, types: tuple[str, ...], result: str = I3, extra: str = "") -> str:
    return f'"stablehlo.{name}"({operands}) {extra} : ({", ".join(types)}) -> {result}'


IOTA = op("iota", "", (), extra="<{iota_dimension = 0 : i64}>")
LESS = "<{comparison_direction = #stablehlo<comparison_direction LT>}>"
WRAPPED = [
    f"%i = {constant('[-1, 2, -8]', I3)}",
    f"%z = {constant('0', I3)}",
    f"%n = {constant('8', I3)}",
    f"%l = {op('compare', '%i, %z', TWO, B3, LESS)}",
    f"%m = {op('add', '%i, %n', TWO)}",
    f"%r = {op('select', '%l, %m, %i', (B3, I3, I3))}",
]
COMPUTED = {
    "negative positions": (WRAPPED, [7, 2, 0]),
    "known signs": (
        [WRAPPED[0], WRAPPED[2], f"%l = {constant('[true, false, true]', B3)}", *WRAPPED[4:]],
        [7, 2, 0],
    ),
    "an iota in steps": (
        [f"%i = {IOTA}", f"%n = {constant('2', I3)}", f"%r = {op('multiply', '%i, %n', TWO)}"],
        [0, 2, 4],
    ),
    "from the end": (
        [f"%i = {IOTA}", f"%n = {constant('7', I3)}", f"%r = {op('subtract', '%n, %i', TWO)}"],
        [7, 6, 5],
    ),
    "bytes that wrap": (
        [
            f"%i = {constant('[-128, -127, -126]', 'tensor<3xi8>')}",
            f"%n = {constant('126', 'tensor<3xi8>')}",
            f"%s = {op('subtract', '%i, %n', ('tensor<3xi8>',) * 2, 'tensor<3xi8>')}",
            f"%r = {op('convert', '%s', ('tensor<3xi8>',))}",
        ],
        [2, 3, 4],
    ),
    "unsigned bytes": (
        [
            f"%i = {constant('[255, 1, 2]', 'tensor<3xui8>')}",
            f"%n = {constant('3', 'tensor<3xui8>')}",
            f"%s = {op('add', '%i, %n', ('tensor<3xui8>',) * 2, 'tensor<3xui8>')}",
            f"%r = {op('convert', '%s', ('tensor<3xui8>',))}",
        ],
        [2, 4, 5],
    ),
    "numbers that are not zero are true": (
        [
            f"%i = {constant('[2, 0, -4]', I3)}",
            f"%l = {op('convert', '%i', (I3,), B3)}",
            f"%t = {op('add', '%l, %l', (B3, B3), B3)}",
            f"%n = {constant('6', I3)}",
            f"%r = {op('select', '%t, %n, %i', (B3, I3, I3))}",
        ],
        [6, 0, 6],
    ),
    "moved": (
        [
            f"%i = {IOTA}",
            f"%r = {op('reverse', '%i', (I3,), extra=BACK)}",
        ],
        [2, 1, 0],
    ),
}

LOOPS = 'affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}'
EMPTY = f"%e = tensor.empty() : {I3}"


def generic(inputs: str, types: str, body: str) -> str:
    """A `linalg.generic` over three positions; the bodies name their arguments."""
    given = f" ins({inputs} : {types})" if inputs else ""
    maps = "affine_map<(d0) -> (d0)>, " * types.count("tensor")
    return (
        f"%r = linalg.generic {{indexing_maps = [{maps}{LOOPS}{given} outs(%e : {I3}) {{\n"
        f"{body}\n}} -> {I3}"
    )


def two(name: str, operands: str, result: str = I3) -> str:
    """An op of tosa on tensors of three numbers."""
    count = operands.count("%")
    return f'"tosa.{name}"({operands}) : ({", ".join([I3] * count)}) -> {result}'


def of_onnx(values: str, type: str) -> str:
    return f'"onnx.Constant"() {{value = dense<{values}> : {type}}} : () -> {type}'


OTHERS = {
    "loops of linalg": (
        [
            EMPTY,
            generic(
                "",
                "",
                "^bb0(%q: i32):\n%x = linalg.index 0 : index\n%t = arith.constant 2 : index\n"
                "%m = arith.muli %x, %t : index\n%c = arith.index_cast %m : index to i32\n"
                "%s = arith.constant 7 : i32\n%y = arith.subi %s, %c : i32\nlinalg.yield %y : i32",
            ),
        ],
        [7, 5, 3],
    ),
    "negative positions in linalg": (
        [
            "%i = arith.constant dense<[-1, 2, -8]> : tensor<3xi32>",
            EMPTY,
            generic(
                "%i",
                I3,
                "^bb0(%p: i32, %q: i32):\n%z = arith.constant 0 : i32\n"
                "%n = arith.constant 8 : i32\n%l = arith.cmpi slt, %p, %z : i32\n"
                "%m = arith.addi %p, %n : i32\n%y = arith.select %l, %m, %p : i32\n"
                "linalg.yield %y : i32",
            ),
        ],
        [7, 2, 0],
    ),
    "what linalg transposes is computed": (
        [
            "%i = arith.constant dense<[1, 2, 3]> : tensor<3xi32>",
            "%j = arith.addi %i, %i : tensor<3xi32>",
            EMPTY,
            f"%r = linalg.transpose ins(%j : {I3}) outs(%e : {I3}) permutation = [0]",
        ],
        [2, 4, 6],
    ),
    "bytes of arith": (
        [
            "%b = arith.constant dense<[-1, 127, -128]> : tensor<3xi8>",
            "%v = arith.extui %b : tensor<3xi8> to tensor<3xi32>",
            "%h = arith.constant dense<[130, 130, 130]> : tensor<3xi32>",
            "%l = arith.cmpi ult, %v, %h : tensor<3xi32>",
            "%s = arith.extui %l : tensor<3xi1> to tensor<3xi32>",
            "%f = arith.constant dense<5> : tensor<3xi32>",
            "%r = arith.muli %s, %f : tensor<3xi32>",
        ],
        [0, 5, 5],
    ),
    "truth values of arith": (
        [
            "%b = arith.constant dense<[true, false, true]> : tensor<3xi1>",
            "%n = arith.extsi %b : tensor<3xi1> to tensor<3xi32>",
            "%f = arith.constant dense<6> : tensor<3xi32>",
            "%r = arith.addi %n, %f : tensor<3xi32>",
        ],
        [5, 6, 5],
    ),
    "tosa": (
        [
            f'%i = "tosa.const"() <{{values = dense<[-1, 2, -8]> : {I3}}}> : () -> {I3}',
            f'%z = "tosa.const"() <{{values = dense<0> : {I3}}}> : () -> {I3}',
            f'%n = "tosa.const"() <{{values = dense<8> : {I3}}}> : () -> {I3}',
            f"%l = {two('greater', '%z, %i', B3)}",
            f"%m = {two('add', '%i, %n')}",
            f'%s = "tosa.select"(%l, %m, %i) : ({B3}, {I3}, {I3}) -> {I3}',
            f"%r = {two('minimum', '%s, %n')}",
        ],
        [7, 2, 0],
    ),
    "sums of tosa": (
        [
            f'%i = "tosa.const"() <{{values = dense<[[1, 2], [0, 5], [3, 3]]> : {PAIRS}}}> '
            f": () -> {PAIRS}",
            f'%s = "tosa.reduce_sum"(%i) <{{axis = 1 : i32}}> : ({PAIRS}) -> tensor<3x1xi32>',
            f'%r = "stablehlo.reshape"(%s) : (tensor<3x1xi32>) -> {I3}',
        ],
        [3, 5, 6],
    ),
    "truth values of tosa": (
        [
            f'%i = "tosa.const"() <{{values = dense<[2, 0, -4]> : {I3}}}> : () -> {I3}',
            f'%l = "tosa.cast"(%i) : ({I3}) -> {B3}',
            f'%r = "tosa.cast"(%l) : ({B3}) -> {I3}',
        ],
        [1, 0, 1],
    ),
    "ONNX": (
        [
            f"%i = {of_onnx('[-1, 2, -8]', I3)}",
            f"%z = {of_onnx('0', 'tensor<i32>')}",
            f"%n = {of_onnx('8', 'tensor<i32>')}",
            f'%l = "onnx.Less"(%i, %z) : ({I3}, tensor<i32>) -> {B3}',
            f'%m = "onnx.Add"(%i, %n) : ({I3}, tensor<i32>) -> {I3}',
            f'%r = "onnx.Where"(%l, %m, %i) : ({B3}, {I3}, {I3}) -> {I3}',
        ],
        [7, 2, 0],
    ),
    "a range of ONNX": (
        [
            f"%s = {of_onnx('6', 'tensor<i32>')}",
            f"%e = {of_onnx('-1', 'tensor<i32>')}",
            f"%d = {of_onnx('-3', 'tensor<i32>')}",
            f'%h = "onnx.Range"(%s, %e, %d) : (tensor<i32>, tensor<i32>, tensor<i32>) -> {I3}',
            f'%b = "onnx.Cast"(%h) {{to = 9 : si64}} : ({I3}) -> {B3}',
            f'%k = "onnx.Cast"(%b) {{to = 6 : si64}} : ({B3}) -> {I3}',
            f'%p = "onnx.Neg"(%k) : ({I3}) -> {I3}',
            f'%q = "onnx.Max"(%p, %h, %k) : ({I3}, {I3}, {I3}) -> {I3}',
            f'%r = "onnx.Mul"(%q, %k) : ({I3}, {I3}) -> {I3}',
        ],
        [6, 3, 0],
    ),
}
CASES = COMPUTED | OTHERS


def gather(lines: list[str]) -> str:
    numbers = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0]"
    extra = (
        f"<{{dimension_numbers = #stablehlo.gather<{numbers}, index_vector_dim = 1>, "
        "slice_sizes = array<i64: 1, 2>}>"
    )
    types = "tensor<8x2xi8>", "tensor<3x1xi32>"
    body = "\n".join(
        [
            f"%w = {constant(str(np.arange(16).reshape(8, 2).tolist()), 'tensor<8x2xi8>')}",
            *lines,
            f"%c = {op('reshape', '%r', (I3,), 'tensor<3x1xi32>')}",
            f"%g = {op('gather', '%w, %c', types, 'tensor<3x2xi8>', extra)}",
        ]
    )
    return f"func.func @f(%a: {I3}) -> tensor<3x2xi8> {{\n{body}\nreturn %g : tensor<3x2xi8>\n}}"


@pytest.mark.parametrize(("lines", "positions"), CASES.values(), ids=CASES)
def test_are_taken(lines: list[str], positions: list[int]) -> None:
    context = ToolContext()
    context.allow_unregistered = True
    module = parse_module(context, gather(lines))
    FoldQuantShapesPass(verify="values").apply(context, module)
    text = str(module)
    assert str(np.arange(16).reshape(8, 2)[positions].tolist()) in text
    # What computed them is not left.
    assert text.count("stablehlo.") == 1


NUMBER = '"torch.constant.int"() <{{value = {} : i64}}> : () -> !torch.int'
VECTOR, TRUTHS = "!torch.vtensor<[3],si64>", "!torch.vtensor<[3],i1>"
OF_TORCH = {
    "negative positions": (
        [
            "%i = "
            '"torch.vtensor.literal"() <{value = dense<[-1, 2, -8]> : tensor<3xsi64>}> '
            f": () -> {VECTOR}",
            f"%n = {NUMBER.format(4)}",
            f"%k = {NUMBER.format(2)}",
            f'%l = "torch.aten.lt.Scalar"(%i, %z) : ({VECTOR}, !torch.int) -> {TRUTHS}',
            f'%m = "torch.aten.add.Scalar"(%i, %n, %k) '
            f": ({VECTOR}, !torch.int, !torch.int) -> {VECTOR}",
            f'%r = "torch.aten.where.self"(%l, %m, %i) '
            f": ({TRUTHS}, {VECTOR}, {VECTOR}) -> {VECTOR}",
        ],
        [7, 2, 0],
    ),
    "a range": (
        [
            f"%s = {NUMBER.format(7)}",
            f"%e = {NUMBER.format(-2)}",
            f"%d = {NUMBER.format(-3)}",
            '%none = "torch.constant.none"() : () -> !torch.none',
            '%i = "torch.aten.arange.start_step"(%s, %e, %d, %none, %none, %none, %none) '
            f": ({', '.join(['!torch.int'] * 3 + ['!torch.none'] * 4)}) -> {VECTOR}",
            f"%k = {NUMBER.format(8)}",
            f'%j = "torch.aten.sub.Tensor"(%i, %i, %k) '
            f": ({VECTOR}, {VECTOR}, !torch.int) -> {VECTOR}",
            f'%r = "torch.aten.remainder.Scalar"(%j, %k) : ({VECTOR}, !torch.int) -> {VECTOR}',
        ],
        [7, 4, 1],
    ),
}


@pytest.mark.parametrize(("lines", "positions"), OF_TORCH.values(), ids=OF_TORCH)
def test_are_taken_by_torch(lines: list[str], positions: list[int]) -> None:
    rows = np.arange(16).reshape(8, 2)
    table, taken = "!torch.vtensor<[8,2],si8>", "!torch.vtensor<[3,2],si8>"
    body = "\n".join(
        [
            f'%w = "torch.vtensor.literal"() <{{value = dense<{rows.tolist()}> : tensor<8x2xsi8>}}>'
            f" : () -> {table}",
            f"%z = {NUMBER.format(0)}",
            *lines,
            f'%g = "torch.aten.index_select"(%w, %z, %r) : ({table}, !torch.int, {VECTOR})'
            f" -> {taken}",
        ]
    )
    module, _ = fold(f"func.func @f() -> {taken} {{\n{body}\nreturn %g : {taken}\n}}")
    text = str(module)
    assert str(rows[positions].tolist()) in text
    assert "aten" not in text


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([f"%r = {op('add', '%a, %a', TWO)}"], RefusalCode.DYNAMIC_SHAPE),
        ([f"%i = {IOTA}", f"%r = {op('add', '%i', (I3,))}"], RefusalCode.UNKNOWN_OP),
        ([f"%i = {IOTA}", f"%r = {op('compare', '%i, %i', TWO)}"], RefusalCode.UNKNOWN_OP),
        (
            [
                f"%v0 = {IOTA}",
                *(f"%v{n + 1} = {op('add', f'%v{n}, %v{n}', TWO)}" for n in range(2000)),
                f"%r = {op('add', '%v2000, %v0', TWO)}",
            ],
            RefusalCode.DYNAMIC_SHAPE,
        ),
    ],
    ids=["of an argument", "of too few operands", "in no known order", "by many ops"],
)
def test_others_are_left(lines: list[str], code: RefusalCode) -> None:
    module, report = fold(gather(lines))
    assert op_of(module, "stablehlo.gather")
    assert code in [record.code for record in report.records]
