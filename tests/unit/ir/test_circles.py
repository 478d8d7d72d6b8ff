"""Finding the ops that use their own results."""

from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Block, Operation, Region

from qdialect.ir.rewriting import on_circles


def reached(edges: dict[Operation, set[Operation]], start: Operation) -> set[Operation]:
    """All ops to which a path leads that is not empty."""
    found: set[Operation] = set()
    pending = [start]
    while pending:
        new = edges[pending.pop()] - found
        found |= new
        pending += new
    return found


@given(st.data())
def test_circles_are_found(data: st.DataObject):
    """For all graphs of a few ops, with some ops in regions of others."""
    count = data.draw(st.integers(1, 7))
    parents = [data.draw(st.integers(-1, number - 1)) for number in range(count)]
    ops = [
        test.TestOp(result_types=[i32], regions=[Region(Block())] if number in parents else [])
        for number in range(count)
    ]
    module = ModuleOp([])
    for op, parent in zip(ops, parents, strict=True):
        block = module.body.block if parent < 0 else ops[parent].regions[0].block
        block.add_op(op)
    edges: dict[Operation, set[Operation]] = {op: set() for op in ops}
    for op in ops:
        makers = data.draw(st.lists(st.sampled_from(ops), max_size=2))
        op.operands = [maker.results[0] for maker in makers]
        edges[op] |= {*makers}
    for op, parent in zip(ops, parents, strict=True):
        if parent >= 0:
            edges[ops[parent]].add(op)
    assert on_circles(module) == {op for op in ops if op in reached(edges, op)}
