"""The commands of post-training quantization, and what they share."""

from collections.abc import Callable

from qdialect.ptq.schemes.ranges import ReductionKind


def add_reduction(add_argument: Callable[..., object]) -> None:
    """Add `--reduction`, what makes one range of those of all records, by `add_argument`."""
    kinds = [kind.value for kind in ReductionKind if kind is not ReductionKind.PERCENTILE]
    add_argument(
        "--reduction",
        choices=kinds,
        default=ReductionKind.WHOLE.value,
        help="how the records of a value become one range; elements, mse, entropy and glow-entropy "
        "record histograms (whole)",
    )
