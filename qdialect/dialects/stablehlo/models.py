"""What is known of the ops of StableHLO: https://openxla.org/stablehlo/spec."""

from __future__ import annotations

from functools import partial
from math import inf

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import Reverse, Transpose
from qdialect.algebra.parameters import Granularity
from qdialect.dialects import scalar
from qdialect.dialects.stablehlo import reading
from qdialect.dialects.stablehlo.arithmetic import StableHLOArithmetic
from qdialect.ops.fields import (
    Arithmetic,
    CastReads,
    DialectTraits,
    fixed,
    own,
    shared,
    whole_number,
)
from qdialect.ops.interface import integer_of, integers_of
from qdialect.ops.model import Bits, Effects, OnElements, OpModel, OpModels
from qdialect.ops.readers import (
    conversion_rule,
    moves,
    positions_of_slices,
    positions_on_any_axis,
    reshaped,
    shape_in,
)
from qdialect.ops.reading import nonzero_as_true

_pure = partial(OpModel, effects=Effects.NONE)
_exact = partial(_pure, bits=Bits.EXACT)
_undefined = partial(_pure, bits=Bits.UNDEFINED)
_undefined_on_integers = partial(_pure, bits=Bits.UNDEFINED_ON_INTEGERS)
_rounded = partial(_pure, bits=Bits.ROUNDED)
_layer = partial(_rounded, run="qdialect.dialects.arrays.reductions:run_layer")
_pair = partial(OnElements, arity=2)


def _run(function: str) -> str:
    return f"qdialect.dialects.stablehlo.runs:{function}"


_COMPLEX = "it has complex numbers"
_REGIONS = "it runs regions, in which ops are quantized"
_CUSTOM = "the function that it computes is defined by its implementation"

MODELS = OpModels(
    "stablehlo",
    {
        # Movements
        "broadcast": _exact(rule=shared(0)),
        "broadcast_in_dim": _exact(
            movement=reading.broadcast_in_dim,
            write_broadcast=reading.broadcast_again,
            rule=shared(0),
        ),
        "dynamic_broadcast_in_dim": _exact(
            movement=reading.dynamic_broadcast_in_dim,
            run_time_shape=shape_in(1),
            rule=shared(0),
            repeats=True,
        ),
        "reshape": _exact(movement=reshaped, write_reshape=reading.reshape_again, rule=shared(0)),
        "dynamic_reshape": _exact(movement=reshaped, run_time_shape=shape_in(1), rule=shared(0)),
        "slice": _exact(movement=moves(reading.sliced), rule=shared(0)),
        "dynamic_slice": _exact(movement=reading.dynamic_slice, rule=shared(0)),
        "real_dynamic_slice": _exact(movement=reading.real_dynamic_slice, rule=shared(0)),
        "reverse": _exact(
            movement=moves(lambda op: Reverse(integers_of(op, "dimensions"))), rule=shared(0)
        ),
        "transpose": _exact(
            movement=moves(lambda op: Transpose(integers_of(op, "permutation"))), rule=shared(0)
        ),
        "set_dimension_size": _pure(rule=shared(0)),
        "concatenate": _exact(
            movement=moves(lambda op: Concat(integer_of(op, "dimension"))), rule=shared()
        ),
        "pad": _exact(movement=reading.pad, rule=shared(0, 1)),
        "dynamic_pad": _exact(movement=reading.dynamic_pad, rule=shared(0, 1)),
        "dynamic_update_slice": _exact(movement=reading.dynamic_update_slice, rule=shared(0, 1)),
        "gather": _exact(
            movement=reading.gather,
            product=reading.lookup,
            positions=positions_of_slices,
            rule=shared(0),
            run=_run("gather"),
        ),
        "dynamic_gather": _pure(
            movement=reading.dynamic_gather, positions=positions_of_slices, rule=shared(0)
        ),
        "torch_index_select": _pure(positions=positions_on_any_axis, rule=shared(0)),
        "scatter": _rounded(rule=reading.scatter, run=_run("scatter")),
        "sort": _exact(rule=reading.sort, run=_run("sort")),
        "optimization_barrier": _exact(rule=reading.optimization_barrier, run=_run("barrier")),
        # Sums of products
        "dot": _layer(product=reading.dot),
        "dot_general": _layer(product=reading.dot_general),
        "convolution": _layer(product=reading.convolution, windows=reading.windows),
        "dynamic_conv": _pure(stays_float="its padding is known at run time only"),
        # Functions of elements
        "abs": _exact(rule=own(0), run=OnElements("numpy:abs", "numpy:abs")),
        "is_finite": _exact(rule=own(0), run=OnElements("numpy:isfinite")),
        "reduce_precision": _exact(rule=own(0), run=_run("reduce_precision")),
        "sign": _exact(rule=own(0), run=OnElements(scalar("sign"), "numpy:sign")),
        "sqrt": _exact(rule=own(0), run=OnElements("numpy:sqrt")),
        "cbrt": _rounded(rule=own(0), run=OnElements("numpy:cbrt")),
        "rsqrt": _rounded(rule=own(0), run=OnElements(scalar("reciprocal_root"))),
        "tan": _rounded(rule=own(0), run=OnElements("numpy:tan")),
        "log": _rounded(rule=own(0), run=OnElements("numpy:log")),
        "cosine": _rounded(rule=own(0, function="cos"), run=OnElements("numpy:cos")),
        "exponential": _rounded(rule=own(0, function="exp"), run=OnElements("numpy:exp")),
        "exponential_minus_one": _rounded(
            rule=own(0, function="expm1"), run=OnElements("numpy:expm1")
        ),
        "log_plus_one": _rounded(rule=own(0, function="log1p"), run=OnElements("numpy:log1p")),
        "negate": _exact(
            rule=own(0, function="neg"), run=OnElements("numpy:negative", "numpy:negative")
        ),
        "sine": _rounded(rule=own(0, function="sin"), run=OnElements("numpy:sin")),
        "logistic": _rounded(rule=fixed("logistic", 0), run=OnElements(scalar("logistic"))),
        "tanh": _rounded(rule=fixed("tanh", 0), run=OnElements("numpy:tanh")),
        "ceil": _exact(rule=whole_number(0), run=OnElements("numpy:ceil")),
        "floor": _exact(rule=whole_number(0), run=OnElements("numpy:floor")),
        "round_nearest_afz": _exact(
            rule=whole_number(0, function="round"),
            run=OnElements("qdialect.support.float_format:rounded_half_away"),
        ),
        "round_nearest_even": _exact(
            rule=whole_number(0, function="roundeven"), run=OnElements("numpy:rint")
        ),
        "add": _exact(
            term=reading.arithmetic(Arithmetic.ADD),
            # The sum of truth values is their disjunction.
            integers=lambda op, values: nonzero_as_true(op, values[0] + values[1]),
            rule=own(0, 1),
            run=_pair("numpy:add", "numpy:add", "numpy:logical_or"),
            identity=-0.0,
        ),
        "compare": _exact(integers=reading.compare, rule=own(0, 1), run=_run("compare")),
        "atan2": _rounded(rule=own(0, 1), run=_pair("numpy:arctan2")),
        "divide": _undefined_on_integers(
            rule=own(0, 1, function="div"), run=_pair("numpy:divide", scalar("quotient"))
        ),
        "maximum": _exact(
            integers="numpy:maximum",
            rule=own(0, 1, function="max"),
            run=_pair(scalar("larger"), scalar("larger"), "numpy:logical_or"),
            identity=-inf,
        ),
        "minimum": _exact(
            integers="numpy:minimum",
            rule=own(0, 1, function="min"),
            run=_pair(scalar("smaller"), scalar("smaller"), "numpy:logical_and"),
            identity=inf,
        ),
        "multiply": _exact(
            term=reading.arithmetic(Arithmetic.MULTIPLY),
            integers=True,
            rule=own(0, 1, function="mul"),
            run=_pair("numpy:multiply", "numpy:multiply", "numpy:logical_and"),
            identity=1,
        ),
        "power": _rounded(rule=own(0, 1, function="pow"), run=_pair("numpy:power")),
        "remainder": _undefined_on_integers(
            rule=own(0, 1, function="rem"), run=_pair("numpy:fmod", scalar("remainder"))
        ),
        "subtract": _exact(
            term=reading.arithmetic(Arithmetic.SUBTRACT),
            integers=True,
            rule=own(0, 1, function="sub"),
            run=_pair("numpy:subtract", "numpy:subtract"),
        ),
        "clamp": _exact(
            rule=reading.clamp, run=OnElements(scalar("clamped"), scalar("clamped"), arity=3)
        ),
        "convert": _exact(
            cast=CastReads.CONVERTED,
            term=reading.CONVERSION,
            integers=lambda op, values: nonzero_as_true(op, values[0]),
            rule=conversion_rule,
            run=_run("convert"),
        ),
        "uniform_quantize": OpModel(cast=CastReads.CODES),
        "uniform_dequantize": OpModel(cast=CastReads.NUMBERS),
        "map": _pure(maps_elements=True, rule=reading.map_of_body),
        "select": _exact(
            integers=True,
            rule=shared(1, 2, keeps_places=True),
            run=OnElements("numpy:where", "numpy:where", "numpy:where", arity=3),
        ),
        "constant": _exact(constant="value"),
        "iota": _exact(integers=reading.iota, run=_run("iota")),
        "dynamic_iota": _exact(integers=reading.iota, run=_run("dynamic_iota")),
        "and": _exact(run=_pair("", "numpy:bitwise_and", "numpy:logical_and"), identity=-1),
        "or": _exact(run=_pair("", "numpy:bitwise_or", "numpy:logical_or"), identity=0),
        "xor": _exact(run=_pair("", "numpy:bitwise_xor", "numpy:logical_xor")),
        "not": _exact(run=OnElements("", "numpy:invert", "numpy:logical_not")),
        "count_leading_zeros popcnt": _exact(run=_run("count_bits")),
        "shift_left shift_right_arithmetic shift_right_logical": _undefined(run=_run("shift")),
        # Reductions
        "batch_norm_inference": _rounded(
            normalization=reading.batch_norm, rule=own(0), run=_run("normalize")
        ),
        "reduce": _rounded(rule=reading.reduce, run=_run("reduce")),
        "reduce_window": _rounded(rule=reading.reduce_window, run=_run("reduce_window")),
        # Ops that stay in floats
        "get_dimension_size": _exact(reads_lengths=True, run=_run("get_dimension_size")),
        "case if": _exact(has_blocks=True, stays_float=_REGIONS, run=_run("branch")),
        "while": _exact(
            effects=Effects.UNDEFINED, has_blocks=True, stays_float=_REGIONS, run=_run("repeat")
        ),
        "return": _exact(yields=True),
        "all_gather all_reduce all_to_all collective_broadcast collective_permute "
        "cross-replica-sum infeed outfeed recv reduce_scatter send async_start async_done": OpModel(
            stays_float="other devices or hosts see its operands"
        ),
        "batch_norm_grad batch_norm_training select_and_scatter": _pure(
            stays_float="it is a step of training"
        ),
        "bitcast_convert": _exact(
            stays_float="it reads bits, not numbers", reads_bits=True, run=_run("bitcast")
        ),
        "cholesky triangular_solve": _pure(
            stays_float="a rounded matrix may have no such factorization or inverse"
        ),
        "complex imag real": _exact(stays_float=_COMPLEX),
        "fft": _pure(stays_float=_COMPLEX),
        "composite": OpModel(bits=Bits.ROUNDED, stays_float=_CUSTOM, run=_run("composite")),
        "custom_call": OpModel(stays_float=_CUSTOM),
        "einsum unary_einsum": _pure(stays_float="StableHLO removed it"),
        "get_tuple_element tuple": _exact(stays_float="it has tuples"),
        "rng rng_bit_generator": OpModel(stays_float="its result is random"),
    },
    DialectTraits(finest=Granularity.PER_AXIS, arithmetic=StableHLOArithmetic),
)
