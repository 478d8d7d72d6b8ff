"""`qdialect-check`: whether two modules mean the same, such as before and after a fold."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence

from xdsl.ir import Operation

from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.comparison import Comparison, Finding, Verdict, compare_modules
from qdialect.check.interpreters.arguments import DEFAULT_MAX_SETS
from qdialect.check.step_budget import DEFAULT_STEPS
from qdialect.opt.compilation import Compilation
from qdialect.opt.diagnostics import DiagnosticPrinter, Location
from qdialect.opt.module_tool import ModuleArgumentParser, read_module, whole_number
from qdialect.opt.outputs import standard_output
from qdialect.opt.tool_error import ToolError


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0 if both modules mean the same, or 1 if there is a difference,
    something that cannot be compared, or another error, which are on standard error.
    """
    parser = ModuleArgumentParser(
        "qdialect-check", description="Compare the results of the functions of two modules."
    )
    parser.add_argument("before", help="the reference module; - for standard input")
    parser.add_argument("after", help="the module to compare with it")
    parser.add_argument(
        "--runs",
        type=whole_number("--runs", 1),
        default=DEFAULT_MAX_SETS,
        metavar="COUNT",
        help="the maximum number of runs of a function, with random arguments, where no proof "
        f"succeeds ({DEFAULT_MAX_SETS})",
    )
    parser.add_argument(
        "--require",
        choices=("proof", "runs"),
        default="runs",
        help="what is required of each function: a proof, or a proof or runs (runs)",
    )
    parser.add_argument(
        "--engine",
        choices=("interpreter", "iree"),
        default="interpreter",
        help="run functions with qdialect's interpreter, where no proof succeeds, or with "
        "IREE, which compiles both modules (interpreter)",
    )
    parser.add_argument(
        "--ignore-attributes",
        default="",
        metavar="NAMES",
        help="attributes that may differ, separated by commas",
    )
    parser.add_argument(
        "--roundings",
        action="store_true",
        help="compare each quantized value, computed from the same codes in both modules, with "
        "the exact number before it was rounded; for a module lowered to integers. --runs is "
        "the number of random sets of codes",
    )
    parser.add_max_steps(
        DEFAULT_STEPS,
        "for proofs and for runs, besides some for each op; comparing an op takes 1000, an "
        "element 1",
    )
    return parser.run(_compare, argv)


def _compare(options: Namespace) -> bool:
    if options.require == "proof" and options.engine == "iree":
        raise ToolError("--require=proof cannot be met with --engine=iree, which proves nothing")
    printer = DiagnosticPrinter(sys.stderr)
    before, after = (
        read_module(path, printer, options) for path in (options.before, options.after)
    )
    if before is None or after is None:
        return False
    old, new = (Side(which.module, which.context) for which in (before, after))

    def locate(op: Operation) -> Location:
        is_before = op.get_toplevel_object() is before.module
        return (before if is_before else after).locate(op)

    try:
        if options.roundings:
            return _print_roundings((old, new), options.runs, after, printer)
        engine = None
        if options.engine == "iree":
            # Imported only if chosen, since its passes take time to import.
            from qdialect.check.iree_engine import IreeEngine

            engine = IreeEngine(old, new)
        comparison = compare_modules(
            old,
            new,
            options.runs,
            ignored_attributes=[name for name in options.ignore_attributes.split(",") if name],
            max_steps=options.max_steps,
            engine=engine,
            requires_proof=options.require == "proof",
        )
    except RunFailure as failure:
        printer.error(f"not checked: {failure.reason}", locate(failure.op))
        return False
    for finding in comparison.findings:
        printer.error(finding.message, locate(finding.op))
    if comparison.findings:
        return False
    with standard_output() as stream:
        stream.write(_text(comparison))
    return True


def _print_roundings(
    sides: Sequence[Side], sets: int, after: Compilation, printer: DiagnosticPrinter
) -> bool:
    # Its arithmetic on arrays takes time to import.
    from qdialect.check.roundings import compare_roundings

    outcomes = [*compare_roundings(sides[0], sides[1], sets)]
    wrong = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
    for finding in wrong:
        printer.error(finding.message, after.locate(finding.op))
    if not wrong:
        with standard_output() as stream:
            stream.writelines(f"{outcome}\n" for outcome in outcomes)
    return not wrong


def _text(comparison: Comparison) -> str:
    """The reasons why each function, and the module, is the same."""
    lines = [f"function '{verdict.name}': {verdict}" for verdict in comparison.verdicts]
    count = len(lines)
    total = f"the same: {count} function{'' if count == 1 else 's'}"
    kinds = [
        f"{number} {text}" if number < count else f"{'all ' if count > 1 else ''}{text}"
        for text, number in Counter(map(str, sorted(comparison.verdicts, key=Verdict.rank))).items()
    ]
    return "".join(f"{line}\n" for line in (*lines, ", ".join((total, *kinds))))
