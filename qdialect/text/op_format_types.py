"""The rules for types that a custom form omits: see `op_formats`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from xdsl.dialects.builtin import ArrayAttr, FunctionType, TensorType, TupleType, VectorType, i1
from xdsl.ir import Attribute


def _elements(types: Sequence[Attribute]) -> Sequence[Attribute]:
    """The element type of a vector, for each of its elements."""
    (type,) = types
    return _element(types) * math.prod(cast(Any, type).get_shape())


def _element(types: Sequence[Attribute]) -> list[Attribute]:
    (type,) = types
    return [cast(Any, type).element_type]


def _booleans(types: Sequence[Attribute]) -> Sequence[Attribute]:
    """A float type, or a shaped type of floats, with i1 as the element type."""
    (type,) = types
    if isinstance(type, TensorType):
        return [TensorType(i1, type.get_shape(), type.encoding)]
    if isinstance(type, VectorType):
        return [VectorType(i1, type.get_shape(), type.scalable_dims)]
    return [i1]


def _booleans_for(types: Sequence[Attribute]) -> Sequence[Attribute]:
    return [i1] * len(types)


def _product(lhs: Sequence[Attribute], rhs: Sequence[Attribute]) -> Sequence[Attribute]:
    """The type of the outer product of a vector and a vector or a number."""
    (left,), (right,) = lhs, rhs
    if not isinstance(left, VectorType):
        raise ValueError("not a vector")
    if not isinstance(right, VectorType):
        return lhs
    dims = [*left.scalable_dims, *right.scalable_dims]
    shape = [*left.get_shape(), *right.get_shape()]
    element = cast("VectorType[Attribute]", left).element_type
    return [VectorType(element, shape, ArrayAttr(dims))]


def _inputs(types: Sequence[Attribute]) -> Sequence[Attribute]:
    (type,) = types
    return cast(FunctionType, type).inputs.data


def _outputs(types: Sequence[Attribute]) -> Sequence[Attribute]:
    (type,) = types
    return cast(FunctionType, type).outputs.data


def _parts(types: Sequence[Attribute]) -> Sequence[Attribute]:
    """The types of the parts of a tuple."""
    (type,) = types
    return cast(TupleType, type).types.data


RULES: Final[Mapping[str, Callable[..., Sequence[Attribute]]]] = {
    "booleans": _booleans,
    "booleans_for": _booleans_for,
    "element": _element,
    "elements": _elements,
    "inputs": _inputs,
    "outputs": _outputs,
    "parts": _parts,
    "product": _product,
}
"""
Rules that compute omitted types from the types of another value. They raise ValueError or
AttributeError for types of another kind.
"""
