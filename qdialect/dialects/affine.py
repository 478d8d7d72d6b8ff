"""The ops of affine, and their forms: https://mlir.llvm.org/docs/Dialects/Affine/."""

from __future__ import annotations

from qdialect.ops.model import Effects, OpModel, OpModels
from qdialect.text.syntax import DialectSyntax

MODELS = OpModels("affine", {"for if yield": OpModel(is_control=True, effects=Effects.NONE)})

SYNTAX = DialectSyntax(
    dialect="affine",
    forms={
        "if": "applied(condition,operands) arrow(results) region(thenRegion,affine.yield) <? else "
        "region(elseRegion,affine.yield) ?> attr-dict",
        "max": "applied(map,operands) attr-dict ->result=index",
        "delinearize_index": "$linear_index=index into indices(dynamic_basis,static_basis,()) "
        "attr-dict : type(multi_index*)",
        "linearize_index": "<? disjoint $disjoint:unit ?> [ $multi_index*=index ] by "
        "indices(dynamic_basis,static_basis,()) attr-dict : type(linear_index)",
    },
    read_in_part="if",
)
