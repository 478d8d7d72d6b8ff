"""
Planning an equalization: the choice of scales from ranges and weights, and of the values changed.

Each layer requests factors for its input, and divides its weights by them. A value gets factors if
all its readers request the same ones, and if its defining op can provide them. A layer whose
weights are rewritten in this run multiplies its rows and its bias; a constant, its elements; a
homogeneous op requests factors for its own operands. Elsewhere a multiplication is inserted.

One walk, from the last op to the first, makes all decisions. If a decision fails, for instance
because a range cannot follow, its value is barred, and the walk is repeated. The plan holds all
changes to a module as data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.movement import DYNAMIC
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.fields import Contraction
from qdialect.ops.interface import Refusal, RefusalCode, layer_of, name_of, shape_of
from qdialect.ptq.equalization.factors import (
    Factors,
    Passage,
    are_equal,
    has_any,
    ones,
    passages_of,
    range_along,
    recorded_range,
    scaled_range,
    statistics_behind,
)
from qdialect.ptq.equalization.layers import (
    RAISE_FIRST,
    LayerIndices,
    constant_numbers,
    side_indices,
)
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Node, Use
from qdialect.ptq.schemes.equalization import ScaleRule, scaled
from qdialect.ptq.schemes.schemes import Range
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np


@dataclass(frozen=True)
class EqualizationPolicy:
    """The choices of an equalization: its layers, the rule of scales, and what it may change."""

    rule: ScaleRule = field(default_factory=ScaleRule)

    weights_only: bool = False
    """
    Whether only the rows of weights and the columns of the next layer's are equalized, without
    recorded ranges.
    """

    joined_forks: bool = False
    """Whether layers that read the same value share their scales."""

    sweeps: int = 1
    """
    The number of sweeps over the weights, each from the result of the one before; with weights
    only.
    """

    @property
    def mark(self) -> str:
        """The attribute of a layer that was changed: its scales are not chosen again."""
        return "quant.equalized_weights" if self.weights_only else "quant.equalized"


@dataclass(eq=False)
class Layer:
    """A layer that can be equalized."""

    node: Node
    key: str
    use: Use
    """Its input: the operand that is not the weights."""
    value: SSAValue
    """The value of that operand, with `quant.stats` and pairs of casts skipped."""
    weights: NDArray[Any]
    """The elements of its weights."""
    indices: LayerIndices
    has_quantized_weights: bool
    why_no_rows: str | None
    """Why its rows cannot be multiplied; None if they can."""

    @property
    def result(self) -> SSAValue:
        """The result of the layer, with its bias."""
        return self.node.results[0]


@dataclass(eq=False)
class Product:
    """An inserted multiplication of a value, and the operands that read the product."""

    value: SSAValue
    factors: Factors
    ranges: Range | None
    """The ranges of the product, if they are known."""
    uses: list[Use] = field(default_factory=list[Use])
    layers: list[Layer] = field(default_factory=list[Layer])
    """The layers that request it."""


@dataclass(eq=False)
class Plan:
    """The changes of an equalization."""

    graph: FlowGraph
    layers: Sequence[Layer]
    mark: str
    """The attribute of layers that are changed."""
    scales: dict[Layer, Factors] = field(default_factory=dict[Layer, Factors])
    """The scales of layers: inputs are multiplied by them, and weights divided."""
    inputs: dict[Layer, Range] = field(default_factory=dict[Layer, Range])
    """The ranges of the inputs of layers, if known."""
    values: dict[SSAValue, Factors] = field(default_factory=dict[SSAValue, Factors])
    """The factors of values whose producers change."""
    products: dict[tuple[SSAValue, bytes], Product] = field(
        default_factory=dict[tuple[SSAValue, bytes], "Product"]
    )
    """The multiplications to insert."""
    ranges: dict[SSAValue, Range] = field(default_factory=dict[SSAValue, Range])
    """The ranges of changed values after the change, if known."""
    constants: dict[Use, Factors] = field(default_factory=dict[Use, Factors])
    """The factors of constants other than weights and biases."""
    refusals: list[tuple[Operation, Refusal]] = field(
        default_factory=list[tuple[Operation, Refusal]]
    )

    def rows(self, layer: Layer) -> Factors | None:
        """The factors of the rows of a layer, in the shape of its weights; None without factors."""
        factors = self.values.get(layer.result)
        return None if factors is None else layer.indices.rows.read(factors)

    @property
    def changed(self) -> Sequence[Layer]:
        """The layers whose weights change."""
        return [
            layer for layer in self.layers if layer in self.scales or self.rows(layer) is not None
        ]


class _Walk:
    """The factors of all values, given the scales of layers: from the last op to the first."""

    def __init__(
        self,
        graph: FlowGraph,
        layers: Mapping[Node, Layer],
        passages: Mapping[Node, Passage],
        scales: Mapping[Layer, Factors],
        barred: Collection[SSAValue],
    ) -> None:
        self._graph = graph
        self._passages = passages
        self._requests = {layer.use: factors for layer, factors in scales.items()}
        """The factors that readers request."""
        self.claims: dict[Use, list[Layer]] = {layer.use: [layer] for layer in scales}
        """The layers that request them."""
        self.values = dict[SSAValue, Factors]()
        self.products: list[tuple[Use, Factors]] = []
        self.constants = dict[Use, Factors]()
        for node in reversed(graph.nodes):
            for result in node.results:
                if result not in barred:
                    self._propagate(node, result, layers.get(node))
        self._place()
        for use, factors in self._requests.items():
            value = graph.value(use.value)
            if value in self.values or are_equal(factors, 1):
                continue
            if graph.is_constant(value):
                self.constants[use] = factors
            else:
                self.products.append((use, factors))

    def _propagate(self, node: Node, result: SSAValue, layer: Layer | None) -> None:
        """Let the producer of a value provide the factors that are requested, if it can."""
        factors, passage = self._agreed(result), self._passages.get(node)
        if factors is None:
            return
        if layer is not None and layer.why_no_rows is None:
            if layer.indices.rows.read(factors) is not None:
                self.values[result] = factors
        elif passage is not None and (pulled := passage.moves.pulled(factors)) is not None:
            self.values[result] = factors
            readers = self._graph.readers_of(result)
            layers = [layer for use in readers for layer in self.claims.get(use, ())]
            for use, of_operand in zip(passage.uses, pulled, strict=True):
                self._requests[use] = of_operand
                self.claims[use] = layers

    def _agreed(self, value: SSAValue) -> Factors | None:
        """The factors that all readers of a value request; None if it should not change."""
        requests = [self._requests.get(use) for use in self._graph.readers_of(value)]
        first = next(iter(requests), None)
        if first is None or are_equal(first, 1):
            return None
        are_alike = all(other is not None and are_equal(first, other) for other in requests)
        return first if are_alike else None

    def _place(self) -> None:
        """
        Place multiplications as late as possible, unless layers provide their factors earlier.

        A multiplication moves up to a value with a recorded range, since its range is known there.
        """
        for node, passage in self._passages.items():
            (result,) = node.results
            if result not in self.values:
                continue
            reads = [self._graph.value(use.value) for use in passage.uses]
            is_recorded = any(True for _ in statistics_behind(self._graph, result))
            if is_recorded and not any(value in self.values for value in reads):
                del self.values[result]
                for use in passage.uses:
                    del self._requests[use]


class Planner:
    """Plans the changes."""

    def __init__(
        self,
        graph: FlowGraph,
        policy: EqualizationPolicy,
        chosen: Collection[str] | None,
        unwritable: Mapping[Node, Refusal],
    ) -> None:
        """
        `chosen` has the keys of the layers that may be changed; None for all. Nodes in `unwritable`
        are refused.
        """
        self._graph = graph
        self._policy = policy
        self._unwritable = unwritable
        self._refusals = dict[tuple[Operation, str], Refusal]()
        self._layers = {layer.node: layer for layer in self._read_layers(chosen)}
        self._ranges = dict[SSAValue, list[Range]]()
        self._barred = set[SSAValue]()
        """Values that get no factors, since their ranges or readers could not follow."""
        self._scales = dict[Layer, Factors]()

    def _refuse(self, op: Operation, code: RefusalCode, reason: str) -> None:
        self._refusals.setdefault((op, reason), Refusal(code, reason))

    # Layers

    def _read_layers(self, chosen: Collection[str] | None) -> Iterator[Layer]:
        known = set[str]()
        for node in self._graph.nodes:
            if not isinstance(node.layer, Contraction):
                continue
            keys = self._graph.keys_of(node)
            if chosen is not None and not set(keys) & set(chosen):
                continue
            known.update(keys)
            if node.weight is None:
                self._refuse(node.ops[0], RefusalCode.NOT_CONSTANT, self._why_no_weights(node))
                continue
            try:
                if (why := self._unwritable.get(node)) is not None:
                    raise why
                yield self._layer(node, keys[0])
            except Refusal as error:
                self._refuse(node.ops[0], error.code, str(error))
        for key in sorted(set(chosen or ()) - known):
            reason = f"no layer has the key '{key}'"
            self._refuse(self._graph.module, RefusalCode.NO_VALUE, reason)

    def _why_no_weights(self, node: Node) -> str:
        for use in node.uses:
            maker = self._graph.value(use.value).owner
            if use.value in self._graph.derived and isinstance(maker, Operation):
                return f"'{name_of(maker)}' computes its weights from constants: {RAISE_FIRST}"
        return "neither of its operands is constant"

    def _layer(self, node: Node, key: str) -> Layer:
        side, weight = node.side, node.weight
        assert side is not None
        assert weight is not None
        indices = side_indices(node.ops[0], cast(Contraction, node.layer), side)
        numbers, is_quantized = constant_numbers(self._graph, weight.value)
        use = next(use for use in node.uses if use.number == side.other)
        shape = shape_of(use.value)
        if any(shape[axis] not in (n, DYNAMIC) for axis, n in indices.lengths.items()):
            raise Refusal(
                RefusalCode.UNKNOWN_OP,
                "the axes of its operands and of its weights differ in length",
            )
        value = self._graph.value(use.value)
        why = self._why_no_rows(node)
        return Layer(node, key, use, value, numbers, indices, is_quantized, why)

    def _why_no_rows(self, node: Node) -> str | None:
        """Why the rows of a layer and its bias cannot be multiplied; None if they can."""
        op, graph = node.ops[0], self._graph
        layer = layer_of(op)
        own = layer.bias if isinstance(layer, Contraction) else None
        if own is None or own >= len(op.operands):
            return None
        use = Use(op, own)
        if node.bias is not None and node.bias.use.op in (op, graph.value(use.value).owner):
            return None
        start = use.value
        if has_any(graph, start) or not isinstance(element_type_or_self(start.type), AnyFloat):
            return None
        return "its bias is not a constant of floats"

    # Ranges

    def ranges(self, value: SSAValue) -> list[Range]:
        """The known ranges of a value: its own, or those of the value that a shape op moves."""
        if value not in self._ranges:
            own = [recorded_range(op) for op in statistics_behind(self._graph, value)]
            self._ranges[value] = [*own, *self._moved_ranges(value)]
        return self._ranges[value]

    def _moved_ranges(self, value: SSAValue) -> Iterator[Range]:
        """The ranges moved by a shape op that keeps all elements, one for each channel."""
        maker = self._graph.makers.get(value)
        passage = None if maker is None else self._passages.get(maker)
        if passage is None or not passage.keeps_elements:
            return
        for ranges in self.ranges(self._graph.value(passage.uses[0].value))[:1]:
            numbers = np.arange(ranges.minimum.size).reshape(ranges.minimum.shape)
            moved = passage.moves.moved([numbers])
            if moved is not None and moved.size == numbers.size:
                yield Range(*(end.reshape(-1)[moved] for end in ranges))

    def _after(self, value: SSAValue, factors: Factors) -> Range | None:
        """The ranges of a value after a multiplication; None if they are not known."""
        after = (scaled_range(ranges, factors) for ranges in self.ranges(value))
        return next((ranges for ranges in after if ranges is not None), None)

    def _can_follow(self, value: SSAValue, factors: Factors) -> bool:
        """Whether the ranges of a value, if it has any, are known after a multiplication."""
        is_recorded = any(True for _ in statistics_behind(self._graph, value))
        return not is_recorded or self._after(value, factors) is not None

    # Scales

    def plan(self) -> Plan:
        """Compute the scales, and propagate them."""
        plan = Plan(self._graph, list(self._layers.values()), self._policy.mark)
        sweeps = self._policy.sweeps if self._policy.weights_only else 1
        for _ in range(sweeps):
            before = dict(self._scales)
            self._compute_scales(plan)
            self._settle(plan)
            if _are_close(before, self._scales):
                break
        plan.scales = {
            layer: factors for layer, factors in self._scales.items() if not are_equal(factors, 1)
        }
        for layer in self._layers.values():
            try:
                plan.inputs[layer] = self._range_of_inputs(layer)
            except Refusal:
                # It is reported where scales are computed from ranges.
                continue
        plan.refusals = [(op, error) for (op, _), error in self._refusals.items()]
        return plan

    def _compute_scales(self, plan: Plan) -> None:
        """The scales of all layers, from ranges, or from weights as a sweep before left them."""
        columns = dict[Layer, tuple[Range, Range]]()
        for layer in self._layers.values():
            try:
                columns[layer] = self._ranges_of(layer, plan)
            except Refusal as error:
                self._refuse(layer.node.ops[0], error.code, str(error))
        if self._policy.joined_forks:
            columns = _joined(columns)
        rule = self._policy.rule
        self._scales = {
            layer: _representable(rule.scales(*ranges), layer.use.value)
            for layer, ranges in columns.items()
        }

    def _ranges_of(self, layer: Layer, plan: Plan) -> tuple[Range, Range]:
        """The ranges of the columns of a layer's weights, and of the inputs that they multiply."""
        if (mark := self._policy.mark) in layer.node.ops[0].attributes:
            reason = f"it was equalized before; without its attribute '{mark}', it is again"
            raise Refusal(RefusalCode.KEPT, reason)
        if layer.value in self._graph.given:
            raise Refusal(RefusalCode.QUANTIZED, "its input is quantized")
        if self._policy.weights_only:
            return self._magnitudes_of(layer, plan)
        inputs = self._range_of_inputs(layer)
        axes = tuple(axis for axis in layer.indices.lengths if inputs.minimum.shape[axis] > 1)
        columns = layer.indices.columns
        ends = (columns.reduced(layer.weights, end, axes) for end in (np.minimum, np.maximum))
        return Range(*(np.asarray(end, "f4") for end in ends)), inputs

    def _range_of_inputs(self, layer: Layer) -> Range:
        """The known ranges of the input of a layer per shared index."""
        name = self._graph.keys.get(layer.value, "")
        lengths = layer.indices.lengths
        long = [axis for axis, length in lengths.items() if length > 1]
        if not lengths:
            raise Refusal(RefusalCode.UNKNOWN_OP, "it sums over no axis of its weights")
        known = [range_along(ranges, tuple(lengths)) for ranges in self.ranges(layer.value)]
        best = max(known, key=lambda ranges: ranges.minimum.size, default=None)
        if best is None:
            raise Refusal(RefusalCode.NO_RECORD, f"there is no record of its input '{name}'")
        if long and best.minimum.size == 1:
            raise Refusal(
                RefusalCode.NO_RECORD,
                f"the record of its input '{name}' has one range along axis {long[-1]}, but one "
                "for each index is needed; 'qdialect-calibrate --channels' records one axis of a "
                "value, and a second 'quant.stats' can hold another one",
            )
        return best

    def _magnitudes_of(self, layer: Layer, plan: Plan) -> tuple[Range, Range]:
        """
        The magnitudes of the columns of a layer, and of the rows that provide its input.

        They exclude the current scales between the layers, which the next ones replace.
        """
        rows = self._rows_behind(layer.value, plan)
        own = self._scales.get(layer, ones(rows.ndim))
        rows = rows / own
        others = tuple(axis for axis in range(rows.ndim) if axis not in layer.indices.lengths)
        if not np.isfinite(rows).any():
            raise Refusal(
                RefusalCode.NOT_CONSTANT, "its input is not the result of a layer that is rewritten"
            )
        is_finite = np.isfinite(rows).all(axis=others, keepdims=True)
        rows = np.where(is_finite, rows.max(axis=others, keepdims=True), np.nan).astype("f4")
        axes = tuple(axis for axis in layer.indices.lengths if rows.shape[axis] > 1)
        weights = self._current_weights(layer, plan)
        columns = layer.indices.columns.reduced(np.abs(weights), np.maximum, axes) * own
        return Range(*np.asarray([-columns, columns], "f4")), Range(-rows, rows)

    def _current_weights(self, layer: Layer, plan: Plan) -> NDArray[Any]:
        """The weights after the previous sweep."""
        weights = layer.weights
        if (scales := self._scales.get(layer)) is not None:
            weights = scaled(weights, layer.indices.on_weights(scales), is_divided=True)
        if (rows := plan.rows(layer)) is not None:
            weights = scaled(weights, rows)
        return weights

    def _rows_behind(self, value: SSAValue, plan: Plan) -> NDArray[np.float32]:
        """
        For each element of a value, the magnitude of the row that computes it; NaN without one.
        """
        unknown = ones(len(shape_of(value))) * np.float32(np.nan)
        maker = self._graph.makers.get(value)
        if maker is None:
            return unknown
        if (layer := self._layers.get(maker)) is not None:
            weights = self._current_weights(layer, plan)
            return layer.indices.rows.reduced(np.abs(weights), np.maximum).astype("f4")
        passage = self._passages.get(maker)
        if passage is None or len(passage.uses) > 1:
            # The rows of several layers are not followed.
            return unknown
        rows = self._rows_behind(self._graph.value(passage.uses[0].value), plan)
        moved = passage.moves.moved([rows])
        return unknown if moved is None else moved

    @cached_property
    def _passages(self) -> Mapping[Node, Passage]:
        """The nodes that pass factors on."""
        return passages_of(self._graph)

    # Factors

    def _settle(self, plan: Plan) -> None:
        """Repeat the walk until no more values have to be barred."""
        while True:
            plan.products.clear()
            plan.constants.clear()
            plan.values = dict[SSAValue, Factors]()
            walk = _Walk(self._graph, self._layers, self._passages, self._scales, self._barred)
            if not self._take(walk, plan):
                return

    def _take(self, walk: _Walk, plan: Plan) -> bool:
        """
        Add the result of a walk to the plan.

        Returns True if a value was barred, so that another walk is needed.
        """
        graph, is_barred = self._graph, False
        for value, factors in walk.values.items():
            for part in (value, *graph.makers[value].inner):
                if part in graph.given or not self._can_follow(part, factors):
                    self._bar(value, part, factors)
                    is_barred = True
        for use, factors in walk.products:
            value = graph.value(use.value)
            reader = graph.node_of.get(use.op)
            if self._policy.weights_only:
                for layer in walk.claims[use]:
                    reason = "its input has other users, or is not computed by layers alone"
                    self._refuse(layer.node.ops[0], RefusalCode.USES, reason)
                    self._scales[layer] = ones(self._scales[layer].ndim)
                is_barred = True
            elif not self._can_follow(value, factors) and reader in self._passages:
                assert reader is not None
                self._bar(reader.results[0], value, factors)
                is_barred = True
            else:
                key = value, factors.tobytes() + str(factors.shape).encode()
                if key not in plan.products:
                    plan.products[key] = Product(value, factors, self._after(value, factors))
                plan.products[key].uses.append(use)
                plan.products[key].layers += walk.claims[use]
        for use in walk.constants:
            try:
                constant_numbers(graph, use.value)
            except Refusal as error:
                self._refuse(use.op, error.code, f"operand #{use.number}: {error}")
                self._barred.update(use.op.results)
                is_barred = True
        for value, factors in walk.values.items():
            for part in (value, *graph.makers[value].inner):
                if (ranges := self._after(part, factors)) is not None:
                    plan.ranges[part] = ranges
        plan.values, plan.constants = walk.values, walk.constants
        return is_barred

    def _bar(self, value: SSAValue, part: SSAValue, factors: Factors) -> None:
        """Keep a value from changing, since the record of one of its parts cannot follow."""
        self._barred.add(value)
        axes = [axis for axis, length in enumerate(factors.shape) if length > 1]
        name = self._graph.keys.get(part, "")
        op = value.owner if isinstance(value.owner, Operation) else self._graph.module
        if part in self._graph.given:
            self._refuse(op, RefusalCode.QUANTIZED, f"'{name}' is quantized, so its scale is kept")
            return
        self._refuse(
            op,
            RefusalCode.NO_RECORD,
            f"the record of '{name}' lacks a range for each index of "
            f"{'axis' if len(axes) == 1 else 'axes'} {', '.join(map(str, axes)) or 'its axes'}: a "
            "multiplication is inserted after it",
        )


def _representable(scales: Factors, value: SSAValue) -> Factors:
    """The scales, rounded to the element type of a value."""
    type = element_type_or_self(value.type)
    if not isinstance(type, AnyFloat) or type.name in ("f32", "f64"):
        return scales
    rounded = FLOAT_FORMATS[type.name].round(scales.astype("f8")).astype("f4")
    with np.errstate(all="ignore"):
        is_usable = np.isfinite(rounded) & (rounded > 0)
    return np.where(is_usable, rounded, np.float32(1)).astype("f4")


def _joined(
    columns: Mapping[Layer, tuple[Range, Range]],
) -> dict[Layer, tuple[Range, Range]]:
    """The ranges, with layers that read the same value joined to one."""
    groups = dict[tuple[SSAValue, tuple[int, ...]], list[Layer]]()
    for layer, (weights, _) in columns.items():
        groups.setdefault((layer.value, weights.minimum.shape), []).append(layer)
    joined = dict(columns)
    for layers in groups.values():
        low = np.min([columns[layer][0].minimum for layer in layers], axis=0)
        high = np.max([columns[layer][0].maximum for layer in layers], axis=0)
        for layer in layers:
            joined[layer] = Range(low, high), columns[layer][1]
    return joined


def _are_close(before: Mapping[Layer, Factors], after: Mapping[Layer, Factors]) -> bool:
    return before.keys() == after.keys() and all(
        factors.shape == after[layer].shape and np.allclose(factors, after[layer], rtol=1e-6)
        for layer, factors in before.items()
    )
