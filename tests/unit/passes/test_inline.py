"""Calls are inlined for any call graph, and nothing else changes."""

from __future__ import annotations

import io
from dataclasses import dataclass

from evaluator import Value, evaluate
from hypothesis import given, note
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp

from qdialect.folding.report import Outcome
from qdialect.ops.interface import RefusalCode
from qdialect.opt.registry import ToolContext
from qdialect.passes.inline import InlinePass
from qdialect.support.memory import memory_budget
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

TYPE = "tensor<2xf32>"


@dataclass(frozen=True)
class Drawn:
    """A function of one tensor, and the numbers of the functions that it calls."""

    kind: str
    is_private: bool
    calls: tuple[int, ...]

    def text(self, number: int) -> str:
        """The function."""
        private = "private " if self.is_private else ""
        head = f"func.func {private}@f{number}"
        if self.kind == "declared":
            return f"func.func private @f{number}({TYPE}) -> {TYPE}"
        lines, value = list[str](), "%x"
        for at, callee in enumerate(self.calls):
            call = f"%{at} = func.call @f{callee}({value}) : ({TYPE}) -> {TYPE}"
            if self.kind == "nested" and at % 2 == 0:
                call = (
                    f"%{at} = scf.if %yes -> ({TYPE}) {{\n"
                    f"    %n{at} = func.call @f{callee}({value}) : ({TYPE}) -> {TYPE}\n"
                    f"    scf.yield %n{at} : {TYPE}\n  }} else {{\n    scf.yield %x : {TYPE}\n  }}"
                )
            lines.append(call)
            value = f"%{at}"
        if self.kind == "blocks":
            lines.append("cf.br ^next\n^next:")
        else:
            lines.append(f"%e = arith.addf {value}, {value} : {TYPE}")
            value = "%e"
        body = "\n  ".join(["%yes = arith.constant true", *lines, f"return {value} : {TYPE}"])
        return f"{head}(%x: {TYPE}) -> {TYPE} {{\n  {body}\n}}"


@st.composite
def call_graphs(draw: st.DrawFn, *, is_acyclic: bool) -> list[Drawn]:
    """Functions that call each other, or those before them only."""
    count = draw(st.integers(1, 8))
    kinds = ["plain", "nested"] if is_acyclic else ["plain", "nested", "blocks", "declared"]
    drawn: list[Drawn] = []
    for number in range(count):
        last = number - 1 if is_acyclic else count - 1
        calls = st.lists(st.integers(0, last), max_size=3) if last >= 0 else st.just([])
        drawn.append(Drawn(draw(st.sampled_from(kinds)), draw(st.booleans()), tuple(draw(calls))))
    return drawn


def parse(functions: list[Drawn]) -> tuple[ModuleOp, ToolContext]:
    text = "\n".join(function.text(number) for number, function in enumerate(functions))
    context = ToolContext()
    return LocatingParser(context, text).parse_module(), context


def printed(module: ModuleOp) -> str:
    stream = io.StringIO()
    MLIRPrinter(stream=stream).print_op(module)
    return stream.getvalue()


def names(module: ModuleOp) -> set[str]:
    return {op.sym_name.data for op in module.ops if isinstance(op, FuncOp)}


def reached(functions: list[Drawn], start: int) -> set[int]:
    """The functions that calls lead to, and the first."""
    seen, pending = {start}, [start]
    while pending:
        function = functions[pending.pop()]
        calls = set(function.calls if function.kind != "declared" else ()) - seen
        seen |= calls
        pending += calls
    return seen


@given(call_graphs(is_acyclic=False))
def test_whatever_calls_what(functions: list[Drawn]):
    """Calls that are left are of functions of several blocks, of none, or in a circle."""
    module, context = parse(functions)
    note(printed(module))
    InlinePass().apply(context, module)
    module.verify()
    once = printed(module)
    InlinePass().apply(context, module)
    assert printed(module) == once
    public = {
        f"f{number}"
        for number, function in enumerate(functions)
        if not function.is_private or function.kind == "declared"
    }
    assert public <= names(module)
    for op in module.walk():
        if isinstance(op, CallOp):
            callee = int(op.callee.string_value().removeprefix("f"))
            assert f"f{callee}" in names(module)
            called = functions[callee]
            in_circle = any(callee in reached(functions, each) for each in called.calls)
            assert called.kind in ("blocks", "declared") or in_circle


@given(call_graphs(is_acyclic=True))
def test_without_circles_nothing_is_called(functions: list[Drawn]):
    module, context = parse(functions)
    note(printed(module))
    argument = [Value.of_numbers("f32", [1.5, -2.0])]
    public = [f"f{n}" for n, function in enumerate(functions) if not function.is_private]

    def results() -> list[list[float]]:
        values = (evaluate(module, name, argument, lambda key: None) for name in public)
        return [value.floats.tolist() for (value,) in values]

    before = results()
    InlinePass().apply(context, module)
    module.verify()
    assert names(module) == set(public)
    assert not any(isinstance(op, CallOp) for op in module.walk())
    assert results() == before


def test_calls_that_double_stop_at_the_budget():
    """40 functions that each call the one before twice would be 2**40 ops."""
    functions = [Drawn("plain", False, (n - 1, n - 1) if n else ()) for n in range(40)]
    module, context = parse(functions)
    with memory_budget(1 << 20):
        InlinePass().apply(context, module)
    module.verify()
    assert sum(1 for _ in module.walk()) < 2000
    (report,) = context.fold_reports
    assert {(record.outcome, record.code) for record in report.records} == {
        (Outcome.INLINED, None),
        (Outcome.REFUSED, RefusalCode.MEMORY),
    }
