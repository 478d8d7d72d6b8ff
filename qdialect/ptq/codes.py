"""Constants as codes with a quantized type, and codes as the floats that they stand for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, DenseResourceAttr, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import Shape, Slice
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.algebra.views import Splat, Values, as_view
from qdialect.dialects.quant import QuantizedTensor, Storage, UniformQuantizedType
from qdialect.dialects.quant.storage import element_type_of
from qdialect.ir.elements import element_dtype, float_elements
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.xdsl_private import NAME_OF_UNREGISTERED
from qdialect.ops.interface import Refusal, RefusalCode, elements_attribute_of, find_attribute
from qdialect.ptq.schemes.arrays import quantize_array
from qdialect.ptq.schemes.schemes import (
    PER_TENSOR,
    Blocks,
    Choice,
    Scheme,
    WeightGranularity,
    WeightPolicy,
)
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import np

_PIECE: Final = 1 << 20
"""The number of elements that are dequantized at once."""


class WeightAxes(NamedTuple):
    """The roles of the axes of a weight."""

    channels: tuple[int, ...]
    contracted: tuple[int, ...]

    def longer(self, shape: Shape) -> WeightAxes:
        """Those longer than 1 in a weight of `shape`; of each role, else the last one."""
        return WeightAxes(
            *(tuple(axis for axis in axes if shape[axis] > 1) or axes[-1:] for axes in self)
        )


def blocks_of_weight(
    all_axes: Collection[WeightAxes], shape: Shape, policy: WeightPolicy
) -> tuple[Blocks, WeightGranularity]:
    """
    Which elements of a weight of `shape` share a slot, by the first granularity that it can have.

    `all_axes` has one item unless layers read the weight along other axes. Raises Refusal, about
    the first granularity of the policy.
    """
    refusal: Refusal | None = None
    for granularity in policy.granularities:
        try:
            return _blocks(all_axes, shape, granularity, policy.block_size), granularity
        except Refusal as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _blocks(
    all_axes: Collection[WeightAxes], shape: Shape, granularity: WeightGranularity, block_size: int
) -> Blocks:
    """The blocks of one granularity. Raises Refusal."""
    if granularity is WeightGranularity.TENSOR:
        return PER_TENSOR
    if len(all_axes) > 1:
        raise Refusal(RefusalCode.GRANULARITY, "its weights are read along other axes by others")
    ((channels, contracted),) = all_axes
    sizes = dict.fromkeys(channels, 1)
    if granularity is WeightGranularity.BLOCK:
        if not contracted:
            raise Refusal(RefusalCode.GRANULARITY, "the layer sums over no axis of its weights")
        axis = contracted[-1]
        if shape[axis] % block_size:
            raise Refusal(
                RefusalCode.GRANULARITY,
                f"blocks of {block_size} do not divide axis {axis} of its weights, of length "
                f"{shape[axis]}",
            )
        sizes[axis] = block_size
    return Blocks.of_sizes(sizes)


def quantized_values(
    values: Values, expressed: AnyFloat, scheme: Scheme, blocks: Blocks
) -> tuple[Values, QuantizedTensor]:
    """
    The codes of a constant weight by its own ranges, and its type.

    Raises Refusal for values without codes, and if no type has these parameters.
    """
    numbers = float_elements(values, expressed)
    try:
        if isinstance(values, Splat):
            of_slots = np.broadcast_to(numbers, blocks.slots(values.shape))
            single = Blocks.of_sizes({axis: 1 for axis, _ in blocks.sizes})
            quantized = quantize_array(of_slots, scheme, single)
            codes: Values = Splat(quantized.codes.reshape(-1)[0], values.shape)
        else:
            quantized = quantize_array(numbers, scheme, blocks)
            codes = quantized.codes
        type = type_of_choice(quantized.choice, values.shape, expressed)
    except (VerifyException, TooManySlotsError, ValueError) as error:
        raise Refusal(RefusalCode.ILLEGAL_TYPE, f"its weights: {error}") from None
    return codes, TensorType(type, values.shape)


def type_of_choice(choice: Choice, shape: Shape, expressed: AnyFloat) -> UniformQuantizedType:
    """
    The element type with the parameters of a choice, for a tensor of `shape`.

    The shape is ignored if there is one slot. Raises VerifyException and TooManySlotsError.
    """
    scheme = choice.scheme
    storage = Storage.of_format(scheme.storage, scheme.minimum, scheme.maximum)
    return UniformQuantizedType.of_blocks(
        storage, expressed, choice.scales, choice.zero_points, shape
    )


def dequantized_values(codes: Values, tensor: QuantizedTensor) -> Values:
    """The dequantized values of codes, as the bits of their floats."""
    type, shape = tensor.element_type, tensor.get_shape()
    parameters = type.parameters_on(shape)
    expressed = type.expressed_type
    encode, dtype = FLOAT_FORMATS[expressed.name].encode, element_dtype(expressed)
    if isinstance(codes, Splat):
        bits = encode(parameters.read(np.asarray(codes.value))).astype(dtype)
        if bits.size == 1:
            return Splat(bits.reshape(-1)[0], shape)
        return np.broadcast_to(bits, shape)
    stored, bits = as_view(codes).array(), np.empty(shape, dtype)
    # All elements as float64 would take several times the memory of the result.
    rows = max(1, _PIECE * shape[0] // max(1, stored.size))
    for start in range(0, shape[0], rows):
        end = min(start + rows, shape[0])
        starts, ends = (start, *(0 for _ in shape[1:])), (end, *shape[1:])
        piece = Slice.between(starts, ends, [1] * len(shape))(parameters)
        bits[start:end] = encode(piece.read(stored[start:end]))
    return bits


def held_as_source(
    codes: Values, type: QuantizedTensor, source: Operation, resources: ResourceBlobs
) -> Values | DenseResourceAttr:
    """The codes as a constant holds them: as a resource where their source is one."""
    name = cast(str, elements_attribute_of(source))
    old = find_attribute(source, name)
    if not isinstance(old, DenseResourceAttr) or isinstance(codes, Splat):
        return codes
    element = element_type_of(type.element_type)
    codes = np.asarray(codes).astype(element_dtype(element), copy=False)
    return resources.write(codes, element, old.resource_handle.data)


def kept_attributes(sources: Sequence[Operation]) -> Mapping[str, Attribute]:
    """The attributes of constants, but their elements; of the first that has one."""
    kept = dict[str, Attribute]()
    for source in reversed(sources):
        own = (elements_attribute_of(source), NAME_OF_UNREGISTERED)
        kept |= {
            name: attribute for name, attribute in source.attributes.items() if name not in own
        }
    return kept
