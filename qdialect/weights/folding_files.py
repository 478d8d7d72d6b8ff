"""
Carrying out the plans of folds on files: each planned constant becomes a tensor of a new file.

Work is cut into tasks, one for each new file, which have nothing in common but what they read. A
task is plain data, and its result is a line of a record. So a run that ends anywhere is resumed by
another one, and all write the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from qdialect.algebra.movement import Movement, MovementError, Shape
from qdialect.algebra.padding import Pad
from qdialect.folding.fold_plan import FoldPlan, PlannedSource
from qdialect.ir.value_types import shape_of
from qdialect.weights.copying import Descriptors, copy_view
from qdialect.weights.manifest import FORMAT, VERSION, Manifest, tensor_of_type
from qdialect.weights.strided_views import (
    FileView,
    JoinedView,
    NeedsCopyError,
    StridedView,
    parts_of,
)
from qdialect.weights.tensor_files import (
    DTYPES,
    TensorInFile,
    WeightsError,
    part_of,
    read_header,
    sha256_of,
    sync_folder,
    writing,
)

RECORD: Final = "weights.jsonl"
"""The record of a folder: a line for each file that is whole."""

MANIFEST: Final = "weights.json"
"""The manifest of a folder: its tensors, and those of the files that it was made from."""


@dataclass(frozen=True)
class Scratch:
    """A tensor that is written to a file first, and moved from there."""

    view: FileView
    dtype: str


class FileTask(NamedTuple):
    """One file to write: its name, and the tensors that it holds."""

    name: str
    views: Mapping[str, FileView]

    @property
    def identity(self) -> str:
        """What the file depends on, as a hash: equal tasks write equal bytes."""
        text = repr(sorted(self.views.items()))
        for path in sorted({tensor.path for tensor in _tensors_of(self.views.values())}):
            status = os.stat(path)
            text += f"\n{path} {status.st_size} {status.st_mtime_ns}"
        return hashlib.sha256(text.encode()).hexdigest()


def planned_views(plans: Sequence[FoldPlan], manifest: Manifest) -> dict[str, FileView]:
    """
    The new tensors of plans by name, as movements of tensors of files; nothing is read.

    A plan may move what one before it has written. Raises WeightsError for elements that are in no
    file, and for movements that the shapes of the files do not allow.
    """
    views: dict[str, FileView] = {}
    for plan in plans:
        moved: dict[str, FileView] = {}
        for source in plan.sources:
            if source.resource is not None:
                moved[source.name] = views.get(source.resource) or _whole(manifest, source)
        for step in plan.steps:
            if all(name in moved for name in step.operands):
                operands = [moved[name] for name in step.operands]
                moved[step.name] = _moved(step.name, step.movements, operands)
        for constant in plan.constants:
            if (key := constant.resource) is None:
                continue
            if constant.name not in moved:
                raise WeightsError(f"{constant.name}: its elements are in no file of the manifest")
            shape = shape_of(constant.types[0]) or ()
            view = moved[constant.name]
            views[key] = view if view.shape == shape else _reshaped(view, shape)
    if not views:
        raise WeightsError("the plan writes no tensor of a file; was it made with --weights?")
    return views


def _whole(manifest: Manifest, source: PlannedSource) -> FileView:
    tensor = tensor_of_type(manifest[source.resource or ""], source.type)
    return StridedView.of(tensor, tensor.entry.shape)


def _moved(name: str, movements: Sequence[Movement], operands: Sequence[FileView]) -> FileView:
    """Views after the movements of a step, the first of which takes all."""
    for movement in movements:
        if isinstance(movement, Pad):
            raise WeightsError(f"{name}: padding is not part of a plan")
        try:
            movement.result_shape(*(operand.shape for operand in operands))
            try:
                operands = [movement(*operands)]
            except NeedsCopyError:
                operands = [movement(*map(_copied, operands))]
        except NeedsCopyError:
            raise WeightsError(f"{name}: {movement} takes too many runs of positions") from None
        except MovementError as error:
            raise WeightsError(f"{name}: {error}") from None
    (view,) = operands
    return view


def _reshaped(view: FileView, shape: Shape) -> FileView:
    try:
        return view.reshape(shape)
    except NeedsCopyError:
        return _copied(view).reshape(shape)


def _copied(view: FileView) -> FileView:
    return StridedView.of(Scratch(view, dtype_of(view)), view.shape)


def dtype_of(view: FileView) -> str:
    """The dtype of a view. Raises WeightsError if its parts have several."""
    dtypes = {
        part.tensor.dtype if isinstance(part.tensor, Scratch) else part.tensor.entry.dtype
        for part in parts_of(view)[0]
    }
    if len(dtypes) > 1:
        raise WeightsError(f"tensors of {' and '.join(sorted(dtypes))} are joined")
    return dtypes.pop()


def _tensors_of(views: Any) -> Iterator[TensorInFile]:
    """The tensors of files that views are made of."""
    pending = [part for view in views for part in parts_of(view)[0]]
    while pending:
        tensor = pending.pop().tensor
        if isinstance(tensor, Scratch):
            pending += parts_of(tensor.view)[0]
        else:
            yield tensor


def file_tasks(views: Mapping[str, FileView], shard_size: int) -> list[FileTask]:
    """The files for some tensors, of about `shard_size` bytes each, in the order of the sources."""

    def place(item: tuple[str, FileView]) -> tuple[str, int, str]:
        first = min(_tensors_of([item[1]]), key=lambda tensor: (tensor.path, tensor.entry.start))
        return first.path, first.entry.start, item[0]

    groups: list[dict[str, FileView]] = []
    filled = shard_size
    for key, view in sorted(views.items(), key=place):
        size = _nbytes(view)
        if filled + size > shard_size:
            groups.append({})
            filled = 0
        groups[-1][key] = view
        filled += size
    count = len(groups)
    return [
        FileTask(f"folded-{number:05}-of-{count:05}.safetensors", group)
        for number, group in enumerate(groups, 1)
    ]


def _nbytes(view: FileView) -> int:
    return DTYPES[dtype_of(view)].nbytes(view.shape)


def write_file(task: FileTask, folder: str, max_memory: int) -> dict[str, Any]:
    """
    Write one file; returns the line of the record.

    Raises OSError, and WeightsError for sources that are not as their headers said.
    """
    path = Path(folder) / task.name
    identity = task.identity
    # Whole cache lines first, so that each tensor is aligned and there are no gaps.
    keys = sorted(task.views, key=lambda key: -_alignment(task.views[key]))
    tensors = [(key, dtype_of(task.views[key]), task.views[key].shape) for key in keys]
    files = Descriptors()
    with ExitStack() as stack:
        stack.callback(files.close)
        writer = stack.enter_context(writing(path, tensors))
        for key in keys:
            with ExitStack() as scratch:
                view = _without_scratch(task.views[key], path, files, max_memory, scratch)
                copy_view(view, key, writer, files, max_memory)
        digest = writer.finish()
    return {
        "file": task.name,
        "task": identity,
        "sha256": digest,
        "bytes": path.stat().st_size,
        "read": files.bytes_read,
    }


def _alignment(view: FileView) -> int:
    nbytes = _nbytes(view)
    return nbytes & -nbytes & 63 if nbytes & 63 else 64


def _without_scratch(
    view: FileView, path: Path, files: Descriptors, max_memory: int, stack: ExitStack
) -> FileView:
    """The view of files, after those tensors are written that are moved from files of their own."""
    parts = list[StridedView]()
    for part in parts_of(view)[0]:
        scratch = part.tensor
        if not isinstance(scratch, Scratch):
            parts.append(part)
            continue
        inner = _without_scratch(scratch.view, path, files, max_memory, stack)
        place = part_of(path)
        stack.callback(place.unlink, missing_ok=True)
        with writing(place, [("scratch", scratch.dtype, scratch.view.shape)]) as writer:
            copy_view(inner, "scratch", writer, files, max_memory)
            writer.finish()
        entry = read_header(place)["scratch"]
        entry = entry._replace(dtype=scratch.dtype, shape=scratch.view.shape)
        tensor = TensorInFile(str(place), entry)
        parts.append(replace(part, tensor=tensor))
    return replace(view, parts=tuple(parts)) if isinstance(view, JoinedView) else parts[0]


def write_files(
    tasks: Sequence[FileTask],
    folder: Path,
    *,
    max_memory: int,
    executor: Executor | None = None,
    resume: bool = False,
) -> Iterator[dict[str, Any]]:
    """
    Write the files of all tasks; yields the lines of the record as they come.

    Tasks run in `executor`, or here. With `resume`, a file that is recorded with the same task and
    still has its hash stays. Raises WeightsError that names the tasks that failed, after all others
    have been done and recorded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for part in folder.glob("*.part"):
        part.unlink()
    record = folder / RECORD
    known = {line["file"]: line for line in read_record(folder)} if resume else {}
    whole = [line for task in tasks if (line := _if_whole(task, known, folder)) is not None]
    text = "".join(f"{json.dumps(line)}\n" for line in whole)
    record.write_text(text, encoding="utf-8")
    yield from whole
    done = {line["file"] for line in whole}
    left = [task for task in tasks if task.name not in done]
    failed: dict[str, BaseException] = {}
    with record.open("a", encoding="utf-8") as lines:
        for name, run in _runs(left, folder, max_memory, executor):
            try:
                line = run()
            # A lost worker is an error of the library.
            except Exception as error:
                failed[name] = error
                continue
            lines.write(f"{json.dumps(line)}\n")
            lines.flush()
            os.fsync(lines.fileno())
            yield line
    sync_folder(folder)
    if failed:
        reasons = "; ".join(f"{name}: {error}" for name, error in failed.items())
        raise WeightsError(f"{len(failed)} of {len(tasks)} files were not written: {reasons}")


def _runs(
    tasks: Sequence[FileTask], folder: Path, max_memory: int, executor: Executor | None
) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """For each task, its name, and a function that returns its line as soon as it is called."""
    if executor is None:
        for task in tasks:
            yield task.name, partial(write_file, task, str(folder), max_memory)
        return
    names = {
        executor.submit(write_file, task, str(folder), max_memory): task.name for task in tasks
    }
    for future in as_completed(names):
        yield names[future], future.result


def read_record(folder: Path) -> list[dict[str, Any]]:
    """The lines of a record; a last line that was cut off counts as missing. Raises OSError."""
    path = folder / RECORD
    if not path.exists():
        return []
    lines = list[dict[str, Any]]()
    for text in path.read_text(encoding="utf-8").split("\n"):
        try:
            line: Any = json.loads(text)
            lines.append({key: line[key] for key in ("file", "task", "sha256", "bytes", "read")})
        except (ValueError, KeyError, TypeError):
            continue
    return lines


def _if_whole(
    task: FileTask, known: Mapping[str, dict[str, Any]], folder: Path
) -> dict[str, Any] | None:
    line = known.get(task.name)
    path = folder / task.name
    if line is None or line["task"] != task.identity or not path.exists():
        return None
    return line if sha256_of(path) == line["sha256"] else None


def write_manifest(folder: Path, tasks: Sequence[FileTask], manifest: Manifest) -> None:
    """Write the manifest of a folder: of its tensors, and of those that they were made from."""
    sources = sorted({os.path.relpath(tensor.path, folder) for tensor in manifest.tensors.values()})
    values = {
        key: {"scope": "source", "key": tensor.entry.name}
        for key, tensor in manifest.tensors.items()
        if key != tensor.entry.name
    }
    scopes = {"folded": [task.name for task in tasks], "source": sources}
    content = {"format": FORMAT, "version": VERSION, "scopes": scopes, "values": values}
    part = folder / f"{MANIFEST}.part"
    part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    part.replace(folder / MANIFEST)
    sync_folder(folder)
