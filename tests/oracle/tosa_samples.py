"""Valid uses of the ops of tosa, in generic form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

FLOATS: Final = "tensor<2x3xf32>"
INTEGERS: Final = "tensor<2x3xi32>"
BITS: Final = "tensor<2x3xi1>"
IMAGE: Final = "tensor<1x4x4x2xf32>"
ZERO: Final = "tensor<1xf32>"
CODES: Final = "tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01>>"
CONVOLUTION: Final = f"{IMAGE}, tensor<8x1x1x2xf32>, tensor<8xf32>, {ZERO}, {ZERO}"
WINDOW: Final = "stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = f32"
POOL: Final = "kernel = array<i64: 1, 1>, stride = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>"
IGNORE: Final = "nan_mode = #tosa.nan_mode<IGNORE>"
BLOCKS: Final = "block_size = #tosa.block_size<BLOCK_SIZE_32>"
SCALED: Final = "tensor<4x32xf8E4M3FN>, tensor<4x1xf8E8M0FNU>"


class Sample(NamedTuple):
    """A function with one op of the table, which has an attribute besides its properties."""

    name: str
    operands: str
    results: str
    properties: str = ""
    is_later: bool = False
    """Whether only LLVM 24 has the op or one of its properties, and LLVM 22 does not."""

    @property
    def text(self) -> str:
        """The text of the function."""
        types = self.operands.split(", ") if self.operands else []
        if "!quant" in self.operands:
            types = [self.operands]
        arguments = ", ".join(f"%a{number}: {type}" for number, type in enumerate(types))
        values = ", ".join(f"%a{number}" for number in range(len(types)))
        count = self.results.count("tensor<") + (self.results == "i32")
        properties = f" <{{{self.properties}}}>" if self.properties else ""
        results = self.results if count == 1 else f"({self.results})"
        return (
            f"func.func @f({arguments}) {{\n"
            f'  %r:{count} = "tosa.{self.name}"({values}){properties} {{my.note = 1 : i8}} : '
            f"({self.operands}) -> {results}\n"
            "  return\n}\n"
        )


SAMPLES: Final = (
    *(
        Sample(name, FLOATS, FLOATS)
        for name in [
            "abs",
            "ceil",
            "cos",
            "erf",
            "exp",
            "floor",
            "log",
            "reciprocal",
            "rsqrt",
            "sigmoid",
            "sin",
            "tanh",
        ]
    ),
    *(Sample(name, INTEGERS, INTEGERS) for name in ("bitwise_not", "clz")),
    Sample("logical_not", BITS, BITS),
    *(
        Sample(name, f"{FLOATS}, {FLOATS}", FLOATS)
        for name in ("add", "maximum", "minimum", "pow", "sub")
    ),
    *(
        Sample(name, f"{INTEGERS}, {INTEGERS}", INTEGERS)
        for name in [
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "intdiv",
            "logical_left_shift",
            "logical_right_shift",
        ]
    ),
    *(
        Sample(name, f"{BITS}, {BITS}", BITS)
        for name in ("logical_and", "logical_or", "logical_xor")
    ),
    *(Sample(name, f"{FLOATS}, {FLOATS}", BITS) for name in ("equal", "greater", "greater_equal")),
    *(
        Sample(name, BITS, "tensor<1x3xi1>", "axis = 0 : i32")
        for name in ("reduce_all", "reduce_any")
    ),
    *(
        Sample(f"reduce_{name}", FLOATS, "tensor<1x3xf32>", "axis = 0 : i32")
        for name in ("max", "min", "product", "sum")
    ),
    Sample("add", "tensor<?x3xf32>, tensor<2x1xf32>", "tensor<?x3xf32>"),
    Sample(
        "apply_scale", "i32, i32, i8", "i32", "rounding_mode = #tosa.rounding_mode<DOUBLE_ROUND>"
    ),
    Sample("argmax", FLOATS, "tensor<3xi32>", f"axis = 0 : i32, {IGNORE}"),
    Sample("argmin", FLOATS, "tensor<3xi32>", "axis = 0 : i32", is_later=True),
    Sample("arithmetic_right_shift", f"{INTEGERS}, {INTEGERS}", INTEGERS, "round = true"),
    Sample("avg_pool2d", f"{IMAGE}, {ZERO}, {ZERO}", IMAGE, f"{POOL}, acc_type = f32"),
    Sample("cast", INTEGERS, FLOATS, "input_unsigned = true", is_later=True),
    Sample("cast_from_block_scaled", SCALED, "tensor<4x32xf32>", BLOCKS),
    Sample("cast_to_block_scaled", "tensor<4x32xf32>", SCALED, BLOCKS),
    Sample("clamp", FLOATS, FLOATS, f"min_val = 0.0 : f32, max_val = 6.0 : f32, {IGNORE}"),
    Sample("clamp", CODES, CODES, "min_val = 0 : i8, max_val = 6 : i8"),
    Sample("concat", f"{FLOATS}, {FLOATS}", "tensor<4x3xf32>", "axis = 0 : i32"),
    Sample(
        "conv2d",
        CONVOLUTION,
        "tensor<1x4x4x8xf32>",
        f"pad = array<i64: 0, 0, 0, 0>, {WINDOW}, local_bound = true",
    ),
    Sample("conv2d", CONVOLUTION, "tensor<1x4x4x8xf32>", f"pad = array<i64: 0, 0, 0, 0>, {WINDOW}"),
    Sample(
        "conv3d",
        f"tensor<1x4x4x4x2xf32>, tensor<8x1x1x1x2xf32>, tensor<8xf32>, {ZERO}, {ZERO}",
        "tensor<1x4x4x4x8xf32>",
        "pad = array<i64: 0, 0, 0, 0, 0, 0>, stride = array<i64: 1, 1, 1>, "
        "dilation = array<i64: 1, 1, 1>, acc_type = f32",
    ),
    Sample(
        "custom",
        f"{FLOATS}, {BITS}",
        f"{FLOATS}, {BITS}",
        'operator_name = "a", domain_name = "b", implementation_attrs = "c"',
    ),
    Sample(
        "depthwise_conv2d",
        f"{IMAGE}, tensor<1x1x2x4xf32>, tensor<8xf32>, {ZERO}, {ZERO}",
        "tensor<1x4x4x8xf32>",
        f"pad = array<i64: 0, 0, 0, 0>, {WINDOW}",
    ),
    Sample(
        "fft2d",
        "tensor<1x4x8xf32>, tensor<1x4x8xf32>",
        "tensor<1x4x8xf32>, tensor<1x4x8xf32>",
        "inverse = true, local_bound = true",
    ),
    Sample(
        "matmul",
        "tensor<1x4x5xi8>, tensor<1x5x6xi8>, tensor<1xi8>, tensor<1xi8>",
        "tensor<1x4x6xi32>",
    ),
    Sample(
        "matmul_t",
        "tensor<1x4x5xi8>, tensor<1x6x5xi8>, tensor<1xi8>, tensor<1xi8>",
        "tensor<1x4x6xi32>",
        is_later=True,
    ),
    Sample("max_pool2d", IMAGE, IMAGE, f"{POOL}, {IGNORE}"),
    Sample("maximum", f"{FLOATS}, {FLOATS}", FLOATS, IGNORE),
    Sample("mul", "tensor<2x3xi8>, tensor<2x3xi8>, tensor<1xi8>", INTEGERS),
    Sample("negate", f"{FLOATS}, {ZERO}, {ZERO}", FLOATS),
    Sample("reduce_max", FLOATS, "tensor<1x3xf32>", f"axis = 0 : i32, {IGNORE}"),
    Sample(
        "rescale",
        "tensor<2x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>",
        "tensor<2x3xi8>",
        "scale32 = true, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, per_channel = false, "
        "input_unsigned = false, output_unsigned = true",
    ),
    Sample("rfft2d", "tensor<1x4x8xf32>", "tensor<1x4x5xf32>, tensor<1x4x5xf32>"),
    Sample(
        "row_gather",
        "tensor<1x4x5xf32>, tensor<1x2xi32>, tensor<1xi32>",
        "tensor<1x2x5xf32>",
        is_later=True,
    ),
    Sample("scatter", "tensor<1x4x5xf32>, tensor<1x2xi32>, tensor<1x2x5xf32>", "tensor<1x4x5xf32>"),
    Sample("select", f"{BITS}, {FLOATS}, {FLOATS}", FLOATS),
    Sample("table", "tensor<2x3xi8>, tensor<256xi8>", "tensor<2x3xi8>"),
    Sample(
        "transpose_conv2d",
        CONVOLUTION,
        "tensor<1x4x4x8xf32>",
        "out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, acc_type = f32",
    ),
)

STRUCTURED: Final = """
"tosa.variable"() <{sym_name = "v", var_shape = dense<[2, 3]> : tensor<2xindex>, type = f32,
  initial_value = dense<1.0> : tensor<2x3xf32>}> : () -> ()
"tosa.variable"() <{sym_name = "w", var_shape = dense<[-1, 3]> : tensor<2xindex>,
  type = f32}> {n} : () -> ()
func.func @f(%x: tensor<2x3xf32>, %c: tensor<i1>) {
  %r = "tosa.variable_read"() <{name = "v"}> : () -> tensor<2x3xf32>
  "tosa.variable_write"(%r) <{name = "v"}> : (tensor<2x3xf32>) -> ()
  %0 = "tosa.cond_if"(%c) ({
    "tosa.yield"(%x) : (tensor<2x3xf32>) -> ()
  }, {
    "tosa.yield"(%x) : (tensor<2x3xf32>) -> ()
  }) {n = 1 : i8} : (tensor<i1>) -> tensor<2x3xf32>
  "tosa.cond_if"(%c) ({
    "tosa.yield"() : () -> ()
  }, {
    "tosa.yield"() : () -> ()
  }) : (tensor<i1>) -> ()
  %1:2 = "tosa.cond_if"(%c, %x, %0) ({
  ^bb0(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>):
    "tosa.yield"(%b, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
  }, {
  ^bb0(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>):
    "tosa.yield"(%a, %b) : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
  }) : (tensor<i1>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %2 = "test.index"() : () -> tensor<1xi32>
  %3:2 = "tosa.while_loop"(%2, %x) ({
  ^bb0(%a: tensor<1xi32>, %b: tensor<2x3xf32>):
    %d = "test.condition"(%a) : (tensor<1xi32>) -> tensor<i1>
    "tosa.yield"(%d) : (tensor<i1>) -> ()
  }, {
  ^bb0(%a: tensor<1xi32>, %b: tensor<2x3xf32>):
    "tosa.yield"(%a, %b) : (tensor<1xi32>, tensor<2x3xf32>) -> ()
  }) {n = 1 : i8} : (tensor<1xi32>, tensor<2x3xf32>) -> (tensor<1xi32>, tensor<2x3xf32>)
  return
}
"""
"""Ops with regions, and variables."""

MOVEMENTS: Final = """
!q = !quant.uniform<u8:f32, 0.5:3>
func.func @f(%x: tensor<2x3xf32>, %g: tensor<1x4x5xf32>, %i: tensor<1x2xi32>) {
  %w = "tosa.const"() <{values = dense<[[1, 2, 3], [4, 5, 255]]> : tensor<2x3xui8>}> {n}
    : () -> tensor<2x3x!q>
  %s = "tosa.const_shape"() <{values = dense<[3, 2]> : tensor<2xindex>}> {n} : () -> !tosa.shape<2>
  %z = "tosa.const_shape"() <{values = dense<0> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %o = "tosa.const_shape"() <{values = dense<1> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %c = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = "tosa.transpose"(%w) <{perms = array<i32: 1, 0>}> {n} : (tensor<2x3x!q>) -> tensor<3x2x!q>
  %1 = "tosa.reverse"(%x) <{axis = 1 : i32}> {n} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "tosa.reshape"(%x, %s) {n} : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<3x2xf32>
  %3 = "tosa.slice"(%2, %z, %s) : (tensor<3x2xf32>, !tosa.shape<2>, !tosa.shape<2>)
    -> tensor<3x2xf32>
  %4 = "tosa.tile"(%x, %s) : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<6x6xf32>
  %5 = "tosa.pad"(%x, %o, %c) : (tensor<2x3xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<4x5xf32>
  %6 = "tosa.gather"(%g, %i) : (tensor<1x4x5xf32>, tensor<1x2xi32>) -> tensor<1x2x5xf32>
  %7 = "tosa.cast"(%x) {n} : (tensor<2x3xf32>) -> tensor<2x3xi8>
  %8 = "tosa.identity"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}
"""
"""Ops that move or hold elements, and casts."""

SHAPES: Final = ["add", "div_ceil", "div_floor", "max", "min", "mod", "mul", "sub"]
"""The shape ops of two operands."""


def shape_text() -> str:
    """A function with the ops that compute shapes, and with a user of shapes."""
    lines = [
        '%s = "tosa.const_shape"() <{values = dense<2> : tensor<2xindex>}> : () -> !tosa.shape<2>'
    ]
    for number, name in enumerate(SHAPES):
        types = "(!tosa.shape<2>, !tosa.shape<2>) -> !tosa.shape<2>"
        lines.append(f'%b{number} = "tosa.{name}_shape"(%s, %s) : {types}')
    for number, name in enumerate(("exp2", "log2_ceil", "log2_floor")):
        lines.append(f'%u{number} = "tosa.{name}_shape"(%s) : (!tosa.shape<2>) -> !tosa.shape<2>')
    lines.append(
        '%c = "tosa.concat_shape"(%s, %s) : (!tosa.shape<2>, !tosa.shape<2>) -> !tosa.shape<4>'
    )
    lines.append('%d = "tosa.dim"(%x) <{axis = 0 : i32}> : (tensor<2x3xf32>) -> !tosa.shape<1>')
    lines.append(
        '%z = "tosa.const_shape"() <{values = dense<[4, 2, 4, 2]> : tensor<4xindex>}> : '
        "() -> !tosa.shape<4>"
    )
    lines.append(
        '%o = "tosa.const_shape"() <{values = dense<0> : tensor<2xindex>}> : () -> !tosa.shape<2>'
    )
    lines.append('%i = "test.image"() : () -> tensor<1x2x2x1xf32>')
    lines.append(
        '%y = "tosa.resize"(%i, %z, %o, %o) <{mode = #tosa.resize_mode<BILINEAR>}> : '
        "(tensor<1x2x2x1xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> "
        "tensor<1x3x3x1xf32>"
    )
    lines.append("return")
    return "func.func @f(%x: tensor<2x3xf32>) {\n  " + "\n  ".join(lines) + "\n}\n"


def texts(*, with_later: bool) -> Iterator[str]:
    """The modules that a version of LLVM parses; `with_later` selects LLVM 24."""
    yield from (sample.text for sample in SAMPLES if with_later or not sample.is_later)
    yield STRUCTURED
    yield MOVEMENTS
    yield shape_text()
