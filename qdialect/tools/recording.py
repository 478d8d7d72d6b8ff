"""Running a function over records: in this process, or spread over several."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from multiprocessing import get_context, parent_process
from typing import Final

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Region
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.memory_budget import MemoryLimitError, memory_budget
from qdialect.certificates.module_comparison import Side
from qdialect.certificates.sampled_runs import RunFailure
from qdialect.interpreters import TypedArray, find_function, run_function
from qdialect.ir.extras import MissingLibraryError
from qdialect.post_training.record_files import Argument, RecordError, RecordFiles
from qdialect.post_training.recorded_function import RecordedFunction, RecordedValues
from qdialect.quantization.ranges import Statistics
from qdialect.text import write_module
from qdialect.text.source import abridge
from qdialect.tools.command_line import Options
from qdialect.tools.compilation import Compilation
from qdialect.tools.diagnostics import Diagnostic, DiagnosticHandler
from qdialect.tools.files import SourceText
from qdialect.tools.iree_engine import LoadedModule, compile_module
from qdialect.tools.tool_error import ToolError

Run = Callable[[Sequence[TypedArray]], Sequence[TypedArray]]
"""Runs a function on its arguments, and returns its results."""

Seen = tuple[int, Mapping[str, Statistics]]
"""The index of a record, and its statistics by the keys of values."""

_PRIVATE: Final = StringAttr("private")

_WAITING: Final = 2
"""The number of records queued for each process, so that none of them is idle."""


@dataclass(frozen=True)
class Recording:
    """All that a process needs to record values. It can be pickled."""

    module: str
    """The text of a module with the recording function; without its body if IREE runs it."""
    function: str
    values: RecordedValues
    names: tuple[tuple[str, ...], ...]
    """The names of each argument in files of records."""
    data: str
    max_memory: int
    binary: bytes | None
    """The module as compiled by IREE; None if the interpreter runs it."""
    threads: int | None

    def start(self) -> Recorder:
        """Read the module. Raises RecordError."""
        source = SourceText(abridge(self.module.encode(), "<recorded function>"))
        options = Options()
        options.allow_unregistered_dialect = True
        compilation = Compilation(source, options, _NoErrors())
        compilation.run(())
        module, context = compilation.module, compilation.context
        return Recorder(self, module, context)


class Recorder:
    """Runs a function on one record after another."""

    def __init__(self, recording: Recording, module: ModuleOp, context: Context) -> None:
        """Raises RecordError if the data does not fit the function."""
        self._recording = recording
        function = next(
            op
            for op in module.ops
            if isinstance(op, FuncOp) and op.sym_name.data == recording.function
        )
        arguments = zip(recording.names, function.function_type.inputs, strict=True)
        self._records = RecordFiles(recording.data, [Argument(*each) for each in arguments])
        self._run: Run
        if recording.binary is None:
            self._run = lambda values: run_function(module, recording.function, values, context)
        else:
            loaded = LoadedModule(recording.binary)
            self._run = lambda values: loaded.run(function, tuple(values))

    def record(self, index: int) -> Seen:
        """The statistics of one record. Raises RecordError."""
        with memory_budget(self._recording.max_memory):
            arguments = self._records[index]
            try:
                results = self._run(arguments)
                threads = self._recording.threads
                return index, self._recording.values.statistics(index, results, threads=threads)
            except RunFailure as error:
                raise RecordError(f"record {index}: {error.reason}") from None
            except (InterpretationError, MemoryLimitError) as error:
                raise RecordError(f"record {index}: {error}") from None
            except ValueError as error:
                raise RecordError(str(error)) from None


def prepare(
    recorded: RecordedFunction,
    context: Context,
    names: tuple[tuple[str, ...], ...],
    data: str,
    *,
    with_iree: bool,
    max_memory: int,
    threads: int | None,
) -> Recording:
    """
    Prepare a recording once for all processes: IREE compiles here.

    Raises ToolError if there is no IREE, and RunFailure if it does not compile the module.
    """
    module, binary = recorded.module, None
    if with_iree:
        try:
            lowered, binary = compile_module(Side(module, context))
            # Errors are reported here, not by each process.
            LoadedModule(binary)
        except MissingLibraryError as error:
            raise ToolError(f"--engine=iree: {error}") from None
        types = find_function(lowered, recorded.name).function_type
        declared = find_function(module, recorded.name).function_type
        # IREE returns the results of the lowered function; records are of the types before.
        signature = FuncOp(recorded.name, (declared.inputs.data, types.outputs.data), Region())
        signature.sym_visibility = _PRIVATE
        module = ModuleOp([signature])
    text = StringIO()
    write_module(context, module, text)
    return Recording(
        text.getvalue(), recorded.name, recorded.values, names, data, max_memory, binary, threads
    )


def record_all(recording: Recording, indices: Sequence[int], jobs: int) -> Generator[Seen]:
    """
    The statistics of records, in any order.

    Raises RecordError for a record that cannot be run. Closing the generator early waits for the
    records that are running.
    """
    if jobs > 1:
        yield from _spread(recording, indices, jobs)
        return
    recorder = recording.start()
    for index in indices:
        yield recorder.record(index)


def _spread(recording: Recording, indices: Iterable[int], jobs: int) -> Generator[Seen]:
    # A forked process would inherit locks that other threads hold, such as those of IREE.
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _start, (recording,))
    remaining = iter(indices)
    pending = set[Future[Seen]]()
    try:
        while True:
            with _interrupts_kept_from_children():
                more = islice(remaining, jobs * _WAITING - len(pending))
                pending |= {pool.submit(_record, index) for index in more}
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for each in done:
                yield each.result()
    except BrokenProcessPool:
        raise RecordError("a process that records has ended without a result") from None
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_kept_from_children() -> Generator[None]:
    """
    Block the signals that a terminal sends to all processes of a command.

    Processes started meanwhile inherit the mask, so that only this process ends them.
    """
    blocked = {getattr(signal, name) for name in ("SIGINT", "SIGHUP") if hasattr(signal, name)}
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_recorders = list[Recorder]()
"""The recorder of this process, if it is a worker."""


def _start(recording: Recording) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # IREE reports false leaks when the Python interpreter is torn down.
    atexit.register(os._exit, 0)
    _recorders.append(recording.start())


def _end_with_parent() -> None:
    """End this worker if its parent is killed."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _record(index: int) -> Seen:
    return _recorders[0].record(index)


class _NoErrors(DiagnosticHandler):
    """For the text of a valid module, which this package printed."""

    @override
    def emit(self, diagnostic: Diagnostic) -> None:
        raise RecordError(f"the function that records cannot be read: {diagnostic.message}")
