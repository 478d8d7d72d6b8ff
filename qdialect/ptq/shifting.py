"""
Signed storage as unsigned, or the reverse: integers and zero points move by half of the codes.

`(q + h) - (z + h)` is `q - z`, so no value changes. Constants are rewritten. Any other op that
reads stored integers would read different ones, so it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyDenseElement,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    IntegerType,
    ModuleOp,
    NoneAttr,
    Signedness,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.algebra.parameters import IntArray, StorageFormat
from qdialect.algebra.views import Splat, Values
from qdialect.dialects.quant.slots import Slots
from qdialect.dialects.quant.storage import Storage, StoredType, element_type_of
from qdialect.dialects.quant.types import AnyQuantizedType, UniformQuantizedType
from qdialect.folding.report import Outcome, PassReport
from qdialect.ir.elements import dense_elements, element_dtype
from qdialect.ir.errors import OpErrors
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import element_type_or_self
from qdialect.lowering.dialect_conversion import TypeConversion, refuse_function_constants
from qdialect.ops.fields import CastReads
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    cast_reads,
    elements_attribute_of,
    find_attribute,
    is_cast,
    model_of,
    models_of,
    name_of,
    op_model,
    set_attribute,
)
from qdialect.ops.reading import Constants
from qdialect.support.lazy_numpy import np

MAX_WIDTH: Final = 16
"""Biases have 32 bits, whatever the storage of other values."""


@dataclass(frozen=True)
class StorageShift:
    """A change of storage between signed and unsigned integers of one width."""

    source: StorageFormat

    @property
    def by(self) -> int:
        """The number that is added to each integer."""
        half = 1 << (self.source.width - 1)
        return half if self.source.signed else -half

    @property
    def result(self) -> StorageFormat:
        """The storage after the change."""
        return self.source._replace(signed=not self.source.signed)

    def shifted(self, codes: IntArray) -> IntArray:
        """The shifted integers; integers beyond the width are truncated first."""
        return self.source.wrap(codes) + self.by


class ShiftedTypes(TypeConversion):
    """The conversion of all types and attributes in which a storage occurs."""

    def __init__(self, shift: StorageShift) -> None:
        super().__init__(self._shifted)
        self.shift = shift

    def _shifted(self, type: Attribute) -> Attribute:
        match type:
            case UniformQuantizedType() | AnyQuantizedType() if (
                type.storage_format == self.shift.source
            ):
                return self._quantized(type)
            case ArrayAttr():
                items = type.data
                parts = [self._part(item) for item in items]
                return type if _are_same(parts, items) else ArrayAttr(parts)
            case DictionaryAttr():
                members = type.data
                parts = [self._part(member) for member in members.values()]
                kept = _are_same(parts, tuple(members.values()))
                return type if kept else DictionaryAttr(dict(zip(members, parts, strict=True)))
            case ParametrizedAttribute() if not isinstance(type, UniformQuantizedType):
                parts = [self._part(parameter) for parameter in type.parameters]
                return type if _are_same(parts, type.parameters) else type.new(parts)
            case _:
                return type

    def _part(self, attribute: Attribute) -> Attribute:
        part = self.of(attribute)
        assert part is not None
        return part

    def _quantized(self, type: UniformQuantizedType | AnyQuantizedType) -> Attribute:
        by, stored = self.shift.by, cast(IntegerType, type.storage_type)
        if stored.signedness.data is not Signedness.SIGNLESS:
            signed = self.shift.result.signed
            signedness = Signedness.SIGNED if signed else Signedness.UNSIGNED
            stored = IntegerType(stored.bitwidth, signedness)
        storage = Storage.of(
            stored,
            signed=self.shift.result.signed,
            minimum=type.storage_type_min + by,
            maximum=type.storage_type_max + by,
        )
        if isinstance(type, AnyQuantizedType):
            return type.new((*storage, *type.parameters[len(storage) :]))
        slots, zero_points = type.slots.data, self.shift.shifted(type.zero_points)
        if type.block_sizes or len(slots.shape) > 1:
            blocks = list(zip(type.quantized_dimensions, type.block_sizes, strict=True))
            format = type.expressed_format
            moved = Slots.sub_channel(blocks, type.scales, zero_points, format, self.shift.result)
        elif type.quantized_dimensions:
            moved = Slots.per_axis(type.quantized_dimensions[0], type.scales, zero_points)
        else:
            moved = Slots.per_tensor(type.scales.item(), int(zero_points.item()))
        return UniformQuantizedType.of_slots(storage, type.expressed_type, moved)


def _are_same(parts: Sequence[Attribute], whole: Sequence[Attribute]) -> bool:
    return all(part is before for part, before in zip(parts, whole, strict=True))


class _Shifting:
    """One run of the pass: all ops are checked before the first is changed."""

    def __init__(self, shift: StorageShift, resources: ResourceBlobs) -> None:
        self._shift = shift
        self._types = ShiftedTypes(shift)
        self._resources = resources
        self._constants = Constants(resources)
        self._rewritten: dict[Operation, Attribute] = {}
        """The constants of quantized types, with their new elements."""
        self._recast: dict[Operation, Attribute] = {}
        """The casts of integer constants to quantized types, with the new elements."""
        self.report = PassReport(verb="shifted")

    def shift(self, module: ModuleOp) -> None:
        """Shift the storage in the whole module. If it raises OpErrors, the module is unchanged."""
        ops = list(module.walk())
        for op in ops:
            refuse_function_constants(op, self._types)
            if reason := self._check(op):
                raise OpErrors(
                    [(op, f"'{name_of(op)}' op cannot have its storage shifted: {reason}")]
                )
        for op, elements in self._recast.items():
            self._recast_constant(op, elements)
        for op, elements in self._rewritten.items():
            set_attribute(op, cast(str, elements_attribute_of(op)), elements)
        for op in ops:
            self._convert(op)

    def _check(self, op: Operation) -> str | None:
        """Why the meaning of `op` would change; None if it would not."""
        types = [element_type_or_self(value.type) for value in (*op.operands, *op.results)]
        shifted = [type for type in types if self._types.converts(type)]
        for type in shifted:
            if isinstance(type, UniformQuantizedType) and not self._is_exact(type):
                return f"'{type.expressed_type}' cannot represent all integers of the storage"
        if not shifted:
            return None
        if (name := elements_attribute_of(op)) is not None:
            try:
                self._rewritten[op] = self._elements_of(op, name)
            except Refusal as error:
                return str(error)
            return None
        if is_cast(op):
            return self._check_cast(op)
        if _is_control(op):
            return None
        if op_model(op).reads_bits or name_of(op) == UnrealizedConversionCastOp.name:
            return "it converts the stored integers to something else"
        width = self._shift.source.width
        if any(isinstance(type, IntegerType) and type.bitwidth == width for type in types):
            return f"its integers of {width} bits may be storage values or zero points"
        for key in (*op.properties, *op.attributes):
            if "zero_point" in key or key.endswith("_zp"):
                return f"its attribute '{key}' may be a zero point"
        if op.results and model_of(op) is None:
            reason = "it is assumed to compute with the dequantized values of its operands"
            self.report.tell(Outcome.SHIFTED, op, reason)
        return None

    def _check_cast(self, op: Operation) -> str | None:
        (operand,), (result,) = op.operands, op.results
        ends = element_type_or_self(operand.type), element_type_or_self(result.type)
        if isinstance(ends[0], IntegerType) or isinstance(ends[1], IntegerType):
            if CastReads.BITS not in cast_reads(op):
                return f"it casts '{ends[0]}' to '{ends[1]}'"
            source = operand.owner if isinstance(operand.owner, Operation) else None
            name = None if source is None else elements_attribute_of(source)
            if isinstance(ends[1], IntegerType) or source is None or name is None:
                return "it computes with stored integers, outside of quantized types"
            try:
                self._recast[op] = self._elements_of(source, name)
            except Refusal as error:
                return str(error)
        elif not isinstance(ends[0], StoredType) or isinstance(ends[1], StoredType):
            self.report.tell(
                Outcome.SHIFTED,
                op,
                "quotients close to a tie may now round to the other neighbour, since the sum "
                "with the zero point is rounded",
            )
        return None

    def _is_exact(self, type: UniformQuantizedType) -> bool:
        """Whether the expressed type represents all integers of the storage exactly."""
        greatest = np.array((1 << self._shift.source.width) - 1, dtype=np.float64)
        return bool(type.expressed_format.round(greatest) == greatest)

    def _elements_of(self, op: Operation, name: str) -> Attribute:
        """The elements of a constant, shifted. Raises Refusal."""
        values, attribute = self._constants.read(op), find_attribute(op, name)
        is_held = isinstance(attribute, DenseIntOrFPElementsAttr | DenseResourceAttr)
        if values is None or not is_held:
            raise Refusal(RefusalCode.NOT_CONSTANT, "the integers of its constant are not known")
        declared = cast("TensorType[AnyDenseElement]", cast(Any, attribute).type)
        element = declared.element_type
        if isinstance(element_type_or_self(op.results[0].type), StoredType):
            element = element_type_of(_of_format(self._shift.result))
            if declared.element_type != element_type_of(_of_format(self._shift.source)):
                raise Refusal(
                    RefusalCode.UNKNOWN_OP, f"its integers are of '{declared.element_type}'"
                )
        shifted = self._values(values, element)
        if isinstance(attribute, DenseResourceAttr) and not isinstance(shifted, Splat):
            key, alignment = attribute.resource_handle.data, self._resources.alignment_of(attribute)
            return self._resources.write(shifted, element, key, alignment=alignment)
        return dense_elements(shifted, element)

    def _values(self, values: Values, element: AnyDenseElement) -> Values:
        """Stored integers as those of the other storage, whatever type holds them."""
        signed = element == IntegerType(self._shift.source.width)
        format = StorageFormat(self._shift.source.width, signed)

        def shifted(codes: Any) -> Any:
            numbers = self._shift.shifted(np.asarray(codes).astype(np.int64))
            return format.wrap(numbers).astype(element_dtype(element))

        if isinstance(values, Splat):
            return Splat(shifted(values.value)[()], values.shape)
        return shifted(values)

    # Changes

    def _recast_constant(self, op: Operation, elements: Attribute) -> None:
        """Make a cast read a constant of its own, with other elements."""
        source = cast(Operation, op.operands[0].owner)
        new = source.clone()
        set_attribute(new, cast(str, elements_attribute_of(source)), elements)
        (result,), (old,) = new.results, source.results
        result.name_hint = old.name_hint
        Rewriter.insert_op(new, InsertPoint.before(op))
        op.operands = (result,)
        if not old.uses:
            Rewriter.erase_op(source)

    def _convert(self, op: Operation) -> None:
        values: list[SSAValue] = [*op.results]
        values += [arg for region in op.regions for block in region.blocks for arg in block.args]
        for value in values:
            if self._types.converts(value.type):
                self._types.convert_value(value)
        for attributes in (op.properties, op.attributes):
            for key, attribute in attributes.items():
                if self._types.converts(attribute):
                    attributes[key] = cast(Attribute, self._types.of(attribute))


def _of_format(format: StorageFormat) -> AnyQuantizedType:
    return AnyQuantizedType.new((*Storage.of_format(format), NoneAttr()))


def _is_control(op: Operation) -> bool:
    return isinstance(op, FuncOp) or name_of(op).partition(".")[0] in ("func", "cf", "scf")


def shift_storage(module: ModuleOp, context: Context, shift: StorageShift) -> PassReport:
    """
    Shift a storage in all types of a module, and in all constants of these types.

    The report has a record of each op that rounds or is unknown. Raises OpErrors for ops that read
    or hold stored integers; the module is unchanged then.
    """
    with models_of(context):
        shifting = _Shifting(shift, ResourceBlobs.of(context))
        shifting.shift(module)
    return shifting.report
