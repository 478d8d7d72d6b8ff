"""Folding all shape ops of a module: plan, apply and report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from qdialect.folding.apply import FoldRun
from qdialect.folding.graph import FoldGraph
from qdialect.folding.moved_constant import MovedConstant
from qdialect.folding.plan import decide
from qdialect.folding.policy import FoldPolicy
from qdialect.folding.report import PassReport
from qdialect.folding.report_listener import FoldReportListener
from qdialect.ops.interface import models_of
from qdialect.support.arguments import check_instance
from qdialect.support.memory import memory_budget, paused_collection

if TYPE_CHECKING:
    from collections.abc import Generator


def fold_shapes(
    module: ModuleOp,
    context: Context,
    policy: FoldPolicy,
    may_fold: Callable[[MovedConstant], bool] = lambda constant: True,
) -> PassReport:
    """
    Fold the shape ops of a module, of all dialects, into the constants that they move.

    An op that cannot be read, or whose fold `policy` does not allow, is kept, and reported with
    the reason. `may_fold` selects the source constants, and casts of constants. Raises
    TypeError for arguments of another kind.
    """
    check_instance("module", module, ModuleOp, "parse_module(context, text)")
    check_instance("context", context, Context, "Context()")
    check_instance("policy", policy, FoldPolicy, "FoldPolicy()")
    with paused_collection():
        return _folded(module, context, policy, may_fold)


def _folded(
    module: ModuleOp,
    context: Context,
    policy: FoldPolicy,
    may_fold: Callable[[MovedConstant], bool],
) -> PassReport:
    # The graph is freed on return, before the garbage collector is enabled and visits it.
    with fold_run(module, context, policy, may_fold) as run:
        return run.run()


@contextmanager
def fold_run(
    module: ModuleOp,
    context: Context,
    policy: FoldPolicy,
    may_fold: Callable[[MovedConstant], bool] = lambda constant: True,
) -> Generator[FoldRun]:
    """
    A planned fold, which the caller carries out. See `fold_shapes`.

    The plan is passed to the context if it wants plans.
    """
    with paused_collection(), models_of(context), memory_budget() as budget:
        graph = FoldGraph(module, context, budget, may_fold)
        with graph.parts_taken_back():
            run = FoldRun(graph, decide(graph, policy, budget))
            if isinstance(context, FoldReportListener) and context.wants_fold_plans:
                context.take_fold_plan(run.plan)
            yield run
