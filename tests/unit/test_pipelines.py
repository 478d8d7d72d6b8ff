"""
Random modules through random pipelines of passes, checked by every oracle.

The modules use all dialects, constants and arguments. An evaluator that shares no code with the
package computes their values; certificates, `qdialect-run` and `qdialect-check` must agree with
it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pytest
from evaluator import Value, element_of, evaluate
from example_counts import examples
from hypothesis import HealthCheck, given, note
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_graphs import Graph, graphs
from random_modules import DEQUANTIZING, Function, Node, functions, module_text
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import FunctionType, ModuleOp, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.compared_modules import Side
from qdialect.check.comparison import compare_modules
from qdialect.check.interpreters import TypedArray, random_arguments, run_function
from qdialect.dialects.quant.casts import CastOp
from qdialect.folding.report import Outcome
from qdialect.ops.interface import name_of
from qdialect.opt.diagnostics import Diagnostic, DiagnosticHandler
from qdialect.opt.registry import ToolContext
from qdialect.opt.verifier import ModuleVerifier
from qdialect.passes.elide_round_trips import ElideRoundTripsPass
from qdialect.passes.fold_quant_shapes import FoldConstantShapesPass, FoldQuantShapesPass
from qdialect.passes.inline import InlinePass
from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
from qdialect.passes.normalize_quant_types import NormalizeQuantTypesPass
from qdialect.passes.sink_quant_shapes import HoistQuantShapesPass, SinkQuantShapesPass
from qdialect.passes.strip_func_quant_types import StripFuncQuantTypesPass
from qdialect.passes.verify_quant_shapes import quant_shape_errors
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

# The dialect of StableHLO, where it is installed, refuses slots that move with their elements.
pytestmark = pytest.mark.usefixtures("without_plugins", "all_is_large")

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

WITHIN_BYTES = FoldQuantShapesPass(max_growth=0)
"""What constants that are gone after one run took is left to be added by the next."""

PIPELINES: dict[str, Sequence[ModulePass]] = {
    "fold": [FoldQuantShapesPass(verify="structure")],
    "fold, proven": [FoldQuantShapesPass(verify="values")],
    "fold per axis": [FoldQuantShapesPass(granularity="per-axis", verify="values")],
    "fold per tensor": [FoldQuantShapesPass(granularity="per-tensor")],
    "fold without more scales": [FoldQuantShapesPass(max_parameter_growth=0)],
    "fold without more bytes": [WITHIN_BYTES],
    "fold constants": [FoldConstantShapesPass(verify="values")],
    "sink": [SinkQuantShapesPass()],
    "sink, elide, fold": [SinkQuantShapesPass(), ElideRoundTripsPass(), FoldQuantShapesPass()],
    "hoist, fold": [HoistQuantShapesPass(), FoldQuantShapesPass()],
    "canonicalize": [CanonicalizePass()],
    "inline, fold, canonicalize": [InlinePass(), FoldQuantShapesPass(), CanonicalizePass()],
    "fold, lower shapes": [FoldQuantShapesPass(), LowerQuantShapesPass()],
    "lower all": [
        LowerQuantShapesPass(),
        LowerQuantOpsPass(rounding="nearest-even"),
        StripFuncQuantTypesPass(),
    ],
    "normalize, strip": [NormalizeQuantTypesPass(), StripFuncQuantTypesPass()],
}

Given = dict[str, list[TypedArray]]
Arguments = dict[str, list[Value]]
Results = dict[str, tuple[Value, ...]]

CAST_FOLDING = ("canonicalize", "inline, fold, canonicalize", "lower all", "normalize, strip")
"""As in MLIR, they drop casts that undo each other, whatever they round."""

NEXT_RUN_FOLDS = (LowerQuantOpsPass, StripFuncQuantTypesPass)
"""Passes that fold casts before they make others, as in MLIR: the next run may fold those."""


NOT_CHECKED = ("normalize, strip", "lower all")
"""They change the types of functions, which `qdialect-check` compares."""


class Errors(DiagnosticHandler):
    """Keeps errors."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def emit(self, diagnostic: Diagnostic) -> None:
        self.messages.append(diagnostic.message)


def value_of(array: TypedArray) -> Value:
    """A value of the interpreter, as its bits."""
    bits = array.elements.copy().view(f"u{array.elements.itemsize}")
    return Value.of(element_of(array.type), bits)


class Subject:
    """A module, and the context that it was read in."""

    def __init__(self, module: ModuleOp, context: ToolContext) -> None:
        self.module = module
        self.context = context

    @classmethod
    def read(cls, text: str) -> Subject:
        """Read and verify a module."""
        context = ToolContext(allow_unregistered=True)
        subject = cls(LocatingParser(context, text).parse_module(), context)
        subject.verify()
        return subject

    def copy(self) -> Subject:
        return Subject(self.module.clone(), self.context)

    def verify(self) -> None:
        errors = Errors()
        ModuleVerifier(name_of, errors).verify(self.module)
        assert not errors.messages, errors.messages

    @property
    def functions(self) -> list[FuncOp]:
        return [op for op in self.module.ops if isinstance(op, FuncOp)]

    def printed(self, *, generic: bool = False) -> str:
        stream = io.StringIO()
        printer = MLIRPrinter(stream=stream, print_generic_format=generic)
        printer.print_op(self.module)
        printer.print_metadata(self.context.loaded_dialects)
        return stream.getvalue() + "\n"

    def blob(self, key: str) -> str | None:
        builtin = self.context.get_optional_dialect("builtin")
        interface = builtin and builtin.get_interface(OpAsmDialectInterface)
        assert interface is not None
        return interface.lookup(key)

    def computes(self, arguments: Arguments) -> Results:
        """What each function returns."""
        return {
            name: evaluate(self.module, name, values, self.blob)
            for name, values in arguments.items()
        }


def assert_same(before: Results, after: Results) -> None:
    """Bit for bit, of what is known."""
    for name, values in before.items():
        for one, other in zip(values, after[name], strict=True):
            assert one.shape == other.shape
            assert other.known[one.known].all()
            assert one.bits[one.known].tolist() == other.bits[one.known].tolist()


def check_reports(subject: Subject) -> None:
    """Every value that stands for one that is gone is in the module."""

    def is_there(value: SSAValue) -> bool:
        op = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
        while op is not None and op is not subject.module:
            op = op.parent_op()
        return op is not None

    for report in subject.context.fold_reports:
        stands = [record.stands for record in report.records if record.stands is not None]
        vanished = [value for value in report.vanished.values() if value is not None]
        assert all(map(is_there, [*stands, *vanished]))
        for record in report.records:
            left = record.op.results[0] if record.stands is None else record.stands
            assert record.outcome is not Outcome.REFUSED or is_there(left)
            assert record.reason or record.outcome in (Outcome.FOLDED, Outcome.DROPPED)


def passed(subject: Subject, passes: Sequence[ModulePass]) -> Subject:
    """A copy after some passes, each of which has been run again."""
    subject = subject.copy()
    for each in passes:
        subject.context.fold_reports.clear()
        each.apply(subject.context, subject.module)
        subject.verify()
        check_reports(subject)
        if isinstance(each, NEXT_RUN_FOLDS):
            # Each run takes a cast of those that undo each other.
            for _ in range(sum(isinstance(op, CastOp) for op in subject.module.walk())):
                each.apply(subject.context, subject.module)
        if each != WITHIN_BYTES:
            once = subject.printed()
            each.apply(subject.context, subject.module)
            assert subject.printed() == once, f"{each} again changes something"
    return subject


def check_against_drawing(results: Results, parts: Sequence[Function]) -> None:
    """The evaluator agrees with the values that the generator expected of each op."""
    for fn in parts:
        if not isinstance(fn, Graph):
            # What padding is, is unknown where a type does not store it, or fits no shape.
            is_padded = not all(node.is_padding_stored and fits(node) for node in fn.nodes)
            for node, value in zip(fn.results, results[fn.name], strict=True):
                known = value.known & ((node.places >= 0) | (not is_padded))
                assert known.all() or is_padded
                assert value.bits[known].tolist() == real_bits(node)[known].tolist()


def fits(node: Node) -> bool:
    """Whether the type of a value has a scale for each of its elements."""
    return not node.is_quantized or node.layer.scales is not None


def real_bits(node: Node) -> NDArray[np.uint64]:
    """The bits of a value, from what is stored below its casts."""
    bits = node.bits
    for below, cast in zip(node.layers, node.casts, strict=False):
        if cast in DEQUANTIZING:
            assert below.storage is not None
            codes, zeros = below.storage.codes(bits), below.zero_points
            numbers = codes.astype(np.float32) - np.asarray(zeros).astype(np.float32)
            numbers = numbers * np.asarray(below.scales).astype(np.float32)
            bits = np.asarray(numbers.view(np.uint32), dtype=np.uint64)
    return bits


def check_interpreter(subject: Subject, given: Given, results: Results) -> None:
    """`qdialect-run` computes the same."""
    for name, arguments in given.items():
        found = run_function(subject.module, name, arguments, subject.context)
        assert_same({name: results[name]}, {name: tuple(map(value_of, found))})


def check_texts(subject: Subject, *, generic: bool) -> None:
    """Printed text parses to the same module."""
    text = subject.printed(generic=generic)
    assert Subject.read(text).printed(generic=generic) == text


@examples(100, suppress_health_check=SLOW)
@given(st.data())
def test_pipelines(data: st.DataObject):
    number = data.draw(st.integers(1, 2))
    parts: list[Function] = [data.draw(st.one_of(functions(n), graphs(n))) for n in range(number)]
    text = module_text(parts)
    note(text)
    subject = Subject.read(text)
    nodes = [node for fn in parts for node in fn.nodes]
    errors = list(quant_shape_errors(subject.module, subject.context))
    assert sorted(name_of(op) for op, _ in errors) == sorted(n.op for n in nodes if n.is_lie)
    # Where a type does not fit its shape, there is no value and no cast.
    all_fit = all(map(fits, nodes))
    seed = data.draw(st.integers(0, 2**16))
    given = {op.sym_name.data: arguments_of(op, seed, fits=all_fit) for op in subject.functions}
    arguments: Arguments = {name: list(map(value_of, values)) for name, values in given.items()}
    before = subject.computes(arguments)
    check_against_drawing(before, parts)
    can_run = all_fit and all(node.is_padding_stored for node in nodes)
    if can_run:
        check_interpreter(subject, given, before)
    elif not all_fit:
        with pytest.raises(InterpretationError):
            check_interpreter(subject, given, before)
    rounds = "quant.qcast" in text and "quant.dcast" in text
    checked = data.draw(st.sets(st.sampled_from(sorted(PIPELINES)), min_size=3, max_size=3))
    generic = data.draw(st.booleans())
    for name, passes in PIPELINES.items():
        if name in CAST_FOLDING and not all_fit:
            continue
        note(name)
        after = passed(subject, passes)
        is_same = name not in CAST_FOLDING or not rounds
        if is_same:
            assert_same(before, after.computes(arguments))
        if name in checked:
            # xDSL cannot read its own text of named linalg ops on quantized tensors.
            check_texts(after, generic=generic or "linalg." in text)
            if is_same and can_run and name not in NOT_CHECKED:
                sides = [Side(each.module, each.context) for each in (subject, after)]
                assert not compare_modules(*sides, runs=2).findings


def arguments_of(op: FuncOp, seed: int, *, fits: bool) -> list[TypedArray]:
    """Arguments to run a function with; the first branch is taken, whose type need not fit."""
    condition, *_ = (*op.function_type.inputs.data, None)
    if condition == i1:
        other = op.function_type.inputs.data[1]
        types = FunctionType.from_lists([other] if fits else [], [])
        chosen = [TypedArray.of_numbers(np.array(1), i1)]
        return [*chosen, *(random_arguments(types, seed) if fits else chosen)]
    return list(random_arguments(op.function_type, seed))
