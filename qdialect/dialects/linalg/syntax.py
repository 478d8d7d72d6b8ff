"""
The ops of linalg that xDSL lacks or reads in part: https://mlir.llvm.org/docs/Dialects/Linalg/.

Named structured ops are rows of a table. Their form is `linalg.name {attributes}
ins(%a, %b : T, U) outs(%c : V) -> V`, without the body, which follows from the name and the types.
Types are not verified beyond that, except by xDSL's own ops. `map` and `reduce` have any number of
operands, and may name the only op of their body: `linalg.reduce { arith.addf } ins(...) ...`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, Final, Self, TypeAlias, cast

from typing_extensions import override
from xdsl.dialects import arith, complex, linalg, math
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    ComplexType,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    TensorType,
    UnregisteredAttr,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.dialects.linalg import ops
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    OpDef,
    OptPropertyDef,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import EffectInstance, HasParent, MemoryEffect, MemoryEffectKind
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.support.memory import registered_cache
from qdialect.text.form_kinds import parse_integers
from qdialect.text.op_formats import Directive, ReadParts, parse_arrow_types, parse_typed_operands
from qdialect.text.syntax import DialectSyntax
from qdialect.text.written_ops import KnowsItsForms

Body: TypeAlias = int | float | str | tuple["Body", ...]
"""
The value that a body yields: the number of an argument (-1 for the first output's), or the name of
a function and its arguments.
"""

_PRODUCT: Final[Body] = ("mul", ("cast", 0), ("cast", 1))
_SUM_OF_PRODUCTS: Final[Body] = ("add", -1, _PRODUCT)
_WITH_ZERO_POINTS: Final[Body] = (
    "add",
    -1,
    ("mul", ("sub", ("cast", 0), ("cast", 2)), ("sub", ("cast", 1), ("cast", 3))),
)


def _random(seed: Body) -> Body:
    """One step of the generator of `fill_rng_2d`."""
    product = ("mul", seed, ("i32", ("constant_i64", 1103515245)))
    return ("add", product, ("i32", ("constant_i64", 12345)))


_RANDOM: Final[Body] = (
    "add",
    (
        "mul",
        (
            "add",
            ("f64", ("constant_i64", 2147483647)),
            (
                "f64",
                _random(("add", ("i32", ("index", 1)), _random(("add", ("i32", ("index", 0)), 2)))),
            ),
        ),
        ("mul", ("sub", 1, 0), ("constant_f64", 2.3283063999999999e-10)),
    ),
    0,
)

_UNARY: Final = "abs ceil erf exp floor log negf round rsqrt sqrt tanh"
_BINARY: Final = "add div div_unsigned max min mul powf sub"
"""Binary ops whose bodies are the functions of the same names."""

_WINDOW: Final = "strides dilations"

_POOLS: Final[Mapping[str, tuple[str, Body]]] = {
    "max": ("nchw ncw ndhwc nhwc nwc", ("max", -1, ("cast", 0))),
    "min": ("ndhwc nhwc nwc", ("min", -1, ("cast", 0))),
    "sum": ("nchw ncw ndhwc nhwc nwc", ("add", -1, ("cast", 0))),
    "max_unsigned": ("nhwc nwc", ("max_unsigned", -1, ("cast_unsigned", 0))),
    "min_unsigned": ("nhwc nwc", ("min_unsigned", -1, ("cast_unsigned", 0))),
}
"""The layouts of each kind of pools, and their body."""

_TABLE: Final[Sequence[tuple[str, Body, str]]] = (
    ("batch_matvec batch_mmt4d batch_vecmat dot matvec mmt4d vecmat", _SUM_OF_PRODUCTS, ""),
    ("batch_matmul batch_reduce_matmul contract matmul", _SUM_OF_PRODUCTS, "indexing_maps cast"),
    ("conv_1d conv_2d conv_3d", _SUM_OF_PRODUCTS, ""),
    (
        "conv_1d_ncw_fcw conv_1d_nwc_wcf conv_2d_nchw_fchw conv_2d_ngchw_fgchw "
        "conv_2d_ngchw_gfchw conv_2d_nhwc_fhwc conv_2d_nhwc_hwcf conv_2d_nhwgc_gfhwc "
        "conv_3d_ncdhw_fcdhw conv_3d_ndhwc_dhwcf depthwise_conv_1d_ncw_cw "
        "depthwise_conv_1d_nwc_wc depthwise_conv_1d_nwc_wcm depthwise_conv_2d_nchw_chw "
        "depthwise_conv_2d_nhwc_hwc depthwise_conv_2d_nhwc_hwcm depthwise_conv_3d_ncdhw_cdhw "
        "depthwise_conv_3d_ndhwc_dhwc depthwise_conv_3d_ndhwc_dhwcm",
        _SUM_OF_PRODUCTS,
        _WINDOW,
    ),
    ("quantized_batch_matmul quantized_matmul", _WITH_ZERO_POINTS, ""),
    (
        "conv_2d_nchw_fchw_q conv_2d_ngchw_gfchw_q conv_2d_nhwc_fhwc_q conv_2d_nhwc_hwcf_q "
        "conv_2d_nhwgc_gfhwc_q conv_3d_ndhwc_dhwcf_q depthwise_conv_2d_nhwc_hwc_q "
        "depthwise_conv_2d_nhwc_hwcm_q",
        _WITH_ZERO_POINTS,
        _WINDOW,
    ),
    *(
        (f"pooling_{layout}_{kind}", body, _WINDOW)
        for kind, (layouts, body) in _POOLS.items()
        for layout in layouts.split()
    ),
    *((name, (name, 0), "") for name in _UNARY.split()),
    *((name, (name, 0, 1), "") for name in _BINARY.split()),
    ("copy", ("cast", 0), "cast"),
    ("fill", ("cast", 0), ""),
    ("fill_rng_2d", ("cast", _RANDOM), ""),
    ("reciprocal", ("div", ("one", 0), 0), ""),
    ("select", ("select", 0, 1, 2), ""),
    ("square", ("mul", 0, 0), ""),
)
"""Rows of op names, the value that their bodies yield, and their properties."""

_BODIES: Final = {f"linalg.{name}": body for names, body, _ in _TABLE for name in names.split()}

_FUNCTIONS: Final[Mapping[str, str]] = {
    "abs": "absf",
    "add": "addf addi ori add",
    "div": "divf divsi - div",
    "div_unsigned": "- divui",
    "max": "maximumf maxsi maxsi",
    "max_unsigned": "- maxui maxui",
    "min": "minimumf minsi minsi",
    "min_unsigned": "- minui minui",
    "mul": "mulf muli andi mul",
    "sub": "subf subi - sub",
}
"""
For each function, its op for floats, integers, `i1` and complex numbers. `-` marks none.

The others are defined on floats, by an op of their name.
"""


def _maps(*axes: str) -> ArrayAttr[AffineMapAttr]:
    """The indexing maps of operands whose axes are these loops."""
    loops = len(set("".join(axes)))
    return ArrayAttr(
        AffineMapAttr(
            AffineMap(loops, 0, tuple(AffineExpr.dimension(int(loop)) for loop in operand))
        )
        for operand in axes
    )


_DEFAULT_MAPS: Final[Mapping[str, ArrayAttr[AffineMapAttr]]] = {
    "linalg.batch_matmul": _maps("013", "032", "012"),
    "linalg.batch_reduce_matmul": _maps("013", "032", "12"),
    "linalg.matmul": _maps("02", "21", "01"),
}
"""The default indexing maps, which are not printed."""

_NOT_PRINTED: Final = frozenset(
    {"indexing_maps", "linalg.memoized_indexing_maps", "operandSegmentSizes"}
)


class EffectsOnBuffers(MemoryEffect):
    """Effects of ops that write buffers; on tensors they have none."""

    @classmethod
    @override
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        if not any(isinstance(type, MemRefType) for type in op.operand_types):
            return set()
        return {EffectInstance(MemoryEffectKind.READ), EffectInstance(MemoryEffectKind.WRITE)}


class NamedStructuredOp(KnowsItsForms, IRDLOperation, ABC):
    """Base class of the ops: their custom form, and the body that it omits."""

    @override
    def verify_(self) -> None:
        definition = self.get_irdl_definition()
        definition.verify(self)
        # xDSL's verifier requires properties that have a default in MLIR.
        has_all = definition.properties.keys() & {"strides", "dilations"} <= self.properties.keys()
        if has_all and isinstance(self, LinalgStructuredOperation):
            LinalgStructuredOperation.verify_(self)
        self._verify_body()

    def _verify_body(self) -> None:
        """Raise VerifyException if the body is not the one that the custom form stands for."""
        sizes = cast("DenseArrayBase[IntegerType]", self.properties["operandSegmentSizes"])
        types = tuple(_element_type(value.type) for value in self.operands)
        kind = self.properties.get("cast")
        try:
            body = _cached_body(self.body_of(self.properties), types, sizes.get_values()[0], kind)
        except VerifyException:
            # MLIR may define the op on types that the table does not have.
            return
        numbers: dict[Hashable, int] = {}
        if _terms(body, numbers) != _terms(self.regions[0].block, numbers):
            raise VerifyException(f"'{self.name}' op expected the body that its custom form omits")

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        names = cls.get_irdl_definition().properties.keys()
        properties = cls.parse_kind(parser)
        if "indexing_maps" in names and parser.parse_optional_keyword("indexing_maps") is not None:
            parser.parse_punctuation("=")
            properties["indexing_maps"] = parser.parse_attribute()
        elif (default := _DEFAULT_MAPS.get(cls.name)) is not None:
            properties["indexing_maps"] = default
        attributes = parser.parse_optional_attr_dict()
        operands = [parse_operands(parser, keyword) for keyword in ("ins", "outs")]
        if parser.parse_optional_keyword("attrs") is not None:
            # The form that xDSL prints.
            parser.parse_punctuation("=")
            attributes |= parser.parse_optional_attr_dict()
        result_types = parse_arrow_types(parser)
        for name in [name for name in attributes if name in names]:
            properties[name] = attributes.pop(name)
        values = [value for group in operands for value in group]
        cls.add_defaults(properties, values)
        try:
            cast_kind = properties.get("cast")
            types = [_element_type(value.type) for value in values]
            body = _body(cls.body_of(properties), types, len(operands[0]), cast_kind)
        except VerifyException as error:
            parser.raise_error(f"'{cls.name}' op {error}", position)
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(
            i32, [len(group) for group in operands]
        )
        return cls.create(
            operands=values,
            result_types=result_types,
            properties=properties,
            attributes=attributes,
            regions=[Region(body)],
        )

    @classmethod
    def parse_kind(cls, parser: Parser) -> dict[str, Attribute]:
        """Parse the leading part of the custom form as properties. Raises ParseError."""
        return {}

    @classmethod
    def add_defaults(cls, properties: dict[str, Attribute], operands: Sequence[SSAValue]) -> None:
        """Add the omitted properties, which depend on the operands."""

    @classmethod
    def body_of(cls, properties: Mapping[str, Attribute]) -> Body:
        """The value that the body yields. Raises VerifyException if there is none."""
        return _BODIES[cls.name]

    @override
    def print(self, printer: Printer) -> None:
        maps = self.properties.get("indexing_maps")
        if maps is not None and maps != _DEFAULT_MAPS.get(self.name):
            printer.print_string(" indexing_maps = ")
            printer.print_attribute(maps)
        both = {**self.properties, **self.attributes}
        shown = {name: both[name] for name in both if name not in _NOT_PRINTED}
        if shown:
            printer.print_op_attributes(shown)
        sizes = cast(
            DenseArrayBase[IntegerType], self.properties["operandSegmentSizes"]
        ).get_values()
        for keyword, values in (
            ("ins", self.operands[: sizes[0]]),
            ("outs", self.operands[sizes[0] :]),
        ):
            if values:
                printer.print_string(f" {keyword}(")
                printer.print_list(values, printer.print_ssa_value)
                printer.print_string(" : ")
                printer.print_list([value.type for value in values], printer.print_attribute)
                printer.print_string(")")
        if len(self.results) == 1:
            printer.print_string(" -> ")
            printer.print_attribute(self.results[0].type)
        elif self.results:
            printer.print_string(" -> (")
            printer.print_list(self.result_types, printer.print_attribute)
            printer.print_string(")")


@irdl_op_definition
class ElementwiseOp(NamedStructuredOp):
    """
    The elementwise function named by `kind`.

    `linalg.elementwise kind=#linalg.elementwise_kind<exp> ins(...) outs(...) -> type`.
    """

    name = "linalg.elementwise"

    inputs = var_operand_def()
    outputs = var_operand_def()
    res = var_result_def()
    kind = prop_def()
    indexing_maps = prop_def()
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    @override
    def has_custom_form(self) -> bool:
        """Never: the maps that MLIR omits depend on the operands."""
        return False

    @classmethod
    @override
    def parse_kind(cls, parser: Parser) -> dict[str, Attribute]:
        parser.parse_keyword("kind")
        parser.parse_punctuation("=")
        return {"kind": parser.parse_attribute()}

    @classmethod
    @override
    def add_defaults(cls, properties: dict[str, Attribute], operands: Sequence[SSAValue]) -> None:
        if "indexing_maps" not in properties and operands:
            output = operands[-1].type
            shape = output.get_shape() if isinstance(output, MemRefType) else shape_of(output)
            identity = AffineMapAttr(AffineMap.identity(len(shape or ())))
            properties["indexing_maps"] = ArrayAttr([identity] * len(operands))

    @classmethod
    @override
    def body_of(cls, properties: Mapping[str, Attribute]) -> Body:
        kind = properties["kind"]
        name = kind.value.data if isinstance(kind, UnregisteredAttr) else ""
        body = _ELEMENTWISE.get(name) or _BODIES.get(f"linalg.{name}")
        if body is None:
            raise VerifyException(f"has no function '{name}'")
        return body


_ELEMENTWISE: Final[Mapping[str, Body]] = {
    f"{name}_{sign}": (name if sign == "signed" else f"{name}_{sign}", 0, 1)
    for name in ("max", "min")
    for sign in ("signed", "unsigned")
}
"""Functions of `linalg.elementwise` with other names than the ops."""


# Bodies


def _body(body: Body, types: Sequence[Attribute], inputs: int, kind: Attribute | None) -> Block:
    """
    The body that MLIR builds for an op on elements of these types.

    Raises VerifyException if the op is not defined on them.
    """
    block = Block(arg_types=types)
    if inputs == len(types):
        raise VerifyException("expected an output")
    output = block.args[inputs]
    is_unsigned = kind is not None and "unsigned" in str(kind)

    def value_of(body: Body) -> SSAValue:
        if isinstance(body, int):
            return output if body < 0 else argument(body)
        assert isinstance(body, tuple)
        name, *arguments = body
        assert isinstance(name, str)
        if (leaf := _LEAVES.get(name)) is not None:
            return add(leaf(arguments[0]))
        values = [value_of(argument) for argument in arguments]
        if (target := _CAST_TARGETS.get(name)) is not None:
            return converted(values[0], target, is_unsigned=False)
        match name:
            case "cast" | "cast_unsigned":
                unsigned = is_unsigned or name == "cast_unsigned"
                return converted(values[0], output.type, is_unsigned=unsigned)
            case "one":
                if not isinstance(type := values[0].type, AnyFloat):
                    raise VerifyException(f"is not defined on '{type}'")
                return add(arith.ConstantOp(FloatAttr(1.0, type)))
            case _:
                return add(_function(name, values))

    def argument(number: int) -> SSAValue:
        if number >= inputs:
            raise VerifyException(f"expected more than {inputs} inputs")
        return block.args[number]

    def add(op: Operation) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    def converted(value: SSAValue, type: Attribute, *, is_unsigned: bool) -> SSAValue:
        if value.type == type:
            return value
        return add(_conversion(value, type, is_unsigned=is_unsigned))

    block.add_op(YieldOp(value_of(body)))
    return block


_cached_body: Final = registered_cache(lru_cache(maxsize=256)(_body))

_COMMUTATIVE: Final = frozenset(
    {
        *(f"arith.{name}{kind}" for name in ("add", "mul") for kind in "fi"),
        *(f"arith.{name}{kind}" for name in ("max", "min") for kind in ("imumf", "si", "ui")),
        *("arith.andi", "arith.ori", "complex.add", "complex.mul"),
    }
)

_PERMISSIONS: Final = ("fastmath", "overflowFlags")
"""Attributes that permit other results, and do not determine which op it is."""


def _terms(block: Block, numbers: dict[Hashable, int]) -> Hashable:
    """
    What a body computes and yields, as terms, with a number for each that `numbers` keeps.

    The order of ops, and of operands whose order does not matter, does not count.
    """
    terms: dict[SSAValue, int] = {}
    for at, argument in enumerate(block.args):
        terms[argument] = numbers.setdefault(("argument", at, argument.type), len(numbers))
    computed = set[int]()
    for op in block.ops:
        # A value from outside of the body, or an op with regions, is like no other.
        operands = [terms.get(operand, -1 - id(operand)) for operand in op.operands]
        if op.name in _COMMUTATIVE:
            operands.sort()
        both = {**op.attributes, **op.properties}
        settings = frozenset(item for item in both.items() if item[0] not in _PERMISSIONS)
        own = id(op) if op.regions else 0
        key = op.name, tuple(operands), tuple(op.result_types), settings, own
        number = numbers.setdefault(key, len(numbers))
        computed.add(number)
        terms.update(dict.fromkeys(op.results, number))
    return block.arg_types, computed


def _element_type(type: Attribute) -> Attribute:
    if isinstance(type, MemRefType):
        return cast(MemRefType[Attribute], type).element_type
    return element_type_or_self(type)


_LEAVES: Final[Mapping[str, Callable[[Body], Operation]]] = {
    "constant_f64": lambda value: arith.ConstantOp(FloatAttr(cast(float, value), f64)),
    "constant_i64": lambda value: arith.ConstantOp(IntegerAttr(cast(int, value), i64)),
    "index": lambda value: IndexInBodyOp(cast(int, value)),
}

_CAST_TARGETS: Final[Mapping[str, Attribute]] = {"i32": i32, "f64": f64}


def _function(name: str, values: Sequence[SSAValue]) -> Operation:
    """A function applied to values. Raises VerifyException if it is not defined on them."""
    type = values[-1].type
    is_select = name == "select"
    if any(value.type != type for value in values[is_select:]):
        raise VerifyException(f"is not defined on '{type}' and '{values[is_select].type}' together")
    if is_select:
        return arith.SelectOp(*values)
    if isinstance(type, AnyFloat):
        kind, modules = 0, ("arith", "math")
    elif isinstance(type, IntegerType):
        kind, modules = (2 if type == i1 else 1), ("arith",)
    elif isinstance(type, ComplexType):
        kind, modules = 3, ("complex",)
    else:
        raise VerifyException(f"is not defined on '{type}'")
    op_name = dict(enumerate(_FUNCTIONS.get(name, name).split())).get(kind, "-")
    for module in modules:
        if (op_type := _OPS.get(f"{module}.{op_name}")) is not None:
            return op_type(*values)
    raise VerifyException(f"is not defined on '{type}'")


def _conversion(value: SSAValue, type: Attribute, *, is_unsigned: bool) -> Operation:
    """A conversion of a number. Raises VerifyException if there is none."""
    source, u = value.type, "u" if is_unsigned else "s"
    match source, type:
        case (IndexType(), IntegerType()) | (IntegerType(), IndexType()):
            name = "index_castui" if is_unsigned else "index_cast"
        case IntegerType(), IntegerType():
            is_wider = type.bitwidth > source.bitwidth
            name = f"ext{u}i" if is_wider else "trunci"
        case IntegerType(), _ if isinstance(type, AnyFloat):
            name = f"{u}itofp"
        case _, IntegerType() if isinstance(source, AnyFloat):
            name = f"fpto{u}i"
        case _ if (
            isinstance(source, AnyFloat)
            and isinstance(type, AnyFloat)
            and source.bitwidth != type.bitwidth
        ):
            name = "extf" if type.bitwidth > source.bitwidth else "truncf"
        case _:
            raise VerifyException(f"cannot convert '{source}' to '{type}'")
    return _OPS[f"arith.{name}"](value, type)


_OPS: Final[Mapping[str, Callable[..., Operation]]] = {
    op.name: op
    for dialect in (arith.Arith, complex.Complex, math.Math)
    for op in dialect.operations
}


# Classes


_XDSL_OPS: Final = {op.name: op for op in linalg.Linalg.operations if issubclass(op, IRDLOperation)}


def _define(name: str, properties: str) -> type[NamedStructuredOp]:
    """The class of an op, from a row of the table; a subclass of xDSL's, if it has one."""
    full_name = f"linalg.{name}"
    class_name = "".join(part.capitalize() for part in name.split("_")) + "Op"
    fields: dict[str, object] = {
        "name": full_name,
        "__doc__": f"`{full_name}`: https://mlir.llvm.org/docs/Dialects/Linalg/.",
        "__module__": __name__,
    }
    if (xdsl_op := _XDSL_OPS.get(full_name)) is not None:
        definition = _extended(xdsl_op.get_irdl_definition(), properties.split())
        fields["get_irdl_definition"] = classmethod(lambda _: definition)
        fields["traits"] = definition.traits
        return cast(type[NamedStructuredOp], type(class_name, (NamedStructuredOp, xdsl_op), fields))
    fields |= {
        "inputs": var_operand_def(),
        "outputs": var_operand_def(),
        "res": var_result_def(),
        "body": region_def("single_block"),
        "irdl_options": (AttrSizedOperandSegments(as_property=True),),
        "traits": traits_def(EffectsOnBuffers()),
    }
    for field in properties.split():
        fields[field] = prop_def() if field == "indexing_maps" else opt_prop_def()
    new_op = type(class_name, (NamedStructuredOp,), fields)
    return irdl_op_definition(cast(type[NamedStructuredOp], new_op))


def _extended(definition: OpDef, properties: Iterable[str]) -> OpDef:
    """A definition with MLIR's properties, which are optional except for the maps."""
    optional = {name: OptPropertyDef(AnyAttr()) for name in properties if name != "indexing_maps"}
    return replace(
        definition,
        properties={**definition.properties, **optional},
        traits=traits_def(*definition.traits.traits, EffectsOnBuffers()),
    )


_NAMED_OPS: Final = tuple(
    _define(name, properties) for names, _, properties in _TABLE for name in names.split()
)


class IndexInBodyOp(IndexOp):
    """`linalg.index` in the body of any of these ops, such as that of `fill_rng_2d`."""

    traits = traits_def(HasParent(GenericOp, *_NAMED_OPS))

    @classmethod
    @override
    def get_irdl_definition(cls) -> OpDef:
        return _INDEX_DEFINITION

    @override
    def verify_(self) -> None:
        _INDEX_DEFINITION.verify(self)


_INDEX_DEFINITION: Final = replace(IndexOp.get_irdl_definition(), traits=IndexInBodyOp.traits)


class BodySyntax(KnowsItsForms, IRDLOperation, ABC):
    """Base class of the ops, which parse both forms."""

    IS_REDUCTION: ClassVar[bool]
    """Whether the dimensions follow, and the body combines an element with the output's."""

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Self:
        one = _parse_one(parser)
        inputs, inits = (parse_operands(parser, keyword) for keyword in ("ins", "outs"))
        properties: dict[str, Attribute] = {}
        if cls.IS_REDUCTION:
            parser.parse_keyword("dimensions")
            parser.parse_punctuation("=")
            properties["dimensions"] = DenseArrayBase.from_list(i64, parse_integers(parser))
        attributes = parser.parse_optional_attr_dict()
        if one is None:
            arguments = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN,
                lambda: (parser.parse_argument(), parser.parse_optional_location()),
            )
            region = parser.parse_region([argument for argument, _ in arguments])
            for value, (_, location) in zip(region.block.args, arguments, strict=True):
                if location is not None:
                    value.location = location
        else:
            block = Block(arg_types=[_element_type(value.type) for value in (*inputs, *inits)])
            count = len(inputs)
            outputs = block.args[count:][-1:] if cls.IS_REDUCTION else ()
            values = [*outputs, *block.args[:count]]
            if not values:
                parser.raise_error("expected an operand")
            body = _create(*one, values)
            block.add_ops([body, ops.YieldOp.create(operands=body.results)])
            region = Region(block)
        return cls.create(
            operands=[*inputs, *inits],
            result_types=[init.type for init in inits if not isinstance(init.type, MemRefType)],
            properties=properties,
            attributes=attributes,
            regions=[region],
        )


def _parse_one(parser: Parser) -> tuple[type[Operation], dict[str, Attribute]] | None:
    """Parse the name and the attributes of the op of a body, if they are before the operands."""
    if parser.parse_optional_punctuation("{") is None:
        return None
    position = parser.pos
    name = parser.parse_identifier()
    if (op_type := parser.ctx.get_optional_op(name)) is None:
        parser.raise_error(f"custom op '{name}' is unknown", position)
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation("}")
    return op_type, attributes


def _create(
    op_type: type[Operation], attributes: dict[str, Attribute], operands: Sequence[SSAValue]
) -> Operation:
    """The op of a body, with a result of the type of its last operand."""
    known = (
        op_type.get_irdl_definition().properties.keys()
        if issubclass(op_type, IRDLOperation)
        else ()
    )
    return op_type.create(
        operands=operands,
        result_types=[operands[-1].type],
        properties={name: attributes.pop(name) for name in [*attributes] if name in known},
        attributes=attributes,
    )


class ReduceOp(BodySyntax, ops.ReduceOp):
    """Reduce tensors along axes; the body combines the elements of all tensors jointly."""

    IS_REDUCTION: ClassVar = True

    @property
    @override
    def has_custom_form(self) -> bool:
        """Whether xDSL can print the custom form."""
        return len(self.operands) == 2 and not self.attributes

    @override
    def verify_(self) -> None:
        count, rest = divmod(len(self.operands), 2)
        if count == 1 and not rest:
            super().verify_()
            return
        inputs, inits = self.operands[:count], self.operands[count:]
        if rest or not count:
            raise VerifyException(f"'{self.name}' op expected as many inputs as outputs")
        for values, kind in ((inputs, "inputs"), (inits, "outputs")):
            if len({shape_of(value.type) for value in values}) > 1:
                raise VerifyException(f"'{self.name}' op expected all {kind} to have one shape")
        before, after = shape_of(inputs[0].type), shape_of(inits[0].type)
        axes = self.dimensions.get_values()
        kept = [n for axis, n in enumerate(before or ()) if axis not in axes]
        if before is not None and after is not None and tuple(kept) != tuple(after):
            raise VerifyException(
                f"'{self.name}' op expected outputs of shape {tuple(kept)}, but they have "
                f"{tuple(after)}"
            )
        types = [_element_type(value.type) for value in self.operands]
        if [argument.type for argument in self.region.block.args] != types:
            raise VerifyException(
                f"'{self.name}' op expected the body to have an argument for each operand"
            )


@irdl_op_definition
class MapOp(BodySyntax):
    """Apply a body to the elements of tensors: `linalg.map { math.exp } ins(..) outs(..)`."""

    name = "linalg.map"
    IS_REDUCTION: ClassVar = False

    inputs = var_operand_def()
    # The last operand is the output: MLIR has no segment sizes for it.
    result = var_result_def()
    mapper = region_def("single_block")

    traits = traits_def(EffectsOnBuffers())

    @property
    @override
    def has_custom_form(self) -> bool:
        """Never: only in LLVM 22 does the body have the output as an argument."""
        return False


def parse_operands(parser: Parser, keyword: str) -> Sequence[SSAValue]:
    """Read the optional `keyword(%a, %b : type, type)`. Raises ParseError."""
    if parser.parse_optional_keyword(keyword) is None:
        return ()
    with parser.in_parens():
        position = parser.pos
        operands, types = parse_typed_operands(parser)
    return parser.resolve_operands(operands, types, position)


# Custom forms that xDSL reads only in part: it builds omitted regions of integers and floats only


class Moved(Directive):
    """The region that a text omits, which yields the moved element, and the type of the result."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        input, init, result, region = self.names
        types = [*read.types[input], *read.types[init]]
        block = Block(arg_types=[_element_type(type) for type in types])
        block.add_op(YieldOp.create(operands=block.args[:1]))
        read.regions[region] = Region(block)
        read.types[result] = types[1:] if isinstance(types[1], TensorType) else []


class Iterators(Directive):
    """The kinds of loops, which a text may have as strings."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        (name,) = self.names
        iterators = read.properties.get(name)
        if not isinstance(iterators, ArrayAttr):
            parser.raise_error("expected iterator_types")
        kinds: list[Attribute] = []
        for iterator in cast(ArrayAttr[Attribute], iterators):
            kind = iterator.data if isinstance(iterator, StringAttr) else None
            if kind is not None and kind not in set(IteratorType):
                parser.raise_error(f"unexpected iterator_type ({kind})")
            kinds.append(iterator if kind is None else IteratorTypeAttr(IteratorType(kind)))
        read.properties[name] = ArrayAttr(kinds)


def _fits(op: Operation) -> bool:
    """Whether the form that xDSL prints holds the indexing maps of the op."""
    if "indexing_maps" not in op.properties or not isinstance(op, IRDLOperation):
        return True
    maps = op.get_irdl_definition().properties["indexing_maps"].default_value
    return maps is None or op.properties["indexing_maps"] == maps


def _verify(op: Operation, verify: Callable[[Operation], None]) -> None:
    """
    Verify a transpose or a broadcast more strictly than xDSL, with MLIR's messages.

    xDSL uses the numbers of a permutation as indices, unchecked, and compares shapes only.
    """
    if not isinstance(op, _MOVING):
        verify(op)
        return
    permutation = op.properties.get("permutation")
    match op.operand_types:
        case (TensorType() | MemRefType() as moved, *_) if isinstance(permutation, DenseArrayBase):
            if sorted(permutation.get_values()) != list(range(moved.get_num_dims())):
                raise VerifyException(f"'{op.name}' op permutation is not valid")
        case _:
            pass
    verify(op)
    moved, declared = map(_element_type, op.operand_types)
    if moved != declared:
        # The message is about the region that the custom syntax omits.
        raise VerifyException(
            f"'linalg.yield' op type of yield operand 1 ('{moved}') doesn't match the "
            f"element type of the enclosing linalg.generic op ('{declared}')"
        )


_MOVING: Final = (ops.BroadcastOp, ops.TransposeOp)

OPS: Final[tuple[type[Operation], ...]] = (
    *_NAMED_OPS,
    ElementwiseOp,
    IndexInBodyOp,
    MapOp,
    ReduceOp,
)
"""The ops that xDSL lacks, or that replace xDSL's of the same names."""

_TILES: Final = (
    "<? outer_dims_perm = $outer_dims_perm:integers(i64) ?> "
    "inner_dims_pos = $inner_dims_pos:integers(i64) inner_tiles = "
    "indices(inner_tiles,static_inner_tiles) into $dest attr-dict : "
    "type(source) -> type(dest) ->result=dest"
)

_MOVED: Final = "ins ( $input : type(input) ) outs ( $init : type(init) )"
_OMITTED: Final = "attr-dict custom:Moved(input,init,->result?,{region})"

SYNTAX = DialectSyntax(
    dialect="linalg",
    forms={
        "broadcast": f"{_MOVED} dimensions = $dimensions:integers(i64) {_OMITTED}",
        "generic": "trait(indexing_maps,iterator_types,doc?,library_call?) "
        "custom:Iterators(iterator_types) <? ins ( $inputs* : type(inputs) ) ?> "
        "<? outs ( $outputs* : type(outputs) ) ?> <? attrs = attr-dict ?> region(body) arrow(res)",
        "transpose": f"{_MOVED} permutation = $permutation:integers(i64) {_OMITTED}",
        "pack": "$source <? padding_value ( $padding_value? : type(padding_value) ) ?> "
        f"{_TILES} order(source,dest,padding_value)",
        "softmax": "attr-dict dimension ( $dimension:integer(i64) ) ins ( $input : type(input) ) "
        "outs ( $output : type(output) ) arrow(result)",
        "unpack": f"$source {_TILES} order(source,dest)",
        **{
            f"winograd_{name}_transform": "attr-dict fmr ( $fmr:number_of(i32|F_2_3|F_4_3|F_2_5) ) "
            f"ins ( ${operand} : type({operand}) ) outs ( $output : type(output) ) -> type(result)"
            for name, operand in (("filter", "filter"), ("input", "input"), ("output", "value"))
        },
    },
    ops=OPS,
    read_in_part="broadcast generic transpose",
    without_attributes="broadcast transpose yield",
    opaque="binary_fn elementwise_kind ternary_fn type_fn unary_fn",
    fits=_fits,
    verify=_verify,
)
