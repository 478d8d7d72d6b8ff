"""The commands of `qdialect weights` about quantized checkpoints."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Final, TypeAlias

from qdialect.checkpoints.converting import Converted, section_of
from qdialect.checkpoints.detection import Checkpoint, read_checkpoint
from qdialect.checkpoints.gguf_files import GgufFormat, read_gguf
from qdialect.checkpoints.importing import OFFSET_REASON, Part, imported
from qdialect.checkpoints.layouts import layouts
from qdialect.checkpoints.matrices import RefusedError
from qdialect.checkpoints.stored import MatrixReader, QuantizedModule
from qdialect.opt.tool_error import ToolError
from qdialect.support.terminal import Table
from qdialect.weights.copying import Descriptors
from qdialect.weights.folding_files import Moved
from qdialect.weights.manifest import Manifest, matches
from qdialect.weights.tasks import Content
from qdialect.weights.tensor_files import DTYPES, SAFETENSORS, FileFormat, TensorInFile


def table_of(path: str, layout: str | None) -> Table:
    """What the tensors of a checkpoint are. Raises as `read_checkpoint` does."""
    checkpoint = read_checkpoint(path, layout)
    rows = list[tuple[str, ...]]()
    for name, module in checkpoint.modules.items():
        rows.append(
            (name, module.layout.name, _shape(module.shape), _shape(module.block), _type_of(module))
        )
    rows += [(name, "", "", "", reason) for name, reason in checkpoint.refused.items()]
    for name, tensor in checkpoint.others.items():
        rows.append((name, "", _shape(tensor.entry.shape), "", DTYPES[tensor.entry.dtype].type))
    names = ("weight", "layout", "shape", "block", "type, or why there is none")
    return Table(f"{len(rows)} weights", names, tuple(sorted(rows)), 5)


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _type_of(module: QuantizedModule) -> str:
    with closing(Descriptors()) as files:
        try:
            storage = MatrixReader(module, files).storage
        except RefusedError as error:
            return str(error)
    if module.layout.offset:
        return f"offset: {OFFSET_REASON}; codes are {storage.name}"
    return storage.name


def contents_of(options: Namespace) -> tuple[dict[str, Content], Manifest]:
    """
    The matrices that are imported, and the manifest of all other tensors.

    Raises as `read_checkpoint` does, and ToolError for matrices that are refused.
    """
    checkpoint = read_checkpoint(options.checkpoint, options.layout)
    groups = {name: [Part.of(module)] for name, module in _wanted(checkpoint, options).items()}
    for name, pattern, example, change in _CHANGES:
        values: str | Sequence[str] = getattr(options, name)
        for text in [values] if isinstance(values, str) else values:
            if (match := re.fullmatch(pattern, text)) is None:
                raise ToolError(f"--{name} must be as {example}, but is '{text}'")
            change(groups, f"--{name}={text}", *match.groups())
    contents, refused = dict[str, Content](), dict(checkpoint.refused)
    for name, parts in groups.items():
        try:
            contents[name] = imported(parts, with_offsets=options.offsets == "constants")
        except RefusedError as error:
            refused[name] = f"{parts[0].module.layout.name}: {error}"
    _tell(refused, options)
    if not contents:
        raise ToolError(f"{options.checkpoint}: no quantized weight that matches is imported")
    # Only safetensors are the source of a manifest: other tensors are copied.
    others = dict[str, TensorInFile]()
    for name, tensor in checkpoint.others.items():
        if tensor.path.endswith(".safetensors"):
            others[name] = tensor
        else:
            contents[name] = Moved.of(tensor)
    return contents, Manifest(others)


def conversion_of(
    options: Namespace,
) -> tuple[Mapping[str, Content], Mapping[str, object] | None, FileFormat]:
    """
    The contents of a checkpoint in another layout, and the format of their files.

    Between them is what a configuration says of the layout; None if all has it before. Raises as
    `contents_of`.
    """
    checkpoint = read_checkpoint(options.checkpoint, options.layout)
    matrices, refused = dict[str, Converted](), dict(checkpoint.refused)
    others, same = {**checkpoint.others, **checkpoint.kept}, list[Converted]()
    wanted = _wanted(checkpoint, options)
    with closing(Descriptors()) as files:
        for name, module in checkpoint.modules.items():
            own = Converted(module, layouts(module.layout.bits)[options.to])
            try:
                if name in wanted and module.layout.name != options.to:
                    key = name if own.target.record else name.removesuffix(".weight")
                    matrices[key] = own.checked(files, options.max_memory)
                    continue
                same += [own] if name in wanted else []
            except RefusedError as error:
                refused[name] = f"{module.layout.name}: {error}"
            others |= {tensor.entry.name: tensor for tensor in module.tensors.values()}
    format: FileFormat = SAFETENSORS
    if layouts()[options.to].record:
        format = _gguf(options, checkpoint, matrices, others, refused)
    _tell(refused, options)
    if not (converted := [*matrices.values(), *same]):
        raise ToolError(f"{options.checkpoint}: no quantized weight that matches is converted")
    contents = {**matrices, **{name: Moved.of(tensor) for name, tensor in others.items()}}
    return contents, section_of(converted) if matrices else None, format


def _gguf(
    options: Namespace,
    checkpoint: Checkpoint,
    matrices: Mapping[str, Converted],
    others: dict[str, TensorInFile],
    refused: dict[str, str],
) -> GgufFormat:
    """The format of a new file. What it does not hold is moved from `others` to `refused`."""
    tensors = {name: (options.to, matrix.module.shape) for name, matrix in matrices.items()}
    for name, tensor in (*others.items(),):
        kind, shape = tensor.entry.dtype, tensor.entry.shape
        if (module := checkpoint.modules.get(name)) is not None and module.layout.record:
            kind, shape = module.layout.name, module.shape
        tensors[name] = kind, shape
    for name, (kind, shape) in tensors.items():
        if (reason := GgufFormat.reason_against(kind, shape)) is not None:
            refused.setdefault(name, reason)
            others.pop(name, None)
    source = options.config or options.checkpoint
    if not source.endswith(".gguf"):
        return GgufFormat({}, tensors)
    file = read_gguf(source)
    return GgufFormat(file.values, tensors, file.alignment)


def _wanted(checkpoint: Checkpoint, options: Namespace) -> Mapping[str, QuantizedModule]:
    patterns = options.only.split(",")
    return {name: module for name, module in checkpoint.modules.items() if matches(name, patterns)}


def _tell(refused: Mapping[str, str], options: Namespace) -> None:
    """Print what is refused. Raises ToolError if nothing may be."""
    lines = [f"{name}: {reason}" for name, reason in sorted(refused.items())]
    if lines and options.refused == "fail":
        raise ToolError(f"{len(lines)} weights are refused: " + "\n".join(lines))
    options.has_refused = bool(lines)
    for line in lines:
        sys.stderr.write(f"{line}\n")


_Groups: TypeAlias = "dict[str, list[Part]]"
"""The parts that become one weight each, by the names of these."""


def _split(groups: _Groups, option: str, whole: str, pieces: str) -> None:
    """Cut the rows of a matrix, in each place of it. Raises ToolError."""
    for name in _places(groups, whole, option):
        (part,), start = groups.pop(name), 0
        for piece in pieces.split(","):
            own, _, count = piece.partition(":")
            rows = part.rows[start : start + int(count)]
            groups[_renamed(name, whole, own)] = [part._replace(rows=rows)]
            start += int(count)
        if start != len(part.rows):
            raise ToolError(f"{option}: '{name}' has {len(part.rows)} rows, not {start}")


def _rotate(groups: _Groups, option: str, words: str, rows: str, order: str) -> None:
    """Order the rows of heads, in each place of some words. Raises ToolError."""
    half = int(rows) // 2
    head = (half, 2) if order == "halves" else (2, half)
    for word in words.split(","):
        for name in _places(groups, word, option):
            groups[name] = [part._replace(head=head) for part in groups[name]]


def _join(groups: _Groups, option: str, words: str, whole: str) -> None:
    """Join the rows of matrices, in each place of the first word. Raises ToolError."""
    first, *_ = names = words.split(",")
    if len({*names}) < len(names):
        raise ToolError(f"{option}: a name is there twice")
    for name in _places(groups, first, option):
        own = [_renamed(name, first, other) for other in names]
        if not all(other in groups for other in own):
            raise ToolError(f"{option}: there is '{name}', but not all of the others")
        parts = [part for other in own for part in groups.pop(other)]
        groups[_renamed(name, first, whole)] = parts


def _shard(groups: _Groups, option: str, axis: str, number: str) -> None:
    """Cut each matrix into some, which have their numbers at the end. Raises ToolError."""
    count = int(number)
    for name, parts in (*groups.items(),):
        del groups[name]
        for part in parts:
            places: range = getattr(part, axis)
            size, rest = divmod(len(places), count)
            if rest:
                raise ToolError(f"{option}: '{part.module.name}' has {len(places)} {axis}")
            for at in range(count):
                cut = part._replace(**{axis: places[size * at : size * (at + 1)]})
                groups.setdefault(f"{name}.{at}", []).append(cut)


_CHANGES: Final[Sequence[tuple[str, str, str, Callable[..., None]]]] = (
    ("split", r"([\w.]+)=([\w.]+:\d+(?:,[\w.]+:\d+)*)", "qk_proj=q_proj:64,k_proj:64", _split),
    (
        "rotary",
        r"([\w.,]+)=([2468]|[1-9]\d*[02468]):(halves|pairs)",
        "q_proj,k_proj=128:halves",
        _rotate,
    ),
    ("join", r"([\w.,]+,[\w.,]*)=([\w.]+)", "q_proj,k_proj=qk_proj", _join),
    ("shard", r"(rows|columns):([1-9]\d*)", "rows:4 or columns:4", _shard),
)
"""Options in their order: the name, what a value is, an example, and what it does to groups."""


def _places(groups: Mapping[str, object], word: str, option: str) -> list[str]:
    """The names that have a word between dots. Raises ToolError if there is none."""
    places = [name for name in groups if word in name.split(".")]
    if not places:
        raise ToolError(f"{option}: there is no '{word}'")
    return places


def _renamed(name: str, word: str, other: str) -> str:
    return ".".join(other if piece == word else piece for piece in name.split("."))
