"""
ONE's configuration of mixed precision: JSON, in which layers are named.

The names are keys of values. See `docs/whole_models.md` for the format, and
https://github.com/Samsung/ONE, `circle-quantizer --config`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from qdialect.post_training.assignment.precision import (
    Precision,
    check_precision,
    granularity_of,
    precision_of,
)
from qdialect.quantization.file_errors import read_text

_FIELDS: Final = (
    "default_quantization_dtype",
    "default_granularity",
    "layers",
    "parameters",
    "copies",
)
_OF_LAYER: Final = ("name", "names", "dtype", "granularity", "alternate")


@dataclass(frozen=True)
class LayerSetting:
    """The precision of some layers."""

    names: tuple[str, ...]
    alternates: tuple[tuple[str, ...], ...]
    """Lists of other names for the layers; exactly one list applies."""
    dtype: str | None
    granularity: str | None


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

    @classmethod
    def read(cls, path: str) -> Configuration:
        """
        Read a file.

        Raises OSError if the file cannot be opened, and ValueError if its contents are invalid. The
        message has the file, and the line and column if known. A byte order mark is skipped.
        """
        text = read_text(path, "write it in UTF-8").removeprefix("\ufeff")
        try:
            return cls._of(json.loads(text, object_pairs_hook=_without_repetition))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}:{error.lineno}:{error.colno}: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def _of(cls, held: object) -> Configuration:
        found = _object(held, "the file", _FIELDS)
        layers = found.get("layers", [])
        if not isinstance(layers, list):
            raise ValueError("'layers' must be an array")
        parameters = _object(found.get("parameters", {}), "'parameters'")
        copies = _object(found.get("copies", {}), "'copies'")
        return cls(
            _word(found, "default_quantization_dtype"),
            _word(found, "default_granularity"),
            tuple(_layer(each, number) for number, each in enumerate(cast("list[object]", layers))),
            {name: _slot(each, name) for name, each in parameters.items()},
            {name: _string(each, f"'copies' of '{name}'") for name, each in copies.items()},
        )

    def of_layers(self, keys: Collection[str], default: Precision) -> Mapping[str, Precision]:
        """The precision of each named layer. Raises ValueError for unknown names."""
        found = dict[str, Precision]()
        for layer in self.layers:
            try:
                precision = _precision(layer, default)
            except ValueError as error:
                raise ValueError(f"layer '{layer.names[0]}': {error}") from None
            for name in _matching(layer, keys):
                if name in found:
                    raise ValueError(f"layer '{name}' is named twice")
                found[name] = precision
        for name in (*self.parameters, *self.copies, *self.copies.values()):
            if name not in keys:
                raise ValueError(f"no value has the key '{name}'")
        return found


def _precision(layer: LayerSetting, default: Precision) -> Precision:
    """The precision of a layer. Raises ValueError for unknown words."""
    precision = default if layer.dtype is None else precision_of(layer.dtype)
    granularity = (
        default.weights.granularity
        if layer.granularity is None
        else granularity_of(layer.granularity)
    )
    weights = replace(default.weights, scheme=precision.weights.scheme)
    precision = replace(precision, weights=replace(weights, granularity=granularity))
    check_precision(precision)
    return precision


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict[str, Any]()
    for name, held in pairs:
        if name in found:
            raise ValueError(f"'{name}' is given twice")
        found[name] = held
    return found


def _matching(layer: LayerSetting, keys: Collection[str]) -> Sequence[str]:
    """The list of names whose names are all keys. Raises ValueError unless there is exactly one."""
    lists = (layer.names, *layer.alternates)
    matching = [names for names in lists if all(name in keys for name in names)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise ValueError(f"several lists of names match the module: {list(map(list, matching))}")
    missing = [name for name in layer.names if name not in keys]
    raise ValueError(f"no value has the key '{missing[0]}'")


def _layer(held: object, number: int) -> LayerSetting:
    what = f"layer {number}"
    found = _object(held, what, _OF_LAYER)
    if ("name" in found) == ("names" in found):
        raise ValueError(f"{what} must have either 'name' or 'names'")
    names = (
        (_string(found["name"], f"'name' of {what}"),)
        if "name" in found
        else _strings(found["names"], f"'names' of {what}")
    )
    alternates = _object(found.get("alternate", {}), f"'alternate' of {what}")
    return LayerSetting(
        names,
        tuple(_strings(each, f"'{name}' of {what}") for name, each in alternates.items()),
        _word(found, "dtype"),
        _word(found, "granularity"),
    )


def _object(held: object, what: str, fields: Sequence[str] | None = None) -> dict[str, Any]:
    if not isinstance(held, dict):
        raise ValueError(f"{what} must be an object")
    found = cast("dict[str, Any]", held)
    if fields is not None and (unknown := [name for name in found if name not in fields]):
        raise ValueError(f"{what} has no '{unknown[0]}'; the fields are {', '.join(fields)}")
    return found


def _word(found: Mapping[str, object], name: str) -> str | None:
    return None if name not in found else _string(found[name], f"'{name}'")


def _string(held: object, what: str) -> str:
    if not isinstance(held, str):
        raise ValueError(f"{what} must be a string")
    return held


def _strings(held: object, what: str) -> tuple[str, ...]:
    def strings() -> Iterator[str]:
        if not isinstance(held, list) or not held:
            raise ValueError(f"{what} must be an array of strings")
        for each in cast("list[object]", held):
            yield _string(each, f"an element of {what}")

    return tuple(strings())


def _slot(held: object, name: str) -> tuple[float, int]:
    found = _object(held, f"'parameters' of '{name}'", ("scale", "zero_point"))
    scale, zero_point = found.get("scale"), found.get("zero_point", 0)
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise ValueError(f"'scale' of '{name}' must be a number")
    if isinstance(zero_point, bool) or not isinstance(zero_point, int):
        raise ValueError(f"'zero_point' of '{name}' must be an integer")
    try:
        return float(scale), zero_point
    except OverflowError:
        raise ValueError(f"'scale' of '{name}' is too large") from None
