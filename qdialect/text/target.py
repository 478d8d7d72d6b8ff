"""The target of `xdsl-opt` that writes MLIR text with the printer of this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, ClassVar

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from qdialect.text import write_module


@dataclass(frozen=True)
class MLIRTextTarget(Target):
    """MLIR text as `qdialect-opt` writes it: `xdsl-opt -t qdialect-mlir`."""

    name: ClassVar[str] = "qdialect-mlir"

    print_generic_format: bool = False
    """Whether to print all ops in generic form."""

    print_debuginfo: bool = False
    """Whether to print the locations of ops."""

    @override
    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Write `module` and a line break. Raises OSError if `output` does."""
        write_module(
            ctx,
            module,
            output,
            print_generic_format=self.print_generic_format,
            print_debuginfo=self.print_debuginfo,
        )
