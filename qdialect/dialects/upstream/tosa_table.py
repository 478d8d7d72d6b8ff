"""
A table of all tosa ops that neither move elements, hold constants nor cast, and their syntax.

https://mlir.llvm.org/docs/Dialects/TOSA/. Types are not verified: the rules depend on the
version of MLIR.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Final, Self, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    IndexType,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.traits import IsTerminator, Pure, RecursiveMemoryEffect, SymbolOpInterface

from qdialect.dialects.upstream.tosa_syntax import TosaSyntax
from qdialect.text.op_forms import KnowsItsForms

_UNARY: Final = (
    "abs bitwise_not ceil clz cos exp floor log logical_not reciprocal rsqrt sin",
    "input1",
)
_BINARY: Final = (
    "add bitwise_and bitwise_or bitwise_xor equal greater greater_equal intdiv logical_and "
    "logical_left_shift logical_or logical_right_shift logical_xor pow sub "
    "add_shape div_ceil_shape div_floor_shape max_shape min_shape mod_shape mul_shape sub_shape",
    "input1 input2",
)
_CONVOLUTION: Final = "input weight bias input_zp weight_zp"
_CONVOLUTION_PROPERTIES: Final = "pad stride dilation acc_type local_bound?"

_TABLE: Final[Sequence[tuple[str, ...]]] = (
    _UNARY,
    ("erf exp2_shape log2_ceil_shape log2_floor_shape sigmoid tanh", "input"),
    _BINARY,
    ("apply_scale", "value multiplier shift", "rounding_mode"),
    ("argmax argmin", "input", "axis nan_mode?"),
    ("arithmetic_right_shift", "input1 input2", "round"),
    ("assert_equal_shape", "input1 input2", "allow_broadcast?", ""),
    ("avg_pool2d", "input input_zp output_zp", "kernel stride pad acc_type"),
    ("avg_pool2d_adaptive", "input input_zp output_zp kernel stride pad", "acc_type"),
    ("cast_from_block_scaled", "input_data input_scale", "block_size", "output_data"),
    ("cast_to_block_scaled", "input_data", "block_size", "output_data output_scale"),
    ("clamp", "input", "min_val max_val nan_mode?"),
    ("concat", "input1*", "axis"),
    ("concat_shape", "input*"),
    ("conv2d conv3d depthwise_conv2d", _CONVOLUTION, _CONVOLUTION_PROPERTIES),
    (
        "conv2d_block_scaled",
        "input_data input_scale weight_data weight_scale bias pad stride dilation",
        "block_size",
    ),
    (
        "custom",
        "input_list*",
        "operator_name domain_name implementation_attrs",
        "output_list*",
    ),
    ("dim", "input1", "axis"),
    ("fft2d", "input_real input_imag", "inverse local_bound?", "output_real output_imag"),
    ("matmul matmul_t", "a b a_zp b_zp"),
    ("matmul_t_block_scaled", "a_data a_scale b_data b_scale", "block_size", "output_data"),
    ("max_pool2d", "input", "kernel stride pad nan_mode?"),
    ("max_pool2d_adaptive", "input kernel stride pad", "nan_mode?"),
    ("maximum minimum", "input1 input2", "nan_mode?"),
    ("mul", "input1 input2 shift"),
    ("negate", "input1 input1_zp output_zp"),
    ("reduce_all reduce_any reduce_product reduce_sum", "input", "axis"),
    ("reduce_max reduce_min", "input", "axis nan_mode?"),
    (
        "rescale",
        "input multiplier shift input_zp output_zp",
        "scale32 rounding_mode per_channel input_unsigned output_unsigned",
    ),
    ("reshape_block_scaled", "input*", "block_size", "outputs*"),
    ("resize", "input scale offset border", "mode"),
    ("rfft2d", "input_real", "local_bound?", "output_real output_imag"),
    ("row_gather", "values indices row_count"),
    ("row_gather_block_scaled", "values*", "block_size", "output*"),
    ("scatter", "values_in indices input", "", "values_out"),
    ("select", "input1 input2 input3"),
    ("slice_shape", "input start size"),
    ("table", "input1 table"),
    ("transpose_conv2d", _CONVOLUTION, "out_pad stride acc_type local_bound?"),
)
"""
Rows of ops, operands, properties and results. `?` marks optional ones, `*` variadic ones. A row
without results has the single result `output`.
"""

_IMPURE: Final = frozenset({"assert_equal_shape", "custom", "row_gather_block_scaled"})
"""The ops that may have side effects."""


def _define(
    name: str, operands: str, properties: str = "", results: str = "output"
) -> type[TosaSyntax]:
    """The class of an op, from a row of the table."""
    fields: dict[str, object] = {
        "name": f"tosa.{name}",
        "__doc__": f"`tosa.{name}`: https://mlir.llvm.org/docs/Dialects/TOSA/#tosa{name}.",
        "__module__": __name__,
        "traits": traits_def(*(() if name in _IMPURE else (Pure(),))),
    }
    for operand in operands.split():
        fields[operand.rstrip("*")] = var_operand_def() if operand[-1] == "*" else operand_def()
    for field in properties.split():
        fields[field.rstrip("?")] = opt_prop_def() if field[-1] == "?" else prop_def()
    for result in results.split():
        fields[result.rstrip("*")] = var_result_def() if result[-1] == "*" else result_def()
    class_name = "".join(part.capitalize() for part in name.split("_")) + "Op"
    return irdl_op_definition(cast(type[TosaSyntax], type(class_name, (TosaSyntax,), fields)))


@irdl_op_definition
class YieldOp(KnowsItsForms, IRDLOperation):
    """The terminator of a region: `tosa.yield %x : tensor<2xf32>`."""

    name = "tosa.yield"

    inputs = var_operand_def()

    traits = traits_def(IsTerminator(), Pure())

    assembly_format = "$inputs attr-dict `:` type($inputs)"

    @property
    @override
    def has_custom_form(self) -> bool:
        """Whether there are operands: MLIR does not parse its own custom form without."""
        return bool(self.operands)


# These ops have a syntax of their own. Without a `print` method they are printed in generic form.


@irdl_op_definition
class CondIfOp(IRDLOperation):
    """
    Run one of two regions, by a condition.

    `tosa.cond_if %c (%a = %x) : tensor<i1> (tensor<2xf32>) -> tensor<2xf32> {...} else {...}`.
    """

    name = "tosa.cond_if"

    condition = operand_def()
    input_list = var_operand_def()
    output_list = var_result_def()
    then_graph = region_def()
    else_graph = region_def()

    traits = traits_def(RecursiveMemoryEffect())

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        condition = parser.parse_unresolved_operand()
        _, operands = _parse_assignments(parser)
        parser.parse_punctuation(":")
        types = [parser.parse_type()]
        if operands:
            types += parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        parser.parse_punctuation("->")
        results = parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_type
        )
        if results is None:
            results = [parser.parse_type()]
        regions = [parser.parse_region()]
        parser.parse_keyword("else")
        regions.append(parser.parse_region())
        return cls.create(
            operands=parser.resolve_operands([condition, *operands], types, position),
            result_types=results,
            attributes=parser.parse_optional_attr_dict(),
            regions=regions,
        )


@irdl_op_definition
class WhileLoopOp(IRDLOperation):
    """
    Run the second region while the first one yields true.

    `tosa.while_loop (%a = %x) : (tensor<2xf32>) -> tensor<2xf32> {...} do {...}`.
    """

    name = "tosa.while_loop"

    input_list = var_operand_def()
    output_list = var_result_def()
    cond_graph = region_def()
    body_graph = region_def()

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        names, operands = _parse_assignments(parser)
        parser.parse_punctuation(":")
        types = parser.parse_function_type()
        resolved = parser.resolve_operands(operands, types.inputs.data, position)
        arguments = [
            argument.resolve(type) for argument, type in zip(names, types.inputs.data, strict=True)
        ]
        regions = [parser.parse_region(arguments)]
        parser.parse_keyword("do")
        regions.append(parser.parse_region())
        attributes = parser.parse_optional_attr_dict_with_keyword()
        return cls.create(
            operands=resolved,
            result_types=types.outputs.data,
            attributes={} if attributes is None else attributes.data,
            regions=regions,
        )


def _parse_assignments(
    parser: Parser,
) -> tuple[list[Parser.UnresolvedArgument], list[UnresolvedOperand]]:
    """Parse the optional `(%argument = %operand, ...)`. Raises ParseError."""

    def parse_assignment() -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
        argument = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        return argument, parser.parse_unresolved_operand()

    assignments = parser.parse_optional_comma_separated_list(
        parser.Delimiter.PAREN, parse_assignment
    )
    pairs = assignments or []
    return [argument for argument, _ in pairs], [operand for _, operand in pairs]


@irdl_op_definition
class VariableOp(IRDLOperation):
    """
    A variable: `tosa.variable @v : tensor<?xf32>`, or `tosa.variable @v = dense<1> : tensor<2xi8>`.

    LLVM 24 prints a visibility before the name.
    """

    name = "tosa.variable"

    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def()
    var_shape = prop_def()
    type = prop_def()
    initial_value = opt_prop_def()

    traits = traits_def(SymbolOpInterface())

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Self:
        properties: dict[str, Attribute] = {}
        if (visibility := parser.parse_optional_str_literal()) is not None:
            properties["sym_visibility"] = StringAttr(visibility)
        properties["sym_name"] = parser.parse_symbol_name()
        attributes = parser.parse_optional_attr_dict()
        position = parser.pos
        if parser.parse_optional_punctuation("=") is not None:
            value = properties["initial_value"] = parser.parse_attribute()
            type = getattr(value, "type", None)
        else:
            parser.parse_punctuation(":")
            type = parser.parse_type()
        if not isinstance(type, TensorType):
            parser.raise_error("expected a tensor", position)
        tensor = cast(TensorType[Attribute], type)
        shape = [-1 if length == DYNAMIC_INDEX else length for length in tensor.get_shape()]
        properties["type"] = tensor.element_type
        properties["var_shape"] = DenseIntOrFPElementsAttr.from_list(
            TensorType(IndexType(), [len(shape)]), shape
        )
        return cls.create(properties=properties, attributes=attributes)


class _VariableAccess(IRDLOperation, ABC):
    """Base class of the ops that refer to a variable."""

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Self:
        variable = parser.parse_symbol_name()
        position = parser.pos
        operands: list[UnresolvedOperand] = []
        if parser.parse_optional_punctuation(",") is not None:
            operands.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        return cls.create(
            operands=parser.resolve_operands(operands, [type] * len(operands), position),
            result_types=[] if operands else [type],
            properties={"name": variable},
            attributes=attributes,
        )


@irdl_op_definition
class VariableReadOp(_VariableAccess):
    """Read a variable: `tosa.variable_read @v : tensor<2xf32>`."""

    name = "tosa.variable_read"

    variable = prop_def(prop_name="name")
    output1 = result_def()


@irdl_op_definition
class VariableWriteOp(_VariableAccess):
    """Write a variable: `tosa.variable_write @v, %x : tensor<2xf32>`."""

    name = "tosa.variable_write"

    input1 = operand_def()
    variable = prop_def(prop_name="name")


TABLED_OPS: Final[tuple[type[Operation], ...]] = (
    *(_define(name, *row[1:]) for row in _TABLE for name in row[0].split()),
    CondIfOp,
    VariableOp,
    VariableReadOp,
    VariableWriteOp,
    WhileLoopOp,
    YieldOp,
)
"""All ops of tosa except those in `tosa`."""
