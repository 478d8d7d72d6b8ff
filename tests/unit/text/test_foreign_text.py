"""The output of other tools is parsed, and printed such that they parse it as the same module."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from textwrap import dedent

import pytest
from xdsl.transforms.canonicalize import CanonicalizePass

from qdialect.check import check_tool as check
from qdialect.opt.opt import main
from qdialect.opt.options import SPLIT_MARKER
from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module

MODULES = {
    "ranges in locations": """
      func.func @f() {
        "test.a"() : () -> () loc("a":7:12 to :45)
        "test.a"() : () -> () loc("a":7:12 to 8:45)
        "test.a"() : () -> () loc("b"("a":1:2 to :3))
        "test.a"() : () -> () loc(callsite("a" at "b":3:4 to :5))
        "test.a"() : () -> () loc(fused<"m">["a", "b":3:4 to :5])
        "test.a"() : () -> () loc(fused["a", "b":3:4])
        "test.a"() : () -> () loc(#late)
        "test.a"() : () -> () loc("a":7)
        return loc(unknown)
      }
      #late = loc("z":1:2 to 3:4)
    """,
    "names that are not ASCII": """
      func.func @"\\C3\\BCber"(%a: tensor<2xf32>) -> tensor<2xf32>
          attributes {"\\C3\\A9" = "\\C3\\A9"} {
        %0 = "test.a"(%a) : (tensor<2xf32>) -> tensor<2xf32> loc("\\C3\\A9")
        %1 = "test.a"(%0) : (tensor<2xf32>) -> tensor<2xf32> loc("\\C3\\A9.py":1:2)
        %2 = tosa.exp %1 : (tensor<2xf32>) -> tensor<2xf32> loc("e")
        return %2 : tensor<2xf32>
      }
    """,
    "a plain form": """
      func.func @f(%a: tensor<2xf32>, %b: i32) {
        %0 = "my.op"(%a, %b) {x = 1 : i32, u} : (tensor<2xf32>, i32) -> tensor<2xf32>
        %1:2 = "my.two"(%0) : (tensor<2xf32>) -> (tensor<2xf32>, i32)
        "my.none"() : () -> ()
        return
      }
    """,
    "properties of later versions": """
      func.func @f(%i: i64, %f: f32, %x: tensor<2x3xi8>, %y: tensor<3x4xi8>, %z: tensor<2x4xi32>) {
        %0 = arith.trunci %i : i64 to i32
        %1 = arith.extf %f fastmath<fast> : f32 to f64
        %2 = linalg.matmul {cast = #linalg.type_fn<cast_unsigned>}
          ins(%x, %y : tensor<2x3xi8>, tensor<3x4xi8>) outs(%z : tensor<2x4xi32>) -> tensor<2x4xi32>
        return
      }
    """,
    "maps of a named op": """
      #a = affine_map<(m, n, k) -> (k, m)>
      #b = affine_map<(m, n, k) -> (k, n)>
      #c = affine_map<(m, n, k) -> (m, n)>
      func.func @f(%x: tensor<3x2xf32>, %y: tensor<3x4xf32>, %z: tensor<2x4xf32>) {
        %0 = linalg.matmul indexing_maps = [#a, #b, #c]
          ins(%x, %y : tensor<3x2xf32>, tensor<3x4xf32>) outs(%z : tensor<2x4xf32>)
          -> tensor<2x4xf32>
        return
      }
    """,
    "several results of linalg.generic": """
      #map = affine_map<(d0) -> (d0)>
      func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xi64>, %m: memref<4xf32>) {
        %0:2 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]}
            ins(%a : tensor<4xf32>) outs(%b, %c : tensor<4xf32>, tensor<4xi64>) {
        ^bb0(%in: f32, %out: f32, %index: i64):
          linalg.yield %in, %index : f32, i64
        } -> (tensor<4xf32>, tensor<4xi64>)
        %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"],
            doc = "x", library_call = "y"} ins(%a : tensor<4xf32>) outs(%b : tensor<4xf32>)
            attrs = {my.note = 2 : i8} {
        ^bb0(%in: f32, %out: f32):
          linalg.yield %in : f32
        } -> tensor<4xf32>
        linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]}
            outs(%m : memref<4xf32>) {
        ^bb0(%out: f32):
          linalg.yield %out : f32
        }
        return
      }
    """,
    "attributes of ops that have no place for them": """
      func.func @f(%i: i64, %f: f32) {
        %0 = "arith.cmpi"(%i, %i) <{predicate = 4 : i64}> {my.note} : (i64, i64) -> i1
        %1 = "arith.cmpf"(%f, %f) <{predicate = 4 : i64}> {i = 1 : i8} : (f32, f32) -> i1
        %2 = arith.addi %i, %i {my.note} : i64
        return
      }
    """,
    "shapes of tensor ops": """
      func.func @f(%x: tensor<1x?x3xi32>, %o: index, %z: i32, %s: tensor<f32>) {
        %c0 = arith.constant 0 : index
        %0 = tensor.pad %x low[%c0, %o, 0] high[0, 0, %o] {
        ^bb0(%a: index, %b: index, %c: index):
          tensor.yield %z : i32
        } : tensor<1x?x3xi32> to tensor<1x?x?xi32>
        %1 = tensor.expand_shape %s [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>
        %2 = tensor.collapse_shape %1 [] : tensor<1x1xf32> into tensor<f32>
        return
      }
    """,
    "reductions of several operands": """
      func.func @f(%a: tensor<8x2xf32>, %b: tensor<8x2xi32>, %c: tensor<8xf32>, %d: tensor<8xi32>) {
        %0:2 = linalg.reduce ins(%a, %b : tensor<8x2xf32>, tensor<8x2xi32>)
          outs(%c, %d : tensor<8xf32>, tensor<8xi32>) dimensions = [1]
          (%x: f32, %i: i32, %most: f32, %at: i32) {
            %1 = arith.maximumf %x, %most : f32
            linalg.yield %1, %i : f32, i32
          }
        return
      }
    """,
    "flags of conversions": """
      func.func @f(%i: i64, %f: f64, %x: tensor<2xf64>, %y: tensor<2xf32>) {
        %0 = arith.trunci %i overflow<nsw, nuw> : i64 to i32
        %1 = arith.truncf %f to_nearest_even fastmath<fast> : f64 to f32
        %2 = arith.truncf %x toward_zero : tensor<2xf64> to tensor<2xf32>
        %3 = arith.extf %y fastmath<nnan,ninf> {my.note} : tensor<2xf32> to tensor<2xf64>
        %4 = arith.trunci %i : i64 to i32
        return
      }
    """,
    "storage of floats": """
      !a = !quant.uniform<f8E5M2:f32, 2.0>
      !b = !quant.uniform<f4E2M1FN<-6:6>:f32:1, {2.0,3.0:1}>
      func.func @f(%a: !a, %b: tensor<3x2x!b>) -> tensor<3x2x!b> {
        "test.op"(%a) {type = !quant.uniform<f8E4M3FN:f32, 2.0>} : (!a) -> ()
        return %b : tensor<3x2x!b>
      }
    """,
    "blanks in shapes": """
      func.func private @f(tensor<? x f32>, tensor<? x !quant.uniform<u8:f32, 0.5>>,
        tensor< 2 x 3x4 x f32>, memref<2 x 3 x f32>, vector<2 x [4] x f32>, tensor<* x f32>,
        tensor<0x1xf32>, tensor<0x10xf32>)
    """,
    "types of opaque attributes": """
      #a = #tf_type<tensor_proto : "0x74"> : tensor<2x2x!tf_type.qint8>
      "foo.x"() {value = #a, x = [#a, #foo.bar<1> : i32, #foo.bar : i32], y = #foo.bar : i32}
        : () -> ()
    """,
    "products of symbols": """
      "foo.x"() {m = affine_map<()[s0, s1] -> (s0 * s1)>,
        n = affine_map<(d0)[s0] -> (d0 floordiv s0)>,
        s = affine_set<(d0)[s0] : (d0 * s0 - 4 >= 0, d0 mod s0 == 0)>} : () -> ()
    """,
    "arith on tensors and vectors": """
      func.func @f(%t: tensor<4xf32>, %i: tensor<4xi64>, %b: tensor<4xi1>, %s: tensor<4xi4>,
          %v: vector<4xf32>, %w: vector<[4]xi8>) {
        %0 = arith.cmpf ogt, %t, %t : tensor<4xf32>
        %1 = arith.cmpi sgt, %i, %i : tensor<4xi64>
        %2 = arith.select %0, %t, %t : tensor<4xi1>, tensor<4xf32>
        %3 = arith.extsi %s : tensor<4xi4> to tensor<4xi64>
        %4 = arith.extui %s : tensor<4xi4> to tensor<4xi64>
        %5 = arith.trunci %i : tensor<4xi64> to tensor<4xi8>
        %6 = arith.cmpf ogt, %v, %v : vector<4xf32>
        %7 = arith.extsi %w : vector<[4]xi8> to vector<[4]xi32>
        %9 = arith.index_cast %i : tensor<4xi64> to tensor<4xindex>
        %10 = arith.select %6, %v, %v : vector<4xi1>, vector<4xf32>
        %11 = arith.sitofp %w : vector<[4]xi8> to vector<[4]xf32>
        %12 = arith.constant true
        %13 = arith.select %12, %t, %t : tensor<4xf32>
        return
      }
    """,
}

ONLY_GENERIC = (
    "attributes of ops that have no place for them",
    "maps of a named op",
    "properties of later versions",
)
"""Ops that are parsed only in generic form."""

ONLY_LATER = ("storage of floats",)
"""What MLIR 22 refuses."""

TOOLS = ("mlir-opt-22", "iree-opt")


def test_attributes_that_a_class_declares_are_in_its_form(tmp_path: Path) -> None:
    lines = [
        "  %0 = rv32.li 6 : !riscv.reg",
        '  %1 = riscv.addi %0, 1 {comment = "one more"} : (!riscv.reg) -> !riscv.reg',
        '  riscv.label "here" {my.note}',
    ]
    text = "builtin.module {\n" + "\n".join(lines) + "\n}\n"
    path = tmp_path / "text.mlir"
    path.write_text(text)
    assert run_main([str(path)]) == (0, text, "")


def run(tool: str, text: str, *flags: str) -> str:
    command = [tool, "--allow-unregistered-dialect", "--mlir-print-local-scope", *flags]
    if "--mlir-print-debuginfo=false" not in flags:
        command.append("--mlir-print-debuginfo")
    run = subprocess.run(command, input=text, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def qdialect_opt(text: str, directory: Path, *flags: str) -> str:
    path = directory / "text.mlir"
    path.write_text(text)
    status, out, err = run_main([str(path), "--print-debuginfo", *flags])
    assert status == 0, err
    return out


def run_main(arguments: Sequence[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["--allow-unregistered-dialect", *arguments])
    return status, out.getvalue(), err.getvalue()


def run_on_each(tool: str, texts: Mapping[str, str], *flags: str) -> dict[str, str]:
    """What a tool prints of each text, by name, all of them in one process."""
    printed = run(tool, f"\n{SPLIT_MARKER}\n".join(texts.values()), "--split-input-file", *flags)
    return dict(zip(texts, printed.split(SPLIT_MARKER), strict=True))


@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_tool_prints_comes_back(tool: str, tmp_path: Path) -> None:
    """In its custom form, where that is read, and in its generic form."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not on PATH")
    modules = {
        name: text
        for name, text in MODULES.items()
        if name not in ONLY_LATER or tool != "mlir-opt-22"
    }
    # Each op has a location, which is that of the text that was read first.
    generic = run_on_each(tool, modules, "--mlir-print-op-generic")
    custom = run_on_each(tool, modules)
    for printed in (generic, custom):
        for name in ONLY_GENERIC if printed is custom else ():
            del printed[name]
        ours = {name: qdialect_opt(text, tmp_path) for name, text in printed.items()}
        again = run_on_each(tool, ours, "--mlir-print-op-generic")
        for name, text in again.items():
            assert text == generic[name], name


BODIES_OF_ONE_OP = """
func.func @f(%a: tensor<8xf32>, %b: tensor<8x2xf32>, %c: memref<8x2xf32>, %d: memref<8xf32>) {
  %0 = linalg.map {math.exp {fastmath = #arith.fastmath<fast>}}
    ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) {my.note}
  %1 = linalg.map {arith.subf} ins(%a, %0 : tensor<8xf32>, tensor<8xf32>) outs(%a : tensor<8xf32>)
  %2 = linalg.reduce {arith.maximumf} ins(%b : tensor<8x2xf32>) outs(%a : tensor<8xf32>)
    dimensions = [1]
  linalg.reduce {arith.addf} ins(%c : memref<8x2xf32>) outs(%d : memref<8xf32>)
    dimensions = [1] {my.note}
  return
}
"""


@pytest.mark.parametrize("tool", TOOLS)
def test_bodies_of_one_op_come_back(tool: str, tmp_path: Path) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not on PATH")
    # Their ops have no locations in this form.
    flags = ("--mlir-print-debuginfo=false",)
    generic = run(tool, BODIES_OF_ONE_OP, *flags, "--mlir-print-op-generic")
    custom = run(tool, BODIES_OF_ONE_OP, *flags)
    path = tmp_path / "text.mlir"
    for text in (custom, generic):
        path.write_text(text)
        status, out, err = run_main([str(path)])
        assert status == 0, err
        assert run(tool, out, *flags, "--mlir-print-op-generic") == generic


@pytest.mark.parametrize("name", MODULES)
def test_printing_is_a_fixed_point(name: str, tmp_path: Path) -> None:
    if name not in ONLY_GENERIC:
        once = qdialect_opt(dedent(MODULES[name]), tmp_path)
        assert qdialect_opt(once, tmp_path) == once


@pytest.mark.parametrize(
    ("custom", "generic"),
    [
        ("my.op %a, %b {x = 1 : i32, u} : (i8, i8) -> i8", '"my.op"(%a, %b) {x = 1 : i32, u}'),
        ("my.op %a : (i8) -> (i8)", '"my.op"(%a) : (i8) -> i8'),
        ("torch.op %a, %b : i8, i8 -> i8", '"torch.op"(%a, %b) : (i8, i8) -> i8'),
        ("my.op : () -> i8", '"my.op"() : () -> i8'),
        ("tosa.no_such_op %a : (i8) -> i8", '"tosa.no_such_op"(%a) : (i8) -> i8'),
    ],
)
def test_an_unknown_op_in_plain_form(custom: str, generic: str, tmp_path: Path) -> None:
    text = f"func.func @f(%a: i8, %b: i8) {{\n  %0 = {custom}\n  return\n}}\n"
    assert f"%0 = {generic}" in qdialect_opt(text, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        'torch.operator "onnx.Constant"() : () -> ()',
        "util.func public @f() { util.return }",
        "my.op %a {x = 1}",
        "my.op %a : i8",
        "my.op (%a) : (i8) -> ()",
    ],
)
def test_an_unknown_op_in_another_form(text: str, tmp_path: Path) -> None:
    path = tmp_path / "text.mlir"
    path.write_text(f"func.func @f(%a: i8) {{\n  {text}\n  return\n}}\n")
    status, _, err = run_main([str(path)])
    name = text.split()[0]
    assert status == 1
    assert f":2:3: error: Dialect `{name.split('.')[0]}' not found for custom op '{name}'; " in err
    assert "--mlir-print-op-generic" in err
    assert "--read-with=" in err
    assert err.count("error:") == 1


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("arith.addi %a, %a wrapping<none> : i8", "expected ':'"),
        ("linalg.reduce of %a", "expected 'dimensions'"),
        ("bogus @f : (i8) -> ()", "custom op 'bogus' is unknown"),
    ],
)
def test_another_form_of_an_op_of_upstream(op: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "text.mlir"
    path.write_text(f"func.func @f(%a: i8) {{\n  {op}\n  return\n}}\n")
    status, _, err = run_main([str(path)])
    assert status == 1
    assert message.lower() in err.lower()
    assert "; if this is valid, use the generic form" in err
    assert "--read-with=" in err


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("arith.addi %a, %a : tensor<2xi8", "expected '>' in tensor type"),
        ("arith.constant {my.note = [1, } 1 : i8", "expected"),
        ('"arith.addi"(%a, %a : (i8, i8) -> i8', "expected ')'"),
        ("quant.scast %a i8 to i8", "expected ':'"),
    ],
)
def test_errors_that_no_other_form_would_mend(op: str, message: str, tmp_path: Path) -> None:
    """Those of types, of attributes, of the generic form, and of ops that are read in full."""
    path = tmp_path / "text.mlir"
    path.write_text(f"func.func @f(%a: i8) {{\n  %0 = {op}\n  return\n}}\n")
    status, _, err = run_main([str(path)])
    assert status == 1
    assert message in err.lower()
    assert "--read-with=" not in err


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ("(%a, %b, %c) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xf32>)", "as many inputs"),
        ("() : ()", "as many inputs"),
        (
            "(%a, %d, %c, %c) : (tensor<2x3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>)",
            "all inputs to have one shape",
        ),
        (
            "(%a, %b, %d, %d) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)",
            "expected outputs of shape (2,)",
        ),
        (
            "(%a, %e, %c, %c) : (tensor<2x3xf32>, tensor<2x3xi8>, tensor<2xf32>, tensor<2xf32>)",
            "an argument for each operand",
        ),
    ],
)
def test_reductions_that_are_not_valid(operands: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "text.mlir"
    given, types = operands.split(" : ")
    path.write_text(
        "func.func @f(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>, %c: tensor<2xf32>, "
        "%d: tensor<3xf32>, %e: tensor<2x3xi8>) {\n"
        f'  %0:2 = "linalg.reduce"{given} <{{dimensions = array<i64: 1>}}> ({{\n'
        "  ^bb0(%x: f32, %y: f32, %z: f32, %w: f32):\n"
        '    "linalg.yield"(%x, %y) : (f32, f32) -> ()\n'
        f"  }}) : {types} -> (tensor<2xf32>, tensor<2xf32>)\n  return\n}}\n"
    )
    status, _, err = run_main([str(path)])
    assert status == 1
    assert message in err


def test_what_is_wrong_in_a_plain_form_is_told(tmp_path: Path) -> None:
    path = tmp_path / "text.mlir"
    path.write_text("%a = my.op {x = #alias} : () -> i8\n")
    assert "undefined symbol alias id 'alias'" in run_main([str(path)])[2]
    path.write_text("%a = my.op : () -> i8\nmy.op %a : (i16) -> ()\n")
    assert "expects different type than prior uses" in run_main([str(path)])[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "%0 = tensor.expand_shape %s [] output_shape [2] : tensor<f32> into tensor<2xf32>",
            "not of one element",
        ),
        (
            "%0 = tensor.pad %x low[0] high[1] {\n^bb0(%i: index):\n  tensor.yield %f : f32\n"
            "} : tensor<3xf32> to tensor<?xf32>",
            "expected length 4 of axis 0",
        ),
        (
            "%0 = arith.extsi %x : tensor<3xf32> to tensor<3xf64>",
            "cast incompatible",
        ),
        ("%0 = arith.cmpi eq, %x, %x : tensor<3xf32>", "does not compare values of type"),
        (
            "%0 = arith.select %b, %x, %x : tensor<2xi1>, tensor<3xf32>",
            "to have the same shape",
        ),
    ],
)
def test_what_is_not_valid_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "text.mlir"
    path.write_text(
        "func.func @f(%x: tensor<3xf32>, %s: tensor<f32>, %f: f32, %b: tensor<2xi1>) {\n"
        f"  {text}\n  return\n}}\n"
    )
    status, _, err = run_main([str(path)])
    assert status == 1
    assert message in err


def test_comparisons_of_tensors_with_themselves_are_left() -> None:
    """xDSL makes a scalar of them."""
    context = ToolContext()
    text = (
        "func.func @f(%x: tensor<3xi8>, %y: i8) -> (tensor<3xi1>, i1) {\n"
        "  %0 = arith.cmpi eq, %x, %x : tensor<3xi8>\n"
        "  %1 = arith.cmpi eq, %y, %y : i8\n"
        "  return %0, %1 : tensor<3xi1>, i1\n}\n"
    )
    module = parse_module(context, text)
    CanonicalizePass().apply(context, module)
    assert "arith.cmpi eq, %x, %x : tensor<3xi8>" in str(module)
    assert "arith.constant true" in str(module)


# Another tool reads


def script(directory: Path, body: str) -> str:
    path = directory / "a tool.sh"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return f"'{path}' --flag"


def test_another_tool_reads(tmp_path: Path) -> None:
    """It gets its flags, the one for the generic form, and the path; what it prints is read."""
    tool = script(
        tmp_path,
        """test "$1 $2" = "--flag --mlir-print-op-generic" && sed 's/MINE/"my.op"/' "$3" """,
    )
    path = tmp_path / "text.mlir"
    path.write_text("MINE() : () -> ()\n")
    status, out, err = run_main([f"--read-with={tool}", str(path)])
    assert (status, err) == (0, "")
    assert '"my.op"() : () -> ()' in out
    assert check.main([f"--read-with={tool}", str(path), str(path)]) == 0
    assert check.main([str(path), str(path)]) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "echo text.mlir:1:2: error: bad >&2; exit 3",
            "ended with status 3: text.mlir:1:2: error: bad",
        ),
        ("exit 1", "ended with status 1"),
        ("true", "printed nothing"),
    ],
)
def test_another_tool_fails(body: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "text.mlir"
    path.write_text("")
    status, out, err = run_main([f"--read-with={script(tmp_path, body)}", str(path)])
    assert (status, out) == (1, "")
    assert message in err
    assert err.startswith("qdialect-opt: error: --read-with: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "message"),
    [("no-such-tool", "cannot run"), ("'", "is not a valid command"), ("", "the command is empty")],
)
def test_there_is_no_other_tool(command: str, message: str, tmp_path: Path) -> None:
    status, _, err = run_main([f"--read-with={command}", str(tmp_path / "text.mlir")])
    assert status == 1
    assert message in err
    assert err.count("\n") == 1


def test_errors_in_what_another_tool_prints_have_its_name(tmp_path: Path) -> None:
    path = tmp_path / "text.mlir"
    path.write_text("")
    status, _, err = run_main([f"--read-with={script(tmp_path, 'echo oops')}", str(path)])
    assert status == 1
    assert "a tool.sh prints it:1:" in err
