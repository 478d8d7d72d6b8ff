"""
Apply the patches to the source distributions of xDSL and xdsl-jax, and run the tests they change.

    python check.py                             # all patches at once, after two downloads
    python check.py --each xdsl-0.75.0.tar.gz   # each test must fail without its patch

The environment needs xDSL, jax, pytest, setuptools, lit and filecheck. The status is 1 if a patch
does not apply or a test has the wrong result.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent


class Project(NamedTuple):
    version: str
    """The version that is downloaded."""
    folder: Path
    """The folder of the patches."""
    sources: str
    """The folder of the packages in the source distribution."""

    @property
    def patches(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9][0-9]-*.patch"))


PROJECTS = {
    "xdsl": Project("xdsl==0.75.0", FOLDER, "."),
    "xdsl_jax": Project("xdsl-jax==0.6.0", FOLDER / "xdsl_jax", "src"),
}
"""By the first part of the name of a source distribution."""
UNIVERSE = "[xdsl.universe]\nxdsl_jax = xdsl_jax.universe:XDSL_JAX_UNIVERSE\n"
"""What the installation of xdsl-jax declares."""
TIMEOUT = 120
"""Seconds for the tests of one patch: without the first patch, its test does not end."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Apply the patches, and run their tests.")
    parser.add_argument("sdist", type=Path, nargs="?", help="the .tar.gz of one project")
    parser.add_argument("--each", action="store_true", help="check each patch separately")
    arguments = parser.parse_args()
    projects = list(PROJECTS.values())
    if arguments.sdist:
        projects = [PROJECTS[arguments.sdist.name.rpartition("-")[0]]]
    check = check_each if arguments.each else check_all
    is_right = [check_project(check, project, arguments.sdist) for project in projects]
    return 0 if all(is_right) else 1


def check_project(
    check: Callable[[list[Path], Path], bool], project: Project, sdist: Path | None
) -> bool:
    if not project.patches:
        sys.exit("error: no patches beside this script")
    with tempfile.TemporaryDirectory() as folder:
        sdist = sdist or downloaded(project, Path(folder))
        return check(project.patches, unpack(sdist, Path(folder).resolve(), project))


def downloaded(project: Project, folder: Path) -> Path:
    """The source distribution, from the index of packages."""
    options = ["--quiet", "--no-deps", "--no-binary=:all:", f"--dest={folder}", project.version]
    subprocess.run([sys.executable, "-m", "pip", "download", *options], check=True)
    (path,) = folder.glob("*.tar.gz")
    return path


def unpack(sdist: Path, folder: Path, project: Project) -> Path:
    """Unpack it, and create a command xdsl-opt that runs it. Returns the source folder."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    packages = source / project.sources
    if project.sources != ".":
        declared = packages / f"{source.name}.dist-info"
        declared.mkdir()
        (declared / "entry_points.txt").write_text(UNIVERSE)
        shutil.copy(source / "PKG-INFO", declared / "METADATA")
    command = folder / "bin" / "xdsl-opt"
    command.parent.mkdir()
    command.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        f"sys.path.insert(0, {str(packages)!r})\n"
        "from xdsl.tools.xdsl_opt import main\n"
        "main()\n"
    )
    command.chmod(0o755)
    paths = [str(command.parent), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    os.environ["PATH"] = os.pathsep.join(paths)
    os.environ["PYTHONPATH"] = str(packages)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # The folder may be inside of a repository, relative to which git would apply the patches.
    os.environ["GIT_CEILING_DIRECTORIES"] = str(source.parent)
    return source


def check_all(patches: list[Path], source: Path) -> bool:
    if not all(apply(patch, source) for patch in patches):
        return False
    tests = sorted({test for patch in patches for test in tests_of(patch)})
    return run(tests, source, quiet=False)


def check_each(patches: list[Path], source: Path) -> bool:
    is_right = True
    for patch in patches:
        tests = tests_of(patch)
        if not apply(patch, source, "--include=tests/*"):
            return False
        fails_without = not run(tests, source)
        if not apply(patch, source, "--exclude=tests/*"):
            return False
        passes_with = run(tests, source)
        without, with_ = (
            "fails" if fails_without else "PASSES",
            "passes" if passes_with else "FAILS",
        )
        print(f"{patch.name}: {without} without, {with_} with", flush=True)
        is_right &= fails_without and passes_with
    return is_right


def apply(patch: Path, source: Path, *options: str) -> bool:
    applied = subprocess.run(["git", "apply", *options, str(patch)], cwd=source, check=False)
    if applied.returncode:
        print(f"{patch.name}: does not apply")
    return not applied.returncode


def tests_of(patch: Path) -> list[str]:
    """The files of tests that a patch adds or changes."""
    return re.findall(r"^\+\+\+ b/(tests/.*)$", patch.read_text(encoding="utf-8"), re.MULTILINE)


def run(tests: list[str], source: Path, *, quiet: bool = True) -> bool:
    """Run tests with pytest and lit. Returns whether there are any, and all of them pass."""
    for_lit = [test for test in tests if test.startswith("tests/filecheck/")]
    for_pytest = [test for test in tests if test not in for_lit]
    commands = [
        ["pytest", "-q", "-p", "no:cacheprovider", *for_pytest],
        ["lit", "-q", *for_lit],
    ]
    pairs = zip(commands, (for_pytest, for_lit), strict=True)
    used = [command for command, files in pairs if files]
    return bool(used) and all(run_module(command, source, quiet=quiet) for command in used)


def run_module(command: list[str], source: Path, *, quiet: bool) -> bool:
    module, *arguments = command
    if module == "lit":
        lit = shutil.which("lit")
        if lit is None:
            sys.exit("error: lit is not installed")
        line = [lit, *arguments]
    else:
        line = [sys.executable, "-m", module, *arguments]
    output = subprocess.DEVNULL if quiet else None
    try:
        process = subprocess.run(
            line, cwd=source, timeout=TIMEOUT, stdout=output, stderr=output, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return not process.returncode


if __name__ == "__main__":
    sys.exit(main())
