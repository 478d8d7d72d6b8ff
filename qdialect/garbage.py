"""The collection of garbage, which goes through all objects that there are."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Generator[None]:
    """
    No collection of garbage meanwhile: for work on a whole module that makes little of it.

    Each would go through all operations. Only circles of objects are left for later.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
