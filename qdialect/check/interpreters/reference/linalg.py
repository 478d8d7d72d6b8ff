"""
The named ops of linalg other than shape ops.

They write to their last operand, whose elements are the initial values of sums.
https://mlir.llvm.org/docs/Dialects/Linalg/.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, TensorType
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters.loops import Access
from qdialect.check.interpreters.reference.layers import run_layer
from qdialect.check.interpreters.reference.reductions import (
    Arrays,
    Combine,
    PoolWindow,
    combined_by,
    pooled,
    reduce_by_region,
    reduced,
)
from qdialect.check.interpreters.reference.registry import named_run
from qdialect.check.interpreters.reference.values import (
    Function,
    Numbers,
    all_numbers,
    applied,
    on_elements,
    rounded,
)
from qdialect.check.interpreters.scalar_functions import (
    erf,
    larger,
    quotient,
    reciprocal,
    reciprocal_root,
    smaller,
)
from qdialect.check.interpreters.values import TypedArray, at_all_positions, value_of
from qdialect.ops.attributes import attribute_of, integers_of
from qdialect.ops.interface import find_attribute, name_of
from qdialect.ops.products import positive
from qdialect.support.float_format import rounded_half_away

_ROUNDED: Final[dict[str, Function]] = {
    "erf": erf,
    "exp": np.exp,
    "log": np.log,
    "reciprocal": reciprocal,
    "rsqrt": reciprocal_root,
    "tanh": np.tanh,
}
"""Functions of floats whose results are not specified to the last bit."""

for _name, _function in _ROUNDED.items():
    named_run(f"linalg.{_name}", is_rounded=True)(on_elements(_function, count=1))
named_run("linalg.powf", is_rounded=True)(on_elements(np.power, count=2))


def _same(numbers: Numbers) -> Numbers:
    return numbers


def _square(numbers: Numbers) -> Numbers:
    return numbers * numbers


_EXACT: Final[dict[str, tuple[int, Function | None, Function | None]]] = {
    "abs": (1, np.abs, None),
    "add": (2, np.add, np.add),
    "ceil": (1, np.ceil, None),
    "copy": (1, _same, _same),
    "div": (2, np.divide, quotient),
    "floor": (1, np.floor, None),
    "max": (2, larger, larger),
    "min": (2, smaller, smaller),
    "mul": (2, np.multiply, np.multiply),
    "negf": (1, np.negative, None),
    "round": (1, rounded_half_away, None),
    "select": (3, np.where, np.where),
    "sqrt": (1, np.sqrt, None),
    "square": (1, _square, None),
    "sub": (2, np.subtract, np.subtract),
}
"""For each op, the number of operands it reads, and its functions of floats and integers."""

for _name, (_count, _floats, _integers) in _EXACT.items():
    named_run(f"linalg.{_name}", is_rounded=False)(on_elements(_floats, _integers, count=_count))


_KINDS: Final[dict[str, tuple[Function | None, Function | None]]] = {
    **{name: (function, None) for name, function in _ROUNDED.items()},
    **{name: of[1:] for name, of in _EXACT.items() if name not in ("max", "min")},
    "max_signed": (larger, larger),
    "min_signed": (smaller, smaller),
    "powf": (np.power, None),
}
"""The functions of `linalg.elementwise`."""


@named_run("linalg.elementwise", is_rounded=True)
def _elementwise(
    interpreter: Interpreter, op: Operation, operands: Sequence[TypedArray]
) -> Sequence[TypedArray]:
    kind = re.search(r"<(\w+)>", str(attribute_of(op, "kind")))
    functions = _KINDS.get("" if kind is None else kind[1])
    if functions is None:
        raise InterpretationError("its kind is not supported")
    *inputs, target = operands
    maps = find_attribute(op, "indexing_maps")
    if isinstance(maps, ArrayAttr):
        loops = target.shape
        grid = tuple(np.indices(loops, sparse=True))
        *read, written = [
            Access(cast("AffineMapAttr", of).data, grid, loops)
            for of in cast("ArrayAttr[Attribute]", maps)
        ]
        if [*written.dims] != [*range(len(loops))]:
            raise InterpretationError("its result is not written in the order of its axes")
        inputs = [
            TypedArray(of.read(value.elements), TensorType(value.element_type, loops))
            for of, value in zip(read, inputs, strict=True)
        ]
    if any(of.shape != target.shape for of in inputs):
        raise InterpretationError("its operands differ in shape")
    return [applied((*functions, None), inputs, op.results[0].type)]


_PRODUCTS: Final = (
    "batch_matmul batch_matvec "
    "batch_reduce_matmul batch_vecmat contract conv_1d_ncw_fcw conv_1d_nwc_wcf "
    "conv_2d_nchw_fchw conv_2d_ngchw_fgchw conv_2d_ngchw_gfchw conv_2d_nhwc_fhwc "
    "conv_2d_nhwc_hwcf conv_2d_nhwgc_gfhwc conv_3d_ncdhw_fcdhw conv_3d_ndhwc_dhwcf "
    "depthwise_conv_1d_ncw_cw depthwise_conv_1d_nwc_wc depthwise_conv_1d_nwc_wcm "
    "depthwise_conv_2d_nchw_chw depthwise_conv_2d_nhwc_hwc depthwise_conv_2d_nhwc_hwcm "
    "depthwise_conv_3d_ncdhw_cdhw depthwise_conv_3d_ndhwc_dhwc depthwise_conv_3d_ndhwc_dhwcm "
    "dot matmul matvec vecmat"
)


@named_run(*(f"linalg.{name}" for name in _PRODUCTS.split()), is_rounded=True)
def _layer(
    interpreter: Interpreter, op: Operation, operands: Sequence[TypedArray]
) -> Sequence[TypedArray]:
    return run_layer(interpreter, op, operands)


_POOLS: Final = (
    "nchw_max nchw_sum ncw_max ncw_sum ndhwc_max ndhwc_min ndhwc_sum nhwc_max nhwc_min nhwc_sum "
    "nwc_max nwc_min nwc_sum"
)
_COMBINED: Final[dict[str, Function]] = {"max": larger, "min": smaller, "sum": np.add}


@named_run(*(f"linalg.pooling_{name}" for name in _POOLS.split()), is_rounded=True)
def _pool(_: Interpreter, op: Operation, operands: Sequence[TypedArray]) -> Sequence[TypedArray]:
    read = re.fullmatch(r"linalg\.pooling_(\w+)_(\w+)", name_of(op))
    image, window, initial = operands
    assert read is not None
    layout, kind = read.groups()
    sizes = iter(window.shape)
    count = len(layout) - 2
    if len(image.shape) != len(layout) or len(window.shape) != count:
        raise InterpretationError(f"its operands do not have the axes {layout}")
    strides = iter(positive(op, "strides", count, default=1))
    dilations = iter(positive(op, "dilations", count, default=1))
    windows = [
        PoolWindow() if axis in "nc" else PoolWindow(next(sizes), next(strides), next(dilations))
        for axis in layout
    ]
    with all_numbers(image, initial) as (numbers, start):
        (made,) = pooled(combined_by(_COMBINED[kind]), [numbers], [start], windows)
        return [rounded(made, op.results[0].type)]


@named_run("linalg.reduce", is_rounded=True)
def _reduce(
    interpreter: Interpreter, op: Operation, operands: Sequence[TypedArray]
) -> Sequence[TypedArray]:
    count = len(operands) // 2
    values, initial = operands[:count], operands[count:]
    axes = integers_of(op, "dimensions")
    shape = values[0].shape
    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    if any(of.shape != shape for of in values) or any(of.shape != kept for of in initial):
        raise InterpretationError("the shapes of its operands do not match")
    if not all(shape[axis] for axis in axes):
        return initial

    def reduce(combine: Combine, arrays: Arrays, _: Arrays) -> Arrays:
        return reduced(combine, arrays, axes)

    return reduce_by_region(interpreter, op, values, initial, reduce, is_started=False)


@named_run("linalg.map", is_rounded=False)
def _map(
    interpreter: Interpreter, op: Operation, operands: Sequence[TypedArray]
) -> Sequence[TypedArray]:
    (region,) = op.regions
    shape = operands[-1].shape
    given: list[Any] = []
    for operand, argument in zip(operands, region.block.args, strict=False):
        if operand.shape != shape:
            raise InterpretationError("its operands differ in shape")
        given.append(TypedArray.of(operand.elements, at_all_positions(argument.type, shape)))
    (yielded,) = interpreter.run_ssacfg_region(region, tuple(given), name_of(op))
    elements = value_of(yielded, TensorType(operands[-1].element_type, ())).elements
    return [TypedArray.of(np.broadcast_to(elements, shape), op.results[0].type)]
