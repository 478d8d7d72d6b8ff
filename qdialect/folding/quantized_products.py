"""Arithmetic and casts of other dialects that equal casts of quant: what can be raised."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import Reshape, Shape
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.dialects.quant.casts import CastOp, DequantizeCastOp, StorageCastOp
from qdialect.dialects.quant.storage import Storage, StoredType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.folding.arithmetic import parameters_of, without_conversions
from qdialect.folding.graph import FoldGraph
from qdialect.folding.moved_constant import Layer, MovedConstant
from qdialect.folding.policy import FoldPolicy, spell
from qdialect.folding.scale_origin import ScaleOrigin
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.elementwise import is_arithmetic, read_elementwise
from qdialect.ops.interface import Refusal, RefusalCode, cast_reads, is_cast
from qdialect.ops.models import CastReads
from qdialect.ops.terms import Apply, Arithmetic, Input
from qdialect.support.memory import MemoryLimitError


def quant_cast_of(op: Operation) -> type[CastOp] | None:
    """The class of the quant cast that equals a cast of another dialect, if there is one."""
    if isinstance(op, CastOp) or not is_cast(op):
        return None
    ends = [element_type_or_self(value.type) for value in (op.operands[0], op.results[0])]
    stored = [isinstance(type, StoredType) for type in ends]
    if CastReads.NUMBERS in cast_reads(op) and stored[0] and isinstance(ends[1], AnyFloat):
        return DequantizeCastOp
    if CastReads.BITS in cast_reads(op) and stored[0] is not stored[1]:
        return StorageCastOp
    return None


class QuantizedProduct(NamedTuple):
    """A product of constants, expressed by a quantized type."""

    constant: MovedConstant
    type: UniformQuantizedType
    conversions: Sequence[Attribute]
    """The float types to which the same op converts the product."""


def quantized_product(graph: FoldGraph, op: Operation, policy: FoldPolicy) -> QuantizedProduct:
    """
    The result of arithmetic, or of shape ops after it, as a quantized type.

    Raises Refusal if there is no such type or `policy` forbids it, and TooManySlotsError.
    """
    constant = graph.moved[op]
    computed = graph.term_of(op)
    parameters = parameters_of(computed, constant.shape)
    term, conversions = without_conversions(computed.term)
    storage_type = IntegerType(parameters.storage.width)
    storage = Storage.of(storage_type, signed=parameters.storage.signed)
    try:
        like = UniformQuantizedType.per_tensor(storage, cast(AnyFloat, term.type), 1.0)
        type = like.with_parameters(parameters)
    except VerifyException as error:
        raise Refusal(RefusalCode.ILLEGAL_TYPE, str(error)) from None
    before = sum([side.origin.total for side in computed.sides])
    policy.check_parameters(type, constant.shape, before)
    policy.check_repetition(constant.repeated_bytes, is_quantized=True)
    return QuantizedProduct(constant, type, conversions)


def multiplies(graph: FoldGraph, op: Operation) -> bool:
    """Whether arithmetic on constants ends with a multiplication. Raises Refusal."""
    if is_cast(op) and graph.moved[op].layers[-1].sides is None:
        return False
    expressed = element_type_or_self(op.results[0].type)
    if not isinstance(expressed, AnyFloat):
        # The result is a quantized type of another dialect, and becomes floats only after the next
        # op.
        return False
    own, _ = without_conversions(read_elementwise(op, graph.operands).term)
    if isinstance(own, Input) and not isinstance(own.type, AnyFloat | IntegerType):
        own, _ = without_conversions(graph.term_of(op).term)
    return isinstance(own, Apply) and own.arithmetic is Arithmetic.MULTIPLY


def reshaped_back(graph: FoldGraph, op: Operation) -> Operation | None:
    """The only user of a product, if that is a reshape back to the shape of the source."""
    if not op.results[0].has_one_use():
        return None
    (use,) = op.results[0].uses
    moved = graph.moved.get(use.operation)
    if moved is None or graph.models[use.operation] is None or moved.casts[-1] is not op:
        return None
    return use.operation if is_unmoved(graph, moved) else None


def is_unmoved(graph: FoldGraph, constant: MovedConstant) -> bool:
    """Whether elements were only reshaped, and have the shape of their source."""
    number = constant.step
    while operands := graph.steps[number].operands:
        are_reshapes = all(isinstance(each, Reshape) for each, _ in graph.steps[number].moves)
        if len(operands) != 1 or not are_reshapes:
            return False
        (number,) = operands
    return graph.sources[graph.steps[number].op].shape == constant.shape


def gone_if_raised(
    graph: FoldGraph, codes: Mapping[Operation, RefusalCode], policy: FoldPolicy
) -> Collection[Operation]:
    """
    Those of some refused shape ops, users first, that fold if `--raise-dequantization` runs first.
    """
    graph.read_unused_arithmetic()
    reader = _RaisableOps(graph, policy)
    return {op for op, code in codes.items() if reader.is_gone(op, code)}


def _is_cast_of_quant(op: Operation) -> bool:
    return isinstance(op, CastOp) or quant_cast_of(op) is not None


class _RaisableOps:
    def __init__(self, graph: FoldGraph, policy: FoldPolicy) -> None:
        self._graph = graph
        self._policy = policy
        self._raisable = dict[Operation, bool]()
        self._sides = set[Operation]()

    def is_gone(self, op: Operation, code: RefusalCode) -> bool:
        if code is RefusalCode.GRANULARITY:
            return self._is_behind_casts(op)
        return self._is_behind_arithmetic(op) or self._is_side(op)

    def _is_behind_casts(self, op: Operation) -> bool:
        """Whether only the dialects of casts that can be raised limit the types that `op` moves."""
        moved = self._graph.moved[op]
        source = moved.provenance.first_source
        if not moved.is_quantized or not all(map(_is_cast_of_quant, moved.casts)):
            return False
        if source is None or not moved.casts or moved.casts[0].operands[0].owner is not source:
            return False
        return all(map(self._is_allowed, repeat(moved.shape), moved.layers, moved.scale_origins))

    def _is_allowed(self, shape: Shape, layer: Layer, origin: ScaleOrigin | None) -> bool:
        if layer.parameters is None or origin is None:
            return True
        try:
            type = spell(layer.quantized, layer.parameters, self._policy.granularity)
            self._policy.check_parameters(type, shape, origin.total)
        except Refusal:
            return False
        return True

    def _is_behind_arithmetic(self, op: Operation) -> bool:
        """Whether a shape op behind arithmetic would move a quantized type."""
        raised = self._quantized(op)
        if raised is None or not any(map(self._is_raisable, raised.constant.casts)):
            return False
        layer = Layer.of(raised.type, raised.constant.shape)
        return self._graph.may_fold(raised.constant._replace(layers=(layer,)))

    def _is_side(self, op: Operation) -> bool:
        """Whether only products that can be raised use the result of an op, directly or not."""
        pending, reached = [op], False
        while pending:
            for use in pending.pop().results[0].uses:
                user = use.operation
                if user not in self._sides and not self._is_raisable(user):
                    if user not in self._graph.moved:
                        return False
                    pending.append(user)
                    continue
                reached = True
        if reached:
            self._sides.add(op)
        return reached

    def _is_raisable(self, op: Operation) -> bool:
        """Whether arithmetic is a product that a quantized type can express."""
        if op not in self._raisable:
            self._raisable[op] = self._expresses(op)
        return self._raisable[op]

    def _expresses(self, op: Operation) -> bool:
        graph = self._graph
        try:
            if op not in graph.moved or not is_arithmetic(op) or not multiplies(graph, op):
                return False
        except Refusal:
            return False
        end = reshaped_back(graph, op)
        ends = [op] if end is None else [op, end]
        return any(self._quantized(each) is not None for each in ends)

    def _quantized(self, op: Operation) -> QuantizedProduct | None:
        try:
            return quantized_product(self._graph, op, self._policy)
        except (Refusal, TooManySlotsError, MemoryLimitError):
            return None
