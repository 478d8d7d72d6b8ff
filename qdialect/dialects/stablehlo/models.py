"""
What is known of the ops of StableHLO.

Dimension numbers are parsed from printed text, which is the same for registered and
unregistered attributes. https://openxla.org/stablehlo/spec.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from string import ascii_letters
from typing import Any, Final, cast

from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr
from xdsl.ir import Operation

from qdialect.algebra.parameters import Granularity
from qdialect.dialects.stablehlo import movements, rules
from qdialect.ops import positions
from qdialect.ops.attributes import attribute_of, integer_of, integers_of, shape_in, shape_of
from qdialect.ops.computed_integers import nonzero_as_true
from qdialect.ops.interface import Refusal, RefusalCode, find_attribute
from qdialect.ops.model import Bits, OpModel, OpModels
from qdialect.ops.models import CastReads, DialectTraits
from qdialect.ops.products import (
    Contraction,
    Lookup,
    Window,
    per_window,
    positive,
)
from qdialect.ops.rules import conversion, fixed, own, shared, whole_number
from qdialect.ops.terms import Arithmetic
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


_exact = partial(OpModel, bits=Bits.EXACT)
_undefined = partial(OpModel, bits=Bits.UNDEFINED)
_undefined_on_integers = partial(OpModel, bits=Bits.UNDEFINED_ON_INTEGERS)

_COMPLEX = "it has complex numbers"
_REGIONS = "it runs regions, in which ops are quantized"

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
        "set_dimension_size": OpModel(rule=shared(0)),
        "concatenate": _exact(movement=movements.concatenate, rule=shared()),
        "pad": _exact(movement=movements.pad, rule=shared(0, 1)),
        "dynamic_pad": _exact(movement=movements.dynamic_pad, rule=shared(0, 1)),
        "dynamic_update_slice": _exact(movement=movements.dynamic_update_slice, rule=shared(0, 1)),
        "gather": _exact(
            movement=movements.gather,
            product=_gather,
            positions=positions.slices,
            rule=shared(0),
        ),
        "dynamic_gather": OpModel(
            movement=movements.dynamic_gather, positions=positions.slices, rule=shared(0)
        ),
        "torch_index_select": OpModel(positions=positions.on_any_axis, rule=shared(0)),
        "scatter": OpModel(rule=rules.scatter),
        "sort": _exact(rule=rules.sort),
        "optimization_barrier": _exact(rule=rules.optimization_barrier),
        # Sums of products
        "dot": OpModel(product=_dot),
        "dot_general": OpModel(product=_dot_general),
        "convolution": OpModel(product=_convolution, windows=_windows),
        "dynamic_conv": OpModel(stays_float="its padding is known at run time only"),
        # Functions of elements
        "abs is_finite reduce_precision sign sqrt": _exact(rule=own(0)),
        "cbrt rsqrt tan log": OpModel(rule=own(0)),
        "cosine": OpModel(rule=own(0, function="cos")),
        "exponential": OpModel(rule=own(0, function="exp")),
        "exponential_minus_one": OpModel(rule=own(0, function="expm1")),
        "log_plus_one": OpModel(rule=own(0, function="log1p")),
        "negate": _exact(rule=own(0, function="neg")),
        "sine": OpModel(rule=own(0, function="sin")),
        "logistic": OpModel(rule=fixed("logistic", 0)),
        "tanh": OpModel(rule=fixed("tanh", 0)),
        "ceil floor": _exact(rule=whole_number(0)),
        "round_nearest_afz": _exact(rule=whole_number(0, function="round")),
        "round_nearest_even": _exact(rule=whole_number(0, function="roundeven")),
        "add": _exact(
            term=movements.arithmetic(Arithmetic.ADD),
            # The sum of truth values is their disjunction.
            integers=lambda op, values: nonzero_as_true(op, values[0] + values[1]),
            rule=own(0, 1),
        ),
        "compare": _exact(integers=movements.compare, rule=own(0, 1)),
        "atan2": OpModel(rule=own(0, 1)),
        "divide": _undefined_on_integers(rule=own(0, 1, function="div")),
        "maximum": _exact(
            integers="numpy:maximum",
            rule=own(0, 1, function="max"),
        ),
        "minimum": _exact(
            integers="numpy:minimum",
            rule=own(0, 1, function="min"),
        ),
        "multiply": _exact(
            term=movements.arithmetic(Arithmetic.MULTIPLY),
            integers="numpy:multiply",
            rule=own(0, 1, function="mul"),
        ),
        "power": OpModel(rule=own(0, 1, function="pow")),
        "remainder": _undefined_on_integers(rule=own(0, 1, function="rem")),
        "subtract": _exact(
            term=movements.arithmetic(Arithmetic.SUBTRACT),
            integers="numpy:subtract",
            rule=own(0, 1, function="sub"),
        ),
        "clamp": _exact(rule=rules.clamp),
        "convert": _exact(
            cast=CastReads.CONVERTED,
            term=movements.CONVERSION,
            integers=lambda op, values: nonzero_as_true(op, values[0]),
            rule=conversion,
        ),
        "uniform_quantize": OpModel(cast=CastReads.CODES),
        "uniform_dequantize": OpModel(cast=CastReads.NUMBERS),
        "map": OpModel(maps_elements=True, rule=rules.map_of_body),
        "select": _exact(
            integers="numpy:where",
            rule=shared(1, 2, keeps_places=True),
        ),
        "constant": _exact(constant="value"),
        "dynamic_iota iota": _exact(integers=movements.iota),
        "and count_leading_zeros not or popcnt xor": _exact(),
        "shift_left shift_right_arithmetic shift_right_logical": _undefined(),
        # Reductions
        "batch_norm_inference": OpModel(rule=own(0)),
        "reduce": OpModel(rule=rules.reduce),
        "reduce_window": OpModel(rule=rules.reduce_window),
        # Ops that stay in floats
        "get_dimension_size": _exact(reads_lengths=True),
        "case if while": _exact(has_blocks=True, stays_float=_REGIONS),
        "return": _exact(yields=True),
        "all_gather all_reduce all_to_all collective_broadcast collective_permute "
        "cross-replica-sum infeed outfeed recv reduce_scatter send async_start async_done": OpModel(
            stays_float="other devices or hosts see its operands"
        ),
        "batch_norm_grad batch_norm_training select_and_scatter": OpModel(
            stays_float="it is a step of training"
        ),
        "bitcast_convert": _exact(stays_float="it reads bits, not numbers"),
        "cholesky triangular_solve": OpModel(
            stays_float="a rounded matrix may have no such factorization or inverse"
        ),
        "complex imag real": _exact(stays_float=_COMPLEX),
        "fft": OpModel(stays_float=_COMPLEX),
        "composite custom_call": OpModel(
            stays_float="the function that it computes is defined by its implementation"
        ),
        "einsum unary_einsum": OpModel(stays_float="StableHLO removed it"),
        "get_tuple_element tuple": _exact(stays_float="it has tuples"),
        "rng rng_bit_generator": OpModel(stays_float="its result is random"),
    },
    DialectTraits(finest=Granularity.PER_AXIS),
)
