"""Pauses the cyclic garbage collector, which visits all objects of the process in each run."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager
from threading import get_ident

_pausing: set[int] = set()
"""The threads that have disabled collection, and will enable it again."""


@contextmanager
def paused_collection() -> Generator[None]:
    """
    Disable garbage collection during work on a whole module that makes little garbage.

    Each collection would visit all operations. Reference cycles are collected later.
    """
    thread = get_ident()
    if not gc.isenabled():
        # Disabled by a caller, or by this function in another thread.
        yield
        return
    _pausing.add(thread)
    gc.disable()
    try:
        yield
    finally:
        # Enabled before the pause is unregistered, so that a fork in between ends the pause in the
        # child.
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
