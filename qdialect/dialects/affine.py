"""The ops of affine, and their forms: https://mlir.llvm.org/docs/Dialects/Affine/."""

from __future__ import annotations

from qdialect.ops.model import Effects, OpModel, OpModels
from qdialect.text.syntax import DialectSyntax, Form

MODELS = OpModels("affine", {"for if yield": OpModel(is_control=True, effects=Effects.NONE)})

SYNTAX = DialectSyntax(
    dialect="affine",
    forms=(
        Form(
            "if",
            "operands*=index condition:any {thenRegion:affine.yield} {elseRegion:affine.yield} "
            "-> results*",
            "applied(condition,operands) arrow(results) $thenRegion <? else $elseRegion ?> "
            "attr-dict",
            is_read_for_xdsl=True,
        ),
        Form("max", "operands*=index map:any -> result=index", "applied(map,operands) attr-dict"),
        Form(
            "delinearize_index",
            "linear_index=index dynamic_basis*=index static_basis:any -> multi_index*",
            "$linear_index into indices(dynamic_basis,static_basis,()) attr-dict : "
            "type(multi_index)",
        ),
        Form(
            "linearize_index",
            "multi_index*=index dynamic_basis*=index static_basis:any disjoint:unit "
            "-> linear_index",
            "<? disjoint $disjoint ?> [ $multi_index ] by "
            "indices(dynamic_basis,static_basis,()) attr-dict : type(linear_index)",
        ),
    ),
)
