"""Names of values and blocks that end in a number, such as `h_1`."""

from __future__ import annotations

import re
from typing import Final, SupportsIndex

from typing_extensions import override

_NUMBER: Final = re.compile(r"_[0-9]+\Z")


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
    return NumberedName(name) if _NUMBER.search(name) else name


def stem_of(name: str) -> str | None:
    """The name before its number: `h` for `h_1`; None for a name without a number."""
    number = _NUMBER.search(name)
    return None if number is None else str.__getitem__(name, slice(number.start()))
