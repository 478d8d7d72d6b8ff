"""
Dequantization whose codes or scales other ops compute, as JAX and PyTorch export it.

The raised module must compute what numpy and ml_dtypes compute when the module is drawn.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest
from example_counts import examples
from folded_modules import parse
from hypothesis import given, note
from hypothesis import strategies as st
from installed import needs
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, f32

from qdialect.algebra.views import as_view
from qdialect.check.interpreters.interpreter import run_function
from qdialect.dialects.quant import ConstantOp, DequantizeCastOp, QuantileType
from qdialect.dialects.quant.types import UniformQuantizedType, uniform_tensor
from qdialect.folding.report import Outcome, PassReport
from qdialect.frontends import from_jax, from_torch
from qdialect.ir.resources import ResourceBlobs
from qdialect.ops.reading import Constants
from qdialect.opt.registry import ToolContext
from qdialect.passes.dequantization import RaiseDequantizationPass
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.passes.inline import InlinePass

Array = NDArray[Any]

NAMES: Final = {
    "uint8": "ui8",
    "int8": "i8",
    "int32": "i32",
    "bool": "i1",
    "float16": "f16",
    "float32": "f32",
    "float8_e4m3fn": "f8E4M3FN",
    "float4_e2m1fn": "f4E2M1FN",
}
"""The element types of arrays."""


def typed(array: Array) -> str:
    lengths = "".join(f"{length}x" for length in array.shape)
    return f"tensor<{lengths}{NAMES[array.dtype.name]}>"


class Value:
    """A value of a function, and what numpy computes for it."""

    def __init__(self, name: str, array: Array) -> None:
        self.name, self.array = name, array


class Builder:
    """The text of a function in StableHLO."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def op(self, name: str, operands: list[Value], result: Array, attributes: str = "") -> Value:
        value = Value(f"%v{len(self.lines)}", result)
        names = ", ".join(operand.name for operand in operands)
        types = ", ".join(typed(operand.array) for operand in operands)
        line = f'{value.name} = "stablehlo.{name}"({names}) <{{{attributes}}}>'
        self.lines.append(f"{line} : ({types}) -> {typed(result)}")
        return value

    def constant(self, array: Any) -> Value:
        array = np.asarray(array)
        text = f'dense<"0x{array.tobytes().hex()}">' if array.shape else f"dense<{array}>"
        return self.op("constant", [], array, f"value = {text} : {typed(array)}")

    def convert(self, value: Value, dtype: Any) -> Value:
        return self.op("convert", [value], value.array.astype(dtype))

    def reshape(self, value: Value, *shape: int) -> Value:
        return self.op("reshape", [value], value.array.reshape(shape))

    def broadcast(self, value: Value, dims: list[int], *shape: int) -> Value:
        lengths = [1] * len(shape)
        for axis, length in zip(dims, value.array.shape, strict=True):
            lengths[axis] = length
        result = np.broadcast_to(value.array.reshape(lengths), shape)
        axes = f": {', '.join(map(str, dims))}" if dims else ""
        return self.op(
            "broadcast_in_dim", [value], result, f"broadcast_dimensions = array<i64{axes}>"
        )

    def with_number(self, name: str, value: Value, number: int, compute: Any) -> Value:
        number_of = self.constant(np.asarray(number, value.array.dtype))
        like = self.broadcast(number_of, [], *value.array.shape)
        return self.op(name, [value, like], compute(value.array, like.array))

    def looked_up(self, table: Value, codes: Value) -> Value:
        """The entries of a table; codes that are negative count from its end."""
        if codes.array.dtype.kind == "i":
            zero = self.broadcast(
                self.constant(np.asarray(0, codes.array.dtype)), [], *codes.array.shape
            )
            is_negative = self.op(
                "compare",
                [codes, zero],
                codes.array < 0,
                "comparison_direction = #stablehlo<comparison_direction LT>",
            )
            size = len(table.array)
            wrapped = self.with_number("add", codes, size, np.add)
            chosen = np.where(codes.array < 0, wrapped.array, codes.array)
            codes = self.op("select", [is_negative, wrapped, codes], chosen)
        rank = codes.array.ndim
        indices = self.reshape(codes, *codes.array.shape, 1)
        numbers = (
            "#stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], "
            f"index_vector_dim = {rank}>"
        )
        return self.op(
            "gather",
            [table, indices],
            table.array[codes.array],
            f"dimension_numbers = {numbers}, slice_sizes = array<i64: 1>",
        )

    def unpacked(self, packed: Value, *, low_first: bool) -> Value:
        """Two codes for each byte, along the last axis."""
        high = self.with_number("shift_right_logical", packed, 4, np.right_shift)
        low = self.with_number("and", packed, 15, np.bitwise_and)
        parts = [low, high] if low_first else [high, low]
        shape = packed.array.shape
        parts = [self.reshape(part, *shape, 1) for part in parts]
        both = np.concatenate([part.array for part in parts], axis=-1)
        joined = self.op("concatenate", parts, both, f"dimension = {len(shape)} : i64")
        return self.reshape(joined, *shape[:-1], 2 * shape[-1])

    def function(self, result: Value) -> str:
        body = "\n".join(self.lines)
        type = typed(result.array)
        return f"func.func @main() -> {type} {{\n{body}\nreturn {result.name} : {type}\n}}"


def raised(text: str) -> tuple[ModuleOp, ToolContext, PassReport]:
    module, context = parse(text)
    RaiseDequantizationPass().apply(context, module)
    module.verify()
    (report,) = context.fold_reports
    return module, context, report


def floats_of(module: ModuleOp, context: ToolContext) -> Array:
    return run_function(module, "main", (), context)[0].elements.view(np.float32)


def same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def type_of_codes(module: ModuleOp) -> UniformQuantizedType:
    (constant,) = (op for op in module.walk() if isinstance(op, ConstantOp))
    return uniform_tensor(constant.result.type).element_type


def stored_numbers(build: Builder, data: st.DataObject, shape: tuple[int, int]) -> Value:
    """f32 numbers that are read from codes in one of the forms of exporters."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 20), label="seed"))
    kind = data.draw(st.sampled_from(["table", "packed table", "packed", "f4", "f8"]), label="kind")
    if kind in ("f4", "f8"):
        dtype = ml_dtypes.float4_e2m1fn if kind == "f4" else ml_dtypes.float8_e4m3fn
        count = 16 if kind == "f4" else 256
        codes = rng.integers(0, count, shape).astype(np.uint8)
        # NaN has no one pattern of bits.
        codes[(codes & 0x7F) == 0x7F] = 0
        return build.convert(build.constant(codes.view(dtype)), np.float32)
    codes = rng.integers(0, 16, shape).astype(np.uint8)
    if kind == "table":
        width = data.draw(st.integers(1, 6), label="width")
        dtype = data.draw(st.sampled_from([np.uint8, np.int8, np.int32]), label="dtype")
        codes = rng.integers(0, 1 << width, shape).astype(dtype)
        if dtype is not np.uint8:
            codes -= rng.choice([0, 1 << width], shape).astype(dtype)
        stored = build.constant(codes)
    else:
        width, order = 4, data.draw(st.booleans(), label="low first")
        pairs = codes[:, 1::2], codes[:, ::2]
        low, high = pairs[::-1] if order else pairs
        stored = build.unpacked(build.constant(low | high << 4), low_first=order)
        assert same(stored.array, codes)
    if "table" in kind:
        entries = rng.normal(size=1 << width).astype(np.float32)
        if data.draw(st.booleans(), label="has equal entries"):
            entries[-1] = entries[0]
        entries[1] = -0.0
        return build.looked_up(build.constant(entries), stored)
    numbers = build.convert(stored, np.float32)
    zeros = data.draw(st.sampled_from(["none", "one", "rows"]), label="zero points")
    if zeros == "one":
        return build.with_number("subtract", numbers, 8, np.subtract)
    if zeros == "rows":
        rows = build.constant(rng.integers(0, 16, shape[0]).astype(np.uint8))
        rows = build.convert(rows, np.float32)
        wide = build.broadcast(rows, [0], *shape)
        return build.op("subtract", [numbers, wide], numbers.array - wide.array)
    return numbers


def scales(build: Builder, data: st.DataObject, shape: tuple[int, ...]) -> Value:
    """f32 scales, which may be computed."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 20), label="seed of scales"))
    kind = data.draw(st.sampled_from(["f32", "f16", "two levels", "exponents"]), label="scales")
    numbers = rng.uniform(0.25, 4, shape).astype(np.float32)
    if kind == "f32":
        return build.constant(numbers)
    if kind == "f16":
        return build.convert(build.constant(numbers.astype(np.float16)), np.float32)
    if kind == "two levels":
        short = build.constant(numbers.astype(ml_dtypes.float8_e4m3fn))
        wide = build.convert(short, np.float32)
        level = build.broadcast(build.constant(np.float32(0.0013)), [], *shape)
        return build.op("multiply", [wide, level], wide.array * level.array)
    exponents = build.constant(rng.integers(1, 255, shape).astype(np.uint8))
    shifted = build.with_number("shift_left", build.convert(exponents, np.int32), 23, np.left_shift)
    return build.op("bitcast_convert", [shifted], shifted.array.view(np.float32))


@examples(150)
@given(data=st.data())
def test_codes_and_scales_that_are_computed(data: st.DataObject):
    """Whatever computes them, one cast is left, which a transpose is folded into."""
    build = Builder()
    rows, blocks, block = 4, 3, data.draw(st.sampled_from([2, 4]), label="block")
    numbers = stored_numbers(build, data, (rows, blocks * block))
    by = data.draw(st.sampled_from(["rows", "blocks", "repeated"]), label="granularity")
    shape = (rows, blocks * block)
    if by == "rows":
        factor = build.broadcast(scales(build, data, (rows,)), [0], *shape)
    else:
        factor = scales(build, data, (rows, blocks))
        factor = build.broadcast(factor, [0, 1], rows, blocks, block)
        if by == "blocks":
            numbers = build.reshape(numbers, rows, blocks, block)
        else:
            factor = build.reshape(factor, *shape)
    both = [numbers, factor]
    if data.draw(st.booleans(), label="scales first"):
        both.reverse()
    with np.errstate(all="ignore"):
        product = build.op("multiply", both, both[0].array * both[1].array)
    whole = build.reshape(product, *shape) if by == "blocks" else product
    result = build.op("transpose", [whole], whole.array.T, "permutation = array<i64: 1, 0>")
    text = build.function(result)
    note(text)
    module, context, report = raised(text)
    # Exact scales may still overflow, or vanish.
    assert [record.outcome for record in report.records] == [Outcome.RAISED]
    assert {op.name for op in module.walk()} <= {
        "builtin.module",
        "func.func",
        "func.return",
        "stablehlo.constant",
        "quant.constant",
        "quant.scast",
        "quant.dcast",
        "stablehlo.reshape",
        "stablehlo.transpose",
    }
    wanted = np.ascontiguousarray(result.array)
    assert same(floats_of(module, context), wanted)
    FoldQuantShapesPass().apply(context, module)
    module.verify()
    names = {op.name for op in module.walk()}
    assert not names & {"stablehlo.reshape", "stablehlo.transpose"}
    assert same(floats_of(module, context), wanted)


TABLE: Final = np.array([-1.0, 0.0, 0.5, 2.0], np.float32)


@pytest.mark.parametrize(
    ("entries", "codes", "scale", "reason"),
    [
        (TABLE, [0, 3, 1], np.nan, "a scale is not positive and finite"),
        (TABLE, [0, 3, 1], 0.0, "a scale is not positive and finite"),
        (np.append(TABLE, np.float32(np.nan)), [4, 3, 1], 1.5, "no codes of 8 bits"),
        (TABLE[:3], [0, 2, 1], 1.5, "no codes of 8 bits"),
        (np.linspace(0, 1, 512).astype(np.float32), [0, 2, 300], 1.5, "no codes of 8 bits"),
    ],
)
def test_what_no_type_means_is_kept(entries: Array, codes: list[int], scale: float, reason: str):
    build = Builder()
    looked_up = build.looked_up(build.constant(entries), build.constant(np.array(codes, np.int32)))
    factor = build.broadcast(build.constant(np.array([scale], np.float32)), [0], len(codes))
    factor = build.with_number("divide", factor, 1, np.divide)
    product = build.op("multiply", [looked_up, factor], looked_up.array * factor.array)
    text = build.function(product)
    module, context, report = raised(text)
    assert "quant.dcast" not in {op.name for op in module.walk()}
    assert any(reason in str(record.reason) for record in report.records), report.records
    assert np.array_equal(floats_of(module, context), product.array, equal_nan=True)


def test_entries_of_a_table_keep_their_bits():
    """The codes are those of the module, and the table is its table."""
    build = Builder()
    codes = np.array([[0, 1, 2, 3], [3, 3, 0, 1]], np.uint8)
    looked_up = build.looked_up(build.constant(TABLE), build.constant(codes))
    factor = build.broadcast(build.constant(np.array([0.3, 7.0], np.float32)), [0], 2, 4)
    product = build.op("multiply", [looked_up, factor], looked_up.array * factor.array)
    module, _, _ = raised(build.function(product))
    type = type_of_codes(module)
    assert type.storage_type == QuantileType.of(
        IntegerType(2, Signedness.UNSIGNED), f32, TABLE.tolist()
    )
    (constant,) = (op for op in module.walk() if isinstance(op, ConstantOp))
    held: Any = constant.value
    assert held.get_values() == tuple(codes.reshape(-1).tolist())


def jax_forms() -> dict[str, Any]:
    """Weights that functions of JAX compute, with the type that stores them."""
    jnp: Any = import_module("jax.numpy")
    lax: Any = import_module("jax").lax
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, (8, 32)).astype(np.uint8)
    packed = codes[:, ::2] << 4 | codes[:, 1::2]
    table = np.sort(rng.normal(size=16)).astype(np.float32)
    rows = rng.uniform(0.5, 2, (8, 1)).astype(np.float32)
    blocks = rng.uniform(0.5, 2, (8, 2)).astype(np.float32)
    f8 = rng.normal(size=(8, 32)).astype(np.float32).astype(ml_dtypes.float8_e4m3fn)
    f4 = codes.view(ml_dtypes.float4_e2m1fn)
    short = blocks.astype(ml_dtypes.float8_e4m3fn)
    exponents = rng.integers(120, 130, (8, 2)).astype(np.uint8)

    def unpack(bytes: Array) -> Any:
        pairs = jnp.asarray(bytes)
        return jnp.stack([pairs >> 4, pairs & 15], -1).reshape(8, 32)

    def in_blocks(numbers: Any, factors: Any) -> Any:
        return (numbers.reshape(8, 2, 16) * factors[:, :, None]).reshape(8, 32)

    def powers() -> Any:
        return lax.bitcast_convert_type(jnp.asarray(exponents).astype("int32") << 23, "float32")

    indexed = {
        f"table {dtype}": (
            lambda dtype=dtype: jnp.asarray(table)[jnp.asarray(codes.astype(dtype))] * rows,
            "quantile<ui4:f32",
        )
        for dtype in ("uint8", "int8", "int32")
    }
    return {
        **indexed,
        "take": (lambda: jnp.take(jnp.asarray(table), jnp.asarray(codes)) * rows, "quantile<ui4"),
        "packed table": (
            lambda: in_blocks(jnp.take(jnp.asarray(table), unpack(packed), mode="clip"), blocks),
            "quantile<ui4:f32",
        ),
        "packed": (lambda: in_blocks(unpack(packed).astype("float32") - 8, blocks), "u4:f32"),
        "nvfp4": (
            lambda: in_blocks(
                jnp.asarray(f4).astype("float32"),
                jnp.asarray(short).astype("float32") * np.float32(0.0013),
            ),
            "f4E2M1FN:f32",
        ),
        "exponents": (
            lambda: in_blocks(jnp.asarray(f8).astype("float32"), powers()),
            "f8E4M3FN:f32",
        ),
        "repeated": (
            lambda: jnp.asarray(f8).astype("float32") * jnp.repeat(jnp.asarray(blocks), 16, axis=1),
            "f8E4M3FN:f32",
        ),
    }


FORMS_OF_JAX: Final = (
    *("table uint8", "table int8", "table int32", "take", "packed table", "packed"),
    *("nvfp4", "exponents", "repeated"),
)


def cast_and_fold(module: ModuleOp, context: ToolContext) -> UniformQuantizedType:
    """The type of the only cast that is left of a module."""
    for each in (InlinePass(), RaiseDequantizationPass(), FoldQuantShapesPass()):
        each.apply(context, module)
        module.verify()
    names = [op.name for op in module.walk()]
    assert names.count("quant.dcast") == 1
    (cast_op,) = (op for op in module.walk() if isinstance(op, DequantizeCastOp))
    return uniform_tensor(cast_op.input.type).element_type


@needs("jax")
@pytest.mark.parametrize("form", FORMS_OF_JAX)
def test_exports_of_jax(form: str):
    context = ToolContext()
    compute, stored = jax_forms()[form]
    module = from_jax(lambda: compute().T, context=context)
    type = cast_and_fold(module, context)
    names = {op.name for op in module.walk()}
    assert not {"stablehlo.multiply", "stablehlo.transpose", "stablehlo.gather"} & names
    assert stored in str(type)
    assert same(floats_of(module, context), np.ascontiguousarray(compute().T))


@needs("torch", "torch_mlir")
@pytest.mark.parametrize("form", ["torch", "linalg-on-tensors", "stablehlo"])
def test_exports_of_torch(form: Any):
    torch: Any = import_module("torch")
    random = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 16, (8, 16), dtype=torch.uint8, generator=random)
    buffers = {
        "table": torch.linspace(-1, 1, 16),
        "packed": codes if form == "stablehlo" else codes[:, ::2] << 4 | codes[:, 1::2],
        "rows": torch.rand((8, 1), generator=random) + 0.5,
    }

    class Looked(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            for name, buffer in buffers.items():
                self.register_buffer(name, buffer)

        def forward(self, x: Any) -> Any:
            packed = self.packed
            # torch-mlir does not lower shifts of bytes to StableHLO.
            if form != "stablehlo":
                packed = torch.stack([packed >> 4, packed & 15], -1).reshape(8, 16)
            return x @ (self.table[packed.long()] * self.rows).T

    context = ToolContext(allow_unregistered=True)
    program = torch.export.export(Looked(), (torch.zeros(1, 16),))
    module = from_torch(program, form, context=context)
    type = cast_and_fold(module, context)
    assert str(type.storage_type).startswith("!quant.quantile<ui4:f32")
    (constant,) = (op for op in module.walk() if isinstance(op, ConstantOp))
    stored = Constants(ResourceBlobs.of(context)).read(constant)
    assert stored is not None
    numbers = buffers["table"].numpy()[as_view(stored).array()]
    wanted = buffers["table"][codes.long()] * buffers["rows"]
    assert same(numbers * np.asarray(type.scales, np.float32), wanted.numpy().T.copy())
