"""
The behaviours of other tools on shape ops of quantized constants, one row for each.

Every row is written in each dialect that has its ops, on quantized types and on dequantized
values, and compared with numpy bit for bit. docs/field.md has the names of the rows.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folded_modules import bits, dequantized, fold, parse, returned
from shape_op_texts import (
    Chain,
    ModuleText,
    Op,
    Slots,
    Weight,
    broadcast,
    concat,
    gather,
    numpy_results,
    pad,
    per_axis,
    regroup,
    reshape,
    reverse,
    select,
    slice_,
    tile,
    transpose,
    weight,
)
from xdsl.parser import Parser

from qdialect.folding.report import Outcome
from qdialect.ops.interface import RefusalCode
from qdialect.opt.opt import main
from qdialect.opt.registry import ToolContext

pytestmark = pytest.mark.usefixtures("without_plugins")

DIALECTS = ("tensor", "tosa", "stablehlo", "quant")

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Row:
    """A behaviour: what chains of ops make of weights."""

    name: str
    weights: Sequence[Weight]
    results: Sequence[Chain]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    refused: RefusalCode | None = None
    """Why no dialect can have it folded."""


W23 = (2, 3)
BLOCKS = weight((4, 8), {1: 4})
GRID = weight((4, 8), {0: 2, 1: 4})
CUBE = (2, 3, 4)


def row(name: str, source: Weight | Sequence[Weight], *chain: Any, **more: Any) -> Row:
    """A row of one chain."""
    weights = [source] if isinstance(source, Weight) else source
    return Row(name, weights, [chain], **more)


def permutations() -> Iterator[Row]:
    """All of three axes, two of which are not their own inverse, on each quantized axis."""
    for axes in itertools.permutations(range(3)):
        written = " ".join(map(str, axes))
        yield row(f"per-tensor transpose, {written}", weight(CUBE), transpose(*axes))
        for axis in range(3):
            name = f"per-axis transpose, axis {axis} by {written}"
            yield row(name, per_axis(CUBE, axis), transpose(*axes))


TABLE = [
    *permutations(),
    # Per-tensor
    row("per-tensor reshape", weight((2, 6)), reshape(3, 4)),
    row("per-tensor transpose", weight(W23), transpose(1, 0)),
    row("per-tensor slice", weight((4, 6)), slice_((1, 2), (2, 3))),
    Row(
        "per-tensor split",
        [weight((4, 6))],
        [[slice_((0, 0), (4, 2))], [slice_((0, 2), (4, 4))]],
    ),
    row("per-tensor concat, equal params", [weight(W23), weight(W23)], concat(0)),
    row(
        "per-tensor concat, different params",
        [weight(W23), weight(W23, number=1)],
        concat(0),
    ),
    row(
        "per-tensor concat, different params and lengths",
        [weight((2, 3)), weight((4, 3), number=1)],
        concat(0),
    ),
    row("per-tensor broadcast", weight((1, 3)), broadcast((0, 1), (4, 3))),
    row("per-tensor expand, new axes", weight((3,)), broadcast((1,), (2, 3, 2))),
    row("per-tensor tile", weight(W23), tile(2, 3)),
    row("per-tensor reverse", weight(W23), reverse(0)),
    row("per-tensor reverse of two axes", weight(W23), reverse(0, 1)),
    row("per-tensor pad with zero", weight(W23), pad((1, 0), (0, 2))),
    row("per-tensor pad with what can be stored", weight(W23), pad((1, 0), (0, 2), 3 / 64)),
    row(
        "per-tensor pad with what cannot be stored",
        weight(W23),
        pad((1, 0), (0, 2), 0.01),
        refused=RefusalCode.PADDING,
    ),
    row("per-tensor gather", weight(CUBE), gather(1, (2, 0, 2, 1), CUBE)),
    row("per-tensor squeeze", weight((2, 1, 3)), reshape(2, 3)),
    row("per-tensor unsqueeze", weight(W23), reshape(2, 1, 3)),
    row("per-tensor to a scalar", weight((1, 1)), reshape()),
    row("per-tensor of a scalar", weight(()), reshape(1, 1)),
    # Per-axis
    row("per-axis transpose, axis moved", per_axis(W23, 0), transpose(1, 0)),
    row(
        "per-axis transpose, a cycle twice",
        per_axis(CUBE, 1),
        transpose(1, 2, 0),
        transpose(1, 2, 0),
    ),
    row("per-axis reshape, axis kept whole", per_axis((4, 6), 0), reshape(4, 2, 3)),
    row("per-axis reshape, axis kept and moved by units", per_axis((4, 6), 1), reshape(1, 4, 1, 6)),
    row("per-axis reshape, stale axis of equal length", per_axis((2, 4, 3), 1), reshape(3, 4, 2)),
    row("per-axis axis split", per_axis((6, 4), 0), reshape(2, 3, 4)),
    row(
        "per-axis axis split by expand_shape",
        per_axis((6, 4), 0),
        regroup("expand_shape", [[0, 1], [2]], (2, 3, 4)),
    ),
    row("per-axis axis merge, outer", per_axis((4, 6), 0), reshape(24)),
    row("per-axis axis merge, inner", per_axis((4, 6), 1), reshape(24)),
    row(
        "per-axis axis merge by collapse_shape",
        per_axis((4, 2, 3), 0),
        regroup("collapse_shape", [[0, 1], [2]], (8, 3)),
    ),
    row("per-axis reshape, split and merge", per_axis((4, 6), 1), reshape(8, 3)),
    row("per-axis slice along axis", per_axis((6, 4), 0), slice_((2, 0), (3, 4))),
    row("per-axis slice along axis, step", per_axis((6, 4), 0), slice_((1, 0), (3, 2), (2, 3))),
    row("per-axis slice across axis", per_axis((6, 4), 0), slice_((0, 1), (6, 2))),
    Row(
        "per-axis split along axis",
        [per_axis((6, 4), 0)],
        [[slice_((0, 0), (2, 4))], [slice_((2, 0), (4, 4))]],
    ),
    row(
        "per-axis concat along axis",
        [per_axis((2, 4), 0), per_axis((3, 4), 0, number=1)],
        concat(0),
    ),
    row("per-axis concat across axis, equal params", [per_axis((2, 4), 0)] * 2, concat(1)),
    row(
        "per-axis concat across axis, different params",
        [per_axis((2, 4), 0), per_axis((2, 4), 0, number=1)],
        concat(1),
    ),
    row(
        "per-axis concat with per-tensor",
        [per_axis((2, 4), 0), weight((3, 4), number=1)],
        concat(0),
    ),
    row(
        "per-axis broadcast 1 to N, quantized axis kept",
        per_axis((1, 3), 1),
        broadcast((0, 1), (4, 3)),
    ),
    row(
        "per-axis broadcast 1 to N of the quantized axis",
        per_axis((1, 3), 0),
        broadcast((0, 1), (4, 3)),
    ),
    row("per-axis broadcast, axes permuted", per_axis((2, 3), 0), broadcast((2, 0), (3, 4, 2))),
    row("per-axis expand, new axes", per_axis((3,), 0), broadcast((1,), (2, 3, 2))),
    row("per-axis tile of the axis", per_axis(W23, 1), tile(1, 2)),
    row("per-axis tile of another axis", per_axis(W23, 1), tile(2, 1)),
    row("per-axis reverse on axis", per_axis(W23, 1), reverse(1)),
    row("per-axis reverse off axis", per_axis(W23, 1), reverse(0)),
    row("per-axis gather on axis", per_axis(CUBE, 1), gather(1, (2, 0, 2, 1), CUBE)),
    row("per-axis gather on axis 0", per_axis((4, 3), 0), gather(0, (3, 0, 3), (4, 3))),
    row("per-axis gather off axis", per_axis(CUBE, 2), gather(1, (2, 0, 2, 1), CUBE)),
    row("per-axis pad on axis with zero", per_axis(W23, 0), pad((1, 0), (2, 0))),
    row("per-axis pad off axis with zero", per_axis(W23, 0), pad((0, 1), (0, 2))),
    row(
        "per-axis pad on axis with what can be stored",
        per_axis(W23, 0),
        pad((1, 0), (2, 0), 2 / 64),
    ),
    row(
        "per-axis pad off axis with what can be stored",
        per_axis(W23, 0),
        pad((0, 1), (0, 1), 2 / 64),
    ),
    row(
        "per-axis pad off axis with what one slot cannot store",
        per_axis(W23, 0),
        pad((0, 1), (0, 1), 1 / 64),
        refused=RefusalCode.PADDING,
    ),
    row("per-axis squeeze", per_axis((2, 1, 3), 2), reshape(2, 3)),
    row("per-axis unsqueeze", per_axis(W23, 1), reshape(2, 1, 3)),
    row("per-axis flatten", per_axis(CUBE, 0), reshape(2, 12)),
    row("per-axis select on axis", per_axis(CUBE, 1), select(1, 2, CUBE)),
    row("per-axis select off axis", per_axis(CUBE, 1), select(0, 1, CUBE)),
    row(
        "per-axis chain",
        per_axis(CUBE, 1),
        transpose(1, 2, 0),
        slice_((1, 0, 1), (2, 4, 1)),
        reshape(2, 4),
    ),
    # Several axes, and blocks
    row("multi-axis transpose", weight(CUBE, {0: 1, 2: 2}), transpose(1, 2, 0)),
    row("multi-axis reshape, axes merged", weight((2, 4), {0: 1, 1: 1}), reshape(8)),
    row("multi-axis slice", weight((4, 6), {0: 1, 1: 1}), slice_((1, 2), (2, 3))),
    row(
        "multi-axis concat",
        [weight((2, 2), {0: 1, 1: 1}), weight((2, 2), {0: 1, 1: 1}, number=1)],
        concat(1),
    ),
    row("blockwise transpose", BLOCKS, transpose(1, 0)),
    row("blockwise transpose, blocks on both axes", GRID, transpose(1, 0)),
    row("blockwise reshape, blocks kept", BLOCKS, reshape(2, 2, 8)),
    row("blockwise reshape, block axis split at the blocks", BLOCKS, reshape(4, 2, 4)),
    row("blockwise reshape, block axis split inside blocks", BLOCKS, reshape(4, 4, 2)),
    row("blockwise reshape, block axis merged", BLOCKS, reshape(32)),
    row("blockwise reshape, blocks of both axes merged", GRID, reshape(32)),
    row("blockwise view, 3-D to 2-D", weight((2, 2, 8), {2: 4}), reshape(4, 8)),
    row("blockwise view, 2-D to 3-D", weight((4, 8), {0: 1, 1: 4}), reshape(2, 2, 8)),
    row("blockwise slice, aligned", BLOCKS, slice_((0, 4), (4, 4))),
    row("blockwise slice, mid-block", weight((4, 8), {0: 1, 1: 4}), slice_((0, 2), (4, 4))),
    row("blockwise slice, ragged", weight((2, 12), {0: 1, 1: 4}), slice_((0, 3), (2, 5))),
    row("blockwise slice, step", BLOCKS, slice_((0, 1), (4, 4), (1, 2))),
    row("blockwise slice, odd nibble", weight((2, 8), {1: 4}, "i4"), slice_((0, 1), (2, 4))),
    Row(
        "blockwise split, mid-block",
        [BLOCKS],
        [[slice_((0, 0), (4, 2))], [slice_((0, 2), (4, 6))]],
    ),
    row("blockwise concat along blocks, equal params", [BLOCKS, BLOCKS], concat(1)),
    row(
        "blockwise concat along blocks, different params",
        [BLOCKS, weight((4, 8), {1: 4}, number=1)],
        concat(1),
    ),
    row(
        "blockwise concat along blocks, other block length",
        [BLOCKS, weight((4, 12), {1: 6}, number=1)],
        concat(1),
    ),
    row("blockwise concat with per-tensor", [BLOCKS, weight((4, 2), number=1)], concat(1)),
    row("blockwise concat with per-axis", [BLOCKS, per_axis((4, 8), 0, number=1)], concat(0)),
    row("blockwise concat across blocks, equal params", [BLOCKS, BLOCKS], concat(0)),
    row(
        "blockwise concat across blocks, different params",
        [BLOCKS, weight((4, 8), {1: 4}, number=1)],
        concat(0),
    ),
    row("blockwise squeeze", weight((1, 8), {1: 4}), reshape(8)),
    row("blockwise unsqueeze", weight((4, 8), {1: 4}), reshape(4, 1, 8)),
    row("blockwise flatten", weight((2, 2, 8), {2: 4}), reshape(2, 16)),
    row("blockwise select on the block axis", GRID, select(1, 5, (4, 8))),
    row("blockwise select off the block axis", BLOCKS, select(0, 3, (4, 8))),
    row("blockwise reverse", BLOCKS, reverse(1)),
    row(
        "blockwise gather on the block axis",
        weight((2, 8, 3), {1: 4}),
        gather(1, (5, 0, 4), (2, 8, 3)),
    ),
    row("blockwise pad with zero", BLOCKS, pad((0, 4), (0, 4))),
    row("blockwise pad, mid-block", BLOCKS, pad((0, 1), (0, 2))),
    row("blockwise tile", BLOCKS, tile(1, 2)),
    row("blockwise broadcast", weight((1, 8), {1: 4}), broadcast((0, 1), (3, 8))),
    # Storage
    row("int4 transpose", per_axis((3, 5), 0, "i4"), transpose(1, 0)),
    row("int4 reshape", weight((3, 5), {}, "i4"), reshape(5, 3)),
    row("int4 slice, odd nibble", per_axis((3, 5), 1, "i4"), slice_((1, 1), (2, 3))),
    row("int4 concat", [per_axis((3, 3), 0, "i4"), per_axis((2, 3), 0, "i4", 1)], concat(0)),
    row("int4 reverse", per_axis((3, 5), 1, "i4"), reverse(1)),
    row("int4 pad with zero", per_axis((3, 5), 1, "i4"), pad((0, 1), (0, 0))),
    row("unsigned int4 transpose", per_axis((3, 5), 0, "u4"), transpose(1, 0)),
    row("unsigned int8 transpose", per_axis((3, 5), 0, "u8"), transpose(1, 0)),
    row("unsigned int8 pad with zero", per_axis((3, 5), 0, "u8"), pad((0, 1), (0, 0))),
    row("int16 transpose", per_axis((3, 5), 0, "i16"), transpose(1, 0)),
    # Policy
    Row(
        "multi-use constant",
        [per_axis(CUBE, 1)],
        [[], [transpose(1, 2, 0)], [reshape(6, 4)], [slice_((0, 1, 0), (2, 1, 4))]],
    ),
    row(
        "budget of bytes, kept",
        weight((2, 3)),
        broadcast((0, 1), (2, 3)),
        options={"max_growth": 0},
    ),
    row(
        "budget of bytes, exceeded",
        weight((1, 3)),
        broadcast((0, 1), (4, 3)),
        options={"max_growth": 8},
        refused=RefusalCode.GROWTH,
    ),
    row(
        "budget of bytes, just met",
        weight((1, 3)),
        broadcast((0, 1), (4, 3)),
        options={"max_growth": 9},
    ),
    row(
        "budget of scales, exceeded",
        per_axis((4, 6), 1),
        reshape(24),
        options={"max_parameter_growth": 17},
        refused=RefusalCode.PARAMETER_GROWTH,
    ),
    row(
        "budget of scales, just met",
        per_axis((4, 6), 1),
        reshape(24),
        options={"max_parameter_growth": 18},
    ),
    row(
        "finest granularity, exceeded",
        per_axis((6, 4), 0),
        reshape(2, 3, 4),
        options={"granularity": "per-axis"},
        refused=RefusalCode.GRANULARITY,
    ),
]

ROWS = {row.name: row for row in TABLE}


@dataclass(frozen=True)
class Case:
    """A row as it is written in one dialect."""

    row: Row
    dialect: str
    on_floats: bool

    @property
    def id(self) -> str:
        """The name of the test."""
        return f"{self.row.name}-{self.dialect}-{'floats' if self.on_floats else 'types'}"

    @property
    def text(self) -> str:
        """The module."""
        return ModuleText(self.dialect, self.on_floats).write(self.row.weights, self.row.results)

    @property
    def steps(self) -> Iterator[tuple[Op, Sequence[Slots], Slots]]:
        """Each op with what its operands read and what its result reads."""
        for chain in self.row.results:
            slots: Sequence[Slots] = [of.slots for of in self.row.weights]
            for op in chain:
                result = op.of_slots(*slots)
                yield op, slots, result
                slots = [result]

    def can_be_written(self) -> bool:
        """Whether the dialect has the ops, and the types."""
        types = [of.slots for of in self.row.weights]
        for op, operands, result in self.steps:
            if self.dialect not in op.texts:
                return False
            if self.on_floats:
                continue
            if self.dialect in op.only_on_floats:
                return False
            types_here = {slots.type_text("i8") for slots in (*operands, result)}
            if self.dialect in op.keeps_type_in and len(types_here) > 1:
                return False
            types.append(result)
        if self.dialect == "quant":
            return not self.on_floats
        return self.dialect != "stablehlo" or all(len(slots.cut) <= 1 for slots in types)

    @property
    def refused(self) -> RefusalCode | None:
        """Why it is not folded; StableHLO cannot spell slots on several axes."""
        results = numpy_results(self.row.weights, self.row.results)
        if self.dialect == "stablehlo" and any(len(slots.cut) > 1 for _, slots in results):
            return RefusalCode.GRANULARITY
        return self.row.refused


CASES = [
    case
    for row in TABLE
    for dialect in DIALECTS
    for on_floats in (True, False)
    if (case := Case(row, dialect, on_floats)).can_be_written()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_row(case: Case) -> None:
    """
    The folded constants read bit for bit what numpy makes of the floats.

    Their types are the coarsest that mean the slots as numpy moves them. A row that is
    refused is left as it is, with the code of the reason: padding that no code reads as,
    a cost that an option forbids, and slots on two axes where the dialect has no type for
    them.
    """
    text = case.text
    if case.refused is not None:
        module, report = fold(text, **case.row.options)
        assert str(module) == str(parse(text)[0])
        assert [record.code for record in report.records] == [case.refused]
        return
    module, report = fold(text, **case.row.options)
    expected = numpy_results(case.row.weights, case.row.results)
    for value, (floats, slots) in zip(returned(module), expected, strict=True):
        read, type = dequantized(value)
        assert read.shape == floats.shape
        assert np.array_equal(bits(read), bits(floats))
        storage = case.row.weights[0].storage
        spelled = slots.type_text(storage, per_axis=case.dialect == "stablehlo")
        assert type == Parser(ToolContext(), spelled).parse_type()
    assert all(record.outcome is not Outcome.REFUSED for record in report.records)


def test_rows_are_not_vacuous() -> None:
    """Names are unique, each row is written in some dialect, and each dialect often."""
    assert len(ROWS) == len(TABLE)
    assert {case.row.name for case in CASES} == ROWS.keys()
    for dialect in DIALECTS:
        assert sum(case.dialect == dialect for case in CASES) > 60


def test_refusal_is_machine_readable(tmp_path: Path) -> None:
    """The file says which op is left, where it is, and why in one word."""
    source, file = tmp_path / "module.mlir", tmp_path / "report.json"
    text = Case(ROWS["per-axis axis split"], "stablehlo", on_floats=True).text
    source.write_text(text)
    flags = ["--allow-unregistered-dialect", "--fold-quant-shapes", f"--fold-report={file}"]
    assert main([*flags, str(source), "-o", str(tmp_path / "folded.mlir")]) == 0
    line = text[: text.index("stablehlo.reshape")].count("\n") + 1
    assert json.loads(file.read_text())["records"] == [
        {
            "outcome": "refused",
            "op": "stablehlo.reshape",
            "location": f"{source}:{line}:9",
            "result": "%r2",
            "code": "granularity",
            "reason": "its type is sub-channel, and per-axis is allowed; "
            "'--raise-dequantization' first removes it",
        }
    ]


@pytest.mark.parametrize(
    ("dialect", "tool"),
    [("tensor", "mlir-opt-22"), ("tosa", "mlir-opt-22"), ("stablehlo", "iree-opt")],
)
@pytest.mark.parametrize("is_folded", [False, True], ids=["written", "folded"])
def test_upstream_accepts_rows(dialect: str, tool: str, is_folded: bool, tmp_path: Path) -> None:
    """
    The tools of the dialects verify the modules, and what the fold makes of them.

    Only of those that move floats: on quantized types the verifiers of the dialects refuse
    much of what the rows say in them.
    """
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    executable = shutil.which(tool, path=paths)
    if executable is None:
        pytest.skip(f"{tool} is not on PATH")
    modules = tmp_path / "rows.mlir"
    texts = [case.text for case in CASES if case.dialect == dialect and case.on_floats]
    modules.write_text("// -----\n".join(texts))
    if is_folded:
        flags = ["--allow-unregistered-dialect", "--split-input-file", "--print-op-generic"]
        folded = tmp_path / "folded.mlir"
        assert main([*flags, "--fold-quant-shapes", str(modules), "-o", str(folded)]) == 0
        modules = folded
    subprocess.run(
        [executable, "--split-input-file", str(modules), "-o", str(tmp_path / "out.mlir")],
        check=True,
    )
    assert (tmp_path / "out.mlir").read_text().count("func.func @f") == len(texts)
