"""Reads a module as a graph: groups ops into nodes, and finds the roles of their operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, isfinite, prod
from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsolatedFromAbove, SymbolTable

from qdialect.algebra.movement import DYNAMIC, BroadcastInDim, Reshape, Shape
from qdialect.dialects.linalg.models import gathering_op
from qdialect.dialects.quant import DequantizeCastOp, QuantizeCastOp, UniformQuantizedType
from qdialect.dialects.quant.storage import StoredType
from qdialect.folding.graph import GraphReader
from qdialect.ir.errors import OpErrors
from qdialect.ir.rewriting import captured_by
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.along_axis import is_recordable, is_statistics, statistics_of
from qdialect.ops.fields import Contraction, Lookup, QuantizationRule, RuleKind, Side
from qdialect.ops.interface import (
    elements_attribute_of,
    known_layer,
    known_rule,
    name_of,
    rule_of,
)
from qdialect.ops.model import model_named
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.float_graph.computed_functions import Computations, is_clamp
from qdialect.ptq.float_graph.float_regions import FloatRegion, float_regions
from qdialect.ptq.float_graph.flow_graph import (
    CLAMP,
    Bias,
    FlowGraph,
    Node,
    Range,
    Use,
    is_mask,
    is_quantizable,
    range_of,
    result_axes,
    stays_float,
)
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import MemoryBudget


def value_graph(
    module: ModuleOp,
    context: Context,
    budget: MemoryBudget,
    *,
    has_reshaped_layers: bool = False,
    needs_integers: bool = True,
) -> FlowGraph:
    """
    Read what is known of the values of a module, and no nodes yet: see `read_nodes`.

    Models of its ops must be active. If `has_reshaped_layers`, a layer may include a reshape of its
    sums, before its bias. If `needs_integers`, raises OpErrors for codes of floats and tables.
    """
    if needs_integers:
        _require_integers(module)
    folding = GraphReader(module, context, budget, has_parts=False).graph
    graph = FlowGraph(module, folding, has_reshaped_layers)
    graph.keys = keys_of(module).of_values
    every = [op for op in _ops_of(module) if not stays_float(op)]
    ops = graph.ops = [op for op in every if _has_floats(op)]
    graph.blocks = [block for op in every for block in _blocks_in(op)]
    for op in ops:
        _read_records(graph, op)
    for op in every:
        _note_derived(graph, op)
    return graph


def _require_integers(module: ModuleOp) -> None:
    """Raise OpErrors for ops on quantized values that store no integers: these are not chosen."""
    for op in module.walk():
        for type in (*op.operand_types, *op.result_types):
            element = element_type_or_self(type)
            if isinstance(element, StoredType) and (reason := element.non_integers) is not None:
                raise OpErrors.of(op, f"cannot be quantized or verified: {reason}")


def read_nodes(graph: FlowGraph) -> FlowGraph:
    """Read the nodes of a graph of values, which is returned."""
    ops, computations = graph.ops, Computations(graph)
    regions = float_regions(ops, computations)
    taken = {op: region for region in regions for op in region.ops}
    done = set[Operation]()
    for op in ops:
        if op in done:
            continue
        if (region := taken.get(op)) is not None:
            if op is region.ops[-1]:
                graph.nodes.append(_of_region(graph, region))
            continue
        node = _node(graph, op, computations)
        if node is not None:
            graph.nodes.append(node)
            done.update(node.ops)
    for value in [graph.value(use.value) for node in graph.nodes for use in node.uses]:
        # Weights may be reshaped after they were computed from constants.
        if value in graph.derived and (ends := range_of(graph, value)) is not None:
            graph.ranges[value] = ends
    for node in graph.nodes:
        if node.kind is RuleKind.MOVED and node.uses:
            _drop_padding(graph, node)
    biases = {node.bias.use.op: node for node in graph.nodes if node.bias is not None}
    # The broadcast of a bias belongs to its layer.
    graph.nodes = [node for node in graph.nodes if node.bias is not None or node.op not in biases]
    graph.of_biases = {op: node for op, node in biases.items() if op not in node.ops}
    return graph


def _drop_padding(graph: FlowGraph, node: Node) -> None:
    """
    Drop the range of a result that is infinite by its padding: that of a maximum is -inf.

    The result has the parameters of the operand, whose lowest code is not above any element.
    """
    ends = [graph.ranges.get(value) for value in (graph.value(node.uses[0].value), *node.results)]
    if ends[0] is None or not all(map(isfinite, ends[0])):
        return
    for result, own in zip(node.results, ends[1:], strict=True):
        if own is not None and own.minimum == -inf and isfinite(own.maximum):
            del graph.ranges[result]


def _ops_of(op: Operation) -> Iterator[Operation]:
    """The ops in functions and in control flow; regions of other ops are their own computation."""
    pending = [op]
    while pending:
        op = pending.pop()
        yield op
        inner = [inner_op for block in _blocks_in(op) for inner_op in block.ops]
        pending += reversed(inner)


def _blocks_in(op: Operation) -> Sequence[Block]:
    """The blocks of an op that hold ops on tensors of the model."""
    is_whole = model_named(name_of(op)).has_blocks or any(
        op.has_trait(trait, value_if_unregistered=False)
        for trait in (SymbolTable, IsolatedFromAbove)
    )
    return [block for region in op.regions for block in region.blocks] if is_whole else ()


def _has_floats(op: Operation) -> bool:
    return any(is_quantizable(value) for value in (*op.operands, *op.results))


def _read_records(graph: FlowGraph, op: Operation) -> None:
    """Record the ranges or the parameters that an op attaches to its operand."""
    if is_statistics(op):
        value = graph.value(op.operands[0])
        low, high = statistics_of(op, shape_of(op.operands[0].type)).layer
        graph.ranges.setdefault(value, Range(float(low), float(high)))
    elif isinstance(op, QuantizeCastOp | DequantizeCastOp) and not _casts_uniform(op):
        return
    elif isinstance(op, QuantizeCastOp):
        value = graph.value(op.operands[0])
        graph.given.setdefault(value, _uniform(op.results[0]))
        graph.codes.setdefault(value, op.results[0])
        return
    elif isinstance(op, DequantizeCastOp):
        maker = op.operands[0].owner
        if not isinstance(maker, QuantizeCastOp) or maker.input.type != op.results[0].type:
            # The codes come from an argument, a requantization, or an op on quantized types.
            type = _uniform(op.operands[0])
            graph.given[op.results[0]], graph.codes[op.results[0]] = type, op.operands[0]
            return
        value = graph.value(maker.input)
    else:
        return
    graph.same[op.results[0]] = value
    graph.last[value] = op.results[0]


def _casts_uniform(op: QuantizeCastOp | DequantizeCastOp) -> bool:
    """Whether a cast is between ranked tensors of floats and of uniform quantized elements."""
    floats, codes = op.input, op.result
    if isinstance(op, DequantizeCastOp):
        floats, codes = codes, floats
    return is_quantizable(floats) and isinstance(
        element_type_or_self(codes.type), UniformQuantizedType
    )


def _uniform(codes: SSAValue) -> UniformQuantizedType:
    return cast(UniformQuantizedType, element_type_or_self(codes.type))


def _of_region(graph: FlowGraph, region: FloatRegion) -> Node:
    exit_op = region.ops[-1]
    uses = [
        Use(op, number)
        for outer in region.ops
        for op in (outer, gathering_op(outer))
        if op is not None
        for number, operand in enumerate(op.operands)
        if graph.value(operand) in region.entries
    ]
    kind = RuleKind.FIXED if region.fixed else RuleKind.OWN
    rule = QuantizationRule(kind, fixed=region.fixed)
    return Node(region.ops, rule, tuple(uses), tuple(exit_op.results), name=region.name)


def _node(graph: FlowGraph, op: Operation, computations: Computations) -> Node | None:
    """The node that starts with an op; None if there is none."""
    if is_statistics(op) or isinstance(op, QuantizeCastOp | DequantizeCastOp):
        return None
    if elements_attribute_of(op) is not None:
        return None
    # An op may compute a maximum and its position, of which one is unused.
    used = [result for result in op.results if result.first_use is not None] or list(op.results)
    if used and all(result in graph.derived or graph.is_constant(result) for result in used):
        return None
    results = tuple(filter(is_recordable, used))
    layer = known_layer(op)
    if isinstance(layer, Contraction):
        return _layer(graph, op, layer)
    if isinstance(layer, Lookup):
        uses = () if graph.is_constant(op.operands[layer.operand]) else (Use(op, layer.operand),)
        weight = None if uses else Use(op, layer.operand)
        return Node((op,), _MOVED, uses, results, weight=weight)
    if len(results) == 1 and (moved := graph.movements(op)) is not None:
        operands, movements, padding = moved
        read = [*operands, padding] if padding is not None else list(operands)
        uses = [use for use in _uses_of(op, read) if is_quantizable(use.value)]
        rule = _MOVED if len(uses) == 1 else _SHARED
        return _joining(graph, Node((op,), rule, tuple(uses), results, tuple(movements)))
    if (inner := gathering_op(op)) is not None:
        return Node((inner, op), _SHARED, (Use(inner, 0),), results)
    rule = known_rule(op)
    if rule is None:
        return None
    node = _joining(graph, _computing(graph, op, rule, results, computations))
    return replace(node, refusal=_MASK) if not node.refusal and is_mask(graph, op) else node


def _uses_of(op: Operation, values: Sequence[SSAValue]) -> list[Use]:
    """The operands of an op that are `values`, which may have duplicates."""
    numbers = dict[SSAValue, list[int]]()
    for number, operand in enumerate(op.operands):
        numbers.setdefault(operand, []).append(number)
    # A region may yield the padding, which is not an operand.
    return [Use(op, numbers[value].pop(0)) for value in values if value in numbers]


def _joining(graph: FlowGraph, node: Node) -> Node:
    """
    A node whose operands share parameters, with padding by the lowest number as its `padding`.

    A select of the lowest number is a mask, and is refused: no parameters suit both operands.
    """
    if node.kind is not RuleKind.SHARED or len(node.uses) != 2:
        return node
    for use, other in (node.uses, node.uses[::-1]):
        if graph.stored(use.value) is None or graph.is_constant(other.value):
            continue
        if _is_below_all(graph, use.value):
            if node.rule.keeps_places:
                return replace(node, refusal=_MASK)
            return replace(node, uses=(other,), padding=use)
    return node


def _is_below_all(graph: FlowGraph, value: SSAValue) -> bool:
    """Whether the elements of a constant are the lowest number of their type, or infinite."""
    format = FLOAT_FORMATS[cast(AnyFloat, element_type_or_self(value.type)).name]
    lowest = max(-format.largest, float(np.finfo("f4").min))
    return bool((graph.numbers(value) <= lowest).all())


def _note_derived(graph: FlowGraph, op: Operation) -> None:
    """Record the results of an op whose operands are computed from constants."""
    is_list = model_named(name_of(op)).integers is not None
    if is_list and not any(map(_is_tensor, op.operands)):
        # It numbers positions, or has no elements that are specified.
        graph.derived.update(op.results)
    has_blocks = model_named(name_of(op)).has_blocks
    if not op.operands or (op.regions and (has_blocks or any(map(_is_tensor, captured_by(op))))):
        return
    if is_statistics(op):
        if graph.value(op.operands[0]) in graph.derived:
            graph.derived.update(op.results)
        return
    if isinstance(op, QuantizeCastOp | DequantizeCastOp) or all(map(graph.is_constant, op.results)):
        return
    makers = [value.owner for value in op.operands]
    if all(
        value in graph.derived
        or graph.is_constant(value)
        or (isinstance(maker, Operation) and elements_attribute_of(maker) is not None)
        for value, maker in zip(op.operands, makers, strict=True)
    ):
        graph.derived.update(filter(_is_tensor, op.results))


def _is_tensor(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)


_MASK: Final = "it masks with numbers far outside of the range of the other ones"


def _computing(
    graph: FlowGraph,
    op: Operation,
    rule: QuantizationRule,
    results: tuple[SSAValue, ...],
    computations: Computations,
) -> Node:
    numbers = range(len(op.operands)) if rule.operands is None else rule.operands
    uses = [
        Use(op, at) for at in numbers if at < len(op.operands) and is_quantizable(op.operands[at])
    ]
    per_channel = [Use(op, at) for at in rule.per_channel if at < len(op.operands)]
    constants = tuple(use for use in per_channel if graph.is_constant(use.value))
    # Others are activations.
    uses += [use for use in per_channel if use not in constants]
    name = CLAMP if _clamps(graph, op, rule, uses, computations) else ""
    return Node((op,), rule, tuple(uses), results, channel_constants=constants, name=name)


_MOVED: Final = QuantizationRule(RuleKind.MOVED)
_SHARED: Final = QuantizationRule(RuleKind.SHARED)
_OWN: Final = QuantizationRule(RuleKind.OWN)

_LIMITS: Final = frozenset({"clamp", "max", "min"})


def _clamps(
    graph: FlowGraph,
    op: Operation,
    rule: QuantizationRule,
    uses: Sequence[Use],
    computations: Computations,
) -> bool:
    """Whether an op clamps one operand by constants, perhaps by comparisons and selections."""
    if rule.functions and rule.functions <= _LIMITS:
        return sum(not graph.is_constant(use.value) for use in uses) == 1
    return (
        "select" in rule.functions
        and len(uses) == 1 == len(op.results)
        and is_clamp(computations, op.results[0], graph.value(uses[0].value))
    )


def _layer(graph: FlowGraph, op: Operation, layer: Contraction) -> Node:
    """A sum of products, with its bias."""
    numbers = [
        number for number in (1, 0) if graph.is_constant(op.operands[layer.operands[number]])
    ]
    weight = side = None
    if numbers:
        side = layer.side(numbers[0])
        weight = Use(op, side.operand)
    uses = tuple(Use(op, at) for at in layer.operands if weight is None or at != weight.number)
    ops, result = (op,), op.results[0]
    bias = None
    if weight is not None and side is not None:
        bias = _own_bias(graph, op, layer, side)
        if bias is None and (added := _added_bias(graph, op, layer, side)) is not None:
            adders, bias = added
            ops, result = (op, *adders), adders[-1].results[0]
    return Node(ops, _OWN, uses, (result,), weight=weight, side=side, bias=bias)


def unknown_bias(graph: FlowGraph, node: Node) -> Use | None:
    """The operand of a layer that is added to the sums, if it is not a constant."""
    if node.bias is not None or not isinstance(node.layer, Contraction):
        return None
    use = _addend(node.ops[0], node.layer)
    if use is None or graph.is_constant(use.value):
        return None
    return None if graph.filled_with(use.value) == 0 else use


def _addend(op: Operation, layer: Contraction) -> Use | None:
    """The operand of a layer that is added to the sums, if it has one."""
    if layer.bias is None or layer.bias >= len(op.operands):
        return None
    use = Use(op, layer.bias)
    return use if is_quantizable(use.value) else None


def _own_bias(graph: FlowGraph, op: Operation, layer: Contraction, side: Side) -> Bias | None:
    """The operand of a layer that is added to the sums, if it is a constant."""
    if (use := _addend(op, layer)) is None:
        return None
    if (constant := graph.constant(use.value)) is None:
        if (broadcast := _before_broadcast(graph, use.value)) is None:
            return None
        return _bias(graph, op, *broadcast, layer.result, layer, side)
    if len(constant.shape) == 1:
        # It has one number for each channel, or one for all.
        return Bias(use, (_channels(layer, side),))
    is_plain = graph.stored(use.value) is not None
    if is_plain and constant.splat is not None and not (constant.splat.value << 1):
        # The sums start from zero.
        return None
    return _bias(graph, op, use, range(len(layer.result)), layer.result, layer, side)


def _added_bias(
    graph: FlowGraph, op: Operation, layer: Contraction, side: Side
) -> tuple[Sequence[Operation], Bias] | None:
    """
    A constant that the only reader of a layer adds to it, behind the ops from the sums to the one
    that adds it, the latter included.
    """
    sums, labels, ops = op.results[0], tuple(layer.result), list[Operation]()
    while (reader := _only_reader(graph, sums)) is not None and graph.has_reshaped_layers:
        moved = _moved_labels(graph, reader.op, sums, labels, side)
        moved = None if sums in graph.given else moved
        if moved is None:
            break
        sums, labels = reader.op.results[0], moved
        ops.append(reader.op)
    if reader is None:
        return None
    adder, number = reader
    rule = rule_of(adder)
    if rule is None or rule.functions != frozenset({"add"}):
        return None
    added = range(len(adder.operands)) if rule.operands is None else rule.operands
    others = [at for at in added if at != number]
    if len(added) != 2 or len(others) != 1:
        return None
    use = Use(adder, others[0])
    axes = result_axes(use)
    if axes is None or result_axes(Use(adder, number)) != tuple(range(len(labels))):
        return None
    read = use, axes
    if not graph.is_constant(use.value):
        read = _before_broadcast(graph, use.value)
        if read is None or axes != tuple(range(len(labels))):
            return None
    if graph.stored(read[0].value) is None and sums in graph.given:
        # This is an addition of two quantized values.
        return None
    bias = _bias(graph, op, *read, labels, layer, side)
    return None if bias is None else ([*ops, adder], bias)


def _only_reader(graph: FlowGraph, value: SSAValue) -> Use | None:
    readers = list(graph.readers_of(value))
    return readers[0] if len(readers) == 1 else None


def _moved_labels(
    graph: FlowGraph, op: Operation, operand: SSAValue, labels: Sequence[str], side: Side
) -> tuple[str, ...] | None:
    """The labels of a reshape's result; None if it splits or merges an axis of channels."""
    if len(op.results) != 1 or (moves := graph.movements(op)) is None:
        return None
    operands, movements, padding = moves
    before, after = shape_of(operand.type), shape_of(op.results[0].type)
    if len(operands) != 1 or padding is not None or before is None or after is None:
        return None
    if (
        not all(isinstance(movement, Reshape) for movement in movements)
        or before.count(DYNAMIC) > 1
    ):
        return None
    moved = [""] * len(after)
    for axes, new_axes in _regrouped(before, after):
        if len(axes) == 1 == len(new_axes):
            moved[new_axes[0]] = labels[axes[0]]
        elif any(_weight_axes(labels[axis], side) for axis in axes):
            return None
    return tuple(moved)


def _regrouped(before: Shape, after: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """
    The smallest groups of axes that a reshape regroups among themselves, the last ones first.

    Axes of length 1 are left out. At most one length before it is unknown.
    """
    rest, left = ([at for at, n in enumerate(shape) if n != 1] for shape in (before, after))
    while rest and left:
        axes, new_axes = [rest.pop()], [left.pop()]
        count, length = before[axes[0]], after[new_axes[0]]
        if count == length == DYNAMIC and prod(before[: axes[0]]) != prod(after[: new_axes[0]]):
            # The unknown lengths differ.
            rest, left = rest + axes, left + new_axes
            break
        while count != length and DYNAMIC not in (count, length):
            larger, other, shape = (
                (axes, rest, before) if count < length else (new_axes, left, after)
            )
            if not other or shape[other[-1]] == DYNAMIC:
                break
            larger.append(other.pop())
            count, length = (
                prod(lengths[at] for at in group)
                for lengths, group in ((before, axes), (after, new_axes))
            )
        if count != length:
            rest, left = rest + axes, left + new_axes
            break
        yield axes, new_axes
    if rest or left:
        yield rest, left


def _before_broadcast(graph: FlowGraph, value: SSAValue) -> tuple[Use, Sequence[int]] | None:
    """
    A constant that is broadcast to lengths known only at run time, and its axes there.

    None if the broadcast has several readers.
    """
    broadcast = graph.value(value).owner
    if not isinstance(broadcast, Operation) or (axes := broadcast_axes(graph, broadcast)) is None:
        return None
    use = Use(broadcast, 0)
    is_alone = len(list(graph.readers_of(graph.value(value)))) == 1
    is_bias = is_alone and is_quantizable(use.value) and graph.is_constant(use.value)
    return (use, axes) if is_bias else None


def broadcast_axes(graph: FlowGraph, op: Operation) -> Sequence[int] | None:
    """For each axis of the operand of a broadcast, that of the result; None for other ops."""
    moved = graph.movements(op) if model_named(name_of(op)).repeats else None
    match () if moved is None else moved.movements:
        case [BroadcastInDim(dims)]:
            return dims
        case _:
            return None


def _repeated(graph: FlowGraph, weight: Use) -> frozenset[int]:
    """The axes along which a constant weight has one position, or is broadcast."""
    moved, shape = graph.constant(weight.value), shape_of(weight.value.type) or ()
    strides: Sequence[int] = (1,) * len(shape)
    if moved is not None and moved.unread is None and prod(shape) > 1:
        codes = graph.codes_of(moved)
        strides = codes.strides if codes.size > 1 else (0,) * len(shape)
    lists = enumerate(zip(shape, strides, strict=True))
    return frozenset(axis for axis, (length, stride) in lists if length == 1 or not stride)


def _bias(
    graph: FlowGraph,
    op: Operation,
    use: Use,
    axes: Sequence[int],
    result: Sequence[str],
    layer: Contraction,
    side: Side,
) -> Bias | None:
    """A bias along axes of `result`; None unless it has a number for each channel."""
    labels = [_weight_axes(result[axis], side) for axis in axes]
    axes_of_weight = tuple(axis for weight_axes in labels for axis in weight_axes)
    shape, lengths = shape_of(use.value.type), shape_of(op.operands[side.operand].type)
    lacking = {*_channels(layer, side)} - {*axes_of_weight}
    if lacking and not lacking <= _repeated(graph, Use(op, side.operand)):
        return None
    for length, weight_axes in zip(shape or (), labels, strict=False):
        if (
            weight_axes
            and lengths is not None
            and length != prod(lengths[axis] for axis in weight_axes)
        ):
            return None
    return Bias(use, tuple(labels))


def _weight_axes(label: str, side: Side) -> tuple[int, ...]:
    """The channel axes of the weights along one axis of the result."""
    letters = label.strip("()")
    return tuple(
        side.labels.index(letter)
        for letter in letters
        if letter in side.labels and side.labels.index(letter) in side.channel_axes
    )


def _channels(layer: Contraction, side: Side) -> tuple[int, ...]:
    """The channel axes of the weights, in the order of the result."""
    return tuple(axis for label in layer.result for axis in _weight_axes(label, side))
