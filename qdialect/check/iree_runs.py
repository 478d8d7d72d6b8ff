"""Compiling modules with IREE, and running their functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache, partial
from io import StringIO
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    DenseResourceAttr,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    f32,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import Rewriter

from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.interpreters import TypedArray
from qdialect.dialects.arrays.values import dtype_of, held_type
from qdialect.dialects.quant.casts import StorageCastOp
from qdialect.dialects.quant.constants import ConstantOp, QuantizedTensor
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.elements import AnyDenseElement, integer_range
from qdialect.ir.errors import OpErrors, describe
from qdialect.ir.names import visibility_of
from qdialect.ir.resources import ResourceBlobs, take_in_resources
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of, with_element_type
from qdialect.lowering.dequantization import Form
from qdialect.lowering.lowered_casts import store_as_integers
from qdialect.ops.along_axis import drop_ranges
from qdialect.ops.unused_ops import erase_with_unused
from qdialect.opt.child_processes import run_child
from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
from qdialect.passes.strip_func_quant_types import StripFuncQuantTypesPass
from qdialect.support.extras import library
from qdialect.support.float_format import Rounding
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import registered_cache
from qdialect.text import write_module

_FLAGS: Final = (
    "--iree-hal-target-backends=llvm-cpu",
    "--iree-input-demote-f64-to-f32=false",
    # An error is one line, not the op.
    "--mlir-print-op-on-diagnostic=false",
)

FLOATS: Final[dict[type[Attribute], str]] = {
    Float16Type: "float16",
    Float32Type: "float32",
    Float64Type: "float64",
    BFloat16Type: "bfloat16",
    Float8E4M3FNType: "float8_e4m3fn",
    Float8E4M3FNUZType: "float8_e4m3fnuz",
    Float8E5M2Type: "float8_e5m2",
    Float8E5M2FNUZType: "float8_e5m2fnuz",
}
"""The dtypes of numpy and `ml_dtypes` for the float types that IREE accepts."""


AS_DEFINED: Final = LowerQuantOpsPass(rounding=Rounding.NEAREST_EVEN.value, keep_round_trips=True)
"""Casts as arithmetic, as they are defined, and as the interpreter runs them."""

IN_INTEGERS: Final = LowerQuantOpsPass(to=Form.LINALG_EXT.value)
"""Casts as ops that IREE moves into layers, which it computes in integers then."""


def compile_module(
    side: Side,
    *,
    cpu: str = "generic",
    lowering: LowerQuantOpsPass = AS_DEFINED,
    flags: Sequence[str] = (),
) -> tuple[ModuleOp, bytes]:
    """
    A module, lowered to dialects that IREE reads, and the binary that IREE compiles it to.

    It is for any CPU, as those of one may fuse products and sums; `host` is that of this machine.
    `flags` are more flags of iree-compile. Raises RunFailure if IREE does not compile it, and
    MissingLibraryError.
    """
    module = side.module.clone()
    compiler: Any = library("iree.compiler", "iree")

    def failure(reason: str) -> RunFailure:
        return RunFailure(reason, side.module)

    try:
        store_as_integers(module, Operation)
        widen_storage(module, side.context)
        drop_ranges(module)
        for step in (
            LowerQuantShapesPass(),
            lowering,
            StripFuncQuantTypesPass(),
        ):
            step.apply(side.context, module)
    except OpErrors as error:
        raise failure(f"it cannot be lowered for IREE: {error}") from None
    # IREE may refuse unused ops.
    erase_with_unused(
        [op for op in module.walk() if isinstance(op, StorageCastOp) and not any(op.result.uses)]
    )
    try:
        # IREE computes bf16 as f32, and does not convert resources.
        take_in_resources(module, ResourceBlobs.of(side.context), BFloat16Type)
    except ValueError as error:
        raise failure(str(error)) from None
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    if all(visibility_of(op) == "private" for op in functions):
        raise failure("there is no public function to run")
    text = StringIO()
    write_module(side.context, module, text, form="llvm24")
    find_tool = compiler.tools.binaries.find_tool
    try:
        # `compile_str` starts a process that nothing ends if a signal ends this one.
        command = [
            find_tool("iree-compile"),
            "-",
            f"--iree-llvmcpu-embedded-linker-path={find_tool('iree-lld')}",
            f"--iree-llvmcpu-target-cpu={cpu}",
            *_FLAGS,
            *flags,
        ]
        compiled = run_child(command, text.getvalue().encode())
    except (OSError, ValueError) as error:
        raise failure(f"IREE's compiler cannot be run: {error}") from None
    told = compiled.stderr.decode(errors="replace")
    if compiled.returncode:
        errors = (line.strip() for line in told.splitlines() if "error:" in line)
        reason = next(errors, f"iree-compile ended with status {compiled.returncode}")
        inputs = (type for op in functions for type in op.function_type.inputs)
        if not all(is_static(shape_of(type) or ()) for type in inputs):
            reason += "; lengths of its inputs are open: --shape of import or quantize sets them"
        raise failure(f"IREE does not compile the module: {reason}")
    sys.stderr.write(told)
    return module, compiled.stdout


class _Memory:
    """Memory that numpy reads as an array, and what it is freed with."""

    def __init__(self, interface: dict[str, Any], kept: Any) -> None:
        self.__array_interface__, self.kept = interface, kept


class ResultOfIREE(TypedArray):
    """A tensor of f32 in the memory of IREE, which may only be read."""

    def __init__(self, view: Any, type: Attribute, lengths: list[int], device: Any) -> None:
        # The dataclass is frozen.
        self.__dict__.update(view=view, type=type, lengths=lengths, device=device)

    def __getattr__(self, name: str) -> NDArray[Any]:
        """The elements, when they are first read."""
        if name != "elements":
            raise AttributeError(name)
        view, lengths, device = (self.__dict__[part] for part in ("view", "lengths", "device"))
        if 0 in lengths:
            elements = np.empty(lengths, np.uint32)
        else:
            mapped = view.map()
            array = mapped.asarray(lengths, np.dtype(np.uint32))
            # The runtime frees the memory with the view, whatever arrays there are of it.
            kept = mapped, view, device
            elements = np.asarray(_Memory(array.__array_interface__, kept))
        self.__dict__[name] = elements
        return elements


class LoadedModule:
    """A compiled module, loaded into this process."""

    def __init__(self, binary: bytes) -> None:
        """Raises MissingLibraryError."""
        runtime: Any = library("iree.runtime", "iree")
        context = runtime.SystemContext(config=runtime.Config("local-sync"))
        loaded = runtime.VmModule.copy_buffer(context.instance, binary)
        context.add_vm_module(loaded)
        # A lookup reads what the binary says of a function again.
        self._named = cache(context.modules[loaded.name].__getitem__)
        self._kept = partial(runtime.asdevicearray, context.config.device)
        self._runtime, self._context, self._loaded = runtime, context, loaded

    def kept(self, argument: TypedArray, function: FuncOp) -> Any:
        """An argument of several runs, copied once. Raises RunFailure."""
        given = self._given(argument, function)
        return self._kept(given) if isinstance(given, np.ndarray) else given

    def run(self, function: FuncOp, arguments: Sequence[Any]) -> tuple[TypedArray, ...]:
        """
        The results of a function, given TypedArrays, or what `kept` returned for them.

        Raises RunFailure.
        """
        types = function.function_type.outputs.data
        given = [
            self._given(argument, function) if isinstance(argument, TypedArray) else argument
            for argument in arguments
        ]
        try:
            returned: Any = self._named(function.sym_name.data)(*given)
        except Exception as error:
            # The runtime has no error class of its own, and raises many types.
            raise RunFailure(f"IREE does not run it: {describe(error)}", function) from None
        values: list[Any] = [returned] if len(types) == 1 else list(returned or [])
        return tuple(
            self._returned(value, type, function) for value, type in zip(values, types, strict=True)
        )

    def kernel(
        self, function: FuncOp, kept: Mapping[int, Any], written: Collection[int]
    ) -> Callable[[Sequence[TypedArray]], Sequence[TypedArray]]:
        """
        A function of the arguments that are not kept: those that are may be what `kept` returned.

        If all are tensors of f32, results stay in the memory of IREE until they are read, and are
        arguments of other functions without a copy, except those to which IREE may write. The
        function raises RunFailure.
        """
        inputs, results = function.function_type.inputs.data, function.function_type.outputs.data

        def run(values: Sequence[TypedArray]) -> Sequence[TypedArray]:
            rest = iter(values)
            given = [kept[at] if at in kept else next(rest) for at in range(len(inputs))]
            return self.run(function, given)

        if any(map(_is_scalar, (*inputs, *results))) or {
            element_type_or_self(type) for type in (*inputs, *results)
        } != {f32}:
            return run
        runtime, device = self._runtime, self._context.config.device
        invoke, new_list = self._context.vm_context.invoke, runtime.VmVariantList
        a_view = runtime.HalBufferView
        named = self._loaded.lookup_function(function.sym_name.data)
        copied = partial(
            device.allocator.allocate_buffer_copy,
            memory_type=runtime.MemoryType.DEVICE_LOCAL,
            allowed_usage=runtime.BufferUsage.DEFAULT,
            device=device,
            element_type=runtime.HalElementType.FLOAT_32,
        )
        views = [getattr(kept.get(at), "_buffer_view", None) for at in range(len(inputs))]
        shapes = [shape_of(type) for type in results]
        lengths = [[*shape] if shape is not None and is_static(shape) else None for shape in shapes]

        def view_of(value: TypedArray, *, is_written: bool) -> Any:
            if isinstance(value, ResultOfIREE) and not is_written:
                return value.__dict__["view"]
            return copied(buffer=np.asarray(value.elements.view(np.float32), order="C"))

        def run_on_views(values: Sequence[TypedArray]) -> Sequence[TypedArray]:
            given, returned, rest = new_list(len(inputs)), new_list(len(results)), iter(values)
            for at, view in enumerate(views):
                if view is None:
                    value = kept[at] if at in kept else next(rest)
                    view = view_of(value, is_written=at in written)
                given.push_ref(view)
            try:
                invoke(named, given, returned)
            except Exception as error:
                # The runtime has no error class of its own, and raises many types.
                raise RunFailure(f"IREE does not run it: {describe(error)}", function) from None
            arrays = list[TypedArray]()
            for at, type in enumerate(results):
                view = returned.get_as_object(at, a_view)
                known = lengths[at] or view.shape
                of_type = type if lengths[at] else TensorType(f32, known)
                arrays.append(ResultOfIREE(view, of_type, known, device))
            return arrays

        return run_on_views

    def _given(self, value: TypedArray, function: FuncOp) -> Any:
        dtype = self._checked_dtype(value.element_type, function)
        if value.shape or not _is_scalar(value.type):
            elements = value.elements
            return elements.astype(dtype) if dtype == np.bool_ else elements.view(dtype)
        number = value.elements.reshape(1).view(dtype)[0].item()
        # The runtime does not accept bool.
        return int(number) if isinstance(number, bool) else number

    def _returned(self, value: Any, type: Attribute, function: FuncOp) -> TypedArray:
        element_type = element_type_or_self(type)
        storage, dtype = dtype_of(element_type), self._checked_dtype(element_type, function)
        if _is_scalar(type):
            # A Python number can hold all values of its type.
            array = np.asarray(value).astype(dtype)
        else:
            array = np.asarray(value.to_host())
            if (array.dtype == np.bool_, array.itemsize) != (dtype == np.bool_, dtype.itemsize):
                reason = f"IREE returns elements of dtype {array.dtype} as '{type}'"
                raise RunFailure(reason, function)
        # The memory is freed with the runtime, whatever arrays there are of it.
        elements = array.astype(storage) if dtype == np.bool_ else array.copy().view(storage)
        return TypedArray.of(elements, type)

    def _checked_dtype(self, type: Attribute, function: FuncOp) -> Any:
        if (dtype := _dtype_of(plain := held_type(type))) is None:
            raise RunFailure(f"IREE does not accept values of type '{plain}'", function)
        return dtype


@registered_cache
@lru_cache(maxsize=1024)
def _dtype_of(type: AnyDenseElement) -> Any:
    """The dtype in which IREE takes and returns elements of a type; None if it does not."""
    if isinstance(type, AnyFloat) and (name := FLOATS.get(type.__class__)):
        return np.dtype(getattr(np, name, None) or getattr(library("ml_dtypes", "iree"), name))
    if isinstance(type, IndexType):
        return np.dtype(np.int64)
    if isinstance(type, IntegerType) and type.bitwidth in (1, 8, 16, 32, 64):
        if type.bitwidth == 1:
            return np.dtype(np.bool_)
        kind = "u" if type.signedness.data is Signedness.UNSIGNED else "i"
        return np.dtype(f"{kind}{type.bitwidth // 8}")
    return None


def _is_scalar(type: Attribute) -> bool:
    return element_type_or_self(type) is type


_BYTE: Final = 8


def widen_storage(module: ModuleOp, context: Context) -> None:
    """
    Replace sub-byte storage types by byte-sized ones with the same storage range.

    A type is kept if ops other than those of quant use it, or if integers are cast to it.
    """
    all_types, seen = set[Attribute](), set[Attribute]()
    for op in module.walk():
        arguments = (
            argument for region in op.regions for block in region.blocks for argument in block.args
        )
        values = (*op.operands, *op.results, *arguments)
        types = {element_type_or_self(value.type) for value in values}
        all_types |= types
        if not op.name.startswith("quant.") or isinstance(op, StorageCastOp):
            seen |= types
    wide = {
        type: _widened(type)
        for type in all_types - seen
        if isinstance(type, UniformQuantizedType) and _is_narrow(type)
    }
    if not wide:
        return
    blobs = ResourceBlobs.of(context)
    for op in [*module.walk()]:
        for result in op.results:
            type = wide.get(cast(UniformQuantizedType, element_type_or_self(result.type)))
            if type is None:
                continue
            widened = with_element_type(result.type, type)
            if isinstance(op, ConstantOp):
                elements = op.value
                values = (
                    blobs.read(elements) if isinstance(elements, DenseResourceAttr) else op.values
                )
                if values is None:
                    continue
                new = ConstantOp(values, cast(QuantizedTensor, widened))
                new.attributes |= op.attributes
                Rewriter.replace_op(op, new)
            else:
                Rewriter.replace_value_with_new_type(result, widened)


def _is_narrow(type: UniformQuantizedType) -> bool:
    """Whether the storage is narrower than a byte, and all zero points fit it."""
    if type.non_integers is not None:
        return False
    width = type.storage_type.bitwidth
    low, high = integer_range(width, type.is_signed)
    zero_points = type.slots.data.zero_points
    return width < _BYTE and bool(((low <= zero_points) & (zero_points <= high)).all())


def _widened(type: UniformQuantizedType) -> UniformQuantizedType:
    storage = IntegerType(_BYTE, cast(IntegerType, type.storage_type).signedness.data)
    return UniformQuantizedType(
        storage, type.signed, type.minimum, type.maximum, type.expressed_type, type.slots
    )
