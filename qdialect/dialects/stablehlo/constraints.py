"""The type constraints of StableHLO's operands and results, with their descriptions in messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    Float32Type,
    Float64Type,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.dialects.quant.slot_arrays import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.value_types import ValueKind, is_static


@dataclass(frozen=True)
class _Elements:
    """A constraint on element types; some types are valid only for some shapes."""

    description: str
    accepts: Callable[[Attribute, Shape], bool]


def _is_float(type: Attribute, shape: Shape) -> bool:
    return isinstance(type, AnyFloat) and type.bitwidth in (4, 6, 8, 16, 32, 64)


def _is_number(type: Attribute, shape: Shape) -> bool:
    if isinstance(type, ComplexType):
        return isinstance(cast(Attribute, type.element_type), Float32Type | Float64Type)
    if not isinstance(type, IntegerType):
        return _is_float(type, shape)
    integer = cast(IntegerType, type)
    if integer.bitwidth == 1:
        return integer.signedness.data is Signedness.SIGNLESS
    is_signed = integer.signedness.data is Signedness.SIGNED
    return integer.bitwidth in (2, 4, 8, 16, 32, 64) and not is_signed


def _is_quantized(type: Attribute) -> bool:
    if not isinstance(type, UniformQuantizedType):
        return False
    zero_points = type.zero_points
    is_in_range = (zero_points >= type.storage_type_min) & (zero_points <= type.storage_type_max)
    return type.storage_type.bitwidth in (2, 4, 8, 16, 32) and bool(is_in_range.all())


def _is_quantized_per_tensor(type: Attribute, shape: Shape) -> bool:
    return granularity_of(type) is Granularity.PER_TENSOR and _is_quantized(type)


def _is_quantized_per_axis(type: Attribute, shape: Shape) -> bool:
    if granularity_of(type) is not Granularity.PER_AXIS or not _is_quantized(type):
        return False
    try:
        cast(UniformQuantizedType, type).verify_fits(shape)
    except VerifyException:
        return False
    return True


def granularity_of(type: Attribute) -> Granularity | None:
    return type.granularity if isinstance(type, UniformQuantizedType) else None


_FLOATS: Final = _Elements("4/6/8/16/32/64-bit float", _is_float)


_NUMBERS: Final = _Elements(
    "4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with "
    "32/64-bit float elements",
    _is_number,
)


_PER_TENSOR: Final = _Elements("per-tensor integer quantized", _is_quantized_per_tensor)


_PER_AXIS: Final = _Elements("per-axis integer quantized", _is_quantized_per_axis)


def _tensor_of(
    *elements: _Elements,
    shape: str = "ranked",
    accepts: Callable[[TensorType[Attribute]], bool] = lambda type: True,
) -> ValueKind:
    def accepts_type(type: Attribute) -> bool:
        if not isinstance(type, TensorType):
            return False
        tensor = cast(TensorType[Attribute], type)
        return accepts(tensor) and any(
            of.accepts(tensor.element_type, tensor.get_shape()) for of in elements
        )

    descriptions = " or ".join(of.description for of in elements)
    return ValueKind(f"{shape} tensor of {descriptions} values", accepts_type)


def _is_static_or_bounded(type: TensorType[Attribute]) -> bool:
    # Bounds are an encoding of the type.
    dynamic = sum(length == DYNAMIC for length in type.get_shape())
    return not dynamic or (dynamic == 1 and not isinstance(type.encoding, NoneAttr))


TENSOR: Final = _tensor_of(_NUMBERS, _PER_TENSOR)


SCALAR: Final = _tensor_of(
    _NUMBERS, _PER_TENSOR, shape="0D", accepts=lambda type: not type.get_shape()
)


ANY_TENSOR: Final = _tensor_of(_NUMBERS, _PER_TENSOR, _PER_AXIS)


STATIC_TENSOR: Final = _tensor_of(
    _NUMBERS,
    _PER_TENSOR,
    _PER_AXIS,
    shape="statically shaped",
    accepts=lambda type: is_static(type.get_shape()),
)


STATIC_OR_BOUNDED_TENSOR: Final = _tensor_of(
    _NUMBERS,
    _PER_TENSOR,
    _PER_AXIS,
    shape="statically shaped or single bounded dimension",
    accepts=_is_static_or_bounded,
)


FLOAT_TENSOR: Final = _tensor_of(_FLOATS)


QUANTIZED_TENSOR: Final = _tensor_of(_PER_TENSOR, _PER_AXIS)


QUANTIZABLE_TENSOR: Final = _tensor_of(_FLOATS, _PER_TENSOR, _PER_AXIS)
