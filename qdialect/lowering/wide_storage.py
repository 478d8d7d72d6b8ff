"""Widens sub-byte storage to bytes, for compilers that support few ops on it."""

from __future__ import annotations

from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import DenseResourceAttr, IntegerType, ModuleOp
from xdsl.ir import Attribute
from xdsl.rewriter import Rewriter

from qdialect.dialects.quant.casts import StorageCastOp
from qdialect.dialects.quant.constants import ConstantOp, QuantizedTensor
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.elements import integer_range
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import element_type_or_self, with_element_type

_BYTE: Final = 8


def widen_storage(module: ModuleOp, context: Context) -> None:
    """
    Replace sub-byte storage types by byte-sized ones with the same storage range.

    A type is kept if ops other than those of quant use it, or if integers are cast to it.
    """
    found, seen = set[Attribute](), set[Attribute]()
    for op in module.walk():
        arguments = (of for region in op.regions for block in region.blocks for of in block.args)
        values = (*op.operands, *op.results, *arguments)
        types = {element_type_or_self(value.type) for value in values}
        found |= types
        if not op.name.startswith("quant.") or isinstance(op, StorageCastOp):
            seen |= types
    wide = {
        type: _widened(type)
        for type in found - seen
        if isinstance(type, UniformQuantizedType) and _is_narrow(type)
    }
    if not wide:
        return
    blobs = ResourceBlobs.of(context)
    for op in [*module.walk()]:
        for result in op.results:
            type = wide.get(cast(UniformQuantizedType, element_type_or_self(result.type)))
            if type is None:
                continue
            widened = with_element_type(result.type, type)
            if isinstance(op, ConstantOp):
                held = op.value
                values = blobs.read(held) if isinstance(held, DenseResourceAttr) else op.values
                if values is None:
                    continue
                new = ConstantOp(values, cast(QuantizedTensor, widened))
                new.attributes |= op.attributes
                Rewriter.replace_op(op, new)
            else:
                Rewriter.replace_value_with_new_type(result, widened)


def _is_narrow(type: UniformQuantizedType) -> bool:
    """Whether the storage is narrower than a byte, and all zero points fit it."""
    width = type.storage_type.bitwidth
    low, high = integer_range(width, type.is_signed)
    zero_points = type.slots.data.zero_points
    return width < _BYTE and bool(((low <= zero_points) & (zero_points <= high)).all())


def _widened(type: UniformQuantizedType) -> UniformQuantizedType:
    storage = IntegerType(_BYTE, type.storage_type.signedness.data)
    return UniformQuantizedType(
        storage, type.signed, type.minimum, type.maximum, type.expressed_type, type.slots
    )
