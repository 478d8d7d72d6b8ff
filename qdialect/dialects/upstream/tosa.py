"""
The ops of MLIR's tosa dialect that move elements, hold constants, or cast.

Generic form, accepted types and messages are upstream's as of LLVM 22:
https://mlir.llvm.org/docs/Dialects/TOSA/. In particular, per-axis and sub-channel types may
differ between operand and result of most ops. `tosa_table` has the syntax of all other ops.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I1,
    I32,
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    ShapedType,
    Signedness,
    TensorType,
    UnrankedTensorType,
    UnregisteredOp,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    param_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.storage import StoredType, element_type_of
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.dialects.upstream.tosa_syntax import KEYWORD_ATTRIBUTES, TosaSyntax
from qdialect.dialects.upstream.tosa_table import TABLED_OPS
from qdialect.ir.errors import errors_of
from qdialect.ir.value_types import (
    ValueKind,
    is_static,
    shape_of,
    tensor_element_type,
    verify_value_types,
)
from qdialect.ir.xdsl_private import rebuilt
from qdialect.ops.identities import unmoved_operand
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.movement import Shape

_STORAGE_WIDTHS = (4, 8, 16, 32)
_MAX_RANK = 2**31 - 1


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """`!tosa.shape<N>`: N integers, known at compile time."""

    name = "tosa.shape"

    rank: IntAttr = param_def(converter=IntAttr.get)

    @classmethod
    @override
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            position = parser.pos
            rank = parser.parse_integer(allow_boolean=False)
            if rank > _MAX_RANK:
                parser.raise_error("integer value too large", position)
            return [IntAttr(rank)]

    @override
    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.rank.data))

    @override
    def verify(self) -> None:
        if self.rank.data < 0:
            raise VerifyException(f"invalid rank (must be >= 0): {self.rank.data}")


# Constraints on operands and results


def _is_plain_number(type: Attribute) -> bool:
    if isinstance(type, IntegerType):
        return cast(IntegerType, type).signedness.data is not Signedness.SIGNED
    return isinstance(type, AnyFloat)


def _is_tensor_of_numbers(type: Attribute) -> bool:
    if not isinstance(type, TensorType | UnrankedTensorType):
        return False
    element_type = tensor_element_type(cast(Attribute, type))
    if isinstance(element_type, StoredType):
        is_number = element_type.storage_type.bitwidth in _STORAGE_WIDTHS
    else:
        is_number = _is_plain_number(element_type)
    return is_number and 0 not in (shape_of(cast(Attribute, type)) or ())


def _has_rank(type: Attribute, *ranks: int) -> bool:
    """Whether a tensor is unranked or has one of `ranks`."""
    shape = shape_of(type)
    return shape is None or len(shape) in ranks


def _is_pad_const(type: Attribute) -> bool:
    shape = shape_of(type)
    if shape is None:
        return _is_tensor_of_numbers(type) and _is_plain_number(tensor_element_type(type))
    return _is_tensor_of_numbers(type) and shape == (1,)


def _is_indices(type: Attribute) -> bool:
    if shape_of(type) is None:
        return _is_tensor_of_numbers(type)
    is_index = tensor_element_type(type) in (IntegerType(32), IntegerType(64))
    return is_index and _is_tensor_of_numbers(type) and _has_rank(type, 2)


_SHAPE: Final = ValueKind(
    "Shape with static rank and Index element type", lambda type: isinstance(type, ShapeType)
)
_NUMBERS: Final = ValueKind("tosa-conformant tensor of number values", _is_tensor_of_numbers)
_AXES: Final = ValueKind(
    "tosa-conformant tensor of at least rank 1",
    lambda type: _is_tensor_of_numbers(type) and shape_of(type) != (),
)
_THREE_AXES: Final = ValueKind(
    "3-d tosa-conformant tensor",
    lambda type: _is_tensor_of_numbers(type) and _has_rank(type, 3),
)
_INDICES: Final = ValueKind(
    "tosa-conformant unranked tensor of number values or 2D tensor of 32-bit signless "
    "integer or 64-bit signless integer values",
    _is_indices,
)
_PAD_CONST: Final = ValueKind(
    "tosa-conformant unranked tensor of unsigned integer or signless integer or "
    "floating-point values or tosa-conformant scalar tensor of number values",
    _is_pad_const,
)


# The base class of the ops, and shared checks


class TosaOp(TosaSyntax, ABC):
    """Base class of the ops, with their syntax and the checks that they share."""

    KINDS: ClassVar[Sequence[ValueKind]]
    """The constraints on the operands, then the result."""

    traits = traits_def(Pure())

    @override
    def verify_(self) -> None:
        with errors_of(self):
            self._verify_types()
            self._verify_shapes_are_known()
            self._verify_meaning()

    def _verify_types(self) -> None:
        verify_value_types(self, self.KINDS)

    def _verify_shapes_are_known(self) -> None:
        for operand in self.operands:
            if isinstance(operand.type, ShapeType) and not _is_made_by_tosa(operand):
                raise VerifyException("shape operand is not compile time resolvable")

    def _verify_meaning(self) -> None:
        """Raise VerifyException, without the name of the op, for errors specific to the op."""


def _is_made_by_tosa(value: SSAValue) -> bool:
    owner = value.owner
    if not isinstance(owner, Operation):
        return False
    # The op may be unregistered.
    name = owner.op_name.data if isinstance(owner, UnregisteredOp) else owner.name
    return name.startswith("tosa.")


def _verify_same_element_type(operand: SSAValue, result: SSAValue) -> None:
    """Raise VerifyException if the element types differ and upstream compares them."""
    types = tensor_element_type(operand.type), tensor_element_type(result.type)
    if types[0] != types[1] and all(map(_is_compared, types)):
        raise VerifyException(
            f"expect input and output to have same element type, got '{types[0]}' and '{types[1]}'"
        )


def _is_compared(type: Attribute) -> bool:
    if isinstance(type, UniformQuantizedType):
        return type.granularity is Granularity.PER_TENSOR
    return _is_plain_number(type)


def _rank_of(shape: SSAValue) -> int:
    return cast(ShapeType, shape.type).rank.data


def _values_of(shape: SSAValue) -> NDArray[np.int64] | None:
    """The integers of a shape; None if it is not a constant."""
    if not isinstance(constant := shape.owner, ConstShapeOp):
        return None
    return np.broadcast_to(constant.integers, _rank_of(shape))


# Ops


@irdl_op_definition
class ConstOp(TosaSyntax, HasFolderInterface):
    """
    A constant tensor; if it is quantized, `values` holds its storage integers.

    `"tosa.const"() <{values = dense<1> : tensor<2xui8>}> : () -> tensor<2x!u>`: the integers
    are `uiN` for unsigned storage.
    https://mlir.llvm.org/docs/Dialects/TOSA/#tosaconst-mlirtosaconstop.
    """

    name = "tosa.const"

    values = prop_def()
    output = result_def()

    traits = traits_def(Pure(), ConstantLike())

    @property
    @override
    def has_custom_form(self) -> bool:
        """Never: LLVM 22 has none."""
        return False

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return (self.values,)

    @override
    def verify_(self) -> None:
        with errors_of(self):
            self._verify_values()

    def _verify_values(self) -> None:
        # Checked by hand: the message of a property constraint would print the value.
        values, output = self.values, self.output.type
        if not isinstance(values, DenseIntOrFPElementsAttr | DenseResourceAttr):
            raise VerifyException(
                "attribute 'values' failed to satisfy constraint: constant vector/tensor attribute"
            )
        held = cast(Attribute, cast(DenseResourceAttr, values).type)
        if not _NUMBERS.accepts(output):
            raise VerifyException(f"result #0 must be {_NUMBERS.description}, but got '{output}'")
        if cast(ShapedType, held).get_shape() != shape_of(output):
            raise VerifyException("failed to verify that all of {values, output} have same shape")
        if not isinstance(held, TensorType):
            raise VerifyException("expected tensors for attr/result type")
        element_type = tensor_element_type(output)
        if isinstance(element_type, StoredType):
            element_type = element_type_of(element_type)
        if tensor_element_type(cast(Attribute, held)) != element_type:
            raise VerifyException("expected same attr/result element types")


@irdl_op_definition
class ConstShapeOp(TosaOp, HasFolderInterface):
    """
    The integers of a shape.

    `tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>`.
    https://mlir.llvm.org/docs/Dialects/TOSA/#tosaconst_shape-mlirtosaconstshapeop.
    """

    name = "tosa.const_shape"
    KINDS: ClassVar = (_SHAPE,)

    values = prop_def()
    output = result_def()

    traits = traits_def(ConstantLike())

    @property
    def integers(self) -> NDArray[np.int64]:
        """The integers: a read-only view; of one element if it is a splat."""
        values = cast(DenseIntOrFPElementsAttr[IndexType], self.values)
        return np.frombuffer(values.data.data, dtype="<i8")

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return (self.values,)

    @override
    def _verify_types(self) -> None:
        values = self.values
        if not isinstance(values, DenseIntOrFPElementsAttr) or not isinstance(
            cast(DenseIntOrFPElementsAttr[Any], values).get_element_type(), IndexType
        ):
            raise VerifyException(
                "attribute 'values' failed to satisfy constraint: index elements attribute"
            )
        super()._verify_types()

    @override
    def _verify_meaning(self) -> None:
        shape = cast(DenseIntOrFPElementsAttr[IndexType], self.values).get_shape()
        if len(shape) != 1:
            raise VerifyException("expect elements in attribute values with rank 1")
        if shape[0] != _rank_of(self.output):
            raise VerifyException(
                f"expect number of elements in attribute values ({shape[0]}) to be equal to "
                f"the rank ({_rank_of(self.output)}) for the result shape type"
            )


class MovementOp(TosaOp, HasFolderInterface, ABC):
    """Base class of the ops that fold if they move nothing."""

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """`f(x) = x` and `g(f(x)) = x`, if no element moves and the type is the same."""
        operand = unmoved_operand(self)
        return None if operand is None else (operand,)


@irdl_op_definition
class TransposeOp(MovementOp):
    """
    Permute axes: axis `k` of the result is axis `perms[k]` of the operand.

    `tosa.transpose %x {perms = array<i32: 1, 0>} : (tensor<2x3x!q>) -> tensor<3x2x!q>`.
    https://mlir.llvm.org/docs/Dialects/TOSA/#tosatranspose-mlirtosatransposeop.
    """

    name = "tosa.transpose"
    KINDS: ClassVar = (_AXES, _AXES)

    input1 = operand_def()
    perms = prop_def(DenseArrayBase[I32])
    output = result_def()

    @override
    def _verify_meaning(self) -> None:
        input, output = self.input1.type, self.output.type
        if tensor_element_type(input) != tensor_element_type(output):
            raise VerifyException(
                "failed to verify that all of {input1, output} have same element type"
            )
        permutation = self.perms.get_values()
        shape, output_shape = shape_of(input), shape_of(output)
        if shape is not None and len(shape) != len(permutation):
            raise VerifyException(
                f"expected perms attribute to have size {len(shape)} (input rank) "
                f"but got size {len(permutation)}"
            )
        if output_shape is not None and len(output_shape) != len(permutation):
            raise VerifyException(
                f"expected perms attribute to have size {len(output_shape)} (output rank) "
                f"but got size {len(permutation)}"
                if shape is None
                else "expected input tensor rank to equal result tensor rank"
            )
        if sorted(permutation) != list(range(len(permutation))):
            raise VerifyException("expected valid permutation indices")
        if shape is not None and output_shape is not None:
            self._verify_lengths(shape, output_shape)

    def _verify_lengths(self, input: Shape, output: Shape) -> None:
        counts = math.prod(input), math.prod(output)
        if is_static(input) and is_static(output) and counts[0] != counts[1]:
            raise VerifyException(
                "expected input1 and output to have same numbers of elements, "
                f"got {counts[0]} and {counts[1]}"
            )
        for axis, (moved, declared) in enumerate(zip(self.perms.get_values(), output, strict=True)):
            length = input[moved]
            if DYNAMIC_INDEX not in (length, declared) and length != declared:
                raise VerifyException(
                    f"expected output tensor dim {axis} to match input dim {moved} with value of "
                    f"{length}"
                )


@irdl_op_definition
class ReshapeOp(MovementOp):
    """
    The same elements in row-major order, with another shape; -1 stands for the inferred length.

    `tosa.reshape %x, %shape : (tensor<2x3x!q>, !tosa.shape<1>) -> tensor<6x!q>`.
    https://mlir.llvm.org/docs/Dialects/TOSA/#tosareshape-mlirtosareshapeop.
    """

    name = "tosa.reshape"
    KINDS: ClassVar = (_NUMBERS, _SHAPE, _NUMBERS)

    input1 = operand_def()
    shape = operand_def()
    output = result_def()

    @override
    def _verify_meaning(self) -> None:
        _verify_same_element_type(self.input1, self.output)
        values = _values_of(self.shape)
        if values is not None:
            self._verify_new_shape(values)
        inferred = tensor_element_type(self.input1.type)
        if inferred != tensor_element_type(self.output.type):
            type = TensorType(inferred, self._inferred_shape(values))
            raise VerifyException(
                f"inferred type(s) '{type}' are incompatible with return type(s) of operation "
                f"'{self.output.type}'"
            )

    def _verify_new_shape(self, values: NDArray[np.int64]) -> None:
        if np.count_nonzero(values == -1) > 1:
            raise VerifyException("expected at most one target dimension to be -1")
        output = shape_of(self.output.type)
        if output is None:
            return
        if len(values) != len(output):
            raise VerifyException("new shape does not match result rank")
        lengths = cast(list[int], values.tolist())
        for new, declared in zip(lengths, output, strict=True):
            if new not in (-1, DYNAMIC_INDEX, declared) and declared != DYNAMIC_INDEX:
                raise VerifyException("new shape is inconsistent with result shape")
            if new < -1 and new != DYNAMIC_INDEX:
                raise VerifyException(f"new shape has invalid tensor dimension size {new}")
        input = shape_of(self.input1.type)
        if input is not None and is_static(input):
            _verify_element_count(math.prod(input), lengths, output)

    def _inferred_shape(self, values: NDArray[np.int64] | None) -> list[int]:
        if values is None:
            return [DYNAMIC_INDEX] * _rank_of(self.shape)
        lengths = [
            DYNAMIC_INDEX if value == -1 else value for value in cast(list[int], values.tolist())
        ]
        known = math.prod(length for length in lengths if length != DYNAMIC_INDEX)
        input = shape_of(self.input1.type)
        if input is None or not is_static(input) or not known:
            return lengths
        left = math.prod(input) // known
        return [left if length == DYNAMIC_INDEX else length for length in lengths]


def _verify_element_count(count: int, lengths: Sequence[int], output: Shape) -> None:
    """Raise VerifyException unless `count` elements fit both the new shape and the result's."""
    known = [length for length in lengths if length > 0]
    new_count = math.prod(known)
    is_wrong = new_count != count if len(known) == len(lengths) else new_count > count
    if is_static(output) and math.prod(output) != count:
        is_wrong, new_count = True, math.prod(output)
    if is_wrong:
        raise VerifyException(f"cannot reshape {count} elements into {new_count}")


@irdl_op_definition
class SliceOp(MovementOp):
    """
    `size[k]` positions of axis `k`, from `start[k]` on.

    `tosa.slice %x, %start, %size : (tensor<4x5x!q>, !tosa.shape<2>, !tosa.shape<2>) ->
    tensor<2x3x!q>`. https://mlir.llvm.org/docs/Dialects/TOSA/#tosaslice-mlirtosasliceop.
    """

    name = "tosa.slice"
    KINDS: ClassVar = (_AXES, _SHAPE, _SHAPE, _AXES)

    input1 = operand_def()
    start = operand_def()
    size = operand_def()
    output = result_def()

    @override
    def _verify_meaning(self) -> None:
        _verify_same_element_type(self.input1, self.output)
        input, output = shape_of(self.input1.type), shape_of(self.output.type)
        if input is None:
            return
        if output is not None and len(input) != len(output):
            raise VerifyException(
                "expect input1 and output to have the same ranks, got "
                f"{len(input)} and {len(output)}"
            )
        for end, shape in (("start", self.start), ("size", self.size)):
            if _rank_of(shape) != len(input):
                raise VerifyException(f"length of {end} is not equal to rank of input shape")


@irdl_op_definition
class PadOp(MovementOp):
    """
    Pad with `pad_const`: `padding` holds the widths before and after each axis.

    `tosa.pad %x, %padding, %zero : (tensor<2x3x!q>, !tosa.shape<4>, tensor<1x!q>) ->
    tensor<2x5x!q>`. https://mlir.llvm.org/docs/Dialects/TOSA/#tosapad-mlirtosapadop.
    """

    name = "tosa.pad"
    KINDS: ClassVar = (_AXES, _SHAPE, _PAD_CONST, _AXES)

    input1 = operand_def()
    padding = operand_def()
    pad_const = operand_def()
    output = result_def()

    @override
    def _verify_meaning(self) -> None:
        _verify_same_element_type(self.input1, self.output)
        _verify_same_element_type(self.pad_const, self.output)
        input, output = shape_of(self.input1.type), shape_of(self.output.type)
        if input is None or output is None:
            return
        if len(input) != len(output):
            raise VerifyException(
                "expect same input and output tensor rank, but got "
                f"inputRank: {len(input)}, outputRank: {len(output)}"
            )
        widths = _values_of(self.padding)
        if widths is None:
            return
        if len(widths) != 2 * len(input):
            raise VerifyException(
                f"padding tensor must have {len(input)} * 2 = {2 * len(input)} elements, "
                f"but got {len(widths)}"
            )
        pairs = zip(widths[0::2].tolist(), widths[1::2].tolist(), strict=True)
        for axis, (low, high) in enumerate(pairs):
            _verify_padding(axis, low, high, input[axis], output[axis])


def _verify_padding(axis: int, low: int, high: int, length: int, declared: int) -> None:
    if min(low, high) < -1:
        raise VerifyException(
            f"invalid padding values at dimension {axis}: values must be non-negative or "
            f"-1 for dynamic padding, got [{low}, {high}]"
        )
    if DYNAMIC_INDEX not in (length, declared) and declared != length + low + high:
        raise VerifyException(
            f"mismatch in output shape at dimension {axis}: expected {length} + {low} + "
            f"{high} = {length + low + high}, but got {declared}"
        )


@irdl_op_definition
class ReverseOp(MovementOp):
    """
    The axis `axis` from back to front.

    `tosa.reverse %x {axis = 0 : i32} : (tensor<2x3x!q>) -> tensor<2x3x!q>`.
    https://mlir.llvm.org/docs/Dialects/TOSA/#tosareverse-mlirtosareverseop.
    """

    name = "tosa.reverse"
    KINDS: ClassVar = (_AXES, _AXES)

    input1 = operand_def()
    axis = prop_def(IntegerAttr[I32])
    output = result_def()

    @override
    def _verify_meaning(self) -> None:
        _verify_same_element_type(self.input1, self.output)
        axis = self.axis.value.data
        if axis < 0:
            raise VerifyException("expected non-negative reverse axis")
        input, output = shape_of(self.input1.type), shape_of(self.output.type)
        for end, shape in (("input", input), ("output", output)):
            if shape is None:
                continue
            if input is not None and len(shape) != len(input):
                raise VerifyException("expect output tensor rank to be equal to input tensor rank")
            if axis >= len(shape):
                raise VerifyException(
                    f"expect {end} tensor rank ({len(shape)}) to be larger than reverse "
                    f"axis ({axis})"
                )


@irdl_op_definition
class TileOp(MovementOp):
    """
    Repeat the operand `multiples[k]` times along axis `k`.

    `tosa.tile %x, %multiples : (tensor<2x3x!q>, !tosa.shape<2>) -> tensor<4x9x!q>`.
    https://mlir.llvm.org/docs/Dialects/TOSA/#tosatile-mlirtosatileop.
    """

    name = "tosa.tile"
    KINDS: ClassVar = (_AXES, _SHAPE, _AXES)

    input1 = operand_def()
    multiples = operand_def()
    output = result_def()

    @override
    def _verify_meaning(self) -> None:
        _verify_same_element_type(self.input1, self.output)
        input, output = shape_of(self.input1.type), shape_of(self.output.type)
        rank = _rank_of(self.multiples)
        if input is not None and len(input) != rank:
            raise VerifyException(f"expect 'multiples' to have rank {len(input)} but got {rank}.")
        if output is not None and len(output) != rank:
            raise VerifyException(
                f"expect 'multiples' array to have length {len(output)} but got {rank}."
                if input is None
                else "expect same input and output tensor rank."
            )
        multiples = _values_of(self.multiples)
        if multiples is not None and ((multiples <= 0) & (multiples != -1)).any():
            raise VerifyException("expect element of 'multiples' to be positive integer or -1.")


@irdl_op_definition
class GatherOp(TosaOp):
    """
    `output[n, w, c] = values[n, indices[n, w], c]`.

    `tosa.gather %x, %i : (tensor<1x4x5x!q>, tensor<1x7xi32>) -> tensor<1x7x5x!q>`.
    https://mlir.llvm.org/docs/Dialects/TOSA/#tosagather-mlirtosagatherop.
    """

    name = "tosa.gather"
    KINDS: ClassVar = (_THREE_AXES, _INDICES, _THREE_AXES)

    values = operand_def()
    indices = operand_def()
    output = result_def()

    @override
    def _verify_meaning(self) -> None:
        _verify_same_element_type(self.values, self.output)
        batches, _, channels = shape_of(self.values.type) or (DYNAMIC_INDEX,) * 3
        index_batches, positions = shape_of(self.indices.type) or (DYNAMIC_INDEX,) * 2
        _verify_length("indices", 0, batches, index_batches)
        batches = index_batches if batches == DYNAMIC_INDEX else batches
        output = shape_of(self.output.type) or (DYNAMIC_INDEX,) * 3
        for axis, length in enumerate((batches, positions, channels)):
            _verify_length("output", axis, length, output[axis])


def _verify_length(end: str, axis: int, length: int, declared: int) -> None:
    if DYNAMIC_INDEX not in (length, declared) and length != declared:
        raise VerifyException(
            f"requires {end} dimension {axis} to have size {length}, got {declared}"
        )


@irdl_op_definition
class CastOp(TosaOp, HasFolderInterface):
    """
    Cast each element to another type.

    `tosa.cast %x : (tensor<2x3xf32>) -> tensor<2x3xi8>`.
    https://mlir.llvm.org/docs/Dialects/TOSA/#tosacast-mlirtosacastop.
    """

    name = "tosa.cast"
    KINDS: ClassVar = (_NUMBERS, _NUMBERS)

    input = operand_def()
    input_unsigned = opt_prop_def(IntegerAttr[I1])
    output = result_def()

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """`cast(x) = x`, if the type is the same."""
        return (self.input,) if self.input.type == self.output.type else None

    @override
    def _verify_meaning(self) -> None:
        input, output = shape_of(self.input.type), shape_of(self.output.type)
        if input is None or output is None:
            return
        if len(input) != len(output) or any(
            length != declared and DYNAMIC_INDEX not in (length, declared)
            for length, declared in zip(input, output, strict=True)
        ):
            raise VerifyException("requires the same shape for all operands and results")


@irdl_op_definition
class IdentityOp(TosaOp):
    """
    The operand itself; as upstream, operand and result may differ in type.

    `tosa.identity %x : (tensor<2x3x!q>) -> tensor<2x3x!q>`.
    https://mlir.llvm.org/docs/Dialects/TOSA/#tosaidentity-mlirtosaidentityop.
    """

    name = "tosa.identity"
    KINDS: ClassVar = (_NUMBERS, _NUMBERS)

    input1 = operand_def()
    output = result_def()


TOSA_ADDITIONS = Dialect(
    "tosa",
    [
        ConstOp,
        ConstShapeOp,
        TransposeOp,
        ReshapeOp,
        SliceOp,
        PadOp,
        ReverseOp,
        TileOp,
        GatherOp,
        CastOp,
        IdentityOp,
    ],
    [ShapeType],
)


def with_additions(tosa: Dialect) -> Dialect:
    """
    xDSL's dialect `tosa`, with the ops of this package added.

    They replace xDSL's ops of the same names, which reject some widths and dynamic lengths, and
    lose attributes.
    """
    return rebuilt(
        tosa,
        (*TABLED_OPS, *TOSA_ADDITIONS.operations),
        (*KEYWORD_ATTRIBUTES, *TOSA_ADDITIONS.attributes),
    )
