"""
Models that are quantized from their ranges, read by rules that are written anew.

What is checked are the casts in the text: which types stand before and after each op.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.usefixtures("without_plugins")
