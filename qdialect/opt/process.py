"""
Runs the tools as processes, which end in `os._exit`.

This file has everything that concerns the process rather than a call of `main`: signals, warnings,
exit, and what would outlive the process: its child processes, and temporary files. Little is
imported before signals are handled: until then, an interrupt prints a traceback.
"""

from __future__ import annotations

import os
import sys

try:
    import signal
except KeyboardInterrupt:
    # No signal handler is installed yet.
    os._exit(130)

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
"""The signals that end a process from outside. Not every system has all of them."""


MODULES = {
    "opt": "qdialect.opt.opt",
    "check": "qdialect.check.check_tool",
    "run": "qdialect.check.run_tool",
    "import": "qdialect.frontends.import_tool",
    "quantize": "qdialect.ptq.tools.quantize",
    "calibrate": "qdialect.ptq.tools.calibrate",
    "evaluate": "qdialect.ptq.tools.evaluate",
    "profile": "qdialect.ptq.tools.merge_profiles",
    "export": "qdialect.export.export_tool",
    "weights": "qdialect.weights.weights_tool",
    "completion": "qdialect.opt.completion",
    "": "qdialect.opt.command",
}
"""The modules of the subcommands of `qdialect`; the last one is the command without any."""


def run(tool: str = "opt") -> int:
    """
    Run `qdialect-opt`, or another tool, with the arguments of the process.

    Returns the exit status. The process exits without tearing down the interpreter, since freeing a
    large module takes long.
    """
    # Before slow imports.
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
    elif tool in ("calibrate", "evaluate"):
        _keep_freed_memory()
    # Otherwise numpy starts threads for linear algebra, which no tool uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    statuses: list[int] = []
    # Registered first, so that it runs after all other exit functions.
    atexit.register(partial(_leave, statuses))
    try:
        main = import_module(MODULES[tool]).main
    except MemoryError:
        sys.stderr.write(f"{_name_of(tool)}: error: out of memory\n")
        statuses.append(1)
    else:
        statuses.append(main())
    return statuses[0]


def _run_of(tool: str):
    def run_tool() -> int:
        return run(tool)

    return run_tool


def run_command() -> int:
    """Run `qdialect`: the subcommand that the first argument names; as `run`."""
    return run(sys.argv.pop(1) if is_subcommand(sys.argv[1:]) else "")


def is_subcommand(arguments: list[str]) -> bool:
    """Whether the first argument names a subcommand of `qdialect`."""
    return bool(arguments) and arguments[0] != "" and arguments[0] in MODULES


run_check, run_run, run_calibrate, run_evaluate = map(
    _run_of, ("check", "run", "calibrate", "evaluate")
)


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


def _keep_freed_memory() -> None:
    """
    Let glibc keep up to 64 MiB that small arrays free, for the next ones.

    Otherwise each array of 128 KiB or more costs page faults, which take as long as computing it:
    https://man7.org/linux/man-pages/man3/mallopt.3.html.
    """
    # Only once signals are handled.
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        # M_MMAP_THRESHOLD, from which on arrays are given back, and M_TRIM_THRESHOLD.
        for parameter, value in ((-3, 1 << 23), (-1, 1 << 26)):
            mallopt(parameter, value)


def _show_warning(
    tool: str, message: Warning | str, category: type[Warning], *where: object
) -> None:
    """Print a warning in one line, without its place in the code of the tool."""
    text = str(message).partition("\n")[0]
    sys.stderr.write(f"{_name_of(tool)}: warning: {category.__name__}: {text}\n")


def _name_of(tool: str) -> str:
    """The name of a tool in its errors."""
    return "qdialect-" + tool if tool else "qdialect"


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


# The end at once, without unwinding the stack

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
