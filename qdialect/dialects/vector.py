"""The forms of vector: https://mlir.llvm.org/docs/Dialects/Vector/."""

from __future__ import annotations

from typing import Final

from qdialect.text.syntax import DialectSyntax, Form

_KIND: Final = "kind:in_brackets(vector.kind)"

_YIELD: Final = ("operands*", "attr-dict <? $operands : type(operands) ?>")

_MASKED: Final = "base indices*=index mask"

_BASED: Final = "base offsets*=index indices mask"

SYNTAX = DialectSyntax(
    dialect="vector",
    forms=(
        Form(
            "compressstore",
            f"{_MASKED} valueToStore alignment:any",
            "$base [ $indices ] , $mask , $valueToStore attr-dict : type(base) , type(mask) , "
            "type(valueToStore)",
        ),
        Form(
            "constant_mask",
            "mask_dim_sizes:integers(i64) -> result",
            "$mask_dim_sizes attr-dict : type(result)",
        ),
        Form(
            "contract",
            "lhs rhs acc=result indexing_maps:any kind:any "
            "iterator_types:keywords(vector.iterator_type) -> result",
            "attr-dict $lhs , $rhs , $acc : type(lhs) , type(rhs) into type(result)",
        ),
        Form(
            "deinterleave",
            "source -> res1 res2=res1",
            "$source attr-dict : type(source) -> type(res1)",
        ),
        Form(
            "expandload",
            f"{_MASKED} pass_thru alignment:any -> result",
            "$base [ $indices ] , $mask , $pass_thru attr-dict : type(base) , type(mask) , "
            "type(pass_thru) into type(result)",
        ),
        Form(
            "extract_strided_slice",
            "source offsets:any sizes:any strides:any -> result",
            "$source attr-dict : type(source) to type(result)",
        ),
        Form(
            "from_elements",
            "elements*=element(dest) -> dest",
            "$elements attr-dict : type(dest)",
        ),
        Form(
            "gather",
            f"{_BASED} pass_thru alignment:any -> result",
            "$base [ $offsets ] [ $indices ] , $mask , $pass_thru attr-dict : type(base) , "
            "type(indices) , type(mask) , type(pass_thru) into type(result)",
        ),
        Form(
            "insert_strided_slice",
            "valueToStore dest offsets:any strides:any -> result=dest",
            "$valueToStore , $dest attr-dict : type(valueToStore) into type(dest)",
        ),
        Form(
            "interleave",
            "lhs rhs=lhs -> result",
            "$lhs , $rhs attr-dict : type(lhs) -> type(result)",
        ),
        Form(
            "mask",
            "mask passthru?=results {maskRegion:vector.yield*} -> results*",
            "$mask <? , $passthru ?> $maskRegion attr-dict : type(mask) arrow(results)",
        ),
        Form(
            "multi_reduction",
            f"{_KIND} source acc=dest reduction_dims:integers(i64) -> dest",
            "$kind , $source , $acc attr-dict $reduction_dims : type(source) to type(dest)",
        ),
        Form(
            "outerproduct",
            "lhs rhs acc?=result kind:any -> result=product(lhs,rhs)",
            "$lhs , $rhs <? , $acc ?> attr-dict : type(lhs) , type(rhs)",
        ),
        Form(
            "print",
            "source? punctuation:in_brackets(vector.punctuation) stringLiteral:text",
            "<? $source : type(source) ?> <? str $stringLiteral ?> "
            "<? punctuation $punctuation ?> attr-dict",
        ),
        Form(
            "scalable.extract",
            "source pos:integer(i64) -> result",
            "$source [ $pos ] attr-dict : type(result) from type(source)",
        ),
        Form(
            "scalable.insert",
            "valueToStore dest pos:integer(i64) -> result=dest",
            "$valueToStore , $dest [ $pos ] attr-dict : type(valueToStore) into type(dest)",
        ),
        Form(
            "scan",
            f"{_KIND} source initial_value reduction_dim:any inclusive:any "
            "-> dest=source accumulated_value=initial_value",
            "$kind , $source , $initial_value attr-dict : type(operands)",
        ),
        Form(
            "scatter",
            f"{_BASED} valueToStore alignment:any -> result?",
            "$base [ $offsets ] [ $indices ] , $mask , $valueToStore attr-dict : type(base) , "
            "type(indices) , type(mask) , type(valueToStore) arrow(result)",
        ),
        Form("shape_cast", "source -> result", "$source attr-dict : type(source) to type(result)"),
        Form("step", "-> result", "attr-dict : type(result)"),
        Form(
            "to_elements",
            "source -> elements*=elements(source)",
            "$source attr-dict : type(source)",
        ),
        Form(
            "transpose",
            "vector permutation:integers(i64) -> result",
            "$vector , $permutation attr-dict : type(vector) to type(result)",
        ),
        Form(
            "type_cast",
            "memref -> result",
            "$memref attr-dict : type(memref) to type(result)",
        ),
        Form("vscale", "-> result=index", "attr-dict"),
        Form("yield", *_YIELD, traits="terminator"),
    ),
    replaced={"print": None},
    opaque="iterator_type kind punctuation",
)
