"""`qdialect weights`: plans of folds carried out on files of weights, and what such files hold."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
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
from qdialect.weights.manifest import Manifest, matches, read_manifest
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
from qdialect.weights.tensor_files import DTYPES, SAFETENSORS, FileFormat, read_header, sha256_of
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
    fold = actions.add_parser("fold", help="write the tensors that a plan has moved")
    quantize = actions.add_parser("quantize", help="write codes and scales of tensors of floats")
    verify = actions.add_parser("verify", help="compare written files with record and plan")
    info = actions.add_parser("info", help="list the tensors of files")
    for action in (fold, verify):
        action.add_argument("plan", metavar="PLAN", help="a plan, of qdialect-opt --fold-plan")
    for action in (fold, quantize, verify):
        action.add_argument(
            "--weights", required=True, metavar="MANIFEST", help="where the weights are"
        )
    verify.add_argument("output", metavar="DIR", help="the files to check")
    for action in (fold, quantize):
        _add_options_of_runs(action)
    _add_options_of_schemes(quantize)
    info.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="safetensors, a manifest, or a quantized checkpoint",
    )
    bring = actions.add_parser("import", help="write the weights of a quantized checkpoint")
    convert = actions.add_parser("convert", help="write a quantized checkpoint in another layout")
    for action in (info, bring, convert):
        action.add_argument(
            "--layout", metavar="NAME", help="that of its weights, where several would fit"
        )
    for action in (bring, convert):
        action.add_argument(
            "checkpoint", metavar="CHECKPOINT", help="a folder, or a file: GGUF, or a manifest"
        )
        action.add_argument(
            "--refused", default="fail", choices=("fail", "keep"), help="what does not fit (fail)"
        )
        action.add_argument(
            "--only", default="*", metavar="NAMES", help="the weights: '*.weight,head' are patterns"
        )
        _add_options_of_runs(action)
    convert.add_argument(
        "--config", metavar="FILE", help="the configuration of the model (that of CHECKPOINT)"
    )
    convert.add_argument("--to", required=True, choices=tuple(layouts()), help="the new layout")
    bring.add_argument(
        "--join", action="append", default=[], metavar="A,B=C", help="rows of A and B become C"
    )
    bring.add_argument(
        "--split", action="append", default=[], metavar="C=A:N,B:M", help="N rows of C become A"
    )
    bring.add_argument(
        "--rotary",
        action="append",
        default=[],
        metavar="A,B=ROWS:ORDER",
        help="the order of the rows of each head of ROWS rows becomes halves, or pairs",
    )
    bring.add_argument(
        "--offsets",
        default="refuse",
        choices=("refuse", "constants"),
        help="what is added to values: a second constant (refuse)",
    )
    bring.add_argument("--shard", metavar="AXIS:N", help="cut rows or columns into N parts")
    options = Namespace()
    status = run_tool(TOOL, lambda given: _run(parser.parse_args(given, options)), argv)
    return _KEPT if not status and getattr(options, "has_refused", False) else status


def _add_options_of_runs(action: ArgumentParser) -> None:
    action.add_argument(
        "-o", dest="output", required=True, metavar="DIR", help="the new files, or a URL for them"
    )
    action.add_argument(
        "--record",
        metavar="DIR",
        help="its record and manifest (the output, or for a URL .)",
    )
    action.add_argument(
        "--max-memory", type=int, default=256 * _MIB, metavar="BYTES", help="of buffers (2^28)"
    )
    action.add_argument(
        "--shard-size", type=int, default=4096 * _MIB, metavar="BYTES", help="of a file (2^32)"
    )
    action.add_argument("--jobs", type=int, default=1, metavar="N", help="the number of processes")
    action.add_argument(
        "--cluster", metavar="ADDRESS", help="a scheduler of Dask, or local:N for N workers here"
    )
    action.add_argument(
        "--resume", action="store_true", help="keep the files that a run before has completed"
    )


def _add_options_of_schemes(action: ArgumentParser) -> None:
    action.add_argument(
        "--scheme",
        default="torch-per-channel-symmetric",
        metavar="NAME",
        help="as the pass "
        "--quantize-weights has it, such as torch-i8, mxfp4 or nf4 (torch-per-channel-symmetric)",
    )
    action.add_argument(
        "--granularity", choices=("tensor", "channel", "block"), help="the elements of a scale"
    )
    action.add_argument("--storage", metavar="TYPE", help="the type of codes, such as i4")
    action.add_argument("--block-size", type=int, metavar="N", help="of blocks (32)")
    action.add_argument("--exponent", choices=EXPONENTS, help="the rule of exponents of MX (floor)")
    action.add_argument(
        "--otherwise",
        default="leave",
        choices=("leave", "coarser"),
        help="for tensors that blocks "
        "do not divide: they stay floats, or get a coarser granularity (leave)",
    )
    action.add_argument(
        "--axis", type=int, default=-1, metavar="N", help="the axis that layers sum over (-1)"
    )
    action.add_argument(
        "--only", default="*", metavar="NAMES", help="the tensors: '*.weight,head' are patterns"
    )


def _run(options: Namespace) -> bool:
    try:
        match options.action:
            case "fold":
                return _fold(options)
            case "quantize":
                return _quantize(options)
            case "verify":
                return _verify(options)
            case "import":
                return _import(options)
            case "convert":
                return _convert(options)
            case _:
                return _info(options)
    except MissingLibraryError as error:
        raise ToolError(str(error)) from None
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        raise ToolError(f"{place}{reason_of(error)}") from None
    except ValueError as error:
        raise ToolError(str(error)) from None


def _read(options: Namespace) -> tuple[dict[str, FileView], Manifest]:
    text = read_text(options.plan, "it must be written by qdialect-opt --fold-plan")
    manifest = _read_weights(options)
    return planned_views(plans_of_json(text), manifest), manifest


def _read_weights(options: Namespace) -> Manifest:
    return read_manifest(_absolute(options.weights))


def _absolute(place: str) -> str:
    """A place for workers, which have folders of their own."""
    return place if is_url(place) else str(Path(place).absolute())


def _fold(options: Namespace) -> bool:
    views, manifest = _read(options)
    return _write("folded", {key: Moved(view) for key, view in views.items()}, manifest, options)


def _quantize(options: Namespace) -> bool:
    manifest = _read_weights(options)
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
    members = {
        key: content.member(key)
        for key, content in contents.items()
        if isinstance(content, Imported)
    }
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
        if path.endswith(".gguf") or options.layout or Path(path).is_dir():
            tables.append(table_of(path, options.layout))
            continue
        if Path(path).suffix == ".json":
            tensors = [
                (stored.path, key, stored.entry)
                for key, stored in read_manifest(path).tensors.items()
            ]
        else:
            tensors = [(path, entry.name, entry) for entry in read_header(path).values()]
        for file, key, entry in tensors:
            shape = "x".join(map(str, entry.shape)) or "scalar"
            rows.append((key, DTYPES[entry.dtype][0], shape, f"{entry.nbytes}", Path(file).name))
    names = ("tensor", "type", "shape", "bytes", "file")
    if rows:
        tables.append(Table(f"{len(rows)} tensors", names, tuple(rows), 3))
    with standard_output() as stream:
        write_tables(stream, tables)
    return True
