"""
The passes of MLIR's quant dialect give the same results as in MLIR.

Random modules are compared with the output of `mlir-opt`. MLIR's own tools run the lowered
modules, and the results are compared with numpy.
"""

from __future__ import annotations

import io
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from mlir_tools import MLIR_OPT, needs_mlir_opt, needs_mlir_runner, run, run_main
from nested_text import nested
from numpy.typing import NDArray
from random_casts import RandomType, cast_functions, flow_functions, random_types
from xdsl.parser import Parser

from qdialect.algebra.parameters import StorageFormat
from qdialect.dialects.quant import UniformQuantizedType
from qdialect.ir.elements import integer_range
from qdialect.ir.errors import OpErrors
from qdialect.opt.opt import main
from qdialect.opt.registry import ToolContext
from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
from qdialect.support.float_format import FLOAT_FORMATS, FloatFormat, Rounding

ANYTHING = ["--allow-unregistered-dialect"]
GENERIC = [MLIR_OPT, *ANYTHING, "--mlir-print-op-generic"]

# An example is a module of several functions, which a tool reads at once.
LARGE_EXAMPLES = [
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.function_scoped_fixture,
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "module.mlir"


def opt(file: Path, text: str, *flags: str) -> tuple[int, str, str]:
    """What `qdialect-opt` returns, prints, and says."""
    file.write_text(text)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([*flags, *ANYTHING, str(file)])
    return status, out.getvalue(), err.getvalue()


def converted(file: Path, text: str, *flags: str) -> str:
    """What the passes make of a module, which can be read again."""
    status, printed, errors = opt(file, text, *flags)
    assert status == 0, f"{errors}\n{text}"
    status, again, errors = opt(file, printed)
    assert status == 0, f"{errors}\n{printed}"
    assert again == printed
    return printed


def assert_same_as_mlir(file: Path, text: str, flag: str) -> None:
    """Also when it is run twice."""
    for flags in ([flag], [flag, flag]):
        assert run(GENERIC, converted(file, text, *flags)) == run([*GENERIC, *flags], text), text


@needs_mlir_opt
@examples(12, suppress_health_check=LARGE_EXAMPLES)
@given(st.data())
def test_lowered_as_by_mlir(file: Path, data: st.DataObject):
    functions = [data.draw(cast_functions(f"f{n}")) for n in range(6)]
    assert_same_as_mlir(file, "\n".join(functions), "--lower-quant-ops")


@needs_mlir_opt
@examples(12, suppress_health_check=LARGE_EXAMPLES)
@given(st.data())
def test_stripped_as_by_mlir(file: Path, data: st.DataObject):
    types = data.draw(st.lists(random_types(), min_size=1, max_size=3))
    functions = [data.draw(flow_functions(f"f{n}", types)) for n in range(3)]
    assert_same_as_mlir(file, "\n".join(functions), "--strip-func-quant-types")


def has_blocks_of_one(type: RandomType) -> bool:
    """Whether MLIR, which ignores the size of blocks, normalizes a type as it should."""
    parsed = parse_type(type.text)
    slots = [count for count in parsed.scales.shape if count != 1]
    cut = [
        block
        for axis, block in zip(parsed.quantized_dimensions, parsed.block_sizes, strict=True)
        if parsed.scales.shape[axis] != 1
    ]
    return len(slots) != 1 or cut == [1]


@needs_mlir_opt
@examples(12, suppress_health_check=LARGE_EXAMPLES)
@given(st.data())
def test_normalized_as_by_mlir(file: Path, data: st.DataObject):
    normalized = random_types(("blocks",)).filter(has_blocks_of_one)
    types = data.draw(st.lists(normalized, min_size=1, max_size=3))
    types += data.draw(st.lists(random_types(("tensor", "axis")), max_size=1))
    functions = [data.draw(flow_functions(f"f{n}", types)) for n in range(3)]
    assert_same_as_mlir(file, "\n".join(functions), "--normalize-quant-types")


# What is run


def parse_type(text: str) -> UniformQuantizedType:
    type = Parser(ToolContext(), text).parse_type()
    assert isinstance(type, UniformQuantizedType)
    return type


@dataclass
class Evaluation:
    """A cast of a constant, and what numpy says of it."""

    type: RandomType
    rounding: Rounding | None
    """None for dcast."""
    values: NDArray[Any]
    """Floats as doubles, or storage integers."""

    @property
    def parsed(self) -> UniformQuantizedType:
        return parse_type(self.type.text)

    @property
    def format(self) -> FloatFormat:
        return FLOAT_FORMATS[self.type.expressed]

    def expected(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The integers or the bits of floats that are printed, and which are defined."""
        of, parsed = self.format.round, self.parsed
        parameters = parsed.parameters_on(self.values.shape)
        if self.rounding is None:
            floats = np.broadcast_to(parameters.read(self.values), self.values.shape)
            return self.format.round_to_bits(floats).astype(np.int64), ~np.isnan(floats)
        scales, zero_points = parameters.expand()
        with np.errstate(all="ignore"):
            quotients = of(of(self.values / scales) + of(zero_points.astype(np.float64)))
        width = parsed.storage_type.bitwidth
        least, greatest = integer_range(width, parsed.is_signed)
        if self.rounding is Rounding.UPSTREAM:
            whole = np.trunc(quotients)
            is_defined = (whole >= least) & (whole <= greatest)
        else:
            nearest = np.rint(quotients)
            if self.rounding is Rounding.NEAREST_AWAY:
                floor = np.floor(np.abs(quotients))
                with np.errstate(invalid="ignore"):
                    away = floor + (np.abs(quotients) - floor >= 0.5)
                nearest = np.where(np.isfinite(quotients), np.copysign(away, quotients), quotients)
            whole = np.where(np.isnan(quotients), -np.inf, nearest)
            is_defined = np.full(whole.shape, True)
        clipped = np.clip(
            np.where(is_defined, whole, least), parsed.storage_type_min, parsed.storage_type_max
        )
        return StorageFormat(width, signed=True).wrap(clipped.astype(np.int64)), is_defined

    def function(self, name: str) -> str:
        """The cast between integers and floats."""
        of, stored = self.type, self.type.of(self.type.stored)
        taken, made = (stored, of.floats) if self.rounding is None else (of.floats, stored)
        casts = ["quant.scast", "quant.dcast"]
        if self.rounding is not None:
            casts = ["quant.qcast", "quant.scast"]
        return (
            f"func.func @{name}(%0: {taken}) -> {made} {{\n"
            f"  %1 = {casts[0]} %0 : {taken} to {of.quantized}\n"
            f"  %2 = {casts[1]} %1 : {of.quantized} to {made}\n"
            f"  return %2 : {made}\n}}"
        )

    def call(self, name: str) -> list[str]:
        """Call the function and print what it returns, in a function of its own."""
        shape = "".join(f"{length}x" for length in self.values.shape)
        given, taken = self.type.expressed, self.type.stored
        if self.rounding is None:
            given, taken = taken, given
        static, declared = f"tensor<{shape}{given}>", self.type.of(given)
        result, made = f"tensor<{shape}{taken}>", self.type.of(taken)
        bits = f"i{WIDTHS[self.type.expressed]}" if self.rounding is None else taken
        lines = [f"%c{name} = arith.constant dense<{self._list()}> : {static}"]
        if self.type.shape is None:
            lines += [
                f"%a{name} = tensor.extract %c{name}[] : {static}",
                f"%b{name} = func.call @{name}(%a{name}) : ({declared}) -> {made}",
                f"%d{name} = tensor.from_elements %b{name} : {result}",
            ]
        else:
            lines += [
                f"%a{name} = tensor.cast %c{name} : {static} to {declared}",
                f"%b{name} = func.call @{name}(%a{name}) : ({declared}) -> {made}",
                f"%d{name} = tensor.cast %b{name} : {made} to {result}",
            ]
        whole = f"tensor<{shape}i64>"
        if self.rounding is None:
            cast = f"arith.bitcast %d{name} : {result} to tensor<{shape}{bits}>"
            lines.append(f"%e{name} = {cast}")
        else:
            lines.append(f"%e{name} = tensor.cast %d{name} : {result} to {result}")
        widen = "arith.extui" if self.rounding is None else "arith.extsi"
        if bits == "i64":
            lines.append(f"%f{name} = tensor.cast %e{name} : {whole} to {whole}")
        else:
            lines.append(f"%f{name} = {widen} %e{name} : tensor<{shape}{bits}> to {whole}")
        return [
            *lines,
            f"%g{name} = tensor.cast %f{name} : {whole} to tensor<*xi64>",
            f"func.call @printMemrefI64(%g{name}) : (tensor<*xi64>) -> ()",
        ]

    def _list(self) -> str:
        if self.rounding is None:
            items = [str(value) for value in self.values.ravel().tolist()]
        else:
            bits = self.format.round_to_bits(self.values).ravel().tolist()
            items = [f"0x{value:0{WIDTHS[self.type.expressed] // 4}X}" for value in bits]
        return nested(items, self.values.shape)


WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


@st.composite
def evaluations(draw: st.DrawFn, rounding: Rounding) -> Evaluation:
    type = draw(
        random_types(floats=tuple(WIDTHS), least_length=1).filter(
            # MLIR cannot copy the argument if it has no rank.
            lambda type: type.shape != "*x"
        )
    )
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    parsed, shape = parse_type(type.text), type.dims
    least, greatest = integer_range(parsed.storage_type.bitwidth, parsed.is_signed)
    codes = np.asarray(generator.integers(least, greatest, shape, endpoint=True))
    if draw(st.integers(0, 2)) == 0:
        signless = StorageFormat(parsed.storage_type.bitwidth, signed=True)
        return Evaluation(type, None, signless.wrap(codes))
    # Near a storage integer, halfway between two, or far away.
    of = parsed.expressed_format.round
    scales, zero_points = parsed.parameters_on(shape).expand()
    offsets = generator.choice([0.0, 0.5, -0.5, 0.49, 3.7], shape)
    with np.errstate(all="ignore"):
        values = of((codes + offsets - zero_points) * scales)
    if rounding is not Rounding.UPSTREAM:
        special = of(np.array([np.inf, -np.inf, np.nan, -0.0, 1e300, -1e300]))
        values = np.where(generator.random(shape) < 0.3, generator.choice(special, shape), values)
    return Evaluation(type, rounding, np.asarray(values, dtype=np.float64))


@needs_mlir_runner
@pytest.mark.parametrize("rounding", Rounding, ids=lambda rounding: rounding.value)
@examples(4, suppress_health_check=LARGE_EXAMPLES)
@given(data=st.data())
def test_lowered_casts_compute_what_numpy_does(file: Path, rounding: Rounding, data: st.DataObject):
    cases = [data.draw(evaluations(rounding)) for _ in range(16)]
    text = "\n".join(case.function(f"f{n}") for n, case in enumerate(cases))
    lowered = converted(file, text, f"--lower-quant-ops=rounding={rounding.value}")
    calls = [line for n, case in enumerate(cases) for line in case.call(f"f{n}")]
    results = run_main(lowered, calls, before=["--canonicalize"])
    for (shape, numbers), case in zip(results, cases, strict=True):
        expected, is_defined = case.expected()
        printed = np.array(list(map(int, numbers)), dtype=np.int64)
        assert shape == case.values.shape
        same = (printed == expected.ravel()) | ~is_defined.ravel()
        assert same.all(), (case, expected, printed)


# What MLIR refuses, or does not survive


Q = "!quant.uniform<i8:f32, 2.0:10>"
ANY = "!quant.any<i8:f32>"
UNSIGNED = "!quant.uniform<ui8:f32, 2.0:10>"
CALIBRATED = "!quant.calibrated<f32<-1.0:1.0>>"
ONE_BLOCK = "!quant.uniform<i8:f32:{}, {{2.0}}>"
S = f"tensor<2x2x{ONE_BLOCK}>"
ENCODED = 'tensor<2xf32, "e">'


def cast_text(name: str, taken: str, made: str) -> str:
    return f"""func.func @f(%a: {taken}) -> {made} {{
  %0 = quant.{name} %a : {taken} to {made}
  return %0 : {made}
}}"""


REFUSED = {
    "qcast to any": ("lower-quant-ops", cast_text("qcast", "f32", ANY), 2, "has no scale"),
    "dcast of any, which crashes": (
        "lower-quant-ops",
        cast_text("dcast", ANY, "f32"),
        2,
        "has no scale",
    ),
    "qcast to calibrated": (
        "lower-quant-ops",
        cast_text("qcast", "f32", CALIBRATED),
        2,
        "has no scale",
    ),
    "unsigned storage": (
        "lower-quant-ops",
        cast_text("qcast", "f32", UNSIGNED),
        2,
        "it stores 'ui8', but quant.scast reads signless integers",
    ),
    "qcast of an encoding": (
        "lower-quant-ops",
        cast_text("qcast", ENCODED, f'tensor<2x{Q}, "e">'),
        2,
        "the arithmetic would drop the encoding",
    ),
    "dcast to an encoding": (
        "lower-quant-ops",
        cast_text("dcast", "tensor<2x!quant.uniform<i8:f32:0, {2.0,1.0}>>", ENCODED),
        2,
        "the arithmetic would drop the encoding",
    ),
    "calibrated in a signature": (
        "strip-func-quant-types",
        f"func.func private @f({CALIBRATED})",
        1,
        "explicitly marked illegal: '!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>' has no",
    ),
    "calibrated in a tensor, which crashes": (
        "strip-func-quant-types",
        f"func.func private @f() -> tensor<2x{CALIBRATED}>",
        1,
        "has no storage type",
    ),
    "arguments of a block": (
        "strip-func-quant-types",
        f"func.func @f(%a: {Q}) {{\n  cf.br ^bb1(%a : {Q})\n^bb1(%b: {Q}):\n  return\n}}",
        1,
        "a block that is not the first one has quantized arguments",
    ),
    "return that nothing leads to": (
        "strip-func-quant-types",
        f"func.func @f(%a: {Q}) -> {Q} {{\n  return %a : {Q}\n^bb1:\n  return %a : {Q}\n}}",
        4,
        "its block is unreachable",
    ),
    "call that nothing leads to": (
        "strip-func-quant-types",
        f"func.func @f(%a: {Q}) {{\n  return\n^bb1:\n  call @f(%a) : ({Q}) -> ()\n  return\n}}",
        4,
        "its block is unreachable",
    ),
    "stripped function as a value": (
        "strip-func-quant-types",
        f"func.func @f(%a: {Q}) {{\n"
        f'  %0 = "func.constant"() <{{value = @f}}> : () -> (({Q}) -> ())\n  return\n}}',
        2,
        "'func.constant' op reference to function with mismatched type",
    ),
    "unsigned storage in a cast": (
        "strip-func-quant-types",
        f'func.func @f(%a: {UNSIGNED}) {{\n  "test.use"(%a) : ({UNSIGNED}) -> ()\n  return\n}}',
        2,
        "'quant.scast' op operand #0 must be scalar or tensor of signless integer",
    ),
    "branch, which crashes": (
        "normalize-quant-types",
        f"func.func @f(%a: {S}) {{\n  cf.br ^bb1(%a : {S})\n^bb1(%b: {S}):\n  return\n}}",
        2,
        "'cf.br' op cannot be normalized: it branches with values whose types change",
    ),
    "normalized return that nothing leads to": (
        "normalize-quant-types",
        f"func.func @f(%a: {S}) -> {S} {{\n  return %a : {S}\n^bb1:\n  return %a : {S}\n}}",
        4,
        "its block is unreachable",
    ),
    "use that nothing leads to": (
        "normalize-quant-types",
        f'func.func @f(%a: {S}) {{\n  return\n^bb1:\n  "test.use"(%a) : ({S}) -> ()\n  return\n}}',
        4,
        "its block is unreachable",
    ),
    "scalars of a region": (
        "normalize-quant-types",
        f"""func.func @f(%a: {S}) -> {S} {{
  %e = tensor.empty() : {S}
  %0 = linalg.transpose ins(%a : {S}) outs(%e : {S}) permutation = [1, 0]
  return %0 : {S}
}}""",
        3,
        "the scalars of its region are not converted",
    ),
    "call of a function value": (
        "normalize-quant-types",
        f"func.func @f(%a: {S}, %b: ({S}) -> ()) {{\n"
        f'  "func.call_indirect"(%b, %a) : (({S}) -> (), {S}) -> ()\n  return\n}}',
        2,
        "the types inside the type of a function are not converted",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(file: Path, name: str):
    flag, text, line, message = REFUSED[name]
    status, printed, errors = opt(file, text, f"--{flag}")
    assert status == 1
    assert not printed
    assert f"{file}:{line}:" in errors
    assert message in errors


@needs_mlir_opt
@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_mlir(name: str):
    """It refuses the same, but crashes where we say so."""
    flag, text, _, _ = REFUSED[name]
    done = subprocess.run([*GENERIC, f"--{flag}"], input=text, capture_output=True, text=True)
    assert (done.returncode < 0) is name.endswith("which crashes")
    assert done.returncode != 0


def test_constants_that_xdsl_lacks(file: Path):
    text = cast_text("qcast", "f80", "!quant.uniform<i8:f80, 2.0>")
    status, _, errors = opt(file, text, "--lower-quant-ops")
    assert status == 1
    assert "there are no constants of type 'f80'" in errors


def test_nothing_is_changed_if_a_function_is_refused():
    good = cast_text("qcast", "f32", Q).replace("@f", "@g")
    module = Parser(ToolContext(), f"{good}\n{cast_text('dcast', ANY, 'f32')}").parse_module()
    before = str(module)
    with pytest.raises(OpErrors, match="has no scale"):
        LowerQuantOpsPass().apply(ToolContext(), module)
    assert str(module) == before


def test_unknown_rounding():
    with pytest.raises(ValueError, match="rounding must be one of upstream, nearest-even"):
        LowerQuantOpsPass(rounding="up")


@needs_mlir_opt
def test_larger_blocks_are_not_taken_for_positions(file: Path):
    """MLIR makes a per-axis type of them, of fewer scales than positions, and then refuses it."""
    text = cast_text("qcast", "tensor<4xf32>", "tensor<4x!quant.uniform<i8:f32:{0:2}, {2.0,1.0}>>")
    flag = "--normalize-quant-types"
    assert run(GENERIC, converted(file, text, flag)) == run(GENERIC, text)
    done = subprocess.run([*GENERIC, flag], input=text, capture_output=True, text=True)
    assert "quantized dimension size does not match number of scales" in done.stderr


@pytest.mark.parametrize(
    "flag", ["--lower-quant-ops", "--normalize-quant-types", "--strip-func-quant-types"]
)
def test_users_of_many_values_take_them_at_once(file: Path, flag: str):
    """Replaced one by one, ten thousand operands take ten thousand times as long."""
    count = 200
    types = ", ".join([S] * count)
    values = [f"%v{n}" for n in range(count)]
    taken = ", ".join(f"{value}: {S}" for value in values)
    casts = [f"%w{n} = quant.dcast %v{n} : {S} to tensor<2x2xf32>" for n in range(count)]
    used = ", ".join(f"%w{n}" for n in range(count))
    floats = ", ".join(["tensor<2x2xf32>"] * count)
    lines, all_values = "\n  ".join(casts), ", ".join(values)
    text = f"""func.func @f({taken}) {{
  {lines}
  "test.use"({all_values}) : ({types}) -> ()
  "test.use"({used}) : ({floats}) -> ()
  return
}}"""
    printed = converted(file, text, flag)
    assert printed.count("test.use") == 2


def test_circle_of_casts(file: Path):
    """In a graph region, casts may undo each other."""
    text = f"""func.func @f() {{
  "test.graph"() ({{
    %0 = quant.dcast %1 : {Q} to f32
    %1 = quant.qcast %0 : f32 to {Q}
  }}) : () -> ()
  return
}}"""
    for flag in ("--lower-quant-ops", "--strip-func-quant-types"):
        status, _, errors = opt(file, text, flag)
        assert status == 0, errors
