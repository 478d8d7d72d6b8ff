"""
The function that calibration runs: it returns the float tensors of another one, or their ranges.

So any engine that can run functions can record values, without hooks of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.builder import ImplicitBuilder
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
    f64,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.traits import SymbolTable

from qdialect.algebra.lazy_numpy import np
from qdialect.interpreters import TypedArray, find_function
from qdialect.interpreters.values import held_type
from qdialect.ir.value_types import element_type_or_self
from qdialect.post_training.keys import keys_of
from qdialect.quantization.ranges import Statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FLOATS: Final = (
    Float16Type,
    Float32Type,
    Float64Type,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2Type,
    Float8E5M2FNUZType,
)
"""The element types that are recorded: the floats that both engines know."""

_RESULTS_OF_RANGE: Final = 4
"""The minimum, the maximum, the count of numbers, and the count of NaNs."""


class LeftOut(NamedTuple):
    """Values that are not recorded, all for one reason."""

    keys: tuple[str, ...]
    op: Operation
    """The op of the function that holds them, or a function."""
    reason: str


@dataclass(frozen=True)
class RecordedValues:
    """The values behind the results of a recording function."""

    keys: tuple[str, ...]
    """The key of each value, in the order of the results; parts of one tensor share a key."""
    are_whole: bool
    """Whether the results are the values, and not their ranges."""
    have_histograms: bool = False
    """Whether histograms are recorded, too; only of whole values."""

    def statistics(
        self, index: int, results: Sequence[TypedArray], *, threads: int | None = None
    ) -> dict[str, Statistics]:
        """
        The statistics of one record, by the keys of values.

        Raises ValueError for a value without a number.
        """
        found = dict[str, Statistics]()
        step = 1 if self.are_whole else _RESULTS_OF_RANGE
        for at, key in enumerate(self.keys):
            try:
                if self.are_whole:
                    seen = Statistics.observe(
                        index,
                        _floats(results[at]),
                        histogram=self.have_histograms,
                        threads=threads,
                    )
                else:
                    seen = _of_range(index, results[at * step : (at + 1) * step])
            except ValueError as error:
                raise ValueError(f"record {index}: value '{key}': {error}") from None
            found[key] = _together(found[key], seen) if key in found else seen
        return found


class RecordedFunction(NamedTuple):
    """A recording function, in a module of its own."""

    module: ModuleOp
    name: str
    values: RecordedValues
    left_out: tuple[LeftOut, ...]


def record_function(
    module: ModuleOp, name: str, *, whole_values: bool, histograms: bool = False
) -> RecordedFunction:
    """
    A copy of a module with one public function, which has the arguments of the function `name`.

    Its results are the float tensors of that function that have a key of their own, or their
    ranges. Values in the regions of its ops, in its later blocks, and in functions that it calls
    are left out: they may be computed several times, or not at all. Raises InterpretationError if
    there is no such function.
    """
    function = find_function(module, name)
    copy = module.clone()
    # The original function stays, since others may call it.
    copies = dict[SSAValue, SSAValue]()
    recorder = function.clone(copies)
    first = function.body.blocks[0]
    keys, values = list[str](), list[SSAValue]()
    left_out = dict[tuple[Operation, str], list[str]]()
    reached = _reached_from(module, function)
    for key, roots in keys_of(module).roots.items():
        for root in roots:
            owner = root.owner
            block = owner if isinstance(owner, Block) else owner.parent_block()
            assert block is not None
            if block is not first:
                place = _place_of(block, function)
                if place[0] is function or place[0].parent_op() is function or place[0] in reached:
                    left_out.setdefault(place, []).append(key)
            elif (reason := _unrecordable(root.type)) is not None:
                op = function if isinstance(owner, Block) else owner
                left_out.setdefault((op, reason), []).append(key)
            else:
                keys.append(key)
                values.append(copies[root])
    for op in copy.ops:
        if isinstance(op, FuncOp):
            op.sym_visibility = StringAttr("private")
    recorder.sym_visibility = None
    recorder.sym_name = StringAttr(_free_name(copy, f"{name}_recorded"))
    copy.body.blocks[0].add_op(recorder)
    results = values if whole_values else [end for of in values for end in _range_of(of)]
    _return_instead(recorder, results)
    return RecordedFunction(
        copy,
        recorder.sym_name.data,
        RecordedValues(tuple(keys), whole_values, histograms),
        tuple(LeftOut((*keys,), *place) for place, keys in left_out.items()),
    )


def _reached_from(module: ModuleOp, function: FuncOp) -> set[FuncOp]:
    """The function, and all functions that it calls, also indirectly."""
    reached, pending = {function}, [function]
    while pending:
        for op in pending.pop().walk():
            if isinstance(op, CallOp):
                called = SymbolTable.lookup_symbol(module, op.callee)
                if isinstance(called, FuncOp) and called not in reached:
                    reached.add(called)
                    pending.append(called)
    return reached


def _place_of(block: Block, function: FuncOp) -> tuple[Operation, str]:
    """
    The op that holds a block, and why the values of the block are not recorded.

    The block is not the first one of `function`. The op is an op of `function`, `function`
    itself, or another op of the module.
    """
    around = block.parent_op()
    if around is function:
        return function, "this block of the function may not be run, or more than once"
    assert around is not None
    while (above := around.parent_op()) is not function:
        if above is None or isinstance(around, FuncOp):
            return around, "another function is called"
        around = above
    return around, "a region of the op may not be run, or more than once"


def _unrecordable(type: Attribute) -> str | None:
    """Why the values of a type cannot be recorded, if they cannot."""
    if not isinstance(type, TensorType):
        return f"'{type}' is no ranked tensor"
    tensor = cast("TensorType[Attribute]", type)
    if not isinstance(tensor.element_type, _FLOATS):
        return f"elements of type '{tensor.element_type}' are not recorded"
    return "it has no elements" if 0 in tensor.get_shape() else None


def _free_name(module: ModuleOp, name: str) -> str:
    while SymbolTable.lookup_symbol(module, name) is not None:
        name += "_"
    return name


def _return_instead(function: FuncOp, results: Sequence[SSAValue]) -> None:
    """Replace the results of a function."""
    for block in function.body.blocks:
        if isinstance(last := block.last_op, ReturnOp):
            last.operands = results
    types = [result.type for result in results]
    function.function_type = FunctionType.from_lists(function.function_type.inputs.data, types)
    if function.res_attrs is not None:
        function.res_attrs = ArrayAttr([DictionaryAttr({})] * len(types))


def _range_of(value: SSAValue) -> Sequence[SSAValue]:
    """
    The results that `RecordedValues.statistics` reads a range from, computed after the value.

    The ops are of linalg and arith, which an engine accepts beside those of any other dialect.
    """
    type = cast("TensorType[AnyFloat]", value.type)
    rank, wide = len(type.get_shape()), f64 if type.element_type == f64 else f32
    floats, counts = TensorType(wide, []), TensorType(i64, [])
    initial = [
        arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(floats, [float("inf")])),
        arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(floats, [float("-inf")])),
        arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(counts, [0])),
        arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(counts, [0])),
    ]
    body = Block(arg_types=[type.element_type, wide, wide, i64, i64])
    with ImplicitBuilder(body) as (element, low, high, numbers, nans):
        if type.element_type != wide:
            element = arith.ExtFOp(element, wide).result
        # NaN is neither less nor greater than anything.
        ends = [
            arith.SelectOp(arith.CmpfOp(element, end, order), element, end).result
            for end, order in ((low, "olt"), (high, "ogt"))
        ]
        one = arith.ConstantOp.from_int_and_width(1, 64).result
        zero = arith.ConstantOp.from_int_and_width(0, 64).result
        is_nan = arith.CmpfOp(element, element, "uno")
        counted = [arith.SelectOp(is_nan, *each).result for each in ((zero, one), (one, zero))]
        sums = [
            arith.AddiOp(count, more).result
            for count, more in zip((numbers, nans), counted, strict=True)
        ]
        YieldOp(*ends, *sums)
    reduced = GenericOp(
        [value],
        [each.result for each in initial],
        Region(body),
        [AffineMapAttr(AffineMap.identity(rank))]
        + [AffineMapAttr(AffineMap(rank, 0, ()))] * _RESULTS_OF_RANGE,
        [IteratorTypeAttr(IteratorType.REDUCTION)] * rank,
        [each.result.type for each in initial],
    )
    owner = value.owner
    if isinstance(owner, Block):
        owner.insert_ops_before([*initial, reduced], cast(Operation, owner.first_op))
    else:
        block = owner.parent_block()
        assert block is not None
        block.insert_ops_after([*initial, reduced], owner)
    return reduced.results


def _of_range(index: int, results: Sequence[TypedArray]) -> Statistics:
    low, high, numbers, nans = (_floats(result) for result in results)
    if not numbers:
        raise ValueError(
            "all elements are NaN: they have no range" if nans else "there is no element"
        )
    with np.errstate(over="ignore"):
        # Adding 0 makes a negative zero positive.
        ends = [end.reshape(1).astype("f4") + np.float32(0) for end in (low, high)]
    return Statistics((), np.array([index]), ends[0], ends[1], int(numbers), int(nans))


def _floats(value: TypedArray) -> NDArray[Any]:
    """The elements as numpy has them: float16, float32 or float64, or integers."""
    match held_type(element_type_or_self(value.type)):
        case Float16Type() | Float32Type() | Float64Type():
            return value.elements.view(f"f{value.elements.itemsize}")
        case _:
            return value.numbers


def _together(first: Statistics, second: Statistics) -> Statistics:
    """The statistics of two parts of one tensor, in the same record."""
    return Statistics(
        first.axes,
        first.records,
        np.minimum(first.minima, second.minima),
        np.maximum(first.maxima, second.maxima),
        first.count + second.count,
        first.nans + second.nans,
        None
        if first.histogram is None or second.histogram is None
        else first.histogram.merge(second.histogram),
    )
