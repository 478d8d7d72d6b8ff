"""The syntax of tosa ops that LLVM 22 and LLVM 24 print, and the one that both parse."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from tosa_samples import SAMPLES, Sample, texts
from xdsl.irdl import IRDLOperation
from xdsl.printer import Printer

from qdialect.dialects.tosa.syntax import TABLED_OPS, TosaSyntax
from qdialect.opt.opt import main
from qdialect.opt.options import SPLIT_MARKER
from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module
from qdialect.text.written_ops import PrintedForm

TOOLS = {"mlir-opt-22": False, "iree-opt": True}
"""Each with whether it is the later version."""


def run(tool: str, text: str, *flags: str) -> str:
    command = [tool, "--allow-unregistered-dialect", "--split-input-file", *flags]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def generic(tool: str, text: str) -> str:
    return run(tool, text, "--mlir-print-op-generic")


def qdialect_opt(text: str, directory: Path, form: str = "llvm24") -> str:
    path = directory / "text.mlir"
    path.write_text(text)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(
            [f"--op-form={form}", "--allow-unregistered-dialect", "--split-input-file", str(path)]
        )
    assert status == 0, err.getvalue()
    return out.getvalue()


@pytest.mark.parametrize("writer", TOOLS)
@pytest.mark.parametrize("form", ["custom", "generic"])
def test_what_a_version_writes_is_read_by_both(writer: str, form: str, tmp_path: Path) -> None:
    for tool in TOOLS:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on PATH")
    for with_later in {False, TOOLS[writer]}:
        text = f"{SPLIT_MARKER}\n".join(texts(with_later=with_later))
        written = run(writer, text) if form == "custom" else generic(writer, text)
        again = qdialect_opt(written, tmp_path)
        for reader, is_later in TOOLS.items():
            if is_later >= with_later:
                assert generic(reader, again) == generic(reader, text)


@pytest.mark.parametrize("form", PrintedForm)
@pytest.mark.parametrize("text", list(texts(with_later=True)))
def test_each_form_is_read_and_written(text: str, form: str, tmp_path: Path) -> None:
    once = qdialect_opt(text, tmp_path, form)
    assert qdialect_opt(once, tmp_path, form) == once


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_printer_that_knows_no_versions_writes_what_is_read(sample: Sample) -> None:
    module = parse_module(ToolContext(), sample.text)
    stream = io.StringIO()
    Printer(stream).print_op(module)
    assert f"= tosa.{sample.name} " in stream.getvalue()
    assert parse_module(ToolContext(), stream.getvalue()).is_structurally_equivalent(module)


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        ("axis(1)", "{axis = 1 : i32}"),
        ("axis(1) nan_mode<IGNORE> {n}", "{n, axis = 1 : i32, nan_mode = IGNORE}"),
        ("axis(1) {n}", '{"n", "axis" = 1 : i32}'),
        ("axis(1) {nan_mode = #tosa.nan_mode<IGNORE>}", "{axis = 1 : i32, nan_mode = IGNORE}"),
    ],
)
def test_both_ways_of_writing_properties(later: str, earlier: str, tmp_path: Path) -> None:
    form = (
        "func.func @f(%x: tensor<2x3xf32>) {{\n"
        "  %0 = tosa.argmax %x {} : (tensor<2x3xf32>) -> tensor<2xi32>\n"
        "  return\n}}\n"
    )
    read = [qdialect_opt(form.format(text), tmp_path) for text in (later, earlier)]
    assert read[0] == read[1]
    assert '"tosa.argmax"(%x) <{' in read[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tosa.argmax %x axis(a) : (tensor<2x3xf32>) -> tensor<2xi32>", "integer"),
        ("tosa.argmax %x : (tensor<2x3xf32>) -> tensor<2xi32>", "property 'axis' expected"),
        ("tosa.argmax %x round(true) : (tensor<2x3xf32>) -> tensor<2xi32>", "expected ':'"),
        ("tosa.add %x : (tensor<2x3xf32>) -> tensor<2x3xf32>", "Expected 2 operands"),
    ],
)
def test_what_is_wrong_is_told(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.mlir"
    path.write_text(f"func.func @f(%x: tensor<2x3xf32>) {{\n  %0 = {text}\n  return\n}}\n")
    err = io.StringIO()
    with redirect_stderr(err):
        assert main([str(path)]) == 1
    assert re.search(re.escape(message), err.getvalue(), re.IGNORECASE), err.getvalue()


def test_each_op_of_the_table_has_a_class_of_its_own() -> None:
    names = [op.name for op in TABLED_OPS]
    assert len(set(names)) == len(names)
    assert all(issubclass(op, IRDLOperation) for op in TABLED_OPS)
    assert sum(issubclass(op, TosaSyntax) for op in TABLED_OPS) > 80
