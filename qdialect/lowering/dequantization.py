"""
Lowering casts between storage integers and floats to ops in the dialect of a consumer.

Integers are converted, zero points subtracted unless all are 0, and scales multiplied, each
from a small constant that is broadcast in the way of the dialect. An axis with blocks of
several positions is split into an axis of blocks and one within them; a reshape before and
after the arithmetic does so. Products of floats and factors along axes are written likewise.
One form also has an op that quantizes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseResourceAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.dialects.linalg.ops import BroadcastOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.rewriter import InsertPoint

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.algebra.views import Splat, Values, as_view
from qdialect.dialects import onnx
from qdialect.dialects.arith.syntax import SIToFPOp, UIToFPOp
from qdialect.dialects.iree_linalg_ext import (
    DEQUANTIZE_AFFINE,
    QUANTIZE_AFFINE,
    UNSIGNED_FLAGS,
)
from qdialect.dialects.quant.casts import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.elements import DenseElementsAttr, dense_elements, element_dtype, integer_range
from qdialect.ir.value_types import element_type_or_self, has_encoding, with_element_type
from qdialect.lowering.storage_ops import ContextBuilder, StorageBuilder, as_bits, dense_floats
from qdialect.ops.elementwise import indexing_maps
from qdialect.ops.fields import ArithmeticWriter
from qdialect.ops.interface import Refusal, RefusalCode, elements_attribute_of, find_attribute
from qdialect.ops.model import traits_of
from qdialect.ops.reading import Constants
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import MemoryBudget, MemoryLimitError


class Form(StrEnum):
    """The target form of a dequantization."""

    STABLEHLO = "stablehlo"
    TOSA = "tosa"
    LINALG = "linalg"
    LINALG_EXT = "linalg-ext"
    ARITH = "arith"
    ONNX = "onnx"

    @property
    def quantizes(self) -> bool:
        """Whether the form has an op that quantizes."""
        return self is Form.LINALG_EXT


@dataclass(frozen=True)
class DequantizationLowering:
    """Lowers dequantizations to one form."""

    form: Form
    context: Context
    constants: Constants
    budget: MemoryBudget

    def lower(self, op: DequantizeCastOp | QuantizeCastOp) -> SSAValue:
        """
        Insert the ops that compute `op` before it, and return their result.

        Quantized values that no `quant.scast` makes get one. Raises Refusal if the form cannot
        express `op`; nothing is inserted then.
        """
        source = _Cast.read(op)
        builder = ContextBuilder(InsertPoint.before(op), op.location, self.context)
        writer = _WRITERS[self.form](builder)
        writer.check(source)
        if isinstance(op, QuantizeCastOp):
            stored = writer.on_grid(op.input, source, writer.quantized)
            return builder.insert(StorageCastOp(stored, op.result.type)).result
        stored = source.stored
        if stored is None:
            storage = IntegerType(source.type.storage_type.bitwidth)
            cast_op = StorageCastOp(op.input, with_element_type(op.input.type, storage))
            stored = builder.insert(cast_op).result
        if not source.type.is_signed and not writer.reads_signless:
            stored = self._unsigned(writer, source, stored)
        return writer.on_grid(stored, source, writer.computed)

    def _unsigned(self, writer: _Writer, source: _Cast, stored: SSAValue) -> SSAValue:
        """The stored integers with an unsigned type."""
        type = IntegerType(source.type.storage_type.bitwidth, Signedness.UNSIGNED)
        op = stored.owner
        values = self.constants.read(op) if isinstance(op, Operation) else None
        if values is None:
            return writer.bitcast(stored, TensorType(type, source.shape))
        try:
            self.budget.reserve(math.prod(source.shape) * element_dtype(type).itemsize)
        except MemoryLimitError as error:
            raise Refusal(RefusalCode.MEMORY, str(error)) from None
        new = writer.constant(self._elements(cast(Operation, op), values, type))
        new.name_hint = stored.name_hint
        return new

    def _elements(self, op: Operation, values: Values, type: IntegerType) -> Attribute:
        """The elements attribute of a constant with the same bits as unsigned integers."""
        old = find_attribute(op, cast(str, elements_attribute_of(op)))
        dtype, mask = element_dtype(type), (1 << type.bitwidth) - 1
        if isinstance(values, Splat):
            unsigned = np.asarray(values.value).astype(dtype) & dtype.type(mask)
            return dense_elements(Splat(unsigned[()], values.shape), type, repeat_splats=True)
        array = as_view(values).array()
        unsigned = array.view(f"u{array.itemsize}") & dtype.type(mask)
        if isinstance(old, DenseResourceAttr):
            return self.constants.resources.write(unsigned, type, old.resource_handle.data)
        return dense_elements(unsigned, type)


class _Cast(NamedTuple):
    """The parts of a cast between stored integers and floats."""

    stored: SSAValue | None
    """The integers that a `quant.scast` makes the operand of; None if there is none."""
    type: UniformQuantizedType
    shape: Shape
    grid: Shape
    """The shape with each axis that has several blocks of several positions split in two."""

    counts: Shape
    """The number of slots along each axis of `shape`."""

    scales: NDArray[np.float64]
    zero_points: NDArray[np.int64]
    """Zero points, like scales, have the rank of `grid`; each axis has that length or 1."""

    @classmethod
    def read(cls, op: DequantizeCastOp | QuantizeCastOp) -> _Cast:
        """The parts of `op`. Raises Refusal if its tensor is not static."""
        real, quantized = op.result, op.input
        if isinstance(op, QuantizeCastOp):
            real, quantized = quantized, real
        if not isinstance(real.type, TensorType):
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "it is not a ranked tensor")
        tensor = cast("TensorType[Attribute]", real.type)
        shape = tensor.get_shape()
        if DYNAMIC in shape:
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length is only known at run time")
        type = element_type_or_self(quantized.type)
        if not isinstance(type, UniformQuantizedType):
            raise Refusal(RefusalCode.ILLEGAL_TYPE, f"'{type}' has no scale")
        if (reason := type.non_integers) is not None:
            raise Refusal(RefusalCode.ILLEGAL_TYPE, reason)
        first = op.input.owner
        stored = first.input if isinstance(first, StorageCastOp) else None
        ends = [end for end in (stored, op.input, op.result) if end is not None]
        if any([has_encoding(end.type) for end in ends]):
            raise Refusal(RefusalCode.ILLEGAL_TYPE, "its type has an encoding")
        parameters = type.parameters_on(shape).coarsen()
        grid: list[int] = []
        slots: list[int] = []
        for length, count in zip(shape, parameters.scales.shape, strict=True):
            is_cut = 1 < count < length
            grid += [count, length // count] if is_cut else [length]
            slots += [count, 1] if is_cut else [count]
        return cls(
            stored,
            type,
            shape,
            tuple(grid),
            parameters.scales.shape,
            parameters.rounded_scales.reshape(slots),
            parameters.cut_zero_points.reshape(slots),
        )

    @property
    def expressed(self) -> AnyFloat:
        """The expressed type."""
        return self.type.expressed_type

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of the grid along which slots vary."""
        return _long_axes(self.scales)

    @property
    def lengths(self) -> list[int]:
        """The lengths of these axes."""
        return [self.scales.shape[axis] for axis in self.axes]

    def floats(self, numbers: NDArray[Any], shape: Sequence[int]) -> DenseElementsAttr:
        """A constant of numbers in the expressed type, reshaped to `shape`."""
        return _floats(numbers, self.expressed, shape)

    @property
    def factors(self) -> list[tuple[NDArray[Any], bool]]:
        """
        The operands of the arithmetic, each with whether it is subtracted: zero points unless
        all are 0, and scales.
        """
        subtracted = [(self.zero_points, True)] if self.zero_points.any() else []
        return [*subtracted, (self.scales, False)]


def _floats(numbers: NDArray[Any], type: AnyFloat, shape: Sequence[int]) -> DenseElementsAttr:
    """Numbers as a constant of a float type, reshaped to `shape`."""
    return dense_floats(numbers.astype(np.float64).reshape(shape), type)


def _long_axes(numbers: NDArray[Any]) -> tuple[int, ...]:
    return tuple(axis for axis, length in enumerate(numbers.shape) if length > 1)


class _Writer(ABC):
    """Inserts the ops of one form."""

    dialect: str
    floats: Sequence[str] = ("f16", "bf16", "f32", "f64")
    widths: Sequence[int] | None = None
    """The widths of integers that the form supports; None for all."""

    reads_signless: ClassVar[bool] = False
    """Whether the form has an op that reads signless integers as unsigned."""

    has_bitcast: bool = False
    """Whether signless integers that are not constant can be read as unsigned by another op."""

    has_blocks: ClassVar[bool] = False
    """Whether the form has an op with a scale for each block of an axis, which needs no grid."""

    def __init__(self, builder: ContextBuilder) -> None:
        self.builder = builder

    def check(self, source: _Cast) -> None:
        """Raise Refusal if the form cannot express this cast."""
        expressed, stored = source.expressed, source.type.storage_type
        if expressed.name not in self.floats:
            raise Refusal(
                RefusalCode.ILLEGAL_TYPE,
                f"{self.dialect} does not support floats of type '{expressed}'",
            )
        if self.widths is not None and stored.bitwidth not in self.widths:
            raise Refusal(
                RefusalCode.ILLEGAL_TYPE,
                f"{self.dialect} does not support integers of {stored.bitwidth} bits",
            )
        if 0 in source.shape:
            raise Refusal(RefusalCode.ARITHMETIC, "its result has no elements")
        owner = None if source.stored is None else source.stored.owner
        is_constant = isinstance(owner, Operation) and elements_attribute_of(owner) is not None
        is_readable = self.reads_signless or self.has_bitcast or is_constant
        if not source.type.is_signed and not is_readable:
            # The types of constants can be made unsigned.
            raise Refusal(
                RefusalCode.ILLEGAL_TYPE,
                f"{self.dialect} has no op that reads '{stored}' as unsigned",
            )

    def on_grid(
        self, value: SSAValue, source: _Cast, compute: Callable[[SSAValue, _Cast], SSAValue]
    ) -> SSAValue:
        """Insert ops, on the grid if that is not the shape, and the form needs it."""
        if self.has_blocks or source.grid == source.shape:
            return compute(value, source)
        return self.reshape(compute(self.reshape(value, source.grid), source), source.shape)

    @abstractmethod
    def constant(self, elements: Attribute) -> SSAValue:
        """Insert a constant that holds `elements`."""

    @abstractmethod
    def computed(self, stored: SSAValue, source: _Cast) -> SSAValue:
        """Insert the arithmetic on the grid."""

    def reshape(self, value: SSAValue, shape: Shape) -> SSAValue:
        """Insert a reshape between the original shape and the grid."""
        raise NotImplementedError

    def quantized(self, value: SSAValue, source: _Cast) -> SSAValue:
        """Insert the op that quantizes on the grid."""
        raise NotImplementedError

    def bitcast(self, value: SSAValue, type: Attribute) -> SSAValue:
        """Reinterpret a value that is not a constant as unsigned integers."""
        raise NotImplementedError


class _OfDialect(_Writer):
    """Arithmetic as another dialect writes it."""

    def __init__(self, dialect: str, builder: ContextBuilder) -> None:
        super().__init__(builder)
        traits = traits_of(dialect)
        assert traits is not None
        assert traits.arithmetic is not None
        self.dialect = dialect
        self._ops = ops = traits.arithmetic(builder.make)
        self.floats, self.widths, self.has_bitcast = ops.floats, ops.widths, "bitcast" in ops.ops

    @override
    def constant(self, elements: Attribute) -> SSAValue:
        return self._ops.constant(elements)

    @override
    def reshape(self, value: SSAValue, shape: Shape) -> SSAValue:
        return self._ops.reshape(value, shape)

    @override
    def bitcast(self, value: SSAValue, type: Attribute) -> SSAValue:
        return self._ops.bitcast(value, type)

    @override
    def computed(self, stored: SSAValue, source: _Cast) -> SSAValue:
        ops = self._ops
        value = ops.convert(stored, TensorType(source.expressed, source.grid))
        for numbers, is_subtracted in source.factors:
            elements = partial(source.floats, numbers)
            operand = ops.spread(numbers.shape, elements, value)
            combine = ops.subtract if is_subtracted else ops.multiply
            value = combine(value, operand)
        return value


class _OfMLIR(_Writer):
    """Base class of the forms that use ops of `tensor`."""

    reads_signless = True

    @override
    def constant(self, elements: Attribute) -> SSAValue:
        return self.builder.constant(cast(Any, elements))

    @override
    def reshape(self, value: SSAValue, shape: Shape) -> SSAValue:
        before = cast("TensorType[Attribute]", value.type).get_shape()
        groups = _groups(*sorted((before, shape), key=len))
        if len(before) < len(shape):
            return self.builder.expand(value, groups, shape)
        return self.builder.collapse(value, groups)

    def smalls(self, source: _Cast) -> list[SSAValue]:
        """Constants of the factors, with the axes along which slots vary."""
        floats = [source.floats(numbers, source.lengths) for numbers, _ in source.factors]
        return list(map(self.constant, floats))


def _combined(
    builder: StorageBuilder, value: SSAValue, others: Iterable[SSAValue], source: _Cast
) -> SSAValue:
    """Integers as floats, and the factors subtracted or multiplied."""
    convert = SIToFPOp if source.type.is_signed else UIToFPOp
    type = with_element_type(value.type, source.expressed)
    value = builder.insert(convert(value, cast(Any, type))).results[0]
    for (_, is_subtracted), other in zip(source.factors, others, strict=True):
        combine = arith.SubfOp if is_subtracted else arith.MulfOp
        value = builder.insert(combine(value, other)).result
    return value


class _Linalg(_OfMLIR):
    dialect = "linalg"

    @override
    def computed(self, stored: SSAValue, source: _Cast) -> SSAValue:
        return self.builder.along_axes(
            self.builder.empty(source.grid, source.expressed),
            [stored, *self.smalls(source)],
            source.axes,
            lambda inner, elements: _combined(inner, elements[0], elements[1:-1], source),
        )


class _LinalgExt(_OfMLIR):
    dialect = "iree_linalg_ext"
    widths = tuple(range(2, 33))

    @override
    def check(self, source: _Cast) -> None:
        super().check(source)
        # Its op subtracts integers, `quant.dcast` floats.
        width = source.type.storage_type.bitwidth
        if source.zero_points.any() and width > source.type.expressed_format.precision:
            raise Refusal(
                RefusalCode.ARITHMETIC,
                f"not all integers of {width} bits are exact in '{source.expressed}'",
            )

    @override
    def computed(self, stored: SSAValue, source: _Cast) -> SSAValue:
        storage = source.type.storage_format
        bounds = integer_range(storage.width, storage.signed)
        return self._affine(DEQUANTIZE_AFFINE, stored, source, source.expressed, bounds)

    @override
    def quantized(self, value: SSAValue, source: _Cast) -> SSAValue:
        integer = IntegerType(source.type.storage_type.bitwidth)
        bounds = source.type.storage_type_min, source.type.storage_type_max
        return self._affine(QUANTIZE_AFFINE, value, source, integer, bounds)

    def _affine(
        self, name: str, value: SSAValue, source: _Cast, result: Attribute, bounds: tuple[int, int]
    ) -> SSAValue:
        smalls = [self.constant(source.floats(source.scales, source.lengths))]
        if source.zero_points.any():
            zero_points = source.zero_points.reshape(source.lengths)
            smalls.append(self.constant(dense_elements(zero_points, i64)))
        axes = [range(len(source.grid)), *([source.axes] * len(smalls))]
        properties: dict[str, Attribute] = {
            "indexing_maps": indexing_maps(len(source.grid), axes),
            "quant_max": IntegerAttr(bounds[1], i64),
            "quant_min": IntegerAttr(bounds[0], i64),
        }
        if not source.type.is_signed:
            properties[UNSIGNED_FLAGS[name]] = UnitAttr()
        init = self.builder.empty(source.grid, result)
        return self.builder.make(name, [value, *smalls, init], init.type, properties)


class _Arith(_OfMLIR):
    dialect = "arith"

    @override
    def computed(self, stored: SSAValue, source: _Cast) -> SSAValue:
        wholes = (self._whole(numbers, source) for numbers, _ in source.factors)
        return _combined(self.builder, stored, wholes, source)

    def _whole(self, numbers: NDArray[Any], source: _Cast) -> SSAValue:
        """
        Numbers for all elements: a splat constant, or a `linalg.broadcast` of a small constant.
        """
        if not source.axes:
            (bits,) = as_bits(
                numbers.astype(np.float64).reshape(1),
                source.type.expressed_format,
                element_dtype(source.expressed),
            )
            splat = Splat(bits, source.grid)
            return self.constant(dense_elements(splat, source.expressed, repeat_splats=True))
        small = self.constant(source.floats(numbers, source.lengths))
        if len(source.axes) == len(source.grid):
            return small
        added = [axis for axis in range(len(source.grid)) if axis not in source.axes]
        init = self.builder.empty(source.grid, source.expressed)
        op = BroadcastOp(small, init, DenseArrayBase.from_list(i64, added), cast(Any, init.type))
        return self.builder.insert(op).results[0]


class _Onnx(_Writer):
    dialect = "onnx"
    floats = ("f16", "bf16", "f32")
    widths = (4, 8, 16, 32)
    has_blocks = True

    @override
    def check(self, source: _Cast) -> None:
        super().check(source)
        if len(_cut_axes(source)) > 1 and not _has_one_axis(source):
            raise Refusal(
                RefusalCode.GRANULARITY,
                "'onnx.DequantizeLinear' supports only per-tensor, per-axis, and blocked scales "
                "along one axis",
            )
        if source.type.storage_type.bitwidth == 32 and source.zero_points.any():
            raise Refusal(
                RefusalCode.ILLEGAL_TYPE,
                "'onnx.DequantizeLinear' does not support 32-bit zero points",
            )

    @override
    def constant(self, elements: Attribute) -> SSAValue:
        return onnx.constant(self.builder.make, elements)

    @override
    def computed(self, stored: SSAValue, source: _Cast) -> SSAValue:
        axis, size = source.axes[0] if source.axes else 1, None
        shape: Sequence[int] = source.lengths
        if not _has_one_axis(source):
            (axis,) = _cut_axes(source) or (0,)
            shape, size = source.counts, source.shape[axis] // source.counts[axis]
        scales, zero_points = source.floats(source.scales, shape), None
        if source.zero_points.any():
            integer = cast("TensorType[Any]", stored.type).element_type
            zero_points = dense_elements(source.zero_points.reshape(shape), integer)
        return onnx.dequantize_linear(self.builder.make, stored, scales, zero_points, axis, size)


def _has_one_axis(source: _Cast) -> bool:
    """Whether there is a slot for each position of one axis, or one for all."""
    return len(source.axes) <= 1 and source.grid == source.shape


def _cut_axes(source: _Cast) -> list[int]:
    """The axes along which there are fewer slots than positions."""
    pairs = enumerate(zip(source.counts, source.shape, strict=True))
    return [axis for axis, (count, length) in pairs if count < length]


_WRITERS: Mapping[Form, Callable[[ContextBuilder], _Writer]] = {
    Form.STABLEHLO: partial(_OfDialect, "stablehlo"),
    Form.TOSA: partial(_OfDialect, "tosa"),
    Form.LINALG: _Linalg,
    Form.LINALG_EXT: _LinalgExt,
    Form.ARITH: _Arith,
    Form.ONNX: _Onnx,
}


def _groups(few: Shape, many: Shape) -> list[list[int]]:
    """For each axis of `few`, the axes of `many` that it is split into."""
    groups: list[list[int]] = []
    at = 0
    for length in few:
        count = 1 if many[at] == length else 2
        groups.append([*range(at, at + count)])
        at += count
    return groups


def multiplied(
    dialect: str,
    value: SSAValue,
    factors: NDArray[np.floating],
    context: Context,
    behind: SSAValue,
) -> Operation:
    """
    Insert the multiplication of a value after the definition of `behind`, and return its op.

    `factors` have the rank of the value, and length 1 along each axis along which they are
    constant. A dialect that does not say how it writes arithmetic gets an op of linalg.
    """
    return _computed(
        dialect, value, factors, context, behind, lambda ops: ops.multiply, arith.MulfOp
    )


def added(
    dialect: str, value: SSAValue, numbers: NDArray[np.floating], context: Context
) -> Operation:
    """As `multiplied`: insert the sum of a value and numbers after its definition."""
    return _computed(dialect, value, numbers, context, value, lambda ops: ops.add, arith.AddfOp)


def _computed(
    dialect: str,
    value: SSAValue,
    numbers: NDArray[np.floating],
    context: Context,
    behind: SSAValue,
    on_tensors: Callable[[ArithmeticWriter], Callable[[SSAValue, SSAValue], SSAValue]],
    on_elements: type[arith.MulfOp | arith.AddfOp],
) -> Operation:
    """A function of two tensors: as a dialect writes it, or of elements in an op of linalg."""
    owner = behind.owner
    if isinstance(owner, Operation):
        point, location = InsertPoint.after(owner), owner.location
    else:
        point, location = InsertPoint.at_start(owner), cast("BlockArgument", behind).location
    builder = ContextBuilder(point, location, context)
    traits = traits_of(dialect)
    if traits is not None and traits.arithmetic is not None:
        ops = traits.arithmetic(builder.make)
        elements = partial(_floats, numbers, cast(AnyFloat, element_type_or_self(value.type)))
        result = on_tensors(ops)(value, ops.spread(numbers.shape, elements, value))
        return cast(Operation, result.owner)

    def element(inner: StorageBuilder, elements: Sequence[SSAValue]) -> SSAValue:
        return inner.insert(on_elements(elements[0], elements[1])).result

    small, init, axes = _beside(builder, value, numbers)
    return cast(Operation, builder.along_axes(init, [value, small], axes, element).owner)


def _beside(
    builder: StorageBuilder, value: SSAValue, numbers: NDArray[np.floating]
) -> tuple[SSAValue, SSAValue, Sequence[int]]:
    """A constant of numbers, an empty tensor of the type of `value`, and the constant's axes."""
    type, axes = cast(AnyFloat, element_type_or_self(value.type)), _long_axes(numbers)
    small = builder.constant(_floats(numbers, type, [numbers.shape[axis] for axis in axes]))
    return small, builder.empty(builder.lengths(value), type), axes


def initial(
    value: SSAValue, numbers: NDArray[np.floating], context: Context, before: Operation
) -> SSAValue:
    """
    Insert, before an op, a tensor of the type of `value` that holds numbers, and return it.

    `numbers` are as in `multiplied`. The op is one of linalg, which starts sums with the tensor.
    """
    builder = ContextBuilder(InsertPoint.before(before), before.location, context)
    small, init, axes = _beside(builder, value, numbers)
    return builder.read(init, small, [AffineExpr.dimension(axis) for axis in axes])
