"""Writing constant ops of any dialect, like the source constants of their elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import DenseResourceAttr, NoneAttr, TensorType, UnregisteredOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.movement import Reshape
from qdialect.algebra.views import Elements, Splat, Unread, Values
from qdialect.folding.layers import CarriedRanges, SideConstant
from qdialect.folding.moved_constant import MovedConstant, form_for, unread_for
from qdialect.ir.elements import dense_elements, dense_of_bytes, element_bytes, may_repeat
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import tensor_parts
from qdialect.ir.xdsl_private import NAME_OF_UNREGISTERED
from qdialect.ops.elementwise import arithmetic_model_of, recreated, with_shape, with_type
from qdialect.ops.fields import SmallOperand
from qdialect.ops.interface import (
    MODEL_ERRORS,
    Refusal,
    RefusalCode,
    elements_attribute_of,
    held_elements,
    is_cast,
    name_of,
    names_of_elements,
    op_model,
    refused_by,
)
from qdialect.ops.reading import Constants
from qdialect.support.lazy_numpy import np
from qdialect.support.memory import BoundedCache

_OWN_CONSTANT = "quant.constant"


class WrittenConstant(NamedTuple):
    """A constant that has been written, with the ops after it."""

    chain: Sequence[Operation]
    """The constant, and the casts and arithmetic after it."""

    ops: Sequence[Operation]
    """All new ops in order, including side constants and their broadcasts."""

    sides: Mapping[Operation, Operation]
    """For each old side constant, the new one."""


def write_constant(
    like: MovedConstant,
    values: Values | Unread,
    types: Sequence[Attribute],
    resources: ResourceBlobs,
) -> WrittenConstant:
    """
    A constant of `values`, followed by the casts of `like`, with one of `types` each.

    With one more type, everything is in blocks, and a reshape to that type comes last. The
    constant is like the first source, and has the names and attributes of all sources; if they
    conflict, the first source's.
    """
    sources = like.provenance.sources
    written = form_for(like, types)
    if isinstance(values, Unread):
        values = unread_for(like, types) or values
    elif written is not like:
        values = Reshape(written.shape).move_values([values], None)
    first = constant_like(sources, values, types[0], resources)
    return _behind(first, written, types, resources)


def constant_like(
    sources: Sequence[Operation],
    values: Values | Unread,
    type: Attribute,
    resources: ResourceBlobs | None,
) -> Operation:
    """A constant like the first of `sources`. Without `resources` its elements are dense."""
    name = cast(str, elements_attribute_of(sources[0]))
    attribute = cast(Attribute, held_elements(sources[0]))
    elements = _rewritten(attribute, values, type, sources[0], resources)
    op = _constant_of(sources, type, name, elements)
    (result,) = op.results
    for source in sources:
        (old,) = source.results
        if hint := old.name_hint:
            result.name_hint = hint
            break
    return op


def _constant_of(
    sources: Sequence[Operation], type_: Attribute, name: str, elements: Attribute
) -> Operation:
    """A constant like the first of `sources`, with other elements in the attribute `name`."""
    source = sources[0]
    (result,) = source.results
    old, attributes = result.type, dict(source.attributes)
    for other in reversed(sources):
        if not other.attributes:
            continue
        # Sources may be different ops, and some hold their elements among the attributes.
        own = (*names_of_elements(other), name, NAME_OF_UNREGISTERED)
        attributes |= {key: a for key, a in other.attributes.items() if key not in own}
    properties = with_type(source.properties, old, type_)
    attributes = with_type(attributes, old, type_)
    names = names_of_elements(source)
    for attribute_map in (properties, attributes):
        if any(attribute_map.pop(old_name, None) is not None for old_name in names):
            attribute_map[name] = elements
    return type(source).create(
        result_types=[type_],
        properties=properties,
        attributes=attributes,
        location=source.location,
    )


def _behind(
    constant: Operation,
    like: MovedConstant,
    types: Sequence[Attribute],
    resources: ResourceBlobs | None,
) -> WrittenConstant:
    """`constant`, followed by the casts of `like`."""
    chain, ops, sides = [constant], [constant], dict[Operation, Operation]()
    for old, layer, type in zip(like.casts, like.layers[1:], types[1:], strict=False):
        (value,) = chain[-1].results
        if layer.sides is None:
            new = [recreated(old, [value], type)]
            if isinstance(layer.carried, CarriedRanges):
                layer.carried.write(new[0])
        else:
            operands = {layer.sides.main: SmallOperand(value, tuple(range(len(like.shape))))}
            model = arithmetic_model_of(old)
            for side in layer.sides.constants:
                form = layer.sides.form_of(side, model)
                of_side = _side(side, form.elements, resources)
                ops += of_side
                sides[side.source] = of_side[0]
                value = of_side[-1].results[0]
                operands[side.number] = SmallOperand(value, form.axes, side.like)
            new = model.write(old, [operands[n] for n in sorted(operands)], type)
        ops += new
        chain.append(new[-1])
        (last,), (replaced,) = new[-1].results, old.results
        last.name_hint = replaced.name_hint
    if len(types) > len(like.layers):
        assert like.reshape is not None
        write_reshape = op_model(like.reshape).write_reshape
        assert write_reshape is not None
        try:
            new = write_reshape(like.reshape, chain[-1].results[0], types[-1])
        except MODEL_ERRORS as error:
            raise refused_by(like.reshape, error) from None
        ops += new
        chain.append(new[-1])
    return WrittenConstant(chain, ops, sides)


def _side(
    side: SideConstant, elements: Elements, resources: ResourceBlobs | None
) -> list[Operation]:
    """A side constant with these elements, and the ops after it."""
    type = with_shape(side.source.results[0].type, elements.shape)
    # A resource would hold an expanded splat.
    blobs = None if isinstance(elements, Splat) else resources
    ops = [constant_like([side.source], elements, type, blobs)]
    for old in side.casts:
        value, type = ops[-1].results[0], with_shape(old.results[0].type, elements.shape)
        if is_cast(old):
            new = [recreated(old, [value], type)]
        else:
            axes = tuple(range(len(elements.shape)))
            new = arithmetic_model_of(old).write(old, [SmallOperand(value, axes)], type)
        new[-1].results[0].name_hint = old.results[0].name_hint
        ops += new
    return ops


def _rewritten(
    old: Attribute,
    values: Values | Unread,
    type: Attribute,
    source: Operation,
    resources: ResourceBlobs | None,
) -> Attribute:
    """An attribute like `old`, with other elements."""
    declared = cast(Any, old).type
    element_type, encoding = declared.element_type, _encoding_for(old, type, source)
    if isinstance(values, Unread):
        assert resources is not None
        return resources.name(values, element_type)
    if (
        resources is not None
        and isinstance(old, DenseResourceAttr)
        and not (isinstance(values, Splat) and _grows(values, declared.get_shape()))
    ):
        key, alignment = old.resource_handle.data, resources.alignment_of(old)
        resource = resources.write(values, element_type, key, alignment=alignment)
        if isinstance(encoding, NoneAttr):
            return resource
        encoded = TensorType(element_type, values.shape, encoding)
        return DenseResourceAttr.from_params(resource.resource_handle.data, encoded)
    is_own = name_of(source) == _OWN_CONSTANT
    dense = dense_elements(values, element_type, repeat_splats=not is_own)
    if isinstance(encoding, NoneAttr):
        return dense
    return dense_of_bytes(TensorType(element_type, values.shape, encoding), dense.data.data)


def _grows(splat: Splat, before: Sequence[int]) -> bool:
    """Whether a blob, which has all elements of a splat, would be large, or larger than before."""
    count = math.prod(splat.shape)
    return count > math.prod(before) or not may_repeat(count, splat.value.dtype.itemsize)


def _encoding_for(old: Attribute, new: Attribute, source: Operation) -> Attribute:
    """
    The encoding of the elements attribute of a constant of type `new`, like `source`.

    `old` is the elements attribute of `source`. Raises Refusal if the encoding is unknown.
    """
    (constant,) = source.results
    before, result, after = cast(Any, (cast(Any, old).type, constant.type, new))
    if not isinstance(constant.type, TensorType) or (
        isinstance(before.encoding, NoneAttr)
        and isinstance(result.encoding, NoneAttr)
        and isinstance(after.encoding, NoneAttr)
    ):
        return before.encoding
    if before.element_type == result.element_type or not isinstance(before.encoding, NoneAttr):
        if before.encoding != result.encoding:
            raise Refusal(
                RefusalCode.ILLEGAL_TYPE,
                f"the elements of '{name_of(source)}' have an unknown encoding",
            )
        return after.encoding
    return before.encoding


# Keyed by the ids of types, which the cache keeps alive.
_KNOWN_WRITABLE = BoundedCache[tuple[object, ...], Sequence[Attribute]]()


def check_writable(like: MovedConstant, types: Sequence[Attribute], constants: Constants) -> None:
    """Raise Refusal unless a constant of `types[0]` and the casts of `like` verify."""
    if like.carries:
        if (error := _error_of(form_for(like, types), types, constants)) is not None:
            raise Refusal(RefusalCode.ILLEGAL_TYPE, error)
        return
    source, casts = cast(Operation, like.provenance.first_source), like.casts
    name = cast(str, elements_attribute_of(source))
    attribute = cast(Any, held_elements(source))
    (result,) = source.results
    before: list[Attribute] = [result.type]
    if casts or len(source.properties) + len(source.attributes) > 1:
        before += [cast_op.results[0].type for cast_op in casts]
        maps = [
            names for op in (source, *casts) for names in (op.properties, op.attributes) if names
        ]
        others = [item for names in maps for item in names.items() if item[0] != name]
        kinds = [type(cast_op) for cast_op in casts]
        numbers = map(id, (attribute.type, *types, *before))
        key = type(source), *kinds, *numbers, *others
    else:
        key = type(source), id(attribute.type), id(types[0]), id(before[0])
    if _KNOWN_WRITABLE.get(key) is not None:
        return
    error = _error_of(like, types, constants)
    # A constant that does not verify in isolation even with its own types cannot be checked.
    if error is not None and _error_of(like, before, constants) is None:
        raise Refusal(RefusalCode.ILLEGAL_TYPE, error)
    _KNOWN_WRITABLE.add(key, (attribute.type, *types, *before), 0)


def _error_of(like: MovedConstant, types: Sequence[Attribute], constants: Constants) -> str | None:
    """The verifier's error for a constant of `types[0]` and the casts of `like`, or None."""
    source = like.provenance.sources[0]
    old = cast(Attribute, held_elements(source))
    element_type = cast(Any, old).type.element_type
    try:
        encoding = _encoding_for(old, types[0], source)
    except Refusal as error:
        return str(error)
    shape = cast(Any, tensor_parts(types[0])).shape
    unread = constants.unread(source)
    elements = constants.read(source) if unread is None else None
    first: Any = None
    if unread is not None:
        first = np.zeros((), unread.dtype)[()]
    elif isinstance(elements, Splat):
        first = elements.value
    elif elements is not None:
        first = elements.flat[0] if elements.size else np.zeros((), elements.dtype)[()]
    data = element_bytes(Splat(first, shape), element_type)
    trial = dense_of_bytes(TensorType(element_type, shape, encoding), data)
    constant = _constant_of([source], types[0], names_of_elements(source)[0], trial)
    trials = _behind(constant, like, types, None).ops
    try:
        for op in trials:
            if not isinstance(op, UnregisteredOp):
                op.verify_()
    except VerifyException as error:
        return str(error)
    finally:
        # Drop uses of values of the module.
        for op in trials:
            op.drop_all_references()
    return None
