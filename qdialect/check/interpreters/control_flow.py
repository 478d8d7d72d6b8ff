"""The ops of scf and cf on `TypedArray`s."""

from __future__ import annotations

from operator import index

from xdsl.dialects import cf, scf
from xdsl.interpreter import Interpreter, PythonValues, impl, register_impls
from xdsl.interpreters.cf import CfFunctions
from xdsl.interpreters.scf import ScfFunctions
from xdsl.utils.exceptions import InterpretationError

from qdialect.check.interpreters.values import operands_of


@register_impls
class ControlFlowFunctions(ScfFunctions):
    """xDSL's functions, which also accept scalar `TypedArray`s in place of Python's numbers."""

    @impl(scf.IndexSwitchOp)
    def run_switch(
        self, interpreter: Interpreter, op: scf.IndexSwitchOp, args: PythonValues
    ) -> PythonValues:
        """xDSL's own function compares the array with each case, and finds none equal."""
        regions = dict(zip(op.cases.get_values(), op.case_regions, strict=True))
        return interpreter.run_ssacfg_region(regions.get(index(args[0]), op.default_region), ())


@register_impls
class BranchFunctions(CfFunctions):
    """xDSL's functions, and assertions."""

    @impl(cf.AssertOp)
    def run_assert(
        self, interpreter: Interpreter, op: cf.AssertOp, args: PythonValues
    ) -> PythonValues:
        """Raise an error if the condition is false at any position."""
        (condition,) = operands_of(op, args)
        if not condition.elements.all():
            raise InterpretationError(f"its condition is false: {op.msg.data}")
        return ()
