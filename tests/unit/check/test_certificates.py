"""Every correct fold has a certificate, and no wrong fold has one."""

from __future__ import annotations

import io
import math
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from folded_modules import fold, parse, returned
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import Movement, Reverse, Slice, Transpose
from qdialect.algebra.padding import Real
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.check.index_maps import NotCertifiableError, moved_shape, origins
from qdialect.check.value_classes import first_difference
from qdialect.check.value_graph import GraphReader
from qdialect.folding import layers, plan, writing
from qdialect.folding import moved_constant as moved
from qdialect.ir.errors import OpErrors
from qdialect.ir.resources import ResourceBlobs
from qdialect.opt.opt import main
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.support.memory import BoundedCache
from qdialect.testing.movements import numpy_moves, unary_movements
from qdialect.testing.tensors import shapes

pytestmark = pytest.mark.usefixtures("without_plugins")

ROOT = Path(__file__).parents[3]

FOLDED_FILES = sorted(
    path
    for folder in ("passes/fold_quant_shapes", "passes/fold_constant_shapes", "interop")
    for path in (ROOT / "tests/filecheck" / folder).glob("*.mlir")
)


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(arguments)
    return status, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("path", FOLDED_FILES, ids=lambda path: path.stem)
def test_what_the_lit_tests_fold_is_certified(path: Path):
    flags = "--split-input-file", "--allow-unregistered-dialect", str(path)
    for name in ("fold-quant-shapes", "fold-constant-shapes"):
        plain = run(f"--{name}", *flags)
        assert run(f"--{name}=verify=structure", *flags) == plain
        assert run(f"--{name}=verify=values", *flags) == plain


# Where elements come from


@given(st.data())
def test_index_maps_are_what_numpy_does_to_positions(data: st.DataObject):
    shape = data.draw(shapes())
    movement = data.draw(unary_movements(shape))
    positions = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    moved = numpy_moves(movement, positions)
    assert moved_shape(movement, [shape]) == moved.shape
    start = data.draw(st.integers(0, moved.size))
    asked = np.arange(start, moved.size, dtype=np.int64)
    found = origins(movement, [shape], asked)
    assert np.array_equal(found.positions, moved.reshape(-1)[start:])


@given(st.data())
def test_several_operands(data: st.DataObject):
    first = data.draw(shapes(1))
    axis = data.draw(st.integers(0, len(first) - 1))
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    operands = [(*first[:axis], length, *first[axis + 1 :]) for length in lengths]
    arrays: list[NDArray[np.int64]] = [
        100000 * number + np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
        for number, shape in enumerate(operands)
    ]
    whole = np.concatenate(arrays, axis)
    found = origins(Concat(axis), operands, np.arange(whole.size))
    assert found.operands is not None
    assert moved_shape(Concat(axis), operands) == whole.shape
    assert np.array_equal(100000 * found.operands + found.positions, whole.reshape(-1))


def test_a_slice_that_is_inserted():
    movement = InsertSlice((1, 0), (2, 2), (1, 2))
    source, target = np.arange(4).reshape(2, 2), 100 + np.arange(15).reshape(5, 3)
    found = origins(movement, [source.shape, target.shape], np.arange(15))
    target[1:3, ::2] = source
    assert found.operands is not None
    assert np.array_equal(100 * found.operands + found.positions, target.reshape(-1))


def test_what_is_not_known_has_no_certificate():
    with pytest.raises(NotCertifiableError, match="no index map is registered for movement 'str'"):
        origins(cast(Movement, ""), [(2,)], np.arange(2))


# Folds that are wrong


CASTS = """
!rows = !quant.uniform<i8:f32:0, {0.5:1,0.25:3,2.0:-5}>
!groups = !quant.uniform<i8:f32:{0:1,1:2}, {{0.5:1,0.25:2},{2.0:3,4.0:4},{8.0:5,16.0:6}}>
func.func @f() -> tensor<%(result)sxf32> {
  %%w = arith.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]> : tensor<3x4xi8>
  %%q = quant.scast %%w : tensor<3x4xi8> to tensor<3x4x%(type)s>
  %%f = quant.dcast %%q : tensor<3x4x%(type)s> to tensor<3x4xf32>
  %(op)s
  return %%r : tensor<%(result)sxf32>
}
"""

TRANSPOSE = (
    "%e = tensor.empty() : tensor<4x3xf32>\n"
    "%r = linalg.transpose ins(%f : tensor<3x4xf32>) outs(%e : tensor<4x3xf32>) "
    "permutation = [1, 0]",
    "4x3",
)
SLICE = (
    "%r = tensor.extract_slice %f[0, 1] [2, 2] [1, 1] : tensor<3x4xf32> to tensor<2x2xf32>",
    "2x2",
)
REVERSE = "%r = tosa.reverse %f {axis = 0 : i32} : (tensor<3x4xf32>) -> tensor<3x4xf32>", "3x4"
CONCAT = (
    "%s = tensor.extract_slice %f[1, 0] [2, 4] [1, 1] : tensor<3x4xf32> to tensor<2x4xf32>\n"
    "%r = tensor.concat dim(0) %f, %s : (tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<5x4xf32>",
    "5x4",
)
RESHAPE = (
    "%r = tensor.expand_shape %f [[0], [1, 2]] output_shape [3, 2, 2] : tensor<3x4xf32> into "
    "tensor<3x2x2xf32>",
    "3x2x2",
)
PAD = (
    "%z = arith.constant 0.0 : f32\n"
    "%r = tensor.pad %f low[0, 1] high[0, 0] {\n^bb0(%i: index, %j: index):\n"
    "tensor.yield %z : f32\n} : tensor<3x4xf32> to tensor<3x5xf32>",
    "3x5",
)

Call = Callable[..., Any]
Wrong = Callable[[Call, Any, Sequence[Any]], Any]
"""A wrong replacement of a method, given the method, the movement, and the operands."""


def is_slots(operands: Sequence[Any]) -> bool:
    return isinstance(operands[0], QuantizationParameters)


def of_slots(wrong: Wrong) -> Wrong:
    """A mistake with the parameters alone."""
    return lambda call, self, operands: (
        wrong(call, self, operands) if is_slots(operands) else call(self, *operands)
    )


def of_data(wrong: Wrong) -> Wrong:
    """A mistake with the elements alone."""
    return lambda call, self, operands: (
        wrong(call, self, operands) if not is_slots(operands) else call(self, *operands)
    )


def backwards(call: Call, self: Any, operands: Sequence[Any]) -> Any:
    moved = call(self, *operands)
    return moved[(slice(None, None, -1), *(slice(None) for _ in moved.shape[1:]))]


def of_other_rows(call: Call, self: Any, operands: Sequence[Any]) -> Any:
    return call(self, operands[0][(slice(None, None, -1), slice(None))])


def from_the_start(call: Call, self: Any, operands: Sequence[Any]) -> Any:
    return call(replace(self, offsets=(0,) * len(self.offsets)), *operands)


def as_it_was(call: Call, self: Any, operands: Sequence[Any]) -> Any:
    return operands[0]


def first_again(call: Call, self: Any, operands: Sequence[Any]) -> Any:
    first = operands[0]
    rows = [first[(slice(0, of.shape[0]), slice(None))] for of in operands]
    return call(self, *rows)


@dataclass(frozen=True)
class Planted:
    """A mistake of the code that folds."""

    movement: type[Movement]
    wrong: Wrong
    op: tuple[str, str]
    element: str
    """The message about the first wrong element when values are verified."""
    is_in_structure: bool
    type: str = "!rows"


PLANTED = {
    "data not transposed as the slots": Planted(
        Transpose,
        of_data(backwards),
        TRANSPOSE,
        "element [0, 0] of the result is read as 1.5",
        False,
    ),
    "slots not transposed as the data": Planted(
        Transpose,
        of_slots(of_other_rows),
        TRANSPOSE,
        "element [0, 0] of the result is read as 12.0 (stored 1; scale 2.000000e+00, zero point "
        "-5), but element [0, 0] of %w is read as 0.0 (stored 1; scale 5.000000e-01, zero point 1)",
        True,
    ),
    "slice in a block that starts at the block": Planted(
        Slice,
        of_slots(from_the_start),
        SLICE,
        "element [0, 1] of the result is read as 1.0 (stored 3; scale 5.000000e-01, zero point 1), "
        "but element [0, 2] of %w is read as 0.25 (stored 3; scale 2.500000e-01, zero point 2)",
        True,
        "!groups",
    ),
    "slice that is off": Planted(
        Slice, of_data(from_the_start), SLICE, "element [0, 0] of the result is read as 0.0", False
    ),
    "slots not reversed": Planted(
        Reverse,
        of_slots(as_it_was),
        REVERSE,
        "element [0, 0] of the result is read as 4.0 (stored 9;",
        True,
    ),
    "elements not reversed": Planted(
        Reverse, of_data(as_it_was), REVERSE, "element [0, 0] of the result is read as 12.0", False
    ),
    "slots of the first operand for all": Planted(
        Concat,
        of_slots(first_again),
        CONCAT,
        "element [3, 0] of the result is read as 2.0 (stored 5; scale 5.000000e-01, zero point 1), "
        "but element [1, 0] of %w is read as 0.5 (stored 5; scale 2.500000e-01, zero point 3)",
        True,
    ),
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_a_planted_mistake_is_found(planted: Planted, monkeypatch: pytest.MonkeyPatch):
    body, result = planted.op
    text = CASTS % {"op": body, "result": result, "type": planted.type}
    fold(text, verify="values")
    right = planted.movement.__call__

    def wrong(self: Movement, *operands: Any) -> Any:
        return planted.wrong(right, self, operands)

    with monkeypatch.context() as patch:
        patch.setattr(planted.movement, "__call__", wrong)
        forget_what_was_folded(patch)
        with pytest.raises(OpErrors) as error:
            fold(text, verify="values")
        assert f"' op is folded wrongly: {planted.element}" in str(error.value)
        if planted.is_in_structure:
            with pytest.raises(OpErrors, match="is folded wrongly: element"):
                fold(text, verify="structure")
        else:
            fold(text, verify="structure")


def no_code(self: Real, parameters: QuantizationParameters | None) -> NDArray[Any]:
    return np.asarray(0)


def test_padding_that_is_no_zero_is_found(monkeypatch: pytest.MonkeyPatch):
    body, result = PAD
    text = CASTS % {"op": body, "result": result, "type": "!rows"}
    fold(text, verify="values")
    monkeypatch.setattr(Real, "codes", no_code)
    forget_what_was_folded(monkeypatch)
    fold(text, verify="structure")
    with pytest.raises(OpErrors) as error:
        fold(text, verify="values")
    assert "the result is read as -0.5 (stored 0; scale 5.000000e-01, zero point 1)" in str(
        error.value
    )
    assert "but the padding there is 0.0" in str(error.value)


def test_a_type_that_is_too_coarse_is_found(monkeypatch: pytest.MonkeyPatch):
    def first_slot(like: Any, parameters: Any, finest: Any) -> Any:
        return like.per_tensor(like.storage, like.expressed_type, *parameters.slot((0, 0)))

    body, result = TRANSPOSE
    monkeypatch.setattr(plan, "spell", first_slot)
    forget_what_was_folded(monkeypatch)
    for certificate in ("structure", "values"):
        with pytest.raises(OpErrors, match=r"element \[0, 1\] of the result is read"):
            fold(CASTS % {"op": body, "result": result, "type": "!rows"}, verify=certificate)


LARGE = 1 << 21


def large_text() -> str:
    data = np.arange(LARGE, dtype=np.uint32).astype(np.uint8).tobytes().hex().upper()
    wide = f"tensor<{LARGE // 512}x512x!quant.uniform<i8:f32, 0.5:3>>"
    tall = f"tensor<512x{LARGE // 512}x!quant.uniform<i8:f32, 0.5:3>>"
    return (
        f'func.func @f() -> {tall} {{\n%w = quant.constant dense<"0x{data}"> : {wide}\n'
        f"%t = quant.transpose %w permutation = [1, 0] : {wide} to {tall}\nreturn %t : {tall}\n}}"
    )


def test_the_last_element_of_a_large_constant_is_found(monkeypatch: pytest.MonkeyPatch):
    right = writing.dense_elements

    def with_another_end(*arguments: Any, **options: Any) -> Any:
        data = bytearray(right(*arguments, **options).data.data)
        data[-1] ^= 1
        return DenseIntOrFPElementsAttr(right(*arguments, **options).type, BytesAttr(bytes(data)))

    fold(large_text(), verify="values")
    monkeypatch.setattr(writing, "dense_elements", with_another_end)
    with pytest.raises(OpErrors, match=rf"element \[511, {LARGE // 512 - 1}\] of the result is"):
        fold(large_text(), verify="values")


def test_a_large_constant_is_compared_in_pieces():
    module, _ = parse(large_text())
    value = returned(module)[0]
    before, after = (GraphReader(ResourceBlobs(None)).read(value) for _ in range(2))
    tracemalloc.start()
    try:
        assert first_difference(before, after, with_data=True) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Of all elements, one array of doubles alone has 16 MiB.
    assert peak < 8 << 20


def test_the_tool_tells_where_and_writes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    source, target = tmp_path / "wrong.mlir", tmp_path / "out.mlir"
    body, result = PAD
    source.write_text(CASTS % {"op": body, "result": result, "type": "!rows"})
    monkeypatch.setattr(Real, "codes", no_code)
    forget_what_was_folded(monkeypatch)
    status, _, error = run("--fold-quant-shapes=verify=values", str(source), "-o", str(target))
    assert status == 1
    assert error.startswith(f"{source}:9:6: error: 'tensor.pad' op is folded wrongly: element")
    assert not target.exists()


def test_the_option_has_three_values():
    with pytest.raises(
        ValueError, match="verify must be one of none, structure, values, but is 'all'"
    ):
        FoldQuantShapesPass(verify="all")


def forget_what_was_folded(patch: pytest.MonkeyPatch) -> None:
    """Have the fold compute everything anew, and remember nothing of it."""
    patch.setattr(moved, "_KNOWN_MOVED_LAYERS", BoundedCache[Any, Any]())
    patch.setattr(layers, "_KNOWN_DECLARED", BoundedCache[Any, Any]())
    patch.setattr(plan, "_KNOWN_SPELLED", BoundedCache[Any, Any]())
