"""
Fast readers and writers of MLIR text, which follow MLIR's own parser and printer.

For tools of other compilers: `read_module` and `parse_module` in place of xDSL's parser,
and `write_module`, or the target `qdialect-mlir` of `xdsl-opt`, in place of its printer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    import os
    from typing import IO

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

__all__ = ["parse_module", "read_module", "write_module"]


def parse_module(
    context: Context,
    text: str | bytes,
    name: str = "<unknown>",
    *,
    allow_implicit_module: bool = True,
) -> ModuleOp:
    """
    Read a module from MLIR text; errors refer to it as `name`.

    Long hexadecimal literals in `bytes` are decoded straight into constants; xDSL's parser
    reads everything else, with the dialects of `context`. Unless `allow_implicit_module` is
    false, ops need not be inside a `builtin.module`. Raises ParseError, UnicodeDecodeError if
    bytes are not UTF-8, and TypeError if `text` is neither text nor bytes.
    """
    # Deferred: importing any module of this package runs this file first.
    from qdialect.support.arguments import shown
    from qdialect.text.parser import LocatingParser

    if not isinstance(cast(object, text), str | bytes):
        raise TypeError(f"text must be str or bytes, not {shown(text)}: read_module takes a path")
    return LocatingParser(context, text, name).parse_module(allow_implicit_module)


def read_module(
    context: Context, path: str | os.PathLike[str], *, allow_implicit_module: bool = True
) -> ModuleOp:
    """
    Read a module from a file, piece by piece: see `parse_module`.

    Raises OSError, also if the file changes while it is read, ParseError, and
    UnicodeDecodeError if it is not UTF-8.
    """
    # Deferred: importing any module of this package runs this file first.
    from qdialect.text.parser import LocatingParser
    from qdialect.text.source import read_text

    return LocatingParser(context, read_text(path)).parse_module(allow_implicit_module)


def write_module(
    context: Context,
    module: ModuleOp,
    stream: IO[str],
    *,
    form: Literal["custom", "llvm22", "llvm24", "generic"] = "custom",
    print_generic_format: bool = False,
    print_debuginfo: bool = False,
) -> None:
    """
    Write a module as MLIR text, followed by the resources of `context` that it refers to.

    Ops are written in a `form`, as by `--op-form`. Elements of constants are written as MLIR
    writes them, piece by piece, and directly to the `buffer` of `stream` if it has one. Raises
    OSError if the stream does.
    """
    # Deferred: importing any module of this package runs this file first.
    from qdialect.text.printer import MLIRPrinter
    from qdialect.text.written_ops import PrintedForm

    printer = MLIRPrinter(
        stream,
        print_generic_format=print_generic_format,
        print_debuginfo=print_debuginfo,
        form=PrintedForm(form),
    )
    printer.print_module(context, module)
