"""
The commands as processes of their own, which end in `os._exit`.

Here is all that concerns a whole process and not a call of `main`: signals, warnings, the end.
"""

from __future__ import annotations

import os
import sys

try:
    import signal

    from qdialect.tools.ending import end_process
except KeyboardInterrupt:
    # Nothing handles the signal yet.
    os._exit(130)

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
"""The signals that end a process from outside. Not every system has all of them."""


def run(tool: str = "opt") -> int:
    """
    Run `qdialect-opt`, or another tool, with the arguments of the process.

    Returns the exit status. At its end the process exits without tearing down the
    interpreter: freeing a large module object by object takes long, for nothing.
    """
    # Before anything is imported that takes its time: until then, an interrupt is a traceback.
    for name in _SIGNALS:
        _end_on(name)
    # Only once signals are handled.
    import atexit
    import gc
    import warnings
    from functools import partial
    from importlib import import_module

    # Python shows those of `__main__` only. A pass that is deprecated has such.
    warnings.filterwarnings("default", category=DeprecationWarning)
    warnings.showwarning = partial(_show_warning, tool)
    if tool == "opt":
        # Each collection would visit all objects, of which there are many, and little is garbage.
        gc.disable()
    # Otherwise numpy starts threads for linear algebra, which is not used.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    statuses: list[int] = []
    # Registered first, this is called last: the exit functions of others run before.
    atexit.register(partial(_leave, statuses))
    try:
        main = import_module(f"qdialect.tools.{tool}").main
    except MemoryError:
        sys.stderr.write(f"qdialect-{tool}: error: out of memory\n")
        statuses.append(1)
    else:
        statuses.append(main())
    return statuses[0]


def run_check() -> int:
    """Run `qdialect-check`; as `run`."""
    return run("check")


def run_run() -> int:
    """Run `qdialect-run`; as `run`."""
    return run("run")


def run_calibrate() -> int:
    """Run `qdialect-calibrate`; as `run`."""
    return run("calibrate")


def run_evaluate() -> int:
    """Run `qdialect-evaluate`; as `run`."""
    return run("evaluate")


def _end_on(name: str) -> None:
    """End the process on a signal, unless whoever started it has it ignored, as nohup does."""
    number = getattr(signal, name, None)
    if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, _end)


def _end(number: int, frame: object) -> None:
    """
    End with the status that a shell gives a process which a signal has ended.

    No exception is raised: it could come at any point of any code, also of such that
    catches all exceptions or cannot pass them on, such as `__del__`.
    """
    end_process(128 + number)


def _show_warning(
    tool: str, message: Warning | str, category: type[Warning], *where: object
) -> None:
    """In one line, without the place in the code of the tool."""
    text = str(message).partition("\n")[0]
    sys.stderr.write(f"qdialect-{tool}: warning: {category.__name__}: {text}\n")


def _leave(statuses: list[int]) -> None:
    """End the process with its status; without one, Python has an error to tell."""
    if not statuses:
        return
    # Only once signals are handled.
    from contextlib import suppress

    for stream in filter(None, (sys.stdout, sys.stderr)):
        # That the output cannot be written has been reported.
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(statuses[0])
