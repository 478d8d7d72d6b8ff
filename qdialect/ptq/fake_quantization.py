"""
Ops that compute on quantized values, as ops on floats between `quant.dcast` and `quant.qcast`.

This is the meaning of a quantized op in the specification of StableHLO: it dequantizes its
operands, computes, and quantizes the result. Ops that only move values, casts and constants stay on
quantized types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.views import as_view
from qdialect.dialects.arrays.elements import find_run
from qdialect.dialects.quant.casts import DequantizeCastOp, QuantizeCastOp
from qdialect.dialects.quant.storage import QuantizedType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.folding.report import Outcome, PassReport
from qdialect.ir.elements import dense_elements, element_dtype
from qdialect.ir.errors import first_line, verify_alone
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import insert_after, values_in
from qdialect.ir.value_types import element_type_or_self, shape_of, with_element_type
from qdialect.ir.xdsl_private import set_type
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    check_not_kept,
    elements_attribute_of,
    find_attribute,
    is_cast,
    layer_of,
    model_of,
    models_of,
    name_of,
    op_model,
    set_attribute,
)
from qdialect.ops.model import model_named
from qdialect.ops.reading import Constants
from qdialect.support.lazy_numpy import np

_RESULT: Final = -1

_CONTROL: Final = frozenset({"builtin", "cf", "func", "ml_program", "scf"})
"""Dialects of ops that pass values on unchanged."""


def fake_quantize(module: ModuleOp, context: Context) -> PassReport:
    """
    Make all ops of a module that compute on quantized values compute on floats.

    An op that cannot be made float is left as it is, and reported with the reason.
    """
    faking = _Faking(Constants(ResourceBlobs.of(context)))
    with models_of(context):
        for op in list(module.walk()):
            faking.visit(op)
    return faking.report


@dataclass(eq=False)
class _Faking:
    """One run of the pass."""

    constants: Constants
    report: PassReport = field(default_factory=lambda: PassReport(verb="made float"))
    read: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The `quant.dcast` of each quantized value that a changed op reads."""
    inner: set[Operation] = field(default_factory=set[Operation])
    """The ops in regions of changed ops, which change with these."""

    def visit(self, op: Operation) -> None:
        """Make `op` compute on floats, if it computes on quantized values."""
        if op in self.inner or not any(map(_is_quantized, (*op.operands, *op.results))):
            return
        is_kept = model_of(op) is not None or is_cast(op) or _is_constant(op)
        if is_kept or name_of(op).partition(".")[0] in _CONTROL:
            return
        self.inner |= {inner for region in op.regions for inner in region.walk()}
        try:
            check_not_kept(op)
            change = self._change(op)
        except Refusal as error:
            self.report.refuse(op, error)
            return
        operands = [self._read(operand) for operand in op.operands]
        results = [result for result in op.results if _is_quantized(result)]
        types = [result.type for result in results]
        before = dict.fromkeys(op.operands)
        change(op, operands)
        for operand in before:
            maker = operand.owner
            # An integer zero point that only this op read.
            if not operand.uses and isinstance(maker, Operation) and _is_constant(maker):
                Rewriter.erase_op(maker)
        for result, type in zip(results, types, strict=True):
            _store(result, type)
        self.report.tell(Outcome.FAKED, op, "it is between casts, and computes on floats")

    def _change(self, op: Operation) -> Callable[[Operation, Sequence[SSAValue]], None]:
        """A function that makes `op`, or a copy of it, compute on floats. Raises Refusal."""
        is_layer = layer_of(op) is not None
        if not (is_layer or find_run(name_of(op)) or op_model(op).term):
            raise Refusal(RefusalCode.UNKNOWN_OP, "the function that it computes is not known")
        for inner in (inner for region in op.regions for inner in region.walk()):
            name = name_of(inner)
            values = (*inner.operands, *inner.results)
            is_known = model_named(name).yields or find_run(name)
            if any(map(_is_quantized, values)) and not is_known:
                raise Refusal(RefusalCode.UNKNOWN_OP, f"its region has a '{name}'")
        values = (*op.operands, *op.results)
        types = [element_type_or_self(value.type) for value in values]
        quantized = [type for type in types if isinstance(type, QuantizedType)]
        uniform = [type for type in quantized if isinstance(type, UniformQuantizedType)]
        if len(uniform) < len(quantized):
            raise Refusal(RefusalCode.UNKNOWN_OP, "the parameters of a type are not known")
        for type in uniform:
            if (reason := type.non_integers) is not None:
                raise Refusal(RefusalCode.ILLEGAL_TYPE, reason)
        model = model_named(name_of(op))
        zero_points = model.zero_points or {}
        for number in zero_points:
            self._check_zero_point(op, number, zero_points[number])
        widths = {type.storage_type.bitwidth for type in uniform}
        stored = {IntegerType(width) for width in widths}
        for number, type in enumerate(types):
            is_other = number in zero_points or number in model.plain_operands
            if not isinstance(type, IntegerType) or is_other:
                continue
            if is_layer or type.bitwidth in widths:
                raise Refusal(
                    RefusalCode.UNKNOWN_OP, f"its integers of type '{type}' may be storage values"
                )
        for key, attribute in {**op.properties, **op.attributes}.items():
            if isinstance(attribute, IntegerAttr) and cast(IntegerAttr, attribute).type in stored:
                raise Refusal(
                    RefusalCode.UNKNOWN_OP, f"its attribute '{key}' may be a storage value"
                )
        expressed = uniform[0].expressed_type

        def change(op: Operation, operands: Sequence[SSAValue]) -> None:
            given = [*operands]
            for number in {*zero_points} & {*range(len(given))}:
                if not isinstance(element_type_or_self(given[number].type), AnyFloat):
                    given[number] = self._zero(given[number], expressed)
            op.operands = given
            for value in values_in(op):
                set_type(value, _floats(value.type))
            if isinstance(find_attribute(op, "acc_type"), IntegerType):
                set_attribute(op, "acc_type", expressed)

        self._verify(op, change)
        return change

    def _verify(
        self, op: Operation, change: Callable[[Operation, Sequence[SSAValue]], None]
    ) -> None:
        """Raise Refusal unless a changed copy of `op` verifies."""
        operands = Block(arg_types=[_floats(operand.type) for operand in op.operands]).args
        copy = op.clone()
        try:
            change(copy, operands)
            verify_alone(copy)
        except VerifyException as error:
            raise Refusal(RefusalCode.ILLEGAL_TYPE, f"on floats, {first_line(error)}") from None
        finally:
            copy.operands = ()

    def _check_zero_point(self, op: Operation, number: int, owner_number: int) -> None:
        """Raise Refusal unless an operand is the zero point of its type, or a float."""
        if number >= len(op.operands):
            return
        operand, value = (
            op.operands[number],
            op.results[0] if owner_number == _RESULT else op.operands[owner_number],
        )
        if not isinstance(element_type_or_self(operand.type), IntegerType):
            return
        owner, type = operand.owner, element_type_or_self(value.type)
        values = self.constants.read(owner) if isinstance(owner, Operation) else None
        if values is None or not isinstance(type, UniformQuantizedType):
            raise Refusal(
                RefusalCode.NOT_CONSTANT, f"operand #{number} is not a constant zero point"
            )
        wrap = type.storage_format.wrap
        stored = wrap(as_view(values).array().astype(np.int64)).reshape(-1)
        if not (wrap(type.zero_points).reshape(-1, 1) == stored).all():
            raise Refusal(
                RefusalCode.STALE_TYPE, f"operand #{number} differs from the zero point of the type"
            )

    def _zero(self, operand: SSAValue, expressed: AnyFloat) -> SSAValue:
        """A float zero in place of a zero point."""
        source = operand.owner
        if not isinstance(source, Operation):
            # For a copy that is only verified.
            return Block(arg_types=[with_element_type(operand.type, expressed)]).args[0]
        zero = source.clone()
        zeros = np.zeros(shape_of(operand.type) or (), element_dtype(expressed))
        name = cast(str, elements_attribute_of(source))
        set_attribute(zero, name, dense_elements(zeros, expressed))
        set_type(zero.results[0], with_element_type(operand.type, expressed))
        Rewriter.insert_op(zero, InsertPoint.after(source))
        return zero.results[0]

    def _read(self, value: SSAValue) -> SSAValue:
        """The numbers of a quantized value; any other value itself."""
        if not _is_quantized(value):
            return value
        if value not in self.read:
            op = DequantizeCastOp(value, _floats(value.type))
            insert_after(op, value)
            self.read[value] = op.result
        return self.read[value]


def _store(result: SSAValue, type: Attribute) -> None:
    """Quantize a result, for all of its users."""
    op = QuantizeCastOp(result, type)
    insert_after(op, result)
    for use in list(result.uses):
        if use.operation is not op:
            use.operation.operands[use.index] = op.result


def _is_constant(op: Operation) -> bool:
    return elements_attribute_of(op) is not None


def _is_quantized(value: SSAValue) -> bool:
    return isinstance(element_type_or_self(value.type), QuantizedType)


def _floats(type: Attribute) -> Attribute:
    """The same type with expressed elements if it is quantized; else `type` itself."""
    element = element_type_or_self(type)
    if not isinstance(element, UniformQuantizedType):
        return type
    return with_element_type(type, element.expressed_type)
