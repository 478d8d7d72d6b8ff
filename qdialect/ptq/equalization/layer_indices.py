"""
The indices that the operands and the result of a layer share, by the labels of their axes.

The input and the weights share the axis that is summed over, or the channels of a depthwise
convolution. With grouped channels, the input has one axis for all of them. The weights have an axis
for the channels within a group; the group follows from the channel of the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qdialect.algebra.movement import Shape
from qdialect.ops.products import Contraction, Side
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GROUP = "group"

Split = Sequence[tuple[str, ...]]
"""For each axis of a tensor, the labels that it is split into."""


class LayerIndices:
    """Moves numbers between the axes of the input, of the weights, and of the result."""

    def __init__(self, layer: Contraction, side: Side, weights: Shape) -> None:
        """`weights` is a static shape."""
        self._lengths: dict[str, int] = {}
        """The lengths of the labels of the weights."""
        shared = {label for label in side.labels if label in side.other_labels}
        grouped = {label for label in side.labels if label not in side.other_labels}
        result = "".join(side.result_labels)
        self._grouped = layer.groups > 1
        self._of_weights: Split = [
            (_GROUP, label) if self._grouped and label in grouped and label in result else (label,)
            for label in side.labels
        ]
        self._of_inputs: Split = [
            (_GROUP, label)
            if self._grouped and label in shared and label not in result
            else (label,)
            if label in shared
            else (f"*{axis}",)
            for axis, label in enumerate(side.other_labels)
        ]
        for labels, length in zip(self._of_weights, weights, strict=True):
            is_split = _GROUP in labels
            self._lengths[labels[-1]] = length // layer.groups if is_split else length
            if is_split:
                self._lengths[_GROUP] = layer.groups
        self.shared = tuple(axis for axis, label in enumerate(side.other_labels) if label in shared)
        """The axes of the input that the weights share."""
        self._plain: Split = [(label,) for label in side.labels]
        self._of_result: Split = [
            tuple(label.strip("()"))
            if all(letter in side.labels for letter in label.strip("()"))
            else (f"*{axis}",)
            for axis, label in enumerate(side.result_labels)
        ]
        self._plain_lengths = dict(zip(side.labels, weights, strict=True))

    def lengths(self) -> Mapping[int, int]:
        """The length of each of the shared axes of the input."""
        return {
            axis: math.prod(self._lengths[label] for label in self._of_inputs[axis])
            for axis in self.shared
        }

    def on_weights(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Numbers per index of the input, broadcast to the elements of the weights."""
        found = _moved(inputs, self._of_inputs, self._of_weights, self._lengths)
        assert found is not None, "the numbers vary along an axis that is not shared"
        return found

    def columns(self, weights: NDArray[Any], axes: Sequence[int], reduce: Any) -> NDArray[Any]:
        """
        The weights reduced to a number for each index of some axes of the input.

        `reduce` is a reduction such as `np.min`.
        """
        split = _split(weights, self._of_weights, self._lengths)
        kept = {label for axis in axes for label in self._of_inputs[axis]}
        labels = [label for of in self._of_weights for label in of]
        gone = tuple(at for at, label in enumerate(labels) if label not in kept)
        reduced = reduce(split, axis=gone, keepdims=True)
        wanted = [label for of in self._of_inputs for label in of]
        return _joined(_arranged(reduced, labels, wanted), self._of_inputs, self._lengths)

    def rows_on_weights(self, result: NDArray[Any]) -> NDArray[Any] | None:
        """
        Numbers per index of the result, broadcast to the elements of the weights.

        None if they vary along an axis that the weights do not have.
        """
        return _moved(result, self._of_result, self._plain, self._plain_lengths)

    def rows(self, weights: NDArray[Any], reduce: Any) -> NDArray[Any]:
        """The weights reduced to a number for each index of the result."""
        labels = [label for (label,) in self._plain]
        kept = {label for of in self._of_result for label in of}
        gone = tuple(at for at, label in enumerate(labels) if label not in kept)
        reduced = reduce(weights, axis=gone, keepdims=True)
        wanted = [label for of in self._of_result for label in of]
        return _joined(_arranged(reduced, labels, wanted), self._of_result, self._plain_lengths)


def _moved(
    numbers: NDArray[Any], axes: Split, to: Split, lengths: Mapping[str, int]
) -> NDArray[Any] | None:
    """Numbers for axes with other labels; None if they vary along a dropped axis."""
    labels = [label for of in axes for label in of]
    wanted = [label for of in to for label in of]
    split = _split(numbers, axes, lengths)
    if any(n > 1 and label not in wanted for label, n in zip(labels, split.shape, strict=True)):
        return None
    return _joined(_arranged(split, labels, wanted), to, lengths)


def _split(numbers: NDArray[Any], axes: Split, lengths: Mapping[str, int]) -> NDArray[Any]:
    """The numbers with an axis for each label."""
    shape = list[int]()
    for labels, length in zip(axes, numbers.shape, strict=True):
        if len(labels) == 1:
            shape.append(length)
        else:
            shape += [1 if length == 1 else lengths[label] for label in labels]
    return numbers.reshape(shape)


def _arranged(numbers: NDArray[Any], labels: Sequence[str], to: Sequence[str]) -> NDArray[Any]:
    """Axes in another order. New axes have length 1; axes without a label in `to` are dropped."""
    order = [labels.index(label) for label in to if label in labels]
    gone = [at for at in range(len(labels)) if at not in order]
    numbers = numbers.transpose([*order, *gone])
    known = iter(numbers.shape)
    return numbers.reshape([next(known) if label in labels else 1 for label in to])


def _joined(numbers: NDArray[Any], axes: Split, lengths: Mapping[str, int]) -> NDArray[Any]:
    """The numbers with the labels of each axis merged."""
    full, shape, at = list[int](), list[int](), 0
    for labels in axes:
        of = numbers.shape[at : at + len(labels)]
        at += len(labels)
        varies = len(labels) > 1 and any(length > 1 for length in of)
        of = tuple(lengths[label] for label in labels) if varies else of
        full += of
        shape.append(math.prod(of))
    return np.broadcast_to(numbers, full).reshape(shape)
