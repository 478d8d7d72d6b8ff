"""
Custom forms of operations, each described by a line of text, similar to MLIR's op definitions.

A format describes the text in words separated by blanks, and declares the parts of the op:

- `$name`: an operand; `$name*` are any number, `$name?` at most one; `$name*,`: operands, each with
  a comma behind it;
- `$name:kind`: a property of a kind in `form_kinds`;
- `region(name)`: a region; `region(name,terminator)` adds an omitted terminator, and
  `region(name,terminator,arguments)` has named arguments;
- `assigned(name)`: the optional `(%a = %x)`: operands, and arguments of a region;
- `arguments(name,type)`: `(%a)`: arguments of a region;
- `type(name)`: the types of operands or results; also of `operands` and `results` together. A name
  that is no operand is a result;
- `functional-type`: `(operand types) -> result types`; `functional-type(names)` names the results;
- `same-type`: the common type of all operands and results, or else as `functional-type`;
- `arrow(name)`: the optional `-> type` or `-> (types)` of results;
- `->name`: a result, without text;
- `function`: a symbol with arguments, results and a body, as functions are written;
- `indices(dynamic,static)`: `[%i, 2]`, operands and integers in one list; `indices(...,())` is the
  same in parentheses;
- `attr-dict`: the attributes, and properties that are named nowhere else: `attr-dict(name:kind)`;
- `trait(name:kind)`: the same, which must be there, and may be an alias;
- `custom:Name(names)`: a part with a reader and a printer of its own, see `Directive`. A name is
  that of an operand, or of a property; `name*`, `->name` and `{name}` are operands, results, and a
  region;
- `order(names)`, as the last word: these operands or results are the first of the op;
- `<?` to `?>`: read only if the first of them is there;
- any other word stands for itself.

The type of a value that the text omits is given after an `=`: a type (`$count=index`), the types of
another value (`->result=source`), or a rule (`->result=type_of(value)`: the type of an attribute).

https://mlir.llvm.org/docs/DefiningDialects/Operations/#declarative-assembly-format is MLIR's
language for this.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate
from typing import Any, ClassVar, Final, NamedTuple, Self, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    StringAttr,
    UnregisteredOp,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, traits_def
from xdsl.parser import Parser, Position, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, OpTrait, SymbolOpInterface

from qdialect.support.memory import registered_cache
from qdialect.text.form_kinds import (
    KINDS,
    RULES,
    FormMismatchError,
    FormText,
    Kind,
    dialect_attribute,
    integers_of,
    named_type,
)
from qdialect.text.written_ops import OwnForm, ReadsItsLine, with_later_properties

_PART: Final = re.compile(r"(\w+)([*?]?)(?:([:=])(\S+))?")
_CALL: Final = re.compile(r"([a-z-]+|custom:\w+)\((.*)\)")


class _Part(NamedTuple):
    """A part of an op, as a format declares it."""

    name: str
    number: str = ""
    """`*` for any number, `?` for at most one, or nothing."""

    mark: str = ""
    """`:` for a property, `=` for values whose type follows from others."""

    detail: str = ""
    """The kind of a property, the rule for a type, or the terminator of a region."""

    @property
    def kind(self) -> tuple[Kind, str]:
        """The kind of a property, and the text in parentheses after it. Raises KeyError."""
        name, _, argument = self.detail.partition("(")
        return KINDS[name], argument.removesuffix(")")

    @classmethod
    def of(cls, text: str) -> _Part:
        """Read `name*=rule` or `name:kind`. Raises ValueError."""
        if (match := _PART.fullmatch(text)) is None:
            raise ValueError(f"not a part of an op: {text}")
        return cls(*(group or "" for group in match.groups()))


@dataclass
class _Signature:
    """The parts of an op, in the order of the op."""

    operands: dict[str, _Part] = field(default_factory=dict)
    results: dict[str, _Part] = field(default_factory=dict)
    properties: dict[str, _Part] = field(default_factory=dict)
    regions: dict[str, _Part] = field(default_factory=dict)

    mentioned: set[str] = field(default_factory=set)
    """The properties that are printed outside of the dictionary of attributes."""

    def add_property(self, part: _Part, *, is_mentioned: bool = True) -> None:
        """Add a property, which has a place of its own in the text if it is mentioned."""
        self.properties[part.name] = part._replace(detail=part.detail or "any")
        if is_mentioned:
            self.mentioned.add(part.name)

    def add_result(self, text: str) -> str:
        """Add a result; returns its name, which may be that of an operand instead."""
        part = _Part.of(text)
        self.results.setdefault(part.name, part)
        return part.name

    def add_named(self, text: str) -> str:
        """Add what a directive names: a result, operands, a region, or else a property."""
        part = _Part.of(text.removeprefix("->").strip("{}"))
        if text.startswith("->"):
            self.results[part.name] = part
        elif text.startswith("{"):
            self.regions[part.name] = part
        elif part.number and part.mark != ":":
            self.operands[part.name] = part
        elif part.name not in self.operands:
            self.add_property(part)
        return part.name


@dataclass
class ReadParts:
    """The parts of an op that have been parsed."""

    signature: _Signature
    operands: dict[str, list[UnresolvedOperand]] = field(default_factory=dict)
    types: dict[str, Sequence[Attribute]] = field(default_factory=dict)
    properties: dict[str, Attribute] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    regions: dict[str, Region] = field(default_factory=dict)
    arguments: dict[str, list[Parser.UnresolvedArgument]] = field(default_factory=dict)

    def set_types(self, parts: Mapping[str, _Part], types: Sequence[Attribute]) -> bool:
        """Assign the types of all operands or results; false if their number is wrong."""
        free = len(types) - sum(not part.number for part in parts.values())
        start = 0
        for name, part in parts.items():
            count = 1
            if part.number:
                count = min(free, 1) if part.number == "?" else free
                if (written := self.operands.get(name)) is not None:
                    count = len(written)
                free -= count
            self.types[name] = types[start : start + count]
            start += count
        return start == len(types) and free >= 0


class FormWord(ABC):
    """A word of a format."""

    @abstractmethod
    def parse(self, parser: Parser, read: ReadParts) -> None:
        """Parse the word. Raises ParseError."""

    def parse_if_there(self, parser: Parser, read: ReadParts) -> bool:
        """Parse the word if it comes next, and return whether it did. Raises ParseError."""
        raise TypeError(f"{self} cannot begin an optional part of a form")

    def print(self, text: FormText) -> None:
        """Add the word to a text. Raises FormMismatchError if the op has no such part."""
        raise FormMismatchError(f"{self} is not printed")

    def is_there(self, text: FormText) -> bool:
        """Whether an optional part of a form is printed for this word."""
        return False


@dataclass
class _Literal(FormWord):
    text: str

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        if not self.parse_if_there(parser, read):
            if self.text.isidentifier():
                parser.parse_keyword(self.text)
            parser.parse_punctuation(cast(Any, self.text))

    @override
    def parse_if_there(self, parser: Parser, read: ReadParts) -> bool:
        if self.text.isidentifier():
            return parser.parse_optional_keyword(self.text) is not None
        return parser.parse_optional_punctuation(cast(Any, self.text)) is not None

    @override
    def print(self, text: FormText) -> None:
        text.literal(self.text)


@dataclass
class _Operands(FormWord):
    part: _Part

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        if not self.parse_if_there(parser, read) and not self.part.number:
            parser.parse_unresolved_operand()

    @override
    def parse_if_there(self, parser: Parser, read: ReadParts) -> bool:
        first = parser.parse_optional_unresolved_operand()
        if first is None:
            return False
        operands = read.operands.setdefault(self.part.name, [])
        operands.append(first)
        while self.part.number == "*" and parser.parse_optional_punctuation(",") is not None:
            operands.append(parser.parse_unresolved_operand())
        return True

    @override
    def print(self, text: FormText) -> None:
        values = text.values[self.part.name]
        if values:
            text.add(lambda printer: printer.print_list(values, printer.print_ssa_value))

    @override
    def is_there(self, text: FormText) -> bool:
        return bool(text.values[self.part.name])


class _ListedOperands(_Operands):
    """Operands, each with a comma behind it."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        operands = read.operands.setdefault(self.part.name, [])
        while (operand := parser.parse_optional_unresolved_operand()) is not None:
            operands.append(operand)
            parser.parse_punctuation(",")

    @override
    def print(self, text: FormText) -> None:
        if not self.is_there(text):
            raise FormMismatchError("there are no operands")
        super().print(text)
        text.literal(",")


@dataclass
class _Property(FormWord):
    part: _Part

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        kind, argument = self.part.kind
        read.properties[self.part.name] = kind.parse(parser, argument)

    @override
    def parse_if_there(self, parser: Parser, read: ReadParts) -> bool:
        kind, argument = self.part.kind
        assert kind.parse_if_there is not None
        value = kind.parse_if_there(parser, argument)
        if value is None:
            return False
        read.properties[self.part.name] = value
        return True

    @override
    def print(self, text: FormText) -> None:
        kind, argument = self.part.kind
        if kind.text is None:
            raise FormMismatchError(f"'{self.part.detail}' is not printed")
        text.add(kind.text(text.attribute(self.part.name), argument))

    @override
    def is_there(self, text: FormText) -> bool:
        return text.find(self.part.name) is not None


@dataclass
class _Assigned(FormWord):
    """Arguments of a region, and their first values."""

    name: str

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        pairs = parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_assignment(parser)
        )
        read.arguments[self.name] = [argument for argument, _ in pairs or ()]
        read.operands[self.name] = [value for _, value in pairs or ()]


@dataclass
class _Arguments(FormWord):
    """Arguments of a region."""

    name: str
    type: str

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        arguments = parse_arguments(parser)
        read.arguments[self.name] = arguments
        read.types[self.name] = [named_type(parser, self.type)] * len(arguments)


@dataclass
class _Body(FormWord):
    part: _Part
    arguments: str = ""
    """The name of the arguments, if they are not in the region."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        if not self.parse_if_there(parser, read):
            parser.parse_region()

    @override
    def parse_if_there(self, parser: Parser, read: ReadParts) -> bool:
        arguments = None
        if (named := read.arguments.get(self.arguments)) is not None:
            types = read.types[self.arguments]
            if len(types) != len(named):
                parser.raise_error("expected a type for each argument of the region")
            arguments = [one.resolve(type) for one, type in zip(named, types, strict=True)]
        region = parser.parse_optional_region(arguments)
        if region is None:
            return False
        read.regions[self.part.name] = with_terminator(parser, region, self.part.detail)
        return True


def with_terminator(parser: Parser, region: Region, terminator: str) -> Region:
    """
    The region, with a terminator of that name added if the text omits it.

    `name*` yields the results of the last op. For `none`, an empty region gets a block only.
    """
    if not terminator:
        return region
    if not region.blocks:
        region.add_block(Block())
    block = region.blocks[-1]
    last = block.last_op
    if terminator != "none" and (last is None or not last.has_trait(IsTerminator)):
        name = terminator.removesuffix("*")
        op_type = parser.ctx.get_optional_op(name)
        if op_type is None:
            parser.raise_error(f"'{name}' is not registered")
        yielded = () if last is None or name == terminator else last.results
        block.add_op(op_type.create(operands=yielded))
    return region


@dataclass
class _Types(FormWord):
    name: str

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        signature = read.signature
        groups = {"operands": signature.operands, "results": signature.results}
        start = parser.pos
        if self.name in groups:
            types = _parse_types(parser)
            if not read.set_types(groups[self.name], types):
                parser.raise_error(f"expected a different number of types for {self.name}", start)
            return
        part = (signature.operands | signature.results)[self.name]
        if not part.number:
            read.types[self.name] = [parser.parse_type()]
        elif self.name in signature.operands and not read.operands.get(self.name):
            read.types[self.name] = []
        else:
            read.types[self.name] = _parse_types(parser)

    @override
    def print(self, text: FormText) -> None:
        text.add_attributes(value.type for value in self._values(text))

    @override
    def is_there(self, text: FormText) -> bool:
        return bool(self._values(text))

    def _values(self, text: FormText) -> Sequence[SSAValue]:
        groups = {"operands": text.op.operands, "results": text.op.results}
        return groups[self.name] if self.name in groups else text.values[self.name]


def _parse_types(parser: Parser) -> list[Attribute]:
    types = parser.parse_optional_undelimited_comma_separated_list(
        parser.parse_optional_type, parser.parse_type
    )
    return [*types] if types else []


@dataclass
class _FunctionalType(FormWord):
    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        self.deal(parser, read, parser.parse_function_type())

    def deal(self, parser: Parser, read: ReadParts, type: FunctionType) -> None:
        """Set the types of operands and results. Raises ParseError if their number is wrong."""
        for parts, types in (
            (read.signature.operands, type.inputs.data),
            (read.signature.results, type.outputs.data),
        ):
            if not read.set_types(parts, types):
                parser.raise_error("expected a different number of types")

    @override
    def print(self, text: FormText) -> None:
        text.add_function_type()


@dataclass
class _SameType(_FunctionalType):
    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        type = parser.parse_type()
        if isinstance(type, FunctionType):
            self.deal(parser, read, type)
            return
        for name in (*read.signature.operands, *read.signature.results):
            read.types[name] = [type] * len(read.operands.get(name, (None,)))

    @override
    def print(self, text: FormText) -> None:
        first, *others = {*text.op.operand_types, *text.op.result_types}
        if others:
            text.add_function_type()
        else:
            text.add_attributes([first])


@dataclass
class _Arrow(FormWord):
    name: str

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        read.types[self.name] = parse_arrow_types(parser)


def parse_arrow_types(parser: Parser) -> Sequence[Attribute]:
    """Parse the optional `-> type` or `-> (type, type)`. Raises ParseError."""
    if parser.parse_optional_punctuation("->") is None:
        return ()
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if types is None else types


@dataclass
class _Indices(FormWord):
    dynamic: str
    static: str
    brackets: str = "[]"

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        delimiters = {"()": parser.Delimiter.PAREN, "[]": parser.Delimiter.SQUARE}
        values, numbers = parse_indices(parser, delimiters[self.brackets])
        read.operands.setdefault(self.dynamic, []).extend(values)
        read.properties[self.static] = numbers


def parse_indices(
    parser: Parser, delimiter: Parser.Delimiter
) -> tuple[list[UnresolvedOperand], DenseArrayBase[Any]]:
    """
    Parse `[%i, 2]`: the operands, and the integers with DYNAMIC_INDEX where an operand stands.

    Raises ParseError.
    """
    values: list[UnresolvedOperand] = []

    def parse_index() -> int:
        value = parser.parse_optional_unresolved_operand()
        if value is None:
            return parser.parse_integer()
        values.append(value)
        return DYNAMIC_INDEX

    numbers = parser.parse_comma_separated_list(delimiter, parse_index)
    return values, DenseArrayBase.from_list(i64, numbers)


def parse_typed_operands(parser: Parser) -> tuple[list[UnresolvedOperand], Sequence[Attribute]]:
    """Parse `%a, %b : T, U`. Raises ParseError."""
    none = parser.Delimiter.NONE
    values = parser.parse_comma_separated_list(none, parser.parse_unresolved_operand)
    parser.parse_punctuation(":")
    return values, parser.parse_comma_separated_list(none, parser.parse_type)


def parse_arguments(parser: Parser) -> list[Parser.UnresolvedArgument]:
    """Parse `(%i, %j)`: arguments of a region, without types. Raises ParseError."""
    return parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False)
    )


def parse_assignment(parser: Parser) -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
    """Parse `%i = %x`: an argument of a region, and its first value. Raises ParseError."""
    argument = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    return argument, parser.parse_unresolved_operand()


@dataclass
class _Attributes(FormWord):
    with_keyword: bool
    is_trait: bool

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        attributes: Mapping[str, Attribute]
        if self.is_trait:
            start, dictionary = parser.pos, parser.parse_attribute()
            if not isinstance(dictionary, DictionaryAttr):
                parser.raise_error("expected a dictionary of attributes", start)
            attributes = dictionary.data
        elif self.with_keyword:
            dictionary = parser.parse_optional_attr_dict_with_keyword()
            attributes = {} if dictionary is None else dictionary.data
        else:
            attributes = parser.parse_optional_attr_dict()
        for name, attribute in attributes.items():
            part = read.signature.properties.get(name)
            if part is None:
                read.attributes[name] = attribute
            else:
                read.properties[name] = _from_dictionary(parser, part.detail, attribute)

    @override
    def print(self, text: FormText) -> None:
        text.add_dictionary(with_keyword=self.with_keyword)


def _from_dictionary(parser: Parser, kind: str, attribute: Attribute) -> Attribute:
    """A property from the attribute dictionary, where enumerations may be strings."""
    kind, _, name = kind.partition("(")
    if kind != "keywords" or not isinstance(attribute, ArrayAttr):
        return attribute
    return ArrayAttr(
        dialect_attribute(parser, name.removesuffix(")"), item.data)
        if isinstance(item, StringAttr)
        else item
        for item in cast("ArrayAttr[Attribute]", attribute)
    )


@dataclass
class _Optional(FormWord):
    words: Sequence[FormWord]

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        if self.words[0].parse_if_there(parser, read):
            for word in self.words[1:]:
                word.parse(parser, read)

    @override
    def print(self, text: FormText) -> None:
        if any(word.is_there(text) for word in self.words):
            for word in self.words:
                word.print(text)


@dataclass
class _Function(FormWord):
    """A function: `private @f(%a: i32) -> i32 attributes {...} {...}`."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        # Deferred: few texts have functions of such dialects.
        from xdsl.dialects.utils import parse_func_op_like

        if (visibility := parser.parse_optional_visibility_keyword()) is not None:
            read.properties["sym_visibility"] = visibility
        reserved = ("sym_name", "function_type", "sym_visibility")
        name, inputs, outputs, region, attributes, arg_attrs, res_attrs = parse_func_op_like(
            parser, reserved_attr_names=reserved
        )
        read.properties["sym_name"] = StringAttr(name)
        read.properties["function_type"] = FunctionType.from_lists(inputs, outputs)
        if arg_attrs is not None:
            read.properties["arg_attrs"] = arg_attrs
        if res_attrs is not None:
            read.properties["res_attrs"] = res_attrs
        if attributes is not None:
            read.attributes.update(attributes.data)
        (body,) = read.signature.regions
        read.regions[body] = region


class Directive(FormWord):
    """
    A part of a form with a reader and a printer of its own, as `custom` is in MLIR's formats.

    `custom:Name(...)` in formats is the directive of the class `Name`.
    """

    KNOWN: ClassVar[dict[str, type[Directive]]] = {}

    def __init_subclass__(cls) -> None:
        Directive.KNOWN[cls.__name__] = cls

    def __init__(self, *names: str) -> None:
        self.names = names
        """The names in parentheses after its own."""


class OpFormat:
    """A format: see the module."""

    def __init__(self, text: str, defaults: tuple[tuple[str, str], ...] = ()) -> None:
        """Raises KeyError or ValueError if the text is malformed."""
        signature = self.signature = _Signature()
        self.defaults = dict(defaults)
        """Properties and the values with which they are not printed, as text."""
        groups: list[list[FormWord]] = [[]]
        for word in text.split():
            if word == "<?":
                groups.append([])
            elif word == "?>":
                group = _Optional(groups.pop())
                groups[-1].append(group)
            elif (form_word := _word(signature, word)) is not None:
                groups[-1].append(form_word)
        (self.words,) = groups
        for name in signature.operands:
            signature.results.pop(name, None)

    @cached_property
    def traits(self) -> Sequence[OpTrait]:
        """The traits that follow from the parts."""
        traits: list[OpTrait] = []
        if any(region.detail == "none" for region in self.signature.regions.values()):
            traits.append(NoTerminator())
        if is_function := any(isinstance(word, _Function) for word in self.words):
            traits.append(IsolatedFromAbove())
        if is_function or "sym_name" in self.signature.properties:
            traits.append(SymbolOpInterface())
        return traits

    def text(self, op: Operation) -> FormText:
        """The text of an op. Raises FormMismatchError if the form cannot express it."""
        signature = self.signature
        values = _dealt(op, "operand", signature.operands, tuple(op.operands))
        values |= _dealt(op, "result", signature.results, tuple(op.results))
        mentioned = {*signature.mentioned, "operandSegmentSizes", "resultSegmentSizes"}
        text = FormText(op, values, self.defaults, mentioned)
        for word in self.words:
            word.print(text)
        return text

    def parse(self, parser: Parser, op_type: type[Operation]) -> Operation:
        """Read an op after its name, and create it. Raises ParseError."""
        signature = self.signature
        position = parser.pos
        read = ReadParts(signature)
        for word in self.words:
            word.parse(parser, read)
        properties = read.properties
        counts: dict[str, list[int]] = {"operand": [], "result": []}
        operands: list[SSAValue] = []
        for part in signature.operands.values():
            written = read.operands.get(part.name, [])
            types = _types_of(parser, read, part, len(written), position)
            operands += parser.resolve_operands(written, types, position)
            counts["operand"].append(len(written))
        results: list[Attribute] = []
        for part in signature.results.values():
            types = _types_of(parser, read, part, 1, position)
            counts["result"].append(len(types))
            results += types
        for kind, parts in (("operand", signature.operands), ("result", signature.results)):
            if _has_sizes(parts):
                sizes = DenseArrayBase.from_list(i32, counts[kind])
                properties[f"{kind}SegmentSizes"] = sizes
        if issubclass(op_type, IRDLOperation) and not issubclass(op_type, UnregisteredOp):
            known = op_type.get_irdl_definition().properties.keys()
            if not properties.keys() <= known:
                op_type = with_later_properties(op_type)
        return op_type.create(
            operands=operands,
            result_types=results,
            properties=properties,
            attributes=read.attributes,
            regions=[read.regions.get(name) or Region() for name in signature.regions],
        )


def _has_sizes(parts: Mapping[str, _Part]) -> bool:
    """Whether an op says how many operands or results each part has."""
    return sum(bool(part.number) for part in parts.values()) > 1


def _dealt(
    op: Operation, kind: str, parts: Mapping[str, _Part], values: Sequence[SSAValue]
) -> dict[str, Sequence[SSAValue]]:
    """The operands or the results of each part. Raises FormMismatchError for a wrong number."""
    sizes: Sequence[int] = [1] * len(parts)
    if _has_sizes(parts):
        sizes = integers_of(op.properties.get(f"{kind}SegmentSizes"), i32)
    elif any(part.number for part in parts.values()):
        free = len(values) - len(parts) + 1
        sizes = [free if part.number else 1 for part in parts.values()]
    if min(sizes, default=0) < 0 or sum(sizes) != len(values) or len(sizes) != len(parts):
        raise FormMismatchError(f"it has {len(values)} {kind}s")
    ends = accumulate(sizes)
    dealt = zip(parts, sizes, ends, strict=True)
    return {name: values[end - size : end] for name, size, end in dealt}


def _types_of(
    parser: Parser, read: ReadParts, part: _Part, count: int, position: Position
) -> Sequence[Attribute]:
    """The types of a value, parsed or computed."""
    if (written := read.types.get(part.name)) is not None:
        return written
    if not part.detail:
        return []
    rule = part.detail
    if rule.endswith(")"):
        name, _, argument = rule.removesuffix(")").partition("(")
        if name == "type_of":
            return [cast(Any, read.properties[argument]).type]
        groups = [read.types.get(value, ()) for value in argument.split(",")]
        try:
            types = RULES[name](*groups)
        except (AttributeError, LookupError, ValueError):
            parser.raise_error("expected types that match the form of the op", position)
    elif rule in (values := read.signature.operands | read.signature.results):
        types = read.types.get(rule)
        if types is None:
            types = _types_of(parser, read, values[rule], 1, position)
    else:
        types = [named_type(parser, rule)]
    return [*types] * count if part.number and len(types) == 1 else types


def _word(signature: _Signature, word: str) -> FormWord | None:
    """A word of a format, if it is one of the text. Its parts are added to the signature."""
    if word.startswith("$"):
        part = _Part.of(word[1:].removesuffix(","))
        if part.mark != ":":
            signature.operands[part.name] = part
            return (_ListedOperands if word.endswith(",") else _Operands)(part)
        if part.detail.partition("(")[0] not in KINDS:
            raise ValueError(f"not a kind of property: {part.detail}")
        signature.add_property(part)
        return _Property(part)
    if word.startswith("->") and word != "->":
        signature.add_result(word.removeprefix("->"))
        return None
    if (call := _CALL.fullmatch(word)) is None and word not in _BARE:
        return _Literal(word)
    kind, names = (word, []) if call is None else (call[1], call[2].split(","))
    match kind:
        case "type":
            return _Types(
                names[0] if names[0] in ("operands", "results") else signature.add_result(*names)
            )
        case "arrow":
            (name,) = names
            return _Arrow(signature.add_result(name if name[-1] in "*?" else f"{name}*"))
        case "functional-type" | "same-type":
            for name in names or ("result",):
                signature.add_result(name)
            return _FunctionalType() if kind == "functional-type" else _SameType()
        case "attr-dict" | "attr-dict-with-keyword" | "trait":
            for part in map(_Part.of, names):
                signature.add_property(part, is_mentioned=False)
            return _Attributes(kind == "attr-dict-with-keyword", kind == "trait")
        case "region":
            body = _Part(names[0], detail="".join(names[1:2]))
            signature.regions[body.name] = body
            return _Body(body, "".join(names[2:]))
        case "assigned":
            (name,) = names
            signature.operands[name] = _Part(name, "*")
            return _Assigned(name)
        case "arguments":
            return _Arguments(*names)
        case "function":
            signature.regions["body"] = _Part("body")
            return _Function()
        case "indices":
            values, attribute = names[:2]
            signature.operands[values] = _Part(values, "*", "=", "index")
            signature.add_property(_Part(attribute))
            return _Indices(*names)
        case "order":
            for parts in (signature.operands, signature.results):
                ordered = {name: parts.pop(name) for name in names if name in parts} | parts
                parts.clear()
                parts.update(ordered)
            return None
        case _ if kind.startswith("custom:"):
            directive = Directive.KNOWN[kind.removeprefix("custom:")]
            return directive(*map(signature.add_named, names))
        case _:
            raise ValueError(f"not a word of a form: {word}")


_BARE: Final = ["attr-dict", "attr-dict-with-keyword", "function", "functional-type", "same-type"]
"""Words with a meaning without names in parentheses."""


class FormattedOp(ReadsItsLine, Operation):
    """
    Base class of ops whose custom form is read by an OpFormat, and which are printed generically.

    Types are not verified.
    """

    FORM: ClassVar[OpFormat]

    CREATED: ClassVar[type[Operation] | None] = None
    """The class of the op that `parse` makes, if this class only reads its form."""

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Self:
        return cast("Self", cls.FORM.parse(parser, cls.CREATED or cls))


class PrintedOp(OwnForm, FormattedOp):
    """Base class of ops that are printed in custom form, too, if it can express the op."""

    @override
    def own_form(self) -> Callable[[Printer], object] | None:
        try:
            return self.FORM.text(self).print
        except FormMismatchError:
            return None


@registered_cache
@cache
def op_class(
    name: str,
    text: str,
    defaults: tuple[tuple[str, str], ...] = (),
    *,
    created: type[Operation] | None = None,
    is_printed: bool = False,
    is_terminator: bool = False,
) -> type[Operation]:
    """
    The class of an op of a table, with a format.

    `parse` creates an op of class `created`, if that is given. An empty text has no `parse`.
    """
    fields: dict[str, object] = {
        "name": name,
        "__doc__": f"`{name}`, as MLIR writes it.",
        "__module__": __name__,
    }
    base: type[Operation] = Operation
    traits: Sequence[OpTrait] = ()
    if text:
        base = PrintedOp if is_printed else FormattedOp
        form = OpFormat(text, defaults)
        fields |= {"FORM": form, "CREATED": created}
        traits = (*form.traits, IsTerminator()) if is_terminator else form.traits
    fields["traits"] = traits_def(*traits)
    return cast("type[Operation]", type(class_name(name.partition(".")[2]), (base,), fields))


def class_name(name: str) -> str:
    """The name of the class of an op, from its name without the dialect."""
    words = re.split("[._-]+", name)
    return "".join(word.capitalize() for word in words) + "Op"
