"""
The ops of linalg that compute with floats: https://mlir.llvm.org/docs/Dialects/Linalg/.

The inputs are quantized, and the initial value of the result is not.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final, cast

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, FloatAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.attributes import attribute_of
from qdialect.ops.interface import name_of
from qdialect.ops.rules import (
    QuantizationRule,
    RuleKind,
    function_of,
    rule_of,
)

_LOGISTIC: Final = ["arith.negf", "math.exp", "arith.addf", "arith.divf"]
"""How torch-mlir writes `1 / (1 + exp(-x))`."""

_YIELD: Final = "linalg.yield"
_INDEX: Final = "linalg.index"
_CONVERSIONS: Final = ("arith.extf", "arith.truncf")
_CONSTANT: Final = "arith.constant"


_FUNCTIONS: Final = {"max_signed": "max", "min_signed": "min", "negf": "neg", "powf": "pow"}
"""The functions of kinds of `linalg.elementwise` with another name."""


def elementwise(op: Operation) -> QuantizationRule | None:
    """The rule of the function in the attribute `kind`."""
    kind = str(attribute_of(op, "kind")).rpartition("<")[2].rstrip(">")
    function = _FUNCTIONS.get(kind, kind)
    inputs = tuple(range(len(op.operands) - len(op.results)))
    match function:
        case "select":
            return QuantizationRule(RuleKind.SHARED, (1, 2), frozenset({function}))
        case "tanh":
            return QuantizationRule(RuleKind.FIXED, inputs, frozenset({function}), fixed="tanh")
        case "ceil" | "floor" | "round":
            return QuantizationRule(RuleKind.WHOLE_NUMBER, inputs, frozenset({function}))
        case _:
            return QuantizationRule(RuleKind.OWN, inputs, frozenset({function}))


def with_body(op: Operation) -> QuantizationRule | None:
    """An op that computes each element of its result by ops of arith and math."""
    body = op.regions[0].block
    ops = [inner for inner in body.ops if name_of(inner) not in (_YIELD, _CONSTANT)]
    if len(ops) > 1:
        # Conversions before and after the function are part of it.
        ops = [inner for inner in ops if name_of(inner) not in _CONVERSIONS] or ops
    names = [name_of(inner) for inner in ops]
    if any(not _is_function(inner) for inner in ops):
        return None
    inputs = _inputs(op, body)
    if inputs is None:
        return None
    functions = frozenset[str]().union(*map(_functions_of, ops))
    if (extreme := _extreme(ops)) is not None:
        functions = frozenset({extreme})
    if name_of(op) == "linalg.reduce" or _has_reduction(op):
        return QuantizationRule(RuleKind.OWN, inputs, functions | {"reduce"})
    if names == _LOGISTIC and _is_logistic(ops):
        return QuantizationRule(RuleKind.FIXED, inputs, functions, fixed="logistic")
    if len(ops) == 1 and (only := rule_of(ops[0])) is not None:
        functions, chosen = (
            functions if only.functions else frozenset[str](),
            _chosen(op, ops[0], only),
        )
        count = len(ops[0].operands if only.operands is None else only.operands)
        # A scalar operand adds elements that no tensor operand has.
        is_own = only.kind is RuleKind.SHARED and len(chosen) < count
        return QuantizationRule(
            RuleKind.OWN if is_own else only.kind, chosen, functions, only.fixed
        )
    if not ops:
        return QuantizationRule(RuleKind.SHARED, inputs[:1] if len(inputs) == 1 else inputs)
    return QuantizationRule(RuleKind.OWN, inputs, functions)


def gathering_op(op: Operation) -> Operation | None:
    """
    The `tensor.extract` that produces the result of a `linalg.generic`.

    None unless all other ops of its body compute integers.
    """
    if name_of(op) != "linalg.generic" or len(op.results) != 1 or _has_reduction(op):
        return None
    body = op.regions[0].block
    found = [inner for inner in body.ops if name_of(inner) == "tensor.extract"]
    if len(found) != 1 or (end := body.last_op) is None:
        return None
    (gather,) = found
    if list(end.operands) != list(gather.results) or not _is_of_floats(gather.operands[0]):
        return None
    others = [inner for inner in body.ops if inner not in (gather, end)]
    is_of_integers = all(
        name_of(inner) == "cf.assert" or (_is_function(inner) and not _has_float(inner))
        for inner in others
    )
    return gather if is_of_integers else None


def _has_float(op: Operation) -> bool:
    return any(map(_is_of_floats, (*op.operands, *op.results)))


def _is_of_floats(value: SSAValue) -> bool:
    return isinstance(element_type_or_self(value.type), AnyFloat)


def _functions_of(op: Operation) -> frozenset[str]:
    read = rule_of(op)
    return (read and read.functions) or frozenset({function_of(name_of(op))})


def _extreme(ops: list[Operation]) -> str | None:
    """`max` or `min`, if a compare and a select compute it; else None."""
    if [name_of(op) for op in ops] != ["arith.cmpf", "arith.select"]:
        return None
    compare, select = ops
    found = re.search("[0-9]+", str(attribute_of(compare, "predicate")))
    if (
        found is None
        or int(found[0]) not in _ORDERS
        or select.operands[0] is not compare.results[0]
    ):
        return None
    order, ends = _ORDERS[int(found[0])], list(compare.operands)
    if ends == [select.operands[1], select.operands[2]]:
        return order
    if ends == [select.operands[2], select.operands[1]]:
        return "min" if order == "max" else "max"
    return None


_ORDERS: Final = {
    **dict.fromkeys((2, 3, 9, 10), "max"),
    **dict.fromkeys((4, 5, 11, 12), "min"),
}
"""The function of `select(cmpf(a, b), a, b)`, by the number of the predicate of `cmpf`."""


def _is_function(op: Operation) -> bool:
    name = name_of(op)
    return (name.partition(".")[0] in ("arith", "math") or name == _INDEX) and not op.regions


def _inputs(op: Operation, body: Block) -> tuple[int, ...] | None:
    """The operand numbers of the inputs that the body reads."""
    count = len(op.operands) - len(op.results)
    if count < 0:
        return None
    return tuple(at for at in range(count) if body.args[at].first_use is not None)


def _chosen(op: Operation, only: Operation, read: QuantizationRule) -> tuple[int, ...]:
    """The inputs that the single op of a body reads as its quantized operands."""
    chosen = only.operands if read.operands is None else [only.operands[at] for at in read.operands]
    count = len(op.operands) - len(op.results)
    numbers = [_number(value) for value in chosen]
    return tuple(at for at in dict.fromkeys(numbers) if at is not None and at < count)


def _number(value: SSAValue) -> int | None:
    """The number of the operand that a value is an element of, perhaps converted."""
    while isinstance(value.owner, Operation) and name_of(value.owner) in _CONVERSIONS:
        value = value.owner.operands[0]
    return value.index if isinstance(value, BlockArgument) else None


def _has_reduction(op: Operation) -> bool:
    if name_of(op) != "linalg.generic":
        return False
    kinds = cast("ArrayAttr[Attribute]", attribute_of(op, "iterator_types"))
    return any("parallel" not in str(kind) for kind in kinds.data)


def _is_logistic(ops: list[Operation]) -> bool:
    """Whether ops are the chain of `_LOGISTIC`, with constants of one."""
    for before, after in pairwise(ops):
        others = [each for each in after.operands if each is not before.results[0]]
        if len(others) == len(after.operands) or not all(map(_is_one, others)):
            return False
    return ops[-1].operands[1] is ops[-2].results[0]


def _is_one(value: SSAValue) -> bool:
    owner = value.owner
    if not isinstance(owner, Operation) or name_of(owner) != _CONSTANT:
        return False
    held = attribute_of(owner, "value")
    return isinstance(held, FloatAttr) and held.value.data == 1
