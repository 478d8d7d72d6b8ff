"""
Running `linalg.generic` with numpy.

The body is run for all iterations at once. Reducing loops are combined afterwards if the body ends
in a known function of the accumulator; a sum of products of two operands is computed as a matrix
product. Otherwise the iterations of the reducing loops are run one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Block, Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import Shape
from qdialect.check.interpreters.loops import Access, Indices
from qdialect.check.interpreters.memory import temporary_memory
from qdialect.check.interpreters.reference.products import contracted
from qdialect.check.interpreters.reference.reductions import combined_by, combiner_named, reduced
from qdialect.check.interpreters.reference.values import (
    all_numbers,
    is_integer,
    numbers_of,
    range_of,
    rounded,
)
from qdialect.check.interpreters.values import (
    TypedArray,
    at_all_positions,
    dtype_of,
    elements_of_numbers,
)
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.interface import Refusal, name_of
from qdialect.ops.products import layer_of

Arrays = list[NDArray[Any]]


@dataclass(frozen=True)
class GenericRun:
    """A `linalg.generic` with its operands."""

    values: Sequence[TypedArray]
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


def run_generic(op: Operation, run: GenericRun) -> tuple[TypedArray, ...]:
    """The results of a `linalg.generic`. Raises InterpretationError."""
    first = len(run.values) - len(op.results)
    if not run.reducing:
        made = run.body(run.read, run.positions)
    else:
        parallel = {*range(len(run.loops))} - {*run.reducing}
        if any(access.used != parallel for access in run.accesses[first:]):
            raise InterpretationError("its results are not indexed by the parallel loops")
        with np.errstate(all="ignore"):
            made = _reduced(op, run, first)
    results: list[TypedArray] = []
    for elements, access, value, result in zip(
        made, run.accesses[first:], run.values[first:], op.results, strict=True
    ):
        if run.reducing:
            access = access.at_first_of(run.reducing)
            elements = np.expand_dims(elements, tuple(run.reducing))
        written = access.write(elements, value.elements)
        results.append(TypedArray.of(written, result.type))
    return tuple(results)


def _reduced(op: Operation, run: GenericRun, first: int) -> Arrays:
    """The elements of each result; the axes are the parallel loops, in order."""
    initial = [_without(array, run.reducing) for array in run.read[first:]]
    if not math.prod(run.loops):
        return initial
    if _is_sum_of_products(op):
        return [_sum_of_products(run, initial[0])]
    combiners = _combiners(op.regions[0].block, len(op.results))
    if combiners is None:
        return _one_by_one(run, initial)
    return _combined(run, initial, combiners)


def _without(array: NDArray[Any], loops: Sequence[int]) -> NDArray[Any]:
    """The elements at the first iteration of `loops`."""
    at = tuple(0 if of in loops else slice(None) for of in range(array.ndim))
    # Indexing each axis returns a scalar.
    return np.asarray(array[at])


def _is_sum_of_products(op: Operation) -> bool:
    try:
        return layer_of(op) is not None
    except Refusal:
        return False


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
        made = contracted(*sides[0], *sides[1], parallel)
        total = made + numbers_of(TypedArray(initial, type))
        return rounded(total, at_all_positions(type, total.shape)).elements


@dataclass(frozen=True)
class _Combiner:
    """The last step of a body: it combines a computed element with the accumulator."""

    function: Callable[..., NDArray[Any]]
    identity: float | int
    type: Attribute


_IDENTITIES: Final[dict[str, float | int]] = {
    "arith.addf": -0.0,
    "arith.addi": 0,
    "arith.mulf": 1.0,
    "arith.muli": 1,
    "arith.maximumf": -math.inf,
    "arith.minimumf": math.inf,
    "arith.maxnumf": math.nan,
    "arith.minnumf": math.nan,
    "arith.andi": -1,
    "arith.ori": 0,
}
"""The identity of each op."""


def _combiners(block: Block, count: int) -> list[_Combiner] | None:
    """The last steps of a body, one per result; None if the body does not end in such steps."""
    if block.last_op is None or len(block.last_op.operands) != count:
        return None
    found: list[_Combiner] = []
    for value, so_far in zip(block.last_op.operands, block.args[-count:], strict=True):
        step = value.owner
        if (
            not isinstance(step, Operation)
            or step.parent is not block
            or so_far.uses.get_length() != 1
            or [*step.operands].count(so_far) != 1
        ):
            return None
        function, type = combiner_named(name_of(step)), element_type_or_self(so_far.type)
        identity = _identity(name_of(step), type)
        if function is None or identity is None:
            return None
        found.append(_Combiner(function, identity, type))
    return found


def _identity(name: str, type: Attribute) -> float | int | None:
    if name in ("arith.maxsi", "arith.minsi") and is_integer(type):
        return range_of(type)[name == "arith.minsi"]
    return _IDENTITIES.get(name)


_PIECE: Final = 1 << 20
"""The maximum number of iterations to run a body for at once, unless one row has more."""


def _combined(run: GenericRun, initial: Arrays, combiners: Sequence[_Combiner]) -> Arrays:
    """
    The results of a body whose last steps are `combiners`.

    The body is run with identities as accumulators. It then yields the elements that it would
    combine with them.
    """
    first = len(run.values) - len(combiners)
    fresh = [
        np.broadcast_to(elements_of_numbers(np.asarray(of.identity), of.type), run.loops)
        for of in combiners
    ]
    shape = initial[0].shape
    with temporary_memory(8 * math.prod(shape) * len(combiners)):
        made = [np.empty(shape, dtype_of(of.type)) for of in combiners]
        for piece in _pieces(run):
            yielded = run.body(
                [array[piece] for array in (*run.read[:first], *fresh)],
                tuple(axis[piece] for axis in run.positions),
            )
            lengths = np.broadcast_shapes(*(array[piece].shape for array in fresh))
            target = tuple(of for at, of in enumerate(piece) if at not in run.reducing)
            for at, of in enumerate(combiners):
                array = np.broadcast_to(yielded[at], lengths)
                with temporary_memory(8 * array.size):
                    numbers = numbers_of(TypedArray(array, of.type))
                    combine = combined_by(of.function)
                    begin = numbers_of(TypedArray(np.asarray(initial[at][target]), of.type))
                    made[at][target] = elements_of_numbers(
                        combine([begin], reduced(combine, [numbers], run.reducing))[0], of.type
                    )
    return made


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
