"""Evaluating functions: ops with regions, and dispatching all other ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from evaluator.arithmetic import CASTS, CONSTANTS, attribute_of_constant, cast, computed, constant
from evaluator.of_others import OF_OTHERS
from evaluator.shape_ops import SHAPE_OPS, held, padded, result_of
from evaluator.values import EvaluationError, Value, attributes_of, element_of, name_of, shape_of

Values = dict[SSAValue, Value]
Blob = Callable[[str], str | None]


def evaluate(
    module: ModuleOp, name: str, arguments: Sequence[Value], blob: Blob
) -> tuple[Value, ...]:
    """
    The results of a function of a module; `blob` returns the text of a resource by key.

    The arguments are reinterpreted by their bits. Raises EvaluationError.
    """
    return _Run(module, blob).call(name, arguments)


@dataclass
class _Run:
    module: ModuleOp
    blob: Blob
    loops: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    """A stack of the loop positions of enclosing `linalg.generic` ops, innermost last."""

    def call(self, name: str, arguments: Sequence[Value]) -> tuple[Value, ...]:
        for op in self.module.ops:
            if name_of(op) == "func.func" and str(op.properties["sym_name"]) == f'"{name}"':
                return self.block(op.regions[0].blocks[0], arguments, {})
        raise EvaluationError(f"there is no function '{name}'")

    def block(self, block: Block, arguments: Sequence[Value], outer: Values) -> tuple[Value, ...]:
        """Run a block, and return the operands of its terminator."""
        values = dict(outer)
        for argument, value in zip(block.args, arguments, strict=True):
            values[argument] = Value(element_of(argument.type), value.bits, value.known)
        for op in block.ops:
            if not op.results and op.next_op is None:
                return tuple(values[operand] for operand in op.operands)
            made = self.run(op, [values[operand] for operand in op.operands], values)
            values.update(zip(op.results, made, strict=True))
        raise EvaluationError("a block has no terminator")

    def run(self, op: Operation, operands: Sequence[Value], values: Values) -> Sequence[Value]:
        name = name_of(op)
        if name in CONSTANTS:
            return [constant(op, attribute_of_constant(op, name), self.blob)]
        if name in CASTS:
            return [cast(op, operands[0])]
        if (run := SHAPE_OPS.get(name)) is not None:
            return [run(op, operands)]
        if (run_other := OF_OTHERS.get(name)) is not None:
            return [run_other(op, operands)]
        if (run_own := getattr(self, name.replace(".", "_"), None)) is not None:
            return run_own(op, operands, values)
        if (result := computed(op, operands)) is not None:
            return [result]
        raise EvaluationError(f"'{name}' is not known here")

    def func_call(self, op: Operation, operands: Sequence[Value], values: Values) -> Any:
        return self.call(str(attributes_of(op)["callee"]).removeprefix("@").strip('"'), operands)

    def scf_if(self, op: Operation, operands: Sequence[Value], values: Values) -> Any:
        return self.block(op.regions[0 if operands[0].bits.item() else 1].block, (), values)

    def tensor_empty(self, op: Operation, operands: Sequence[Value], values: Values) -> Any:
        shape, element = result_of(op)
        return [Value.of(element, np.zeros(shape, dtype=np.uint64), np.zeros(shape, dtype=bool))]

    def tensor_splat(self, op: Operation, operands: Sequence[Value], values: Values) -> Any:
        shape, element = result_of(op)
        return [operands[0].moved(lambda of: np.broadcast_to(of, shape), element)]

    def tensor_from_elements(self, op: Operation, operands: Sequence[Value], values: Values) -> Any:
        shape, element = result_of(op)
        bits = np.array([operand.bits for operand in operands]).reshape(shape)
        return [Value.of(element, bits, np.array([o.known for o in operands]).reshape(shape))]

    def tensor_dim(self, op: Operation, operands: Sequence[Value], values: Values) -> Any:
        return [Value.of_numbers("index", operands[0].shape[int(operands[1].codes)])]

    def tensor_extract(self, op: Operation, operands: Sequence[Value], values: Values) -> Any:
        value, *indices = operands
        at = tuple(index.codes for index in indices)
        return [value.moved(lambda of: of[at], result_of(op)[1])]

    def tensor_pad(self, op: Operation, operands: Sequence[Value], values: Values) -> Any:
        (value,) = operands
        block = op.regions[0].block
        index = Value.of("index", 0, False)
        (padding,) = self.block(block, [index] * len(block.args), values)
        low, high = held(op, "static_low"), held(op, "static_high")
        return [padded(op, value, low, high, [0] * len(low), padding)]

    def linalg_fill(self, op: Operation, operands: Sequence[Value], values: Values) -> Any:
        return self.tensor_splat(op, operands, values)

    def linalg_generic(self, op: Operation, operands: Sequence[Value], values: Values) -> Any:
        """Run all iterations of parallel loops at once."""
        kinds = str(attributes_of(op)["iterator_types"])
        if "reduction" in kinds or "window" in kinds:
            raise EvaluationError("only parallel loops are known here")
        held_maps: Any = attributes_of(op)["indexing_maps"]
        maps = [each.data for each in held_maps.data]
        lengths: dict[int, int] = {}
        for map, operand in zip(maps, operands, strict=True):
            for of, length in zip(map.results, operand.shape, strict=True):
                if hasattr(of, "position"):
                    lengths[of.position] = length
        grid = np.indices([lengths[loop] for loop in range(maps[0].num_dims)])
        loops = tuple(grid)
        shape = grid.shape[1:]

        def positions(map: Any) -> tuple[Any, ...]:
            of_axes = (of.eval(loops, ()) for of in map.results)
            return tuple(np.broadcast_to(np.asarray(at), shape) for at in of_axes)

        block = op.regions[0].block
        read: list[Value] = []
        for operand, map, argument in zip(operands, maps, block.args, strict=True):
            at = positions(map)
            read.append(Value(element_of(argument.type), operand.bits[at], operand.known[at]))
        self.loops.append(loops)
        yielded = self.block(block, read, values)
        self.loops.pop()
        results: list[Value] = []
        first = len(operands) - len(op.results)
        for number, (value, result) in enumerate(zip(yielded, op.results, strict=True)):
            to = operands[first + number]
            bits, known = to.bits.copy(), to.known.copy()
            at = positions(maps[first + number])
            bits[at] = np.broadcast_to(value.bits, shape)
            known[at] = np.broadcast_to(value.known, shape)
            results.append(Value(element_of(result.type), bits, known))
            assert shape_of(result.type) == bits.shape
        return results

    def linalg_index(self, op: Operation, operands: Sequence[Value], values: Values) -> Any:
        return [Value.of_numbers("index", self.loops[-1][held(op, "dim")])]
