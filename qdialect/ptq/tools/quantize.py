"""`qdialect quantize`: from a file of a model and records to a quantized model, in one command."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from qdialect.opt.module_tool import ModuleArgumentParser
from qdialect.opt.outputs import Output, check_writable, overwrite_each_other, standard_output
from qdialect.opt.tool_error import ToolError
from qdialect.ptq.quantizing import QuantizationError, Quantized
from qdialect.ptq.schemes.presets import SCHEME_NAMES
from qdialect.ptq.schemes.ranges import ReductionKind
from qdialect.ptq.tools import add_reduction
from qdialect.support.extras import MissingLibraryError, library
from qdialect.support.terminal import write_tables

TOOL: Final = "qdialect-quantize"
"""The name that the tool's own errors begin with."""

_LIBRARIES: Final = {"onnx": ("onnx", "onnx"), "vmfb": ("iree.compiler", "iree")}
"""For `--to`, the library that writes it, and the extra that installs that."""

_SCHEMES: Final[Mapping[str, Mapping[str, str]]] = {
    # ONNX Runtime is fast with symmetric weights.
    "onnx": {
        "scheme": "one-u8",
        "weight_scheme": "onnxruntime-symmetric",
        "ops": "sums-of-products",
    }
}
"""The options of quantization for a form of the result, unless there is a scheme."""

_EPILOG: Final = """\
steps:
  Each is a subcommand of qdialect. Their files are in the folder, with the commands in steps.sh, so
  that each can be run again, with other options too.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 after an error, which is on standard error.
    """
    parser = ModuleArgumentParser(
        TOOL,
        description="Import a model, calibrate it on records, quantize it, and evaluate it.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="an .onnx, .tflite, .pt2 or .mlir file")
    parser.add_data()
    parser.add_argument("-o", dest="output", required=True, metavar="FILE", help="the result")
    parser.add_argument(
        "--to",
        choices=("mlir", "vmfb", "onnx"),
        default="mlir",
        help="write a module, or what runs layers in integers: a file of IREE, compiled for this "
        "machine, or of ONNX (mlir)",
    )
    parser.add_argument(
        "--scheme",
        choices=SCHEME_NAMES,
        metavar="NAME",
        help="how parameters are chosen (one-u8 with narrow-fixed; with --to=onnx, symmetric "
        "weights, and only layers, which is what ONNX Runtime is fast with)",
    )
    parser.add_argument(
        "--granularity",
        choices=("layer", "channel", "block"),
        default="channel",
        help="the elements of weights that share a scale (channel)",
    )
    parser.add_argument(
        "--weight-storage",
        metavar="TYPE",
        help="the storage type of weights, such as i8 (that of the scheme; with --to=onnx i8, and "
        "i7 if this CPU has no VNNI: there, ONNX Runtime saturates products of 8 bits)",
    )
    parser.add_argument(
        "--at-least",
        type=_number,
        metavar="DB",
        help="raise the layers that lose most to 16 bits, and then to floats, until each result "
        "has this signal to noise; with --accuracy, until that command prints this number",
    )
    parser.add_argument(
        "--accuracy",
        metavar="COMMAND",
        help="what prints how good a quantized module is, whose file is its last argument",
    )
    add_reduction(parser.add_argument)
    parser.add_engine()
    parser.add_argument(
        "--labels", metavar="NAME", help="the array of the records with the right answers"
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the signal to noise of each value, measured and expected, and whether integers "
        "compute it, as a page (.html) or a plot (.png, .svg, .pdf)",
    )
    parser.add_inputs()
    parser.add_argument(
        "--folder", metavar="PATH", help="the files of all steps (the output, with .steps)"
    )
    return parser.run(_run, argv, reads_modules=False, max_memory=None)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ToolError(f"--at-least must be a number, but is '{text}'") from None


def _run(options: Namespace) -> bool:
    if options.accuracy is not None and options.at_least is None:
        raise ToolError("--accuracy needs --at-least=NUMBER")
    for path in (options.model, options.data):
        if not os.path.exists(path):
            raise ToolError(f"cannot open '{path}': there is no such file")
        if overwrite_each_other(options.output, path):
            raise ToolError(f"the result would be written over '{path}'")
    check_writable(options.output)
    if options.plot is not None:
        # It needs numpy, which the steps alone use.
        from qdialect.ptq.tools.evaluation import plot_module

        plot_module(options.plot)
    try:
        # Before the work of the other steps.
        if options.to in _LIBRARIES:
            library(*_LIBRARIES[options.to])
    except MissingLibraryError as error:
        raise ToolError(f"--to={options.to}: {error}") from None
    folder = Path(options.folder or f"{options.output}.steps")
    running = [f"--engine={options.engine}"]
    if options.max_memory is not None:
        running.append(f"--max-memory={options.max_memory}")
    try:
        quantized = Quantized(options.model, options.data, folder=folder, report=_tell)
        quantized.import_model(dict(options.shape), dict(options.value)).put_in_order()
        whole = options.reduction == ReductionKind.WHOLE
        quantized.calibrate(*running, *([] if whole else [f"--reduction={options.reduction}"]))
        chosen = {"scheme": options.scheme} if options.scheme else _SCHEMES.get(options.to, {})
        storage = options.weight_storage
        if storage is None and "weight_scheme" in chosen:
            # It reads more modules than the other ways need.
            from qdialect.integers.compiling import has_vnni

            storage = "i8" if has_vnni() else "i7"
        if storage is not None:
            chosen = {**chosen, "weight_storage": storage}
        quantized.quantize(granularity=options.granularity, **chosen)
        running += [] if options.labels is None else ["--labels", options.labels]
        if options.plot is not None:
            running += ["--plot", os.path.abspath(options.plot), "--report=report.json"]
        quantized.evaluate(*running, values=options.at_least is not None)
        if options.at_least is not None:
            quantized.reach(options.at_least, *running, accuracy=options.accuracy)
        result = folder / "quantized.mlir"
        if options.to != "mlir":
            result = quantized.export(options.to)
    except QuantizationError as error:
        raise ToolError(str(error)) from None
    except OSError as error:
        raise ToolError(f"cannot write to '{folder}': {error.strerror}") from None
    # A large model of ONNX names this file.
    beside = result.with_name(f"{result.name}.data")
    copies = {result: options.output}
    if options.to == "onnx" and beside.exists():
        copies[beside] = str(Path(options.output).with_name(beside.name))
    for source, target in copies.items():
        with Output(target) as output, open(source, "rb") as file:
            shutil.copyfileobj(file, output.stream.buffer)
            output.is_good = True
    with standard_output() as stream:
        write_tables(stream, quantized.tables())
    return True


def _tell(command: str) -> None:
    sys.stderr.write(f"{TOOL}: {command}\n")
