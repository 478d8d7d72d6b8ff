"""
A table for each dialect of MLIR: ops that xDSL lacks, and custom forms that it does not parse.

The pages of the dialects are below https://mlir.llvm.org/docs/Dialects/. Types are verified only by
xDSL's own ops, since the rules depend on the version of MLIR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple, cast

from typing_extensions import override
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation, traits_def
from xdsl.traits import IsTerminator

from qdialect.support.memory import registered_cache
from qdialect.text.branch_syntax import ConditionalBranchSyntax
from qdialect.text.function_syntax import FunctionLibraryOp, ProgramFuncOp, ShapeFuncOp, SubgraphOp
from qdialect.text.masked_syntax import MaskOp
from qdialect.text.op_formats import FormattedOp, OpFormat
from qdialect.text.scf_syntax import (
    ForallOp,
    ForSyntax,
    IndexSwitchSyntax,
    InParallelOp,
    ParallelSyntax,
)


class _Row(NamedTuple):
    """Ops of one dialect with the same form."""

    names: str
    signature: str
    format: str
    is_terminator: bool = False


_FLAGS: Final = "<? fastmath $fastmath ?>"
_KIND: Final = "kind:in_brackets(vector.kind)"
_YIELD: Final = ("operands*", "attr-dict <? $operands : type(operands) ?>")
_PREDICATE: Final = "keyword(index/cmp_predicate)"
_ATOMIC: Final = (
    "addf|addi|andi|assign|maximumf|maxnumf|maxs|maxu|minimumf|minnumf|mins|minu|mulf|muli|ori|xori"
)
_MASKED: Final = "base indices*=index mask"
_BASED: Final = "base offsets*=index indices mask"
_SLICED: Final = "offsets*=index sizes*=index strides*=index"
_STATIC: Final = "static_offsets:any static_sizes:any static_strides:any"
_STRIDED: Final = (
    "indices(offsets,static_offsets) indices(sizes,static_sizes) indices(strides,static_strides)"
)
_PACKED: Final = (
    "inner_tiles*=index outer_dims_perm:integers(i64) inner_dims_pos:integers(i64) "
    "static_inner_tiles:any -> result=dest"
)
_TILES: Final = (
    "<? outer_dims_perm = $outer_dims_perm ?> inner_dims_pos = $inner_dims_pos inner_tiles = "
    "indices(inner_tiles,static_inner_tiles) into $dest attr-dict : type(source) -> type(dest)"
)
_EXACT: Final = ("lhs=result rhs=result isExact:unit -> result", "$lhs , $rhs <? exact $isExact ?>")
_SIZES: Final = ("lhs rhs -> result", "$lhs , $rhs attr-dict : type(operands) -> type(result)")

_TABLES: Final[Mapping[str, Sequence[_Row]]] = {
    "affine": (
        _Row(
            "if",
            "operands*=index condition:any {thenRegion:affine.yield} {elseRegion:affine.yield} "
            "-> results*",
            "applied(condition,operands) arrow(results) $thenRegion <? else $elseRegion ?> "
            "attr-dict",
        ),
        _Row("max", "operands*=index map:any -> result=index", "applied(map,operands) attr-dict"),
        _Row(
            "delinearize_index",
            "linear_index=index dynamic_basis*=index static_basis:any -> multi_index*",
            "$linear_index into indices(dynamic_basis,static_basis,()) attr-dict : "
            "type(multi_index)",
        ),
        _Row(
            "linearize_index",
            "multi_index*=index dynamic_basis*=index static_basis:any disjoint:unit "
            "-> linear_index",
            "<? disjoint $disjoint ?> [ $multi_index ] by "
            "indices(dynamic_basis,static_basis,()) attr-dict : type(linear_index)",
        ),
    ),
    "arith": (
        _Row("divsi divui shrsi shrui", _EXACT[0], f"{_EXACT[1]} attr-dict : type(result)"),
        _Row("index_castui", "in -> out", "$in attr-dict : type(in) to type(out)"),
        _Row(
            "remf",
            "lhs=result rhs=result fastmath:flags -> result",
            f"$lhs , $rhs {_FLAGS} attr-dict : type(result)",
        ),
        _Row(
            "scaling_extf scaling_truncf",
            "in scale fastmath:flags roundingmode:rounding -> out",
            f"$in , $scale <? $roundingmode ?> {_FLAGS} attr-dict : type(operands) to type(out)",
        ),
    ),
    "bufferization": (
        _Row(
            "dealloc",
            "memrefs* conditions*=i1 retained* -> updatedConditions*=booleans_for(retained)",
            "<? ( $memrefs : type(memrefs) ) if ( $conditions ) ?> "
            "<? retain ( $retained : type(retained) ) ?> attr-dict",
        ),
        _Row("dealloc_tensor", "tensor", "$tensor attr-dict : type(tensor)"),
    ),
    "complex": (
        _Row(
            "powi",
            "lhs=result rhs fastmath:flags -> result",
            f"$lhs , $rhs {_FLAGS} attr-dict : type(result) , type(rhs)",
        ),
    ),
    "func": (
        _Row("constant", "value:any -> result", "attr-dict $value : type(result)"),
        _Row(
            "call_indirect",
            "callee callee_operands*=inputs(callee) -> results*=outputs(callee)",
            "$callee ( $callee_operands ) attr-dict : type(callee)",
        ),
    ),
    "index": (
        _Row(
            "add and ceildivs ceildivu divs divu floordivs maxs maxu mins minu mul or rems "
            "remu shl shrs shru sub xor",
            "lhs=index rhs=index -> result=index",
            "$lhs , $rhs attr-dict",
        ),
        _Row("bool.constant", "value:bool -> result=i1", "attr-dict $value"),
        _Row("casts castu", "input -> output", "$input attr-dict : type(input) to type(output)"),
        _Row(
            "cmp",
            f"pred:{_PREDICATE} lhs=index rhs=index -> result=i1",
            "$pred ( $lhs , $rhs ) attr-dict",
        ),
        _Row("constant", "value:integer(index) -> result=index", "attr-dict $value"),
        _Row("sizeof", "-> result=index", "attr-dict"),
    ),
    "linalg": (
        _Row(
            "pack",
            f"source dest padding_value? {_PACKED}",
            f"$source <? padding_value ( $padding_value : type(padding_value) ) ?> {_TILES}",
        ),
        _Row(
            "softmax",
            "input output dimension:integer(i64) -> result*",
            "attr-dict dimension ( $dimension ) ins ( $input : type(input) ) "
            "outs ( $output : type(output) ) arrow(result)",
        ),
        _Row("unpack", f"source dest {_PACKED}", f"$source {_TILES}"),
        *(
            _Row(
                f"winograd_{name}_transform",
                f"{operand} output fmr:number_of(i32|F_2_3|F_4_3|F_2_5) -> result",
                f"attr-dict fmr ( $fmr ) ins ( ${operand} : type({operand}) ) "
                "outs ( $output : type(output) ) -> type(result)",
            )
            for name, operand in (("filter", "filter"), ("input", "input"), ("output", "value"))
        ),
    ),
    "math": (
        _Row(
            "clampf",
            "value=result min=result max=result fastmath:flags -> result",
            f"$value to [ $min , $max ] {_FLAGS} attr-dict : type(result)",
        ),
        _Row(
            "erfc",
            "operand=result fastmath:flags -> result",
            f"$operand {_FLAGS} attr-dict : type(result)",
        ),
        _Row(
            "isfinite isinf isnan isnormal",
            "operand fastmath:flags -> result=booleans(operand)",
            "$operand attr-dict : type(operand)",
        ),
        _Row(
            "sincos",
            "operand fastmath:flags -> sin=operand cos=operand",
            f"$operand {_FLAGS} attr-dict : type(operand)",
        ),
    ),
    "memref": (
        _Row(
            "alloca_scope",
            "{bodyRegion:memref.alloca_scope.return} -> results*",
            "arrow(results) $bodyRegion attr-dict",
        ),
        _Row(
            "alloca_scope.return",
            "values*",
            "attr-dict <? $values : type(values) ?>",
            is_terminator=True,
        ),
        _Row(
            "atomic_rmw",
            f"kind:number_of(i64|{_ATOMIC}) value memref indices*=index -> result",
            "$kind $value , $memref [ $indices ] attr-dict : ( type(value) , type(memref) ) "
            "-> type(result)",
        ),
        _Row("atomic_yield", "result", "$result attr-dict : type(result)", is_terminator=True),
        _Row(
            "cast memory_space_cast",
            "source -> dest",
            "$source attr-dict : type(source) to type(dest)",
        ),
        _Row(
            "copy",
            "source target",
            "$source , $target attr-dict : type(source) to type(target)",
        ),
        _Row(
            "distinct_objects",
            "operands* -> results*=operands",
            "$operands attr-dict : type(operands)",
        ),
        _Row(
            "dma_wait",
            "tagMemRef tagIndices*=index numElements=index",
            "$tagMemRef [ $tagIndices ] , $numElements attr-dict : type(tagMemRef)",
        ),
        _Row(
            "extract_aligned_pointer_as_index",
            "source -> aligned_pointer",
            "$source : type(source) -> type(aligned_pointer) attr-dict",
        ),
        _Row(
            "generic_atomic_rmw",
            "memref indices*=index {atomic_body} -> result=element(memref)",
            "$memref [ $indices ] : type(memref) $atomic_body attr-dict",
        ),
        _Row(
            "global",
            "sym_name:symbol sym_visibility:text type:any initial_value:any constant:unit "
            "alignment:any",
            "<? $sym_visibility ?> <? constant $constant ?> $sym_name : $type "
            "<? = initial(initial_value,type) ?> attr-dict",
        ),
        _Row(
            "prefetch",
            "memref indices*=index isWrite:number_of(i1|read|write) localityHint:integer(i32) "
            "isDataCache:number_of(i1|instr|data)",
            "$memref [ $indices ] , $isWrite , locality < $localityHint > , $isDataCache "
            "attr-dict : type(memref)",
        ),
        _Row("rank", "memref -> result=index", "$memref attr-dict : type(memref)"),
        _Row(
            "realloc",
            "source dynamicResultSize?=index alignment:any -> result",
            "$source <? ( $dynamicResultSize ) ?> attr-dict : type(source) to type(result)",
        ),
        _Row(
            "reinterpret_cast",
            f"source {_SLICED} {_STATIC} -> result",
            "$source to offset : indices(offsets,static_offsets) , sizes : "
            "indices(sizes,static_sizes) , strides : indices(strides,static_strides) "
            "attr-dict : type(source) to type(result)",
        ),
        _Row(
            "reshape",
            "source shape -> result",
            "$source ( $shape ) attr-dict : functional-type",
        ),
        _Row(
            "transpose",
            "in permutation:map -> result",
            "$in $permutation attr-dict : type(in) to type(result)",
        ),
    ),
    "mhlo": (
        _Row(
            "abs cbrt ceil cosine erf exponential exponential_minus_one floor log log_plus_one "
            "logistic negate not popcnt round_nearest_afz round_nearest_even rsqrt sign sine sqrt "
            "tan tanh convert",
            "operand -> result",
            "$operand attr-dict : same-type",
        ),
        _Row(
            "add and atan2 divide maximum minimum multiply or power remainder shift_left "
            "shift_right_arithmetic shift_right_logical subtract xor",
            "lhs rhs -> result",
            "$lhs , $rhs attr-dict : same-type",
        ),
        _Row("constant", "value:any -> output=held(value)", "attr-dict $value"),
        _Row("return", "results*", "$results attr-dict : type(results)"),
    ),
    "ml_program": (
        _Row(
            "global_load global_load_const",
            "global:any -> result",
            "$global : type(result) attr-dict",
        ),
        _Row(
            "global_load_graph",
            "global:any consumeTokens*=!ml_program.token -> result produceToken=!ml_program.token",
            "$global ordering ( <? ( ) ?> <? $consumeTokens ?> <? -> type(produceToken) ?> ) : "
            "type(result) attr-dict",
        ),
        _Row("global_store", "global:any value", "$global = $value : type(value) attr-dict"),
        _Row(
            "global_store_graph",
            "global:any value consumeTokens*=!ml_program.token -> produceToken=!ml_program.token",
            "$global = $value ordering ( <? ( ) ?> <? $consumeTokens ?> "
            "<? -> type(produceToken) ?> ) : type(value) attr-dict",
        ),
        _Row("output return", *_YIELD, is_terminator=True),
        _Row("token", "-> token=!ml_program.token", "attr-dict"),
    ),
    "scf": (
        _Row(
            "execute_region",
            "no_inline:unit {region} -> results*",
            "arrow(results) <? no_inline $no_inline ?> $region attr-dict",
        ),
    ),
    "shape": (
        _Row("add concat div max min mul", *_SIZES),
        _Row(
            "any broadcast",
            "shapes* error:any -> result",
            "$shapes attr-dict : type(shapes) -> type(result)",
        ),
        _Row(
            "assuming_all", "inputs*=!shape.witness -> result=!shape.witness", "$inputs attr-dict"
        ),
        _Row(
            "assuming",
            "witness=!shape.witness {doRegion:shape.assuming_yield} -> results*",
            "$witness arrow(results) $doRegion attr-dict",
        ),
        _Row("assuming_yield return yield", *_YIELD, is_terminator=True),
        _Row("const_shape", "shape:extents -> result", "attr-dict $shape : type(result)"),
        _Row("const_size", "value:integer(index) -> result=!shape.size", "$value attr-dict"),
        _Row("const_witness", "passing:bool -> result=!shape.witness", "$passing attr-dict"),
        _Row(
            "cstr_broadcastable cstr_eq",
            "shapes* -> result=!shape.witness",
            "$shapes attr-dict : type(shapes)",
        ),
        _Row(
            "cstr_require",
            "pred=i1 msg:text -> result=!shape.witness",
            "$pred , $msg attr-dict",
        ),
        _Row(
            "dim get_extent",
            "value index -> extent",
            "$value , $index attr-dict : type(operands) -> type(extent)",
        ),
        _Row(
            "from_extent_tensor", "input -> result=!shape.shape", "$input attr-dict : type(input)"
        ),
        _Row(
            "from_extents", "extents* -> shape=!shape.shape", "$extents attr-dict : type(extents)"
        ),
        _Row("index_to_size", "arg=index -> result=!shape.size", "$arg attr-dict"),
        _Row(
            "is_broadcastable shape_eq", "shapes* -> result=i1", "$shapes attr-dict : type(shapes)"
        ),
        _Row(
            "meet",
            "arg0 arg1 error:any -> result",
            "$arg0 , $arg1 <? , error = $error ?> attr-dict : type(operands) -> type(result)",
        ),
        _Row(
            "rank to_extent_tensor value_as_shape",
            "arg -> result",
            "$arg attr-dict : type(arg) -> type(result)",
        ),
        _Row(
            "reduce",
            "shape initVals*=result {region} -> result*",
            "( $shape <? , $initVals ?> ) : type(shape) arrow(result) $region attr-dict",
        ),
        _Row("size_to_index", "arg -> result=index", "$arg attr-dict : type(arg)"),
        _Row("value_of", "arg=!shape.value_shape -> result", "$arg attr-dict : type(result)"),
        _Row(
            "with_shape",
            "operand shape -> result=!shape.value_shape",
            "$operand , $shape attr-dict : type(operands)",
        ),
    ),
    "tensor": (
        _Row("bitcast", "source -> dest", "$source attr-dict : type(source) to type(dest)"),
        _Row(
            "gather",
            "source indices gather_dims:integers(i64) unique:unit -> result",
            "$source [ $indices ] gather_dims ( $gather_dims ) <? unique $unique ?> "
            "attr-dict : functional-type",
        ),
        _Row(
            "generate",
            "dynamicExtents*=index {body} -> result",
            "<? $dynamicExtents ?> $body attr-dict : type(result)",
        ),
        _Row(
            "parallel_insert_slice",
            f"source dest {_SLICED} {_STATIC}",
            f"$source into $dest {_STRIDED} attr-dict : type(source) into type(dest)",
        ),
        _Row("rank", "tensor -> result=index", "$tensor attr-dict : type(tensor)"),
        _Row(
            "scatter",
            "source dest indices scatter_dims:integers(i64) unique:unit -> result",
            "$source into $dest [ $indices ] scatter_dims ( $scatter_dims ) "
            "<? unique $unique ?> attr-dict : functional-type",
        ),
    ),
    "ttir": (_Row("empty", "-> result", "( ) attr-dict : type(result)"),),
    "vector": (
        _Row(
            "compressstore",
            f"{_MASKED} valueToStore alignment:any",
            "$base [ $indices ] , $mask , $valueToStore attr-dict : type(base) , type(mask) , "
            "type(valueToStore)",
        ),
        _Row(
            "constant_mask",
            "mask_dim_sizes:integers(i64) -> result",
            "$mask_dim_sizes attr-dict : type(result)",
        ),
        _Row(
            "contract",
            "lhs rhs acc=result indexing_maps:any kind:any "
            "iterator_types:keywords(vector.iterator_type) -> result",
            "attr-dict $lhs , $rhs , $acc : type(lhs) , type(rhs) into type(result)",
        ),
        _Row(
            "deinterleave",
            "source -> res1 res2=res1",
            "$source attr-dict : type(source) -> type(res1)",
        ),
        _Row(
            "expandload",
            f"{_MASKED} pass_thru alignment:any -> result",
            "$base [ $indices ] , $mask , $pass_thru attr-dict : type(base) , type(mask) , "
            "type(pass_thru) into type(result)",
        ),
        _Row(
            "extract_strided_slice",
            "source offsets:any sizes:any strides:any -> result",
            "$source attr-dict : type(source) to type(result)",
        ),
        _Row(
            "from_elements",
            "elements*=element(dest) -> dest",
            "$elements attr-dict : type(dest)",
        ),
        _Row(
            "gather",
            f"{_BASED} pass_thru alignment:any -> result",
            "$base [ $offsets ] [ $indices ] , $mask , $pass_thru attr-dict : type(base) , "
            "type(indices) , type(mask) , type(pass_thru) into type(result)",
        ),
        _Row(
            "insert_strided_slice",
            "valueToStore dest offsets:any strides:any -> result=dest",
            "$valueToStore , $dest attr-dict : type(valueToStore) into type(dest)",
        ),
        _Row(
            "interleave",
            "lhs rhs=lhs -> result",
            "$lhs , $rhs attr-dict : type(lhs) -> type(result)",
        ),
        _Row(
            "multi_reduction",
            f"{_KIND} source acc=dest reduction_dims:integers(i64) -> dest",
            "$kind , $source , $acc attr-dict $reduction_dims : type(source) to type(dest)",
        ),
        _Row(
            "outerproduct",
            "lhs rhs acc?=result kind:any -> result=product(lhs,rhs)",
            "$lhs , $rhs <? , $acc ?> attr-dict : type(lhs) , type(rhs)",
        ),
        _Row(
            "print",
            "source? punctuation:in_brackets(vector.punctuation) stringLiteral:text",
            "<? $source : type(source) ?> <? str $stringLiteral ?> "
            "<? punctuation $punctuation ?> attr-dict",
        ),
        _Row(
            "scalable.extract",
            "source pos:integer(i64) -> result",
            "$source [ $pos ] attr-dict : type(result) from type(source)",
        ),
        _Row(
            "scalable.insert",
            "valueToStore dest pos:integer(i64) -> result=dest",
            "$valueToStore , $dest [ $pos ] attr-dict : type(valueToStore) into type(dest)",
        ),
        _Row(
            "scan",
            f"{_KIND} source initial_value reduction_dim:any inclusive:any "
            "-> dest=source accumulated_value=initial_value",
            "$kind , $source , $initial_value attr-dict : type(operands)",
        ),
        _Row(
            "scatter",
            f"{_BASED} valueToStore alignment:any -> result?",
            "$base [ $offsets ] [ $indices ] , $mask , $valueToStore attr-dict : type(base) , "
            "type(indices) , type(mask) , type(valueToStore) arrow(result)",
        ),
        _Row("shape_cast", "source -> result", "$source attr-dict : type(source) to type(result)"),
        _Row("step", "-> result", "attr-dict : type(result)"),
        _Row(
            "to_elements",
            "source -> elements*=elements(source)",
            "$source attr-dict : type(source)",
        ),
        _Row(
            "transpose",
            "vector permutation:integers(i64) -> result",
            "$vector , $permutation attr-dict : type(vector) to type(result)",
        ),
        _Row(
            "type_cast",
            "memref -> result",
            "$memref attr-dict : type(memref) to type(result)",
        ),
        _Row("vscale", "-> result=index", "attr-dict"),
        _Row("yield", *_YIELD, is_terminator=True),
    ),
}


def _rows() -> Iterator[tuple[str, _Row]]:
    for dialect, rows in _TABLES.items():
        for row in rows:
            for name in row.names.split():
                yield f"{dialect}.{name}", row


_ROWS: Final = dict(_rows())


_WRITTEN: Final[Mapping[str, type[Operation]]] = {
    op.name: op
    for op in (
        ForallOp,
        FunctionLibraryOp,
        InParallelOp,
        MaskOp,
        ProgramFuncOp,
        ShapeFuncOp,
        SubgraphOp,
    )
}
"""Ops whose forms a table cannot express."""

_WRITTEN_FORMS: Final[Mapping[str, type[Operation]]] = {
    form.name: form
    for form in (ConditionalBranchSyntax, ForSyntax, IndexSwitchSyntax, ParallelSyntax)
}


def find_op(name: str) -> type[Operation] | None:
    """The class of an op that xDSL lacks, None if no table has it."""
    if (written := _WRITTEN.get(name)) is not None:
        return written
    row = _ROWS.get(name)
    return None if row is None else _op_type(name, row, None)


def formats() -> Mapping[str, OpFormat]:
    """The forms of all tables, by the names of the ops."""
    return {name: OpFormat(row.signature, row.format) for name, row in _ROWS.items()}


_REPLACED: Final = (
    "memref.global",
    "memref.rank",
    "memref.reinterpret_cast",
    "ml_program.global_load_const",
    "vector.print",
)
"""Ops whose classes in xDSL refuse IR that MLIR accepts."""

_RENAMED: Final = {"ml_program.global_load_const": ("global_attr", "global")}
"""Properties with another name in xDSL: an accessor of xDSL's class, and MLIR's name."""


def replacements(dialect: Dialect) -> Sequence[type[Operation]]:
    """Subclasses of the classes of xDSL's dialect, which replace them."""
    return [_unverified(op) for op in dialect.operations if op.name in _REPLACED]


def _unverified(base: type[Operation]) -> type[Operation]:
    """xDSL's class, with the form of the table and without its verifier."""

    class UnverifiedOp(_op_type(base.name, _ROWS[base.name], None), base):
        @override
        def verify_(self) -> None:
            pass

    UnverifiedOp.__name__ = base.__name__
    if base.name in _RENAMED:
        accessor, name = _RENAMED[base.name]
        setattr(UnverifiedOp, accessor, property(lambda op: op.properties[name]))
        definition = cast("type[IRDLOperation]", base).get_irdl_definition()
        # It is an attribute in xDSL 0.73.
        properties: dict[str, Any] = {**definition.properties, **definition.attributes}
        renamed = replace(definition, properties={name: properties[accessor]}, attributes={})
        attribute = "get_irdl_definition"
        setattr(UnverifiedOp, attribute, classmethod(lambda _: renamed))
    return UnverifiedOp


def find_form(name: str, op_type: type[Operation]) -> type[Operation]:
    """The class that reads the custom form of the op: `op_type` itself, if no table has it."""
    if (form := _WRITTEN_FORMS.get(name)) is not None:
        return form
    row = _ROWS.get(name)
    if row is None or issubclass(op_type, FormattedOp):
        return op_type
    return _op_type(name, row, op_type)


@registered_cache
@cache
def _op_type(name: str, row: _Row, created: type[Operation] | None) -> type[FormattedOp]:
    fields: dict[str, object] = {
        "name": name,
        "__doc__": f"`{name}`, as MLIR writes it.",
        "__module__": __name__,
        "FORM": OpFormat(row.signature, row.format),
        "CREATED": created,
        "traits": traits_def(*((IsTerminator(),) if row.is_terminator else ())),
    }
    words = name.partition(".")[2].replace(".", "_").split("_")
    class_name = "".join(word.capitalize() for word in words) + "Op"
    return cast("type[FormattedOp]", type(class_name, (FormattedOp,), fields))
