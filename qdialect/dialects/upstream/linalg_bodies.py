"""
`linalg.map` and `linalg.reduce` with any number of operands, and the short form of a one-op body.

`linalg.reduce { arith.addf } ins(%a : T) outs(%b : U) dimensions = [1]` names the op of its body.
xDSL lacks `map`, and its `reduce` has one operand and an explicit body:
https://mlir.llvm.org/docs/Dialects/Linalg/.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Self, cast

from typing_extensions import override
from xdsl.dialects.builtin import DenseArrayBase, LocationAttr, MemRefType, i64
from xdsl.dialects.linalg import ops
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.upstream.linalg_table import EffectsOnBuffers
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.text.linalg_syntax import parse_operands
from qdialect.text.op_forms import KnowsItsForms


class BodySyntax(KnowsItsForms, IRDLOperation, ABC):
    """Base class of the ops, which parse both forms."""

    @classmethod
    @abstractmethod
    def _parse_properties(cls, parser: Parser) -> dict[str, Attribute]:
        """Parse what comes after the operands. Raises ParseError."""

    @classmethod
    @abstractmethod
    def _operands_of_one(
        cls, inputs: Sequence[SSAValue], inits: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """The operands of the only op of a body."""

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Self:
        one = _parse_one(parser)
        inputs, inits = (parse_operands(parser, keyword) for keyword in ("ins", "outs"))
        properties = cls._parse_properties(parser)
        attributes = parser.parse_optional_attr_dict()
        if one is None:
            arguments = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _parse_argument(parser)
            )
            region = parser.parse_region([argument for argument, _ in arguments])
            for value, (_, location) in zip(region.block.args, arguments, strict=True):
                if location is not None:
                    value.location = location
        else:
            block = Block(arg_types=[_element_type(each.type) for each in (*inputs, *inits)])
            count = len(inputs)
            values = cls._operands_of_one(block.args[:count], block.args[count:])
            if not values:
                parser.raise_error("expected an operand")
            body = _create(*one, values)
            block.add_ops([body, ops.YieldOp.create(operands=body.results)])
            region = Region(block)
        return cls.create(
            operands=[*inputs, *inits],
            result_types=[each.type for each in inits if not isinstance(each.type, MemRefType)],
            properties=properties,
            attributes=attributes,
            regions=[region],
        )


def _parse_argument(parser: Parser) -> tuple[Parser.Argument, LocationAttr | None]:
    return parser.parse_argument(), parser.parse_optional_location()


def _element_type(type: Attribute) -> Attribute:
    if isinstance(type, MemRefType):
        return cast("MemRefType[Attribute]", type).element_type
    return element_type_or_self(type)


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

    @property
    @override
    def has_custom_form(self) -> bool:
        """Whether xDSL can print the custom form."""
        return len(self.operands) == 2 and not self.attributes

    @classmethod
    @override
    def _parse_properties(cls, parser: Parser) -> dict[str, Attribute]:
        parser.parse_keyword("dimensions")
        parser.parse_punctuation("=")
        axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        return {"dimensions": DenseArrayBase.from_list(i64, axes)}

    @classmethod
    @override
    def _operands_of_one(
        cls, inputs: Sequence[SSAValue], inits: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        return *inits[-1:], *inputs

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

    @classmethod
    @override
    def _parse_properties(cls, parser: Parser) -> dict[str, Attribute]:
        return {}

    @classmethod
    @override
    def _operands_of_one(
        cls, inputs: Sequence[SSAValue], inits: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        return inputs


OPS: Final[tuple[type[Operation], ...]] = (MapOp, ReduceOp)
"""The ops that xDSL lacks, or that replace xDSL's of the same names."""
