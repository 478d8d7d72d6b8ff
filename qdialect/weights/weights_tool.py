"""`qdialect weights`: plans of folds carried out on files of weights, and what such files hold."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from qdialect.checkpoints.commands import contents_of, conversion_of, table_of
from qdialect.checkpoints.converting import write_configuration
from qdialect.checkpoints.detection import CONFIG
from qdialect.checkpoints.importing import Imported
from qdialect.checkpoints.layouts import layouts
from qdialect.folding.plan_json import plans_of_json
from qdialect.opt.module_tool import ModuleArgumentParser
from qdialect.opt.outputs import standard_output
from qdialect.opt.tool_error import ToolError, reason_of, run_tool
from qdialect.ptq.schemes.presets import EXPONENTS
from qdialect.support.extras import MissingLibraryError
from qdialect.support.files import read_text
from qdialect.support.terminal import Table, write_tables
from qdialect.weights.clusters import executor
from qdialect.weights.folding_files import Moved, planned_views
from qdialect.weights.manifest import Manifest, matches, read_manifest, tensors_of
from qdialect.weights.places import inside, is_url
from qdialect.weights.quantizing import Quantized, Rule, quantizable
from qdialect.weights.strided_views import FileView
from qdialect.weights.tasks import (
    MANIFEST,
    RECORD,
    Content,
    file_tasks,
    read_record,
    write_files,
    write_manifest,
)
from qdialect.weights.tensor_files import DTYPES, SAFETENSORS, FileFormat, sha256_of
from qdialect.weights.verification import differing_tensor

TOOL: Final = "qdialect weights"
"""The name that the tool's own errors begin with."""

_MIB: Final = 1 << 20

_KEPT: Final = 3
"""The exit status of `--refused=keep`, if something was refused."""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0; 1 if there was an error, which is on standard error; or 3 if weights
    were refused, and others were written.
    """
    parser = ModuleArgumentParser(
        TOOL,
        description="Move and quantize weights in files of safetensors, of any size, with little "
        "memory. See docs/weights.md.",
    )
    actions = parser.add_subparsers(dest="action", required=True, parser_class=ModuleArgumentParser)
    for name, (_, text) in _ACTIONS.items():
        _add_options(name, actions.add_parser(name, help=text).add_argument)
    options = Namespace()
    status = run_tool(TOOL, lambda given: _run(parser.parse_args(given, options)), argv)
    return _KEPT if not status and getattr(options, "has_refused", False) else status


def _add_options(action: str, add: Callable[..., object]) -> None:
    """Add the options of an action, by `add_argument` of its parser."""
    if action in ("fold", "verify"):
        add("plan", metavar="PLAN", help="a plan, of qdialect-opt --fold-plan")
    if action in ("fold", "quantize", "verify"):
        add("--weights", required=True, metavar="MANIFEST", help="where the weights are")
    if action == "verify":
        add("output", metavar="DIR", help="the files to check")
    if action == "info":
        text = "safetensors, a manifest, or a quantized checkpoint"
        add("files", nargs="+", metavar="FILE", help=text)
    if action in ("import", "convert"):
        text = "a folder, or a file: GGUF, ONNX, OpenVINO, or a manifest"
        add("checkpoint", metavar="CHECKPOINT", help=text)
        words = ("fail", "keep")
        add("--refused", default="fail", choices=words, help="what does not fit (fail)")
    if action in ("info", "import", "convert"):
        add("--layout", metavar="NAME", help="that of its weights, where several would fit")
    if action in ("fold", "quantize", "import", "convert"):
        _add_options_of_runs(add)
    if action in ("quantize", "import", "convert"):
        text = "the weights: '*.weight,head' are patterns"
        add("--only", default="*", metavar="NAMES", help=text)
    if action == "quantize":
        _add_options_of_schemes(add)
    if action == "convert":
        text = "the configuration of the model (that of CHECKPOINT)"
        add("--config", metavar="FILE", help=text)
        add("--to", required=True, choices=tuple(layouts()), help="the new layout")
    if action == "import":
        lists = {"action": "append", "default": list[str]()}
        add("--join", **lists, metavar="A,B=C", help="rows of A and B become C")
        add("--split", **lists, metavar="C=A:N,B:M", help="N rows of C become A")
        text = "the order of the rows of each head of ROWS rows becomes halves, or pairs"
        add("--rotary", **lists, metavar="A,B=ROWS:ORDER", help=text)
        words, text = ("refuse", "constants"), "what is added to values: a second constant (refuse)"
        add("--offsets", default="refuse", choices=words, help=text)
        text = "cut rows or columns into N parts"
        add("--shard", default=(), metavar="AXIS:N", help=text)


def _add_options_of_runs(add: Callable[..., object]) -> None:
    text = "the new files, or a URL for them"
    add("-o", dest="output", required=True, metavar="DIR", help=text)
    add("--record", metavar="DIR", help="its record and manifest (the output, or for a URL .)")
    sizes = {"--max-memory": (256, "of buffers (2^28)"), "--shard-size": (4096, "of a file (2^32)")}
    for name, (count, text) in sizes.items():
        add(name, type=int, default=count * _MIB, metavar="BYTES", help=text)
    add("--jobs", type=int, default=1, metavar="N", help="the number of processes")
    text = "a scheduler of Dask, or local:N for N workers here"
    add("--cluster", metavar="ADDRESS", help=text)
    text = "keep the files that a run before has completed"
    add("--resume", action="store_true", help=text)


def _add_options_of_schemes(add: Callable[..., object]) -> None:
    scheme = "torch-per-channel-symmetric"
    text = f"as the pass --quantize-weights has it, such as torch-i8, mxfp4 or nf4 ({scheme})"
    add("--scheme", default=scheme, metavar="NAME", help=text)
    words = ("tensor", "channel", "block")
    add("--granularity", choices=words, help="the elements of a scale")
    add("--storage", metavar="TYPE", help="the type of codes, such as i4")
    add("--block-size", type=int, metavar="N", help="of blocks (32)")
    add("--exponent", choices=EXPONENTS, help="the rule of exponents of MX (floor)")
    words, text = ("leave", "coarser"), "for tensors that blocks do not divide: they stay floats, "
    text += "or get a coarser granularity (leave)"
    add("--otherwise", default="leave", choices=words, help=text)
    add("--axis", type=int, default=-1, metavar="N", help="the axis that layers sum over (-1)")


def _run(options: Namespace) -> bool:
    try:
        return _ACTIONS[options.action][0](options)
    except MissingLibraryError as error:
        raise ToolError(str(error)) from None
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        raise ToolError(f"{place}{reason_of(error)}") from None
    except ValueError as error:
        raise ToolError(str(error)) from None


def _read(options: Namespace) -> tuple[dict[str, FileView], Manifest]:
    text = read_text(options.plan, "it must be written by qdialect-opt --fold-plan")
    manifest = read_manifest(_absolute(options.weights))
    return planned_views(plans_of_json(text), manifest), manifest


def _absolute(place: str) -> str:
    """A place for workers, which have folders of their own."""
    return place if is_url(place) else str(Path(place).absolute())


def _fold(options: Namespace) -> bool:
    views, manifest = _read(options)
    return _write("folded", {key: Moved(view) for key, view in views.items()}, manifest, options)


def _quantize(options: Namespace) -> bool:
    manifest = read_manifest(_absolute(options.weights))
    own = options.granularity, options.block_size, options.otherwise, options.axis
    rule = Rule(options.scheme, options.storage, options.exponent, *own)
    contents, patterns = dict[str, Quantized](), options.only.split(",")
    keys = [key for key in manifest.tensors if matches(key, patterns)]
    known = {part for weight in manifest.quantized.values() for part in weight.keys.values()}
    for key in keys:
        if key in known or key in manifest.quantized:
            sys.stderr.write(f"{TOOL}: '{key}' stays as it is: it is of a quantized weight\n")
        elif (reason := quantizable(manifest[key], rule)) is None:
            contents[key] = Quantized(manifest[key], rule)
        else:
            sys.stderr.write(f"{TOOL}: '{key}' stays as it is: {reason}\n")
    if not contents:
        raise ToolError(f"none of {len(keys)} tensors that match '{options.only}' is quantized")
    members = {key: content.member(key) for key, content in contents.items()}
    return _write("quantized", contents, manifest, options, quantized=members)


def _import(options: Namespace) -> bool:
    contents, manifest = contents_of(options)
    own = {key: content for key, content in contents.items() if isinstance(content, Imported)}
    members = {key: content.member(key) for key, content in own.items()}
    return _write("imported", contents, manifest, options, quantized=members)


def _convert(options: Namespace) -> bool:
    contents, section, format = conversion_of(options)
    _write("model", contents, Manifest({}), options, format)
    if format is not SAFETENSORS:
        return True
    folder = _folder_of(options)
    written = read_manifest(folder / MANIFEST).tensors
    names = {name: Path(tensor.path).name for name, tensor in written.items()}
    config = Path(options.config or Path(options.checkpoint) / CONFIG)
    write_configuration(folder, config, options.to, section, names)
    return True


def _folder_of(options: Namespace) -> Path:
    """Where the record and the manifest are."""
    own = "." if is_url(options.output) else options.output
    return Path(options.record or own).absolute()


def _write(
    kind: str,
    contents: Mapping[str, Content],
    manifest: Manifest,
    options: Namespace,
    format: FileFormat = SAFETENSORS,
    **members: object,
) -> bool:
    for name in ("jobs", "max_memory", "shard_size"):
        if getattr(options, name) < 1:
            raise ToolError(f"--{name.replace('_', '-')} must be 1 or more")
    output = _absolute(options.output)
    folder = _folder_of(options)
    # Only safetensors have a manifest, by which a tensor is found in one of several files.
    has_manifest = format is SAFETENSORS
    tasks = file_tasks(contents, kind, options.shard_size if has_manifest else sys.maxsize, format)
    with executor(options.jobs, options.cluster, options.max_memory) as runner:
        run = {"max_memory": options.max_memory, "resume": options.resume}
        lines = list(write_files(tasks, folder, executor=runner, output=output, **run))
    is_apart = output != str(folder)
    names = [inside(output, task.name) if is_apart else task.name for task in tasks]
    if has_manifest:
        write_manifest(folder, kind, names, manifest, **members)
    read, written = (sum(line[key] for line in lines) / _MIB for key in ("read", "bytes"))
    place = f"; the manifest is {folder / MANIFEST}" if has_manifest else ""
    sys.stderr.write(
        f"{TOOL}: {len(contents)} tensors in {len(tasks)} files of {output}: {read:.1f} MiB read, "
        f"{written:.1f} MiB written{place}\n"
    )
    return True


def _verify(options: Namespace) -> bool:
    folder = Path(options.output)
    views, _ = _read(options)
    known = {line["file"]: line for line in read_record(folder)}
    if not known:
        raise ToolError(f"{folder / RECORD}: it has no line of a whole file")
    written = read_manifest(folder / MANIFEST)
    places = {Path(tensor.path).name: tensor.path for tensor in written.tensors.values()}
    for name, line in known.items():
        place = places.get(name, inside(folder, name))
        if sha256_of(place) != line["sha256"]:
            raise ToolError(f"{place}: its SHA-256 is not that of {RECORD}")
    for key, view in views.items():
        if (reason := differing_tensor(view, written[key])) is not None:
            raise ToolError(f"{written[key].path}: tensor '{key}': {reason}")
    sys.stderr.write(f"{TOOL}: {len(views)} tensors in {len(known)} files are as planned\n")
    return True


def _info(options: Namespace) -> bool:
    rows, tables = list[tuple[str, ...]](), list[Table]()
    for path in options.files:
        if path.endswith((".gguf", ".onnx", ".xml")) or options.layout or Path(path).is_dir():
            tables.append(table_of(path, options.layout))
            continue
        is_json = Path(path).suffix == ".json"
        tensors = read_manifest(path).tensors if is_json else tensors_of([path])
        for key, tensor in tensors.items():
            entry, name = tensor.entry, Path(tensor.path).name
            shape = "x".join(map(str, entry.shape)) or "scalar"
            rows.append((key, DTYPES[entry.dtype].type, shape, f"{entry.nbytes}", name))
    names = ("tensor", "type", "shape", "bytes", "file")
    if rows:
        tables.append(Table(f"{len(rows)} tensors", names, tuple(rows), 3))
    with standard_output() as stream:
        write_tables(stream, tables)
    return True


_ACTIONS: Final[Mapping[str, tuple[Callable[[Namespace], bool], str]]] = {
    "fold": (_fold, "write the tensors that a plan has moved"),
    "quantize": (_quantize, "write codes and scales of tensors of floats"),
    "verify": (_verify, "compare written files with record and plan"),
    "info": (_info, "list the tensors of files"),
    "import": (_import, "write the weights of a quantized checkpoint"),
    "convert": (_convert, "write a quantized checkpoint in another layout"),
}
