"""The pass that lowers the ops that MLIR's quant dialect lacks to ops that MLIR has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr, IntegerType, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.dialects.quant.casts import StorageCastOp
from qdialect.dialects.quant.constants import ConstantOp
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.ir.elements import MAX_REPEATED_ELEMENTS, element_dtype, signless_elements
from qdialect.ir.errors import OpErrors
from qdialect.ir.rewriting import Replacements, insert_after, operands_first
from qdialect.lowering.dialect_conversion import reserve_for
from qdialect.lowering.lowered_casts import store_as_integers
from qdialect.lowering.storage_ops import (
    STORAGE_OPS,
    StorageBuilder,
    move_elements,
    storage_tensor,
    unknown_length,
    unreadable_storage,
)
from qdialect.support.memory import memory_budget

ExtensionOp: TypeAlias = ConstantOp | ShapeOp


class QuantShapesLowering:
    """
    Lowers the constants and the shape ops of a module in one walk.

    A chain is computed on storage integers: a quantized value is cast where a chain begins, and
    cast back where an op that is not lowered uses it.
    """

    def __init__(self) -> None:
        self.lowered: dict[ExtensionOp, None] = {}
        self.storage: dict[SSAValue, SSAValue] = {}
        """For each quantized value, the value of its storage integers."""
        self.casts: dict[StorageCastOp, None] = {}
        """Casts at the beginning of a chain, and casts that used the end of one."""
        self.replacements = Replacements()

    def lower(self, module: ModuleOp) -> None:
        """Lower the ops that upstream lacks. Raises OpErrors; the module is unchanged then."""
        ops = dict.fromkeys(op for op in module.walk() if isinstance(op, ExtensionOp))
        for op in ops:
            _check(op)
            if isinstance(op, ConstantOp):
                reserve_for(op, _bytes_of_repeats(op))
        for op in operands_first(ops):
            self._lower(op)
        for op in self.lowered:
            self._cast_back(op)
        self.replacements.apply()
        self._erase()

    def _lower(self, op: ExtensionOp) -> None:
        builder = StorageBuilder(InsertPoint.before(op), op.location)
        if isinstance(op, ConstantOp):
            constant = builder.insert(arith.ConstantOp(_signless(op)))
            constant.attributes |= op.attributes
            storage = constant.result
        else:
            operands = [self._storage_of(operand) for operand in op.operands]
            type = uniform_tensor(op.result.type)
            storage = move_elements(builder, op.movement, operands, type)
        if storage.name_hint is None:
            storage.name_hint = op.result.name_hint
        self.storage[op.result] = storage
        self.lowered[op] = None

    def _storage_of(self, value: SSAValue) -> SSAValue:
        if value not in self.storage:
            type, owner = storage_tensor(uniform_tensor(value.type)), value.owner
            if isinstance(owner, StorageCastOp) and owner.input.type == type:
                self.casts[owner] = None
                self.storage[value] = owner.input
            else:
                # No lowered op defines it.
                insert_after(new := StorageCastOp(value, type), value)
                self.casts[new] = None
                self.storage[value] = new.result
        return self.storage[value]

    def _cast_back(self, op: ExtensionOp) -> None:
        """Replace the result of `op` in ops that are not lowered."""
        result, storage = op.result, self.replacements.final(self.storage[op.result])
        is_used = False
        for use in result.uses:
            user = use.operation
            # In a cycle of casts, a value may be its own storage.
            if (
                isinstance(user, StorageCastOp)
                and user.result.type == storage.type
                and user.result is not storage
            ):
                self.casts[user] = None
                self.replacements.add(user.result, storage)
            else:
                is_used |= user not in self.lowered
        if is_used:
            self.replacements.add(result, self._quantized(op, storage))

    def _quantized(self, op: ExtensionOp, storage: SSAValue) -> SSAValue:
        """The quantized value that replaces the result of `op`, given its storage integers."""
        type, first = op.result.type, storage.owner
        if isinstance(first, StorageCastOp) and first.input.type == type:
            value = self.replacements.final(first.input)
            if value is not op.result:
                return value
        builder = StorageBuilder(InsertPoint.before(op), op.location)
        return builder.insert(StorageCastOp(storage, type)).result

    def _erase(self) -> None:
        for op in self.lowered:
            # Lowered ops may use each other in a cycle.
            op.operands = []
        for op in (*self.casts, *self.lowered):
            if op.result.first_use is None:
                Rewriter.erase_op(op)


def _signless(op: ConstantOp) -> DenseIntOrFPElementsAttr[IntegerType] | DenseResourceAttr:
    if isinstance(op.value, DenseResourceAttr):
        type = storage_tensor(uniform_tensor(op.result.type))
        return DenseResourceAttr(op.value.resource_handle, type)
    return signless_elements(cast(DenseIntOrFPElementsAttr[IntegerType], op.value))


def _bytes_of_repeats(op: ConstantOp) -> int:
    """The bytes of the splat of `op`, expanded as xDSL's `arith.constant` requires."""
    if isinstance(op.value, DenseResourceAttr):
        return 0
    value = cast(DenseIntOrFPElementsAttr[IntegerType], op.value)
    size = element_dtype(value.get_element_type()).itemsize
    count = math.prod(value.get_shape())
    is_repeated = len(value.data.data) < size * count and count <= MAX_REPEATED_ELEMENTS
    return size * count if is_repeated else 0


def _check(op: ExtensionOp) -> None:
    """Raise OpErrors if `op` cannot be lowered."""
    if reason := unreadable_storage(uniform_tensor(op.result.type).element_type):
        raise OpErrors.of(op, f"cannot be lowered: {reason}")
    if isinstance(op, ConstantOp):
        return
    movement = op.movement
    if type(movement) not in STORAGE_OPS:
        raise OpErrors.of(
            op, f"cannot be lowered: no ops are known for the movement {type(movement).__name__}"
        )
    shapes = [uniform_tensor(operand.type).get_shape() for operand in op.operands]
    if not movement.is_identity(*shapes) and (reason := unknown_length(movement, shapes)):
        raise OpErrors.of(op, f"cannot be lowered: {reason}")


@dataclass(frozen=True)
class LowerQuantShapesPass(ModulePass):
    """
    Lower the constants and the shape ops of the dialect to ops that MLIR has.

    A constant becomes its storage integers, and a shape op becomes ops that move them.
    `quant.scast` converts them back for ops that read quantized values, whose operand types are
    kept. Codes of floats and tables are stored as integers, and so their casts are lowered, too.

    Example: `qdialect-opt --lower-quant-shapes examples/tiny.mlir`.
    """

    name = "lower-quant-shapes"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises OpErrors."""
        with memory_budget():
            store_as_integers(op, ConstantOp, ShapeOp)
            QuantShapesLowering().lower(op)
