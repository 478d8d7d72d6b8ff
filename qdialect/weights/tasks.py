"""
Files that are written by tasks, here, in other processes, or on other machines.

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
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from qdialect.weights.copying import Descriptors
from qdialect.weights.manifest import FORMAT, VERSION, Manifest
from qdialect.weights.places import fingerprint, inside, is_url, writable
from qdialect.weights.tensor_files import (
    DTYPES,
    SAFETENSORS,
    FileFormat,
    FileWriter,
    NewTensor,
    TensorInFile,
    WeightsError,
    alignment,
    sha256_of,
    sync_folder,
    writing,
)

RECORD: Final = "weights.jsonl"
"""The record of a folder: a line for each file that is whole."""

MANIFEST: Final = "weights.json"
"""The manifest of a folder: its tensors, and those of the files that it was made from."""


class Content(Protocol):
    """What is made of tensors of files."""

    def sources(self) -> Iterator[TensorInFile]:
        """The tensors that are read."""
        ...

    def tensors(self, key: str) -> Sequence[NewTensor]:
        """The tensors that are written for a key."""
        ...

    def write(self, key: str, writer: FileWriter, files: Descriptors, max_memory: int) -> None:
        """Write them, with buffers of `max_memory` bytes. Raises OSError and WeightsError."""
        ...


class FileTask(NamedTuple):
    """One file to write: its name, and what it holds, by keys."""

    name: str
    contents: Mapping[str, Content]
    format: FileFormat = SAFETENSORS

    @property
    def identity(self) -> str:
        """What the file depends on, as a hash: equal tasks write equal bytes."""
        text = repr((sorted(self.contents.items()), self.format))
        paths = {tensor.path for content in self.contents.values() for tensor in content.sources()}
        for path in sorted(paths):
            text += f"\n{path} {fingerprint(path)}"
        return hashlib.sha256(text.encode()).hexdigest()

    def write(self, folder: str, max_memory: int) -> dict[str, Any]:
        """
        Write the file; returns the line of the record.

        Raises OSError, and WeightsError for sources that are not as their headers said.
        """
        identity = self.identity
        tensors = [new for key, content in self.contents.items() for new in content.tensors(key)]
        # Whole cache lines first, so that each tensor is aligned and there are no gaps.
        tensors.sort(key=lambda new: -alignment(new.dtype, new.shape))
        with (
            closing(Descriptors()) as files,
            writable(inside(folder, self.name)) as path,
            writing(path, tensors, self.format) as writer,
        ):
            # In the order of the file, so that it is hashed as it is written.
            order = {new.name: place for place, new in enumerate(tensors)}
            for key, content in sorted(
                self.contents.items(), key=lambda item: order[item[1].tensors(item[0])[0].name]
            ):
                content.write(key, writer, files, max_memory)
            digest = writer.finish()
        return {
            "file": self.name,
            "task": identity,
            "sha256": digest,
            "bytes": writer.size,
            "read": files.bytes_read,
        }


def file_tasks(
    contents: Mapping[str, Content], kind: str, shard_size: int, format: FileFormat = SAFETENSORS
) -> list[FileTask]:
    """
    The files for some contents, of about `shard_size` bytes each, in the order of the sources.

    Their names begin with `kind`.
    """

    def place(item: tuple[str, Content]) -> tuple[str, int, str]:
        first = min(item[1].sources(), key=lambda tensor: (tensor.path, tensor.entry.start))
        return first.path, first.entry.start, item[0]

    groups: list[dict[str, Content]] = []
    filled = shard_size
    for key, content in sorted(contents.items(), key=place):
        size = sum(DTYPES[new.dtype].nbytes(new.shape) for new in content.tensors(key))
        if filled + size > shard_size:
            groups.append({})
            filled = 0
        groups[-1][key] = content
        filled += size
    count = len(groups)
    return [
        FileTask(f"{kind}-{number:05}-of-{count:05}{format.suffix}", group, format)
        for number, group in enumerate(groups, 1)
    ]


def write_files(
    tasks: Sequence[FileTask],
    folder: Path,
    *,
    max_memory: int,
    executor: Executor | None = None,
    resume: bool = False,
    output: str | None = None,
) -> Iterator[dict[str, Any]]:
    """
    Write the files of all tasks; yields the lines of the record as they come.

    The record is in `folder`, and so are the files, if `output` is not another place.

    Tasks run in `executor`, or here. With `resume`, a file that is recorded with the same task and
    still has its hash stays. Raises WeightsError that names the tasks that failed, after all others
    have been done and recorded.
    """
    output = output or str(folder)
    for place in (folder, *(() if is_url(output) else (Path(output),))):
        place.mkdir(parents=True, exist_ok=True)
    _remove_parts(output)
    record = folder / RECORD
    known = {line["file"]: line for line in read_record(folder)} if resume else {}
    whole = [line for task in tasks if (line := _if_whole(task, known, output)) is not None]
    text = "".join(f"{json.dumps(line)}\n" for line in whole)
    record.write_text(text, encoding="utf-8")
    yield from whole
    done = {line["file"] for line in whole}
    left = [task for task in tasks if task.name not in done]
    failed: dict[str, BaseException] = {}
    with record.open("a", encoding="utf-8") as lines:
        for name, run in _runs(left, output, max_memory, executor):
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
    _remove_parts(output)
    sync_folder(folder)
    if failed:
        reasons = "; ".join(f"{name}: {error}" for name, error in failed.items())
        raise WeightsError(f"{len(failed)} of {len(tasks)} files were not written: {reasons}")


def _remove_parts(folder: str) -> None:
    """Remove what killed workers have left."""
    for part in () if is_url(folder) else Path(folder).glob("*.part"):
        part.unlink(missing_ok=True)


def _runs(
    tasks: Sequence[FileTask], folder: str, max_memory: int, executor: Executor | None
) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """For each task, its name, and a function that returns its line as soon as it is called."""
    if executor is None:
        for task in tasks:
            yield task.name, partial(task.write, folder, max_memory)
        return
    names = {executor.submit(task.write, folder, max_memory): task.name for task in tasks}
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
    task: FileTask, known: Mapping[str, dict[str, Any]], folder: str
) -> dict[str, Any] | None:
    line = known.get(task.name)
    if line is None or line["task"] != task.identity:
        return None
    try:
        return line if sha256_of(inside(folder, task.name)) == line["sha256"] else None
    except FileNotFoundError:
        return None


def write_manifest(
    folder: Path, kind: str, files: Sequence[str], manifest: Manifest, **members: object
) -> None:
    """Write the manifest of a folder: of new files, and of those that they were made from."""
    paths = {tensor.path for tensor in manifest.tensors.values()}
    sources = sorted(path if is_url(path) else os.path.relpath(path, folder) for path in paths)
    names = {key: tensor.entry.name for key, tensor in manifest.tensors.items()}
    values = {
        key: {"scope": "source", "key": name}
        for key, name in (*names.items(), *manifest.arguments.items())
        if key != name
    }
    scopes = {kind: files, "source": sources}
    content = {"format": FORMAT, "version": VERSION, "scopes": scopes, "values": values, **members}
    part = folder / f"{MANIFEST}.part"
    part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    part.replace(folder / MANIFEST)
    sync_folder(folder)
