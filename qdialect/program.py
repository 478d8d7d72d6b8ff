"""
Runs the tools as processes, which end in `os._exit`.

This file has everything that concerns the process rather than a call of `main`: signals, warnings,
exit.
"""

from __future__ import annotations

import os
import sys

try:
    import signal

    from qdialect.opt.process import end_process
except KeyboardInterrupt:
    # No signal handler is installed yet.
    os._exit(130)

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
"""The signals that end a process from outside. Not every system has all of them."""


_MODULES = {
    "opt": "qdialect.opt.opt",
    "check": "qdialect.check.check_tool",
    "run": "qdialect.check.run_tool",
    "calibrate": "qdialect.ptq.tools.calibrate",
    "evaluate": "qdialect.ptq.tools.evaluate",
}


def run(tool: str = "opt") -> int:
    """
    Run `qdialect-opt`, or another tool, with the arguments of the process.

    Returns the exit status. The process exits without tearing down the interpreter, since freeing a
    large module takes long.
    """
    # Before slow imports: until here, an interrupt prints a traceback.
    for name in _SIGNALS:
        _end_on(name)
    # Only once signals are handled.
    import atexit
    import gc
    import warnings
    from functools import partial
    from importlib import import_module

    # By default, Python shows these warnings only for `__main__`. Deprecated passes emit them.
    warnings.filterwarnings("default", category=DeprecationWarning)
    warnings.showwarning = partial(_show_warning, tool)
    if tool == "opt":
        # Each collection would visit all objects of a large module, and free little.
        gc.disable()
    # Otherwise numpy starts threads for linear algebra, which no tool uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    statuses: list[int] = []
    # Registered first, so that it runs after all other exit functions.
    atexit.register(partial(_leave, statuses))
    try:
        main = import_module(_MODULES[tool]).main
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
    """End the process on a signal, unless the parent process ignores the signal, as nohup does."""
    number = getattr(signal, name, None)
    if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, _end)


def _end(number: int, frame: object) -> None:
    """
    End with the status that a shell reports for a process that a signal ended.

    No exception is raised, since it could be raised anywhere, also in code that swallows
    exceptions, such as `__del__`.
    """
    end_process(128 + number)


def _show_warning(
    tool: str, message: Warning | str, category: type[Warning], *where: object
) -> None:
    """Print a warning in one line, without its place in the code of the tool."""
    text = str(message).partition("\n")[0]
    sys.stderr.write(f"qdialect-{tool}: warning: {category.__name__}: {text}\n")


def _leave(statuses: list[int]) -> None:
    """End the process with its status; without one, let Python report its error."""
    if not statuses:
        return
    # Only once signals are handled.
    from contextlib import suppress

    for stream in filter(None, (sys.stdout, sys.stderr)):
        # Errors of the output have been reported.
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(statuses[0])
