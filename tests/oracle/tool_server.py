"""
Running the tools in processes forked from a server that has imported them.

Starting a tool takes ten times as long as most of its runs in tests. The server imports the
modules once; for each `call` it forks a process, which gets the caller's arguments, directory,
environment and files, and runs like the tool's script. tests/unit/tools/test_process.py tests
the start of the scripts themselves.

Run as a script, this file is the server; it ends with its standard input.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import sys
import time
from contextlib import suppress
from functools import cache
from typing import Any, NoReturn

TOOLS = {
    "filecheck": ("filecheck.main", "main"),
    "qdialect-calibrate": ("qdialect.tools.program", "run_calibrate"),
    "qdialect-check": ("qdialect.tools.program", "run_check"),
    "qdialect-evaluate": ("qdialect.tools.program", "run_evaluate"),
    "qdialect-opt": ("qdialect.tools.program", "run"),
    "qdialect-run": ("qdialect.tools.program", "run_run"),
}
"""The function that the script of each tool calls."""

IMPORTED = (
    "filecheck.main",
    "numpy",
    "qdialect.certificates.module_comparison",
    "qdialect.dialects.quant",
    "qdialect.folding.folder",
    "qdialect.interpreters",
    "qdialect.lowering.dequantization",
    "qdialect.passes.equalize_inputs",
    "qdialect.passes.quantize_with_ranges",
    "qdialect.text.dense",
    "qdialect.tools.calibrate",
    "qdialect.tools.check",
    "qdialect.tools.compilation",
    "qdialect.tools.evaluate",
    "qdialect.tools.opt",
    "qdialect.tools.run",
    "xdsl.dialects.arith",
    "xdsl.dialects.func",
    "xdsl.dialects.linalg",
    "xdsl.dialects.tensor",
    "xdsl.dialects.tosa",
    "xdsl.transforms.canonicalize",
)

MAX_REQUEST = 1 << 20
"""The maximum size of a request in bytes."""


def call(
    path: str,
    command: list[str],
    files: tuple[int, int, int] = (0, 1, 2),
    max_addresses: int | None = None,
) -> dict[str, int]:
    """
    Run a tool with `files` as its standard streams.

    Returns the `status` of its process, and its `resident` memory in bytes.
    """
    request = {
        "command": command,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "max_addresses": max_addresses,
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], list(files))
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile() as reply:
            return json.loads(reply.read())


def serve(path: str) -> None:
    """Answer calls until standard input ends."""
    # The processes of commands import this module, too, and nothing of this.
    import gc
    import select
    from importlib import import_module

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        # As in the tools.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        for name in IMPORTED:
            import_module(name)
        gc.collect()
        gc.freeze()
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(connection)
            connection.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _answer(connection: socket.socket) -> None:
    """Answer one call. Returns only in the forked process of the tool."""
    data, files, _, _ = socket.recv_fds(connection, MAX_REQUEST, 3)
    while more := connection.recv(MAX_REQUEST):
        data += more
    request: dict[str, Any] = json.loads(data)
    if process := os.fork():
        for file in files:
            os.close(file)
        _, status, used = os.wait4(process, 0)
        answer = {"status": os.waitstatus_to_exitcode(status), "resident": used.ru_maxrss << 10}
        connection.sendall(json.dumps(answer).encode())
        os._exit(0)
    connection.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # Python's stream objects were created for other files, and hold their state.
    sys.stdin = os.fdopen(0, encoding=sys.stdin.encoding, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding=sys.stderr.encoding, closefd=False)
    sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True)
    _run(request)


def _run(request: dict[str, Any]) -> NoReturn:
    import resource
    from importlib import import_module

    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if (limit := request["max_addresses"]) is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.argv = request["command"]
    module, function = TOOLS[os.path.basename(sys.argv[0])]
    sys.exit(getattr(import_module(module), function)())


class ToolServer:
    """
    A server, and a directory with a script per tool that forwards to the server.

    It ends with the process that created it, or with `close`.
    """

    def __init__(self) -> None:
        # The processes of commands import this module, too, and nothing of this.
        import subprocess
        import tempfile

        self._folder = tempfile.TemporaryDirectory(prefix="tools-")
        self.folder = self._folder.name
        self.socket = os.path.join(self.folder, "socket")
        here = os.path.dirname(os.path.abspath(__file__))
        for tool in TOOLS:
            script = os.path.join(self.folder, tool)
            with open(script, "w") as file:
                file.write(
                    f"#!{sys.executable} -IS\nimport sys\nsys.path.insert(0, {here!r})\n"
                    f"from tool_server import be_tool\nbe_tool({self.socket!r})\n"
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


def be_tool(path: str) -> NoReturn:
    """Run the tool that this process was started as."""
    status = call(path, sys.argv)["status"]
    # As in a shell, for a process ended by a signal.
    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    serve(sys.argv[1])
