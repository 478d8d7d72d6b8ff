"""
Lowering movements of storage integers to MLIR's `tensor` and `linalg` dialects.

`STORAGE_OPS` has one builder per movement. All except padding also move floats. A result may
have static lengths where the declared shape is dynamic, or the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from xdsl.context import Context
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    Signedness,
    TensorType,
    UnregisteredOp,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, TransposeOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import (
    DYNAMIC,
    BroadcastInDim,
    Movement,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Take,
    Transpose,
)
from qdialect.algebra.padding import Pad
from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import QuantizedTensor
from qdialect.dialects.quant.verification import with_lengths_of_slots
from qdialect.ir.elements import DenseElementsAttr, dense_elements, element_dtype
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat
from qdialect.support.lazy_numpy import NDArray, np

StorageTensor = TensorType[IntegerType]

Length: TypeAlias = int | SSAValue
"""A static length, or a value of type `index`."""

OpT = TypeVar("OpT", bound=Operation)


def storage_tensor(type: QuantizedTensor) -> StorageTensor:
    """The tensor type of the signless storage integers of a quantized tensor."""
    width = type.element_type.storage_type.bitwidth
    return TensorType(IntegerType(width), type.get_shape())


def unreadable_storage(type: StoredType) -> str | None:
    """The reason why `quant.scast` cannot read storage integers of `type`; None if it can."""
    if (reason := type.non_integers) is not None:
        return reason
    stored = cast(IntegerType, type.storage_type)
    if stored.signedness.data is Signedness.SIGNLESS:
        return None
    return f"it stores '{stored}', but quant.scast reads signless integers"


def _type_of(value: SSAValue) -> StorageTensor:
    return cast(StorageTensor, value.type)


class StorageBuilder:
    """Inserts ops on storage integers at one insertion point, with one location."""

    def __init__(self, point: InsertPoint, location: LocationAttr):
        self._point = point
        self._location = location
        self._indices: dict[int, SSAValue] = {}

    def insert(self, op: OpT) -> OpT:
        """Insert `op` after the ops inserted before."""
        op.location = self._location
        Rewriter.insert_op(op, self._point)
        return op

    def constant(self, value: IntegerAttr | FloatAttr | DenseElementsAttr) -> SSAValue:
        """A constant of `arith`."""
        return self.insert(arith.ConstantOp(value)).result

    # Numbers

    def integer(self, value: int, type: IntegerType) -> SSAValue:
        """An integer constant."""
        return self.constant(IntegerAttr(value, type))

    def extended(
        self, value: SSAValue, type: IntegerType, *, is_unsigned: bool = False
    ) -> SSAValue:
        """An integer of at least its width."""
        if value.type == type:
            return value
        op = arith.ExtUIOp if is_unsigned else arith.ExtSIOp
        return self.insert(op(value, type)).result

    def clamped(
        self, value: SSAValue, limits: tuple[int, int], *, is_unsigned: bool = False
    ) -> SSAValue:
        """An integer between two limits."""
        ops = (arith.MaxUIOp, arith.MinUIOp) if is_unsigned else (arith.MaxSIOp, arith.MinSIOp)
        for op, end in zip(ops, limits, strict=True):
            limit = self.integer(end, cast(IntegerType, value.type))
            value = self.insert(op(value, limit)).result
        return value

    # Lengths and indices

    def index(self, length: Length) -> SSAValue:
        """`length` as a value of type `index`."""
        if isinstance(length, SSAValue):
            return length
        if length not in self._indices:
            self._indices[length] = self.constant(IntegerAttr(length, IndexType()))
        return self._indices[length]

    def length(self, value: SSAValue, axis: int) -> Length:
        """The length of an axis of `value`."""
        known = _type_of(value).get_shape()[axis]
        if known != DYNAMIC:
            return known
        return self.insert(tensor.DimOp(value, self.index(axis))).result

    def lengths(self, value: SSAValue) -> list[Length]:
        """The lengths of all axes of `value`."""
        return [self.length(value, axis) for axis in range(_type_of(value).get_num_dims())]

    def add(self, length: Length, known: int) -> Length:
        """`length + known`."""
        if isinstance(length, int):
            return length + known
        if not known:
            return length
        return self.insert(arith.AddiOp(length, self.index(known))).result

    def multiply(self, length: Length, other: Length) -> Length:
        """`length * other`."""
        if isinstance(length, int) and isinstance(other, int):
            return length * other
        if 1 in (length, other):
            return other if length == 1 else length
        return self.insert(arith.MuliOp(self.index(length), self.index(other))).result

    def divide(self, length: Length, known: int) -> Length:
        """`length / known`, an exact division."""
        if isinstance(length, int):
            return length // known
        if known == 1:
            return length
        return self.insert(arith.DivUIOp(length, self.index(known))).result

    # Tensors

    def empty(self, lengths: Sequence[Length], element: Attribute) -> SSAValue:
        """An empty tensor of `lengths`, to be written by a later op."""
        dynamic = [length for length in lengths if isinstance(length, SSAValue)]
        type = TensorType(element, _shape_of(lengths))
        return self.insert(tensor.EmptyOp(dynamic, type)).tensor

    def cast(self, value: SSAValue, shape: Shape) -> SSAValue:
        """`value`, cast to `shape`, in which other lengths are static."""
        if _type_of(value).get_shape() == shape:
            return value
        type = TensorType(_type_of(value).element_type, shape)
        return self.insert(tensor.CastOp(value, type)).dest

    def collapse(self, value: SSAValue, groups: Sequence[Sequence[int]]) -> SSAValue:
        """`value` with each group of neighbouring axes merged into one."""
        shape = _type_of(value).get_shape()
        if len(groups) == len(shape):
            return value
        merged = [_product([shape[axis] for axis in group]) for group in groups]
        op = tensor.CollapseShapeOp.create(
            operands=[value],
            result_types=[TensorType(_type_of(value).element_type, merged)],
            properties={"reassociation": _reassociation(groups)},
        )
        return self.insert(op).result

    def expand(
        self, value: SSAValue, groups: Sequence[Sequence[int]], lengths: Sequence[Length]
    ) -> SSAValue:
        """`value` with each axis split into a group of axes, of `lengths`."""
        if len(groups) == len(lengths):
            return value
        shape = _shape_of(lengths)
        op = tensor.ExpandShapeOp(
            value,
            [length for length in lengths if isinstance(length, SSAValue)],
            _reassociation(groups),
            shape,
            TensorType(_type_of(value).element_type, shape),
        )
        return self.insert(op).result

    def pad(self, movement: Pad, value: SSAValue, element: IntegerAttr | FloatAttr) -> SSAValue:
        """`value`, padded with `element`."""
        type = _type_of(value)
        block = Block(arg_types=[IndexType()] * type.get_num_dims())
        block.add_op(tensor.YieldOp(self.constant(element)))
        op = tensor.PadOp(
            value,
            [],
            [],
            Region(block),
            movement.low,
            movement.high,
            TensorType(type.element_type, movement.result_shape(type.get_shape())),
        )
        return self.insert(op).result

    def generic(
        self,
        init: SSAValue,
        inputs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        element: Callable[[StorageBuilder, Sequence[SSAValue]], SSAValue],
    ) -> SSAValue:
        """
        A tensor of the type of `init`, computed by `linalg.generic`.

        `maps` are the indexing maps of the inputs: of loops over the axes of the result, and then
        of loops that reduce. `element` builds the body: it is called with a builder for the body,
        the input elements and the one of the result, and returns the element to yield.
        """
        type = _type_of(init)
        block = Block(arg_types=[_type_of(value).element_type for value in (*inputs, init)])
        inner = StorageBuilder(InsertPoint.at_end(block), self._location)
        inner.insert(YieldOp(element(inner, block.args)))
        rank = type.get_num_dims()
        loops = max((map.num_dims for map in maps), default=rank)
        result = AffineMap(loops, 0, AffineMap.identity(loops).results[:rank])
        kinds = [IteratorTypeAttr.parallel()] * rank + [IteratorTypeAttr.reduction()] * (
            loops - rank
        )
        op = GenericOp(
            inputs,
            [init],
            Region(block),
            [AffineMapAttr(map) for map in (*maps, result)],
            kinds,
            [type],
        )
        return self.insert(op).results[0]

    def each(
        self,
        value: SSAValue,
        element_type: Attribute,
        element: Callable[[StorageBuilder, SSAValue], SSAValue],
    ) -> SSAValue:
        """A function of the elements of a tensor, or of a scalar."""
        if not isinstance(value.type, TensorType):
            return element(self, value)
        init = self.empty(self.lengths(value), element_type)
        identity = AffineMap.identity(_type_of(value).get_num_dims())
        return self.generic(
            init, [value], [identity], lambda inner, elements: element(inner, elements[0])
        )

    def along_axes(
        self,
        init: SSAValue,
        inputs: Sequence[SSAValue],
        axes: Sequence[int],
        element: Callable[[StorageBuilder, Sequence[SSAValue]], SSAValue],
    ) -> SSAValue:
        """As `generic`, of one tensor, and of others that have only these axes of it."""
        rank = _type_of(init).get_num_dims()
        along = AffineMap(rank, 0, tuple(AffineExpr.dimension(axis) for axis in axes))
        maps = [AffineMap.identity(rank), *([along] * (len(inputs) - 1))]
        return self.generic(init, inputs, maps, element)

    def read(self, init: SSAValue, value: SSAValue, positions: Sequence[AffineExpr]) -> SSAValue:
        """A tensor of the type of `init`, whose elements are those of `value` at `positions`."""
        map = AffineMap(_type_of(init).get_num_dims(), 0, tuple(positions))
        return self.generic(init, [value], [map], lambda _, elements: elements[0])

    def gather(
        self,
        init: SSAValue,
        value: SSAValue,
        positions: Callable[[StorageBuilder], Sequence[SSAValue]],
    ) -> SSAValue:
        """As `read`, at positions that ops in the loop body compute."""
        element_type = _type_of(value).element_type

        def element(inner: StorageBuilder, _: Sequence[SSAValue]) -> SSAValue:
            return inner.insert(tensor.ExtractOp(value, positions(inner), element_type)).result

        return self.generic(init, [], [], element)

    def loop_index(self, axis: int) -> SSAValue:
        """The index of the loop over `axis`, in the body of `generic`."""
        return self.insert(IndexOp(axis)).result


def as_bits(values: NDArray[np.float64], format: FloatFormat, dtype: np.dtype[Any]) -> NDArray[Any]:
    """
    The bits of `values`, rounded to `format`, as elements of `dtype`, which may be a void
    dtype.
    """
    words = format.round_to_bits(values).astype("<u8").reshape(-1, 1).view(np.uint8)
    return np.ascontiguousarray(words[:, : dtype.itemsize]).view(dtype).reshape(values.shape)


def dense_floats(numbers: NDArray[np.float64], type: AnyFloat) -> DenseElementsAttr:
    """Numbers, rounded to a float type, as the elements of a constant."""
    bits = as_bits(numbers, FLOAT_FORMATS[type.name], element_dtype(type))
    return dense_elements(bits, type)


def _shape_of(lengths: Sequence[Length]) -> Shape:
    return tuple(DYNAMIC if isinstance(length, SSAValue) else length for length in lengths)


def _product(lengths: Sequence[int]) -> int:
    return DYNAMIC if DYNAMIC in lengths else math.prod(lengths)


def _reassociation(groups: Sequence[Sequence[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    return ArrayAttr(ArrayAttr(IntegerAttr(axis, i64) for axis in group) for group in groups)


class Moved(NamedTuple):
    """What a movement moves."""

    operands: Sequence[SSAValue]
    result: TensorType[Any]
    """The type of the result: with the quantized elements, or those of the operands."""


def _transpose(builder: StorageBuilder, movement: Transpose, moved: Moved) -> SSAValue:
    (operand,) = moved.operands
    lengths = builder.lengths(operand)
    init = builder.empty(
        [lengths[axis] for axis in movement.permutation], _type_of(operand).element_type
    )
    permutation = DenseArrayBase.from_list(i64, movement.permutation)
    return builder.insert(TransposeOp(operand, init, permutation)).res[0]


def _slice(builder: StorageBuilder, movement: Slice, moved: Moved) -> SSAValue:
    op = tensor.ExtractSliceOp.from_static_parameters(
        moved.operands[0], movement.offsets, movement.sizes, movement.strides
    )
    return builder.insert(op).result


def _concat(builder: StorageBuilder, movement: Concat, moved: Moved) -> SSAValue:
    types = [_type_of(operand) for operand in moved.operands]
    shape = movement.result_shape(*(type.get_shape() for type in types))
    type = TensorType(types[0].element_type, shape)
    return builder.insert(tensor.ConcatOp(moved.operands, movement.dim, type)).result


def _reverse(builder: StorageBuilder, movement: Reverse, moved: Moved) -> SSAValue:
    (operand,) = moved.operands
    lengths = builder.lengths(operand)
    last = {axis: builder.index(builder.add(lengths[axis], -1)) for axis in movement.dims}

    def positions(inner: StorageBuilder) -> Iterator[SSAValue]:
        for axis in range(len(lengths)):
            index = inner.loop_index(axis)
            if axis in last:
                index = inner.insert(arith.SubiOp(last[axis], index)).result
            yield index

    init = builder.empty(lengths, _type_of(operand).element_type)
    return builder.gather(init, operand, lambda inner: list(positions(inner)))


def _take(builder: StorageBuilder, movement: Take, moved: Moved) -> SSAValue:
    (operand,) = moved.operands
    element_type = _type_of(operand).element_type
    lengths = builder.lengths(operand)
    lengths[movement.dim] = len(movement.indices)
    listed = np.array(movement.indices, dtype=np.int64)
    indices = builder.constant(dense_elements(listed, IndexType()))

    def element(inner: StorageBuilder, taken: Sequence[SSAValue]) -> SSAValue:
        positions = [
            taken[0] if axis == movement.dim else inner.loop_index(axis)
            for axis in range(len(lengths))
        ]
        return inner.insert(tensor.ExtractOp(operand, positions, element_type)).result

    map = AffineMap(len(lengths), 0, (AffineExpr.dimension(movement.dim),))
    return builder.generic(builder.empty(lengths, element_type), [indices], [map], element)


def _broadcast_in_dim(builder: StorageBuilder, movement: BroadcastInDim, moved: Moved) -> SSAValue:
    (operand,) = moved.operands
    lengths: list[Length] = list(movement.shape)
    last: dict[int, SSAValue] = {}
    """For each axis whose repetition is known only at run time, its last index."""
    shape = _type_of(operand).get_shape()
    for axis, dim in enumerate(movement.dims):
        if lengths[dim] == DYNAMIC:
            lengths[dim] = builder.length(operand, axis)
        elif shape[axis] == DYNAMIC and lengths[dim] != 1:
            last[axis] = builder.index(builder.add(builder.length(operand, axis), -1))
    init = builder.empty(lengths, _type_of(operand).element_type)
    if not last:
        return builder.read(
            init,
            operand,
            [
                AffineExpr.constant(0) if shape[axis] == 1 else AffineExpr.dimension(dim)
                for axis, dim in enumerate(movement.dims)
            ],
        )

    def positions(inner: StorageBuilder) -> Iterator[SSAValue]:
        for axis, dim in enumerate(movement.dims):
            index = inner.index(0) if shape[axis] == 1 else inner.loop_index(dim)
            if axis in last:
                index = inner.insert(arith.MinUIOp(index, last[axis])).result
            yield index

    return builder.gather(init, operand, lambda inner: list(positions(inner)))


def _reshape(builder: StorageBuilder, movement: Reshape, moved: Moved) -> SSAValue:
    (operand,) = moved.operands
    lengths = [
        _unknown_length(builder, operand, movement) if length == DYNAMIC else length
        for length in movement.shape
    ]
    if not _type_of(operand).get_shape():
        # Expanding requires at least one axis.
        element = tensor.ExtractOp(operand, [], _type_of(operand).element_type)
        operand = builder.insert(tensor.FromElementsOp(builder.insert(element).result)).result
    shape, result = _type_of(operand).get_shape(), _shape_of(lengths)
    if not result:
        operand, groups = builder.cast(operand, (1,) * len(shape)), []
    else:
        groups = list(_common_groups(shape, result))
    collapsed = builder.collapse(operand, [old for old, _ in groups])
    merged = tuple(_product([result[axis] for axis in new]) for _, new in groups)
    return builder.expand(builder.cast(collapsed, merged), [new for _, new in groups], lengths)


def _unknown_length(builder: StorageBuilder, operand: SSAValue, movement: Reshape) -> Length:
    """The only dynamic length of the result, which follows from the number of elements."""
    shape = _type_of(operand).get_shape()
    known, wanted = _known_product(shape), _known_product(movement.shape)
    common = math.gcd(known, wanted)
    length: Length = known // common
    for axis, axis_length in enumerate(shape):
        if axis_length == DYNAMIC:
            length = builder.multiply(builder.length(operand, axis), length)
    return builder.divide(length, wanted // common)


def _known_product(shape: Shape) -> int:
    return math.prod(length for length in shape if length != DYNAMIC)


def _common_groups(old: Shape, new: Shape) -> Iterator[tuple[range, range]]:
    """
    Split both shapes into groups of neighbouring axes; groups in pairs have equal sizes.

    Both shapes have at least one axis. Two groups with one dynamic length each match if their
    static lengths agree.
    """
    dynamic = old.count(DYNAMIC), new.count(DYNAMIC)
    is_decided = dynamic == (0, 0) or (
        dynamic == (1, 1) and _known_product(old) == _known_product(new)
    )
    if not is_decided or 0 in (*old, *new):
        yield range(len(old)), range(len(new))
        return

    def size(shape: Shape, axes: range) -> tuple[int, int]:
        part = shape[axes.start : axes.stop]
        return part.count(DYNAMIC), _known_product(part)

    ones, others = range(1), range(1)
    while True:
        one_size, other_size = size(old, ones), size(new, others)
        if one_size < other_size:
            ones = range(ones.start, ones.stop + 1)
        elif one_size > other_size:
            others = range(others.start, others.stop + 1)
        elif ones.stop < len(old) and others.stop < len(new):
            yield ones, others
            ones = range(ones.stop, ones.stop + 1)
            others = range(others.stop, others.stop + 1)
        else:
            # The axes that remain on one side all have length one.
            yield range(ones.start, len(old)), range(others.start, len(new))
            return


def _pad(builder: StorageBuilder, movement: Pad, moved: Moved) -> SSAValue:
    (operand,) = moved.operands
    type = _type_of(operand)
    parameters = moved.result.element_type.parameters_on(_assumed_shape(movement, moved.result))
    format = StorageFormat(type.element_type.bitwidth, signed=True)
    zero_points: set[int] = set()
    for _, padded in movement.new_positions(parameters):
        zero_points.update(np.unique(format.wrap(padded.zero_points)).tolist())
    if len(zero_points) > 1:
        return _pad_with_slots(builder, movement, operand, parameters)
    zero_point = IntegerAttr(next(iter(zero_points), 0), type.element_type)
    return builder.pad(movement, operand, zero_point)


def _assumed_shape(movement: Pad, result: QuantizedTensor) -> Shape:
    """A static shape whose new positions read the same slots as in any other possible shape."""
    widths = zip(movement.low, movement.high, strict=True)
    return tuple(
        low + 1 + high if length == DYNAMIC else length
        for length, (low, high) in zip(with_lengths_of_slots(result), widths, strict=True)
    )


def _pad_with_slots(
    builder: StorageBuilder,
    movement: Pad,
    operand: SSAValue,
    parameters: QuantizationParameters,
) -> SSAValue:
    """Pad each position with the zero point of its slot."""
    element = _type_of(operand).element_type
    coarse = parameters.coarsen()
    zero_points = StorageFormat(element.bitwidth, signed=True).wrap(coarse.zero_points)
    slots = builder.constant(dense_elements(zero_points, element))
    lengths = builder.lengths(operand)
    padded = [
        builder.add(length, low + high)
        for length, low, high in zip(lengths, movement.low, movement.high, strict=True)
    ]
    blocks = zip(coarse.block_sizes, zero_points.shape, strict=True)
    init = builder.read(
        builder.empty(padded, element),
        slots,
        [
            AffineExpr.constant(0) if count == 1 else block_at(axis, block)
            for axis, (block, count) in enumerate(blocks)
        ],
    )
    if 0 in _shape_of(lengths):
        # Its offset may be the length of the result, which is out of bounds.
        return init
    op = tensor.InsertSliceOp.get(
        operand,
        init,
        static_sizes=_shape_of(lengths),
        static_offsets=movement.low,
        sizes=[length for length in lengths if isinstance(length, SSAValue)],
        static_strides=[1] * len(lengths),
    )
    return builder.insert(op).result


def block_at(axis: int, block: int) -> AffineExpr:
    """The index of the block of `axis` that contains a position."""
    position = AffineExpr.dimension(axis)
    return position if block == 1 else position // block


StorageOps: TypeAlias = Callable[[StorageBuilder, Any, Moved], SSAValue]
"""
Builds the ops that move the storage integers of operands.

It is called neither for an identity nor for a result without elements. The shape of the result
may differ from the declared one in lengths that are static in only one of them.
"""

STORAGE_OPS: Final[dict[type[Movement], StorageOps]] = {
    Transpose: _transpose,
    Reshape: _reshape,
    Slice: _slice,
    Concat: _concat,
    BroadcastInDim: _broadcast_in_dim,
    Reverse: _reverse,
    Take: _take,
    Pad: _pad,
}
"""The builder of each movement; entries for other movements may be added."""


def move_elements(
    builder: StorageBuilder,
    movement: Movement,
    operands: Sequence[SSAValue],
    result: TensorType[Any],
) -> SSAValue:
    """
    Build the ops that move `operands` to a value of the shape of `result`.

    The elements may have any type that is not quantized. For a `Pad` they are storage integers,
    and `result` is the quantized type.
    """
    shape = result.get_shape()
    if 0 in shape and DYNAMIC not in shape:
        return builder.empty(shape, _type_of(operands[0]).element_type)
    if movement.is_identity(*(_type_of(operand).get_shape() for operand in operands)):
        moved = operands[0]
    else:
        moved = STORAGE_OPS[type(movement)](builder, movement, Moved(operands, result))
    return builder.cast(moved, shape)


def unknown_length(movement: Movement, operands: Sequence[Shape]) -> str | None:
    """The reason why operands of these shapes do not determine the shape of the result, or None."""
    if isinstance(movement, Reshape):
        return _unknown_length_of_reshape(movement, operands[0])
    if isinstance(movement, BroadcastInDim):
        kept = dict(zip(movement.dims, operands[0], strict=True))
        for axis, length in enumerate(movement.shape):
            if length == DYNAMIC and kept.get(axis, 1) == 1:
                return f"the length of axis {axis} of the result cannot be determined"
    return None


def _unknown_length_of_reshape(movement: Reshape, operand: Shape) -> str | None:
    count, known = movement.shape.count(DYNAMIC), _known_product(movement.shape)
    if count > 1:
        return f"the number of elements does not determine {count} lengths of the result"
    if count and not known:
        return "the number of elements does not determine a length of an empty result"
    if count and DYNAMIC not in operand and math.prod(operand) % known:
        return f"{math.prod(operand)} elements are not a multiple of {known}"
    return None


class ContextBuilder(StorageBuilder):
    """Inserts ops at one insertion point: as their class where the context has it."""

    def __init__(self, point: InsertPoint, location: Any, context: Context) -> None:
        super().__init__(point, location)
        self._context = context

    def make(
        self,
        name: str,
        operands: Sequence[SSAValue],
        type: Attribute,
        properties: Mapping[str, Attribute] | None = None,
    ) -> SSAValue:
        """Insert an op, which may be unregistered, and return its result."""
        op_class = self._context.get_optional_op(name) or UnregisteredOp.with_name(name)
        op = op_class.create(
            operands=operands, result_types=[type], properties=dict(properties or {})
        )
        return self.insert(op).results[0]
