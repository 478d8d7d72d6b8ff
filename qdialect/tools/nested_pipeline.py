"""Passes that run on some ops of a module: `func.func(lower-quant-ops)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

if TYPE_CHECKING:
    from xdsl.ir import Block, Operation


@dataclass(frozen=True)
class NestedPipeline(ModulePass):
    """
    Runs passes on each op of one name directly in a module, one after another.

    As in MLIR, they see nothing else of the module:
    https://mlir.llvm.org/docs/PassManagement/#oppassmanager. What is there when they are
    done takes the place of the op.
    """

    name: ClassVar[str] = "nested-pipeline"

    anchor: str
    """The name of the ops."""

    passes: tuple[ModulePass, ...]

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises what the passes raise."""
        block = op.body.block
        for anchored in [inner for inner in block.ops if inner.name == self.anchor]:
            self._apply_alone(ctx, anchored, block)

    def _apply_alone(self, ctx: Context, op: Operation, block: Block) -> None:
        following = op.next_op
        op.detach()
        alone = ModuleOp([op])
        try:
            for module_pass in self.passes:
                module_pass.apply(ctx, alone)
        finally:
            for inner in list(alone.body.block.ops):
                inner.detach()
                if following is None:
                    block.add_op(inner)
                else:
                    block.insert_op_before(inner, following)
