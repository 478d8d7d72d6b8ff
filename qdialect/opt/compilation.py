"""Parse, verify, run passes, print: a run of `qdialect-opt` after its command line is read."""

from __future__ import annotations

import gc
import io
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, TextIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.utils.lexer import Span

from qdialect.ir.errors import OpErrors, describe, message_of, op_messages
from qdialect.ops.model import imported
from qdialect.opt.diagnostics import (
    DiagnosticHandler,
    DiagnosticPrinter,
    Location,
    place_in_file,
    text_of_place,
)
from qdialect.opt.files import SourceText, read_text
from qdialect.opt.options import SPLIT_MARKER, Options, single_passes
from qdialect.opt.outputs import STANDARD_OUTPUT, Output, held_text, overwrite_each_other
from qdialect.opt.registry import NestedPipeline, ToolContext, make_pass, make_target
from qdialect.opt.tool_error import ToolError, reason_of
from qdialect.opt.verifier import ModuleVerifier
from qdialect.support.memory import MemoryLimitError, memory_budget, paused_collection
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter
from qdialect.text.written_ops import PrintedForm

if TYPE_CHECKING:
    from xdsl.passes import ModulePass
    from xdsl.utils.target import Target

    from qdialect.opt.reports import RunReports

_MANIFESTS = "qdialect.weights.manifest"
"""Only modules whose weights are in files need it."""

_RESULT = r"%[\w$.-]+(?=\s*=\s*$)"
"""The result of an op, in the text before the name of the op."""


class Compilation:
    """One text on its way from the parser to the printer."""

    module: ModuleOp
    locations: Mapping[Operation, Span]

    def __init__(self, source: SourceText, options: Options, handler: DiagnosticHandler) -> None:
        self.source = source
        self.options = options
        self.handler = handler
        self.context = ToolContext(
            options.allow_unregistered_dialect, has_xdsl_ops=options.xdsl_ops
        )
        self.context.wants_fold_plans = options.fold_plan is not None
        self.context.wants_values = (
            options.quantization_report is not None or options.quantization_table
        )
        self._reports_remarked = 0
        self._printed_names: Mapping[SSAValue, str] = {}

    def run(self, passes: Sequence[ModulePass | NestedPipeline]) -> bool:
        """Parse, verify, and run the passes; false if there was an error."""
        is_read = self._take_shared() or (
            self._parse()
            and self._name_weights()
            and (self.options.disable_verify or self._verify())
        )
        return is_read and all(self._run_pass(module_pass) for module_pass in passes)

    def write(self, target: Target | None, stream: TextIO) -> bool:
        """
        Print the module, as MLIR if no target is given; false if there was an error.

        To standard output nothing is printed then. Raises OSError if the stream does.
        """
        if sys.stdout is not None:
            # What a pass has printed comes first.
            sys.stdout.flush()
        try:
            if target is None and self.options.output_file in STANDARD_OUTPUT:
                with paused_collection(), held_text(stream) as text:
                    self._print(text)
            elif target is None:
                with paused_collection():
                    self._print(stream)
            else:
                text = io.StringIO()
                target.emit(self.context, self.module, text)
                stream.write(text.getvalue())
        except OSError:
            raise
        except Exception as error:
            name = "mlir" if target is None else target.name
            return self._fail(f"target '{name}'", error)
        return True

    def _take_shared(self) -> bool:
        """Take what `share_module` has read, if the text is that."""
        path = self.source.name
        if path not in _shared or _shared[path].compilation.source is not self.source:
            return False
        shared, wants = _shared.pop(path).compilation, self.context
        self.module, self.locations, self.context = shared.module, shared.locations, shared.context
        self.context.wants_fold_plans = wants.wants_fold_plans
        self.context.wants_values = wants.wants_values
        return True

    def _parse(self) -> bool:
        try:
            parser = LocatingParser(self.context, self.source.input)
            self.module = parser.parse_module(not self.options.no_implicit_module)
        except ParseError as error:
            self.handler.parse_error(error, self.source.first_line)
            return False
        self.locations = parser.locations
        return True

    def _name_weights(self) -> bool:
        if self.options.weights is None:
            return True
        try:
            manifest = imported(f"{_MANIFESTS}:read_manifest")(self.options.weights)
        except (OSError, ValueError) as error:
            reason = reason_of(error)
            named = f"cannot read '{self.options.weights}': " if isinstance(error, OSError) else ""
            raise ToolError(f"--weights: {named}{reason}") from None
        try:
            names = (self.options.read_weights or "").split(",")
            imported(f"{_MANIFESTS}:name_weights")(self.module, self.context, manifest, names)
        except (OSError, ValueError) as error:
            raise ToolError(f"--read-weights: {reason_of(error)}") from None
        except OpErrors as error:
            return self._fail("--weights", error)
        return True

    def _verify(self) -> bool:
        with paused_collection():
            return ModuleVerifier(self.locate, self.handler).verify(self.module)

    def _run_pass(self, module_pass: ModulePass | NestedPipeline) -> bool:
        name = module_pass.name
        start = time.perf_counter()
        try:
            module_pass.apply(self.context, self.module)
        except Exception as error:
            return self._fail(f"pass '{name}'", error)
        for op, message in self.context.warnings:
            self.handler.warning(message, self.locate(op))
        self.context.warnings.clear()
        if self.options.remarks:
            self._remark()
        if self.options.time_passes:
            seconds = time.perf_counter() - start
            sys.stderr.write(f"Pass {name} took {seconds:.6f} seconds\n")
        if self.options.print_ir_after_all:
            sys.stderr.write(f"// -----// IR Dump After {name} //----- //\n")
            try:
                self._print(sys.stderr)
            except OSError:
                raise
            except Exception as error:
                return self._fail(f"printing after pass '{name}'", error)
            sys.stderr.write("\n\n")
        if self.options.disable_verify or not self.options.verify_each:
            return True
        if not self._verify():
            self.handler.note(f"after pass '{name}'", self.source.name)
            return False
        return True

    def _remark(self) -> None:
        """Print remarks on the folds since the last call."""
        # Only options of reports need it.
        from qdialect.opt.reports import remarks

        for report in self.context.fold_reports[self._reports_remarked :]:
            for op, message in remarks(report):
                self.handler.remark(message, self.locate(op))
        self._reports_remarked = len(self.context.fold_reports)

    def _fail(self, actor: str, error: Exception) -> bool:
        """Report the error of a pass or target, at the place of its op if it has one."""
        if self.options.debug:
            # Only `--debug` prints one.
            import traceback

            traceback.print_exc()
        if isinstance(error, OpErrors):
            for op, message in error.errors:
                self.handler.error(message, self.locate(op))
            return False
        emitted = op_messages(error)
        place = self.locate(emitted[0][0]) if emitted else self.source.name
        match error:
            case DiagnosticException():
                message = message_of(error)
            case MemoryLimitError():
                message = f"{actor} failed: {error}"
            case RecursionError():
                message = f"{actor} failed: nesting is too deep"
            case MemoryError():
                message = f"{actor} failed: out of memory"
            case _:
                message = f"{actor} failed: {describe(error)}"
        self.handler.error(message, place)
        for op, note in emitted[1:]:
            self.handler.note(note, self.locate(op))
        return False

    def _print(self, stream: TextIO) -> None:
        printer = MLIRPrinter(
            stream=stream,
            print_debuginfo=self.options.print_debuginfo,
            form=PrintedForm(self.options.op_form),
            read_as_generic=self._was_generic,
        )
        printer.print_module(self.context, self.module)
        self._printed_names = printer.names

    def _was_generic(self, op: Operation) -> bool:
        """Whether an op was read in generic form."""
        span = self.locations.get(op)
        return span is not None and span.text.startswith('"')

    def before(self, value: SSAValue) -> str | None:
        """The name of a value in the text that was read."""
        op = value.owner
        span = self.locations.get(op) if isinstance(op, Operation) else None
        if span is not None:
            line = span.input.content[span.input.get_start_of_line(span.start) : span.start]
            if (named := re.search(_RESULT, line)) is not None:
                return named[0]
        return self.after(value)

    def after(self, value: SSAValue) -> str | None:
        """The name of a value in the text that was printed."""
        if (printed := self._printed_names.get(value)) is not None:
            return f"%{printed}"
        return None if value.name_hint is None else f"%{value.name_hint}"

    def place(self, op: Operation | Block) -> str:
        """`file:line:column` of an op in the text that was read."""
        return text_of_place(self.locate(op) if isinstance(op, Operation) else self.source.name)

    def locate(self, op: Operation) -> Location:
        """
        Where an operation was read.

        An operation that a pass made has the place of the nearest one before it in its block, or
        else after it, or else around it.
        """
        at: Operation | None = op
        while at is not None:
            for neighbour in _with_neighbours(at):
                if span := self.locations.get(neighbour):
                    return place_in_file(span, self.source.first_line)
            at = at.parent_op()
        return self.source.name


def _with_neighbours(op: Operation) -> Iterator[Operation]:
    before: Operation | None = op
    while before is not None:
        yield before
        before = before.prev_op
    after = op.next_op
    while after is not None:
        yield after
        after = after.next_op


class _Shared(NamedTuple):
    file: tuple[int, ...]
    compilation: Compilation


_shared = dict[str, _Shared]()
"""What `share_module` has read, by paths, until a compilation takes it."""


def share_module(path: str) -> None:
    """
    Read and verify the module in a file for copies of this process, unless it has errors.

    The first compilation of the file in each copy takes it, if the file is still the same.
    """
    try:
        file = _identity(path)
        if path in _shared and _shared[path].file == file:
            return
        if _shared.pop(path, None) is not None:
            # It is not read again.
            gc.unfreeze()
            gc.collect()
        handler = DiagnosticPrinter(io.StringIO())
        source = read_text(path, handler)
        if source is not None:
            compilation = Compilation(source, Options(), handler)
            if compilation.run(()):
                _shared[path] = _Shared(file, compilation)
    except Exception:
        # The compilation in a copy has the error again, and reports it.
        return


def read_source(path: str, handler: DiagnosticHandler, command: str | None) -> SourceText | None:
    """The text of a file, as `read_text`, or that of `share_module`. Raises ToolError."""
    if path in _shared and command is None and os.path.exists(path):
        shared = _shared[path]
        if shared.file == _identity(path):
            return shared.compilation.source
    return read_text(path, handler, command)


def _identity(path: str) -> tuple[int, ...]:
    """What tells a file from others, and from what it was before it was written. Raises OSError."""
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def process(options: Options) -> bool:
    """
    Process the input file; false if there was an error, which is printed.

    Raises ToolError for errors outside the text, and OSError if an output cannot be
    written.
    """
    printer = DiagnosticPrinter(sys.stderr)
    files = _report_files(options)
    _check_outputs(options, files)
    run = _Run(options, printer, [make_pass(spec) for spec in options.passes])
    source = read_source(options.input_file, printer, options.read_with)
    if source is None:
        return False
    with ExitStack() as outputs:
        output = outputs.enter_context(Output(options.output_file))
        reports = {what: outputs.enter_context(Output(path)) for what, path in files.items()}
        output.is_good = run.process(source, output.stream)
        for what, report in reports.items():
            report.is_good = output.is_good
            report.stream.write(run.report_text(what))
    run.print_tables()
    return output.is_good


def _report_files(options: Options) -> Mapping[str, str]:
    """The paths of the reports that are written to files, by what they are."""
    paths = {
        "fold report": options.fold_report,
        "fold plan": options.fold_plan,
        "quantization report": options.quantization_report,
    }
    return {what: path for what, path in paths.items() if path is not None}


def _check_outputs(options: Options, files: Mapping[str, str]) -> None:
    """Raise ToolError if an output would take the place of another, or of the input."""
    outputs = [("module", "-o", options.output_file)]
    for what, path in files.items():
        flag = f"--{what.replace(' ', '-')}"
        for other, other_flag, other_path in outputs:
            if overwrite_each_other(path, other_path):
                where = "standard output" if path in STANDARD_OUTPUT else f"'{path}'"
                raise ToolError(
                    f"the {other} and the {what} would both be written to {where}: "
                    f"choose different files with {other_flag} and {flag}"
                )
        if options.input_file != "-" and overwrite_each_other(path, options.input_file):
            raise ToolError(f"the {what} would be written over the input file '{path}'")
        outputs.append((what, flag, path))
    texts = (
        (spec.name, option, text)
        for spec in single_passes(options.passes)
        for option, values in spec.parameters.items()
        for text in values
        if isinstance(text, str)
    )
    # A text may be the name of a file.
    for name, option, path in texts:
        for what, _, output in outputs:
            if os.path.exists(path) and overwrite_each_other(output, path):
                raise ToolError(
                    f"the {what} would be written over '{path}', which is the {option} of '{name}'"
                )


class _Run:
    """The modules of a file, one after another."""

    def __init__(
        self,
        options: Options,
        printer: DiagnosticHandler,
        passes: Sequence[ModulePass | NestedPipeline],
    ) -> None:
        """Raises ToolError for an unknown target."""
        self._options = options
        self._printer = printer
        self._passes = passes
        self._target = make_target(options.target)
        self._reports: RunReports | None = None
        if _report_files(options) or options.fold_stats or options.quantization_table:
            # Only options of reports need it.
            from qdialect.opt.reports import RunReports

            self._reports = RunReports()

    def process(self, source: SourceText, stream: TextIO) -> bool:
        """Print each module after the passes; false if there was an error."""
        is_good = True
        parts = source.split() if self._options.split_input_file else iter([source])
        for number, part in enumerate(parts):
            if number:
                stream.write(f"{SPLIT_MARKER}\n")
            with memory_budget(self._options.max_memory):
                is_good &= self._process_part(part, stream)
        return is_good

    def _process_part(self, part: SourceText, stream: TextIO) -> bool:
        verifier = None
        if self._options.verify_diagnostics:
            # Only this option reads comments.
            from qdialect.opt.expected_diagnostics import DiagnosticVerifier

            verifier = DiagnosticVerifier(part.input, part.first_line, self._printer)
        compilation = Compilation(part, self._options, verifier or self._printer)
        has_run = compilation.run(self._passes) and compilation.write(self._target, stream)
        if self._reports is not None:
            context = compilation.context
            names = compilation if has_run else None
            self._reports.add(context.fold_reports, context.fold_plans, names)
        return has_run if verifier is None else verifier.finish()

    def report_text(self, what: str) -> str:
        """The file of a report."""
        assert self._reports is not None
        match what:
            case "fold report":
                return self._reports.fold_report()
            case "fold plan":
                return self._reports.fold_plan()
            case _:
                return self._reports.quantization_report()

    def print_tables(self) -> None:
        """Print the tables of `--fold-stats` and `--quantization-table`."""
        if self._reports is None:
            return
        if self._options.fold_stats:
            sys.stderr.write(self._reports.statistics())
        if self._options.quantization_table:
            self._reports.write_values(sys.stderr)
