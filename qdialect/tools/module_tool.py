"""What the tools that read whole modules and change nothing have in common."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import NoReturn

from typing_extensions import override

from qdialect.tools.command_line import Options
from qdialect.tools.compilation import Compilation
from qdialect.tools.diagnostics import DiagnosticHandler
from qdialect.tools.files import read_text
from qdialect.tools.tool_error import ToolError


class ModuleArgumentParser(ArgumentParser):
    """The arguments of such a tool. What is wrong with them is a ToolError."""

    def add_reading_arguments(self) -> None:
        """Add what says how modules are read."""
        self.add_argument(
            "--allow-unregistered-dialect",
            action="store_true",
            help="accept unknown operations, in generic form",
        )

    @override
    def error(self, message: str) -> NoReturn:
        raise ToolError(message)


def read_module(
    path: str, handler: DiagnosticHandler, *, allow_unregistered: bool
) -> Compilation | None:
    """The module in a file, verified; None if it has errors. Raises ToolError."""
    source = read_text(path, handler)
    if source is None:
        return None
    options = Options()
    options.allow_unregistered_dialect = allow_unregistered
    compilation = Compilation(source, options, handler)
    return compilation if compilation.run(()) else None
