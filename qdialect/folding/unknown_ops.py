"""Remarks on ops without a model where a fold may have been expected."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from qdialect.folding.moved_constant import MovedConstant
from qdialect.folding.report import Outcome, PassRecord
from qdialect.ir.value_types import tensor_parts
from qdialect.ops.interface import RefusalCode, is_known_dialect, name_of


def unknown_op_record(
    op: Operation, constant_of: Callable[[SSAValue], MovedConstant | None]
) -> PassRecord | None:
    """
    The record of an op without a model; None if it does not look like a shape op.

    It does if nothing is registered for its dialect, its only result is a ranked tensor, and
    all its operands are computed from constants by casts and shape ops, at least one with a
    quantized type. Ops that compute usually have other operands.
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
    return PassRecord(
        Outcome.REFUSED,
        op,
        name_of(op),
        code=RefusalCode.UNKNOWN_OP,
        reason=f"no models are registered for dialect '{dialect}', so it is not known whether the "
        "op moves elements",
    )
