"""
The numbers that ops compute from constants, and element-wise arithmetic with such numbers.

Any ops may compute the former, such as `rsqrt(variance + epsilon)`. The latter is read as one
function: `scale * x + offset`. Numbers of a tensor are an array of its rank, with length 1 along
each axis that they are repeated along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from qdialect.algebra.movement import BroadcastInDim, Movement, Shape
from qdialect.algebra.views import Splat, as_view
from qdialect.check.constant_ops import ConstantOps
from qdialect.folding.arithmetic import stored_numbers
from qdialect.folding.graph import FoldGraph
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.fields import Normalization
from qdialect.ops.interface import (
    Refusal,
    elements_attribute_of,
    find_attribute,
    known_rule,
    model_of,
    op_model,
    read_movements,
)
from qdialect.ops.model import OnNumbers, imported
from qdialect.ops.readers import yielded
from qdialect.ptq.equalization.factors import Moves
from qdialect.support.lazy_numpy import NDArray, np

Numbers: TypeAlias = "NDArray[Any]"


class ComputedConstants(ConstantOps):
    """The numbers of the values of a module that are computed from constants alone."""

    def __init__(self, module: ModuleOp, context: Context, graph: FoldGraph) -> None:
        super().__init__(module, context)
        self._graph = graph
        self._numbers = dict[SSAValue, "Numbers | None"]()

    def numbers(self, value: SSAValue) -> Numbers | None:
        """The numbers of a tensor or of a scalar; None if they are not known."""
        if value not in self._numbers:
            owner = value.owner
            # The lengths of what repeats a number may be known only at run time.
            is_known = owner in self or (isinstance(owner, Operation) and op_model(owner).repeats)
            self._numbers[value] = self._read(value, cast(Operation, owner)) if is_known else None
        return self._numbers[value]

    def _read(self, value: SSAValue, op: Operation) -> Numbers | None:
        ones = [1] * len(shape_of(value.type) or ())
        movements = list[Movement]()
        try:
            if (model := model_of(op)) is not None:
                _, movements, _ = read_movements(op, model, self._graph.operands)
            elif elements_attribute_of(op) is not None and ones:
                values = self._graph.constants.read(op)
                if isinstance(values, Splat) and sum(n > 1 for n in values.shape) > 1:
                    first = np.asarray(values.value).reshape(ones)
                    return stored_numbers(first, element_type_or_self(value.type))
        except Refusal:
            # An op with a body may compute elements, too.
            pass
        if any(isinstance(movement, BroadcastInDim) for movement in movements):
            numbers, shape = self.numbers(op.operands[0]), shape_of(op.operands[0].type)
            if numbers is None or shape is None:
                return None
            return _repeated(movements, numbers, shape)
        if op_model(op).repeats:
            numbers = self.numbers(op.operands[0])
            return None if numbers is None or numbers.size > 1 else numbers.reshape(ones)
        result = self.elements(value)
        return None if result is None else result.numbers.astype("f8")


def _repeated(movements: Sequence[Movement], numbers: Numbers, shape: Shape) -> Numbers | None:
    """Moved numbers, with length 1 along each axis that a broadcast adds."""
    for movement in movements:
        if isinstance(movement, BroadcastInDim):
            lengths = [1] * len(movement.shape)
            for axis, length in zip(movement.dims, numbers.shape, strict=True):
                lengths[axis] = length
            numbers = numbers.transpose(np.argsort(movement.dims)).reshape(lengths)
        elif numbers.shape == shape:
            numbers = as_view(movement.move_values([numbers], None)).array()
        else:
            return Moves([movement], [shape]).moved([numbers])
        shape = movement.result_shape(shape)
    return numbers


class Affine(NamedTuple):
    """`scale * x + offset` of each element x of a tensor, with `Numbers` of it."""

    scale: Numbers
    offset: Numbers

    def after(self, first: Affine) -> Affine:
        """The function that applies `first`, and then this one."""
        return Affine(self.scale * first.scale, self.scale * first.offset + self.offset)

    def each(self, change: Callable[[Numbers], Numbers | None]) -> Affine | None:
        """The function with changed numbers; None if a change is not possible."""
        scale, offset = (change(numbers) for numbers in self)
        return None if scale is None or offset is None else Affine(scale, offset)


_Value: TypeAlias = "Numbers | Affine | None"
"""The numbers of a constant, a function of the variable, or None for anything else."""

_OF_TWO: Final[Mapping[str, Callable[[Affine, Affine], Affine]]] = {
    "add": lambda x, y: Affine(x.scale + y.scale, x.offset + y.offset),
    "sub": lambda x, y: Affine(x.scale - y.scale, x.offset - y.offset),
    "mul": lambda x, y: Affine(x.scale * y.offset + y.scale * x.offset, x.offset * y.offset),
    "div": lambda x, y: Affine(x.scale / y.offset, x.offset / y.offset),
}
"""Functions of two affine functions, one of which is constant: for `div` the second one."""


class AffineReader:
    """Reads element-wise ops with constants."""

    def __init__(self, constants: ComputedConstants) -> None:
        self._constants = constants

    def affine(self, op: Operation, variable: SSAValue) -> Affine | None:
        """
        The function of the elements of an operand at the same position that an op computes.

        None if it is no such function, or other operands are not constant.
        """
        operands = list(op.operands)
        if operands.count(variable) != 1 or len(op.results) != 1:
            return None
        if shape_of(variable.type) is None or shape_of(variable.type) != shape_of(
            op.results[0].type
        ):
            return None
        model = op_model(op)
        with np.errstate(all="ignore"):
            if model.normalization is not None:
                result = self._normalized(op, variable)
            elif model.maps_elements and len(op.regions[0].blocks) == 1:
                result = self._with_body(op, variable)
            elif _function_of(op) not in (*_OF_TWO, "neg"):
                return None
            else:
                result = _applied(op, [self._operand(value, variable) for value in operands])
        return result if isinstance(result, Affine) else None

    def _operand(self, value: SSAValue, variable: SSAValue) -> _Value:
        if value is variable:
            return Affine(np.ones(()), np.zeros(()))
        return self._constants.numbers(value)

    def _normalized(self, op: Operation, variable: SSAValue) -> Affine | None:
        read = op_model(op).normalization
        assert read is not None
        try:
            normal: Normalization = read(op)
        except (AttributeError, Refusal, ValueError):
            # Nothing verifies the ops of unregistered dialects.
            return None
        line = [-1 if at == normal.axis else 1 for at in range(len(shape_of(variable.type) or ()))]
        rows = [self._constants.numbers(row) for row in normal[2:6]]
        if normal.operand is not variable or any(row is None or row.ndim != 1 for row in rows):
            return None
        scale, offset, mean, variance = (cast(Numbers, row).reshape(line) for row in rows)
        factor = scale / np.sqrt(variance + normal.epsilon)
        return Affine(factor, offset - mean * factor)

    def _with_body(self, op: Operation, variable: SSAValue) -> _Value:
        values = [self._operand(value, variable) for value in op.operands[: -len(op.results)]]
        inputs = [
            None if value is None else _along(op, number, value)
            for number, value in enumerate(values)
        ]

        def applied(inner: Operation, operands: Sequence[_Value]) -> _Value:
            if inner in self._constants:
                return self._constants.numbers(inner.results[0])
            return _applied(inner, operands)

        ends = yielded(op.regions[0].block, inputs, applied, self._constants.numbers)
        return ends[0] if len(ends) == 1 else None


def _function_of(op: Operation) -> str:
    """The only function that an op computes, if it has one."""
    rule = known_rule(op)
    return next(iter(rule.functions)) if rule is not None and len(rule.functions) == 1 else ""


def _applied(op: Operation, operands: Sequence[_Value]) -> _Value:
    """The result of an element-wise op."""
    rule, run, function = known_rule(op), op_model(op).run, _function_of(op)
    read = range(len(operands)) if rule is None or rule.operands is None else rule.operands
    values = [operands[number] for number in read if number < len(operands)]
    if any(value is None for value in values):
        return None
    functions = [value for value in values if isinstance(value, Affine)]
    if not functions:
        numbers = cast("Sequence[Numbers]", values)
        return np.asarray(imported(run.function)(*numbers)) if isinstance(run, OnNumbers) else None
    both = [
        v if isinstance(v, Affine) else Affine(np.zeros(()), v) for v in values if v is not None
    ]
    if function == "neg":
        return both[0].each(np.negative)
    if len(both) != 2 or len(functions) > 1 or function not in _OF_TWO:
        return None
    if function == "div" and isinstance(values[1], Affine):
        return None
    return _OF_TWO[function](*both)


def _along(op: Operation, number: int, value: Numbers | Affine) -> _Value:
    """An operand of an op with indexing maps, along the axes of its result."""
    maps = find_attribute(op, "indexing_maps")
    if maps is None:
        return value
    own, result = (cast("ArrayAttr[AffineMapAttr]", maps).data[at].data for at in (number, -1))
    if result != AffineMap.identity(result.num_dims):
        return None
    if isinstance(value, Affine):
        return value if own == result else None
    kept, lengths = list[int](), [1] * result.num_dims
    for length, expression in zip(value.shape, own.results, strict=True):
        if isinstance(expression, AffineDimExpr) and expression.position not in kept:
            kept.append(expression.position)
            lengths[expression.position] = length
        elif not isinstance(expression, AffineConstantExpr) or length != 1:
            return None
    small = value.reshape([lengths[axis] for axis in kept])
    return small.transpose(np.argsort(kept)).reshape(lengths) if kept else small.reshape(lengths)
