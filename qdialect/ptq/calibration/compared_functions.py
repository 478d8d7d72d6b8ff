"""
A function of a float module and one of its quantized form that return corresponding values.

Values correspond by their keys. In a quantized module, the compared value is the one that users
read: the result of a cast to floats, if there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.algebra.movement import DYNAMIC
from qdialect.check.interpreters import find_function
from qdialect.dialects.quant import DequantizeCastOp, QuantizeCastOp
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.folding.apply import fold_shapes
from qdialect.folding.policy import FoldPolicy
from qdialect.ir.value_types import element_type_or_self, shape_of
from qdialect.ops.interface import is_cast, name_of
from qdialect.ptq.calibration.keys import (
    attach_keys,
    casts_to,
    constant_values,
    is_recordable,
    keys_of,
)
from qdialect.ptq.calibration.recorded_function import (
    LeftOut,
    recordable_values,
    returning,
)

ARGUMENT = "argument"
"""The producer name of a value without a defining op."""


class ComparedValue(NamedTuple):
    """A value that both functions return, in one or more parts."""

    key: str
    op: str
    """The name of the op that makes it."""
    storage: str
    """Its storage type in the quantized module: `u8`, or `f32` if it is not quantized."""
    inputs: tuple[str, ...]
    """The keys of the operands of its op."""
    parts: int


class ComparedResult(NamedTuple):
    """A result of a classifier, with one number for each class."""

    number: int
    key: str


class NotCompared(NamedTuple):
    """A value of one or both modules, and why it is not compared."""

    key: str
    reason: str


class OneFunction(NamedTuple):
    """One of the two functions."""

    module: ModuleOp
    function: FuncOp

    left_out: tuple[LeftOut, ...]
    """The values of its module that cannot be recorded."""


@dataclass(frozen=True)
class ComparedFunctions:
    """
    The two functions.

    Both have the same arguments, and return the parts of values, then the results.
    """

    before: OneFunction
    after: OneFunction
    values: tuple[ComparedValue, ...]
    results: tuple[ComparedResult, ...]
    not_compared: tuple[NotCompared, ...]


class _Reading(NamedTuple):
    """A value as its users read it in a quantized module."""

    value: SSAValue
    storage: str
    is_quantized: bool


def compare_functions(
    before: ModuleOp, after: ModuleOp, names: tuple[str, str], contexts: tuple[Context, Context]
) -> ComparedFunctions:
    """
    Make functions that return the comparable values of the functions `names`, one of each module.

    Both modules are changed: shape ops are folded into constants, since the quantized weights may
    be in the layout that layers read. Raises InterpretationError if a function does not exist, and
    ValueError if they differ in arguments or results.
    """
    numbered = set[str]()
    for module, context in zip((before, after), contexts, strict=True):
        # A fold may change the order of values that have no name.
        numbered |= attach_keys(module).numbered
        # Broadcasts are kept in both modules, whether their operands are quantized or not.
        fold_shapes(module, context, FoldPolicy(max_repetition=0))
    return _Comparison(before, after, names, numbered).functions()


class _Side:
    """The values of one function, by their keys."""

    def __init__(self, module: ModuleOp, name: str) -> None:
        self.module = module
        self.function = find_function(module, name)
        self.roots, self.left_out = recordable_values(module, self.function)
        keys = keys_of(module)
        self.keys = keys.of_values
        self._aliases = {
            name: key for name, key in keys.aliases.items() if name not in keys.numbered
        }
        self.members = dict[str, list[SSAValue]]()
        """The values that hold the elements of each key, without the results of their casts."""
        block = self.function.body.blocks[0]
        for value, key in self.keys.items():
            owner = value.owner
            is_here = (owner if isinstance(owner, Block) else owner.parent_block()) is block
            if is_here and key in self.roots and not self._is_of_cast(value, key):
                self.members.setdefault(key, []).append(value)
        last = block.last_op
        self.results = last.operands if isinstance(last, ReturnOp) else ()
        self.constants = constant_values(module)
        """The values that are computed from constants alone, which a fold may have replaced."""

    def root_of(self, key: str) -> str | None:
        """
        The key in this module of the value with `key` in the other module, or with this alias here.
        """
        key = key if key in self.roots else self._aliases.get(key, key)
        return key if key in self.roots else None

    def returning(self, values: Sequence[SSAValue]) -> OneFunction:
        module, function, _ = returning(self.module, self.function, values)
        return OneFunction(module, function, self.left_out)

    def _is_of_cast(self, value: SSAValue, key: str) -> bool:
        owner = value.owner
        return isinstance(owner, Operation) and is_cast(owner) and value not in self.roots[key]


class _Comparison:
    def __init__(
        self,
        before: ModuleOp,
        after: ModuleOp,
        names: tuple[str, str],
        numbered: Collection[str],
    ) -> None:
        self._numbered = numbered
        self._before, self._after = _Side(before, names[0]), _Side(after, names[1])
        self._values = list[ComparedValue]()
        self._pairs = list[tuple[SSAValue, SSAValue]]()
        self._not_compared = list[NotCompared]()

    def functions(self) -> ComparedFunctions:
        before, after = self._before, self._after
        # Values that cannot be recorded are reported elsewhere.
        left_out = {key for side in (before, after) for of in side.left_out for key in of.keys}
        found = set[str]()
        for key in before.roots:
            if (there := after.root_of(key)) is not None:
                found.add(there)
                reason = self._add(key, there)
            else:
                reason = None if key in left_out else "only FLOAT has it"
            if reason is not None:
                self._not_compared.append(NotCompared(key, reason))
        for key in after.roots:
            if key not in found and key not in left_out:
                self._not_compared.append(NotCompared(key, "only QUANTIZED has it"))
        results = (*self._results(),)
        types = before.function.function_type.inputs.data
        one = before.returning([old for old, _ in self._pairs])
        other = after.returning([new for _, new in self._pairs])
        _take(other.function, types)
        return ComparedFunctions(one, other, (*self._values,), results, (*self._not_compared,))

    def _add(self, key: str, there: str) -> str | None:
        """Compare the values of a key with those of the key `there`, or report why not."""
        olds, news = self._before.roots[key], self._after.roots[there]
        pairs = [*zip(olds, news, strict=False)]
        if len(olds) != len(news):
            return f"{len(olds)} values have it in FLOAT, and {len(news)} in QUANTIZED"
        for old, new in pairs:
            # A number may belong to another value.
            if key in self._numbered and not self._are_made_alike(old, new):
                return (
                    f"it is made by '{_maker_of(old)}' in FLOAT, and by '{_maker_of(new)}' in "
                    "QUANTIZED: run --attach-keys before the module is quantized"
                )
            if (reason := _shape_mismatch(old, new)) is not None:
                return reason
        found = [(old, reading) for old, new in pairs for reading in _readings_of(new)]
        if not any(reading.is_quantized for _, reading in found):
            found = self._moved(key, there) or found
        storages = dict.fromkeys(reading.storage for _, reading in found)
        owner = olds[0].owner
        operands = owner.operands if isinstance(owner, Operation) else ()
        inputs = [self._before.keys.get(operand) for operand in operands]
        for storage in storages:
            parts = [
                (old, _as_floats(reading.value))
                for old, reading in found
                if reading.storage == storage
            ]
            self._pairs += parts
            names = (*dict.fromkeys(filter(None, inputs)),)
            self._values.append(ComparedValue(key, _maker_of(olds[0]), storage, names, len(parts)))
        return None

    def _moved(self, key: str, there: str) -> list[tuple[SSAValue, _Reading]]:
        """The first results of shape ops that are quantized in place of their operand."""
        sides = self._before.members[key], self._after.members[there]
        if len(sides[0]) != len(sides[1]):
            return []
        for old, new in zip(*sides, strict=True):
            readings = [reading for reading in _readings_of(new) if reading.is_quantized]
            is_alike = self._are_made_alike(old, new) and _shape_mismatch(old, new) is None
            if readings and is_alike:
                return [(old, reading) for reading in readings]
        return []

    def _are_made_alike(self, old: SSAValue, new: SSAValue) -> bool:
        """Whether the ops that make both have the same name, or both values are constant."""
        are_constants = old in self._before.constants and new in self._after.constants
        return are_constants or _maker_of(old) == _maker_of(new)

    def _results(self) -> Iterator[ComparedResult]:
        """Compare the results that have a number for each class."""
        olds, news = self._before.results, self._after.results
        if len(olds) != len(news):
            raise ValueError(f"FLOAT returns {len(olds)} values, and QUANTIZED {len(news)}")
        for number, (old, new) in enumerate(zip(olds, news, strict=True)):
            shape = shape_of(old.type)
            if not is_recordable(old) or not shape or shape[-1] == 1:
                continue
            found = _as_floats(new)
            reason = f"its type is '{new.type}' in QUANTIZED"
            if is_recordable(found):
                reason = _shape_mismatch(old, found)
            if reason is not None:
                self._not_compared.append(NotCompared(f"result {number}", reason))
                continue
            self._pairs.append((old, found))
            yield ComparedResult(number, self._before.keys.get(old, ""))


def _readings_of(value: SSAValue) -> list[_Reading]:
    """The values that the users of a value read: a cast for each type, or the value itself."""
    found, pending = dict[Attribute, _Reading](), [value]
    while pending:
        of = pending.pop(0)
        # xDSL lists the last use first.
        users = [use.operation for use in of.uses][::-1]
        casts = [op for op in users if is_cast(op)]
        pending += [op.results[0] for op in casts]
        stored = _stored_type(of)
        if stored is not None and len(casts) < len(users):
            found.setdefault(stored, _Reading(of, _name_of_storage(stored), True))
    return [*found.values()] or [
        _Reading(value, _name_of_storage(_stored_type(value) or value.type), False)
    ]


def _stored_type(value: SSAValue) -> Attribute | None:
    """The quantized type that a value is cast to, or cast from."""
    if not is_recordable(value):
        return (
            value.type
            if isinstance(element_type_or_self(value.type), UniformQuantizedType)
            else None
        )
    owner = value.owner
    if not isinstance(owner, Operation) or not is_cast(owner):
        return None
    return None if is_recordable(owner.operands[0]) else owner.operands[0].type


def _name_of_storage(type: Attribute) -> str:
    element = element_type_or_self(type)
    if not isinstance(element, UniformQuantizedType):
        return str(element)
    storage = element.storage_format
    return f"{'i' if storage.signed else 'u'}{storage.width}"


def _maker_of(value: SSAValue) -> str:
    """The name of the op that makes a value, casts skipped."""
    owner = casts_to(value).origin.owner
    return name_of(owner) if isinstance(owner, Operation) else ARGUMENT


def _shape_mismatch(old: SSAValue, new: SSAValue) -> str | None:
    """Why the types of two values rule out an elementwise comparison; None if they do not."""
    shapes = shape_of(old.type), shape_of(new.type)
    one, other = shapes
    if one is None or other is None:
        return "it has no rank"
    is_same = len(one) == len(other) and all(
        DYNAMIC in lengths or lengths[0] == lengths[1] for lengths in zip(one, other, strict=True)
    )
    return None if is_same else f"its type is '{old.type}' in FLOAT, and '{new.type}' in QUANTIZED"


def _as_floats(value: SSAValue) -> SSAValue:
    """A quantized value, dequantized; any other value itself."""
    type = value.type
    if not isinstance(type, TensorType):
        return value
    tensor = cast("TensorType[Attribute]", type)
    element = tensor.element_type
    if not isinstance(element, UniformQuantizedType):
        return value
    floats = TensorType(element.expressed_type, tensor.get_shape(), tensor.encoding)
    cast_op = DequantizeCastOp(value, floats)
    Rewriter.insert_op(cast_op, _behind(value))
    return cast_op.results[0]


def _behind(value: SSAValue) -> InsertPoint:
    """The insertion point behind the definition of a value."""
    owner = value.owner
    return InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)


def _take(function: FuncOp, types: Sequence[Attribute]) -> None:
    """
    Change quantized arguments of a function to these float types.

    Raises ValueError if the function has other arguments.
    """
    block = function.body.blocks[0]
    if len(types) != len(block.args):
        raise ValueError(f"FLOAT takes {len(types)} arguments, and QUANTIZED {len(block.args)}")
    for index, type in enumerate(types):
        argument = block.args[index]
        quantized = argument.type
        element = element_type_or_self(quantized)
        if (
            isinstance(element, UniformQuantizedType)
            and element_type_or_self(type) == element.expressed_type
        ):
            taken = block.insert_arg(type, index)
            cast_op = QuantizeCastOp(taken, quantized)
            Rewriter.insert_op(cast_op, InsertPoint.at_start(block))
            argument.replace_all_uses_with(cast_op.results[0])
            block.erase_arg(argument)
    outputs = function.function_type.outputs.data
    function.function_type = FunctionType.from_lists([arg.type for arg in block.args], outputs)
