"""The pass that spells sub-channel types as per-tensor or per-axis types where possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from qdialect.dialects.quant.casts import CastOp
from qdialect.dialects.quant.slots import Granularity, Slots
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.folding import warn_of_roundings
from qdialect.ir.errors import OpErrors
from qdialect.ir.value_types import is_tensor, tensor_element_type, with_element_type
from qdialect.lowering.dialect_conversion import (
    TypeConversion,
    converted_ops,
    drop_folded_casts,
    functions_in,
    reachable_blocks,
    refuse_function_constants,
)
from qdialect.ops.interface import name_of


def _coarsest_of(type: Attribute) -> Attribute:
    """The per-tensor or per-axis type with the meaning of a sub-channel tensor type, if any."""
    if is_tensor(type):
        element = tensor_element_type(type)
        if isinstance(element, UniformQuantizedType):
            coarsest = _coarsest(element)
            if coarsest is not element:
                return with_element_type(type, coarsest)
    return type


def _coarsest(type: UniformQuantizedType) -> UniformQuantizedType:
    if type.granularity is not Granularity.SUB_CHANNEL:
        return type
    scales, zero_points = type.scales, type.zero_points
    expressed = type.storage, type.expressed_type
    axes = [axis for axis, slots in enumerate(scales.shape) if slots != 1]
    if not axes:
        return type.of_slots(*expressed, Slots.per_tensor(scales.item(), zero_points.item()))
    # If an axis is repeated, its last block size counts.
    block_of = dict(zip(type.quantized_dimensions, type.block_sizes, strict=True))
    # Upstream ignores the block size, but blocks of several positions are not per-axis.
    if len(axes) == 1 and block_of.get(axes[0]) == 1:
        return type.of_slots(*expressed, Slots.per_axis(axes[0], scales, zero_points))
    return type


class TypeNormalization:
    """Converts the types of the values of a function, and its signature."""

    def __init__(self, function: FuncOp, types: TypeConversion) -> None:
        self._function = function
        self._types = types
        self._ops = dict.fromkeys(converted_ops(function))
        self.roundings = 0
        """The number of values that are no longer rounded."""

    def check(self) -> None:
        """Raise OpErrors for ops that, as in MLIR, cannot be converted."""
        for op in self._function.walk():
            refuse_function_constants(op, self._types)
            obstacle = self._obstacle if op in self._ops else self._obstacle_unreached
            if reason := obstacle(op):
                raise OpErrors([(op, f"'{name_of(op)}' op cannot be normalized: {reason}")])

    def convert(self) -> None:
        """Convert the ops in reachable blocks."""
        casts = [op for op in self._ops if isinstance(op, CastOp) and self._changing_types(op)]
        self.roundings = drop_folded_casts(casts)
        self._types.convert_function(self._function)
        for op in self._ops:
            values: list[SSAValue] = [*op.results]
            for region in op.regions:
                for block in reachable_blocks(region):
                    values += block.args
            for value in values:
                if self._types.converts(value.type):
                    self._types.convert_value(value)

    def _obstacle(self, op: Operation) -> str | None:
        """The reason why the operands and results of `op` cannot be converted; None if they can."""
        changing = self._changing_types(op)
        if not changing:
            return None
        if op.successors:
            return "it branches with values whose types change"
        if name_of(op) == "func.call_indirect":
            return "the types inside the type of a function are not converted"
        elements = [tensor_element_type(type) for type in changing]
        for region in op.regions:
            for block in region.blocks:
                if any(type in elements for type in block.arg_types):
                    return "the scalars of its region are not converted"
        return None

    def _obstacle_unreached(self, op: Operation) -> str | None:
        """Why `op` in an unreachable block, which is not converted, would become invalid."""
        used = (*op.operands, *op.results) if isinstance(op, CallOp | ReturnOp) else op.operands
        if any(self._types.converts(value.type) and self._is_known(op, value) for value in used):
            return "it uses values whose types change, but its block is unreachable"
        return None

    def _is_known(self, op: Operation, value: SSAValue) -> bool:
        """Whether a value of an unconverted op is defined or used by a converted op."""
        if isinstance(op, CallOp | ReturnOp):
            return True
        owner = value.owner
        if isinstance(owner, Operation):
            return owner in self._ops
        parent = owner.parent_op()
        assert parent is not None
        return parent in self._ops and any(
            block is owner for region in parent.regions for block in reachable_blocks(region)
        )

    def _changing_types(self, op: Operation) -> Sequence[Attribute]:
        types = (*op.operand_types, *op.result_types)
        return [type for type in types if self._types.converts(type)]


@dataclass(frozen=True)
class NormalizeQuantTypesPass(ModulePass):
    """
    Spell sub-channel types of tensors as per-tensor or per-axis types of the same meaning.

    This is possible for a single scale, and if only one axis has several blocks, of one
    position each. The values and signatures of functions at the top level are converted; types
    nested in tuples or function types, and attributes, are not. The result is that of MLIR's
    pass of this name, except for blocks of several positions, which MLIR mistakes for single
    positions.

    Example: `qdialect-opt --normalize-quant-types quantized.mlir`.
    """

    name = "normalize-quant-types"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises OpErrors; the module is unchanged then."""
        types = TypeConversion(_coarsest_of)
        normalizations = [TypeNormalization(function, types) for function in functions_in(op)]
        for normalization in normalizations:
            normalization.check()
        for normalization in normalizations:
            normalization.convert()
        warn_of_roundings(ctx, op, sum(function.roundings for function in normalizations))
