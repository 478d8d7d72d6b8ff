"""Modules compiled by IREE, to compute in integers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from qdialect.check.compared_modules import RunFailure, Side
from qdialect.check.iree_runs import IN_INTEGERS, compile_module, widen_storage
from qdialect.dialects.quant.storage import StoredType
from qdialect.integers.passes import LowerToIntegersPass
from qdialect.ir.errors import OpErrors
from qdialect.ir.value_types import element_type_or_self
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
            copy = Side(side.module.clone(), side.context)
            return _compiled(copy, cpu, "u8", [*FAST_MATRICES, "--iree-llvmcpu-enable-inner-tiled"])
    return _compiled(side, cpu, "i8", FAST_MATRICES)


def _compiled(side: Side, cpu: str, activations: str, flags: Sequence[str]) -> bytes:
    # IREE has no fast kernel for integers of 4 bits.
    store_bytes_as(activations, *side)
    widen_storage(*side)
    LowerToIntegersPass(activations=activations).apply(side.context, side.module)
    return compile_module(side, cpu=cpu, lowering=IN_INTEGERS, flags=flags)[1]


def has_vnni() -> bool:
    """Whether this CPU multiplies unsigned bytes with signed ones, 64 at once."""
    try:
        return "avx512_vnni" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
