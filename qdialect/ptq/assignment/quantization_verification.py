"""
Checks that integer kernels can compute a quantized module, as ONE's verifier does.

The types before and after the casts around each op are compared with those that the steps would
assign to it: `assignment_steps` and `flow` have the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.movement import DYNAMIC, Shape
from qdialect.algebra.parameters import Granularity, StorageFormat
from qdialect.dialects.quant import (
    DequantizeBiasOp,
    DequantizeCastOp,
    QuantizeCastOp,
    RequantizeOp,
    UniformQuantizedType,
)
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.along_axis import is_statistics
from qdialect.ops.fields import RuleKind
from qdialect.ops.interface import Refusal, models_of, name_of, op_model
from qdialect.ptq.assignment.assignment_steps import scales_of_sums
from qdialect.ptq.assignment.flow import different_operand, weight_axes
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Node, Use
from qdialect.ptq.float_graph.flow_reading import read_nodes, value_graph
from qdialect.ptq.schemes.presets import SCHEMES, fixed_choice
from qdialect.ptq.value_reports import zero_points_of
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import memory_budget

_RELATIVE: Final = 2.0**-23
"""The relative tolerance of a float32 product: one rounding and a little more."""

_LEAST: Final = 2.0**-149
"""The least positive float32."""


class Expectation(NamedTuple):
    """The expected types of the layers of a module; None for any."""

    storage: StorageFormat | None = None
    """The storage of activations."""
    weight_storage: StorageFormat | None = None
    granularity: str | None = None
    """The granularity of weights: `tensor`, `channel` or `block`."""


@dataclass
class Findings:
    """Errors and warnings of a module, with their ops."""

    errors: list[tuple[Operation, str]] = field(default_factory=list[tuple[Operation, str]])
    floats: list[tuple[Operation, str]] = field(default_factory=list[tuple[Operation, str]])
    """Ops that compute in floats between quantized values."""


def verify_quantization(
    module: ModuleOp, context: Context, expected: Mapping[str, Expectation], default: Expectation
) -> Findings:
    """
    Check all ops of a module whose operands and results are quantized.

    `expected` has the types of layers that differ from `default`, by the keys of their results.
    """
    with models_of(context), memory_budget() as budget:
        graph = value_graph(module, context, budget, has_reshaped_layers=True)
        return _Verifier(read_nodes(graph), expected, default).run()


class _Verifier:
    def __init__(
        self, graph: FlowGraph, expected: Mapping[str, Expectation], default: Expectation
    ) -> None:
        self._graph = graph
        self._expected = expected
        self._default = default
        self._findings = Findings()

    def run(self) -> Findings:
        for node in self._graph.nodes:
            self._check(node)
        for op in self._graph.ops:
            self._check_known(op)
        for op in self._graph.module.walk():
            self._check_casts(op)
        return self._findings

    def _error(self, op: Operation, message: str) -> None:
        self._findings.errors.append((op, f"'{name_of(op)}' op {message}"))

    def _float(self, op: Operation, message: str) -> None:
        self._findings.floats.append((op, f"'{name_of(op)}' op {message}"))

    # Types of operands and results

    def _read(self, value: SSAValue) -> UniformQuantizedType | None:
        """The quantized type of an operand behind a cast; None for floats."""
        while isinstance(value.owner, Operation) and is_statistics(value.owner):
            value = value.owner.operands[0]
        if isinstance(value.owner, DequantizeCastOp):
            type = element_type_or_self(value.owner.input.type)
            return type if isinstance(type, UniformQuantizedType) else None
        return self._graph.given_type(value)

    def _types_of(self, result: SSAValue) -> Sequence[UniformQuantizedType]:
        """The types that a result is quantized to."""
        types, pending = dict[UniformQuantizedType, None](), [result]
        while pending:
            for use in pending.pop().uses:
                if is_statistics(use.operation):
                    pending.append(use.operation.results[0])
                elif isinstance(use.operation, QuantizeCastOp):
                    type = element_type_or_self(use.operation.result.type)
                    if isinstance(type, UniformQuantizedType):
                        types[type] = None
        return list(types)

    # Nodes

    def _check(self, node: Node) -> None:
        inner = [op for op in node.ops[:-1] if any(map(self._types_of, op.results))]
        for op in inner if node.is_function else ():
            self._error(
                op,
                f"is one of the {len(node.ops)} ops of {node.name}, and its result is "
                "quantized: these ops are one function; remove the casts between them",
            )
        uses = node.uses if node.padding is None else (*node.uses, node.padding)
        reads = {use: self._read(use.value) for use in uses}
        results = list[UniformQuantizedType]()
        for result in node.results:
            types = self._types_of(result)
            if len(types) > 1:
                self._error(
                    node.op,
                    f"has a result that is quantized to {len(types)} types: quantize it to one, "
                    "and requantize that for other readers",
                )
            results += types[:1]
        operands = [type for type in reads.values() if type is not None]
        for type in dict.fromkeys((*operands, *results)):
            self._check_zero_points(node.op, type, "an activation")
        is_float = (node.results and not results) or (not operands and not node.weight)
        if is_float or not (operands or results):
            # Its operands or its result are quantized for other ops.
            return
        if (reason := self._why_in_floats(node, reads, inner)) is not None:
            self._float(node.op, reason)
            return
        known = {use: type for use, type in reads.items() if type is not None}
        self._check_storage(node, known, results)
        if self._check_activations(node, known, results) and results:
            self._check_known_range(node, results[0])
        if node.weight is not None:
            self._check_weight(node, node.weight, operands)
        for use in node.channel_constants:
            type = self._read(use.value)
            if type is None:
                self._float(node.op, f"reads operand {use.number} as floats: it computes in floats")
            else:
                self._check_zero_points(node.op, type, f"operand {use.number}")

    def _why_in_floats(
        self,
        node: Node,
        reads: Mapping[Use, UniformQuantizedType | None],
        inner: Sequence[Operation],
    ) -> str | None:
        """Why a node with quantized results computes in floats; None if it does not."""
        if missing := [use.number for use, type in reads.items() if type is None]:
            return (
                f"reads operand {missing[0]} as floats, while its result is quantized: it computes "
                "in floats; record a range for that operand, or for a value that it is computed "
                "from"
            )
        if inner and not node.is_function:
            return "adds a bias to sums that are already quantized: remove the casts between them"
        return None

    def _expectation(self, node: Node) -> Expectation:
        known = filter(None, map(self._expected.get, self._graph.keys_of(node)))
        return next(known, self._default)

    def _check_zero_points(self, op: Operation, type: UniformQuantizedType, what: str) -> None:
        low, high = type.storage_type_min, type.storage_type_max
        zero_points = zero_points_of(type)
        outside = zero_points[(zero_points < low) | (zero_points > high)]
        if outside.size:
            self._error(
                op,
                f"has {what} of '{_name(type)}' with zero point {outside.flat[0]}, which is not a "
                f"code: codes are from {low} to {high}; choose one of them, so that zero is exact",
            )
        elif type.storage_format.width > 8 and zero_points.any():
            self._error(
                op,
                f"has {what} of '{_name(type)}' with zero point {_nonzero(zero_points)}: "
                "storage of more than 8 bits is symmetric; use zero point 0",
            )

    def _check_storage(
        self,
        node: Node,
        reads: Mapping[Use, UniformQuantizedType],
        results: Sequence[UniformQuantizedType],
    ) -> None:
        types = [(f"operand {use.number}", type) for use, type in reads.items()]
        types += [("its result", type) for type in results]
        place, wanted = types[-1]
        expected = self._expectation(node).storage
        computes = node.kind is not RuleKind.MOVED
        if expected is not None and computes and wanted.storage_format != expected:
            self._error(
                node.op,
                f"computes in '{_name(wanted)}', but '{expected.name}' is expected: "
                "quantize it again, or give it that precision in the configuration",
            )
        for what, type in types:
            if type.storage_format != wanted.storage_format:
                self._error(
                    node.op,
                    f"has '{_name(type)}' in {what}, and '{_name(wanted)}' in {place}: an op "
                    "computes in one precision; put a 'quant.requantize' before or after it",
                )
                return

    def _check_activations(
        self,
        node: Node,
        reads: Mapping[Use, UniformQuantizedType],
        results: Sequence[UniformQuantizedType],
    ) -> bool:
        """
        Whether an op that moves or joins elements keeps their parameters, and any other one has
        one scale for each activation.
        """
        types = [*reads.values(), *results]
        # The kernel of a max pool may requantize.
        requantizes = node.is_pool and len({*types}) > 1
        if node.kind in (RuleKind.MOVED, RuleKind.SHARED) and not requantizes:
            if not results or node.table is not None:
                return True
            difference = different_operand(node, reads, results[0])
            if difference is None:
                return True
            use, wanted = difference
            if reads[use].granularity is wanted.granularity is Granularity.PER_TENSOR:
                reason = (
                    f"only moves elements, and has {_slot_text(reads[use])} in operand "
                    f"{use.number} and {_slot_text(wanted)} in its result: kernels copy codes; "
                    "requantize the operand, or give both the same parameters"
                )
            else:
                reason = (
                    "moves elements, but its result does not have their parameters: operand "
                    f"{use.number} has '{reads[use]}', and the result needs '{wanted}' there; run "
                    "'--propagate-parameters-forward' before the casts are written"
                )
            self._error(node.op, reason)
            return True
        for type in types:
            if type.granularity is not Granularity.PER_TENSOR:
                self._error(
                    node.op,
                    f"reads or makes an activation with {type.scales.size} scales: kernels "
                    "have one for each activation; quantize it per tensor",
                )
                return False
        return True

    def _check_known_range(self, node: Node, type: UniformQuantizedType) -> None:
        """Check a result with a known range, or one that is whole numbers."""
        known = dict.fromkeys(_fixed_slots(node.rule.fixed, type.storage_format))
        scale, zero_point = float(type.scales.flat[0]), int(type.zero_points.flat[0])
        if known and (np.float32(scale), zero_point) not in known:
            right = next(iter(known))
            self._error(
                node.op,
                f"is a {node.rule.fixed}, and its result has {_slot_text(type)}: kernels make "
                f"{right[0]:.9g}:{right[1]} of '{_name(type)}' for any data; run "
                "'--assign-fixed-values'",
            )
        if node.kind is RuleKind.WHOLE_NUMBER and scale != round(scale):
            self._error(
                node.op,
                f"computes whole numbers, and its result has scale {scale:.9g}: only a whole "
                "scale represents them exactly; run '--assign-fixed-values'",
            )

    # Layers

    def _check_weight(
        self, node: Node, weight: Use, activations: Sequence[UniformQuantizedType]
    ) -> None:
        type = self._read(weight.value)
        if type is None:
            self._float(
                node.op,
                "reads its weights as floats, while its result is quantized: it computes in "
                "floats; quantize them",
            )
            return
        self._check_zero_points(weight.op, type, "weights")
        expected, shape = self._expectation(node), shape_of(weight.value.type)
        if expected.weight_storage is not None and type.storage_format != expected.weight_storage:
            self._error(
                weight.op,
                f"has weights of '{_name(type)}', but '{expected.weight_storage.name}' "
                "is expected: quantize them again",
            )
        if shape is None or DYNAMIC in shape:
            return
        wrong = self._wrong_axes(node, type, shape, expected.granularity)
        if wrong is not None:
            self._error(weight.op, f"has weights with {wrong}")
        if node.bias is not None and activations:
            scales = type.parameters_on(shape).simplify().expand()[0]
            is_known = wrong is None and activations[0].granularity is Granularity.PER_TENSOR
            self._check_bias(node, node.bias.use, activations[0], scales if is_known else None)

    def _wrong_axes(
        self, node: Node, type: UniformQuantizedType, shape: Shape, granularity: str | None
    ) -> str | None:
        """How the scales of weights are not along axes that kernels support; None if they are."""
        slots = type.parameters_on(shape).coarsen().scales.shape
        varying = [axis for axis, count in enumerate(slots) if count > 1]
        if granularity == "tensor" and varying:
            return (
                f"{prod(slots)} scales, but one is expected: quantize them with granularity=layer"
            )
        channels, contracted = weight_axes(node)
        has_blocks = bool(type.block_sizes) or prod(shape[axis] for axis in channels) == 1
        allowed = channels
        if granularity != "channel" and has_blocks:
            allowed = (*channels, *contracted[-1:])
        for axis in varying:
            if axis not in allowed:
                named = ", ".join(map(str, channels)) or "none"
                return (
                    f"scales along axis {axis}, which is summed over: a sum of products has one "
                    f"scale for each channel, along axis {named}; quantize them along that axis"
                )
        return None

    def _check_bias(
        self,
        node: Node,
        use: Use,
        activation: UniformQuantizedType,
        weight_scales: NDArray[np.float64] | None,
    ) -> None:
        bias = self._bias(use)
        if bias is None:
            self._float(
                use.op,
                "adds a float bias, while its result is quantized: quantize the bias with the "
                "product of the scales of the input and of the weights as its scale",
            )
            return
        for reason in self._wrong_bias(bias, activation):
            self._error(use.op, reason)
        if weight_scales is None or DYNAMIC in (shape_of(use.value.type) or (DYNAMIC,)):
            return
        assert node.bias is not None
        try:
            product = scales_of_sums(float(activation.scales.item()), weight_scales, node.bias)
        except Refusal as error:
            self._error(use.op, f"has a bias, but {error}; quantize the weights per channel")
            return
        try:
            scales, product, codes = np.broadcast_arrays(bias.scales, product, bias.codes)
        except ValueError:
            self._error(
                use.op,
                f"has a bias with {bias.scales.size} scales, and {product.size} channels: a bias "
                "has one scale for each channel, or one for all",
            )
            return
        is_right = abs(scales - product) <= product * _RELATIVE + _LEAST
        # A product that is no number in float32 has scale 1, if all codes are zero.
        is_right |= (product == 0) & (scales == 1) & (codes == 0)
        if not is_right.all():
            index = tuple(np.argwhere(~is_right)[0].tolist())
            place = f" at {list(index)}" if bias.scales.size > 1 or product.size > 1 else ""
            self._error(
                use.op,
                f"has a bias with scale {scales[index]:.9g}{place}, and input and weights whose "
                f"scales have the product {product[index]:.9g}: a bias is added to sums of these "
                "products, and needs their scale; run '--assign-biases'",
            )

    def _wrong_bias(self, bias: _Bias, activation: UniformQuantizedType) -> Iterator[str]:
        """What is wrong with a bias, whatever its scales are."""
        if bias.zero_points.any():
            yield (
                f"has a bias with zero point {_nonzero(bias.zero_points)}: it is added to sums, "
                "whose zero point is 0"
            )
        is_wide = activation.storage_format.width > 8
        has_width = 32 < bias.storage.width <= 64 if is_wide else bias.storage.width == 32
        if not has_width or not bias.storage.signed:
            wanted = "33 to 64" if is_wide else "32"
            sign = "" if bias.storage.signed else " without a sign"
            yield (
                f"has a bias of {bias.storage.width} bits{sign}, and "
                f"activations of {activation.storage_format.width}: sums of their products need "
                f"signed integers of {wanted} bits"
            )

    def _bias(self, use: Use) -> _Bias | None:
        """A quantized bias; None if it is float."""
        shape, moved = shape_of(use.value.type) or (), self._graph.constant(use.value)
        if moved is None:
            return None
        if isinstance(owner := use.value.owner, DequantizeBiasOp):
            scales, axis = owner.scales_of_elements
            if axis is not None:
                scales = scales.reshape([-1 if at == axis else 1 for at in range(len(shape))])
            storage = StorageFormat(cast(IntegerType, moved.layers[0].element_type).bitwidth, True)
            zero_points = np.zeros(1, np.int64)
        elif (type := self._read(use.value)) is not None:
            scales, zero_points, storage = type.scales, type.zero_points, type.storage_format
            if DYNAMIC not in shape:
                scales = type.parameters_on(shape).expand()[0]
        else:
            return None
        return _Bias(storage, scales, zero_points, self._graph.codes_of(moved))

    # Casts, and unknown ops

    def _check_casts(self, op: Operation) -> None:
        if isinstance(op, QuantizeCastOp):
            before = op.input.owner
            if isinstance(before, DequantizeCastOp) and before.input.type != op.result.type:
                self._error(
                    op,
                    "quantizes a dequantized value: use 'quant.requantize', which no cleanup "
                    "removes",
                )
        if isinstance(op, RequantizeOp):
            if isinstance(op.operands[0].owner, RequantizeOp):
                self._error(
                    op,
                    "requantizes the result of a 'quant.requantize': read the operand of the "
                    "first one",
                )
            elif op.operands[0].type == op.results[0].type:
                self._error(op, "changes nothing: read its operand")

    def _check_known(self, op: Operation) -> None:
        """Report an unknown op between quantized values."""
        reads = any(
            isinstance(operand.owner, DequantizeCastOp) and not self._graph.is_constant(operand)
            for operand in op.operands
        )
        if reads and any(map(self._types_of, op.results)) and self._graph.is_unknown(op):
            reason = op_model(op).stays_float
            self._float(
                op,
                "is between quantized values, and no quantization rule for it is known: it "
                "computes in floats; register a rule for it"
                if reason is None
                else f"is between quantized values, and computes in floats: {reason}",
            )


class _Bias(NamedTuple):
    """A quantized bias."""

    storage: StorageFormat
    scales: NDArray[np.float64]
    """Broadcastable to the shape of the bias."""
    zero_points: NDArray[np.int64]
    codes: NDArray[Any]
    """All elements, or one if all are equal."""


def _fixed_slots(name: str, storage: StorageFormat) -> Iterator[tuple[Any, int]]:
    """The scales and zero points that schemes give a function with a known range."""
    for scheme_of_storage in SCHEMES.values() if name else ():
        try:
            choice = fixed_choice(name, scheme_of_storage(storage))
        except ValueError:
            # The scheme does not support this storage.
            continue
        yield np.float32(choice.scales.item()), int(choice.zero_points.item())


def _nonzero(numbers: NDArray[np.int64]) -> int:
    return int(numbers[numbers != 0].flat[0])


def _name(type: UniformQuantizedType) -> str:
    return type.storage_format.name


def _slot_text(type: UniformQuantizedType) -> str:
    if type.scales.size > 1:
        return f"{type.scales.size} scales"
    return f"{float(type.scales.flat[0]):.9g}:{int(type.zero_points.flat[0])}"
