"""The whole sequence: read the graph, assign parameters, write them, and report each value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from qdialect.folding.inlining import inline_calls
from qdialect.folding.policy import FoldPolicy
from qdialect.folding.raising import raise_dequantization
from qdialect.folding.report import Outcome, PassRecord, PassReport
from qdialect.ops.along_axis import drop_ranges
from qdialect.ops.fields import RuleKind
from qdialect.ops.interface import Refusal, RefusalCode, models_of, name_of, op_model
from qdialect.ptq.assignment.assignment_steps import SEQUENCE, Step
from qdialect.ptq.assignment.flow import Flow, range_of
from qdialect.ptq.assignment.given_quantization import (
    drop_unit_factors,
    rewrite_casts,
    rewrite_pairs,
    write_constants,
)
from qdialect.ptq.assignment.parameter_assignment import (
    Assigned,
    Assignment,
    drop_attributes,
    read_attributes,
    write_attributes,
)
from qdialect.ptq.assignment.quantized_writing import QuantizedWriter, Written
from qdialect.ptq.assignment.settings import SettingError, Settings
from qdialect.ptq.calibration.keys import constant_values
from qdialect.ptq.float_graph.flow_graph import (
    LOWER_TENSORS,
    FlowGraph,
    Node,
    Use,
    is_other_tensor,
    is_quantizable,
)
from qdialect.ptq.float_graph.flow_reading import read_nodes, value_graph
from qdialect.ptq.schemes.noise import Spread, expected_noise
from qdialect.ptq.schemes.presets import name_of_scheme
from qdialect.ptq.schemes.profile import Profile
from qdialect.ptq.value_reports import (
    Basis,
    QuantizationReport,
    Reader,
    Role,
    Stored,
    ValueReport,
    zero_points_of,
)
from qdialect.support.memory import memory_budget, paused_collection


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
            for use in node.constant_uses
            if graph.is_constant(use.value)
        ]
        self._given = {
            use: type
            for _, use in self._constants
            if (type := graph.given_type(use.value)) is not None
        }
        self._held = {use: use.value for _, use in self._constants}
        self._readers = {value: list(graph.readers_of(value)) for value in self._values}

    def report(self, written: Written, unknown: Sequence[Operation]) -> list[ValueReport]:
        """All values, and all constants that ops with rules read."""
        reports = [self._of_value(value, written, set(unknown)) for value in self._values]
        done = set[tuple[SSAValue, Assigned | None, Role]]()
        for node, use in self._constants:
            chain = () if node in written.floats else self._assignment.reads.get(use, ())
            assigned = chain[-1] if chain else None
            role = _role_of(node, use)
            if (self._held[use], assigned, role) not in done:
                done.add((self._held[use], assigned, role))
                reports.append(self._of_constant(node, use, assigned, role, written))
        return reports

    def _of_value(self, value: SSAValue, written: Written, unknown: set[Operation]) -> ValueReport:
        graph = self._graph
        recorded = graph.ranges.get(value)
        given = graph.given.get(value)
        role = Role.ACTIVATION if isinstance(value.owner, Operation) else Role.ARGUMENT
        # Such as zeros that fill a tensor, and have no rule.
        if value.owner not in graph.node_of and graph.is_computed(value):
            role = Role.CONSTANT
        precision = self._flow.precision_of(value).name
        report = ValueReport(graph.keys[value], value, role, precision, recorded)
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
            if chain and is_read and chain[-1].type != assigned.type:
                reads.append(Reader(*use, self._stored(value, chain[-1])))
        return report._replace(stored=self._stored(value, assigned), reads=tuple(reads))

    def _stored(self, value: SSAValue, assigned: Assigned) -> Stored:
        """The parameters of a value, with the expected noise."""
        type, stored = assigned.type, _stored(assigned, self._scheme_name(value, assigned))
        spread = self._spread(value, assigned)
        if spread is None:
            return stored
        basis, numbers = spread
        ends = type.storage_type_min, type.storage_type_max
        expected = expected_noise(numbers, type.scales, zero_points_of(type), *ends)
        return stored._replace(
            decibels=expected.decibels, basis=basis, saturated=expected.saturated
        )

    def _spread(self, value: SSAValue, assigned: Assigned) -> tuple[Basis, Spread] | None:
        """The distribution of the elements of a value; None if it has no range."""
        maker = self._graph.makers.get(value)
        is_filled = maker is not None and maker.padding is not None
        # The recorded range may include the fill value, which the estimate leaves out.
        own = None if is_filled else self._graph.ranges.get(value)
        recorded = own or assigned.range
        if recorded is None and assigned.rule is RuleKind.FIXED:
            recorded = range_of(assigned.type)
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
        settings = self._flow.settings
        others = filter(None, settings.layers.values())
        schemes = (
            precision.activations
            for precision in (self._flow.precision_of(value), settings.default, *others)
            if precision.activations.storage == assigned.type.storage_format
        )
        return next(map(name_of_scheme, schemes), "")

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
                if inside.is_function:
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
                return RefusalCode.UNKNOWN_OP, op_model(owner).stays_float or unknown_op
        reads = [use for use in self._readers[value] if use in written.uses]
        if not reads:
            return None, "no quantized op makes or reads it"
        return RefusalCode.NO_RECORD, "it has no recorded range"

    def _refusal(self, node: Node, written: Written) -> tuple[RefusalCode, str]:
        code = self._flow.code_of_refusal(node)
        return code, f"'{name_of(node.op)}' stays in floats: {written.floats[node]}"

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
        stored = _stored(assigned, scheme)._replace(
            decibels=None if constant.noise is None else constant.noise.decibels,
            basis=None if constant.noise is None else Basis.MEASURED,
            saturated=constant.saturated / constant.elements if constant.elements else 0.0,
            saturated_elements=constant.saturated,
        )
        return report._replace(range=constant.range, stored=stored)


def _stored(assigned: Assigned, scheme: str) -> Stored:
    """The parameters of a value that a scheme chose; their noise is not known yet."""
    type, rule, ends, origin, bits = assigned
    return Stored(type, bits or type.storage_format.width, rule, scheme, origin, ends)


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


def quantize_model(
    module: ModuleOp,
    context: Context,
    read_settings: Callable[[Collection[str]], Settings],
    *,
    steps: Sequence[Step] = SEQUENCE,
    is_written: bool = True,
    profile: Profile | None = None,
    is_explained: bool = False,
) -> PassReport:
    """
    Run steps on a module, starting from the assignment in its attributes.

    Calls are inlined first. `read_settings` is called with the keys of the module. The assignment
    is written as casts or as attributes. The report has a record for each op: the type of its
    result, or why it stays float. If `is_explained`, it has the choice for each value, too,
    estimated with the histograms of `profile` if there are any. Raises ValueError for settings that
    do not fit the module.
    """
    with paused_collection(), models_of(context), memory_budget() as budget:
        calls = inline_calls(module)
        rewrite_casts(module)
        if rewrite_pairs(module):
            # So that dequantized constants of the same model are read as floats, too.
            drop_ranges(module, constant_values(module))
            raise_dequantization(module, context, FoldPolicy())
        read = partial(value_graph, module, context, budget, has_reshaped_layers=True)
        graph = read()
        # Each of them changes the module, so that the graph must be read again.
        changes = [write_constants(graph), drop_unit_factors(graph)]
        graph = read_nodes(read() if any(changes) else graph)
        settings = read_settings(set(graph.keys.values()))
        if not settings.default.shares_pools:
            graph.separate_pools()
        flow = Flow(graph, settings)
        _check_layers(flow)
        assignment = read_attributes(module)
        for step in steps:
            assignment = step(flow, assignment)
        if not is_written:
            write_attributes(module, assignment)
            # The ops that are known to stay float so far.
            refusals = PassReport(calls, "quantized")
            for op, refusal in flow.refusals.items():
                refusals.refuse(op, refusal)
            return refusals
        drop_attributes(module)
        unknown = list(filter(graph.is_unknown, graph.ops))
        reporter = ValueReporter(flow, assignment, profile) if is_explained else None
        written = QuantizedWriter(flow, assignment, is_measured=is_explained).write()
        report = _report(flow, assignment, written, unknown, calls)
        if reporter is not None:
            report.values = reporter.report(written, unknown)
        return report


def _check_layers(flow: Flow) -> None:
    """Raise SettingError if the settings name a layer whose op has no rule."""
    settings, graph = flow.settings, flow.graph
    named = settings.layers.keys() - settings.by_pattern
    if not named:
        return
    known = {graph.keys[argument] for argument in flow.of_arguments}
    named -= known.union(*map(graph.keys_of, graph.nodes))
    for value, key in graph.keys.items():
        if key in named:
            owner = value.owner
            kind = (
                f"a result of '{name_of(owner)}'" if isinstance(owner, Operation) else "an argument"
            )
            raise SettingError(
                f"layer '{key}' cannot have a precision of its own: it is {kind}, and no "
                "quantization rule for it is known",
                "layers",
                key,
            )


_NO_RULE: Final = "no quantization rule for it is known"


def _report(
    flow: Flow,
    assignment: Assignment,
    written: Written,
    unknown: list[Operation],
    calls: list[PassRecord],
) -> QuantizationReport:
    report = QuantizationReport(calls, "quantized")
    told = {record.op for record in calls}
    for node in written.nodes:
        for result in node.results:
            assigned = assignment.values[result]
            reason = f"its result is '{assigned.type}', {assigned.rule}"
            if node.is_function:
                reason = f"{node.name} of {len(node.ops)} ops: {reason}"
            for use, count in written.saturated(node):
                is_bias = node.bias is not None and use == node.bias.use
                what = "its bias" if is_bias else f"operand {use.number} of '{name_of(use.op)}'"
                reason += f"; {count} elements of {what} did not fit"
            if (why := flow.float_biases.get(node.op)) is not None:
                reason += f"; its bias stays in floats: {why}"
            report.tell(Outcome.QUANTIZED, node.op, reason)
    for node, reason in written.floats.items():
        report.refuse(node.op, Refusal(flow.code_of_refusal(node), reason))
    other = next(filter(is_other_tensor, flow.graph.keys), None)
    if other is not None:
        reason = f"'{other.type}' stays in floats: {LOWER_TENSORS}"
        report.refuse(flow.graph.module, Refusal(RefusalCode.ILLEGAL_TYPE, reason))
    for op in unknown:
        if op not in told:
            reason = op_model(op).stays_float or _NO_RULE
            report.refuse(op, Refusal(RefusalCode.UNKNOWN_OP, reason))
    return report
