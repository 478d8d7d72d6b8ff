"""The results of a float model on records, which a calibration keeps for evaluations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from qdialect.support.lazy_numpy import NDArray, np

if TYPE_CHECKING:
    # Interpreters import numpy.
    from qdialect.check.interpreters import TypedArray


@dataclass(frozen=True)
class KeptResults:
    """
    Files of results in a folder, one for each record.

    Their names are hashes of the model and of the record, so that those of others are not taken.
    """

    folder: str
    model: bytes
    """What tells the function from others."""

    @classmethod
    def of(cls, folder: str, model: str, function: str) -> KeptResults:
        """Those of a function of the module in a file. Raises OSError."""
        with open(model, "rb") as file:
            return cls(folder, file_digest(file, "blake2b").digest() + function.encode())

    def have_all(self, records: Iterable[Sequence[TypedArray]]) -> bool:
        """Whether there are results of these records."""
        return all(self._path_of(record).exists() for record in records)

    def write(
        self,
        record: Sequence[TypedArray],
        results: Mapping[int, NDArray[Any]],
        seconds: Mapping[str, float],
    ) -> None:
        """Keep results by their numbers, and what groups of ops took. Raises OSError."""
        path = self._path_of(record)
        part = path.with_suffix(f".{os.getpid()}")
        arrays: dict[str, Any] = {str(number): result for number, result in results.items()}
        arrays["groups"] = np.array([*seconds], np.str_)
        arrays["seconds"] = np.array([*seconds.values()], np.float64)
        with open(part, "wb") as file:
            np.savez(file, **arrays)
        part.replace(path)

    def read(
        self, record: Sequence[TypedArray]
    ) -> tuple[Mapping[str, NDArray[Any]], Mapping[str, float]]:
        """The results of a record, by their numbers as text, and the seconds. Raises ValueError."""
        path = self._path_of(record)
        try:
            with np.load(path) as file:
                arrays = dict(file)
            groups, seconds = arrays.pop("groups"), arrays.pop("seconds")
        except (OSError, EOFError, KeyError, ValueError, BadZipFile) as error:
            raise ValueError(f"'{path}' is not read: {error}; calibrate again") from None
        return arrays, dict(zip(groups.tolist(), seconds.tolist(), strict=True))

    def _path_of(self, record: Sequence[TypedArray]) -> Path:
        hash = blake2b(self.model, digest_size=20)
        for value in record:
            hash.update(np.ascontiguousarray(value.elements).data)
        return Path(self.folder, f"{hash.hexdigest()}.npz")
