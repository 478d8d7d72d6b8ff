"""The pass that reports shape ops whose quantized result type is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import Chain, Transpose
from qdialect.dialects.quant.constants import verify_in_range
from qdialect.dialects.quant.shape_ops import ShapeOp
from qdialect.dialects.quant.types import UniformQuantizedType, uniform_tensor
from qdialect.dialects.quant.verification import MAX_SPELLED_SLOTS, verify_fits, verify_result
from qdialect.ir.errors import OpErrors
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.fields import Movements
from qdialect.ops.interface import (
    NoSuchMovementError,
    Refusal,
    elements_attribute_of,
    model_of,
    models_of,
    name_of,
    read_movements,
)
from qdialect.ops.reading import ConstantOperands, Constants


def quant_shape_errors(module: ModuleOp, context: Context) -> Iterator[tuple[Operation, str]]:
    """
    Find the ops of a module with a wrong quantized result type, each with an error message.

    Ops without a model are skipped, and so is every check that depends on dynamic lengths.
    """
    operands = ConstantOperands(Constants(ResourceBlobs.of(context)))
    for op in module.walk():
        message = _error_of_constant(op, operands.constants)
        model = model_of(op)
        if model is not None and not isinstance(op, ShapeOp) and _is_quantized(op):
            try:
                message = _lie(op, read_movements(op, model, operands))
            except NoSuchMovementError as error:
                message = str(error)
            except Refusal:
                continue
        if message is not None:
            yield op, f"'{name_of(op)}' op {message}"


def _error_of_constant(op: Operation, constants: Constants) -> str | None:
    """The error of a constant that does not match its type; None if it does."""
    is_quantized = elements_attribute_of(op) is not None and _is_quantized(op)
    if not is_quantized or not isinstance(op.results[0].type, TensorType):
        return None
    try:
        tensor = uniform_tensor(cast(Attribute, op.results[0].type))
        verify_fits(tensor, "result")
        verify_in_range(constants.elements(op), tensor.element_type)
    except VerifyException as error:
        return str(error)
    except Refusal:
        # The elements are not available.
        return None
    return None


def _is_quantized(op: Operation) -> bool:
    return any(
        isinstance(element_type_or_self(value.type), UniformQuantizedType)
        for value in (*op.operands, *op.results)
    )


def _lie(op: Operation, movements: Movements) -> str | None:
    """The error of the result type of `op`; None if it is right."""
    values = (*movements.operands, op.results[0])
    if not all(isinstance(value.type, TensorType) for value in values):
        return None
    types = [element_type_or_self(value.type) for value in values]
    quantized = [isinstance(type, UniformQuantizedType) for type in types]
    if not any(quantized):
        return None
    if not all(quantized):
        moved = _type_text(types[quantized.index(not quantized[-1])])
        return f"moves elements of {moved} to a result of {_type_text(types[-1])}: it is not a cast"
    *operands, declared = (uniform_tensor(value.type) for value in values)
    nothing = Transpose(tuple(range(declared.get_num_dims())))
    movement = Chain.of(movements.movements or [nothing])
    try:
        verify_result(movement, operands, declared)
    except VerifyException as error:
        return str(error)
    return None


def _type_text(type: Attribute) -> str:
    if isinstance(type, UniformQuantizedType) and type.scales.size > MAX_SPELLED_SLOTS:
        return f"a type of {type.scales.size} scales"
    return f"type '{type}'"


@dataclass(frozen=True)
class VerifyQuantShapesPass(ModulePass):
    """
    Report shape ops whose quantized result type is wrong.

    Verifiers of other dialects accept a per-axis type that was merely copied: after a transpose
    or a reshape it refers to the wrong axis, after a slice it has too many scales. Constants
    are checked too: their type must fit their shape, and their elements the storage range.
    Fails with one error per op, which names an element and the slots that differ.

    Example: `qdialect-opt --verify-quant-shapes examples/tiny.mlir`.
    """

    name = "verify-quant-shapes"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises OpErrors."""
        with models_of(ctx):
            errors = list(quant_shape_errors(op, ctx))
        if errors:
            raise OpErrors(errors)
