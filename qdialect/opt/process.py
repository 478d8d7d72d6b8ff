"""
The end of this process at once, without unwinding the stack, and of what would outlive it.

These are child processes, and temporary files. Imported before signals are handled, so it imports
little itself.
"""

from __future__ import annotations

import os

_SECONDS_FOR_CHILDREN = 1.0
"""How long child processes may take to remove their own temporary files."""

_paths: set[str] = set()
"""The temporary files."""
_groups: set[int] = set()
"""The process groups of the children."""
_statuses: list[int] = []
"""The status of an end that has to wait for `end_of_start`."""
_starts: list[object] = []
"""Not empty while a child process may have been started that is not registered."""


def end_process(status: int) -> None:
    """
    End the process, its child processes, and delete its temporary files.

    Returns only while a child process is being started: `end_of_start` ends them then.
    """
    if _starts:
        _statuses.append(status)
        return
    for path in tuple(_paths):
        try:
            os.unlink(path)
        except OSError:
            # The file is not created yet, or was just renamed.
            continue
    _end_groups(_groups)
    os._exit(status)


def register_file(path: str) -> None:
    """
    Register a temporary file, which is deleted if the process ends without unwinding the stack.

    Call it before the file is created, so that none is left.
    """
    _paths.add(path)


def forget_file(path: str) -> None:
    """Unregister a file that was deleted or renamed."""
    _paths.discard(path)


def begin_start() -> None:
    """Put off the end of this process: the number of a child is not known yet."""
    _starts.append(None)


def end_of_start(group: int | None) -> None:
    """Register the process group of a child, or None if it could not be started."""
    if group is not None:
        _groups.add(group)
    _starts.pop()
    if _statuses:
        end_process(_statuses[0])


def forget_group(group: int) -> None:
    """Unregister the group of a child that has ended."""
    _groups.discard(group)


def end_group(group: int) -> None:
    """End a child process, and what it has started."""
    _end_groups({group})


def _end_groups(groups: set[int]) -> None:
    # Only once signals are handled.
    import signal
    import time

    for number in (signal.SIGTERM, signal.SIGKILL):
        left = {group for group in groups if _signal(group, number)}
        give_up = time.monotonic() + _SECONDS_FOR_CHILDREN
        while left and time.monotonic() < give_up:
            time.sleep(0.002)
            left = {group for group in left if _signal(group, 0)}
        if not left:
            return


def _signal(group: int, number: int) -> bool:
    """Send a signal to a process group. Returns whether a process of it is left."""
    # Only once signals are handled.
    from contextlib import suppress

    # A child that has ended counts until it has been waited for.
    with suppress(OSError):
        os.waitpid(group, os.WNOHANG)
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True
