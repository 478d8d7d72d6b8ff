"""
How long float32 weights take to be quantized to i8 per channel, beside torch, and in what memory.

`python benchmarks/quantized_weights.py` prints a row for each shape: the median time of five runs
of `quantize_array`, that of torch's per-channel observer and `quantize_per_channel` where torch is
installed, in turns, with two threads each, and their ratio; and the most memory that a process of
its own took besides the input, of which the codes are a quarter of the size of the input.
`--mib N` is the size of the weights, 256 by default. `--formats` prints the processor time of each
format of weights over that of i8 per channel, with one thread.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdialect.ptq.schemes.arrays import quantize_array
from qdialect.ptq.schemes.presets import (
    FORMATS,
    I8,
    scheme_of_format,
    torch_per_channel_symmetric,
)
from qdialect.ptq.schemes.schemes import Blocks

RUNS = 5
THREADS = 2
Run = Callable[[NDArray[np.float32], int], object]


def shapes(mib: int) -> dict[str, tuple[tuple[int, ...], int]]:
    """Shapes of `mib` MiB of float32, and the axis of their channels."""
    rows = mib * 64
    return {
        "linear": ((rows, 4096), 0),
        "transposed linear": ((4096, rows), 1),
        "OIHW convolution": ((rows * 4096 // (512 * 9), 512, 3, 3), 0),
        "HWIO convolution": ((3, 3, rows * 4096 // (512 * 9), 512), 3),
        "channels of 64": ((rows * 64, 64), 0),
        "channels of 32": ((rows * 128, 32), 0),
        "depthwise convolution": ((rows * 4096 // 9, 1, 3, 3), 0),
    }


def by_qdialect(weights: NDArray[np.float32], axis: int) -> object:
    """What `quantize_array` makes of weights."""
    scheme = torch_per_channel_symmetric(I8)
    return quantize_array(weights, scheme, Blocks.per_axis(axis), threads=THREADS)


def by_torch(weights: NDArray[np.float32], axis: int) -> object:
    """What torch's per-channel observer and `quantize_per_channel` make of weights."""
    # It may not be installed.
    torch: Any = import_module("torch")
    observer: Any = import_module("torch.ao.quantization.observer")
    torch.set_num_threads(THREADS)
    observe: Any = observer.PerChannelMinMaxObserver(
        ch_axis=axis, dtype=torch.qint8, qscheme=torch.per_channel_symmetric
    )
    tensor: Any = torch.from_numpy(weights)
    observe(tensor)
    scales, zero_points = observe.calculate_qparams()
    return torch.quantize_per_channel(tensor, scales, zero_points, axis, torch.qint8)


WAYS: dict[str, Run] = {"qdialect": by_qdialect, "torch": by_torch}


def random_weights(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Normally distributed numbers, made in no more memory than they take."""
    weights = np.empty(shape, "f4")
    flat = weights.reshape(-1)
    generator = np.random.default_rng(0)
    for start in range(0, flat.size, 1 << 16):
        part = flat[start : start + (1 << 16)]
        generator.standard_normal(out=part, dtype="f4")
    return weights


def peak_mib(way: str, label: str, mib: int) -> float:
    """The memory that a process takes besides its input, in MiB."""
    command = [sys.executable, __file__, "--mib", str(mib), "--peak", way, label]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_peak(way: str, label: str, mib: int) -> None:
    """In the process: after a small run, so that what is imported does not count."""
    shape, axis = shapes(mib)[label]
    run = WAYS[way]
    run(random_weights((8, 8)), 0)
    weights = random_weights(shape)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(weights, axis)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def print_formats(mib: int) -> None:
    """Print the ratios of formats to i8 per channel."""
    weights = random_weights((mib * 64, 4096))
    channels = Blocks.per_axis(0)
    cases = {"i8": (torch_per_channel_symmetric(I8), channels)}
    for name, format in FORMATS.items():
        blocks = channels if format.block is None else Blocks.of_sizes({0: 1, 1: format.block})
        cases[name] = (scheme_of_format(name), blocks)
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(RUNS):
        for name, (scheme, blocks) in cases.items():
            start = process_time()
            quantize_array(weights, scheme, blocks, threads=1)
            times[name].append(process_time() - start)
    for name in cases:
        print(f"{median(times[name]) / median(times['i8']):6.2f}  {name}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--peak", nargs=2, metavar=("WAY", "LABEL"))
    parser.add_argument("--formats", action="store_true")
    arguments = parser.parse_args()
    if arguments.formats:
        print_formats(arguments.mib)
        return
    if arguments.peak:
        way, label = arguments.peak
        print_peak(way, label, arguments.mib)
        return
    ways = [way for way in WAYS if way != "torch" or find_spec("torch")]
    # Before there is anything large here: a process that is started has at least its parent's peak.
    peaks = {
        label: [peak_mib(way, label, arguments.mib) for way in ways]
        for label in shapes(arguments.mib)
    }
    print(f"{'ms':>8} {'torch':>8} {'ratio':>6} {'MiB':>6} {'torch':>6}  weights")
    for label, (shape, axis) in shapes(arguments.mib).items():
        weights = random_weights(shape)
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(RUNS):
            for way in ways:
                start = perf_counter()
                WAYS[way](weights, axis)
                times[way].append((perf_counter() - start) * 1e3)
        ours, *theirs = (median(times[way]) for way in ways)
        row = f"{ours:8.0f} " + (
            f"{theirs[0]:8.0f} {ours / theirs[0]:6.2f} " if theirs else " " * 16
        )
        row += " ".join(f"{peak:6.0f}" for peak in peaks[label])
        print(f"{row}  {label} {shape}, axis {axis}", flush=True)


if __name__ == "__main__":
    main()
