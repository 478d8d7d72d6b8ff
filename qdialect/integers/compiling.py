"""Modules compiled by IREE, to compute in integers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation

from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.iree_runs import IN_INTEGERS, compile_module, widen_storage
from qdialect.dialects.quant.storage import StoredType
from qdialect.integers.passes import LowerToIntegersPass
from qdialect.ir.errors import OpErrors
from qdialect.ir.rewriting import insert_after
from qdialect.ir.value_types import element_type_or_self
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
        # IREE 3.13 does not compile each module so.
        with suppress(RunFailure):
            return _compiled(Side(side.module.clone(), side.context), cpu, "u8")
    return _compiled(side, cpu, "i8")


def _compiled(side: Side, cpu: str, activations: str) -> bytes:
    store_bytes_as(activations, *side)
    # IREE has no fast kernel for integers of 4 bits.
    widen_storage(*side)
    # Nor has it one for windows of integers.
    LowerToIntegersPass(activations=activations, im2col=True).apply(side.context, side.module)
    flags = FAST_MATRICES
    if activations == "u8":
        _keep_sums_apart(side)
        flags = *FAST_MATRICES, "--iree-llvmcpu-enable-inner-tiled"
    return compile_module(side, cpu=cpu, lowering=IN_INTEGERS, flags=flags)[1]


def _keep_sums_apart(side: Side) -> None:
    """
    Keep ops that read products of matrices out of the functions that compute these.

    IREE 3.13 does not compile inner tiles and what reads vectors behind them.
    """
    with models_of(side.context):
        products = [op for op in side.module.walk() if _multiplies_matrices(op)]
    barrier = UnregisteredOp.with_name("util.optimization_barrier")
    for op in products:
        (sums,) = op.results
        apart = barrier.create(operands=[sums], result_types=[sums.type])
        insert_after(apart, sums)
        sums.replace_all_uses_with(apart.results[0])
        apart.operands = [sums]


def _multiplies_matrices(op: Operation) -> bool:
    """Whether an op is a sum of products without windows, of floats or of integers."""
    if isinstance(layer := known_layer(op), Contraction):
        return not windows_of(op, layer)
    if not isinstance(op, GenericOp) or len(op.inputs) != 2:
        return False
    maps = [map.data for map in op.indexing_maps]
    is_summed = len(maps[-1].results) < maps[-1].num_dims
    return is_summed and all(map.is_projected_permutation() for map in maps)


def has_vnni() -> bool:
    """Whether this CPU multiplies unsigned bytes with signed ones, 64 at once."""
    try:
        return "avx512_vnni" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
