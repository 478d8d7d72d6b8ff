"""
ONE's configuration of mixed precision: JSON, in which layers are named.

The names are keys of values. See `docs/whole_models.md` for the format, and
https://github.com/Samsung/ONE, `circle-quantizer --config`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar, cast

from qdialect.ptq.assignment.precision import (
    Precision,
    SettingError,
    check_precision,
    granularity_of,
    precision_of,
)
from qdialect.support.files import (
    line_and_column,
    offset_in_json,
    read_text,
)

_FIELDS: Final = (
    "default_quantization_dtype",
    "default_granularity",
    "layers",
    "parameters",
    "copies",
)
_OF_LAYER: Final = ("name", "names", "dtype", "granularity", "alternate")


Path: TypeAlias = tuple[str | int, ...]
"""The names and positions on the way to a setting in the file."""


@dataclass(frozen=True)
class LayerSetting:
    """The precision of some layers."""

    names: tuple[str, ...]
    alternates: tuple[tuple[str, ...], ...]
    """Lists of other names for the layers; exactly one list applies."""
    dtype: str | None
    granularity: str | None

    def has_name(self, name: str) -> bool:
        """Whether a name is in one of the lists."""
        return any(name in names for names in (self.names, *self.alternates))


@dataclass(frozen=True)
class Configuration:
    """The contents of a configuration file."""

    dtype: str | None = None
    granularity: str | None = None
    layers: tuple[LayerSetting, ...] = ()
    parameters: Mapping[str, tuple[float, int]] = field(
        default_factory=dict[str, tuple[float, int]]
    )
    copies: Mapping[str, str] = field(default_factory=dict[str, str])
    file: str = ""
    """The name of the file; empty without one."""
    text: str = ""
    """The text of the file."""

    @classmethod
    def read(cls, path: str) -> Configuration:
        """
        Read a file.

        Raises OSError if the file cannot be opened, and ValueError if its contents are invalid. The
        message has the file, the line and the column. A byte order mark is skipped.
        """
        text = read_text(path, "write it in UTF-8").removeprefix("\ufeff")
        file = cls(file=path, text=text)
        try:
            return replace(
                cls._of(json.loads(text, object_pairs_hook=_Object)), file=path, text=text
            )
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}:{error.lineno}:{error.colno}: {error.msg}") from None
        except SettingError as error:
            raise file.located(error) from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: {error}") from None

    def located(self, error: SettingError) -> ValueError:
        """An error about a setting, with the file, the line and the column of the setting."""
        if not self.file:
            return error
        match error.path:
            case ("layers", str(key)):
                named = (at for at, layer in enumerate(self.layers) if layer.has_name(key))
                path = "layers", next(named, key)
            case path:
                pass
        line, column = line_and_column(self.text, offset_in_json(self.text, path))
        return ValueError(f"{self.file}:{line}:{column}: {error}")

    @classmethod
    def _of(cls, held: object) -> Configuration:
        found = _object(held, "the file", (), _FIELDS)
        layers = found.get("layers", [])
        if not isinstance(layers, list):
            raise SettingError("'layers' must be an array", "layers")
        parameters = _object(found.get("parameters", {}), "'parameters'", ("parameters",))
        copies = _object(found.get("copies", {}), "'copies'", ("copies",))
        for name in copies:
            if name in parameters:
                raise SettingError(f"'{name}' is in 'parameters' and in 'copies'", "copies", name)
        return cls(
            _word(found, "default_quantization_dtype", ()),
            _word(found, "default_granularity", ()),
            tuple(_layer(each, number) for number, each in enumerate(cast("list[object]", layers))),
            {name: _slot(each, name) for name, each in parameters.items()},
            {
                name: _string(each, f"'copies' of '{name}'", ("copies", name))
                for name, each in copies.items()
            },
        )

    def default_precision(self, scheme: str | None) -> Precision:
        """
        The precision of layers that are not named, where the option `scheme` may be given.

        Raises SettingError if the option contradicts the file.
        """
        if self.dtype is None:
            return precision_of(scheme or "one-u8")
        name = "default_quantization_dtype"
        precision = _in_file(precision_of, self.dtype, name)
        if scheme is not None and precision_of(scheme).name != precision.name:
            raise SettingError(_contradiction(name, self.dtype, "scheme", scheme), name)
        return precision

    def granularity_of_weights(self, granularity: str | None) -> str:
        """The granularity of weights by default, as for `default_precision`."""
        if self.granularity is None:
            return granularity or "channel"
        name = "default_granularity"
        found = _in_file(granularity_of, self.granularity, name)
        if granularity is not None and granularity_of(granularity) is not found:
            message = _contradiction(name, self.granularity, "granularity", granularity)
            raise SettingError(message, name)
        return found

    def of_layers(self, keys: Collection[str], default: Precision) -> Mapping[str, Precision]:
        """
        The precision of each named layer.

        Raises SettingError for unknown names, and for copies of copies that have no end.
        """
        found = dict[str, Precision]()
        for number, layer in enumerate(self.layers):
            path = "layers", number
            try:
                precision = _precision(layer, default)
            except ValueError as error:
                raise SettingError(f"layer '{layer.names[0]}': {error}", *path) from None
            for name in _matching(layer, keys, path):
                if name in found:
                    raise SettingError(f"layer '{name}' is named twice", *path)
                found[name] = precision
        pairs = [("parameters", name, name) for name in self.parameters]
        pairs += [("copies", name, each) for name, of in self.copies.items() for each in (name, of)]
        for where, name, key in pairs:
            if key not in keys:
                raise SettingError(f"no value has the key '{key}'", where, name)
        done = set[str]()
        for name in self.copies:
            chain = dict[str, None]()
            while name in self.copies and name not in done:
                if name in chain:
                    words = "' from '".join([*list(chain)[list(chain).index(name) :], name])
                    message = f"'copies' are a circle: '{words}'"
                    raise SettingError(message, "copies", name)
                chain[name] = None
                name = self.copies[name]
            done |= chain.keys()
        return found


def _in_file(read: Callable[[str], _Read], word: str, name: str) -> _Read:
    """The setting that a word stands for. Raises SettingError for an unknown word."""
    try:
        return read(word)
    except ValueError as error:
        raise SettingError(str(error), name) from None


_Read = TypeVar("_Read")


def _contradiction(name: str, word: str, option: str, other: str) -> str:
    return f"'{name}' is '{word}', and the option {option} is '{other}': leave one of them out"


def _precision(layer: LayerSetting, default: Precision) -> Precision:
    """The precision of a layer. Raises ValueError for unknown words."""
    precision = default if layer.dtype is None else precision_of(layer.dtype)
    granularity = (
        default.weights.granularity
        if layer.granularity is None
        else granularity_of(layer.granularity)
    )
    weights = replace(default.weights, scheme=precision.weights.scheme)
    weights = replace(weights, granularity=granularity)
    precision = replace(precision, weights=weights, shares_pools=default.shares_pools)
    check_precision(precision)
    return precision


class _Object(dict[str, Any]):
    """An object of JSON."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen = set[str]()
        self.repeated = [name for name, _ in pairs if name in seen or seen.add(name)]
        """The names that several members have."""


def _matching(layer: LayerSetting, keys: Collection[str], path: Path) -> Sequence[str]:
    """
    The list of names whose names are all keys. Raises SettingError unless there is exactly one.
    """
    lists = (layer.names, *layer.alternates)
    matching = [names for names in lists if all(name in keys for name in names)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        lists = list(map(list, matching))
        raise SettingError(f"several lists of names match the module: {lists}", *path)
    missing = [name for name in layer.names if name not in keys]
    raise SettingError(f"no value has the key '{missing[0]}'", *path)


def _layer(held: object, number: int) -> LayerSetting:
    what, path = f"layer {number}", ("layers", number)
    found = _object(held, what, path, _OF_LAYER)
    if ("name" in found) == ("names" in found):
        raise SettingError(f"{what} must have either 'name' or 'names'", *path)
    names = (
        (_string(found["name"], f"'name' of {what}", (*path, "name")),)
        if "name" in found
        else _strings(found["names"], f"'names' of {what}", (*path, "names"))
    )
    inner = *path, "alternate"
    alternates = _object(found.get("alternate", {}), f"'alternate' of {what}", inner)
    return LayerSetting(
        names,
        tuple(
            _strings(each, f"'{name}' of {what}", (*inner, name))
            for name, each in alternates.items()
        ),
        _word(found, "dtype", path),
        _word(found, "granularity", path),
    )


def _object(
    held: object, what: str, path: Path, fields: Sequence[str] | None = None
) -> dict[str, Any]:
    if not isinstance(held, dict):
        raise SettingError(f"{what} must be an object", *path)
    found = cast("dict[str, Any]", held)
    if isinstance(found, _Object) and found.repeated:
        raise SettingError(f"'{found.repeated[0]}' is given twice", *path, found.repeated[0])
    if fields is not None and (unknown := [name for name in found if name not in fields]):
        message = f"{what} has no '{unknown[0]}'; the fields are {', '.join(fields)}"
        raise SettingError(message, *path, unknown[0])
    return found


def _word(found: Mapping[str, object], name: str, path: Path) -> str | None:
    return None if name not in found else _string(found[name], f"'{name}'", (*path, name))


def _string(held: object, what: str, path: Path) -> str:
    if not isinstance(held, str):
        raise SettingError(f"{what} must be a string", *path)
    return held


def _strings(held: object, what: str, path: Path) -> tuple[str, ...]:
    if not isinstance(held, list) or not held:
        raise SettingError(f"{what} must be an array of strings", *path)
    return tuple(
        _string(each, f"an element of {what}", (*path, at))
        for at, each in enumerate(cast("list[object]", held))
    )


def _slot(held: object, name: str) -> tuple[float, int]:
    path = "parameters", name
    found = _object(held, f"'parameters' of '{name}'", path, ("scale", "zero_point"))
    scale, zero_point = found.get("scale"), found.get("zero_point", 0)
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise SettingError(f"'scale' of '{name}' must be a number", *path, "scale")
    if isinstance(zero_point, bool) or not isinstance(zero_point, int):
        raise SettingError(f"'zero_point' of '{name}' must be an integer", *path, "zero_point")
    try:
        return float(scale), zero_point
    except OverflowError:
        raise SettingError(f"'scale' of '{name}' is too large", *path, "scale") from None
