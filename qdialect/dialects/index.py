"""Arithmetic on indices: https://mlir.llvm.org/docs/Dialects/IndexOps/."""

from __future__ import annotations

from qdialect.ops.model import Effects, OpModel, OpModels

MODELS = OpModels(
    "index",
    {
        "add and bool.constant casts castu cmp constant maxs maxu mins minu mul or shl shrs shru "
        "sizeof sub xor": OpModel(effects=Effects.NONE),
        # Of zero, they are undefined.
        "ceildivs ceildivu divs divu floordivs rems remu": OpModel(effects=Effects.UNDEFINED),
    },
)
