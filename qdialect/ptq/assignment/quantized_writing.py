"""An assignment written into its module: `quant.qcast` and `quant.dcast` around float ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final, NamedTuple, cast

from xdsl.dialects.arith import ConstantOp as ArithConstantOp
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.algebra.movement import Shape
from qdialect.algebra.parameters import Granularity
from qdialect.algebra.views import Splat, Values, as_view
from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeBiasOp,
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedTensor,
    RequantizeOp,
    UniformQuantizedType,
)
from qdialect.ir.elements import dense_elements, float_elements
from qdialect.ir.rewriting import insert_after
from qdialect.ir.value_types import element_type_or_self, with_element_type
from qdialect.ops.along_axis import is_statistics
from qdialect.ops.fields import QuantizationRule, RuleKind
from qdialect.ops.interface import elements_attribute_of
from qdialect.ops.unused_ops import erase_unused
from qdialect.ptq.assignment.flow import (
    Flow,
    different_operand,
    joins,
    passes_on,
    type_before_shape,
    type_behind,
)
from qdialect.ptq.assignment.parameter_assignment import Assigned, Assignment
from qdialect.ptq.codes import dequantized_values, held_as_source, kept_attributes, quantized_values
from qdialect.ptq.float_graph.flow_graph import Node, Range, Use, stays_float
from qdialect.ptq.schemes.arrays import array_range, quantize_values
from qdialect.ptq.schemes.noise import Noise
from qdialect.ptq.schemes.schemes import Blocks, bias_in_steps
from qdialect.support.lazy_numpy import NDArray, np

_MOVED: Final = QuantizationRule(RuleKind.MOVED)


class WrittenConstant(NamedTuple):
    """The elements of a constant that was written, and the noise that was added."""

    elements: int
    saturated: int
    """The number of elements beyond the range of codes."""
    range: Range | None
    """The range of the elements, if requested."""
    noise: Noise | None
    """The difference of the codes from the elements, if requested."""


@dataclass(frozen=True)
class Written:
    """The values and ops that were written."""

    nodes: Sequence[Node]
    """The nodes that read and make quantized values."""
    floats: Mapping[Node, str]
    """Why the other nodes stay float."""
    quantized: AbstractSet[SSAValue]
    """The values that are quantized."""
    constants: Mapping[Use, WrittenConstant]
    """The constant operands of quantized nodes."""

    @cached_property
    def uses(self) -> AbstractSet[Use]:
        """The operands of quantized nodes, except weights and biases."""
        return {use for node in self.nodes for use in node.uses}

    def saturated(self, node: Node) -> Iterator[tuple[Use, int]]:
        """The constants of a node with elements beyond the range of codes, and their number."""
        for use in node.constant_uses:
            if (constant := self.constants.get(use)) is not None and constant.saturated:
                yield use, constant.saturated


def why_in_floats(flow: Flow, assignment: Assignment, node: Node) -> str | None:
    """Why a node stays float; None if it is quantized."""
    graph = flow.graph
    if (refusal := flow.refusal(node)) is not None:
        return str(refusal)
    for use in (*node.uses, *node.channel_constants):
        value = graph.value(use.value)
        if graph.is_constant(use.value):
            if use not in assignment.reads and not flow.is_given(use.value):
                return f"its operand {use.number} is a constant without parameters"
        elif assignment.read(use, value) is None:
            if (reason := flow.floats.get(value)) is not None:
                return f"its operand '{graph.keys.get(value, '')}' {reason}"
            return f"there is no record of its operand '{graph.keys.get(value, '')}'"
    for result in node.results:
        if (reason := flow.floats.get(result)) is not None:
            return f"its result '{graph.keys.get(result, '')}' {reason}"
        if result not in assignment.values:
            return f"there is no record of its result '{graph.keys.get(result, '')}'"
    if (passes_on(node) or joins(node)) and not _is_alike(flow, assignment, node):
        return "its operands do not have the parameters of its result"
    weight = node.weight
    if weight is not None and weight not in assignment.reads and not flow.is_given(weight.value):
        return "its weights have no parameters"
    return None


def _is_alike(flow: Flow, assignment: Assignment, node: Node) -> bool:
    """Whether the operands of an op that moves or joins them have the parameters of its result."""
    type = assignment.values[node.results[0]].type
    if type.granularity is Granularity.PER_TENSOR and not flow.is_pinned(node.results[0]):
        return True
    reads = dict[Use, UniformQuantizedType]()
    for use in node.uses:
        read = assignment.read(use, flow.graph.value(use.value))
        if read is not None and not flow.is_given(use.value):
            if passes_on(node) and type_behind(node, read.type) is None:
                return False
            reads[use] = read.type
    return different_operand(node, reads, type) is None


class QuantizedWriter:
    """
    Writes an assignment into its module as casts.

    Each quantized value is read through `quant.dcast` of `quant.qcast`, and each constant as
    `quant.dcast` of a `quant.constant`. An op stays float if one of its operands or results has no
    parameters. If `is_measured`, the result has the noise of constants.
    """

    def __init__(self, flow: Flow, assignment: Assignment, *, is_measured: bool) -> None:
        self._flow = flow
        self._is_measured = is_measured
        self._graph = flow.graph
        self._assignment = assignment
        self._codes = dict[SSAValue, SSAValue]()
        """The quantized value for each value."""
        self._requantized = dict[tuple[SSAValue, Attribute], SSAValue]()
        self._dequantized = dict[SSAValue, SSAValue]()
        """The `quant.dcast` of each quantized value."""
        self._constants = dict[tuple[SSAValue, Assigned], tuple[SSAValue, WrittenConstant]]()
        self._of_uses = dict[Use, WrittenConstant]()

    def write(self) -> Written:
        """Change the module. Returns what was written."""
        floats = dict[Node, str]()
        for node in self._graph.nodes:
            if (reason := why_in_floats(self._flow, self._assignment, node)) is not None:
                floats[node] = reason
        nodes = [node for node in self._graph.nodes if node not in floats]
        # The dequantized constants that replace operands.
        written = [
            (use, use.value, self._constant(node, use, chain[-1]))
            for node in nodes
            for use in node.constant_uses
            if self._graph.is_constant(use.value) and (chain := self._assignment.reads.get(use))
        ]
        touched = dict.fromkeys(
            value
            for node in nodes
            for value in (*(self._graph.value(use.value) for use in node.uses), *node.results)
            if value in self._assignment.values
        )
        touched |= dict.fromkeys(
            place
            for place in self._assignment.declared
            if isinstance(place, SSAValue) and place in self._assignment.values
        )
        quantized = {op for node in nodes for op in node.ops}
        for value in touched:
            readers = self._graph.readers[value]
            self._quantize(value)
            for use in readers:
                if stays_float(use.op) and value not in self._assignment.declared:
                    continue
                is_quantized = use.op in quantized or use in self._assignment.declared
                chain = self._assignment.reads.get(use, ()) if is_quantized else ()
                use.op.operands[use.number] = self._read(value, chain)
        for place in self._assignment.declared:
            if isinstance(place, Use):
                self._declare_result(place)
            elif place in self._codes:
                self._declare_argument(place)
        if self._assignment.declared:
            for function in self._graph.functions:
                function.update_function_type()
        for use, _, new in written:
            use.op.operands[use.number] = new
        erase_unused([old.owner for _, old, _ in written if isinstance(old.owner, Operation)])
        return Written(nodes, floats, self._codes.keys(), self._of_uses)

    def _quantize(self, value: SSAValue) -> None:
        """Insert the casts of a value, unless they exist."""
        last = self._graph.last.get(value, value)
        if value in self._graph.given:
            codes = self._codes[value] = self._graph.codes[value]
            if isinstance(last.owner, DequantizeCastOp) and last.owner.operands[0] is codes:
                self._dequantized[codes] = last
            return
        type = self._assignment.values[value].type
        quantized = with_element_type(last.type, type)
        quantize = QuantizeCastOp.create(operands=[last], result_types=[quantized])
        back = DequantizeCastOp.create(operands=quantize.results, result_types=[last.type])
        insert_after(quantize, last)
        insert_after(back, quantize.results[0])
        for op in (quantize, back):
            op.results[0].name_hint = value.name_hint
        self._codes[value] = quantize.results[0]
        self._dequantized[quantize.results[0]] = back.results[0]

    def _read(self, value: SSAValue, chain: Sequence[Assigned]) -> SSAValue:
        """A value as one user reads it: requantized to the parameters of `chain`, in order."""
        codes = self._codes[value]
        for link in chain:
            key = codes, cast(Attribute, link.type)
            if (known := self._requantized.get(key)) is None:
                op = RequantizeOp(codes, with_element_type(codes.type, link.type))
                insert_after(op, self._dequantized.get(codes, codes))
                op.results[0].name_hint = value.name_hint
                known = self._requantized[key] = op.results[0]
            codes = known
        if codes not in self._dequantized:
            self._dequantized[codes] = self._dequantize(codes, value)
        return self._dequantized[codes]

    def _dequantize(self, codes: SSAValue, value: SSAValue) -> SSAValue:
        """The cast of codes, right after them: one that is there already, or a new one."""
        type = self._graph.last.get(value, value).type
        users = (use.operation for use in codes.uses)
        known = (op for op in users if isinstance(op, DequantizeCastOp) and op.result.type == type)
        if (op := next(known, None)) is None:
            op = DequantizeCastOp(codes, type)
            op.result.name_hint = value.name_hint
        else:
            op.detach()
        insert_after(op, codes)
        return op.result

    def _declare_argument(self, argument: SSAValue) -> None:
        """Give an argument its quantized type, in place of its cast."""
        quantize = cast(Operation, self._codes[argument].owner)
        between = quantize.operands[0].owner
        new = Rewriter.replace_value_with_new_type(argument, self._codes[argument].type)
        Rewriter.replace_op(quantize, [], [new])
        if isinstance(between, Operation):
            Rewriter.erase_op(between)

    def _declare_result(self, use: Use) -> None:
        """Make the function return the codes of a value."""
        back = use.value.owner
        if isinstance(back, DequantizeCastOp):
            use.op.operands[use.number] = back.operands[0]
            erase_unused([back])

    def _constant(self, node: Node, use: Use, assigned: Assigned) -> SSAValue:
        key = use.value, assigned
        if key not in self._constants:
            self._constants[key] = self._new_constant(node, use, assigned)
        value, self._of_uses[use] = self._constants[key]
        return value

    def _new_constant(
        self, node: Node, use: Use, assigned: Assigned
    ) -> tuple[SSAValue, WrittenConstant]:
        """A quantized constant and its `quant.dcast`, before shape ops that repeat elements."""
        moved = self._graph.constant(use.value)
        assert moved is not None
        source, path, type = use.value, list[Operation](), assigned.type
        is_repeated = bool(moved.repeated_bytes)
        if is_repeated and (before := self._before_shapes(use.value, type)) is not None:
            source, path, type = before
            moved = self._graph.constant(source)
            assert moved is not None
        values = self._graph.elements(moved)
        place = moved.provenance.sources[0]
        tensor = cast(QuantizedTensor, with_element_type(source.type, type))
        if node.bias is not None and use == node.bias.use:
            new, written = self._bias(node, values, source.type, tensor, assigned.bits)
        else:
            codes = self._codes_of(node, use, values, source, tensor, assigned)
            written = self._described(assigned, values, codes, tensor)
            elements = held_as_source(codes, tensor, place, self._graph.folding.constants.resources)
            constant = ConstantOp(elements, tensor)
            back = DequantizeCastOp(constant, source.type)
            new = [constant, back]
        new[0].attributes |= kept_attributes(moved.provenance.sources)
        for op in new:
            op.results[0].name_hint = place.results[0].name_hint
            op.location = place.location
        Rewriter.insert_op(new, InsertPoint.after(place))
        result = new[-1].results[0]
        for op in reversed(path):
            clone = op.clone({op.operands[0]: result})
            Rewriter.insert_op(clone, InsertPoint.after(op))
            result = clone.results[0]
        return result, written

    def _before_shapes(
        self, value: SSAValue, type: UniformQuantizedType
    ) -> tuple[SSAValue, list[Operation], UniformQuantizedType] | None:
        """The constant before shape ops, these ops, and its type; None if the type is not known."""
        path = list[Operation]()
        while elements_attribute_of(op := cast(Operation, value.owner)) is None:
            if is_statistics(op):
                value = op.operands[0]
                continue
            if (moved := self._graph.movements(op)) is None:
                return None
            operands, movements, padding = moved
            if len(operands) != 1 or padding is not None or operands[0] is not op.operands[0]:
                return None
            node = Node((op,), _MOVED, (Use(op, 0),), (value,), tuple(movements))
            before = type_before_shape(node, type)
            if before is None:
                return None
            path.append(op)
            value, type = operands[0], before
        return value, path, type

    def _codes_of(
        self,
        node: Node,
        use: Use,
        values: Values,
        source: SSAValue,
        tensor: QuantizedTensor,
        assigned: Assigned,
    ) -> Values:
        """The codes of a constant, by the scheme that chose its parameters, if one did."""
        expressed = cast(AnyFloat, element_type_or_self(use.value.type))
        precision = self._flow.precision(node)
        is_weight = use == node.weight
        known = self._flow.weights.get((use, assigned))
        if known is not None and source is use.value and not isinstance(values, Splat):
            codes, choice = known
            if codes is None:
                codes = quantize_values(float_elements(values, expressed), choice)
            return codes
        scheme = precision.weights.scheme if is_weight else precision.activations
        if assigned.rule is RuleKind.GIVEN:
            type = tensor.element_type
            axes = type.quantized_dimensions
            sizes = type.block_sizes or (1,) * len(axes)
            blocks = Blocks(tuple(zip(axes, sizes, strict=True)))
            codes, own = quantized_values(values, expressed, scheme, blocks)
            if own == tensor:
                return codes
        parameters = tensor.element_type.parameters_on(tensor.get_shape())
        numbers = float_elements(values, expressed)
        if tensor.element_type.storage_format == scheme.storage and parameters.size == 1:
            choice = scheme.given(parameters.scales.reshape(()), parameters.zero_points.reshape(()))
            codes = quantize_values(numbers, choice)
        else:
            ends = tensor.element_type.storage_type_min, tensor.element_type.storage_type_max
            codes = parameters.store(numbers.astype("f8"), *ends)
        if isinstance(values, Splat) and codes.size == 1:
            return Splat(codes.reshape(-1)[0], tensor.get_shape())
        return codes

    def _described(
        self, assigned: Assigned, values: Values, codes: Values, tensor: QuantizedTensor
    ) -> WrittenConstant:
        """The saturation and the noise of a constant."""
        type, shape = tensor.element_type, tensor.get_shape()
        is_own = assigned.rule is RuleKind.GIVEN
        if is_own and not self._is_measured:
            # Parameters that were chosen for these elements represent all of them.
            return WrittenConstant(prod(shape), 0, None, None)
        expressed = type.expressed_type
        numbers = float_elements(values, expressed)
        stored = codes.value if isinstance(codes, Splat) else as_view(codes).array()
        saturated = 0
        ends = type.storage_type_min, type.storage_type_max
        if not is_own and any((stored == end).any() for end in ends):
            scales, zero_points = type.parameters_on(shape).expand()
            steps = numbers.astype("f8") / scales
            low, high = (end - zero_points for end in ends)
            beyond = np.broadcast_to((steps < low - 0.5) | (steps > high + 0.5), shape)
            saturated = int(np.count_nonzero(beyond))
        if not self._is_measured:
            return WrittenConstant(prod(shape), saturated, None, None)
        results = float_elements(dequantized_values(codes, tensor), expressed)
        noise = Noise.between(*(np.broadcast_to(array, shape) for array in (numbers, results)))
        return WrittenConstant(prod(shape), saturated, _range_of(numbers), noise)

    def _bias(
        self, node: Node, values: Values, type: Attribute, tensor: QuantizedTensor, bits: int
    ) -> tuple[list[Operation], WrittenConstant]:
        """A bias of `type` quantized by its scales, and its `quant.dcast`."""
        expressed = cast(AnyFloat, element_type_or_self(type))
        shape = tensor.get_shape()
        numbers = np.broadcast_to(float_elements(values, expressed), shape).astype("f4")
        scales = _scales_on(tensor.element_type, shape).astype("f4")
        precision = self._flow.precision(node)
        codes, saturated = bias_in_steps(numbers, scales, precision.bias, precision.bias_storage)
        ends = noise = None
        if self._is_measured:
            ends = _range_of(numbers)
            noise = Noise.between(numbers, codes * scales.astype("f8"))
        written = WrittenConstant(numbers.size, saturated, ends, noise)
        if not bits:
            constant = ConstantOp(codes, tensor)
            return [constant, DequantizeCastOp(constant, type)], written
        wide = TensorType(IntegerType(bits), shape)
        stored = ArithConstantOp(dense_elements(codes, wide.element_type), wide)
        axes, of_slots = tensor.element_type.quantized_dimensions, tensor.element_type.scales
        axis = axes[0] if axes else None
        return [stored, DequantizeBiasOp(stored, type, of_slots.reshape(-1), axis)], written


def _range_of(numbers: NDArray[Any]) -> Range:
    whole = array_range(np.atleast_1d(numbers))
    return Range(float(whole.minimum.item()), float(whole.maximum.item()))


def _scales_on(type: UniformQuantizedType, shape: Shape) -> NDArray[np.float64]:
    """The scales of a type, broadcastable to the shape of its tensor."""
    match type.granularity:
        case Granularity.PER_TENSOR:
            return type.scales
        case Granularity.PER_AXIS:
            (axis,) = type.quantized_dimensions
            return type.scales.reshape([-1 if at == axis else 1 for at in range(len(shape))])
        case Granularity.SUB_CHANNEL:
            return type.parameters_on(shape).expand()[0]
