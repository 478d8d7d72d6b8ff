"""
The plan of an equalization: all changes to a module, as data, computed before the first is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from qdialect.ops.interface import Refusal
from qdialect.ptq.equalization.factors import Factors, GroupedRanges
from qdialect.ptq.equalization.layer_indices import LayerIndices
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Node, Use
from qdialect.ptq.schemes.equalization import ScaleRule
from qdialect.ptq.schemes.ranges import Range

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    ranges: GroupedRanges | None
    """The ranges of the product, if they are known."""
    uses: list[Use] = field(default_factory=list[Use])
    layers: list[Layer] = field(default_factory=list[Layer])
    """The layers that request it."""


@dataclass(eq=False)
class Plan:
    """The changes of an equalization."""

    graph: FlowGraph
    layers: Sequence[Layer]
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
    ranges: dict[SSAValue, GroupedRanges] = field(default_factory=dict[SSAValue, GroupedRanges])
    """The ranges of changed values after the change, if known."""
    constants: dict[Use, Factors] = field(default_factory=dict[Use, Factors])
    """The factors of constants other than weights and biases."""
    refusals: list[tuple[Operation, Refusal]] = field(
        default_factory=list[tuple[Operation, Refusal]]
    )

    def rows(self, layer: Layer) -> Factors | None:
        """The factors of the rows of a layer, in the shape of its weights; None without factors."""
        factors = self.values.get(layer.result)
        return None if factors is None else layer.indices.rows_on_weights(factors)
