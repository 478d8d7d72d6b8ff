"""
The changes of an equalization, layer by layer, and the expected signal-to-noise ratios.

The noise of a layer is that of its quantized input and weights, with the requested number of bits.
The input is quantized per tensor, and the weights per row or per tensor.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.ir.value_types import shape_of
from qdialect.ptq.equalization.equalization_plan import Layer, Plan
from qdialect.ptq.equalization.factors import Factors
from qdialect.ptq.equalization.recorded_ranges import grouped_ranges, statistics_behind
from qdialect.ptq.schemes.equalization import (
    Noise,
    expected_noise,
    mean_squares,
    scaled,
    step_of,
)
from qdialect.ptq.schemes.ranges import Range
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORMAT = "qdialect-equalization"
_VERSION = 1


@dataclass(frozen=True)
class Resolution:
    """
    The quantization for which noise is estimated.

    Raises ValueError for a number of bits that is not from 2 to 16, and for an unknown granularity.
    """

    bits: int = 8
    weight_bits: int = 8
    granularity: str = "channel"
    """The granularity of weights: `channel` or `tensor`."""

    def __post_init__(self) -> None:
        for name, bits in (("bits", self.bits), ("weight-bits", self.weight_bits)):
            if not 2 <= bits <= 16:
                raise ValueError(f"{name} must be from 2 to 16, not {bits}")
        if self.granularity not in ("channel", "tensor"):
            raise ValueError(f"granularity must be channel or tensor, not '{self.granularity}'")


@dataclass(frozen=True)
class EqualizedLayer:
    """The changes of one layer."""

    key: str
    op: str
    axes: tuple[int, ...]
    """The axes of its input along which scales vary."""
    scales: tuple[float, ...]
    rows: tuple[float, ...]
    """The factors of its rows; empty without factors."""
    before: Noise
    after: Noise

    @property
    def gain(self) -> float:
        """The expected gain in dB."""
        return _difference(self.before.decibels, self.after.decibels)


def _difference(before: float, after: float) -> float:
    return 0.0 if before == after else after - before


@dataclass(frozen=True)
class EqualizationReport:
    """The layers whose weights are changed."""

    layers: Sequence[EqualizedLayer]

    @property
    def gain(self) -> float:
        """The expected gain of all layers together in dB, if their noise adds up."""
        shares = [
            sum(of.noise / of.signal for of in noises if of.signal)
            for noises in (
                [layer.before for layer in self.layers],
                [layer.after for layer in self.layers],
            )
        ]
        if not all(shares):
            return 0.0
        return 10 * math.log10(shares[0] / shares[1])

    def to_json(self) -> str:
        """The report as JSON; the decibels of zero noise are null."""
        layers: list[Mapping[str, Any]] = [
            {
                "key": layer.key,
                "op": layer.op,
                "axes": [*layer.axes],
                "scales": [*layer.scales],
                "rows": [*layer.rows],
                "expected_signal_to_noise": [
                    _finite(layer.before.decibels),
                    _finite(layer.after.decibels),
                ],
                "expected_gain": _finite(layer.gain),
            }
            for layer in self.layers
        ]
        held = {
            "format": _FORMAT,
            "version": _VERSION,
            "expected_gain": _finite(self.gain),
            "layers": layers,
        }
        return json.dumps(held, indent=1) + "\n"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def report_on(plan: Plan, resolution: Resolution, names: Mapping[Layer, str]) -> EqualizationReport:
    """
    The report of a plan, from the weights before the change.

    `names` has the changed layers, and the names of their ops.
    """
    # Weights and ends of ranges may be infinite; so is their noise.
    with np.errstate(all="ignore"):
        return EqualizationReport([_layer(plan, *layer, resolution) for layer in names.items()])


def _layer(plan: Plan, layer: Layer, op: str, resolution: Resolution) -> EqualizedLayer:
    scales, rows = plan.scales.get(layer), plan.values.get(layer.result)
    axes = () if scales is None else tuple(at for at, n in enumerate(scales.shape) if n > 1)
    return EqualizedLayer(
        layer.key,
        op,
        axes,
        () if scales is None else tuple(scales.reshape(-1).tolist()),
        () if rows is None else tuple(rows.reshape(-1).tolist()),
        _noise(plan, layer, resolution, None, None, is_after=False),
        _noise(plan, layer, resolution, scales, plan.rows(layer), is_after=True),
    )


def _noise(
    plan: Plan,
    layer: Layer,
    resolution: Resolution,
    scales: Factors | None,
    rows: NDArray[np.float32] | None,
    *,
    is_after: bool,
) -> Noise:
    """The noise in units of the sums before equalization, with these scales and rows."""
    weights, inputs = layer.weights, plan.inputs.get(layer)
    squares = input_steps = np.zeros((1,) * weights.ndim)
    if inputs is None:
        squares = squares + 1
    else:
        ends = inputs
        if scales is not None:
            ends = Range(*(scaled(end, scales) for end in inputs))
        step = step_of(float(ends.minimum.min()), float(ends.maximum.max()), resolution.bits)
        before = _squares_before(plan, layer, resolution, scales, is_after=is_after)
        input_steps = np.sqrt(step**2 + layer.indices.on_weights(before))
        squares = layer.indices.on_weights(mean_squares(inputs))
    if scales is not None:
        on_weights = layer.indices.on_weights(scales)
        weights = scaled(weights, on_weights, is_divided=True)
        squares = squares * on_weights.astype("f8") ** 2
    steps = _weight_steps(layer, weights, rows, resolution)
    return expected_noise(weights, squares, input_steps, steps)


def _squares_before(
    plan: Plan, layer: Layer, resolution: Resolution, scales: Factors | None, *, is_after: bool
) -> NDArray[np.float64]:
    """
    The squared steps that values before a relu add to those of a layer's input.

    Such values have a range of their own if other ops read them, and their noise passes the relu
    where they are positive.
    """
    graph, value = plan.graph, layer.value
    found = np.zeros((1,) * len(shape_of(layer.use.value.type) or ()))
    while (maker := graph.makers.get(value)) is not None and maker.is_clamp:
        values = [graph.value(use.value) for use in maker.uses]
        values = [each for each in values if not graph.is_computed(each)]
        if len(values) != 1 or shape_of(values[0].type) != shape_of(value.type):
            break
        (value,) = values
        if isinstance(value.owner, Operation) and graph.is_before_clamp(value, maker):
            continue
        ranges = next(map(grouped_ranges, statistics_behind(graph, value)), None)
        if ranges is None:
            continue
        if is_after:
            ranges = plan.ranges.get(value, ranges)
        low, high = (end.astype("f8") for end in ranges.along(layer.indices.shared))
        above = np.maximum(high, 0) / np.maximum(high - np.minimum(low, 0), np.finfo("f4").tiny)
        least, greatest = map(float, ranges.whole)
        step = step_of(least, greatest, resolution.bits)
        # A multiplication behind it multiplies its noise, too.
        factors = 1 if scales is None or value in plan.values else scales.astype("f8")
        found = found + above * (step * factors) ** 2
    return found


def _weight_steps(
    layer: Layer,
    weights: NDArray[Any],
    rows: NDArray[np.float32] | None,
    resolution: Resolution,
) -> NDArray[np.float64]:
    """The steps of symmetric codes of weights, in units of the sums before equalization."""
    magnitudes = np.abs(weights.astype("f8"))
    on_rows = np.ones((1,) * weights.ndim) if rows is None else rows.astype("f8")
    if resolution.granularity == "tensor":
        largest = np.asarray((magnitudes * on_rows).max()) / on_rows
    else:
        side = layer.node.side
        assert side is not None
        others = tuple(axis for axis in range(weights.ndim) if axis not in side.channel_axes)
        largest = magnitudes.max(axis=others, keepdims=True)
    return 2 * largest / (2**resolution.weight_bits - 1)
