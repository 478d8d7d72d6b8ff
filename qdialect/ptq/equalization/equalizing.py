"""Equalization of a module: read, plan, write, report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.folding.inlining import inline_calls
from qdialect.folding.report import Outcome, PassRecord, PassReport
from qdialect.ops.interface import Refusal, RefusalCode, models_of, name_of
from qdialect.ptq.equalization.equalization_plan import (
    EqualizationPolicy,
    Layer,
    Plan,
    Product,
)
from qdialect.ptq.equalization.equalization_planning import plan_equalization
from qdialect.ptq.equalization.equalization_report import (
    EqualizationReport,
    Resolution,
    report_on,
)
from qdialect.ptq.equalization.equalization_writing import (
    UnwritableError,
    write_equalization,
)
from qdialect.ptq.equalization.layer_weights import keys_of_node, layer_nodes
from qdialect.ptq.equalization.raised_weights import Raised, Verdict, raise_weights
from qdialect.ptq.float_graph.flow_graph import Node
from qdialect.ptq.float_graph.flow_reading import flow_graph
from qdialect.support.memory import memory_budget, paused_collection

Choose = Callable[[Sequence[Sequence[str]]], "Chosen"]
"""Chooses layers, each given by its keys."""


class Chosen(NamedTuple):
    """The keys of the layers to equalize (None for all), and those of unknown layers."""

    keys: Collection[str] | None
    missing: Sequence[str] = ()


class Equalized(NamedTuple):
    """The outcome of an equalization: remarks, and a report of layers."""

    outcomes: PassReport
    report: EqualizationReport


def equalize_inputs(
    module: ModuleOp,
    context: Context,
    policy: EqualizationPolicy,
    resolution: Resolution,
    choose: Choose = lambda keys: Chosen(None),
) -> Equalized:
    """
    Move scales from the inputs of layers to their weights.

    Calls are inlined first. The outcomes have a record for each layer that is changed, and for each
    that cannot be.
    """
    with paused_collection(), models_of(context), memory_budget() as budget:
        calls = inline_calls(module)

        def judge(trial: ModuleOp) -> Verdict:
            graph = flow_graph(trial, context, budget)
            chosen = choose([keys_of_node(graph, node) for node in layer_nodes(graph)])
            plan = plan_equalization(graph, policy, chosen.keys)
            return Verdict([layer.node.ops[0] for layer in _changed(plan)], plan.refusals)

        raised = raise_weights(module, context, judge)
        graph = flow_graph(module, context, budget)
        chosen = choose([keys_of_node(graph, node) for node in layer_nodes(graph)])
        unwritable = dict[Node, Refusal]()
        while True:
            plan = plan_equalization(graph, policy, chosen.keys, unwritable)
            changed = _changed(plan)
            report = report_on(plan, resolution, {of: name_of(of.node.ops[0]) for of in changed})
            folded = {layer: _providers(plan, layer) for layer in changed}
            try:
                made = write_equalization(plan, context)
            except UnwritableError as error:
                unwritable |= dict.fromkeys(error.nodes, error.reason)
                continue
            break
        outcomes = _outcomes(plan, report, changed, folded, made, chosen.missing, raised)
        outcomes.records[:0] = calls
        return Equalized(outcomes, report)


def _changed(plan: Plan) -> list[Layer]:
    """The layers whose weights are changed."""
    return [layer for layer in plan.layers if layer in plan.scales or plan.rows(layer) is not None]


def _providers(plan: Plan, layer: Layer) -> list[str]:
    """The layers whose rows provide the factors of the input of a layer."""
    found, pending, seen = list[str](), [layer.value], set[object]()
    while pending:
        value = pending.pop()
        maker = plan.graph.makers.get(value)
        if value not in plan.values or maker is None or value in seen:
            continue
        seen.add(value)
        if maker.weight is not None:
            found.append(keys_of_node(plan.graph, maker)[0])
        else:
            pending += [plan.graph.value(use.value) for use in reversed(maker.uses)]
    return found


def _outcomes(
    plan: Plan,
    report: EqualizationReport,
    changed: Sequence[Layer],
    folded: dict[Layer, list[str]],
    made: dict[Product, Operation],
    missing: Sequence[str],
    raised: Raised,
) -> PassReport:
    outcomes = PassReport(verb="equalized")
    for layer, of in zip(changed, report.layers, strict=True):
        told = list[str]()
        if layer in plan.scales:
            ends = min(of.scales), max(of.scales)
            told.append(f"its input is scaled by {ends[0]:.6g} to {ends[1]:.6g}")
            if folded[layer]:
                told.append(f"in the rows of {', '.join(map(repr, folded[layer]))}")
            told += [
                f"by '{name_of(op)}'" for product, op in made.items() if layer in product.layers
            ]
        if of.rows:
            told.append(f"its rows are scaled by {min(of.rows):.6g} to {max(of.rows):.6g}")
        if layer.has_quantized_weights:
            behind = ", behind a cast" * (layer.node.ops[0] in raised.layers)
            told.append(f"its weights are requantized{behind}")
        if of.before.noise:
            told.append(f"the expected gain is {of.gain:+.2f} dB")
        op = layer.node.ops[0]
        outcomes.records.append(
            PassRecord(Outcome.EQUALIZED, op, name_of(op), reason="; ".join(told))
        )
    refusals = [pair for pair in plan.refusals if pair[0] not in raised.refusals]
    refusals += [(op, error) for op, errors in raised.refusals.items() for error in errors]
    for op, error in refusals:
        outcomes.records.append(
            PassRecord(Outcome.REFUSED, op, name_of(op), code=error.code, reason=str(error))
        )
    for key in missing:
        reason = f"the evaluation has no signal-to-noise ratio for '{key}'"
        module = plan.graph.module
        outcomes.records.append(
            PassRecord(
                Outcome.REFUSED, module, name_of(module), code=RefusalCode.NO_VALUE, reason=reason
            )
        )
    return outcomes
