"""
A graph of the float values of a module: the producer and the users of each.

A layer and its bias are one node. So are the ops of a function that is written as several ops, such
as a softmax: the values between them stay float.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    UnrankedTensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.traits import IsTerminator

from qdialect.algebra.movement import Movement
from qdialect.algebra.parameters import QuantizationParameters
from qdialect.algebra.views import Splat, Values, as_view
from qdialect.dialects.quant import DequantizeCastOp, QuantizeCastOp, UniformQuantizedType
from qdialect.folding.graph import FoldGraph
from qdialect.folding.moved_constant import MovedConstant
from qdialect.ir.elements import float_elements
from qdialect.ir.names import visibility_of
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.along_axis import is_recordable, is_statistics
from qdialect.ops.fields import Contraction, Lookup, Movements, QuantizationRule, RuleKind, Side
from qdialect.ops.interface import (
    Refusal,
    elements_attribute_of,
    find_attribute,
    functions_of,
    is_cast,
    known_layer,
    known_movements,
    known_rule,
    model_of,
    name_of,
    number_of,
)
from qdialect.ops.model import model_named
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np

CLAMP: Final = "clamp"
"""The name of a function that clamps one value by constants."""

FLOAT_ATTRIBUTE: Final = "quant.float"
"""The attribute of an op that must compute with floats."""


class Use(NamedTuple):
    """One operand of an op."""

    op: Operation
    number: int

    @property
    def value(self) -> SSAValue:
        """The operand."""
        return self.op.operands[self.number]


def result_axes(use: Use) -> tuple[int, ...] | None:
    """
    For each axis of an elementwise op's operand, that of the result; None if unknown.

    An axis of length 1 that is broadcast has the same place, counted from the last axis.
    """
    rank = len(shape_of(use.value.type) or ())
    maps = find_attribute(use.op, "indexing_maps")
    if maps is None:
        of_result = shape_of(use.op.results[0].type)
        return tuple(range(rank)) if of_result is not None and len(of_result) == rank else None
    own, result = (cast("ArrayAttr[AffineMapAttr]", maps).data[at].data for at in (use.number, -1))
    if result != AffineMap.identity(result.num_dims):
        return None
    axes = list[int]()
    for at, expression in enumerate(own.results):
        if isinstance(expression, AffineDimExpr):
            axes.append(expression.position)
        elif expression == AffineConstantExpr(0):
            axes.append(at + result.num_dims - rank)
    return tuple(axes) if len({*axes}) == rank else None


class Range(NamedTuple):
    """The least and the greatest element recorded for a value."""

    minimum: float
    maximum: float


def is_quantizable(value: SSAValue) -> bool:
    """Whether a value can be quantized: it is a builtin ranked float tensor."""
    return isinstance(value.type, TensorType) and is_recordable(value)


def is_other_tensor(value: SSAValue) -> bool:
    """Whether a value is a float tensor of a type that is not builtin, such as `!torch.vtensor`."""
    return is_recordable(value) and not isinstance(value.type, TensorType | UnrankedTensorType)


LOWER_TENSORS: Final = (
    "only values of builtin tensor types have ranges and codes; lower the module first, such as to "
    "linalg, StableHLO or TOSA"
)
"""What to do about tensors of other types."""


@dataclass(frozen=True, eq=False)
class Bias:
    """A vector that is added along the channels of the result of a layer."""

    use: Use
    weight_axes: tuple[tuple[int, ...], ...]
    """For each axis of the bias, the channel axes of the weights along it."""


@dataclass(frozen=True, eq=False)
class Node:
    """One or more ops that are one unit for quantization."""

    ops: tuple[Operation, ...]
    """The ops, in module order."""

    rule: QuantizationRule
    """The rule by which the parameters of the results follow from others."""

    uses: tuple[Use, ...]
    """The operands that are read as codes, except weights and biases."""

    results: tuple[SSAValue, ...]
    """The float tensor results."""

    movements: tuple[Movement, ...] = ()
    """
    The movements of a shape op.

    The first reads all `uses`, each other one the result before it.
    """

    weight: Use | None = None
    """The constant operand of a sum of products, or the table of a look-up."""

    side: Side | None = None
    """The roles of the axes of the weight in the sum of products."""

    bias: Bias | None = None

    channel_constants: tuple[Use, ...] = ()
    """Constants with one number for each channel, such as the slopes of a PReLU."""

    padding: Use | None = None
    """
    A constant that is the lowest number of its type, which is read with the result's parameters.
    """

    refusal: str = ""
    """Why the node has to stay float; empty if it does not."""

    name: str = ""
    """The name of the function that the ops compute, such as `softmax`, if it is known."""

    @property
    def op(self) -> Operation:
        """The op that makes the results."""
        return self.ops[-1]

    @property
    def inner(self) -> Sequence[SSAValue]:
        """The results of the other ops, such as the sums that a bias is added to."""
        return [result for op in self.ops[:-1] for result in op.results]

    @property
    def kind(self) -> RuleKind:
        """The kind of the rule."""
        return self.rule.kind

    @property
    def is_function(self) -> bool:
        """Whether several ops compute one function, so that no value between them has codes."""
        return bool(self.name) and len(self.ops) > 1

    @property
    def is_clamp(self) -> bool:
        """Whether the op clamps one operand by constants, like relu."""
        return self.name == CLAMP

    @property
    def is_pool(self) -> bool:
        """Whether each result element equals one of several operand elements, as in a max pool."""
        return self.kind is RuleKind.SHARED and bool(self.rule.mixed_axes)

    @property
    def layer(self) -> Contraction | Lookup | None:
        """The sum of products or the look-up that it is; None for a function that has one."""
        return None if self.is_function else known_layer(self.ops[0])

    @property
    def table(self) -> Lookup | None:
        """How the op looks up elements in a table, if it does."""
        return self.layer if isinstance(self.layer, Lookup) else None

    @property
    def constant_uses(self) -> Sequence[Use]:
        """The operands that may be constants, including the weight and the bias."""
        bias = None if self.bias is None else self.bias.use
        uses = (*self.uses, *self.channel_constants, self.padding, self.weight, bias)
        return [use for use in uses if use is not None]


@dataclass(eq=False)
class FlowGraph:
    """
    The nodes of a module, and the facts about the values between them.

    Its values are results of nodes and arguments of functions. `quant.stats`, and pairs of
    `quant.qcast` and `quant.dcast`, are not nodes: they describe the value before them.
    """

    module: ModuleOp
    folding: FoldGraph
    """The constants of the module, and the results of shape ops on them."""

    has_reshaped_layers: bool = False
    """Whether a layer includes a bias behind a reshape that keeps the axes of channels whole."""

    nodes: list[Node] = field(default_factory=list[Node])
    of_biases: dict[Operation, Node] = field(default_factory=dict[Operation, Node])
    """The layers of ops that broadcast a bias. These ops are not nodes."""

    ranges: dict[SSAValue, Range] = field(default_factory=dict[SSAValue, Range])
    moved_ranges: dict[SSAValue, Range | None] = field(
        default_factory=dict[SSAValue, "Range | None"]
    )
    """The ranges of values, or of those that shape ops read them from, as far as asked for."""

    given: dict[SSAValue, UniformQuantizedType] = field(
        default_factory=dict[SSAValue, UniformQuantizedType]
    )
    """The types that casts in the module quantize values to."""

    codes: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The quantized value of each operand and each float result of these casts."""

    same: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The value before `quant.stats` or a pair of casts, by the value behind it."""

    derived: set[SSAValue] = field(default_factory=set[SSAValue])
    """Values computed from constants alone by ops other than shape ops: they stay float."""

    last: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """For each value, the one behind its last `quant.stats` or pair of casts."""

    ops: list[Operation] = field(default_factory=list[Operation])
    """The ops on float tensors, in module order."""

    blocks: list[Block] = field(default_factory=list[Block])
    """The blocks of functions, and of regions that hold ops on tensors of the model."""

    keys: Mapping[SSAValue, str] = field(default_factory=dict[SSAValue, str])

    _constants: dict[SSAValue, MovedConstant | None] = field(
        default_factory=dict[SSAValue, MovedConstant | None]
    )

    def separate_pools(self) -> None:
        """Give the results of max pools their own parameters, where they have a recorded range."""
        self.nodes = [
            replace(node, rule=replace(node.rule, kind=RuleKind.OWN))
            if node.is_pool and all(result in self.ranges for result in node.results)
            else node
            for node in self.nodes
        ]

    def value(self, read: SSAValue) -> SSAValue:
        """The value that is read, with `quant.stats` and pairs of casts skipped."""
        while read in self.same:
            read = self.same[read]
        return read

    @cached_property
    def functions(self) -> Sequence[FuncOp]:
        """The public functions with a body."""
        functions = [op for op in self.module.walk() if isinstance(op, FuncOp)]
        public = [op for op in functions if visibility_of(op) != "private"]
        return [op for op in public if not op.is_declaration]

    @cached_property
    def makers(self) -> Mapping[SSAValue, Node]:
        """The node that makes each value."""
        return {result: node for node in self.nodes for result in node.results}

    @cached_property
    def node_of(self) -> Mapping[Operation, Node]:
        """The node that each op is part of."""
        return {op: node for node in self.nodes for op in node.ops}

    @cached_property
    def readers(self) -> Mapping[SSAValue, Sequence[Use]]:
        """The operands that read a value, including those of unknown ops."""
        return {value: list(self.readers_of(value)) for value in self.values}

    def readers_of(self, value: SSAValue) -> Iterator[Use]:
        """
        The operands that read a value, directly or behind `quant.stats` and casts.

        Ops that read only its lengths are excluded.
        """
        pending = [value]
        while pending:
            for use in pending.pop().uses:
                if isinstance(use.operation, QuantizeCastOp):
                    pairs = (cast_use.operation for cast_use in use.operation.result.uses)
                    pending += [op.results[0] for op in pairs if self._is_behind(op)]
                elif self._is_behind(use.operation):
                    pending.append(use.operation.results[0])
                elif not model_named(name_of(use.operation)).reads_lengths:
                    yield Use(use.operation, use.index)

    def is_before_clamp(self, value: SSAValue, clamp: Node) -> bool:
        """
        Whether a value has no use but a clamp, so that it may have the parameters of its result.

        The result does not change: rounding is monotonic, so it may come before or after a clamp.
        """
        return all(use.op in clamp.ops for use in self.readers[value])

    def _is_behind(self, op: Operation) -> bool:
        """Whether an op is `quant.stats`, or the second one of a pair of casts."""
        return len(op.results) == 1 and op.results[0] in self.same

    @cached_property
    def values(self) -> Sequence[SSAValue]:
        """The operands and results of nodes, except constants."""
        values = dict[SSAValue, None]()
        for node in self.nodes:
            uses = node.uses if node.weight is None else (*node.uses, node.weight)
            for use in uses:
                value = self.value(use.value)
                if not self.is_constant(value):
                    values[value] = None
            values |= dict.fromkeys(node.results)
        return list(values | dict.fromkeys(self.float_reads))

    @cached_property
    def float_reads(self) -> Sequence[SSAValue]:
        """The arguments that are read by ops that must compute with floats."""
        ops = [op for op in self.module.walk() if stays_float(op)]
        values = [self.value(operand) for op in ops for operand in op.operands]
        return [
            value for value in values if isinstance(value, BlockArgument) and is_quantizable(value)
        ]

    def is_unknown(self, op: Operation) -> bool:
        """Whether an op computes with float tensors, and no rule for it is known."""
        if op in self.node_of or op in self.of_biases or isinstance(op, FuncOp) or is_cast(op):
            return False
        if op.has_trait(IsTerminator, value_if_unregistered=False):
            return False
        results = [result for result in op.results if is_quantizable(result)]
        if not results or any(result in self.same for result in results):
            return False
        is_computed = any(result in self.derived for result in results)
        return not is_computed and not all(map(self.is_constant, results)) and bool(op.operands)

    def keys_of(self, node: Node) -> list[str]:
        """The names of a node: the keys of the results of its ops, the last one first."""
        results = (result for op in reversed(node.ops) for result in op.results)
        return list(dict.fromkeys(self.keys.get(result, "") for result in results))

    def movements(self, op: Operation) -> Movements | None:
        """The effect of a shape op, as `known_movements` with the constants of the module."""
        return known_movements(op, self.folding.operands)

    def is_constant(self, value: SSAValue) -> bool:
        """Whether a value is computed from constants."""
        return self.constant(value) is not None

    def is_computed(self, value: SSAValue) -> bool:
        """Whether a value is computed from constants alone, by any ops."""
        return self.is_constant(value) or value in self.derived

    def constant(self, value: SSAValue) -> MovedConstant | None:
        """The constant behind a value; None if it is not constant."""
        if value not in self._constants:
            self._constants[value] = self._read_constant(value)
        return self._constants[value]

    def _read_constant(self, value: SSAValue) -> MovedConstant | None:
        owner = self.folding.final(value).owner
        if not isinstance(owner, Operation):
            return None
        if owner not in self.folding.moved and elements_attribute_of(owner) is None:
            return None
        try:
            return self.folding.known(value, owner)
        except Refusal:
            return None

    def stored(self, value: SSAValue) -> MovedConstant | None:
        """Like `constant`, but only for elements that are stored as floats."""
        moved = self.constant(value)
        if moved is None or not isinstance(element_type_or_self(value.type), AnyFloat):
            return None
        is_plain = all(is_statistics(op) or _converts_floats(op) for op in moved.casts)
        return moved if is_plain else None

    def given_type(self, value: SSAValue) -> UniformQuantizedType | None:
        """The type in which ops read a constant that is quantized already; None for floats."""
        moved = self.constant(value)
        for layer in reversed(() if moved is None else moved.layers):
            type = layer.element_type
            if layer.parameters is not None and isinstance(type, UniformQuantizedType):
                return type.with_parameters(layer.parameters)
        return None

    def numbers(self, value: SSAValue) -> NDArray[np.floating]:
        """The elements of a `stored` constant; one element if all are equal."""
        moved = self.stored(value)
        assert moved is not None
        type = cast(AnyFloat, element_type_or_self(value.type))
        return np.atleast_1d(float_elements(self.elements(moved), type))

    def quantized(
        self, value: SSAValue
    ) -> tuple[QuantizationParameters, NDArray[np.integer[Any]]] | None:
        """
        The parameters and the codes of a constant that is dequantized, and nothing else.

        The codes broadcast to its shape.
        """
        moved = self.constant(value)
        if moved is None or [*map(type, moved.casts)] != [DequantizeCastOp]:
            return None
        parameters = moved.layers[0].parameters
        return None if parameters is None else (parameters, self.codes_of(moved))

    def dequantized(self, value: SSAValue) -> NDArray[np.floating] | None:
        """The numbers of a constant that is stored as floats, or dequantized; None for others."""
        if self.stored(value) is not None:
            return self.numbers(value)
        stored = self.quantized(value)
        return None if stored is None else np.atleast_1d(stored[0].read(stored[1]))

    def splat_number(self, value: SSAValue) -> float | None:
        """The number that all elements of a constant equal; None if they differ."""
        moved = self.constant(value)
        is_splat = moved is not None and moved.splat is not None
        numbers = None
        # Weights that are quantized are not read.
        if is_recordable(value) and (is_splat or self.stored(value) is not None):
            numbers = self.dequantized(value)
        if numbers is not None:
            if not numbers.size:
                return None
            first = numbers.flat[0]
            is_same = np.isnan(numbers) if np.isnan(first) else numbers == first
            return float(first) if is_same.all() else None
        if moved is None or moved.splat is None:
            return None
        type = element_type_or_self(moved.provenance.sources[0].results[0].type)
        if not isinstance(type, IntegerType) or not all(map(_keeps_numbers, moved.casts)):
            return None
        bits, low = int(moved.splat.value), 1 << type.bitwidth - 1
        # Larger integers may be negative ones.
        return float(bits) if 0 <= bits < low or type.bitwidth == 1 else None

    def filled_with(self, value: SSAValue) -> float | None:
        """The number that a fill op sets all elements of a value to, also behind ranges."""
        fill = self.value(value).owner
        if not isinstance(fill, Operation) or model_of(fill) is not None:
            return None
        return number_of(fill.operands[0]) if model_named(name_of(fill)).repeats else None

    def codes_of(self, moved: MovedConstant) -> NDArray[Any]:
        """The elements of a constant as they are stored; one element if all are equal."""
        return _array_of(self.folding.values_of(moved))

    def elements(self, moved: MovedConstant) -> Values:
        """The elements of a `stored` constant, as bits of its last float type."""
        values = self.folding.values_of(moved)
        types = [
            moved.provenance.sources[0].results[0].type,
            *(op.results[0].type for op in moved.casts),
        ]
        for before, behind in pairwise(
            cast(AnyFloat, element_type_or_self(type)) for type in types
        ):
            if before == behind:
                continue
            bits = _array_of(values)
            numbers = FLOAT_FORMATS[before.name].decode(bits.view(f"u{bits.itemsize}"))
            encoded = FLOAT_FORMATS[behind.name].encode(numbers).astype(f"u{behind.size}")
            values = Splat(encoded[()], values.shape) if isinstance(values, Splat) else encoded
        return values


def _keeps_numbers(op: Operation) -> bool:
    """Whether an op only converts its operand to another type."""
    rule = known_rule(op)
    is_conversion = rule is not None and not rule.functions and rule.keeps_places
    return is_statistics(op) or is_conversion


def stays_float(op: Operation) -> bool:
    """Whether an attribute marks an op that must compute with floats."""
    return FLOAT_ATTRIBUTE in op.attributes


def _converts_floats(op: Operation) -> bool:
    """Whether an op rounds floats to another type."""
    ends = (*op.operands, *op.results)
    return len(ends) == 2 and all(map(is_recordable, ends))


def _array_of(values: Values) -> NDArray[Any]:
    return np.asarray(values.value) if isinstance(values, Splat) else as_view(values).array()


MASKING: Final = frozenset({"add", "select", "sub"})
"""Functions that mask: they set elements to a number, or add a very low one."""

FAR: Final = 4.0
"""A number is far outside of a range if it exceeds all numbers in it by this factor."""

LOWEST: Final = -9999.0
"""Numbers up to this one have no weight in a softmax: they are masks."""


def range_of(graph: FlowGraph, value: SSAValue) -> Range | None:
    """The recorded range of a value, or of the value that a shape op reads its elements from."""
    path, ends, before = list[SSAValue](), None, value
    while before is not None and ends is None:
        before = graph.value(before)
        ends = graph.ranges.get(before) or graph.moved_ranges.get(before)
        if before in graph.moved_ranges:
            break
        path.append(before)
        before = _moved_operand(graph, before)
    graph.moved_ranges |= dict.fromkeys(path, ends)
    return ends


def _moved_operand(graph: FlowGraph, value: SSAValue) -> SSAValue | None:
    """The operand whose elements a shape op moves to a value; None for other ops."""
    op = value.owner
    if not isinstance(op, Operation) or (moved := graph.movements(op)) is None:
        return None
    return moved.operands[0] if len(moved.operands) == 1 and moved.padding is None else None


def is_mask(graph: FlowGraph, op: Operation) -> bool:
    """Whether an op masks elements by a constant, which determines the range of its result."""
    functions = functions_of(op)
    if not functions & MASKING:
        return False
    operands = [value for value in op.operands if is_recordable(value)]
    if any(_is_far(graph, value, operands, functions) for value in operands):
        return True
    if "select" not in functions:
        return False
    # The number may be in the body of the op, or a scalar.
    ranges = [range_of(graph, value) for value in op.results if is_recordable(value)]
    largest = _largest(graph, operands)
    return any(ends is not None and ends.minimum < min(LOWEST, -FAR * largest) for ends in ranges)


def is_softmax_mask(graph: FlowGraph, op: Operation) -> bool:
    """Whether an op masks elements before a softmax, perhaps by numbers that are computed."""
    if not functions_of(op) & MASKING:
        return False
    ranges = [range_of(graph, item) for item in (*op.operands, *op.results) if is_recordable(item)]
    is_low = any(item is not None and item.minimum <= LOWEST for item in ranges)
    return (
        is_low
        or is_mask(graph, op)
        or any(
            graph.stored(item) is not None and (graph.numbers(item) <= LOWEST).any()
            for item in op.operands
            if is_recordable(item)
        )
    )


def _is_far(
    graph: FlowGraph, mask: SSAValue, operands: list[SSAValue], functions: frozenset[str]
) -> bool:
    """Whether a constant is a mask for the other operands."""
    largest = _largest(graph, [value for value in operands if value is not mask])
    if graph.stored(mask) is None:
        ends = range_of(graph, mask) if mask in graph.derived else None
        return ends is not None and ends.minimum <= LOWEST < -FAR * largest
    numbers = graph.numbers(mask)
    if not largest:
        # The range is unknown, or holds zeros alone.
        return bool((numbers <= LOWEST).any())
    magnitudes = np.abs(numbers)
    is_beyond: NDArray[np.bool_] = magnitudes > FAR * largest
    if "select" in functions:
        return bool(is_beyond.any())
    beyond, kept = magnitudes[is_beyond], magnitudes[~is_beyond]
    if not beyond.size or not kept.size:
        return False
    if beyond.min() >= -LOWEST:
        return bool(kept.max() <= largest)
    # A table of positions has other numbers than zero, and a bias differs along one axis.
    axes = [axis for axis in range(numbers.ndim) if (numbers != numbers.take([0], axis)).any()]
    return not kept.any() and len(axes) > 1


def largest(graph: FlowGraph, op: Operation) -> float:
    """The largest finite magnitude that an op reads, constants excepted; 0 if none is known."""
    return _largest(graph, [operand for operand in op.operands if not graph.is_computed(operand)])


def _largest(graph: FlowGraph, values: list[SSAValue]) -> float:
    """The largest finite magnitude in the ranges of values; 0 if none is known."""
    ranges = (range_of(graph, value) for value in values if is_recordable(value))
    ends = [
        abs(end) for ends_of_value in ranges if ends_of_value is not None for end in ends_of_value
    ]
    return max((end for end in ends if np.isfinite(end)), default=0.0)
