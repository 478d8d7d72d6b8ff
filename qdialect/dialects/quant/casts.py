"""
The casts of the quant dialect, with upstream's constraints, messages and folds.

https://mlir.llvm.org/docs/Dialects/QuantDialect/#operations. `quant.requantize` is an extension.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, Final, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    Float80Type,
    Float128Type,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant import builder_arguments
from qdialect.dialects.quant.round_trips import UnprovableError, first_change
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.storage import QuantizedType, StoredType
from qdialect.dialects.quant.types import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    UniformQuantizedType,
)
from qdialect.dialects.quant.verification import verified_parts
from qdialect.ir.elements import DenseElementsAttr, floats_attribute
from qdialect.ir.errors import VerifiedByAttributes, VerifiedPart
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.along_axis import BiasScales, bias_scales_of, statistics_of
from qdialect.ops.interface import Refusal, keeping_attribute_of
from qdialect.support.arguments import number_array
from qdialect.support.float_format import Rounding

_FLOATS = "floating-point"
_QUANTIZED = "quantized type"
_INTEGERS_OR_QUANTIZED = "signless integer or quantized type"
_UNIFORM = "uniform quantized type"


def _is_of_kind(type: Attribute, kind: str) -> bool:
    if kind == _FLOATS:
        return isinstance(type, AnyFloat)
    if kind == _UNIFORM:
        return isinstance(type, UniformQuantizedType)
    return isinstance(type, QuantizedType) or (
        kind == _INTEGERS_OR_QUANTIZED
        and isinstance(type, IntegerType)
        and cast(IntegerType, type).signedness.data is Signedness.SIGNLESS
    )


def _have_matching_shapes(one: Attribute, other: Attribute) -> bool:
    """Whether both are scalars, both unranked tensors, or both ranked tensors of one shape."""
    if isinstance(one, TensorType) and isinstance(other, TensorType):
        return one.get_shape() == other.get_shape()
    return isinstance(one, UnrankedTensorType) == isinstance(
        other, UnrankedTensorType
    ) and isinstance(one, TensorType) == isinstance(other, TensorType)


def _verify_fits(quantized: QuantizedType, container: Attribute) -> None:
    if not isinstance(quantized, UniformQuantizedType):
        return
    granularity = quantized.granularity
    if granularity is Granularity.PER_TENSOR:
        return
    if isinstance(container, TensorType):
        quantized.verify_fits(container.get_shape())
    elif not isinstance(container, UnrankedTensorType):
        raise VerifyException(f"scalar types may not use {granularity.value} quantization")
    elif granularity is Granularity.SUB_CHANNEL:
        raise VerifyException("tensor containing the sub-channel quantized type must be ranked")


class CastOp(VerifiedByAttributes, HasFolderInterface, ABC):
    """Base class of the casts: scalar to scalar, or tensor to tensor of the same shape."""

    INPUT_KIND: ClassVar[str]
    RESULT_KIND: ClassVar[str]

    INVERSE: ClassVar[str]
    """The name of the inverse cast."""

    input = operand_def()
    result = result_def()

    traits = traits_def(Pure())

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue | Operation, result_type: Attribute):
        """A cast of `input` to `result_type`. Raises TypeError for arguments of another kind."""
        # As the builder of IRDL would make it of arguments that fit already.
        Operation.__init__(
            self,
            operands=[builder_arguments.operand(input)],
            result_types=[builder_arguments.result_type(result_type)],
        )

    @override
    def verified_attributes(self) -> Sequence[VerifiedPart]:
        return (
            *verified_parts(self.input.type),
            *verified_parts(self.result.type),
            *self.properties.values(),
        )

    @override
    def verify_(self) -> None:
        ends = (
            ("operand", self.input.type, self.INPUT_KIND),
            ("result", self.result.type, self.RESULT_KIND),
        )
        for end, type, kind in ends:
            if not _is_of_kind(element_type_or_self(type), kind):
                raise VerifyException(
                    f"'{self.name}' op {end} #0 must be scalar or tensor of {kind}, "
                    f"but got '{type}'"
                )
        if not _have_matching_shapes(self.input.type, self.result.type):
            raise VerifyException(
                f"'{self.name}' op failed to verify that input and result are both "
                "scalars or both tensors with matching shape"
            )
        self._verify_elements(*map(element_type_or_self, (self.input.type, self.result.type)))

    def _verify_elements(self, input: Attribute, result: Attribute) -> None:
        """Raise VerifyException unless elements of one type can be cast to the other."""
        if isinstance(input, QuantizedType) == isinstance(result, QuantizedType):
            raise VerifyException(
                f"'{self.name}' op failed to verify that input must be integer and "
                "result must be quantized, or vice versa"
            )
        if isinstance(result, QuantizedType):
            input, result = result, input
        assert isinstance(input, QuantizedType)
        self._verify_values(input, result)
        _verify_fits(input, self.input.type)

    def _verify_values(self, quantized: QuantizedType, other: Attribute) -> None:
        assert isinstance(
            quantized, UniformQuantizedType | AnyQuantizedType | CalibratedQuantizedType
        )
        if quantized.expressed_type != other:
            raise VerifyException("expressed type in quantized type expected to match float type")

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """`cast(inverse(x)) = x`, if `x` has the type of the result."""
        first = self.input.owner
        if (
            isinstance(first, CastOp)
            and first.name == self.INVERSE
            and first.input.type == self.result.type
            and keeping_attribute_of(self) is None
            and keeping_attribute_of(first) is None
        ):
            return (first.input,)
        return None


@irdl_op_definition
class QuantizeCastOp(CastOp):
    """
    Quantize floats: `stored = round(x / scale + zero_point)`, clamped to the storage range.

    https://mlir.llvm.org/docs/Dialects/QuantDialect/#quantqcast-quantquantizecastop.
    """

    name = "quant.qcast"
    INPUT_KIND: ClassVar = _FLOATS
    RESULT_KIND: ClassVar = _QUANTIZED
    INVERSE: ClassVar = "quant.dcast"


@irdl_op_definition
class DequantizeCastOp(CastOp):
    """
    Dequantize: `x = (stored - zero_point) * scale`.

    https://mlir.llvm.org/docs/Dialects/QuantDialect/#quantdcast-quantdequantizecastop.
    """

    name = "quant.dcast"
    INPUT_KIND: ClassVar = _QUANTIZED
    RESULT_KIND: ClassVar = _FLOATS
    INVERSE: ClassVar = "quant.qcast"


@irdl_op_definition
class StorageCastOp(CastOp):
    """
    Reinterpret storage integers as quantized values, or the reverse; the bits stay the same.

    https://mlir.llvm.org/docs/Dialects/QuantDialect/#quantscast-quantstoragecastop.
    """

    name = "quant.scast"
    INPUT_KIND: ClassVar = _INTEGERS_OR_QUANTIZED
    RESULT_KIND: ClassVar = _INTEGERS_OR_QUANTIZED
    INVERSE: ClassVar = "quant.scast"

    @override
    def _verify_values(self, quantized: QuantizedType, other: Attribute) -> None:
        if not isinstance(quantized, StoredType) or quantized.storage_type != other:
            raise VerifyException("storage type in quantized type expected to match integer type")


@irdl_op_definition
class RequantizeOp(CastOp):
    """
    Requantize: `qcast(dcast(x))` to other parameters, or another storage.

    An extension. `canonicalize` drops a `dcast` of a `qcast`, which may merge two such pairs of
    casts; it keeps requantizations, except those that change no integer. `rounding` is the value of
    a `Rounding`; by default that of `qcast`.
    """

    name = "quant.requantize"
    INPUT_KIND: ClassVar = _UNIFORM
    RESULT_KIND: ClassVar = _UNIFORM
    INVERSE: ClassVar = ""

    rounding = opt_prop_def(StringAttr)

    irdl_options = (ParsePropInAttrDict(),)

    def __init__(
        self,
        input: SSAValue | Operation,
        result_type: Attribute,
        rounding: Rounding = Rounding.NEAREST_EVEN,
    ):
        """A requantization of `input` to `result_type`. Raises TypeError, as the casts do."""
        super().__init__(input, result_type)
        if rounding is not Rounding.NEAREST_EVEN:
            self.rounding = StringAttr(rounding.value)

    @override
    def verify_(self) -> None:
        super().verify_()
        values = [rounding.value for rounding in Rounding]
        if self.rounding is not None and self.rounding.data not in values:
            raise VerifyException(
                f"'{self.name}' op 'rounding' must be one of {', '.join(values)}, but is "
                f"'{self.rounding.data}'"
            )
        result = element_type_or_self(self.result.type)
        reason = result.non_integers if isinstance(result, StoredType) else None
        if reason is not None and rounding_of(self) is not Rounding.NEAREST_EVEN:
            raise VerifyException(f"'{self.name}' op has a 'rounding', but {reason}")

    @override
    def _verify_elements(self, input: Attribute, result: Attribute) -> None:
        ends = [
            (end, cast(UniformQuantizedType, element_type_or_self(end.type)))
            for end in (self.input, self.result)
        ]
        (_, one), (_, other) = ends
        if one.expressed_type != other.expressed_type:
            raise VerifyException(
                f"'{self.name}' op failed to verify that operand and result express the same "
                f"type, but they express '{one.expressed_type}' and '{other.expressed_type}'"
            )
        for value, type in ends:
            _verify_fits(type, value.type)

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """`requantize(x) = x`, if that holds for every integer of the types."""
        if self.input.type != self.result.type or keeping_attribute_of(self) is not None:
            return None
        type = cast(UniformQuantizedType, element_type_or_self(self.input.type))
        # Quantized elements are in the storage range; integers may not be.
        is_in_range = isinstance(self.input.owner, QuantizeCastOp | RequantizeOp)
        try:
            change = first_change(type, rounding_of(self), is_in_range=is_in_range)
        except UnprovableError:
            return None
        return (self.input,) if change is None else None


def is_rounding(op: Operation) -> bool:
    """Whether an op dequantizes what was just quantized, for an op that reads the result."""
    return (
        isinstance(op, DequantizeCastOp)
        and isinstance(op.input.owner, QuantizeCastOp)
        and op.result.first_use is not None
    )


def rounding_of(op: Operation) -> Rounding:
    """
    The rounding of a cast to storage integers: that of `qcast`, unless the op specifies another.
    """
    rounding = op.rounding if isinstance(op, RequantizeOp) else None
    return Rounding.NEAREST_EVEN if rounding is None else Rounding(rounding.data)


_WIDTHS: Final = range(33, 65)


@irdl_op_definition
class DequantizeBiasOp(VerifiedByAttributes):
    """
    Dequantize a bias of 33 to 64 bits: `x = stored * scale`.

    With 16-bit activations, the product of scales is so small that a 32-bit bias may overflow, and
    quantized types store at most 32 bits. `scales` holds one scale, or one for each position of
    `axis`. The product is computed in f64, and rounded to the result's type.
    """

    name = "quant.dequantize_bias"

    input = operand_def()
    result = result_def()

    scales = prop_def(DenseElementsAttr)
    axis = opt_prop_def(IntegerAttr[I64])

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    INTEGERS: ClassVar = "ranked tensor of signless integers of 33 to 64 bits"

    def __init__(
        self,
        input: SSAValue | Operation,
        result_type: Attribute,
        scales: object,
        axis: int | None = None,
    ):
        """
        Dequantize integers: by one scale, or by one for each position of `axis`.

        Raises TypeError and ValueError for arguments of another kind.
        """
        super().__init__(
            operands=[builder_arguments.operand(input)],
            result_types=[builder_arguments.result_type(result_type)],
            properties={
                "scales": floats_attribute(number_array("scales", scales).reshape(-1)),
                "axis": None if axis is None else IntegerAttr(axis, i64),
            },
        )

    @property
    def scales_of_elements(self) -> BiasScales:
        """The scales as numbers. Raises Refusal if they are invalid."""
        return bias_scales_of(self, cast("TensorType[Attribute]", self.input.type).get_shape())

    @override
    def verify_(self) -> None:
        input, result = self.input.type, self.result.type
        elements = element_type_or_self(input), element_type_or_self(result)
        if not isinstance(input, TensorType) or not _is_wide(elements[0]):
            raise VerifyException(
                f"'{self.name}' op operand #0 must be {self.INTEGERS}, but got '{input}'"
            )
        if not isinstance(result, TensorType) or not _is_computed(elements[1]):
            raise VerifyException(
                f"'{self.name}' op result #0 must be ranked tensor of floats of at most 64 bits, "
                f"but got '{result}'"
            )
        if input.get_shape() != result.get_shape():
            raise VerifyException(
                f"'{self.name}' op failed to verify that operand and result have the same shape"
            )
        try:
            _ = self.scales_of_elements
        except Refusal as error:
            raise VerifyException(f"'{self.name}' op {error}") from None


def _is_wide(type: Attribute) -> bool:
    if not isinstance(type, IntegerType):
        return False
    integer = cast(IntegerType, type)
    return integer.signedness.data is Signedness.SIGNLESS and integer.bitwidth in _WIDTHS


def _is_computed(type: Attribute) -> bool:
    return isinstance(type, AnyFloat) and not isinstance(type, Float80Type | Float128Type)


@irdl_op_definition
class StatisticsOp(VerifiedByAttributes):
    """
    Return a tensor of floats, with its recorded ranges.

    `layerStats` holds the minimum and the maximum, as a dense tensor of shape [2]. `axisStats`, of
    shape [N, 2], holds one range for each of the N positions of `axis`. `key` names the record, and
    `count` is the number of records in it. A minimum may equal its maximum. The op is not pure, so
    that no pass drops it unasked.

    The first three attributes are those of TensorFlow's op,
    https://github.com/tensorflow/tensorflow, `quantization/common/ir/QuantOps.td`.
    """

    name = "quant.stats"

    T: ClassVar = VarConstraint("T", AnyAttr())

    input = operand_def(T)
    result = result_def(T)

    layer_stats = prop_def(DenseElementsAttr, prop_name="layerStats")
    axis_stats = opt_prop_def(DenseElementsAttr, prop_name="axisStats")
    axis = opt_prop_def(IntegerAttr[I64])
    key = opt_prop_def(StringAttr)
    count = opt_prop_def(IntegerAttr[I64])

    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = "$input attr-dict `:` type($input)"

    def __init__(
        self,
        input: SSAValue | Operation,
        layer_stats: DenseElementsAttr,
        axis_stats: DenseElementsAttr | None = None,
        axis: int | None = None,
        *,
        key: str | None = None,
        count: int | None = None,
    ):
        """The ranges of one value. Raises TypeError for an operand of another kind."""
        value = builder_arguments.operand(input)
        super().__init__(
            operands=[value],
            result_types=[value.type],
            properties={
                "layerStats": layer_stats,
                "axisStats": axis_stats,
                "axis": None if axis is None else IntegerAttr(axis, i64),
                "key": None if key is None else StringAttr(key),
                "count": None if count is None else IntegerAttr(count, i64),
            },
        )

    @override
    def verify_(self) -> None:
        type = self.input.type
        if type == (element_type := element_type_or_self(type)) or not isinstance(
            element_type, AnyFloat
        ):
            raise VerifyException(
                f"'{self.name}' op operand #0 must be tensor of floating-point values, "
                f"but got '{type}'"
            )
        shape = type.get_shape() if isinstance(type, TensorType) else None
        try:
            statistics_of(self, shape)
        except Refusal as error:
            raise VerifyException(f"'{self.name}' op {error}") from None
        if self.key is not None and not self.key.data:
            raise VerifyException(f"'{self.name}' op 'key' must not be empty")
        if self.count is not None and self.count.value.data < 1:
            raise VerifyException(f"'{self.name}' op 'count' must be at least 1")
