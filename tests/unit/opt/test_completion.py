"""`qdialect completion`: the scripts complete what `--help` shows, in shells that run them."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import pytest

from qdialect.opt.command import help_text
from qdialect.opt.completion import completions, main, script
from qdialect.opt.process import MODULES
from qdialect.opt.registry import get_all_passes

pytestmark = pytest.mark.usefixtures("without_plugins")

SHELLS = ("bash", "zsh", "fish")

IN_BASH = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_qdialect
printf '%s\\n' "${COMPREPLY[@]}"
"""

Complete = Callable[..., list[str]]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file with the script of each shell."""
    folder = tmp_path_factory.mktemp("scripts")
    paths = {shell: folder / f"qdialect.{shell}" for shell in SHELLS}
    for shell, path in paths.items():
        path.write_text(script(shell))
    return paths


@pytest.fixture(scope="module")
def complete(scripts: dict[str, Path]) -> Complete:
    """Completes the last of some words, in bash."""

    def run(*words: str) -> list[str]:
        command = ["bash", "--norc", "-c", IN_BASH, "bash", str(scripts["bash"]), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split("\n")[:-1]

    return run


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["qdialect", "we"], ["weights"]),
        (["qdialect", "--ver"], ["--version"]),
        (["qdialect", "completion", ""], [*SHELLS]),
        (["qdialect", "profile", ""], ["merge"]),
        (["qdialect", "profile", "merge", "-"], ["-h", "--help", "-o"]),
        (["qdialect", "weights", "con"], ["convert"]),
        (["qdialect", "weights", "--weights", "m.json", "info", "--la"], ["--layout="]),
        (["/usr/bin/qdialect-opt", "--fold-q"], ["--fold-quant-shapes"]),
        (["qdialect-opt", "a.mlir", "--output-f"], ["--output-file="]),
        (["qdialect-calibrate", "--engine", "i"], ["iree"]),
        (["qdialect", "calibrate", "--perc"], ["--percentile"]),
        # A value that is not one of some, and an input, are files.
        (["qdialect-opt", "--fold-plan", ""], [""]),
        (["qdialect-opt", ""], [""]),
        (["qdialect-opt", "--fold-quant-shapes", ""], [""]),
        # Bash splits words at `=`, outside of quotes, and replaces the part behind it.
        (["qdialect-opt", "--op-form", "=", "l"], ["llvm22", "llvm24"]),
        (["qdialect-opt", "--fold-quant-shapes", "=", "ver"], ["verify="]),
        (
            ["qdialect-opt", "--fold-quant-shapes", "=", "verify", "="],
            ["none", "structure", "values"],
        ),
        (["qdialect-opt", "--fold-quant-shapes", "=", "verify", "=", "st"], ["structure"]),
        (
            ["qdialect-opt", "--fold-quant-shapes", "=", '"verify=none gra'],
            ["verify=none granularity="],
        ),
        (
            ["qdialect-opt", "--fold-quant-shapes", "=", '"verify=none granularity=per-t'],
            ["verify=none granularity=per-tensor"],
        ),
        (["qdialect-opt", "-p", "'canonicalize,sink-"], ["canonicalize,sink-quant-shapes"]),
    ],
)
def test_in_bash(words: Sequence[str], completed: Sequence[str], complete: Complete) -> None:
    assert complete(*words) == [*completed]


def test_all_subcommands_and_their_flags(complete: Complete) -> None:
    subcommands = [name for name in MODULES if name]
    assert sorted(complete("qdialect", "")) == sorted(subcommands)
    for name in subcommands:
        shown = flags_in(help_of(MODULES[name], *["--help=all"] * (name == "opt")))
        typed = {word.rstrip("=") for word in complete(f"qdialect-{name}", "-")}
        assert shown <= typed
        assert typed - shown <= {"-h"} | {f"--{name}" for name in get_all_passes()}


def help_of(module: str, *arguments: str) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        assert import_module(module).main([*arguments] or ["--help"]) == 0
    return printed.getvalue()


def flags_in(text: str) -> set[str]:
    """The flags at the beginning of lines, and the other names of qdialect-opt."""
    lines = re.findall(r"^  (--?[a-zA-Z].*?)(?:  |$)", text, re.MULTILINE)
    others = re.findall(r"Other names: (.*?)\.", text, re.DOTALL)
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", " ".join([*lines, *others])))


@pytest.mark.parametrize("shell", SHELLS)
def test_the_words_of_all_help_are_in_the_script(shell: str, scripts: dict[str, Path]) -> None:
    text = scripts[shell].read_text()
    flags = set[str]()
    for name, module in MODULES.items():
        flags |= flags_in(help_of(module))
        assert f"'qdialect {name}".rstrip() in text
    for action in ("fold", "quantize", "verify", "info", "import", "convert"):
        flags |= flags_in(help_of(MODULES["weights"], action, "--help"))
    missing = {flag for flag in flags if not re.search(rf"'{flag}(?==|\t|')", text)}
    assert not missing
    assert "completion" in help_text()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_reads_the_script(shell: str, scripts: dict[str, Path]) -> None:
    """Each shell that is installed; bash always is."""
    if shell == "bash" or shutil.which(shell) is not None:
        subprocess.run([shell, "-n", str(scripts[shell])], check=True)


def test_in_fish(scripts: dict[str, Path]) -> None:
    """Fish can print what it completes; where it is not installed, its table is compared."""
    assert "structure" in completions()["qdialect opt --fold-quant-shapes= verify="]
    if shutil.which("fish") is not None:
        line = "qdialect opt --fold-quant-shapes=verify=st"
        program = f"source {scripts['fish']}; complete -C '{line}'"
        done = subprocess.run(["fish", "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == "--fold-quant-shapes=verify=structure\n"


def test_what_is_no_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["csh"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("qdialect completion: error: argument shell: invalid choice: 'csh'")
