"""The ops of scf on `TypedArray`s."""

from __future__ import annotations

from operator import index

from xdsl.dialects import scf
from xdsl.interpreter import Interpreter, PythonValues, impl, register_impls
from xdsl.interpreters.scf import ScfFunctions


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
