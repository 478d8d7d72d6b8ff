"""Optional libraries: each is installed by an extra of this package."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class MissingLibraryError(ImportError):
    """A library is not installed. The message says how to install it."""


def install_command(extra: str) -> str:
    """What installs an extra, also where the package is not on an index: words for messages."""
    return f'pip install ".[{extra}]" in a clone of qdialect'


def library(name: str, extra: str) -> Any:
    """
    Import the module `name`, which the extra `extra` installs.

    Raises MissingLibraryError if it is not installed; other errors of the import propagate.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        # An installed library may lack another one, which the extra installs too.
        raise MissingLibraryError(
            f"'{error.name}' is not installed: {install_command(extra)}", name=error.name
        ) from None
