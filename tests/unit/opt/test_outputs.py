"""The file that an output is written to, and the fate of an existing file."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from qdialect.opt.opt import main
from qdialect.opt.outputs import Output, overwrite_each_other, write_file

ROOT = Path(__file__).parents[3]


@pytest.fixture(params=["with unnamed files", "without"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every system, nor every folder, has files without a name."""
    if request.param == "without":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)

        def refuse(source: str, path: str, **keywords: object) -> None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

        monkeypatch.setattr(os, "link", refuse)


@pytest.fixture
def source(system: None, tmp_path: Path) -> Path:
    path = tmp_path / "in.mlir"
    path.write_text("func.func private @good()\n")
    return path


def forbid(monkeypatch: pytest.MonkeyPatch, function: str, code: int, folder: Path) -> None:
    """
    Have a function of `os` fail for paths in a folder, as the system would for others.

    Files that are there may be opened.
    """
    original = getattr(os, function)

    def refuse(path: str | int, *arguments: object, **keywords: object) -> object:
        is_new = function != "open" or not os.path.isfile(path)
        if isinstance(path, str) and is_new and folder in (Path(path).parent, Path(path)):
            raise OSError(code, os.strerror(code))
        return original(path, *arguments, **keywords)

    monkeypatch.setattr(os, function, refuse)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_a_file_in_a_folder_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, source: Path, tmp_path: Path, code: int
) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    output = folder / "out.mlir"
    output.write_text("old, and longer than the new text" * 10)
    before = output.stat()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    forbid(monkeypatch, "open", code, folder)
    assert main([str(source), "-o", str(output)]) == 0
    assert output.read_text() == "builtin.module {\n  func.func private @good() -> ()\n}\n"
    assert output.stat().st_ino == before.st_ino
    assert os.listdir(folder) == ["out.mlir"]
    assert os.listdir(elsewhere) == []
    # As everywhere, it is not touched after an error.
    source.write_text("wrong\n")
    assert main([str(source), "-o", str(output)]) == 1
    assert "@good" in output.read_text()
    assert os.listdir(elsewhere) == []


def test_a_new_file_needs_a_folder_that_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    forbid(monkeypatch, "open", errno.EACCES, tmp_path)
    assert main([str(source), "-o", str(tmp_path / "out.mlir")]) == 1
    assert "Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EXDEV])
def test_a_file_that_is_mounted(
    monkeypatch: pytest.MonkeyPatch, source: Path, tmp_path: Path, code: int
) -> None:
    output = tmp_path / "out.mlir"
    output.write_text("old")
    before = output.stat()
    forbid(monkeypatch, "replace", code, tmp_path)
    assert main([str(source), "-o", str(output)]) == 0
    assert "@good" in output.read_text()
    assert output.stat().st_ino == before.st_ino
    assert sorted(os.listdir(tmp_path)) == ["in.mlir", "out.mlir"]


def test_the_input_may_be_the_output_where_it_is_written_in_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The text that is read is mapped, and must not be cut off while it is."""
    path = tmp_path / "both.mlir"
    digits = "01" * 100_000
    path.write_text(f'%0 = arith.constant dense<"0x{digits}"> : tensor<100000xi8>\n')
    forbid(monkeypatch, "replace", errno.EBUSY, tmp_path)
    assert main([str(path), "-o", str(path), "--cse"]) == 0
    assert main([str(path), "-o", str(path), "--print-op-generic"]) == 0
    assert "builtin.module" in path.read_text()


@pytest.mark.parametrize("old", ["", "old", "old, and longer than the new text" * 10])
def test_a_file_of_several_names_keeps_them(source: Path, tmp_path: Path, old: str) -> None:
    """As with mlir-opt."""
    output, link, soft = (tmp_path / name for name in ("out.mlir", "link.mlir", "soft.mlir"))
    output.write_text(old)
    os.chmod(output, 0o640)
    before = output.stat()
    # `os.link` may be replaced.
    subprocess.run(["ln", output, link], check=True)
    soft.symlink_to(link)
    assert main([str(source), "-o", str(soft)]) == 0
    assert output.read_text() == "builtin.module {\n  func.func private @good() -> ()\n}\n"
    after = output.stat()
    assert (after.st_ino, after.st_nlink, after.st_mode) == (before.st_ino, 2, before.st_mode)
    assert soft.is_symlink()
    source.write_text("wrong\n")
    assert main([str(source), "-o", str(link)]) == 1
    assert "@good" in output.read_text()
    assert len(os.listdir(tmp_path)) == 4


def test_a_full_disk_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, source: Path, tmp_path: Path
) -> None:
    """Also a file that is written over: the space is reserved first."""
    output = tmp_path / "out.mlir"
    output.write_text("old")
    subprocess.run(["ln", output, tmp_path / "link.mlir"], check=True)

    def reserve(descriptor: int, offset: int, length: int) -> None:
        assert (offset, length) == (0, 53)
        os.ftruncate(descriptor, 20)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", reserve)
    assert main([str(source), "-o", str(output)]) == 1
    assert output.read_text() == "old"


@pytest.mark.usefixtures("system")
def test_a_file_that_comes_meanwhile_is_replaced(tmp_path: Path) -> None:
    with Output(str(tmp_path / "out.mlir")) as output:
        output.stream.write("new")
        (tmp_path / "out.mlir").write_text("theirs")
        output.is_good = True
    assert (tmp_path / "out.mlir").read_text() == "new"
    assert os.listdir(tmp_path) == ["out.mlir"]


def test_a_new_file_has_the_mode_of_new_files(source: Path, tmp_path: Path) -> None:
    output, other = tmp_path / "out.mlir", tmp_path / "other"
    other.touch()
    assert main([str(source), "-o", str(output)]) == 0
    assert output.stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize("name", ["", "none/", "none/out.mlir"])
def test_no_name_of_a_file(source: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(source), "-o", f"{source.parent}/{name}"]) == 1
    assert "cannot open output file" in capsys.readouterr().err
    assert os.listdir(source.parent) == ["in.mlir"]


def test_a_pipe_that_is_a_descriptor(source: Path) -> None:
    """The path in /proc resolves to a name that is no path."""
    reading, writing = os.pipe()
    with open(reading, "rb") as stream:
        assert main([str(source), "-o", f"/proc/self/fd/{writing}"]) == 0
        os.close(writing)
        assert b"@good" in stream.read()


def test_the_owner_is_kept_if_possible(
    monkeypatch: pytest.MonkeyPatch, source: Path, tmp_path: Path
) -> None:
    """Only root gives files away, so what is asked of the system is compared."""
    output = tmp_path / "out.mlir"
    output.write_text("old")
    output.chmod(0o4755)
    asked: list[tuple[int, int]] = []

    def chown(descriptor: int, user: int, group: int) -> None:
        asked.append((user, group))
        raise PermissionError

    original = os.stat

    def stat_of_others(path: str, **keywords: Any) -> os.stat_result:
        status = original(path, **keywords)
        is_output = Path(path) == output
        return os.stat_result((*status[:4], 1234, 2345, *status[6:])) if is_output else status

    monkeypatch.setattr(os, "fchown", chown)
    monkeypatch.setattr(os, "stat", stat_of_others)
    assert main([str(source), "-o", str(output)]) == 0
    assert set(asked) == {(1234, 2345)}
    assert stat.S_IMODE(output.stat().st_mode) == 0o4755


def test_a_name_that_is_taken(
    monkeypatch: pytest.MonkeyPatch, source: Path, tmp_path: Path
) -> None:
    """The file of somebody else is not touched."""
    names = iter([b"taken", b"taken", *(b"free%d" % number for number in range(5))])

    def next_name(length: int) -> bytes:
        return next(names)

    monkeypatch.setattr(os, "urandom", next_name)
    (tmp_path / "out.mlir").write_text("old")
    taken = tmp_path / f".qdialect-opt-{b'taken'.hex()}"
    taken.write_text("theirs")
    write_file(str(tmp_path / "out.mlir"), "new")
    assert taken.read_text() == "theirs"
    assert (tmp_path / "out.mlir").read_text() == "new"
    assert len(os.listdir(tmp_path)) == 3


# Two outputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("")
    (tmp_path / "other").write_text("")
    (tmp_path / "hard").hardlink_to(tmp_path / "file")
    (tmp_path / "soft").symlink_to("file")
    (tmp_path / "nowhere").symlink_to("new")
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("file", "file", True),
        ("file", "sub/../file", True),
        ("file", "hard", True),
        ("soft", "hard", True),
        ("new", "new", True),
        ("new", "nowhere", True),
        ("new", "sub/../new", True),
        ("pipe", "pipe", True),
        ("file", "other", False),
        ("file", "new", False),
        ("new", "newer", False),
        ("/dev/null", "/dev/null", False),
        ("-", "-", True),
        ("-", "/dev/stdout", True),
        ("-", "file", False),
        ("-", "/dev/null", False),
    ],
)
def test_outputs_that_are_one_file(folder: Path, first: str, second: str, is_same: bool) -> None:
    paths = [name if name == "-" else str(folder / name) for name in (first, second)]
    assert overwrite_each_other(*paths) == is_same
    assert overwrite_each_other(*reversed(paths)) == is_same


def test_standard_output_may_be_a_file(folder: Path) -> None:
    """And then it is the file that counts."""
    code = (
        "import sys; from qdialect.opt.outputs import overwrite_each_other\n"
        "sys.exit(overwrite_each_other('-', sys.argv[1]))"
    )
    for name, is_same in (("file", True), ("hard", True), ("other", False), ("/dev/null", False)):
        with open(folder / "file", "w") as output:
            status = subprocess.run(
                [sys.executable, "-c", code, str(folder / name)], stdout=output, cwd=ROOT
            )
        assert status.returncode == is_same


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "x", "--fold-report=x"], "would both be written to 'x'"),
        (["-o", "x", "--fold-report=./x"], "would both be written to './x'"),
        (["--fold-report=-"], "would both be written to standard output"),
        (["-o", "/dev/stdout", "--fold-report=-"], "would both be written to standard output"),
        (["--fold-report=in.mlir"], "would be written over the input file 'in.mlir'"),
        (["-o", "x", "--fold-plan=x"], "the module and the fold plan would both be written to 'x'"),
        (["--fold-plan=-"], "would both be written to standard output"),
        (
            ["-o", "x", "--fold-plan=p", "--fold-report=./p"],
            "the fold report and the fold plan would both be written to 'p': choose different "
            "files with --fold-report and --fold-plan",
        ),
        (["--fold-plan=./in.mlir"], "the fold plan would be written over the input file"),
        (
            ["--attach-ranges=profile=./in.mlir", "-o", "in.mlir"],
            "the module would be written over './in.mlir', which is the profile of 'attach-ranges'",
        ),
        (
            [
                "--pass-pipeline=builtin.module(func.func(attach-ranges{profile=in.mlir}))",
                "-o",
                "./in.mlir",
            ],
            "the module would be written over 'in.mlir', which is the profile of 'attach-ranges'",
        ),
    ],
)
@pytest.mark.usefixtures("source")
def test_a_report_that_would_take_a_place(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["in.mlir", *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert os.listdir(tmp_path) == ["in.mlir"]


@pytest.mark.usefixtures("source")
def test_a_report_may_be_on_standard_output(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["in.mlir", "-o", "out.mlir", "--fold-report=-"]) == 0
    assert capsys.readouterr().out.startswith("{")
