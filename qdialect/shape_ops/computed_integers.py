"""
Integers that a module computes from constants, such as the positions that a gather takes.

Exporters add the length of an axis to negative positions, or multiply an iota by a step.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, Signedness
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.movement import as_view
from qdialect.algebra.parameters import StorageFormat
from qdialect.ir.elements import DenseElementsAttr, elements_of, has_signedness
from qdialect.ir.errors import message_of
from qdialect.ir.ordering import dependencies_first
from qdialect.ir.value_types import element_type_or_self
from qdialect.shape_ops.interface import (
    Code,
    NotFoldable,
    Operands,
    attribute_of,
    elements_attribute_of,
    held_elements,
    integer_of,
    model_of,
    name_of,
    read_movements,
    static_shape_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

Integers: TypeAlias = "NDArray[np.int64]"
_Function: TypeAlias = Callable[[Operation, Sequence[Integers]], "NDArray[Any]"]

_MOST_OPS: Final = 64
_MOST_ELEMENTS: Final = 1 << 16
"""Positions are few; what takes longer to compute is left to the run."""


def computes_integers(op: Operation) -> bool:
    """Whether `op` may compute integers, from others or from none."""
    return name_of(op) in _FUNCTIONS


def computed_integers(value: SSAValue, operands: Operands) -> Integers:
    """
    The integers of a value that ops compute from constants, which `operands` reads.

    Truth values are 0 and 1. Raises NotFoldable if they are not computed so, or by many ops.
    """
    order = list(dependencies_first([value], _made_of))
    if len(order) > _MOST_OPS:
        raise NotFoldable(Code.DYNAMIC_SHAPE, "an operand that must be constant takes many ops")
    known: dict[SSAValue, Integers] = {}
    for each in order:
        op = each.owner
        if not _is_computed(each) or not isinstance(op, Operation):
            known[each] = _constant(each, operands)
            continue
        if np.prod(static_shape_of(each), dtype=object) > _MOST_ELEMENTS:
            raise NotFoldable(Code.DYNAMIC_SHAPE, "an operand that must be constant is large")
        try:
            of = [known[operand] for operand in op.operands]
            is_computed = computes_integers(op)
            found = _FUNCTIONS[name_of(op)](op, of) if is_computed else _moved(op, known, operands)
            if found.shape != static_shape_of(each):
                raise NotFoldable(Code.UNKNOWN_OP, "its result does not have the shape of its type")
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # Nothing verifies the ops of unregistered dialects.
            raise NotFoldable(Code.UNKNOWN_OP, f"it is malformed: {message_of(error)}") from None
        known[each] = _wrapped(found, element_type_or_self(each.type))
    return known[value]


def _is_computed(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, Operation) and (computes_integers(op) or model_of(op) is not None)


def _made_of(value: SSAValue) -> Sequence[SSAValue]:
    return cast(Operation, value.owner).operands if _is_computed(value) else ()


def _constant(value: SSAValue, operands: Operands) -> Integers:
    type, op = element_type_or_self(value.type), value.owner
    if not isinstance(type, IntegerType) or type.bitwidth > 1:
        return operands.integers(value).astype(np.int64)
    is_constant = isinstance(op, Operation) and elements_attribute_of(op) is not None
    attribute = held_elements(cast(Operation, op)) if is_constant else None
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        raise NotFoldable(Code.DYNAMIC_SHAPE, "truth values that must be constant are not")
    truths = as_view(elements_of(cast(DenseElementsAttr, attribute))).array()
    return (truths != 0).astype(np.int64)


def _moved(op: Operation, known: dict[SSAValue, Integers], operands: Operands) -> NDArray[Any]:
    model = model_of(op)
    assert model is not None
    read = read_movements(op, model, operands)
    if read.padding is not None:
        raise NotFoldable(Code.DYNAMIC_SHAPE, "an operand that must be constant is padded")
    moved: Sequence[NDArray[Any]] = [known[operand] for operand in read.operands]
    for movement in read.movements:
        movement.result_shape(*[each.shape for each in moved])
        moved = [cast("Callable[..., NDArray[Any]]", movement)(*moved)]
    return moved[0]


def _wrapped(numbers: NDArray[Any], type: Attribute) -> Integers:
    if not isinstance(type, IntegerType):
        raise NotFoldable(Code.DYNAMIC_SHAPE, f"elements of type '{type}' are computed")
    is_unsigned = type.bitwidth == 1 or has_signedness(cast(IntegerType, type), Signedness.UNSIGNED)
    if type.bitwidth > 64 or (is_unsigned and type.bitwidth > 32):
        raise NotFoldable(Code.DYNAMIC_SHAPE, f"elements of type '{type}' are computed")
    return StorageFormat(type.bitwidth, not is_unsigned).wrap(numbers.astype(np.int64))


def _iota(op: Operation, operands: Sequence[Integers]) -> NDArray[Any]:
    shape, axis = static_shape_of(op.results[0]), integer_of(op, "iota_dimension")
    ones = [-1 if at == axis else 1 for at in range(len(shape))]
    return np.broadcast_to(np.arange(shape[axis]).reshape(ones), shape)


def _compare(op: Operation, operands: Sequence[Integers]) -> NDArray[Any]:
    found = re.search(r"\b(EQ|NE|GE|GT|LE|LT)\b", str(attribute_of(op, "comparison_direction")))
    if found is None:
        raise NotFoldable(Code.UNKNOWN_OP, "its order is not understood")
    one, other = operands
    return _ORDERS[found[1]](one, other)


_ORDERS: Final[dict[str, Callable[..., Any]]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
}

_FUNCTIONS: Final[dict[str, _Function]] = {
    "stablehlo.iota": _iota,
    "stablehlo.compare": _compare,
    "stablehlo.add": lambda op, of: of[0] + of[1],
    "stablehlo.subtract": lambda op, of: of[0] - of[1],
    "stablehlo.multiply": lambda op, of: of[0] * of[1],
    "stablehlo.select": lambda op, of: np.where(of[0] != 0, of[1], of[2]),
    "stablehlo.convert": lambda op, of: of[0],
    "stablehlo.minimum": lambda op, of: np.minimum(of[0], of[1]),
    "stablehlo.maximum": lambda op, of: np.maximum(of[0], of[1]),
}
