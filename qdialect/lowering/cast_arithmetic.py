"""
Lowering the casts of quant that compute to MLIR's `arith` and `math`: of values and of biases.

With `Rounding.UPSTREAM`, the result for casts is upstream's lowering, op for op:
https://mlir.llvm.org/docs/Dialects/QuantDialect/#-lower-quant-ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, cast

from typing_extensions import override
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    Float80Type,
    Float128Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    TensorType,
    UnrankedTensorType,
    f64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from qdialect.algebra.movement import DYNAMIC
from qdialect.algebra.parameters import StorageFormat
from qdialect.dialects.arith.syntax import FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp
from qdialect.dialects.quant.casts import (
    DequantizeBiasOp,
    DequantizeCastOp,
    QuantizeCastOp,
    RequantizeOp,
    StorageCastOp,
    rounding_of,
)
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.dialects.shape import NumElementsOp, ShapeOfOp, SplitAtOp
from qdialect.dialects.tensor.syntax import ReshapeOp
from qdialect.ir.elements import DenseElementsAttr, dense_elements, element_dtype, integer_range
from qdialect.ir.value_types import element_type_or_self, has_encoding, with_element_type
from qdialect.lowering.code_tables import code_type, nearest_codes, numbers_of
from qdialect.lowering.storage_ops import (
    Length,
    StorageBuilder,
    block_at,
    dense_floats,
    unreadable_storage,
)
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat, Rounding
from qdialect.support.lazy_numpy import np

ArithmeticCast: TypeAlias = QuantizeCastOp | DequantizeCastOp | RequantizeOp | DequantizeBiasOp

Spread: TypeAlias = Callable[[SSAValue], SSAValue]
"""Broadcasts a scalar that all elements share to the shape of the computed value."""


def unknown_arithmetic(op: ArithmeticCast) -> str | None:
    """The reason why `op` cannot be lowered; None if it can."""
    # The result of `linalg.generic` has no encoding.
    makes_floats = isinstance(op, DequantizeCastOp | DequantizeBiasOp)
    computed: list[SSAValue] = [op.result] if makes_floats else []
    if isinstance(op, DequantizeBiasOp):
        computed.insert(0, op.input)
    for value in _quantized_ends(op):
        type = element_type_or_self(value.type)
        if not isinstance(type, UniformQuantizedType):
            return f"'{type}' has no scale"
        if reason := _unreadable(type):
            return reason
        if isinstance(type.expressed_type, Float80Type | Float128Type):
            return f"there are no constants of type '{type.expressed_type}'"
        if type.granularity is Granularity.PER_TENSOR:
            computed.append(op.input)
    for value in computed:
        if has_encoding(value.type):
            return f"the arithmetic would drop the encoding of '{value.type}'"
    return None


def _unreadable(type: UniformQuantizedType) -> str | None:
    """The reason why codes of a type cannot be read from integers; None if they can."""
    book = type.storage_format.codebook
    return unreadable_storage(type) if book is None else book.refusal or None


def _quantized_ends(op: ArithmeticCast) -> Sequence[SSAValue]:
    """The quantized ones of the operand and the result of `op`."""
    match op:
        case QuantizeCastOp():
            return [op.result]
        case DequantizeCastOp():
            return [op.input]
        case RequantizeOp():
            return [op.input, op.result]
        case DequantizeBiasOp():
            return []


def quantized_types(op: ArithmeticCast) -> Sequence[UniformQuantizedType]:
    """The uniform quantized types of `op`; `unknown_arithmetic` must have returned None."""
    types = [element_type_or_self(value.type) for value in _quantized_ends(op)]
    return cast("Sequence[UniformQuantizedType]", types)


def lower_cast(op: ArithmeticCast, rounding: Rounding, slots: SlotConstants) -> SSAValue:
    """
    Insert the ops that compute `op` before it, and return their result.

    `unknown_arithmetic` must have returned None. All casts of a run share `slots`.
    """
    builder = CastBuilder(InsertPoint.before(op), op.location, slots)
    if isinstance(op, DequantizeBiasOp):
        return _lower_bias(op, builder)
    value, types = op.input, quantized_types(op)
    if not isinstance(op, QuantizeCastOp):
        storage = with_element_type(op.input.type, _storage_type(types[0]))
        stored = builder.insert(StorageCastOp(op.input, storage)).result
        value = _Dequantization(types[0]).of(builder, stored)
    if isinstance(op, DequantizeCastOp):
        return value
    is_cast = isinstance(op, QuantizeCastOp)
    is_undefined = is_cast and rounding is Rounding.UPSTREAM
    quantization = _Quantization(types[-1], rounding if is_cast else rounding_of(op), is_undefined)
    computed = quantization.of(builder, value)
    return builder.insert(StorageCastOp(computed, op.result.type)).result


def _storage_type(type: UniformQuantizedType) -> IntegerType:
    if type.storage_format.codebook is not None:
        return code_type(type)
    return IntegerType(type.storage_type.bitwidth)


SlotConstants: TypeAlias = Callable[
    [UniformQuantizedType], tuple[DenseElementsAttr, DenseElementsAttr]
]
"""`slot_constants`, cached: many casts have the same type, and writing many slots is slow."""


def slot_constants(type: UniformQuantizedType) -> tuple[DenseElementsAttr, DenseElementsAttr]:
    """The scales, rounded to the expressed type, and the zero points, truncated to the storage."""
    scales = dense_floats(type.scales, type.expressed_type)
    if type.storage_format.codebook is not None:
        return scales, dense_floats(type.zero_points.astype(np.float64), type.expressed_type)
    cut = StorageFormat(type.storage_type.bitwidth, signed=True).wrap(type.zero_points)
    return scales, dense_elements(cut, _storage_type(type))


class CastBuilder(StorageBuilder):
    """A builder that makes a constant for each index, as upstream does."""

    def __init__(self, point: InsertPoint, location: LocationAttr, slots: SlotConstants):
        super().__init__(point, location)
        self.slots = slots

    @override
    def index(self, length: Length) -> SSAValue:
        if isinstance(length, SSAValue):
            return length
        return self.constant(IntegerAttr.from_index_int_value(length))

    def spread_to(self, value: SSAValue) -> Spread:
        """The broadcast of scalars to the shape of `value`, if that is a tensor."""
        if not isinstance(value.type, TensorType):
            return lambda scalar: scalar
        shape = cast(TensorType[Attribute], value.type).get_shape()
        dynamic = [length for length in self.lengths(value) if isinstance(length, SSAValue)]
        return lambda scalar: (
            self.insert(tensor.SplatOp(scalar, dynamic, TensorType(scalar.type, shape))).result
        )


class _Slot(NamedTuple):
    """The slot of one element, or of all elements, and what inserts ops on them."""

    builder: StorageBuilder
    scale: SSAValue
    zero_point: SSAValue | None
    """None means 0."""

    spread: Spread = lambda scalar: scalar


@dataclass(frozen=True)
class _Arithmetic:
    """The arithmetic of a cast, on scalars or tensors."""

    type: UniformQuantizedType

    @property
    def result_element(self) -> Attribute:
        """The element type of the result."""
        raise NotImplementedError

    @property
    def computed_element(self) -> Attribute:
        """The type of what `element` computes."""
        return self.result_element

    @property
    def has_codebook(self) -> bool:
        """Whether codes stand for the numbers of a float format or a table, which are looked up."""
        return self.type.storage_format.codebook is not None

    def element(self, slot: _Slot, value: SSAValue) -> SSAValue:
        """Compute one element, or all elements that share a slot."""
        raise NotImplementedError

    def of(self, builder: CastBuilder, value: SSAValue) -> SSAValue:
        """Compute all of `value`, a scalar or a tensor."""
        if not isinstance(value.type, UnrankedTensorType):
            return self._of_ranked(builder, value, self.type.quantized_dimensions)
        shape = builder.insert(ShapeOfOp(value)).result
        if self.type.granularity is Granularity.PER_TENSOR:
            lengths, axes = [builder.insert(NumElementsOp(shape)).result], ()
        else:
            lengths, axes = list(self._around_axis(builder, shape)), (1,)
        flat = self._reshape(builder, value, lengths)
        computed = self._of_ranked(builder, flat, axes)
        return builder.insert(
            ReshapeOp(computed, shape, UnrankedTensorType(self.result_element))
        ).result

    def _around_axis(self, builder: CastBuilder, shape: SSAValue) -> Sequence[SSAValue]:
        """The numbers of elements before, on and after the quantized axis."""
        (axis,) = self.type.quantized_dimensions
        at, behind = builder.index(axis), builder.index(axis + 1)
        head = builder.insert(SplitAtOp(shape, at)).head
        before = builder.insert(NumElementsOp(head)).result
        tail = builder.insert(SplitAtOp(shape, behind)).tail
        after = builder.insert(NumElementsOp(tail)).result
        return before, builder.index(self.type.scales.size), after

    def _reshape(
        self, builder: CastBuilder, value: SSAValue, lengths: Sequence[SSAValue]
    ) -> SSAValue:
        known = [DYNAMIC] if len(lengths) == 1 else [DYNAMIC, self.type.scales.size, DYNAMIC]
        shape = builder.insert(tensor.FromElementsOp(*lengths)).result
        type = TensorType(element_type_or_self(value.type), known)
        return builder.insert(ReshapeOp(value, shape, type)).result

    def _of_ranked(self, builder: CastBuilder, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        if self.type.granularity is Granularity.PER_TENSOR:
            return self._of_one_slot(builder, value)
        shape = cast(TensorType[Attribute], value.type).get_shape()
        scales, zero_points = (builder.constant(elements) for elements in builder.slots(self.type))
        init = builder.empty(builder.lengths(value), self.computed_element)
        slots = AffineMap(len(shape), 0, tuple(self._slot_at(axes, len(shape))))

        def element(inner: StorageBuilder, elements: Sequence[SSAValue]) -> SSAValue:
            value, scale, zero_point, _ = elements
            return self.element(_Slot(inner, scale, zero_point), value)

        return builder.generic(
            init,
            [value, scales, zero_points],
            [AffineMap.identity(len(shape)), slots, slots],
            element,
        )

    def _slot_at(self, axes: Sequence[int], rank: int) -> Sequence[AffineExpr]:
        """The index, in the arrays of slots, of the slot of a position."""
        if self.type.granularity is Granularity.PER_AXIS:
            return [AffineExpr.dimension(axis) for axis in axes]
        # If an axis is repeated, its last block size counts.
        block_of = dict(zip(axes, self.type.block_sizes, strict=True))
        return [
            block_at(axis, block_of[axis]) if axis in block_of else AffineExpr.constant(0)
            for axis in range(rank)
        ]

    def _of_one_slot(self, builder: CastBuilder, value: SSAValue) -> SSAValue:
        slot, expressed = self.type.single_slot, self.type.expressed_type
        scale = builder.constant(FloatAttr(slot.scale, expressed))
        zero_point = builder.constant(self._written(slot.zero_point))
        used = zero_point if slot.zero_point else None
        return self.element(_Slot(builder, scale, used, builder.spread_to(value)), value)

    def _written(self, zero_point: int) -> IntegerAttr | FloatAttr:
        """A zero point as a constant, which is a float if numbers are looked up."""
        if self.has_codebook:
            return FloatAttr(float(zero_point), self.type.expressed_type)
        return self._integer(zero_point)

    def _integer(self, value: int) -> IntegerAttr:
        """The storage integer `value` as a signless attribute with the same bits."""
        width = self.type.storage_type.bitwidth
        bits = StorageFormat(width, signed=True).wrap(np.array(value, dtype=np.int64))
        return IntegerAttr(int(bits), IntegerType(width))

    def _as_float(self, builder: StorageBuilder, value: SSAValue) -> SSAValue:
        if self.has_codebook:
            return value
        op = SIToFPOp if self.type.is_signed else UIToFPOp
        type = with_element_type(value.type, self.type.expressed_type)
        return builder.insert(op(value, cast(AnyFloat, type))).result

    def _with_zero_point(
        self, op: type[arith.AddfOp | arith.SubfOp], slot: _Slot, value: SSAValue
    ) -> SSAValue:
        """`op` applied to a float and a zero point; the float itself if that is None."""
        if slot.zero_point is None:
            return value
        zero_point = self._as_float(slot.builder, slot.spread(slot.zero_point))
        return slot.builder.insert(op(value, zero_point)).result


@dataclass(frozen=True)
class _Dequantization(_Arithmetic):
    """`(stored - zero_point) * scale`."""

    @property
    @override
    def result_element(self) -> Attribute:
        return self.type.expressed_type

    @override
    def _of_ranked(self, builder: CastBuilder, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        if self.has_codebook:
            value = numbers_of(builder, value, self.type)
        return super()._of_ranked(builder, value, axes)

    @override
    def element(self, slot: _Slot, value: SSAValue) -> SSAValue:
        scale = slot.spread(slot.scale)
        value = self._with_zero_point(arith.SubfOp, slot, self._as_float(slot.builder, value))
        return slot.builder.insert(arith.MulfOp(value, scale)).result


@dataclass(frozen=True)
class _Quantization(_Arithmetic):
    """`x / scale + zero_point`, rounded."""

    rounding: Rounding

    is_undefined: bool
    """Whether conversion of numbers outside of the storage type is undefined, as in MLIR."""

    @property
    @override
    def result_element(self) -> Attribute:
        return _storage_type(self.type)

    @property
    @override
    def computed_element(self) -> Attribute:
        return self.type.expressed_type if self.has_codebook else self.result_element

    @override
    def _of_ranked(self, builder: CastBuilder, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        computed = super()._of_ranked(builder, value, axes)
        return nearest_codes(builder, computed, self.type) if self.has_codebook else computed

    @override
    def element(self, slot: _Slot, value: SSAValue) -> SSAValue:
        value = slot.builder.insert(arith.DivfOp(value, slot.spread(slot.scale))).result
        if self.has_codebook:
            return self._shifted(slot, value)
        value = self._with_zero_point(arith.AddfOp, slot, value)
        return (self._truncated if self.is_undefined else self._rounded)(slot, value)

    def _shifted(self, slot: _Slot, value: SSAValue) -> SSAValue:
        """`value + zero_point`, where -0 stays what it is if the zero point is 0."""
        if slot.zero_point is None:
            return value
        zero_point = slot.spread(slot.zero_point)
        zero = slot.builder.constant(FloatAttr(0.0, self.type.expressed_type))
        less = slot.builder.insert(arith.SubfOp(slot.spread(zero), zero_point)).result
        return slot.builder.insert(arith.SubfOp(value, less)).result

    @property
    def _range(self) -> tuple[int, int]:
        return self.type.storage_type_min, self.type.storage_type_max

    def _truncated(self, slot: _Slot, value: SSAValue) -> SSAValue:
        value = self._as_integer(slot.builder, value)
        if self._range == integer_range(self.type.storage_type.bitwidth, self.type.is_signed):
            return value
        ops = (arith.MaxUIOp, arith.MinUIOp)
        if self.type.is_signed:
            ops = (arith.MaxSIOp, arith.MinSIOp)
        return _clamped(slot, value, map(self._integer, self._range), ops)

    def _rounded(self, slot: _Slot, value: SSAValue) -> SSAValue:
        builder, expressed = slot.builder, self.type.expressed_type
        value = builder.insert(_ROUNDING_OPS[self.rounding](value)).result
        if not _holds(self.type.expressed_format, self._range):
            # Doubles represent every storage integer and every number of a narrower format.
            expressed = f64
            value = builder.insert(arith.ExtFOp(value, with_element_type(value.type, f64))).result
        bounds = (FloatAttr(bound, expressed) for bound in self._range)
        # Given NaN and a number, these ops return the number.
        value = _clamped(slot, value, bounds, (arith.MaxnumfOp, arith.MinnumfOp))
        return self._as_integer(builder, value)

    def _as_integer(self, builder: StorageBuilder, value: SSAValue) -> SSAValue:
        op = FPToSIOp if self.type.is_signed else FPToUIOp
        type = with_element_type(value.type, _storage_type(self.type))
        return builder.insert(op(value, cast(IntegerType, type))).result


def _clamped(
    slot: _Slot,
    value: SSAValue,
    bounds: Iterable[IntegerAttr | FloatAttr],
    ops: Sequence[Callable[[SSAValue, SSAValue], Any]],
) -> SSAValue:
    """The maximum of a value and the first bound, and the minimum of that and the second."""
    constants = [slot.builder.constant(bound) for bound in bounds]
    for op, bound in zip(ops, [slot.spread(constant) for constant in constants], strict=True):
        value = slot.builder.insert(op(value, bound)).result
    return value


_ROUNDING_OPS: Final = {
    Rounding.UPSTREAM: math.TruncOp,
    Rounding.NEAREST_EVEN: math.RoundEvenOp,
    Rounding.NEAREST_AWAY: math.RoundOp,
}


def _holds(format: FloatFormat, bounds: tuple[int, int]) -> bool:
    numbers = np.array(bounds, dtype=np.float64)
    return bool((format.round(numbers) == numbers).all())


def bytes_of_constants(op: ArithmeticCast) -> Mapping[object, int]:
    """The bytes of the constants that `op` is lowered to, by what several ops may share."""
    if isinstance(op, DequantizeBiasOp):
        return {op: op.scales_of_elements.scales.size * element_dtype(f64).itemsize}
    return {type: _slot_bytes(type) for type in quantized_types(op)}


def _slot_bytes(type: UniformQuantizedType) -> int:
    if type.granularity is Granularity.PER_TENSOR:
        return 0
    sizes = (
        element_dtype(element_type).itemsize
        for element_type in (type.expressed_type, _storage_type(type))
    )
    return type.scales.size * sum(sizes)


def _lower_bias(op: DequantizeBiasOp, builder: CastBuilder) -> SSAValue:
    scales, axis = op.scales_of_elements
    type = cast("TensorType[Attribute]", op.result.type)
    expressed = cast(AnyFloat, type.element_type)
    if axis is None:
        scale = builder.constant(FloatAttr(float(scales[0]), f64))
        spread = builder.spread_to(op.input)
        return _computed(builder, op.input, scale, expressed, spread)
    bits = FLOAT_FORMATS[f64.name].encode(scales).astype(element_dtype(f64))
    constant = builder.constant(dense_elements(bits, f64))

    def element(inner: StorageBuilder, elements: Sequence[SSAValue]) -> SSAValue:
        value, scale, _ = elements
        return _computed(inner, value, scale, expressed, lambda scalar: scalar)

    init = builder.empty(builder.lengths(op.input), expressed)
    return builder.along_axes(init, [op.input, constant], [axis], element)


def _computed(
    builder: StorageBuilder,
    value: SSAValue,
    scale: SSAValue,
    expressed: AnyFloat,
    spread: Callable[[SSAValue], SSAValue],
) -> SSAValue:
    """
    One element, or all elements that share a scale: the product in f64, rounded to `expressed`.
    """
    double_type = cast(AnyFloat, with_element_type(value.type, f64))
    number = builder.insert(SIToFPOp(value, double_type)).result
    product = builder.insert(arith.MulfOp(number, spread(scale))).result
    if expressed == f64:
        return product
    return builder.insert(arith.TruncFOp(product, with_element_type(value.type, expressed))).result
