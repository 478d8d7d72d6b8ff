"""Modules compiled by IREE, to compute in integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr, UnregisteredOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.iree_runs import IN_INTEGERS, compile_module, widen_storage
from qdialect.dialects.quant.storage import StoredType
from qdialect.integers.passes import LowerToIntegersPass
from qdialect.ir.errors import OpErrors
from qdialect.ir.rewriting import insert_after
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of
from qdialect.ops.fields import Contraction
from qdialect.ops.interface import known_layer, models_of, windows_of
from qdialect.ptq.passes.storage import ShiftStoragePass

FAST_MATRICES: Final[Sequence[str]] = "--iree-opt-data-tiling", "--iree-llvmcpu-enable-ukernels=all"
"""With these, IREE's products of integer matrices are faster than those of floats."""


def store_bytes_as(to: str, module: ModuleOp, context: Context) -> None:
    """
    Store values of 8 bits as `i8` or as `u8`, for which an engine has fast kernels.

    No value changes. Types of functions are kept, and then all others; so they are if an op reads
    stored integers.
    """
    for op in module.walk():
        if isinstance(op, FuncOp):
            ends = (*op.function_type.inputs, *op.function_type.outputs)
            if any(isinstance(element_type_or_self(type), StoredType) for type in ends):
                return
    with suppress(OpErrors):
        ShiftStoragePass(from_="i8" if to == "u8" else "u8", to=to).apply(context, module)


def compile_in_integers(side: Side, cpu: str) -> bytes:
    """
    The binary of a module for a CPU, whose layers compute in integers. Raises RunFailure.

    What integers do not compute gets IREE's casts. The module is changed.
    """
    if cpu == "host" and has_vnni():
        unsigned = Side(side.module.clone(), side.context)
        _lower(unsigned, "u8")
        if _has_marked_products(unsigned):
            flags = *FAST_MATRICES, "--iree-llvmcpu-enable-inner-tiled"
            # IREE 3.13 may not compile each module so.
            with suppress(RunFailure):
                return compile_module(unsigned, cpu=cpu, lowering=IN_INTEGERS, flags=flags)[1]
    _lower(side, "i8")
    return compile_module(side, cpu=cpu, lowering=IN_INTEGERS, flags=FAST_MATRICES)[1]


def _lower(side: Side, activations: str) -> None:
    """Compute in integers that are stored so."""
    store_bytes_as(activations, *side)
    # IREE has no fast kernel for integers of 4 bits.
    widen_storage(*side)
    LowerToIntegersPass(activations=activations, as_matrices=True).apply(side.context, side.module)
    for op in side.module.walk():
        if (maps := _maps_of(op)) and not maps[0].is_projected_permutation():
            # IREE moves what transposes integers into windows of them, which are slow then.
            _keep_apart(op.operands[0])


def _keep_apart(value: SSAValue) -> None:
    """Have a value written to memory: IREE does not move what computes it into what reads it."""
    barrier = UnregisteredOp.with_name("util.optimization_barrier")
    apart = barrier.create(operands=[value], result_types=[value.type])
    insert_after(apart, value)
    value.replace_all_uses_with(apart.results[0])
    apart.operands = [value]


def _maps_of(op: Operation) -> Sequence[AffineMap]:
    """The maps of a sum of products of integers: of its factors, and of its result."""
    if not isinstance(op, GenericOp) or len(op.inputs) != 2:
        return ()
    maps = [map.data for map in op.indexing_maps]
    return maps if len(maps[-1].results) < maps[-1].num_dims else ()


_MANY_PRODUCTS: Final = 1 << 22
"""Of fewer products, IREE computes the sums with what reads them as fast."""


def _has_marked_products(side: Side) -> bool:
    """
    Whether there are large products of two matrices, which alone are computed in inner tiles.

    They are marked. IREE 3.13 does not compile those of integers of several matrices so, nor what
    reads vectors behind inner tiles: ops that read sums are kept out of the functions that compute
    these.
    """
    with models_of(side.context):
        products = [op for op in side.module.walk() if _multiplies_large_matrices(op)]
    for op in products:
        op.attributes["iree.opt.data_tiling"] = UnitAttr()
        _keep_apart(op.results[0])
    return bool(products)


def _multiplies_large_matrices(op: Operation) -> bool:
    """Whether an op is a sum of many products without windows, of floats or of integers."""
    layer, maps = known_layer(op), _maps_of(op)
    factors = 0, 1
    if isinstance(layer, Contraction):
        if windows_of(op, layer):
            return False
        factors = layer.operands
    elif not maps or not all(map.is_projected_permutation() for map in maps):
        return False
    values = (*(op.operands[at] for at in factors), *op.results)
    shapes = [shape_of(value.type) for value in values]
    if not all(map(is_static, shapes)):
        return False
    dims = range(maps[0].num_dims if maps else 0)
    has_batch = any(all(dim in map.used_dims() for map in maps) for dim in dims)
    # Each length is that of two of the three.
    count = math.isqrt(math.prod(math.prod(shape or ()) for shape in shapes))
    return not has_batch and count >= _MANY_PRODUCTS


def has_vnni() -> bool:
    """Whether this CPU multiplies unsigned bytes with signed ones, 64 at once."""
    try:
        return "avx512_vnni" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
