"""
The constant of the arith dialect, and its element-wise ops, on tensors and in bodies of other ops.

https://mlir.llvm.org/docs/Dialects/ArithOps/.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.attributes import integer_of
from qdialect.ops.computed_integers import Integers, integer_function
from qdialect.ops.elementwise import elementwise_op, same_shape, write_like
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    find_attribute,
    name_of,
    register_constant,
)
from qdialect.ops.models import Operands
from qdialect.ops.terms import Apply, Arithmetic, Elementwise, Term
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

register_constant("arith.constant", "value")

integer_function("arith.addi")(lambda op, of: of[0] + of[1])
integer_function("arith.subi")(lambda op, of: of[0] - of[1])
integer_function("arith.muli")(lambda op, of: of[0] * of[1])
integer_function("arith.trunci")(lambda op, of: of[0])
integer_function("arith.andi")(lambda op, of: of[0] & of[1])
integer_function("arith.ori")(lambda op, of: of[0] | of[1])
integer_function("arith.xori")(lambda op, of: of[0] ^ of[1])
integer_function("arith.select")(lambda op, of: np.where(of[0] != 0, of[1], of[2]))
integer_function("arith.extsi", "arith.index_cast")(lambda op, of: _signed(op, of[0]))
integer_function("arith.extui", "arith.index_castui")(lambda op, of: _unsigned(op, of[0]))
integer_function("arith.minsi")(lambda op, of: np.minimum(of[0], of[1]))
integer_function("arith.maxsi")(lambda op, of: np.maximum(of[0], of[1]))


@integer_function("arith.cmpi")
def _compare(op: Operation, of: Sequence[Integers]) -> NDArray[Any]:
    compare, is_unsigned = _PREDICATES[integer_of(op, "predicate")]
    # Sign extension keeps the order of unsigned integers.
    one, other = (each.view(np.uint64) if is_unsigned else _signed(op, each) for each in of)
    return compare(one, other)


_PREDICATES: Final = (
    (operator.eq, False),
    (operator.ne, False),
    (operator.lt, False),
    (operator.le, False),
    (operator.gt, False),
    (operator.ge, False),
    (operator.lt, True),
    (operator.le, True),
    (operator.gt, True),
    (operator.ge, True),
)
"""The functions of `cmpi` by the number of the predicate, and whether they compare as unsigned."""


def _width(op: Operation) -> int:
    """The width of the first operand, 64 for an index."""
    type = element_type_or_self(op.operands[0].type)
    return type.bitwidth if isinstance(type, IntegerType) else 64


def _signed(op: Operation, numbers: Integers) -> Integers:
    """Operands read as signed: the only bit of a truth value is the sign."""
    return -numbers if _width(op) == 1 else numbers


def _unsigned(op: Operation, numbers: Integers) -> Integers:
    return numbers if (width := _width(op)) == 64 else numbers & ((1 << width) - 1)


ARITHMETIC: Final = MappingProxyType(
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
"""
The scalar function of each op of the dialect, which applies to scalars and to each tensor element.
"""


def term_of(op: Operation, operands: Sequence[Term]) -> Term:
    """The result of an op on scalars. Raises Refusal for unknown ops."""
    arithmetic = ARITHMETIC.get(name_of(op))
    if arithmetic is None:
        raise Refusal(RefusalCode.ARITHMETIC, f"'{name_of(op)}' is not part of a dequantization")
    _require_no_fast_math(op)
    return Apply(arithmetic, tuple(operands), op.results[0].type)


@elementwise_op(*ARITHMETIC, write=write_like)
def _read(op: Operation, operands: Operands) -> Elementwise:
    _require_no_fast_math(op)
    return same_shape(op, ARITHMETIC[name_of(op)], op.operands)


def _require_no_fast_math(op: Operation) -> None:
    """Raise Refusal if fast-math flags allow other results than those of IEEE 754."""
    flags = find_attribute(op, "fastmath")
    if isinstance(flags, FastMathFlagsAttr) and flags.data:
        raise Refusal(RefusalCode.ARITHMETIC, f"'{name_of(op)}' has fast-math flags")
    if find_attribute(op, "roundingmode") is not None:
        raise Refusal(RefusalCode.ARITHMETIC, f"'{name_of(op)}' has a rounding mode")
