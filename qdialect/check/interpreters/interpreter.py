"""Running the functions of a module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any, ClassVar, Final, cast

import numpy as np
from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects import cf, scf
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    OpImplResult,
    PythonValues,
    ReturnedValues,
    Successor,
    TerminatorValue,
    impl,
    impl_callable,
    impl_terminator,
    register_impls,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import InterpretationError, VerifyException
from xdsl.utils.scoped_dict import ScopedDict

from qdialect.algebra.movement import MovementError
from qdialect.dialects.arrays.elements import NamedRun, find_run, run_cast
from qdialect.dialects.arrays.movements import run_arithmetic, run_constant, run_shape_op
from qdialect.dialects.arrays.values import (
    ELEMENTS_PER_STEP,
    PRODUCTS_PER_STEP,
    TypedArray,
    operands_of,
    value_of,
    work_spent_by,
)
from qdialect.dialects.quant import Quant
from qdialect.dialects.quant.storage import StoredType
from qdialect.ir.errors import describe
from qdialect.ir.names import symbols_of
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import element_type_or_self
from qdialect.ir.xdsl_private import InterpreterHooks, implementations_of, scope_of, set_scope
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    elements_attribute_of,
    is_arithmetic,
    is_cast,
    is_list,
    model_of,
    models_of,
    name_of,
    op_model,
)
from qdialect.ops.model import OpModel, model_named
from qdialect.support.memory import MemoryLimitError, memory_budget


class OpInterpretationError(InterpretationError):
    """An op cannot be run. The message begins with the name of the op."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(f"'{name_of(op)}' op {reason}")
        self.op = op


Ended = tuple[TerminatorValue, PythonValues]
"""Where a block ends."""

DEFAULT_MAX_STEPS: Final = 50_000
"""
The default maximum number of steps of a run: some seconds. An op is a step, and so are
`ELEMENTS_PER_STEP` elements or `PRODUCTS_PER_STEP` products.
"""


@register_impls
class ControlFlowFunctions(InterpreterFunctions):
    """
    Calls, branches and loops, whose numbers are Python's or scalar `TypedArray`s.

    xDSL has such functions in a package that imports those of all its dialects.
    """

    @impl(CallOp)
    def run_call(self, interpreter: Interpreter, op: CallOp, args: PythonValues) -> PythonValues:
        return interpreter.call_op(op.callee, args)

    @impl_callable(FuncOp)
    def call_function(
        self, interpreter: Interpreter, op: FuncOp, args: PythonValues
    ) -> PythonValues:
        if op.is_declaration:
            return interpreter.call_external(op.sym_name.data, op, args)
        return interpreter.run_ssacfg_region(op.body, args, op.sym_name.data)

    def _returned(self, _: Interpreter, op: Operation, args: PythonValues) -> Ended:
        return ReturnedValues(args), ()

    run_return = impl_terminator(ReturnOp)(_returned)
    run_yield = impl_terminator(scf.YieldOp)(_returned)
    run_condition = impl_terminator(scf.ConditionOp)(_returned)

    @impl(scf.IfOp)
    def run_if(self, interpreter: Interpreter, op: scf.IfOp, args: PythonValues) -> PythonValues:
        return interpreter.run_ssacfg_region(op.true_region if args[0] else op.false_region, ())

    @impl(scf.IndexSwitchOp)
    def run_switch(
        self, interpreter: Interpreter, op: scf.IndexSwitchOp, args: PythonValues
    ) -> PythonValues:
        regions = dict(zip(op.cases.get_values(), op.case_regions, strict=True))
        return interpreter.run_ssacfg_region(regions.get(index(args[0]), op.default_region), ())

    @impl(scf.ForOp)
    def run_for(self, interpreter: Interpreter, op: scf.ForOp, args: PythonValues) -> PythonValues:
        state = args[3:]
        for at in range(*args[:3]):
            state = interpreter.run_ssacfg_region(op.body, (at, *state))
        return state

    @impl(scf.WhileOp)
    def run_while(
        self, interpreter: Interpreter, op: scf.WhileOp, args: PythonValues
    ) -> PythonValues:
        while True:
            condition, *state = interpreter.run_ssacfg_region(op.before_region, args)
            if not condition:
                return (*state,)
            args = interpreter.run_ssacfg_region(op.after_region, (*state,))

    @impl_terminator(cf.BranchOp)
    def run_branch(self, _: Interpreter, op: cf.BranchOp, args: PythonValues) -> Ended:
        return Successor(op.successor, args), ()

    @impl_terminator(cf.ConditionalBranchOp)
    def run_conditional_branch(
        self, interpreter: Interpreter, op: cf.ConditionalBranchOp, args: PythonValues
    ) -> Ended:
        block, read = op.else_block, op.else_arguments
        if args[0]:
            block, read = op.then_block, op.then_arguments
        return Successor(block, interpreter.get_values(read)), ()

    @impl(cf.AssertOp)
    def run_assert(
        self, interpreter: Interpreter, op: cf.AssertOp, args: PythonValues
    ) -> PythonValues:
        """Raise an error if the condition is false at any position."""
        (condition,) = operands_of(op, args)
        if not condition.elements.all():
            raise InterpretationError(f"its condition is false: {op.msg.data}")
        return ()


class ModuleInterpreter(InterpreterHooks, Interpreter):
    """
    Runs a module on `TypedArray`s.

    Ops of all dialects are run by their models, even if their dialect is not registered: by the
    function in the model, or as the shape op, cast, constant or arithmetic that it says the op is.
    Other functions are added by `register_implementations`.
    OpInterpretationError is raised for an op that cannot be run (xDSL would print the whole
    module into its error), for the op after `max_steps`, and for an op whose result exceeds the
    memory budget.
    """

    UNKNOWN: ClassVar = "it has no implementation"
    """What is told of an op that nothing runs."""

    def __init__(
        self, module: ModuleOp, resources: ResourceBlobs, max_steps: int = DEFAULT_MAX_STEPS
    ) -> None:
        super().__init__(module)
        self._resources = resources
        self._symbols = symbols_of(module)
        self._max_steps = self._steps_left = max_steps
        self._last_uses: dict[Block, _LastUses] = {}
        self._functions: dict[str, tuple[InterpreterFunctions, Any]] = {}
        self.register_implementations(ControlFlowFunctions())

    @override
    def register_implementations(
        self, impls: InterpreterFunctions, /, override: bool = False
    ) -> None:
        super().register_implementations(impls, override=override)
        for op, run in implementations_of(impls):
            # Keyed by name: this package and xDSL may both have a class for an op.
            self._functions[op.name] = impls, run

    @override
    def get_op_for_symbol(self, symbol: str | SymbolRefAttr) -> Operation:
        """The op that a symbol refers to, without a search. Raises InterpretationError."""
        name = symbol if isinstance(symbol, str) else symbol.root_reference.data
        op = self._symbols.get(name)
        if op is None or (isinstance(symbol, SymbolRefAttr) and symbol.nested_references):
            return super().get_op_for_symbol(symbol)
        return op

    @override
    def run_ssacfg_region(
        self, region: Region, args: PythonValues, name: str = "unknown"
    ) -> PythonValues:
        """
        Run the blocks of a region: see `Interpreter.run_ssacfg_region`.

        All blocks share one scope, in which a block that is run again replaces its values. xDSL
        opens a scope for each run of a block, and keeps all of them until the region ends.
        """
        outer, values = scope_of(self), dict[SSAValue, Any]()
        set_scope(self, ScopedDict(outer, name=name, local_scope=values))
        try:
            block = region.blocks.first
            while block is not None:
                values.update(zip(block.args, args, strict=True))
                ended = self._run_block(block, values)
                if isinstance(ended, ReturnedValues):
                    return ended.values
                block, args = ended or (None, ())
            return ()
        finally:
            set_scope(self, outer)

    def users_of(self, value: SSAValue) -> Iterable[Operation]:
        """The ops that read a value in a run."""
        return (use.operation for use in value.uses)

    def ops_in(self, block: Block) -> Iterable[Operation]:
        """The ops of a block in the order in which they are run."""
        return block.ops

    def last_uses_in(self, block: Block) -> _LastUses:
        """
        The values that a run of a block drops after each op: each after its last use.

        Only values that the block defines, and that no other block of its region uses.
        """
        last_uses = self._last_uses.get(block)
        if last_uses is not None:
            return last_uses
        last_uses = self._last_uses[block] = {}
        order = {op: number for number, op in enumerate(self.ops_in(block))}
        for definer, values in ((None, block.args), *((op, op.results) for op in order)):
            for value in values:
                users = [*map(block.find_ancestor_op_in_block, self.users_of(value))]
                if None not in users:
                    last = max(filter(None, users), key=order.__getitem__, default=definer)
                    last_uses.setdefault(last, []).append(value)
        return last_uses

    def _run_block(self, block: Block, values: dict[SSAValue, Any]) -> TerminatorValue | None:
        """Run the ops of a block, and drop each value from `values` after its last use."""
        last_uses = self.last_uses_in(block)
        for value in last_uses.get(None, ()):
            del values[value]
        for op in block.ops:
            result = self.run_one_op(op, self.get_values(op.operands))
            if result.terminator_value is not None:
                return result.terminator_value
            values.update(zip(op.results, result.values, strict=True))
            for value in last_uses.get(op, ()):
                del values[value]
        return None

    def run_one_op(self, op: Operation, inputs: PythonValues) -> OpImplResult:
        """Run an op; xDSL's methods call this too. Raises OpInterpretationError."""
        self._steps_left -= 1
        if self._steps_left < 0:
            raise OpInterpretationError(
                op, f"is not run: {self._max_steps} steps have been taken before it (--max-steps)"
            )
        for listener in self.listeners:
            listener.will_interpret_op(op, inputs)
        try:
            result = self._result_of(op, inputs)
        except OpInterpretationError:
            raise
        except MemoryLimitError as error:
            raise OpInterpretationError(
                op, f"is not run: {error} [{RefusalCode.MEMORY}]"
            ) from error
        except (InterpretationError, MovementError, Refusal, VerifyException) as error:
            raise OpInterpretationError(op, f"cannot be run: {error}") from error
        except RecursionError:
            raise OpInterpretationError(op, "cannot be run: calls are too deep") from None
        except Exception as error:
            raise OpInterpretationError(op, f"cannot be run: {describe(error)}") from error
        for listener in self.listeners:
            listener.did_interpret_op(op, result.values)
        return result

    def controls(self, op: Operation) -> bool:
        """Whether registered functions run `op`: it is a call or control flow."""
        return name_of(op) in self._functions

    def runs(self, op: Operation) -> bool:
        """Whether there is something to run `op` with."""
        name = name_of(op)
        is_named = name in self._functions or find_run(name) is not None or op_model(op).yields
        return is_named or op_model(op).reads_elements or is_cast(op)

    def spend_products(self, count: int) -> None:
        """Spend the steps for products of a sum. Raises InterpretationError."""
        self._spend(count // PRODUCTS_PER_STEP, f"{count} products")

    def spend_elements(self, count: int) -> None:
        """Spend the steps for elements. Raises InterpretationError."""
        self._spend(count // ELEMENTS_PER_STEP, f"{count} elements")

    def _spend(self, steps: int, what: str) -> None:
        if steps > self._steps_left:
            raise InterpretationError(
                f"its {what} take {steps} steps, and of {self._max_steps} that are allowed "
                f"{self._steps_left} are left (--max-steps)"
            )
        self._steps_left -= steps

    def _result_of(self, op: Operation, inputs: PythonValues) -> OpImplResult:
        if (implementation := self._functions.get(name_of(op))) is not None:
            functions, run = implementation
            return cast(OpImplResult, run(functions, self, op, inputs))
        model, named = model_named(name_of(op)), find_run(name_of(op))
        if model.yields:
            return OpImplResult((), ReturnedValues(inputs))
        is_moved = is_cast(op) or model_of(op) is not None
        # The models say how casts and shape ops act on quantized values.
        if named is not None and (model.runs_on_codes or not (is_moved and _is_quantized(op))):
            return OpImplResult(self._named(op, inputs, named, model), None)
        known = run_known_op(self, op, inputs, self._resources)
        if known is None:
            raise InterpretationError(self.UNKNOWN)
        return OpImplResult((known,), None)

    def _named(
        self, op: Operation, inputs: PythonValues, run: NamedRun, model: OpModel
    ) -> tuple[TypedArray, ...]:
        if _is_quantized(op) and not model.runs_on_codes:
            raise InterpretationError("quantized values are not supported")
        with np.errstate(all="ignore"):
            results = tuple(run(self, op, operands_of(op, inputs)))
        if len(results) != len(op.results):
            raise InterpretationError(f"it has {len(op.results)} results, not {len(results)}")
        return results


def _is_quantized(op: Operation) -> bool:
    """Whether an op has operands or results that are held as storage integers."""
    types = (element_type_or_self(value.type) for value in (*op.operands, *op.results))
    return any(isinstance(type, StoredType) for type in types)


def run_known_op(
    interpreter: Interpreter, op: Operation, args: Sequence[Any], resources: ResourceBlobs
) -> TypedArray | tuple[TypedArray, ...] | None:
    """
    The result of an op that the shape-op interface has a model for; None for other ops.

    A list is a tuple of its elements.

    Raises InterpretationError, Refusal, MovementError and VerifyException.
    """
    if is_list(op):
        return tuple(operands_of(op, args))
    if (model := model_of(op)) is not None:
        return run_shape_op(interpreter, op, model, args)
    if is_cast(op):
        return run_cast(op, args)
    if elements_attribute_of(op) is not None:
        return run_constant(op, resources)
    if is_arithmetic(op):
        return run_arithmetic(op, args)
    return None


_LastUses = dict[Operation | None, list[SSAValue]]
"""The values to drop after an op, or at the beginning of a block (key None)."""


def find_function(module: ModuleOp, name: str) -> FuncOp:
    """The function `name`. Raises InterpretationError if there is none, or it has no body."""
    op = SymbolTable.lookup_symbol(module, name)
    if not isinstance(op, FuncOp):
        names = [op.sym_name.data for op in module.ops if isinstance(op, FuncOp)]
        there = f", but {', '.join(map(repr, names[:5]))}" if names else ""
        raise InterpretationError(f"there is no function '{name}'{there}")
    if op.is_declaration:
        raise OpInterpretationError(op, f"'{name}' has no body")
    return op


def run_function(
    module: ModuleOp,
    name: str,
    arguments: Sequence[TypedArray] = (),
    context: Context | None = None,
    *,
    max_steps: int = DEFAULT_MAX_STEPS,
) -> tuple[TypedArray, ...]:
    """
    Run a function of a module, and return its results.

    `context` is the one that the module was parsed in; it is needed if constants refer to
    resources. A run takes at most `max_steps` steps (see `DEFAULT_MAX_STEPS`), and its values
    count toward `qdialect.support.memory`. Raises InterpretationError if there is no such
    function or the arguments do not match its type, and OpInterpretationError for an op that
    cannot be run.
    """
    function = find_function(module, name)
    types = function.function_type
    _check_arguments(function, arguments)
    resources = ResourceBlobs(None) if context is None else ResourceBlobs.of(context)
    with memory_budget(), models_of(context):
        interpreter = ModuleInterpreter(module, resources, max_steps)
        with work_spent_by(interpreter):
            results = interpreter.call_op(function, tuple(arguments))
    return tuple(map(value_of, results, types.outputs))


def _check_arguments(function: FuncOp, arguments: Sequence[TypedArray]) -> None:
    name, declared = function.sym_name.data, function.function_type.inputs.data
    if len(arguments) != len(declared):
        raise OpInterpretationError(
            function, f"'{name}' takes {len(declared)} arguments, but {len(arguments)} are given"
        )
    for number, (argument, type) in enumerate(zip(arguments, declared, strict=True)):
        reason = f"it is of type '{argument.type}', not '{type}'"
        try:
            is_like = element_type_or_self(argument.type) == element_type_or_self(type)
            if is_like and TypedArray.of(argument.elements, type).type == argument.type:
                continue
        except InterpretationError as error:
            reason = str(error)
        raise OpInterpretationError(function, f"'{name}' argument #{number}: {reason}")


@dataclass
class QuantFunctions(InterpreterFunctions):
    """
    All ops of the quant dialect on `TypedArray`s, for xDSL's own interpreter.

    docs/semantics.md defines their meaning. They raise InterpretationError, Refusal, MovementError
    and VerifyException with the reason, but without a location.
    """

    resources: ResourceBlobs = field(default=ResourceBlobs(None))
    """The resources that constants refer to."""


def _run_quant(
    functions: QuantFunctions, interpreter: Interpreter, op: Operation, args: PythonValues
) -> PythonValues:
    result = run_known_op(interpreter, op, args, functions.resources)
    if result is None:
        raise InterpretationError(f"'{op.name}' is not supported")
    return (result,)


for _op in Quant.operations:
    setattr(QuantFunctions, f"run_{_op.name.replace('.', '_')}", impl(_op)(_run_quant))
register_impls(QuantFunctions)
