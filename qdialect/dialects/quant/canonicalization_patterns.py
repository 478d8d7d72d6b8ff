"""The canonicalization of the shape ops."""

from __future__ import annotations

from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from qdialect.dialects.quant.constants import ConstantOp
from qdialect.dialects.quant.folding import simplified
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.shape_folding.folder import fold_shape_op


class FoldShapeOpOfConstants(RewritePattern):
    """`f(constant C) = constant (C . f)`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ShapeOp, rewriter: PatternRewriter, /) -> None:
        sources = [
            operand.owner for operand in op.operands if isinstance(operand.owner, ConstantOp)
        ]
        if len(sources) < len(op.operands):
            return
        folded = fold_shape_op(op, sources)
        if folded is not None:
            rewriter.replace(op, folded)


class ComposeShapeOps(RewritePattern):
    """`g(f(x)) = (g . f)(x)`, where one op does both."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ShapeOp, rewriter: PatternRewriter, /) -> None:
        new_op = simplified(op, op.operands)
        if new_op is not None:
            rewriter.replace(op, new_op)
