"""The attributes of gpu: https://mlir.llvm.org/docs/Dialects/GPU/."""

from __future__ import annotations

from qdialect.text.syntax import DialectSyntax

SYNTAX = DialectSyntax(dialect="gpu", opaque="block thread warp")
