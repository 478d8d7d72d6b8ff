"""
The dialects, passes and targets of qdialect, and the plug-in that adds them to `xdsl-opt`.

Importing this module imports neither the dialect nor the passes, and little of xDSL.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from qdialect.support.memory import registered_cache

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass
    from xdsl.universe import Universe
    from xdsl.utils.target import Target

    QDIALECT_UNIVERSE: Universe
    """The entry point of the plug-in."""


def get_all_dialects() -> dict[str, Callable[[], Dialect]]:
    """The dialects by name, as functions that import them."""
    return {"quant": partial(_imported, "qdialect.dialects.quant", "Quant")}


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """The passes by name, as functions that import them."""
    # Every tool of xDSL imports this module; few of them run the passes.
    from qdialect.passes import PASSES

    return {flag: partial(_imported, "qdialect.passes", name) for flag, name in PASSES.items()}


def get_all_targets() -> dict[str, Callable[[], type[Target]]]:
    """The targets by name, as functions that import them."""
    return {"qdialect-mlir": partial(_imported, "qdialect.text.target", "MLIRTextTarget")}


def _imported(module: str, name: str) -> Any:
    # Every tool of xDSL imports this module; few of them need what is in the others.
    return getattr(import_module(module), name)


@registered_cache
@cache
def _make_universe() -> Universe:
    # `qdialect-opt` uses the functions above, and not the plug-in.
    from xdsl import dialects, transforms
    from xdsl.universe import Universe

    # xDSL refuses to start if two plug-ins share a name, so its own names are left out.
    return Universe(
        all_dialects={
            name: factory
            for name, factory in get_all_dialects().items()
            if name not in dialects.get_all_dialects()
        },
        all_passes={
            name: factory
            for name, factory in get_all_passes().items()
            if name not in transforms.get_all_passes()
        },
        all_targets=get_all_targets(),
    )


def __getattr__(name: str) -> object:
    # Lazy: most runs of qdialect-opt need neither the plug-in nor the xDSL modules it imports.
    if name == "QDIALECT_UNIVERSE":
        return _make_universe()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
