"""
The conversions of `arith` on tensors.

xDSL has them for scalars only, and folds none of them; MLIR's convert each element too:
https://mlir.llvm.org/docs/Dialects/ArithOps/.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from types import UnionType
from typing import ClassVar, cast

from typing_extensions import override
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    Float80Type,
    Float128Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    UnrankedTensorType,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.lazy_numpy import np
from qdialect.ir.value_types import element_type_or_self, shape_of


class ConversionOp(IRDLOperation, HasFolderInterface, ABC):
    """Base of the conversions: of a scalar, or of each element of a tensor."""

    FROM: ClassVar[type[IntegerType] | UnionType]
    TO: ClassVar[type[IntegerType] | UnionType]
    IS_SIGNED: ClassVar[bool]
    """Whether the integers are."""

    input = operand_def()
    result = result_def()

    @override
    def verify_(self) -> None:
        input, result = self.input.type, self.result.type
        if (
            not _is_element(element_type_or_self(input), self.FROM)
            or not _is_element(element_type_or_self(result), self.TO)
            or _container(input) != _container(result)
        ):
            raise VerifyException(
                f"'{self.name}' op operand type '{input}' and result type '{result}' are "
                "cast incompatible"
            )

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """The constant that a scalar constant is converted to, if that is defined."""
        constant = ConstantLike.get_constant_value(self.input)
        folded = None
        if isinstance(constant, FloatAttr) and isinstance(self.result.type, IntegerType):
            folded = self._integer(constant.value.data, cast(IntegerType, self.result.type))
        elif isinstance(constant, IntegerAttr) and isinstance(self.result.type, AnyFloat):
            folded = self._float(cast(IntegerAttr[IntegerType], constant), self.result.type)
        return None if folded is None else (folded,)

    def _integer(self, value: float, type: IntegerType) -> IntegerAttr | None:
        """`value` without what is behind its point, if `type` has it."""
        # Start-up: only constants of some types need it.
        from qdialect.ir.elements import integer_range

        least, greatest = integer_range(type.bitwidth, self.IS_SIGNED)
        if not least - 1 < value < greatest + 1:
            return None
        return IntegerAttr(int(value), type, truncate_bits=True)

    def _float(self, value: IntegerAttr[IntegerType], type: AnyFloat) -> FloatAttr | None:
        """The float of `type` that is nearest to `value`, if xDSL has constants of it."""
        if isinstance(type, Float80Type | Float128Type):
            return None
        # Start-up: only constants of some types need it.
        from qdialect.algebra.float_format import FLOAT_FORMATS

        integer, width = value.value.data, value.type.bitwidth
        if self.IS_SIGNED:
            integer = (integer + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
        else:
            integer %= 1 << width
        if (number := float(integer)) != integer:
            # Rounded twice, it may not be the nearest.
            return None
        rounded = FLOAT_FORMATS[type.name].round(np.array(number))
        return FloatAttr(rounded.item(), type)


def _is_element(type: Attribute, kind: type[IntegerType] | UnionType) -> bool:
    return isinstance(type, kind) and (
        not isinstance(type, IntegerType)
        or cast(IntegerType, type).signedness.data is Signedness.SIGNLESS
    )


def _container(type: Attribute) -> tuple[object, ...]:
    """What is the same on both sides of a conversion."""
    encoding = cast(TensorType[Attribute], type).encoding if isinstance(type, TensorType) else None
    return isinstance(type, UnrankedTensorType), shape_of(cast(Attribute, type)), encoding


# Subclasses of xDSL's: passes know those by their class. Their syntax is inherited, so it is
# not defined again.


@irdl_op_definition
class FPToSIOp(ConversionOp, arith.FPToSIOp):
    """Floats as signed integers: what is behind the point is dropped."""

    name = "arith.fptosi"
    assembly_format = None
    FROM: ClassVar = AnyFloat
    TO: ClassVar = IntegerType
    IS_SIGNED: ClassVar = True


@irdl_op_definition
class FPToUIOp(ConversionOp, arith.FPToUIOp):
    """Floats as unsigned integers: what is behind the point is dropped."""

    name = "arith.fptoui"
    assembly_format = None
    FROM: ClassVar = AnyFloat
    TO: ClassVar = IntegerType
    IS_SIGNED: ClassVar = False


@irdl_op_definition
class SIToFPOp(ConversionOp, arith.SIToFPOp):
    """Signed integers as the nearest floats."""

    name = "arith.sitofp"
    assembly_format = None
    FROM: ClassVar = IntegerType
    TO: ClassVar = AnyFloat
    IS_SIGNED: ClassVar = True


@irdl_op_definition
class UIToFPOp(ConversionOp, arith.UIToFPOp):
    """Unsigned integers as the nearest floats."""

    name = "arith.uitofp"
    assembly_format = None
    FROM: ClassVar = IntegerType
    TO: ClassVar = AnyFloat
    IS_SIGNED: ClassVar = False


OPS = (FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp)
"""In the place of xDSL's of the same names."""
