"""A printer of MLIR text that writes the elements of constants as MLIR does."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    FusedLoc,
    IntegerAttr,
    ModuleOp,
    NoneAttr,
)
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.errors import OpErrors
from qdialect.ir.names import names_in, numbered_name
from qdialect.ir.resources import Blob, BlobStorage
from qdialect.ir.xdsl_private import OpenPrinter
from qdialect.support.memory import MemoryLimitError
from qdialect.support.text import LONG_TEXT, TextBuffer
from qdialect.text.messages import is_of_llvm
from qdialect.text.plain_lists import text_of_plain_list
from qdialect.text.syntax import syntax_of_op
from qdialect.text.text_attributes import aliases_named_by, fused_in_parts
from qdialect.text.written_ops import KnowsItsForms, OwnForm, PrintedForm

MAX_REPETITION = 1 << 30
"""
The maximum number of characters printed for parts of attributes that were printed before. Only
aliases of aliases, which may expand to 2**n characters, exceed it.
"""


_OF_LLVM: Final = frozenset({"quant.dcast", "quant.qcast", "quant.scast"})
"""The ops of quant that LLVM has."""

_SIGNATURE_ATTRIBUTES: Final = ("arg_attrs", "res_attrs")
"""The lists of attributes of the arguments and results of a function."""


_UNKNOWN_PROPERTIES: Final = frozenset({"alignment", "memory_space", "no_inline", "nontemporal"})
"""Properties of MLIR's ops that are attributes of xDSL's."""


class _Text(NamedTuple):
    """The text of an attribute."""

    attribute: Attribute
    """Held, which prevents reuse of its id."""

    text: str

    repetition: int
    """The number of characters for parts that were printed before."""


_MAX_LENGTH: Final = 1 << 24
"""The number of characters that are kept of the texts of attributes."""

_LENGTH_OF_NONE: Final = 64
"""What an empty text counts."""


@dataclass(eq=False, repr=False)
class MLIRPrinter(OpenPrinter):
    """
    xDSL's printer, with MLIR's text for the elements of dense attributes.

    The elements are MLIR's byte for byte: `mlir-opt` reads them as the same elements, down to
    the payload of a NaN and the sign of a zero. An operation is printed in generic form if
    xDSL's custom form would lose a part of it, or cannot be printed.

    Text is written to the stream after each operation, or in large pieces. After an error, what is
    not written yet is dropped.
    """

    form: PrintedForm = PrintedForm.CUSTOM
    """The form of ops; generic, if `print_generic_format` is set."""

    read_as_generic: Callable[[Operation], bool] = field(default=lambda _: False)
    """Whether an op was read in generic form, for `PrintedForm.AS_READ`."""

    _texts: dict[tuple[int, bool], _Text] = field(
        default_factory=dict[tuple[int, bool], _Text], init=False
    )
    """
    The texts of attributes, by their identity, and whether they are in a location.

    Comparing two equal attributes takes as long as printing them. A location has another text
    inside a location.
    """
    _length: int = field(default=0, init=False)
    """The number of characters of `_texts`."""

    _depth: int = field(default=0, init=False)
    """The nesting depth of the attribute that is being printed."""
    _repetition: int = field(default=0, init=False)
    """The number of characters printed for parts of attributes that were printed before."""

    _is_own: bool = field(default=False, init=False)
    """Whether the op is one of quant, whose attributes are sorted by name, as in MLIR."""
    _top: Operation | None = field(default=None, init=False)
    _taken: frozenset[str] | None = field(default=None, init=False)
    """The names in `_top`, which no other value gets; None until a name is made unique."""

    _in_dictionary: Collection[str] = field(default=(), init=False)
    """The names in the last dictionary of attributes of an op."""

    # Text

    def print_ascii(self, text: memoryview) -> None:
        """
        Print an ASCII piece of a line; a long one is written directly to the file, if there is one.

        Raises OSError if it cannot be written.
        """
        if len(text) <= LONG_TEXT:
            self.print_string(str(text, "ascii"))
            return
        self.skip_columns(len(text))
        self.flush()
        stream = self.stream if self.buffer is None else self.buffer.stream
        stream = sys.stdout if stream is None else stream
        if (file := getattr(stream, "buffer", None)) is None:
            stream.write(str(text, "ascii"))
        else:
            stream.flush()
            file.write(text)

    def flush(self) -> None:
        """Write buffered text to the stream. Raises OSError if the stream does."""
        if self.buffer is not None:
            self.buffer.flush()

    # Operations

    def print_module(self, context: Context, module: ModuleOp) -> None:
        """
        Print a module, the resources of `context` that it refers to, and a line break.

        Aliases that opaque texts name are defined before it. Raises OSError if the stream does.
        """
        # Only the dialects of such a context may be unknown.
        if context.allow_unregistered:
            for name, definition in aliases_named_by(self._attributes_of(module)).items():
                self.print_string(f"{name} = ")
                self.print_attribute(definition)
                self.print_string("\n")
        self.print_op(module)
        self.print_metadata(context.loaded_dialects)
        self.print_string("\n", indent=0)

    def _attributes_of(self, module: ModuleOp) -> Iterator[Attribute]:
        """The attributes and types of all ops of a module that are printed."""
        for op in module.walk():
            yield from op.attributes.values()
            yield from op.properties.values()
            yield from op.result_types
            if self.print_debuginfo:
                yield op.location
            for region in op.regions:
                for block in region.blocks:
                    yield from block.arg_types

    @override
    def print_op(self, op: Operation) -> None:
        buffer = self.buffer
        if buffer is not None:
            try:
                self._print_op(op)
            except VerifyException as error:
                raise OpErrors.of(op, str(error)) from None
            if len(buffer.pieces) > LONG_TEXT:
                buffer.flush()
            return
        if self.print_generic_format:
            self.form = PrintedForm.GENERIC
        self.buffer = buffer = TextBuffer(self.stream)
        self.stream = buffer
        self._top, self._taken = op, None
        try:
            self._print_op(op)
        except BaseException:
            buffer.pieces.clear()
            raise
        finally:
            self.stream, self.buffer = buffer.stream, None
            buffer.flush()

    def _print_op(self, op: Operation) -> None:
        is_custom = bool(op.regions) and self.form is not PrintedForm.GENERIC
        if not is_custom or not (empty := _empty_signature_attributes(op)):
            self._print_as_it_is(op)
            return
        # MLIR's custom form of a function omits empty lists, and its parser does not add them.
        properties = op.properties
        op.properties = {name: properties[name] for name in properties if name not in empty}
        try:
            self._print_as_it_is(op)
        finally:
            op.properties = properties

    def _print_in_form(self, op: Operation, form: Callable[[Printer], object]) -> None:
        """Print an op with a custom form that xDSL's printer does not know."""
        if op.results:
            self.print_list(op.results, self.print_ssa_value)
            self.print_string(" = ")
        self.print_string(op.name)
        form(self)
        if self.print_debuginfo:
            self.print_string(" ")
            self.print_attribute(op.location)

    def _print_as_it_is(self, op: Operation) -> None:
        around = self.print_generic_format
        self._is_own = op.name.startswith("quant.")
        if self._is_own and op.name not in _OF_LLVM and self.form.reader is not None:
            raise VerifyException(
                f"cannot be written for {self.form.reader}, which does not have it: lower it before"
            )
        # An op in generic form may contain ops in custom form.
        self.print_generic_format = self._is_printed_generic(op)
        form = op.own_form() if isinstance(op, OwnForm) else None
        if form is not None and not self.print_generic_format:
            self._print_in_form(op, form)
        elif self.buffer is None or self.print_generic_format:
            super().print_op(op)
        else:
            self._print_custom_form(op, self.buffer)
        self.print_generic_format = around

    def _is_printed_generic(self, op: Operation) -> bool:
        match self.form:
            case PrintedForm.GENERIC:
                return True
            case PrintedForm.AS_READ if self.read_as_generic(op):
                return True
            case PrintedForm.LLVM24 if isinstance(op, KnowsItsForms) and op.is_form_of_llvm22:
                return True
            case _:
                return _does_not_fit_custom_form(op)

    def _print_custom_form(self, op: Operation, buffer: TextBuffer) -> None:
        """Print an op in custom form, or in generic form if the custom form does not hold it."""
        start, flushes, place = len(buffer.pieces), buffer.flushes, self.place
        self._in_dictionary = ()
        try:
            super().print_op(op)
        except (MemoryLimitError, OSError, RecursionError, MemoryError):
            raise
        except Exception:
            if buffer.flushes != flushes:
                # A part of the op is written already.
                raise
        else:
            if buffer.flushes != flushes or op.regions or self._holds_all(op, start):
                return
        del buffer.pieces[start:]
        self.return_to(place)
        self.print_generic_format = True
        super().print_op(op)

    def _holds_all(self, op: Operation, start: int) -> bool:
        """Whether the custom form of an op, the text from `start` on, can be read again."""
        if self.form is PrintedForm.LLVM24 and _mixes(op, self._in_dictionary):
            return False
        if not op.attributes or self.buffer is None:
            return True
        text = "".join(self.buffer.pieces[start:])
        return _names_all(text, _undeclared_attributes(op))

    @override
    def unique_name(self, hint: str, numbers: dict[str, int]) -> str:
        number = numbers.get(hint, 0)
        numbers[hint] = number + 1
        if not number:
            return hint
        if self._taken is None:
            self._taken = frozenset(() if self._top is None else names_in(self._top))
        while (name := numbered_name(hint, number)) in self._taken:
            number += 1
        numbers[hint] = number + 1
        return name

    @override
    def print_ssa_value(self, value: SSAValue) -> str:
        name = self.names.get(value)
        if name is None and value.name_hint:
            name = self.names[value] = self.unique_name(value.name_hint, self.ssa_names)
        if name is None:
            return super().print_ssa_value(value)
        self.print_string("%" + name)
        return name

    # Attributes

    @override
    def print_op_attributes(
        self,
        attributes: Mapping[str, Attribute],
        *,
        reserved_attr_names: Iterable[str] = (),
        print_keyword: bool = False,
    ) -> bool:
        if attributes:
            # xDSL also passes a single name as a string.
            self._in_dictionary = [name for name in attributes if name not in reserved_attr_names]
        return super().print_op_attributes(
            dict(sorted(attributes.items())) if self._is_own else attributes,
            reserved_attr_names=reserved_attr_names,
            print_keyword=print_keyword,
        )

    @override
    def print_resource_handle(self, dialect: str, handle: str) -> None:
        """Print a key, in quotes if it is no identifier, as MLIR does."""
        self.resource_keys.setdefault(dialect, set()).add(handle)
        self.print_identifier_or_string_literal(handle)

    @override
    def print_metadata(self, dialects: Iterable[Dialect]) -> None:
        """Print the blobs of the resources that printed attributes refer to, piece by piece."""
        storages = {
            dialect.name: storage
            for dialect in dialects
            if (storage := dialect.get_interface(OpAsmDialectInterface)) is not None
        }
        blobs = {
            name: resources
            for name, keys in self.resource_keys.items()
            if name in storages and (resources := _find_resources(storages[name], keys))
        }
        if not blobs:
            return
        self.print_string("\n\n{-#\n  dialect_resources: {\n", indent=0)
        self.print_list(blobs.items(), lambda item: self._print_resources(*item), ",\n")
        self.print_string("\n  }\n#-}", indent=0)

    def _print_resources(self, dialect: str, resources: Mapping[str, Blob | str]) -> None:
        self.print_string(f"    {dialect}: {{\n", indent=0)
        self.print_list(resources.items(), lambda item: self._print_resource(*item), ",\n")
        self.print_string("\n    }", indent=0)

    def _print_resource(self, key: str, resource: Blob | str) -> None:
        # Deferred, since few texts have resources.
        from qdialect.text.dense import print_hex

        self.print_string(" " * 6)
        self.print_identifier_or_string_literal(key)
        self.print_string(': "')
        if isinstance(resource, str):
            self.print_string(resource)
        else:
            self.print_string("0x")
            print_hex(self, resource.alignment)
            print_hex(self, resource.elements)
        self.print_string('"')

    @override
    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute. Raises MemoryLimitError if its text would be too long."""
        known = self._texts.get((id(attribute), self.printing_location))
        if known is not None:
            self._repeat(known)
        elif isinstance(attribute, DenseIntOrFPElementsAttr):
            self._print_dense(cast(DenseIntOrFPElementsAttr[Any], attribute))
        elif self.buffer is not None and _may_have_parts(attribute):
            self._print_to_keep(attribute, self.buffer)
        else:
            super().print_attribute(attribute)

    def _repeat(self, known: _Text) -> None:
        self._repetition += len(known.text) if self._depth else known.repetition
        if self._repetition > MAX_REPETITION:
            raise MemoryLimitError(
                f"aliases of aliases take more than {MAX_REPETITION} characters of text"
            )
        # A line break inside an attribute is part of it.
        self.print_string(known.text, indent=0)

    def _print_to_keep(self, attribute: Attribute, buffer: TextBuffer) -> None:
        start, flushes, repetition = len(buffer.pieces), buffer.flushes, self._repetition
        self._depth += 1
        if isinstance(attribute, FusedLoc) and not isinstance(attribute.metadata, NoneAttr):
            # xDSL prints locations in metadata without `loc(...)`, which does not parse.
            fused_in_parts(attribute.metadata, attribute.locations).print_builtin(self)
        else:
            super().print_attribute(attribute)
        self._depth -= 1
        if buffer.flushes != flushes:
            return
        text = "".join(buffer.pieces[start:])
        buffer.pieces[start:] = [text]
        if self._length > _MAX_LENGTH:
            self._texts.clear()
            self._length = 0
        known = _Text(attribute, text, self._repetition - repetition)
        self._texts[id(attribute), self.printing_location] = known
        self._length += len(text) + _LENGTH_OF_NONE

    def _print_dense(self, dense: DenseIntOrFPElementsAttr[Any]) -> None:
        if (plain := text_of_plain_list(dense)) is not None:
            self.print_string(f"dense<{plain}>")
        else:
            # Deferred, since elements that are not a plain list are rare.
            from qdialect.ir.elements import elements_of
            from qdialect.text.dense import print_dense

            print_dense(self, elements_of(dense), dense.get_element_type())
        self.print_string(" : ")
        self.print_attribute(dense.get_type())


def _may_have_parts(attribute: Attribute) -> bool:
    """Whether an attribute may contain attributes that contain attributes."""
    return isinstance(
        attribute, ParametrizedAttribute | ArrayAttr | DictionaryAttr
    ) and not isinstance(attribute, IntegerAttr | FloatAttr)


def _find_resources(storage: OpAsmDialectInterface, keys: Collection[str]) -> dict[str, Blob | str]:
    """The resources of `keys` that exist, sorted by key as in xDSL."""
    if isinstance(storage, BlobStorage):
        return storage.resources(sorted(keys))
    return dict(storage.build_resources(sorted(keys)))


def _does_not_fit_custom_form(op: Operation) -> bool:
    if isinstance(op, KnowsItsForms):
        return not op.has_custom_form
    syntax = syntax_of_op(op.name)
    if not syntax.has_function(op.name):
        return not syntax.fits_form(op)
    is_declaration = not op.regions[0].blocks
    return is_declaration and bool(op.properties.keys() & set(_SIGNATURE_ATTRIBUTES))


def _mixes(op: Operation, in_dictionary: Collection[str]) -> bool:
    """Whether the dictionary in the custom form of an op of LLVM holds properties."""
    if not in_dictionary or isinstance(op, KnowsItsForms):
        return False
    dialect = op.dialect_name()
    if dialect in ("builtin", "quant") or not is_of_llvm(dialect):
        return False
    return not (op.properties.keys() | _UNKNOWN_PROPERTIES).isdisjoint(in_dictionary)


def _empty_signature_attributes(op: Operation) -> Collection[str]:
    """The empty lists of attributes of arguments and results of a function."""
    if not syntax_of_op(op.name).has_function(op.name):
        return ()
    lists = ((name, op.properties.get(name)) for name in _SIGNATURE_ATTRIBUTES)
    none = DictionaryAttr({})
    return [
        name
        for name, attributes in lists
        if isinstance(attributes, ArrayAttr)
        and all(one == none for one in cast(Iterable[object], attributes))
    ]


def _undeclared_attributes(op: Operation) -> Iterable[str]:
    """
    The attributes that the class of an op does not declare; its custom form prints the others.
    """
    declared = op.get_irdl_definition().attributes if isinstance(op, IRDLOperation) else ()
    return (name for name in op.attributes if name not in declared)


def _names_all(text: str, attributes: Iterable[str]) -> bool:
    """Whether a text contains each name in the position of an attribute's name."""
    return all(
        re.search(rf'[{{, ]"?{re.escape(name)}"?(?: =|[,}}])', text) is not None
        for name in attributes
        # xDSL's attribute for the name of an unregistered op, which is not printed.
        if name != "op_name__"
    )
