"""`qdialect-calibrate`: run a model over records, and write the ranges of its values."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import filterfalse, pairwise
from typing import Any, Final

from typing_extensions import override
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.compared_modules import RunFailure
from qdialect.check.interpreters import TypedArray, find_function
from qdialect.folding.inlining import inline_calls
from qdialect.folding.report import Outcome
from qdialect.ir.resources import ResourceBlobs
from qdialect.ops.along_axis import is_recordable
from qdialect.opt.diagnostics import DiagnosticPrinter
from qdialect.opt.module_tool import read_module
from qdialect.opt.outputs import STANDARD_OUTPUT, check_writable, overwrite_each_other, write_file
from qdialect.opt.process import end_process
from qdialect.opt.tool_error import ToolError, reason_of
from qdialect.ptq.calibration.attaching import fingerprint_of
from qdialect.ptq.calibration.kept_results import KeptResults
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.calibration.observed_runs import ObservedRun
from qdialect.ptq.calibration.record_files import Argument, RecordError, RecordFiles
from qdialect.ptq.calibration.recorded_functions import (
    RecordedFunction,
    RecordedValues,
    Seen,
    floats_of,
    recorded_function,
    without_derived,
)
from qdialect.ptq.equalization.equalizing import channel_axes
from qdialect.ptq.float_graph.flow_graph import LOWER_TENSORS, is_other_tensor
from qdialect.ptq.schemes.profile import Fingerprint, Profile, merge_profiles
from qdialect.ptq.schemes.ranges import OF_HISTOGRAMS, Reduction, ReductionKind
from qdialect.ptq.tools import add_reduction
from qdialect.ptq.tools.merge_profiles import read_profile
from qdialect.ptq.tools.recording import (
    Task,
    arguments_of,
    chosen_function,
    prepare,
    record_all,
    run_of,
    run_parser,
)
from qdialect.support.extras import MissingLibraryError
from qdialect.support.terminal import Progress
from qdialect.weights.clusters import executor

TOOL: Final = "qdialect-calibrate"
"""The name that the tool's own errors begin with."""

_INTERRUPTION: Final = """\
interruption:
  After SIGINT or SIGTERM, the run stops at the end of the current record and writes the
  profile; --resume continues from there. A second signal ends the process at once.
"""

_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")

_SECONDS_TO_KEEP: Final = 2.0
"""The least interval between two writes of the profile during a run."""

_SHARE_OF_KEEPING: Final = 0.05
"""The largest fraction of the time that these writes may take."""

_PARTS: Final = 8
"""The number of parts on a cluster of an unknown number of workers."""


_FOLLOWED_AT_ONCE: Final = 32
"""The number of records whose ranges are computed together that follow from others."""


class _Interruption:
    """The signal that asked to stop the run, if there was one."""

    number: int | None = None

    @contextmanager
    def taken(self) -> Generator[None]:
        """Record the first signal; the second one ends the process."""
        before: dict[int, Any] = {}
        try:
            for name in _SIGNALS:
                number = getattr(signal, name, None)
                # The parent process may ignore a signal on purpose, as nohup does.
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, self._take)
        except ValueError:
            # Only the main thread can handle signals.
            pass
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _take(self, number: int, frame: object) -> None:
        if self.number is not None:
            end_process(128 + number)
        self.number = number


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0; 1 after an error, which is printed on standard error; or 128 plus
    the number of the signal that ended the run early.
    """
    parser = run_parser(
        TOOL,
        "Run a function over records, and write the ranges of its float tensors.",
        _INTERRUPTION,
    )
    parser.add_argument("model", help="the module; - for standard input")
    parser.add_argument(
        "-o", dest="output", default="-", metavar="FILE", help="the profile, as JSON"
    )
    parser.add_argument(
        "--histogram",
        action="store_true",
        help="record histograms, too",
    )
    parser.add_argument(
        "--channels",
        action="store_true",
        help="record a range for each channel of the inputs and results of layers, where "
        "--equalize-inputs needs it",
    )
    reductions = parser.add_mutually_exclusive_group()
    reductions.add_argument(
        "--percentile",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="reduce the minima and the maxima of the records to these percentiles",
    )
    reductions.add_argument(
        "--moving-average",
        action="store_const",
        dest="reduction",
        const=ReductionKind.MOVING_AVERAGE,
        default=ReductionKind.WHOLE,
        help="reduce the records to the moving average of batches of 16",
    )
    add_reduction(reductions.add_argument)
    parser.add_argument(
        "--records",
        type=_range_of_records,
        default=slice(None),
        metavar="A:B",
        help="run the records from A to before B only; qdialect profile merge joins such profiles",
    )
    parser.add_argument(
        "--results",
        metavar="FOLDER",
        help="keep the results of all records here for qdialect evaluate --results, unless they "
        "are larger than --max-memory",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep the records that are in the profile, and run only the missing ones",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="record parts of the records on a cluster of Dask, or local:N for N workers here",
    )
    interruption = _Interruption()
    given = list(sys.argv[1:] if argv is None else argv)
    status = parser.run(partial(_calibrate, interruption, given), argv)
    return status if interruption.number is None or status else 128 + interruption.number


def _calibrate(interruption: _Interruption, given: Sequence[str], options: Namespace) -> bool:
    if options.resume and options.output in STANDARD_OUTPUT:
        raise ToolError("--resume needs the file of a profile: -o FILE")
    if options.cluster and (options.resume or options.model == "-"):
        raise ToolError("--cluster needs the file of a module, and starts without a profile")
    if options.results is not None and options.model == "-":
        raise ToolError("--results needs the file of a module")
    for what, path in (("model", options.model), ("records", options.data)):
        if os.path.exists(path) and overwrite_each_other(options.output, path):
            raise ToolError(f"the profile would be written over the {what} in '{path}'")
    printer = DiagnosticPrinter(sys.stderr)
    compilation = read_module(options.model, printer, options)
    if compilation is None:
        return False
    module = compilation.module
    # Values have ranges for each call, as in the passes that read the profile.
    records = [record for record in inline_calls(module) if record.outcome is Outcome.INLINED]
    for reason, count in Counter(record.reason for record in records).items():
        call = next(record.op for record in records if record.reason == reason)
        calls = "calls are" if count > 1 else "call is"
        printer.remark(f"{count} {calls} inlined: {reason}", compilation.locate(call))
    try:
        name = chosen_function(module, options.function)
        function = find_function(module, name)
        keys = keys_of(module)
        arguments = arguments_of(function, keys.of_values)
        count = len(RecordFiles(options.data, arguments))
        if not range(count)[options.records] and count:
            raise ToolError(f"--records: there are only {count} records")
    except InterpretationError as error:
        printer.error(str(error), compilation.source.name)
        return False
    except RecordError as error:
        raise ToolError(str(error)) from None
    axes: Mapping[SSAValue, int] = {}
    if options.channels:
        axes = channel_axes(module, compilation.context)
    histograms = _has_histograms(options)
    recorded = recorded_function(module, name, keys, histograms=histograms, axes=axes)
    for values in recorded.left_out:
        listed = ", ".join(f"'{key}'" for key in values.keys)
        message = f"not recorded: {listed}, since {values.reason}"
        printer.remark(message, compilation.locate(values.op))
    if not recorded.recorded.keys:
        message = f"'{name}' has no float tensor to record"
        if any(is_other_tensor(value) for value in keys.of_values):
            message += f": {LOWER_TENSORS}"
        printer.error(message, compilation.locate(function))
        return False
    fingerprint = fingerprint_of(module, ResourceBlobs.of(compilation.context), keys)
    known = {*recorded.recorded.keys}
    aliases = {name: key for name, key in keys.aliases.items() if key in known}
    if options.cluster and count:
        chosen = _chosen(count, options.records)
        write_file(options.output, _recorded_in_parts(given, chosen, options).to_json())
        sys.stderr.write(f"{TOOL}: {len(chosen)} records are recorded by {options.cluster}\n")
        return True
    run = run_of(
        module, function, compilation.context, engine=options.engine, max_steps=options.max_steps
    )
    recorded = without_derived(recorded, run.constants)
    keeper = _Keeper(options, fingerprint, aliases, recorded.recorded, count)
    try:
        _record(keeper, recorded, run, arguments, options, interruption)
    except RunFailure as failure:
        printer.error(failure.reason, compilation.source.name)
        return False
    except RecordError as error:
        keeper.write()
        raise ToolError(f"{error}; {keeper.state()}") from None
    state = keeper.state()
    if keeper.recorded < keeper.count:
        state += "; --resume continues from there"
    else:
        # All records are done, so the signal has not stopped the run.
        interruption.number = None
    sys.stderr.write(f"{TOOL}: {state}\n")
    return True


def _recorded_in_parts(given: Sequence[str], records: range, options: Namespace) -> Profile:
    """
    The profile of records, recorded by processes of this tool on the workers of a cluster.

    Each records a range of them. The profile is that of one run, byte for byte. Raises ToolError,
    which names the records whose run failed, after all others have ended.
    """
    number = options.cluster.removeprefix("local:")
    count = max(1, min(int(number) if number.isdecimal() else _PARTS, len(records)))
    edges = [records.start + len(records) * part // count for part in range(count + 1)]
    parts = [f"{first}:{last}" for first, last in pairwise(edges)]
    profiles, failed = dict[str, Profile](), dict[str, str]()
    try:
        with executor(1, options.cluster, options.max_memory) as runner:
            assert runner is not None
            runs = {runner.submit(_record_part, given, part, os.getcwd()): part for part in parts}
            for run in as_completed(runs):
                try:
                    profiles[runs[run]] = Profile.from_json(run.result())
                # A lost worker is an error of the library.
                except Exception as error:
                    failed[runs[run]] = str(error)
        if not failed:
            return merge_profiles([profiles[part] for part in parts])
    except MissingLibraryError as error:
        raise ToolError(str(error)) from None
    except (OSError, ValueError) as error:
        raise ToolError(f"--cluster={options.cluster}: {reason_of(error)}") from None
    reasons = "; ".join(f"{part}: {reason}" for part, reason in failed.items())
    raise ToolError(f"{len(failed)} of {count} parts of the records failed: {reasons}")


def _record_part(given: Sequence[str], part: str, folder: str) -> str:
    """The JSON of a profile. Raises RuntimeError with what the process said."""
    # The last one of an option holds.
    own = [*given, f"--records={part}", "-o", "-", "--cluster="]
    command = [sys.executable, "-m", "qdialect", "calibrate", *own]
    run = subprocess.run(command, check=False, cwd=folder, capture_output=True, encoding="utf-8")
    if run.returncode:
        raise RuntimeError(run.stderr.strip())
    return run.stdout


def _record(
    keeper: _Keeper,
    recorded: RecordedFunction,
    run: ObservedRun,
    arguments: Sequence[Argument],
    options: Namespace,
    interruption: _Interruption,
) -> None:
    """Record the missing records, until a signal. Raises RunFailure and RecordError."""
    kept, observed, numbers = None, recorded.values, tuple[int, ...]()
    if options.results is not None:
        try:
            os.makedirs(options.results, exist_ok=True)
        except OSError as error:
            reason = f"cannot write to '{options.results}': {reason_of(error)}"
            raise ToolError(f"--results: {reason}") from None
        end = run.function.body.blocks[0].last_op
        returned = enumerate(end.operands if isinstance(end, ReturnOp) else ())
        floats = {number: value for number, value in returned if is_recordable(value)}
        kept = KeptResults.of(options.results, options.model, run.function.sym_name.data)
        observed, numbers = (*observed, *floats.values()), (*floats,)
    function = prepare(run, observed, engine=options.engine, tool=TOOL)
    # Worker processes share the processors, so each gets one thread.
    threads = None if options.jobs == 1 else 1
    names = tuple(argument.names for argument in arguments)
    how = (function,), names, options.data, None, options.max_memory
    most = options.max_memory // keeper.count
    recording = _Recording(
        *how, recorded.recorded, threads, len(recorded.values), numbers, kept, most
    )
    with (
        interruption.taken(),
        Progress(TOOL, keeper.count, keeper.recorded) as progress,
        closing(record_all(recording, keeper.missing, options.jobs)) as all_seen,
    ):
        for seen in all_seen:
            keeper.add(seen)
            progress.advance()
            if interruption.number is not None:
                break
        # Closing `all_seen` waits for the records that are running, so write first.
        keeper.write()


@dataclass(frozen=True)
class _Recording(Task[Seen]):
    """Computes the statistics of values."""

    values: RecordedValues
    threads: int | None
    count: int
    """The number of values that are observed for their ranges, before results."""
    numbers: tuple[int, ...]
    """The numbers of the results that are observed."""
    kept: KeptResults | None
    most: int
    """The most bytes of results to keep of a record."""
    before: list[Seen] = field(default_factory=list[Seen])
    """The record before, which has the ranges of constants."""
    results: dict[int, TypedArray] = field(default_factory=dict[int, TypedArray])
    """The last results by their numbers, of which constants are handed over once."""

    @override
    def process(
        self,
        index: int,
        record: Sequence[TypedArray],
        runs: Sequence[ObservedRun],
        labels: object,
    ) -> Seen:
        seen, (run,) = self.values.begin(index), runs
        constant = run.constant_places
        for before in self.before:
            seen.copy(constant[constant < self.count], before)

        def take(at: int, value: TypedArray) -> None:
            if at < self.count:
                self.values.add(seen, at, value, threads=self.threads)
            else:
                self.results[self.numbers[at - self.count]] = value

        run.run(record, take, is_again=bool(self.before))
        self.before[:] = [seen]
        if self.kept is not None:
            results = {number: floats_of(value) for number, value in self.results.items()}
            if sum(result.nbytes for result in results.values()) <= self.most:
                self.kept.write(record, results, run.seconds_of_groups())
        return seen


class _Keeper:
    """The statistics recorded so far, and the file of the profile."""

    def __init__(
        self,
        options: Namespace,
        fingerprint: Fingerprint,
        aliases: Mapping[str, str],
        recorded: RecordedValues,
        count: int,
    ) -> None:
        """Raises ToolError if the file cannot be written, or does not match `--resume`."""
        self._all = count
        self._indices = _chosen(count, options.records)
        self._path: str = options.output
        self._fingerprint = fingerprint
        self._with_histogram: bool = _has_histograms(options)
        self._aliases = aliases
        self._reduction = _reduction(options)
        self._profile: Profile | None = None
        self._new = list[Seen]()
        self._values = recorded
        self._keys = {*recorded.keys}
        if options.resume and os.path.exists(self._path):
            self._profile = self._read()
        if self._path not in STANDARD_OUTPUT:
            check_writable(self._path)
        values = () if self._profile is None else self._profile.values.values()
        # A value lacks the records in which it was NaN.
        self._recorded = {index for value in values for index in value.records.tolist()}
        # The records of a file that is read as a whole may be very many.
        missing = len(self._indices) - sum(at in self._indices for at in self._recorded)
        self.count = len(self._recorded) + missing
        """The number of records to have at the end."""
        self._written = time.monotonic()
        self._seconds_to_keep = _SECONDS_TO_KEEP

    @property
    def recorded(self) -> int:
        """The number of records that have been run."""
        return len(self._recorded)

    def _read(self) -> Profile:
        """The profile that `--resume` continues. Raises ToolError."""
        profile = read_profile(self._path)
        values = [*profile.values.values()]
        reasons = [
            *(differences := profile.fingerprint.differences(self._fingerprint)),
            # Values that were always NaN have no statistics.
            *(
                f"value '{key}' is only in one of the two"
                for key in {*profile.values} ^ self._keys
                if key in profile.values or key in self._values.required
            ),
        ]
        here, there = self._fingerprint.values, profile.fingerprint.values
        if not there:
            reasons.append("it does not say how its values are computed, as it is of version 1")
        elif not differences:
            renamed = [key for key in {*here, *there} if here.get(key) != there.get(key)]
            reasons += (f"'{key}' is not the key of the same value" for key in renamed)
        if any((value.histogram is not None) != self._with_histogram for value in values):
            reasons.append(f"its values have {'no' if self._with_histogram else 'a'} histogram")
        axes = {key: value.axes[0] if value.axes else None for key, value in profile.values.items()}
        own_axes = dict(zip(self._values.keys, self._values.axes, strict=True))
        if any(axis != own_axes.get(key, axis) for key, axis in axes.items()):
            reasons.append("its ranges are along other axes")
        if (last := max((int(value.records[-1]) for value in values), default=0)) >= self._all:
            reasons.append(f"it has record {last}, but there are only {self._all} records")
        if reasons:
            raise ToolError(f"cannot resume from '{self._path}': {'; '.join(sorted(reasons))}")
        # The reduction may change, since the profile has each record.
        return replace(profile, reduction=self._reduction)

    @property
    def missing(self) -> Iterator[int]:
        """The indices of the records that have not been run, one by one: a list has no space."""
        return filterfalse({*self._recorded}.__contains__, self._indices)

    def add(self, seen: Seen) -> None:
        """Add the statistics of a record, and write the file if the last write is long ago."""
        self._new.append(seen)
        if not len(self._new) % _FOLLOWED_AT_ONCE:
            self._values.follow(self._new[-_FOLLOWED_AT_ONCE:])
        self._recorded.add(seen.index)
        start = time.monotonic()
        if start - self._written >= self._seconds_to_keep and self._path not in STANDARD_OUTPUT:
            self.write()
            self._written = time.monotonic()
            most_often = (self._written - start) / _SHARE_OF_KEEPING
            self._seconds_to_keep = max(_SECONDS_TO_KEEP, most_often)

    def write(self) -> None:
        """Write the profile, if it has a record. Raises OSError and ToolError."""
        parts = [] if self._profile is None else [self._profile]
        if self._new:
            values = self._values.statistics(self._new)
            aliases = {alias: key for alias, key in self._aliases.items() if key in values}
            parts.append(Profile(self._fingerprint, values, aliases, self._reduction))
        if not parts:
            return
        self._profile, self._new = merge_profiles(parts), []
        write_file(self._path, self._profile.to_json())

    def state(self) -> str:
        """A message about the state of the run."""
        recorded = self.recorded
        if self._profile is None:
            return "no records were run, so nothing is written"
        values = self._profile.values
        skipped = [key for key, value in values.items() if value.nans]
        lacking = [
            key for key in self._keys if key not in values or len(values[key].records) < recorded
        ]
        text = f"{recorded} of {self.count} records of {len(self._keys)} values are recorded"
        if lacking:
            named = ", ".join(repr(key) for key in sorted(lacking))
            text += f"; {named} have no range where all elements are NaN"
        if skipped:
            text += f"; NaNs are skipped in {', '.join(repr(key) for key in sorted(skipped))}"
        return text


def _range_of_records(text: str) -> slice:
    """The records of `A:B`, where A and B may be left out. Raises ToolError."""
    match = re.fullmatch(r"(\d*):(\d*)", text)
    if match is None:
        raise ToolError(f"--records must be A:B, such as 0:100, but is '{text}'")
    first, last = (int(digits) if digits else None for digits in match.groups())
    if last is not None and (first or 0) >= last:
        raise ToolError(f"--records={text} has no record: the first one must be less than the last")
    return slice(first, last)


def _chosen(count: int, records: slice) -> range:
    return range(count)[records]


def _has_histograms(options: Namespace) -> bool:
    return options.histogram or options.reduction in OF_HISTOGRAMS


def _reduction(options: Namespace) -> Reduction:
    """The reduction that the options select. Raises ToolError for invalid percentiles."""
    try:
        if options.percentile is not None:
            return Reduction.of(ReductionKind.PERCENTILE, *options.percentile)
    except ValueError as error:
        raise ToolError(f"--percentile: {error}") from None
    return Reduction.of(ReductionKind(options.reduction))
