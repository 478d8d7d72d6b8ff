"""Runs a function over records, in this process or in several."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import StringIO
from itertools import islice
from multiprocessing import get_context, parent_process
from typing import Any, Final, Protocol, TypeVar

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Region
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters import TypedArray, find_function, run_function
from qdialect.check.interpreters.interpreter import DEFAULT_MAX_STEPS
from qdialect.check.iree_engine import LoadedModule, compile_module
from qdialect.check.module_comparison import Side
from qdialect.check.sampled_runs import RunFailure
from qdialect.opt.child_processes import ChildEndedError, computed_in_copy
from qdialect.opt.compilation import Compilation
from qdialect.opt.diagnostics import Diagnostic, DiagnosticHandler
from qdialect.opt.files import SourceText
from qdialect.opt.opt import Options
from qdialect.opt.tool_error import ToolError
from qdialect.ptq.calibration.record_files import Argument, RecordError, RecordFiles
from qdialect.ptq.calibration.recorded_function import (
    RecordedValues,
    without_passed_arguments,
)
from qdialect.ptq.schemes.ranges import Statistics
from qdialect.support.extras import MissingLibraryError
from qdialect.support.memory import MemoryLimitError, memory_budget
from qdialect.text import write_module
from qdialect.text.source import abridge

Run = Callable[[Sequence[TypedArray]], Sequence[TypedArray]]
"""Runs a function on its arguments, and returns its results."""

Seen = tuple[int, Mapping[str, Statistics]]
"""The index of a record, and its statistics by the keys of values."""

Found = TypeVar("Found", covariant=True)
"""The result of a task for one record."""

_PRIVATE: Final = StringAttr("private")

_WAITING: Final = 2
"""The number of records queued for each process, so that none of them is idle."""


class Task(Protocol[Found]):
    """The work on each record. It can be sent to another process."""

    @property
    def uses_iree(self) -> bool:
        """Whether IREE's runtime works on records: it may crash."""
        ...

    def start(self) -> Callable[[int], Found]:
        """A function that processes the record of an index. Both raise RecordError."""
        ...


@dataclass(frozen=True)
class PreparedFunction:
    """Everything that a process needs to run a function."""

    module: str
    """The text of a module with the function; if IREE runs it, without its body."""
    name: str
    binary: bytes | None
    """The binary of IREE; None if the interpreter runs the module."""
    passed: tuple[int | None, ...]
    """For each result, the argument that it is; None if the function computes it."""
    max_steps: int
    """The maximum number of ops that the interpreter runs for a record."""

    def load(self) -> LoadedFunction:
        """Read the module. Raises RecordError."""
        source = SourceText(abridge(self.module.encode(), "<recorded function>"))
        options = Options()
        options.allow_unregistered_dialect = True
        compilation = Compilation(source, options, _NoErrors())
        compilation.run(())
        return LoadedFunction(self, compilation.module, compilation.context)


class LoadedFunction:
    """A function that this process can run."""

    def __init__(self, prepared: PreparedFunction, module: ModuleOp, context: Context) -> None:
        """Raises MissingLibraryError."""
        name = prepared.name
        function = next(
            op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == name
        )
        self._passed = prepared.passed
        self.types = function.function_type.inputs.data
        self._run: Run
        if prepared.binary is None:
            self._run = lambda values: run_function(
                module, name, values, context, max_steps=prepared.max_steps
            )
        else:
            loaded = LoadedModule(prepared.binary)
            self._run = lambda values: loaded.run(function, tuple(values))

    def run(self, arguments: Sequence[TypedArray]) -> Sequence[TypedArray]:
        """The results of the function. Raises as `record_errors` expects."""
        returned = iter(self._run(arguments))
        return [next(returned) if at is None else arguments[at] for at in self._passed]


@contextmanager
def record_errors(index: int, max_memory: int) -> Generator[None]:
    """Work on a record within a limit of memory. Errors become RecordErrors."""
    try:
        with memory_budget(max_memory):
            yield
    except RecordError:
        raise
    except RunFailure as error:
        raise RecordError(f"record {index}: {error.reason}") from None
    except (InterpretationError, MemoryLimitError, ValueError) as error:
        raise RecordError(f"record {index}: {error}") from None


@dataclass(frozen=True)
class Recording:
    """A task that computes the statistics of values."""

    function: PreparedFunction
    values: RecordedValues
    names: tuple[tuple[str, ...], ...]
    """The names of each argument in files of records."""
    data: str
    max_memory: int
    threads: int | None

    @property
    def uses_iree(self) -> bool:
        """Whether IREE runs the function."""
        return self.function.binary is not None

    def start(self) -> Callable[[int], Seen]:
        """Read the module and the data. Raises RecordError for data that does not match."""
        function = self.function.load()
        arguments = [Argument(*each) for each in zip(self.names, function.types, strict=True)]
        records = RecordFiles(self.data, arguments)

        def record(index: int) -> Seen:
            with record_errors(index, self.max_memory):
                results = function.run(records[index])
                return index, self.values.statistics(index, results, threads=self.threads)

        return record


def prepare(
    module: ModuleOp,
    name: str,
    context: Context,
    *,
    with_iree: bool,
    max_steps: int = DEFAULT_MAX_STEPS,
) -> PreparedFunction:
    """
    Prepare a function once for all processes; IREE compiles it here.

    The function of that name is changed: it no longer returns arguments. Raises ToolError if IREE
    is not installed, and RunFailure if it does not compile the module.
    """
    binary, passed = None, without_passed_arguments(find_function(module, name))
    if with_iree:
        try:
            lowered, binary = compile_module(Side(module, context))
            # Errors of loading it are reported here, not by each process that runs it.
            for _ in computed_in_copy(partial(_loaded, binary)):
                pass
        except MissingLibraryError as error:
            raise ToolError(f"--engine=iree: {error}") from None
        except ChildEndedError as error:
            raise RunFailure(f"IREE's runtime {error}", module, is_before=True) from None
        types = find_function(lowered, name).function_type
        declared = find_function(module, name).function_type
        # Results have the types of the lowered function, and records those of the original one.
        signature = FuncOp(name, (declared.inputs.data, types.outputs.data), Region())
        signature.sym_visibility = _PRIVATE
        module = ModuleOp([signature])
    text = StringIO()
    write_module(context, module, text)
    return PreparedFunction(text.getvalue(), name, binary, passed, max_steps)


def _loaded(binary: bytes) -> tuple[()]:
    """Load the binary of a module. Raises MissingLibraryError."""
    LoadedModule(binary)
    return ()


def record_all(task: Task[Found], indices: Sequence[int], jobs: int) -> Generator[Found]:
    """
    The results of a task for records, in any order.

    Raises RecordError for a record that cannot be run. Closing the generator early waits for the
    records that are running.
    """
    if jobs > 1:
        yield from _spread(task, indices, jobs)
        return
    count = 0
    try:
        values = partial(_each, task, indices)
        for value in computed_in_copy(values) if task.uses_iree else values():
            yield value
            count += 1
    except ChildEndedError as error:
        raise RecordError(f"record {indices[count]}: IREE's runtime {error}") from None


def _each(task: Task[Found], indices: Sequence[int]) -> Iterator[Found]:
    """The results of a task for records. Raises RecordError."""
    yield from map(task.start(), indices)


def _spread(task: Task[Found], indices: Iterable[int], jobs: int) -> Generator[Found]:
    # Forked processes would inherit the locked mutexes of threads, such as IREE's.
    with _interrupts_kept_from_children():
        # This starts the process that removes semaphores: it must outlive this one.
        pool = ProcessPoolExecutor(jobs, get_context("spawn"), _start, (task,))
    remaining = iter(indices)
    pending = set[Future[Any]]()
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
        raise RecordError("a worker process ended without a result") from None
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


_started = list[Callable[[int], object]]()
"""The function that processes a record, if this process is a worker."""


def _start(task: Task[object]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # IREE reports false leaks when the Python interpreter is torn down.
    atexit.register(os._exit, 0)
    _started.append(task.start())


def _end_with_parent() -> None:
    """End this worker if its parent is killed."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _record(index: int) -> object:
    return _started[0](index)


class _NoErrors(DiagnosticHandler):
    """For the text of a valid module, which this package printed."""

    @override
    def emit(self, diagnostic: Diagnostic) -> None:
        raise RecordError(f"the recording function cannot be parsed: {diagnostic.message}")
