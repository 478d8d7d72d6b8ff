"""
The base class of the ops of StableHLO in this package, with the checks that they share.

https://openxla.org/stablehlo/spec.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NoReturn, cast

from typing_extensions import override
from xdsl.dialects.builtin import I64, DenseArrayBase, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, traits_def
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.dialects.quant.slot_arrays import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.dialects.stablehlo.constraints import granularity_of
from qdialect.ir.errors import errors_of
from qdialect.ir.value_types import ValueKind, shape_of, tensor_element_type, verify_value_types


class StableHLOOp(IRDLOperation, ABC):
    """Base class of the ops, with the checks that they share."""

    KINDS: ClassVar[Sequence[ValueKind]]
    """The constraints on the operands, then the result."""

    traits = traits_def(NoMemoryEffect())

    @override
    def verify_(self) -> None:
        with errors_of(self):
            verify_value_types(self, self.KINDS)
        self._verify_meaning()

    @abstractmethod
    def _verify_meaning(self) -> None:
        """Raise VerifyException for errors other than the type of a single operand or result."""

    # StableHLO's messages name the op only in some cases.

    def _refuse(self, reason: str) -> NoReturn:
        raise VerifyException(f"'{self.name}' op {reason}")

    def _verify_same_element_type(self) -> None:
        types = {tensor_element_type(value.type) for value in (*self.operands, *self.results)}
        if len(types) > 1:
            self._refuse("requires the same element type for all operands and results")

    def _verify_compatible_element_types(self) -> None:
        """Element types are compatible if they differ only in slots and quantized dimension."""
        first, second = self._element_types()
        if isinstance(first, UniformQuantizedType) and isinstance(second, UniformQuantizedType):
            is_compatible = (
                first.has_same_values_as(second) and first.granularity is second.granularity
            )
        else:
            is_compatible = first == second
        if not is_compatible:
            self._refuse("requires compatible element types for all operands and results")

    def _verify_same_slots(self) -> None:
        first, second = self._element_types()
        if not isinstance(first, UniformQuantizedType):
            return
        second = cast(UniformQuantizedType, second)
        # For dynamic lengths, the numbers of slots may differ.
        both = np.s_[: min(first.scales.size, second.scales.size)]
        slots = [(type.scales.ravel(), type.zero_points.ravel()) for type in (first, second)]
        if all(np.array_equal(one[both], other[both]) for one, other in zip(*slots, strict=True)):
            return
        is_one = first.granularity is Granularity.PER_TENSOR
        noun = "scale and zero_point" if is_one else "scales and zero_points"
        raise VerifyException(
            f"expect same quantization {noun} but got '{self.operands[0].type}' vs "
            f"'{self.results[0].type}'"
        )

    def _verify_inferred_shape(self, shape: Shape) -> None:
        """Verify that the shape of the result is compatible with `shape`; both may be dynamic."""
        if not fits(shape, ranked_shape(self.results[0])):
            self._refuse_inferred(TensorType(self._element_types()[0], shape))

    def _refuse_inferred(self, type: Attribute) -> NoReturn:
        self._refuse(
            f"inferred type(s) '{type}' are incompatible with return type(s) of operation "
            f"'{self.results[0].type}'"
        )

    def _element_types(self) -> tuple[Attribute, Attribute]:
        """The element types of the first operand and the result."""
        return (
            tensor_element_type(self.operands[0].type),
            tensor_element_type(self.results[0].type),
        )

    def _quantized_dimensions(self) -> tuple[int, int] | None:
        """The quantized axes of the first operand and the result; None unless both are per-axis."""
        types = self._element_types()
        if not all(granularity_of(type) is Granularity.PER_AXIS for type in types):
            return None
        (first,), (second,) = (
            cast(UniformQuantizedType, type).quantized_dimensions for type in types
        )
        return first, second


def ranked_shape(value: SSAValue) -> Shape:
    """The shape of a ranked tensor."""
    return shape_of(value.type) or ()


def fits(shape: Shape, declared: Shape) -> bool:
    return len(shape) == len(declared) and all(
        DYNAMIC in pair or pair[0] == pair[1] for pair in zip(shape, declared, strict=True)
    )


def integers_of(array: DenseArrayBase[I64]) -> tuple[int, ...]:
    return tuple(array.get_values())


def listed(integers: Sequence[int]) -> str:
    return ", ".join(map(str, integers))
