"""
The shape ops of the quant dialect: what moves elements, and their slots with them.

Each op is the `Movement` that has its properties, and all else is shared. The result type
must mean `p . f`: every element reads the scale and zero point that it had, however the
types are spelled. Without a result type, a builder takes the coarsest one that means it.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, Self, cast

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
from qdialect.memo import Memo
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
from qdialect.shape_op_interface import Movements, ShapeOpInterface, integers_of_array
from qdialect.verifier_interface import VerifiedByAttributes


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


def _to_property(value: Any) -> Attribute:
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    return DenseArrayBase.from_list(i64, cast(Sequence[int], value))


def _from_property(attribute: Attribute) -> object:
    if isinstance(attribute, IntegerAttr):
        return attribute.value.data
    return integers_of_array(cast("DenseArrayBase[I64]", attribute))


@cache
def _fields_of(movement: type[Movement]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(movement))


@cache
def _properties_of(movement: type[Movement]) -> tuple[str, ...]:
    return tuple(name for name in _fields_of(movement) if name != "shape")


# What is the same is mostly one object. The memo keeps it, so that no other has its id.
_KNOWN_MOVEMENTS = Memo[tuple[object, ...], tuple[Movement, Sequence[Attribute]]]()


class ShapeOp(
    VerifiedByAttributes,
    HasFolderInterface,
    HasCanonicalizationPatternsInterface,
    ShapeOpInterface,
    ABC,
):
    """
    Base of the shape ops.

    The fields of the movement are the properties of the op: `i64` for an integer, and
    `array<i64>` for several. A field `shape` is the shape of the result.
    """

    MOVEMENT: ClassVar[type[Movement]]

    result = result_def()

    traits = traits_def(Pure())

    def _init(
        self,
        movement: Movement,
        operands: Sequence[SSAValue | Operation],
        result_type: Attribute | None,
        *,
        is_variadic: bool = False,
    ) -> None:
        super().__init__(
            operands=[operands] if is_variadic else operands,
            result_types=[result_type or infer_result_type(movement, operands)],
            properties=self._spelled(movement),
        )

    @classmethod
    def of_movement(
        cls, movement: Movement, operands: Sequence[SSAValue], result_type: Attribute
    ) -> Self:
        """The op of this class that is `movement`, which is a `MOVEMENT`."""
        return cls.create(
            operands=operands,
            result_types=[result_type],
            properties=cls._spelled(movement),
        )

    @staticmethod
    def _spelled(movement: Movement) -> dict[str, Attribute]:
        names = _properties_of(type(movement))
        return {name: _to_property(getattr(movement, name)) for name in names}

    def movement_to(self, shape: Shape) -> Movement:
        """The movement of this op to a result of `shape`."""
        names = _properties_of(self.MOVEMENT)
        held = [self.properties[name] for name in names]
        key = (self.MOVEMENT, shape, *map(id, held))
        if (known := _KNOWN_MOVEMENTS.get(key)) is not None:
            return known[0]
        values: dict[str, Any] = dict(zip(names, map(_from_property, held), strict=True))
        if len(names) < len(_fields_of(self.MOVEMENT)):
            values["shape"] = shape
        movement = self.MOVEMENT(**values)
        return _KNOWN_MOVEMENTS.add(key, (movement, held), movement.size)[0]

    @property
    def movement(self) -> Movement:
        """The movement of this op."""
        return self.movement_to(uniform_tensor(self.result.type).get_shape())

    @property
    @override
    def movements(self) -> Movements:
        return Movements(self.operands, (self.movement,))

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
            verify_movement(self.movement_to(result.get_shape()), operands, result)
        except VerifyException as error:
            raise VerifyException(f"'{self.name}' op {error}") from None

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """`f(x) = x` and `g(f(x)) = x`, where nothing moves and the type is the same."""
        from qdialect.shape_folding.unmoved import unmoved_operand

        operand = unmoved_operand(self)
        return None if operand is None else (operand,)

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
    MOVEMENT: ClassVar = Transpose

    permutation = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$input `permutation` `=` $permutation attr-dict `:` type($input) `to` type($result)"
    )

    def __init__(
        self,
        input: SSAValue | Operation,
        permutation: Sequence[int],
        result_type: Attribute | None = None,
    ):
        """Raises what `infer_result_type` raises."""
        self._init(Transpose(tuple(permutation)), [input], result_type)


@irdl_op_definition
class ReshapeOp(UnaryShapeOp):
    """
    The same elements in row-major order, with another shape.

    `quant.reshape %w : tensor<6x4x!a> to tensor<2x3x4x!b>`.
    """

    name = "quant.reshape"
    MOVEMENT: ClassVar = Reshape

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(
        self,
        input: SSAValue | Operation,
        shape: Sequence[int],
        result_type: Attribute | None = None,
    ):
        """Raises what `infer_result_type` raises."""
        self._init(Reshape(tuple(shape)), [input], result_type)


@irdl_op_definition
class SliceOp(UnaryShapeOp):
    """
    From `offsets[k]` on every `strides[k]`-th position of axis `k`, `sizes[k]` of them.

    `quant.slice %w [0, 2] [4, 2] [1, 1] : tensor<4x4x!a> to tensor<4x2x!b>`.
    """

    name = "quant.slice"
    MOVEMENT: ClassVar = Slice

    offsets = prop_def(DenseArrayBase.constr(i64))
    sizes = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$input $offsets $sizes $strides attr-dict `:` type($input) `to` type($result)"
    )

    def __init__(
        self,
        input: SSAValue | Operation,
        offsets: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int],
        result_type: Attribute | None = None,
    ):
        """Raises what `infer_result_type` raises."""
        movement = Slice(tuple(offsets), tuple(sizes), tuple(strides))
        self._init(movement, [input], result_type)


@irdl_op_definition
class ConcatOp(ShapeOp):
    """
    The operands one after another on an axis.

    `quant.concat dim(0) %a, %b : (tensor<2x4x!a>, tensor<3x4x!b>) -> tensor<5x4x!c>`.
    """

    name = "quant.concat"
    MOVEMENT: ClassVar = Concat

    inputs = var_operand_def()
    dim = prop_def(IntegerAttr[I64])

    assembly_format = "`dim` `(` $dim `)` $inputs attr-dict `:` functional-type($inputs, $result)"

    def __init__(
        self,
        inputs: Sequence[SSAValue | Operation],
        dim: int,
        result_type: Attribute | None = None,
    ):
        """Raises what `infer_result_type` raises."""
        self._init(Concat(dim), inputs, result_type, is_variadic=True)


@irdl_op_definition
class BroadcastInDimOp(UnaryShapeOp):
    """
    Repeat: axis `k` of the operand is axis `dims[k]` of the result.

    The length of the axis is kept or it is one, and the other axes of the result are new:
    https://openxla.org/stablehlo/spec#broadcast_in_dim.
    `quant.broadcast_in_dim %w dims = [0, 2] : tensor<4x1x!a> to tensor<4x3x8x!b>`.
    """

    name = "quant.broadcast_in_dim"
    MOVEMENT: ClassVar = BroadcastInDim

    dims = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$input `dims` `=` $dims attr-dict `:` type($input) `to` type($result)"

    def __init__(
        self,
        input: SSAValue | Operation,
        dims: Sequence[int],
        shape: Sequence[int],
        result_type: Attribute | None = None,
    ):
        """Raises what `infer_result_type` raises."""
        self._init(BroadcastInDim(tuple(dims), tuple(shape)), [input], result_type)


@irdl_op_definition
class ReverseOp(UnaryShapeOp):
    """
    The axes `dims` from back to front.

    `quant.reverse %w dims = [0] : tensor<4x4x!a> to tensor<4x4x!b>`.
    """

    name = "quant.reverse"
    MOVEMENT: ClassVar = Reverse

    dims = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$input `dims` `=` $dims attr-dict `:` type($input) `to` type($result)"

    def __init__(
        self,
        input: SSAValue | Operation,
        dims: Sequence[int],
        result_type: Attribute | None = None,
    ):
        """Raises what `infer_result_type` raises."""
        self._init(Reverse(tuple(dims)), [input], result_type)


@irdl_op_definition
class PadOp(UnaryShapeOp):
    """
    Real zero around the operand: `low[k]` positions before axis `k`, `high[k]` after it.

    A new position reads the slot of the nearest edge, and holds its zero point.
    `quant.pad %w low = [0, 1] high = [0, 1] : tensor<2x2x!a> to tensor<2x4x!b>`.
    """

    name = "quant.pad"
    MOVEMENT: ClassVar = Pad

    low = prop_def(DenseArrayBase.constr(i64))
    high = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$input `low` `=` $low `high` `=` $high attr-dict `:` type($input) `to` type($result)"
    )

    def __init__(
        self,
        input: SSAValue | Operation,
        low: Sequence[int],
        high: Sequence[int],
        result_type: Attribute | None = None,
    ):
        """Raises what `infer_result_type` raises."""
        self._init(Pad(tuple(low), tuple(high)), [input], result_type)

    @override
    def verify_(self) -> None:
        super().verify_()
        type = uniform_tensor(self.result.type)
        if not type.has_static_shape():
            return
        quantized = type.element_type
        low, high = quantized.storage_type_min, quantized.storage_type_max
        parameters = quantized.parameters_on(type.get_shape())
        for _, padded in cast(Pad, self.movement).new_positions(parameters):
            zero_points = padded.cut_zero_points
            outside = zero_points[(zero_points < low) | (zero_points > high)]
            if outside.size:
                raise VerifyException(
                    f"'{self.name}' op cannot pad with zero point {outside[0]}, which is "
                    f"outside the storage range [{low}, {high}]"
                )
