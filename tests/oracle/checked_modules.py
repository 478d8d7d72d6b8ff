"""Texts that `qdialect-check` compares, and what it says."""

from __future__ import annotations

from qdialect.certificates.module_comparison import Side, compare_modules
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.text.parser import LocatingParser
from qdialect.tools.registry import ToolContext


def read(text: str) -> Side:
    """One side of a comparison."""
    context = ToolContext(allow_unregistered=True)
    module = LocatingParser(context, text).parse_module()
    module.verify()
    return Side(module, context)


def folded(text: str) -> Side:
    """A module whose shape ops are folded into constants."""
    side = read(text)
    FoldQuantShapesPass().apply(side.context, side.module)
    side.module.verify()
    return Side(side.module, side.context)


def findings(before: str, after: Side) -> list[str]:
    """What is different, or not shown to be the same."""
    return [finding.message for finding in compare_modules(read(before), after).findings]


def grounds(before: str, after: Side) -> set[str]:
    """What it rests on that the functions of both are the same, which they are."""
    comparison = compare_modules(read(before), after)
    assert [finding.message for finding in comparison.findings] == []
    return set(map(str, comparison.verdicts))
