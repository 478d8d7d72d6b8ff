"""
The end of the server of tools that callers have: small, since each tool of a lit test starts it.

`socket` and `json` take longer to import than the rest of a call, and `typing` does, too.
"""

import _socket
import marshal
import os
import sys
from array import array

MAX_REPLY = 1 << 12
"""The maximum size of a reply in bytes."""


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
    request = marshal.dumps((command, os.getcwd(), dict(os.environ), max_addresses))
    connection = _socket.socket(_socket.AF_UNIX)
    connection.connect(path)
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", files))
    # The first part goes with the files, in one message.
    connection.sendmsg([request[:1]], [rights])
    connection.sendall(request[1:])
    connection.shutdown(_socket.SHUT_WR)
    reply = connection.recv(MAX_REPLY)
    connection.close()
    assert reply, "the server of the tools has ended"
    return marshal.loads(reply)


def be_tool(path: str) -> None:
    """Run the tool that this process was started as, and end as it does."""
    status = call(path, sys.argv)["status"]
    # As in a shell, for a process ended by a signal.
    os._exit(status if status >= 0 else 128 - status)
