"""
Quantization of the constant weights of layers, by the ranges of their values.

Shape ops between a constant and its layer are folded first, so that the tensor that the layer reads
is quantized, along the axes of that operand. A fold before or after gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.algebra.movement import BroadcastInDim
from qdialect.algebra.views import Values
from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeCastOp,
    QuantizedTensor,
)
from qdialect.folding.graph import FoldGraph, GraphReader
from qdialect.folding.inlining import inline_calls
from qdialect.folding.moved_constant import MovedConstant
from qdialect.folding.report import Outcome, PassRecord
from qdialect.folding.writing import constant_like
from qdialect.ir.elements import float_elements
from qdialect.ir.value_types import tensor_parts
from qdialect.ops.fields import Contraction, Lookup, RuleKind
from qdialect.ops.interface import Refusal, RefusalCode, layer_of, models_of, name_of
from qdialect.ops.unused_ops import erase_unused
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.codes import (
    WeightAxes,
    blocks_of_weight,
    dequantized_values,
    held_as_source,
    kept_attributes,
    quantized_values,
)
from qdialect.ptq.schemes.arrays import array_range
from qdialect.ptq.schemes.noise import Noise
from qdialect.ptq.schemes.presets import name_of_scheme
from qdialect.ptq.schemes.schemes import Blocks, WeightGranularity, WeightPolicy
from qdialect.ptq.value_reports import (
    Basis,
    QuantizationReport,
    Role,
    Stored,
    ValueReport,
)
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import memory_budget, paused_collection


class _Weight(NamedTuple):
    """A tensor that one or more layers read as weights."""

    value: SSAValue
    moved: MovedConstant
    layers: list[Operation]
    uses: list[tuple[Operation, int]]
    """
    For each layer: the user of the tensor (the layer, or a broadcast), and the operand number.
    """
    axes: list[WeightAxes]
    """For each layer, the roles of the axes."""


def quantize_weights(
    module: ModuleOp,
    context: Context,
    policy: WeightPolicy,
    *,
    is_dequantized: bool = False,
    is_explained: bool = False,
) -> QuantizationReport:
    """
    Replace each constant weight of a known layer by `quant.dcast` of a quantized constant.

    Calls are inlined first. If `is_dequantized`, weights become the floats that the cast would
    return. The report has a record for each layer: the type of its weights, or why they are not
    quantized. If `is_explained`, it has the parameters, too.
    """
    with paused_collection(), models_of(context), memory_budget() as budget:
        calls = inline_calls(module)
        keys = keys_of(module).of_values if is_explained else None
        graph = GraphReader(module, context, budget).graph
        quantizer = _WeightQuantizer(graph, policy, keys, is_dequantized=is_dequantized)
        quantizer.report.records += calls
        quantizer.run(module)
        return quantizer.report


class _WeightQuantizer:
    def __init__(
        self,
        graph: FoldGraph,
        policy: WeightPolicy,
        keys: Mapping[SSAValue, str] | None,
        *,
        is_dequantized: bool,
    ) -> None:
        """With `keys`, those of all values, the report lists the chosen parameters."""
        self._graph = graph
        self._policy = policy
        self._keys = keys
        self._is_dequantized = is_dequantized
        self._resources = graph.constants.resources
        self.report = QuantizationReport(verb="quantized")
        self._uses = set[tuple[Operation, int]]()
        """The operands that are weights: the layer, and the operand number."""

    def run(self, module: ModuleOp) -> None:
        """Quantize the weights of the module."""
        weights = dict[SSAValue, _Weight]()
        for op in list(module.walk()):
            try:
                self._find(op, weights)
            except Refusal as error:
                self.report.refuse(op, error)
        replaced = list[SSAValue]()
        for weight in weights.values():
            try:
                new = self._quantized(weight)
            except Refusal as error:
                for op in weight.layers:
                    self.report.refuse(op, error)
                self._explain(weight, None, error)
                continue
            for op, number in weight.uses:
                replaced.append(op.operands[number])
                op.operands[number] = new.results[0]
        erase_unused([cast(Operation, value.owner) for value in replaced])

    def _find(self, op: Operation, weights: dict[SSAValue, _Weight]) -> None:
        """Add the weights of a layer. Raises Refusal if they are not constant."""
        if (layer := layer_of(op)) is None:
            return
        if any(tensor_parts(type) is not None for type in op.result_types) and not all(
            isinstance(type, TensorType) for type in op.result_types
        ):
            reason = f"'{op.result_types[0]}' is no builtin tensor: lower the module first"
            raise Refusal(RefusalCode.UNKNOWN_OP, reason)
        sides = list(sides_of(layer))
        refusals = list[Refusal]()
        for number, axes in sides:
            value = self._graph.final(op.operands[number])
            try:
                moved = self._constant(value, op)
            except Refusal as error:
                refusals.append(error)
                continue
            use = op, number
            while moved.repeated_bytes and (behind := self._before_repetition(use, axes)):
                use, axes = behind
                value = self._graph.final(use[0].operands[use[1]])
                moved = self._constant(value, use[0])
            weight = weights.setdefault(value, _Weight(value, moved, [], [], []))
            weight.layers.append(op)
            weight.uses.append(use)
            self._uses.add(use)
            weight.axes.append(axes)
            return
        raise refusals[0]

    def _before_repetition(
        self, use: tuple[Operation, int], axes: WeightAxes
    ) -> tuple[tuple[Operation, int], WeightAxes] | None:
        """
        The operand of a broadcast whose result only this use reads, and its axes of weights.

        None if another shape op makes the weights. They are quantized once, before the broadcast.
        """
        op, number = use
        value = self._graph.final(op.operands[number])
        repeats = value.owner
        if not isinstance(repeats, Operation) or not self._is_read_alone(value, use):
            return None
        if (model := self._graph.models.get(repeats)) is None:
            return None
        read = self._graph.operands.read(repeats, model)
        if len(read.operands) != 1 or len(read.movements) != 1:
            return None
        movement = read.movements[0]
        if not isinstance(movement, BroadcastInDim):
            return None
        before = WeightAxes(
            *(tuple(at for at, to in enumerate(movement.dims) if to in role) for role in axes)
        )
        return (repeats, list(repeats.operands).index(read.operands[0])), before

    def _is_read_alone(self, value: SSAValue, use: tuple[Operation, int]) -> bool:
        """Whether a value and its copies have no other user."""
        pending = [value]
        while pending:
            for other in pending.pop().uses:
                if (other.operation, other.index) == use:
                    continue
                results = other.operation.results
                if not results or any(self._graph.final(result) is not value for result in results):
                    return False
                pending += results
        return True

    def _constant(self, value: SSAValue, user: Operation) -> MovedConstant:
        """The constant behind a weight. Raises Refusal if its elements are not floats."""
        moved = self._graph.known(value, user)
        if moved.casts or moved.is_quantized:
            raise Refusal(RefusalCode.QUANTIZED, "its weights are quantized")
        if not isinstance(moved.layers[0].element_type, AnyFloat):
            raise Refusal(RefusalCode.UNKNOWN_OP, "its weights are not floats")
        return moved

    def _quantized(self, weight: _Weight) -> Operation:
        """Insert the quantized weight and its cast, and return the cast. Raises Refusal."""
        for source in weight.moved.provenance.sources:
            if (other := self._other_user(source.results[0])) is not None:
                raise Refusal(RefusalCode.USES, f"its weights are used by '{name_of(other)}' too")
        if weight.moved.repeated_bytes:
            raise Refusal(RefusalCode.GROWTH, "its weights are repeated by a shape op")
        shape = weight.moved.shape
        all_axes = {axes.longer(shape) for axes in weight.axes}
        return self._write(weight, *blocks_of_weight(all_axes, shape, self._policy))

    def _other_user(self, value: SSAValue) -> Operation | None:
        """An op that reads a value, perhaps through shape ops, but not as weights of a layer."""
        pending, seen = [value], {value}
        while pending:
            for use in pending.pop().uses:
                if (use.operation, use.index) in self._uses:
                    continue
                if use.operation not in self._graph.models:
                    return use.operation
                behind = [result for result in use.operation.results if result not in seen]
                pending += behind
                seen.update(behind)
        return None

    def _write(self, weight: _Weight, blocks: Blocks, granularity: WeightGranularity) -> Operation:
        scheme = self._policy.scheme
        expressed = cast(AnyFloat, weight.moved.layers[0].element_type)
        values = self._graph.values_of(weight.moved)
        codes, type = quantized_values(values, expressed, scheme, blocks)
        self._explain(weight, self._stored(values, codes, type, expressed))
        sources = weight.moved.provenance.sources
        if self._is_dequantized:
            numbers = dequantized_values(codes, type)
            constant = constant_like(sources, numbers, weight.value.type, self._resources)
            new = [constant]
        else:
            elements = held_as_source(codes, type, sources[0], self._resources)
            constant = ConstantOp(elements, type)
            constant.attributes |= kept_attributes(sources)
            constant.location = sources[0].location
            new = [constant, DequantizeCastOp(constant, TensorType(expressed, type.get_shape()))]
        for op in new:
            op.results[0].name_hint = sources[0].results[0].name_hint
        owner = cast(Operation, weight.value.owner)
        Rewriter.insert_op(new, InsertPoint.after(owner))
        kind = "fake-quantized in " if self._is_dequantized else ""
        for op in weight.layers:
            self.report.records.append(
                PassRecord(
                    Outcome.QUANTIZED,
                    op,
                    name_of(op),
                    reason=f"its weights are {kind}'{scheme.storage.name}', per {granularity}",
                    constant=constant.results[0],
                )
            )
        return new[-1]

    def _stored(
        self, values: Values, codes: Values, type: QuantizedTensor, expressed: AnyFloat
    ) -> Stored | None:
        """The stored form of a weight and its noise, if a report is requested."""
        if self._keys is None:
            return None
        element, scheme = type.element_type, self._policy.scheme
        shape = type.get_shape()
        before, after = (
            np.broadcast_to(float_elements(elements, expressed), shape)
            for elements in (values, dequantized_values(codes, type))
        )
        ranges = array_range(before)
        saturated = 0
        # Own ranges hold all numbers, but powers of two may be smaller.
        if scheme.magnitudes is not None:
            scales, _ = element.parameters_on(shape).expand()
            low, high = scheme.ends
            saturated = int(np.count_nonzero((before < low * scales) | (before > high * scales)))
        return Stored(
            element,
            element.storage_format.width,
            RuleKind.GIVEN,
            name_of_scheme(scheme),
            range=(float(ranges.minimum.item()), float(ranges.maximum.item())),
            decibels=Noise.between(before, after).decibels,
            basis=Basis.MEASURED,
            saturated=saturated / max(before.size, 1),
            saturated_elements=saturated,
        )

    def _explain(
        self, weight: _Weight, stored: Stored | None, error: Refusal | None = None
    ) -> None:
        """Report the stored form of a weight, or why it stays float, if a report is requested."""
        if self._keys is None:
            return
        self.report.values.append(
            ValueReport(
                self._keys.get(weight.value, ""),
                weight.value,
                Role.WEIGHT,
                "",
                None if stored is None else stored.range,
                stored,
                code=None if error is None else error.code,
                reason="" if error is None else str(error),
            )
        )


def sides_of(layer: Contraction | Lookup) -> Iterator[tuple[int, WeightAxes]]:
    """The operands that may be weights, the likely one first, and the roles of their axes."""
    if isinstance(layer, Lookup):
        yield layer.operand, WeightAxes((layer.axis,), ())
        return
    for number in (1, 0):
        side = layer.side(number)
        yield side.operand, WeightAxes(side.channel_axes, side.contracted_axes)
