"""
Apply the patches to the source distribution of xDSL, and run the tests that they change.

    python check.py                             # all patches at once, after a download
    python check.py --each xdsl-0.75.0.tar.gz   # each test must fail without its patch

The environment needs xDSL's dependencies, pytest, setuptools, lit and filecheck. The status is 1
if a patch does not apply or a test has the wrong result.
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
from pathlib import Path

PATCHES = sorted(Path(__file__).resolve().parent.glob("[0-9][0-9]-*.patch"))
XDSL = "xdsl==0.75.0"
"""The version that is downloaded."""
TIMEOUT = 120
"""Seconds for the tests of one patch: without the first patch, its test does not end."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Apply the patches to xDSL, and run their tests.")
    parser.add_argument("sdist", type=Path, nargs="?", help="xDSL's .tar.gz")
    parser.add_argument("--each", action="store_true", help="check each patch separately")
    arguments = parser.parse_args()
    if not PATCHES:
        sys.exit("error: no patches beside this script")
    with tempfile.TemporaryDirectory() as folder:
        source = unpack(arguments.sdist or downloaded(Path(folder)), Path(folder).resolve())
        check = check_each if arguments.each else check_all
        return 0 if check(source) else 1


def downloaded(folder: Path) -> Path:
    """The source distribution, from the index of packages."""
    options = ["--quiet", "--no-deps", "--no-binary=:all:", f"--dest={folder}", XDSL]
    subprocess.run([sys.executable, "-m", "pip", "download", *options], check=True)
    (path,) = folder.glob("*.tar.gz")
    return path


def unpack(sdist: Path, folder: Path) -> Path:
    """Unpack xDSL, and create a command xdsl-opt that runs it. Returns the source folder."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    command = folder / "bin" / "xdsl-opt"
    command.parent.mkdir()
    command.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        f"sys.path.insert(0, {str(source)!r})\n"
        "from xdsl.tools.xdsl_opt import main\n"
        "main()\n"
    )
    command.chmod(0o755)
    paths = [str(command.parent), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    os.environ["PATH"] = os.pathsep.join(paths)
    os.environ["PYTHONPATH"] = str(source)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # The folder may be inside of a repository, relative to which git would apply the patches.
    os.environ["GIT_CEILING_DIRECTORIES"] = str(source.parent)
    return source


def check_all(source: Path) -> bool:
    if not all(apply(patch, source) for patch in PATCHES):
        return False
    tests = sorted({test for patch in PATCHES for test in tests_of(patch)})
    return run(tests, source, quiet=False)


def check_each(source: Path) -> bool:
    is_right = True
    for patch in PATCHES:
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
