"""The canonicalization pass, with MLIR's options."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.traits import HasCanonicalizationPatternsTrait
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import PassFailedException

from qdialect.dialects.quant.casts import is_rounding
from qdialect.folding import warn_of_roundings
from qdialect.ir.rewriting import on_circles

NO_LIMIT = -1

_REGION_SIMPLIFY = ("disabled", "normal", "aggressive")


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """
    Apply all canonicalization patterns and folders.

    The options are MLIR's: https://mlir.llvm.org/docs/Passes/#-canonicalize. An iteration
    visits all ops, and then erases dead ops and blocks. A warning counts the values that are no
    longer rounded, since a `quant.dcast` of a `quant.qcast` is dropped.

    Example: `qdialect-opt --canonicalize examples/tiny.mlir`.
    """

    name = "canonicalize"

    top_down: bool = True
    """Visit ops from first to last in each iteration, not from last to first."""

    region_simplify: str = "normal"
    """`disabled` keeps dead blocks. `aggressive` is the same as `normal`: blocks are not merged."""

    max_iterations: int = NO_LIMIT
    """The maximum number of iterations. MLIR's default is 10."""

    max_num_rewrites: int = NO_LIMIT
    """The maximum number of pattern applications in an iteration."""

    test_convergence: bool = False
    """Fail if the iterations end before the module stops changing."""

    enable_patterns: tuple[str, ...] = ()
    """The class names of the patterns to apply; all patterns if empty."""

    disable_patterns: tuple[str, ...] = ()
    """The class names of patterns not to apply."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        if self.region_simplify not in _REGION_SIMPLIFY:
            raise ValueError(
                f"region-simplify must be one of {', '.join(_REGION_SIMPLIFY)}, "
                f"but is '{self.region_simplify}'"
            )

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """
        Raises PassFailedException if `test_convergence` is set and the pass has not converged.
        """
        run = _Run(self, ctx, on_circles(op))
        walker = PatternRewriteWalker(
            run, walk_reverse=not self.top_down, post_walk_func=run.end_iteration
        )
        if self.max_iterations == 0:
            has_converged = False
        else:
            try:
                walker.rewrite_module(op)
                has_converged = True
            except _IterationsEnded:
                has_converged = False
        warn_of_roundings(ctx, op, run.roundings)
        if self.test_convergence and not has_converged:
            raise PassFailedException(
                f"canonicalization has not converged after {self.max_iterations} iterations"
            )


class _IterationsEnded(Exception):
    """Ends xDSL's rewrite walk, which has no other way to stop."""


@dataclass(eq=False)
class _Run(RewritePattern):
    options: CanonicalizePass
    context: Context
    left_alone: Collection[Operation]
    """
    The ops on cycles, which are not rewritten. A pattern may replace a value on a cycle by
    itself, such as `x = x + 0` by `x`, and xDSL's rewriter fails then.
    """

    has_changed: bool = field(default=False, init=False)
    rewrites: int = field(default=0, init=False)
    iterations: int = field(default=0, init=False)
    roundings: int = field(default=0, init=False)
    """The number of values that are no longer rounded."""

    def __post_init__(self) -> None:
        patterns = _CanonicalizationPatterns(self)
        self._greedy = GreedyRewritePatternApplier(
            [patterns], ctx=self.context, folding_enabled=True
        )

    @property
    def may_rewrite(self) -> bool:
        """Whether another pattern may be applied in this iteration."""
        return self.options.max_num_rewrites == NO_LIMIT or (
            self.rewrites < self.options.max_num_rewrites
        )

    @override
    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if op in self.left_alone or not self.may_rewrite:
            return
        was_rounding = is_rounding(op)
        self._greedy.match_and_rewrite(op, rewriter)
        self.roundings += was_rounding and op.parent is None
        self.has_changed |= rewriter.has_done_action

    def end_iteration(self, region: Region, listener: PatternRewriterListener) -> bool:
        """Simplify the regions, and return whether the iteration has changed the module."""
        is_simplified = self.options.region_simplify != "disabled" and region_dce(region, listener)
        self.iterations += 1
        has_changed = self.has_changed or is_simplified
        if has_changed and self.iterations == self.options.max_iterations:
            raise _IterationsEnded
        self.has_changed, self.rewrites = False, 0
        return is_simplified


@dataclass(eq=False)
class _CanonicalizationPatterns(RewritePattern):
    run: _Run

    @override
    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for trait in op.get_traits_of_type(HasCanonicalizationPatternsTrait):
            for pattern in trait.get_patterns(type(op)):
                if self._is_enabled(type(pattern).__name__):
                    pattern.match_and_rewrite(op, rewriter)
                if rewriter.has_done_action:
                    self.run.rewrites += 1
                    return

    def _is_enabled(self, name: str) -> bool:
        options = self.run.options
        return name not in options.disable_patterns and (
            not options.enable_patterns or name in options.enable_patterns
        )
