"""
numpy under its usual name, imported when it is first used.

Importing numpy takes as long as reading, verifying and printing a small module, which often
needs no arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["np"]


class _LazyNumpy:
    def __getattr__(self, name: str) -> Any:
        # This is what has numpy imported late.
        import numpy

        value = getattr(numpy, name)
        # The next time, it is found without coming here.
        setattr(self, name, value)
        return value


if not TYPE_CHECKING:
    np = _LazyNumpy()
