"""
Models that packages ship, quantized by this package and by ONNX Runtime with the same records.

    pip install ".[onnx,iree,examples]" onnxruntime magika rapidocr-onnxruntime silero-vad pillow
    python benchmarks/trained_models.py

Records to calibrate and to test are other ones: files of this machine for magika, drawn lines of
text for PP-OCR, sounds like vowels for silero, and the images of scikit-learn's digits. Prints, for
each way, the share of the top answers of the float model that stay, the signal to noise of the
first result, and the processor time of all steps.
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
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdialect import Quantized
from qdialect.ptq.schemes.noise import Answers, Noise

Record = Mapping[str, NDArray[Any]]

LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


class Model(NamedTuple):
    """A trained model: its name, its file, its inputs, and what makes records of it."""

    name: str
    path: Callable[[Path], Path]
    """The file; the argument is a folder for files."""
    shapes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, float]
    records: Callable[[random.Random, Path], Iterator[Record]]
    """Makes records; the second argument is the file."""


def shipped(package: str, path: str) -> Callable[[Path], Path]:
    """A file of an installed package."""

    def find(_: Path) -> Path:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"{package} is not installed")
        return Path(spec.origin).parent / path

    return find


def files(chosen: random.Random, _: Path) -> Iterator[Record]:
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
        yield {"bytes": numbers[None]}


def lines(chosen: random.Random, _: Path) -> Iterator[Record]:
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
        yield {"x": ((np.asarray(drawn, "f4") / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None]}


RATE: Final = 16000


def vowel(random: np.random.Generator) -> NDArray[Any]:
    """A voiced sound: pulses of a pitch, through three resonances."""
    signal: Any = import_module("scipy.signal")
    length = int(RATE * random.uniform(0.1, 0.35))
    vibrato = 1 + 0.05 * np.sin(10 * np.pi * np.arange(length) / RATE)
    phase = np.cumsum(random.uniform(90, 220) * vibrato) / RATE
    sound = np.diff(np.floor(phase), prepend=0)
    for low, high, width in ((300, 800, 60), (900, 2200, 90), (2300, 3000, 150)):
        radius = np.exp(-np.pi * width / RATE)
        turn = 2 * radius * np.cos(2 * np.pi * random.uniform(low, high) / RATE)
        sound = signal.lfilter([1], [1, -turn, radius**2], sound)
    return sound / np.abs(sound).max() * random.uniform(0.1, 0.6) * np.hanning(length) ** 0.3


def sounds(chosen: random.Random, path: Path) -> Iterator[Record]:
    """Pieces of vowels and pauses, with the state that the model has there: every fourth piece."""
    random = np.random.default_rng(chosen.getrandbits(32))
    session: Any = import_module("onnxruntime").InferenceSession(str(path))
    state, waiting = np.zeros((2, 1, 128), "f4"), np.zeros(64)
    for number in count():
        while len(waiting) < 576:
            pause = np.zeros(int(RATE * random.choice([0.02, 0.05, 0.4])))
            more = np.concatenate([vowel(random), pause])
            waiting = np.concatenate([waiting, more + random.normal(size=len(more)) * 0.003])
        piece, waiting = waiting[None, :576].astype("f4"), waiting[512:]
        record = {"input": piece, "state": state}
        _, state = session.run(None, {**record, "sr": np.array(RATE)})
        if number % 4 == 0:
            yield record


EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "digits"


def exported(name: str) -> Callable[[Path], Path]:
    """A classifier of the example, as a file of ONNX."""

    def export(folder: Path) -> Path:
        path = folder / f"{name}.onnx"
        reading = [str(EXAMPLE / f"{name}.mlir"), "--allow-unregistered-dialect"]
        if import_module("qdialect.export.export_tool").main([*reading, "-o", str(path)]):
            raise ValueError(f"{name} cannot be exported")
        return path

    return export


def images(chosen: random.Random, _: Path) -> Iterator[Record]:
    sys.path.append(str(EXAMPLE))
    pixels = import_module("data").load_digits().evaluation.images
    for number in chosen.sample(range(len(pixels)), len(pixels)):
        yield {"arg0": pixels[number]}


MODELS: Final = (
    Model(
        "magika",
        shipped("magika", "models/standard_v3_3/model.onnx"),
        {"bytes": (1, 2048)},
        {},
        files,
    ),
    Model(
        "PP-OCRv4 recognition",
        shipped("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx"),
        {"x": (1, 3, 48, 320)},
        {},
        lines,
    ),
    Model(
        "silero-vad",
        shipped("silero_vad", "data/silero_vad_op18_ifless.onnx"),
        {"input": (1, 576), "state": (2, 1, 128)},
        {"sr": RATE},
        sounds,
    ),
    Model("digits, convolutions", exported("convolutions"), {}, {}, images),
    Model("digits, transformer", exported("transformer"), {}, {}, images),
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
    agreement: float | None
    decibels: float | None
    seconds: float


def seconds_of_children() -> float:
    """The processor time of this process, and of those that it has waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def of_qdialect(
    model: Model,
    path: Path,
    calibrated: Sequence[Record],
    tested: Sequence[Record],
    folder: Path,
    least: float,
) -> Iterator[Result]:
    np.savez(folder / "tested.npz", allow_pickle=False, **stacked(tested))
    quantized = Quantized(path, stacked(calibrated), folder=folder)

    def seconds_of_steps() -> float:
        # Those of children are known when the process that steps are copied from has ended.
        return sum(step.seconds for step in quantized.steps)

    quantized.import_model(model.shapes, model.values).put_in_order()
    before = seconds_of_steps()

    def result(way: str, start: float) -> Result:
        seconds = before + seconds_of_steps() - start
        quantized.evaluate("--data", str(folder / "tested.npz"))
        first = quantized.evaluation["results"][0]
        share = first["agreeing"] / first["answers"] if "answers" in first else None
        decibels = float(first["signal_to_noise"])
        return Result(model.name, way, share, decibels, seconds)

    known, calibration = "", 0.0
    for way, (reduction, options) in WAYS.items():
        if reduction != known:
            start = seconds_of_steps()
            quantized.calibrate(f"--reduction={reduction}")
            known, calibration = reduction, seconds_of_steps() - start
        start = seconds_of_steps()
        quantized.quantize(**options)
        yield result(way, start - calibration)
    if least:
        start = seconds_of_steps()
        quantized.calibrate().quantize().evaluate().reach(least)
        yield result(f"one-u8, at least {least:g} dB", start)


def stacked(records: Sequence[Record]) -> Record:
    """The arrays of records, along an axis more."""
    return {name: np.stack([record[name] for record in records]) for name in records[0]}


def of_onnxruntime(
    model: Model,
    path: Path,
    calibrated: Sequence[Record],
    tested: Sequence[Record],
    folder: Path,
) -> Iterator[Result]:
    runtime: Any = import_module("onnxruntime")
    quantization: Any = import_module("onnxruntime.quantization")
    shapes: Any = import_module("onnxruntime.tools.onnx_model_utils")
    onnx: Any = import_module("onnx")
    converter: Any = import_module("onnx.version_converter")
    loaded = onnx.load(str(path))
    for name, shape in model.shapes.items():
        shapes.make_input_shape_fixed(loaded.graph, name, shape)
    for name, number in model.values.items():
        (value,) = (value for value in loaded.graph.input if value.name == name)
        loaded.graph.input.remove(value)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        tensor = onnx.numpy_helper.from_array(np.array(number, dtype), name)
        loaded.graph.initializer.append(tensor)
    if loaded.opset_import[0].version < 17:
        loaded = converter.convert_version(loaded, 17)
    onnx.save(loaded, str(folder / "float.onnx"))
    preprocessing: Any = import_module("onnxruntime.quantization.shape_inference")
    try:
        # It takes the branches that are always taken, and merges normalizations.
        names = (str(folder / name) for name in ("float.onnx", "ordered.onnx"))
        preprocessing.quant_pre_process(*names)
        (folder / "ordered.onnx").replace(folder / "float.onnx")
    except Exception as error:
        print(f"{model.name} is not preprocessed: {error}", file=sys.stderr)

    def run(name: str) -> Sequence[NDArray[Any]]:
        session = runtime.InferenceSession(str(folder / name))
        return [session.run(None, record)[0] for record in tested]

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.records = iter(calibrated)

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
            print(f"{model.name}, {way}: {error}", file=sys.stderr)
            continue
        pairs = [*zip(expected, computed, strict=True)]
        noise = Noise.total(Noise.between(*pair) for pair in pairs)
        share = None
        if expected[0].shape[-1] > 1:
            answers = Answers.total(Answers.between(*pair) for pair in pairs)
            share = answers.agreeing / answers.count
        yield Result(model.name, way, share, noise.decibels, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=16, help="calibrated records")
    parser.add_argument("--tested", type=int, default=48, help="other records")
    parser.add_argument(
        "--at-least", type=float, default=0, help="the search for this many dB, too"
    )
    parser.add_argument("names", nargs="*", help="the models, by default all")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'model':<22}{'way':<28}{'same answer':>12}{'dB':>8}{'CPU s':>8}")
    for model in MODELS:
        if options.names and model.name not in options.names:
            continue
        with TemporaryDirectory() as folder:
            try:
                path = model.path(Path(folder))
            except ModuleNotFoundError as error:
                print(error, file=sys.stderr)
                continue
            records = [
                *islice(model.records(random.Random(1), path), options.records + options.tested)
            ]
            parts = records[: options.records], records[options.records :]
            ours = of_qdialect(model, path, *parts, Path(folder), options.at_least)
            for results in (ours, of_onnxruntime(model, path, *parts, Path(folder))):
                for row in results:
                    ratio = "" if row.decibels is None else f"{row.decibels:.1f}"
                    share = "" if row.agreement is None else f"{100 * row.agreement:.1f} %"
                    print(f"{row.model:<22}{row.way:<28}{share:>12}{ratio:>8}{row.seconds:>8.1f}")


if __name__ == "__main__":
    main()
