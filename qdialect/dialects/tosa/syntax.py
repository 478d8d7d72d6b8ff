"""
The ops of tosa, and their custom syntax as LLVM 22 and LLVM 24 print it.

LLVM 22 prints properties among the attributes, `{axis = 0 : i32}`; LLVM 24 prints each after
the operands, `axis(0)`. Neither parses the other's form. Ops are printed in that of LLVM 22, which
is xDSL's, or for LLVM 24 in generic form. The types of ops that move elements, hold constants or
cast are verified as in LLVM 22, with its messages: per-axis and sub-channel types may differ
between operand and result of most ops. https://mlir.llvm.org/docs/Dialects/TOSA/.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, cast

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
    SymbolNameConstraint,
    TensorType,
    UnitAttr,
    UnrankedTensorType,
    i32,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import (
    Attribute,
    Data,
    Operation,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    param_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, IsTerminator, OpTrait, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.storage import StoredType, element_type_of
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.errors import errors_of, op_name
from qdialect.ir.value_types import (
    ValueKind,
    is_static,
    shape_of,
    tensor_element_type,
    verify_value_types,
)
from qdialect.ops.reading import unmoved_operand
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.text.op_formats import Directive, FormattedOp, OpFormat, ReadParts, class_name
from qdialect.text.syntax import DialectSyntax
from qdialect.text.written_ops import KnowsItsForms, ReadsItsLine

if TYPE_CHECKING:
    from qdialect.algebra.movement import Shape


class KeywordAttr(Data[str], ABC):
    """
    Base class of `#tosa.name<KEYWORD>`. Any keyword is accepted: the set depends on the
    version.
    """

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_identifier()

    @override
    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)


def _keyword_attribute(name: str) -> type[KeywordAttr]:
    fields = {"name": f"tosa.{name}", "__doc__": f"`#tosa.{name}<KEY>`.", "__module__": __name__}
    class_name = f"{name.title().replace('_', '')}Attr"
    return irdl_attr_definition(type(class_name, (KeywordAttr,), fields))


NanModeAttr: Final = _keyword_attribute("nan_mode")
"""Whether an op propagates or ignores NaN."""

RoundingModeAttr: Final = _keyword_attribute("rounding_mode")
"""How a rescaled integer is rounded."""

_KEYWORDS: Final[dict[str, type[KeywordAttr]]] = {
    "block_size": _keyword_attribute("block_size"),
    "mode": _keyword_attribute("resize_mode"),
    "nan_mode": NanModeAttr,
    "rounding_mode": RoundingModeAttr,
}
"""The properties that are printed as a keyword, with their attribute classes."""

_INTEGER: Final = "axis"
"""The integer property, whose type LLVM 24 does not print."""

_WIDTHS: Final = {"perms": i32}
"""The element types, other than i64, of array properties; LLVM 24 does not print them."""


class TosaSyntax(KnowsItsForms, ReadsItsLine, IRDLOperation, ABC):
    """Base class of the ops: `tosa.name operands properties {attributes} : (types) -> types`."""

    @property
    @override
    def is_form_of_llvm22(self) -> bool:
        """Whether the op has properties: only these are printed differently."""
        return bool(self.properties)

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        properties, attributes = parse_attributes(parser, cls)
        parser.parse_punctuation(":")
        types = parser.parse_function_type()
        return cls.create(
            operands=parser.resolve_operands(operands or [], types.inputs.data, position),
            result_types=types.outputs.data,
            properties=properties,
            attributes=attributes,
        )

    @override
    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        if both := sorted({**self.properties, **self.attributes}.items()):
            # Where some are keywords, LLVM reads no attribute without a value.
            names = self.get_irdl_definition().properties
            unit = "" if _KEYWORDS.keys().isdisjoint(names) else " = unit"
            printer.print_string(" ")
            with printer.in_braces():
                printer.print_list(both, lambda item: _print_attribute(printer, *item, unit))
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)


def parse_attributes(
    parser: Parser, op_type: type[IRDLOperation]
) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """
    Parse the properties and the attributes of an op, in either form.

    Raises ParseError.
    """
    names = op_type.get_irdl_definition().properties.keys()
    properties: dict[str, Attribute] = {}
    while (name := parser.parse_optional_keyword_in(names)) is not None:
        properties[name] = _parse_clause(parser, name)
    attributes: dict[str, Attribute] = {}
    entries = parser.parse_optional_comma_separated_list(
        parser.Delimiter.BRACES, lambda: _parse_entry(parser)
    )
    for name, attribute in entries or ():
        (properties if name in names else attributes)[name] = attribute
    return properties, attributes


def _parse_clause(parser: Parser, name: str) -> Attribute:
    """Parse the value of a property in the form of LLVM 24, after its name."""
    if name in _KEYWORDS:
        keyword = _KEYWORDS[name]
        return keyword(keyword.parse_parameter(parser))
    with parser.in_parens():
        if name == _INTEGER:
            return IntegerAttr(parser.parse_integer(), i32)
        integers = parser.parse_optional_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_integer
        )
        if integers is not None:
            return DenseArrayBase.from_list(_WIDTHS.get(name, i64), integers)
        return parser.parse_attribute()


def _parse_entry(parser: Parser) -> tuple[str, Attribute]:
    """Parse one entry of the attribute dictionary."""
    name = parser.parse_identifier_or_str_literal()
    if parser.parse_optional_punctuation("=") is None:
        return name, UnitAttr()
    if name in _KEYWORDS and (keyword := parser.parse_optional_identifier()) is not None:
        return name, _KEYWORDS[name](keyword)
    return name, parser.parse_attribute()


def _print_attribute(printer: Printer, name: str, attribute: Attribute, unit: str) -> None:
    printer.print_identifier_or_string_literal(name)
    if isinstance(attribute, UnitAttr):
        printer.print_string(unit)
        return
    printer.print_string(" = ")
    if name in _KEYWORDS and isinstance(attribute, KeywordAttr):
        printer.print_string(attribute.data)
    else:
        printer.print_attribute(attribute)


_TABLE: Final = {
    "abs bitwise_not ceil clz cos exp floor log logical_not reciprocal rsqrt sin": "$input1 "
    "->output",
    "erf exp2_shape log2_ceil_shape log2_floor_shape sigmoid tanh": "$input ->output",
    "add bitwise_and bitwise_or bitwise_xor equal greater greater_equal intdiv logical_and "
    "logical_left_shift logical_or logical_right_shift logical_xor pow sub add_shape "
    "div_ceil_shape div_floor_shape max_shape min_shape mod_shape mul_shape sub_shape": "$input1 "
    "$input2 ->output",
    "apply_scale": "$value $multiplier $shift attr-dict(rounding_mode) ->output",
    "argmax argmin": "$input attr-dict(axis,nan_mode?) ->output",
    "arithmetic_right_shift": "$input1 $input2 attr-dict(round) ->output",
    "assert_equal_shape": "$input1 $input2 attr-dict(allow_broadcast?)",
    "avg_pool2d": "$input $input_zp $output_zp attr-dict(kernel,stride,pad,acc_type) ->output",
    "avg_pool2d_adaptive": "$input $input_zp $output_zp $kernel $stride $pad attr-dict(acc_type) "
    "->output",
    "cast_from_block_scaled": "$input_data $input_scale attr-dict(block_size) ->output_data",
    "cast_to_block_scaled": "$input_data attr-dict(block_size) ->output_data ->output_scale",
    "clamp": "$input attr-dict(min_val,max_val,nan_mode?) ->output",
    "concat": "$input1* attr-dict(axis) ->output",
    "concat_shape": "$input* ->output",
    "conv2d conv3d depthwise_conv2d": "$input $weight $bias $input_zp $weight_zp "
    "attr-dict(pad,stride,dilation,acc_type,local_bound?) ->output",
    "conv2d_block_scaled": "$input_data $input_scale $weight_data $weight_scale $bias $pad "
    "$stride $dilation attr-dict(block_size) ->output",
    "custom": "$input_list* attr-dict(operator_name,domain_name,implementation_attrs) "
    "->output_list*",
    "dim": "$input1 attr-dict(axis) ->output",
    "fft2d": "$input_real $input_imag attr-dict(inverse,local_bound?) ->output_real ->output_imag",
    "matmul matmul_t": "$a $b $a_zp $b_zp ->output",
    "matmul_t_block_scaled": "$a_data $a_scale $b_data $b_scale attr-dict(block_size) "
    "->output_data",
    "max_pool2d": "$input attr-dict(kernel,stride,pad,nan_mode?) ->output",
    "max_pool2d_adaptive": "$input $kernel $stride $pad attr-dict(nan_mode?) ->output",
    "maximum minimum": "$input1 $input2 attr-dict(nan_mode?) ->output",
    "mul": "$input1 $input2 $shift ->output",
    "negate": "$input1 $input1_zp $output_zp ->output",
    "reduce_all reduce_any reduce_product reduce_sum": "$input attr-dict(axis) ->output",
    "reduce_max reduce_min": "$input attr-dict(axis,nan_mode?) ->output",
    "rescale": "$input $multiplier $shift $input_zp $output_zp "
    "attr-dict(scale32,rounding_mode,per_channel,input_unsigned,output_unsigned) ->output",
    "reshape_block_scaled": "$input* attr-dict(block_size) ->outputs*",
    "resize": "$input $scale $offset $border attr-dict(mode) ->output",
    "rfft2d": "$input_real attr-dict(local_bound?) ->output_real ->output_imag",
    "row_gather": "$values $indices $row_count ->output",
    "row_gather_block_scaled": "$values* attr-dict(block_size) ->output*",
    "scatter": "$values_in $indices $input ->values_out",
    "select": "$input1 $input2 $input3 ->output",
    "slice_shape": "$input $start $size ->output",
    "table": "$input1 $table ->output",
    "transpose_conv2d": "$input $weight $bias $input_zp $weight_zp "
    "attr-dict(out_pad,stride,acc_type,local_bound?) ->output",
}
"""The parts of the ops whose syntax is that of `TosaSyntax`, in the language of forms."""

_IMPURE: Final = frozenset({"assert_equal_shape", "custom", "row_gather_block_scaled"})
"""The ops that may have side effects."""


class VerifiedOp(FormattedOp, IRDLOperation):
    """Base class of the ops with another syntax, which are printed in generic form."""


def _define(
    name: str, form: str, base: type[IRDLOperation] = TosaSyntax, *traits: OpTrait
) -> type[Any]:
    """The class of an op, which is verified to have the parts of a form."""
    op_format = OpFormat(form)
    parts = op_format.signature
    fields: dict[str, object] = {
        "name": f"tosa.{name}",
        "__doc__": f"`tosa.{name}`: https://mlir.llvm.org/docs/Dialects/TOSA/#tosa{name}.",
        "__module__": __name__,
        "traits": traits_def(*op_format.traits, *traits),
    }
    for operand in parts.operands.values():
        fields[operand.name] = var_operand_def() if operand.number == "*" else operand_def()
    for result in parts.results.values():
        fields[result.name] = var_result_def() if result.number == "*" else result_def()
    for part in parts.properties.values():
        define = opt_prop_def if part.number else prop_def
        kind: Any = _CONSTRAINTS.get(part.detail, Attribute)
        fields[f"{part.name}_"] = define(kind, prop_name=part.name)
    fields |= {region: region_def() for region in parts.regions}
    new_class = type(class_name(name), (base,), fields)
    new_op: Any = irdl_op_definition(cast("type[IRDLOperation]", new_class))
    # Set after the definition, which takes no other fields.
    new_op.FORM = op_format
    return new_op


_CONSTRAINTS: Final[Mapping[str, object]] = {
    "bool": IntegerAttr[I1],
    "integer(i32)": IntegerAttr[I32],
    "integers(i32)": DenseArrayBase[I32],
    "symbol": SymbolNameConstraint(),
}
"""What kinds of properties are verified to be."""


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


class VariableType(Directive):
    """`: tensor<?xf32>`, or `= dense<1> : tensor<2xi8>`: the type and the shape of a variable."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        type_name, shape_name, initial_name = self.names
        position = parser.pos
        if parser.parse_optional_punctuation("=") is not None:
            value = read.properties[initial_name] = parser.parse_attribute()
            type = getattr(value, "type", None)
        else:
            parser.parse_punctuation(":")
            type = parser.parse_type()
        if not isinstance(type, TensorType):
            parser.raise_error("expected a tensor", position)
        tensor = cast(TensorType[Attribute], type)
        shape = [-1 if length == DYNAMIC_INDEX else length for length in tensor.get_shape()]
        read.properties[type_name] = tensor.element_type
        read.properties[shape_name] = DenseIntOrFPElementsAttr.from_list(
            TensorType(IndexType(), [len(shape)]), shape
        )


_FORMS: Final = {
    "cond_if": "$condition assigned(input_list) : type(condition) <? ( type(input_list) ) ?> "
    "arrow(output_list) region(then_graph) else region(else_graph) attr-dict",
    # LLVM 24 prints a visibility before the name.
    "variable": "<? $sym_visibility?:text ?> $sym_name:symbol attr-dict "
    "custom:VariableType(type,var_shape,initial_value?:any)",
    "variable_read": "$name:symbol attr-dict : type(output1)",
    "variable_write": "$name:symbol , $input1 attr-dict : type(input1)",
    "while_loop": "assigned(input_list) : functional-type(output_list*) "
    "region(cond_graph,,input_list) do region(body_graph) attr-dict-with-keyword",
}
"""The ops with another syntax; they are printed in generic form."""

_FORM_TRAITS: Final = {"cond_if": (RecursiveMemoryEffect(),)}


TABLED_OPS: Final[tuple[type[Operation], ...]] = (
    *(
        _define(name, parts, TosaSyntax, *(() if name in _IMPURE else (Pure(),)))
        for names, parts in _TABLE.items()
        for name in names.split()
    ),
    *(
        _define(name, form, VerifiedOp, *_FORM_TRAITS.get(name, ()))
        for name, form in _FORMS.items()
    ),
    YieldOp,
)
"""All ops of tosa except those in `tosa`."""


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


# The ops whose types are verified


class TosaOp(TosaSyntax, ABC):
    """Base class of the ops whose types are verified."""

    KINDS: ClassVar[Sequence[ValueKind]]
    """The constraints on the operands, then the result."""

    traits = traits_def(Pure())

    @staticmethod
    def verify_meaning(op: Operation) -> None:
        """Raise VerifyException, without the name of the op, for errors specific to the op."""

    @override
    def verify_(self) -> None:
        with errors_of(self):
            self._verify_types()
            for operand in self.operands:
                if isinstance(operand.type, ShapeType) and not _is_made_by_tosa(operand):
                    raise VerifyException("shape operand is not compile time resolvable")
            self.verify_meaning(self)

    def _verify_types(self) -> None:
        verify_value_types(self, self.KINDS)


def _is_made_by_tosa(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, Operation) and op_name(owner).startswith("tosa.")


class MovementOp(TosaOp, HasFolderInterface, ABC):
    """Base class of the ops that fold if they move nothing."""

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """`f(x) = x` and `g(f(x)) = x`, if no element moves and the type is the same."""
        operand = unmoved_operand(self)
        return None if operand is None else (operand,)


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
        type = cast(Attribute, cast(DenseResourceAttr, values).type)
        if not _NUMBERS.accepts(output):
            raise VerifyException(f"result #0 must be {_NUMBERS.description}, but got '{output}'")
        if cast(ShapedType, type).get_shape() != shape_of(output):
            raise VerifyException("failed to verify that all of {values, output} have same shape")
        if not isinstance(type, TensorType):
            raise VerifyException("expected tensors for attr/result type")
        element_type = tensor_element_type(output)
        if isinstance(element_type, StoredType):
            element_type = element_type_of(element_type)
        if tensor_element_type(cast(Attribute, type)) != element_type:
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
        shape = cast(DenseIntOrFPElementsAttr[IndexType], self.values).get_shape()
        if len(shape) != 1:
            raise VerifyException("expect elements in attribute values with rank 1")
        if shape[0] != _rank_of(self.output):
            raise VerifyException(
                f"expect number of elements in attribute values ({shape[0]}) to be equal to "
                f"the rank ({_rank_of(self.output)}) for the result shape type"
            )


# What the rows verify besides the kinds of types. Operands and results are positional here.


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


def _shapes_of(op: Operation) -> tuple[Shape | None, Shape | None]:
    """The shapes of the first operand and of the result."""
    return shape_of(op.operands[0].type), shape_of(op.results[0].type)


def _mismatches(lengths: Shape, declared: Shape) -> Iterator[tuple[int, int, int]]:
    """The axes with two known lengths that differ, and these."""
    for axis, pair in enumerate(zip(lengths, declared, strict=True)):
        if DYNAMIC_INDEX not in pair and pair[0] != pair[1]:
            yield axis, *pair


def _verify_transpose(op: Operation) -> None:
    if len({tensor_element_type(value.type) for value in (*op.operands, *op.results)}) > 1:
        raise VerifyException(
            "failed to verify that all of {input1, output} have same element type"
        )
    permutation = cast("DenseArrayBase[I32]", op.properties["perms"]).get_values()
    shape, output_shape = _shapes_of(op)
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
    if shape is None or output_shape is None:
        return
    counts = math.prod(shape), math.prod(output_shape)
    if is_static(shape) and is_static(output_shape) and counts[0] != counts[1]:
        raise VerifyException(
            "expected input1 and output to have same numbers of elements, "
            f"got {counts[0]} and {counts[1]}"
        )
    moved = tuple(shape[axis] for axis in permutation)
    for axis, length, _ in _mismatches(moved, output_shape):
        raise VerifyException(
            f"expected output tensor dim {axis} to match input dim {permutation[axis]} with value "
            f"of {length}"
        )


def _verify_reshape(op: Operation) -> None:
    (operand, shape), output = op.operands, op.results[0]
    _verify_same_element_type(operand, output)
    values = _values_of(shape)
    lengths = None if values is None else cast(list[int], values.tolist())
    if lengths is not None:
        _verify_new_shape(lengths, *_shapes_of(op))
    inferred = tensor_element_type(operand.type)
    if inferred != tensor_element_type(output.type):
        unknown = [DYNAMIC_INDEX] * _rank_of(shape)
        known = unknown if lengths is None else _inferred_shape(lengths, shape_of(operand.type))
        type = TensorType(inferred, known)
        raise VerifyException(
            f"inferred type(s) '{type}' are incompatible with return type(s) of operation "
            f"'{output.type}'"
        )


def _verify_new_shape(lengths: list[int], input: Shape | None, output: Shape | None) -> None:
    if lengths.count(-1) > 1:
        raise VerifyException("expected at most one target dimension to be -1")
    if output is None:
        return
    if len(lengths) != len(output):
        raise VerifyException("new shape does not match result rank")
    for new, declared in zip(lengths, output, strict=True):
        if new not in (-1, DYNAMIC_INDEX, declared) and declared != DYNAMIC_INDEX:
            raise VerifyException("new shape is inconsistent with result shape")
        if new < -1 and new != DYNAMIC_INDEX:
            raise VerifyException(f"new shape has invalid tensor dimension size {new}")
    if input is None or not is_static(input):
        return
    # The elements fit both the new shape and the result's.
    count = math.prod(input)
    known = [length for length in lengths if length > 0]
    new_count = math.prod(known)
    is_wrong = new_count != count if len(known) == len(lengths) else new_count > count
    if is_static(output) and math.prod(output) != count:
        is_wrong, new_count = True, math.prod(output)
    if is_wrong:
        raise VerifyException(f"cannot reshape {count} elements into {new_count}")


def _inferred_shape(lengths: list[int], input: Shape | None) -> list[int]:
    lengths = [DYNAMIC_INDEX if length == -1 else length for length in lengths]
    known = math.prod(length for length in lengths if length != DYNAMIC_INDEX)
    if input is None or not is_static(input) or not known:
        return lengths
    left = math.prod(input) // known
    return [left if length == DYNAMIC_INDEX else length for length in lengths]


def _verify_slice(op: Operation) -> None:
    _verify_same_element_type(op.operands[0], op.results[0])
    input, output = _shapes_of(op)
    if input is None:
        return
    if output is not None and len(input) != len(output):
        raise VerifyException(
            f"expect input1 and output to have the same ranks, got {len(input)} and {len(output)}"
        )
    for end, shape in zip(("start", "size"), op.operands[1:], strict=True):
        if _rank_of(shape) != len(input):
            raise VerifyException(f"length of {end} is not equal to rank of input shape")


def _verify_pad(op: Operation) -> None:
    operand, padding, pad_const = op.operands
    _verify_same_element_type(operand, op.results[0])
    _verify_same_element_type(pad_const, op.results[0])
    input, output = _shapes_of(op)
    if input is None or output is None:
        return
    if len(input) != len(output):
        raise VerifyException(
            "expect same input and output tensor rank, but got "
            f"inputRank: {len(input)}, outputRank: {len(output)}"
        )
    widths = _values_of(padding)
    if widths is None:
        return
    if len(widths) != 2 * len(input):
        raise VerifyException(
            f"padding tensor must have {len(input)} * 2 = {2 * len(input)} elements, "
            f"but got {len(widths)}"
        )
    pairs = zip(widths[0::2].tolist(), widths[1::2].tolist(), strict=True)
    for axis, (low, high) in enumerate(pairs):
        length, declared = input[axis], output[axis]
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


def _verify_reverse(op: Operation) -> None:
    _verify_same_element_type(op.operands[0], op.results[0])
    axis = cast("IntegerAttr[I32]", op.properties["axis"]).value.data
    if axis < 0:
        raise VerifyException("expected non-negative reverse axis")
    input, output = _shapes_of(op)
    for end, shape in (("input", input), ("output", output)):
        if shape is None:
            continue
        if input is not None and len(shape) != len(input):
            raise VerifyException("expect output tensor rank to be equal to input tensor rank")
        if axis >= len(shape):
            raise VerifyException(
                f"expect {end} tensor rank ({len(shape)}) to be larger than reverse axis ({axis})"
            )


def _verify_tile(op: Operation) -> None:
    _verify_same_element_type(op.operands[0], op.results[0])
    input, output = _shapes_of(op)
    rank = _rank_of(op.operands[1])
    if input is not None and len(input) != rank:
        raise VerifyException(f"expect 'multiples' to have rank {len(input)} but got {rank}.")
    if output is not None and len(output) != rank:
        raise VerifyException(
            f"expect 'multiples' array to have length {len(output)} but got {rank}."
            if input is None
            else "expect same input and output tensor rank."
        )
    multiples = _values_of(op.operands[1])
    if multiples is not None and ((multiples <= 0) & (multiples != -1)).any():
        raise VerifyException("expect element of 'multiples' to be positive integer or -1.")


def _verify_gather(op: Operation) -> None:
    values, indices = op.operands
    _verify_same_element_type(values, op.results[0])
    batches, _, channels = shape_of(values.type) or (DYNAMIC_INDEX,) * 3
    index_batches, positions = shape_of(indices.type) or (DYNAMIC_INDEX,) * 2
    output = shape_of(op.results[0].type) or (DYNAMIC_INDEX,) * 3
    known = index_batches if batches == DYNAMIC_INDEX else batches
    for end, lengths, declared in (
        ("indices", (batches,), (index_batches,)),
        ("output", (known, positions, channels), output),
    ):
        for axis, length, other in _mismatches(lengths, declared):
            raise VerifyException(
                f"requires {end} dimension {axis} to have size {length}, got {other}"
            )


def _verify_cast(op: Operation) -> None:
    input, output = _shapes_of(op)
    if input is None or output is None:
        return
    if len(input) != len(output) or any(_mismatches(input, output)):
        raise VerifyException("requires the same shape for all operands and results")


class CastingOp(TosaOp, HasFolderInterface, ABC):
    """Base class of the cast."""

    @override
    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """`cast(x) = x`, if the type is the same."""
        same = self.operands[0].type == self.results[0].type
        return (self.operands[0],) if same else None


class _Verified(NamedTuple):
    """A row of an op whose types are verified."""

    parts: str
    """As in the table of other ops."""

    kinds: Sequence[ValueKind]
    """The constraints on the operands, then the result."""

    verify: Callable[[Operation], None] = TosaOp.verify_meaning
    base: type[TosaOp] = MovementOp


_VERIFIED: Final = {
    # Axis `k` of the result is axis `perms[k]` of the operand.
    "transpose": _Verified(
        "$input1 attr-dict(perms:integers(i32)) ->output", (_AXES, _AXES), _verify_transpose
    ),
    # The same elements in row-major order; -1 stands for the inferred length.
    "reshape": _Verified("$input1 $shape ->output", (_NUMBERS, _SHAPE, _NUMBERS), _verify_reshape),
    "slice": _Verified(
        "$input1 $start $size ->output", (_AXES, _SHAPE, _SHAPE, _AXES), _verify_slice
    ),
    # `padding` holds the widths before and after each axis.
    "pad": _Verified(
        "$input1 $padding $pad_const ->output", (_AXES, _SHAPE, _PAD_CONST, _AXES), _verify_pad
    ),
    "reverse": _Verified(
        "$input1 attr-dict(axis:integer(i32)) ->output", (_AXES, _AXES), _verify_reverse
    ),
    "tile": _Verified("$input1 $multiples ->output", (_AXES, _SHAPE, _AXES), _verify_tile),
    # `output[n, w, c] = values[n, indices[n, w], c]`.
    "gather": _Verified(
        "$values $indices ->output", (_THREE_AXES, _INDICES, _THREE_AXES), _verify_gather, TosaOp
    ),
    "cast": _Verified(
        "$input attr-dict(input_unsigned?:bool) ->output",
        (_NUMBERS, _NUMBERS),
        _verify_cast,
        CastingOp,
    ),
    # As upstream, operand and result may differ in type.
    "identity": _Verified("$input1 ->output", (_NUMBERS, _NUMBERS), base=TosaOp),
}
"""The ops that move elements or cast: https://mlir.llvm.org/docs/Dialects/TOSA/."""


def _define_verified(name: str, row: _Verified) -> type[TosaSyntax]:
    op_type = _define(name, row.parts, row.base, Pure())
    op_type.KINDS, op_type.verify_meaning = row.kinds, staticmethod(row.verify)
    return op_type


SYNTAX = DialectSyntax(
    dialect="tosa",
    ops=(
        *TABLED_OPS,
        ConstOp,
        ConstShapeOp,
        *(_define_verified(*item) for item in _VERIFIED.items()),
    ),
    attributes=(*_KEYWORDS.values(), ShapeType),
)
"""They replace xDSL's, which reject some widths and dynamic lengths, and lose attributes."""
