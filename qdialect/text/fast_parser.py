"""xDSL's parser, with fast paths for the most common constructs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, cast

from typing_extensions import TypeVar, override
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyDenseElement,
    AnyFloat,
    ComplexType,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    LocationAttr,
    RankedStructure,
)
from xdsl.ir import Attribute, AttributeInvT, Operation, Region, SSAValue, TypeAttribute
from xdsl.irdl import AttrConstraint, IRDLOperation, base
from xdsl.parser import Parser, Position, UnresolvedOperand
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRToken, MLIRTokenKind, PunctuationSpelling

from qdialect.ir.elements import dense_of_bytes
from qdialect.ir.xdsl_private import OpenParser
from qdialect.support.memory import registered_cache
from qdialect.text.lexer import FastLexer, PlainLexer, TextToken
from qdialect.text.plain_lists import bytes_of_plain_list
from qdialect.text.written_ops import ListsElements, ReadsItsLine

AttributeT = TypeVar("AttributeT", bound=Attribute)

_MAX_DEPTH = 8
"""The bracket depth up to which types are cached. Tensor, element type and range take three."""

_MAX_EXPANSION = 1 << 12
"""The most attribute parts to which aliases in a cached text may expand: they are not recounted."""

# Hexadecimal bits: a type with a NaN differs from the same type parsed again. An abridged text may
# also have left the digits out, and they differ from place to place.
_BITS: Final = re.compile(r"\b0x")

_NAMES_OF_VALUES: Final = frozenset(("unit", "true", "false", "loc"))


@registered_cache
@cache
def _dense_type() -> AttrConstraint[
    RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType]
]:
    # The constraint is slow to construct, and short lists do not need it.
    return base(RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType])


MAX_LINE_LENGTH = 2000
"""Longer lines are not cached: they are mostly numbers, and a search for names is slow."""

_VALUE: Final = re.compile(r"%([0-9]+|[A-Za-z$._-][A-Za-z0-9$._-]*)")

_OPENING: Final = "dense<"
_LEFT_OUT: Final = "\v"
"""The placeholder for the elements of a constant in the key of a line."""


class OpLine(NamedTuple):
    """The line of an operation, from its first token on."""

    start: Position
    end: Position
    pieces: Sequence[str]
    """The text between names, alternating with the names, without the percent sign."""

    elements: str | None
    """The text between `dense<` and `>` if no name follows it; it is not part of `pieces`."""

    @property
    def key(self) -> str:
        """The cache key: the line, with a line break, which it does not have, for each name."""
        return "\n".join(self.pieces[::2])

    @property
    def names(self) -> Sequence[str]:
        """The names of results and operands."""
        return self.pieces[1::2]

    def position_after(self, names: int) -> Position:
        """The position after the first `names` names."""
        return self.start + sum(map(len, self.pieces[: 2 * names])) + names

    def span(self, name: int, input: Input[str]) -> Span[str]:
        """The span of a name, including the percent sign."""
        start = self.position_after(name) + len(self.pieces[2 * name])
        return Span(start, self.position_after(name + 1), input)

    @classmethod
    def at(cls, token: TextToken, *, leave_elements_out: bool) -> OpLine | None:
        """The line that starts with `token`; None if it is too long or has no line break."""
        content, start = token.input.content, token.start
        end = content.find("\n", start, start + MAX_LINE_LENGTH)
        if end < 0:
            return None
        line, elements = content[start:end], None
        if leave_elements_out:
            before, opening, dense = line.partition(_OPENING)
            listed, closing, after = dense.partition(">")
            if closing and "%" not in dense and _OPENING not in after:
                line, elements = before + opening + _LEFT_OUT + closing + after, listed
        return cls(start, end, _VALUE.split(line), elements)


class ListedElements(NamedTuple):
    """How the elements in a line are read, and which attribute of the operation holds them."""

    is_property: bool
    name: str
    type: RankedStructure[AnyDenseElement]
    """The type of the attribute."""

    listed_type: AnyDenseElement
    """The type that listed elements are read as: perhaps signed where the attribute is signless."""

    def read(self, listed: str) -> DenseIntOrFPElementsAttr[Any] | None:
        """
        The attribute that holds the elements `listed`; None if they are not a short plain list.
        """
        data = bytes_of_plain_list(listed, self.listed_type, self.type.get_shape())
        return None if data is None else dense_of_bytes(self.type, data)

    @classmethod
    def of(cls, op: Operation, listed: str) -> ListedElements | None:
        """The elements of an operation with exactly one dense attribute, which holds `listed`."""
        candidates = [
            (is_property, name, cast(DenseIntOrFPElementsAttr[AnyDenseElement], attribute))
            for is_property, attributes in ((True, op.properties), (False, op.attributes))
            for name, attribute in attributes.items()
            if isinstance(attribute, DenseIntOrFPElementsAttr)
        ]
        if len(candidates) != 1:
            return None
        ((is_property, name, attribute),) = candidates
        type = attribute.type
        listed_type = op.listed_type if isinstance(op, ListsElements) else type.element_type
        elements = cls(is_property, name, type, listed_type)
        return elements if elements.read(listed) == attribute else None


class OpForm(NamedTuple):
    """The cached form of a line: an operation without its operands and elements."""

    op_type: type[Operation]
    dialect_stack: Sequence[str]
    name_offset: int
    """The offset of the operation's name from the end of the last result's name."""

    name_length: int
    result_sizes: Sequence[int]
    operands: Sequence[tuple[int, int, Attribute]]
    """
    For each operand: the index of its name in the line, the index of the value under that name,
    and its type.
    """

    result_types: Sequence[Attribute]
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]
    location: LocationAttr
    elements: ListedElements | None
    followers: set[str]
    """The next tokens after the line that are known not to continue the operation."""


def depends_on_line_only(op: Operation, name: TextToken) -> bool:
    """
    Whether the line of an operation determines everything but its operands.

    False for operations with regions or successors, and for operations with a hand-written
    parser, which may read other state, unless they are a ReadsItsLine.
    """
    if op.regions or op.successors:
        return False
    if name.kind is MLIRTokenKind.STRING_LIT:
        return True
    if isinstance(op, ReadsItsLine):
        return True
    if not isinstance(op, IRDLOperation):
        return False
    definition = op.get_irdl_definition()
    return definition.assembly_format is not None and not definition.custom_directives


def follower(token: TextToken) -> str:
    """The part of a token that decides whether it continues the operation before it."""
    return token.text[0] if token.text.startswith(("%", "^")) else token.text


class _Scope(dict[str, tuple[SSAValue, ...]]):
    """
    The values in scope, in the order of their definitions.

    xDSL's parser copies the scope for each region, and restores the copy after it. Here the
    values of a region are removed at its end instead.
    """

    @override
    def copy(self) -> _Scope:
        return self


class FastParser(OpenParser):
    """
    A parser with the same results and errors as xDSL's.

    Types, arrays and lines of operations are cached by their text. The cache is valid within
    one source text, where no alias is defined twice.
    """

    lexer_type: ClassVar[type[PlainLexer]] = FastLexer
    is_remembering: ClassVar[bool] = True
    """Whether parsed types and operations are cached by their text."""
    expansion: int
    """The number of attribute parts to which the aliases read so far expand."""
    leaves_elements_out: ClassVar[bool] = False
    """Whether keys of lines omit the elements of constants, which are read as by MLIR then."""

    def __init__(self, ctx: Context, input: Input) -> None:
        """Raises ParseError if the first token is malformed."""
        super().__init__(ctx, self.lexer_type(input))
        self.ssa_values = _Scope()
        self._known_types: dict[str, TypeAttribute] = {}
        self._known_arrays: dict[str, Attribute] = {}
        self.expansion = 0
        self._forms: dict[str, OpForm] = {}
        self._lines_seen: set[int] = set()
        self._name_token = self.current_token
        self._bound_results: list[tuple[Span, int]] = []
        self._resolved: list[tuple[UnresolvedOperand, SSAValue]] = []

    # Tokens

    @property
    @override
    def current_token(self) -> TextToken:
        return cast(TextToken, self.state.current_token)

    @property
    @override
    def pos(self) -> Position:
        return self.current_token.start

    @override
    def consume_token(self, expected_kind: MLIRTokenKind | None = None) -> MLIRToken:
        state = self.state
        token = state.current_token
        if expected_kind is not None and token.kind is not expected_kind:
            # This raises xDSL's error.
            return super().consume_token(expected_kind)
        state.current_token = state.lexer.lex()
        return token

    @override
    def parse_optional_token(self, expected_kind: MLIRTokenKind) -> MLIRToken | None:
        state = self.state
        token = state.current_token
        if token.kind is not expected_kind:
            return None
        state.current_token = state.lexer.lex()
        return token

    @override
    def parse_optional_characters(self, text: str) -> str | None:
        state = self.state
        if state.current_token.text != text:
            return None
        state.current_token = state.lexer.lex()
        return text

    # The text of a punctuation token identifies it.

    @override
    def parse_optional_punctuation(
        self, punctuation: PunctuationSpelling
    ) -> PunctuationSpelling | None:
        state = self.state
        if state.current_token.text != punctuation:
            return None
        state.current_token = state.lexer.lex()
        return punctuation

    # Operations

    @override
    def parse_operation(self) -> Operation:
        line = OpLine.at(self.current_token, leave_elements_out=self.leaves_elements_out)
        if line is None or not self.is_remembering:
            return super().parse_operation()
        key = line.key
        form = self._forms.get(key)
        if form is not None:
            op = self._parse_known_operation(line, form)
            if op is not None:
                return op
        self._resolved = []
        expansion = self.expansion
        op = super().parse_operation()
        # A line is cached when it occurs for the second time.
        if hash(key) in self._lines_seen and self.expansion - expansion <= _MAX_EXPANSION:
            self._remember_operation(line, key, op)
        self._lines_seen.add(hash(key))
        return op

    def _parse_known_operation(self, line: OpLine, form: OpForm) -> Operation | None:
        """The operation of a cached line; None if the next token might continue the operation."""
        if form.dialect_stack != self.state.dialect_stack:
            return None
        properties, attributes = form.properties, form.attributes
        if form.elements is not None:
            dense = None if line.elements is None else form.elements.read(line.elements)
            if dense is None:
                return None
            if form.elements.is_property:
                properties = {**properties, form.elements.name: dense}
            else:
                attributes = {**attributes, form.elements.name: dense}
        elif line.elements is not None:
            return None
        self.resume_from(line.end)
        if follower(self.current_token) not in form.followers:
            self.resume_from(line.start)
            return None
        input = self.lexer.input
        op = form.op_type.create(
            operands=[self._operand_of_line(line, *operand) for operand in form.operands],
            result_types=form.result_types,
            properties=properties,
            attributes=attributes,
            location=form.location,
        )
        first = 0
        for index, size in enumerate(form.result_sizes):
            self.register_ssa_definition(
                line.names[index], op.results[first : first + size], line.span(index, input)
            )
            first += size
        name = line.position_after(len(form.result_sizes)) + form.name_offset
        self._enter_operation(Span(name, name + form.name_length, input))
        return op

    def _operand_of_line(self, line: OpLine, name: int, index: int, type: Attribute) -> SSAValue:
        values = self.ssa_values.get(line.names[name], ())
        if index < len(values) and values[index].type == type:
            return values[index]
        operand = UnresolvedOperand(line.span(name, self.lexer.input), index)
        return self.resolve_operand(operand, type)

    def _remember_operation(self, line: OpLine, key: str, op: Operation) -> None:
        """Cache the form of `op`, which was read from `line`, if the line determines all of it."""
        name = self._name_token
        input = self.lexer.input
        names = range(len(line.names))
        indices = {line.span(index, input): index for index in names}
        results = [span for span, _ in self._bound_results]
        operands = [operand for operand, _ in self._resolved]
        elements = None if line.elements is None else ListedElements.of(op, line.elements)
        if (
            not depends_on_line_only(op, name)
            # An attribute alias may also stand for elements.
            or (line.elements is not None and (elements is None or "#" in key))
            or input.content[line.end : self.pos].strip()
            or self.pos < line.end
            or _BITS.search(key) is not None
            or tuple(op.operands) != tuple(value for _, value in self._resolved)
            or [indices.get(span) for span in results] != [*names[: len(results)]]
            or sorted(indices.get(operand.span, -1) for operand in operands)
            != [*names[len(results) :]]
        ):
            return
        form = self._forms.get(key)
        if form is None or form.dialect_stack != self.state.dialect_stack:
            form = self._forms[key] = OpForm(
                op_type=type(op),
                dialect_stack=[*self.state.dialect_stack],
                name_offset=name.start - line.position_after(len(results)),
                name_length=name.end - name.start,
                result_sizes=[size for _, size in self._bound_results],
                operands=[
                    (indices[operand.span], operand.index, value.type)
                    for operand, value in self._resolved
                ],
                result_types=op.result_types,
                properties=dict(op.properties),
                attributes=dict(op.attributes),
                location=op.location,
                elements=elements,
                followers=set(),
            )
        form.followers.add(follower(self.current_token))

    def _enter_operation(self, name: Span) -> None:
        """A hook, called with the name of an operation after its results have been parsed."""

    @override
    def parse_optional_region(
        self, arguments: Iterable[Parser.Argument] | None = None
    ) -> Region | None:
        outside = len(self.ssa_values)
        region = super().parse_optional_region(arguments)
        while len(self.ssa_values) > outside:
            self.ssa_values.popitem()
        return region

    # Values

    @override
    def resolve_operand(
        self, operand: UnresolvedOperand, type: AttributeInvT
    ) -> SSAValue[AttributeInvT]:
        value = super().resolve_operand(operand, type)
        self._resolved.append((operand, value))
        return value

    @override
    def parse_op_result_list(self) -> list[tuple[Span, int]]:
        self._bound_results = self._parse_bound_results()
        self._name_token = self.current_token
        self._enter_operation(self.current_token.span)
        return self._bound_results

    def _parse_bound_results(self) -> list[tuple[Span, int]]:
        token = self.current_token
        if token.kind is not MLIRTokenKind.PERCENT_IDENT:
            return []
        self.consume_token()
        if self.parse_optional_punctuation("=") is not None:
            return [(token.span, 1)]
        self.resume_from(token.start)
        return super().parse_op_result_list()

    @override
    def parse_optional_unresolved_operand(self) -> UnresolvedOperand | None:
        token = self.current_token
        if token.kind is not MLIRTokenKind.PERCENT_IDENT:
            return None
        self.consume_token()
        if self.current_token.kind is not MLIRTokenKind.HASH_IDENT:
            return UnresolvedOperand(token.span, 0)
        self.resume_from(token.start)
        return super().parse_optional_unresolved_operand()

    # Types and attributes

    @override
    def parse_optional_type(self) -> TypeAttribute | None:
        token = self.current_token
        content = token.input.content
        end = _end_of_brackets(content, token.end)
        is_name = token.kind is MLIRTokenKind.BARE_IDENT
        # Without brackets, the next token decides whether there are parameters.
        if not is_name and (token.kind is not MLIRTokenKind.EXCLAMATION_IDENT or end == token.end):
            return self._parse_new_type()
        return self._parse_once(content[token.start : end], self._known_types, self._parse_new_type)

    def _parse_new_type(self) -> TypeAttribute | None:
        """Parse a type that is not cached; None if there is no type."""
        return super().parse_optional_type()

    def _parse_once(
        self, text: str, known: dict[str, AttributeT], parse: Callable[[], AttributeT | None]
    ) -> AttributeT | None:
        """The cached attribute of `text`, which comes next, or the result of `parse`."""
        start, expansion = self.pos, self.expansion
        attribute = known.get(text)
        if attribute is not None:
            self.resume_from(start + len(text))
            return attribute
        attribute = parse()
        is_small = self.expansion - expansion <= _MAX_EXPANSION
        if attribute is not None and is_small and self._is_all_that_was_read(text, start):
            known[text] = attribute
        return attribute

    def _is_all_that_was_read(self, text: str, start: Position) -> bool:
        """Whether exactly `text` at `start` was parsed, and always has the same meaning."""
        end = start + len(text)
        return (
            self.is_remembering
            and end <= self.pos
            and not self.lexer.input.content[end : self.pos].strip()
            # Much faster on a long text than the expression alone.
            and ("0x" not in text or _BITS.search(text) is None)
        )

    @override
    def parse_dense_literal_type(
        self,
    ) -> RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType]:
        # xDSL constructs the constraint on each call, which takes longer than the rest.
        type = self.expect(self.parse_optional_type, "Dense attribute must be typed!")
        if not _dense_type().verifies(type):
            self.raise_error(
                "Expected memref, vector or tensor type of integer, index, float, or complex type"
            )
        if DYNAMIC_INDEX in type.get_shape():
            self.raise_error("Dense literal attribute should have a static shape.")
        return type

    @override
    def parse_optional_builtin_attr(self) -> Attribute | None:
        match self.current_token.kind:
            case MLIRTokenKind.L_SQUARE:
                return self.parse_optional_array_attr()
            case MLIRTokenKind.INTEGER_LIT | MLIRTokenKind.FLOAT_LIT:
                return self.parse_optional_builtin_int_or_float_attr()
            case MLIRTokenKind.EXCLAMATION_IDENT | MLIRTokenKind.L_PAREN:
                return self.parse_optional_type()
            case MLIRTokenKind.BARE_IDENT:
                return self._parse_attribute_of_name()
            case _:
                return super().parse_optional_builtin_attr()

    def _parse_attribute_of_name(self) -> Attribute | None:
        token = self.current_token
        content = token.input.content
        if token.text == "dense":
            return self.parse_optional_builtin_parametrized_attr()
        if token.text == "array":
            return self._parse_once(
                content[token.start : _end_of_brackets(content, token.end)],
                self._known_arrays,
                self.parse_optional_builtin_parametrized_attr,
            )
        if token.text in _NAMES_OF_VALUES:
            return super().parse_optional_builtin_attr()
        return self.parse_optional_type() or super().parse_optional_builtin_attr()


def _end_of_brackets(content: str, start: Position) -> Position:
    """The end of the bracketed text at `start`; `start` if it nests too deep or has no end."""
    if not content.startswith("<", start):
        return start
    end = content.find(">", start) + 1
    opened, closed = content.count("<", start, end), 1
    while closed < opened <= _MAX_DEPTH:
        next_end = content.find(">", end) + 1
        opened += content.count("<", end, next_end)
        closed += 1
        if not next_end:
            return start
        end = next_end
    return end if closed == opened else start
