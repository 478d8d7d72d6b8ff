"""
Quantized modules as ops on integers: what is between `quant.dcast` and `quant.qcast` acts on codes.

Each `quant.qcast` is one rounding. What computes its operand is a sum of products, a sum of two
values, a pool, a clamp, a movement, or a function of one number, by what the graph of the module
says of it; no op is known by name. What is none of these stays float, between its casts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import InterpretationError

from qdialect.algebra.movement import DYNAMIC, Reshape, Shape
from qdialect.algebra.padding import Pad
from qdialect.check.interpreters import ModuleInterpreter, TypedArray
from qdialect.dialects import LARGER, SMALLER
from qdialect.dialects.arrays.values import dequantized, dtype_of
from qdialect.dialects.quant.casts import (
    DequantizeCastOp,
    QuantizeCastOp,
    RequantizeOp,
    StorageCastOp,
)
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.folding.report import Outcome, PassReport
from qdialect.integers.forms import Codes, Form, Goal, Limits
from qdialect.integers.products import Factor, Layer, check_sums, padded
from qdialect.integers.rescaling import Addend, line_of
from qdialect.ir.errors import message_of
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import captured_by, dependencies_first, insert_after, read_by
from qdialect.ir.value_types import element_type_or_self, shape_of, with_element_type
from qdialect.lowering.storage_ops import (
    STORAGE_OPS,
    ContextBuilder,
    Length,
    OpT,
    move_elements,
    unknown_length,
    unreadable_storage,
)
from qdialect.ops.along_axis import is_statistics
from qdialect.ops.fields import Contraction, PoolWindow, Reduction, ShapeOpModel
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    model_of,
    models_of,
    op_model,
    read_movements,
    static_shape_of,
    windows_of,
)
from qdialect.ops.readers import last_step, named_function
from qdialect.ops.unused_ops import erase_unused
from qdialect.ptq.float_graph.computed_functions import Computations, Curve
from qdialect.ptq.float_graph.flow_graph import Bias, FlowGraph, Node, Use, result_axes
from qdialect.ptq.float_graph.flow_reading import read_nodes, unknown_bias, value_graph
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import MemoryLimitError, memory_budget


@dataclass(repr=False)
class IntegerReport(PassReport):
    """The report of the lowering."""

    verb: str = "lowered to integers"

    bits: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """For casts of sums, the bits that the largest sum has, with its sign."""


def lower_to_integers(
    module: ModuleOp, context: Context, form: Callable[[ContextBuilder], Form]
) -> IntegerReport:
    """
    Replace each `quant.qcast` and `quant.requantize` of a known function by ops on codes.

    What is refused is left as it is, and in the report with the reason; what computes with floats
    on purpose, such as a softmax, with the code `kept`.
    """
    with memory_budget() as budget, models_of(context):
        graph = value_graph(module, context, budget, has_reshaped_layers=True, needs_integers=False)
        lowering = _Lowering(read_nodes(graph), form, context)
        lowering.run()
    return lowering.report


_MOST_WIDTH: Final = 16
_MOST_OPS: Final = 256
_MOST_STEPS: Final = 1 << 40
"""Tables are computed without a limit of steps."""

_SUM: Final = "numpy:add"


class _Builder(ContextBuilder):
    """A builder that notes the ops that it inserts."""

    def __init__(self, op: Operation, context: Context, inserted: list[Operation]) -> None:
        super().__init__(InsertPoint.before(op), op.location, context)
        self._inserted = inserted

    @override
    def insert(self, op: OpT) -> OpT:
        self._inserted.append(op)
        return super().insert(op)


@dataclass(eq=False)
class _Lowering:
    """One run of the pass."""

    graph: FlowGraph
    new_form: Callable[[ContextBuilder], Form]
    context: Context
    report: IntegerReport = field(default_factory=IntegerReport)
    storage: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The codes, as integers, of each quantized value."""
    rounded: dict[tuple[SSAValue, Limits], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, Limits], SSAValue]
    )
    """The codes between limits that a value is rounded to, for the cast that is being lowered."""
    inserted: list[Operation] = field(default_factory=list[Operation])
    note: str = ""
    """What is told of the cast that is being lowered."""
    bits: int = 0
    """The bits of its sums; 0 if it has none."""

    def __post_init__(self) -> None:
        self.computations = Computations(self.graph)
        resources = ResourceBlobs.of(self.context)
        self.interpreter = ModuleInterpreter(self.graph.module, resources, _MOST_STEPS)

    def run(self) -> None:
        """Lower all casts, in the order of the module."""
        casts = [
            op for op in self.graph.module.walk() if isinstance(op, QuantizeCastOp | RequantizeOp)
        ]
        for op in casts:
            try:
                self._lower(op)
            except Refusal as refusal:
                self.report.refuse(op, refusal)
            except MemoryLimitError as error:
                self.report.refuse(op, Refusal(RefusalCode.MEMORY, str(error)))
            except RecursionError:
                reason = "it stays float: too many ops are between casts"
                self.report.refuse(op, Refusal(RefusalCode.KEPT, reason))
        # A layer may be refused after some of its ops were made.
        erase_unused([*casts, *self.inserted])

    def _lower(self, op: QuantizeCastOp | RequantizeOp) -> None:
        """Replace a cast by one of computed codes. Raises Refusal."""
        read = None if isinstance(op, RequantizeOp) else _recorded(op.input)
        if read is not None and isinstance(read, BlockArgument):
            # It is quantized where it comes in.
            return
        type = _checked(op.result)
        if 0 in _shape(op.result):
            raise Refusal(RefusalCode.KEPT, "it stays float: it has no elements")
        self.rounded = {}
        self.builder = _Builder(op, self.context, self.inserted)
        self.form = self.new_form(self.builder)
        goal = Goal(type, (type.storage_type_min, type.storage_type_max))
        self.note, self.bits = "codes are moved", 0
        if read is None:
            value = self._rescaled(self._stored(op.input), goal)
        else:
            value = self._quantized(read, goal)
        result = self.builder.insert(StorageCastOp(value, op.result.type)).result
        result.name_hint = op.result.name_hint
        if value.name_hint is None:
            value.name_hint = op.result.name_hint
        self.report.tell(Outcome.LOWERED, op, self.note, result)
        if self.bits:
            self.report.bits[op] = self.bits
        op.result.replace_all_uses_with(result)

    # Values, as codes

    def _stored(self, value: SSAValue) -> Codes:
        """A quantized value as integers. Raises Refusal."""
        type = _checked(value)
        if value not in self.storage:
            op = StorageCastOp(value, with_element_type(value.type, _signless(type)))
            insert_after(op, value)
            self.inserted.append(op)
            self.storage[value] = op.result
        return Codes(type, self.storage[value])

    def _codes(self, read: SSAValue) -> Codes:
        """The codes that a number is read from, without a rounding. Raises Refusal."""
        owner = _recorded(read).owner
        if isinstance(owner, DequantizeCastOp):
            return self._stored(owner.input)
        node = self.graph.makers.get(_recorded(read))
        if node is None or not node.movements or len(node.uses) != 1:
            raise Refusal(RefusalCode.CASTS, "it reads a value that has no codes")
        codes = self._codes(node.uses[0].value)
        goal = Goal(codes.type, codes.limits)
        return Codes(codes.type, self._moved(node, goal, [codes.value]))

    def _quantized(self, read: SSAValue, goal: Goal) -> SSAValue:
        """The codes that numbers are rounded to. Raises Refusal."""
        read = _recorded(read)
        # Shape ops may read a value more than once.
        key = read, goal.limits
        if key not in self.rounded:
            self.rounded[key] = self._rounded(read, goal)
        return self.rounded[key]

    def _rounded(self, read: SSAValue, goal: Goal) -> SSAValue:
        if isinstance(read.owner, DequantizeCastOp) and not self.graph.is_constant(read):
            return self._rescaled(self._stored(read.owner.input), goal)
        if self.graph.is_constant(read):
            return self._constant(read, goal)
        node = self.graph.makers.get(read)
        if node is None:
            raise Refusal(RefusalCode.KEPT, "it stays float: its function is not known")
        if isinstance(node.layer, Contraction):
            return self._layer(node, goal)
        if node.movements:
            return self._moved(node, goal)
        clamped = [use for use in node.uses if not self.graph.is_computed(use.value)]
        if node.is_clamp and len(clamped) == 1:
            return self._clamped(node, clamped[0], goal)
        reduction = _reduction_of(node.op)
        if reduction is not None:
            return self._reduced(node.op, reduction, goal)
        function, plain = _binary(node), (self.graph.stored(use.value) for use in node.uses)
        # With a constant that is not quantized, it is a function of one number.
        if function is not None and len(node.uses) == 2 and not any(plain):
            return self._combined(node, function, goal)
        return self._function(node, goal)

    def _constant(self, read: SSAValue, goal: Goal) -> SSAValue:
        """The codes of constant numbers."""
        numbers = self.graph.dequantized(read)
        if numbers is None:
            raise Refusal(RefusalCode.NOT_CONSTANT, "a constant that it reads is not known")
        codes = goal.stored(goal.codes_of(numbers))
        shape, type = static_shape_of(read), goal.signless
        if codes.size > 1:
            return line_of(self.builder, np.broadcast_to(codes, shape), range(len(shape)), type)
        init, code = self.builder.empty(shape, type), int(codes.item())
        return self.builder.generic(init, [], [], lambda inner, _: inner.integer(code, type))

    def _rescaled(self, codes: Codes, goal: Goal) -> SSAValue:
        """Codes of another type, of the same shape."""
        is_same = (codes.scale, codes.zero_point) == (goal.scale, goal.zero_point)
        if is_same and codes.width == goal.width:
            low, high = codes.limits
            if goal.limits[0] <= low and high <= goal.limits[1]:
                return codes.value
            if codes.is_unsigned == goal.is_unsigned:
                return self.form.within(codes.value, goal)
        self.note = "codes are rescaled"
        addend = codes.addend(range(codes.rank), _all(codes.rank, codes.scale / goal.scale))
        return self.form.rescaled([addend], self.builder.lengths(codes.value), goal)

    # Movements

    def _moved(self, node: Node, goal: Goal, values: Sequence[SSAValue] | None = None) -> SSAValue:
        """
        The codes that a shape op moves.

        Rounding is the same before and behind it. `values` are given if nothing is rounded.
        """
        op = node.op
        model = cast("ShapeOpModel", model_of(op))
        read = read_movements(op, model, self.graph.folding.operands)
        padding = 0.0 if read.padding is None else self.computations.number(read.padding)
        if padding is None or math.isnan(padding):
            raise Refusal(RefusalCode.PADDING, "it pads with a number that is not known")
        if values is None:
            values = [self._quantized(operand, goal) for operand in read.operands]
            code = int(goal.codes_of(np.array(padding)))
        elif padding:
            raise Refusal(RefusalCode.PADDING, "it pads with a number that is not zero")
        else:
            code = goal.zero_point
        for movement in read.movements:
            shapes = [_shape(value) for value in values]
            if isinstance(movement, Pad):
                gaps = [gap + 1 for gap in movement.gaps]
                (value,) = values
                moved = padded(self.builder, value, (movement.low, movement.high, gaps), code)
            else:
                if type(movement) not in STORAGE_OPS or unknown_length(movement, shapes):
                    raise Refusal(RefusalCode.DYNAMIC_SHAPE, "no ops are known for its movement")
                shape = movement.result_shape(*shapes)
                moved = move_elements(
                    self.builder, movement, values, TensorType(goal.signless, shape)
                )
            values = [moved]
        return self.builder.cast(values[0], shape_of(op.results[0].type) or ())

    # Functions of elements

    def _clamped(self, node: Node, use: Use, goal: Goal) -> SSAValue:
        """The codes of a clamp: those of its operand between those of its limits."""
        result = node.results[0]
        curve = Curve(self.computations, self.graph.value(use.value))
        ends = curve.at(result, np.array([-np.inf, np.inf]))
        if not curve.is_exact:
            raise Refusal(RefusalCode.KEPT, "it stays float: its limits differ between elements")
        if _shape(use.value) != _shape(result):
            raise Refusal(RefusalCode.KEPT, "it stays float: it broadcasts what it clamps")
        low, high = goal.codes_of(ends)
        return self._quantized(use.value, replace(goal, limits=(int(low), int(high))))

    def _combined(self, node: Node, function: str, goal: Goal) -> SSAValue:
        """A sum, a difference or a product of two values."""
        uses = _in_order(node)
        lengths = self._lengths_of(node.op, uses)
        rank = len(lengths)
        codes = [self._codes(use.value) for use in uses]
        axes = [_axes_in_result(use) for use in uses]
        self.note = f"{function} of codes"
        if function == "mul":
            one, other = codes
            value = self.form.multiplied(codes, axes, lengths)
            factor = _all(rank, one.scale * other.scale / goal.scale)
            addends = [Addend(value, range(rank), factor, 0, one.magnitude * other.magnitude)]
        else:
            signs = 1, -1 if function == "sub" else 1
            addends = [
                part.addend(places, _all(rank, sign * (part.scale / goal.scale)))
                for part, places, sign in zip(codes, axes, signs, strict=True)
            ]
        return self.form.rescaled(addends, lengths, goal)

    def _lengths_of(self, op: Operation, uses: Sequence[Use]) -> Sequence[Length]:
        """The lengths of a result that has an axis of an operand in each place."""
        shape = _shape(op.results[0])
        lengths: list[Length] = [*shape]
        for use in uses:
            for axis, place in enumerate(_axes_in_result(use)):
                if place is not None and lengths[place] == DYNAMIC:
                    lengths[place] = self.builder.length(use.value, axis)
        if DYNAMIC in lengths:
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length of its result is not known")
        return lengths

    def _function(self, node: Node, goal: Goal) -> SSAValue:
        """The codes of a function of one number, read from a table. Raises Refusal."""
        result = node.results[0]
        cone, entries = self._cone(result)
        if len(entries) != 1:
            raise Refusal(RefusalCode.KEPT, "it stays float: it is a function of several values")
        (entry,) = entries
        curve = Curve(self.computations, self.graph.value(entry))
        try:
            curve.at(result, np.zeros(1))
        except Refusal:
            curve.is_exact = False
        keeps = all(
            self.computations.keeps_places(op) and _shape(op.results[0]) == _shape(entry)
            for op in cone
            if not self.graph.is_computed(op.results[0]) and op.operands
        )
        if not (keeps and curve.is_exact):
            raise Refusal(RefusalCode.KEPT, "it stays float: no function of one number is known")
        codes = self._codes(entry)
        table = self._table(cone, entry, codes.type, result, goal)
        low, high = codes.limits
        own = np.arange(low, high + 1)
        is_alike = (codes.width, codes.is_unsigned) == (goal.width, goal.is_unsigned)
        if is_alike and (table == own.clip(*goal.limits)).all():
            return self.form.within(codes.value, goal)
        self.note = f"a table of {len(table)} codes"
        return self.form.looked_up(codes, table, goal)

    def _cone(self, result: SSAValue) -> tuple[Sequence[Operation], Sequence[SSAValue]]:
        """The ops that compute a value from dequantized ones and constants, in order, and these."""
        entries, ops = dict[SSAValue, None](), dict[Operation, None]()
        pending = [result]
        while pending:
            value = pending.pop()
            owner = value.owner
            is_known = self.graph.is_computed(value)
            if isinstance(owner, Block) or (isinstance(owner, DequantizeCastOp) and not is_known):
                entries[value] = None
                continue
            if owner not in ops:
                if len(ops) >= _MOST_OPS:
                    raise Refusal(RefusalCode.KEPT, "it stays float: too many ops compute it")
                ops[owner] = None
                pending += read_by(owner)

        def makers(op: Operation) -> Sequence[Operation]:
            owners = [value.owner for value in read_by(op)]
            return [owner for owner in owners if isinstance(owner, Operation) and owner in ops]

        return [*dependencies_first(ops, makers)], [*entries]

    def _table(
        self,
        cone: Sequence[Operation],
        entry: SSAValue,
        type: UniformQuantizedType,
        result: SSAValue,
        goal: Goal,
    ) -> NDArray[np.int64]:
        """For each code of a type, the code of what ops compute from its number."""
        own = np.arange(type.storage_type_min, type.storage_type_max + 1)
        shape = tuple(_MOST_OPS if n == DYNAMIC else n for n in _shape(entry))
        size = math.prod(shape)
        if not size:
            raise Refusal(RefusalCode.KEPT, "it stays float: it has no elements")
        parts: list[NDArray[np.int64]] = []
        for first in range(0, len(own), size):
            part = own[first : first + size]
            filled = np.resize(part, shape)
            codes = type.storage_format.wrap(filled).astype(dtype_of(type))
            given = TypedArray.of(codes, TensorType(type, shape))
            try:
                known = {entry: dequantized(given, entry.type)}
                for op in cone:
                    self.interpreter.set_values([(at, known[at]) for at in captured_by(op)])
                    inputs = tuple(known[operand] for operand in op.operands)
                    results = self.interpreter.run_one_op(op, inputs).values
                    known.update(zip(op.results, results, strict=True))
            except InterpretationError as error:
                reason = f"it stays float: {message_of(error)}"
                raise Refusal(RefusalCode.KEPT, reason) from None
            numbers = known[result].numbers.reshape(-1)[: len(part)]
            parts.append(goal.codes_of(numbers))
        return np.concatenate(parts)

    # Sums of products

    def _layer(self, node: Node, goal: Goal) -> SSAValue:
        """The codes of a sum of products, with its bias."""
        op = node.ops[0]
        contraction = cast(Contraction, node.layer)
        for inner, outer in pairwise(node.ops):
            if inner.results[0] not in map(_recorded, outer.operands):
                raise Refusal(RefusalCode.CASTS, "its sums are rounded before its bias is added")
        if unknown_bias(self.graph, node) is not None:
            raise Refusal(RefusalCode.BIAS_SCALE, "what it adds to its sums is computed")
        operands = [op.operands[at] for at in contraction.operands]
        known = next((at for at in (1, 0) if self.graph.is_constant(operands[at])), None)
        unsigned = 1 if known == 0 else 0
        factors = [
            self._weights(value)
            if at == known
            else self._activation(value, is_first=at == unsigned)
            for at, value in enumerate(operands)
        ]
        bias = None
        if node.bias is not None and known is not None:
            bias = self._bias(node.bias, factors[known], float(factors[1 - known].scales.item()))
        one, other = factors
        layer = Layer(one, other, contraction, windows_of(op, contraction), bias)
        sums = self.form.product(layer)
        factor = sums.scales / goal.scale
        most = int(sums.magnitudes.max(initial=0))
        addend = Addend(sums.value, range(factor.ndim), factor, 0, most)
        codes = self.form.rescaled([addend], self.builder.lengths(sums.value), goal)
        low, high = goal.type.storage_type_min, goal.type.storage_type_max
        error = sums.error(factor, high - low + 1 + abs(goal.zero_point))
        self.bits = max(self.bits, most.bit_length() + 1)
        self.note = (
            f"sums of {sums.terms} products have {self.bits} bits, and floats differ "
            f"by up to {error:.2g} before they are rounded"
        )
        return self._as_declared(sums.finish(codes), node.op, goal)

    def _activation(self, read: SSAValue, *, is_first: bool) -> Factor:
        """A computed operand of a sum of products."""
        codes = self._codes(read)
        is_unsigned = is_first and self.form.reads_unsigned and codes.width == 8
        value, zero = self.form.plain(codes, is_unsigned=is_unsigned)
        ones = [1] * codes.rank
        scales = np.full(ones, codes.scale)
        return Factor(np.full(ones, zero), scales, codes.magnitude, value, is_unsigned=is_unsigned)

    def _weights(self, read: SSAValue) -> Factor:
        """A constant operand of a sum of products."""
        stored = self.graph.quantized(read)
        if stored is None:
            raise Refusal(RefusalCode.CASTS, "its weights are not quantized")
        parameters, codes = stored
        storage = parameters.storage
        if storage.codebook is not None or storage.width > _MOST_WIDTH:
            raise Refusal(RefusalCode.STORAGE, f"its weights are stored as {storage.name}")
        scales, zeros = parameters.expand()
        codes = np.broadcast_to(codes, static_shape_of(read))
        dtype = np.int16 if storage.width <= 8 else np.int32
        numbers = storage.numbers(codes).astype(dtype) - zeros.astype(dtype)
        # Integers as products read them are signed.
        half = 0 if storage.signed or storage.width not in (8, 16) else 1 << (storage.width - 1)
        return Factor(zeros - half, scales, int(np.abs(numbers).max(initial=0)), numbers=numbers)

    def _bias(self, bias: Bias, weights: Factor, scale: float) -> NDArray[np.int64] | None:
        """The codes of a bias, on the axes of the weights. Raises Refusal."""
        value = bias.use.value
        stored = self.graph.quantized(value)
        if stored is None:
            numbers = self.graph.dequantized(value)
            if numbers is not None and not numbers.any():
                return None
            raise Refusal(RefusalCode.BIAS_SCALE, "its bias is not quantized")
        parameters, codes = stored
        scales, zeros = parameters.expand()
        wide = np.broadcast_to(codes.astype(np.int64), static_shape_of(value))
        own, other = (_on_axes(part, bias, weights.shape) for part in (scales, wide))
        wanted = parameters.expressed.round(weights.scales * scale)
        if zeros.any() or (own != wanted).any():
            raise Refusal(
                RefusalCode.BIAS_SCALE, "the scale of its bias is not the product of the others"
            )
        return other

    # Pools

    def _reduced(self, op: Operation, reduction: Reduction, goal: Goal) -> SSAValue:
        """The codes of a largest or a least element, of a sum, or of a mean."""
        operand, function = op.operands[0], reduction.function
        initial = None
        if reduction.initial is not None:
            start = op.operands[reduction.initial]
            initial = self.graph.filled_with(start)
            if initial is None:
                initial = self.computations.number(start)
            if initial is None or math.isnan(initial):
                raise Refusal(RefusalCode.NOT_CONSTANT, "what it starts from is not known")
        windows = reduction.windows
        is_padded = any(window.low or window.high for window in windows.values())
        if function in LARGER | SMALLER:
            is_largest = function in LARGER
            if initial is None:
                initial = -math.inf if is_largest else math.inf
            code = int(goal.codes_of(np.array(initial)))
            value = self._quantized(operand, goal)
            self.note = f"the {'largest' if is_largest else 'least'} of codes"
            pooled = self.form.largest(value, windows, code, goal, is_least=not is_largest)
            return self._as_declared(pooled, op, goal)
        if function != _SUM or initial:
            raise Refusal(
                RefusalCode.KEPT, "it stays float: it combines elements by no known function"
            )
        codes = self._codes(operand)
        shape = _shape(codes.value)
        count = math.prod(window.size for window in windows.values())
        if DYNAMIC in (shape[axis] for axis in windows):
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "the number of elements is not known")
        if reduction.is_mean and is_padded:
            raise Refusal(RefusalCode.PADDING, "the number of elements differs between windows")
        # Zeros are subtracted behind the sums.
        check_sums(np.array(count * max(codes.magnitude, *map(abs, codes.limits))), 32)
        total, zero = self.form.total(codes, windows, count)
        rank = len(_shape(total))
        divisor = count if reduction.is_mean else 1
        factor = _all(rank, codes.scale / (goal.scale * divisor))
        most = codes.magnitude * count
        self.note = f"sums of {count} codes"
        self.bits = max(self.bits, most.bit_length() + 1)
        addend = Addend(total, range(rank), factor, zero, most)
        pooled = self.form.rescaled([addend], self.builder.lengths(total), goal)
        return self._as_declared(pooled, op, goal)

    def _as_declared(self, value: SSAValue, op: Operation, goal: Goal) -> SSAValue:
        """Codes in the shape of the result of an op, which may keep axes of length 1."""
        shape = _shape(op.results[0])
        if _shape(value) == shape:
            return value
        movement = Reshape(shape)
        if unknown_length(movement, [_shape(value)]):
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length of its result is not known")
        if DYNAMIC not in shape and math.prod(shape) != math.prod(_shape(value)):
            raise Refusal(RefusalCode.UNKNOWN_OP, "its operands do not have a result of this shape")
        return move_elements(self.builder, movement, [value], TensorType(goal.signless, shape))


# What the graph says of values


def _recorded(read: SSAValue) -> SSAValue:
    """The value before recorded statistics."""
    while isinstance(read.owner, Operation) and is_statistics(read.owner):
        read = read.owner.operands[0]
    return read


def _checked(value: SSAValue) -> UniformQuantizedType:
    """The type of codes that can be integers of one scale. Raises Refusal."""
    type = element_type_or_self(value.type)
    if not isinstance(type, UniformQuantizedType) or not isinstance(value.type, TensorType):
        raise Refusal(RefusalCode.ILLEGAL_TYPE, f"'{value.type}' is no tensor with a scale")
    if (reason := unreadable_storage(type)) is not None:
        raise Refusal(RefusalCode.STORAGE, reason)
    if type.storage_type.bitwidth > _MOST_WIDTH:
        raise Refusal(RefusalCode.STORAGE, f"it is stored in more than {_MOST_WIDTH} bits")
    if type.granularity is not Granularity.PER_TENSOR:
        raise Refusal(
            RefusalCode.GRANULARITY, f"{type.granularity.value} scales of computed values"
        )
    return type


def _all(rank: int, number: float) -> NDArray[np.float64]:
    """A number for all positions of a tensor."""
    return np.full([1] * rank, number)


def _signless(type: UniformQuantizedType) -> IntegerType:
    return IntegerType(type.storage_type.bitwidth)


def _shape(value: SSAValue) -> Shape:
    shape = shape_of(value.type)
    if shape is None:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "its rank is not known")
    return shape


def _reduction_of(op: Operation) -> Reduction | None:
    """How an op combines elements of its operand; None for another op."""
    model = op_model(op)
    if model.reduction is not None:
        return model.reduction(op)
    if model.loops is None or not (loops := model.loops(op)).reducing or len(op.operands) != 2:
        return None
    block = op.regions[0].block
    step = last_step(block, 0)
    function = None if step is None else named_function(step)
    is_plain = step is not None and {*step.operands} == {*block.args}
    axes, kept = loops.operands
    if function is None or not is_plain or [*kept] != [loop for loop in axes if loop in kept]:
        return None
    shape = _shape(op.operands[0])
    windows = {
        axis: PoolWindow(shape[axis]) for axis, loop in enumerate(axes) if loop in loops.reducing
    }
    return Reduction(function, windows, 1)


_BINARY: Final = frozenset({"add", "sub", "mul"})


def _binary(node: Node) -> str | None:
    """The function of two values that an op is, if it is one that codes compute."""
    if len(node.ops) != 1 or len(node.rule.functions) != 1:
        return None
    (function,) = node.rule.functions
    return function if function in _BINARY else None


def _in_order(node: Node) -> Sequence[Use]:
    """The operands of a function of two, which a body may read in another order."""
    one, other = node.uses
    op = node.op
    if op_model(op).maps_elements:
        block = op.regions[0].block
        inner = next(
            (
                inner
                for inner in block.ops
                if {*inner.operands} >= {block.args[use.number] for use in node.uses}
            ),
            None,
        )
        if inner is None or [*block.ops][1:] != [block.last_op]:
            raise Refusal(
                RefusalCode.KEPT, "it stays float: its body computes more than one function"
            )
        if inner.operands[0] is block.args[other.number]:
            return other, one
    return one, other


def _axes_in_result(use: Use) -> Sequence[int | None]:
    """For each axis of an operand that of the result; None for one that is read at 0."""
    read, result = op_model(use.op).loops, _shape(use.op.results[0])
    axes: Sequence[int | None] | None = result_axes(use)
    if read is not None and not (loops := read(use.op)).reducing:
        *operands, last = loops.operands
        axes = operands[use.number] if [*last] == [*range(len(result))] else None
    if axes is None:
        raise Refusal(RefusalCode.KEPT, "it stays float: it does not read elements in order")
    lengths = zip(axes, _shape(use.value), strict=True)
    return [None if axis is None or (n == 1 and result[axis] != 1) else axis for axis, n in lengths]


def _on_axes(array: NDArray[Any], bias: Bias, shape: Shape) -> NDArray[Any]:
    """The numbers of a bias on the axes of the weights, of length 1 where they are the same."""
    lengths: list[int] = []
    order: list[int] = []
    for axis, axes in enumerate(bias.weight_axes):
        if not axes:
            first = array.take([0], axis)
            if (array != first).any():
                reason = "what it adds to its sums differs within a channel"
                raise Refusal(RefusalCode.BIAS_SCALE, reason)
            array = first
        lengths += [shape[at] if array.shape[axis] > 1 else 1 for at in axes]
        order += axes
    placed = array.reshape(lengths).transpose(np.argsort(order))
    wide = [1] * len(shape)
    for axis, length in zip(sorted(order), placed.shape, strict=True):
        wide[axis] = length
    return placed.reshape(wide)
