"""Constant ops of any dialect, written like the constants that their elements come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    DenseResourceAttr,
    NoneAttr,
    TensorType,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.bounded_cache import BoundedCache
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.movement import Splat, Values
from qdialect.ir.dense_attributes import dense_of_bytes
from qdialect.ir.elements import dense_elements, element_bytes, may_repeat
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import tensor_parts
from qdialect.shape_ops.interface import (
    Code,
    NotFoldable,
    elements_attribute_of,
    find_attribute,
    name_of,
)
from qdialect.shape_ops.reading import Constants

if TYPE_CHECKING:
    from qdialect.folding.moved_constant import MovedConstant

_OWN_CONSTANT = "quant.constant"

_NAME_OF_UNREGISTERED = "op_name__"
"""The attribute in which xDSL keeps the name of an op that is not registered."""


def write_constant(
    like: MovedConstant, values: Values, types: Sequence[Attribute], resources: ResourceBlobs
) -> list[Operation]:
    """
    A constant of `values`, and the casts of `like` behind it: of these types, one each.

    The constant is of the kind of the first source, and has the names and attributes of all
    sources; where several have one, that of the first.
    """
    sources = like.provenance.sources
    name = cast(str, elements_attribute_of(sources[0]))
    attribute = cast(Attribute, find_attribute(sources[0], name))
    elements = _rewritten(attribute, values, types, sources[0], resources)
    ops = _create(sources, like.casts, types, elements, name)
    for source in sources:
        if (hint := source.results[0].name_hint) is not None:
            ops[0].results[0].name_hint = hint
            break
    for new, old in zip(ops[1:], like.casts, strict=True):
        new.results[0].name_hint = old.results[0].name_hint
    return ops


def _create(
    sources: Sequence[Operation],
    casts: Sequence[Operation],
    types: Sequence[Attribute],
    elements: Attribute,
    name: str,
) -> list[Operation]:
    """
    A constant like the first of `sources`, with `casts` made again.

    It has other `elements`, which are its attribute `name`.
    """
    source = sources[0]
    properties, attributes = dict(source.properties), dict(source.attributes)
    for other in reversed(sources):
        if not other.attributes:
            continue
        # Sources may be of different kinds, with their elements among the attributes.
        own = (name, elements_attribute_of(other), _NAME_OF_UNREGISTERED)
        attributes |= {key: a for key, a in other.attributes.items() if key not in own}
    for held in (properties, attributes):
        if name in held:
            held[name] = elements
    ops = [
        type(source).create(
            result_types=[types[0]],
            properties=properties,
            attributes=attributes,
            location=source.location,
        )
    ]
    for cast_op, result_type in zip(casts, types[1:], strict=True):
        ops.append(
            type(cast_op).create(
                operands=[ops[-1].results[0]],
                result_types=[result_type],
                properties=cast_op.properties,
                attributes=cast_op.attributes,
                location=cast_op.location,
            )
        )
    return ops


def _rewritten(
    old: Attribute,
    values: Values,
    types: Sequence[Attribute],
    source: Operation,
    resources: ResourceBlobs,
) -> Attribute:
    """An attribute of the kind of `old`, of other elements."""
    declared = cast(Any, old).type
    element_type, encoding = declared.element_type, _encoding_for(old, types[0], source)
    if isinstance(old, DenseResourceAttr) and (
        not isinstance(values, Splat)
        or may_repeat(math.prod(values.shape), values.value.dtype.itemsize)
    ):
        key, alignment = old.resource_handle.data, resources.alignment_of(old)
        resource = resources.write(values, element_type, key, alignment=alignment)
        if isinstance(encoding, NoneAttr):
            return resource
        type = TensorType(element_type, values.shape, encoding)
        return DenseResourceAttr.from_params(resource.resource_handle.data, type)
    is_own = name_of(source) == _OWN_CONSTANT
    dense = dense_elements(values, element_type, repeat_splats=not is_own)
    if isinstance(encoding, NoneAttr):
        return dense
    return dense_of_bytes(TensorType(element_type, values.shape, encoding), dense.data.data)


def _encoding_for(old: Attribute, new: Attribute, source: Operation) -> Attribute:
    """
    The encoding of the elements of a constant of type `new`, whose kind is that of `source`.

    `old` are the elements of `source`. Raises NotFoldable if the encoding is unknown.
    """
    before, result, after = cast(Any, old).type, cast(Any, source.results[0].type), cast(Any, new)
    if not isinstance(cast(object, result), TensorType):
        return before.encoding
    is_plain = [isinstance(type.encoding, NoneAttr) for type in (before, result, after)]
    if all(is_plain):
        return before.encoding
    if before.element_type == result.element_type or not isinstance(before.encoding, NoneAttr):
        if before.encoding != result.encoding:
            raise NotFoldable(
                Code.ILLEGAL_TYPE, f"the elements of '{name_of(source)}' have another encoding"
            )
        return after.encoding
    return before.encoding


# The ids are those of types, which the memo keeps alive.
_KNOWN_WRITABLE = BoundedCache[tuple[object, ...], Sequence[Attribute]]()


def check_writable(
    source: Operation, casts: Sequence[Operation], types: Sequence[Attribute], constants: Constants
) -> None:
    """
    Check that a constant like `source` of `types[0]`, and casts behind it, would verify.

    Raises NotFoldable if it would not.
    """
    name = cast(str, elements_attribute_of(source))
    attribute = cast(Any, find_attribute(source, name))
    before: list[Attribute] = [source.results[0].type]
    if casts or len(source.properties) + len(source.attributes) > 1:
        before += [cast_op.results[0].type for cast_op in casts]
        held = [held for op in (source, *casts) for held in (op.properties, op.attributes) if held]
        others = [item for each in held for item in each.items() if item[0] != name]
        kinds = [type(cast_op) for cast_op in casts]
        numbers = map(id, (attribute.type, *types, *before))
        key = type(source), *kinds, *numbers, *others
    else:
        key = type(source), id(attribute.type), id(types[0]), id(before[0])
    if _KNOWN_WRITABLE.get(key) is not None:
        return
    error = _error_of(source, casts, types, constants)
    # What does not even verify as it is cannot be judged apart from its place.
    if error is not None and _error_of(source, casts, before, constants) is None:
        raise NotFoldable(Code.ILLEGAL_TYPE, error)
    _KNOWN_WRITABLE.add(key, (attribute.type, *types, *before), 0)


def _error_of(
    source: Operation, casts: Sequence[Operation], types: Sequence[Attribute], constants: Constants
) -> str | None:
    """Why a constant like `source` of other types, and casts behind it, do not verify."""
    name = cast(str, elements_attribute_of(source))
    old = cast(Attribute, find_attribute(source, name))
    element_type = cast(Any, old).type.element_type
    try:
        encoding = _encoding_for(old, types[0], source)
    except NotFoldable as error:
        return str(error)
    shape = cast(Any, tensor_parts(types[0])).shape
    elements = constants.read(source)
    first: Any = None
    if isinstance(elements, Splat):
        first = elements.value
    elif elements is not None:
        first = elements.flat[0] if elements.size else np.zeros((), elements.dtype)[()]
    data = element_bytes(Splat(first, shape), element_type)
    trial = dense_of_bytes(TensorType(element_type, shape, encoding), data)
    for op in _create([source], casts, types, trial, name):
        if isinstance(op, UnregisteredOp):
            continue
        try:
            op.verify_()
        except VerifyException as error:
            return str(error)
    return None
