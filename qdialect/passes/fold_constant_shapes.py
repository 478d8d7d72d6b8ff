"""The pass that folds shape ops into constants that are not quantized."""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.dialects.quant.storage import QuantizedType
from qdialect.folding.apply import Certificate, fold_with_certificate
from qdialect.folding.moved_constant import MovedConstant
from qdialect.folding.policy import DEFAULT_MAX_GROWTH, FoldPolicy


def _is_plain(constant: MovedConstant) -> bool:
    return not any(isinstance(layer.element_type, QuantizedType) for layer in constant.layers)


@dataclass(frozen=True)
class FoldConstantShapesPass(ModulePass):
    """
    Fold shape ops into float and integer constants, before they are quantized.

    The folded constant keeps the name and attributes of its source, so that profiles keyed by
    name still match. Quantized constants are left alone.

    Example: `qdialect-opt --fold-constant-shapes model.mlir`.
    """

    name = "fold-constant-shapes"

    max_parameter_growth: int | None = None
    """The maximum number of elements that scales beside a constant may have more than before."""

    max_growth: int = field(default=DEFAULT_MAX_GROWTH, metadata={"is": "a number of bytes"})
    """The maximum number of bytes of elements that the folds may add to the module."""

    max_repetition: int | None = field(default=None, metadata={"is": "a number of bytes"})
    """The maximum number of repeated bytes in a folded constant; 0 by default."""

    verify: str = field(default=Certificate.NONE.value, metadata={"values": Certificate})
    """The certificate required of each fold."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        _ = self.policy, self.certificate

    @property
    def policy(self) -> FoldPolicy:
        """The options as a FoldPolicy. Raises ValueError."""
        return FoldPolicy(
            max_parameter_growth=self.max_parameter_growth,
            max_growth=self.max_growth,
            max_repetition=self.max_repetition,
        )

    @property
    def certificate(self) -> Certificate:
        """The option `verify` as a Certificate. Raises ValueError."""
        return Certificate.named(self.verify)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fold_with_certificate(op, ctx, self.policy, self.certificate, _is_plain)
