"""The plan of an equalization: the changes to a module, as data, before any of them is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from qdialect.post_training.equalization.factors import Factors, GroupedRanges
from qdialect.post_training.equalization.layer_indices import LayerIndices
from qdialect.post_training.value_graph.flow_graph import FlowGraph, Node, Use
from qdialect.quantization.equalization import ScaleRule
from qdialect.quantization.ranges import Range
from qdialect.shape_ops.interface import NotFoldable

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class EqualizationPolicy:
    """The choices of an equalization: its layers, the rule of scales, and what it may change."""

    rule: ScaleRule = field(default_factory=ScaleRule)

    weights_only: bool = False
    """Whether rows of weights and columns of the next ones are equalized, without other ranges."""

    joined_forks: bool = False
    """Whether layers that read the same value have the same scales, as one layer would."""

    sweeps: int = 1
    """How often scales are computed from the weights of the sweep before; with weights only."""


@dataclass(eq=False)
class Layer:
    """A layer that may be equalized."""

    node: Node
    key: str
    use: Use
    """The operand that it reads, and that is no weight."""
    value: SSAValue
    """The value of that operand, before `quant.stats` and pairs of casts."""
    weights: NDArray[Any]
    """The numbers that it multiplies by."""
    indices: LayerIndices
    has_quantized_weights: bool
    why_no_rows: str | None
    """Why its rows cannot be multiplied, if they cannot."""

    @property
    def result(self) -> SSAValue:
        """The result of the layer, with its bias."""
        return self.node.results[0]


@dataclass(eq=False)
class Product:
    """A value that is multiplied, and the operands that read the product."""

    value: SSAValue
    factors: Factors
    ranges: GroupedRanges | None
    """The ranges of the product, if they are known."""
    uses: list[Use] = field(default_factory=list[Use])
    layers: list[Layer] = field(default_factory=list[Layer])
    """The layers that ask for it."""


@dataclass(eq=False)
class Plan:
    """The changes of an equalization, before any of them is written."""

    graph: FlowGraph
    layers: Sequence[Layer]
    scales: dict[Layer, Factors] = field(default_factory=dict[Layer, Factors])
    """The scales of layers: inputs are multiplied by them, and weights divided."""
    inputs: dict[Layer, Range] = field(default_factory=dict[Layer, Range])
    """The ranges of the inputs of layers, where they are known."""
    values: dict[SSAValue, Factors] = field(default_factory=dict[SSAValue, Factors])
    """The factors of values that are made anew."""
    products: dict[tuple[SSAValue, bytes], Product] = field(
        default_factory=dict[tuple[SSAValue, bytes], "Product"]
    )
    """The products that are inserted in front of readers."""
    ranges: dict[SSAValue, GroupedRanges] = field(default_factory=dict[SSAValue, GroupedRanges])
    """The ranges of changed values after the change, where they are known."""
    constants: dict[Use, Factors] = field(default_factory=dict[Use, Factors])
    """Constants, beside weights and biases, that have factors."""
    refusals: list[tuple[Operation, NotFoldable]] = field(
        default_factory=list[tuple[Operation, NotFoldable]]
    )

    def rows(self, layer: Layer) -> Factors | None:
        """The factors of the rows of a layer, in the shape of its weights; None without factors."""
        factors = self.values.get(layer.result)
        return None if factors is None else layer.indices.rows_on_weights(factors)
