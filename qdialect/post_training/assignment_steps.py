"""
The steps that choose the parameters of a module, in the order of ONE's QuantizeWithMinMax.

Each is a function of a graph and of the assignment that the steps before it have made. Activations
are first, since everything follows from them. Layers of another precision are set apart before
parameters move, so that none moves from one precision to another. Parameters move backward before
they move forward: where both could be, forward it is. Values with fixed parameters are between the
two, so that these move on. Biases are last: their scale is the product of the two others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.bounded_cache import registered_cache
from qdialect.algebra.float_format import FLOAT_FORMATS
from qdialect.algebra.granularity import Granularity
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.movement import (
    DYNAMIC,
    Concat,
    Movement,
    MovementError,
    Shape,
    Slice,
    ValueSet,
    pulled_back,
)
from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.dialects.quant import Storage, UniformQuantizedType
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.post_training.assignment import Assigned, Assignment
from qdialect.post_training.flow_graph import FlowGraph, Node, Range, Use, is_quantizable
from qdialect.post_training.precision import Precision, Settings, declared_scheme
from qdialect.post_training.weights import (
    WeightAxes,
    WeightGranularity,
    blocks_of_weight,
    long_axes,
    storage_of,
    type_of_choice,
    type_of_slot,
    type_of_slots,
)
from qdialect.quantization.arrays import array_range, quantize_alike
from qdialect.quantization.blocks import Blocks
from qdialect.quantization.presets import (
    I16,
    U8,
    fixed_choice,
    luci,
    luci_integer_scale,
    luci_single_values,
)
from qdialect.quantization.schemes import MAX_STORAGE_WIDTH, Choice, Scheme
from qdialect.relations.interface import Relation
from qdialect.shape_ops.interface import Code, NotFoldable, name_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

Step = Callable[["Flow", Assignment], Assignment]


class Flow:
    """A graph and its settings, which all steps read."""

    def __init__(self, graph: FlowGraph, settings: Settings) -> None:
        self.graph = graph
        self.settings = settings
        self.refusals = dict[Operation, NotFoldable]()
        """Why an op stays in floats."""
        self.float_biases = dict[Operation, str]()
        """Why the bias of a layer does."""
        self.weights: dict[tuple[Use, Assigned], tuple[NDArray[Any] | None, Choice]] = {}
        """The codes of weights that were quantized with others, and the choices of all."""

    def precision(self, node: Node) -> Precision:
        """The precision of an op: a shape op has that of the layer next to its smaller side."""
        return self._precisions[node]

    def precision_of(self, value: SSAValue) -> Precision:
        """The precision of what makes a value."""
        maker = self.graph.makers.get(value)
        return self.settings.default if maker is None else self.precision(maker)

    @cached_property
    def _precisions(self) -> Mapping[Node, Precision]:
        if not self.settings.layers:
            return dict.fromkeys(self.graph.nodes, self.settings.default)
        configured = {node: self._configured(node) for node in self.graph.nodes}
        found = {node: own or self.settings.default for node, own in configured.items()}
        movers = [
            node
            for node, own in configured.items()
            if own is None and node.relation is Relation.MOVED and len(node.uses) == 1
        ]
        growing = list[Node]()
        for node in movers:
            if _size(node.results[0]) > _size(node.uses[0].value):
                growing.append(node)
                continue
            maker = self.graph.makers.get(self.graph.value(node.uses[0].value))
            if maker is not None:
                found[node] = found[maker]
        for node in reversed(growing):
            readers = {
                reader
                for use in self.graph.readers[node.results[0]]
                if (reader := self.graph.node_of.get(use.op)) is not None
            }
            precisions = {found[reader].name: found[reader] for reader in readers}
            if len(precisions) == 1:
                found[node] = precisions.popitem()[1]
        return found

    def _configured(self, node: Node) -> Precision | None:
        for op in reversed(node.ops):
            for result in op.results:
                if (found := self.settings.layers.get(self.graph.keys.get(result, ""))) is not None:
                    return found
        return None

    def own(self, value: SSAValue, precision: Precision) -> Assigned | None:
        """
        The parameters of a value, from its producer and its range; None without a range.

        A value without a range that only holds elements of another value has the range of that.
        """
        maker = self.graph.makers.get(value)
        while (
            maker is not None
            and _passes_on(maker)
            and (maker.filler is not None or value not in self.graph.ranges)
        ):
            value = self.graph.value(maker.uses[0].value)
            maker = self.graph.makers.get(value)
        found = self.graph.ranges.get(value)
        if found is None and (given := self.graph.given.get(value)) is not None:
            found = _range_of(given)
        expressed = element_type_or_self(value.type)
        if maker is not None and maker.fixed:
            choice = fixed_choice(maker.fixed, precision.activations)
            return self._assigned(choice, expressed, Relation.FIXED, found)
        if found is None:
            return None
        choice = precision.activations.choose(*found)
        if maker is not None and maker.relation is Relation.WHOLE_NUMBER:
            return self._assigned(luci_integer_scale(choice), expressed, maker.relation, found)
        return self._assigned(choice, expressed, Relation.OWN, found)

    def of_constant(self, use: Use, precision: Precision) -> Assigned:
        """The parameters of a constant by its own values. Raises NotFoldable."""
        numbers = self.graph.numbers(use.value)
        try:
            found = array_range(numbers)
            if found.nans:
                raise ValueError("it has a NaN, which has no code")
            choice = precision.activations.choose(found.minimum, found.maximum)
        except ValueError as error:
            raise NotFoldable(Code.ILLEGAL_TYPE, f"its operand {use.number}: {error}") from None
        low, high = float(found.minimum.item()), float(found.maximum.item())
        expressed = element_type_or_self(use.value.type)
        return self._assigned(choice, expressed, Relation.GIVEN, Range(low, high))

    def _assigned(
        self, choice: Choice, expressed: object, relation: Relation, found: Range | None
    ) -> Assigned:
        type = type_of_choice(choice, (), cast(AnyFloat, expressed))
        return Assigned(type, relation, found)

    @cached_property
    def forced(self) -> Mapping[SSAValue, Assigned]:
        """The parameters that the settings give to values, whatever their ranges are."""
        found = dict[SSAValue, Assigned]()
        if not (self.settings.parameters or self.settings.copies):
            return found
        of_keys = {self.graph.keys.get(value, ""): value for value in reversed(self.graph.values)}
        for value in self.graph.values:
            key = self.graph.keys.get(value, "")
            source = of_keys.get(self.settings.copies.get(key, ""))
            copied = None if source is None else self.own(source, self.precision_of(source))
            if copied is not None:
                origin = self.settings.copies[key]
                found[value] = copied._replace(relation=Relation.GIVEN, origin=origin)
            if (slot := self.settings.parameters.get(key)) is not None:
                choice = self.precision_of(value).activations.given(*slot)
                expressed = element_type_or_self(value.type)
                recorded = self.graph.ranges.get(value)
                found[value] = self._assigned(choice, expressed, Relation.GIVEN, recorded)
        return found

    def is_pinned(self, value: SSAValue) -> bool:
        """Whether the parameters of a value are given, and so do not follow from others."""
        return value in self.graph.given or value in self.forced

    def is_given(self, value: SSAValue) -> bool:
        """Whether a constant is quantized already."""
        return self.graph.is_constant(value) and self.graph.stored(value) is None

    def constant_uses(self, node: Node) -> Iterator[Use]:
        """The constant operands that a node reads as codes, and that are floats."""
        for use in node.uses:
            if self.graph.is_constant(use.value) and not self.is_given(use.value):
                yield use


def assign_activations(flow: Flow, before: Assignment) -> Assignment:
    """Each value that has a recorded range, by its own range alone."""
    graph, found = flow.graph, dict[SSAValue, Assigned]()
    of_schemes = dict[tuple[int, Attribute], list[SSAValue]]()
    for value in graph.values:
        if (given := graph.given.get(value)) is not None:
            found[value] = Assigned(given, Relation.GIVEN, graph.ranges.get(value))
            continue
        if (forced := flow.forced.get(value)) is not None:
            found[value] = forced
            continue
        if value not in graph.ranges:
            continue
        maker = graph.makers.get(value)
        if maker is not None and maker.filler is not None:
            # The padding may be outside the recorded range.
            continue
        key = id(flow.precision_of(value).activations), element_type_or_self(value.type)
        of_schemes.setdefault(key, []).append(value)
    for values in of_schemes.values():
        scheme = flow.precision_of(values[0]).activations
        for value, assigned in _of_ranges(flow, values, scheme):
            found[value] = assigned
    return before.with_values(found)


def _of_ranges(
    flow: Flow, values: Sequence[SSAValue], scheme: Scheme
) -> Iterator[tuple[SSAValue, Assigned]]:
    """Values of one type by their ranges: all at once, or one by one if one has no parameters."""
    ranges = [flow.graph.ranges[value] for value in values]
    expressed = cast(AnyFloat, element_type_or_self(values[0].type))
    try:
        choice = scheme.choose(*np.asarray(ranges, "f8").T)
        slots = zip(choice.scales.tolist(), choice.zero_points.tolist(), strict=True)
        storage = storage_of(scheme)
        types = [type_of_slot(storage, expressed, *slot) for slot in slots]
    except (ValueError, VerifyException) as error:
        if len(values) > 1:
            for value in values:
                yield from _of_ranges(flow, [value], scheme)
        elif (maker := flow.graph.makers.get(values[0])) is not None:
            reason = f"the range of its result: {error}"
            flow.refusals[maker.op] = NotFoldable(Code.ILLEGAL_TYPE, reason)
        return
    for value, type, each in zip(values, types, ranges, strict=True):
        yield value, Assigned(type, Relation.OWN, each)


def assign_mixed_precision(flow: Flow, before: Assignment) -> Assignment:
    """Layers of another precision: their operands are requantized to it, their results from it."""
    default = flow.settings.default
    reads = dict(before.reads)

    def requantize(use: Use, precision: Precision, *, is_first: bool) -> None:
        value = flow.graph.value(use.value)
        made = before.values.get(value) if flow.is_pinned(value) else None
        if made is not None and made.type.storage_format == precision.activations.storage:
            return
        if (link := flow.own(value, precision)) is not None:
            chain = reads.get(use, ())
            reads[use] = (link, *chain) if is_first else (*chain, link)

    for node in flow.graph.nodes:
        precision = flow.precision(node)
        if precision.name == default.name:
            continue
        for use in node.uses:
            if not flow.graph.is_constant(use.value):
                requantize(use, precision, is_first=False)
        for result in node.results:
            for use in flow.graph.readers[result]:
                requantize(use, default, is_first=True)
    return replace(before, reads=reads)


def remove_redundant_quantize(flow: Flow, before: Assignment) -> Assignment:
    """Of requantizations in a row the last one is kept, and that only if it changes the type."""
    reads = dict[Use, tuple[Assigned, ...]]()
    for use, chain in before.reads.items():
        made = before.values.get(flow.graph.value(use.value))
        if made is None or not chain[-1].is_same_as(made):
            reads[use] = chain[-1:]
    return replace(before, reads=reads)


def propagate_backward(flow: Flow, before: Assignment) -> Assignment:
    """From results to operands, where both have to be the same: concat, pad, select, and shapes."""
    graph = flow.graph
    values, reads = dict(before.values), dict(before.reads)
    for node in reversed(graph.nodes):
        is_joining = _joins(node)
        if node.is_clamp:
            values |= _before_clamp(flow, node, values)
            continue
        if not is_joining and (node.relation is not Relation.MOVED or node.table is not None):
            continue
        made = values.get(node.results[0]) if node.results else None
        if made is None:
            continue
        for use, type in zip(node.uses, _types_before(node, made.type), strict=True):
            value = graph.value(use.value)
            if type is None or flow.is_given(use.value):
                continue
            origin = made.origin or graph.keys.get(node.results[0], "")
            link = Assigned(type, node.relation, made.range, origin)
            if graph.is_constant(use.value):
                if is_joining and not np.isnan(graph.numbers(use.value)).any():
                    reads[use] = (link,)
                continue
            is_alone = all(each.op is use.op for each in graph.readers[value])
            if flow.is_pinned(value) or flow.is_pinned(node.results[0]):
                # One of both does not follow the other: it is read as the result is made.
                if is_joining or flow.is_pinned(node.results[0]):
                    reads[use] = (link,)
                continue
            if value not in values or (
                is_alone and use not in reads and values[value].type.storage == type.storage
            ):
                values[value] = link
            if is_joining:
                # Propagation forward may change the value's parameters, and must not change these.
                reads[use] = (link,)
    return replace(before, values=values, reads=reads)


def _before_clamp(
    flow: Flow, node: Node, values: Mapping[SSAValue, Assigned]
) -> Mapping[SSAValue, Assigned]:
    """
    The parameters of what a clamp alone reads, and nothing is known of: those of its result.

    The result is the same: rounding does not change which of two numbers is the larger one.
    """
    read = [use for use in node.uses if not flow.graph.is_constant(use.value)]
    made = values.get(node.results[0]) if len(node.results) == 1 else None
    if made is None or len(read) != 1:
        return {}
    value = flow.graph.value(read[0].value)
    is_alone = all(each.op is node.op for each in flow.graph.readers[value])
    if value in values or flow.is_pinned(value) or not is_alone or value in flow.graph.ranges:
        return {}
    if element_type_or_self(value.type) != made.type.expressed_type:
        return {}
    origin = made.origin or flow.graph.keys.get(node.results[0], "")
    return {value: Assigned(made.type, Relation.SHARED, made.range, origin)}


def _joins(node: Node) -> bool:
    """Whether several operands have to be read as the result is made."""
    return node.relation is Relation.SHARED and len(node.uses) > 1 and len(node.results) == 1


def _passes_on(node: Node) -> bool:
    """Whether the result only holds elements of one operand."""
    if len(node.uses) != 1 or len(node.results) != 1:
        return False
    return node.relation is Relation.MOVED or node.relation is Relation.SHARED


def assign_constant_inputs(flow: Flow, before: Assignment) -> Assignment:
    """Constant operands that nothing else determines, by their own values."""
    reads = dict[Use, tuple[Assigned, ...]]()
    for node in flow.graph.nodes:
        for use in flow.constant_uses(node):
            if use in before.reads:
                continue
            try:
                reads[use] = (flow.of_constant(use, flow.precision(node)),)
            except (NotFoldable, VerifyException) as error:
                flow.refusals[node.op] = NotFoldable(Code.ILLEGAL_TYPE, str(error))
    return before.with_reads(reads)


def assign_fixed_values(flow: Flow, before: Assignment) -> Assignment:
    """Results whose range is known before any data, and scales that have to be whole numbers."""
    values = dict[SSAValue, Assigned]()
    for node in flow.graph.nodes:
        if not node.fixed and node.relation is not Relation.WHOLE_NUMBER:
            continue
        for result in node.results:
            if flow.is_pinned(result):
                continue
            if (own := flow.own(result, flow.precision(node))) is not None:
                values[result] = own
    return before.with_values(values)


def propagate_forward(flow: Flow, before: Assignment) -> Assignment:
    """From operands to results, where a result only holds elements of an operand."""
    graph, values, reads = flow.graph, dict(before.values), dict(before.reads)
    for node in graph.nodes:
        if not _passes_on(node):
            continue
        use, result = node.uses[0], node.results[0]
        value = graph.value(use.value)
        chain = before.reads.get(use)
        read = chain[-1] if chain else values.get(value)
        if read is None or flow.is_pinned(result):
            continue
        type = _type_behind(node, read.type)
        if type is not None and (type := _expressing(type, result)) is not None:
            origin = read.origin or graph.keys.get(value, "")
            values[result] = Assigned(type, node.relation, read.range, origin)
            if node.filler is not None:
                reads[node.filler] = (values[result],)
    return replace(before, values=values, reads=reads)


def assign_weights(flow: Flow, before: Assignment) -> Assignment:
    """Constant weights, by their own values, along the axes that their layers name."""
    reads = dict[Use, tuple[Assigned, ...]]()
    alike = dict[object, list[_Weight]]()
    for node in flow.graph.nodes:
        for use in node.singles:
            if flow.is_given(use.value):
                continue
            try:
                reads[use] = (_of_singles(flow, node, use),)
            except (NotFoldable, VerifyException, ValueError) as error:
                flow.refusals[node.op] = NotFoldable(Code.ILLEGAL_TYPE, str(error))
        if node.weight is None or flow.is_given(node.weight.value):
            continue
        if not flow.graph.is_constant(node.weight.value):
            continue
        try:
            weight = _weight(flow, node, node.weight)
        except NotFoldable as error:
            flow.refusals[node.op] = error
            continue
        is_small = weight.numbers.size <= _MOST_ALIKE
        key = weight.kind if is_small else weight.use
        alike.setdefault(key, []).append(weight)
    for weights in alike.values():
        for start in range(0, len(weights), _MOST_ALIKE):
            reads |= _of_weights(flow, weights[start : start + _MOST_ALIKE])
    return before.with_reads(reads)


def _of_singles(flow: Flow, node: Node, use: Use) -> Assigned:
    """
    The parameters of a constant with one number for each channel: these are its scales.

    By schemes that have no such rule, and with one scale for all, they are those of any constant.
    Raises NotFoldable, ValueError, or that there is no such type.
    """
    precision, shape = flow.precision(node), shape_of(use.value.type) or ()
    scheme = precision.activations
    is_per_tensor = precision.weights.granularity is WeightGranularity.TENSOR
    is_of_channels = sum(length > 1 for length in shape) <= 1
    if is_per_tensor or not is_of_channels or scheme not in (luci(U8), luci(I16)):
        return flow.of_constant(use, precision)
    numbers = np.broadcast_to(flow.graph.numbers(use.value).reshape(-1), prod(shape))
    choice, _ = luci_single_values(numbers.reshape(shape), scheme.storage)
    type = type_of_choice(choice, shape, cast(AnyFloat, element_type_or_self(use.value.type)))
    return Assigned(type, Relation.GIVEN, Range(float(numbers.min()), float(numbers.max())))


_MOST_ALIKE: Final = 1 << 10
"""The most elements of a weight that is quantized with others, and the most of these."""


class _Weight(NamedTuple):
    """A weight in floats, and which of its elements share a slot."""

    node: Node
    use: Use
    numbers: NDArray[np.floating]
    blocks: Blocks
    scheme: Scheme

    @property
    def kind(self) -> object:
        """What those have in common that are quantized at once."""
        expressed = element_type_or_self(self.use.value.type)
        return id(self.scheme), expressed, self.blocks, self.numbers.shape, self.numbers.dtype.str


def _weight(flow: Flow, node: Node, use: Use) -> _Weight:
    """The weight of a node. Raises NotFoldable."""
    moved = flow.graph.constant(use.value)
    assert moved is not None
    blocks = _blocks_of(flow, node, moved.shape)
    numbers = flow.graph.numbers(use.value)
    if numbers.shape != moved.shape:
        numbers = np.broadcast_to(numbers.reshape(()), moved.shape)
    return _Weight(node, use, numbers, blocks, flow.precision(node).weights.scheme)


def _of_weights(flow: Flow, weights: Sequence[_Weight]) -> Mapping[Use, tuple[Assigned, ...]]:
    """The parameters of weights of one kind: all at once, or one by one if one has none."""
    first = weights[0]
    reads = dict[Use, tuple[Assigned, ...]]()
    try:
        if first.numbers.size > _MOST_ALIKE:
            # Its codes are not kept beside its numbers.
            found = array_range(first.numbers, first.blocks)
            if found.nans:
                raise ValueError("one is NaN, which has no code")
            chosen = [(None, first.scheme.choose(found.minimum, found.maximum), found)]
        else:
            arrays = [weight.numbers for weight in weights]
            quantized = quantize_alike(arrays, first.scheme, first.blocks)
            chosen = [(each.codes, each.choice, each.range) for each in quantized]
        expressed = cast(AnyFloat, element_type_or_self(first.use.value.type))
        for weight, (codes, choice, found) in zip(weights, chosen, strict=True):
            type = type_of_choice(choice, weight.numbers.shape, expressed)
            whole = Range(float(found.minimum.min()), float(found.maximum.max()))
            assigned = Assigned(type, Relation.GIVEN, whole)
            reads[weight.use] = (assigned,)
            flow.weights[weight.use, assigned] = codes, choice
    except (VerifyException, TooManySlotsError, ValueError) as error:
        if len(weights) == 1:
            reason = f"its weights: {error}"
            flow.refusals[first.node.op] = NotFoldable(Code.ILLEGAL_TYPE, reason)
            return {}
        return {use: read for each in weights for use, read in _of_weights(flow, [each]).items()}
    return reads


def assign_biases(flow: Flow, before: Assignment) -> Assignment:
    """Biases, in steps of the product of the scales of the input and of the weights."""
    reads = dict[Use, tuple[Assigned, ...]]()
    for node in flow.graph.nodes:
        if node.unknown_bias is not None:
            added = f"operand {node.unknown_bias.number} of '{name_of(node.unknown_bias.op)}'"
            flow.float_biases[node.op] = f"{added} is no constant"
        if node.bias is None or flow.is_given(node.bias.use.value):
            continue
        try:
            found = _of_bias(flow, node, before)
        except (NotFoldable, VerifyException, TooManySlotsError) as error:
            flow.float_biases[node.op] = str(error)
            continue
        reads[node.bias.use] = (found,)
    return before.with_reads(reads)


def _types_before(node: Node, type: UniformQuantizedType) -> Sequence[UniformQuantizedType | None]:
    """The type of each operand with which the result has `type`; None where there is none."""
    is_whole = all(movement.values is ValueSet.SAME for movement in node.movements)
    if type.granularity is Granularity.PER_TENSOR:
        return [type if _joins(node) or is_whole else None] * len(node.uses)
    shapes = [shape_of(use.value.type) for use in node.uses]
    shape = shape_of(node.results[0].type)
    if shape is None or DYNAMIC in shape:
        return [None] * len(shapes)
    if not node.movements:
        return [type if node.keeps_places and each == shape else None for each in shapes]
    return [
        _type_before(node.movements, type, shape, each, at, shapes)
        for at, each in enumerate(shapes)
    ]


def type_before_shape(node: Node, type: UniformQuantizedType) -> UniformQuantizedType | None:
    """The type before a shape op of one operand that is behind it `type`, even if it repeats."""
    if type.granularity is Granularity.PER_TENSOR:
        return type
    return _types_before(node, type)[0]


def _type_before(
    movements: Sequence[Movement],
    type: UniformQuantizedType,
    shape: Shape,
    operand: Shape | None,
    at: int,
    shapes: Sequence[Shape | None],
) -> UniformQuantizedType | None:
    """The type of one operand, by the movement undone."""
    if operand is None or DYNAMIC in operand:
        return None
    try:
        match movements:
            case [Concat() as concat]:
                parameters = type.parameters_on(shape)
                axis = concat.dim
                lengths = [each[axis] for each in shapes if each is not None]
                start = sum(lengths[:at])
                starts = [start if each == axis else 0 for each in range(len(shape))]
                ends = [low + length for low, length in zip(starts, operand, strict=True)]
                piece = Slice.between(starts, ends, [1] * len(shape))
                return type.with_parameters(piece(parameters))
            case [movement] if len(shapes) == 1:
                if type.granularity is Granularity.PER_AXIS:
                    found = _axis_before(movement, type.quantized_dimensions[0], shape, operand)
                    if found is not None:
                        return _along_axis(type, *found, operand)
                parameters = type.parameters_on(shape)
                before = pulled_back(movement, parameters, operand)
                return None if before is None else type.with_parameters(before)
            case _:
                return None
    except (MovementError, TooManySlotsError):
        return None


# Layers are alike: what is added to one is broadcast as what is added to the next.
@registered_cache
@lru_cache(maxsize=256)
def _axis_before(
    movement: Movement, axis: int, shape: Shape, operand: Shape
) -> tuple[int, tuple[int, ...]] | None:
    """
    Where an axis is before a movement: its number there, and which of its positions, in order.

    None if several axes, or none, take its part.
    """
    length = shape[axis]
    lengths = tuple(length if each == axis else 1 for each in range(len(shape)))
    numbers = np.arange(1, length + 1, dtype="f8").reshape(lengths)
    formats = FLOAT_FORMATS["f64"], StorageFormat(8, signed=True)
    zeros = np.zeros(lengths, np.int64)
    numbered = QuantizationParameters.from_blocks(shape, numbers, zeros, *formats)
    before = pulled_back(movement, numbered, operand)
    coarse = None if before is None else before.coarsen()
    if coarse is None:
        return None
    axes = [each for each, count in enumerate(coarse.scales.shape) if count > 1]
    if len(axes) != 1 or coarse.block_sizes[axes[0]] != 1:
        return None
    return axes[0], tuple(int(number) - 1 for number in coarse.scales.reshape(-1).tolist())


def _along_axis(
    type: UniformQuantizedType, axis: int, positions: Sequence[int], shape: Shape
) -> UniformQuantizedType:
    """A per-axis type of other positions, along another axis."""
    lengths = tuple(len(positions) if each == axis else 1 for each in range(len(shape)))
    scales = type.scales.take(positions).reshape(lengths)
    zero_points = type.zero_points.take(positions).reshape(lengths)
    return type_of_slots(type.storage, type.expressed_type, scales, zero_points, shape)


def _expressing(type: UniformQuantizedType, value: SSAValue) -> UniformQuantizedType | None:
    """The type that stands for floats of the type of a value; None if their range is too small."""
    expressed = cast(AnyFloat, element_type_or_self(value.type))
    if type.expressed_type == expressed:
        return type
    try:
        return UniformQuantizedType.of_slots(type.storage, expressed, type.slots.data)
    except VerifyException:
        return None


def _type_behind(node: Node, type: UniformQuantizedType) -> UniformQuantizedType | None:
    """The type of the result of an op that moves an operand of `type`."""
    if type.granularity is Granularity.PER_TENSOR:
        return type
    operand = shape_of(node.uses[0].value.type)
    if not node.movements:
        is_alike = node.keeps_places and operand == shape_of(node.results[0].type)
        return type if is_alike else None
    if operand is None or DYNAMIC in operand:
        return None
    parameters = type.parameters_on(operand)
    try:
        for movement in node.movements:
            parameters = movement(parameters)
        return type.with_parameters(parameters)
    except (MovementError, TooManySlotsError):
        return None


def _blocks_of(flow: Flow, node: Node, shape: Shape) -> Blocks:
    """Which elements of the weights of a node share a slot. Raises NotFoldable."""
    if node.table is not None:
        axes = WeightAxes((node.table.axis,), ())
    else:
        assert node.side is not None
        of_side = node.side.channel_axes, node.side.contracted_axes
        axes = WeightAxes(*(long_axes(each, shape) for each in of_side))
    policy = flow.precision(node).weights
    refusal: NotFoldable | None = None
    for granularity in policy.granularities:
        try:
            return blocks_of_weight(axes, shape, granularity, policy.block_size)
        except NotFoldable as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _of_bias(flow: Flow, node: Node, before: Assignment) -> Assigned:
    """The parameters of a bias. Raises NotFoldable, or that there is no such type."""
    assert node.bias is not None
    assert node.weight is not None
    use = node.bias.use
    read = before.read(node.uses[0], flow.graph.value(node.uses[0].value)) if node.uses else None
    if read is None or read.type.granularity is not Granularity.PER_TENSOR:
        raise NotFoldable(Code.NO_RECORD, "its input has no single scale")
    slots = _scales_of(flow, node.weight, before)
    of_bias = shape_of(use.value.type) or ()
    lengths = [slots.shape[axis] for axes in node.bias.weight_axes for axis in axes]
    if prod(lengths) != slots.size:
        raise NotFoldable(Code.GRANULARITY, "its sums are of products of several scales")
    order = [axis for axes in node.bias.weight_axes for axis in axes]
    others = [axis for axis in range(slots.ndim) if axis not in order]
    divided = [prod(slots.shape[axis] for axis in axes) for axes in node.bias.weight_axes]
    if slots.size > 1 and any(
        count not in (1, length) for count, length in zip(divided, of_bias, strict=True)
    ):
        raise NotFoldable(Code.GRANULARITY, "it has not one number for each channel")
    scales = slots.transpose(order + others).reshape(divided)
    product = np.asarray(np.float32(read.type.scales.item()) * scales.astype("f4"))
    numbers = flow.graph.numbers(use.value)
    is_nothing = product == 0
    if is_nothing.any() and numbers.max() == numbers.min() == 0:
        product = np.where(is_nothing, np.float32(1), product)
    with np.errstate(all="ignore"):
        is_step = (product > 0) & np.isfinite(product) & np.isfinite(np.float32(1) / product)
    if not is_step.all() or np.isnan(numbers).any():
        raise NotFoldable(
            Code.ILLEGAL_TYPE, "a product of two scales is no step in float32, or an element is NaN"
        )
    precision = flow.precision(node)
    storage = precision.bias_storage
    bits = storage.width if storage.width > MAX_STORAGE_WIDTH else 0
    held = _storage_of_bias(min(storage.width, MAX_STORAGE_WIDTH))
    expressed = cast(AnyFloat, element_type_or_self(use.value.type))
    zeros = np.zeros(product.shape, np.int64)
    like = type_of_slots(held, expressed, product, zeros, of_bias)
    return Assigned(like, Relation.DERIVED, None, flow.graph.keys.get(node.results[0], ""), bits)


@registered_cache
@lru_cache(maxsize=64)
def _storage_of_bias(width: int) -> Storage:
    return Storage.of(IntegerType(width), signed=True)


def _scales_of(flow: Flow, use: Use, before: Assignment) -> NDArray[Any]:
    """
    The scales of a weight: for each of its axes one, or one for each position.

    Raises NotFoldable.
    """
    moved = flow.graph.constant(use.value)
    assert moved is not None
    if (chain := before.reads.get(use)) is not None:
        if (known := flow.weights.get((use, chain[-1]))) is not None:
            scales = known[1].scales
            if all(count in (1, n) for count, n in zip(scales.shape, moved.shape, strict=True)):
                return scales
        parameters = chain[-1].type.parameters_on(moved.shape)
    else:
        layers = [layer.parameters for layer in moved.layers if layer.parameters is not None]
        if not layers:
            raise NotFoldable(Code.NO_RECORD, "its weights are not quantized")
        parameters = layers[-1]
    return parameters.simplify().expand()[0]


def _range_of(type: UniformQuantizedType) -> Range | None:
    """The range that the codes of a per-tensor type stand for; None for other types."""
    if type.granularity is not Granularity.PER_TENSOR:
        return None
    scale, zero_point = type.single_slot
    ends = type.storage_type_min, type.storage_type_max
    low, high = ((end - zero_point) * scale for end in ends)
    return Range(low, high)


def _size(value: SSAValue) -> int:
    """The number of elements; with one for a length that is not known."""
    return prod(abs(length) for length in shape_of(value.type) or ())


def assign_input_types(flow: Flow, before: Assignment) -> Assignment:
    """Arguments of quantized types, which are requantized for those who read something else."""
    values, reads, declared = dict(before.values), dict(before.reads), dict(before.declared)
    for function in flow.graph.functions:
        arguments = list(function.args)
        for number, scheme in _declared(arguments, flow.settings.input_types, "input-types"):
            argument = arguments[number]
            made = before.values.get(argument)
            found = _as_declared(flow, made, argument, scheme)
            if made is None or found is None:
                continue
            values[argument] = declared[argument] = found
            for use in flow.graph.readers[argument]:
                reads.setdefault(use, (made,))
    return replace(before, values=values, reads=reads, declared=declared)


def assign_output_types(flow: Flow, before: Assignment) -> Assignment:
    """Results of quantized types, to which the values that are returned are requantized."""
    reads, declared = dict(before.reads), dict(before.declared)
    for function in flow.graph.functions:
        for end in (block.last_op for block in function.body.blocks):
            if not isinstance(end, ReturnOp):
                continue
            words = flow.settings.output_types
            for number, scheme in _declared(end.operands, words, "output-types"):
                use = Use(end, number)
                value = flow.graph.value(use.value)
                found = _as_declared(flow, before.read(use, value), value, scheme)
                if found is not None:
                    reads[use] = (*reads.get(use, ()), found)
                    declared[use] = found
    return replace(before, reads=reads, declared=declared)


def _declared(
    values: Sequence[SSAValue], words: Sequence[str], option: str
) -> Iterator[tuple[int, Scheme]]:
    """The numbers of values that get a quantized type. Raises ValueError for other types."""
    if not words:
        return
    if len(words) not in (1, len(values)):
        raise ValueError(f"{option} has {len(words)} types, but the function has {len(values)}")
    for number, value in enumerate(values):
        scheme = declared_scheme(words[number if len(words) > 1 else 0])
        if scheme is None:
            continue
        if is_quantizable(value):
            yield number, scheme
        elif len(words) > 1:
            raise ValueError(f"{option} cannot change number {number}, '{value.type}'")


def _as_declared(
    flow: Flow, made: Assigned | None, value: SSAValue, scheme: Scheme
) -> Assigned | None:
    """The parameters of a value with another storage, or as they are."""
    if made is None or made.type.storage_format == scheme.storage:
        return made
    return flow.own(value, replace(flow.settings.default, activations=scheme))


STEPS: Mapping[str, Step] = MappingProxyType(
    {
        "activations": assign_activations,
        "mixed-precision": assign_mixed_precision,
        "redundant-quantize": remove_redundant_quantize,
        "backward": propagate_backward,
        "constant-inputs": assign_constant_inputs,
        "fixed-values": assign_fixed_values,
        "forward": propagate_forward,
        "weights": assign_weights,
        "biases": assign_biases,
        "input-types": assign_input_types,
        "output-types": assign_output_types,
    }
)
"""By name, in the order in which they are taken first."""

SEQUENCE = (*STEPS, "redundant-quantize")
"""The names of all steps, in order."""
