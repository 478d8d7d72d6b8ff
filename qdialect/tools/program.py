"""`qdialect-opt` as a process of its own, which may go about its end in its own way."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from functools import partial


def run() -> int:
    """
    Run the tool with the arguments of the process; returns the exit status.

    Only for a process that ends then: it collects no garbage any more, and the interpreter
    does not take down what is in memory. Both take long, and free nothing that is needed.
    """
    gc.disable()
    # numpy starts threads for linear algebra, of which there is none.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    statuses: list[int] = []
    # What is registered first is called last: what others do at the end is done before.
    atexit.register(partial(_leave, statuses))
    from qdialect.tools.opt import main

    statuses.append(main())
    return statuses[0]


def _leave(statuses: list[int]) -> None:
    """End the process with the status that there is; without one, Python has an error to tell."""
    if not statuses:
        return
    for stream in filter(None, (sys.stdout, sys.stderr)):
        # What could not be written is told, and has its status.
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(statuses[0])
