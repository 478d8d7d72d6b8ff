"""
The shape ops of the quant dialect, which move elements together with their slots.

Each op defines a `Movement` and its syntax; everything else is shared. The result type must
mean `p . f`: every element keeps its scale and zero point, however the types are spelled. A
builder without a result type infers the coarsest type with that meaning.
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

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import (
    DYNAMIC,
    BroadcastInDim,
    Movement,
    MovementError,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Take,
    Transpose,
)
from qdialect.algebra.padding import Pad
from qdialect.dialects.quant import builder_arguments
from qdialect.dialects.quant.types import QuantizedTensor, uniform_tensor
from qdialect.dialects.quant.verification import verify_fits, verify_result, verify_same_values
from qdialect.ir.errors import VerifiedByAttributes
from qdialect.ops.fields import Movements, ShapeOpInterface
from qdialect.ops.interface import integers_of_array
from qdialect.ops.model import imported
from qdialect.ops.reading import unmoved_operand
from qdialect.support.arguments import check_instance, integer, integers
from qdialect.support.memory import BoundedCache, registered_cache


def infer_result_type(
    movement: Movement, operands: Sequence[SSAValue | Operation]
) -> QuantizedTensor:
    """
    The coarsest result type of `movement`, applied to operands of static shape.

    Raises TypeError for arguments of another kind; VerifyException if the shape of an operand
    is not static, its type is not a uniform quantized type that fits the shape, or the operands
    differ in storage; MovementError if the movement is invalid for the shapes;
    TooManySlotsError if the type has too many slots to be spelled.
    """
    check_instance("movement", movement, Movement, "Transpose((1, 0))")
    values = builder_arguments.operands(operands)
    types = [_static_operand_type(number, value) for number, value in enumerate(values)]
    shape = _static_result_shape(movement, [type.get_shape() for type in types])
    first, *others = (type.element_type for type in types)
    for other in others:
        verify_same_values(first, other, "operands")
    moved = movement(*(type.element_type.parameters_on(type.get_shape()) for type in types))
    return TensorType(first.with_parameters(moved), shape)


def _static_result_shape(movement: Movement, operands: Sequence[Shape]) -> Shape:
    """Raises MovementError."""
    try:
        shape = movement.result_shape(*operands)
    except MovementError:
        raise
    except ValueError as error:
        name = type(movement).__name__
        raise MovementError(f"{name} does not move {len(operands)} operands: {error}") from None
    if DYNAMIC in shape:
        raise MovementError("the result has a dynamic shape: give a result type")
    return shape


def _static_operand_type(number: int, operand: SSAValue) -> QuantizedTensor:
    """Raises VerifyException."""
    try:
        type = uniform_tensor(operand.type)
    except VerifyException as error:
        raise VerifyException(f"operand #{number} {error}") from None
    if not type.has_static_shape():
        raise VerifyException(f"operand #{number} has a dynamic shape: give a result type")
    verify_fits(type, f"operand #{number}")
    return type


def _to_property(value: Any) -> Attribute:
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    return DenseArrayBase.from_list(i64, cast(Sequence[int], value))


def _from_property(attribute: Attribute) -> object:
    if isinstance(attribute, IntegerAttr):
        return attribute.value.data
    return integers_of_array(cast("DenseArrayBase[I64]", attribute))


@registered_cache
@cache
def _fields_of(movement: type[Movement]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(movement))


@registered_cache
@cache
def _properties_of(movement: type[Movement]) -> tuple[str, ...]:
    return tuple(name for name in _fields_of(movement) if name != "shape")


# Keyed by id, since equal attributes are mostly one object. The entry holds the attributes, so
# that no other object can reuse their ids.
_KNOWN_MOVEMENTS = BoundedCache[tuple[object, ...], tuple[Movement, Sequence[Attribute]]]()


class ShapeOp(
    VerifiedByAttributes,
    HasFolderInterface,
    HasCanonicalizationPatternsInterface,
    ShapeOpInterface,
    ABC,
):
    """
    Base class of the shape ops.

    Each field of the movement is the property of the op with the same name: `i64` for an
    integer, `array<i64>` for a sequence. The field `shape` is the shape of the result, and not
    a property.
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
        values = builder_arguments.operands(operands)
        if result_type is None:
            result_type = infer_result_type(movement, values)
        super().__init__(
            operands=[values] if is_variadic else values,
            result_types=[builder_arguments.result_type(result_type)],
            properties=self._spelled(movement),
        )

    @classmethod
    def of_movement(
        cls, movement: Movement, operands: Sequence[SSAValue], result_type: Attribute
    ) -> Self:
        """An op of this class that does `movement`, an instance of `MOVEMENT`."""
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
        """The movement of this op with the result shape `shape`. Raises MovementError."""
        names = _properties_of(self.MOVEMENT)
        attributes = [self.properties[name] for name in names]
        key = (self.MOVEMENT, shape, *map(id, attributes))
        if (known := _KNOWN_MOVEMENTS.get(key)) is not None:
            return known[0]
        values: dict[str, Any] = dict(zip(names, map(_from_property, attributes), strict=True))
        if len(names) < len(_fields_of(self.MOVEMENT)):
            values["shape"] = shape
        movement = self.MOVEMENT(**values)
        return _KNOWN_MOVEMENTS.add(key, (movement, attributes), movement.size)[0]

    @property
    def movement(self) -> Movement:
        """The movement of this op. Raises MovementError."""
        (result,) = self.results
        return self.movement_to(uniform_tensor(result.type).get_shape())

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
            verify_result(self.movement_to(result.get_shape()), operands, result)
        except (MovementError, VerifyException) as error:
            raise VerifyException(f"'{self.name}' op {error}") from None

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """`f(x) = x` and `g(f(x)) = x`, if no element moves and the type is the same."""
        operand = unmoved_operand(self)
        return None if operand is None else (operand,)

    @classmethod
    @override
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        # By name: xDSL asks ops for patterns, and the fold, which knows the ops, is above them.
        return imported("qdialect.folding.canonicalization:PATTERNS")


class UnaryShapeOp(ShapeOp, ABC):
    """Base class of the shape ops with one operand."""

    input = operand_def()


@irdl_op_definition
class TransposeOp(UnaryShapeOp):
    """
    Permute axes: axis `k` of the result is axis `permutation[k]` of the operand.

    `quant.transpose %w permutation = [1, 0] : tensor<2x3x!a> to tensor<3x2x!b>`.
    """

    name = "quant.transpose"
    MOVEMENT: ClassVar = Transpose

    # The name must be that of the field of `Transpose`: the name alone connects the two.
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
        """Infers a missing result type. Raises as `infer_result_type`."""
        self._init(Transpose(integers("permutation", permutation)), [input], result_type)


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
        """Infers a missing result type. Raises as `infer_result_type`."""
        self._init(Reshape(integers("shape", shape)), [input], result_type)


@irdl_op_definition
class SliceOp(UnaryShapeOp):
    """
    `sizes[k]` positions of axis `k`: every `strides[k]`-th one, from `offsets[k]` on.

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
        """Infers a missing result type. Raises as `infer_result_type`."""
        movement = Slice(
            integers("offsets", offsets), integers("sizes", sizes), integers("strides", strides)
        )
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
        """Infers a missing result type. Raises as `infer_result_type`."""
        self._init(Concat(integer("dim", dim)), inputs, result_type, is_variadic=True)


@irdl_op_definition
class BroadcastInDimOp(UnaryShapeOp):
    """
    Repeat elements along axes: axis `k` of the operand is axis `dims[k]` of the result.

    An axis of length one may be repeated, other axes keep their lengths, and axes of the result
    that are not in `dims` are new: https://openxla.org/stablehlo/spec#broadcast_in_dim.
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
        """Infers a missing result type. Raises as `infer_result_type`."""
        movement = BroadcastInDim(integers("dims", dims), integers("shape", shape))
        self._init(movement, [input], result_type)


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
        """Infers a missing result type. Raises as `infer_result_type`."""
        self._init(Reverse(integers("dims", dims)), [input], result_type)


@irdl_op_definition
class GatherOp(UnaryShapeOp):
    """
    The positions `indices` of axis `dim`, in this order and with repetitions.

    `quant.gather %w [2, 0, 0] dim(0) : tensor<3x4x!a> to tensor<3x4x!b>`.
    """

    name = "quant.gather"
    MOVEMENT: ClassVar = Take

    indices = prop_def(DenseArrayBase.constr(i64))
    dim = prop_def(IntegerAttr[I64])

    assembly_format = (
        "$input $indices `dim` `(` $dim `)` attr-dict `:` type($input) `to` type($result)"
    )

    def __init__(
        self,
        input: SSAValue | Operation,
        indices: Sequence[int],
        dim: int,
        result_type: Attribute | None = None,
    ):
        """Infers a missing result type. Raises as `infer_result_type`."""
        self._init(Take(integer("dim", dim), integers("indices", indices)), [input], result_type)


@irdl_op_definition
class PadOp(UnaryShapeOp):
    """
    Pad with real zero: `low[k]` positions before and `high[k]` after axis `k`.

    A new position reads the slot of the nearest edge, and stores its zero point.
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
        """Infers a missing result type. Raises as `infer_result_type`."""
        self._init(Pad(integers("low", low), integers("high", high)), [input], result_type)

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
            try:
                zeros = padded.storage.zeros(padded.cut_zero_points)
            except ValueError as error:
                raise VerifyException(f"'{self.name}' op cannot pad: {error}") from None
            if (outside := padded.storage.first_outside(zeros, low, high)) is not None:
                raise VerifyException(
                    f"'{self.name}' op cannot pad with zero point "
                    f"{padded.cut_zero_points[outside]}, which is outside the storage range "
                    f"[{low}, {high}]"
                )
