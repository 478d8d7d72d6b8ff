"""TFLite models, legalized to TOSA by Arm's converter."""

from __future__ import annotations

import os
from io import BytesIO
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from qdialect.frontends.printed_modules import read_printed
from qdialect.support.extras import library


def from_tflite(path: str | os.PathLike[str], *, context: Context | None = None) -> ModuleOp:
    """
    Import a model as TOSA: one function for each of its subgraphs, `main` for the first.

    The functions have one tensor for each input and each output, with its shape. Quantized tensors
    are plain integers: their scales are in `tosa.rescale`.

    https://pypi.org/project/tosa-converter-for-tflite/

    Resources are kept in `context` if it is given; otherwise, the module has none. Raises OSError
    for the file, MissingLibraryError without the extra `tflite`, errors of the converter for a
    model that it cannot convert, and ParseError for text that cannot be read.
    """
    converter: Any = library("tosa_converter_for_tflite", "tflite")
    name = os.fspath(path)
    # The converter reports no reason for a file that it cannot open.
    with open(name, "rb"):
        pass
    printed = BytesIO()
    converter.tflite_flatbuffer_to_tosa_mlir(
        name, printed, output_format=converter.TosaConverterOutputFormat.Text
    )
    return read_printed(printed.getvalue(), name, context)
