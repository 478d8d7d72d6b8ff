"""The report of a quantization: a record for each value that has, or could have, parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block, Operation, SSAValue

from qdialect.dialects.quant import UniformQuantizedType
from qdialect.ops.interface import RefusalCode, name_of
from qdialect.ops.rules import RuleKind, reason_to_leave
from qdialect.ptq.assignment.flow import Flow
from qdialect.ptq.assignment.parameter_assignment import Assigned, Assignment
from qdialect.ptq.assignment.quantized_writing import Written, constant_uses
from qdialect.ptq.float_graph.flow_graph import (
    FlowGraph,
    Node,
    Range,
    Use,
    is_quantizable,
)
from qdialect.ptq.schemes.expected_noise import Spread, expected_noise
from qdialect.ptq.schemes.presets import name_of_scheme
from qdialect.ptq.schemes.profile import Profile
from qdialect.ptq.value_reports import (
    Basis,
    Reader,
    Role,
    Stored,
    ValueReport,
    zero_points_of,
)


class ValueReporter:
    """
    Reports the values of a graph.

    It has to be constructed before the module changes, and called afterwards.
    """

    def __init__(self, flow: Flow, assignment: Assignment, profile: Profile | None) -> None:
        self._flow = flow
        self._graph: FlowGraph = flow.graph
        self._assignment = assignment
        self._profile = profile
        graph = self._graph
        self._values = list(_values_of(graph))
        self._constants = [
            (node, use)
            for node in graph.nodes
            for use in constant_uses(node)
            if graph.is_constant(use.value)
        ]
        self._given = {
            use: type
            for _, use in self._constants
            if (type := given_type(graph, use.value)) is not None
        }
        self._held = {use: use.value for _, use in self._constants}
        self._readers = {value: list(graph.readers_of(value)) for value in self._values}

    def report(self, written: Written, unknown: Sequence[Operation]) -> list[ValueReport]:
        """All values, and all constants that ops with rules read."""
        found = [self._of_value(value, written, set(unknown)) for value in self._values]
        done = set[tuple[SSAValue, Assigned | None, Role]]()
        for node, use in self._constants:
            assigned = self._assigned_of_constant(node, use, written)
            role = _role_of(node, use)
            if (self._held[use], assigned, role) not in done:
                done.add((self._held[use], assigned, role))
                found.append(self._of_constant(node, use, assigned, role, written))
        return found

    def _of_value(self, value: SSAValue, written: Written, unknown: set[Operation]) -> ValueReport:
        graph = self._graph
        maker = graph.makers.get(value)
        precision = self._flow.settings.default if maker is None else self._flow.precision(maker)
        recorded = graph.ranges.get(value)
        given = graph.given.get(value)
        role = Role.ACTIVATION if isinstance(value.owner, Operation) else Role.ARGUMENT
        report = ValueReport(graph.keys[value], value, role, precision.name, recorded)
        if value not in written.quantized and given is None:
            code, reason = self._why_in_floats(value, written, unknown)
            return report._replace(code=code, reason=reason)
        if given is None:
            assigned = self._assignment.values[value]
        else:
            assigned = Assigned(given, RuleKind.GIVEN, recorded)
        reads = list[Reader]()
        for use in self._readers[value]:
            chain = self._assignment.reads.get(use, ())
            is_read = use in written.uses or use in self._assignment.declared
            if chain and is_read and not chain[-1].is_same_as(assigned):
                reads.append(Reader(*use, self._stored(value, chain[-1])))
        return report._replace(stored=self._stored(value, assigned), reads=tuple(reads))

    def _stored(self, value: SSAValue, assigned: Assigned) -> Stored:
        """The parameters of a value, with the expected noise."""
        type = assigned.type
        found = Stored(
            type,
            assigned.bits or type.storage_format.width,
            assigned.rule,
            self._scheme_name(value, assigned),
            assigned.origin,
            assigned.range,
        )
        spread = self._spread(value, assigned)
        if spread is None:
            return found
        basis, numbers = spread
        ends = type.storage_type_min, type.storage_type_max
        expected = expected_noise(numbers, type.scales, zero_points_of(type), *ends)
        return found._replace(decibels=expected.decibels, basis=basis, saturated=expected.saturated)

    def _spread(self, value: SSAValue, assigned: Assigned) -> tuple[Basis, Spread] | None:
        """The distribution of the elements of a value; None if it has no range."""
        maker = self._graph.makers.get(value)
        is_filled = maker is not None and maker.filler is not None
        # The recorded range may include the fill value, which the estimate leaves out.
        own = None if is_filled else self._graph.ranges.get(value)
        recorded = own or assigned.range
        if recorded is None and assigned.rule is RuleKind.FIXED:
            type = assigned.type
            scale, zero_point = type.single_slot
            ends = type.storage_type_min, type.storage_type_max
            recorded = Range(*((end - zero_point) * scale for end in ends))
        if recorded is None:
            return None
        statistics = None
        if self._profile is not None:
            statistics = self._profile.statistics(self._graph.keys[value])
        if statistics is not None and statistics.histogram is not None:
            whole = statistics.whole()
            ends = float(whole.minimum.min()), float(whole.maximum.max())
            return Basis.HISTOGRAM, Spread.of_histogram(statistics.histogram, *ends)
        return Basis.UNIFORM, Spread.even(*recorded)

    def _scheme_name(self, value: SSAValue, assigned: Assigned) -> str:
        if assigned.rule is RuleKind.GIVEN and not self._graph.is_constant(value):
            return ""
        maker = self._graph.makers.get(value)
        default = self._flow.settings.default
        precision = default if maker is None else self._flow.precision(maker)
        for scheme in (precision.activations, default.activations):
            if scheme.storage == assigned.type.storage_format:
                return name_of_scheme(scheme)
        others = self._flow.settings.layers.values()
        return next(
            (
                name_of_scheme(other.activations)
                for other in others
                if other.activations.storage == assigned.type.storage_format
            ),
            "",
        )

    def _why_in_floats(
        self, value: SSAValue, written: Written, unknown: set[Operation]
    ) -> tuple[RefusalCode | None, str]:
        owner, maker = value.owner, self._graph.makers.get(value)
        if maker is not None and maker in written.floats:
            return self._refusal(maker, written)
        if isinstance(owner, Operation):
            if (inside := self._graph.node_of.get(owner)) is not None:
                if inside in written.floats:
                    return self._refusal(inside, written)
                if inside.name:
                    return (
                        None,
                        f"it is inside {inside.name} of {len(inside.ops)} ops, one function",
                    )
                return None, "it is quantized only after the bias is added"
            if (layer := self._graph.of_biases.get(owner)) is not None:
                reason = f"it broadcasts the bias of '{name_of(layer.ops[0])}', which is quantized"
                return None, self._flow.float_biases.get(layer.op, reason)
            if owner in unknown:
                unknown_op = f"no quantization rule for '{name_of(owner)}' is known"
                return RefusalCode.UNKNOWN_OP, reason_to_leave(owner) or unknown_op
        reads = [use for use in self._readers[value] if use in written.uses]
        if not reads:
            return None, "no quantized op makes or reads it"
        return RefusalCode.NO_RECORD, "it has no recorded range"

    def _refusal(self, node: Node, written: Written) -> tuple[RefusalCode, str]:
        code = self._flow.code_of_refusal(node)
        return code, f"'{name_of(node.op)}' stays in floats: {written.floats[node]}"

    def _assigned_of_constant(self, node: Node, use: Use, written: Written) -> Assigned | None:
        if node in written.floats:
            return None
        chain = self._assignment.reads.get(use)
        return chain[-1] if chain else None

    def _of_constant(
        self, node: Node, use: Use, assigned: Assigned | None, role: Role, written: Written
    ) -> ValueReport:
        graph, value = self._graph, self._held[use]
        precision = self._flow.precision(node)
        report = ValueReport(graph.keys.get(value, ""), value, role, precision.name, None)
        if assigned is None:
            given = self._given.get(use)
            if given is not None:
                stored = Stored(given, given.storage_format.width, RuleKind.GIVEN)
                return report._replace(stored=stored)
            if node in written.floats:
                code, reason = self._refusal(node, written)
            else:
                code = None
                reason = self._flow.float_biases.get(node.op, "it has no parameters")
            return report._replace(code=code, reason=reason)
        scheme = ""
        if assigned.rule is RuleKind.GIVEN:
            weights, own = precision.weights.scheme, precision.activations
            scheme = name_of_scheme(weights if role is Role.WEIGHT else own)
        constant = written.constants[use]
        stored = Stored(
            assigned.type,
            assigned.bits or assigned.type.storage_format.width,
            assigned.rule,
            scheme,
            assigned.origin,
            assigned.range,
            None if constant.noise is None else constant.noise.decibels,
            None if constant.noise is None else Basis.MEASURED,
            constant.saturated / constant.elements if constant.elements else 0.0,
            constant.saturated,
        )
        return report._replace(range=constant.range, stored=stored)


def _role_of(node: Node, use: Use) -> Role:
    if use == node.weight:
        return Role.WEIGHT
    return Role.BIAS if node.bias is not None and use == node.bias.use else Role.CONSTANT


def _values_of(graph: FlowGraph) -> Iterator[SSAValue]:
    """All tensors of floats, in the order of the module."""
    seen, blocks = set[Block](), iter(graph.blocks)
    for op in graph.ops:
        while op.parent not in seen:
            # Blocks before it may have no op on floats.
            block = next(blocks)
            seen.add(block)
            yield from filter(is_quantizable, block.args)
        for result in op.results:
            # A reshape of a tensor without defined elements has no key.
            is_value = result in graph.keys and result not in graph.same
            if is_value and is_quantizable(result) and not graph.is_constant(result):
                yield result
    for block in blocks:
        yield from filter(is_quantizable, block.args)


def given_type(graph: FlowGraph, value: SSAValue) -> UniformQuantizedType | None:
    """The type in which ops read a constant that was quantized in the input; None for floats."""
    moved = graph.constant(value)
    for layer in reversed(() if moved is None else moved.layers):
        if layer.parameters is not None and isinstance(layer.element_type, UniformQuantizedType):
            return layer.element_type.with_parameters(layer.parameters)
    return None
