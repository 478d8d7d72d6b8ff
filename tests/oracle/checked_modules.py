"""Comparing modules given as text with `qdialect-check`."""

from __future__ import annotations

from qdialect.check.compared_modules import Side
from qdialect.check.comparison import compare_modules
from qdialect.opt.registry import ToolContext
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.text.parser import LocatingParser


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
    """The messages of differences, and of parts that are not shown to be the same."""
    return [finding.message for finding in compare_modules(read(before), after).findings]


def grounds(before: str, after: Side) -> set[str]:
    """The grounds for the verdicts. All functions must be found equal."""
    comparison = compare_modules(read(before), after)
    assert [finding.message for finding in comparison.findings] == []
    return set(map(str, comparison.verdicts))
