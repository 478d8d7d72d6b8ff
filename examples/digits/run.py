"""
Calibrate, quantize and evaluate both models: accuracy on held-out images, for each variant.

    python examples/digits/run.py

Needs `pip install ".[examples]"`. `--output` keeps all modules, profiles and
evaluations.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from data import CALIBRATED, EVALUATED, write_records

from qdialect.opt import opt
from qdialect.ptq.tools import calibrate, evaluate

HERE: Final = Path(__file__).parent

MODELS: Final = ("convolutions", "transformer")

_RANGES: Final = "--attach-ranges=profile={profile}"

_I4: Final = (
    "--quantize-with-ranges=scheme=torch-i8 weight-scheme=glow-symmetric weight-storage=i4 "
    "granularity=channel otherwise=coarser"
)

VARIANTS: Final = {
    "float": (),
    "u8 layer": (_RANGES, "--quantize-with-ranges=scheme=one-u8 granularity=layer"),
    "u8 channel": (_RANGES, "--quantize-with-ranges=scheme=one-u8"),
    "i8 channel": (_RANGES, "--quantize-with-ranges=scheme=torch-i8"),
    "i4 block": (
        _RANGES,
        "--quantize-with-ranges=scheme=torch-i8 weight-scheme=glow-symmetric weight-storage=i4 "
        "granularity=block block-size=16 otherwise=coarser",
    ),
    "s16": (_RANGES, "--quantize-with-ranges=scheme=one-s16"),
    "u8 equalized": (
        _RANGES,
        "--equalize-inputs",
        "--quantize-with-ranges=scheme=one-u8 granularity=layer",
    ),
    "i4 channel": (_RANGES, _I4),
    "i4 equalized": (_RANGES, "--equalize-inputs=weight-bits=4", _I4),
}
"""The passes of each variant. {profile} is the file of the recorded ranges."""


class Result(NamedTuple):
    """What is found of a variant of a model, in percent, and in decibels for its result."""

    model: str
    variant: str
    accuracy: float
    agreement: float
    decibels: float


def run(folder: Path, models: Sequence[str], engine: str, evaluated: int) -> list[Result]:
    """Do all of it. Files go to the folder. Raises SystemExit with what a tool tells."""
    write_records(folder, evaluated, min(evaluated, CALIBRATED))
    results = list[Result]()
    for model in models:
        float_model, profile = HERE / f"{model}.mlir", folder / f"{model}.profile.json"
        records = folder / "calibration.npz"
        reading = ("--allow-unregistered-dialect",)
        options = (f"--engine={engine}", *reading)
        calibration = ("--data", records, "--channels", "-o", profile)
        _tool(calibrate.main, float_model, *calibration, *options)
        for variant, passes in VARIANTS.items():
            stem = f"{model}.{variant.replace(' ', '-')}"
            quantized, found = folder / f"{stem}.mlir", folder / f"{stem}.json"
            flags = [flag.format(profile=profile) for flag in passes]
            _tool(opt.main, float_model, *flags, "-o", quantized, *reading)
            data = ("--data", folder / "evaluation.npz", "--labels=label", "--json", found)
            tables = _tool(evaluate.main, float_model, quantized, *data, *options)
            (folder / f"{stem}.txt").write_text(tables, encoding="utf-8")
            results.append(_read(model, variant, found))
    return results


def _tool(main: Callable[[Sequence[str]], int], *arguments: object) -> str:
    """What a tool prints. Raises SystemExit with its errors, or after a signal."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([*map(str, arguments)])
    if status:
        raise SystemExit(err.getvalue() if status < 128 else status)
    return out.getvalue()


def _read(model: str, variant: str, path: Path) -> Result:
    found: Any = json.loads(path.read_text(encoding="utf-8"))
    (result,) = found["results"]
    decibels = {of["key"]: of["signal_to_noise"] for of in found["values"]}
    accuracy, agreement = (
        100 * of / result["answers"] for of in (result["right"][1], result["agreeing"])
    )
    return Result(model, variant, accuracy, agreement, float(decibels[result["key"]]))


def _end(number: int, frame: object) -> None:
    """End the process, and on the way delete the temporary folder."""
    raise SystemExit(128 + number)


def main() -> None:
    """Print the table."""
    for name in {"SIGINT", "SIGTERM", "SIGHUP"} & {*dir(signal)}:
        signal.signal(getattr(signal, name), _end)
    parser = argparse.ArgumentParser(description="Print the accuracy of all variants.")
    parser.add_argument("--engine", choices=("numpy", "iree", "reference"), default="numpy")
    parser.add_argument("--records", type=int, default=EVALUATED, help="how many are evaluated")
    parser.add_argument("--output", type=Path, help="a folder for all files, which are kept")
    options = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results = run(folder, MODELS, options.engine, options.records)
    print(f"{'model':14}{'variant':14}{'accuracy':>10}{'agreement':>11}{'result (dB)':>13}")
    for of in results:
        percents = f"{of.accuracy:>8.2f} %{of.agreement:>9.2f} %"
        print(f"{of.model:14}{of.variant:14}{percents}{of.decibels:>13.2f}")


if __name__ == "__main__":
    sys.exit(main())
