"""The table of differences in docs/quantization.md names tests that there are."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "quantization.md"


def test_each_row_has_its_test():
    table = PAGE.read_text(encoding="utf-8").partition("## Differences")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    tests = "".join(path.read_text(encoding="utf-8") for path in HERE.parent.rglob("test_*.py"))
    assert len(rows) > 10
    for row in rows:
        name = re.search(r"`(test_\w+)` \|$", row)
        assert name is not None, row
        assert f"def {name[1]}(" in tests, row
