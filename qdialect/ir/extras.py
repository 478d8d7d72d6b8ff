"""Libraries that are used where they are installed: each has an extra of this package."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class MissingLibraryError(ImportError):
    """A library is not installed. The message says how to install it."""


def library(name: str, extra: str) -> Any:
    """
    The module of that name, which the extra installs.

    Raises MissingLibraryError if it is not there; what it raises itself goes on.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        # One that is installed may lack something else, which the extra installs too.
        raise MissingLibraryError(
            f"'{error.name}' is not installed: pip install \"qdialect[{extra}]\"", name=error.name
        ) from None
