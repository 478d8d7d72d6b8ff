"""
Serialization of plans to JSON.

Ops are identified by `OpNames`, and types are MLIR's text. A long type is written once, in
`types`, and referred to by its index there. An object has the fields of its class; None is left
out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import Any, Final, TypeAlias, cast, get_args, get_origin, get_type_hints

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, TensorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.algebra.movement import Movement
from qdialect.algebra.padding import PadWith, ZeroPoint
from qdialect.dialects.quant import Quant, UniformQuantizedType
from qdialect.folding.fold_plan import FoldPlan, PlanError, PlannedConstant, PlannedSource
from qdialect.ir.errors import message_of
from qdialect.ir.rewriting import dependencies_first
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.interface import RefusalCode
from qdialect.support.arguments import shown
from qdialect.support.files import JsonError, JsonValue, line_and_column
from qdialect.support.memory import registered_cache
from qdialect.text.attribute_parser import AttributeParser
from qdialect.text.messages import reading_message_of

VERSION: Final = 1

_KEYS: Final[Mapping[tuple[type, str], str]] = {
    (PlannedSource, "nbytes"): "bytes",
    (PlannedSource, "is_kept"): "kept",
    (PlannedConstant, "name"): "step",
    (PlannedConstant, "nbytes"): "bytes",
}
"""The keys of fields that have another name."""

_KIND: Final = "movement"
"""The key of the class of a movement."""

_PADDING: Final = "padded_with"
"""The field of `PadWith` that is not part of a plan."""

_LONG_TYPE: Final = 120
"""Types with a longer text are written once, in `types`."""

_MANY_SCALES: Final = 1024
"""A type with more scales is written with one, 1.0, in a plan of weights in files."""

Json = dict[str, Any]


def plans_to_json(plans: Iterable[FoldPlan]) -> str:
    """One JSON text of several plans, which `plans_of_json` reads."""
    writer = _Writer()
    written = [writer.write(plan) for plan in plans]
    content = {"version": VERSION, "plans": written, "types": writer.long_types}
    return json.dumps(content, indent=1) + "\n"


def plan_of_json(text: str, context: Context | None = None) -> FoldPlan:
    """
    The plan in a JSON text that holds one: see `plans_of_json`.

    Raises PlanError if the text is malformed or does not hold exactly one plan.
    """
    plans = plans_of_json(text, context)
    if len(plans) != 1:
        raise PlanError(f"the text holds {len(plans)} plans, not one")
    return plans[0]


def plans_of_json(text: str, context: Context | None = None) -> Sequence[FoldPlan]:
    """
    The plans in a JSON text: one for each fold of a module.

    Types are parsed with the dialects of `context`, by default builtin and quant. Raises
    PlanError if the text is malformed; the message has the path to the malformed value, such as
    `plans[0].steps[2].type`.
    """
    if context is None:
        context = Context(allow_unregistered=True)
        context.load_dialect(Builtin)
        context.load_dialect(Quant)
    try:
        return _read_plans(JsonValue.parse(text), context)
    except JsonError as error:
        reason = str(error)
        if error.path:
            steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.path)
            reason = f"{''.join(steps).removeprefix('.')}: {reason}"
        elif error.offset is not None:
            line, column = line_and_column(text, error.offset)
            reason += f": line {line} column {column}"
    raise PlanError(f"the text is not JSON of fold plans: {reason}")


class _Writer:
    def __init__(self) -> None:
        self.long_types = list[str]()
        self._types = dict[Attribute, str | int]()
        self._is_of_files = False
        """Whether what is written is the plan of weights in files."""

    def write(self, value: object) -> Any:
        if isinstance(value, Attribute):
            return self._type(_abbreviated(value) if self._is_of_files else value)
        if isinstance(value, FoldPlan):
            self._is_of_files = any(constant.resource for constant in value.constants)
        if isinstance(value, Movement):
            values = {name: getattr(value, name) for name in _fields_of_movement(type(value))}
            return {_KIND: _name_of(type(value)), **self._object(values)}
        if (keys := _keys_of(type(value))) is not None:
            values = {key: getattr(value, name) for key, name in keys.items()}
            return self._object({key: field for key, field in values.items() if field is not None})
        if isinstance(value, tuple):
            return list(map(self.write, cast("tuple[object, ...]", value)))
        return value

    def _object(self, values: Mapping[str, object]) -> Json:
        return {key: self.write(value) for key, value in values.items()}

    def _type(self, type: Attribute) -> str | int:
        if (known := self._types.get(type)) is not None:
            return known
        written: str | int
        written = text = str(type)
        if len(text) > _LONG_TYPE:
            self.long_types.append(text)
            written = len(self.long_types) - 1
        self._types[type] = written
        return written


def _abbreviated(type: Attribute) -> Attribute:
    """A type without its scales, if there are many."""
    element = element_type_or_self(type)
    if not isinstance(element, UniformQuantizedType) or element.scales.size <= _MANY_SCALES:
        return type
    if not isinstance(type, TensorType):
        return type
    tensor = cast(TensorType[Attribute], type)
    single = UniformQuantizedType.per_tensor(element.storage, element.expressed_type, 1.0)
    return TensorType[Attribute](single, tensor.shape, tensor.encoding)


Read: TypeAlias = Callable[[JsonValue], Any]
"""Reads a value. Raises JsonError."""


class _Reader:
    """Makes functions that read the values of fields as their declared types."""

    def __init__(self, context: Context, long_types: Sequence[str]) -> None:
        self._context = context
        self._long_types = long_types
        self._types = dict[str, Attribute]()
        self._movements = _known_movements()

    def reader_of(self, wanted: Any) -> Read:
        """The function that reads a value of a type: a class, a tuple, or one that may be None."""
        if isinstance(wanted, UnionType):
            read_some = self.reader_of(get_args(wanted)[0])
            return lambda value: None if value.value is None else read_some(value)
        if get_origin(wanted) is tuple:
            read_item = self.reader_of(get_args(wanted)[0])
            return lambda value: tuple(map(read_item, value.items()))
        if (keys := _keys_of(wanted)) is not None:
            return self._reader_of_fields(wanted, keys)
        others = {Attribute: self._type, Movement: self._movement, RefusalCode: _code}
        return others.get(wanted) or (lambda value: value.of(wanted))

    def _reader_of_fields(self, cls: type[Any], keys: Mapping[str, str]) -> Read:
        # That module imports these for type checkers alone.
        hints = get_type_hints(cls, localns={"Movement": Movement, "RefusalCode": RefusalCode})
        readers = {key: self.reader_of(hints[name]) for key, name in keys.items()}
        optional = [key for key, name in keys.items() if isinstance(hints[name], UnionType)]

        def read(value: JsonValue) -> Any:
            written = value.members(keys, optional)
            fields = ((written.get(key), reader) for key, reader in readers.items())
            return cls(*[None if field is None else reader(field) for field, reader in fields])

        return read

    def _type(self, value: JsonValue) -> Attribute:
        number: Any = value.value
        if type(number) is int:
            if not 0 <= number < len(self._long_types):
                raise value.error(f"'types' has no type {number}")
            value = JsonValue(self._long_types[number], value.path)
        text = value.of(str)
        if (known := self._types.get(text)) is not None:
            return known
        try:
            parser = AttributeParser(self._context, Input(text, "<type>"))
            read = parser.parse_type()
            if parser.current_token.kind is not MLIRTokenKind.EOF:
                parser.raise_error("expected the end of the type")
        except ParseError as error:
            raise value.error(f"there is no type {shown(text)}: {error.msg}") from None
        # Parsers of other packages raise anything.
        except Exception as error:
            reason = reading_message_of(error)
            raise value.error(f"there is no type {shown(text)}: {reason}") from None
        self._types[text] = read
        return read

    def _movement(self, value: JsonValue) -> Movement:
        name: Any = cast(Json, value.of(dict)).get(_KIND)
        cls = self._movements.get(name) if isinstance(name, str) else None
        if cls is None:
            raise value.error(f"there is no movement {shown(name)}")
        names = _fields_of_movement(cls)
        written = value.members((_KIND, *names))
        values = {name: self._value(written[name]) for name in names}
        if issubclass(cls, PadWith):
            values[_PADDING] = ZeroPoint()
        try:
            return cls(**values)
        # Classes of other packages raise anything.
        except Exception as error:
            raise value.error(message_of(error)) from None

    def _value(self, value: JsonValue) -> Any:
        if isinstance(value.value, dict):
            return self._movement(value)
        if isinstance(value.value, list):
            items = cast("list[Any]", value.value)
            is_plain = {int}.issuperset(map(type, items))
            return tuple(items) if is_plain else tuple(map(self._value, value.items()))
        return value.value


def _code(value: JsonValue) -> RefusalCode:
    try:
        return RefusalCode(value.value)
    except ValueError:
        raise value.error(f"there is no code {shown(value.value)}") from None


def _read_plans(content: JsonValue, context: Context) -> Sequence[FoldPlan]:
    # Another version may have other keys.
    version = content.members().get("version")
    if version is not None and version.of(int) != VERSION:
        raise content.error(f"version {version.value} of plans is not supported")
    values = content.members(("version", "plans", "types"))
    reader = _Reader(context, [item.of(str) for item in values["types"].items()])
    read_plan = reader.reader_of(FoldPlan)
    return [read_plan(plan) for plan in values["plans"].items()]


@registered_cache
@cache
def _keys_of(cls: type[Any]) -> Mapping[str, str] | None:
    """For each key of an object of this class in JSON, the field; None for other classes."""
    if cls is not FoldPlan and not hasattr(cls, "_fields"):
        return None
    return {_KEYS.get((cls, name), name): name for name in cls.__annotations__}


def _fields_of_movement(cls: type[Movement]) -> list[str]:
    """The fields that are part of a plan."""
    left_out = _PADDING if issubclass(cls, PadWith) else None
    return [field.name for field in fields(cls) if field.name != left_out]


def _known_movements() -> Mapping[str, type[Movement]]:
    """All classes of movements by name, including those of other packages."""
    classes = dependencies_first(Movement.__subclasses__(), lambda cls: cls.__subclasses__())
    return {_name_of(cls): cls for cls in classes}


def _name_of(cls: type[Movement]) -> str:
    is_own = cls.__module__.startswith("qdialect.algebra.")
    return cls.__name__ if is_own else f"{cls.__module__}.{cls.__qualname__}"
