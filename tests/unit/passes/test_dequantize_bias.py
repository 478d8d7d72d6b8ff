"""A wide bias is what exact arithmetic says, rounded twice: run, folded, lowered and compiled."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from io import StringIO

import numpy as np
import pytest
from example_counts import examples
from hypothesis import Phase, given
from hypothesis import strategies as st
from mlir_tools import needs_mlir_runner, run_main
from nested_text import nested
from numpy.typing import NDArray
from random_modules import tensor

from qdialect.check.compared_modules import Side
from qdialect.check.comparison import compare_modules
from qdialect.check.interpreters import run_function
from qdialect.opt.registry import ToolContext
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

pytestmark = pytest.mark.usefixtures("without_plugins")

DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16}


@dataclass(frozen=True)
class Bias:
    """A constant bias."""

    codes: NDArray[np.int64]
    width: int
    scales: NDArray[np.float64]
    axis: int | None
    made: str

    @property
    def expected(self) -> NDArray[np.floating]:
        """By fractions: numpy rounds each of them once to double, and once more."""
        found = np.empty(self.codes.shape, dtype=np.float64)
        for index, code in np.ndenumerate(self.codes):
            scale = self.scales[0 if self.axis is None else index[self.axis]]
            number = Fraction(float(int(code))) * Fraction(float(scale))
            found[index] = float(number)
        with np.errstate(over="ignore"):
            return found.astype(DTYPES[self.made])

    def function(self, name: str, permutation: tuple[int, ...]) -> str:
        shape = self.codes.shape
        moved = tuple(shape[axis] for axis in permutation)
        integers, floats = tensor(shape, f"i{self.width}"), tensor(shape, self.made)
        result, listed = tensor(moved, self.made), ", ".join(map(str, permutation))
        numbers = nested([str(code) for code in self.codes.ravel().tolist()], shape)
        scales = ", ".join(f"{scale:.17e}" for scale in self.scales)
        axis = "" if self.axis is None else f", axis = {self.axis} : i64"
        attributes = f"{{scales = dense<[{scales}]> : tensor<{len(self.scales)}xf64>{axis}}}"
        return (
            f"func.func @{name}() -> {result} {{\n"
            f"  %c = arith.constant dense<{numbers}> : {integers}\n"
            f"  %b = quant.dequantize_bias %c {attributes} : {integers} to {floats}\n"
            f"  %e = tensor.empty() : {result}\n"
            f"  %t = linalg.transpose ins(%b : {floats}) outs(%e : {result}) "
            f"permutation = [{listed}]\n"
            f"  return %t : {result}\n}}\n"
        )


@st.composite
def biases(draw: st.DrawFn, made: tuple[str, ...] = tuple(DTYPES)) -> Bias:
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    axis = draw(st.none() | st.integers(0, len(shape) - 1))
    width = draw(st.sampled_from([33, 40, 48, 63, 64]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bits = random.integers(-(1 << 63), (1 << 63) - 1, shape, dtype=np.int64, endpoint=True)
    codes = bits >> (64 - random.integers(1, width + 1, shape))
    count = 1 if axis is None else shape[axis]
    scales = random.uniform(0.5, 1.0, count) * 2.0 ** random.integers(-40, 4, count)
    return Bias(codes, width, scales, axis, draw(st.sampled_from(made)))


def printed(text: str, *passes: FoldQuantShapesPass | LowerQuantOpsPass) -> str:
    context = ToolContext()
    module = LocatingParser(context, text).parse_module()
    module.verify()
    for each in passes:
        each.apply(context, module)
        module.verify()
    stream = StringIO()
    MLIRPrinter(stream=stream).print_op(module)
    return stream.getvalue()


@examples(60)
@given(biases(), st.data())
def test_it_is_the_same_in_all_forms(bias: Bias, data: st.DataObject):
    permutation = tuple(data.draw(st.permutations(range(bias.codes.ndim))))
    text = bias.function("f", permutation)
    expected = bias.expected.transpose(permutation)
    folded = printed(text, FoldQuantShapesPass(verify="values"))
    assert "linalg.transpose" not in folded
    for form in (text, folded, printed(text, LowerQuantOpsPass())):
        module = LocatingParser(ToolContext(), form).parse_module()
        (value,) = run_function(module, "f")
        assert value.elements.tobytes() == np.ascontiguousarray(expected).tobytes()


@needs_mlir_runner
@examples(4, phases=[Phase.generate])
@given(st.lists(biases(("f32",)), min_size=8, max_size=8))
def test_compiled_it_is_the_same(drawn: list[Bias]):
    text, calls = "", list[str]()
    for number, bias in enumerate(drawn):
        shape, name = bias.codes.shape, f"f{number}"
        text += bias.function(name, tuple(range(len(shape))))
        floats, bits, wide = (tensor(shape, element) for element in ("f32", "i32", "i64"))
        calls += [
            f"%r{name} = func.call @{name}() : () -> {floats}",
            f"%b{name} = arith.bitcast %r{name} : {floats} to {bits}",
            f"%w{name} = arith.extsi %b{name} : {bits} to {wide}",
            f"%c{name} = tensor.cast %w{name} : {wide} to tensor<*xi64>",
            f"func.call @printMemrefI64(%c{name}) : (tensor<*xi64>) -> ()",
        ]
    results = run_main(printed(text, LowerQuantOpsPass()), calls, before=["--canonicalize"])
    for (shape, numbers), bias in zip(results, drawn, strict=True):
        assert shape == bias.codes.shape
        found = np.array(list(map(int, numbers)), dtype=np.int64).astype(np.int32)
        assert found.tolist() == bias.expected.view(np.int32).ravel().tolist(), bias


def test_a_difference_of_scales_is_found():
    """Also where the scale of a position is that of another one."""
    text = """
    func.func @f(%x: tensor<2xi64>) -> tensor<2xf32> {
      %0 = quant.dequantize_bias %x {scales = dense<[0.5, 0.25]> : tensor<2xf32>, axis = 0 : i64}
        : tensor<2xi64> to tensor<2xf32>
      return %0 : tensor<2xf32>
    }
    """
    assert _is_same(text, text)
    assert not _is_same(text, text.replace("0.5, 0.25", "0.25, 0.5"))
    one = text.replace("[0.5, 0.25]> : tensor<2xf32>, axis = 0 : i64", "0.5> : tensor<1xf32>")
    assert not _is_same(text, one)
    assert _is_same(text.replace("0.25", "0.5"), one)


def _is_same(one: str, other: str) -> bool:
    sides = list[Side]()
    for text in (one, other):
        context = ToolContext()
        sides.append(Side(LocatingParser(context, text).parse_module(), context))
    return not compare_modules(sides[0], sides[1]).findings
