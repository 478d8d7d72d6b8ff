"""
Schemes that reproduce those of other systems bit for bit.

- ONE: `compiler/luci/pass/src/QuantizationUtils.cpp` of https://github.com/Samsung/ONE;
- Glow: `lib/Quantization/Base/Base.cpp` of https://github.com/pytorch/glow;
- torch: `torch/ao/quantization/observer.py` of https://github.com/pytorch/pytorch;
- TFLite: `algorithms/uniform_quantize/uniform_quantize_tensor.py` of
  https://github.com/google-ai-edge/ai-edge-quantizer;
- ONNX Runtime: `onnxruntime/python/tools/quantization/quant_utils.py` of
  https://github.com/microsoft/onnxruntime.

docs/quantization.md lists where they are wrong and these differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from qdialect.algebra.parameters import StorageFormat
from qdialect.ptq.schemes.magnitudes import MagnitudeRule
from qdialect.ptq.schemes.schemes import (
    Choice,
    Rounding,
    Scheme,
    Span,
    Symmetry,
    ValueArithmetic,
    ZeroPointPlace,
    ZeroPointRule,
)
from qdialect.support.lazy_numpy import np

I8: Final = StorageFormat(8, signed=True)
U8: Final = StorageFormat(8, signed=False)
I16: Final = StorageFormat(16, signed=True)

_LUCI_GIVEN = ValueArithmetic(
    Rounding.HALF_AWAY, ZeroPointPlace.AFTER_ROUNDING, multiplies=True, precision="f8"
)
"""The arithmetic of constants that take the parameters of another value."""

_LUCI_FLOORS: Mapping[StorageFormat, float] = MappingProxyType({U8: 1e-5, I8: 1e-5, I16: 1e-8})


def luci(storage: StorageFormat) -> Scheme:
    """
    ONE's scheme: asymmetric u8; symmetric i8 and i16, without their lowest code.

    ONE uses i8 only for weights. Raises ValueError for other storage.
    """
    if (floor := _LUCI_FLOORS.get(storage)) is None:
        raise ValueError("ONE supports only the storage types u8, i8 and i16")
    low, high = storage.bounds
    return Scheme(
        storage,
        -high if storage.signed else low,
        high,
        Symmetry.SYMMETRIC if storage.signed else Symmetry.ASYMMETRIC,
        Span.LARGER_SIDE,
        ZeroPointRule.ROUNDED_DIFFERENCE,
        Rounding.HALF_AWAY,
        ValueArithmetic(
            Rounding.HALF_AWAY,
            ZeroPointPlace.AFTER_ROUNDING if storage.signed else ZeroPointPlace.AS_MINIMUM,
            multiplies=True,
        ),
        _LUCI_GIVEN,
        scale_floor=floor,
    )


_DIVIDED = ValueArithmetic(Rounding.HALF_EVEN, ZeroPointPlace.BEFORE_ROUNDING, multiplies=False)
"""The arithmetic of Glow, of TFLite, and of formats of weights."""


def _glow(storage: StorageFormat, symmetry: Symmetry, *, power_of_two: bool = False) -> Scheme:
    """Raises ValueError for unsigned storage, unless it is asymmetric."""
    return Scheme(
        storage,
        *storage.bounds,
        symmetry,
        Span.EXTENDED_RANGE,
        ZeroPointRule.NEARER_END,
        Rounding.HALF_AWAY,
        _DIVIDED,
        _DIVIDED,
        scale_of_zero=0.1,
        power_of_two=power_of_two,
    )


glow_asymmetric = partial(_glow, symmetry=Symmetry.ASYMMETRIC)
glow_symmetric = partial(_glow, symmetry=Symmetry.SYMMETRIC)
glow_symmetric_with_uint8 = partial(_glow, symmetry=Symmetry.SYMMETRIC_IF_SIGNED)
"""Glow's `SymmetricWithUnsigned`."""
glow_symmetric_with_power2_scale = partial(glow_symmetric, power_of_two=True)


_TORCH_VALUES = ValueArithmetic(Rounding.HALF_EVEN, ZeroPointPlace.BEFORE_ROUNDING, multiplies=True)
"""`torch.quantize_per_channel`; `torch.quantize_per_tensor` has a fused multiply-add."""

TORCH_EPS: Final = 2.0**-23
"""`torch.finfo(torch.float32).eps`, the least scale of torch's observers."""


def _by_magnitude(
    storage: StorageFormat,
    symmetry: Symmetry,
    rule: ZeroPointRule,
    values: ValueArithmetic,
    *,
    is_narrow: bool,
) -> Scheme:
    """
    Symmetric scales by the larger magnitude, and ties to even everywhere.

    `is_narrow` leaves out the lowest code of symmetric signed storage. The zero point is the middle
    of the codes, rounded up if there is no sign.
    """
    low, high = storage.bounds
    is_cut = is_narrow and storage.signed and symmetry is Symmetry.SYMMETRIC
    return Scheme(
        storage,
        -high if is_cut else low,
        high,
        symmetry,
        Span.MAGNITUDE,
        rule,
        Rounding.HALF_EVEN,
        values,
        values,
        symmetric_zero_point=(low + high + 1) // 2,
    )


def _torch(storage: StorageFormat, symmetry: Symmetry, *, per_tensor: bool) -> Scheme:
    """
    Those of MinMaxObserver, and of PerChannelMinMaxObserver. Raises ValueError beyond 16 bits.

    Unsigned symmetric codes have their zero point in the middle, rounded up, as in torch for its
    own types. With `quant_min` and `quant_max`, torch rounds it down: then set
    `symmetric_zero_point`.
    """
    if storage.width > 16:
        raise ValueError("torch supports storage of at most 16 bits")
    values = replace(_TORCH_VALUES, fused=per_tensor)
    rule = ZeroPointRule.ROUNDED_QUOTIENT
    scheme = _by_magnitude(storage, symmetry, rule, values, is_narrow=False)
    return replace(scheme, precision="f4", scale_floor=TORCH_EPS)


torch_per_tensor_affine = partial(_torch, symmetry=Symmetry.ASYMMETRIC, per_tensor=True)
torch_per_tensor_symmetric = partial(_torch, symmetry=Symmetry.SYMMETRIC, per_tensor=True)
torch_per_channel_affine = partial(_torch, symmetry=Symmetry.ASYMMETRIC, per_tensor=False)
torch_per_channel_symmetric = partial(_torch, symmetry=Symmetry.SYMMETRIC, per_tensor=False)

_ONNX_VALUES = ValueArithmetic(Rounding.HALF_EVEN, ZeroPointPlace.AFTER_ROUNDING, multiplies=False)
"""`QuantizeLinear`."""


def _onnxruntime(storage: StorageFormat, symmetry: Symmetry) -> Scheme:
    """
    `compute_scale_zp` of ONNX Runtime's `quant_utils.py`.

    Symmetric signed codes leave out the lowest one.
    """
    rule = ZeroPointRule.ROUNDED_DIFFERENCE
    scheme = _by_magnitude(storage, symmetry, rule, _ONNX_VALUES, is_narrow=True)
    return replace(scheme, scale_of_zero=1.0)


onnxruntime_affine = partial(_onnxruntime, symmetry=Symmetry.ASYMMETRIC)
onnxruntime_symmetric = partial(_onnxruntime, symmetry=Symmetry.SYMMETRIC)


def _tflite(storage: StorageFormat, symmetry: Symmetry) -> Scheme:
    """
    `tensor_zp_scale_from_min_max` of AI Edge Quantizer.

    Symmetric codes leave out the lowest one. Raises ValueError if these have no sign.
    """
    if symmetry is Symmetry.SYMMETRIC and not storage.signed:
        raise ValueError("TFLite's symmetric codes are signed")
    rule = ZeroPointRule.ROUNDED_DIFFERENCE
    scheme = _by_magnitude(storage, symmetry, rule, _DIVIDED, is_narrow=True)
    # The least length of a range, or the least magnitude, is 1e-9.
    steps = scheme.maximum - (0 if symmetry is Symmetry.SYMMETRIC else scheme.minimum)
    floor = float(np.float32(1e-9) / np.float32(steps))
    return replace(scheme, precision="f4", scale_floor=floor)


tflite_affine = partial(_tflite, symmetry=Symmetry.ASYMMETRIC)
tflite_symmetric = partial(_tflite, symmetry=Symmetry.SYMMETRIC)

SCHEMES: Mapping[str, Callable[[StorageFormat], Scheme]] = MappingProxyType(
    {
        "one": luci,
        "glow-asymmetric": glow_asymmetric,
        "glow-symmetric": glow_symmetric,
        "glow-symmetric-with-uint8": glow_symmetric_with_uint8,
        "glow-symmetric-with-power2-scale": glow_symmetric_with_power2_scale,
        "torch-per-tensor-affine": torch_per_tensor_affine,
        "torch-per-tensor-symmetric": torch_per_tensor_symmetric,
        "torch-per-channel-affine": torch_per_channel_affine,
        "torch-per-channel-symmetric": torch_per_channel_symmetric,
        "onnxruntime-affine": onnxruntime_affine,
        "onnxruntime-symmetric": onnxruntime_symmetric,
        "tflite-affine": tflite_affine,
        "tflite-symmetric": tflite_symmetric,
    }
)
"""By name: functions from a storage format to a scheme."""


class System(NamedTuple):
    """The schemes of a whole model: the storage, and the names of two schemes."""

    storage: StorageFormat
    activations: str
    weights: str


SYSTEMS: Mapping[str, System] = MappingProxyType(
    {
        "one-u8": System(U8, "one", "one"),
        "one-s16": System(I16, "one", "one"),
        "torch-i8": System(I8, "torch-per-tensor-affine", "torch-per-channel-symmetric"),
        "glow-i8": System(I8, "glow-asymmetric", "glow-symmetric"),
        "onnxruntime-i8": System(I8, "onnxruntime-affine", "onnxruntime-symmetric"),
        "tflite-i8": System(I8, "tflite-affine", "tflite-symmetric"),
    }
)
"""By name: schemes that belong together."""


def _by_rule(storage: StorageFormat, rule: MagnitudeRule) -> Scheme:
    """Symmetric numbers of a float format or a table, or integers without the lowest one."""
    book, (low, high) = storage.codebook, storage.bounds
    if book is None:
        low = -high
    elif book.is_float:
        high = math.ceil(book.largest)
        low = -high
    return Scheme(
        storage,
        low,
        high,
        Symmetry.SYMMETRIC,
        Span.MAGNITUDE,
        ZeroPointRule.ROUNDED_DIFFERENCE,
        Rounding.HALF_EVEN,
        _DIVIDED,
        _DIVIDED,
        magnitudes=rule,
    )


NF4: Final = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""The table of NF4 in bitsandbytes: https://arxiv.org/abs/2305.14314, appendix E."""

_FP4_MAGNITUDES = (0, 0.0625, 8, 12, 4, 6, 2, 3)
FP4: Final = tuple(sign * number / 12 + 0.0 for sign in (1, -1) for number in _FP4_MAGNITUDES)
"""The table of FP4 in bitsandbytes, whose codes are not in the order of numbers."""


class WeightFormat(NamedTuple):
    """A format of weights, with one scale for each channel or block."""

    storages: tuple[str, ...]
    """The types of storage, of which the first one is used by default."""
    rule: MagnitudeRule
    block: int | None = None
    """The elements of a block; None for formats with scales per channel."""
    has_exponents: bool = False
    """Whether another rule of exponents may be chosen."""
    table: tuple[float, ...] = ()
    """The numbers of the codes of a table."""

    def storage(self, name: str) -> StorageFormat:
        """What the codes are in one of `storages`."""
        if self.table:
            return StorageFormat.of_table(4, self.table)
        return I8 if name == "i8" else StorageFormat.of_floats(name)


_FLOOR, _QUOTIENT = MagnitudeRule.FLOOR, MagnitudeRule.QUOTIENT
_F4 = ("f4E2M1FN",)

FORMATS: Final[Mapping[str, WeightFormat]] = MappingProxyType(
    {
        "f8e4m3fn": WeightFormat(("f8E4M3FN",), _QUOTIENT),
        "f8e5m2": WeightFormat(("f8E5M2",), _QUOTIENT),
        "mxfp8": WeightFormat(("f8E4M3FN", "f8E5M2"), _FLOOR, 32, has_exponents=True),
        "mxfp6": WeightFormat(("f6E2M3FN", "f6E3M2FN"), _FLOOR, 32, has_exponents=True),
        "mxfp4": WeightFormat(_F4, _FLOOR, 32, has_exponents=True),
        "mxint8": WeightFormat(("i8",), _FLOOR, 32, has_exponents=True),
        "nvfp4": WeightFormat(_F4, MagnitudeRule.TWO_LEVELS, 16),
        "nvfp4-one-level": WeightFormat(_F4, MagnitudeRule.ROUNDED_QUOTIENT, 16),
        "nvfp4-compressed-tensors": WeightFormat(_F4, MagnitudeRule.DIVIDED_LEVELS, 16),
        "nf4": WeightFormat(("ui4",), _QUOTIENT, 64, table=NF4),
        "fp4": WeightFormat(("ui4",), _QUOTIENT, 64, table=FP4),
    }
)
"""
By name: formats of weights alone.

`f8*`: torchao's float8 tensors. `mx*`: OCP MX, as torchao writes it, with its four rules of
exponents. `nvfp4`: torchao's with two levels of scales, with one, and that of compressed-tensors.
`nf4`, `fp4`: bitsandbytes. Zero blocks have the scale of these; where that is 0, it is 1.
"""

EXPONENTS: Final = ("floor", "ceil", "even", "rceil")
"""The rules of exponents of MX."""


def scheme_of_format(name: str, storage: str | None = None, exponent: str | None = None) -> Scheme:
    """The scheme of one of `FORMATS`. Raises ValueError if it has no such storage or exponents."""
    format = FORMATS[name]
    chosen = format.storages[0] if storage is None else storage
    if chosen not in format.storages:
        raise ValueError(f"scheme '{name}' stores {' or '.join(format.storages)}, not '{chosen}'")
    rule = format.rule
    if exponent is not None:
        if not format.has_exponents:
            raise ValueError(f"scheme '{name}' has no rule of exponents")
        if exponent not in EXPONENTS:
            raise ValueError(f"exponent must be {', '.join(EXPONENTS)}, but is '{exponent}'")
        rule = MagnitudeRule(exponent)
    return _by_rule(format.storage(chosen), rule)


SCHEME_NAMES: Final = (*SYSTEMS, *SCHEMES)
"""The names that all passes take."""

_ALIASES: Mapping[str, str] = MappingProxyType(
    {"luci": "one", "uint8": "one-u8", "int16": "one-s16"}
)
"""The name of ONE's library, and the words of ONE's configuration."""


def system_of(name: str) -> System:
    """
    The system with that name, or a scheme for all of a model, in i8.

    Raises ValueError if no system and no scheme has the name.
    """
    name = canonical_name(name)
    return SYSTEMS[name] if name in SYSTEMS else System(I8, name, name)


def canonical_name(name: str) -> str:
    """The name of a system or a scheme, given it or an alias. Raises ValueError for others."""
    canonical = _ALIASES.get(name, name)
    if canonical not in SYSTEMS and canonical not in SCHEMES:
        raise ValueError(f"there is no scheme {name!r}; the schemes are {', '.join(SCHEME_NAMES)}")
    return canonical


def scheme_of(name: str, storage: StorageFormat | None = None) -> Scheme:
    """
    The scheme with that name, or that of the weights of a system, for `storage`.

    By default, the storage is the system's, or i8. Raises ValueError if there is no such scheme.
    """
    system = system_of(name)
    try:
        return SCHEMES[system.weights](storage or system.storage)
    except ValueError as error:
        raise ValueError(f"scheme {name!r}: {error}") from None


def name_of_scheme(scheme: Scheme) -> str:
    """The name of a scheme; empty if it has none."""
    for name, format in FORMATS.items():
        is_rule = scheme.magnitudes is format.rule or (
            format.has_exponents and scheme.magnitudes is not None
        )
        if is_rule and scheme.storage in map(format.storage, format.storages):
            return name
    for name, preset in SCHEMES.items():
        try:
            if preset(scheme.storage) == scheme:
                return name
        except ValueError:
            # The preset does not support this storage.
            continue
    return ""


_LUCI_PREDEFINED: Mapping[str, tuple[tuple[float, int], tuple[float, int]]] = MappingProxyType(
    {
        "logistic": ((1 / 256, 0), (1 / 32768, 0)),
        "tanh": ((2 / 256, 128), (1 / 32768, 0)),
        "softmax": ((1 / 255, 0), (1 / 32767, 0)),
    }
)


def luci_predefined(name: str, storage: StorageFormat) -> Choice:
    """
    ONE's parameters for results with a known range, from `make_predefined_qparam`.

    `name` is "logistic", "tanh" or "softmax", and storage u8 or i16. Raises ValueError for others.
    """
    if name not in _LUCI_PREDEFINED or storage not in (U8, I16):
        raise ValueError(f"ONE has no predefined parameters for {name!r} with this storage")
    scale, zero_point = _LUCI_PREDEFINED[name][storage == I16]
    return luci(storage).given(scale, zero_point)


_FIXED_RANGES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"logistic": (0, 1), "tanh": (-1, 1), "softmax": (0, 1)}
)


def fixed_choice(name: str, scheme: Scheme) -> Choice:
    """
    The parameters of results with a known range.

    `name` is "logistic", "tanh" or "softmax". ONE's schemes get ONE's parameters. For others the
    range is divided by the number of codes, as in TFLite's
    https://ai.google.dev/edge/litert/conversion/tensorflow/quantization/quantization_spec, and
    symmetric codes have both signs. Raises ValueError for other names.
    """
    if scheme == (luci(scheme.storage) if scheme.storage in (U8, I16) else None):
        return luci_predefined(name, scheme.storage)
    if name not in _FIXED_RANGES:
        raise ValueError(f"there is no known range of {name!r}")
    low, high = _FIXED_RANGES[name]
    count = 1 << scheme.storage.width
    if scheme.symmetry is Symmetry.SYMMETRIC:
        return scheme.given(2 / count, scheme.symmetric_zero_point)
    steps = (high - low) / count
    return scheme.given(steps, round(scheme.storage.bounds[0] - low / steps))


def luci_integer_scale(choice: Choice) -> Choice:
    """
    `choice` with a whole scale, as ONE's `set_int_scale` computes it for integral results.

    A scale below one becomes one; any other is rounded half away from zero. Zero points are kept.
    """
    rounded = Rounding.HALF_AWAY.round(choice.scales)
    scales = np.where(choice.scales < 1, np.ones((), "f4"), rounded)
    return choice.scheme.given(scales, choice.zero_points)


def luci_single_values(values: object, storage: StorageFormat) -> tuple[Choice, np.ndarray]:
    """
    Parameters and codes of slots that hold one value each, as ONE's `quant_const_per_channel`.

    `values` are float32; the codes have their shape. A positive value is its scale, with code 1. A
    negative value has code 0 and zero point 1 if storage is u8, or code -1 if it is i16. Zero has
    code 0 and scale 1, where ONE has scale 0. Raises ValueError for other storage, and for NaN and
    infinities.
    """
    if storage not in (U8, I16):
        raise ValueError("ONE quantizes single values only as u8 and i16")
    scheme = luci(storage)
    numbers = np.asarray(values, "f4")
    is_negative, is_zero = numbers < 0, numbers == 0
    scales = np.where(is_zero, 1, abs(numbers))
    zero_points = np.where(is_negative & (storage == U8), 1, 0)
    codes = np.where(is_zero, 0, np.where(is_negative, 0 if storage == U8 else -1, 1))
    return scheme.given(scales, zero_points), codes.astype(scheme.code_dtype)
