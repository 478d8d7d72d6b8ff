"""A shape op of one operand that casts go above, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant.casts import CastOp, StorageCastOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.lazy_numpy import np
from qdialect.memo import Memo
from qdialect.movement import DYNAMIC, Movement, Pad, Shape, pulled_back
from qdialect.parameters import QuantizationParameters, StorageFormat
from qdialect.shape_folding.policy import FoldPolicy, spell
from qdialect.shape_op_interface import Code, NotFoldable
from qdialect.shape_sinking.moving_ops import Form, MovingOp, Scalar
from qdialect.slot_map import TooManySlotsError


@dataclass(frozen=True, eq=False)
class Link:
    """A shape op where some casts have gone above it."""

    moving: MovingOp

    before: Attribute
    """The element type of what is moved now."""

    form: Form
    """How it is made for that. Where no cast has gone above it, only the last type counts."""

    @classmethod
    def of(cls, moving: MovingOp, result: Attribute) -> Link:
        """An op as it is, of a result of element type `result`."""
        elements = (result,) * len(moving.movements)
        return cls(moving, moving.element, Form(elements, moving.padding))

    def below(self, cast: CastOp, element: Attribute) -> Link:
        """
        This op below `cast`, where its result has to be of element type `element`.

        Raises NotFoldable if there is no such op, or its elements would be others.
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

    def _new_positions(self, elements: Sequence[Attribute]) -> Iterator[_NewPositions]:
        """What each region reads that is padded, if elements are of these quantized types."""
        for movement, element, shape in zip(
            self.moving.movements, elements, self.moving.shapes, strict=True
        ):
            if isinstance(movement, Pad):
                assert isinstance(element, UniformQuantizedType)
                if DYNAMIC in shape:
                    raise NotFoldable(Code.DYNAMIC_SHAPE, "a length is only known at run time")
                parameters = element.parameters_on(shape)
                for _, read in movement.new_positions(parameters):
                    yield _NewPositions(element, read)

    def _check_padding(self, cast: CastOp, elements: Sequence[Attribute]) -> None:
        """Raise NotFoldable if `cast` makes something else of the padding than zero points."""
        padding = self.form.padding
        for new in self._new_positions(elements):
            if padding is None or not new.are_zero(cast, padding):
                raise NotFoldable(
                    Code.PADDING, f"it pads with what '{cast.name}' does not make zero points of"
                )

    def _padding_below(self, cast: CastOp, element: Attribute) -> Scalar | None:
        """What `cast` makes of zero points, one element for all. Raises NotFoldable."""
        if not any(isinstance(movement, Pad) for movement in self.moving.movements):
            return None
        is_stored = isinstance(cast, StorageCastOp)
        zero = IntegerAttr(0, element) if is_stored else FloatAttr(0.0, element)  # pyright: ignore[reportArgumentType, reportCallIssue]
        made = {new.made_by(is_stored=is_stored) for new in self._new_positions(self.form.elements)}
        if len(made) > 1 or None in made:
            raise NotFoldable(
                Code.PADDING, f"it pads with what '{cast.name}' does not make one element of"
            )
        if is_stored and made:
            return IntegerAttr(made.pop(), element)  # pyright: ignore[reportArgumentType, reportCallIssue]
        return zero


@dataclass(frozen=True, eq=False)
class _NewPositions:
    """A region that holds zero points, and what its elements read."""

    type: UniformQuantizedType
    parameters: QuantizationParameters

    def are_zero(self, cast: CastOp, padding: Scalar) -> bool:
        """Whether `cast` makes the zero points of `padding`."""
        low, high = self.type.storage_type_min, self.type.storage_type_max
        zero_points = self.parameters.expand()[1]
        if isinstance(cast, StorageCastOp):
            codes = self.parameters.storage.wrap(np.array(padding.value.data, dtype=np.int64))
        elif padding.value.data == 0:
            codes = self.parameters.store(np.zeros(()), low, high)
        else:
            # How that is rounded is not the same everywhere.
            return False
        return bool(
            (codes == zero_points).all()
            and (low <= zero_points).all()
            and (zero_points <= high).all()
        )

    def made_by(self, *, is_stored: bool) -> int | None:
        """The bits of what a cast makes of zero points: one for all, or None."""
        zero_points = self.parameters.expand()[1]
        if is_stored:
            signless = StorageFormat(self.parameters.storage.width, signed=True)
            made = np.unique(signless.wrap(zero_points))
        else:
            made = np.unique(np.ascontiguousarray(self.parameters.read(zero_points)).view(np.int64))
            if made.any():
                # Under a scale that is negative, or not finite.
                return None
        return int(made[0]) if len(made) == 1 else None


_KNOWN_TYPES = Memo[
    tuple[tuple[Movement, ...], tuple[Shape, ...], UniformQuantizedType], tuple[Attribute, ...]
]()


def _types_before(
    movements: tuple[Movement, ...], shapes: tuple[Shape, ...], element: UniformQuantizedType
) -> tuple[Attribute, ...]:
    """
    The types that movements of a tensor make `element` of: before the first, and after each.

    Raises NotFoldable if there are none, or they have too many scales.
    """
    if element.granularity is Granularity.PER_TENSOR:
        return (element,) * (len(movements) + 1)
    key = movements, shapes, element
    if (known := _KNOWN_TYPES.get(key)) is not None:
        return known
    if any(DYNAMIC in shape for shape in shapes):
        raise NotFoldable(Code.DYNAMIC_SHAPE, "a length is only known at run time")
    parameters = element.parameters_on(shapes[-1])
    types, slots = [element], element.scales.size
    for movement, shape in zip(reversed(movements), reversed(shapes[:-1]), strict=True):
        try:
            before = pulled_back(movement, parameters, shape)
            if before is None:
                raise NotFoldable(
                    Code.NOT_INVERTIBLE,
                    "no type of what it moves gives its result the scales that the cast needs",
                )
            type = spell(element, before, Granularity.SUB_CHANNEL)
        except TooManySlotsError as error:
            raise NotFoldable(Code.PARAMETER_GROWTH, str(error)) from None
        except VerifyException as error:
            raise NotFoldable(Code.ILLEGAL_TYPE, str(error)) from None
        FoldPolicy().check_parameters(type, shape, slots)
        types.append(type)
        parameters = before
    weight = sum(1 + type.scales.size for type in types)
    return _KNOWN_TYPES.add(key, tuple(reversed(types)), weight)
