"""
Keys: names of values that survive lowering and folding, and identify recorded ranges.

The name of a value is, in this order, the attribute `quant.key` of its op, the name in its
location, and its SSA name. A value that holds the elements of another one has the same key: the
result of a cast, of `quant.stats`, and of a shape op that neither drops nor adds elements. So
folding shape ops or inserting casts changes no key. A value that is quantized in the model, such as
a weight, gives its name to its cast to floats.

Values that depend on constants alone are named after the first op that reads them, since a fold may
remove or move them, unless they have a name.

Other values without a name are numbered, and so are values that share a name. Such a key is that of
another value after a change of the module, so it identifies nothing there. Printers number names,
too: `%h_1` may be the second value with the name `h`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    DictionaryAttr,
    FusedLoc,
    ModuleOp,
    NameLoc,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue, Use

from qdialect.algebra.movement import ValueSet
from qdialect.ir.names import names_in, stem_of
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import captured_by
from qdialect.ops.along_axis import is_recordable, is_statistics
from qdialect.ops.interface import (
    Refusal,
    elements_attribute_of,
    find_attribute,
    is_cast,
    model_of,
    name_of,
    op_model,
)
from qdialect.ops.reading import ConstantOperands, Constants, unmoved_operand

KEY_ATTRIBUTE: Final = "quant.key"
"""The attribute of an op, or of an argument of a function, that names a value."""

STATISTICS_KEY: Final = "key"
"""The attribute of `quant.stats` that names the record."""


class Keys(NamedTuple):
    """The keys of the float tensors of a module."""

    of_values: Mapping[SSAValue, str]
    """The key of each value, in the order of the text."""

    roots: Mapping[str, tuple[SSAValue, ...]]
    """The values with a key of their own, by key; several if an attribute says so."""

    aliases: Mapping[str, str]
    """
    The keys by other names: those of values that hold the elements of another one.

    A layer that was lowered to several ops may have left its name on a reshape behind them; a
    quantized value may hold the name of its cast to floats.
    """

    numbered: frozenset[str]
    """The keys and aliases that number values, or may do so."""


def keys_of(module: ModuleOp) -> Keys:
    """
    The keys of all float tensors of a module.

    A name that several values have is made unique by a number, in the order of the module: `x`,
    `x#1`, `x#2`. Values with the same key attribute share the key: they are parts of one tensor. A
    value without a name is numbered within its function: `@main#0`.
    """
    return _KeyFinder().find(module)


class _KeyFinder:
    def __init__(self) -> None:
        self._keys: dict[SSAValue, str] = {}
        self._roots: dict[str, list[SSAValue]] = {}
        self._roots_of: dict[SSAValue, SSAValue] = {}
        self._readings: dict[SSAValue, list[str]] = {}
        self._operands = ConstantOperands(Constants(ResourceBlobs(None)))
        self._named: dict[str, int] = {}
        self._numbered_keys = set[str]()
        self._ssa_names = set[str]()
        """The names that are not those of locations."""
        self._nameless: dict[str, int] = {}
        self._chains: dict[SSAValue, CastChain] = {}
        """The casts that made a value from an integer tensor. The tensor has no key."""
        self._dequantized: dict[CastChain, SSAValue] = {}

    def find(self, module: ModuleOp) -> Keys:
        values = list(_values_of(module.body))
        for value, _ in values:
            chain = casts_to(value)
            if chain.types and not is_recordable(chain.origin):
                self._chains[value] = chain
                self._dequantized.setdefault(chain, value)
        # Keys in attributes are assigned first, so that no other value gets them.
        explicit = {value: key for value, _ in values if (key := self._given_key(value))}
        self._named = dict.fromkeys(explicit.values(), 1)
        functions = self._find_roots(values, explicit)
        names = self._names_of(module, functions, explicit)
        for value, root in self._roots_of.items():
            self._keys[value] = names[root]
            if value is root:
                self._roots.setdefault(names[root], []).append(value)
        roots = {key: tuple(values) for key, values in self._roots.items()}
        aliases = self._aliases()
        given = {*explicit.values()}
        shared = (name for name, count in self._named.items() if count > 1)
        numbered = {
            *self._numbered_keys,
            *shared,
            *(self._printed_numbers(module) & self._ssa_names),
        }
        return Keys(self._keys, roots, aliases, frozenset(numbered - given))

    def _find_roots(
        self, values: Iterable[tuple[SSAValue, str]], explicit: Mapping[SSAValue, str]
    ) -> dict[SSAValue, str]:
        """Fill `self._roots_of`. Returns the function of each value with a key of its own."""
        undefined = set[SSAValue]()
        functions = dict[SSAValue, str]()
        for value, function in values:
            same = None if value in explicit else self._same_as(value)
            if same is not None and same in self._roots_of:
                self._roots_of[value] = self._roots_of[same]
            elif same is not None and (same in undefined or not is_recordable(same)):
                undefined.add(value)
            else:
                self._roots_of[value] = value
                functions[value] = function
        return functions

    def _names_of(
        self,
        module: ModuleOp,
        functions: Mapping[SSAValue, str],
        explicit: Mapping[SSAValue, str],
    ) -> dict[SSAValue, str]:
        """
        The keys of the values with a key of their own; `explicit` holds the keys in attributes.
        """
        names, constant = dict(explicit), constant_values(module)
        nameless = list[SSAValue]()
        for value, function in functions.items():
            if value in explicit:
                continue
            name = self._name(value)
            if name is None and value in constant:
                nameless.append(value)
            else:
                names[value] = self._unique(name or self._numbered(function))
        order = {op: number for number, op in enumerate(module.walk())} if nameless else {}
        # A constant may be named after its reader, which must have its name by then.
        for value in reversed(nameless):
            readings = [
                self._reading(use, names, constant, functions[value])
                for use in self._uses(value, order)
            ] or [self._numbered(functions[value])]
            self._numbered_keys.update(readings)
            names[value] = self._unique(readings[0])
            self._readings[value] = readings[1:]
        return names

    def _uses(self, root: SSAValue, order: Mapping[Operation, int]) -> list[Use]:
        """The uses that compute with the elements of `root`, in the order of the text."""
        uses, pending = list[Use](), [root]
        while pending:
            for use in pending.pop().uses:
                passed = [result for result in use.operation.results if self._holds(result, root)]
                pending += passed
                if not passed:
                    uses.append(use)
        return sorted(uses, key=lambda use: (order[use.operation], use.index))

    def _holds(self, value: SSAValue, root: SSAValue) -> bool:
        """
        Whether a value has the key of `root`, or is the quantized value between two with that key.
        """
        if value in self._roots_of:
            return self._roots_of[value] is root
        return is_cast(cast(Operation, value.owner)) and not is_recordable(value)

    def _reading(
        self,
        use: Use,
        known: Mapping[SSAValue, str],
        constant: Collection[SSAValue],
        function: str,
    ) -> str:
        """The name of a constant by the op that reads it."""
        roots = (self._roots_of.get(result) for result in use.operation.results)
        root = next((root for root in roots if root in known), None)
        reader = f"@{function}" if root is None else known[root]
        if root in constant:
            # Without the op's own name: a fold may replace it by another op.
            reader += f".{name_of(use.operation)}"
        return f"{reader}.{use.index}"

    def _given_key(self, value: SSAValue) -> str | None:
        """The key in an attribute of the value, of its `quant.stats`, or of its origin."""
        given = _own_key(value)
        if given is None:
            behind = (use.operation for use in value.uses)
            keys = (_text(find_attribute(op, STATISTICS_KEY)) for op in behind if is_statistics(op))
            given = next(filter(None, keys), None)
        chain = self._chains.get(value)
        if given is None and chain is not None and self._dequantized[chain] is value:
            given = _own_key(chain.origin)
        return given

    def _aliases(self) -> dict[str, str]:
        """The names of values without a key of their own that no other value has."""
        keys_by_name: dict[str, set[str]] = {}
        for value, key in self._keys.items():
            chain = self._chains.get(value)
            origin = None if chain is None else self._name(chain.origin)
            for name in (self._name(value), origin):
                if name is not None and name not in self._roots:
                    keys_by_name.setdefault(name, set()).add(key)
                elif name is not None and name != key:
                    self._numbered_keys.add(name)
            for name in self._readings.get(value, ()):
                if name not in self._roots:
                    keys_by_name.setdefault(name, set()).add(key)
        return {name: keys.pop() for name, keys in keys_by_name.items() if len(keys) == 1}

    def _numbered(self, function: str) -> str:
        number = self._nameless.get(function, 0)
        self._nameless[function] = number + 1
        key = f"@{function}#{number}"
        self._numbered_keys.add(key)
        return key

    def _unique(self, name: str) -> str:
        while True:
            count = self._named.get(name, 0)
            self._named[name] = count + 1
            key = name if count == 0 else f"{name}#{count}"
            if count == 0 or key not in self._named:
                self._named.setdefault(key, 1)
                if count:
                    self._numbered_keys.add(key)
                return key

    def _printed_numbers(self, module: ModuleOp) -> set[str]:
        """
        The names in a module that a printer may have numbered.

        A printer numbers the second value with a name: `%h` and `%h_1`. It is no second value if
        it is cast or moved from the first. MLIR names arguments `%arg0`.
        """
        roots = dict[str, set[SSAValue]]()
        for value, root in self._roots_of.items():
            roots.setdefault(value.name_hint or "", set()).add(root)
            while isinstance(value, OpResult) and is_cast(value.op):
                value = value.op.operands[0]
                roots.setdefault(value.name_hint or "", set()).add(root)
        names, numbered = {*names_in(module)}, set[str]()
        for name in names:
            if (stem := stem_of(name)) is not None and stem in names:
                is_one = roots.get(name) == roots.get(stem, set()) and len(roots[name]) == 1
                numbered.update((name,) if is_one else (name, stem))
            elif _ARGUMENT.fullmatch(name):
                numbered.add(name)
        return numbered

    def _name(self, value: SSAValue) -> str | None:
        """The name in the location of a value, or of its float source; else its SSA name."""
        chain = self._chains.get(value)
        named = [value] if chain is None else [value, chain.origin]
        located = next(filter(None, map(_location_name, named)), None)
        if located is not None:
            return located
        names = [place.name_hint for place in named if place.name_hint]
        if not names:
            return None
        # A printer may have numbered the cast, if both have the same name.
        name = names[-1] if stem_of(names[0]) == names[-1] else names[0]
        self._ssa_names.add(name)
        return name

    def _same_as(self, value: SSAValue) -> SSAValue | None:
        """The value that has exactly the same elements, if there is one."""
        op = value.owner
        if not isinstance(op, Operation):
            return None
        if is_cast(op):
            # The quantized value between two casts has no key; the operand of the first cast has
            # one.
            chain = casts_to(value)
            same = chain.origin if is_recordable(chain.origin) else self._dequantized[chain]
            return None if same is value else same
        return moved_operand(op, self._operands)


def moved_operand(op: Operation, operands: ConstantOperands) -> SSAValue | None:
    """The operand that has exactly the elements of the result, perhaps in other places."""
    if (model := model_of(op)) is None:
        return None
    try:
        read = operands.read(op, model)
    except Refusal:
        return None
    if len(read.operands) == 1 and all(
        movement.values is ValueSet.SAME for movement in read.movements
    ):
        return read.operands[0]
    return unmoved_operand(op)


_ARGUMENT: Final = re.compile("arg[0-9]+")


def constant_values(module: ModuleOp) -> set[SSAValue]:
    """The values that depend on constants alone, which a fold may replace or move."""
    constant = set[SSAValue]()
    for op in module.walk():
        if not op.operands:
            is_constant = elements_attribute_of(op) is not None or op_model(op).is_undefined
        else:
            is_constant = all(operand in constant for operand in op.operands)
            is_constant = is_constant and all(value in constant for value in captured_by(op))
        if is_constant:
            constant.update(op.results)
    return constant


def _values_of(region: Region, function: str = "") -> Iterator[tuple[SSAValue, str]]:
    """The float tensors in a region, each with its function, in the order of the text."""
    pending: list[tuple[Iterator[Operation | Block], str]] = [(iter(region.blocks), function)]
    while pending:
        items, function = pending[-1]
        item = next(items, None)
        if item is None:
            pending.pop()
            continue
        if isinstance(item, Block):
            yield from ((argument, function) for argument in item.args if is_recordable(argument))
            pending.append((iter(item.ops), function))
            continue
        yield from ((result, function) for result in item.results if is_recordable(result))
        name = item.sym_name.data if isinstance(item, FuncOp) else function
        for inner in reversed(item.regions):
            pending.append((iter(inner.blocks), name))


class CastChain(NamedTuple):
    """Casts, one after another."""

    origin: SSAValue
    types: tuple[Attribute, ...]
    """The types of the results."""


def casts_to(value: SSAValue) -> CastChain:
    """The chain of casts that ends with a value; empty if its owner is not a cast."""
    types = list[Attribute]()
    while isinstance(value, OpResult) and is_cast(value.op):
        types.append(value.type)
        value = value.op.operands[0]
    return CastChain(value, tuple(types))


def _own_key(value: SSAValue) -> str | None:
    if isinstance(value, BlockArgument):
        if (function := _function_of(value)) is None or not function.arg_attrs:
            return None
        return _text(function.arg_attrs.data[value.index].data.get(KEY_ATTRIBUTE))
    result = cast("OpResult[Attribute]", value)
    given = result.op.attributes.get(KEY_ATTRIBUTE)
    if isinstance(given, ArrayAttr):
        several = cast("ArrayAttr[Attribute]", given).data
        return _text(several[result.index]) if len(several) == len(result.op.results) else None
    return _text(given) if len(result.op.results) == 1 else None


def _text(attribute: Attribute | None) -> str | None:
    return (attribute.data or None) if isinstance(attribute, StringAttr) else None


def _location_name(value: SSAValue) -> str | None:
    """The first name in the location of a value."""
    owner = value if isinstance(value, BlockArgument) else cast(Operation, value.owner)
    pending: list[Attribute] = [owner.location]
    while pending:
        match pending.pop():
            case NameLoc() as named:
                return named.desc.data
            case FusedLoc() as fused:
                pending += reversed(cast("ArrayAttr[Attribute]", fused.locations).data)
            case CallSiteLoc() as call:
                pending += (call.caller, call.callee)
            case _:
                pass
    return None


def attach_keys(module: ModuleOp) -> Keys:
    """
    Write the keys of values with a key of their own as attributes. Returns the keys.

    Only arguments of the first block of a function have attributes; other block arguments get none.
    """
    of_ops = dict[Operation, dict[int, str]]()
    of_functions = dict[FuncOp, dict[int, str]]()
    keys_here = keys_of(module)
    for key, values in keys_here.roots.items():
        for value in values:
            if isinstance(value, BlockArgument):
                if (function := _function_of(value)) is not None:
                    of_functions.setdefault(function, {})[value.index] = key
            else:
                result = cast("OpResult[Attribute]", value)
                of_ops.setdefault(result.op, {})[result.index] = key
    for op, keys in of_ops.items():
        if len(op.results) == 1:
            op.attributes[KEY_ATTRIBUTE] = StringAttr(keys[0])
        else:
            every = (StringAttr(keys.get(index, "")) for index in range(len(op.results)))
            op.attributes[KEY_ATTRIBUTE] = ArrayAttr(every)
    for function, keys in of_functions.items():
        attributes_of = [dict(attributes.data) for attributes in function.arg_attrs or ()]
        attributes_of = attributes_of or [
            dict[str, Attribute]() for _ in function.function_type.inputs
        ]
        for index, key in keys.items():
            attributes_of[index][KEY_ATTRIBUTE] = StringAttr(key)
        function.arg_attrs = ArrayAttr(map(DictionaryAttr, attributes_of))
    return keys_here


def _function_of(argument: BlockArgument) -> FuncOp | None:
    """The function that a block argument is an argument of, if there is one."""
    function = argument.block.parent_op()
    if isinstance(function, FuncOp) and argument.block is function.body.first_block:
        return function
    return None
