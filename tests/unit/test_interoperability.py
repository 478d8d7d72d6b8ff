"""MLIR's own tool reads printed modules as the same modules."""

import io
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from qdialect.opt.opt import main
from qdialect.opt.options import SPLIT_MARKER

pytestmark = pytest.mark.skipif(
    shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not on PATH"
)

ROOT = Path(__file__).parents[2]
TOLD = ("--remarks", "--verify-diagnostics", "--print-op-generic")
"""Flags that determine the reports of a module, and its printed form."""

OF_OWN_TYPES = r"quant\.(?=requantize|dequantize_bias)"
"""The start of the names of casts that upstream lacks."""

EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))


def qdialect_opt(path: Path, *flags: str) -> str:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([*flags, "--allow-unregistered-dialect", str(path)])
    assert status == 0, err.getvalue()
    return out.getvalue()


def mlir_opt(text: str) -> str:
    """What mlir-opt prints of a module, whose constants it does not know by their name."""
    return subprocess.run(
        ["mlir-opt-22", "--allow-unregistered-dialect", "--mlir-print-op-generic"],
        input=text.replace('"quant.constant"', '"test.constant"'),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.replace('"test.constant"', '"quant.constant"')


def assert_same_in_mlir(path: Path, tmp_path: Path, *flags: str) -> None:
    """Text that MLIR has read and printed is read here as the module that it was."""
    ours = qdialect_opt(path, *flags, "--print-op-generic")
    theirs = tmp_path / "theirs.mlir"
    theirs.write_text(mlir_opt(ours))
    again = tmp_path / "again.mlir"
    again.write_text(qdialect_opt(theirs, "--print-op-generic"))
    # Names of values are not kept by MLIR: it is asked to compare.
    assert mlir_opt(again.read_text()) == mlir_opt(ours)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_folded_examples(path: Path, tmp_path: Path):
    assert_same_in_mlir(path, tmp_path, "--fold-quant-shapes")


def pass_tests() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The lit tests of passes whose modules are valid, and the flags that these are run with."""
    for path in sorted((ROOT / "tests" / "filecheck" / "passes").rglob("*.mlir")):
        text = path.read_text()
        assert "RUN: qdialect-opt %s" in text, path
        # A module that is printed alone, beside no messages and in no file.
        flags = re.search(r"RUN: qdialect-opt %s ([^|\n>%]*)(?:\||$)", text, re.MULTILINE)
        makes_something = "expected-error" not in text and path.parent.name != "verify_quant_shapes"
        # MLIR 22 stores integers only.
        makes_something &= not path.name.startswith("storage_formats")
        if makes_something and flags is not None:
            yield path, tuple(shlex.split(flags[1]))


def output_of_passes(path: Path, flags: tuple[str, ...]) -> str:
    """
    What comes out of the passes of a lit test.

    Ops that only qdialect has are lowered to upstream's, or dropped, first.
    """
    lowered = (*flags, "--lower-quant-shapes", "--drop-ranges", "--split-input-file")
    lowered = tuple(flag for flag in lowered if flag not in TOLD)
    text = qdialect_opt(path, *lowered)
    assert not re.search("quant.(constant|stats)", text)
    # The tosa of IREE is not that of MLIR 22, which reads StableHLO in generic form alone.
    has_both = "stablehlo." in text and "tosa." in text
    if has_both or re.search(OF_OWN_TYPES, text):
        # A dialect that MLIR knows has no such ops: they are of another one, in generic form.
        text = re.sub(OF_OWN_TYPES, "test.", qdialect_opt(path, *lowered, "--print-op-generic"))
    return text


def test_output_of_passes() -> None:
    """What comes out of a pass is a valid module of MLIR, or of StableHLO."""
    modules: dict[str, list[str]] = {"iree-opt": [], "mlir-opt-22": []}
    for path, flags in pass_tests():
        for module in output_of_passes(path, flags).split(SPLIT_MARKER):
            is_stablehlo = "stablehlo." in module and "tosa." not in module
            modules["iree-opt" if is_stablehlo else "mlir-opt-22"].append(f"// {path}\n{module}")
    for tool, texts in modules.items():
        assert texts
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on PATH")
        command = [tool, "--allow-unregistered-dialect", "--split-input-file"]
        text = f"\n{SPLIT_MARKER}\n".join(texts)
        run = subprocess.run(command, input=text, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("sign", ["i", "u"])
def test_storage_of_every_width(sign: str, tmp_path: Path):
    """Lists, and the hexadecimal text of more than a hundred elements."""
    path = tmp_path / "wide.mlir"
    path.write_text("".join(text_of_width(f"{sign}{width}") for width in range(1, 33)))
    assert_same_in_mlir(path, tmp_path, "--fold-quant-shapes")


def text_of_width(storage: str) -> str:
    """A constant of a storage type, and constants that it is folded into."""
    width = int(storage[1:])
    values = np.random.default_rng(width).integers(0, 1 << width, 104)
    if storage.startswith("i"):
        values -= (values >> (width - 1) & 1) << width
    listed = values.astype(bool).tolist() if storage == "i1" else values.tolist()
    type = f"!quant.uniform<{storage}:f32:0, {{0.5,0.25}}>"
    moved = f"!quant.uniform<{storage}:f32:1, {{0.5,0.25}}>"
    rows = str([listed[:52], listed[52:]]).lower()
    lines = (
        "!aN = TYPE",
        "!bN = MOVED",
        "%wN = quant.constant dense<ROWS> : tensor<2x52x!aN>",
        "%tN = quant.transpose %wN permutation = [1, 0] : tensor<2x52x!aN> to tensor<52x2x!bN>",
        "%vN = quant.constant dense<ROWS> : tensor<2x52x!aN>",
        "%sN = quant.slice %vN [0, 9] [2, 9] [1, 1] : tensor<2x52x!aN> to tensor<2x9x!aN>",
        '"test.op"(%wN, %tN, %sN) : (tensor<2x52x!aN>, tensor<52x2x!bN>, tensor<2x9x!aN>) -> ()',
        "",
    )
    text = "\n".join(lines).replace("N", str(width))
    return text.replace("TYPE", type).replace("MOVED", moved).replace("ROWS", rows)


def first_error(stderr: str) -> str:
    """`line:column: error: message` of the first error, without the name of the file."""
    errors = [line for line in stderr.splitlines() if ": error: " in line]
    return errors[0].split(":", 1)[1]


@pytest.mark.parametrize("file", ["types_invalid.mlir", "casts_invalid.mlir"])
def test_errors_are_those_of_mlir_opt(file: str, tmp_path: Path):
    """Message, line and column; only of a blank before a bracket we say more."""
    text = (ROOT / "tests" / "filecheck" / "dialects" / "quant" / file).read_text()
    for number, part in enumerate(text.split("// -----")):
        if "!quant.uniform <" in part:
            continue
        path = tmp_path / f"part{number}.mlir"
        path.write_text(part)
        theirs = subprocess.run(["mlir-opt-22", path], capture_output=True, text=True).stderr
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            assert main([str(path)]) == 1
        assert first_error(err.getvalue()) == first_error(theirs)
