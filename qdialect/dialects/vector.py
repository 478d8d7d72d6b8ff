"""The forms of vector: https://mlir.llvm.org/docs/Dialects/Vector/."""

from __future__ import annotations

from qdialect.text.syntax import DialectSyntax

SYNTAX = DialectSyntax(
    dialect="vector",
    forms={
        "compressstore": "$base [ $indices*=index ] , $mask , $valueToStore attr-dict(alignment) "
        ": type(base) , type(mask) , type(valueToStore)",
        "constant_mask": "$mask_dim_sizes:integers(i64) attr-dict : type(result)",
        "contract": "trait(indexing_maps,kind,iterator_types:keywords(vector.iterator_type)) "
        "$lhs , $rhs , $acc=result : type(lhs) , type(rhs) into type(result)",
        "deinterleave": "$source attr-dict : type(source) -> type(res1) ->res2=res1",
        "expandload": "$base [ $indices*=index ] , $mask , $pass_thru attr-dict(alignment) : "
        "type(base) , type(mask) , type(pass_thru) into type(result)",
        "extract_strided_slice": "$source attr-dict(offsets,sizes,strides) : type(source) to "
        "type(result)",
        "from_elements": "$elements*=element(dest) attr-dict : type(dest)",
        "gather": "$base [ $offsets*=index ] [ $indices ] , $mask , $pass_thru "
        "attr-dict(alignment) : type(base) , type(indices) , type(mask) , type(pass_thru) into "
        "type(result)",
        "insert_strided_slice": "$valueToStore , $dest attr-dict(offsets,strides) : "
        "type(valueToStore) into type(dest) ->result=dest",
        "interleave": "$lhs , $rhs=lhs attr-dict : type(lhs) -> type(result)",
        "mask": "$mask <? , $passthru?=results ?> region(maskRegion,vector.yield*) attr-dict : "
        "type(mask) arrow(results)",
        "multi_reduction": "$kind:in_brackets(vector.kind) , $source , $acc=dest attr-dict "
        "$reduction_dims:integers(i64) : type(source) to type(dest)",
        "outerproduct": "$lhs , $rhs <? , $acc?=result ?> attr-dict(kind) : type(lhs) , type(rhs) "
        "->result=product(lhs,rhs)",
        "print": "<? $source? : type(source) ?> <? str $stringLiteral:text ?> <? punctuation "
        "$punctuation:in_brackets(vector.punctuation) ?> attr-dict",
        "scalable.extract": "$source [ $pos:integer(i64) ] attr-dict : type(result) from "
        "type(source)",
        "scalable.insert": "$valueToStore , $dest [ $pos:integer(i64) ] attr-dict : "
        "type(valueToStore) into type(dest) ->result=dest",
        "scan": "$kind:in_brackets(vector.kind) , $source , $initial_value "
        "attr-dict(reduction_dim,inclusive) : type(operands) ->dest=source "
        "->accumulated_value=initial_value",
        "scatter": "$base [ $offsets*=index ] [ $indices ] , $mask , $valueToStore "
        "attr-dict(alignment) : type(base) , type(indices) , type(mask) , type(valueToStore) "
        "arrow(result?)",
        "shape_cast": "$source attr-dict : type(source) to type(result)",
        "step": "attr-dict : type(result)",
        "to_elements": "$source attr-dict : type(source) ->elements*=elements(source)",
        "transpose": "$vector , $permutation:integers(i64) attr-dict : type(vector) to "
        "type(result)",
        "type_cast": "$memref attr-dict : type(memref) to type(result)",
        "vscale": "attr-dict ->result=index",
        "yield": "attr-dict <? $operands* : type(operands) ?>",
    },
    terminators="yield",
    replaced={"print": None},
    opaque="iterator_type kind punctuation",
)
