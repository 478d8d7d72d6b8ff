"""`qdialect import`: read a model of another system, and write it as a module."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from xdsl.dialects.builtin import ModuleOp

from qdialect.algebra.movement import DYNAMIC
from qdialect.frontends import from_onnx, from_tflite, from_torch
from qdialect.frontends.onnx_models import shapes_of_inputs
from qdialect.opt.module_tool import ModuleArgumentParser
from qdialect.opt.outputs import Output, overwrite_each_other
from qdialect.opt.registry import ToolContext
from qdialect.opt.tool_error import ToolError, reason_of
from qdialect.support.extras import MissingLibraryError
from qdialect.text import write_module

TOOL: Final = "qdialect-import"
"""The name that the tool's own errors begin with."""


def _of_onnx(options: Namespace, context: ToolContext) -> ModuleOp:
    shapes, values = dict(options.shape), dict(options.value)
    if options.data is not None:
        # They need numpy, which a start of the tool does not wait for.
        from qdialect.ptq.calibration.record_files import RecordError, shapes_of_records

        inputs = {
            name: shapes.get(name, shape)
            for name, shape in shapes_of_inputs(options.model).items()
            if name not in values
        }
        try:
            recorded = shapes_of_records(options.data, inputs)
        except RecordError as error:
            raise ToolError(str(error)) from None
        for name, shape in recorded.items():
            if shape != inputs[name]:
                shapes[name] = shape
                lengths = ",".join("?" if length == DYNAMIC else str(length) for length in shape)
                sys.stderr.write(f"{TOOL}: as in the records: --shape={name}={lengths}\n")
    return from_onnx(options.model, shapes=shapes, values=values, context=context)


def _of_tflite(options: Namespace, context: ToolContext) -> ModuleOp:
    return from_tflite(options.model, shapes=dict(options.shape), context=context)


def _of_torch(options: Namespace, context: ToolContext) -> ModuleOp:
    return from_torch(options.model, context=context)


_READERS: Final[Mapping[str, Callable[[Namespace, ToolContext], ModuleOp]]] = MappingProxyType(
    {".onnx": _of_onnx, ".tflite": _of_tflite, ".pt2": _of_torch}
)
"""What reads a file, by the end of its name."""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 after an error, which is on standard error.
    """
    parser = ModuleArgumentParser(
        TOOL,
        description="Read a model of another system, and write it as a module with its weights.",
    )
    parser.add_argument("model", help=f"a file that ends in {', '.join(_READERS)}")
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="the module")
    parser.add_inputs()
    parser.add_data(", whose lengths inputs have where a file of ONNX leaves them open")
    return parser.run(_run, argv, reads_modules=False)


def _run(options: Namespace) -> bool:
    path: str = options.model
    ending = os.path.splitext(path)[1]
    of_onnx = "ONNX files", (".onnx",)
    of_shapes = "ONNX files and TFLite files", (".onnx", ".tflite")
    for name, (files, endings) in {"shape": of_shapes, "value": of_onnx, "data": of_onnx}.items():
        if getattr(options, name) and ending not in endings:
            raise ToolError(f"--{name} is for {files}: other formats have all lengths")
    if ending not in _READERS:
        raise ToolError(f"'{path}' must end in {', '.join(_READERS)}")
    if not os.path.isfile(path):
        raise ToolError(f"cannot open '{path}': there is no such file")
    if overwrite_each_other(options.output, path):
        raise ToolError(f"the module would be written over the model in '{path}'")
    context = ToolContext(allow_unregistered=True)
    try:
        module = _READERS[ending](options, context)
    except ToolError:
        raise
    except MissingLibraryError as error:
        raise ToolError(str(error)) from None
    except OSError as error:
        raise ToolError(f"cannot open '{path}': {reason_of(error)}") from None
    except Exception as error:
        # Each library has errors of its own.
        raise ToolError(f"cannot import '{path}': {error}") from None
    with Output(options.output) as output:
        write_module(context, module, output.stream)
        output.is_good = True
    return True
