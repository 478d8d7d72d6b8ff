"""The modules that a small run must not import, and the end of a tool's process."""

import gc
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import qdialect
from qdialect.opt.opt import main
from qdialect.passes import GROUPS

NEVER_NEEDED = {
    "argparse": "the command line is not xDSL's",
    "difflib": "for names that are wrong",
    "importlib.metadata": "reads what is installed: for names that xDSL does not know",
    "json": "for reports, and for lists of many slots",
    "qdialect.folding.report": "for passes that fold",
    **{
        f"qdialect.{module}": "for a pass" for group in GROUPS.values() for module in group.values()
    },
    "qdialect.folding.apply": "for passes that fold",
    "qdialect.opt.expected_diagnostics": "for --verify-diagnostics",
    "traceback": "for --debug",
    "xdsl.interpreter": "runs programs",
    "xdsl.passes": "for passes",
    "xdsl.transforms": "for passes",
    "xdsl.universe": "for plug-ins",
    "xdsl.utils.arg_spec": "for passes and targets",
}

ARITHMETIC = """
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %a : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""
INTEGERS = """
func.func @f() -> (tensor<2x2xi8>, tensor<2xindex>) {
  %0 = arith.constant dense<[[1, 2], [-3, 255]]> : tensor<2x2xi8>
  %1 = arith.constant dense<7> : tensor<2xindex>
  func.return %0, %1 : tensor<2x2xi8>, tensor<2xindex>
}
"""
CASTS = """
!q = !quant.uniform<i8:f32:0, {0.5, 0.25:3}>
func.func @f(%a: tensor<2x3xf32>) -> tensor<2x3xi8> {
  %0 = quant.qcast %a : tensor<2x3xf32> to tensor<2x3x!q>
  %1 = quant.scast %0 : tensor<2x3x!q> to tensor<2x3xi8>
  func.return %1 : tensor<2x3xi8>
}
"""
TOSA = """
func.func @f(%a: tensor<2x3xi8>) -> tensor<6xi8> {
  %0 = "tosa.const"() <{values = dense<1> : tensor<2x3xi8>}> : () -> tensor<2x3xi8>
  %1 = tosa.add %a, %0 : (tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<2x3xi8>
  %2 = tensor.collapse_shape %1 [[0, 1]] : tensor<2x3xi8> into tensor<6xi8>
  func.return %2 : tensor<6xi8>
}
"""


def run_python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )


def modules_after(*arguments: str) -> set[str]:
    """The modules imported in a process that has run the tool."""
    program = (
        "import sys; before = set(sys.modules)\n"
        "from qdialect.opt.opt import main\n"
        "status = main()\n"
        "sys.stderr.write(' '.join(set(sys.modules) - before)); sys.exit(status)"
    )
    tool = run_python(program, *arguments)
    assert tool.returncode == 0, tool.stderr
    return set(tool.stderr.split())


def test_the_version_is_told_without_xdsl_and_numpy():
    packages = {name.partition(".")[0] for name in modules_after("--version")}
    assert "qdialect" in packages
    assert not packages & {"numpy", "xdsl"}


@pytest.mark.parametrize(
    ("text", "needs_numpy"),
    [(ARITHMETIC, False), (INTEGERS, False), (CASTS, True), (TOSA, False)],
    ids=["arithmetic", "integers", "casts", "tosa"],
)
def test_a_small_module_needs_little(text: str, needs_numpy: bool, tmp_path: Path):
    path = tmp_path / "small.mlir"
    path.write_text(text)
    imported = modules_after(str(path))
    assert "xdsl.parser" in imported
    assert ("numpy" in imported) == needs_numpy
    # numpy has its own needs.
    assert needs_numpy or not imported & NEVER_NEEDED.keys()
    assert not {name for name in imported if name.startswith(("qdialect.", "xdsl."))} & (
        NEVER_NEEDED.keys()
    )


ON_ARRAYS = (
    "qdialect.check.comparison",
    "qdialect.check.roundings",
    "qdialect.check.sampled_runs",
    "qdialect.check.interpreters",
    "qdialect.dialects.arrays",
    "qdialect.export.onnx_",
    "qdialect.integers.compiling",
    "qdialect.integers.forms",
    "qdialect.integers.layer_forms",
    "qdialect.integers.lowering",
    "qdialect.integers.tosa_form",
    "qdialect.ptq.calibration.kernels",
    "qdialect.ptq.calibration.observed_runs",
    "qdialect.ptq.calibration.recorded_functions",
    "qdialect.ptq.fake_quantization",
    "qdialect.ptq.calibration.derived_ranges",
    "qdialect.ptq.calibration.record",
    "qdialect.ptq.tools.calibrate",
    "qdialect.check.check_tool",
    "qdialect.ptq.tools.evaluat",
    "qdialect.check.iree_",
    "qdialect.ptq.tools.record",
    "qdialect.check.run_tool",
    "qdialect.export.export_tool",
    "qdialect.testing",
)


def test_no_module_imports_numpy_before_it_is_used():
    modules = pkgutil.walk_packages(qdialect.__path__, "qdialect.")
    # What runs modules, on arrays, has no use without them.
    names = [
        m.name for m in modules if not m.name.startswith(ON_ARRAYS) and not m.name.endswith(".runs")
    ]
    assert {"qdialect.algebra.movement", "qdialect.passes.fold_quant_shapes"} <= {*names}
    imports = "".join(
        f"import {name}\nassert 'numpy' not in sys.modules, '{name}'\n" for name in names
    )
    tool = run_python(f"import sys\n{imports}")
    assert tool.returncode == 0, tool.stderr


def test_folding_needs_numpy_only_for_constants(tmp_path: Path):
    path = tmp_path / "small.mlir"
    path.write_text(ARITHMETIC)
    assert "numpy" not in modules_after("--fold-quant-shapes", str(path))


# The process


RUN = (
    "import atexit, sys\n"
    "from qdialect.opt import process\n"
    "from qdialect.opt import opt\n"
    "def main():\n"
    "    {}\n"
    "opt.main = main\n"
    "sys.exit(process.run())"
)


def test_what_is_registered_for_the_end_is_done():
    tool = run_python(RUN.format("atexit.register(print, 'late'); print('soon'); return 3"))
    assert tool.stdout == "soon\nlate\n"
    assert tool.stderr == ""
    assert tool.returncode == 3


def test_a_crash_is_told():
    tool = run_python(RUN.format("raise SystemError('of the tool')"))
    assert "SystemError: of the tool" in tool.stderr
    assert tool.returncode == 1


def test_the_interpreter_is_not_taken_down():
    kept = "opt.kept = type('Kept', (), {'__del__': lambda kept: print('gone')})()"
    assert run_python(f"from qdialect.opt import opt\n{kept}").stdout == "gone\n"
    assert run_python(RUN.format(f"{kept}; return 0")).stdout == ""


def test_a_call_leaves_the_garbage_collector_alone(capsys: pytest.CaptureFixture[str]):
    assert gc.isenabled()
    assert main(["--version"]) == 0
    assert gc.isenabled()
    assert capsys.readouterr().out.startswith("qdialect-opt ")
