"""
Files by their paths, or by URLs such as `s3://bucket/model.safetensors`, which fsspec reads.

https://filesystem-spec.readthedocs.io. Bytes of a URL are read by ranges, and a file is put there
in one piece, so that there is the whole file or none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from errno import ENOENT
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from qdialect.support.extras import MissingLibraryError, library

_Result = TypeVar("_Result")


def is_url(place: str | os.PathLike[str]) -> bool:
    """Whether a place is a URL."""
    return "://" in os.fspath(place)


def beside(place: str | os.PathLike[str], name: str) -> str:
    """A name that a file has for another place: a URL, or a path relative to its folder."""
    if is_url(name):
        return name
    folder = os.fspath(place).rpartition("/")[0] if is_url(place) else Path(place).parent
    return inside(folder, name)


def inside(folder: str | os.PathLike[str], name: str) -> str:
    """The place of a file in a folder."""
    return f"{os.fspath(folder)}/{name}" if is_url(folder) else str(Path(folder) / name)


def open_place(place: str | os.PathLike[str]) -> FileIO:
    """The bytes of a file, to be read. Raises OSError, and MissingLibraryError without fsspec."""
    if not is_url(place):
        return FileIO(place)
    # Its files have the methods of a FileIO; a range is read when it is asked for.
    return _of_url(place, lambda files, path: files.open(path, "rb", cache_type="none"))


def fingerprint(place: str | os.PathLike[str]) -> str:
    """What is another text if a file is changed. Raises as `open_place` does."""
    if is_url(place):
        return _of_url(place, lambda files, path: str(files.ukey(path)))
    status = os.stat(place)
    return f"{status.st_size} {status.st_mtime_ns}"


@contextmanager
def writable(place: str) -> Generator[Path]:
    """A path that a file is written to, which is then at its place. Raises as `open_place` does."""
    if not is_url(place):
        yield Path(place)
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / place.rpartition("/")[2]
        yield path
        _of_url(place, lambda files, target: files.put_file(str(path), target))


def _of_url(place: str | os.PathLike[str], call: Callable[[Any, str], _Result]) -> _Result:
    """The result of a call with a file system and a path."""
    try:
        files, path = library("fsspec", "cluster").core.url_to_fs(os.fspath(place))
        return call(files, path)
    except FileNotFoundError:
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), os.fspath(place)) from None
    except (OSError, MissingLibraryError):
        raise
    # Libraries of object stores have errors of their own.
    except Exception as error:
        raise OSError(f"{os.fspath(place)}: {error}") from None
