"""
The models of shape ops, compared with IREE, a compiler that reads the ops independently.

The interpreter, the fold and the verifier use the same model of an op, so none of them detects
a wrong one. Here each op is run on arguments whose elements all differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from qdialect.check.interpreters import TypedArray, run_function
from qdialect.ir.value_types import shape_of
from qdialect.ops.interface import name_of
from qdialect.ops.model import models_for_all
from qdialect.opt.registry import ToolContext
from qdialect.text.parser import LocatingParser


@dataclass(frozen=True)
class Case:
    """A function of shape ops, and the shapes of its arguments where types do not tell them."""

    name: str
    text: str
    """`(arguments) -> (results) { body }`."""

    shapes: tuple[tuple[int, ...], ...] = ()
    numbers: tuple[int | None, ...] = ()
    """Arguments that are scalars, each None for one that is a tensor."""

    @property
    def function(self) -> str:
        return f"func.func @{self.name}{self.text}"


def same(name: str, text: str, type: str, result: str, *, extra: str = "") -> Case:
    """A case of one op on one argument: `$` is the argument, `TYPES` are the types."""
    op = text.replace("$", "%x").replace("TYPES", f": ({type}) -> {result}")
    return Case(
        name, f"(%x: {type}) -> {result} {{\n{extra}\n  %r = {op}\n  return %r : {result}\n}}"
    )


def shape(name: str, *lengths: int) -> str:
    rank = len(lengths)
    type = f"!tosa.shape<{rank}>"
    values = f"dense<{list(lengths)}> : tensor<{rank}xindex>"
    return f'  %{name} = "tosa.const_shape"() <{{values = {values}}}> : () -> {type}\n'


TOSA = [
    same("identity", '"tosa.identity"($) TYPES', "tensor<2x3xi32>", "tensor<2x3xi32>"),
    same(
        "transpose",
        '"tosa.transpose"($) <{perms = array<i32: 2, 0, 1>}> TYPES',
        "tensor<2x3x4xi32>",
        "tensor<4x2x3xi32>",
    ),
    same(
        "transpose_four",
        '"tosa.transpose"($) <{perms = array<i32: 0, 3, 1, 2>}> TYPES',
        "tensor<2x3x4x5xi8>",
        "tensor<2x5x3x4xi8>",
    ),
    Case(
        "reshape",
        "(%x: tensor<2x6xi32>) -> tensor<3x4xi32> {\n"
        + shape("s", 3, 4)
        + '  %r = "tosa.reshape"(%x, %s) : (tensor<2x6xi32>, !tosa.shape<2>) -> tensor<3x4xi32>\n'
        "  return %r : tensor<3x4xi32>\n}",
    ),
    Case(
        "slice",
        "(%x: tensor<4x6xi32>) -> tensor<2x3xi32> {\n"
        + shape("o", 1, 2)
        + shape("s", 2, 3)
        + '  %r = "tosa.slice"(%x, %o, %s) : (tensor<4x6xi32>, !tosa.shape<2>, !tosa.shape<2>)'
        " -> tensor<2x3xi32>\n  return %r : tensor<2x3xi32>\n}",
    ),
    Case(
        "concat",
        "(%x: tensor<2x3xi32>, %y: tensor<2x1xi32>) -> tensor<2x4xi32> {\n"
        '  %r = "tosa.concat"(%x, %y) <{axis = 1 : i32}>'
        " : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x4xi32>\n"
        "  return %r : tensor<2x4xi32>\n}",
    ),
    Case(
        "pad",
        "(%x: tensor<2x3xi32>) -> tensor<3x8xi32> {\n"
        + shape("w", 1, 0, 2, 3)
        + '  %c = "tosa.const"() <{values = dense<-7> : tensor<1xi32>}> : () -> tensor<1xi32>\n'
        '  %r = "tosa.pad"(%x, %w, %c) : (tensor<2x3xi32>, !tosa.shape<4>, tensor<1xi32>)'
        " -> tensor<3x8xi32>\n  return %r : tensor<3x8xi32>\n}",
    ),
    same(
        "reverse",
        '"tosa.reverse"($) <{axis = 1 : i32}> TYPES',
        "tensor<2x3x4xi32>",
        "tensor<2x3x4xi32>",
    ),
    Case(
        "tile",
        "(%x: tensor<2x3xi32>) -> tensor<4x9xi32> {\n"
        + shape("m", 2, 3)
        + '  %r = "tosa.tile"(%x, %m) : (tensor<2x3xi32>, !tosa.shape<2>) -> tensor<4x9xi32>\n'
        "  return %r : tensor<4x9xi32>\n}",
    ),
    Case(
        "gather",
        "(%x: tensor<2x3x4xi32>) -> tensor<2x2x4xi32> {\n"
        '  %i = "tosa.const"() <{values = dense<[[2, 0], [1, 1]]> : tensor<2x2xi32>}>'
        " : () -> tensor<2x2xi32>\n"
        '  %r = "tosa.gather"(%x, %i) : (tensor<2x3x4xi32>, tensor<2x2xi32>) -> tensor<2x2x4xi32>\n'
        "  return %r : tensor<2x2x4xi32>\n}",
    ),
]

MINUS_SEVEN = '%c = "stablehlo.constant"() <{value = dense<-7> : tensor<i32>}> : () -> tensor<i32>'


def _given(name: str, values: str, type: str) -> str:
    """A constant."""
    return (
        f'  %{name} = "stablehlo.constant"() <{{value = dense<{values}> : {type}}}> : () -> {type}'
    )


STABLEHLO = [
    same(
        "transpose",
        '"stablehlo.transpose"($) <{permutation = array<i64: 2, 0, 1>}> TYPES',
        "tensor<2x3x4xi32>",
        "tensor<4x2x3xi32>",
    ),
    same("reshape", '"stablehlo.reshape"($) TYPES', "tensor<2x6xi32>", "tensor<3x4xi32>"),
    same(
        "slice",
        '"stablehlo.slice"($) <{start_indices = array<i64: 1, 0>, '
        "limit_indices = array<i64: 4, 6>, strides = array<i64: 2, 4>}> TYPES",
        "tensor<4x6xi32>",
        "tensor<2x2xi32>",
    ),
    Case(
        "concatenate",
        "(%x: tensor<2x3xi32>, %y: tensor<1x3xi32>) -> tensor<3x3xi32> {\n"
        '  %r = "stablehlo.concatenate"(%x, %y) <{dimension = 0 : i64}>'
        " : (tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<3x3xi32>\n"
        "  return %r : tensor<3x3xi32>\n}",
    ),
    same(
        "broadcast_in_dim",
        '"stablehlo.broadcast_in_dim"($) <{broadcast_dimensions = array<i64: 2, 0>}> TYPES',
        "tensor<4x1xi32>",
        "tensor<3x2x4xi32>",
    ),
    same(
        "reverse",
        '"stablehlo.reverse"($) <{dimensions = array<i64: 2, 0>}> TYPES',
        "tensor<2x3x4xi32>",
        "tensor<2x3x4xi32>",
    ),
    same(
        "pad",
        '"stablehlo.pad"($, %c) <{edge_padding_low = array<i64: 1, -1>, '
        "edge_padding_high = array<i64: 2, 3>, interior_padding = array<i64: 2, 0>}> "
        ": (tensor<2x3xi32>, tensor<i32>) -> tensor<7x5xi32>",
        "tensor<2x3xi32>",
        "tensor<7x5xi32>",
        extra=MINUS_SEVEN,
    ),
    same(
        "pad_negative_interior",
        '"stablehlo.pad"($, %c) <{edge_padding_low = array<i64: -2>, '
        "edge_padding_high = array<i64: -1>, interior_padding = array<i64: 1>}> "
        ": (tensor<5xi32>, tensor<i32>) -> tensor<6xi32>",
        "tensor<5xi32>",
        "tensor<6xi32>",
        extra=MINUS_SEVEN,
    ),
    *(
        same(name, text, operand, result, extra="\n".join(lines))
        for name, text, operand, result, lines in [
            (
                "dynamic_slice",
                '"stablehlo.dynamic_slice"($, %a, %b) <{slice_sizes = array<i64: 2, 3>}> : '
                "(tensor<4x5xi32>, tensor<i32>, tensor<i32>) -> tensor<2x3xi32>",
                *("tensor<4x5xi32>", "tensor<2x3xi32>"),
                [_given("a", "9", "tensor<i32>"), _given("b", "-1", "tensor<i32>")],
            ),
            (
                "dynamic_update_slice",
                '"stablehlo.dynamic_update_slice"($, %u, %a, %b) : '
                "(tensor<4x5xi32>, tensor<2x3xi32>, tensor<i32>, tensor<i32>) -> tensor<4x5xi32>",
                *("tensor<4x5xi32>", "tensor<4x5xi32>"),
                [
                    _given("a", "1", "tensor<i32>"),
                    _given("b", "9", "tensor<i32>"),
                    _given("u", "[[-1, -2, -3], [-4, -5, -6]]", "tensor<2x3xi32>"),
                ],
            ),
            (
                "dynamic_reshape",
                '"stablehlo.dynamic_reshape"($, %a) : (tensor<2x6xi32>, tensor<2xi32>) '
                "-> tensor<3x4xi32>",
                *("tensor<2x6xi32>", "tensor<3x4xi32>"),
                [_given("a", "[3, 4]", "tensor<2xi32>")],
            ),
            (
                "dynamic_broadcast_in_dim",
                '"stablehlo.dynamic_broadcast_in_dim"($, %a) <{broadcast_dimensions = '
                "array<i64: 2, 0>}> : (tensor<3x1xi32>, tensor<3xi32>) -> tensor<4x2x3xi32>",
                *("tensor<3x1xi32>", "tensor<4x2x3xi32>"),
                [_given("a", "[4, 2, 3]", "tensor<3xi32>")],
            ),
            (
                "real_dynamic_slice",
                '"stablehlo.real_dynamic_slice"($, %a, %b, %d) : (tensor<4x6xi32>, tensor<2xi32>, '
                "tensor<2xi32>, tensor<2xi32>) -> tensor<2x2xi32>",
                *("tensor<4x6xi32>", "tensor<2x2xi32>"),
                [
                    _given("a", "[1, 0]", "tensor<2xi32>"),
                    _given("b", "[4, 6]", "tensor<2xi32>"),
                    _given("d", "[2, 4]", "tensor<2xi32>"),
                ],
            ),
            (
                "dynamic_pad",
                '"stablehlo.dynamic_pad"($, %c, %a, %b, %d) : (tensor<2x3xi32>, tensor<i32>, '
                "tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<7x5xi32>",
                *("tensor<2x3xi32>", "tensor<7x5xi32>"),
                [
                    MINUS_SEVEN,
                    _given("a", "[1, -1]", "tensor<2xi32>"),
                    _given("b", "[2, 3]", "tensor<2xi32>"),
                    _given("d", "[2, 0]", "tensor<2xi32>"),
                ],
            ),
            (
                "dynamic_gather",
                '"stablehlo.dynamic_gather"($, %a, %b) <{dimension_numbers = #stablehlo.gather<'
                "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
                "index_vector_dim = 1>}> : (tensor<3x4xi32>, tensor<3xi32>, tensor<2xi32>) "
                "-> tensor<3x4xi32>",
                *("tensor<3x4xi32>", "tensor<3x4xi32>"),
                [
                    _given("a", "[2, 9, 0]", "tensor<3xi32>"),
                    _given("b", "[1, 4]", "tensor<2xi32>"),
                ],
            ),
        ]
    ),
]

_GATHERS = [
    # name, dimension numbers, slice sizes, operand, indices, result
    ("rows", "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
     "index_vector_dim = 1", "1, 4", "3x4", [2, 0, 9, -5, 1], "5x4"),
    ("columns", "offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], "
     "index_vector_dim = 1", "3, 1", "3x4", [2, 0, 9], "3x3"),
    ("kept", "offset_dims = [1, 2], start_index_map = [1], index_vector_dim = 1",
     "3, 1", "3x4", [2, 0], "2x3x1"),
    ("vectors", "offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], "
     "index_vector_dim = 2", "1, 4", "3x4", [[[2], [0]], [[1], [1]]], "2x2x4"),
    ("vector_first", "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
     "index_vector_dim = 0", "1, 4", "3x4", [[2, 0, 1]], "3x4"),
    ("whole", "offset_dims = [0, 1], start_index_map = [0], index_vector_dim = 0",
     "3, 4", "3x4", [2], "3x4"),
]  # fmt: skip


def _gather(name: str, numbers: str, sizes: str, operand: str, indices: Any, result: str) -> Case:
    array = np.array(indices)
    type = f"tensor<{'x'.join(map(str, array.shape))}xi32>"
    return same(
        f"gather_{name}",
        f'"stablehlo.gather"($, %i) <{{dimension_numbers = #stablehlo.gather<{numbers}>, '
        f"slice_sizes = array<i64: {sizes}>, indices_are_sorted = false}}> "
        f": (tensor<{operand}xi32>, {type}) -> tensor<{result}xi32>",
        f"tensor<{operand}xi32>",
        f"tensor<{result}xi32>",
        extra=f'  %i = "stablehlo.constant"() <{{value = dense<{array.tolist()}> : {type}}}>'
        f" : () -> {type}",
    )


_MAP = "affine_map<(d0, d1, d2) -> ({})>"


def _generic(name: str, inputs: str, results: str, type: str, result: str) -> Case:
    maps = ", ".join(_MAP.format(of) for of in (inputs, results))
    loops = ", ".join(['"parallel"'] * 3)
    return Case(
        name,
        f"(%x: {type}) -> {result} {{\n  %e = tensor.empty() : {result}\n"
        f"  %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{loops}]}}"
        f" ins(%x : {type}) outs(%e : {result}) {{\n  ^bb0(%a: i32, %b: i32):\n"
        f"    linalg.yield %a : i32\n  }} -> {result}\n  return %r : {result}\n}}",
    )


TENSOR = [
    Case(
        "reshape",
        "(%x: tensor<2x6xi32>) -> tensor<3x4xi32> {\n"
        "  %s = arith.constant dense<[3, 4]> : tensor<2xindex>\n"
        "  %r = tensor.reshape %x(%s) : (tensor<2x6xi32>, tensor<2xindex>) -> tensor<3x4xi32>\n"
        "  return %r : tensor<3x4xi32>\n}",
    ),
    Case(
        "expand_shape",
        "(%x: tensor<6x4xi32>) -> tensor<2x3x4x1xi32> {\n"
        "  %r = tensor.expand_shape %x [[0, 1], [2, 3]] output_shape [2, 3, 4, 1]"
        " : tensor<6x4xi32> into tensor<2x3x4x1xi32>\n  return %r : tensor<2x3x4x1xi32>\n}",
    ),
    Case(
        "expand_shape_dynamic",
        "(%x: tensor<?x4xi32>) -> tensor<?x3x4xi32> {\n"
        "  %c0 = arith.constant 0 : index\n  %c3 = arith.constant 3 : index\n"
        "  %d = tensor.dim %x, %c0 : tensor<?x4xi32>\n  %n = arith.divui %d, %c3 : index\n"
        "  %r = tensor.expand_shape %x [[0, 1], [2]] output_shape [%n, 3, 4]"
        " : tensor<?x4xi32> into tensor<?x3x4xi32>\n  return %r : tensor<?x3x4xi32>\n}",
        ((6, 4),),
    ),
    Case(
        "collapse_shape",
        "(%x: tensor<2x3x4x5xi32>) -> tensor<6x20xi32> {\n"
        "  %r = tensor.collapse_shape %x [[0, 1], [2, 3]]"
        " : tensor<2x3x4x5xi32> into tensor<6x20xi32>\n  return %r : tensor<6x20xi32>\n}",
    ),
    Case(
        "extract_slice",
        "(%x: tensor<4x6xi32>) -> tensor<2x2xi32> {\n"
        "  %r = tensor.extract_slice %x[1, 0] [2, 2] [2, 3] : tensor<4x6xi32> to tensor<2x2xi32>\n"
        "  return %r : tensor<2x2xi32>\n}",
    ),
    Case(
        "extract_slice_of_lower_rank",
        "(%x: tensor<4x1x6xi32>) -> tensor<6xi32> {\n"
        "  %r = tensor.extract_slice %x[3, 0, 0] [1, 1, 6] [1, 1, 1]"
        " : tensor<4x1x6xi32> to tensor<6xi32>\n  return %r : tensor<6xi32>\n}",
    ),
    Case(
        "extract_slice_at_constants",
        "(%x: tensor<5x6xi32>) -> tensor<2x2xi32> {\n"
        "  %o = arith.constant 1 : index\n  %s = arith.constant 3 : index\n"
        "  %r = tensor.extract_slice %x[%o, 1] [2, 2] [%s, 2]"
        " : tensor<5x6xi32> to tensor<2x2xi32>\n  return %r : tensor<2x2xi32>\n}",
    ),
    Case(
        "extract_slice_dynamic",
        "(%x: tensor<?x6xi32>, %o: index, %n: index) -> tensor<?x2xi32> {\n"
        "  %r = tensor.extract_slice %x[%o, 1] [%n, 2] [2, 1]"
        " : tensor<?x6xi32> to tensor<?x2xi32>\n"
        "  return %r : tensor<?x2xi32>\n}",
        ((5, 6),),
        (None, 1, 2),
    ),
    Case(
        "insert_slice",
        "(%x: tensor<2x2xi32>, %y: tensor<4x6xi32>) -> tensor<4x6xi32> {\n"
        "  %r = tensor.insert_slice %x into %y[1, 0] [2, 2] [2, 3]"
        " : tensor<2x2xi32> into tensor<4x6xi32>\n  return %r : tensor<4x6xi32>\n}",
    ),
    Case(
        "concat",
        "(%x: tensor<2x3xi32>, %y: tensor<2x1xi32>) -> tensor<2x4xi32> {\n"
        "  %r = tensor.concat dim(1) %x, %y"
        " : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x4xi32>\n"
        "  return %r : tensor<2x4xi32>\n}",
    ),
    Case(
        "pad",
        "(%x: tensor<2x3xi32>) -> tensor<3x8xi32> {\n  %c = arith.constant -7 : i32\n"
        "  %r = tensor.pad %x low[1, 2] high[0, 3] {\n  ^bb0(%i: index, %j: index):\n"
        "    tensor.yield %c : i32\n  } : tensor<2x3xi32> to tensor<3x8xi32>\n"
        "  return %r : tensor<3x8xi32>\n}",
    ),
    Case(
        "pad_dynamic",
        "(%x: tensor<2x3xi32>, %l: index) -> tensor<?x8xi32> {\n  %c = arith.constant -7 : i32\n"
        "  %r = tensor.pad %x low[%l, 2] high[0, 3] {\n  ^bb0(%i: index, %j: index):\n"
        "    tensor.yield %c : i32\n  } : tensor<2x3xi32> to tensor<?x8xi32>\n"
        "  return %r : tensor<?x8xi32>\n}",
        ((2, 3),),
        (None, 2),
    ),
    Case(
        "transpose",
        "(%x: tensor<2x3x4xi32>) -> tensor<4x2x3xi32> {\n"
        "  %e = tensor.empty() : tensor<4x2x3xi32>\n"
        "  %r = linalg.transpose ins(%x : tensor<2x3x4xi32>) outs(%e : tensor<4x2x3xi32>)"
        " permutation = [2, 0, 1]\n  return %r : tensor<4x2x3xi32>\n}",
    ),
    Case(
        "broadcast",
        "(%x: tensor<2x3xi32>) -> tensor<2x4x3xi32> {\n"
        "  %e = tensor.empty() : tensor<2x4x3xi32>\n"
        "  %r = linalg.broadcast ins(%x : tensor<2x3xi32>) outs(%e : tensor<2x4x3xi32>)"
        " dimensions = [1]\n  return %r : tensor<2x4x3xi32>\n}",
    ),
    _generic("generic_in", "d2, d0, d1", "d0, d1, d2", "tensor<2x3x4xi32>", "tensor<3x4x2xi32>"),
    _generic("generic_out", "d0, d1, d2", "d2, d0, d1", "tensor<2x3x4xi32>", "tensor<4x2x3xi32>"),
    _generic("generic_both", "d1, d2, d0", "d2, d0, d1", "tensor<2x3x4xi32>", "tensor<3x4x2xi32>"),
    _generic("generic_repeats", "d2, d0", "d0, d1, d2", "tensor<2x3xi32>", "tensor<3x5x2xi32>"),
    _generic("generic_at_zero", "d2, 0", "d0, d1, d2", "tensor<2x1xi32>", "tensor<3x5x2xi32>"),
]


def _torch(
    name: str,
    before: str,
    after: str,
    *operands: int | list[int] | tuple[int, ...] | bool | None,
) -> Case:
    """A case of one op of torch on one argument; a tuple is a tensor of integers."""
    lines: list[str] = []

    def emit(op: str, type: str, of: str = "", types: str = "") -> tuple[str, str]:
        lines.append(f'%v{len(lines)} = "torch.{op}({of}){types} -> {type}')
        return f"%v{len(lines) - 1}", type

    def constant(number: int | bool | None) -> tuple[str, str]:
        if number is None:
            return emit('constant.none"', "!torch.none", types=" : ()")
        kind = "bool" if isinstance(number, bool) else "int"
        held = str(number).lower() if kind == "bool" else f"{number} : i64"
        lines.append(
            f'%v{len(lines)} = "torch.constant.{kind}"() <{{value = {held}}}> : () -> !torch.{kind}'
        )
        return f"%v{len(lines) - 1}", f"!torch.{kind}"

    values = [("%x", f"!torch.vtensor<{before},si32>")]
    for operand in operands:
        if isinstance(operand, tuple):
            held = f"dense<{list(operand)}> : tensor<{len(operand)}xsi64>"
            type = f"!torch.vtensor<[{len(operand)}],si64>"
            literal = f'"torch.vtensor.literal"() <{{value = {held}}}> : () -> {type}'
            lines.append(f"%v{len(lines)} = {literal}")
            values.append((f"%v{len(lines) - 1}", type))
            continue
        if not isinstance(operand, list):
            values.append(constant(operand))
            continue
        items = [constant(number) for number in operand]
        names, kinds = ", ".join(n for n, _ in items), ", ".join(kind for _, kind in items)
        values.append(emit('prim.ListConstruct"', "!torch.list<int>", names, f" : ({kinds})"))
    if name == "cat":
        tensor = values[0][1]
        types = f" : ({tensor}, {tensor})"
        values[0] = emit('prim.ListConstruct"', "!torch.list<vtensor>", "%x, %x", types)
    result = f"!torch.vtensor<{after},si32>"
    given, kinds = ", ".join(n for n, _ in values), ", ".join(kind for _, kind in values)
    full_name = name if name.startswith("prims.") else f"aten.{name}"
    value, _ = emit(f'{full_name}"', result, given, f" : ({kinds})")
    body = "\n".join(lines)
    function = re.sub(r"\W", "_", name)
    text = (
        f"(%x: !torch.vtensor<{before},si32>) -> {result} {{\n{body}\nreturn {value} : {result}\n}}"
    )
    return Case(function, text)


TORCH = [
    _torch("permute", "[2,3,4]", "[4,2,3]", [-1, 0, 1]),
    _torch("transpose.int", "[2,3,4]", "[4,3,2]", 0, -1),
    _torch("t", "[2,3]", "[3,2]"),
    _torch("numpy_T", "[2,3,4]", "[4,3,2]"),
    _torch("view", "[2,6]", "[3,4]", [3, -1]),
    _torch("_unsafe_view", "[2,6]", "[3,4]", [3, 4]),
    _torch("reshape", "[2,6]", "[4,3]", [4, 3]),
    _torch("flatten.using_ints", "[2,3,4]", "[2,12]", 1, -1),
    _torch("unflatten.int", "[6,4]", "[2,3,4]", 0, [2, 3]),
    _torch("unsqueeze", "[2,3]", "[2,3,1]", -1),
    _torch("squeeze", "[1,2,1]", "[2]"),
    _torch("squeeze.dim", "[1,2,1]", "[1,2]", -1),
    _torch("slice.Tensor", "[2,9]", "[2,3]", -1, -7, 99, 3),
    _torch("narrow", "[2,9]", "[2,3]", 1, 4, 3),
    _torch("index_select", "[2,3,4]", "[2,4,4]", 1, (2, 0, 2, 1)),
    _torch("constant_pad_nd", "[2,3,4]", "[2,6,5]", [1, 0, 2, 1], 0),
    _torch("cat", "[2,3]", "[2,6]", -1),
    _torch("expand", "[3,1]", "[2,3,4]", [2, -1, 4], False),
    _torch("broadcast_to", "[3,1]", "[2,3,4]", [2, 3, 4]),
    _torch("flip", "[2,3,4]", "[2,3,4]", [-1, 0]),
    _torch("alias", "[2,3]", "[2,3]"),
    _torch("clone", "[2,3]", "[2,3]", None),
    _torch("contiguous", "[2,3]", "[2,3]", 0),
    _torch("detach", "[2,3]", "[2,3]"),
    _torch("prims.collapse", "[2,3,4]", "[2,12]", 1, 2),
    _torch("prims.split_dim", "[6,4]", "[2,3,4]", 0, 2),
    _torch("prims.squeeze", "[1,2,1]", "[1,2]", [2]),
]

DIALECTS = {
    "torch": TORCH,
    "tosa": TOSA,
    "stablehlo": [*STABLEHLO, *(_gather(*case) for case in _GATHERS)],
    "none": TENSOR,
}


def arguments_of(function: FuncOp, case: Case) -> list[TypedArray]:
    """Arguments whose elements all differ, in all arguments together."""
    arguments: list[TypedArray] = []
    first, shapes = 1, iter(case.shapes)
    for number, type in enumerate(function.function_type.inputs.data):
        scalar = case.numbers[number] if case.numbers else None
        if scalar is not None:
            arguments.append(TypedArray.of_numbers(np.array(scalar), type))
            continue
        lengths = next(shapes, None) or shape_of(type)
        assert lengths is not None
        count = int(np.prod(lengths))
        numbers = np.arange(first, first + count).reshape(lengths)
        arguments.append(TypedArray.of_numbers(numbers, type))
        first += count
    return arguments


@pytest.mark.iree
@pytest.mark.usefixtures("without_plugins")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_models_read_ops_as_iree_does(dialect: str):
    # Without stubs, and not installed everywhere.
    compiler: Any = import_module("iree.compiler")
    runtime: Any = import_module("iree.runtime")
    cases = DIALECTS[dialect]
    text = "\n".join(case.function for case in cases)
    binary = compiler.compile_str(text, target_backends=["vmvx"], input_type=dialect)
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, binary))
    tools = ToolContext(allow_unregistered=True)
    module = LocatingParser(tools, text, dialect).parse_module()
    for case, function in zip(cases, module.ops, strict=True):
        assert isinstance(function, FuncOp)
        arguments = arguments_of(function, case)
        given = [int(value.numbers) if not value.shape else value.elements for value in arguments]
        expected = np.asarray(context.modules.module[case.name](*given).to_host())
        (found,) = run_function(module, case.name, arguments, tools)
        assert found.shape == expected.shape, case.name
        assert found.numbers.tolist() == expected.tolist(), case.name


def test_every_model_is_among_the_cases():
    """
    A shape op that comes along has a case.

    Those of the dialect itself, and of dialects that IREE does not read, are tested elsewhere.
    """
    texts = {
        name_of(op)
        for dialect, cases in DIALECTS.items()
        for case in cases
        for op in LocatingParser(ToolContext(allow_unregistered=True), case.function, dialect)
        .parse_module()
        .walk()
    }
    known = {
        name
        for dialect in ("iree_linalg_ext", "linalg", "stablehlo", "tensor", "torch", "tosa")
        for name, model in models_for_all(dialect).items()
        if model.movement is not None
    }
    assert "tosa.transpose" in known
    assert known <= texts
