"""
The digits of scikit-learn, split once and for all, as records for calibration and evaluation.

    python examples/digits/data.py FOLDER

writes `calibration.npz` and `evaluation.npz`. The records of calibration are training images.
"""

# The libraries have no types, or few.
# pyright: basic

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

EVALUATED: Final = 600
"""How many images are held out."""

CALIBRATED: Final = 100
"""How many of those for training are records for calibration."""


class Digits(NamedTuple):
    """Images of shape (1, 8, 8), from 0 to 1, and the digits that they show."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]

    def first(self, count: int) -> Digits:
        """The first ones."""
        return Digits(self.images[:count], self.labels[:count])


class Split(NamedTuple):
    """What is trained with, and what is held out."""

    training: Digits
    evaluation: Digits


def load_digits() -> Split:
    """All 1797 images, in an order that is random, and always the same."""
    from sklearn import datasets

    found: Any = datasets.load_digits()
    images = (found.images[:, None] / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    digits = Digits(images[order], found.target[order].astype(np.int64))
    return Split(
        Digits(digits.images[EVALUATED:], digits.labels[EVALUATED:]), digits.first(EVALUATED)
    )


def write_records(folder: Path, evaluated: int = EVALUATED, calibrated: int = CALIBRATED) -> None:
    """Write the records: of the evaluation with labels, under `label`."""
    split = load_digits()
    calibration, evaluation = split.training.first(calibrated), split.evaluation.first(evaluated)
    np.savez_compressed(folder / "calibration.npz", arg0=calibration.images)
    np.savez_compressed(folder / "evaluation.npz", arg0=evaluation.images, label=evaluation.labels)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write records for calibration and evaluation.")
    parser.add_argument("folder", type=Path)
    write_records(parser.parse_args().folder)
