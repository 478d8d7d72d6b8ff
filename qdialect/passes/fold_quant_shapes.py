"""The pass that folds shape ops into quantized and other constants."""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.dialects.quant.slots import Granularity
from qdialect.folding.apply import Certificate, fold_with_certificate
from qdialect.folding.policy import DEFAULT_MAX_GROWTH, FoldPolicy


@dataclass(frozen=True)
class FoldQuantShapesPass(ModulePass):
    """
    Fold shape ops into quantized constants, exactly.

    A transpose, reshape, slice, concat, broadcast, reverse, pad or gather of constants becomes
    one constant of the declared result type, with the names and attributes of its sources.
    Casts between the constants and the shape op are repeated after the new constant. Any
    dialect with registered models is supported. Shape ops of other values are composed where
    one op can do the work of two, and dropped where they move nothing.

    Example: `qdialect-opt --fold-quant-shapes=verify=values examples/tiny.mlir`.
    """

    name = "fold-quant-shapes"

    granularity: str = field(
        default=Granularity.SUB_CHANNEL.value, metadata={"values": Granularity}
    )
    """The finest type that a folded constant may have."""

    max_parameter_growth: int | None = None
    """The maximum number of scales that a folded constant may have in excess of its sources."""

    max_growth: int = field(default=DEFAULT_MAX_GROWTH, metadata={"is": "a number of bytes"})
    """The maximum number of bytes of elements that the folds may add to the module."""

    max_repetition: int | None = field(default=None, metadata={"is": "a number of bytes"})
    """
    The maximum number of repeated bytes in a folded constant; by default, 1 MiB for quantized
    constants and 0 for others.
    """

    verify: str = field(default=Certificate.NONE.value, metadata={"values": Certificate})
    """The certificate required of each fold."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        _ = self.policy, self.certificate

    @property
    def policy(self) -> FoldPolicy:
        """The options as a FoldPolicy. Raises ValueError."""
        names = [granularity.value for granularity in Granularity]
        if self.granularity not in names:
            raise ValueError(
                f"granularity must be one of {', '.join(names)}, but is '{self.granularity}'"
            )
        return FoldPolicy(
            Granularity(self.granularity),
            self.max_parameter_growth,
            self.max_growth,
            self.max_repetition,
        )

    @property
    def certificate(self) -> Certificate:
        """The option `verify` as a Certificate. Raises ValueError."""
        return Certificate.named(self.verify)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fold_with_certificate(op, ctx, self.policy, self.certificate)
