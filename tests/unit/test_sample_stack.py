"""
The stack in examples/npu is a package of strangers: it is installed, and its own tests are run.

Nothing but its entry point tells the tools of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "npu"

TOOLS = Path(sys.executable).parent

pytestmark = pytest.mark.skipif(
    int(version("setuptools").partition(".")[0]) < 77, reason="setuptools is older than 77"
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the stack, and with what pip installs of it, in `site`."""
    folder = tmp_path_factory.mktemp("sample")
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", "Output", ".*")
    shutil.copytree(SAMPLE, folder / "npu", ignore=ignored)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    where = ["--target", str(folder / "site"), str(folder / "npu")]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *where], check=True)
    # The package that tests import is the one that is installed.
    shutil.rmtree(folder / "npu" / "npu")
    return folder


def run(installed: Path, *command: str) -> str:
    """What a command prints, in the folder of the stack; it must succeed."""
    paths = [str(installed / "site"), str(ROOT)]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(TOOLS), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(paths),
        # Not those of the tests that run this one.
        "PYTEST_ADDOPTS": "",
    }
    done = subprocess.run(
        command,
        cwd=installed / "npu",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_its_texts(installed: Path) -> None:
    printed = run(installed, "lit", "-v", "tests")
    names = [path.name for path in (SAMPLE / "tests").glob("*.mlir")]
    assert len(names) >= 5
    assert all(f"PASS: npu :: {name} " in printed for name in names)


def test_its_models(installed: Path) -> None:
    flags = ["-q", "-p", "no:cacheprovider"]
    printed = run(installed, sys.executable, "-m", "pytest", *flags)
    assert " passed" in printed


@pytest.mark.parametrize(
    "command",
    [
        ["qdialect-opt", "--npu-fuse-relu6", "--help"],
        ["xdsl-opt", "-p", "npu-fuse-relu6", "model.mlir"],
    ],
    ids=lambda command: command[0],
)
def test_its_pass_is_in_both_tools(installed: Path, command: list[str]) -> None:
    assert "npu" in run(installed, *command)
