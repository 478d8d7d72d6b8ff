"""Fingerprints of modules, which identify the module that a profile was recorded on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from hashlib import blake2b
from itertools import count
from types import MappingProxyType
from typing import Final, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    ModuleOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.algebra.views import Elements, Splat, as_view
from qdialect.dialects.tosa.syntax import NanModeAttr
from qdialect.ir.resources import ResourceBlobs
from qdialect.ops.along_axis import is_statistics
from qdialect.ops.interface import Refusal, is_cast, name_of
from qdialect.ops.reading import ConstantOperands, Constants
from qdialect.ptq.calibration.keys import (
    KEY_ATTRIBUTE,
    Keys,
    keys_of,
    moved_operand,
)
from qdialect.ptq.schemes.profile import Fingerprint
from qdialect.support.lazy_numpy import np


def fingerprint_of(
    module: ModuleOp, resources: ResourceBlobs, keys: Keys | None = None
) -> Fingerprint:
    """
    The hash of each op at the top level of a module, such as a function, and of each value.

    The hash of an op covers the ops, types, attributes, and elements of constants; not the names
    of values, locations, keys, and recorded ranges. `keys` are those of the module.
    """
    keys = keys or keys_of(module)
    parts = dict[str, str]()
    for number, op in enumerate(module.ops):
        symbol = op.properties.get("sym_name", op.attributes.get("sym_name"))
        part = f"@{getattr(symbol, 'data', number)}"
        parts[part] = _Hash(resources).of(op)
    identities = _identities(module, resources)
    # Parts of one tensor share a key. No value in a region has a record.
    values = {
        key: " ".join(identities.get(value, "") for value in values)
        for key, values in keys.roots.items()
    }
    return Fingerprint(parts, values, keys.numbered)


def _identities(module: ModuleOp, resources: ResourceBlobs) -> dict[SSAValue, str]:
    """
    A hash of how each value in the first block of a function is computed.

    Folds of shape ops and casts do not change it: a moved or cast value has the hash of the
    operand, and a constant the hash of its elements in any order. So values may share a hash.
    """
    identities = dict[SSAValue, str]()
    constants = Constants(resources)
    operands = ConstantOperands(constants)
    for function in module.ops:
        if not isinstance(function, FuncOp) or function.is_declaration:
            continue
        block = function.body.blocks[0]
        for argument in block.args:
            types = [each.type for each in block.args]
            text = f"{function.sym_name.data} {argument.index} {[*map(str, types)]}"
            identities[argument] = blake2b(text.encode(), digest_size=8).hexdigest()
        for op in block.ops:
            if not op.results:
                continue
            same = op.operands[0] if is_cast(op) else moved_operand(op, operands)
            elements = _elements(op, constants)
            if same is not None and same in identities:
                identities[op.results[0]] = identities[same]
            elif elements is not None:
                identities[op.results[0]] = _hash_in_any_order(elements)
            else:
                text = _Hash(resources, identities).of(op)[:_DIGITS]
                for result in op.results:
                    identities[result] = f"{text}#{result.index}" if result.index else text
    return identities


_DIGITS: Final = 16
"""The hexadecimal digits of the hash of a value."""


def _elements(op: Operation, constants: Constants) -> Elements | None:
    try:
        return constants.read(op)
    except Refusal:
        return None


def _hash_in_any_order(elements: Elements) -> str:
    """A hash of the bits of elements, whatever their order."""
    splat = elements if isinstance(elements, Splat) else None
    bits = np.array([splat.value]) if splat else as_view(elements).array().reshape(-1)
    bits = bits.view(np.uint8) if bits.dtype.kind == "V" else bits
    count = math.prod(elements.shape)
    total = 0
    for start in range(0, bits.size, _PIECE):
        piece = bits[start : start + _PIECE]
        # The mixing function of splitmix64, whose sum depends on all elements.
        mixed = piece.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        total += int((mixed ^ (mixed >> np.uint64(31))).sum(dtype=np.uint64))
    total = total * count if splat else total
    return f"{(total + count * 0x9E3779B97F4A7C15) % (1 << 64):0{_DIGITS}x}"


_PIECE: Final = 1 << 18
"""The number of elements that are hashed at once, which bounds the memory."""


class _Hash:
    def __init__(
        self,
        resources: ResourceBlobs,
        known: Mapping[SSAValue, str] = MappingProxyType({}),
    ) -> None:
        self._resources = resources
        self._hash = blake2b(digest_size=16)
        self._known = known
        """The hashes of values from outside."""
        self._numbers = dict[SSAValue | Block, str]()
        """The values and blocks, numbered in the order of their first use."""
        self._next = count()

    def of(self, top: Operation) -> str:
        """The hash of an op, with its regions."""
        for op in top.walk():
            if is_statistics(op):
                # The op only forwards its operand.
                self._numbers[op.results[0]] = self._number(op.operands[0])
                continue
            self._add(name_of(op))
            for value in (*op.operands, *op.successors):
                self._add(self._number(value))
            held = {**op.attributes, **op.properties}
            for name in sorted(held):
                if name == KEY_ATTRIBUTE or held[name] == _PROPAGATES_NAN:
                    continue
                if not _says_nothing(held[name]):
                    self._add(name)
                    self._add_attribute(held[name])
            for result in op.results:
                self._number(result)
                self._add(str(result.type))
            for region in op.regions:
                for block in region.blocks:
                    self._number(block)
                    for argument in block.args:
                        self._number(argument)
                        self._add(str(argument.type))
        return self._hash.hexdigest()

    def _number(self, value: SSAValue | Block) -> str:
        if isinstance(value, SSAValue) and value in self._known:
            return self._known[value]
        if value not in self._numbers:
            self._numbers[value] = str(next(self._next))
        return self._numbers[value]

    def _add(self, text: str) -> None:
        data = text.encode()
        self._hash.update(f"{len(data)}:".encode() + data)

    def _add_attribute(self, attribute: Attribute) -> None:
        match attribute:
            case DenseIntOrFPElementsAttr():
                dense = attribute
                self._add(str(dense.type))
                self._hash.update(dense.data.data)
            case DenseResourceAttr():
                self._add(str(attribute.type))
                elements = self._resources.read(attribute)
                if elements is None:
                    self._add(attribute.resource_handle.data)
                else:
                    self._hash.update(np.ascontiguousarray(as_view(elements).array()).data)
            case ArrayAttr():
                self._add("[")
                for each in attribute:
                    self._add_attribute(each)
            case DictionaryAttr():
                # For example the attributes of the arguments of a function.
                self._add("{")
                for name, each in sorted(attribute.data.items()):
                    if name != KEY_ATTRIBUTE:
                        self._add(name)
                        self._add_attribute(each)
            case _:
                self._add(str(attribute))


def _says_nothing(attribute: Attribute) -> bool:
    """Whether these are argument attributes of a function that hold nothing but keys."""
    if not isinstance(attribute, ArrayAttr):
        return False
    items = cast("ArrayAttr[Attribute]", attribute).data
    return all(isinstance(each, DictionaryAttr) and each.data.keys() <= _KEYS for each in items)


_KEYS: Final = {KEY_ATTRIBUTE}

_PROPAGATES_NAN: Final = NanModeAttr("PROPAGATE")
"""A default value, which MLIR prints only in generic form."""
