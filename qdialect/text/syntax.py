"""
What a dialect says of the text of its ops: its `SYNTAX`, found by the name of the dialect.

It stands in `qdialect/dialects/<dialect>/syntax.py`, or, where that is short, beside the models in
`qdialect/dialects/<dialect>.py`, and is imported when a text first has an op of the dialect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

from typing_extensions import override
from xdsl.dialects.builtin import AnyDenseElement
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation
from xdsl.printer import Printer

from qdialect.ir.xdsl_private import rebuilt
from qdialect.support.memory import registered_cache


class Form(NamedTuple):
    """A row of a table: ops of one dialect with the same custom form."""

    names: str
    signature: str
    format: str
    """The parts of the ops, and the text: see `qdialect.text.op_formats`."""

    traits: str = ""
    """Of `isolated`, `no_terminator`, `symbol` and `terminator`."""

    defaults: tuple[tuple[str, str], ...] = ()
    """Properties and the values with which they are not printed, as text."""

    is_read_for_xdsl: bool = False
    """Whether xDSL has the ops, and reads their custom form only in part."""


def _verify(op: Operation, verify: Callable[[Operation], None]) -> None:
    verify(op)


@dataclass(frozen=True, kw_only=True)
class DialectSyntax:
    """The ops and the custom forms of a dialect that xDSL lacks."""

    dialect: str
    forms: Sequence[Form] = ()
    """The pages of the dialects of MLIR are below https://mlir.llvm.org/docs/Dialects/."""

    generic: str = ""
    """Ops that xDSL lacks, and that have no custom form."""

    ops: Sequence[type[Operation]] = ()
    """Classes of ops that xDSL lacks, or that replace xDSL's."""

    attributes: Sequence[type[Attribute]] = ()
    """Classes of types and attributes that xDSL lacks."""

    readers: Sequence[type[Operation]] = ()
    """Classes whose `parse` reads the custom form of the op of xDSL that has their name."""

    replaced: Mapping[str, tuple[str, str] | None] = field(
        default_factory=dict[str, tuple[str, str] | None]
    )
    """
    Ops with a form whose class in xDSL refuses IR that MLIR accepts: they are not verified.

    A property with another name in xDSL is an accessor of xDSL's class, and MLIR's name.
    """

    functions: str = ""
    """The functions, whose arguments and results may have attributes."""

    opaque: str = ""
    """Attributes and types of MLIR that xDSL's dialect lacks, which are kept as text."""

    prints: bool = False
    """Whether the ops of `forms` are printed in their custom form, where it can express them."""

    is_unregistered: bool = False
    """Whether no tool registers the dialect: the ops of `forms` are read as unregistered ones."""

    fits: Callable[[Operation], bool] = lambda op: True
    """Whether the custom form that xDSL prints holds all of an op."""

    verify: Callable[[Operation, Callable[[Operation], None]], None] = _verify
    """Verifies an op, given the verifier of its class. Raises VerifyException."""

    @cached_property
    def form_of(self) -> Mapping[str, Form]:
        """The form of each op of `forms`, by its full name."""
        rows = ((name, form) for form in self.forms for name in form.names.split())
        return {f"{self.dialect}.{name}": form for name, form in rows}

    def find_op(self, name: str) -> type[Operation] | None:
        """The class of an op that xDSL lacks; None if this syntax lacks it as well."""
        for op in self.ops:
            if op.name == name:
                return op
        form = self.form_of.get(name)
        if form is None and name.partition(".")[2] not in self.generic.split():
            return None
        # Deferred: few texts have such ops.
        from qdialect.text.op_formats import op_class

        return op_class(name, form, is_printed=self.prints)

    def reader_of(self, name: str, op_type: type[Operation]) -> type[Operation]:
        """The class that reads the custom form of an op: mostly its own, `op_type`."""
        for reader in self.readers:
            if reader.name == name:
                return reader
        form = self.form_of.get(name)
        if form is None or not (form.is_read_for_xdsl or self.is_unregistered):
            return op_type
        # Deferred: few texts have such ops.
        from qdialect.text.op_formats import FormattedOp, op_class

        is_own = issubclass(op_type, FormattedOp)
        return op_type if is_own else op_class(name, form, created=op_type)

    def has_function(self, name: str) -> bool:
        """Whether the op of a full name is a function."""
        return bool(self.functions) and name.partition(".")[2] in self.functions.split()

    def added_to(self, xdsl: Dialect) -> Dialect:
        """xDSL's dialect, with the classes of this syntax, which replace those of their names."""
        names = {f"{self.dialect}.{name}": renamed for name, renamed in self.replaced.items()}
        bases = [op for op in xdsl.operations if op.name in names]
        ops = (*self.ops, *(self._unverified(base, names[base.name]) for base in bases))
        return rebuilt(xdsl, ops, self.attributes)

    def _unverified(
        self, base: type[Operation], renamed: tuple[str, str] | None
    ) -> type[Operation]:
        """xDSL's class, with the form of the table and without its verifier."""
        form = self.find_op(base.name)
        assert form is not None

        def verify_(op: Operation) -> None:
            pass

        new_op: Any = type(base.__name__, (form, base), {"verify_": verify_})
        if renamed is not None:
            accessor, name = renamed
            setattr(new_op, accessor, property(lambda op: op.properties[name]))
            definition = cast("type[IRDLOperation]", base).get_irdl_definition()
            # It is an attribute in xDSL 0.73.
            properties: dict[str, Any] = {**definition.properties, **definition.attributes}
            mlir = replace(definition, properties={name: properties[accessor]}, attributes={})
            new_op.get_irdl_definition = classmethod(lambda _: mlir)
        return cast("type[Operation]", new_op)


@registered_cache
@cache
def syntax_of(dialect: str) -> DialectSyntax:
    """The syntax of a dialect; an empty one if xDSL has all of it, or nothing is known."""
    place = f"qdialect.dialects.{dialect}"
    spec = find_spec(place) if dialect.isidentifier() else None
    if spec is not None and spec.submodule_search_locations is not None:
        place += ".syntax"
        spec = find_spec(place)
    known = None if spec is None else getattr(import_module(place), "SYNTAX", None)
    return DialectSyntax(dialect=dialect) if known is None else known


def syntax_of_op(name: str) -> DialectSyntax:
    """The syntax of the dialect of an op."""
    return syntax_of(name.partition(".")[0])


class PrintedForm(StrEnum):
    """The form in which ops are printed, if their custom form holds all of them."""

    CUSTOM = "custom"
    """The custom form of xDSL."""

    AS_READ = "as-read"
    """The form in which an op was read; of an op that a pass made, the custom form."""

    LLVM24 = "llvm24"
    """
    The custom form, but the generic form of ops of LLVM whose custom form LLVM 24 rejects, and
    LLVM 22 accepts: those with properties in their attribute dictionary.
    """

    GENERIC = "generic"
    """The generic form."""


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
