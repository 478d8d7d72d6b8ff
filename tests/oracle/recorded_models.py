"""Models whose values have ranges, without any run."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from qdialect.dialects.quant import StatisticsOp
from qdialect.ir.rewriting import insert_after
from qdialect.ops.along_axis import is_recordable
from qdialect.ops.interface import elements_attribute_of


def record(module: ModuleOp) -> None:
    """Give all values of floats a range."""
    found = list[SSAValue]()
    for op in list(module.walk()):
        if isinstance(op, FuncOp):
            found += filter(is_recordable, op.args)
        elif isinstance(op.parent_op(), FuncOp) and elements_attribute_of(op) is None:
            found += filter(is_recordable, op.results)
    for number, value in enumerate(found):
        uses = list(value.uses)
        if not uses:
            continue
        ends = DenseIntOrFPElementsAttr.from_list(
            TensorType(f32, [2]), [-1 - number / 64, 1 + number / 32]
        )
        stats = StatisticsOp.create(
            operands=[value], result_types=[value.type], properties={"layerStats": ends}
        )
        insert_after(stats, value)
        for use in uses:
            use.operation.operands[use.index] = stats.results[0]
