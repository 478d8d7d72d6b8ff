"""`qdialect export`: write a module in the format of an engine, to be run there."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from xdsl.dialects.func import FuncOp

from qdialect.check.compared_modules import RunFailure, Side
from qdialect.folding.inlining import inline_calls
from qdialect.integers.compiling import compile_in_integers, store_bytes_as
from qdialect.ir.errors import OpErrors
from qdialect.opt.compilation import Compilation
from qdialect.opt.diagnostics import DiagnosticPrinter
from qdialect.opt.module_tool import ModuleArgumentParser, read_module
from qdialect.opt.outputs import STANDARD_OUTPUT, Output, overwrite_each_other
from qdialect.opt.tool_error import ToolError
from qdialect.support.extras import MissingLibraryError

TOOL: Final = "qdialect-export"
"""The name that the tool's own errors begin with."""


def _iree(compilation: Compilation, options: Namespace) -> bytes:
    """The module, compiled. Raises RunFailure."""
    return compile_in_integers(Side(compilation.module, compilation.context), options.cpu)


def _onnx(compilation: Compilation, options: Namespace) -> bytes:
    """The module as a model, and what is too large for it in a file beside. Raises OpErrors."""
    # Only this format needs them.
    from qdialect.export.onnx_models import write_onnx

    module, context = compilation.module, compilation.context
    inline_calls(module)
    if options.activations != "keep":
        store_bytes_as(options.activations, module, context)
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    if len(functions) != 1:
        raise OpErrors.of(module, f"has {len(functions)} functions, and a model has one")
    graph = write_onnx(module, functions[0], context)
    beside = f"{options.output}.data"
    model, parts = graph.model(functions[0].sym_name.data, os.path.basename(beside))
    if parts:
        with Output(beside) as output:
            for part in parts:
                output.stream.buffer.write(part)
            output.is_good = True
    return model


_WRITERS: Final[Mapping[str, Callable[[Compilation, Namespace], bytes]]] = MappingProxyType(
    {".vmfb": _iree, ".onnx": _onnx}
)
"""What makes a file, by the end of its name."""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 after an error, which is on standard error.
    """
    endings = " or ".join(_WRITERS)
    parser = ModuleArgumentParser(
        TOOL,
        description="Write a module for an engine, which runs layers of quantized operands in "
        "integers: for IREE compiled (.vmfb), or for ONNX Runtime and others (.onnx).",
    )
    parser.add_argument("module", help="the module; - for standard input")
    parser.add_argument(
        "-o",
        dest="output",
        required=True,
        metavar="FILE",
        help=f"the result, whose name ends in {endings}",
    )
    parser.add_argument(
        "--cpu",
        default="host",
        metavar="NAME",
        help="the CPU to compile for, as LLVM names it: host, generic, znver4, ... (host)",
    )
    parser.add_argument(
        "--activations",
        choices=("u8", "i8", "keep"),
        default="u8",
        help="how an .onnx file stores values of 8 bits that are not constant, which keep their "
        "meaning; ONNX Runtime has fast kernels for u8 on CPUs (u8)",
    )
    return parser.run(_run, argv)


def _run(options: Namespace) -> bool:
    write = _WRITERS.get(os.path.splitext(options.output)[1])
    if write is None:
        raise ToolError(f"'{options.output}' must end in {' or '.join(_WRITERS)}")
    path: str = options.module
    if path not in STANDARD_OUTPUT and overwrite_each_other(options.output, path):
        raise ToolError(f"the result would be written over '{path}'")
    printer = DiagnosticPrinter(sys.stderr)
    compilation = read_module(path, printer, options)
    if compilation is None:
        return False
    # Errors of the output are reported before the work.
    with Output(options.output) as output:
        try:
            output.stream.buffer.write(write(compilation, options))
        except MissingLibraryError as error:
            raise ToolError(str(error)) from None
        except RunFailure as failure:
            printer.error(failure.reason, compilation.source.name)
            return False
        except OpErrors as errors:
            for op, message in errors.errors:
                printer.error(message, compilation.locate(op))
            return False
        output.is_good = True
    return True
