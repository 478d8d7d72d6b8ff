"""
Import of models of other systems, each by a library that knows its format.

Each function needs an extra of this package, which installs the library. The library is imported
when the function is called. See docs/pipelines.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_char
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from qdialect.frontends.names import (
    insert_weights,
    name_arguments,
    name_resources,
    name_values,
)
from qdialect.frontends.onnx_models import Weights, read_onnx, with_weights
from qdialect.frontends.tflite_lengths import with_lengths
from qdialect.frontends.torch_recurrences import RecurrentLayers
from qdialect.ir.names import identifier_of, rename_as_identifiers
from qdialect.ir.resources import ResourceBlobs, take_in_resources
from qdialect.opt.registry import ToolContext
from qdialect.support.extras import library
from qdialect.support.lazy_numpy import np
from qdialect.text import parse_module

__all__ = ["OnnxForm", "TorchForm", "from_jax", "from_onnx", "from_tflite", "from_torch"]


def from_jax(
    function: Callable[..., object], *arguments: object, context: Context | None = None
) -> ModuleOp:
    """
    Import a function as StableHLO: the public function `main` of the module, as JAX lowers it.

    `arguments` give the shapes and dtypes to trace it with: `jax.ShapeDtypeStruct`s, numpy arrays,
    or pytrees of these. `main` has one tensor argument for each leaf, in the order of the leaves,
    including unused ones. It is named by the path to the leaf, such as `params_layers_0_w`.
    A function made by `jax.jit` is lowered with its own options. Arrays that
    the function closes over are constants.

    https://docs.jax.dev/en/latest/aot.html

    Resources are kept in `context` if it is given; otherwise, the module has none. Raises
    MissingLibraryError without the extra `jax`, JAX's own errors for a function that it cannot
    trace, and ParseError for text that cannot be read.
    """
    jax: Any = library("jax", "jax")
    jitted: Any = function if hasattr(function, "lower") else jax.jit(function, keep_unused=True)
    lowered = jitted.lower(*arguments)
    text = _text_of(lowered.compiler_ir("stablehlo").operation)
    return read_printed(text, "<jax>", context, lambda module, _: name_arguments(module))


TorchForm: TypeAlias = Literal["linalg-on-tensors", "stablehlo", "tosa", "torch"]
"""The dialects that a program can be imported to."""


def from_torch(
    program: object, form: TorchForm = "linalg-on-tensors", *, context: Context | None = None
) -> ModuleOp:
    """
    Import a program in the dialects of `form`: the function `main` of the module.

    `program` is a `torch.export.ExportedProgram`, or the path of a file of one. Its parameters and
    buffers are constants, named like them, such as `layers.0.weight`. `main` has one tensor
    argument for each input, with its name, shape and dtype; with `form="torch"`, these are
    `!torch.vtensor`s.

    https://github.com/llvm/torch-mlir/blob/main/python/torch_mlir/fx.py

    torch-mlir makes resources of all parameters. They are kept in `context` if it is given;
    otherwise, the module has none. Raises OSError for the file, TypeError for another object,
    ValueError for an unknown form, MissingLibraryError without the extra `torch`, errors of
    torch-mlir for a program that it cannot lower, and ParseError for text that cannot be read.
    """
    _check_form(form, get_args(TorchForm))
    fx: Any = library("torch_mlir.fx", "torch")
    passes: Any = library("torch_mlir.passmanager", "torch")
    export: Any = library("torch.export", "torch")
    given: Any = program
    if isinstance(given, str | os.PathLike):
        given = export.load(os.fspath(cast("os.PathLike[str]", given)))
    if not isinstance(given, export.ExportedProgram):
        raise TypeError(
            "program must be a result of torch.export.export, not an object of type "
            f"'{type(program).__name__}'"
        )
    table, importer, hooks = _decompositions(given, form), None, _literals_from_memory(given)
    # The other forms have no loops.
    layers = RecurrentLayers.of(given) if form == "linalg-on-tensors" else None
    if layers is not None:
        table |= layers.decompositions(table)
        importer = layers.importer(hooks)
    with warnings.catch_warnings():
        # PyTorch copies programs by what it warns of itself.
        warnings.simplefilter("ignore", FutureWarning)
        decomposed = given.run_decompositions(table)
        # torch-mlir looks for all buffers in the state, which lacks those that are not saved.
        decomposed.state_dict.update(decomposed.constants)
        _read_through_ops_in_lists(decomposed)
        module = fx.export_and_import(
            decomposed, output_type=form, hooks=hooks, fx_importer=importer, decomposition_table={}
        )
    with module.context:
        passes.PassManager.parse(f"builtin.module({_OUT_OF_LOOPS})").run(module.operation)

    def name_all(imported: ModuleOp, _: ResourceBlobs | None) -> None:
        name_arguments(imported, list(given.graph_signature.user_inputs))
        name_resources(imported, {*given.constants, *given.state_dict})

    return read_printed(_text_of(module.operation), "<torch>", context, name_all)


def _decompositions(program: Any, form: TorchForm) -> dict[Any, Any]:
    """
    Decompositions of torch-mlir, and of the ops that other libraries have registered by now.

    In linalg, torch-mlir computes gelu by a hyperbolic tangent with a factor of four digits; this
    is PyTorch's. torch-mlir makes its table once: ops of a library that is imported later are not
    in it. Those are only listed for a program that has such ops, as that is a fifth of a small
    import.
    """
    of_torch_mlir: Any = library("torch_mlir.extras.fx_decomp_util", "torch")
    graphs = [part.graph for part in program.graph_module.modules() if hasattr(part, "graph")]
    targets = (node.target for graph in graphs for node in graph.nodes)
    table = dict(of_torch_mlir.get_decomposition_table())
    torch: Any = library("torch", "torch")
    pad = torch.ops.aten.constant_pad_nd.default

    def of_a_part(x: Any, pads: Sequence[int], value: float = 0) -> Any:
        # LLVM drops a pad that keeps the shape, although one side of it is negative.
        if min(pads, default=0) >= 0:
            return NotImplemented
        for axis, (low, high) in enumerate(zip(pads[::2], pads[1::2], strict=True), 1):
            start, length = max(0, -low), x.shape[-axis] + min(0, low) + min(0, high)
            x = x if length == x.shape[-axis] else x.narrow(-axis, start, length)
        return pad(x, [max(0, length) for length in pads], value)

    def in_two_parts(x: Any, shifts: Sequence[int], axes: Sequence[int] = ()) -> Any:
        # The parts that torch-mlir writes have open lengths.
        if not all(isinstance(length, int) for length in x.shape):
            return NotImplemented
        if not axes:
            return in_two_parts(x.reshape(-1), shifts, [0]).reshape(x.shape)
        for axis, shift in zip(axes, shifts, strict=True):
            if start := -shift % max(1, x.shape[axis]):
                x = torch.cat(x.tensor_split([start], axis)[::-1], axis)
        return x

    table |= {pad: of_a_part, torch.ops.aten.roll.default: in_two_parts}
    if form == "linalg-on-tensors":
        gelu = torch.ops.aten.gelu.default
        decompositions: Any = import_module("._decomp", torch.__name__).get_decompositions
        (function,) = decompositions([gelu]).values()

        def by_tangent(x: Any, *, approximate: str = "none") -> Any:
            return function(x, approximate) if approximate == "tanh" else NotImplemented

        table[gelu] = by_tangent
    if all(getattr(target, "namespace", "aten") == "aten" for target in targets):
        return table
    of_torch: Any = library("torch.export", "torch").default_decompositions()
    others = {op: function for op, function in of_torch.items() if op.namespace != "aten"}
    return {**others, **table}


def _read_through_ops_in_lists(program: Any) -> None:
    """Add an op between a weight and a list of operands: torch-mlir reads no weights in lists."""
    torch: Any = library("torch", "torch")
    graph, given = program.graph, {*program.graph_signature.user_inputs}
    for weight in graph.find_nodes(op="placeholder"):
        users = [user for user in weight.users if any(map(_lists(weight), user.args))]
        if users and weight.name not in given:
            with graph.inserting_before(min(users)):
                read = graph.call_function(torch.ops.aten.alias.default, (weight,))
            read.meta = {**weight.meta}
            for user in users:
                user.replace_input_with(weight, read)


def _lists(node: object) -> Callable[[object], bool]:
    return lambda argument: isinstance(argument, list) and node in argument


def _literals_from_memory(program: Any) -> object:
    """
    Hooks of the importer that pass it the memory of tensors, and their names.

    Without them, it converts each element to a Python number: 7 s and 1.3 GiB for 64 MiB of i8.
    """
    torch: Any = library("torch", "torch")
    importer: Any = library("torch_mlir.extras.fx_importer", "torch")
    ir: Any = library("torch_mlir.ir", "torch")
    attributes: dict[tuple[object, ...], Any] = {}
    tensors = {**program.constants, **program.state_dict}.items()
    names = {tensor.data_ptr(): name for name, tensor in tensors if hasattr(tensor, "data_ptr")}

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
            anonymous = "_".join(("torch_tensor", *map(str, literal.shape), str(literal.dtype)))
            name = identifier_of(names.get(key[0], anonymous))
            # The resource keeps the buffer alive, and the buffer keeps the tensor.
            memory.tensor = literal
            attributes[key] = ir.DenseResourceElementsAttr.get_from_buffer(
                np.frombuffer(memory, dtype=np.uint8), name, tensor_type
            )
        shape = ",".join(map(str, literal.shape))
        vtensor = ir.Type.parse(f"!torch.vtensor<[{shape}],{tensor_type.element_type}>")
        return ir.Operation.create(
            "torch.vtensor.literal",
            results=[vtensor],
            attributes={"value": attributes[key]},
        ).result

    return type("_Hooks", (importer.FxImporterHooks,), {"resolve_literal": resolve_literal})()


OnnxForm: TypeAlias = Literal["linalg-on-tensors", "onnx"]
"""The dialects that a model can be imported to."""

_OUT_OF_LOOPS: Final = "loop-invariant-code-motion"
"""What is the same in each run of a loop, such as a transposed weight, is computed before it."""

_TO_LINALG: Final = (
    "builtin.module(torch-onnx-to-torch-backend-pipeline,"
    f"torch-backend-to-linalg-on-tensors-backend-pipeline,{_OUT_OF_LOOPS})"
)


def from_onnx(
    path: str | os.PathLike[str],
    form: OnnxForm = "linalg-on-tensors",
    *,
    opset: int | None = 17,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, float] | None = None,
    context: Context | None = None,
) -> ModuleOp:
    """
    Import a model in the dialects of `form`: one function, named like its graph.

    Characters of the name that an identifier of C cannot have become underscores. The function has
    one tensor argument, of the same shape and element type, for each input of the graph that is not
    an initializer. Its ops are of `linalg`, `tensor`, `arith` and `math`. With `form="onnx"`, they
    are `torch.operator`s with the names of ONNX ops, on `!torch.vtensor`s. Initializers are
    constants, including those in files beside the model.

    Models of an opset before `opset` are converted to it, unless that is None. `shapes` has lengths
    for the axes of inputs, by their names, where the model leaves them open. `values` has numbers
    for inputs whose elements are always that, such as a rate: they are no arguments. An `If` whose
    condition is then known is the branch that it takes. Arguments, constants
    and results have the names of inputs, initializers and nodes, with underscores for characters
    that MLIR's names cannot have; locations have the names themselves.

    https://iree.dev/guides/ml-frameworks/onnx/

    Weights are resources of `context` if it is given; otherwise, they are elements in the module.
    Raises OSError for the file, ValueError for an unknown form, input or shape, MissingLibraryError
    without the extra `onnx`, errors of `onnx` and IREE for a model that they cannot read or lower,
    and ParseError for text that cannot be read.
    """
    _check_form(form, get_args(OnnxForm))
    library("onnx", "onnx")
    importer: Any = library("iree.compiler.extras.onnx_importer", "onnx")
    ir: Any = library("iree.compiler.ir", "onnx")
    passes: Any = library("iree.compiler.passmanager", "onnx")
    name = os.fspath(path)
    is_lowered = form == "linalg-on-tensors"
    model = read_onnx(name, opset, shapes or {}, values or {}, is_lowered=is_lowered)

    def imported(proto: Any) -> bytes:
        info = importer.ModelInfo(proto)
        with ir.Context() as mlir:
            operation = info.create_module(context=mlir).operation
            importer.NodeImporter.define_function(info.main_graph, operation).import_all()
            if is_lowered:
                passes.PassManager.parse(_TO_LINALG).run(operation)
            return _text_of(operation)

    weights: Weights = model.weights if is_lowered else {}
    try:
        text = imported(model.proto if weights else with_weights(model))
    except ir.MLIRError:
        if not weights:
            raise
        # An op is only lowered with weights that are constant.
        text, weights = imported(with_weights(model)), {}

    def with_constants(module: ModuleOp, kept: ResourceBlobs | None) -> None:
        name_arguments(module)
        name_values(module)
        insert_weights(module, weights, kept)

    return read_printed(text, name, context, with_constants)


def from_tflite(
    path: str | os.PathLike[str],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    context: Context | None = None,
) -> ModuleOp:
    """
    Import a model as TOSA: one function for each of its subgraphs, `main` for the first.

    The functions have one tensor for each input and each output, with its shape. Quantized tensors
    are plain integers: their scales are in `tosa.rescale`. `shapes` has the shapes in the file, by
    the names of inputs, for all inputs whose lengths it leaves open.

    https://pypi.org/project/tosa-converter-for-tflite/

    Resources are kept in `context` if it is given; otherwise, the module has none. Raises OSError
    for the file, MissingLibraryError without the extra `tflite`, ValueError for other shapes and
    for a model that the converter cannot convert, and ParseError for text that cannot be read.
    """
    library("tosa_converter_for_tflite", "tflite")
    name = os.fspath(path)
    # The converter reports no reason for a file that it cannot open.
    with open(name, "rb") as file, TemporaryDirectory() as folder:
        given = name
        if shapes:
            given = os.path.join(folder, "model.tflite")
            with open(given, "wb") as copy:
                copy.write(with_lengths(file.read(), shapes))
        # It runs in a process of its own, which some models crash.
        command = [sys.executable, "-c", _CONVERT, given]
        done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        crash = f"the converter crashed, with signal {-done.returncode}"
        raise ValueError(crash if done.returncode < 0 or not lines else lines[-1])
    return read_printed(done.stdout, name, context)


_CONVERT: Final = """
import sys
import tosa_converter_for_tflite as converter

text = converter.TosaConverterOutputFormat.Text
converter.tflite_flatbuffer_to_tosa_mlir(sys.argv[1], sys.stdout.buffer, output_format=text)
"""


def _check_form(form: str, forms: Sequence[str]) -> None:
    if form not in forms:
        raise ValueError(f"there is no form {form!r}; the forms are {', '.join(forms)}")


def _text_of(operation: Any) -> bytes:
    """
    The generic form of a module of MLIR's Python bindings, with locations.

    Elements of constants are printed as hexadecimal digits, which are decoded once.
    """
    return operation.get_asm(
        binary=True, print_generic_op_form=True, assume_verified=True, enable_debug_info=True
    )


def read_printed(
    text: bytes,
    name: str,
    context: Context | None,
    edit: Callable[[ModuleOp, ResourceBlobs | None], None] | None = None,
) -> ModuleOp:
    """
    Read a module from text; `name` is its file name in errors. Its symbols become identifiers.

    `edit` changes it while it has resources. They are kept in `context`, whose resources `edit` is
    given. Without a context, they become elements in the module. Raises ParseError, and ValueError
    for a resource that cannot.
    """
    used = ToolContext(allow_unregistered=True) if context is None else context
    module = parse_module(used, text, name)
    rename_as_identifiers(module)
    if edit is not None:
        edit(module, None if context is None else ResourceBlobs.of(used))
    if context is None:
        take_in_resources(module, ResourceBlobs.of(used))
    return module
