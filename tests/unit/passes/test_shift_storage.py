"""Shifted storage means the same: values are run before and after, and compared bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from example_counts import examples
from hypothesis import HealthCheck, given, reject
from hypothesis import strategies as st
from own_ops import OWN_OPS, own_movements
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.padding import Pad
from qdialect.algebra.parameters import StorageFormat
from qdialect.check.interpreters import TypedArray, run_function
from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeCastOp,
    QuantizeCastOp,
    Storage,
    UniformQuantizedType,
    infer_result_type,
)
from qdialect.ir.elements import integer_range
from qdialect.opt.registry import ToolContext
from qdialect.ptq.passes.storage import ShiftStoragePass
from qdialect.testing.tensors import parameters, shapes
from qdialect.text.parser import LocatingParser

pytestmark = pytest.mark.usefixtures("without_plugins")

NAMES = ["i8", "u8", "i4", "u4", "i16", "u16", "i3"]
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@st.composite
def quantized(draw: st.DrawFn, storage: StorageFormat) -> TensorType[UniformQuantizedType]:
    shape = draw(shapes(max_rank=3))
    slots = draw(parameters(shape, storage, distinct=draw(st.booleans())))
    least, greatest = integer_range(storage.width, storage.signed)
    if draw(st.booleans()):
        least, greatest = least + 1, greatest - draw(st.integers(0, 1))
    held = Storage.of(
        IntegerType(storage.width), signed=storage.signed, minimum=least, maximum=greatest
    )
    return TensorType(UniformQuantizedType.per_tensor(held, f32, 1.0).with_parameters(slots), shape)


def codes_of(type: TensorType[UniformQuantizedType], seed: int) -> np.ndarray:
    of = type.element_type
    random = np.random.default_rng(seed)
    low, high = of.storage_type_min, of.storage_type_max
    return np.asarray(random.integers(low, high, type.get_shape(), endpoint=True), dtype=np.int64)


def of_storage(type: TensorType[UniformQuantizedType]) -> bool:
    """Whether zero points, which are what is padded with, are in the range of the storage."""
    of = type.element_type
    zero_points = of.parameters_on(type.get_shape()).zero_points
    return bool(((zero_points >= of.storage_type_min) & (zero_points <= of.storage_type_max)).all())


@examples(60, suppress_health_check=SLOW)
@given(st.data(), st.sampled_from(NAMES), st.integers(0, 2**16))
def test_values_are_the_same_bit_for_bit(data: st.DataObject, name: str, seed: int):
    """Of what is given, moved, constant, and quantized in the function."""
    width, signed = int(name[1:]), name[0] == "i"
    other = f"{'u' if signed else 'i'}{width}"
    half = (1 << (width - 1)) * (1 if signed else -1)
    type = data.draw(quantized(StorageFormat(width, signed)))
    movement = data.draw(own_movements(type.get_shape()))
    floats = TensorType(f32, type.get_shape())
    block = Block(arg_types=[type, floats])
    try:
        moved = infer_result_type(movement, [block.args[0]])
    except (ValueError, VerifyException):
        # A zero point is not in the storage range.
        reject()
    if isinstance(movement, Pad) and not of_storage(type):
        reject()
    codes = codes_of(type, seed + 1)
    constant = ConstantOp(codes, type)
    op = OWN_OPS[movement.__class__].of_movement(movement, [block.args[0]], moved)
    cast = QuantizeCastOp(block.args[1], type)
    results = [
        DequantizeCastOp(value, TensorType(f32, shape))
        for value, shape in (
            (constant, type.get_shape()),
            (op, moved.get_shape()),
            (cast, type.get_shape()),
        )
    ]
    block.add_ops([constant, op, cast, *results, ReturnOp(*results)])
    types = [type, floats], [result.result.type for result in results]
    module = ModuleOp([FuncOp("f", types, Region(block))])

    given_codes = codes_of(type, seed)
    # Halves are exact in f32, and near no other code.
    steps = np.random.default_rng(seed).integers(-600, 600, type.get_shape()) / 2
    numbers = np.asarray(type.element_type.parameters_on(type.get_shape()).expand()[0] * steps)
    before = run_on(module, given_codes, numbers)
    ShiftStoragePass(name, other).apply(Context(), module)
    module.verify()
    assert f"uniform<{name}" not in str(module)
    assert [value.elements.tolist() for value in before] == [
        value.elements.tolist() for value in run_on(module, given_codes + half, numbers)
    ]
    shifted = str(module)
    ShiftStoragePass(name, other).apply(Context(), module)
    assert str(module) == shifted


def run_on(module: ModuleOp, codes: np.ndarray, numbers: np.ndarray) -> tuple[TypedArray, ...]:
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    one, other = function.function_type.inputs
    return run_function(
        module, "f", [TypedArray.of_numbers(codes, one), TypedArray.of_numbers(numbers, other)]
    )


@examples(40)
@given(st.integers(0, 2**16), st.sampled_from(["i8", "i16"]))
def test_a_cast_differs_at_halves_only(seed: int, name: str):
    """By one code, and only where the quotient is next to a half."""
    width = int(name[1:])
    text = f"""
    func.func @f(%x: tensor<4096xf32>) -> tensor<4096x!quant.uniform<{name}:f32, 0.1:3>> {{
      %q = quant.qcast %x : tensor<4096xf32> to tensor<4096x!quant.uniform<{name}:f32, 0.1:3>>
      return %q : tensor<4096x!quant.uniform<{name}:f32, 0.1:3>>
    }}
    """
    module = LocatingParser(ToolContext(), text).parse_module()
    random = np.random.default_rng(seed)
    numbers = random.uniform(-1.0, 1.0, 4096) * 0.1 * (1 << (width - 1))
    given_numbers = TypedArray.of_numbers(numbers, TensorType(f32, [4096]))
    (before,) = run_function(module, "f", [given_numbers])
    ShiftStoragePass(name, f"u{width}").apply(Context(), module)
    (after,) = run_function(module, "f", [given_numbers])
    differences = after.numbers - before.numbers - (1 << (width - 1))
    quotients = given_numbers.numbers / np.float64(np.float32(0.1))
    from_half = np.abs(quotients - np.floor(quotients) - 0.5)
    # Half of the last place of a float32 below 2**width, for each of two roundings.
    near = 2.0 ** (width - 23)
    assert np.abs(differences).max() <= 1
    assert (from_half[differences != 0] <= near).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("i8", "u4"), "the same width and different signedness"),
        (("i8", "i8"), "the same width and different signedness"),
        (("i32", "u32"), "'from' must be a storage of 2 to 16 bits"),
        (("i1", "u1"), "'from' must be a storage of 2 to 16 bits"),
        (("i8", "f8"), "'to' must be a storage of 2 to 16 bits"),
    ],
)
def test_other_storages_are_errors(options: tuple[str, str], message: str):
    with pytest.raises(ValueError, match=message):
        ShiftStoragePass(*options)


def test_options_are_words_of_the_command_line():
    text = str(ShiftStoragePass("i8", "u8"))
    assert text == 'shift-storage{from="i8" to="u8"}'
    spec = ShiftStoragePass("i8", "u8").spec()
    assert ShiftStoragePass.from_spec(spec) == ShiftStoragePass("i8", "u8")
    with pytest.raises(ValueError, match='requires argument "from"'):
        ShiftStoragePass.from_spec(ArgSpec("shift-storage", {"to": ("u8",)}))


def test_resources_and_splats_are_shifted():
    """A resource of one element stands for all of them, and so does a splat."""
    text = """
    !q = !quant.uniform<i8:f32, 0.5:3>
    func.func @f() -> (tensor<4xf32>, tensor<4xf32>) {
      %0 = quant.constant dense_resource<weight> : tensor<4x!q>
      %1 = quant.constant dense<-128> : tensor<4x!q>
      %2 = quant.dcast %0 : tensor<4x!q> to tensor<4xf32>
      %3 = quant.dcast %1 : tensor<4x!q> to tensor<4xf32>
      return %2, %3 : tensor<4xf32>, tensor<4xf32>
    }
    {-# dialect_resources: { builtin: { weight: "0x01000000017F80FF" } } #-}
    """
    context = ToolContext()
    module = LocatingParser(context, text).parse_module()
    before = run_function(module, "f", (), context)
    ShiftStoragePass("i8", "u8").apply(context, module)
    module.verify()
    after = run_function(module, "f", (), context)
    assert [value.numbers.tolist() for value in after] == [
        value.numbers.tolist() for value in before
    ]
    assert before[0].numbers.tolist() == [-1.0, 62.0, -65.5, -2.0]
