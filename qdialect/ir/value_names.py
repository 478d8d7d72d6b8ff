"""Names of values and blocks that end in a number, such as `h_1`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, SupportsIndex

from typing_extensions import override
from xdsl.ir import Block, Operation, SSAValue

_NUMBER: Final = re.compile(r"_[0-9]+(\.[0-9]+)?\Z")


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
    return (name for each in named if (name := each.name_hint) is not None)
