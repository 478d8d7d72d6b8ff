"""Whatever passes and tools run before, a record is attached to its value, or not at all."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from mlir_tools import MLIR_OPT, run
from numpy.typing import NDArray
from random_networks import held
from xdsl.ir import Operation

from qdialect.check.interpreters import TypedArray, find_function, run_function
from qdialect.ops.along_axis import is_statistics, statistics_of
from qdialect.opt.opt import main as opt
from qdialect.opt.registry import ToolContext
from qdialect.ptq.calibration.recorded_functions import returning
from qdialect.ptq.schemes.profile import Profile
from qdialect.ptq.tools.calibrate import main as calibrate
from qdialect.text import parse_module

pytestmark = pytest.mark.usefixtures("without_plugins")

Array = NDArray[Any]

FLOATS = "tensor<4x4xf32>"
UNARY = ("math.tanh", "math.absf", "math.sin", "arith.negf")
BINARY = ("arith.addf", "arith.subf", "arith.mulf", "arith.maximumf")
STEMS = ("h", "cst")

NAMES: dict[str, Callable[[int, Sequence[str]], str]] = {
    "different": lambda number, _: f"%v{number}q",
    "ending in a number": lambda number, _: f"%h_{number}",
    "none": lambda number, _: f"%{number}",
    # As a printer makes names unique: the second one with a stem is `_1`.
    "numbered": lambda number, taken: next(
        name
        for at in range(len(taken) + 1)
        if (name := f"%{STEMS[number % 2]}" + f"_{at}" * (at > 0)) not in taken
    ),
}


class Draft:
    """The text of a function under construction, all of whose values have one type."""

    def __init__(self, random: np.random.Generator, naming: str) -> None:
        self.random = random
        self.lines = list[str]()
        self.values = ["%x", "%y"]
        self._naming = NAMES[naming]
        self._taken = list[str]()

    def name(self) -> str:
        """A name for the next value."""
        name = self._naming(len(self._taken), self._taken)
        self._taken.append(name)
        return name

    def emit(self, form: str, *, is_read: bool = True) -> str:
        """Append an op. `form` is its text after the equals sign."""
        name = self.name()
        self.lines.append(f"{name} = {form}")
        self.values += [name] * is_read
        return name

    def any_value(self) -> str:
        """One of the last values."""
        return str(self.random.choice(self.values[-5:]))

    def constant(self, shape: tuple[int, ...], *, is_read: bool = True) -> str:
        array = (self.random.normal(size=shape) * 2.0 ** self.random.integers(-2, 3)).astype("f4")
        return self.emit(f"arith.constant {held(array)}", is_read=is_read)

    def any_op(self) -> None:
        """Append an op, or ops that a pass folds, merges, inlines or removes."""
        value = self.any_value()
        match int(self.random.integers(8)):
            case 0:
                self.constant((4, 4))
            case 1:
                rows, first = self.constant((8, 4), is_read=False), self.random.integers(5)
                place = f"[{first}, 0] [4, 4] [1, 1] : tensor<8x4xf32> to {FLOATS}"
                self.emit(f"tensor.extract_slice {rows}{place}")
            case 2:
                empty = self.emit(f"tensor.empty() : {FLOATS}", is_read=False)
                operands = f"ins({value} : {FLOATS}) outs({empty} : {FLOATS})"
                self.emit(f"linalg.transpose {operands} permutation = [1, 0]")
            case 3:
                self.emit(f"func.call @g({value}) : ({FLOATS}) -> {FLOATS}")
            case 4 | 5:
                self.emit(f"{self.random.choice(BINARY)} {value}, {self.any_value()} : {FLOATS}")
            case _:
                self.emit(f"{self.random.choice(UNARY)} {value} : {FLOATS}")

    def function(self, head: str, results: Sequence[str]) -> str:
        types = ", ".join([FLOATS] * len(results))
        body = "\n  ".join([*self.lines, f"return {', '.join(results)} : {types}"])
        return f"func.func {head} -> ({types}) {{\n  {body}\n}}\n"


def random_module(seed: int, naming: str) -> str:
    random = np.random.default_rng(seed)
    callee, main = Draft(random, naming), Draft(random, naming)
    # The names of the callee are also names of the caller.
    callee.values = [callee.emit(f"math.tanh %a : {FLOATS}")]
    callee.emit(f"arith.negf {callee.values[0]} : {FLOATS}")
    for _ in range(random.integers(3, 11)):
        main.any_op()
    results = [main.any_value(), main.values[-1]]
    return callee.function(f"private @g(%a: {FLOATS})", callee.values[-1:]) + main.function(
        f"@main(%x: {FLOATS}, %y: {FLOATS})", results
    )


def opt_with(*flags: str) -> list[str]:
    return ["qdialect-opt", *flags]


XDSL_OPT = [sys.executable, "-m", "xdsl.tools.xdsl_opt"]
FOLDS = ["--inline", "--canonicalize", "--fold-constant-shapes"]
PIPELINES: dict[str, list[list[str]]] = {
    "none": [],
    "print": [opt_with()],
    "canonicalize": [opt_with("--canonicalize")],
    "fold": [opt_with("--fold-constant-shapes")],
    "inline": [opt_with("--inline")],
    "all": [opt_with("-p", "cse"), opt_with(*FOLDS)],
    "sink": [opt_with("--sink-quant-shapes", "--canonicalize")],
    "xdsl-opt": [XDSL_OPT],
    "xdsl-opt and passes": [[*XDSL_OPT, "-p", "canonicalize,cse"], opt_with(*FOLDS), XDSL_OPT],
    "mlir-opt": [[MLIR_OPT]],
    "mlir-opt and passes": [opt_with("--inline"), [MLIR_OPT, "--canonicalize", "--cse"]],
    "mlir-opt with locations": [
        [MLIR_OPT, "--inline", "--canonicalize", "--mlir-print-debuginfo"],
        [MLIR_OPT, "--mlir-use-nameloc-as-prefix"],
    ],
    "keys": [opt_with("--attach-keys"), [MLIR_OPT, "--inline", "--canonicalize", "--cse"]],
    "keys that are late": [opt_with(*FOLDS, "--attach-keys"), [MLIR_OPT, "--canonicalize"]],
}


def through(command: Sequence[str], text: str, path: Path) -> str:
    """The output of a tool for a text."""
    if command[0] != "qdialect-opt":
        return run(command, text)
    path.write_text(text)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = opt([str(path), *command[1:]])
    assert status == 0, f"{err.getvalue()}\n{text}"
    return out.getvalue()


def attached_ranges(text: str, inputs: Sequence[Array]) -> list[tuple[Array, Array]]:
    """The range in each `quant.stats`, and the range of its operand."""
    context = ToolContext()
    module = parse_module(context, text)
    main = find_function(module, "main")
    stats: list[Operation] = [op for op in module.walk() if is_statistics(op)]
    assert {op.parent_op() for op in stats} <= {main}
    copy, function, _ = returning(module, main, [op.operands[0] for op in stats])
    types = main.function_type.inputs.data
    given = [TypedArray.of(a.view("u4"), type) for a, type in zip(inputs, types, strict=True)]
    results = run_function(copy, function.sym_name.data, given, context)
    values = [each.elements.view("f4") for each in results]
    return [
        (statistics_of(op, value.shape).layer, np.array([value.min(), value.max()]))
        for op, value in zip(stats, values, strict=True)
    ]


@pytest.mark.parametrize("pipeline", PIPELINES)
@given(seed=st.integers(0, 2**32 - 1), naming=st.sampled_from([*NAMES]))
@examples(6)
def test_a_record_is_attached_to_its_value_or_refused(
    pipeline: str, seed: int, naming: str, tmp_path_factory: pytest.TempPathFactory
):
    commands = PIPELINES[pipeline]
    if any(shutil.which(command[0]) is None for command in commands if command[0] == MLIR_OPT):
        pytest.skip(f"{MLIR_OPT} is not on PATH")
    folder = tmp_path_factory.mktemp("records")
    path, profile, data = folder / "m.mlir", folder / "p.json", folder / "d.npz"
    text = random_module(seed, naming)
    inputs = [np.random.default_rng([seed, n]).normal(size=(4, 4)).astype("f4") for n in (0, 1)]
    path.write_text(text)
    np.savez(data, arg0=inputs[0], arg1=inputs[1])
    with redirect_stderr(io.StringIO()):
        assert not calibrate([str(path), f"--data={data}", "--engine=reference", f"-o{profile}"])
    for command in commands:
        text = through(command, text, path)
    flag = f'--attach-ranges=profile="{profile}"'
    pairs = attached_ranges(through(opt_with(flag), text, path), inputs)
    for attached, seen in pairs:
        # Tools may multiply in another order.
        assert np.allclose(attached, seen, rtol=1e-6, atol=1e-7), text
    if pipeline in ("none", "print"):
        assert len(pairs) == len(Profile.read(profile).values)
