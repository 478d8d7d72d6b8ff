"""Types and constants as short texts and tables, in notebooks: the first slots and elements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute

from qdialect.algebra.views import Splat
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.terminal import Table, first_rows

if TYPE_CHECKING:
    from qdialect.algebra.views import Elements
    from qdialect.dialects.quant.types import UniformQuantizedType

_COLUMNS: Final = 16
"""The most elements of a row that are shown."""


def brief(type: Attribute) -> str:
    """The text of a type, which has the number of its slots in place of many slots."""
    if isinstance(type, TensorType):
        tensor = cast("TensorType[Attribute]", type)
        lengths = ("?" if n == DYNAMIC_INDEX else str(n) for n in tensor.get_shape())
        return f"tensor<{''.join(f'{length}x' for length in lengths)}{brief(tensor.element_type)}>"
    text = getattr(type, "brief", None)
    return text if isinstance(text, str) else str(type)


def table_of_slots(type: UniformQuantizedType) -> Table:
    """The scale and the zero point of the first slots of a type."""
    scales, zero_points = type.scales, type.zero_points
    axes = type.quantized_dimensions if scales.ndim == 1 else range(scales.ndim)
    kind = "block on axis" if type.block_sizes else "axis"
    rows = (
        (*map(str, index), str(scales[index].item()), str(zero_points[index].item()))
        for index in np.ndindex(scales.shape)
    )
    names = (*(f"{kind} {axis}" for axis in axes), "scale", "zero point")
    return first_rows(type.brief, names, rows, 0, scales.size)


def table_of_elements(title: str, elements: Elements, type: UniformQuantizedType) -> Table:
    """The first codes of a constant, in the rows of its last axis."""
    *outer, length = elements.shape or (1,)
    columns = min(length, _COLUMNS)
    if columns < length:
        title += f", {columns} of {length} columns"
    if isinstance(elements, Splat):
        elements = np.broadcast_to(np.asarray(elements.value), elements.shape)
    codes: NDArray[Any] = elements.reshape((*outer, length))

    def rows() -> Iterator[tuple[str, ...]]:
        for index in np.ndindex(*outer):
            shown = codes[index][:columns].tolist()
            yield f"[{', '.join(map(str, index))}]", *map(type.storage_format.shown, shown)

    names = ("", *map(str, range(columns)))
    return first_rows(title, names, rows() if length else (), 1, math.prod(outer))
