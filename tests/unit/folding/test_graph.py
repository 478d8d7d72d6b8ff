"""A fold graph is freed at the end of its run."""

from __future__ import annotations

import gc
import weakref

import pytest
from folded_modules import fold

from qdialect.folding.apply import FoldRun
from qdialect.folding.graph import GraphReader
from qdialect.folding.plan import decide
from qdialect.folding.policy import FoldPolicy
from qdialect.ops.interface import RefusalCode
from qdialect.opt.registry import ToolContext
from qdialect.support.memory import memory_budget
from qdialect.text.parser import LocatingParser

MODULE = """
!q = !quant.uniform<i8:f32, 0.5>
func.func @f() -> tensor<2x1xf32> {
  %widths = arith.constant dense<[0, 1]> : tensor<2xindex>
  %moved = tosa.reverse %widths {axis = 0 : i32} : (tensor<2xindex>) -> tensor<2xindex>
  %weight = quant.constant dense<[[1, 2]]> : tensor<1x2x!q>
  %float = quant.dcast %weight : tensor<1x2x!q> to tensor<1x2xf32>
  %turned = tosa.transpose %float {perms = array<i32: 1, 0>} :
    (tensor<1x2xf32>) -> tensor<2x1xf32>
  return %turned : tensor<2x1xf32>
}
"""


def test_a_graph_is_freed_with_its_run():
    """Not by a collection: the tools never run one."""
    context = ToolContext()
    module = LocatingParser(context, MODULE).parse_module()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with memory_budget() as budget:
            graph = GraphReader(module, context, budget).graph
            is_alive = weakref.ref(graph)
            run = FoldRun(graph, decide(graph, FoldPolicy(), budget))
            assert run.plan.constants
            del graph
            assert is_alive() is not None
            report = run.run()
            del run
        assert is_alive() is None
        assert report.constants == 1
    finally:
        if was_enabled:
            gc.enable()


@pytest.mark.parametrize("changed", [False, True])
def test_names_are_those_of_the_module_as_it_was_read(changed: bool):
    context = ToolContext()
    module = LocatingParser(context, MODULE).parse_module()
    with memory_budget() as budget:
        graph = GraphReader(module, context, budget).graph
        run = FoldRun(graph, decide(graph, FoldPolicy(), budget))
        plan = run.plan
        if changed:
            run.run()
        assert run.plan == plan
        assert {source.name for source in plan.sources} == {"@f/%weight"}


def test_a_value_that_is_read_twice_is_followed_once():
    """The growth of a fold depends on all that only it reads: of a chain, not of 2**64 paths."""
    four, two, lines = "tensor<4x!q>", "tensor<2x!q>", list[str]()
    for number in range(64):
        lines += [
            f"%t{number} = quant.concat dim(0) %x{number}, %x{number} : ({two}, {two}) -> {four}",
            f"%x{number + 1} = quant.slice %t{number} [1] [2] [1] : {four} to {two}",
        ]
    body = "\n".join(lines)
    _, report = fold(
        f"""
        !q = !quant.uniform<i8:f32, 0.5>
        func.func @f() -> {four} {{
          %x0 = quant.constant dense<[1, 2]> : {two}
          {body}
          %r = quant.concat dim(0) %x64, %x64 : ({two}, {two}) -> {four}
          return %r : {four}
        }}""",
        max_growth=0,
        max_repetition=2,
    )
    assert report.refused(RefusalCode.GROWTH)
