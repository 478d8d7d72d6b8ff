"""
What is known of the ops of TOSA: https://www.mlplatform.org/tosa/tosa_spec.html.

The table is at the end; before it are the functions that read ops for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntAttr,
    TensorType,
    i8,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import Reshape, Reverse, Slice, Take, Transpose
from qdialect.dialects import FUNCTIONS, run_in, scalar
from qdialect.dialects.arrays import layer_model
from qdialect.dialects.tosa.syntax import ShapeType
from qdialect.ir.elements import dense_elements
from qdialect.ops.elementwise import (
    broadcasting,
    converted,
    recreated,
    shape_of_type,
    write_broadcasting,
)
from qdialect.ops.fields import (
    Arithmetic,
    ArithmeticWriter,
    CastReads,
    Contraction,
    DialectTraits,
    Elementwise,
    ElementwiseModel,
    Integers,
    Lookup,
    Movements,
    Operands,
    PoolWindow,
    QuantizationRule,
    Reduction,
    RuleKind,
    RunTimeOperands,
    Window,
    fixed,
    own,
    shared,
    whole_number,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    find_attribute,
    integer_of,
    integers_of,
    name_of,
    reads_unsigned,
    shape_of,
    static_shape_of,
)
from qdialect.ops.model import Bits, Effects, OnElements, OpModel, OpModels
from qdialect.ops.readers import (
    conversion_rule,
    moved,
    moves,
    padded,
    per_window,
    positions_along,
    positive,
    reshaped,
    shape_in,
    sliding_axes,
    tiled,
)
from qdialect.ops.reading import nonzero_as_true
from qdialect.support.lazy_numpy import NDArray, np

# Movements


def _slice(op: Operation, operands: Operands) -> Movements:
    offsets = _known(operands.integers(op.operands[1]))
    sizes = static_shape_of(op.results[0])
    return moved(op, Slice(offsets, sizes, (1,) * len(sizes)))


def _pad(op: Operation, operands: Operands) -> Movements:
    widths = _known(operands.integers(op.operands[1]))
    movements = padded(shape_of(op.operands[0]), widths[::2], widths[1::2])
    return moved(op, *movements, padding=op.operands[2])


def _tiled_shape(operands: RunTimeOperands) -> list[int]:
    multiples = map(int, operands.integers(1))
    return [count * n for count, n in zip(multiples, operands.shape(0), strict=True)]


def _tile(op: Operation, operands: Operands) -> Movements:
    multiples = _known(operands.integers(op.operands[1]))
    if all(count == 1 for count in multiples):
        return moved(op)
    return moved(op, *tiled(static_shape_of(op.operands[0]), multiples))


def _known(values: NDArray[np.integer[Any]]) -> tuple[int, ...]:
    """The integers of a shape. Raises Refusal if one of them is dynamic."""
    if (values < 0).any():
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "-1 is a length that is only known at run time")
    return tuple(map(int, values))


def _gather(op: Operation, operands: Operands) -> Movements:
    batches, length, channels = static_shape_of(op.operands[0])
    indices = operands.integers(op.operands[1])
    if indices.ndim != 2 or len(indices) != batches:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its indices do not have one row for each batch")
    if ((indices < 0) | (indices >= length)).any():
        raise Refusal(
            RefusalCode.UNKNOWN_OP, f"an index is out of range for an axis of length {length}"
        )
    count = indices.shape[1]
    if not batches:
        return moved(op, Reshape((0, count, channels)))
    if (indices == indices[0]).all():
        return moved(op, Take(1, tuple(indices[0].tolist())))
    # Each batch has indices of its own, which count from its first row.
    rows = indices + length * np.arange(batches)[:, np.newaxis]
    return moved(
        op,
        Reshape((batches * length, channels)),
        Take(0, tuple(rows.reshape(-1).tolist())),
        Reshape((batches, count, channels)),
    )


# Terms, and integers that are computed from constants


def _arithmetic(arithmetic: Arithmetic) -> ElementwiseModel:
    def read(op: Operation, operands: Operands) -> Elementwise:
        if len(op.operands) > 2 and operands.integers(op.operands[2]).any():
            raise Refusal(RefusalCode.ARITHMETIC, "its shift is not 0")
        return broadcasting(op, arithmetic)

    return ElementwiseModel(read, write_broadcasting, keeps_rank=True)


def _reshape_again(op: Operation, operand: SSAValue, type: Attribute) -> list[Operation]:
    shape, lengths = op.operands[1], shape_of_type(type)
    if not isinstance(shape.owner, Operation) or name_of(shape.owner) != "tosa.const_shape":
        raise Refusal(RefusalCode.UNKNOWN_OP, "its shape is not a constant")
    shape_type = cast(Any, shape.type).new([IntAttr(len(lengths))])
    constant = recreated(shape.owner, [], shape_type)
    attributes = constant.properties if "values" in constant.properties else constant.attributes
    index = TensorType(IndexType(), [len(lengths)])
    attributes["values"] = DenseIntOrFPElementsAttr.from_list(index, list(lengths))
    return [constant, recreated(op, [operand, constant.results[0]], type)]


def _cast(op: Operation, operands: Operands) -> Elementwise:
    if reads_unsigned(op):
        raise Refusal(RefusalCode.ARITHMETIC, "its operand is read as unsigned")
    return converted(op, operands)


def _cast_integers(op: Operation, values: Sequence[Integers]) -> NDArray[Any]:
    if reads_unsigned(op):
        raise Refusal(RefusalCode.ARITHMETIC, "its operand is read as unsigned")
    return nonzero_as_true(op, values[0])


def _multiply_integers(op: Operation, values: Sequence[Integers]) -> NDArray[Any]:
    if len(values) > 2 and values[2].any():
        raise Refusal(RefusalCode.ARITHMETIC, "the product is shifted")
    return values[0] * values[1]


# Rules


def _clamp(op: Operation) -> QuantizationRule:
    """A clamp to zero and above is a relu; any other clamp has two ends."""
    ends = [find_attribute(op, name) for name in ("min_val", "max_val")]
    low, high = map(str, ends)
    is_relu = low.startswith(("0.0", "0x00000000 ")) and high.startswith(_NO_END)
    first, last = (end.value.data if isinstance(end, FloatAttr) else math.nan for end in ends)
    return QuantizationRule(
        RuleKind.OWN, (0,), frozenset({"clamp"}), is_homogeneous=is_relu, limits=(first, last)
    )


_NO_END = ("3.40282347e+38", "3.40282346638528", "3.4028234663852886e+38", "0x7F800000", "inf")


def _reduces(combiner: str) -> Callable[[Operation], QuantizationRule]:
    def read(op: Operation) -> QuantizationRule:
        axis = integer_of(op, "axis")
        functions = frozenset({"reduce", combiner})
        return QuantizationRule(
            RuleKind.OWN, (0,), functions, is_homogeneous=True, mixed_axes=(axis,)
        )

    return read


def _along(function: str) -> Callable[[Operation], Reduction]:
    """A function of the elements along an axis, which stays."""

    def read(op: Operation) -> Reduction:
        axis = integer_of(op, "axis")
        lengths = dict(enumerate(shape_of(op.operands[0])))
        path = function if ":" in function else _by_nan_mode(op, function)
        return Reduction(path, {axis: PoolWindow(lengths.get(axis, 0))})

    return read


def _by_nan_mode(op: Operation, function: str) -> str:
    """The path of `larger` or `smaller` of two numbers, or of that which ignores NaN."""
    return scalar(f"{function}_number" if ignores_nan(op) else function)


def ignores_nan(op: Operation) -> bool:
    """Whether NaN is ignored; otherwise it propagates."""
    return "IGNORE" in str(find_attribute(op, "nan_mode"))


def _in_windows(op: Operation) -> Mapping[int, PoolWindow]:
    kernel, stride, pad = (integers_of(op, name) for name in ("kernel", "stride", "pad"))
    if (len(kernel), len(stride), len(pad)) != (2, 2, 4) or min(*kernel, *stride) < 1:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its kernel, strides and padding are not of two axes")
    numbers = zip(kernel, stride, pad[::2], pad[1::2], strict=True)
    return {
        axis: PoolWindow(size, step, low=low, high=high)
        for axis, (size, step, low, high) in enumerate(numbers, 1)
    }


def _max_pool(op: Operation) -> Reduction:
    return Reduction(_by_nan_mode(op, "larger"), _in_windows(op))


def _average_pool(op: Operation) -> Reduction:
    return Reduction("numpy:add", _in_windows(op), is_mean=True)


def _resize(op: Operation) -> QuantizationRule:
    """Nearest-neighbour resizing selects elements of the operand."""
    is_nearest = "NEAREST" in str(find_attribute(op, "mode"))
    return QuantizationRule(RuleKind.SHARED if is_nearest else RuleKind.OWN, (0,))


# Windows of sums of products


def _windows(op: Operation, contraction: Contraction) -> Sequence[Window]:
    axes = sliding_axes(contraction)
    count = len(axes)
    strides = positive(op, "stride", count)
    if name_of(op) == "tosa.transpose_conv2d":
        pads, kernel = per_window(op, "out_pad", 2 * count), static_shape_of(op.operands[1])
        # Strides insert zeros into the operand, and the padding lets each element meet the whole
        # kernel.
        return [
            Window(ends, 1, 1, stride, kernel[ends[1]] - 1 + low, kernel[ends[1]] - 1 + high, True)
            for ends, stride, low, high in zip(axes, strides, pads[::2], pads[1::2], strict=True)
        ]
    pads = per_window(op, "pad", 2 * count)
    lists = strides, positive(op, "dilation", count), pads[::2], pads[1::2]
    return [
        Window(ends, stride, dilation, 1, low, high)
        for ends, stride, dilation, low, high in zip(axes, *lists, strict=True)
    ]


# Arithmetic that is written


class TosaArithmetic(ArithmeticWriter):
    """Operands of arithmetic have equal ranks, and axes of length 1 are repeated."""

    floats = ("f16", "bf16", "f32")
    widths = (4, 8, 16, 32)

    ops: ClassVar = {
        "constant": "tosa.const",
        "convert": "tosa.cast",
        "subtract": "tosa.sub",
        "add": "tosa.add",
    }
    elements = "values"

    @override
    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        lengths = dense_elements(np.array(shape, dtype=np.int64), IndexType())
        type = ShapeType(IntAttr(len(shape)))
        new_shape = self.make("tosa.const_shape", [], type, {"values": lengths})
        result = TensorType(cast("TensorType[Attribute]", value.type).element_type, shape)
        return self.make("tosa.reshape", [value, new_shape], result, {})

    @override
    def multiply(self, value: SSAValue, other: SSAValue) -> SSAValue:
        shift = self.constant(dense_elements(np.zeros(1, dtype=np.int8), i8))
        return self.make("tosa.mul", [value, other, shift], value.type, {})


# The table

_exact = partial(OpModel, bits=Bits.EXACT)
_rounded = partial(OpModel, bits=Bits.ROUNDED)

_FLOATS = "cos erf exp log reciprocal rsqrt sin"
_each = OnElements
_pair = partial(OnElements, arity=2, broadcasts=True)

_REGIONS = "it runs regions, in which ops are quantized"

_run = partial(run_in, "tosa")

_convolution = partial(layer_model, windows=_windows, zero_points={3: 0, 4: 1})
_product = partial(layer_model, zero_points={2: 0, 3: 1})
_pool = shared(0, is_homogeneous=True, mixed_axes=(1, 2))
_mean = own(0, function="reduce", is_homogeneous=True, mixed_axes=(1, 2))
_numbers = CastReads.NUMBERS | CastReads.CODES | CastReads.CONVERTED

MODELS = OpModels(
    "tosa",
    {
        # Constants and casts
        "const const_shape": _exact(constant="values"),
        "cast": _exact(
            cast=_numbers,
            rounding="numpy:rint",
            term=ElementwiseModel(_cast, write_broadcasting, keeps_rank=True),
            integers=_cast_integers,
            rule=conversion_rule,
            run=_run("conversion"),
        ),
        # Movements
        "identity": _exact(
            movement=lambda op, operands: Movements(op.operands, []),
            rule=QuantizationRule(RuleKind.SHARED, (0,), is_homogeneous=True, keeps_places=True),
        ),
        "transpose": _exact(
            movement=moves(lambda op: Transpose(integers_of(op, "perms"))), rule=shared(0)
        ),
        "reshape": _exact(
            movement=reshaped,
            run_time_shape=shape_in(1),
            write_reshape=_reshape_again,
            rule=shared(0),
        ),
        "slice": _exact(movement=_slice, run_time_shape=shape_in(2), rule=shared(0)),
        "concat": _exact(movement=moves(lambda op: Concat(integer_of(op, "axis"))), rule=shared()),
        "pad": _exact(movement=_pad, rule=shared(0, 2)),
        "reverse": _exact(
            movement=moves(lambda op: Reverse((integer_of(op, "axis"),))), rule=shared(0)
        ),
        "tile": _exact(movement=_tile, run_time_shape=_tiled_shape, rule=shared(0)),
        "gather": _exact(
            movement=_gather,
            product=Lookup(0, 1, is_by_rows=True),
            rule=shared(0),
            positions=positions_along(1),
        ),
        "scatter": _exact(rule=shared(0, 2), positions=positions_along(1), run=_run("scatter")),
        # Functions of one element
        "abs": _exact(rule=own(0), run=_each("numpy:abs", "numpy:abs")),
        "negate": _exact(
            rule=own(0, function="neg"), zero_points={1: 0, 2: -1}, run=_run("negate")
        ),
        "clamp": _exact(rule=_clamp, run=_run("clamp"), on_arrays=_run("clamping")),
        "ceil": _exact(rule=whole_number(0), run=_each("numpy:ceil")),
        "floor": _exact(rule=whole_number(0), run=_each("numpy:floor")),
        "bitwise_not": _exact(run=_each("", "numpy:invert")),
        "logical_not": _exact(run=_each("", "", "numpy:logical_not")),
        **{name: _rounded(rule=own(0), run=_each(FUNCTIONS[name])) for name in _FLOATS.split()},
        "sigmoid": _rounded(rule=fixed("logistic", 0), run=_each(scalar("logistic"))),
        "tanh": _rounded(rule=fixed("tanh", 0), run=_each("numpy:tanh")),
        # Functions of two elements, or of three
        "add": _exact(
            term=_arithmetic(Arithmetic.ADD),
            integers=True,
            rule=own(0, 1),
            run=_pair("numpy:add", "numpy:add"),
        ),
        "sub": _exact(
            term=_arithmetic(Arithmetic.SUBTRACT),
            integers=True,
            rule=own(0, 1),
            run=_pair("numpy:subtract", "numpy:subtract"),
        ),
        "mul": _exact(
            term=_arithmetic(Arithmetic.MULTIPLY),
            integers=_multiply_integers,
            rule=own(0, 1),
            plain_operands=(2,),
            run=_run("mul"),
        ),
        **{
            name: _exact(
                integers=f"numpy:{name}",
                rule=own(0, 1, function=name[:3]),
                run=_run("extreme"),
            )
            for name in ("maximum", "minimum")
        },
        "pow": _rounded(rule=own(0, 1), run=_pair("numpy:power")),
        **{
            name: _exact(integers=True, rule=own(0, 1), run=_pair(f"numpy:{name}", f"numpy:{name}"))
            for name in ("equal", "greater", "greater_equal")
        },
        "select": _exact(
            integers=True,
            rule=shared(1, 2, keeps_places=True),
            run=_pair("numpy:where", "numpy:where", "numpy:where", arity=3),
        ),
        "logical_and": _exact(run=_pair("", "", "numpy:logical_and")),
        "logical_or": _exact(run=_pair("", "", "numpy:logical_or")),
        "logical_xor": _exact(run=_pair("", "", "numpy:logical_xor")),
        "bitwise_and": _exact(run=_pair("", "numpy:bitwise_and")),
        "bitwise_or": _exact(run=_pair("", "numpy:bitwise_or")),
        "bitwise_xor": _exact(run=_pair("", "numpy:bitwise_xor")),
        "intdiv": OpModel(bits=Bits.UNDEFINED, run=_pair("", scalar("quotient"))),
        "arithmetic_right_shift logical_left_shift": OpModel(bits=Bits.UNDEFINED),
        "logical_right_shift": OpModel(bits=Bits.UNDEFINED),
        # Sums of products
        "conv2d": _convolution(product=Contraction.of("n**i,ohwi->n**o", bias=2)),
        "transpose_conv2d": _convolution(product=Contraction.of("n**i,ohwi->n**o", bias=2)),
        "conv3d": _convolution(product=Contraction.of("n***i,odhwi->n***o", bias=2)),
        "depthwise_conv2d": _convolution(product=Contraction.of("n**c,hwcm->n**(cm)", bias=2)),
        "matmul": _product(product=Contraction.of("bhc,bcw->bhw")),
        "matmul_t": _product(product=Contraction.of("bhc,bwc->bhw")),
        "rescale": _exact(run=_run("rescale")),
        "table": _exact(run=_run("table")),
        # Reductions and windows
        "argmax argmin": _exact(rule=own(0), run=_run("argmax")),
        "reduce_all": _exact(reduction=_along("numpy:logical_and"), run=_run("reduce")),
        "reduce_any": _exact(reduction=_along("numpy:logical_or"), run=_run("reduce")),
        "reduce_max": _exact(rule=_reduces("max"), reduction=_along("larger"), run=_run("reduce")),
        "reduce_min": _exact(rule=_reduces("min"), reduction=_along("smaller"), run=_run("reduce")),
        "reduce_product": _rounded(
            rule=own(0, function="reduce"), reduction=_along("numpy:multiply"), run=_run("reduce")
        ),
        "reduce_sum": _rounded(
            integers=lambda op, values: values[0].sum(axis=integer_of(op, "axis"), keepdims=True),
            rule=_reduces("add"),
            reduction=_along("numpy:add"),
            run=_run("reduce"),
        ),
        "max_pool2d": _exact(rule=_pool, reduction=_max_pool, run=_run("max_pool")),
        "max_pool2d_adaptive": _exact(rule=_pool),
        "avg_pool2d": _rounded(
            rule=_mean,
            reduction=_average_pool,
            zero_points={1: 0, 2: -1},
            run=_run("average_pool"),
        ),
        "avg_pool2d_adaptive": _rounded(rule=_mean),
        "resize": _rounded(
            rule=_resize,
            run=_run("resize"),
            resampling="qdialect.dialects.tosa.runs:resized_factors",
        ),
        "fft2d": _rounded(rule=own(0, 1)),
        "rfft2d": _rounded(rule=own(0)),
        "cast_from_block_scaled cast_to_block_scaled matmul_t_block_scaled": OpModel(
            stays_float="it has scales of its own"
        ),
        # Regions, state, and what is not known
        "yield": _exact(yields=True),
        "cond_if": OpModel(has_blocks=True, stays_float=_REGIONS, effects=Effects.NONE),
        "while_loop": OpModel(has_blocks=True, stays_float=_REGIONS, effects=Effects.UNDEFINED),
        "variable variable_read variable_write": OpModel(
            stays_float="it reads or writes state that other calls share"
        ),
        "custom": OpModel(
            stays_float="the function that it computes is defined by its implementation"
        ),
    },
    DialectTraits(
        has_empty_tensors=False, values=frozenset({"tosa.shape"}), arithmetic=TosaArithmetic
    ),
)
