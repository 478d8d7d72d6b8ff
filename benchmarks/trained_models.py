"""
Models that packages ship, quantized by this package and by ONNX Runtime with the same records.

    pip install ".[onnx,iree]" onnxruntime magika rapidocr-onnxruntime pillow matplotlib
    python benchmarks/trained_models.py

Records to calibrate and to test are other ones: files of this machine for magika, drawn lines of
text for PP-OCR. Prints, for each way, the share of the top answers of the float model that stay,
the signal to noise of the result, and the processor time of all steps.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdialect import Quantized
from qdialect.ptq.schemes.noise import Answers, Noise

Records = NDArray[Any]

LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


class Model(NamedTuple):
    """A model of a package: its file there, its input, and what makes records of it."""

    package: str
    path: str
    name: str
    shape: tuple[int, ...]
    records: Callable[[random.Random], Iterator[NDArray[Any]]]


def files(chosen: random.Random) -> Iterator[NDArray[Any]]:
    """The beginnings and the ends of files, as magika reads them; 256 stands for no byte."""
    roots = (Path(sys.prefix), Path(os.__file__).parent, Path("/usr/share"), Path("/usr/lib"))
    paths = [path for root in roots for path in root.rglob("*.*") if path.is_file()]
    chosen.shuffle(paths)
    for path in paths:
        content = path.read_bytes() if os.access(path, os.R_OK) else b""
        if len(content) < 64:
            continue
        start, end = content.lstrip()[:1024], content.rstrip()[-1024:]
        numbers = np.full(2048, 256, "i4")
        numbers[: len(start)] = [*start]
        numbers[2048 - len(end) :] = [*end]
        yield numbers[None]


def lines(chosen: random.Random) -> Iterator[NDArray[Any]]:
    """Images of random words."""
    image, draw, fonts = (
        import_module(f"PIL.{name}") for name in ("Image", "ImageDraw", "ImageFont")
    )
    folder = Path(str(import_module("matplotlib").get_data_path())) / "fonts" / "ttf"
    while True:
        text = "".join(chosen.choices(LETTERS, k=chosen.randint(6, 14)))
        font = fonts.truetype(str(folder / "DejaVuSans.ttf"), chosen.randint(22, 32))
        drawn = image.new("RGB", (320, 48), "white")
        draw.Draw(drawn).text((chosen.randint(2, 10), chosen.randint(2, 8)), text, "black", font)
        yield ((np.asarray(drawn, "f4") / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None]


MODELS: Final = (
    Model("magika", "models/standard_v3_3/model.onnx", "bytes", (1, 2048), files),
    Model("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", "x", (1, 3, 48, 320), lines),
)

WAYS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "one-u8": ("whole", {"scheme": "one-u8"}),
    "torch-i8": ("whole", {"scheme": "torch-i8"}),
    "one-u8, sums of products": ("whole", {"scheme": "one-u8", "ops": "sums-of-products"}),
    "one-s16": ("whole", {"scheme": "one-s16"}),
    "one-u8, mse": ("mse", {"scheme": "one-u8"}),
    "one-u8, mse, sums of products": ("mse", {"scheme": "one-u8", "ops": "sums-of-products"}),
}
"""For each way, the reduction of ranges, and the options of the quantization."""


class Result(NamedTuple):
    """What is measured of one way."""

    model: str
    way: str
    agreement: float
    decibels: float | None
    seconds: float


def seconds_of_children() -> float:
    """The processor time of this process, and of those that it has waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def of_qdialect(
    model: Model, path: Path, calibrated: Records, tested: Records, folder: Path, least: float
) -> Iterator[Result]:
    np.savez(folder / "tested.npz", allow_pickle=False, **{model.name: tested})
    start = seconds_of_children()
    quantized = Quantized(path, {model.name: calibrated}, folder=folder)
    quantized.import_model({model.name: model.shape}).put_in_order()
    before = seconds_of_children() - start

    def result(way: str, start: float) -> Result:
        seconds = before + seconds_of_children() - start
        quantized.evaluate("--data", str(folder / "tested.npz"))
        (only,) = quantized.evaluation["results"]
        share = only["agreeing"] / only["answers"]
        return Result(model.package, way, share, quantized.signal_to_noise, seconds)

    known, calibration = "", 0.0
    for way, (reduction, options) in WAYS.items():
        if reduction != known:
            start = seconds_of_children()
            quantized.calibrate(f"--reduction={reduction}")
            known, calibration = reduction, seconds_of_children() - start
        start = seconds_of_children()
        quantized.quantize(**options)
        yield result(way, start - calibration)
    if least:
        start = seconds_of_children()
        quantized.calibrate().quantize().evaluate()
        quantized.reach(least)
        yield result(f"one-u8, at least {least:g} dB", start)


def of_onnxruntime(
    model: Model, path: Path, calibrated: Records, tested: Records, folder: Path
) -> Iterator[Result]:
    runtime: Any = import_module("onnxruntime")
    quantization: Any = import_module("onnxruntime.quantization")
    shapes: Any = import_module("onnxruntime.tools.onnx_model_utils")
    onnx: Any = import_module("onnx")
    converter: Any = import_module("onnx.version_converter")
    loaded = onnx.load(str(path))
    shapes.make_input_shape_fixed(loaded.graph, model.name, model.shape)
    if loaded.opset_import[0].version < 17:
        loaded = converter.convert_version(loaded, 17)
    onnx.save(loaded, str(folder / "float.onnx"))

    def run(name: str) -> Sequence[NDArray[Any]]:
        session = runtime.InferenceSession(str(folder / name))
        return [session.run(None, {model.name: record})[0] for record in tested]

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.records = iter({model.name: record} for record in calibrated)

        def get_next(self) -> Mapping[str, NDArray[Any]] | None:
            return next(self.records, None)

    expected = run("float.onnx")
    for way, kind in (("onnxruntime u8", "QUInt8"), ("onnxruntime i8", "QInt8")):
        start = seconds_of_children()
        try:
            quantization.quantize_static(
                str(folder / "float.onnx"),
                str(folder / "quantized.onnx"),
                Reader(),
                per_channel=True,
                activation_type=getattr(quantization.QuantType, kind),
                weight_type=quantization.QuantType.QInt8,
                extra_options={"QDQDisableWeightAdjustForInt32Bias": True},
            )
            seconds = seconds_of_children() - start
            computed = run("quantized.onnx")
        except Exception as error:
            print(f"{model.package}, {way}: {error}", file=sys.stderr)
            continue
        pairs = [*zip(expected, computed, strict=True)]
        answers = Answers.total(Answers.between(*pair) for pair in pairs)
        noise = Noise.total(Noise.between(*pair) for pair in pairs)
        share = answers.agreeing / answers.count
        yield Result(model.package, way, share, noise.decibels, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=16, help="calibrated records")
    parser.add_argument("--tested", type=int, default=48, help="other records")
    parser.add_argument(
        "--at-least", type=float, default=0, help="the search for this many dB, too"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'model':<22}{'way':<28}{'same answer':>12}{'dB':>8}{'CPU s':>8}")
    for model in MODELS:
        if (spec := find_spec(model.package)) is None or spec.origin is None:
            print(f"{model.package} is not installed", file=sys.stderr)
            continue
        made = model.records(random.Random(1))
        all_records = np.stack([next(made) for _ in range(options.records + options.tested)])
        parts = all_records[: options.records], all_records[options.records :]
        path = Path(spec.origin).parent / model.path
        with TemporaryDirectory() as folder:
            ours = of_qdialect(model, path, *parts, Path(folder), options.at_least)
            for results in (ours, of_onnxruntime(model, path, *parts, Path(folder))):
                for row in results:
                    ratio = "" if row.decibels is None else f"{row.decibels:.1f}"
                    share = f"{100 * row.agreement:.1f} %"
                    print(f"{row.model:<22}{row.way:<28}{share:>12}{ratio:>8}{row.seconds:>8.1f}")


if __name__ == "__main__":
    main()
