"""Running sums of products, as the models of their dialects describe them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.interpreter import Interpreter
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters.memory import temporary_memory
from qdialect.check.interpreters.reference.products import sum_of_products
from qdialect.check.interpreters.reference.values import Numbers, all_numbers, rounded
from qdialect.check.interpreters.values import TypedArray
from qdialect.ops.interface import name_of
from qdialect.ops.model import model_named
from qdialect.ops.products import Contraction, layer_of, windows_of


def run_layer(_: Interpreter, op: Operation, operands: Sequence[TypedArray]) -> list[TypedArray]:
    """
    The result of a sum of products, with its bias. Raises InterpretationError and Refusal.
    """
    contraction = layer_of(op)
    if not isinstance(contraction, Contraction):
        raise InterpretationError("it is not a sum of products")
    windows = windows_of(op, contraction)
    with all_numbers(*operands) as numbers:
        lhs, rhs = (numbers[at] for at in contraction.operands)
        zeros = list(model_named(name_of(op)).zero_points or ())
        if zeros and len(operands) > zeros[0]:
            lhs_zero, rhs_zero = (numbers[at] for at in zeros)
            lhs, rhs = lhs - _single(lhs_zero), rhs - _single(rhs_zero)
        made = sum_of_products(lhs, rhs, contraction, windows)
        with temporary_memory(made.nbytes):
            if contraction.bias is not None and len(numbers) > contraction.bias:
                made = made + numbers[contraction.bias]
            return [rounded(made, op.results[0].type)]


def _single(point: Numbers) -> Numbers:
    if point.size != 1:
        raise InterpretationError(f"it has {point.size} zero points for one operand")
    return point.reshape(())
