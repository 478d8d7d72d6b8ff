"""
Planning an equalization: the choice of scales from ranges and weights, and of the values changed.

Each layer requests factors for its input, and divides its weights by them. A value gets factors if
all its readers request the same ones, and if its defining op can provide them. A layer whose
weights are rewritten in this run multiplies its rows and its bias; a constant, its elements; a
homogeneous op requests factors for its own operands. Elsewhere a multiplication is inserted.

One walk, from the last op to the first, makes all decisions. If a decision fails, for instance
because a range cannot follow, its value is barred, and the walk is repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.movement import DYNAMIC
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.interface import Refusal, RefusalCode, name_of
from qdialect.ops.products import Contraction, layer_of
from qdialect.ptq.equalization.equalization_plan import (
    EqualizationPolicy,
    Layer,
    Plan,
    Product,
)
from qdialect.ptq.equalization.factor_walk import FactorWalk
from qdialect.ptq.equalization.factors import Factors, GroupedRanges, are_ones, ones
from qdialect.ptq.equalization.homogeneous import Passage, has_any, passage_of
from qdialect.ptq.equalization.layer_weights import (
    constant_numbers,
    indices_of,
    is_layer_node,
    keys_of_node,
)
from qdialect.ptq.equalization.recorded_ranges import grouped_ranges, statistics_behind
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Node, Use
from qdialect.ptq.schemes.equalization import scaled
from qdialect.ptq.schemes.ranges import Range
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


_MOST_SWEEPS: Final = 100


def plan_equalization(
    graph: FlowGraph,
    policy: EqualizationPolicy,
    chosen: Collection[str] | None,
    unwritable: Mapping[Node, Refusal] = MappingProxyType({}),
) -> Plan:
    """
    Plan the changes.

    `chosen` has the keys of the layers that may be changed; None for all. Nodes in `unwritable` are
    refused.
    """
    return _Planner(graph, policy, chosen, unwritable).plan()


class _Planner:
    def __init__(
        self,
        graph: FlowGraph,
        policy: EqualizationPolicy,
        chosen: Collection[str] | None,
        unwritable: Mapping[Node, Refusal],
    ) -> None:
        self._graph = graph
        self._policy = policy
        self._unwritable = unwritable
        self._refusals = dict[tuple[Operation, str], Refusal]()
        self._layers = {layer.node: layer for layer in self._read_layers(chosen)}
        self._ranges = dict[SSAValue, list[GroupedRanges]]()
        self._barred = set[SSAValue]()
        """Values that get no factors, since their ranges or readers could not follow."""
        self._scales = dict[Layer, Factors]()

    def _refuse(self, op: Operation, code: RefusalCode, reason: str) -> None:
        self._refusals.setdefault((op, reason), Refusal(code, reason))

    # Layers

    def _read_layers(self, chosen: Collection[str] | None) -> Iterator[Layer]:
        found = set[str]()
        for node in self._graph.nodes:
            if not is_layer_node(node):
                continue
            keys = keys_of_node(self._graph, node)
            if chosen is not None and not set(keys) & set(chosen):
                continue
            found.update(keys)
            if node.weight is None:
                self._refuse(node.ops[0], RefusalCode.NOT_CONSTANT, self._why_no_weights(node))
                continue
            try:
                if (why := self._unwritable.get(node)) is not None:
                    raise why
                yield self._layer(node, keys[0])
            except Refusal as error:
                self._refuse(node.ops[0], error.code, str(error))
        for key in sorted(set(chosen or ()) - found):
            reason = f"no layer has the key '{key}'"
            self._refuse(self._graph.module, RefusalCode.NO_VALUE, reason)

    def _why_no_weights(self, node: Node) -> str:
        for use in node.uses:
            maker = self._graph.value(use.value).owner
            if use.value in self._graph.derived and isinstance(maker, Operation):
                return (
                    f"'{name_of(maker)}' computes its weights from constants, and is not an exact "
                    "dequantization: see the remarks of --raise-dequantization"
                )
        return "neither of its operands is constant"

    def _layer(self, node: Node, key: str) -> Layer:
        side, weight = node.side, node.weight
        assert side is not None
        assert weight is not None
        indices = indices_of(node)
        if indices is None:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its window slides over a constant input")
        numbers, is_quantized = constant_numbers(self._graph, weight.value)
        use = next(each for each in node.uses if each.number == side.other)
        shape = shape_of(use.value.type) or ()
        if any(shape[axis] not in (n, DYNAMIC) for axis, n in indices.lengths().items()):
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

    def ranges(self, value: SSAValue) -> list[GroupedRanges]:
        """The known ranges of a value: its own, and those moved by shape ops."""
        if value not in self._ranges:
            self._ranges[value] = [*self._own_ranges(value), *self._moved_ranges(value)]
        return self._ranges[value]

    def _own_ranges(self, value: SSAValue) -> Iterator[GroupedRanges]:
        for op in statistics_behind(self._graph, value):
            yield grouped_ranges(op)

    def _moved_ranges(self, value: SSAValue) -> Iterator[GroupedRanges]:
        """The ranges moved by a shape op that adds no numbers and drops whole groups."""
        maker = self._graph.makers.get(value)
        passage = None if maker is None else self._passages.get(maker)
        if passage is None:
            return
        known = [self.ranges(self._graph.value(use.value)) for use in passage.uses]
        if not all(known):
            return
        start, groups, ends = 0, list[Any](), list[Any]()
        for each in (of[0] for of in known):
            groups.append(each.groups + start)
            start += len(each.minima)
            ends.append((each.minima, each.maxima))
        if not passage.keeps(groups) or (moved := passage.moved(groups, -1)) is None:
            return
        minima, maxima = (np.concatenate(of) for of in zip(*ends, strict=True))
        here, numbers = np.unique(moved, return_inverse=True)
        yield GroupedRanges(numbers.reshape(moved.shape), minima[here], maxima[here])

    def _has_records(self, value: SSAValue) -> bool:
        return any(True for _ in statistics_behind(self._graph, value))

    def _can_follow(self, value: SSAValue, factors: Factors) -> bool:
        """Whether the ranges of a value, if it has any, are known after a multiplication."""
        if not self._has_records(value):
            return True
        return any(each.scaled(factors) is not None for each in self.ranges(value))

    # Scales

    def plan(self) -> Plan:
        """Compute the scales, and propagate them."""
        plan = Plan(self._graph, list(self._layers.values()))
        sweeps = self._policy.sweeps if self._policy.weights_only else 1
        for _ in range(sweeps):
            before = dict(self._scales)
            self._compute_scales(plan)
            self._settle(plan)
            if before == {} and not self._scales:
                break
            if _are_close(before, self._scales):
                break
        plan.scales = {
            layer: factors for layer, factors in self._scales.items() if not are_ones(factors)
        }
        for layer in self._layers.values():
            try:
                _, plan.inputs[layer] = self._range_of_inputs(layer)
            except Refusal:
                # It is reported where scales are computed from ranges.
                continue
        plan.refusals = [(op, error) for (op, _), error in self._refusals.items()]
        return plan

    def _compute_scales(self, plan: Plan) -> None:
        """The scales of all layers, from ranges, or from weights as a sweep before left them."""
        found = dict[Layer, Factors]()
        columns = dict[Layer, tuple[Range, Range]]()
        for layer in self._layers.values():
            try:
                columns[layer] = self._ranges_of(layer, plan)
            except Refusal as error:
                self._refuse(layer.node.ops[0], error.code, str(error))
        if self._policy.joined_forks:
            columns = _joined(columns)
        for layer, (weights, inputs) in columns.items():
            scales = self._policy.rule.scales(weights, inputs)
            found[layer] = _representable(scales, layer.use.value)
        self._scales = found

    def _ranges_of(self, layer: Layer, plan: Plan) -> tuple[Range, Range]:
        """The ranges of the columns of a layer's weights, and of the inputs that they multiply."""
        if layer.value in self._graph.given:
            raise Refusal(RefusalCode.QUANTIZED, "its input is quantized")
        if self._policy.weights_only:
            return self._magnitudes_of(layer, plan)
        known, inputs = self._range_of_inputs(layer)
        axes = tuple(axis for axis in layer.indices.shared if inputs.minimum.shape[axis] > 1)
        low, high = (layer.indices.columns(layer.weights, axes, of) for of in (np.min, np.max))
        columns = Range(*(np.asarray(of, "f4") for of in (low, high)))
        # A group with one range gets one scale: the ranges of its parts are unknown.
        return known.pooled(columns), inputs

    def _range_of_inputs(self, layer: Layer) -> tuple[GroupedRanges, Range]:
        """The known ranges of the input of a layer, and the same per shared index."""
        known = self.ranges(layer.value)
        name = self._graph.keys.get(layer.value, "")
        lengths = layer.indices.lengths()
        long = [axis for axis, length in lengths.items() if length > 1]
        if not lengths:
            raise Refusal(RefusalCode.UNKNOWN_OP, "it sums over no axis of its weights")
        pairs = [(each, each.along(tuple(lengths))) for each in known]
        grouped, best = max(pairs, key=lambda pair: pair[1].minimum.size, default=(None, None))
        if grouped is None or best is None:
            raise Refusal(RefusalCode.NO_RECORD, f"there is no record of its input '{name}'")
        if long and best.minimum.size == 1:
            raise Refusal(
                RefusalCode.NO_RECORD,
                f"the record of its input '{name}' has one range along axis {long[-1]}, but one "
                "for each index is needed; 'qdialect-calibrate --channels' records one axis of a "
                "value, and a second 'quant.stats' can hold another one",
            )
        return grouped, best

    def _magnitudes_of(self, layer: Layer, plan: Plan) -> tuple[Range, Range]:
        """
        The magnitudes of the columns of a layer, and of the rows that provide its input.

        They exclude the current scales between the layers, which the next ones replace.
        """
        rows = self._rows_behind(layer.value, plan)
        own = self._scales.get(layer, ones(rows.ndim))
        rows = rows / own
        others = tuple(axis for axis in range(rows.ndim) if axis not in layer.indices.shared)
        if not np.isfinite(rows).any():
            raise Refusal(
                RefusalCode.NOT_CONSTANT, "its input is not the result of a layer that is rewritten"
            )
        is_finite = np.isfinite(rows).all(axis=others, keepdims=True)
        rows = np.where(is_finite, rows.max(axis=others, keepdims=True), np.nan).astype("f4")
        axes = tuple(axis for axis in layer.indices.shared if rows.shape[axis] > 1)
        weights = self._current_weights(layer, plan)
        columns = layer.indices.columns(np.abs(weights), axes, np.max) * own
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
        unknown = ones(len(shape_of(value.type) or ())) * np.float32(np.nan)
        maker = self._graph.makers.get(value)
        if maker is None:
            return unknown
        if (layer := self._layers.get(maker)) is not None:
            weights = self._current_weights(layer, plan)
            return layer.indices.rows(np.abs(weights), np.max).astype("f4")
        passage = self._passages.get(maker)
        if passage is None:
            return unknown
        behind = [self._rows_behind(self._graph.value(use.value), plan) for use in passage.uses]
        found = passage.moved(behind, 0)
        return unknown if found is None else found

    @cached_property
    def _passages(self) -> Mapping[Node, Passage]:
        """The nodes that pass factors on."""
        found = ((node, passage_of(self._graph, node)) for node in self._graph.nodes)
        return {node: passage for node, passage in found if passage is not None}

    # Factors

    def _settle(self, plan: Plan) -> None:
        """Repeat the walk until no more values have to be barred."""
        while True:
            plan.products.clear()
            plan.constants.clear()
            plan.values = dict[SSAValue, Factors]()
            walk = FactorWalk(self._graph, self._layers, self._passages, self._scales, self._barred)
            if not self._take(walk, plan):
                return

    def _take(self, walk: FactorWalk, plan: Plan) -> bool:
        """
        Add the result of a walk to the plan.

        Returns True if a value was barred, so that another walk is needed.
        """
        graph, is_barred = self._graph, False
        for value, factors in walk.values.items():
            for held in (value, *walk.inner(value)):
                if held in graph.given or not self._can_follow(held, factors):
                    self._bar(value, held, factors)
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
                    scaled_ranges = (each.scaled(factors) for each in self.ranges(value))
                    known = next((each for each in scaled_ranges if each is not None), None)
                    plan.products[key] = Product(value, factors, known)
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
            for held in (value, *walk.inner(value)):
                after = (each.scaled(factors) for each in self.ranges(held))
                if (found := next((each for each in after if each is not None), None)) is not None:
                    plan.ranges[held] = found
        plan.values, plan.constants = walk.values, walk.constants
        return is_barred

    def _bar(self, value: SSAValue, held: SSAValue, factors: Factors) -> None:
        self._barred.add(value)
        axes = [axis for axis, length in enumerate(factors.shape) if length > 1]
        name = self._graph.keys.get(held, "")
        op = value.owner if isinstance(value.owner, Operation) else self._graph.module
        if held in self._graph.given:
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
    found = dict(columns)
    for layers in groups.values():
        low = np.min([columns[layer][0].minimum for layer in layers], axis=0)
        high = np.max([columns[layer][0].maximum for layer in layers], axis=0)
        for layer in layers:
            found[layer] = Range(low, high), columns[layer][1]
    return found


def _are_close(before: Mapping[Layer, Factors], after: Mapping[Layer, Factors]) -> bool:
    return before.keys() == after.keys() and all(
        factors.shape == after[layer].shape and np.allclose(factors, after[layer], rtol=1e-6)
        for layer, factors in before.items()
    )
