"""The cyclic garbage collector, each run of which visits all objects of the process."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager
from threading import get_ident

_pausing: set[int] = set()
"""The threads that have switched collection off, and will switch it on again."""


@contextmanager
def paused_collection() -> Generator[None]:
    """
    No garbage collection meanwhile: for work on a whole module that makes little garbage.

    Each collection would visit all operations. Only reference cycles are left for later.
    """
    thread = get_ident()
    if not gc.isenabled():
        # By a caller, which may be this function in another thread.
        yield
        return
    _pausing.add(thread)
    gc.disable()
    try:
        yield
    finally:
        # In this order: a fork in between finds a pause that it ends.
        gc.enable()
        _pausing.discard(thread)


def _resume_in_child() -> None:
    """After a fork, end the pauses of the threads that the child does not have."""
    if _pausing - {get_ident()}:
        _pausing.intersection_update({get_ident()})
        if not _pausing:
            gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_resume_in_child)
