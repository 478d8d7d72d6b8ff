"""Programs of torch.export, imported by torch-mlir."""

from __future__ import annotations

from ctypes import c_char
from typing import Any, Literal, TypeAlias, get_args

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from qdialect.frontends.printed_modules import read_operation
from qdialect.support.extras import library
from qdialect.support.lazy_numpy import np

TorchForm: TypeAlias = Literal["linalg-on-tensors", "stablehlo", "tosa", "torch"]
"""The dialects that a program can be imported to."""


def from_torch(
    program: object, form: TorchForm = "linalg-on-tensors", *, context: Context | None = None
) -> ModuleOp:
    """
    Import a program in the dialects of `form`: the function `main` of the module.

    `program` is a `torch.export.ExportedProgram`. Its parameters and buffers are constants. `main`
    has one tensor argument for each input, with its shape and dtype; with `form="torch"`, these are
    `!torch.vtensor`s.

    https://github.com/llvm/torch-mlir/blob/main/python/torch_mlir/fx.py

    torch-mlir makes resources of all parameters. They are kept in `context` if it is given;
    otherwise, the module has none. Raises TypeError for another object, ValueError for an unknown
    form, MissingLibraryError without the extra `torch`, errors of torch-mlir for a program that it
    cannot lower, and ParseError for text that cannot be read.
    """
    if form not in get_args(TorchForm):
        raise ValueError(
            f"there is no form {form!r}; the forms are {', '.join(get_args(TorchForm))}"
        )
    fx: Any = library("torch_mlir.fx", "torch")
    exported: Any = library("torch.export", "torch").ExportedProgram
    if not isinstance(program, exported):
        raise TypeError(
            "program must be a result of torch.export.export, not an object of type "
            f"'{type(program).__name__}'"
        )
    module = fx.export_and_import(
        program,
        output_type=form,
        hooks=_literals_from_memory(),
        decomposition_table=_decompositions(),
    )
    return read_operation(module.operation, "<torch>", context)


def _decompositions() -> dict[Any, Any]:
    """
    Decompositions of torch-mlir, and of the ops that other libraries have registered by now.

    torch-mlir makes its table once: ops of a library that is imported later are not in it.
    """
    of_torch_mlir: Any = library("torch_mlir.extras.fx_decomp_util", "torch")
    of_torch: Any = library("torch.export", "torch").default_decompositions()
    others = {op: function for op, function in of_torch.items() if op.namespace != "aten"}
    return {**others, **of_torch_mlir.get_decomposition_table()}


def _literals_from_memory() -> object:
    """
    Hooks of the importer that pass it the memory of tensors.

    Without them, it converts each element to a Python number: 7 s and 1.3 GiB for 64 MiB of i8.
    """
    torch: Any = library("torch", "torch")
    importer: Any = library("torch_mlir.extras.fx_importer", "torch")
    ir: Any = library("torch_mlir.ir", "torch")
    attributes: dict[tuple[object, ...], Any] = {}

    def resolve_literal(self: object, node: object, literal: Any, info: object) -> Any:
        if (
            type(literal) not in (torch.Tensor, torch.nn.Parameter)
            # The importer itself handles single elements as splats.
            or literal.numel() <= 1
            or literal.device.type != "cpu"
            or not literal.is_contiguous()
            or literal.dtype not in importer.TORCH_DTYPE_TO_NPY_TYPE
        ):
            return None
        key = (literal.data_ptr(), literal.dtype, *literal.shape)
        tensor_type = importer.create_mlir_tensor_type(literal)
        if key not in attributes:
            memory = (c_char * literal.nbytes).from_address(literal.data_ptr())
            name = "_".join(("torch_tensor", *map(str, literal.shape), str(literal.dtype)))
            # The resource keeps the buffer alive, and the buffer keeps the tensor.
            memory.tensor = literal
            attributes[key] = ir.DenseResourceElementsAttr.get_from_buffer(
                np.frombuffer(memory, dtype=np.uint8), name, tensor_type
            )
        shape = ",".join(map(str, literal.shape))
        vtensor = ir.Type.parse(f"!torch.vtensor<[{shape}],{tensor_type.element_type}>")
        return ir.Operation.create(
            "torch.vtensor.literal", results=[vtensor], attributes={"value": attributes[key]}
        ).result

    return type("_Hooks", (importer.FxImporterHooks,), {"resolve_literal": resolve_literal})()
