"""
The constant of the arith dialect, and its element-wise ops, on tensors and in bodies of other ops.

https://mlir.llvm.org/docs/Dialects/ArithOps/.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.ir import Operation

from qdialect.shape_ops.elementwise import elementwise_op, same_shape, write_like
from qdialect.shape_ops.interface import (
    Code,
    NotFoldable,
    find_attribute,
    name_of,
    register_constant,
)
from qdialect.shape_ops.models import Operands
from qdialect.shape_ops.terms import Apply, Arithmetic, Elementwise, Term

register_constant("arith.constant", "value")

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
    """The result of an op on scalars. Raises NotFoldable for unknown ops."""
    arithmetic = ARITHMETIC.get(name_of(op))
    if arithmetic is None:
        raise NotFoldable(Code.ARITHMETIC, f"'{name_of(op)}' is not part of a dequantization")
    _require_no_fast_math(op)
    return Apply(arithmetic, tuple(operands), op.results[0].type)


@elementwise_op(*ARITHMETIC, write=write_like)
def _read(op: Operation, operands: Operands) -> Elementwise:
    _require_no_fast_math(op)
    return same_shape(op, ARITHMETIC[name_of(op)], op.operands)


def _require_no_fast_math(op: Operation) -> None:
    """Raise NotFoldable if fast-math flags allow other results than those of IEEE 754."""
    flags = find_attribute(op, "fastmath")
    if isinstance(flags, FastMathFlagsAttr) and flags.data:
        raise NotFoldable(Code.ARITHMETIC, f"'{name_of(op)}' has fast-math flags")
    if find_attribute(op, "roundingmode") is not None:
        raise NotFoldable(Code.ARITHMETIC, f"'{name_of(op)}' has a rounding mode")
