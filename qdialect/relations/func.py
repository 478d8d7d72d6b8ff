"""Calls of functions: https://mlir.llvm.org/docs/Dialects/Func/."""

from __future__ import annotations

from qdialect.relations.interface import register_left

register_left("func", "call call_indirect", "it runs a function, in which ops are quantized")
