"""
Apply the patches for MLIR, compile its quant dialect, and run the dialect's tests.

    python check_mlir.py llvm-toolchain-23_23.1.1.orig.tar.xz          # all patches at once
    python check_mlir.py --each llvm-toolchain-23_23.1.1.orig.tar.xz   # each must be needed

Only the patched files are compiled. They are linked with the library of an installed LLVM of the
same version, whose symbols they replace. The status is 1 if a patch does not apply, or a test has
the wrong result.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "mlir"
PATCHES = sorted(FOLDER.glob("[0-9][0-9]-*.patch"))
QUANT = "lib/Dialect/Quant/IR"
TESTS = "test/Dialect/Quant"
FLAGS = ("-std=c++17", "-O0", "-fPIC", "-fno-rtti", "-fno-exceptions", "-w")
LIT_CONFIGURATION = """
import lit.formats
config.name = "quant"
config.test_format = lit.formats.ShTest()
config.suffixes = [".mlir"]
config.environment["PATH"] = {path!r}
config.test_exec_root = {folder!r}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Apply the patches to MLIR, and run its tests.")
    parser.add_argument("source", type=Path, help="LLVM's source, as .tar.xz")
    parser.add_argument("--llvm", type=Path, default="/usr/lib/llvm-23", help="the installed LLVM")
    parser.add_argument("--each", action="store_true", help="check each patch separately")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build = Build(unpack(arguments.source, Path(folder)), Path(folder), arguments.llvm)
        check = check_each if arguments.each else check_all
        return 0 if check(build) else 1


def unpack(source: Path, folder: Path) -> Path:
    """Unpack MLIR's quant dialect and its tests. Returns the folder `mlir`."""
    wanted = re.compile(r"[^/]+/(mlir/(?:lib|include/mlir|test)/Dialect/Quant/.*)")
    with tarfile.open(source) as archive:
        for member in archive:
            if (match := wanted.fullmatch(member.name)) is not None:
                member.name = match[1]
                archive.extract(member, folder, filter="data")
    return folder / "mlir"


class Build:
    """A program like mlir-opt, whose quant dialect is compiled from a folder of sources."""

    def __init__(self, mlir: Path, folder: Path, llvm: Path) -> None:
        self.mlir = mlir
        self.objects = folder / "objects"
        self.program = folder / "bin" / "mlir-opt"
        self.llvm = llvm
        self.objects.mkdir()
        self.program.parent.mkdir()
        path = os.pathsep.join([str(self.program.parent), str(llvm / "bin"), os.environ["PATH"]])
        text = LIT_CONFIGURATION.format(path=path, folder=str(folder / "lit"))
        (mlir / TESTS / "lit.cfg").write_text(text)
        # The folder may be inside of a repository, relative to which git would apply the patches.
        os.environ["GIT_CEILING_DIRECTORIES"] = str(folder.parent)
        self.compile([FOLDER / "quant-opt.cpp", *sorted((mlir / QUANT).glob("*.cpp"))])

    def apply(self, patch: Path, *options: str) -> bool:
        command = ["git", "apply", "-p1", *options, str(patch)]
        is_applied = subprocess.run(command, cwd=self.mlir.parent, check=False).returncode == 0
        if not is_applied:
            print(f"{patch.name}: does not apply")
        return is_applied

    def compile(self, files: list[Path]) -> None:
        """Compile the files, and link them with all others that are already compiled."""
        compiler = str(self.llvm / "bin" / "clang++")
        includes = [f"-I{self.mlir / QUANT}", f"-I{self.mlir / 'include'}"]
        includes.append(f"-I{self.llvm / 'include'}")
        for file in files:
            output = ["-c", str(file), "-o", str(self.objects / f"{file.stem}.o")]
            subprocess.run([compiler, *FLAGS, *includes, *output], check=True)
        library = self.llvm / "lib"
        (llvm,) = library.glob("libLLVM-[0-9]*.so")
        link = [f"-L{library}", f"-Wl,-rpath,{library}", "-lMLIR", f"-l:{llvm.name}"]
        objects = map(str, self.objects.glob("*.o"))
        options = ["-Wl,--export-dynamic", "-o", str(self.program)]
        subprocess.run([compiler, *objects, *link, *options], check=True)

    def compile_changed(self, patches: list[Path]) -> None:
        names = {name for patch in patches for name in paths(patch)}
        has_header = any(name.endswith(".h") for name in names)
        files = sorted((self.mlir / QUANT).glob("*.cpp"))
        self.compile([file for file in files if has_header or f"{QUANT}/{file.name}" in names])

    def run(self, tests: list[str], *, quiet: bool = True) -> bool:
        """Run tests with lit. Returns whether there are any, and all of them pass."""
        lit = [str(self.llvm / "bin" / "lit"), "-q" if quiet else "-sv"]
        output = subprocess.DEVNULL if quiet else None
        files = [str(self.mlir / test) for test in tests]
        process = subprocess.run([sys.executable, *lit, *files], stdout=output, check=False)
        return bool(tests) and process.returncode == 0


def check_all(build: Build) -> bool:
    if not all(build.apply(patch) for patch in PATCHES):
        return False
    build.compile_changed(PATCHES)
    return build.run([TESTS], quiet=False)


def check_each(build: Build) -> bool:
    is_right = build.run([TESTS])
    print(f"without patches: all tests {'pass' if is_right else 'DO NOT PASS'}", flush=True)
    for patch in PATCHES:
        tests = [path for path in paths(patch) if path.startswith(TESTS)]
        if not build.apply(patch, "--include=mlir/test/*"):
            return False
        fails_without = not build.run(tests)
        if not build.apply(patch, "--exclude=mlir/test/*"):
            return False
        build.compile_changed([patch])
        passes_with = build.run([TESTS])
        without, with_ = (
            "fails" if fails_without else "PASSES",
            "all pass" if passes_with else "FAIL",
        )
        print(f"{patch.name}: {without} without, {with_} with", flush=True)
        is_right &= fails_without and passes_with
    return is_right


def paths(patch: Path) -> list[str]:
    """The files that a patch adds or changes, relative to `mlir`."""
    return re.findall(r"^\+\+\+ b/mlir/(.*)$", patch.read_text(encoding="utf-8"), re.MULTILINE)


if __name__ == "__main__":
    sys.exit(main())
