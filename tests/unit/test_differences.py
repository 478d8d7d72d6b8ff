"""The tables of differences from other systems name tests that there are."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("page", ["quantization", "equalization"])
def test_each_row_has_its_test(page: str):
    text = (HERE.parents[1] / "docs" / f"{page}.md").read_text(encoding="utf-8")
    table = text.partition("## Differences")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    tests = "".join(path.read_text(encoding="utf-8") for path in HERE.rglob("test_*.py"))
    assert len(rows) > 10
    for row in rows:
        name = re.search(r"`(test_\w+)` \|$", row)
        assert name is not None, row
        assert f"def {name[1]}(" in tests, row
