"""
Which layouts the matrices of a checkpoint have.

What `config.json` says is confirmed by the names, dtypes and shapes of tensors. Two layouts that
fit are an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from qdialect.checkpoints.gguf_files import read_gguf
from qdialect.checkpoints.layouts import (
    PLAIN,
    STATE,
    Hints,
    Layout,
    Numbers,
    Plane,
    layouts,
)
from qdialect.checkpoints.matrices import RefusedError
from qdialect.checkpoints.model_files import read_onnx, read_openvino
from qdialect.checkpoints.stored import QuantizedModule, state_of
from qdialect.dialects.quant import UniformQuantizedType
from qdialect.support.files import FileError, JsonError, JsonValue, read_text
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.weights.copying import Descriptors, bits_of
from qdialect.weights.manifest import (
    CODES,
    GATHER,
    OFFSET,
    SCALE,
    ZERO_POINT,
    read_manifest,
    tensors_of,
)
from qdialect.weights.tensor_files import (
    DTYPES,
    PACKED,
    TensorEntry,
    TensorInFile,
    WeightsError,
    numbers_of_bits,
)

CONFIG: Final = "config.json"

_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "compressed-tensors": ("-quantized",),
    "fp8": ("fp8-blocks", "float-quantized"),
    "mxfp4": ("gpt-oss",),
    "quark": ("quark", "float-quantized"),
    **{name: (name,) for name in ("gptq", "awq", "bitsandbytes", "hqq", "mlx", "torchao")},
}
"""By `quant_method`: what the names of the layouts have that it may mean."""

VERSIONS: Final[Mapping[str, str]] = {
    "gemm": "awq",
    "gemv": "awq_gemv",
    "gemv_fast": "awq_gemv_fast",
    "gptq": "gptq",
    "gptq_v2": "gptq_v2",
    "uint4": "quark",
    "int4": "quark-int4",
    "fp4": "quark-mxfp4",
    "fp6_e2m3": "quark-mxfp6-e2m3",
    "fp6_e3m2": "quark-mxfp6-e3m2",
}
"""The words of `version` of AWQ, of `checkpoint_format` of GPTQ, and of `dtype` of Quark."""


class Checkpoint(NamedTuple):
    """The tensors of a checkpoint."""

    modules: Mapping[str, QuantizedModule]
    others: Mapping[str, TensorInFile]
    """Tensors that belong to no quantized matrix."""
    refused: Mapping[str, str]
    """For a matrix that is not understood: the reason."""
    kept: Mapping[str, TensorInFile] = MappingProxyType({})
    """The tensors of matrices that are not understood."""


def read_checkpoint(path: str, layout: str | None = None) -> Checkpoint:
    """
    The matrices of a folder with safetensors and perhaps `config.json`, or of a file.

    `layout` overrides what the configuration says. Raises OSError, FileError and WeightsError for
    files that are not as their formats say, and ValueError for an unknown layout, or one of a file
    that says it itself.
    """
    if layout is not None and layout not in layouts():
        raise ValueError(f"there is no layout '{layout}'; the layouts are {', '.join(layouts())}")
    if (reader := _READERS.get(Path(path).suffix)) is not None:
        if layout is not None:
            reason = "it says itself which layouts its weights have: --layout is for folders"
            raise ValueError(f"{path}: {reason}")
        return reader(path)
    folder, hints = Path(path), Hints()
    if folder.is_dir():
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise WeightsError(f"{path}: there is no file of safetensors")
        if (folder / CONFIG).exists():
            hints = hints_of(folder / CONFIG)
    else:
        files = [folder]
    if layout is not None:
        hints = hints._replace(allowed=(layout,), is_symmetric=False)
    return _of_tensors(tensors_of(map(str, files)), hints)


def _of_manifest(path: str) -> Checkpoint:
    """The quantized weights of a manifest, as `import` and `quantize` write them."""
    manifest = read_manifest(path)
    modules, refused, taken = dict[str, QuantizedModule](), dict[str, str](), set[str]()
    with closing(Descriptors()) as files:
        for name, weight in manifest.quantized.items():
            taken |= {name, *weight.keys.values()}
            tensors = {part: manifest[key] for part, key in weight.keys.items()}
            try:
                modules[name] = _of_parts(name, tensors, weight.parsed_type(), files)
            except RefusedError as error:
                refused[name] = str(error)
    others = {key: tensor for key, tensor in manifest.tensors.items() if key not in taken}
    # Files of the manifest may also have the matrices that its weights were read from.
    return Checkpoint(modules, _of_tensors(others, Hints()).others, refused)


def _of_parts(
    name: str, tensors: Mapping[str, TensorInFile], type: UniformQuantizedType, files: Descriptors
) -> QuantizedModule:
    """A weight of codes in plain rows. Raises RefusedError."""
    entry, slots, storage = tensors[CODES].entry, tensors[SCALE].entry.shape, type.storage.format
    if entry.dtype == "F4" and not entry.shape[-1] % 2:
        entry = entry._replace(dtype="U8", shape=(*entry.shape[:-1], entry.shape[-1] // 2))
        tensors = {**tensors, CODES: TensorInFile(tensors[CODES].path, entry)}
    is_packed = entry.dtype == "U8" and storage.width == DTYPES[PACKED].bits
    bits = storage.width if is_packed else 8 * DTYPES[entry.dtype].itemsize
    row = Layout(
        PLAIN,
        storage.width,
        (Plane(CODES, bits, entry.dtype),),
        (Numbers(SCALE, ("F32",)),),
        Numbers(ZERO_POINT, ("I8", "U8")) if ZERO_POINT in tensors else None,
        is_signed=storage.signed,
        offset=(Numbers(OFFSET, ("F32",)),) if OFFSET in tensors else (),
    )
    shape, rows = entry.shape, math.prod(slots[:-1])
    if is_packed and shape:
        shape = (*shape[:-1], 2 * shape[-1])
    if len(shape) < 2 or not slots or 0 in (*shape, *slots):
        raise RefusedError("block", f"codes are {list(entry.shape)}, and scales {list(slots)}")
    counts, lengths = (rows, slots[-1]), (math.prod(shape[:-1]), shape[-1])
    if any(length % count for length, count in zip(lengths, counts, strict=True)):
        raise RefusedError("block", f"codes are {list(entry.shape)}, and scales {list(slots)}")
    block = lengths[0] // counts[0], lengths[1] // counts[1]
    order: NDArray[Any] | None = None
    if GATHER in tensors:
        places = _integers(tensors[GATHER], files).reshape(-1)
        order = np.argsort(places, kind="stable")
        if not np.array_equal(places[order], np.arange(shape[-1])):
            reason = f"'{tensors[GATHER].entry.name}' is no order of columns"
            raise RefusedError("act-order", reason)
    floats = {"f16": "F16", "bf16": "BF16"}.get(type.expressed_type.name, "F32")
    return QuantizedModule(name, row, tensors, shape, block, storage, floats, order)


def _of_gguf(path: str) -> Checkpoint:
    file = read_gguf(path)
    modules, others = dict[str, QuantizedModule](), dict[str, TensorInFile]()
    for name, (tensor, shape, layout) in file.tensors.items():
        if layout is None:
            others[name] = tensor
            continue
        row = layouts()[layout]
        modules[name] = QuantizedModule(name, row, {"": tensor}, shape, row.block)
    return Checkpoint(modules, others, file.refused)


def _of_model(path: str) -> Checkpoint:
    """The weights of a model of ONNX or OpenVINO."""
    file = (read_onnx if path.endswith(".onnx") else read_openvino)(path)
    modules, refused = dict[str, QuantizedModule](), dict(file.refused)
    kept = dict[str, TensorInFile]()
    with closing(Descriptors()) as files:
        for name, (tensors, hints) in file.matrices.items():
            rows = [row for row in layouts(hints.bits or 4).values() if not row.record]
            try:
                fitting = _fitting("", rows, tensors, hints)
                modules[name] = _module(name, "", fitting, tensors, None, hints, files)
            except RefusedError as error:
                refused[name] = str(error)
                kept |= {tensor.entry.name: tensor for tensor in tensors.values()}
    return Checkpoint(modules, file.others, refused, kept)


def hints_of(path: Path) -> Hints:
    """What a configuration says. Raises OSError and FileError."""
    remedy = "it must be the configuration of a model"
    text = read_text(path, remedy)
    try:
        members = JsonValue.parse(text).members()
        section = members.get("quantization_config") or members.get("compression_config")
        if section is None:
            own = members.get("quantization")
            return Hints() if own is None else _of_section(own, ("mlx",))
        method = section.members().get("quant_method")
        words = None if method is None else _FAMILIES.get(method.of(str))
        names = [name for name in layouts() if any(word in name for word in words or ())]
        return _of_section(section, None if words is None else tuple(names))
    except JsonError as error:
        raise FileError(str(path), text, error.offset_in(text), str(error), remedy) from None


def _of_section(section: JsonValue, allowed: tuple[str, ...] | None) -> Hints:
    members = dict(section.members())
    groups = dict[str, JsonValue]()
    for word in ("config_groups", "layer_quant_config", "layer_type_quant_config"):
        own = members.get(word)
        groups |= own.members() if own is not None and isinstance(own.value, dict) else {}
    if (own := members.get("global_quant_config")) is not None and isinstance(own.value, dict):
        groups["global_quant_config"] = own
    # Several say nothing of a matrix.
    for word in ("weights", "weight") if len(groups) == 1 else ():
        (group,) = groups.values()
        own = group.members().get(word)
        members |= own.members() if own is not None and isinstance(own.value, dict) else {}
    for word in ("version", "checkpoint_format", "dtype"):
        value: Any = members[word].value if word in members else None
        version = VERSIONS.get(value.lower()) if isinstance(value, str) else None
        if version is not None and (allowed is None or version in allowed):
            others = {*VERSIONS.values()} - {version}
            names = layouts() if allowed is None else allowed
            allowed = tuple(name for name in names if name.removesuffix("-symmetric") not in others)

    def number(*names: str) -> int | None:
        values: list[Any] = [members[name].value for name in names if name in members]
        return values[0] if values and isinstance(values[0], int) else None

    own = members.get("weight_block_size") or members.get("block_structure")
    sizes = [item.of(int) for item in own.items()] if own is not None and own.value else []
    block = (max(1, sizes[0]), max(1, sizes[1])) if len(sizes) == 2 else None
    symmetric = any(members[name].value is True for name in ("sym", "symmetric") if name in members)
    numbers = number("bits", "num_bits", "w_bit"), number("group_size", "q_group_size")
    return Hints(allowed, *numbers, block, symmetric)


def _of_tensors(tensors: Mapping[str, TensorInFile], hints: Hints) -> Checkpoint:
    modules, refused, taken = dict[str, QuantizedModule](), dict[str, str](), set[str]()
    kept = dict[str, TensorInFile]()
    states = {name.partition(STATE)[0]: name for name in tensors if STATE in name}
    rows = [row for row in layouts(hints.bits or 4).values() if not row.record]
    ends = {row.codes[0].name for row in rows}
    with closing(Descriptors()) as files:
        for whole, end in product(tensors, ends):
            if whole.endswith(end):
                prefix = whole.removesuffix(end)
                fitting = _fitting(prefix, rows, tensors, hints)
                if not fitting:
                    continue
                weight = prefix if end.startswith("_") else f"{prefix}.weight"
                try:
                    state = states.get(prefix)
                    module = _module(weight, prefix, fitting, tensors, state, hints, files)
                except RefusedError as error:
                    refused[weight] = str(error)
                else:
                    modules[weight] = module
                own = {prefix + name for row in fitting for name in _all_names(row)}
                own.add(states.get(prefix, ""))
                parts = {name: tensors[name] for name in sorted(own & tensors.keys())}
                taken |= parts.keys()
                if weight in refused:
                    kept |= parts
    others = {name: tensor for name, tensor in tensors.items() if name not in taken}
    return Checkpoint(modules, others, refused, kept)


def _all_names(row: Layout) -> Iterable[str]:
    """The ends of the names of all tensors of a layout, also of those that may be missing."""
    return filter(None, (*row.dtypes, row.groups.rstrip("?"), row.shape))


def _fitting(
    prefix: str, rows: Sequence[Layout], tensors: Mapping[str, TensorInFile], hints: Hints
) -> Sequence[Layout]:
    """The layouts whose tensors are there, with their dtypes and shapes, and no more of them."""
    entries = {
        name: tensors[prefix + name].entry
        for row in rows
        for name in row.dtypes
        if prefix + name in tensors
    }
    dtypes = {name: entry.dtype for name, entry in entries.items() if 0 not in entry.shape}
    there = [
        row
        for row in rows
        if (hints.allowed is None or row.name in hints.allowed)
        and dtypes.keys() >= row.dtypes.keys()
        and dtypes[row.codes[0].name] == row.codes[0].dtype
    ]
    fitting = [
        row
        for row in there
        if all(dtypes[name] in allowed for name, allowed in row.dtypes.items())
        and not any(row.dtypes.keys() < other.dtypes.keys() for other in there)
        and _has_rows(row, entries)
    ]
    return [row for row in fitting if _has_columns(row, entries)] or fitting


def _has_columns(row: Layout, entries: Mapping[str, TensorEntry]) -> bool:
    """Whether codes and scales have the same blocks, if a layout says how many columns one has."""
    stored, scales = (entries[name].shape for name in (row.codes[0].name, row.scale[0].name))
    wide = row.block[1]
    return not wide or _sizes(row.codes[0], stored)[1] == math.prod(scales[-1:]) * wide


def _has_rows(row: Layout, entries: Mapping[str, TensorEntry]) -> bool:
    """Whether codes and scales have the same rows, where other layouts have the same tensors."""
    plane, scale = row.codes[0], row.scale[0]
    if scale.padding == 1 and not plane.is_turned:
        return True
    stored, scales = (entries[name].shape for name in (plane.name, scale.name))
    axis = 1 if scale.is_turned else 0
    return len(stored) == len(scales) == 2 and _sizes(plane, stored)[0][0] == scales[axis]


def _sizes(plane: Plane, stored: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """The axes of rows, and the columns of codes, of which a last word may have more."""
    if plane.is_turned:
        rows, columns = (
            length * (plane.word if is_along else plane.bits) // plane.bits
            for length, is_along in (
                (stored[-1], plane.is_along_rows),
                (stored[0], not plane.is_along_rows),
            )
        )
        return (rows,), columns
    axes = len(stored) - (2 if plane.has_blocks and len(stored) > 2 else 1)
    leading, words = stored[:axes], math.prod(stored[axes:])
    columns = words * plane.word // plane.bits // plane.fan
    return ((math.prod(leading) * plane.fan,) if plane.fan > 1 else leading), columns


def _module(
    weight: str,
    prefix: str,
    fitting: Sequence[Layout],
    tensors: Mapping[str, TensorInFile],
    place: str | None,
    hints: Hints,
    files: Descriptors,
) -> QuantizedModule:
    """The matrix of some tensors, with a state at `place`. Raises RefusedError."""
    if not fitting:
        raise RefusedError("storage", "its tensors have other dtypes or shapes")
    if len(fitting) > 1:
        names = " or ".join(row.name for row in fitting)
        raise RefusedError("ambiguous", f"it is {names}: choose one with --layout")
    (row,) = fitting
    if row.refused is not None:
        raise RefusedError(*row.refused)
    own = {name: tensors[prefix + name] for name in _all_names(row) if prefix + name in tensors}
    plane = row.codes[0]
    stored = own[plane.name].entry.shape
    if not stored:
        raise RefusedError("block", "it has no rows")
    leading, columns = _sizes(plane, stored)
    elements: int | None = None
    if row.is_flat:
        if place is None:
            raise RefusedError("missing", f"there is no tensor '{prefix}{STATE}...'")
        own[place.removeprefix(prefix)] = tensors[place]
        (*axes, columns), elements = _of_state(tensors[place], files, math.prod(stored) * 2)
        leading = tuple(axes)
    elif row.shape in own:
        numbers = _integers(own[row.shape], files).reshape(-1).tolist()
        rows = math.prod(leading)
        if len(numbers) != 2 or numbers[0] != rows or not 0 < numbers[1] <= columns:
            reason = f"'{row.shape}' is {numbers}, but codes are {[rows, columns]}"
            raise RefusedError("tail", reason)
        columns = numbers[1]
    groups: NDArray[Any] | None = None
    if (name := row.groups.rstrip("?")) in own:
        groups = _integers(own[name], files).reshape(-1)
        columns = min(columns, groups.size)
    dtype = own[row.scale[0].name].entry.dtype
    floats = dtype if row.offset else "F32"
    module = QuantizedModule(
        weight, row, own, (*leading, columns), (1, elements or 1), None, floats
    )
    if elements is None:
        module = replace(module, block=_block(module, hints), is_symmetric=hints.is_symmetric)
    words = {row.scale[0].name: "block", **{part.name: "offset" for part in row.offset}}
    for part, needed in module.stored(dtype):
        if part.dtype == PACKED:
            own[part.name] = own[part.name].packed(needed) or own[part.name]
        shape = own[part.name].entry.shape
        are_axes = len(shape) == len(needed) == 2
        if math.prod(shape) != math.prod(needed) or (are_axes and shape != needed):
            reason = f"'{part.name}' is {list(shape)}, and {part.bits} bits need {list(needed)}"
            raise RefusedError(words.get(part.name, "tail"), reason)
    even = np.arange(columns) // module.block[1]
    if groups is None or np.array_equal(groups, even):
        return module
    order = np.argsort(groups, kind="stable")
    if not np.array_equal(groups[order], even):
        reason = f"'{name}' is not of blocks of {module.block[1]} columns"
        raise RefusedError("act-order", reason)
    return replace(module, order=order)


def _integers(tensor: TensorInFile, files: Descriptors) -> NDArray[Any]:
    dtype = tensor.entry.dtype
    if dtype[0] not in "IU":
        raise RefusedError("storage", f"'{tensor.entry.name}' has no integers")
    return numbers_of_bits(bits_of(tensor, files), dtype)


def _of_state(tensor: TensorInFile, files: Descriptors, count: int) -> tuple[list[int], int]:
    """
    The shape of a flat matrix of `count` codes, and the elements of a block.

    Raises RefusedError.
    """
    members = state_of(tensor, files)
    try:
        shape = [item.of(int) for item in members["shape"].items()]
        size = members["blocksize"].of(int)
    except (JsonError, KeyError):
        raise RefusedError("missing", f"'{tensor.entry.name}' has no shape and block") from None
    if len(shape) < 2 or math.prod(shape) not in (count, count - 1) or size < 1:
        reason = f"'{tensor.entry.name}' has shape {shape}, but there are {count} codes"
        raise RefusedError("tail", reason)
    if shape[-1] % size:
        raise RefusedError("block", f"blocks of {size} elements cross rows of {shape[-1]}")
    return shape, size


def _block(module: QuantizedModule, hints: Hints) -> tuple[int, int]:
    """The rows and columns of a block. Raises RefusedError for scales of none."""
    (rows, columns), row, part = module.matrix, module.layout, module.layout.scale[0]
    shape = module.tensors[part.name].entry.shape
    if part.is_turned:
        shape = shape[::-1]
    count = math.prod(shape)
    lines = count // shape[-1] if len(shape) > 1 else min(count, rows)
    high, wide = hints.block or row.block
    if hints.block is None and row.block[0] == 1:
        if lines not in (1, rows):
            reason = f"there are {lines} scales for {rows} rows, and no word of blocks"
            raise RefusedError("block", reason)
        high = rows // lines
    if not wide:
        asked, groups = hints.columns or 0, count // lines
        if part.padding > 1 and not asked:
            raise RefusedError("block", "scales are padded, and no configuration has 'group_size'")
        wide = columns if asked < 0 or groups == 1 else asked or columns // groups
    return max(1, high), max(1, wide)


_READERS: Final[Mapping[str, Callable[[str], Checkpoint]]] = {
    ".gguf": _of_gguf,
    ".json": _of_manifest,
    ".onnx": _of_model,
    ".xml": _of_model,
}
"""By the ends of the names of files that say which layouts their weights have."""
