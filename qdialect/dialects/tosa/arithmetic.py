"""Arithmetic in the ops of TOSA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from typing_extensions import override
from xdsl.dialects.builtin import IndexType, IntAttr, TensorType, i8
from xdsl.ir import Attribute, SSAValue

from qdialect.dialects.tosa.syntax import ShapeType
from qdialect.ir.elements import dense_elements
from qdialect.ops.fields import ArithmeticWriter, ReshapedElements
from qdialect.support.lazy_numpy import np


class TosaArithmetic(ArithmeticWriter):
    """Operands of arithmetic have equal ranks, and axes of length 1 are repeated."""

    floats = ("f16", "bf16", "f32")
    widths = (4, 8, 16, 32)

    @override
    def constant(self, elements: Any) -> SSAValue:
        return self.make("tosa.const", [], elements.type, {"values": elements})

    @override
    def spread(
        self, lengths: Sequence[int], elements: ReshapedElements, like: SSAValue
    ) -> SSAValue:
        return self.constant(elements(lengths))

    @override
    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        lengths = dense_elements(np.array(shape, dtype=np.int64), IndexType())
        type = ShapeType(IntAttr(len(shape)))
        new_shape = self.make("tosa.const_shape", [], type, {"values": lengths})
        result = TensorType(cast("TensorType[Attribute]", value.type).element_type, shape)
        return self.make("tosa.reshape", [value, new_shape], result, {})

    @override
    def convert(self, value: SSAValue, type: Attribute) -> SSAValue:
        return self.make("tosa.cast", [value], type, {})

    @override
    def subtract(self, value: SSAValue, other: SSAValue) -> SSAValue:
        return self.make("tosa.sub", [value, other], value.type, {})

    @override
    def multiply(self, value: SSAValue, other: SSAValue) -> SSAValue:
        shift = self.constant(dense_elements(np.zeros(1, dtype=np.int8), i8))
        return self.make("tosa.mul", [value, other, shift], value.type, {})

    @override
    def add(self, value: SSAValue, other: SSAValue) -> SSAValue:
        return self.make("tosa.add", [value, other], value.type, {})
