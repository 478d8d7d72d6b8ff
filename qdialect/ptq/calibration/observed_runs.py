"""Runs of a function that hand over its values, record by record; an engine computes some ops."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property
from time import perf_counter
from typing import Any, Final

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.interpreter import OpImplResult, PythonValues, Successor, TerminatorValue
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError
from xdsl.utils.scoped_dict import ScopedDict

from qdialect.check.interpreters import ModuleInterpreter, OpInterpretationError, TypedArray
from qdialect.dialects.arrays.elements import find_run, function_on_arrays
from qdialect.dialects.arrays.movements import run_shape_op
from qdialect.dialects.arrays.places import elements_at, without_equal
from qdialect.dialects.arrays.values import (
    allocated,
    dtype_of,
    in_single_precision,
    work_spent_by,
)
from qdialect.dialects.quant.storage import StoredType
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import captured_by
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of
from qdialect.ir.xdsl_private import set_scope
from qdialect.ops.fields import Contraction
from qdialect.ops.interface import (
    bits_of_op,
    is_cast,
    is_function_of_elements,
    known_layer,
    model_of,
    models_of,
    name_of,
    op_model,
    windows_of,
)
from qdialect.ops.model import Bits, OnElements
from qdialect.ptq.calibration.keys import constant_values
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import MemoryLimitError

Take = Callable[[int, TypedArray], None]
"""Takes the place of an observed value, and the value."""

Kernel = Callable[[Sequence[TypedArray]], Sequence[TypedArray]]
"""Computes the results of an op from its operands, and from what its regions read."""

_NONE: Final = (), None
"""In the place of the kernel of an op that is not run."""

_OPS_AT_ONCE: Final = 8
"""The number of ops that are run between two pauses."""

_MOST_SELECTED: Final = 1 << 22
"""The most elements whose positions are computed once: they take several times their memory."""

_MIN_LARGE: Final = 1 << 18
"""From which number of elements on a dequantized weight is not kept."""


def is_exact(op: Operation) -> bool:
    """Whether the results of an op have the same bits with every engine."""
    return all(map(_is_exact_itself, op.walk()))


def _is_exact_itself(op: Operation) -> bool:
    """The same, without its regions."""
    flags = op.properties.get("fastmath") or op.attributes.get("fastmath")
    if flags is not None and getattr(flags, "data", ()):
        return False
    model, bits = op_model(op), bits_of_op(op)
    if bits is not Bits.UNKNOWN:
        return bits is Bits.EXACT
    if model.cast is not None:
        # An engine chooses the integer of a float that is out of its range.
        before, after = (element_type_or_self(end[0].type) for end in (op.operands, op.results))
        return not isinstance(before, AnyFloat) or isinstance(after, AnyFloat | StoredType)
    return model.reads_elements or model.yields or model.is_undefined


def _is_large_dequantization(op: Operation) -> bool:
    """Whether an op dequantizes a large tensor: the floats are made again for each record."""
    if not is_cast(op) or not isinstance(element_type_or_self(op.operands[0].type), StoredType):
        return False
    shape = shape_of(op.results[0].type) or ()
    return not is_static(shape) or math.prod(shape) >= _MIN_LARGE


def group_of(op: Operation) -> str:
    """What an op computes, in the words of a table of times."""
    layer = known_layer(op)
    if isinstance(layer, Contraction):
        return "convolutions" if windows_of(op, layer) else "matrix products"
    if is_cast(op):
        return "casts"
    if isinstance(op, CallOp):
        return "calls"
    model = op_model(op)
    if layer is not None or (model.movement is not None and not model.maps_elements):
        return "movements"
    if model.has_blocks:
        return "loops and branches"
    sizes = [math.prod(shape_of(value.type) or ()) for value in (*op.operands, *op.results)]
    is_less = bool(op.results) and sizes[-1] < max(sizes)
    return "reductions" if is_less else "functions of elements"


class ObservedRun(ModuleInterpreter):
    """
    Runs a function on records, and hands over the values that are observed.

    A value is freed when it is handed over and no op needs it any more. What depends on constants
    alone is computed before the first record, but large weights are dequantized when an op reads
    them. With `in_single`, f32 is computed with in float32.
    """

    UNKNOWN = "it has no implementation; with --engine=iree, IREE compiles such ops"

    def __init__(
        self,
        module: ModuleOp,
        function: FuncOp,
        context: Context,
        max_steps: int,
        *,
        in_single: bool = False,
    ) -> None:
        super().__init__(module, ResourceBlobs.of(context), max_steps)
        self.function = function
        self._precision = in_single_precision if in_single else nullcontext
        self.context, self.max_steps = context, max_steps
        self._places = dict[SSAValue, list[int]]()
        self._kernels = dict[Operation, tuple[Sequence[SSAValue], Kernel | None]]()
        self._take: Take | None = None
        self._seconds = defaultdict[Operation, float](float)
        """The time that ops of the first block took."""
        self._group_of = cache(group_of)
        self._taken = 0.0
        """The time in which values were taken."""
        self._readers = dict[SSAValue, list[Operation]]()
        """The ops whose kernels read a value."""
        self._slow = set[Operation]()
        """The ops that only the interpreter computes."""
        block = function.body.blocks[0]
        # Observed values are handed over, and not returned.
        self._end = block.last_op if isinstance(block.last_op, ReturnOp) else None
        self._constant = constant_values(module)
        """What depends on constants alone, computed or not."""
        self.constants: Mapping[SSAValue, TypedArray] = {}
        """The values that are the same in each record."""
        self.constants = self._computed_constants()
        self._order = self._as_late_as_possible(block)

    @cached_property
    def _ops(self) -> Sequence[Operation]:
        """The ops of the first block that are run for each record."""
        known, unread = {*self.constants}, set[Operation]()
        for op in reversed(self._order):
            if is_function_of_elements(op) and not (
                self.is_observed(op.results[0]) or {*self.users_of(op.results[0])} - unread
            ):
                unread.add(op)
        return [
            op
            for op in self._order
            if op is not self._end
            and op not in unread
            and not (op.results and known.issuperset(op.results))
            and self._kernels.get(op) != _NONE
        ]

    def _as_late_as_possible(self, block: Block) -> Sequence[Operation]:
        """The ops of a block: what depends on constants alone is before its first reader."""
        places = dict[Operation, int]()
        for place, op in reversed([*enumerate(block.ops)]):
            places[op] = place
            users = (user for result in op.results for user in self.users_of(result))
            readers = [*map(block.find_ancestor_op_in_block, users)]
            if self._constant.issuperset(op.results) and readers and None not in readers:
                places[op] = min(places[reader] for reader in readers if reader is not None)
        return sorted(block.ops, key=places.__getitem__)

    @override
    def ops_in(self, block: Block) -> Iterable[Operation]:
        return self._order if block is self.function.body.blocks[0] else block.ops

    def _computed_constants(self) -> Mapping[SSAValue, TypedArray]:
        known = dict[SSAValue, Any]()
        with self._running(known):
            for op in self.function.body.blocks[0].ops:
                is_constant = bool(op.results) and self._constant.issuperset(op.results)
                if not is_constant or any(operand not in known for operand in op.operands):
                    continue
                if _is_large_dequantization(op):
                    continue
                try:
                    result = super().run_one_op(op, self.get_values(op.operands))
                except OpInterpretationError:
                    # It is an error when the run comes to it.
                    continue
                known.update(zip(op.results, result.values, strict=True))
        return {value: known[value] for value in known if isinstance(known[value], TypedArray)}

    def seconds_of_groups(self) -> Mapping[str, float]:
        """The time since the last call that ops took that compute the same: see `group_of`."""
        groups = defaultdict[str, float](float)
        with models_of(self.context):
            for op, seconds in self._seconds.items():
                groups[self._group_of(op)] += seconds
        self._seconds.clear()
        return groups

    def observe(self, values: Sequence[SSAValue]) -> None:
        """Hand over these values in each run."""
        for place, value in enumerate(values):
            self._places.setdefault(value, []).append(place)

    def is_observed(self, value: SSAValue) -> bool:
        """Whether a value is handed over."""
        return value in self._places

    @cached_property
    def constant_places(self) -> NDArray[np.intp]:
        """The places of observed values that are the same in each record."""
        constant = (places for value, places in self._places.items() if value in self._constant)
        return np.array([at for places in constant for at in places], np.intp)

    def use_kernel(self, op: Operation, inputs: Sequence[SSAValue], kernel: Kernel) -> None:
        """
        Let a kernel compute an op from these values, which are kept until then.

        It may compute ops before this one again, and so read what they read.
        """
        self._kernels[op] = inputs, kernel
        for value in inputs:
            self._readers.setdefault(value, []).append(op)
        self._last_uses.clear()

    def leave_out(self, op: Operation) -> None:
        """Do not run an op: the kernels of all that read it compute it again."""
        self._kernels[op] = _NONE

    @override
    def users_of(self, value: SSAValue) -> Iterable[Operation]:
        users = (op for op in super().users_of(value) if op is not self._end)
        return (*users, *self._readers.get(value, ()))

    def run(self, arguments: Sequence[TypedArray], take: Take, *, is_again: bool = False) -> None:
        """
        Run the function on a record. After the first one, constants need not be handed over again.

        Raises OpInterpretationError for an op that cannot be run, and what `take` raises.
        """
        for _ in self.steps(arguments, take, is_again=is_again, at_once=sys.maxsize):
            pass

    def steps(
        self,
        arguments: Sequence[TypedArray],
        take: Take,
        *,
        is_again: bool = False,
        at_once: int = _OPS_AT_ONCE,
    ) -> Iterator[None]:
        """The same, with pauses behind a few ops each: two functions can be run side by side."""
        block = self.function.body.blocks[0]
        self._take, self._steps_left = take, self._max_steps
        self._hand_over(block.args, arguments)
        if not is_again:
            self._hand_over([*self.constants], [*self.constants.values()])
        yield
        values = dict[SSAValue, Any](self.constants)
        values.update(zip(block.args, arguments, strict=True))
        last_uses, ended = self.last_uses_in(block), None
        for start in range(0, len(self._ops), at_once):
            with self._running(values):
                for op in self._ops[start : start + at_once]:
                    ended = self._step(op, values)
                    for value in last_uses.get(op, ()):
                        values.pop(value, None)
            yield
        while isinstance(ended, Successor):
            with self._running(values):
                values.update(zip(ended.block.args, ended.args, strict=True))
                ended = self._run_block(ended.block, values)

    @contextmanager
    def _running(self, values: dict[SSAValue, Any]) -> Generator[None]:
        """Run ops of the function meanwhile, with these values."""
        set_scope(self, ScopedDict(None, local_scope=values))
        try:
            with (
                models_of(self.context),
                work_spent_by(self),
                self._precision(),
                np.errstate(all="ignore"),
            ):
                yield
        finally:
            set_scope(self, ScopedDict())

    def _step(self, op: Operation, values: dict[SSAValue, Any]) -> TerminatorValue | None:
        """Run an op of the first block, in as little time as possible."""
        start, taken = perf_counter(), self._taken
        try:
            return self._run_step(op, values)
        finally:
            self._seconds[op] += perf_counter() - start - (self._taken - taken)

    def _run_step(self, op: Operation, values: dict[SSAValue, Any]) -> TerminatorValue | None:
        inputs, kernel = self._kernels.get(op, _NONE)
        if kernel is not None:
            try:
                results = kernel([values[value] for value in inputs])
            except (InterpretationError, MemoryLimitError) as error:
                if not values.keys() >= {*op.operands}:
                    raise OpInterpretationError(op, str(error)) from None
                # This says where.
                results = super().run_one_op(op, self.get_values(op.operands)).values
            self._hand_over(op.results, results)
        else:
            result = self.run_one_op(op, self.get_values(op.operands))
            if result.terminator_value is not None:
                return result.terminator_value
            results = result.values
        values.update(zip(op.results, results, strict=False))
        return None

    @override
    def run_one_op(self, op: Operation, inputs: PythonValues) -> OpImplResult:
        result = super().run_one_op(op, inputs)
        if self._take is not None:
            self._hand_over(op.results, result.values)
        return result

    @override
    def _result_of(self, op: Operation, inputs: PythonValues) -> OpImplResult:
        if op not in self._kernels and op not in self._slow:
            if (prepared := self._prepared(op, inputs)) is not None:
                self._kernels[op] = prepared
            else:
                self._slow.add(op)
        if op in self._slow:
            return super()._result_of(op, inputs)
        values, kernel = self._kernels[op]
        if kernel is None:
            return OpImplResult((None,) * len(op.results), None)
        return OpImplResult(tuple(kernel(self.get_values(values))), None)

    def _prepared(
        self, op: Operation, inputs: PythonValues
    ) -> tuple[Sequence[SSAValue], Kernel] | None:
        """A function of arrays that computes an op in less time than the interpreter."""
        shapes = [shape_of(value.type) for value in (*op.operands, *op.results)]
        if len(op.results) != 1 or not all(map(is_static, shapes)):
            return None
        read = tuple(dict.fromkeys(captured_by(op)))
        if (selecting := self._selecting(op, inputs, read)) is not None:
            return selecting
        function = function_on_arrays(op)
        if (
            function is None
            and find_run(name_of(op)) is None
            and (model := model_of(op))
            and inputs
        ):
            others = (*op.operands[1:], *read)
            steps: list[Callable[[Sequence[NDArray[Any]]], NDArray[Any]]] = []
            is_plain = all(isinstance(value, TypedArray) for value in inputs)
            if not is_plain or any(value not in self.constants for value in others):
                return None
            if isinstance(inputs[0].element_type, StoredType):
                return None
            run_shape_op(self, op, model, inputs, steps)
            return ([op.operands[0]], _moving(op, steps)) if steps else None
        model = op_model(op)
        broadcasts = isinstance(model.run, OnElements) and model.run.broadcasts
        is_alike = model.on_arrays is not None or broadcasts or len({*shapes}) == 1
        return ([*op.operands, *read], _computing(op, function)) if function and is_alike else None

    def _selecting(
        self, op: Operation, inputs: PythonValues, read: Sequence[SSAValue]
    ) -> tuple[Sequence[SSAValue], Kernel] | None:
        """The elements of a tensor at positions that are the same in each record."""
        source, type = _selected_by(op), op.results[0].type
        is_fixed = all(value is source or value in self.constants for value in read)
        if source is None or source not in read or not is_fixed:
            return None
        value: TypedArray = self.get_values([source])[0]
        size, shape, dtype = value.elements.size, value.shape, value.elements.dtype
        if size > 1 << 8 * dtype.itemsize or shape != shape_of(source.type):
            return None
        # The same op, run on positions.
        places = np.arange(size).reshape(shape).astype(dtype)
        self.set_values([(source, TypedArray(places, value.type))])
        try:
            numbers: TypedArray = super()._result_of(op, inputs).values[0]
        finally:
            self.set_values([(source, value)])
        if numbers.shape != shape_of(type) or numbers.elements.size > _MOST_SELECTED:
            return None
        flat: NDArray[np.intp] = numbers.elements.view(f"u{dtype.itemsize}").astype(np.intp)
        indices = tuple(map(without_equal, np.unravel_index(flat, shape)))

        def select(values: Sequence[TypedArray]) -> Sequence[TypedArray]:
            return [TypedArray.of(elements_at(values[0].elements, indices), type)]

        return [source], select

    def _hand_over(self, values: Sequence[SSAValue], results: Sequence[Any]) -> None:
        assert self._take is not None
        start = perf_counter()
        for value, result in zip(values, results, strict=False):
            for place in self._places.get(value, ()):
                self._take(place, result)
        self._taken += perf_counter() - start


def _selected_by(op: Operation) -> SSAValue | None:
    """The value that the body of an op takes an element of, and reads for nothing else."""
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        return None
    block = op.regions[0].block
    end = block.last_op
    taken = end.operands[0].owner if end is not None and len(end.operands) == 1 else block
    if isinstance(taken, Block) or taken.parent is not block or not op_model(taken).extracts:
        return None
    source = taken.operands[0]
    is_read_once = sum(op.is_ancestor(use.operation) for use in source.uses) == 1
    is_plain = not any(argument.first_use for argument in block.args)
    return source if is_read_once and is_plain else None


def _moving(op: Operation, steps: Sequence[Callable[[Sequence[NDArray[Any]]], Any]]) -> Kernel:
    """The movement of an operand, in steps."""
    type = op.results[0].type

    def move(values: Sequence[TypedArray]) -> Sequence[TypedArray]:
        array = values[0].elements
        for step in steps:
            array = step([array])
        return [TypedArray(array, type)]

    return move


def _computing(op: Operation, function: Callable[..., NDArray[Any]]) -> Kernel:
    """A function of arrays of float32 and truth values."""
    type = op.results[0].type
    dtype, shape = dtype_of(element_type_or_self(type)), shape_of(type) or ()
    nbytes = math.prod(shape) * dtype.itemsize

    def compute(values: Sequence[TypedArray]) -> Sequence[TypedArray]:
        arrays = [
            value.elements.view(np.float32)
            if value.elements.dtype == np.uint32
            else value.elements != 0
            for value in values
        ]
        array = allocated(lambda: np.asarray(function(*arrays)), nbytes, arrays)
        if array.dtype == np.bool_:
            return [TypedArray(-array.view(np.int8), type)]
        return [TypedArray(array.view(dtype), type)]

    return compute
