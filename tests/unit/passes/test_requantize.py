"""
A requantization is a `dcast` and a `qcast`, each of whose steps is rounded: by numpy, in all forms.

The interpreter runs it as it is, after shape ops have moved across it, and lowered; MLIR's runner
runs what it is lowered to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from mlir_tools import needs_mlir_runner, run_main
from numpy.typing import NDArray
from own_ops import OWN_OPS, own_movements
from random_modules import tensor
from xdsl.context import Context
from xdsl.dialects.builtin import (
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass

from qdialect.algebra.movement import Movement, Shape
from qdialect.algebra.padding import Pad
from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.check.interpreters import TypedArray, run_function
from qdialect.dialects.quant import RequantizeOp, Storage, UniformQuantizedType
from qdialect.opt.registry import ToolContext
from qdialect.passes.canonicalize import CanonicalizePass
from qdialect.passes.elide_round_trips import ElideRoundTripsPass
from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
from qdialect.passes.sink_quant_shapes import SinkQuantShapesPass
from qdialect.support.float_format import FLOAT_FORMATS, Rounding
from qdialect.testing.movements import numpy_moves
from qdialect.testing.tensors import cut, expanded, parameters, shapes
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

pytestmark = pytest.mark.usefixtures("without_plugins")

Codes = NDArray[np.int64]

FLOATS = {np.float16: Float16Type(), np.float32: Float32Type(), np.float64: Float64Type()}
STORAGES = [StorageFormat(width, signed) for width in (4, 8, 16, 32) for signed in (True, False)]
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@dataclass(frozen=True)
class Quantized:
    """Slots, and the storage range, of one end of a requantization."""

    slots: QuantizationParameters
    least: int
    greatest: int
    dtype: type[np.floating[Any]]

    @property
    def type(self) -> UniformQuantizedType:
        of = self.slots.storage
        storage = Storage.of(
            IntegerType(of.width), signed=of.signed, minimum=self.least, maximum=self.greatest
        )
        expressed = FLOATS[self.dtype]
        return UniformQuantizedType.per_tensor(storage, expressed, 1.0).with_parameters(self.slots)

    @property
    def tensor_type(self) -> TensorType[UniformQuantizedType]:
        return TensorType(self.type, self.slots.shape)


@st.composite
def ends(draw: st.DrawFn, shape: Shape, dtype: type[np.floating[Any]]) -> Quantized:
    """Scales of many digits, and zero points anywhere in the storage range, or beyond it."""
    storage = draw(st.sampled_from(STORAGES))
    slots = draw(parameters(shape, storage, distinct=draw(st.booleans())))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scales = random.uniform(0.5, 1.0, slots.scales.shape) * 2.0 ** random.integers(-7, 7)
    least = -(1 << (storage.width - 1)) if storage.signed else 0
    greatest = least + (1 << storage.width) - 1
    if draw(st.booleans()):
        least, greatest = least + draw(st.integers(0, 2)), greatest - draw(st.integers(0, 2))
    expressed = FLOAT_FORMATS[FLOATS[dtype].name]
    return Quantized(replace(slots, scales=scales, expressed=expressed), least, greatest, dtype)


def slots_anew(of: Quantized) -> tuple[NDArray[Any], NDArray[Any]]:
    """The scale and the zero point of each element, rounded to the expressed type."""
    all_scales = np.asarray(of.slots.scales)
    numbered = np.arange(1, 1 + all_scales.size, dtype=np.float64).reshape(all_scales.shape)
    numbers, zero_points = expanded(replace(of.slots, scales=numbered))
    scales = all_scales.reshape(-1)[numbers.astype(np.int64) - 1]
    with np.errstate(over="ignore"):
        return scales.astype(of.dtype), zero_points.astype(of.dtype)


def read_anew(codes: Codes, of: Quantized) -> NDArray[Any]:
    scales, zero_points = slots_anew(of)
    with np.errstate(all="ignore"):
        return (codes.astype(of.dtype) - zero_points) * scales


def stored_anew(numbers: NDArray[Any], to: Quantized, rounding: Rounding) -> Codes:
    scales, zero_points = slots_anew(to)
    with np.errstate(all="ignore"):
        exact = np.asarray(numbers / scales + zero_points)
    found = np.empty(exact.shape, dtype=np.int64)
    for index, each in np.ndenumerate(exact.astype(np.float64)):
        found[index] = to.least if np.isnan(each) else rounded_anew(each, to, rounding)
    return found


def rounded_anew(number: float, to: Quantized, rounding: Rounding) -> int:
    if not to.least < number < to.greatest:
        return to.least if number <= to.least else to.greatest
    toward_zero = int(number)
    rest = abs(number - toward_zero)
    is_further = rest > 0.5 or (
        rest == 0.5 and (rounding is Rounding.NEAREST_AWAY or toward_zero % 2 == 1)
    )
    if rounding is Rounding.UPSTREAM or not is_further:
        return toward_zero
    return toward_zero + (1 if number > 0 else -1)


@dataclass(frozen=True)
class Case:
    """A function that requantizes storage integers, and what numpy says of some."""

    source: Quantized
    result: Quantized
    rounding: Rounding
    codes: Codes

    @property
    def expected(self) -> Codes:
        return stored_anew(read_anew(self.codes, self.source), self.result, self.rounding)

    def text(self, name: str) -> str:
        shape = self.source.slots.shape
        taken, made = (
            tensor(shape, f"i{end.slots.storage.width}") for end in (self.source, self.result)
        )
        source, result = self.source.tensor_type, self.result.tensor_type
        attribute = f'{{rounding = "{self.rounding.value}"}}'
        if self.rounding is Rounding.NEAREST_EVEN and shape:
            attribute = ""
        return (
            f"func.func @{name}(%x: {taken}) -> {made} {{\n"
            f"  %0 = quant.scast %x : {taken} to {source}\n"
            f"  %1 = quant.requantize %0 {attribute} : {source} to {result}\n"
            f"  %2 = quant.scast %1 : {result} to {made}\n"
            f"  return %2 : {made}\n}}\n"
        )

    def call(self, name: str) -> list[str]:
        """Lines that print what the function returns, sign-extended."""
        shape = self.source.slots.shape
        taken, made = (
            tensor(shape, f"i{end.slots.storage.width}") for end in (self.source, self.result)
        )
        wide = tensor(shape, "i64")
        bits = StorageFormat(self.source.slots.storage.width, signed=True).wrap(self.codes)
        lines = [
            f"%a = arith.constant dense<{bits.tolist()}> : {taken}",
            f"%r = func.call @{name}(%a) : ({taken}) -> {made}",
            f"%w = arith.extsi %r : {made} to {wide}",
            f"%c = tensor.cast %w : {wide} to tensor<*xi64>",
            "func.call @printMemrefI64(%c) : (tensor<*xi64>) -> ()",
        ]
        return [line.replace("%", f"%{name}_") for line in lines]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    dtype = draw(st.sampled_from(list(FLOATS)))
    shape = draw(shapes(max_rank=3))
    source, result = draw(ends(shape, dtype)), draw(ends(shape, dtype))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # Of all sizes, all over the storage, and not only in its range.
    bits = random.integers(-(1 << 62), 1 << 62, shape) >> random.integers(0, 62, shape)
    codes = cut(np.asarray(bits, dtype=np.int64), source.slots.storage)
    return Case(source, result, draw(st.sampled_from(Rounding)), codes)


def printed(module: ModuleOp) -> str:
    stream = StringIO()
    MLIRPrinter(stream=stream).print_op(module)
    return stream.getvalue()


def run_on(text: str, name: str, codes: Codes, width: int, *passes: ModulePass) -> Codes:
    """What the interpreter says, after passes."""
    context = ToolContext()
    module = LocatingParser(context, text).parse_module()
    module.verify()
    for each in passes:
        each.apply(context, module)
        module.verify()
    given = TypedArray.of_numbers(codes, TensorType(IntegerType(width), codes.shape))
    (value,) = run_function(module, name, [given], context)
    return value.numbers


@examples(60, suppress_health_check=SLOW)
@given(cases())
def test_interpreter_computes_what_numpy_does(case: Case):
    width = case.source.slots.storage.width
    signed = StorageFormat(case.result.slots.storage.width, signed=True)
    expected = signed.wrap(case.expected)
    for passes in ([], [CanonicalizePass()], [ElideRoundTripsPass()], [LowerQuantOpsPass()]):
        found = run_on(case.text("f"), "f", case.codes, width, *passes)
        assert found.tolist() == expected.tolist(), passes


@needs_mlir_runner
@examples(4, phases=[Phase.generate], suppress_health_check=SLOW)
@given(st.lists(cases(), min_size=16, max_size=16))
def test_lowered_and_compiled_it_computes_what_numpy_does(drawn: list[Case]):
    context = ToolContext()
    text = "".join(case.text(f"f{number}") for number, case in enumerate(drawn))
    module = LocatingParser(context, text).parse_module()
    LowerQuantOpsPass().apply(context, module)
    calls = [line for number, case in enumerate(drawn) for line in case.call(f"f{number}")]
    results = run_main(printed(module), calls, before=["--canonicalize"])
    for (shape, numbers), case in zip(results, drawn, strict=True):
        signed = StorageFormat(case.result.slots.storage.width, signed=True)
        assert shape == case.codes.shape
        assert list(map(int, numbers)) == signed.wrap(case.expected).ravel().tolist(), case


@examples(60, suppress_health_check=SLOW)
@given(st.data(), st.sampled_from(Rounding))
def test_shape_ops_move_below(data: st.DataObject, rounding: Rounding):
    """Whether they do is a matter of types; the values are those of numpy either way."""
    shape = data.draw(shapes(max_rank=3))
    source = data.draw(ends(shape, np.float32))
    movement = data.draw(own_movements(shape))
    moved = movement(source.slots)
    before = replace(source, slots=moved)
    wanted = data.draw(ends(moved.shape, np.float32))
    module = _moved_and_requantized(movement, source, before, wanted, rounding)
    random = np.random.default_rng(1)
    codes = np.asarray(random.integers(source.least, source.greatest, shape, endpoint=True))
    given = TypedArray.of_numbers(codes, source.tensor_type)
    _, zeros = expanded(moved)
    if (
        isinstance(movement, Pad)
        and not ((zeros >= source.least) & (zeros <= source.greatest)).all()
    ):
        return
    of_operand = numpy_moves(movement, codes, padding=zeros)
    expected = stored_anew(read_anew(of_operand, before), wanted, rounding)
    for passes in ([], [SinkQuantShapesPass()]):
        for each in passes:
            each.apply(Context(), module)
            module.verify()
        (value,) = run_function(module, "f", [given])
        assert value.numbers.tolist() == expected.tolist()


def _moved_and_requantized(
    movement: Movement, source: Quantized, moved: Quantized, to: Quantized, rounding: Rounding
) -> ModuleOp:
    block = Block(arg_types=[source.tensor_type])
    op = OWN_OPS[type(movement)].of_movement(movement, block.args, moved.tensor_type)
    last = RequantizeOp(op, to.tensor_type, rounding)
    block.add_ops([op, last, ReturnOp(last)])
    types = [source.tensor_type], [to.tensor_type]
    return ModuleOp([FuncOp("f", types, Region(block))])
