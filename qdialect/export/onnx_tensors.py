"""
Tensors of a graph of ONNX, and how they are moved and quantized.

A tensor may be in the graph in another order of axes, in another shape, or as the codes that it is
dequantized from: nodes for these are added when something reads it. So layers of any layout are
joined without transposes in between, casts and layers stay neighbours, as engines expect, and
movements act on codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import (
    BroadcastInDim,
    Movement,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Take,
    Transpose,
    inverse,
)
from qdialect.algebra.padding import Pad, PadWith, Stored, ZeroPoint
from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.algebra.views import ArrayView
from qdialect.dialects.arrays.values import repeated_axes, without_repeats
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.export.onnx_factors import is_moving, unchanged_codes, with_cast_factors
from qdialect.export.onnx_graph import Graph, type_name
from qdialect.ir.elements import integer_range
from qdialect.ops.interface import Refusal, RefusalCode
from qdialect.support.float_format import FLOAT_FORMATS

Elements = NDArray[Any]
Order = tuple[int, ...]

_SCALES: Final = {"f32": "FLOAT", "f16": "FLOAT16", "bf16": "BFLOAT16"}
"""The types of scales that casts of ONNX can have."""


@dataclass(frozen=True, eq=False)
class Codes:
    """How the elements of a tensor stand for numbers."""

    parameters: QuantizationParameters
    expressed: AnyFloat
    minimum: int
    maximum: int

    @classmethod
    def of(cls, type: UniformQuantizedType, shape: Shape) -> Codes:
        """The codes of a tensor of a type. Raises Refusal for what ONNX cannot express."""
        if str(type.expressed_type) not in _SCALES:
            raise Refusal(
                RefusalCode.ILLEGAL_TYPE, f"ONNX has no scales of type '{type.expressed_type}'"
            )
        if (reason := type.non_integers) is not None:
            raise Refusal(RefusalCode.ILLEGAL_TYPE, reason)
        parameters = type.parameters_on(shape)
        if parameters.storage.width > 16 and parameters.cut_zero_points.any():
            raise Refusal(
                RefusalCode.ILLEGAL_TYPE,
                f"ONNX has no zero points of {parameters.storage.width} bits",
            )
        return cls(parameters, type.expressed_type, type.storage_type_min, type.storage_type_max)

    def is_same(self, other: Codes) -> bool:
        """Whether the same codes stand for the same numbers in both."""
        return (
            self.expressed == other.expressed
            and (self.minimum, self.maximum) == (other.minimum, other.maximum)
            and self.parameters.storage == other.parameters.storage
            and self.parameters.first_difference(other.parameters) is None
        )

    def is_single(self) -> bool:
        """Whether all elements have one slot."""
        return self.parameters.simplify().scales.size == 1

    def moved(self, movement: Movement) -> Codes:
        """The codes of a tensor after a movement."""
        return replace(self, parameters=movement(self.parameters))

    def spread(self, shape: Shape) -> Codes:
        """The codes of a tensor of another shape, of one slot as these."""
        first = self.parameters[(slice(1),) * self.parameters.ndim].reshape((1,) * len(shape))
        dims = tuple(range(len(shape)))
        return replace(self, parameters=BroadcastInDim(dims, shape)(first))

    def of_floats(self, expressed: AnyFloat) -> Codes:
        """The same codes, for floats of a wider type."""
        format, scales = FLOAT_FORMATS[expressed.name], self.parameters.rounded_scales
        parameters = replace(self.parameters, scales=scales, expressed=format)
        return replace(self, parameters=parameters, expressed=expressed)

    def ends(self) -> tuple[float, float]:
        """The least and the greatest number, for codes of one slot."""
        scale, zero_point = self.parameters.slot((0,) * self.parameters.ndim)
        steps = np.array([self.minimum - zero_point, self.maximum - zero_point])
        low, high = self.parameters.expressed.round(steps * scale)
        return float(low), float(high)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor, or a scalar, of a graph."""

    shape: Shape

    type: Attribute
    """The type of an element, of the numbers also if the graph has codes."""

    elements: Elements | None = None
    """The elements, if they are known: codes, or the bits of floats."""

    name: str = ""
    """The name in the graph, unless the elements are known, or it is reshaped."""

    order: Order = ()
    """For each axis, the axis of the tensor in the graph."""

    base: Tensor | None = None
    """What it is a reshape of."""

    codes: Codes | None = None
    """How to read the codes that are in the graph; None if there are numbers."""

    @property
    def back(self) -> Order:
        """For each axis in the graph, the axis of the tensor."""
        return inverse(self.order)


def in_graph(name: str, shape: Shape, type: Attribute, codes: Codes | None = None) -> Tensor:
    """A tensor that is in the graph as it is."""
    return Tensor(shape, type, name=name, order=tuple(range(len(shape))), codes=codes)


def known(elements: Elements, type: Attribute, codes: Codes | None = None) -> Tensor:
    """A tensor of known elements."""
    return Tensor(elements.shape, type, elements, codes=codes)


@dataclass(frozen=True)
class Padded:
    """A tensor of the graph that is another with zeros around and between its elements."""

    inner: Tensor
    pad: Pad
    """The numbers of zeros, along axes of the graph."""
    is_lowest: bool = False
    """Whether they are the least number of their type instead."""


_DEEPEST: Final = 4
"""How many nodes a cast is moved across: one for each slot is added."""


@dataclass
class Tensors:
    """Adds nodes to a graph: casts and movements."""

    graph: Graph
    padded: dict[str, Padded] = field(default_factory=dict[str, Padded])
    """By the name of a tensor, what it is without what it was padded with."""
    _enlarged: dict[str, tuple[str, NDArray[np.float32]]] = field(
        default_factory=dict[str, tuple[str, NDArray[np.float32]]]
    )
    """By the name of a tensor, what it repeats the elements of, and how often along each axis."""
    _spread: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    """By the name of a tensor, what it repeats along axes of length 1."""
    _moved: dict[tuple[str, Shape], str] = field(default_factory=dict[tuple[str, Shape], str])
    """The names of reshapes, by what is reshaped, and the shape."""
    _codes: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    """The names of codes, by what they are of, their slot, and its axes."""
    _turned: dict[tuple[str, Order], str] = field(default_factory=dict[tuple[str, Order], str])
    """The names of transposes."""

    # In the graph

    def named(self, tensor: Tensor, order: Order | None = None) -> str:
        """
        The name of what the graph has for a tensor, numbers or codes, with its axes in an order.
        """
        axes = order or tuple(range(len(tensor.shape)))
        if tensor.elements is not None:
            return self._constant(tensor.elements.transpose(axes), self._held(tensor))
        if tensor.base is not None:
            before = self.named(tensor.base)
            key = before, tensor.shape
            if key not in self._moved:
                inputs = [before, self.graph.integers(tensor.shape)]
                self._moved[key] = self.graph.node("Reshape", inputs)
            return self._transposed(self._moved[key], axes)
        return self._transposed(tensor.name, tuple(tensor.order[axis] for axis in axes))

    def _held(self, tensor: Tensor) -> str:
        """The type of the elements in the graph."""
        if tensor.codes is None:
            return name_of_type(tensor.type)
        return _type_of(tensor.codes.parameters.storage, is_known=tensor.elements is not None)

    def _transposed(self, name: str, order: Order) -> str:
        if order == tuple(range(len(order))):
            return name
        key = name, order
        if key not in self._turned:
            self._turned[key] = self.graph.node("Transpose", [name], perm=list(order))
        return self._turned[key]

    def _constant(self, elements: Elements, type: str) -> str:
        """A constant; what is repeated along axes is repeated by a node."""
        small = without_repeats(elements)
        dtype = _DTYPES.get(type)
        name = self.graph.constant(small if dtype is None else small.astype(dtype), type)
        if small.size == elements.size:
            return name
        return self.graph.node("Expand", [name, self.graph.integers(elements.shape)])

    def drawn(self, tensor: Tensor) -> Tensor:
        """The tensor as one of the graph, and not as known elements, nor reshaped."""
        if tensor.elements is None and tensor.base is None:
            return tensor
        return in_graph(self.named(tensor), tensor.shape, tensor.type, tensor.codes)

    def without_repeats(self, tensor: Tensor) -> Tensor:
        """A tensor with an element for all that are repeated along an axis."""
        if tensor.elements is None:
            is_spread = tensor.base is None and tensor.codes is None
            spread = self._spread.get(tensor.name) if is_spread else None
            return tensor if spread is None else self.moved([spread], Transpose(tensor.order))
        once, codes = repeated_axes(tensor.elements), tensor.codes
        # Along an axis with several slots, equal codes are other numbers.
        slots = codes.parameters.simplify().scales.shape if codes else (1,) * len(once)
        sizes = tuple(
            1 if is_once and count == 1 else n
            for is_once, count, n in zip(once, slots, tensor.shape, strict=True)
        )
        return self.moved([tensor], Slice((0,) * len(sizes), sizes, (1,) * len(sizes)))

    # Casts

    def number(self, tensor: Tensor, *, is_weight: bool = False) -> Tensor:
        """
        A tensor of the graph that has numbers: codes are dequantized, for each reader anew.

        Weights of unsigned bytes with a zero point of 128 are stored as signed ones with 0, which
        engines have fast kernels for.
        """
        if tensor.codes is None:
            return tensor
        if is_weight and tensor.elements is not None:
            tensor = _signed(tensor)
        assert tensor.codes is not None
        stored = self._held(tensor)
        drawn = self.drawn(tensor)
        graph = self.graph
        inputs, attributes = self._slots(tensor.codes.parameters.transpose(drawn.back), stored)
        name = graph.node("DequantizeLinear", [drawn.name, *inputs], **attributes)
        return replace(drawn, name=name, codes=None)

    def quantized(self, tensor: Tensor, codes: Codes) -> Tensor:
        """The codes of a tensor. Raises Refusal."""
        if tensor.codes is not None and tensor.codes.is_same(codes):
            return tensor
        if tensor.base is not None and codes.is_single():
            base = self.quantized(tensor.base, codes.spread(tensor.base.shape))
            return replace(tensor, base=base, codes=codes)
        drawn = self.drawn(self.number(tensor))
        if (inner := self._quantized_inside(drawn, codes)) is not None:
            return inner
        storage = codes.parameters.storage
        stored = _type_of(storage, is_known=False)
        name = self._cast(drawn.name, *self._slots(codes.parameters.transpose(drawn.back), stored))
        width = _WIDTHS[stored]
        if (codes.minimum, codes.maximum) != integer_range(width, storage.signed):
            limits = [
                self.graph.constant(np.array(end, _DTYPES[stored]), stored)
                for end in (codes.minimum, codes.maximum)
            ]
            name = self.graph.node("Clip", [name, *limits])
        return replace(drawn, name=name, type=codes.expressed, codes=codes)

    def _cast(
        self, name: str, slot: Sequence[str], attributes: Mapping[str, Any], depth: int = 0
    ) -> str:
        """The codes of a value in a slot: of one that joins or moves others, those of these."""
        key = (name, *slot, str(attributes))
        if key in self._codes:
            return self._codes[key]
        graph, node = self.graph, self.graph.maker(name)
        codes = None if attributes else unchanged_codes(graph, name, slot)
        is_single = not attributes and len(slot) > 1 and graph.array(slot[1]).itemsize == 1
        if codes is None and is_single and depth < _DEEPEST and is_moving(node):
            # Casts commute with it.
            count = len(node.input) if node.op_type == "Concat" else 1
            parts = node.input[:count]
            inputs = [self._cast(part, slot, attributes, depth + 1) for part in parts]
            codes = graph.again(node, [*inputs, *node.input[count:]])
        if codes is None:
            name = with_cast_factors(graph, name, slot)
            codes = graph.node("QuantizeLinear", [name, *slot], **attributes)
        self._codes[key] = codes
        return codes

    def _quantized_inside(self, drawn: Tensor, codes: Codes) -> Tensor | None:
        """The codes of a tensor with zeros around it, which layers read without the zeros."""
        padded = self.without_padding(drawn)
        if padded is None or not codes.is_single():
            return None
        inner = self.quantized(padded.inner, codes.spread(padded.inner.shape))
        if self._padding(inner, None) is None:
            return None
        return replace(self.moved([inner], padded.pad), codes=codes)

    def without_padding(self, tensor: Tensor, *, is_lowest: bool = False) -> Padded | None:
        """
        What a tensor is without the zeros it was padded with, and these, along its axes.

        If it `is_lowest`, without the least numbers of its type.
        """
        padded = None if tensor.base is not None else self.padded.get(tensor.name)
        if padded is None or padded.is_lowest is not is_lowest:
            return None
        low, high, gaps = (
            tuple(widths[at] for at in tensor.order)
            for widths in (padded.pad.low, padded.pad.high, padded.pad.gaps)
        )
        inner = self._write(Transpose(tensor.order), [padded.inner], ())
        shape = tuple(padded.inner.shape[at] for at in tensor.order)
        codes = tensor.codes
        if codes is not None:
            steps = tuple(gap + 1 for gap in gaps)
            codes = codes.moved(Slice(low, shape, steps))
        inner = replace(inner, shape=shape, codes=codes)
        return Padded(inner, PadWith(low, high, gaps, ZeroPoint()))

    def _slots(
        self, parameters: QuantizationParameters, stored: str
    ) -> tuple[Sequence[str], Mapping[str, Any]]:
        """The scales and zero points of a cast, and its attributes."""
        coarse = parameters.coarsen()
        scales, zeros = coarse.rounded_scales, coarse.cut_zero_points
        cut = [axis for axis, count in enumerate(scales.shape) if count > 1]
        attributes: dict[str, Any] = {}
        if not cut:
            scales, zeros = scales.reshape(()), zeros.reshape(())
        elif len(cut) == 1 and scales.shape[cut[0]] == coarse.shape[cut[0]]:
            attributes["axis"] = cut[0]
            scales, zeros = scales.reshape(-1), zeros.reshape(-1)
        else:
            # Blocks are along one axis; along all others there is a scale for each position.
            axis = max(cut, key=coarse.block_sizes.__getitem__)
            for other, length in enumerate(coarse.shape):
                if other != axis:
                    count = length // scales.shape[other]
                    scales, zeros = scales.repeat(count, other), zeros.repeat(count, other)
            attributes |= {"axis": axis, "block_size": coarse.shape[axis] // scales.shape[axis]}
        numbers = parameters.expressed
        type = _SCALES[numbers.name]
        inputs = [self.graph.constant(numbers.encode(scales).astype(_BITS[type]), type)]
        if not stored.endswith("32"):
            inputs.append(self.graph.constant(zeros.astype(_DTYPES[stored]), stored))
        return inputs, attributes

    # Movements

    def moved(
        self, tensors: Sequence[Tensor], movement: Movement, padding: Tensor | None = None
    ) -> Tensor:
        """
        Tensors after a movement; `padding` is the element that it pads with, if it is not zero.

        Raises Refusal and MovementError.
        """
        if len(tensors) == 1 and movement.is_identity(tensors[0].shape):
            return tensors[0]
        if isinstance(movement, InsertSlice) and self._is_zero(tensors[1]) and all(movement.sizes):
            low, high, gaps = _around(movement, tensors[1].shape)
            whole = self.moved(tensors[:1], Reshape(movement.sizes))
            return self.moved([whole], PadWith(low, high, gaps, ZeroPoint()))
        tensors = self._alike(tensors)
        first = tensors[0]
        if isinstance(movement, Pad):
            element = self._padding(first, padding)
            if element is None:
                first = self.drawn(self.number(first))
                element = self._padding(first, padding)
                assert element is not None
            movement = PadWith(movement.low, movement.high, movement.gaps, Stored(element))
            tensors = [first]
        shape = movement.result_shape(*(tensor.shape for tensor in tensors))
        codes = first.codes
        if codes is not None:
            parameters = movement(*(cast(Codes, t.codes).parameters for t in tensors))
            codes = replace(codes, parameters=parameters)
        if all(tensor.elements is not None for tensor in tensors):
            views = [ArrayView.of(cast(Elements, tensor.elements)) for tensor in tensors]
            elements = np.asarray(movement.move_views(views, None).array())
            return known(elements, first.type, codes)
        return replace(self._write(movement, tensors, shape), codes=codes, type=first.type)

    def _is_zero(self, tensor: Tensor) -> bool:
        """Whether all elements are known, and real zeros."""
        elements = self.computed(tensor).elements
        return elements is not None and not np.any(elements)

    def _alike(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Several tensors that are joined: all codes of one meaning, or all numbers."""
        if len(tensors) == 1:
            return tensors
        slots = [_single_slot(tensor.codes) for tensor in tensors]
        are_equal = slots[0] is not None and all(slot == slots[0] for slot in slots)
        if are_equal and len({self._held(tensor) for tensor in tensors}) == 1:
            return tensors
        if all(tensor.elements is not None for tensor in tensors):
            return [self.computed(tensor) for tensor in tensors]
        return [self.drawn(self.number(tensor)) for tensor in tensors]

    def _padding(self, tensor: Tensor, padding: Tensor | None) -> np.generic | None:
        """The element to pad with; None if no code stands for it."""
        if padding is not None and padding.elements is None:
            raise Refusal(RefusalCode.ARITHMETIC, "it pads with an element that is not constant")
        codes = tensor.codes
        if codes is None:
            bits = np.zeros((), _BITS[name_of_type(tensor.type)])
            if padding is not None:
                bits = cast(Elements, self.computed(padding).elements).reshape(())
            return cast(np.generic, bits[()])
        if padding is not None and np.any(cast(Elements, self.computed(padding).elements)):
            return None
        zeros = codes.parameters.cut_zero_points
        if not codes.is_single() or not codes.minimum <= int(zeros.flat[0]) <= codes.maximum:
            return None
        stored = np.dtype(_DTYPES[self._held(tensor)])
        return stored.type(zeros.flat[0])

    def computed(self, tensor: Tensor) -> Tensor:
        """A tensor of known elements as numbers."""
        if tensor.codes is None or tensor.elements is None:
            return tensor
        numbers = tensor.codes.parameters.read(tensor.elements)
        bits = tensor.codes.parameters.expressed.encode(numbers)
        return known(bits.astype(_BITS[name_of_type(tensor.type)]), tensor.type)

    @singledispatchmethod
    def _write(self, movement: Movement, tensors: Sequence[Tensor], shape: Shape) -> Tensor:
        raise Refusal(RefusalCode.UNKNOWN_OP, "ONNX has no such movement")

    @_write.register
    def _(self, movement: Transpose, tensors: Sequence[Tensor], shape: Shape) -> Tensor:
        drawn = self.drawn(tensors[0])
        order = tuple(drawn.order[axis] for axis in movement.permutation)
        return replace(drawn, shape=shape, order=order)

    @_write.register
    def _(self, movement: Reshape, tensors: Sequence[Tensor], shape: Shape) -> Tensor:
        (tensor,) = tensors
        base = tensor if tensor.base is None else tensor.base
        if base.shape == shape:
            return base
        return Tensor(shape, tensor.type, base=base)

    @_write.register
    def _(self, movement: Slice, tensors: Sequence[Tensor], shape: Shape) -> Tensor:
        return self._sliced(
            tensors[0],
            [
                (axis, offset, offset + (size - 1) * stride + 1 if size else offset, stride)
                for axis, (offset, size, stride) in enumerate(
                    zip(movement.offsets, movement.sizes, movement.strides, strict=True)
                )
                if (offset, size, stride) != (0, tensors[0].shape[axis], 1)
            ],
            shape,
        )

    @_write.register
    def _(self, movement: Reverse, tensors: Sequence[Tensor], shape: Shape) -> Tensor:
        return self._sliced(tensors[0], [(dim, -1, _BEGINNING, -1) for dim in movement.dims], shape)

    def _sliced(
        self, tensor: Tensor, slices: Sequence[tuple[int, int, int, int]], shape: Shape
    ) -> Tensor:
        """Slices along axes: each with its start, end and step."""
        drawn = self.drawn(tensor)
        if not slices:
            return drawn
        of_graph = [(start, end, drawn.order[axis], step) for axis, start, end, step in slices]
        lists = [self.graph.integers(numbers) for numbers in zip(*of_graph, strict=True)]
        name = self.graph.node("Slice", [drawn.name, *lists])
        return replace(drawn, name=name, shape=shape)

    @_write.register
    def _(self, movement: Take, tensors: Sequence[Tensor], shape: Shape) -> Tensor:
        drawn = self.drawn(tensors[0])
        axis, length = drawn.order[movement.dim], drawn.shape[movement.dim]
        times = len(movement.indices) // max(length, 1)
        is_enlarged = np.array_equal(movement.indices, np.arange(length).repeat(times))
        if times > 1 and is_enlarged and self._held(drawn) in _RESIZED:
            name, before = self._enlarged.get(drawn.name, (drawn.name, np.ones(len(shape), "f4")))
            scales = np.where(np.arange(len(shape)) == axis, before * np.float32(times), before)
            inputs = [name, "", self.graph.constant(scales.view("u4"), "FLOAT")]
            how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            name = self.graph.node("Resize", inputs, mode="nearest", **how)
            self._enlarged[name] = inputs[0], scales
            return replace(drawn, name=name, shape=shape)
        inputs = [drawn.name, self.graph.integers(movement.indices)]
        name = self.graph.node("Gather", inputs, axis=axis)
        return replace(drawn, name=name, shape=shape)

    @_write.register
    def _(self, movement: BroadcastInDim, tensors: Sequence[Tensor], shape: Shape) -> Tensor:
        (tensor,) = tensors
        lengths = [1] * len(shape)
        for axis, dim in enumerate(movement.dims):
            lengths[dim] = tensor.shape[axis]
        turned = self.moved([replace(tensor, codes=None)], Transpose(inverse(movement.dims)))
        spread = self.moved([turned], Reshape(tuple(lengths)))
        if spread.shape == shape:
            return spread
        name = self.graph.node("Expand", [self.named(spread), self.graph.integers(shape)])
        self._spread[name] = spread
        return in_graph(name, shape, tensor.type)

    @_write.register
    def _(self, movement: Concat, tensors: Sequence[Tensor], shape: Shape) -> Tensor:
        like = next(self.drawn(tensor) for tensor in tensors if tensor.elements is None)
        names = [self.named(tensor, like.back) for tensor in tensors]
        name = self.graph.node("Concat", names, axis=like.order[movement.dim])
        return replace(like, name=name, shape=shape)

    @_write.register
    def _(self, movement: Pad, tensors: Sequence[Tensor], shape: Shape) -> Tensor:
        (tensor,) = tensors
        assert isinstance(movement.padding, Stored)
        element, stored = movement.padding.value, self._held(tensor)
        drawn = self.drawn(tensor)
        source = drawn
        if any(movement.gaps):
            drawn = self._with_gaps(drawn, movement.gaps, element)
        low, high = (
            [widths[axis] for axis in drawn.back] for widths in (movement.low, movement.high)
        )
        fill = self.graph.constant(np.asarray(element), stored)
        name = drawn.name
        if any((*low, *high)):
            name = self.graph.node("Pad", [name, self.graph.integers([*low, *high]), fill])
        is_lowest = tensor.codes is None and _is_lowest(np.asarray(element), tensor.type)
        if name != source.name and (tensor.codes is not None or not element or is_lowest):
            lengths = tuple(source.shape[axis] for axis in drawn.back)
            gaps = tuple(movement.gaps[axis] for axis in drawn.back)
            inner = self._write(Transpose(drawn.back), [replace(source, codes=None)], lengths)
            pad = PadWith(tuple(low), tuple(high), gaps, ZeroPoint())
            self.padded[name] = Padded(inner, pad, is_lowest)
        return replace(drawn, name=name, shape=shape)

    def _with_gaps(self, tensor: Tensor, gaps: Sequence[int], element: np.generic) -> Tensor:
        """A tensor with elements between its own: it is padded along new axes."""
        split = tuple(length for n in tensor.shape for length in (n, 1))
        wide = tuple(
            length for n, gap in zip(tensor.shape, gaps, strict=True) for length in (n, 1 + gap)
        )
        high = tuple(width for gap in gaps for width in (0, gap))
        merged = tuple(n * (1 + gap) for n, gap in zip(tensor.shape, gaps, strict=True))
        sizes = tuple(
            n and (n - 1) * (1 + gap) + 1 for n, gap in zip(tensor.shape, gaps, strict=True)
        )
        apart = self._write(Reshape(split), [replace(tensor, codes=None)], split)
        fill = PadWith((0,) * len(high), high, (0,) * len(high), Stored(element))
        spread = self._write(fill, [replace(apart, codes=tensor.codes)], wide)
        joined = self._write(Reshape(merged), [spread], merged)
        rank = len(sizes)
        cut = Slice((0,) * rank, sizes, (1,) * rank)
        return self.drawn(replace(self._write(cut, [joined], sizes), codes=tensor.codes))

    @_write.register
    def _(self, movement: InsertSlice, tensors: Sequence[Tensor], shape: Shape) -> Tensor:
        source, target = tensors
        lists = zip(shape, movement.offsets, movement.sizes, movement.strides, strict=True)
        masks: list[str] = []
        for axis, (length, offset, size, stride) in enumerate(lists):
            inside = np.zeros(length, bool)
            inside[offset : offset + size * stride : stride][:size] = True
            line = [length if at == axis else 1 for at in range(len(shape))]
            masks.append(self.graph.constant(inside.reshape(line), "BOOL"))
        low, high, gaps = _around(movement, shape)
        zero = Stored(cast(np.generic, np.zeros((), _BITS[self._held(source)])[()]))
        fill = PadWith(low, high, gaps, zero)
        whole = self._write(Reshape(movement.sizes), [replace(source, codes=None)], movement.sizes)
        spread = self._write(fill, [replace(whole, codes=source.codes)], shape)
        mask = masks[0]
        for other in masks[1:]:
            mask = self.graph.node("And", [mask, other])
        name = self.graph.node("Where", [mask, self.named(spread), self.named(target)])
        return in_graph(name, shape, source.type)


def _is_lowest(bits: Elements, type: Attribute) -> bool:
    """Whether no finite number of a type is less than that of these bits."""
    if not isinstance(type, AnyFloat):
        return False
    format = FLOAT_FORMATS[type.name]
    return float(format.decode(bits)) <= -format.largest


def _around(movement: InsertSlice, shape: Shape) -> tuple[Shape, Shape, Shape]:
    """The numbers of positions before, behind and between those where elements are inserted."""
    lists = zip(shape, movement.offsets, movement.sizes, movement.strides, strict=True)
    high = tuple(n - offset - (size - 1) * stride - 1 for n, offset, size, stride in lists)
    return movement.offsets, high, tuple(stride - 1 for stride in movement.strides)


_BEGINNING: Final = -(1 << 62)
"""An end that is before the first element, for a step of -1."""

_RESIZED: Final = ("FLOAT", "INT8", "UINT8")
"""The types of elements that ONNX Runtime resizes."""

_DTYPES: Final = {
    "INT4": "i1",
    "UINT4": "u1",
    "INT8": "i1",
    "UINT8": "u1",
    "INT16": "i2",
    "UINT16": "u2",
    "INT32": "i4",
    "UINT32": "u4",
    "INT64": "i8",
    "BOOL": "?",
}
"""The dtypes of elements that are integers."""

_BITS: Final = {**_DTYPES, "FLOAT": "u4", "FLOAT16": "u2", "BFLOAT16": "u2", "DOUBLE": "u8"}
"""The dtypes of elements, of floats those of their bits."""

_WIDTHS: Final = {"INT8": 8, "UINT8": 8, "INT16": 16, "UINT16": 16, "INT32": 32, "UINT32": 32}


def name_of_type(type: Attribute) -> str:
    """The name in ONNX of a type of elements. Raises Refusal."""
    name = type_name(type)
    if name is None:
        raise Refusal(RefusalCode.ILLEGAL_TYPE, f"ONNX has no elements of type '{type}'")
    return name


def _type_of(storage: StorageFormat, *, is_known: bool) -> str:
    """The type that holds codes: the narrowest one. Only constants have 4 bits."""
    least = storage.width if is_known and storage.width == 4 else 8
    width = next(width for width in (least, 8, 16, 32) if width >= storage.width)
    return f"{'' if storage.signed else 'U'}INT{width}"


def _single_slot(codes: Codes | None) -> tuple[Any, ...] | None:
    """What codes of one slot are compared by, also of tensors that differ in shape."""
    if codes is None or not codes.is_single():
        return None
    parameters = codes.parameters
    slot = float(parameters.rounded_scales.flat[0]), int(parameters.cut_zero_points.flat[0])
    return (*slot, parameters.storage, codes.minimum, codes.maximum, codes.expressed)


def _signed(tensor: Tensor) -> Tensor:
    """Symmetric codes of unsigned bytes as signed ones, which stand for the same numbers."""
    codes, elements = tensor.codes, tensor.elements
    assert codes is not None
    assert elements is not None
    parameters = codes.parameters
    is_unsigned = parameters.storage == StorageFormat(8, signed=False)
    if not is_unsigned or (parameters.cut_zero_points != 128).any():
        return tensor
    moved = replace(
        parameters,
        zero_points=parameters.cut_zero_points - 128,
        storage=StorageFormat(8, signed=True),
    )
    shifted = replace(
        codes, parameters=moved, minimum=codes.minimum - 128, maximum=codes.maximum - 128
    )
    bits = (elements.astype(np.uint8) ^ 0x80).view(np.int8)
    return replace(tensor, elements=bits, codes=shifted)
