"""How many random examples a property is tested with."""

from __future__ import annotations

import os
from typing import Any, Final

from hypothesis import settings

SHARE: Final = int(os.environ.get("EXAMPLES_SHARE", "1"))
"""One of so many examples is drawn: where the same examples are tested elsewhere, too."""


def examples(count: int, **others: Any) -> settings:
    """The settings of a property with `count` examples, or the share of them that is tested."""
    return settings(max_examples=max(2, count // SHARE), **others)
