"""
Each numbered constraint of the pages of the dialect has a test that names it, and tests name no
others.
"""

import re
from pathlib import Path

from own_ops import OWN_OPS

from qdialect.dialects.quant import Quant

ROOT = Path(__file__).parents[3]
COMMON = "every shape op"
QUANT_OPS = {op.name for op in Quant.operations}
SHAPE_OPS = {op.name for op in OWN_OPS.values()}


def documented() -> set[tuple[str, int]]:
    """The constraints of the pages: whose they are, and their numbers."""
    found: set[tuple[str, int]] = set()
    ops: list[str] = []
    pages = [ROOT / "docs" / f"{page}.md" for page in ("dialect", "casts_and_statistics")]
    for line in "\n".join(page.read_text() for page in pages).splitlines():
        if line == "### Constraints of every shape op":
            ops = [COMMON]
        elif re.fullmatch(r"(Constraints of )?`quant\.\w+`( and `quant\.\w+`)?:", line):
            ops = re.findall(r"quant\.\w+", line)
        elif number := re.match(r"- \(C(\d+)\) ", line):
            found |= {(op, int(number[1])) for op in ops}
    return found


def named_by_tests() -> set[tuple[str, int]]:
    """The constraints that tests of invalid ops name in comments. Each test expects an error."""
    found: set[tuple[str, int]] = set()
    for path in (ROOT / "tests" / "filecheck" / "dialects" / "quant").glob("*_invalid.mlir"):
        for case in path.read_text().split("\n// -----\n"):
            for of, number in re.findall(rf"^// ({COMMON}|quant\.\w+) \(C(\d+)\)$", case, re.M):
                ops = SHAPE_OPS if of == COMMON else {of}
                assert any(f" = {op} " in case or f'"{op}"' in case for op in ops), case
                assert "// expected-error" in case, case
                found.add((of, int(number)))
    return found


def test_every_constraint_has_a_test():
    constraints = documented()
    assert constraints == named_by_tests()
    assert {of for of, _ in constraints} == {COMMON, *QUANT_OPS}
    assert SHAPE_OPS < QUANT_OPS


def test_constraints_are_numbered_without_a_gap():
    numbers: dict[str, list[int]] = {}
    for of, number in sorted(documented()):
        numbers.setdefault(of, []).append(number)
    common = len(numbers.pop(COMMON))
    for of, own in numbers.items():
        first = common + 1 if of in SHAPE_OPS else 1
        assert own == list(range(first, first + len(own))), of
