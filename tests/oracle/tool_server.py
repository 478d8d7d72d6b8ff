"""
The tools as processes that are forked from one which has imported them.

To start a tool anew takes ten times as long as most runs of it in tests. A server imports the
modules once; `call` has it fork a process for each command, which gets the caller's arguments,
folder, environment and files, and runs as the script of the tool does. The start of the
scripts themselves is what tests/unit/tools/test_process.py is about.

As a script, this file is the server, until its standard input ends.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

TOOLS = {
    "filecheck": ("filecheck.main", "main"),
    "qdialect-check": ("qdialect.tools.program", "run_check"),
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
    "qdialect.text.dense",
    "qdialect.tools.check",
    "qdialect.tools.compilation",
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
"""Bytes of a request."""


def call(
    path: str,
    command: list[str],
    files: tuple[int, int, int] = (0, 1, 2),
    max_addresses: int | None = None,
) -> dict[str, int]:
    """
    Run a tool with three open files.

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
        # As the tools have it.
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
    """Returns in the process of the tool; that of the answer ends here."""
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
    # The streams that Python has made of other files have their properties, such as positions.
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
    A server, in a folder with a script for each tool that has it run there.

    It ends with the process that has made this, or in `close`.
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


def be_tool(path: str) -> NoReturn:
    """Run the tool that this process is called by."""
    status = call(path, sys.argv)["status"]
    # As a shell has it for a process that a signal has ended.
    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    serve(sys.argv[1])
