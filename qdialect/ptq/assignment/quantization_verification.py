"""
Checks that integer kernels can compute a quantized module, as ONE's verifier does.

The checks read only the types before and after the casts around each op. They share no code with
the steps that choose parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import DYNAMIC, Chain, Movement, Shape
from qdialect.algebra.parameters import Granularity, StorageFormat
from qdialect.algebra.views import Splat, as_view
from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeBiasOp,
    DequantizeCastOp,
    QuantizeCastOp,
    RequantizeOp,
    UniformQuantizedType,
)
from qdialect.dialects.quant.types import QuantizedTensor
from qdialect.dialects.quant.verification import verify_result
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.along_axis import is_statistics
from qdialect.ops.fields import RuleKind
from qdialect.ops.interface import is_cast, models_of, name_of, reason_to_leave
from qdialect.ops.reading import Constants
from qdialect.ptq.float_graph.flow_graph import FlowGraph, Node, Use, is_quantizable
from qdialect.ptq.float_graph.flow_reading import flow_graph
from qdialect.ptq.value_reports import zero_points_of
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import memory_budget

if TYPE_CHECKING:
    from numpy.typing import NDArray

_U8: Final = StorageFormat(8, signed=False)
_I8: Final = StorageFormat(8, signed=True)
_I16: Final = StorageFormat(16, signed=True)

_FIXED: Final[Mapping[tuple[str, StorageFormat], Sequence[tuple[float, int]]]] = {
    ("logistic", _U8): [(1 / 256, 0)],
    ("logistic", _I8): [(1 / 256, -128)],
    ("logistic", _I16): [(1 / 32768, 0)],
    ("tanh", _U8): [(1 / 128, 128)],
    ("tanh", _I8): [(1 / 128, 0)],
    ("tanh", _I16): [(1 / 32768, 0)],
    ("softmax", _U8): [(1 / 255, 0), (1 / 256, 0)],
    ("softmax", _I8): [(1 / 256, -128)],
    ("softmax", _I16): [(1 / 32767, 0), (1 / 32768, 0)],
}
"""Scales and zero points that kernels of ONE and TFLite use for functions with a known range."""

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
        graph = flow_graph(module, context, budget, has_reshaped_layers=True)
        verifier = _Verifier(graph, Constants(ResourceBlobs.of(context)), expected, default)
        return verifier.run()


class _Verifier:
    def __init__(
        self,
        graph: FlowGraph,
        constants: Constants,
        expected: Mapping[str, Expectation],
        default: Expectation,
    ) -> None:
        self._graph = graph
        self._constants = constants
        self._expected = expected
        self._default = default
        self._found = Findings()

    def run(self) -> Findings:
        for node in self._graph.nodes:
            self._check(node)
        for op in self._graph.ops:
            self._check_known(op)
        for op in self._graph.module.walk():
            self._check_casts(op)
        return self._found

    def _error(self, op: Operation, message: str) -> None:
        self._found.errors.append((op, f"'{name_of(op)}' op {message}"))

    def _float(self, op: Operation, message: str) -> None:
        self._found.floats.append((op, f"'{name_of(op)}' op {message}"))

    # Types of operands and results

    def _read(self, value: SSAValue) -> UniformQuantizedType | None:
        """The quantized type of an operand behind a cast; None for floats."""
        while isinstance(value.owner, Operation) and is_statistics(value.owner):
            value = value.owner.operands[0]
        if isinstance(value.owner, DequantizeCastOp):
            type = element_type_or_self(value.owner.input.type)
            return type if isinstance(type, UniformQuantizedType) else None
        return self._graph.given_type(value)

    def _made(self, value: SSAValue) -> Sequence[UniformQuantizedType]:
        """The types that a value is quantized to."""
        found, pending = list[UniformQuantizedType](), [value]
        while pending:
            for use in pending.pop().uses:
                if is_statistics(use.operation):
                    pending.append(use.operation.results[0])
                elif isinstance(use.operation, QuantizeCastOp):
                    type = element_type_or_self(use.operation.result.type)
                    if isinstance(type, UniformQuantizedType) and type not in found:
                        found.append(type)
        return found

    # Nodes

    def _check(self, node: Node) -> None:
        for op in node.ops[:-1]:
            if node.name and any(map(self._made, op.results)):
                self._error(
                    op,
                    f"is one of the {len(node.ops)} ops of {node.name}, and its result is "
                    "quantized: these ops are one function; remove the casts between them",
                )
        uses = node.uses if node.filler is None else (*node.uses, node.filler)
        reads = {use: self._read(use.value) for use in uses}
        made = list[UniformQuantizedType]()
        for result in node.results:
            types = self._made(result)
            if len(types) > 1:
                self._error(
                    node.op,
                    f"has a result that is quantized to {len(types)} types: quantize it to one, "
                    "and requantize that for other readers",
                )
            made += types[:1]
        known = [type for type in reads.values() if type is not None]
        types = [*known, *made]
        for type in dict.fromkeys(types):
            self._check_zero_points(node.op, type, "an activation")
        if not types or (node.results and not made) or (not known and not node.weight):
            # It computes in float; its operands or its result are quantized for other ops.
            return
        if len(known) < len(reads):
            missing = [use.number for use, type in reads.items() if type is None]
            self._float(
                node.op,
                f"reads operand {missing[0]} as floats, while its result is quantized: it computes "
                "in floats; record a range for that operand, or for a value that it is computed "
                "from",
            )
            return
        if node.name == "" and any(
            map(self._made, (r for op in node.ops[:-1] for r in op.results))
        ):
            self._float(
                node.op,
                "adds a bias to sums that are already quantized: remove the casts between them",
            )
            return
        self._check_storage(node, reads, made)
        moves = node.rule is RuleKind.MOVED or node.rule is RuleKind.SHARED
        # The kernel of a max pool may requantize.
        if moves and not (node.is_pool and len({*types}) > 1):
            self._check_movement(node, reads, made)
        else:
            for type in types:
                if type.granularity is not Granularity.PER_TENSOR:
                    self._error(
                        node.op,
                        f"reads or makes an activation with {type.scales.size} scales: kernels "
                        "have one for each activation; quantize it per tensor",
                    )
                    return
        if made:
            self._check_class(node, made[0])
        if node.weight is not None:
            self._check_weight(node, node.weight, known)
        for use in node.singles:
            type = self._read(use.value)
            if type is None:
                self._float(node.op, f"reads operand {use.number} as floats: it computes in floats")
            else:
                self._check_zero_points(node.op, type, f"operand {use.number}")

    def _expectation(self, node: Node) -> Expectation:
        keys = (self._graph.keys.get(result, "") for op in node.ops for result in op.results)
        found = (self._expected[key] for key in keys if key in self._expected)
        return next(found, self._default)

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
        reads: Mapping[Use, UniformQuantizedType | None],
        made: Sequence[UniformQuantizedType],
    ) -> None:
        types = [(f"operand {use.number}", type) for use, type in reads.items() if type is not None]
        types += [("its result", type) for type in made]
        first, wanted = types[-1]
        expected = self._expectation(node).storage
        computes = node.rule is not RuleKind.MOVED
        if expected is not None and computes and wanted.storage_format != expected:
            self._error(
                node.op,
                f"computes in '{_name(wanted)}', but '{_format_name(expected)}' is expected: "
                "quantize it again, or give it that precision in the configuration",
            )
        for what, type in types:
            if type.storage_format != wanted.storage_format:
                self._error(
                    node.op,
                    f"has '{_name(type)}' in {what}, and '{_name(wanted)}' in {first}: an op "
                    "computes in one precision; put a 'quant.requantize' before or after it",
                )
                return

    def _check_movement(
        self,
        node: Node,
        reads: Mapping[Use, UniformQuantizedType | None],
        made: Sequence[UniformQuantizedType],
    ) -> None:
        """Check that results of movements and joins have the parameters of their operands."""
        if not made or node.table is not None:
            return
        (result,) = made[:1]
        types = {use: type for use, type in reads.items() if type is not None}
        is_whole = all(
            type.granularity is Granularity.PER_TENSOR for type in (*types.values(), result)
        )
        shapes = {use: shape_of(use.value.type) for use in types}
        moved = [use for use in types if use != node.filler]
        if len(node.movements) != 1 or not isinstance(node.movements[0], Concat):
            moved = moved[:1]
        shape = shape_of(node.results[0].type)
        is_static = all(of is not None and DYNAMIC not in of for of in (shape, *shapes.values()))
        if not is_whole and node.movements and is_static:
            tensors = [_tensor(types[use], shapes[use]) for use in moved]
            if (wrong := _moved_wrong(node.movements, tensors, _tensor(result, shape))) is not None:
                self._error(
                    node.op,
                    f"moves elements, but its result does not have their parameters: {wrong}; run "
                    "'--propagate-parameters-forward' before the casts are written",
                )
            return
        for use, type in types.items():
            if type != result:
                self._error(
                    node.op,
                    f"only moves elements, and has {_slot_text(type)} in operand {use.number} and "
                    f"{_slot_text(result)} in its result: kernels copy codes; requantize the "
                    "operand, or give both the same parameters",
                )
                return

    def _check_class(self, node: Node, made: UniformQuantizedType) -> None:
        """Check results with a known range, and results that are whole numbers."""
        if node.fixed:
            known = _FIXED.get((node.fixed, made.storage_format), ())
            slot = np.float32(made.scales.flat[0]), int(made.zero_points.flat[0])
            if known and slot not in [(np.float32(scale), zero) for scale, zero in known]:
                scale, zero = known[0]
                self._error(
                    node.op,
                    f"is a {node.fixed}, and its result has {_slot_text(made)}: kernels make "
                    f"{scale:.9g}:{zero} of '{_name(made)}' for any data; run "
                    "'--assign-fixed-values'",
                )
        if node.rule is RuleKind.WHOLE_NUMBER:
            scale = float(made.scales.flat[0])
            if scale != round(scale):
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
                f"has weights of '{_name(type)}', but '{_format_name(expected.weight_storage)}' "
                "is expected: quantize them again",
            )
        if shape is None or DYNAMIC in shape:
            return
        scales = type.parameters_on(shape).expand()[0]
        is_right = self._check_axes(node, weight, type, scales, expected.granularity)
        if node.bias is None or not activations:
            return
        self._check_bias(node, activations[0], scales if is_right else None, shape)

    def _check_axes(
        self,
        node: Node,
        weight: Use,
        type: UniformQuantizedType,
        scales: NDArray[np.float64],
        granularity: str | None,
    ) -> bool:
        """Whether the scales of weights are along axes that kernels support."""
        slots = type.parameters_on(cast(Shape, shape_of(weight.value.type))).coarsen().scales.shape
        varying = [axis for axis, count in enumerate(slots) if count > 1]
        if granularity == "tensor" and varying:
            self._error(
                weight.op,
                f"has weights with {prod(slots)} scales, but one is expected: quantize them with "
                "granularity=layer",
            )
            return False
        if node.table is not None:
            channels, contracted = (node.table.axis,), ()
        else:
            assert node.side is not None
            channels, contracted = node.side.channel_axes, node.side.contracted_axes
        lengths = cast(Shape, shape_of(weight.value.type))
        has_blocks = bool(type.block_sizes) or prod(lengths[axis] for axis in channels) == 1
        allowed = channels
        if granularity != "channel" and has_blocks:
            allowed = (*channels, *contracted[-1:])
        for axis in varying:
            if axis not in allowed:
                named = ", ".join(map(str, channels)) or "none"
                self._error(
                    weight.op,
                    f"has weights with scales along axis {axis}, which is summed over: a sum of "
                    f"products has one scale for each channel, along axis {named}; quantize them "
                    "along that axis",
                )
                return False
        return True

    def _check_bias(
        self,
        node: Node,
        activation: UniformQuantizedType,
        scales: NDArray[np.float64] | None,
        shape: Shape,
    ) -> None:
        assert node.bias is not None
        bias = self._bias_of(node.bias.use)
        op = node.bias.use.op
        if bias is None:
            self._float(
                op,
                "adds a float bias, while its result is quantized: quantize the bias with the "
                "product of the scales of the input and of the weights as its scale",
            )
            return
        if bias.zero_points.any():
            self._error(
                op,
                f"has a bias with zero point {_nonzero(bias.zero_points)}: it is added to sums, "
                "whose zero point is 0",
            )
        is_wide = activation.storage_format.width > 8
        if not (32 < bias.width <= 64 if is_wide else bias.width == 32) or not bias.is_signed:
            wanted = "33 to 64" if is_wide else "32"
            sign = "" if bias.is_signed else " without a sign"
            self._error(
                op,
                f"has a bias of {bias.width} bits{sign}, and "
                f"activations of {activation.storage_format.width}: sums of their products need "
                f"signed integers of {wanted} bits",
            )
        if scales is None or activation.granularity is not Granularity.PER_TENSOR:
            return
        of_bias = shape_of(node.bias.use.value.type)
        if of_bias is None or DYNAMIC in of_bias:
            return
        product = _products(float(activation.scales.flat[0]), scales, node.bias.weight_axes, shape)
        if product is None:
            self._error(
                op,
                "has a bias, and sums of products with several scales: a bias needs a single "
                "scale for each sum; quantize the weights per channel",
            )
            return
        found = bias.scales
        try:
            found, product = np.broadcast_arrays(found, product)
        except ValueError:
            self._error(
                op,
                f"has a bias with {found.size} scales, and {product.size} channels: a bias has "
                "one scale for each channel, or one for all",
            )
            return
        is_close = abs(found - product) <= product * _RELATIVE + _LEAST
        if bias.codes is not None:
            codes = np.broadcast_to(bias.codes, np.broadcast_shapes(bias.codes.shape, found.shape))
            nothing = (product.astype("f4") == 0) & (found == 1) & (codes == 0)
            is_close = is_close | nothing
        if not is_close.all():
            at = tuple(int(each[0]) for each in np.nonzero(~is_close))
            found, product = (np.broadcast_to(each, is_close.shape) for each in (found, product))
            place = f" at {list(at)}" if is_close.size > 1 else ""
            self._error(
                op,
                f"has a bias with scale {found[at]:.9g}{place}, and input and weights whose "
                f"scales have the product {product[at]:.9g}: a bias is added to sums of these "
                "products, and needs their scale; run '--assign-biases'",
            )

    def _bias_of(self, use: Use) -> _BiasRead | None:
        owner = use.value.owner
        if isinstance(owner, DequantizeBiasOp):
            type = element_type_or_self(owner.operands[0].type)
            shape = shape_of(use.value.type) or ()
            scales = owner.scales_of_elements.scales
            if owner.axis is not None and scales.size > 1:
                along = [1] * len(shape)
                along[owner.axis.value.data] = scales.size
                scales = scales.reshape(along)
            width = cast(IntegerType, type).bitwidth
            codes = self._codes(owner.operands[0])
            return _BiasRead(width, True, scales, np.zeros(1, np.int64), codes)
        type = self._read(use.value)
        shape = shape_of(use.value.type)
        if type is None:
            return None
        scales = type.scales
        if shape is not None and DYNAMIC not in shape:
            scales = type.parameters_on(shape).expand()[0]
        codes = self._codes(owner.operands[0]) if isinstance(owner, DequantizeCastOp) else None
        return _BiasRead(
            type.storage_format.width,
            type.storage_format.signed,
            scales,
            type.zero_points,
            codes,
        )

    def _codes(self, value: SSAValue) -> NDArray[Any] | None:
        """The codes of a constant; None if they are not known."""
        owner = value.owner
        if not isinstance(owner, Operation):
            return None
        held = owner.values if isinstance(owner, ConstantOp) else self._constants.read(owner)
        if held is None:
            return None
        if isinstance(held, Splat):
            return np.asarray(held.value)
        try:
            return as_view(cast(Any, held)).array()
        except (TypeError, ValueError):
            return None

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
        if op in self._graph.node_of or isinstance(op, FuncOp) or is_cast(op) or is_statistics(op):
            return
        if op.has_trait(IsTerminator, value_if_unregistered=False):
            return
        reads = any(
            isinstance(operand.owner, DequantizeCastOp) and not self._graph.is_constant(operand)
            for operand in op.operands
        )
        if reads and any(self._made(result) for result in op.results if is_quantizable(result)):
            self._float(
                op,
                "is between quantized values, and no quantization rule for it is known: it "
                "computes in floats; register a rule for it"
                if (reason := reason_to_leave(op)) is None
                else f"is between quantized values, and computes in floats: {reason}",
            )


class _BiasRead(NamedTuple):
    """A quantized bias."""

    width: int
    is_signed: bool
    scales: NDArray[np.float64]
    """Broadcastable to the shape of the bias."""
    zero_points: NDArray[np.int64]
    codes: NDArray[Any] | None


def _products(
    scale: float,
    scales: NDArray[np.float64],
    weight_axes: Sequence[Sequence[int]],
    shape: Shape,
) -> NDArray[np.float64] | None:
    """The scale of the sums for each element of a bias; None if a sum has several scales."""
    order = [axis for axes in weight_axes for axis in axes]
    others = [axis for axis in range(len(shape)) if axis not in order]
    if any(scales.shape[axis] > 1 for axis in others):
        return None
    whole = np.broadcast_to(
        scales, [shape[axis] if axis in order else 1 for axis in range(len(shape))]
    )
    whole = whole.transpose([*order, *others])
    lengths = [prod(shape[axis] for axis in axes) for axes in weight_axes]
    product = np.float64(scale) * whole.reshape(lengths)
    return product if scales.size > 1 else product.reshape(-1)[:1]


def _moved_wrong(
    movements: Sequence[Movement], operands: Sequence[QuantizedTensor], result: QuantizedTensor
) -> str | None:
    """How the parameters of a result differ from the moved ones; None if they are equal."""
    try:
        verify_result(Chain.of(movements), operands, result)
    except VerifyException as error:
        return str(error)
    return None


def _nonzero(numbers: NDArray[np.int64]) -> int:
    return int(numbers[numbers != 0].flat[0])


def _tensor(type: UniformQuantizedType, shape: Shape | None) -> QuantizedTensor:
    return TensorType(type, shape or ())


def _format_name(storage: StorageFormat) -> str:
    return f"{'i' if storage.signed else 'u'}{storage.width}"


def _name(type: UniformQuantizedType) -> str:
    return _format_name(type.storage_format)


def _slot_text(type: UniformQuantizedType) -> str:
    if type.scales.size > 1:
        return f"{type.scales.size} scales"
    return f"{float(type.scales.flat[0]):.9g}:{int(type.zero_points.flat[0])}"
