"""
The values of a function that are recorded, and those of two functions that are compared.

Values of a float module and of its quantized form correspond by their keys. In a quantized module,
the compared value is the one that users read: the result of a cast to floats, if there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.algebra.movement import DYNAMIC
from qdialect.check.interpreters import TypedArray, find_function
from qdialect.dialects.arrays.values import held_type
from qdialect.dialects.quant import DequantizeCastOp, QuantizeCastOp
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.folding.apply import fold_shapes
from qdialect.folding.policy import FoldPolicy
from qdialect.ir.names import symbols_of
from qdialect.ir.rewriting import insert_after, values_in
from qdialect.ir.value_types import element_type_or_self, shape_of, with_element_type
from qdialect.ops.along_axis import is_recordable
from qdialect.ops.interface import is_cast, name_of
from qdialect.ptq.calibration.derived_ranges import LIMIT, Derived, Lanes, functions_followed
from qdialect.ptq.calibration.keys import Keys, attach_keys, casts_to, constant_values, keys_of
from qdialect.ptq.schemes.arrays import AllNaNError, whole_range
from qdialect.ptq.schemes.ranges import Statistics, merged
from qdialect.support.lazy_numpy import NDArray, np


class LeftOut(NamedTuple):
    """Values that are not recorded, for one common reason."""

    keys: tuple[str, ...]
    op: Operation
    """The op that holds the values: an op in the function, or another function."""
    reason: str


@dataclass
class Seen:
    """
    What is known of one record of a run: the ranges of its values, and the counts of elements.

    Positions are those of the values of a `RecordedFunction`, which are added in any order.
    """

    index: int
    """The index of the record."""
    ends: NDArray[np.float32]
    """The minimum and the maximum of each value, of shape (2, values): NaN if there is no range."""
    counts: NDArray[np.int64]
    """The number of elements of each value that are not NaN, and of NaNs: shape (2, values)."""
    apart: dict[int, Statistics]
    """The statistics of the values that have more than one range, or a histogram."""
    lanes: NDArray[np.float32] | None
    """
    The minima and the maxima of the lanes of values that others follow from, one after another.

    None once the ranges are computed that follow. NaN if they do not follow.
    """

    def copy(self, places: NDArray[np.intp], other: Seen) -> None:
        """Take the values at these positions, which have not changed, from another record."""
        self.ends[:, places], self.counts[:, places] = (
            other.ends[:, places],
            other.counts[:, places],
        )
        for at in other.apart and other.apart.keys() & {*places.tolist()}:
            self.apart[at] = replace(other.apart[at], records=np.array([self.index]))


@dataclass(frozen=True)
class RecordedValues:
    """What is recorded of the values of a function."""

    keys: tuple[str, ...]
    """The key of each value; parts of one tensor share a key."""
    axes: tuple[int | None, ...]
    """
    For each value, the axis along which ranges are recorded per index; None for a single range.
    """
    have_histograms: bool = False
    required: frozenset[str] = frozenset()
    """The keys of arguments and results of the function, which must have a range in each record."""
    derived: tuple[Derived, ...] = ()
    """The last values, which are not added: each follows from one before it."""
    lanes: Mapping[int, Lanes] = field(default_factory=dict[int, Lanes])
    """How the elements of added values are divided that others follow from."""

    def begin(self, index: int) -> Seen:
        """A record of which nothing is known yet."""
        count = len(self.keys)
        ends = np.full((2, count), np.nan, np.float32)
        lanes = np.empty(2 * sum(lanes.width for lanes in self.lanes.values()), np.float32)
        return Seen(index, ends, np.zeros((2, count), np.int64), {}, lanes)

    def add(self, seen: Seen, at: int, value: TypedArray, *, threads: int | None = None) -> None:
        """
        Add the value at a position to what is known of a record.

        A value has no range if all its elements are NaN, such as a constant that a select leaves
        out. Raises ValueError for a value without elements, and for an argument or a result of NaN
        only.
        """
        if (place := self._places.get(at)) is None:
            self._add(seen, at, floats_of(value), threads)
            return
        assert seen.lanes is not None
        (first, lanes), array = place, value.elements.view(np.float32).reshape(place[1].shape)
        ends = seen.lanes[first : first + 2 * lanes.width]
        np.minimum.reduce(array, lanes.axis, out=ends[: lanes.width])
        np.maximum.reduce(array, lanes.axis, out=ends[lanes.width :])
        if np.dot(ends, ends) < LIMIT**2:
            seen.counts[0, at] = array.size
            return
        # There are NaNs, or may be.
        ends.fill(np.nan)
        self._add(seen, at, array, threads)
        arrays = {at: array}
        for follower, derived in enumerate(self.derived, self._first):
            if derived.source in arrays and derived.function is not None:
                arrays[follower] = derived.of(arrays[derived.source], lanes)
                self._add(seen, follower, arrays[follower], threads)

    def _add(self, seen: Seen, at: int, array: NDArray[Any], threads: int | None) -> None:
        axis = self.axes[at]
        try:
            if axis is None and not self.have_histograms:
                low, high, nans = whole_range(array, threads=threads)
                seen.ends[0, at], seen.ends[1, at] = low, high
                seen.counts[0, at], seen.counts[1, at] = array.size - nans, nans
            else:
                seen.apart[at] = Statistics.observe(
                    seen.index,
                    array,
                    () if axis is None else (axis,),
                    histogram=self.have_histograms,
                    threads=threads,
                )
        except ValueError as error:
            if not isinstance(error, AllNaNError) or self.keys[at] in self.required:
                raise ValueError(f"value '{self.keys[at]}': {error}") from None
            seen.counts[1, at] = array.size

    def follow(self, records: Sequence[Seen]) -> None:
        """Compute the ranges that follow from others, and drop the lanes of these."""
        if not (new := [seen for seen in records if seen.lanes is not None]):
            return
        ends = np.stack([seen.ends for seen in new], axis=1)
        counts = np.stack([seen.counts for seen in new], axis=1)
        all_lanes = np.stack([lanes for seen in new if (lanes := seen.lanes) is not None])
        known = dict[int, "tuple[NDArray[np.float32], NDArray[np.bool_]]"]()
        for at, (first, lanes) in self._places.items():
            part = all_lanes[:, first : first + 2 * lanes.width]
            known[at] = part.reshape(len(new), 2, -1), ~np.isnan(part[:, 0])
        for at, derived in enumerate(self.derived, self._first):
            if derived.number is None:
                of_source, follows = known[derived.source]
                known[at] = derived.of(of_source), follows
                counts[:, follows, at] = counts[:, follows, derived.source]
        for at, (part, follows) in known.items():
            for function, end in zip((np.min, np.max), ends, strict=True):
                # A negative zero becomes positive.
                end[follows, at] = function(part[follows], axis=(1, 2)) + np.float32(0)
        for at, derived in enumerate(self.derived, self._first):
            if derived.number is not None:
                for function, end in zip((np.fmin, np.fmax), ends, strict=True):
                    end[:, at] = function(end[:, derived.source], derived.number)
                counts[:, :, at] = counts[:, :, derived.source]
                counts[0, :, at] += derived.added
        for number, seen in enumerate(new):
            seen.ends, seen.counts, seen.lanes = ends[:, number], counts[:, number], None

    def statistics(self, records: Sequence[Seen]) -> dict[str, Statistics]:
        """The statistics of at least one record, by the keys of values that have a range."""
        self.follow(records)
        records = sorted(records, key=lambda seen: seen.index)
        indices = np.array([seen.index for seen in records])
        ends = np.stack([seen.ends for seen in records], axis=1)
        counts = np.stack([seen.counts for seen in records], axis=1)
        statistics = dict[str, Statistics]()
        for key, positions in self._positions.items():
            parts = [
                reduce(_together, [seen.apart[at] for at in positions if at in seen.apart])
                for seen in records
                if not seen.apart.keys().isdisjoint(positions)
            ]
            # NaN is the value of a part without a range.
            low, high = (
                function.reduce(end[:, positions], axis=1)
                for function, end in zip((np.fmin, np.fmax), ends, strict=True)
            )
            has_range = ~np.isnan(low)
            if has_range.any():
                numbers, nans = counts[:, has_range][:, :, positions].sum(axis=(1, 2)).tolist()
                parts.append(
                    Statistics(
                        (), indices[has_range], low[has_range], high[has_range], numbers, nans
                    )
                )
            if parts:
                statistics[key] = merged(parts)
        return statistics

    @cached_property
    def _first(self) -> int:
        """The position of the first value that follows from others."""
        return len(self.keys) - len(self.derived)

    @cached_property
    def _places(self) -> dict[int, tuple[int, Lanes]]:
        """Where the ends of the lanes of values are, and their lanes."""
        first, places = 0, dict[int, tuple[int, Lanes]]()
        for at, lanes in self.lanes.items():
            places[at] = first, lanes
            first += 2 * lanes.width
        return places

    @cached_property
    def _positions(self) -> dict[str, list[int]]:
        """The positions of the values of each key."""
        positions = dict[str, list[int]]()
        for at, key in enumerate(self.keys):
            positions.setdefault(key, []).append(at)
        return positions


class RecordedFunction(NamedTuple):
    """A function whose values are recorded."""

    function: FuncOp
    values: tuple[SSAValue, ...]
    """Those to add: the first ones of `recorded`."""
    recorded: RecordedValues
    left_out: tuple[LeftOut, ...]


def recorded_function(
    module: ModuleOp,
    name: str,
    keys: Keys,
    *,
    histograms: bool = False,
    axes: Mapping[SSAValue, int] = MappingProxyType({}),
) -> RecordedFunction:
    """
    The function `name`, and its float tensors that have a key of their own, of the module's `keys`.

    Values in regions of its ops, in blocks after the first, and in called functions are left out:
    they may be computed several times, or not at all. Values in `axes` have a range for each index
    of that axis. Raises InterpretationError if the function does not exist.
    """
    function = find_function(module, name)
    by_key, left_out = recordable_values(module, function, keys)
    values = {
        part: (key, axis)
        for key, parts in by_key.items()
        for part, axis in zip(parts, _common_axis(parts, axes), strict=True)
    }
    ends = (block.last_op for block in function.body.blocks)
    returned = [value for op in ends if isinstance(op, ReturnOp) for value in op.operands]
    required = {keys.of_values.get(value, "") for value in (*function.args, *returned)}
    pairs = [*values.values()]
    recorded = RecordedValues(
        tuple(key for key, _ in pairs),
        tuple(axis for _, axis in pairs),
        histograms,
        frozenset(required),
    )
    return RecordedFunction(function, (*values,), recorded, left_out)


def without_derived(
    whole: RecordedFunction, constants: Mapping[SSAValue, TypedArray]
) -> RecordedFunction:
    """
    The function, and fewer values to add: the ranges of the others follow from these.

    `constants` are values of the function that are the same in each record.
    """
    recorded = whole.recorded
    pairs = dict(zip(whole.values, zip(recorded.keys, recorded.axes, strict=True), strict=True))
    if recorded.have_histograms:
        return whole
    inner = values_in(whole.function)
    functions = functions_followed(
        [value for value in inner if pairs.get(value, ("", 0))[1] is None], constants
    )
    added = tuple(value for value in pairs if value not in functions.derived)
    places = {value: at for at, value in enumerate((*added, *functions.derived))}
    return whole._replace(
        values=added,
        recorded=replace(
            recorded,
            keys=tuple(pairs[value][0] for value in places),
            axes=tuple(pairs[value][1] for value in places),
            derived=tuple(
                replace(derived, source=places[source])
                for source, derived in functions.derived.values()
            ),
            lanes={places[value]: lanes for value, lanes in functions.lanes.items()},
        ),
    )


def _common_axis(parts: Sequence[SSAValue], axes: Mapping[SSAValue, int]) -> Sequence[int | None]:
    """
    The axis of each part of one tensor.

    All parts have the same axis and length, or else none has an axis.
    """
    pairs = {
        (axes.get(part), (shape_of(part.type) or ())[axes[part]] if part in axes else None)
        for part in parts
    }
    axis, length = pairs.pop()
    return [None if pairs or length == DYNAMIC else axis] * len(parts)


def recordable_values(
    module: ModuleOp, function: FuncOp, keys: Keys
) -> tuple[dict[str, tuple[SSAValue, ...]], tuple[LeftOut, ...]]:
    """The values of a function that can be recorded, by their keys, and those that cannot."""
    first = function.body.blocks[0]
    values_of = dict[str, tuple[SSAValue, ...]]()
    left_out = dict[tuple[Operation, str], list[str]]()
    reached = _reached_from(module, function)
    for key, roots in keys.roots.items():
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
                values_of[key] = (*values_of.get(key, ()), root)
    return values_of, tuple(LeftOut((*keys,), *place) for place, keys in left_out.items())


def returning(
    module: ModuleOp, function: FuncOp, values: Sequence[SSAValue]
) -> tuple[ModuleOp, FuncOp, list[SSAValue]]:
    """
    A copy of a module with one public function, which has the arguments of `name` in the module.

    The function returns copies of `values`, which are returned, too.
    """
    called = {op.callee.string_value() for op in module.walk() if isinstance(op, CallOp)}
    others = (op for op in module.ops if op is not function or function.sym_name.data in called)
    copy, copies = module.clone_without_regions(), dict[SSAValue, SSAValue]()
    copy.body.add_block(Block([op.clone(copies) for op in others]))
    # A new function, since other functions may call the original one.
    new = function.clone(copies)
    for op in copy.ops:
        if isinstance(op, FuncOp):
            op.sym_visibility = StringAttr("private")
    new.sym_visibility = None
    name, symbols = f"{function.sym_name.data}_recorded", symbols_of(copy)
    while name in symbols:
        name += "_"
    new.sym_name = StringAttr(name)
    copy.body.blocks[0].add_op(new)
    results = [copies[value] for value in values]
    for block in new.body.blocks:
        if isinstance(last := block.last_op, ReturnOp):
            last.operands = results
    types = [result.type for result in results]
    new.function_type = FunctionType.from_lists(new.function_type.inputs.data, types)
    if new.res_attrs is not None:
        new.res_attrs = ArrayAttr([DictionaryAttr({})] * len(types))
    return copy, new, results


def _reached_from(module: ModuleOp, function: FuncOp) -> set[FuncOp]:
    """The function, and all functions that it calls, also indirectly."""
    reached, pending, symbols = {function}, [function], symbols_of(module)
    while pending:
        for op in pending.pop().walk():
            if isinstance(op, CallOp):
                called = symbols.get(op.callee.string_value())
                if isinstance(called, FuncOp) and called not in reached:
                    reached.add(called)
                    pending.append(called)
    return reached


def _place_of(block: Block, function: FuncOp) -> tuple[Operation, str]:
    """
    The op that holds a block, and why the values of the block are not recorded.

    The block is not the entry block of `function`. The op is in `function`, `function` itself, or
    elsewhere in the module.
    """
    around = block.parent_op()
    if around is function:
        return function, "this block may run several times, or never"
    assert around is not None
    while (above := around.parent_op()) is not function:
        if above is None or isinstance(around, FuncOp):
            return around, "the function may run several times, or never"
        around = above
    return around, "the region may run several times, or never"


def _unrecordable(type: Attribute) -> str | None:
    """Why the values of a type cannot be recorded; None if they can."""
    # Both engines support the floats of IREE, whose runs import what lowers casts.
    from qdialect.check.iree_runs import FLOATS

    if not isinstance(type, TensorType):
        return f"'{type}' is not a ranked tensor"
    tensor = cast("TensorType[Attribute]", type)
    if not isinstance(tensor.element_type, (*FLOATS,)):
        return f"elements of type '{tensor.element_type}' are not recorded"
    return "it has no elements" if 0 in tensor.get_shape() else None


def floats_of(value: TypedArray) -> NDArray[Any]:
    """The elements as a numpy array of float16, float32 or float64, or of integers."""
    match held_type(element_type_or_self(value.type)):
        case Float16Type() | Float32Type() | Float64Type():
            return value.elements.view(f"f{value.elements.itemsize}")
        case _:
            return value.numbers


def _together(first: Statistics, second: Statistics) -> Statistics:
    """The statistics of two parts of one tensor in the same record, merged."""
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


# Compared functions

ARGUMENT = "argument"
"""The producer name of a value without a defining op."""


class ComparedValue(NamedTuple):
    """A value that both functions return, in one or more parts."""

    key: str
    op: str
    """The name of the op that makes it."""
    storage: str
    """Its storage type in the quantized module: `u8`, or `f32` if it is not quantized."""
    inputs: tuple[str, ...]
    """The keys of the operands of its op."""
    parts: int


class ComparedResult(NamedTuple):
    """A result of both functions."""

    number: int
    key: str
    has_classes: bool
    """Whether its last axis has a number for each of several classes."""


class NotCompared(NamedTuple):
    """A value of one or both modules, and why it is not compared."""

    key: str
    reason: str


class OneFunction(NamedTuple):
    """One of the two functions."""

    module: ModuleOp
    function: FuncOp
    returned: tuple[SSAValue, ...]
    """The values and the results, in the order of the results."""

    left_out: tuple[LeftOut, ...] = ()
    """The values of its module that cannot be recorded, if values are compared."""


@dataclass(frozen=True)
class ComparedFunctions:
    """
    The two functions.

    Both have the same arguments, and return the parts of values, then the results.
    """

    before: OneFunction
    after: OneFunction
    values: tuple[ComparedValue, ...]
    results: tuple[ComparedResult, ...]
    not_compared: tuple[NotCompared, ...]


class _Reading(NamedTuple):
    """A value as its users read it in a quantized module."""

    value: SSAValue
    storage: str
    is_quantized: bool


def compare_functions(
    before: ModuleOp,
    after: ModuleOp,
    names: tuple[str, str],
    contexts: tuple[Context, Context],
    *,
    only_results: bool = False,
) -> ComparedFunctions:
    """
    Make functions that return the comparable values of the functions `names`, one of each module.

    With `only_results`, they return only the results of these.

    With values, both modules are changed: shape ops are folded into constants, since the quantized
    weights may be in the layout that layers read. Raises InterpretationError if a function does not
    exist, and ValueError if they differ in arguments or results.
    """
    numbered = set[str]()
    for module, context in () if only_results else zip((before, after), contexts, strict=True):
        # A fold may change the order of values that have no name.
        numbered |= attach_keys(module).numbered
        # Broadcasts are kept in both modules, whether their operands are quantized or not.
        fold_shapes(module, context, FoldPolicy(max_repetition=0))
    return _Comparison(before, after, names, numbered).functions(only_results)


class _Side:
    """The values of one function, by their keys."""

    def __init__(self, module: ModuleOp, name: str) -> None:
        self.module = module
        self.function = find_function(module, name)
        keys = keys_of(module)
        self.keys = keys.of_values
        self._aliases = {
            name: key for name, key in keys.aliases.items() if name not in keys.numbered
        }
        self._keys_of_module = keys
        last = self.function.body.blocks[0].last_op
        self.results = last.operands if isinstance(last, ReturnOp) else ()

    @cached_property
    def recordable(self) -> tuple[Mapping[str, tuple[SSAValue, ...]], tuple[LeftOut, ...]]:
        """The values that can be recorded, by their keys, and those that cannot."""
        return recordable_values(self.module, self.function, self._keys_of_module)

    @property
    def roots(self) -> Mapping[str, tuple[SSAValue, ...]]:
        """The values that can be recorded, by their keys."""
        return self.recordable[0]

    @cached_property
    def members(self) -> Mapping[str, list[SSAValue]]:
        """The values that hold the elements of each key, without the results of their casts."""
        members, block = dict[str, list[SSAValue]](), self.function.body.blocks[0]
        for value, key in self.keys.items():
            owner = value.owner
            is_here = (owner if isinstance(owner, Block) else owner.parent_block()) is block
            if is_here and key in self.roots and not self._is_of_cast(value, key):
                members.setdefault(key, []).append(value)
        return members

    @cached_property
    def constants(self) -> set[SSAValue]:
        """The values that are computed from constants alone, which a fold may have replaced."""
        return constant_values(self.module)

    def root_of(self, key: str) -> str | None:
        """
        The key in this module of the value with `key` in the other module, or with this alias here.
        """
        key = key if key in self.roots else self._aliases.get(key, key)
        return key if key in self.roots else None

    def returning(self, values: Sequence[SSAValue]) -> OneFunction:
        module, function, copies = returning(self.module, self.function, values)
        return OneFunction(module, function, (*copies,))

    def _is_of_cast(self, value: SSAValue, key: str) -> bool:
        owner = value.owner
        return isinstance(owner, Operation) and is_cast(owner) and value not in self.roots[key]


class _Comparison:
    def __init__(
        self,
        before: ModuleOp,
        after: ModuleOp,
        names: tuple[str, str],
        numbered: Collection[str],
    ) -> None:
        self._numbered = numbered
        self._before, self._after = _Side(before, names[0]), _Side(after, names[1])
        self._values = list[ComparedValue]()
        self._pairs = list[tuple[SSAValue, SSAValue]]()
        self._not_compared = list[NotCompared]()

    def functions(self, only_results: bool) -> ComparedFunctions:
        before, after = self._before, self._after
        if not only_results:
            self._add_values(before, after)
        results = (*self._results(),)
        types = before.function.function_type.inputs.data
        one = before.returning([old for old, _ in self._pairs])
        other = after.returning([new for _, new in self._pairs])
        if not only_results:
            one, other = (
                function._replace(left_out=side.recordable[1])
                for function, side in ((one, before), (other, after))
            )
        _take(other.function, types)
        return ComparedFunctions(one, other, (*self._values,), results, (*self._not_compared,))

    def _add_values(self, before: _Side, after: _Side) -> None:
        """Compare the values that have the same key."""
        # Values that cannot be recorded are reported elsewhere.
        left_out = {
            key for side in (before, after) for values in side.recordable[1] for key in values.keys
        }
        known = set[str]()
        for key in before.roots:
            if (there := after.root_of(key)) is not None:
                known.add(there)
                reason = self._add(key, there)
            else:
                reason = None if key in left_out else "only FLOAT has it"
            if reason is not None:
                self._not_compared.append(NotCompared(key, reason))
        for key in after.roots:
            if key not in known and key not in left_out:
                self._not_compared.append(NotCompared(key, "only QUANTIZED has it"))

    def _add(self, key: str, there: str) -> str | None:
        """Compare the values of a key with those of the key `there`, or report why not."""
        olds, news = self._before.roots[key], self._after.roots[there]
        pairs = [*zip(olds, news, strict=False)]
        if len(olds) != len(news):
            return f"{len(olds)} values have it in FLOAT, and {len(news)} in QUANTIZED"
        for old, new in pairs:
            # A number may belong to another value.
            if key in self._numbered and not self._are_made_alike(old, new):
                return (
                    f"it is made by '{_maker_of(old)}' in FLOAT, and by '{_maker_of(new)}' in "
                    "QUANTIZED: run --attach-keys before the module is quantized"
                )
            if (reason := _shape_mismatch(old, new)) is not None:
                return reason
        compared = [(old, reading) for old, new in pairs for reading in _readings_of(new)]
        if not any(reading.is_quantized for _, reading in compared):
            compared = self._moved(key, there) or compared
        storages = dict.fromkeys(reading.storage for _, reading in compared)
        owner = olds[0].owner
        operands = owner.operands if isinstance(owner, Operation) else ()
        inputs = [self._before.keys.get(operand) for operand in operands]
        for storage in storages:
            parts = [
                (old, _as_floats(reading.value))
                for old, reading in compared
                if reading.storage == storage
            ]
            self._pairs += parts
            names = (*dict.fromkeys(filter(None, inputs)),)
            self._values.append(ComparedValue(key, _maker_of(olds[0]), storage, names, len(parts)))
        return None

    def _moved(self, key: str, there: str) -> list[tuple[SSAValue, _Reading]]:
        """The first results of shape ops that are quantized in place of their operand."""
        sides = self._before.members[key], self._after.members[there]
        if len(sides[0]) != len(sides[1]):
            return []
        for old, new in zip(*sides, strict=True):
            readings = [reading for reading in _readings_of(new) if reading.is_quantized]
            is_alike = self._are_made_alike(old, new) and _shape_mismatch(old, new) is None
            if readings and is_alike:
                return [(old, reading) for reading in readings]
        return []

    def _are_made_alike(self, old: SSAValue, new: SSAValue) -> bool:
        """Whether the ops that make both have the same name, or both values are constant."""
        are_constants = old in self._before.constants and new in self._after.constants
        return are_constants or _maker_of(old) == _maker_of(new)

    def _results(self) -> Iterator[ComparedResult]:
        """Compare the results that are floats."""
        olds, news = self._before.results, self._after.results
        if len(olds) != len(news):
            raise ValueError(f"FLOAT returns {len(olds)} values, and QUANTIZED {len(news)}")
        for number, (old, new) in enumerate(zip(olds, news, strict=True)):
            if not is_recordable(old):
                continue
            floats = _as_floats(new)
            reason = f"its type is '{new.type}' in QUANTIZED"
            if is_recordable(floats):
                reason = _shape_mismatch(old, floats)
            if reason is not None:
                self._not_compared.append(NotCompared(f"result {number}", reason))
                continue
            self._pairs.append((old, floats))
            has_classes = bool(shape := shape_of(old.type)) and shape[-1] != 1
            yield ComparedResult(number, self._before.keys.get(old, ""), has_classes)


def _readings_of(value: SSAValue) -> list[_Reading]:
    """The values that the users of a value read: a cast for each type, or the value itself."""
    readings, pending = dict[Attribute, _Reading](), [value]
    while pending:
        read = pending.pop(0)
        # xDSL lists the last use first.
        users = [use.operation for use in read.uses][::-1]
        casts = [op for op in users if is_cast(op)]
        pending += [op.results[0] for op in casts]
        stored = _stored_type(read)
        if stored is not None and len(casts) < len(users):
            readings.setdefault(stored, _Reading(read, _name_of_storage(stored), True))
    return [*readings.values()] or [
        _Reading(value, _name_of_storage(_stored_type(value) or value.type), False)
    ]


def _stored_type(value: SSAValue) -> Attribute | None:
    """The quantized type that a value is cast to, or cast from."""
    if not is_recordable(value):
        return (
            value.type
            if isinstance(element_type_or_self(value.type), UniformQuantizedType)
            else None
        )
    owner = value.owner
    if not isinstance(owner, Operation) or not is_cast(owner):
        return None
    return None if is_recordable(owner.operands[0]) else owner.operands[0].type


def _name_of_storage(type: Attribute) -> str:
    element = element_type_or_self(type)
    if not isinstance(element, UniformQuantizedType):
        return str(element)
    return element.storage_format.name


def _maker_of(value: SSAValue) -> str:
    """The name of the op that makes a value, casts skipped."""
    owner = casts_to(value).origin.owner
    return name_of(owner) if isinstance(owner, Operation) else ARGUMENT


def _shape_mismatch(old: SSAValue, new: SSAValue) -> str | None:
    """Why the types of two values rule out an elementwise comparison; None if they do not."""
    shapes = shape_of(old.type), shape_of(new.type)
    one, other = shapes
    if one is None or other is None:
        return "it has no rank"
    is_same = len(one) == len(other) and all(
        DYNAMIC in lengths or lengths[0] == lengths[1] for lengths in zip(one, other, strict=True)
    )
    return None if is_same else f"its type is '{old.type}' in FLOAT, and '{new.type}' in QUANTIZED"


def _as_floats(value: SSAValue) -> SSAValue:
    """A quantized value, dequantized; any other value itself."""
    element, is_builtin = element_type_or_self(value.type), isinstance(value.type, TensorType)
    if not is_builtin or not isinstance(element, UniformQuantizedType):
        return value
    op = DequantizeCastOp(value, with_element_type(value.type, element.expressed_type))
    insert_after(op, value)
    return op.result


def _take(function: FuncOp, types: Sequence[Attribute]) -> None:
    """
    Change quantized arguments of a function to these float types.

    Raises ValueError if the function has other arguments.
    """
    block = function.body.blocks[0]
    if len(types) != len(block.args):
        raise ValueError(f"FLOAT takes {len(types)} arguments, and QUANTIZED {len(block.args)}")
    for index, type in enumerate(types):
        argument = block.args[index]
        quantized = argument.type
        element = element_type_or_self(quantized)
        if (
            isinstance(element, UniformQuantizedType)
            and element_type_or_self(type) == element.expressed_type
        ):
            cast_op = QuantizeCastOp(block.insert_arg(type, index), quantized)
            Rewriter.insert_op(cast_op, InsertPoint.at_start(block))
            argument.replace_all_uses_with(cast_op.result)
            block.erase_arg(argument)
    outputs = function.function_type.outputs.data
    function.function_type = FunctionType.from_lists([arg.type for arg in block.args], outputs)
