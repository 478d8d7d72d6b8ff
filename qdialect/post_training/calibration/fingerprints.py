"""Fingerprints of modules, which identify the module that a profile was recorded on."""

from __future__ import annotations

from hashlib import blake2b
from itertools import count
from typing import Final, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    ModuleOp,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.splat import as_view
from qdialect.dialects.upstream.tosa_syntax import NanModeAttr
from qdialect.ir.resources import ResourceBlobs
from qdialect.post_training.calibration.keys import KEY_ATTRIBUTE
from qdialect.quantization.profile import Fingerprint
from qdialect.shape_ops.interface import name_of
from qdialect.shape_ops.statistics import is_statistics


def fingerprint_of(module: ModuleOp, resources: ResourceBlobs) -> Fingerprint:
    """
    The hash of each op at the top level of a module, such as a function.

    It covers the ops, types, attributes, and elements of constants; not the names of values,
    locations, keys, and recorded ranges.
    """
    parts = dict[str, str]()
    for number, op in enumerate(module.ops):
        symbol = op.properties.get("sym_name", op.attributes.get("sym_name"))
        part = f"@{getattr(symbol, 'data', number)}"
        parts[part] = _Hash(resources).of(op)
    return Fingerprint(parts)


class _Hash:
    def __init__(self, resources: ResourceBlobs) -> None:
        self._resources = resources
        self._hash = blake2b(digest_size=16)
        self._numbers = dict[SSAValue | Block, int]()
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
                self._add(str(self._number(value)))
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

    def _number(self, value: SSAValue | Block) -> int:
        if value not in self._numbers:
            self._numbers[value] = next(self._next)
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
