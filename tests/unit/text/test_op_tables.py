"""The custom forms of MLIR's ops are read as mlir-opt reads them."""

from __future__ import annotations

import io
import pkgutil
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from mlir_tools import MLIR_OPT, needs_mlir_opt, run

import qdialect.dialects
from qdialect.opt.opt import main
from qdialect.text.op_formats import OpFormat
from qdialect.text.syntax import syntax_of

HERE = Path(__file__).parent / "op_texts"
OPS = (HERE / "ops.txt").read_text()
"""Lines `arguments || op`, in which `;;` stands for a line break."""

MODULES = (HERE / "modules.mlir").read_text()
SPLIT = "\n// -----\n"

FORMS = {
    name: form
    for dialect in pkgutil.iter_modules(qdialect.dialects.__path__)
    for name, form in syntax_of(dialect.name).form_of.items()
}


def text() -> str:
    """All ops, in a function each, and the modules."""
    functions: list[str] = []
    for number, line in enumerate(OPS.strip().splitlines()):
        arguments, _, op = line.partition("||")
        body = op.strip().replace(";;", "\n").replace("@f ", f"@f{number} ")
        functions.append(f"func.func @f{number}({arguments.strip()}) {{\n{body}\nreturn\n}}")
    return SPLIT.join(["\n".join(functions), MODULES])


def ours(modules: str, path: Path) -> str:
    """What qdialect-opt prints for modules."""
    path.write_text(modules)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["--split-input-file", str(path)])
    assert status == 0, err.getvalue()[:2000]
    return out.getvalue()


def generic(modules: str) -> list[str]:
    """The functions as mlir-opt prints them in generic form."""
    command = [MLIR_OPT, "--split-input-file", "--mlir-print-op-generic"]
    return run(command, modules).split('"func.func"')


@needs_mlir_opt
@pytest.mark.parametrize("form", ["custom", "generic", "as written"])
def test_each_form_is_read_as_mlir_reads_it(form: str, tmp_path: Path) -> None:
    written = text()
    expected = generic(written)
    if form == "custom":
        written = run([MLIR_OPT, "--split-input-file"], written)
    elif form == "generic":
        written = '"func.func"'.join(expected)
    printed = ours(written, tmp_path / "text.mlir")
    assert generic(printed) == expected
    assert ours(printed, tmp_path / "again.mlir") == printed


def test_all_rows_can_be_compiled() -> None:
    """A row is compiled when an op of it is first read."""
    for form in FORMS.values():
        OpFormat(form)


def test_each_op_of_a_table_has_a_text() -> None:
    words = {*re.findall(r"[a-z_]+(?:\.[a-z_]+)+", OPS + MODULES)}
    # The ops of index and arith are alike; the yield stands only in a `vector.mask`; the ops of
    # other projects are below.
    others = ("arith.", "chlo.", "index.", "mhlo.", "stablehlo.", "ttir.", "util.")
    assert {name for name in FORMS if not name.startswith(others)} <= words | {"vector.yield"}


@pytest.mark.parametrize(
    "form",
    ["$", "$a%", "type(%)", "<? $a", "$a:no", "custom:No(a)", "other(a)", "indices(a)"],
)
def test_a_row_that_says_nothing(form: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        OpFormat(form)


@pytest.mark.parametrize(
    "op",
    [
        "memref.dma_start %m[%i], %m[%i], %i, %m[%i] : memref<8xi32>, memref<8xi32>, memref<8xi32>",
        "affine.parallel (%j) = (0) to (4) {\n}",
        "%0 = tensor.gather %m gather_dims([0]) : (memref<8xi32>) -> i8",
        "%0 = vector.outerproduct %i, %i : index, index",
        "%0 = index.add %i %i",
        "%0 = index.cmp (%i, %i)",
        "%0 = tensor.generate %i, %i { : tensor<?xf32>",
        "%0 = vector.to_elements %i : index",
        "%0 = memref.atomic_rmw add %i, %m[%i] : (i32, memref<8xi32>) -> i32",
    ],
)
def test_what_is_not_read_is_an_error_with_a_place(op: str, tmp_path: Path) -> None:
    path = tmp_path / "text.mlir"
    path.write_text(f"func.func @f(%i: index, %m: memref<8xi32>) {{\n{op}\nreturn\n}}\n")
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([str(path)])
    message = err.getvalue()
    assert status == 1
    assert message.startswith(f"{path}:2:") or "to match this" in message
    assert "--read-with=" in message or "to match this" in message
    assert "Traceback" not in message


def test_an_op_that_no_table_has() -> None:
    assert syntax_of("index").find_op("index.nothing") is None


def test_blocks_that_are_called_by_numbers(tmp_path: Path) -> None:
    text = """
      "t.a"() ({
      ^0:
        "t.b"()[^1, ^2] : () -> ()
      ^1(%x: i8):
        "t.b"()[^1, ^2] : () -> ()
      ^2:
        "t.b"()[^1, ^2] : () -> ()
      }, {
        "t.b"()[^1] : () -> ()
      ^1:
        "t.c"() : () -> ()
      }) : () -> ()
    """
    path = tmp_path / "text.mlir"
    path.write_text(text)
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["--allow-unregistered-dialect", str(path)]) == 0
    assert out.getvalue().count("[^bb1, ^bb2]") == 3
    path.write_text(text.replace("^2:", "^1:"))
    err = io.StringIO()
    with redirect_stderr(err):
        assert main(["--allow-unregistered-dialect", str(path)]) == 1
    assert ":7:7: error: re-declaration of block '1'" in err.getvalue()


def test_custom_forms_of_mhlo_are_read_as_generic_ones(tmp_path: Path) -> None:
    """No tool here reads the dialect; the generic forms are those of its documentation."""
    custom = """
      func.func @f(%x: tensor<2xi8>) -> tensor<2xf32> {
        %0 = mhlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
        %1 = mhlo.convert %x : (tensor<2xi8>) -> tensor<2xf32>
        %2 = mhlo.multiply %1, %0 {my.note} : tensor<2xf32>
        %3 = mhlo.negate %2 : tensor<2xf32>
        %4 = mhlo.reshape %3 : (tensor<2xf32>) -> tensor<1x2xf32>
        %5 = mhlo.subtract %1, %2 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
        return %5 : tensor<2xf32>
      }
    """
    lines = [
        '%0 = "mhlo.constant"() <{value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>}> '
        ": () -> tensor<2xf32>",
        '%1 = "mhlo.convert"(%x) : (tensor<2xi8>) -> tensor<2xf32>',
        '%2 = "mhlo.multiply"(%1, %0) {my.note} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>',
        '%3 = "mhlo.negate"(%2) : (tensor<2xf32>) -> tensor<2xf32>',
        '%4 = "mhlo.reshape"(%3) : (tensor<2xf32>) -> tensor<1x2xf32>',
        '%5 = "mhlo.subtract"(%1, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>',
    ]
    path = tmp_path / "text.mlir"
    path.write_text(custom)
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["--allow-unregistered-dialect", str(path)]) == 0
    printed = [line.strip() for line in out.getvalue().splitlines()]
    assert [line for line in printed if "mhlo" in line] == lines
    path.write_text("%0 = mhlo.dot %a : wrong\n")
    err = io.StringIO()
    with redirect_stderr(err):
        assert main(["--allow-unregistered-dialect", str(path)]) == 1
    assert ":1:6: error: Dialect `mhlo' not found for custom op 'mhlo.dot'; " in err.getvalue()
    assert "--read-with=" in err.getvalue()


def test_a_custom_form_whose_printer_reserves_one_name(tmp_path: Path) -> None:
    text = "builtin.module {\n  %0 = memref.alloc() : memref<8xf32>\n}\n"
    assert ours(text, tmp_path / "text.mlir") == text


def test_a_class_that_is_replaced_is_that_of_xdsls_passes(tmp_path: Path) -> None:
    path = tmp_path / "text.mlir"
    path.write_text(
        "ml_program.global private @g(dense<4> : tensor<4xi32>) : tensor<4xi32>\n"
        "%0 = ml_program.global_load_const @g : tensor<4xi32>\n"
        '"test.op"(%0) : (tensor<4xi32>) -> ()\n'
    )
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["--convert-ml-program-to-memref", str(path)]) == 0
    assert "%0 = memref.get_global @g : memref<4xi32>" in out.getvalue()
    assert "ml_program" not in out.getvalue()
