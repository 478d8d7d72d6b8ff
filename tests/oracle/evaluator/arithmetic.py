"""Constants, casts, and arithmetic on elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Operation

from evaluator.shape_ops import result_of
from evaluator.values import (
    FLOATS,
    EvaluationError,
    Value,
    attributes_of,
    element_of,
    name_of,
    quantization,
    width_of,
)


def constant(op: Operation, attribute: Attribute, blob: Callable[[str], str | None]) -> Value:
    """The value of a constant op. Raises EvaluationError."""
    shape, element = result_of(op)
    held: Any = attribute
    if element.startswith("!tosa.shape"):
        return Value.of_numbers("index", np.array(held.get_values(), dtype=np.int64))
    if not hasattr(held, "data") and not hasattr(held, "resource_handle"):
        return _scalar(element, held.value.data)
    itemsize = -(-width_of(element) // 8)
    itemsize = 1 << (itemsize - 1).bit_length()
    if hasattr(held, "resource_handle"):
        text = blob(held.resource_handle.data)
        if text is None:
            raise EvaluationError("the data of a resource is missing")
        data = bytes.fromhex(text.removeprefix("0x")[8:])
    else:
        data = bytes(held.data.data)
    bits = np.frombuffer(data, dtype=f"<u{itemsize}").astype(np.uint64)
    if bits.size not in (1, int(np.prod(shape))):
        raise EvaluationError("a constant has not as many elements as its type")
    whole = np.full(shape, bits.item()) if bits.size == 1 else bits.reshape(shape)
    return Value.of(element, whole)


def _scalar(element: str, number: Any) -> Value:
    if element in FLOATS:
        return Value.of_numbers(element, number)
    if element == "bf16":
        # Exact: the format represents the number.
        return Value.of(element, np.float32(number).view(np.uint32) >> np.uint32(16))
    return Value.of(element, np.int64(number))


def cast(op: Operation, value: Value) -> Value:
    """The result of a cast of any dialect, from its two types. Raises EvaluationError."""
    shape, element = result_of(op)
    if shape != value.shape:
        raise EvaluationError(f"'{name_of(op)}' declares shape {shape}")
    source, target = quantization(value.element), quantization(element)
    if "scast" in name_of(op):
        return Value(element, value.bits, value.known)
    if source is not None and target is None:
        return Value.of_numbers(element, value.dequantized, value.known)
    if source is None and target is None:
        is_float = value.element in FLOATS
        return Value.of_numbers(element, value.floats if is_float else value.codes, value.known)
    if target is None or (source is not None and name_of(op) != "quant.requantize"):
        raise EvaluationError(f"'{name_of(op)}' from '{value.element}' to '{element}'")
    rounding = getattr(attributes_of(op).get("rounding"), "data", "nearest-even")
    scales, zero_points = target.slots(shape)
    dtype = FLOATS[target.expressed]
    floats = value.floats if source is None else value.dequantized
    with np.errstate(all="ignore"):
        quotients = (floats / scales.astype(dtype)).astype(dtype)
        sums = (quotients + zero_points.astype(dtype)).astype(dtype)
        numbers = np.clip(ROUNDINGS[rounding](sums.astype(np.float64)), target.low, target.high)
    codes = np.where(np.isnan(numbers), target.low, numbers)
    return Value.of(element, codes.astype(np.int64), value.known)


ROUNDINGS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "nearest-even": np.rint,
    "nearest-away": lambda of: np.copysign(
        np.floor(np.abs(of)) + (np.modf(of)[0] ** 2 >= 0.25), of
    ),
    "upstream": np.trunc,
}

CASTS = (
    "quant.scast",
    "quant.requantize",
    "quant.dcast",
    "quant.qcast",
    "tosa.cast",
    "mhlo.convert",
    "stablehlo.convert",
    "stablehlo.uniform_dequantize",
    "stablehlo.uniform_quantize",
)

Compute = Callable[..., NDArray[Any]]

_OF_FLOATS: dict[str, Compute] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "math.roundeven": np.rint,
    "arith.extf": np.asarray,
    "arith.truncf": np.asarray,
    "arith.fptosi": np.asarray,
    "arith.fptoui": np.asarray,
}
_OF_EITHER: dict[str, Compute] = {
    "mhlo.add": np.add,
    "mhlo.subtract": np.subtract,
    "mhlo.multiply": np.multiply,
    "stablehlo.add": np.add,
    "stablehlo.subtract": np.subtract,
    "stablehlo.multiply": np.multiply,
    "tosa.add": np.add,
    "tosa.sub": np.subtract,
    "tosa.mul": np.multiply,
}
"""Ops on the first two operands: floats, or signed integers."""
_OF_SIGNED: dict[str, Compute] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.sitofp": np.asarray,
    "arith.extsi": np.asarray,
    "arith.trunci": np.asarray,
    "arith.index_cast": np.asarray,
}
_OF_UNSIGNED: dict[str, Compute] = {
    "arith.maxui": np.maximum,
    "arith.minui": np.minimum,
    "arith.uitofp": np.asarray,
    "arith.extui": np.asarray,
}


def computed(op: Operation, operands: Sequence[Value]) -> Value | None:
    """The result of arithmetic; None if the op is not arithmetic."""
    (result,) = op.results
    element = element_of(result.type)
    known: Any = True
    for operand in operands:
        known = known & operand.known
    name = name_of(op)
    if (compute := _OF_EITHER.get(name)) is not None:
        reading = "floats" if element in FLOATS else "codes"
        with np.errstate(all="ignore"):
            numbers = compute(*(getattr(operand, reading) for operand in operands[:2]))
        return Value.of_numbers(element, numbers)
    for table, reading in ((_OF_FLOATS, "floats"), (_OF_SIGNED, "codes"), (_OF_UNSIGNED, "bits")):
        if (compute := table.get(name)) is not None:
            with np.errstate(all="ignore"):
                numbers = compute(*(getattr(operand, reading) for operand in operands))
                return Value.of_numbers(element, numbers, np.broadcast_to(known, numbers.shape))
    return None


CONSTANTS = {
    "arith.constant": "value",
    "quant.constant": "value",
    "mhlo.constant": "value",
    "stablehlo.constant": "value",
    "tosa.const": "values",
    "tosa.const_shape": "values",
    "onnx.Constant": "value",
    "torch.vtensor.literal": "value",
}


def attribute_of_constant(op: Operation, name: str) -> Attribute:
    """The elements attribute of a constant op."""
    return attributes_of(op)[CONSTANTS[name]]
