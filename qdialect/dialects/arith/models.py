"""
The ops of arith, on tensors and in bodies of other ops.

Runs compute floats in double and round once, which is correctly rounded for formats of at most half
the precision of double, and for double itself. A computed NaN has neither a sign nor a payload.
https://mlir.llvm.org/docs/Dialects/ArithOps/.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, nan
from types import MappingProxyType
from typing import Any, Final

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from qdialect.dialects import BITCAST, run_in, scalar
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.elementwise import same_shape, unbroadcast
from qdialect.ops.fields import (
    Apply,
    Arithmetic,
    Comparison,
    Elementwise,
    Integers,
    Operands,
    Term,
    own,
    shared,
)
from qdialect.ops.interface import Refusal, RefusalCode, find_attribute, integer_of, name_of
from qdialect.ops.model import Bits, Effects, OnElements, OnNumbers, OpModel, OpModels
from qdialect.ops.readers import conversion_rule
from qdialect.support.lazy_numpy import NDArray, np

# Integers


def _compare(op: Operation, values: Sequence[Integers]) -> NDArray[Any]:
    function, _, is_unsigned = comparison_of(op)
    # Sign extension keeps the order of unsigned integers.
    one, other = (
        numbers.view(np.uint64) if is_unsigned else _signed(op, [numbers]) for numbers in values
    )
    return getattr(np, function)(one, other)


def comparison_of(op: Operation) -> Comparison:
    """How a `cmpi` compares."""
    predicate = integer_of(op, "predicate")
    return Comparison(_PREDICATES[predicate], is_unsigned=predicate >= _FIRST_UNSIGNED)


_ORDERS: Final = ("less", "less_equal", "greater", "greater_equal")
_PREDICATES: Final = ("equal", "not_equal", *_ORDERS, *_ORDERS)
_FIRST_UNSIGNED: Final = 6


def _comparison_of_floats(op: Operation) -> Comparison:
    """How a `cmpf` compares. An ordered one is false for NaN, an unordered one is true."""
    predicate = integer_of(op, "predicate")
    if (comparison := COMPARISONS_OF_FLOATS.get(predicate)) is None:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its predicate is no comparison, nor its negation")
    return comparison


COMPARISONS_OF_FLOATS: Final = {
    1: Comparison("equal"),
    2: Comparison("greater"),
    3: Comparison("greater_equal"),
    4: Comparison("less"),
    5: Comparison("less_equal"),
    9: Comparison("less_equal", is_negated=True),
    10: Comparison("less", is_negated=True),
    11: Comparison("greater_equal", is_negated=True),
    12: Comparison("greater", is_negated=True),
    13: Comparison("equal", is_negated=True),
}
"""By the number of a predicate: ordered ones such as `oeq`, then unordered ones."""


def _width(op: Operation) -> int:
    """The width of the first operand, 64 for an index."""
    type = element_type_or_self(op.operands[0].type)
    return type.bitwidth if isinstance(type, IntegerType) else 64


def _signed(op: Operation, values: Sequence[Integers]) -> Integers:
    """An operand read as signed: the only bit of a truth value is the sign."""
    return -values[0] if _width(op) == 1 else values[0]


def _unsigned(op: Operation, values: Sequence[Integers]) -> Integers:
    """An operand read as unsigned."""
    return values[0] if (width := _width(op)) == 64 else values[0] & ((1 << width) - 1)


# Terms

_ARITHMETIC: Final = MappingProxyType(
    {
        "arith.sitofp": Arithmetic.SIGNED_TO_FLOAT,
        "arith.uitofp": Arithmetic.UNSIGNED_TO_FLOAT,
        "arith.extsi": Arithmetic.SIGN_EXTEND,
        "arith.extui": Arithmetic.ZERO_EXTEND,
        "arith.extf": Arithmetic.EXTEND_FLOAT,
        "arith.truncf": Arithmetic.TRUNCATE_FLOAT,
        "arith.subi": Arithmetic.SUBTRACT,
        "arith.subf": Arithmetic.SUBTRACT,
        "arith.muli": Arithmetic.MULTIPLY,
        "arith.mulf": Arithmetic.MULTIPLY,
        "arith.addi": Arithmetic.ADD,
        "arith.addf": Arithmetic.ADD,
    }
)
"""The function of ops that apply to scalars and to each element of tensors."""


def term_of(op: Operation, operands: Sequence[Term]) -> Term:
    """The result of an op on scalars. Raises Refusal for unknown ops."""
    arithmetic = _ARITHMETIC.get(name_of(op))
    if arithmetic is None:
        raise Refusal(RefusalCode.ARITHMETIC, f"'{name_of(op)}' is not part of a dequantization")
    _require_no_fast_math(op)
    return Apply(arithmetic, tuple(operands), op.results[0].type)


def _read(op: Operation, operands: Operands) -> Elementwise:
    _require_no_fast_math(op)
    return same_shape(op, _ARITHMETIC[name_of(op)], op.operands)


def _require_no_fast_math(op: Operation) -> None:
    """Raise Refusal if fast-math flags allow other results than those of IEEE 754."""
    flags = find_attribute(op, "fastmath")
    if isinstance(flags, FastMathFlagsAttr) and flags.data:
        raise Refusal(RefusalCode.ARITHMETIC, f"'{name_of(op)}' has fast-math flags")
    if find_attribute(op, "roundingmode") is not None:
        raise Refusal(RefusalCode.ARITHMETIC, f"'{name_of(op)}' has a rounding mode")


_exact = partial(OpModel, bits=Bits.EXACT)
_undefined = partial(OpModel, bits=Bits.UNDEFINED)
_division = partial(_undefined, effects=Effects.UNDEFINED)
_term: Final = unbroadcast(_read)

_run = partial(run_in, "arith")

_bits = partial(OnNumbers, is_unsigned=True)
_SAME = scalar("same")

MODELS = OpModels(
    "arith",
    {
        "constant": _exact(constant="value"),
        # Integers
        "addi": _exact(term=_term, integers=True, run=_bits("numpy:add"), identity=0),
        "subi": _exact(term=_term, integers=True, run=_bits("numpy:subtract")),
        "muli": _exact(term=_term, integers=True, run=_bits("numpy:multiply"), identity=1),
        "andi": _exact(integers=True, run=_bits("numpy:bitwise_and"), identity=-1),
        "ori": _exact(integers=True, run=_bits("numpy:bitwise_or"), identity=0),
        "xori": _exact(integers=True, run=_bits("numpy:bitwise_xor")),
        "maxsi": _exact(integers=True, run=OnNumbers("numpy:maximum"), identity=-inf),
        "minsi": _exact(integers=True, run=OnNumbers("numpy:minimum"), identity=inf),
        "maxui": _exact(run=_bits("numpy:maximum")),
        "minui": _exact(run=_bits("numpy:minimum")),
        "cmpi": _exact(
            integers=_compare,
            comparison=comparison_of,
            run=_run("compare_integers"),
            is_elementwise=True,
        ),
        "addui_extended mulsi_extended mului_extended": _exact(),
        "divsi": _division(run=OnNumbers(scalar("quotient"))),
        "divui": _division(run=_bits(scalar("quotient"))),
        "floordivsi": _division(run=OnNumbers(scalar("floor_quotient"))),
        "ceildivsi": _division(run=OnNumbers(scalar("ceiling_quotient"))),
        "ceildivui": _division(run=_bits(scalar("ceiling_quotient"))),
        "remsi": _division(run=OnNumbers(scalar("remainder"))),
        "remui": _division(run=_bits(scalar("remainder"))),
        "shli shrsi shrui": _undefined(run=_run("shift"), is_elementwise=True),
        # Floats
        "addf": _exact(term=_term, rule=own(), run=OnNumbers("numpy:add"), identity=-0.0),
        "subf": _exact(term=_term, rule=own(), run=OnNumbers("numpy:subtract")),
        "mulf": _exact(term=_term, rule=own(), run=OnNumbers("numpy:multiply"), identity=1),
        "divf": _exact(rule=own(), run=OnNumbers("numpy:divide")),
        "remf": _exact(rule=own(), run=OnElements("numpy:fmod", arity=2)),
        "negf": _exact(rule=own(), run=OnNumbers("numpy:negative")),
        "maximumf": _exact(rule=own(), run=OnNumbers(scalar("larger")), identity=-inf),
        "minimumf": _exact(rule=own(), run=OnNumbers(scalar("smaller")), identity=inf),
        "maxnumf": _exact(rule=own(), run=OnNumbers(scalar("larger_number")), identity=nan),
        "minnumf": _exact(rule=own(), run=OnNumbers(scalar("smaller_number")), identity=nan),
        "cmpf": _exact(
            rule=own(),
            comparison=_comparison_of_floats,
            run=_run("compare_floats"),
            on_arrays=_run("comparison"),
            is_elementwise=True,
        ),
        # Conversions
        "extsi": _exact(term=_term, integers=_signed, run=OnNumbers(_SAME)),
        "extui": _exact(term=_term, integers=_unsigned, run=_bits(_SAME)),
        "index_cast": _exact(integers=_signed, run=OnNumbers(_SAME)),
        "index_castui": _exact(integers=_unsigned),
        "trunci": _exact(integers=lambda op, values: values[0], run=_bits(_SAME)),
        "extf truncf": _exact(term=_term, rule=conversion_rule, run=OnNumbers(_SAME)),
        "sitofp": _exact(term=_term, rule=own(), run=OnNumbers(_SAME)),
        "uitofp": _exact(term=_term, rule=own(), run=_bits(_SAME)),
        "fptosi": _undefined(
            rounding="numpy:trunc", rule=own(), run=_run("truncate"), is_elementwise=True
        ),
        "fptoui": _undefined(rule=own(), run=_run("truncate"), is_elementwise=True),
        "bitcast": _exact(
            stays_float="it reads bits, not numbers",
            reads_bits=True,
            run=BITCAST,
            runs_on_codes=True,
            is_elementwise=True,
        ),
        "select": _exact(
            integers="numpy:where",
            rule=shared(1, 2, keeps_places=True),
            run=_run("select"),
            on_arrays=_run("choice"),
            runs_on_codes=True,
            is_elementwise=True,
        ),
        "scaling_extf scaling_truncf": OpModel(stays_float="it has scales of its own"),
    },
)
