"""
Normalizes the arguments of public constructors: integers, numbers, and arrays of them.

Constructors accept Python's and numpy's integers, and any sequence of them. They reject values
that would need a conversion: booleans, fractions, text, objects.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from enum import Enum
from reprlib import Repr
from typing import Any, Final, TypeVar, cast

from qdialect.support.lazy_numpy import NDArray, np

Kind = TypeVar("Kind", bound=Enum)

_SHORT: Final = Repr()
_SHORT.maxother = 80


def shown(value: object) -> str:
    """
    `value` in an error message: its abridged `repr`, followed by its class where the `repr`
    does not show it.
    """
    text = _SHORT.repr(value)
    is_plain = isinstance(value, int | float | str | list | tuple)
    return text if is_plain else f"{text} ({type(value).__name__})"


def named_member(option: str, kinds: type[Kind], name: str) -> Kind:
    """The member of an enumeration of texts that an option names. Raises ValueError."""
    names = [kind.value for kind in kinds]
    if name not in names:
        raise ValueError(f"{option} must be one of {', '.join(names)}, but is '{name}'")
    return kinds(name)


def check_instance(name: str, value: object, wanted: type, example: str) -> None:
    """
    Raise TypeError unless `value` is a `wanted`; the message shows `example`, source text for
    one.
    """
    if not isinstance(value, wanted):
        raise TypeError(
            f"{name} must be of class {wanted.__name__}, such as {example}, not {shown(value)}"
        )


def integer(name: str, value: object) -> int:
    """`value` as a Python integer. Raises TypeError, naming `name`, if it is not an integer."""
    if type(value) is int:
        return value
    if not isinstance(value, bool):
        try:
            return operator.index(cast(Any, value))
        except TypeError:
            pass
    raise TypeError(f"{name} must be an integer, but is {shown(value)}")


def integers(name: str, values: object) -> tuple[int, ...]:
    """
    A sequence or an array of one dimension as a tuple of Python integers.

    Raises TypeError, naming `name`, if it is not a sequence or an element is not an integer.
    """
    if type(values) is tuple and {int}.issuperset(map(type, cast("tuple[object, ...]", values))):
        return cast("tuple[int, ...]", values)
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        items = cast("Sequence[object]", values)
        return tuple(integer(f"{name}[{at}]", item) for at, item in enumerate(items))
    if isinstance(values, np.ndarray):
        array = cast("NDArray[Any]", values)
        if array.ndim == 1 and array.dtype.kind in "iu":
            return tuple(array.tolist())
    raise TypeError(f"{name} must be a sequence of integers, but is {shown(cast(object, values))}")


def integer_array(name: str, values: object) -> NDArray[np.int64]:
    """
    Numbers, or nested sequences or an array of them, as int64 of the same shape.

    Floats are accepted if they are integral. Raises TypeError if an element is not a number,
    and ValueError for fractions, numbers that do not fit 64 bits, and ragged sequences.
    """
    array = _numbers(name, values)
    if array.dtype.kind == "f":
        fractions = array != np.rint(array)
        if fractions.any():
            raise ValueError(f"{name} must be integers, but {array[fractions].flat[0]} is not")
    if array.dtype.kind == "f" or array.dtype == np.uint64:
        outside = np.abs(array) >= 2.0**63
        if outside.any():
            raise ValueError(f"{name} must fit 64 bits, but {array[outside].flat[0]} does not")
    return array.astype(np.int64, copy=False)


def number_array(name: str, values: object) -> NDArray[np.float64]:
    """
    Numbers, or nested sequences or an array of them, as float64 of the same shape.

    Raises TypeError if an element is not a number, ValueError for ragged sequences.
    """
    return _numbers(name, values).astype(np.float64, copy=False)


def number(name: str, value: object) -> float:
    """`value`, a number of Python or numpy, as a float. Raises TypeError if it is not a number."""
    if type(value) is float:
        return value
    array = _numbers(name, value)
    if array.ndim:
        raise TypeError(f"{name} must be one number, but is {shown(value)}")
    return float(array)


def _numbers(name: str, values: object) -> NDArray[Any]:
    array = array_of(name, values)
    if array.dtype.kind in "iuf":
        return array
    if {int}.issuperset(map(type, array.flat)):
        raise ValueError(f"{name} must fit 64 bits, but {max(array.flat, key=abs)} does not")
    if not array.ndim:
        raise TypeError(f"{name} must be a number, but is {shown(values)}")
    raise TypeError(f"{name} must be numbers, but are of dtype {array.dtype}")


def array_of(name: str, values: object) -> NDArray[Any]:
    """
    Nested sequences, or anything that numpy accepts as an array, as an array.

    An empty sequence becomes an int64 array. Raises ValueError for ragged sequences.
    """
    if isinstance(values, np.ndarray):
        return cast("NDArray[Any]", values)
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} must not be ragged: nested sequences must have one length"
        ) from None
    return array if array.size else array.astype(np.int64)
