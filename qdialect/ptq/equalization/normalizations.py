"""
Merges arithmetic per channel, such as batch normalization, into the layer before or behind it.

A layer is followed by ops that compute `scale * x + offset` of each element, with constants, and
by shape ops between them, which may join it with other layers. The scales are multiplied into the
weights, and the offsets become a bias. A layer that reads the result of such ops has the scales in
the input channels of its weights, and its bias has the sums of the offsets. New constants are
computed in double, and rounded once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, IntegerType, ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.algebra.movement import MovementError, ValueSet
from qdialect.algebra.views import Splat
from qdialect.folding.graph import GraphReader
from qdialect.folding.inlining import inline_calls
from qdialect.folding.moved_constant import MovedConstant
from qdialect.folding.report import Outcome, PassReport
from qdialect.folding.writing import constant_like
from qdialect.ir.elements import element_dtype, float_elements
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import element_type_or_self, tensor_like, tensor_parts
from qdialect.lowering.dequantization import added, initial
from qdialect.ops.along_axis import is_statistics
from qdialect.ops.fields import WINDOW, Contraction, Side
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    elements_attribute_of,
    is_cast,
    known_layer,
    known_movements,
    known_rule,
    models_of,
    name_of,
    op_model,
    shape_of,
    windows_of,
)
from qdialect.ops.model import traits_of
from qdialect.ops.unused_ops import erase_unread_results, erase_unused
from qdialect.ptq.calibration.keys import KEY_ATTRIBUTE
from qdialect.ptq.equalization.affine_reading import (
    Affine,
    AffineReader,
    ComputedConstants,
    Numbers,
)
from qdialect.ptq.equalization.factors import Moves
from qdialect.ptq.equalization.layers import LayerIndices, side_indices
from qdialect.ptq.equalization.repeated_matrices import multiply_once
from qdialect.ptq.float_graph.computed_functions import PRODUCTS
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import MemoryBudget, MemoryLimitError, memory_budget, paused_collection

_MOST_REPEATED: int = 1 << 16
"""The most elements of a constant that is computed although its sources are smaller."""

_MOST_BITS: int = 16
"""The width of the widest integers that are codes of activations."""

_MOST_NOISE: float = 10
"""
The most that noise of codes grows by if they are those before the arithmetic that a layer reads.

What arithmetic with a factor for each channel computes has about the same range in each.
"""

_PART: int = 1 << 20
"""The number of elements that are converted to double at a time."""


def fold_batch_normalization(
    module: ModuleOp, context: Context, *, of_codes: bool = False
) -> PassReport:
    """
    Merge arithmetic per channel into the weights and the biases of the layers beside it.

    Calls are inlined first. With `of_codes`, weights that are computed from integers become floats,
    unless other values of the module become integers, too, and factors that differ much between
    channels stay before a layer, whose input has one scale. The report has a record for each layer
    that is changed, and for each normalization that stays.
    """
    with paused_collection(), models_of(context), memory_budget() as budget:
        calls = inline_calls(module)
        erase_unread_results(module)
        once = multiply_once(module, context)
        merger = _Merger(module, context, budget, of_codes)
        for product in once:
            merger.report.tell(Outcome.MERGED, product, "a matrix was repeated for a batch")
        merger.run()
        merger.report.records[:0] = calls
        return merger.report


class _Step(NamedTuple):
    """An element-wise op after a layer."""

    op: Operation
    number: int
    """The number of the operand that it is a function of."""

    is_per_channel: bool
    moves: tuple[Moves, ...]
    """The shape ops between the layer and this one."""

    total: Affine
    """The function of the elements of the layer that the ops up to this one compute."""


class _Layer(NamedTuple):
    """A layer, and how its elements are moved to the value that arithmetic reads."""

    op: Operation
    contraction: Contraction
    path: tuple[tuple[Moves, int], ...] = ()
    """Shape ops and the operand of each that has its elements, the last op first."""

    def before(self, numbers: Numbers, step: _Step) -> Numbers | None:
        """Numbers of a step's result, as numbers of the layer; None if shape ops mix them."""
        for moves, number in (*((moves, 0) for moves in reversed(step.moves)), *self.path):
            if (pulled := moves.pulled(numbers)) is None:
                return None
            numbers = pulled[number]
        return _short(numbers)


class _Change(NamedTuple):
    """What a layer is to read, so that it computes what arithmetic does."""

    op: Operation
    weights: _Weights
    scaled: Operation
    bias: _BiasOperand | None
    offset: Numbers


class _Merger:
    def __init__(
        self, module: ModuleOp, context: Context, budget: MemoryBudget, of_codes: bool
    ) -> None:
        self._module = module
        self._context = context
        self._budget = budget
        self._resources = ResourceBlobs.of(context)
        self._graph = GraphReader(module, context, budget, has_parts=False).graph
        self._computed = ComputedConstants(module, context, self._graph)
        self._of_codes = of_codes and not any(map(self._is_rounding, module.walk()))
        self._reader = AffineReader(self._computed)
        self._refused = dict[Operation, Refusal]()
        """Why ops after a layer were not merged into it."""
        self.report = PassReport(verb="merged")

    def run(self) -> None:
        """Merge what can be merged, and report it and what cannot."""
        for op in list(self._module.walk()):
            layer = known_layer(op)
            if len(op.results) != 1 or op.parent is None:
                continue
            if not isinstance(layer, Contraction):
                if len(self._movement(op)[0]) > 1 and (layers := self._layers(op.results[0])):
                    self._merge_both(layers, (), self._steps_after(op))
                continue
            before, after = self._steps_before(op, layer), self._steps_after(op)
            self._merge_both([_Layer(op, layer)], before, after)
            with suppress(MemoryLimitError, Refusal):
                self._fold_weights(op, layer)
        self._fold_arithmetic()
        self._report_others()

    def _is_rounding(self, op: Operation) -> bool:
        """Whether an op makes integers, of a type for codes, of floats that are not constant."""
        if len(op.results) != 1 or op in self._computed:
            return False
        type = element_type_or_self(op.results[0].type)
        if not isinstance(type, IntegerType) or not 1 < type.bitwidth <= _MOST_BITS:
            return False
        return any(
            isinstance(element_type_or_self(operand.type), AnyFloat) for operand in op.operands
        )

    def _fold_arithmetic(self) -> None:
        """Write what ops compute from constants as constants, if these are not larger."""
        for op in [op for op in self._module.walk() if op not in self._computed]:
            for value in dict.fromkeys(op.operands):
                owner, parts = value.owner, tensor_parts(value.type)
                if parts is None or not isinstance(parts.element_type, AnyFloat):
                    continue
                makers = self._computed.ops(value)
                if all(map(self._keeps_elements, makers)):
                    continue
                if (new := self._constant_of(value, makers)) is not None:
                    value.replace_all_uses_with(self._placed(new, makers[-1], owner))
                    self._erase([owner])
                    self.report.tell(Outcome.MERGED, op, "an operand was computed from constants")

    def _keeps_elements(self, op: Operation) -> bool:
        """Whether an op computes no new numbers: it holds, moves, converts or repeats elements."""
        model = op_model(op)
        if elements_attribute_of(op) is not None or model.is_undefined or model.is_list:
            return True
        is_moved = known_movements(op, self._graph.operands) is not None
        return is_moved or model.repeats or is_cast(op)

    def _constant_of(self, value: SSAValue, makers: Sequence[Operation]) -> Operation | None:
        """
        A constant of what ops compute from floats.

        None if it is larger than these, or if a tensor of another type is read, such as codes.
        """
        constants = [op for op in makers if elements_attribute_of(op) is not None]
        tensors = [op for op in constants if tensor_parts(op.results[0].type) is not None]
        type = element_type_or_self(value.type)
        sources = [op for op in tensors if element_type_or_self(op.results[0].type) == type]
        sizes = [math.prod(shape_of(op.results[0])) for op in sources]
        others = [op for op in tensors if op not in sources]
        if not sizes or any(math.prod(shape_of(op.results[0])) != 1 for op in others):
            return None
        # Of a larger one, only a repeated number would be written.
        if math.prod(shape_of(value)) > max(*sizes, _MOST_REPEATED):
            return None
        result = self._computed.elements(value)
        if result is None or not result.elements.size:
            return None
        elements = result.elements
        first = elements.reshape(-1)[0]
        bits = Splat(first, elements.shape) if (elements == first).all() else elements
        if bits is elements and elements.size > max(sizes):
            return None
        new = constant_like(sources, bits, value.type, self._resources)
        new.results[0].name_hint = value.name_hint
        return new

    def _erase(self, gone: Iterable[Operation | Block]) -> None:
        """Erase unused ops that compute constants, and the ops that only they used."""
        pending = list(gone)
        while pending:
            op = pending.pop()
            if not isinstance(op, Operation) or op.parent is None:
                continue
            if op not in self._computed:
                erase_unused([op])
            elif all(result.first_use is None for result in op.results):
                pending += [operand.owner for inner in op.walk() for operand in inner.operands]
                Rewriter.erase_op(op)

    def _merge_both(
        self, layers: Sequence[_Layer], before: Sequence[_Step], after: Sequence[_Step]
    ) -> None:
        """Merge the arithmetic on both sides of layers, or of one side if they cannot both be."""
        trials = [(before, after), ((), after), (before, ())] if before and after else []
        for trial in trials or [(before, after)]:
            try:
                self._merge(layers, *trial)
                return
            except (MemoryLimitError, Refusal) as error:
                code = error.code if isinstance(error, Refusal) else RefusalCode.MEMORY
                refusal = Refusal(code, str(error))
                self._refused |= {step.op: refusal for steps in trial for step in steps}

    # Reading

    def _steps_before(self, op: Operation, layer: Contraction) -> list[_Step]:
        """The arithmetic before a layer, which alone reads each result, the last op first."""
        inputs = [op.operands[number] for number in layer.operands]
        inputs = [value for value in inputs if value.owner not in self._computed]
        if len(inputs) != 1:
            return []
        steps, moves, value = list[_Step](), tuple[Moves, ...](), inputs[0]
        total = _identity(value)
        while (maker := _only_maker(value)) is not None:
            read = {operand for operand in maker.operands if operand.owner not in self._computed}
            if len(read) != 1:
                break
            (operand,) = read
            affine = self._reader.affine(maker, operand) if operand.type == value.type else None
            if affine is not None:
                moved: Affine | None = affine.after(_identity(value))
                for move in moves:
                    moved = moved and moved.each(lambda numbers, move=move: move.moved([numbers]))
                if moved is None:
                    break
                total = total.after(moved)
                is_per_channel = any(numbers.size > 1 for numbers in affine)
                number = list(maker.operands).index(operand)
                steps.append(_Step(maker, number, is_per_channel, moves, total))
            elif (move := self._moves(maker, operand)) is not None:
                moves = (move, *moves)
            else:
                break
            value = operand
        while steps and not steps[-1].is_per_channel:
            steps.pop()
        return [] if self._is_of_others(value, total) else steps

    def _is_of_others(self, value: SSAValue, total: Affine) -> bool:
        """
        Whether arithmetic on a value is the bias of a layer, or ends a layer normalization.

        That one divides a value by another one that is no constant.
        """
        owner = value.owner
        if not isinstance(owner, Operation):
            return False
        if isinstance(known_layer(owner), Contraction):
            return bool((total.scale == 1).all())
        rule = known_rule(owner)
        read = {operand for operand in owner.operands if operand.owner not in self._computed}
        return rule is not None and bool(rule.functions & PRODUCTS) and len(read) > 1

    def _layers(self, value: SSAValue, *path: tuple[Moves, int]) -> list[_Layer]:
        """The layers that shape ops move and join to a value, which nothing else reads."""
        if (maker := _only_maker(value)) is None:
            return []
        if isinstance(layer := known_layer(maker), Contraction):
            return [_Layer(maker, layer, path)]
        operands, moves = self._movement(maker)
        parts = [self._layers(read, *path, (moves, at)) for at, read in enumerate(operands)]
        return [layer for part in parts for layer in part] if all(parts) else []

    def _steps_after(self, op: Operation) -> list[_Step]:
        """The arithmetic after an op, each op the only reader of the value before it."""
        steps, moves, value = list[_Step](), tuple[Moves, ...](), op.results[0]
        total: Affine | None = _identity(value)
        while total is not None and (reader := _only_reader(value)) is not None:
            (result,) = reader.results
            affine = self._reader.affine(reader, value) if value.type == result.type else None
            if affine is not None:
                total = affine.after(total)
                is_per_channel = any(numbers.size > 1 for numbers in affine)
                number = list(reader.operands).index(value)
                steps.append(_Step(reader, number, is_per_channel, moves, total))
            else:
                read = self._moves(reader, value)
                moves += () if read is None else (read,)
                total = None if read is None else total.each(lambda n, read=read: read.moved([n]))
            value = result
        # Numbers for all channels alone stay before a function: exporters write some so.
        while steps and not steps[-1].is_per_channel:
            reader = _only_reader(steps[-1].op.results[0])
            if reader is None or known_layer(reader) is not None:
                break
            steps.pop()
        return steps

    def _moves(self, op: Operation, value: SSAValue) -> Moves | None:
        """How an op moves the elements of a value, if its result has no others."""
        operands, moves = self._movement(op)
        return moves if list(operands) == [value] else None

    def _movement(self, op: Operation) -> tuple[Sequence[SSAValue], Moves]:
        """The values whose elements an op moves, and how; no values if its result has others."""
        read = None if is_statistics(op) else known_movements(op, self._graph.operands)
        if read is not None and read.padding is None:
            with suppress(MovementError, Refusal):
                moves = Moves(read.movements, [shape_of(value) for value in read.operands])
                if all(movement.values is not ValueSet.MORE for movement in read.movements):
                    return read.operands, moves
        return (), Moves((), ())

    def _report_others(self) -> None:
        """Report the arithmetic with a factor for each channel that stays, once for each chain."""
        seen = set[SSAValue]()
        for op in self._module.walk():
            if len(op.results) != 1 or is_statistics(op) or op in self._computed:
                continue
            for value in dict.fromkeys(op.operands):
                affine = self._reader.affine(op, value)
                if affine is None:
                    continue
                is_row = affine.scale.size == max(affine.scale.shape, default=1) > 1
                if is_row and value not in seen:
                    self.report.refuse(op, self._refused.get(op) or self._why_not(value))
                if is_row or value in seen:
                    seen.add(op.results[0])

    def _why_not(self, value: SSAValue) -> Refusal:
        """Why arithmetic on a value is not merged into a layer."""
        owner = value.owner
        while isinstance(owner, Operation):
            if isinstance(known_layer(owner), Contraction):
                reason = f"the result of '{name_of(owner)}' has other readers, or a recorded range"
                return Refusal(RefusalCode.USES, reason)
            if owner.operands and self._moves(owner, owner.operands[0]) is not None:
                owner = owner.operands[0].owner
                continue
            reason = f"'{name_of(owner)}' before it is no sum of products with constant weights"
            return Refusal(RefusalCode.UNKNOWN_OP, reason)
        return Refusal(RefusalCode.NOT_CONSTANT, "it reads an argument")

    # Writing

    def _merge(
        self, layers: Sequence[_Layer], before: Sequence[_Step], after: Sequence[_Step]
    ) -> None:
        """Merge arithmetic before a layer, and after layers; one may be empty. Raises Refusal."""
        changes = [self._change(layer, before, after) for layer in layers]
        gone = list[Operation | Block]()
        if None in changes:
            return
        behind, *_ = [self._write(change, gone) for change in changes if change is not None]
        for step in (*before, *after):
            for use in tuple(step.op.results[0].uses):
                use.operation.operands[use.index] = step.op.operands[step.number]
        if after:
            behind = after[-1].op.operands[after[-1].number]
        # The value has the numbers of the last op.
        last = after[-1].op if after else layers[0].op
        behind.name_hint = last.results[0].name_hint or behind.name_hint
        if (key := last.attributes.pop(KEY_ATTRIBUTE, None)) is not None:
            cast(Operation, behind.owner).attributes[KEY_ATTRIBUTE] = key
        names = Counter(name_of(step.op) for step in (*before[::-1], *after))
        told = ", ".join(f"{count} '{name}'" for name, count in names.items())
        for step in (*before, *reversed(after)):
            gone += [operand.owner for operand in step.op.operands]
            Rewriter.erase_op(step.op)
        ops = [layer.op for layer in layers]
        self._erase(owner for owner in gone if owner not in ops)
        for op in ops:
            self.report.tell(Outcome.MERGED, op, f"its weights and its bias have {told}")

    def _change(
        self, layer: _Layer, before: Sequence[_Step], after: Sequence[_Step]
    ) -> _Change | None:
        """What arithmetic changes of a layer; None if it is its bias already. Raises Refusal."""
        op, contraction, _ = layer
        (result,) = op.results
        total: Affine | None = _identity(result)
        if after:
            total = after[-1].total.each(lambda numbers: layer.before(numbers, after[-1]))
        if total is None:
            raise Refusal(RefusalCode.ARITHMETIC, "shape ops after the layer mix its channels")
        bias = contraction.bias
        number = None if bias is None or bias >= len(op.operands) else bias
        is_vector = number is not None and _rank(op.operands[number]) != _rank(result)
        is_bias = len(after) < 2 and (total.scale == 1).all() and not is_vector
        if not before and (is_bias or not after):
            return None
        weights = self._weights(op, contraction)
        indices = side_indices(op, contraction, weights.side)
        rows = indices.rows.read(total.scale)
        if rows is None:
            reason = f"a channel of '{name_of(op)}' has several factors"
            raise Refusal(RefusalCode.ARITHMETIC, reason)
        if before:
            columns, sums = self._inputs(op, contraction, weights, indices, before[-1].total)
            rows, total = rows * columns, total.after(Affine(np.ones(()), sums))
        dialect = name_of(op).partition(".")[0]
        traits = traits_of(dialect)
        is_written = traits is not None and traits.arithmetic is not None
        if number is None and not is_written and not isinstance(result.type, TensorType):
            raise Refusal(RefusalCode.UNKNOWN_OP, f"no sums are written in '{dialect}'")
        offset, added_to = total.offset, None
        if number is not None:
            added_to = _BiasOperand(op, number, contraction, weights.side)
            if not added_to.is_missing:
                if (numbers := self._computed.numbers(added_to.value)) is None:
                    reason = f"operand #{number} of '{name_of(op)}' is not constant"
                    raise Refusal(RefusalCode.NOT_CONSTANT, reason)
                offset = total.scale * added_to.placed(numbers) + offset
            if is_vector and offset.size not in (1, added_to.length):
                raise Refusal(RefusalCode.ARITHMETIC, "the offsets vary within a channel")
        if not all(np.isfinite(numbers).all() for numbers in (*total, offset)):
            raise Refusal(RefusalCode.NUMERICS, "its numbers are not finite")
        return _Change(op, weights, self._scaled(op, weights, rows), added_to, offset)

    def _write(self, change: _Change, gone: list[Operation | Block]) -> SSAValue:
        """The result of a layer with a change; `gone` are the makers of what it no longer reads."""
        op, weights, scaled, bias, offset = change
        (result,) = op.results
        gone.append(self._read_weights(op, weights, scaled))
        if bias is not None:
            if offset.any() or not bias.is_missing:
                gone.append(bias.value.owner)
                op.operands[bias.number] = self._bias(bias, offset, weights.sources)
        elif offset.any():
            # Not those of the sum, and of the lengths that it is written with.
            uses = tuple(result.uses)
            (result,) = added(name_of(op).partition(".")[0], result, offset, self._context).results
            for use in uses:
                use.operation.operands[use.index] = result
        return result

    def _inputs(
        self,
        op: Operation,
        layer: Contraction,
        weights: _Weights,
        indices: LayerIndices,
        total: Affine,
    ) -> tuple[Numbers, Numbers]:
        """The factors of weights, and the sums of offsets, for a function of the input."""
        columns, offsets = map(indices.columns.read, total)
        if columns is None or offsets is None:
            reason = f"the factors of an input of '{name_of(op)}' vary along an axis of no weights"
            raise Refusal(RefusalCode.ARITHMETIC, reason)
        if self._of_codes:
            self._budget.reserve(8 * weights.numbers.size)
            squares, gains = np.square(weights.numbers, dtype="f8"), columns**2
            if (squares * gains).mean() > _MOST_NOISE * gains.min() * squares.mean():
                reason = f"codes of the input of '{name_of(op)}' would be coarse for some channels"
                raise Refusal(RefusalCode.NUMERICS, reason)
        if not offsets.any():
            return columns, np.zeros(())
        side = weights.side
        summed = {*side.other_labels} - {*side.labels, WINDOW}
        if not summed <= {*"".join(side.result_labels)} or any(
            max(window.low, window.high) > 0 or window.base_dilation > 1
            for window in windows_of(op, layer)
        ):
            reason = f"offsets are not added to the zeros that '{name_of(op)}' pads with"
            raise Refusal(RefusalCode.ARITHMETIC, reason)
        numbers = np.broadcast_to(weights.numbers, shape_of(op.operands[side.operand]))
        self._budget.reserve(8 * numbers.size)
        return columns, indices.rows.reduced(numbers * offsets, np.add)

    def _weights(self, op: Operation, layer: Contraction) -> _Weights:
        """The operand that is constant, and its elements. Raises Refusal."""
        for number in (1, 0):
            side = layer.side(number)
            value = op.operands[side.operand]
            type = element_type_or_self(value.type)
            if not isinstance(type, AnyFloat):
                continue
            if type != element_type_or_self(op.results[0].type):
                reason = f"weights of '{type}' are less precise than the sums of '{name_of(op)}'"
                raise Refusal(RefusalCode.NUMERICS, reason)
            constant = self._known(op, value)
            is_computed = constant is None or (self._of_codes and constant.casts)
            computed = self._computed_weights(side, value, type) if is_computed else None
            if computed is not None:
                return computed
            if constant is None:
                continue
            if constant.casts or constant.is_quantized:
                reason = f"the weights of '{name_of(op)}' are quantized"
                raise Refusal(RefusalCode.QUANTIZED, reason)
            numbers = float_elements(self._graph.values_of(constant), type)
            return _Weights(side, numbers, constant.provenance.sources)
        raise Refusal(RefusalCode.NOT_CONSTANT, f"the weights of '{name_of(op)}' are not constant")

    def _known(self, op: Operation, value: SSAValue) -> MovedConstant | None:
        """The constant that shape ops and casts make an operand of; None if others do."""
        try:
            return self._graph.known(value, op)
        except Refusal:
            return None

    def _computed_weights(self, side: Side, value: SSAValue, type: AnyFloat) -> _Weights | None:
        """Weights that ops other than shape ops compute; None if they are larger than before."""
        sources, size = list[Operation](), 0
        for op in self._computed.ops(value):
            parts = tensor_parts(op.results[0].type)
            if parts is None or elements_attribute_of(op) is None:
                continue
            if parts.element_type == type:
                sources.append(op)
                size += math.prod(parts.shape)
            elif self._of_codes and isinstance(parts.element_type, IntegerType):
                size += math.prod(parts.shape)
        result = self._computed.elements(value) if sources else None
        if result is None or result.elements.size > size:
            return None
        return _Weights(side, float_elements(result.elements, type), sources, value.name_hint)

    def _fold_weights(self, op: Operation, layer: Contraction) -> None:
        """Write weights that ops other than shape ops compute as a constant."""
        for number, operand in enumerate(layer.operands):
            value, type = op.operands[operand], element_type_or_self(op.operands[operand].type)
            if value.owner not in self._computed or not isinstance(type, AnyFloat):
                continue
            constant = self._known(op, value)
            if constant is not None and not (self._of_codes and constant.casts):
                continue
            if (weights := self._computed_weights(layer.side(number), value, type)) is not None:
                scaled = self._scaled(op, weights, np.ones(()))
                self._erase([self._read_weights(op, weights, scaled)])
                self.report.tell(Outcome.MERGED, op, "its weights were computed from constants")

    def _scaled(self, op: Operation, weights: _Weights, rows: Numbers) -> Operation:
        """A constant of the weights times factors, in no block yet. Raises Refusal."""
        value = op.operands[weights.side.operand]
        shape, type = shape_of(value), cast(AnyFloat, element_type_or_self(value.type))
        bits = np.empty(shape, element_dtype(type))
        self._budget.reserve(bits.nbytes)
        numbers, factors = (
            np.atleast_1d(np.broadcast_to(part, shape)) for part in (weights.numbers, rows)
        )
        format = FLOAT_FORMATS[type.name]
        step = max(1, _PART // max(1, math.prod(shape[1:])))
        for start in range(0, len(numbers), step):
            part = numbers[start : start + step].astype("f8") * factors[start : start + step]
            codes = format.nearest_bits(part)
            if not np.isfinite(format.decode(codes)).all():
                raise Refusal(RefusalCode.NUMERICS, "weights would not be finite")
            np.atleast_1d(bits)[start : start + step] = codes.astype(bits.dtype)
        tensor = tensor_like(value.type, shape, type)
        new = constant_like(weights.sources, bits, tensor, self._resources)
        new.results[0].name_hint = weights.name or new.results[0].name_hint
        return new

    def _read_weights(
        self, op: Operation, weights: _Weights, scaled: Operation
    ) -> Operation | Block:
        """Let a layer read other weights, and return the maker of those that it has read."""
        owner = op.operands[weights.side.operand].owner
        op.operands[weights.side.operand] = self._placed(scaled, weights.sources[0], owner)
        return owner

    def _placed(self, new: Operation, like: Operation, behind: Any) -> SSAValue:
        new.location = like.location
        # Keys are unique, and the old constant may stay.
        new.attributes.pop(KEY_ATTRIBUTE, None)
        Rewriter.insert_op(new, InsertPoint.after(behind))
        return new.results[0]

    def _bias(self, bias: _BiasOperand, offset: Numbers, sources: Sequence[Operation]) -> SSAValue:
        """The new value of the operand that is added to the sums."""
        op, like, owner = bias.op, bias.value, bias.value.owner
        if not bias.is_vector:
            return initial(like, offset, self._context, op)
        if bias.is_missing:
            like = op.operands[bias.side.operand]
        elif isinstance(owner, Operation) and elements_attribute_of(owner) is not None:
            sources = [owner]
        numbers = np.broadcast_to(offset.reshape(-1), [bias.length])
        type = cast(AnyFloat, element_type_or_self(like.type))
        bits = FLOAT_FORMATS[type.name].nearest_bits(numbers).astype(element_dtype(type))
        tensor = tensor_like(like.type, numbers.shape, type)
        new = constant_like(sources, bits, tensor, self._resources)
        if bias.is_missing:
            new.results[0].name_hint = "bias"
        return self._placed(new, op, sources[0])


class _Weights(NamedTuple):
    """The constant operand of a layer."""

    side: Side
    numbers: Numbers
    sources: Sequence[Operation]
    """The constants that it is made of."""

    name: str | None = None
    """The name of what is computed from them."""


class _BiasOperand:
    """The operand that a layer adds to its sums: a vector of channels, or sums to start from."""

    def __init__(self, op: Operation, number: int, layer: Contraction, side: Side) -> None:
        """Raises Refusal if the axis of a vector is not known."""
        self.op, self.number, self.side = op, number, side
        self.value = op.operands[number]
        self.is_missing = tensor_parts(self.value.type) is None
        """Whether it is a value that stands for no bias."""
        shape = shape_of(op.results[0])
        self.is_vector = _rank(self.value) != len(shape)
        axes = [
            axis
            for axis, label in enumerate(layer.result)
            if any(letter in side.labels for letter in label.strip("()*"))
        ]
        if self.is_vector and (len(axes) != 1 or _rank(self.value) not in (1, None)):
            reason = f"the axis of operand #{number} of '{name_of(op)}' is not known"
            raise Refusal(RefusalCode.UNKNOWN_OP, reason)
        self.length = shape[axes[0]] if axes else 1
        """The number of channels."""
        self._line = [-1 if self.is_vector and axis in axes else 1 for axis in range(len(shape))]

    def placed(self, numbers: Numbers) -> Numbers:
        """Its numbers along the axes of the result."""
        return numbers.reshape(self._line) if self.is_vector else numbers


def _identity(value: SSAValue) -> Affine:
    """The function that changes no element of a value."""
    ones = np.ones((1,) * (_rank(value) or 0))
    return Affine(ones, 0 * ones)


def _short(numbers: Numbers) -> Numbers:
    """Numbers with length 1 along each axis along which they are equal."""
    for axis in range(numbers.ndim):
        first = numbers.take([0], axis) if numbers.shape[axis] else numbers
        numbers = first if (numbers == first).all() else numbers
    return numbers


def _rank(value: SSAValue) -> int | None:
    parts = tensor_parts(value.type)
    return None if parts is None else len(parts.shape)


def _only_reader(value: SSAValue) -> Operation | None:
    """The op that alone reads a value, once, in the block that has it."""
    uses = list(value.uses)
    if len(uses) != 1 or len(uses[0].operation.results) != 1:
        return None
    owner = value.owner
    is_beside = isinstance(owner, Operation) and uses[0].operation.parent is owner.parent
    return uses[0].operation if is_beside else None


def _only_maker(value: SSAValue) -> Operation | None:
    """The op with a value as its only result, which has one reader, in the same block."""
    maker = value.owner
    if not isinstance(maker, Operation) or len(maker.results) != 1:
        return None
    return None if _only_reader(value) is None else maker
