"""The value of a term for given elements, with every step rounded or wrapped to its type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from qdialect.algebra.parameters import MAX_WIDTH, StorageFormat
from qdialect.ops.interface import Refusal, RefusalCode
from qdialect.ops.terms import Apply, Arithmetic, Input, Scalar, Term
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST: Final = 1 << 53
"""Larger integers are rounded when they are converted to float64."""

_LOW_BITS: Final = 11
"""The bits of an int64 that a double may not hold."""

_DOUBLE: Final = FLOAT_FORMATS["f64"]


def values_of(term: Term, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """
    The elements of a term: int64, signed whatever their type, or float64.

    `inputs` are integers, modulo the width of their type, or floats. Raises Refusal if int64 or
    float64 cannot represent them.
    """
    if isinstance(term, Input | Scalar):
        found = inputs[term.number] if isinstance(term, Input) else _scalar(term)
        return _wrapped(found, term.type, signed=True) if _is_integer(term.type) else found
    operands = [values_of(operand, inputs) for operand in term.operands]
    first, type, before = operands[0], term.type, term.operands[0].type
    match term.arithmetic:
        case Arithmetic.SIGNED_TO_FLOAT:
            return _rounded(first, type)
        case Arithmetic.UNSIGNED_TO_FLOAT:
            return _rounded(_wrapped(first, before, signed=False), type)
        case Arithmetic.SIGN_EXTEND:
            return first
        case Arithmetic.ZERO_EXTEND:
            return _wrapped(first, before, signed=False)
        case Arithmetic.EXTEND_FLOAT | Arithmetic.TRUNCATE_FLOAT:
            return _format(type).round(first)
        case Arithmetic.SUBTRACT | Arithmetic.MULTIPLY | Arithmetic.ADD:
            return _computed(term, *operands)
        case Arithmetic.QUANTIZE:
            raise Refusal(
                RefusalCode.ARITHMETIC, "its rounding is not defined for computing it here"
            )


def _computed(term: Apply, one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    compute = {
        Arithmetic.SUBTRACT: np.subtract,
        Arithmetic.MULTIPLY: np.multiply,
        Arithmetic.ADD: np.add,
    }[term.arithmetic]
    with np.errstate(all="ignore"):
        found = np.asarray(compute(one, other))
    if _is_integer(term.type):
        return _wrapped(found, term.type, signed=True)
    return _format(term.type).round(found)


def _scalar(term: Scalar) -> NDArray[Any]:
    return np.asarray(term.attribute.value.data)


def _is_integer(type: Attribute) -> bool:
    return isinstance(type, IntegerType)


def _wrapped(values: NDArray[Any], type: Attribute, *, signed: bool) -> NDArray[Any]:
    width = cast(IntegerType, type).bitwidth
    if width > MAX_WIDTH and not signed:
        raise Refusal(RefusalCode.ARITHMETIC, f"elements of '{type}' are read as unsigned")
    return np.asarray(StorageFormat(width, signed).wrap(values.astype(np.int64)))


def _rounded(integers: NDArray[Any], type: Attribute) -> NDArray[np.float64]:
    """The nearest numbers of a float type to integers, ties to even, rounded once."""
    to = _format(type)
    if not integers.size or (integers.min() >= -_MOST and integers.max() <= _MOST):
        return to.round(integers.astype(np.float64))
    if to.precision > _DOUBLE.precision:
        raise Refusal(RefusalCode.ARITHMETIC, "it converts integers that are too large")
    if to.precision == _DOUBLE.precision:
        return integers.astype(np.float64)
    # Bits too low to be seen by any narrower type but for a tie, which one of them breaks.
    high = integers >> _LOW_BITS
    low = (integers & ((1 << _LOW_BITS) - 1)) != 0
    sticky = (high | low).astype(np.float64) * (1 << _LOW_BITS)
    return to.round(np.where(abs(high) < 1 << 32, integers.astype(np.float64), sticky))


def _format(type: Attribute) -> FloatFormat:
    found = FLOAT_FORMATS.get(type.name)
    if found is None:
        raise Refusal(RefusalCode.ARITHMETIC, f"elements of type '{type}' are not supported")
    return found
