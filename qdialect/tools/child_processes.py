"""
Child processes, which end with this process, however it ends.

Each has a session of its own: what a child has started ends with it, and a terminal sends its
signals to this process only.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from subprocess import PIPE, CompletedProcess, Popen
from typing import IO

from qdialect.tools.ending import begin_start, end_group, end_of_start, forget_group


@contextmanager
def child_process(
    arguments: Sequence[str], *, stdin: int | None = None, stderr: int | IO[bytes] | None = None
) -> Generator[Popen[bytes]]:
    """
    A child process whose output is piped; it is waited for at the end of the context.

    An exception in the context ends the child. Raises OSError if it cannot be started.
    """
    process, group = None, None
    begin_start()
    try:
        process = Popen(arguments, stdin=stdin, stdout=PIPE, stderr=stderr, start_new_session=True)
        # Other systems have no sessions.
        group = process.pid if hasattr(os, "killpg") else None
    finally:
        end_of_start(group)
    try:
        with process:
            try:
                yield process
            except BaseException:
                process.kill() if group is None else end_group(group)
                raise
    finally:
        if group is not None:
            forget_group(group)


def run_child(arguments: Sequence[str], given: bytes) -> CompletedProcess[bytes]:
    """Run a child process with standard input. Raises OSError if it cannot be started."""
    with child_process(arguments, stdin=PIPE, stderr=PIPE) as process:
        output, errors = process.communicate(given)
    return CompletedProcess(arguments, process.returncode, output, errors)
