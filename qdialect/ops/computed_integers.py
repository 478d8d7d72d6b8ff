"""
Integers that a module computes from constants, such as the positions that a gather takes.

Exporters add the length of an axis to negative positions, or multiply an iota by a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, IntegerType, Signedness
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.movement import as_view
from qdialect.algebra.parameters import StorageFormat
from qdialect.ir.elements import DenseElementsAttr, elements_of, has_signedness
from qdialect.ir.errors import message_of
from qdialect.ir.rewriting import dependencies_first
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.attributes import held_elements, static_shape_of
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    elements_attribute_of,
    model_of,
    name_of,
    read_movements,
)
from qdialect.ops.model import OnElements, imported, model_named
from qdialect.ops.models import Operands
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Integers: TypeAlias = "NDArray[np.int64]"
IntegerFunction: TypeAlias = Callable[[Any, Sequence[Integers]], "NDArray[Any]"]
"""
Computes the result of an op from its operands, both int64.

The result may have any integers: they are wrapped to the type of the result. Raises Refusal.
"""


_MOST_OPS: Final = 64
_MOST_ELEMENTS: Final = 1 << 16
"""Positions are few; what takes longer to compute is left to the run."""


def nonzero_as_true(op: Operation, numbers: Integers) -> Integers:
    """What an op makes of numbers: if its results are truth values, all but 0 are true."""
    type = element_type_or_self(op.results[0].type)
    is_truth = isinstance(type, IntegerType) and type.bitwidth == 1
    return (numbers != 0).astype(np.int64) if is_truth else numbers


def integers_from(op: Operation, start: int, limit: int, step: int) -> Integers:
    """The integers that an op counts from `start`, before `limit`. Raises Refusal."""
    counted = range(start, limit, step)
    if (len(counted),) != static_shape_of(op.results[0]):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"its result does not have {len(counted)} elements")
    return np.asarray(counted, dtype=np.int64)


def integers_of_op(op: Operation, operands: Sequence[Integers]) -> Integers:
    """The integers that an op computes from its operands. Raises Refusal."""
    if not computes_integers(op):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, f"'{name_of(op)}' computes them")
    return _wrapped(_computed(op, operands), element_type_or_self(op.results[0].type))


def _computed(op: Operation, operands: Sequence[Integers]) -> NDArray[Any]:
    model = model_named(name_of(op))
    function = model.integers
    if function is True:
        function = cast(OnElements, model.run).integers
    if not isinstance(function, str):
        return cast(IntegerFunction, function)(op, operands)
    on_elements = imported(function)
    # Functions of numpy write to further operands.
    if len(operands) != getattr(on_elements, "nin", len(operands)):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"it has {len(operands)} operands")
    return on_elements(*operands)


def computes_integers(op: Operation) -> bool:
    """Whether `op` may compute integers, from others or from none."""
    return model_named(name_of(op)).integers is not None


def computed_integers(value: SSAValue, operands: Operands) -> Integers:
    """
    The integers of a value that ops compute from constants, which `operands` reads.

    Truth values are 0 and 1. Raises Refusal if they are not computed so, or by many ops.
    """
    order = list(dependencies_first([value], _made_of))
    if len(order) > _MOST_OPS:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "an operand that must be constant takes many ops")
    known: dict[SSAValue, Integers] = {}
    for each in order:
        op = each.owner
        if not _is_computed(each) or not isinstance(op, Operation):
            known[each] = _constant(each, operands)
            continue
        if np.prod(static_shape_of(each), dtype=object) > _MOST_ELEMENTS:
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "an operand that must be constant is large")
        try:
            if computes_integers(op):
                found = _computed(op, [known[operand] for operand in op.operands])
            else:
                found = _moved(op, known, operands)
            if found.shape != static_shape_of(each):
                raise Refusal(
                    RefusalCode.UNKNOWN_OP, "its result does not have the shape of its type"
                )
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # Nothing verifies the ops of unregistered dialects.
            raise Refusal(RefusalCode.UNKNOWN_OP, f"it is malformed: {message_of(error)}") from None
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
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "truth values that must be constant are not")
    truths = as_view(elements_of(cast(DenseElementsAttr, attribute))).array()
    return (truths != 0).astype(np.int64)


def _moved(op: Operation, known: dict[SSAValue, Integers], operands: Operands) -> NDArray[Any]:
    model = model_of(op)
    assert model is not None
    read = read_movements(op, model, operands)
    if read.padding is not None:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "an operand that must be constant is padded")
    moved: Sequence[NDArray[Any]] = [known[operand] for operand in read.operands]
    for movement in read.movements:
        movement.result_shape(*[each.shape for each in moved])
        moved = [cast("Callable[..., NDArray[Any]]", movement)(*moved)]
    return moved[0]


def _wrapped(numbers: NDArray[Any], type: Attribute) -> Integers:
    if isinstance(type, IndexType):
        return numbers.astype(np.int64)
    if not isinstance(type, IntegerType):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, f"elements of type '{type}' are computed")
    is_unsigned = type.bitwidth == 1 or has_signedness(cast(IntegerType, type), Signedness.UNSIGNED)
    if type.bitwidth > 64 or (is_unsigned and type.bitwidth > 32):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, f"elements of type '{type}' are computed")
    return StorageFormat(type.bitwidth, not is_unsigned).wrap(numbers.astype(np.int64))
