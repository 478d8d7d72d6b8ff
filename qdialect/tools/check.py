"""`qdialect-check`: whether two modules mean the same, such as before and after a fold."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from qdialect.certificates.module_comparison import DEFAULT_RUNS, Side, compare_modules
from qdialect.tools.diagnostics import DiagnosticPrinter
from qdialect.tools.files import standard_output
from qdialect.tools.module_tool import ModuleArgumentParser, read_module
from qdialect.tools.process import run_tool
from qdialect.tools.tool_error import ToolError

TOOL = "qdialect-check"
"""The name that the tool's own errors begin with."""


class _CommandLine(ModuleArgumentParser):
    def __init__(self) -> None:
        super().__init__(TOOL, description="Compare what the functions of two modules return.")
        self.add_argument("before", help="the module that is right; - for standard input")
        self.add_argument("after", help="the module that is to mean the same")
        self.add_argument(
            "--runs",
            type=int,
            default=DEFAULT_RUNS,
            metavar="COUNT",
            help=f"with how many sets of arguments functions are run ({DEFAULT_RUNS})",
        )
        self.add_reading_arguments()


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0 if both modules mean the same, or 1 if there is a difference,
    something that cannot be compared, or another error, which are on standard error.
    """
    return run_tool(TOOL, _run, argv)


def _run(arguments: Sequence[str]) -> bool:
    options = _CommandLine().parse_args(arguments)
    if options.runs < 1:
        raise ToolError(f"there must be one run at least, not {options.runs}")
    printer = DiagnosticPrinter(sys.stderr)
    before, after = (
        read_module(path, printer, allow_unregistered=options.allow_unregistered_dialect)
        for path in (options.before, options.after)
    )
    if before is None or after is None:
        return False
    sides = [Side(each.module, each.context) for each in (before, after)]
    is_same = True
    for finding in compare_modules(sides[0], sides[1], options.runs):
        place = (before if finding.is_before else after).locate(finding.op)
        printer.error(finding.message, place)
        is_same = False
    if is_same:
        stream = standard_output()
        count = len(sides[0].functions)
        stream.write(f"the same: {count} function{'' if count == 1 else 's'}\n")
        stream.flush()
    return is_same
