"""
Child processes, which end with this process, however it ends.

Each has a session of its own: what a child has started ends with it, and a terminal sends its
signals to this process only.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from subprocess import PIPE, CompletedProcess, Popen
from typing import IO, NoReturn, TypeVar, cast

from qdialect.opt.process import begin_start, end_group, end_of_start, forget_group

_Value = TypeVar("_Value")


class ChildEndedError(Exception):
    """A child process ended early. The message says how, such as `ended with signal 11`."""


@contextmanager
def child_process(
    arguments: Sequence[str],
    *,
    stdin: int | None = None,
    stderr: int | IO[bytes] | None = None,
    folder: str | None = None,
) -> Generator[Popen[bytes]]:
    """
    A child process in a folder, whose output is piped; it is waited for at the end of the context.

    An exception in the context ends the child. Raises OSError if it cannot be started.
    """
    process, group = None, None
    begin_start()
    try:
        process = Popen(
            arguments, stdin=stdin, stdout=PIPE, stderr=stderr, cwd=folder, start_new_session=True
        )
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


def computed_in_copy(values: Callable[[], Iterable[_Value]]) -> Generator[_Value]:
    """
    Yield values that a copy of this process computes, so that a crash there does not end this one.

    `values` is called in the copy; the values, and an exception that it raises, must be picklable.
    Such an exception is raised here. Raises ChildEndedError if the copy ends otherwise. Closing
    the generator early ends the copy. Where processes cannot be copied, this one computes.
    """
    if not hasattr(os, "fork"):
        yield from values()
        return
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        started: int | None = None
        begin_start()
        try:
            with warnings.catch_warnings():
                # Python and JAX warn of threads: locks that they hold stay locked in the copy,
                # which uses none of them.
                warnings.simplefilter("ignore")
                started = child = os.fork()
            _lead_group(child)
            if not child:
                _send(values, writing)
        finally:
            os.close(writing)
            end_of_start(started)
        try:
            for value, error in _received(stream):
                if error is not None:
                    raise error
                yield cast("_Value", value)
        except BaseException:
            end_group(child)
            forget_group(child)
            raise
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        forget_group(child)
    if status:
        kind = "signal" if status < 0 else "status"
        raise ChildEndedError(f"ended with {kind} {abs(status)}")


def _lead_group(child: int) -> None:
    """Let a process lead a group of its own; 0 for this process."""
    # Both processes do, since either may be the first; the copy may have ended.
    with suppress(OSError):
        os.setpgid(child, 0)


def _send(values: Callable[[], Iterable[object]], writing: int) -> NoReturn:
    """Send the values, each with None or else an exception, and end the process."""
    # Nothing of the parent process may be run here: its handlers, buffers, or exit functions.
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        with os.fdopen(writing, "wb") as stream:
            try:
                for value in values():
                    pickle.dump((value, None), stream)
                    stream.flush()
            except Exception as error:
                pickle.dump((None, error), stream)
        status = 0
    except BrokenPipeError:
        # The parent process was killed.
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _received(stream: IO[bytes]) -> Generator[tuple[object, Exception | None]]:
    # The copy may end in the middle of a value.
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            yield pickle.load(stream)
