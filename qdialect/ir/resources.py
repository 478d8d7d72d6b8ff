"""
The elements of `dense_resource` attributes, which are stored as blobs outside of the IR.

A blob is hexadecimal text: `0x`, four bytes of alignment, and the elements in MLIR's memory layout:
https://mlir.llvm.org/docs/LangRef/#dialect-resources.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Iterable
from typing import NamedTuple, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyDenseElement,
    Builtin,
    ComplexType,
    DenseResourceAttr,
    IndexType,
    ModuleOp,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute, Dialect

from qdialect.algebra.views import MAX_RANK, Elements, Splat, Unread, Values
from qdialect.ir.elements import (
    UnsupportedElementTypeError,
    dense_elements,
    element_dtype,
    memory_bytes,
    pack_elements,
    repeats,
    unpack_elements,
)
from qdialect.ir.value_types import element_type_or_self
from qdialect.ir.xdsl_private import declare_resource, forget_resource
from qdialect.support.lazy_numpy import np

ALIGNMENT_BYTES = 4


class Blob(NamedTuple):
    """
    The alignment and elements that a `dense_resource` attribute refers to.

    Its text is `0x`, followed by alignment and elements in hexadecimal:
    https://mlir.llvm.org/docs/LangRef/#dialect-resources.
    """

    alignment: bytes
    """
    The alignment in bytes, as a little-endian integer of four bytes. Fewer bytes are malformed.
    """

    elements: bytes | memoryview
    """The elements in MLIR's memory layout."""

    @classmethod
    def of(cls, data: bytes) -> Blob:
        """The blob whose hexadecimal text encodes `data`: alignment and elements."""
        return cls(data[:ALIGNMENT_BYTES], memoryview(data)[ALIGNMENT_BYTES:])

    @classmethod
    def from_text(cls, text: str) -> Blob | None:
        """The blob whose text is `text`; None if that is malformed."""
        if not text.startswith("0x"):
            return None
        try:
            return cls.of(binascii.unhexlify(text[len("0x") :]))
        except ValueError:
            return None

    @property
    def text(self) -> str:
        """MLIR's text for the blob."""
        return f"0x{self.alignment.hex()}{self.elements.hex()}".upper().replace("X", "x", 1)


class BlobStorage(OpAsmDialectInterface):
    """The resources of a context, stored as bytes; malformed ones are stored as their text."""

    def __init__(self) -> None:
        super().__init__()
        self._blobs: dict[str, Blob] = {}
        self.in_files = set[str]()
        """The keys of tensors that are in files, and have no blob."""

    def find(self, key: str) -> Blob | None:
        """The blob of `key`; None if there is none, or its text is malformed."""
        return self._blobs.get(key)

    def keep(self, key: str, blob: Blob) -> None:
        """Store the blob of a declared key."""
        self._blobs[key] = blob

    def forget(self, key: str) -> None:
        """Forget a key, as if it had not been declared."""
        self._blobs.pop(key, None)
        forget_resource(self, key)

    def keep_only(self, keys: Iterable[str]) -> None:
        """Forget all other keys."""
        for key in self._blobs.keys() - {*keys}:
            self.forget(key)

    @override
    def parse_resource(self, key: str, val: str) -> None:
        """Store a blob given as text. Raises ValueError if it is not hexadecimal."""
        super().parse_resource(key, val)
        self._blobs.pop(key, None)
        if (blob := Blob.from_text(val)) is not None:
            declare_resource(self, key)
            self.keep(key, blob)

    @override
    def lookup(self, key: str) -> str | None:
        """
        The text of the blob of `key`: empty if it has no blob, None if the key is not declared.
        """
        blob = self._blobs.get(key)
        return super().lookup(key) if blob is None else blob.text

    def resources(self, keys: Iterable[str]) -> dict[str, Blob | str]:
        """
        The blobs of `keys`, in their order, except keys without one.

        A malformed blob is given as its text.
        """
        resources = ((key, self.find(key) or self.lookup(key)) for key in keys)
        return {key: resource for key, resource in resources if resource}

    @override
    def build_resources(self, keys: Iterable[str]) -> dict[str, str]:
        """The text of each blob, for those of `keys` that have one."""
        return {key: text for key in keys if (text := self.lookup(key))}


def fresh_builtin() -> Dialect:
    """xDSL's builtin dialect with its own resources: xDSL's resources are global to the process."""
    return Dialect(
        "builtin",
        list(Builtin.operations),
        list(Builtin.attributes),
        [BlobStorage()],
    )


class ResourceBlobs:
    """
    The blobs of the `dense_resource` attributes of one context.

    A blob that does not certainly match its type cannot be read: see `read`.
    """

    def __init__(self, interface: OpAsmDialectInterface | None) -> None:
        self.interface = interface
        """The builtin dialect's store of resources; None if the dialect has none."""

    @classmethod
    def of(cls, context: Context) -> ResourceBlobs:
        """The blobs of `context`, whose builtin dialect is loaded if it is registered."""
        builtin = context.get_optional_dialect("builtin")
        return cls(builtin.get_interface(OpAsmDialectInterface) if builtin else None)

    def read(self, attribute: DenseResourceAttr) -> Elements | None:
        """
        The elements of `attribute`, of its shape, and of the dtype of its element type.

        A splat if all are equal, bit for bit. None if there is no blob (it may be elided), its
        text is malformed, the type is not a tensor or a vector of static shape whose elements
        xDSL can hold, or the number of bytes is wrong: each element takes as few bytes as its
        width needs, an i1 one byte. Also None if unused bits are set: the elements may be
        packed or sign-extended.
        """
        elements = self._elements_or_reason(attribute)
        return None if isinstance(elements, str) else elements

    def unread(self, attribute: DenseResourceAttr) -> Unread | None:
        """What is known of elements that are in a file; None for others."""
        key, type = attribute.resource_handle.data, attribute.type
        if not isinstance(self.interface, BlobStorage) or key not in self.interface.in_files:
            return None
        if self._blob_of(attribute) is not None or not isinstance(type, TensorType):
            return None
        try:
            dtype = element_dtype(cast(AnyDenseElement, type.get_element_type()))
        except UnsupportedElementTypeError:
            return None
        return Unread(type.get_shape(), dtype, key)

    def name(self, unread: Unread, type: AnyDenseElement) -> DenseResourceAttr:
        """An attribute for elements that are in a file, or will be, under their key."""
        assert isinstance(self.interface, BlobStorage)
        if unread.key not in self.interface.in_files:
            self.interface.in_files.add(unread.key)
            declare_resource(self.interface, unread.key)
        return DenseResourceAttr.from_params(unread.key, TensorType(type, unread.shape))

    def why_unreadable(self, attribute: DenseResourceAttr) -> str | None:
        """The reason why `read` returned None; None if there is no blob."""
        reason = self._elements_or_reason(attribute)
        return reason if isinstance(reason, str) else None

    def _elements_or_reason(self, attribute: DenseResourceAttr) -> Elements | str | None:
        blob, type = self._blob_of(attribute), attribute.type
        if blob is None:
            return None
        if self.alignment_of(attribute) is None:
            return "the blob of its constant does not start with an alignment"
        if not isinstance(type, TensorType | VectorType) or DYNAMIC_INDEX in type.get_shape():
            return f"the blob of its constant is of type '{type}'"
        element_type, shape = cast(TensorType[Attribute], type).element_type, type.get_shape()
        try:
            one = np.zeros(1, element_dtype(element_type))
            size = len(pack_elements(one, cast(AnyDenseElement, element_type)))
        except UnsupportedElementTypeError:
            size = None
        count = math.prod(shape)
        if size is not None and len(blob.elements) != count * size:
            return (
                f"the blob of its constant has {len(blob.elements)} bytes, but {count} elements of "
                f"type '{element_type}' have {count * size}"
            )
        elements = None
        if size is not None and len(shape) <= MAX_RANK:
            elements = _elements_in(blob.elements, cast(AnyDenseElement, element_type), shape)
        if elements is None:
            return f"the blob of its constant does not hold elements of type '{element_type}'"
        return elements

    def alignment_of(self, attribute: DenseResourceAttr) -> int | None:
        """The alignment of the blob in bytes, a power of two; None if there is no valid one."""
        blob = self._blob_of(attribute)
        if blob is None or len(blob.alignment) < ALIGNMENT_BYTES:
            return None
        alignment = int.from_bytes(blob.alignment, "little")
        return alignment if alignment.bit_count() == 1 else None

    def write(
        self, values: Values, type: AnyDenseElement, key: str, *, alignment: int | None = None
    ) -> DenseResourceAttr:
        """
        An attribute with a new blob of `values`, of the kinds that `dense_elements` accepts.

        Its key is `key`, with a suffix if that is taken. Splats are expanded: the caller limits
        their size. `alignment` is a power of two, by default that of an element. Raises
        ValueError for another alignment and if the context has no store of resources,
        UnsupportedElementTypeError, and TypeError for values of a wrong dtype.
        """
        if self.interface is None:
            raise ValueError("the context has no builtin dialect that keeps blobs")
        dtype = element_dtype(type)
        if alignment is None:
            alignment = 1 << min(dtype.itemsize - 1, 7).bit_length()
        if alignment.bit_count() != 1 or alignment >> (8 * ALIGNMENT_BYTES):
            raise ValueError(f"{alignment} is not an alignment")
        data = memory_bytes(values, type)
        if isinstance(values, Splat):
            data *= math.prod(values.shape)
        blob = Blob(alignment.to_bytes(ALIGNMENT_BYTES, "little"), data)
        key = self.interface.declare_resource(key)
        if isinstance(self.interface, BlobStorage):
            self.interface.keep(key, blob)
        else:
            self.interface.parse_resource(key, blob.text)
        return DenseResourceAttr.from_params(key, TensorType(type, values.shape))

    def _blob_of(self, attribute: DenseResourceAttr) -> Blob | None:
        key = attribute.resource_handle.data
        if isinstance(self.interface, BlobStorage):
            return self.interface.find(key)
        return Blob.from_text((self.interface.lookup(key) if self.interface else None) or "")


def _elements_in(
    data: bytes | memoryview, type: AnyDenseElement, shape: tuple[int, ...]
) -> Elements | None:
    """The elements of a blob of the right size; None if unused bits are set."""
    values = unpack_elements(data, type)
    if values is None or (_has_unused_bits(type) and pack_elements(values, type) != data):
        return None
    if data and repeats(data, len(data) // len(values)):
        return Splat(values[0], shape)
    return values.reshape(shape)


def _has_unused_bits(type: AnyDenseElement) -> bool:
    part = type.element_type if isinstance(type, ComplexType) else type
    return not isinstance(part, IndexType) and part.bitwidth % 8 != 0


def forget_unread(module: ModuleOp, blobs: ResourceBlobs) -> None:
    """Free the blobs that no attribute of an op in a module refers to, such as folded ones."""
    if isinstance(blobs.interface, BlobStorage):
        attributes = (
            attribute
            for op in module.walk()
            for attribute in (*op.properties.values(), *op.attributes.values())
        )
        blobs.interface.keep_only(
            attribute.resource_handle.data
            for attribute in attributes
            if isinstance(attribute, DenseResourceAttr)
        )


def take_in_resources(
    module: ModuleOp,
    blobs: ResourceBlobs,
    types: type[Attribute] | tuple[type[Attribute], ...] = Attribute,
) -> None:
    """
    Replace resource attributes by dense elements attributes, for element types of `types`.

    Raises ValueError for a resource that cannot be read.
    """
    for op in module.walk():
        for attributes in (op.properties, op.attributes):
            for key, attribute in attributes.items():
                if not isinstance(attribute, DenseResourceAttr):
                    continue
                type = cast(Attribute, attribute.type)
                element_type = element_type_or_self(type)
                if not isinstance(element_type, types):
                    continue
                values = blobs.read(attribute)
                if values is None or not isinstance(type, TensorType):
                    reason = blobs.why_unreadable(attribute) or "it has no blob"
                    raise ValueError(
                        f"{attribute} cannot become a dense elements attribute: {reason}; pass a "
                        "context to keep it as a resource"
                    )
                attributes[key] = dense_elements(values, cast(AnyDenseElement, element_type))
