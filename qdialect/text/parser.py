"""A parser of MLIR text that records the location of each operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NoReturn, cast
from weakref import WeakKeyDictionary

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, UnregisteredOp
from xdsl.ir import Attribute, AttributeInvT, Block, Operation, Region, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation
from xdsl.parser import ForwardDeclaredValue, Parser, UnresolvedOperand
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError, VerifyException
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.ir.names import NumberedName, kept_name
from qdialect.ir.resources import BlobStorage
from qdialect.ir.xdsl_private import forget_operation, forget_resource
from qdialect.support.memory import memory_budget, paused_collection
from qdialect.text import messages
from qdialect.text.attribute_parser import OWN_DIALECT, AttributeParser
from qdialect.text.messages import PluginError, reading_message_of
from qdialect.text.source import AbridgedInput, AbridgedSpan, abridge
from qdialect.text.syntax import syntax_of_op
from qdialect.text.written_ops import with_later_properties


def _parse_types(parser: Parser) -> list[TypeAttribute]:
    """Parse types; the parentheses around them are optional. Raises ParseError."""
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    if types is None:
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    return types


class _NumberedBlock(Block):
    """A block whose label is a number, which is no name that xDSL accepts."""

    @property
    @override
    def name_hint(self) -> str | None:
        return None

    @name_hint.setter
    def name_hint(self, name: str | None) -> None:
        pass


class LocatingParser(AttributeParser):
    """
    xDSL's parser, for tools that report locations in the source.

    - `locations` holds the name token of every operation that was read, which is where MLIR's
      verifier errors point. It does not keep erased operations alive.
    - Errors about the quant dialect, about unknown operations and about the types of values have
      MLIR's message and location.
    - Every error about the text is a ParseError, even if xDSL's parser raises something else.
    - Text without operations is an empty module.

    The grammar is https://mlir.llvm.org/docs/LangRef/.
    """

    leaves_elements_out: ClassVar = True

    locations: WeakKeyDictionary[Operation, Span]
    """The name of each operation in the text: `quant.qcast` or `"quant.qcast"`."""

    _first_seen: dict[SSAValue, Span]
    _names: list[Span]
    _readers: dict[type[Operation], type[Operation]]
    """The class that reads the custom form of each registered op that was met."""
    _unnamed_arguments: list[dict[str, Attribute]]
    _is_unnamed_argument: bool
    _in_brackets: frozenset[str]
    """The names in the last `<{...}>`."""

    def __init__(
        self, ctx: Context, input: str | bytes | AbridgedInput, name: str = "<unknown>"
    ) -> None:
        """
        Make a parser of `input`, to which errors refer as `name` unless it has a name of its own.

        Raises ParseError if the first token is malformed, and UnicodeDecodeError if bytes
        are not UTF-8.
        """
        if isinstance(input, bytes):
            input = abridge(input, name)
        text = input if isinstance(input, Input) else Input(input, name)
        try:
            super().__init__(ctx, text)
        except ParseError:
            if not isinstance(text, AbridgedInput) or text.is_decoded:
                raise
            super().__init__(ctx, Input(text.whole_text, text.name))
        self.locations = WeakKeyDictionary()
        self._first_seen = {}
        self._names = []
        self._readers = {}
        self._unnamed_arguments = []
        self._is_unnamed_argument = False

    # Modules

    @override
    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """
        Read the whole text.

        Operations that are not inside one `builtin.module` are put into one, unless
        `allow_implicit_module` is false. Raises only ParseError.
        """
        text = self.lexer.input
        if not isinstance(text, AbridgedInput):
            return self._parse(allow_implicit_module)
        try:
            module = self._parse(allow_implicit_module)
        except ParseError as error:
            if text.is_decoded:
                error.span = AbridgedSpan(error.span.start, error.span.end, text)
                raise
        else:
            if text.is_decoded:
                # The module holds the elements now, and `locations` may outlive the module.
                text.forget()
                return module
        # A literal was not decoded: it is inside opaque text, or an error before it may depend
        # on it, as the parser searches far ahead for some definitions.
        self._forget_resources()
        return self._parse_unabridged(text, allow_implicit_module)

    def _parse_unabridged(self, text: AbridgedInput, allow_implicit_module: bool) -> ModuleOp:
        """Read a text with all its digits. Raises ParseError."""
        try:
            whole = type(self)(self.ctx, text.whole_text, text.name)
        except UnicodeDecodeError as error:
            self.raise_error(f"this is not UTF-8: {error.reason}")
        module = whole._parse(allow_implicit_module)
        self.locations = whole.locations
        return module

    def _forget_resources(self) -> None:
        for dialect, key in self.dialect_resources:
            interface = self.ctx.get_dialect(dialect).get_interface(OpAsmDialectInterface)
            if isinstance(interface, BlobStorage):
                interface.forget(key)
            elif interface is not None:
                forget_resource(interface, key)

    def _parse(self, allow_implicit_module: bool) -> ModuleOp:
        """Read the whole text of the lexer. Raises only ParseError."""
        try:
            with memory_budget(), paused_collection():
                return self._parse_whole_text(allow_implicit_module)
        except ParseError:
            raise
        except RecursionError:
            self.raise_error("nesting is too deep")
        except MemoryError:
            self.raise_error("there is not enough memory to read this")
        except Exception as error:
            self.raise_error(reading_message_of(error))

    def _parse_whole_text(self, allow_implicit_module: bool) -> ModuleOp:
        operations: list[Operation] = []
        while (kind := self.current_token.kind) is not MLIRTokenKind.EOF:
            if kind in (MLIRTokenKind.HASH_IDENT, MLIRTokenKind.EXCLAMATION_IDENT):
                self.parse_alias_def()
            elif kind is MLIRTokenKind.FILE_METADATA_BEGIN:
                self.parse_file_metadata_dictionary()
            else:
                operation = self.parse_optional_operation()
                if operation is None:
                    self._refuse_token("expected operation name in quotes")
                operations.append(operation)
        self._refuse_undefined_values()
        if len(operations) == 1 and isinstance(module := operations[0], ModuleOp):
            return module
        if not allow_implicit_module:
            self.raise_error(
                "source must contain a single top-level builtin.module, found: "
                f"{len(operations)} operations",
                0,
            )
        return ModuleOp(operations)

    def _refuse_undefined_values(self) -> None:
        for references in self.forward_ssa_references.values():
            for reference in references.values():
                self.raise_error("use of undeclared SSA value name", self._first_seen[reference])

    @override
    def parse_block(self) -> Block:
        if self.current_token.kind is not MLIRTokenKind.CARET_IDENT:
            self._refuse_token("expected operation name in quotes")
        span = self.current_token.span
        name = self.current_token.text[1:]
        if name.isdigit():
            self._declare_numbered_block(name)
        block = super().parse_block()
        if block.name_hint is not None:
            block.name_hint = kept_name(name)
        # xDSL records only blocks that no earlier op refers to.
        self.blocks[name] = block, span
        return block

    @override
    def parse_optional_successor(self) -> Block | None:
        token = self.current_token
        if token.kind is MLIRTokenKind.CARET_IDENT and token.text[1:].isdigit():
            name = token.text[1:]
            self._declare_numbered_block(name)
            if name in self.forward_block_references:
                self.forward_block_references[name].append(token.span)
        return super().parse_optional_successor()

    def _declare_numbered_block(self, name: str) -> None:
        """Declare the block `^0`, a name that xDSL does not give a block."""
        if name not in self.blocks:
            self.blocks[name] = _NumberedBlock(), None
            self.forward_block_references[name] = []

    @override
    def parse_optional_region(
        self, arguments: Iterable[Parser.Argument] | None = None
    ) -> Region | None:
        brace = self.current_token.span
        try:
            region = super().parse_optional_region(arguments)
        except ParseError as error:
            is_told = isinstance(error, MultipleSpansParseError)
            if is_told or self.current_token.kind is not MLIRTokenKind.EOF:
                raise
            note = "to match this '{'"
            raise MultipleSpansParseError(error.span, error.msg, None, [(brace, note)]) from None
        if (
            region is not None
            and not region.blocks
            and syntax_of_op(name := self._names[-1].text).has_function(name)
        ):
            self.raise_error(f"custom op '{name}' expected non-empty function body", brace)
        return region

    # Operations

    @override
    def parse_operation(self) -> Operation:
        """Read an operation, and record the location of its name."""
        depth = len(self._names)
        outer_arguments, self._unnamed_arguments = self._unnamed_arguments, []
        self._is_unnamed_argument = False
        try:
            op = super().parse_operation()
        except ParseError as error:
            names = self._names[depth:]
            if names and error.msg == f"Operation {names[0].text} does not have a custom format.":
                message = f"the custom form of {names[0].text} is not known"
                self.raise_error(message + self._form_hint(names[0].text), names[0])
            if len(names) == 1 and self._may_be_another_form(error, names[0].text):
                message = error.msg + self._form_hint(names[0].text, "if this is valid, ")
                self.raise_error(message, cast("Span[str]", error.span))
            raise
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            # An operation may parse, and then fail in the constructor of its class.
            names = self._names[depth:]
            message = reading_message_of(error)
            if names and not isinstance(error, VerifyException | PluginError):
                name = names[0].text
                message = f"this form of {name} cannot be read"
                if not name.startswith('"'):
                    message += self._form_hint(name)
            self.raise_error(message, names[0] if names else None)
        if syntax_of_op(op.name).has_function(op.name):
            self._keep_argument_attributes(op)
        if op.attributes and isinstance(op, IRDLOperation):
            # MLIR keeps none as an attribute, also if xDSL's parser of the op does.
            declared, flags = op.get_irdl_definition().properties, syntax_of_op(op.name).flags
            for name in [name for name in op.attributes if name in declared and name != flags]:
                op.properties[name] = op.attributes.pop(name)
        self._unnamed_arguments = outer_arguments
        self.locations[op] = self._names[depth]
        del self._names[depth:]
        return op

    def _may_be_another_form(self, error: ParseError, name: str) -> bool:
        """Whether tokens are in another order than in a custom form that xDSL may know in part."""
        return (
            type(error) is ParseError
            and error is not self._in_attribute
            and (error.msg.lower().startswith("expected") or error.msg.endswith(" expected"))
            and not name.startswith(('"', f"{OWN_DIALECT}."))
            and name != ModuleOp.name
            and not syntax_of_op(name).has_function(name)
        )

    # xDSL drops the attributes of the arguments of a declaration.

    @override
    def parse_optional_argument(self, expect_type: bool = True) -> Any:
        argument = super().parse_optional_argument(expect_type)
        self._is_unnamed_argument = argument is None
        return argument

    @override
    def _parse_new_type(self) -> TypeAttribute | None:
        is_argument, self._is_unnamed_argument = self._is_unnamed_argument, False
        type = super()._parse_new_type()
        self._is_unnamed_argument = is_argument
        return type

    @override
    def parse_optional_dictionary_attr_dict(self) -> dict[str, Attribute]:
        is_argument, self._is_unnamed_argument = self._is_unnamed_argument, False
        attributes = super().parse_optional_dictionary_attr_dict()
        if is_argument:
            self._unnamed_arguments.append(attributes)
        return attributes

    def _keep_argument_attributes(self, function: Operation) -> None:
        if any(self._unnamed_arguments) and "arg_attrs" not in function.properties:
            function.properties["arg_attrs"] = ArrayAttr(
                DictionaryAttr(attributes) for attributes in self._unnamed_arguments
            )

    @override
    def _enter_operation(self, name: Span) -> None:
        self._names.append(name)

    @override
    def get_op_by_name(self, name: str) -> type[Operation]:
        op_type = self.ctx.get_optional_op(name, dialect_stack=self.state.dialect_stack)
        is_custom = not self._names[-1].text.startswith('"')
        is_unknown = op_type is not None and issubclass(op_type, UnregisteredOp)
        if op_type is None or (
            is_unknown and (self._is_own(name) or (is_custom and "." not in name))
        ):
            # The lookup has recorded the op in the context as unregistered.
            forget_operation(self.ctx, name)
            self._refuse_operation(name, is_custom)
        if not is_custom:
            return op_type
        if not is_unknown:
            if (reader := self._readers.get(op_type)) is None:
                reader = syntax_of_op(op_type.name).reader_of(op_type.name, op_type)
                self._readers[op_type] = reader
            return reader
        syntax = syntax_of_op(name)
        form = syntax.reader_of(name, op_type) if syntax.is_unregistered else op_type
        return self._plain_syntax(op_type, name) if form is op_type else form

    def _plain_syntax(self, op_type: type[Operation], name: str) -> type[Operation]:
        """
        A class whose `parse` reads an unregistered op in the custom form of most ops.

        `%a, %b {attributes} : (types) -> types` can express every op without regions and
        successors.
        """
        refuse = self._refuse_operation

        class PlainSyntax(op_type):
            @classmethod
            @override
            def parse(cls, parser: Parser) -> Operation:
                position = parser.pos
                try:
                    operands = parser.parse_optional_undelimited_comma_separated_list(
                        parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
                    )
                    attributes = parser.parse_optional_attr_dict()
                    parser.parse_punctuation(":")
                    types = _parse_types(parser)
                    parser.parse_punctuation("->")
                    result_types = _parse_types(parser)
                except ParseError as error:
                    if not error.msg.lower().startswith("expected"):
                        # For example, an undefined alias.
                        raise
                    refuse(name, is_custom=True)
                return op_type.create(
                    operands=parser.resolve_operands(operands or [], types, position),
                    result_types=result_types,
                    attributes=attributes,
                )

        return PlainSyntax

    @override
    def parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        op = super().parse_generic_operation(op_type)
        if not isinstance(op, IRDLOperation) or self._is_own(op.name):
            return op
        declared = op.get_irdl_definition()
        syntax = syntax_of_op(op.name)
        if syntax.flags in op.properties:
            syntax.read_flags(op, self._in_brackets)
        # A version of xDSL may have as attributes what are properties in MLIR.
        for name in [name for name in op.properties if name in declared.attributes]:
            op.attributes[name] = op.properties.pop(name)
        if op.properties.keys() <= declared.properties.keys():
            return op
        return with_later_properties(type(op)).create(
            operands=op.operands,
            result_types=op.result_types,
            properties=op.properties,
            attributes=op.attributes,
            location=op.location,
            successors=op.successors,
            regions=[op.detach_region(region) for region in [*op.regions]],
        )

    @override
    def parse_optional_properties_dict(self) -> dict[str, Attribute]:
        properties = super().parse_optional_properties_dict()
        self._in_brackets = frozenset(properties)
        return properties

    def _refuse_operation(self, name: str, is_custom: bool) -> NoReturn:
        dialect, dot, _ = name.partition(".")
        is_known, is_own = dialect in self.ctx.registered_dialect_names, self._is_own(name)
        # An op of a dialect that only this context has is known to no other tool.
        has_others = not is_own and messages.has_other_tools(self.ctx, name)
        near = "" if is_own or has_others else messages.near_name(self.ctx, name, "operations")
        if is_custom and not dot:
            default = self.state.dialect_stack[-1]
            message = f"custom op '{name}' is unknown (tried '{default}.{name}' as well)"
        elif is_custom and is_known:
            message = f"custom op '{name}' is unknown{near}"
        elif is_custom:
            message = f"Dialect `{dialect}' not found for custom op '{name}'"
            message += messages.of_dialect(self.ctx, dialect)
        elif is_known:
            message = (
                f"unregistered operation '{name}' found in dialect ('{dialect}') that "
                f"does not allow unknown operations{near}"
            )
            if has_others:
                message += f" (xDSL lacks it; {messages.unregistered(self.ctx)})"
        elif isinstance(self.ctx, messages.CommandLineContext):
            self.raise_error(
                "operation being parsed with an unregistered dialect. If this is "
                "intended, please use -allow-unregistered-dialect with the MLIR "
                "tool used"
            )
        else:
            message = f"operation '{name}' is of a dialect that is not registered"
            message += messages.of_dialect(self.ctx, dialect)
            message += f", or {messages.unregistered(self.ctx)}"
        is_tool = isinstance(self.ctx, messages.CommandLineContext)
        if is_custom and (is_known or not dot or is_tool):
            message += self._form_hint(name, "" if dot else "if this is valid, ")
        self.raise_error(message, self._names[-1])

    def _form_hint(self, name: str, condition: str = "") -> str:
        """The hint at another form of an op, if another tool may print it."""
        if self._is_own(name) or not messages.has_other_tools(self.ctx, name):
            return ""
        return f"; {condition}{messages.generic_form(self.ctx)}"

    # Values

    @override
    def resolve_operand(
        self, operand: UnresolvedOperand, type: AttributeInvT
    ) -> SSAValue[AttributeInvT]:
        """
        The value of the name `operand`.

        Raises ParseError if its definition or an earlier use has another type.
        """
        try:
            value = super().resolve_operand(operand, type)
        except ParseError:
            self._refuse_operand_type(operand, type)
            raise
        if isinstance(value, ForwardDeclaredValue):
            self._first_seen.setdefault(value, operand.span)
        return value

    def _refuse_operand_type(self, operand: UnresolvedOperand, type: Attribute) -> None:
        """Raise ParseError if the definition or an earlier use has another type."""
        name, index = operand.operand_name, operand.index
        prior: SSAValue | None
        if name in self.ssa_values:
            prior = dict(enumerate(self.ssa_values[name])).get(index)
        else:
            prior = self.forward_ssa_references[name].get(index)
        if prior is None or prior.type == type:
            return
        raise MultipleSpansParseError(
            operand.span,
            f"use of value '%{name}' expects different type than prior uses: "
            f"'{type}' vs '{prior.type}'",
            None,
            [(self._first_seen[prior], "prior use here")],
        ) from None

    @override
    def register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        for index, reference in self.forward_ssa_references.get(name, {}).items():
            if index < len(values) and values[index].type != reference.type:
                raise MultipleSpansParseError(
                    span,
                    f"definition of SSA value '%{name}#{index}' has type '{values[index].type}'",
                    None,
                    [
                        (
                            self._first_seen[reference],
                            f"previously used here with type '{reference.type}'",
                        )
                    ],
                )
        super().register_ssa_definition(name, values, span)
        if isinstance(kept := kept_name(name), NumberedName):
            for value in values:
                value.name_hint = kept
        self._first_seen.update(dict.fromkeys(values, span))
