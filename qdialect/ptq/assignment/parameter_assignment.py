"""
The parameters assigned to the values of a module, before they are written as casts.

An assignment is immutable: each step of `assignment_steps` returns a new one. It can be stored as
attributes of ops, and so printed between two steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    f64,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from qdialect.dialects.quant import UniformQuantizedType
from qdialect.ops.fields import RuleKind
from qdialect.ptq.float_graph.flow_graph import Range, Use

PARAMETERS: Final = "quant.parameters"
"""The attribute with the parameters of the results of an op, or of a function argument."""

ARGUMENTS: Final = "quant.arguments"
"""The attribute with the parameters of the arguments of the blocks in an op, one after another."""

DECLARED: Final = "quant.declared"
"""The attribute with the type that an argument or a result of a function gets."""

READS: Final = "quant.reads"
"""The attribute with the parameters of operands, where they differ from those of the value."""


class Assigned(NamedTuple):
    """The parameters of a value, and their source."""

    type: UniformQuantizedType
    """The element type of the quantized value."""

    rule: RuleKind

    range: Range | None = None
    """The recorded range, if the parameters follow from one."""

    origin: str = ""
    """The key of the value that the parameters were taken from; empty if they are its own."""

    bits: int = 0
    """The width of the codes of a bias in bits, if it exceeds that of any type."""


@dataclass(frozen=True)
class Assignment:
    """Parameters of values, and of operands that are read with other parameters."""

    values: Mapping[SSAValue, Assigned] = field(default_factory=dict[SSAValue, Assigned])
    """The parameters of each value as it is produced."""

    reads: Mapping[Use, tuple[Assigned, ...]] = field(
        default_factory=dict[Use, tuple[Assigned, ...]]
    )
    """
    The parameters of operands, where an op reads a value with other ones.

    A constant is quantized with the last of them; any other value is requantized to each in turn.
    """

    declared: Mapping[SSAValue | Use, Assigned] = field(
        default_factory=dict["SSAValue | Use", Assigned]
    )
    """The quantized types of the arguments and results of functions."""

    def with_values(self, values: Mapping[SSAValue, Assigned]) -> Assignment:
        """A copy in which these values have other parameters."""
        return replace(self, values={**self.values, **values})

    def with_reads(self, reads: Mapping[Use, tuple[Assigned, ...]]) -> Assignment:
        """A copy in which these operands have other parameters."""
        return replace(self, reads={**self.reads, **reads})

    def read(self, use: Use, value: SSAValue) -> Assigned | None:
        """The parameters with which an op reads an operand, which is `value`."""
        chain = self.reads.get(use)
        return chain[-1] if chain else self.values.get(value)


def write_attributes(module: ModuleOp, assignment: Assignment) -> None:
    """Write an assignment as attributes, in place of any there."""
    drop_attributes(module)
    for value, assigned in assignment.values.items():
        _add(value, PARAMETERS, assigned)
    for place, assigned in assignment.declared.items():
        if isinstance(place, Use):
            _add_at(place.op, len(place.op.operands), place.number, DECLARED, assigned)
        else:
            _add(place, DECLARED, assigned)
    chains = dict[Operation, dict[int, Sequence[Assigned]]]()
    for use, chain in assignment.reads.items():
        chains.setdefault(use.op, {})[use.number] = chain
    for op, of_operands in chains.items():
        op.attributes[READS] = ArrayAttr(
            ArrayAttr(map(_attribute_of, of_operands.get(number, ())))
            for number in range(len(op.operands))
        )


def read_attributes(module: ModuleOp) -> Assignment:
    """The assignment stored as attributes. Raises ValueError if they are malformed."""
    values = dict[SSAValue, Assigned]()
    reads = dict[Use, tuple[Assigned, ...]]()
    declared = dict[SSAValue | Use, Assigned]()
    for op in module.walk():
        for result, attribute in zip(
            op.results, _items(op.attributes.get(PARAMETERS)), strict=False
        ):
            if (assigned := _assigned_in(attribute)) is not None:
                values[result] = assigned
        if ARGUMENTS in op.attributes:
            for argument, attribute in zip(
                _arguments_in(op), _items(op.attributes[ARGUMENTS]), strict=False
            ):
                if (assigned := _assigned_in(attribute)) is not None:
                    values[argument] = assigned
        for number, attribute in enumerate(_items(op.attributes.get(READS))):
            chain = [link for item in _items(attribute) if (link := _assigned_in(item)) is not None]
            if chain and number < len(op.operands):
                reads[Use(op, number)] = tuple(chain)
        for number, attribute in enumerate(_items(op.attributes.get(DECLARED))):
            if (assigned := _assigned_in(attribute)) is not None and number < len(op.operands):
                declared[Use(op, number)] = assigned
        if isinstance(op, FuncOp) and op.arg_attrs and not op.is_declaration:
            for argument, attribute in zip(op.args, op.arg_attrs.data, strict=True):
                if (assigned := _assigned_in(attribute.data.get(PARAMETERS))) is not None:
                    values[argument] = assigned
                if (assigned := _assigned_in(attribute.data.get(DECLARED))) is not None:
                    declared[argument] = assigned
    return Assignment(values, reads, declared)


def drop_attributes(module: ModuleOp) -> None:
    """Erase the attributes of `write_attributes`."""
    for op in module.walk():
        for name in (PARAMETERS, ARGUMENTS, READS, DECLARED):
            op.attributes.pop(name, None)
        if isinstance(op, FuncOp) and op.arg_attrs:
            kept = [
                {
                    name: attribute
                    for name, attribute in attributes.data.items()
                    if name not in (PARAMETERS, DECLARED)
                }
                for attributes in op.arg_attrs.data
            ]
            op.arg_attrs = ArrayAttr(map(DictionaryAttr, kept)) if any(kept) else None


def _add(value: SSAValue, name: str, assigned: Assigned) -> None:
    """Store the parameters of a value on its producer, or on its function."""
    if not isinstance(value, BlockArgument):
        result = cast("OpResult[Attribute]", value)
        _add_at(result.op, len(result.op.results), result.index, name, assigned)
        return
    owner = value.block.parent_op()
    assert owner is not None
    if not isinstance(owner, FuncOp) or value.block is not owner.body.first_block:
        arguments = _arguments_in(owner)
        _add_at(owner, len(arguments), arguments.index(value), ARGUMENTS, assigned)
        return
    attributes = [dict(dictionary.data) for dictionary in owner.arg_attrs or ()]
    attributes = attributes or [dict[str, Attribute]() for _ in owner.function_type.inputs]
    attributes[value.index][name] = _attribute_of(assigned)
    owner.arg_attrs = ArrayAttr(map(DictionaryAttr, attributes))


def _arguments_in(op: Operation) -> Sequence[BlockArgument]:
    return [argument for region in op.regions for block in region.blocks for argument in block.args]


def _add_at(op: Operation, count: int, index: int, name: str, assigned: Assigned) -> None:
    items = list(_items(op.attributes.get(name))) or [UnitAttr()] * count
    items[index] = _attribute_of(assigned)
    op.attributes[name] = ArrayAttr(items)


def _attribute_of(assigned: Assigned) -> Attribute:
    fields: dict[str, Attribute] = {
        "type": assigned.type,
        "rule": StringAttr(assigned.rule),
    }
    if assigned.range is not None:
        fields["range"] = ArrayAttr(FloatAttr(end, f64) for end in assigned.range)
    if assigned.bits:
        fields["bits"] = IntegerAttr(assigned.bits, i64)
    if assigned.origin:
        fields["origin"] = StringAttr(assigned.origin)
    return DictionaryAttr(fields)


def _items(attribute: Attribute | None) -> Iterable[Attribute]:
    return cast("ArrayAttr[Attribute]", attribute) if isinstance(attribute, ArrayAttr) else ()


def _assigned_in(attribute: Attribute | None) -> Assigned | None:
    if not isinstance(attribute, DictionaryAttr):
        return None
    fields = attribute.data
    type, rule, origin = (fields.get(name) for name in ("type", "rule", "origin"))
    if not isinstance(type, UniformQuantizedType) or not isinstance(rule, StringAttr):
        raise ValueError(f"'{PARAMETERS}' and '{READS}' need a 'type' and a 'rule'")
    ends = [
        float(end.value.data) for end in _items(fields.get("range")) if isinstance(end, FloatAttr)
    ]
    return Assigned(
        type,
        RuleKind(rule.data),
        Range(*ends) if len(ends) == 2 else None,
        origin.data if isinstance(origin, StringAttr) else "",
        bits.value.data if isinstance(bits := fields.get("bits"), IntegerAttr) else 0,
    )
