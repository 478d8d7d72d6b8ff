"""The side effects of ops: which ops only compute results from their operands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from functools import cached_property
from typing import Final

from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    IndexType,
    IntegerType,
    ModuleOp,
    NoneType,
    TensorType,
    TupleType,
    UnrankedTensorType,
    VectorType,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import IsTerminator, MemoryEffect, RecursiveMemoryEffect, SymbolTable

from qdialect.dialects.quant.storage import StoredType
from qdialect.ir.rewriting import dependencies_first
from qdialect.ir.value_types import tensor_parts, type_name
from qdialect.ops.interface import is_list, name_of, op_model
from qdialect.ops.reading import computes_integers


class Effects(IntEnum):
    """The side effects of an op; a greater value includes the lesser ones."""

    NONE = 0
    """No effects: equal operands give equal results, and an op without uses is dead."""

    UNDEFINED = 1
    """The op may be undefined or not terminate; otherwise as NONE."""

    ANY = 2
    """The op may do anything, such as write memory or call an external function."""


_STABLEHLO: Final = """
abs add and atan2 batch_norm_grad batch_norm_inference batch_norm_training bitcast_convert broadcast
broadcast_in_dim case cbrt ceil cholesky clamp compare complex concatenate constant convert
convolution cosine count_leading_zeros divide dot dot_general dynamic_broadcast_in_dim dynamic_conv
dynamic_gather dynamic_iota dynamic_pad dynamic_reshape dynamic_slice dynamic_update_slice einsum
exponential exponential_minus_one fft floor gather get_dimension_size get_tuple_element if imag iota
is_finite log log_plus_one logistic map maximum minimum multiply negate not optimization_barrier or
pad popcnt power real real_dynamic_slice reduce reduce_precision reduce_window remainder reshape
return reverse round_nearest_afz round_nearest_even rsqrt scatter select select_and_scatter
set_dimension_size shift_left shift_right_arithmetic shift_right_logical sign sine slice sort sqrt
subtract tan tanh torch_index_select transpose triangular_solve tuple unary_einsum
uniform_dequantize uniform_quantize xor
"""

_PURE: Final[Mapping[str, frozenset[str]]] = {
    dialect: frozenset(names.split())
    for dialect, names in {
        # https://openxla.org/stablehlo/spec
        "stablehlo": _STABLEHLO,
        "mhlo": _STABLEHLO,
        "chlo": """
acos acosh asin asin_acos_kernel asinh atan atanh bessel_i1e broadcast_add broadcast_and
broadcast_atan2 broadcast_compare broadcast_complex broadcast_divide broadcast_maximum
broadcast_minimum broadcast_multiply broadcast_next_after broadcast_or broadcast_polygamma
broadcast_power broadcast_remainder broadcast_select broadcast_shift_left
broadcast_shift_right_arithmetic broadcast_shift_right_logical broadcast_subtract broadcast_xor
broadcast_zeta conj constant constant_like cosh digamma erf erf_inv erfc is_inf is_neg_inf
is_pos_inf lgamma next_after polygamma ragged_dot sinh square tan top_k zeta
""",
        # The other ops of arith, and those of complex, math, tensor and tosa, have xDSL's traits.
        "arith": "remui",
        "index": """
add and bool.constant casts castu ceildivs ceildivu cmp constant divs divu floordivs maxs maxu mins
minu mul or rems remu shl shrs shru sizeof sub xor
""",
        "linalg": """
abs add batch_matmul batch_matvec batch_mmt4d batch_reduce_matmul batch_vecmat broadcast ceil
contract conv_1d conv_1d_ncw_fcw conv_1d_nwc_wcf conv_2d conv_2d_nchw_fchw conv_2d_nchw_fchw_q
conv_2d_ngchw_fgchw conv_2d_ngchw_gfchw conv_2d_ngchw_gfchw_q conv_2d_nhwc_fhwc conv_2d_nhwc_fhwc_q
conv_2d_nhwc_hwcf conv_2d_nhwc_hwcf_q conv_2d_nhwgc_gfhwc conv_2d_nhwgc_gfhwc_q conv_3d
conv_3d_ncdhw_fcdhw conv_3d_ndhwc_dhwcf conv_3d_ndhwc_dhwcf_q copy depthwise_conv_1d_ncw_cw
depthwise_conv_1d_nwc_wc depthwise_conv_1d_nwc_wcm depthwise_conv_2d_nchw_chw
depthwise_conv_2d_nhwc_hwc depthwise_conv_2d_nhwc_hwc_q depthwise_conv_2d_nhwc_hwcm
depthwise_conv_2d_nhwc_hwcm_q depthwise_conv_3d_ncdhw_cdhw depthwise_conv_3d_ndhwc_dhwc
depthwise_conv_3d_ndhwc_dhwcm div div_unsigned dot elementwise erf exp fill fill_rng_2d floor
generic index log map matmul matmul_transpose_a matmul_transpose_b matvec max min mmt4d mul negf
pack pooling_nchw_max pooling_nchw_sum pooling_ncw_max pooling_ncw_sum pooling_ndhwc_max
pooling_ndhwc_min pooling_ndhwc_sum pooling_nhwc_max pooling_nhwc_max_unsigned pooling_nhwc_min
pooling_nhwc_min_unsigned pooling_nhwc_sum pooling_nwc_max pooling_nwc_max_unsigned pooling_nwc_min
pooling_nwc_min_unsigned pooling_nwc_sum powf quantized_batch_matmul quantized_matmul reciprocal
reduce round rsqrt select softmax sqrt square sub tanh transpose unpack vecmat
winograd_filter_transform winograd_input_transform winograd_output_transform
""",
        "quant": "stats",
        "torch": """
aten._softmax aten.abs aten.add.Scalar aten.add.Tensor aten.addmm aten.amax aten.argmax
aten.avg_pool2d aten.bmm aten.clamp aten.conv1d aten.conv2d aten.conv3d aten.convolution
aten.div.Scalar aten.div.Tensor aten.embedding aten.exp aten.gather aten.gelu aten.hardsigmoid
aten.hardswish aten.hardtanh aten.index.Tensor aten.index_select aten.layer_norm aten.linear
aten.matmul aten.max_pool2d aten.maximum aten.mean.dim aten.minimum aten.mm aten.mul.Scalar
aten.mul.Tensor aten.native_layer_norm aten.neg aten.pow.Tensor_Scalar aten.reciprocal aten.relu
aten.rsqrt aten.sigmoid aten.silu aten.size.int aten.softmax.int aten.sqrt aten.stack
aten.sub.Scalar aten.sub.Tensor aten.sum.dim_IntList aten.tanh aten.to.dtype aten.where.self
constant.device constant.none constant.str
""",
        "tosa": "cond_if",
    }.items()
}
"""The pure ops of each dialect, besides those that have a model or a trait that says so."""

_WITH_PURE_REGIONS: Final = frozenset(
    {
        *("affine.for", "affine.if", "scf.execute_region", "scf.for", "scf.forall", "scf.if"),
        *("scf.index_switch", "scf.reduce"),
    }
)
"""Ops without effects beside those of their regions, which terminate if these do."""

_UNDEFINED: Final = frozenset(
    f"{dialect}.{name}"
    for dialect in ("arith", "index")
    for name in (
        *("ceildivs", "ceildivsi", "ceildivu", "ceildivui", "divs", "divsi", "divu", "divui"),
        *("floordivs", "floordivsi", "rems", "remsi", "remu", "remui"),
    )
)
"""Divisions, which are undefined for zero."""

_MAY_NOT_END: Final = frozenset({"scf.while", "stablehlo.while", "mhlo.while", "tosa.while_loop"})

_VALUES: Final = (
    AnyFloat,
    ComplexType,
    IndexType,
    IntegerType,
    NoneType,
    StoredType,
    TensorType,
    UnrankedTensorType,
    VectorType,
)
_VALUE_NAMES: Final = frozenset(
    {
        *("torch.Device", "torch.bool", "torch.float", "torch.int", "torch.none", "torch.number"),
        *("torch.str", "tosa.shape"),
    }
)
"""Types of other dialects whose values nothing can change."""

_LISTS: Final = frozenset({"torch.list"})
"""Types of lists, which ops may change that have no model."""


class CallEffects:
    """The effects of the ops of one module and of calls to its functions."""

    def __init__(self, module: ModuleOp, functions: Mapping[str, FuncOp]) -> None:
        self._module = module
        self._functions = functions
        self._known: dict[Operation, Effects] = {}
        self._of_functions: dict[str, Effects] = {}
        self._fixed_lists: dict[SSAValue, bool] = {}
        for name in dependencies_first(functions, self.called_by):
            self._of_functions[name] = self._of_function(functions[name])

    def of_function(self, name: str) -> Effects:
        """The effects of calling the function `name`."""
        return self._of_functions.get(name, Effects.ANY)

    def of_function_if_any(self, name: str) -> Effects:
        """The effects of calling the function `name`; NONE if the module has no such function."""
        return self._of_functions.get(name, Effects.NONE)

    def calls_itself(self, name: str) -> bool:
        """Whether the function `name` may call itself, directly or through others."""
        return name in self._in_cycles

    @cached_property
    def _in_cycles(self) -> frozenset[str]:
        """The functions that may call themselves: Kosaraju's algorithm, in linear time."""
        called = {name: set(self.called_by(name)) for name in self._functions}
        callers: dict[str, list[str]] = {name: [] for name in called}
        for name, callees in called.items():
            for callee in callees:
                callers[callee].append(name)
        components = dict[str, str]()
        for root in reversed(list(dependencies_first(called, called.__getitem__))):
            pending = [root]
            while pending:
                if (name := pending.pop()) not in components:
                    components[name] = root
                    pending += callers[name]
        sizes = Counter(components.values())
        return frozenset(
            name for name in called if sizes[components[name]] > 1 or name in called[name]
        )

    def callee_of(self, op: Operation) -> FuncOp | None:
        """The function of the module that an op calls; None if it is not such a call."""
        if not isinstance(op, CallOp):
            return None
        table = op.parent_op()
        while table is not None and not table.has_trait(SymbolTable):
            table = table.parent_op()
        return self._functions.get(op.callee.string_value()) if table is self._module else None

    def of(self, op: Operation) -> Effects:
        """The effects of an op, including those of its regions."""
        if (known := self._known.get(op)) is None:
            known = self._known[op] = self._of(op)
        return known

    def of_ops(self, ops: Iterable[Operation]) -> Effects:
        """The effects of several ops."""
        return max(map(self.of, ops), default=Effects.NONE)

    def _of(self, op: Operation) -> Effects:
        name = name_of(op)
        if isinstance(op, CallOp):
            callee = self.callee_of(op)
            return Effects.ANY if callee is None else self.of_function(callee.sym_name.data)
        if name in _MAY_NOT_END:
            return max(Effects.UNDEFINED, self._of_regions(op))
        if not self._is_pure_but_for_regions(op, name):
            return Effects.ANY
        own = Effects.UNDEFINED if name in _UNDEFINED else Effects.NONE
        return max(own, self._of_regions(op))

    def _is_pure_but_for_regions(self, op: Operation, name: str) -> bool:
        if name in _WITH_PURE_REGIONS:
            return True
        if _is_declared_pure(op):
            return all(map(self._is_value, (*op.operands, *op.results)))
        if not _says_nothing_of_memory(op):
            return False
        # An op that makes a tensor of a buffer reads it, whatever its traits are.
        makes_tensor = any(tensor_parts(type) is not None for type in op.result_types)
        return not makes_tensor or all(map(self._is_value, op.operands))

    def _is_value(self, value: SSAValue) -> bool:
        """Whether nothing can change a value after it is computed."""
        if type_name(value.type) not in _LISTS:
            return _has_value_semantics(value.type)
        if (known := self._fixed_lists.get(value)) is None:
            owner = value.owner
            known = self._fixed_lists[value] = (
                isinstance(owner, Operation)
                and is_list(owner)
                and all(_is_declared_pure(use.operation) for use in value.uses)
            )
        return known

    def _of_regions(self, op: Operation) -> Effects:
        found = [self.of_ops(_ops_of_blocks(op))] if op.regions else []
        if any(len(region.blocks) > 1 for region in op.regions):
            found.append(Effects.UNDEFINED)
        return max(found, default=Effects.NONE)

    def _of_function(self, function: FuncOp) -> Effects:
        return Effects.ANY if function.is_declaration else self._of_regions(function)

    def called_by(self, name: str) -> Iterator[str]:
        """The names of the functions that the function `name` calls, once for each call."""
        for op in self._functions[name].walk():
            if (callee := self.callee_of(op)) is not None:
                yield callee.sym_name.data


def _ops_of_blocks(op: Operation) -> Iterator[Operation]:
    """The ops in the regions of `op`, except terminators that only yield or branch."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if not (inner is block.last_op and is_plain_terminator(inner)):
                    yield inner


_TERMINATORS: Final = frozenset(
    {
        *(
            "affine.yield",
            "cf.br",
            "cf.cond_br",
            "cf.switch",
            "func.return",
            "linalg.yield",
            "mhlo.return",
        ),
        *("scf.condition", "scf.reduce.return", "scf.yield", "shape.yield", "stablehlo.return"),
        *("tensor.yield", "tosa.yield"),
    }
)


def is_plain_terminator(op: Operation) -> bool:
    """Whether the last op of a block only transfers control and values."""
    return isinstance(op, ReturnOp) or name_of(op) in _TERMINATORS


def is_terminator(op: Operation) -> bool:
    """Whether the last op of a block is a terminator; an unregistered op may be one."""
    return not op.results or bool(op.successors) or op.has_trait(IsTerminator)


def _says_nothing_of_memory(op: Operation) -> bool:
    """Whether the traits of an op tell that it neither reads nor writes memory, beside regions."""
    traits = op.get_traits_of_type(MemoryEffect)
    own = [trait for trait in traits if not isinstance(trait, RecursiveMemoryEffect)]
    return bool(own) and all(trait.get_effects(op) == set() for trait in own)


def _is_declared_pure(op: Operation) -> bool:
    """Whether the table above or a model says that an op is pure on operands that are values."""
    dialect, _, name = name_of(op).partition(".")
    return name in _PURE.get(dialect, ()) or op_model(op).reads_elements or computes_integers(op)


def _has_value_semantics(type: Attribute) -> bool:
    """Whether a type is neither a reference to memory nor a token."""
    if isinstance(type, TupleType):
        return all(map(_has_value_semantics, type.types.data))
    is_known = isinstance(type, _VALUES) or type_name(type) in _VALUE_NAMES
    return is_known or tensor_parts(type) is not None
