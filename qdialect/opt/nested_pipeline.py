"""Passes that run on some ops of a module: `func.func(lower-quant-ops)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsolatedFromAbove

from qdialect.folding.report_listener import WarningListener
from qdialect.ir.errors import OpErrors
from qdialect.opt.tool_error import did_you_mean


@dataclass(frozen=True)
class NestedPipeline(ModulePass):
    """
    Runs passes on each op of one name directly in a module, one after another.

    As in MLIR, the passes see nothing of the module but the op:
    https://mlir.llvm.org/docs/PassManagement/#oppassmanager. Their result replaces the op. A nested
    pipeline runs on ops directly in those of the outer pipeline.
    """

    name: ClassVar[str] = "nested-pipeline"

    anchor: str
    """The name of the ops."""

    passes: tuple[ModulePass, ...]

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises the exceptions of the passes, and OpErrors if an op uses values from around it."""
        self._apply_in(ctx, op)

    def _apply_in(self, ctx: Context, op: Operation) -> None:
        inner = [each for region in op.regions for block in region.blocks for each in block.ops]
        anchored = [each for each in inner if _name(each) == self.anchor]
        if not anchored:
            self._warn(ctx, op)
        for each in anchored:
            if not each.has_trait(IsolatedFromAbove, value_if_unregistered=True):
                raise OpErrors.of(each, "is not isolated from above: no pass can run on it alone")
            self._apply_alone(ctx, each)

    def _warn(self, ctx: Context, op: Operation) -> None:
        """Warn of a name that is probably misspelled; a module need not have ops of each name."""
        if not isinstance(ctx, WarningListener):
            return
        names = {_name(each) for each in op.walk() if each is not op}
        if self.anchor in names:
            reason = f"it is not directly in '{_name(op)}', so its pipeline does nothing"
            ctx.take_warning(op, f"operation '{self.anchor}' is deeper in the module: {reason}")
            return
        known = ctx.get_optional_op(self.anchor)
        if known is None or issubclass(known, UnregisteredOp):
            hint = did_you_mean(self.anchor, names)
            ctx.take_warning(op, f"no operation '{self.anchor}' in the module{hint}")

    def _apply_alone(self, ctx: Context, op: Operation) -> None:
        block, following = op.parent_block(), op.next_op
        assert block is not None
        op.detach()
        alone = ModuleOp([op])
        try:
            for module_pass in self.passes:
                if isinstance(module_pass, NestedPipeline):
                    for inner in list(alone.body.block.ops):
                        module_pass._apply_in(ctx, inner)
                else:
                    module_pass.apply(ctx, alone)
        finally:
            for inner in list(alone.body.block.ops):
                inner.detach()
                if following is None:
                    block.add_op(inner)
                else:
                    block.insert_op_before(inner, following)


def _name(op: Operation) -> str:
    """The name of an op in the text, also of an unregistered op."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name
