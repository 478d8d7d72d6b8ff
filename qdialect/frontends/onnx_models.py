"""ONNX models, imported and lowered by IREE's compiler."""

from __future__ import annotations

import os
from typing import Any, Literal, TypeAlias, get_args

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from qdialect.frontends.printed_modules import read_operation
from qdialect.support.extras import library

OnnxForm: TypeAlias = Literal["linalg-on-tensors", "onnx"]
"""The dialects that a model can be imported to."""

_TO_LINALG = (
    "builtin.module(torch-onnx-to-torch-backend-pipeline,"
    "torch-backend-to-linalg-on-tensors-backend-pipeline)"
)


def from_onnx(
    path: str | os.PathLike[str],
    form: OnnxForm = "linalg-on-tensors",
    *,
    context: Context | None = None,
) -> ModuleOp:
    """
    Import a model in the dialects of `form`: one function, named like its graph.

    Characters of the name that an identifier of C cannot have become underscores. The function has
    one tensor argument, of the same shape and element type, for each input of the graph that is not
    an initializer. Its ops are of `linalg`, `tensor`, `arith` and `math`. With `form="onnx"`, they
    are `torch.operator`s with the names of ONNX ops, on `!torch.vtensor`s. Initializers are
    constants, including those in files beside the model.

    https://iree.dev/guides/ml-frameworks/onnx/

    Resources are kept in `context` if it is given; otherwise, the module has none. Raises OSError
    for the file, ValueError for an unknown form, MissingLibraryError without the extra `onnx`,
    errors of `onnx` and IREE for a model that they cannot read or lower, and ParseError for text
    that cannot be read.
    """
    if form not in get_args(OnnxForm):
        raise ValueError(
            f"there is no form {form!r}; the forms are {', '.join(get_args(OnnxForm))}"
        )
    onnx: Any = library("onnx", "onnx")
    importer: Any = library("iree.compiler.extras.onnx_importer", "onnx")
    ir: Any = library("iree.compiler.ir", "onnx")
    passes: Any = library("iree.compiler.passmanager", "onnx")
    # The importer needs the shapes and types of all values.
    model = onnx.shape_inference.infer_shapes(onnx.load(os.fspath(path)), data_prop=True)
    info = importer.ModelInfo(model)
    with ir.Context() as mlir:
        operation = info.create_module(context=mlir).operation
        importer.NodeImporter.define_function(info.main_graph, operation).import_all()
        if form == "linalg-on-tensors":
            passes.PassManager.parse(_TO_LINALG).run(operation)
        return read_operation(operation, os.fspath(path), context)
