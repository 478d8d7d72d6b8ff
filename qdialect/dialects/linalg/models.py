"""
What is known of the ops of linalg.

Named ops have fixed axes; indexing maps take precedence where an op has them. The initial value of
the result is added. https://mlir.llvm.org/docs/Dialects/Linalg/.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from string import ascii_letters
from typing import Final, cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineDimExpr, AffineMap

from qdialect.algebra.movement import Shape
from qdialect.dialects import scalar
from qdialect.dialects.linalg import generic
from qdialect.ops.fields import (
    Contraction,
    ElementwiseModel,
    QuantizationRule,
    RuleKind,
    RunTimeOperands,
    Window,
    fixed,
    homogeneous,
    own,
    shared,
    whole_number,
)
from qdialect.ops.interface import Refusal, RefusalCode, attribute_of, find_attribute, name_of
from qdialect.ops.model import Bits, Effects, OnElements, OpModel, OpModels
from qdialect.ops.readers import positive, sliding_axes

_NAMED: Final = {
    "matmul": "mk,kn->mn",
    "batch_matmul": "bmk,bkn->bmn",
}
"""The equations of named ops, unless they have indexing maps."""

_FIXED: Final = {
    "batch_reduce_matmul": "bmk,bkn->mn",
    "dot": "k,k->",
    "matvec": "mk,k->m",
    "vecmat": "k,kn->n",
    "batch_matvec": "bmk,bk->bm",
    "batch_vecmat": "bk,bkn->bn",
    "conv_1d_nwc_wcf": "n*c,wcf->n*f",
    "conv_1d_ncw_fcw": "nc*,fcw->nf*",
    "conv_2d_nhwc_hwcf": "n**c,hwcf->n**f",
    "conv_2d_nhwc_fhwc": "n**c,fhwc->n**f",
    "conv_2d_nchw_fchw": "nc**,fchw->nf**",
    "conv_2d_ngchw_fgchw": "ngc**,fgchw->ngf**",
    "conv_2d_ngchw_gfchw": "ngc**,gfchw->ngf**",
    "conv_2d_nhwgc_gfhwc": "n**gc,gfhwc->n**gf",
    "conv_3d_ndhwc_dhwcf": "n***c,dhwcf->n***f",
    "conv_3d_ncdhw_fcdhw": "nc***,fcdhw->nf***",
    "depthwise_conv_1d_nwc_wc": "n*c,wc->n*c",
    "depthwise_conv_1d_nwc_wcm": "n*c,wcm->n*cm",
    "depthwise_conv_1d_ncw_cw": "nc*,cw->nc*",
    "depthwise_conv_2d_nhwc_hwc": "n**c,hwc->n**c",
    "depthwise_conv_2d_nhwc_hwcm": "n**c,hwcm->n**cm",
    "depthwise_conv_2d_nchw_chw": "nc**,chw->nc**",
    "depthwise_conv_3d_ndhwc_dhwc": "n***c,dhwc->n***c",
    "depthwise_conv_3d_ndhwc_dhwcm": "n***c,dhwcm->n***cm",
    "depthwise_conv_3d_ncdhw_cdhw": "nc***,cdhw->nc***",
}
"""The equations of ops without indexing maps."""

_NOT_RUN: Final = {
    "matmul_transpose_a": "km,kn->mn",
    "matmul_transpose_b": "mk,nk->mn",
    "batch_matmul_transpose_a": "bkm,bkn->bmn",
    "batch_matmul_transpose_b": "bmk,bnk->bmn",
    "mmt4d": "mkac,nkbc->mnab",
    "batch_mmt4d": "zmkac,znkbc->zmnab",
    "conv_1d": "*,w->*",
    "conv_2d": "**,hw->**",
    "conv_3d": "***,dhw->***",
}
"""Further ones, of which no run was compared with that of a compiler."""


_WITH_ZERO_POINTS: Final = (
    "conv_2d_nchw_fchw_q conv_2d_ngchw_gfchw_q conv_2d_nhwc_fhwc_q conv_2d_nhwc_hwcf_q "
    "conv_2d_nhwgc_gfhwc_q conv_3d_ndhwc_dhwcf_q depthwise_conv_2d_nhwc_hwc_q "
    "depthwise_conv_2d_nhwc_hwcm_q quantized_batch_matmul quantized_matmul"
)


def _with_maps(op: Operation) -> Contraction:
    maps = find_attribute(op, "indexing_maps")
    if maps is None:
        return Contraction.of(_NAMED[name_of(op).removeprefix("linalg.")], bias=2)
    return _of_maps(maps)


def _generic(op: Operation) -> Contraction | None:
    """A `linalg.generic` that adds products of two inputs to its result; None for other bodies."""
    block = op.regions[0].block
    names = [name_of(inner) for inner in block.ops]
    if names != ["arith.mulf", "arith.addf", "linalg.yield"] or len(op.operands) != 3:
        return None
    product, total, end = block.ops
    left, right, result = block.args
    is_sum = (
        {*product.operands} == {left, right}
        and {*total.operands} == {product.results[0], result}
        and list(end.operands) == list(total.results)
    )
    if not is_sum:
        return None
    return _of_maps(attribute_of(op, "indexing_maps"))


def _of_maps(maps: Attribute) -> Contraction:
    three = cast("ArrayAttr[Attribute]", maps).data if isinstance(maps, ArrayAttr) else ()
    if len(three) != 3:
        raise Refusal(RefusalCode.UNKNOWN_OP, "it does not have three indexing maps")
    lhs, rhs, result = (
        _labels(affine_map.data if isinstance(affine_map, AffineMapAttr) else None)
        for affine_map in three
    )
    if "*" in result or ("*" in lhs and "*" in rhs):
        raise Refusal(
            RefusalCode.UNKNOWN_OP,
            "its indexing maps have results that are neither dimensions nor sums for a window",
        )
    alone = [label for label in result if label not in lhs and label not in rhs]
    if "*" in lhs or "*" in rhs:
        # The loops over a window, and over its position, index one axis of an input.
        result = tuple("*" if label in alone else label for label in result)
    elif alone:
        raise Refusal(RefusalCode.UNKNOWN_OP, "its result has an axis that neither operand has")
    return Contraction(lhs, rhs, result, bias=2)


def _labels(map: AffineMap | None) -> tuple[str, ...]:
    """The letters of the loops that index each axis."""
    if map is None or map.num_dims > len(ascii_letters):
        raise Refusal(RefusalCode.UNKNOWN_OP, "its indexing maps are not supported")
    return tuple(
        ascii_letters[expression.position] if isinstance(expression, AffineDimExpr) else "*"
        for expression in map.results
    )


def _windows(op: Operation, contraction: Contraction) -> Sequence[Window]:
    axes = sliding_axes(contraction)
    strides = positive(op, "strides", len(axes), default=1)
    dilations = positive(op, "dilations", len(axes), default=1)
    return [
        Window(window_axes, stride, dilation)
        for window_axes, stride, dilation in zip(axes, strides, dilations, strict=True)
    ]


def _bits_of_generic(op: Operation) -> Bits:
    """Those of the ops in its region, unless loops reduce."""
    iterators = find_attribute(op, "iterator_types")
    is_parallel = isinstance(iterators, ArrayAttr) and all(
        "parallel" in str(iterator) for iterator in cast("ArrayAttr[Attribute]", iterators)
    )
    return Bits.EXACT if is_parallel else Bits.ROUNDED


_POOLS: Final = {
    "nwc": ((1,), "max min sum"),
    "ncw": ((2,), "max sum"),
    "nhwc": ((1, 2), "max min sum"),
    "nchw": ((2, 3), "max sum"),
    "ndhwc": ((1, 2, 3), "max min sum"),
}
"""The window axes and the kinds of pools, by the layout in their names."""


def _pool(kind: str, axes: tuple[int, ...]) -> QuantizationRule:
    if kind == "sum":
        return homogeneous(RuleKind.OWN, *axes, function="reduce", starts=(2,))
    return homogeneous(RuleKind.SHARED, *axes, starts=(2,))


def _shape_of_last(operands: RunTimeOperands) -> Shape:
    """The shape of the tensor that the result is written to."""
    return operands.shape(-1)


_pure = partial(OpModel, effects=Effects.NONE)
_exact = partial(_pure, bits=Bits.EXACT)
_rounded = partial(_pure, bits=Bits.ROUNDED)
_layer = partial(_rounded, windows=_windows, run="qdialect.dialects.arrays.reductions:run_layer")
_pair = partial(OnElements, arity=2)


def _run(function: str) -> str:
    return f"qdialect.dialects.linalg.runs:{function}"


MODELS = OpModels(
    "linalg",
    {
        # Sums of products
        **{
            name: _layer(product=Contraction.of(equation, bias=2))
            for name, equation in _FIXED.items()
        },
        **{
            name: _pure(product=Contraction.of(equation, bias=2), windows=_windows)
            for name, equation in _NOT_RUN.items()
        },
        _WITH_ZERO_POINTS: _pure(),
        " ".join([*_NAMED, "contract"]): _layer(product=_with_maps),
        # Bodies
        "generic": _pure(
            maps_elements=True,
            movement=generic.moved,
            run_time_shape=_shape_of_last,
            term=ElementwiseModel(generic.term, generic.write_generic),
            integers=generic.integers,
            product=_generic,
            windows=_windows,
            bits=_bits_of_generic,
            rule=generic.with_body,
            run=_run("generic"),
            runs_on_codes=True,
        ),
        "map": _exact(maps_elements=True, rule=generic.with_body, run=_run("map_elements")),
        "reduce": _rounded(rule=generic.with_body, run=_run("reduce")),
        "index": _exact(run=_run("index")),
        "yield": _exact(yields=True),
        # Windows
        **{
            f"pooling_{layout}_{kind}": _rounded(rule=_pool(kind, axes), run=_run("pool"))
            for layout, (axes, kinds) in _POOLS.items()
            for kind in kinds.split()
        },
        # Movements
        "broadcast": _exact(
            movement=generic.broadcast,
            run_time_shape=_shape_of_last,
            write_broadcast=generic.broadcast_again,
            repeats=True,
            rule=shared(0),
        ),
        "transpose": _exact(
            movement=generic.transpose, run_time_shape=_shape_of_last, rule=shared(0)
        ),
        "pack unpack": _pure(rule=shared(0)),
        "copy": _exact(
            rule=QuantizationRule(RuleKind.SHARED, (0,), is_homogeneous=True, keeps_places=True),
            run=OnElements(scalar("same"), scalar("same")),
        ),
        "fill": _exact(
            repeats=True,
            stays_float="its result is a single number",
            run=_run("fill"),
            runs_on_codes=True,
        ),
        **{
            name: _pure()
            for layout in ("nhwc", "nwc")
            for name in (f"pooling_{layout}_max_unsigned", f"pooling_{layout}_min_unsigned")
        },
        # Functions of elements
        "elementwise": _rounded(rule=generic.elementwise, run=_run("elementwise")),
        "abs": _exact(rule=own(0), run=OnElements("numpy:abs")),
        "sqrt": _exact(rule=own(0), run=OnElements("numpy:sqrt")),
        "square": _exact(rule=own(0), run=OnElements("numpy:square")),
        "negf": _exact(rule=own(0, function="neg"), run=OnElements("numpy:negative")),
        "ceil": _exact(rule=whole_number(0), run=OnElements("numpy:ceil")),
        "floor": _exact(rule=whole_number(0), run=OnElements("numpy:floor")),
        "round": _exact(
            rule=whole_number(0), run=OnElements("qdialect.support.float_format:rounded_half_away")
        ),
        "erf": _rounded(rule=own(0), run=OnElements(scalar("erf"))),
        "exp": _rounded(rule=own(0), run=OnElements("numpy:exp")),
        "log": _rounded(rule=own(0), run=OnElements("numpy:log")),
        "reciprocal": _rounded(rule=own(0), run=OnElements(scalar("reciprocal"))),
        "rsqrt": _rounded(rule=own(0), run=OnElements(scalar("reciprocal_root"))),
        "tanh": _rounded(rule=fixed("tanh", 0), run=OnElements("numpy:tanh")),
        "softmax": _pure(rule=fixed("softmax", 0)),
        "add": _exact(rule=own(0, 1), run=_pair("numpy:add", "numpy:add")),
        "sub": _exact(rule=own(0, 1), run=_pair("numpy:subtract", "numpy:subtract")),
        "mul": _exact(rule=own(0, 1), run=_pair("numpy:multiply", "numpy:multiply")),
        "div": _exact(rule=own(0, 1), run=_pair("numpy:divide", scalar("quotient"))),
        "max": _exact(rule=own(0, 1), run=_pair(scalar("larger"), scalar("larger"))),
        "min": _exact(rule=own(0, 1), run=_pair(scalar("smaller"), scalar("smaller"))),
        "div_unsigned": _pure(rule=own(0, 1, function="div")),
        "powf": _rounded(rule=own(0, 1, function="pow"), run=_pair("numpy:power")),
        "select": _exact(
            rule=shared(1, 2, keeps_places=True),
            run=OnElements("numpy:where", "numpy:where", arity=3),
        ),
        # Ops that stay in floats
        "fill_rng_2d": _pure(stays_float="its result is random"),
        "winograd_filter_transform winograd_input_transform winograd_output_transform": _pure(
            stays_float="it is part of a convolution"
        ),
    },
)
