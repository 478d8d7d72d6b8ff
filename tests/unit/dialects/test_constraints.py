"""
Each numbered constraint of docs/dialect.md has a test that names it, and tests name no others.
"""

import re
from pathlib import Path

from own_ops import OWN_OPS

ROOT = Path(__file__).parents[3]
COMMON = "every shape op"
NO_SHAPE_OPS = ("quant.constant", "quant.stats", "quant.requantize", "quant.dequantize_bias")


def documented() -> set[tuple[str, int]]:
    """The constraints of the page: whose they are, and their numbers."""
    found: set[tuple[str, int]] = set()
    of = ""
    for line in (ROOT / "docs" / "dialect.md").read_text().splitlines():
        if line == "### Constraints of every shape op":
            of = COMMON
        elif heading := re.fullmatch(r"(?:Constraints of )?`(quant\.\w+)`:", line):
            of = heading[1]
        elif number := re.match(r"- \(C(\d+)\) ", line):
            found.add((of, int(number[1])))
    return found


def named_by_tests() -> set[tuple[str, int]]:
    """The constraints that tests of invalid ops name in comments."""
    found: set[tuple[str, int]] = set()
    for path in (ROOT / "tests" / "filecheck" / "dialects" / "quant").glob("*_invalid.mlir"):
        names = re.findall(rf"^// ({COMMON}|quant\.\w+) \(C(\d+)\)$", path.read_text(), re.M)
        found |= {(of, int(number)) for of, number in names}
    return found


def test_every_constraint_has_a_test():
    constraints = documented()
    assert constraints == named_by_tests()
    assert {of for of, _ in constraints} == {
        COMMON,
        *NO_SHAPE_OPS,
        *(op.name for op in OWN_OPS.values()),
    }


def test_constraints_are_numbered_without_a_gap():
    numbers: dict[str, list[int]] = {}
    for of, number in sorted(documented()):
        numbers.setdefault(of, []).append(number)
    common = len(numbers.pop(COMMON))
    for of, own in numbers.items():
        first = 1 if of in NO_SHAPE_OPS else common + 1
        assert own == list(range(first, first + len(own))), of
