"""A parser of MLIR text that knows where each operation was read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn
from weakref import WeakKeyDictionary

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    ArrayAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    RankedStructure,
    UnrankedMemRefType,
    UnregisteredAttr,
    UnregisteredOp,
    VectorType,
)
from xdsl.ir import (
    Attribute,
    AttributeInvT,
    Block,
    Data,
    Operation,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.parser import (
    ForwardDeclaredValue,
    Position,
    UnresolvedOperand,
)
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError, VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.dense_attributes import dense_of_bytes
from qdialect.dialects.builtin import Blob, BlobStorage
from qdialect.errors import describe
from qdialect.garbage import paused_collection
from qdialect.text.fast_parser import FastParser
from qdialect.text.plain_lists import bytes_of_plain_list, find_plain_list
from qdialect.text.source import AbridgedInput, AbridgedSpan, abridge

MAX_DIMENSION = 2**63 - 1

_OWN_DIALECT = "quant"
_DENSE = "dense"

_BLOB = re.compile(r':\s*+"0x')
_LATE_LOCATION = re.compile(r"^(#[\w$.-]+)\s*=\s*(?=loc\()", re.MULTILINE)


class LocatingParser(FastParser):
    """
    xDSL's parser, for tools that have to say where in a file something is wrong.

    - `locations` holds the name token of every operation that was read, which is where
      MLIR's verifier errors point. Operations that are gone are not kept by it.
    - Errors about the quant dialect, about unknown operations and about the types of
      values have MLIR's text and place.
    - Whatever is wrong with the text is a ParseError, also where xDSL's parser raises
      something else.
    - Text without operations is an empty module.

    https://mlir.llvm.org/docs/LangRef/ is what it reads.
    """

    leaves_elements_out: ClassVar = True

    locations: WeakKeyDictionary[Operation, Span]
    """The name of each operation in the text: `quant.qcast` or `"quant.qcast"`."""

    _first_seen: dict[SSAValue, Span]
    _names: list[Span]
    _unnamed_arguments: list[dict[str, Attribute]]
    _is_unnamed_argument: bool
    _late_definitions: dict[str, Position] | None
    """Where aliases of locations are defined, once one is used before that."""
    _late_locations: dict[str, Attribute]

    def __init__(
        self, ctx: Context, input: str | bytes | AbridgedInput, name: str = "<unknown>"
    ) -> None:
        """
        `name` is what errors call the text, unless `input` knows it.

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
        self._unnamed_arguments = []
        self._is_unnamed_argument = False
        self._late_definitions = None
        self._late_locations = {}

    # Modules

    @override
    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """
        Read the whole text.

        What is not inside one `builtin.module` is put into one, unless
        `allow_implicit_module` is false. Raises ParseError, and nothing else.
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
                return module
        # A literal is where none was expected, such as inside of something opaque, or an
        # error is before it, which may depend on it: some things are looked for far ahead.
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
                interface._blob_storage.pop(key, None)  # pyright: ignore[reportPrivateUsage]

    def _parse(self, allow_implicit_module: bool) -> ModuleOp:
        """Read what the lexer gives. Raises ParseError, and nothing else."""
        try:
            with paused_collection():
                return self._parse_whole_text(allow_implicit_module)
        except ParseError:
            raise
        except RecursionError:
            self.raise_error("nesting is too deep")
        except MemoryError:
            self.raise_error("there is not enough memory to read this")
        except VerifyException as error:
            self.raise_error(str(error))
        except Exception as error:
            self.raise_error(f"cannot read this: {describe(error)}")

    def _parse_whole_text(self, allow_implicit_module: bool) -> ModuleOp:
        operations: list[Operation] = []
        while (kind := self._current_token.kind) is not MLIRTokenKind.EOF:
            if kind in (MLIRTokenKind.HASH_IDENT, MLIRTokenKind.EXCLAMATION_IDENT):
                self._parse_alias_def()
            elif kind is MLIRTokenKind.FILE_METADATA_BEGIN:
                self._parse_file_metadata_dictionary()
            else:
                operations.append(
                    self.expect(
                        self.parse_optional_operation,
                        "expected operation name in quotes",
                    )
                )
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
    def _parse_block(self) -> Block:
        if self._current_token.kind is not MLIRTokenKind.CARET_IDENT:
            self.raise_error("expected operation name in quotes")
        return super()._parse_block()

    # Operations

    @override
    def parse_operation(self) -> Operation:
        """Read an operation, and remember where its name is."""
        depth = len(self._names)
        outer_arguments, self._unnamed_arguments = self._unnamed_arguments, []
        self._is_unnamed_argument = False
        op = super().parse_operation()
        if op.name == "func.func":
            self._keep_argument_attributes(op)
        self._unnamed_arguments = outer_arguments
        self.locations[op] = self._names[depth]
        del self._names[depth:]
        return op

    # xDSL reads the attributes of a declaration's arguments, and drops them.

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
    def _get_op_by_name(self, name: str) -> type[Operation]:
        op_type = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        is_custom = not self._names[-1].text.startswith('"')
        if op_type is None or (
            issubclass(op_type, UnregisteredOp) and (is_custom or self._is_own(name))
        ):
            # The context now takes it for one, in whatever it is asked for next.
            self.ctx._loaded_ops.pop(name, None)  # pyright: ignore[reportPrivateUsage]
            self._refuse_operation(name, is_custom)
        if is_custom and op_type.dialect_name() == "linalg":
            from qdialect.text.linalg_syntax import SYNTAX

            return SYNTAX.get(op_type, op_type)
        return op_type

    def _refuse_operation(self, name: str, is_custom: bool) -> NoReturn:
        dialect, dot, _ = name.partition(".")
        is_known = dialect in self.ctx.registered_dialect_names
        if is_custom and not dot:
            default = self._parser_state.dialect_stack[-1]
            message = f"custom op '{name}' is unknown (tried '{default}.{name}' as well)"
        elif is_custom and is_known:
            message = f"custom op '{name}' is unknown"
        elif is_custom:
            message = f"Dialect `{dialect}' not found for custom op '{name}'"
        elif is_known:
            message = (
                f"unregistered operation '{name}' found in dialect ('{dialect}') that "
                "does not allow unknown operations"
            )
            if not self._is_own(name):
                message += " (xDSL lacks it; use --allow-unregistered-dialect)"
        else:
            self.raise_error(
                "operation being parsed with an unregistered dialect. If this is "
                "intended, please use -allow-unregistered-dialect with the MLIR "
                "tool used"
            )
        self.raise_error(message, self._names[-1])

    def _is_own(self, name: str) -> bool:
        return (
            name.startswith(f"{_OWN_DIALECT}.")
            and _OWN_DIALECT in self.ctx.registered_dialect_names
        )

    # Values

    @override
    def resolve_operand(
        self, operand: UnresolvedOperand, type: AttributeInvT
    ) -> SSAValue[AttributeInvT]:
        """
        The value of that name.

        Raises ParseError if it has another type where it is defined or was used before.
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
        """Raise ParseError if the value is known by another type."""
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
    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
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
        super()._register_ssa_definition(name, values, span)
        self._first_seen.update(dict.fromkeys(values, span))

    # Types and attributes

    @override
    def _parse_dialect_type_or_attribute_body(
        self,
        attr_name: str,
        is_type: bool,
        is_opaque: bool,
        starting_opaque_pos: Position | None,
    ) -> ParametrizedAttribute | Data[Any]:
        name_end = starting_opaque_pos
        if name_end is None:
            text = self.lexer.input.content
            name_end = text.rfind(attr_name, 0, self.pos) + len(attr_name)
        mnemonic = attr_name.partition(".")[2]
        position = name_end - len(mnemonic)
        if self._is_own(attr_name):
            self._refuse_unknown_attribute(attr_name, mnemonic, is_type, position)
        try:
            return super()._parse_dialect_type_or_attribute_body(
                attr_name, is_type, is_opaque, starting_opaque_pos
            )
        except VerifyException as error:
            self.raise_error(str(error), position)

    def _refuse_unknown_attribute(
        self, name: str, mnemonic: str, is_type: bool, position: Position
    ) -> None:
        """Raise ParseError if our dialect has no such type or attribute."""
        known = self.ctx.get_optional_type(name) if is_type else self.ctx.get_optional_attr(name)
        if known is not None and not issubclass(known, UnregisteredAttr):
            return
        self.raise_error(
            f"unknown quantized type {mnemonic}"
            if is_type
            else f"dialect '{_OWN_DIALECT}' provides no attribute parsing hook",
            position,
        )

    @override
    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Any:
        # Upstream takes `!name <` for an alias, and only `!name<` for a dialect.
        alias = f"{'!' if is_type else '#'}{attr_or_dialect_name}"
        known = self.attribute_aliases.get(alias)
        if known is not None and not self.lexer.input.content.endswith(alias, 0, self.pos):
            return known
        if known is None and not is_type:
            location = self._location_defined_later(alias)
            if location is not None:
                return location
        return super()._parse_extended_type_or_attribute(attr_or_dialect_name, is_type)

    def _location_defined_later(self, alias: str) -> Attribute | None:
        """What `alias = loc(...)` says further down, where mlir-opt writes all of them."""
        if self._late_definitions is None:
            matches = _LATE_LOCATION.finditer(self.lexer.input.content)
            self._late_definitions = {match[1]: match.end() for match in matches}
        position = self._late_definitions.get(alias)
        if position is None:
            return None
        if alias not in self._late_locations:
            here = self.pos
            self._resume_from(position)
            # It may be about itself: then it is not defined.
            del self._late_definitions[alias]
            self._late_locations[alias] = self.parse_attribute()
            self._late_definitions[alias] = position
            self._resume_from(here)
        return self._late_locations[alias]

    @override
    def parse_shape_dimension(self, allow_dynamic: bool = True) -> int:
        """One dimension of a shape: ParseError if it does not fit 64 bits."""
        position = self.pos
        dimension = super().parse_shape_dimension(allow_dynamic)
        if dimension > MAX_DIMENSION:
            self.raise_error("invalid dimension", position)
        return dimension

    @override
    def _parse_memref_attrs(self) -> MemRefType | UnrankedMemRefType:
        start = self.pos
        type = super()._parse_memref_attrs()
        if self._is_own(type.element_type.name):
            self._resume_from(start)
            if self.parse_optional_punctuation("*") or self.parse_dimension_list():
                self.parse_shape_delimiter()
            self.raise_error("invalid memref element type")
        return type

    @override
    def _parse_vector_attrs(self) -> VectorType[Attribute]:
        start = self.pos
        type = super()._parse_vector_attrs()
        if self._is_own(type.element_type.name):
            self.raise_error(
                "failed to verify 'elementType': VectorElementTypeInterface instance",
                self.lexer.input.content.rfind("vector", 0, start),
            )
        return type

    @override
    def _parse_complex_attrs(self) -> ComplexType:
        position = self.pos
        element_type = self.parse_type()
        if not isa(element_type, IntegerType | AnyFloat):
            self.raise_error("invalid element type for complex", position)
        return ComplexType(element_type)

    # Dense constants

    @override
    def _parse_resource(self, dialect_name: str, interface: OpAsmDialectInterface) -> None:
        text, start = self.lexer.input, self.pos
        if isinstance(text, AbridgedInput) and isinstance(interface, BlobStorage):
            key = self._parse_dialect_resource_handle(dialect_name, interface)
            opening = _BLOB.match(text.content, self.pos)
            data = text.decode(opening.end()) if opening else None
            if opening is not None and data is not None:
                interface.keep(key, Blob.of(data))
                self._resume_from(opening.end() + len('"'))
                return
            self._resume_from(start)
        super()._parse_resource(dialect_name, interface)

    @override
    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[AnyDenseElement] | None
    ) -> DenseIntOrFPElementsAttr[Any]:
        """
        Read the literal of a dense attribute, and its type unless that is given.

        What the text means, and what is wrong with it, is as in MLIR. A splat is repeated
        up to MAX_REPEATED_ELEMENTS of `qdialect.elements`. Above, `data` is that of a
        single element, which prints as the same splat, and `len(attr)` is 1. Raises
        ParseError.
        """
        start = self.pos
        if (plain := find_plain_list(self)) is not None:
            self._resume_from(plain.end())
            listed_type = type or self._parse_type_of_dense()
            shape = listed_type.get_shape()
            data = bytes_of_plain_list(plain[1], listed_type.element_type, shape)
            if data is not None:
                return dense_of_bytes(listed_type, data)
            self._resume_from(start)
        from qdialect.elements import element_bytes
        from qdialect.text.dense import DenseLiteral

        start = self.pos - len(_DENSE)
        is_named = self.lexer.input.content.startswith(_DENSE, start)
        literal = DenseLiteral.parse_after_keyword(self, start if is_named else self.pos)
        type = type or self._parse_type_of_dense()
        values = literal.to_values(self, type.element_type, type.get_shape(), is_storage=False)
        data = element_bytes(values, type.element_type, repeat_splats=True)
        return dense_of_bytes(type, data)

    def _parse_type_of_dense(self) -> RankedStructure[AnyDenseElement]:
        self.parse_punctuation(":", " in dense attribute")
        return self._parse_dense_literal_type()
