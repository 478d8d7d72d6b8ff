"""
Integer arithmetic in ops of TOSA, as its profile `pro_int` has them.

https://www.mlplatform.org/tosa/tosa_spec.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    TensorType,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from qdialect.dialects.tosa.models import TosaArithmetic
from qdialect.dialects.tosa.syntax import RoundingModeAttr
from qdialect.ir.elements import dense_elements
from qdialect.support.lazy_numpy import NDArray, np

ZERO_SHIFT: Final = 128
"""What unsigned integers of 8 bits are more than the signed ones of their bits less the first."""


class TosaIntegers(TosaArithmetic):
    """Inserts integer arithmetic on tensors of 8 and 32 bits."""

    def integers(self, numbers: NDArray[Any], type: IntegerType) -> SSAValue:
        """A constant."""
        return self.constant(dense_elements(np.require(numbers, requirements="C"), type))

    def _of(self, value: SSAValue) -> TensorType[IntegerType]:
        return cast("TensorType[IntegerType]", value.type)

    def _point(self, zero: int, like: IntegerType) -> SSAValue:
        return self.integers(np.array([zero], f"i{like.bitwidth // 8}"), like)

    def convolution(
        self,
        image: SSAValue,
        weights: SSAValue,
        bias: SSAValue,
        zeros: tuple[int, int],
        windows: Sequence[tuple[int, int]],
        shape: Sequence[int],
        *,
        is_by_channel: bool,
    ) -> SSAValue:
        """
        Sums of 32 bits of an image (n, h, w, c) and weights (o, h, w, c), or (h, w, c, m).

        `windows` are strides and dilations, and `shape` is that of the result.
        """
        points = [self._point(zero, self._of(image).element_type) for zero in zeros]
        strides, dilations = ([pair[at] for pair in windows] for at in (0, 1))
        properties: dict[str, Attribute] = {
            "pad": DenseArrayBase.from_list(i64, [0] * 4),
            "stride": DenseArrayBase.from_list(i64, strides),
            "dilation": DenseArrayBase.from_list(i64, dilations),
            "acc_type": i32,
        }
        name = "tosa.depthwise_conv2d" if is_by_channel else "tosa.conv2d"
        operands = [image, weights, bias, *points]
        return self.make(name, operands, TensorType(i32, shape), properties)

    def matrices(self, lhs: SSAValue, rhs: SSAValue, zeros: tuple[int, int]) -> SSAValue:
        """Sums of 32 bits of products of matrices (n, m, k) and (n, k, c)."""
        points = [self._point(zero, self._of(lhs).element_type) for zero in zeros]
        batch, rows, _ = self._of(lhs).get_shape()
        type = TensorType(i32, [batch, rows, self._of(rhs).get_shape()[2]])
        return self.make("tosa.matmul", [lhs, rhs, *points], type, {})

    def rescale(
        self,
        value: SSAValue,
        m: NDArray[np.int64],
        shift: NDArray[np.int64],
        zeros: tuple[int, int],
        type: IntegerType,
        *,
        is_unsigned: tuple[bool, bool] = (False, False),
    ) -> SSAValue:
        """`((value - zero) * m + half) >> shift`, and the other zero: for all, or each channel."""
        source = self._of(value)
        properties: dict[str, Attribute] = {
            "scale32": BoolAttr.from_bool(True),
            "rounding_mode": RoundingModeAttr("SINGLE_ROUND"),
            "per_channel": BoolAttr.from_bool(m.size > 1),
            "input_unsigned": BoolAttr.from_bool(is_unsigned[0]),
            "output_unsigned": BoolAttr.from_bool(is_unsigned[1]),
        }
        operands = [
            value,
            self.integers(m.astype(np.int32), i32),
            self.integers(shift.astype(np.int8), i8),
            self._point(zeros[0], source.element_type),
            self._point(zeros[1], type),
        ]
        result = TensorType(type, source.get_shape())
        return self.make("tosa.rescale", operands, result, properties)

    def clamp(self, value: SSAValue, limits: tuple[int, int]) -> SSAValue:
        """Integers between two limits."""
        type = self._of(value).element_type
        ends = zip(("min_val", "max_val"), limits, strict=True)
        properties = {name: IntegerAttr(end, type) for name, end in ends}
        return self.make("tosa.clamp", [value], value.type, properties)

    def look_up(self, value: SSAValue, table: NDArray[Any]) -> SSAValue:
        """The elements of a table of 256, of which -128 reads the first one."""
        operands = [value, self.integers(table.astype(np.int8), i8)]
        return self.make("tosa.table", operands, value.type, {})

    def largest(
        self, value: SSAValue, kernel: Sequence[int], stride: Sequence[int], shape: Sequence[int]
    ) -> SSAValue:
        """The largest element in each window of an image (n, h, w, c)."""
        lists: Mapping[str, Sequence[int]] = {"kernel": kernel, "stride": stride, "pad": [0] * 4}
        properties = {key: DenseArrayBase.from_list(i64, numbers) for key, numbers in lists.items()}
        type = TensorType(self._of(value).element_type, shape)
        return self.make("tosa.max_pool2d", [value], type, properties)

    def reduced(self, name: str, value: SSAValue, axis: int) -> SSAValue:
        """The `sum`, `max` or `min` of the elements along an axis, which has length 1 then."""
        shape = [1 if at == axis else n for at, n in enumerate(self._of(value).get_shape())]
        type = TensorType(self._of(value).element_type, shape)
        return self.make(f"tosa.reduce_{name}", [value], type, {"axis": IntegerAttr(axis, i32)})
