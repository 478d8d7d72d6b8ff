"""The temporary files of this process, for whatever ends it without unwinding the stack."""

import os

_paths: set[str] = set()


def register(path: str) -> None:
    """Register a file for `remove_all`, before it is created: none is left behind."""
    _paths.add(path)


def forget(path: str) -> None:
    """Unregister a file that is gone, or has another name."""
    _paths.discard(path)


def remove_all() -> None:
    """Delete all temporary files."""
    for path in tuple(_paths):
        try:
            os.unlink(path)
        except OSError:
            # The file has not been created yet, or has just been renamed.
            continue
