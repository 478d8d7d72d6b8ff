"""Numbers at which the behaviour of ops may change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Final, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters.values import TypedArray, dtype_of
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.elements import in_width
from qdialect.ir.value_types import element_type_or_self

_MAX_ELEMENTS: Final = 8
"""The maximum number of elements taken from a constant."""

_MAX_SLOTS: Final = 4
"""The maximum number of slots taken from a type."""


def interesting_numbers(ops: Iterable[Operation]) -> list[float]:
    """
    The distinct numbers that occur in `ops` and the ops nested in them, for `dealt_arguments`.

    These are numbers in attributes and the first elements of constants. For quantized types,
    they are the real values of the zero point and of the ends of the storage range, and the
    values half a step away, at which rounding ties.
    """
    return list(dict.fromkeys(number for op in ops for inner in op.walk() for number in _of(inner)))


def _of(op: Operation) -> Iterator[float]:
    for attribute in (*op.properties.values(), *op.attributes.values()):
        yield from _in_attribute(attribute)
    for type in dict.fromkeys((*op.operand_types, *op.result_types)):
        element_type = element_type_or_self(type)
        if isinstance(element_type, UniformQuantizedType):
            yield from _around_codes(element_type)


def _in_attribute(attribute: Attribute) -> Iterator[float]:
    if isinstance(attribute, IntegerAttr | FloatAttr):
        yield cast("float", cast(Any, attribute).value.data)
    elif isinstance(attribute, DenseIntOrFPElementsAttr):
        tensor = cast("DenseIntOrFPElementsAttr[Any]", attribute)
        with suppress(InterpretationError):
            dtype, data = dtype_of(tensor.type.element_type), tensor.data.data
            count = min(len(data) // dtype.itemsize, _MAX_ELEMENTS)
            elements = np.frombuffer(data, dtype=dtype, count=count)
            type = TensorType(tensor.type.element_type, [count])
            yield from TypedArray(in_width(elements, type.element_type), type).numbers.tolist()


def _around_codes(type: UniformQuantizedType) -> Iterator[float]:
    scales, zero_points = (
        type.scales.reshape(-1),
        type.storage_format.wrap(type.zero_points).reshape(-1),
    )
    for at in islice(np.argsort(scales, kind="stable")[::-1].tolist(), _MAX_SLOTS):
        for code in (type.storage_type_min, int(zero_points[at]), type.storage_type_max):
            for step in (-0.5, 0.0, 0.5):
                yield float((code + step - zero_points[at]) * scales[at])
