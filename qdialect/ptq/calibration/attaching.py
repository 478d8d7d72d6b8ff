"""
Recorded ranges as ops: `quant.stats` after each value that has a record in a profile.

Fingerprints identify the module that a profile was recorded on.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import count
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    ModuleOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from qdialect.algebra.views import Elements, Splat, as_view
from qdialect.dialects.quant import StatisticsOp
from qdialect.dialects.tosa.syntax import NanModeAttr
from qdialect.folding.report import Outcome, PassReport
from qdialect.ir.elements import floats_attribute
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import insert_after
from qdialect.ir.value_types import shape_of
from qdialect.ops.along_axis import is_statistics
from qdialect.ops.interface import Refusal, RefusalCode, elements_attribute_of, is_cast, name_of
from qdialect.ops.reading import ConstantOperands, Constants
from qdialect.ptq.calibration.keys import (
    KEY_ATTRIBUTE,
    Keys,
    keys_of,
    moved_operand,
)
from qdialect.ptq.schemes.profile import Fingerprint, Profile
from qdialect.ptq.schemes.ranges import Reduction, Statistics
from qdialect.ptq.schemes.schemes import Range
from qdialect.support.lazy_numpy import NDArray, np


class Attached(NamedTuple):
    """What `attach_ranges` did."""

    report: PassReport

    differences: list[str]
    """The differences of the module from the one of the profile, in words."""

    doubtful: int
    """The number of records that have not been attached, since they may be of other values."""


def attach_ranges(
    module: ModuleOp,
    context: Context,
    profile: Profile,
    reduction: Reduction,
    *,
    trust_numbers: bool = False,
    finite: bool = False,
) -> Attached:
    """
    Insert `quant.stats` after each value that has a record in `profile`, in place of any there.

    A value that only holds the elements of another one gets none. The report lists values without a
    record, and records without a value. In another module than that of the profile, a key that
    numbers values binds no record, unless `trust_numbers`. If `finite`, infinite ranges are left
    out.
    """
    report = PassReport(verb="attached")
    resources = ResourceBlobs.of(context)
    keys = keys_of(module)
    fingerprint = fingerprint_of(module, resources, keys)
    records = _Records(profile, keys, fingerprint, trust_numbers=trust_numbers)
    bound = set[str]()
    for key, values in keys.roots.items():
        name, doubt = records.find(key, values)
        statistics = None if name is None else profile.statistics(name)
        if name is not None:
            bound.add(profile.aliases.get(name, name))
        for value in values:
            if isinstance(value.owner, Operation) and value.owner.parent is None:
                # It was the result of `quant.stats`, which has been replaced.
                continue
            if name is None or statistics is None:
                reason = f"there is no record of '{key}'"
            elif doubt is not None:
                reason = f"the record of '{name}' {doubt}"
            elif (misfit := _misfit(statistics, value)) is not None:
                reason = f"the record of '{key}' {misfit}"
            elif finite and not np.isfinite(reduction(statistics)).all():
                reason = f"the record of '{key}' is infinite"
            else:
                recorded = key if name in records.names[key] else name
                _attach(report, value, recorded, statistics, reduction(statistics))
                continue
            report.refuse(_op_of(value), Refusal(RefusalCode.NO_RECORD, reason))
    for key in sorted(profile.values.keys() - bound):
        reason = f"no value has the key '{key}', which has a record"
        report.refuse(module, Refusal(RefusalCode.NO_VALUE, reason))
    differences = profile.fingerprint.differences(fingerprint)
    return Attached(report, differences, len(records.doubtful))


class _Records:
    """The records of a profile, found by the keys of a module."""

    def __init__(
        self, profile: Profile, keys: Keys, fingerprint: Fingerprint, *, trust_numbers: bool
    ) -> None:
        self._profile = profile
        self._here = fingerprint.values
        self._there = profile.fingerprint.values
        self._numbered = keys.numbered | _numbered_in(profile)
        self._keys_here = _keys_by_hash(self._here)
        self._keys_there = _keys_by_hash(self._there)
        self.names = {key: [key] for key in keys.roots}
        """The names of each key: itself, and its aliases."""
        for name, key in keys.aliases.items():
            self.names[key].append(name)
        self.are_sure = trust_numbers or profile.fingerprint.has_keys_of(fingerprint)
        """Whether each key is the one that its value had, whatever it says."""
        self.doubtful = set[str]()
        """The keys whose records were found, and may be of other values."""

    def find(self, key: str, values: Sequence[SSAValue]) -> tuple[str | None, str | None]:
        """The name of the record of the values with a key, and why it may not be their record."""
        known = [name for name in self.names[key] if self._profile.statistics(name) is not None]
        if self.are_sure:
            return next(iter(known), None), None
        hash = self._here[key]
        if hash in self._keys_here and hash in self._keys_there:
            return self._keys_there[hash], None
        known = [name for name in known if not self._is_elsewhere(name)]
        for name in known:
            if self._numbered.isdisjoint((name, self._key_of(name))):
                is_same = self._there.get(self._key_of(name), hash) == hash
                is_changed = not is_same and _holds_elements(values)
                return name, "is of other elements than this constant has" if is_changed else None
        if not known:
            return None, None
        self.doubtful.add(key)
        return known[0], (
            "may be of another value, since the module or its names have changed: run "
            "--attach-keys before the calibration, or use trust-numbers"
        )

    def _key_of(self, name: str) -> str:
        """The key of the record with a name."""
        return self._profile.aliases.get(name, name)

    def _is_elsewhere(self, name: str) -> bool:
        """Whether the value of a record is there, under another key."""
        key = self._key_of(name)
        hash = self._there.get(key, "")
        return self._keys_there.get(hash) == key and hash in self._keys_here


def _keys_by_hash(hashes: Mapping[str, str]) -> dict[str, str]:
    """The keys of the values that are computed as no other value is."""
    counts = Counter(hashes.values())
    return {hash: key for key, hash in hashes.items() if hash and counts[hash] == 1}


def _holds_elements(values: Sequence[SSAValue]) -> bool:
    """Whether values with a common key are constants, or parts of a constant."""
    owner = values[0].owner
    return len(values) > 1 or (
        isinstance(owner, Operation) and elements_attribute_of(owner) is not None
    )


def _numbered_in(profile: Profile) -> frozenset[str]:
    """The keys in a profile that number values."""
    if profile.fingerprint.values:
        return profile.fingerprint.numbered
    numbered = set[str]()
    for key in (*profile.values, *profile.aliases):
        if (number := _NUMBER.search(key)) is not None:
            # A profile of version 1 has no other sign that values share a name.
            numbered |= {key, key[: number.start()]}
    return frozenset(numbered)


_NUMBER: Final = re.compile(r"#[0-9]+(?=\Z|\.)")


def _op_of(value: SSAValue) -> Operation:
    """The op that a value is a result or a block argument of."""
    owner = value.owner
    if isinstance(owner, Block):
        parent = owner.parent_op()
        assert parent is not None
        return parent
    return owner


def _misfit(statistics: Statistics, value: SSAValue) -> str | None:
    """Why ranges do not match a value; None if they do."""
    axes, shape = statistics.axes, shape_of(value.type)
    if not axes:
        return None
    if len(axes) > 1:
        return f"has ranges of the axes {list(axes)}, but 'quant.stats' supports at most one axis"
    axis = next(iter(axes))
    count = statistics.minima.shape[1]
    if shape is None or axis >= len(shape) or shape[axis] not in (-1, count):
        return f"has {count} ranges of axis {axis}, which '{value.type}' does not have"
    return None


def _attach(
    report: PassReport, value: SSAValue, key: str, statistics: Statistics, ranges: Range
) -> None:
    ends: NDArray[np.float64] = np.stack([ranges.minimum, ranges.maximum], -1).astype(np.float64)
    whole = np.array([ends[..., 0].min(), ends[..., 1].max()])
    axis = statistics.axes[0] if statistics.axes else None
    by_axis = None if axis is None else floats_attribute(ends)
    before = {use.operation for use in value.uses if is_statistics(use.operation)}
    new = StatisticsOp(
        value, floats_attribute(whole), by_axis, axis, key=key, count=len(statistics.records)
    )
    for old in before:
        # The new op replaces those of an earlier profile.
        old.results[0].replace_all_uses_with(value)
        Rewriter.erase_op(old)
    value.replace_uses_with_if(new.result, lambda use: use.operation is not new)
    insert_after(new, value)
    reason = f"'{key}' is from {whole[0]:.9g} to {whole[1]:.9g}"
    report.tell(Outcome.ATTACHED, _op_of(value), reason)


# Fingerprints


def fingerprint_of(
    module: ModuleOp, resources: ResourceBlobs, keys: Keys | None = None
) -> Fingerprint:
    """
    The hash of each op at the top level of a module, such as a function, and of each value.

    The hash of an op covers the ops, types, attributes, and elements of constants; not the names
    of values, locations, keys, and recorded ranges. `keys` are those of the module.
    """
    keys = keys or keys_of(module)
    parts, texts = dict[str, str](), _Texts()
    for number, op in enumerate(module.ops):
        symbol = op.properties.get("sym_name", op.attributes.get("sym_name"))
        part = f"@{getattr(symbol, 'data', number)}"
        parts[part] = _Hash(resources, texts).of(op)
    identities = _identities(module, resources, texts)
    # Parts of one tensor share a key. No value in a region has a record.
    values = {
        key: " ".join(identities.get(value, "") for value in values)
        for key, values in keys.roots.items()
    }
    return Fingerprint(parts, values, keys.numbered)


def _identities(module: ModuleOp, resources: ResourceBlobs, texts: _Texts) -> dict[SSAValue, str]:
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
            types = [other.type for other in block.args]
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
                text = _Hash(resources, texts, identities).of(op)[:_DIGITS]
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


class _Texts:
    """The texts of attributes, by their ids: equal ones may differ in the sign of a zero."""

    def __init__(self) -> None:
        self._known = dict[int, tuple[Attribute, str]]()
        """With the attributes, since ids of those that are gone are used again."""

    def of(self, attribute: Attribute) -> str:
        known = self._known.get(id(attribute))
        if known is None:
            known = self._known[id(attribute)] = attribute, str(attribute)
        return known[1]


class _Hash:
    def __init__(
        self,
        resources: ResourceBlobs,
        texts: _Texts,
        known: Mapping[SSAValue, str] = MappingProxyType({}),
    ) -> None:
        self._resources = resources
        self._texts = texts
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
            attributes = {**op.attributes, **op.properties}
            for name in sorted(attributes):
                if name == KEY_ATTRIBUTE or attributes[name] == _PROPAGATES_NAN:
                    continue
                if not _says_nothing(attributes[name]):
                    self._add(name)
                    self._add_attribute(attributes[name])
            for result in op.results:
                self._number(result)
                self._add(self._texts.of(result.type))
            for region in op.regions:
                for block in region.blocks:
                    self._number(block)
                    for argument in block.args:
                        self._number(argument)
                        self._add(self._texts.of(argument.type))
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
                self._add(self._texts.of(dense.type))
                self._hash.update(dense.data.data)
            case DenseResourceAttr():
                self._add(self._texts.of(attribute.type))
                elements = self._resources.read(attribute)
                if elements is None:
                    self._add(attribute.resource_handle.data)
                else:
                    self._hash.update(np.ascontiguousarray(as_view(elements).array()).data)
            case ArrayAttr():
                self._add("[")
                for item in attribute:
                    self._add_attribute(item)
            case DictionaryAttr():
                # For example the attributes of the arguments of a function.
                self._add("{")
                for name, item in sorted(attribute.data.items()):
                    if name != KEY_ATTRIBUTE:
                        self._add(name)
                        self._add_attribute(item)
            case _:
                self._add(self._texts.of(attribute))


def _says_nothing(attribute: Attribute) -> bool:
    """Whether these are argument attributes of a function that hold nothing but keys."""
    if not isinstance(attribute, ArrayAttr):
        return False
    items = cast("ArrayAttr[Attribute]", attribute).data
    return all(isinstance(item, DictionaryAttr) and item.data.keys() <= _KEYS for item in items)


_KEYS: Final = {KEY_ATTRIBUTE}

_PROPAGATES_NAN: Final = NanModeAttr("PROPAGATE")
"""A default value, which MLIR prints only in generic form."""
