"""
Running the documentation: README.md, the pages beside it, and every page in docs/.

The info string of a fenced block selects how it is tested, as docs/testing.md explains.
"""

from __future__ import annotations

import inspect
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from installed import is_installed
from tool_server import shared_server

import qdialect
from qdialect.algebra.movement import Movement
from qdialect.check.check_tool import main as check_main
from qdialect.check.run_tool import main as run_main
from qdialect.export.export_tool import main as export_main
from qdialect.opt.opt import main
from qdialect.ptq.tools.calibrate import main as calibrate_main
from qdialect.ptq.tools.evaluate import main as evaluate_main
from qdialect.ptq.tools.quantize import main as quantize_main
from qdialect.weights.weights_tool import main as weights_main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ALL_PAGES = [*PAGES, *sorted({*ROOT.glob("*.md")} - {*PAGES})]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

FENCED = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def convert_weights_main(arguments: Sequence[str]) -> int:
    return weights_main(["convert", *arguments])


def fold_weights_main(arguments: Sequence[str]) -> int:
    return weights_main(["fold", *arguments])


def import_weights_main(arguments: Sequence[str]) -> int:
    return weights_main(["import", *arguments])


def quantize_weights_main(arguments: Sequence[str]) -> int:
    return weights_main(["quantize", *arguments])


TOOLS = (
    *(run_main, check_main, calibrate_main, evaluate_main, quantize_main, export_main),
    *(fold_weights_main, quantize_weights_main, import_weights_main, convert_weights_main),
)
"""The tools whose options pages may name."""

CHECKED_COMMANDS = {"make", "pip", "pytest", "python", "source", "uv"}
"""What installs, or works on the repository: not run, but what it names must exist."""

PIP_OPTIONS = {"-e", "--no-deps"}

TOOLS_OF_OTHERS = {"iree-compile", "iree-opt", "iree-run-module", "mlir-opt-22"}
"""The commands that run only if they are installed."""

DEFAULT_PASS = "--fold-quant-shapes"

OPTIONS_OF_OTHERS = {
    "--frontend",
    "--import-mode=importlib",
    "--mib",
    "--ops",
    "--parsing-diagnostics",
    "--print-no-properties",
    "--runs",
    "--shrink",
    "--split-input",
    "--syntax-highlight",
    "--tosa-layerwise-constant-fold",
    "-f",
}


@dataclass(frozen=True)
class Block:
    """A fenced block, and what its info string says."""

    place: str
    kind: str
    arguments: tuple[str, ...]
    text: str


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """The fenced blocks of a page, from top to bottom."""
    for fence in FENCED.finditer(text):
        kind, *arguments = fence[1].split() or [""]
        line = text.count("\n", 0, fence.start()) + 1
        yield Block(f"{page}:{line}", kind, tuple(arguments), fence[2])


def assert_same_text(expected: str, actual: str, place: str) -> None:
    """Compare texts; three dots in the first one match anything."""

    def tidy(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.strip().splitlines())

    pattern = ".*?".join(map(re.escape, tidy(expected).split("...")))
    assert re.fullmatch(pattern, tidy(actual), re.DOTALL), (
        f"{place}: expected\n{expected}\nbut got\n{actual}"
    )


def opt(*arguments: str) -> str:
    """What qdialect-opt prints; it must succeed."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(arguments)
    assert status == 0, err.getvalue()
    return out.getvalue()


def help_of(tool: Callable[[Sequence[str]], int]) -> str:
    """What qdialect-run or qdialect-check prints of its options."""
    out = io.StringIO()
    with redirect_stdout(out), suppress(SystemExit):
        tool(["--help"])
    return out.getvalue()


def check_command(words: list[str], place: str) -> None:
    """Check that the files, extras and targets which a command names exist."""
    command, *arguments = words
    for word in arguments:
        path, bracket, extras = word.partition("[")
        if command == "pip" and path.startswith("-"):
            assert path in PIP_OPTIONS, f"{place}: pip {path}"
        elif bracket:
            known = PROJECT["optional-dependencies"]
            assert path == ".", f"{place}: {word}"
            assert all(extra in known for extra in extras.rstrip("]").split(",")), place
        elif command == "make":
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            assert word in targets, f"{place}: make has no target {word}"
        elif "/" in word and not word.startswith((".venv", "http")):
            assert (ROOT / word).exists(), f"{place}: there is no {word}"


@dataclass
class PageRunner:
    """Runs the blocks of one page, in an empty folder."""

    folder: Path
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "docs"})
    before: Path | None = None
    reading: Sequence[str] = ()
    """The flags that `before` is read with."""
    printed: str | None = None

    def __post_init__(self) -> None:
        (self.folder / "examples").symlink_to(ROOT / "examples")
        self.installed = self.folder / ".installed"
        self.paths = list[Path]()
        self._install(ROOT)

    def run(self, block: Block) -> None:
        """Do what the info string says. Raises what goes wrong."""
        match block.kind, block.arguments:
            case _, ("in", name):
                assert block.text in (ROOT / name).read_text(), f"{block.place}: not in {name}"
            case "mlir", ("error", *flags):
                self._check_diagnostics(block, flags)
            case "mlir", ("remarks", *flags):
                self._check_diagnostics(block, ["--remarks", *(flags or [DEFAULT_PASS])])
            case "mlir", ("before", *flags):
                self.before = self._write("before.mlir", block.text)
                self.reading = flags
                opt(*flags, str(self.before))
            case "mlir", ("after", *flags):
                assert self.before is not None, f"{block.place}: nothing is before it"
                after = opt(*self.reading, str(self._write("after.mlir", block.text)))
                before = opt(*self.reading, *(flags or [DEFAULT_PASS]), str(self.before))
                assert before == after, f"{block.place}: got\n{before}"
            case "mlir", ():
                opt(str(self._write("block.mlir", block.text)))
            case "mlir", (name,):
                self._read(self._write(name, block.text))
            case "python", ():
                with redirect_stdout(io.StringIO()) as printed, chdir(self.folder):
                    exec(
                        compile(block.text, block.place, "exec", dont_inherit=True), self.namespace
                    )
                self.printed = printed.getvalue()
            case (("python" | "sh"), ("needs", *libraries)):
                missing = [name for name in libraries if not is_installed(name)]
                if missing:
                    pytest.skip(f"{block.place} needs {', '.join(missing)}")
                self.run(replace(block, arguments=()))
            case "python", (name,):
                compile(block.text, block.place, "exec", dont_inherit=True)
                self._write(name, block.text)
            case "sh", ("fails",) | ():
                self._run_commands(block)
            case "output", ():
                assert self.printed is not None, f"{block.place}: of what?"
                assert_same_text(block.text, self.printed, block.place)
                self.printed = None
            case "text", ():
                pass
            case "text", (name,):
                self._write(name, block.text)
            case _:
                pytest.fail(f"{block.place}: what is {block.kind} {block.arguments}?")

    def _read(self, file: Path) -> None:
        """Read a module; with other packages, in a process that knows of these."""
        if len(self.paths) == 1:
            opt(str(file))
        else:
            done = self._run_command(f"qdialect-opt {file}")
            assert done.returncode == 0, done.stdout

    def _check_diagnostics(self, block: Block, flags: Sequence[str]) -> None:
        file = self._write("diagnostics.mlir", block.text)
        assert "expected-" in block.text, f"{block.place}: nothing is expected"
        opt(*flags, "--split-input-file", "--verify-diagnostics", str(file))

    def _install(self, folder: Path) -> None:
        """What pip would do for plug-ins: the metadata with the entry points of a project."""
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        metadata = self.installed / f"{project['name']}-0.dist-info"
        metadata.mkdir(parents=True)
        name_and_version = f"Name: {project['name']}\nVersion: {project['version']}\n"
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\n{name_and_version}")
        entry_points = "".join(
            f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
            for group, points in project["entry-points"].items()
        )
        (metadata / "entry_points.txt").write_text(entry_points)
        self.paths.append(folder)

    def _write(self, name: str, text: str) -> Path:
        """A block as a file; one that the repository has must be the same."""
        if (ROOT / name).exists():
            assert (ROOT / name).read_text() == text, f"{name} is another"
            return ROOT / name
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    def _run_commands(self, block: Block) -> None:
        commands = [
            command.strip()
            for line in block.text.splitlines()
            for command in line.partition(" #")[0].split(" && ")
        ]
        for command in filter(None, commands):
            words = shlex.split(command)
            if words[0] in CHECKED_COMMANDS or any("tests/" in word for word in words):
                check_command(words, block.place)
                for word in words[1:] if words[0] == "pip" else ():
                    if "/" in word:
                        self._install(ROOT / word)
            elif all(map(shutil.which, TOOLS_OF_OTHERS.intersection(words))):
                done = self._run_command(command)
                self.printed = done.stdout
                failed = done.returncode != 0
                assert failed == ("fails" in block.arguments), f"{block.place}: {done.stdout}"

    def _run_command(self, command: str) -> subprocess.CompletedProcess[str]:
        paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
        if len(self.paths) == 1:
            # The server knows of no other packages.
            paths = [shared_server().folder, *paths]
        environment = {
            "PATH": os.pathsep.join(paths),
            "PYTHONPATH": os.pathsep.join(map(str, (self.installed, *self.paths))),
        }
        return subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )


def run_page(name: str, text: str, folder: Path) -> None:
    """Run all blocks of a page."""
    runner = PageRunner(folder)
    for block in blocks_of(name, text):
        runner.run(block)


def prose_of(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def with_marker(page: Path) -> ParameterSet:
    """A page to run, marked if it needs what is not installed everywhere."""
    is_of_others = page.name in ("onnx.md", "pipelines.md")
    marks = [pytest.mark.exporters] if is_of_others else []
    return pytest.param(page, marks=marks, id=page.name)


@pytest.mark.parametrize("page", [with_marker(page) for page in ALL_PAGES])
def test_blocks(page: Path, tmp_path: Path) -> None:
    run_page(page.name, page.read_text(encoding="utf-8"), tmp_path)


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.name)
def test_links(page: Path) -> None:
    for target in LINK.findall(prose_of(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name}: there is no {target}"
        if anchor:
            titles = HEADING.findall(prose_of(linked))
            known = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
            assert anchor in known, f"{page.name}: there is no {target}"


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.name)
def test_options(page: Path) -> None:
    """An option in the text is one of the tools."""
    helps = [opt("--help"), *map(help_of, TOOLS)]
    known = re.findall(r"--?[\w-]+", "".join(helps))
    for span in SPAN.findall(prose_of(page)):
        if span.startswith("-") and span not in OPTIONS_OF_OTHERS:
            option = re.split(r"[ =]", span)[0]
            assert option in known, f"{page.name}: no tool has {span}"


def test_files_of_the_architecture_exist() -> None:
    """A name without a folder is a file beside the one named before it."""
    package, found = ROOT / "qdialect", 0
    for line in prose_of(ROOT / "docs" / "architecture.md").splitlines():
        folder = package
        for span in SPAN.findall(line):
            if not span.endswith(".py") or re.search(r"[<{]", span) or span.startswith("tests/"):
                continue
            path = package / span if "/" in span else folder / span
            assert path.is_file(), f"architecture.md: there is no {span}"
            folder, found = path.parent, found + 1
    assert found > 50


def test_movements_are_as_the_page_of_models_says() -> None:
    """All that a shape op may be, with their arguments."""
    text = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
    table = text.partition("| movement of `qdialect` |")[2].partition("\n\n")[0]
    written = dict(re.findall(r"^\| `(\w+)\((.*)\)` \|", table, re.MULTILINE))
    assert {*written, "Chain", "Movement", "PadWith"} == {
        name
        for name in qdialect.__all__
        if isinstance(kind := getattr(qdialect, name), type) and issubclass(kind, Movement)
    }
    for name, arguments in written.items():
        assert [*inspect.signature(getattr(qdialect, name)).parameters] == arguments.split(", ")


def test_every_page_is_in_the_table_of_contents() -> None:
    linked = set(LINK.findall(prose_of(ROOT / "README.md")))
    assert {f"docs/{page.name}" for page in PAGES[1:]} <= linked


def test_the_changes_of_contributing_are_rows_of_the_architecture() -> None:
    _, _, text = prose_of(ROOT / "CONTRIBUTING.md").partition("## 2. ")
    changes = re.findall(r"^\d+\. (.*)$", text.partition("## 3. ")[0], re.MULTILINE)
    rows = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines()
    assert len(changes) == 10
    for change in changes:
        assert any(re.match(rf"\| {change}[ ;:]", row) for row in rows), change


def test_the_readme_is_short() -> None:
    """Before the blocks of its first example, it says for whom it is; commands follow soon."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert lines.index("```mlir before") < 30
    assert max(at for at, line in enumerate(lines) if line.startswith("pip install")) < 75


def test_the_guide_can_be_read_in_an_afternoon() -> None:
    """It is the numbered list of the README."""
    pages = re.findall(
        r"^[0-9]\. \[[^]]+\]\((docs/[^)]+)\)", (ROOT / "README.md").read_text(), re.M
    )
    assert len(pages) == 5
    assert sum(len((ROOT / page).read_text().splitlines()) for page in pages) <= 1500


@pytest.mark.parametrize("kind", ["python", "sh"])
def test_what_is_not_installed_is_skipped(kind: str, tmp_path: Path) -> None:
    text = f"```{kind} needs qdialect qdialect.none\nnone\n```\n"
    with pytest.raises(pytest.skip.Exception, match=r"skipped.md:1 needs qdialect\.none"):
        run_page("skipped.md", text, tmp_path)


WRONG_PAGES = {
    "unknown block": "```yaml\na: 1\n```\n",
    "part of a file that is not in it": "```toml in pyproject.toml\nname = 1\n```\n",
    "python that raises": "```python\nassert 1 == 2\n```\n",
    "needed python that raises": "```python needs qdialect\nassert 1 == 2\n```\n",
    "needed command that fails": "```sh needs qdialect\nno-such-command\n```\n",
    "python that does not compile": "```python lit.cfg.py\n1 +\n```\n",
    "other print": "```python\nprint(1)\n```\n```output\n2\n```\n",
    "other ending": "```python\nprint(1234)\n```\n```output\n12...5\n```\n",
    "output of nothing": "```output\n2\n```\n",
    "mlir that does not parse": "```mlir\nfunc.func @f(\n```\n",
    "mlir that does not verify": (
        "```mlir\n%0 = quant.constant dense<9> : tensor<2x!quant.uniform<i8<0:7>:f32, 0.5>>\n```\n"
    ),
    "error that is none": (
        "```mlir error\n// expected-error @+1 {{no}}\nfunc.func private @f()\n```\n"
    ),
    "error that a pass does not find": (
        "```mlir error --fold-quant-shapes\n// expected-error @+1 {{no}}\n"
        "func.func private @f()\n```\n"
    ),
    "error without a comment": "```mlir error\nfunc.func private @f()\n```\n",
    "error that the flags do not give": (
        "```mlir error --canonicalize\n// expected-error @+1 {{no}}\nfunc.func private @f()\n```\n"
    ),
    "remark that is none": (
        "```mlir remarks\n// expected-remark @+1 {{no}}\nfunc.func private @f()\n```\n"
    ),
    "remark that is not expected": (
        "```mlir remarks\n// expected-remark @+3 {{dropped}}\n"
        "func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<1x2xf32>) {\n"
        '  %0 = "tensor.collapse_shape"(%x) <{reassociation = [[0]]}>\n'
        "    : (tensor<2xf32>) -> tensor<2xf32>\n"
        "  %1 = tensor.expand_shape %x [[0, 1]] output_shape [1, 2]\n"
        "    : tensor<2xf32> into tensor<1x2xf32>\n"
        "  return %0, %1 : tensor<2xf32>, tensor<1x2xf32>\n}\n```\n"
    ),
    "before that needs a flag": '```mlir before\n"other.op"() : () -> ()\n```\n',
    "after of nothing": "```mlir after\nfunc.func private @f()\n```\n",
    "other after": (
        "```mlir before\nfunc.func private @f()\n```\n```mlir after\nfunc.func private @g()\n```\n"
    ),
    "example that differs": "```mlir examples/tiny.mlir\nfunc.func private @f()\n```\n",
    "command that fails": "```sh\nqdialect-opt --no-such-pass examples/tiny.mlir\n```\n",
    "command that succeeds": "```sh fails\nqdialect-opt examples/tiny.mlir\n```\n",
    "command of which there is none": "```sh\nno-such-command\n```\n",
    "file that is missing": "```sh\nqdialect-opt examples/none.mlir\n```\n",
    "test that is missing": "```sh\nlit tests/none\n```\n",
    "extra that is missing": '```sh\npip install -e ".[none]"\n```\n',
    "option that pip has not": "```sh\npip install --none .\n```\n",
    "other result": "```sh\nqdialect-opt --version\n```\n```output\nnone\n```\n",
}


@pytest.mark.parametrize("text", WRONG_PAGES.values(), ids=WRONG_PAGES.keys())
def test_what_is_wrong_is_found(text: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, SyntaxError, pytest.fail.Exception)):
        run_page("wrong.md", text, tmp_path)


def test_what_is_right_is_accepted(tmp_path: Path) -> None:
    text = (
        "```python\nx = 1\n```\n```python\nprint(x + 1, 'to', 9)\n```\n```output\n2 ... 9\n```\n"
        "```mlir m.mlir\nfunc.func private @f()\n```\n"
        "```sh\npip install . && qdialect-opt m.mlir\n```\n"
        "```output\nbuiltin.module {\n...\n}\n```\n"
        "```sh fails\nqdialect-opt none.mlir\n```\n```output\n...none.mlir...\n```\n"
        "```mlir error --verify-quant-shapes\n"
        "// expected-error @+1 {{every element is 9, outside the storage range [-7, 7]}}\n"
        '%w = "tosa.const"() <{values = dense<9> : tensor<2xi8>}>'
        " : () -> tensor<2x!quant.uniform<i8<-7:7>:f32, 0.5>>\n```\n"
        "```text\nnothing\n```\n"
        '```toml in examples/npu/pyproject.toml\nname = "npu"\n```\n'
        "```sh\npip install examples/npu\nxdsl-opt -p npu-fuse-relu6 examples/npu/model.mlir\n```\n"
        "```output\nbuiltin.module {\n...npu.relu6...\n}\n```\n"
        '```mlir before --allow-unregistered-dialect\n"other.op"() : () -> ()\n```\n'
        '```mlir after\n"other.op"() : () -> ()\n```\n'
        "```mlir error --verify-quant-shapes --allow-unregistered-dialect\n"
        '%0 = "other.op"() : () -> tensor<2x2x!quant.uniform<i8:f32:0, {0.5,0.25}>>\n'
        "// expected-error @+1 {{reads slot}}\n"
        "%1 = tosa.transpose %0 {perms = array<i32: 1, 0>}\n"
        "  : (tensor<2x2x!quant.uniform<i8:f32:0, {0.5,0.25}>>)\n"
        "  -> tensor<2x2x!quant.uniform<i8:f32:0, {0.5,0.25}>>\n```\n"
        "```mlir remarks\n"
        "func.func @f(%x: tensor<2xf32>) -> tensor<1x2xf32> {\n"
        "  // expected-remark @+1 {{not folded: operand #0 is an argument [not-constant]}}\n"
        "  %1 = tensor.expand_shape %x [[0, 1]] output_shape [1, 2]\n"
        "    : tensor<2xf32> into tensor<1x2xf32>\n"
        "  return %1 : tensor<1x2xf32>\n}\n```\n"
    )
    run_page("right.md", text, tmp_path)
