"""The forms of memref: https://mlir.llvm.org/docs/Dialects/MemRef/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from typing_extensions import override
from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, MemRefType, TensorType, UnitAttr, i64
from xdsl.dialects.utils import verify_dynamic_index_list
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from qdialect.text.op_formats import Directive, ReadParts
from qdialect.text.syntax import DialectSyntax

_ATOMIC: Final = (
    "addf|addi|andi|assign|maximumf|maxnumf|maxs|maxu|minimumf|minnumf|mins|minu|mulf|muli|ori|xori"
)


def _verify(op: Operation, verify: Callable[[Operation], None]) -> None:
    """Verify what xDSL verifies of the classes that the table replaces, as MLIR does."""
    verify(op)
    if isinstance(op, memref.GlobalOp):
        number = 1 if op.alignment is None else op.alignment.value.data
        if op.alignment not in (None, IntegerAttr(number, i64)) or number.bit_count() != 1:
            raise VerifyException(f"Alignment attribute {op.alignment} is not a power of 2 of i64")
        initial = op.properties.get("initial_value", UnitAttr())
        # An attribute of MLIR that xDSL lacks has elements of an unknown type.
        elements = getattr(initial, "type", None)
        tensor = TensorType(op.type.element_type, op.type.get_shape())
        if not tensor.has_static_shape() or elements not in (None, tensor):
            raise VerifyException(f"Expected a static {tensor} as initial value, not {initial}")
    elif isinstance(op, memref.ReinterpretCastOp):
        _verify_reinterpret_cast(op)


def _verify_reinterpret_cast(op: memref.ReinterpretCastOp) -> None:
    """A known length may be unknown in the type of the result, which xDSL refuses."""
    for static, dynamic, name in (
        (op.static_sizes, op.sizes, "size"),
        (op.static_offsets, op.offsets, "offset"),
        (op.static_strides, op.strides, "stride"),
    ):
        where = f" in the {name} arguments"
        verify_dynamic_index_list(static.get_values(), dynamic, DYNAMIC_INDEX, where)
    shape, sizes = op.result.type.get_shape(), op.static_sizes.get_values()
    if len(shape) != len(sizes):
        raise VerifyException(f"Expected {len(shape)} size values but got {len(sizes)}")
    for axis, (length, size) in enumerate(zip(shape, sizes, strict=True)):
        if length not in (DYNAMIC_INDEX, size):
            wanted = "dynamic size" if size == DYNAMIC_INDEX else f"size = {size}"
            raise VerifyException(
                f"Expected result type with {wanted} instead of {length} in dim = {axis}"
            )


class Initial(Directive):
    """The elements of a buffer of known type."""

    @override
    def parse(self, parser: Parser, read: ReadParts) -> None:
        name, type_name = self.names
        if parser.parse_optional_keyword("uninitialized") is not None:
            read.properties[name] = UnitAttr()
            return
        type = read.properties[type_name]
        if not isinstance(type, MemRefType):
            parser.raise_error("expected the type of a buffer")
        parser.parse_keyword("dense")
        buffer = cast("MemRefType[Any]", type)
        elements = TensorType(buffer.element_type, buffer.get_shape())
        read.properties[name] = parser.parse_dense_int_or_fp_elements_attr(elements)


SYNTAX = DialectSyntax(
    dialect="memref",
    forms={
        "alloca_scope": "arrow(results) region(bodyRegion,memref.alloca_scope.return) attr-dict",
        "alloca_scope.return": "attr-dict <? $values* : type(values) ?>",
        "atomic_rmw": f"$kind:number_of(i64|{_ATOMIC}) $value , $memref [ $indices*=index ] "
        "attr-dict : ( type(value) , type(memref) ) -> type(result)",
        "atomic_yield": "$result attr-dict : type(result)",
        "cast memory_space_cast": "$source attr-dict : type(source) to type(dest)",
        "copy": "$source , $target attr-dict : type(source) to type(target)",
        "dim": "attr-dict $source , $at=index : type(source) ->result=index",
        "distinct_objects": "$operands* attr-dict : type(operands) ->results*=operands",
        "dma_wait": "$tagMemRef [ $tagIndices*=index ] , $numElements=index attr-dict : "
        "type(tagMemRef)",
        "extract_aligned_pointer_as_index": "$source : type(source) -> type(aligned_pointer) "
        "attr-dict",
        "generic_atomic_rmw": "$memref [ $indices*=index ] : type(memref) region(atomic_body) "
        "attr-dict ->result=element(memref)",
        "global": "<? $sym_visibility:text ?> <? constant $constant:unit ?> $sym_name:symbol : "
        "$type:any <? = custom:Initial(initial_value,type) ?> attr-dict(alignment)",
        "prefetch": "$memref [ $indices*=index ] , $isWrite:number_of(i1|read|write) , locality < "
        "$localityHint:integer(i32) > , $isDataCache:number_of(i1|instr|data) attr-dict : "
        "type(memref)",
        "rank": "$memref attr-dict : type(memref) ->result=index",
        "realloc": "$source <? ( $dynamicResultSize?=index ) ?> attr-dict(alignment) : "
        "type(source) to type(result)",
        "reinterpret_cast": "$source to offset : indices(offsets,static_offsets) , sizes : "
        "indices(sizes,static_sizes) , strides : indices(strides,static_strides) attr-dict : "
        "type(source) to type(result)",
        "reshape": "$source ( $shape ) attr-dict : functional-type",
        "transpose": "$in $permutation:map attr-dict : type(in) to type(result)",
    },
    terminators="alloca_scope.return atomic_yield",
    read_in_part=(
        "alloca_scope alloca_scope.return atomic_rmw cast memory_space_cast copy dim dma_wait "
        "extract_aligned_pointer_as_index"
    ),
    without_attributes="dim",
    replaced=dict.fromkeys(("global", "rank", "reinterpret_cast")),
    verify=_verify,
)
