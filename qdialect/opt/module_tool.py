"""The common parts of the tools that read modules: arguments, running, and reading."""

from __future__ import annotations

import re
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, NoReturn

from typing_extensions import override

from qdialect.opt.compilation import Compilation, read_source
from qdialect.opt.diagnostics import DiagnosticHandler
from qdialect.opt.opt import parse_max_memory
from qdialect.opt.options import MAX_MEMORY_HELP, Options
from qdialect.opt.outputs import standard_output
from qdialect.opt.tool_error import ToolError, did_you_mean, run_tool
from qdialect.support.memory import DEFAULT_MAX_MEMORY, memory_budget

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


_UNKNOWN = re.compile(r"unrecognized arguments: (--[\w-]+)")


def whole_number(flag: str, least: int = 0) -> Callable[[str], int]:
    """A reader of the number behind a flag; it raises ToolError for other text and less."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ToolError(f"{flag} must be a number, but is '{text}'") from None
        if number < least:
            bound = f"be at least {least}" if least else "not be negative"
            raise ToolError(f"{flag} must {bound}, but is {number}")
        return number

    return read


def _shape_of_input(text: str) -> tuple[str, tuple[int, ...]]:
    """The name and the shape in an argument. Raises ToolError."""
    name, _, lengths = text.rpartition("=")
    try:
        return name, tuple(int(length) for length in lengths.split(","))
    except ValueError:
        raise ToolError(f"--shape must be like x=1,3,224,224, but is '{text}'") from None


def _value_of_input(text: str) -> tuple[str, float]:
    """The name and the number in an argument. Raises ToolError."""
    name, _, number = text.rpartition("=")
    try:
        return name, int(number) if number.lstrip("-").isdecimal() else float(number)
    except ValueError:
        raise ToolError(f"--value must be like rate=16000, but is '{text}'") from None


_asked: ContextVar[list[ModuleArgumentParser]] = ContextVar("asked")
"""Takes the command line instead of printing its help, where it is set."""


def parser_of(main: Callable[[Sequence[str]], int]) -> ModuleArgumentParser:
    """The command line of a tool, whose `--help` is run for it, and prints nothing."""
    parsers = list[ModuleArgumentParser]()
    token = _asked.set(parsers)
    try:
        main(("--help",))
    finally:
        _asked.reset(token)
    return parsers[0]


class ModuleArgumentParser(ArgumentParser):
    """The command line of a tool that reads modules. Wrong arguments raise ToolError."""

    @property
    def actions(self) -> Sequence[Action]:
        """The flags and the positional arguments."""
        return self._actions

    def run(
        self,
        run: Callable[[Namespace], bool],
        argv: Sequence[str] | None,
        *,
        reads_modules: bool = True,
        max_memory: int | None = DEFAULT_MAX_MEMORY,
    ) -> int:
        """
        Run the tool with these arguments, or those of the process, within its limit of memory.

        `run` returns whether there was no error. `max_memory` is the default limit in bytes, None
        if the tool chooses one for each step. Returns the exit status; see `run_tool`.
        """

        def run_within_limit(arguments: Sequence[str]) -> bool:
            options = self.parse_args(arguments)
            with memory_budget(options.max_memory):
                return run(options)

        self._add_max_memory(max_memory)
        if reads_modules:
            self._add_reading_arguments()
        return run_tool(self.prog, run_within_limit, argv)

    def add_max_steps(self, default: int, what: str) -> None:
        """Add `--max-steps`; `what` says which steps are bounded, and how they are counted."""
        self.add_argument(
            "--max-steps",
            type=whole_number("--max-steps"),
            default=default,
            metavar="COUNT",
            help=f"the maximum number of steps {what} ({default})",
        )

    def add_data(self, reason: str | None = None) -> None:
        """Add `--data`, the records of a model, which may be left out if there is a `reason`."""
        self.add_argument(
            "--data",
            required=reason is None,
            metavar="PATH",
            help="an .npz or .npy file, or a folder of such files" + (reason or ""),
        )

    def add_engine(self) -> None:
        """Add `--engine`, what runs a model."""
        self.add_argument(
            "--engine",
            choices=("numpy", "iree", "reference"),
            default="numpy",
            help="run it with numpy, in float32; or leave ops whose bits depend on the compiler to "
            "IREE, or to qdialect's interpreter, which rounds each result once (numpy)",
        )

    def add_inputs(self) -> None:
        """Add `--shape` and `--value`, for models whose files leave lengths open, or have cases."""
        self.add_argument(
            "--shape",
            action="append",
            default=[],
            type=_shape_of_input,
            metavar="NAME=LENGTHS",
            help="the shape of an input whose lengths a file of ONNX leaves open, as "
            "x=1,3,224,224; of TFLite, the one in the file",
        )
        self.add_argument(
            "--value",
            action="append",
            default=[],
            type=_value_of_input,
            metavar="NAME=NUMBER",
            help="the number that an input of an ONNX file always has, as rate=16000",
        )

    def _add_max_memory(self, default: int | None) -> None:
        told = "by the size of the model" if default is None else default
        self.add_argument(
            "--max-memory",
            type=parse_max_memory,
            default=default,
            metavar="BYTES",
            help=f"{MAX_MEMORY_HELP} ({told})",
        )

    def _add_reading_arguments(self) -> None:
        self.add_argument(
            "--allow-unregistered-dialect",
            action="store_true",
            help="accept unknown operations, in generic or plain form",
        )
        self.add_argument(
            "--read-with",
            metavar="COMMAND",
            help="parse the generic form that COMMAND, a tool like mlir-opt, prints",
        )

    @override
    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        if (parsers := _asked.get(None)) is not None:
            parsers.append(self)
            return
        # argparse ignores errors of standard output.
        with standard_output() as stream:
            stream.write(self.format_help())

    @override
    def error(self, message: str) -> NoReturn:
        wrong = _UNKNOWN.match(message)
        flags = sorted(set(re.findall(r"--[a-z][a-z-]*", self.format_help())))
        raise ToolError(message + (did_you_mean(wrong[1], flags) if wrong else ""))


def read_module(path: str, handler: DiagnosticHandler, options: Namespace) -> Compilation | None:
    """The module in a file, verified; None if it has errors. Raises ToolError."""
    source = read_source(path, handler, options.read_with)
    if source is None:
        return None
    reading = Options()
    # The other tool may know more dialects.
    reading.allow_unregistered_dialect = (
        options.allow_unregistered_dialect or options.read_with is not None
    )
    compilation = Compilation(source, reading, handler)
    return compilation if compilation.run(()) else None
