"""`qdialect export`: write a module in the format of an engine, to be run there."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.iree_runs import IN_INTEGERS, compile_module
from qdialect.dialects.quant.storage import StoredType
from qdialect.ir.errors import OpErrors
from qdialect.ir.value_types import element_type_or_self
from qdialect.opt.diagnostics import DiagnosticPrinter
from qdialect.opt.module_tool import ModuleArgumentParser, read_module
from qdialect.opt.outputs import STANDARD_OUTPUT, Output, overwrite_each_other
from qdialect.opt.tool_error import ToolError
from qdialect.ptq.passes.storage import ShiftStoragePass

TOOL: Final = "qdialect-export"
"""The name that the tool's own errors begin with."""

ENDING: Final = ".vmfb"
"""The end of the name of a file that IREE runs."""

FAST_MATRICES: Final = "--iree-opt-data-tiling", "--iree-llvmcpu-enable-ukernels=all"
"""With these, IREE's products of integer matrices are faster than those of floats."""


def make_signed(module: ModuleOp, context: Context) -> None:
    """
    Store values of `u8` as `i8`, for which IREE has fast kernels. No value changes.

    Types of functions are kept, and then all others; so they are if an op reads stored integers.
    """
    for op in module.walk():
        if isinstance(op, FuncOp):
            ends = (*op.function_type.inputs, *op.function_type.outputs)
            if any(isinstance(element_type_or_self(type), StoredType) for type in ends):
                return
    with suppress(OpErrors):
        ShiftStoragePass(from_="u8", to="i8").apply(context, module)


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 after an error, which is on standard error.
    """
    parser = ModuleArgumentParser(
        TOOL,
        description="Compile a module for IREE: layers of quantized operands run in integers.",
    )
    parser.add_argument("module", help="the module; - for standard input")
    parser.add_argument(
        "-o",
        dest="output",
        required=True,
        metavar="FILE",
        help=f"the result, whose name ends in {ENDING}",
    )
    parser.add_argument(
        "--cpu",
        default="host",
        metavar="NAME",
        help="the CPU to compile for, as LLVM names it: host, generic, znver4, ... (host)",
    )
    return parser.run(_run, argv)


def _run(options: Namespace) -> bool:
    if os.path.splitext(options.output)[1] != ENDING:
        raise ToolError(f"'{options.output}' must end in {ENDING}")
    path: str = options.module
    if path not in STANDARD_OUTPUT and overwrite_each_other(options.output, path):
        raise ToolError(f"the result would be written over '{path}'")
    printer = DiagnosticPrinter(sys.stderr)
    compilation = read_module(path, printer, options)
    if compilation is None:
        return False
    # Errors of the output are reported before the work.
    with Output(options.output) as output:
        side = Side(compilation.module, compilation.context)
        make_signed(*side)
        try:
            _, binary = compile_module(
                side, cpu=options.cpu, lowering=IN_INTEGERS, flags=FAST_MATRICES
            )
        except RunFailure as failure:
            printer.error(failure.reason, compilation.source.name)
            return False
        output.stream.buffer.write(binary)
        output.is_good = True
    return True
