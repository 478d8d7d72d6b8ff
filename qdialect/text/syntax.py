"""
What a dialect says of the text of its ops: its `SYNTAX`, found by the name of the dialect.

It stands in `qdialect/dialects/<dialect>/syntax.py`, or, where that is short, beside the models in
`qdialect/dialects/<dialect>.py`, and is imported when a text first has an op of the dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation

from qdialect.ir.xdsl_private import rebuilt
from qdialect.support.memory import registered_cache


@dataclass(frozen=True, kw_only=True)
class DialectSyntax:
    """The ops and the custom forms of a dialect that xDSL lacks."""

    dialect: str
    forms: Mapping[str, str] = field(default_factory=dict[str, str])
    """
    The custom forms of ops: a key is the name of an op, or several that have one form. An empty
    form is that of ops which have none.

    `qdialect.text.op_formats` describes the language of the forms. The pages of the dialects of
    MLIR are below https://mlir.llvm.org/docs/Dialects/.
    """

    defaults: tuple[tuple[str, str], ...] = ()
    """Properties and the values with which forms do not print them, as text."""

    terminators: str = ""
    """The ops of `forms` that end a block."""

    read_in_part: str = ""
    """The ops of `forms` that xDSL has, and whose custom form it reads only in part."""

    without_attributes: str = ""
    """The ops whose attributes are lost or misplaced in the custom form that xDSL prints."""

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

    flags: str = ""
    """The property that no attribute of its name sets, in MLIR."""

    read_flags: Callable[[IRDLOperation, Collection[str]], None] = lambda op, in_brackets: None
    """
    Writes the property `flags` of an op in generic form as its class in xDSL has it.

    The second argument has the names in `<{...}>`.
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
    """Whether the custom form that xDSL prints holds all of an op but for its attributes."""

    verify: Callable[[Operation, Callable[[Operation], None]], None] = lambda op, verify: verify(op)
    """Verifies an op, given the verifier of its class. Raises VerifyException."""

    @cached_property
    def form_of(self) -> Mapping[str, str]:
        """The form of each op of `forms`, by its full name."""
        rows = ((name, form) for names, form in self.forms.items() for name in names.split())
        return {f"{self.dialect}.{name}": form for name, form in rows}

    def find_op(self, name: str) -> type[Operation] | None:
        """The class of an op that xDSL lacks; None if this syntax lacks it as well."""
        for op in self.ops:
            if op.name == name:
                return op
        return self._class_of(name) if name in self.form_of else None

    def reader_of(self, name: str, op_type: type[Operation]) -> type[Operation]:
        """The class that reads the custom form of an op: mostly its own, `op_type`."""
        for reader in self.readers:
            if reader.name == name:
                return reader
        is_read = self.is_unregistered or self._has(self.read_in_part, name)
        if name not in self.form_of or not is_read:
            return op_type
        # Deferred: few texts have such ops.
        from qdialect.text.op_formats import FormattedOp

        return op_type if issubclass(op_type, FormattedOp) else self._class_of(name, op_type)

    def _class_of(self, name: str, created: type[Operation] | None = None) -> type[Operation]:
        # Deferred: few texts have such ops.
        from qdialect.text.op_formats import op_class

        return op_class(
            name,
            self.form_of[name],
            self.defaults,
            created=created,
            is_printed=self.prints and created is None,
            is_terminator=self._has(self.terminators, name),
        )

    @staticmethod
    def _has(names: str, name: str) -> bool:
        return name.partition(".")[2] in names.split()

    def fits_form(self, op: Operation) -> bool:
        """Whether the custom form that xDSL prints holds all of an op."""
        return self.fits(op) and not (op.attributes and self._has(self.without_attributes, op.name))

    def has_function(self, name: str) -> bool:
        """Whether the op of a full name is a function."""
        return bool(self.functions) and self._has(self.functions, name)

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
