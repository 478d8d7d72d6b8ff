"""
Ops whose results depend on the compiler, as functions of their own: kernels.

An interpreter runs a function op by op, and hands over each value when it is there; so a value is
freed as soon as nothing needs it. Sums of products and functions such as exp are left to an engine,
as they take nearly all of the time. It compiles what runs so, and nothing else: equal ops share a
kernel, and weights are arguments. All other ops give the same bits with every engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, Final, NamedTuple, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    UnregisteredOp,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import TransposeOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qdialect.check.interpreters import TypedArray
from qdialect.dialects.arrays.values import held_type, without_repeats
from qdialect.ir.names import symbols_of
from qdialect.ir.rewriting import dependencies_first, read_by, values_in
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of
from qdialect.ops.fields import WINDOW, Contraction
from qdialect.ops.interface import functions_of, is_function_of_elements, known_layer, op_model
from qdialect.ptq.calibration.observed_runs import ObservedRun, is_exact
from qdialect.text.printer import MLIRPrinter

_WIDTHS: Final = (1, 8, 16, 32, 64)
"""The widths of the integers that engines take and return."""


_BARRIER: Final = UnregisteredOp.with_name("util.optimization_barrier")
"""The op of IREE that returns its operands: what is before it is not fused with what is behind."""


class Kernels(NamedTuple):
    """The kernels of a function, and the ops that they compute."""

    module: ModuleOp
    """One public function for each."""
    names: Mapping[Operation, str]
    """The name of the kernel of an op."""


class KernelOps:
    """Finds the ops of a function that have kernels, and their operands."""

    def __init__(self, run: ObservedRun) -> None:
        self._run = run
        self._inner = frozenset[Operation]()
        pending = [*self._computed()]
        computed, inner = {*pending}, set[Operation]()
        while pending:
            for value in pending.pop().operands:
                op = value.owner
                if isinstance(op, Operation) and op not in computed and self._is_inner(op):
                    users = run.users_of(value)
                    if value in run.constants or all(
                        user in computed and user.parent is op.parent for user in users
                    ):
                        inner.add(op)
                        computed.add(op)
                        pending.append(op)
        self._inner = frozenset(inner)
        """What nothing but kernels reads, and takes less time there than its result to be read."""

    def _is_inner(self, op: Operation) -> bool:
        """Whether an op moves a value into a larger one, or is a function of what is not known."""
        if len(op.results) != 1 or not op.operands:
            return False
        (result,) = op.results
        is_constant = result in self._run.constants
        if not is_constant:
            if self._run.is_observed(result):
                return False
            if is_function_of_elements(op):
                return True
        elif self._splat(result) is not None:
            return False
        shapes = [shape_of(end.type) for end in (op.operands[0], result)]
        if op_model(op).movement is None or not all(map(is_static, shapes)):
            return False
        before, after = (math.prod(shape or ()) for shape in shapes)
        return before < after and all(map(_is_passed, op.operands[:1]))

    def _computed(self) -> Iterator[Operation]:
        """The ops to compute by kernels, also those in control flow and in called functions."""
        symbols, reached = symbols_of(self._run.module), {self._run.function}
        pending = [*self._run.function.body.blocks]
        while pending:
            for op in pending.pop().ops:
                if isinstance(op, CallOp):
                    called = symbols.get(op.callee.string_value())
                    if isinstance(called, FuncOp) and called not in reached:
                        reached.add(called)
                        pending += called.body.blocks
                elif self._run.controls(op):
                    pending += (block for region in op.regions for block in region.blocks)
                elif self._is_computed(op):
                    yield op

    def _is_computed(self, op: Operation) -> bool:
        """Whether an engine computes an op."""
        is_known = any(result in self._run.constants for result in op.results)
        if is_known or not op.results or not all(map(_is_passed, op.results)):
            return False
        makers = [value.owner for value in op.operands if not _is_passed(value)]
        if not all(
            self._run.runs(maker) for maker in (op, *makers) if isinstance(maker, Operation)
        ):
            return True
        return not is_exact(op) and all(map(_is_passed, self.inputs_of(op)))

    def inputs_of(self, op: Operation) -> Sequence[SSAValue]:
        """
        The arguments of the kernel of an op: what it reads, but for splats.

        What no engine can pass is computed by the kernel, too.
        """
        return [value for value in self._read_by(op) if self._splat(value) is None]

    def ops_of(self, op: Operation) -> Sequence[Operation]:
        """
        The ops of the kernel of an op, in order.

        Those before it make what cannot be passed, and what has no elements yet.
        """

        def before(op: Operation) -> Iterator[Operation]:
            for value in read_by(op):
                owner = value.owner
                if isinstance(owner, Operation) and (
                    not _is_passed(value) or op_model(owner).is_undefined or owner in self._inner
                ):
                    yield owner

        return [*dependencies_first([op], before)]

    def inner_ops_of(self, op: Operation) -> Sequence[Operation]:
        """Those of them that nothing else computes."""
        return [
            inner
            for inner in self.ops_of(op)
            if inner in self._inner or not all(map(_is_passed, inner.results))
        ]

    def is_only_read(self, op: Operation, value: SSAValue) -> bool:
        """Whether a kernel cannot write its results to the memory of an input."""
        layer = known_layer(op)
        factors = (
            [op.operands[at] for at in layer.operands] if isinstance(layer, Contraction) else []
        )
        return [*op.operands].count(value) == factors.count(value) and all(
            inner is op or inner in self._inner or value not in inner.operands
            for inner in self.ops_of(op)
        )

    def _read_by(self, op: Operation) -> Sequence[SSAValue]:
        ops = self.ops_of(op)
        results = {value for op in ops for value in op.results}
        read = (value for op in ops for value in read_by(op))
        return [*dict.fromkeys(value for value in read if value not in results)]

    def _splat(self, value: SSAValue) -> TypedArray | None:
        """What is known and has the same elements everywhere, which share memory."""
        known = self._run.constants.get(value)
        if known is None or not known.elements.size:
            return None
        is_plain = isinstance(held_type(known.element_type), AnyFloat | IntegerType)
        return known if is_plain and without_repeats(known.elements).size == 1 else None

    def order_of(self, op: Operation, value: SSAValue) -> Sequence[int]:
        """
        The order in which the kernel of an op takes the axes of an input.

        IREE computes images with channels last, if the op has them so or names its axes. It takes
        up to 70 times longer if the weights of neighbouring channels are not neighbours. So
        windows are first, and the channels of the result last.
        """
        order = [*range(len(shape_of(value.type) or ()))]
        layer = known_layer(op) if value in self._run.constants else None
        if not isinstance(layer, Contraction) or WINDOW not in layer.lhs:
            return order
        channels = [label for label in layer.result if label in layer.rhs]
        is_last = layer.is_in_any_order or channels[-1:] == [layer.result[-1]]
        if op.operands[layer.operands[1]] is not value or not channels or not is_last:
            return order
        keys = [(label == channels[-1], label in layer.lhs) for label in layer.rhs]
        return sorted(order, key=keys.__getitem__)

    def kernels(self) -> Kernels:
        """The kernels of the ops of a function: equal ops have one."""
        names, functions = dict[Operation, str](), dict[str, FuncOp]()
        for op in self._computed():
            kernel = self._kernel(op)
            text = _text_of(kernel)
            if text not in functions:
                functions[text] = kernel
                kernel.sym_name = kernel.sym_name.__class__(f"kernel_{len(functions)}")
            names[op] = functions[text].sym_name.data
        return Kernels(ModuleOp([*functions.values()]), names)

    def _kernel(self, op: Operation) -> FuncOp:
        inputs = self.inputs_of(op)
        orders = [self.order_of(op, value) for value in inputs]
        pairs = [*zip(inputs, orders, strict=True)]
        types = [transposed_type(value.type, order) for value, order in pairs]
        block = Block(arg_types=types)
        copies = dict[SSAValue, SSAValue](zip(inputs, block.args, strict=True))
        for value, order in pairs:
            if order != sorted(order):
                block.add_op(empty := tensor.EmptyOp((), cast("TensorType[Any]", value.type)))
                back = DenseArrayBase.from_list(i64, [*map(order.index, sorted(order))])
                block.add_op(moved := TransposeOp(copies[value], empty.tensor, back))
                copies[value] = moved.res[0]
        for value in self._read_by(op):
            if (splat := self._splat(value)) is not None:
                block.add_op(constant := _constant(splat))
                copies[value] = constant.result
        ops = self.ops_of(op)
        summed = {
            value
            for inner in ops
            if inner is not op and "mul" not in functions_of(inner)
            for value in inner.operands
        }
        for inner in ops:
            block.add_op(copy := inner.clone(copies))
            if "mul" in functions_of(inner) and summed.intersection(inner.results):
                # Compilers fuse a product and a sum, which is rounded once then.
                ends = copy.result_types
                barrier = _BARRIER.create(operands=copy.results, result_types=ends)
                block.add_op(barrier)
                copies[inner.results[0]] = barrier.results[0]
            # Keys and other notes do not change what is computed.
            for name in [name for name in copy.attributes if "." in name]:
                del copy.attributes[name]
        block.add_op(ReturnOp(*(copies[result] for result in op.results)))
        results = [value.type for value in op.results]
        kernel = FuncOp("kernel", (types, results), Region(block))
        for value in values_in(kernel):
            value.name_hint = None
        return kernel


def transposed_type(type: Attribute, order: Sequence[int]) -> Attribute:
    """The type of a value whose axes are taken in an order."""
    shape = shape_of(type)
    if shape is None or [*order] == sorted(order):
        return type
    return TensorType(element_type_or_self(type), [shape[axis] for axis in order])


def _text_of(op: Operation) -> str:
    stream = StringIO()
    MLIRPrinter(stream, print_generic_format=True).print_op(op)
    return stream.getvalue()


def _constant(splat: TypedArray) -> arith.ConstantOp:
    first = splat.elements[(slice(1),) * splat.elements.ndim].reshape(-1)
    one = TypedArray.of(first, TensorType(splat.element_type, [1])).numbers[0].item()
    if isinstance(splat.type, TensorType):
        type = cast("TensorType[Any]", splat.type)
        return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type, [one]))
    if isinstance(splat.type, AnyFloat):
        return arith.ConstantOp(FloatAttr(one, splat.type))
    return arith.ConstantOp(IntegerAttr(one, cast("IntegerType", splat.type)))


def _is_passed(value: SSAValue) -> bool:
    """Whether engines take and return values of this type."""
    element: Attribute = element_type_or_self(value.type)
    is_known = isinstance(element, AnyFloat | IndexType) or (
        isinstance(element, IntegerType) and element.bitwidth in _WIDTHS
    )
    return is_known and (element is value.type or isinstance(value.type, TensorType))
