"""The ops of StableHLO that compute with floats: https://openxla.org/stablehlo/spec."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation

from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.fields import QuantizationRule, RuleKind
from qdialect.ops.interface import find_attribute, integers_of, name_of, rule_of

_HOMOGENEOUS = ("stablehlo.add", "stablehlo.maximum", "stablehlo.minimum")
_MAXIMUM = ("stablehlo.maximum", "stablehlo.minimum")
_COMBINERS = (*_MAXIMUM, "stablehlo.add", "stablehlo.multiply", "stablehlo.subtract")


def clamp(op: Operation) -> QuantizationRule:
    limits = (op.operands[0], op.operands[2]) if len(op.operands) == 3 else None
    return QuantizationRule(RuleKind.OWN, (1,), frozenset({"clamp"}), limits=limits)


def optimization_barrier(op: Operation) -> QuantizationRule | None:
    """A barrier of one operand; None for several, which are forwarded separately."""
    if len(op.operands) != 1:
        return None
    return QuantizationRule(RuleKind.SHARED, is_homogeneous=True, keeps_places=True)


def map_of_body(op: Operation) -> QuantizationRule | None:
    """An elementwise function, from the body."""
    inner = list(op.regions[0].block.ops)[:-1]
    if any(rule_of(each) is None or each.regions for each in inner):
        return None
    return QuantizationRule(RuleKind.OWN, functions=frozenset({"map"}))


def scatter(op: Operation) -> QuantizationRule | None:
    """Updates that replace elements, or are combined with them."""
    if len(op.operands) != 3 or len(op.results) != 1:
        return None
    inner = [name_of(each) for each in op.regions[0].block.ops]
    is_set = len(inner) == 1
    is_known = is_set or (len(inner) == 2 and inner[0] in _COMBINERS)
    return (
        QuantizationRule(RuleKind.SHARED if is_set else RuleKind.OWN, (0, 2)) if is_known else None
    )


def sort(op: Operation) -> QuantizationRule:
    """A reordering of elements: of one float tensor, or of several with separate parameters."""
    floats = [
        value for value in op.operands if isinstance(element_type_or_self(value.type), AnyFloat)
    ]
    return QuantizationRule(RuleKind.SHARED if len(floats) == 1 else RuleKind.OWN)


def reduce(op: Operation) -> QuantizationRule | None:
    if (combiner := _combiner(op)) is None:
        return _choosing(op)
    return QuantizationRule(
        RuleKind.OWN,
        (0,),
        frozenset({"reduce"}) | _functions_of(op.regions[0].block.first_op),
        is_homogeneous=combiner in _HOMOGENEOUS,
        mixed_axes=integers_of(op, "dimensions"),
        starts=(1,),
    )


def _choosing(op: Operation) -> QuantizationRule | None:
    """A reduction of several tensors that selects elements, such as a maximum and its position."""
    if not {name_of(inner) for inner in op.regions[0].block.ops} <= _CHOOSING:
        return None
    chosen = tuple(
        at
        for at, value in enumerate(op.operands[: len(op.results)])
        if isinstance(element_type_or_self(value.type), AnyFloat)
    )
    kind = RuleKind.SHARED if len(chosen) == 1 else RuleKind.OWN
    return QuantizationRule(kind, chosen, frozenset({"reduce"}))


_CHOOSING = frozenset(
    f"stablehlo.{name}"
    for name in ("and", "compare", "maximum", "minimum", "not", "or", "return", "select")
)


def reduce_window(op: Operation) -> QuantizationRule | None:
    """A pool. A maximum is an element, or the initial value unless that is the lowest number."""
    if (combiner := _combiner(op)) is None:
        return None
    is_maximum = combiner in _MAXIMUM
    return QuantizationRule(
        RuleKind.SHARED if is_maximum else RuleKind.OWN,
        (0,),
        frozenset() if is_maximum else frozenset({"reduce"}),
        is_homogeneous=combiner in _HOMOGENEOUS,
        mixed_axes=_windowed_axes(op),
        starts=(1,),
    )


def _functions_of(op: Operation | None) -> frozenset[str]:
    read = None if op is None else rule_of(op)
    return frozenset() if read is None else read.functions


def _windowed_axes(op: Operation) -> tuple[int, ...]:
    """The axes along which a window has several elements, or elements are padded or skipped."""
    lists = [
        integers_of(op, name)
        for name in ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
        if find_attribute(op, name) is not None
    ]
    if find_attribute(op, "padding") is not None:
        pads = integers_of(op, "padding")
        lists += [[1 + pad for pad in pads[at::2]] for at in (0, 1)]
    return tuple(axis for axis, numbers in enumerate(zip(*lists, strict=True)) if {*numbers} != {1})


def _combiner(op: Operation) -> str | None:
    """The function of the single op that combines two elements; None for other bodies."""
    if len(op.results) != 1 or len(op.operands) != 2:
        return None
    names = [name_of(inner) for inner in op.regions[0].block.ops]
    return names[0] if len(names) == 2 else None
