"""
Lowering `quant.dcast` of storage integers to arithmetic in the dialect of a consumer.

Integers are converted, zero points subtracted unless all are 0, and scales multiplied, each
from a small constant that is broadcast in the way of the dialect. An axis with blocks of
several positions is split into an axis of blocks and one within them; a reshape before and
after the arithmetic does so.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseResourceAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    NoneType,
    Signedness,
    TensorType,
    UnitAttr,
    i8,
    i64,
)
from xdsl.dialects.linalg.ops import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.algebra.views import Splat, Values, as_view
from qdialect.dialects.arith.syntax import SIToFPOp, UIToFPOp
from qdialect.dialects.iree_linalg_ext import DEQUANTIZE_AFFINE, indexing_maps
from qdialect.dialects.quant.casts import DequantizeCastOp, StorageCastOp
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.dialects.tosa.syntax import ShapeType
from qdialect.ir.elements import dense_elements, element_dtype, integer_range
from qdialect.lowering.cast_arithmetic import as_bits
from qdialect.lowering.storage_ops import ContextBuilder, StorageBuilder
from qdialect.ops.interface import Refusal, RefusalCode, elements_attribute_of, find_attribute
from qdialect.ops.reading import Constants
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import MemoryBudget, MemoryLimitError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Form(StrEnum):
    """The target form of a dequantization."""

    STABLEHLO = "stablehlo"
    TOSA = "tosa"
    LINALG = "linalg"
    LINALG_EXT = "linalg-ext"
    ARITH = "arith"
    ONNX = "onnx"


class DequantizationLowering:
    """Lowers dequantizations to one form."""

    def __init__(
        self, form: Form, context: Context, constants: Constants, budget: MemoryBudget
    ) -> None:
        self._writer = _WRITERS[form]
        self._context = context
        self._constants = constants
        self._budget = budget

    def lower(self, op: DequantizeCastOp) -> SSAValue:
        """
        Insert the ops that compute `op` before it, and return their result.

        Raises Refusal if the form cannot express `op`; nothing is inserted then.
        """
        of = _Dequantized.of(op)
        self._writer.check(of)
        writer = self._writer(InsertPoint.before(op), op.location, self._context)
        value = of.stored
        if not of.type.is_signed:
            value = self._unsigned(writer, of)
        is_cut = of.grid != of.shape and not writer.READS_BLOCKS
        if is_cut:
            value = writer.reshape(value, of.grid)
        real = writer.dequantized(value, of)
        return writer.reshape(real, of.shape) if is_cut else real

    def _unsigned(self, writer: _Writer, of: _Dequantized) -> SSAValue:
        """The stored integers as a value that this form reads as unsigned."""
        if writer.READS_SIGNLESS_AS_UNSIGNED:
            return of.stored
        width = of.type.storage_type.bitwidth
        type = IntegerType(width, Signedness.UNSIGNED)
        source = of.stored.owner
        values = self._constants.read(source) if isinstance(source, Operation) else None
        if values is None:
            return writer.as_unsigned(of.stored, TensorType(type, of.shape))
        try:
            self._budget.reserve(math.prod(of.shape) * element_dtype(type).itemsize)
        except MemoryLimitError as error:
            raise Refusal(RefusalCode.MEMORY, str(error)) from None
        new = writer.constant(self._elements(cast(Operation, source), values, type))
        new.name_hint = of.stored.name_hint
        return new

    def _elements(self, source: Operation, values: Values, type: IntegerType) -> Attribute:
        """The elements attribute of a constant with the same bits as unsigned integers."""
        old = find_attribute(source, cast(str, elements_attribute_of(source)))
        dtype, mask = element_dtype(type), (1 << type.bitwidth) - 1
        if isinstance(values, Splat):
            unsigned = np.asarray(values.value).astype(dtype) & dtype.type(mask)
            return dense_elements(Splat(unsigned[()], values.shape), type, repeat_splats=True)
        array = as_view(values).array()
        unsigned = array.view(f"u{array.itemsize}") & dtype.type(mask)
        if isinstance(old, DenseResourceAttr):
            return self._constants.resources.write(unsigned, type, old.resource_handle.data)
        return dense_elements(unsigned, type)


class _Dequantized(NamedTuple):
    """The parts of a `quant.dcast` of stored integers."""

    stored: SSAValue
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
    def of(cls, op: DequantizeCastOp) -> _Dequantized:
        """
        The parts of `op`. Raises Refusal if its operand is not a `quant.scast` of a static
        tensor.
        """
        first = op.input.owner
        if not isinstance(first, StorageCastOp):
            raise Refusal(RefusalCode.CASTS, "its operand is not the result of a 'quant.scast'")
        result = op.result.type
        if not isinstance(result, TensorType):
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "it is not a ranked tensor")
        tensor = cast("TensorType[Attribute]", result)
        shape = tensor.get_shape()
        if DYNAMIC in shape:
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length is only known at run time")
        type = cast("TensorType[Attribute]", op.input.type).element_type
        if not isinstance(type, UniformQuantizedType):
            raise Refusal(RefusalCode.ILLEGAL_TYPE, f"'{type}' has no scale")
        types: list[Any] = [first.input.type, op.input.type, result]
        if any([not isinstance(each.encoding, NoneAttr) for each in types]):
            raise Refusal(RefusalCode.ILLEGAL_TYPE, "its type has an encoding")
        parameters = type.parameters_on(shape).coarsen()
        grid: list[int] = []
        slots: list[int] = []
        for length, count in zip(shape, parameters.scales.shape, strict=True):
            is_cut = 1 < count < length
            grid += [count, length // count] if is_cut else [length]
            slots += [count, 1] if is_cut else [count]
        return cls(
            first.input,
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
        return tuple(axis for axis, length in enumerate(self.scales.shape) if length > 1)

    def floats(self, numbers: NDArray[Any], shape: Sequence[int]) -> Attribute:
        """A constant of numbers in the expressed type, reshaped to `shape`."""
        dtype, format = element_dtype(self.expressed), self.type.expressed_format
        bits = as_bits(numbers.astype(np.float64), format, dtype)
        return dense_elements(bits.reshape(shape), self.expressed)

    @property
    def factors(self) -> list[tuple[NDArray[Any], bool]]:
        """
        The operands of the arithmetic, each with whether it is subtracted: zero points unless
        all are 0, and scales.
        """
        subtracted = [(self.zero_points, True)] if self.zero_points.any() else []
        return [*subtracted, (self.scales, False)]


class _Writer(ContextBuilder, ABC):
    """Inserts the ops of one form at one insertion point."""

    DIALECT: ClassVar[str]
    FLOATS: ClassVar[Collection[str]] = ("f16", "bf16", "f32", "f64")
    WIDTHS: ClassVar[Collection[int] | None] = None
    """The widths of integers that the form supports; None for all."""

    READS_SIGNLESS_AS_UNSIGNED: ClassVar[bool] = False
    """Whether the form has an op that reads signless integers as unsigned."""

    READS_BLOCKS: ClassVar[bool] = False
    """Whether blocks of several positions need no axis of their own."""

    @classmethod
    def check(cls, of: _Dequantized) -> None:
        """Raise Refusal if the form cannot express this dequantization."""
        expressed, width = of.expressed, of.type.storage_type.bitwidth
        if expressed.name not in cls.FLOATS:
            raise Refusal(
                RefusalCode.ILLEGAL_TYPE,
                f"{cls.DIALECT} does not support results of type '{expressed}'",
            )
        if cls.WIDTHS is not None and width not in cls.WIDTHS:
            raise Refusal(
                RefusalCode.ILLEGAL_TYPE, f"{cls.DIALECT} does not support integers of {width} bits"
            )
        if 0 in of.shape:
            raise Refusal(RefusalCode.ARITHMETIC, "its result has no elements")

    @classmethod
    def check_is_constant(cls, of: _Dequantized) -> None:
        """
        Raise Refusal if unsigned integers are not constants, whose types can be made
        unsigned.
        """
        owner = of.stored.owner
        is_constant = isinstance(owner, Operation) and elements_attribute_of(owner) is not None
        if not of.type.is_signed and not is_constant:
            raise Refusal(
                RefusalCode.ILLEGAL_TYPE,
                f"{cls.DIALECT} has no op that reads '{of.type.storage_type}' as unsigned",
            )

    @abstractmethod
    def constant(self, elements: Attribute) -> SSAValue:
        """Insert a constant that holds `elements`."""

    @abstractmethod
    def reshape(self, value: SSAValue, shape: Shape) -> SSAValue:
        """Insert a reshape between the original shape and the grid."""

    @abstractmethod
    def dequantized(self, stored: SSAValue, of: _Dequantized) -> SSAValue:
        """Insert the arithmetic on the grid."""

    def as_unsigned(self, value: SSAValue, type: Attribute) -> SSAValue:
        """Reinterpret a value that is not a constant as unsigned integers."""
        raise NotImplementedError


class _StableHLO(_Writer):
    DIALECT = "stablehlo"
    WIDTHS = (2, 4, 8, 16, 32)

    @override
    def constant(self, elements: Attribute) -> SSAValue:
        type = cast(Any, elements).type
        return self.make("stablehlo.constant", [], type, {"value": elements})

    @override
    def reshape(self, value: SSAValue, shape: Shape) -> SSAValue:
        return self.make("stablehlo.reshape", [value], _of_shape(value, shape))

    @override
    def as_unsigned(self, value: SSAValue, type: Attribute) -> SSAValue:
        return self.make("stablehlo.bitcast_convert", [value], type)

    @override
    def dequantized(self, stored: SSAValue, of: _Dequantized) -> SSAValue:
        type = TensorType(of.expressed, of.grid)
        value = self.make("stablehlo.convert", [stored], type)
        dims = DenseArrayBase.from_list(i64, of.axes)
        for numbers, is_subtracted in of.factors:
            small = self.constant(of.floats(numbers, [numbers.shape[axis] for axis in of.axes]))
            whole = self.make(
                "stablehlo.broadcast_in_dim", [small], type, {"broadcast_dimensions": dims}
            )
            name = "stablehlo.subtract" if is_subtracted else "stablehlo.multiply"
            value = self.make(name, [value, whole], type)
        return value


class _Tosa(_Writer):
    DIALECT = "tosa"
    FLOATS = ("f16", "bf16", "f32")
    WIDTHS = (4, 8, 16, 32)

    @classmethod
    @override
    def check(cls, of: _Dequantized) -> None:
        super().check(of)
        cls.check_is_constant(of)

    @override
    def constant(self, elements: Attribute) -> SSAValue:
        return self.make("tosa.const", [], cast(Any, elements).type, {"values": elements})

    @override
    def reshape(self, value: SSAValue, shape: Shape) -> SSAValue:
        lengths = dense_elements(np.array(shape, dtype=np.int64), IndexType())
        type = ShapeType(IntAttr(len(shape)))
        held = self.make("tosa.const_shape", [], type, {"values": lengths})
        return self.make("tosa.reshape", [value, held], _of_shape(value, shape))

    @override
    def dequantized(self, stored: SSAValue, of: _Dequantized) -> SSAValue:
        type = TensorType(of.expressed, of.grid)
        value = self.make("tosa.cast", [stored], type)
        for numbers, is_subtracted in of.factors:
            small = self.constant(of.floats(numbers, numbers.shape))
            if is_subtracted:
                value = self.make("tosa.sub", [value, small], type)
            else:
                shift = self.constant(dense_elements(np.zeros(1, dtype=np.int8), i8))
                value = self.make("tosa.mul", [value, small, shift], type)
        return value


class _OfMLIR(_Writer):
    """Base class of the forms that use ops of `tensor`."""

    READS_SIGNLESS_AS_UNSIGNED = True

    @override
    def constant(self, elements: Attribute) -> SSAValue:
        return self.insert(arith.ConstantOp(cast(Any, elements))).result

    @override
    def reshape(self, value: SSAValue, shape: Shape) -> SSAValue:
        before = cast("TensorType[Attribute]", value.type).get_shape()
        groups = _groups(*sorted((before, shape), key=len))
        if len(before) < len(shape):
            return self.expand(value, groups, shape)
        return self.collapse(value, groups)


class _Linalg(_OfMLIR):
    DIALECT = "linalg"

    @override
    def dequantized(self, stored: SSAValue, of: _Dequantized) -> SSAValue:
        rank = len(of.grid)
        along = AffineMap(rank, 0, tuple(AffineExpr.dimension(axis) for axis in of.axes))
        lengths = [of.scales.shape[axis] for axis in of.axes]
        smalls = [self.constant(of.floats(numbers, lengths)) for numbers, _ in of.factors]
        init = self.empty(of.grid, of.expressed)

        def element(inner: StorageBuilder, elements: Sequence[SSAValue]) -> SSAValue:
            op = SIToFPOp if of.type.is_signed else UIToFPOp
            value = inner.insert(op(elements[0], cast(Any, of.expressed))).results[0]
            for (_, is_subtracted), small in zip(of.factors, elements[1:-1], strict=True):
                combine = arith.SubfOp if is_subtracted else arith.MulfOp
                value = inner.insert(combine(value, small)).result
            return value

        maps = [AffineMap.identity(rank), *([along] * len(smalls))]
        return self.generic(init, [stored, *smalls], maps, element)


class _LinalgExt(_OfMLIR):
    DIALECT = "iree_linalg_ext"
    WIDTHS = tuple(range(2, 33))

    @classmethod
    @override
    def check(cls, of: _Dequantized) -> None:
        super().check(of)
        # Its op subtracts integers, `quant.dcast` floats.
        if (
            of.zero_points.any()
            and of.type.storage_type.bitwidth > of.type.expressed_format.precision
        ):
            raise Refusal(
                RefusalCode.ARITHMETIC,
                f"not all integers of {of.type.storage_type.bitwidth} bits are exact in "
                f"'{of.expressed}'",
            )

    @override
    def dequantized(self, stored: SSAValue, of: _Dequantized) -> SSAValue:
        lengths = [of.scales.shape[axis] for axis in of.axes]
        smalls = [self.constant(of.floats(of.scales, lengths))]
        if of.zero_points.any():
            smalls.append(self.constant(dense_elements(of.zero_points.reshape(lengths), i64)))
        storage = of.type.storage_format
        low, high = integer_range(storage.width, storage.signed)
        axes = [range(len(of.grid)), *([of.axes] * len(smalls))]
        properties: dict[str, Attribute] = {
            "indexing_maps": indexing_maps(len(of.grid), axes),
            "quant_max": IntegerAttr(high, i64),
            "quant_min": IntegerAttr(low, i64),
        }
        if not storage.signed:
            properties["input_unsigned"] = UnitAttr()
        init = self.empty(of.grid, of.expressed)
        return self.make(DEQUANTIZE_AFFINE, [stored, *smalls, init], init.type, properties)


class _Arith(_OfMLIR):
    DIALECT = "arith"

    @override
    def dequantized(self, stored: SSAValue, of: _Dequantized) -> SSAValue:
        type = TensorType(of.expressed, of.grid)
        op = SIToFPOp if of.type.is_signed else UIToFPOp
        value = self.insert(op(stored, cast(Any, type))).results[0]
        for numbers, is_subtracted in of.factors:
            combine = arith.SubfOp if is_subtracted else arith.MulfOp
            value = self.insert(combine(value, self._whole(numbers, of))).result
        return value

    def _whole(self, numbers: NDArray[Any], of: _Dequantized) -> SSAValue:
        """
        Numbers for all elements: a splat constant, or a `linalg.broadcast` of a small constant.
        """
        if not of.axes:
            bits = as_bits(
                numbers.astype(np.float64), of.type.expressed_format, element_dtype(of.expressed)
            )
            splat = Splat(bits.reshape(-1)[0], of.grid)
            return self.constant(dense_elements(splat, of.expressed, repeat_splats=True))
        small = self.constant(of.floats(numbers, [numbers.shape[axis] for axis in of.axes]))
        if len(of.axes) == len(of.grid):
            return small
        added = [axis for axis in range(len(of.grid)) if axis not in of.axes]
        init = self.empty(of.grid, of.expressed)
        op = BroadcastOp(small, init, DenseArrayBase.from_list(i64, added), cast(Any, init.type))
        return self.insert(op).results[0]


class _Onnx(_Writer):
    DIALECT = "onnx"
    READS_BLOCKS = True
    FLOATS = ("f16", "bf16", "f32")
    WIDTHS = (4, 8, 16, 32)

    @classmethod
    @override
    def check(cls, of: _Dequantized) -> None:
        super().check(of)
        cls.check_is_constant(of)
        if len(cls._cut_axes(of)) > 1 and not cls._has_one_axis(of):
            raise Refusal(
                RefusalCode.GRANULARITY,
                "'onnx.DequantizeLinear' supports only per-tensor, per-axis, and blocked scales "
                "along one axis",
            )
        if of.type.storage_type.bitwidth == 32 and of.zero_points.any():
            raise Refusal(
                RefusalCode.ILLEGAL_TYPE,
                "'onnx.DequantizeLinear' does not support 32-bit zero points",
            )

    @classmethod
    def _has_one_axis(cls, of: _Dequantized) -> bool:
        """Whether there is a slot for each position of one axis, or one for all."""
        return len(of.axes) <= 1 and of.grid == of.shape

    @classmethod
    def _cut_axes(cls, of: _Dequantized) -> list[int]:
        """The axes along which there are fewer slots than positions."""
        pairs = enumerate(zip(of.counts, of.shape, strict=True))
        return [axis for axis, (count, length) in pairs if count < length]

    @override
    def constant(self, elements: Attribute) -> SSAValue:
        return self.make("onnx.Constant", [], cast(Any, elements).type, {"value": elements})

    @override
    def reshape(self, value: SSAValue, shape: Shape) -> SSAValue:
        raise NotImplementedError

    @override
    def dequantized(self, stored: SSAValue, of: _Dequantized) -> SSAValue:
        axis, size = of.axes[0] if of.axes else 1, 0
        shape: Sequence[int] = [of.scales.shape[axis] for axis in of.axes]
        if not self._has_one_axis(of):
            (axis,) = self._cut_axes(of) or (0,)
            shape, size = of.counts, of.shape[axis] // of.counts[axis]
        scales = self.constant(of.floats(of.scales, shape))
        if of.zero_points.any():
            integer = cast("TensorType[Any]", stored.type).element_type
            zero_points = dense_elements(of.zero_points.reshape(shape), integer)
            small = self.constant(zero_points)
        else:
            small = self.make("onnx.NoValue", [], NoneType(), {"value": UnitAttr()})
        signed = IntegerType(64, Signedness.SIGNED)
        attributes: dict[str, Attribute] = {"axis": IntegerAttr(axis, signed)}
        if size:
            attributes["block_size"] = IntegerAttr(size, signed)
        type = TensorType(of.expressed, of.shape)
        return self.make("onnx.DequantizeLinear", [stored, scales, small], type, attributes)


_WRITERS: Mapping[Form, type[_Writer]] = {
    Form.STABLEHLO: _StableHLO,
    Form.TOSA: _Tosa,
    Form.LINALG: _Linalg,
    Form.LINALG_EXT: _LinalgExt,
    Form.ARITH: _Arith,
    Form.ONNX: _Onnx,
}


def _of_shape(value: SSAValue, shape: Shape) -> Attribute:
    return TensorType(cast("TensorType[Attribute]", value.type).element_type, shape)


def _groups(few: Shape, many: Shape) -> list[list[int]]:
    """For each axis of `few`, the axes of `many` that it is split into."""
    groups: list[list[int]] = []
    at = 0
    for length in few:
        count = 1 if many[at] == length else 2
        groups.append([*range(at, at + count)])
        at += count
    return groups
