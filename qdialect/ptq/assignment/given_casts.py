"""
The quantization that a module already has: StableHLO's casts, and casts of float constants.

Both are rewritten to ops of quant, so that existing parameters are read in one form.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import Shape
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.algebra.views import Splat
from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedTensor,
    RequantizeOp,
    UniformQuantizedType,
)
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of
from qdialect.ops.interface import name_of
from qdialect.ops.unused_ops import erase_unused
from qdialect.ptq.calibration.keys import is_recordable
from qdialect.ptq.float_graph.flow_graph import FlowGraph
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
    from qdialect.check.interpreters.memory import temporary_memory
    from qdialect.check.interpreters.values import quantized

    parameters, size = tensor.element_type.parameters_on(shape), math.prod(shape)
    is_splat = numbers.size == 1 and parameters.size == 1 and size > 0
    # The budget bounds the time, too: all codes are computed, though piece by piece.
    with temporary_memory(0 if is_splat else numbers.itemsize * size):
        element = element_type_or_self(cast_op.input.type)
        given = TypedArray.of_numbers(numbers, TensorType(element, numbers.shape))
        held = TypedArray(np.broadcast_to(given.elements, shape), given.element_type)
        codes = quantized(held, tensor).elements
    return Splat(codes[(0,) * len(shape)], shape) if is_splat else codes
