"""
`qdialect-evaluate`: compare the values of a quantized module with the float module, on records.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.interpreters import TypedArray, find_function
from qdialect.folding.inlining import inline_calls
from qdialect.integers.compiling import compile_in_integers
from qdialect.integers.layer_forms import layer_forms
from qdialect.ir.resources import ResourceBlobs, forget_unread
from qdialect.opt.compilation import Compilation
from qdialect.opt.diagnostics import DiagnosticPrinter
from qdialect.opt.module_tool import read_module, whole_number
from qdialect.opt.outputs import STANDARD_OUTPUT, check_writable, standard_output, write_file
from qdialect.opt.tool_error import ToolError
from qdialect.ptq.calibration.kept_results import KeptResults
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.calibration.observed_runs import ObservedRun
from qdialect.ptq.calibration.record_files import Argument, RecordError, RecordFiles
from qdialect.ptq.calibration.recorded_functions import (
    ComparedResult,
    compare_functions,
    floats_of,
)
from qdialect.ptq.schemes.noise import Answers, Noise
from qdialect.ptq.tools.evaluation import (
    Evaluation,
    ResultNoise,
    expected_from_report,
    plot_module,
    write_plot,
)
from qdialect.ptq.tools.recording import (
    PreparedFunction,
    Task,
    arguments_of,
    chosen_function,
    prepare,
    prepare_whole,
    record_all,
    run_of,
    run_parser,
)
from qdialect.support.lazy_numpy import NDArray
from qdialect.support.terminal import Progress

if TYPE_CHECKING:
    import numpy as np

TOOL: Final = "qdialect-evaluate"
"""The name that the tool's own errors begin with."""

_Compared = tuple[
    int, tuple[Noise, ...], tuple[Answers | None, ...], tuple[Mapping[str, float], ...]
]
"""
The index of a record, the noise of each value and of each result, the answers of each result that
has classes, and the seconds that groups of ops of both functions took.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 if there was an error, which is on standard error.
    """
    parser = run_parser(
        TOOL,
        "Run a float module and a quantized one over the same records, and report the "
        "signal-to-noise ratios of the quantized values.",
    )
    parser.add_argument("float", help="the float module; - for standard input")
    parser.add_argument("quantized", help="the quantized module, with the same names of values")
    parser.add_argument(
        "--labels",
        metavar="NAME",
        help="the array with the right answers: one integer for each answer",
    )
    parser.add_argument(
        "--only-results",
        action="store_true",
        help="compare only results; --engine=iree compiles both modules as `qdialect export` then, "
        "and layers compute in integers",
    )
    parser.add_argument(
        "--results",
        metavar="FOLDER",
        help="compare only results, and do not run the float module if qdialect calibrate "
        "--results has kept its results of all records here",
    )
    parser.add_argument(
        "--worst",
        type=whole_number("--worst"),
        default=10,
        metavar="N",
        help="list the N worst values (10)",
    )
    parser.add_argument(
        "--times", action="store_true", help="list the time that groups of ops take"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON, too")
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the signal-to-noise ratio of each value, and whether integers compute it, as a "
        "page (.html) or a plot (.png, .svg, .pdf)",
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="draw the ratios that the report of the quantization expects beside them",
    )
    return parser.run(_run, argv)


def _run(options: Namespace) -> bool:
    if options.report is not None and options.plot is None:
        raise ToolError("--report needs --plot=FILE")
    only_results = options.only_results or options.results is not None
    if options.plot is not None and only_results:
        raise ToolError("--plot draws values, which --only-results and --results leave out")
    if options.results is not None and options.float == "-":
        raise ToolError("--results needs the file of a module")
    # Report errors before hours of work, not afterwards.
    figures = None if options.plot is None else plot_module(options.plot)
    expected = {} if options.report is None else expected_from_report(options.report)
    if options.json is not None and options.json not in STANDARD_OUTPUT:
        check_writable(options.json)
    evaluation = _evaluate(options, only_results)
    if evaluation is None:
        return False
    with standard_output() as stream:
        evaluation.write(stream, options.worst)
    if options.json is not None:
        write_file(options.json, evaluation.to_json())
    if options.plot is not None:
        title = f"{options.quantized}, compared with {options.float}"
        write_plot(figures, evaluation, expected, str(options.plot), title)
    return True


def _evaluate(options: Namespace, only_results: bool) -> Evaluation | None:
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
    keys = keys_of(before.module).of_values
    arguments = arguments_of(find_function(before.module, names[0]), keys)
    try:
        compared = compare_functions(
            before.module,
            after.module,
            (names[0], names[1]),
            (before.context, after.context),
            only_results=only_results,
        )
    except ValueError as error:
        raise ToolError(str(error)) from None
    forms = dict[str, tuple[str, str]]()
    if options.plot is not None:
        known = layer_forms(after.module, after.context)
        forms.update((key, (str(form), form.reason)) for key, form in known.items())
    for compilation in compilations:
        forget_unread(compilation.module, ResourceBlobs.of(compilation.context))
    sides = compared.before, compared.after
    reported = set[str]()
    for compilation, side in zip(compilations, sides, strict=True):
        for values in side.left_out:
            keys = [key for key in values.keys if key not in reported]
            reported.update(keys)
            if keys:
                names_of_keys = ", ".join(f"'{key}'" for key in keys)
                message = f"not compared: {names_of_keys}, since {values.reason}"
                printer.remark(message, compilation.locate(values.op))
    if not (compared.results if only_results else compared.values):
        missing = "results of floats" if only_results else "value with the same key"
        raise ToolError(f"FLOAT and QUANTIZED have no {missing}")
    try:
        files = RecordFiles(options.data, arguments, options.labels)
        count, kept = len(files), None
        if options.results is not None:
            kept = KeptResults.of(options.results, options.float, names[0])
            kept = kept if kept.have_all(files[index] for index in range(count)) else None
        types = compared.after.function.function_type.inputs
        pairs = zip(arguments, types, strict=True)
        quantized = [Argument(argument.names, type) for argument, type in pairs]
        RecordFiles(options.data, quantized, options.labels)
    except RecordError as error:
        raise ToolError(str(error)) from None
    if options.labels is not None and not any(result.has_classes for result in compared.results):
        raise ToolError("--labels: no result has one number for each of several classes")
    functions = list[PreparedFunction]()
    for compilation, side in zip(compilations, sides, strict=True):
        if kept is not None and side is compared.before:
            continue
        try:
            if options.only_results and options.engine == "iree":
                whole = Side(side.module, compilation.context)
                prepared = prepare_whole(
                    whole, side.function, partial(compile_in_integers, cpu="host")
                )
            else:
                run = run_of(
                    side.module,
                    side.function,
                    compilation.context,
                    engine=options.engine,
                    max_steps=options.max_steps,
                )
                prepared = prepare(run, side.returned, engine=options.engine)
            functions.append(prepared)
        except RunFailure as failure:
            printer.error(failure.reason, compilation.source.name)
            return None
    comparing = _Comparing(
        (*functions,),
        tuple(argument.names for argument in arguments),
        options.data,
        options.labels,
        options.max_memory,
        tuple(value.parts for value in compared.values),
        compared.results,
        kept,
    )
    records = list[_Compared]()
    try:
        with (
            Progress(TOOL, count) as progress,
            closing(record_all(comparing, range(count), options.jobs)) as all_compared,
        ):
            for record in all_compared:
                records.append(record)
                progress.advance()
    except RecordError as error:
        raise ToolError(str(error)) from None
    noises = [*map(Noise.total, zip(*(noises for _, noises, _, _ in records), strict=True))]
    answers = (
        Answers.total(part for part in parts if part is not None) if result.has_classes else None
        for result, parts in zip(
            compared.results,
            zip(*(answers for _, _, answers, _ in records), strict=True),
            strict=True,
        )
    )
    of_values, of_results = noises[: len(compared.values)], noises[len(compared.values) :]
    return Evaluation(
        options.engine,
        count,
        (*zip(compared.values, of_values, strict=True),),
        (*map(ResultNoise, compared.results, of_results, answers),),
        options.labels is not None,
        compared.not_compared,
        (*(_total(record[3][side] for record in records) for side in range(2)),)
        if options.times
        else (),
        forms,
    )


def _total(parts: Iterable[Mapping[str, float]]) -> Mapping[str, float]:
    """The sums of numbers by name."""
    total = defaultdict[str, float](float)
    for part in parts:
        for name, number in part.items():
            total[name] += number
    return total


@dataclass(frozen=True)
class _Comparing(Task[_Compared]):
    """Compares the results of both functions."""

    parts: tuple[int, ...]
    """The number of parts of each value; the results follow them."""
    results: tuple[ComparedResult, ...]
    kept: KeptResults | None
    """The results of the first function, which is not run then."""
    known: dict[int, Noise] = field(default_factory=dict[int, Noise])
    """The noise of the values that are the same in each record."""

    @override
    def process(
        self,
        index: int,
        record: Sequence[TypedArray],
        runs: Sequence[ObservedRun],
        labels: NDArray[np.int64] | None,
    ) -> _Compared:
        expected: dict[int, NDArray[Any]] = {}
        noises, answers = {**self.known}, dict[int, Answers]()
        first, times = sum(self.parts), list[Mapping[str, float]]()
        steps: Iterator[None] = iter(())

        def expect(at: int, value: TypedArray) -> None:
            if at not in self.known:
                expected[at] = floats_of(value)

        if self.kept is None:
            # Only as far as needed: few values are held at a time.
            steps = runs[0].steps(record, expect)
        else:
            arrays, seconds = self.kept.read(record)
            numbers = (str(result.number) for result in self.results)
            expected.update(enumerate((arrays[number] for number in numbers), first))
            times.append(seconds)

        def compare(at: int, value: TypedArray) -> None:
            """Compare a value with what is expected, which is freed."""
            if at in self.known:
                return
            while at not in expected:
                next(steps)
            pair = expected.pop(at), floats_of(value)
            noises[at] = Noise.between(*pair)
            if at >= first and self.results[at - first].has_classes:
                answers[at] = Answers.between(*pair, labels)

        runs[-1].run(record, compare)
        for _ in steps:
            pass
        if not self.known:
            constant = (run.constant_places.tolist() for run in runs)
            same = {*range(first)}.intersection(*constant)
            self.known.update((at, noises[at]) for at in same)
        places = iter(range(first))
        of_values = [Noise.total(noises[at] for at in islice(places, n)) for n in self.parts]
        results = range(first, first + len(self.results))
        of_results = [noises[at] for at in results]
        times += [run.seconds_of_groups() for run in runs]
        return index, (*of_values, *of_results), tuple(map(answers.get, results)), (*times,)
