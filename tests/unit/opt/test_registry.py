"""Unregistered ops, types and attributes have one class per name, in all contexts of the tools."""

from __future__ import annotations

from xdsl.dialects.arith import AddfOp

from qdialect import clear_caches
from qdialect.opt.registry import ToolContext
from qdialect.text.parser import LocatingParser

TEXT = '%0 = "own.op"() {a = #own.attribute<1>} : () -> !own.type<2>\n'


def test_contexts_share_the_classes_of_unregistered_names() -> None:
    ops = [
        LocatingParser(ToolContext(allow_unregistered=True), TEXT)
        .parse_module()
        .body.block.first_op
        for _ in range(2)
    ]
    first, second = ops
    assert first is not None
    assert second is not None
    assert type(first) is type(second)
    assert first.attributes == second.attributes
    assert first.results[0].type == second.results[0].type


def test_a_context_keeps_its_classes() -> None:
    context = ToolContext(allow_unregistered=True)
    lookups = (context.get_optional_op, context.get_optional_type, context.get_optional_attr)
    before = [look_up("own.name") for look_up in lookups]
    clear_caches()
    assert [look_up("own.name") for look_up in lookups] == before
    # They are three different classes, as a type and an attribute may have the same name.
    assert len({*before}) == 3


def test_names_are_known_or_unregistered_where_that_is_allowed() -> None:
    context = ToolContext()
    assert context.get_optional_op("own.op") is None
    assert context.get_optional_type("own.type") is None
    assert context.get_optional_attr("own.attribute") is None
    context.allow_unregistered = True
    assert context.get_optional_op("arith.addf") is AddfOp
    assert context.get_optional_op("own.op") is not None
    assert context.allow_unregistered
    context.allow_unregistered = False
    assert context.get_optional_op("own.op") is None
