"""The tools as processes, and `main` called from another program, whose state it preserves."""

import io
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tool_server import shared_server

from qdialect.check import check_tool as check
from qdialect.check import run_tool as run
from qdialect.opt import opt

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}

TOOLS = {"qdialect-opt": "run", "qdialect-check": "run_check", "qdialect-run": "run_run"}

MODULE = "func.func @main(%a: f32) -> f32 {{\n{}  return %a : f32\n}}\n".format(
    "".join(f"  %{i} = arith.addf %a, %a : f32\n" for i in range(500))
)


def command(tool: str, *arguments: str) -> list[str]:
    """The command of a tool, as its script calls it."""
    program = (
        f"import sys; from qdialect.opt.process import {TOOLS[tool]}; sys.exit({TOOLS[tool]}())"
    )
    return [sys.executable, "-c", program, *arguments]


# Signals


ANNOUNCED = """
import os, signal, sys
from qdialect.opt.process import {entry}
# Whoever runs the tests may ignore them, as nohup does.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
set_handler = signal.signal
def set_and_tell(*arguments):
    set_handler(*arguments)
    os.write(1, b".")
signal.signal = set_and_tell
sys.exit({entry}())
"""
"""It writes a point for each handler that it has installed, which is the first that it does."""

ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def start(tool: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start a tool; returns when its handlers are there."""
    program = ANNOUNCED.format(entry=TOOLS[tool])
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    assert process.stdout.read(len(ENDS)) == b"." * len(ENDS)
    return process


@pytest.mark.without_xdsl
@pytest.mark.parametrize(("tool", "times"), [*zip(TOOLS, (24, 6, 6), strict=True)])
def test_a_signal_at_any_moment(tool: str, times: int, tmp_path: Path) -> None:
    source, folder = tmp_path / "in.mlir", tmp_path / "out"
    source.write_text(MODULE)
    folder.mkdir()
    arguments = {
        "qdialect-opt": [
            *(str(source), "--cse", "--fold-quant-shapes"),
            *("-o", f"{folder}/out.mlir", f"--fold-report={folder}/report.json"),
        ],
        "qdialect-check": [str(source), str(source)],
        "qdialect-run": [str(source), "--args", "1.0 : f32"],
    }[tool]
    with start(tool, arguments) as process:
        began = time.monotonic()
        assert process.wait() == 0
        duration = time.monotonic() - began
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    # Nothing can handle the last one, and only a tool that writes files leaves any.
    statuses_of_ends = ENDS | ({signal.SIGKILL: -signal.SIGKILL} if whole else {})
    moments = random.Random(7)
    statuses: list[int] = []
    for number in range(times):
        for path in folder.iterdir():
            path.unlink()
        ending = list(statuses_of_ends)[number % len(statuses_of_ends)]
        with start(tool, arguments) as process:
            time.sleep(moments.uniform(0, duration))
            process.send_signal(ending)
            _, errors = process.communicate()
        assert errors == b""
        assert process.returncode in (statuses_of_ends[ending], 0)
        assert all(path.read_bytes() == whole.get(path.name) for path in folder.iterdir())
        statuses.append(process.returncode)
    # Not all have ended before.
    assert any(statuses)


@pytest.mark.parametrize("ending", ENDS)
def test_a_child_ends_with_the_tool(ending: signal.Signals, tmp_path: Path) -> None:
    """And what the child has started: a reader may be a script."""
    numbers, reader = tmp_path / "numbers", tmp_path / "reader"
    reader.write_text(
        f"#!/bin/sh\nsleep 60 &\necho $$ $! >{numbers}.new\nmv {numbers}.new {numbers}\nwait\n"
    )
    reader.chmod(0o755)
    with start("qdialect-opt", [f"--read-with={reader}", "in.mlir"]) as process:
        until(numbers.exists)
        process.send_signal(ending)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (ENDS[ending], b"")
    for number in map(int, numbers.read_text().split()):
        until(lambda number=number: not is_running(number))


STARTING = """
import os, signal, subprocess, sys
from pathlib import Path
from qdialect.opt import process
from qdialect.opt import child_processes

class Interrupted(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        Path(sys.argv[2]).write_text(str(self.pid))
        os.kill(os.getpid(), signal.SIGTERM)

child_processes.Popen = Interrupted
signal.signal(signal.SIGTERM, signal.SIG_DFL)
sys.argv[1:] = ["--read-with=sh -c 'sleep 60'", sys.argv[1]]
sys.exit(process.run())
"""
"""The signal comes when the child runs, and its number is known to the function that started it."""


def test_a_signal_while_a_child_is_started(tmp_path: Path) -> None:
    number = tmp_path / "number"
    process = subprocess.run(
        [sys.executable, "-c", STARTING, str(number)], capture_output=True, env=ENVIRONMENT
    )
    assert (process.returncode, process.stderr) == (143, b"")
    until(lambda: not is_running(int(number.read_text())))


def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds, at most for 30 s."""
    give_up = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def is_running(number: int) -> bool:
    """Whether there is a process. One that has ended may not have been waited for."""
    status = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], capture_output=True)
    return status.stdout.strip()[:1] not in (b"", b"Z")


def test_an_interrupt_before_the_handlers() -> None:
    """No traceback: the module that they need is being imported."""
    program = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'signal':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "sys.modules.pop('signal', None)\n"
        "import qdialect.opt.process\n"
    )
    done = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"")


def test_a_signal_that_is_ignored(tmp_path: Path) -> None:
    """As by nohup."""
    source = tmp_path / "in.mlir"
    source.write_text(MODULE)
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from qdialect.opt import process\n"
        "from qdialect.opt import opt\n"
        "main = opt.main\n"
        "opt.main = lambda: os.kill(os.getpid(), signal.SIGHUP) or main()\n"
        "sys.exit(process.run())"
    )
    tool = subprocess.run(
        [sys.executable, "-c", program, str(source)], env=ENVIRONMENT, capture_output=True
    )
    assert (tool.returncode, tool.stderr) == (0, b"")


def test_an_interrupt_goes_through_a_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the process of somebody else, it is not the tool that it is for."""
    source, output = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(MODULE)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("qdialect.opt.compilation.Compilation.write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        opt.main([str(source), "-o", str(output)])
    assert os.listdir(tmp_path) == ["in.mlir"]


# Memory


@pytest.mark.without_xdsl
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("source", ["/dev/zero", "-"])
def test_an_input_without_end(tool: str, source: str) -> None:
    sources = [source] * (1 + (tool == "qdialect-check"))
    with open("/dev/zero", "rb") as zeros:
        process = subprocess.run(
            ["sh", "-c", 'ulimit -v 1000000; exec "$@"', "sh", *command(tool, *sources)],
            stdin=zeros,
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
        )
    name = "<stdin>" if source == "-" else source
    assert process.stderr == f"{tool}: error: cannot read input file '{name}': out of memory\n"
    assert (process.returncode, process.stdout) == (1, "")


@pytest.mark.parametrize(
    ("error", "text"), [(MemoryError(), ""), (MemoryError("of 8 GiB"), ": of 8 GiB")]
)
def test_memory_that_is_not_there(
    error: MemoryError,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("qdialect.opt.compilation.read_text", fail)
    assert opt.main([]) == 1
    assert capsys.readouterr() == ("", f"qdialect-opt: error: out of memory{text}\n")


# The end


@pytest.mark.without_xdsl
@pytest.mark.parametrize("tool", TOOLS)
def test_help_that_cannot_be_written(tool: str) -> None:
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            command(tool, "--help"), stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
    assert process.stderr == (f"{tool}: error: cannot write the output: No space left on device\n")
    assert process.returncode == 1


@pytest.mark.parametrize("main", [opt.main, check.main, run.main])
def test_help_returns(
    main: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: qdialect-")


def test_the_package_is_the_tool() -> None:
    version = subprocess.run(
        [sys.executable, "-m", "qdialect", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=ENVIRONMENT,
    )
    assert version.stdout.startswith("qdialect-opt ")


@pytest.mark.parametrize("arguments", [["--fold-quant-shapes"], ["--no-such-flag"]])
def test_a_forked_tool_does_what_the_script_does(arguments: list[str], tmp_path: Path) -> None:
    """Tests of files run the tools so."""
    shell = [str(Path(shared_server().folder) / "qdialect-opt")], command("qdialect-opt")
    ends = [
        subprocess.run(
            [*words, *arguments], input=MODULE, capture_output=True, text=True, env=ENVIRONMENT
        )
        for words in shell
    ]
    forked, started = ((end.returncode, end.stdout, end.stderr) for end in ends)
    assert forked == started


# What a call leaves alone


def test_a_call_leaves_the_streams_alone(tmp_path: Path) -> None:
    """Standard output is another file after some errors, and has another encoding."""
    source = tmp_path / "in.mlir"
    source.write_text("func.func private @good()\n")
    program = """
import os, sys
from qdialect.opt.opt import main
sys.stdout.reconfigure(encoding="latin-1", newline="\\r\\n")
before = os.fstat(1)
print("\u00e9 before")
print(main([sys.argv[1]]))
for output in ("/dev/full", "/no/such/folder/x", "/"):
    print(main([sys.argv[1], "-o", output]))
assert os.path.samestat(before, os.fstat(1))
print(sys.stdout.encoding, "\u00e9 after")
"""
    with open(tmp_path / "out", "wb") as output:
        process = subprocess.run(
            [sys.executable, "-c", program, str(source)],
            stdout=output,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            check=True,
        )
    lines = (tmp_path / "out").read_bytes().split(b"\r\n")
    assert lines[0] == b"\xe9 before"
    # In between is text of MLIR, whose lines end as everywhere.
    assert lines[1].startswith(b"builtin.module {\n")
    assert lines[1].endswith(b"}\n0")
    assert lines[2:] == [b"1", b"1", b"1", b"latin-1 \xe9 after", b""]
    assert process.stderr.count(b"error") == 3


def test_a_full_disk_is_not_written_to_again() -> None:
    """What could not be written is not left for the stream of the caller."""
    program = """
import os, sys
from qdialect.opt.opt import main
status = main(["examples/tiny.mlir"])
sys.stdout.flush()
os.write(2, b"%d" % status)
"""
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [sys.executable, "-c", program],
            stdout=full,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            cwd=ROOT,
            check=False,
        )
    assert process.stderr.endswith(b"cannot write the output: No space left on device\n1")
    assert process.returncode == 0


def test_a_stream_without_a_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    assert opt.main(["--version"]) == 0
    assert stream.getvalue().startswith("qdialect-opt ")
