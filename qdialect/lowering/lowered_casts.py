"""Replacing casts by arithmetic, and the storage of floats and tables by integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Final, cast

from xdsl.dialects.builtin import (
    DenseResourceAttr,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from qdialect.algebra.parameters import StorageFormat
from qdialect.dialects.quant.casts import CastOp, is_rounding
from qdialect.dialects.quant.constants import ConstantOp
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.storage import Storage, StoredType, element_type_of
from qdialect.dialects.quant.types import QuantizedTensor, UniformQuantizedType
from qdialect.ir.elements import DenseElementsAttr, dense_of_bytes
from qdialect.ir.errors import OpErrors
from qdialect.ir.rewriting import Replacements
from qdialect.ir.value_types import element_type_or_self, with_element_type
from qdialect.lowering.cast_arithmetic import (
    ArithmeticCast,
    bytes_of_constants,
    lower_cast,
    slot_constants,
    unknown_arithmetic,
)
from qdialect.lowering.code_tables import code_type
from qdialect.lowering.dialect_conversion import TypeConversion, fold_casts, reserve_for
from qdialect.support.float_format import Rounding
from qdialect.support.lazy_numpy import np


def lower_casts(
    module: ModuleOp,
    casts: Sequence[ArithmeticCast],
    rounding: Rounding,
    *,
    keep_round_trips: bool = False,
) -> int:
    """
    Replace casts of a module by arithmetic. Raises OpErrors; the module is unchanged then.

    All casts of floats and tables are replaced, since integers store them afterwards.
    Returns the number of values that are no longer rounded.
    """
    coded = _CodedValues(module)
    return _lower(casts, rounding, coded if coded.casts else None, keep_round_trips)


def _lower(
    casts: Sequence[ArithmeticCast],
    rounding: Rounding,
    coded: _CodedValues | None,
    keep_round_trips: bool,
) -> int:
    """Replace casts, and those of values that integers store then."""
    if coded is not None:
        coded.require_known()
        casts = [*dict.fromkeys((*casts, *coded.casts))]
    replacements, reserved, folded = Replacements(), set[object](), set[CastOp]()
    if not keep_round_trips:
        folded = fold_casts([op for op in casts if isinstance(op, CastOp)], replacements)
    count = sum(map(is_rounding, folded))
    lowered = [op for op in casts if op not in folded]
    for op in lowered:
        if reason := unknown_arithmetic(op):
            raise OpErrors.of(op, f"cannot be lowered: {reason}")
        for constant, nbytes in bytes_of_constants(op).items():
            if constant not in reserved:
                reserve_for(op, nbytes)
                reserved.add(constant)
    slots = cache(slot_constants)
    for op in lowered:
        result = lower_cast(op, rounding, slots)
        if result.name_hint is None:
            result.name_hint = op.result.name_hint
        replacements.add(op.result, result)
    replacements.apply()
    for op in casts:
        Rewriter.erase_op(op)
    if coded is not None:
        coded.store()
    return count


def store_as_integers(module: ModuleOp, *kinds: type[Operation]) -> None:
    """
    Store codes of floats and tables as integers, and lower their casts.

    The module stays as it is if no op of these kinds has such codes. Raises OpErrors.
    """
    coded = _CodedValues(module)
    if any(isinstance(op, kinds) for op in coded.ops):
        _lower((), Rounding.NEAREST_EVEN, coded, keep_round_trips=True)


class _CodedValues:
    """The quantized values of a module that are stored as codes of floats and tables."""

    def __init__(self, module: ModuleOp) -> None:
        self._types = TypeConversion(_in_integers)
        self._module = module
        self.ops = [op for op in module.walk() if self._has_codes(op)]
        self.casts = [op for op in self.ops if isinstance(op, ArithmeticCast)]

    def require_known(self) -> None:
        """Raise OpErrors if an op has such values that no integers can replace."""
        for op in self.ops:
            if not isinstance(op, _KNOWN):
                type = element_type_or_self(next(filter(self._types.converts, _types_of(op))))
                raise OpErrors.of(op, f"cannot be lowered: it has values of type '{type}'")

    def _has_codes(self, op: Operation) -> bool:
        return any(map(self._types.converts, _types_of(op)))

    def store(self) -> None:
        """Store the values as integers; no cast between them and floats is left."""
        # Arithmetic has new values.
        for op in [op for op in self._module.walk() if self._has_codes(op)]:
            if isinstance(op, FuncOp):
                self._types.convert_function(op)
            for value in (*op.results, *_arguments(op)):
                self._types.convert_value(value)
            if isinstance(op, ConstantOp):
                op.value = _held_as_integers(op)


_KNOWN: Final = ArithmeticCast | ConstantOp | ShapeOp | FuncOp | CallOp | ReturnOp
"""The ops that are lowered, or that move, take, pass or return values of any type."""


def _types_of(op: Operation) -> Iterator[Attribute]:
    """The types of what an op reads and makes, and of the arguments of its blocks."""
    yield from (*op.operand_types, *op.result_types)
    yield from (argument.type for argument in _arguments(op))
    if isinstance(op, FuncOp):
        yield from (*op.function_type.inputs, *op.function_type.outputs)


def _arguments(op: Operation) -> Iterator[SSAValue]:
    """The arguments of the blocks of an op."""
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


def _in_integers(type: Attribute) -> Attribute:
    """The type of the integers with the bits of codes, whose zero points are the codes of zero."""
    element = element_type_or_self(type)
    if not isinstance(element, StoredType) or element.storage_format.codebook is None:
        return type
    width, signed = element.storage_type.bitwidth, element.is_signed
    least, greatest = StorageFormat(width, signed).bounds
    storage = Storage.of(code_type(element), signed=signed, minimum=least, maximum=greatest)
    if not isinstance(element, UniformQuantizedType):
        return with_element_type(type, element.new((*storage, *element.parameters[len(storage) :])))
    slots = element.slots.data
    try:
        zeros = element.storage_format.zeros(slots.zero_points)
    except ValueError:
        # Nothing pads with it.
        zeros = np.zeros_like(slots.zero_points)
    is_cut = slots.granularity is Granularity.SUB_CHANNEL
    written = storage.format.zero_points(zeros, signed=True) if is_cut else zeros
    moved = replace(slots, zero_point_data=written.astype("<i8").tobytes())
    stored = UniformQuantizedType.of_slots(storage, element.expressed_type, moved)
    return with_element_type(type, stored)


def _held_as_integers(op: ConstantOp) -> DenseElementsAttr | DenseResourceAttr:
    """The bits of a constant, whose type stores integers now."""
    type = cast(QuantizedTensor, op.result.type)
    in_integers = TensorType(element_type_of(type.element_type), type.get_shape())
    if isinstance(op.value, DenseResourceAttr):
        return DenseResourceAttr(op.value.resource_handle, in_integers)
    return dense_of_bytes(in_integers, op.value.data.data)
