"""
The quantization settings of a model and of its layers, and ONE's configuration file of them.

The file is JSON, in which layers are named by keys of values. See `docs/whole_models.md` for the
format, and https://github.com/Samsung/ONE, `circle-quantizer --config`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar, cast

from qdialect.algebra.parameters import StorageFormat
from qdialect.ptq.schemes.presets import (
    I8,
    I16,
    U8,
    canonical_name,
    luci,
    scheme_of,
    system_of,
    torch_per_tensor_affine,
)
from qdialect.ptq.schemes.schemes import (
    BIAS_RULES,
    Otherwise,
    Scheme,
    ValueArithmetic,
    WeightGranularity,
    WeightPolicy,
)
from qdialect.support.files import line_and_column, offset_in_json, read_text


class SettingError(ValueError):
    """A setting that is invalid, or does not fit the module."""

    def __init__(self, message: str, *path: str | int) -> None:
        """`path` has the names and the positions on the way to the setting in its file."""
        super().__init__(message)
        self.path = path


I32: Final = StorageFormat(32, signed=True)
I64: Final = StorageFormat(64, signed=True)


@dataclass(frozen=True)
class Precision:
    """The schemes of one layer."""

    name: str
    activations: Scheme
    weights: WeightPolicy
    bias: ValueArithmetic
    bias_storage: StorageFormat = I32
    shares_pools: bool = True
    """Whether the result of a max pool has the parameters of the operand, not of its own range."""

    def with_granularity(self, granularity: WeightGranularity) -> Precision:
        """The same schemes, with weights of another granularity."""
        return replace(self, weights=replace(self.weights, granularity=granularity))


def precision_of(name: str) -> Precision:
    """The precision of a system or a scheme, by its name. Raises ValueError for other names."""
    system = system_of(name)
    return Precision(
        canonical_name(name),
        scheme_of(system.activations, system.storage),
        WeightPolicy(scheme_of(system.weights, system.storage)),
        BIAS_RULES["one" if system.activations == "one" else "tico"],
        I64 if system.storage == I16 else I32,
        shares_pools=system.activations != "one",
    )


def granularity_of(word: str) -> WeightGranularity:
    """The granularity of that name; `layer` is ONE's name for `tensor`. Raises ValueError."""
    word = "tensor" if word == "layer" else word
    if word not in tuple(WeightGranularity):
        words = ", ".join(("layer", *WeightGranularity))
        raise ValueError(f"granularity must be one of {words}, not '{word}'")
    return WeightGranularity(word)


def storage_named(word: str) -> StorageFormat:
    """The storage of that name, such as `i8` or `u4`. Raises ValueError."""
    match = re.fullmatch("([iu])([0-9]{1,2})", word)
    if match is None:
        raise ValueError(f"storage must be a type such as i8 or u4, not '{word}'")
    return StorageFormat(int(match[2]), signed=match[1] == "i")


def weight_policy(
    scheme: Scheme, granularity: str, block_size: int, otherwise: str
) -> WeightPolicy:
    """The policy of these option values. Raises ValueError if one is invalid."""
    if block_size < 1:
        raise ValueError(f"block-size must be positive, not {block_size}")
    if otherwise not in tuple(Otherwise):
        raise ValueError(f"otherwise must be one of {', '.join(Otherwise)}, not '{otherwise}'")
    return WeightPolicy(scheme, granularity_of(granularity), block_size, Otherwise(otherwise))


_DECLARED: Final[Mapping[str, Callable[[], Scheme]]] = {
    "u8": lambda: luci(U8),
    "uint8": lambda: luci(U8),
    "i8": lambda: torch_per_tensor_affine(I8),
    "int8": lambda: torch_per_tensor_affine(I8),
    "i16": lambda: luci(I16),
    "int16": lambda: luci(I16),
}
_FLOAT_WORDS: Final = ("f32", "float32")


def check_precision(precision: Precision) -> None:
    """Raise ValueError if the system that a precision is named after does not support it."""
    weights = precision.weights
    if weights.scheme == luci(I16) and weights.granularity is WeightGranularity.TENSOR:
        raise ValueError(
            f"scheme {precision.name} has no granularity=layer: ONE's 16-bit kernels read a scale "
            "for each channel; use granularity=channel"
        )


def declared_scheme(word: str) -> Scheme | None:
    """
    The scheme of function arguments or results, by a name such as `u8`; None for floats.

    Raises ValueError for an unknown name.
    """
    if word in _FLOAT_WORDS:
        return None
    if (scheme := _DECLARED.get(word)) is None:
        raise ValueError(f"'{word}' is not one of {', '.join((*_FLOAT_WORDS, *_DECLARED))}")
    return scheme()


@dataclass(frozen=True)
class Settings:
    """The settings of the quantization of a module."""

    default: Precision
    layers: Mapping[str, Precision] = field(default_factory=dict[str, Precision])
    """Precisions other than the default, by the key of a layer's result."""
    parameters: Mapping[str, tuple[float, int]] = field(
        default_factory=dict[str, tuple[float, int]]
    )
    """By key: the scale and zero point of a value, which override its range."""
    copies: Mapping[str, str] = field(default_factory=dict[str, str])
    """By key: the key of the value whose parameters are copied."""
    input_types: tuple[str, ...] = ()
    """The types of the arguments of functions: one for all, or one for each; none if floats."""
    output_types: tuple[str, ...] = ()


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
    def _of(cls, contents: object) -> Configuration:
        members = _object(contents, "the file", (), _FIELDS)
        layers = members.get("layers", [])
        if not isinstance(layers, list):
            raise SettingError("'layers' must be an array", "layers")
        parameters = _object(members.get("parameters", {}), "'parameters'", ("parameters",))
        copies = _object(members.get("copies", {}), "'copies'", ("copies",))
        for name in copies:
            if name in parameters:
                raise SettingError(f"'{name}' is in 'parameters' and in 'copies'", "copies", name)
        return cls(
            _word(members, "default_quantization_dtype", ()),
            _word(members, "default_granularity", ()),
            tuple(_layer(item, number) for number, item in enumerate(cast("list[object]", layers))),
            {name: _slot(item, name) for name, item in parameters.items()},
            {
                name: _string(item, f"'copies' of '{name}'", ("copies", name))
                for name, item in copies.items()
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
        own = _in_file(granularity_of, self.granularity, name)
        if granularity is not None and granularity_of(granularity) is not own:
            message = _contradiction(name, self.granularity, "granularity", granularity)
            raise SettingError(message, name)
        return own

    def of_layers(self, keys: Collection[str], default: Precision) -> Mapping[str, Precision]:
        """
        The precision of each named layer.

        Raises SettingError for unknown names, and for copies of copies that have no end.
        """
        precisions = dict[str, Precision]()
        for number, layer in enumerate(self.layers):
            path = "layers", number
            try:
                precision = _precision(layer, default)
            except ValueError as error:
                raise SettingError(f"layer '{layer.names[0]}': {error}", *path) from None
            for name in _matching(layer, keys, path):
                if name in precisions:
                    raise SettingError(f"layer '{name}' is named twice", *path)
                precisions[name] = precision
        pairs = [("parameters", name, name) for name in self.parameters]
        pairs += [
            ("copies", name, named)
            for name, origin in self.copies.items()
            for named in (name, origin)
        ]
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
        return precisions


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


def _layer(contents: object, number: int) -> LayerSetting:
    what, path = f"layer {number}", ("layers", number)
    members = _object(contents, what, path, _OF_LAYER)
    if ("name" in members) == ("names" in members):
        raise SettingError(f"{what} must have either 'name' or 'names'", *path)
    names = (
        (_string(members["name"], f"'name' of {what}", (*path, "name")),)
        if "name" in members
        else _strings(members["names"], f"'names' of {what}", (*path, "names"))
    )
    inner = *path, "alternate"
    alternates = _object(members.get("alternate", {}), f"'alternate' of {what}", inner)
    return LayerSetting(
        names,
        tuple(
            _strings(words, f"'{name}' of {what}", (*inner, name))
            for name, words in alternates.items()
        ),
        _word(members, "dtype", path),
        _word(members, "granularity", path),
    )


def _object(
    contents: object, what: str, path: Path, fields: Sequence[str] | None = None
) -> dict[str, Any]:
    if not isinstance(contents, dict):
        raise SettingError(f"{what} must be an object", *path)
    members = cast("dict[str, Any]", contents)
    if isinstance(members, _Object) and members.repeated:
        raise SettingError(f"'{members.repeated[0]}' is given twice", *path, members.repeated[0])
    if fields is not None and (unknown := [name for name in members if name not in fields]):
        message = f"{what} has no '{unknown[0]}'; the fields are {', '.join(fields)}"
        raise SettingError(message, *path, unknown[0])
    return members


def _word(members: Mapping[str, object], name: str, path: Path) -> str | None:
    return None if name not in members else _string(members[name], f"'{name}'", (*path, name))


def _string(contents: object, what: str, path: Path) -> str:
    if not isinstance(contents, str):
        raise SettingError(f"{what} must be a string", *path)
    return contents


def _strings(contents: object, what: str, path: Path) -> tuple[str, ...]:
    if not isinstance(contents, list) or not contents:
        raise SettingError(f"{what} must be an array of strings", *path)
    return tuple(
        _string(item, f"an element of {what}", (*path, at))
        for at, item in enumerate(cast("list[object]", contents))
    )


def _slot(contents: object, name: str) -> tuple[float, int]:
    path = "parameters", name
    members = _object(contents, f"'parameters' of '{name}'", path, ("scale", "zero_point"))
    scale, zero_point = members.get("scale"), members.get("zero_point", 0)
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise SettingError(f"'scale' of '{name}' must be a number", *path, "scale")
    if isinstance(zero_point, bool) or not isinstance(zero_point, int):
        raise SettingError(f"'zero_point' of '{name}' must be an integer", *path, "zero_point")
    try:
        return float(scale), zero_point
    except OverflowError:
        raise SettingError(f"'scale' of '{name}' is too large", *path, "scale") from None
