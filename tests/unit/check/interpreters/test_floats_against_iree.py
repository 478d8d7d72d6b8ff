"""
The ops of float models, run with numpy and by IREE, a compiler that reads and computes them
independently.

Both give the same up to rounding: sums are of another order there, and functions such as exp are
approximated. What is not rounded has to be equal, with infinities, NaN and the signs of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, cast

import numpy as np
import pytest
from mlir_tools import MLIR_OPT, needs_mlir_opt, run
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters import TypedArray, run_function
from qdialect.dialects.arrays.elements import find_run
from qdialect.ops.model import Bits, models_for_all
from qdialect.opt.registry import ToolContext
from qdialect.text.parser import LocatingParser

Array = NDArray[Any]

EXACT = 0.0
ROUNDED = 1e-5
"""The difference that is allowed, relative to the greatest magnitude of the result."""

HALF = 2e-3

EDGES = (0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.7, -3.7, 1e6, -1e6, np.inf, -np.inf, np.nan)
NUMBERS = EDGES[:-3]
POSITIVE = (0.25, 0.5, 1.0, 1.5, 3.0, 7.25, 100.0, 1e-3)
SMALL = (0.0, -0.0, 0.25, -0.25, 0.5, -0.5, 0.875, -0.875)
FINITE = (0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 3.0, -3.0)


@dataclass(frozen=True)
class Case:
    """A function of one op, with the numbers that its float arguments begin with."""

    name: str
    types: Sequence[str]
    result: str
    text: str
    """The ops; `%0`, `%1` and so on are the arguments and `%r` the result."""

    tolerance: float = ROUNDED
    values: Sequence[float] = ()
    """Put in the first argument in order, and in the others in an order of their own."""

    @property
    def function(self) -> str:
        arguments = ", ".join(f"%{number}: {type}" for number, type in enumerate(self.types))
        return (
            f"func.func @{self.name}({arguments}) -> {self.result} {{\n"
            f"{self.text}\n  return %r : {self.result}\n}}"
        )


def plain(
    op: str,
    types: Sequence[str],
    result: str,
    attributes: str = "",
    *,
    name: str = "",
    region: str = "",
    before: str = "",
    extra: Sequence[tuple[str, str]] = (),
    tolerance: float = ROUNDED,
    values: Sequence[float] = (),
) -> Case:
    """A case of an op in generic form; `extra` are further operands, made in `before`."""
    given = [*((f"%{n}", type) for n, type in enumerate(types)), *extra]
    names, all_types = (", ".join(part) for part in zip(*given, strict=True))
    held = f" <{{{attributes}}}>" if attributes else ""
    inner = f" ({{{region}}})" if region else ""
    text = f'{before}\n  %r = "{op}"({names}){held}{inner} : ({all_types}) -> {result}'
    return Case(name or op.replace(".", "_"), types, result, text, tolerance, values)


def elementwise(
    dialect: str,
    names: str,
    tolerance: float,
    values: Sequence[float],
    count: int = 1,
    element: str = "f32",
    result: str = "",
) -> list[Case]:
    type = f"tensor<4x5x{element}>"
    made = f"tensor<4x5x{result or element}>"
    return [
        plain(
            f"{dialect}.{name}",
            [type] * count,
            made,
            name=f"{dialect}_{name}_{element}",
            tolerance=tolerance,
            values=values,
        )
        for name in names.split()
    ]


def constant(name: str, numbers: str, type: str) -> str:
    return f'  %{name} = "tosa.const"() <{{values = dense<{numbers}> : {type}}}> : () -> {type}\n'


def shape(name: str, *numbers: int) -> str:
    type, rank = f"!tosa.shape<{len(numbers)}>", len(numbers)
    values = f"dense<{list(numbers)}> : tensor<{rank}xindex>"
    return f'  %{name} = "tosa.const_shape"() <{{values = {values}}}> : () -> {type}\n'


ONE = "tensor<1xf32>"
ZERO = constant("z", "0.0", ONE)
ZEROS = [("%z", ONE), ("%z", ONE)]


def tosa_layer(
    op: str, x: str, w: str, b: str, result: str, attributes: str, name: str = ""
) -> Case:
    return plain(
        f"tosa.{op}",
        [f"tensor<{x}xf32>", f"tensor<{w}xf32>", f"tensor<{b}xf32>"],
        f"tensor<{result}xf32>",
        f"acc_type = f32, {attributes}",
        name=name or f"tosa_{op}",
        before=ZERO,
        extra=ZEROS,
    )


def resize(
    name: str, x: str, result: str, scale: Sequence[int], offset: Sequence[int],
    border: Sequence[int], mode: str,
) -> Case:  # fmt: skip
    before = shape("s", *scale) + shape("o", *offset) + shape("b", *border)
    extra = [("%s", "!tosa.shape<4>"), ("%o", "!tosa.shape<2>"), ("%b", "!tosa.shape<2>")]
    return plain(
        "tosa.resize",
        [f"tensor<{x}xf32>"],
        f"tensor<{result}xf32>",
        f"mode = #tosa.resize_mode<{mode}>",
        name=f"tosa_resize_{name}",
        before=before,
        extra=extra,
    )


POOL = "kernel = array<i64: 3, 2>, stride = array<i64: 2, 1>, pad = array<i64: 1, 1, 0, 1>"

TOSA: list[Case] = [
    *elementwise("tosa", "abs ceil floor", EXACT, EDGES),
    *elementwise("tosa", "exp", ROUNDED, FINITE),
    *elementwise("tosa", "cos sin", ROUNDED, FINITE),
    *elementwise("tosa", "sigmoid tanh erf", ROUNDED, NUMBERS),
    *elementwise("tosa", "log rsqrt reciprocal", ROUNDED, POSITIVE),
    *elementwise("tosa", "add sub", EXACT, EDGES, 2),
    *elementwise("tosa", "pow", ROUNDED, POSITIVE, 2),
    *elementwise("tosa", "equal greater", EXACT, EDGES, 2, result="i1"),
    # Of NaN, IREE's portable target says that it is greater or equal.
    *elementwise("tosa", "greater_equal", EXACT, EDGES[:-1], 2, result="i1"),
    *elementwise("tosa", "add sub", EXACT, (), 2, "i32"),
    *elementwise("tosa", "bitwise_and bitwise_or bitwise_xor", EXACT, (), 2, "i32"),
    *elementwise("tosa", "bitwise_not abs", EXACT, (), 1, "i32"),
    *elementwise("tosa", "logical_and logical_or logical_xor", EXACT, (), 2, "i1"),
    *elementwise("tosa", "logical_not", EXACT, (), 1, "i1"),
    plain(
        "tosa.add",
        ["tensor<4x1x3xf32>", "tensor<1x5x3xf32>"],
        "tensor<4x5x3xf32>",
        name="tosa_add_broadcast",
        tolerance=EXACT,
    ),
    plain(
        "tosa.select",
        ["tensor<4x5xi1>", "tensor<4x5xf32>", "tensor<1x5xf32>"],
        "tensor<4x5xf32>",
        tolerance=EXACT,
        values=EDGES,
    ),
    *(
        plain(
            f"tosa.{name}",
            ["tensor<4x5xf32>", "tensor<4x5xf32>"],
            "tensor<4x5xf32>",
            f"nan_mode = #tosa.nan_mode<{mode}>",
            name=f"tosa_{name}_{mode}",
            tolerance=EXACT,
            values=EDGES,
        )
        for name in ("maximum", "minimum")
        for mode in ("PROPAGATE", "IGNORE")
    ),
    *(
        plain(
            "tosa.clamp",
            ["tensor<4x5xf32>"],
            "tensor<4x5xf32>",
            f"min_val = -1.0 : f32, max_val = 2.25 : f32, nan_mode = #tosa.nan_mode<{mode}>",
            name=f"tosa_clamp_{mode}",
            tolerance=EXACT,
            values=EDGES,
        )
        for mode in ("PROPAGATE", "IGNORE")
    ),
    plain(
        "tosa.mul",
        ["tensor<4x5xf32>", "tensor<4x5xf32>"],
        "tensor<4x5xf32>",
        before=constant("s", "0", "tensor<1xi8>"),
        extra=[("%s", "tensor<1xi8>")],
        tolerance=EXACT,
        values=EDGES,
    ),
    plain(
        "tosa.negate",
        ["tensor<4x5xf32>"],
        "tensor<4x5xf32>",
        before=ZERO,
        extra=ZEROS,
        tolerance=EXACT,
        values=EDGES,
    ),
    plain(
        "tosa.cast",
        ["tensor<4x5xf32>"],
        "tensor<4x5xi8>",
        name="tosa_cast_i8",
        tolerance=EXACT,
        values=EDGES[:-1],
    ),
    plain(
        "tosa.cast",
        ["tensor<4x5xf32>"],
        "tensor<4x5xi32>",
        name="tosa_cast_i32",
        tolerance=EXACT,
        values=NUMBERS,
    ),
    plain("tosa.cast", ["tensor<4x5xi32>"], "tensor<4x5xf32>", name="tosa_cast_f32"),
    *(
        plain(
            f"tosa.{name}",
            ["tensor<3x7x4xf32>"],
            f"tensor<{result}xf32>",
            f"axis = {axis} : i32",
            name=f"tosa_{name}_{axis}",
        )
        for name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_product")
        for axis, result in enumerate(("1x7x4", "3x1x4", "3x7x1"))
    ),
    *(
        plain(
            f"tosa.{name}",
            ["tensor<3x7xi1>"],
            "tensor<3x1xi1>",
            "axis = 1 : i32",
            tolerance=EXACT,
        )
        for name in ("reduce_all", "reduce_any")
    ),
    *elementwise("tosa", "intdiv", EXACT, (), 2, "i32"),
    Case(
        "tosa_scatter",
        ["tensor<2x5x3xf32>", "tensor<2x2x3xf32>"],
        "tensor<2x5x3xf32>",
        constant("i", "[[3, 0], [1, 4]]", "tensor<2x2xi32>")
        + '  %r = "tosa.scatter"(%0, %i, %1)'
        " : (tensor<2x5x3xf32>, tensor<2x2xi32>, tensor<2x2x3xf32>) -> tensor<2x5x3xf32>",
        EXACT,
    ),
    plain("tosa.argmax", ["tensor<3x7xf32>"], "tensor<3xi32>", "axis = 1 : i32", tolerance=EXACT),
    plain(
        "tosa.max_pool2d", ["tensor<2x5x6x3xf32>"], "tensor<2x3x6x3xf32>", POOL, tolerance=EXACT
    ),
    plain(
        "tosa.avg_pool2d",
        ["tensor<2x5x6x3xf32>"],
        "tensor<2x3x6x3xf32>",
        f"acc_type = f32, {POOL}",
        before=ZERO,
        extra=ZEROS,
    ),
    tosa_layer(
        "conv2d", "2x8x8x3", "4x3x2x3", "4", "2x4x8x4",
        "pad = array<i64: 2, 1, 1, 0>, stride = array<i64: 2, 1>, dilation = array<i64: 2, 1>",
    ),
    tosa_layer(
        "conv3d", "1x4x5x4x2", "3x2x3x2x2", "3", "1x3x5x2x3",
        "pad = array<i64: 0, 0, 1, 1, 0, 0>, stride = array<i64: 1, 1, 2>, "
        "dilation = array<i64: 1, 1, 1>",
    ),
    tosa_layer(
        "depthwise_conv2d", "2x6x7x3", "3x2x3x2", "6", "2x3x6x6",
        "pad = array<i64: 0, 1, 0, 0>, stride = array<i64: 2, 1>, dilation = array<i64: 1, 1>",
    ),
    tosa_layer(
        "transpose_conv2d", "1x3x4x2", "3x2x3x2", "3", "1x7x10x3",
        "out_pad = array<i64: 0, 1, -1, 2>, stride = array<i64: 2, 2>",
    ),
    plain(
        "tosa.matmul",
        ["tensor<2x3x4xf32>", "tensor<2x4x5xf32>"],
        "tensor<2x3x5xf32>",
        before=ZERO,
        extra=ZEROS,
    ),
    plain(
        "tosa.matmul",
        ["tensor<2x3x4xi8>", "tensor<2x4x5xi8>"],
        "tensor<2x3x5xi32>",
        name="tosa_matmul_i8",
        before=constant("z", "3", "tensor<1xi8>") + constant("y", "-2", "tensor<1xi8>"),
        extra=[("%z", "tensor<1xi8>"), ("%y", "tensor<1xi8>")],
        tolerance=EXACT,
    ),
    resize("up", "1x3x4x2", "1x6x8x2", (4, 2, 4, 2), (-1, -1), (1, 1), "BILINEAR"),
    resize("corners", "1x3x4x2", "1x5x7x2", (4, 2, 4, 2), (0, 0), (0, 0), "BILINEAR"),
    resize("nearest", "1x3x4x2", "1x6x8x2", (4, 2, 4, 2), (-1, -1), (1, 1), "NEAREST_NEIGHBOR"),
    resize("down", "1x6x9x2", "1x3x3x2", (2, 4, 2, 6), (1, 2), (-1, -2), "BILINEAR"),
]  # fmt: skip


def region(op: str, element: str = "f32", dialect: str = "stablehlo") -> str:
    type = f"tensor<{element}>" if dialect == "stablehlo" else element
    return f"""
  ^bb0(%a: {type}, %b: {type}):
    %c = "{op}"(%a, %b) : ({type}, {type}) -> {type}
    "{dialect}.{"return" if dialect == "stablehlo" else "yield"}"(%c) : ({type}) -> ()
  """


def initial(number: str, element: str = "f32", name: str = "i") -> str:
    type = f"tensor<{element}>"
    value = f"dense<{number}> : {type}"
    return f'  %{name} = "stablehlo.constant"() <{{value = {value}}}> : () -> {type}\n'


FIRST_GREATEST = """
  ^bb0(%a: tensor<f32>, %p: tensor<i32>, %b: tensor<f32>, %q: tensor<i32>):
    %c = "stablehlo.compare"(%a, %b)
      <{comparison_direction = #stablehlo<comparison_direction GE>}>
      : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %d = "stablehlo.select"(%c, %a, %b)
      : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %e = "stablehlo.select"(%c, %p, %q)
      : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%d, %e) : (tensor<f32>, tensor<i32>) -> ()
  """

INF = "0x7F800000"
MINUS_INF = "0xFF800000"


def convolution(
    name: str, x: str, w: str, result: str, numbers: str, attributes: str, groups: int = 1
) -> Case:
    return plain(
        "stablehlo.convolution",
        [f"tensor<{x}xf32>", f"tensor<{w}xf32>"],
        f"tensor<{result}xf32>",
        f"batch_group_count = 1 : i64, feature_group_count = {groups} : i64, "
        f"dimension_numbers = #stablehlo.conv<{numbers}>{attributes}",
        name=f"convolution_{name}",
    )


def padding(*pairs: Sequence[int]) -> str:
    return f"padding = dense<{[list(pair) for pair in pairs]}> : tensor<{len(pairs)}x2xi64>"


NHWC = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"


def indices(numbers: str, shape: str, name: str = "i") -> str:
    """A constant of indices."""
    type = f"tensor<{shape}xi32>" if shape else "tensor<i32>"
    value = f"dense<{numbers}> : {type}"
    return f'  %{name} = "stablehlo.constant"() <{{value = {value}}}> : () -> {type}\n'


def gather(name: str, x: str, numbers: str, shape: str, of: str, sizes: str, result: str) -> Case:
    return plain(
        "stablehlo.gather",
        [f"tensor<{x}xf32>"],
        f"tensor<{result}xf32>",
        f"dimension_numbers = #stablehlo.gather<{of}>, indices_are_sorted = false, "
        f"slice_sizes = array<i64: {sizes}>",
        name=f"gather_{name}",
        before=indices(numbers, shape),
        extra=[("%i", f"tensor<{shape}xi32>")],
        tolerance=EXACT,
    )


REPLACE = """
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    "stablehlo.return"(%b) : (tensor<f32>) -> ()
  """


def scatter(
    name: str, x: str, updates: str, numbers: str, shape: str, of: str, region: str
) -> Case:
    types = [f"tensor<{x}xf32>", f"tensor<{shape}xi32>", f"tensor<{updates}xf32>"]
    return Case(
        f"scatter_{name}",
        [types[0], types[2]],
        types[0],
        indices(numbers, shape) + '  %r = "stablehlo.scatter"(%0, %i, %1) '
        f"<{{scatter_dimension_numbers = #stablehlo.scatter<{of}>, "
        f"indices_are_sorted = false, unique_indices = false}}> ({{{region}}}) "
        f": ({', '.join(types)}) -> {types[0]}",
    )


def sort(name: str, x: str, axis: int, order: str, attributes: str = "") -> Case:
    """The numbers of the elements in their order. IREE does not keep that of equal ones."""
    type, places = f"tensor<{x}xf32>", f"tensor<{x}xi32>"
    return Case(
        f"sort_{name}",
        [type],
        places,
        f'  %i = "stablehlo.iota"() <{{iota_dimension = {axis} : i64}}> : () -> {places}\n'
        f'  %s, %r = "stablehlo.sort"(%0, %i) '
        f"<{{dimension = {axis} : i64, is_stable = true}}> ({{\n"
        "  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %p: tensor<i32>, %q: tensor<i32>):\n"
        f'    %c = "stablehlo.compare"(%a, %b) <{{{attributes}'
        f"comparison_direction = #stablehlo<comparison_direction {order}>}}>"
        " : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        '    "stablehlo.return"(%c) : (tensor<i1>) -> ()\n'
        f"  }}) : ({type}, {places}) -> ({type}, {places})",
        EXACT,
    )


HALVE_WHILE_LARGE = """
  %n = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
  %m, %r = "stablehlo.while"(%n, %0) ({
  ^bb0(%a: tensor<i32>, %b: tensor<4xf32>):
    %l = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
    %c = "stablehlo.compare"(%a, %l) <{comparison_direction = #stablehlo<comparison_direction LT>}>
      : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%a: tensor<i32>, %b: tensor<4xf32>):
    %o = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %k = "stablehlo.add"(%a, %o) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %h = "stablehlo.add"(%b, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "stablehlo.return"(%k, %h) : (tensor<i32>, tensor<4xf32>) -> ()
  }) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)"""


def branches(count: int) -> str:
    """Regions that return the argument plus itself, so often."""
    ops = [
        "{\n"
        + "".join(
            f'    %s{n} = "stablehlo.add"(%{f"s{n - 1}" if n else "0"}, %0)'
            " : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
            for n in range(number + 1)
        )
        + f'    "stablehlo.return"(%s{number}) : (tensor<4xf32>) -> ()\n  }}'
        for number in range(count)
    ]
    return ", ".join(ops)


FLOW: list[Case] = [
    Case("while", ["tensor<4xf32>"], "tensor<4xf32>", HALVE_WHILE_LARGE, EXACT),
    *(
        Case(
            f"if_{number}",
            ["tensor<4xf32>"],
            "tensor<4xf32>",
            f'  %c = "stablehlo.constant"() <{{value = dense<{number}> : tensor<i1>}}>'
            " : () -> tensor<i1>\n"
            f'  %r = "stablehlo.if"(%c) ({branches(2)}) : (tensor<i1>) -> tensor<4xf32>',
            EXACT,
        )
        for number in ("true", "false")
    ),
    *(
        Case(
            f"case_{number}",
            ["tensor<4xf32>"],
            "tensor<4xf32>",
            indices(str(number).replace("m", "-"), "", "c")
            + f'  %r = "stablehlo.case"(%c) ({branches(3)}) : (tensor<i32>) -> tensor<4xf32>',
            EXACT,
        )
        for number in ("0", "1", "2", "7", "m1")
    ),
]

PLACES: list[Case] = [
    gather(
        "rows", "5x4", "[[3], [0], [4]]", "3x1",
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 1", "1, 4", "3x4",
    ),
    gather(
        "windows", "5x6", "[[3, 1], [0, 2], [9, -4]]", "3x2",
        "offset_dims = [0, 2], start_index_map = [1, 0], index_vector_dim = 1", "2, 3", "2x3x3",
    ),
    gather(
        "vectors_first", "5x6x2", "[[3, 1, 4], [0, 2, 5]]", "2x3",
        "offset_dims = [0], collapsed_slice_dims = [0, 1], start_index_map = [0, 1]",
        "1, 1, 2", "2x3",
    ),
    *(
        Case(
            f"dynamic_slice_{at}",
            ["tensor<4x5xf32>"],
            "tensor<2x3xf32>",
            indices(first, "", "i") + indices(second, "", "j")
            + '  %r = "stablehlo.dynamic_slice"(%0, %i, %j) <{slice_sizes = array<i64: 2, 3>}>'
            " : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>",
            EXACT,
        )
        for at, (first, second) in enumerate((("1", "2"), ("9", "-3")))
    ),
    *(
        Case(
            f"dynamic_update_slice_{at}",
            ["tensor<4x5xf32>", "tensor<2x3xf32>"],
            "tensor<4x5xf32>",
            indices(first, "", "i") + indices(second, "", "j")
            + '  %r = "stablehlo.dynamic_update_slice"(%0, %1, %i, %j)'
            " : (tensor<4x5xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x5xf32>",
            EXACT,
        )
        for at, (first, second) in enumerate((("1", "2"), ("9", "-3")))
    ),
    scatter(
        "rows", "5x4", "3x4", "[[3], [0], [4]]", "3x1",
        "update_window_dims = [1], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1", REPLACE,
    ),
    scatter(
        "sums", "5x4", "4x4", "[[3], [0], [3], [3]]", "4x1",
        "update_window_dims = [1], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1", region("stablehlo.add"),
    ),
    scatter(
        "columns", "5x4", "5x2", "[[3], [0]]", "2x1",
        "update_window_dims = [0], inserted_window_dims = [1], "
        "scatter_dims_to_operand_dims = [1], index_vector_dim = 1", region("stablehlo.maximum"),
    ),
    sort("rows", "2x11", 1, "LT"),
    sort("columns", "11x2", 0, "GT"),
    sort("few", "3x1", 1, "LT"),
    Case(
        "top_k",
        ["tensor<2x11xf32>"],
        "tensor<2x3xf32>",
        '  %r, %s = "chlo.top_k"(%0) <{k = 3 : i64}>'
        " : (tensor<2x11xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)",
        EXACT,
    ),
    *(
        elementwise("stablehlo", "shift_left shift_right_arithmetic shift_right_logical", EXACT,
                    (), 2, "i32")
    ),
    *elementwise("stablehlo", "popcnt count_leading_zeros", EXACT, (), 1, "i32"),
    plain(
        "stablehlo.bitcast_convert", ["tensor<4x5xf32>"], "tensor<4x5xi32>",
        tolerance=EXACT, values=NUMBERS,
    ),
    plain(
        "stablehlo.reduce_precision", ["tensor<4x5xf32>"], "tensor<4x5xf32>",
        "exponent_bits = 5 : i32, mantissa_bits = 10 : i32",
        tolerance=EXACT, values=(*NUMBERS, 1.0009765, 65519.0, 65520.0, 1 / 3, 1e-9),
    ),
    plain(
        "stablehlo.batch_norm_inference",
        [f"tensor<{of}xf32>" for of in ("2x3x4", "3", "3", "3", "3")],
        "tensor<2x3x4xf32>",
        "epsilon = 4.5 : f32, feature_index = 1 : i64",
    ),
    Case(
        "dynamic_iota",
        ["tensor<3x4xf32>"],
        "tensor<3x4xf32>",
        indices("[3, 4]", "2")
        + '  %d = "stablehlo.dynamic_iota"(%i) <{iota_dimension = 1 : i64}>'
        " : (tensor<2xi32>) -> tensor<3x4xf32>\n"
        '  %r = "stablehlo.add"(%0, %d)'
        " : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>",
        EXACT,
    ),
    Case(
        "dynamic_broadcast_in_dim",
        ["tensor<4x3xf32>", "tensor<1x4xf32>"],
        "tensor<5x3x4xf32>",
        '  %n = "stablehlo.get_dimension_size"(%0) <{dimension = 1 : i64}>'
        " : (tensor<4x3xf32>) -> tensor<i32>\n"
        '  %m = "stablehlo.reshape"(%n) : (tensor<i32>) -> tensor<1xi32>\n'
        '  %c = "stablehlo.constant"() <{value = dense<4> : tensor<1xi32>}> : () -> tensor<1xi32>\n'
        '  %f = "stablehlo.constant"() <{value = dense<5> : tensor<1xi32>}> : () -> tensor<1xi32>\n'
        '  %s = "stablehlo.concatenate"(%f, %m, %c) <{dimension = 0 : i64}>'
        " : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xi32>\n"
        '  %a = "stablehlo.dynamic_broadcast_in_dim"(%0, %s) <{broadcast_dimensions = '
        "array<i64: 2, 1>}> : (tensor<4x3xf32>, tensor<3xi32>) -> tensor<5x?x4xf32>\n"
        '  %b = "stablehlo.dynamic_broadcast_in_dim"(%1, %s) <{broadcast_dimensions = '
        "array<i64: 1, 2>}> : (tensor<1x4xf32>, tensor<3xi32>) -> tensor<5x?x4xf32>\n"
        '  %d = "stablehlo.add"(%a, %b)'
        " : (tensor<5x?x4xf32>, tensor<5x?x4xf32>) -> tensor<5x?x4xf32>\n"
        '  %r = "stablehlo.dynamic_reshape"(%d, %s)'
        " : (tensor<5x?x4xf32>, tensor<3xi32>) -> tensor<5x3x4xf32>",
        EXACT,
    ),
    *elementwise("chlo", "erfc", ROUNDED, FINITE),
    *elementwise("chlo", "is_inf is_neg_inf is_pos_inf", EXACT, EDGES, result="i1"),
]  # fmt: skip

STABLEHLO: list[Case] = [
    *elementwise("stablehlo", "abs ceil floor negate", EXACT, EDGES),
    *elementwise("stablehlo", "round_nearest_afz", EXACT, EDGES),
    *elementwise("stablehlo", "cosine sine exponential", ROUNDED, FINITE),
    *elementwise("stablehlo", "exponential_minus_one logistic tanh", ROUNDED, FINITE),
    *elementwise("stablehlo", "log log_plus_one rsqrt", ROUNDED, POSITIVE),
    *elementwise("stablehlo", "sqrt", 1e-7, POSITIVE),
    *elementwise("stablehlo", "add subtract multiply maximum minimum", EXACT, EDGES, 2),
    *elementwise("stablehlo", "divide atan2", ROUNDED, POSITIVE, 2),
    *elementwise("stablehlo", "power", ROUNDED, POSITIVE, 2),
    *elementwise("stablehlo", "add subtract multiply maximum minimum", EXACT, (), 2, "i32"),
    *elementwise("stablehlo", "divide remainder", EXACT, (), 2, "i32"),
    *elementwise("stablehlo", "and or xor", EXACT, (), 2, "i32"),
    *elementwise("stablehlo", "abs negate not sign", EXACT, (), 1, "i32"),
    *elementwise("stablehlo", "and or xor multiply maximum minimum", EXACT, (), 2, "i1"),
    *elementwise("stablehlo", "not", EXACT, (), 1, "i1"),
    *elementwise("stablehlo", "optimization_barrier", EXACT, EDGES),
    *elementwise("chlo", "acos asin atanh", ROUNDED, SMALL),
    *elementwise("chlo", "acosh", ROUNDED, (1.0, 1.5, 3.0, 100.0)),
    *elementwise("chlo", "atan cosh erf sinh square", ROUNDED, FINITE),
    plain(
        "stablehlo.clamp",
        ["tensor<f32>", "tensor<4x5xf32>", "tensor<f32>"],
        "tensor<4x5xf32>",
        name="clamp_by_scalars",
        tolerance=EXACT,
    ),
    *(
        plain(
            "stablehlo.select",
            [condition, "tensor<4x5xf32>", "tensor<4x5xf32>"],
            "tensor<4x5xf32>",
            name=f"select_{number}",
            tolerance=EXACT,
        )
        for number, condition in enumerate(("tensor<4x5xi1>", "tensor<i1>"))
    ),
    plain("stablehlo.convert", ["tensor<4x5xi32>"], "tensor<4x5xf32>", name="convert_to_floats"),
    Case(
        "iota",
        ["tensor<3x4xf32>"],
        "tensor<3x4xf32>",
        '  %i = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<3x4xf32>\n'
        '  %r = "stablehlo.add"(%0, %i)'
        " : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>",
        EXACT,
    ),
    plain("stablehlo.dot", ["tensor<3x4xf32>", "tensor<4x5xf32>"], "tensor<3x5xf32>"),
    plain("stablehlo.dot", ["tensor<4xf32>", "tensor<4xf32>"], "tensor<f32>", name="dot_of_lines"),
    plain(
        "stablehlo.dot_general",
        ["tensor<3x2x4x6xf32>", "tensor<4x5x6x2xf32>"],
        "tensor<2x3x5xf32>",
        "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [1], "
        "rhs_batching_dimensions = [3], lhs_contracting_dimensions = [2, 3], "
        "rhs_contracting_dimensions = [0, 2]>",
    ),
    convolution(
        "strides", "2x7x8x3", "3x2x3x4", "2x3x8x4", NHWC,
        ", window_strides = array<i64: 2, 1>, rhs_dilation = array<i64: 2, 1>, "
        + padding((2, 1), (1, 0)),
    ),
    convolution(
        "groups", "2x4x5x6", "3x2x2x9", "2x2x4x9", NHWC,
        "", groups=3,
    ),
    convolution(
        "depthwise", "2x4x5x6", "3x2x1x12", "2x2x4x12", NHWC,
        "", groups=6,
    ),
    convolution(
        "transposed", "1x3x4x2", "3x3x2x4", "1x7x8x4", NHWC,
        ", lhs_dilation = array<i64: 2, 2>, "
        + padding((2, 2), (2, 1)),
    ),
    convolution(
        "crossed", "1x2x5x4", "4x2x2x3", "1x4x2x2", "[b, f, 1, 0]x[o, i, 0, 1]->[b, f, 1, 0]",
        ", window_strides = array<i64: 1, 2>, " + padding((0, -1), (1, 0)),
    ),
    convolution(
        "one", "2x6x3", "2x3x4", "2x5x4", "[b, 0, f]x[0, i, o]->[b, 0, f]", ""
    ),
    convolution(
        "three", "1x3x4x4x2", "2x2x3x2x3", "1x2x3x2x3",
        "[b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f]", "",
    ),
    *(
        plain(
            "stablehlo.reduce",
            ["tensor<3x7x4xf32>"],
            "tensor<7xf32>",
            "dimensions = array<i64: 0, 2>",
            name=f"reduce_{name}",
            before=initial(number),
            extra=[("%i", "tensor<f32>")],
            region=region(f"stablehlo.{name}"),
        )
        for name, number in (
            ("add", "0.5"), ("multiply", "2.0"), ("maximum", MINUS_INF), ("minimum", INF)
        )
    ),
    Case(
        "reduce_to_argmax",
        ["tensor<3x7xf32>", "tensor<3x7xi32>"],
        "tensor<3xi32>",
        initial(MINUS_INF) + initial("0", "i32", "j") +
        f'  %s, %r = "stablehlo.reduce"(%0, %1, %i, %j) <{{dimensions = array<i64: 1>}}> '
        f"({{{FIRST_GREATEST}}}) : (tensor<3x7xf32>, tensor<3x7xi32>, tensor<f32>, tensor<i32>)"
        " -> (tensor<3xf32>, tensor<3xi32>)",
        EXACT,
    ),
    *(
        plain(
            "stablehlo.reduce_window",
            ["tensor<2x7x6x3xf32>"],
            f"tensor<2x{result}x3xf32>",
            f"window_dimensions = array<i64: 1, 3, 2, 1>{attributes}",
            name=f"reduce_window_{name}_{at}",
            before=initial(number),
            extra=[("%i", "tensor<f32>")],
            region=region(f"stablehlo.{name}"),
        )
        for name, number in (("add", "0.0"), ("maximum", MINUS_INF), ("minimum", INF))
        for at, (result, attributes) in enumerate(
            (
                ("5x5", ""),
                (
                    "4x6",
                    ", window_strides = array<i64: 1, 2, 1, 1>, "
                    + padding((0, 0), (1, 1), (1, 0), (0, 0)),
                ),
                ("3x5", ", window_dilations = array<i64: 1, 2, 1, 1>"),
            )
        )
    ),
]  # fmt: skip


def linalg(
    op: str,
    inputs: Sequence[str],
    out: str,
    attributes: str = "",
    *,
    name: str = "",
    body: str = "",
    tolerance: float = ROUNDED,
    values: Sequence[float] = (),
) -> Case:
    """A case of an op that writes to its last argument."""
    ins = ", ".join(f"%{number}" for number in range(len(inputs)))
    out_name = f"%{len(inputs)}"
    text = (
        f"  %r = linalg.{op} {attributes} ins({ins} : {', '.join(inputs)}) "
        f"outs({out_name} : {out}) {body} -> {out}"
    )
    return Case(name or f"linalg_{op}", [*inputs, out], out, text, tolerance, values)


def f32(shape: str) -> str:
    return f"tensor<{shape}xf32>"


def sized(*shapes: str) -> list[str]:
    return list(map(f32, shapes))


def named(
    names: str, count: int = 1, tolerance: float = EXACT, values: Sequence[float] = EDGES
) -> list[Case]:
    (type,) = sized("4x5")
    return [
        linalg(name, [type] * count, type, tolerance=tolerance, values=values)
        for name in names.split()
    ]


def layer(op: str, x: str, w: str, result: str, attributes: str = "") -> Case:
    return linalg(op, sized(x, w), f"tensor<{result}xf32>", attributes)


def pool(op: str, x: str, window: str, result: str, attributes: str = "") -> Case:
    return linalg(f"pooling_{op}", sized(x, window), f"tensor<{result}xf32>", attributes)


def maps(*maps: str) -> str:
    return ", ".join(f"affine_map<{of}>" for of in maps)


def generic(
    name: str,
    inputs: Sequence[str],
    out: str,
    indexing: str,
    kinds: str,
    body: str,
    tolerance: float = ROUNDED,
) -> Case:
    iterators = ", ".join({"p": '"parallel"', "r": '"reduction"'}[of] for of in kinds)
    return linalg(
        "generic",
        inputs,
        out,
        f"{{indexing_maps = [{indexing}], iterator_types = [{iterators}]}}",
        name=f"generic_{name}",
        body=f"{{{body}}}",
        tolerance=tolerance,
    )


def math_case(op: str, count: int, values: Sequence[float], tolerance: float = ROUNDED) -> Case:
    """A case of an op on scalars, in the body of a `linalg.generic`."""
    (type,) = sized("4x5")
    names = ", ".join(f"%a{number}" for number in range(count))
    arguments = ", ".join(f"%a{number}: f32" for number in range(count + 1))
    return linalg(
        "generic",
        [type] * count,
        type,
        f"{{indexing_maps = [{maps(*['(i, j) -> (i, j)'] * (count + 1))}], "
        'iterator_types = ["parallel", "parallel"]}',
        name=op.replace(".", "_"),
        body=f"{{\n  ^bb0({arguments}):\n    %c = {op} {names} : f32\n"
        "    linalg.yield %c : f32\n  }",
        tolerance=tolerance,
        values=values,
    )


ADD_BODY = """
  ^bb0(%a: f32, %c: f32):
    %s = arith.addf %c, %a : f32
    linalg.yield %s : f32
  """
PRODUCT_BODY = """
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  """
MAX_BODY = """
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = arith.maximumf %c, %a : f32
    linalg.yield %s : f32
  """
EXP_BODY = """
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.subf %a, %b : f32
    %e = math.exp %d : f32
    %s = arith.addf %e, %c : f32
    linalg.yield %s : f32
  """
INDEX_BODY = """
  ^bb0(%a: f32, %c: f32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    %p = arith.mulf %a, %k : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  """
HORNER_BODY = """
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %c, %b : f32
    %s = arith.addf %p, %a : f32
    linalg.yield %s : f32
  """
ARGMAX = Case(
    "generic_argmax",
    sized("3x7"),
    "tensor<3xi32>",
    """
  %low = arith.constant dense<0xFF800000> : tensor<3xf32>
  %zero = arith.constant dense<0> : tensor<3xi32>
  %s, %r = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
        affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%0 : tensor<3x7xf32>) outs(%low, %zero : tensor<3xf32>, tensor<3xi32>) {
  ^bb0(%a: f32, %m: f32, %n: i32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i32
    %g = arith.cmpf ogt, %a, %m : f32
    %x = arith.maximumf %a, %m : f32
    %y = arith.select %g, %j, %n : i32
    linalg.yield %x, %y : f32, i32
  } -> (tensor<3xf32>, tensor<3xi32>)""",
    EXACT,
)

WINDOWS_2D = "{strides = dense<[2, 1]> : tensor<2xi64>, dilations = dense<[1, 2]> : tensor<2xi64>}"

OLDER: list[Case] = [
    *named("abs ceil floor negf round square copy"),
    *named("add sub mul", 2),
    *named("max min", 2, ROUNDED),
    *named("div", 2, ROUNDED, POSITIVE),
    *named("powf", 2, ROUNDED, POSITIVE),
    *named("exp tanh erf", 1, ROUNDED, FINITE),
    *named("log reciprocal rsqrt sqrt", 1, ROUNDED, POSITIVE),
    linalg("select", ["tensor<4x5xi1>", *sized("4x5", "4x5")], f32("4x5"), tolerance=EXACT),
    *(
        linalg(
            "elementwise",
            [type] * count,
            type,
            f"kind=#linalg.elementwise_kind<{kind}>",
            name=f"elementwise_{kind}",
            values=values,
        )
        for type in sized("4x5")
        for kind, count, values in (("add", 2, ()), ("exp", 1, FINITE), ("max_signed", 2, FINITE))
    ),
    linalg(
        "elementwise",
        sized("5x4", "4"),
        f32("4x5"),
        "kind=#linalg.elementwise_kind<sub> indexing_maps = "
        f"[{maps('(i, j) -> (j, i)', '(i, j) -> (i)', '(i, j) -> (i, j)')}]",
        name="elementwise_with_maps",
        tolerance=EXACT,
    ),
]
"""Ops that IREE does not read under these names; MLIR 22 writes them as `linalg.generic` for it."""

LINALG: list[Case] = [
    Case(
        "linalg_dot",
        [*sized("6", "6"), "tensor<f32>"],
        "tensor<f32>",
        "  %r = linalg.dot ins(%0, %1 : tensor<6xf32>, tensor<6xf32>) outs(%2 : tensor<f32>)"
        " -> tensor<f32>",
    ),
    layer("matmul", "3x4", "4x5", "3x5"),
    layer("batch_matmul", "2x3x4", "2x4x5", "2x3x5"),
    layer("batch_reduce_matmul", "2x3x4", "2x4x5", "3x5"),
    layer("matvec", "3x4", "4", "3"),
    layer("vecmat", "4", "4x5", "5"),
    layer("batch_matvec", "2x3x4", "2x4", "2x3"),
    layer("batch_vecmat", "2x4", "2x4x5", "2x5"),
    layer(
        "contract", "3x4x2", "5x4x2", "5x3",
        "indexing_maps = [affine_map<(m, n, k, l) -> (m, k, l)>, "
        "affine_map<(m, n, k, l) -> (n, k, l)>, affine_map<(m, n, k, l) -> (n, m)>]",
    ),
    layer("conv_1d_nwc_wcf", "2x7x3", "2x3x4", "2x3x4", "{strides = dense<2> : tensor<1xi64>}"),
    layer("conv_1d_ncw_fcw", "2x3x7", "4x3x2", "2x4x6"),
    layer("conv_2d_nhwc_hwcf", "1x7x6x3", "3x2x3x4", "1x3x4x4", WINDOWS_2D),
    layer("conv_2d_nhwc_fhwc", "1x7x6x3", "4x3x2x3", "1x3x4x4", WINDOWS_2D),
    layer("conv_2d_nchw_fchw", "1x3x7x6", "4x3x3x2", "1x4x3x4", WINDOWS_2D),
    layer("conv_2d_ngchw_fgchw", "1x2x3x4x5", "4x2x3x2x2", "1x2x4x3x4"),
    layer("conv_2d_ngchw_gfchw", "1x2x3x4x5", "2x4x3x2x2", "1x2x4x3x4"),
    layer("conv_2d_nhwgc_gfhwc", "1x4x5x2x3", "2x4x2x2x3", "1x3x4x2x4"),
    layer("conv_3d_ndhwc_dhwcf", "1x3x4x4x2", "2x2x3x2x3", "1x2x3x2x3"),
    layer("conv_3d_ncdhw_fcdhw", "1x2x3x4x4", "3x2x2x2x3", "1x3x2x3x2"),
    layer("depthwise_conv_1d_nwc_wc", "2x6x3", "2x3", "2x5x3"),
    layer("depthwise_conv_1d_nwc_wcm", "2x6x3", "2x3x4", "2x5x3x4"),
    layer("depthwise_conv_1d_ncw_cw", "2x3x6", "3x2", "2x3x5"),
    layer("depthwise_conv_2d_nhwc_hwc", "1x7x6x3", "3x2x3", "1x3x4x3", WINDOWS_2D),
    layer("depthwise_conv_2d_nhwc_hwcm", "1x7x6x3", "3x2x3x2", "1x3x4x3x2", WINDOWS_2D),
    layer("depthwise_conv_2d_nchw_chw", "1x3x7x6", "3x3x2", "1x3x3x4", WINDOWS_2D),
    layer("depthwise_conv_3d_ndhwc_dhwc", "1x3x4x4x2", "2x2x3x2", "1x2x3x2x2"),
    layer("depthwise_conv_3d_ndhwc_dhwcm", "1x3x4x4x2", "2x2x3x2x3", "1x2x3x2x2x3"),
    layer("depthwise_conv_3d_ncdhw_cdhw", "1x2x3x4x4", "2x2x2x3", "1x2x2x3x2"),
    *(pool(f"nhwc_{of}", "1x7x6x3", "3x2", "1x3x4x3", WINDOWS_2D) for of in ("sum", "max", "min")),
    *(pool(f"nchw_{of}", "1x3x7x6", "3x2", "1x3x3x4", WINDOWS_2D) for of in ("sum", "max")),
    *(pool(f"nwc_{of}", "2x7x3", "3", "2x5x3") for of in ("sum", "max", "min")),
    *(pool(f"ncw_{of}", "2x3x7", "3", "2x3x5") for of in ("sum", "max")),
    *(pool(f"ndhwc_{of}", "1x3x4x5x2", "2x2x3", "1x2x3x3x2") for of in ("sum", "max", "min")),
    Case(
        "linalg_reduce",
        sized("3x7x4", "7"),
        "tensor<7xf32>",
        "  %r = linalg.reduce { arith.addf } ins(%0 : tensor<3x7x4xf32>)"
        " outs(%1 : tensor<7xf32>) dimensions = [0, 2]",
    ),
    Case(
        "linalg_map",
        sized("4x5", "4x5", "4x5"),
        "tensor<4x5xf32>",
        "  %r = linalg.map { arith.divf } ins(%0, %1 : tensor<4x5xf32>, tensor<4x5xf32>)"
        " outs(%2 : tensor<4x5xf32>)",
    ),
    generic(
        "sum", sized("3x4x5"), f32("5x3"), maps("(i, j, k) -> (i, j, k)", "(i, j, k) -> (k, i)"),
        "prp", ADD_BODY,
    ),
    generic(
        "all", sized("3x4"), "tensor<f32>", maps("(i, j) -> (i, j)", "(i, j) -> ()"), "rr", ADD_BODY
    ),
    generic(
        "product", sized("3x4", "5x4"), f32("5x3"),
        maps("(i, j, k) -> (i, k)", "(i, j, k) -> (j, k)", "(i, j, k) -> (j, i)"),
        "ppr", PRODUCT_BODY,
    ),
    generic(
        "convolution", sized("2x7x3", "2x3x4"), f32("2x3x4"),
        maps("(n, w, f, k, c) -> (n, w * 2 + k, c)", "(n, w, f, k, c) -> (k, c, f)",
             "(n, w, f, k, c) -> (n, w, f)"),
        "ppprr", PRODUCT_BODY,
    ),
    generic(
        "pool", sized("2x7x3", "3"), f32("2x3x3"),
        maps("(n, w, c, k) -> (n, w * 2 + k, c)", "(n, w, c, k) -> (k)",
             "(n, w, c, k) -> (n, w, c)"),
        "pppr", MAX_BODY, EXACT,
    ),
    generic(
        "softmax", sized("3x4", "3"), f32("3"),
        maps("(i, j) -> (i, j)", "(i, j) -> (i)", "(i, j) -> (i)"), "pr", EXP_BODY,
    ),
    generic(
        "numbered", sized("3x4"), f32("3"), maps("(i, j) -> (i, j)", "(i, j) -> (i)"),
        "pr", INDEX_BODY,
    ),
    generic(
        "horner", sized("3x4", "3"), f32("3"),
        maps("(i, j) -> (i, j)", "(i, j) -> (i)", "(i, j) -> (i)"), "pr", HORNER_BODY,
    ),
    ARGMAX,
    generic(
        "sum_of_kept_axes", sized("3x4x5"), f32("5x1x3"),
        maps("(i, j, k) -> (i, j, k)", "(i, j, k) -> (k, 0, i)"), "prp", ADD_BODY,
    ),
    generic(
        "horner_of_kept_axes", sized("3x4", "3x1"), f32("3x1"),
        maps("(i, j) -> (i, j)", "(i, j) -> (i, 0)", "(i, j) -> (i, 0)"), "pr", HORNER_BODY,
    ),
    *(
        math_case(f"math.{name}", 1, FINITE)
        for name in ("cos", "erf", "exp", "exp2", "expm1", "sin", "tanh")
    ),
    *(
        math_case(f"math.{name}", 1, POSITIVE)
        for name in ("log", "log10", "log1p", "log2", "rsqrt", "sqrt")
    ),
    math_case("math.round", 1, EDGES, EXACT),
    *(math_case(f"math.{name}", 2, POSITIVE) for name in ("atan2", "powf")),
    math_case("math.atan", 1, FINITE),
    math_case("math.fma", 3, FINITE),
]  # fmt: skip

NATIVE: list[Case] = [
    *(math_case(f"math.{name}", 1, SMALL) for name in ("acos", "asin", "atanh")),
    math_case("math.acosh", 1, (1.0, 1.5, 3.0, 100.0)),
    *(math_case(f"math.{name}", 1, FINITE) for name in ["asinh", "cbrt", "cosh", "sinh", "tan"]),
    math_case("math.copysign", 2, EDGES, EXACT),
    math_case("arith.remf", 2, (5.5, -5.5, 2.0, -2.0, 0.75, 1e6), EXACT),
    math_case("math.roundeven", 1, EDGES, EXACT),
    Case(
        "math_fpowi",
        sized("4x5"),
        "tensor<4x5xf32>",
        "  %k = arith.constant 3 : i32\n  %e = tensor.empty() : tensor<4x5xf32>\n"
        "  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, "
        'affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} '
        "ins(%0 : tensor<4x5xf32>) outs(%e : tensor<4x5xf32>) {\n  ^bb0(%a: f32, %b: f32):\n"
        "    %c = math.fpowi %a, %k : f32, i32\n    linalg.yield %c : f32\n"
        "  } -> tensor<4x5xf32>",
    ),
    linalg("matmul", ["tensor<3x40xf16>", "tensor<40x5xf16>"], f32("3x5"), name="halves"),
    linalg("matmul", ["tensor<3x40xf64>", "tensor<40x5xf64>"], "tensor<3x5xf64>", name="doubles"),
]
STABLEHLO_NATIVE: list[Case] = [
    *elementwise("stablehlo", "sign round_nearest_even", EXACT, EDGES),
    *elementwise("stablehlo", "remainder", EXACT, FINITE, 2),
    *elementwise("stablehlo", "is_finite", EXACT, EDGES, result="i1"),
    *elementwise("stablehlo", "clamp", EXACT, FINITE, 3),
    *(
        plain(
            "stablehlo.compare",
            ["tensor<4x5xf32>", "tensor<4x5xf32>"],
            "tensor<4x5xi1>",
            f"comparison_direction = #stablehlo<comparison_direction {order}>",
            name=f"compare_{order}",
            tolerance=EXACT,
            values=EDGES,
        )
        for order in ("EQ", "NE", "LT", "LE", "GT", "GE")
    ),
    plain(
        "stablehlo.convert",
        ["tensor<4x5xf32>"],
        "tensor<4x5xi32>",
        name="convert_to_integers",
        tolerance=EXACT,
        values=NUMBERS,
    ),
    *elementwise("stablehlo", "tan cbrt", ROUNDED, FINITE),
    *elementwise("chlo", "asinh tan", ROUNDED, FINITE),
]
"""What IREE's portable target lacks, or rounds and compares otherwise than StableHLO says."""


ADD = """
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    "tm_tensor.yield"(%c) : (f32) -> ()
  """
LARGER = """
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    %d = arith.select %c, %a, %b : f32
    "tm_tensor.yield"(%d) : (f32) -> ()
  """
UPDATE = """
  ^bb0(%a: f32, %b: f32):
    "tm_tensor.yield"(%a) : (f32) -> ()
  """


def scan(name: str, x: str, axis: int, region: str, *, is_inclusive: bool, last: bool) -> Case:
    """All elements, or the last one of each row."""
    lengths = x.split("x")
    kept = "x".join(lengths[:axis] + lengths[axis + 1 :])
    whole, row = f"tensor<{x}xf32>", f"tensor<{kept}xf32>"
    names = "%s, %r" if last else "%r, %s"
    return Case(
        f"scan_{name}",
        [whole, row],
        row if last else whole,
        f"  %e = tensor.empty() : {whole}\n"
        f'  {names} = "tm_tensor.scan"(%0, %e, %1) <{{dimension = {axis} : i64, '
        f"inclusive = {str(is_inclusive).lower()}, operandSegmentSizes = array<i32: 1, 2>}}> "
        f"({{{region}}}) : ({whole}, {whole}, {row}) -> ({whole}, {row})",
    )


def tm_sort(name: str, x: str, axis: int, order: str, *, equal: bool = False) -> Case:
    """Sort elements, together with their positions; with `equal`, some elements are equal."""
    values, places = f"tensor<{x}xf32>", f"tensor<{x}xi32>"
    loops = f"affine_map<({', '.join(f'd{n}' for n in range(x.count('x') + 1))}) -> "
    loops += f"({', '.join(f'd{n}' for n in range(x.count('x') + 1))})>"
    kinds = ", ".join(['"parallel"'] * (x.count("x") + 1))
    return Case(
        f"tm_sort_{name}",
        [values],
        places,
        f"  %e = tensor.empty() : {places}\n"
        f"  %i = linalg.generic {{indexing_maps = [{loops}], iterator_types = [{kinds}]}} "
        f"outs(%e : {places}) {{\n"
        "  ^bb0(%o: i32):\n"
        f"    %n = linalg.index {axis} : index\n"
        "    %m = arith.index_cast %n : index to i32\n"
        f"    linalg.yield %m : i32\n  }} -> {places}\n"
        f'  %s, %r = "tm_tensor.sort"(%0, %i) <{{dimension = {axis} : i64, '
        "operandSegmentSizes = array<i32: 0, 2>}> ({\n"
        "  ^bb0(%a: f32, %b: f32, %p: i32, %q: i32):\n"
        f"    %c = arith.cmpf {order}, %a, %b : f32\n"
        '    "tm_tensor.yield"(%c) : (i1) -> ()\n'
        f"  }}) : ({values}, {places}) -> ({values}, {places})",
        EXACT,
        (0.5, -1.0, 0.5, 2.0, -1.0, 0.5) if equal else (),
    )


def tm_scatter(
    name: str, x: str, updates: str, numbers: str, shape: str, axes: str, region: str
) -> Case:
    types = [f"tensor<{updates}xf32>", f"tensor<{shape}xi32>", f"tensor<{x}xf32>"]
    return Case(
        f"tm_scatter_{name}",
        [types[0], types[2]],
        types[2],
        f"  %i = arith.constant dense<{numbers}> : {types[1]}\n"
        f'  %r = "tm_tensor.scatter"(%0, %i, %1) <{{dimension_map = array<i64: {axes}>, '
        f"operandSegmentSizes = array<i32: 2, 1>, unique_indices = false}}> ({{{region}}}) "
        f": ({', '.join(types)}) -> {types[2]}",
    )


TM_TENSOR = [
    scan("rows", "3x5", 1, ADD, is_inclusive=True, last=False),
    scan("columns", "3x5", 0, ADD, is_inclusive=True, last=False),
    scan("exclusive", "3x5x2", 1, ADD, is_inclusive=False, last=False),
    scan("maximum", "3x5", 1, LARGER, is_inclusive=True, last=False),
    scan("maximum_exclusive", "3x5", 1, LARGER, is_inclusive=False, last=False),
    scan("last", "3x5", 1, ADD, is_inclusive=True, last=True),
    scan("last_exclusive", "3x5", 1, ADD, is_inclusive=False, last=True),
    scan("one", "3x1", 1, ADD, is_inclusive=False, last=False),
    tm_sort("rows", "3x11", 1, "oge"),
    tm_sort("columns", "11x3", 0, "ole"),
    tm_sort("equal", "2x13", 1, "oge", equal=True),
    tm_scatter("elements", "5", "3", "[[4], [0], [2]]", "3x1", "0", UPDATE),
    tm_scatter("repeated", "3x4", "4", "[[0, 1], [2, 3], [0, 1], [0, 1]]", "4x2", "0, 1", ADD),
    tm_scatter("in_order", "3x4", "4", "[[0, 1], [2, 3], [0, 1], [0, 1]]", "4x2", "0, 1", UPDATE),
    tm_scatter("rows", "3x4", "2x1x4", "[[2], [0]]", "2x1", "0", UPDATE),
]

CASES = {
    "tosa": TOSA,
    "stablehlo": STABLEHLO,
    "stablehlo_native_flow": FLOW,
    "stablehlo_native_places": PLACES,
    "linalg": LINALG,
    "tm_tensor": TM_TENSOR,
    "linalg_by_older_names": OLDER,
    "linalg_native": NATIVE,
    "stablehlo_native": STABLEHLO_NATIVE,
}

WITHOUT_PLUGINS = {
    name: [] if name.startswith("stablehlo") else [pytest.mark.without_xdsl] for name in CASES
}
"""The marks of cases: another package defines the ops of one dialect."""


def arguments_of(case: Case, function: FuncOp) -> list[Array]:
    random = np.random.default_rng(len(case.name))
    arguments: list[Array] = []
    for number, type in enumerate(function.function_type.inputs.data):
        lengths = cast("TensorType[Any]", type).get_shape()
        element = str(cast("TensorType[Any]", type).element_type)
        if element == "i1":
            arguments.append(random.integers(0, 2, lengths).astype(np.bool_))
        elif element.startswith("i"):
            dtype = {"i8": np.int8, "i32": np.int32}[element]
            numbers = random.integers(-100, 100, lengths)
            arguments.append(np.where(numbers == 0, 7, numbers).astype(dtype))
        else:
            floats = random.uniform(-2, 2, lengths)
            if case.values:
                # Each edge meets others.
                floats = np.resize(np.asarray(case.values), int(np.prod(lengths)))
                floats = random.permutation(floats) if number else floats
                floats = floats.reshape(lengths)
            dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[element]
            arguments.append(floats.astype(dtype))
    return arguments


INPUT_TYPES = {"linalg": "none", "tm": "torch", "tosa": "tosa", "stablehlo": "stablehlo"}
"""The dialects that IREE's compiler is told to read."""


@dataclass(frozen=True)
class Compiled:
    """The cases of a dialect, compiled by IREE, and as this package reads them."""

    functions: Any
    module: ModuleOp
    context: ToolContext

    def function(self, name: str) -> FuncOp:
        (found,) = (
            op for op in self.module.ops if isinstance(op, FuncOp) and op.sym_name.data == name
        )
        return found


@cache
def compiled(dialect: str) -> Compiled:
    # Without stubs, and not installed everywhere.
    compiler: Any = import_module("iree.compiler")
    runtime: Any = import_module("iree.runtime")
    text = "\n".join(case.function for case in CASES[dialect])
    is_older, is_native = dialect == "linalg_by_older_names", "_native" in dialect
    binary = compiler.compile_str(
        run([MLIR_OPT, "--linalg-generalize-named-ops"], text) if is_older else text,
        target_backends=["llvm-cpu" if is_native else "vmvx"],
        input_type=INPUT_TYPES.get(dialect.partition("_")[0]),
        extra_args=["--iree-llvmcpu-target-cpu=generic", "--iree-input-demote-f64-to-f32=false"]
        if is_native
        else [],
    )
    # xDSL does not know the custom forms of all named ops.
    generic = run([MLIR_OPT if is_older else "iree-opt", "--mlir-print-op-generic"], text)
    context = ToolContext(allow_unregistered=True)
    module = LocatingParser(context, generic, dialect).parse_module()
    functions = runtime.load_vm_flatbuffer(
        binary, driver="local-task" if is_native else "local-sync"
    )
    return Compiled(functions, module, context)


@pytest.mark.iree
@needs_mlir_opt
@pytest.mark.parametrize(
    ("dialect", "case"),
    [
        pytest.param(dialect, case, marks=WITHOUT_PLUGINS[dialect])
        for dialect, cases in CASES.items()
        for case in cases
    ],
    ids=[case.name for cases in CASES.values() for case in cases],
)
def test_floats_are_those_of_iree(dialect: str, case: Case):
    of = compiled(dialect)
    function = of.function(case.name)
    arguments = arguments_of(case, function)
    types = function.function_type.inputs.data
    given = [
        TypedArray.of_numbers(array, type) for array, type in zip(arguments, types, strict=True)
    ]
    expected = np.asarray(of.functions[case.name](*arguments).to_host())
    (result,) = run_function(of.module, case.name, given, of.context)
    found = result.numbers
    assert found.shape == expected.shape
    if expected.dtype.kind != "f":
        # The only i1 that is not 0 is -1.
        assert (np.abs(found) == expected if "xi1>" in case.result else found == expected).all()
        return
    expected = expected.astype(np.float64)
    if case.tolerance == EXACT:
        assert np.array_equal(found, expected, equal_nan=True)
        assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()
    else:
        greatest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
        np.testing.assert_allclose(found, expected, case.tolerance, case.tolerance * greatest)


def test_a_reversed_window_is_a_reversed_kernel():
    """IREE refuses these."""
    attributes = (
        "batch_group_count = 1 : i64, feature_group_count = 1 : i64, "
        f"dimension_numbers = #stablehlo.conv<{NHWC}>, {padding((1, 0), (0, 1))}"
    )
    reverse = (
        '%w = "stablehlo.reverse"(%1) <{dimensions = array<i64: 0>}> '
        ": (tensor<3x2x2x4xf32>) -> tensor<3x2x2x4xf32>"
    )
    case = (
        "func.func @{}(%0: tensor<1x4x5x2xf32>, %1: tensor<3x2x2x4xf32>) -> tensor<1x3x5x4xf32> "
        '{{\n{}\n  %r = "stablehlo.convolution"(%0, {}) <{{{}}}> '
        ": (tensor<1x4x5x2xf32>, tensor<3x2x2x4xf32>) -> tensor<1x3x5x4xf32>\n"
        "  return %r : tensor<1x3x5x4xf32>\n}}\n"
    )
    window = ", window_reversal = array<i1: true, false>"
    text = case.format("a", "", "%1", attributes + window) + case.format(
        "b", reverse, "%w", attributes
    )
    context = ToolContext(allow_unregistered=True)
    module = LocatingParser(context, text, "text").parse_module()
    random = np.random.default_rng(0)
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    given = [
        TypedArray.of_numbers(
            random.uniform(-2, 2, cast("TensorType[Any]", type).get_shape()), type
        )
        for type in function.function_type.inputs
    ]
    one, other = (run_function(module, name, given, context)[0] for name in "ab")
    assert one.numbers.any()
    assert (one.elements == other.elements).all()


def numbers_of(text: str, argument: Array) -> Array:
    """What the function `f` returns for one argument."""
    context = ToolContext(allow_unregistered=True)
    module = LocatingParser(context, text, "text").parse_module()
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    (type,) = function.function_type.inputs
    given = TypedArray.of_numbers(argument, type)
    return run_function(module, "f", [given], context)[0].numbers


def test_what_iree_does_not_read():
    numbers = np.array([[3.0, 1.0, 1.0], [2.0, 5.0, -1.0]])
    least = """
      func.func @f(%x: tensor<2x3xf32>) -> tensor<2xi32> {
        %0 = "tosa.argmin"(%x) <{axis = 1 : i32}> : (tensor<2x3xf32>) -> tensor<2xi32>
        return %0 : tensor<2xi32>
      }"""
    assert numbers_of(least, numbers).tolist() == [1, 2]
    product = """
      func.func @f(%x: tensor<1x2x3xf32>) -> tensor<1x2x2xf32> {
        %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
        %0 = "tosa.matmul_t"(%x, %x, %z, %z)
          : (tensor<1x2x3xf32>, tensor<1x2x3xf32>, tensor<1xf32>, tensor<1xf32>)
          -> tensor<1x2x2xf32>
        return %0 : tensor<1x2x2xf32>
      }"""
    assert (numbers_of(product, numbers[None]) == numbers @ numbers.T).all()
    composite = """
      func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
        %0 = "stablehlo.composite"(%x) <{name = "chlo.twice", decomposition = @twice}>
          : (tensor<2x3xf32>) -> tensor<2x3xf32>
        return %0 : tensor<2x3xf32>
      }
      func.func private @twice(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
        %0 = "stablehlo.add"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
        return %0 : tensor<2x3xf32>
      }"""
    assert (numbers_of(composite, numbers) == 2 * numbers).all()


@pytest.mark.parametrize(
    ("updates", "axes", "numbers", "windows"),
    [
        ("2x5", "0", "[[2], [1]]", [np.s_[2], np.s_[1]]),
        ("2x2x3", "0, 1", "[[2, 1], [1, 2]]", [np.s_[2:4, 1:4], np.s_[1:3, 2:5]]),
        ("2", "1, 0", "[[4, 1], [0, 3]]", [np.s_[1, 4], np.s_[3, 0]]),
    ],
)
def test_windows_are_scattered_that_iree_refuses(
    updates: str, axes: str, numbers: str, windows: Sequence[Any]
):
    places = f"tensor<2x{axes.count(',') + 1}xi32>"
    text = f"""
      func.func @f(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {{
        %i = arith.constant dense<{numbers}> : {places}
        %u = arith.constant dense<1.0> : tensor<{updates}xf32>
        %0 = "tm_tensor.scatter"(%u, %i, %x) <{{dimension_map = array<i64: {axes}>,
            operandSegmentSizes = array<i32: 2, 1>, unique_indices = false}}> ({{{ADD}}})
          : (tensor<{updates}xf32>, {places}, tensor<4x5xf32>) -> tensor<4x5xf32>
        return %0 : tensor<4x5xf32>
      }}"""
    expected = np.zeros((4, 5))
    for window in windows:
        expected[window] += 1
    assert (numbers_of(text, np.zeros((4, 5))) == expected).all()
    for outside in ("[[5", "[[-1"):
        with pytest.raises(InterpretationError, match="an index is out of range"):
            numbers_of(text.replace(numbers[:3], outside), np.zeros((4, 5)))


def test_what_has_no_order_is_sorted_somehow():
    """NaN is neither before nor after a number."""
    text = """
      func.func @f(%x: tensor<1x40xf32>) -> tensor<1x40xf32> {
        %0 = "stablehlo.sort"(%x) <{dimension = 1 : i64, is_stable = true}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = "stablehlo.compare"(%a, %b) <{
              comparison_direction = #stablehlo<comparison_direction LT>}>
            : (tensor<f32>, tensor<f32>) -> tensor<i1>
          "stablehlo.return"(%c) : (tensor<i1>) -> ()
        }) : (tensor<1x40xf32>) -> tensor<1x40xf32>
        return %0 : tensor<1x40xf32>
      }"""
    numbers: Array = np.random.default_rng(3).permutation(40)[None] / 2
    numbers[:, ::3] = np.nan
    found = numbers_of(text, numbers)
    assert np.array_equal(np.sort(found), np.sort(numbers), equal_nan=True)


@pytest.mark.parametrize("order", ["TOTALORDER", "FLOAT"])
def test_equal_elements_keep_their_order(order: str):
    text = f"""
      func.func @f(%x: tensor<2x150xf32>) -> tensor<2x150xi32> {{
        %i = "stablehlo.iota"() <{{iota_dimension = 1 : i64}}> : () -> tensor<2x150xi32>
        %s, %r = "stablehlo.sort"(%x, %i) <{{dimension = 1 : i64, is_stable = true}}> ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>, %p: tensor<i32>, %q: tensor<i32>):
          %c = "stablehlo.compare"(%a, %b) <{{
              compare_type = #stablehlo<comparison_type {order}>,
              comparison_direction = #stablehlo<comparison_direction LT>}}>
            : (tensor<f32>, tensor<f32>) -> tensor<i1>
          "stablehlo.return"(%c) : (tensor<i1>) -> ()
        }}) : (tensor<2x150xf32>, tensor<2x150xi32>) -> (tensor<2x150xf32>, tensor<2x150xi32>)
        return %r : tensor<2x150xi32>
      }}"""
    numbers: Array = np.random.default_rng(1).integers(-3, 4, (2, 150)) / 2
    expected = np.argsort(numbers, axis=1, kind="stable")
    if order == "TOTALORDER":
        numbers[:, ::5] = np.nan
        numbers *= np.resize([1.0, -1.0], 150)
        keys: Array = np.nan_to_num(numbers, nan=9.0)
        keys -= 1e-9 * np.signbit(keys) * (keys == 0)
        expected = np.argsort(keys, axis=1, kind="stable")
    assert (numbers_of(text, numbers) == expected).all()


def test_assertions_hold_or_are_errors():
    text = """
      func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
        %zero = arith.constant 0.0 : f32
        %e = tensor.empty() : tensor<3xf32>
        %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
            iterator_types = ["parallel"]} ins(%x : tensor<3xf32>) outs(%e : tensor<3xf32>) {
        ^bb0(%a: f32, %b: f32):
          %c = arith.cmpf une, %a, %zero : f32
          cf.assert %c, "unimplemented: a zero"
          linalg.yield %a : f32
        } -> tensor<3xf32>
        return %r : tensor<3xf32>
      }"""
    assert numbers_of(text, np.array([1.0, 2.0, 3.0])).tolist() == [1, 2, 3]
    with pytest.raises(InterpretationError, match="its condition is false: unimplemented: a zero"):
        numbers_of(text, np.array([1.0, 0.0, 3.0]))


def test_every_op_has_a_case():
    text = "\n".join(case.text for cases in CASES.values() for case in cases)
    math = models_for_all("math").items()
    # Nothing runs `erfc` and the like, of whose bits nothing is said.
    known = {name for name, model in math if model.bits is Bits.ROUNDED}
    # The other ops of arith, and `linalg.fill`, are compared with MLIR.
    known.add("arith.remf")
    for dialect in ("chlo", "linalg", "stablehlo", "tm_tensor", "tosa"):
        assert find_run(f"{dialect}.unheard_of") is None
        known |= {name for name, model in models_for_all(dialect).items() if model.run is not None}
    assert "stablehlo.convolution" in known
    missing = {name for name in known if f"{name} " not in text and f'"{name}"' not in text}
    of_integers = {"tosa.rescale", "tosa.table"}
    floats = {"linalg.fill", "stablehlo.composite", "tosa.argmin", "tosa.matmul_t"}
    # Those of integers are compared where modules are lowered to them.
    assert missing == floats | of_integers
