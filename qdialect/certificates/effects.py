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
    TensorType,
    UnrankedTensorType,
    UnregisteredAttr,
    VectorType,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation
from xdsl.traits import IsTerminator, NoMemoryEffect, SymbolTable

from qdialect.dialects.quant.storage import StoredType
from qdialect.ir.ordering import dependencies_first
from qdialect.shape_ops.computed_integers import computes_integers
from qdialect.shape_ops.interface import name_of, op_model


class Effects(IntEnum):
    """The side effects of an op; a greater value includes the lesser ones."""

    NONE = 0
    """No effects: equal operands give equal results, and an op without uses is dead."""

    UNDEFINED = 1
    """The op may be undefined or not terminate; otherwise as NONE."""

    ANY = 2
    """The op may do anything, such as write memory or call an external function."""


_PURE_DIALECTS: Final = frozenset({"arith", "chlo", "complex", "index", "linalg", "math", "quant"})
_PURE_DIALECTS_BUT: Final[Mapping[str, frozenset[str]]] = {
    "tensor": frozenset(),
    "tosa": frozenset({"custom", "variable", "variable_read", "variable_write", "while_loop"}),
}
"""The ops of these dialects are pure, except those with these names."""

_STABLEHLO_NAMES: Final = """
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
_STABLEHLO: Final = frozenset(_STABLEHLO_NAMES.split())
"""Ops that compute, and neither communicate nor use state: https://openxla.org/stablehlo/spec."""

_PURE: Final[Mapping[str, frozenset[str]]] = {"stablehlo": _STABLEHLO, "mhlo": _STABLEHLO}
"""The only ops of these dialects that are pure."""

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
    StoredType,
    TensorType,
    UnrankedTensorType,
    VectorType,
)
_SHAPES: Final = frozenset({"tosa.shape"})


class CallEffects:
    """The effects of the ops of one module and of calls to its functions."""

    def __init__(self, module: ModuleOp, functions: Mapping[str, FuncOp]) -> None:
        self._module = module
        self._functions = functions
        self._known: dict[Operation, Effects] = {}
        self._of_functions: dict[str, Effects] = {}
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
        if not _is_pure_but_for_regions(op, name):
            return Effects.ANY
        own = Effects.UNDEFINED if name in _UNDEFINED else Effects.NONE
        return max(own, self._of_regions(op))

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


def _is_pure_but_for_regions(op: Operation, name: str) -> bool:
    if op_model(op).reads_elements or computes_integers(op):
        return True
    if name in _WITH_PURE_REGIONS:
        return True
    if op.has_trait(NoMemoryEffect, value_if_unregistered=False):
        return True
    dialect, _, rest = name.partition(".")
    is_known = (
        dialect in _PURE_DIALECTS
        or (dialect in _PURE_DIALECTS_BUT and rest not in _PURE_DIALECTS_BUT[dialect])
        or rest in _PURE.get(dialect, ())
    )
    return is_known and all(map(_is_value, (*op.operand_types, *op.result_types)))


def _is_value(type: Attribute) -> bool:
    """Whether a type has value semantics: it is neither a reference to memory nor a token."""
    if isinstance(type, UnregisteredAttr):
        return type.attr_name.data in _SHAPES
    return isinstance(type, _VALUES) or type.name in _SHAPES
