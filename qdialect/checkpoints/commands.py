"""The commands of `qdialect weights` about quantized checkpoints."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from qdialect.checkpoints.converting import Converted
from qdialect.checkpoints.detection import Checkpoint, QuantizedModule, read_checkpoint
from qdialect.checkpoints.importing import Imported, imported, like_of, reader_of
from qdialect.checkpoints.layouts import Layout, layouts
from qdialect.checkpoints.matrices import RefusedError
from qdialect.opt.tool_error import ToolError
from qdialect.support.terminal import Table
from qdialect.weights.copying import Descriptors
from qdialect.weights.folding_files import Moved
from qdialect.weights.manifest import Manifest
from qdialect.weights.strided_views import StridedView
from qdialect.weights.tasks import Content
from qdialect.weights.tensor_files import DTYPES, TensorInFile


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
    if module.layout.offset:
        return "offset: values have an offset, which is no zero point"
    files = Descriptors()
    try:
        storage = reader_of(module, files).storage
    finally:
        files.close()
    text = like_of(storage).partition("<")[2]
    return text.rpartition(":")[0] if storage.codebook is None else storage.name


def contents_of(options: Namespace) -> tuple[dict[str, Imported], Manifest]:
    """
    The matrices that are imported, and the manifest of all other tensors.

    Raises as `read_checkpoint` does, and ToolError for matrices that are refused.
    """
    checkpoint = read_checkpoint(options.checkpoint, options.layout)
    groups = {name: [module] for name, module in _wanted(checkpoint, options).items()}
    for join in options.join:
        groups = _joined(groups, join)
    contents, refused = dict[str, Imported](), dict(checkpoint.refused)
    for name, modules in groups.items():
        try:
            contents[name] = imported(modules)
        except RefusedError as error:
            refused[name] = f"{modules[0].layout.name}: {error}"
    _tell(refused, options)
    if not contents:
        raise ToolError(f"{options.checkpoint}: no quantized weight that matches is imported")
    return contents, Manifest(_others(checkpoint))


def converted_contents(options: Namespace) -> tuple[dict[str, Content], Layout, int]:
    """
    The contents of a checkpoint in another layout, the layout, and the columns of its blocks.

    Raises as `contents_of`.
    """
    checkpoint = read_checkpoint(options.checkpoint, options.layout)
    contents, refused = dict[str, Content](), dict(checkpoint.refused)
    others, columns = dict(checkpoint.others), list[int]()
    files, target = Descriptors(), layouts()[options.to]
    wanted = _wanted(checkpoint, options)
    try:
        for name, module in checkpoint.modules.items():
            content = Converted(module, layouts(module.layout.bits)[options.to])
            try:
                if name in wanted:
                    content.check(files, options.max_memory)
                    contents[name.removesuffix(".weight")] = content
                    target = content.target
                    columns.append(content.columns)
                    continue
            except RefusedError as error:
                refused[name] = f"{module.layout.name}: {error}"
            others |= {tensor.entry.name: tensor for tensor in module.tensors.values()}
    finally:
        files.close()
    _tell(refused, options)
    if not contents:
        raise ToolError(f"{options.checkpoint}: no quantized weight that matches is converted")
    for name, tensor in others.items():
        contents[name] = Moved(StridedView.of(tensor, tensor.entry.shape))
    return contents, target, columns[0]


def _wanted(checkpoint: Checkpoint, options: Namespace) -> Mapping[str, QuantizedModule]:
    patterns = options.only.split(",")
    return {
        name: module
        for name, module in checkpoint.modules.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def _tell(refused: Mapping[str, str], options: Namespace) -> None:
    """Print what is refused. Raises ToolError if nothing may be."""
    lines = [f"{name}: {reason}" for name, reason in sorted(refused.items())]
    if lines and options.refused == "fail":
        raise ToolError(f"{len(lines)} weights are refused: " + "\n".join(lines))
    for line in lines:
        sys.stderr.write(f"{line}\n")


def _others(checkpoint: Checkpoint) -> Mapping[str, TensorInFile]:
    # A file of GGUF is no source of a manifest.
    return {
        name: tensor
        for name, tensor in checkpoint.others.items()
        if not tensor.path.endswith(".gguf")
    }


def _joined(
    groups: Mapping[str, list[QuantizedModule]], join: str
) -> dict[str, list[QuantizedModule]]:
    """Groups after `q_proj,k_proj=qkv_proj`, in each place of these. Raises ToolError."""
    match = re.fullmatch(r"([\w.,]+)=([\w.]+)", join)
    if match is None or len(parts := match[1].split(",")) < 2:
        raise ToolError(f"--join must be as q_proj,k_proj=qk_proj, but is '{join}'")
    joined, is_there = dict(groups), False
    for name in groups:
        pieces = name.split(".")
        if parts[0] not in pieces:
            continue
        at = len(pieces) - 1 - pieces[::-1].index(parts[0])
        names = [".".join([*pieces[:at], part, *pieces[at + 1 :]]) for part in parts]
        if not all(other in groups for other in names):
            raise ToolError(f"--join={join}: there is '{name}', but not all of the others")
        is_there = True
        joined[".".join([*pieces[:at], match[2], *pieces[at + 1 :]])] = [
            module for other in names for module in joined.pop(other)
        ]
    if not is_there:
        raise ToolError(f"--join={join}: there is no '{parts[0]}'")
    return joined
