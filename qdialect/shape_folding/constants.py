"""Constant ops of any dialect: read as moved constants, and written like the one read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.elements import (
    MAX_REPEATED_ELEMENTS,
    DenseElementsAttr,
    UnsupportedElementTypeError,
    dense_elements,
    element_dtype,
    elements_of,
)
from qdialect.lazy_numpy import np
from qdialect.movement import Elements, Splat, Values
from qdialect.resources import ResourceBlobs
from qdialect.shape_folding.moved import Element, Layer, MovedConstant
from qdialect.shape_folding.provenance import Provenance
from qdialect.shape_op_interface import (
    Code,
    Movements,
    NotFoldable,
    ShapeOpModel,
    elements_attribute_of,
    find_attribute,
    integers_in,
    is_cast,
    name_of,
    read_movements,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OWN_CONSTANT = "quant.constant"

_NAME_OF_UNREGISTERED = "op_name__"
"""The attribute in which xDSL keeps the name of an op that is not registered."""


class Constants:
    """Reads constant ops, each once, and writes new ones."""

    def __init__(self, resources: ResourceBlobs) -> None:
        self._resources = resources
        self._read: dict[Operation, MovedConstant | NotFoldable] = {}

    def read(self, op: Operation) -> MovedConstant | None:
        """
        What a constant holds; None if `op` is not one.

        Raises NotFoldable if it is one whose elements are not known here.
        """
        found = self._read.get(op)
        if found is None:
            name = elements_attribute_of(op)
            if name is None:
                return None
            try:
                found = self._moved(op, name)
            except NotFoldable as error:
                found = error
            self._read[op] = found
        if isinstance(found, NotFoldable):
            raise found
        return found

    def _moved(self, op: Operation, name: str) -> MovedConstant:
        types = op.result_types
        if len(types) != 1 or not isinstance(types[0], TensorType):
            raise NotFoldable(Code.UNKNOWN_OP, "it is not a ranked tensor")
        type = cast("TensorType[Attribute]", types[0])
        values = self.elements(op, name)
        if values.shape != type.get_shape():
            raise NotFoldable(Code.UNKNOWN_OP, "its elements do not have the shape of its type")
        layers = (Layer.of(type.element_type, values.shape),)
        return MovedConstant(values, values.shape, layers, (), Provenance.of(op))

    def forget(self, op: Operation) -> None:
        """Keep the elements of `op` no longer, which has been erased."""
        self._read.pop(op, None)

    def elements(self, op: Operation, name: str) -> Elements:
        """The elements in an attribute of `op`. Raises NotFoldable."""
        attribute = find_attribute(op, name)
        values: Elements | None = None
        try:
            if isinstance(attribute, DenseIntOrFPElementsAttr):
                values = elements_of(cast(DenseElementsAttr, attribute))
            elif isinstance(attribute, DenseResourceAttr):
                values = self._resources.read(attribute)
        except UnsupportedElementTypeError as error:
            raise NotFoldable(Code.NOT_CONSTANT, str(error)) from None
        if values is None:
            raise NotFoldable(Code.NOT_CONSTANT, "the data of its constant is not here")
        return values

    def integers(self, op: Operation) -> NDArray[np.int64]:
        """The elements of a constant of integers. Raises NotFoldable."""
        name = elements_attribute_of(op)
        if name is None:
            raise NotFoldable(Code.DYNAMIC_SHAPE, f"'{name_of(op)}' makes what must be constant")
        return integers_in(self.elements(op, name))

    def element(self, value: SSAValue) -> Element:
        """A scalar constant, or what casts make of one. Raises NotFoldable."""
        op = value.owner
        if not isinstance(op, Operation):
            raise NotFoldable(Code.PADDING, "what is padded with is not constant")
        if is_cast(op):
            element = self.element(op.operands[0])
            layer = Layer.of(op.results[0].type, ())
            return Element(element.stored, layer, (*element.casts, name_of(op)))
        name = elements_attribute_of(op)
        attribute = find_attribute(op, name) if name is not None else None
        if not isinstance(attribute, IntegerAttr | FloatAttr):
            raise NotFoldable(Code.PADDING, "what is padded with is not constant")
        packable = cast(Any, attribute.type)
        try:
            dtype = element_dtype(packable)
        except UnsupportedElementTypeError as error:
            raise NotFoldable(Code.PADDING, str(error)) from None
        stored = np.frombuffer(packable.pack([attribute.value.data]), dtype=dtype)[0]
        return Element(stored, Layer.of(op.results[0].type, ()), ())

    def write(self, like: MovedConstant, types: Sequence[Attribute]) -> list[Operation]:
        """
        A constant of the elements of `like`, and its casts: of these types, one each.

        The constant is of the kind of the first source, and has the names and attributes
        of all; where several have one, that of the first.
        """
        sources = like.sources
        source = sources[0]
        name = cast(str, elements_attribute_of(source))
        properties, attributes = dict(source.properties), dict(source.attributes)
        for other in reversed(sources):
            # Sources may be of different kinds, with their elements among the attributes.
            own = (name, elements_attribute_of(other), _NAME_OF_UNREGISTERED)
            attributes |= {key: a for key, a in other.attributes.items() if key not in own}
        for held in (properties, attributes):
            if name in held:
                held[name] = self._rewritten(held[name], like.values, source)
        constant = type(source).create(
            result_types=[types[0]],
            properties=properties,
            attributes=attributes,
            location=source.location,
        )
        (result,) = constant.results
        names = [other.results[0].name_hint for other in sources]
        result.name_hint = next(filter(None, names), None)
        ops = [constant]
        for cast_op, result_type in zip(like.casts, types[1:], strict=True):
            new = type(cast_op).create(
                operands=[ops[-1].results[0]],
                result_types=[result_type],
                properties=cast_op.properties,
                attributes=cast_op.attributes,
                location=cast_op.location,
            )
            new.results[0].name_hint = cast_op.results[0].name_hint
            ops.append(new)
        return ops

    def _rewritten(self, old: Attribute, values: Values, source: Operation) -> Attribute:
        """An attribute of the kind of `old`, of other elements."""
        element_type = cast(Any, old).type.element_type
        is_small = not isinstance(values, Splat) or math.prod(values.shape) <= MAX_REPEATED_ELEMENTS
        if isinstance(old, DenseResourceAttr) and is_small:
            alignment = self._resources.alignment_of(old)
            key = old.resource_handle.data
            return self._resources.write(values, element_type, key, alignment=alignment)
        is_own = name_of(source) == _OWN_CONSTANT
        return dense_elements(values, element_type, repeat_splats=not is_own)


class ConstantOperands:
    """What is known of the operands of ops that are read: constants."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants

    def integers(self, value: SSAValue) -> NDArray[np.int64]:
        """The elements of an integer constant. Raises NotFoldable."""
        owner = value.owner
        if not isinstance(owner, Operation):
            raise NotFoldable(Code.DYNAMIC_SHAPE, "an argument says what must be constant")
        return self.constants.integers(owner)

    def read(self, op: Operation, model: ShapeOpModel) -> Movements:
        """What a shape op does. Raises NotFoldable."""
        types = op.result_types
        if len(types) != 1 or not isinstance(types[0], TensorType):
            raise NotFoldable(Code.UNKNOWN_OP, "its result is not a ranked tensor")
        return read_movements(op, model, self)
