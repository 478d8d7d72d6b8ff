"""xDSL's builtin dialect, for contexts that share nothing with others."""

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
    What a `dense_resource` attribute stands for.

    As text it is `0x`, and the alignment and the elements in hexadecimal:
    https://mlir.llvm.org/docs/LangRef/#dialect-resources.
    """

    alignment: bytes
    """In bytes: an integer of four bytes, the least significant first. Fewer are malformed."""

    elements: bytes | memoryview
    """The elements as MLIR has them in memory."""

    @classmethod
    def of(cls, data: bytes) -> Blob:
        """The blob whose text `data` is, but for the hexadecimal digits."""
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
        """The text that stands for it."""
        return f"0x{self.alignment.hex()}{self.elements.hex()}".upper().replace("X", "x", 1)


class BlobStorage(OpAsmDialectInterface):
    """Keeps resources as bytes, not as text; what is not well-formed is kept as it is."""

    def __init__(self) -> None:
        super().__init__()
        self._blobs: dict[str, Blob] = {}

    def find(self, key: str) -> Blob | None:
        """The blob of that key; None if there is none, or its text is malformed."""
        return self._blobs.get(key)

    def keep(self, key: str, blob: Blob) -> None:
        """Keep a blob for a key that was declared."""
        self._blobs[key] = blob

    def forget(self, key: str) -> None:
        """Forget a key, as if it had not been declared."""
        self._blobs.pop(key, None)
        forget_resource(self, key)

    @override
    def parse_resource(self, key: str, val: str) -> None:
        """Keep a blob given as text. Raises ValueError if it is not hexadecimal."""
        super().parse_resource(key, val)
        self._blobs.pop(key, None)
        if (blob := Blob.from_text(val)) is not None:
            declare_resource(self, key)
            self.keep(key, blob)

    @override
    def lookup(self, key: str) -> str | None:
        """The text of a blob, if the key is known; empty if there is none."""
        blob = self._blobs.get(key)
        return super().lookup(key) if blob is None else blob.text

    def resources(self, keys: Iterable[str]) -> dict[str, Blob | str]:
        """
        What those of `keys` stand for that stand for something, in their order.

        Malformed blobs are texts.
        """
        found = ((key, self.find(key) or self.lookup(key)) for key in keys)
        return {key: resource for key, resource in found if resource}

    @override
    def build_resources(self, keys: Iterable[str]) -> dict[str, str]:
        """The texts of the blobs of those keys that have one."""
        return {key: text for key in keys if (text := self.lookup(key))}


def fresh_builtin() -> Dialect:
    """xDSL's dialect with resources of its own: xDSL has one place for all of a process."""
    return Dialect(
        "builtin",
        list(Builtin.operations),
        list(Builtin.attributes),
        [BlobStorage()],
    )
