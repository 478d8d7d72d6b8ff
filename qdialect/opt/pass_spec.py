"""Passes and pipelines as the command line names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from xdsl.utils.arg_spec import ArgSpec


class NestedSpec(NamedTuple):
    """Passes that run on each op of one name separately: `func.func(a,b)`."""

    anchor: str
    passes: tuple[PassSpec, ...]


PassSpec: TypeAlias = "ArgSpec | NestedSpec"
