"""The ops of scf that run regions: https://mlir.llvm.org/docs/Dialects/SCFDialect/."""

from __future__ import annotations

from qdialect.relations.interface import register_left

register_left("scf", "execute_region for if while", "it runs regions, in which ops are quantized")
