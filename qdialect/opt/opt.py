"""
`qdialect-opt`: the dialects and passes of xDSL and qdialect, with the conventions of mlir-opt.

See https://mlir.llvm.org/docs/Tutorials/MlirOpt/. Modules are imported when they are needed, since
a small run spends most of its time on imports.
"""

from __future__ import annotations

from collections.abc import Sequence

from qdialect.opt.command_line import help_text, parse_arguments, version_text
from qdialect.opt.exit_status import run_tool
from qdialect.opt.outputs import standard_output
from qdialect.opt.tool_error import TOOL


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 if there was an error, which is on standard error.
    """
    return run_tool(TOOL, _run, argv)


def _run(arguments: Sequence[str]) -> bool:
    options = parse_arguments(arguments)
    if options.help or options.version:
        with standard_output() as stream:
            stream.write(f"{help_text(options) if options.help else version_text()}\n")
        return True
    # It imports xDSL, which takes most of a small run; `--version` and errors do not need it.
    from qdialect.opt.compilation import process

    return process(options)
