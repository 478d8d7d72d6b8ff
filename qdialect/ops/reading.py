"""Reads constants of any dialect, and the constant operands of shape ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.views import Elements
from qdialect.ir.elements import (
    DenseElementsAttr,
    UnsupportedElementTypeError,
    element_dtype,
    elements_of,
)
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import tensor_element_type, tensor_parts
from qdialect.ops.attributes import as_integers, held_elements, integers_in, integers_in_list
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    check_not_kept,
    elements_attribute_of,
    find_attribute,
    is_cast,
    is_list,
    name_of,
    read_movements,
)
from qdialect.ops.models import Movements, ShapeOpModel
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class StoredElement(NamedTuple):
    """One element of a constant, and the casts that it is read through."""

    stored: np.generic
    """The stored element, of the dtype of its element type."""

    type: Attribute
    """The type of the element after the casts."""

    casts: tuple[Operation, ...]
    """The casts, starting at the constant."""


class Constants:
    """The elements of constant ops, each read once."""

    def __init__(self, resources: ResourceBlobs) -> None:
        self.resources = resources
        self._read: dict[Operation, Elements | Refusal] = {}
        self._shapes: dict[Operation, NDArray[np.integer[Any]]] = {}
        """The integers of scalar constants."""

    def read(self, op: Operation) -> Elements | None:
        """
        The elements of a constant, of the shape of its result; None if `op` is not a constant.

        Raises Refusal if the elements are not known, or do not have that shape.
        """
        found = self._read.get(op)
        if found is None:
            name = elements_attribute_of(op)
            if name is None:
                return None
            try:
                found = self._tensor(op, name)
            except Refusal as error:
                found = error
            self._read[op] = found
        if isinstance(found, Refusal):
            raise found
        return found

    def _tensor(self, op: Operation, name: str) -> Elements:
        results = op.results
        parts = tensor_parts(results[0].type) if len(results) == 1 else None
        if parts is None:
            raise Refusal(RefusalCode.UNKNOWN_OP, "it is not a ranked tensor")
        values = self.elements(op, name)
        if values.shape != parts.shape:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its elements do not have the shape of its type")
        return values

    def forget(self, op: Operation) -> None:
        """Forget the elements of `op`: erasing the op then frees them."""
        self._read.pop(op, None)
        self._shapes.pop(op, None)

    def elements(self, op: Operation, name: str) -> Elements:
        """The elements in the attribute `name` of `op`. Raises Refusal."""
        attribute = find_attribute(op, name)
        if attribute is None:
            attribute = held_elements(op)
        values: Elements | None = None
        try:
            if isinstance(attribute, DenseIntOrFPElementsAttr):
                values = elements_of(cast(DenseElementsAttr, attribute))
            elif isinstance(attribute, DenseResourceAttr):
                values = self.resources.read(attribute)
        except UnsupportedElementTypeError as error:
            raise Refusal(RefusalCode.NOT_CONSTANT, str(error)) from None
        if values is not None:
            return values
        if isinstance(attribute, DenseResourceAttr):
            wrong = self.resources.why_unreadable(attribute)
            if wrong is not None:
                raise Refusal(RefusalCode.NOT_CONSTANT, wrong)
        raise Refusal(RefusalCode.NOT_CONSTANT, "the data of its constant is missing")

    def integers(self, op: Operation) -> NDArray[np.integer[Any]]:
        """The elements of a constant of integers: see `integers_in`. Raises Refusal."""
        if (known := self._shapes.get(op)) is not None:
            return known
        name = elements_attribute_of(op)
        if name is None:
            raise Refusal(
                RefusalCode.DYNAMIC_SHAPE,
                f"an operand that must be constant is a result of '{name_of(op)}'",
            )
        parts = tensor_parts(op.results[0].type)
        if parts is not None and (values := self.read(op)) is not None:
            return integers_in(values, parts.element_type)
        attribute = find_attribute(op, name)
        if isinstance(attribute, IntegerAttr):
            type = cast(Any, attribute.type)
            return as_integers(np.asarray(attribute.value.data), type)
        # The type of a tosa shape is not a tensor type.
        held = tensor_element_type(cast(Any, attribute).type)
        found = self._shapes[op] = integers_in(self.elements(op, name), held)
        return found

    def element(self, value: SSAValue) -> StoredElement:
        """A scalar constant, through the casts that it is read with. Raises Refusal."""
        op = value.owner
        if not isinstance(op, Operation):
            raise Refusal(RefusalCode.PADDING, "the padding is not constant")
        if is_cast(op):
            element = self.element(op.operands[0])
            return StoredElement(element.stored, op.results[0].type, (*element.casts, op))
        name = elements_attribute_of(op)
        attribute = find_attribute(op, name) if name is not None else None
        if not isinstance(attribute, IntegerAttr | FloatAttr):
            raise Refusal(RefusalCode.PADDING, "the padding is not constant")
        packable = cast(Any, attribute.type)
        try:
            dtype = element_dtype(packable)
        except UnsupportedElementTypeError as error:
            raise Refusal(RefusalCode.PADDING, str(error)) from None
        stored = np.frombuffer(packable.pack([attribute.value.data]), dtype=dtype)[0]
        return StoredElement(stored, op.results[0].type, ())


class ConstantOperands:
    """The constant operands of a shape op, such as offsets."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants

    def integers(self, value: SSAValue) -> NDArray[np.integer[Any]]:
        """The elements of an integer constant: see `integers_in`. Raises Refusal."""
        owner = value.owner
        if not isinstance(owner, Operation):
            raise Refusal(
                RefusalCode.DYNAMIC_SHAPE, "an operand that must be constant is an argument"
            )
        if is_list(owner):
            return integers_in_list(owner, self)
        return self.constants.integers(owner)

    def read(self, op: Operation, model: ShapeOpModel) -> Movements:
        """The effect of a shape op that may be folded. Raises Refusal."""
        check_not_kept(op)
        results = op.results
        if len(results) != 1 or tensor_parts(results[0].type) is None:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its result is not a ranked tensor")
        return read_movements(op, model, self)
