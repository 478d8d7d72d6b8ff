"""The quantization settings of a layer, and of a module."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from qdialect.algebra.parameters import StorageFormat
from qdialect.ptq.schemes.biases import BIAS_RULES
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
from qdialect.ptq.schemes.schemes import Scheme, ValueArithmetic
from qdialect.ptq.weights import Otherwise, WeightGranularity, WeightPolicy


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
    found = re.fullmatch("([iu])([0-9]{1,2})", word)
    if found is None:
        raise ValueError(f"storage must be a type such as i8 or u4, not '{word}'")
    return StorageFormat(int(found[2]), signed=found[1] == "i")


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
    if (found := _DECLARED.get(word)) is None:
        raise ValueError(f"'{word}' is not one of {', '.join((*_FLOAT_WORDS, *_DECLARED))}")
    return found()


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
