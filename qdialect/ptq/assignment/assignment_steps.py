"""
The steps that choose the parameters of a module, in the order of ONE's QuantizeWithMinMax.

Each step is a function of a graph and of the assignment before it. Activations come first, since
all other parameters depend on them. Layers of another precision are separated before parameters
propagate, so that none crosses from one precision to another. Parameters propagate backward, then
forward, so that forward wins where both apply. Fixed parameters are assigned in between, so that
they propagate forward. Biases come last: their scale is the product of the two others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias, cast

from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.parameters import MAX_STORAGE_WIDTH, Granularity, StorageFormat
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.dialects.quant import Storage, UniformQuantizedType
from qdialect.dialects.quant.slots import Slots
from qdialect.ir.errors import OpErrors
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.along_axis import is_statistics
from qdialect.ops.fields import Limit, RuleKind
from qdialect.ops.interface import Refusal, RefusalCode, known_rule, name_of, number_of
from qdialect.ptq.assignment.flow import (
    Flow,
    joins,
    passes_on,
    range_of,
    type_before_shape,
    type_behind,
    type_expressing,
    types_before,
    weight_axes,
)
from qdialect.ptq.assignment.parameter_assignment import Assigned, Assignment
from qdialect.ptq.assignment.settings import Precision, declared_scheme
from qdialect.ptq.codes import blocks_of_weight, type_of_choice
from qdialect.ptq.float_graph.flow_graph import Bias, FlowGraph, Node, Range, Use, is_quantizable
from qdialect.ptq.float_graph.flow_reading import unknown_bias
from qdialect.ptq.schemes.arrays import array_range, quantize_alike
from qdialect.ptq.schemes.presets import I16, U8, luci, luci_single_values
from qdialect.ptq.schemes.schemes import Blocks, Scheme, WeightGranularity
from qdialect.support.lazy_numpy import NDArray, np


def assign_weights(flow: Flow, before: Assignment) -> Assignment:
    """Assign parameters to constant weights by their own values."""
    reads = dict[Use, tuple[Assigned, ...]]()
    alike = dict[object, list[_Weight]]()
    for node in flow.graph.nodes:
        for use in node.channel_constants:
            if flow.is_given(use.value):
                continue
            try:
                assigned = _of_channels(flow, node, use)
                if assigned.type.granularity is Granularity.PER_TENSOR and flow.loses(
                    use, assigned.type
                ):
                    reason = f"codes would lose its operand {use.number}, a very small constant"
                    flow.refusals[node.op] = Refusal(RefusalCode.NUMERICS, reason)
                    continue
                reads[use] = (assigned,)
            except (Refusal, VerifyException, ValueError) as error:
                flow.refusals[node.op] = Refusal(RefusalCode.ILLEGAL_TYPE, str(error))
        if node.weight is None or flow.is_given(node.weight.value):
            continue
        if not flow.graph.is_constant(node.weight.value):
            continue
        try:
            weight = _weight(flow, node, node.weight)
        except Refusal as error:
            flow.refusals[node.op] = error
            continue
        is_small = weight.numbers.size <= _MOST_ALIKE
        key = weight.kind if is_small else weight.use
        alike.setdefault(key, []).append(weight)
    for weights in alike.values():
        for start in range(0, len(weights), _MOST_ALIKE):
            reads |= _of_weights(flow, weights[start : start + _MOST_ALIKE])
    return before.with_reads(reads)


def _of_channels(flow: Flow, node: Node, use: Use) -> Assigned:
    """
    The parameters of a constant with one number for each channel: its magnitudes are the scales.

    With one scale for all, or a scheme without this rule, they are those of any constant. Raises
    Refusal, ValueError, VerifyException or TooManySlotsError.
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
    return Assigned(type, RuleKind.GIVEN, Range(float(numbers.min()), float(numbers.max())))


_MOST_ALIKE: Final = 1 << 10
"""The most elements of a weight that is quantized in a batch, and the most weights of a batch."""


class _Weight(NamedTuple):
    """A float weight, and the blocks of its elements that share a slot."""

    node: Node
    use: Use
    numbers: NDArray[np.floating]
    blocks: Blocks
    scheme: Scheme

    @property
    def kind(self) -> object:
        """A key: constants with equal keys are quantized in one batch."""
        expressed = element_type_or_self(self.use.value.type)
        return id(self.scheme), expressed, self.blocks, self.numbers.shape, self.numbers.dtype.str


def _weight(flow: Flow, node: Node, use: Use) -> _Weight:
    """The weight of a node. Raises Refusal."""
    moved = flow.graph.constant(use.value)
    assert moved is not None
    axes = weight_axes(node).longer(moved.shape)
    blocks, _ = blocks_of_weight([axes], moved.shape, flow.precision(node).weights)
    numbers = flow.graph.numbers(use.value)
    if numbers.shape != moved.shape:
        numbers = np.broadcast_to(numbers.reshape(()), moved.shape)
    return _Weight(node, use, numbers, blocks, flow.precision(node).weights.scheme)


def _of_weights(flow: Flow, weights: Sequence[_Weight]) -> Mapping[Use, tuple[Assigned, ...]]:
    """The parameters of weights with equal keys: as a batch, or one by one if one has none."""
    first = weights[0]
    reads = dict[Use, tuple[Assigned, ...]]()
    try:
        if first.numbers.size > _MOST_ALIKE:
            # The codes are not kept, since the numbers are still in memory.
            range_of_numbers = array_range(first.numbers, first.blocks)
            if range_of_numbers.nans:
                raise ValueError("an element is NaN, which has no code")
            chosen = [
                (
                    None,
                    first.scheme.choose(range_of_numbers.minimum, range_of_numbers.maximum),
                    range_of_numbers,
                )
            ]
        else:
            arrays = [weight.numbers for weight in weights]
            quantized = quantize_alike(arrays, first.scheme, first.blocks)
            chosen = [(item.codes, item.choice, item.range) for item in quantized]
        expressed = cast(AnyFloat, element_type_or_self(first.use.value.type))
        for weight, (codes, choice, range_of_numbers) in zip(weights, chosen, strict=True):
            magnitudes = np.maximum(-range_of_numbers.minimum, range_of_numbers.maximum)
            if magnitudes.any() and bool((magnitudes.ravel() < choice.scales.ravel() / 2).all()):
                reason = "codes would lose its weights, which are very small: all would be 0"
                flow.refusals[weight.node.op] = Refusal(RefusalCode.NUMERICS, reason)
                continue
            type = type_of_choice(choice, weight.numbers.shape, expressed)
            whole = Range(
                float(range_of_numbers.minimum.min()), float(range_of_numbers.maximum.max())
            )
            assigned = Assigned(type, RuleKind.GIVEN, whole)
            reads[weight.use] = (assigned,)
            flow.weights[weight.use, assigned] = codes, choice
    except (VerifyException, TooManySlotsError, ValueError) as error:
        if len(weights) == 1:
            reason = f"its weights: {error}"
            flow.refusals[first.node.op] = Refusal(RefusalCode.ILLEGAL_TYPE, reason)
            return {}
        return {use: read for item in weights for use, read in _of_weights(flow, [item]).items()}
    return reads


def assign_biases(flow: Flow, before: Assignment) -> Assignment:
    """Assign to biases the product of the scales of the input and of the weights."""
    reads = dict[Use, tuple[Assigned, ...]]()
    for node in flow.graph.nodes:
        if (use := unknown_bias(flow.graph, node)) is not None:
            number, what = flow.graph.filled_with(use.value), "is not a constant"
            if number is not None:
                what = f"is filled with {number:g} at run time: write it as a constant"
            flow.float_biases[node.op] = f"operand {use.number} of '{name_of(use.op)}' {what}"
        if node.bias is None or flow.is_given(node.bias.use.value):
            continue
        try:
            assigned = _of_bias(flow, node, before)
        except (Refusal, VerifyException, TooManySlotsError) as error:
            flow.float_biases[node.op] = str(error)
            continue
        reads[node.bias.use] = (assigned,)
    return before.with_reads(reads)


def _of_bias(flow: Flow, node: Node, before: Assignment) -> Assigned:
    """The parameters of a bias. Raises Refusal, VerifyException or TooManySlotsError."""
    assert node.bias is not None
    assert node.weight is not None
    use = node.bias.use
    read = before.read(node.uses[0], flow.graph.value(node.uses[0].value)) if node.uses else None
    if read is None or read.type.granularity is not Granularity.PER_TENSOR:
        raise Refusal(RefusalCode.NO_RECORD, "its input does not have a single scale")
    shape = shape_of(use.value.type) or ()
    scales = _scales_of(flow, node.weight, before)
    product = scales_of_sums(read.type.scales.item(), scales, node.bias)
    numbers = flow.graph.numbers(use.value)
    is_nothing = product == 0
    if is_nothing.any() and numbers.max() == numbers.min() == 0:
        product = np.where(is_nothing, np.float32(1), product)
    with np.errstate(all="ignore"):
        is_step = (product > 0) & np.isfinite(product) & np.isfinite(np.float32(1) / product)
    if not is_step.all() or np.isnan(numbers).any():
        raise Refusal(
            RefusalCode.ILLEGAL_TYPE,
            "a product of two scales is out of range in float32, or an element is NaN",
        )
    precision = flow.precision(node)
    storage = precision.bias_storage
    bits = storage.width if storage.width > MAX_STORAGE_WIDTH else 0
    width = min(storage.width, MAX_STORAGE_WIDTH)
    stored = Storage.of_format(StorageFormat(width, signed=True))
    expressed = cast(AnyFloat, element_type_or_self(use.value.type))
    zeros = np.zeros(product.shape, np.int64)
    like = UniformQuantizedType.of_blocks(stored, expressed, product, zeros, shape)
    if bits and len(like.quantized_dimensions) > 1:
        raise Refusal(
            RefusalCode.GRANULARITY,
            f"it has {bits} bits, and scales along several axes; 'quant.dequantize_bias' has one",
        )
    return Assigned(like, RuleKind.DERIVED, None, flow.graph.keys.get(node.results[0], ""), bits)


def scales_of_sums(
    input_scale: float, weight_scales: NDArray[np.floating], bias: Bias
) -> NDArray[np.float32]:
    """
    The scales of the sums of products that a bias is added to, which are its own scales.

    They are the products of the scale of the input and of the scales of the weights, of which each
    axis has length 1 or that of the weight. The result has an axis for each axis of the bias.
    Raises Refusal if there are several scales for one sum, or for one element of the bias.
    """
    order = [axis for axes in bias.weight_axes for axis in axes]
    axes = range(weight_scales.ndim)
    others = [axis for axis in axes if axis not in order]
    first = weight_scales[tuple(slice(1 if axis in others else None) for axis in axes)]
    if (weight_scales != first).any():
        raise Refusal(RefusalCode.GRANULARITY, "it sums products with different scales")
    weight_scales = first
    lengths = [prod(weight_scales.shape[axis] for axis in axes) for axes in bias.weight_axes]
    shape = shape_of(bias.use.value.type) or ()
    if weight_scales.size > 1 and any(
        count not in (1, length) for count, length in zip(lengths, shape, strict=True)
    ):
        raise Refusal(RefusalCode.GRANULARITY, "it does not have one number for each channel")
    scales = weight_scales.transpose(order + others).reshape(lengths)
    with np.errstate(all="ignore"):
        return np.asarray(np.float32(input_scale) * scales.astype("f4"))


def _scales_of(flow: Flow, use: Use, before: Assignment) -> NDArray[Any]:
    """
    The scales of a weight. Each axis has length 1, or that of the weight.

    Raises Refusal.
    """
    moved = flow.graph.constant(use.value)
    assert moved is not None
    chain = before.reads.get(use)
    if chain and (known := flow.weights.get((use, chain[-1]))) is not None:
        scales = known[1].scales
        if all(count in (1, n) for count, n in zip(scales.shape, moved.shape, strict=True)):
            return scales
    type = chain[-1].type if chain else flow.graph.given_type(use.value)
    if type is None:
        raise Refusal(RefusalCode.NO_RECORD, "its weights are not quantized")
    return type.parameters_on(moved.shape).simplify().expand()[0]


def assign_activations(flow: Flow, before: Assignment) -> Assignment:
    """
    Assign parameters to the values that have recorded ranges.

    They follow from the range alone. Raises OpErrors for an infinite range, unless the scheme has a
    rule for it.
    """
    graph, activations = flow.graph, dict[SSAValue, Assigned]()
    of_schemes = dict[tuple[int, Attribute], list[SSAValue]]()
    for value in graph.values:
        if (given := graph.given.get(value)) is not None:
            activations[value] = Assigned(given, RuleKind.GIVEN, graph.ranges.get(value))
            continue
        if (forced := flow.forced.get(value)) is not None:
            activations[value] = forced
            continue
        if value not in graph.ranges or value in flow.floats:
            continue
        maker = graph.makers.get(value)
        if maker is not None and maker.padding is not None:
            # The padding may be outside the recorded range.
            continue
        key = id(flow.precision_of(value).activations), element_type_or_self(value.type)
        of_schemes.setdefault(key, []).append(value)
    for values in of_schemes.values():
        scheme = flow.precision_of(values[0]).activations
        for value, assigned in _of_ranges(flow, values, scheme):
            activations[value] = assigned
    return before.with_values(activations)


def _of_ranges(
    flow: Flow, values: Sequence[SSAValue], scheme: Scheme
) -> Iterator[tuple[SSAValue, Assigned]]:
    """
    The parameters of values of one type by their ranges.

    All are computed at once, or one by one if one of them has no parameters.
    """
    ranges = [flow.graph.ranges[value] for value in values]
    expressed = cast(AnyFloat, element_type_or_self(values[0].type))
    try:
        choice = scheme.choose(*np.asarray(ranges, "f8").T)
        slots = zip(choice.scales.tolist(), choice.zero_points.tolist(), strict=True)
        storage = Storage.of_format(scheme.storage, scheme.minimum, scheme.maximum)
        types = [
            UniformQuantizedType.of_slots(storage, expressed, Slots.per_tensor(*slot))
            for slot in slots
        ]
    except (ValueError, VerifyException) as error:
        if len(values) > 1:
            for value in values:
                yield from _of_ranges(flow, [value], scheme)
        elif not np.isfinite(ranges).all():
            raise _infinite(flow.graph, values[0]) from None
        elif (maker := flow.graph.makers.get(values[0])) is not None:
            reason = f"the range of its result: {error}"
            flow.refusals[maker.op] = Refusal(RefusalCode.ILLEGAL_TYPE, reason)
        return
    for value, type, ends in zip(values, types, ranges, strict=True):
        yield value, Assigned(type, RuleKind.OWN, ends)


def _infinite(graph: FlowGraph, value: SSAValue) -> OpErrors:
    """The error about the record of an infinite range."""
    record = next(
        op for op in graph.ops if is_statistics(op) and graph.value(op.operands[0]) is value
    )
    key, (low, high) = graph.keys.get(value, ""), graph.ranges[value]
    reason = (
        f"records an infinite range of '{key}', {low:g} to {high:g}: no scale represents it; "
        "record finite numbers, such as those of reduction=percentile, or remove "
        "the record, so that the value stays float"
    )
    return OpErrors.of(record, reason)


def assign_mixed_precision(flow: Flow, before: Assignment) -> Assignment:
    """Requantize the operands and results of layers of another precision."""
    default = flow.settings.default
    reads = dict(before.reads)

    def requantize(use: Use, precision: Precision, *, is_first: bool) -> None:
        value = flow.graph.value(use.value)
        if value in flow.floats:
            return
        own = before.values.get(value) if flow.is_pinned(value) else None
        if own is not None and own.type.storage_format == precision.activations.storage:
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
    for value in flow.graph.values:
        if flow.precision_of(value).name != default.name:
            for use in flow.graph.readers[value]:
                requantize(use, default, is_first=True)
    return replace(before, reads=reads)


def remove_redundant_quantize(flow: Flow, before: Assignment) -> Assignment:
    """Keep only the last of consecutive requantizations, if it changes the type."""
    reads = dict[Use, tuple[Assigned, ...]]()
    for use, chain in before.reads.items():
        own = before.values.get(flow.graph.value(use.value))
        if own is None or chain[-1].type != own.type:
            reads[use] = chain[-1:]
    return replace(before, reads=reads)


def propagate_parameters_backward(flow: Flow, before: Assignment) -> Assignment:
    """Give operands the parameters of results that hold the same elements."""
    graph = flow.graph
    values, reads = dict(before.values), dict(before.reads)
    clamped = set[SSAValue]()
    for node in reversed(graph.nodes):
        is_joining = joins(node)
        if node.is_clamp:
            shared = _before_clamp(flow, node, replace(before, values=values, reads=reads))
            values |= shared
            clamped |= shared.keys()
            continue
        if not (is_joining or _keeps_elements(node)):
            continue
        result = values.get(node.results[0]) if node.results else None
        if result is None:
            continue
        is_pinned = flow.is_pinned(node.results[0])
        for use, type in zip(node.uses, types_before(node, result.type), strict=True):
            value = graph.value(use.value)
            if value in flow.floats:
                continue
            # The operand keeps its own parameters, and is requantized to those of the result.
            is_apart = value in values and (is_pinned or flow.is_pinned(value))
            if is_apart and is_pinned and not is_joining:
                # It is known after propagation forward what the operand has.
                continue
            type = None if type is None else type_expressing(type, use.value)
            if type is None or flow.is_given(use.value):
                continue
            origin = result.origin or graph.keys.get(node.results[0], "")
            link = Assigned(type, node.kind, result.range, origin)
            if graph.is_constant(use.value):
                if is_joining and not np.isnan(graph.numbers(use.value)).any():
                    reads[use] = (link,)
                continue
            is_alone = all(reader.op is use.op for reader in graph.readers[value])
            # Other readers need what the clamp behind cuts.
            is_cut = node.results[0] in clamped and not is_alone
            if not is_apart and (
                (value not in values and not is_cut)
                or (is_alone and use not in reads and values[value].type.storage == type.storage)
            ):
                values[value] = link
                if node.results[0] in clamped:
                    clamped.add(value)
            if is_joining or is_pinned:
                # Propagation forward may change the value's parameters, and must not change these.
                reads[use] = (link,)
    return replace(before, values=values, reads=reads)


def _keeps_elements(node: Node) -> bool:
    """Whether an op has the parameters of its operand: it moves elements, or passes them on."""
    is_moved = node.kind is RuleKind.MOVED and node.table is None
    return is_moved or (node.rule.keeps_places and passes_on(node))


def _before_clamp(flow: Flow, node: Node, before: Assignment) -> Mapping[SSAValue, Assigned]:
    """The parameters of its result, for an operand that only a clamp reads."""
    graph = flow.graph
    read = [use for use in node.uses if not graph.is_constant(use.value)]
    result = before.values.get(node.results[0]) if len(node.results) == 1 else None
    if result is None or len({graph.value(use.value) for use in read}) != 1:
        return {}
    value = graph.value(read[0].value)
    own = before.values.get(value)
    if value in flow.floats or flow.is_pinned(value) or any(use in before.reads for use in read):
        return {}
    is_argument = isinstance(value, BlockArgument)
    if own is not None and (is_argument or own.type.storage != result.type.storage):
        # The callers of a function may rely on the range of an argument.
        return {}
    if not graph.is_before_clamp(value, node):
        return {}
    if result.type.granularity is not Granularity.PER_TENSOR and node.op.regions:
        # A body may read its operand along other axes.
        return {}
    if element_type_or_self(value.type) != result.type.expressed_type:
        return {}
    origin = result.origin or graph.keys.get(node.results[0], "")
    return {value: Assigned(result.type, RuleKind.SHARED, result.range, origin)}


def _behind_clamp(flow: Flow, node: Node, before: Assignment) -> Mapping[SSAValue, Assigned]:
    """
    The parameters of its operand, for the result of a clamp without a range.

    They have codes for the result if it is between the operand and zero, and zero has a code.
    """
    read = [use for use in node.uses if not flow.graph.is_constant(use.value)]
    if len(read) != 1 or len(node.results) != 1:
        return {}
    if not all(_is_toward_zero(flow.graph, op) for op in node.ops):
        return {}
    result, value = node.results[0], flow.graph.value(read[0].value)
    if result in before.values or flow.is_pinned(result) or result in flow.graph.ranges:
        return {}
    assigned = before.read(read[0], value)
    # Scales along axes would have to move as the elements do.
    if assigned is None or assigned.type.granularity is not Granularity.PER_TENSOR:
        return {}
    low, high = assigned.type.storage_type_min, assigned.type.storage_type_max
    if not low <= int(assigned.type.zero_points.item()) <= high:
        return {}
    if element_type_or_self(result.type) != assigned.type.expressed_type:
        return {}
    origin = assigned.origin or flow.graph.keys.get(value, "")
    return {result: Assigned(assigned.type, RuleKind.SHARED, assigned.range, origin)}


def _is_toward_zero(graph: FlowGraph, op: Operation) -> bool:
    """Whether a clamp only makes numbers smaller in magnitude, as its bounds are around zero."""
    rule = known_rule(op)
    if rule is None:
        return False
    if rule.limits is not None:
        low, high = (_numbers_of(graph, limit) for limit in rule.limits)
        return bool((low <= 0).all() and (high >= 0).all())
    if rule.functions not in (frozenset({"max"}), frozenset({"min"})):
        return False
    bounds = [_numbers_of(graph, value) for value in op.operands if graph.is_constant(value)]
    inner = (inner_op for region in op.regions for inner_op in region.walk())
    scalars = (number_of(value) for inner_op in inner for value in inner_op.operands)
    bounds += [np.array(number) for number in scalars if number is not None]
    is_max = "max" in rule.functions
    return bool(bounds) and all(
        ((bound <= 0) if is_max else (bound >= 0)).all() for bound in bounds
    )


def _numbers_of(graph: FlowGraph, limit: Limit) -> NDArray[np.floating]:
    """The numbers of a limit: NaN if they are unknown."""
    if isinstance(limit, SSAValue):
        return np.array(np.nan) if graph.stored(limit) is None else graph.numbers(limit)
    return np.array(limit)


def assign_constant_inputs(flow: Flow, before: Assignment) -> Assignment:
    """Assign parameters to constant operands by their own values."""
    reads = dict[Use, tuple[Assigned, ...]]()
    for node in flow.graph.nodes:
        for use in flow.constant_uses(node):
            if use in before.reads:
                continue
            try:
                reads[use] = (flow.of_constant(use, flow.precision(node)),)
            except (Refusal, VerifyException) as error:
                flow.refusals[node.op] = Refusal(RefusalCode.ILLEGAL_TYPE, str(error))
    return before.with_reads(reads)


def assign_fixed_values(flow: Flow, before: Assignment) -> Assignment:
    """Assign parameters to results with a known range, and round some scales to whole numbers."""
    values = dict[SSAValue, Assigned]()
    for node in flow.graph.nodes:
        if not node.rule.fixed and node.kind is not RuleKind.WHOLE_NUMBER:
            continue
        for result in node.results:
            if flow.is_pinned(result) or result in flow.floats:
                continue
            # Without a range of its own, it may have the range of the value that it is moved to.
            known = before.values.get(result)
            moved = None if known is None else known.range
            if (own := flow.own(result, flow.precision(node), moved)) is not None:
                values[result] = own
    return before.with_values(values)


def propagate_parameters_forward(flow: Flow, before: Assignment) -> Assignment:
    """Give results the parameters of operands whose elements they hold."""
    graph, values, reads = flow.graph, dict(before.values), dict(before.reads)
    for node in graph.nodes:
        if node.is_clamp:
            values |= _behind_clamp(flow, node, replace(before, values=values))
        if not passes_on(node):
            continue
        use, result = node.uses[0], node.results[0]
        value = graph.value(use.value)
        chain = before.reads.get(use)
        read = chain[-1] if chain else values.get(value)
        if read is None:
            continue
        if flow.is_pinned(result):
            given = values.get(result)
            is_free = node.is_clamp or not _keeps_elements(node)
            if given is None or is_free or chain or graph.is_constant(use.value):
                continue
            if type_behind(node, read.type) == given.type:
                # The operand may have more scales than the part of it that is in the result.
                continue
            # Only this op reads it with these parameters, and it may read a part of it.
            type = type_before_shape(node, given.type)
            if type is not None and (type := type_expressing(type, use.value)) is not None:
                origin = given.origin or graph.keys.get(result, "")
                reads[use] = (Assigned(type, node.kind, given.range, origin),)
            continue
        type = type_behind(node, read.type)
        if node.padding is not None and read.type.granularity is not Granularity.PER_TENSOR:
            reason = "the padding value has one scale, and the padded operand has several"
            flow.refusals[node.op] = Refusal(RefusalCode.GRANULARITY, reason)
            continue
        if type is not None and (type := type_expressing(type, result)) is not None:
            origin = read.origin or graph.keys.get(value, "")
            values[result] = Assigned(type, node.kind, read.range, origin)
            if node.padding is not None:
                reads[node.padding] = (values[result],)
    return replace(before, values=values, reads=reads)


def assign_input_types(flow: Flow, before: Assignment) -> Assignment:
    """Give arguments of functions quantized types."""
    values, reads, declared = dict(before.values), dict(before.reads), dict(before.declared)
    for function in flow.graph.functions:
        arguments = list(function.args)
        for number, scheme in _declared(arguments, flow.settings.input_types, "input-types"):
            argument = arguments[number]
            own = before.values.get(argument)
            assigned = _as_declared(flow, own, argument, scheme)
            if own is None or assigned is None:
                continue
            values[argument] = declared[argument] = assigned
            for use in flow.graph.readers[argument]:
                reads.setdefault(use, (own,))
    return replace(before, values=values, reads=reads, declared=declared)


def assign_output_types(flow: Flow, before: Assignment) -> Assignment:
    """Give results of functions quantized types."""
    reads, declared = dict(before.reads), dict(before.declared)
    for function in flow.graph.functions:
        for end in (block.last_op for block in function.body.blocks):
            if not isinstance(end, ReturnOp):
                continue
            words = flow.settings.output_types
            for number, scheme in _declared(end.operands, words, "output-types"):
                use = Use(end, number)
                value = flow.graph.value(use.value)
                assigned = _as_declared(flow, before.read(use, value), value, scheme)
                if assigned is not None:
                    reads[use] = (*reads.get(use, ()), assigned)
                    declared[use] = assigned
    return replace(before, reads=reads, declared=declared)


def _declared(
    values: Sequence[SSAValue], words: Sequence[str], option: str
) -> Iterator[tuple[int, Scheme]]:
    """The positions of values that get a quantized type, and its scheme. Raises ValueError."""
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
    flow: Flow, assigned: Assigned | None, value: SSAValue, scheme: Scheme
) -> Assigned | None:
    """The parameters of a value, converted to another storage if it differs."""
    if assigned is None or assigned.type.storage_format == scheme.storage:
        return assigned
    # Without a range of its own, it has that of the value that its parameters come from.
    ends = assigned.range or range_of(assigned.type)
    return flow.own(value, replace(flow.settings.default, activations=scheme), ends)


Step: TypeAlias = Callable[[Flow, Assignment], Assignment]
"""A step; the first sentence about it is that of its pass, and its name the flag."""

SEQUENCE: Final[Sequence[Step]] = (
    assign_activations,
    assign_mixed_precision,
    remove_redundant_quantize,
    propagate_parameters_backward,
    assign_constant_inputs,
    assign_fixed_values,
    propagate_parameters_forward,
    assign_weights,
    assign_biases,
    assign_input_types,
    assign_output_types,
    remove_redundant_quantize,
)
"""All steps, in order."""
