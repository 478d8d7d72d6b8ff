"""The temporary files of this process, to be deleted if it ends without unwinding the stack."""

import os

_paths: set[str] = set()


def register(path: str) -> None:
    """
    Register a file for `remove_all`.

    Call it before the file is created, so that none is left.
    """
    _paths.add(path)


def forget(path: str) -> None:
    """Unregister a file that was deleted or renamed."""
    _paths.discard(path)


def remove_all() -> None:
    """Delete all temporary files."""
    for path in tuple(_paths):
        try:
            os.unlink(path)
        except OSError:
            # The file is not created yet, or was just renamed.
            continue
