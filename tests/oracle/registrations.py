"""Taking back what is registered for the whole process, such as models of ops."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, cast

import qdialect
from qdialect import clear_caches

Container = dict[Any, Any] | list[Any] | set[Any]


def modules() -> Iterator[ModuleType]:
    """All modules of the package."""
    for found in pkgutil.walk_packages(qdialect.__path__, "qdialect."):
        if found.name != "qdialect.__main__":
            yield importlib.import_module(found.name)


def containers() -> dict[str, Container]:
    """What modules of the package hold that can be added to, by name."""
    # All are imported first: a module may register something in another one.
    holders = {module.__name__: vars(module) for module in [*modules()]}
    return {
        f"{holder}.{name}": cast("Container", value)
        for holder, held in holders.items()
        for name, value in held.items()
        if isinstance(value, dict | list | set) and not name.startswith("__")
    }


@cache
def _all_containers() -> tuple[Container, ...]:
    return tuple(containers().values())


@contextmanager
def taken_back() -> Generator[None]:
    """Forget what is registered within the block."""
    before = [(container, container.copy()) for container in _all_containers()]
    yield
    changed = [(container, old) for container, old in before if container != old]
    for container, old in changed:
        container.clear()
        if isinstance(container, list):
            container.extend(old)
        else:
            cast("dict[Any, Any]", container).update(cast("dict[Any, Any]", old))
    if changed:
        # They may hold what was read by forgotten models.
        clear_caches()
