"""Batched runs of functions give the same results as running the arguments one by one."""

from __future__ import annotations

import pytest
from checked_modules import findings, grounds, read
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from qdialect.check.compared_modules import ComparedModule
from qdialect.check.interpreters import DealtArguments
from qdialect.check.sampled_runs import (
    _Runner,  # pyright: ignore[reportPrivateUsage]
    run_batches,
    steps_for,
)
from qdialect.check.step_budget import StepBudget

pytestmark = pytest.mark.usefixtures("without_plugins")

TWO_BYTES = """
func.func @f(%x: i8, %y: i8) -> i1 {
  %a = arith.constant 77 : i8
  %b = arith.constant -31 : i8
  %0 = arith.cmpi eq, %x, %a : i8
  %1 = arith.cmpi eq, %y, %b : i8
  %2 = arith.andi %0, %1 : i1
  return %2 : i1
}
"""

FOUR_CODES = """
!q = !quant.uniform<i4:f32, 0.5:1>
func.func private @is_zero(%x: !q) -> i1 {
  %z = arith.constant 0.0 : f32
  %0 = quant.dcast %x : !q to f32
  %1 = arith.cmpf oeq, %0, %z : f32
  return %1 : i1
}
func.func @f(%x: !q, %y: !q, %z: !q, %u: !q) -> i1 {
  %0 = call @is_zero(%x) : (!q) -> i1
  %1 = call @is_zero(%y) : (!q) -> i1
  %2 = call @is_zero(%z) : (!q) -> i1
  %3 = quant.scast %u : !q to i4
  %c = arith.constant 3 : i4
  %4 = arith.cmpi eq, %3, %c : i4
  %5 = arith.andi %0, %1 : i1
  %6 = arith.andi %2, %4 : i1
  %7 = arith.andi %5, %6 : i1
  return %7 : i1
}
"""

BRANCHES = """
func.func @f(%x: i8, %y: i8) -> i8 {
  %a = arith.constant 77 : i8
  %b = arith.constant 5 : i8
  %c = arith.constant -31 : i8
  %0 = arith.cmpi eq, %x, %a : i8
  %1 = scf.if %0 -> (i8) {
    %2 = arith.cmpi eq, %y, %c : i8
    %3 = scf.if %2 -> (i8) {
      scf.yield %b : i8
    } else {
      scf.yield %x : i8
    }
    scf.yield %3 : i8
  } else {
    scf.yield %y : i8
  }
  return %1 : i8
}
"""

BLOCKS = """
func.func @f(%x: i8, %y: i8) -> i8 {
  %a = arith.constant 77 : i8
  %0 = arith.cmpi slt, %x, %a : i8
  cf.cond_br %0, ^bb1(%x : i8), ^bb2(%y : i8)
^bb1(%p: i8):
  %c = arith.constant 1 : i8
  %1 = arith.subi %p, %y : i8
  cf.br ^bb3(%1 : i8)
^bb2(%q: i8):
  cf.br ^bb3(%q : i8)
^bb3(%r: i8):
  return %r : i8
}
"""

SWITCH = """
func.func @f(%x: i8, %y: i8) -> i8 {
  %i = arith.index_cast %x : i8 to index
  %0 = scf.index_switch %i -> i8
  case 3 {
    scf.yield %y : i8
  }
  case 77 {
    %a = arith.constant 4 : i8
    scf.yield %a : i8
  }
  default {
    scf.yield %x : i8
  }
  return %0 : i8
}
"""

LOOP = """
func.func @f(%x: i4, %y: i8) -> i8 {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = arith.index_cast %x : i4 to index
  %0 = scf.for %i = %zero to %n step %one iter_args(%a = %y) -> (i8) {
    %k = arith.index_cast %i : index to i8
    %s = arith.addi %a, %k : i8
    scf.yield %s : i8
  }
  return %0 : i8
}
"""

TENSORS = """
func.func @f(%x: tensor<2xi4>, %y: tensor<2xi4>) -> tensor<2xi4> {
  %c = arith.constant dense<[7, 2]> : tensor<2xi4>
  %0 = arith.maxsi %x, %c : tensor<2xi4>
  %1 = arith.minsi %y, %c : tensor<2xi4>
  %2 = arith.addi %0, %1 : tensor<2xi4>
  return %2 : tensor<2xi4>
}
"""

HALF = """
func.func @f(%x: f16) -> f16 {
  %c = arith.constant 1.087890625 : f16
  %d = arith.constant 1.0 : f16
  %0 = arith.cmpf oeq, %x, %c : f16
  %1 = arith.select %0, %d, %x : f16
  return %1 : f16
}
"""

QUOTIENT = """
func.func @f(%x: i8, %y: i8) -> i8 {
  %c = arith.constant 99 : i8
  %0 = arith.divui %x, %y : i8
  %1 = arith.cmpi eq, %0, %c : i8
  %2 = arith.select %1, %x, %0 : i8
  return %2 : i8
}
"""

WHILE = """
func.func @f(%x: i4) -> i4 {
  %one = arith.constant 1 : i4
  %0 = scf.while (%a = %x) : (i4) -> i4 {
    %c = arith.constant 5 : i4
    %1 = arith.cmpi slt, %a, %c : i4
    scf.condition(%1) %a : i4
  } do {
  ^bb0(%b: i4):
    %2 = arith.addi %b, %one : i4
    scf.yield %2 : i4
  }
  return %0 : i4
}
"""

PLANTED = {
    "one of 65536 pairs": (TWO_BYTES, "-31", "-30"),
    "the other one": (TWO_BYTES, "77", "76"),
    "one of 65536 fours, behind calls and casts": (FOUR_CODES, "constant 3", "constant 4"),
    "a zero point": (FOUR_CODES, "0.5:1>", "0.5:2>"),
    "below two branches": (BRANCHES, "constant 5", "constant 6"),
    "a branch that is taken once": (BRANCHES, "-31", "-30"),
    "one of two ways": (BLOCKS, "constant 77", "constant 76"),
    "one case of many": (SWITCH, "constant 4", "constant 5"),
    "the number of one case": (SWITCH, "case 77", "case 78"),
    "a loop that is run as often as an argument says": (LOOP, "constant 1 ", "constant 2 "),
    "a loop that ends later": (WHILE, "constant 5", "constant 6"),
    "one element of a tensor": (TENSORS, "[7, 2]", "[7, 1]"),
    "one of 65536 floats": (HALF, "constant 1.0 ", "constant 2.0 "),
    "where the result is not always defined": (QUOTIENT, "constant 99", "constant 98"),
}


@pytest.mark.parametrize(("before", "old", "new"), PLANTED.values(), ids=PLANTED)
def test_a_difference_in_any_combination_is_found(before: str, old: str, new: str):
    assert old in before
    assert findings(before, read(before.replace(old, new)))


OTHER_FORM = {
    TWO_BYTES: ("%2 = arith.andi %0, %1", "%2 = arith.muli %1, %0"),
    FOUR_CODES: ("%7 = arith.andi %5, %6", "%7 = arith.minui %5, %6"),
    BRANCHES: ("arith.cmpi eq, %y, %c", "arith.cmpi eq, %c, %y"),
    BLOCKS: ("arith.cmpi slt, %x, %a", "arith.cmpi sgt, %a, %x"),
    SWITCH: ("%a = arith.constant 4", "%b = arith.constant 2 : i8\n%a = arith.addi %b, %b"),
    LOOP: ("arith.addi %a, %k", "arith.addi %k, %a"),
    WHILE: ("arith.addi %b, %one", "arith.addi %one, %b"),
    TENSORS: ("arith.addi %0, %1", "arith.addi %1, %0"),
    HALF: ("arith.cmpf oeq, %x, %c", "arith.cmpf oeq, %c, %x"),
}


@pytest.mark.parametrize(("before", "replaced"), OTHER_FORM.items())
def test_all_combinations_are_grounds(before: str, replaced: tuple[str, str]):
    after = read(before.replace(*replaced))
    assert findings(before, after) == []
    counts = {WHILE: 1 << 4, LOOP: 1 << 12}
    assert f"run with all {counts.get(before, 1 << 16)} inputs" in grounds(before, after)


def test_what_is_not_defined_before_need_not_be_alike():
    after = QUOTIENT.replace("eq, %0, %c", "eq, %c, %0")
    assert grounds(QUOTIENT, read(after)) == {f"run with {255 << 8} of its inputs"}
    fewer = QUOTIENT.replace("%0 = arith.divui %x, %y", "%z = arith.constant 1 : i8\n").replace(
        "%z = arith.constant 1 : i8\n",
        "%z = arith.constant 1 : i8\n%t = arith.maxui %y, %z : i8\n%0 = arith.divui %x, %t",
    )
    assert grounds(QUOTIENT, read(fewer)) == {f"run with {255 << 8} of its inputs"}
    assert findings(fewer, read(QUOTIENT))


def test_what_is_never_defined_is_not_the_same():
    text = """
    func.func @f(%x: i8, %y: i8) -> i8 {
      %z = arith.constant 0 : i8
      %0 = arith.divsi %x, %z : i8
      return %0 : i8
    }"""
    (message,) = findings(text, read(text.replace("divsi %x", "divsi %y")))
    assert "division by zero" in message


@pytest.mark.parametrize(
    "body",
    [
        "%c = arith.constant 0 : index\n%0 = tensor.extract %x[%c] : tensor<2xi4>",
        "%e = tensor.from_elements %y, %y : tensor<2xi4>\n%c = arith.constant 0 : index\n"
        "%0 = tensor.extract %e[%c] : tensor<2xi4>",
        "%0 = func.call @other(%y) : (i4) -> i4",
    ],
)
def test_ops_that_look_at_other_positions_are_run_one_by_one(body: str):
    text = (
        "func.func private @other(i4) -> i4\n"
        f"func.func @f(%x: tensor<2xi4>, %y: i4) -> i4 {{\n{body}\nreturn %0 : i4\n}}"
    )
    side = ComparedModule(*read(text))
    assert steps_for(side, side.functions["f"], 1 << 12) is None


BINARY_INTEGERS = ("addi", "muli", "divsi", "remui", "shli", "maxsi", "xori", "floordivsi")


@st.composite
def scalar_functions(draw: st.DrawFn) -> str:
    """A function of two codes of 2 bits that branches, and may be undefined for some of them."""
    lines = ["%a0 = quant.scast %x : !q to i2", "%a1 = quant.scast %y : !q to i2"]
    count = 2
    for _ in range(draw(st.integers(1, 6))):
        one, other = (draw(st.integers(0, count - 1)) for _ in range(2))
        name = draw(st.sampled_from(BINARY_INTEGERS))
        made = f"arith.{name} %a{one}, %a{other} : i2"
        if draw(st.booleans()):
            predicate = draw(st.sampled_from(["eq", "slt", "ugt"]))
            lines.append(f"%c{count} = arith.cmpi {predicate}, %a{one}, %a{other} : i2")
            lines.append(
                f"%a{count} = scf.if %c{count} -> (i2) {{\n%t = {made}\nscf.yield %t : i2\n}} "
                f"else {{\nscf.yield %a{other} : i2\n}}"
            )
        else:
            lines.append(f"%a{count} = {made}")
        count += 1
    lines.append(f"%r = quant.scast %a{count - 1} : i2 to !q")
    lines.append("%d = quant.dcast %r : !q to f32")
    body = "\n".join(lines)
    return f"""
    !q = !quant.uniform<i2:f32, 0.5:1>
    func.func @f(%x: !q, %y: !q) -> (f32, i2) {{
    {body}
    return %d, %a{count - 1} : f32, i2
    }}"""


@settings(max_examples=30)
@given(scalar_functions(), scalar_functions())
def test_batches_are_what_single_runs_are(before: str, after: str):
    sides = [ComparedModule(*read(text)) for text in (before, after)]
    functions = [side.functions["f"] for side in sides]
    old, new = (
        _Runner(side, function, StepBudget(1 << 40, "runs"))
        for side, function in zip(sides, functions, strict=True)
    )
    sets = DealtArguments(functions[0].function_type, max_combinations=1 << 16)
    assert sets.is_exhaustive
    found = run_batches(sets, (old.run_batch, new.run_batch))
    # Where too few sets have a result, they are run one by one.
    assume(found is not None)
    assert found is not None
    for number, arguments in enumerate(sets):
        results: list[list[bytes] | None] = []
        for runner in (old, new):
            try:
                results.append([value.elements.tobytes() for value in runner.run(arguments)])
            except Exception:
                results.append(None)
        assert found.undefined[number] == (results[0] is None)
        assert found.alike[number] == (results[0] is not None and results[0] == results[1])


@pytest.mark.parametrize(
    ("name", "ground"), [("exp", "run with 2 of its inputs"), ("floor", "run with all 2 inputs")]
)
def test_what_is_rounded_is_no_proof(name: str, ground: str):
    """Even for all inputs: a compiler may compute it otherwise."""
    text = """
      func.func @f(%x: i1) -> f32 {{
        %0 = arith.uitofp %x : i1 to f32
        %1 = math.{name} {operand} : f32
        return %1 : f32
      }}"""
    once = text.format(name=name, operand="%0")
    twice = once.replace("%1 =", "%n = arith.negf %0 : f32\n%m = arith.negf %n : f32\n%1 =")
    assert grounds(once, read(twice.replace(f"{name} %0", f"{name} %m"))) == {ground}
