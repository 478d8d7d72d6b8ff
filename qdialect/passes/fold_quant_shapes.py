"""The passes that fold shape ops into constants."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.algebra.parameters import Granularity
from qdialect.dialects.quant.storage import QuantizedType
from qdialect.folding import send_report
from qdialect.folding.apply import Certificate, fold_shapes
from qdialect.folding.moved_constant import MovedConstant
from qdialect.folding.policy import DEFAULT_MAX_GROWTH, FoldPolicy
from qdialect.support.arguments import named_member


@dataclass(frozen=True)
class _FoldPass(ModulePass):
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
    @abstractmethod
    def policy(self) -> FoldPolicy:
        """The options as a FoldPolicy. Raises ValueError."""

    @property
    def certificate(self) -> Certificate:
        """The option `verify` as a Certificate. Raises ValueError."""
        return named_member("verify", Certificate, self.verify)


@dataclass(frozen=True)
class FoldQuantShapesPass(_FoldPass):
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

    @property
    @override
    def policy(self) -> FoldPolicy:
        return FoldPolicy(
            named_member("granularity", Granularity, self.granularity),
            self.max_parameter_growth,
            self.max_growth,
            self.max_repetition,
        )

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        send_report(ctx, fold_shapes(op, ctx, self.policy, certificate=self.certificate))


@dataclass(frozen=True)
class FoldConstantShapesPass(_FoldPass):
    """
    Fold shape ops into float and integer constants, before they are quantized.

    The folded constant keeps the name and attributes of its source, so that profiles keyed by
    name still match. Quantized constants are left alone.

    Example: `qdialect-opt --fold-constant-shapes model.mlir`.
    """

    name = "fold-constant-shapes"

    @property
    @override
    def policy(self) -> FoldPolicy:
        return FoldPolicy(
            max_parameter_growth=self.max_parameter_growth,
            max_growth=self.max_growth,
            max_repetition=self.max_repetition,
        )

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        send_report(ctx, fold_shapes(op, ctx, self.policy, _is_plain, self.certificate))


def _is_plain(constant: MovedConstant) -> bool:
    return not any(isinstance(layer.element_type, QuantizedType) for layer in constant.layers)
