"""
Writes a plan of equalization into its module.

New constants are made before the first change, so that an error leaves the module unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.algebra.views import as_view
from qdialect.dialects.quant import StatisticsOp, UniformQuantizedType
from qdialect.folding.writing import constant_like, write_constant
from qdialect.ir.elements import dense_elements, element_dtype, floats_attribute
from qdialect.ir.rewriting import insert_after
from qdialect.ir.value_types import element_type_or_self
from qdialect.lowering.dequantization import multiplied
from qdialect.ops.along_axis import AXIS_STATS, LAYER_STATS, is_statistics
from qdialect.ops.interface import (
    Refusal,
    elements_attribute_of,
    find_attribute,
    is_cast,
    model_of,
    name_of,
    read_movements,
    set_attribute,
    shape_of,
)
from qdialect.ops.unused_ops import erase_unused
from qdialect.ptq.calibration.keys import KEY_ATTRIBUTE
from qdialect.ptq.codes import quantized_values
from qdialect.ptq.equalization.factors import (
    Factors,
    Moves,
    recorded_range,
    scaled_range,
    statistics_behind,
)
from qdialect.ptq.equalization.layers import constant_numbers, quantized_layer
from qdialect.ptq.equalization.planning import Layer, Plan, Product
from qdialect.ptq.float_graph.flow_graph import FLOAT_ATTRIBUTE, Bias, Node, Use
from qdialect.ptq.float_graph.flow_reading import broadcast_axes
from qdialect.ptq.schemes.equalization import scaled
from qdialect.ptq.schemes.presets import scheme_of
from qdialect.ptq.schemes.schemes import Blocks, Range
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np

_COUNT: Final = "count"


class Step(NamedTuple):
    """One multiplication of a constant, or a division."""

    factors: Factors
    is_divided: bool


class UnwritableError(Exception):
    """A plan cannot be written, because of these layers."""

    def __init__(self, nodes: Sequence[Node], reason: Refusal) -> None:
        super().__init__(str(reason))
        self.nodes, self.reason = nodes, reason


class EqualizationWriter:
    """Changes a module as planned."""

    def __init__(self, plan: Plan, context: Context) -> None:
        self._plan = plan
        self._graph = plan.graph
        self._context = context
        self._new = list[Operation]()
        """The ops that were inserted."""
        self._known = dict[tuple[SSAValue, tuple[tuple[bytes, bool], ...]], SSAValue]()
        self._sources: list[tuple[Operation, Operation]] = []
        """Old constants, and their replacements."""
        self._rounded: dict[SSAValue, NDArray[Any]] = {}
        """The dequantized elements of requantized weights."""
        self._keys = {*plan.graph.keys.values()}

    def write(self) -> dict[Product, Operation]:
        """
        Change the module, and return the op that computes each product.

        If it raises UnwritableError, the module is unchanged.
        """
        replaced = [(use, self._prepared(use, steps, node)) for use, steps, node in self._steps()]
        for value, factors in self._plan.values.items():
            for part in (value, *self._graph.makers[value].inner):
                self._rewrite_ranges(part, factors)
        products = {product: self._multiply(product) for product in self._plan.products.values()}
        old = [use.value.owner for use, _ in replaced]
        for layer in self._plan.layers:
            if self._plan.rows(layer) is not None and layer.node.bias is not None:
                self._rewrite_broadcast(layer, layer.node.bias)
        for use, new in replaced:
            use.op.operands[use.number] = new
        for layer in self._plan.changed:
            layer.node.ops[0].attributes[self._plan.mark] = UnitAttr()
        erase_unused([op for op in old if isinstance(op, Operation)])
        for source, new in self._sources:
            if source.parent is not None:
                # Keys are unique, and the old constants still exist.
                new.attributes.pop(KEY_ATTRIBUTE, None)
        return products

    def _steps(self) -> Iterator[tuple[Use, list[Step], Node]]:
        """The constants that change, with their steps."""
        plan = self._plan
        for layer in plan.layers:
            steps = list[Step]()
            if (scales := plan.scales.get(layer)) is not None:
                steps.append(Step(layer.indices.on_weights(scales), is_divided=True))
            if (rows := plan.rows(layer)) is not None:
                steps.append(Step(rows, is_divided=False))
                if (bias := layer.node.bias) is not None:
                    of_bias = _on_bias(rows, bias, layer)
                    yield bias.use, [Step(of_bias, is_divided=False)], layer.node
            if steps:
                assert layer.node.weight is not None
                yield layer.node.weight, steps, layer.node
        for use, factors in plan.constants.items():
            yield use, [Step(factors, is_divided=False)], self._graph.node_of[use.op]

    def _prepared(self, use: Use, steps: list[Step], node: Node) -> SSAValue:
        try:
            return self._rebuilt(use.value, steps)
        except Refusal as error:
            for op in reversed(self._new):
                Rewriter.erase_op(op)
            raise UnwritableError([node], error) from None

    def _insert(self, ops: Sequence[Operation], point: InsertPoint) -> None:
        Rewriter.insert_op(ops, point)
        self._new += ops

    # Constants

    def _rebuilt(self, value: SSAValue, steps: Sequence[Step]) -> SSAValue:
        """A constant, multiplied, behind copies of the same ops. Raises Refusal."""
        key = value, tuple((step.factors.tobytes(), step.is_divided) for step in steps)
        if key not in self._known:
            self._known[key] = self._new_constant(value, steps)
        return self._known[key]

    def _new_constant(self, value: SSAValue, steps: Sequence[Step]) -> SSAValue:
        op, shape = cast(Operation, value.owner), shape_of(value)
        if np.broadcast_shapes(shape, *(step.factors.shape for step in steps)) != shape:
            return self._written(value, steps)
        if is_statistics(op):
            inner = self._rebuilt(op.operands[0], steps)
            new = op.clone({op.operands[0]: inner})
            rounded = self._rounded.get(inner)
            numbers = self._numbers(value, steps) if rounded is None else rounded
            _set_ranges(new, _ranges_of(numbers, recorded_range(op)))
            return self._placed(new, op)
        if (model := model_of(op)) is not None and elements_attribute_of(op) is None:
            operands, movements, padding = read_movements(op, model, self._graph.folding.operands)
            is_plain = padding is None and len(set(operands)) == len(operands)
            if is_plain and all(operand in list(op.operands) for operand in operands):
                moves = Moves(movements, [shape_of(operand) for operand in operands])
                pulled = [moves.pulled(step.factors) for step in steps]
                if None not in pulled:
                    mapped = dict[SSAValue, SSAValue]()
                    for number, operand in enumerate(operands):
                        inner = [
                            Step(cast("list[Factors]", factors)[number], step.is_divided)
                            for factors, step in zip(pulled, steps, strict=True)
                        ]
                        mapped[operand] = self._rebuilt(operand, inner)
                    return self._placed(op.clone(mapped), op)
        return self._written(value, steps)

    def _placed(self, new: Operation, like: Operation) -> SSAValue:
        new.location = like.location
        self._insert([new], InsertPoint.after(like))
        self._sources.append((like, new))
        new.results[0].name_hint = like.results[0].name_hint
        return new.results[0]

    def _numbers(self, value: SSAValue, steps: Sequence[Step]) -> NDArray[Any]:
        """The numbers of a constant after the multiplications."""
        numbers, _ = constant_numbers(self._graph, value)
        for factors, is_divided in steps:
            numbers = scaled(numbers, factors, is_divided=is_divided)
        return numbers

    def _written(self, value: SSAValue, steps: Sequence[Step]) -> SSAValue:
        """A constant in place of a value that is computed from constants. Raises Refusal."""
        moved = self._graph.constant(value)
        assert moved is not None
        numbers = self._numbers(value, steps)
        type = cast(AnyFloat, element_type_or_self(value.type))
        resources = self._graph.folding.constants.resources
        sources, owner = moved.provenance.sources, cast(Operation, value.owner)
        place = InsertPoint.after(owner)
        at, rounded = quantized_layer(moved), None
        if at is None:
            tensor = TensorType(type, numbers.shape)
            new = [constant_like(sources, _bits(numbers, type), tensor, resources)]
        else:
            if is_cast(owner) and not is_statistics(owner):
                before = owner.operands[0].type
            else:
                # Shape ops moved the parameters: this type has the moved ones.
                layer = moved.layers[at]
                assert layer.parameters is not None
                before = TensorType(layer.quantized.with_parameters(layer.parameters), moved.shape)
            like = cast(UniformQuantizedType, element_type_or_self(before))
            codes, quantized = _requantized(numbers, like)
            types = list[TensorType[Attribute]]()
            for number, layer in enumerate(moved.layers[: at + 2]):
                element = quantized.element_type if number == at else layer.element_type
                types.append(TensorType(element, numbers.shape))
            stored = types[0].element_type
            is_plain = isinstance(stored, IntegerType)
            parameters = quantized.element_type.parameters_on(numbers.shape)
            rounded = np.asarray(parameters.read(codes))
            dtype = element_dtype(cast(Attribute, stored) if is_plain else like.storage_type)
            codes = codes.astype(dtype)
            kept = moved._replace(layers=moved.layers[: at + 2], casts=moved.casts[: at + 1])
            new = list(write_constant(kept, codes, types, resources).ops)
        for op in new:
            op.location = sources[0].location
        self._insert(new, place)
        if rounded is not None:
            self._rounded[new[-1].results[0]] = rounded
        new[-1].results[0].name_hint = value.name_hint
        self._sources.append((sources[0], new[0]))
        return new[-1].results[0]

    # Ranges

    def _rewrite_ranges(self, value: SSAValue, factors: Factors) -> None:
        """Multiply the recorded ranges of a value."""
        for op in statistics_behind(self._graph, value):
            own = scaled_range(recorded_range(op), factors)
            if (ranges := own or self._plan.ranges.get(value)) is not None:
                _set_ranges(op, ranges, has_axis=own is not None)

    def _rewrite_broadcast(self, layer: Layer, bias: Bias) -> None:
        """The ranges behind a broadcast of a bias to lengths known only at run time."""
        broadcast, rows = bias.use.op, self._plan.rows(layer)
        if (axes := broadcast_axes(self._graph, broadcast)) is None or broadcast in layer.node.ops:
            return
        assert rows is not None
        step = Step(_on_bias(rows, bias, layer), is_divided=False)
        numbers = self._numbers(bias.use.value, [step])
        (result,) = broadcast.results
        lengths = [1] * len(shape_of(result))
        for axis, length in zip(axes, numbers.shape, strict=True):
            lengths[axis] = length
        placed = numbers.transpose(np.argsort(axes)).reshape(lengths)
        for op in statistics_behind(self._graph, result):
            _set_ranges(op, _ranges_of(placed, recorded_range(op)))

    def _multiply(self, product: Product) -> Operation:
        """Insert a multiplication with its ranges, and redirect its readers to it."""
        value, graph = product.value, self._graph
        place = self._place(product)
        # That of its readers.
        dialect = name_of(product.uses[0].op).partition(".")[0]
        op = multiplied(dialect, value, product.factors, self._context, place)
        op.attributes[FLOAT_ATTRIBUTE] = UnitAttr()
        recorded = next(statistics_behind(graph, value), None)
        name = graph.keys.get(value, "")
        key = self._free_key(f"{name}_equalized")
        op.attributes[KEY_ATTRIBUTE] = StringAttr(key)
        for maker in (operand.owner for operand in op.operands if operand is not value):
            # With lengths known only at run time, the scales are broadcast by an op.
            if isinstance(maker, Operation) and broadcast_axes(graph, maker) is not None:
                maker.attributes[FLOAT_ATTRIBUTE] = UnitAttr()
                maker.attributes[KEY_ATTRIBUTE] = StringAttr(self._free_key(f"{key}_scales"))
        hint = f"{value.name_hint}_equalized" if value.name_hint else "equalized"
        (result,) = op.results
        result.name_hint = hint
        read = result
        if (ranges := product.ranges) is not None:
            whole = floats_attribute(_whole(ranges))
            axes = _axes_of(ranges)
            axis = axes[0] if len(axes) == 1 else None
            by_axis = None if axis is None else floats_attribute(_rows(ranges))
            count = None if recorded is None else find_attribute(recorded, _COUNT)
            records = cast(Any, count).value.data if count is not None else None
            stats = StatisticsOp(result, whole, by_axis, axis, key=key, count=records)
            insert_after(stats, result)
            stats.result.name_hint = hint
            read = stats.result
        for use in product.uses:
            use.op.operands[use.number] = read
        return op

    def _place(self, product: Product) -> SSAValue:
        """The operand of a multiplication: the last `quant.stats`, if it has readers."""
        last = self._graph.last.get(product.value, product.value)
        owner = last.owner
        block = owner.parent if isinstance(owner, Operation) else None
        if block is None:
            return product.value
        readers = [block.find_ancestor_op_in_block(use.op) for use in product.uses]
        is_before = [
            op is not None and cast(Operation, owner).is_before_in_block(op) for op in readers
        ]
        return last if all(is_before) else product.value

    def _free_key(self, name: str) -> str:
        number, key = 0, name
        while key in self._keys:
            number += 1
            key = f"{name}_{number}"
        self._keys.add(key)
        return key


def _on_bias(rows: Factors, bias: Bias, layer: Layer) -> Factors:
    """The factors of a bias, from those of the elements of the weights."""
    order = [axis for axes in bias.weight_axes for axis in axes]
    rest = [axis for axis in range(rows.ndim) if axis not in order]
    lengths = layer.weights.shape
    factors = rows.transpose([*order, *rest]).reshape([rows.shape[axis] for axis in order])
    full, shape = list[int](), list[int]()
    for axes in bias.weight_axes:
        is_whole = any(rows.shape[axis] > 1 for axis in axes)
        counts = [lengths[axis] if is_whole else 1 for axis in axes]
        full += counts
        shape.append(int(np.prod(counts)))
    return np.broadcast_to(factors, full).reshape(shape)


def _bits(numbers: NDArray[Any], type: AnyFloat) -> NDArray[Any]:
    """The elements of a constant of floats."""
    bits = FLOAT_FORMATS[type.name].nearest_bits(numbers.astype("f8"))
    return bits.astype(element_dtype(type)).reshape(numbers.shape)


def _requantized(numbers: NDArray[Any], like: UniformQuantizedType) -> tuple[NDArray[Any], Any]:
    """Codes with the storage and the slots of a type, and new parameters. Raises Refusal."""
    is_symmetric = not like.zero_points.any()
    scheme = scheme_of(
        f"torch-per-channel-{'symmetric' if is_symmetric else 'affine'}", like.storage_format
    ).with_codes(like.storage_type_min, like.storage_type_max)
    axes = like.quantized_dimensions
    sizes = like.block_sizes or (1,) * len(axes)
    blocks = Blocks(tuple(zip(axes, sizes, strict=True)))
    expressed = like.expressed_type
    codes, type = quantized_values(_bits(numbers, expressed), expressed, scheme, blocks)
    return as_view(codes).array(), type


def _axes_of(ranges: Range) -> tuple[int, ...]:
    """The axes along which ranges vary."""
    return tuple(axis for axis, length in enumerate(ranges.minimum.shape) if length > 1)


def _whole(ranges: Range) -> NDArray[np.float64]:
    """The range of all elements."""
    return np.array([ranges.minimum.min(), ranges.maximum.max()], "f8")


def _rows(ranges: Range) -> NDArray[np.float64]:
    """The ranges along one axis: a row for each position."""
    return np.stack([end.reshape(-1) for end in ranges], -1).astype("f8")


def _ranges_of(numbers: NDArray[Any], own: Range) -> Range:
    """The ranges of numbers along the axes of other ranges."""
    others = tuple(axis for axis in range(numbers.ndim) if axis not in _axes_of(own))
    low, high = (end(numbers, axis=others, keepdims=True) for end in (np.min, np.max))
    return Range(low.astype("f4"), high.astype("f4"))


def _set_ranges(op: Operation, ranges: Range, *, has_axis: bool = True) -> None:
    """Write ranges to a `quant.stats`."""
    _set(op, LAYER_STATS, _whole(ranges))
    if find_attribute(op, AXIS_STATS) is None:
        return
    if has_axis:
        _set(op, AXIS_STATS, _rows(ranges))
        return
    for attributes in (op.properties, op.attributes):
        attributes.pop(AXIS_STATS, None)
        attributes.pop("axis", None)


def _set(op: Operation, name: str, numbers: NDArray[np.float64]) -> None:
    type = cast(Any, find_attribute(op, name)).type.element_type
    bits = FLOAT_FORMATS[type.name].nearest_bits(numbers)
    set_attribute(op, name, dense_elements(bits.astype(element_dtype(type)), type))
