"""Names: of values and blocks, such as `h_1`, and the symbols that ops and attributes refer to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count
from typing import Final, SupportsIndex, cast

from typing_extensions import override
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, SSAValue
from xdsl.traits import SymbolOpInterface, SymbolTable

_NUMBER: Final = re.compile(r"_[0-9]+(\.[0-9]+)?\Z")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_$.]+")


class NumberedName(str):
    """
    A name whose number is a part of it.

    xDSL's setters of `name_hint` cut the number off, since xDSL's printer adds such numbers. They
    keep the slice of the name before the number, here the whole name. So it is also kept wherever
    xDSL copies it, as in a clone.
    """

    __slots__ = ()

    @override
    def __getitem__(self, key: SupportsIndex | slice, /) -> str:
        """The whole name for the slice before its number, any other part as in `str`."""
        part = super().__getitem__(key)
        is_stem = isinstance(key, slice) and key.start is None and part == stem_of(self)
        return self if is_stem else part


def kept_name(name: str) -> str:
    """A name that `name_hint` keeps as it is written."""
    number = _NUMBER.search(name)
    return name if number is None or number[1] else NumberedName(name)


def identifier_of(name: str) -> str:
    """A name that MLIR's text has without quotes, as it is if possible."""
    identifier = _OTHER.sub("_", name).strip("_")
    # A name that begins with a digit would be a number.
    return identifier if identifier and identifier[0].isalpha() else f"_{identifier}"


def numbered_name(name: str, number: int) -> str:
    """
    A name with a number, for one of several values of that name.

    xDSL would take `_1` of `h_1_1` for its own number, and cut it off: it is `h_1.1`.
    """
    return f"{name}{'.' if isinstance(name, NumberedName) else '_'}{number}"


def stem_of(name: str) -> str | None:
    """
    The name that a printer made unique by a number: `h` for `h_1`, and `h_1` for `h_1.1`.

    None for a name without such a number.
    """
    number = _NUMBER.search(name)
    if number is None:
        return None
    return str.__getitem__(name, slice(number.start(1) if number[1] else number.start()))


def names_in(top: Operation) -> Iterator[str]:
    """The names of the values and blocks in an op."""
    named = list[SSAValue | Block]()
    for op in top.walk():
        named += op.results
        for block in (block for region in op.regions for block in region.blocks):
            named += (block, *block.args)
    return (name for owner in named if (name := owner.name_hint) is not None)


_SYMBOLS: Final = re.compile(r'@(?:"([^"]*)"|([\w$.-]+))')
"""A symbol in the text of an attribute whose dialect is not loaded."""

_IDENTIFIER: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")


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
    symbols: dict[str, Operation] = {}
    for op in module.ops:
        interface = op.get_trait(SymbolOpInterface)
        name = None if interface is None else interface.get_sym_attr_name(op)
        if name is not None:
            symbols.setdefault(name.data, op)
    return symbols


def symbol_table_of(op: Operation) -> Operation | None:
    """The nearest op around `op` that defines symbols."""
    table = op.parent_op()
    while table is not None and not table.has_trait(SymbolTable):
        table = table.parent_op()
    return table


def visibility_of(op: Operation) -> str:
    """The visibility of a symbol."""
    return getattr(op.get_attr_or_prop("sym_visibility"), "data", "public")


def rename_as_identifiers(module: ModuleOp) -> None:
    """
    Rename the symbols of a module that are no identifiers of C, and their uses.

    Other characters become underscores. If an attribute of an unknown dialect names one of them,
    all are kept.
    """
    symbols = symbols_of(module)
    names, taken = dict[str, str](), set(symbols)
    for name in symbols:
        if not _IDENTIFIER.fullmatch(name):
            stem = re.sub("[^A-Za-z0-9_]+", "_", name).strip("_") or "main"
            stem = f"_{stem}" if stem[0].isdigit() else stem
            numbered = chain([stem], map(f"{stem}_{{}}".format, count(1)))
            names[name] = next(candidate for candidate in numbered if candidate not in taken)
            taken.add(names[name])
    if not names:
        return
    renamed = [
        (attributes, {key: _with_names(value, names) for key, value in attributes.items()})
        for op in module.walk()
        for attributes in (op.attributes, op.properties)
    ]
    left = symbols_in(value for _, by_key in renamed for value in by_key.values())
    if not names.keys().isdisjoint(left):
        return
    for attributes, by_key in renamed:
        attributes.update(by_key)
    for name, new in names.items():
        symbols[name].properties["sym_name"] = StringAttr(new)


def _with_names(attribute: Attribute, names: Mapping[str, str]) -> Attribute:
    """An attribute with other names of symbols; the same object if it has none of them."""
    if names.keys().isdisjoint(symbols_in([attribute])):
        return attribute
    if isinstance(attribute, SymbolRefAttr):
        root = attribute.root_reference.data
        return SymbolRefAttr(names[root], attribute.nested_references)
    if isinstance(attribute, ArrayAttr):
        items = cast(ArrayAttr[Attribute], attribute).data
        return ArrayAttr([_with_names(item, names) for item in items])
    if isinstance(attribute, DictionaryAttr):
        return DictionaryAttr(
            {key: _with_names(value, names) for key, value in attribute.data.items()}
        )
    return attribute
