"""The temporary files of this process, for whatever ends it without unwinding the stack."""

import os

_paths: set[str] = set()


def register(path: str) -> None:
    """Have `remove_all` delete a file, which is created after this: none is left behind."""
    _paths.add(path)


def forget(path: str) -> None:
    """Have `remove_all` leave a file alone: it is gone, or has another name."""
    _paths.discard(path)


def remove_all() -> None:
    """Delete all temporary files."""
    for path in tuple(_paths):
        try:
            os.unlink(path)
        except OSError:
            # It has not been created yet, or has just been renamed.
            continue
