"""Operations that are not registered, or that have properties unknown to xDSL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from typing_extensions import override
from xdsl.ir import Attribute, Operation, TypeAttribute
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser, Position, UnresolvedOperand

from qdialect.support.memory import registered_cache
from qdialect.text.op_forms import KnowsItsForms


class PlainForm(NamedTuple):
    """
    The custom form of most ops of most dialects, after the name of the op.

    `%a, %b {attributes} : (types) -> types` can express every op without regions and successors.
    """

    operands: Sequence[UnresolvedOperand]
    attributes: Mapping[str, Attribute]
    types: Sequence[TypeAttribute]
    result_types: Sequence[TypeAttribute]
    position: Position

    @classmethod
    def parse(cls, parser: Parser) -> PlainForm:
        """Parse the form; the parentheses around types are optional. Raises ParseError."""
        position = parser.pos
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = _parse_types(parser)
        parser.parse_punctuation("->")
        return cls(operands or [], attributes, types, _parse_types(parser), position)

    def create(self, parser: Parser, op_type: type[Operation]) -> Operation:
        """Create the operation. Raises ParseError if an operand has another type."""
        return op_type.create(
            operands=parser.resolve_operands(self.operands, self.types, self.position),
            result_types=self.result_types,
            attributes=self.attributes,
        )


def _parse_types(parser: Parser) -> list[TypeAttribute]:
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    if types is None:
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    return types


@registered_cache
@cache
def with_later_properties(op_type: type[IRDLOperation]) -> type[IRDLOperation]:
    """
    A subclass of `op_type` that also accepts properties of later versions of MLIR.

    These may be any attributes. With one of them, the op has no custom form.
    """
    known = op_type.get_irdl_definition().properties.keys()

    class LaterOp(op_type, KnowsItsForms):
        @property
        @override
        def has_custom_form(self) -> bool:
            """Whether the op has no such properties."""
            return self.properties.keys() <= known

        @override
        def verify_(self) -> None:
            held = self.properties
            self.properties = {name: held[name] for name in held if name in known}
            try:
                super().verify_()
            finally:
                self.properties = held

    LaterOp.__name__ = op_type.__name__
    return LaterOp
