"""
The conversions of `arith` on tensors.

xDSL has them for scalars only, and folds none of them; MLIR's convert each element too:
https://mlir.llvm.org/docs/Dialects/ArithOps/.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
        return None if constant is None else self._converted(constant)

    @abstractmethod
    def _converted(self, constant: Attribute) -> Sequence[Attribute] | None:
        """The constant that `constant` is converted to, if that is defined, and xDSL has it."""


class _FloatToIntegerOp(ConversionOp, ABC):
    """Truncates toward zero."""

    FROM: ClassVar = AnyFloat
    TO: ClassVar = IntegerType

    @override
    def _converted(self, constant: Attribute) -> Sequence[Attribute] | None:
        type = self.result.type
        if not isinstance(constant, FloatAttr) or not isinstance(type, IntegerType):
            return None
        # Only constants that are folded need it.
        from qdialect.ir.elements import integer_range

        value: float = constant.value.data
        type = cast(IntegerType, type)
        least, greatest = integer_range(type.bitwidth, self.IS_SIGNED)
        if not least - 1 < value < greatest + 1:
            return None
        return (IntegerAttr(int(value), type, truncate_bits=True),)


class _IntegerToFloatOp(ConversionOp, ABC):
    """Rounds to the nearest float."""

    FROM: ClassVar = IntegerType
    TO: ClassVar = AnyFloat

    @override
    def _converted(self, constant: Attribute) -> Sequence[Attribute] | None:
        type = self.result.type
        if not isinstance(constant, IntegerAttr) or not isinstance(type, AnyFloat):
            return None
        if isinstance(type, Float80Type | Float128Type):
            return None
        # Only constants that are folded need it.
        from qdialect.algebra.float_format import FLOAT_FORMATS
        from qdialect.ir.elements import integer_range

        constant = cast(IntegerAttr[IntegerType], constant)
        least, greatest = integer_range(constant.type.bitwidth, self.IS_SIGNED)
        integer = least + (constant.value.data - least) % (greatest + 1 - least)
        if (number := float(integer)) != integer:
            # Rounded twice, it may not be the nearest.
            return None
        rounded = FLOAT_FORMATS[type.name].round(np.array(number))
        return (FloatAttr(rounded.item(), type),)


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
class FPToSIOp(_FloatToIntegerOp, arith.FPToSIOp):
    """Floats as signed integers, truncated toward zero."""

    name = "arith.fptosi"
    assembly_format = None
    IS_SIGNED: ClassVar = True


@irdl_op_definition
class FPToUIOp(_FloatToIntegerOp, arith.FPToUIOp):
    """Floats as unsigned integers, truncated toward zero."""

    name = "arith.fptoui"
    assembly_format = None
    IS_SIGNED: ClassVar = False


@irdl_op_definition
class SIToFPOp(_IntegerToFloatOp, arith.SIToFPOp):
    """Signed integers as the nearest floats."""

    name = "arith.sitofp"
    assembly_format = None
    IS_SIGNED: ClassVar = True


@irdl_op_definition
class UIToFPOp(_IntegerToFloatOp, arith.UIToFPOp):
    """Unsigned integers as the nearest floats."""

    name = "arith.uitofp"
    assembly_format = None
    IS_SIGNED: ClassVar = False


OPS = (FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp)
"""In the place of xDSL's of the same names."""
