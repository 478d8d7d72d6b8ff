"""`qdialect export`: write a module in the format of an engine, to be run there."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.iree_runs import IN_INTEGERS, compile_module, widen_storage
from qdialect.dialects.quant.storage import StoredType
from qdialect.folding.inlining import inline_calls
from qdialect.integers.passes import LowerToIntegersPass
from qdialect.ir.errors import OpErrors
from qdialect.ir.value_types import element_type_or_self
from qdialect.opt.compilation import Compilation
from qdialect.opt.diagnostics import DiagnosticPrinter
from qdialect.opt.module_tool import ModuleArgumentParser, read_module
from qdialect.opt.outputs import STANDARD_OUTPUT, Output, overwrite_each_other
from qdialect.opt.tool_error import ToolError
from qdialect.ptq.passes.storage import ShiftStoragePass
from qdialect.support.extras import MissingLibraryError

TOOL: Final = "qdialect-export"
"""The name that the tool's own errors begin with."""

FAST_MATRICES: Final = "--iree-opt-data-tiling", "--iree-llvmcpu-enable-ukernels=all"
"""With these, IREE's products of integer matrices are faster than those of floats."""


def store_bytes_as(to: str, module: ModuleOp, context: Context) -> None:
    """
    Store values of 8 bits as `i8` or as `u8`, for which an engine has fast kernels.

    No value changes. Types of functions are kept, and then all others; so they are if an op reads
    stored integers.
    """
    for op in module.walk():
        if isinstance(op, FuncOp):
            ends = (*op.function_type.inputs, *op.function_type.outputs)
            if any(isinstance(element_type_or_self(type), StoredType) for type in ends):
                return
    with suppress(OpErrors):
        ShiftStoragePass(from_="i8" if to == "u8" else "u8", to=to).apply(context, module)


def compile_in_integers(side: Side, cpu: str) -> bytes:
    """
    The binary of a module for a CPU, whose layers compute in integers. Raises RunFailure.

    What integers do not compute gets IREE's casts. The module is changed.
    """
    # IREE has no fast kernel for unsigned integers, and none for those of 4 bits.
    store_bytes_as("i8", *side)
    widen_storage(*side)
    LowerToIntegersPass().apply(side.context, side.module)
    return compile_module(side, cpu=cpu, lowering=IN_INTEGERS, flags=FAST_MATRICES)[1]


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
