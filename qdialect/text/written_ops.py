"""Base classes of ops that say how they are read and written, and the forms in which they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from functools import cache

from typing_extensions import override
from xdsl.dialects.builtin import AnyDenseElement
from xdsl.irdl import IRDLOperation
from xdsl.printer import Printer

from qdialect.support.memory import registered_cache


class PrintedForm(StrEnum):
    """The form in which ops are printed, if their custom form holds all of them."""

    CUSTOM = "custom"
    """The custom form of xDSL."""

    AS_READ = "as-read"
    """The form in which an op was read; of an op that a pass made, the custom form."""

    LLVM22 = "llvm22"
    """The custom form. What LLVM 22 does not have is an error."""

    LLVM24 = "llvm24"
    """
    The custom form, but the generic form of ops of LLVM whose custom form LLVM 24 rejects, and
    LLVM 22 accepts: those with properties in their attribute dictionary. What LLVM 24 does not have
    is an error.
    """

    GENERIC = "generic"
    """The generic form."""

    @property
    def reader(self) -> str | None:
        """What the text is for; None if that is not said."""
        return _READERS.get(self)


_READERS = {PrintedForm.LLVM22: "LLVM 22", PrintedForm.LLVM24: "LLVM 24"}


class KnowsItsForms:
    """A base class of operations that know what their custom form holds, and who reads it."""

    @property
    def has_custom_form(self) -> bool:
        """Whether a custom form holds all of the operation; or else the generic form is printed."""
        return True

    @property
    def is_form_of_llvm22(self) -> bool:
        """Whether LLVM 24 rejects the custom form."""
        return False


class OwnForm(ABC):
    """
    A base class of operations whose custom form this package's printer writes.

    xDSL's printers write generic form, which also expresses ops that the custom form cannot.
    """

    @abstractmethod
    def own_form(self) -> Callable[[Printer], object] | None:
        """What prints the op after its name; None if its custom form cannot express it."""


class ReadsItsLine:
    """A base class of operations whose `parse` reads nothing but the line of the operation."""


class ListsElements(ReadsItsLine, ABC):
    """A base class of operations whose line may list the elements of a constant."""

    @property
    @abstractmethod
    def listed_type(self) -> AnyDenseElement:
        """The type of the numbers in the list."""


@registered_cache
@cache
def with_later_properties(op_type: type[IRDLOperation]) -> type[IRDLOperation]:
    """
    A subclass of `op_type` that also accepts properties of later versions of MLIR.

    These may be any attributes. With one of them, the op has no custom form.
    """
    known = op_type.get_irdl_definition().properties.keys()

    class LaterOp(op_type, KnowsItsForms):
        @property
        @override
        def has_custom_form(self) -> bool:
            """Whether the op has no such properties."""
            return self.properties.keys() <= known

        @override
        def verify_(self) -> None:
            properties = self.properties
            self.properties = {name: properties[name] for name in properties if name in known}
            try:
                super().verify_()
            finally:
                self.properties = properties

    LaterOp.__name__ = op_type.__name__
    return LaterOp
