"""A graph and its settings, which all steps read, and the types on either side of its ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import starmap
from math import inf, prod
from typing import Any, Final, cast

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import (
    DYNAMIC,
    MovementError,
    Shape,
    ValueSet,
    pulled_back,
)
from qdialect.algebra.parameters import Granularity
from qdialect.algebra.run_map import TooManySlotsError
from qdialect.dialects.quant import UniformQuantizedType
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.fields import RuleKind
from qdialect.ops.interface import Refusal, RefusalCode, functions_of
from qdialect.ptq.assignment.parameter_assignment import Assigned
from qdialect.ptq.assignment.settings import Precision, SettingError, Settings
from qdialect.ptq.codes import WeightAxes, type_of_choice
from qdialect.ptq.float_graph.flow_graph import (
    FAR,
    FlowGraph,
    Node,
    Range,
    Use,
    largest,
)
from qdialect.ptq.schemes.arrays import array_range
from qdialect.ptq.schemes.presets import fixed_choice, luci_integer_scale
from qdialect.ptq.schemes.schemes import Choice
from qdialect.support.lazy_numpy import NDArray, np


def joins(node: Node) -> bool:
    """Whether several operands must have the parameters of the result."""
    return node.kind is RuleKind.SHARED and len(node.uses) > 1 and len(node.results) == 1


def passes_on(node: Node) -> bool:
    """Whether the result only holds elements of one operand."""
    if len(node.uses) != 1 or len(node.results) != 1:
        return False
    return node.kind is RuleKind.MOVED or node.kind is RuleKind.SHARED


def types_before(node: Node, type: UniformQuantizedType) -> Sequence[UniformQuantizedType | None]:
    """The type of each operand for a result of `type`; None where no type exists."""
    is_whole = all(movement.values is ValueSet.SAME for movement in node.movements)
    if type.granularity is Granularity.PER_TENSOR:
        return [type if joins(node) or is_whole else None] * len(node.uses)
    shapes = [shape_of(use.value.type) for use in node.uses]
    shape = shape_of(node.results[0].type)
    if shape is None or DYNAMIC in shape:
        return [None] * len(shapes)
    if not node.movements:
        return [
            type if node.rule.keeps_places and operand_shape == shape else None
            for operand_shape in shapes
        ]

    def before(at: int, operand: Shape | None) -> UniformQuantizedType | None:
        """The type of one operand, by the inverse of the movement."""
        if operand is None or DYNAMIC in operand:
            return None
        try:
            match node.movements:
                case [Concat() as concat]:
                    start = sum(other[concat.dim] for other in shapes[:at] if other is not None)
                    part = concat.part(type.parameters_on(shape), start, operand)
                    return type.with_parameters(part)
                case [movement] if len(shapes) == 1:
                    pulled = pulled_back(movement, type.parameters_on(shape), operand)
                    return None if pulled is None else type.with_parameters(pulled)
                case _:
                    return None
        except (MovementError, TooManySlotsError):
            return None

    return list(starmap(before, enumerate(shapes)))


def type_before_shape(node: Node, type: UniformQuantizedType) -> UniformQuantizedType | None:
    """The operand type of a unary shape op with result `type`, even if the op repeats elements."""
    if type.granularity is Granularity.PER_TENSOR:
        return type
    return types_before(node, type)[0]


def different_operand(
    node: Node, reads: Mapping[Use, UniformQuantizedType], result: UniformQuantizedType
) -> tuple[Use, UniformQuantizedType] | None:
    """
    An operand of an op that moves or joins elements, and the type that it needs for its result.

    None if all operands in `reads` have the types that they need.
    """
    uses = [*node.uses, *([] if node.padding is None else [node.padding])]
    joined = types_before(node, result) if joins(node) else ()
    for number, use in enumerate(uses):
        type = reads.get(use)
        if type is None:
            continue
        wanted, moved = result, type
        if number < len(joined):
            wanted = joined[number] or result
        elif use != node.padding:
            moved = type_behind(node, type) or type
        if not _have_same_meaning(node, use, moved, wanted):
            return use, wanted
    return None


def _have_same_meaning(
    node: Node, use: Use, one: UniformQuantizedType, other: UniformQuantizedType
) -> bool:
    """Whether two types have the same parameters, however they are spelled."""
    type = type_expressing(one, node.results[0])
    if type == other or Granularity.PER_TENSOR in (one.granularity, other.granularity):
        return type == other
    value = use.value if joins(node) else node.results[0]
    shape = shape_of(value.type)
    if type is None or shape is None or DYNAMIC in shape:
        return False
    try:
        spelled = [
            spelling.with_parameters(spelling.parameters_on(shape)) for spelling in (type, other)
        ]
    except (TooManySlotsError, VerifyException):
        return False
    return spelled[0] == spelled[1]


def weight_axes(node: Node) -> WeightAxes:
    """The axes of the weight of a node that are channels, and those that it sums over."""
    if (table := node.table) is not None:
        return WeightAxes((table.axis,), ())
    assert node.side is not None
    return WeightAxes(node.side.channel_axes, node.side.contracted_axes)


def type_expressing(type: UniformQuantizedType, value: SSAValue) -> UniformQuantizedType | None:
    """The type with the float type of a value as expressed type; None if its range is too small."""
    expressed = cast(AnyFloat, element_type_or_self(value.type))
    if type.expressed_type == expressed:
        return type
    try:
        return UniformQuantizedType.of_slots(type.storage, expressed, type.slots.data)
    except VerifyException:
        return None


def type_behind(node: Node, type: UniformQuantizedType) -> UniformQuantizedType | None:
    """The type of the result of an op that moves an operand of `type`."""
    if type.granularity is Granularity.PER_TENSOR:
        return type
    operand = shape_of(node.uses[0].value.type)
    if not node.movements:
        is_alike = node.rule.keeps_places and operand == shape_of(node.results[0].type)
        return type if is_alike else None
    if operand is None or DYNAMIC in operand:
        return None
    parameters = type.parameters_on(operand)
    try:
        for movement in node.movements:
            parameters = movement(parameters)
        return type.with_parameters(parameters)
    except (MovementError, TooManySlotsError):
        return None


_LEAST_POWER_RATIO: Final = 10.0
"""The least signal to noise of constants, as a ratio: 10 dB."""


_CONFIGURED: Final = "the configuration leaves it in floats"
"""Why a value stays float that the settings name."""

_PROPORTIONAL: Final = frozenset({"add", "div", "mul", "neg", "select", "sub"})
"""Functions whose results are as far apart as their operands."""


class Flow:
    """A graph and its settings, which all steps read."""

    def __init__(self, graph: FlowGraph, settings: Settings) -> None:
        self.graph = graph
        self.settings = settings
        self.refusals = dict(self._kept())
        """Why an op stays float."""
        self.float_biases = dict[Operation, str]()
        """Why the bias of a layer stays float."""
        self.weights: dict[tuple[Use, Assigned], tuple[NDArray[Any] | None, Choice]] = {}
        """The codes of weights that were quantized in batches, and the choices of all weights."""

    def _kept(self) -> Iterator[tuple[Operation, Refusal]]:
        """The ops that the settings leave in floats, and those that only hold their elements."""
        layers, graph = self.settings.layers, self.graph
        kept = dict[Node, str]()
        for node in graph.nodes:
            names = graph.keys_of(node)
            maker = graph.makers.get(graph.value(node.uses[0].value)) if node.uses else None
            if any(name in layers and layers[name] is None for name in names):
                kept[node] = _CONFIGURED
            elif self.settings.only_layers and node.layer is None:
                kept[node] = "it is no sum of products"
            elif passes_on(node) and maker in kept:
                kept[node] = f"what it reads stays in floats: {kept[maker]}"
        for node in reversed(graph.nodes if kept else ()):
            uses = [use for result in node.results for use in graph.readers[result]]
            readers = [graph.node_of.get(use.op) for use in uses]
            if passes_on(node) and readers and all(reader in kept for reader in readers):
                kept.setdefault(node, "only ops that stay in floats read it")
        for node, reason in kept.items():
            yield node.op, Refusal(RefusalCode.KEPT, reason)

    def precision(self, node: Node) -> Precision:
        """
        The precision of an op.

        A shape op has the precision of the layer next to its smaller side.
        """
        return self._precisions[node]

    def precision_of(self, value: SSAValue) -> Precision:
        """The precision of the op that makes a value, or of an argument that has its own."""
        if (maker := self.graph.makers.get(value)) is not None:
            return self.precision(maker)
        return self.of_arguments.get(value) or self.settings.default

    @cached_property
    def of_arguments(self) -> Mapping[SSAValue, Precision | None]:
        """The precisions of arguments that have their own; None for floats."""
        layers, keys = self.settings.layers, self.graph.keys
        arguments = (value for value in self.graph.values if isinstance(value, BlockArgument))
        return {value: layers[key] for value in arguments if (key := keys.get(value, "")) in layers}

    @cached_property
    def _precisions(self) -> Mapping[Node, Precision]:
        if not self.settings.layers:
            return dict.fromkeys(self.graph.nodes, self.settings.default)
        configured = {node: self._configured(node) for node in self.graph.nodes}
        precisions_of = {node: own or self.settings.default for node, own in configured.items()}
        movers = [
            node
            for node, own in configured.items()
            if own is None and node.kind is RuleKind.MOVED and len(node.uses) == 1
        ]
        growing = list[Node]()
        for node in movers:
            if _size(node.results[0]) > _size(node.uses[0].value):
                growing.append(node)
                continue
            maker = self.graph.makers.get(self.graph.value(node.uses[0].value))
            if maker is not None:
                precisions_of[node] = precisions_of[maker]
        for node in reversed(growing):
            readers = {
                reader
                for use in self.graph.readers[node.results[0]]
                if (reader := self.graph.node_of.get(use.op)) is not None
            }
            precisions = {precisions_of[reader].name: precisions_of[reader] for reader in readers}
            if len(precisions) == 1:
                precisions_of[node] = precisions.popitem()[1]
        return precisions_of

    def _configured(self, node: Node) -> Precision | None:
        precisions = map(self.settings.layers.get, self.graph.keys_of(node))
        return next((precision for precision in precisions if precision is not None), None)

    def own(
        self, value: SSAValue, precision: Precision, otherwise: Range | None = None
    ) -> Assigned | None:
        """
        The parameters of a value, from its producer and its range, or else from `otherwise`.

        A value that only holds elements of another one has the producer of that value, and its
        range unless it has one of its own.
        """
        ranged, maker = self._sources.get(value) or (value, self.graph.makers.get(value))
        ends = self.graph.ranges.get(ranged)
        if ends is None and (given := self.graph.given.get(ranged)) is not None:
            ends = range_of(given)
        ends = ends or otherwise
        expressed = element_type_or_self(value.type)
        # Known ranges end at 1.
        is_narrow = ends is not None and 0 < max(map(abs, ends)) < 0.5
        is_known = not (is_narrow and self.settings.narrows_fixed)
        if maker is not None and maker.rule.fixed and is_known:
            choice = fixed_choice(maker.rule.fixed, precision.activations)
            return self._assigned(choice, expressed, RuleKind.FIXED, ends)
        if ends is None:
            return None
        choice = precision.activations.choose(*ends)
        if maker is not None and maker.kind is RuleKind.WHOLE_NUMBER:
            return self._assigned(luci_integer_scale(choice), expressed, maker.kind, ends)
        return self._assigned(choice, expressed, RuleKind.OWN, ends)

    @cached_property
    def _sources(self) -> Mapping[SSAValue, tuple[SSAValue, Node | None]]:
        """
        For values that only hold elements of another: the value with the range, and its producer.
        """
        sources = dict[SSAValue, tuple[SSAValue, Node | None]]()
        for node in self.graph.nodes:
            if not passes_on(node) or node.results[0] in self.graph.given:
                continue
            before, result = self.graph.value(node.uses[0].value), node.results[0]
            ranged, maker = sources.get(before) or (before, self.graph.makers.get(before))
            is_own = node.padding is None and result in self.graph.ranges
            sources[result] = (result if is_own else ranged), maker
        return sources

    def of_constant(self, use: Use, precision: Precision) -> Assigned:
        """The parameters of a constant by its own values. Raises Refusal."""
        numbers = self.graph.numbers(use.value)
        try:
            extremes = array_range(numbers)
            if extremes.nans:
                raise ValueError("an element is NaN, which has no code")
            choice = precision.activations.choose(extremes.minimum, extremes.maximum)
        except ValueError as error:
            raise Refusal(RefusalCode.ILLEGAL_TYPE, f"its operand {use.number}: {error}") from None
        low, high = float(extremes.minimum.item()), float(extremes.maximum.item())
        expressed = element_type_or_self(use.value.type)
        return self._assigned(choice, expressed, RuleKind.GIVEN, Range(low, high))

    def _assigned(
        self, choice: Choice, expressed: object, rule: RuleKind, ends: Range | None
    ) -> Assigned:
        type = type_of_choice(choice, (), cast(AnyFloat, expressed))
        return Assigned(type, rule, ends)

    @cached_property
    def forced(self) -> Mapping[SSAValue, Assigned]:
        """
        The parameters that the settings give to values, whatever their ranges are.

        Copies must end. Raises SettingError.
        """
        forced_types = dict[SSAValue, Assigned]()
        if not (self.settings.parameters or self.settings.copies):
            return forced_types
        of_keys = {self.graph.keys.get(value, ""): value for value in reversed(self.graph.values)}
        for value in self.graph.values:
            key = self.graph.keys.get(value, "")
            try:
                if key in self.settings.parameters:
                    forced_types[value] = self._by_setting(value, key)
                elif (origin := self.settings.copies.get(key)) is not None:
                    while origin in self.settings.copies:
                        origin = self.settings.copies[origin]
                    copied = self._to_copy(of_keys.get(origin), origin)
                    forced_types[value] = copied._replace(rule=RuleKind.GIVEN, origin=origin)
            except (ValueError, OverflowError, VerifyException) as error:
                where = "parameters" if key in self.settings.parameters else "copies"
                message = f"the parameters of '{key}': {error}"
                raise SettingError(message, where, key) from None
        return forced_types

    def _by_setting(self, value: SSAValue, key: str) -> Assigned:
        """The parameters with the scale and zero point of the settings. Raises ValueError."""
        choice = self.precision_of(value).activations.given(*self.settings.parameters[key])
        expressed = element_type_or_self(value.type)
        return self._assigned(choice, expressed, RuleKind.GIVEN, self.graph.ranges.get(value))

    def _to_copy(self, source: SSAValue | None, key: str) -> Assigned:
        """The parameters of a value that the settings copy to another one. Raises ValueError."""
        if source is not None and key in self.settings.parameters:
            return self._by_setting(source, key)
        if source is not None and (given := self.graph.given.get(source)) is not None:
            if given.granularity is Granularity.PER_TENSOR:
                return Assigned(given, RuleKind.GIVEN, self.graph.ranges.get(source))
            raise ValueError(f"'{key}' has several scales")
        own = None if source is None else self.own(source, self.precision_of(source))
        if own is None:
            raise ValueError(f"'{key}' has no range to choose parameters from")
        return own

    def refusal(self, node: Node) -> Refusal | None:
        """Why an op stays float although its values may have parameters; None if it need not."""
        return self.refusals.get(node.op) or self._lossy.get(node)

    def code_of_refusal(self, node: Node) -> RefusalCode:
        """The code for an op that stays float."""
        if (refusal := self.refusal(node)) is not None:
            return refusal.code
        read = (self.graph.value(use.value) for use in node.uses)
        is_lossy = any(value in self.floats for value in (*read, *node.results))
        return RefusalCode.NUMERICS if is_lossy else RefusalCode.NO_RECORD

    @cached_property
    def _lossy(self) -> Mapping[Node, Refusal]:
        """The ops that would lose an operand in codes."""
        lossy = dict[Node, Refusal]()
        for node in self.graph.nodes:
            if node.refusal:
                lossy[node] = Refusal(RefusalCode.NUMERICS, node.refusal)
            elif lost := [use for use in self.constant_uses(node) if self._is_lost(use, node)]:
                of_result = " of its result" if joins(node) else ""
                what = f"operand {lost[0].number}, a very small constant"
                reason = f"codes{of_result} would lose its {what}"
                lossy[node] = Refusal(RefusalCode.NUMERICS, reason)
        return lossy

    def _is_lost(self, use: Use, node: Node) -> bool:
        """Whether the codes that an op reads would lose a constant."""
        try:
            assigned = self.of_constant(use, self.precision(node))
            if joins(node):
                # The result determines the codes, which may be those of a cast.
                result = node.results[0]
                if self.is_pinned(result):
                    return False
                assigned = self.own(result, self.precision(node)) or assigned
        except (Refusal, VerifyException):
            return False
        return self.loses(use, assigned.type)

    def loses(self, use: Use, type: UniformQuantizedType) -> bool:
        """Whether a constant has a signal to noise below 10 dB in codes with one scale."""
        scale, zero_point = type.single_slot
        steps = self.graph.numbers(use.value).astype("f8") / scale
        power = np.square(steps).mean()
        # Rounding adds at most half a step.
        if not power or power >= _LEAST_POWER_RATIO / 4:
            return False
        codes = np.rint(steps).clip(
            type.storage_type_min - zero_point, type.storage_type_max - zero_point
        )
        return bool(power < _LEAST_POWER_RATIO * np.square(codes - steps).mean())

    @cached_property
    def floats(self) -> Mapping[SSAValue, str]:
        """
        The values that stay float whatever their ranges are, and why.

        These are results of ops that would lose an operand, and of shape ops on them. Sums and
        products of masked values are included while their ranges are those of the mask. So are
        values that only ops read which would lose them, up to the layer before: a variance is
        computed in floats for the square root that divides by it.
        """
        kept = (value for value, precision in self.of_arguments.items() if precision is None)
        reasons_of = dict.fromkeys(kept, _CONFIGURED)
        limits = dict.fromkeys(reasons_of, inf)
        for node in self.graph.nodes:
            values = [self.graph.value(use.value) for use in node.uses]
            before = [value for value in values if value in reasons_of]
            limit = min((limits[value] for value in before), default=inf)
            if (refusal := self._lossy.get(node)) is not None:
                key = self.graph.keys.get(node.results[0], "") if node.results else ""
                reason = f"stays in floats, as '{key}' does: {refusal}"
                if node.refusal and not before:
                    limit = FAR * largest(self.graph, node.op)
            elif before and (node.movements or self._exceeds(node, limit)):
                reason = reasons_of[before[0]]
            else:
                continue
            for result in node.results:
                if not self.is_pinned(result):
                    reasons_of[result], limits[result] = reason, limit or inf
        precise = {node for node in self._lossy if not (node.refusal or joins(node))}
        for node in reversed(self.graph.nodes if precise else ()):
            readers = {
                self.graph.node_of.get(use.op)
                for result in node.results
                for use in self.graph.readers[result]
            }
            if not readers or not readers <= precise or node.layer is not None:
                continue
            reasons = [
                reasons_of[output]
                for reader in readers
                if reader
                for output in reader.results
                if output in reasons_of
            ]
            if reasons and not any(map(self.is_pinned, node.results)):
                precise.add(node)
                reasons_of |= dict.fromkeys(node.results, reasons[0])
        return reasons_of

    def _exceeds(self, node: Node, limit: float) -> bool:
        """Whether an op keeps the proportions of its operands, and a result exceeds a magnitude."""
        functions = functions_of(node.op)
        if node.is_function or not functions or not functions <= _PROPORTIONAL:
            return False
        ranges = (self.graph.ranges.get(result) for result in node.results)
        return any(ends is not None and max(map(abs, ends)) > limit for ends in ranges)

    def is_pinned(self, value: SSAValue) -> bool:
        """Whether the parameters of a value are given, so that none propagate to it."""
        return value in self.graph.given or value in self.forced

    def is_given(self, value: SSAValue) -> bool:
        """Whether a constant is quantized already."""
        return self.graph.is_constant(value) and self.graph.stored(value) is None

    def constant_uses(self, node: Node) -> Iterator[Use]:
        """The float constants among the operands that a node reads as codes."""
        for use in node.uses:
            if self.graph.is_constant(use.value) and not self.is_given(use.value):
                yield use


def range_of(type: UniformQuantizedType) -> Range | None:
    """The range of dequantized values of a per-tensor type; None for other types."""
    if type.granularity is not Granularity.PER_TENSOR:
        return None
    scale, zero_point = type.single_slot
    ends = type.storage_type_min, type.storage_type_max
    low, high = ((end - zero_point) * scale for end in ends)
    return Range(low, high)


def _size(value: SSAValue) -> int:
    """The number of elements; unknown lengths count as 1."""
    return prod(abs(length) for length in shape_of(value.type) or ())
