"""
Processes of steps, each a copy of one that has read the modules that they share.

A copy runs a subcommand of `qdialect` as a process of its own would: its memory is free at its end,
and a crash ends nothing else. What is imported and parsed once is there in each copy.
"""

from __future__ import annotations

import gc
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryFile
from typing import IO, NamedTuple, Self
from weakref import finalize

from qdialect.opt.child_processes import child_process
from qdialect.opt.process import MODULES, run_command


class QuantizationError(Exception):
    """A step failed. The message has its command, and what it printed."""

    @classmethod
    def of(cls, command: Sequence[str], errors: bytes) -> Self:
        """The error of a command, and what it printed on standard error."""
        text = errors.decode(errors="replace")
        return cls(f"'{shlex.join(command)}' failed:\n{text}".rstrip(":\n"))


class Usage(NamedTuple):
    """What a step has used."""

    seconds: float
    """The processor time."""
    peak: int
    """The most memory that it held, in bytes."""


class StepProcesses:
    """
    Runs steps in a folder, until it is not used anymore.

    The process that is copied is started for the first step, and again after one that was
    interrupted.
    """

    def __init__(self, folder: Path, *, is_quiet: bool) -> None:
        """If it is not quiet, what the steps print on standard error is on that of this process."""
        self._folder = folder
        self._is_quiet = is_quiet
        self._started: tuple[Popen[bytes], IO[bytes] | None] | None = None
        """The process that is copied, and what is printed on its standard error."""
        self._contexts = ExitStack()
        finalize(self, self._contexts.close)

    def run(self, arguments: Sequence[str], shared: Sequence[str]) -> Usage:
        """
        Run a subcommand of `qdialect`; `shared` are modules that it reads, as others will.

        Raises QuantizationError.
        """
        try:
            process, errors = self._started or self._start()
            self._started = process, errors
            start = 0 if errors is None else errors.seek(0, os.SEEK_END)
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):
                # Unbuffered: what an ended process does not read must not be left in a buffer.
                os.write(process.stdin.fileno(), json.dumps([shared, *arguments]).encode() + b"\n")
            status, *used = json.loads(process.stdout.readline() or "[null]")
            if errors is not None:
                errors.seek(start)
            printed = errors.read() if status != 0 and errors is not None else b""
        except BaseException as error:
            self._started = None
            self._contexts.__exit__(type(error), error, error.__traceback__)
            raise
        if status is None:
            self._started = None
            self._contexts.close()
        if status != 0:
            raise QuantizationError.of(["qdialect", *arguments], printed)
        return Usage(*used)

    def _start(self) -> tuple[Popen[bytes], IO[bytes] | None]:
        command = sys.executable, "-m", "qdialect.ptq.step_processes"
        with ExitStack() as contexts:
            errors = contexts.enter_context(TemporaryFile()) if self._is_quiet else None
            child = child_process(command, stdin=PIPE, stderr=errors, folder=str(self._folder))
            process = contexts.enter_context(child)
            self._contexts.push(contexts.pop_all())
        return process, errors


def main() -> int:
    """
    Run the subcommand of each line of standard input in a copy of this process.

    Writes a line with its status and usage. Returns the status of the process, in a copy that of
    its subcommand.
    """
    # As in each process of the tools, before numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    before = 0.0
    for line in sys.stdin:
        shared, *arguments = json.loads(line)
        import_module(MODULES[arguments[0]])
        for path in shared:
            # An import needs no parser of modules before it has read the model.
            from qdialect.opt.compilation import share_module

            share_module(path)
        # Collections in copies leave what is here alone, and so shared.
        gc.freeze()
        copy = os.fork()
        if not copy:
            for descriptor in range(2):
                os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
            sys.argv[1:] = arguments
            return run_command()
        _, status, usage = os.wait4(copy, 0)
        now = time.process_time()
        seconds = usage.ru_utime + usage.ru_stime + now - before
        before = now
        peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        answer = json.dumps((os.waitstatus_to_exitcode(status), seconds, peak))
        print(answer, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
