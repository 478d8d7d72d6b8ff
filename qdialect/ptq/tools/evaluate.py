"""
`qdialect-evaluate`: compare the values of a quantized module with the float module, on records.
"""

from __future__ import annotations

import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters import find_function
from qdialect.check.sampled_runs import RunFailure
from qdialect.folding.inlining import inline_calls
from qdialect.opt.compilation import Compilation
from qdialect.opt.diagnostics import DiagnosticPrinter
from qdialect.opt.module_tool import ModuleArgumentParser, read_module
from qdialect.opt.outputs import STANDARD_OUTPUT, check_writable, standard_output, write_file
from qdialect.opt.tool_error import ToolError, run_tool
from qdialect.ptq.calibration.compared_functions import compare_functions
from qdialect.ptq.calibration.record_files import Argument, RecordError, RecordFiles
from qdialect.ptq.calibration.recorded_function import floats_of
from qdialect.ptq.schemes.noise import Answers, Noise
from qdialect.ptq.tools.evaluation import Evaluation
from qdialect.ptq.tools.evaluation_plot import expected_from_report, plot_module, write_plot
from qdialect.ptq.tools.recorded_models import (
    RECORDS_HELP,
    add_run_arguments,
    arguments_of,
    check_run_arguments,
    chosen_function,
)
from qdialect.ptq.tools.recording import PreparedFunction, prepare, record_all, record_errors
from qdialect.support.memory import memory_budget
from qdialect.support.terminal import Progress

TOOL: Final = "qdialect-evaluate"
"""The name that the tool's own errors begin with."""

_Compared = tuple[int, tuple[Noise, ...], tuple[Answers, ...]]
"""The index of a record, the noise of each value, and the answers of each result."""


class _CommandLine(ModuleArgumentParser):
    def __init__(self) -> None:
        super().__init__(
            TOOL,
            description="Run a float module and a quantized one over the same records, and report "
            "the signal-to-noise ratios of the quantized values.",
            epilog=RECORDS_HELP,
            formatter_class=RawDescriptionHelpFormatter,
        )
        self.add_argument("float", help="the float module; - for standard input")
        self.add_argument("quantized", help="the quantized module, with the same names of values")
        add_run_arguments(self)
        self.add_argument(
            "--labels",
            metavar="NAME",
            help="the array with the right answers: one integer for each answer",
        )
        self.add_argument(
            "--worst", type=int, default=10, metavar="N", help="list the N worst values (10)"
        )
        self.add_argument("--json", metavar="FILE", help="write the results as JSON, too")
        self.add_argument(
            "--plot",
            metavar="FILE",
            help="plot the signal-to-noise ratios of all values, as PNG or SVG",
        )
        self.add_argument(
            "--report",
            metavar="FILE",
            help="plot the ratios that the report of the quantization expects beside them",
        )
        self.add_reading_arguments()


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 if there was an error, which is on standard error.
    """
    return run_tool(TOOL, _run, argv)


def _run(arguments: Sequence[str]) -> bool:
    options = _CommandLine().parse_args(arguments)
    check_run_arguments(options)
    if options.worst < 0:
        raise ToolError(f"--worst must not be negative, but is {options.worst}")
    if options.report is not None and options.plot is None:
        raise ToolError("--report needs --plot=FILE")
    # Report errors before hours of work, not afterwards.
    figures = None if options.plot is None else plot_module(options.plot)
    expected = {} if options.report is None else expected_from_report(options.report)
    if options.json is not None and options.json not in STANDARD_OUTPUT:
        check_writable(options.json)
    with memory_budget(options.max_memory):
        evaluation = _evaluate(options)
    if evaluation is None:
        return False
    with standard_output() as stream:
        evaluation.write(stream, options.worst)
    if options.json is not None:
        write_file(options.json, evaluation.to_json())
    if figures is not None:
        write_plot(figures, evaluation.rows, expected, str(options.plot))
    return True


def _evaluate(options: Namespace) -> Evaluation | None:
    """The results; None if there was an error, which is printed. Raises ToolError."""
    printer = DiagnosticPrinter(sys.stderr)
    compilations = list[Compilation]()
    for path in (options.float, options.quantized):
        compilation = read_module(path, printer, options)
        if compilation is None:
            return None
        # As in calibration and quantization, so that keys match.
        inline_calls(compilation.module)
        compilations.append(compilation)
    names = list[str]()
    for compilation in compilations:
        name = chosen_function(compilation.module, options.function)
        try:
            find_function(compilation.module, name)
        except InterpretationError as error:
            printer.error(str(error), compilation.source.name)
            return None
        names.append(name)
    before, after = compilations
    arguments = arguments_of(before.module, find_function(before.module, names[0]))
    try:
        compared = compare_functions(
            before.module, after.module, (names[0], names[1]), (before.context, after.context)
        )
    except ValueError as error:
        raise ToolError(str(error)) from None
    sides = compared.before, compared.after
    told = set[str]()
    for compilation, side in zip(compilations, sides, strict=True):
        for each in side.left_out:
            keys = [key for key in each.keys if key not in told]
            told.update(keys)
            if keys:
                named = ", ".join(f"'{key}'" for key in keys)
                message = f"not compared: {named}, since {each.reason}"
                printer.remark(message, compilation.locate(each.op))
    if not compared.values:
        raise ToolError("FLOAT and QUANTIZED have no value with the same key")
    try:
        count = len(RecordFiles(options.data, arguments, options.labels))
        types = compared.after.function.function_type.inputs
        taken = [Argument(of.names, type) for of, type in zip(arguments, types, strict=True)]
        RecordFiles(options.data, taken, options.labels)
    except RecordError as error:
        raise ToolError(str(error)) from None
    if options.labels is not None and not compared.results:
        raise ToolError("--labels: no result has one number for each of several classes")
    functions = list[PreparedFunction]()
    for compilation, side in zip(compilations, sides, strict=True):
        name, with_iree = side.function.sym_name.data, options.engine == "iree"
        try:
            functions.append(
                prepare(
                    side.module,
                    name,
                    compilation.context,
                    with_iree=with_iree,
                    max_steps=options.max_steps,
                )
            )
        except RunFailure as failure:
            printer.error(failure.reason, compilation.source.name)
            return None
    comparing = _Comparing(
        functions[0],
        functions[1],
        tuple(value.parts for value in compared.values),
        tuple(of.names for of in arguments),
        options.data,
        options.labels,
        options.max_memory,
    )
    found = list[_Compared]()
    try:
        with (
            Progress(TOOL, count) as progress,
            closing(record_all(comparing, range(count), options.jobs)) as all_found,
        ):
            for each in all_found:
                found.append(each)
                progress.advance()
    except RecordError as error:
        raise ToolError(str(error)) from None
    noises = map(Noise.total, zip(*(noises for _, noises, _ in found), strict=True))
    answers = map(Answers.total, zip(*(answers for _, _, answers in found), strict=True))
    return Evaluation(
        options.engine,
        count,
        (*zip(compared.values, noises, strict=True),),
        (*zip(compared.results, answers, strict=True),),
        options.labels is not None,
        compared.not_compared,
    )


@dataclass(frozen=True)
class _Comparing:
    """Runs both functions, and compares their results."""

    before: PreparedFunction
    after: PreparedFunction
    parts: tuple[int, ...]
    """The number of parts of each value; the results follow them."""
    names: tuple[tuple[str, ...], ...]
    """The names of each argument in files of records."""
    data: str
    labels: str | None
    max_memory: int

    @property
    def uses_iree(self) -> bool:
        """Whether IREE runs the functions."""
        return self.before.binary is not None

    def start(self) -> Callable[[int], _Compared]:
        """Read the modules and the data. Raises RecordError for data that does not match."""
        before, after = self.before.load(), self.after.load()
        arguments = [Argument(*each) for each in zip(self.names, before.types, strict=True)]
        records = RecordFiles(self.data, arguments, self.labels)

        def compare(index: int) -> _Compared:
            with record_errors(index, self.max_memory):
                given = records[index]
                labels = None if self.labels is None else records.labels(index)
                pairs = [
                    (floats_of(old), floats_of(new))
                    for old, new in zip(before.run(given), after.run(given), strict=True)
                ]
                of_pairs = [Noise.between(*pair) for pair in pairs[: sum(self.parts)]]
                noises = list[Noise]()
                for count in self.parts:
                    noises.append(Noise.total(of_pairs[:count]))
                    del of_pairs[:count]
                results = pairs[sum(self.parts) :]
                answers = tuple(Answers.between(old, new, labels) for old, new in results)
                return index, tuple(noises), answers

        return compare
