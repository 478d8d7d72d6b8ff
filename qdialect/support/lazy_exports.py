"""Lazy exports: names that a package exports from its modules, imported on first access."""

from __future__ import annotations

# Checkers know the name. `typing` itself takes several times as long to import as this package,
# and until the tools have installed their signal handlers, an interrupt is a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_exports(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """
    The `__getattr__` of `package`, for names in `modules`: from the name to its module.

    Access to one name does not import the modules of the others.
    """

    def get(name: str) -> object:
        # For the same reason.
        from importlib import import_module

        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return get
