"""The common parts of tools that read modules: arguments, and reading."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, NoReturn

from typing_extensions import override

from qdialect.opt.compilation import Compilation
from qdialect.opt.diagnostics import DiagnosticHandler
from qdialect.opt.files import read_text
from qdialect.opt.opt import MAX_MEMORY_HELP, Options, parse_max_memory
from qdialect.opt.outputs import standard_output
from qdialect.opt.tool_error import ToolError, did_you_mean
from qdialect.support.memory import DEFAULT_MAX_MEMORY

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


_NO_NUMBER = re.compile(r"argument (\S+): invalid int value: (.*)")
_UNKNOWN = re.compile(r"unrecognized arguments: (--[\w-]+)")


class ModuleArgumentParser(ArgumentParser):
    """An argument parser that raises ToolError for wrong arguments."""

    def add_reading_arguments(self) -> None:
        """Add the arguments for reading modules."""
        self.add_argument(
            "--max-memory",
            type=parse_max_memory,
            default=DEFAULT_MAX_MEMORY,
            metavar="BYTES",
            help=f"{MAX_MEMORY_HELP} ({DEFAULT_MAX_MEMORY})",
        )
        self.add_argument(
            "--allow-unregistered-dialect",
            action="store_true",
            help="accept unknown operations, in generic or plain form",
        )
        self.add_argument(
            "--read-with",
            metavar="COMMAND",
            help="parse the generic form that COMMAND, a tool like mlir-opt, prints",
        )

    @override
    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        # argparse ignores errors of standard output.
        with standard_output() as stream:
            stream.write(self.format_help())

    @override
    def error(self, message: str) -> NoReturn:
        if (number := _NO_NUMBER.fullmatch(message)) is not None:
            raise ToolError(f"{number[1]} must be a number, but is {number[2]}")
        wrong = _UNKNOWN.match(message)
        flags = sorted(set(re.findall(r"--[a-z][a-z-]*", self.format_help())))
        raise ToolError(message + (did_you_mean(wrong[1], flags) if wrong else ""))


def read_module(path: str, handler: DiagnosticHandler, arguments: Namespace) -> Compilation | None:
    """
    The module in a file, verified; None if it has errors.

    `arguments` are those of `add_reading_arguments`. Raises ToolError.
    """
    source = read_text(path, handler, arguments.read_with)
    if source is None:
        return None
    options = Options()
    # The other tool may know more dialects.
    options.allow_unregistered_dialect = (
        arguments.allow_unregistered_dialect or arguments.read_with is not None
    )
    compilation = Compilation(source, options, handler)
    return compilation if compilation.run(()) else None
