"""Modules run by IREE, with weights of files."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
from numpy.typing import NDArray


def ran(folder: Path, name: str, files: list[Path], inputs: NDArray[Any]) -> NDArray[Any]:
    """What IREE computes, with the weights of files."""
    compiler, runner = which("iree-compile"), which("iree-run-module")
    assert compiler is not None
    assert runner is not None
    code, given, output = folder / f"{name}.vmfb", folder / "x.npy", folder / f"{name}.npy"
    target = "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"
    command = [compiler, str(folder / f"{name}.mlir"), *target, "-o", str(code)]
    subprocess.run(command, check=True, capture_output=True)
    np.save(given, inputs)
    parameters = [f"--parameters=model={file}" for file in files]
    run = [runner, f"--module={code}", "--device=local-sync", "--function=main", *parameters]
    read = [f"--input=@{given}", f"--output=@{output}"]
    subprocess.run([*run, *read], check=True, capture_output=True)
    return np.load(output)
