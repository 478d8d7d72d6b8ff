"""
All private names of xDSL that qdialect uses; no other file uses any.

`PRIVATE_NAMES` lists where xDSL defines each of them, and its use. Other files call the
functions here, or derive from the classes here, which make private methods of xDSL public:
`_parse_block` is `parse_block`. xDSL calls the override of a subclass.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import getclosurevars
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.ir import Attribute, Block, Dialect, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineExpr
from xdsl.parser import AttrParser, Parser, ParserState, Position
from xdsl.parser.affine_parser import AffineParser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind

from qdialect.support.text import TextBuffer, repeated

if TYPE_CHECKING:
    from xdsl.interpreter import Interpreter, InterpreterFunctions
    from xdsl.utils.scoped_dict import ScopedDict

# pyright: reportPrivateUsage=false


class PrivateName(NamedTuple):
    """A private name of xDSL."""

    owner: str
    """The module and the class: `xdsl.parser.AttrParser`."""

    name: str
    file: str
    line: int
    """The line of the definition in xDSL `XDSL_VERSION`."""

    role: str
    """Its purpose, or the behaviour that qdialect relies on."""


# Functions


def resume_from(parser: AttrParser, position: Position) -> None:
    """Make the token at `position` the next one. Raises ParseError if there is no valid token."""
    parser._resume_from(position)


def parse_resource_key(parser: AttrParser, interface: OpAsmDialectInterface) -> str:
    """Parse the key of a resource of the builtin dialect, and declare it. Raises ParseError."""
    return parser._parse_dialect_resource_handle("builtin", interface)


def rebuilt(
    dialect: Dialect,
    operations: Iterable[type[Operation]],
    attributes: Iterable[type[Attribute]] = (),
) -> Dialect:
    """A copy of `dialect` with classes added, which replace those of the same names."""
    all_operations = {cls.name: cls for cls in (*dialect.operations, *operations)}
    all_attributes = {cls.name: cls for cls in (*dialect.attributes, *attributes)}
    return Dialect(
        dialect.name,
        list(all_operations.values()),
        list(all_attributes.values()),
        list(dialect._interfaces),
    )


def is_registered(context: Context, dialect: str) -> bool:
    """Whether a context has a dialect of that name; xDSL's public API makes a set of all names."""
    return dialect in context._registered_dialects


def forget_operation(context: Context, name: str) -> None:
    """Remove an op from the context that it has recorded as unregistered."""
    context._loaded_ops.pop(name, None)


def declare_resource(interface: OpAsmDialectInterface, key: str) -> None:
    """Declare a key whose text is stored elsewhere."""
    interface._blob_storage[key] = ""


def forget_resource(interface: OpAsmDialectInterface, key: str) -> None:
    """Forget a key, as if it had not been declared."""
    interface._blob_storage.pop(key, None)


def set_type(value: SSAValue, type: Attribute) -> None:
    """Change the type of a value in place: replacing the value would copy its op or block."""
    value._type = type


def implementations_of(functions: InterpreterFunctions) -> Iterable[tuple[type[Operation], Any]]:
    """The op classes that `functions` implements, each with its function."""
    return functions._impls()


def scope_of(interpreter: Interpreter) -> ScopedDict[SSAValue, Any]:
    """The values in scope for the op that runs next."""
    return interpreter._ctx


def set_scope(interpreter: Interpreter, scope: ScopedDict[SSAValue, Any]) -> None:
    """Replace the values in scope for the op that runs next."""
    interpreter._ctx = scope


def own_verifier_of(cls: type[Operation]) -> Callable[[Operation], None] | None:
    """
    The `verify_` in the body of a class that `irdl_op_definition` decorates.

    `Operation.verify_` if the class has none; None if xDSL's closure is not as expected.
    """
    # The decorator replaces `verify_` by a closure, which checks the constraints and calls it.
    return getclosurevars(cls.verify_).nonlocals.get(_CUSTOM_VERIFY)


_CUSTOM_VERIFY = "custom_verify"
"""The variable of that closure that holds `verify_`: irdl/operations.py:2153."""

NAME_OF_UNREGISTERED: Final = "op_name__"
"""The attribute in which `UnregisteredOp` keeps the name of the op: dialects/builtin.py:2818."""


# Classes to derive from


def _hooks(*names: str) -> dict[str, str]:
    return {name: f"_{name}" for name in names}


class Hooks:
    """A base class whose subclasses override private methods of xDSL by public names."""

    HOOKS: ClassVar[Mapping[str, str]]
    """xDSL's private name for each public name."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, private_name in cls.HOOKS.items():
            if name in cls.__dict__:
                # One function under two names: a forwarding call would take time.
                setattr(cls, private_name, cls.__dict__[name])


class OpenParser(Hooks, Parser):
    """xDSL's parser, with the private methods that qdialect uses made public."""

    HOOKS: ClassVar = _hooks(
        "consume_token",
        "current_token",
        "get_op_by_name",
        "parse_block",
        "parse_builtin_dense_attr",
        "parse_builtin_densearray_attr",
        "parse_complex_attrs",
        "parse_dense_literal_type",
        "parse_dialect_resource_handle",
        "parse_extended_type_or_attribute",
        "parse_external_resources",
        "parse_generic_operation",
        "parse_location",
        "parse_memref_attrs",
        "parse_op_result_list",
        "parse_optional_builtin_attr",
        "parse_optional_builtin_parametrized_type",
        "parse_optional_token",
        "parse_resource",
        "parse_vector_attrs",
        "register_ssa_definition",
    )

    state: ParserState[MLIRTokenKind, str]
    """The lexer, the next token, and the default dialects of the enclosing regions."""

    def __init__(self, ctx: Context, lexer: MLIRLexer) -> None:
        """
        Make a parser that reads from `lexer`. Raises ParseError if the first token is
        malformed.
        """
        # `Parser.__init__` makes a lexer of its own: parser/core.py:102.
        super(Parser, self).__init__(ParserState(lexer), ctx)
        self.ssa_values = {}
        self.blocks = {}
        self.forward_block_references = defaultdict(list)
        self.forward_ssa_references = {}
        # xDSL replaces it only in parsers that it creates for affine maps.
        self.state = self._parser_state

    @property
    def current_token(self) -> MLIRToken:
        """The next token."""
        return self.state.current_token

    consume_token = Parser._consume_token
    get_op_by_name = Parser._get_op_by_name
    parse_alias_def = Parser._parse_alias_def
    parse_block = Parser._parse_block
    parse_builtin_dense_attr = Parser._parse_builtin_dense_attr
    parse_builtin_densearray_attr = Parser._parse_builtin_densearray_attr
    parse_complex_attrs = Parser._parse_complex_attrs
    parse_dense_literal_type = Parser._parse_dense_literal_type
    parse_dialect_resource_handle = Parser._parse_dialect_resource_handle
    parse_extended_type_or_attribute = Parser._parse_extended_type_or_attribute
    parse_external_resources = Parser._parse_external_resources
    parse_file_metadata_dictionary = Parser._parse_file_metadata_dictionary
    parse_generic_operation = Parser._parse_generic_operation
    parse_location = Parser._parse_location
    parse_memref_attrs = Parser._parse_memref_attrs
    parse_op_result_list = Parser._parse_op_result_list
    parse_optional_array_attr = Parser._parse_optional_array_attr
    parse_optional_builtin_attr = Parser._parse_optional_builtin_attr
    parse_optional_builtin_parametrized_attr = Parser._parse_optional_builtin_parametrized_attr
    parse_optional_builtin_parametrized_type = Parser._parse_optional_builtin_parametrized_type
    parse_optional_shape_delimiter = Parser._parse_optional_shape_delimiter
    parse_optional_token = Parser._parse_optional_token
    parse_resource = Parser._parse_resource
    parse_vector_attrs = Parser._parse_vector_attrs
    register_ssa_definition = Parser._register_ssa_definition
    resume_from = Parser._resume_from


class SemiAffineParser(AffineParser):
    """xDSL's parser of affine maps and sets, for those that multiply or divide by symbols, too."""

    @override
    def _create_binop_expr(self, lhs: AffineExpr, rhs: AffineExpr, binop: MLIRToken) -> AffineExpr:
        try:
            return super()._create_binop_expr(lhs, rhs, binop)
        except NotImplementedError:
            # xDSL computes with such an expression, but does not make it.
            return AffineBinaryOpExpr(_AFFINE_KINDS[binop.text], lhs, rhs)


_AFFINE_KINDS: Final = {
    "*": AffineBinaryOpKind.Mul,
    "floordiv": AffineBinaryOpKind.FloorDiv,
    "ceildiv": AffineBinaryOpKind.CeilDiv,
    "mod": AffineBinaryOpKind.Mod,
}


STRING_BODY: Final = repeated(r'[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2})')
"""A regular expression for the characters between the quotes of a string."""


class LinearLexer(MLIRLexer):
    """xDSL's lexer, in linear time."""

    # xDSL's regex takes time exponential in the length of an unterminated string.
    _unescaped_characters_regex = re.compile(f'"{STRING_BODY}"')


def print_under_names_of(
    printer: Printer, values: Sequence[SSAValue], named: Sequence[SSAValue]
) -> None:
    """Have values be printed under the names of others, which have been printed."""
    for value, other in zip(values, named, strict=True):
        printer._ssa_values[value] = printer._ssa_values[other]


class OpenPrinter(Printer):
    """xDSL's printer, whose output can be redirected while it is printing."""

    buffer: TextBuffer | None = None
    """The buffer that receives the text, None for the stream."""

    @property
    def names(self) -> dict[SSAValue, str]:
        """The printed names of values, without the percent sign."""
        return self._ssa_values

    @property
    def resource_keys(self) -> dict[str, set[str]]:
        """The keys of printed resources, by dialect."""
        return self._dialect_resources

    @property
    def place(self) -> tuple[int, ...]:
        """Where the printer is, and in how many scopes; see `return_to`."""
        return (
            self._current_line,
            self._current_column,
            self._indent,
            len(self._ssa_names),
            len(self._ssa_values),
            len(self._blocks),
            self.printing_location,
        )

    def skip_columns(self, count: int) -> None:
        """Count characters that are written to the stream by others."""
        self._current_column += count

    def return_to(self, place: tuple[int, ...]) -> None:
        """Go back to a place, after the text printed since then was discarded."""
        self._current_line, self._current_column, self._indent, scopes, values, blocks, _ = place
        self.printing_location = bool(place[-1])
        if len(self._ssa_names) == scopes:
            return
        while len(self._ssa_names) > scopes:
            self.exit_scope()
        # Names in a scope that is left may be given to others.
        for value in list(self._ssa_values)[values:]:
            del self._ssa_values[value]
        for block in list(self._blocks)[blocks:]:
            del self._blocks[block]

    @abstractmethod
    def unique_name(self, hint: str, numbers: dict[str, int]) -> str:
        """
        A name for a value or block with `hint` that no other one has in the same scope.

        `numbers` has the next number for each hint in the scope.
        """

    @override
    def _populate_block_name(self, block: Block, block_index: int | None = None) -> None:
        if block.name_hint:
            self._blocks[block] = self.unique_name(block.name_hint, self.block_names)
        else:
            super()._populate_block_name(block, block_index)

    @override
    def print_string(self, text: str, *, indent: int | None = None) -> None:
        buffer = self.buffer
        if buffer is None or "\n" in text:
            super().print_string(text, indent=indent)
            return
        self._current_column += len(text)
        buffer.write(text)

    @override
    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        buffer = self.buffer
        if buffer is None or self._next_line_callback:
            super()._print_new_line(indent, print_message)
            return
        spaces = (self._indent if indent is None else indent) * self.indent_num_spaces
        buffer.write("\n" + " " * spaces)
        self._current_line += 1
        self._current_column = spaces


class InterpreterHooks(Hooks):
    """
    A mixin that precedes xDSL's interpreter among the bases, and makes `_run_op` `run_one_op`.

    It does not derive from xDSL's interpreter itself, which few commands need to import.
    """

    HOOKS: ClassVar = {"run_one_op": "_run_op"}


_GENERIC = "xdsl.parser.generic_parser.GenericParser"
_AFFINE = "xdsl.parser.affine_parser.AffineParser"
_ATTR = "xdsl.parser.AttrParser"
_CORE = "xdsl.parser.Parser"
_PRINTER = "xdsl.printer.Printer"
_LEXER = "xdsl.utils.mlir_lexer.MLIRLexer"
_INTERPRETER = "xdsl.interpreter.Interpreter"

XDSL_VERSION: Final = "0.74.0"
"""The version of xDSL that the line numbers refer to."""

PRIVATE_NAMES: Final[Sequence[PrivateName]] = tuple(
    PrivateName(owner, name, file, line, role)
    for (owner, file), names in {
        (_GENERIC, "parser/generic_parser.py"): {
            "_resume_from": (96, "lexes again from a position"),
            "_current_token": (105, "the next token"),
            "_parser_state": (59, "the lexer, the token, and the dialects"),
            "_consume_token": (122, "goes on to the token after it"),
            "_parse_optional_token": (138, "consumes a token of one kind"),
        },
        (_AFFINE, "parser/affine_parser.py"): {
            "_create_binop_expr": (84, "makes a sum, a product or a quotient of two parts"),
        },
        (_ATTR, "parser/attribute_parser.py"): {
            "_parse_dialect_resource_handle": (999, "declares a key"),
            "_parse_extended_type_or_attribute": (304, "after `!` or `#`"),
            "_parse_optional_builtin_attr": (761, "tries each kind in turn"),
            "_parse_optional_array_attr": (1497, "`[...]`"),
            "_parse_optional_builtin_parametrized_attr": (849, "`dense`, and others"),
            "_parse_optional_builtin_parametrized_type": (498, "`tensor`, and others"),
            "_parse_optional_shape_delimiter": (570, "the `x` of a shape"),
            "_parse_builtin_dense_attr": (980, "after `dense`"),
            "_parse_builtin_densearray_attr": (1059, "after `array`"),
            "_parse_dense_literal_type": (868, "copied, with one constraint"),
            "_parse_location": (1381, "after `loc(`"),
            "_parse_memref_attrs": (672, "after `memref<`"),
            "_parse_vector_attrs": (705, "after `vector<`"),
            "_parse_complex_attrs": (664, "after `complex<`, copied"),
        },
        (_CORE, "parser/core.py"): {
            "_parse_alias_def": (164, "`#a = ...`"),
            "_parse_block": (235, "a block with a label"),
            "_parse_external_resources": (1100, "refuses what other tools wrote"),
            "_parse_file_metadata_dictionary": (1120, "`{-# ... #-}`"),
            "_parse_generic_operation": (944, "after the name in quotes"),
            "_parse_op_result_list": (878, "the results of an op, up to `=`"),
            "_parse_resource": (1063, '`key: "0x..."`'),
            "_get_op_by_name": (848, "the class of an op, or an error"),
            "_register_ssa_definition": (456, "gives a name to values"),
        },
        (_PRINTER, "printer.py"): {
            "_ssa_values": (60, "the names of values"),
            "_blocks": (63, "the names of blocks"),
            "_populate_block_name": (152, "chooses the name of a block"),
            "_ssa_names": (68, "the names that are taken, by scope"),
            "_dialect_resources": (77, "the keys of resources that were printed"),
        },
        (_PRINTER, "utils/base_printer.py"): {
            "_print_new_line": (89, "a line break, and the indentation"),
            "_indent": (15, "how deep the next line is indented"),
            "_current_line": (16, "of the output"),
            "_current_column": (17, "of the output"),
            "_next_line_callback": (19, "a hook that prints below a line"),
        },
        (_LEXER, "utils/mlir_lexer.py"): {
            "_unescaped_characters_regex": (480, "a string without its escapes"),
        },
        ("xdsl.context.Context", "context.py"): {
            "_loaded_ops": (18, "the classes of ops by name"),
            "_registered_dialects": (27, "how dialects are loaded, by name"),
        },
        (
            "xdsl.dialect_interfaces.op_asm.OpAsmDialectInterface",
            "dialect_interfaces/op_asm.py",
        ): {
            "_blob_storage": (33, "the texts of resources by key"),
        },
        ("xdsl.ir.Dialect", "ir/core.py"): {
            "_interfaces": (60, "as they are given to `Dialect.__init__`"),
        },
        ("xdsl.ir.SSAValue", "ir/core.py"): {"_type": (545, "the value of `type`")},
        (_INTERPRETER, "interpreter.py"): {
            "_run_op": (725, "runs one op"),
            "_ctx": (666, "the values by scope"),
        },
        ("xdsl.interpreter.InterpreterFunctions", "interpreter.py"): {
            "_impls": (231, "the functions of a class, each with its op"),
        },
    }.items()
    for name, (line, role) in names.items()
)
"""
Besides these, `NumberedName` depends on the slice that the setter of `name_hint` keeps:
ir/core.py:532. `OpenParser.__init__` copies `Parser.__init__` except for the lexer;
`own_verifier_of` and `NAME_OF_UNREGISTERED` depend on names that are not attributes of a class.
"""
