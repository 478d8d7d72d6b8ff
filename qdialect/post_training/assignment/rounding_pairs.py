"""
Pairs of ops of linalg that quantize floats and read them back, as torch-mlir lowers those of torch
and of ONNX, read as casts of quant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    Storage,
    UniformQuantizedType,
)
from qdialect.folding.unused_ops import erase_unused
from qdialect.ir.value_types import element_type_or_self, with_element_type
from qdialect.shape_ops.interface import attribute_of, find_attribute, name_of


class _Rounding(NamedTuple):
    """How floats become integers, or integers floats."""

    scale: float
    zero_point: int
    width: int
    is_signed: bool
    ends: tuple[int, int] | None = None
    """The lowest and the highest integer of a rounding."""


def rewrite_pairs(module: ModuleOp) -> bool:
    """Write what rounds floats, and the floats that are read of it, as casts; whether any is."""
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
            type = UniformQuantizedType.per_tensor(held, expressed, made.scale, made.zero_point)
        except VerifyException:
            continue
        quantize = QuantizeCastOp(floats, with_element_type(floats.type, type))
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
    """The input of an op of linalg that computes each element of its result from one of it."""
    if name_of(op) != "linalg.generic" or len(op.operands) != 2 or len(op.results) != 1:
        return None
    maps = attribute_of(op, "indexing_maps")
    held = cast("ArrayAttr[Attribute]", maps).data if isinstance(maps, ArrayAttr) else ()
    for each in held:
        if not isinstance(each, AffineMapAttr):
            return None
        if each.data != AffineMap.identity(each.data.num_dims):
            return None
    return op.operands[0]


def _steps(op: Operation) -> Iterator[tuple[str, float | None, Attribute]]:
    """
    What a body does to its argument, op by op: name, constant, and the type of the result.

    A name is empty where it does something else than that.
    """
    block = op.regions[0].block
    value: SSAValue = block.args[0]
    for inner in block.ops:
        name = name_of(inner)
        if name == "arith.constant":
            continue
        if name == "linalg.yield":
            if list(inner.operands) != [value]:
                yield "", None, value.type
            return
        is_ordered = inner.operands[0] is value
        others = [each for each in inner.operands if each is not value]
        is_known = len(inner.results) == 1 and len(others) == len(inner.operands) - 1 <= 1
        number = _number(others[0]) if others else None
        if not is_known or (others and number is None):
            yield "", None, value.type
            return
        if name in ("arith.divf", "arith.subi", "arith.subf") and not is_ordered:
            yield "", None, value.type
            return
        value = inner.results[0]
        yield name, number, value.type


def _number(value: SSAValue) -> float | None:
    owner = value.owner
    if not isinstance(owner, Operation) or name_of(owner) != "arith.constant":
        return None
    held = find_attribute(owner, "value")
    if isinstance(held, FloatAttr | IntegerAttr):
        return float(held.value.data)
    return None


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
    zero_point, low, high = (
        numbers.get(name, 0.0) for name in ("arith.addf", "arith.maximumf", "arith.minimumf")
    )
    scale = numbers["arith.divf"]
    known = [number for number in (zero_point, low, high) if number is not None]
    if scale is None or len(known) != 3 or any(number != int(number) for number in known):
        return None
    zero, *ends = map(int, known)
    return _Rounding(scale, zero, type.bitwidth, _TO_INTEGER[names[-1]], (ends[0], ends[1]))


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
    zero = numbers.get("arith.subi", numbers.get("arith.subf", 0.0))
    scale = numbers["arith.mulf"]
    if scale is None or zero is None or zero != int(zero):
        return None
    return _Rounding(scale, int(zero), type.bitwidth, is_signed)
