"""A shape op with one operand, as a link of a chain above which casts are hoisted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import DYNAMIC, Movement, Shape, pulled_back
from qdialect.algebra.padding import Pad, StorageRange, ZeroPoints
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.dialects.quant.casts import CastOp, RequantizeOp, StorageCastOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.folding.policy import FoldPolicy, spell
from qdialect.ops.interface import Refusal, RefusalCode
from qdialect.sinking.moving_ops import Form, MovingOp, Scalar
from qdialect.support.memory import BoundedCache


@dataclass(frozen=True, eq=False)
class Link:
    """A shape op, and its element types after casts have been hoisted above it."""

    moving: MovingOp

    before: Attribute
    """The element type of the operand after hoisting."""

    form: Form
    """How to rebuild the op on `before`. Until a cast is hoisted, only the last type is valid."""

    @classmethod
    def of(cls, moving: MovingOp, result: Attribute) -> Link:
        """An op before any cast is hoisted above it, with a result of element type `result`."""
        elements = (result,) * len(moving.movements)
        return cls(moving, moving.element, Form(elements, moving.padding))

    def below(self, cast: CastOp, element: Attribute) -> Link:
        """
        This op below `cast`, with a result of element type `element`.

        Raises Refusal if no such op exists, or if elements would change.
        """
        moving, padding = self.moving, None
        if isinstance(element, UniformQuantizedType):
            shapes = (*moving.operand_shapes, *moving.shapes)
            before, *elements = _types_before(moving.movements, shapes, element)
            self._check_padding(cast, elements)
        else:
            before, elements = element, [element] * len(moving.movements)
            padding = self._padding_below(cast, element)
        return Link(moving, before, moving.form([before], elements, padding))

    def _zero_points(self, elements: Sequence[Attribute]) -> Iterator[ZeroPoints]:
        """
        The padded regions, given the quantized element type after each movement. Raises
        Refusal.
        """
        for movement, element, shape in zip(
            self.moving.movements, elements, self.moving.shapes, strict=True
        ):
            if isinstance(movement, Pad):
                assert isinstance(element, UniformQuantizedType)
                if DYNAMIC in shape:
                    raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length is only known at run time")
                bounds = element.storage_type_min, element.storage_type_max
                range = StorageRange(element.storage_format, *bounds)
                yield from ZeroPoints.of(movement, element.parameters_on(shape), range)

    def _padded(self) -> Iterator[ZeroPoints]:
        """The padded regions above the cast. Raises Refusal."""
        return self._zero_points(self.form.elements)

    def _check_padding(self, cast: CastOp, elements: Sequence[Attribute]) -> None:
        """Raise Refusal unless `cast` maps the padding to the zero points."""
        padding = self.form.padding
        for new in self._zero_points(elements):
            if isinstance(cast, StorageCastOp) and isinstance(padding, IntegerAttr):
                is_exact = new.are_bits(padding.value.data)
            else:
                # Only 0.0 is quantized to the same integer under all rounding modes.
                is_zero = padding is not None and padding.value.data == 0
                if isinstance(cast, RequantizeOp):
                    is_zero = all(old.are_read_as_zero() for old in self._padded())
                is_exact = is_zero and new.are_quantized_zeros()
            if not is_exact:
                raise Refusal(
                    RefusalCode.PADDING, f"'{cast.name}' does not map its padding to zero points"
                )

    def _padding_below(self, cast: CastOp, element: Attribute) -> Scalar | None:
        """The single element to which `cast` maps all zero points. Raises Refusal."""
        if not any(isinstance(movement, Pad) for movement in self.moving.movements):
            return None
        regions = self._padded()
        if isinstance(cast, StorageCastOp):
            bits = {new.bits() for new in regions} or {0}
            if len(bits) == 1 and (single := bits.pop()) is not None:
                return IntegerAttr(single, element)  # pyright: ignore[reportArgumentType, reportCallIssue]
        elif all(new.are_read_as_zero() for new in regions):
            return FloatAttr(0.0, element)  # pyright: ignore[reportArgumentType, reportCallIssue]
        raise Refusal(
            RefusalCode.PADDING, f"'{cast.name}' does not map its padding to a single element"
        )


_KNOWN_TYPES = BoundedCache[
    tuple[tuple[Movement, ...], tuple[Shape, ...], UniformQuantizedType], tuple[Attribute, ...]
]()


def _types_before(
    movements: tuple[Movement, ...], shapes: tuple[Shape, ...], element: UniformQuantizedType
) -> tuple[Attribute, ...]:
    """
    The element types before the first and after each movement, given that the last is `element`.

    Raises Refusal if no such types exist, or if they have too many scales.
    """
    if element.granularity is Granularity.PER_TENSOR:
        return (element,) * (len(movements) + 1)
    key = movements, shapes, element
    if (known := _KNOWN_TYPES.get(key)) is not None:
        return known
    if any(DYNAMIC in shape for shape in shapes):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length is only known at run time")
    parameters = element.parameters_on(shapes[-1])
    types, slots = [element], element.scales.size
    for movement, shape in zip(reversed(movements), reversed(shapes[:-1]), strict=True):
        try:
            before = pulled_back(movement, parameters, shape)
            if before is None:
                raise Refusal(
                    RefusalCode.NOT_INVERTIBLE,
                    "no operand type gives its result the scales that the cast needs",
                )
            type = spell(element, before, Granularity.SUB_CHANNEL)
        except TooManySlotsError as error:
            raise Refusal(RefusalCode.PARAMETER_GROWTH, str(error)) from None
        except VerifyException as error:
            raise Refusal(RefusalCode.ILLEGAL_TYPE, str(error)) from None
        FoldPolicy().check_parameters(type, shape, slots)
        types.append(type)
        parameters = before
    weight = sum(1 + type.scales.size for type in types)
    return _KNOWN_TYPES.add(key, tuple(reversed(types)), weight)
