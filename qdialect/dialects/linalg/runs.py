"""
Functions that compute ops of linalg on arrays.

Named ops write to their last operand, whose elements are the initial values of sums. The body of
`linalg.generic` is run for all iterations at once. Reducing loops are combined afterwards if the
body ends in a known function of the accumulator; a sum of products of two operands is computed as a
matrix product. Otherwise the iterations of the reducing loops are run one by one.
https://mlir.llvm.org/docs/Dialects/Linalg/.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, TensorType
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import Shape
from qdialect.algebra.parameters import Granularity
from qdialect.dialects.arrays.elements import (
    Function,
    all_numbers,
    applied,
    function_on_arrays,
    functions_of,
    numbers_of,
    rounded,
)
from qdialect.dialects.arrays.movements import run_shape_op
from qdialect.dialects.arrays.places import Indices, within
from qdialect.dialects.arrays.reductions import (
    Arrays,
    Combination,
    Combine,
    Combiner,
    combiner_of,
    contracted,
    pooled,
    read_reduction,
    reduce_by_region,
    reduced,
)
from qdialect.dialects.arrays.values import (
    TypedArray,
    TypedArrays,
    allocated,
    at_all_positions,
    dtype_of,
    elements_of_numbers,
    require_possible,
    temporary_memory,
    value_of,
)
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.ir.value_types import is_static, shape_of
from qdialect.ops.fields import ShapeOpModel
from qdialect.ops.interface import (
    attribute_of,
    find_attribute,
    integer_of,
    integers_of,
    known_layer,
    model_of,
    name_of,
    op_model,
)
from qdialect.ops.model import OnElements, model_named
from qdialect.ops.readers import last_step


class Access:
    """The mapping from the loops of `linalg.generic` to the elements of an operand."""

    def __init__(self, map: AffineMap, grid: Indices, loops: Shape) -> None:
        self._map, self._grid, self._loops = map, grid, loops
        results = map.results
        self.dims = [
            expression.position for expression in results if isinstance(expression, AffineDimExpr)
        ]
        """The loops that index an axis alone."""
        self.is_plain = len(set(self.dims)) == len(results)
        """Whether the map is a projected permutation: each axis of the operand is another loop."""
        self.used = map.used_dims()
        """The loops that the read element depends on."""

    def read(self, elements: NDArray[Any]) -> NDArray[Any]:
        """The element that each iteration reads: an array of the shape of the loops."""
        if self.is_plain:
            if elements.shape == self._loops and self.dims == sorted(self.dims):
                return elements
            order = sorted(range(len(self.dims)), key=self.dims.__getitem__)
            lengths = [n if at in self.dims else 1 for at, n in enumerate(self._loops)]
            return np.broadcast_to(elements.transpose(order).reshape(lengths), self._loops)
        if (view := self._view(elements)) is not None:
            return view
        with temporary_memory(self._size_of_positions):
            at = self._positions(elements.shape)
            nbytes = math.prod(self._loops) * elements.dtype.itemsize
            return allocated(lambda: np.asarray(elements[at]), nbytes)

    def at_first_of(self, loops: Sequence[int]) -> Access:
        """The same mapping from the first iteration of `loops` alone."""
        return Access(
            self._map,
            tuple(
                axis.take([0], at) if at in loops else axis for at, axis in enumerate(self._grid)
            ),
            tuple(1 if at in loops else length for at, length in enumerate(self._loops)),
        )

    def write(self, elements: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
        """`target` with the elements that the iterations have computed."""
        elements = np.broadcast_to(elements, self._loops)
        others = [at for at in range(len(self._loops)) if at not in self.dims]
        if self.is_plain and all(self._loops[at] == 1 for at in others):
            return elements.transpose([*others, *self.dims])[(0,) * len(others)]
        written = allocated(target.copy, target.nbytes)
        with temporary_memory(self._size_of_positions):
            written[self._positions(target.shape)] = elements
        return written

    def _view(self, elements: NDArray[Any]) -> NDArray[Any] | None:
        """The elements without a copy, if each index is a sum of multiples of loops."""
        if 0 in self._loops or not all(map(_is_sum_of_multiples, self._map.results)):
            return None
        origin, *units = np.eye(len(self._loops) + 1, len(self._loops), -1, int).tolist()
        strides = [0] * len(self._loops)
        starts: list[slice] = []
        for axis, expression in enumerate(self._map.results):
            first = expression.eval(origin, ())
            steps = [expression.eval(unit, ()) - first for unit in units]
            reaches = [by * (n - 1) for by, n in zip(steps, self._loops, strict=True)]
            low = first + sum(min(reach, 0) for reach in reaches)
            high = first + sum(max(reach, 0) for reach in reaches)
            if low < 0 or high >= elements.shape[axis]:
                raise InterpretationError(
                    f"an index is out of range for an axis of length {elements.shape[axis]}"
                )
            starts.append(slice(first, None))
            for loop, by in enumerate(steps):
                strides[loop] += by * elements.strides[axis]
        return as_strided(elements[tuple(starts)], self._loops, strides, writeable=False)

    @property
    def _size_of_positions(self) -> int:
        """The bytes of the index arrays and of their temporary arrays."""
        return math.prod(self._loops) * 8 * (len(self._map.results) + 2)

    def _positions(self, shape: Shape) -> Indices:
        indices = tuple(
            np.broadcast_to(np.asarray(expression.eval(cast(Any, self._grid), ())), self._loops)
            for expression in self._map.results
        )
        return within(indices, shape)


def _is_sum_of_multiples(expression: AffineExpr) -> bool:
    """Whether an index is a sum of multiples of loops."""
    match expression:
        case AffineBinaryOpExpr(AffineBinaryOpKind.Add, one, other):
            return _is_sum_of_multiples(one) and _is_sum_of_multiples(other)
        case AffineBinaryOpExpr(AffineBinaryOpKind.Mul, one, other):
            is_multiple = not (one.used_dims() and other.used_dims())
            return is_multiple and _is_sum_of_multiples(one) and _is_sum_of_multiples(other)
        case _:
            return isinstance(expression, AffineConstantExpr | AffineDimExpr)


def lengths_of_loops(maps: Sequence[AffineMap], shapes: Sequence[Shape]) -> Shape:
    """
    The trip count of each loop, from the shapes of the operands indexed by it. Raises
    InterpretationError.
    """
    lengths: dict[int, int] = {}
    for map, shape in zip(maps, shapes, strict=True):
        for expression, length in zip(map.results, shape, strict=True):
            if not isinstance(expression, AffineDimExpr):
                continue
            if lengths.setdefault(expression.position, length) != length:
                raise InterpretationError("the shapes of its operands do not match")
    count = maps[0].num_dims
    if set(range(count)) - lengths.keys():
        raise InterpretationError("the length of a loop cannot be determined")
    return tuple(lengths[loop] for loop in range(count))


def _accesses(maps: Sequence[AffineMap], loops: Shape) -> tuple[Indices, list[Access]]:
    """The positions of each loop, and what the maps of operands read there."""
    grid = tuple(np.indices(loops, sparse=True))
    return grid, [Access(map, grid, loops) for map in maps]


@dataclass(frozen=True)
class GenericRun:
    """A `linalg.generic` with its operands."""

    values: TypedArrays
    accesses: Sequence[Access]

    read: Arrays
    """The element of each operand that an iteration reads."""

    positions: Indices
    """The index of each iteration, per loop."""

    reducing: Sequence[int]
    """The loops that are not parallel."""

    body: Callable[[Sequence[NDArray[Any]], Indices], Arrays]
    """Runs the body for the elements at positions."""

    @property
    def loops(self) -> Shape:
        """The trip count of each loop."""
        return self.read[0].shape


_POSITIONS: Final[ContextVar[Indices]] = ContextVar("qdialect_positions")
"""The positions for which the innermost body is run."""


def generic(interpreter: Interpreter, op: GenericOp, operands: TypedArrays) -> TypedArrays:
    if any(_reads_several_slots(value.element_type) for value in operands):
        # Elements in loop order have no quantized type, as that names axes of the operand.
        return [run_shape_op(interpreter, op, cast(ShapeOpModel, model_of(op)), operands)]
    maps = [map.data for map in op.indexing_maps.data]
    loops = lengths_of_loops(maps, [value.shape for value in operands])
    require_possible(loops)
    grid, accesses = _accesses(maps, loops)
    run = GenericRun(
        operands,
        accesses,
        [access.read(value.elements) for value, access in zip(operands, accesses, strict=True)],
        tuple(np.broadcast_to(axis, loops) for axis in grid),
        [at for at, kind in enumerate(op.iterator_types) if kind.data is not IteratorType.PARALLEL],
        partial(_run_body, interpreter, op),
    )
    return _results(op, run)


def generic_on_arrays(op: GenericOp) -> Function | None:
    """
    The function of the operands, and of the values that the body reads from outside, in order.

    None if loops reduce, if a shape is dynamic, or if an op of the body has no such function.
    """
    maps = [map.data for map in op.indexing_maps.data]
    shapes = [shape_of(value.type) for value in op.operands]
    if len(op.results) != 1 or not all(map(is_static, shapes)):
        return None
    if any(kind.data is not IteratorType.PARALLEL for kind in op.iterator_types):
        return None
    loops = lengths_of_loops(maps, cast("Sequence[Shape]", shapes))
    _, accesses = _accesses(maps, loops)
    block = op.body.block
    inside = {*block.args, *(result for inner in block.ops for result in inner.results)}
    read = dict.fromkeys(value for inner in block.ops for value in inner.operands)
    known = [*block.args, *(value for value in read if value not in inside)]
    places: dict[SSAValue, int] = {value: place for place, value in enumerate(known)}
    steps: list[tuple[Function, list[int]]] = []
    for inner in block.ops:
        if op_model(inner).yields:
            break
        function = function_on_arrays(inner)
        if function is None or len(inner.results) != 1:
            return None
        steps.append((function, [places[value] for value in inner.operands]))
        places[inner.results[0]] = len(places)
    assert block.last_op is not None
    result, written, count = places[block.last_op.operands[0]], accesses[-1], len(accesses)
    if not written.is_plain or len(written.dims) != len(loops):
        return None

    def compute(*arrays: NDArray[Any]) -> NDArray[Any]:
        values = [access.read(array) for access, array in zip(accesses, arrays, strict=False)]
        values += arrays[count:]
        for function, at in steps:
            values.append(function(*[values[place] for place in at]))
        return written.write(values[result], arrays[count - 1])

    return compute


def _reads_several_slots(element: Attribute) -> bool:
    """Whether elements of this type may have different slots."""
    is_uniform = isinstance(element, UniformQuantizedType)
    return is_uniform and element.granularity is not Granularity.PER_TENSOR


def _run_body(
    interpreter: Interpreter, op: GenericOp, arrays: Sequence[NDArray[Any]], at: Indices
) -> Arrays:
    """The elements that the body yields for those of `arrays`, at the positions `at`."""
    arguments = op.body.block.args
    given = [
        TypedArray.of(array, at_all_positions(argument.type, array.shape))
        for array, argument in zip(arrays, arguments, strict=True)
    ]
    token = _POSITIONS.set(at)
    try:
        yielded = interpreter.run_ssacfg_region(op.body, tuple(given), op.name)
    finally:
        _POSITIONS.reset(token)
    types = [argument.type for argument in arguments[len(arguments) - len(yielded) :]]
    return [value_of(value, type).elements for value, type in zip(yielded, types, strict=True)]


def index(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    indices = _POSITIONS.get()[integer_of(op, "dim")]
    return [TypedArray.of(indices, at_all_positions(op.results[0].type, indices.shape))]


def fill(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    element, *_others, target = operands
    return [
        TypedArray.of(np.broadcast_to(element.elements, target.shape), result.type)
        for result in op.results
    ]


def _results(op: Operation, run: GenericRun) -> TypedArrays:
    first = len(run.values) - len(op.results)
    if not run.reducing:
        computed = run.body(run.read, run.positions)
    else:
        parallel = {*range(len(run.loops))} - {*run.reducing}
        if any(access.used != parallel for access in run.accesses[first:]):
            raise InterpretationError("its results are not indexed by the parallel loops")
        with np.errstate(all="ignore"):
            computed = _reduced(op, run, first)
    results: list[TypedArray] = []
    for elements, access, value, result in zip(
        computed, run.accesses[first:], run.values[first:], op.results, strict=True
    ):
        if run.reducing:
            access = access.at_first_of(run.reducing)
            elements = np.expand_dims(elements, tuple(run.reducing))
        written = access.write(elements, value.elements)
        results.append(TypedArray.of(written, result.type))
    return results


def _reduced(op: Operation, run: GenericRun, first: int) -> Arrays:
    """The elements of each result; the axes are the parallel loops, in order."""
    initial = [_without(array, run.reducing) for array in run.read[first:]]
    if not math.prod(run.loops):
        return initial
    if known_layer(op) is not None:
        return [_sum_of_products(run, initial[0])]
    combiners = _combiners(op.regions[0].block, len(op.results))
    if combiners is None:
        return _one_by_one(run, initial)
    return _combined(run, initial, combiners)


def _without(array: NDArray[Any], loops: Sequence[int]) -> NDArray[Any]:
    """The elements at the first iteration of `loops`."""
    at = tuple(0 if axis in loops else slice(None) for axis in range(array.ndim))
    # Indexing each axis returns a scalar.
    return np.asarray(array[at])


def _sum_of_products(run: GenericRun, initial: NDArray[Any]) -> NDArray[Any]:
    type = run.values[2].element_type
    sides: list[tuple[NDArray[Any], list[str]]] = []
    with all_numbers(*run.values) as numbers:
        for number, access in zip(numbers[:2], run.accesses, strict=False):
            view = access.read(number)
            # Loops that do not index an operand are axes of the other one alone.
            used = sorted(access.used)
            others = [at for at in range(view.ndim) if at not in used]
            sides.append((_without(view, others), list(map(str, used))))
        parallel = [str(at) for at in range(len(run.loops)) if at not in run.reducing]
        products = contracted(*sides[0], *sides[1], parallel)
        total = products + numbers_of(TypedArray(initial, type))
        return rounded(total, at_all_positions(type, total.shape)).elements


def _combiners(block: Block, count: int) -> list[Combiner] | None:
    """The last steps of a body, one per result; None if the body does not end in such steps."""
    if block.last_op is None or len(block.last_op.operands) != count:
        return None
    if any(not so_far.has_one_use() for so_far in block.args[-count:]):
        return None
    steps = [last_step(block, number) for number in range(count)]
    combiners = [step and combiner_of(step) for step in steps]
    known = [combiner for combiner in combiners if combiner is not None]
    return known if len(known) == count else None


_PIECE: Final = 1 << 20
"""The maximum number of iterations to run a body for at once, unless one row has more."""


def _combined(run: GenericRun, initial: Arrays, combiners: Sequence[Combiner]) -> Arrays:
    """
    The results of a body whose last steps are `combiners`.

    The body is run with identities as accumulators. It then yields the elements that it would
    combine with them.
    """
    first = len(run.values) - len(combiners)
    types = [value.element_type for value in run.values[first:]]
    fresh = [
        np.broadcast_to(combiner.identity_of(type), run.loops)
        for combiner, type in zip(combiners, types, strict=True)
    ]
    shape = initial[0].shape
    with temporary_memory(8 * math.prod(shape) * len(combiners)):
        totals = [np.empty(shape, dtype_of(type)) for type in types]
        for piece in _pieces(run):
            yielded = run.body(
                [array[piece] for array in (*run.read[:first], *fresh)],
                tuple(axis[piece] for axis in run.positions),
            )
            lengths = np.broadcast_shapes(*(array[piece].shape for array in fresh))
            target = tuple(part for at, part in enumerate(piece) if at not in run.reducing)
            for at, (combiner, type) in enumerate(zip(combiners, types, strict=True)):
                array = np.broadcast_to(yielded[at], lengths)
                with temporary_memory(8 * array.size):
                    numbers = combiner.read(TypedArray(array, type))
                    combine = Combination(combiner.function)
                    begin = combiner.read(TypedArray(np.asarray(initial[at][target]), type))
                    totals[at][target] = elements_of_numbers(
                        combine([begin], reduced(combine, [numbers], run.reducing))[0], type
                    )
    return totals


def _pieces(run: GenericRun) -> Iterator[tuple[slice, ...]]:
    """Slices of all loops, which split the longest parallel one."""
    whole = [slice(0, length) for length in run.loops]
    parallel = [at for at in range(len(whole)) if at not in run.reducing]
    if not parallel:
        yield tuple(whole)
        return
    cut = max(parallel, key=run.loops.__getitem__)
    step = max(_PIECE // (math.prod(run.loops) // run.loops[cut]), 1)
    for start in range(0, run.loops[cut], step):
        whole[cut] = slice(start, min(start + step, run.loops[cut]))
        yield tuple(whole)


def _one_by_one(run: GenericRun, initial: Arrays) -> Arrays:
    """The results of any body, by running it for one iteration of the reducing loops at a time."""
    first = len(run.values) - len(initial)
    so_far = initial
    for index in np.ndindex(*(run.loops[at] for at in run.reducing)):
        numbers = dict(zip(run.reducing, index, strict=True))
        at = tuple(numbers.get(loop, slice(None)) for loop in range(len(run.loops)))
        given = [*(array[at] for array in run.read[:first]), *so_far]
        yielded = run.body(given, tuple(axis[at] for axis in run.positions))
        so_far = [
            np.broadcast_to(array, old.shape) for array, old in zip(yielded, so_far, strict=True)
        ]
    return so_far


_KINDS: Final = {"max_signed": "max", "min_signed": "min"}
"""The ops that compute the kinds of `linalg.elementwise` of another name."""


def elementwise(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    kind = re.search(r"<(\w+)>", str(attribute_of(op, "kind")))
    name = "" if kind is None else _KINDS.get(kind[1], kind[1])
    run = model_named(f"linalg.{name}").run
    if not isinstance(run, OnElements):
        raise InterpretationError("its kind is not supported")
    *inputs, target = operands
    maps = find_attribute(op, "indexing_maps")
    if isinstance(maps, ArrayAttr):
        loops = target.shape
        listed = [map.data for map in cast("ArrayAttr[AffineMapAttr]", maps)]
        *read, written = _accesses(listed, loops)[1]
        if [*written.dims] != [*range(len(loops))]:
            raise InterpretationError("its result is not written in the order of its axes")
        inputs = [
            TypedArray(access.read(value.elements), TensorType(value.element_type, loops))
            for access, value in zip(read, inputs, strict=True)
        ]
    if any(value.shape != target.shape for value in inputs):
        raise InterpretationError("its operands differ in shape")
    return [applied(functions_of(run), inputs, op.results[0].type)]


def pool(_: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    image, window, initial = operands
    combine, windows = read_reduction(op)
    # The type of the window may leave its lengths open.
    sized = {
        axis: replace(windows[axis], size=size)
        for axis, size in zip(windows, window.shape, strict=True)
    }
    with all_numbers(image, initial) as (numbers, start):
        (pools,) = pooled(combine, [numbers], [start], sized)
        return [rounded(pools, op.results[0].type)]


def reduce(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    count = len(operands) // 2
    values, initial = operands[:count], operands[count:]
    axes = integers_of(op, "dimensions")
    shape = values[0].shape
    kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
    if any(value.shape != shape for value in values) or any(
        start.shape != kept for start in initial
    ):
        raise InterpretationError("the shapes of its operands do not match")
    if not all(shape[axis] for axis in axes):
        return initial

    def reduce_axes(combine: Combine, arrays: Arrays, _: Arrays) -> Arrays:
        return reduced(combine, arrays, axes)

    return reduce_by_region(interpreter, op, values, initial, reduce_axes, is_started=False)


def map_elements(interpreter: Interpreter, op: Operation, operands: TypedArrays) -> TypedArrays:
    (region,) = op.regions
    shape = operands[-1].shape
    given: list[Any] = []
    for operand, argument in zip(operands, region.block.args, strict=False):
        if operand.shape != shape:
            raise InterpretationError("its operands differ in shape")
        given.append(TypedArray.of(operand.elements, at_all_positions(argument.type, shape)))
    (yielded,) = interpreter.run_ssacfg_region(region, tuple(given), name_of(op))
    elements = value_of(yielded, TensorType(operands[-1].element_type, ())).elements
    return [TypedArray.of(np.broadcast_to(elements, shape), op.results[0].type)]
