"""Finding MLIR's own tools, and running modules with them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

MLIR_OPT = "mlir-opt-22"
RUNNER = shutil.which("mlir-runner-22")
RUNNER_LIBRARIES = [
    library
    for name in ("mlir_runner_utils", "mlir_c_runner_utils")
    for library in sorted(
        (Path(RUNNER).resolve().parents[1] / "lib").glob(f"lib{name}.so*") if RUNNER else []
    )[:1]
]

needs_mlir_opt = pytest.mark.skipif(
    shutil.which(MLIR_OPT) is None, reason=f"{MLIR_OPT} is not on PATH"
)
needs_mlir_runner = pytest.mark.skipif(
    shutil.which(MLIR_OPT) is None or len(RUNNER_LIBRARIES) != 2,
    reason=f"{MLIR_OPT}, or mlir-runner-22 and its libraries, are not installed",
)

TO_LLVM = [
    "--convert-elementwise-to-linalg",
    "--one-shot-bufferize=bufferize-function-boundaries",
    "--convert-linalg-to-loops",
    "--expand-strided-metadata",
    "--lower-affine",
    "--convert-scf-to-cf",
    "--convert-to-llvm",
    "--reconcile-unrealized-casts",
]


def run(command: Sequence[str], text: str) -> str:
    """The output of a tool for `text`."""
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}\n{text}"
    return done.stdout


def run_main(
    text: str, calls: Sequence[str], before: Sequence[str] = ()
) -> list[tuple[tuple[int, ...], list[str]]]:
    """
    The shapes and numbers that `calls`, the body of a main function, prints.

    `before` are passes to run on the module before it is lowered to LLVM.
    """
    declarations = [
        f"func.func private @printMemref{name}(tensor<*x{type}>)"
        for name, type in (("I64", "i64"), ("F32", "f32"))
    ]
    main = ["func.func @main() {", *calls, "return", "}"]
    lines = [text.rstrip().removesuffix("}"), *declarations, *main, "}"]
    llvm = run([MLIR_OPT, *before, *TO_LLVM], "\n".join(lines))
    libraries = [f"--shared-libs={library}" for library in RUNNER_LIBRARIES]
    printed = run(["mlir-runner-22", "--entry-point-result=void", *libraries], llvm)
    results: list[tuple[tuple[int, ...], list[str]]] = []
    for part in printed.split("Unranked Memref")[1:]:
        header, _, data = part.partition("data =")
        sizes = re.search(r"sizes = \[(.*?)\]", header)
        assert sizes is not None, part
        shape = tuple(map(int, re.findall(r"\d+", sizes[1])))
        # mlir-runner prints one element even for an axis of length 0.
        results.append((shape, [] if 0 in shape else re.findall(r"[-+.\de]+", data)))
    return results
