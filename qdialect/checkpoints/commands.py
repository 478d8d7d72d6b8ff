"""The commands of `qdialect weights` about quantized checkpoints."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence

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
from qdialect.weights.strided_views import StridedView
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
    files = Descriptors()
    try:
        storage = MatrixReader(module, files).storage
    except RefusedError as error:
        return str(error)
    finally:
        files.close()
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
    for split in options.split:
        groups = _split(groups, split)
    for rotary in options.rotary:
        groups = _rotated(groups, rotary)
    for join in options.join:
        groups = _joined(groups, join)
    groups = _shards(groups, options.shard)
    contents, refused = dict[str, Content](), dict(checkpoint.refused)
    for name, parts in groups.items():
        try:
            contents[name] = imported(parts, with_offsets=options.offsets == "constants")
        except RefusedError as error:
            refused[name] = f"{parts[0].module.layout.name}: {error}"
    _tell(refused, options)
    if not contents:
        raise ToolError(f"{options.checkpoint}: no quantized weight that matches is imported")
    # A file of GGUF is no source of a manifest: its other tensors are copied.
    others = {
        name: tensor
        for name, tensor in checkpoint.others.items()
        if not tensor.path.endswith(".gguf")
    }
    for name in checkpoint.others.keys() - others.keys():
        tensor = checkpoint.others[name]
        contents[name] = Moved(StridedView.of(tensor, tensor.entry.shape))
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
    files, wanted = Descriptors(), _wanted(checkpoint, options)
    try:
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
    finally:
        files.close()
    format: FileFormat = SAFETENSORS
    if layouts()[options.to].record:
        format = _gguf(options, checkpoint, matrices, others, refused)
    _tell(refused, options)
    if not (converted := [*matrices.values(), *same]):
        raise ToolError(f"{options.checkpoint}: no quantized weight that matches is converted")
    contents: dict[str, Content] = {**matrices}
    for name, tensor in others.items():
        contents[name] = Moved(StridedView.of(tensor, tensor.entry.shape))
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


def _joined(groups: Mapping[str, list[Part]], join: str) -> dict[str, list[Part]]:
    """Groups after `q_proj,k_proj=qkv_proj`, in each place of these. Raises ToolError."""
    match = re.fullmatch(r"([\w.,]+)=([\w.]+)", join)
    if match is None or len(names := match[1].split(",")) < 2:
        raise ToolError(f"--join must be as q_proj,k_proj=qk_proj, but is '{join}'")
    joined = dict(groups)
    for name in _places(groups, names[0], f"--join={join}"):
        own = [_renamed(name, names[0], other) for other in names]
        if not all(other in groups for other in own):
            raise ToolError(f"--join={join}: there is '{name}', but not all of the others")
        parts = [part for other in own for part in joined.pop(other)]
        joined[_renamed(name, names[0], match[2])] = parts
    return joined


def _rotated(groups: Mapping[str, list[Part]], rotary: str) -> dict[str, list[Part]]:
    """Groups after `q_proj,k_proj=128:halves`, in each place of these. Raises ToolError."""
    match = re.fullmatch(r"([\w.,]+)=([1-9]\d*):(halves|pairs)", rotary)
    if match is None or (count := int(match[2])) % 2:
        raise ToolError(f"--rotary must be as q_proj,k_proj=128:halves, but is '{rotary}'")
    head, rotated = (count // 2, 2) if match[3] == "halves" else (2, count // 2), dict(groups)
    for word in match[1].split(","):
        for name in _places(groups, word, f"--rotary={rotary}"):
            rotated[name] = [part._replace(head=head) for part in groups[name]]
    return rotated


def _split(groups: Mapping[str, list[Part]], split: str) -> dict[str, list[Part]]:
    """Groups after `qkv_proj=q_proj:64,k_proj:64`, in each place of it. Raises ToolError."""
    match = re.fullmatch(r"([\w.]+)=([\w.]+:\d+(?:,[\w.]+:\d+)*)", split)
    if match is None:
        raise ToolError(f"--split must be as qk_proj=q_proj:64,k_proj:64, but is '{split}'")
    parts = dict(groups)
    for name in _places(groups, match[1], f"--split={split}"):
        (whole,), start = parts.pop(name), 0
        for piece in match[2].split(","):
            own, _, count = piece.partition(":")
            rows = whole.rows[start : start + int(count)]
            parts[_renamed(name, match[1], own)] = [whole._replace(rows=rows)]
            start += int(count)
        if start != len(whole.rows):
            raise ToolError(f"--split={split}: '{name}' has {len(whole.rows)} rows, not {start}")
    return parts


def _shards(groups: Mapping[str, list[Part]], shard: str | None) -> dict[str, list[Part]]:
    """Groups after `rows:4` or `columns:4`: each has its number at the end. Raises ToolError."""
    if shard is None:
        return dict(groups)
    match = re.fullmatch(r"(rows|columns):([1-9]\d*)", shard)
    if match is None:
        raise ToolError(f"--shard must be as rows:4 or columns:4, but is '{shard}'")
    count, shards = int(match[2]), dict[str, list[Part]]()
    for name, parts in groups.items():
        for part in parts:
            length = len(part.rows if match[1] == "rows" else part.columns)
            if length % count:
                raise ToolError(f"--shard={shard}: '{part.module.name}' has {length} {match[1]}")
            for number in range(count):
                own = slice(length // count * number, length // count * (number + 1))
                cut = (
                    part._replace(rows=part.rows[own])
                    if match[1] == "rows"
                    else part._replace(columns=part.columns[own])
                )
                shards.setdefault(f"{name}.{number}", []).append(cut)
    return shards


def _places(groups: Mapping[str, object], word: str, option: str) -> list[str]:
    """The names that have a word between dots. Raises ToolError if there is none."""
    places = [name for name in groups if word in name.split(".")]
    if not places:
        raise ToolError(f"{option}: there is no '{word}'")
    return places


def _renamed(name: str, word: str, other: str) -> str:
    return ".".join(other if piece == word else piece for piece in name.split("."))
