"""Arithmetic in the ops of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from typing_extensions import override
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, i32, i64
from xdsl.ir import Attribute, SSAValue

from qdialect.algebra.movement import DYNAMIC
from qdialect.ir.elements import dense_elements
from qdialect.ops.fields import ArithmeticWriter, ReshapedElements
from qdialect.support.lazy_numpy import np


class StableHLOArithmetic(ArithmeticWriter):
    """Operands of arithmetic have equal shapes: a constant is broadcast by an op."""

    floats = ("f16", "bf16", "f32", "f64")
    widths = (2, 4, 8, 16, 32)
    has_bitcast = True

    @override
    def constant(self, elements: Any) -> SSAValue:
        return self.make("stablehlo.constant", [], elements.type, {"value": elements})

    @override
    def spread(
        self, lengths: Sequence[int], elements: ReshapedElements, like: SSAValue
    ) -> SSAValue:
        axes = [axis for axis, length in enumerate(lengths) if length > 1]
        small = self.constant(elements([lengths[axis] for axis in axes]))
        is_dynamic = DYNAMIC in cast("TensorType[Attribute]", like.type).get_shape()
        operands = [small, self._lengths(like)] if is_dynamic else [small]
        name = f"stablehlo.{'dynamic_' * is_dynamic}broadcast_in_dim"
        dims = {"broadcast_dimensions": DenseArrayBase.from_list(i64, axes)}
        return self.make(name, operands, like.type, dims)

    def _lengths(self, value: SSAValue) -> SSAValue:
        """The lengths of a tensor as a tensor of i32."""
        lengths = list[SSAValue]()
        for axis, length in enumerate(cast("TensorType[Attribute]", value.type).get_shape()):
            if length == DYNAMIC:
                dimension = {"dimension": IntegerAttr(axis, i64)}
                name = "stablehlo.get_dimension_size"
                number = self.make(name, [value], TensorType(i32, []), dimension)
                lengths.append(self.reshape(number, [1]))
            else:
                lengths.append(self.constant(dense_elements(np.array([length], np.int32), i32)))
        whole = TensorType(i32, [len(lengths)])
        return self.make(
            "stablehlo.concatenate", lengths, whole, {"dimension": IntegerAttr(0, i64)}
        )

    @override
    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        type = TensorType(cast("TensorType[Attribute]", value.type).element_type, shape)
        return self.make("stablehlo.reshape", [value], type, {})

    @override
    def convert(self, value: SSAValue, type: Attribute) -> SSAValue:
        return self.make("stablehlo.convert", [value], type, {})

    @override
    def subtract(self, value: SSAValue, other: SSAValue) -> SSAValue:
        return self.make("stablehlo.subtract", [value, other], value.type, {})

    @override
    def multiply(self, value: SSAValue, other: SSAValue) -> SSAValue:
        return self.make("stablehlo.multiply", [value, other], value.type, {})

    @override
    def add(self, value: SSAValue, other: SSAValue) -> SSAValue:
        return self.make("stablehlo.add", [value, other], value.type, {})

    @override
    def bitcast(self, value: SSAValue, type: Attribute) -> SSAValue:
        return self.make("stablehlo.bitcast_convert", [value], type, {})
