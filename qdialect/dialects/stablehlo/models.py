"""
What is known of the ops of StableHLO.

Dimension numbers are parsed from printed text, which is the same for registered and
unregistered attributes. https://openxla.org/stablehlo/spec.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from math import inf
from string import ascii_letters
from typing import Any, Final, cast

from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr
from xdsl.ir import Operation

from qdialect.algebra.parameters import Granularity
from qdialect.dialects.stablehlo import movements, rules
from qdialect.dialects.stablehlo.arithmetic import StableHLOArithmetic
from qdialect.ops.fields import (
    Arithmetic,
    CastReads,
    Contraction,
    DialectTraits,
    Lookup,
    Window,
    fixed,
    own,
    shared,
    whole_number,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    attribute_of,
    find_attribute,
    integer_of,
    integers_of,
    shape_of,
)
from qdialect.ops.model import Bits, Effects, OnElements, OpModel, OpModels
from qdialect.ops.readers import (
    conversion_rule,
    per_window,
    positions_of_slices,
    positions_on_any_axis,
    positive,
    shape_in,
)
from qdialect.ops.reading import nonzero_as_true
from qdialect.support.memory import registered_cache


def _dot(op: Operation) -> Contraction:
    ranks = len(shape_of(op.operands[0])), len(shape_of(op.operands[1]))
    equations = {(1, 1): "k,k->", (2, 1): "mk,k->m", (1, 2): "k,kn->n", (2, 2): "mk,kn->mn"}
    if ranks not in equations:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"its operands have ranks {ranks[0]} and {ranks[1]}")
    return Contraction.of(equations[ranks])


def _dot_general(op: Operation) -> Contraction:
    lists = _axes_of_dot(str(attribute_of(op, "dot_dimension_numbers")))
    batch, contracted = list(zip(*lists[:2], strict=True)), list(zip(*lists[2:], strict=True))
    letters = iter(ascii_letters)
    sides: list[list[str]] = []
    for operand in op.operands[:2]:
        sides.append([""] * len(shape_of(operand)))
    lhs, rhs = sides
    result: list[str] = []
    for pairs, is_in_result in ((batch, True), (contracted, False)):
        for left, right in pairs:
            lhs[left] = rhs[right] = next(letters)
            result += [lhs[left]] if is_in_result else []
    for side in sides:
        for axis, label in enumerate(side):
            if not label:
                side[axis] = next(letters)
                result.append(side[axis])
    return Contraction(tuple(lhs), tuple(rhs), tuple(result))


@registered_cache
@lru_cache(maxsize=256)
def _axes_of_dot(text: str) -> Sequence[tuple[int, ...]]:
    """The batch axes of both operands, then the contracted axes of both."""
    names = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting")
    return [list_in(text, f"{name}_dimensions") for name in names]


def list_in(text: str, name: str) -> tuple[int, ...]:
    """The numbers of `name = [...]`; empty if it is missing."""
    found = re.search(rf"\b{name} = \[([0-9, ]*)\]", text)
    return () if found is None else tuple(map(int, re.findall("[0-9]+", found[1])))


def _convolution(op: Operation) -> Contraction:
    lists = _axes_of_convolution(op)
    counts = [
        1 if find_attribute(op, name) is None else integer_of(op, name)
        for name in ("feature_group_count", "batch_group_count")
    ]
    if counts[1] != 1:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its 'batch_group_count' is not 1")
    if counts[0] < 1:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"its 'feature_group_count' is {counts[0]}")
    data = {"b": "n", "f": "i"}
    lhs = tuple(data.get(each, "*") for each in lists[0])
    letters = iter("hwdxyz")
    rhs = tuple(each if each in "io" else next(letters) for each in lists[1])
    result = tuple({"b": "n", "f": "o"}.get(each, "*") for each in lists[2])
    return Contraction(lhs, rhs, result, groups=counts[0])


def _axes_of_convolution(op: Operation) -> list[list[str]]:
    """
    The role of each axis of the operands and of the result: a letter, or the number of a window.
    """
    text = str(attribute_of(op, "dimension_numbers"))
    found = _CONVOLUTION.fullmatch(text)
    if found is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its dimension numbers cannot be parsed")
    lists = [part.replace(" ", "").split(",") for part in found.groups()]
    spatial = list(map(str, range(len(lists[0]) - 2)))
    for axes, letters in zip(lists, ("bf", "io", "bf"), strict=True):
        if sorted(axes) != sorted([*spatial, *letters]) or len(spatial) > _MAX_WINDOWS:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its dimension numbers cannot be parsed")
    return lists


def _windows(op: Operation, contraction: Contraction) -> Sequence[Window]:
    lists = _axes_of_convolution(op)
    count = len(lists[0]) - 2
    pads = per_window(op, "padding", 2 * count, default=0)
    reversals = _truths_in(op, "window_reversal", count)
    return [
        Window(
            (lists[0].index(str(at)), lists[1].index(str(at)), lists[2].index(str(at))),
            positive(op, "window_strides", count, default=1)[at],
            positive(op, "rhs_dilation", count, default=1)[at],
            positive(op, "lhs_dilation", count, default=1)[at],
            pads[2 * at],
            pads[2 * at + 1],
            reversals[at],
        )
        for at in range(count)
    ]


def _truths_in(op: Operation, name: str, count: int) -> Sequence[bool]:
    """The truth values in an attribute, false where it is missing. Raises Refusal."""
    attribute = find_attribute(op, name)
    if attribute is None:
        return (False,) * count
    values: Sequence[Any] = ()
    if isinstance(attribute, DenseArrayBase | DenseIntOrFPElementsAttr):
        values = cast(Any, attribute).get_values()
    if len(values) != count:
        raise Refusal(RefusalCode.UNKNOWN_OP, f"'{name}' does not have {count} elements")
    return tuple(bool(value) for value in values)


_MAX_WINDOWS: Final = 6

_CONVOLUTION: Final = re.compile(
    r"#stablehlo\.conv<(?:raw\s*)?\[([^\[\]]*+)\]\s*x\s*\[([^\[\]]*+)\]\s*->\s*\[([^\[\]]*+)\]>"
)


def _gather(op: Operation) -> Lookup:
    """A gather of whole rows of a table, such as an embedding."""
    text, shape = str(attribute_of(op, "dimension_numbers")), shape_of(op.operands[0])
    axes = list_in(text, "start_index_map")
    sizes = integers_of(op, "slice_sizes")
    if len(axes) != 1 or any(
        size != (1 if axis in axes else length)
        for axis, (size, length) in enumerate(zip(sizes, shape, strict=True))
    ):
        raise Refusal(RefusalCode.UNKNOWN_OP, "it does not gather whole rows of a table")
    return Lookup(0, axes[0])


_pure = partial(OpModel, effects=Effects.NONE)
_exact = partial(_pure, bits=Bits.EXACT)
_undefined = partial(_pure, bits=Bits.UNDEFINED)
_undefined_on_integers = partial(_pure, bits=Bits.UNDEFINED_ON_INTEGERS)
_rounded = partial(_pure, bits=Bits.ROUNDED)
_layer = partial(_rounded, run="qdialect.check.interpreters.reductions:run_layer")
_pair = partial(OnElements, arity=2)


def _run(function: str) -> str:
    return f"qdialect.dialects.stablehlo.runs:{function}"


def _scalar(function: str) -> str:
    return f"qdialect.check.interpreters.scalar_functions:{function}"


_COMPLEX = "it has complex numbers"
_REGIONS = "it runs regions, in which ops are quantized"
_CUSTOM = "the function that it computes is defined by its implementation"

MODELS = OpModels(
    "stablehlo",
    {
        # Movements
        "broadcast": _exact(rule=shared(0)),
        "broadcast_in_dim": _exact(
            movement=movements.broadcast_in_dim,
            write_broadcast=movements.broadcast_again,
            rule=shared(0),
        ),
        "dynamic_broadcast_in_dim": _exact(
            movement=movements.dynamic_broadcast_in_dim,
            run_time_shape=shape_in(1),
            rule=shared(0),
            repeats=True,
        ),
        "reshape": _exact(
            movement=movements.reshape, write_reshape=movements.reshape_again, rule=shared(0)
        ),
        "dynamic_reshape": _exact(
            movement=movements.dynamic_reshape, run_time_shape=shape_in(1), rule=shared(0)
        ),
        "slice": _exact(movement=movements.slice_of, rule=shared(0)),
        "dynamic_slice": _exact(movement=movements.dynamic_slice, rule=shared(0)),
        "real_dynamic_slice": _exact(movement=movements.real_dynamic_slice, rule=shared(0)),
        "reverse": _exact(movement=movements.reverse, rule=shared(0)),
        "transpose": _exact(movement=movements.transpose, rule=shared(0)),
        "set_dimension_size": _pure(rule=shared(0)),
        "concatenate": _exact(movement=movements.concatenate, rule=shared()),
        "pad": _exact(movement=movements.pad, rule=shared(0, 1)),
        "dynamic_pad": _exact(movement=movements.dynamic_pad, rule=shared(0, 1)),
        "dynamic_update_slice": _exact(movement=movements.dynamic_update_slice, rule=shared(0, 1)),
        "gather": _exact(
            movement=movements.gather,
            product=_gather,
            positions=positions_of_slices,
            rule=shared(0),
            run=_run("gather"),
        ),
        "dynamic_gather": _pure(
            movement=movements.dynamic_gather, positions=positions_of_slices, rule=shared(0)
        ),
        "torch_index_select": _pure(positions=positions_on_any_axis, rule=shared(0)),
        "scatter": _rounded(rule=rules.scatter, run=_run("scatter")),
        "sort": _exact(rule=rules.sort, run=_run("sort")),
        "optimization_barrier": _exact(rule=rules.optimization_barrier, run=_run("barrier")),
        # Sums of products
        "dot": _layer(product=_dot),
        "dot_general": _layer(product=_dot_general),
        "convolution": _layer(product=_convolution, windows=_windows),
        "dynamic_conv": _pure(stays_float="its padding is known at run time only"),
        # Functions of elements
        "abs": _exact(rule=own(0), run=OnElements("numpy:abs", "numpy:abs")),
        "is_finite": _exact(rule=own(0), run=OnElements("numpy:isfinite")),
        "reduce_precision": _exact(rule=own(0), run=_run("reduce_precision")),
        "sign": _exact(rule=own(0), run=OnElements(_scalar("sign"), "numpy:sign")),
        "sqrt": _exact(rule=own(0), run=OnElements("numpy:sqrt")),
        "cbrt": _rounded(rule=own(0), run=OnElements("numpy:cbrt")),
        "rsqrt": _rounded(rule=own(0), run=OnElements(_scalar("reciprocal_root"))),
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
        "logistic": _rounded(rule=fixed("logistic", 0), run=OnElements(_scalar("logistic"))),
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
            term=movements.arithmetic(Arithmetic.ADD),
            # The sum of truth values is their disjunction.
            integers=lambda op, values: nonzero_as_true(op, values[0] + values[1]),
            rule=own(0, 1),
            run=_pair("numpy:add", "numpy:add", "numpy:logical_or"),
            identity=-0.0,
        ),
        "compare": _exact(integers=movements.compare, rule=own(0, 1), run=_run("compare")),
        "atan2": _rounded(rule=own(0, 1), run=_pair("numpy:arctan2")),
        "divide": _undefined_on_integers(
            rule=own(0, 1, function="div"), run=_pair("numpy:divide", _scalar("quotient"))
        ),
        "maximum": _exact(
            integers="numpy:maximum",
            rule=own(0, 1, function="max"),
            run=_pair(_scalar("larger"), _scalar("larger"), "numpy:logical_or"),
            identity=-inf,
        ),
        "minimum": _exact(
            integers="numpy:minimum",
            rule=own(0, 1, function="min"),
            run=_pair(_scalar("smaller"), _scalar("smaller"), "numpy:logical_and"),
            identity=inf,
        ),
        "multiply": _exact(
            term=movements.arithmetic(Arithmetic.MULTIPLY),
            integers="numpy:multiply",
            rule=own(0, 1, function="mul"),
            run=_pair("numpy:multiply", "numpy:multiply", "numpy:logical_and"),
            identity=1,
        ),
        "power": _rounded(rule=own(0, 1, function="pow"), run=_pair("numpy:power")),
        "remainder": _undefined_on_integers(
            rule=own(0, 1, function="rem"), run=_pair("numpy:fmod", _scalar("remainder"))
        ),
        "subtract": _exact(
            term=movements.arithmetic(Arithmetic.SUBTRACT),
            integers="numpy:subtract",
            rule=own(0, 1, function="sub"),
            run=_pair("numpy:subtract", "numpy:subtract"),
        ),
        "clamp": _exact(
            rule=rules.clamp, run=OnElements(_scalar("clamped"), _scalar("clamped"), arity=3)
        ),
        "convert": _exact(
            cast=CastReads.CONVERTED,
            term=movements.CONVERSION,
            integers=lambda op, values: nonzero_as_true(op, values[0]),
            rule=conversion_rule,
            run=_run("convert"),
        ),
        "uniform_quantize": OpModel(cast=CastReads.CODES),
        "uniform_dequantize": OpModel(cast=CastReads.NUMBERS),
        "map": _pure(maps_elements=True, rule=rules.map_of_body),
        "select": _exact(
            integers="numpy:where",
            rule=shared(1, 2, keeps_places=True),
            run=OnElements("numpy:where", "numpy:where", "numpy:where", arity=3),
        ),
        "constant": _exact(constant="value"),
        "iota": _exact(integers=movements.iota, run=_run("iota")),
        "dynamic_iota": _exact(integers=movements.iota, run=_run("dynamic_iota")),
        "and": _exact(run=_pair("", "numpy:bitwise_and", "numpy:logical_and"), identity=-1),
        "or": _exact(run=_pair("", "numpy:bitwise_or", "numpy:logical_or"), identity=0),
        "xor": _exact(run=_pair("", "numpy:bitwise_xor", "numpy:logical_xor")),
        "not": _exact(run=OnElements("", "numpy:invert", "numpy:logical_not")),
        "count_leading_zeros popcnt": _exact(run=_run("count_bits")),
        "shift_left shift_right_arithmetic shift_right_logical": _undefined(run=_run("shift")),
        # Reductions
        "batch_norm_inference": _rounded(rule=own(0), run=_run("normalize")),
        "reduce": _rounded(rule=rules.reduce, run=_run("reduce")),
        "reduce_window": _rounded(rule=rules.reduce_window, run=_run("reduce_window")),
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
        "bitcast_convert": _exact(stays_float="it reads bits, not numbers", run=_run("bitcast")),
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
