"""`qdialect weights`: plans of folds carried out on files of weights, and what such files hold."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from qdialect.folding.fold_plan import FoldPlan
from qdialect.folding.plan_json import plans_of_json
from qdialect.opt.module_tool import ModuleArgumentParser
from qdialect.opt.outputs import standard_output
from qdialect.opt.tool_error import ToolError, reason_of, run_tool
from qdialect.support.extras import MissingLibraryError
from qdialect.support.files import read_text
from qdialect.support.terminal import Table, write_tables
from qdialect.weights.clusters import executor
from qdialect.weights.folding_files import (
    MANIFEST,
    RECORD,
    file_tasks,
    planned_views,
    read_record,
    write_files,
    write_manifest,
)
from qdialect.weights.manifest import Manifest, read_manifest
from qdialect.weights.tensor_files import DTYPES, read_header, sha256_of
from qdialect.weights.verification import differing_tensor

TOOL: Final = "qdialect weights"
"""The name that the tool's own errors begin with."""

_MIB: Final = 1 << 20


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 if there was an error, which is on standard error.
    """
    parser = ModuleArgumentParser(
        TOOL,
        description="Move weights that are in files of safetensors, as the plan of a fold says, "
        "with little memory, whatever their size. See docs/weights.md.",
    )
    actions = parser.add_subparsers(dest="action", required=True, parser_class=ModuleArgumentParser)
    fold = actions.add_parser("fold", help="write the tensors that a plan has moved")
    verify = actions.add_parser("verify", help="compare written files with record and plan")
    info = actions.add_parser("info", help="list the tensors of files")
    for action in (fold, verify):
        action.add_argument("plan", metavar="PLAN", help="a plan, of qdialect-opt --fold-plan")
        action.add_argument(
            "--weights", required=True, metavar="MANIFEST", help="where the weights are"
        )
    fold.add_argument("-o", dest="output", required=True, metavar="DIR", help="the new files")
    verify.add_argument("output", metavar="DIR", help="the files to check")
    fold.add_argument(
        "--max-memory", type=int, default=256 * _MIB, metavar="BYTES", help="of buffers (2^28)"
    )
    fold.add_argument(
        "--shard-size", type=int, default=4096 * _MIB, metavar="BYTES", help="of a file (2^32)"
    )
    fold.add_argument("--jobs", type=int, default=1, metavar="N", help="the number of processes")
    fold.add_argument(
        "--cluster", metavar="ADDRESS", help="a scheduler of Dask, or local:N for N workers here"
    )
    fold.add_argument(
        "--resume", action="store_true", help="keep the files that a run before has completed"
    )
    info.add_argument("files", nargs="+", metavar="FILE", help="safetensors, or a manifest")
    return run_tool(TOOL, lambda arguments: _run(parser.parse_args(arguments)), argv)


def _run(options: Namespace) -> bool:
    try:
        match options.action:
            case "fold":
                return _fold(options)
            case "verify":
                return _verify(options)
            case _:
                return _info(options.files)
    except MissingLibraryError as error:
        raise ToolError(str(error)) from None
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        raise ToolError(f"{place}{reason_of(error)}") from None
    except ValueError as error:
        raise ToolError(str(error)) from None


def _read(options: Namespace) -> tuple[Sequence[FoldPlan], Manifest]:
    text = read_text(options.plan, "it must be written by qdialect-opt --fold-plan")
    return plans_of_json(text), read_manifest(Path(options.weights).absolute())


def _fold(options: Namespace) -> bool:
    for name in ("jobs", "max_memory", "shard_size"):
        if getattr(options, name) < 1:
            raise ToolError(f"--{name.replace('_', '-')} must be 1 or more")
    # Workers have folders of their own.
    folder = Path(options.output).absolute()
    plans, manifest = _read(options)
    tasks = file_tasks(planned_views(plans, manifest), options.shard_size)
    with executor(options.jobs, options.cluster, options.max_memory) as runner:
        run = {"max_memory": options.max_memory, "resume": options.resume}
        lines = list(write_files(tasks, folder, executor=runner, **run))
    write_manifest(folder, tasks, manifest)
    read, written = (sum(line[key] for line in lines) / _MIB for key in ("read", "bytes"))
    tensors = sum(len(task.views) for task in tasks)
    sys.stderr.write(
        f"{TOOL}: {tensors} tensors in {len(tasks)} files of {folder}: {read:.1f} MiB read, "
        f"{written:.1f} MiB written; the manifest is {folder / MANIFEST}\n"
    )
    return True


def _verify(options: Namespace) -> bool:
    folder = Path(options.output)
    plans, manifest = _read(options)
    known = {line["file"]: line for line in read_record(folder)}
    if not known:
        raise ToolError(f"{folder / RECORD}: it has no line of a whole file")
    for name, line in known.items():
        if sha256_of(folder / name) != line["sha256"]:
            raise ToolError(f"{folder / name}: its SHA-256 is not that of {RECORD}")
    views = planned_views(plans, manifest)
    written = read_manifest(folder / MANIFEST)
    for key, view in views.items():
        if (reason := differing_tensor(view, written[key])) is not None:
            raise ToolError(f"{written[key].path}: tensor '{key}': {reason}")
    sys.stderr.write(f"{TOOL}: {len(views)} tensors in {len(known)} files are as planned\n")
    return True


def _info(paths: Sequence[str]) -> bool:
    rows = list[tuple[str, ...]]()
    for path in paths:
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
    with standard_output() as stream:
        write_tables(stream, [Table(f"{len(rows)} tensors", names, tuple(rows), 3)])
    return True
