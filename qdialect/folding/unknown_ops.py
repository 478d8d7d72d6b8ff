"""Ops that nothing is known of where a fold may have been expected."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from qdialect.folding.moved_constant import MovedConstant
from qdialect.folding.report import FoldRecord, Outcome
from qdialect.ir.value_types import tensor_parts
from qdialect.shape_ops.interface import Code, is_known_dialect, name_of


def unknown_op_record(
    op: Operation, constant_of: Callable[[SSAValue], MovedConstant | None]
) -> FoldRecord | None:
    """
    What to tell of an op without a model: None if it does not look like a shape op.

    It does if nothing at all is registered for its dialect, all its operands are constants
    or made of constants by casts and shape ops, one of them of a quantized type, and its
    only result is a ranked tensor. Ops that compute have other operands, as a rule.
    """
    if not op.operands or op.regions or len(op.results) != 1:
        return None
    dialect = name_of(op).partition(".")[0]
    if is_known_dialect(dialect) or tensor_parts(op.results[0].type) is None:
        return None
    constants = [constant_of(operand) for operand in op.operands]
    layers = [layer for constant in constants if constant for layer in constant.layers]
    if None in constants or not any(layer.parameters is not None for layer in layers):
        return None
    return FoldRecord(
        Outcome.REFUSED,
        op,
        name_of(op),
        code=Code.UNKNOWN_OP,
        reason=f"nothing is registered for '{dialect}', so it is not known to move elements",
    )
