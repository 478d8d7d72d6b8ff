"""Resources of the builtin dialect, held as bytes and per context."""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from typing import NamedTuple

from typing_extensions import override
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Dialect

from qdialect.ir.xdsl_private import declare_resource, forget_resource

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
        found = ((key, self.find(key) or self.lookup(key)) for key in keys)
        return {key: resource for key, resource in found if resource}

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
