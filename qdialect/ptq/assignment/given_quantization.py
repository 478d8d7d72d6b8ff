"""
The quantization that a module already has, rewritten to one form: casts of quant, and constants.

These are StableHLO's casts, casts of float constants, and pairs of ops that round and dequantize,
to which torch-mlir lowers torch's and ONNX's casts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
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
from qdialect.ir.elements import DenseElementsAttr, elements_of, float_elements
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of, with_element_type
from qdialect.ops.fields import Contraction
from qdialect.ops.interface import attribute_of, find_attribute, name_of
from qdialect.ops.unused_ops import erase_unused
from qdialect.ptq.calibration.keys import is_recordable
from qdialect.ptq.float_graph.flow_graph import FlowGraph, functions_of, known_layer
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import MemoryLimitError

if TYPE_CHECKING:
    from numpy.typing import NDArray


_QUANTIZE: Final = "stablehlo.uniform_quantize"
_DEQUANTIZE: Final = "stablehlo.uniform_dequantize"


def rewrite_casts(module: ModuleOp) -> None:
    """Rewrite StableHLO's casts between floats and uniform types to casts of quant."""
    for op in list(module.walk()):
        if name_of(op) not in (_QUANTIZE, _DEQUANTIZE):
            continue
        if (len(op.operands), len(op.results)) != (1, 1):
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
    from qdialect.check.interpreters.values import quantized, temporary_memory

    parameters, size = tensor.element_type.parameters_on(shape), math.prod(shape)
    is_splat = numbers.size == 1 and parameters.size == 1 and size > 0
    # The budget bounds the time, too: all codes are computed, though piece by piece.
    with temporary_memory(0 if is_splat else numbers.itemsize * size):
        element = element_type_or_self(cast_op.input.type)
        given = TypedArray.of_numbers(numbers, TensorType(element, numbers.shape))
        held = TypedArray(np.broadcast_to(given.elements, shape), given.element_type)
        codes = quantized(held, tensor).elements
    return Splat(codes[(0,) * len(shape)], shape) if is_splat else codes


class _Numbers(NamedTuple):
    """The constants that ops compute with: one number, or one for each position of an axis."""

    held: tuple[float, ...]
    axis: int | None = None

    def repeated(self, count: int) -> tuple[float, ...]:
        return self.held * count if self.axis is None else self.held


class _Rounding(NamedTuple):
    """The parameters of a conversion from floats to integers, or back."""

    scales: tuple[float, ...]
    zero_points: tuple[float, ...]
    """Of each position of the axis, like `scales`."""
    axis: int | None
    width: int
    is_signed: bool
    ends: tuple[int, int] | None = None
    """The lowest and the highest integer of a quantization, inclusive."""


def rewrite_pairs(module: ModuleOp) -> bool:
    """Rewrite quantization and dequantization pairs to casts. Returns whether there is any."""
    gone = list[Operation]()
    for op in list(module.walk()):
        back = _elementwise(op)
        if back is None or not isinstance(rounder := back.owner, Operation):
            continue
        floats = _elementwise(rounder)
        if floats is None:
            continue
        made, read = _quantization(rounder), _dequantization(op)
        if made is None or read is None or made._replace(ends=None) != read:
            continue
        if floats.type != op.results[0].type:
            continue
        expressed = cast(AnyFloat, element_type_or_self(floats.type))
        assert made.ends is not None
        try:
            held = Storage.of(
                IntegerType(made.width),
                signed=made.is_signed,
                minimum=made.ends[0],
                maximum=made.ends[1],
            )
            zeros = list(map(int, made.zero_points))
            if made.axis is None:
                type = UniformQuantizedType.per_tensor(held, expressed, made.scales[0], zeros[0])
            else:
                slots = made.axis, made.scales, zeros
                type = UniformQuantizedType.per_axis(held, expressed, *slots)
            quantize = QuantizeCastOp(floats, with_element_type(floats.type, type))
            quantize.verify()
        except VerifyException:
            continue
        result = DequantizeCastOp(quantize, floats.type)
        for new in (quantize, result):
            new.location = op.location
            new.results[0].name_hint = op.results[0].name_hint
        Rewriter.insert_op([quantize, result], InsertPoint.before(op))
        op.results[0].replace_all_uses_with(result.result)
        gone += [op, rounder]
    erase_unused(gone)
    return bool(gone)


def _elementwise(op: Operation) -> SSAValue | None:
    """
    The input of an elementwise linalg op; None for other ops.

    The op may also read constants: single numbers, or vectors along an axis.
    """
    if name_of(op) != "linalg.generic" or len(op.operands) < 2 or len(op.results) != 1:
        return None
    maps = attribute_of(op, "indexing_maps")
    held = list(cast("ArrayAttr[Attribute]", maps)) if isinstance(maps, ArrayAttr) else []
    if len(held) != len(op.operands):
        return None
    for each in (held[0], held[-1]):
        if not isinstance(each, AffineMapAttr):
            return None
        if each.data != AffineMap.identity(each.data.num_dims):
            return None
    return op.operands[0]


def _steps(op: Operation) -> Iterator[tuple[str, _Numbers | None, Attribute]]:
    """
    The ops of a body that is a chain of steps on its argument: name, constant, and result type.

    An op that is not such a step has an empty name.
    """
    block = op.regions[0].block
    value: SSAValue = block.args[0]
    for inner in block.ops:
        name = name_of(inner)
        if name == "linalg.yield":
            if list(inner.operands) != [value]:
                yield "", None, value.type
            return
        if value not in inner.operands:
            # It computes a constant from constants, which is read where it is used.
            continue
        is_ordered = inner.operands[0] is value
        others = [each for each in inner.operands if each is not value]
        is_known = len(inner.results) == 1 and len(others) == len(inner.operands) - 1 <= 1
        number = _numbers(op, others[0]) if others else None
        if not is_known or (others and number is None):
            yield "", None, value.type
            return
        if name in ("arith.divf", "arith.subi", "arith.subf") and not is_ordered:
            yield "", None, value.type
            return
        value = inner.results[0]
        yield name, number, value.type


def _numbers(op: Operation, value: SSAValue) -> _Numbers | None:
    """The numbers of a value in a body, if it is a constant or a converted constant."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return _operand(op, value.index) if isinstance(value, BlockArgument) else None
    name = name_of(owner)
    if name == "arith.constant":
        held = find_attribute(owner, "value")
        if isinstance(held, FloatAttr | IntegerAttr):
            return _Numbers((float(held.value.data),))
    if name not in _TO_FLOAT and name not in _EXTENSIONS:
        return None
    found = _numbers(op, owner.operands[0])
    type = owner.operands[0].type
    is_signed = _TO_FLOAT.get(name, _EXTENSIONS.get(name))
    if found is None or is_signed or not isinstance(type, IntegerType):
        return found
    return found._replace(held=tuple(each % 2.0**type.bitwidth for each in found.held))


def _operand(op: Operation, number: int) -> _Numbers | None:
    """The numbers of an operand that is a constant along at most one axis of the result."""
    maps = cast("ArrayAttr[Attribute]", attribute_of(op, "indexing_maps")).data
    maker, map = op.operands[number].owner, maps[number]
    if not isinstance(maker, Operation) or not isinstance(map, AffineMapAttr):
        return None
    held = find_attribute(maker, "value") if name_of(maker) == "arith.constant" else None
    if not isinstance(held, DenseIntOrFPElementsAttr):
        return None
    held = cast(DenseElementsAttr, held)
    values, shape = elements_of(held), held.type.get_shape()
    type: Attribute = held.type.element_type
    if isinstance(type, AnyFloat):
        array = float_elements(values, type)
    else:
        array = np.asarray(values.value) if isinstance(values, Splat) else as_view(values).array()
    numbers = tuple(np.broadcast_to(array.astype("f8"), shape).reshape(-1).tolist())
    match map.data.results:
        case ():
            return _Numbers(numbers)
        case (AffineDimExpr() as axis,):
            return _Numbers(numbers, axis.position)
        case _:
            return None


def _along_axis(*numbers: _Numbers | None) -> tuple[list[tuple[float, ...]], int | None] | None:
    """Numbers along at most one common axis, with one for each position, and that axis."""
    known = [each for each in numbers if each is not None]
    axes = {each.axis: len(each.held) for each in known if each.axis is not None}
    if len(known) != len(numbers) or len(axes) > 1:
        return None
    axis, count = next(iter(axes.items()), (None, 1))
    return [each.repeated(count) for each in known], axis


_TO_INTEGER: Final = {"arith.fptosi": True, "arith.fptoui": False}
_TO_FLOAT: Final = {"arith.sitofp": True, "arith.uitofp": False}
_EXTENSIONS: Final = {"arith.extsi": True, "arith.extui": False}


def _quantization(op: Operation) -> _Rounding | None:
    """`fptosi(clamp(round(x / s) + z))`."""
    steps = list(_steps(op))
    names = [name for name, _, _ in steps]
    numbers = {name: number for name, number, _ in steps}
    of_zero = ["arith.addf"] if "arith.addf" in numbers else []
    if names[:-1] not in (
        ["arith.divf", "math.roundeven", *of_zero, "arith.maximumf", "arith.minimumf"],
        ["arith.divf", "math.roundeven", *of_zero, "arith.minimumf", "arith.maximumf"],
    ):
        return None
    type = steps[-1][2]
    if names[-1] not in _TO_INTEGER or not isinstance(type, IntegerType):
        return None
    zero, low, high = (
        numbers.get(name, _Numbers((0.0,)))
        for name in ("arith.addf", "arith.maximumf", "arith.minimumf")
    )
    found = _along_axis(numbers["arith.divf"], zero)
    if found is None or low is None or high is None or (low.axis, high.axis) != (None, None):
        return None
    (scales, zeros), axis = found
    if any(number != round(number) for number in (*zeros, *low.held, *high.held)):
        return None
    ends = int(low.held[0]), int(high.held[0])
    return _Rounding(scales, zeros, axis, type.bitwidth, _TO_INTEGER[names[-1]], ends)


def _dequantization(op: Operation) -> _Rounding | None:
    """`(c - z) * s`, with the difference in integers or in floats."""
    steps = list(_steps(op))
    numbers = {name: number for name, number, _ in steps}
    names = [name for name, _, _ in steps]
    type = element_type_or_self(op.operands[0].type)
    if not isinstance(type, IntegerType) or not names or names[-1] != "arith.mulf":
        return None
    is_signed: bool | None = None
    if names[0] in _EXTENSIONS:
        is_signed = _EXTENSIONS[names.pop(0)]
    integers = names[:1] == ["arith.subi"] and is_signed is not None
    if integers:
        names.pop(0)
    if not names or names[0] not in _TO_FLOAT:
        return None
    to_float = _TO_FLOAT[names.pop(0)]
    is_signed = to_float if is_signed is None else is_signed
    if names not in (["arith.mulf"], ["arith.subf", "arith.mulf"]):
        return None
    zero = numbers.get("arith.subi", numbers.get("arith.subf", _Numbers((0.0,))))
    found = _along_axis(numbers["arith.mulf"], zero)
    if found is None:
        return None
    (scales, zeros), axis = found
    if any(number != round(number) for number in zeros):
        return None
    return _Rounding(scales, zeros, axis, type.bitwidth, is_signed)


def drop_unit_factors(graph: FlowGraph) -> bool:
    """Drop multiplications of a constant or of sums by one. Returns whether there is any."""
    gone = list[SSAValue]()
    for op in graph.ops:
        if not _is_product(op):
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


def _is_product(op: Operation) -> bool:
    return functions_of(op) == frozenset({"mul"}) and len(op.results) == 1


def _is_sum(graph: FlowGraph, value: SSAValue) -> bool:
    """Whether a value is the result of a layer."""
    maker = graph.value(value).owner
    return isinstance(maker, Operation) and isinstance(known_layer(maker), Contraction)
