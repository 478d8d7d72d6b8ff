"""
Raising dequantization by arithmetic, and by casts of other dialects, to casts of quant.

`(C - z) * s` becomes `quant.dcast(quant.scast(C))`, with scales and zero points in the type.
That is how a model enters the dialect. Arithmetic that the type cannot express bit for bit is
kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseResourceAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.algebra.movement import Reshape, Shape
from qdialect.algebra.views import Splat, Values, as_view
from qdialect.dialects.quant.casts import CastOp, DequantizeCastOp, StorageCastOp
from qdialect.dialects.quant.constants import ConstantOp
from qdialect.dialects.quant.storage import Storage, StoredType, element_type_of
from qdialect.dialects.quant.types import QuantizedTensor, UniformQuantizedType
from qdialect.folding.arithmetic import parameters_of
from qdialect.folding.computed_products import ComputedProduct, ProductsOfCodes
from qdialect.folding.dequantization import not_arithmetic, without_conversions
from qdialect.folding.graph import FoldGraph, GraphReader
from qdialect.folding.layers import ScaleOrigin, refusing
from qdialect.folding.moved_constant import Layer, MovedConstant
from qdialect.folding.policy import FoldPolicy, spell
from qdialect.folding.report import Outcome, PassReport
from qdialect.folding.writing import constant_like
from qdialect.ir.elements import DenseElementsAttr, dense_elements, has_signedness
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import Replacements
from qdialect.ir.value_types import (
    element_type_or_self,
    maker_from_builtin,
    tensor_element_type,
    tensor_parts,
    with_element_type,
)
from qdialect.ops.elementwise import read_elementwise
from qdialect.ops.fields import Apply, Arithmetic, CastReads, Input
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    cast_reads,
    check_not_kept,
    elements_attribute_of,
    held_elements,
    is_arithmetic,
    is_cast,
    models_of,
)
from qdialect.ops.reading import Constants
from qdialect.ops.unused_ops import erase_unused
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import MemoryBudget, MemoryLimitError, memory_budget, paused_collection


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

    Raises Refusal if there is no such type or `policy` forbids it.
    """
    constant = graph.moved[op]
    computed = graph.term_of(op)
    with refusing:
        parameters = parameters_of(computed, constant.shape)
    term, conversions = without_conversions(computed.term)
    storage = Storage.of_format(parameters.storage)
    with refusing:
        like = UniformQuantizedType.per_tensor(storage, cast(AnyFloat, term.type), 1.0)
        type = like.with_parameters(parameters)
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
        are_reshapes = all(
            isinstance(movement, Reshape) for movement, _ in graph.steps[number].moves
        )
        if len(operands) != 1 or not are_reshapes:
            return False
        (number,) = operands
    return graph.sources[graph.steps[number].op].shape == constant.shape


def hints_of_raising(
    reader: GraphReader, codes: Mapping[Operation, RefusalCode], policy: FoldPolicy
) -> Mapping[Operation, str]:
    """Hints for refused shape ops, users first, that fold if raising runs first."""
    reader.read_unused_arithmetic()
    raisable = _RaisableOps(reader, policy)
    gone = [op for op, code in codes.items() if raisable.is_gone(op, code)]
    order = "first" if raisable.are_folded else "before '--fold-quant-shapes'"
    return dict.fromkeys(gone, f"'--raise-dequantization' {order} removes it")


def _is_cast_of_quant(op: Operation) -> bool:
    return isinstance(op, CastOp) or quant_cast_of(op) is not None


class _RaisableOps:
    def __init__(self, reader: GraphReader, policy: FoldPolicy) -> None:
        self._graph = reader.graph
        self._may_fold = reader.may_fold
        self.are_folded = True
        """Whether this fold folds what is raised."""
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
        self.are_folded &= self._may_fold(raised.constant._replace(layers=(layer,)))
        return True

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
        return any(self._quantized(last) is not None for last in ends)

    def _quantized(self, op: Operation) -> QuantizedProduct | None:
        try:
            return quantized_product(self._graph, op, self._policy)
        except (Refusal, MemoryLimitError):
            return None


_NOT_READ: Final = (RefusalCode.ARITHMETIC, RefusalCode.UNKNOWN_OP, RefusalCode.NOT_CONSTANT)
"""The codes of refusals of arithmetic whose constants may be computed by running their ops."""

_UNTOLD: Final = (RefusalCode.NOT_CONSTANT, RefusalCode.USES, RefusalCode.UNKNOWN_OP)
"""The codes of refusals that are not reported, as the op is not arithmetic on constants."""


def raise_dequantization(
    module: ModuleOp,
    context: Context,
    policy: FoldPolicy,
) -> PassReport:
    """
    Raise all exact dequantizations of a module to casts of quant.

    Arithmetic that is not an exact dequantization, or has no quantized type that `policy`
    allows, is kept, and reported with the reason.
    """
    with paused_collection(), models_of(context), memory_budget() as budget:
        raiser = _Raiser(module, context, policy, budget)
        raiser.raise_casts()
        raiser.raise_arithmetic()
        return raiser.report


@dataclass
class _Raiser:
    module: ModuleOp
    context: Context
    policy: FoldPolicy
    budget: MemoryBudget
    report: PassReport = field(default_factory=lambda: PassReport(verb="raised"))
    gone: list[Operation] = field(default_factory=list[Operation])
    """Ops whose results have been replaced, but that are not erased yet."""

    # Casts

    def raise_casts(self) -> None:
        """Raise casts of other dialects."""
        constants, replaced = Constants(ResourceBlobs.of(self.context)), Replacements()
        for op in list(self.module.walk()):
            new_class = quant_cast_of(op)
            if new_class is None:
                continue
            try:
                check_not_kept(op)
                ops = self._quantized_operand(op.operands[0], constants)
                operand = ops[-1].results[0] if ops else op.operands[0]
                new = new_class(operand, op.results[0].type)
                with refusing:
                    new.verify_()
            except Refusal as error:
                self.report.refuse(op, error)
                continue
            self._put(op, [*ops, new], replaced)
        self._finish(replaced)

    def _quantized_operand(self, value: SSAValue, constants: Constants) -> list[Operation]:
        """The ops that replace a quantized constant of another dialect; none for other values."""
        source, type = value.owner, element_type_or_self(value.type)
        is_own = isinstance(source, ConstantOp)
        if not isinstance(source, Operation) or is_own or not isinstance(type, StoredType):
            return []
        if elements_attribute_of(source) is None:
            return []
        values = constants.read(source)
        assert values is not None
        integers = self._integers(source, values, constants.resources)
        integers.results[0].name_hint = value.name_hint
        scast = StorageCastOp(integers.results[0], value.type)
        with refusing:
            scast.verify_()
        return [integers, scast]

    # Arithmetic

    def raise_arithmetic(self) -> None:
        """Raise arithmetic on constants."""
        graph = GraphReader(
            self.module, self.context, self.budget, reads_all_arithmetic=True, has_parts=False
        ).graph
        arithmetic = [op for op in graph.order if is_arithmetic(op)]
        computed = ProductsOfCodes(self.module, self.context, graph)
        others = [op for op in computed if op not in graph.models]
        raised, replaced = dict[Operation, list[Operation]](), Replacements()
        refused, gone = dict[Operation, Refusal](), set[Operation]()
        # Users first: what only computes the scales of a raised product goes with it.
        for op in (*reversed(others), *reversed(arithmetic)):
            uses = [use.operation for use in op.results[0].uses]
            if not uses or gone.issuperset(uses):
                continue
            try:
                with refusing:
                    if op in graph.moved and multiplies(graph, op):
                        end, ops = self._raised(graph, op)
                        raised[end] = ops
                        continue
            except Refusal as error:
                refused[op] = error
                if error.code not in _NOT_READ:
                    continue
            unread = graph.refusals.get(op)
            try:
                with refusing:
                    if (product := computed.read(op)) is not None:
                        raised[op] = self._of_computed(graph, op, product)
                        gone.update(computed.makers(op))
                        refused.pop(op, None)
                    elif op in computed and (unread is None or unread.code in _UNTOLD):
                        raise not_arithmetic("its numbers are no codes of 8 bits")
            except Refusal as error:
                # What made an op before it unreadable is told there.
                if unread is None or str(error) != str(unread):
                    refused.setdefault(op, error)
        for op in (*others, *arithmetic):
            if op in refused:
                self.report.refuse(op, refused[op])
            elif op not in gone and _is_told(graph, op, raised):
                self.report.refuse(op, graph.refusals[op])
        for op in (*others, *graph.order):
            if op in raised:
                self._put(op, raised[op], replaced)
        self._finish(replaced)

    def _raised(self, graph: FoldGraph, op: Operation) -> tuple[Operation, list[Operation]]:
        """
        The op to replace (a product, or a reshape after it that undoes earlier ones), and the
        new ops.

        Raises Refusal, VerifyException and MemoryLimitError.
        """
        if (end := reshaped_back(graph, op)) is not None:
            try:
                with refusing:
                    return end, self._casts_of(graph, end)
            except Refusal:
                # The scales may form blocks only before the reshape.
                pass
        return op, self._casts_of(graph, op)

    def _casts_of(self, graph: FoldGraph, op: Operation) -> list[Operation]:
        """The ops that replace a product. Raises Refusal, VerifyException and MemoryLimitError."""
        product = quantized_product(graph, op, self.policy)
        stored = self._stored(graph, op, product.constant, product.type)
        return self._dequantized(op, stored, product.type, product.conversions)

    def _of_computed(
        self, graph: FoldGraph, op: Operation, product: ComputedProduct
    ) -> list[Operation]:
        """The ops that replace a product of computed constants. Raises as `_casts_of`."""
        storage = Storage.of_format(product.parameters.storage)
        like = UniformQuantizedType.per_tensor(storage, product.expressed, 1.0)
        type, shape = like.with_parameters(product.parameters), product.parameters.shape
        self.policy.check_parameters(type, shape, product.origins)
        self.policy.check_repetition(product.repeated_bytes, is_quantized=True)
        if isinstance(product.stored, MovedConstant):
            stored = self._stored(graph, op, product.stored, type)
        else:
            self.budget.reserve(product.stored.nbytes)
            stored = [self._constant(op, product.stored, product.source, type)]
        return self._dequantized(op, stored, type, product.conversions)

    def _stored(
        self, graph: FoldGraph, op: Operation, moved: MovedConstant, type: UniformQuantizedType
    ) -> list[Operation]:
        """The ops that hold the codes of a moved constant, read as `type`."""
        source = moved.provenance.first_source
        assert source is not None
        result, _ = _builtin(op.results[0].type)
        quantized = with_element_type(result, type)
        if type.non_integers is not None:
            return [self._constant(op, self._codes(graph, moved, source), source, type)]
        stored = tensor_element_type(source.results[0].type)
        is_builtin = isinstance(source.results[0].type, TensorType)
        if is_builtin and is_unmoved(graph, moved) and not _has_sign(stored):
            return [StorageCastOp(source.results[0], quantized)]
        self.budget.reserve(moved.nbytes)
        new = self._integers(source, graph.values_of(moved), graph.constants.resources)
        new.results[0].name_hint = source.results[0].name_hint
        return [new, StorageCastOp(new.results[0], quantized)]

    def _constant(
        self,
        op: Operation,
        codes: Values | DenseElementsAttr | DenseResourceAttr,
        source: Operation,
        type: UniformQuantizedType,
    ) -> Operation:
        """
        A constant of codes in the place of the result of `op`, named as `source`.

        They are in a resource where the elements of `source` are.
        """
        result, _ = _builtin(op.results[0].type)
        old = held_elements(source)
        if isinstance(old, DenseResourceAttr) and not isinstance(codes, Attribute | Splat):
            resources, key = ResourceBlobs.of(self.context), old.resource_handle.data
            codes = resources.write(as_view(codes).array(), element_type_of(type), key)
        constant = ConstantOp(codes, cast(QuantizedTensor, with_element_type(result, type)))
        constant.location = source.location
        constant.result.name_hint = source.results[0].name_hint
        return constant

    def _dequantized(
        self,
        op: Operation,
        ops: list[Operation],
        type: UniformQuantizedType,
        conversions: Sequence[Attribute],
    ) -> list[Operation]:
        """`ops`, which hold codes, and those that make them the result of `op`."""
        result, bridge = _builtin(op.results[0].type)
        expressed = with_element_type(result, type.expressed_type)
        ops.append(DequantizeCastOp(ops[-1].results[0], expressed))
        before = type.expressed_type
        for to in reversed(conversions):
            is_wider = cast(AnyFloat, to).bitwidth > before.bitwidth
            converting = arith.ExtFOp if is_wider else arith.TruncFOp
            ops.append(converting(ops[-1].results[0], cast(Any, with_element_type(result, to))))
            before = cast(AnyFloat, to)
        if bridge is not None:
            op_class = self.context.get_optional_op(bridge) or UnregisteredOp.with_name(bridge)
            ops.append(op_class.create(operands=ops[-1].results, result_types=[op.results[0].type]))
        for new_op in ops:
            new_op.verify_()
        return ops

    def _codes(
        self, graph: FoldGraph, constant: MovedConstant, source: Operation
    ) -> Values | DenseElementsAttr | DenseResourceAttr:
        """The bit patterns of floats."""
        old: Any = held_elements(source)
        type = cast(AnyFloat, tensor_element_type(source.results[0].type))
        if old.type == TensorType(type, constant.shape) and is_unmoved(graph, constant):
            return old
        self.budget.reserve(constant.nbytes)
        return graph.values_of(constant)

    def _integers(self, source: Operation, values: Values, resources: ResourceBlobs) -> Operation:
        """A constant of signless integers, like `source` if that is signless."""
        type = element_type_or_self(source.results[0].type)
        attribute = cast(Any, held_elements(source))
        is_builtin = isinstance(source.results[0].type, TensorType)
        if is_builtin and not isinstance(type, StoredType) and not _has_sign(type):
            whole = TensorType(type, values.shape)
            return constant_like([source], values, whole, resources)
        width = cast(IntegerType, attribute.type.element_type).bitwidth
        signless = IntegerType(width)
        if isinstance(values, Splat):
            of_one = np.asarray(values.value).reshape(1)
            signed: Values = Splat(_as_signed(of_one, width)[0], values.shape)
        else:
            signed = _as_signed(as_view(values).array(), width)
        if isinstance(attribute, DenseResourceAttr) and not isinstance(values, Splat):
            key = attribute.resource_handle.data
            elements = resources.write(signed, signless, key)
        else:
            elements = dense_elements(signed, signless, repeat_splats=True)
        new = arith.ConstantOp(cast(Any, elements))
        new.location = source.location
        return new

    # Records and erasure

    def _put(self, op: Operation, ops: Sequence[Operation], replaced: Replacements) -> None:
        for new in ops:
            if elements_attribute_of(new) is None:
                new.location = op.location
            Rewriter.insert_op(new, InsertPoint.before(op))
        (result,) = ops[-1].results
        result.name_hint = op.results[0].name_hint
        replaced.add(op.results[0], result)
        self.report.tell(Outcome.RAISED, op, f"it became '{ops[-1].name}'", result)
        self.gone.append(op)

    def _finish(self, replaced: Replacements) -> None:
        """Replace the raised ops, and erase them and the ops that only they used."""
        replaced.apply()
        erase_unused(self.gone)
        self.gone.clear()


def _builtin(type: Attribute) -> tuple[Attribute, str | None]:
    """The builtin tensor type for `type`, and the name of the op that casts it to `type`."""
    if isinstance(type, TensorType):
        return cast(Attribute, type), None
    bridge, parts = maker_from_builtin(type), tensor_parts(type)
    if bridge is None or parts is None:
        raise Refusal(RefusalCode.ILLEGAL_TYPE, f"no op converts a builtin tensor to '{type}'")
    return TensorType(parts.element_type, parts.shape), bridge


def _as_signed(array: NDArray[Any], width: int) -> NDArray[Any]:
    """The same bits as sign-extended integers of `width` bits."""
    unused = 8 * array.itemsize - width
    signed = np.ascontiguousarray(array).view(f"i{array.itemsize}")
    return (signed << unused) >> unused if unused else signed


def _has_sign(type: Attribute) -> bool:
    if not isinstance(type, IntegerType):
        return True
    return not has_signedness(cast(IntegerType, type), Signedness.SIGNLESS)


def _is_told(graph: FoldGraph, op: Operation, raised: dict[Operation, list[Operation]]) -> bool:
    """Whether to report that arithmetic on constants is not a dequantization."""
    error = graph.refusals.get(op)
    if error is None or error.code in _UNTOLD:
        return False
    pending = [operand.owner for operand in op.operands]
    seen = set[Operation]()
    while pending:
        owner = pending.pop()
        if not isinstance(owner, Operation) or owner in seen or owner not in graph.models:
            continue
        seen.add(owner)
        # Skip ops on dequantized values, and ops after a reported one.
        if owner in raised or graph.refusals.get(owner) is error:
            return False
        if is_cast(owner) and isinstance(element_type_or_self(owner.operands[0].type), StoredType):
            return False
        pending += [operand.owner for operand in owner.operands]
    return True
