"""
`qdialect-opt`: xDSL's dialects and passes with qdialect's, under mlir-opt's habits.

https://mlir.llvm.org/docs/Tutorials/MlirOpt/ describes them. What is not xDSL's own is
imported when it is asked for, since most of the time of a small run is imports.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NoReturn, TextIO, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Attribute, Block, Dialect, Operation
from xdsl.passes import ModulePass
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator
from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible, parse_pipeline
from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    ParseError,
    VerifyException,
)
from xdsl.utils.lexer import Input, Span

from qdialect.tools.diagnostics import (
    DiagnosticHandler,
    DiagnosticPrinter,
    DiagnosticVerifier,
    Location,
    place_in_file,
)
from qdialect.tools.parser import LocatingParser

if TYPE_CHECKING:
    from xdsl.universe import Universe
    from xdsl.utils.target import Target

TOOL = "qdialect-opt"
SPLIT_MARKER = "// -----"

EXIT_SUCCESS, EXIT_FAILURE = 0, 1
EXIT_INTERRUPTED, EXIT_CLOSED_PIPE = 130, 141
"""What a shell makes of SIGINT and SIGPIPE, which end mlir-opt."""

USAGE = f"usage: {TOOL} [options] [input file, or - for standard input]"


class ToolError(Exception):
    """Something wrong outside the text: the command line, a file."""


# Dialects, passes and targets


@cache
def _plugins() -> tuple[Universe, ...]:
    """What other packages plug into xDSL. Those that do not load are left out."""
    from importlib.metadata import entry_points

    from xdsl.universe import Universe

    universes: list[Universe] = []
    for plugin in entry_points(group="xdsl.universe"):
        try:
            universe = plugin.load()
        except Exception as error:
            sys.stderr.write(
                f"{TOOL}: warning: plug-in '{plugin.name}' does not load: {_describe(error)}\n"
            )
        else:
            if isinstance(universe, Universe):
                universes.append(universe)
    return tuple(universes)


@cache
def _dialects() -> dict[str, Callable[[], Dialect]]:
    from xdsl import dialects

    from qdialect import universe

    return {**dialects.get_all_dialects(), **universe.get_all_dialects()}


@cache
def _passes() -> dict[str, Callable[[], type[ModulePass]]]:
    from xdsl import transforms

    from qdialect import universe

    return {**transforms.get_all_passes(), **universe.get_all_passes()}


@cache
def _targets() -> dict[str, Callable[[], type[Target]]]:
    from xdsl import targets

    return targets.get_all_targets()


def _find_pass(name: str) -> Callable[[], type[ModulePass]] | None:
    return _passes().get(name) or next(
        (plugin.all_passes[name] for plugin in _plugins() if name in plugin.all_passes),
        None,
    )


class ToolContext(Context):
    """
    Knows all dialects, and looks for one that it does not know among the plug-ins.

    Resources belong to the context, unlike xDSL's, where they are shared by all modules
    of a process.
    """

    def __init__(self, allow_unregistered: bool = False) -> None:
        super().__init__(allow_unregistered)
        for name, factory in _dialects().items():
            self.register_dialect(name, _fresh_builtin if name == "builtin" else factory)

    @override
    def get_optional_op(
        self, name: str, *, dialect_stack: Sequence[str] = ()
    ) -> type[Operation] | None:
        self._look_for_dialect(name)
        return super().get_optional_op(name, dialect_stack=dialect_stack)

    @override
    def get_optional_type(self, name: str):
        self._look_for_dialect(name)
        return super().get_optional_type(name)

    @override
    def get_optional_attr(self, name: str) -> type[Attribute] | None:
        self._look_for_dialect(name)
        return super().get_optional_attr(name)

    def _look_for_dialect(self, name: str) -> None:
        dialect, dot, _ = name.partition(".")
        if not dot or dialect in self._registered_dialects:
            return
        for plugin in _plugins():
            if dialect in plugin.all_dialects:
                self.register_dialect(dialect, plugin.all_dialects[dialect])
                return


def _fresh_builtin() -> Dialect:
    return Dialect(
        "builtin",
        list(Builtin.operations),
        list(Builtin.attributes),
        [OpAsmDialectInterface()],
    )


# The command line


@dataclass
class Options:
    """What the command line asks for."""

    input_file: str = "-"
    output_file: str = "-"
    passes: list[ArgSpec] = field(default_factory=list[ArgSpec])
    target: ArgSpec = field(default_factory=lambda: ArgSpec("mlir", {}))
    pass_pipeline: str | None = None
    allow_unregistered_dialect: bool = False
    disable_verify: bool = False
    verify_each: bool = True
    no_implicit_module: bool = False
    print_op_generic: bool = False
    print_debuginfo: bool = False
    print_ir_after_all: bool = False
    split_input_file: bool = False
    time_passes: bool = False
    verify_diagnostics: bool = False
    debug: bool = False
    help: bool = False
    version: bool = False


_FLAGS = {
    "allow-unregistered-dialect": "accept unknown operations, in generic form",
    "disable-verify": "do not verify operations at all",
    "verify-each": "verify after each pass (default; =false to verify only the input)",
    "no-implicit-module": "the text must be one builtin.module",
    "print-op-generic": "print operations in generic form",
    "print-debuginfo": "print locations",
    "print-ir-after-all": "print the module after each pass, on standard error",
    "split-input-file": f"process what `{SPLIT_MARKER}` separates one by one",
    "time-passes": "print how long each pass took, on standard error",
    "verify-diagnostics": "check that errors are as `expected-error` comments say",
    "help": "print this, and exit",
    "version": "print the version, and exit",
}
_SYNONYMS = {
    "mlir-print-op-generic": "print-op-generic",
    "mlir-print-debuginfo": "print-debuginfo",
    "mlir-print-ir-after-all": "print-ir-after-all",
    "print-between-passes": "print-ir-after-all",
    "mlir-timing": "time-passes",
    "h": "help",
    "output-file": "o",
    "passes": "p",
    "target": "t",
}
_VALUES = {
    "o": "FILE: write there; it is written whole, or not touched",
    "p": "PASSES: run 'a,b{option=value}'",
    "pass-pipeline": "PASSES: run 'builtin.module(a,b{option=value})'",
    "t": "TARGET: print as TARGET, not as MLIR",
}
_BOOLEANS = {
    "": True,
    "true": True,
    "TRUE": True,
    "True": True,
    "1": True,
    "false": False,
    "FALSE": False,
    "False": False,
    "0": False,
}


def parse_arguments(arguments: Sequence[str]) -> Options:
    """
    Read the command line.

    Raises ToolError if it is malformed, or names a pass or target that there is not.
    """
    options = Options()
    inputs: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            inputs.extend(remaining)
        elif argument == "-" or not argument.startswith("-"):
            inputs.append(argument)
        else:
            _parse_option(argument, remaining, options)
    if len(inputs) > 1:
        raise ToolError(f"more than one input file: {', '.join(inputs)}")
    if inputs:
        options.input_file = inputs[0]
    if options.pass_pipeline is not None:
        if options.passes:
            raise ToolError("'-pass-pipeline' option can't be used with individual pass options")
        options.passes = _parse_anchored_pipeline(options.pass_pipeline)
    return options


def _parse_option(argument: str, remaining: Iterator[str], options: Options) -> None:
    spelled, has_value, value = argument.partition("=")
    given = spelled.removeprefix("-").removeprefix("-")
    name = _SYNONYMS.get(given, given)
    if name in _VALUES:
        if not has_value and (following := next(remaining, None)) is not None:
            value = following
        elif not has_value:
            raise ToolError(f"for the {spelled} option: requires a value!")
        _set_value(name, value, options)
    elif name in _FLAGS or name == "debug":
        if value not in _BOOLEANS:
            raise ToolError(f"for the {spelled} option: '{value}' is not true or false")
        setattr(options, name.replace("-", "_"), _BOOLEANS[value])
    elif _find_pass(name) is not None:
        options.passes += _parse_passes(f"{name}{{{value.strip()}}}")
    else:
        _refuse_argument(spelled, name)


def _set_value(name: str, value: str, options: Options) -> None:
    match name:
        case "o":
            options.output_file = value
        case "t":
            (options.target,) = _parse_specs(value) or (options.target,)
        case "p" if not value.lstrip().startswith("builtin.module("):
            options.passes += _parse_passes(value)
        case _:
            options.pass_pipeline = value


def _refuse_argument(spelled: str, name: str) -> NoReturn:
    from difflib import get_close_matches

    message = f"unknown command line argument '{spelled}'; try '{TOOL} --help'"
    known = [*_FLAGS, *_VALUES, *_SYNONYMS, *_passes()]
    if close := get_close_matches(name, known, n=1):
        message += f"; did you mean '--{close[0]}'?"
    raise ToolError(message)


def _parse_anchored_pipeline(text: str) -> list[ArgSpec]:
    anchored = re.fullmatch(r"\s*builtin\.module\s*\((.*)\)\s*", text, re.DOTALL)
    if anchored is None:
        raise ToolError(
            "expected pass pipeline to be wrapped with the anchor operation type, e.g. "
            "'builtin.module(...)'"
        )
    without_options = re.sub(r"\{[^{}]*\}", "", anchored[1])
    if nested := re.search(r"([\w.]+)\s*\(", without_options):
        raise ToolError(
            f"a pass pipeline cannot be nested under '{nested[1]}': passes run on the "
            "whole module, so name them in builtin.module(...)"
        )
    return _parse_passes(anchored[1])


def _parse_passes(text: str) -> list[ArgSpec]:
    specs = _parse_specs(text)
    for spec in specs:
        if _find_pass(spec.name) is None:
            raise ToolError(f"'{spec.name}' does not refer to a registered pass or pass pipeline")
    return specs


def _parse_specs(text: str) -> list[ArgSpec]:
    """Names with options, in which blanks may be where xDSL does not allow them."""
    tidy = re.sub(
        r'("(?:\\.|[^"\\])*")|\s*([,{}])\s*',
        lambda match: match[1] or match[2],
        text.strip(),
    )
    try:
        return list(parse_pipeline(tidy))
    except ArgSpecParseError as error:
        reason = str(error).strip().rpartition("\n")[2].strip()
    except (RuntimeError, StopIteration):
        # xDSL does not expect the text to end within options.
        reason = "unexpected end"
    raise ToolError(f"cannot read '{text}': {reason}")


def _make_passes(specs: Sequence[ArgSpec]) -> list[ModulePass]:
    return [_make("pass", _find_pass(spec.name), spec) for spec in specs]


def _make_target(spec: ArgSpec) -> Target:
    return _make("target", _targets().get(spec.name), spec)


def _make(
    kind: str,
    factory: Callable[[], type[ConvertibleT]] | None,
    spec: ArgSpec,
) -> ConvertibleT:
    """What a name with options asks for. Raises ToolError."""
    if factory is None:
        raise ToolError(f"there is no {kind} '{spec.name}'")
    try:
        cls = factory()
    except Exception as error:
        raise ToolError(f"{kind} '{spec.name}' does not load: {_describe(error)}") from error
    known = [f.name.replace("_", "-") for f in fields(cls) if f.init]
    for option in spec.parameters:
        if option.replace("_", "-") not in known:
            raise ToolError(
                f"{kind} '{spec.name}' has no option '{option}' "
                f"(it has: {', '.join(known) or 'none'})"
            )
    try:
        return cls.from_spec(spec)
    except Exception as error:
        raise ToolError(f"{kind} '{spec.name}': {_first_line(error)}") from error


# Files


@dataclass(frozen=True)
class SourceText:
    """A text to process: a file, or a part of one."""

    name: str
    text: str
    first_line: int = 1

    def split(self) -> Iterator[SourceText]:
        """The parts between markers."""
        line = self.first_line
        # Upstream does not take a marker that ends the file for one.
        for part in re.split(rf"{SPLIT_MARKER}(?!\Z)", self.text):
            yield SourceText(self.name, part, line)
            line += part.count("\n")


def read_source(path: str, handler: DiagnosticHandler) -> SourceText | None:
    """
    The text of a file, `-` being standard input; None if it is not UTF-8.

    Raises ToolError if it cannot be read.
    """
    name = "<stdin>" if path == "-" else path
    try:
        if path == "-":
            content = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                content = file.read()
    except (OSError, ValueError) as error:
        raise ToolError(f"cannot open input file '{name}': {_reason(error)}") from None
    try:
        return SourceText(name, content.decode())
    except UnicodeDecodeError as error:
        start = len(content[: error.start].decode())
        readable = Input(content.decode(errors="replace"), name)
        handler.error(
            f"byte 0x{content[error.start]:02X} is not UTF-8",
            Span(start, start + 1, readable),
        )
        return None


class Output:
    """
    Where modules are printed: standard output, or a file that is written whole or not.

    A file is written next to the one it replaces. What is not a regular file, such as
    /dev/null, is written directly.
    """

    stream: TextIO

    def __init__(self, path: str) -> None:
        """Raises ToolError if the file cannot be written."""
        self._path = path
        self._temporary: str | None = None
        try:
            self.stream = self._open()
        except (OSError, ValueError) as error:
            raise ToolError(f"cannot open output file '{path}': {_reason(error)}") from None

    def _open(self) -> TextIO:
        if self._path == "-":
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(encoding="utf-8", newline="\n")
            return sys.stdout
        self._path = os.path.realpath(self._path)
        mode = _mode_of(self._path)
        if not stat.S_ISREG(mode):
            return open(self._path, "w", encoding="utf-8", newline="\n")
        from tempfile import mkstemp

        descriptor, self._temporary = mkstemp(prefix=f".{TOOL}-", dir=os.path.dirname(self._path))
        os.chmod(self._temporary, stat.S_IMODE(mode))
        return open(descriptor, "w", encoding="utf-8", newline="\n")

    def close(self, keep: bool) -> None:
        """Finish; unless `keep`, leave the file as it was. Raises OSError."""
        if self.stream is sys.stdout:
            self.stream.flush()
            return
        try:
            self.stream.close()
            if keep and self._temporary is not None:
                os.replace(self._temporary, self._path)
                self._temporary = None
        finally:
            if self._temporary is not None:
                with suppress(OSError):
                    os.unlink(self._temporary)


def _mode_of(path: str) -> int:
    """The mode of a file, or what a new one would get. Raises OSError if not writable."""
    if os.path.exists(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
        return os.stat(path).st_mode
    mask = os.umask(0)
    os.umask(mask)
    return stat.S_IFREG | (0o666 & ~mask)


# Verification


class ModuleVerifier:
    """
    Verifies a module operation by operation, and tells where the wrong ones are.

    xDSL's own `verify` prints the whole module into its error, constants and all. As in
    mlir-opt, the first wrong operation ends it, but for that which is isolated from above.
    """

    def __init__(self, locate: Callable[[Operation], Location], handler: DiagnosticHandler) -> None:
        self._locate = locate
        self._handler = handler

    def verify(self, op: Operation) -> bool:
        """Whether an operation and all in it are well formed."""
        for region in op.regions:
            for block in region.blocks:
                if not self._verify_block(block):
                    return False
        try:
            _verify_place(op)
            op.verify_()
        except VerifyException as error:
            return self._refuse(op, str(error))
        except Exception as error:
            return self._refuse(op, f"verifier failed: {_describe(error)}")
        return True

    def _verify_block(self, block: Block) -> bool:
        is_valid = True
        for op in block.ops:
            if not self.verify(op):
                is_valid = False
                if not op.has_trait(IsolatedFromAbove, value_if_unregistered=False):
                    return False
        parent = block.parent_op()
        if block.last_op is None and parent is not None and _needs_terminator(block):
            return self._refuse(parent, "empty block: expect at least a terminator")
        return is_valid

    def _refuse(self, op: Operation, message: str) -> bool:
        self._handler.error(message, self._locate(op))
        return False


def _needs_terminator(block: Block) -> bool:
    """Whether a block must end in a terminator, be it empty or not."""
    region, parent = block.parent, block.parent_op()
    if region is None or parent is None:
        return False
    if region.first_block is not region.last_block:
        return block.last_op is not None
    return not parent.has_trait(NoTerminator)


def _verify_place(op: Operation) -> None:
    """Raise VerifyException for what an operation may not use, or where it may not be."""
    if any(isinstance(operand, ErasedSSAValue) for operand in op.operands):
        raise VerifyException(f"'{op.name}' op uses a value that was erased")
    block = op.parent_block()
    is_last = block is not None and block.last_op is op
    if op.successors:
        if block is None or not is_last:
            raise VerifyException(
                f"'{op.name}' op with block successors must terminate its parent block"
            )
        if any(successor.parent is not block.parent for successor in op.successors):
            raise VerifyException(f"'{op.name}' op branches to a block of a different region")
    if block is not None and is_last and _needs_terminator(block):
        if not op.has_trait(IsTerminator):
            raise VerifyException(f"block with no terminator, has '{op.name}' last")


# Processing


@dataclass
class Compilation:
    """One text on its way from the parser to the printer."""

    source: SourceText
    passes: Sequence[ModulePass]
    options: Options
    handler: DiagnosticHandler

    context: ToolContext = field(init=False)
    module: ModuleOp = field(init=False)
    _parser: LocatingParser = field(init=False)
