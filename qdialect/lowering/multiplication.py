"""Multiplication of a float tensor by constants along its axes, in the ops of a dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    IntegerAttr,
    TensorType,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from qdialect.algebra.movement import DYNAMIC
from qdialect.ir.elements import DenseElementsAttr, dense_elements, element_dtype
from qdialect.lowering.cast_arithmetic import as_bits
from qdialect.lowering.storage_ops import ContextBuilder
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def multiplied(
    dialect: str,
    value: SSAValue,
    factors: NDArray[np.floating],
    context: Context,
    behind: SSAValue,
) -> Operation:
    """
    Insert the multiplication of a value after its definition, and return the op of the product.

    `factors` have the rank of the value, and length 1 along each axis along which they are
    constant. Dialects other than tosa and StableHLO get an op of linalg.
    """
    owner = behind.owner
    if isinstance(owner, Operation):
        point, location = InsertPoint.after(owner), owner.location
    else:
        point, location = InsertPoint.at_start(owner), cast("BlockArgument", behind).location
    builder = ContextBuilder(point, location, context)
    product = _FORMS.get(dialect, _linalg)(builder, value, factors)
    return cast(Operation, product.owner)


def _stablehlo(builder: ContextBuilder, value: SSAValue, factors: NDArray[np.floating]) -> SSAValue:
    axes = _axes(factors)
    elements = _elements(value, factors.reshape([factors.shape[axis] for axis in axes]))
    small = builder.make("stablehlo.constant", [], elements.type, {"value": elements})
    dims = {"broadcast_dimensions": DenseArrayBase.from_list(i64, axes)}
    type = cast("TensorType[Attribute]", value.type)
    is_dynamic = DYNAMIC in type.get_shape()
    lengths = [_lengths(builder, value)] if is_dynamic else []
    name = f"stablehlo.{'dynamic_' * is_dynamic}broadcast_in_dim"
    whole = builder.make(name, [small, *lengths], type, dims)
    return builder.make("stablehlo.multiply", [value, whole], type)


def _lengths(builder: ContextBuilder, value: SSAValue) -> SSAValue:
    """The lengths of a tensor as a tensor of i32, in ops of StableHLO."""
    lengths = list[SSAValue]()
    for axis, length in enumerate(cast("TensorType[Attribute]", value.type).get_shape()):
        if length == DYNAMIC:
            dimension = {"dimension": IntegerAttr(axis, i64)}
            name = "stablehlo.get_dimension_size"
            number = builder.make(name, [value], TensorType(i32, []), dimension)
            lengths.append(builder.make("stablehlo.reshape", [number], TensorType(i32, [1])))
        else:
            known = dense_elements(np.array([length], dtype=np.int32), i32)
            lengths.append(builder.make("stablehlo.constant", [], known.type, {"value": known}))
    whole = TensorType(i32, [len(lengths)])
    axis = {"dimension": IntegerAttr(0, i64)}
    return builder.make("stablehlo.concatenate", lengths, whole, axis)


def _tosa(builder: ContextBuilder, value: SSAValue, factors: NDArray[np.floating]) -> SSAValue:
    no_shift = dense_elements(np.zeros(1, dtype=np.int8), i8)
    operands = [
        builder.make("tosa.const", [], cast(Any, elements).type, {"values": elements})
        for elements in (_elements(value, factors), no_shift)
    ]
    return builder.make("tosa.mul", [value, *operands], value.type)


def _linalg(builder: ContextBuilder, value: SSAValue, factors: NDArray[np.floating]) -> SSAValue:
    axes = _axes(factors)
    elements = _elements(value, factors.reshape([factors.shape[axis] for axis in axes]))
    small = builder.insert(arith.ConstantOp(cast(Any, elements))).result
    rank = factors.ndim
    along = AffineMap(rank, 0, tuple(AffineExpr.dimension(axis) for axis in axes))
    type = cast("TensorType[Attribute]", value.type)
    init = builder.empty(builder.lengths(value), type.element_type)
    return builder.generic(
        init,
        [value, small],
        [AffineMap.identity(rank), along],
        lambda inner, elements: inner.insert(arith.MulfOp(elements[0], elements[1])).result,
    )


_FORMS: Final[
    Mapping[str, Callable[[ContextBuilder, SSAValue, NDArray[np.floating]], SSAValue]]
] = {"stablehlo": _stablehlo, "tosa": _tosa}


def _axes(factors: NDArray[np.floating]) -> tuple[int, ...]:
    return tuple(axis for axis, length in enumerate(factors.shape) if length > 1)


def _elements(value: SSAValue, numbers: NDArray[np.floating]) -> DenseElementsAttr:
    """Numbers as a constant of the element type of a value."""
    type = cast("TensorType[AnyFloat]", value.type).element_type
    bits = as_bits(numbers.astype(np.float64), FLOAT_FORMATS[type.name], element_dtype(type))
    return dense_elements(bits.reshape(numbers.shape), type)
