"""
Comparing each rounding of two modules, where codes are computed by casts, and by integers.

Each quantized value is computed from the same codes in both modules, so that no difference is
carried on. The reference computes with f64, with scales as f32 rounds them: it is exact, but for
its own last digits. A code is right if it is the nearest, or the one that f32 computes, or if the
number is next to a tie. docs/integers.md says how far arithmetic may be from ties.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    ModuleOp,
    TensorType,
    f32,
    f64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.comparison import Finding
from qdialect.check.interpreters import ModuleInterpreter, TypedArray
from qdialect.dialects.arrays.values import dtype_of
from qdialect.dialects.quant.casts import QuantizeCastOp, RequantizeOp, StorageCastOp
from qdialect.dialects.quant.storage import StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.elements import dense_elements, elements_of, float_elements
from qdialect.ir.errors import message_of
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import dependencies_first, read_by, values_in
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of, with_element_type
from qdialect.ir.xdsl_private import set_type
from qdialect.ops.interface import models_of

Rounding: TypeAlias = QuantizeCastOp | RequantizeOp | StorageCastOp

_NEAR: Final = 2.0**-22
"""
The distance from a tie, as a part of the range of codes, within which a code may be the other one.

Products of f32 have three roundings of 2**-24.
"""


class Roundings(NamedTuple):
    """The outcome for one function."""

    name: str
    roundings: int
    elements: int
    differing: int
    """The number of codes that are not the nearest: f32, or a tie, is the reason."""

    def __str__(self) -> str:
        many = "" if self.roundings == 1 else "s"
        return (
            f"function '{self.name}': {self.roundings} rounding{many} of {self.elements} elements, "
            f"{self.differing} of them to the other code next to a tie"
        )


@dataclass
class _Function:
    """The quantized values of a function, and what they are computed from."""

    side: Side
    function: FuncOp
    roundings: Sequence[Rounding]

    def __post_init__(self) -> None:
        blobs = ResourceBlobs.of(self.side.context)
        self._interpreter = ModuleInterpreter(self.side.module, blobs, 1 << 62)
        self.codes: dict[SSAValue, NDArray[Any]] = {}
        """The codes of each result of a rounding, and of the arguments."""

    @property
    def leaves(self) -> Sequence[SSAValue]:
        """The arguments, and the results of roundings."""
        return [*self.function.body.block.args, *(op.result for op in self.roundings)]

    def computed(self, value: SSAValue) -> TypedArray:
        """A value, computed from the codes. Raises InterpretationError."""
        known: dict[SSAValue, TypedArray] = {}

        def makers(op: Operation) -> Iterator[Operation]:
            for read in read_by(op):
                if read in self.codes:
                    known[read] = TypedArray.of(self.codes[read], read.type)
                elif isinstance(read.owner, Operation):
                    yield read.owner

        if value in self.codes:
            return TypedArray.of(self.codes[value], value.type)
        if isinstance(value.owner, Operation):
            for op in dependencies_first([value.owner], makers):
                reads = {read: known[read] for read in read_by(op)}
                self._interpreter.set_values(reads.items())
                inputs = tuple(known[read] for read in op.operands)
                results = self._interpreter.run_one_op(op, inputs).values
                known.update(zip(op.results, results, strict=True))
        return known[value]


def compare_roundings(before: Side, after: Side, sets: int) -> Iterator[Roundings | Finding]:
    """
    Compare the roundings of all functions, on random sets of codes.

    Raises RunFailure for functions without as many quantized values in both modules.
    """
    exact = Side(_in_f64(before), before.context)
    others = {op.sym_name.data: op for op in _functions(after)}
    pairs = zip(_functions(before), _functions(exact), strict=True)
    with models_of(before.context):
        for function, reference in pairs:
            other = others.get(function.sym_name.data)
            if other is None:
                raise RunFailure("the other module has no such function", function)
            plain, wide, new = (
                _Function(side, one, [*_roundings(one)])
                for side, one in ((before, function), (exact, reference), (after, other))
            )
            yield from _compare(plain, wide, new, sets)


def _compare(
    before: _Function, exact: _Function, after: _Function, sets: int
) -> Iterator[Roundings | Finding]:
    types = [[value.type for value in side.leaves] for side in (before, after)]
    if types[0] != types[1]:
        reason = "the functions do not have the same quantized values, in the same order"
        raise RunFailure(reason, after.function)
    # What stays a cast is compared by comparing modules.
    lowered = [
        (at, op)
        for at, op in enumerate(after.roundings)
        if isinstance(op, StorageCastOp) and not isinstance(before.roundings[at], StorageCastOp)
    ]
    rng = np.random.default_rng(0)
    elements = differing = 0
    wrong = set[int]()
    for _ in range(sets):
        codes = [_random(rng, leaf, before.function) for leaf in before.leaves]
        for side in (before, exact, after):
            side.codes = dict(zip(side.leaves, codes, strict=True))
        for at, op in lowered:
            if at in wrong:
                continue
            type = cast(UniformQuantizedType, element_type_or_self(op.result.type))
            try:
                number = _number(exact, exact.roundings[at], type)
                plain = _number(before, before.roundings[at], type)
                result = after.computed(op.input)
            except InterpretationError as error:
                raise RunFailure(message_of(error), op) from None
            got = type.storage_format.wrap(result.elements.astype(np.int64))
            low, high = type.storage_type_min, type.storage_type_max
            nearest, single = (np.rint(part).clip(low, high) for part in (number, plain))
            is_near = np.abs(number - np.floor(number) - 0.5) < _NEAR * (high - low + 1)
            is_next = is_near & (np.abs(got - nearest) <= 1)
            bad = (got != nearest) & (got != single) & ~is_next
            elements += got.size
            differing += int((got != nearest).sum())
            if bad.any():
                index = tuple(int(part[0]) for part in np.nonzero(bad))
                yield Finding(
                    f"element {[*index]} is stored as {got[index]}, but {number[index]:.6f} "
                    f"codes were rounded before",
                    op,
                )
                wrong.add(at)
    yield Roundings(after.function.sym_name.data, len(lowered), elements, differing)


def _number(side: _Function, op: Rounding, type: UniformQuantizedType) -> NDArray[np.float64]:
    """What a cast rounds, in codes."""
    value = side.computed(op.input)
    if isinstance(op, RequantizeOp):
        source = cast(UniformQuantizedType, element_type_or_self(op.input.type))
        numbers = source.parameters_on(value.shape).read(value.elements)
    else:
        numbers = value.numbers
    slot = type.single_slot
    return np.asarray(numbers, np.float64) / slot.scale + slot.zero_point


def _random(rng: np.random.Generator, leaf: SSAValue, function: FuncOp) -> NDArray[Any]:
    type, shape = element_type_or_self(leaf.type), shape_of(leaf.type)
    if shape is None or not is_static(shape):
        raise RunFailure("the shape of a value is not known", function)
    if not isinstance(type, UniformQuantizedType):
        return np.zeros(shape, dtype_of(type))
    codes = rng.integers(type.storage_type_min, type.storage_type_max + 1, shape)
    return type.storage_format.wrap(codes).astype(dtype_of(type))


def _roundings(function: FuncOp) -> Iterator[Rounding]:
    for op in function.walk():
        is_cast = isinstance(op, QuantizeCastOp | RequantizeOp | StorageCastOp)
        if is_cast and isinstance(element_type_or_self(op.result.type), StoredType):
            yield op


def _functions(side: Side) -> Iterator[FuncOp]:
    for op in side.module.ops:
        if isinstance(op, FuncOp) and not op.is_declaration:
            if len(op.body.blocks) != 1:
                raise RunFailure("it has several blocks", op)
            yield op


# The exact reference


def _in_f64(side: Side) -> ModuleOp:
    """A copy that computes with f64 instead of f32."""
    module, blobs = side.module.clone(), ResourceBlobs.of(side.context)
    for value in values_in(module):
        set_type(value, _wide_type(value.type))
    for op in module.walk():
        for attributes in (op.properties, op.attributes):
            for key, attribute in attributes.items():
                attributes[key] = _wide(attribute, blobs)
    return module


def _wide_type(type: Attribute) -> Attribute:
    element = element_type_or_self(type)
    if element == f32:
        return with_element_type(type, f64)
    if isinstance(element, UniformQuantizedType) and element.expressed_type == f32:
        scales = element.expressed_format.round(element.scales).astype("<f8")
        slots = replace(element.slots.data, scale_data=scales.tobytes())
        wide = UniformQuantizedType.of_slots(element.storage, f64, slots)
        return with_element_type(type, wide)
    return type


def _wide(attribute: Attribute, blobs: ResourceBlobs) -> Attribute:
    match attribute:
        case FloatAttr() if attribute.type == f32:
            return FloatAttr(attribute.value.data, f64)
        case DenseIntOrFPElementsAttr() if attribute.get_element_type() == f32:
            numbers = float_elements(elements_of(attribute), f32)
        case DenseResourceAttr() if element_type_or_self(cast(Attribute, attribute.type)) == f32:
            values = blobs.read(attribute)
            if values is None:
                return attribute
            numbers = float_elements(values, f32)
        case _:
            return f64 if attribute == f32 else attribute
    shape = cast("TensorType[Any]", attribute.type).get_shape()
    wide = np.broadcast_to(numbers.astype(np.float64), shape)
    return dense_elements(wide.copy().view("u8"), f64)
