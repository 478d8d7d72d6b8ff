"""
The private names of xDSL that qdialect uses: all of them, with what each is there.

What is not a method of a subclass is used through the functions here. Subclasses of xDSL's
parser, printer, lexer, context and interpreter override and call private methods, too: those
are listed, so that a release of xDSL that renames one is noticed by its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xdsl.context import Context
from xdsl.dialect_interfaces import DialectInterface
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.parser import AttrParser, Position

if TYPE_CHECKING:
    from xdsl.interpreter import InterpreterFunctions

# pyright: reportPrivateUsage=false


class PrivateName(NamedTuple):
    """A private name of xDSL."""

    owner: str
    """The module and the class: `xdsl.parser.AttrParser`."""

    name: str
    mirrors: str
    """What qdialect depends on: the file of xDSL, and what the name does there."""


def resume_from(parser: AttrParser, position: Position) -> None:
    """Have the token at `position` be the next. Raises ParseError if there is none."""
    parser._resume_from(position)


def parse_resource_key(parser: AttrParser, interface: OpAsmDialectInterface) -> str:
    """Parse the key of a resource of the builtin dialect, and declare it. Raises ParseError."""
    return parser._parse_dialect_resource_handle("builtin", interface)


def interfaces_of(dialect: Dialect) -> Sequence[DialectInterface]:
    """The interfaces that a dialect was made with, to make another with."""
    return dialect._interfaces


def forget_operation(context: Context, name: str) -> None:
    """Have a context not know an op that it took for an unregistered one."""
    context._loaded_ops.pop(name, None)


def forget_resource(interface: OpAsmDialectInterface, key: str) -> None:
    """Forget a key, as if it had not been declared."""
    interface._blob_storage.pop(key, None)


def set_type(value: SSAValue, type: Attribute) -> None:
    """Give a value another type, where it is: to replace it would copy its op or block."""
    value._type = type


def implementations_of(functions: InterpreterFunctions) -> Iterable[tuple[type[Operation], Any]]:
    """The ops that an interpreter is given functions for, each with its function."""
    return functions._impls()


_GENERIC = "xdsl.parser.generic_parser.GenericParser"
_ATTR = "xdsl.parser.AttrParser"
_CORE = "xdsl.parser.Parser"
_PRINTER = "xdsl.printer.Printer"
_LEXER = "xdsl.utils.mlir_lexer.MLIRLexer"

PRIVATE_NAMES: Final[Sequence[PrivateName]] = tuple(
    PrivateName(owner, name, mirrors)
    for owner, names in {
        _GENERIC: {
            "_resume_from": "parser/generic_parser.py: lexes again from a position",
            "_current_token": "parser/generic_parser.py: the token that is next",
            "_parser_state": "parser/generic_parser.py: the lexer, the token, and the dialects",
            "_consume_token": "parser/generic_parser.py: goes on to the token after it",
            "_parse_optional_token": "parser/generic_parser.py: consumes a token of one kind",
        },
        _ATTR: {
            "_parse_dialect_resource_handle": "parser/attribute_parser.py: declares a key",
            "_parse_extended_type_or_attribute": "parser/attribute_parser.py: behind `!` or `#`",
            "_parse_optional_builtin_attr": "parser/attribute_parser.py: tries each kind in turn",
            "_parse_optional_array_attr": "parser/attribute_parser.py: `[...]`",
            "_parse_optional_builtin_parametrized_attr": "parser/attribute_parser.py: `dense`",
            "_parse_optional_builtin_parametrized_type": "parser/attribute_parser.py: `tensor`",
            "_parse_optional_shape_delimiter": "parser/attribute_parser.py: the `x` of a shape",
            "_parse_builtin_dense_attr": "parser/attribute_parser.py: behind `dense`",
            "_parse_builtin_densearray_attr": "parser/attribute_parser.py: behind `array`",
            "_parse_dense_literal_type": "parser/attribute_parser.py: copied, with one constraint",
            "_parse_memref_attrs": "parser/attribute_parser.py: behind `memref<`",
            "_parse_vector_attrs": "parser/attribute_parser.py: behind `vector<`",
            "_parse_complex_attrs": "parser/attribute_parser.py: behind `complex<`, copied",
        },
        _CORE: {
            "_parse_alias_def": "parser/core.py: `#a = ...`",
            "_parse_block": "parser/core.py: a block with a label",
            "_parse_file_metadata_dictionary": "parser/core.py: `{-# ... #-}`",
            "_parse_op_result_list": "parser/core.py: the results of an op, up to `=`",
            "_parse_resource": 'parser/core.py: `key: "0x..."`',
            "_get_op_by_name": "parser/core.py: the class of an op, or an error",
            "_register_ssa_definition": "parser/core.py: gives a name to values",
        },
        _PRINTER: {
            "_print_new_line": "utils/base_printer.py: a line break, and the indentation",
            "_ssa_values": "printer.py: the names of values",
            "_dialect_resources": "printer.py: the keys of resources that were printed",
            "_indent": "utils/base_printer.py: how deep the next line is indented",
            "_current_line": "utils/base_printer.py: of the output",
            "_current_column": "utils/base_printer.py: of the output",
            "_next_line_callback": "utils/base_printer.py: what is printed below a line",
        },
        _LEXER: {"_unescaped_characters_regex": "utils/mlir_lexer.py: a string, in linear time"},
        "xdsl.context.Context": {
            "_loaded_ops": "context.py: the classes of ops by name",
            "_registered_dialects": "context.py: how dialects are loaded, by name",
        },
        "xdsl.dialect_interfaces.op_asm.OpAsmDialectInterface": {
            "_blob_storage": "dialect_interfaces/op_asm.py: the texts of resources by key"
        },
        "xdsl.ir.Dialect": {"_interfaces": "ir/core.py: as in `Dialect.__init__`"},
        "xdsl.ir.SSAValue": {"_type": "ir/core.py: what `type` returns"},
        "xdsl.interpreter.Interpreter": {"_run_op": "interpreter.py: runs one op"},
        "xdsl.interpreter.InterpreterFunctions": {
            "_impls": "interpreter.py: the functions of a class, each with its op"
        },
    }.items()
    for name, mirrors in names.items()
)
"""Beside these, `Parser.__init__` is copied by FastParser, but for the lexer."""
