"""
The examples equal the output of their script, and fold to exact values.

The example and the folded module are parsed here as text, and the shape ops are plain numpy on
dequantized values: the check shares no code with the fold.
"""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.opt.opt import main

EXAMPLES = Path(__file__).parents[2] / "examples"
MAX_BYTES, MAX_BYTES_OF_ALL = 300_000, 1_500_000

Values = NDArray[np.float64]


def load_script() -> ModuleType:
    """`examples/make_examples.py`, which is not in a package."""
    spec = importlib.util.spec_from_file_location("make_examples", EXAMPLES / "make_examples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT: Any = load_script()
NAMES: list[str] = list(SCRIPT.EXAMPLES)

FLAGS = {"stablehlo_convolution.mlir": ["--allow-unregistered-dialect"]}


def fold(name: str, *flags: str) -> str:
    """What qdialect-opt makes of an example."""
    with redirect_stdout(io.StringIO()) as printed:
        assert main([*flags, *FLAGS.get(name, []), str(EXAMPLES / name)]) == 0
    return printed.getvalue()


# Reading text

ALIAS = re.compile(r"^(!\w+) = (!quant\.uniform<.*>)$", re.MULTILINE)
ELEMENTS = r"dense<(?P<elements>[^>]*)>"
ATTRIBUTES = r"(?: \{(?P<attributes>[^}]*)\})?"
QUANTIZED = r"tensor<(?P<shape>[\dx]+)x(?P<type>!\S.*)>$"
CONSTANTS = [
    rf"%(\w+) = quant\.constant {ELEMENTS}{ATTRIBUTES}\s+: {QUANTIZED}",
    rf"%(\w+) = arith\.constant{ATTRIBUTES} {ELEMENTS}\s+: tensor<[\dx]+xi8>\n"
    rf"\s+%\w+ = quant\.scast %\1 : tensor<[\dx]+xi8> to {QUANTIZED}",
    rf'%(\w+) = "?(?:tosa\.const|stablehlo\.constant)"?\(\)\s+<\{{values? = {ELEMENTS} : [^>]*>\}}>'
    rf"\s*{ATTRIBUTES} : \(\) -> {QUANTIZED}",
]
TYPE = re.compile(
    r"!quant\.uniform<(?P<sign>[iu])(?P<width>\d+)(?:<[-\d:]+>)?:f32"
    r"(?::(?P<axis>\d+)|:\{(?P<blocks>[\d: ,]+)\})?, (?P<slots>.*)>"
)
SLOT = re.compile(r"(\d[\d.eE+-]*)(?::(-?\d+))?")


@dataclass(frozen=True)
class Constant:
    """A quantized constant, as it is written."""

    name: str
    attributes: str
    axes: str
    values: Values
    """What the elements are read as."""


def read_constants(text: str) -> list[Constant]:
    """The constants of one kind in a module, their types expanded to one slot per element."""
    aliases = dict(ALIAS.findall(text))
    constants: list[Constant] = []
    for written in chain.from_iterable(
        re.finditer(constant, text, re.MULTILINE) for constant in CONSTANTS
    ):
        shape = [int(length) for length in written["shape"].split("x")]
        type = TYPE.fullmatch(aliases.get(written["type"], written["type"]))
        assert type is not None, written["type"]
        elements = read_elements(written["elements"], type["sign"], int(type["width"]))
        scales, zero_points = read_slots(type, shape)
        constants.append(
            Constant(
                written[1],
                written["attributes"] or "",
                type["axis"] or type["blocks"] or "",
                (elements.reshape(shape) - zero_points) * scales,
            )
        )
    return constants


def read_elements(text: str, sign: str, width: int) -> NDArray[np.int64]:
    """The integers of a list, or of hexadecimal text with one byte for each."""
    if not text.startswith('"0x'):
        return np.array(json.loads(text), dtype=np.int64)
    values = np.frombuffer(bytes.fromhex(text[3:-1]), dtype=np.uint8).astype(np.int64)
    assert values.max() < 1 << width
    if sign == "i":
        values[values >= 1 << (width - 1)] -= 1 << width
    return values


def read_slots(type: re.Match[str], shape: Sequence[int]) -> tuple[Values, NDArray[np.int64]]:
    """The scale, as a float32, and the zero point of each element."""
    slots = SLOT.findall(type["slots"])
    scales = np.array([float(scale) for scale, _ in slots], dtype=np.float32)
    zero_points = np.array([int(zero or 0) for _, zero in slots], dtype=np.int64)
    blocks = list(shape)
    if type["axis"]:
        blocks[int(type["axis"])] = 1
    elif type["blocks"]:
        for pair in type["blocks"].split(", "):
            axis, block = map(int, pair.split(":"))
            blocks[axis] = block
    counts = [length // block for length, block in zip(shape, blocks, strict=True)]
    expanded = scales.astype(np.float64).reshape(counts), zero_points.reshape(counts)
    for axis, block in enumerate(blocks):
        expanded = expanded[0].repeat(block, axis), expanded[1].repeat(block, axis)
    return expanded


# What must come out


@dataclass(frozen=True)
class Case:
    """The shape ops of an example, on values, and the axes and blocks of the results."""

    move: Callable[[Mapping[str, Values]], Sequence[Values]]
    axes: str
    left: frozenset[str] = frozenset({"quant.constant", "quant.dcast"})
    """The ops when all is folded."""


CASES = {
    "tiny.mlir": Case(lambda of: [of["weight"].T[1:]], "1"),
    "pointwise_convolution.mlir": Case(
        lambda of: [of["weight"].reshape(192, 32).T],
        "1",
        frozenset({"quant.constant", "quant.dcast"})
        # The layer of which it is the weight.
        | {"arith.constant", "tensor.empty", "linalg.fill", "linalg.matmul"},
    ),
    "linear_transpose.mlir": Case(lambda of: [of["weight"].T], "1"),
    "fused_qkv.mlir": Case(lambda of: [of["q"].T, of["k"].T, of["v"].T], "1"),
    "tensor_parallel.mlir": Case(
        lambda of: [of["weight"][:, :704], of["weight"][:, 704:1408]], "0:1, 1:64"
    ),
    "depthwise_convolution.mlir": Case(
        lambda of: [np.einsum("zhwcm->cmhw", of["weight"].reshape(1, 64, 1, 8, 2))], "0:1, 1:1"
    ),
    "qdq_attention.mlir": Case(
        lambda of: [np.einsum("hoi->hio", of["weight"].reshape(2, 64, 128))],
        "0:1, 2:1",
        frozenset({"arith.constant", "quant.scast", "quant.dcast"}),
    ),
    "stablehlo_convolution.mlir": Case(
        lambda of: [np.einsum("hwio->oihw", of["weight"]).reshape(32, 27)],
        "0",
        frozenset({"stablehlo.constant", "stablehlo.uniform_dequantize"}),
    ),
    "tosa_convolution.mlir": Case(
        lambda of: [
            np.einsum("ohwi->hwio", np.pad(of["weight"], ((0, 0), (0, 0), (0, 0), (0, 1))))
        ],
        "3",
        frozenset({"tosa.const", "tosa.cast"}),
    ),
}


FOREIGN = [name for name, case in CASES.items() if "quant.constant" not in case.left]


def test_every_example_is_checked() -> None:
    assert sorted(CASES) == sorted(NAMES) == sorted(path.name for path in EXAMPLES.glob("*.mlir"))


@pytest.mark.parametrize("name", NAMES)
def test_example_is_what_the_script_writes(name: str) -> None:
    written = (EXAMPLES / name).read_bytes()
    assert written == SCRIPT.EXAMPLES[name]().encode()
    assert len(written) < MAX_BYTES


def test_script_writes_into_a_folder(tmp_path: Path) -> None:
    SCRIPT.main([str(tmp_path)])
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == (EXAMPLES / name).read_bytes()


def test_examples_are_small_enough_for_a_repository() -> None:
    assert sum(path.stat().st_size for path in EXAMPLES.glob("*.mlir")) < MAX_BYTES_OF_ALL


@pytest.mark.parametrize("name", NAMES)
def test_elements_and_slots_can_tell_what_moves(name: str) -> None:
    constants = read_constants((EXAMPLES / name).read_text())
    assert constants
    for constant in constants:
        assert len(np.unique(constant.values)) >= 5
        assert constant.axes


@pytest.mark.parametrize(
    ("name", "flag"),
    [(name, "--fold-quant-shapes") for name in NAMES]
    + [(name, "--canonicalize") for name in NAMES if name not in FOREIGN],
)
def test_example_folds_exactly(name: str, flag: str) -> None:
    text = fold(name, flag)
    case = CASES[name]
    assert set(re.findall(r'%\w+ = "?(\w+\.\w+)', text)) == case.left

    sources = {c.name: c.values for c in read_constants((EXAMPLES / name).read_text())}
    expected = case.move(sources)
    folded = read_constants(text)
    assert [constant.axes for constant in folded] == [case.axes] * len(expected)
    for constant, values in zip(folded, expected, strict=True):
        assert constant.values.shape == values.shape
        assert np.array_equal(constant.values, values)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"fused_qkv.mlir", "tensor_parallel.mlir"}))
def test_name_and_attributes_stay(name: str) -> None:
    (source,) = read_constants((EXAMPLES / name).read_text())
    (folded,) = read_constants(fold(name, "--fold-quant-shapes"))
    assert (folded.name, folded.attributes) == (source.name, source.attributes)


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="there is no mlir-opt-22")
@pytest.mark.parametrize("name", FOREIGN)
def test_mlir_reads_what_comes_out(name: str, tmp_path: Path) -> None:
    folded = tmp_path / "folded.mlir"
    folded.write_text(fold(name, "--fold-quant-shapes", "--print-op-generic"))
    for file in (EXAMPLES / name, folded):
        subprocess.run(["mlir-opt-22", "--allow-unregistered-dialect", str(file)], check=True)
