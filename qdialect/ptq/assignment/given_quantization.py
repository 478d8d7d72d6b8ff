"""
The quantization that a module already has, rewritten to one form: casts of quant, and constants.

These are casts of other dialects, casts of float constants, and pairs of ops that round and
dequantize, to which torch-mlir lowers torch's and ONNX's casts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import Shape
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.algebra.views import Splat, as_view
from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedTensor,
    RequantizeOp,
    Storage,
    UniformQuantizedType,
)
from qdialect.folding.arithmetic import stored_numbers
from qdialect.folding.dequantization import Leaf, recognize
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of, with_element_type
from qdialect.ops.along_axis import is_recordable
from qdialect.ops.elementwise import read_elementwise
from qdialect.ops.fields import Apply, Arithmetic, CastReads, Contraction, Elementwise, Scalar, Term
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    cast_reads,
    function_of,
    functions_of,
    is_arithmetic,
    is_cast,
    known_layer,
    name_of,
    number_of,
    op_model,
)
from qdialect.ops.reading import ConstantOperands, Constants
from qdialect.ops.unused_ops import erase_unused
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Use, result_axes
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import MemoryLimitError


def rewrite_casts(module: ModuleOp) -> None:
    """Rewrite casts of other dialects between floats and uniform types to casts of quant."""
    for op in list(module.walk()):
        if isinstance(op, _CASTS) or not is_cast(op) or cast_reads(op) not in _READS:
            continue
        (operand,), (result,) = op.operands, op.results
        type: Attribute = result.type
        if not isinstance(type, TensorType):
            continue
        type = cast(Attribute, type)
        match is_recordable(operand), is_recordable(result):
            case True, False if _is_uniform(result):
                new: Operation = QuantizeCastOp(operand, type)
            case False, True if _is_uniform(operand):
                new = DequantizeCastOp(operand, type)
            case False, False if _is_uniform(operand) and _is_uniform(result):
                new = RequantizeOp(operand, type)
            case _:
                continue
        try:
            new.verify()
        except VerifyException:
            # StableHLO's verifier would refuse it, but has not run.
            new.erase()
            continue
        new.location = op.location
        new.results[0].name_hint = result.name_hint
        Rewriter.replace_op(op, new)


_CASTS: Final = (QuantizeCastOp, DequantizeCastOp, RequantizeOp)
_READS: Final = (CastReads.CODES, CastReads.NUMBERS)


def _is_uniform(value: SSAValue) -> bool:
    return isinstance(element_type_or_self(value.type), UniformQuantizedType)


def write_constants(graph: FlowGraph) -> bool:
    """Fold casts of constants to quantized types into constants. Returns whether any was."""
    gone = list[Operation]()
    for op in graph.ops:
        if not isinstance(op, QuantizeCastOp) or not _is_uniform(op.result):
            continue
        shape = shape_of(op.result.type)
        if graph.stored(op.input) is None or shape is None or not is_static(shape):
            continue
        tensor = cast(QuantizedTensor, op.result.type)
        numbers = graph.numbers(op.input).astype("f8")
        if np.isnan(numbers).any():
            continue
        try:
            codes = _codes(numbers, op, tensor, shape)
        except (TooManySlotsError, MemoryLimitError):
            continue
        constant = ConstantOp(codes, tensor)
        constant.location = op.location
        constant.result.name_hint = op.input.name_hint
        Rewriter.insert_op(constant, InsertPoint.before(op))
        if isinstance(maker := op.input.owner, Operation):
            gone.append(maker)
        Rewriter.replace_op(op, [], [constant.result])
    erase_unused(gone)
    return bool(gone)


def _codes(
    numbers: NDArray[Any], cast_op: QuantizeCastOp, tensor: QuantizedTensor, shape: Shape
) -> NDArray[Any] | Splat:
    """The codes that a cast gives numbers. Raises TooManySlotsError and MemoryLimitError."""
    # Interpreters import numpy.
    from qdialect.check.interpreters import TypedArray
    from qdialect.dialects.arrays.values import quantized, temporary_memory

    parameters, size = tensor.element_type.parameters_on(shape), math.prod(shape)
    is_splat = numbers.size == 1 and parameters.size == 1 and size > 0
    # The budget bounds the time, too: all codes are computed, though piece by piece.
    with temporary_memory(0 if is_splat else numbers.itemsize * size):
        element = element_type_or_self(cast_op.input.type)
        given = TypedArray.of_numbers(numbers, TensorType(element, numbers.shape))
        elements = TypedArray(np.broadcast_to(given.elements, shape), given.element_type)
        codes = quantized(elements, tensor).elements
    return Splat(codes[(0,) * len(shape)], shape) if is_splat else codes


class _Numbers(NamedTuple):
    """Numbers along an axis of a result, or one number for all of it."""

    numbers: tuple[float, ...]
    axis: int | None = None

    def repeated(self, count: int) -> tuple[float, ...]:
        return self.numbers * count if self.axis is None else self.numbers


class _Rounding(NamedTuple):
    """The computation `clamp(round(x / scale) + zero_point)`, converted to integers."""

    scale: _Numbers
    zero_point: _Numbers
    minimum: int
    maximum: int
    is_signed: bool


def rewrite_pairs(module: ModuleOp) -> bool:
    """Rewrite quantization and dequantization pairs to casts. Returns whether there is any."""
    replaced = list[Operation]()
    for op in list(module.walk()):
        rounders = [
            value.owner
            for value in op.operands
            if isinstance(value.owner, Operation)
            and op_model(value.owner).maps_elements
            and isinstance(element_type_or_self(value.type), IntegerType)
        ]
        if len(rounders) != 1 or not is_arithmetic(op):
            continue
        floats = rounders[0].operands[0]
        if floats.type != op.results[0].type:
            continue
        try:
            type = _type_of_pair(rounders[0], op)
            quantize = QuantizeCastOp(floats, with_element_type(floats.type, type))
            quantize.verify()
        except (Refusal, VerifyException):
            continue
        result = DequantizeCastOp(quantize, floats.type)
        for new in (quantize, result):
            new.location = op.location
            new.results[0].name_hint = op.results[0].name_hint
        Rewriter.insert_op([quantize, result], InsertPoint.before(op))
        op.results[0].replace_all_uses_with(result.result)
        replaced += [op, rounders[0]]
    erase_unused(replaced)
    return bool(replaced)


def _type_of_pair(rounder: Operation, op: Operation) -> UniformQuantizedType:
    """
    The type with the parameters of an op that rounds, and of one that dequantizes its result.

    Raises Refusal or VerifyException if they are not such ops, or have other parameters.
    """
    elements = read_elementwise(op, ConstantOperands(Constants(ResourceBlobs(None))))
    leaves = [_leaf(value, value.owner is rounder) for value in elements.operands]
    dequantized = recognize(elements.term, leaves)
    axes = tuple(range(len(shape_of(op.results[0].type) or ())))
    if (
        elements.operands[dequantized.stored].owner is not rounder
        or elements.axes[dequantized.stored] != axes
        or dequantized.scales is None
    ):
        raise _NO_PAIR
    scale = _parameter(elements, leaves, dequantized.scales, dequantized.scale_term)
    zero_point = _parameter(elements, leaves, dequantized.zero_points, dequantized.zero_point_term)
    rounding = _rounding(rounder)
    numbers = scale, zero_point, rounding.scale, rounding.zero_point
    along = {
        parameter.axis: len(parameter.numbers)
        for parameter in numbers
        if parameter.axis is not None
    }
    if len(along) > 1 or rounding.is_signed is not dequantized.is_signed:
        raise _NO_PAIR
    axis, count = next(iter(along.items()), (None, 1))
    scales, zero_points, *others = (parameter.repeated(count) for parameter in numbers)
    if others != [scales, zero_points] or any(zero != round(zero) for zero in zero_points):
        raise _NO_PAIR
    storage = Storage.of(
        cast(IntegerType, element_type_or_self(rounder.results[0].type)),
        signed=rounding.is_signed,
        minimum=rounding.minimum,
        maximum=rounding.maximum,
    )
    expressed = cast(AnyFloat, element_type_or_self(op.results[0].type))
    zeros = list(map(int, zero_points))
    if axis is None:
        return UniformQuantizedType.per_tensor(storage, expressed, scales[0], zeros[0])
    return UniformQuantizedType.per_axis(storage, expressed, axis, scales, zeros)


_NO_PAIR: Final = Refusal(RefusalCode.ARITHMETIC, "they do not quantize and dequantize")


def _leaf(value: SSAValue, is_rounded: bool) -> Leaf:
    """An operand of a dequantization. Rounded elements may be any integers of their type."""
    type = element_type_or_self(value.type)
    if is_rounded and isinstance(type, IntegerType):
        width = type.bitwidth
        return Leaf(type, lambda: np.array([-(1 << width - 1), (1 << width - 1) - 1]))
    return Leaf(type, lambda: _constant(value).astype("f8" if isinstance(type, AnyFloat) else "i8"))


def _constant(value: SSAValue) -> NDArray[Any]:
    """The elements of a constant, in its shape. Raises Refusal for other values."""
    if (number := number_of(value)) is not None:
        return np.asarray(number)
    owner = value.owner
    values = Constants(ResourceBlobs(None)).read(owner) if isinstance(owner, Operation) else None
    if values is None:
        raise _NO_PAIR
    return stored_numbers(as_view(values).array(), element_type_or_self(value.type))


def _parameter(
    elements: Elementwise, leaves: Sequence[Leaf], parameter: int | Scalar | None, term: Term | None
) -> _Numbers:
    """The scale or the zero point of a dequantization. Raises Refusal."""
    if parameter is None:
        return _Numbers((0.0,))
    numbers, axis = np.zeros(1), None
    if isinstance(parameter, Scalar):
        numbers = np.asarray([parameter.attribute.value.data])
    else:
        numbers, axes = leaves[parameter].numbers().reshape(-1), elements.axes[parameter]
        if len(axes) > 1:
            raise _NO_PAIR
        axis = next(iter(axes), None)
    while isinstance(term, Apply):
        if term.arithmetic in (Arithmetic.ZERO_EXTEND, Arithmetic.UNSIGNED_TO_FLOAT):
            numbers = _unsigned(numbers, term.operands[0].type)
        (term,) = term.operands
    return _Numbers(tuple(numbers.astype("f8").tolist()), axis)


def _unsigned(numbers: NDArray[Any], type: Attribute) -> NDArray[Any]:
    """Integers of a type, read as unsigned."""
    return numbers % (1 << type.bitwidth) if isinstance(type, IntegerType) else numbers


_TO_INTEGERS: Final = {"fptosi": True, "fptoui": False}
"""The functions that end a rounding, and whether their results are signed."""

_UNSIGNED: Final = frozenset({"extui", "uitofp"})


def _rounding(op: Operation) -> _Rounding:
    """The rounding that an op computes for each element of its first operand. Raises Refusal."""
    shape = shape_of(op.results[0].type) or ()
    if len(op.results) != 1 or result_axes(Use(op, 0)) != tuple(range(len(shape))):
        raise _NO_PAIR
    functions, constants = list[str](), dict[str, _Numbers]()
    block = op.regions[0].block
    value: SSAValue = block.args[0]
    for inner in block.ops:
        if inner is block.last_op or value not in inner.operands:
            # What reads other values computes a constant, which is read where it is used.
            continue
        function = function_of(name_of(inner))
        others = [operand for operand in inner.operands if operand is not value]
        if len(inner.results) != 1 or len(others) != len(inner.operands) - 1 or len(others) > 1:
            raise _NO_PAIR
        if others:
            if function == "div" and inner.operands[0] is not value:
                raise _NO_PAIR
            constants[function] = _numbers(op, others[0])
        functions.append(function)
        value = inner.results[0]
    end = cast(Operation, block.last_op)
    sums = ["add"] if "add" in functions else []
    if list(end.operands) != [value] or functions[:-1] not in (
        ["div", "roundeven", *sums, "max", "min"],
        ["div", "roundeven", *sums, "min", "max"],
    ):
        raise _NO_PAIR
    low, high, zero = constants["max"], constants["min"], constants.get("add", _Numbers((0.0,)))
    ends = low.numbers[0], high.numbers[0]
    is_single = low.axis is None is high.axis and all(number == round(number) for number in ends)
    if functions[-1] not in _TO_INTEGERS or not is_single:
        raise _NO_PAIR
    is_signed = _TO_INTEGERS[functions[-1]]
    return _Rounding(constants["div"], zero, int(ends[0]), int(ends[1]), is_signed)


def _numbers(op: Operation, value: SSAValue) -> _Numbers:
    """The numbers of a constant that a body reads, perhaps converted. Raises Refusal."""
    owner = value.owner
    if not isinstance(owner, Operation):
        use = Use(op, cast(BlockArgument, value).index)
        axes = result_axes(use)
        if axes is None or len(axes) > 1:
            raise _NO_PAIR
        numbers = _constant(use.value).reshape(-1).astype("f8")
        return _Numbers(tuple(numbers.tolist()), next(iter(axes), None))
    if op_model(owner).term is None or len(owner.operands) != 1:
        return _Numbers((float(_constant(value)),))
    read = _numbers(op, owner.operands[0])
    if function_of(name_of(owner)) in _UNSIGNED:
        numbers = _unsigned(np.asarray(read.numbers), owner.operands[0].type)
        return read._replace(numbers=tuple(numbers.tolist()))
    return read


def drop_unit_factors(graph: FlowGraph) -> bool:
    """Drop multiplications of a constant or of sums by one. Returns whether there is any."""
    gone = list[SSAValue]()
    for op in graph.ops:
        if functions_of(op) != frozenset({"mul"}) or len(op.results) != 1:
            continue
        for ones, other in (op.operands[:2], op.operands[1::-1]):
            is_kept = graph.is_constant(other) or _is_sum(graph, other)
            if (
                is_kept
                and other.type == op.results[0].type
                and graph.is_constant(ones)
                and graph.splat_number(ones) == 1
            ):
                gone.append(ones)
                Rewriter.replace_op(op, [], [other])
                break
    erase_unused([value.owner for value in gone if not isinstance(value.owner, Block)])
    return bool(gone)


def _is_sum(graph: FlowGraph, value: SSAValue) -> bool:
    """Whether a value is the result of a layer."""
    maker = graph.value(value).owner
    return isinstance(maker, Operation) and isinstance(known_layer(maker), Contraction)
