"""
Manifests: which tensor of which file a named constant of a module stands for.

A manifest is JSON. Hugging Face's `model.safetensors.index.json` is one, and so is a single file
of safetensors: there, constants have the names of tensors.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    Builtin,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FixedBitwidthType,
    IntegerType,
    ModuleOp,
    TensorType,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input

from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeCastOp,
    Quant,
    QuantizedTensor,
    UniformQuantizedType,
)
from qdialect.dialects.quant.storage import Storage, StoredType, element_type_of
from qdialect.dialects.stablehlo.syntax import columns_taken
from qdialect.ir.errors import OpErrors
from qdialect.ir.resources import ALIGNMENT_BYTES, Blob, BlobStorage, ResourceBlobs
from qdialect.ir.rewriting import Replacements
from qdialect.ir.value_types import element_type_or_self, tensor_parts
from qdialect.ir.xdsl_private import declare_resource
from qdialect.ops.interface import elements_attribute_of, held_elements
from qdialect.support.files import FileError, JsonError, JsonValue, read_text
from qdialect.support.float_format import FLOAT_FORMATS
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.text.attribute_parser import AttributeParser
from qdialect.weights.parameters import constants_of_arguments, constants_of_globals
from qdialect.weights.places import beside, is_url, open_place
from qdialect.weights.tensor_files import (
    DTYPES,
    TensorInFile,
    WeightsError,
    numbers_of_bits,
    read_header,
)

FORMAT: Final = "qdialect-weights"
VERSION: Final = 1

_NIBBLE: Final = 4
"""The bits of codes of which two are in a byte."""

_REMEDY = "see docs/weights.md for what a manifest is"


CODES: Final = "codes"
SCALE: Final = "scale"
ZERO_POINT: Final = "zero_point"
OFFSET: Final = "offset"
GATHER: Final = "gather"
OUTER: Final = "outer"
_PARTS: Final = (CODES, SCALE, ZERO_POINT, OFFSET, GATHER)


class QuantizedWeight(NamedTuple):
    """A tensor that others stand for: codes, scales and zero points."""

    type: str
    """
    The quantized type, with one scale of 1.

    Values with an offset are computed in its expressed type.
    """

    keys: Mapping[str, str]
    """
    The keys of the codes, of float32 scales, which divide the axes of the codes into equal blocks,
    and perhaps of zero points, of float32 offsets that are added to values, one for each scale, and
    of the places of columns, int32, among those of the codes.

    Others have the names of the layout of a checkpoint, which alone is written from them: factors
    that many scales share, and tables.
    """

    def parsed_type(self) -> UniformQuantizedType:
        """The type. Raises WeightsError for a text that is none."""
        context = Context()
        context.load_dialect(Builtin)
        context.load_dialect(Quant)
        try:
            like = AttributeParser(context, Input(self.type, "<manifest>")).parse_attribute()
        except ParseError as error:
            reason = f"'{self.type}' of the manifest is no type: {error.msg}"
            raise WeightsError(reason) from None
        if not isinstance(like, UniformQuantizedType):
            raise WeightsError(f"'{self.type}' of the manifest is no quantized type")
        return like


@dataclass(frozen=True, eq=False)
class Manifest:
    """Tensors by the keys of the constants that stand for them."""

    tensors: Mapping[str, TensorInFile]
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    """For arguments of functions, such as `@main/%arg0`, the keys of their tensors."""

    quantized: Mapping[str, QuantizedWeight] = field(default_factory=dict[str, QuantizedWeight])
    """The tensors that constants of floats stand for, where codes have their place."""

    def __getitem__(self, key: str) -> TensorInFile:
        """The tensor of a key. Raises WeightsError if there is none."""
        if (tensor := self.tensors.get(key)) is None:
            raise WeightsError(f"no file of the manifest has a tensor '{key}'")
        return tensor


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """
    The tensors of a manifest; of their files, only the headers are read.

    Raises OSError, FileError for a text that is no manifest, and WeightsError for a file that is
    not as the format says, or a name that two files have.
    """
    path = os.fspath(path)
    if path.endswith(".safetensors"):
        return Manifest(tensors_of([path]))
    if is_url(path):
        with open_place(path) as file:
            text = file.read().decode(errors="replace")
    else:
        text = read_text(path, _REMEDY)
    try:
        return _read(path, JsonValue.parse(text))
    except JsonError as error:
        raise FileError(path, text, error.offset_in(text), str(error), _REMEDY) from None


def _read(path: str, content: JsonValue) -> Manifest:
    members = content.members()
    if "weight_map" in members:
        files = {value.of(str) for value in members["weight_map"].members().values()}
        tensors = tensors_of(beside(path, name) for name in sorted(files))
        for name, value in members["weight_map"].members().items():
            if name not in tensors or tensors[name].path != beside(path, value.of(str)):
                raise value.error(f"'{value.value}' has no tensor '{name}'")
        return Manifest(tensors)
    optional = ("values", "quantized")
    members = content.members(("format", "version", "scopes", *optional), optional)
    if (members["format"].value, members["version"].value) != (FORMAT, VERSION):
        raise content.error(f"it is not of format '{FORMAT}', version {VERSION}")
    scopes = {
        scope: tensors_of(beside(path, item.of(str)) for item in value.items())
        for scope, value in members["scopes"].members().items()
    }
    tensors = dict[str, TensorInFile]()
    for scope in scopes.values():
        for name, tensor in scope.items():
            _add(tensors, name, tensor)
    quantized = dict[str, QuantizedWeight]()
    for key, value in _members(members, "quantized").items():
        own = value.members(("type", *_PARTS, OUTER), (*_PARTS[2:], OUTER))
        type, outer = own.pop("type").of(str), _members(own, OUTER)
        own.pop(OUTER, None)
        for item in (*own.values(), *outer.values()):
            if item.of(str) not in tensors:
                raise item.error(f"no file has a tensor '{item.value}'")
        keys = {name: item.of(str) for name, item in {**outer, **own}.items()}
        quantized[key] = QuantizedWeight(type, keys)
    arguments = dict[str, str]()
    for key, value in _members(members, "values").items():
        place = value.members(("scope", "key"))
        scope, name = place["scope"].of(str), place["key"].of(str)
        is_argument = key.startswith("@")
        if name not in scopes.get(scope, {}) and not (is_argument and name in quantized):
            raise value.error(f"scope '{scope}' has no tensor '{name}'")
        if is_argument:
            arguments[key] = name
        else:
            tensors[key] = scopes[scope][name]
    return Manifest(tensors, arguments, quantized)


def _members(members: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    return members[name].members() if name in members else {}


def tensors_of(paths: Iterable[str]) -> dict[str, TensorInFile]:
    """The tensors of files by name. Raises OSError, and WeightsError for a name that two have."""
    tensors = dict[str, TensorInFile]()
    for path in paths:
        for name, entry in read_header(path).items():
            _add(tensors, name, TensorInFile(path, entry))
    return tensors


def _add(tensors: dict[str, TensorInFile], name: str, tensor: TensorInFile) -> None:
    if name in tensors:
        raise WeightsError(f"{tensors[name].path} and {tensor.path} both have a tensor '{name}'")
    tensors[name] = tensor


def name_weights(
    module: ModuleOp, context: Context, manifest: Manifest, read: Sequence[str] = ()
) -> None:
    """
    Let constants whose `dense_resource` has no data stand for the tensors of a manifest.

    Globals that name such tensors become constants, and so do arguments that the manifest lists.
    Tensors that are quantized in the manifest become `quant.dcast` of constants of codes.

    Those whose key matches one of the patterns `read` get their data. Raises OpErrors for those
    whose type is not that of the tensor, and OSError and WeightsError for data that is not there.
    """
    constants_of_globals(module)
    constants_of_arguments(module, manifest.arguments)
    storage = ResourceBlobs.of(context).interface
    assert isinstance(storage, BlobStorage)
    errors = _dequantize(module, context, manifest)
    for op in module.walk():
        for attribute in (*op.properties.values(), *op.attributes.values()):
            if not isinstance(attribute, DenseResourceAttr):
                continue
            key = attribute.resource_handle.data
            if key not in manifest.tensors or storage.find(key) is not None:
                continue
            if (reason := _difference(attribute, manifest[key])) is not None:
                errors.append((op, reason))
            declare_resource(storage, key)
            if matches(key, read):
                storage.keep(key, _blob_of(tensor_of_type(manifest[key], attribute.type)))
            else:
                storage.in_files.add(key)
    if errors:
        raise OpErrors(errors)


def _dequantize(
    module: ModuleOp, context: Context, manifest: Manifest
) -> list[tuple[Operation, str]]:
    """
    Replace constants of floats that are quantized in the manifest; returns the errors.

    Raises OSError and WeightsError for scales that are not there.
    """
    replaced, errors = Replacements(), list[tuple[Operation, str]]()
    types = dict[tuple[str, Attribute], Sequence[QuantizedTensor] | str]()
    for op in list(module.walk()):
        attribute = held_elements(op) if elements_attribute_of(op) is not None else None
        if not isinstance(attribute, DenseResourceAttr):
            continue
        key, type = attribute.resource_handle.data, op.results[0].type
        if (weight := manifest.quantized.get(key)) is None or not isinstance(type, TensorType):
            continue
        if (key, type) not in types:
            types[key, type] = _quantized_type(weight, cast(TensorType[Attribute], type), manifest)
        if isinstance(quantized := types[key, type], str):
            errors.append((op, f"'{key}' is of type '{type}', but {quantized}"))
            continue
        ops = _values_of(weight, quantized, cast(TensorType[AnyFloat], type), manifest)
        for new in ops:
            new.results[0].name_hint = op.results[0].name_hint
        replaced.put(op, ops)
    replaced.apply()
    return errors


def _values_of(
    weight: QuantizedWeight,
    types: Sequence[QuantizedTensor],
    type: TensorType[AnyFloat],
    manifest: Manifest,
) -> list[Operation]:
    """Ops whose last result is the floats of `type` that a weight stands for."""
    ops, values = list[Operation](), list[SSAValue]()
    for number, quantized in enumerate(types):
        codes = TensorType(element_type_of(quantized.element_type), type.get_shape())
        elements = (
            DenseIntOrFPElementsAttr.from_list(cast(TensorType[IntegerType], codes), [1])
            if number
            else DenseResourceAttr.from_params(weight.keys[CODES], codes)
        )
        constant = ConstantOp(elements, quantized)
        floats = TensorType(quantized.element_type.expressed_type, type.get_shape())
        ops += [constant, DequantizeCastOp(constant, floats)]
        values.append(ops[-1].results[0])
    if len(values) > 1:
        ops.append(arith.AddfOp(values[0], values[1]))
    floats = cast(TensorType[AnyFloat], ops[-1].results[0].type)
    if floats != type:
        widths = floats.element_type.bitwidth, type.element_type.bitwidth
        cast_op = arith.TruncFOp if widths[0] > widths[1] else arith.ExtFOp
        ops.append(cast_op(ops[-1].results[0], type))
    if (gather := weight.keys.get(GATHER)) is not None:
        places = TensorType(i32, manifest[gather].entry.shape)
        ops.append(arith.ConstantOp(DenseResourceAttr.from_params(gather, places)))
        ops.append(columns_taken(*(op.results[0] for op in ops[-2:])))
    return ops


def _quantized_type(
    weight: QuantizedWeight, type: TensorType[Attribute], manifest: Manifest
) -> Sequence[QuantizedTensor] | str:
    """
    The type of a constant of codes in the place of floats of `type`, or why there is none.

    Where these floats do not hold the scales, the codes are of f32, and rounded afterwards. There
    is a second type if there are offsets: that of a constant of ones.
    """
    shape, expressed = type.get_shape(), type.get_element_type()
    try:
        like = weight.parsed_type()
    except WeightsError as error:
        return str(error)
    if not isinstance(expressed, AnyFloat):
        return f"tensor '{weight.keys[CODES]}' has codes of floats of type '{weight.type}'"
    scale = weight.keys[SCALE]
    zero, offset, gather = map(weight.keys.get, (ZERO_POINT, OFFSET, GATHER))
    scales = _numbers_of(manifest[scale], ("F32",))
    zeros = np.zeros(scales.shape, np.int64)
    if zero is not None:
        zeros = _numbers_of(manifest[zero], ("I8", "U8", "I16", "U16")).astype(np.int64)
    parts = [(scale, like.storage, scales, zeros)]
    if offset is not None:
        expressed = like.expressed_type
        offsets = _numbers_of(manifest[offset], ("F32",))
        # Ones less 0, 1 or 2, as scales have no sign.
        signs = (1 - np.sign(offsets)).astype(np.int64)
        magnitudes = np.where(offsets == 0, np.float32(1), abs(offsets))
        parts.append((offset, Storage.of(i8, signed=True), magnitudes, signs))
    if any(
        not np.array_equal(FLOAT_FORMATS[expressed.name].round(own.astype("f8")), own)
        for _, _, own, _ in parts
    ):
        expressed = f32
    types = list[QuantizedTensor]()
    for key, storage, own, own_zeros in parts:
        try:
            element = UniformQuantizedType.of_blocks(storage, expressed, own, own_zeros, shape)
        except (ValueError, VerifyException) as error:
            return f"tensor '{key}' has no scales for it: {error}"
        types.append(TensorType(element, shape))
    if gather is not None and manifest[gather].entry.shape != shape[-1:]:
        return f"tensor '{gather}' has no place for each column"
    return types


def _numbers_of(tensor: TensorInFile, dtypes: Sequence[str]) -> NDArray[Any]:
    """The numbers of a tensor. Raises OSError, and WeightsError for another dtype."""
    entry = tensor.entry
    if entry.dtype not in dtypes:
        own, others = DTYPES[entry.dtype].type, " or ".join(DTYPES[name].type for name in dtypes)
        raise WeightsError(f"{tensor.path}: tensor '{entry.name}' is {own}, not {others}")
    bits = np.frombuffer(_blob_of(tensor).elements, f"u{entry.itemsize}").reshape(entry.shape)
    return numbers_of_bits(bits, entry.dtype)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name matches one of some patterns of the shell."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def tensor_of_type(tensor: TensorInFile, type: Attribute) -> TensorInFile:
    """A tensor, where codes of 4 bits are two in a byte if a value of `type` has such."""
    parts = tensor_parts(type)
    if parts is None or parts.shape == tensor.entry.shape:
        return tensor
    element = parts.element_type
    stored = element_type_of(element) if isinstance(element, StoredType) else element
    if not isinstance(stored, FixedBitwidthType) or stored.bitwidth != _NIBBLE:
        return tensor
    return tensor.packed(parts.shape) or tensor


def _blob_of(tensor: TensorInFile) -> Blob:
    """The data of a tensor. Raises OSError and WeightsError."""
    data = bytearray(math.prod(tensor.entry.shape) * tensor.entry.itemsize)
    with open_place(tensor.path) as file:
        tensor.read(file, 0, memoryview(data))
    alignment = tensor.entry.itemsize.to_bytes(ALIGNMENT_BYTES, "little")
    return Blob(alignment, memoryview(data))


def _difference(attribute: DenseResourceAttr, tensor: TensorInFile) -> str | None:
    """How the type of an attribute differs from that of a tensor."""
    type, entry = attribute.type, tensor.entry
    element = element_type_or_self(type)
    name, bits = DTYPES[entry.dtype]
    written = str(element)
    width = element.bitwidth if isinstance(element, FixedBitwidthType) else 0
    # Integers may be read with a sign or without.
    are_integers = written.startswith(("i", "u", "s")) and name.startswith(("i", "u"))
    is_same = written == name or (width == bits and are_integers)
    if isinstance(type, TensorType):
        shape = type.get_shape()
        if shape == entry.shape and is_same:
            return None
        if width == _NIBBLE and tensor.packed(shape) is not None:
            return None
    shape = "".join(f"{length}x" for length in entry.shape)
    return (
        f"'{attribute.resource_handle.data}' is of type '{type}', but tensor '{entry.name}' of "
        f"{tensor.path} is tensor<{shape}{name}>"
    )
