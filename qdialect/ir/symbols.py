"""The symbols that ops and attributes refer to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.traits import SymbolOpInterface

_SYMBOLS: Final = re.compile(r'@(?:"([^"]*)"|([\w$.-]+))')
"""A symbol in the text of an attribute whose dialect is not loaded."""


def symbols_in(attributes: Iterable[Attribute]) -> Iterator[str]:
    """The symbols that attributes refer to, nested ones included."""
    pending, seen = list(attributes), set[int]()
    while pending:
        attribute = pending.pop()
        # Each object once: nested aliases may share 2**n parts.
        if id(attribute) in seen:
            continue
        seen.add(id(attribute))
        if isinstance(attribute, SymbolRefAttr):
            yield attribute.root_reference.data
        elif isinstance(attribute, ArrayAttr):
            pending += cast(ArrayAttr[Attribute], attribute).data
        elif isinstance(attribute, DictionaryAttr):
            pending += attribute.data.values()
        elif isinstance(attribute, ParametrizedAttribute):
            for parameter in attribute.parameters:
                if not isinstance(parameter, StringAttr):
                    pending.append(parameter)
                    continue
                # For example, an attribute whose dialect is not loaded, which is text.
                for quoted, plain in _SYMBOLS.findall(parameter.data):
                    yield quoted or plain


def symbols_used_by(op: Operation) -> Iterator[str]:
    """The symbols that an op and the ops nested in it refer to."""
    for inner in op.walk():
        yield from symbols_in((*inner.attributes.values(), *inner.properties.values()))


def symbols_of(module: ModuleOp) -> dict[str, Operation]:
    """The ops at the top level of a module that define symbols, by name."""
    found: dict[str, Operation] = {}
    for op in module.ops:
        interface = op.get_trait(SymbolOpInterface)
        name = None if interface is None else interface.get_sym_attr_name(op)
        if name is not None:
            found.setdefault(name.data, op)
    return found
