"""
The conversions, comparisons and `select` of `arith` on tensors and vectors.

xDSL has them for scalars only, and folds none of them. MLIR's also work elementwise:
https://mlir.llvm.org/docs/Dialects/ArithOps/.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from types import UnionType
from typing import Any, ClassVar, Final, TypeAlias, cast

from typing_extensions import TypeVar, override
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    Float80Type,
    Float128Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    VectorType,
    i1,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, HasCanonicalizationPatternsTrait, OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.value_types import element_type_or_self, with_element_type
from qdialect.ir.xdsl_private import set_type
from qdialect.support.lazy_numpy import np
from qdialect.text.syntax import DialectSyntax


def _is_element(type: Attribute, kind: type[Attribute] | UnionType) -> bool:
    return isinstance(type, kind) and (
        not isinstance(type, IntegerType)
        or cast(IntegerType, type).signedness.data is Signedness.SIGNLESS
    )


def _element_type(type: Attribute) -> Attribute:
    """The element type of a tensor or a vector; a scalar type itself."""
    if isinstance(type, VectorType):
        return cast(VectorType[Attribute], type).element_type
    return element_type_or_self(type)


def _like(type: Attribute, element_type: Attribute) -> Attribute:
    if not isinstance(type, VectorType):
        return with_element_type(type, element_type)
    vector = cast(VectorType[Attribute], type)
    return VectorType(element_type, vector.shape, vector.scalable_dims)


class ConversionOp(IRDLOperation, ABC):
    """Base class of the conversions of a scalar, or of each element of a tensor or vector."""

    CONVERTS: ClassVar[Callable[[Attribute, Attribute], bool]]
    """Whether the op converts elements of the first type to elements of the second one."""

    input = operand_def()
    result = result_def()

    @override
    def verify_(self) -> None:
        input, result = self.input.type, self.result.type
        # Operand and result have the same shape.
        if not type(self).CONVERTS(*map(_element_type, (input, result))) or (
            _like(input, i1) != _like(result, i1)
        ):
            raise VerifyException(
                f"'{self.name}' op operand type '{input}' and result type '{result}' are "
                "cast incompatible"
            )


_Convert: TypeAlias = Callable[[Attribute, Attribute, bool], Attribute | None]
"""Converts a constant to a type; None if undefined, or if xDSL cannot hold it."""


class _FoldedConversionOp(ConversionOp, HasFolderInterface, ABC):
    CONVERT: ClassVar[_Convert]
    IS_SIGNED: ClassVar[bool]
    """Whether the integers are signed."""

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """The converted constant, if the operand is a scalar constant with a defined result."""
        if (constant := ConstantLike.get_constant_value(self.input)) is None:
            return None
        converted = type(self).CONVERT(constant, self.result.type, self.IS_SIGNED)
        return None if converted is None else (converted,)


def _truncated(constant: Attribute, type: Attribute, is_signed: bool) -> Attribute | None:
    """A float as an integer, truncated toward zero."""
    if not isinstance(constant, FloatAttr) or not isinstance(type, IntegerType):
        return None
    # Deferred: needed only when a constant is folded.
    from qdialect.ir.elements import integer_range

    value: float = constant.value.data
    type = cast(IntegerType, type)
    least, greatest = integer_range(type.bitwidth, is_signed)
    if not least - 1 < value < greatest + 1:
        return None
    return IntegerAttr(int(value), type, truncate_bits=True)


def _rounded(constant: Attribute, type: Attribute, is_signed: bool) -> Attribute | None:
    """An integer as the nearest float."""
    if not isinstance(constant, IntegerAttr) or not isinstance(type, AnyFloat):
        return None
    if isinstance(type, Float80Type | Float128Type):
        return None
    # Deferred: needed only when a constant is folded.
    from qdialect.ir.elements import integer_range
    from qdialect.support.float_format import FLOAT_FORMATS

    constant = cast(IntegerAttr[IntegerType], constant)
    least, greatest = integer_range(constant.type.bitwidth, is_signed)
    integer = least + (constant.value.data - least) % (greatest + 1 - least)
    if (number := float(integer)) != integer:
        # Rounding twice may not give the nearest float.
        return None
    return FloatAttr(FLOAT_FORMATS[type.name].round(np.array(number)).item(), type)


def _is_to_integer(input: Attribute, result: Attribute) -> bool:
    return _is_element(input, AnyFloat) and _is_element(result, IntegerType)


def _is_to_float(input: Attribute, result: Attribute) -> bool:
    return _is_to_integer(result, input)


def _narrows(input: Attribute, result: Attribute) -> bool:
    return (
        _is_element(input, IntegerType)
        and _is_element(result, IntegerType)
        and cast(IntegerType, input).bitwidth > cast(IntegerType, result).bitwidth
    )


def _widens(input: Attribute, result: Attribute) -> bool:
    return _narrows(result, input)


def _is_index_cast(input: Attribute, result: Attribute) -> bool:
    are_integers = all(_is_element(type, IntegerType | IndexType) for type in (input, result))
    return are_integers and isinstance(input, IndexType) != isinstance(result, IndexType)


OpT = TypeVar("OpT", bound=IRDLOperation)


def _conversion(
    own: type[OpT],
    converts: Callable[[Attribute, Attribute], bool],
    convert: _Convert | None = None,
    *traits: OpTrait,
    is_signed: bool = False,
) -> type[OpT]:
    """
    The conversion of xDSL, `own`, with other types, and with a fold if constants are converted.

    A subclass of xDSL's op, since passes check for xDSL's classes. It inherits the syntax.
    """
    base = ConversionOp if convert is None else _FoldedConversionOp
    fields: dict[str, object] = {
        "name": own.name,
        "__doc__": own.__doc__,
        "__module__": __name__,
        "assembly_format": None,
    }
    if traits:
        fields["traits"] = traits_def(*traits)
    op_type: Any = irdl_op_definition(cast("type[OpT]", type(own.__name__, (base, own), fields)))
    # Set after the definition, which takes no other fields.
    op_type.IS_SIGNED, op_type.CONVERT = is_signed, staticmethod(convert) if convert else None
    op_type.CONVERTS = staticmethod(converts)
    return op_type


FPToSIOp = _conversion(arith.FPToSIOp, _is_to_integer, _truncated, is_signed=True)
FPToUIOp = _conversion(arith.FPToUIOp, _is_to_integer, _truncated)
SIToFPOp = _conversion(arith.SIToFPOp, _is_to_float, _rounded, is_signed=True)
UIToFPOp = _conversion(arith.UIToFPOp, _is_to_float, _rounded)


@irdl_op_definition
class SelectOp(arith.SelectOp):
    """Select one of two values, or elementwise: `arith.select %c, %a, %b : tensor<2xi1>, ...`."""

    name = "arith.select"
    assembly_format = None

    cond = operand_def()
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    @classmethod
    @override
    def parse(cls, parser: Parser) -> SelectOp:
        position = parser.pos
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        condition: Attribute = i1
        if parser.parse_optional_punctuation(",") is not None:
            condition, type = type, parser.parse_type()
        return cls.create(
            operands=parser.resolve_operands(operands, [condition, type, type], position),
            result_types=[type],
            attributes=attributes,
        )

    @override
    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.cond.type != i1:
            printer.print_attribute(self.cond.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)

    @override
    def verify_(self) -> None:
        condition, type = self.cond.type, self.result.type
        if self.lhs.type != type or self.rhs.type != type:
            raise VerifyException(
                "'arith.select' op failed to verify that all of {true_value, false_value, result} "
                "have same type"
            )
        if condition not in (i1, _like(type, i1)):
            raise VerifyException(
                f"'arith.select' op expected condition type to have the same shape as the result "
                f"type '{type}', but got '{condition}'"
            )


class ComparisonOp(IRDLOperation, ABC):
    """Base class of the comparisons, whose result has the shape of the operands."""

    COMPARES: ClassVar[type[Attribute] | UnionType]
    """The types of the elements that the op compares."""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    def _set_result_type(self) -> None:
        set_type(self.result, _like(self.lhs.type, i1))

    @override
    def verify_(self) -> None:
        type = self.lhs.type
        if not _is_element(_element_type(type), self.COMPARES):
            raise VerifyException(f"'{self.name}' op does not compare values of type '{type}'")
        if self.rhs.type != type:
            raise VerifyException(
                f"'{self.name}' op failed to verify that all of {{lhs, rhs}} have same type"
            )
        if self.result.type != _like(type, i1):
            raise VerifyException(
                f"'{self.name}' op failed to verify that result type has i1 element type and same "
                "shape as operands"
            )


class _CanonicalizesScalars(HasCanonicalizationPatternsTrait):
    """
    Restricts xDSL's patterns to scalars: they replace the comparison of a value with itself by
    an i1.
    """

    @classmethod
    @override
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        # Deferred: only `canonicalize` needs xDSL's rewriter and patterns.
        from xdsl.transforms.canonicalization_patterns.arith import (
            ApplyCmpiPredicateToEqualOperands,
        )

        class OfScalars(RewritePattern):
            @override
            def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
                if isinstance(op, CmpiOp) and op.result.type == i1:
                    ApplyCmpiPredicateToEqualOperands().match_and_rewrite(op, rewriter)

        return (OfScalars(),)


@irdl_op_definition
class CmpiOp(ComparisonOp, arith.CmpiOp):
    """Comparison of integers: `arith.cmpi slt, %a, %b : tensor<2xi8>`."""

    name = "arith.cmpi"
    COMPARES: ClassVar = IntegerType | IndexType
    assembly_format = None

    predicate = prop_def(IntegerAttr)

    def __init__(
        self, operand1: Operation | SSAValue, operand2: Operation | SSAValue, arg: int | str
    ) -> None:
        super().__init__(operand1, operand2, arg)
        self._set_result_type()


# Set after the definition, which would add the traits of xDSL's class.
CmpiOp.traits = traits_def(Pure(), _CanonicalizesScalars())

_NO_FLAGS: Final = arith.FastMathFlagsAttr("none")


@irdl_op_definition
class CmpfOp(ComparisonOp, arith.CmpfOp):
    """Comparison of floats: `arith.cmpf olt, %a, %b : tensor<2xf32>`."""

    name = "arith.cmpf"
    COMPARES: ClassVar = AnyFloat
    assembly_format = None

    predicate = prop_def(IntegerAttr)
    fastmath = prop_def(arith.FastMathFlagsAttr, default_value=_NO_FLAGS)

    def __init__(
        self,
        operand1: SSAValue | Operation,
        operand2: SSAValue | Operation,
        arg: int | str,
        fastmath: arith.FastMathFlagsAttr = _NO_FLAGS,
    ) -> None:
        super().__init__(operand1, operand2, arg, fastmath)
        self._set_result_type()


OPS = (
    CmpfOp,
    CmpiOp,
    _conversion(arith.ExtSIOp, _widens, None, Pure()),
    _conversion(arith.ExtUIOp, _widens),
    FPToSIOp,
    FPToUIOp,
    _conversion(arith.IndexCastOp, _is_index_cast),
    SIToFPOp,
    SelectOp,
    _conversion(arith.TruncIOp, _narrows),
    UIToFPOp,
)
"""The ops that replace xDSL's of the same names."""

_ROUNDING: Final = (
    "$roundingmode:number_of(i32|to_nearest_even|downward|upward|toward_zero|to_nearest_away)"
)
SYNTAX = DialectSyntax(
    dialect="arith",
    forms={
        "cmpf": "$predicate:number_of(i64|false|oeq|ogt|oge|olt|ole|one|ord|ueq|ugt|uge|ult|ule|une"
        "|uno|true) , $lhs , $rhs=lhs <? fastmath $fastmath:flags ?> attr-dict : type(lhs) "
        "->result=booleans(lhs)",
        "cmpi": "$predicate:number_of(i64|eq|ne|slt|sle|sgt|sge|ult|ule|ugt|uge) , $lhs , $rhs=lhs "
        "attr-dict : type(lhs) ->result=booleans(lhs)",
        "divsi divui shrsi shrui": "$lhs=result , $rhs=result <? exact $isExact:unit ?> attr-dict "
        ": type(result)",
        "extf extui truncf trunci uitofp": "$in <? nneg $nonNeg:unit ?> <? overflow "
        f"$overflowFlags:flags(overflow) ?> <? {_ROUNDING} ?> <? fastmath $fastmath:flags ?> "
        "attr-dict : type(in) to type(out)",
        "index_castui": "$in attr-dict : type(in) to type(out)",
        "remf": "$lhs=result , $rhs=result <? fastmath $fastmath:flags ?> attr-dict : type(result)",
        "scaling_extf scaling_truncf": f"$in , $scale <? {_ROUNDING} ?> <? fastmath "
        "$fastmath:flags ?> attr-dict : type(operands) to type(out)",
    },
    read_in_part="cmpf cmpi divsi divui shrsi shrui extf extui truncf trunci uitofp",
    without_attributes="cmpf cmpi",
    ops=OPS,
)
