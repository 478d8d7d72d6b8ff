"""
The dialect and the pass by name: the plug-in of `xdsl-opt` and of qdialect's tools.

Each is imported when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.universe import Universe

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass


def _npu() -> Dialect:
    from npu.dialect import Npu

    return Npu


def _fuse_relu6() -> type[ModulePass]:
    from npu.fuse_relu6 import FuseRelu6Pass

    return FuseRelu6Pass


NPU_UNIVERSE: Final = Universe(
    all_dialects={"npu": _npu}, all_passes={"npu-fuse-relu6": _fuse_relu6}
)
"""The entry point."""
