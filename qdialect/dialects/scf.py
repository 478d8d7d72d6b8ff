"""The ops of scf that run regions: https://mlir.llvm.org/docs/Dialects/SCFDialect/."""

from __future__ import annotations

from functools import partial

from qdialect.ops.model import Effects, OpModel, OpModels

_control = partial(OpModel, is_control=True, effects=Effects.NONE)
_blocks = partial(
    _control, has_blocks=True, stays_float="it runs regions, in which ops are quantized"
)

MODELS = OpModels(
    "scf",
    {
        "execute_region for if": _blocks(),
        "while": _blocks(effects=Effects.UNDEFINED),
        "condition forall index_switch reduce reduce.return yield": _control(),
    },
)
