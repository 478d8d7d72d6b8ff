"""The installed package has the files of the source tree."""

import importlib
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import qdialect
from qdialect.opt.command import TASKS, main
from qdialect.opt.process import MODULES

ROOT = Path(__file__).parents[2]


def test_every_package_is_installed():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules = {path.parent for path in (ROOT / "qdialect").rglob("__init__.py")}
    packages = {".".join(path.relative_to(ROOT).parts) for path in modules}
    assert set(settings["tool"]["setuptools"]["packages"]) == packages


def test_the_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]):
    assert qdialect.__version__ == version("qdialect")
    assert main(["--version"]) == 0
    assert f" {qdialect.__version__} (" in capsys.readouterr().out


def test_commands_start_in_one_place():
    """Where signals and memory are seen to, before anything else is imported."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    scripts: dict[str, str] = settings["project"]["scripts"]
    assert {*scripts} == {
        "qdialect",
        "qdialect-opt",
        "qdialect-calibrate",
        "qdialect-check",
        "qdialect-evaluate",
        "qdialect-run",
    }
    for target in scripts.values():
        module, function = target.split(":")
        assert module == "qdialect.opt.process"
        assert callable(getattr(importlib.import_module(module), function))


def test_help_lists_all_subcommands():
    named = {name for names in TASKS.values() for name in names}
    assert named == {name for name in MODULES if name}


def test_little_is_imported_before_signals_are_seen_to():
    code = (
        "import re, sys; before = set(sys.modules)\n"
        "import qdialect.opt.process\n"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    imported = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True, text=True
    )
    assert {*imported.stdout.split()} <= {"__future__", "qdialect", "signal", "_signal"}


def test_passes_have_one_name_only(tmp_path: Path):
    passes = importlib.import_module("qdialect.passes.fold_quant_shapes")
    assert passes.FoldQuantShapesPass.__module__ == "qdialect.passes.fold_quant_shapes"
    result = subprocess.run(
        [sys.executable, "-c", "import passes"], cwd=ROOT, capture_output=True, text=True
    )
    assert "imported as qdialect.passes" in result.stderr or "No module named" in result.stderr


def test_link_for_people_who_read_the_tree():
    link = ROOT / "passes"
    # Where links are not supported, git writes a file with the path in it.
    found = link.resolve() if link.is_symlink() else ROOT / link.read_text().strip()
    assert found == ROOT / "qdialect" / "passes"


def test_algebra_needs_numpy_only():
    """The algebra is of use without xDSL, and does not import it."""
    code = (
        "import sys, qdialect\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] == 'xdsl']"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("module", ["qdialect.opt.universe", "qdialect.opt.opt"])
def test_what_starts_often_starts_without_numpy(module: str):
    code = f"import sys, {module}\nassert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_ci_runs_the_command_of_the_readme():
    command = 'pip install -e ".[test]" && make test'
    assert command in (ROOT / "README.md").read_text()
    assert command in (ROOT / ".ci" / "run").read_text()
