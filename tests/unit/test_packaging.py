"""What is installed is what is in the tree."""

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_package_is_installed():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules = {path.parent for path in (ROOT / "qdialect").rglob("__init__.py")}
    packages = {".".join(path.relative_to(ROOT).parts) for path in modules}
    if (ROOT / "passes" / "__init__.py").exists():
        packages.add("qdialect.passes")
    assert set(settings["tool"]["setuptools"]["packages"]) == packages


def test_passes_have_one_name_only(tmp_path: Path):
    passes = importlib.import_module("qdialect.passes.fold_quant_shapes")
    assert passes.FoldQuantShapesPass.__module__ == "qdialect.passes.fold_quant_shapes"
    result = subprocess.run(
        [sys.executable, "-c", "import passes"], cwd=ROOT, capture_output=True, text=True
    )
    assert "imported as qdialect.passes" in result.stderr or "No module named" in result.stderr


def test_link_for_tools_that_read_the_tree():
    assert os.path.realpath(ROOT / "qdialect" / "passes") == str(ROOT / "passes")


def test_algebra_needs_numpy_only():
    """The algebra is of use without xDSL, and does not import it."""
    code = (
        "import sys, qdialect\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] == 'xdsl']"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("module", ["qdialect.universe", "qdialect.tools.opt"])
def test_what_starts_often_starts_without_numpy(module: str):
    code = f"import sys, {module}\nassert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_ci_runs_the_command_of_the_readme():
    command = 'pip install -e ".[test]" && make test'
    assert command in (ROOT / "README.md").read_text()
    assert command in (ROOT / ".ci" / "run").read_text()
