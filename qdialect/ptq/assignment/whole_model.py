"""The whole sequence: read the graph, assign parameters, write them, and report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.traits import IsTerminator

from qdialect.folding.inlining import inline_calls
from qdialect.folding.policy import FoldPolicy
from qdialect.folding.raising import raise_dequantization
from qdialect.folding.report import Outcome, PassRecord, PassReport
from qdialect.ops.interface import RefusalCode, is_cast, models_of, name_of
from qdialect.ops.rules import reason_to_leave
from qdialect.ptq.assignment.assignment_steps import SEQUENCE, STEPS
from qdialect.ptq.assignment.flow import Flow
from qdialect.ptq.assignment.given_casts import rewrite_casts, write_constants
from qdialect.ptq.assignment.parameter_assignment import (
    Assignment,
    drop_attributes,
    read_attributes,
    write_attributes,
)
from qdialect.ptq.assignment.precision import SettingError, Settings
from qdialect.ptq.assignment.quantization_report import ValueReporter
from qdialect.ptq.assignment.quantized_writing import Written, write_quantized
from qdialect.ptq.assignment.rounding_pairs import rewrite_pairs
from qdialect.ptq.assignment.unit_factors import drop_unit_factors
from qdialect.ptq.float_graph.flow_graph import (
    LOWER_TENSORS,
    is_other_tensor,
    is_quantizable,
)
from qdialect.ptq.float_graph.flow_reading import flow_graph
from qdialect.ptq.schemes.profile import Profile
from qdialect.ptq.value_reports import QuantizationReport
from qdialect.support.memory import memory_budget, paused_collection


def quantize_model(
    module: ModuleOp,
    context: Context,
    read_settings: Callable[[Collection[str]], Settings],
    *,
    steps: Sequence[str] = SEQUENCE,
    is_written: bool = True,
    profile: Profile | None = None,
    is_explained: bool = False,
) -> PassReport:
    """
    Run the named steps on a module, starting from the assignment in its attributes.

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
            raise_dequantization(module, context, FoldPolicy())
        graph = flow_graph(module, context, budget, has_reshaped_layers=True)
        # Each of them changes the module, so that the graph must be read again.
        changes = [write_constants(graph), drop_unit_factors(graph)]
        if any(changes):
            graph = flow_graph(module, context, budget, has_reshaped_layers=True)
        settings = read_settings(set(graph.keys.values()))
        if not settings.default.shares_pools:
            graph.separate_pools()
        flow = Flow(graph, settings)
        _check_layers(flow)
        assignment = read_attributes(module)
        for name in steps:
            assignment = STEPS[name](flow, assignment)
        if not is_written:
            write_attributes(module, assignment)
            report = _refusals(flow)
            report.records[:0] = calls
            return report
        drop_attributes(module)
        unknown = [op for op in graph.ops if _is_unknown(flow, op)]
        reporter = ValueReporter(flow, assignment, profile) if is_explained else None
        written = write_quantized(flow, assignment, is_measured=is_explained)
        report = _report(flow, assignment, written, unknown, calls)
        if reporter is not None:
            report.values = reporter.report(written, unknown)
        return report


def _check_layers(flow: Flow) -> None:
    """Raise SettingError if the settings name a layer whose op has no rule."""
    named = dict.fromkeys(flow.settings.layers)
    if not named:
        return
    graph = flow.graph
    for op in graph.node_of:
        for result in op.results:
            named.pop(graph.keys.get(result, ""), None)
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


def _refusals(flow: Flow) -> PassReport:
    """The ops that are known to stay float so far."""
    report = PassReport(verb="quantized")
    for op, refusal in flow.refusals.items():
        report.records.append(
            PassRecord(Outcome.REFUSED, op, name_of(op), code=refusal.code, reason=str(refusal))
        )
    return report


def _is_unknown(flow: Flow, op: Operation) -> bool:
    """Whether an op computes with float tensors, and no rule for it is known."""
    if op in flow.graph.node_of or isinstance(op, FuncOp) or is_cast(op):
        return False
    if op in flow.graph.of_biases:
        return False
    if op.has_trait(IsTerminator, value_if_unregistered=False):
        return False
    results = [result for result in op.results if is_quantizable(result)]
    if not results or any(result in flow.graph.same for result in results):
        return False
    is_computed = any(result in flow.graph.derived for result in results)
    return not is_computed and not all(map(flow.graph.is_constant, results)) and bool(op.operands)


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
            found = assignment.values[result]
            reason = f"its result is '{found.type}', {found.rule}"
            if node.name:
                reason = f"{node.name} of {len(node.ops)} ops: {reason}"
            for use, count in written.saturated(node):
                is_bias = node.bias is not None and use == node.bias.use
                what = "its bias" if is_bias else f"operand {use.number} of '{name_of(use.op)}'"
                reason += f"; {count} elements of {what} did not fit"
            if (why := flow.float_biases.get(node.op)) is not None:
                reason += f"; its bias stays in floats: {why}"
            report.records.append(
                PassRecord(Outcome.QUANTIZED, node.op, name_of(node.op), reason=reason)
            )
    for node, reason in written.floats.items():
        code = flow.code_of_refusal(node)
        report.records.append(
            PassRecord(Outcome.REFUSED, node.op, name_of(node.op), code=code, reason=reason)
        )
    other = next(filter(is_other_tensor, flow.graph.keys), None)
    if other is not None:
        reason = f"'{other.type}' stays in floats: {LOWER_TENSORS}"
        code, op = RefusalCode.ILLEGAL_TYPE, flow.graph.module
        report.records.append(
            PassRecord(Outcome.REFUSED, op, name_of(op), code=code, reason=reason)
        )
    for op in unknown:
        if op in told:
            continue
        reason = reason_to_leave(op) or _NO_RULE
        report.records.append(
            PassRecord(Outcome.REFUSED, op, name_of(op), code=RefusalCode.UNKNOWN_OP, reason=reason)
        )
    return report
