"""`qdialect-opt`: behaviour that its output text does not show well."""

from __future__ import annotations

import io
import json
import os
import random
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.arith import AddiOp, ConstantOp
from xdsl.dialects.builtin import Builtin, ModuleOp, StringAttr
from xdsl.dialects.func import Func
from xdsl.dialects.test import Test
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.universe import Universe
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.lexer import Input, Span

from qdialect.opt.diagnostics import (
    Diagnostic,
    DiagnosticPrinter,
    Severity,
    render,
)
from qdialect.opt.expected_diagnostics import DiagnosticVerifier
from qdialect.opt.opt import main
from qdialect.opt.tool_error import EXIT_CLOSED_PIPE

GOOD = "func.func private @good()\n"
BAD = "func.func private @bad(%a)\n"
VERIFIED = """
!q = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
func.func @f(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = quant.qcast %a : tensor<2x3xf32> to tensor<2x3x!q>
  %1 = quant.dcast %0 : tensor<2x3x!q> to tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
// -----
func.func @g() -> tensor<2x2xi8> {
  %0 = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  return %0 : tensor<2x2xi8>
}
"""

Capture = pytest.CaptureFixture[str]


class StandardInput:
    """Bytes in place of a terminal."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], None]:
    def feed(content: str | bytes) -> None:
        encoded = content.encode() if isinstance(content, str) else content
        monkeypatch.setattr(sys, "stdin", StandardInput(encoded))

    return feed


def start_tool(*arguments: str) -> subprocess.Popen[str]:
    program = "import sys; from qdialect.opt.process import run; sys.exit(run())"
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


# Input


def test_errors_leave_standard_output_empty(feed: Callable[[str], None], capsys: Capture) -> None:
    feed(GOOD + BAD)
    assert main([]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("<stdin>:2:26: error: ")


def test_a_dump_that_fails_is_an_error(feed: Callable[[str], None], capsys: Capture) -> None:
    sums = "d0" + " + d0" * 5000
    feed(f'"a.b"() {{a = affine_map<(d0) -> ({sums})>}} : () -> ()\n')
    flags = ["--allow-unregistered-dialect", "--print-ir-after-all", "--verify-quant-shapes"]
    assert main(flags) == 1
    message = "error: printing after pass 'verify-quant-shapes' failed: nesting is too deep\n"
    assert capsys.readouterr().err.endswith(message)


def test_text_that_is_not_utf_8(feed: Callable[[bytes], None], capsys: Capture) -> None:
    feed(b'// \xc3\xa9\nfunc.func private @"\xc3\xa9\xff"()\n')
    assert main([]) == 1
    message, line, caret = capsys.readouterr().err.splitlines()
    assert message == "<stdin>:2:23: error: byte 0xFF is not UTF-8"
    assert line.index("\ufffd") == caret.index("^")


@pytest.mark.parametrize(
    ("content", "meaning"),
    [
        (b"ML\xefR\rMLIR22.1.8\x00", "MLIR bytecode: convert it to text with mlir-opt first"),
        (b"\x1c\x00\x00\x00TFL3\x14\x00", "a TensorFlow Lite model: convert it to MLIR text"),
        (b"PK\x03\x04\x14\x00", "a zip archive"),
        (b"\x1f\x8b\x08\x00\xff\x00", "a gzip-compressed file"),
        ("func.func".encode("utf-16"), "UTF-16 text"),
        ("func.func".encode("utf-16-le"), "UTF-16 text"),
    ],
)
def test_a_file_of_another_format(
    tmp_path: Path, capsys: Capture, content: bytes, meaning: str
) -> None:
    path = tmp_path / "in"
    path.write_bytes(content)
    assert main([str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{path}: error: this is {meaning}")
    assert err.count("\n") == 1
    # Another file may begin with the same letters.
    path.write_text("// " + content[:2].decode(errors="replace"), encoding="utf-8")
    assert main([str(path)]) == 0


def test_control_characters_do_not_get_to_the_terminal(
    feed: Callable[[bytes], None], capsys: Capture
) -> None:
    feed(b'"test.op"() \x1b[31m\t\x07 : () -> ()\n')
    assert main([]) == 1
    message, line, caret = capsys.readouterr().err.splitlines()
    assert "\x1b" not in message + line
    assert line == '"test.op"() \\x1b[31m\t\\x07 : () -> ()'
    assert line.index("\\x1b") == caret.index("^")
    assert main(["\x1b[31m\n" + "x" * 10_000]) == 1
    message = capsys.readouterr().err
    assert message.startswith("qdialect-opt: error: cannot open input file '\\x1b[31m\n")
    assert len(message) < 5000


def test_input_that_cannot_be_opened(tmp_path: Path, capsys: Capture) -> None:
    for path in (tmp_path / "nothing.mlir", tmp_path, "\0"):
        assert main([str(path)]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("qdialect-opt: error: cannot open input file '")
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (GOOD, 1),
        (f"{GOOD}// -----", 1),
        (f"{GOOD}// -----\n", 2),
        (f"{GOOD}// ---\n{GOOD}".replace("good", "other", 1), 1),
        (f"{GOOD}// -----\n{GOOD}", 2),
        (f"{GOOD.strip()} // -----\n{GOOD}", 2),
    ],
)
def test_parts_of_the_input(
    feed: Callable[[str], None], capsys: Capture, text: str, parts: int
) -> None:
    feed(text)
    assert main(["--split-input-file"]) == 0
    assert capsys.readouterr().out.count("builtin.module") == parts


# Output


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "out.mlir"
    path.write_text("old")
    path.chmod(0o640)
    return path


def test_output_keeps_the_mode_of_the_file(feed: Callable[[str], None], target: Path) -> None:
    feed(GOOD)
    assert main(["-o", str(target)]) == 0
    assert "@good" in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(target.parent) == [target.name]


def test_new_output_has_the_mode_of_a_new_file(feed: Callable[[str], None], tmp_path: Path) -> None:
    other, output = tmp_path / "other", tmp_path / "output"
    other.write_text("")
    feed(GOOD)
    assert main(["-o", str(output)]) == 0
    assert output.stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize("text", [BAD, f"{GOOD}// -----\n{BAD}", f"{BAD}// -----\n{GOOD}"])
def test_output_is_not_touched_after_an_error(
    feed: Callable[[str], None], target: Path, text: str
) -> None:
    feed(text)
    assert main(["-o", str(target), "--split-input-file"]) == 1
    assert target.read_text() == "old"
    assert os.listdir(target.parent) == [target.name]


def test_output_that_cannot_be_put_in_place(
    feed: Callable[[str], None], target: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def replace(source: str, destination: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", replace)
    feed(GOOD)
    assert main(["-o", str(target)]) == 1
    assert target.read_text() == "old"
    assert os.listdir(target.parent) == [target.name]
    expected = "qdialect-opt: error: cannot write the output: No space left on device\n"
    assert capsys.readouterr().err == expected


def test_output_through_a_link(feed: Callable[[str], None], target: Path) -> None:
    link = target.parent / "link.mlir"
    link.symlink_to(target)
    feed(GOOD)
    assert main(["-o", str(link)]) == 0
    assert link.is_symlink()
    assert "@good" in target.read_text()


def test_output_to_a_pipe(feed: Callable[[str], None], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        feed(GOOD)
        assert main(["-o", str(pipe)]) == 0
        assert "@good" in reader.communicate()[0]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_input_may_be_the_output(target: Path) -> None:
    target.write_text(GOOD)
    assert main([str(target), "-o", str(target), "--print-op-generic"]) == 0
    assert '"func.func"' in target.read_text()


def test_a_closed_pipe_ends_the_tool_quietly(tmp_path: Path) -> None:
    path = tmp_path / "big.mlir"
    path.write_text("".join(f"func.func private @f{number}()\n" for number in range(5000)))
    with start_tool(str(path)) as tool:
        assert tool.stdout is not None
        assert tool.stderr is not None
        assert tool.stdout.readline() == "builtin.module {\n"
        tool.stdout.close()
        assert tool.stderr.read() == ""
    assert tool.returncode == EXIT_CLOSED_PIPE


def test_a_closed_standard_stream_is_an_error() -> None:
    for redirection, name in ((">&-", "output"), ("<&-", "input")):
        program = "import sys; from qdialect.opt.process import run; sys.exit(run())"
        tool = subprocess.run(
            ["sh", "-c", f'"$0" -c "$1" {redirection}', sys.executable, program],
            input="" if name == "output" else None,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert tool.stderr == f"qdialect-opt: error: standard {name} is closed\n"
        assert tool.returncode == 1


# Diagnostics


def test_long_lines_are_shortened(feed: Callable[[str], None], capsys: Capture) -> None:
    padding = "A0" * 500_000
    text = (
        f'"test.op"() {{a = dense<"0x{padding}"> : tensor<500000xi8>}} : () -> () ] "{padding}"\n'
    )
    feed(text)
    assert main([]) == 1
    message, line, _ = capsys.readouterr().err.splitlines()
    # MLIR misses what is missing behind the token before.
    column = text.index(" ]") + 1
    assert message.endswith(f":1:{column}: error: expected operation name in quotes")
    assert line.startswith('"test.op"() {a = dense<"0x..."> : tensor<500000xi8>} : () -> () ] "A0')
    feed(f'"test.op"() {{a = "{padding}"}} : () -> () ] "{padding}"\n')
    assert main([]) == 1
    message, line, caret = capsys.readouterr().err.splitlines()
    assert message.endswith("error: expected operation name in quotes")
    assert len(line) < 250
    assert (line[:3], line[-3:]) == ("...", "...")
    assert line[caret.index("^") :].startswith(" ]")


def test_tabs_and_characters_of_several_bytes() -> None:
    text = Input('\tf("é")\tg\n', "a.mlir")
    diagnostic = Diagnostic(Severity.WARNING, "two\n  lines", Span(8, 9, text))
    assert render(diagnostic) == 'a.mlir:1:10: warning: two lines\n\tf("é")\tg\n\t      \t^\n'


def test_long_messages_are_shortened() -> None:
    message = render(Diagnostic(Severity.ERROR, "a" * 10_000_000, "tool"))
    assert message.startswith("tool: error: aaa")
    assert len(message) < 5000


def test_remarks_are_compared_with_annotations() -> None:
    text = Input("// expected-remark@+1 {{slow}}\nop // expected-note {{why}}\n", "a.mlir")
    stream = io.StringIO()
    verifier = DiagnosticVerifier(text, 1, DiagnosticPrinter(stream))
    place = Span(text.content.index("op"), text.content.index("op") + 2, text)
    verifier.emit(Diagnostic(Severity.REMARK, "this is slow", place))
    verifier.note("and why", place)
    assert verifier.finish()
    verifier.note("and where", place)
    assert not verifier.finish()
    assert stream.getvalue().startswith("a.mlir:2:1: error: unexpected note: and where\n")


def test_a_verifier_error_does_not_print_constants(
    feed: Callable[[str], None], capsys: Capture
) -> None:
    feed(
        "func.func @f(%a: f32) {\n"
        f'  %0 = arith.constant dense<"0x{"01" * 100_000}02"> : tensor<100001xi8>\n'
        "  %1 = quant.qcast %a : f32 to !quant.any<i8:f16>\n"
        "  return\n}\n"
    )
    assert main([]) == 1
    err = capsys.readouterr().err
    assert err.startswith("<stdin>:3:8: error: expressed type in quantized type expected to match")
    assert len(err) < 1000


# Passes


@dataclass(frozen=True)
class TestPass(ModulePass):
    """Does what a test asks for."""

    name = "test-pass"
    __test__ = False

    deed: str = "nothing"
    times: int = 1

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        match self.deed:
            case "decline":
                raise PassFailedException("will not do this")
            case "raise":
                raise KeyError("some key")
            case "recurse":
                self.apply(ctx, op)
            case "break":
                self._insert_wrong_op(op)
            case _:
                op.sym_name = StringAttr(f"{self.deed}_{self.times}")

    def _insert_wrong_op(self, module: ModuleOp) -> None:
        constant = next(op for op in module.walk() if isinstance(op, ConstantOp))
        wrong = AddiOp.create(operands=[constant.result], result_types=[constant.result.type])
        Rewriter.insert_op(wrong, InsertPoint.after(constant))


@pytest.fixture
def known_pass(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("qdialect.opt.registry._passes", lambda: {"test-pass": lambda: TestPass})
    return "--test-pass"


@pytest.mark.parametrize(
    ("deed", "message"),
    [
        ("decline", "<stdin>: error: will not do this\n"),
        ("raise", "<stdin>: error: pass 'test-pass' failed: KeyError: 'some key'\n"),
        ("recurse", "<stdin>: error: pass 'test-pass' failed: nesting is too deep\n"),
    ],
)
def test_a_pass_that_raises(
    feed: Callable[[str], None], known_pass: str, capsys: Capture, deed: str, message: str
) -> None:
    feed(GOOD)
    assert main([f"{known_pass}=deed={deed}"]) == 1
    assert capsys.readouterr() == ("", message)


def test_the_traceback_of_a_pass_is_there_for_debugging(
    feed: Callable[[str], None], known_pass: str, capsys: Capture
) -> None:
    feed(GOOD)
    assert main([f"{known_pass}=deed=raise", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_pass_that_leaves_the_module_wrong(
    feed: Callable[[str], None], known_pass: str, capsys: Capture
) -> None:
    text = "func.func @f() {\n  %0 = arith.constant 1 : i8\n  return\n}\n"
    feed(text)
    assert main([f"{known_pass}=deed=break"]) == 1
    # The place is that of the nearest operation of the text.
    assert capsys.readouterr().err == (
        "<stdin>:2:8: error: Expected 2 operands, but got 1\n"
        "  %0 = arith.constant 1 : i8\n"
        "       ^\n"
        "<stdin>: note: after pass 'test-pass'\n"
    )
    for unverified in ("--verify-each=false", "--disable-verify"):
        feed(text)
        assert main([f"{known_pass}=deed=break", unverified, "--print-op-generic"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--test-pass=deed=x times=3"],
        ["-test-pass=times=3 deed=x"],
        ['--test-pass=deed="x" times=3'],
        ["-p", "test-pass{deed=x times=3}"],
        ["-p", "test-pass{deed=y},test-pass{deed=x times=3}"],
        ["--test-pass", "-p", "test-pass{times=3 deed=x}"],
        ["--pass-pipeline=builtin.module(test-pass{deed=y}, test-pass{ deed=x times=3 })"],
    ],
)
@pytest.mark.usefixtures("known_pass")
def test_options_of_passes(
    feed: Callable[[str], None], capsys: Capture, arguments: list[str]
) -> None:
    feed("")
    assert main(arguments) == 0
    assert "@x_3" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argument",
    [
        "--test-pass=deed",
        "--test-pass=times=x",
        "--test-pass=times=1.5",
        "--test-pass=other=1",
        "--test-pass={",
        "--test-pass=}",
        "--test-pass=deed=",
        '--test-pass=deed="',
        "--test-pass=deed=x times",
        "-p=test-pass{",
        "-p=test-pass{deed",
        "-p=test-pass}",
        "-p=test-pass[x]",
        "-p=,",
        "-p=test-pass test-pass",
        "--pass-pipeline=",
        "--pass-pipeline=builtin.module(test-pass",
        "--pass-pipeline=builtin.module(builtin.module(nothing))",
        "-t=mlir{x=1}",
        "-t=",
        "-t=mlir,mlir",
        "--=",
    ],
)
@pytest.mark.usefixtures("known_pass")
def test_malformed_arguments(feed: Callable[[str], None], capsys: Capture, argument: str) -> None:
    feed("")
    assert main([argument]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("qdialect-opt: error: ")
    assert err.count("\n") == 1


# Plug-ins


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def plugins() -> tuple[Universe, ...]:
        asked.append("plug-ins")
        operations = [op for op in Test.operations if op.name == "test.op"]
        return (
            Universe(
                all_dialects={"test": lambda: Dialect("test", operations, [])},
                all_passes={"test-pass": lambda: TestPass},
            ),
        )

    stock = {"func": lambda: Func, "builtin": lambda: Builtin}
    monkeypatch.setattr("qdialect.opt.registry._plugins", plugins)
    monkeypatch.setattr("qdialect.opt.registry._dialects", lambda: stock)
    return asked


def test_plug_ins_are_asked_for_what_is_unknown(
    feed: Callable[[str], None], capsys: Capture, plugged: list[str]
) -> None:
    feed('"test.op"() : () -> ()')
    assert main(["--test-pass=deed=x"]) == 0
    out = capsys.readouterr().out
    assert '"test.op"() : () -> ()' in out
    assert "@x_1" in out
    assert plugged


def test_a_plug_in_whose_dialect_does_not_load(
    feed: Callable[[str], None], capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The reason is told, and not that a form is unknown."""
    (tmp_path / "broken_dialect.py").write_text("import typing\nimport nothing_there\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    universe = Universe(all_dialects={"own": lambda: import_module("broken_dialect").Own})
    monkeypatch.setattr("qdialect.opt.registry._plugins", lambda: (universe,))
    feed("own.op : i32")
    assert main([]) == 1
    reason = "ModuleNotFoundError: No module named 'nothing_there' (broken_dialect.py:2)"
    err = capsys.readouterr().err
    assert f"<stdin>:1:1: error: the dialect 'own' of a plug-in does not load: {reason}\n" in err


def test_plug_ins_are_not_loaded_for_what_is_known(
    feed: Callable[[str], None], plugged: list[str]
) -> None:
    feed(GOOD)
    assert main(["--canonicalize"]) == 0
    assert not plugged


# Everything


def mutated(content: bytes, source: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(source.choice((1, 1, 2, 4))):
        at = source.randrange(len(changed) + 1)
        match source.randrange(4):
            case 0:
                del changed[at:]
            case 1:
                changed[at : at + 1] = bytes([source.randrange(256)])
            case 2:
                del changed[at : at + source.randrange(1, 8)]
            case _:
                start = source.randrange(len(content))
                changed[at:at] = content[start : start + source.randrange(1, 20)]
    return bytes(changed)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--canonicalize", "--cse", "--print-op-generic"],
        ["--split-input-file"],
        ["--allow-unregistered-dialect", "--fold-quant-shapes"],
        ["--verify-diagnostics"],
    ],
)
def test_mutated_text_is_processed_or_refused(
    feed: Callable[[bytes], None], capsys: Capture, arguments: list[str]
) -> None:
    source = random.Random(22)
    for _ in range(60):
        feed(mutated(VERIFIED.encode(), source))
        status = main(arguments)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert (status, ": error: " in err) in ((0, False), (1, True))
        assert (
            status == 0 or not out or {"--split-input-file", "--verify-diagnostics"} & {*arguments}
        )


# What is told of folds


TRANSPOSED = """
func.func @f() -> tensor<2x1xi8> {
  %w = arith.constant dense<[[1, 2]]> : tensor<1x2xi8>
  %e = tensor.empty() : tensor<2x1xi8>
  %t = linalg.transpose ins(%w : tensor<1x2xi8>) outs(%e : tensor<2x1xi8>) permutation = [1, 0]
  return %t : tensor<2x1xi8>
}
"""
TWICE = f"{TRANSPOSED}\n// -----\n{TRANSPOSED}"


def test_fold_report(feed: Callable[[str], None], tmp_path: Path, capsys: Capture) -> None:
    feed(TWICE)
    report = tmp_path / "report.json"
    assert main(["--fold-quant-shapes", f"--fold-report={report}", "--split-input-file"]) == 0
    first, second = json.loads(report.read_text())["records"]
    assert first == {
        "outcome": "folded",
        "op": "linalg.transpose",
        "location": "<stdin>:5:8",
        "result": "%t",
        "sources": ["%w"],
        "constant": "%w",
        "stands": "%w",
        "range": "same",
    }
    assert second["location"] == "<stdin>:14:8"


def test_fold_report_is_whole_or_not_there(feed: Callable[[str], None], tmp_path: Path) -> None:
    report, output = tmp_path / "report.json", tmp_path / "out.mlir"
    report.write_text("old")
    feed(TRANSPOSED.replace("return %t", "return %x"))
    assert main(["--fold-quant-shapes", f"--fold-report={report}", "-o", str(output)]) == 1
    assert report.read_text() == "old"
    assert not output.exists()


def test_fold_report_that_cannot_be_written(
    feed: Callable[[str], None], tmp_path: Path, capsys: Capture
) -> None:
    output = tmp_path / "out.mlir"
    feed(TRANSPOSED)
    assert main(["--fold-quant-shapes", f"--fold-report={tmp_path}/no/x", "-o", str(output)]) == 1
    assert "cannot open output file" in capsys.readouterr().err
    assert not output.exists()


def test_fold_statistics_of_several_modules(feed: Callable[[str], None], capsys: Capture) -> None:
    feed(TWICE)
    assert main(["--fold-quant-shapes", "--fold-stats", "--split-input-file"]) == 0
    table = dict(re.findall(r"^(\w[\w ]*\w)  +(\d+)$", capsys.readouterr().err, re.MULTILINE))
    assert table == {
        "constants folded": "2",
        "shape ops removed": "2",
        "bytes before": "4",
        "bytes after": "4",
        "refused": "0",
    }


def test_lies_are_errors_where_they_are(feed: Callable[[str], None], capsys: Capture) -> None:
    feed(
        """!a = !quant.uniform<i8:f32:0, {0.5,0.25}>
func.func @f(%x: tensor<2x2x!a>) {
  %0 = tosa.reverse %x {axis = 1 : i32} : (tensor<2x2x!a>) -> tensor<2x2x!a>
  %1 = tosa.reverse %x {axis = 0 : i32} : (tensor<2x2x!a>) -> tensor<2x2x!a>
  %2 = tosa.identity %x : (tensor<2x2x!a>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  return
}
"""
    )
    assert main(["--verify-quant-shapes"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    places = [line.split(" error:")[0] for line in err.splitlines() if " error:" in line]
    assert places == ["<stdin>:4:8:", "<stdin>:5:8:"]
