"""
The quantization and dequantization of IREE's iree_linalg_ext dialect.

https://iree.dev/reference/mlir-dialects. Its indexing maps give the axis of each operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
)
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from qdialect.algebra.movement import inverse
from qdialect.ir.value_types import element_type_or_self, is_tensor
from qdialect.ops.elementwise import converted_term, indexing_maps, recreated, shape_of_type
from qdialect.ops.fields import (
    Apply,
    Arithmetic,
    Elementwise,
    ElementwiseModel,
    Input,
    Operands,
    Scalar,
    SmallOperand,
    Term,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    attribute_of,
    find_attribute,
    integer_of,
    set_attribute,
)
from qdialect.ops.model import Effects, OpModel, OpModels
from qdialect.support.lazy_numpy import NDArray, np

DEQUANTIZE_AFFINE = "iree_linalg_ext.dequantize_affine"
QUANTIZE_AFFINE = "iree_linalg_ext.quantize_affine"

UNSIGNED_FLAGS = {DEQUANTIZE_AFFINE: "input_unsigned", QUANTIZE_AFFINE: "storage_unsigned"}
"""The attribute of each op that says that the stored integers are unsigned."""


def _write(op: Operation, small: Sequence[SmallOperand], type: Attribute) -> list[Operation]:
    empty = EmptyOp([], type)
    tensors = iter(small)
    *inputs, _ = op.operands
    axes: list[Sequence[int]] = []
    values: list[SSAValue] = []
    for value in inputs:
        operand = next(tensors) if is_tensor(value.type) else SmallOperand(value, ())
        axes.append(operand.axes)
        values.append(operand.value)
    new = recreated(op, [*values, empty.tensor], type)
    set_attribute(new, "indexing_maps", indexing_maps(len(shape_of_type(type)), axes))
    return [empty, new]


def _dequantize(op: Operation, operands: Operands) -> Elementwise:
    *inputs, _ = op.operands
    tensors: list[SSAValue] = []
    axes: list[tuple[int, ...]] = []
    terms: list[Term] = []
    for value, along in zip(inputs, _axes_of_inputs(op), strict=True):
        if is_tensor(value.type):
            terms.append(Input(len(tensors), element_type_or_self(value.type)))
            tensors.append(value)
            axes.append(along)
        else:
            terms.append(_scalar(value))
    is_unsigned = find_attribute(op, UNSIGNED_FLAGS[DEQUANTIZE_AFFINE]) is not None
    result = element_type_or_self(op.results[0].type)
    term = _term(terms, result, is_unsigned=is_unsigned)
    return Elementwise(tuple(tensors), tuple(axes), term)


def _axes_of_inputs(op: Operation) -> list[tuple[int, ...]]:
    """
    The axes of the result along which each operand is read, but for the initial value.

    Raises Refusal.
    """
    maps = cast("ArrayAttr[Attribute]", attribute_of(op, "indexing_maps")).data
    *loops, results = [_loops_of(map) for map in maps]
    if sorted(results) != list(range(len(results))) or not 2 <= len(loops) <= 3:
        raise Refusal(RefusalCode.ARITHMETIC, "its result is not written in a permutation of axes")
    return [tuple(results.index(loop) for loop in along) for along in loops]


def _loops_of(map: Attribute) -> list[int]:
    expressions = cast(AffineMapAttr, map).data.results
    if not all(isinstance(expression, AffineDimExpr) for expression in expressions):
        raise Refusal(RefusalCode.ARITHMETIC, "its indexing maps do more than name axes")
    return [cast(AffineDimExpr, expression).position for expression in expressions]


def _scalar(value: SSAValue) -> Scalar:
    owner = value.owner
    number = find_attribute(owner, "value") if isinstance(owner, ConstantOp) else None
    if not isinstance(number, IntegerAttr | FloatAttr):
        raise Refusal(RefusalCode.ARITHMETIC, "its scale or zero point is not a constant")
    return Scalar(cast("FloatAttr[Any]", number))


def _term(terms: Sequence[Term], result: Attribute, *, is_unsigned: bool) -> Term:
    """
    Integers are subtracted in the next wider type, and multiplied in the type of the scale.

    As in IREE's decomposition: a zero point is signed, whatever the stored integers are.
    """
    stored, scale, *zero_points = terms
    type, expressed = stored.type, scale.type
    if not isinstance(type, IntegerType) or not isinstance(expressed, AnyFloat):
        raise Refusal(RefusalCode.ARITHMETIC, f"'{type}' is not dequantized")
    extend = Arithmetic.ZERO_EXTEND if is_unsigned else Arithmetic.SIGN_EXTEND
    to_float = Arithmetic.SIGNED_TO_FLOAT
    value = stored
    if zero_points:
        (zero_point,) = zero_points
        wide = IntegerType(max(8, 1 << type.bitwidth.bit_length()))
        of_zero_point = zero_point.type
        if not isinstance(of_zero_point, IntegerType) or wide.bitwidth > 64:
            raise Refusal(RefusalCode.ARITHMETIC, f"zero points of '{of_zero_point}' may wrap")
        if cast(IntegerType, of_zero_point).bitwidth < wide.bitwidth:
            zero_point = Apply(Arithmetic.SIGN_EXTEND, (zero_point,), wide)
        value = Apply(Arithmetic.SUBTRACT, (Apply(extend, (stored,), wide), zero_point), wide)
    elif is_unsigned:
        to_float = Arithmetic.UNSIGNED_TO_FLOAT
    value = Apply(to_float, (value,), expressed)
    term = Apply(Arithmetic.MULTIPLY, (value, scale), expressed)
    return term if expressed == result else converted_term(term, result)


def _quantize(interpreter: Any, op: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """
    Quotients are rounded to even, and zero points added behind, as in IREE's decomposition.

    NaN has the least code. Raises InterpretationError and Refusal.
    """
    # What needs numpy is imported when an op is run.
    from qdialect.dialects.arrays.values import TypedArray, computed, format_of

    low, high = (integer_of(op, name) for name in ("quant_min", "quant_max"))
    expressed, rank = format_of(operands[0].element_type), len(shape_of_type(op.results[0].type))

    def spread(value: TypedArray, along: Sequence[int]) -> TypedArray:
        """An operand with the axes of the result."""
        lengths = dict(zip(along, value.elements.shape, strict=True))
        shape = [lengths.get(axis, 1) for axis in range(rank)]
        return TypedArray(
            value.elements.transpose(inverse(along)).reshape(shape), value.element_type
        )

    def codes(value: TypedArray, scale: TypedArray, *zero_points: TypedArray) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            numbers = np.rint(expressed.round(value.numbers / scale.numbers))
        for zero_point in zero_points:
            numbers = numbers + zero_point.numbers
        return np.where(np.isnan(numbers), low, np.clip(numbers, low, high)).astype(np.int64)

    # Without the initial value.
    inputs = map(spread, operands[:-1], _axes_of_inputs(op))
    return [computed(codes, [*inputs], op.results[0].type)]


MODELS = OpModels(
    "iree_linalg_ext",
    {
        "dequantize_affine": OpModel(term=ElementwiseModel(_dequantize, _write)),
        "quantize_affine": OpModel(effects=Effects.NONE, run=_quantize),
    },
)
