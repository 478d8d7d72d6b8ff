"""Runs functions of a model over records, in this process or in several; the arguments for that."""

from __future__ import annotations

import atexit
import math
import os
import signal
import sys
import threading
from abc import ABC, abstractmethod
from argparse import RawDescriptionHelpFormatter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from io import StringIO
from itertools import islice
from multiprocessing import get_context, parent_process
from typing import Any, Final, Generic, TypeVar

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.interpreters import TypedArray, find_function
from qdialect.check.interpreters.interpreter import DEFAULT_MAX_STEPS
from qdialect.check.iree_runs import LoadedModule, compile_module
from qdialect.dialects.arrays.values import dtype_of
from qdialect.ir.names import visibility_of
from qdialect.ir.rewriting import values_in
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of
from qdialect.opt.child_processes import ChildEndedError, computed_in_copy
from qdialect.opt.compilation import Compilation
from qdialect.opt.diagnostics import Diagnostic, DiagnosticHandler
from qdialect.opt.files import SourceText
from qdialect.opt.module_tool import ModuleArgumentParser, whole_number
from qdialect.opt.options import Options
from qdialect.opt.tool_error import ToolError
from qdialect.ptq.calibration.kernels import KernelOps, transposed_type
from qdialect.ptq.calibration.observed_runs import ObservedRun
from qdialect.ptq.calibration.record_files import Argument, RecordError, RecordFiles
from qdialect.support.extras import library
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import MemoryLimitError, memory_budget
from qdialect.support.terminal import working
from qdialect.text import write_module
from qdialect.text.source import abridge

Result = TypeVar("Result", covariant=True)
"""The result of a task for one record."""

_WAITING: Final = 2
"""The number of records queued for each process, so that none of them is idle."""


RECORDS_HELP = """\
records:
  An .npz file has an array for each argument of the function: under arg0, arg1, ..., or under
  the key of the argument, such as its name in the text. If the argument has the shape S, an
  array of shape S is one record, and one of shape (n, *S) holds n records. All arrays of a file
  hold the same number of records. A .npy file has the array of the only argument. The files of a
  folder are read in the order of their names, as one sequence. Records are numbered from 0.
  Elements have the dtype of the argument: float32 for f32; bfloat16 and smaller floats are their
  bits. Other arrays are errors.
"""


def run_parser(tool: str, description: str, epilog: str = "") -> ModuleArgumentParser:
    """The command line of a tool that runs a function over records."""
    parser = ModuleArgumentParser(
        tool,
        description=description,
        epilog="\n".join([RECORDS_HELP, epilog]),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_data()
    parser.add_argument(
        "--function", metavar="NAME", help="the function to run (main, or else the only public one)"
    )
    parser.add_engine()
    parser.add_argument(
        "--jobs",
        type=whole_number("--jobs", 1),
        default=1,
        metavar="N",
        help="spread records over N processes (1)",
    )
    parser.add_max_steps(DEFAULT_MAX_STEPS, "that --engine=reference takes for each record")
    return parser


def chosen_function(module: ModuleOp, name: str | None) -> str:
    """The function to run: `name`, or the default. Raises ToolError."""
    if name is not None:
        return name
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    if "main" in functions:
        return "main"
    public = [
        name
        for name, op in functions.items()
        if not op.is_declaration and visibility_of(op) != "private"
    ]
    if len(public) == 1:
        return public[0]
    known = ", ".join(f"'{name}'" for name in public) or "none"
    raise ToolError(f"choose the function to run with --function: the public functions are {known}")


def arguments_of(function: FuncOp, keys: Mapping[SSAValue, str]) -> tuple[Argument, ...]:
    """
    The arguments, for which records have arrays. `arg0` is the first one, whatever its name.

    `keys` are those of the values of the module.
    """
    arguments = function.body.blocks[0].args
    numbered = [f"arg{number}" for number in range(len(arguments))]
    return tuple(
        Argument(
            (*dict.fromkeys([name] + [key for key in others if key and key not in numbered]),),
            argument.type,
        )
        for name, argument in zip(numbered, arguments, strict=True)
        for others in [(keys.get(argument), argument.name_hint)]
    )


@dataclass(frozen=True)
class PreparedFunction:
    """
    Everything that a process needs to run a function. It is pickled as text.

    Ops and values are numbered in the order of the text.
    """

    run: ObservedRun
    observed: Sequence[int]
    """The numbers of the values that are handed over."""
    kernels: Mapping[int, str]
    """The ops that IREE computes, and the names of the kernels."""
    binary: bytes | None
    """The binary of the kernels; None if there are none."""
    engine: str
    """What runs the function."""

    @override
    def __reduce__(self) -> tuple[Callable[..., PreparedFunction], tuple[Any, ...]]:
        text = StringIO()
        write_module(self.run.context, self.run.module, text)
        name = self.run.function.sym_name.data
        how = self.observed, self.kernels, self.binary, self.engine, self.run.max_steps
        return _read_function, (text.getvalue(), name, *how)

    def start(self) -> ObservedRun:
        """The run, with kernels that are loaded into this process. Raises MissingLibraryError."""
        if self.binary is None:
            return self.run
        loaded, kernels = LoadedModule(self.binary), KernelOps(self.run)
        for number, op in enumerate(self.run.module.walk()):
            if (name := self.kernels.get(number)) is not None:
                self._use_kernel(loaded, kernels, name, op)
                for inner in kernels.inner_ops_of(op):
                    self.run.leave_out(inner)
        return self.run

    def _use_kernel(
        self, loaded: LoadedModule, kernels: KernelOps, name: str, op: Operation
    ) -> None:
        inputs, constants = kernels.inputs_of(op), self.run.constants
        orders = [kernels.order_of(op, value) for value in inputs]
        pairs = zip(inputs, orders, strict=True)
        given_types = [transposed_type(value.type, order) for value, order in pairs]
        types = given_types, [value.type for value in op.results]
        signature = FuncOp(name, types, Region())
        # IREE may compute a result in the memory of an argument of that size.
        sizes = {_size_of(result.type) for result in op.results}
        written = {
            at
            for at, value in enumerate(inputs)
            if not kernels.is_only_read(op, value) and {_size_of(value.type), None} & sizes
        }
        kept = dict[int, Any]()
        for at, value in enumerate(inputs):
            if value in constants:
                elements = constants[value].elements.transpose(orders[at])
                constant = TypedArray(elements, given_types[at])
                kept[at] = constant if at in written else loaded.kept(constant, signature)
        kernel = loaded.kernel(signature, kept, written)

        def compute(values: Sequence[TypedArray]) -> Sequence[TypedArray]:
            try:
                return kernel(values)
            except RunFailure as failure:
                raise InterpretationError(failure.reason) from None

        self.run.use_kernel(op, [value for value in inputs if value not in constants], compute)


def _size_of(type: Attribute) -> int | None:
    """The number of bytes; None if it is not known."""
    shape, element = shape_of(type) or (), element_type_or_self(type)
    return math.prod(shape) * dtype_of(element).itemsize if is_static(shape) else None


def _read_function(
    text: str,
    name: str,
    observed: Sequence[int],
    kernels: Mapping[int, str],
    binary: bytes | None,
    engine: str,
    max_steps: int,
) -> PreparedFunction:
    """The function that another process has pickled. Raises RecordError."""
    source = SourceText(abridge(text.encode(), "<recorded function>"))
    options = Options()
    options.allow_unregistered_dialect = True
    compilation = Compilation(source, options, _NoErrors())
    compilation.run(())
    module, context = compilation.module, compilation.context
    function = find_function(module, name)
    values = [*values_in(module)]
    run = run_of(module, function, context, engine=engine, max_steps=max_steps)
    run.observe([values[at] for at in observed])
    return PreparedFunction(run, observed, kernels, binary, engine)


@dataclass(frozen=True)
class Task(ABC, Generic[Result]):
    """The work on each record. It can be sent to another process."""

    functions: tuple[PreparedFunction, ...]
    """The functions to run on each record, which have the same arguments."""
    names: tuple[tuple[str, ...], ...]
    """The names of each argument in files of records."""
    data: str
    labels: str | None
    """The name of the array with the right answers."""
    max_memory: int

    @property
    def uses_iree(self) -> bool:
        """Whether IREE's runtime works on records: it may crash."""
        return any(function.binary is not None for function in self.functions)

    def start(self) -> Callable[[int], Result]:
        """
        A function that processes the record of an index. Both raise RecordError.

        The modules are read here, and the files of records checked.
        """
        runs = [function.start() for function in self.functions]
        types = runs[0].function.function_type.inputs.data
        arguments = [Argument(*pair) for pair in zip(self.names, types, strict=True)]
        records = RecordFiles(self.data, arguments, self.labels)

        def process(index: int) -> Result:
            try:
                with memory_budget(self.max_memory):
                    record = records[index]
                    labels = None if self.labels is None else records.labels(index)
                    return self.process(index, record, runs, labels)
            except RecordError:
                raise
            except RunFailure as error:
                raise RecordError(f"record {index}: {error.reason}") from None
            except (InterpretationError, MemoryLimitError, ValueError) as error:
                raise RecordError(f"record {index}: {error}") from None

        return process

    @abstractmethod
    def process(
        self,
        index: int,
        record: Sequence[TypedArray],
        runs: Sequence[ObservedRun],
        labels: NDArray[np.int64] | None,
    ) -> Result:
        """What is to be known of a record: runs each function on it."""


def run_of(
    module: ModuleOp,
    function: FuncOp,
    context: Context,
    *,
    engine: str,
    max_steps: int = DEFAULT_MAX_STEPS,
) -> ObservedRun:
    """The run of a function by an engine. Only steps of the reference are limited."""
    steps = max_steps if engine == "reference" else sys.maxsize
    return ObservedRun(module, function, context, steps, in_single=engine == "numpy")


def prepare(
    run: ObservedRun, observed: Sequence[SSAValue], *, engine: str, tool: str | None = None
) -> PreparedFunction:
    """
    Prepare a run once for all processes, for an engine, and hand over these values.

    IREE compiles its kernels here. Meanwhile, a line on a terminal says so, if the name of the
    tool is given.

    Raises ToolError if IREE is not installed, and RunFailure if it does not compile them.
    """
    numbers = {value: number for number, value in enumerate(values_in(run.module))}
    places = [numbers[value] for value in observed]
    run.observe(observed)
    if engine != "iree":
        return PreparedFunction(run, places, {}, None, engine)
    with _errors_of_iree(run.module):
        kernels, binary = KernelOps(run).kernels(), None
        if kernels.names:
            with nullcontext() if tool is None else working(f"{tool}: compiling"):
                _, binary = compile_module(Side(kernels.module, run.context), cpu="host")
            _load_once(binary)
    ops = {op: number for number, op in enumerate(run.module.walk())}
    names = {ops[op]: name for op, name in kernels.names.items()}
    return PreparedFunction(run, places, names, binary, engine)


def prepare_whole(
    side: Side, function: FuncOp, compiled: Callable[[Side], bytes]
) -> PreparedFunction:
    """
    Prepare a public function that IREE computes as a whole, and whose results are handed over.

    `compiled` makes the binary of the module. Raises as `prepare`.
    """
    module, context = side
    ends = function.function_type.inputs.data, function.function_type.outputs.data
    block = Block(arg_types=ends[0])
    call = CallOp(function.sym_name.data, block.args, ends[1])
    block.add_ops([call, ReturnOp(*call.results)])
    caller = FuncOp("caller", ends, Region(block))
    declared = FuncOp.external(function.sym_name.data, *ends)
    calling = ModuleOp([declared, caller])
    run = ObservedRun(calling, caller, context, sys.maxsize)
    run.observe(call.results)
    with _errors_of_iree(module):
        binary = compiled(side)
        _load_once(binary)
    values, ops = [*values_in(calling)], [*calling.walk()]
    places = [values.index(result) for result in call.results]
    names = {ops.index(call): function.sym_name.data}
    return PreparedFunction(run, places, names, binary, "iree")


@contextmanager
def _errors_of_iree(module: ModuleOp) -> Generator[None]:
    """Prepare for IREE's runtime. Raises ToolError if it is missing, and RunFailure."""
    try:
        library("iree.runtime", "iree")
        yield
    except ImportError as error:
        raise ToolError(f"--engine=iree: {error}") from None
    except ChildEndedError as error:
        raise RunFailure(f"IREE's runtime {error}", module) from None


def _load_once(binary: bytes) -> None:
    """Report errors of loading a binary here, and not from each process that runs it."""
    for _ in computed_in_copy(partial(_loaded, binary)):
        pass


def _loaded(binary: bytes) -> tuple[()]:
    """Load the binary of a module. Raises MissingLibraryError."""
    LoadedModule(binary)
    return ()


def record_all(task: Task[Result], indices: Iterable[int], jobs: int) -> Generator[Result]:
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
        # The copy has its own iterator, so that of this process is still at its start.
        index = next(islice(indices, count, None))
        raise RecordError(f"record {index}: IREE's runtime {error}") from None


def _each(task: Task[Result], indices: Iterable[int]) -> Iterator[Result]:
    """The results of a task for records. Raises RecordError."""
    yield from map(task.start(), indices)


def _spread(task: Task[Result], indices: Iterable[int], jobs: int) -> Generator[Result]:
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
            for future in done:
                yield future.result()
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
