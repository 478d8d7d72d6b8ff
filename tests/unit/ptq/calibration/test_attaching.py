"""Ranges of a profile are attached by key, and missing ones are reported."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from dequantizing_arithmetic import Module
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.ir import Operation

from qdialect.dialects.quant import StatisticsOp
from qdialect.ir.resources import ResourceBlobs
from qdialect.opt.opt import main
from qdialect.passes.fold_quant_shapes import FoldConstantShapesPass
from qdialect.ptq.calibration.attaching import attach_ranges, fingerprint_of
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.passes.ranges import AttachKeysPass, AttachRangesPass, DropRangesPass
from qdialect.ptq.schemes.profile import Fingerprint, Profile
from qdialect.ptq.schemes.ranges import Reduction, ReductionKind, Statistics

pytestmark = pytest.mark.usefixtures("without_plugins")

TEXT = """
func.func @main(%image: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %weight = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %t = tosa.transpose %weight {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %sum = "test.op"(%t, %image) : (tensor<3x2xf32>, tensor<2x3xf32>) -> tensor<3x2xf32>
  return %sum : tensor<3x2xf32>
}
"""


def fingerprint(module: Module) -> Fingerprint:
    return fingerprint_of(module.module, ResourceBlobs.of(module.context))


def statistics(*ranges: tuple[float, float]) -> Statistics:
    """What was seen in records of these ranges."""
    ends = np.array(ranges, np.float32)
    return Statistics((), np.arange(len(ranges)), ends[:, 0], ends[:, 1], 2 * len(ranges))


RECORDS = {
    "image": statistics((-1, 1), (-0.5, 2)),
    "weight": statistics((1, 6), (1, 6)),
    "sum": statistics((0, 3), (0.25, 0.5)),
}


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "a profile.json"
    path.write_text(Profile(fingerprint(Module(TEXT)), RECORDS).to_json())
    return path


def attached(module: ModuleOp) -> dict[str, list[float]]:
    """The range that each key has."""
    found: dict[str, list[float]] = {}
    for op in module.walk():
        if isinstance(op, StatisticsOp):
            assert op.key is not None
            layer = cast("DenseIntOrFPElementsAttr[Any]", op.layer_stats)
            found[op.key.data] = cast("list[float]", list(layer.iter_values()))
    return found


WHOLE = {"image": [-1, 2], "weight": [1, 6], "sum": [0, 3]}


def test_each_value_with_a_record_has_its_range(profile: Path):
    module = Module(TEXT)
    report = module.run(AttachRangesPass(profile=str(profile)))
    assert attached(module.module) == WHOLE
    assert [record.outcome for record in report.records] == ["attached"] * 3
    assert module.ops.count("quant.stats") == 3


def test_infinite_ranges_may_be_left_out(tmp_path: Path):
    path, infinite = tmp_path / "profile.json", {"sum": statistics((-np.inf, 3), (0, 1))}
    path.write_text(Profile(fingerprint(Module(TEXT)), RECORDS | infinite).to_json())
    module = Module(TEXT)
    module.run(AttachRangesPass(profile=str(path)))
    assert attached(module.module) == WHOLE | {"sum": [-np.inf, 3]}
    module = Module(TEXT)
    report = module.run(AttachRangesPass(profile=str(path), finite=True))
    assert attached(module.module) == {"image": WHOLE["image"], "weight": WHOLE["weight"]}
    (refused,) = (record for record in report.records if record.outcome == "refused")
    assert refused.reason == "the record of 'sum' is infinite"


def test_ranges_are_found_again_after_a_fold(profile: Path):
    first, second = Module(TEXT), Module(TEXT)
    first.run(FoldConstantShapesPass())
    AttachRangesPass(profile=str(profile)).apply(first.context, first.module)
    AttachRangesPass(profile=str(profile)).apply(second.context, second.module)
    second.context.fold_reports.clear()
    second.run(FoldConstantShapesPass())
    assert first.printed() == second.printed()
    assert "tosa.transpose" not in first.printed()


def test_attaching_again_replaces_what_was_there(profile: Path):
    module = Module(TEXT)
    module.run(AttachRangesPass(profile=str(profile), reduction="moving-average"))
    module.run(AttachRangesPass(profile=str(profile)))
    once = Module(TEXT)
    once.run(AttachRangesPass(profile=str(profile)))
    assert module.printed() == once.printed()
    DropRangesPass().apply(module.context, module.module)
    assert module.printed() == Module(TEXT).printed()


def test_percentiles_are_taken_of_the_records(profile: Path):
    module = Module(TEXT)
    module.run(AttachRangesPass(profile=str(profile), reduction="percentile", low=50, high=50))
    expected = {
        key: [float(np.percentile(s.minima, 50)), float(np.percentile(s.maxima, 50))]
        for key, s in RECORDS.items()
    }
    assert attached(module.module) == expected


def test_percentiles_of_another_reduction_are_refused(profile: Path):
    for reduction in (None, "whole", "moving-average"):
        with pytest.raises(ValueError, match="low and high need reduction=percentile"):
            AttachRangesPass(profile=str(profile), reduction=reduction, low=5)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("percentile low=90 high=5", "low must not exceed high, as 90 exceeds 5"),
        ("mse", "reduction=mse needs histograms: record the profile again, with"),
    ],
)
def test_reductions_that_are_not_possible_are_refused(
    tmp_path: Path, profile: Path, capsys: pytest.CaptureFixture[str], options: str, error: str
):
    path = tmp_path / "model.mlir"
    path.write_text(TEXT)
    flag = f'--attach-ranges=profile="{profile}" reduction={options}'
    assert main([str(path), "--allow-unregistered-dialect", flag]) == 1
    assert error in capsys.readouterr().err


def test_a_report_names_what_has_a_range_and_nothing_vanishes(tmp_path: Path, profile: Path):
    """Arguments have ranges, and are of no op with a result."""
    path, report = tmp_path / "model.mlir", tmp_path / "report.json"
    path.write_text(TEXT)
    flags = ["--allow-unregistered-dialect", f'--attach-ranges=profile="{profile}"']
    with redirect_stdout(io.StringIO()):
        assert main([str(path), *flags, f"--fold-report={report}"]) == 0
    content = json.loads(report.read_text())
    assert content["values"] == []
    assert [each["result"] for each in content["records"]] == [None, "%weight", "%sum"]


def test_a_profile_may_name_its_reduction(tmp_path: Path):
    path = tmp_path / "profile.json"
    median = Reduction(ReductionKind.PERCENTILE, 50, 50)
    profile = Profile(fingerprint(Module(TEXT)), RECORDS, reduction=median)
    path.write_text(profile.to_json())
    assert Profile.read(path).reduction == median
    module = Module(TEXT)
    module.run(AttachRangesPass(profile=str(path)))
    assert attached(module.module)["image"] == [-0.75, 1.5]
    module.run(AttachRangesPass(profile=str(path), reduction="whole"))
    assert attached(module.module) == WHOLE


def test_the_fingerprint_is_of_what_is_computed():
    of = fingerprint(Module(TEXT))
    renamed = Module(TEXT.replace("%sum", "%total").replace("%t ", "%u ").replace("%t,", "%u,"))
    assert not fingerprint(renamed).differences(of)
    keyed = Module(TEXT)
    AttachKeysPass().apply(keyed.context, keyed.module)
    assert fingerprint(keyed) == of
    for other in (
        TEXT.replace("6.0", "7.0"),
        TEXT.replace("test.op", "test.other"),
        TEXT.replace("(%t, %image)", "(%t, %weight)"),
        TEXT.replace("perms = array<i32: 1, 0>", "perms = array<i32: 1, 0>, kept = 1 : i8"),
    ):
        assert of.differences(fingerprint(Module(other))) == ["'@main' differs"]
    assert of.differences(fingerprint(Module(TEXT.replace("@main", "@f"))))


def test_a_default_that_mlir_prints_is_no_part_of_the_fingerprint():
    text = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = "tosa.maximum"(%x, %x) <{MODE}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
"""
    implied, default, other = (
        fingerprint(Module(text.replace("MODE", mode)))
        for mode in (
            "",
            "nan_mode = #tosa.nan_mode<PROPAGATE>",
            "nan_mode = #tosa.nan_mode<IGNORE>",
        )
    )
    assert implied == default
    assert implied != other


def test_recorded_ranges_are_no_part_of_the_fingerprint(profile: Path):
    module = Module(TEXT)
    module.run(AttachRangesPass(profile=str(profile)))
    assert fingerprint(module) == fingerprint(Module(TEXT))


def opt(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([*arguments, "--allow-unregistered-dialect"])
    return status, out.getvalue(), err.getvalue()


def test_what_is_missing_and_what_differs_is_told(tmp_path: Path, profile: Path):
    file = tmp_path / "other.mlir"
    file.write_text(TEXT.replace("%sum", "%total").replace("test.op", "test.other"))
    flag = f"--attach-ranges=profile={profile}".replace("=/", '="/') + '"'
    status, _, errors = opt(str(file), flag, "--remarks")
    assert status == 0
    assert f"{file}:5:12: remark: not attached: there is no record of 'total' [no-record]" in errors
    assert "no value has the key 'sum', which has a record [no-value]" in errors
    file.write_text(TEXT.replace("6.0", "7.0"))
    status, _, errors = opt(str(file), flag)
    assert status == 0
    assert f"warning: '{profile}' was recorded on another module: '@main' differs" in errors


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot open"),
        ("{", "profile.json:1:2: "),
        ('{"format": "other"}', "profile.json:1:"),
    ],
)
def test_profiles_that_are_none_are_refused(tmp_path: Path, text: str | None, told: str):
    file, path = tmp_path / "m.mlir", tmp_path / "profile.json"
    file.write_text(TEXT)
    if text is not None:
        path.write_text(text)
    status, printed, errors = opt(str(file), f"--attach-ranges=profile={path}")
    assert (status, printed) == (1, "")
    assert told in errors
    assert "Traceback" not in errors


def test_strictness_makes_errors_of_what_is_told(tmp_path: Path, profile: Path):
    file = tmp_path / "m.mlir"
    file.write_text(TEXT)
    flag = f'--attach-ranges=profile="{profile}" strict'
    assert opt(str(file), flag)[0] == 0
    file.write_text(TEXT.replace("%sum", "%total").replace("test.op", "test.other"))
    status, printed, errors = opt(str(file), flag)
    assert (status, printed) == (1, "")
    assert "there is no record of 'total'; no value has the key 'sum'" in errors


def test_keys_are_those_of_the_profile():
    assert list(keys_of(Module(TEXT).module).roots) == list(RECORDS)


def test_ranges_with_keys_of_their_own_are_replaced():
    # The inner op is the value that the outer one is of.
    module = Module("""
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.stats %x {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>, key = "a"} : tensor<2xf32>
  %1 = quant.stats %0 {layerStats = dense<[0.0, 2.0]> : tensor<2xf32>, key = "b"} : tensor<2xf32>
  return %1 : tensor<2xf32>
}
""")
    records = {"a": statistics((-1, 1)), "b": statistics((-2, 2))}
    attach_ranges(module.module, module.context, Profile(fingerprint(module), records), Reduction())
    module.module.verify()
    assert attached(module.module)["a"] == [-1, 1]


def profiled(text: str) -> Profile:
    """A profile of a module: the record of value number n is from 0 to n."""
    module = Module(text)
    records = {
        key: statistics((0, number)) for number, key in enumerate(keys_of(module.module).roots)
    }
    return Profile(fingerprint(module), records)


def numbers_in(text: str, profile: Profile, *, trust_numbers: bool = False) -> dict[str, int]:
    """The number of the record that each op has, by a letter in its name: `e` in `math.exp`."""
    module = Module(text)
    attach_ranges(module.module, module.context, profile, Reduction(), trust_numbers=trust_numbers)
    ends = {
        op.input.owner: cast("DenseIntOrFPElementsAttr[Any]", op.layer_stats).get_values()[1]
        for op in module.module.walk()
        if isinstance(op, StatisticsOp)
    }
    return {op.name: int(end) for op, end in ends.items() if isinstance(op, Operation)}


def chain(*ops: str) -> str:
    """A function of these ops, each of which reads the one before; text after `=` is its name."""
    lines, last = list[str](), "%x"
    for op in ops:
        name, _, value = op.partition("=")
        lines.append(f"{value} = math.{name} {last} : tensor<2xf32>")
        last = value
    body = "\n".join(lines)
    return (
        f"func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{body}\n"
        f"return {last} : tensor<2xf32>\n}}"
    )


RECORDED = chain("exp=%h", "tanh=%h_1", "sin=%h_2")


@pytest.mark.parametrize(
    ("recorded", "used", "found"),
    [
        pytest.param(RECORDED, RECORDED, {"exp": 1, "tanh": 2, "sin": 3}, id="the same"),
        pytest.param(
            RECORDED,
            chain("exp=%0", "tanh=%h", "sin=%h_1"),
            {"exp": 1, "tanh": 2, "sin": 3},
            id="named anew, computed as before",
        ),
        pytest.param(
            RECORDED, chain("exp=%h", "tanh=%h_1"), {"exp": 1, "tanh": 2}, id="one is removed"
        ),
        # What a printer makes of `%h_1` and `%h_2` when nothing else is named so.
        pytest.param(RECORDED, chain("tanh=%h", "sin=%h_1"), {}, id="numbered anew"),
        pytest.param(
            chain("exp=%h_1", "tanh=%h_2", "sin=%h_3"),
            chain("tanh=%h_2", "sin=%h_3"),
            {"tanh": 2, "sin": 3},
            id="numbers that no printer adds",
        ),
        pytest.param(
            chain("exp=%h_1", "tanh=%h_2", "sin=%h_3"),
            chain("tanh=%h", "sin=%h_1"),
            {},
            id="numbers that a printer may have added",
        ),
        pytest.param(
            chain("exp=%a", "tanh=%b"),
            chain("exp=%b", "cos=%c", "sin=%a"),
            {"exp": 1},
            id="the record is of a value that is elsewhere",
        ),
        pytest.param(
            chain("exp=%0", "tanh=%1", "sin=%2"),
            chain("cos=%0", "tanh=%1", "sin=%2"),
            {},
            id="without names",
        ),
        pytest.param(
            chain("exp=%0", "tanh=%1", "tanh=%2"),
            chain("exp=%0", "tanh=%1", "sin=%2"),
            {"exp": 1, "tanh": 2},
            id="without names, computed as before",
        ),
    ],
)
def test_a_record_is_of_the_value_that_it_was_recorded_for(
    recorded: str, used: str, found: dict[str, int]
):
    found = {f"math.{name}": number for name, number in found.items()}
    assert numbers_in(used, profiled(recorded)) == found


def test_a_constant_of_other_elements_has_no_record():
    text = """
    func.func @f() -> tensor<2xf32> {
      %w = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
      %s = tensor.extract_slice %w[1] [2] [1] : tensor<3xf32> to tensor<2xf32>
      %y = math.exp %s : tensor<2xf32>
      return %y : tensor<2xf32>
    }"""
    module, profile = Module(text), profiled(text)
    module.run(FoldConstantShapesPass())
    assert "extract_slice" not in module.printed()
    report = attach_ranges(module.module, module.context, profile, Reduction()).report
    assert attached(module.module) == {"y": [0, 2]}
    assert "the record of 'w' is of other elements than this constant has" in {
        record.reason for record in report.records
    }


@pytest.mark.parametrize("version", [1, 2])
def test_numbers_of_another_module_need_an_option(tmp_path: Path, version: int):
    file, path = tmp_path / "m.mlir", tmp_path / "p.json"
    content = json.loads(profiled(chain("exp=%0", "tanh=%1", "sin=%y")).to_json())
    if version == 1:
        content = {key: content[key] for key in content if key not in ("identities", "numbered")}
    path.write_text(json.dumps({**content, "version": version}))
    file.write_text(chain("cos=%0", "tanh=%1", "sin=%y"))
    status, out, errors = opt(str(file), f'--attach-ranges=profile="{path}"', "--remarks")
    assert status == 0
    assert out.count("quant.stats") == 2
    assert (
        "2 of its records may be of other values, and are not attached: --remarks names" in errors
    )
    told = f"{file}:2:6: remark: not attached: the record of '@main#0' may be of another value"
    assert told in errors
    flag = f'--attach-ranges=profile="{path}" trust-numbers'
    status, out, errors = opt(str(file), flag)
    assert (status, out.count("quant.stats")) == (0, 4)
    assert "may be of other values" not in errors


def test_names_that_values_share_are_numbers_in_a_profile_of_version_1(tmp_path: Path):
    """Names were stored without their number: these are `%h_1` and `%h`, or the other way round."""
    profile = Profile(Fingerprint({}), {"h": statistics((0, 1)), "h#1": statistics((0, 2))})
    assert numbers_in(chain("exp=%h"), profile) == {}
    assert numbers_in(chain("exp=%h"), profile, trust_numbers=True) == {"math.exp": 1}


def test_a_profile_of_other_keys_is_not_merged():
    one, other = profiled(RECORDED), profiled(chain("exp=%h_1", "tanh=%h", "sin=%h_2"))
    assert not one.fingerprint.differences(other.fingerprint)
    with pytest.raises(ValueError, match="modules whose values have other keys"):
        one.merge(other)
