"""The factors of all values, found by a walk from the last op to the first, given the scales."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from qdialect.ptq.equalization.equalization_plan import Layer
from qdialect.ptq.equalization.factors import Factors, are_ones, filled, merged
from qdialect.ptq.equalization.homogeneous import Passage
from qdialect.ptq.equalization.recorded_ranges import statistics_behind
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Node, Use
from qdialect.support.lazy_numpy import np

if TYPE_CHECKING:
    pass


class FactorWalk:
    """The factors of all values, given the scales of layers."""

    def __init__(
        self,
        graph: FlowGraph,
        layers: Mapping[Node, Layer],
        passages: Mapping[Node, Passage],
        scales: Mapping[Layer, Factors],
        barred: Collection[SSAValue],
    ) -> None:
        self._graph = graph
        self._layers = layers
        self._passages = passages
        self._barred = barred
        self._wanted = dict[Use, Factors]()
        """The factors that readers request."""
        self.claims = dict[Use, list[Layer]]()
        """The layers that request them."""
        self._asked = dict[SSAValue, Factors]()
        self.values = dict[SSAValue, Factors]()
        self.products: list[tuple[Use, Factors]] = []
        self.constants = dict[Use, Factors]()
        for layer, factors in scales.items():
            self._wanted[layer.use] = factors
            self.claims[layer.use] = [layer]
        self._ask()
        self._place()
        self._follow()

    def inner(self, value: SSAValue) -> Sequence[SSAValue]:
        """The sums of a layer, before a bias is added to them."""
        maker = self._graph.makers[value]
        return [each for op in maker.ops[:-1] for each in op.results]

    def _ask(self) -> None:
        """Compute the requested factors, from the last op to the first, as far as possible."""
        for node in reversed(self._graph.nodes):
            for result in node.results:
                factors = self._agreed(result)
                if factors is None or result in self._barred:
                    continue
                passage, layer = self._passages.get(node), self._layers.get(node)
                if layer is not None and layer.why_no_rows is None:
                    if layer.indices.rows_on_weights(factors) is not None:
                        self._asked[result] = factors
                elif passage is not None and (pulled := passage.pulled(factors)) is not None:
                    self._asked[result] = factors
                    readers = self._graph.readers_of(result)
                    layers = [each for use in readers for each in self.claims.get(use, ())]
                    for use, of_operand in zip(passage.uses, pulled, strict=True):
                        self._wanted[use] = of_operand
                        self.claims[use] = layers

    def _agreed(self, value: SSAValue) -> Factors | None:
        """The factors that all readers of a value request; None if it should not change."""
        found: Factors | None = None
        for use in self._graph.readers_of(value):
            wanted = self._wanted.get(use)
            if wanted is None:
                return None
            found = wanted if found is None else merged(found, wanted)
            if found is None:
                return None
        return None if found is None or are_ones(found) else found

    def _place(self) -> None:
        """
        Place multiplications as late as possible, unless layers provide their factors earlier.

        A multiplication moves up to a value with a recorded range, since its range is known there.
        """
        for node, passage in self._passages.items():
            (result,) = node.results
            if result not in self._asked:
                continue
            reads = [self._graph.value(use.value) for use in passage.uses]
            is_recorded = any(True for _ in statistics_behind(self._graph, result))
            if is_recorded and not any(value in self._asked for value in reads):
                del self._asked[result]
                for use in passage.uses:
                    del self._wanted[use]

    def _follow(self) -> None:
        """
        Compute the resulting factors, from the first op to the last, also where none is requested.
        """
        for node in self._graph.nodes:
            for result in node.results:
                if (asked := self._asked.get(result)) is None:
                    continue
                passage = self._passages.get(node)
                if passage is None:
                    self.values[result] = filled(asked)
                    continue
                operands = [self._of_read(use) for use in passage.uses]
                moved = passage.moved(operands, np.nan)
                assert moved is not None
                self.values[result] = filled(moved, asked)
        for use, wanted in self._wanted.items():
            value = self._graph.value(use.value)
            if value in self._asked or are_ones(wanted):
                continue
            if self._graph.is_constant(value):
                self.constants[use] = filled(wanted)
            else:
                self.products.append((use, filled(wanted)))

    def _of_read(self, use: Use) -> Factors:
        """The factors of an operand as its op reads it."""
        value = self._graph.value(use.value)
        return self.values[value] if value in self._asked else filled(self._wanted[use])
