"""The forms of memref: https://mlir.llvm.org/docs/Dialects/MemRef/."""

from __future__ import annotations

from typing import Final

from qdialect.text.syntax import DialectSyntax, Form

_ATOMIC: Final = (
    "addf|addi|andi|assign|maximumf|maxnumf|maxs|maxu|minimumf|minnumf|mins|minu|mulf|muli|ori|xori"
)

_SLICED: Final = "offsets*=index sizes*=index strides*=index"

_STATIC: Final = "static_offsets:any static_sizes:any static_strides:any"

SYNTAX = DialectSyntax(
    dialect="memref",
    forms=(
        Form(
            "alloca_scope",
            "{bodyRegion:memref.alloca_scope.return} -> results*",
            "arrow(results) $bodyRegion attr-dict",
            is_read_for_xdsl=True,
        ),
        Form(
            "alloca_scope.return",
            "values*",
            "attr-dict <? $values : type(values) ?>",
            traits="terminator",
            is_read_for_xdsl=True,
        ),
        Form(
            "atomic_rmw",
            f"kind:number_of(i64|{_ATOMIC}) value memref indices*=index -> result",
            "$kind $value , $memref [ $indices ] attr-dict : ( type(value) , type(memref) ) "
            "-> type(result)",
            is_read_for_xdsl=True,
        ),
        Form("atomic_yield", "result", "$result attr-dict : type(result)", traits="terminator"),
        Form(
            "cast memory_space_cast",
            "source -> dest",
            "$source attr-dict : type(source) to type(dest)",
            is_read_for_xdsl=True,
        ),
        Form(
            "copy",
            "source target",
            "$source , $target attr-dict : type(source) to type(target)",
            is_read_for_xdsl=True,
        ),
        Form(
            "distinct_objects",
            "operands* -> results*=operands",
            "$operands attr-dict : type(operands)",
        ),
        Form(
            "dma_wait",
            "tagMemRef tagIndices*=index numElements=index",
            "$tagMemRef [ $tagIndices ] , $numElements attr-dict : type(tagMemRef)",
            is_read_for_xdsl=True,
        ),
        Form(
            "extract_aligned_pointer_as_index",
            "source -> aligned_pointer",
            "$source : type(source) -> type(aligned_pointer) attr-dict",
            is_read_for_xdsl=True,
        ),
        Form(
            "generic_atomic_rmw",
            "memref indices*=index {atomic_body} -> result=element(memref)",
            "$memref [ $indices ] : type(memref) $atomic_body attr-dict",
        ),
        Form(
            "global",
            "sym_name:symbol sym_visibility:text type:any initial_value:any constant:unit "
            "alignment:any",
            "<? $sym_visibility ?> <? constant $constant ?> $sym_name : $type "
            "<? = initial(initial_value,type) ?> attr-dict",
        ),
        Form(
            "prefetch",
            "memref indices*=index isWrite:number_of(i1|read|write) localityHint:integer(i32) "
            "isDataCache:number_of(i1|instr|data)",
            "$memref [ $indices ] , $isWrite , locality < $localityHint > , $isDataCache "
            "attr-dict : type(memref)",
        ),
        Form("rank", "memref -> result=index", "$memref attr-dict : type(memref)"),
        Form(
            "realloc",
            "source dynamicResultSize?=index alignment:any -> result",
            "$source <? ( $dynamicResultSize ) ?> attr-dict : type(source) to type(result)",
        ),
        Form(
            "reinterpret_cast",
            f"source {_SLICED} {_STATIC} -> result",
            "$source to offset : indices(offsets,static_offsets) , sizes : "
            "indices(sizes,static_sizes) , strides : indices(strides,static_strides) "
            "attr-dict : type(source) to type(result)",
        ),
        Form(
            "reshape",
            "source shape -> result",
            "$source ( $shape ) attr-dict : functional-type",
        ),
        Form(
            "transpose",
            "in permutation:map -> result",
            "$in $permutation attr-dict : type(in) to type(result)",
        ),
    ),
    replaced=dict.fromkeys(("global", "rank", "reinterpret_cast")),
)
