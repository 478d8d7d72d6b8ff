"""The steps that choose the parameters of weights and biases, from their values and scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import (
    Shape,
)
from qdialect.algebra.parameters import Granularity
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.dialects.quant import Storage
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.interface import Refusal, RefusalCode, name_of
from qdialect.ops.rules import RuleKind
from qdialect.ptq.assignment.parameter_assignment import Assigned, Assignment
from qdialect.ptq.float_graph.flow_graph import Node, Range, Use
from qdialect.ptq.float_graph.flow_reading import filled_with
from qdialect.ptq.schemes.arrays import array_range, quantize_alike
from qdialect.ptq.schemes.blocks import Blocks
from qdialect.ptq.schemes.presets import (
    I16,
    U8,
    luci,
    luci_single_values,
)
from qdialect.ptq.schemes.schemes import MAX_STORAGE_WIDTH, Scheme
from qdialect.ptq.weights import (
    WeightAxes,
    WeightGranularity,
    blocks_of_weight,
    long_axes,
    type_of_choice,
    type_of_slots,
)
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import registered_cache

if TYPE_CHECKING:
    from numpy.typing import NDArray

from qdialect.ptq.assignment.flow import Flow


def assign_weights(flow: Flow, before: Assignment) -> Assignment:
    """Assign parameters to constant weights by their own values, along their channel axes."""
    reads = dict[Use, tuple[Assigned, ...]]()
    alike = dict[object, list[_Weight]]()
    for node in flow.graph.nodes:
        for use in node.singles:
            if flow.is_given(use.value):
                continue
            try:
                reads[use] = (_of_singles(flow, node, use),)
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


def _of_singles(flow: Flow, node: Node, use: Use) -> Assigned:
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
    blocks = _blocks_of(flow, node, moved.shape)
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
            found = array_range(first.numbers, first.blocks)
            if found.nans:
                raise ValueError("an element is NaN, which has no code")
            chosen = [(None, first.scheme.choose(found.minimum, found.maximum), found)]
        else:
            arrays = [weight.numbers for weight in weights]
            quantized = quantize_alike(arrays, first.scheme, first.blocks)
            chosen = [(each.codes, each.choice, each.range) for each in quantized]
        expressed = cast(AnyFloat, element_type_or_self(first.use.value.type))
        for weight, (codes, choice, found) in zip(weights, chosen, strict=True):
            type = type_of_choice(choice, weight.numbers.shape, expressed)
            whole = Range(float(found.minimum.min()), float(found.maximum.max()))
            assigned = Assigned(type, RuleKind.GIVEN, whole)
            reads[weight.use] = (assigned,)
            flow.weights[weight.use, assigned] = codes, choice
    except (VerifyException, TooManySlotsError, ValueError) as error:
        if len(weights) == 1:
            reason = f"its weights: {error}"
            flow.refusals[first.node.op] = Refusal(RefusalCode.ILLEGAL_TYPE, reason)
            return {}
        return {use: read for each in weights for use, read in _of_weights(flow, [each]).items()}
    return reads


def assign_biases(flow: Flow, before: Assignment) -> Assignment:
    """Assign biases the product of the scales of the input and of the weights as their scale."""
    reads = dict[Use, tuple[Assigned, ...]]()
    for node in flow.graph.nodes:
        if node.unknown_bias is not None:
            added = f"operand {node.unknown_bias.number} of '{name_of(node.unknown_bias.op)}'"
            number = filled_with(flow.graph, node.unknown_bias.value)
            what = "is not a constant"
            if number is not None:
                what = f"is filled with {number:g} at run time: write it as a constant"
            flow.float_biases[node.op] = f"{added} {what}"
        if node.bias is None or flow.is_given(node.bias.use.value):
            continue
        try:
            found = _of_bias(flow, node, before)
        except (Refusal, VerifyException, TooManySlotsError) as error:
            flow.float_biases[node.op] = str(error)
            continue
        reads[node.bias.use] = (found,)
    return before.with_reads(reads)


def _blocks_of(flow: Flow, node: Node, shape: Shape) -> Blocks:
    """The blocks of elements of a node's weights that share a slot. Raises Refusal."""
    if node.table is not None:
        axes = WeightAxes((node.table.axis,), ())
    else:
        assert node.side is not None
        of_side = node.side.channel_axes, node.side.contracted_axes
        axes = WeightAxes(*(long_axes(each, shape) for each in of_side))
    policy = flow.precision(node).weights
    refusal: Refusal | None = None
    for granularity in policy.granularities:
        try:
            return blocks_of_weight(axes, shape, granularity, policy.block_size)
        except Refusal as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _of_bias(flow: Flow, node: Node, before: Assignment) -> Assigned:
    """The parameters of a bias. Raises Refusal, VerifyException or TooManySlotsError."""
    assert node.bias is not None
    assert node.weight is not None
    use = node.bias.use
    read = before.read(node.uses[0], flow.graph.value(node.uses[0].value)) if node.uses else None
    if read is None or read.type.granularity is not Granularity.PER_TENSOR:
        raise Refusal(RefusalCode.NO_RECORD, "its input does not have a single scale")
    slots = _scales_of(flow, node.weight, before)
    of_bias = shape_of(use.value.type) or ()
    lengths = [slots.shape[axis] for axes in node.bias.weight_axes for axis in axes]
    if prod(lengths) != slots.size:
        raise Refusal(RefusalCode.GRANULARITY, "it sums products with different scales")
    order = [axis for axes in node.bias.weight_axes for axis in axes]
    others = [axis for axis in range(slots.ndim) if axis not in order]
    divided = [prod(slots.shape[axis] for axis in axes) for axes in node.bias.weight_axes]
    if slots.size > 1 and any(
        count not in (1, length) for count, length in zip(divided, of_bias, strict=True)
    ):
        raise Refusal(RefusalCode.GRANULARITY, "it does not have one number for each channel")
    scales = slots.transpose(order + others).reshape(divided)
    with np.errstate(all="ignore"):
        product = np.asarray(np.float32(read.type.scales.item()) * scales.astype("f4"))
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
    held = _storage_of_bias(min(storage.width, MAX_STORAGE_WIDTH))
    expressed = cast(AnyFloat, element_type_or_self(use.value.type))
    zeros = np.zeros(product.shape, np.int64)
    like = type_of_slots(held, expressed, product, zeros, of_bias)
    if bits and len(like.quantized_dimensions) > 1:
        raise Refusal(
            RefusalCode.GRANULARITY,
            f"it has {bits} bits, and scales along several axes; 'quant.dequantize_bias' has one",
        )
    return Assigned(like, RuleKind.DERIVED, None, flow.graph.keys.get(node.results[0], ""), bits)


@registered_cache
@lru_cache(maxsize=64)
def _storage_of_bias(width: int) -> Storage:
    return Storage.of(IntegerType(width), signed=True)


def _scales_of(flow: Flow, use: Use, before: Assignment) -> NDArray[Any]:
    """
    The scales of a weight. Each axis has length 1, or that of the weight.

    Raises Refusal.
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
            raise Refusal(RefusalCode.NO_RECORD, "its weights are not quantized")
        parameters = layers[-1]
    return parameters.simplify().expand()[0]
