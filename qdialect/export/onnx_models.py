"""
Modules as models of ONNX, with casts as QuantizeLinear and DequantizeLinear.

An op is written by what its model says of it: the movement, cast, sum of products, reduction, body
or function of elements that it is. No op is known by name, and what no node computes is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from itertools import takewhile
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerType,
    ModuleOp,
    TensorType,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError, VerifyException

from qdialect.algebra.joins import Concat, InsertSlice
from qdialect.algebra.movement import (
    BroadcastInDim,
    Reshape,
    Shape,
    Slice,
    Take,
    Transpose,
    inverse,
)
from qdialect.check.interpreters import ModuleInterpreter, TypedArray
from qdialect.dialects.arrays.elements import range_of
from qdialect.dialects.arrays.values import at_all_positions, without_repeats
from qdialect.dialects.quant.storage import StoredType, element_type_of
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.export.onnx_channels import fit_channels
from qdialect.export.onnx_functions import (
    BY_RULE,
    CLAMPED,
    COMPOSED,
    IS_UNSIGNED,
    NODES,
    ON_TRUTHS,
    SAME,
    has_nodes,
)
from qdialect.export.onnx_graph import Graph, type_name
from qdialect.export.onnx_layers import MAXIMUM, REDUCTIONS, SUM, Layers
from qdialect.export.onnx_recurrences import write_recurrence
from qdialect.export.onnx_regions import extreme_of, function_of
from qdialect.export.onnx_tensors import (
    Codes,
    Tensor,
    Tensors,
    in_graph,
    known,
    name_of_type,
)
from qdialect.ir.errors import OpErrors, message_of
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import captured_by, read_by
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of
from qdialect.ops.elementwise import read_elementwise
from qdialect.ops.fields import (
    Apply,
    Arithmetic,
    Comparison,
    Contraction,
    Input,
    Iteration,
    Lookup,
    Loops,
    Normalization,
    PoolWindow,
    Reduction,
    ShapeOpModel,
)
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    as_integers,
    is_arithmetic,
    is_cast,
    layer_of,
    name_of,
    op_model,
    read_movements,
    reads_unsigned,
    rule_of,
    windows_of,
)
from qdialect.ops.model import NOTHING, OnElements, OnNumbers, imported, models_of
from qdialect.ops.readers import last_step, named_function
from qdialect.ptq.float_graph.computed_functions import Computations
from qdialect.ptq.float_graph.float_regions import float_regions
from qdialect.ptq.float_graph.flow_reading import value_graph
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.memory import DEFAULT_MAX_MEMORY, MemoryBudget, MemoryLimitError

Numbers = NDArray[Any]
Compose = Callable[[Callable[..., Tensor], Callable[[float], Tensor], Sequence[Tensor]], Tensor]

_FEWEST: Final = 4
"""The fewest ops of a function that is one node."""

_MAX_STEPS: Final = 1 << 40
"""Constants are computed without a limit of steps."""


def write_onnx(module: ModuleOp, function: FuncOp, context: Context) -> Graph:
    """
    The graph of a function with one block, whose shapes are static.

    Raises OpErrors for what ONNX has no nodes for, and MissingLibraryError.
    """
    writer = _Writer(module, context)
    with models_of(context):
        writer.write_function(function)
    fit_channels(writer.graph)
    return writer.graph


@contextmanager
def _errors_of(op: Operation) -> Generator[None]:
    """Have a refusal be an error about an op."""
    try:
        yield
    except (InterpretationError, MemoryLimitError, Refusal, ValueError, VerifyException) as error:
        reason = message_of(error).removeprefix(f"'{name_of(op)}' op ")
        raise OpErrors([(op, f"'{name_of(op)}' op is not written as ONNX: {reason}")]) from None


class _Writer:
    """Writes the ops of a function, one after the other."""

    def __init__(self, module: ModuleOp, context: Context) -> None:
        self._module, self._context = module, context
        self._interpreter = ModuleInterpreter(module, ResourceBlobs.of(context), _MAX_STEPS)
        self._values = dict[SSAValue, Tensor]()
        self._begin(Graph())

    def _begin(self, graph: Graph) -> None:
        """Write into a graph, of whose nodes nothing is known."""
        self.graph = graph
        self._tensors = Tensors(graph)
        self._layers = Layers(self._tensors)
        self._clamped = dict[str, tuple[Tensor, float, float]]()
        """What is clamped, and the limits, by the name of the result."""
        self._converted_from = dict[str, Tensor]()
        """What a Cast converts, by the name of the result."""
        self._ranges = dict[str, tuple[float, float]]()
        """The least and the largest number of a sum, by the name of the result."""

    def _inside(self) -> _Writer:
        """A writer of a body, which may read all values that this one has written."""
        inner = copy(self)
        inner._begin(Graph(self.graph))
        return inner

    # Functions

    def write_function(self, function: FuncOp) -> None:
        if len(function.body.blocks) != 1:
            raise OpErrors.of(function, "has several blocks")
        block = function.body.block
        for argument in block.args:
            with _errors_of(function):
                self._values[argument] = self._input(argument)
        end = block.last_op
        if not isinstance(end, ReturnOp):
            raise OpErrors.of(function, "does not end in a return")
        self._write_block(block)
        with _errors_of(end):
            for at, value in enumerate(end.operands):
                self._output(self._values[value], value.type, value.name_hint or f"result{at}")

    def _write_block(self, block: Block) -> Sequence[Tensor]:
        """Write what the end of a block reads; returns that."""
        end = cast(Operation, block.last_op)
        needed = _needed_for(end.operands, block)
        kept = {*needed, end}
        for op in block.ops:
            has_effects = op not in kept and op_model(op) is NOTHING
            if has_effects and {value.type for value in op.operands} != {i1}:
                # Assertions are left out.
                raise OpErrors.of(op, "is not written as ONNX: it may have effects")
        ends = self._regions(needed)
        inner = {op for region in ends.values() for op in region} - ends.keys()
        for op in needed:
            if op in inner:
                continue
            self._write_together(ends.get(op, (op,)))
        return [self._values[value] for value in end.operands]

    @cached_property
    def _functions(self) -> Sequence[Sequence[Operation]]:
        """The ops of the module that are functions together."""
        budget = MemoryBudget(DEFAULT_MAX_MEMORY)
        graph = value_graph(self._module, self._context, budget, needs_integers=False)
        return [region.ops for region in float_regions(graph.ops, Computations(graph))]

    def _regions(self, needed: Sequence[Operation]) -> Mapping[Operation, Sequence[Operation]]:
        """The functions that are several ops, by the last of these."""
        ops = {*needed}
        parts = [[op for op in region if op in ops] for region in self._functions]
        return {part[-1]: part for part in parts if part}

    def _write_together(self, ops: Sequence[Operation]) -> None:
        """Write ops of which the last ones may be one node, such as a softmax behind a mask."""
        for at, op in enumerate(ops):
            rest = ops[at:]
            if sum(map(_size, rest)) >= _FEWEST:
                with _errors_of(rest[-1]):
                    tensor = self._as_one_node(rest)
                if tensor is not None:
                    self._bind(rest[-1].results[0], tensor)
                    break
            self._write(op)

    def _as_one_node(self, ops: Sequence[Operation]) -> Tensor | None:
        """The result of a function that is several ops, if one node computes it."""
        inner, end = {result for op in ops for result in op.results}, ops[-1].results[0]
        if len(ops[-1].results) > 1:
            return None
        read = {value for op in ops for value in read_by(op)} - inner
        if not read <= self._values.keys():
            return None
        constants = {value for value in read if self._values[value].elements is not None}
        if len(read) != len(constants) + 1:
            return None
        (source,) = read - constants
        tensor = self._values[source]
        if tensor.type != f32 or element_type_or_self(end.type) != f32:
            return None
        known = {value: self._typed(self._values[value], value.type) for value in constants}

        def run(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
            values = {**known, source: TypedArray.of_numbers(numbers, source.type)}
            self._interpreter.set_values([(source, values[source])])
            for op in ops:
                inputs = tuple(values[operand] for operand in op.operands)
                results = self._interpreter.run_one_op(op, inputs).values
                values |= zip(op.results, results, strict=True)
            return values[end].numbers

        small = [self._tensors.without_repeats(self._values[value]) for value in constants]
        floats = [
            self._typed(one, one.type).numbers for one in small if isinstance(one.type, AnyFloat)
        ]
        try:
            function = function_of(run, tensor.shape, _static_shape(end), floats)
        except (InterpretationError, MemoryLimitError):
            return None
        if function is None or function.type == "Identity":
            return function and tensor
        if function.is_of_elements:
            return self._elementwise(function.type, [tensor], f32, **function.attributes)
        names = [self._tensors.named(self._tensors.number(tensor))]
        names += [
            self.graph.constant(weight.astype(np.float32), "FLOAT") for weight in function.weights
        ]
        if (shape := _static_shape(end)) != tensor.shape:
            names += ["", "", self.graph.integers(shape)]
        is_by_root = function.type == "RMSNormalization"
        write = (
            self._over_root_mean_square if is_by_root else partial(self.graph.node, function.type)
        )
        return in_graph(write(names, **function.attributes), shape, f32)

    def _over_root_mean_square(self, names: Sequence[str], epsilon: float) -> str:
        """RMSNormalization, which is a node from opset 23 on: engines know it by these."""
        name, weight = names
        node, dims = self.graph.node, self.graph.dims(weight) or ()
        square = node("Pow", [name, self._tensors.named(self._number(2.0, f32))])
        axes = self.graph.integers(range(-len(dims), 0))
        mean = node("ReduceMean", [square, axes], keepdims=1)
        root = node("Sqrt", [node("Add", [mean, self._tensors.named(self._number(epsilon, f32))])])
        return node("Mul", [node("Div", [name, root]), weight])

    def _input(self, argument: BlockArgument) -> Tensor:
        shape, stored = _static_shape(argument), _held_outside(argument.type)
        name = self.graph.input(argument.name_hint or f"arg{argument.index}", stored, shape)
        return self._from_outside(name, argument)

    def _from_outside(self, name: str, value: SSAValue) -> Tensor:
        """A value as inputs and outputs have it."""
        shape, element = _static_shape(value), element_type_or_self(value.type)
        if isinstance(element, UniformQuantizedType):
            codes = Codes.of(element, shape)
            return in_graph(name, shape, element.expressed_type, codes)
        return in_graph(name, shape, element)

    def _output(self, tensor: Tensor, type: Attribute, hint: str) -> None:
        name = self._outside(tensor, type)
        self.graph.output(name, hint, _held_outside(type), tensor.shape)

    def _outside(self, tensor: Tensor, type: Attribute) -> str:
        """The name of a tensor as inputs and outputs have it."""
        if not isinstance(element_type_or_self(type), StoredType):
            tensor = self._tensors.number(tensor)
        return self._tensors.named(tensor)

    # Ops

    def _write(self, op: Operation) -> None:
        with _errors_of(op):
            if any(operand not in self._values for operand in op.operands):
                raise Refusal(RefusalCode.UNKNOWN_OP, "it reads what a reduction has so far")
            results = self._results(op, [self._values[operand] for operand in op.operands])
            for result, tensor in zip(op.results, results, strict=True):
                if tensor is None:
                    continue
                if shape_of(result.type) is not None:
                    whole = BroadcastInDim.trailing(tensor.shape, _static_shape(result))
                    tensor = self._tensors.moved([tensor], whole)
                self._bind(result, tensor)

    def _bind(self, value: SSAValue, tensor: Tensor) -> None:
        self._values[value] = tensor
        if tensor.elements is not None and tensor.codes is None:
            # Regions may read it.
            self._interpreter.set_values([(value, self._typed(tensor, value.type))])

    def _typed(self, tensor: Tensor, type: Attribute) -> TypedArray:
        """A known value of a type, or, in a body, one for each position."""
        if not isinstance(element_type_or_self(type), StoredType):
            tensor = self._tensors.computed(tensor)
        elements = cast(NDArray[Any], tensor.elements)
        is_list = len(elements.shape) == 1 and type_name(element_type_or_self(type)) is None
        if is_list and not isinstance(element_type_or_self(type), StoredType):
            # A list of lengths, such as a `!tosa.shape`.
            type = tensor.type
        return TypedArray.of(elements, at_all_positions(type, elements.shape))

    def _known(self, value: TypedArray) -> Tensor:
        element = value.element_type
        if isinstance(element, UniformQuantizedType):
            return known(value.elements, element.expressed_type, Codes.of(element, value.shape))
        return known(value.elements, element)

    def _results(self, op: Operation, operands: Sequence[Tensor]) -> Sequence[Tensor | None]:
        """The results of an op; None for one that nothing reads."""
        model = op_model(op)
        if is_cast(op):
            return [self._cast(op, operands[0])]
        refused: Refusal | None = None
        if model.movement is not None:
            try:
                return [self._moved(op, model.movement)]
            except Refusal as refusal:
                refused = refusal
        read = [self._values.get(value) for value in read_by(op)]
        is_known = all(tensor and tensor.elements is not None for tensor in read)
        if is_known and (model.loops is None or model.loops(op).reducing):
            inputs = map(self._typed, operands, (operand.type for operand in op.operands))
            return [*map(self._known, self._interpreter.run_one_op(op, (*inputs,)).values)]
        product = layer_of(op)
        if isinstance(product, Contraction):
            return [self._layer(op, product, operands)]
        if (extremes := self._extremes(op, operands)) is not None:
            return extremes
        if model.loops is not None:
            return self._body(op, model.loops(op))
        if model.iteration is not None:
            return self._repeated(op, model.iteration(op))
        others = op.results[1:]
        if not any(other.first_use for other in others):
            result = self._single(op, product, operands)
            if result is not None:
                return [result, *(None for _ in others)]
        reason = "branches have no nodes" if model.has_blocks else "no node computes it"
        if model.movement is not None and (moved := self._placed(op, model.movement)) is not None:
            return [moved]
        raise refused or Refusal(RefusalCode.UNKNOWN_OP, reason)

    def _single(
        self, op: Operation, product: Lookup | None, operands: Sequence[Tensor]
    ) -> Tensor | None:
        """The result of an op on elements, or of a reduction or a look-up."""
        model, type = op_model(op), element_type_or_self(op.results[0].type)
        if model.reduction is not None:
            return self._reduced(op, model.reduction(op), operands)
        if product is not None:
            return self._looked_up(op, product, operands)
        if model.resampling is not None:
            lists = [self.integers(value) for value in op.operands[1:]]
            tensor = operands[0]
            factors = imported(model.resampling)(op, tensor.shape, lists)
            for axis, rows in factors.items():
                tensor = self._resampled(tensor, axis, rows)
            return tensor
        if model.extracts:
            return self._extracted(operands)
        if model.normalization is not None:
            return self._normalized(model.normalization(op))
        if model.rounding is not None:
            return self._converted(operands[0], type, model.rounding)
        if model.comparison is not None:
            return self._compared(op, model.comparison(op), operands)
        path = named_function(op)
        if path is not None and has_nodes(path):
            return self._function(op, path, operands)
        if is_arithmetic(op):
            term = read_elementwise(op, self).term
            if isinstance(term, Apply) and (node := _NODES.get(term.arithmetic)) is not None:
                inputs = [
                    operands[term.number] for term in term.operands if isinstance(term, Input)
                ]
                if len(inputs) == len(term.operands):
                    return self._elementwise(node, inputs, type)
        # No node computes a function of another package, unless its rule says which one it is.
        tensor = self._by_rule(op, operands)
        return self._function(op, path, operands) if tensor is None and path else tensor

    def _by_rule(self, op: Operation, operands: Sequence[Tensor]) -> Tensor | None:
        """The result of an op whose rule says what it computes; None for another op."""
        rule = rule_of(op)
        if rule is None:
            return None
        if rule.limits is not None and not any(isinstance(end, SSAValue) for end in rule.limits):
            low, high = cast("tuple[float, float]", rule.limits)
            return self._clip(operands[0], low, high)
        (function,) = rule.functions if len(rule.functions) == 1 else ("",)
        if (path := BY_RULE.get(function)) is None:
            return None
        count = len(operands) if rule.operands is None else 1 + max(rule.operands)
        return self._function(op, path, operands[:count])

    # Movements and casts

    def integers(self, value: SSAValue) -> NDArray[np.integer[Any]]:
        """The elements of a known operand. Raises Refusal."""
        tensor = self._values.get(value)
        if tensor is None or tensor.elements is None:
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "it is read with a value that is not constant")
        return as_integers(self._typed(tensor, value.type).numbers, tensor.type)

    def _moved(self, op: Operation, model: ShapeOpModel) -> Tensor:
        read = read_movements(op, model, self)
        tensors = [self._values[operand] for operand in read.operands]
        padding = None
        if read.padding is not None:
            padding = self._values.get(read.padding) or self._yielded(op, read.padding)
        for movement in read.movements:
            tensors = [self._tensors.moved(tensors, movement, padding)]
        return tensors[0]

    def _placed(self, op: Operation, model: ShapeOpModel) -> Tensor | None:
        """A slice, or a tensor into which one is inserted, if only its places are not known."""
        places = _Places(self)
        read = read_movements(op, model, places)
        movement, *others = read.movements
        if not isinstance(movement, Slice | InsertSlice):
            return None
        offsets = [self._number(offset, i64) for offset in movement.offsets]
        for value in places.unknown:
            places.one = value
            # Where there is room for one place only, no other one is read.
            with suppress(Refusal):
                other = read_movements(op, model, places).movements[0]
                if type(other) is not type(movement) or other.sizes != movement.sizes:
                    return None
                for axis, pair in enumerate(zip(movement.offsets, other.offsets, strict=True)):
                    if pair[0] != pair[1]:
                        offsets[axis] = self._converted(self._values[value], i64)
        tensors = [self._values[operand] for operand in read.operands]
        result = self._cut(tensors, movement, offsets)
        for movement in others:
            result = self._tensors.moved([result], movement)
        return result

    def _cut(
        self, tensors: Sequence[Tensor], movement: Slice | InsertSlice, offsets: Sequence[Tensor]
    ) -> Tensor:
        """A slice, or a tensor into which one is inserted, at offsets."""
        *sources, whole = tensors
        source = self._tensors.moved(sources, Reshape(movement.sizes)) if sources else whole
        inside: list[Tensor] = []
        for axis, (offset, size, stride) in enumerate(
            zip(offsets, movement.sizes, movement.strides, strict=True)
        ):
            length = whole.shape[axis]
            if size == length:
                continue
            offset = self._up_to(offset, length - (size - 1) * stride - 1)
            if not sources:
                steps = known(np.arange(size, dtype=np.int64) * stride, i64)
                source = self._rows(source, self._elementwise("Add", [offset, steps], i64), axis)
                continue
            if stride > 1:
                raise Refusal(RefusalCode.DYNAMIC_SHAPE, "it is inserted at places with gaps")
            steps = known(np.arange(length, dtype=np.int64), i64)
            places = self._elementwise("Sub", [steps, offset], i64)
            nearest = self._up_to(places, size - 1)
            mask = self._elementwise("Equal", [places, nearest], i1)
            line = tuple(length if at == axis else 1 for at in range(len(whole.shape)))
            inside.append(self._tensors.moved([mask], Reshape(line)))
            if size > 1:
                source = self._rows(source, nearest, axis)
        while inside:
            # Positions along all axes are inside, or the element stays.
            source = self._elementwise("Where", [inside.pop(), source, whole], whole.type)
        return source

    def _yielded(self, op: Operation, value: SSAValue) -> Tensor:
        """A constant that a region makes itself."""
        if not isinstance(value.owner, Operation) or value.owner.operands:
            raise Refusal(RefusalCode.ARITHMETIC, "it pads with an element for each position")
        self._write(value.owner)
        return self._values[value]

    def _cast(self, op: Operation, tensor: Tensor) -> Tensor:
        source, result = (
            element_type_or_self(value.type) for value in (op.operands[0], op.results[0])
        )
        if isinstance(result, UniformQuantizedType):
            if not isinstance(source, AnyFloat | UniformQuantizedType):
                return self._as_codes(tensor, result)
            codes = Codes.of(result, tensor.shape)
            if tensor.elements is None:
                return self._tensors.quantized(tensor, codes)
        elif isinstance(source, UniformQuantizedType) and isinstance(result, AnyFloat):
            return tensor
        elif tensor.elements is None:
            if isinstance(source, StoredType) or isinstance(result, StoredType):
                raise Refusal(RefusalCode.ILLEGAL_TYPE, "stored integers are read")
            if reads_unsigned(op):
                raise Refusal(RefusalCode.ARITHMETIC, "signless integers are read as unsigned")
            return self._converted(tensor, result, op_model(op).rounding)
        value = self._typed(tensor, op.operands[0].type)
        (cast_value,) = self._interpreter.run_one_op(op, (value,)).values
        return self._known(cast_value)

    def _as_codes(self, tensor: Tensor, type: UniformQuantizedType) -> Tensor:
        """Integers, read as codes."""
        codes = Codes.of(type, tensor.shape)
        if tensor.elements is None and type.storage_type.bitwidth not in (8, 16, 32):
            raise Refusal(RefusalCode.ILLEGAL_TYPE, "integers of such a width are not stored")
        return replace(tensor, type=type.expressed_type, codes=codes)

    def _converted(self, tensor: Tensor, type: Attribute, rounding: str | None = None) -> Tensor:
        """Elements of another type. Floats out of the range of integers saturate if rounded."""
        tensor = self._tensors.number(tensor)
        if tensor.type == type:
            return tensor
        if isinstance(tensor.type, AnyFloat) and not isinstance(type, AnyFloat) and type != i1:
            if rounding is None:
                raise Refusal(RefusalCode.ARITHMETIC, "its rounding is not known")
            if (node := NODES.get(rounding)) is not None:
                # A Cast cuts off fractions.
                rounded = self._elementwise(node, [tensor], tensor.type)
                low, high = range_of(type)
                tensor = self._clip(rounded, low, _at_most(high))
        number = self.graph.number_of(name_of_type(type))
        cast_tensor = self._elementwise("Cast", [tensor], type, to=number)
        if cast_tensor.name:
            self._converted_from[cast_tensor.name] = tensor
        if tensor.type == f32 and type == f64 and (ends := self._range(tensor)) is not None:
            self._ranges[(cast_tensor.base or cast_tensor).name] = ends
        return cast_tensor

    # Functions of elements

    def _elementwise(
        self, node: str, tensors: Sequence[Tensor], type: Attribute, **attributes: Any
    ) -> Tensor:
        """A node that broadcasts its inputs as numpy does."""
        if node == "Div" and (mean := self._mean(*tensors)) is not None:
            return mean
        unknown = [tensor for tensor in tensors if tensor.elements is None]
        if len(unknown) == 1 and (tensor := unknown[0]).base is not None:
            numbers = [other if other.elements is None else _as_scalar(other) for other in tensors]
            # A last axis of length 1 takes ONNX Runtime 30 times as long beside a number.
            if None not in numbers and tensor.base.shape[-1:] != (1,):
                # It stays beside the layer that is reshaped.
                inputs = [tensor.base if one is tensor else cast(Tensor, one) for one in numbers]
                inner = self._elementwise(node, inputs, type, **attributes)
                return Tensor(tensor.shape, type, base=inner)
        shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
        small = [self._tensors.without_repeats(tensor) for tensor in tensors]
        if np.broadcast_shapes(*(tensor.shape for tensor in small)) == shape:
            tensors = small
        rank, is_sum = len(shape), node == "Add" and type == f32
        ranges = [self._range(tensor) if is_sum else None for tensor in tensors]
        if np.broadcast_shapes(*(t.shape for t in tensors if t.elements is None)) == shape:
            tensors = [_as_scalar(tensor) or _narrow(tensor) for tensor in tensors]
        tensors = [self._tensors.number(tensor) for tensor in tensors]
        orders = [t.order for t in tensors if t.elements is None and t.base is None]
        order = next((order for order in orders if len(order) == rank), tuple(range(rank)))
        back = inverse(order)
        names: list[str] = []
        for tensor in tensors:
            if 0 < len(tensor.shape) < rank and order != tuple(range(rank)):
                wide = (*(1,) * (rank - len(tensor.shape)), *tensor.shape)
                tensor = self._tensors.moved([tensor], Reshape(wide))
            names.append(self._tensors.named(tensor, back if len(tensor.shape) == rank else None))
        is_spread = next((t.shape != shape for t in tensors if t.elements is None), False)
        name = self.graph.node(node, names, is_spread, **attributes)
        if None not in ranges:
            # Rounding keeps the order of sums.
            low, high = (
                float(np.float32(one) + np.float32(other))
                for one, other in zip(*ranges, strict=True)
            )
            if math.isfinite(high - low):
                self._ranges[name] = low, high
        return Tensor(shape, type, name=name, order=order)

    def _mean(self, total: Tensor, divisor: Tensor) -> Tensor | None:
        """The mean of what a sum is of, if it is divided by their number."""
        inner = total.base or total
        count, name = self._layers.means.get(inner.name, (0, ""))
        if not count or not isinstance(total.type, AnyFloat):
            return None
        if self._number_in(divisor) != count:
            return None
        if np.broadcast_shapes(total.shape, divisor.shape) != total.shape:
            return None
        mean = replace(inner, name=name)
        return mean if total.base is None else replace(total, base=mean)

    def _function(self, op: Operation, path: str, operands: Sequence[Tensor]) -> Tensor:
        run, type = op_model(op).run, element_type_or_self(op.results[0].type)
        count = run.arity if isinstance(run, OnElements) else len(operands)
        tensors = operands[:count]
        types = {tensor.type for tensor in tensors}
        is_unsigned = isinstance(run, OnNumbers) and run.is_unsigned
        if path == SAME:
            if is_unsigned and types != {i1} and isinstance(type, AnyFloat):
                raise Refusal(RefusalCode.ARITHMETIC, "signless integers are read as unsigned")
            if type == i1 and types != {i1}:
                raise Refusal(RefusalCode.ARITHMETIC, "it takes the lowest bit")
            return self._converted(tensors[0], type)
        if is_unsigned and types != {i1} and path not in IS_UNSIGNED:
            raise Refusal(RefusalCode.ARITHMETIC, "signless integers are read as unsigned")
        if path == CLAMPED:
            low, value, high = tensors
            return self._limited(self._limited(value, low, MAXIMUM), high, "numpy:minimum")
        if (compose := COMPOSED.get(path)) is not None:
            return self._composed(compose, tensors, type)
        chosen = self._number_in(tensors[0]) if path == "numpy:where" else None
        if chosen is not None:
            shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
            tensor = tensors[1 if chosen else 2]
            return self._tensors.moved([tensor], BroadcastInDim.trailing(tensor.shape, shape))
        if path == "numpy:where" and (extreme := self._extreme(op)) is not None:
            return self._limited(tensors[1], tensors[2], extreme)
        if NODES.get(path) in ("Max", "Min"):
            one, other = tensors
            return self._limited(one, other, path)
        node = (ON_TRUTHS if i1 in types and type == i1 else NODES).get(path) or NODES.get(path)
        if node is None or (types == {i1} and node not in _ON_BOOLEANS):
            reason = f"no node computes '{path.partition(':')[2]}': write it as ops that have one"
            raise Refusal(RefusalCode.UNKNOWN_OP, reason)
        return self._with_added(node, tensors, op) or self._elementwise(node, tensors, type)

    def _with_added(self, node: str, tensors: Sequence[Tensor], op: Operation) -> Tensor | None:
        """The result of a layer to which its bias is added, if only that reads it."""
        if node != "Add":
            return None
        for at, tensor in enumerate(tensors):
            if tensor.elements is None and self._is_read_once(op, at):
                with_bias = self._layers.with_bias(tensor, tensors[1 - at])
                if with_bias is not None:
                    return with_bias
        return None

    def _is_read_once(self, op: Operation, at: int) -> bool:
        """Whether nothing else reads an operand, nor what it is an element of."""
        value = op.operands[at]
        while value.has_one_use():
            if not isinstance(value, BlockArgument) or isinstance(value.owner.parent_op(), FuncOp):
                return not isinstance(value, BlockArgument)
            outer = value.owner.parent_op()
            if outer is None:
                return False
            value = outer.operands[value.index]
        return False

    def _composed(self, compose: Compose, tensors: Sequence[Tensor], type: Attribute) -> Tensor:
        def number(value: float) -> Tensor:
            return self._number(value, type)

        def node(node: str, *inputs: Tensor) -> Tensor:
            return self._elementwise(node, inputs, type)

        return compose(node, number, tensors)

    def _number(self, value: float, type: Attribute) -> Tensor:
        return self._known(TypedArray.of_numbers(np.asarray(value), type))

    def _extreme(self, op: Operation) -> str | None:
        """The function of a choice between two values by a comparison of them, if it is one."""
        condition, *chosen = op.operands
        owner = condition.owner
        if not isinstance(owner, Operation) or (read := op_model(owner).comparison) is None:
            return None
        comparison, compared = read(owner), [*owner.operands]
        if comparison.is_unsigned or compared not in (chosen, chosen[::-1]):
            return None
        is_greater = comparison.function.startswith("greater")
        if not is_greater and not comparison.function.startswith("less"):
            return None
        is_first = is_greater != comparison.is_negated
        return MAXIMUM if is_first == (compared == chosen) else "numpy:minimum"

    def _limited(self, tensor: Tensor, limit: Tensor, path: str) -> Tensor:
        """The larger of two tensors, or the smaller: a clamp if one of them is a number."""
        if tensor.elements is not None:
            tensor, limit = limit, tensor
        end = self._number_in(limit)
        if end is not None and isinstance(tensor.type, AnyFloat):
            is_low = NODES[path] == "Max"
            return self._clip(tensor, end if is_low else -math.inf, math.inf if is_low else end)
        return self._elementwise(NODES[path], [tensor, limit], tensor.type)

    def _clip(self, tensor: Tensor, low: float, high: float) -> Tensor:
        if math.isnan(low) or math.isnan(high):
            raise Refusal(RefusalCode.ARITHMETIC, "its limits are not known")
        if tensor.codes is not None and tensor.codes.is_single():
            ends = tensor.codes.ends()
            if low <= ends[0] and ends[1] <= high:
                return tensor
        if tensor.base is not None:
            inner = self._clip(tensor.base, low, high)
            return Tensor(tensor.shape, tensor.type, base=inner, codes=inner.codes and tensor.codes)
        if tensor.codes is None and (before := self._clamped.get(tensor.name)) is not None:
            source, first, last = before
            source = replace(source, order=tensor.order, shape=tensor.shape)
            limits = (min(max(end, low), high) for end in (first, last))
            return self._clip(source, *limits)
        source = self._tensors.drawn(self._tensors.number(tensor))
        if (low, high) == (0, math.inf):
            clipped = self._elementwise("Relu", [source], tensor.type)
        else:
            ends = [
                "" if math.isinf(end) else self._tensors.named(self._number(end, tensor.type))
                for end in (low, high)
            ]
            name = self.graph.node("Clip", [source.name, *ends])
            clipped = replace(source, name=name)
        self._clamped[clipped.name] = source, low, high
        return clipped

    def _compared(self, op: Operation, comparison: Comparison, tensors: Sequence[Tensor]) -> Tensor:
        if comparison.is_unsigned and {tensor.type for tensor in tensors} != {i1}:
            raise Refusal(RefusalCode.ARITHMETIC, "signless integers are compared as unsigned")
        tensors = self._before_conversion(tensors)
        decided = self._decided(comparison.function, tensors)
        if decided is not None:
            shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
            truths = np.full(shape, float(decided != comparison.is_negated))
            return self._known(TypedArray.of_numbers(truths, TensorType(i1, shape)))
        node = NODES[f"numpy:{comparison.function.replace('not_equal', 'equal')}"]
        result = self._elementwise(node, tensors, i1)
        if comparison.is_negated != (comparison.function == "not_equal"):
            result = self._elementwise("Not", [result], i1)
        return result

    def _decided(self, function: str, tensors: Sequence[Tensor]) -> bool | None:
        """The result of a comparison of any two elements; None if it is not the same for all."""
        ranges = [self._range(tensor) for tensor in tensors]
        if None in ranges:
            return None
        (low, high), (first, last) = cast("list[tuple[float, float]]", ranges)
        if "equal" in (function, function.removeprefix("not_")):
            return None if low <= last and first <= high else function != "equal"
        compare = getattr(np, function)
        results = {bool(compare(one, other)) for one in (low, high) for other in (first, last)}
        return results.pop() if len(results) == 1 else None

    def _range(self, tensor: Tensor) -> tuple[float, float] | None:
        """The least and the largest number that elements can be; None if it is not known."""
        if (
            tensor.elements is not None
            and isinstance(tensor.type, AnyFloat)
            and tensor.elements.size
        ):
            numbers = self._typed(self._tensors.without_repeats(tensor), tensor.type).numbers
            low, high = float(numbers.min()), float(numbers.max())
            return None if math.isnan(low) else (low, high)
        if tensor.codes is not None:
            return tensor.codes.ends() if tensor.codes.is_single() else None
        return self._ranges.get((tensor.base or tensor).name)

    def _before_conversion(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """A tensor and a number as they were before the tensor became wider, if both had a type."""
        sources = [self._converted_from.get(tensor.name) for tensor in tensors]
        numbers = [self._number_in(tensor) for tensor in tensors]
        pairs = [
            (source, tensor, number)
            for source, tensor, number in zip(sources, tensors, reversed(numbers), strict=True)
            if source is not None and number is not None
        ]
        if len(tensors) != 2 or not pairs:
            return tensors
        ((source, wide, number),) = pairs
        narrow, format = (FLOAT_FORMATS.get(str(tensor.type)) for tensor in (source, wide))
        if narrow is None or format is None or narrow.last_place < format.last_place:
            return tensors
        end = self._number(number, source.type)
        if narrow.precision > format.precision or self._number_in(end) != number:
            return tensors
        inner = replace(source, order=wide.order, shape=wide.shape)
        return [inner if tensor is wide else end for tensor in tensors]

    # Layers and reductions

    def _require_no_zero_points(self, op: Operation, operands: Sequence[Tensor]) -> None:
        for number in op_model(op).zero_points or ():
            if 0 <= number < len(operands) and self._number_in(operands[number]) != 0:
                raise Refusal(RefusalCode.ARITHMETIC, "its zero points are not 0")

    def _layer(self, op: Operation, contraction: Contraction, operands: Sequence[Tensor]) -> Tensor:
        self._require_no_zero_points(op, operands)
        type = element_type_or_self(op.results[0].type)
        lhs, rhs = (operands[at] for at in contraction.operands)
        if not isinstance(lhs.type, AnyFloat) or not isinstance(type, AnyFloat):
            raise Refusal(RefusalCode.ILLEGAL_TYPE, "it is a sum of products of integers")
        lhs, rhs = self._widened(lhs, type), self._widened(rhs, type)
        windows = windows_of(op, contraction)
        shape = _static_shape(op.results[0])
        result = self._layers.product(lhs, rhs, contraction, windows, shape)
        at = contraction.bias
        if at is None or at >= len(operands) or self._number_in(operands[at]) == 0:
            return result
        bias = self._widened(operands[at], type)
        if len(bias.shape) == 1 and len(shape) > 1:
            channels = next(
                axis
                for axis, label in enumerate(contraction.result)
                if (set(label) & set(contraction.rhs) and label not in contraction.lhs)
                or "(" in label
            )
            bias = self._tensors.moved([bias], BroadcastInDim((channels,), shape))
        with_bias = self._layers.with_bias(result, bias)
        return with_bias or self._elementwise("Add", [result, bias], result.type)

    def _widened(self, tensor: Tensor, type: AnyFloat) -> Tensor:
        """Floats in the type of the sums, whose kernels read no others."""
        if tensor.type == type:
            return tensor
        if tensor.codes is not None:
            return replace(tensor, type=type, codes=tensor.codes.of_floats(type))
        if tensor.elements is None:
            return self._converted(tensor, type)
        numbers = self._typed(tensor, tensor.type).numbers
        return self._known(TypedArray.of_numbers(numbers, TensorType(type, numbers.shape)))

    def _number_in(self, tensor: Tensor) -> float | None:
        """The number that all elements are known to be; None if there is none."""
        scalar = _as_scalar(tensor)
        return None if scalar is None else float(self._typed(scalar, scalar.type).numbers)

    def _reduced(self, op: Operation, reduction: Reduction, operands: Sequence[Tensor]) -> Tensor:
        self._require_no_zero_points(op, operands)
        initial = None if reduction.initial is None else operands[reduction.initial]
        is_padded = any(window.low or window.high for window in reduction.windows.values())
        if initial is not None and is_padded and not self._is_identity(initial, reduction.function):
            raise Refusal(RefusalCode.ARITHMETIC, "its padding is not the identity of its function")
        shape = _static_shape(op.results[0])
        total = self._layers.reduced(operands[0], reduction, shape)
        return self._started(total, initial, reduction.function)

    def _started(self, total: Tensor, initial: Tensor | None, path: str) -> Tensor:
        """A reduction, combined with its initial elements unless these change nothing."""
        if initial is None or self._is_identity(initial, path):
            return total
        if NODES.get(path) in ("Max", "Min"):
            return self._limited(total, initial, path)
        return self._elementwise(NODES[path], [total, initial], total.type)

    def _is_identity(self, initial: Tensor, path: str) -> bool:
        number = self._number_in(initial)
        if path in _IDENTITIES:
            return number == _IDENTITIES[path]
        if number is None or not isinstance(initial.type, AnyFloat):
            return False
        # No finite number is beyond it.
        most = float(np.finfo(np.float32).max) if initial.type == f32 else math.inf
        return number <= -most if NODES[path] == "Max" else number >= most

    def _normalized(self, read: Normalization) -> Tensor:
        tensor = self._values[read.operand]
        rank = len(tensor.shape)
        others = [axis for axis in range(rank) if axis != read.axis]
        order = (*others[:1], read.axis, *others[1:])
        image = self._tensors.moved([self._tensors.number(tensor)], Transpose(order))
        rows = [read.scale, read.offset, read.mean, read.variance]
        names = [self._tensors.named(self._tensors.number(self._values[row])) for row in rows]
        inputs = [self._tensors.named(image), *names]
        name = self.graph.node("BatchNormalization", inputs, epsilon=read.epsilon)
        normal = in_graph(name, image.shape, tensor.type)
        return self._tensors.moved([normal], Transpose(inverse(order)))

    def _extremes(
        self, op: Operation, operands: Sequence[Tensor]
    ) -> Sequence[Tensor | None] | None:
        """The results of an op that finds where extremes along an axis are; None for another."""
        unknown = [at for at, tensor in enumerate(operands) if tensor.elements is None]
        read = [at for at, result in enumerate(op.results) if result.first_use is not None]
        types = [element_type_or_self(op.results[at].type) for at in read]
        if len(unknown) != 1 or not any(
            isinstance(type, IntegerType | IndexType) for type in types
        ):
            return None
        (at,) = unknown
        tensor, value = operands[at], op.operands[at]
        is_plain = tensor.type == element_type_or_self(value.type) != i1
        if not is_plain or shape_of(value.type) != tensor.shape:
            return None
        inputs = [
            None if one is tensor else self._typed(one, operand.type)
            for one, operand in zip(operands, op.operands, strict=True)
        ]

        def run(numbers: NDArray[np.float64], number: int) -> NDArray[np.float64]:
            inputs[at] = TypedArray.of_numbers(numbers, value.type)
            return self._interpreter.run_one_op(op, tuple(inputs)).values[number].numbers

        results: list[Tensor | None] = [None for _ in op.results]
        for number, type in zip(read, types, strict=True):
            shape = _static_shape(op.results[number])
            try:
                extreme = extreme_of(partial(run, number=number), tensor.shape, shape)
            except (InterpretationError, MemoryLimitError):
                # Other positions may be out of range.
                extreme = None
            if extreme is None:
                return None
            function, axis = extreme
            if function in REDUCTIONS:
                windows = {axis: PoolWindow(tensor.shape[axis])}
                results[number] = self._layers.reduced(tensor, Reduction(function, windows), shape)
                continue
            drawn = self._tensors.drawn(self._tensors.number(tensor))
            name = self.graph.node(function, [drawn.name], axis=drawn.order[axis], keepdims=1)
            kept = tuple(1 if place == axis else n for place, n in enumerate(tensor.shape))
            places = self._tensors.moved(
                [replace(drawn, shape=kept, name=name, type=i64)], Reshape(shape)
            )
            results[number] = self._converted(places, type)
        return results

    # Look-ups

    def _looked_up(self, op: Operation, lookup: Lookup, operands: Sequence[Tensor]) -> Tensor:
        table, places = operands[lookup.operand], operands[1 - lookup.operand]
        shape, count = _static_shape(op.results[0]), math.prod(places.shape)
        if math.prod(table.shape[: lookup.axis]) != 1 or not lookup.is_by_rows:
            raise Refusal(
                RefusalCode.UNKNOWN_OP, "the rows that it takes are not along the first axis"
            )
        flat = self._tensors.moved([places], Reshape((count,)))
        # StableHLO clamps positions; in TOSA, none is out of range.
        flat = self._up_to(flat, table.shape[lookup.axis] - 1)
        rows = self._rows(table, flat, lookup.axis)
        return self._tensors.moved([rows], Reshape(shape))

    def _up_to(self, places: Tensor, last: int) -> Tensor:
        """Positions that are at least 0 and at most the last one."""
        places = self._elementwise("Max", [places, self._number(0, places.type)], places.type)
        return self._elementwise("Min", [places, self._number(last, places.type)], places.type)

    def _rows(self, table: Tensor, places: Tensor, axis: int) -> Tensor:
        """The rows of a table: the axis is replaced by those of the places."""
        codes = table.codes
        if codes is not None and not codes.is_single():
            table, codes = self._tensors.number(table), None
        inputs = [self._tensors.named(table), self._tensors.named(places)]
        name = self.graph.node("Gather", inputs, axis=axis)
        shape = (*table.shape[:axis], *places.shape, *table.shape[axis + 1 :])
        return in_graph(name, shape, table.type, codes and codes.spread(shape))

    def _resampled(self, tensor: Tensor, axis: int, rows: Numbers) -> Tensor:
        """Sums of the elements along an axis, with the factors of each in a row."""
        places = rows.argmax(1)
        if (rows == np.eye(tensor.shape[axis])[places]).all():
            return self._tensors.moved([tensor], Take(axis, tuple(map(int, places))))
        if not isinstance(tensor.type, AnyFloat):
            raise Refusal(RefusalCode.ILLEGAL_TYPE, "it adds integers with factors")
        drawn, (count, length) = self._tensors.drawn(self._tensors.number(tensor)), rows.shape
        at, name = drawn.order[axis], drawn.name
        shape = [tensor.shape[place] for place in inverse(drawn.order)]
        is_last = at == len(shape) - 1
        type = TensorType(tensor.type, (length, count) if is_last else (count, length))
        matrix = TypedArray.of_numbers(rows.T if is_last else rows, type)
        factors = self._tensors.named(self._known(matrix))
        are_columns = at == len(shape) - 2
        if not is_last and not are_columns:
            # All axes behind it are columns.
            wide = self.graph.integers([*shape[: at + 1], math.prod(shape[at + 1 :])])
            name = self.graph.node("Reshape", [name, wide])
        name = self.graph.node("MatMul", [name, factors] if is_last else [factors, name])
        if not is_last and not are_columns:
            shape[at] = count
            name = self.graph.node("Reshape", [name, self.graph.integers(shape)])
        lengths = tuple(count if place == axis else n for place, n in enumerate(tensor.shape))
        return replace(drawn, shape=lengths, name=name)

    def _extracted(self, operands: Sequence[Tensor]) -> Tensor:
        """The elements of a table at positions, which broadcast."""
        table, *places = operands
        if not places:
            return table
        shape = np.broadcast_shapes(*(place.shape for place in places))
        if (taken := self._taken(table, places, shape)) is not None:
            return taken
        loops = [_line_of(place, n) for place, n in zip(places, table.shape, strict=True)]
        (free, *others) = [at for at, loop in enumerate(loops) if loop is None] or [0]
        used = [loop for at, loop in enumerate(loops) if at != free]
        place = places[free]
        are_different = len({*used}) == len(used) and len(place.shape) == len(shape)
        is_row = are_different and all(loop is not None and place.shape[loop] == 1 for loop in used)
        if others or not is_row:
            return self._elements(table, places, shape)
        kept = [axis for axis in range(len(shape)) if axis not in used]
        index = self._tensors.moved([place], Reshape(tuple(shape[axis] for axis in kept)))
        rows = self._rows(table, index, free)
        loops_of_rows = [*used[:free], *kept, *used[free:]]
        order = tuple(loops_of_rows.index(axis) for axis in range(len(shape)))
        return self._tensors.moved([rows], Transpose(order))

    def _taken(self, table: Tensor, places: Sequence[Tensor], shape: Shape) -> Tensor | None:
        """The elements at known positions that vary along one axis each, in order; else None."""
        if len(places) != len(shape):
            return None
        lists: list[NDArray[Any]] = []
        for axis, place in enumerate(places):
            if place.elements is None:
                return None
            numbers = np.broadcast_to(self._typed(place, place.type).numbers, shape)
            line = numbers[tuple(slice(None) if at == axis else 0 for at in range(len(shape)))]
            whole = line.reshape([-1 if at == axis else 1 for at in range(len(shape))])
            if (numbers != whole).any():
                return None
            lists.append(line)
        for axis, line in enumerate(lists):
            if not np.array_equal(line, np.arange(table.shape[axis])):
                table = self._tensors.moved([table], Take(axis, tuple(map(int, line))))
        return table

    def _elements(self, table: Tensor, places: Sequence[Tensor], shape: Shape) -> Tensor:
        table = self._tensors.number(table)
        columns: list[Tensor] = []
        for place in places:
            whole = BroadcastInDim.trailing(place.shape, shape)
            place = self._converted(self._tensors.moved([place], whole), i64)
            columns.append(self._tensors.moved([place], Reshape((*shape, 1))))
        index = columns[0]
        if len(columns) > 1:
            index = self._tensors.moved(columns, Concat(len(shape)))
        inputs = [self._tensors.named(table), self._tensors.named(index)]
        return in_graph(self.graph.node("GatherND", inputs), shape, table.type)

    # Bodies

    def _body(self, op: Operation, loops: Loops) -> Sequence[Tensor | None]:
        """An op whose body computes one element, for all positions of its loops."""
        block = op.regions[0].block
        lengths: dict[int, int] = {}
        for operand, axes in zip(op.operands, loops.operands, strict=True):
            lengths |= {
                loop: n
                for loop, n in zip(axes, _static_shape(operand), strict=True)
                if loop is not None
            }
        rank, first = len(lengths), len(op.operands) - len(op.results)
        for argument, operand, axes in zip(block.args, op.operands, loops.operands, strict=True):
            if argument.first_use is not None and (argument.index < first or not loops.reducing):
                aligned = self._aligned(self._values[operand], axes, rank)
                self._bind(argument, aligned)
        yielded = _yielded(block)
        read = [at for at, result in enumerate(op.results) if result.first_use is not None]
        steps = {at: self._step(block, at) for at in read if loops.reducing}
        values = [steps[at][1] if loops.reducing else yielded[at] for at in read]
        for inner in _needed_for(values, block):
            if len(inner.results) == 1 and inner.results[0] in loops.positions:
                loop = loops.positions[inner.results[0]]
                line = [lengths[loop] if at == loop else 1 for at in range(rank)]
                numbers = np.arange(lengths[loop], dtype=np.int64).reshape(line)
                self._bind(inner.results[0], known(numbers, inner.results[0].type))
            else:
                self._write(inner)
        parallel = [loop for loop in range(rank) if loop not in loops.reducing]
        results: list[Tensor | None] = []
        for at, axes in enumerate(loops.operands[first:]):
            if at not in read:
                results.append(None)
            elif loops.reducing:
                total = self._folded(steps[at], loops, lengths)
                place = tuple(parallel.index(loop) for loop in axes if loop is not None)
                turned = self._tensors.moved([total], Transpose(place))
                turned = self._tensors.moved([turned], Reshape(_static_shape(op.results[at])))
                initial = self._values[op.operands[first + at]]
                results.append(self._started(turned, initial, steps[at][0]))
            else:
                shape = tuple(lengths[loop] for loop in range(rank))
                value = self._values[yielded[at]]
                whole = BroadcastInDim.trailing(value.shape, shape)
                order = Transpose(tuple(loop for loop in axes if loop is not None))
                value = self._tensors.moved([self._tensors.moved([value], whole)], order)
                results.append(self._tensors.moved([value], Reshape(_static_shape(op.results[at]))))
        return results

    def _repeated(self, op: Operation, loop: Iteration) -> Sequence[Tensor]:
        """The results of a loop, whose body is a graph of its own."""
        block, asked, places = loop.body, loop.condition, range(0)
        values, goes_on, count = [self._values[value] for value in loop.initial], "", ""
        if asked is not None:
            going, values = self._asked(asked, values)
            goes_on = self._tensors.named(going)
        before = dict[SSAValue, Tensor]()
        for value in dict.fromkeys(captured_by(op)):
            if value in op.operands:
                continue
            tensor = self._values[value]
            is_number = not isinstance(element_type_or_self(value.type), StoredType)
            if tensor.elements is None and is_number:
                # It is the same in each run.
                name = self._tensors.named(self._tensors.number(tensor))
                before[value] = tensor
                self._values[value] = in_graph(name, tensor.shape, tensor.type)
        outer = [self._values[value] for value in before]
        body = self._inside()
        position = in_graph(body.graph.input("position", "INT64", ()), (), i64)
        going = in_graph(body.graph.input("goes_on", "BOOL", ()), (), i1)
        arguments = [*block.args]
        if loop.bounds:
            ends = [self._number_in(self._values[end]) for end in loop.bounds]
            if None in ends:
                reason = "the number of its runs is only known at run time"
                raise Refusal(RefusalCode.DYNAMIC_SHAPE, reason)
            places = range(*(int(end or 0) for end in ends))
            count = self._tensors.named(self._number(len(places), i64))
            scaled = body._elementwise("Mul", [position, self._number(places.step, i64)], i64)
            place = body._elementwise("Add", [scaled, self._number(places.start, i64)], i64)
            first = arguments.pop(0)
            body._bind(first, body._converted(place, first.type))
        yielded = _yielded(block)
        is_plain = asked is None or (*_yielded(asked)[1:],) in ((), (*asked.args,))
        # What each run hands on as it is needs no place in the loop, and may be constant.
        carried = [
            at for at, value in enumerate(arguments) if not is_plain or yielded[at] is not value
        ]
        if not carried:
            return values
        for at, argument in enumerate(arguments):
            body._bind(argument, body._input(argument) if at in carried else values[at])
        after = body._write_block(block)
        if asked is not None:
            going, after = body._asked(asked, after)
        body._output(going, i1, "goes_on")
        for at in carried:
            body._output(after[at], arguments[at].type, "next")
        self._values.update(before)
        names = [self._outside(values[at], arguments[at].type) for at in carried]
        graph, inner, results = self.graph, body.graph.body(), None
        if loop.bounds and [tensor.type for tensor in outer] == [f32]:
            sequence = outer[0].name, outer[0].shape
            results = write_recurrence(graph, inner, sequence, len(places), names)
        if results is None:
            results = graph.several("Loop", [count, goes_on, *names], len(names), body=inner)
        for at, name in zip(carried, results, strict=True):
            values[at] = self._from_outside(name, op.results[at])
        return values

    def _asked(self, block: Block, values: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Whether a loop goes on with values, and what its next run takes."""
        for argument, value in zip(block.args, values, strict=True):
            self._bind(argument, value)
        going, *others = self._write_block(block)
        return going, others or [*values]

    def _aligned(self, tensor: Tensor, axes: Sequence[int | None], rank: int) -> Tensor:
        """A tensor with an axis for each loop, of length 1 for those that do not index it."""
        loops = [loop for loop in axes if loop is not None]
        if len(loops) < len(axes):
            kept = zip(tensor.shape, axes, strict=True)
            shape = tuple(n for n, loop in kept if loop is not None)
            tensor = self._tensors.moved([tensor], Reshape(shape))
        tensor = self._tensors.moved([tensor], Transpose(inverse(loops)))
        if not loops or len(loops) == rank:
            return tensor
        lines = dict(zip(sorted(loops), tensor.shape, strict=True))
        shape = tuple(lines.get(loop, 1) for loop in range(rank))
        return self._tensors.moved([tensor], Reshape(shape))

    def _step(self, block: Block, number: int) -> tuple[str, SSAValue]:
        """The function that ends a reducing body, and the value that it adds to what there was."""
        step, so_far = last_step(block, number), block.args[number - len(_yielded(block))]
        function = None if step is None else named_function(step)
        if step is None or function is None or len(step.operands) != 2:
            reason = "its reduction is not one function of two elements"
            raise Refusal(RefusalCode.UNKNOWN_OP, reason)
        (added,) = (operand for operand in step.operands if operand is not so_far)
        return function, added

    def _folded(
        self, step: tuple[str, SSAValue], loops: Loops, lengths: Mapping[int, int]
    ) -> Tensor:
        function, added = step
        tensor = self._values[added]
        shape = tuple(lengths[loop] for loop in range(len(lengths)))
        tensor = self._tensors.moved([tensor], BroadcastInDim.trailing(tensor.shape, shape))
        windows = {loop: PoolWindow(lengths[loop]) for loop in loops.reducing}
        kept = tuple(n for loop, n in enumerate(shape) if loop not in loops.reducing)
        return self._layers.reduced(tensor, Reduction(function, windows), kept)


class _Places:
    """Known operands, and for others that are one number 0, but for one of them, which is 1."""

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer
        self.unknown = dict[SSAValue, None]()
        self.one: SSAValue | None = None

    def integers(self, value: SSAValue) -> NDArray[np.integer[Any]]:
        """The elements of an operand. Raises Refusal."""
        try:
            return self._writer.integers(value)
        except Refusal:
            if shape_of(value.type):
                raise
            self.unknown[value] = None
            return np.array(int(value is self.one))


_NODES: Final = {
    Arithmetic.ADD: "Add",
    Arithmetic.SUBTRACT: "Sub",
    Arithmetic.MULTIPLY: "Mul",
}

_ON_BOOLEANS: Final = frozenset({"And", "Equal", "Not", "Or", "Where", "Xor"})

_IDENTITIES: Final = {
    SUM: 0,
    "numpy:multiply": 1,
    # The only bit of a truth value is its sign.
    "numpy:bitwise_and": -1,
    "numpy:logical_and": -1,
    "numpy:bitwise_or": 0,
    "numpy:logical_or": 0,
}


def _size(op: Operation) -> int:
    """The number of ops that compute an op, or its body."""
    return max(1, sum(len(region.block.ops) - 1 for region in op.regions))


def _needed_for(values: Iterable[SSAValue], block: Block) -> Sequence[Operation]:
    """The ops of a block that values depend on, in order."""
    needed = dict.fromkeys(values)
    ops: list[Operation] = []
    for op in reversed(block.ops):
        if needed.keys() & {*op.results}:
            ops.append(op)
            needed |= dict.fromkeys(read_by(op))
    return ops[::-1]


def _yielded(block: Block) -> Sequence[SSAValue]:
    """What the body of an op yields."""
    return () if block.last_op is None else block.last_op.operands


def _narrow(tensor: Tensor) -> Tensor:
    """A constant without first axes of length 1: ONNX Runtime knows weights by their one axis."""
    if tensor.elements is None or tensor.codes is not None:
        return tensor
    ones = len([*takewhile(lambda length: length == 1, tensor.shape)])
    return known(tensor.elements.reshape(tensor.shape[ones:]), tensor.type)


def _as_scalar(tensor: Tensor) -> Tensor | None:
    """The only element of a known tensor; None if there are several, or it is not known."""
    if tensor.elements is None or not tensor.elements.size:
        return None
    if tensor.codes is not None and not tensor.codes.is_single():
        return None
    small = without_repeats(tensor.elements)
    first = small.reshape(-1)[:1]
    if (small != first).any():
        return None
    return known(first.reshape(()), tensor.type, tensor.codes and tensor.codes.spread(()))


def _line_of(place: Tensor, length: int) -> int | None:
    """The axis of positions that are 0, 1, 2, ... along it, up to a length; else None."""
    if place.elements is None:
        return None
    axes = [axis for axis, n in enumerate(place.shape) if n > 1]
    numbers = place.elements.reshape(-1)
    if len(axes) != 1 or len(numbers) != length or (numbers != np.arange(length)).any():
        return None
    return axes[0]


def _at_most(number: int) -> float:
    """The largest number of float32 that is not above an integer."""
    nearest = np.float32(number)
    return float(nearest if int(nearest) <= number else np.nextafter(nearest, np.float32(0)))


def _static_shape(value: SSAValue) -> Shape:
    shape = shape_of(value.type)
    if shape is None:
        return ()
    if not is_static(shape):
        reason = "a length is only known at run time; give shapes of inputs with --shape"
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, f"{reason} when a model is imported")
    return shape


def _held_outside(type: Attribute) -> str:
    """The type in which a function of ONNX takes and returns elements of a type."""
    element = element_type_or_self(type)
    if isinstance(element, StoredType):
        if (reason := element.non_integers) is not None:
            raise Refusal(RefusalCode.ILLEGAL_TYPE, reason)
        element = element_type_of(element)
        if element.bitwidth not in (8, 16, 32):
            raise Refusal(RefusalCode.ILLEGAL_TYPE, f"ONNX does not hold codes of type '{element}'")
    return name_of_type(element)
