"""
numpy as `np`, imported on first use.

Importing numpy takes as long as reading, verifying and printing a small module, and many small
modules need no arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["np"]


class _LazyNumpy:
    def __getattr__(self, name: str) -> Any:
        # The deferred import.
        import numpy

        value = getattr(numpy, name)
        # Later accesses bypass `__getattr__`.
        setattr(self, name, value)
        return value


if not TYPE_CHECKING:
    np = _LazyNumpy()
