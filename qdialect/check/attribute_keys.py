"""
Keys of attributes and types, and the attributes that runs do not read.

Equal keys mean equal attributes, even across contexts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from io import StringIO
from typing import Any, Final, cast

from typing_extensions import override
from xdsl.dialects.arith import FastMathFlagsAttr, IntegerOverflowAttr
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    FloatAttr,
    FloatData,
    IntegerAttr,
    NoneAttr,
    TensorType,
    UnregisteredAttr,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, TypeAttribute

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.check.followed_elements import pieces_of, sample_positions
from qdialect.check.index_maps import NotCertifiableError, index_at
from qdialect.check.step_budget import StepBudget
from qdialect.check.value_nodes import SlotTable, storage_of, stores_the_same
from qdialect.dialects.quant.types import UniformQuantizedType, uniform_tensor
from qdialect.dialects.quant.verification import with_lengths_of_slots
from qdialect.ir.resources import Blob, BlobStorage, ResourceBlobs
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.interface import elements_attribute_of, is_cast, model_of
from qdialect.support.lazy_numpy import np
from qdialect.text.printer import MLIRPrinter
from qdialect.text.text_attributes import (
    BuiltinTextAttr,
    OpaqueTextAttr,
    OpaqueTextType,
    parts_of_text,
    resource_in,
)


class AttributeKeys:
    """
    The keys of the attributes of one module, except ignored ones.

    Numbers are keyed by their bits, resources by their content, and types by their meaning: see
    `TypeClasses`.
    """

    def __init__(
        self, types: TypeClasses, resources: ResourceBlobs, ignored: Collection[str] = ()
    ) -> None:
        self._types = types
        self._resources = resources
        self._ignored = frozenset(ignored)
        self._known: dict[int, tuple[Attribute, Hashable]] = {}
        """The compound attributes seen, with their keys, by `id`."""

    def ignoring_numbers(self, types: TypeClasses) -> AttributeKeys:
        """The keys of the attributes of the same module, with `types` that ignore numbers."""
        return AttributeKeys(types, self._resources, self._ignored)

    def of_op(self, op: Operation, *without: str) -> Hashable:
        """The key of all attributes and properties of an op, except those named in `without`."""
        # Generic form may have a property among the attributes.
        return self.of_names({**op.attributes, **op.properties}, *without)

    def of_names(self, attributes: Mapping[str, Attribute], *without: str) -> Hashable:
        """The key of a dictionary of attributes, except those named in `without`."""
        left_out = self._ignored.union(without)
        return tuple(
            (name, self.of(attribute))
            for name, attribute in sorted(attributes.items())
            if name not in left_out
        )

    def of(self, attribute: Attribute) -> Hashable:
        """
        The key of an attribute or a type: a number if it is compound.

        Raises NotCertifiableError for a resource without data.
        """
        # Looked up by id, not by value: 0.0 == -0.0, so attributes that contain floats may
        # compare equal.
        match attribute:
            case (
                FloatAttr()
                | IntegerAttr()
                | DenseArrayBase()
                | DenseIntOrFPElementsAttr()
                | DenseResourceAttr()
            ) if self._types.ignores_numbers:
                parts = attribute.parameters
                return attribute.name, tuple(
                    self.of(part) for part in parts if isinstance(part, TypeAttribute)
                )
            case FloatData():
                return "float", struct.pack("<d", attribute.data)
            case DenseResourceAttr():
                digest = self._digest(attribute.resource_handle.data)
                return "resource", self.of(cast(Any, attribute).type), digest
            case DictionaryAttr() | ArrayAttr() | ParametrizedAttribute():
                if (known := self._known.get(id(attribute))) is None:
                    known = self._known[id(attribute)] = attribute, self._of_parts(attribute)
                return known[1]
            case _:
                return attribute

    def _of_parts(
        self, attribute: DictionaryAttr | ArrayAttr[Attribute] | ParametrizedAttribute
    ) -> Hashable:
        match attribute:
            case UniformQuantizedType() | TensorType():
                return self._types.of(cast(Attribute, attribute), self)
            case DictionaryAttr():
                parts: Hashable = self.of_names(attribute.data)
            case ArrayAttr():
                parts = tuple(self.of(item) for item in attribute.data)
            case OpaqueTextAttr() | OpaqueTextType() | BuiltinTextAttr():
                texts = parts_of_text(attribute.text.data)
                parts = tuple(self._of_text(text, attribute.definitions) for text in texts)
                if isinstance(attribute, OpaqueTextAttr):
                    parts = (*parts, self.of(attribute.type))
            case UnregisteredAttr():
                if len(parts_of_text(attribute.value.data)) > 1:
                    # xDSL's own parser does not keep what the text names.
                    raise NotCertifiableError(f"'{attribute}' may name something that is not kept")
                # Each context creates its own class for each name.
                return "unregistered", attribute.parameters
            case ParametrizedAttribute():
                parts = tuple(self.of(part) for part in attribute.parameters)
        # Use a number, so that comparing enclosing keys does not compare the parts again.
        return "parts", self._types.number((type(attribute), parts))

    def _of_text(self, text: str, definitions: DictionaryAttr) -> Hashable:
        """The key of a part of an opaque text: what it names, or else the text."""
        if (definition := definitions.data.get(text)) is not None:
            return "alias", self.of(definition)
        key = resource_in(text)
        return text if key is None else ("resource", self._digest(key))

    def _digest(self, name: str) -> bytes:
        """A digest of a resource. Raises NotCertifiableError if its data is missing."""
        blob = blob_of(name, self._resources)
        if blob is None:
            # Equal names of handles do not imply equal data.
            raise NotCertifiableError(f"the data of resource '{name}' is missing")
        digest = blake2b(blob.alignment)
        digest.update(blob.elements)
        return digest.digest()


def blob_of(key: str, resources: ResourceBlobs) -> Blob | None:
    """The blob of a resource; None if it is missing or malformed."""
    interface = resources.interface
    blob = interface.find(key) if isinstance(interface, BlobStorage) else None
    if blob is None and interface is not None:
        blob = Blob.from_text(interface.lookup(key) or "")
    return blob


class TypeClasses:
    """
    Numbers for types: types with the same number mean the same, however their slots are spelled.

    Two quantized tensor types of one shape mean the same if they store the same integers, and
    each element has the same scale and zero point. With `ignores_numbers`, they may have other
    scales and zero points, and attributes may have other numbers.
    """

    def __init__(self, steps: StepBudget, *, ignores_numbers: bool = False) -> None:
        self._steps = steps
        self.ignores_numbers = ignores_numbers
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[Attribute, int]] = {}
        """The types seen, with their numbers, by `id`."""
        self._tensors: dict[Attribute, int] = {}
        self._tables: dict[int, list[tuple[SlotTable, int]]] = {}

    def of(self, type: Attribute, keys: AttributeKeys) -> int:
        """The number of a type. Raises StepLimitError."""
        if (known := self._known.get(id(type))) is not None:
            return known[1]
        is_flat = _is_flat(type)
        number = self._tensors.get(type) if is_flat else None
        if number is None:
            number = self._class_of(type, keys)
            if is_flat:
                self._tensors[type] = number
        self._known[id(type)] = type, number
        return number

    def _class_of(self, type: Attribute, keys: AttributeKeys) -> int:
        element_type = element_type_or_self(type)
        shape = assumed_shape(type)
        rest: Hashable = "scalar" if element_type is type else "unranked"
        if isinstance(type, TensorType):
            tensor = cast("TensorType[Attribute]", type)
            rest = tensor.get_shape(), keys.of(tensor.encoding)
        elif (ranked := shape_of(type)) is not None:
            # A registered tensor type: its other parameters are in its text.
            if not isinstance(element_type, UniformQuantizedType):
                return self.number(keys.of(type))
            rest = type.name, ranked
        if not isinstance(element_type, UniformQuantizedType):
            return self.number((rest, keys.of(element_type)))
        if self.ignores_numbers:
            return self.number((rest, storage_of(element_type)))
        try:
            table = SlotTable.of(element_type, shape)
            samples = sample_positions(math.prod(shape))
        except NotCertifiableError:
            return self.number((rest, element_type))
        scales, zero_points = table.at(samples)
        digest = blake2b(scales.tobytes())
        digest.update(zero_points.tobytes())
        # Tables are compared by positions, which mean the same in one shape only.
        bucket = self.number((rest, shape, storage_of(element_type), digest.digest()))
        tables = self._tables.setdefault(bucket, [])
        for other, number in tables:
            if self._are_equal(table, other, math.prod(shape)):
                return number
        tables.append((table, self.number((bucket, len(tables)))))
        return tables[-1][1]

    def _are_equal(self, one: SlotTable, other: SlotTable, size: int) -> bool:
        if one.is_one_for_all([other]) or one.is_spelled_as(other):
            return True
        for positions in pieces_of(size):
            self._steps.spend(len(positions))
            if one.differs_at(other, positions).any():
                return False
        return True

    def number(self, key: Hashable) -> int:
        """The number of a key, the same for both modules."""
        return self._numbers.setdefault(key, len(self._numbers))


def _is_flat(type: Attribute) -> bool:
    """Whether a type is looked up by value: it neither nests deeply nor names anything."""
    if not isinstance(type, TensorType):
        return isinstance(type, UniformQuantizedType)
    tensor = cast("TensorType[Attribute]", type)
    is_opaque = isinstance(tensor.element_type, UnregisteredAttr)
    return isinstance(tensor.encoding, NoneAttr) and not is_opaque


def assumed_shape(type: Attribute) -> Shape:
    """The shape of a type; dynamic lengths are those that the slots determine, or else 1."""
    shape = shape_of(type) or ()
    if isinstance(element_type_or_self(type), UniformQuantizedType) and shape:
        shape = with_lengths_of_slots(uniform_tensor(type))
    return tuple(1 if length == DYNAMIC else length for length in shape)


# Differences


class DifferenceError(Exception):
    """Two modules differ in meaning. The message says where."""


@contextmanager
def place(before: str = "", after: str = "") -> Generator[None]:
    """Extend the message of a DifferenceError raised in the block."""
    try:
        yield
    except DifferenceError as error:
        raise DifferenceError(f"{before}{error}{after}") from None


_LONGEST_TYPE: Final = 120


def require_same_type(
    before: Attribute, after: Attribute, keys: Sequence[AttributeKeys] | None = None
) -> None:
    """
    Raise DifferenceError unless both types mean the same, however they are spelled.

    `keys` are those of the two modules that the types belong to; None if they share a module.
    """
    # Compare keys, which are numbers: comparing nested types may take exponential time.
    if before == after if keys is None else keys[0].of(before) == keys[1].of(after):
        return
    types = [element_type_or_self(type) for type in (before, after)]
    shapes = [assumed_shape(type) for type in (before, after)]
    if (
        shapes[0] != shapes[1]
        or _without_slots(before) != _without_slots(after)
        or not all(isinstance(type, UniformQuantizedType) for type in types)
        or not stores_the_same(*types)
    ):
        raise DifferenceError(f" is of type {_short(after)}, but was of {_short(before)} before")
    old, new = (SlotTable.of(cast(UniformQuantizedType, type), shapes[0]) for type in types)
    if old.is_spelled_as(new):
        return
    for positions in pieces_of(math.prod(shapes[0])):
        wrong = old.differs_at(new, positions)
        if wrong.any():
            at = int(positions[np.argmax(wrong)])
            was, now = (_slot_text(table, at, ".6e") for table in (old, new))
            if was == now:
                was, now = (_slot_text(table, at, "") for table in (old, new))
            index = index_at(at, shapes[0])
            element = f" element {index}" if index else ""
            raise DifferenceError(f"{element} is read with {now}, but was with {was} before")


def _slot_text(table: SlotTable, position: int, digits: str) -> str:
    scales, zero_points = table.at(np.array([position], dtype=np.int64))
    return f"scale {scales.item():{digits}}, zero point {zero_points.item()}"


class _FullError(Exception):
    """The text has reached its maximum length."""


class _ShortStream(StringIO):
    """A stream of bounded length: printing a type with nested aliases may take exponential time."""

    @override
    def write(self, text: str, /) -> int:
        if self.tell() > _LONGEST_TYPE:
            raise _FullError
        return super().write(text)


def _short(type: Attribute) -> str:
    stream = _ShortStream()
    with suppress(_FullError):
        MLIRPrinter(stream).print_attribute(type)
    text = stream.getvalue()
    return f"'{text}'" if len(text) <= _LONGEST_TYPE else f"'{text[:_LONGEST_TYPE]}...'"


def _without_slots(type: Attribute) -> tuple[object, ...]:
    """The shape and encoding of a tensor type, empty for other types."""
    if not isinstance(type, TensorType):
        return ()
    tensor = cast("TensorType[Attribute]", type)
    return tensor.get_shape(), tensor.encoding


_UNREAD: Final = frozenset(
    {
        "acc_type",
        "algorithm",
        "exact",
        "fastmath",
        "indices_are_sorted",
        "isExact",
        "local_bound",
        "nneg",
        "nonNeg",
        "overflowFlags",
        "precision_config",
        "result_accuracy",
        "unique_indices",
    }
)
"""Properties of arith, stablehlo and tosa that permit other results, or make some undefined."""


def first_other_attribute(
    keys: Sequence[AttributeKeys], ops: Sequence[Iterable[Operation]]
) -> tuple[str, Operation] | None:
    """
    The first unread attribute that the ops of only one of two functions have, and its op.

    A discardable attribute counts only if both functions have one of that name, since passes may
    add and drop their own.
    """
    attributes = [_found_in(own, side) for own, side in zip(keys, ops, strict=True)]
    names = [{name for name, _ in keyed} for keyed in attributes]
    for at in (1, 0):
        for key, op in attributes[at].items():
            name = key[0]
            if key not in attributes[1 - at] and (name in _UNREAD or name in names[1 - at]):
                return name, op
    return None


_Found = Mapping[tuple[str, Hashable], Operation]


def _found_in(keys: AttributeKeys, ops: Iterable[Operation]) -> _Found:
    attributed = dict[tuple[str, Hashable], Operation]()
    for op in ops:
        attributes = {**op.attributes, **op.properties}
        unread = [name for name in attributes if name in _UNREAD or "." in name]
        # Shape ops, casts and constants are compared by their elements.
        if not unread or is_cast(op) or model_of(op) or elements_attribute_of(op):
            continue
        for name in unread:
            value = attributes[name]
            # The key is empty if the name is ignored.
            if not _says_nothing(value) and (key := keys.of_names({name: value})):
                attributed.setdefault((name, key), op)
    return attributed


def _says_nothing(value: Attribute) -> bool:
    """Whether an attribute is false, or has no flags."""
    match value:
        case IntegerAttr():
            return not value.value.data
        case FastMathFlagsAttr() | IntegerOverflowAttr():
            return not value.data
        case _:
            return False
