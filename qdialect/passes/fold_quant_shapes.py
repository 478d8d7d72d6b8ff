"""The pass that folds shape ops into constants, quantized ones above all."""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.certificates.certified_fold import Certificate, fold_with_certificate
from qdialect.dialects.quant.slot_arrays import Granularity
from qdialect.folding.policy import DEFAULT_MAX_GROWTH, FoldPolicy


@dataclass(frozen=True)
class FoldQuantShapesPass(ModulePass):
    """
    Fold shape ops into quantized constants, exactly.

    A constant that a transpose, reshape, slice, concat, broadcast, reverse, pad or gather
    moves becomes one constant of the type that the op declares, with the name and the
    attributes of the constants that its elements came from. If it is read through casts,
    they are made again behind it. Shape ops of quant, tensor, linalg, tosa and stablehlo
    are understood. Other shape ops are joined where one does what two do, and dropped where
    they move nothing.
    """

    name = "fold-quant-shapes"

    granularity: str = Granularity.SUB_CHANNEL.value
    """The finest type that a folded constant may have: the value of a `Granularity`."""

    max_parameter_growth: int | None = None
    """How many scales a folded constant may have more than those that it is made of."""

    max_growth: int = field(default=DEFAULT_MAX_GROWTH, metadata={"is": "a number of bytes"})
    """How many bytes of elements the folds may add to the module."""

    max_repetition: int | None = field(default=None, metadata={"is": "a number of bytes"})
    """How many bytes of a folded constant may repeat others of it: if not said, 1 MiB of what
    is quantized, and none of what is not."""

    verify: str = Certificate.NONE.value
    """Which certificate each fold must have: the value of a `Certificate`."""

    def __post_init__(self) -> None:
        """Raise ValueError if an option has a value that means nothing."""
        _ = self.policy, self.certificate

    @property
    def policy(self) -> FoldPolicy:
        """The options, as the engine takes them. Raises ValueError."""
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
        """What is shown of each fold. Raises ValueError."""
        return Certificate.named(self.verify)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fold_with_certificate(op, ctx, self.policy, self.certificate)
