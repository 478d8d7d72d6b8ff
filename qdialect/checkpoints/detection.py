"""
Which layouts the matrices of a checkpoint have.

What `config.json` says is confirmed by the names, dtypes and shapes of tensors. Two layouts that
fit are an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from qdialect.algebra.parameters import StorageFormat
from qdialect.checkpoints.gguf_files import read_gguf
from qdialect.checkpoints.layouts import (
    PLAIN,
    Layout,
    Numbers,
    Plane,
    Planes,
    Turn,
    layouts,
)
from qdialect.checkpoints.matrices import RefusedError
from qdialect.support.files import FileError, JsonError, JsonValue, read_text
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.weights.copying import Descriptors, array_of
from qdialect.weights.manifest import (
    CODES,
    OFFSET,
    SCALE,
    ZERO_POINT,
    read_manifest,
    tensors_of,
)
from qdialect.weights.strided_views import StridedView
from qdialect.weights.tensor_files import (
    DTYPES,
    PACKED,
    TensorInFile,
    WeightsError,
    numbers_of_bits,
)

CONFIG: Final = "config.json"

_STATE: Final = ".weight.quant_state.bitsandbytes__"
"""What bitsandbytes has its JSON in: the shape of a flat matrix, and the elements of a block."""

_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "gptq": ("gptq", "gptq_v2"),
    "awq": ("awq", "awq_gemv", "awq_gemv_fast"),
    "compressed-tensors": (
        *("pack-quantized", "pack-quantized-symmetric", "int-quantized", "float-quantized"),
        *("nvfp4-pack-quantized", "mxfp4-pack-quantized"),
    ),
    "fp8": ("fp8-blocks", "float-quantized"),
    "mxfp4": ("gpt-oss",),
    "bitsandbytes": ("bitsandbytes", "bitsandbytes-double"),
    "mlx": ("mlx",),
    "torchao": ("torchao", "torchao-float"),
    "quark": ("quark",),
}
"""By `quant_method`: the layouts that it may mean."""

_VERSIONS: Final[Mapping[str, str]] = {
    "gemm": "awq",
    "gemv": "awq_gemv",
    "gemv_fast": "awq_gemv_fast",
    "gptq": "gptq",
    "gptq_v2": "gptq_v2",
}
"""The words of `version` of AWQ, and of `checkpoint_format` of GPTQ."""


@dataclass(frozen=True)
class QuantizedModule:
    """A matrix of a checkpoint, and the tensors that it is made of."""

    name: str
    """The name of the weight that it is."""
    layout: Layout
    tensors: Mapping[str, TensorInFile]
    """By the ends of their names."""
    shape: tuple[int, ...]
    """The shape of the weight: all axes but the last are rows."""
    block: tuple[int, int]
    """The rows and columns of a block."""
    state: Mapping[str, float] = field(default_factory=dict[str, float])
    """Numbers that are saved beside tensors."""
    order: NDArray[np.intp] | None = field(default=None, repr=False)
    """The columns in the order of their blocks; None if they are."""
    is_symmetric: bool = False
    """Whether its configuration says that zero points are the middle code."""

    @property
    def matrix(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return math.prod(self.shape[:-1]), self.shape[-1]


class Checkpoint(NamedTuple):
    """The tensors of a checkpoint."""

    modules: Mapping[str, QuantizedModule]
    others: Mapping[str, TensorInFile]
    """Tensors that belong to no quantized matrix."""
    refused: Mapping[str, str]
    """For a matrix that is not understood: the reason."""
    kept: Mapping[str, TensorInFile] = MappingProxyType({})
    """The tensors of matrices that are not understood."""


class Hints(NamedTuple):
    """What is known of layouts beside names and shapes."""

    allowed: tuple[str, ...] | None = None
    """The names of layouts; None for all."""
    bits: int | None = None
    columns: int | None = None
    """The columns of a block; -1 for all."""
    block: tuple[int, int] | None = None
    is_symmetric: bool = False


def read_checkpoint(path: str, layout: str | None = None) -> Checkpoint:
    """
    The matrices of a folder with safetensors and perhaps `config.json`, or of a file.

    `layout` overrides what the configuration says. Raises OSError, FileError and WeightsError for
    files that are not as their formats say, and ValueError for an unknown layout.
    """
    if layout is not None and layout not in layouts():
        raise ValueError(f"there is no layout '{layout}'; the layouts are {', '.join(layouts())}")
    if path.endswith(".gguf"):
        return _of_gguf(path)
    if path.endswith(".json"):
        return _of_manifest(path)
    folder, hints = Path(path), Hints()
    if folder.is_dir():
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise WeightsError(f"{path}: there is no file of safetensors")
        if (folder / CONFIG).exists():
            hints = _hints_of(folder / CONFIG)
    else:
        files = [folder]
    if layout is not None:
        hints = hints._replace(allowed=(layout,), is_symmetric=False)
    return _of_tensors(tensors_of(map(str, files)), hints)


def _of_manifest(path: str) -> Checkpoint:
    """The quantized weights of a manifest, as `import` and `quantize` write them."""
    manifest = read_manifest(path)
    modules, refused, taken = dict[str, QuantizedModule](), dict[str, str](), set[str]()
    for name, weight in manifest.quantized.items():
        keys = {CODES: weight.codes, SCALE: weight.scale, ZERO_POINT: weight.zero_point}
        keys[OFFSET] = weight.offset
        tensors = {part: manifest[key] for part, key in keys.items() if key is not None}
        taken |= {name, weight.gather or name, *(key for key in keys.values() if key is not None)}
        try:
            if weight.gather is not None:
                raise RefusedError("act-order", "columns are gathered")
            modules[name] = _of_parts(name, tensors, weight.parsed_type().storage.format)
        except RefusedError as error:
            refused[name] = str(error)
    others = {key: tensor for key, tensor in manifest.tensors.items() if key not in taken}
    # Files of the manifest may also have the matrices that its weights were read from.
    return Checkpoint(modules, _of_tensors(others, Hints()).others, refused)


def _of_parts(
    name: str, tensors: Mapping[str, TensorInFile], storage: StorageFormat
) -> QuantizedModule:
    """A weight of codes in plain rows. Raises RefusedError."""
    if storage.codebook is not None and not storage.codebook.is_float:
        raise RefusedError("table", "codes are of a table")
    entry, slots = tensors[CODES].entry, tensors[SCALE].entry.shape
    row = _plain(storage, entry.dtype, has_offset=OFFSET in tensors)
    shape, rows = entry.shape, math.prod(slots[:-1])
    if row.codes[0].bits < DTYPES[entry.dtype].bits and shape:
        shape = (*shape[:-1], 2 * shape[-1])
    if len(shape) < 2 or not slots or 0 in (*shape, *slots):
        raise RefusedError("block", f"codes are {list(entry.shape)}, and scales {list(slots)}")
    counts, lengths = (rows, slots[-1]), (math.prod(shape[:-1]), shape[-1])
    if any(length % count for length, count in zip(lengths, counts, strict=True)):
        raise RefusedError("block", f"codes are {list(entry.shape)}, and scales {list(slots)}")
    block = lengths[0] // counts[0], lengths[1] // counts[1]
    return QuantizedModule(name, row, tensors, shape, block)


def _plain(storage: StorageFormat, dtype: str, *, has_offset: bool) -> Layout:
    """The layout of codes in plain rows, of elements of `dtype`."""
    is_packed = dtype == "U8" and storage.width == DTYPES[PACKED].bits
    bits = storage.width if is_packed else DTYPES[dtype].bits
    return Layout(
        PLAIN,
        storage.width,
        (Plane(CODES, bits, dtype),),
        (Numbers(SCALE, ("F32",)),),
        Numbers(ZERO_POINT, ("I8", "U8")),
        storage=storage.name if storage.codebook is not None else "",
        is_signed=storage.signed,
        offset=(Numbers(OFFSET, ("F32",)),) if has_offset else (),
    )


def _of_gguf(path: str) -> Checkpoint:
    read, refused = read_gguf(path)
    modules, others = dict[str, QuantizedModule](), dict[str, TensorInFile]()
    for name, (tensor, shape, layout) in read.items():
        if layout is None:
            others[name] = tensor
            continue
        row = layouts()[layout]
        modules[name] = QuantizedModule(name, row, {"": tensor}, shape, row.block)
    return Checkpoint(modules, others, refused)


def _hints_of(path: Path) -> Hints:
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
        return _of_section(section, None if method is None else _FAMILIES.get(method.of(str)))
    except JsonError as error:
        raise FileError(str(path), text, error.offset_in(text), str(error), remedy) from None


def _of_section(section: JsonValue, allowed: tuple[str, ...] | None) -> Hints:
    members = dict(section.members())
    for word in ("version", "checkpoint_format"):
        value: Any = members[word].value if word in members else None
        version = _VERSIONS.get(value.lower()) if isinstance(value, str) else None
        if version is not None and (allowed is None or version in allowed):
            allowed = (version,)
    groups = members.get("config_groups")
    if groups is not None and len(groups.members()) == 1:
        (group,) = groups.members().values()
        weights = group.members().get("weights")
        members |= {} if weights is None else weights.members()

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
    states = {name.partition(_STATE)[0]: name for name in tensors if _STATE in name}
    rows = [row for row in layouts(hints.bits or 4).values() if not row.record]
    ends = {row.codes[0].name for row in rows}
    files = Descriptors()
    try:
        for whole, end in product(tensors, ends):
            if whole.endswith(end):
                prefix = whole.removesuffix(end)
                fitting = list(_fitting(prefix, rows, tensors, hints))
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
    finally:
        files.close()
    others = {name: tensor for name, tensor in tensors.items() if name not in taken}
    return Checkpoint(modules, others, refused, kept)


def _all_names(row: Layout) -> Iterable[str]:
    """The ends of the names of all tensors of a layout, also of those that may be missing."""
    zero = (row.zero.name,) if isinstance(row.zero, Numbers) else ()
    return filter(None, (*row.names, *zero, row.groups, row.shape))


def _fitting(
    prefix: str, rows: Sequence[Layout], tensors: Mapping[str, TensorInFile], hints: Hints
) -> Iterable[Layout]:
    """The layouts whose tensors are there, with their dtypes and shapes."""
    for row in rows:
        if hints.allowed is not None and row.name not in hints.allowed:
            continue
        own = {name: tensors.get(prefix + name) for name in row.names}
        if any(tensor is None or 0 in tensor.entry.shape for tensor in own.values()):
            continue
        dtypes = {name: tensor.entry.dtype for name, tensor in own.items() if tensor is not None}
        zeros = row.zero.planes if isinstance(row.zero, Planes) else ()
        if any(dtypes[plane.name] != plane.dtype for plane in (*row.codes, *zeros)):
            continue
        own_numbers = [part for part in (*row.scale, *row.offset) if isinstance(part, Numbers)]
        numbers = [part for part in own_numbers if part.name in dtypes]
        if any(dtypes[part.name] not in part.dtypes for part in numbers):
            continue
        plane = row.codes[0]
        stored = tensors[prefix + plane.name].entry.shape
        if numbers[0].padding > 1 or plane.turn is not Turn.NONE:
            scales = tensors[prefix + numbers[0].name].entry.shape
            if len(stored) != 2 or len(scales) != 2:
                continue
            if _sizes(plane, stored)[0] != scales[1 if numbers[0].is_turned else 0]:
                continue
        if row.absent and prefix + row.absent in tensors:
            continue
        yield row


def _sizes(plane: Plane, stored: Sequence[int]) -> tuple[int, int]:
    """The rows and columns of codes, of which a last word may have more."""
    per = DTYPES[plane.dtype].bits
    if plane.turn is Turn.AFTER:
        return stored[-1] * per // plane.bits, stored[0]
    if plane.turn is Turn.BEFORE:
        return stored[-1], stored[0] * per // plane.bits
    rows = math.prod(_leading(stored))
    return rows * plane.fan, math.prod(stored) // rows * per // plane.bits // plane.fan


def _leading(stored: Sequence[int]) -> Sequence[int]:
    """The axes of rows, where columns may be the last two axes."""
    return stored[:-1] if len(stored) < 3 else stored[:-2]


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
    if len(fitting) > 1:
        names = " or ".join(row.name for row in fitting)
        raise RefusedError("ambiguous", f"it is {names}: choose one with --layout")
    (row,) = fitting
    own = {name: tensors[prefix + name] for name in _all_names(row) if prefix + name in tensors}
    plane = row.codes[0]
    stored = own[plane.name].entry.shape
    if not stored:
        raise RefusedError("block", "it has no rows")
    rows, columns = _sizes(plane, stored)
    leading: tuple[int, ...] = tuple(_leading(stored)) if plane.turn is Turn.NONE else (rows,)
    if plane.fan > 1:
        leading = (rows,)
    elements: int | None = None
    state: dict[str, float] = {}
    if row.is_flat:
        if place is None:
            raise RefusedError("missing", f"there is no tensor '{prefix}{_STATE}...'")
        own[place.removeprefix(prefix)] = tensors[place]
        shape, elements = _of_state(tensors[place], files, math.prod(stored) * 2, state)
        *leading_axes, columns = shape
        leading = tuple(leading_axes)
    elif row.shape in own:
        numbers = _integers(own[row.shape], files).reshape(-1).tolist()
        if len(numbers) != 2 or numbers[0] != rows or not 0 < numbers[1] <= columns:
            raise RefusedError(
                "tail", f"'{row.shape}' is {numbers}, but codes are {[rows, columns]}"
            )
        columns = numbers[1]
    groups: NDArray[Any] | None = None
    if row.groups in own:
        groups = _integers(own[row.groups], files).reshape(-1)
        columns = min(columns, groups.size)
    module = QuantizedModule(weight, row, own, (*leading, columns), (0, 0))
    block = _block(module, hints, elements)
    _check_words(module, block)
    module = replace(module, block=block, state=state, is_symmetric=hints.is_symmetric)
    even = np.arange(columns) // block[1]
    if groups is None or np.array_equal(groups, even):
        return module
    order = np.argsort(groups, kind="stable")
    if not np.array_equal(groups[order], even):
        raise RefusedError("act-order", f"'{row.groups}' is not of blocks of {block[1]} columns")
    return replace(module, order=order)


def _check_words(module: QuantizedModule, block: tuple[int, int]) -> None:
    """Raise RefusedError if tensors have other fields than the rows and columns need."""
    (rows, columns), row = module.matrix, module.layout
    zeros = row.zero.planes if isinstance(row.zero, Planes) else ()
    scale = row.scale[0]
    is_padded = isinstance(scale, Numbers) and scale.padding > 1
    for plane, count in (*((own, columns) for own in row.codes), *((own, -1) for own in zeros)):
        if row.is_flat or (is_padded and count < 0):
            continue
        wanted = plane.stored(rows, count if count >= 0 else -(-columns // block[1]))
        shape = module.tensors[plane.name].entry.shape
        if math.prod(shape) != math.prod(wanted) or (len(shape) == 2 and shape != wanted):
            raise RefusedError(
                "tail",
                f"'{plane.name}' is {list(shape)}, and {plane.bits} bits need {list(wanted)}",
            )

    for part in row.offset:
        if isinstance(part, Numbers) and isinstance(scale, Numbers) and not row.record:
            shapes = [list(module.tensors[own.name].entry.shape) for own in (part, scale)]
            if shapes[0] != shapes[1]:
                raise RefusedError(
                    "offset", f"'{part.name}' is {shapes[0]}, scales are {shapes[1]}"
                )


def _integers(tensor: TensorInFile, files: Descriptors) -> NDArray[Any]:
    dtype = tensor.entry.dtype
    if dtype[0] not in "IU":
        raise RefusedError("storage", f"'{tensor.entry.name}' has no integers")
    return numbers_of_bits(array_of(StridedView.of(tensor, tensor.entry.shape), files), dtype)


def _of_state(
    tensor: TensorInFile, files: Descriptors, count: int, state: dict[str, float]
) -> tuple[list[int], int]:
    """
    The shape of a flat matrix of `count` codes, and the elements of a block.

    Other numbers are added to `state`. Raises RefusedError.
    """
    text = array_of(StridedView.of(tensor, tensor.entry.shape), files).tobytes()
    try:
        members = JsonValue.parse(text.decode()).members()
        shape = [item.of(int) for item in members["shape"].items()]
        size = members["blocksize"].of(int)
        if (offset := members.get("nested_offset")) is not None:
            state["nested_offset"] = offset.of(float)
    except (JsonError, UnicodeDecodeError, KeyError):
        raise RefusedError("missing", f"'{tensor.entry.name}' has no shape and block") from None
    if len(shape) < 2 or math.prod(shape) not in (count, count - 1) or size < 1:
        reason = f"'{tensor.entry.name}' has shape {shape}, but there are {count} codes"
        raise RefusedError("tail", reason)
    if shape[-1] % size:
        raise RefusedError("block", f"blocks of {size} elements cross rows of {shape[-1]}")
    return shape, size


def _block(module: QuantizedModule, hints: Hints, elements: int | None) -> tuple[int, int]:
    """The rows and columns of a block. Raises RefusedError if there are others than scales."""
    (rows, columns), row = module.matrix, module.layout
    if elements is not None:
        return 1, elements
    part = row.scale[0]
    assert isinstance(part, Numbers)
    shape = module.tensors[part.name].entry.shape
    if part.is_turned:
        shape = shape[::-1]
    count = math.prod(shape)
    stored = (count // shape[-1], shape[-1]) if len(shape) > 1 and count else (count, 1)
    if len(shape) < 2 and count > rows and not count % rows:
        stored = rows, count // rows
    high, wide = hints.block or row.block
    if hints.block is None and row.block[0] == 1:
        if stored[0] not in (1, rows):
            reason = f"there are {stored[0]} scales for {rows} rows, and no word of blocks"
            raise RefusedError("block", reason)
        high = rows // stored[0]
    if not wide:
        asked = hints.columns or 0
        if part.padding > 1 and not asked:
            raise RefusedError("block", "scales are padded, and no configuration has 'group_size'")
        wide = columns if asked < 0 or stored[1] == 1 else asked or columns // stored[1]
    high, wide = max(1, high), max(1, wide)
    counts = -(-rows // high), -(-columns // wide)
    is_padded = (
        part.padding > 1 and stored[1] >= counts[1] and (part.is_turned or stored[0] == counts[0])
    )
    if stored != counts and not is_padded:
        raise RefusedError(
            "block",
            f"there are {stored[0]} x {stored[1]} scales for {counts[0]} x {counts[1]} blocks",
        )
    return high, wide
