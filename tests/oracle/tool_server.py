"""
Running the tools in processes forked from a server that has imported them.

Starting a tool takes ten times as long as most of its runs in tests. The server imports the
modules once; for each `call` it forks a process, which gets the caller's arguments, directory,
environment and files, and runs like the tool's script. tests/unit/opt/test_process.py tests
the start of the scripts themselves.

Run as a script, this file is the server; it ends with its standard input.
"""

from __future__ import annotations

import atexit
import marshal
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from typing import NoReturn

TOOLS = {
    "filecheck": ("filecheck.main", "main"),
    "qdialect": ("qdialect.opt.process", "run_command"),
    "qdialect-calibrate": ("qdialect.opt.process", "run_calibrate"),
    "qdialect-check": ("qdialect.opt.process", "run_check"),
    "qdialect-evaluate": ("qdialect.opt.process", "run_evaluate"),
    "qdialect-opt": ("qdialect.opt.process", "run"),
    "qdialect-run": ("qdialect.opt.process", "run_run"),
}
"""The function that the script of each tool calls."""

IMPORTED = (
    "filecheck.main",
    "numpy",
    "qdialect.check.comparison",
    "qdialect.dialects.quant",
    "qdialect.folding.apply",
    "qdialect.check.interpreters",
    "qdialect.lowering.dequantization",
    "qdialect.ptq.passes.weights",
    "qdialect.ptq.passes.models",
    "qdialect.text.dense",
    "qdialect.ptq.tools.calibrate",
    "qdialect.check.check_tool",
    "qdialect.opt.compilation",
    "qdialect.ptq.tools.evaluate",
    "qdialect.opt.opt",
    "qdialect.check.run_tool",
    "xdsl.dialects.arith",
    "xdsl.dialects.func",
    "xdsl.dialects.linalg",
    "xdsl.dialects.tensor",
    "xdsl.dialects.tosa",
    "xdsl.transforms.canonicalize",
)

MAX_MESSAGE = 1 << 20
"""The maximum size of a message that is received, in bytes."""


def serve(path: str) -> None:
    """Answer calls until standard input ends."""
    import gc
    import select
    from importlib import import_module

    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    running: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        # A path that exists takes calls: before `listen`, a socket refuses them.
        listener.bind(path + ".new")
        listener.listen(64)
        os.rename(path + ".new", path)
        # As in the tools.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        for name in IMPORTED:
            import_module(name)
        gc.collect()
        gc.freeze()
        inputs = [listener, woken, sys.stdin]
        while (ready := select.select(inputs, [], [])[0]) != [sys.stdin]:
            if woken in ready:
                os.read(woken, MAX_MESSAGE)
                _reply(running)
            if listener in ready:
                connection, _ = listener.accept()
                if (process := os.fork()) == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for each in (listener, *running.values()):
                        each.close()
                    os.close(woken)
                    os.close(wakes)
                    _be_tool(connection)
                running[process] = connection


def _reply(running: dict[int, socket.socket]) -> None:
    """Answer the callers of the processes that have ended."""
    while running:
        process, status, used = os.wait4(-1, os.WNOHANG)
        if process == 0:
            return
        with running.pop(process) as connection, suppress(OSError):
            answer = {
                "status": os.waitstatus_to_exitcode(status),
                "resident": used.ru_maxrss << 10,
            }
            connection.sendall(marshal.dumps(answer))


def _be_tool(connection: socket.socket) -> NoReturn:
    """Run the tool of one call, in a process of its own."""
    data, files, _, _ = socket.recv_fds(connection, MAX_MESSAGE, 3)
    while more := connection.recv(MAX_MESSAGE):
        data += more
    connection.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # Python's stream objects were created for other files, and hold their state.
    sys.stdin = os.fdopen(0, encoding=sys.stdin.encoding, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding=sys.stderr.encoding, closefd=False)
    sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True)
    _run(*marshal.loads(data))


def _run(
    command: list[str], folder: str, environment: dict[str, str], max_addresses: int | None
) -> NoReturn:
    import resource
    from importlib import import_module

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if max_addresses is not None:
        resource.setrlimit(resource.RLIMIT_AS, (max_addresses, max_addresses))
    sys.argv = command
    module, function = TOOLS[os.path.basename(sys.argv[0])]
    try:
        status = getattr(import_module(module), function)()
    except SystemExit as error:
        status = error.code
    sys.stdout.flush()
    sys.stderr.flush()
    # To free what the server has imported takes longer than most runs.
    os._exit(status if isinstance(status, int) else int(status is not None))


class ToolServer:
    """
    A server, and a directory with a script per tool that forwards to the server.

    It ends with the process that created it, or with `close`.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tools-")
        self.folder = self._folder.name
        self.socket = os.path.join(self.folder, "socket")
        here = os.path.dirname(os.path.abspath(__file__))
        for tool in TOOLS:
            script = os.path.join(self.folder, tool)
            with open(script, "w") as file:
                file.write(
                    f"#!{sys.executable} -IS\nimport sys\nsys.path.insert(0, {here!r})\n"
                    f"from tool_client import be_tool\nbe_tool({self.socket!r})\n"
                )
            os.chmod(script, 0o755)
        self._process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), self.socket], stdin=subprocess.PIPE
        )
        while not os.path.exists(self.socket):
            assert self._process.poll() is None, "the server of the tools does not start"
            time.sleep(0.01)

    def close(self) -> None:
        """End the server, and wait for it."""
        self._process.communicate()
        self._folder.cleanup()


@cache
def shared_server() -> ToolServer:
    """The server of all tests of this process, with which it ends."""
    server = ToolServer()
    atexit.register(server.close)
    return server


if __name__ == "__main__":
    serve(sys.argv[1])
