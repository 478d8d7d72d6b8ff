"""Ranges of an axis move with the elements: each element has the range that it had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from dequantizing_arithmetic import Array, Module, Text, bits_of, dense
from hypothesis import given, note
from hypothesis import strategies as st
from moved_texts import KEEP_SEPARABLE, reshaped
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation

from qdialect.dialects.quant import StatisticsOp
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass

pytestmark = pytest.mark.usefixtures("without_plugins")


@given(st.booleans(), st.data())
def test_each_element_keeps_its_range(is_separable: bool, data: st.DataObject):
    """Each element is a number of its own, by which the range of its position is known."""
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    numbers = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    lows = np.arange(shape[axis], dtype=np.float32) - 100
    low_of = dict(zip(numbers.ravel().tolist(), along(lows, axis, shape), strict=True))

    text = Text()
    of_axis = np.stack([lows, lows + 1000], axis=1)
    of_all = np.array([-100, 1000], np.float32)
    ranges = f"{{layerStats = {dense(of_all)}, axisStats = {dense(of_axis)}, axis = {axis} : i64}}"
    constant = text.constant(numbers, "stablehlo.constant")
    name, moved = text.emit(numbers, "quant.stats", constant, extra=ranges), numbers
    moves = KEEP_SEPARABLE if is_separable else (*KEEP_SEPARABLE, reshaped)
    for move in data.draw(st.lists(st.sampled_from(moves), min_size=1, max_size=3)):
        name, moved = move(text, name, moved, data)
    whole = text.function(name, moved)
    note(whole)
    before, after = Module(whole), Module(whole)
    after.run(FoldQuantShapesPass(verify="values"))
    note(after.printed())
    assert after.bits() == before.bits() == bits_of(moved)
    if is_separable:
        assert after.ops.count("quant.stats") == 1
        assert not {"stablehlo.transpose", "stablehlo.slice", "tosa.reverse"} & set(after.ops)

    (op,) = (op for op in after.module.walk() if isinstance(op, StatisticsOp))
    found = numbers_in(op.axis_stats).reshape(-1, 2)
    assert len(found) <= len(of_axis)
    assert (found[:, 1] - found[:, 0] == 1000).all()
    source = op.input.owner
    assert isinstance(source, Operation)
    elements = numbers_in(source.properties["value"])
    assert isinstance(op.axis, IntegerAttr)
    type = cast("TensorType[Attribute]", op.input.type)
    read = along(found[:, 0], op.axis.value.data, type.get_shape())
    assert [low_of[each] for each in elements.tolist()] == read


def numbers_in(attribute: Attribute | None) -> Array:
    """The elements of a dense attribute, in order, by xDSL."""
    assert isinstance(attribute, DenseIntOrFPElementsAttr)
    return np.array(list(cast("DenseIntOrFPElementsAttr[Any]", attribute).iter_values()))


def along(numbers: Array, axis: int, shape: Sequence[int]) -> list[float]:
    """A number for each position of an axis, at each element."""
    count = [1] * len(shape)
    count[axis] = len(numbers)
    return np.broadcast_to(numbers.reshape(count), shape).ravel().tolist()
