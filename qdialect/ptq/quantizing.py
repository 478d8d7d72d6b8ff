"""
The whole way from a model to a quantized one.

Each step is a subcommand of `qdialect`, in a process of its own: its memory is free at its end, and
it can be run again from the files that the steps leave in a folder. The processes are copies of one
that has read the module that they begin with (`qdialect.ptq.step_processes`).
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from io import StringIO
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import Any, Final, TypeAlias, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from qdialect.opt.child_processes import child_process
from qdialect.opt.outputs import Output, write_file
from qdialect.opt.registry import ToolContext
from qdialect.ptq.precision_search import (
    Candidate,
    Choice,
    candidates_of,
    decibels_of,
    least_raised,
)
from qdialect.ptq.step_processes import QuantizationError, StepProcesses
from qdialect.support.files import number_from_json
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.support.memory import DEFAULT_MAX_MEMORY
from qdialect.support.terminal import Displayed, Table, table_text
from qdialect.text import parse_module, write_module

Record: TypeAlias = "Mapping[str, NDArray[Any]] | Sequence[NDArray[Any]] | NDArray[Any]"
"""The arrays of one record: by the names of the arguments, in their order, or the only one."""

_BYTES_OF_FILE: Final = 1 << 26
"""From which number of bytes on records go to the next file."""

_ORDERED: Final = "ordered.mlir"
_QUANTIZED: Final = "quantized.mlir"
"""The modules that several steps read."""

_RESULTS: Final = "--results", "results"
"""The folder of the results of the float module."""

_ANY_DIALECT: Final = "--allow-unregistered-dialect"
"""Importers write ops of others, too, which runs know or name."""

_RAISED: Final = ("layer", "stored as", "signal to the noise it added (dB)", "bytes more")


@dataclass(frozen=True)
class Step:
    """A step that was run."""

    name: str
    arguments: tuple[str, ...]
    """Those of `qdialect`; files are relative to the folder."""
    seconds: float
    """The processor time."""
    peak: int
    """The most memory that it held, in bytes."""

    @property
    def command(self) -> str:
        """The step as a line of a shell."""
        return shlex.join(("qdialect", *self.arguments))


class Quantized(Displayed):
    """
    A model, its records, and what the steps make of them: the files in `folder`.

    The steps are methods, in this order: `import_model`, `put_in_order`, `calibrate`, `quantize`
    and `evaluate`. Each may be run again with other arguments, and those after it then too. All
    raise QuantizationError.
    """

    def __init__(
        self,
        model: object,
        records: object,
        *,
        folder: str | os.PathLike[str] | None = None,
        context: Context | None = None,
        report: Callable[[str], object] | None = None,
    ) -> None:
        """
        Prepare the folder, by default a new temporary one; see `quantize` for the arguments.

        `report` gets the line of each step before it runs, and what the steps print goes to
        standard error; by default, nothing is printed. Raises TypeError for other objects as model
        or records.
        """
        self.folder = Path(mkdtemp(prefix="qdialect-") if folder is None else folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.steps = list[Step]()
        self.raised = list[tuple[Candidate, str]]()
        """The layers that `reach` raised, and their storages."""
        self._settings: Mapping[str, str] = {}
        """The options of the last quantization."""
        self._report = report
        self._processes = StepProcesses(self.folder, is_quiet=report is None)
        self._model = self._file_of(model, context)
        self._records = self._files_of(records)

    # The steps

    def import_model(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, float] | None = None,
    ) -> Quantized:
        """
        Read the model as a module: `float.mlir`.

        `shapes` and `values` are those of inputs, as in `qdialect.frontends.from_onnx`. Other
        lengths that a file of ONNX leaves open are those of the records, if all have the same.
        """
        if Path(self._model).suffix == ".mlir" and not shapes and not values:
            self._run("import", ["opt", self._model, _ANY_DIALECT, "-o", "float.mlir"])
            return self
        options = [
            f"--shape={name}={','.join(map(str, shape))}" for name, shape in (shapes or {}).items()
        ]
        options += [f"--value={name}={number}" for name, number in (values or {}).items()]
        data = ["--data", self._records] if Path(self._model).suffix == ".onnx" else []
        self._run("import", ["import", self._model, *options, *data, "-o", "float.mlir"])
        return self

    def put_in_order(self, *passes: str) -> Quantized:
        """Merge what floats allow, by default batch normalizations: `ordered.mlir`."""
        flags = passes or ("--fold-batch-normalization=of-codes=true",)
        self._run("put in order", ["opt", "float.mlir", _ANY_DIALECT, *flags, "-o", _ORDERED])
        return self

    def calibrate(self, *options: str) -> Quantized:
        """Record the ranges of all values: `profile.json`. `options` are of `calibrate`."""
        data = ["--data", self._records, self._limit, _ANY_DIALECT]
        self._run(
            "calibrate",
            ["calibrate", _ORDERED, *data, *_RESULTS, *options, "-o", "profile.json"],
            _ORDERED,
        )
        return self

    def quantize(
        self, scheme: str | None = None, granularity: str = "channel", **options: str
    ) -> Quantized:
        """
        Quantize the module by its ranges: `quantized.mlir`, and `report.json` about each value.

        `options` are those of `--quantize-with-ranges`, with underscores in their names. Without a
        scheme, they are those of `one-u8` with `narrow_fixed`.
        """
        own = {"scheme": "one-u8", "narrow_fixed": "true"} if scheme is None else {"scheme": scheme}
        self._settings = {**own, "granularity": granularity, **options}
        self.raised = []
        self._quantize(self._settings)
        return self

    def _quantize(self, settings: Mapping[str, str]) -> None:
        words = " ".join(f"{name.replace('_', '-')}={word}" for name, word in settings.items())
        self._run(
            "quantize",
            [
                *("opt", _ORDERED, _ANY_DIALECT),
                "--attach-ranges=profile=profile.json finite=true",
                *(f"--quantize-with-ranges={words}", "--fold-quant-shapes=max-repetition=0"),
                *("--quantization-report=report.json", "-o", _QUANTIZED),
            ],
            _ORDERED,
        )

    def evaluate(self, *options: str, values: bool = False) -> Quantized:
        """
        Compare the results of both modules on the records, or all values: `evaluation.json`.

        The float module is not run again for results that `calibrate` has kept. `options` are of
        `evaluate`.
        """
        # A plot draws all values.
        values = values or "--plot" in options
        self._run(
            "evaluate",
            [
                *("evaluate", _ORDERED, _QUANTIZED, "--data", self._records),
                *("--json", "evaluation.json", "--worst", "0", "--times", self._limit),
                *(_ANY_DIALECT, *(() if values else _RESULTS), *options),
            ],
            *(_ORDERED, _QUANTIZED),
        )
        return self

    @property
    def _limit(self) -> str:
        """The option for runs: twice the weights more than usual, which have two digits a byte."""
        path = self.folder / _ORDERED
        size = path.stat().st_size if path.exists() else 0
        return f"--max-memory={DEFAULT_MAX_MEMORY + size}"

    def export(self, to: str, *options: str) -> Path:
        """
        Write the quantized module for an engine. Returns the file.

        `to` is its ending: `vmfb` for IREE, `onnx` for ONNX Runtime and others. `options` are of
        `qdialect export`.
        """
        name = f"quantized.{to}"
        arguments = ["export", _QUANTIZED, _ANY_DIALECT, "-o", name, *options]
        self._run("export", arguments, _QUANTIZED)
        return self.folder / name

    def reach(self, least: float, *options: str, accuracy: str | None = None) -> Quantized:
        """
        Raise the layers that lose most, until the score is at least `least`: see
        `precision_search`.

        The score is `signal_to_noise`, in dB, or the number that the command `accuracy` prints when
        it is run in the folder with the name of the quantized module behind it. Run `quantize` and
        `evaluate` before; `options` are of `evaluate`. `config.json` has the layers that are
        raised, and `trials.json` the scores, which are not computed again. Raises
        QuantizationError, also if floats are not good enough.
        """
        if self._score(accuracy) >= least:
            return self
        path = self.folder / "trials.json"
        settings = {
            "files": [self._digest(name) for name in (_ORDERED, "profile.json")],
            "records": self._records,
            "arguments": self._settings,
            "accuracy": accuracy,
            "options": options,
        }
        trials = _Trials(path, json.loads(json.dumps(settings)))
        report = json.loads((self.folder / "report.json").read_text())
        if not trials.candidates:
            if not self.evaluation.get("values"):
                self.evaluate(*options, values=True)
            trials.candidates = candidates_of(report, self.evaluation)
        candidates = trials.candidates

        written: Choice | None = None

        def write(choice: Choice) -> None:
            nonlocal written
            if choice != written:
                self._quantize_with(choice.settings(candidates))
                self.evaluate(*options)
                written = choice

        def score(choice: Choice) -> float:
            if choice not in trials.scores:
                write(choice)
                trials.scores[choice] = self._score(accuracy)
                trials.write()
            return trials.scores[choice]

        choice = least_raised(candidates, score, least)
        if choice is None:
            raise QuantizationError(f"no choice of layers has a score of {least:g}")
        write(choice)
        self.raised = [(item, choice.storage) for item in candidates[: choice.raised]]
        return self

    def _score(self, accuracy: str | None) -> float:
        """How good the quantized module is. Raises QuantizationError."""
        if accuracy is None:
            ratio = self.signal_to_noise
            if ratio is None:
                raise QuantizationError("no result has a signal to noise: none is a float")
            return ratio
        command = [*shlex.split(accuracy), _QUANTIZED]
        printed = self._printed_by(command)
        try:
            return float(printed)
        except ValueError:
            raise QuantizationError(
                f"'{accuracy}' must print a number, but printed '{printed.strip()}'"
            ) from None

    def _quantize_with(self, configuration: Mapping[str, Any]) -> None:
        """Quantize again, with a configuration. Raises QuantizationError."""
        write_file(str(self.folder / "config.json"), json.dumps(configuration, indent=1) + "\n")
        settings = {**self._settings, "config": "config.json"}
        if "default_quantization_dtype" in configuration:
            # The configuration names a scheme of 16 bits itself; ONE's have scales per channel.
            settings.pop("scheme", None)
            settings["granularity"] = "channel"
        self._quantize(settings)

    # What they make

    def module(self, context: Context | None = None) -> ModuleOp:
        """The quantized module. Its resources are kept in `context`."""
        path = self.folder / _QUANTIZED
        used = ToolContext(allow_unregistered=True) if context is None else context
        return parse_module(used, path.read_bytes(), str(path))

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of bytes of the text of the float module, and of the quantized one."""
        before, after = (os.path.getsize(self.folder / name) for name in (_ORDERED, _QUANTIZED))
        return before, after

    @property
    def evaluation(self) -> dict[str, Any]:
        """What `evaluate` found, as in docs/calibration.md; empty before it was run."""
        path = self.folder / "evaluation.json"
        return json.loads(path.read_text()) if path.exists() else {}

    @property
    def signal_to_noise(self) -> float | None:
        """The worst ratio of a result, in dB; None before `evaluate`, or without float results."""
        results = self.evaluation.get("results", ())
        ratios = (number_from_json(result["signal_to_noise"]) for result in results)
        return min((ratio for ratio in ratios if ratio is not None), default=None)

    @override
    def tables(self) -> tuple[Table, ...]:
        """What each step took, and how good the results are."""
        steps = [
            (step.name, f"{step.seconds:.1f}", f"{step.peak / 2**20:.0f}") for step in self.steps
        ]
        results = [
            (
                f"result {result['result']}" + (f" ('{result['key']}')" if result["key"] else ""),
                *_cells_of(result),
            )
            for result in self.evaluation.get("results", ())
        ]
        sizes = [("text of the module", *(f"{size / 2**20:.2f}" for size in self.sizes))]
        raised = [
            (", ".join(item.keys), storage, f"{decibels_of(item.noise):.2f}", str(item.bytes))
            for item, storage in self.raised
        ]
        names = "result", "signal to noise (dB)", "same top answer", "accuracy before", "after"
        return (
            Table("steps", ("step", "processor time (s)", "memory (MiB)"), (*steps,), 1),
            Table("size (MiB)", ("", "float", "quantized"), (*sizes,), 1),
            Table("raised layers", _RAISED, (*raised,), 2),
            Table("results", names, (*results,), 1),
            table_of_times(self.evaluation.get("times", ())),
        )

    @override
    def __repr__(self) -> str:
        stream = StringIO()
        stream.write(f"quantized model in {self.folder}\n\n")
        for table in self.tables():
            if table.rows:
                stream.write(table_text(table))
        return stream.getvalue().rstrip()

    # Files and processes

    def _run(self, name: str, arguments: Sequence[str], *shared: str) -> None:
        """Run a subcommand of `qdialect` as a step. Raises QuantizationError."""
        self._tell(["qdialect", *arguments])
        usage = self._processes.run(arguments, shared)
        self.steps.append(Step(name, (*arguments,), *usage))
        lines = "set -e", 'cd "$(dirname "$0")"', *(step.command for step in self.steps)
        write_file(str(self.folder / "steps.sh"), "".join(f"{line}\n" for line in lines))

    def _tell(self, command: Sequence[str]) -> None:
        if self._report is not None:
            self._report(shlex.join(command))

    def _printed_by(self, command: Sequence[str]) -> str:
        """What a command prints when it is run in the folder. Raises QuantizationError."""
        self._tell(command)
        with TemporaryFile() as errors:
            stderr = errors if self._report is None else None
            with child_process(command, stderr=stderr, folder=str(self.folder)) as process:
                assert process.stdout is not None
                printed = process.stdout.read()
            errors.seek(0)
            text = errors.read()
        if process.returncode:
            raise QuantizationError.of(command, text)
        return printed.decode()

    def _digest(self, name: str) -> str:
        """The SHA-256 of a file in the folder."""
        with open(self.folder / name, "rb") as file:
            return file_digest(file, "sha256").hexdigest()

    def _relative(self, path: str | os.PathLike[str]) -> str:
        """A path from the folder, where steps run."""
        return os.path.relpath(path, self.folder)

    def _file_of(self, model: object, context: Context | None) -> str:
        """The file of a model. Raises TypeError."""
        if isinstance(model, str | os.PathLike):
            return self._relative(cast("str | os.PathLike[str]", model))
        if isinstance(model, ModuleOp):
            used = ToolContext(allow_unregistered=True) if context is None else context
            with Output(str(self.folder / "model.mlir")) as output:
                write_module(used, model, output.stream)
                output.is_good = True
            return "model.mlir"
        # Only a program of torch needs torch.
        torch: Any = sys.modules.get("torch")
        if torch is not None and isinstance(model, torch.export.ExportedProgram):
            torch.export.save(model, self.folder / "model.pt2")
            return "model.pt2"
        raise TypeError(
            "model must be a path, a module or a torch.export.ExportedProgram, not an object of "
            f"type '{type(model).__name__}'"
        )

    def _files_of(self, records: object) -> str:
        """The file or the folder of the records. Raises TypeError."""
        if isinstance(records, str | os.PathLike):
            return self._relative(cast("str | os.PathLike[str]", records))
        if isinstance(records, Mapping):
            np.savez(self.folder / "records.npz", **cast("Mapping[str, Any]", records))
            return "records.npz"
        if not isinstance(records, Iterable):
            raise TypeError(
                "records must be a path, arrays by name, or an iterable of records, not an object "
                f"of type '{type(records).__name__}'"
            )
        folder = self.folder / "records"
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.npz"):
            old.unlink()
        for number, arrays in enumerate(_batches(map(_named, cast("Iterable[Record]", records)))):
            np.savez(folder / f"{number:06}.npz", allow_pickle=False, **arrays)
        return "records"


class _Trials:
    """The scores of choices that were tried, in a file, for the same settings."""

    def __init__(self, path: Path, settings: object) -> None:
        self._path, self._settings = path, settings
        self.candidates = list[Candidate]()
        self.scores = dict[Choice, float]()
        if path.exists():
            contents = json.loads(path.read_text())
            if contents["settings"] == settings:
                self.candidates = [
                    Candidate((*item[0],), *item[1:]) for item in contents["candidates"]
                ]
                self.scores = {Choice(*item[:2]): item[2] for item in contents["scores"]}

    def write(self) -> None:
        """Write the file. Raises ToolError and OSError."""
        scores = [[*choice, score] for choice, score in self.scores.items()]
        contents = {"settings": self._settings, "candidates": self.candidates, "scores": scores}
        write_file(str(self._path), json.dumps(contents, indent=1))


def _named(record: Record) -> Mapping[str, NDArray[Any]]:
    """The arrays of a record by the names of arguments."""
    if isinstance(record, Mapping):
        return {name: np.asarray(array) for name, array in record.items()}
    arrays = record if isinstance(record, list | tuple) else (record,)
    return {f"arg{number}": np.asarray(array) for number, array in enumerate(arrays)}


def _batches(
    records: Iterator[Mapping[str, NDArray[Any]]],
) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Several records in arrays with one axis more."""
    batch: list[Mapping[str, NDArray[Any]]] = []
    size = 0
    for record in records:
        batch.append(record)
        size += sum(array.nbytes for array in record.values())
        if size >= _BYTES_OF_FILE:
            yield _stacked(batch)
            batch, size = [], 0
    if batch:
        yield _stacked(batch)


def _stacked(batch: Sequence[Mapping[str, NDArray[Any]]]) -> Mapping[str, NDArray[Any]]:
    return {name: np.stack([record[name] for record in batch]) for name in batch[0]}


def _cells_of(result: Mapping[str, Any]) -> tuple[str, ...]:
    """What the table has of a result."""
    ratio = number_from_json(result["signal_to_noise"])
    count = result.get("answers", 0)
    counts = [result.get("agreeing"), *result.get("right", (None, None))]
    shares = ("" if part is None or not count else f"{100 * part / count:.2f} %" for part in counts)
    return ("" if ratio is None else f"{ratio:.2f}", *shares)


def table_of_times(rows: Iterable[tuple[str, float, float]]) -> Table:
    """The table of groups of ops, and of the seconds that each takes in both modules."""
    title = "times of groups of ops in the evaluation (ms for a record)"
    cells = ((name, *(f"{1000 * seconds:.2f}" for seconds in pair)) for name, *pair in rows)
    return Table(title, ("group", "float", "quantized"), (*cells,), 1)


def quantize(
    model: object,
    records: object,
    *,
    scheme: str | None = None,
    granularity: str = "channel",
    at_least: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    context: Context | None = None,
) -> Quantized:
    """
    Quantize a model by what its values are on records, and evaluate it on them.

    `model` is the path of an `.onnx`, `.tflite`, `.pt2` or `.mlir` file, a module (with its
    `context`, if that has its resources), or a `torch.export.ExportedProgram`. `records` is the
    path of an `.npz` file or a folder of them, a mapping of names of arguments to arrays, or an
    iterable of records: mappings, sequences of arrays in the order of the arguments, or arrays.
    `scheme` and `granularity` are those of `--quantize-with-ranges`; without a scheme, `one-u8`
    with `narrow-fixed`. If a result's signal to noise is below `at_least` dB, layers get 16 bits or
    stay float until it is not.

    The files of all steps are in `folder`, by default a new temporary one. Raises
    QuantizationError, with what the command of the failing step prints, and TypeError.
    """
    quantized = Quantized(model, records, folder=folder, context=context)
    quantized.import_model().put_in_order().calibrate()
    quantized.quantize(scheme, granularity).evaluate(values=at_least is not None)
    return quantized if at_least is None else quantized.reach(at_least)
