"""The number of random examples that properties are tested with."""

from __future__ import annotations

import os
from typing import Any, Final

from hypothesis import settings

SHARE: Final = int(os.environ.get("EXAMPLES_SHARE", "1"))
"""The divisor of the number of examples, for environments that repeat tests run elsewhere."""


def examples(count: int, **others: Any) -> settings:
    """The settings of a property with `count / SHARE` examples."""
    return settings(max_examples=max(2, count // SHARE), **others)
