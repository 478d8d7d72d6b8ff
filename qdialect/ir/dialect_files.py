"""Packages with one file per dialect, each imported when an op of its dialect is met."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from qdialect.support.memory import registered_cache


@registered_cache
@cache
def import_dialect_file(package: str, dialect: str) -> None:
    """Import the module of `package` that is named after `dialect`, if there is one."""
    module = f"{package}.{dialect}"
    if dialect.isidentifier() and find_spec(module) is not None:
        import_module(module)
