"""What qdialect knows of the ops of the NPU: one model for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.ir import Operation

from qdialect import Reshape, Transpose
from qdialect.dialects.arrays import layer_model
from qdialect.ops import (
    Bits,
    Contraction,
    Effects,
    Movements,
    OnElements,
    Operands,
    OpModel,
    OpModels,
    integer_of,
    own,
    static_shape_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def shuffled(op: Operation, operands: Operands) -> Movements:
    """Factors of the channels are moved beside the rows and the columns of pixels."""
    (pixels,) = op.operands
    batches, height, width, channels = static_shape_of(pixels)
    factor = integer_of(op, "factor")
    depth = channels // factor**2
    movements = [
        Reshape((batches, height, width, factor, factor, depth)),
        Transpose((0, 1, 3, 2, 4, 5)),
        Reshape((batches, height * factor, width * factor, depth)),
    ]
    return Movements([pixels], movements)


def product(op: Operation) -> Contraction:
    """The sum of products, in the notation of einsum; operand 2 is the bias, if there is one."""
    return Contraction.of("mk,kn->mn", bias=2 if len(op.operands) == 3 else None)


def clamped(numbers: NDArray[Any]) -> NDArray[Any]:
    """What relu6 computes."""
    return numbers.clip(0, 6)


MODELS: Final = OpModels(
    "npu",
    {
        "pixel_shuffle": OpModel(movement=shuffled, bits=Bits.EXACT),
        "matmul": layer_model(product=product, effects=Effects.NONE),
        "relu6": OpModel(
            rule=own(0, function="clamp", limits=(0.0, 6.0)),
            run=OnElements("npu.models:clamped", "npu.models:clamped"),
            is_elementwise=True,
            bits=Bits.EXACT,
            effects=Effects.NONE,
        ),
    },
)
