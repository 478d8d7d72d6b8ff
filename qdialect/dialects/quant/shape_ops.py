"""
The shape ops of the quant dialect: what moves elements, and their slots with them.

Each op says which `Movement` it is, and all else is shared. The result type must mean
`p . f`: every element reads the scale and zero point that it had, however the types are
spelled. Without a result type, a builder takes the coarsest one that means it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from typing_extensions import override
from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface, HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant.types import QuantizedTensor, uniform_tensor
from qdialect.dialects.quant.verification import verify_movement
from qdialect.movement import (
    BroadcastInDim,
    Concat,
    Movement,
    Pad,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Transpose,
)


def infer_result_type(
    movement: Movement, operands: Sequence[SSAValue | Operation]
) -> QuantizedTensor:
    """
    The coarsest type that means what `movement` makes of operands of static shape.

    Raises VerifyException if an operand has no uniform quantized type that fits its shape,
    MovementError if their shapes do not allow the movement, TooManySlotsError if the type
    has too many slots to be written.
    """
    types = [uniform_tensor(SSAValue.get(operand).type) for operand in operands]
    shape = movement.result_shape(*(type.get_shape() for type in types))
    moved = movement(*(type.element_type.parameters_on(type.get_shape()) for type in types))
    return TensorType(types[0].element_type.with_parameters(moved), shape)


def _integers(values: Sequence[int] | DenseArrayBase[I64]) -> DenseArrayBase[I64]:
    if isinstance(values, DenseArrayBase):
        return values
    return DenseArrayBase.from_list(i64, values)


class ShapeOp(IRDLOperation, HasFolderInterface, HasCanonicalizationPatternsInterface, ABC):
    """Base of the shape ops."""

    result = result_def()

    traits = traits_def(Pure())

    @abstractmethod
    def movement_to(self, shape: Shape) -> Movement:
        """The movement of this op to a result of `shape`."""

    @property
    def movement(self) -> Movement:
        """The movement of this op."""
        return self.movement_to(uniform_tensor(self.result.type).get_shape())

    @classmethod
    @abstractmethod
    def of_movement(
        cls, movement: Any, operands: Sequence[SSAValue], result_type: Attribute
    ) -> Self:
        """An op of this class that is `movement`, which is of the class' own kind."""

    @override
    def verify_(self) -> None:
        types: list[QuantizedTensor] = []
        for end, values in (("operand", self.operands), ("result", self.results)):
            for number, value in enumerate(values):
                try:
                    types.append(uniform_tensor(value.type))
                except VerifyException as error:
                    raise VerifyException(f"'{self.name}' op {end} #{number} {error}") from None
        *operands, result = types
        try:
            verify_movement(self.movement_to, operands, result)
        except VerifyException as error:
            raise VerifyException(f"'{self.name}' op {error}") from None

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """`f(x) = x` and `g(f(x)) = x`, where nothing moves and the type is the same."""
        value = unmoved_operand(*compose(self.movement, self.operands), self.result.type)
        return None if value is None else (value,)

    @classmethod
    @override
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from qdialect.dialects.quant.canonicalization_patterns import (
            ComposeShapeOps,
            FoldShapeOpOfConstants,
        )

        return FoldShapeOpOfConstants(), ComposeShapeOps()


def compose(
    movement: Movement, operands: Sequence[SSAValue]
) -> tuple[Movement, Sequence[SSAValue]]:
    """`movement` and the shape op that makes its operand as one, if one does both."""
    if len(operands) == 1 and isinstance(first := operands[0].owner, ShapeOp):
        composed = movement.after(first.movement)
        if composed is not None:
            return composed, first.operands
    return movement, operands


def unmoved_operand(
    movement: Movement, operands: Sequence[SSAValue], result_type: Attribute
) -> SSAValue | None:
    """The operand, if it has the type of the result and stays where it is."""
    shapes = (uniform_tensor(operand.type).get_shape() for operand in operands)
    if operands[0].type == result_type and movement.is_identity(*shapes):
        return operands[0]
    return None


class UnaryShapeOp(ShapeOp, ABC):
    """Base of the shape ops that have one operand."""

    input = operand_def()


@irdl_op_definition
class TransposeOp(UnaryShapeOp):
    """
    Permute axes: axis `k` of the result is axis `permutation[k]` of the operand.

    `quant.transpose %w permutation = [1, 0] : tensor<2x3x!a> to tensor<3x2x!b>`.
    """

    name = "quant.transpose"

    permutation = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$input `permutation` `=` $permutation attr-dict `:` type($input) `to` type($result)"
    )

    def __init__(
        self,
        input: SSAValue | Operation,
        permutation: Sequence[int] | DenseArrayBase[I64],
        result_type: Attribute | None = None,
    ):
        """Raises what `infer_result_type` raises."""
        permutation = _integers(permutation)
        if result_type is None:
            movement = Transpose(permutation.get_values())
            result_type = infer_result_type(movement, [input])
        super().__init__(
            operands=[input],
            result_types=[result_type],
            properties={"permutation": permutation},
        )

    @override
    def movement_to(self, shape: Shape) -> Transpose:
        return Transpose(self.permutation.get_values())

    @classmethod
    @override
    def of_movement(
        cls, movement: Transpose, operands: Sequence[SSAValue], result_type: Attribute
    ) -> TransposeOp:
        return cls(operands[0], movement.permutation, result_type)


@irdl_op_definition
class ReshapeOp(UnaryShapeOp):
    """
    The same elements in row-major order, with another shape.

    `quant.reshape %w : tensor<6x4x!a> to tensor<2x3x4x!b>`.
    """

    name = "quant.reshape"

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(
        self,
        input: SSAValue | Operation,
        shape: Sequence[int] | None = None,
        result_type: Attribute | None = None,
    ):
        """One of `shape` and `result_type` is needed. Raises as `infer_result_type`."""
        if result_type is None:
            if shape is None:
                raise ValueError("quant.reshape needs a shape or a result type")
            result_type = infer_result_type(Reshape(tuple(shape)), [input])
        super().__init__(operands=[input], result_types=[result_type])

    @override
    def movement_to(self, shape: Shape) -> Reshape:
        return Reshape(shape)

    @classmethod
    @override
    def of_movement(
        cls, movement: Reshape, operands: Sequence[SSAValue], result_type: Attribute
    ) -> ReshapeOp:
        return cls(operands[0], result_type=result_type)


@irdl_op_definition
class SliceOp(UnaryShapeOp):
    """
    Every `strides[k]`-th of the positions of axis `k` from `offsets[k]`, `sizes[k]` of them.

    `quant.slice %w [0, 2] [4, 2] [1, 1] : tensor<4x4x!a> to tensor<4x2x!b>`.
    """

    name = "quant.slice"

    offsets = prop_def(DenseArrayBase.constr(i64))
    sizes = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$input $offsets $sizes $strides attr-dict `:` type($input) `to` type($result)"
    )

    def __init__(
        self,
        input: SSAValue | Operation,
        offsets: Sequence[int] | DenseArrayBase[I64],
        sizes: Sequence[int] | DenseArrayBase[I64],
        strides: Sequence[int] | DenseArrayBase[I64],
        result_type: Attribute | None = None,
    ):
        """Raises what `infer_result_type` raises."""
        offsets, sizes, strides = map(_integers, (offsets, sizes, strides))
        if result_type is None:
            movement = Slice(offsets.get_values(), sizes.get_values(), strides.get_values())
            result_type = infer_result_type(movement, [input])
        super().__init__(
            operands=[input],
            result_types=[result_type],
            properties={"offsets": offsets, "sizes": sizes, "strides": strides},
        )

    @override
    def movement_to(self, shape: Shape) -> Slice:
        return Slice(
            self.offsets.get_values(),
            self.sizes.get_values(),
            self.strides.get_values(),
        )

    @classmethod
    @override
    def of_movement(
        cls, movement: Slice, operands: Sequence[SSAValue], result_type: Attribute
    ) -> SliceOp:
        return cls(
            operands[0],
            movement.offsets,
            movement.sizes,
            movement.strides,
            result_type,
        )


@irdl_op_definition
class ConcatOp(ShapeOp):
    """
    The operands one after another on an axis.

    `quant.concat dim(0) %a, %b : (tensor<2x4x!a>, tensor<3x4x!b>) -> tensor<5x4x!c>`.
    """

    name = "quant.concat"

    inputs = var_operand_def()
    dim = prop_def(IntegerAttr[I64])

    assembly_format = "`dim` `(` $dim `)` $inputs attr-dict `:` functional-type($inputs, $result)"

    def __init__(
        self,
        inputs: Sequence[SSAValue | Operation],
        dim: int | IntegerAttr[I64],
        result_type: Attribute | None = None,
    ):
        """Raises what `infer_result_type` raises."""
        if isinstance(dim, int):
            dim = IntegerAttr(dim, i64)
        if result_type is None:
            result_type = infer_result_type(Concat(dim.value.data), inputs)
        super().__init__(operands=[inputs], result_types=[result_type], properties={"dim": dim})

    @override
    def movement_to(self, shape: Shape) -> Concat:
        return Concat(self.dim.value.data)

    @classmethod
    @override
    def of_movement(
        cls, movement: Concat, operands: Sequence[SSAValue], result_type: Attribute
    ) -> ConcatOp:
        return cls(operands, movement.axis, result_type)


@irdl_op_definition
class BroadcastInDimOp(UnaryShapeOp):
    """
    Repeat: axis `k` of the operand is axis `dims[k]` of the result.

    The length of the axis is kept or it is one, and the other axes of the result are new:
    https://openxla.org/stablehlo/spec#broadcast_in_dim.
    `quant.broadcast_in_dim %w dims = [0, 2] : tensor<4x1x!a> to tensor<4x3x8x!b>`.
    """

    name = "quant.broadcast_in_dim"

    dims = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$input `dims` `=` $dims attr-dict `:` type($input) `to` type($result)"

    def __init__(
        self,
        input: SSAValue | Operation,
        dims: Sequence[int] | DenseArrayBase[I64],
        shape: Sequence[int] | None = None,
        result_type: Attribute | None = None,
    ):
        """One of `shape` and `result_type` is needed. Raises as `infer_result_type`."""
        dims = _integers(dims)
        if result_type is None:
            if shape is None:
                raise ValueError("quant.broadcast_in_dim needs a shape or a result type")
            movement = BroadcastInDim(dims.get_values(), tuple(shape))
            result_type = infer_result_type(movement, [input])
        super().__init__(operands=[input], result_types=[result_type], properties={"dims": dims})

    @override
    def movement_to(self, shape: Shape) -> BroadcastInDim:
        return BroadcastInDim(self.dims.get_values(), shape)

    @classmethod
    @override
    def of_movement(
        cls,
        movement: BroadcastInDim,
        operands: Sequence[SSAValue],
        result_type: Attribute,
    ) -> BroadcastInDimOp:
        return cls(operands[0], movement.dims, result_type=result_type)


@irdl_op_definition
class ReverseOp(UnaryShapeOp):
    """
    The axes `dims` from back to front.

    `quant.reverse %w dims = [0] : tensor<4x4x!a> to tensor<4x4x!b>`.
    """

    name = "quant.reverse"

    dims = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$input `dims` `=` $dims attr-dict `:` type($input) `to` type($result)"

    def __init__(
        self,
        input: SSAValue | Operation,
        dims: Sequence[int] | DenseArrayBase[I64],
        result_type: Attribute | None = None,
    ):
        """Raises what `infer_result_type` raises."""
        dims = _integers(dims)
        if result_type is None:
            result_type = infer_result_type(Reverse(dims.get_values()), [input])
        super().__init__(operands=[input], result_types=[result_type], properties={"dims": dims})

    @override
    def movement_to(self, shape: Shape) -> Reverse:
        return Reverse(self.dims.get_values())

    @classmethod
    @override
    def of_movement(
        cls, movement: Reverse, operands: Sequence[SSAValue], result_type: Attribute
    ) -> ReverseOp:
        return cls(operands[0], movement.dims, result_type)


@irdl_op_definition
class PadOp(UnaryShapeOp):
    """
    Real zero around the operand: `low[k]` positions before axis `k`, `high[k]` after it.

    A new position reads the slot of the nearest edge, and holds its zero point.
    `quant.pad %w low = [0, 1] high = [0, 1] : tensor<2x2x!a> to tensor<2x4x!b>`.
    """

    name = "quant.pad"

    low = prop_def(DenseArrayBase.constr(i64))
    high = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$input `low` `=` $low `high` `=` $high attr-dict `:` type($input) `to` type($result)"
    )

    def __init__(
        self,
        input: SSAValue | Operation,
        low: Sequence[int] | DenseArrayBase[I64],
        high: Sequence[int] | DenseArrayBase[I64],
        result_type: Attribute | None = None,
    ):
        """Raises what `infer_result_type` raises."""
        low, high = map(_integers, (low, high))
        if result_type is None:
            movement = Pad(low.get_values(), high.get_values())
            result_type = infer_result_type(movement, [input])
        super().__init__(
            operands=[input],
            result_types=[result_type],
            properties={"low": low, "high": high},
        )

    @override
    def verify_(self) -> None:
        super().verify_()
        type = uniform_tensor(self.result.type)
        if not type.has_static_shape():
            return
        quantized = type.element_type
        low, high = quantized.storage_type_min, quantized.storage_type_max
        parameters = quantized.parameters_on(type.get_shape())
        for _, padded in self.movement.padding(parameters):
            zero_points = padded.cut_zero_points
            outside = zero_points[(zero_points < low) | (zero_points > high)]
            if outside.size:
                raise VerifyException(
                    f"'{self.name}' op cannot pad with zero point {outside[0]}, which "
                    f"is outside the storage range [{low}, {high}]"
                )

    @property
    @override
    def movement(self) -> Pad:
        return Pad(self.low.get_values(), self.high.get_values())

    @override
    def movement_to(self, shape: Shape) -> Pad:
        return self.movement

    @classmethod
    @override
    def of_movement(
        cls, movement: Pad, operands: Sequence[SSAValue], result_type: Attribute
    ) -> PadOp:
        return cls(operands[0], movement.low, movement.high, result_type)
