"""
The quantization settings of a model and of its layers, and ONE's configuration file of them.

The file is JSON, in which layers are named by keys of values. See `docs/whole_models.md` for the
format, and https://github.com/Samsung/ONE, `circle-quantizer --config`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import partial
from typing import Final, TypeVar

from qdialect.algebra.parameters import StorageFormat
from qdialect.ptq.schemes.presets import (
    FORMATS,
    I8,
    I16,
    U8,
    canonical_name,
    luci,
    scheme_of,
    scheme_of_format,
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
from qdialect.support.files import JsonError, JsonPath, JsonValue, line_and_column, read_text


class SettingError(JsonError):
    """A setting that is invalid, or does not fit the module."""

    def __init__(self, message: str, *path: str | int) -> None:
        """`path` has the names and the positions on the way to the setting in its file."""
        super().__init__(message, path)


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


BLOCK_SIZE: Final = 32
"""The length of a block by default."""


def policy_of_weights(
    name: str,
    storage: str | None,
    exponent: str | None,
    granularity: str | None,
    block_size: int | None,
    otherwise: str,
) -> WeightPolicy:
    """
    The policy of these options, by the name of a scheme, a system or a format.

    What is None is that of the format. Raises ValueError if an option is invalid.
    """
    format = FORMATS.get(name)
    if format is not None:
        scheme = scheme_of_format(name, storage, exponent)
    elif exponent is not None:
        raise ValueError(f"scheme '{name}' has no rule of exponents")
    else:
        scheme = scheme_of(name, None if storage is None else storage_named(storage))
    block = None if format is None else format.block
    granularity = granularity or ("channel" if block is None else "block")
    size = block_size if block_size is not None else block or BLOCK_SIZE
    return weight_policy(scheme, granularity, size, otherwise)


_DECLARED: Final[Mapping[str, Callable[[], Scheme]]] = {
    **dict.fromkeys(("u8", "uint8"), partial(luci, U8)),
    **dict.fromkeys(("i8", "int8"), partial(torch_per_tensor_affine, I8)),
    **dict.fromkeys(("i16", "int16"), partial(luci, I16)),
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
    layers: Mapping[str, Precision | None] = field(default_factory=dict[str, "Precision | None"])
    """Precisions other than the default, by the key of a layer's result; None for floats."""
    by_pattern: Collection[str] = ()
    """The keys among these that patterns match: they need not be of layers."""
    parameters: Mapping[str, tuple[float, int]] = field(
        default_factory=dict[str, tuple[float, int]]
    )
    """By key: the scale and zero point of a value, which override its range."""
    copies: Mapping[str, str] = field(default_factory=dict[str, str])
    """By key: the key of the value whose parameters are copied."""
    input_types: tuple[str, ...] = ()
    """The types of the arguments of functions: one for all, or one for each; none if floats."""
    output_types: tuple[str, ...] = ()
    only_layers: bool = False
    """Whether only sums of products are quantized, not what is between them."""
    narrows_fixed: bool = False
    """Whether a known range gives way to a recorded one that is less than half of it."""


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
            return replace(cls._of(JsonValue.parse(text)), file=path, text=text)
        except JsonError as error:
            raise file.located(error) from None

    def located(self, error: JsonError) -> ValueError:
        """An error about a setting, with the file, the line and the column of the setting."""
        if not self.file:
            return error
        match error.path:
            case ("layers", str(key)):
                named = (at for at, layer in enumerate(self.layers) if layer.has_name(key))
                path = "layers", next(named, key)
            case path:
                pass
        place = JsonError("", path, error.offset).offset_in(self.text, of_name=True)
        line, column = line_and_column(self.text, place)
        return ValueError(f"{self.file}:{line}:{column}: {error}")

    @classmethod
    def _of(cls, root: JsonValue) -> Configuration:
        members = root.members(_FIELDS, _FIELDS)
        layers = members["layers"].items() if "layers" in members else ()
        parameters, copies = (
            members[name].members() if name in members else {} for name in ("parameters", "copies")
        )
        for name, copy in copies.items():
            if name in parameters:
                raise copy.error(f"'{name}' is in 'parameters' and in 'copies'")
        dtype, granularity = _texts(members, "default_quantization_dtype", "default_granularity")
        return cls(
            dtype,
            granularity,
            tuple(map(_layer, layers)),
            {name: _slot(value) for name, value in parameters.items()},
            {name: value.of(str) for name, value in copies.items()},
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

    def of_layers(
        self, keys: Collection[str], default: Precision
    ) -> tuple[Mapping[str, Precision | None], Collection[str]]:
        """
        The precision of each named layer, None for floats; and the keys that only patterns match.

        The first pattern that matches counts.

        Raises SettingError for unknown names, and for copies of copies that have no end.
        """
        precisions = dict[str, Precision | None]()
        of_patterns = dict[str, Precision | None]()
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
            for pattern in filter(_is_pattern, layer.names):
                for name in _of_pattern(pattern, keys, path):
                    of_patterns.setdefault(name, precision)
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
        return {**of_patterns, **precisions}, of_patterns.keys() - precisions.keys()


def _in_file(read: Callable[[str], _Read], word: str, name: str) -> _Read:
    """The setting that a word stands for. Raises SettingError for an unknown word."""
    try:
        return read(word)
    except ValueError as error:
        raise SettingError(str(error), name) from None


_Read = TypeVar("_Read")


def _contradiction(name: str, word: str, option: str, other: str) -> str:
    return f"'{name}' is '{word}', and the option {option} is '{other}': leave one of them out"


def _precision(layer: LayerSetting, default: Precision) -> Precision | None:
    """The precision of a layer; None for floats. Raises ValueError for unknown words."""
    if layer.dtype in _FLOAT_WORDS:
        return None
    precision = default if layer.dtype is None else precision_of(layer.dtype)
    granularity = (
        default.weights.granularity
        if layer.granularity is None
        else granularity_of(layer.granularity)
    )
    weights = replace(default.weights, scheme=precision.weights.scheme, granularity=granularity)
    precision = replace(precision, weights=weights, shares_pools=default.shares_pools)
    check_precision(precision)
    return precision


def _is_pattern(name: str) -> bool:
    """Whether a name stands for several: with `*`, `?` or `[...]`, or an expression in `/.../`."""
    return bool(re.search(r"[*?\[]", name)) or _is_expression(name)


def _is_expression(name: str) -> bool:
    return len(name) > 2 and name[0] == name[-1] == "/"


def _of_pattern(pattern: str, keys: Collection[str], path: JsonPath) -> Sequence[str]:
    """The keys that a pattern matches as a whole. Raises SettingError if there is none."""
    text = pattern[1:-1] if _is_expression(pattern) else translate(pattern)
    try:
        expression = re.compile(text)
    except re.error as error:
        raise SettingError(f"'{pattern}' is no regular expression: {error}", *path) from None
    names = [key for key in keys if expression.fullmatch(key)]
    if not names:
        raise SettingError(f"no value has a key like '{pattern}'", *path)
    return names


def _matching(layer: LayerSetting, keys: Collection[str], path: JsonPath) -> Sequence[str]:
    """
    The list of names whose names are all keys, without patterns.

    Raises SettingError unless there is exactly one.
    """
    names = tuple(name for name in layer.names if not _is_pattern(name) or name in keys)
    if not names and layer.names:
        return ()
    lists = (names, *layer.alternates)
    matching = [names for names in lists if all(name in keys for name in names)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        lists = list(map(list, matching))
        raise SettingError(f"several lists of names match the module: {lists}", *path)
    missing = [name for name in names if name not in keys]
    raise SettingError(f"no value has the key '{missing[0]}'", *path)


def _layer(value: JsonValue) -> LayerSetting:
    members = value.members(_OF_LAYER, _OF_LAYER)
    if ("name" in members) == ("names" in members):
        raise value.error("a layer must have either 'name' or 'names'")
    names = (members["name"].of(str),) if "name" in members else _names(members["names"])
    alternates = members["alternate"].members() if "alternate" in members else {}
    dtype, granularity = _texts(members, "dtype", "granularity")
    return LayerSetting(names, tuple(map(_names, alternates.values())), dtype, granularity)


def _texts(members: Mapping[str, JsonValue], *names: str) -> list[str | None]:
    return [members[name].of(str) if name in members else None for name in names]


def _names(value: JsonValue) -> tuple[str, ...]:
    names = tuple([item.of(str) for item in value.items()])
    if not names:
        raise value.error("it must have a name")
    return names


def _slot(value: JsonValue) -> tuple[float, int]:
    members = value.members(("scale", "zero_point"), ("zero_point",))
    zero_point = members["zero_point"].of(int) if "zero_point" in members else 0
    return members["scale"].number(), zero_point
