"""
Equalization of a module: read, plan, write, and report.

The report has the expected signal-to-noise ratios. The noise of a layer is that of its quantized
input and weights, with the requested number of bits. The input is quantized per tensor, and the
weights per row or per tensor.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.folding.inlining import inline_calls
from qdialect.folding.report import Outcome, PassReport
from qdialect.ops.fields import Contraction, Side
from qdialect.ops.interface import Refusal, RefusalCode, models_of, name_of, shape_of
from qdialect.ptq.equalization.factors import (
    Factors,
    passages_of,
    range_along,
    recorded_range,
    statistics_behind,
)
from qdialect.ptq.equalization.layers import LayerIndices, layer_nodes, side_indices
from qdialect.ptq.equalization.planning import (
    EqualizationPolicy,
    Layer,
    Plan,
    Planner,
    Product,
)
from qdialect.ptq.equalization.writing import EqualizationWriter, UnwritableError
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Node
from qdialect.ptq.float_graph.flow_reading import read_nodes, value_graph
from qdialect.ptq.schemes.equalization import scaled
from qdialect.ptq.schemes.noise import Noise, mean_squares, noise_of_products, step_of
from qdialect.ptq.schemes.schemes import Range
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import memory_budget, paused_collection

Choose = Callable[[Sequence[Sequence[str]]], "Chosen"]
"""Chooses layers, each given by its keys."""


class Chosen(NamedTuple):
    """The keys of the layers to equalize (None for all), and those of unknown layers."""

    keys: Collection[str] | None
    missing: Sequence[str] = ()


class Equalized(NamedTuple):
    """The outcome of an equalization: remarks, and a report of layers."""

    outcomes: PassReport
    report: EqualizationReport


def equalize_inputs(
    module: ModuleOp,
    context: Context,
    policy: EqualizationPolicy,
    resolution: Resolution,
    choose: Choose = lambda keys: Chosen(None),
) -> Equalized:
    """
    Move scales from the inputs of layers to their weights.

    Calls are inlined first. The outcomes have a record for each layer that is changed, and for each
    that cannot be.
    """
    with paused_collection(), models_of(context), memory_budget() as budget:
        calls = inline_calls(module)
        graph = read_nodes(value_graph(module, context, budget))
        chosen = choose([graph.keys_of(node) for node in layer_nodes(graph)])
        unwritable = dict[Node, Refusal]()
        while True:
            plan = Planner(graph, policy, chosen.keys, unwritable).plan()
            changed = plan.changed
            # Weights and ends of ranges may be infinite; so is their noise.
            with np.errstate(all="ignore"):
                report = EqualizationReport([_layer(plan, layer, resolution) for layer in changed])
            providers = [_providers(plan, layer) for layer in changed]
            try:
                products = EqualizationWriter(plan, context).write()
            except UnwritableError as error:
                unwritable |= dict.fromkeys(error.nodes, error.reason)
                continue
            break
        told = [
            _told(*of_layer, plan, products)
            for of_layer in zip(changed, report.layers, providers, strict=True)
        ]
        outcomes = PassReport(verb="equalized")
        for layer, reason in zip(changed, told, strict=True):
            outcomes.tell(Outcome.EQUALIZED, layer.node.ops[0], reason)
        for op, error in plan.refusals:
            outcomes.refuse(op, error)
        for key in chosen.missing:
            reason = f"the evaluation has no signal-to-noise ratio for '{key}'"
            outcomes.refuse(module, Refusal(RefusalCode.NO_VALUE, reason))
        outcomes.records[:0] = calls
        return Equalized(outcomes, report)


def _providers(plan: Plan, layer: Layer) -> list[str]:
    """The layers whose rows provide the factors of the input of a layer."""
    keys, pending, seen = list[str](), [layer.value], set[object]()
    while pending:
        value = pending.pop()
        maker = plan.graph.makers.get(value)
        if value not in plan.values or maker is None or value in seen:
            continue
        seen.add(value)
        if maker.weight is not None:
            keys.append(plan.graph.keys_of(maker)[0])
        else:
            pending += [plan.graph.value(use.value) for use in reversed(maker.uses)]
    return keys


def _told(
    layer: Layer,
    changes: EqualizedLayer,
    providers: Sequence[str],
    plan: Plan,
    products: Mapping[Product, Operation],
) -> str:
    """The changes of a layer, in words."""
    told = list[str]()
    if layer in plan.scales:
        ends = min(changes.scales), max(changes.scales)
        told.append(f"its input is scaled by {ends[0]:.6g} to {ends[1]:.6g}")
        if providers:
            told.append(f"in the rows of {', '.join(map(repr, providers))}")
        told += [
            f"by '{name_of(op)}'" for product, op in products.items() if layer in product.layers
        ]
    if changes.rows:
        told.append(f"its rows are scaled by {min(changes.rows):.6g} to {max(changes.rows):.6g}")
    if layer.has_quantized_weights:
        told.append("its weights are requantized")
    if changes.before.noise:
        told.append(f"the expected gain is {changes.gain:+.2f} dB")
    return "; ".join(told)


# The report

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
        """The expected gain in dB; 0 without a change, or if a power overflows."""
        before, after = self.before.decibels, self.after.decibels
        return 0.0 if before == after or before is None or after is None else after - before


@dataclass(frozen=True)
class EqualizationReport:
    """The layers whose weights are changed."""

    layers: Sequence[EqualizedLayer]

    @property
    def gain(self) -> float:
        """The expected gain of all layers together in dB, if their noise adds up."""
        shares = [
            sum(noise.noise / noise.signal for noise in noises if noise.signal)
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
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "expected_gain": _finite(self.gain),
            "layers": layers,
        }
        return json.dumps(content, indent=1) + "\n"


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _layer(plan: Plan, layer: Layer, resolution: Resolution) -> EqualizedLayer:
    """The changes of a layer, from its weights before the change."""
    scales, rows = plan.scales.get(layer), plan.values.get(layer.result)
    axes = () if scales is None else tuple(at for at, n in enumerate(scales.shape) if n > 1)
    return EqualizedLayer(
        layer.key,
        name_of(layer.node.ops[0]),
        axes,
        () if scales is None else tuple(scales.reshape(-1).tolist()),
        () if rows is None else tuple(rows.reshape(-1).tolist()),
        _noise(plan, layer, resolution, None, None),
        _noise(plan, layer, resolution, scales, plan.rows(layer)),
    )


def _noise(
    plan: Plan,
    layer: Layer,
    resolution: Resolution,
    scales: Factors | None,
    rows: NDArray[np.float32] | None,
) -> Noise:
    """
    The noise in units of the sums before equalization, with these scales and rows.

    Without both, it is that before it.
    """
    weights, inputs = layer.weights, plan.inputs.get(layer)
    squares = input_steps = np.zeros((1,) * weights.ndim)
    if inputs is None:
        squares = squares + 1
    else:
        ends = inputs
        if scales is not None:
            ends = Range(*(scaled(end, scales) for end in inputs))
        step = step_of(float(ends.minimum.min()), float(ends.maximum.max()), resolution.bits)
        is_after = scales is not None or rows is not None
        before = _squares_before(plan, layer, resolution, scales, is_after=is_after)
        input_steps = np.sqrt(step**2 + layer.indices.on_weights(before))
        squares = layer.indices.on_weights(mean_squares(*inputs))
    if scales is not None:
        on_weights = layer.indices.on_weights(scales)
        weights = scaled(weights, on_weights, is_divided=True)
        squares = squares * on_weights.astype("f8") ** 2
    steps = _weight_steps(layer, weights, rows, resolution)
    return noise_of_products(weights, squares, input_steps, steps)


def _squares_before(
    plan: Plan, layer: Layer, resolution: Resolution, scales: Factors | None, *, is_after: bool
) -> NDArray[np.float64]:
    """
    The squared steps that values before a relu add to those of a layer's input.

    Such values have a range of their own if other ops read them, and their noise passes the relu
    where they are positive.
    """
    graph, value = plan.graph, layer.value
    squares = np.zeros((1,) * len(shape_of(layer.use.value)))
    while (maker := graph.makers.get(value)) is not None and maker.is_clamp:
        reads = (graph.value(use.value) for use in maker.uses)
        values = [read for read in reads if not graph.is_computed(read)]
        if len(values) != 1 or shape_of(values[0]) != shape_of(value):
            break
        (value,) = values
        if isinstance(value.owner, Operation) and graph.is_before_clamp(value, maker):
            continue
        ranges = next(map(recorded_range, statistics_behind(graph, value)), None)
        if ranges is None:
            continue
        if is_after:
            ranges = plan.ranges.get(value, ranges)
        along = range_along(ranges, tuple(layer.indices.lengths))
        low, high = (end.astype("f8") for end in along)
        above = np.maximum(high, 0) / np.maximum(high - np.minimum(low, 0), np.finfo("f4").tiny)
        step = step_of(float(low.min()), float(high.max()), resolution.bits)
        # A multiplication behind it multiplies its noise, too.
        factors = 1 if scales is None or value in plan.values else scales.astype("f8")
        squares = squares + above * (step * factors) ** 2
    return squares


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


# The axes of the channels


def channel_axes(module: ModuleOp, context: Context) -> Mapping[SSAValue, int]:
    """
    The axis of each value whose indices equalization needs ranges of.

    It is an axis that the input of a layer shares with the weights, also of the values before it,
    as far as factors propagate, and of the result of the layer before. Of several axes, as before a
    reshape that merges them, the channel axis of that layer is chosen, whose rows can have factors,
    or else the longest.
    """
    with models_of(context), memory_budget() as budget:
        graph = read_nodes(value_graph(module, context, budget))
        return _AxisFinder(graph).axes()


class _AxisFinder:
    def __init__(self, graph: FlowGraph) -> None:
        self._graph = graph
        self._layers = dict[Node, LayerIndices]()
        for node in layer_nodes(graph):
            layer, side = cast(Contraction, node.layer), cast(Side, node.side)
            with suppress(Refusal):
                self._layers[node] = side_indices(node.ops[0], layer, side)
        self._passages = passages_of(graph)
        self._rows: dict[SSAValue, NDArray[Any]] = {}
        """For a value, distinct numbers for the rows of weights that compute it."""
        self._axes = dict[SSAValue, int]()

    def axes(self) -> Mapping[SSAValue, int]:
        """The axis of each value."""
        for node in self._graph.nodes:
            self._number_rows(node)
        for node in reversed(self._graph.nodes):
            self._choose_axes(node)
        for value, axis in list(self._axes.items()):
            maker = self._graph.makers.get(value)
            if maker in self._layers:
                # A bias has the axes of its sums.
                self._axes |= dict.fromkeys(maker.inner, axis)
        return self._axes

    def _number_rows(self, node: Node) -> None:
        """Number the rows of weights that the elements of a result are computed with."""
        indices, passage = self._layers.get(node), self._passages.get(node)
        if indices is not None:
            assert node.weight is not None
            shape = shape_of(node.weight.value)
            numbers = np.arange(math.prod(shape)).reshape(shape)
            self._rows[node.results[0]] = indices.rows.reduced(numbers, np.maximum)
        elif passage is not None:
            reads = [self._graph.value(use.value) for use in passage.uses]
            rows = [self._rows[value] for value in reads if value in self._rows]
            moved = passage.moves.moved(rows) if len(rows) == len(reads) == 1 else None
            if moved is not None:
                self._rows[node.results[0]] = moved

    def _choose_axes(self, node: Node) -> None:
        """Choose the axes of the operands of a node."""
        indices, passage = self._layers.get(node), self._passages.get(node)
        if indices is not None and node.side is not None:
            use = next(use for use in node.uses if use.number == node.side.other)
            rank, shared = len(shape_of(use.value)), indices.lengths
            self._choose(self._graph.value(use.value), [shared.get(at, 1) for at in range(rank)])
        elif passage is not None and (axis := self._axes.get(node.results[0])) is not None:
            shape = shape_of(node.results[0])
            lengths = [length if at == axis else 1 for at, length in enumerate(shape)]
            numbers = np.arange(1, 1 + shape[axis], dtype="f8").reshape(lengths)
            pulled = passage.moves.pulled(numbers)
            for use, factors in zip(passage.uses, pulled or (), strict=pulled is not None):
                self._choose(self._graph.value(use.value), factors.shape)

    def _choose(self, value: SSAValue, lengths: Sequence[int]) -> None:
        """Choose one of the axes along which numbers vary, unless another reader has chosen."""
        shape, rows = shape_of(value), self._rows.get(value)
        axes = [axis for axis, n in enumerate(lengths) if n > 1 and shape[axis] == n]
        of_rows = [axis for axis in axes if rows is not None and rows.shape[axis] > 1]
        if axes:
            self._axes.setdefault(value, max(of_rows or axes, key=lambda axis: (shape[axis], axis)))
